"""Rules rooted at POW with a constant operand."""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import FLOATS, rule

# beyond it the general function is as accurate as the chain of products
LARGEST_WHOLE_EXPONENT = 64


def _whole_power(x: UOp, n: int) -> UOp:
    """`x**n` for `n >= 0` from squares, the fewest that binary digits give."""
    result = None
    square = x
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        if n:
            square = square * square
    return x.const_like(1) if result is None else result


def fold_constant_exponent(x: UOp, c: UOp) -> UOp | None:
    """`x ** c` for whole and half-whole `c` as products, a square root and a reciprocal."""
    exponent = float(c.arg)
    if not math.isfinite(exponent) or abs(exponent) > LARGEST_WHOLE_EXPONENT:
        return None
    size = abs(exponent)
    whole = int(size)
    if size == whole:
        power = _whole_power(x, whole)
        return power.reciprocal() if exponent < 0 else power
    if size - whole != 0.5:
        return None
    # drop-in: the reciprocal stands below the root
    base = x.reciprocal() if exponent < 0 else x
    root = base.sqrt()
    return root if whole == 0 else _whole_power(base, whole) * root


def fold_constant_base(x: UOp, c: UOp) -> UOp | None:
    """`c ** x -> 2 ** (x * log2(c))` for a positive `c`."""
    base = float(c.arg)
    if base == 1.0:
        return x.const_like(1.0)
    if not 0.0 < base < math.inf:
        return None
    return x.exp2() if base == 2.0 else (x * math.log2(base)).exp2()


_float = UPat.var("x", dtypes.floats)
_c = UPat.cvar("c", vec=False)

identity_rules = [
    rule(
        "pow-constant-exponent",
        UPat(Ops.POW, src=(_float, _c)),
        fold_constant_exponent,
        domain=FLOATS,
        unsafe="rounds after every product; -inf ** 0.5 is NaN",
    ),
    rule(
        "pow-constant-base",
        UPat(Ops.POW, src=(_c, _float)),
        fold_constant_base,
        domain=FLOATS,
        unsafe="rounds the exponent; log2 of the base is rounded",
    ),
]
