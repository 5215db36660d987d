"""Gives index arithmetic a machine type.

In: a kernel whose index expressions have the unbounded type `dtypes.index`. Out: the same kernel
with int32 in its place, and int64 wherever the bounds of a value, or of what it is computed from,
do not fit. Bounds are those of the unbounded expressions, so nothing wraps. Runs once, after the
last pass that builds index expressions.
"""

from __future__ import annotations

from tinygrad._core import transform
from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp

# the result may be narrow although an operand is wide
_SHRINKING = {Ops.IDIV, Ops.MOD, Ops.SHR, Ops.AND}


def _is_index(u: UOp) -> bool:
    return u.dtype.scalar() is dtypes.index


def _fits_int32(u: UOp) -> bool:
    if u.op is Ops.CONST and u.arg is Invalid:
        return True
    lo, hi = u.vmin, u.vmax
    return dtypes.int32.min <= lo and hi <= dtypes.int32.max


def _width(u: UOp) -> DType:
    return dtypes.int32 if _fits_int32(u) else dtypes.int64


def _as(u: UOp, scalar: DType) -> UOp:
    wanted = scalar.vec(u.dtype.count)
    if u.dtype is wanted:
        return u
    if u.op in (Ops.CONST, Ops.VCONST):
        return u.replace(dtype=wanted)
    return UOp(Ops.CAST, wanted, (u,))


def _common(srcs: list[UOp], least: DType) -> DType:
    wide = any(s.dtype.scalar() is dtypes.int64 for s in srcs)
    return dtypes.int64 if wide else least


def _lower_operation(u: UOp, src: list[UOp]) -> UOp:
    """An ALU or vector op whose result is an index."""
    first = 1 if u.op is Ops.WHERE else 0
    scalar = _common([s for s in src[first:] if not dtypes.is_bool(s.dtype)], _width(u))
    src = src[:first] + [_as(s, scalar) for s in src[first:]]
    lowered = u.replace(dtype=scalar.vec(u.dtype.count), src=tuple(src))
    if scalar is dtypes.int64 and u.op in _SHRINKING and _fits_int32(u):
        return _as(lowered, dtypes.int32)
    return lowered


def _lower_node(u: UOp, src: list[UOp]) -> UOp:
    if _is_index(u):
        count = u.dtype.count
        if u.op in (Ops.CONST, Ops.VCONST, Ops.DEFINE_VAR):
            return u.replace(dtype=_width(u).vec(count), src=tuple(src))
        if u.op in (Ops.SPECIAL, Ops.RANGE):
            scalar = _common(src[:1], _width(u.src[0]))
            return u.replace(dtype=scalar, src=(_as(src[0], scalar), *src[1:]))
        if u.op is Ops.CAST:
            return _as(src[0], _width(u))
        if u.op in GroupOp.ALU or u.op in (Ops.VECTORIZE, Ops.GEP, Ops.CAT):
            return _lower_operation(u, src)
        return u.replace(dtype=_width(u).vec(count), src=tuple(src))
    if u.op in GroupOp.Comparison and _is_index(u.src[0]):
        scalar = _common(src, dtypes.int32)
        src = [_as(s, scalar) for s in src]
    return u if tuple(src) == u.src else u.replace(src=tuple(src))


def lower_index_types(sink: UOp) -> UOp:
    """`sink` without `dtypes.index`."""
    return transform(sink, dtypes.index, _lower_node)
