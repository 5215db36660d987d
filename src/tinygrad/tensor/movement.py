"""Joining, splitting, padding and windows: shape changes that the shared mixin does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from tinygrad.dtype import dtypes, greatest_value, least_upper_dtype, least_value
from tinygrad.helpers import argfix, ceildiv, make_tuple
from tinygrad.tensor.core import TensorCore
from tinygrad.uop.ops import Ops, UOp, resolve, sint

PadMode = ("constant", "reflect", "replicate", "circular")


class MovementOpsMixin(TensorCore):
    """pad, cat, stack, split, roll, diagonals, triangles, sliding windows."""

    __slots__ = ()

    # ---- padding

    def _pad_pairs(self, padding) -> list[tuple[sint, sint]]:
        """Per axis (before, after), from either way of writing it."""
        entries = list(padding)
        if all(isinstance(p, (int, UOp)) for p in entries) and entries:
            # flat, last axis first, as torch.nn.functional.pad
            if len(entries) % 2:
                raise ValueError(
                    f"flat padding needs an even number of entries, got {tuple(entries)}"
                )
            pairs = list(zip(entries[::2], entries[1::2]))[::-1]
            entries = [None] * (self.ndim - len(pairs)) + pairs
        if len(entries) != self.ndim:
            raise ValueError(f"padding {padding} has {len(entries)} entries for {self.ndim} axes")
        return [(0, 0) if p is None else tuple(p) for p in entries]

    def pad(
        self,
        padding: Sequence[sint] | Sequence[tuple[sint, sint] | None],
        mode: str = "constant",
        value: float = 0.0,
    ) -> Self:
        """Adds elements before and after each axis; negative amounts cut.

        `padding` is one (before, after) or None per axis, or flat with the last axis first. Modes:
        "constant" fills with `value`, "reflect" mirrors, "replicate" repeats the edge, "circular"
        wraps around. Raises ValueError for a wrong number of entries or too large a mirror,
        NotImplementedError for an unknown mode.

        >>> Tensor([[1, 2]]).pad((1, 0, 0, 1)).tolist()
        [[0, 1, 2], [0, 0, 0]]
        >>> Tensor([1, 2, 3]).pad(((2, 1),), value=9).tolist()
        [9, 9, 1, 2, 3, 9]
        """
        if mode not in PadMode:
            raise NotImplementedError(f"mode is one of {PadMode}, got {mode!r}")
        pairs = self._pad_pairs(padding)
        if mode == "constant":
            padded = self._pad_constant(pairs, value)
            # a filled copy, and no view, also where there is nothing to fill
            return self._own_values() if padded is self and value != 0 else padded
        if mode == "circular" and any(isinstance(p, int) and p < 0 for pair in pairs for p in pair):
            raise NotImplementedError(f"circular padding cannot cut, got {pairs}: shrink first")
        if any(isinstance(amount, UOp) for pair in pairs for amount in pair):
            raise RuntimeError(f"mode {mode!r} needs numbers, got symbolic amounts {pairs}")
        grown = self
        for axis, (before, after) in enumerate(pairs):
            if before > 0 or after > 0:
                grown = grown._pad_axis(axis, max(before, 0), max(after, 0), mode)
        return grown._cut(pairs)

    def _cut(self, pairs) -> Self:
        """Applies the negative amounts of `pairs`."""
        if not any(isinstance(p, int) and p < 0 for pair in pairs for p in pair):
            return self
        bounds = tuple(
            (
                -b if isinstance(b, int) and b < 0 else 0,
                s + a if isinstance(a, int) and a < 0 else s,
            )
            for s, (b, a) in zip(self.shape, pairs)
        )
        return self.shrink(bounds)

    def _pad_constant(self, pairs, value: float) -> Self:
        kept = self._cut(pairs)
        amounts = tuple(
            tuple(p if isinstance(p, UOp) or p > 0 else 0 for p in pair) for pair in pairs
        )
        if all(isinstance(p, int) and p == 0 for pair in amounts for p in pair):
            return kept
        padded = kept._mop(Ops.PAD, amounts)
        if value == 0:
            return padded
        inside = kept.ones_like(dtype=dtypes.bool, requires_grad=False)._mop(Ops.PAD, amounts)
        return (
            inside.where(padded, value)
            if dtypes.is_float(self.dtype)
            or value
            not in (
                float("inf"),
                -float("inf"),
            )
            else inside.where(
                padded, greatest_value(self.dtype) if value > 0 else least_value(self.dtype)
            )
        )

    def _pad_axis(self, axis: int, before: int, after: int, mode: str) -> Self:
        """One axis grown by copies of its own elements."""
        size = self.shape[axis]
        if mode in ("reflect", "circular"):
            limit = size - 1 if mode == "reflect" else size
            if max(before, after) > limit:
                raise ValueError(
                    f"padding ({before}, {after}) is out of range for mode {mode!r}: axis {axis} of "
                    f"length {size} has at most {limit} elements to copy"
                )

        def part(begin: sint, end: sint):
            return self.shrink(tuple((begin, end) if i == axis else None for i in range(self.ndim)))

        if mode == "reflect":
            left, right = (
                part(1, before + 1).flip(axis),
                part(size - after - 1, size - 1).flip(axis),
            )
        elif mode == "circular":
            left, right = part(size - before, size), part(0, after)
        else:
            left = part(0, 1).expand(
                *[before if i == axis else s for i, s in enumerate(self.shape)]
            )
            right = part(size - 1, size).expand(
                *[after if i == axis else s for i, s in enumerate(self.shape)]
            )
        pieces = [p for p, n in ((left, before), (self, 1), (right, after)) if n]
        return pieces[0].cat(*pieces[1:], dim=axis)

    def pad_to(self, shape, *args) -> Self:
        """Zeros added after each axis up to `shape` (None keeps an axis).

        >>> Tensor([1, 2]).pad_to(4).tolist()
        [1, 2, 0, 0]
        """
        wanted = argfix(shape, *args)
        if len(wanted) != self.ndim:
            raise ValueError(f"pad_to needs one size per axis: got {wanted} for shape {self.shape}")
        return self.pad(
            tuple(None if w is None else (0, w - s) for w, s in zip(wanted, self.shape))
        )

    # ---- joining

    def cat(self: Self, *args: Self, dim: int = 0) -> Self:
        """Tensors joined along axis `dim`; the other axes must be equal, dtypes promote.

        >>> Tensor([1, 2]).cat(Tensor([3])).tolist()
        [1, 2, 3]
        """
        axis = self._resolve_dim(dim)
        parts = [self, *args]
        for t in parts:
            if t.ndim != self.ndim or any(
                a != b
                for i, (a, b) in enumerate(zip(self.shape, t.shape))
                if i != axis and isinstance(a, int) and isinstance(b, int)
            ):
                raise AssertionError(
                    f"cat along axis {axis} needs equal other axes, got {[p.shape for p in parts]}"
                )
        common = least_upper_dtype(*[t.dtype for t in parts])
        lengths = [t.shape[axis] for t in parts]
        total, start, placed = sum(lengths), 0, []
        for t, length in zip(parts, lengths):
            around = tuple(
                (start, total - start - length) if i == axis else None for i in range(t.ndim)
            )
            placed.append(t.cast(common).pad(around))
            start = start + length
        # a balanced tree keeps the graph shallow for many parts
        while len(placed) > 1:
            pairs = [a._merge(b) for a, b in zip(placed[::2], placed[1::2])]
            placed = pairs + placed[len(pairs) * 2 :]
        return placed[0]

    def _merge(self, other: Self) -> Self:
        """Sum of two parts that are never both set (for bools: or)."""
        return self | other if self.dtype is dtypes.bool else self + other

    def stack(self: Self, *args: Self, dim: int = 0) -> Self:
        """Tensors of one shape joined along a new axis `dim`.

        >>> Tensor([1, 2]).stack(Tensor([3, 4]), dim=1).tolist()
        [[1, 3], [2, 4]]
        """
        parts = argfix(self, *args)
        axis = parts[0]._resolve_dim(dim, extra=True)
        lifted = [t.unsqueeze(axis) for t in parts]
        return lifted[0].cat(*lifted[1:], dim=axis)

    # ---- splitting

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Parts along `dim`: of length `sizes` each, the last maybe shorter, or of the given lengths.

        Raises ValueError where given lengths do not add up to the axis.

        >>> [part.tolist() for part in Tensor.arange(5).split([2, 3])]
        [[0, 1], [2, 3, 4]]
        """
        axis = self._resolve_dim(dim)
        length = self.shape[axis]
        if isinstance(sizes, int):
            count = max(ceildiv(length, sizes), 1) if sizes else 1
            sizes = [min(sizes, length - i * sizes) for i in range(count)]
        if sum(sizes) != length:
            raise ValueError(f"expect sizes to sum exactly to {length}, but got {tuple(sizes)}")
        parts, start = [], 0
        for size in sizes:
            bounds = tuple((start, start + size) if i == axis else None for i in range(self.ndim))
            parts.append(self.shrink(bounds))
            start += size
        return tuple(parts)

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        """At most `chunks` parts of equal length along `dim`, the last maybe shorter.

        >>> [part.tolist() for part in Tensor.arange(5).chunk(2)]
        [[0, 1, 2], [3, 4]]
        """
        if chunks <= 0:
            raise AssertionError(f"expect chunks to be greater than 0, got {chunks}")
        length = self.shape[self._resolve_dim(dim)]
        size = ceildiv(length, chunks)
        return list(self.split(size if size else [0] * chunks, dim=dim))

    def meshgrid(self: Self, *args: Self, indexing: Literal["ij", "xy"] = "ij") -> tuple[Self, ...]:
        """Coordinate grids of 1-d (or 0-d) tensors; "xy" swaps the first two axes.

        >>> [grid.tolist() for grid in Tensor([1, 2]).meshgrid(Tensor([3, 4]))]
        [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
        """
        if indexing not in ("ij", "xy"):
            raise RuntimeError(f'indexing is "ij" or "xy", got {indexing!r}')
        lines = [t.reshape(-1) for t in (self, *args)]
        if len(lines) == 1:
            return (lines[0],)
        order = list(range(len(lines)))
        if indexing == "xy":
            order[:2] = [1, 0]
        shape = tuple(lines[i].shape[0] for i in order)
        grids = []
        for i, line in enumerate(lines):
            place = order.index(i)
            flat = tuple(line.shape[0] if p == place else 1 for p in range(len(lines)))
            grids.append(line.reshape(flat).expand(shape))
        return tuple(grids)

    # ---- rearranging

    def roll(
        self, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None
    ) -> Self:
        """Elements moved forward along `dims`, wrapping around; None rolls the flattened tensor.

        >>> Tensor([1, 2, 3, 4]).roll(1).tolist()
        [4, 1, 2, 3]
        """
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        axes = tuple(self._resolve_dim(d) for d in make_tuple(dims, 1))
        amounts = make_tuple(shifts, 1)
        if len(axes) != len(amounts):
            raise RuntimeError(f"roll needs one shift per axis, got shifts={shifts} dims={dims}")
        rolled = self
        for axis, amount in zip(axes, amounts):
            length = rolled.shape[axis]
            amount = amount % length if length else 0
            if amount:
                rest, tail = rolled.split([length - amount, amount], axis)
                rolled = tail.cat(rest, dim=axis)
        return self._own_values() if rolled is self else rolled

    def diag(self) -> Self:
        """The square matrix with this 1-d tensor on its diagonal.

        >>> Tensor([1, 2]).diag().tolist()
        [[1, 0], [0, 2]]
        """
        if self.ndim != 1:
            raise ValueError(f"diag needs a 1-d tensor, got shape {self.shape}")
        n = self.shape[0]
        return self.unsqueeze(-1).pad((None, (0, n))).flatten().shrink(((0, n * n),)).reshape(n, n)

    def diagonal(self) -> Self:
        """The main diagonal of a square matrix.

        >>> Tensor([[1, 2], [3, 4]]).diagonal().tolist()
        [1, 4]
        """
        if self.ndim != 2 or self.shape[0] != self.shape[1]:
            raise ValueError(f"diagonal needs a square matrix, got shape {self.shape}")
        n = self.shape[0]
        return self.flatten().pad(((0, n),)).reshape(n, n + 1).shrink((None, (0, 1))).flatten()

    def _below(self, diagonal: int) -> Self:
        """Bool matrix of the last two axes: True strictly above the shifted diagonal."""
        rows, columns = self.shape[-2:]
        c = self._counting(0, columns).reshape(1, columns)
        if not isinstance(rows, int):
            return self._counting(0, rows).reshape(rows, 1) + diagonal <= c
        return self._counting(diagonal, diagonal + rows).reshape(rows, 1) <= c

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two axes, from `diagonal` up; zeros elsewhere.

        Raises ValueError for a tensor of fewer axes.

        >>> Tensor.ones(3, 3).triu().tolist()
        [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
        """
        return self._below(diagonal).where(self, self.const_like(0))

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two axes, up to `diagonal`; zeros elsewhere.

        >>> Tensor.ones(3, 3).tril().tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
        """
        return self._below(diagonal + 1).where(self.const_like(0), self)

    # ---- windows

    def _windows(self, kernel: tuple[sint, ...], stride, dilation) -> Self:
        """Sliding windows over the last axes: shape (..., *positions, *kernel)."""
        n = len(kernel)
        steps, gaps = make_tuple(stride, n), make_tuple(dilation, n)
        sizes = self.shape[-n:]
        for what, numbers in (("kernel", kernel), ("stride", steps), ("dilation", gaps)):
            if any(isinstance(number, int) and number <= 0 for number in numbers):
                raise ValueError(f"{what} must be positive along every axis, got {numbers}")
        for size, k, gap in zip(sizes, kernel, gaps):
            if isinstance(size, int) and isinstance(k, int) and gap * (k - 1) + 1 > size:
                raise RuntimeError(
                    f"kernel {kernel} with dilation {gaps} is larger than the input axes {sizes}"
                )
        x, lead = self, self.ndim - n
        for i in range(n):
            # axes before `lead + 2 * i` are done: each has become (kernel, position)
            x = x._slide(lead + 2 * i, kernel[i], steps[i], gaps[i])
        offsets = [lead + 2 * i for i in range(n)]
        return x.permute(*range(lead), *[o + 1 for o in offsets], *offsets)

    def _cut_axis(self, axis: int, end: sint) -> Self:
        """The first `end` elements along one axis."""
        return self.shrink(tuple((0, end) if i == axis else None for i in range(self.ndim)))

    def _slide(self, axis: int, k: sint, step: int, gap: int) -> Self:
        """Replaces one axis by (k, positions): entry (r, p) is element `r * gap + p * step`.

        Windows that do not overlap are a split of the axis. Otherwise the axis is repeated, and the
        repetition read in rows that are `gap` longer than whole laps, so that each row starts `gap`
        further on. Only cuts and reshapes: no element is ever computed twice.
        """
        size = self.shape[axis]
        count = ceildiv(size - gap * (k - 1), step)
        span = count * step
        if gap == 1 and resolve(k <= step, False):
            missing = span - size
            x = self
            if not (isinstance(missing, int) and missing <= 0):
                x = x.pad(tuple((0, missing) if i == axis else None for i in range(self.ndim)))
            x = x._cut_axis(axis, span).unflatten(axis, (count, step))._cut_axis(axis + 1, k)
            return x.transpose(axis, axis + 1)
        # a row must have room for `span` elements; the difference decides more symbolic sizes than a
        # comparison of both, and what it leaves open gets the general form
        laps = ceildiv(span - gap, size) if resolve(span - gap - size > 0) else 1
        row = laps * size + gap
        repeats = [ceildiv(k * row, size) if i == axis else 1 for i in range(self.ndim)]
        rows = self.repeat(repeats)._cut_axis(axis, k * row).unflatten(axis, (k, row))
        rows = rows._cut_axis(axis + 1, span)
        if step == 1:
            return rows
        starts = rows.unflatten(axis + 1, (count, step))._cut_axis(axis + 2, 1)
        return starts.squeeze(axis + 2)

    def unfold(self, dim: int, size: sint, step: int) -> Self:
        """Windows of `size` along `dim`, `step` apart, as a new last axis.

        >>> Tensor.arange(5).unfold(0, 3, 1).tolist()
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        axis = self._resolve_dim(dim)
        if size < 0 or step <= 0:
            raise RuntimeError(f"unfold needs size >= 0 and step > 0, got {size=} {step=}")
        if size > self.shape[axis]:
            raise RuntimeError(
                f"window of {size} is larger than axis {axis} of length {self.shape[axis]}"
            )
        last = self.transpose(axis, -1)
        if size == 0:
            nothing = last._cut_axis(self.ndim - 1, 0).unsqueeze(-2)
            windows = nothing.expand(*last.shape[:-1], self.shape[axis] // step + 1, 0)
        else:
            windows = last._windows((size,), step, 1)
        # (..., position, size) with the old last axis at `axis`
        order: list[Any] = list(range(self.ndim))
        order[axis], order[-1] = order[-1], order[axis]
        return windows.permute(*order, self.ndim)

    def sequential(self, ll) -> Self:
        """The layers (or any functions) of `ll` applied one after the other.

        >>> Tensor([-1.0, 4.0]).sequential([Tensor.relu, Tensor.sqrt]).tolist()
        [0.0, 2.0]
        """
        x = self
        for layer in ll:
            x = layer(x)
        return x
