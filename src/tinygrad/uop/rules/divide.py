"""Rules rooted at IDIV, MOD and RECIPROCAL. The index arithmetic is in `uop/divandmod.py`."""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.helpers import CORRECT_DIVMOD_FOLDING
from tinygrad.uop import Ops
from tinygrad.uop.divandmod import fold_divmod_general
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import FLOATS, INDEX, INTS, is_integer, rule
from tinygrad.uop.rules.mul import is_power_of_two

_x, _y = UPat.var("x"), UPat.var("y")
_c = UPat.cvar("c", vec=False)


def _never_zero(u: UOp) -> bool:
    return u.dtype.vcount == 1 and (u.vmin > 0 or u.vmax < 0)


def fold_self_quotient(x: UOp) -> UOp | None:
    """`x // x -> 1` where `x` is never zero."""
    return x.const_like(1) if _never_zero(x) else None


def fold_self_remainder(x: UOp) -> UOp | None:
    """`x % x -> 0`, also for zero, whose remainder is defined as 0."""
    return x.const_like(0)


def fold_exact_product(x: UOp, y: UOp) -> UOp | None:
    """`(x * y) // y -> x` where the product does not wrap."""
    if not _never_zero(y) or not _fits(x * y):
        return None
    return x


def _fits(u: UOp) -> bool:
    """True when bounds prove that `u` did not wrap."""
    if u.dtype is dtypes.index:
        return True
    return u.vmin > u.dtype.min or u.vmax < u.dtype.max


def merge_quotients(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`(x // c1) // c2 -> x // (c1 * c2)` for fixed width integers."""
    if not is_integer(x.dtype) or c1.arg <= 0 or c2.arg <= 0:
        return None
    product = c1.arg * c2.arg
    if x.dtype.scalar() is dtypes.index or product <= x.dtype.scalar().max:
        return x // product
    # the most negative number may have the size of the product
    return x.const_like(0) if x.vmin > -product else None


def fold_scaled_reciprocal(x: UOp, c: UOp) -> UOp | None:
    """`1 / (x * c) -> (1 / x) * (1 / c)` for a power of two."""
    value = float(c.arg)
    if not is_power_of_two(value) or not math.isfinite(1.0 / value):
        return None
    return x.reciprocal() * (1.0 / value)


def simplify_index_division(d: UOp) -> UOp | None:
    """Everything that `fold_divmod_general` knows."""
    return fold_divmod_general(d, bool(CORRECT_DIVMOD_FOLDING))


identity_rules = [
    rule("div-one", _x // 1, lambda x: x, domain=INTS),
    rule("mod-one", _x % 1, lambda x: x.const_like(0), domain=INTS),
    rule(
        "div-minus-one",
        UPat.var("x", (*dtypes.sints, dtypes.index)) // -1,
        lambda x: x * -1,
        domain=INTS,
    ),
    rule("div-self", _x // _x, fold_self_quotient, domain=INTS),
    rule("mod-self", _x % _x, fold_self_remainder, domain=INTS),
    rule("div-product", (_x * _y) // _y, fold_exact_product, domain=INTS),
    rule("mod-mod-same", (_x % _y) % _y, lambda x, y: x % y, domain=INTS),
]

rules = [
    rule(
        "div-mod-index",
        UPat((Ops.IDIV, Ops.MOD), dtype=dtypes.index, name="d"),
        simplify_index_division,
        domain=INDEX,
    ),
    rule(
        "div-div",
        (_x // UPat.cvar("c1", vec=False)) // UPat.cvar("c2", vec=False),
        merge_quotients,
        domain=INTS,
    ),
    rule(
        "reciprocal-scaled",
        UPat(Ops.RECIPROCAL, src=(UPat.var("x", dtypes.floats) * _c,)),
        fold_scaled_reciprocal,
        domain=FLOATS,
        unsafe="over- and underflow of the product",
    ),
]
