"""Rules rooted at CAST and BITCAST, and sums of casts."""

from __future__ import annotations

import math
import struct

from tinygrad.dtype import DType, PtrDType, can_lossless_cast, dtypes, float_to_int, truncate
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INTS, is_integer, is_integral, rule

_x, _y = UPat.var("x"), UPat.var("y")


def _convert(value, dtype: DType):
    """One constant converted as the targets do it: integers wrap, floats round. None for a float
    that is no number to an index."""
    if dtype is dtypes.bool:
        return bool(value)
    if dtypes.is_int(dtype):
        if isinstance(value, float):
            return (
                None if dtype is dtypes.index and value - value != 0 else float_to_int(value, dtype)
            )
        return int(value) if dtype is dtypes.index else truncate[dtype](int(value))
    return truncate[dtype](value) if dtype in truncate else float(value)


def fold_cast_of_constant(cast: UOp, c: UOp) -> UOp | None:
    """`cast(c)` evaluated; `c` is first what its own type can hold of it."""
    if isinstance(cast.dtype, PtrDType) or cast.dtype is dtypes.void:
        return None
    scalar, held = cast.dtype.scalar(), c.dtype.scalar()
    values = c.arg if c.op is Ops.VCONST else (c.arg,)
    if not all(isinstance(v, (bool, int, float)) for v in values):
        return None
    own = [_convert(v, held) for v in values]
    converted = tuple(None if v is None else _convert(v, scalar) for v in own)
    if any(v is None for v in converted):
        return None
    return UOp.const(cast.dtype, converted if c.op is Ops.VCONST else converted[0])


def fold_bitcast_of_constant(cast: UOp, c: UOp) -> UOp | None:
    """`bitcast(c)` evaluated, for types of one size that Python can pack."""
    source, target = c.dtype.scalar(), cast.dtype.scalar()
    if cast.dtype.vcount != 1 or c.op is not Ops.CONST or source.itemsize != target.itemsize:
        return None
    if source.fmt is None or target.fmt is None or not isinstance(c.arg, (bool, int, float)):
        return None
    bits = struct.pack(f"<{source.fmt}", c.arg)
    value = struct.unpack(f"<{target.fmt}", bits)[0]
    if isinstance(value, float) and math.isnan(value):
        # a NaN's payload would be lost in a Python constant
        return None
    return UOp.const(cast.dtype, value)


def fits(u: UOp, dtype: DType) -> bool:
    """True when bounds prove that every value of the integer `u` is a value of `dtype`."""
    return dtype is dtypes.index or (dtype.min <= u.vmin and u.vmax <= dtype.max)


def fold_cast_of_cast(outer: UOp, inner: UOp, x: UOp) -> UOp | None:
    """`cast(cast(x, t), u) -> cast(x, u)` where `t` loses nothing that `u` keeps."""
    middle, last = inner.dtype, outer.dtype
    if isinstance(middle, PtrDType) or isinstance(last, PtrDType) or x.dtype == dtypes.void:
        return None
    first = x.dtype.scalar()
    middle, last = middle.scalar(), last.scalar()
    if last is dtypes.bool and middle is not dtypes.bool:
        # only "is it zero" is asked
        return x.cast(outer.dtype) if can_lossless_cast(first, middle) else None
    if can_lossless_cast(first, middle) and first is not dtypes.index:
        return x.cast(outer.dtype)
    if not (is_integral(first) and is_integer(middle)):
        return None
    if x.dtype.vcount == 1 and fits(x, middle):
        return x.cast(outer.dtype)
    if is_integer(last) and dtypes.index not in (middle, last) and last.itemsize <= middle.itemsize:
        # both conversions keep the low bits
        return x.cast(outer.dtype)
    return None


def _keeps_low_bits(cast: UOp, x: UOp) -> bool:
    """True for a conversion to a narrower integer, which takes the low bits."""
    target, source = cast.dtype.scalar(), x.dtype.scalar()
    fixed = is_integer(cast.dtype) and is_integer(x.dtype) and dtypes.index not in (target, source)
    return fixed and target.itemsize < source.itemsize


def simplify_cast_of_masked(cast: UOp, x: UOp, c: UOp) -> UOp | None:
    """`cast(x & c) -> cast(x)` where the mask has all bits that are kept."""
    if not _keeps_low_bits(cast, x):
        return None
    kept = (1 << 8 * cast.dtype.scalar().itemsize) - 1
    return x.cast(cast.dtype) if c.arg & kept == kept else None


def simplify_cast_of_shifted(cast: UOp, y: UOp, k: UOp) -> UOp | None:
    """`cast((x << k) | y) -> cast(y)` where all bits of `x` are dropped."""
    if not _keeps_low_bits(cast, y) or k.arg < 8 * cast.dtype.scalar().itemsize:
        return None
    return y.cast(cast.dtype)


def _narrow(op: Ops):
    """`cast(x) op cast(y) -> cast(x op y)` where neither type wraps."""

    def fold(x: UOp, y: UOp, sum_: UOp) -> UOp | None:
        if x.dtype is not y.dtype or x.dtype.vcount != 1 or not is_integer(x.dtype):
            return None
        wide = sum_.dtype
        if not is_integer(wide):
            return None
        result = x.alu(op, y)
        if x.dtype is not dtypes.index and wide is not dtypes.index:
            if wide.itemsize < x.dtype.itemsize:
                return None
        if not _exact_in(op, x, y, x.dtype) or not _exact_in(op, x, y, wide):
            return None
        return result.cast(wide)

    return fold


def _exact_in(op: Ops, x: UOp, y: UOp, dtype: DType) -> bool:
    """True when `x op y` over all values of the operands stays inside `dtype`."""
    if dtype is dtypes.index:
        return True
    if op is Ops.ADD:
        ends = (x.vmin + y.vmin, x.vmax + y.vmax)
    else:
        ends = tuple(a * b for a in (x.vmin, x.vmax) for b in (y.vmin, y.vmax))
    inside = dtype.min <= min(ends) and max(ends) <= dtype.max
    return inside and fits(x, dtype) and fits(y, dtype)


_c, _k = UPat.cvar("c", vec=False), UPat.cvar("k", vec=False)

identity_rules = [
    rule(
        "cast-same",
        UPat(Ops.CAST, src=(_x,), name="cast"),
        lambda cast, x: x if cast.dtype == x.dtype else None,
    ),
    rule(
        "bitcast-same",
        UPat(Ops.BITCAST, src=(_x,), name="cast"),
        lambda cast, x: x if cast.dtype == x.dtype else None,
    ),
    rule(
        "cast-constant", UPat(Ops.CAST, src=(UPat.cvar("c"),), name="cast"), fold_cast_of_constant
    ),
    rule(
        "bitcast-constant",
        UPat(Ops.BITCAST, src=(UPat.cvar("c"),), name="cast"),
        fold_bitcast_of_constant,
    ),
    rule(
        "bitcast-bitcast",
        UPat(Ops.BITCAST, src=(UPat(Ops.BITCAST, src=(_x,)),), name="cast"),
        lambda cast, x: x.bitcast(cast.dtype) if x.dtype.vcount == cast.dtype.vcount else None,
    ),
    rule(
        "cast-cast",
        UPat(Ops.CAST, src=(UPat(Ops.CAST, src=(_x,), name="inner"),), name="outer"),
        fold_cast_of_cast,
    ),
    rule(
        "cast-masked",
        UPat(Ops.CAST, src=(UPat.var("x", dtypes.ints) & _c,), name="cast"),
        simplify_cast_of_masked,
        domain=INTS,
    ),
    rule(
        "cast-shifted",
        UPat(
            Ops.CAST,
            src=((UPat.var("x", dtypes.ints) << _k) | UPat.var("y"),),
            name="cast",
        ),
        simplify_cast_of_shifted,
        domain=INTS,
    ),
]


rules = [
    rule(
        "add-of-casts",
        UPat(Ops.ADD, src=(UPat(Ops.CAST, src=(_x,)), UPat(Ops.CAST, src=(_y,))), name="sum_"),
        _narrow(Ops.ADD),
        domain=INTS,
    ),
    rule(
        "mul-of-casts",
        UPat(Ops.MUL, src=(UPat(Ops.CAST, src=(_x,)), UPat(Ops.CAST, src=(_y,))), name="sum_"),
        _narrow(Ops.MUL),
        domain=INTS,
    ),
]
