"""Moving a value over loops to other places.

Used when a stage is dissolved into its readers (`build`) and when a reduction is replaced by its one
element that counts (`collapse`).
"""

from __future__ import annotations

from tinygrad._core import replaced
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

    def gated(read: UOp) -> UOp:
        if read.src[0].op is Ops.BUFFERIZE:
            return read
        return read.replace(src=(read.src[0], gate_position(read.src[1], exists), *read.src[2:]))

    return replaced(value, moves) if exists is None else replaced(value, moves, Ops.INDEX, gated)
