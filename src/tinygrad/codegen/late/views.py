"""Shaped views of buffers inside a kernel become index arithmetic.

In: kernels written by hand, which index reshaped, sliced or permuted buffers with one index per
axis, and that name a buffer "after" its stores as a statement. Out: every INDEX addresses a flat
buffer with one index, and statements are stores and loops. What orders accesses (AFTER) moves below
the view.
"""

from __future__ import annotations

import math

from tinygrad.dtype import PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp


def _flat_index(indices: list[UOp], shape: tuple) -> UOp:
    flat = UOp.const(dtypes.index, 0)
    for idx, size in zip(indices, shape):
        flat = flat * size + idx
    return flat


def _indices_of(flat: UOp, shape: tuple) -> list[UOp]:
    below = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return [(flat // b) % s for b, s in zip(below, shape)]


def step_through(view: UOp, indices: list[UOp]) -> list[UOp]:
    """Indices into the source of a movement op, from indices into its result."""
    inner = view.src[0].shape
    if view.op is Ops.RESHAPE:
        return _indices_of(_flat_index(indices, view.shape), inner)
    if view.op is Ops.PERMUTE:
        return [indices[view.marg.index(axis)] for axis in range(len(inner))]
    if view.op is Ops.SHRINK:
        return [idx + begin for idx, (begin, _) in zip(indices, view.marg)]
    if view.op is Ops.FLIP:
        pairs = zip(indices, inner, view.marg)
        return [(size - 1) - idx if flipped else idx for idx, size, flipped in pairs]
    if view.op is Ops.EXPAND:
        zero = UOp.const(dtypes.index, 0)
        return [
            zero if not isinstance(size, UOp) and size == 1 else idx
            for idx, size in zip(indices, inner)
        ]
    raise NotImplementedError(f"a kernel indexes through {view.op}; write the index out instead")


def _address(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """INDEX `u` with sources `src`, on the flat buffer."""
    base, indices = src[0], list(src[1:])
    waits: list[UOp] = []
    seen_view = False
    while base.op is Ops.AFTER or base.op in GroupOp.Movement:
        if base.op is Ops.AFTER:
            waits = [*base.src[1:], *waits]
        else:
            indices = step_through(base, indices)
            seen_view = True
        base = base.src[0]
    if not seen_view:
        return u if src == u.src else u.replace(src=src)
    if waits:
        base = base.after(*dict.fromkeys(waits))
    return u.replace(src=(base, *indices))


def _statements(src: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """A buffer after its stores, as a statement, is those stores."""
    found: dict[UOp, None] = {}
    for s in src:
        pending = [s]
        while pending:
            u = pending.pop()
            if u.op is Ops.AFTER and isinstance(u.dtype, PtrDType):
                # earlier stores are sources of the later ones
                pending += [*reversed(u.src[1:]), u.src[0]]
            elif u.op is Ops.RANGE or u.op in GroupOp.Defines or u.op in GroupOp.Movement:
                continue
            else:
                found[u] = None
    return tuple(found)


def lower_views(sink: UOp) -> UOp:
    """`sink` with flat indices, and with statements instead of buffers under END and SINK."""
    done: dict[UOp, UOp] = {}
    for u in sink.toposort():
        src = tuple(done[s] for s in u.src)
        if u.op is Ops.INDEX:
            done[u] = _address(u, src)
            continue
        if u.op in (Ops.SINK, Ops.GROUP) and any(s.op is Ops.AFTER for s in src):
            src = _statements(src)
        elif u.op is Ops.END and src[0].op is Ops.AFTER and isinstance(src[0].dtype, PtrDType):
            src = (UOp.group(*_statements(src[:1])), *src[1:])
        done[u] = u if src == u.src else u.replace(src=src)
    return done[sink]
