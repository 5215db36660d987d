"""How a kernel touches memory: the stride of every load and store along every axis.

The heuristic decides from these numbers alone. Strides are in elements; None means that the address does not depend
linearly on the axis.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygrad.codegen.target import PICKED_STRIDES
from tinygrad.dtype import PtrDType
from tinygrad.uop.ops import Ops, UOp

Strides = dict[UOp, int | None]


def strides_of(idx: UOp) -> Strides:
    """The coefficient of each RANGE in a sum of products; None where it stands inside anything else."""
    found: Strides = {}
    pending = [(idx, 1)]
    while pending:
        u, factor = pending.pop()
        if u.op is Ops.ADD:
            pending += [(s, factor) for s in u.src]
        elif u.op is Ops.MUL and u.src[1].op is Ops.CONST:
            pending.append((u.src[0], factor * u.src[1].arg))
        elif u.op is Ops.RANGE:
            before = found.get(u, 0)
            found[u] = None if before is None else before + factor
        elif u.op is not Ops.CONST:
            for x in u.toposort():
                if x.op is Ops.RANGE:
                    found[x] = None
    return found


@dataclass(frozen=True)
class Access:
    """One INDEX of the kernel."""

    node: UOp
    is_store: bool
    in_reduce: bool
    itemsize: int
    strides: Strides
    guard: frozenset[UOp]

    def stride(self, rng: UOp) -> int | None:
        return self.strides.get(rng, 0)

    def friendly(self, rng: UOp) -> bool:
        """Along this axis a vector of lanes is one vector access or one value for all lanes."""
        return self.stride(rng) in (0, 1)

    def picked(self, rng: UOp) -> bool:
        """Along this axis a vector of lanes is picked from a few whole vectors."""
        return self.stride(rng) in PICKED_STRIDES

    def walks(self, rng: UOp) -> bool:
        """Along this axis lanes differ and come by whole vectors."""
        return self.stride(rng) in (1, *PICKED_STRIDES)


def accesses_of(ast: UOp) -> list[Access]:
    """All accesses, stores first, in graph order."""
    nodes = list(ast.toposort())
    stored = {u.src[0] for u in nodes if u.op is Ops.STORE}
    inside: set[UOp] = set()
    for u in nodes:
        if u.op is Ops.REDUCE:
            inside.update(u.src[0].toposort())
    out = []
    for u in nodes:
        if u.op is not Ops.INDEX:
            continue
        pointer = u.src[0].dtype
        itemsize = pointer.base.itemsize if isinstance(pointer, PtrDType) else u.dtype.itemsize
        valid = u.src[1].get_valid()
        guard = frozenset(x for x in valid.toposort() if x.op is Ops.RANGE)
        strides = strides_of(u.src[1].get_idx())
        out.append(Access(u, u in stored, u in inside, itemsize, strides, guard))
    return sorted(out, key=lambda a: not a.is_store)
