"""Rules rooted at AND, OR, XOR, SHL and SHR, of bools and of integers."""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import BITS, BOOL, INDEX, INTS, fold_alu, is_integer, rule

_x, _y = UPat.var("x"), UPat.var("y")
_a, _b = UPat.var("a", dtypes.bool), UPat.var("b", dtypes.bool)
_c1, _c2 = UPat.cvar("c1"), UPat.cvar("c2")
# integers with a width
_fixed = UPat.var("x", tuple(dt for dt in dtypes.ints if dt is not dtypes.index))
_k = UPat.cvar("k", vec=False)
_index = UPat.var("x", dtypes.index)
_k1, _k2 = UPat.cvar("c1", vec=False), UPat.cvar("c2", vec=False)


def fold_empty_interval(both: UOp, low: UOp, high: UOp) -> UOp | None:
    """`(low < x) & (x < high) -> False` with no integer between."""
    return both.const_like(False) if high.arg - low.arg < 2 else None


def fold_two_operands(op: Ops):
    """`(x op c1) op c2 -> x op (c1 op c2)`."""

    def fold(x: UOp, c1: UOp, c2: UOp) -> UOp:
        return x.alu(op, fold_alu(op, c1.dtype, c1, c2))

    return fold


def fold_covering_mask(x: UOp, c: UOp) -> UOp | None:
    """`x & (2**k - 1) -> x` for `0 <= x < 2**k`."""
    is_mask = c.arg > 0 and c.arg & (c.arg + 1) == 0
    return x if is_mask and x.vmin >= 0 and x.vmax <= c.arg else None


def simplify_low_bits(y: UOp, k: UOp, c: UOp) -> UOp | None:
    """`((x << k) | y) & c -> y & c` for a mask of less than `k` bits."""
    return y & c if k.arg >= 0 and 0 <= c.arg < 1 << k.arg else None


def fold_high_bits(x: UOp, y: UOp, k: UOp) -> UOp | None:
    """`((x << k) | y) >> k -> x` where `y` has at most `k` bits and the shift loses none of `x`."""
    if k.arg < 0 or x.vmin < 0 or y.vmin < 0 or y.vmax >= 1 << k.arg:
        return None
    return x if x.vmax << k.arg <= x.dtype.scalar().max else None


def fold_shift_twice(op: Ops):
    """`(x << c1) << c2 -> x << (c1 + c2)` while the amount stays below the width."""

    def fold(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
        if not is_integer(x.dtype) or x.dtype.scalar() is dtypes.index:
            return None
        amount = c1.arg + c2.arg
        if c1.arg < 0 or c2.arg < 0 or amount >= x.dtype.scalar().itemsize * 8:
            return None
        return x.alu(op, c1.const_like(amount))

    return fold


identity_rules = [
    # bools
    rule("and-true", _a & True, lambda a: a, domain=BOOL),
    rule("and-false", _a & False, lambda a: a.const_like(False), domain=BOOL),
    rule("or-true", _a | True, lambda a: a.const_like(True), domain=BOOL),
    rule("or-false", _a | False, lambda a: a, domain=BOOL),
    rule("and-complement", _a & _a.ne(True), lambda a: a.const_like(False), domain=BOOL),
    rule("or-complement", _a | _a.ne(True), lambda a: a.const_like(True), domain=BOOL),
    # integers and bools
    rule("and-self", UPat(Ops.AND, src=(_x, _x)), lambda x: x, domain=BITS),
    rule("or-self", UPat(Ops.OR, src=(_x, _x)), lambda x: x, domain=BITS),
    rule("xor-self", UPat(Ops.XOR, src=(_x, _x)), lambda x: x.const_like(0), domain=BITS),
    rule(
        "and-zero",
        UPat.var("x", dtypes.ints) & UPat.const(None, 0),
        lambda x: x.const_like(0),
        domain=INTS,
    ),
    rule("or-zero", UPat.var("x", dtypes.ints) | UPat.const(None, 0), lambda x: x, domain=INTS),
    rule("xor-zero", _x ^ UPat.const(None, 0), lambda x: x, domain=BITS),
    rule("shift-left-zero", UPat(Ops.SHL, src=(_x, UPat.const(None, 0))), lambda x: x, domain=INTS),
    rule(
        "shift-right-zero", UPat(Ops.SHR, src=(_x, UPat.const(None, 0))), lambda x: x, domain=INTS
    ),
    rule("and-covering-mask", _fixed & UPat.cvar("c", vec=False), fold_covering_mask, domain=INTS),
    rule(
        "and-low-bits",
        ((_fixed << _k) | UPat.var("y")) & UPat.cvar("c", vec=False),
        simplify_low_bits,
        domain=INTS,
    ),
    rule("shift-high-bits", ((_fixed << _k) | UPat.var("y")) >> _k, fold_high_bits, domain=INTS),
]

rules = [
    rule("and-constants", (_x & _c1) & _c2, fold_two_operands(Ops.AND), domain=BITS),
    rule("or-constants", (_x | _c1) | _c2, fold_two_operands(Ops.OR), domain=BITS),
    rule("xor-constants", (_x ^ _c1) ^ _c2, fold_two_operands(Ops.XOR), domain=BITS),
    rule("shift-left-twice", (_x << _k1) << _k2, fold_shift_twice(Ops.SHL), domain=INTS),
    rule("shift-right-twice", (_x >> _k1) >> _k2, fold_shift_twice(Ops.SHR), domain=INTS),
    rule("and-repeated", (_a & _b) & _b, lambda a, b: a & b, domain=BOOL),
    rule("or-repeated", (_a | _b) | _b, lambda a, b: a | b, domain=BOOL),
    rule("and-absorbs-or", _a & (_a | _b), lambda a, b: a, domain=BOOL),
    rule("or-absorbs-and", _a | (_a & _b), lambda a, b: a, domain=BOOL),
    # limits of one index expression
    rule(
        "and-upper-limits",
        (_index < _k1) & (_index < _k2),
        lambda x, c1, c2: x < min(c1.arg, c2.arg),
        domain=INDEX,
    ),
    rule(
        "and-lower-limits",
        (_k1 < _index) & (_k2 < _index),
        lambda x, c1, c2: x.const_like(max(c1.arg, c2.arg)) < x,
        domain=INDEX,
    ),
    rule(
        "or-upper-limits",
        (_index < _k1) | (_index < _k2),
        lambda x, c1, c2: x < max(c1.arg, c2.arg),
        domain=INDEX,
    ),
    rule(
        "and-empty-interval",
        ((UPat.cvar("low", vec=False) < _index) & (_index < UPat.cvar("high", vec=False))).named(
            "both"
        ),
        fold_empty_interval,
        domain=INDEX,
    ),
]
