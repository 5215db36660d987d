"""Operators of ONNX Runtime that exporters and its graph optimizer write: fused, channels-last, and older than the standard's."""

from __future__ import annotations

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.ops import (
    convolution,
    elementwise,
    image,
    indexing,
    layout,
    linear,
    signal,
)
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.ops.normalization import group_norm_last
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS

# as the standard's operators of these names
operator("GatherND", domain=_CONTRIB)(indexing.gather_nd)
operator("Trilu", domain=_CONTRIB, constants=("k",))(layout.triangle)


# *** sums and activations ***
@operator("BiasAdd", domain=_CONTRIB)
def bias_add(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """x with a bias per channel, plus what went around."""
    return x + bias + skip


@operator("BiasSplitGelu", domain=_CONTRIB)
def bias_split_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """One half of x + bias times the Gelu of the other."""
    values, gates = (x + bias).chunk(2, dim=-1)
    return values * elementwise.exact_gelu(gates)


@operator("BiasSoftmax", domain=_CONTRIB)
def bias_softmax(x: Tensor, bias: Tensor, axis: int = 1, is_inner_broadcast: int = 1) -> Tensor:
    """Softmax of x + bias over all axes from `axis` on."""
    first = axis_in(axis, x.ndim)
    total = x + bias
    flat = total.reshape(*x.shape[:first], -1) if first < x.ndim else total
    return flat.softmax(-1).reshape(x.shape)


@operator("GemmFastGelu", domain=_CONTRIB)
def gemm_fast_gelu(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """FastGelu of a product."""
    return elementwise.fast_gelu(x.matmul(w), bias)


@operator("FusedMatMulActivation", domain=_CONTRIB)
def fused_matmul_activation(a: Tensor, b: Tensor, activation: str, activation_alpha: float = 0.01,
                            activation_beta: float = 0.5, activation_gamma: float = 0.0,
                            activation_axis: int = 0, **options) -> Tensor:  # fmt: skip
    """FusedMatMul and an activation."""
    product = linear.fused_matmul(a, b, **options)
    return linear.activated(product, activation, [activation_alpha, activation_beta])


@operator("SkipGroupNorm", domain=_CONTRIB)
def skip_group_norm(x: Tensor, gamma: Tensor, beta: Tensor, skip: Tensor, bias: Tensor | None = None,
                    **options):  # fmt: skip
    """GroupNorm of a sum; the sum is the second output."""
    if skip.ndim == 2:
        skip = skip.reshape(skip.shape[0], 1, 1, -1)
    total = x + skip if bias is None else x + skip + bias
    return group_norm_last(total, gamma, beta, **options), total


@operator("IsAllFinite", domain=_CONTRIB)
def is_all_finite(*parts: Tensor, isinf_only: int = 0, isnan_only: int = 0) -> Tensor:
    """Whether no element of any input is infinite or NaN."""
    good = []
    for x in parts:
        bad = x.isnan() if isnan_only else x.isinf() if isinf_only else x.isnan() | x.isinf()
        good.append(bad.logical_not().all())
    return good[0].stack(*good[1:]).all()


@operator("ComplexMul", domain=_CONTRIB)
def complex_mul(a: Tensor, b: Tensor) -> Tensor:
    """Products of complex numbers, which are pairs along the last axis."""
    real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    return real.stack(a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0], dim=-1)


@operator("ComplexMulConj", domain=_CONTRIB)
def complex_mul_conj(a: Tensor, b: Tensor) -> Tensor:
    """Products of complex numbers with conjugates of others."""
    real = a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1]
    return real.stack(a[..., 1] * b[..., 0] - a[..., 0] * b[..., 1], dim=-1)


# *** integers ***
@operator("MatMulInteger16", domain=_CONTRIB)
def matmul_integer_16(a: Tensor, b: Tensor) -> Tensor:
    """The product of 16-bit numbers, as 32-bit ones."""
    signed = not dtypes.is_unsigned(a.dtype)
    return a.matmul(b, dtype=dtypes.int32 if signed else dtypes.uint32)


@operator("MulInteger", domain=_CONTRIB)
def mul_integer(a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None = None):
    """Products of stored numbers less their zero points, as int32."""

    def centered(x, zero):
        wide = x.cast(dtypes.int32)
        return wide if zero is None else wide - zero.cast(dtypes.int32)

    return centered(a, a_zero) * centered(b, b_zero)


@operator("ReduceSumInteger", domain=_CONTRIB)
def reduce_sum_integer(x: Tensor, axes, keepdims: int = 1) -> Tensor:
    """Sums of 8-bit numbers in 32 bits."""
    kind = dtypes.uint32 if dtypes.is_unsigned(x.dtype) else dtypes.int32
    return x.cast(kind).sum(tuple(axes), keepdim=bool(keepdims))


# *** shapes ***
@operator("ExpandDims", domain=_CONTRIB, constants=("axis",))
def expand_dims(x: Tensor, axis) -> Tensor:
    """x with a new axis."""
    return x.unsqueeze(int(np.array(axis).item()))


@operator("Range", domain=_CONTRIB)
def number_range(start, limit, delta=None) -> Tensor:
    """Numbers from start to below limit, one after the other by default."""
    step = start.full_like(1) if delta is None else delta
    return layout.number_range(*(v.reshape(()) for v in (start, limit, step)))


@operator("Pad", domain=_CONTRIB, constants=("pads",))
def pad(x: Tensor, pads, value=None, mode: str = "constant") -> Tensor:
    """x with padding; `pads` may have a leading axis of one."""
    return layout.pad(x, list(np.array(pads).reshape(-1)), value, mode=mode)


@operator("UnfoldTensor", domain=_CONTRIB)
def unfold(x: Tensor, size: int, dim: int = -1, step: int = 1) -> Tensor:
    """Windows along an axis, as a new last axis."""
    return x.unfold(axis_in(dim, x.ndim), size, step)


@operator("Unique", domain=_CONTRIB)
def unique(x: Tensor):
    """The different elements in the order they appear, which one each element is, and how many are equal."""
    values, first, inverse, counts = np.unique(
        x.numpy(), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    found = rank[inverse].astype(np.int64)
    return Tensor(values[order]), Tensor(found), Tensor(counts[order].astype(np.int64))


# *** linear algebra and signals ***
@operator("Inverse", domain=_CONTRIB)
def inverse(x: Tensor) -> Tensor:
    """Inverses of square matrices, by elimination with the largest pivot."""
    n = x.shape[-1]
    rows = x.reshape(-1, n, n).cat(
        Tensor.eye(n, dtype=x.dtype).expand(x.numel() // n**2, n, n), dim=2
    )
    place = Tensor.arange(n).reshape(1, n)
    for k in range(n):
        reach = (place >= k).where(rows[:, :, k].abs(), -1)
        chosen = (place == reach.argmax(1, keepdim=True)).unsqueeze(-1)
        pivot_row = chosen.where(rows, 0).sum(1, keepdim=True)
        at_k = (place == k).unsqueeze(-1)
        # the row of the pivot and row k change places
        rows = at_k.where(pivot_row, chosen.where(rows[:, k : k + 1], rows))
        scaled = (pivot_row / pivot_row[:, :, k : k + 1]).contiguous()
        rows = at_k.where(scaled, rows - rows[:, :, k : k + 1] * scaled).contiguous()
    return rows[:, :, n:].reshape(x.shape)


@operator("CDist", domain=_CONTRIB)
def pairwise_distance(a: Tensor, b: Tensor, metric: str = "sqeuclidean") -> Tensor:
    """The distance of every row of a to every row of b."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise NotImplementedError(
            f"CDist by {metric} is not supported, only by euclidean and sqeuclidean"
        )
    gap = a.unsqueeze(1) - b.unsqueeze(0)
    squares = (gap * gap).sum(-1)
    return squares.sqrt() if metric == "euclidean" else squares


@operator("Rfft", domain=_CONTRIB)
def real_fourier(x: Tensor, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Tensor:
    """The spectrum of real signals along the last axis, as pairs."""
    if signal_ndim != 1 or normalized or not onesided:
        raise NotImplementedError("Rfft of one axis, one-sided and not normalized, is supported")
    return signal.discrete_fourier_transform(x.unsqueeze(-1), None, x.ndim - 1, onesided=1)


# *** images ***
@operator("GridSample", domain=_CONTRIB)
def grid_sample(x: Tensor, grid: Tensor, align_corners: int = 0, mode: str = "bilinear",
                padding_mode: str = "zeros") -> Tensor:  # fmt: skip
    """GridSample with the names of modes that it had before the standard took it up."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    return image.grid_sample(x, grid, align_corners, names.get(mode, mode), padding_mode)


@operator("CropAndResize", domain=_CONTRIB, constants=("crop_size",))
def crop_and_resize(x: Tensor, rois: Tensor, batch_indices: Tensor, crop_size,
                    extrapolation_value: float = 0.0, mode: str = "bilinear") -> Tensor:  # fmt: skip
    """Boxes of images, each resized to one size; corners lie on corners."""
    boxes, height, width = rois.shape[0], x.shape[2], x.shape[3]

    def places(low: Tensor, high: Tensor, count: int, size: int) -> Tensor:
        low, high = low.unsqueeze(1) * (size - 1), high.unsqueeze(1) * (size - 1)
        if count == 1:
            return (low + high) * 0.5
        return low + Tensor.arange(count) * (high - low) / (count - 1)

    rows = places(rois[:, 0], rois[:, 2], crop_size[0], height)
    columns = places(rois[:, 1], rois[:, 3], crop_size[1], width)
    grid_y = rows.reshape(boxes, -1, 1).expand(boxes, crop_size[0], crop_size[1])
    grid_x = columns.reshape(boxes, 1, -1).expand(boxes, crop_size[0], crop_size[1])
    inside = (grid_y >= 0) & (grid_y <= height - 1) & (grid_x >= 0) & (grid_x <= width - 1)
    scaled = (grid_x * (2 / max(width - 1, 1)) - 1).stack(
        grid_y * (2 / max(height - 1, 1)) - 1, dim=-1
    )
    kind = "linear" if mode == "bilinear" else "nearest"
    found = image.grid_sample(x[batch_indices], scaled, 1, kind, "border")
    return inside.unsqueeze(1).where(found, extrapolation_value)


@operator("ConvTransposeWithDynamicPads", domain=_CONTRIB, constants=("pads",))
def conv_transpose_dynamic(x: Tensor, w: Tensor, pads=None, b: Tensor | None = None, **options):
    """ConvTranspose whose padding is an input."""
    given = None if pads is None else [int(n) for n in np.array(pads).reshape(-1)]
    return convolution.conv_transpose(x, w, b, pads=given, **options)


@operator("NhwcMaxPool", domain=_CONTRIB)
def max_pool_last(x: Tensor, **options) -> Tensor:
    """MaxPool with the channels last."""
    result = convolution.max_pool(convolution.channels_first(x), **options)
    return convolution.channels_last(result[0] if isinstance(result, tuple) else result)


@operator("NhwcConv", domain=_CONTRIB)
def conv_last(x: Tensor, w: Tensor, b: Tensor | None = None, **options) -> Tensor:
    """Conv with the channels of x last; those of w come first."""
    return convolution.channels_last(
        convolution.conv(convolution.channels_first(x), w, b, **options)
    )


@operator("NhwcFusedConv", domain=_CONTRIB)
def fused_conv_last(x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None,
                    **options) -> Tensor:  # fmt: skip
    """FusedConv with the channels last."""
    other = None if z is None else convolution.channels_first(z)
    return convolution.channels_last(
        convolution.fused_conv(convolution.channels_first(x), w, b, other, **options)
    )


# *** text generation ***
@operator("NGramRepeatBlock", domain=_CONTRIB)
def block_repeated_ngrams(ids: Tensor, scores: Tensor, ngram_size: int) -> Tensor:
    """Scores with -inf for every token that would repeat a run of `ngram_size` tokens of the line."""
    length, size = ids.shape[1], ngram_size
    if length < size:
        return scores
    starts = length - size + 1
    runs = ids.unfold(1, size, 1)
    begun = ids[:, length - size + 1 :].unsqueeze(1)
    repeats = (
        (runs[:, :, : size - 1] == begun).all(2)
        if size > 1
        else Tensor.ones(1, starts, dtype=dtypes.bool)
    )
    last = runs[:, :, size - 1]
    tokens = Tensor.arange(scores.shape[1], dtype=last.dtype).reshape(1, 1, -1)
    blocked = ((last.unsqueeze(2) == tokens) & repeats.unsqueeze(2)).any(1)
    return blocked.where(-float("inf"), scores)


@operator("RelativePositionBias", domain=_CONTRIB, constants=("query_length", "key_length"))
def relative_position_bias(table: Tensor, query_length, key_length, max_distance: int,
                           is_bidirectional: int = 0) -> Tensor:  # fmt: skip
    """The bias of T5: a row of the table by the distance of query and key, in buckets that widen."""
    queries, keys = (int(np.array(n).item()) for n in (query_length, key_length))
    buckets = table.shape[0]
    distance = np.arange(queries)[:, None] - np.arange(keys)[None, :]
    offset: int | np.ndarray = 0
    if is_bidirectional:
        buckets //= 2
        offset = (distance < 0) * buckets
        distance = abs(distance)
    else:
        distance = np.maximum(distance, 0)
    exact = buckets // 2
    with np.errstate(divide="ignore"):
        ratio = np.log(np.maximum(distance, 1) / exact) / np.log(max_distance / exact)
    wide = np.minimum(exact + (ratio * (buckets - exact)).astype(np.int64), buckets - 1)
    rows = np.where(distance < exact, distance, wide) + offset
    return table[Tensor(rows.astype(np.int32))].permute(2, 0, 1).unsqueeze(0)
