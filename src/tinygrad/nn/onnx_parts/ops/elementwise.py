"""Operators that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad.dtype import DType, dtypes
from tinygrad.nn.onnx_parts import narrow
from tinygrad.nn.onnx_parts.kinds import DTYPES, element_dtype, element_kind, usable_dtype
from tinygrad.nn.onnx_parts.narrow import Narrow
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


for _name, _function in {
    "Abs": lambda x: x.abs(),
    "Acos": lambda x: x.acos(),
    "Acosh": lambda x: x.acosh(),
    "Asin": lambda x: x.asin(),
    "Asinh": lambda x: x.asinh(),
    "Atan": lambda x: x.atan(),
    "Atanh": lambda x: x.atanh(),
    "BitwiseNot": lambda x: x.bitwise_not(),
    "Ceil": lambda x: x.ceil(),
    "Cos": lambda x: x.cos(),
    "Cosh": lambda x: x.cosh(),
    "Erf": lambda x: x.erf(),
    "Exp": lambda x: x.exp(),
    "Floor": lambda x: x.floor(),
    "HardSwish": lambda x: x * (x / 6 + 0.5).clip(0, 1),
    "Identity": lambda x: x,
    "IsNaN": lambda x: x.isnan(),
    "Log": lambda x: x.log(),
    "Mish": lambda x: x.mish(),
    "Neg": lambda x: -x,
    "Not": lambda x: x.logical_not(),
    "Reciprocal": lambda x: x.reciprocal(),
    "Relu": lambda x: x.relu(),
    "Round": lambda x: x.round(),
    "Sigmoid": lambda x: x.sigmoid(),
    "Sign": lambda x: x.sign(),
    "Sin": lambda x: x.sin(),
    "Sinh": lambda x: x.sinh(),
    "Softplus": lambda x: x.softplus(),
    "Softsign": lambda x: x / (1 + x.abs()),
    "Sqrt": lambda x: x.sqrt(),
    "Tan": lambda x: x.tan(),
    "Tanh": lambda x: x.tanh(),
}.items():
    operator(_name)(_function)


def _aligned(a: Tensor, b: Tensor, axis: int | None, broadcast: int) -> Tensor:
    """`b` with trailing axes added so that it starts at `axis` of `a`, as before operator set 7."""
    if not broadcast or axis is None or b.ndim == 0:
        return b
    first = axis + a.ndim if axis < 0 else axis
    return b.reshape(*b.shape, *[1] * (a.ndim - first - b.ndim))


def _binary(name: str, function) -> None:
    def call(a, b, axis=None, broadcast=0):
        return function(a, _aligned(a, b, axis, broadcast))

    operator(name)(call)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b, for integers rounded towards zero."""
    if dtypes.is_float(a.dtype):
        return a / b
    return a.div(b, rounding_mode="trunc").cast(a.dtype)


def power(a: Tensor, b: Tensor) -> Tensor:
    """a ** b in the type of a: integers exactly, by squaring for each bit of the exponent."""
    if not dtypes.is_int(a.dtype):
        return a.pow(b.cast(a.dtype) if dtypes.is_float(b.dtype) else b).cast(a.dtype)
    if dtypes.is_float(b.dtype):
        return a.cast(b.dtype).pow(b).trunc().cast(a.dtype)
    base, exponent = a, b
    result = (a * 0 + 1) * (b * 0 + 1).cast(a.dtype)
    for _ in range(min(6, 8 * a.dtype.itemsize)):
        result = (exponent & 1).cast(dtypes.bool).where(result * base, result)
        base, exponent = base * base, exponent.rshift(1)
    return (b < 0).where(((a == 1) | ((a == -1) & (b & 1 == 0))).cast(a.dtype), result)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": quotient,
    "Pow": power,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
    "Greater": lambda a, b: a > b,
    "Less": lambda a, b: a < b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "LessOrEqual": lambda a, b: a <= b,
}
for _name, _two_to_one in _BINARY.items():
    _binary(_name, _two_to_one)


@operator("Equal")
def equal(a, b, axis=None, broadcast=0):
    """Whether the elements are equal, also of texts."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.asarray(a) == np.asarray(b)
    return a == _aligned(a, b, axis, broadcast)


@operator("Where")
def where(condition, x, y):
    """x where the condition holds, else y."""
    if isinstance(x, np.ndarray):
        return np.where(condition.numpy(), x, y)
    return condition.cast(dtypes.bool).where(x, y)


@operator("Mod")
def remainder(a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    """The remainder with the sign of the divisor, or (`fmod`) of the dividend."""
    if not fmod:
        return (a - (a / b).floor() * b if dtypes.is_float(a.dtype) else a % b).cast(a.dtype)
    if dtypes.is_float(a.dtype):
        return a - (a / b).trunc() * b
    return a - quotient(a, b) * b


@operator("BitShift")
def bit_shift(x: Tensor, count: Tensor, direction: str = "LEFT") -> Tensor:
    """Shifts bits by a count per element."""
    power_of_two = (count.cast(dtypes.int32) * 0 + 1).cast(x.dtype)
    for bit in range(int(math.log2(8 * x.dtype.itemsize))):
        factor = (count.rshift(bit) & 1).cast(dtypes.bool)
        power_of_two = factor.where(power_of_two * (1 << (1 << bit)), power_of_two)
    fits = count < 8 * x.dtype.itemsize
    moved = x * power_of_two if direction == "LEFT" else x // power_of_two
    return fits.where(moved, moved * 0)


def _folded(function):
    def call(*operands):
        return functools.reduce(function, operands)

    return call


operator("Max")(_folded(lambda a, b: a.maximum(b)))
operator("Min")(_folded(lambda a, b: a.minimum(b)))
operator("Sum")(_folded(lambda a, b: a + b))


@operator("Mean")
def mean(*operands: Tensor) -> Tensor:
    """The mean over the operands."""
    return functools.reduce(lambda a, b: a + b, operands) / len(operands)


# *** activations ***
@operator("Elu")
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """alpha * (exp(x) - 1) below zero."""
    return x.elu(alpha)


@operator("Celu")
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return x.celu(alpha)


@operator("Selu")
def selu(
    x: Tensor, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
):
    """The scaled exponential linear unit."""
    return (x > 0).where(x, alpha * (x.exp() - 1)) * gamma


@operator("LeakyRelu")
def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """alpha * x below zero."""
    return (x < 0).where(x * alpha, x)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """slope * x below zero; a slope of one axis that does not broadcast is for the channels."""
    if slope.ndim == 1 and x.ndim > 1 and slope.shape[0] not in (1, x.shape[-1]):
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return (x < 0).where(x * slope, x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above alpha, else zero."""
    return (x > alpha).where(x, 0)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * x + beta between 0 and 1."""
    return (alpha * x + beta).clip(0, 1)


@operator("Swish")
def swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * (x * alpha).sigmoid()


@operator("QuickGelu", domain=_CONTRIB)
def quick_gelu(x: Tensor, alpha: float = 1.702) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * (x * alpha).sigmoid()


def exact_gelu(x: Tensor) -> Tensor:
    """x times the normal distribution function at x."""
    return 0.5 * x * (1 + (x * math.sqrt(0.5)).erf())


@operator("Gelu")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x, exactly or by tanh."""
    if approximate != "tanh":
        return exact_gelu(x)
    return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())


operator("Gelu", domain=_CONTRIB)(exact_gelu)


@operator("FastGelu", domain=_CONTRIB)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Gelu by tanh of x + bias."""
    return gelu(x if bias is None else x + bias, "tanh")


@operator("BiasGelu", domain=_CONTRIB)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Gelu of x + bias."""
    return exact_gelu(x + bias)


@operator("Shrink")
def shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Moves values outside -lambd..lambd towards zero by bias, and all others to zero."""
    return (x < -lambd).where(x + bias, (x > lambd).where(x - bias, 0)).cast(x.dtype)


@operator("Clip")
def clip(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """x between the limits, either of which may be left out; the upper one wins."""

    def limit(value):
        return value.cast(x.dtype) if isinstance(value, Tensor) else x.full_like(value)

    lifted = x if min is None else x.maximum(limit(min))
    return lifted if max is None else lifted.minimum(limit(max))


@operator("IsInf")
def is_inf(x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Whether the elements are infinite, of the signs asked for."""
    return x.isinf(bool(detect_positive), bool(detect_negative))


# *** types ***
def _as_text(x: Tensor) -> np.ndarray:
    return np.array([str(v) for v in x.numpy().reshape(-1)], dtype=object).reshape(x.shape)


@operator("Cast")
def cast(x, to: int | str, saturate: int = 1, round_mode: str = "up"):
    """x as another type; text is parsed. Floats saturate where fp8 has no infinity."""
    if to == 8:
        return x if isinstance(x, np.ndarray) else _as_text(x)
    kind, dtype = element_kind(to), usable_dtype(element_dtype(to), "Cast")
    if isinstance(x, np.ndarray):
        x = _parsed(x, kind, dtype)
    if kind in narrow.KINDS:
        return Narrow(kind, narrow.rounded(x, kind, bool(saturate), round_mode))
    if dtype in _LIMITS:
        return _small_float(x, dtype, saturate)
    return x if x.dtype is dtype else x.cast(dtype)


def _parsed(texts: np.ndarray, kind: int, dtype: DType) -> Tensor:
    """Numbers from texts; whole ones exactly."""
    if dtypes.is_int(dtype):
        return Tensor([_whole(v) for v in texts.reshape(-1)], dtype=dtype).reshape(texts.shape)
    return Tensor(np.array([float(v) for v in texts.reshape(-1)])).reshape(texts.shape).cast(dtype)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


# the largest number, the first that rounds to none, and the bits of what that becomes
_LIMITS = {dtypes.fp8e4m3: (448.0, 464.0, 0x7F), dtypes.fp8e5m2: (57344.0, 61440.0, 0x7C)}


def _small_float(x: Tensor, dtype: DType, saturate: int) -> Tensor:
    """x as 8-bit floats; what is too large becomes the largest one, else NaN or infinite."""
    largest, limit, bits = _LIMITS[dtype]
    wide = x.cast(dtypes.float32)
    if saturate:
        return wide.clip(-largest, largest).cast(dtype)
    over = wide.abs() > limit if dtype is dtypes.fp8e4m3 else wide.abs() >= limit
    sign = (wide < 0).cast(dtypes.uint8) * 0x80
    return over.where(sign + bits, wide.cast(dtype).bitcast(dtypes.uint8)).bitcast(dtype)


@operator("CastLike")
def cast_like(x, target, kinds, saturate: int = 1, round_mode: str = "up"):
    """x in the type of another tensor."""
    if isinstance(target, np.ndarray):
        return x if isinstance(x, np.ndarray) else _as_text(x)
    return cast(x, kinds[1] or number_of(target.dtype), saturate, round_mode)


@operator("BitCast")
def bit_cast(x: Tensor, to: int) -> Tensor:
    """The bits of x as elements of another type of the same size."""
    dtype = element_dtype(to)
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(f"BitCast from {x.dtype} to {dtype}, which has elements of another size")
    return x.bitcast(dtype)


def number_of(dtype: DType) -> int:
    """The TensorProto.DataType of a dtype."""
    return next(number for number, known in DTYPES.items() if known is dtype)
