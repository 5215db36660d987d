"""Which loops a node is inside of, as bit masks.

In: a graph with RANGE and END nodes. Out: `Scopes`, one walk that answers "which loops are open at
this node". A RANGE opens its loop for everything that depends on it, an END closes it, and an
AFTER that waits for an END is outside of that loop again. Used by the reduce lowering, which asks
where an accumulator lives, and by the linearizer, which asks into which loop a statement goes.
"""

from __future__ import annotations

from typing import Any

from tinygrad._core import loop_masks
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

Axis = Any  # what identifies a range's axis: its id, or the tuple of its ids


def axis_of(r: UOp) -> Axis:
    """The identity of a range's axis."""
    return r.arg[0] if len(r.arg) == 2 else r.arg[:-1]


def axis_order(r: UOp) -> tuple:
    """Sorts ranges from outer to inner where the graph leaves the choice free."""
    ids = tuple(a for a in r.arg if isinstance(a, int))
    return ids, str(r.arg[-1])


class Scopes:
    """Open loops of every node under `root`; masks index into `ranges`, in order of first visit."""

    def __init__(self, root: UOp):
        self.order = list(root.toposort())
        self.ranges = [u for u in self.order if u.op is Ops.RANGE]
        self.bit = {r: 1 << i for i, r in enumerate(self.ranges)}
        self.mask: dict[UOp, int] = loop_masks(self.order, self.ranges)

    def bits(self, ranges) -> int:
        """The mask of a collection of ranges."""
        mask = 0
        for r in ranges:
            mask |= self.bit[r]
        return mask

    def members(self, mask: int) -> list[UOp]:
        """The ranges in `mask`, in order of first visit."""
        return [r for i, r in enumerate(self.ranges) if mask >> i & 1]
