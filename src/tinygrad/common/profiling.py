"""Time and counters: what ran, how long, and under which name. Events are recorded only while PROFILE is on."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

from tinygrad.common.env import PROFILE, getenv
from tinygrad.common.text import colored


class GlobalCounters:
    """Totals since the last `reset`: operations, bytes moved, kernels, seconds; and bytes allocated now.

    >>> GlobalCounters.reset()
    >>> _ = (Tensor([1.0, 2.0]).realize() + 1).realize()
    >>> GlobalCounters.kernel_count > 0
    True
    """

    kernel_count: ClassVar[int] = 0
    time_sum_s: ClassVar[float] = 0.0
    global_ops: ClassVar[int] = 0
    global_mem: ClassVar[int] = 0
    # not reset: what is allocated stays allocated
    mem_used: ClassVar[int] = 0

    @staticmethod
    def reset() -> None:
        """Zeroes everything but the memory in use."""
        GlobalCounters.global_ops = GlobalCounters.global_mem = GlobalCounters.kernel_count = 0
        GlobalCounters.time_sum_s = 0.0


@dataclass(frozen=True)
class Metadata:
    """Which user-level call made a node."""

    name: str
    caller: str
    backward: bool = False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"{self.name} - {self.caller}" + (" bw" if self.backward else "")

    def __str__(self) -> str:
        return self.name + (" bw" if self.backward else "")


_METADATA: contextvars.ContextVar[Metadata | None] = contextvars.ContextVar(
    "_METADATA", default=None
)


class Timing(contextlib.ContextDecorator):
    """Prints how long its block took, in milliseconds; `on_exit(ns)` may add text."""

    def __init__(
        self, prefix: str = "", on_exit: Callable[[int], str] | None = None, enabled: bool = True
    ):
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self) -> Timing:
        self.st = time.perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        self.et = time.perf_counter_ns() - self.st
        if self.enabled:
            extra = self.on_exit(self.et) if self.on_exit else ""
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms{extra}")


class Profiling(contextlib.ContextDecorator):
    """Profiles its block with cProfile and prints the top `frac` of the functions."""

    def __init__(
        self,
        enabled: bool = True,
        sort: str = "cumtime",
        frac: float = 0.2,
        fn: str | None = None,
        ts: float = 1,
    ):
        self.enabled, self.sort, self.frac, self.fn, self.time_scale = (
            enabled,
            sort,
            frac,
            fn,
            1e3 / ts,
        )

    def __enter__(self) -> Profiling:
        import cProfile

        self.profile = cProfile.Profile()
        if self.enabled:
            self.profile.enable()
        return self

    def __exit__(self, *exc: object) -> None:
        self.profile.disable()
        if not self.enabled:
            return
        import pstats

        if self.fn:
            self.profile.dump_stats(self.fn)
        stats = pstats.Stats(self.profile).strip_dirs().sort_stats(self.sort)
        shown = stats.fcn_list[: int(len(stats.fcn_list) * self.frac)]  # type: ignore[attr-defined]
        for where in shown:
            _, calls, own, total, _ = stats.stats[where]  # type: ignore[attr-defined]
            times = f"tm:{own * self.time_scale:9.2f}ms tot:{total * self.time_scale:9.2f}ms"
            place = f"{where[0].replace('.py', '')}:{where[1]}"
            print(f"n:{calls:8d}  {times}  {colored(place.ljust(50), 'yellow')} {where[2]}")


# *** events ***


def perf_counter_us() -> Decimal:
    return Decimal(time.perf_counter_ns()) / 1000


@functools.cache
def _tracing() -> bool:
    return bool(getenv("VIZ", 0)) or bool(getenv("PROFILE", 0))


def _call_stack() -> tuple[tuple, ...] | None:
    """(file, line, function, "") of the callers, innermost first; None when nobody will look at it."""
    if not _tracing():
        return None
    frame, frames = sys._getframe(2), []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, ""))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(frames)


@dataclass(frozen=True)
class TracingKey:
    """The name of a traced step, the keys by which steps refer to each other, and its result."""

    display_name: str
    keys: tuple[Any, ...] = ()
    ret: Any = None
    tb: tuple[tuple, ...] | None = field(default_factory=_call_stack)


class ProfileEvent:
    """The base of everything that may stand in a profile."""


@dataclass
class ProfileRangeEvent(ProfileEvent):
    """Something that took from `st` to `en` (microseconds) on `device`."""

    device: str
    name: str | TracingKey
    st: Decimal
    en: Decimal | None = None
    is_copy: bool = False


@dataclass(frozen=True)
class ProfilePointEvent(ProfileEvent):
    """Something that happened at one moment."""

    device: str
    name: str
    key: Any
    arg: dict = field(default_factory=dict)
    ts: Decimal = field(default_factory=perf_counter_us)


cpu_events: list[ProfileEvent] = []


@contextlib.contextmanager
def cpu_profile(
    name: str | TracingKey, device: str = "TINY", is_copy: bool = False, display: bool = True
) -> Iterator[ProfileRangeEvent]:
    """Records its block as one range."""
    event = ProfileRangeEvent(device, name, perf_counter_us(), is_copy=is_copy)
    try:
        yield event
    finally:
        event.en = perf_counter_us()
        if PROFILE and display:
            cpu_events.append(event)


def profile_marker(name: str, color: str = "gray") -> None:
    """Records a named moment."""
    if not PROFILE:
        return
    cpu_events.append(ProfilePointEvent("TINY", "marker", None, {"name": name, "color": color}))
