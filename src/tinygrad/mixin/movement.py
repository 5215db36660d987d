"""Changes of shape for everything that has `shape` and `_mop`.

Each method checks and normalises its arguments (negative axes, inferred sizes), then asks for one
of the six movement ops through `_mop(op, arg)`. A call that would change nothing returns `self`.
Arguments of `_mop`: RESHAPE and EXPAND take the new shape, PERMUTE the order, SHRINK and PAD one
pair per axis, FLIP one bool per axis. Sizes may be symbolic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tinygrad.helpers import prod
from tinygrad.mixin.rearrange import plan_rearrange
from tinygrad.uop import Ops

if TYPE_CHECKING:
    from tinygrad.uop.ops import UOp, sint


def _as_tuple(first, rest: tuple) -> tuple:
    """One sequence, or the sizes themselves as separate arguments, as a tuple."""
    if isinstance(first, (tuple, list)):
        if rest:
            raise ValueError(f"bad arg {(first, *rest)}: give one sequence or separate values")
        return tuple(first)
    return (first, *rest)


def _surely(condition: UOp | bool) -> bool:
    """True unless the (possibly symbolic) condition can be false."""
    if isinstance(condition, bool):
        return condition
    from tinygrad.uop.ops import resolve

    return bool(resolve(condition, False))


def _surely_not(condition: UOp | bool) -> bool:
    """True when the (possibly symbolic) condition can never hold."""
    if isinstance(condition, bool):
        return not condition
    from tinygrad.uop.ops import resolve

    return not resolve(condition, True)


def _same(a: sint, b: sint) -> bool:
    return a is b or _surely_not(a != b)


def _same_shape(a: tuple, b: tuple) -> bool:
    return len(a) == len(b) and all(map(_same, a, b))


class MovementMixin:
    """Changes of shape. Results have the class of `self` and the same elements.

    >>> Tensor.arange(6).reshape(2, 3).T.shape
    (3, 2)
    """

    __slots__ = ()

    # ---- what the class must give

    @property
    def shape(self) -> tuple[sint, ...]:
        """The sizes of the axes."""
        raise NotImplementedError(f"{type(self).__name__} has no shape")

    def _mop(self, op: Ops, arg) -> Self:
        """Applies one movement op with its decoded argument."""
        raise NotImplementedError(f"{type(self).__name__} has no _mop, needed for {op}")

    # ---- questions

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> Tensor([[1, 2], [3, 4]]).ndim
        2
        """
        return len(self.shape)

    def numel(self) -> UOp | int:
        """The number of elements.

        >>> Tensor([[1, 2], [3, 4]]).uop.numel()
        4
        """
        return prod(self.shape)

    def _resolve_dim(self, dim: int, *, extra: bool = False) -> int:
        """A possibly negative axis as a number from 0; `extra` allows one past the last axis."""
        count = self.ndim + int(extra)
        # a scalar answers to axes 0 and -1
        reach = max(1, count)
        if not -reach <= dim < reach:
            raise IndexError(f"{dim=} out of range {[-reach, reach - 1]}")
        return dim + count if dim < 0 else dim

    # ---- the six movement ops

    def reshape(self, shape, *args) -> Self:
        """The same elements under other sizes, in the same order.

        One size may be -1 (inferred); None keeps the size that axis has now. Raises ValueError
        when the number of elements would change, RuntimeError for more than one -1.

        >>> Tensor.arange(6).reshape(2, -1).tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        wanted = [
            self.shape[axis] if size is None else size
            for axis, size in enumerate(_as_tuple(shape, args))
        ]
        inferred = [
            axis for axis, size in enumerate(wanted) if isinstance(size, int) and size == -1
        ]
        if len(inferred) > 1:
            raise RuntimeError(f"only one dimension can be inferred using -1, getting {wanted}")
        total = prod(self.shape)
        if inferred:
            known = prod(size for axis, size in enumerate(wanted) if axis != inferred[0])
            if isinstance(known, int) and known == 0:
                raise ValueError(f"cannot infer -1 in {tuple(wanted)}: the other sizes hold 0")
            wanted[inferred[0]] = total // known
        if any(isinstance(size, int) and size < 0 for size in wanted):
            raise ValueError(f"sizes must not be negative, got {tuple(wanted)}")
        new_shape = tuple(wanted)
        if not _same(total, prod(new_shape)):
            raise ValueError(f"size mismatch, can't reshape ({self.shape}) -> ({new_shape})")
        return self if _same_shape(self.shape, new_shape) else self._mop(Ops.RESHAPE, new_shape)

    def view(self, shape, *args) -> Self:
        """Same as `reshape`.

        >>> Tensor.arange(6).view(3, 2).shape
        (3, 2)
        """
        return self.reshape(shape, *args)

    def expand(self, shape, *args) -> Self:
        """Axes of size 1 repeated to the given sizes; new axes come first.

        -1 and None keep the size. Raises ValueError when another size would have to change.

        >>> Tensor([[1], [2]]).expand(2, 3).tolist()
        [[1, 1, 1], [2, 2, 2]]
        """
        wanted = _as_tuple(shape, args)
        missing = len(wanted) - self.ndim
        if missing < 0:
            raise ValueError(f"cannot expand {self.shape} to fewer axes: {wanted}")
        aligned = (1,) * missing + self.shape
        new_shape = tuple(
            have if want is None or (isinstance(want, int) and want == -1) else want
            for have, want in zip(aligned, wanted)
        )
        if not all(_same(have, 1) or _same(have, want) for have, want in zip(aligned, new_shape)):
            raise ValueError(f"cannot expand {self.shape} to {new_shape}: only size 1 can grow")
        if _same_shape(self.shape, new_shape):
            return self
        widened = self if missing == 0 else self._mop(Ops.RESHAPE, aligned)
        return widened if _same_shape(aligned, new_shape) else widened._mop(Ops.EXPAND, new_shape)

    def permute(self, order, *args) -> Self:
        """The axes in another order. Raises RuntimeError when `order` is no permutation.

        >>> Tensor([[1, 2, 3], [4, 5, 6]]).permute(1, 0).shape
        (3, 2)
        """
        axes = tuple(self._resolve_dim(axis) for axis in _as_tuple(order, args))
        if sorted(axes) != list(range(self.ndim)):
            raise RuntimeError(f"order is not a valid permutation, getting {axes} for {self.shape}")
        return self if axes == tuple(range(self.ndim)) else self._mop(Ops.PERMUTE, axes)

    def flip(self, axis, *args) -> Self:
        """The given axes reversed. Raises RuntimeError when one is named twice.

        >>> Tensor([1, 2, 3]).flip(0).tolist()
        [3, 2, 1]
        """
        axes = [self._resolve_dim(dim) for dim in _as_tuple(axis, args)]
        if len(set(axes)) != len(axes):
            raise RuntimeError(f"dim can appear at most once, getting {axes}")
        flags = tuple(dim in axes for dim in range(self.ndim))
        return self._mop(Ops.FLIP, flags) if axes and self.ndim else self

    def shrink(self, arg: tuple[tuple[UOp | int, UOp | int] | None, ...]) -> Self:
        """The elements from `begin` up to `end` of each axis; None keeps an axis whole.

        Raises ValueError when the pairs do not fit the shape.

        >>> Tensor.arange(5).shrink(((1, 3),)).tolist()
        [1, 2]
        """
        if len(arg) != self.ndim:
            raise ValueError(f"shrink needs one pair per axis: got {arg} for shape {self.shape}")
        pairs = tuple((0, size) if p is None else tuple(p) for p, size in zip(arg, self.shape))
        for (begin, end), size in zip(pairs, self.shape):
            if any(_surely_not(ok) for ok in (begin >= 0, begin <= end, end <= size)):
                raise ValueError(f"invalid shrink {pairs} for shape {self.shape}")
        if all(_same(b, 0) and _same(e, size) for (b, e), size in zip(pairs, self.shape)):
            return self
        return self._mop(Ops.SHRINK, pairs)

    def shrink_to(self, shape, *args) -> Self:
        """Each axis cut to its first so many elements; None keeps an axis whole.

        >>> Tensor.arange(5).shrink_to(2).tolist()
        [0, 1]
        """
        sizes = _as_tuple(shape, args)
        return self.shrink(tuple(None if size is None else (0, size) for size in sizes))

    # ---- built from them

    @property
    def T(self) -> Self:
        """The transpose: axes 0 and 1 exchanged.

        >>> Tensor([[1, 2], [3, 4]]).T.tolist()
        [[1, 3], [2, 4]]
        """
        return self.transpose()

    def transpose(self, dim0=1, dim1=0) -> Self:
        """Two axes exchanged.

        >>> Tensor([[1, 2], [3, 4]]).transpose(0, 1).tolist()
        [[1, 3], [2, 4]]
        """
        order = list(range(self.ndim))
        first, second = self._resolve_dim(dim0), self._resolve_dim(dim1)
        order[first], order[second] = order[second], order[first]
        return self.permute(tuple(order))

    def flatten(self, start_dim=0, end_dim=-1) -> Self:
        """The axes `start_dim` to `end_dim`, both included, made one.

        >>> Tensor([[1, 2], [3, 4]]).flatten().tolist()
        [1, 2, 3, 4]
        """
        first, last = self._resolve_dim(start_dim), self._resolve_dim(end_dim)
        merged = prod(self.shape[first : last + 1])
        return self.reshape(self.shape[:first] + (merged,) + self.shape[last + 1 :])

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> Self:
        """One axis split into axes of the given sizes.

        >>> Tensor.arange(6).unflatten(0, (2, 3)).shape
        (2, 3)
        """
        axis = self._resolve_dim(dim)
        return self.reshape(self.shape[:axis] + tuple(sizes) + self.shape[axis + 1 :])

    def squeeze(self, dim: int | None = None) -> Self:
        """Without axis `dim` if its size is 1, or without every axis of size 1.

        >>> Tensor([[[1, 2]]]).squeeze().shape, Tensor([[[1, 2]]]).squeeze(0).shape
        ((2,), (1, 2))
        """
        if dim is None:
            kept = tuple(size for size in self.shape if not _same(size, 1))
            return self.reshape(kept)
        axis = self._resolve_dim(dim)
        if not self.ndim or not _same(self.shape[axis], 1):
            return self
        return self.reshape(self.shape[:axis] + self.shape[axis + 1 :])

    def unsqueeze(self, dim: int) -> Self:
        """A new axis of size 1 at position `dim`.

        >>> Tensor([1, 2]).unsqueeze(0).shape
        (1, 2)
        """
        axis = self._resolve_dim(dim, extra=True)
        return self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])

    def repeat(self, repeats, *args) -> Self:
        """The whole laid end to end: `repeats` copies along each axis, new axes first.

        >>> Tensor([1, 2]).repeat(2, 2).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        counts = _as_tuple(repeats, args)
        if len(counts) < self.ndim:
            raise ValueError(f"repeat needs a count per axis: got {counts} for shape {self.shape}")
        sizes = (1,) * (len(counts) - self.ndim) + self.shape
        split = [part for size in sizes for part in (1, size)]
        copied = [part for pair in zip(counts, sizes) for part in pair]
        joined = tuple(count * size for count, size in zip(counts, sizes))
        return self.reshape(tuple(split)).expand(tuple(copied)).reshape(joined)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        """Each element `repeats` times in place, along `dim` or of the flattened whole.

        >>> Tensor([1, 2]).repeat_interleave(2).tolist()
        [1, 1, 2, 2]
        """
        source, axis = (self.flatten(), 0) if dim is None else (self, self._resolve_dim(dim))
        before, size, after = source.shape[:axis], source.shape[axis], source.shape[axis + 1 :]
        copied = source.reshape((*before, size, 1, *after)).expand((*before, size, repeats, *after))
        return copied.reshape((*before, size * repeats, *after))

    def rearrange(self, formula: str, **sizes) -> Self:
        """Reshapes and permutes by a formula such as `"b (h w) c -> b c h w"`, as einops does.

        Sizes of new axes are given by name; one per group may be left out. Raises AssertionError
        for a formula that is malformed or does not fit, RuntimeError and ValueError for sizes.

        >>> Tensor.arange(6).rearrange("(a b) -> b a", a=2).tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
        plan = plan_rearrange(formula, self.shape, sizes)
        split = self
        # from the right, so that positions to the left stay
        for position, parts in reversed(plan.splits):
            split = split.unflatten(position, parts)
        moved = split.permute(plan.order)
        for start, count in reversed(plan.merges):
            if count == 0:
                moved = moved.unsqueeze(start)
            elif count > 1:
                moved = moved.flatten(start, start + count - 1)
        return moved
