"""Reading and writing single elements along an axis: gather, scatter, masks, one-hot rows.

In: integer tensors of positions, or bool masks. Out: selections written as a comparison with a range
and a reduction, which the scheduler turns into direct reads where it can. Positions out of range
select zero and write nothing: an index is data and cannot raise.
"""

from __future__ import annotations

from typing import Literal, Self

from tinygrad.dtype import ConstType, dtypes, greatest_value, least_value
from tinygrad.tensor.core import TensorCore, broadcast_shapes


class ScatterMixin(TensorCore):
    """gather, scatter, scatter_reduce, masked_select, one_hot."""

    __slots__ = ()

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
        hit = wanted == self._counting(0, self.shape[axis])
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
        numbers = self._counting(0, self.shape[axis])
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
        order = self._counting(1, hit.shape[-1] + 1)
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
        shape = broadcast_shapes(self.shape, mask.shape)
        x, chosen = self._broadcast_to(shape).flatten(), mask._broadcast_to(shape).flatten()
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
        return wanted == self._counting(0, count)
