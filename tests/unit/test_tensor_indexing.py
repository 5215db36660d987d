"""Subscripts, gather, scatter, padding and joining against NumPy."""

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

RNG = np.random.default_rng(3)
X = RNG.integers(0, 99, (4, 5, 6)).astype(np.int32)
ROWS, COLUMNS = np.array([[0, 3], [2, 2]]), np.array([4, -1])

INDICES = [
    1, -1, (1, 2), (slice(None), 2), slice(1, 3), slice(None, None, -1), (slice(3, 0, -2), ...),
    (..., None, 1), (None, slice(0, 2)), (slice(1, 1),), (slice(None), slice(4, None, 2)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_views(index):
    np.testing.assert_array_equal(Tensor(X)[index].numpy(), X[index])


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t(ROWS),
        lambda t: (slice(None), t(COLUMNS)),
        lambda t: (t(ROWS), t(COLUMNS)),
        lambda t: (t(ROWS), slice(1, 3), t(COLUMNS)),
        lambda t: (slice(1, 3), t(ROWS), t(COLUMNS)),
        lambda t: (None, t(COLUMNS % 4), ..., slice(2, 3)),
    ],
)
def test_index_tensors(make):
    got = Tensor(X)[make(lambda a: Tensor(a.astype(np.int32)))].numpy()
    np.testing.assert_array_equal(got, X[make(lambda a: a)])


def test_masks():
    mask = X > 50
    np.testing.assert_array_equal(Tensor(X)[Tensor(mask)].numpy(), X[mask])
    np.testing.assert_array_equal(Tensor(X).masked_select(Tensor(mask)).numpy(), X[mask])
    with pytest.raises(IndexError, match="of a mask does not fit axis 0"):
        Tensor(X)[Tensor([True, False])]


def test_index_errors():
    t = Tensor(X)
    for index in (9, (0, -6), (0, 0, 0, 0), (..., ...), 1.5):
        with pytest.raises(IndexError):
            t[index]
    with pytest.raises(ValueError, match="step"):
        t[::0]
    for bound in (Tensor([1.5]), Tensor([1, 2]), Tensor([1])):
        with pytest.raises(TypeError, match="whole numbers"):
            t[:bound]
    np.testing.assert_array_equal(t[: Tensor(1)].numpy(), X[:1])


@pytest.mark.parametrize(
    "index", [1, (slice(None), 2), (slice(1, 3), slice(None, None, 2))], ids=str
)
def test_assigning_to_views(index):
    want = X.copy()
    want[index] = 7
    t = Tensor(X.copy()).realize()
    t[index] = 7
    np.testing.assert_array_equal(t.numpy(), want)


def test_assigning_through_index_tensors():
    want = X.copy()
    want[ROWS, COLUMNS] = -1
    t = Tensor(X.copy()).realize()
    t[Tensor(ROWS.astype(np.int32)), Tensor(COLUMNS.astype(np.int32))] = -1
    np.testing.assert_array_equal(t.numpy(), want)


def test_a_write_through_a_view_that_is_gone_arrives():
    t = Tensor(np.zeros((3, 3), dtype=np.float32)).contiguous().realize()
    t.shrink(((1, 3), (1, 3))).assign(Tensor.ones(2, 2))
    assert t.sum().item() == 4
    u = Tensor.arange(4).contiguous()
    u[1:3].assign(Tensor([9, 9]))
    assert u.tolist() == [0, 9, 9, 3]


def test_setitem_refuses_shared_elements():
    with pytest.raises(RuntimeError, match="share memory"):
        Tensor([1.0]).expand(3)[0] = 2


def test_gather_and_scatter():
    index = RNG.integers(0, 5, (4, 3, 6)).astype(np.int32)
    got = Tensor(X).gather(1, Tensor(index)).numpy()
    np.testing.assert_array_equal(got, np.take_along_axis(X, index, 1))
    want = np.zeros((2, 3), dtype=np.float32)
    np.add.at(want, ([0, 1, 1], [0, 1, 1]), 1.0)
    positions = Tensor([[0, 0, 0], [1, 1, 1]]).transpose()
    summed = Tensor.zeros(2, 3).scatter_reduce(1, Tensor([[0], [1]]), Tensor([[1.0], [2.0]]), "sum")
    np.testing.assert_array_equal(summed.numpy(), [[1, 0, 0], [0, 2, 0]])
    assert positions.shape == (3, 2)
    # the last of several writes wins
    last = Tensor.zeros(1, 3).scatter(1, Tensor([[1, 1]]), Tensor([[5.0, 6.0]]))
    assert last.tolist() == [[0.0, 6.0, 0.0]]
    with pytest.raises(RuntimeError, match="dtype"):
        Tensor.zeros(2).scatter(0, Tensor([0]), Tensor([1]))


@pytest.mark.parametrize(
    "mode, other", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding_modes(mode, other):
    got = Tensor(X).pad(((0, 0), (1, 2), (2, 1)), mode=mode).numpy()
    np.testing.assert_array_equal(got, np.pad(X, ((0, 0), (1, 2), (2, 1)), mode=other))


def test_padding_with_values_and_cuts():
    got = Tensor(X).pad(((1, 0), None, (-1, 2)), value=5).numpy()
    np.testing.assert_array_equal(
        got, np.pad(X[..., 1:], ((1, 0), (0, 0), (0, 2)), constant_values=5)
    )
    with pytest.raises(ValueError, match="entries"):
        Tensor(X).pad(((1, 1),))


def test_joining_and_splitting():
    parts = Tensor(X).split([1, 3, 1], dim=1)
    np.testing.assert_array_equal(parts[0].cat(*parts[1:], dim=1).numpy(), X)
    assert [p.shape[0] for p in Tensor(X).chunk(3)] == [2, 2]
    np.testing.assert_array_equal(
        Tensor.stack(Tensor(X), Tensor(X), dim=2).numpy(), np.stack([X, X], 2)
    )
    with pytest.raises(ValueError, match="sum exactly"):
        Tensor(X).split([1, 1], dim=1)


def test_rearranging():
    np.testing.assert_array_equal(
        Tensor(X).roll((1, -2), (0, 2)).numpy(), np.roll(X, (1, -2), (0, 2))
    )
    np.testing.assert_array_equal(Tensor(X).tril(1).numpy(), np.tril(X, 1))
    np.testing.assert_array_equal(Tensor(X).triu(-1).numpy(), np.triu(X, -1))
    np.testing.assert_array_equal(Tensor([1, 2]).diag().numpy(), np.diag([1, 2]))
    windows = np.lib.stride_tricks.sliding_window_view(X, 3, axis=1)[:, ::2]
    np.testing.assert_array_equal(Tensor(X).unfold(1, 3, 2).numpy(), windows)


def test_one_hot():
    np.testing.assert_array_equal(Tensor([2, 0]).one_hot(3).numpy(), [[0, 0, 1], [1, 0, 0]])
    with pytest.raises(RuntimeError, match="integer"):
        Tensor([1.0]).one_hot(2)
    assert Tensor([1], dtype=dtypes.uint8).one_hot().shape == (1, 2)
