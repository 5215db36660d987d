"""Index expressions with missing elements: `cond.where(idx, Invalid)`.

`Invalid` says that there is no element. Arithmetic moves inside the choice, choices merge into one,
and comparisons drop it, because no bool is invalid and an element that is missing is never looked
at. These rules stand before the arithmetic ones: `Invalid * 0` is Invalid, not 0.
"""

from __future__ import annotations

from tinygrad.dtype import Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INDEX, rule

_BINARY_INDEX_OPS = tuple(GroupOp.Binary - GroupOp.Comparison)

_missing = UPat(Ops.CONST, dtype=dtypes.index, arg=Invalid, name="missing")
_gated = UPat(Ops.WHERE, dtype=dtypes.index, src=(UPat.var("cond"), UPat.var("x"), _missing))
_other = UPat.var("y")


def push_operation_inside_left(op: UOp, cond: UOp, x: UOp, y: UOp, missing: UOp) -> UOp:
    """`where(c, x, Invalid) + y -> where(c, x + y, Invalid)`."""
    return cond.where(x.alu(op.op, y), missing)


def push_operation_inside_right(op: UOp, cond: UOp, x: UOp, y: UOp, missing: UOp) -> UOp:
    """`y + where(c, x, Invalid) -> where(c, y + x, Invalid)`."""
    return cond.where(y.alu(op.op, x), missing)


def merge_choices(outer: UOp, cond: UOp, x: UOp, missing: UOp) -> UOp:
    """`where(a, where(b, x, Invalid), Invalid) -> where(a & b, x, Invalid)`."""
    return (outer & cond).where(x, missing)


def fold_invalid_comparison(op: UOp) -> UOp:
    """A comparison with a missing element; any bool will do."""
    return op.const_like(False)


def compare_inside_left(op: UOp, x: UOp, y: UOp) -> UOp:
    """`where(c, x, Invalid) < y -> x < y`."""
    return x.alu(op.op, y)


def compare_inside_right(op: UOp, x: UOp, y: UOp) -> UOp:
    """`y < where(c, x, Invalid) -> y < x`."""
    return y.alu(op.op, x)


_drops = "a comparison of a missing element may be any bool"

rules = [
    # where(c, x, Invalid) op y
    rule(
        "invalid-operation-left",
        UPat(_BINARY_INDEX_OPS, dtype=dtypes.index, src=(_gated, _other), name="op"),
        push_operation_inside_left,
        domain=INDEX,
    ),
    rule(
        "invalid-operation-right",
        UPat(_BINARY_INDEX_OPS, dtype=dtypes.index, src=(_other, _gated), name="op"),
        push_operation_inside_right,
        domain=INDEX,
    ),
    # Invalid op y
    rule(
        "invalid-absorbs-left",
        UPat(_BINARY_INDEX_OPS, dtype=dtypes.index, src=(_missing, UPat())),
        lambda missing: missing,
        domain=INDEX,
    ),
    rule(
        "invalid-absorbs-right",
        UPat(_BINARY_INDEX_OPS, dtype=dtypes.index, src=(UPat(), _missing)),
        lambda missing: missing,
        domain=INDEX,
    ),
    # comparisons
    rule(
        "invalid-comparison-left",
        UPat(tuple(GroupOp.Comparison), src=(_gated, _other), name="op"),
        compare_inside_left,
        domain=INDEX,
        unsafe=_drops,
    ),
    rule(
        "invalid-comparison-right",
        UPat(tuple(GroupOp.Comparison), src=(_other, _gated), name="op"),
        compare_inside_right,
        domain=INDEX,
        unsafe=_drops,
    ),
    rule(
        "invalid-comparison-const-left",
        UPat(tuple(GroupOp.Comparison), src=(_missing, UPat()), name="op"),
        fold_invalid_comparison,
        domain=INDEX,
        unsafe=_drops,
    ),
    rule(
        "invalid-comparison-const-right",
        UPat(tuple(GroupOp.Comparison), src=(UPat(), _missing), name="op"),
        fold_invalid_comparison,
        domain=INDEX,
        unsafe=_drops,
    ),
    # choices of choices
    rule(
        "invalid-merge-conditions",
        UPat.var("outer", dtypes.bool).where(_gated, UPat(Ops.CONST, arg=Invalid)),
        merge_choices,
        domain=INDEX,
    ),
    rule(
        "invalid-canon-else",
        UPat.var("cond", dtypes.bool).where(_missing, UPat.var("x", dtypes.index)),
        lambda cond, x, missing: (
            None if x.op is Ops.CONST and x.arg is Invalid else cond.logical_not().where(x, missing)
        ),
        domain=INDEX,
    ),
]
