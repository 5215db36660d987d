"""Tensors whose shapes hold variables: the same numbers as with the values written out, from one kernel for all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygrad import Context, Tensor, TinyJit, Variable
from tinygrad.engine.realize import method_cache
from tinygrad.engine.schedule import schedule_cache

_RNG = np.random.default_rng(7)
A, B, V, W = (
    _RNG.integers(-3, 4, shape).astype(np.float32)
    for shape in ((8, 16), (16, 8), (16,), (4, 2, 3, 3))
)
IMAGE = _RNG.integers(-3, 4, (1, 2, 16, 16)).astype(np.float32)


def bound(n: int, low: int = 1, high: int = 16, name: str = "n"):
    return Variable(name, low, high).bind(n)


@pytest.fixture(scope="module")
def t() -> dict[str, Tensor]:
    return {
        k: Tensor(x).realize()
        for k, x in (("a", A), ("b", B), ("v", V), ("image", IMAGE), ("w", W))
    }


# of the tensors and a size, which is a number or a bound variable
PROGRAMS: dict[str, Callable] = {
    "sum": lambda a, b, v, n: v[:n].sum(),
    "rest": lambda a, b, v, n: v[n:].sum(),
    "rows": lambda a, b, v, n: b[:n].sum(0),
    "maximum": lambda a, b, v, n: a[:, :n].max(1),
    "product": lambda a, b, v, n: a[:, :n].prod(1),
    "variance": lambda a, b, v, n: a[:, : n + 0].var(1, correction=0),
    "argmax": lambda a, b, v, n: a[:, :n].argmax(1),
    "argmin": lambda a, b, v, n: a[:, :n].argmin(1),
    "softmax": lambda a, b, v, n: (a[:, :n].softmax(-1) * v[:n]).sum(-1),
    "log softmax": lambda a, b, v, n: a[:, :n].log_softmax(-1).sum(-1),
    "layer norm": lambda a, b, v, n: (a[:, :n].layernorm() * v[:n]).sum(-1),
    "running sum": lambda a, b, v, n: (v[:n].cumsum(0) * v[:n]).sum(),
    "inner size of a product": lambda a, b, v, n: a[:, :n] @ b[:n],
    "outer size of a product": lambda a, b, v, n: ((b[:n] @ a) * v).sum(0),
    "einsum": lambda a, b, v, n: Tensor.einsum("ij,jk->ik", a[:, :n], b[:n]),
    "flip": lambda a, b, v, n: (v[:n].flip(0) * v[:n]).sum(),
    "outer product": lambda a, b, v, n: (v[:n].reshape(n, 1) * v[:n].reshape(1, n)).sum(0).sum(),
    "reshape": lambda a, b, v, n: a[:, :n].reshape(2, 4, n).sum((0, 2)),
    "flatten": lambda a, b, v, n: (a[:, :n].reshape(8 * n) * a[:, :n].reshape(n * 8)).sum(),
    "permute": lambda a, b, v, n: (a[:, :n].T.reshape(n, 2, 4).permute(2, 0, 1) + 1).sum((1, 2)),
    "contiguous": lambda a, b, v, n: (a[:, :n].T.contiguous() + 1).contiguous().sum(0),
    "pad": lambda a, b, v, n: v[:n].pad(((0, 16 - n),)),
    "pad in front": lambda a, b, v, n: v[:n].pad(((16 - n, 0),)),
    "cat": lambda a, b, v, n: v[:n].cat(v[: 16 - n]),
    "stack": lambda a, b, v, n: Tensor.stack(v[:n], v[:n] * 2).sum(1),
    "repeat": lambda a, b, v, n: (v[:n].repeat(2) * v[:n].cat(v[:n])).sum(),
    "twice and one": lambda a, b, v, n: a.reshape(128)[: 2 * n + 1].sum(),
    "count up": lambda a, b, v, n: (Tensor.arange(n) * v[:n]).sum(),
    "count down": lambda a, b, v, n: (Tensor.arange(n, 0, -1) * v[:n]).sum(),
    "count by two": lambda a, b, v, n: (Tensor.arange(0, 2 * n, 2) * v[:n]).sum(),
    "full": lambda a, b, v, n: (Tensor.full((n, 3), 2.0) * v[:n].reshape(n, 1)).sum(0),
    "last element": lambda a, b, v, n: a[:, n - 1],
    "take": lambda a, b, v, n: v[:n][Tensor([0, 0])],
    "a number": lambda a, b, v, n: v * n,
    "where": lambda a, b, v, n: (v[:n] > 0).where(v[:n], v[:n] * -2).sum(),
    "attention": lambda a, b, v, n: v.reshape(1, 2, 8).scaled_dot_product_attention(
        b[:n].reshape(1, n, 8), b[:n].reshape(1, n, 8) * 2
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_with_numbers(name: str, t):
    program = PROGRAMS[name]
    for n in (11, 1, 16):
        # the last value needs nothing new to be scheduled or compiled
        known = (len(schedule_cache), len(method_cache))
        got = program(t["a"], t["b"], t["v"], bound(n)).numpy()
        if n == 16:
            assert (len(schedule_cache), len(method_cache)) == known
        expected = program(t["a"], t["b"], t["v"], n).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_convolution(t):
    for n in (5, 16):
        expected = t["image"][:, :, :n].conv2d(t["w"], padding=1).relu().sum((2, 3)).numpy()
        got = t["image"][:, :, : bound(n)].conv2d(t["w"], padding=1).relu().sum((2, 3)).numpy()
        np.testing.assert_allclose(got, expected)
    for n in (16, 15, 14):
        expected = t["image"][:, :, :, :n].conv2d(t["w"], stride=2).sum((2, 3)).numpy()
        got = t["image"][:, :, :, : bound(n, 8)].conv2d(t["w"], stride=2).sum((2, 3)).numpy()
        np.testing.assert_allclose(got, expected)


def test_two_variables(t):
    for n, m in ((1, 2), (8, 16), (3, 5)):
        rows, columns = bound(n, 1, 8), bound(m, name="m")
        part = t["a"][:rows, :columns]
        np.testing.assert_array_equal(part.reshape(rows * columns).sum().numpy(), A[:n, :m].sum())
        square = (part @ t["b"][:columns, :rows]).sum(0).sum()
        np.testing.assert_array_equal(square.numpy(), (A[:n, :m] @ B[:m, :n]).sum())


GRADIENTS: dict[str, Callable] = {
    "square": lambda x, n: x[:, :n].square().sum(),
    "maximum": lambda x, n: x[:, :n].max(1).sum(),
    "softmax": lambda x, n: x[:, :n].softmax(-1)[:, 0].sum(),
    "layer norm": lambda x, n: (x[:, :n].layernorm() ** 3).sum(),
    "product": lambda x, n: (x[:, :n] @ x[:, :n].T).square().sum(),
    "pad": lambda x, n: x[:, :n].pad((None, (0, 16 - n))).exp().sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name: str):
    for n in (1, 5, 16):
        symbolic, plain = Tensor(A, requires_grad=True), Tensor(A, requires_grad=True)
        GRADIENTS[name](symbolic, bound(n)).backward()
        GRADIENTS[name](plain, n).backward()
        got, expected = symbolic.grad.numpy(), plain.grad.numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", [1, 5, 15])
def test_assignment_to_symbolic_slices(n: int):
    k = bound(n, 1, 15)

    def check(write: Callable, expected: Callable, start=V):
        x, y = Tensor(start.copy()).realize(), start.copy()
        write(x)
        expected(y)
        np.testing.assert_array_equal(x.numpy(), y)

    check(lambda x: x[k : k + 1].assign(Tensor([7.0])), lambda y: y.__setitem__(n, 7))
    check(lambda x: x.__setitem__(slice(None, k), 3.0), lambda y: y.__setitem__(slice(n), 3))
    check(lambda x: x.__setitem__(slice(k, None), 3.0), lambda y: y.__setitem__(slice(n, 16), 3))
    check(
        lambda x: x.__setitem__(slice(k), x[:k] * 2), lambda y: y.__setitem__(slice(n), y[:n] * 2)
    )
    check(
        lambda x: x[1 : k + 1].assign(x[:k]).realize(),
        lambda y: y.__setitem__(slice(1, n + 1), y[:n].copy()),
    )
    check(
        lambda x: x.__setitem__((slice(None), k), Tensor.arange(8).float()),
        lambda y: y.__setitem__((slice(None), n), np.arange(8)),
        A,
    )


def test_attention_over_a_growing_cache():
    keys = np.zeros((1, 1, 16, 8), np.float32)
    cache, q = Tensor(np.stack([keys, keys])).realize(), Tensor(A[None, None, :1, :8]).realize()

    @TinyJit
    def step(k: Tensor, v: Tensor, start) -> Tensor:
        cache[:, :, :, start : start + 1].assign(Tensor.stack(k, v)).realize()
        seen = [cache[i, :, :, : start + 1] for i in (0, 1)]
        return q.scaled_dot_product_attention(*seen).realize()

    for n in range(8):
        k, v = (Tensor(B[None, None, n : n + 1] * s).realize() for s in (1, 2))
        got = step(k, v, bound(n, 0, 15, "start"))
        scores = A[0, :8] @ B[: n + 1].T / np.sqrt(8)
        weights = np.exp(scores - scores.max())
        expected = (weights / weights.sum()) @ (B[: n + 1] * 2)
        np.testing.assert_allclose(got.numpy().ravel(), expected, rtol=1e-4, atol=1e-4)


def test_shape_of_a_captured_result(t):
    @TinyJit
    def more(x: Tensor) -> Tensor:
        return (x + 1).contiguous().realize()

    for n in (2, 3, 4, 16, 1):
        result = more(t["a"][:, : bound(n)])
        assert result.shape[1].val == n
        np.testing.assert_array_equal(result.sum(1).numpy(), (A[:, :n] + 1).sum(1))


def test_wrong_or_missing_values(t):
    v = t["v"]
    for value in (0, 9):
        with pytest.raises(
            AssertionError, match=f"cannot bind n to {value}: its bounds are 1 .. 8"
        ):
            bound(value, 1, 8)
    with pytest.raises(TypeError, match="whole number"):
        bound(2.5)
    with pytest.raises(AssertionError, match="only a DEFINE_VAR can be bound"):
        bound(3).bind(4)
    with pytest.raises(ValueError, match="its bounds are 8 .. 1"):
        Variable("n", 8, 1)
    with pytest.raises(KeyError, match="needs a value of variable 'n'"):
        v[: Variable("n", 1, 8)].sum().item()
    with pytest.raises(AssertionError, match="it has the values 3 and 4"):
        (v[: bound(3)].sum() + v[: bound(4)].sum()).item()
    with pytest.raises(ValueError, match="bounds 1 .. 8 and 1 .. 9 in one graph"):
        (v[: bound(3, 1, 8)].sum() + v[: bound(3, 1, 9)].sum()).item()
    with pytest.raises(ValueError, match="cannot expand"):
        (v[: bound(3)] + v[:4]).realize()
    with pytest.raises(AssertionError, match="symbolic shape"):
        v[: bound(3)].tolist()


def test_unoptimised_kernels_agree(t):
    with Context(NOOPT=1):
        for name in ("softmax", "cat", "inner size of a product"):
            program = PROGRAMS[name]
            got = program(t["a"], t["b"], t["v"], bound(7)).numpy()
            expected = program(t["a"], t["b"], t["v"], 7).numpy()
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
