"""Convolutions and matrix products in the layout of images: `IMAGE=1`, `image_conv2d`, `image_dot`.

A texture unit reads four numbers at a time. So activations are kept as an image of (batch * height) rows and (width *
channels / 4) columns of four channels, weights as one of (output channels / 4) rows; channels that four does not divide
are filled up with zeros. Inputs that are not in this layout yet are brought into it by a kernel of their own; a result
is in it already, so that the next convolution reads it as it is. The values are those of the plain forms.
"""

from __future__ import annotations

from tinygrad.dtype import least_upper_dtype, sum_acc_dtype, to_dtype
from tinygrad.helpers import round_up

_TEXEL = 4


def filled_sizes(groups: int, per_group: int, per_out: int) -> tuple[int, int, int]:
    """Groups, and channels in and out for each, so that all channels of either side fill whole texels."""
    if per_group == 1:
        groups = round_up(groups, _TEXEL)
    else:
        per_group = round_up(per_group, _TEXEL)
    if groups * per_out % _TEXEL:
        per_out = round_up(per_out, _TEXEL)
    return groups, per_group, per_out


def _grown(t, sizes: tuple[int, ...]):
    """Zeros at the end of the first axes."""
    if tuple(t.shape[: len(sizes)]) == sizes:
        return t
    rest = (None,) * (t.ndim - len(sizes))
    return t.pad(tuple((0, new - old) for old, new in zip(t.shape, sizes)) + rest)


def _through_image(t, rows: int):
    """The tensor itself, read from an image of so many rows."""
    return t.reshape(rows, -1, _TEXEL).contiguous().reshape(t.shape)


def convolve(x, weight, bias, groups: int, stride, dilation, pairs, dtype):
    """The convolution of `x` (batch, channels, height, width), with `pairs` of zeros around, with `weight`."""
    batch, _, height, width = x.shape
    out_channels, per_group, *kernel = weight.shape
    per_out = out_channels // groups
    full_groups, full_in, full_out = filled_sizes(groups, per_group, per_out)
    channels, total = full_groups * full_in, full_groups * full_out

    if channels != groups * per_group:
        x = x.reshape(batch, groups, per_group, height, width)
        x = _grown(x, (batch, full_groups, full_in)).reshape(batch, channels, height, width)
    x = _through_image(x.permute(0, 2, 3, 1), batch * height).permute(0, 3, 1, 2)

    w = weight.reshape(groups, per_out, per_group, *kernel)
    w = _grown(w, (full_groups, full_out, full_in)).reshape(
        total // _TEXEL, _TEXEL, full_in, *kernel
    )
    w = _through_image(w.permute(0, 3, 4, 2, 1), total // _TEXEL).permute(0, 4, 3, 1, 2)

    windows = x._pad_windows(pairs)._windows(tuple(kernel), stride, dilation)
    place = windows.shape[2:4]
    grouped = windows.reshape(batch, full_groups, 1, full_in, *place, *kernel)
    # (batch, height, width, group, out, in, window), channels last as they are stored
    grouped = grouped.permute(0, 4, 5, 1, 2, 3, 6, 7)
    product = grouped * w.reshape(1, 1, 1, full_groups, full_out, full_in, *kernel)
    wide = sum_acc_dtype(product.dtype) if dtype is None else to_dtype(dtype)
    result = product.sum((-3, -2, -1), dtype=wide)
    if dtype is None:
        result = result.cast(least_upper_dtype(x.dtype, weight.dtype))
    if bias is not None:
        result = result + _grown(bias.reshape(groups, per_out), (full_groups, full_out))
    # what lies in memory is the image; the rest of the channels stays behind
    result = result.reshape(batch * place[0], -1, _TEXEL).reshape(batch, *place, total)
    result = result.permute(0, 3, 1, 2)
    if total != out_channels:
        result = result.reshape(batch, full_groups, full_out, *place)
        result = result.shrink(((0, batch), (0, groups), (0, per_out), None, None))
        result = result.reshape(batch, out_channels, *place)
    return result


def multiply(x, w, dtype):
    """`x @ w` of matrices, alike in the axes before: a convolution of single elements with a group for each of them."""
    *before, rows, inner = x.shape
    columns, count = w.shape[-1], 1
    for size in before:
        count *= size
    tall = x.reshape(count, rows, inner).permute(0, 2, 1).reshape(1, count * inner, rows, 1)
    kernels = (
        w.reshape(count, inner, columns).permute(0, 2, 1).reshape(count * columns, inner, 1, 1)
    )
    result = convolve(tall, kernels, None, count, 1, 1, ((0, 0), (0, 0)), dtype)
    return result.reshape(count, columns, rows).permute(0, 2, 1).reshape(*before, rows, columns)


def multiplies(x, w) -> bool:
    """Whether a product is one of matrices that `multiply` takes."""
    return (
        x.ndim == w.ndim >= 2
        and tuple(x.shape[:-2]) == tuple(w.shape[:-2])
        and x.shape[-1] == w.shape[-2]
        and all(isinstance(size, int) and size > 0 for size in (*x.shape, *w.shape))
    )
