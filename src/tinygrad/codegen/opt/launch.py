"""The heuristic for targets that launch a grid of work items in groups.

Neighbouring work items should touch neighbouring memory: the contiguous output axis gives the local dimension. Each item
computes four contiguous outputs where the target loads four at once, and four along an axis that reuses its loads.
"""

from __future__ import annotations

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.codegen.opt.access import accesses_of
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.codegen.opt.ranges import axis_type, const_size
from tinygrad.helpers import NOLOCALS
from tinygrad.uop.ops import AxisType, UOp

_GROUP_SIZES = (16, 8, 4, 3, 2)
_MOST_LOCAL = 128


def _try(k: Scheduler, op: OptOps, rng: UOp, amount: int) -> bool:
    if rng not in k.rngs:
        return False
    try:
        k.apply_opt(Opt(op, k.rngs.index(rng), amount))
    except KernelOptError:
        return False
    return True


def optimise_for_launch(k: Scheduler) -> None:
    """Applies UPCAST, UNROLL and LOCAL opts, or NOLOCALS."""
    accesses = accesses_of(k.ast)
    outputs = [r for r in k.rngs if axis_type(r) is AxisType.GLOBAL and (const_size(r) or 0) > 1]
    loads = [a for a in accesses if not a.is_store]
    contiguous = [r for r in outputs if any(a.stride(r) == 1 for a in accesses)]
    for rng in reversed(outputs):
        size = const_size(rng) or 0
        shared = any(a.stride(rng) == 0 for a in loads) and k.reduceop is not None
        if k.upcast_size() < 16 and size % 4 == 0 and size >= 16 and (shared or rng in contiguous):
            _try(k, OptOps.UPCAST, rng, 4)
    if k.unrollable_dims and k.upcast_size() <= 16:
        last = len(k.unrollable_dims) - 1
        size = const_size(k.rngs[k.unrollable_dims[last]]) or 0
        amount = 0 if size <= 4 else 4 if size % 4 == 0 else None
        if amount is not None:
            try:
                k.apply_opt(Opt(OptOps.UNROLL, last, amount))
            except KernelOptError:
                pass
    if NOLOCALS:
        try:
            k.apply_opt(Opt(OptOps.NOLOCALS))
        except KernelOptError:
            pass
        return
    _choose_locals(k)


def _choose_locals(k: Scheduler) -> None:
    """Groups along the innermost output axes, up to the group size."""
    group = 1
    for position in reversed(k.axes_of(AxisType.GLOBAL)):
        size = const_size(k.rngs[position]) or 0
        for amount in _GROUP_SIZES:
            if size % amount == 0 and group * amount <= _MOST_LOCAL:
                if _try(k, OptOps.LOCAL, k.rngs[position], amount):
                    group *= amount
                break
