"""Rules rooted at WHERE, and arithmetic on choices with one condition."""

from __future__ import annotations

from tinygrad.dtype import Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import ALL, BOOL, is_const, rule

_cond = UPat.var("cond", dtypes.bool)
_a, _b, _c, _d = (UPat.var(name) for name in "abcd")


def fold_constant_condition(cond: UOp, a: UOp, b: UOp) -> UOp | None:
    """`where(True, a, b) -> a`."""
    if cond.op is not Ops.CONST:
        return None
    return a if cond.arg else b


def _invalid(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg is Invalid


def merge_same_condition(op: UOp, cond: UOp, a: UOp, b: UOp, c: UOp, d: UOp) -> UOp | None:
    """`where(p, a, b) + where(p, c, d) -> where(p, a + c, b + d)` where one side folds."""
    if not ((is_const(a) and is_const(c)) or (is_const(b) and is_const(d))):
        return None
    return cond.where(a.alu(op.op, c), b.alu(op.op, d))


def merge_same_condition_in_sum(x: UOp, cond: UOp, a: UOp, b: UOp, c: UOp, d: UOp) -> UOp | None:
    """`(x + where(p, a, b)) + where(p, c, d) -> x + where(p, a + c, b + d)`, integers only."""
    if dtypes.is_float(x.dtype.scalar()):
        return None
    if not ((is_const(a) and is_const(c)) or (is_const(b) and is_const(d))):
        return None
    return x + cond.where(a + c, b + d)


def push_cast_into_branches(cast: UOp, cond: UOp, a: UOp, b: UOp) -> UOp | None:
    """`cast(where(p, a, b)) -> where(p, cast(a), cast(b))`."""
    if _invalid(a) or _invalid(b):
        return None
    return cond.where(a.cast(cast.dtype), b.cast(cast.dtype))


_MERGED_OPS = tuple(GroupOp.Binary & {Ops.ADD, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR})

identity_rules = [
    rule("where-same", UPat(Ops.WHERE, src=(UPat(), _a, _a)), lambda a: a),
    rule("where-constant", _cond.where(_a, _b), fold_constant_condition),
    rule(
        "where-true-false",
        _cond.where(UPat.const(dtypes.bool, True), UPat.const(dtypes.bool, False)),
        lambda cond: cond,
        domain=BOOL,
    ),
    rule(
        "where-false-true",
        _cond.where(UPat.const(dtypes.bool, False), UPat.const(dtypes.bool, True)),
        lambda cond: cond.logical_not(),
        domain=BOOL,
    ),
    rule(
        "where-not",
        _cond.ne(True).where(_a, _b),
        lambda cond, a, b: None if _invalid(b) else cond.where(b, a),
    ),
    rule(
        "where-nested-true",
        _cond.where(_cond.where(_a, UPat()), _b),
        lambda cond, a, b: cond.where(a, b),
    ),
    rule(
        "where-nested-false",
        _cond.where(_a, _cond.where(UPat(), _b)),
        lambda cond, a, b: cond.where(a, b),
    ),
]

rules = [
    rule(
        "where-and",
        UPat.var("outer", dtypes.bool).where(_cond.where(_a, _b), _b),
        lambda outer, cond, a, b: (outer & cond).where(a, b),
    ),
    rule(
        "where-disjoint",
        _cond.where(_a, 0) + _cond.where(0, _b),
        lambda cond, a, b: cond.where(a, b),
    ),
    rule(
        "where-same-condition",
        UPat(_MERGED_OPS, src=(_cond.where(_a, _b), _cond.where(_c, _d)), name="op"),
        merge_same_condition,
        domain=ALL,
    ),
    rule(
        "where-same-condition-in-sum",
        (UPat.var("x") + _cond.where(_a, _b)) + _cond.where(_c, _d),
        merge_same_condition_in_sum,
    ),
]

late_rules = [
    rule(
        "cast-into-where",
        UPat(Ops.CAST, src=(_cond.where(_a, _b),), name="cast"),
        push_cast_into_branches,
    ),
]
