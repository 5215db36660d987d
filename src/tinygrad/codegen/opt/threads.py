"""Splitting a kernel over threads: each thread gets a contiguous share of an output loop, shares differing by at most one.

The thread number is a range of kind THREAD, which lowering turns into the launch's `core_id`. Every loop nest of the
kernel is split: the chosen axis where it has it, else its longest loop; a nest too short for that is stored by the last
thread alone (all threads compute it: they would wait anyway).
"""

from __future__ import annotations

from collections.abc import Callable

from tinygrad.codegen.opt.ranges import axis_key, axis_type, const_size, substitute_ranges
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import AxisType, Ops, UOp

FreshRange = Callable[..., UOp]


def split_over_threads(ast: UOp, axis: UOp, threads: int, fresh_range: FreshRange) -> UOp:
    """The AST with each END's work divided among `threads`."""
    thread = fresh_range(threads, AxisType.THREAD)
    return ast.replace(
        src=tuple(_split_nest(end, axis, thread, threads, fresh_range) for end in ast.src)
    )


def _split_nest(end: UOp, axis: UOp, thread: UOp, threads: int, fresh_range: FreshRange) -> UOp:
    loops = [r for r in end.src[1:] if axis_type(r) in (AxisType.LOOP, AxisType.GLOBAL)]
    # a tail gave the chosen axis another end, so it is known by its number
    chosen = [r for r in loops if r.arg == axis.arg] or sorted(
        loops, key=lambda r: (-(const_size(r) or 0), axis_key(r))
    )
    if not chosen or (const_size(chosen[0]) or 0) < threads:
        return _store_on_last_thread(end, thread, threads)
    rng = chosen[0]
    size = const_size(rng) or 0
    share, extra = divmod(size, threads)
    if extra == 0:
        if share == 1:
            return substitute_ranges(end, {rng: thread})
        mine = rng.replace(src=(UOp.const(dtypes.index, share),))
        return substitute_ranges(end, {rng: thread * share + mine})
    has_extra = thread < extra
    count = has_extra.where(UOp.const(dtypes.index, share + 1), UOp.const(dtypes.index, share))
    first = thread * share + has_extra.where(thread, UOp.const(dtypes.index, extra))
    mine = rng.replace(src=(count,))
    return substitute_ranges(end, {rng: first + mine})


def _store_on_last_thread(end: UOp, thread: UOp, threads: int) -> UOp:
    last = thread.ne(threads - 1).logical_not()
    stores = {}
    for u in end.src[0].toposort():
        if u.op is Ops.STORE:
            index = u.src[0]
            idx = index.src[1]
            guarded = index.replace(
                src=(index.src[0], idx.get_idx().valid(idx.get_valid() & last), *index.src[2:])
            )
            stores[u] = u.replace(src=(guarded, *u.src[1:]))
    return end.replace(src=(end.src[0].substitute(stores), *end.src[1:], thread))
