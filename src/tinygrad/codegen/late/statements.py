"""Buffers named as statements become the statements.

In: kernels written by hand, which end or sink "this buffer after its stores" (an AFTER). Out: END,
GROUP and SINK over the stores and loops themselves.
"""

from __future__ import annotations

from tinygrad.dtype import PtrDType
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp


def _is_buffer_state(u: UOp) -> bool:
    return u.op is Ops.AFTER and isinstance(u.dtype, PtrDType)


def _statements(src: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """`src` with every buffer state replaced by the effects that lead to it, earlier ones first."""
    found: dict[UOp, None] = {}
    for s in src:
        pending = [s]
        while pending:
            u = pending.pop()
            if _is_buffer_state(u):
                pending += [*reversed(u.src[1:]), u.src[0]]
            elif u.op is not Ops.RANGE and u.op not in GroupOp.Defines:
                found[u] = None
    return tuple(found)


def lower_statements(sink: UOp) -> UOp:
    """`sink` with effects in place of buffers under END, GROUP and SINK."""
    done: dict[UOp, UOp] = {}
    for u in sink.toposort():
        src = tuple(done[s] for s in u.src)
        if u.op in (Ops.SINK, Ops.GROUP) and any(map(_is_buffer_state, src)):
            src = _statements(src)
        elif u.op is Ops.END and _is_buffer_state(src[0]):
            src = (UOp.group(*_statements(src[:1])), *src[1:])
        done[u] = u if src == u.src else u.replace(src=src)
    return done[sink]
