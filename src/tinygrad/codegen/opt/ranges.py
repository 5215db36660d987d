"""Moving ranges in a kernel AST: replacing one by an expression of others, and keeping END and REDUCE lists well formed.

Used by the kernel optimiser only. Nothing here decides anything; it keeps the graph legal while others decide.
"""

from __future__ import annotations

from tinygrad.uop.ops import AxisType, Ops, PatternMatcher, UOp, UPat, graph_rewrite

# where an axis of each kind stands in the order that users count axes by
AXIS_ORDER = {
    AxisType.OUTER: 0,
    AxisType.LOOP: 1,
    AxisType.THREAD: 2,
    AxisType.GLOBAL: 3,
    AxisType.WARP: 4,
    AxisType.LOCAL: 5,
    AxisType.UPCAST: 6,
    AxisType.GROUP_REDUCE: 7,
    AxisType.REDUCE: 8,
    AxisType.UNROLL: 9,
    AxisType.PLACEHOLDER: 10,
}

AXIS_COLOURS = {
    AxisType.OUTER: "white",
    AxisType.LOOP: "WHITE",
    AxisType.THREAD: "BLUE",
    AxisType.GLOBAL: "blue",
    AxisType.WARP: "CYAN",
    AxisType.LOCAL: "cyan",
    AxisType.UPCAST: "yellow",
    AxisType.GROUP_REDUCE: "green",
    AxisType.REDUCE: "red",
    AxisType.UNROLL: "magenta",
    AxisType.PLACEHOLDER: "black",
}


def axis_type(rng: UOp) -> AxisType:
    return rng.arg[-1]


def axis_key(rng: UOp) -> tuple:
    """Sorts ranges into axis order."""
    return (AXIS_ORDER[axis_type(rng)], *rng.arg[:-1])


def const_size(rng: UOp) -> int | None:
    """The number of iterations where it is a constant."""
    end = rng.src[0]
    return end.arg if end.op is Ops.CONST else None


def ranges_of(u: UOp) -> list[UOp]:
    """The RANGE nodes that an expression is made of, in axis order."""
    return sorted((x for x in u.toposort() if x.op is Ops.RANGE), key=axis_key)


# how many leading sources of an op are values; the rest are the ranges it closes
_FIRST_RANGE_SOURCE = {Ops.END: 1, Ops.REDUCE: 1, Ops.BUFFERIZE: 1}


def _relist_ranges(u: UOp) -> UOp | None:
    """END and REDUCE list plain ranges: an expression that took the place of one is replaced by the ranges inside it."""
    first = _FIRST_RANGE_SOURCE[u.op]
    listed = u.src[first:]
    if all(r.op is Ops.RANGE for r in listed):
        return None
    seen: dict[UOp, None] = {}
    for r in listed:
        for x in (r,) if r.op is Ops.RANGE else ranges_of(r):
            seen.setdefault(x)
    if u.op is Ops.REDUCE and not seen:
        return u.src[0]
    return u.replace(src=u.src[:first] + tuple(seen))


pm_relist_ranges = PatternMatcher(
    [
        # shrinks: an expression among the ranges becomes the ranges it holds
        (UPat((Ops.END, Ops.REDUCE), name="u"), _relist_ranges),
    ]
)


def substitute_ranges(root: UOp, replacements: dict[UOp, UOp]) -> UOp:
    """`root` with ranges replaced by expressions, END and REDUCE lists following."""
    return graph_rewrite(root.substitute(replacements), pm_relist_ranges, name="relist ranges")
