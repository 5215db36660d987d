"""sort, argsort, topk, argmax: stability, NaN, ties, ends of dtypes, sizes 0 and 1, every axis."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

from .oracle import check_exact
from .values import EVERY, SHAPES, draw, dtype_id, edges, rng, rounded, tensor

INF, NAN = math.inf, math.nan


def reference(values: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Stable order; NaN counts as larger than everything, as in NumPy and PyTorch."""
    if values.ndim == 0 or values.size == 0:
        return np.zeros(values.shape, np.int64)
    keys = values
    if values.dtype.kind == "f":
        keys = np.where(np.isnan(values), np.inf, values)
        late = np.isnan(values).astype(np.int64)
    else:
        late = np.zeros(values.shape, np.int64)
    moved, later = np.moveaxis(keys, axis, -1), np.moveaxis(late, axis, -1)
    flat, flat_late = moved.reshape(-1, moved.shape[-1]), later.reshape(-1, moved.shape[-1])
    order = np.empty(flat.shape, np.int64)
    for r, (row, nan) in enumerate(zip(flat.tolist(), flat_late.tolist())):
        places = sorted(range(len(row)), key=lambda i: (nan[i], row[i]))
        if descending:  # stable too: larger first, equal ones in their order
            places = sorted(range(len(row)), key=lambda i: (-nan[i], -row[i]))
        order[r] = places
    return np.moveaxis(order.reshape(moved.shape), -1, axis)


def check_sort(values, dtype, axis, descending):
    got, order = tensor(values, dtype).sort(axis, descending)
    want = reference(values, axis, descending)
    check_exact(order, want, dtypes.int32, f"order {axis} {descending}")
    sorted_values = np.take_along_axis(values, want, axis) if values.ndim else values
    check_exact(got, sorted_values, dtype, f"values {axis} {descending}")


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
@pytest.mark.parametrize("descending", [False, True])
def test_edge_values(dtype, descending):
    values = rng("sort", dtype).permutation(edges(dtype))[:23]
    check_sort(values, dtype, 0, descending)


@pytest.mark.parametrize("descending", [False, True])
def test_nan_comes_last_and_ties_keep_their_order(descending):
    rows = [
        [NAN, 1.0, INF, -INF, NAN],
        [0.0, -0.0, 0.0, -0.0, 0.0],
        [2.0, 1.0, 2.0, 1.0, 2.0],
        [INF, INF, NAN, INF, 1.0],
    ]
    check_sort(np.array(rows, np.float32), dtypes.float32, 1, descending)
    whole = rng("ties").integers(0, 3, (3, 13)).astype(np.int32)
    check_sort(whole, dtypes.int32, 1, descending)
    check_sort(whole.astype(bool), dtypes.bool, 1, descending)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_axis(shape):
    values = draw(rng("axes", shape), shape, dtypes.int8, -4, 4)
    for axis in range(-len(shape), len(shape), 3) if shape else (0, -1):
        check_sort(values, dtypes.int8, axis, False)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 31, 32, 33])
def test_lengths_around_powers_of_two(length):
    values = draw(rng("length", length), (2, length), dtypes.float32)
    check_sort(values, dtypes.float32, 1, False)
    check_sort(values, dtypes.float32, 1, True)


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_argmax_and_argmin(dtype):
    """The first of equals; of a NaN the first NaN; every dtype's ends."""
    values = np.stack([edges(dtype), edges(dtype)[::-1]])
    t = tensor(values, dtype)
    for axis in (0, 1, -1, None):
        check_exact(t.argmax(axis), np.argmax(values, axis), dtypes.int32, f"argmax {axis}")
        check_exact(t.argmin(axis), np.argmin(values, axis), dtypes.int32, f"argmin {axis}")
    ties = rounded([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0]], dtype)
    check_exact(tensor(ties, dtype).argmax(1), np.argmax(ties, 1), dtypes.int32, "ties")
    check_exact(tensor(ties, dtype).argmin(1), np.argmin(ties, 1), dtypes.int32, "ties")
    kept = t.argmax(1, keepdim=True)
    assert kept.shape == (2, 1) and t.argmax(keepdim=True).shape == (1, 1)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 5])
def test_topk(k, largest):
    values = draw(rng("topk", k), (3, 5), dtypes.int16, -3, 3)
    got, order = tensor(values, dtypes.int16).topk(k, 1, largest)
    want = reference(values, 1, largest)[:, :k]
    check_exact(order, want, dtypes.int32)
    check_exact(got, np.take_along_axis(values, want, 1), dtypes.int16)


def test_topk_of_scalars_and_errors():
    t = Tensor([3.0, NAN, 1.0])
    values, order = t.topk(2)
    assert math.isnan(values.tolist()[0]) and values.tolist()[1] == 3.0 and order.tolist() == [1, 0]
    assert t.topk(2, largest=False)[0].tolist() == [1.0, 3.0]
    values, order = Tensor(7).topk(1)
    assert values.item() == 7 and order.item() == 0
    for k in (4, -1):
        with pytest.raises(ValueError, match="out of range"):
            t.topk(k)
    with pytest.raises(NotImplementedError, match="sorted_"):
        t.topk(1, sorted_=False)
    with pytest.raises(IndexError):
        t.topk(1, dim=1)


def test_argsort_is_the_inverse_of_its_inverse():
    order = rng("inverse").permutation(17).astype(np.int32)
    t = tensor(order, dtypes.int32)
    check_exact(t.argsort().argsort(), order, dtypes.int32)
    check_exact(t.argsort(descending=True), np.argsort(-order, kind="stable"), dtypes.int32)
