"""Matrix products and decompositions."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, Self

from tinygrad.dtype import DTypeLike, dtypes, least_upper_dtype, sum_acc_dtype, to_dtype
from tinygrad.helpers import IMAGE, argfix
from tinygrad.tensor.core import TensorCore


class LinalgMixin(TensorCore):
    """dot, einsum, qr, svd."""

    __slots__ = ()

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """Matrix product over the last axis of `self` and the last but one of `w` (or its only one).

        Leading axes broadcast; vectors count as a row or a column. `dtype` sets the type of the sum.
        Raises RuntimeError where the lengths differ or an operand is a scalar.

        >>> Tensor([[1, 2], [3, 4]]).dot(Tensor([[1], [10]])).tolist()
        [[21], [43]]
        """
        if self.ndim == 0 or w.ndim == 0:
            raise RuntimeError(
                f"both tensors need to be at least 1D, got {self.ndim}D and {w.ndim}D"
            )
        contract = max(w.ndim - 2, 0)
        if self.shape[-1] != w.shape[contract]:
            raise RuntimeError(f"cannot dot {self.shape} and {w.shape}: the inner lengths differ")
        if IMAGE:
            return self.image_dot(w, dtype)
        # (..., n, 1, k) * (..., 1, m, k), without the axes that vectors do not have
        rows = self if self.ndim == 1 or w.ndim == 1 else self.unsqueeze(-2)
        columns = w if w.ndim == 1 else w.transpose(-1, -2)
        if self.ndim > 1 and w.ndim > 1:
            columns = columns.unsqueeze(-3)
        common = least_upper_dtype(self.dtype, w.dtype)
        product = rows * columns
        total = product.sum(-1, dtype=dtype if dtype is not None else sum_acc_dtype(product.dtype))
        return total.cast(common if dtype is None else to_dtype(dtype))

    def matmul(self, x: Self, reverse=False, dtype: DTypeLike | None = None) -> Self:
        """`self @ x`, or `x @ self` with `reverse`.

        >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([[0, 1], [1, 0]])).tolist()
        [[2, 1], [4, 3]]
        """
        return x.dot(self, dtype=dtype) if reverse else self.dot(x, dtype=dtype)

    def __matmul__(self, x: Self) -> Self:
        """`self @ x`, see `dot`.

        >>> (Tensor([[1, 2], [3, 4]]) @ Tensor([1, 10])).tolist()
        [21, 43]
        """
        return self.matmul(x)

    def __rmatmul__(self, x: Self) -> Self:
        """`x @ self`.

        >>> Tensor([1, 10]).__rmatmul__(Tensor([[1, 2], [3, 4]])).tolist()
        [21, 43]
        """
        return self.matmul(x, True)

    def __imatmul__(self, x: Self) -> Self:
        """`self @= x`: assigns the matrix product to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([[1, 2], [3, 4]])
        >>> x @= Tensor([[0, 1], [1, 0]])
        >>> x.tolist()
        [[2, 1], [4, 3]]
        """
        return self.assign(self.matmul(x))

    @classmethod
    def einsum(
        cls, formula: str, *operands: Self | Sequence[Self], dtype: DTypeLike | None = None
    ) -> Self:
        """Products summed as Einstein's convention says: `Tensor.einsum("ij,jk->ik", a, b)`.

        "..." stands for any leading axes. Raises RuntimeError for a formula that does not fit.

        >>> Tensor.einsum("ij,j->i", Tensor([[1, 2], [3, 4]]), Tensor([1, 10])).tolist()
        [21, 43]
        """
        tensors = list(argfix(*operands))
        inputs, output = _parse_einsum(formula, [t.ndim for t in tensors])
        sizes: dict[str, int] = {}
        for letters, t in zip(inputs, tensors):
            for letter, size in zip(letters, t.shape):
                if sizes.setdefault(letter, size) not in (size, 1) and size != 1:
                    raise RuntimeError(
                        f"axis {letter!r} has the lengths {sizes[letter]} and {size}"
                    )
                sizes[letter] = size if sizes[letter] == 1 else sizes[letter]
        order = sorted(sizes)
        aligned = [_align(t, letters, order) for letters, t in zip(inputs, tensors)]
        product = aligned[0]
        for t in aligned[1:]:
            product = product * t
        product = product._broadcast_to(tuple(sizes[letter] for letter in order))
        gone = tuple(i for i, letter in enumerate(order) if letter not in output)
        total = product.sum(gone, dtype=dtype) if gone else product
        kept = [letter for letter in order if letter in output]
        result = total.permute([kept.index(letter) for letter in output]) if kept else total
        return result if dtype is None else result.cast(dtype)

    # ---- decompositions

    def _scaled_matrices(self) -> tuple[Self, Self]:
        """The matrices divided by their largest elements, so that squares neither overflow nor vanish.

        In float32 at least. Raises RuntimeError for fewer than two axes.
        """
        if self.ndim < 2:
            raise RuntimeError(f"expected two or more dimensions, got {self.ndim}")
        wide = self._as_float()
        wide = wide.cast(dtypes.float32) if wide.dtype.itemsize < 4 else wide
        if 0 in self.shape:
            return wide, wide.ones(*self.shape[:-2], 1, 1, dtype=wide.dtype, device=self.device)
        size = wide.detach().abs().max((-2, -1), keepdim=True)
        size = (size > 0).where(size, 1).contiguous()
        return wide / size, size

    def qr(self) -> tuple[Self, Self]:
        """`(Q, R)` with `Q @ R == self`, Q orthogonal, R upper triangular, for each matrix.

        Of shapes (..., m, m) and (..., m, n) for (..., m, n); integers are decomposed as floats. Raises
        RuntimeError for fewer than two axes. Householder reflections (Golub and Van Loan, Matrix
        Computations, 5.2).

        >>> q, r = Tensor([[3.0, 1.0], [4.0, 2.0]]).qr()
        >>> (q @ r).allclose(Tensor([[3.0, 1.0], [4.0, 2.0]]), atol=1e-4)
        True
        """
        matrices, size = self._scaled_matrices()
        q, r = matrices._reflected()
        kind = self._as_float().dtype
        return q.cast(kind), (r * size).cast(kind)

    def _reflected(self) -> tuple[Self, Self]:
        """`qr` of a float tensor whose squares neither overflow nor vanish."""
        *batch, rows, columns = self.shape
        r = self
        q = (
            self.eye(rows, dtype=self.dtype, device=self.device)
            .expand(*batch, rows, rows)
            .contiguous()
        )
        for i in range(min(rows, columns)):
            below = r[..., i:rows, i : i + 1]
            length = _root(below.square().sum(-2, keepdim=True))
            head = below[..., 0:1, :]
            side = (head < 0).where(1.0, -1.0).cast(self.dtype)
            pivot = head - side * length
            usable = length != 0
            v = below / usable.where(pivot, 1.0)
            v = v[..., 1:, :].pad((None,) * len(batch) + ((1, 0), None)) + _unit_head(v)
            scale = usable.where(-side * pivot / usable.where(length, 1.0), 0.0)
            down = (None,) * len(batch) + ((i, 0), None)
            full = v.pad(down)
            r = (r - (full * scale) @ (full.transpose(-2, -1) @ r)).contiguous()
            q = (q - (q @ full) @ (full * scale).transpose(-2, -1)).contiguous()
        return q, r

    def svd(self, full_matrices=True) -> tuple[Self, Self, Self]:
        """`(U, S, V)` with `U @ diag(S) @ V == self`, S not increasing, for each matrix.

        For (..., m, n) and k the smaller of m and n: (..., m, m), (..., k) and (..., n, n), or without
        `full_matrices` (..., m, k), (..., k) and (..., k, n). Integers are decomposed as floats; U and V are
        orthogonal whatever the rank. Raises RuntimeError for fewer than two axes. One-sided Jacobi
        rotations of column pairs in round-robin order (Brent and Luk, 1985).

        >>> a = Tensor([[3.0, 0.0], [0.0, 2.0]])
        >>> u, s, v = a.svd()
        >>> [round(value, 3) for value in s.tolist()]
        [3.0, 2.0]
        """
        matrices, size = self._scaled_matrices()
        if self.shape[-2] < self.shape[-1]:
            v, s, u = matrices.transpose(-2, -1)._rotated(full_matrices)
            u, v = u, v.transpose(-2, -1)
        else:
            u, s, v = matrices._rotated(full_matrices)
            v = v.transpose(-2, -1)
        kind = self._as_float().dtype
        return u.cast(kind), (s * size.squeeze(-1)).cast(kind), v.cast(kind)

    def _rotated(self, full_matrices: bool) -> tuple[Self, Self, Self]:
        """U, S and the transpose of V of a float tensor with at least as many rows as columns."""
        *batch, rows, columns = self.shape
        work, turns = self, self.eye(columns, dtype=self.dtype, device=self.device)
        turns = turns.expand(*batch, columns, columns).contiguous()
        sweeps = max(1, columns - 1 + columns % 2) * (columns.bit_length() + 4)
        order = list(range(columns))
        for step in range(sweeps if columns > 1 else 0):
            pairs = _round_robin(order, step)
            work, turns = _rotate_both(work, turns, pairs)
        s, rank = _root(work.square().sum(-2)).sort(dim=-1, descending=True)
        pick = rank.unsqueeze(-2)
        u = work.gather(-1, pick.expand(*batch, rows, columns))
        v = turns.gather(-1, pick.expand(*batch, columns, columns))
        return _completed(u, s, full_matrices), s, v

    def newton_schulz(self, steps: int, params: tuple[int, ...], eps: float = 1.0e-7) -> Self:
        """The nearest orthogonal matrix, by an odd polynomial iteration with the given coefficients.

        Used by the Muon optimizer (Jordan et al., 2024).

        >>> Tensor([[2.0, 0.0], [0.0, 2.0]]).newton_schulz(5, (1.5, -0.5)).shape
        (2, 2)
        """
        if self.ndim < 2:
            raise AssertionError(f"expected two or more dimensions, got {self.ndim}")
        wide = self.shape[-2] > self.shape[-1]
        x = self.transpose(-2, -1) if wide else self
        x = x / (x.square().sum(axis=(-2, -1), keepdim=True).sqrt() + eps)
        for _ in range(steps):
            gram = x @ x.transpose(-2, -1)
            total: Any = None
            power = x
            for c in params:
                total = power * c if total is None else total + power * c
                power = gram @ power
            x = total
        return x.transpose(-2, -1) if wide else x


def _parse_einsum(formula: str, ranks: list[int]) -> tuple[list[str], str]:
    """Letters per operand and of the result, "..." replaced by capital letters not in use."""
    text = formula.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if any(i.count("...") > 1 for i in inputs):
        raise RuntimeError(f"an operand of {formula!r} has more than one ellipsis")
    if odd := set(text) - set(string.ascii_letters) - set(".,->"):
        raise RuntimeError(f"axes are letters, got {sorted(odd)} in {formula!r}")
    if len(inputs) != len(ranks):
        raise RuntimeError(f"{formula!r} has {len(inputs)} inputs, got {len(ranks)} operands")
    spare = [c for c in string.ascii_uppercase if c not in text]
    widths = [rank - len(i.replace("...", "")) for i, rank in zip(inputs, ranks) if "..." in i]
    dots = "".join(spare[: max(widths, default=0)])
    filled = []
    for letters, rank in zip(inputs, ranks):
        if "..." in letters:
            width = rank - (len(letters) - 3)
            letters = letters.replace("...", dots[len(dots) - width :] if width else "")
        if len(letters) != rank:
            raise RuntimeError(f"{letters!r} in {formula!r} names {len(letters)} axes of {rank}")
        filled.append(letters)
    if not arrow:
        joined = "".join(filled)
        once = sorted(c for c in set(joined) - set(dots) if joined.count(c) == 1)
        output = dots + "".join(once)
    else:
        output = output.replace("...", dots)
    unknown = set(output) - set("".join(filled))
    if unknown:
        raise RuntimeError(f"the result of {formula!r} names {sorted(unknown)}, which no input has")
    return filled, output


def _align(t, letters: str, order: list[str]):
    """`t` with its axes in `order`, missing ones of size 1; a repeated letter takes the diagonal."""
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            n = t.shape[first]
            rest = [i for i in range(t.ndim) if i not in (first, second)]
            flat = t.permute(*rest, first, second).flatten(-2)
            keep = (None,) * len(rest)
            flat = (
                flat.pad(keep + ((0, n),)).unflatten(-1, (n, n + 1)).shrink(keep + (None, (0, 1)))
            )
            t = flat.squeeze(-1)
            letters = "".join(letters[i] for i in rest) + letter
    t = t.permute([letters.index(letter) for letter in order if letter in letters])
    return t.reshape(_aligned_shape(t.shape, letters, order))


def _aligned_shape(shape, letters: str, order: list[str]) -> tuple[int, ...]:
    lengths = iter(shape)
    return tuple(next(lengths) if c in letters else 1 for c in order)


def _unit_head(v):
    """A column like `v` with 1 on top and 0 below."""
    top = v[..., 0:1, :].ones_like()
    return top.pad((None,) * (v.ndim - 2) + ((0, v.shape[-2] - 1), None))


def _round_robin(order: list[int], step: int) -> list[tuple[int, int]]:
    """Disjoint pairs of columns so that all pairs meet within one tournament."""
    players = order + ([None] if len(order) % 2 else [])
    n = len(players)
    turned = players[:1] + [players[1 + (i + step) % (n - 1)] for i in range(n - 1)]
    pairs = [(turned[i], turned[n - 1 - i]) for i in range(n // 2)]
    return [(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None]


def _angles(work, pairs):
    """Cosine and sine that make each pair of columns orthogonal."""
    left, right = work[..., [a for a, _ in pairs]], work[..., [b for _, b in pairs]]
    alpha, beta = left.square().sum(-2), right.square().sum(-2)
    gamma = (left * right).sum(-2)
    small = gamma.abs() <= 1e-12 * (alpha * beta).sqrt()
    zeta = (beta - alpha) / (2 * small.where(1.0, gamma))
    side = (zeta < 0).where(-1.0, 1.0)
    tangent = side / (zeta.abs() + (1 + zeta.square()).sqrt())
    tangent = small.where(0.0, tangent)
    cosine = (1 + tangent.square()).rsqrt()
    return cosine.cast(work.dtype), (cosine * tangent).cast(work.dtype)


def _turned(matrix, pairs, cosine, sine):
    """`matrix` with each pair of columns rotated by its angle."""
    columns = matrix.shape[-1]
    left, right = matrix[..., [a for a, _ in pairs]], matrix[..., [b for _, b in pairs]]
    c, s = cosine.unsqueeze(-2), sine.unsqueeze(-2)
    parts = [c * left - s * right, s * left + c * right]
    sequence = [a for a, _ in pairs] + [b for _, b in pairs]
    idle = [i for i in range(columns) if i not in sequence]
    if idle:
        parts.append(matrix[..., idle])
        sequence += idle
    joined = parts[0].cat(*parts[1:], dim=-1)
    return joined[..., [sequence.index(i) for i in range(columns)]].contiguous()


def _rotate_both(work, turns, pairs):
    cosine, sine = _angles(work, pairs)
    return _turned(work, pairs, cosine, sine), _turned(turns, pairs, cosine, sine)


def _root(square):
    """The square root, with slope 0 at 0."""
    is_zero = square == 0
    return is_zero.where(0, is_zero.where(1, square).sqrt())


def _completed(u, s, full_matrices: bool):
    """Columns of lengths `s`, not increasing, as orthonormal ones, as many as rows if `full_matrices`.

    Columns that are rounding errors next to the first, and those that are missing, have no direction of
    their own: they are taken from the orthogonal matrix that the reflections for the others make, without
    a gradient.
    """
    rows, columns = u.shape[-2:]
    if not columns and full_matrices:
        return u.eye(rows, dtype=u.dtype, device=u.device).expand(*u.shape[:-1], rows)
    if 0 in u.shape:
        return u.pad_to((*[None] * (u.ndim - 1), rows)) if full_matrices else u
    least = s[..., 0:1] * (rows * 2.0 ** -dtypes.finfo(u.dtype)[1])
    known = ((s > least) & (s > 0)).unsqueeze(-2)
    u = known.where(u / known.where(s.unsqueeze(-2), 1), 0)
    others = u.detach()._reflected()[0]
    u = known.where(u, others[..., :columns])
    return u.cat(others[..., columns:], dim=-1) if full_matrices and rows > columns else u
