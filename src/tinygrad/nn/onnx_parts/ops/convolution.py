"""Convolution and pooling over any number of spatial axes."""

from __future__ import annotations

import itertools
import math
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.ops.linear import activated
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor


def begin_end_pairs(size, kernel, strides, dilations, pads, auto_pad: str) -> list[tuple[int, int]]:
    """Padding before and after each spatial axis: as given, or so that every stride gives one output."""
    n = len(kernel)
    if auto_pad in ("NOTSET", ""):
        return [(pads[i], pads[i + n]) for i in range(n)] if pads else [(0, 0)] * n
    if auto_pad == "VALID":
        return [(0, 0)] * n
    pairs = []
    for length, k, step, gap in zip(size, kernel, strides, dilations):
        total = max(0, (-(-length // step) - 1) * step + (k - 1) * gap + 1 - length)
        small = total // 2
        pairs.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
    return pairs


def flat_padding(pairs: list[tuple[int, int]]) -> tuple[int, ...]:
    """Pairs as one tuple that starts with the last axis, as convolutions of tensors take it."""
    return tuple(itertools.chain.from_iterable(reversed(pairs)))


def channels_first(x: Tensor) -> Tensor:
    """(batch, spatial..., channels) as (batch, channels, spatial...)."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def channels_last(x: Tensor) -> Tensor:
    """The way back."""
    return x.permute(0, *range(2, x.ndim), 1)


@operator("Conv")
def conv(x: Tensor, w: Tensor, b: Tensor | None = None, auto_pad: str = "NOTSET", dilations=None,
         group: int = 1, kernel_shape=None, pads=None, strides=None) -> Tensor:  # fmt: skip
    """Cross-correlation of x (batch, channels, ...) with w, plus a bias per output channel."""
    kernel = w.shape[2:]
    strides, dilations = strides or [1] * len(kernel), dilations or [1] * len(kernel)
    pairs = begin_end_pairs(x.shape[2:], kernel, strides, dilations, pads, auto_pad)
    return x.conv2d(
        w, b, groups=group, stride=tuple(strides), dilation=tuple(dilations),
        padding=flat_padding(pairs),
    )  # fmt: skip


@operator("FusedConv", domain=Domain.MICROSOFT_CONTRIB_OPS)
def fused_conv(
    x, w, b=None, z=None, activation: str = "", activation_params=None, **options
) -> Tensor:
    """Conv, an optional sum with z, and an activation."""
    result = conv(x, w, b, **options)
    result = result if z is None else result + z
    return activated(result, activation, activation_params) if activation else result


@operator("ConvTranspose")
def conv_transpose(x: Tensor, w: Tensor, b: Tensor | None = None, auto_pad: str = "NOTSET",
                   dilations=None, group: int = 1, kernel_shape=None, output_padding=None,
                   output_shape=None, pads=None, strides=None) -> Tensor:  # fmt: skip
    """The transpose of a convolution; `output_shape` or `auto_pad` set the padding from the size."""
    kernel = w.shape[2:]
    n = len(kernel)
    strides, dilations = strides or [1] * n, dilations or [1] * n
    extra = output_padding or [0] * n
    full = [
        (size - 1) * step + (k - 1) * gap + 1 + more
        for size, k, step, gap, more in zip(x.shape[2:], kernel, strides, dilations, extra)
    ]
    if output_shape is None and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [size * step for size, step in zip(x.shape[2:], strides)]
    if output_shape is not None:
        totals = [length - want for length, want in zip(full, output_shape[-n:])]
        halves = [total // 2 for total in totals]
        upper = auto_pad == "SAME_UPPER"
        pairs = [(h, t - h) if upper else (t - h, h) for h, t in zip(halves, totals)]
    else:
        pairs = begin_end_pairs(x.shape[2:], kernel, strides, dilations, pads, auto_pad)
    # without padding first: then each axis is cut, or grown with zeros where padding is negative
    whole = x.conv_transpose2d(
        w, None, groups=group, stride=tuple(strides), dilation=tuple(dilations),
        output_padding=tuple(extra),
    )  # fmt: skip
    ends = [(0, s) for s in whole.shape[:2]] + [
        (max(0, begin), length - max(0, end)) for (begin, end), length in zip(pairs, full)
    ]
    grown = ((0, 0), (0, 0), *((max(0, -begin), max(0, -end)) for begin, end in pairs))
    result = whole.shrink(tuple(ends)).pad(grown)
    return result if b is None else result + b.reshape(1, -1, *[1] * n)


# *** pooling ***
def _window_pairs(x, kernel, strides, dilations, pads, auto_pad, ceil_mode):
    """Padding pairs, and how many more elements at each end a partial last window needs."""
    sizes = x.shape[2:]
    pairs = begin_end_pairs(sizes, kernel, strides, dilations, pads, auto_pad)
    if not ceil_mode:
        return pairs, [0] * len(kernel)
    more = []
    for size, k, step, gap, (begin, end) in zip(sizes, kernel, strides, dilations, pairs):
        reach = (k - 1) * gap + 1
        count = -(-(size + begin + end - reach) // step) + 1
        # a window that would start behind the data and its first padding does not count
        if (count - 1) * step >= size + begin:
            count -= 1
        more.append(max(0, (count - 1) * step + reach - (size + begin + end)))
    return pairs, more


def pooled_windows(x: Tensor, kernel, strides, dilations, pairs, more, fill) -> Tensor:
    """(batch, channels, outputs..., kernel...) with `fill` in the padding."""
    grown = ((0, 0), (0, 0), *((b, e + m) for (b, e), m in zip(pairs, more)))
    padded = x.pad(grown, value=fill)
    for i, (k, step, gap) in enumerate(zip(kernel, strides, dilations)):
        reach = (k - 1) * gap + 1
        padded = padded.unfold(2 + i, reach, step)
        if gap > 1:
            padded = padded[..., ::gap]
    return padded


def _pool_setup(kernel_shape, strides, dilations):
    n = len(kernel_shape)
    return strides or [1] * n, dilations or [1] * n


@operator("AveragePool")
def average_pool(x: Tensor, kernel_shape, auto_pad: str = "NOTSET", ceil_mode: int = 0,
                 count_include_pad: int = 0, dilations=None, pads=None, strides=None):  # fmt: skip
    """Means of windows, of the data alone unless the padding is to be counted."""
    strides, dilations = _pool_setup(kernel_shape, strides, dilations)
    pairs, more = _window_pairs(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    axes = tuple(range(-len(kernel_shape), 0))
    total = pooled_windows(x, kernel_shape, strides, dilations, pairs, more, 0).sum(axes)
    ones = x.ones_like(dtype=dtypes.float32)
    if count_include_pad:
        # what a partial window reaches beyond the padding is no part of it
        ones = ones.pad(((0, 0), (0, 0), *pairs), value=1)
        pairs = [(0, 0)] * len(pairs)
    count = pooled_windows(ones, kernel_shape, strides, dilations, pairs, more, 0).sum(axes)
    return (total / count).cast(x.dtype)


def _lowest(x: Tensor):
    return -math.inf if dtypes.is_float(x.dtype) else dtypes.min(x.dtype)


@operator("MaxPool")
def max_pool(x: Tensor, kernel_shape, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations=None,
             pads=None, storage_order: int = 0, strides=None, output_count: int = 1):  # fmt: skip
    """Maxima of windows, and their places in the flattened tensor (by columns if `storage_order`)."""
    strides, dilations = _pool_setup(kernel_shape, strides, dilations)
    pairs, more = _window_pairs(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    n = len(kernel_shape)
    windows = pooled_windows(x, kernel_shape, strides, dilations, pairs, more, _lowest(x)).flatten(
        -n
    )
    best = windows.max(-1)
    if output_count == 1:
        return best
    sizes = x.shape[2:]
    places = Tensor.arange(math.prod(sizes), dtype=dtypes.int64).reshape(1, 1, *sizes)
    if storage_order:
        places = Tensor.arange(math.prod(sizes), dtype=dtypes.int64).reshape(1, 1, *reversed(sizes))
        places = places.permute(0, 1, *reversed(range(2, 2 + n)))
    places = places.expand(x.shape)
    where = pooled_windows(places, kernel_shape, strides, dilations, pairs, more, -1).flatten(-n)
    first = windows.argmax(-1, keepdim=True)
    chosen = where.gather(-1, first).squeeze(-1)
    planes = math.prod(x.shape[:2])
    plane = Tensor.arange(planes, dtype=dtypes.int64).reshape(*x.shape[:2], *[1] * n)
    return best, (chosen + plane * math.prod(sizes)).cast(dtypes.int64)


@operator("MaxUnpool", constants=("output_shape",))
def max_unpool(
    x: Tensor, places: Tensor, output_shape=None, kernel_shape=None, pads=None, strides=None
):
    """Zeros but for the values of x, at the places that MaxPool gave."""
    n = len(kernel_shape)
    strides, pads = strides or [1] * n, pads or [0] * 2 * n
    natural = [
        (size - 1) * step + k - pads[i] - pads[i + n]
        for i, (size, k, step) in enumerate(zip(x.shape[2:], kernel_shape, strides))
    ]
    sizes = list(output_shape[2:]) if output_shape else natural
    # the places are those of a tensor of the natural size
    count = math.prod(x.shape[:2]) * math.prod(natural)
    flat = Tensor.zeros(count, dtype=x.dtype).scatter(0, places.flatten(), x.flatten())
    whole = flat.reshape(*x.shape[:2], *natural)
    grown = ((0, 0), (0, 0), *((0, want - have) for want, have in zip(sizes, natural)))
    return whole.pad(grown)


@operator("LpPool")
def lp_pool(x: Tensor, kernel_shape, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations=None,
            p: float = 2, pads=None, strides=None) -> Tensor:  # fmt: skip
    """p-norms of windows."""
    strides, dilations = _pool_setup(kernel_shape, strides, dilations)
    pairs, more = _window_pairs(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    windows = pooled_windows(x.abs() ** p, kernel_shape, strides, dilations, pairs, more, 0)
    return (windows.sum(tuple(range(-len(kernel_shape), 0))) ** (1 / p)).cast(x.dtype)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(_spatial(x), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The maximum of each channel."""
    return x.max(_spatial(x), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, p: float = 2) -> Tensor:
    """The p-norm of each channel."""
    return (x.abs() ** p).sum(_spatial(x), keepdim=True) ** (1 / p)


# *** windows as columns ***
@operator("Col2Im", constants=("image_shape", "block_shape"))
def columns_to_image(x: Tensor, image_shape, block_shape, dilations=None, pads=None, strides=None):
    """Sums the columns (blocks of an image) at the places they were taken from."""
    n = len(block_shape)
    strides, dilations, pads = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
    area = math.prod(block_shape)
    channels = x.shape[1] // area
    counts, grown = [], []
    for i, (size, k, step, gap) in enumerate(zip(image_shape, block_shape, strides, dilations)):
        grown.append(size + pads[i] + pads[i + n])
        counts.append((grown[-1] - (k - 1) * gap - 1) // step + 1)
    # a transposed convolution with one unit weight per place in the block does the sum
    blocks = x.reshape(x.shape[0] * channels, area, *counts)
    unit = Tensor.eye(area, dtype=x.dtype).reshape(area, 1, *block_shape)
    image = blocks.conv_transpose2d(unit, stride=tuple(strides), dilation=tuple(dilations))
    image = image.reshape(x.shape[0], channels, *image.shape[2:])
    more = tuple((0, want - have) for want, have in zip(grown, image.shape[2:]))
    image = image.pad(((0, 0), (0, 0), *more))
    ends = [(pads[i], grown[i] - pads[i + n]) for i in range(n)]
    return image.shrink(((0, image.shape[0]), (0, channels), *ends))


def _bilinear(planes: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Values of planes (batch, channels, h, w) at real places (batch, points), zero outside."""
    n, channels, height, width = planes.shape
    flat = planes.reshape(n, channels, height * width)
    top, left = y.floor(), x.floor()
    total: Any = None
    for dy, dx in itertools.product((0, 1), (0, 1)):
        row, column = (top + dy).cast(dtypes.int32), (left + dx).cast(dtypes.int32)
        weight = (1 - (y - (top + dy)).abs()) * (1 - (x - (left + dx)).abs())
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = row.clip(0, height - 1) * width + column.clip(0, width - 1)
        values = flat.gather(2, place.unsqueeze(1).expand(n, channels, place.shape[1]))
        part = values * inside.where(weight, 0).unsqueeze(1)
        total = part if total is None else total + part
    return total


@operator("DeformConv")
def deform_conv(x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None,
                mask: Tensor | None = None, dilations=None, group: int = 1, kernel_shape=None,
                offset_group: int = 1, pads=None, strides=None) -> Tensor:  # fmt: skip
    """A 2-d convolution that reads each weight's element at a place shifted by `offset`."""
    if x.ndim != 4:
        raise NotImplementedError(f"DeformConv over {x.ndim - 2} spatial axes, 2 are supported")
    kernel_h, kernel_w = w.shape[2:]
    strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    n, channels = x.shape[:2]
    out_h, out_w = offset.shape[2:]
    area = kernel_h * kernel_w
    shifts = offset.reshape(n, offset_group, area, 2, out_h, out_w)

    def base(count, step, k, gap, pad):
        line = Tensor.arange(count).reshape(1, -1) * step + Tensor.arange(k).reshape(-1, 1) * gap
        return (line - pad).cast(dtypes.float32)

    rows = base(out_h, strides[0], kernel_h, dilations[0], pads[0]).reshape(kernel_h, 1, out_h, 1)
    columns = base(out_w, strides[1], kernel_w, dilations[1], pads[1]).reshape(
        1, kernel_w, 1, out_w
    )
    full = (kernel_h, kernel_w, out_h, out_w)
    y = shifts[:, :, :, 0] + rows.expand(full).reshape(1, 1, area, out_h, out_w)
    z = shifts[:, :, :, 1] + columns.expand(full).reshape(1, 1, area, out_h, out_w)
    planes = x.reshape(n * offset_group, channels // offset_group, *x.shape[2:])
    read = _bilinear(planes, y.reshape(n * offset_group, -1), z.reshape(n * offset_group, -1))
    read = read.reshape(n, offset_group, channels // offset_group, area, out_h * out_w)
    if mask is not None:
        read = read * mask.reshape(n, offset_group, 1, area, out_h * out_w)
    read = read.reshape(n, group, channels // group * area, out_h * out_w)
    weight = w.reshape(1, group, w.shape[0] // group, -1)
    result = weight.matmul(read).reshape(n, w.shape[0], out_h, out_w)
    return result if b is None else result + b.reshape(1, -1, 1, 1)
