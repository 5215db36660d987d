"""Values that are kept in memory inside a kernel.

In: BUFFERIZE nodes with a local or register address space, and reductions whose axes are shared by
a group of threads (GROUP_REDUCE). Out: DEFINE_LOCAL or DEFINE_REG arrays, the stores that fill
them, barriers where threads exchange values, and reads that wait for both.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad.codegen.late.accumulate import RegisterNames
from tinygrad.codegen.late.scopes import Scopes
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, UOp

_PER_THREAD = (AxisType.WARP, AxisType.LOCAL)
_LANES = (AxisType.UPCAST, AxisType.UNROLL)


def _room(position: UOp) -> int:
    """How many values a position of an array can have; for symbolic sizes the largest number."""
    return int(position.vmax) + 1


def _row_major(indices: list[UOp], sizes: list[int]) -> UOp:
    flat = indices[0] if indices else UOp.const(dtypes.index, 0)
    for idx, size in zip(indices[1:], sizes[1:]):
        flat = flat * size + idx
    return flat


def _address_space(u: UOp) -> AddrSpace:
    return getattr(u.arg, "addrspace", AddrSpace.LOCAL)


def _materialise(u: UOp, kept_apart: list[UOp], names: RegisterNames, ren: Any) -> UOp:
    """The array that holds the value of BUFFERIZE `u`, to be read after it is full.

    It has one dimension per range that `u` closes, and, innermost, one per range in `kept_apart`.
    """
    space = _address_space(u)
    positions = [*u.src[1:], *kept_apart]
    sizes = [_room(p) for p in positions]
    ptr = u.dtype.scalar().ptr(math.prod(sizes), space)
    define = Ops.DEFINE_REG if space is AddrSpace.REG else Ops.DEFINE_LOCAL
    array = UOp(define, ptr, (), names.take())
    filled = array.index(_row_major(positions, sizes), ptr=True).store(u.src[0])
    loops = dict.fromkeys(r for p in u.src[1:] for r in p.toposort() if r.op is Ops.RANGE)
    closed = [*loops, *(r for r in kept_apart if r.arg[-1] in _LANES)]
    if closed:
        filled = filled.end(*closed)
    threads = (*_PER_THREAD, AxisType.GROUP_REDUCE)
    shared = any(r.arg[-1] in threads for r in [*loops, *kept_apart])
    if space is AddrSpace.LOCAL and shared and ren.has_local:
        filled = filled.barrier()
    return array.after(filled)


def lower_bufferize(sink: UOp, ren: Any) -> UOp:
    """Gives every BUFFERIZE of the kernel an array of its own.

    Lanes and threads around a BUFFERIZE each keep a value of their own.
    """
    if not any(u.op is Ops.BUFFERIZE for u in sink.toposort()):
        return sink
    scopes = Scopes(sink)
    names = RegisterNames(sink)
    done: dict[UOp, UOp] = {}
    apart: dict[UOp, list[UOp]] = {}
    for u in scopes.order:
        src = tuple(done[s] for s in u.src)
        if u.op is Ops.BUFFERIZE:
            threads = _address_space(u) is AddrSpace.LOCAL and ren.has_local
            kinds = (*_PER_THREAD, *_LANES) if threads else _LANES
            around = scopes.members(scopes.mask[u])
            apart[u] = [done[r] for r in around if r.arg[-1] in kinds]
            done[u] = _materialise(u.replace(src=src), apart[u], names, ren)
        elif u.op is Ops.INDEX and u.src[0].op is Ops.BUFFERIZE:
            kept = u.src[0]
            if len(src) != len(kept.src):
                raise RuntimeError(
                    f"a value kept over {len(kept.src) - 1} ranges is read with {len(src) - 1} "
                    "indices; give one index per range"
                )
            sizes = [_room(p) for p in [*kept.src[1:], *apart[kept]]]
            done[u] = u.replace(src=(src[0], _row_major([*src[1:], *apart[kept]], sizes)))
        else:
            done[u] = u if src == u.src else u.replace(src=src)
    return done[sink]


def _next_axis(ranges: list[UOp]) -> int:
    return max((a for r in ranges for a in r.arg[:-1] if isinstance(a, int)), default=-1) + 1


def split_group_reduces(sink: UOp) -> UOp:
    """A reduction by a group: each thread's part, exchanged through local memory, then the rest.

    The stores that follow are left to the first thread of the group.
    """
    scopes = Scopes(sink)
    grouped = [
        u
        for u in scopes.order
        if u.op is Ops.REDUCE and any(r.arg[-1] is AxisType.GROUP_REDUCE for r in u.src[1:])
    ]
    if not grouped:
        return sink
    axis = _next_axis(scopes.ranges)
    first_thread: dict[UOp, set[UOp]] = {}
    done: dict[UOp, UOp] = {}
    for u in scopes.order:
        src = tuple(done[s] for s in u.src)
        if u in grouped:
            members = [r for r in u.src[1:] if r.arg[-1] is AxisType.GROUP_REDUCE]
            open_ranges = scopes.members(scopes.mask[u])
            threads = [r for r in open_ranges if r.arg[-1] in _PER_THREAD]
            lanes = [r for r in open_ranges if r.arg[-1] in _LANES]
            kept = [r for r in src[1:] if r not in members]
            part = UOp(Ops.REDUCE, u.dtype, (src[0], *kept), u.arg) if kept else src[0]
            shared = UOp(
                Ops.BUFFERIZE,
                u.dtype,
                (part, *threads, *members, *lanes),
                _SharedArray(AddrSpace.LOCAL),
            )
            again = [UOp.range(r.src[0], axis + i, AxisType.REDUCE) for i, r in enumerate(members)]
            axis += len(again)
            total = UOp(Ops.INDEX, u.dtype, (shared, *threads, *again, *lanes))
            done[u] = UOp(Ops.REDUCE, u.dtype, (total, *again), u.arg)
            first_thread[u] = set(members)
        elif u.op is Ops.STORE:
            waits = {r for g in grouped if g in u.backward_slice for r in first_thread[g]}
            done[u] = _only_first(u.replace(src=src), sorted(waits, key=lambda r: str(r.arg)))
        else:
            done[u] = u if src == u.src else u.replace(src=src)
    return done[sink]


def _only_first(store: UOp, members: list[UOp]) -> UOp:
    """`store` behind "I am the first of the group"."""
    address = store.src[0]
    if not members or address.op is not Ops.INDEX:
        return store
    first = members[0].eq(0)
    for r in members[1:]:
        first = first & r.eq(0)
    gated = address.replace(src=(address.src[0], address.src[1].valid(first), *address.src[2:]))
    return store.replace(src=(gated, *store.src[1:]))


class _SharedArray:
    """BUFFERIZE argument of an array made here; equal to others of its address space."""

    def __init__(self, addrspace: AddrSpace):
        self.addrspace = addrspace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SharedArray) and other.addrspace is self.addrspace

    def __hash__(self) -> int:
        return hash(("_SharedArray", self.addrspace.value))

    def __repr__(self) -> str:
        return f"_SharedArray({self.addrspace})"
