"""Reading and writing parts of tensors by index, mask or position.

In: the index expressions of NumPy (numbers, slices, None, Ellipsis, integer and bool tensors or
lists). Out: views where plain slices suffice, else selections written as a comparison with a range
and a sum, which the scheduler turns into direct reads. Indices out of range select zero: an index is
data and cannot raise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from tinygrad.dtype import ConstType, dtypes, greatest_value, least_value
from tinygrad.helpers import ceildiv, prod
from tinygrad.tensor.core import TensorCore, broadcast_shapes
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


def _is_tensor_index(index: Any) -> bool:
    return isinstance(index, (TensorCore, list, tuple)) or (
        hasattr(index, "dtype")
        and hasattr(index, "shape")
        and not isinstance(index, UOp)
        and len(index.shape) > 0
    )


def _slice_axis(index: slice, size: sint) -> _Axis:
    """A slice as bounds and stride (negative strides read the same bounds backwards)."""
    if index.step == 0:
        raise ValueError(f"slice step cannot be zero, got {index}")
    parts = (index.start, index.stop, index.step)
    if all(p is None or isinstance(p, int) for p in parts) and isinstance(size, int):
        start, stop, step = index.indices(size)
        if step * (stop - start) < 0:
            start = stop = max(min(start, size), 0)
        low, high = (start, stop) if step > 0 else (stop + 1, start + 1)
        return _Axis(ceildiv(high - low, abs(step)), (low, high), step)
    for p in parts:
        if p is not None and not isinstance(p, (int, UOp)):
            raise TypeError(f"slice bounds are whole numbers, got {p!r} in {index}")
    if index.step not in (None, 1):
        raise TypeError(f"a symbolic slice has step 1, got {index}")
    start = 0 if index.start is None else index.start
    stop = size if index.stop is None else index.stop
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


class IndexingMixin(TensorCore):
    """Subscripts, gather, scatter, masks."""

    __slots__ = ()

    # ---- parsing

    def _spread_indices(self, indices) -> list[Any]:
        """One entry per axis and new axis, the Ellipsis filled in, bool masks turned to positions."""
        items = list(indices) if isinstance(indices, tuple) else [indices]
        if isinstance(indices, list) and any(
            isinstance(i, (slice, type(None), TensorCore)) or i is ... for i in indices
        ):
            items = list(indices)
        spread: list[Any] = []
        for item in items:
            if isinstance(item, (list, tuple)):
                item = type(self)(item, self._index_device(), requires_grad=False)
            elif _is_tensor_index(item) and not isinstance(item, TensorCore):
                item = type(self)(item, self._index_device(), requires_grad=False)
            if isinstance(item, TensorCore) and item.dtype is dtypes.bool and item.ndim:
                axis = sum(1 for entry in spread if entry is not None)
                covered = self.shape[axis : axis + item.ndim]
                if not any(e is ... for e in spread) and item.shape != covered:
                    raise IndexError(
                        f"the mask of shape {item.shape} does not fit the axes {covered}"
                    )
                spread += item._mask_positions()
            else:
                spread.append(item)
        dots = [i for i, item in enumerate(spread) if item is ...]
        if len(dots) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        at = dots[0] if dots else len(spread)
        used = sum(1 for item in spread if item is not None and item is not ...)
        if used > self.ndim:
            raise IndexError(f"too many indices: got {used} for {self.ndim} axes")
        return spread[:at] + [slice(None)] * (self.ndim - used) + spread[at + 1 :]

    def _index_device(self):
        return self.device

    def _mask_positions(self) -> list[Self]:
        """For each axis of a bool tensor the positions of its True elements (reads the mask)."""
        flat: Any = self.flatten().tolist()
        chosen = [i for i, hit in enumerate(flat) if hit]
        positions: list[Self] = []
        inner = 1
        for size in reversed(self.shape):
            along = [(i // inner) % size for i in chosen]
            positions.insert(0, type(self)(along, self.device, dtypes.int32, requires_grad=False))
            inner *= size
        return positions

    def _plan(self, indices) -> list[_Axis]:
        """What happens to each axis, in the order of the result."""
        plan: list[_Axis] = []
        axis = 0
        for item in self._spread_indices(indices):
            if item is None:
                plan.append(_Axis(1))
                continue
            size = self.shape[axis]
            if isinstance(item, slice):
                plan.append(_slice_axis(item, size))
            elif isinstance(item, TensorCore):
                if not dtypes.is_int(item.dtype):
                    raise IndexError(
                        f"tensors used as indices are integers or bools, got {item.dtype}"
                    )
                plan.append(_Axis(size, (0, size), pick=item))
            elif isinstance(item, (int, UOp)) and not isinstance(item, bool):
                plan.append(_number_axis(item, size, axis))
            elif hasattr(item, "__index__"):
                plan.append(_number_axis(item.__index__(), size, axis))
            else:
                raise IndexError(
                    f"cannot index with {type(item).__name__} {item!r}: use numbers, slices, None, "
                    "Ellipsis, integer or bool tensors"
                )
            axis += 1
        return plan

    # ---- reading

    def _sliced(self, plan: list[_Axis]) -> Self:
        """Cuts, reverses, strides; new axes put in. Collapsing axes keep size 1."""
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
        return x.reshape(tuple(p.size for p in plan))

    def __getitem__(self, indices) -> Self:
        """A part of the tensor, as NumPy selects it.

        ```
        Tensor([[1, 2], [3, 4]])[:, 0].tolist()          # [1, 3]
        Tensor([10, 20, 30])[Tensor([2, 0])].tolist()    # [30, 10]
        ```
        Raises IndexError for positions outside an axis and too many indices.
        """
        plan = self._plan(indices)
        x = self._sliced(plan)
        gone = [i for i, p in enumerate(plan) if p.collapse]
        if gone:
            x = x.reshape(tuple(s for i, s in enumerate(x.shape) if i not in gone))
        left = [p for p in plan if not p.collapse]
        picks = {i: p.pick for i, p in enumerate(left) if p.pick is not None}
        if not picks:
            return x
        # as in PyTorch, numbers do not count among the index tensors
        axes = list(picks)
        together = axes[-1] - axes[0] + 1 == len(axes)
        return x._select(picks, together)

    def _select(self, picks: dict[int, TensorCore], together: bool) -> Self:
        """Selection along several axes by integer tensors that broadcast among each other."""
        device = self.device
        shape = broadcast_shapes(*[t.shape for t in picks.values()])
        axes = list(picks)
        rest = [i for i in range(self.ndim) if i not in picks]
        sizes = [self.shape[a] for a in axes]
        if any(isinstance(s, int) and s == 0 for s in sizes):
            kept = [self.shape[i] for i in rest]
            at = axes[0] if together else 0
            return self.zeros(*kept[:at], *shape, *kept[at:], dtype=self.dtype, device=device)
        flat_index: Any = None
        for axis, size in zip(axes, sizes):
            index = picks[axis].to(device) if isinstance(device, str) else picks[axis]
            index = index._as_positions()
            index = (index < 0).where(index + size, index)._broadcast_to(shape)
            inside = (index >= 0) & (index < size) if len(axes) > 1 else None
            index = index if inside is None else inside.where(index, size * prod(sizes))
            flat_index = index if flat_index is None else flat_index * size + index
        moved = self.permute(*axes, *rest) if axes + rest != list(range(self.ndim)) else self
        table = moved.reshape(prod(sizes), *[self.shape[i] for i in rest])
        result = table._take_rows(flat_index)
        if together and axes[0] != 0:
            n, at = len(shape), axes[0]
            order = [*range(n, n + at), *range(n), *range(n + at, result.ndim)]
            result = result.permute(order)
        return result

    def _as_positions(self) -> Self:
        """Positions in a type that compares exactly with others: uint64 has none in common with int.

        Those that int64 cannot hold become the largest it holds, which is out of range too.
        """
        if self.dtype is not dtypes.uint64:
            return self
        return self.minimum(dtypes.max(dtypes.int64)).cast(dtypes.int64)

    def _take_rows(self, index: TensorCore) -> Self:
        """`self[index]` along the first axis; rows out of range are zero. Differentiable."""
        rows, tail = self.shape[0], self.shape[1:]
        wanted = index.reshape(*index.shape, 1, *(1,) * len(tail))
        numbers = self.arange(rows, device=self.device, requires_grad=False)
        hit = wanted == numbers.reshape(rows, *(1,) * len(tail))
        return hit.where(self, self.const_like(0)).sum(index.ndim, dtype=self.dtype)

    # ---- writing

    def __iter__(self):
        """The entries along the first axis. Raises TypeError without axes."""
        if not self.ndim:
            raise TypeError("cannot iterate over a 0-d tensor: it has no axes; use .item()")
        return (self[i] for i in range(len(self)))

    def __setitem__(self, indices, v) -> None:
        """Overwrites a part of the tensor, at once; `v` broadcasts and is cast.

        Raises RuntimeError for a tensor that wants a gradient, or whose elements share memory.
        """
        if is_storage(self.device):
            self[indices].assign(
                v if isinstance(v, TensorCore) else type(self)(v, self.device, self.dtype)
            )
            return
        if self.requires_grad or (isinstance(v, TensorCore) and v.requires_grad):
            raise NotImplementedError("setitem with requires_grad is not supported: use where()")
        if self._shares_elements():
            raise RuntimeError(
                "setitem target has elements that share memory (an expanded tensor): "
                "call .contiguous() first"
            )
        value = (
            v
            if isinstance(v, TensorCore)
            else type(self)(
                v,
                self.device,
                None if isinstance(v, (list, tuple)) else self.dtype,
                requires_grad=False,
            )
        )
        value = value.to(self.device) if isinstance(self.device, str) else value
        value = value.cast(self.dtype)
        self.realize()
        plan = self._plan(indices)
        if all(p.pick is None for p in plan):
            self._write_view(indices, value)
        else:
            self.assign(self._overwritten(plan, value)).realize()

    def _shares_elements(self) -> bool:
        from tinygrad.uop.ops import Ops

        node = self.uop
        while node.op in (Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.EXPAND):
            if node.op is Ops.EXPAND:
                return True
            node = node.src[0]
        return False

    def _write_view(self, indices, value: TensorCore) -> None:
        view = self[indices]
        if 0 in view.shape:
            return
        squeezed = value
        while squeezed.ndim > view.ndim and squeezed.shape[0] == 1:
            squeezed = squeezed.squeeze(0)
        view.assign(squeezed._broadcast_to(view.shape).contiguous()).realize()

    def _overwritten(self, plan: list[_Axis], value: TensorCore) -> Self:
        """`self` with the selected elements replaced; of equal positions the last write wins.

        The positions are selected from a tensor of their own numbers, so that any index expression
        can be inverted by comparing numbers. They count from 1: an index out of range selects 0,
        which is nowhere.
        """
        total = prod(self.shape)
        numbers = self.arange(1, total + 1, device=self.device).reshape(self.shape)
        targets = numbers._from_plan(plan)
        writes = value._broadcast_to(targets.shape).flatten()
        count = prod(targets.shape)
        if count == 0:
            return self
        hit = targets.reshape(1, count) == numbers.reshape(total, 1)
        order = self.arange(1, count + 1, device=self.device)
        last = (hit * order).max(1)
        new = (last.reshape(total, 1) == order).where(writes.reshape(1, count), 0)
        new = new.sum(1, dtype=self.dtype) if self.dtype is not dtypes.bool else new.any(1)
        return (last > 0).where(new, self.flatten()).reshape(self.shape).contiguous()

    def _from_plan(self, plan: list[_Axis]) -> Self:
        """`__getitem__` for a plan that is parsed already."""
        index: list[Any] = []
        for p in plan:
            if p.bounds is None:
                index.append(None)
            elif p.pick is not None:
                index.append(p.pick)
            elif p.collapse:
                index.append(p.bounds[0])
            else:
                low, high = p.bounds
                start = low if p.stride > 0 else high - 1
                stop = high if p.stride > 0 else (low - 1 if low else None)
                index.append(slice(start, stop, p.stride))
        return self[tuple(index)]

    # ---- gather and scatter

    def _check_positions(self, dim: int, index: TensorCore, what: str) -> int:
        axis = self._resolve_dim(dim)
        if not isinstance(index, TensorCore) or not dtypes.is_int(index.dtype):
            got = index.dtype if isinstance(index, TensorCore) else type(index).__name__
            raise TypeError(f"{what}: the index must be a tensor of integers, got {got}")
        if index.ndim != self.ndim:
            raise AssertionError(
                f"{what}: self.ndim must equal index.ndim, got {self.shape} {index.shape}"
            )
        if any(s < i for d, (s, i) in enumerate(zip(self.shape, index.shape)) if d != axis):
            raise AssertionError(
                f"{what}: all axes but {axis} of the index {index.shape} must fit in {self.shape}"
            )
        return axis

    def gather(self: Self, dim: int, index: Self) -> Self:
        """`out[i][j] = self[index[i][j]][j]` for `dim=0`; indices out of range give 0.

        Raises AssertionError where `index` has other axes or exceeds the other axes of `self`.

        >>> Tensor([[1, 2], [3, 4]]).gather(1, Tensor([[1], [0]])).tolist()
        [[2], [3]]
        """
        axis = self._check_positions(dim, index, "gather")
        index = index.to(self.device) if isinstance(self.device, str) else index
        cut = tuple(None if d == axis else (0, s) for d, s in enumerate(index.shape))
        table = self.shrink(cut).unsqueeze(-1).transpose(-1, axis)
        wanted = index._as_positions().unsqueeze(-1)
        hit = wanted == self.arange(self.shape[axis], device=self.device)
        return hit.where(table, table.const_like(0)).sum(-1, dtype=self.dtype)

    def _scatter_grid(self, dim: int, index: Self, src: Self) -> tuple[Self, Self]:
        """`(values, hit)` of shape self + (positions,): which source writes to which element."""
        axis = self._check_positions(dim, index, "scatter")
        if any(i > s for i, s in zip(index.shape, src.shape)):
            raise AssertionError(f"scatter: the index {index.shape} must fit in src {src.shape}")
        if self.dtype is not src.dtype:
            raise RuntimeError(f"scatter: self has dtype {self.dtype}, src {src.dtype}: cast first")
        src = src.shrink(tuple((0, s) for s in index.shape))
        if isinstance(self.device, str):
            index = index.to(self.device)
        numbers = self.arange(self.shape[axis], device=self.device)
        hit = index._as_positions().unsqueeze(-1) == numbers
        grow = tuple(
            None if d == axis or d == self.ndim else (0, self.shape[d] - index.shape[d])
            for d in range(self.ndim + 1)
        )
        values = src.unsqueeze(-1).expand(*src.shape, self.shape[axis])
        # the positions along `axis` move last, the range over self takes their place
        return values.pad(grow).transpose(-1, axis), hit.pad(grow).transpose(-1, axis)

    def scatter(
        self, dim: int, index: Self, src: Self | ConstType,
        reduce: Literal["multiply", "add"] | None = None,
    ) -> Self:  # fmt: skip
        """`out[index[i][j]][j] = src[i][j]` for `dim=0`, over a copy of `self`.

        With `reduce` the values are added to or multiplied with what is there; without it the last
        of several writes to one element wins.

        >>> Tensor([0, 0, 0]).scatter(0, Tensor([2, 0]), Tensor([5, 7])).tolist()
        [7, 0, 5]
        """
        if reduce not in (None, "add", "multiply"):
            raise TypeError(f"reduce is None, 'add' or 'multiply', got {reduce!r}")
        if reduce is not None and isinstance(src, TensorCore):
            raise TypeError(
                "scatter with reduce takes a number as src: use scatter_reduce for tensors"
            )
        if not isinstance(src, TensorCore):
            src = index.full_like(src, dtype=self.dtype, device=self.device)
        if reduce == "add":
            return self.scatter_reduce(dim, index, src, "sum", include_self=True)
        if reduce == "multiply":
            return self.scatter_reduce(dim, index, src, "prod", include_self=True)
        values, hit = self._scatter_grid(dim, index, src)
        order = self.arange(1, hit.shape[-1] + 1, device=self.device)
        last = (hit * order).max(-1, keepdim=True)
        new = ((last == order) & hit).where(values, values.const_like(0)).sum(-1, dtype=self.dtype)
        return (last.squeeze(-1) > 0).where(new, self)

    def scatter_reduce(
        self, dim: int, index: Self, src: Self,
        reduce: Literal["sum", "prod", "mean", "amax", "amin"], include_self: bool = True,
    ) -> Self:  # fmt: skip
        """As `scatter`, but all values that meet in one element are reduced.

        `include_self` reduces the old element with them; elements nothing is written to stay.
        Raises RuntimeError for an unknown reduction.

        >>> x = Tensor([1, 1, 1])
        >>> x.scatter_reduce(0, Tensor([0, 0, 2]), Tensor([2, 3, 4]), "sum").tolist()
        [6, 1, 5]
        """
        values, hit = self._scatter_grid(dim, index, src)
        untouched = self if include_self else hit.any(-1).where(0, self).cast(self.dtype)

        def gathered(neutral):
            return hit.where(values, values.const_like(neutral))

        def start(neutral):
            return self if include_self else hit.any(-1).where(self.const_like(neutral), self)

        if reduce == "sum":
            return gathered(0).sum(-1, dtype=self.dtype) + untouched
        if reduce == "prod":
            return gathered(1).prod(-1) * start(1)
        if reduce == "amax":
            return gathered(least_value(self.dtype)).max(-1).maximum(start(least_value(self.dtype)))
        if reduce == "amin":
            return (
                gathered(greatest_value(self.dtype))
                .min(-1)
                .minimum(start(greatest_value(self.dtype)))
            )
        if reduce == "mean":
            count = hit.sum(-1) + (
                1 if include_self else hit.any(-1).logical_not().cast(dtypes.int32)
            )
            total = gathered(0).sum(-1, dtype=self.dtype) + untouched
            return total.div(count).cast(self.dtype)
        raise RuntimeError(f"reduce is 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce!r}")

    # ---- masks

    def masked_select(self, mask) -> Self:
        """The elements where `mask` is true, as a 1-d tensor (reads the mask).

        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
        [1, 3]
        """
        if not dtypes.is_bool(mask.dtype):
            raise RuntimeError(f"masked_select expects bool mask tensor, got {mask.dtype}")
        x, chosen = self.flatten(), mask._broadcast_to(self.shape).flatten()
        return x[chosen._mask_positions()[0]] if chosen.numel() else x

    def one_hot(self, num_classes: int = -1) -> Self:
        """A new last axis of `num_classes` with 1 at the element's value; -1 takes the largest + 1.

        >>> Tensor([0, 2]).one_hot(3).tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        if not dtypes.is_int(self.dtype):
            raise RuntimeError(f"expect integer dtype, getting {self.dtype}")
        count = num_classes if num_classes >= 0 else int(self.max().item()) + 1
        return self._one_hot_bool(count).where(1, 0)

    def _one_hot_bool(self, count: int) -> Self:
        wanted = self._as_positions().unsqueeze(-1)
        return wanted == self.arange(count, device=self.device, requires_grad=False)
