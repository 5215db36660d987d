"""Matrix products and decompositions against NumPy: broadcasting, empty axes, ranks below full."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tinygrad import Tensor, dtypes
from tinygrad.device import Device


@pytest.fixture(autouse=True)
def interpreted(request):
    before = Device.DEFAULT
    if "default_device" not in request.node.name:
        Device.DEFAULT = "PYTHON"
    yield
    Device.DEFAULT = before


def drawn(shape, seed=0, kind=np.float64) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return (rng.normal(size=shape) * 3).astype(kind)


# ---------------------------------------------------------------- products

LEFT = [(3,), (2, 3), (1, 3), (0, 3), (2, 2, 3), (2, 1, 2, 3), (1, 1, 1, 1, 3)]
RIGHT = [(3,), (3, 2), (3, 0), (3, 1), (2, 3, 2), (1, 3, 2), (2, 1, 3, 1)]


@pytest.mark.parametrize("left, right", list(itertools.product(LEFT, RIGHT)), ids=str)
def test_matmul(left, right):
    a, b = drawn(left), drawn(right)
    try:
        want = np.matmul(a, b)
    except ValueError:
        with pytest.raises((ValueError, RuntimeError)):
            Tensor(a) @ Tensor(b)
        return
    got = Tensor(a) @ Tensor(b)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint8, np.int32, np.int64, np.bool_], ids=lambda k: k.__name__
)
def test_matmul_of_integers(kind):
    a, b = drawn((3, 4), 1).astype(kind), drawn((4, 2), 2).astype(kind)
    # as NumPy and PyTorch: the common dtype, which wraps around
    np.testing.assert_array_equal((Tensor(a) @ Tensor(b)).numpy(), a @ b)


def test_empty_sums_are_zero():
    np.testing.assert_array_equal((Tensor.ones(2, 0) @ Tensor.ones(0, 3)).numpy(), np.zeros((2, 3)))
    assert (
        Tensor.einsum("ij,jk->ik", Tensor.ones(2, 0), Tensor.ones(0, 3)).tolist() == [[0.0] * 3] * 2
    )
    assert (Tensor.ones(0) @ Tensor.ones(0)).item() == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: Tensor.ones(2, 3) @ Tensor.ones(2, 3),
        lambda: Tensor.ones(2, 3).dot(Tensor(1.0)),
        lambda: Tensor(1.0) @ Tensor.ones(3),
        lambda: Tensor.ones(2, 2, 3) @ Tensor.ones(3, 3, 2),
        lambda: Tensor.einsum("ij,jk->ik", Tensor.ones(2, 3), Tensor.ones(2, 3)),
        lambda: Tensor.einsum("ij->i", Tensor.ones(3)),
        lambda: Tensor.einsum("ij->k", Tensor.ones(2, 3)),
        lambda: Tensor.einsum("ij,jk", Tensor.ones(2, 3)),
        lambda: Tensor.einsum("i...j...->", Tensor.ones(2, 3)),
        lambda: Tensor.einsum("ij->ii", Tensor.ones(2, 2)),
        lambda: Tensor.einsum("ii->", Tensor.ones(2, 3)),
        lambda: Tensor.einsum("i1->i", Tensor.ones(2, 3)),
        lambda: Tensor.ones(3).qr(),
        lambda: Tensor.ones(3).svd(),
        lambda: Tensor.ones(2, 2).conv2d(Tensor.ones(1, 1, 1, 1)),
    ],
)
def test_errors(call):
    with pytest.raises((RuntimeError, ValueError)):
        call()


FORMULAS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ba", [(2, 3)]),
    ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("iij->j", [(3, 3, 2)]), ("iii->i", [(2, 2, 2)]),
    ("ijij->ij", [(2, 3, 2, 3)]), ("i,j->ij", [(2,), (3,)]), (",->", [(), ()]), ("i,->i", [(3,), ()]),
    ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]), ("...ij,...jk", [(4, 2, 2, 3), (2, 3, 2)]),
    ("i...,i...->...", [(3, 2), (3, 2)]), ("...i->...", [(2, 3)]), ("b...h,h...->b...", [(2, 3, 4), (4, 3)]),
    ("...ii->...i", [(2, 3, 3)]), ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 4)]), ("...,...->...", [(), (3,)]),
    ("Ab,bA->Ab", [(2, 3), (3, 2)]), ("ij,jk->ik", [(0, 3), (3, 2)]), ("ij,kj->", [(2, 0), (3, 0)]),
    ("abcde,edcba->ace", [(2, 1, 2, 3, 1), (1, 3, 2, 1, 2)]), ("...->", [(2, 3)]), ("i...->...i", [(2, 3, 1)]),
]  # fmt: skip


@pytest.mark.parametrize("formula, shapes", FORMULAS, ids=str)
def test_einsum(formula, shapes):
    arrays = [drawn(s, i) for i, s in enumerate(shapes)]
    # NumPy refuses to sum over the axes of an ellipsis; PyTorch does it
    want = np.sum(arrays[0]) if formula == "...->" else np.einsum(formula, *arrays)
    got = Tensor.einsum(formula, *[Tensor(a) for a in arrays])
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- decompositions

MATRICES = {
    "square": drawn((3, 3)),
    "tall": drawn((4, 2)),
    "wide": drawn((2, 4)),
    "one": drawn((1, 1)),
    "row": drawn((1, 3)),
    "column": drawn((3, 1)),
    "batch": drawn((2, 3, 2)),
    "batches": drawn((1, 2, 2, 2)),
    "zero": np.zeros((3, 2)),
    "rank one": np.outer([1.0, 2, 3], [4.0, 5, 6]),
    "equal columns": np.ones((3, 3)),
    "diagonal": np.diag([3.0, -1.0, 0.0]),
    "permutation": np.eye(3)[[2, 0, 1]],
    "large": drawn((3, 3)) * 1e120,
    "small": drawn((3, 3)) * 1e-120,
    "graded": drawn((3, 3)) * [1.0, 1e-8, 1e8],
    "empty": np.zeros((0, 2, 3)),
    "no columns": np.zeros((3, 0)),
    "no rows": np.zeros((2, 0, 2)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_qr(name):
    a = MATRICES[name]
    q, r = (t.numpy() for t in Tensor(a).qr())
    rows = a.shape[-2]
    assert q.shape == (*a.shape[:-1], rows) and r.shape == a.shape
    size = max(np.abs(a).max(initial=0.0), 1e-300)
    np.testing.assert_allclose(q @ r / size, a / size, rtol=0, atol=1e-13)
    unit = np.broadcast_to(np.eye(rows), q.shape)
    np.testing.assert_allclose(np.swapaxes(q, -1, -2) @ q, unit, rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.tril(r, -1) / size, np.zeros_like(r), rtol=0, atol=1e-13)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", MATRICES)
def test_svd(name, full):
    a = MATRICES[name]
    u, s, v = (t.numpy() for t in Tensor(a).svd(full_matrices=full))
    want = np.linalg.svd(a, full_matrices=full)
    assert [u.shape, s.shape, v.shape] == [w.shape for w in want]
    size = max(np.abs(a).max(initial=0.0), 1e-300)
    np.testing.assert_allclose(s / size, want[1] / size, rtol=0, atol=1e-12)
    assert (np.diff(s, axis=-1) <= 0).all()
    least = s.shape[-1]
    again = (u[..., :least] * s[..., None, :]) @ v[..., :least, :]
    np.testing.assert_allclose(again / size, a / size, rtol=0, atol=1e-12)
    for turned in (np.swapaxes(u, -1, -2) @ u, v @ np.swapaxes(v, -1, -2)):
        unit = np.broadcast_to(np.eye(turned.shape[-1]), turned.shape)
        np.testing.assert_allclose(turned, unit, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_narrow_floats_decompose(kind):
    a = Tensor(drawn((3, 2))).cast(kind)
    exact = a.cast("float64").numpy()
    bound = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[kind]
    q, r = a.qr()
    u, s, v = a.svd(full_matrices=False)
    assert {t.dtype for t in (q, r, u, s, v)} == {a.dtype}
    q, r, u, s, v = (t.cast("float64").numpy() for t in (q, r, u, s, v))
    np.testing.assert_allclose(q @ r, exact, atol=bound * 3)
    np.testing.assert_allclose((u * s) @ v, exact, atol=bound * 3)


def test_integers_decompose_as_floats():
    a = np.array([[3, 1], [4, 2]], dtype=np.int32)
    q, r = Tensor(a).qr()
    u, s, v = Tensor(a).svd()
    assert {t.dtype for t in (q, r, u, s, v)} == {dtypes.float32}
    np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-5)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a)[1], rtol=1e-5)


def test_newton_schulz_gives_an_orthogonal_matrix():
    for shape in ((3, 3), (2, 4), (4, 2), (2, 3, 3)):
        x = Tensor(drawn(shape)).newton_schulz(30, (1.5, -0.5)).numpy()
        small = min(shape[-2:])
        gram = x @ np.swapaxes(x, -1, -2) if shape[-2] == small else np.swapaxes(x, -1, -2) @ x
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(small), gram.shape), atol=1e-6)


def test_on_the_default_device():
    a = drawn((4, 3), 5)
    q, r = Tensor(a).qr()
    u, s, v = Tensor(a).svd(full_matrices=False)
    np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-12)
    np.testing.assert_allclose(((u * s) @ v).numpy(), a, atol=1e-12)
