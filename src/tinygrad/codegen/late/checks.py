"""Checks of a kernel that are made on request.

With IGNORE_OOB=0 every access is proved to stay inside its buffer, from the bounds of loops and
variables and the condition that guards it. The graph passes through unchanged.
"""

from __future__ import annotations

from tinygrad.codegen.late.memory import address_parts
from tinygrad.helpers import IGNORE_OOB
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp
from tinygrad.uop.validate import validate_index


def check_accesses(sink: UOp) -> UOp:
    """`sink`. Raises RuntimeError for an access that can leave its buffer."""
    if IGNORE_OOB:
        return sink
    for u in sink.toposort():
        if u.op not in (Ops.LOAD, Ops.STORE) or (parts := address_parts(u.src[0])) is None:
            continue
        buf, idx, gate = parts
        if not validate_index(buf, idx, gate):
            where = "" if gate is None else f" where {gate.render()}"
            raise RuntimeError(
                f"{u.op} at {idx.render()}{where} can leave its buffer of {buf.dtype.size} elements"
                f" (index from {idx.vmin} to {idx.vmax}); guard it with .valid(condition)"
            )
    return sink
