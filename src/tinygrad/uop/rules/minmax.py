"""Rules rooted at MAX."""

from __future__ import annotations

from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INTS, fold_alu, is_integral, rule

_x, _y = UPat.var("x"), UPat.var("y")
_c1, _c2 = UPat.cvar("c1"), UPat.cvar("c2")


def fold_larger(x: UOp, y: UOp) -> UOp | None:
    """The operand that is never below the other one. Not for floats: bounds ignore NaN."""
    if x.dtype.vcount != 1 or not is_integral(x.dtype):
        return None
    if x.vmin >= y.vmax:
        return x
    return y if y.vmin >= x.vmax else None


identity_rules = [
    rule("max-self", UPat(Ops.MAX, src=(_x, _x)), lambda x: x),
]

rules = [
    rule("max-bounds", UPat(Ops.MAX, src=(_x, _y)), fold_larger, domain=INTS),
    rule(
        "max-constants",
        _x.maximum(_c1).maximum(_c2),
        lambda x, c1, c2: x.maximum(fold_alu(Ops.MAX, c1.dtype, c1, c2)),
    ),
]
