"""Rules rooted at the remaining unary ops."""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UPat
from tinygrad.uop.rules.base import FLOATS, INTS, NUMBERS, rule

_x = UPat.var("x")

identity_rules = [
    rule(
        "trunc-integer",
        UPat(Ops.TRUNC, src=(UPat.var("x", (*dtypes.ints, dtypes.bool)),)),
        lambda x: x,
        domain=INTS,
    ),
    rule(
        "trunc-trunc", UPat(Ops.TRUNC, src=(UPat(Ops.TRUNC, name="x"),)), lambda x: x, domain=FLOATS
    ),
    rule("neg-neg", UPat(Ops.NEG, src=(UPat(Ops.NEG, src=(_x,)),)), lambda x: x, domain=NUMBERS),
    rule(
        "reciprocal-reciprocal",
        UPat(Ops.RECIPROCAL, src=(UPat(Ops.RECIPROCAL, src=(_x,)),)),
        lambda x: x,
        domain=FLOATS,
        unsafe="1/x rounds, and overflows for a subnormal x",
    ),
]
