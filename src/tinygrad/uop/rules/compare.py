"""Rules rooted at CMPLT and CMPNE.

`x >= c` is written `(x < c) != True`. Limits of index expressions are brought to `x < c` with the
smallest left side: constants move right, common factors cancel, summands that never decide vanish.
"""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.add import simplify_index_sum
from tinygrad.uop.rules.base import BOOL, INDEX, INTS, fold_alu, is_const, is_integral, rule
from tinygrad.uop.rules.linear import Linear, scaled_part, summands

_x, _y = UPat.var("x"), UPat.var("y")
_index, _index_y = UPat.var("x", dtypes.index), UPat.var("y", dtypes.index)
_c1, _c2 = UPat.cvar("c1", vec=False), UPat.cvar("c2", vec=False)
_bool = UPat.var("x", dtypes.bool)


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up."""
    return -(-a // b)


def fold_same_operands(op: UOp, x: UOp) -> UOp | None:
    """`x < x` and `x != x` are False; a float may be NaN, for which `!=` is True."""
    if op.op is Ops.CMPNE and not is_integral(x.dtype):
        return None
    return op.const_like(False)


def canon_limit_of_multiple(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`x * c1 < c2`: divides by `abs(c1)`, rounding the limit up."""
    factor, limit = c1.arg, c2.arg
    if factor > 1:
        return x < ceil_div(limit, factor)
    if factor < -1:
        return x * -1 < ceil_div(limit, -factor)
    return None


def canon_lower_limit_of_multiple(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`c2 < x * c1`: divides by a positive `c1`, rounding the limit down."""
    if c1.arg <= 1:
        return None
    return x.const_like(c2.arg // c1.arg) < x


def canon_limit_of_quotient(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`x // c1 < c2` as a limit of `x`: the quotient rounds toward zero, so the smallest `x` that
    is too large is `c2 * c1` for a positive limit and `(c2 - 1) * c1 + 1` otherwise."""
    divisor, limit = c1.arg, c2.arg
    if divisor <= 0:
        return None
    return x < (limit * divisor if limit > 0 else (limit - 1) * divisor + 1)


def canon_limit_of_digit(x: UOp, c1: UOp, m: UOp, c2: UOp) -> UOp | None:
    """`(x // c1) % m < c2 -> x % (c1*m) < c2*c1`: the digit is the quotient of the remainder."""
    if c1.arg <= 0 or m.arg <= 0 or c2.arg <= 0:
        return None
    return x % (c1.arg * m.arg) < c2.arg * c1.arg


def simplify_limit_of_sum(x: UOp, c1: UOp) -> UOp | None:
    """`g*p + r < c -> p < k` for the largest `g` for which all values of `r` lead to one limit
    `k = ceil((c - r) / g)`. A common factor of all summands only cancels against `c`."""
    if x.op is not Ops.ADD or summands(x)[-1].op is Ops.CONST:
        return None
    total = Linear.of(x)
    limit = c1.arg
    common = math.gcd(total.factor_gcd(), limit)
    sizes = {abs(f) for f in total.terms.values()}
    candidates = sizes | {math.gcd(a, b) for a in sizes for b in sizes} | {common}
    for g in sorted(candidates, reverse=True):
        if g <= 1:
            return None
        kept, rest = total.split_by(g)
        if not kept.terms or (len(kept.terms) == len(total.terms) and g != common):
            continue
        low, high = rest.bounds()
        threshold = ceil_div(limit - high, g)
        if ceil_div(limit - low, g) == threshold:
            return kept.build() < threshold
    return None


def fold_difference_with_quotient(op: UOp, x: UOp, y: UOp) -> UOp | None:
    """`x < y` decided by `x - y`, where that brings a quotient and its dividend together."""
    if is_const(x) or is_const(y):
        return None
    parts = [scaled_part(part)[0] for side in (x, y) for part in summands(side)]
    if not any(part.op is Ops.IDIV for part in parts):
        return None
    difference = simplify_index_sum(x + negated_sum(y))
    if difference is None:
        return None
    if difference.vmax < 0:
        return op.const_like(True)
    return op.const_like(False) if difference.vmin >= 0 else None


def negated_sum(u: UOp) -> UOp:
    """`-u` with the sign on every summand."""
    return Linear.of(u).map(lambda f: -f, lambda c: -c).build()


def simplify_all_zero(x: UOp) -> UOp | None:
    """`(a*3 + b*4 < 1) != True -> (a + b < 1) != True`: a sum of non-negative multiples is below
    one exactly when every summand is zero, and coefficients do not matter then."""
    parts = [scaled_part(part) for part in summands(x)]
    if any(node.op is Ops.CONST or factor < 0 or node.vmin < 0 for node, factor in parts):
        return None
    if all(factor == 1 for _, factor in parts):
        return None
    nodes = [node for node, _ in parts]
    return (nodes[0].sum(*nodes[1:]) < 1).ne(True)


def fold_compared_choice(op: UOp, cond: UOp, a: UOp, b: UOp, c: UOp) -> UOp | None:
    """`where(cond, c1, c2) < c3` is a constant, `cond` or its complement."""
    when_true = fold_alu(op.op, dtypes.bool, a, c)
    when_false = fold_alu(op.op, dtypes.bool, b, c)
    if when_true.arg == when_false.arg:
        return op.const_like(when_true.arg)
    return cond if when_true.arg else cond.logical_not()


def fold_compared_bool(op: UOp, cond: UOp, c: UOp) -> UOp | None:
    """`int(cond) < c` for a constant `c`."""
    number = op.src[0].dtype
    if number.vcount != 1:
        return None
    one, zero = UOp.const(number, 1), UOp.const(number, 0)
    return fold_compared_choice(op, cond, one, zero, c)


def canon_offset_of_inequality(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`x + c1 != c2 -> x != c2 - c1`, with wrap."""
    if not is_integral(x.dtype) or x.dtype.scalar() is dtypes.bool:
        return None
    negated = fold_alu(Ops.MUL, c1.dtype, c1, c1.const_like(-1))
    return x.ne(fold_alu(Ops.ADD, c2.dtype, c2, negated))


def canon_constant_right(op: UOp, c: UOp, x: UOp) -> UOp | None:
    """`c != x -> x != c`."""
    return None if is_const(x) else x.alu(op.op, c)


_COMPARISONS = (Ops.CMPLT, Ops.CMPNE)

identity_rules = [
    rule("compare-self", UPat(_COMPARISONS, src=(_x, _x), name="op"), fold_same_operands),
    rule("not-not", _bool.ne(True).ne(True), lambda x: x, domain=BOOL),
    rule("ne-false", _bool.ne(False), lambda x: x, domain=BOOL),
    rule("lt-true", _bool < True, lambda x: x.ne(True), domain=BOOL),
    rule("false-lt", UPat.const(dtypes.bool, False) < _bool, lambda x: x, domain=BOOL),
    rule(
        "compare-choice",
        UPat(
            _COMPARISONS,
            src=(
                UPat.var("cond", dtypes.bool).where(
                    UPat.cvar("a", vec=False), UPat.cvar("b", vec=False)
                ),
                UPat.cvar("c", vec=False),
            ),
            name="op",
        ),
        fold_compared_choice,
    ),
    rule(
        "compare-cast-bool",
        UPat(
            _COMPARISONS,
            src=(UPat(Ops.CAST, src=(UPat.var("cond", dtypes.bool),)), UPat.cvar("c", vec=False)),
            name="op",
        ),
        fold_compared_bool,
    ),
]

rules = [
    rule(
        "lt-offset",
        (_index + _c1) < _c2,
        lambda x, c1, c2: x < c2.arg - c1.arg,
        domain=INDEX,
    ),
    rule(
        "gt-offset",
        _c2 < (_index + _c1),
        lambda x, c1, c2: x.const_like(c2.arg - c1.arg) < x,
        domain=INDEX,
    ),
    rule("lt-multiple", _index * _c1 < _c2, canon_limit_of_multiple, domain=INDEX),
    rule("gt-multiple", _c2 < _index * _c1, canon_lower_limit_of_multiple, domain=INDEX),
    rule("lt-quotient", _index // _c1 < _c2, canon_limit_of_quotient, domain=INDEX),
    rule(
        "lt-digit",
        (_index // _c1) % UPat.cvar("m", vec=False) < _c2,
        canon_limit_of_digit,
        domain=INDEX,
    ),
    rule("lt-negated", _index * -1 < _index_y * -1, lambda x, y: y < x, domain=INDEX),
    rule(
        "lt-quotient-difference",
        UPat(Ops.CMPLT, src=(_index, _index_y), name="op"),
        fold_difference_with_quotient,
        domain=INDEX,
    ),
    rule("lt-sum", _index < _c1, simplify_limit_of_sum, domain=INDEX),
    rule("ge-one-sum", (_index < 1).ne(True), simplify_all_zero, domain=INDEX),
    rule("ne-offset", (_x + _c1).ne(_c2), canon_offset_of_inequality, domain=INTS),
]
