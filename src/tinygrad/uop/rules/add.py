"""Rules rooted at ADD. Sums of integers collect like terms and carry their constant last."""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INDEX, INTS, fold_alu, is_integer, is_integral, rule
from tinygrad.uop.rules.linear import Linear, scaled_part, summands

# sums longer than this are not searched for like terms, so that a chain of n costs n, not n * n
LONGEST_SUM = 32

_x, _y = UPat.var("x"), UPat.var("y")
_c, _c1, _c2 = UPat.cvar("c"), UPat.cvar("c1"), UPat.cvar("c2")


def fold_two_constants(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`(x + c1) + c2 -> x + (c1 + c2)`; float sums keep their order."""
    if not is_integral(x.dtype):
        return None
    return x + fold_alu(Ops.ADD, c1.dtype, c1, c2)


def canon_constant_last(x: UOp, y: UOp, c: UOp) -> UOp | None:
    """`(x + c) + y -> (x + y) + c`."""
    if not is_integer(x.dtype) or y.op in (Ops.CONST, Ops.VCONST):
        return None
    return (x + y) + c


def fold_double(x: UOp) -> UOp | None:
    """`x + x -> x * 2`, exact in floats too."""
    return None if x.dtype.scalar() is dtypes.bool else x * 2


def fold_term_and_multiple(x: UOp, c: UOp) -> UOp | None:
    """`x * c + x -> x * (c + 1)`."""
    if not is_integer(x.dtype):
        return None
    return x * fold_alu(Ops.ADD, c.dtype, c, c.const_like(1))


def fold_two_multiples(x: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`x * c1 + x * c2 -> x * (c1 + c2)`."""
    if not is_integer(x.dtype):
        return None
    return x * fold_alu(Ops.ADD, c1.dtype, c1, c2)


def fold_multiple_of_sum(x: UOp, y: UOp, c: UOp) -> UOp | None:
    """`(y + x * c) + x -> y + x * (c + 1)`."""
    if not is_integer(x.dtype):
        return None
    return y + x * fold_alu(Ops.ADD, c.dtype, c, c.const_like(1))


def fold_far_multiples(x: UOp, y: UOp, c1: UOp, c2: UOp) -> UOp | None:
    """`(y + x * c1) + x * c2 -> y + x * (c1 + c2)`."""
    if not is_integer(x.dtype):
        return None
    return y + x * fold_alu(Ops.ADD, c1.dtype, c1, c2)


def fold_far_double(x: UOp, y: UOp) -> UOp | None:
    """`(y + x) + x -> y + x * 2`."""
    return y + x * 2 if is_integer(x.dtype) else None


def _matches_remainder(quotient: UOp, remainder: UOp) -> bool:
    """True when `quotient == remainder.src[0] // remainder.src[1]`, both divisors numbers."""
    if quotient.op is not Ops.IDIV or quotient.src[1].op is not Ops.CONST:
        return False
    x, m = remainder.src[0], remainder.src[1].arg
    if quotient.src[0] is x and quotient.src[1].arg == m:
        return True
    # (x // a) // m is written x // (a * m)
    return (
        x.op is Ops.IDIV
        and x.src[1].op is Ops.CONST
        and quotient.src[0] is x.src[0]
        and quotient.src[1].arg == x.src[1].arg * m
    )


def recombine_remainder(terms: dict[UOp, int]) -> bool:
    """`(x % m) * f + (x // m) * (m*f) -> x * f` inside `terms`; True when something was found."""
    for remainder, factor in terms.items():
        if remainder.op is not Ops.MOD or remainder.src[1].op is not Ops.CONST:
            continue
        needed = remainder.src[1].arg * factor
        for quotient, other in terms.items():
            if other == needed and _matches_remainder(quotient, remainder):
                del terms[quotient], terms[remainder]
                x = remainder.src[0]
                for part in summands(x):
                    node, inner = scaled_part(part)
                    terms[node] = terms.get(node, 0) + inner * factor
                return True
    return False


def restore_remainder(terms: dict[UOp, int]) -> bool:
    """`x * f - (x // m) * (m*f) -> (x % m) * f` inside `terms`; True when something was found."""
    for quotient, factor in terms.items():
        if quotient.op is not Ops.IDIV or quotient.src[1].op is not Ops.CONST:
            continue
        x, m = quotient.src[0], quotient.src[1].arg
        if terms.get(x, 0) != 0 and terms[x] * m == -factor:
            remainder = x % m
            terms[remainder] = terms.get(remainder, 0) + terms.pop(x)
            del terms[quotient]
            return True
    return False


# summands that may hide a like term or a quotient
_COMPOSED = (Ops.ADD, Ops.MUL, Ops.IDIV, Ops.MOD)


def simplify_index_sum(total: UOp) -> UOp | None:
    """Collects like terms and quotient-remainder pairs anywhere in an index sum."""
    if not any(s.op in _COMPOSED for s in total.src):
        return None
    parts = summands(total, LONGEST_SUM)
    if len(parts) >= LONGEST_SUM:
        return None
    terms: dict[UOp, int] = {}
    repeated = has_remainder = has_quotient = False
    for part in parts:
        if part.op is Ops.CONST:
            continue
        node, factor = scaled_part(part)
        has_remainder = has_remainder or node.op is Ops.MOD
        has_quotient = has_quotient or node.op is Ops.IDIV
        repeated = repeated or node in terms
        terms[node] = terms.get(node, 0) + factor
    if not repeated and not has_quotient:
        return None
    changed = repeated
    while (has_remainder and recombine_remainder(terms)) or restore_remainder(terms):
        changed = True
    if not changed:
        return None
    const = sum(part.arg for part in parts if part.op is Ops.CONST)
    kept = {}
    for node, factor in terms.items():
        if factor == 0:
            continue
        if node.op is Ops.CONST:
            const += node.arg * factor
        else:
            kept[node] = factor
    return Linear(total, kept, const).build()


identity_rules = [
    rule("add-zero", _x + 0, lambda x: x),
]

rules = [
    rule("add-same", _x + _x, fold_double),
    rule("add-multiple-and-term", _x * _c + _x, fold_term_and_multiple, domain=INTS),
    rule("add-multiples", _x * _c1 + _x * _c2, fold_two_multiples, domain=INTS),
    rule("add-far-same", (_y + _x) + _x, fold_far_double, domain=INTS),
    rule("add-far-multiple-and-term", (_y + _x * _c) + _x, fold_multiple_of_sum, domain=INTS),
    rule("add-far-term-and-multiple", (_y + _x) + _x * _c, fold_multiple_of_sum, domain=INTS),
    rule("add-far-multiples", (_y + _x * _c1) + _x * _c2, fold_far_multiples, domain=INTS),
    rule("add-constants", (_x + _c1) + _c2, fold_two_constants, domain=INTS),
    rule("add-constant-last", (_x + _c) + _y, canon_constant_last, domain=INTS),
    rule(
        "add-index-sum",
        UPat(Ops.ADD, dtype=dtypes.index, name="total"),
        simplify_index_sum,
        domain=INDEX,
    ),
]
