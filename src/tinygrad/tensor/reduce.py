"""Reductions along axes and what is built from them: statistics, softmax, scans, order.

`axis` is None (all axes), a number or a sequence of numbers; `keepdim` keeps reduced axes with size 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from tinygrad.dtype import (
    DType,
    DTypeLike,
    dtypes,
    greatest_value,
    least_upper_dtype,
    least_value,
    sum_acc_dtype,
    to_dtype,
)
from tinygrad.gradient import stored_once
from tinygrad.helpers import ceildiv, prod
from tinygrad.tensor.core import TensorCore
from tinygrad.uop.ops import Ops, UOp, sint

# a scan over a longer axis is done in blocks of this length
_SCAN_BLOCK = 256
# the ends of so many blocks are scanned at once: less work than the blocks themselves, and no further kernels
_MOST_BLOCKS = 16 * _SCAN_BLOCK
Axis = int | Sequence[int] | None


class ReduceMixin(TensorCore):
    """Sums, extremes, moments, softmax, scans, sort."""

    __slots__ = ()

    def _axes(self, axis: Axis) -> tuple[int, ...]:
        """The axes meant, counted from the front, in order. Raises for repeats and unknown ones."""
        if axis is None:
            return tuple(range(self.ndim))
        given = (axis,) if isinstance(axis, int) else tuple(axis)
        found = tuple(self._resolve_dim(a) for a in given)
        if len(set(found)) != len(found):
            raise RuntimeError(f"axis {axis} names an axis twice")
        return tuple(sorted(found)) if self.ndim else ()

    def _reduce(self, op: Ops, axis: Axis = None, keepdim: bool = False) -> Self:
        axes = self._axes(axis)
        counted = any(not isinstance(size := self.shape[a], int) or size != 1 for a in axes)
        result = self._lift(lambda u: u.r(op, axes)) if counted else self._own_values()
        if keepdim or not axes:
            return result
        return result.reshape(tuple(s for i, s in enumerate(self.shape) if i not in axes))

    def sum(self, axis: Axis = None, keepdim=False, dtype: DTypeLike | None = None) -> Self:
        """Sum; small integers are summed as 32-bit ones, half precision in float32.

        `dtype` sets the type of accumulation and result.

        >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
        [4, 6]
        """
        wide = sum_acc_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        total = self.cast(wide)._reduce(Ops.ADD, axis, keepdim)
        narrow = dtype is None and self.dtype in (dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)
        return total.cast(self.dtype) if narrow else total

    def prod(self, axis: Axis = None, keepdim=False, dtype: DTypeLike | None = None) -> Self:
        """Product, in `dtype` where one is given.

        >>> Tensor([[1, 2], [3, 4]]).prod(axis=1).tolist()
        [2, 12]
        """
        values = self if dtype is None else self.cast(dtype)
        return values._reduce(Ops.MUL, axis, keepdim)

    def max(self, axis: Axis = None, keepdim=False) -> Self:
        """Largest element; elements that tie share the gradient.

        >>> Tensor([[1, 5], [7, 2]]).max(axis=0).tolist()
        [7, 5]
        """
        return self._reduce(Ops.MAX, axis, keepdim)

    def min(self, axis: Axis = None, keepdim=False) -> Self:
        """Smallest element; elements that tie share the gradient.

        >>> Tensor([[1, 5], [7, 2]]).min(axis=0).tolist()
        [1, 2]
        """
        return self._inverse().max(axis=axis, keepdim=keepdim)._inverse()

    def any(self, axis: Axis = None, keepdim=False) -> Self:
        """Whether some element is not zero.

        >>> Tensor([[True, False], [False, False]]).any(axis=1).tolist()
        [True, False]
        """
        return self.bool().max(axis, keepdim)

    def all(self, axis: Axis = None, keepdim=False) -> Self:
        """Whether no element is zero.

        >>> Tensor([[True, False], [True, True]]).all(axis=1).tolist()
        [False, True]
        """
        return self.logical_not().any(axis, keepdim).logical_not()

    # ---- moments

    def _count(self, axis: Axis) -> sint:
        """How many elements each result of a reduction over `axis` sees."""
        return prod([self.shape[a] for a in self._axes(axis)])

    def mean(self, axis: Axis = None, keepdim=False) -> Self:
        """Average as a float (integers give default_float); NaN over no elements.

        >>> Tensor([[1, 3], [5, 7]]).mean(axis=1).tolist()
        [2.0, 6.0]
        """
        if not dtypes.is_float(self.dtype):
            wide = self._exact_sum_dtype(axis)
            total = self.cast(wide).sum(axis=axis, keepdim=keepdim, dtype=wide)
            # the quotient is rounded where the sum still is exact, then once to the result
            exact = dtypes.float64 if wide.itemsize > 4 else dtypes.float32
            return total.cast(exact).div(self._count(axis)).cast(dtypes.float32)
        total = self.cast(sum_acc_dtype(self.dtype)).sum(axis=axis, keepdim=keepdim)
        return total.div(self._count(axis)).cast(self.dtype)

    def _exact_sum_dtype(self, axis: Axis) -> DType:
        """The narrowest dtype in which sums of integers along `axis` lose nothing, float64 for 64 bits."""
        if self.dtype.itemsize == 8:
            return dtypes.float64
        count = self._count(axis)
        most = count if isinstance(count, int) else count.vmax
        largest = max(dtypes.max(self.dtype), -dtypes.min(self.dtype)) * most
        # float32 is the fastest, and holds the integers up to 2**24
        if largest <= 1 << 24:
            return dtypes.float32
        return dtypes.int32 if largest < 1 << 31 else dtypes.int64

    def var(self, axis: Axis = None, keepdim=False, correction=1) -> Self:
        """Variance; the sum of squares is divided by `count - correction`.

        >>> Tensor([1.0, 3.0]).var(correction=0).item()
        1.0
        """
        kind = self._as_float().dtype
        if dtypes.is_int(self.dtype) and self.dtype.itemsize >= 4:
            acc = dtypes.float64  # float32 would round the integers before they are compared
        else:
            acc = least_upper_dtype(sum_acc_dtype(kind), dtypes.float32)
        wide = self.cast(acc)
        squares = (wide - wide.mean(axis=axis, keepdim=True)).square()
        total = squares.sum(axis=axis, keepdim=keepdim)
        free = self._count(axis) - correction
        if isinstance(free, UOp):
            free = free.maximum(0) if hasattr(free, "maximum") else free
        else:
            free = max(free, 0)
        return total.div(free).cast(kind)

    def var_mean(self, axis: Axis = None, keepdim=False, correction=1) -> tuple[Self, Self]:
        """`(var, mean)`.

        >>> [t.item() for t in Tensor([1.0, 3.0]).var_mean(correction=0)]
        [1.0, 2.0]
        """
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def std(self, axis: Axis = None, keepdim=False, correction=1) -> Self:
        """Standard deviation, the root of `var`; the slope is 0 where all elements are equal.

        >>> Tensor([1.0, 3.0]).std(correction=0).item()
        1.0
        """
        variance = self.var(axis, keepdim, correction)
        is_zero = variance == 0
        return is_zero.where(0, is_zero.where(1, variance).sqrt())

    def std_mean(self, axis: Axis = None, keepdim=False, correction=1) -> tuple[Self, Self]:
        """`(std, mean)`.

        >>> [t.item() for t in Tensor([1.0, 3.0]).std_mean(correction=0)]
        [1.0, 2.0]
        """
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    # ---- softmax

    def _shifted(self, axis, dtype: DTypeLike | None = None) -> tuple[Self, Self, Self]:
        """`self - max`, its exponential, and the sum of that along `axis`."""
        values = self if dtype is None else self.cast(dtype)
        shifted = values - values.max(axis=axis, keepdim=True).detach()
        powers = shifted.exp()
        return shifted, powers, powers.sum(axis=axis, keepdim=True)

    def softmax(self, axis=-1, dtype: DTypeLike | None = None) -> Self:
        """Exponentials along `axis` scaled to sum 1, without overflow.

        >>> Tensor([1.0, 1.0]).softmax().tolist()
        [0.5, 0.5]
        """
        _, powers, total = self._shifted(axis, dtype)
        return powers.div(total)

    def log_softmax(self, axis=-1, dtype: DTypeLike | None = None) -> Self:
        """Logarithm of `softmax`, more exact than taking it afterwards.

        >>> [round(v, 4) for v in Tensor([0.0, 0.0]).log_softmax().tolist()]
        [-0.6931, -0.6931]
        """
        shifted, _, total = self._shifted(axis, dtype)
        return shifted - total.log()

    def logsumexp(self, axis: Axis = None, keepdim=False) -> Self:
        """`log(sum(exp(self)))` without overflow; infinities as in the formula.

        >>> round(Tensor([0.0, 0.0]).logsumexp().item(), 4)
        0.6931
        """
        top = self.max(axis=axis, keepdim=True).detach()
        shift = top.isinf().where(0.0, top)
        total = (self - shift).exp().sum(axis=axis, keepdim=keepdim).log()
        return total + (shift if keepdim else shift.reshape(total.shape))

    # ---- position of extremes

    def argmax(self, axis=None, keepdim=False, *, dim=None) -> Self:
        """Index of the first largest element (None: of the flattened tensor), as int32; of the first
        NaN where there is one.

        `dim` is another name of `axis`. Raises IndexError over no elements.

        >>> Tensor([[1, 9, 3], [7, 5, 6]]).argmax(axis=1).tolist()
        [1, 0]
        """
        axis = dim if axis is None else axis
        if axis is None:
            flat = self.flatten().argmax(0)
            return flat.reshape((1,) * self.ndim) if keepdim else flat
        where = self._resolve_dim(axis)
        if self.ndim == 0:
            return self.zeros_like(dtype=dtypes.int32)
        length = self.shape[where]
        if isinstance(length, int) and length == 0:
            raise IndexError(
                f"argmax over axis {where} of shape {self.shape}: there are no elements"
            )
        values = self._lift(stored_once)
        hit = values == values.max(axis=where, keepdim=True)
        if dtypes.is_float(self.dtype):
            hit = hit | values.isnan()  # the first NaN, which equals nothing
        # the earliest position has the largest countdown
        countdown = self._counting(length, 0, -1).reshape(
            (length,) + (1,) * (self.ndim - 1 - where)
        )
        best = (hit * countdown).max(axis=where, keepdim=keepdim)
        return (best.neg() + length).cast(dtypes.int32)

    def argmin(self, axis=None, keepdim=False) -> Self:
        """Index of the first smallest element; otherwise as `argmax`.

        >>> Tensor([[1, 9, 3], [7, 5, 6]]).argmin(axis=1).tolist()
        [0, 1]
        """
        return self._inverse().argmax(axis=axis, keepdim=keepdim)

    # ---- scans

    def _scan_neutral(self, op: Ops):
        return {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: least_value(self.dtype)}[op]

    def _scan_direct(self, axis: int, op: Ops, exclusive: bool = False) -> Self:
        """Running reduction: each position reduces a window that ends there (`exclusive`: before it)."""
        last = self.transpose(axis, -1)
        length = last.shape[-1]
        around = (length, -1) if exclusive else (length - 1, 0)
        padded = last.pad((None,) * (self.ndim - 1) + (around,), value=self._scan_neutral(op))
        return padded._windows((length,), 1, 1)._reduce(op, -1).transpose(axis, -1)

    def _cumalu(self, axis: int, op: Ops, _include_initial: bool = False) -> Self:
        """Running reduction by `op`; `_include_initial` starts with the neutral element instead."""
        return self._scan_direct(self._resolve_dim(axis), op, exclusive=_include_initial)

    def _scan(self, axis: int, op: Ops) -> Self:
        """Running reduction along `axis`, in blocks where the axis is long."""
        where = self._resolve_dim(axis)
        if self.ndim == 0 or 0 in self.shape:
            return self._own_values()
        length = self.shape[where]
        if not isinstance(length, int) or length <= _SCAN_BLOCK * 2:
            return self._scan_direct(where, op)
        neutral = self._scan_neutral(op)
        blocks = ceildiv(length, _SCAN_BLOCK)
        last = self.transpose(where, -1)
        keep = (None,) * (self.ndim - 1)
        missing = blocks * _SCAN_BLOCK - length
        padded = last.pad(keep + ((0, missing),), value=neutral) if missing else last
        inner = padded.unflatten(-1, (blocks, _SCAN_BLOCK))._scan_direct(self.ndim, op)
        ends = inner[..., -1]
        ends = ends._scan(-1, op) if blocks > _MOST_BLOCKS else ends._scan_direct(self.ndim - 1, op)
        before = ends.pad(keep + ((1, 0),), value=neutral).shrink(keep + ((0, blocks),))
        joined = {Ops.ADD: inner.add, Ops.MUL: inner.mul, Ops.MAX: inner.maximum}[op](
            before.unsqueeze(-1)
        )
        return joined.flatten(-2).shrink(keep + ((0, length),)).transpose(where, -1)

    def cumsum(self, axis: int = 0) -> Self:
        """Running sum along `axis`.

        >>> Tensor([1, 2, 3]).cumsum().tolist()
        [1, 3, 6]
        """
        return self.cast(
            sum_acc_dtype(self.dtype) if not dtypes.is_float(self.dtype) else self.dtype
        )._scan(axis, Ops.ADD)

    def cumprod(self, axis: int) -> Self:
        """Running product along `axis`.

        >>> Tensor([1, 2, 3, 4]).cumprod(0).tolist()
        [1, 2, 6, 24]
        """
        return self._scan(axis, Ops.MUL)

    def cummax(self, axis: int = 0) -> Self:
        """Running maximum along `axis`.

        >>> Tensor([1, 3, 2, 5]).cummax().tolist()
        [1, 3, 3, 5]
        """
        return self._scan(axis, Ops.MAX)

    def logcumsumexp(self, axis=0) -> Self:
        """`log(cumsum(exp(self)))` without overflow.

        >>> [round(v, 4) for v in Tensor([0.0, 0.0]).logcumsumexp().tolist()]
        [0.0, 0.6931]
        """
        if self.ndim == 0:
            return self._own_values()
        where = self._resolve_dim(axis)
        last = self.transpose(where, -1)
        length = last.shape[-1]
        rows = last.unsqueeze(-2).expand(*last.shape[:-1], length, length)
        visible = self.ones(length, length, device=self.device, dtype=dtypes.bool).tril()
        masked = visible.where(rows, -math.inf)
        return masked.logsumexp(-1).transpose(where, -1)

    # ---- order

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """`(values, indices)` sorted along `dim`; equal elements keep their order. NaN counts as larger
        than everything: last, or first where `descending`.

        Batcher's bitonic network (Knuth, TAOCP 3, 5.3.4) on values, then positions by counting.

        >>> values, places = Tensor([3, 1, 2]).sort()
        >>> values.tolist(), places.tolist()
        ([1, 2, 3], [1, 2, 0])
        """
        where = self._resolve_dim(dim)
        length = self.shape[where] if self.ndim else 1
        if length <= 1:
            first = self.zeros_like(dtype=dtypes.default_int, requires_grad=False)
            return self._own_values(), first
        stored = self._lift(stored_once)
        values = stored.transpose(where, -1)._bitonic(descending).transpose(where, -1)
        ranks = stored._occurrence(where), values._occurrence(where)
        old, old_rank = stored.transpose(where, -1), ranks[0].transpose(where, -1)
        new, new_rank = values.transpose(where, -1), ranks[1].transpose(where, -1)
        same = _alike(old.unsqueeze(-1), new.unsqueeze(-2)) & (
            old_rank.unsqueeze(-1) == new_rank.unsqueeze(-2)
        )
        position = self._counting(0, length).reshape(length, 1)
        indices = (same * position).sum(-2).cast(dtypes.default_int).transpose(where, -1)
        return values, indices

    def _occurrence(self, dim: int) -> Self:
        """How many equal elements stand before or at each position along `dim`."""
        last = self.transpose(dim, -1)
        length = last.shape[-1]
        earlier = self.ones(length, length, device=self.device, dtype=dtypes.bool).tril()
        equal = _alike(last.unsqueeze(-1), last.unsqueeze(-2))
        return (equal & earlier).sum(-1).transpose(dim, -1)

    def _bitonic(self, descending: bool) -> Self:
        """The last axis sorted by compare-exchange of halves; padded to a power of two."""
        length, lead = self.shape[-1], self.shape[:-1]
        stages = (length - 1).bit_length()
        last = math.nan if dtypes.is_float(self.dtype) else greatest_value(self.dtype)
        filler = least_value(self.dtype) if descending else last
        keep = (None,) * (self.ndim - 1)
        missing = (1 << stages) - length
        x = self.pad(keep + ((0, missing),), value=filler) if missing else self
        for stage in range(1, stages + 1):
            for step in range(stage, 0, -1):
                x = _exchange(x, lead, stages, step, mirrored=step == stage, descending=descending)
        return x.shrink(keep + ((0, length),))

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """The indices of `sort`.

        >>> Tensor([30, 10, 20]).argsort().tolist()
        [1, 2, 0]
        """
        return self.sort(dim, descending)[1]

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """The `k` largest (or smallest) elements along `dim` and their indices, in order.

        Raises NotImplementedError for `sorted_=False`, ValueError where `k` exceeds the axis.

        >>> values, places = Tensor([3, 1, 2]).topk(2)
        >>> values.tolist(), places.tolist()
        ([3, 2], [0, 2])
        """
        if not sorted_:
            raise NotImplementedError(
                "topk gives its elements in order: sorted_=False is not available"
            )
        where = self._resolve_dim(dim)
        if not 0 <= k <= (self.shape[where] if self.ndim else 1):
            raise ValueError(f"selected index {k=} is out of range of axis {where} of {self.shape}")
        values, indices = self.sort(where, descending=largest)
        kept = tuple((0, k) if i == where else None for i in range(self.ndim))
        return values.shrink(kept), indices.shrink(kept)


def _alike(x, y):
    """Where elements are equal, or both NaN."""
    same = x == y
    return same | (x.isnan() & y.isnan()) if dtypes.is_float(x.dtype) else same


def _exchange(x, lead, stages: int, step: int, mirrored: bool, descending: bool):
    """One comparator column: pairs `2**(step-1)` apart, mirrored within their block at its start."""
    half = 1 << (step - 1)
    pairs = x.reshape(*lead, 1 << (stages - step), 2, half).contiguous()
    keep = (None,) * (len(lead) + 1)
    low, high = pairs.shrink(keep + ((0, 1), None)), pairs.shrink(keep + ((1, 2), None))
    if mirrored:
        high = high.flip(-1)
    # where they are equal either order is right; NaN is not less than anything, but comes last
    early, late = (high, low) if descending else (low, high)
    swap = late < early
    if dtypes.is_float(x.dtype):
        swap = swap | (early.isnan() & late.isnan().logical_not())
    first, second = swap.where(high, low), swap.where(low, high)
    if mirrored:
        second = second.flip(-1)
    return first.cat(second, dim=-2).reshape(*lead, 1 << stages)
