"""Elementary functions in terms of arithmetic, for targets that lack them.

In: a scalar or vector node of a dtype in `TRANSCENDENTAL_DTYPES`. Out: a node of that dtype made of
sums, products, comparisons, choices, integer operations and bitcasts. float16 is computed in
float32. NaN and infinities follow IEEE 754 and C's math library. Called by `uop/decompositions.py`;
some parts are public because tests and tools use them on their own.

Methods: Cody and Waite, "Software Manual for the Elementary Functions" (1980), for the reduction of
small angles; Payne and Hanek, "Radian Reduction for Trigonometric Functions" (SIGNUM 18, 1983), for
large ones; Tang's scheme 2**(q+s) = 2**q * p(s); the odd series of atanh for the logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinygrad.dtype import DType, dtypes
from tinygrad.uop import transcendental_tables as tables
from tinygrad.uop.ops import UOp

TRANSCENDENTAL_DTYPES = (dtypes.float16, dtypes.float32, dtypes.float64)


class _Layout:
    """The bit fields of a binary floating point format."""

    def __init__(self, mantissa_bits: int, bias: int, bits: DType, signed: DType):
        self.mantissa_bits = mantissa_bits
        self.bias = bias
        self.bits = bits
        self.signed = signed
        self.exponent_mask = 2 * bias + 1
        self.mantissa_mask = (1 << mantissa_bits) - 1


_LAYOUTS = {
    dtypes.float16: _Layout(10, 15, dtypes.uint16, dtypes.int16),
    dtypes.float32: _Layout(23, 127, dtypes.uint32, dtypes.int32),
    dtypes.float64: _Layout(52, 1023, dtypes.uint64, dtypes.int64),
}


def _layout(dtype: DType) -> _Layout:
    scalar = dtype.scalar()
    if scalar not in _LAYOUTS:
        raise TypeError(
            f"elementary functions are written for {TRANSCENDENTAL_DTYPES}, got {scalar}: "
            "cast to one of them first"
        )
    return _LAYOUTS[scalar]


def _like(scalar: DType, d: UOp) -> DType:
    return scalar.vec(d.dtype.vcount)


def _in_float32(fn):
    """Runs `fn` in float32 for a float16 argument."""

    def wrapped(d: UOp) -> UOp:
        if d.dtype.scalar() is dtypes.float16:
            return fn(d.cast(_like(dtypes.float32, d))).cast(d.dtype)
        return fn(d)

    wrapped.__name__ = fn.__name__
    wrapped.__doc__ = fn.__doc__
    return wrapped


def _polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """Horner's scheme, lowest power first."""
    total = x.const_like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + x.const_like(c)
    return total


# ---- parts of numbers


def rintk(d: UOp) -> UOp:
    """The nearest integer, halves away from zero, as a signed integer of the width of `d`."""
    half = (d < 0.0).where(d.const_like(-0.5), d.const_like(0.5))
    return (d + half).cast(_like(_layout(d.dtype).signed, d))


def pow2if(q: UOp, float_dtype: DType) -> UOp:
    """`2**q` for an integer `q` in the range of normal exponents, made from its bits."""
    layout = _layout(float_dtype)
    biased = (q + q.const_like(layout.bias)).cast(_like(layout.bits, q))
    shifted = biased << biased.const_like(layout.mantissa_bits)
    return shifted.bitcast(_like(float_dtype.scalar(), q))


def _exponent_bits(d: UOp) -> UOp:
    layout = _layout(d.dtype)
    bits = d.bitcast(_like(layout.bits, d))
    shifted = bits >> bits.const_like(layout.mantissa_bits)
    return shifted & shifted.const_like(layout.exponent_mask)


def frexp(v: UOp) -> tuple[UOp, UOp]:
    """`(m, e)` with `abs(v) == m * 2**e` and `0.5 <= m < 1`, for normal numbers."""
    layout = _layout(v.dtype)
    bits = v.bitcast(_like(layout.bits, v))
    half = (layout.bias - 1) << layout.mantissa_bits
    fraction = bits & bits.const_like(layout.mantissa_mask)
    mantissa = (fraction | bits.const_like(half)).bitcast(v.dtype)
    exponent = _exponent_bits(v).cast(_like(layout.signed, v))
    return mantissa, exponent - exponent.const_like(layout.bias - 1)


def _scale(p: UOp, q: UOp) -> UOp:
    """`p * 2**q` in two steps, so that subnormal results round once and nothing overflows early."""
    half = q >> q.const_like(1)
    return p * pow2if(half, p.dtype) * pow2if(q - half, p.dtype)


# ---- sine


def _pi_parts(dtype: DType) -> Sequence[float]:
    is_double = dtype.scalar() is dtypes.float64
    return tables.PI_PARTS_FLOAT64 if is_double else tables.PI_PARTS_FLOAT32


def _small_angle_limit(dtype: DType) -> float:
    """Below it `q` times a part of pi is exact: 8 bits of 24, 27 bits of 53."""
    return 3.0e8 if dtype.scalar() is dtypes.float64 else 800.0


def cody_waite_reduction(d: UOp) -> tuple[UOp, UOp]:
    """`(r, q)` with `d == q * pi + r`, `abs(r) <= pi/2`, exact to rounding for small angles. For
    float16 `r` is float32."""
    if d.dtype.scalar() is dtypes.float16:
        d = d.cast(_like(dtypes.float32, d))
    q = rintk(d * d.const_like(1.0 / math.pi))
    whole = q.cast(d.dtype)
    r = d
    for part in _pi_parts(d.dtype):
        r = r + whole * d.const_like(-part)
    return r, q


def _window(words: Sequence[int], first: UOp, count: int) -> list[UOp]:
    """`words[first], words[first + 1], ...` chosen by comparisons."""
    out = []
    for offset in range(count):
        chosen = first.const_like(words[offset])
        for i in range(1, len(words) - count + 1):
            word = first.const_like(words[i + offset])
            chosen = (first < first.const_like(i)).where(chosen, word)
        out.append(chosen)
    return out


def _mantissa_words(d: UOp) -> tuple[list[UOp], UOp]:
    """The significand of a normal `d` in 32-bit words held in uint64, the leading bit on top, and
    `e + 30` as uint32, where `abs(d) == 0.significand * 2**e`."""
    layout = _layout(d.dtype)
    wide = _like(dtypes.uint64, d)
    bits = d.bitcast(_like(layout.bits, d))
    hidden = bits.const_like(1 << layout.mantissa_bits)
    whole = (bits & bits.const_like(layout.mantissa_mask)) | hidden
    if layout.mantissa_bits < 32:
        words = [(whole << whole.const_like(31 - layout.mantissa_bits)).cast(wide)]
    else:
        low_bits = layout.mantissa_bits - 31
        low = whole & whole.const_like((1 << low_bits) - 1)
        words = [whole >> whole.const_like(low_bits), low << low.const_like(32 - low_bits)]
    exponent = _exponent_bits(d).cast(_like(dtypes.uint32, d))
    return words, exponent + exponent.const_like((31 - layout.bias) % 2**32)


def _turns(d: UOp, words: Sequence[int]) -> UOp:
    """`abs(d) * 2/pi` modulo 4 as a fixed point number with 62 fraction bits, in uint64.

    Bits of 2/pi that only contribute multiples of 4 are skipped: what is left is a window of three
    words for each word of the significand.
    """
    wide = _like(dtypes.uint64, d)
    significand, start = _mantissa_words(d)
    parts = len(significand)
    # zeros stand for the bits before the binary point, and for the window of a later part
    padded = (0,) * (1 + parts) + tuple(words)
    shift = start & start.const_like(31)
    raw = _window(padded, start >> start.const_like(5), 3 + parts)
    # two shifts, because one by 32 is undefined
    complement = shift.const_like(31) - shift
    aligned = [
        ((left << shift) | ((right >> right.const_like(1)) >> complement)).cast(wide)
        for left, right in zip(raw, raw[1:])
    ]
    total = None
    for part, m in enumerate(significand):
        # a later part is worth 32 binary places less: its window starts one word earlier
        w0, w1, w2 = aligned[parts - 1 - part : parts + 2 - part]
        word_bits = m.const_like(32)
        term = ((m * w0) << word_bits) + m * w1 + ((m * w2) >> word_bits)
        total = term if total is None else total + term
    assert total is not None
    return total


def payne_hanek_reduction(d: UOp) -> tuple[UOp, UOp]:
    """`(r, q)` with `abs(d) == q * pi/2 + r` modulo 2*pi, `-pi/2 <= r < 0` and `q` in 1 .. 4. Meant
    for `2**-30 < abs(d) < 2**126`; for float16 `r` is float32."""
    if d.dtype.scalar() is dtypes.float16:
        d = d.cast(_like(dtypes.float32, d))
    turns = _turns(d, tables.WORDS_OF_TWO_OVER_PI[:7])
    fraction = (turns & turns.const_like((1 << 62) - 1)).cast(d.dtype)
    r = fraction * d.const_like(math.pi / 2**63) - d.const_like(math.pi / 2)
    quadrant = (turns >> turns.const_like(62)).cast(_like(dtypes.int32, d))
    return r, quadrant + quadrant.const_like(1)


def _large_angle_reduction(d: UOp, cosine: bool = False) -> tuple[UOp, UOp]:
    """`(r, odd)` with `abs(d) == q * pi + r`, `abs(r) <= pi/2`, for every finite large `d`; `odd`
    is the lowest bit of `q`. For `cosine` a quarter of a turn is added to `abs(d)`, exactly."""
    is_double = d.dtype.scalar() is dtypes.float64
    words = tables.WORDS_OF_TWO_OVER_PI[:34] if is_double else tables.WORDS_OF_TWO_OVER_PI[:6]
    turns = _turns(d, words)
    if cosine:
        turns = turns + turns.const_like(1 << 62)
    # turns counts quarters with 62 fraction bits, so halves with 63
    odd = (turns + turns.const_like(1 << 62)) >> turns.const_like(63)
    signed = (turns - (odd << odd.const_like(63))).bitcast(_like(dtypes.int64, d))
    return signed.cast(d.dtype) * d.const_like(math.pi / 2**63), odd


def _cosine_reduction(d: UOp) -> tuple[UOp, UOp]:
    """`(r, q)` with `d + pi/2 == q * pi + r`, as `cody_waite_reduction` without the rounded sum.

    The multiples of pi are halves, so that they have one bit more.
    """
    q = rintk(d * d.const_like(1.0 / math.pi) + d.const_like(0.5))
    multiple = q.cast(d.dtype) - d.const_like(0.5)
    r = d
    for part in _pi_parts(d.dtype):
        r = r + multiple * d.const_like(-part)
    return r, q


def trig_poly(d: UOp, coeff32: Sequence[float], coeff64: Sequence[float]) -> UOp:
    """`d * P(d*d)` with the coefficients for the dtype of `d`, lowest power first. A leading one
    is added last, so that small arguments come through exactly."""
    coefficients = coeff64 if d.dtype.scalar() is dtypes.float64 else coeff32
    z = d * d
    if len(coefficients) == 1 or abs(coefficients[0] - 1.0) > 1e-7:
        return d * _polynomial(z, coefficients)
    return d + (d * z) * _polynomial(z, coefficients[1:])


def _is_odd(q: UOp) -> UOp:
    return (q & q.const_like(1)).ne(q.const_like(0))


def _sine(d: UOp, cosine: bool) -> UOp:
    size = (d < 0.0).where(-d, d)
    is_small = size < _small_angle_limit(d.dtype) * (0.5 if cosine else 1.0)
    inside = is_small.where(d, d.const_like(0.0))
    r_small, q_small = _cosine_reduction(inside) if cosine else cody_waite_reduction(inside)
    r_large, q_large = _large_angle_reduction(size, cosine)
    if not cosine:
        r_large = (d < 0.0).where(-r_large, r_large)
    r = is_small.where(r_small, r_large)
    odd = is_small.where(_is_odd(q_small), q_large.ne(q_large.const_like(0)))
    sine = trig_poly(r, tables.SINE_FLOAT32, tables.SINE_FLOAT64)
    return (size < math.inf).where(odd.where(-sine, sine), d.const_like(math.nan))


@_in_float32
def xsin(d: UOp) -> UOp:
    """Sine of radians; NaN for infinities."""
    return _sine(d, cosine=False)


@_in_float32
def xcos(d: UOp) -> UOp:
    """Cosine of radians; NaN for infinities. Large angles lose nothing to the sum with pi/2."""
    return _sine(d, cosine=True)


# ---- exponential and logarithm


def _exponential(d: UOp, scale: float, fraction_of: Callable[[UOp], UOp]) -> UOp:
    """`2**(d * scale)`, where `fraction_of(whole)` is `d * scale - whole` without a rounded product."""
    is_double = d.dtype.scalar() is dtypes.float64
    low, high = (-1075.0, 1024.0) if is_double else (-150.0, 128.0)
    zero = d.const_like(0.0)
    t = d if scale == 1.0 else d * d.const_like(scale)
    inside = (t < high).where((t > low).where(t, zero), zero)
    # moved above zero, truncation is rounding down; what the sum rounds off only shifts the border
    # between two neighbours q, and the polynomial reaches a little beyond it
    integer = _like(_layout(d.dtype).signed, d)
    moved = (inside + d.const_like(0.5 - low)).cast(integer)
    q = moved + moved.const_like(int(low))
    s = inside - q.cast(d.dtype) if scale == 1.0 else fraction_of(q.cast(d.dtype))
    p = _polynomial(s, tables.EXP2_FLOAT64 if is_double else tables.EXP2_FLOAT32)
    limited = (t < high).where((t > low).where(_scale(p, q), zero), d.const_like(math.inf))
    return d.ne(d).where(d, limited)


@_in_float32
def xexp2(d: UOp) -> UOp:
    """`2**d`, subnormal results included."""
    return _exponential(d, 1.0, lambda whole: d - whole)


@_in_float32
def xexp(d: UOp) -> UOp:
    """`e**d`, subnormal results included. The product with log2(e) only chooses the power of two; the
    rest is taken from `d` itself, in two parts (Cody and Waite)."""
    is_double = d.dtype.scalar() is dtypes.float64
    high, low = tables.LN2_PARTS_FLOAT64 if is_double else tables.LN2_PARTS_FLOAT32

    def fraction(whole: UOp) -> UOp:
        natural = (d + whole * d.const_like(-high)) + whole * d.const_like(-low)
        return natural * d.const_like(tables.LOG2_E)

    return _exponential(d, tables.LOG2_E, fraction)


def _log2_parts(d: UOp) -> tuple[UOp, UOp]:
    """`(k, l)` with `log2(d) == k + l` for a positive normal `d`: `k` a signed integer, `l` the
    logarithm of a number between `sqrt(1/2)` and `sqrt(2)`, so that the sum cancels nothing."""
    layout = _layout(d.dtype)
    is_double = d.dtype.scalar() is dtypes.float64
    bits = d.bitcast(_like(layout.signed, d))
    mantissa_bits = bits.const_like(layout.mantissa_bits)
    fraction = int((math.sqrt(2) - 1) * 2**layout.mantissa_bits)
    root_of_half = ((layout.bias - 1) << layout.mantissa_bits) | fraction
    k = (bits - bits.const_like(root_of_half)) >> mantissa_bits
    f = (bits - (k << mantissa_bits)).bitcast(d.dtype) - d.const_like(1.0)
    # ln(1 + f) == f - (f*f/2 - s * (f*f/2 + R)), s == f / (2 + f): the leading term is exact
    s = f * (f + d.const_like(2.0)).reciprocal()
    z = s * s
    series = z * _polynomial(z, tables.ATANH_FLOAT64 if is_double else tables.ATANH_FLOAT32)
    half_square = f * f * d.const_like(0.5)
    natural = f - (half_square - s * (half_square + series))
    return k, natural * d.const_like(tables.LOG2_E)


@_in_float32
def xlog2(d: UOp) -> UOp:
    """Binary logarithm; -inf at zero, NaN below."""
    smallest_normal = 2.0 ** (1 - _layout(d.dtype).bias)
    is_tiny = d < smallest_normal
    k, rest = _log2_parts(is_tiny.where(d * d.const_like(2.0**64), d))
    whole = k.cast(d.dtype)
    value = is_tiny.where(whole - d.const_like(64.0), whole) + rest
    at_most_zero = d.ne(0.0).where(d.const_like(math.nan), d.const_like(-math.inf))
    finite = (d < math.inf).where(value, d.const_like(math.inf))
    return (d > 0.0).where(finite, at_most_zero)


def xpow(base: UOp, exponent: UOp) -> UOp:
    """`base ** exponent` with the special cases of C's `pow`."""
    if base.dtype.scalar() is dtypes.float16:
        wide = _like(dtypes.float32, base)
        return xpow(base.cast(wide), exponent.cast(wide)).cast(base.dtype)
    one = base.const_like(1.0)
    size = (base < 0.0).where(-base, base)
    power = xexp2(exponent * xlog2(size))
    # 1 to any power, also an infinite one
    power = size.ne(one).where(power, one)
    is_fractional = exponent.trunc().ne(exponent)
    half = exponent * exponent.const_like(0.5)
    is_odd = half.trunc().ne(half) & is_fractional.ne(True)
    sign = base.bitcast(_like(_layout(base.dtype).signed, base)) < 0
    signed = power * (is_odd & sign).where(base.const_like(-1.0), one)
    undefined = is_fractional & (base < 0.0) & (base > -math.inf)
    result = undefined.where(base.const_like(math.nan), signed)
    return exponent.ne(0.0).where(result, one)


def xsqrt(d: UOp) -> UOp:
    """Square root from the logarithm, with one step of Newton's iteration."""
    guess = xexp2(xlog2(d) * d.const_like(0.5))
    better = (guess + d * guess.reciprocal()) * d.const_like(0.5)
    return ((d > 0.0) & (d < math.inf)).where(better, guess)


def xtrunc(d: UOp) -> UOp:
    """Rounding toward zero through integers; large numbers are whole already."""
    layout = _layout(d.dtype)
    size = (d < 0.0).where(-d, d)
    has_fraction = size < 2.0**layout.mantissa_bits
    inside = has_fraction.where(d, d.const_like(0.0))
    return has_fraction.where(inside.cast(_like(layout.signed, d)).cast(d.dtype), d)
