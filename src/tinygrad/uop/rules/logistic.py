"""Rules for `x / (1 + x)`: as `1 / (1 + 1 / x)` it stays finite where `x` overflows.

They appear in the logistic function and its slope: with `x = exp(t)` infinite, `x * (1 / (1 + x))` is
infinity times zero. True for finite `x`, the limit for infinite ones; `1 - 1 / (1 + x)` would be
cheaper, but loses all digits of a small `x`.
"""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import FLOATS, rule

_x, _y, _c = UPat.var("x", dtypes.floats), UPat.var("y"), UPat.cvar("c")
_part = (_x + 1).reciprocal()
_LIMIT = "infinite x gives the limit instead of NaN, subnormal factors keep their digits"


def logistic(x: UOp) -> UOp:
    """`1 / (1 + 1 / x)`."""
    return (x.reciprocal() + 1).reciprocal()


rules = [
    rule("logistic", _x * _part, logistic, domain=FLOATS, unsafe=_LIMIT),
    rule(
        "logistic-scaled",
        _x * (_part * _y),
        lambda x, y: y * logistic(x),
        domain=FLOATS,
        unsafe=_LIMIT,
    ),
    rule(
        "logistic-scaled-constant",
        _x * ((_part * _y) * _c),
        lambda x, y, c: y * logistic(x) * c,
        domain=FLOATS,
        unsafe=_LIMIT,
    ),
    rule(
        "logistic-sum",
        _x * (_part + _y),
        lambda x, y: logistic(x) + x * y,
        domain=FLOATS,
        unsafe=_LIMIT,
    ),
]
