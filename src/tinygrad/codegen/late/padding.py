"""Rounds vector axes up to whole registers where the lanes too many can be masked.

In: a kernel before its lane axes are expanded, and the axes that become vector lanes. Out: the same kernel with such an
axis longer, and every access along it guarded by "the lane is one of the first n". An axis of 14 lanes is then one
register of 16 instead of three of 8, 4 and 2: a third of the instructions, and of the code. What the lanes too many compute is
never stored. Only where a reduction repeats the work on the lanes, and for targets that mask lanes in hardware
(`masked_lanes`). Called by the expander.
"""

from __future__ import annotations

from typing import Any

from tinygrad._core import rebuilt
from tinygrad.codegen.late.memory import address_parts
from tinygrad.codegen.late.scopes import Scopes
from tinygrad.codegen.target import native_lanes
from tinygrad.dtype import AddrSpace
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

# narrower elements have no masks everywhere
_LEAST_BYTES = 4


def padded_lanes(lanes: int, native: int) -> int:
    """`lanes`, or more where the part that fills no register takes more than one smaller vector."""
    rest = lanes % native
    if rest & (rest - 1) == 0:
        return lanes
    return lanes - rest + (1 << rest.bit_length())


def pad_vector_axes(
    sink: UOp, scopes: Scopes, axes: set[UOp], strides: Any, ren: Any
) -> tuple[UOp, set[UOp]]:
    """The kernel and its vector axes, padded where that is possible and worth it.

    `strides(idx, r)`: by how many elements an index moves along `r`, None where that is not one number.
    """
    if not getattr(ren, "masked_lanes", False):
        return sink, axes
    native = native_lanes(ren)
    longer: dict[UOp, UOp] = {}
    for r in axes:
        lanes = int(r.vmax) + 1
        padded = padded_lanes(lanes, native)
        if padded == lanes or not _is_repeated(scopes, r):
            continue
        if _can_be_masked(scopes, r, strides):
            longer[r] = r.replace(src=(r.src[0].const_like(padded),))
    if not longer:
        return sink, axes
    return _rebuild(scopes, longer), {longer.get(r, r) for r in axes}


def _is_repeated(scopes: Scopes, r: UOp) -> bool:
    """Whether a reduction inside the axis is computed for each of its lanes."""
    return any(u.op is Ops.REDUCE and scopes.mask[u] & scopes.bit[r] for u in scopes.order)


def _can_be_masked(scopes: Scopes, r: UOp, strides: Any) -> bool:
    """Whether nothing but memory can tell how long the axis is, and all accesses along it can be masked."""
    bit = scopes.bit[r]
    addresses = set()
    for u in scopes.order:
        if u.op is Ops.REDUCE and r in u.src[1:]:
            return False
        if u.op not in (Ops.LOAD, Ops.STORE) or not scopes.mask[u] & bit:
            continue
        parts = address_parts(u.src[0])
        if parts is None or parts[0].dtype.addrspace is not AddrSpace.GLOBAL:
            return False
        if parts[0].dtype.base.itemsize < _LEAST_BYTES:
            return False
        stride = strides(parts[1], r)
        if stride is None or (stride == 0 and u.op is Ops.STORE):
            return False
        addresses.add(u.src[0])
    return all(u in addresses for u in scopes.order if u.op is Ops.INDEX and scopes.mask[u] & bit)


def _rebuild(scopes: Scopes, longer: dict[UOp, UOp]) -> UOp:
    done: dict[UOp, UOp] = {}
    for u in scopes.order:
        new = longer.get(u)
        if new is None:
            new = rebuilt(u, done)
            along = [
                r for r in longer if u.op is Ops.INDEX and scopes.mask[u.src[1]] & scopes.bit[r]
            ]
            for r in along:
                inside = longer[r] < int(r.vmax) + 1
                gate = inside if len(new.src) < 3 else new.src[2] & inside
                new = new.replace(src=(*new.src[:2], gate))
        done[u] = new
    return done[scopes.order[-1]]
