"""Which loops a node stands in.

`compute_open_ranges(u)` gives the RANGE nodes that the value of `u` depends on and that no node below
has ended, as a dict (ordered, values None). For a RANGE it leaves out the node itself: a node must
not hold itself. The dicts are shared between nodes: never change one.
"""

from __future__ import annotations

from tinygrad._core import UOp
from tinygrad.uop import Ops

# ops that end loops, and where the ended ones start in src
_FIRST_ENDED = {Ops.BUFFERIZE: 1, Ops.REDUCE: 1, Ops.END: 1, Ops.STORE: 2, Ops.WMMA: 3}

_NONE: dict[UOp, None] = {}


def ended_ranges(u: UOp) -> tuple[UOp, ...]:
    """The RANGE nodes that `u` ends; an AFTER ends what the nodes it waits for have ended."""
    if u.op is Ops.AFTER:
        return tuple(r for s in u.src[1:] for r in ended_ranges(s))
    start = _FIRST_ENDED.get(u.op)
    if start is None:
        return ()
    ended: list[UOp] = []
    for s in u.src[start:]:
        # what was a range may have become an expression of ranges
        ended.extend([s] if s.op is Ops.RANGE else s.ranges)
    return tuple(ended)


def compute_open_ranges(u: UOp) -> dict[UOp, None]:
    """The open ranges of `u` without `u` itself; those of the sources are known."""
    merged = _NONE
    for s in u.src:
        below = s.ranges
        if not below or below is merged:
            continue
        if not merged:
            merged = below
            continue
        added = [r for r in below if r not in merged]
        if added:
            merged = {**merged, **dict.fromkeys(added)}
    if merged and (u.op in _FIRST_ENDED or u.op is Ops.AFTER):
        ended = set(ended_ranges(u))
        if ended:
            return {r: None for r in merged if r not in ended}
    return merged
