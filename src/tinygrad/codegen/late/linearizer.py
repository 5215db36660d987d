"""From a lowered sink to the ordered list of instructions.

In: a SINK whose loops are RANGE ... END and whose order of effects is written with AFTER. Out: the
list that renderers read, the SINK last. Every instruction stands in the innermost loop it depends
on, so what does not change inside a loop stands before it. The order is a walk from the sink with
sources first; it is a function of the graph's structure only. Values that need a whole loop are
visited before their sister operands, so that a load used after a loop is also placed after it.
Called by the PROGRAM steps of `codegen` and by tools that want the list of a sink.
"""

from __future__ import annotations

from tinygrad._core import arrange
from tinygrad.codegen.late.loops import nest_ends
from tinygrad.codegen.late.scopes import Scopes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

# never instructions of their own
_SILENT = frozenset({Ops.NOOP})
# parameters and launch indices
_HEADER = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_VAR, Ops.SPECIAL})


class _LoopNest:
    """Loop structure of a graph whose ENDs have one range each."""

    def __init__(self, sink: UOp):
        self.scopes = scopes = Scopes(sink)
        self.outer: dict[UOp, int] = {r: scopes.mask[r] & ~scopes.bit[r] for r in scopes.ranges}
        for u in scopes.order:
            if u.op is Ops.END:
                self.outer[u.src[1]] |= scopes.mask[u]
        self._close()
        self.depth = {r: m.bit_count() for r, m in self.outer.items()}

    def _close(self) -> None:
        """Makes `outer` transitive: the loops around my outer loops are around me."""
        changed = True
        while changed:
            changed = False
            for r in self.scopes.ranges:
                mask = self.outer[r]
                for o in self.scopes.members(mask):
                    mask |= self.outer[o]
                if mask >> self.scopes.ranges.index(r) & 1:
                    raise RuntimeError(
                        f"loop {r.arg} would have to run inside itself; two loops wait for each "
                        "other, so one of them needs a range of its own"
                    )
                changed |= mask != self.outer[r]
                self.outer[r] = mask

    def home(self, mask: int) -> UOp | None:
        """The loop that a node inside the loops of `mask` stands in, None for the top level."""
        return max(self.scopes.members(mask), key=self.depth.__getitem__) if mask else None


def _header_key(u: UOp) -> tuple:
    """Parameters and launch indices come first, in argument order; core_id is the last argument."""
    if u.op is Ops.DEFINE_GLOBAL:
        return 0, False, u.arg
    if u.op is Ops.DEFINE_VAR:
        return 1, u.arg is not None and u.arg[0] == "core_id", str(u.arg)
    return 2, False, u.arg


def linearize(sink: UOp) -> list[UOp]:
    """The instructions of `sink` in an order that respects sources, loops and effects.

    Raises RuntimeError when a loop is never ended or loops wait for each other in a circle.
    """
    sink = nest_ends(sink)
    nest = _LoopNest(sink)
    scopes = nest.scopes
    top, heads, never_ended = arrange(scopes.order, scopes.mask, nest.home, _SILENT, _HEADER)
    if never_ended:
        open_loops = ", ".join(str(r.arg) for r in never_ended)
        raise RuntimeError(f"loops {open_loops} are never ended; close them with .end(range)")
    # the end of a SPECIAL is part of its header
    return _with_header(sorted(heads, key=_header_key), top)


def _with_header(header: list[UOp], body: list[UOp]) -> list[UOp]:
    """Puts the header first, each of its entries after the constants it needs."""
    placed: dict[UOp, None] = {}
    for u in header:
        for s in u.toposort():
            placed[s] = None
    return [*placed, *(u for u in body if u not in placed)]
