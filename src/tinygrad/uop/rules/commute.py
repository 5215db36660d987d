"""The order of operands."""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INDEX, is_const, rule
from tinygrad.uop.rules.order import comes_before


def canon_operand_order(x: UOp) -> UOp | None:
    """Operands of commutative index arithmetic in structural order; constants sort last."""
    a, b = x.src
    return x.replace(src=(b, a)) if comes_before(b, a) else None


def canon_constant_right(x: UOp) -> UOp | None:
    """`c + x -> x + c` for all dtypes."""
    a, b = x.src
    return x.replace(src=(b, a)) if is_const(a) and not is_const(b) else None


_COMMUTATIVE = tuple(GroupOp.Commutative)

rules = [
    rule(
        "order-operands",
        UPat(_COMMUTATIVE, dtype=dtypes.index, name="x"),
        canon_operand_order,
        domain=INDEX,
    ),
]

constant_rules = [
    rule(
        "constant-right",
        UPat(_COMMUTATIVE, src=(UPat((Ops.CONST, Ops.VCONST)), UPat()), name="x"),
        canon_constant_right,
    ),
]
