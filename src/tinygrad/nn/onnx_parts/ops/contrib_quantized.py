"""Quantized operators of ONNX Runtime beyond those that wrap one operator: layers, tables, weights in blocks."""

from __future__ import annotations

import functools

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.ops import (
    attention_contrib,
    elementwise,
    indexing,
    normalization,
    quantized,
    recurrent,
)
from tinygrad.nn.onnx_parts.ops.convolution import channels_first, channels_last
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.ops.linear import unpacked
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


@operator("QLinearConv", domain=_CONTRIB)
def qlinear_conv(x: Tensor, *rest, **options) -> Tensor:
    """QLinearConv of the standard, also with the channels last."""
    last = options.pop("channels_last", 0)
    result = quantized.qlinear_conv(channels_first(x) if last else x, *rest, **options)
    return channels_last(result) if last else result


@operator("QLinearWhere", domain=_CONTRIB)
def qlinear_where(condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero) -> Tensor:
    """x where the condition holds, else y, on a scale of its own."""
    real = condition.cast(dtypes.bool).where(
        quantized.dequantize(x, x_scale, x_zero), quantized.dequantize(y, y_scale, y_zero)
    )
    return quantized.quantize(real, z_scale, z_zero)


@operator("QLinearReduceMean", domain=_CONTRIB)
def qlinear_reduce_mean(
    x, x_scale, x_zero, y_scale, y_zero=None, axes=None, keepdims: int = 1
) -> Tensor:
    """Means of quantized numbers."""
    real = quantized.dequantize(x, x_scale, x_zero)
    return quantized.quantize(
        real.mean(None if axes is None else tuple(axes), keepdim=bool(keepdims)), y_scale, y_zero
    )


@operator("QAttention", domain=_CONTRIB)
def quantized_attention(x, weights, bias, x_scale, w_scale, mask_index=None, x_zero=None, w_zero=None,
                        past=None, **options):  # fmt: skip
    """Attention whose projection is a product of quantized numbers."""
    total = quantized.matmul_integer(x, weights, x_zero, w_zero)
    projected = total.cast(w_scale.dtype) * (x_scale * w_scale) + bias
    return attention_contrib.self_attention(projected, mask_index, past, None, **options)


@operator("QEmbedLayerNormalization", domain=_CONTRIB)
def quantized_embed_layer_norm(ids, segments, words, positions, segment_rows, gamma, beta, mask,
                               word_scale, position_scale, segment_scale, gamma_scale, beta_scale,
                               word_zero, position_zero, segment_zero, gamma_zero, beta_zero,
                               epsilon: float = 1e-12):  # fmt: skip
    """EmbedLayerNormalization of quantized tables; only the rows looked up become real numbers."""
    real = quantized.dequantize
    places = Tensor.arange(ids.shape[1]).unsqueeze(0)
    total = real(words[ids], word_scale, word_zero) + real(
        positions[places], position_scale, position_zero
    )
    if segments is not None:
        total = total + real(segment_rows[segments], segment_scale, segment_zero)
    scale, shift = real(gamma, gamma_scale, gamma_zero), real(beta, beta_scale, beta_zero)
    y = normalization.layer_norm(total, scale, shift, -1, epsilon)[0]
    return y, normalization.line_lengths(ids, mask)


@operator("DynamicQuantizeLSTM", domain=_CONTRIB)
def dynamic_quantize_lstm(x, w, r, b, lengths, initial_h, initial_c, p, w_scale, w_zero, r_scale, r_zero,
                          **options):  # fmt: skip
    """LSTM of quantized weights, which are computed with as real numbers; its states are not quantized."""

    def real(rows: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        # (directions, inputs, 4 * size): a scale for each direction, or for each column of it
        shape = (rows.shape[0], 1, -1)
        centered = rows.cast(dtypes.int32) - zero.reshape(shape).cast(dtypes.int32)
        return (centered.cast(scale.dtype) * scale.reshape(shape)).transpose(1, 2)

    return recurrent.lstm(
        x,
        real(w, w_scale, w_zero),
        real(r, r_scale, r_zero),
        b,
        lengths,
        initial_h,
        initial_c,
        p,
        **options,
    )


@operator("GatherBlockQuantized", domain=_CONTRIB)
def gather_block_quantized(data, indices, scales, zero_points=None, kinds=(), bits: int = 4, block_size: int = 128,
                           gather_axis: int = 0, quantize_axis: int = 1) -> Tensor:  # fmt: skip
    """Rows of a table of few bits, each block with a scale of its own, as real numbers."""
    packed = not kinds[0] and data.dtype is dtypes.uint8
    width = data.ndim
    axis, along = axis_in(gather_axis, width), axis_in(quantize_axis, width)
    rows = indexing.gather(data, indices, axis)
    scale = indexing.gather(scales, indices, axis)
    place = along + indices.ndim - 1 if along > axis else along
    zero = None if zero_points is None else indexing.gather(zero_points, indices, axis)
    if packed and bits < 8:
        rows = unpacked(rows, bits)
        zero = None if zero is None else unpacked(zero, bits)
    count, blocks = rows.shape[place], scale.shape[place]

    def spread(v: Tensor) -> Tensor:
        cut = v.shrink(tuple((0, blocks if i == place else n) for i, n in enumerate(v.shape)))
        whole = cut.repeat_interleave(block_size, dim=place)
        return whole.shrink(
            tuple((0, count if i == place else n) for i, n in enumerate(whole.shape))
        )

    centered = rows.cast(dtypes.int32)
    if zero is not None:
        centered = centered - spread(zero).cast(dtypes.int32)
    elif packed:
        centered = centered - (1 << (bits - 1))
    return centered.cast(scales.dtype) * spread(scale)


@functools.cache
def _four_bit_values(normal: bool) -> tuple[float, ...]:
    """What the sixteen codes of bitsandbytes' types stand for (https://arxiv.org/abs/2305.14314)."""
    if normal:
        return (
            -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
            0.7229568362236023, 1.0,
        )  # fmt: skip
    positive = (0.0, 0.0625 / 12, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
    return (*positive, *(-v for v in positive))


@operator("MatMulBnb4", domain=_CONTRIB)
def matmul_bnb4(a: Tensor, b: Tensor, absmax: Tensor, K: int, N: int, block_size: int, quant_type: int,
                training_mode: int = 0, transB: int = 1) -> Tensor:  # fmt: skip
    """a times a matrix of four-bit floats, each block with its largest magnitude."""
    codes = b.rshift(4).stack(b & 15, dim=-1).flatten()[: N * K]
    values = Tensor(list(_four_bit_values(quant_type == 1)), dtype=a.dtype)[
        codes.cast(dtypes.int32)
    ]
    scale = absmax.reshape(-1, 1).expand(absmax.numel(), block_size).flatten()[: N * K]
    matrix = (values * scale.cast(a.dtype)).reshape(N, K)
    return a.matmul(matrix.transpose() if transB else matrix).cast(a.dtype)


# *** mixtures of experts ***
def _activated(
    x: Tensor, name: str, fused: int, alpha: float, beta: float, limit: float | None
) -> Tensor:
    if name == "swiglu":
        # gate and value: neighbours, or two halves
        gate, value = (x[..., ::2], x[..., 1::2]) if fused == 1 else x.chunk(2, dim=-1)
        if limit is not None:
            gate, value = gate.clip(None, limit), value.clip(-limit, limit)
        return gate * (gate * alpha).sigmoid() * (value + beta)
    plain = {
        "relu": lambda: x.relu(), "gelu": lambda: elementwise.fast_gelu(x), "silu": lambda: x * x.sigmoid(),
        "identity": lambda: x,
    }  # fmt: skip
    if name not in plain:
        raise NotImplementedError(f"experts with the activation {name} are not supported")
    return plain[name]()


@operator("MoE", domain=_CONTRIB)
def mixture_of_experts(x, router, fc1, fc1_bias, fc2, fc2_bias=None, fc3=None, fc3_bias=None, k: int = 1,
                       activation_type: str = "relu", activation_alpha: float = 1.0,
                       activation_beta: float = 0.0, normalize_routing_weights: int = 0,
                       swiglu_fusion: int = 0, swiglu_limit: float | None = None,
                       use_sparse_mixer: int = 0) -> Tensor:  # fmt: skip
    """Each token by the `k` experts that the router gives most weight; every expert is computed."""
    if use_sparse_mixer:
        raise NotImplementedError("MoE with the sparse mixer is not supported")
    flat = x.reshape(-1, x.shape[-1])
    shares = router.softmax(-1)
    best, chosen = shares.topk(k, dim=-1)
    if normalize_routing_weights:
        best = best / best.sum(-1, keepdim=True)
    experts = Tensor.arange(router.shape[-1]).reshape(1, 1, -1)
    weight = (chosen.unsqueeze(-1) == experts).where(best.unsqueeze(-1), 0).sum(1)

    def product(rows: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        result = rows.matmul(matrix.transpose(-1, -2))
        return result if bias is None else result + bias.unsqueeze(1)

    inner = product(flat.unsqueeze(0), fc1, fc1_bias)
    inner = _activated(
        inner, activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit
    )
    if fc3 is not None:
        inner = inner * product(flat.unsqueeze(0), fc3, fc3_bias)
    outer = product(inner, fc2, fc2_bias)
    return (outer * weight.transpose(0, 1).unsqueeze(-1)).sum(0).reshape(x.shape).cast(x.dtype)


@operator("QMoE", domain=_CONTRIB)
def quantized_mixture(x, router, fc1, fc1_scales, fc1_bias, fc2, fc2_scales, fc2_bias=None, fc3=None,
                      fc3_scales=None, fc3_bias=None, fc1_zero=None, fc2_zero=None, fc3_zero=None,
                      router_weights=None, *more, expert_weight_bits: int = 4, block_size: int = 0,
                      quant_type: str = "int", **options) -> Tensor:  # fmt: skip
    """MoE of experts with weights of few bits, each row or block of it with a scale of its own.

    The shares of the experts chosen sum to one, as in ONNX Runtime, whatever `normalize_routing_weights` says.
    """
    options["normalize_routing_weights"] = 1
    if quant_type != "int" or router_weights is not None or any(v is not None for v in more):
        raise NotImplementedError("QMoE of integers with one router is supported, nothing else")

    def real(packed: Tensor | None, scales: Tensor | None, zero: Tensor | None) -> Tensor | None:
        if packed is None or scales is None:
            return None
        codes = unpacked(packed, expert_weight_bits).cast(x.dtype)
        experts, rows, columns = codes.shape
        size = block_size or columns
        blocks = -(-columns // size)
        if zero is None:
            offset: Tensor | float = float(1 << (expert_weight_bits - 1))
        else:
            points = unpacked(zero, expert_weight_bits).reshape(experts, -1)[:, : rows * blocks]
            offset = points.reshape(experts, rows, blocks, 1).cast(x.dtype)
        parts = codes.reshape(experts, rows, blocks, size) - offset
        return (parts * scales.reshape(experts, rows, blocks, 1).cast(x.dtype)).reshape(codes.shape)

    return mixture_of_experts(
        x, router, real(fc1, fc1_scales, fc1_zero), fc1_bias, real(fc2, fc2_scales, fc2_zero), fc2_bias,
        real(fc3, fc3_scales, fc3_zero),
        fc3_bias, **options,
    )  # fmt: skip
