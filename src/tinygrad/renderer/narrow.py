"""Floats that a target stores but does not compute with.

`compute_in_float(types)` gives a matcher that moves arithmetic on those types to float32, rounding
after every operation, so that results are those of native arithmetic. `bfloat16_by_bits` converts
bfloat16 by integer operations; a target with it keeps bfloat16 in 16-bit integers. `fp8_by_bits`
does the same for the 8-bit floats, kept in bytes. All are meant for a renderer's `extra_matcher`;
those that convert come before `compute_in_float`. `integers_by_signed` makes casts of floats to integers wrap where C
leaves them undefined, and `round_wide_once` rounds what is wider than float32 to narrow types only once.
"""

from __future__ import annotations

import struct

from tinygrad.dtype import DType, dtypes, float_to_bf16, float_to_fp8, truncate
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UOp, UPat

_COMPARES = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)


def bf16_bits(value: float) -> int:
    """The 16 stored bits of a bfloat16 constant."""
    return struct.unpack("I", struct.pack("f", float_to_bf16(value)))[0] >> 16


def _like(scalar: DType, u: UOp) -> DType:
    return scalar.vec(u.dtype.count)


def compute_in_float(types: tuple[DType, ...]) -> PatternMatcher:
    """Arithmetic and comparisons on `types` through float32; selects and moves are untouched."""

    def widened(x: UOp) -> tuple[UOp, ...]:
        return tuple(
            s.cast(_like(dtypes.float32, s)) if s.dtype.scalar() in types else s for s in x.src
        )

    def widen_arithmetic(x: UOp) -> UOp | None:
        if x.dtype.scalar() not in types:
            return None
        return x.replace(dtype=_like(dtypes.float32, x), src=widened(x)).cast(x.dtype)

    def widen_compare(x: UOp) -> UOp | None:
        return x.replace(src=widened(x)) if x.src[0].dtype.scalar() in types else None

    arithmetic = tuple(GroupOp.ALU - {Ops.WHERE, *_COMPARES})
    return PatternMatcher(
        [
            (UPat(arithmetic, types, name="x"), widen_arithmetic),
            (UPat(_COMPARES, src=(UPat(dtype=types), UPat()), name="x"), widen_compare),
        ]
    )


def round_to_odd(x: UOp) -> UOp:
    """float64 to float32 such that rounding the result again to fewer bits rounds once.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008): truncate, and set
    the last bit where the conversion was inexact.
    """
    near = x.cast(_like(dtypes.float32, x))
    back = near.cast(x.dtype)
    bits = near.bitcast(_like(dtypes.uint32, x))
    zero = x.const_like(0)
    too_large = (x < zero).where(back < x, x < back)
    odd = too_large.where(bits + bits.const_like(2**32 - 1), bits + bits.const_like(1))
    is_even = (bits & bits.const_like(1)).ne(bits.const_like(1))
    adjusted = (back.ne(x) & is_even).where(odd, bits)
    return adjusted.bitcast(near.dtype)


def _integer_to_double(x: UOp) -> UOp:
    """An integer as float64, of more than 53 bits rounded to odd: the lowest bit kept is set where
    one below it is."""
    wide = _like(dtypes.float64, x)
    if x.dtype.scalar().itemsize < 8:
        return x.cast(wide)
    low = x.const_like(0x7FF)
    sticky = (x | ((x & low) + low)) & (low ^ x.const_like(truncate[x.dtype.scalar()](-1)))
    limit = x.const_like(1 << 53)
    fits = x < limit
    if x.dtype.scalar() is dtypes.int64:
        fits = fits & (x.const_like(-(1 << 53)) < x)
    return fits.where(x, sticky).cast(wide)


def _wide_to_narrow(x: UOp) -> UOp | None:
    source, target = x.src[0], x.dtype.scalar()
    if source.dtype.scalar() is dtypes.float64:
        return round_to_odd(source).cast(x.dtype)
    # of the narrow types only bfloat16 has values that float32 rounds integers to
    if target is dtypes.bfloat16 and source.dtype.scalar().itemsize >= 4:
        return round_to_odd(_integer_to_double(source)).cast(x.dtype)
    return None


# x86 converts float64 to float16 only through a runtime library, or by rounding twice
_NARROW = (dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)
_WIDE = (dtypes.float64, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)
round_wide_once = PatternMatcher(
    [(UPat(Ops.CAST, _NARROW, src=(UPat(dtype=_WIDE),), name="x"), _wide_to_narrow)]
)


def _bfloat16_cast(x: UOp) -> UOp | None:
    source = x.src[0]
    if source.dtype.scalar() is dtypes.bfloat16:
        bits = source.bitcast(_like(dtypes.uint16, x)).cast(_like(dtypes.uint32, x))
        wide = (bits << bits.const_like(16)).bitcast(_like(dtypes.float32, x))
        return wide.cast(x.dtype) if wide.dtype is not x.dtype else wide
    if x.dtype.scalar() is not dtypes.bfloat16:
        return None
    source = source.cast(_like(dtypes.float32, x))
    bits = source.bitcast(_like(dtypes.uint32, x))
    half = bits.const_like(16)
    tie = (bits >> half) & bits.const_like(1)
    nearest = (bits + (tie + bits.const_like(0x7FFF))) >> half
    quiet_nan = (bits >> half) | bits.const_like(0x40)
    stored = source.ne(source).where(quiet_nan, nearest)
    return stored.cast(_like(dtypes.uint16, x)).bitcast(x.dtype)


bfloat16_by_bits = PatternMatcher(
    [
        (UPat(Ops.CAST, dtypes.bfloat16, name="x"), _bfloat16_cast),
        (UPat(Ops.CAST, src=(UPat(dtype=dtypes.bfloat16),), name="x"), _bfloat16_cast),
    ]
)


def _fp8_layout(dt: DType) -> tuple[int, int, int, int]:
    """Mantissa bits, exponent bias, codes of the largest finite value and of infinity."""
    mantissa = dtypes.finfo(dt)[1]
    bias = 2 ** (6 - mantissa) - 1
    # e4m3 has one NaN code and no infinities, which become NaN
    largest = float_to_fp8(3e38, dt)
    return mantissa, bias, largest, float_to_fp8(float("inf"), dt)


def _fp8_to_float32(code: UOp, dt: DType) -> UOp:
    """The values of fp8 codes, given as uint32.

    The code's exponent and mantissa, moved to where a float32 has them, are the value over
    2**(127 - bias), also where the code is subnormal.
    """
    mantissa, bias, largest, _ = _fp8_layout(dt)
    single = _like(dtypes.float32, code)
    magnitude = code & code.const_like(0x7F)
    moved = magnitude << code.const_like(23 - mantissa)
    scaled = moved.bitcast(single)
    value = (scaled * scaled.const_like(2.0 ** (127 - bias))).bitcast(code.dtype)
    special = moved | code.const_like(0x7F800000)
    bits = (code.const_like(largest) < magnitude).where(special, value)
    return (bits | ((code & code.const_like(0x80)) << code.const_like(24))).bitcast(single)


def _float32_to_fp8(x: UOp, dt: DType) -> UOp:
    """The codes (as uint32) of float32 values: nearest even, finite overflow to the largest."""
    mantissa, bias, largest, infinity = _fp8_layout(dt)
    bits = x.bitcast(_like(dtypes.uint32, x))
    magnitude = bits & bits.const_like(0x7FFFFFFF)
    dropped = bits.const_like(23 - mantissa)
    tie = (magnitude >> dropped) & bits.const_like(1)
    rounded = (magnitude + (tie + bits.const_like(2 ** (22 - mantissa) - 1))) >> dropped
    normal = rounded - bits.const_like((127 - bias) << mantissa)
    # subnormal codes count steps of 2**(1 - bias - mantissa): a float32 of this size has that step
    anchor = 2.0 ** (24 - bias - mantissa)
    lifted = magnitude.bitcast(x.dtype) + x.const_like(anchor)
    anchor_bits = x.const_like(anchor).bitcast(bits.dtype)
    subnormal = lifted.bitcast(bits.dtype) - anchor_bits
    code = (magnitude < bits.const_like((128 - bias) << 23)).where(subnormal, normal)
    code = (bits.const_like(largest) < code).where(bits.const_like(largest), code)
    infinite = bits.const_like(0x7F800000)
    code = (magnitude < infinite).where(code, bits.const_like(infinity))
    code = (infinite < magnitude).where(bits.const_like(float_to_fp8(float("nan"), dt)), code)
    return code | ((bits >> bits.const_like(24)) & bits.const_like(0x80))


def _fp8_cast(x: UOp) -> UOp | None:
    source, byte = x.src[0], _like(dtypes.uint8, x)
    if source.dtype.scalar() in dtypes.fp8s:
        code = source.bitcast(byte).cast(_like(dtypes.uint32, x))
        wide = _fp8_to_float32(code, source.dtype.scalar())
        return wide.cast(x.dtype) if wide.dtype is not x.dtype else wide
    if x.dtype.scalar() not in dtypes.fp8s:
        return None
    code = _float32_to_fp8(source.cast(_like(dtypes.float32, x)), x.dtype.scalar())
    return code.cast(byte).bitcast(x.dtype)


fp8_by_bits = PatternMatcher(
    [
        (UPat(Ops.CAST, dtypes.fp8s, name="x"), _fp8_cast),
        (UPat(Ops.CAST, src=(UPat(dtype=dtypes.fp8s),), name="x"), _fp8_cast),
    ]
)


def _float_to_integer(x: UOp) -> UOp | None:
    """As `dtype.float_to_int`: by a signed integer of 32 or 64 bits, of which the low bits are kept."""
    source, target = x.src[0], x.dtype.scalar()
    if target in (dtypes.int32, dtypes.int64):
        return None
    if target is not dtypes.uint64:
        wide = dtypes.int32 if target.itemsize < 4 else dtypes.int64
        return source.cast(_like(wide, x)).cast(x.dtype)
    if source.dtype.scalar() is dtypes.float16:  # all of its values are below 2**63
        return source.cast(_like(dtypes.int64, x)).cast(x.dtype)
    # from 2**63 on, the top bit is put back by hand
    limit = source.const_like(2.0**63)
    whole = source.cast(_like(dtypes.int64, x))
    rest = (source - limit).cast(_like(dtypes.int64, x))
    return (source < limit).where(whole, rest ^ rest.const_like(-(2**63))).cast(x.dtype)


integers_by_signed = PatternMatcher(
    [(UPat(Ops.CAST, dtypes.ints, src=(UPat(dtype=dtypes.floats),), name="x"), _float_to_integer)]
)
