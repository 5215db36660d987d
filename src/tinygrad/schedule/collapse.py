"""Reductions that have a closed form, and the simplification of values over loops.

A sum over a loop `r` of elements that are zero outside of a condition on `r` needs no loop when
- the elements do not depend on `r` and the condition bounds `r`: count times element (arange, eye,
  triangles);
- the condition fixes `r` to one value: the element there (indexing with a tensor, embedding,
  one-hot), read only where that value is inside the loop.
This decides whether a stage has a reduction at all, hence it is done before stages are judged.

All arithmetic on positions is exact (`dtypes.index` is unbounded).
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.schedule.indexing import as_index, conjunction
from tinygrad.schedule.transplant import transplant
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, graph_rewrite
from tinygrad.uop.symbolic import symbolic

# How deep a sum is taken apart; what is nested deeper has no closed form worth finding, and values
# may be thousands of operations deep.
MAX_DEPTH = 10

# *** linear forms ***


def depends_on(u: UOp, loop: UOp) -> bool:
    return loop in u.ranges


def _keeps_value(cast: UOp) -> bool:
    """Whether an integer cast keeps every value that its source can have."""
    old, new = cast.src[0], cast.dtype
    if not (dtypes.is_int(old.dtype) or old.dtype == dtypes.index):
        return False
    if new == dtypes.index:
        return True
    return dtypes.is_int(new) and dtypes.min(new) <= old.vmin and old.vmax <= dtypes.max(new)


def linear_in(u: UOp, loop: UOp, depth: int = 0) -> tuple[int, UOp] | None:
    """(k, rest) with u == k*loop + rest, rest without the loop and of index type; None if not so."""
    if not depends_on(u, loop):
        is_integer = dtypes.is_int(u.dtype) or u.dtype == dtypes.index
        return (0, u if u.dtype == dtypes.index else u.cast(dtypes.index)) if is_integer else None
    if u is loop:
        return 1, as_index(0)
    if depth > MAX_DEPTH:
        return None
    if u.op is Ops.CAST and _keeps_value(u):
        return linear_in(u.src[0], loop, depth + 1)
    if u.op is Ops.ADD and (u.dtype == dtypes.index or _stays_in_range(u)):
        left, right = (linear_in(s, loop, depth + 1) for s in u.src)
        if left is not None and right is not None:
            return left[0] + right[0], left[1] + right[1]
    if u.op is Ops.MUL and u.src[1].op is Ops.CONST:
        inner = linear_in(u.src[0], loop, depth + 1)
        if inner is not None and (u.dtype == dtypes.index or _stays_in_range(u)):
            return inner[0] * u.src[1].arg, inner[1] * u.src[1].arg
    return None


def _stays_in_range(u: UOp) -> bool:
    """Whether a sum or product of a sized integer type surely does not wrap around."""
    a, b = u.src
    if u.op is Ops.ADD:
        low, high = a.vmin + b.vmin, a.vmax + b.vmax
    else:
        corners = [x * y for x in (a.vmin, a.vmax) for y in (b.vmin, b.vmax)]
        low, high = min(corners), max(corners)
    return dtypes.min(u.dtype) <= low and high <= dtypes.max(u.dtype)


# *** conditions ***


def conjuncts(condition: UOp) -> list[UOp]:
    """The conditions that all have to hold."""
    parts, stack = [], [condition]
    while stack:
        part = stack.pop()
        if part.op is Ops.AND:
            stack.extend(reversed(part.src))
        else:
            parts.append(part)
    return parts


def negation(condition: UOp) -> UOp:
    if (
        condition.op is Ops.CMPNE
        and condition.src[1].op is Ops.CONST
        and condition.src[1].arg is True
    ):
        return condition.src[0]
    return condition.logical_not()


def _is_negation(condition: UOp) -> bool:
    last = condition.src[1] if condition.op is Ops.CMPNE else None
    return last is not None and last.op is Ops.CONST and last.arg is True


@dataclass
class Interval:
    """Where a loop has to be: low <= loop < high, if `others` hold."""

    low: list[UOp]
    high: list[UOp]
    others: list[UOp]

    def length(self) -> UOp:
        low, high = self.low[0], self.high[0]
        for other in self.low[1:]:
            low = larger(low, other)
        for other in self.high[1:]:
            high = smaller(high, other)
        return larger((high - low).simplify(), as_index(0))


def larger(a: UOp, b: UOp) -> UOp:
    if a.vmin >= b.vmax:
        return a
    return b if b.vmin >= a.vmax else a.maximum(b)


def smaller(a: UOp, b: UOp) -> UOp:
    if a.vmax <= b.vmin:
        return a
    return b if b.vmax <= a.vmin else a.minimum(b)


def _floor_div(a: UOp, k: int) -> UOp:
    """Floor of a/k for k > 0; `//` truncates, so the numerator is made positive first."""
    if a.vmin >= 0:
        return a // k
    shift = -(int(a.vmin) // k)
    return (a + shift * k) // k - shift


def interval_of(condition: UOp, loop: UOp) -> Interval | None:
    """The interval of the loop for which a condition holds; None where it is none."""
    result = Interval([as_index(0)], [loop.src[0]], [])
    for part in conjuncts(condition):
        if not depends_on(part, loop):
            result.others.append(part)
        elif not _add_bound(result, part, loop):
            return None
    return result


def _add_bound(interval: Interval, part: UOp, loop: UOp) -> bool:
    negated = _is_negation(part)
    comparison = part.src[0] if negated else part
    if comparison.op is not Ops.CMPLT:
        return False
    left, right = (linear_in(s, loop) for s in comparison.src)
    if left is None or right is None:
        return False
    # k*loop < limit, or not
    k, limit = left[0] - right[0], (right[1] - left[1]).simplify()
    if k == 0:
        return False
    if k > 0:
        first_false = _floor_div((limit + (k - 1)).simplify(), k).simplify()
        (interval.low if negated else interval.high).append(first_false)
    else:
        # -m*loop < limit  <=>  loop > -limit/m  <=>  loop >= floor(-limit/m) + 1
        first_true = (_floor_div((limit * -1).simplify(), -k) + 1).simplify()
        (interval.high if negated else interval.low).append(first_true)
    return True


def solve_equality(condition: UOp, loop: UOp) -> tuple[UOp, list[UOp]] | None:
    """(value, other conditions): the one value of the loop at which a condition can hold."""
    parts = conjuncts(condition)
    for at, part in enumerate(parts):
        if _is_negation(part) and part.src[0].op is Ops.CMPNE:
            sides = part.src[0].src
        elif part.op is Ops.CMPEQ:
            sides = part.src
        else:
            continue
        left, right = linear_in(sides[0], loop), linear_in(sides[1], loop)
        if left is None or right is None or abs(k := left[0] - right[0]) != 1:
            continue
        value = ((right[1] - left[1]) * k).simplify()
        return value, parts[:at] + parts[at + 1 :]
    return None


# *** sums ***


def cast_position(position: UOp, dtype: DType) -> UOp:
    """A position as a number of another type; constants are kept outside, where they can merge."""
    if position.op is Ops.ADD and position.src[1].op is Ops.CONST:
        return cast_position(position.src[0], dtype) + position.src[1].arg
    if position.op is Ops.MUL and position.src[1].op is Ops.CONST:
        return cast_position(position.src[0], dtype) * position.src[1].arg
    return position.cast(dtype)


def is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0


def sum_over(value: UOp, loop: UOp, depth: int = 0) -> UOp | None:
    """The sum of a value over one loop without that loop; None where no closed form is known."""
    if not depends_on(value, loop):
        return value * cast_position(loop.src[0], value.dtype)
    if depth > MAX_DEPTH:
        return None
    if value.op is Ops.CAST and value.src[0].dtype == dtypes.bool:
        one, zero = (UOp.const(value.dtype, x) for x in (1, 0))
        return _sum_of_where(value.src[0], one, zero, loop, depth)
    if value.op is Ops.CAST and value.src[0].op is Ops.WHERE:
        condition, *branches = value.src[0].src
        yes, no = (branch.cast(value.dtype) for branch in branches)
        return _sum_of_where(condition, yes, no, loop, depth)
    if value.op is Ops.WHERE:
        condition, yes, no = value.src
        return _sum_of_where(condition, yes, no, loop, depth)
    if value.op is Ops.ADD:
        first = sum_over(value.src[0], loop, depth + 1)
        second = None if first is None else sum_over(value.src[1], loop, depth + 1)
        return None if second is None else first + second
    if value.op is Ops.MUL:
        left, right = value.src
        return _sum_of_product(left, right, loop, depth)
    return None


def _sum_of_product(a: UOp, b: UOp, loop: UOp, depth: int) -> UOp | None:
    for factor, rest in ((a, b), (b, a)):
        if not depends_on(factor, loop):
            total = sum_over(rest, loop, depth + 1)
            return None if total is None else factor * total
    # 0/1 times an element: the element where the condition holds
    for factor, rest in ((a, b), (b, a)):
        if factor.op is Ops.CAST and factor.src[0].dtype == dtypes.bool:
            return _single_element(factor.src[0], rest, loop)
    return None


def _sum_of_where(condition: UOp, yes: UOp, no: UOp, loop: UOp, depth: int) -> UOp | None:
    if not depends_on(condition, loop):
        yes_sum = sum_over(yes, loop, depth + 1)
        no_sum = None if yes_sum is None else sum_over(no, loop, depth + 1)
        return None if no_sum is None else condition.where(yes_sum, no_sum)
    if is_zero(no):
        single = _single_element(condition, yes, loop)
        return single if single is not None else _counted(condition, yes, loop)
    if is_zero(yes):
        single = _single_element(negation(condition), no, loop)
        if single is not None:
            return single
        return _complement(condition, no, loop)
    counted, rest = _counted(condition, yes, loop), _complement(condition, no, loop)
    return None if counted is None or rest is None else counted + rest


def _counted(condition: UOp, element: UOp, loop: UOp) -> UOp | None:
    """Sum of an element without the loop over where the condition holds."""
    if depends_on(element, loop):
        return None
    interval = interval_of(condition, loop)
    if interval is None:
        return None
    total = element * cast_position(interval.length(), element.dtype)
    gate = conjunction(interval.others)
    return total if gate is None else gate.where(total, total.const_like(0))


def _complement(condition: UOp, element: UOp, loop: UOp) -> UOp | None:
    """Sum of an element without the loop over where the condition does not hold."""
    direct = _counted(negation(condition), element, loop)
    if direct is not None or depends_on(element, loop):
        return direct
    interval = interval_of(condition, loop)
    if interval is None or interval.others:
        return None
    return element * cast_position((loop.src[0] - interval.length()).simplify(), element.dtype)


def _single_element(condition: UOp, element: UOp, loop: UOp) -> UOp | None:
    """The element where the condition fixes the loop."""
    solved = solve_equality(condition, loop)
    if solved is None:
        return None
    value, others = solved
    inside = [value.ge(0).simplify(), value.lt(loop.src[0]).simplify()]
    # the other conditions may read memory as well
    within = conjunction(inside)
    others = [transplant(other, {loop: value}, within) for other in others]
    gate = conjunction(inside + others)
    moved = transplant(element, {loop: value}, gate)
    return moved if gate is None else gate.where(moved, moved.const_like(0))


def collapse_sum(reduce: UOp) -> UOp | None:
    """Drops the loops of a REDUCE that have a closed form."""
    value, *loops = reduce.src
    for loop in loops:
        rest = tuple(other for other in loops if other is not loop)
        if any(depends_on(other.src[0], loop) for other in rest):
            continue
        total = sum_over(value, loop)
        if total is not None:
            return reduce.replace(src=(total, *rest)) if rest else total
    return None


def collapse_idle_loops(reduce: UOp) -> UOp | None:
    """A maximum (or product) of the same element over and over."""
    value, *loops = reduce.src
    kept = [loop for loop in loops if depends_on(value, loop)]
    if len(kept) == len(loops):
        return None
    if reduce.arg is Ops.MUL:
        idle = [loop.src[0] for loop in loops if loop not in kept]
        if any(size.op is not Ops.CONST for size in idle):
            return None
        for size in idle:
            value = _power(value, size.arg)
    return reduce.replace(src=(value, *kept)) if kept else value


def _power(value: UOp, exponent: int) -> UOp:
    result = UOp.const(value.dtype, 1)
    while exponent:
        if exponent & 1:
            result = result * value
        value, exponent = value * value, exponent >> 1
    return result


def reduce_to_closed_form(reduce: UOp) -> UOp | None:
    if len(reduce.src) == 1:
        return reduce.src[0]
    return collapse_sum(reduce) if reduce.arg is Ops.ADD else collapse_idle_loops(reduce)


def drop_repeated_gate(condition: UOp, read: UOp) -> UOp | None:
    """where(c, memory[i if c else nothing], 0): a read of nothing is 0 already."""
    position = read.src[1]
    if position.op is not Ops.WHERE:
        return None
    known = set(conjuncts(position.get_valid()))
    return read if known.issuperset(conjuncts(condition)) else None


def drop_repeated_negated_gate(condition: UOp, read: UOp) -> UOp | None:
    """where(c, 0, memory[nothing if c else i])"""
    return drop_repeated_gate(negation(condition), read)


def fold_read_of_nothing(read: UOp) -> UOp | None:
    """memory[Invalid] -> 0"""
    position = read.src[1]
    return read.const_like(0) if position.op is Ops.CONST and position.arg is Invalid else None


pm_collapse = symbolic + PatternMatcher(
    [
        # drop-in: x*y/y is x, also where y is zero or not finite
        (UPat.var("x") * UPat.var("x").reciprocal(), lambda x: x.const_like(1)),
        (UPat.var("x") * UPat.var("y") * UPat.var("y").reciprocal(), lambda x, y: x),
        (UPat(Ops.REDUCE, name="reduce"), reduce_to_closed_form),
        (UPat(Ops.INDEX, name="read"), fold_read_of_nothing),
        (
            UPat.var("condition").where(UPat(Ops.INDEX, name="read"), UPat.const(None, 0)),
            drop_repeated_gate,
        ),
        (
            UPat.var("condition").where(UPat.const(None, 0), UPat(Ops.INDEX, name="read")),
            drop_repeated_negated_gate,
        ),
    ]
)


def simplify_value(value: UOp) -> UOp:
    """The simplest form of a value over loops."""
    return graph_rewrite(value, pm_collapse, name="simplify value")
