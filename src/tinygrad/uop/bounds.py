"""The least and greatest value a node can have, by interval arithmetic.

`compute_bounds(u)` gives `(min, max)` from the bounds of the sources. Contract: every value that the
node can take lies between them, both included (a NaN lies nowhere and is not covered). Fixed-width
integers wrap: when a result may leave the dtype's range, the answer is the dtype's full range.
`dtypes.index` is unbounded. For a vector the bounds hold for every lane.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from tinygrad._core import UOp
from tinygrad.dtype import DType, Invalid, PtrDType, dtypes, truncate
from tinygrad.helpers import cdiv
from tinygrad.uop import GroupOp, Ops

# an int, float or bool, as the dtype has it
Number: TypeAlias = Any
Interval: TypeAlias = tuple[Number, Number]


@functools.cache
def full_range(dtype: DType) -> Interval:
    """All values of the dtype."""
    scalar = dtype.scalar()
    return (dtypes.min(scalar), dtypes.max(scalar))


def _has_nan(*values: Number) -> bool:
    return any(value != value for value in values)


def _corners(f: Callable, a: Interval, b: Interval) -> Interval | None:
    """Bounds of a function that is monotone in each operand; None where it is not a number."""
    values = [f(x, y) for x in a for y in b]
    return None if _has_nan(*values) else (min(values), max(values))


def _rounded(low: float, high: float, scalar: DType) -> Interval:
    """Rounding is monotone, so the rounded ends bound the rounded values; an infinite end is NaN in a
    type without infinities."""
    ends = truncate[scalar](low), truncate[scalar](high)
    return full_range(scalar) if _has_nan(*ends) else ends


def _fit(bounds: Interval | None, dtype: DType) -> Interval:
    """Exact bounds as bounds of the computed value: wrapped integers, rounded floats."""
    scalar = dtype.scalar()
    everything = full_range(scalar)
    if bounds is None:
        return everything
    low, high = bounds
    if dtypes.is_float(scalar):
        return everything if _has_nan(low, high) else _rounded(low, high, scalar)
    if scalar is dtypes.bool:
        return (bool(low), bool(high))
    return bounds if everything[0] <= low and high <= everything[1] else everything


# ---- one function per op: bounds of the operands -> exact bounds, or None for "anything"


def _quotient(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0 <= b[1]:
        return None
    return _corners(cdiv, a, b)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0 <= b[1]:
        return None
    if b[0] == b[1] and (a[0] >= 0 or a[1] <= 0) and cdiv(a[0], b[0]) == cdiv(a[1], b[0]):
        # the quotient is the same everywhere, so the remainder follows the dividend
        shift = cdiv(a[0], b[0]) * b[0]
        return (a[0] - shift, a[1] - shift)
    largest = max(abs(b[0]), abs(b[1])) - 1
    low = 0 if a[0] >= 0 else max(a[0], -largest)
    high = 0 if a[1] <= 0 else min(a[1], largest)
    return (low, high)


def _conjunction(a: Interval, b: Interval) -> Interval | None:
    if a[0] >= 0 and b[0] >= 0:
        return (0, min(a[1], b[1]))
    # one operand that is not negative clears the sign
    for positive in (a, b):
        if positive[0] >= 0:
            return (0, positive[1])
    return None


def _disjunction(a: Interval, b: Interval) -> Interval | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return (max(a[0], b[0]), (1 << max(a[1].bit_length(), b[1].bit_length())) - 1)


def _exclusive(a: Interval, b: Interval) -> Interval | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return (0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1)


_LARGEST_SHIFT = 1024


def _shifted_left(a: Interval, b: Interval) -> Interval | None:
    if b[0] < 0 or b[1] > _LARGEST_SHIFT:
        return None
    return _corners(lambda x, y: x << y, a, b)


def _shifted_right(a: Interval, b: Interval) -> Interval | None:
    if b[0] < 0 or b[1] > _LARGEST_SHIFT:
        return None
    return _corners(lambda x, y: x >> y, a, b)


def _larger(a: Interval, b: Interval) -> Interval | None:
    return None if _has_nan(*a, *b) else (max(a[0], b[0]), max(a[1], b[1]))


def _times(a: Interval, b: Interval) -> Interval | None:
    if a[0] >= 0 and b[0] >= 0 and a[1] != math.inf and b[1] != math.inf:
        return (a[0] * b[0], a[1] * b[1])
    return _corners(operator.mul, a, b)


def _difference(a: Interval, b: Interval) -> Interval:
    return (a[0] - b[1], a[1] - b[0])


_ARITHMETIC: dict[Ops, Callable[[Interval, Interval], Interval | None]] = {
    Ops.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Ops.SUB: _difference,
    Ops.MUL: _times,
    Ops.MAX: _larger,
}
_INTEGER: dict[Ops, Callable[[Interval, Interval], Interval | None]] = {
    Ops.IDIV: _quotient,
    Ops.MOD: _remainder,
    Ops.SHL: _shifted_left,
    Ops.SHR: _shifted_right,
    Ops.AND: _conjunction,
    Ops.OR: _disjunction,
    Ops.XOR: _exclusive,
}
_BOOLEAN: dict[Ops, Callable[[Interval, Interval], Interval]] = {
    Ops.AND: lambda a, b: (a[0] and b[0], a[1] and b[1]),
    Ops.MUL: lambda a, b: (a[0] and b[0], a[1] and b[1]),
    Ops.OR: lambda a, b: (a[0] or b[0], a[1] or b[1]),
    Ops.ADD: lambda a, b: (a[0] or b[0], a[1] or b[1]),
    Ops.MAX: lambda a, b: (a[0] or b[0], a[1] or b[1]),
    Ops.XOR: lambda a, b: (a[0] != b[0],) * 2 if a[0] == a[1] and b[0] == b[1] else (False, True),
}


def _binary(u) -> Interval:
    first, second = u.src
    a, b = first._min_max, second._min_max
    scalar = u.dtype.scalar()
    if scalar is dtypes.bool:
        logic = _BOOLEAN.get(u.op)
        low, high = (False, True) if logic is None else logic(a, b)
        return (bool(low), bool(high))
    rule: Callable | None = _ARITHMETIC.get(u.op)
    if rule is None and dtypes.is_int(scalar):
        rule = _INTEGER.get(u.op)
    return full_range(scalar) if rule is None else _fit(rule(a, b), scalar)


def _may_be_nan(u) -> bool:
    """False where a float value surely is a number."""
    if u.op in (Ops.CONST, Ops.DEFINE_VAR, Ops.BIND):
        return False
    exact_source = u.op is Ops.CAST and not dtypes.is_float(u.src[0].dtype)
    return dtypes.is_float(u.dtype) and not exact_source


def _compared(u) -> Interval:
    if isinstance(u.src[0].dtype, PtrDType):
        return (False, True)
    a, b = u.src[0]._min_max, u.src[1]._min_max
    # a NaN is neither less than nor equal to anything
    exact = not dtypes.is_float(u.src[0].dtype)
    ordered = exact or not any(map(_may_be_nan, u.src))
    if u.op is Ops.CMPLT:
        return (ordered and a[1] < b[0], a[0] < b[1])
    never_equal = a[1] < b[0] or b[1] < a[0]
    always_equal = ordered and a[0] == a[1] == b[0] == b[1]
    differs = (never_equal, not always_equal)
    return differs if u.op is Ops.CMPNE else (not differs[1], not differs[0])


def _converted(u) -> Interval:
    source, target, a = u.src[0].dtype, u.dtype, u.src[0]._min_max
    if isinstance(target, PtrDType) or target.scalar() is dtypes.void or _has_nan(*a):
        return full_range(target)
    scalar = target.scalar()
    if scalar is dtypes.bool:
        nonzero = a[0] > 0 or a[1] < 0
        return (nonzero, nonzero or a[0] != 0 or a[1] != 0)
    if dtypes.is_float(scalar):
        return _rounded(a[0], a[1], scalar)
    if dtypes.is_float(source.scalar()):
        # a float from memory can be NaN, which converts to anything
        if not (math.isfinite(a[0]) and math.isfinite(a[1])):
            return full_range(scalar)
        return _fit((math.trunc(a[0]), math.trunc(a[1])), scalar)
    return _fit((int(a[0]), int(a[1])), scalar)


def _of_leaf(u) -> Interval:
    if u.op is Ops.DEFINE_VAR and isinstance(u.arg, tuple) and len(u.arg) == 3:
        return _declared(u.arg[1], 0), _declared(u.arg[2], 1)
    if u.op is Ops.CONST and u.arg is not Invalid:
        return (u.arg, u.arg)
    if u.op is Ops.VCONST and u.arg and Invalid not in u.arg and not _has_nan(*u.arg):
        return (min(u.arg), max(u.arg))
    return full_range(u.dtype)


def _declared(bound, end: int) -> Number:
    """A bound of a variable; it may be a node itself."""
    return bound._min_max[end] if hasattr(bound, "_min_max") else bound


def _of_any(u) -> Interval:
    return _union(u.dtype, u.src)


def _of_branches(u) -> Interval:
    return _union(u.dtype, u.src[1:])


def _union(dtype: DType, sources: tuple) -> Interval:
    # an element that is not there has no value
    real = [s._min_max for s in sources if not (s.op is Ops.CONST and s.arg is Invalid)]
    if not real or _has_nan(*(end for bounds in real for end in bounds)):
        return full_range(dtype)
    return (min(low for low, _ in real), max(high for _, high in real))


def _of_first(u) -> Interval:
    return u.src[0]._min_max


def _counted(u) -> Interval:
    return (0, u.src[0]._min_max[1] - 1)


def _negated(u) -> Interval:
    low, high = u.src[0]._min_max
    return _fit((-high, -low), u.dtype)


def _truncated(u) -> Interval:
    bounds = u.src[0]._min_max
    if not dtypes.is_float(u.dtype):
        return bounds
    low, high = (float(math.trunc(x)) if math.isfinite(x) else x for x in bounds)
    return (low, high)


def _multiplied_and_added(u) -> Interval:
    a, b, c = (s._min_max for s in u.src)
    product = _corners(operator.mul, a, b)
    total = None if product is None else (product[0] + c[0], product[1] + c[1])
    return _fit(total, u.dtype)


_RULES: dict[Ops, Callable[[UOp], Interval]] = {
    **dict.fromkeys((Ops.DEFINE_VAR, Ops.CONST, Ops.VCONST), _of_leaf),
    **dict.fromkeys((Ops.RANGE, Ops.SPECIAL), _counted),
    **dict.fromkeys((Ops.BIND, Ops.GEP, Ops.UNROLL, Ops.CONTRACT), _of_first),
    **dict.fromkeys((Ops.VECTORIZE, Ops.CAT), _of_any),
    **dict.fromkeys(GroupOp.Comparison, _compared),
    **dict.fromkeys((*_ARITHMETIC, *_INTEGER), _binary),
    Ops.WHERE: _of_branches,
    Ops.CAST: _converted,
    Ops.TRUNC: _truncated,
    Ops.NEG: _negated,
    Ops.MULACC: _multiplied_and_added,
}


def compute_bounds(u: UOp) -> Interval:
    """The bounds of `u`, whose sources have theirs."""
    rule = _RULES.get(u.op)
    dtype = u.dtype
    if rule is None or dtype is dtypes.void or isinstance(dtype, PtrDType):
        return full_range(dtype)
    return rule(u)
