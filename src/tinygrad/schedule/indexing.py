"""Index arithmetic of the movement ops.

In: the indices at which a movement op's result is read. Out: the indices at which its source is
read, and the conditions under which the element exists (a PAD adds elements that have no source).
Indices are `dtypes.index` nodes, one for each axis. Nothing here knows buffers or kernels; `demand`
calls `trace_movement` for every read, users call `apply_movement_op`.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygrad.dtype import dtypes
from tinygrad.helpers import argsort
from tinygrad.uop.ops import Ops, UOp, sint

Indices = tuple[UOp, ...]


def as_index(x: sint) -> UOp:
    """A size or an offset as an index node."""
    return x if isinstance(x, UOp) else UOp.const(dtypes.index, x)


def is_one(size: sint) -> bool:
    """Whether an axis surely has exactly one element."""
    return not isinstance(size, UOp) and size == 1


def same_size(a: sint, b: sint) -> bool:
    """Whether two sizes are provably equal."""
    if isinstance(a, UOp) != isinstance(b, UOp):
        return False
    return a is b or (not isinstance(a, UOp) and a == b)


def conjunction(conditions: list[UOp]) -> UOp | None:
    """All of the conditions at once; None when there is nothing to fulfil."""
    kept: dict[UOp, None] = {}
    for condition in conditions:
        if condition.op is Ops.CONST and condition.arg is True:
            continue
        kept.setdefault(condition)
    result: UOp | None = None
    for condition in kept:
        result = condition if result is None else result & condition
    return result


def row_major_strides(shape: tuple[sint, ...]) -> list[sint]:
    """Distance between neighbours along every axis of a dense array of this shape."""
    strides: list[sint] = []
    step: sint = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return strides[::-1]


def flat_index(shape: tuple[sint, ...], indices: Indices) -> UOp:
    """Position in a dense array of this shape, simplified."""
    total: UOp | None = None
    for size, stride, index in zip(shape, row_major_strides(shape), indices):
        if is_one(size):
            continue
        term = index if is_one(stride) else index * stride
        total = term if total is None else total + term
    return as_index(0) if total is None else total.simplify()


def _product(sizes: list[sint]) -> sint:
    total: sint = 1
    for size in sizes:
        total = total * size
    return total.ssimplify() if isinstance(total, UOp) else total


def _axis_groups(old: list[sint], new: list[sint]) -> list[tuple[int, int, int, int]]:
    """Cut two shapes of equal size into the shortest runs of axes with equal products.

    A run is (old start, old stop, new start, new stop). Where a symbolic size hinders the comparison
    everything that is left is one run.
    """
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        i_end, j_end = min(i + 1, len(old)), min(j + 1, len(new))
        left, right = _product(old[i:i_end]), _product(new[j:j_end])
        while not same_size(left, right):
            symbolic = isinstance(left, UOp) or isinstance(right, UOp)
            if symbolic or (i_end == len(old) and j_end == len(new)):
                i_end, j_end = len(old), len(new)
                break
            if (left < right and i_end < len(old)) or j_end == len(new):
                left = _product(old[i : (i_end := i_end + 1)])
            else:
                right = _product(new[j : (j_end := j_end + 1)])
        groups.append((i, i_end, j, j_end))
        i, j = i_end, j_end
    return groups


def _common_tail(old: list[sint], new: list[sint]) -> int:
    """How many axes at the end of both shapes are the same."""
    count = 0
    while count < min(len(old), len(new)) and same_size(old[-1 - count], new[-1 - count]):
        count += 1
    return count


def axis_runs(
    in_shape: tuple[sint, ...], out_shape: tuple[sint, ...]
) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes that a reshape mixes: (axes before, axes after); no axes of size 1."""
    old_axes = [axis for axis, size in enumerate(in_shape) if not is_one(size)]
    new_axes = [axis for axis, size in enumerate(out_shape) if not is_one(size)]
    tail = _common_tail([in_shape[a] for a in old_axes], [out_shape[a] for a in new_axes])
    old_head, new_head = len(old_axes) - tail, len(new_axes) - tail
    old, new = (
        [in_shape[a] for a in old_axes[:old_head]],
        [out_shape[a] for a in new_axes[:new_head]],
    )
    runs = [(old_axes[i:i_end], new_axes[j:j_end]) for i, i_end, j, j_end in _axis_groups(old, new)]
    return runs + [([a], [b]) for a, b in zip(old_axes[old_head:], new_axes[new_head:])]


def _apply_reshape(in_shape: tuple[sint, ...], out_shape: tuple[sint, ...], urngs: UOp) -> UOp:
    """Reshape of the indices held by the sources of a SINK; see `reshape_indices`."""
    return UOp.sink(*reshape_indices(in_shape, out_shape, urngs.src))


def reshape_indices(
    in_shape: tuple[sint, ...], out_shape: tuple[sint, ...], indices: Indices
) -> Indices:
    """Indices into `in_shape` of the element found at `indices` of `out_shape` (mixed radix)."""
    result: list[UOp] = [as_index(0)] * len(in_shape)
    for old_axes, new_axes in axis_runs(in_shape, out_shape):
        if len(old_axes) == len(new_axes) == 1:
            result[old_axes[0]] = indices[new_axes[0]]
            continue
        new_sizes = tuple(out_shape[axis] for axis in new_axes)
        position = flat_index(new_sizes, tuple(indices[axis] for axis in new_axes))
        strides = row_major_strides(tuple(in_shape[axis] for axis in old_axes))
        for axis, stride in zip(old_axes, strides):
            digit = position if is_one(stride) else position // stride
            if axis != old_axes[0]:
                digit = digit % in_shape[axis]
            result[axis] = digit.simplify()
    return tuple(result)


def _trace_shrink(in_shape, arg, indices, conditions):
    return tuple(_offset(index, begin) for index, (begin, _) in zip(indices, arg))


def _trace_permute(in_shape, arg, indices, conditions):
    return tuple(indices[position] for position in argsort(arg))


def _trace_flip(in_shape, arg, indices, conditions):
    mirrored = []
    for size, index, flipped in zip(in_shape, indices, arg):
        mirrored.append(((size - 1) - index).simplify() if flipped else index)
    return tuple(mirrored)


def _trace_expand(in_shape, arg, indices, conditions):
    pairs = zip(in_shape, arg, indices)
    return tuple(i if same_size(old, new) else as_index(0) for old, new, i in pairs)


def _trace_reshape(in_shape, arg, indices, conditions):
    return reshape_indices(in_shape, arg, indices)


def _trace_pad(in_shape, arg, indices, conditions):
    moved = []
    for size, index, (before, after) in zip(in_shape, indices, arg):
        if not same_size(before, 0):
            conditions.append(index.ge(before).simplify())
        if not same_size(after, 0):
            conditions.append(index.lt(as_index(size + before)).simplify())
        moved.append(_offset(index, 0 - before))
    return tuple(moved)


def _offset(index: UOp, amount: sint) -> UOp:
    return index if same_size(amount, 0) else (index + amount).simplify()


_TRACERS: dict[Ops, Callable] = {
    Ops.SHRINK: _trace_shrink,
    Ops.PERMUTE: _trace_permute,
    Ops.FLIP: _trace_flip,
    Ops.EXPAND: _trace_expand,
    Ops.PAD: _trace_pad,
    Ops.RESHAPE: _trace_reshape,
}


def trace_movement(
    op: Ops, in_shape: tuple[sint, ...], arg: tuple, indices: Indices
) -> tuple[Indices, UOp | None]:
    """Indices of the source element, and when it exists (None: always)."""
    tracer = _TRACERS.get(op)
    if tracer is None:
        known = ", ".join(sorted(o.name for o in _TRACERS))
        raise RuntimeError(f"{op} is not a movement op, expected one of {known}")
    conditions: list[UOp] = []
    return tracer(in_shape, arg, indices, conditions), conjunction(conditions)


def apply_movement_op(
    op: Ops, in_shape: tuple[sint, ...], arg: tuple, rngs: tuple[UOp, ...]
) -> tuple[UOp, ...]:
    """Indices into the source of a movement op, read at `rngs`.

    `arg` is the decoded argument (`UOp.marg`). Where a PAD has no source element the index is
    Invalid; such indices may be passed in again.
    """
    conditions = [r.get_valid() for r in rngs if r.op is Ops.WHERE]
    plain = tuple(r.get_idx() if r.op is Ops.WHERE else r for r in rngs)
    moved, exists = trace_movement(op, in_shape, arg, plain)
    gate = conjunction(conditions + ([] if exists is None else [exists]))
    if gate is None:
        return moved
    return tuple(index.valid(gate) for index in moved)
