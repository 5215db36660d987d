"""Expressions that are numbers: constant operands, or bounds that leave one value."""

from __future__ import annotations

from tinygrad.dtype import Invalid
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import ALL, FOLDABLE, INTS, fold_alu, is_const, is_integral, rule


def fold_constant_operands(a: UOp) -> UOp | None:
    """`op(c, ...)` evaluated."""
    if not all(is_const(s) for s in a.src):
        return None
    return fold_alu(a.op, a.dtype, *a.src)


def fold_single_value(a: UOp) -> UOp | None:
    """An integer or bool expression whose bounds meet. Floats are left alone: bounds say nothing
    about NaN."""
    if a.dtype.vcount != 1 or not is_integral(a.dtype):
        return None
    if a.op is Ops.WHERE and any(s.op is Ops.CONST and s.arg is Invalid for s in a.src[1:]):
        # a missing element is not the number that the other branch holds
        return None
    if a.op in (Ops.IDIV, Ops.MOD) and a.src[1].vmin <= 0 <= a.src[1].vmax:
        return None
    low = a.vmin
    return a.const_like(low) if low == a.vmax else None


operand_rules = [
    rule("constant-operands", UPat(tuple(FOLDABLE), name="a"), fold_constant_operands, domain=ALL),
]

bounds_rules = [
    rule(
        "single-value",
        UPat((*FOLDABLE, Ops.DEFINE_VAR), name="a"),
        fold_single_value,
        domain=INTS,
    ),
]
