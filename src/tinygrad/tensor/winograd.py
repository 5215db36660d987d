"""Fast convolution with 3-wide kernels: Winograd's F(4, 3).

In: an input already padded, a weight. Out: the convolution with stride 1, with 36 products per 4 x 4
outputs instead of 144. Matrices from Lavin and Gray, "Fast algorithms for convolutional neural
networks" (arXiv:1509.09308), section 4.3; rounding is a few bits worse than the direct sum.
Used by `conv2d` where WINO=1.
"""

from __future__ import annotations

from tinygrad.helpers import ceildiv, prod

_OUTPUT, _KERNEL = 4, 3
_TILE = _OUTPUT + _KERNEL - 1

_FILTER = (
    (1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0, 0, 1),
)  # fmt: skip
_DATA = (
    (4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1),
)  # fmt: skip
_RESULT = (
    (1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1),
)  # fmt: skip


def applies(kernel, stride, dilation) -> bool:
    """Whether the fast form can compute this convolution."""

    def all_one(value) -> bool:
        return value == 1 or (isinstance(value, (tuple, list)) and all(v == 1 for v in value))

    return (
        len(kernel) > 0
        and all(k == _KERNEL for k in kernel)
        and all_one(stride)
        and all_one(dilation)
    )


def _transform(t, matrix, n: int):
    """The matrix applied along each of the last `n` axes.

    Each row is a sum of slices times its entries, so nothing has to be stored in between, zeros cost nothing, and the
    gradient has the same form: no sums over axes that a product with a constant tensor would have spread.
    """
    for axis in range(t.ndim - n, t.ndim):
        slices = [_cut(t, axis, j) for j in range(len(matrix[0]))]
        rows = []
        for entries in matrix:
            first, *rest = (s if e == 1 else s * e for s, e in zip(slices, entries) if e)
            rows.append(sum(rest, first))
        t = rows[0].cat(*rows[1:], dim=axis)
    return t


def _cut(t, axis: int, j: int):
    return t.shrink(tuple((j, j + 1) if i == axis else None for i in range(t.ndim)))


def convolve(x, weight, groups: int, dtype):
    """The convolution of the padded `x` with `weight`, stride and dilation 1."""
    batch, channels, *sizes = x.shape
    out_channels, per_group, *kernel = weight.shape
    n, per_out = len(kernel), out_channels // groups
    outputs = [s - _KERNEL + 1 for s in sizes]
    tiles = [ceildiv(o, _OUTPUT) for o in outputs]
    filler = tuple((0, t * _OUTPUT + _KERNEL - 1 - s) for t, s in zip(tiles, sizes))
    windows = x.pad((None, None, *filler))._windows((_TILE,) * n, _OUTPUT, 1)
    data = _transform(windows, _DATA, n).contiguous_backward()
    factor = _transform(weight, _FILTER, n).contiguous_backward()
    area = (_TILE,) * n
    data = data.reshape(batch, groups, 1, per_group, *tiles, *area)
    factor = factor.reshape(1, groups, per_out, per_group, *(1,) * n, *area)
    product = (data * factor).sum(3, dtype=dtype)
    result = _transform(product, _RESULT, n)
    # interleave tile and offset within the tile, per axis
    lead = 3
    order = [i for j in range(n) for i in (lead + j, lead + n + j)]
    joined = result.permute(*range(lead), *order)
    joined = joined.reshape(batch, out_channels, *[t * _OUTPUT for t in tiles])
    assert prod(kernel) == _KERNEL**n
    return (
        joined.shrink((None, None, *[(0, o) for o in outputs])).contiguous().contiguous_backward()
    )
