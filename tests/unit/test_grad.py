"""Gradients against central differences, and the rules of `backward`."""

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

RNG = np.random.default_rng(11)


def numeric(fn, arrays, which, step=1e-3):
    """Central differences of `fn(...).sum()` in float64."""
    base = [a.astype(np.float64) for a in arrays]
    grad = np.zeros_like(base[which])
    for position in np.ndindex(*grad.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in base]
            moved[which][position] += sign * step
            ends.append(fn(*[Tensor(a) for a in moved]).sum().item())
        grad[position] = (ends[0] - ends[1]) / (2 * step)
    return grad


FUNCTIONS = {
    "arithmetic": lambda x, y: (x * y - x / y) * (x + 2),
    "broadcast": lambda x, y: x[:1] * y + x[:, :1],
    "power": lambda x, y: y**x + y**3,
    "elementary": lambda x, y: x.sin() + y.log() + x.exp() + y.sqrt() + x.tanh(),
    "activations": lambda x, y: x.gelu() + x.silu() + x.elu() + y.softplus() + x.mish(),
    "choice": lambda x, y: (x > 0).where(x * y, y) + x.maximum(0.3) + x.clip(-0.5, 0.5),
    "reductions": lambda x, y: x.sum(0) * y.mean(0) + x.var(1).sum() + x.max(1).sum() * y.min(),
    "product": lambda x, y: x.prod(1) + y.prod(0).sum(),
    "softmax": lambda x, y: x.softmax() * y + x.log_softmax() + x.logsumexp(),
    "movement": lambda x, y: x.transpose().pad(((1, 0), (0, 2)))[1:, :2] * y.flip(0).reshape(3, 2),
    "matmul": lambda x, y: (x @ y.transpose()).square(),
    "gather": lambda x, y: x[Tensor([1, 0, 1])] * y[0],
    "cumsum": lambda x, y: x.cumsum(1) * y,
    "joins": lambda x, y: x.cat(y, dim=1)[:, 1:4] * x.stack(y)[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_differences(name):
    fn = FUNCTIONS[name]
    arrays = [RNG.uniform(-1, 1, (2, 3)), RNG.uniform(0.5, 1.5, (2, 3))]
    tensors = [Tensor(a.astype(np.float64)) for a in arrays]
    grads = fn(*tensors).sum().gradient(*tensors, materialize_grads=True)
    for i, grad in enumerate(grads):
        np.testing.assert_allclose(grad.numpy(), numeric(fn, arrays, i), rtol=1e-4, atol=1e-5)


def test_convolution_and_pooling():
    def fn(x, w):
        return x.conv2d(w, stride=2, padding=1).max_pool2d(2).square()

    arrays = [RNG.uniform(-1, 1, (1, 2, 7, 7)), RNG.uniform(-1, 1, (2, 2, 3, 3))]
    tensors = [Tensor(a) for a in arrays]
    for i, grad in enumerate(fn(*tensors).sum().gradient(*tensors)):
        np.testing.assert_allclose(grad.numpy(), numeric(fn, arrays, i), rtol=1e-4, atol=1e-6)


def test_pooling_after_a_norm_has_no_nan():
    # the norm may be rounded differently in the kernels of maximum and mask
    x = Tensor(RNG.normal(size=(4, 3, 8, 8)).astype(np.float32)).realize()
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    y = x.batchnorm(None, None, mean, (var + 1e-5).rsqrt()).relu().max_pool2d()
    assert not np.isnan(y.square().sum().gradient(x)[0].numpy()).any()


def test_ties_share():
    x = Tensor([1.0, 3.0, 3.0])
    assert x.max().gradient(x)[0].tolist() == [0.0, 0.5, 0.5]
    assert x.prod().gradient(x)[0].tolist() == [9.0, 3.0, 3.0]
    zero = Tensor([0.0, 2.0, 4.0])
    assert zero.prod().gradient(zero)[0].tolist() == [8.0, 0.0, 0.0]


def test_backward_accumulates_across_realizes():
    x = Tensor([1.0, 2.0], requires_grad=True)
    out = (x.reshape(1, 2) @ Tensor([[1.0], [3.0]])).log_softmax().sum() + (x * x).sum()
    for times in (1, 2, 3):
        out.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.array([2.0, 4.0]) * times)


def test_second_order():
    x = Tensor([2.0])
    first = (x**3).sum().gradient(x)[0]
    assert first.sum().gradient(x)[0].tolist() == [12.0]


def test_equal_constants_are_different_leaves():
    a, b = Tensor(3.0, requires_grad=True), Tensor(3.0, requires_grad=True)
    (a * 2 + b).backward()
    assert (a.grad.item(), b.grad.item()) == (2.0, 1.0)


def test_errors():
    x = Tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="scalar"):
        x.gradient(x)
    with pytest.raises(RuntimeError, match="float"):
        Tensor([1, 2]).sum().gradient(x)
    with pytest.raises(RuntimeError, match="does not depend"):
        x.sum().gradient(Tensor([1.0]).contiguous())
    assert x.detach().sum().gradient(x, materialize_grads=True)[0].tolist() == [0.0, 0.0]


def test_deep_graph():
    x = Tensor([1.0])
    y = x
    for _ in range(3000):
        y = y + 1
    assert y.sum().gradient(x)[0].dtype is dtypes.float32


def test_one_number_is_not_stored_on_the_way_back():
    x = Tensor.ones(4, 8).contiguous().realize()
    x.requires_grad = True
    (x * x).contiguous_backward().mean().backward()
    kernels = x.grad.schedule()
    assert len(kernels) == 1
    kernels[0].run()
    assert x.grad.tolist() == [[2 / 32] * 8] * 4


@pytest.mark.parametrize("shape", [(1, 2, 9, 9), (2, 3, 14, 11)])
def test_fast_convolution_and_its_gradient(shape):
    from tinygrad.helpers import Context

    found = []
    for fast in (0, 1):
        Tensor.manual_seed(3)
        x, w = (Tensor.randn(*s, requires_grad=True) for s in (shape, (4, shape[1], 3, 3)))
        with Context(WINO=fast):
            out = x.conv2d(w, padding=1)
            out.square().sum().backward()
            found.append([t.numpy() for t in (out, x.grad, w.grad)])
    for plain, quick in zip(*found):
        np.testing.assert_allclose(quick, plain, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("read", ["item", "tolist", "numpy", "data"])
def test_a_tensor_that_was_read_has_gradients(read):
    w, x = Tensor([2.0, 3.0], requires_grad=True), Tensor([5.0, 7.0])
    hidden = w * x
    loss = hidden.square().sum()
    getattr(loss, read)()
    assert hidden.tolist() == [10.0, 21.0]
    loss.backward()
    assert w.grad.tolist() == [100.0, 294.0]


def test_a_condition_that_is_kept_has_no_gradient():
    a, b = Tensor([1.0, 5.0], requires_grad=True), Tensor([3.0, 2.0], requires_grad=True)
    smaller = a < b
    largest = (a * 2).argmax()
    (smaller.where(a, b) * 2).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 0.0], [0.0, 2.0])
    assert smaller.grad is None and largest.grad is None
