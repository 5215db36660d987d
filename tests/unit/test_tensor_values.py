"""Values of tensor operations against NumPy, for shapes, dtypes and special values."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

RNG = np.random.default_rng(7)
A = RNG.uniform(-2, 2, (3, 4)).astype(np.float32)
B = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
I = RNG.integers(-9, 9, (3, 4)).astype(np.int32)  # noqa: E741
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 1e20], dtype=np.float32)

UNARY = {
    "exp": np.exp, "exp2": np.exp2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "abs": np.abs, "sign": np.sign,
    "square": np.square, "neg": np.negative, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "atan": np.arctan, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            getattr(Tensor(A), name)().numpy(), UNARY[name](A), rtol=2e-5, atol=1e-6
        )


@pytest.mark.parametrize(
    "name", ["floor", "ceil", "trunc", "abs", "isnan", "isinf", "round", "exp"]
)
def test_unary_special(name):
    with np.errstate(all="ignore"):
        want = UNARY[name](SPECIAL)
    np.testing.assert_allclose(getattr(Tensor(SPECIAL), name)().numpy(), want, rtol=1e-5)


def test_positive_functions():
    for name, fn in (("log", np.log), ("log2", np.log2), ("sqrt", np.sqrt)):
        np.testing.assert_allclose(getattr(Tensor(B), name)().numpy(), fn(B), rtol=1e-5, atol=1e-6)
    assert Tensor([0.0]).log().item() == -math.inf
    assert math.isnan(Tensor([-1.0]).sqrt().item())


def test_broadcasting_arithmetic():
    row, column = A[0], B[:, :1]
    for op in ("__add__", "__sub__", "__mul__", "__truediv__"):
        got = getattr(Tensor(row), op)(Tensor(column)).numpy()
        np.testing.assert_allclose(got, getattr(row, op)(column), rtol=1e-6)
    with pytest.raises(ValueError, match="cannot broadcast"):
        Tensor.ones(3) + Tensor.ones(4)


@pytest.mark.parametrize("divisor", [-7, -3, -1, 1, 2, 5])
def test_integer_division_rounds_down(divisor):
    x = np.arange(-20, 21, dtype=np.int32)
    np.testing.assert_array_equal((Tensor(x) // divisor).numpy(), x // divisor)
    np.testing.assert_array_equal((Tensor(x) % divisor).numpy(), x % divisor)
    truncated = Tensor(x).div(divisor, rounding_mode="trunc").numpy()
    np.testing.assert_array_equal(truncated, np.trunc(x / divisor).astype(np.int32))


def test_promotion():
    assert (Tensor([1]) + 1.5).dtype is dtypes.default_float
    assert (Tensor([1], dtype=dtypes.int8) + 1).dtype is dtypes.int8
    assert (Tensor([True]) + 1).dtype is dtypes.default_int
    assert (Tensor([1.0], dtype=dtypes.half) * 2.5).dtype is dtypes.half
    assert (Tensor([1], dtype=dtypes.int8) + Tensor([1], dtype=dtypes.int64)).dtype is dtypes.int64
    assert (Tensor([1]) / 2).dtype is dtypes.default_float


def test_powers():
    np.testing.assert_array_equal((Tensor(I) ** 3).numpy(), I**3)
    np.testing.assert_allclose((Tensor(B) ** -0.5).numpy(), B**-0.5, rtol=1e-6)
    np.testing.assert_allclose((2 ** Tensor(A)).numpy(), 2**A, rtol=1e-6)
    np.testing.assert_allclose((Tensor(B) ** Tensor(A)).numpy(), B**A, rtol=1e-5)
    with pytest.raises(RuntimeError, match="no power -1"):
        Tensor([1, 2]) ** -1


def test_where_and_comparisons():
    x = Tensor(A)
    np.testing.assert_allclose((x > 0).where(x, -1).numpy(), np.where(A > 0, A, -1))
    np.testing.assert_array_equal((x == Tensor(A)).numpy(), A == A)
    assert (x > 0).where(1, 2).dtype is dtypes.default_int
    with pytest.raises(TypeError, match="truth value"):
        bool(x > 0)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(axis, keepdim):
    for name, fn in (("sum", np.sum), ("max", np.max), ("min", np.min), ("mean", np.mean)):
        got = getattr(Tensor(A), name)(axis=axis, keepdim=keepdim).numpy()
        np.testing.assert_allclose(got, fn(A, axis=axis, keepdims=keepdim), rtol=1e-5)
    got = Tensor(A).var(axis=axis, keepdim=keepdim).numpy()
    np.testing.assert_allclose(got, np.var(A, axis=axis, keepdims=keepdim, ddof=1), rtol=1e-5)


def test_reductions_of_small_dtypes():
    assert Tensor([200, 200], dtype=dtypes.uint8).sum().item() == 400
    assert Tensor([1, 2]).mean().item() == 1.5
    assert math.isnan(Tensor([]).mean().item())
    assert math.isnan(Tensor([1.0, math.nan, 3.0]).max().item())
    with pytest.raises(IndexError, match="no elements"):
        Tensor([]).argmax()


def test_argmax_takes_the_first():
    x = np.array([[1, 3, 3], [2, 2, 0]], dtype=np.float32)
    np.testing.assert_array_equal(Tensor(x).argmax(1).numpy(), x.argmax(1))
    np.testing.assert_array_equal(Tensor(x).argmin(1).numpy(), x.argmin(1))
    assert Tensor(x).argmax().item() == 1


@pytest.mark.parametrize("n", [1, 7, 513, 1100])
def test_scans(n):
    x = RNG.uniform(0.9, 1.1, n).astype(np.float32)
    np.testing.assert_allclose(Tensor(x).cumsum().numpy(), np.cumsum(x), rtol=1e-4)
    np.testing.assert_allclose(Tensor(x).cummax().numpy(), np.maximum.accumulate(x))
    np.testing.assert_allclose(Tensor(x).cumprod(0).numpy(), np.cumprod(x), rtol=1e-3)


def test_logsumexp_of_infinities():
    assert Tensor([-math.inf, -math.inf]).logsumexp().item() == -math.inf
    assert Tensor([math.inf, 1.0]).logsumexp().item() == math.inf
    x = Tensor(A).softmax().sum(-1).numpy()
    np.testing.assert_allclose(x, np.ones(3), rtol=1e-6)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(descending):
    x = RNG.integers(0, 4, (2, 9)).astype(np.int32)
    values, order = Tensor(x).sort(descending=descending)
    want = np.argsort(-x if descending else x, axis=-1, kind="stable")
    np.testing.assert_array_equal(order.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, -1))
    top, _ = Tensor(x).topk(3)
    np.testing.assert_array_equal(top.numpy(), -np.sort(-x)[:, :3])


def test_einsum():
    x, y = RNG.random((2, 3, 4), np.float32), RNG.random((2, 4, 5), np.float32)
    for formula in ("bij,bjk->bik", "bij,bjk->ik", "bij,bjk"):
        got = Tensor.einsum(formula, Tensor(x), Tensor(y)).numpy()
        np.testing.assert_allclose(got, np.einsum(formula, x, y), rtol=1e-5)
    np.testing.assert_allclose(
        Tensor.einsum("ii->i", Tensor(x[0, :, :3])).numpy(), np.diag(x[0, :, :3])
    )
    with pytest.raises(RuntimeError, match="2 inputs"):
        Tensor.einsum("ij,jk", Tensor(A))


def test_decompositions():
    x = RNG.random((4, 3), np.float32)
    q, r = Tensor(x).qr()
    np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-5)
    np.testing.assert_allclose((q.transpose() @ q).numpy(), np.eye(4), atol=1e-5)
    u, s, v = Tensor(x).svd(full_matrices=False)
    np.testing.assert_allclose((u * s.unsqueeze(0) @ v).numpy(), x, atol=1e-4)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(x)[1], rtol=1e-4)


def test_matmul_shapes():
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 1, 2, 3), (4, 3, 2))):
        x, y = RNG.random(left, np.float32), RNG.random(right, np.float32)
        np.testing.assert_allclose((Tensor(x) @ Tensor(y)).numpy(), x @ y, rtol=1e-5)
    with pytest.raises(RuntimeError, match="cannot dot"):
        Tensor.ones(2, 3) @ Tensor.ones(2, 3)


def test_bitcast_changes_the_last_axis():
    x = np.array([[1.0, -2.5]], dtype=np.float32)
    np.testing.assert_array_equal(Tensor(x).bitcast(dtypes.uint8).numpy(), x.view(np.uint8))
    back = Tensor(x.view(np.uint8)).bitcast(dtypes.float32)
    np.testing.assert_array_equal(back.numpy(), x)
    with pytest.raises(RuntimeError, match="multiple of"):
        Tensor([1, 2, 3], dtype=dtypes.uint8).bitcast(dtypes.int32)


def test_digest():
    import hashlib

    data = bytes(range(200))
    for name in ("sha3_224", "sha3_256"):
        assert bytes(Tensor(data).keccak(name).data()) == getattr(hashlib, name)(data).digest()
    assert bytes(Tensor(data).keccak("shake_128").data()) == hashlib.shake_128(data).digest(16)


def test_windows_of_no_elements():
    x = Tensor.ones(3, 4, requires_grad=True)
    windows = x.unfold(1, 0, 2)
    assert windows.shape == (3, 3, 0)
    windows.sum().backward()
    assert x.grad.tolist() == [[0.0] * 4] * 3
