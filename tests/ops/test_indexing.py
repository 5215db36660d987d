"""Subscripts of every kind, read and written, against NumPy.

Random index expressions over tensors of 0 to 5 axes (lengths 0 and 1 among them): numbers, slices of any
step, None, Ellipsis, bool masks, lists, arrays and integer tensors of any rank, alone and together. The
reference is NumPy, but for one rule taken from PyTorch: numbers beside index tensors select first, they are
no index tensors themselves (`docs/semantics.md`).

Most of it runs on the PYTHON device, which compiles nothing; a share runs on the default device.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit
from tinygrad.device import Device

SEEDS = range(12)
DRAWS = 25
SHAPES = [
    (),
    (1,),
    (5,),
    (0,),
    (3, 4),
    (1, 6),
    (4, 0),
    (2, 3, 4),
    (3, 1, 2),
    (2, 0, 3),
    (2, 3, 1, 4),
]
SHAPES += [(2, 1, 3, 2, 3)]
INDEX_KINDS = (np.int8, np.int16, np.int32, np.int64, np.uint8)


def device_of(draw: int) -> str:
    return Device.DEFAULT if draw % 8 == 0 else "PYTHON"


# ---------------------------------------------------------------- drawing


class Expressions:
    """Draws index expressions: entries for NumPy, and the same for a tensor on `device`."""

    def __init__(self, seed: int, device: str):
        self.rng, self.device = random.Random(seed), device
        self.arrays = np.random.default_rng(seed)

    def slice(self, size: int) -> slice:
        def bound():
            return self.rng.choice([None, self.rng.randint(-size - 2, size + 2)])

        step = self.rng.choice([None, 1, 1, 2, 3, -1, -2, -5])
        return slice(bound(), bound(), step)

    def positions(self, size: int, shape: tuple[int, ...]) -> np.ndarray:
        """Integers that lie inside an axis of `size`, negative ones among them."""
        kind = self.rng.choice(INDEX_KINDS)
        low = 0 if kind is np.uint8 else -size
        return self.arrays.integers(low, max(size, low + 1), shape).astype(kind)

    def draw(self, shape: tuple[int, ...]) -> list:
        """Entries for some of the axes, from the left, with None and one Ellipsis in between."""
        rng, items, axis = self.rng, [], 0
        common = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 2)))
        stop = rng.randint(0, len(shape))
        # what stands behind the Ellipsis is about the last axes
        tail = rng.randint(0, len(shape) - stop) if rng.random() < 0.3 else None
        axes = list(range(stop))
        if tail is not None:
            axes += [...] + list(range(len(shape) - tail, len(shape)))
        skip = set()
        for axis in axes:
            if axis in skip:
                continue
            if rng.random() < 0.15:
                items.append(None)
            if axis is ...:
                items.append(...)
                continue
            size = shape[axis]
            kind = rng.choice(
                ["number", "slice", "slice", "array", "array", "list", "mask", "wide"]
            )
            if kind in ("number", "array", "list") and size == 0:
                kind = "slice"
            if kind == "wide" and axis + 1 in axes and axis + 1 not in skip:
                # a mask over two axes
                items.append(self.arrays.random((size, shape[axis + 1])) < 0.5)
                skip.add(axis + 1)
            elif kind == "number":
                number = rng.randint(-size, size - 1)
                items.append(rng.choice([number, number, np.int64(number)]))
            elif kind == "array":
                items.append(self.positions(size, rng.choice([common, common[1:], (1,), ()])))
            elif kind == "list":
                items.append(self.positions(size, common or (2,)).tolist())
            elif kind == "mask":
                items.append(self.arrays.random(size) < 0.5)
            else:
                items.append(self.slice(size))
        # masks pick as many as they have True: with other index arrays only one or as many fit
        return items

    def for_tensor(self, item):
        """The same entry as users write it for a tensor."""
        if isinstance(item, np.ndarray):
            kind = self.rng.choice(["tensor", "tensor", "array", "list"])
            if kind == "tensor" or item.ndim == 0:
                return Tensor(item, device=self.device)
            return item if kind == "array" or 0 in item.shape else item.tolist()
        return item


def is_advanced(item) -> bool:
    return isinstance(item, (list, np.ndarray))


def is_mask(item) -> bool:
    return isinstance(item, np.ndarray) and item.dtype == bool


def split_expression(x: np.ndarray, items: list) -> tuple[tuple, tuple]:
    """`items` as plain subscripts, and as index arrays for what these give.

    An Ellipsis that stands for no axis does not set index arrays apart, as in PyTorch.
    """
    used = sum(
        getattr(i, "ndim", 1) if is_mask(i) else 1 for i in items if i is not None and i is not ...
    )
    if used == x.ndim:
        items = [i for i in items if i is not ...]
    plain, arrays = [], []
    for item in items:
        if is_advanced(item):
            plain += [slice(None)] * (item.ndim if is_mask(item) else 1)
            arrays.append(item)
        else:
            plain.append(item)
            if item is None or isinstance(item, slice):
                arrays.append(slice(None))
            elif item is ...:
                arrays.append(...)
    return tuple(plain), tuple(arrays)


def expected(x: np.ndarray, items: list) -> np.ndarray:
    plain, arrays = split_expression(x, items)
    return x[*plain, ...][arrays] if ... not in plain else x[plain][arrays]


def write(x: np.ndarray, items: list, value) -> None:
    plain, arrays = split_expression(x, items)
    view = x[*plain, ...] if ... not in plain else x[plain]
    view[arrays] = value


def of_tensor(made: Expressions, items: list):
    entries = tuple([made.for_tensor(i) for i in items])
    return entries[0] if len(entries) == 1 and not is_advanced(items[0]) else entries


def filled(shape: tuple[int, ...], kind=np.int32) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=kind).reshape(shape)


def cases(seed: int):
    rng = random.Random(1000 + seed)
    for draw in range(DRAWS):
        shape = rng.choice(SHAPES)
        made = Expressions(seed * DRAWS + draw, device_of(draw))
        yield draw, shape, made, made.draw(shape), f"{seed=} {draw=} {shape=}"


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("seed", SEEDS)
def test_random_reads(seed):
    for _, shape, made, items, note in cases(seed):
        x = filled(shape)
        try:
            want = expected(x, items)
        except IndexError:
            with pytest.raises(IndexError):
                Tensor(x, device=made.device)[of_tensor(made, items)]
            continue
        got = Tensor(x, device=made.device)[of_tensor(made, items)]
        assert got.shape == want.shape, f"{note} {items}"
        np.testing.assert_array_equal(got.numpy(), want, err_msg=f"{note} {items}")


# ---------------------------------------------------------------- writing


def draw_value(made: Expressions, region: tuple[int, ...]):
    """Something to write: for NumPy, and for the tensor."""
    rng = made.rng
    kind = rng.choice(["int", "float", "whole", "part", "cast", "array"])
    if kind == "int":
        return (n := rng.randint(-99, 99)), n
    if kind == "float":
        return (n := rng.choice([-2.75, 3.5, 0.0])), n
    shape = region
    if kind == "part":
        shape = tuple(1 if rng.random() < 0.3 else s for s in region)[rng.randint(0, len(region)) :]
    values = made.arrays.integers(-99, 99, shape)
    values = values + 0.25 if kind == "cast" else values
    narrow = values.astype(np.float32 if kind == "cast" else np.int32)
    return narrow, narrow if kind == "array" else Tensor(narrow, device=made.device)


@pytest.mark.parametrize("kind", [np.int32, np.float32], ids=["int32", "float32"])
@pytest.mark.parametrize("seed", SEEDS[:8])
def test_random_writes(seed, kind):
    for _, shape, made, items, note in cases(seed + 100):
        want = filled(shape, kind)
        x = Tensor(want.copy(), device=made.device).realize()
        try:
            region = expected(want, items).shape
        except IndexError:
            with pytest.raises(IndexError):
                x[of_tensor(made, items)] = 1
            continue
        value, given = draw_value(made, region)
        # NumPy leaves open which of several writes to one place wins; here it is the last
        write(want, items, value)
        x[of_tensor(made, items)] = given
        np.testing.assert_array_equal(x.numpy(), want, err_msg=f"{note} {items} {value}")


# ---------------------------------------------------------------- rules of their own

X = filled((3, 4))


@pytest.mark.parametrize(
    "index",
    [True, False, np.True_, (0, True), (True, 0), (..., True), ([0, 2], True), (None, False)],
)
def test_a_bool_is_an_axis_of_its_own(index):
    np.testing.assert_array_equal(Tensor(X)[index].numpy(), X[index])


def test_a_bool_tensor_without_axes_is_one_too():
    assert Tensor(X)[Tensor(True)].shape == (1, 3, 4)
    assert Tensor(X)[Tensor(False)].shape == (0, 3, 4)


@pytest.mark.parametrize(
    "index, kind",
    [
        (3, IndexError),
        ((0, -5), IndexError),
        ((0, 0, 0), IndexError),
        ((..., 0, ...), IndexError),
        ([0, 3], IndexError),
        ([[0], [-4]], IndexError),
        (np.array([3]), IndexError),
        (1.0, IndexError),
        ("a", IndexError),
        ([1.5], IndexError),
        (np.array([1.0]), IndexError),
        (([0, 1], [0, 1, 2]), IndexError),
        (np.zeros((3, 3), dtype=bool), IndexError),
        ((slice(None), np.zeros(3, dtype=bool)), IndexError),
        (([0, 1, 2], np.array([True, True, False, False])), IndexError),
        (slice(None, None, 0), ValueError),
        (slice(1.5, None), TypeError),
        (slice("a", None), TypeError),
    ],
    ids=str,
)
def test_errors_as_in_numpy(index, kind):
    with pytest.raises(kind):
        X[index]
    for write_it in (False, True):
        x = Tensor(X.copy(), device="PYTHON").realize()
        with pytest.raises(kind):
            x.__setitem__(index, 1) if write_it else x[index]
        np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("shape", [(2, 4), (3,), (2, 3, 4), (5,)])
def test_values_that_do_not_broadcast(shape):
    x = Tensor(X.copy(), device="PYTHON").realize()
    for index in (slice(None), [0, 1, 2], np.ones((3, 4), dtype=bool)):
        with pytest.raises((ValueError, TypeError)):
            X.copy()[index] = np.ones(shape)
        with pytest.raises(ValueError):
            x[index] = Tensor.ones(*shape, device="PYTHON")
    np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("count", [2, 50, 700])
def test_the_last_of_several_writes_wins(count):
    rng = np.random.default_rng(count)
    places = rng.integers(0, 7, count).astype(np.int32)
    values = rng.integers(0, 1000, (count, 3)).astype(np.int32)
    want = filled((7, 3))
    x = Tensor(want.copy()).realize()
    want[places] = values
    x[Tensor(places)] = Tensor(values)
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("length", [100, 130, 300, 40000])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_narrow_positions_in_long_axes(kind, length):
    info = np.iinfo(kind)
    places = np.array([-1, 0, -5, 99] if info.min else [255, 0, 77, 99], dtype=kind)
    places = places[places < length]
    x = np.arange(length, dtype=np.int32)
    np.testing.assert_array_equal(Tensor(x)[Tensor(places)].numpy(), x[places])
    y = Tensor(x.reshape(1, length)).realize()
    y[0, Tensor(places)] = -1
    x[places] = -1
    np.testing.assert_array_equal(y.numpy()[0], x)


def test_selecting_nothing():
    x = Tensor(X)
    for index in (
        [],
        Tensor([], dtype="int32"),
        np.zeros(3, dtype=bool),
        slice(0, 0),
        (slice(2, 1), 0),
    ):
        key = index.numpy() if isinstance(index, Tensor) else index
        assert x[index].shape == X[key].shape
        y = Tensor(X.copy()).realize()
        y[index] = 5
        np.testing.assert_array_equal(y.numpy(), X)


DTYPES = ["bool", "uint8", "int8", "int16", "uint16", "uint32", "int64", "uint64", "float16"]
DTYPES += ["bfloat16", "float64", "fp8e4m3", "fp8e5m2"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    base = X % 2 if dtype == "bool" else X % 8
    x = Tensor(base, device="PYTHON").cast(dtype).realize()
    places = Tensor([2, 0, 2], device="PYTHON")
    got = x[places]
    assert got.dtype is x.dtype
    np.testing.assert_array_equal(got.cast("float64").numpy(), base[[2, 0, 2]])
    x[places, 1:] = Tensor(X[:, 1:] % 2, device="PYTHON").cast("int32")
    want = base.copy()
    want[[2, 0, 2], 1:] = X[:, 1:] % 2
    np.testing.assert_array_equal(x.cast("float64").numpy(), want)


def test_extreme_integers_survive():
    values = np.array([-(2**63), 2**63 - 1, 0, -1], dtype=np.int64)
    x = Tensor(values.copy()).realize()
    np.testing.assert_array_equal(x[Tensor([1, 0, 3])].numpy(), values[[1, 0, 3]])
    x[Tensor([2, 2])] = Tensor(values[:2])
    np.testing.assert_array_equal(x.numpy(), values[[0, 1, 1, 3]])


def test_nan_and_infinity_stay_where_they_are():
    values = np.array([np.nan, np.inf, -np.inf, -0.0], dtype=np.float32)
    x = Tensor(values.copy()).realize()
    got = x[Tensor([3, 1, 0, 2])].numpy()
    np.testing.assert_array_equal(got, values[[3, 1, 0, 2]])
    x[Tensor([3])] = 1.0
    np.testing.assert_array_equal(x.numpy(), [np.nan, np.inf, -np.inf, 1.0])


def test_writes_show_in_views_and_through_them():
    want = filled((4, 6))
    x = Tensor(want.copy()).realize()
    rows, turned = x[1:3], x.permute(1, 0)
    rows[Tensor([0]), ::2] = -1
    turned[Tensor([5, 1])] = Tensor([[7], [8]])
    want[1:3][[0], ::2] = -1
    want.T[[5, 1]] = [[7], [8]]
    for tensor, array in ((x, want), (rows, want[1:3]), (turned, want.T)):
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_a_value_read_from_the_target_is_that_of_before():
    want = filled((6,))
    x = Tensor(want.copy()).realize()
    x[Tensor([0, 1, 2])] = x[Tensor([1, 2, 3])] * 10
    want[[0, 1, 2]] = want[[1, 2, 3]] * 10
    x[1:] = x[:-1]
    want[1:] = want[:-1].copy()
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_number_without_axes_is_written_too():
    x = Tensor(1.0)
    x[None, ...] = 5.0
    x[...] = x + 1
    assert x.item() == 6.0


def test_a_mask_write_of_one_value_does_not_read_the_mask():
    @TinyJit
    def step(x, limit):
        y = x.contiguous()
        y[y > limit] = 0
        return y.realize()

    for k in range(4):
        x = Tensor(X + k).realize()
        limit = Tensor([k * 3]).realize()
        np.testing.assert_array_equal(step(x, limit).numpy(), np.where(X + k > k * 3, 0, X + k))


def test_sharded_tensors_are_read_at_positions():
    devices = ("CPU:0", "CPU:1")
    x = Tensor(X).shard(devices, axis=1)
    np.testing.assert_array_equal(x[Tensor([2, 0]).shard(devices)].numpy(), X[[2, 0]])
    np.testing.assert_array_equal(x[1].numpy(), X[1])
