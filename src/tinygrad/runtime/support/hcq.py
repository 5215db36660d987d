"""Devices with hardware command queues.

A driver writes commands and values into a ring; a signal in memory counts up as they finish. What comes in: commands recorded
on an `HWQueue`, with values that may follow variables. What goes out: words handed to the device at `submit`. A device keeps a
timeline: work number n is finished when its signal has reached n. Backends derive from these classes; `HCQGraph` replays
captures on them.

Invariants: a queue runs its commands in order; different queues meet only at signals; a recorded queue may be submitted any
number of times, each time with other values of its variables.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from tinygrad.device import BufferSpec, Compiled, CompilerSet, LRUAllocator, ProfileDeviceEvent
from tinygrad.helpers import PROFILE, ProfileRangeEvent, getenv
from tinygrad.runtime.support.mmio import FileIOInterface, MMIOInterface
from tinygrad.uop.ops import UOp, sint, sym_infer

__all__ = [
    "FileIOInterface",
    "HCQAllocator",
    "HCQArgsState",
    "HCQBuffer",
    "HCQCompiled",
    "HCQProgram",
    "HCQSignal",
    "HWQueue",
    "MMIOInterface",
]

SIGNAL_SIZE = 16  # a value of 8 bytes, then the time it was reached
_TIMEOUT_MS = getenv("HCQ_TIMEOUT_MS", 30000)

SignalType = TypeVar("SignalType", bound="HCQSignal")
HCQDeviceType = TypeVar("HCQDeviceType", bound="HCQCompiled")


class HCQBuffer:
    """`size` bytes at the device address `va_addr` (which may be a variable), with a host view where there is one."""

    def __init__(
        self,
        va_addr: sint,
        size: int,
        texture_info: Any = None,
        meta: Any = None,
        _base: HCQBuffer | None = None,
        view: MMIOInterface | None = None,
        owner: HCQCompiled | None = None,
    ):
        self.va_addr, self.size, self.texture_info, self.meta = va_addr, size, texture_info, meta
        self._base, self.view, self.owner = _base, view, owner
        self._mappings: dict[HCQCompiled, HCQBuffer] = {}

    def offset(self, offset: int = 0, size: int | None = None) -> HCQBuffer:
        """A part of it, which shares mappings with the whole."""
        size = self.size - offset if size is None else size
        view = self.view.view(offset, size) if self.view is not None else None
        base = self if self._base is None else self._base
        return HCQBuffer(
            self.va_addr + offset, size, self.texture_info, self.meta, base, view, self.owner
        )

    def cpu_view(self) -> MMIOInterface:
        """The memory as the host sees it. Raises RuntimeError where it sees nothing."""
        if self.view is None:
            raise RuntimeError(
                "the host can't see this memory; allocate it with BufferSpec(cpu_access=True)"
            )
        return self.view

    @property
    def mappings(self) -> dict[HCQCompiled, HCQBuffer]:
        """How other devices address this memory."""
        return self._mappings if self._base is None else self._base.mappings

    @property
    def mapped_devs(self) -> list[HCQCompiled]:
        """The devices that can reach it."""
        return [*([self.owner] if self.owner is not None else []), *self.mappings]


class HCQSignal(Generic[HCQDeviceType]):
    """A counter in memory with the time of its last change. Without a buffer, one of the owner's is used."""

    def __init__(
        self,
        base_buf: HCQBuffer,
        value: int = 0,
        owner: HCQDeviceType | None = None,
        is_timeline: bool = False,
        timestamp_divider: int = 1000,
    ):
        self.base_buf, self.owner, self.is_timeline = base_buf, owner, is_timeline
        self.timestamp_divider = timestamp_divider
        self._words: MMIOInterface | None = None
        if isinstance(base_buf.va_addr, int):
            self._words = base_buf.cpu_view().view(0, SIGNAL_SIZE, "Q")
            self._words[0] = value

    def _memory(self) -> MMIOInterface:
        if self._words is None:
            raise RuntimeError(
                "this signal's address is a variable: only a submitted queue can use it"
            )
        return self._words

    @property
    def value_addr(self) -> sint:
        return self.base_buf.va_addr

    @property
    def timestamp_addr(self) -> sint:
        return self.base_buf.va_addr + 8

    @property
    def value(self) -> int:
        return self._memory()[0]

    @value.setter
    def value(self, new: int) -> None:
        self._memory()[0] = new

    @property
    def timestamp(self) -> Decimal:
        """Microseconds, on the device's clock."""
        return Decimal(self._memory()[1]) / Decimal(self.timestamp_divider)

    def wait(self, value: int, timeout: int | None = None) -> None:
        """Returns when the signal has reached `value`. Raises RuntimeError after `timeout` milliseconds."""
        limit = _TIMEOUT_MS if timeout is None else timeout
        start = time.perf_counter()
        while (reached := self.value) < value:
            waited = (time.perf_counter() - start) * 1000
            if waited > limit:
                raise RuntimeError(
                    f"waited {limit} ms for a signal: it is at {reached}, not {value}"
                )
            if waited > 1:
                time.sleep(0.0001)
        if self.is_timeline and self.owner is not None and self.owner.error_state is not None:
            raise self.owner.error_state


class HWQueue(Generic[SignalType, HCQDeviceType]):
    """A list of words for the hardware. Words that are expressions are worked out at each `submit`.

    A backend gives `signal`, `wait`, `timestamp`, `memory_barrier`, and `exec` or `copy`, each of which appends words with
    `q` and returns self, and `_submit`, which hands `words` to the device.
    """

    def __init__(self):
        self.words: list[int] = []
        self.expressions: list[tuple[int, UOp]] = []
        self.kept: list[Any] = []

    def q(self, *values: sint) -> None:
        """Appends words."""
        for value in values:
            if isinstance(value, UOp):
                self.expressions.append((len(self.words), value))
                value = 0
            self.words.append(value)

    def keep(self, thing: Any) -> int:
        """Keeps an object alive with the queue; its number can stand in a word."""
        self.kept.append(thing)
        return len(self.kept) - 1

    def bind(self, dev: HCQDeviceType) -> None:
        """Gives the queue memory of its own on `dev`, where the hardware profits from it."""

    def submit(self, dev: HCQDeviceType, var_vals: dict[str, int] | None = None):
        """Works out the expressions and hands the words over; returns self."""
        for place, expression in self.expressions:
            self.words[place] = sym_infer(expression, var_vals or {})
        self._submit(dev)
        return self

    def _submit(self, dev: HCQDeviceType) -> None:
        raise NotImplementedError(f"{type(self).__name__} gives no _submit")

    def signal(self, signal: SignalType, value: sint):
        raise NotImplementedError(f"{type(self).__name__} can't signal")

    def wait(self, signal: SignalType, value: sint):
        raise NotImplementedError(f"{type(self).__name__} can't wait")

    def timestamp(self, signal: SignalType):
        raise NotImplementedError(f"{type(self).__name__} has no clock")

    def memory_barrier(self):
        """Makes what other queues and the host wrote visible; nothing where memory is coherent."""
        return self

    def exec(self, prg: HCQProgram, args_state: HCQArgsState, global_size, local_size):
        raise NotImplementedError(f"{type(self).__name__} runs no kernels")

    def copy(self, dest: sint, src: sint, copy_size: int):
        raise NotImplementedError(f"{type(self).__name__} copies nothing")


@dataclass
class HCQArgsState:
    """The arguments of one launch: device addresses of buffers and the values of variables, which may be expressions."""

    prg: HCQProgram
    bufs: tuple[HCQBuffer, ...]
    vals: tuple[sint, ...] = ()


class HCQProgram(Generic[HCQDeviceType]):
    """A loaded program. A call records wait, launch and signal on a fresh compute queue and submits it."""

    args_state_t: type[HCQArgsState] = HCQArgsState

    def __init__(self, dev: HCQDeviceType, name: str, lib: bytes | None = None):
        self.dev, self.name, self.lib = dev, name, lib

    def fill_kernargs(
        self, bufs, vals: tuple[sint, ...] = (), kernargs: HCQBuffer | None = None
    ) -> HCQArgsState:
        """The arguments in the form `HWQueue.exec` takes."""
        return self.args_state_t(self, tuple(bufs), tuple(vals))

    def __call__(
        self, *bufs, global_size=(1, 1, 1), local_size=(1, 1, 1), vals=(), wait=False, **kw
    ) -> float | None:
        dev = self.dev
        queue = (
            dev.hw_compute_queue_t()
            .wait(dev.timeline_signal, dev.timeline_value - 1)
            .memory_barrier()
        )
        clock = (dev.new_signal(), dev.new_signal()) if wait or PROFILE else None
        if clock is not None:
            queue.timestamp(clock[0])
        queue.exec(self, self.fill_kernargs(bufs, vals), global_size, local_size)
        if clock is not None:
            queue.timestamp(clock[1])
        queue.signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
        if clock is None:
            return None
        if PROFILE:
            dev.pending_profile.append((self.name, *clock, False))
        if not wait:
            return None
        dev.synchronize()
        return float(clock[1].timestamp - clock[0].timestamp) * 1e-6


class HCQCompiled(Compiled, Generic[SignalType]):
    """A device with a compute queue, perhaps a copy queue, and a timeline."""

    records_launches = True
    cpu_devices: ClassVar[list] = []
    peer_groups: ClassVar[defaultdict[str, list]] = defaultdict(list)
    signal_pages: ClassVar[defaultdict[str, list]] = defaultdict(list)
    signal_pool: ClassVar[defaultdict[str, list]] = defaultdict(list)

    def __init__(
        self,
        device: str,
        allocator,
        compilers: CompilerSet,
        runtime,
        signal_t: type[SignalType],
        comp_queue_t: Callable[[], HWQueue],
        copy_queue_t: Callable[[], HWQueue] | None = None,
        kernargs_size=16 << 20,
        sigalloc_size=0x1000,
        graph: Any = None,
        group_id: str | None = None,
    ):
        """`graph` replays captures, `HCQGraph` if None; devices of one `group_id` reach each other (default: of one kind)."""
        if graph is None:
            from tinygrad.engine.queue_graph import HCQGraph as graph  # noqa: N813

        self.signal_t, self.hw_compute_queue_t, self.hw_copy_queue_t = (
            signal_t,
            comp_queue_t,
            copy_queue_t,
        )
        self.kernargs_size, self.sigalloc_size = kernargs_size, sigalloc_size
        self.error_state: Exception | None = None
        self.pending_profile: list[tuple] = []
        self.peer_group = device.partition(":")[0]
        group = self.peer_group if group_id is None else group_id
        super().__init__(device, allocator, compilers, runtime, graph, group_id=group)
        self.peer_groups[self.peer_group].append(self)
        self.timeline_value: int = 1

    @functools.cached_property
    def timeline_signal(self) -> Any:
        """Reaches n when work number n is finished; made when something is submitted first."""
        return self.new_signal(value=0, is_timeline=True)

    def new_signal(self, **kwargs) -> SignalType:
        """A signal in memory that all devices of the group can reach."""
        pool = self.signal_pool[self.peer_group]
        if not pool:
            page = self.allocator.alloc(
                self.sigalloc_size,
                BufferSpec(host=True, uncached=True, cpu_access=True, nolru=True),
            )
            self.signal_pages[self.peer_group].append(page)
            pool += [
                page.offset(at, SIGNAL_SIZE) for at in range(0, self.sigalloc_size, SIGNAL_SIZE)
            ]
        return self.signal_t(base_buf=pool.pop(), owner=self, **kwargs)

    def next_timeline(self) -> int:
        """The number of the work that is about to be submitted."""
        self.timeline_value += 1
        return self.timeline_value - 1

    def synchronize(self) -> None:
        if self.error_state is not None:
            raise self.error_state
        if self.timeline_value == 1:
            return  # nothing is in flight
        self.timeline_signal.wait(self.timeline_value - 1)
        if self.timeline_value > 1 << 31:
            self._wrap_timeline()

    def _wrap_timeline(self) -> None:
        """Starts the count again before it outgrows the hardware's 32 bits; nothing is in flight."""
        self.timeline_value, self.timeline_signal.value = 1, 0

    def device_props(self) -> dict[str, Any]:
        """What a profile should tell about the device."""
        return {}

    def _at_profile_finalize(self) -> None:
        self.synchronize()
        Compiled.profile_events.append(ProfileDeviceEvent(self.device, props=self.device_props()))
        for name, start, end, is_copy in self.pending_profile:
            event = ProfileRangeEvent(self.device, name, start.timestamp, end.timestamp, is_copy)
            Compiled.profile_events.append(event)
        self.pending_profile.clear()

    def finalize(self) -> None:
        try:
            self.synchronize()
        except RuntimeError as reason:
            print(f"{self.device} did not finish: {reason}")


class HCQAllocator(LRUAllocator[HCQDeviceType], Generic[HCQDeviceType]):
    """Memory of such a device: handles are HCQBuffers; the host waits for the device before it looks."""

    def map(self, buf: HCQBuffer) -> None:
        """Lets this device reach another's memory."""
        if self.dev not in buf.mapped_devs:
            buf.mappings[self.dev] = self._map(buf)

    def _map(self, buf: HCQBuffer) -> HCQBuffer:
        raise RuntimeError(f"{self.dev.device} can't reach memory of {buf.owner}")

    def _offset(self, buf: HCQBuffer, size: int, offset: int) -> HCQBuffer:
        return buf.offset(offset, size)

    def _copyin(self, dest: HCQBuffer, src: memoryview) -> None:
        self.dev.synchronize()
        dest.cpu_view().view(0, src.nbytes, "B")[:] = src.tobytes()

    def _copyout(self, dest: memoryview, src: HCQBuffer) -> None:
        self.dev.synchronize()
        dest[:] = bytes(src.cpu_view().view(0, dest.nbytes, "B").mv)

    def _transfer(
        self,
        dest: HCQBuffer,
        src: HCQBuffer,
        sz: int,
        src_dev: HCQDeviceType,
        dest_dev: HCQDeviceType,
    ) -> None:
        """Copies on the source's copy queue; the destination's next work waits for it."""
        self.map(dest)
        copier = src_dev.hw_copy_queue_t or src_dev.hw_compute_queue_t
        queue = copier().wait(src_dev.timeline_signal, src_dev.timeline_value - 1)
        queue.wait(dest_dev.timeline_signal, dest_dev.timeline_value - 1)
        done = src_dev.next_timeline()
        queue.copy(dest.va_addr, src.va_addr, sz).signal(src_dev.timeline_signal, done).submit(
            src_dev
        )
        if src_dev is not dest_dev:
            follow = dest_dev.hw_compute_queue_t().wait(src_dev.timeline_signal, done)
            follow.signal(dest_dev.timeline_signal, dest_dev.next_timeline()).submit(dest_dev)
