"""Subscripts: reading and writing the parts of a tensor that an index expression names.

In: the index expressions of NumPy (numbers, slices, None, Ellipsis, bools, integer and bool tensors,
arrays or lists). Out: views where plain slices suffice, else selections written as a comparison with
a range and a sum, which the scheduler turns into direct reads. Positions in a tensor that are out of
range select zero and write nothing: they are data and cannot raise. Those of numbers, lists and
arrays are known, and raise.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Self

from tinygrad.dtype import dtypes
from tinygrad.helpers import ceildiv, prod
from tinygrad.tensor import writes
from tinygrad.tensor.core import TensorCore, broadcast_shapes, live_tensors
from tinygrad.tensor.memory import is_storage
from tinygrad.uop.ops import UOp, sint


@dataclass
class _Axis:
    """What an index expression does to one axis of the result."""

    size: sint  # length after slicing
    bounds: tuple[sint, sint] | None = None  # the part that is read, None for a new axis
    stride: int = 1
    collapse: bool = False  # a single number: the axis disappears
    pick: Any = None  # an integer tensor that selects along this axis


@dataclass
class _Positions:
    """An index tensor for one axis."""

    tensor: Any
    length: int | None = None  # that of the axis it was made for, where it came from a mask
    reach: tuple[int, int] | None = (
        None  # the least and the greatest position, where they are known
    )


class _NewAxis(_Positions):
    """A bool that stands for an axis of its own: of one entry, or of none."""


@dataclass
class _Selection:
    """What index tensors that broadcast to `index_shape` select from a tensor of `shape`."""

    shape: tuple[sint, ...]
    picks: dict[int, Any]  # axis -> index tensor
    index_shape: tuple[int, ...]

    def __post_init__(self):
        self.axes = list(self.picks)
        self.rest = [i for i in range(len(self.shape)) if i not in self.picks]
        self.sizes = [self.shape[a] for a in self.axes]
        self.tail = [self.shape[i] for i in self.rest]
        # index axes that stand side by side are replaced in place, others come first
        together = self.axes[-1] - self.axes[0] + 1 == len(self.axes)
        self.at = self.axes[0] if together else 0
        n, count = len(self.index_shape), len(self.index_shape) + len(self.rest)
        self.order = [*range(n, n + self.at), *range(n), *range(n + self.at, count)]

    @property
    def result_shape(self) -> tuple[sint, ...]:
        return (*self.tail[: self.at], *self.index_shape, *self.tail[self.at :])

    def table(self, x):
        """`x` with one axis for all that the index tensors pick from, in front."""
        return x.permute(*self.axes, *self.rest).reshape(prod(self.sizes), *self.tail)

    def positions(self, x):
        """Of each selected entry the row of `table(x)`; what is out of range is so there too."""
        total = prod(self.sizes)
        wide = dtypes.int64 if isinstance(total, int) and total > dtypes.max(dtypes.int32) else None
        flat: Any = None
        for axis, size in zip(self.axes, self.sizes):
            index = self.picks[axis]
            index = (index.to(x.device) if isinstance(x.device, str) else index)._as_positions()
            index = index if wide is None else index.cast(wide)
            index = (index < 0).where(index + size, index)._broadcast_to(self.index_shape)
            if len(self.axes) > 1:
                index = ((index >= 0) & (index < size)).where(index, size * total)
            flat = index if flat is None else flat * size + index
        return flat

    def read(self, x):
        """The selected entries of `x`."""
        if any(isinstance(s, int) and s == 0 for s in self.sizes):
            return x.zeros(*self.result_shape, dtype=x.dtype, device=x.device)
        return self.table(x)._take_rows(self.positions(x)).permute(self.order)

    def write(self, x, value):
        """`x` with the selected entries replaced by `value`, of which the last counts."""
        total, count = prod(self.sizes), prod(self.index_shape)
        if total == 0 or count == 0:
            return x
        back = [self.order.index(i) for i in range(len(self.order))]
        values = value.permute(back).reshape(count, *self.tail)
        rows = x._counting(0, total).reshape(total, 1)
        turn = x._counting(1, count + 1)
        hit = self.positions(x).reshape(1, count) == rows
        last = (hit * turn).max(1).contiguous()
        new = values._take_rows(last - 1)
        touched = (last > 0).reshape(total, *(1,) * len(self.tail))
        replaced = touched.where(new, self.table(x)).reshape(*self.sizes, *self.tail)
        places = self.axes + self.rest
        return replaced.permute([places.index(i) for i in range(len(places))])


def _holds_index_objects(indices: list) -> bool:
    return any(isinstance(i, (slice, type(None), TensorCore)) or i is ... for i in indices)


def _whole_number(part, index: slice):
    """A bound of a slice as a Python number or a symbolic one."""
    if part is None or isinstance(part, UOp):
        return part
    try:
        if getattr(part, "shape", ()):
            raise TypeError
        return operator.index(part)
    except TypeError:
        raise TypeError(f"slice bounds are whole numbers, got {part!r} in {index}") from None


def _slice_axis(index: slice, size: sint) -> _Axis:
    """A slice as bounds and stride (negative strides read the same bounds backwards)."""
    start, stop, step = [_whole_number(p, index) for p in (index.start, index.stop, index.step)]
    if isinstance(step, int) and step == 0:
        raise ValueError(f"slice step cannot be zero, got {index}")
    if isinstance(size, int) and not any(isinstance(p, UOp) for p in (start, stop, step)):
        begin, end, stride = slice(start, stop, step).indices(size)
        if stride * (end - begin) < 0:
            begin = end = max(min(begin, size), 0)
        low, high = (begin, end) if stride > 0 else (end + 1, begin + 1)
        return _Axis(ceildiv(high - low, abs(stride)), (low, high), stride)
    if step not in (None, 1):
        raise TypeError(f"a symbolic slice has step 1, got {index}")
    start = 0 if start is None else start
    stop = size if stop is None else stop
    start = start + size if isinstance(start, int) and start < 0 else start
    stop = stop + size if isinstance(stop, int) and stop < 0 else stop
    return _Axis(stop - start, (start, stop))


def _number_axis(index: int | UOp, size: sint, axis: int) -> _Axis:
    """One position; negative ones count from the end."""
    if isinstance(index, int) and isinstance(size, int):
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
        index = index % size
    elif isinstance(index, int) and index < 0:
        index = size + index
    return _Axis(1, (index, index + 1), collapse=True)


def _host_values(item) -> list[Any]:
    """The elements of a nested list or an array, in order."""
    if hasattr(item, "shape"):
        return item.reshape(-1).tolist()
    level = list(item)
    while any(isinstance(entry, (list, tuple, range)) for entry in level):
        level = [part for entry in level for part in entry]
    return level


class IndexingMixin(TensorCore):
    """Subscripts."""

    __slots__ = ()

    # ---- parsing

    def _as_entries(self, item: Any) -> list[Any]:
        """The entries of `_spread_indices` that one item of an index expression stands for."""
        if isinstance(item, IndexingMixin):
            if item.dtype is not dtypes.bool:
                return [_Positions(item)]
            return item._mask_entries() if item.ndim else [self._bool_entry(bool(item.item()))]
        if isinstance(item, (list, tuple, range)) or (hasattr(item, "shape") and len(item.shape)):
            return self._listed_entries(item)
        if isinstance(item, bool) or type(item).__name__ == "bool":
            return [self._bool_entry(bool(item))]
        return [item]

    def _listed_entries(self, item) -> list[Any]:
        """As `_as_entries`, for positions or a mask that are known here: a list or an array."""
        item = list(item) if isinstance(item, range) else item
        listed: Any = type(self)(item, self.device, requires_grad=False)
        if listed.dtype is dtypes.bool:
            return listed._mask_entries(_host_values(item))
        if not hasattr(item, "shape") and not listed.numel():
            listed = listed.cast(dtypes.int32)
        reach = None
        if dtypes.is_int(listed.dtype) and listed.numel():
            numbers = _host_values(item)
            if all(isinstance(n, int) for n in numbers):
                reach = min(numbers), max(numbers)
        return [_Positions(listed, reach=reach)]

    def _bool_entry(self, value: bool) -> _NewAxis:
        """A bool without axes counts as a new axis of one entry, of which it takes one or none."""
        entries: list[int] = [0] if value else []
        return _NewAxis(type(self)(entries, self.device, dtypes.int32, requires_grad=False), 1)

    def _mask_entries(self, values: list[Any] | None = None) -> list[Any]:
        """One entry for each axis of a bool tensor: where it is true. Reads it if not given `values`."""
        return [_Positions(p, n) for p, n in zip(self._mask_positions(values), self.shape)]

    def _spread_indices(self, indices) -> list[Any]:
        """One entry per axis and new axis, the Ellipsis filled in, bool masks turned to positions."""
        items = list(indices) if isinstance(indices, tuple) else [indices]
        if isinstance(indices, list) and _holds_index_objects(indices):
            items = list(indices)
        spread: list[Any] = []
        for item in items:
            spread += self._as_entries(item)
        dots = [i for i, entry in enumerate(spread) if entry is ...]
        if len(dots) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        at = dots[0] if dots else len(spread)
        used = sum(
            1 for e in spread if e is not None and e is not ... and not isinstance(e, _NewAxis)
        )
        if used > self.ndim:
            raise IndexError(f"too many indices: got {used} for {self.ndim} axes")
        return spread[:at] + [slice(None)] * (self.ndim - used) + spread[at + 1 :]

    def _plan(self, indices) -> list[_Axis]:
        """What happens to each axis, in the order of the result."""
        plan: list[_Axis] = []
        axis = 0
        for entry in self._spread_indices(indices):
            if entry is None:
                plan.append(_Axis(1))
            elif isinstance(entry, _NewAxis):
                plan.append(_Axis(1, pick=entry.tensor))
            else:
                plan.append(self._plan_axis(entry, axis))
                axis += 1
        return plan

    def _plan_axis(self, entry, axis: int) -> _Axis:
        """What an entry that stands for an axis of `self` does to it."""
        size = self.shape[axis]
        if isinstance(entry, slice):
            return _slice_axis(entry, size)
        if isinstance(entry, _Positions):
            positions = entry.tensor
            if not dtypes.is_int(positions.dtype):
                raise IndexError(
                    f"tensors used as indices are integers or bools, got {positions.dtype}"
                )
            if entry.length is not None and entry.length != size:
                raise IndexError(
                    f"an axis of length {entry.length} of a mask does not fit axis {axis} of "
                    f"shape {self.shape}: a mask has the lengths of the axes it selects from"
                )
            for extreme in entry.reach or ():
                _number_axis(extreme, size, axis)
            return _Axis(size, (0, size), pick=positions)
        if isinstance(entry, UOp):
            return _number_axis(entry, size, axis)
        if hasattr(entry, "__index__"):
            return _number_axis(entry.__index__(), size, axis)
        raise IndexError(
            f"cannot index with {type(entry).__name__} {entry!r}: use numbers, slices, None, "
            "Ellipsis, integer or bool tensors"
        )

    def _mask_positions(self, values: list[Any] | None = None) -> list[Self]:
        """For each axis of a bool tensor the positions of its True elements, which are in `values` or read."""
        flat: Any = self.flatten().tolist() if values is None else values
        chosen = [i for i, hit in enumerate(flat) if hit]
        positions: list[Self] = []
        inner = 1
        for size in reversed(self.shape):
            along = [(i // inner) % size for i in chosen]
            positions.insert(0, type(self)(along, self.device, dtypes.int32, requires_grad=False))
            inner *= size
        return positions

    # ---- reading

    def _sliced(self, plan: list[_Axis]) -> Self:
        """Cuts, reverses, strides; new axes put in, axes of single numbers taken out."""
        kept = [p for p in plan if p.bounds is not None]
        x = self.shrink(tuple(p.bounds for p in kept))
        backwards = tuple(i for i, p in enumerate(kept) if p.stride < 0)
        x = x.flip(backwards) if backwards else x
        for i, p in enumerate(kept):
            step = abs(p.stride)
            if step > 1:
                grown = tuple(
                    (0, p.size * step - x.shape[i]) if j == i else None for j in range(x.ndim)
                )
                x = x.pad(grown).unflatten(i, (p.size, step))._cut_axis(i + 1, 1).squeeze(i + 1)
        return x.reshape(tuple(p.size for p in plan if not p.collapse))

    def __getitem__(self, indices) -> Self:
        """A part of the tensor, as NumPy selects it.

        Numbers beside index tensors select first, as in PyTorch. A bool mask is read. Raises
        IndexError for positions outside an axis, too many indices, masks that do not fit and index
        tensors that do not broadcast; positions in a tensor that are out of range give 0.

        >>> Tensor([[1, 2], [3, 4]])[:, 0].tolist()
        [1, 3]
        >>> Tensor([10, 20, 30])[Tensor([2, 0])].tolist()
        [30, 10]
        """
        plan = self._plan(indices)
        x = self._sliced(plan)
        chosen = x._selection(plan)
        return x if chosen is None else chosen.read(x)

    def _selection(self, plan: list[_Axis]) -> _Selection | None:
        """Of what `_sliced` gave: what the index tensors of the plan select of it."""
        left = [p for p in plan if not p.collapse]
        picks = {i: p.pick for i, p in enumerate(left) if p.pick is not None}
        if not picks:
            return None
        try:
            shape = broadcast_shapes(*[t.shape for t in picks.values()])
        except ValueError:
            raise IndexError(
                "index tensors must broadcast to one shape, got "
                f"{', '.join(str(t.shape) for t in picks.values())}"
            ) from None
        return _Selection(self.shape, picks, shape)

    def _as_positions(self) -> Self:
        """Positions in a signed type that holds the length of any axis of theirs.

        Those of uint64 that int64 cannot hold become the largest it holds, which is out of range too.
        """
        if self.dtype is dtypes.uint64:
            return self.minimum(dtypes.max(dtypes.int64)).cast(dtypes.int64)
        return self.cast(
            dtypes.int64 if self.dtype in (dtypes.uint32, dtypes.int64) else dtypes.int32
        )

    def _take_rows(self, index: TensorCore) -> Self:
        """`self[index]` along the first axis; rows out of range are zero. Differentiable."""
        rows, tail = self.shape[0], self.shape[1:]
        wanted = index.reshape(*index.shape, 1, *(1,) * len(tail))
        numbers = self._counting(0, rows)
        hit = wanted == numbers.reshape(rows, *(1,) * len(tail))
        return hit.where(self, self.const_like(0)).sum(index.ndim, dtype=self.dtype)

    # ---- writing

    def __iter__(self):
        """The entries along the first axis. Raises TypeError without axes.

        >>> [row.tolist() for row in Tensor([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
        """
        if not self.ndim:
            raise TypeError("cannot iterate over a 0-d tensor: it has no axes; use .item()")
        return (self[i] for i in range(len(self)))

    def __setitem__(self, indices, v) -> None:
        """Overwrites a part of the tensor, at once; `v` broadcasts and is cast.

        Of several writes to one element the last wins. A tensor computed from one that wants a
        gradient becomes the result of the write; NotImplementedError for a tensor that wants a
        gradient itself, or for such a `v` written into one that does not. Raises RuntimeError where elements
        share memory, ValueError where `v` does not broadcast, and what `__getitem__` raises.

        >>> x = Tensor([1, 2, 3])
        >>> x[Tensor([0, 2])] = 9
        >>> x.tolist()
        [9, 2, 9]
        """
        if is_storage(self.device):
            stored = v if isinstance(v, TensorCore) else type(self)(v, self.device, self.dtype)
            self[indices].assign(stored.cast(self.dtype))
            return
        value = self._value_to_write(v)
        if self.requires_grad or value.requires_grad:
            self._write_differentiable(indices, value)
            return
        if writes.shares_elements(self.uop):
            raise RuntimeError(
                "setitem target has elements that share memory (an expanded tensor): "
                "call .contiguous() first"
            )
        if writes.is_constant(self.uop):
            self.uop = self.uop.contiguous()
        writes.give_memory(self)
        self.realize()
        if (mask := self._whole_mask(indices, value)) is not None:
            self.assign(mask.where(value, self).contiguous()).realize()
            return
        plan = self._plan(indices)
        view = self._sliced(plan)
        if writes.cut_of_shards(view.uop) is not None:
            self._write_across_shards(indices, value)
            return
        written = view._overwritten(view._selection(plan), value)
        if 0 not in view.shape:
            view.assign(written.contiguous()).realize()

    def _value_to_write(self, v) -> Self:
        """`v` as a tensor with the dtype and device of `self`."""
        value: Any = v
        if not isinstance(v, TensorCore):
            kind = None if isinstance(v, (list, tuple)) else self.dtype
            value = type(self)(v, self.device, kind, requires_grad=False)
        value = value.to(self.device) if isinstance(self.device, str) else value
        return value.cast(self.dtype)

    def _write_across_shards(self, indices, value: Self) -> None:
        """A write to a part of the sharded axis: every device is told which elements of all change, and to what."""
        devices: Any = self.device
        home, axis = devices[0], self.uop.axis
        where: Any = type(self).zeros(*self.shape, dtype=dtypes.bool, device=home).contiguous()
        new: Any = type(self).zeros(*self.shape, dtype=self.dtype, device=home).contiguous()
        where[indices], new[indices] = True, value.to(home)
        where, new = (t.shard(devices, axis) for t in (where, new))
        self.assign(where.where(new, self).contiguous()).realize()

    def _whole_mask(self, indices, value: TensorCore) -> Self | None:
        """A mask tensor that is all of the index, in the shape of `self`, where one value is for all
        of its True elements: such a write needs not know where they are.
        """
        if not isinstance(indices, TensorCore) or indices.dtype is not dtypes.bool:
            return None
        rest = self.ndim - indices.ndim
        if not indices.ndim or indices.shape != self.shape[: indices.ndim] or value.ndim > rest:
            return None
        mask: Any = indices.to(self.device) if isinstance(self.device, str) else indices
        value._broadcast_to(self.shape[indices.ndim :])
        return mask.reshape(*mask.shape, *(1,) * rest)._broadcast_to(self.shape)

    def _overwritten(self, chosen: _Selection | None, value: Any) -> Self:
        """`self` with the chosen elements, or all, replaced by `value`."""
        shape = self.shape if chosen is None else chosen.result_shape
        # as in NumPy, leading axes of length 1 may be too many
        while value.ndim > len(shape) and value.shape[0] == 1:
            value = value.squeeze(0)
        value = value._broadcast_to(shape)
        return value if chosen is None else chosen.write(self, value)

    def _write_differentiable(self, indices, value: Self) -> None:
        """`self` becomes the tensor with the part replaced, as a computation that has a gradient."""
        if not self._is_computed_from_wanting():
            raise NotImplementedError(
                "setitem with requires_grad is not supported for a tensor that is not computed from "
                "one that wants a gradient: use where()"
            )
        plan = self._plan(indices)
        view = self._sliced(plan)
        new = view._overwritten(view._selection(plan), value)
        inside = view.ones_like(dtype=dtypes.bool, requires_grad=False)
        changed = inside._placed(plan, self.shape).where(new._placed(plan, self.shape), self)
        self.uop = changed.uop

    def _is_computed_from_wanting(self) -> bool:
        """Whether the gradient belongs to another tensor, from which this one is computed."""
        if not self.requires_grad:
            return False
        below = self.uop.toposort()
        return any(
            t.requires_grad and t.uop is not self.uop and t.uop in below for t in live_tensors()
        )

    def _placed(self, plan: list[_Axis], shape: tuple[sint, ...]) -> Self:
        """The inverse of `_sliced`: the elements in their places, zeros elsewhere."""
        kept = [(p, p.bounds) for p in plan if p.bounds is not None]
        x = self.reshape(tuple(p.size for p, _ in kept))
        for i, (p, (low, high)) in enumerate(kept):
            step = abs(p.stride)
            if step > 1:
                gaps = tuple((0, step - 1) if j == i + 1 else None for j in range(x.ndim + 1))
                x = x.unsqueeze(i + 1).pad(gaps).flatten(i, i + 1)._cut_axis(i, high - low)
        backwards = tuple(i for i, (p, _) in enumerate(kept) if p.stride < 0)
        x = x.flip(backwards) if backwards else x
        return x.pad(tuple((low, size - high) for (_, (low, high)), size in zip(kept, shape)))
