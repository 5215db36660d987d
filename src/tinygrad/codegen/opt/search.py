"""BEAM: optimisations found by timing kernels on the device.

A beam search over `actions`: each round tries every legal next Opt on the kept kernels, compiles them, times each once it
is worth it, and keeps the fastest `amt`. Kernels whose linear program was seen already are not timed again. The result is
remembered in the disk cache by the kernel's content, the target and the width of the beam.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING, Any

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.codegen.opt.ranges import const_size
from tinygrad.dtype import PtrDType
from tinygrad.helpers import (
    CACHELEVEL,
    DEBUG,
    IGNORE_BEAM_CACHE,
    ansilen,
    colored,
    diskcache_get,
    diskcache_put,
    getenv,
    time_to_str,
)
from tinygrad.uop.ops import AxisType, Ops, UOp

if TYPE_CHECKING:
    from tinygrad.device import Buffer

_MOST_LANES = 512
_MOST_UOPS = getenv("BEAM_UOPS_MAX", 3000)
_MOST_LOCAL = getenv("BEAM_LOCAL_MAX", 1024)
# a candidate that improves by less than this much ends the search
_WORTHWHILE = getenv("BEAM_MIN_PROGRESS", 0.01) / 1e6


def _all_actions() -> list[Opt]:
    every = [
        Opt(OptOps.UPCAST, axis, n) for n in (0, 2, 3, 4, 5, 7, 8, 16, 32, 64) for axis in range(8)
    ]
    every += [Opt(OptOps.UNROLL, axis, n) for n in (0, 4, 7, 16, 64) for axis in range(5)]
    every += [Opt(OptOps.LOCAL, axis, n) for n in (2, 3, 4, 8, 13, 16, 29) for axis in range(6)]
    every += [
        Opt(OptOps.GROUPTOP, axis, n)
        for n in (13, 16, 28, 29, 32, 49, 64, 256)
        for axis in range(3)
    ]
    every += [Opt(OptOps.GROUP, axis, n) for n in (0, 4, 8, 16) for axis in range(3)]
    every += [Opt(OptOps.TC, 0, (-1, 0, 1))]
    every += [Opt(OptOps.SWAP, a, b) for a, b in itertools.combinations(range(5), 2)]
    every += [
        Opt(OptOps.THREAD, axis, n)
        for n in (2, 3, 4, 5, 8, 12, 16, 24, 32, 64)
        for axis in range(3)
    ]
    if getenv("BEAM_PADTO", 0):
        every += [Opt(OptOps.PADTO, axis, n) for n in (32,) for axis in range(7)]
    if getenv("NOLOCALS", 0):
        every += [Opt(OptOps.NOLOCALS)]
    return every


actions: list[Opt] = _all_actions()


def _pointless(s: Scheduler, opt: Opt) -> bool:
    """The same as another action: an amount equal to the whole axis is written as 0."""
    if opt.op is OptOps.TC or opt.axis is None:
        return False
    try:
        axis = s.real_axis(opt.op, opt.axis)
    except KernelOptError:
        return True
    if axis >= s.shape_len:
        return True
    size = const_size(s.rngs[axis])
    if size is None or size <= 1:
        return True
    return size == opt.arg and Opt(opt.op, opt.axis, 0) in actions


def get_kernel_actions(s: Scheduler, include_0: bool = True) -> dict[int, Scheduler]:
    """{number of the action, counting from 1: the kernel after it} for every legal action; 0 is the kernel itself."""
    out = {0: s} if include_0 else {}
    for number, opt in enumerate(actions, 1):
        if _pointless(s, opt):
            continue
        candidate = s.copy()
        try:
            candidate.apply_opt(opt)
        except KernelOptError:
            continue
        lanes, local = candidate.upcast_size(), 1
        for i in candidate.axes_of(AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE):
            local *= const_size(candidate.rngs[i]) or 1
        if lanes <= _MOST_LANES and local <= _MOST_LOCAL:
            out[number] = candidate
    return out


def buffers_for(ast: UOp, ren) -> list[Buffer]:
    """Fresh buffers for the kernel's arguments, in slot order."""
    from tinygrad.device import Buffer

    params = sorted({u for u in ast.toposort() if u.op is Ops.DEFINE_GLOBAL}, key=lambda u: u.arg)
    sized = [(u.arg, u.dtype) for u in params if isinstance(u.dtype, PtrDType)]
    most = 1 + max((slot for slot, _ in sized), default=-1)
    by_slot = dict(sized)
    filler = sized[0][1] if sized else None
    made = []
    for slot in range(most):
        dtype = by_slot.get(slot, filler)
        assert dtype is not None
        made.append(Buffer(ren.device, max(1, dtype.size), dtype.base).allocate())
    return made


def _compile(s: Scheduler):
    """The program of a kernel, or None when it is too large or does not compile."""
    from tinygrad.codegen import full_rewrite_to_program
    from tinygrad.device import CompileError
    from tinygrad.engine.realize import CompiledRunner

    try:
        program = full_rewrite_to_program(s.get_optimized_ast(), s.ren)
        if len(program.uops) >= _MOST_UOPS:
            return None
        return CompiledRunner(program)
    except (CompileError, KernelOptError):
        return None


def _time(runner, bufs: list[Buffer], early_stop: float) -> float:
    """The best of a few runs in seconds, giving up where even the first is far behind."""
    best = math.inf
    var_vals = {
        v.arg[0]: (v.arg[1] + v.arg[2]) // 2 for v in runner.p.variables() if v.arg[0] != "core_id"
    }
    for _ in range(getenv("BEAM_RUNS", 3)):
        best = min(best, runner(bufs, var_vals, wait=True))
        if best > early_stop:
            break
    return best


def _beam_key(s: Scheduler, amt: int, allow_test_size: bool) -> dict:
    return {
        "ast": s.ast.key.hex(),
        "amt": amt,
        "allow_test_size": allow_test_size,
        "device": s.ren.device,
        "suffix": s.ren.suffix,
        "renderer": type(s.ren).__name__,
    }


def _applied_again(s: Scheduler, known: Any) -> Scheduler | None:
    """A copy of `s` with the opts that an earlier search found; None where there are none, or they no longer apply."""
    if not isinstance(known, (list, tuple)) or tuple(known[: len(s.applied_opts)]) != tuple(
        s.applied_opts
    ):
        return None
    found = s.copy()
    try:
        for opt in known[len(s.applied_opts) :]:
            found.apply_opt(opt)
    except Exception:  # the optimiser has changed since, so the entry is worth nothing
        return None
    return found


def beam_search(
    s: Scheduler,
    rawbufs: list[Buffer],
    amt: int,
    allow_test_size: bool = True,
    disable_cache: bool | int = 0,
) -> Scheduler:
    """The fastest kernel found by a beam of width `amt`, as a copy of `s` with its opts applied.

    The launches are timed at full size: on the targets supported here kernels are short enough, and a shrunken launch
    would be scaled by a guess.
    """
    cached = not disable_cache and not IGNORE_BEAM_CACHE and CACHELEVEL >= 1
    key = _beam_key(s, amt, allow_test_size)
    if cached and (found := _applied_again(s, diskcache_get("beam_search", key))) is not None:
        return found
    started, tried = time.perf_counter(), 0
    beam: list[tuple[Scheduler, float]] = [(s, math.inf)]
    seen: set[bytes] = set()
    while True:
        timed: list[tuple[Scheduler, float]] = []
        for parent, _ in beam:
            for candidate in get_kernel_actions(parent, include_0=False).values():
                runner = _compile(candidate)
                if runner is None or runner.lib in seen:
                    continue
                seen.add(runner.lib)
                tried += 1
                try:
                    seconds = _time(runner, rawbufs, beam[0][1] * 3)
                except RuntimeError:
                    continue
                timed.append((candidate, seconds))
                if DEBUG >= 2:
                    shape = candidate.colored_shape()
                    print(f"\r{tried:4d} {time_to_str(seconds, w=12)} {shape}\033[K", end="")
        if beam[0][1] == math.inf and (base := _compile(s)) is not None:
            timed.append((s, _time(base, rawbufs, math.inf)))
        timed.sort(key=lambda x: x[1])
        if not timed or beam[0][1] - timed[0][1] < _WORTHWHILE:
            break
        stop = timed[0][0] is s
        beam = timed[:amt]
        if stop:
            break
    best = beam[0][0]
    if DEBUG >= 2:
        shape = best.colored_shape()
        pad = " " * max(0, 40 - ansilen(shape))
        spent = time.perf_counter() - started
        print(
            f"\r{spent:6.2f}s: {tried:4d} tried {colored('best', 'green')} {shape}{pad} {best.applied_opts}\033[K"
        )
    if cached:
        diskcache_put("beam_search", key, best.applied_opts)
    return best
