"""Operators that take, place, search and sort elements.

Where the shape of a result depends on the data (NonZero, Compress, Unique, NonMaxSuppression) the data is
fetched and worked on with NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor


def counted_from_start(indices: Tensor, size: int) -> Tensor:
    """Indices with the negative ones, which count from the end, made positive."""
    if dtypes.is_unsigned(indices.dtype):
        return indices
    return (indices < 0).where(indices + size, indices)


@operator("Gather")
def gather(x, indices: Tensor, axis: int = 0):
    """Slices of an axis at the indices, whose shape replaces the axis."""
    axis = axis_in(axis, x.ndim)
    if isinstance(x, np.ndarray):
        return np.take(x, indices.numpy(), axis=axis)
    before = (slice(None),) * axis
    if indices.ndim == 0 and not isinstance(indices, np.ndarray):
        return x[(*before, counted_from_start(indices, x.shape[axis]))]
    return x[(*before, counted_from_start(indices, x.shape[axis]))]


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """For each index, the element at that place along the axis."""
    return x.gather(axis, counted_from_start(indices, x.shape[axis]))


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """The parts of x that the index tuples along the last axis name."""
    depth = indices.shape[-1]
    batches = x.shape[:batch_dims]
    rows = x.reshape(math.prod(batches), *x.shape[batch_dims:])
    picks = indices.reshape(math.prod(batches), -1, depth)
    places = [counted_from_start(picks[:, :, i], rows.shape[1 + i]) for i in range(depth)]
    batch = Tensor.arange(rows.shape[0]).reshape(-1, 1).expand(picks.shape[:2])
    taken = rows[(batch, *places)]
    return taken.reshape(*indices.shape[:-1], *x.shape[batch_dims + depth :])


_REDUCTIONS: dict[str, Any] = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
):
    """x with updates placed, or combined, at indices along the axis."""
    places = counted_from_start(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """x with updates placed, or combined, where the index tuples point."""
    depth = indices.shape[-1]
    size, rest = math.prod(x.shape[:depth]), x.shape[depth:]
    flat = Tensor.zeros(*indices.shape[:-1], dtype=dtypes.int64)
    for i in range(depth):
        place = counted_from_start(indices[..., i], x.shape[i]).cast(dtypes.int64)
        flat = flat * x.shape[i] + place
    inner = math.prod(rest)
    rows = x.reshape(size, inner)
    count = math.prod(flat.shape)
    where = flat.reshape(count, 1).expand(count, inner)
    changed = scatter_elements(rows, where, updates.reshape(count, inner), 0, reduction)
    return changed.reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(past: Tensor, update: Tensor, write_indices: Tensor | None = None, axis: int = -2,
                   mode: str = "linear") -> Tensor:  # fmt: skip
    """A cache with an update written from a place per batch entry on; `circular` wraps around."""
    axis = axis_in(axis, past.ndim)
    shape = [1] * past.ndim
    shape[axis] = update.shape[axis]
    places = Tensor.arange(update.shape[axis], dtype=dtypes.int64).reshape(shape)
    if write_indices is not None:
        places = places + write_indices.cast(dtypes.int64).reshape(-1, *[1] * (past.ndim - 1))
    if mode == "circular":
        places = places % past.shape[axis]
    return past.scatter(axis, places.expand(update.shape), update)


@operator("ArrayFeatureExtractor", domain=Domain.ONNX_ML)
def array_feature_extractor(x: Tensor, indices: Tensor) -> Tensor:
    """Columns of the last axis."""
    taken = x[..., indices.reshape(-1)]
    return taken.reshape(1, -1) if x.ndim == 1 else taken


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    """The indices of elements that are not zero, one column each."""
    found = np.nonzero(np.atleast_1d(x.numpy()))
    return Tensor(np.stack(found).astype(np.int64)[: max(x.ndim, 1)])


@operator("Compress")
def compress(x: Tensor, condition: Tensor, axis: int | None = None) -> Tensor:
    """The slices (or elements of the flattened tensor) where the condition holds."""
    chosen = np.nonzero(condition.numpy())[0].astype(np.int64)
    if axis is None:
        x, axis = x.flatten(), 0
    axis = axis_in(axis, x.ndim)
    if not chosen.size:
        return x.shrink(tuple((0, 0) if i == axis else (0, n) for i, n in enumerate(x.shape)))
    return x[(slice(None),) * axis + (Tensor(chosen),)]


@operator("Unique")
def unique(x: Tensor, axis: int | None = None, sorted: int = 1):
    """The distinct elements or slices, the first place of each, the way back, and how often."""
    values, first, back, counts = np.unique(
        x.numpy(), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    back = back.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts, back = first[order], counts[order], rank[back]
    return (Tensor(values), *(Tensor(a.astype(np.int64)) for a in (first, back, counts)))


# *** searching and sorting ***
def _arg(x: Tensor, axis: int, keepdims: int, last: int, largest: bool) -> Tensor:
    if last:
        x = x.flip(axis)
    place = (
        x.argmax(axis, keepdim=bool(keepdims))
        if largest
        else x.argmin(axis, keepdim=bool(keepdims))
    )
    return (x.shape[axis] - 1 - place if last else place).cast(dtypes.int64)


@operator("ArgMax")
def arg_max(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """The place of the largest element along an axis."""
    return _arg(x, axis, keepdims, select_last_index, True)


@operator("ArgMin")
def arg_min(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """The place of the smallest element along an axis."""
    return _arg(x, axis, keepdims, select_last_index, False)


@operator("TopK", constants=("k",))
def top_k(x: Tensor, k, axis: int = -1, largest: int = 1, sorted: int = 1):
    """The k largest or smallest elements along an axis, and their places."""
    count = int(np.array(k).item())
    values, places = x.topk(count, dim=axis, largest=bool(largest), sorted_=bool(sorted))
    return values, places.cast(dtypes.int64)


def _corners(boxes: np.ndarray, centered: int) -> np.ndarray:
    """Boxes as (low y, low x, high y, high x), from any two corners or from center and size."""
    if centered:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=1)


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = np.prod(box[2:] - box[:2]) + areas - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _suppressed(
    boxes: np.ndarray, scores: np.ndarray, limit: int, overlap: float, least: float | None
):
    """Indices of boxes by falling score that overlap no better one too much."""
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    kept: list[int] = []
    while order.size and len(kept) < limit:
        kept.append(int(order[0]))
        order = order[1:][_overlaps(boxes[order[0]], boxes[order[1:]]) <= overlap]
    return kept


@operator("NonMaxSuppression", constants=("max_output", "overlap", "least_score"))
def non_max_suppression(boxes: Tensor, scores: Tensor, max_output=None, overlap=None, least_score=None,
                        center_point_box: int = 0) -> Tensor:  # fmt: skip
    """Rows of (batch, class, box): the best boxes of each class without those that overlap them."""
    limit = int(np.array(0 if max_output is None else max_output).item())
    threshold = float(np.array(0.0 if overlap is None else overlap).item())
    least = None if least_score is None else float(np.array(least_score).item())
    rows = []
    for batch, (some_boxes, by_class) in enumerate(zip(boxes.numpy(), scores.numpy())):
        corners = _corners(some_boxes, center_point_box)
        for kind, values in enumerate(by_class):
            rows += [
                (batch, kind, i) for i in _suppressed(corners, values, limit, threshold, least)
            ]
    return Tensor(np.array(rows, dtype=np.int64).reshape(-1, 3))
