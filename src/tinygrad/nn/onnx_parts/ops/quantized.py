"""Operators on quantized numbers: real = (stored - zero point) * scale."""

from __future__ import annotations

from typing import Any

from tinygrad.dtype import DType, dtypes
from tinygrad.nn.onnx_parts import narrow
from tinygrad.nn.onnx_parts.kinds import dtype_fallback, element_dtype
from tinygrad.nn.onnx_parts.narrow import Narrow
from tinygrad.nn.onnx_parts.ops import convolution, elementwise
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


def _spread(v: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point in a shape that broadcasts with x: of all, of an axis or of blocks of it."""
    if v.ndim == 0 or (v.ndim == 1 and v.shape[0] == 1):
        return v.reshape([1] * x.ndim)
    axis = axis_in(axis, x.ndim)
    if v.ndim == 1:
        return v.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    if block_size:
        repeated = v.repeat_interleave(block_size, dim=axis)
        return repeated.shrink(tuple((0, n) for n in x.shape))
    return v


def saturated(x: Tensor, dtype: DType, limits: tuple[int, int] | None = None) -> Tensor:
    """Whole numbers cut to the range of a type."""
    low, high = limits or (dtypes.min(dtype), dtypes.max(dtype))
    return x.clip(low, high).cast(dtype)


def _divided(x: Tensor, scale: Tensor) -> Tensor:
    """The float32 nearest to x / scale: a product with the reciprocal could fall on the other side of a tie."""
    exact = dtype_fallback(dtypes.float64, "a quotient")
    return (x.cast(exact) / scale.cast(exact)).cast(dtypes.float32)


@operator("QuantizeLinear")
def quantize(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int = 1,
             saturate: int = 1, block_size: int = 0, output_dtype: int = 0,
             precision: int = 0, kinds=()):  # fmt: skip
    """Rounded to the nearest step (ties to even), shifted and cut to the range."""
    kind = kinds[2] if len(kinds) > 2 and kinds[2] else output_dtype
    if zero_point is not None:
        dtype = zero_point.dtype
    else:
        dtype = element_dtype(output_dtype) if output_dtype else dtypes.uint8
    steps = _divided(x, _spread(scale, x, axis, block_size))
    if kind in narrow.FLOATS:
        return Narrow(kind, narrow.rounded(steps, kind, bool(saturate)))
    if dtypes.is_float(dtype):
        return elementwise.cast(steps, elementwise.number_of(dtype), saturate)
    rounded = steps.round()
    if zero_point is not None:
        rounded = rounded + _spread(zero_point, x, axis, block_size).cast(dtypes.float32)
    whole = saturated(rounded, dtype, narrow.limits(kind))
    return Narrow(kind, whole) if kind in narrow.KINDS else whole


@operator("DequantizeLinear")
def dequantize(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int = 1,
               block_size: int = 0, output_dtype: int = 0) -> Tensor:  # fmt: skip
    """The real numbers, in the type of the scale."""
    kind = element_dtype(output_dtype) if output_dtype else scale.dtype
    if zero_point is None or dtypes.is_float(x.dtype):
        steps = x.cast(dtypes.float32)
    else:
        steps = x.cast(dtypes.int32) - _spread(zero_point, x, axis, block_size).cast(dtypes.int32)
    return (steps.cast(dtypes.float32) * _spread(scale, x, axis, block_size)).cast(kind)


operator("QuantizeLinear", domain=_CONTRIB)(quantize)
operator("DequantizeLinear", domain=_CONTRIB)(dequantize)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Tensor):
    """uint8 steps of a scale that covers the data and zero; the scale; the zero point."""
    low, high = x.min().minimum(0), x.max().maximum(0)
    # in float64: a product with the rounded 1 / 255 would be off in the last bit
    exact = dtype_fallback(dtypes.float64, "DynamicQuantizeLinear")
    scale = ((high - low).cast(exact) / 255).cast(x.dtype)
    zero_point = saturated((0 - _divided(low, scale)).round(), dtypes.uint8)
    return quantize(x, scale, zero_point), scale, zero_point


def _centered(x: Tensor, zero_point: Tensor | None, shape=None) -> Tensor:
    wide = x.cast(dtypes.int32)
    if zero_point is None:
        return wide
    zero = zero_point.cast(dtypes.int32)
    if zero.ndim == 1 and zero.shape[0] == 1:
        zero = zero.reshape(())
    return wide - (zero if shape is None or zero.ndim == 0 else zero.reshape(shape))


def _per_row(x: Tensor, v: Tensor | None) -> Any:
    """A vector of one number per row of x as a column."""
    return v.unsqueeze(-1) if v is not None and v.ndim == 1 and v.shape[0] == x.shape[-2] > 1 else v


@operator("ConvInteger")
def conv_integer(x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None,
                 **options) -> Tensor:  # fmt: skip
    """The convolution of stored numbers less their zero points, as int32."""
    weights = _centered(w, w_zero, (-1, *[1] * (w.ndim - 1)))
    return convolution.conv(_centered(x, x_zero), weights, **options).cast(dtypes.int32)


@operator("MatMulInteger")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
):
    """The product of stored numbers less their zero points, as int32."""
    left = _centered(a, _per_row(a, a_zero) if a.ndim > 1 else a_zero)
    return left.matmul(_centered(b, b_zero), dtype=dtypes.int32)


def requantized(total: Tensor, factor: Tensor, zero_point: Tensor) -> Tensor:
    """Exact int32 sums on the scale of the result."""
    steps = (total.cast(dtypes.float32) * factor.cast(dtypes.float32)).round()
    return saturated(steps + zero_point.cast(dtypes.float32), zero_point.dtype)


@operator("QLinearConv")
def qlinear_conv(x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
                 y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None, **options):  # fmt: skip
    """Convolution of quantized numbers; the bias is on the scale of the products."""
    total = conv_integer(x, w, x_zero, w_zero, **options)
    if bias is not None:
        total = total + bias.reshape(1, -1, *[1] * (x.ndim - 2))
    factor = _divided(x_scale * w_scale, y_scale)
    if factor.ndim == 1:
        factor = factor.reshape(1, -1, *[1] * (x.ndim - 2))
    return requantized(total, factor, y_zero)


@operator("QLinearMatMul")
def qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) -> Tensor:
    """The matrix product of quantized numbers."""
    total = matmul_integer(a, b, a_zero, b_zero)
    factor = _per_row(a, a_scale).cast(dtypes.float32) * b_scale.cast(dtypes.float32)
    return requantized(total, _divided(factor, y_scale), y_zero)


# *** operators of ONNX Runtime ***
def _real(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    return dequantize(x, scale, zero)


def _register_pair(name: str, function) -> None:
    @operator(name, domain=_CONTRIB)
    def pair(a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero=None) -> Tensor:
        """Computed on real numbers and quantized again."""
        result = function(_real(a, a_scale, a_zero), _real(b, b_scale, b_zero))
        return quantize(result, c_scale, c_zero)


_register_pair("QLinearAdd", lambda a, b: a + b)
_register_pair("QLinearMul", lambda a, b: a * b)


@operator("QLinearSigmoid", domain=_CONTRIB)
def qlinear_sigmoid(x, x_scale, x_zero, y_scale, y_zero=None) -> Tensor:
    """The logistic function of quantized numbers."""
    return quantize(_real(x, x_scale, x_zero).sigmoid(), y_scale, y_zero)


@operator("QLinearLeakyRelu", domain=_CONTRIB)
def qlinear_leaky_relu(x, x_scale, x_zero, y_scale, y_zero=None, alpha: float = 0.01) -> Tensor:
    """LeakyRelu of quantized numbers."""
    return quantize(elementwise.leaky_relu(_real(x, x_scale, x_zero), alpha), y_scale, y_zero)


@operator("QLinearSoftmax", domain=_CONTRIB)
def qlinear_softmax(
    x, x_scale, x_zero, y_scale, y_zero=None, axis: int = -1, opset: int = 13
) -> Tensor:
    """Softmax of quantized numbers, with the rules of the operator set it came from."""
    real = _real(x, x_scale, x_zero)
    if opset >= 13:
        return quantize(real.softmax(axis), y_scale, y_zero)
    rows = real.flatten(axis_in(axis, x.ndim)).softmax(-1)
    return quantize(rows.reshape(x.shape), y_scale, y_zero)


@operator("QLinearGlobalAveragePool", domain=_CONTRIB)
def qlinear_global_average_pool(
    x, x_scale, x_zero, y_scale, y_zero, channels_last: int = 0
) -> Tensor:
    """The mean of each channel of quantized numbers."""
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    return quantize(_real(x, x_scale, x_zero).mean(axes, keepdim=True), y_scale, y_zero)


@operator("QLinearAveragePool", domain=_CONTRIB)
def qlinear_average_pool(
    x, x_scale, x_zero, y_scale, y_zero=None, channels_last: int = 0, **options
):
    """Means of windows of quantized numbers."""
    real = _real(x, x_scale, x_zero)
    if not channels_last:
        return quantize(convolution.average_pool(real, **options), y_scale, y_zero)
    means = convolution.average_pool(convolution.channels_first(real), **options)
    return quantize(convolution.channels_last(means), y_scale, y_zero)


@operator("QLinearConcat", domain=_CONTRIB)
def qlinear_concat(y_scale, y_zero, *parts, axis: int) -> Tensor:
    """Quantized tensors, each with scale and zero point, joined on one scale."""
    real = [_real(*parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return quantize(real[0].cat(*real[1:], dim=axis), y_scale, y_zero)


@operator("MatMulIntegerToFloat", domain=_CONTRIB)
def matmul_integer_to_float(a, b, a_scale, b_scale, a_zero=None, b_zero=None, bias=None) -> Tensor:
    """MatMulInteger on real scales, plus a bias."""
    real = matmul_integer(a, b, a_zero, b_zero).cast(a_scale.dtype) * (a_scale * b_scale)
    return real if bias is None else real + bias


@operator("DynamicQuantizeMatMul", domain=_CONTRIB)
def dynamic_quantize_matmul(a, b, b_scale, b_zero=None, bias=None) -> Tensor:
    """A real matrix quantized on the fly times a quantized one."""
    steps, scale, zero = dynamic_quantize(a)
    return matmul_integer_to_float(steps, b, scale, b_scale, zero, b_zero, bias)


@operator("QGemm", domain=_CONTRIB)
def qgemm(a, a_scale, a_zero, b, b_scale, b_zero, c=None, y_scale=None, y_zero=None,
          alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Tensor:  # fmt: skip
    """Gemm of quantized numbers; real without a scale for the result."""
    left, right = (a.transpose() if transA else a), b
    zero = b_zero.unsqueeze(-1) if transB and b_zero is not None and b_zero.ndim == 1 else b_zero
    right = _centered(right, zero)
    right = right.transpose() if transB else right
    total = _centered(left, a_zero).matmul(right, dtype=dtypes.int32)
    total = total if c is None else total + c
    factor = a_scale * b_scale * alpha
    if y_scale is None:
        return total.cast(dtypes.float32) * factor
    return requantized(total, _divided(factor, y_scale), y_zero)
