"""Operators on small values that are known without running a kernel, with NumPy.

Exported models compute shapes by chains of tiny operators (Shape, Gather, Mul, Concat, Reshape). Run here,
they cost microseconds and their results can be used as sizes at once. An operator is here only where
NumPy gives exactly what ONNX asks for; everything else goes the way of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad.nn.onnx_parts.model import tensor_from_array
from tinygrad.tensor import Tensor

# the largest result that is kept as a known value
LIMIT = 1024


class Known:
    """A value whose elements are known; `tensor` makes it one for the operators on tensors, once."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self._tensor: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        """The same elements as a tensor: a constant for a single number, so that kernels contain it."""
        if self._tensor is None:
            if self.array.size == 1:
                like = Tensor(np.zeros(0, dtype=self.array.dtype)).dtype
                self._tensor = Tensor.full(self.array.shape, self.array.item(), dtype=like)
            else:
                self._tensor = tensor_from_array(self.array)
        return self._tensor


def _axes(value: Any, rank: int) -> tuple[int, ...]:
    return tuple(int(a) + rank if a < 0 else int(a) for a in np.asarray(value).reshape(-1))


def _gather(x, indices, axis=0):
    size = x.shape[axis]
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexError(f"Gather: indices {indices.tolist()} are outside an axis of {size}")
    return np.take(x, indices, axis=axis)


def _slice(x, starts, ends, axes=None, steps=None):
    starts, ends = np.asarray(starts).reshape(-1), np.asarray(ends).reshape(-1)
    axes = range(len(starts)) if axes is None else _axes(axes, x.ndim)
    steps = [1] * len(starts) if steps is None else np.asarray(steps).reshape(-1)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        size = x.shape[axis]
        end = None if step < 0 and end < -size else int(end)
        index[axis] = slice(int(start), end, int(step))
    return x[tuple(index)]


def _squeeze(x, axes=None):
    return np.squeeze(x, axis=None if axes is None else _axes(axes, x.ndim))


def _unsqueeze(x, axes):
    return np.expand_dims(x, _axes(axes, x.ndim + np.asarray(axes).size))


def _reshape(x, shape, allowzero=0):
    wanted = [int(n) for n in np.asarray(shape).reshape(-1)]
    if not allowzero:
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return x.reshape(wanted)


def _div(a, b):
    if a.dtype.kind == "f":
        return a / b
    if not np.all(b):
        return None
    # towards zero, where NumPy rounds down
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype)


def _mod(a, b, fmod=0):
    if a.dtype.kind != "f" and not np.all(b):
        return None
    return np.fmod(a, b) if fmod else np.mod(a, b)


def _range(start, limit, delta):
    count = max(0, int(np.ceil((limit.item() - start.item()) / delta.item())))
    if count > LIMIT:
        return None
    return (start + np.arange(count, dtype=start.dtype) * delta).astype(start.dtype).reshape(-1)


def _constant_of_shape(shape, value=None):
    sizes = [int(n) for n in shape.reshape(-1)]
    if min(sizes, default=0) < 0 or np.prod(sizes, dtype=np.float64) > LIMIT:
        return None
    value = value.array if isinstance(value, Known) else value
    return np.full(sizes, 0.0 if value is None else np.asarray(value).item(),
                   dtype=np.float32 if value is None else np.asarray(value).dtype)  # fmt: skip


def _expand(x, shape):
    sizes = np.broadcast_shapes(x.shape, tuple(int(n) for n in shape.reshape(-1)))
    return np.broadcast_to(x, sizes) if np.prod(sizes, dtype=np.float64) <= LIMIT else None


def _reduce(function: Callable) -> Callable:
    def reduced(x, axes=None, keepdims=1, noop_with_empty_axes=0):
        if axes is None or np.asarray(axes).size == 0:
            if noop_with_empty_axes:
                return x
            axes = range(x.ndim)
        return function(x, axis=_axes(axes, x.ndim), keepdims=bool(keepdims), dtype=x.dtype)

    return reduced


def _same_kind(function: Callable) -> Callable:
    """Only of operands of one type: NumPy would promote where ONNX has no such operator."""

    def checked(*operands):
        if len({operand.dtype for operand in operands}) != 1:
            return None
        return function(*operands)

    return checked


def _concat(*parts, axis=1):
    return np.concatenate(parts, axis=axis) if len({p.dtype for p in parts}) == 1 else None


def _transpose(x, perm=None):
    return np.transpose(x, perm)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Identity": lambda x: x, "Gather": _gather, "Slice": _slice, "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze, "Reshape": _reshape, "Concat": _concat, "Transpose": _transpose,
    "Range": _range, "ConstantOfShape": _constant_of_shape, "Expand": _expand,
    "Add": _same_kind(np.add), "Sub": _same_kind(np.subtract), "Mul": _same_kind(np.multiply),
    "Div": _same_kind(_div), "Mod": _mod, "Neg": np.negative, "Abs": np.abs,
    "Floor": np.floor, "Ceil": np.ceil, "Sqrt": np.sqrt, "Not": np.logical_not,
    "And": np.logical_and, "Or": np.logical_or, "Equal": np.equal, "Greater": np.greater,
    "Less": np.less, "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal,
    "Where": lambda c, a, b: np.where(c, a, b) if a.dtype == b.dtype else None,
    "ReduceProd": _reduce(np.prod), "ReduceSum": _reduce(np.sum),
    "NonZero": lambda x: np.stack(np.nonzero(x)).astype(np.int64) if x.ndim else None,
}  # fmt: skip


def compute(name: str, inputs: list[Known | None], options: dict[str, Any]) -> Known | None:
    """The result, or None where the operator is not here or its result is too large."""
    function = OPERATORS.get(name)
    if function is None:
        return None
    arrays = [None if value is None else value.array for value in inputs]
    if any(a is not None and (a.dtype == object or a.size > LIMIT) for a in arrays):
        return None
    try:
        with np.errstate(all="ignore"):
            result = function(*arrays, **options)
    except TypeError:
        # attributes of an old version: the way of tensors knows them or says what is wrong
        return None
    if result is None or np.size(result) > LIMIT:
        return None
    return Known(np.asarray(result))
