"""Rules rooted at MUL. Integer products carry their constant last and outermost; a
constant is spread over an index sum."""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import BITS, BOOL, INDEX, INTS, fold_alu, is_integer, rule
from tinygrad.uop.rules.linear import ordered_product

_x, _y = UPat.var("x"), UPat.var("y")
_EXACT = (*dtypes.ints, dtypes.index, dtypes.bool)
_c, _c1, _c2 = UPat.cvar("c"), UPat.cvar("c1"), UPat.cvar("c2")


def is_power_of_two(value: float) -> bool:
    """True for a float `2**k` of either sign: multiplying by it does not round."""
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


def _exact_factor(c: UOp) -> bool:
    return is_integer(c.dtype) or (c.op is Ops.CONST and is_power_of_two(float(c.arg)))


def fold_two_factors(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`(x * c1) * c2 -> x * (c1 * c2)`; of floats only powers of two."""
    if x.dtype.scalar() is dtypes.bool or not (_exact_factor(c1) and _exact_factor(c2)):
        return None
    return x * fold_alu(Ops.MUL, c1.dtype, c1, c2)


def canon_factor_last(x: UOp, y: UOp, c: UOp) -> UOp | None:
    """`(x * c) * y -> (x * y) * c`."""
    if not is_integer(x.dtype) or y.op in (Ops.CONST, Ops.VCONST):
        return None
    return (x * y) * c


def simplify_scaled_offset(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`(x + c1) * c2 -> x * c2 + c1 * c2`."""
    if not is_integer(x.dtype):
        return None
    return x * c2 + fold_alu(Ops.MUL, c1.dtype, c1, c2)


def canon_factor_order(product: UOp) -> UOp | None:
    """Products of three and more factors in structural order."""
    ordered = ordered_product(product)
    return None if ordered is product else ordered


identity_rules = [
    rule("mul-one", _x * 1, lambda x: x),
    # a float may be NaN or infinite, and then the product is NaN
    rule("mul-zero", UPat.var("x", _EXACT) * 0, lambda x: x.const_like(0), domain=BITS),
    rule(
        "mul-bool",
        UPat(Ops.MUL, dtype=dtypes.bool, src=(_x, _y)),
        lambda x, y: x & y,
        domain=BOOL,
    ),
]

rules = [
    rule("mul-constants", (_x * _c1) * _c2, fold_two_factors, unsafe="over- and underflow"),
    rule("mul-constant-last", (_x * _c) * _y, canon_factor_last, domain=INTS),
    rule("mul-offset", (_x + _c1) * _c2, simplify_scaled_offset, domain=INTS),
    rule(
        "mul-spread-constant",
        (UPat.var("x", dtypes.index) + _y) * UPat.cvar("c", vec=False),
        lambda x, y, c: x * c + y * c,
        domain=INDEX,
    ),
    rule(
        "mul-factor-order",
        UPat(Ops.MUL, dtype=dtypes.index, src=[UPat(Ops.MUL), UPat()], name="product"),
        canon_factor_order,
        domain=INDEX,
    ),
]
