"""Moving a value over loops to other places.

Used when a stage is dissolved into its readers (`build`) and when a reduction is replaced by its one
element that counts (`collapse`).
"""

from __future__ import annotations

from tinygrad.uop.ops import Ops, UOp


def gate_position(position: UOp, exists: UOp | None) -> UOp:
    """A position in memory that is read only where it exists."""
    if exists is None:
        return position
    if position.op is Ops.WHERE and position.src[2].op is Ops.CONST:
        return position.get_idx().valid(position.get_valid() & exists)
    return position.valid(exists)


def transplant(value: UOp, moves: dict[UOp, UOp], exists: UOp | None) -> UOp:
    """The value with its loops (or other nodes) replaced, all at once.

    Memory that is read at moved positions is read only where `exists` holds.
    """
    new: dict[UOp, UOp] = dict(moves)
    for u in value.toposort():
        if u in new:
            continue
        sources = tuple([new[s] for s in u.src])
        if sources == u.src:
            new[u] = u
            continue
        if u.op is Ops.INDEX and u.src[0].op is not Ops.BUFFERIZE:
            sources = (sources[0], gate_position(sources[1], exists), *sources[2:])
        new[u] = u.replace(src=sources)
    return new[value]
