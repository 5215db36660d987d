"""What a condition says about the index expression it guards.

`cond.where(idx, Invalid)` only looks at `idx` where `cond` holds. A condition is a conjunction of
limits; each limit narrows the bounds of the expression it speaks about, and the guarded expression
is simplified under those bounds. Used on every gated access before it is lowered.
What is below a read of memory stays as it is: the read is done whether or not the condition holds, so
that it needs all of its own condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tinygrad.dtype import Invalid, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INDEX, rule
from tinygrad.uop.rules.linear import summands

# the tag that tells the stand-in of an expression from the variables of users
_STAND_IN = "narrowed"
_READS = (Ops.INDEX, Ops.LOAD)


def conjuncts(valid: UOp) -> list[UOp]:
    """The conditions of a conjunction, from left to right, each once."""
    out: dict[UOp, None] = {}
    stack = [valid]
    while stack:
        top = stack.pop()
        if top.op is Ops.AND and top.dtype is dtypes.bool:
            stack.extend(reversed(top.src))
        else:
            out[top] = None
    return list(out)


def conjunction(conditions: Iterable[UOp]) -> UOp:
    """The AND of `conditions`, True when there are none."""
    total = None
    for condition in conditions:
        total = condition if total is None else total & condition
    return UOp.const(dtypes.bool, True) if total is None else total


def _negated(u: UOp) -> UOp | None:
    """`x` for `x != True`."""
    if u.op is not Ops.CMPNE or u.src[0].dtype is not dtypes.bool:
        return None
    x, flag = u.src
    return x if flag.op is Ops.CONST and flag.arg is True else None


def parse_valid(condition: UOp) -> tuple[UOp, bool, int] | None:
    """Reads a limit: `(x, True, c)` for `x <= c`, `(x, False, c)` for `x >= c`, None for anything
    else. `x` is an integer expression and `c` a number."""
    inner = _negated(condition)
    limit = condition if inner is None else inner
    if limit.op is not Ops.CMPLT or not dtypes.is_int(limit.src[0].dtype):
        return None
    left, right = limit.src
    if right.op is Ops.CONST:
        # x < c, or its complement x >= c
        return (left, True, int(right.arg) - 1) if inner is None else (left, False, int(right.arg))
    if left.op is Ops.CONST:
        # c < x, or its complement x <= c
        return (right, False, int(left.arg) + 1) if inner is None else (right, True, int(left.arg))
    return None


class _Interval:
    """What is known of one expression."""

    __slots__ = ("high", "low")

    def __init__(self, u: UOp):
        self.low, self.high = u.vmin, u.vmax


def _intervals(conditions: Iterable[UOp]) -> dict[UOp, _Interval]:
    known: dict[UOp, _Interval] = {}
    for condition in conditions:
        parsed = parse_valid(condition)
        if parsed is None:
            continue
        x, is_upper, limit = parsed
        interval = known.setdefault(x, _Interval(x))
        if is_upper:
            interval.high = min(interval.high, limit)
        else:
            interval.low = max(interval.low, limit)
    return known


def _stand_in(u: UOp, low: int, high: int, number: int) -> UOp:
    name = f"{_STAND_IN}{number}"
    return UOp.variable(name, low, high, u.dtype.scalar())


def _replaced(target: UOp, x: UOp, new: UOp) -> UOp:
    """`target` with `new` for `x`, but not below a read of memory."""
    if not target.op_in_backward_slice_with_self(*_READS):
        return target.substitute({x: new})
    done = {x: new}
    for u in target.toposort(lambda u: u is not x and u.op not in _READS):
        sources = tuple([done.get(s, s) for s in u.src])
        done[u] = u if sources == u.src else u.replace(src=sources)
    return done.get(target, target)


def _simplified_between(target: UOp, x: UOp, low: int, high: int, number: int) -> UOp:
    """`target` simplified where `low <= x <= high`."""
    if low == high:
        return _replaced(target, x, x.const_like(low)).simplify()
    stand_in = _stand_in(x, low, high, number)
    narrowed = _replaced(target, x, stand_in)
    if narrowed is target:
        return target
    return narrowed.simplify().substitute({stand_in: x}).simplify()


def _simplified_if_positive(target: UOp, x: UOp) -> UOp | None:
    """`target` where `x >= 1` and `x` is a sum of non-negative summands: then some summand is at
    least one. Known only if every such case leads to the same expression."""
    parts = summands(x)
    if any(part.op is Ops.CONST or part.vmin < 0 for part in parts):
        return None
    results = set()
    for number, part in enumerate(parts):
        if part.vmax < 1:
            continue
        results.add(_simplified_between(target, part, max(1, part.vmin), part.vmax, number))
        if len(results) > 1:
            return None
    return results.pop() if results else None


def _occurs(x: UOp, target: UOp) -> bool:
    return x in target.backward_slice or x is target


def uop_given_valid(valid: UOp, target: UOp, try_simplex: bool = True) -> UOp:
    """`target` simplified under the assumption that `valid` is true; `target` itself when nothing
    is gained. `try_simplex` also uses limits `x >= 1` on sums, case by case."""
    for number, (x, known) in enumerate(_intervals(conjuncts(valid)).items()):
        if known.low > known.high:
            # the condition never holds: the value does not matter
            return target
        if try_simplex and known.low == 1 and x.vmin < 1 and x.op is Ops.ADD:
            better = _simplified_if_positive(target, x)
            if better is not None:
                target = better
        if (known.low > x.vmin or known.high < x.vmax) and _occurs(x, target):
            target = _simplified_between(target, x, known.low, known.high, number)
    return target.simplify()


def simplify_given(valid: UOp, target: UOp) -> UOp | None:
    """`target` under `valid` for rules: None when nothing changed."""
    better = uop_given_valid(valid, target)
    return None if better is target else better


def simplify_valid(valid: UOp) -> UOp | None:
    """Simplifies each condition of a conjunction under the others; None if nothing changed."""
    conditions = conjuncts(valid)
    kept: list[UOp] = []
    changed = False
    # limits of plain counters first, they say most about the others
    for condition in sorted(conditions, key=_speaks_about_a_leaf, reverse=True):
        better = uop_given_valid(conjunction(kept), condition) if kept else condition
        changed = changed or better is not condition
        if better.op is Ops.CONST and better.arg is False:
            return valid.const_like(False)
        kept.append(better)
    if not changed:
        return None
    return conjunction(dict.fromkeys(c for c in kept if not (c.op is Ops.CONST and c.arg is True)))


def _speaks_about_a_leaf(condition: UOp) -> bool:
    parsed = parse_valid(condition)
    return parsed is not None and parsed[0].op in (Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR)


def simplify_guarded_index(cond: UOp, x: UOp, missing: UOp) -> UOp | None:
    """`where(cond, x, Invalid)` with `x` simplified where `cond` holds."""
    better = uop_given_valid(cond, x)
    return None if better is x else cond.where(better, missing)


def drop_implied_conditions(drop: Callable[[UOp], bool], valid: UOp) -> UOp:
    """The conjunction without the conditions for which `drop` is true."""
    return conjunction(c for c in conjuncts(valid) if not drop(c))


rules = [
    rule(
        "guarded-index",
        UPat.var("cond", dtypes.bool).where(
            UPat.var("x", dtypes.index), UPat(Ops.CONST, arg=Invalid, name="missing")
        ),
        simplify_guarded_index,
        domain=INDEX,
        unsafe="the index may change where the condition is false, where it is not looked at",
    ),
    rule(
        "conjunction",
        UPat(Ops.AND, dtype=dtypes.bool, name="valid"),
        simplify_valid,
        domain=INDEX,
    ),
]
