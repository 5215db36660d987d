"""Operators that make tensors, or move, repeat, cut and join their elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.kinds import dtype_fallback, element_dtype
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


def axis_in(axis: int, rank: int) -> int:
    """A non-negative axis. Raises ValueError outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of {rank} axes")
    return axis + rank if axis < 0 else axis


# *** making ***
@operator("Constant")
def constant(
    value=None, value_float=None, value_floats=None, value_int=None, value_ints=None,
    value_string=None, value_strings=None, sparse_value=None,
) -> Any:  # fmt: skip
    """The value of whichever attribute is there."""
    if value is not None or sparse_value is not None:
        return value if value is not None else sparse_value
    if value_float is not None or value_floats is not None:
        return np.array(value_floats if value_float is None else value_float, dtype=np.float32)
    if value_int is not None or value_ints is not None:
        return np.array(value_ints if value_int is None else value_int, dtype=np.int64)
    return np.array(value_strings if value_string is None else value_string, dtype=object)


@operator("ConstantOfShape", constants=("shape",))
def constant_of_shape(shape: list[int], value: Tensor | None = None) -> Tensor:
    """A tensor filled with one value (float32 zero by default)."""
    if value is None:
        return Tensor.zeros(*shape, dtype=dtypes.float32)
    return (
        value.reshape([1] * len(shape)).expand(shape)
        if 0 not in shape
        else Tensor.empty(*shape, dtype=value.dtype)
    )


@operator("Range", since=11)
def number_range(start, limit, delta) -> Tensor:
    """start, start + delta, ... before limit, in their common type."""
    first, end, step = (v.item() if isinstance(v, Tensor) else v for v in (start, limit, delta))
    count = max(0, math.ceil((end - first) / step))
    if isinstance(start, Tensor):
        dtype = start.dtype
    else:
        whole = all(isinstance(v, int) for v in (first, end, step))
        dtype = dtypes.int64 if whole else dtypes.float32
    return (Tensor.arange(count) * step + first).cast(dtype)


@operator("EyeLike")
def eye_like(x: Tensor, dtype: int | None = None, k: int = 0) -> Tensor:
    """Ones on a diagonal, in the shape of a matrix."""
    kind = x.dtype if dtype is None else dtype_fallback(element_dtype(dtype), "EyeLike")
    rows, columns = x.shape
    return (Tensor.arange(rows).reshape(-1, 1) + k == Tensor.arange(columns)).cast(kind)


@operator("Shape")
def shape_of(data, start: int = 0, end: int | None = None) -> np.ndarray:
    """The sizes of the axes from `start` to `end`."""
    return np.array(data.shape[slice(start, end)], dtype=np.int64)


@operator("Size")
def size_of(data) -> np.ndarray:
    """The number of elements."""
    return np.array(math.prod(data.shape), dtype=np.int64)


# *** shape ***
@operator("Reshape", constants=("shape",))
def reshape(data, shape: list[int], allowzero: int = 0):
    """A new shape; 0 keeps an axis (unless `allowzero`), -1 takes what remains."""
    if not allowzero:
        shape = [data.shape[i] if n == 0 else n for i, n in enumerate(shape)]
    elif 0 in shape and -1 in shape:
        raise ValueError(f"Reshape to {shape} with allowzero has no size for -1")
    return data.reshape(tuple(int(n) for n in shape))


@operator("Flatten")
def flatten(x: Tensor, axis: int = 1) -> Tensor:
    """A matrix: axes before `axis` become rows, the others columns."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Squeeze", constants=("axes",))
def squeeze(data, axes: list[int] | None = None):
    """Without the named axes of one element, or without all of them."""
    named = (
        None
        if axes is None
        else {axis_in(a, data.ndim) for a in np.array(axes).reshape(-1).tolist()}
    )
    if named and any(data.shape[a] != 1 for a in named):
        raise ValueError(
            f"Squeeze: axes {sorted(named)} of shape {data.shape} have not one element"
        )
    keep = [n for i, n in enumerate(data.shape) if (n != 1 if named is None else i not in named)]
    return data.reshape(tuple(keep))


@operator("Unsqueeze", constants=("axes",))
def unsqueeze(data, axes: list[int]):
    """With axes of one element at the places they have in the result."""
    wanted = np.array(axes).reshape(-1).tolist()
    rank = data.ndim + len(wanted)
    new = {axis_in(a, rank) for a in wanted}
    if len(new) != len(wanted):
        raise ValueError(f"Unsqueeze: the axes {wanted} repeat")
    sizes = iter(data.shape)
    return data.reshape(tuple(1 if i in new else next(sizes) for i in range(rank)))


@operator("Transpose")
def transpose(data, perm: list[int] | None = None):
    """Axes in another order, reversed by default."""
    order = list(range(data.ndim))[::-1] if perm is None else perm
    return data.transpose(order) if isinstance(data, np.ndarray) else data.permute(order)


@operator("Expand", constants=("shape",))
def expand(x: Tensor, shape: list[int]) -> Tensor:
    """Broadcast against a shape, in both directions."""
    return x.expand(np.broadcast_shapes(x.shape, tuple(shape)))


@operator("Tile", constants=("repeats",), since=6)
def tile(x: Tensor, repeats: list[int]) -> Tensor:
    """Repeated along each axis."""
    return x.repeat(repeats)


@operator("Tile", constants=("tiles", "axis"), since=1)
def tile_axis(x: Tensor, tiles, axis) -> Tensor:
    """Repeated along one axis."""
    repeats = [1] * x.ndim
    repeats[int(np.array(axis).item())] = int(np.array(tiles).item())
    return x.repeat(repeats)


@operator("Concat", since=4)
def concat(*parts, axis: int):
    """Joined along an existing axis."""
    if any(isinstance(p, np.ndarray) for p in parts):
        return np.concatenate(parts, axis=axis)
    return parts[0].cat(*parts[1:], dim=axis)


@operator("Concat", since=1)
def concat_first(*parts, axis: int = 1):
    """Joined along an existing axis."""
    return concat(*parts, axis=axis)


@operator("Split", constants=("split",))
def split(data: Tensor, split: list[int] | None = None, axis: int = 0, num_outputs: int = 0,
          output_count: int = 1):  # fmt: skip
    """Pieces along an axis: of the sizes given, or of equal size, the last one smaller."""
    if split is None:
        count = num_outputs or output_count
        step = -(-data.shape[axis] // count)
        split = [min(step, data.shape[axis] - i * step) for i in range(count)]
    if sum(split) != data.shape[axis]:
        raise ValueError(f"Split: {split} does not add up to the axis of {data.shape[axis]}")
    return tuple(data.split(split, dim=axis))


@operator("Slice", constants=("starts", "ends", "axes", "steps"))
def cut(data, starts, ends, axes=None, steps=None):
    """Ranges of the axes named, as slices in Python."""
    index = [slice(None)] * data.ndim
    axes = range(len(starts)) if axes is None else axes
    for i, axis in enumerate(axes):
        step = 1 if steps is None else steps[i]
        # numbers far outside stand for the ends of the axis
        begin, end, _ = slice(starts[i], ends[i], step).indices(data.shape[axis])
        if (end - begin) * step <= 0:
            index[axis] = slice(0, 0)
        else:
            index[axis] = slice(begin, None if end < 0 else end, step)
    return data[tuple(index)]


@operator("Pad", constants=("pads", "axes"))
def pad(x: Tensor, pads=None, constant_value=None, axes=None, mode: str = "constant",
        value: float = 0.0, paddings=None) -> Tensor:  # fmt: skip
    """Elements before and after each axis; negative numbers cut. `wrap` repeats the tensor."""
    pads = paddings if pads is None else pads
    axes = list(range(x.ndim)) if axes is None else [axis_in(a, x.ndim) for a in axes]
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    x = x.shrink(tuple((max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, x.shape)))
    pairs = tuple((max(0, b), max(0, a)) for b, a in zip(before, after))
    if mode == "constant":
        fill = value if constant_value is None else constant_value
        return pad_with(x, pairs, fill)
    extend = _EXTENSIONS.get(mode)
    if extend is None:
        raise ValueError(
            f"Pad: unknown mode {mode!r}, expected constant or one of {sorted(_EXTENSIONS)}"
        )
    for axis, (b, a) in enumerate(pairs):
        x = extend(x, axis, b, a) if b or a else x
    return x


def pad_with(x: Tensor, pairs, fill) -> Tensor:
    """Padded with a number or a tensor of one element."""
    if not isinstance(fill, Tensor):
        return x.pad(pairs, value=fill)
    if all(pair == (0, 0) for pair in pairs):
        return x
    inside = x.ones_like(dtype=dtypes.bool).pad(pairs, value=False)
    return inside.where(x.pad(pairs), fill.reshape([1] * x.ndim).cast(x.dtype))


def _taken(x: Tensor, axis: int, positions: np.ndarray) -> Tensor:
    """The elements at positions that follow each other in runs, by slices."""
    parts, start = [], 0
    steps = np.diff(positions)
    for i in range(1, len(positions) + 1):
        if (
            i == len(positions)
            or steps[i - 1] != steps[min(start, len(steps) - 1)]
            or abs(steps[i - 1]) > 1
        ):
            run = positions[start:i]
            low, high = int(run.min()), int(run.max()) + 1
            piece = x.shrink(
                tuple((low, high) if j == axis else (0, n) for j, n in enumerate(x.shape))
            )
            if len(run) > 1 and run[0] == run[1]:
                piece = piece.expand([len(run) if j == axis else n for j, n in enumerate(x.shape)])
            elif len(run) > 1 and run[0] > run[1]:
                piece = piece.flip(axis)
            parts.append(piece)
            start = i
    return parts[0].cat(*parts[1:], dim=axis) if len(parts) > 1 else parts[0]


def _wrapped(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    return _taken(x, axis, np.arange(-before, x.shape[axis] + after) % x.shape[axis])


def _edged(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    return _taken(x, axis, np.clip(np.arange(-before, x.shape[axis] + after), 0, x.shape[axis] - 1))


def _mirrored(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    n = x.shape[axis]
    period = max(1, 2 * (n - 1))
    positions = np.arange(-before, n + after) % period
    return _taken(x, axis, np.where(positions < n, positions, period - positions))


_EXTENSIONS = {"reflect": _mirrored, "edge": _edged, "wrap": _wrapped}


@operator("CenterCropPad", constants=("shape",))
def center_crop_pad(x: Tensor, shape: list[int], axes: list[int] | None = None) -> Tensor:
    """Cut or padded with zeros around the middle to the sizes given."""
    axes = list(range(x.ndim)) if axes is None else [axis_in(a, x.ndim) for a in axes]
    cuts, pads = [(0, n) for n in x.shape], [(0, 0)] * x.ndim
    for axis, want in zip(axes, shape):
        have = x.shape[axis]
        if want < have:
            start = (have - want) // 2
            cuts[axis] = (start, start + want)
        else:
            start = (want - have) // 2
            pads[axis] = (start, want - have - start)
    return x.shrink(tuple(cuts)).pad(tuple(pads))


@operator("Trilu", constants=("k",))
def triangle(x: Tensor, k=0, upper: int = 1) -> Tensor:
    """The part on and above (`upper`) or below diagonal k, else zeros."""
    diagonal = 0 if k is None else int(np.array(k).item())
    rows = Tensor.arange(x.shape[-2]).reshape(-1, 1) + diagonal
    columns = Tensor.arange(x.shape[-1])
    return ((rows <= columns) if upper else (rows >= columns)).where(x, x.zeros_like())


@operator("DepthToSpace")
def depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels spread over blocks of pixels."""
    n, channels, height, width = x.shape
    inner = channels // blocksize**2
    if mode == "DCR":
        split_up = x.reshape(n, blocksize, blocksize, inner, height, width).permute(
            0, 3, 4, 1, 5, 2
        )
    else:
        split_up = x.reshape(n, inner, blocksize, blocksize, height, width).permute(
            0, 1, 4, 2, 5, 3
        )
    return split_up.reshape(n, inner, height * blocksize, width * blocksize)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, blocksize: int) -> Tensor:
    """Blocks of pixels gathered into channels."""
    n, channels, height, width = x.shape
    blocks = x.reshape(n, channels, height // blocksize, blocksize, width // blocksize, blocksize)
    return blocks.permute(0, 3, 5, 1, 2, 4).reshape(
        n, channels * blocksize**2, height // blocksize, width // blocksize
    )


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Each batch entry reversed along time up to its own length."""
    time = Tensor.arange(x.shape[time_axis]).reshape(
        [-1 if i == time_axis else 1 for i in range(x.ndim)]
    )
    length = lengths.cast(dtypes.int32).reshape(
        [-1 if i == batch_axis else 1 for i in range(x.ndim)]
    )
    position = (time < length).where(length - 1 - time, time)
    return x.gather(time_axis, position.expand(x.shape))


@operator("OneHot", constants=("depth",))
def one_hot(indices: Tensor, depth, values: Tensor, axis: int = -1) -> Tensor:
    """values[1] at the indices of a new axis of `depth` elements, values[0] elsewhere."""
    count = int(np.array(depth).item())
    place = axis_in(axis, indices.ndim + 1)
    whole = indices.cast(dtypes.int64)
    whole = (whole < 0).where(whole + count, whole).unsqueeze(place)
    line = Tensor.arange(count).reshape([-1 if i == place else 1 for i in range(indices.ndim + 1)])
    return (whole == line).where(values[1], values[0])
