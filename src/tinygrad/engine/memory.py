"""The memory plan: buffers that are never alive together share memory.

In: for each step of a schedule, the buffers it touches. Out: for each buffer that may move, the buffer to use instead: a
part of one arena a device, or, where a device has no views, another buffer of the same size. A buffer may move when
nothing but the schedule knows it: it has no memory yet and no graph node names it.

Invariants: two bases with overlapping lifetimes (first to last step, both included) never overlap in memory; a view stays
at its offset in whatever its base became. Called by the scheduler and by TinyJit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tinygrad.device import Buffer, Device
from tinygrad.dtype import dtypes
from tinygrad.helpers import DEBUG, NO_MEMORY_PLANNER, round_up, size_to_str
from tinygrad.runtime.support.memory import TLSFAllocator
from tinygrad.uop import Ops

if TYPE_CHECKING:
    from tinygrad.engine.realize import ExecItem

# offsets are multiples of this: a cache line pair, and more than any vector access wants
_ALIGN = 256


class _Lifetimes:
    """First and last step of every base that may move, in order of first use."""

    def __init__(self, steps: Sequence[Iterable[Buffer]], fixed: set[Buffer], ignore_checks: bool):
        self.first: dict[Buffer, int] = {}
        self.last: dict[Buffer, int] = {}
        self.views: dict[Buffer, Buffer] = {}
        for number, step in enumerate(steps):
            for buf in step:
                base = buf.base
                if base in fixed or (not ignore_checks and _is_known_outside(base)):
                    continue
                self.first.setdefault(base, number)
                self.last[base] = number
                if buf is not base:
                    self.views[buf] = base

    def events(self) -> list[tuple[int, int, int, Buffer]]:
        """(step, 0 to take or 1 to give back, rank, base) in order of time; within a step all are taken first."""
        takes = [(step, 0, rank, base) for rank, (base, step) in enumerate(self.first.items())]
        gives = [(self.last[base], 1, rank, base) for rank, base in enumerate(self.first)]
        return sorted(takes + gives, key=lambda event: event[:3])


def _is_known_outside(base: Buffer) -> bool:
    return base.is_allocated() or base.uop_refcount > 0


def _has_views(base: Buffer) -> bool:
    if base.options is not None and base.options.image is not None:
        return False
    return hasattr(Device[base.device].allocator, "_offset")


class _Arena:
    """The offsets of all bases that share one buffer; `peak` bytes are needed in the end."""

    def __init__(self, room: int):
        self.offsets, self.peak = TLSFAllocator(room, block_size=_ALIGN), 0
        self.places: dict[Buffer, int] = {}

    def take(self, base: Buffer) -> None:
        size = round_up(base.nbytes, _ALIGN)
        self.places[base] = start = self.offsets.alloc(size)
        self.peak = max(self.peak, start + size)

    def give(self, base: Buffer) -> None:
        self.offsets.free(self.places[base])


def _internal_memory_planner(
    buffers: Sequence[Iterable[Buffer]], noopt_buffers=None, ignore_checks=False, debug_prefix=""
) -> dict[Buffer, Buffer]:
    """What each buffer becomes; buffers that stay are not in the result.

    `noopt_buffers` stay where they are; `ignore_checks` moves also buffers that are known outside of the schedule.
    """
    if NO_MEMORY_PLANNER:
        return {}
    fixed = {b.base for b in noopt_buffers or ()}
    life = _Lifetimes([list(step) for step in buffers], fixed, ignore_checks)
    room = 2 * sum(round_up(base.nbytes, _ALIGN) for base in life.first) + _ALIGN
    arenas: dict[tuple, _Arena] = {}
    spare: dict[tuple, list[Buffer]] = {}
    moved: dict[Buffer, Buffer] = {}
    for _, gives_back, _, base in life.events():
        lane = (base.device, base.options)
        if _has_views(base):
            arena = arenas.get(lane) or arenas.setdefault(lane, _Arena(room))
            (arena.give if gives_back else arena.take)(base)
        elif gives_back:
            spare.setdefault((*lane, base.dtype, base.size), []).append(moved.get(base, base))
        elif kept := spare.get((*lane, base.dtype, base.size)):
            moved[base] = kept.pop()
    _move_into_arenas(arenas, moved)
    for view, base in life.views.items():
        if (home := moved.get(base)) is not None:
            moved[view] = home.view(view.size, view.dtype, view.offset)
    _report(life, arenas, debug_prefix)
    return moved


def _move_into_arenas(arenas: dict[tuple, _Arena], moved: dict[Buffer, Buffer]) -> None:
    for (device, options), arena in arenas.items():
        home = Buffer(device, arena.peak, dtypes.int8, options=options)
        for base, start in arena.places.items():
            moved[base] = Buffer(device, base.size, base.dtype, base=home, offset=start)


def _report(life: _Lifetimes, arenas: dict[tuple, _Arena], prefix: str) -> None:
    if DEBUG < 1 or not life.first:
        return
    before = sum(base.nbytes for base in life.first)
    peak = sum(arena.peak for arena in arenas.values())
    if before > peak:
        print(
            f"{prefix}memory plan: {size_to_str(before)} in {len(life.first)} buffers -> {size_to_str(peak)}"
        )


def memory_planner(schedule: list[ExecItem]) -> list[ExecItem]:
    """The schedule with its private buffers sharing memory; the items are new, and not lowered."""
    if NO_MEMORY_PLANNER:
        return schedule
    # a view made by a step lies where its base lies, so both stay
    fixed = {
        b for item in schedule if item.ast.op is Ops.BUFFER_VIEW for b in item.bufs if b is not None
    }
    steps = [[b for b in item.bufs if b is not None] for item in schedule]
    moved = _internal_memory_planner(steps, noopt_buffers=fixed)
    if not moved:
        return schedule
    return [
        replace(item, bufs=[None if b is None else moved.get(b, b) for b in item.bufs])
        for item in schedule
    ]
