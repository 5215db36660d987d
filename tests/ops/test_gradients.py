"""Gradients of every differentiable method against central differences, twice; ties, zeros and edges.

First derivatives: for random weights of the results and random directions, the slope along a direction
equals the inner product of gradient and direction. Second derivatives: the same for the gradient itself.
All in float64, on the PYTHON device, which compiles nothing; `tests/oracle` compares with PyTorch on the
default device.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest
from tests.ops.table_gradients import CONSTANT, OTHER, ROWS, Row

from tinygrad import Tensor, UOp
from tinygrad.device import Device

STEP = 1e-5


@pytest.fixture(autouse=True)
def interpreted():
    """Everything runs on the interpreter: small and different each time, so compiling would be the cost."""
    before, Device.DEFAULT = Device.DEFAULT, "PYTHON"
    yield
    Device.DEFAULT = before


def drawn(row: Row) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(str(row).encode()))
    return [rng.uniform(low, high, shape) for shape, low, high in row.inputs]


class Weighted:
    """The row's function, made a number by weights of its results."""

    def __init__(self, row: Row, seed: int):
        self.fn, self.rng, self.weights = row.fn, np.random.default_rng(seed), None

    def __call__(self, *tensors: Tensor) -> Tensor:
        out = self.fn(*tensors)
        if self.weights is None:
            self.weights = self.rng.uniform(0.5, 1.5, out.shape)
        return (out * Tensor(self.weights)).sum()


def along(arrays, directions, amount: float) -> list[Tensor]:
    return [Tensor(a + amount * d) for a, d in zip(arrays, directions)]


def inner(grads, directions) -> float:
    return sum(float((g.numpy() * d).sum()) for g, d in zip(grads, directions))


def gradients(value: Tensor, tensors) -> list[Tensor]:
    return value.gradient(*tensors, materialize_grads=True)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_first_derivative(row):
    arrays = drawn(row)
    f = Weighted(row, 1)
    tensors = [Tensor(a) for a in arrays]
    grads = gradients(f(*tensors), tensors)
    for a, g in zip(arrays, grads):
        assert g.shape == a.shape and g.dtype == tensors[0].dtype
    rng = np.random.default_rng(2)
    for _ in range(2):
        directions = [rng.normal(size=a.shape) for a in arrays]
        ends = [f(*along(arrays, directions, s * STEP)).item() for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(inner(grads, directions), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("row", [r for r in ROWS if r.second], ids=str)
def test_second_derivative(row):
    """Of the gradient's inner product with a fixed direction: Hessian times vector."""
    arrays = drawn(row)
    f = Weighted(row, 1)
    rng = np.random.default_rng(3)
    fixed, moved = ([rng.normal(size=a.shape) for a in arrays] for _ in range(2))

    def slope(tensors) -> Tensor:
        grads = gradients(f(*tensors), tensors)
        return sum((g * Tensor(d)).sum() for g, d in zip(grads, fixed))

    tensors = [Tensor(a) for a in arrays]
    grads = gradients(slope(tensors), tensors)
    ends = [slope(along(arrays, moved, s * STEP)).item() for s in (1, -1)]
    want = (ends[0] - ends[1]) / (2 * STEP)
    np.testing.assert_allclose(inner(grads, moved), want, rtol=1e-6, atol=1e-6)


def test_every_public_method_is_in_a_row_or_a_list():
    public = {n for n in dir(Tensor) if not n.startswith("_")}
    rows = {r.method for r in ROWS} - {"getitem", "setitem"}
    named = rows | CONSTANT | OTHER
    assert named == public, f"not here: {public - named}, no method: {named - public}"
    assert not rows & (CONSTANT | OTHER) and not CONSTANT & OTHER


# ---------------------------------------------------------------- where it is not smooth

INF, NAN = math.inf, math.nan

# what it is of, inputs, and the gradient of the sum of the results for each of them
EDGES = {
    "relu": (Tensor.relu, [[0.0, -0.0, 1.0, -INF, INF]], [[0, 0, 1, 0, 1]]),
    "abs": (Tensor.abs, [[0.0, -0.0, 2.0, -INF]], [[0, 0, 1, -1]]),
    "clip at its ends": (lambda x: x.clip(-1, 1), [[-1.0, 1, 0, 2, -2]], [[1, 1, 1, 0, 0]]),
    "relu6": (Tensor.relu6, [[0.0, 3, 7, INF]], [[0, 1, 0, 0]]),
    "elu": (Tensor.elu, [[0.0, 1000, -1000, INF, -INF]], [[1, 1, 0, 1, 0]]),
    "celu": (Tensor.celu, [[0.0, 1000, -1000]], [[1, 1, 0]]),
    "maximum of equals": (Tensor.maximum, [[1.0, 2, 0], [1.0, 1, 3]], [[0.5, 1, 0], [0.5, 0, 1]]),
    "minimum of equals": (Tensor.minimum, [[1.0, 2, 0], [1.0, 1, 3]], [[0.5, 0, 1], [0.5, 1, 0]]),
    "max of equals": (Tensor.max, [[1.0, 3, 3, 2]], [[0, 0.5, 0.5, 0]]),
    "min of equals": (Tensor.min, [[1.0, 3, 1, 2]], [[0.5, 0, 0.5, 0]]),
    "max of all equal": (lambda x: x.max(1), [[[2.0, 2], [1, 3]]], [[[0.5, 0.5], [0, 1]]]),
    "max of infinities": (Tensor.max, [[-INF, -INF]], [[0.5, 0.5]]),
    "max pool of equals": (
        lambda x: x.reshape(1, 1, 1, 4).max_pool2d((1, 2), 1), [[1.0, 1, 0, 0]], [[0.5, 1.5, 0.5, 0.5]],
    ),
    "sqrt": (Tensor.sqrt, [[0.0, 4]], [[INF, 0.25]]),
    "std of equals": (Tensor.std, [[1.0, 1, 1]], [[0, 0, 0]]),
    "log": (Tensor.log, [[0.0, 2]], [[INF, 0.5]]),
    "square root of squares": (lambda x: x.square().sum().sqrt(), [[3.0, 4]], [[0.6, 0.8]]),
    "pow 0": (lambda x: x**0, [[0.0, -1, INF, NAN]], [[0, 0, 0, 0]]),
    "pow 1": (lambda x: x**1, [[0.0, -1]], [[1, 1]]),
    "pow 2": (lambda x: x**2, [[0.0, -1]], [[0, -2]]),
    "pow of tensors": (
        Tensor.pow, [[0.0, 0, 0, 2, -2], [0.0, 2, 1, 0, 2]], [[0, 0, 1, 0, -4], [0, 0, 0, 0.69314718, NAN]],
    ),
    "prod with a zero": (Tensor.prod, [[0.0, 2, 3]], [[6, 0, 0]]),
    "prod with two": (Tensor.prod, [[0.0, 0, 3]], [[0, 0, 0]]),
    "cumprod with zeros": (lambda x: x.cumprod(0), [[1.0, 0, 3, 0, 2]], [[1, 4, 0, 0, 0]]),
    "cumprod from a zero": (lambda x: x.cumprod(0), [[0.0, 2, 3]], [[9, 0, 0]]),
    "branch not taken": (lambda x: (x > 0).where(x.log(), x * 2), [[2.0, -1]], [[0.5, 2]]),
    "softmax": (lambda x: x.softmax()[0], [[-INF, 0, 0]], [[0, 0, 0]]),
    "logsumexp": (Tensor.logsumexp, [[-INF, 0.0, 0.0]], [[0, 0.5, 0.5]]),
    "sigmoid": (Tensor.sigmoid, [[0.0, 100, -100, INF, -INF, 1000, -1000]], [[0.25, 0, 0, 0, 0, 0, 0]]),
    "softplus": (Tensor.softplus, [[0.0, 100, -200, INF, -INF]], [[0.5, 1, 0, 1, 0]]),
    "logsigmoid": (Tensor.logsigmoid, [[0.0, 200, -100, -1000]], [[0.5, 0, 1, 1]]),
    "tanh": (Tensor.tanh, [[0.0, 100, -100, INF]], [[1, 0, 0, 0]]),
    "silu": (Tensor.silu, [[0.0, 100, -1000]], [[0.5, 1, 0]]),
    "gelu": (Tensor.gelu, [[0.0, 100, -100]], [[0.5, 1, 0]]),
    "mish": (Tensor.mish, [[0.0, 100, -1000]], [[0.6, 1, 0]]),
    "erf": (Tensor.erf, [[0.0, 10, -10, INF]], [[2 / math.sqrt(math.pi), 0, 0, 0]]),
    "asin": (Tensor.asin, [[0.0, 1, 0.6]], [[1, INF, 1.25]]),
    "acos": (Tensor.acos, [[0.0, 1, 0.6]], [[-1, -INF, -1.25]]),
    "atan": (Tensor.atan, [[0.0, 1, 1e30, -INF]], [[1, 0.5, 0, 0]]),
    "asinh": (Tensor.asinh, [[0.0, 1e10, -1e30]], [[1, 1e-10, 0]]),
    "atanh": (Tensor.atanh, [[0.0, 1, -1]], [[1, INF, INF]]),
    "sign": (lambda x: x.sign() * 3 + x, [[0.0, 1, -1]], [[1, 1, 1]]),
    "round": (lambda x: x.round() + x, [[0.5, 1.5]], [[1, 1]]),
    "mod": (lambda x, y: x % y, [[5.0, -5], [3.0, 3]], [[1, 1], [-1, 2]]),
    "certain probabilities": (
        lambda p: p.binary_crossentropy(Tensor([0.0, 1.0, 0.0]).double(), "sum"), [[0.0, 1, 0.5]], [[1, -1, 2]],
    ),
    "repeated positions": (lambda x: x[Tensor([1, 1, 0, 1])], [[5.0, 6, 7]], [[1, 3, 0]]),
    "positions out of range": (lambda x: x[Tensor([9, -9, 2])], [[5.0, 6, 7]], [[0, 0, 1]]),
    "overwritten twice": (
        lambda x, s: x.scatter(0, Tensor([1, 1]), s), [[5.0, 6, 7], [1.0, 2]], [[1, 0, 1], [0, 1]],
    ),
    "sort": (lambda x: x.sort()[0] * Tensor([1.0, 2, 3]), [[3.0, 1, 2]], [[3, 1, 2]]),
    "cast to integers": (lambda x: x.int().double() + x, [[1.5, 2.5]], [[1, 1]]),
    "cast chain": (lambda x: x.half().float().double() * 2, [[1.5, 2.5]], [[2, 2]]),
    "detach": (lambda x: x.detach() * x, [[2.0, 3]], [[2, 3]]),
    "empty": (lambda x: x[:0].sum() + x.sum(), [[1.0, 2]], [[1, 1]]),
    "empty max": (lambda x: x.reshape(2, 1)[:, :0].sum() + x.max(), [[1.0, 2]], [[0, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    fn, inputs, slopes = EDGES[name]
    tensors = [Tensor(np.array(x)) for x in inputs]
    for got, want in zip(gradients(fn(*tensors).sum(), tensors), slopes):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-12)


# ---------------------------------------------------------------- the rules of backward


def test_targets_seeds_and_what_is_not_used():
    x, y, unused = Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), Tensor([5.0])
    seed = Tensor([10.0, 100.0])
    found = (x * y).gradient(x, y, unused, x, gradient=seed, materialize_grads=True)
    assert [g.tolist() for g in found] == [[30, 400], [10, 200], [0], [30, 400]]
    with pytest.raises(RuntimeError, match="does not depend"):
        (x * y).sum().gradient(unused)
    with pytest.raises(RuntimeError, match="shape"):
        (x * y).gradient(x, gradient=Tensor([1.0]))
    with pytest.raises(RuntimeError, match="scalar"):
        (x * y).gradient(x)
    with pytest.raises(RuntimeError, match="float"):
        (x * y).sum().gradient(Tensor([1, 2]))


def test_of_itself_and_of_what_is_in_between():
    x = Tensor([2.0])
    y = x * 3
    z = (y * y).sum()
    assert [g.tolist() for g in z.gradient(z, y, x)] == [1.0, [12.0], [36.0]]


def test_backward_adds_up_and_keeps_the_graph():
    x = Tensor([1.0, 2.0], requires_grad=True)
    y, z = (x * x).sum(), (x * 3).sum()
    assert y.backward() is y
    y.backward()
    z.backward()
    assert x.grad.tolist() == [2 * 2 + 3, 4 * 2 + 3]
    x.grad = None
    (x * x).backward(Tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]


def test_who_gets_a_gradient():
    a, b = Tensor([1.0], requires_grad=True), Tensor([2.0], requires_grad=False)
    c = Tensor([3.0])
    (a * b * c).sum().backward()
    assert a.grad.tolist() == [6.0] and b.grad is None and c.grad is None
    assert (a * b).requires_grad is True and (b + 1).requires_grad is False
    assert (b * c).requires_grad is None and a.detach().requires_grad is False
    assert c.requires_grad_() is c and c.requires_grad is True
    assert (a > 0).sum().requires_grad is True or (a > 0).sum().requires_grad is None


def test_one_tensor_used_many_times():
    x = Tensor([2.0], requires_grad=True)
    (x * x * x + x.exp().log() + x.reshape(1, 1).sum()).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [14.0], rtol=1e-6)


def test_gradient_of_gradient_of_gradient():
    x = Tensor(np.array([1.5]))
    y = (x**4).sum()
    for want in (4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0):
        y = y.gradient(x)[0].sum()
        np.testing.assert_allclose(y.item(), want, rtol=1e-12)


def test_a_function_of_the_users_own():
    def doubled(out, x):
        i = UOp.range(out.size, 0)
        return out[i].store(x[i] * 2).end(i).sink()

    def slope(gradient, kernel):
        return None, gradient * 2

    x = Tensor([1.0, 2.0], requires_grad=True)
    out = Tensor.empty(2).custom_kernel(x, fxn=doubled, grad_fxn=slope)[0]
    (out * Tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 20.0]
    plain = Tensor.empty(2).custom_kernel(x, fxn=doubled)[0]
    with pytest.raises(RuntimeError, match="grad_fxn"):
        plain.sum().backward()


def test_a_written_tensor_that_wants_a_gradient_itself_is_refused():
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(NotImplementedError):
        w[0] = 5
    plain = Tensor([1.0, 2.0, 3.0]).realize()
    with pytest.raises(NotImplementedError):
        plain[0:1] = w[0:1]
    assert w.tolist() == plain.tolist() == [1.0, 2.0, 3.0]


def test_sizes_of_zero_have_gradients():
    for fn in (Tensor.sum, lambda x: x.softmax(-1).sum(), lambda x: (x @ x.T).sum(), Tensor.prod):
        x = Tensor.ones(0, 3)
        assert fn(x).gradient(x, materialize_grads=True)[0].shape == (0, 3)


def test_reading_a_tensor_leaves_its_gradient():
    x = Tensor([1.5, 2.0])
    y = (x * x).sum()
    assert y.item() == 6.25
    assert y.gradient(x)[0].tolist() == [3.0, 4.0]
