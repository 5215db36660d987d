"""Captured launches on devices with command queues.

In: lowered items on one or several devices of a group. Out: for each device one compute queue, and one copy queue where it has
one, recorded once; a call works out addresses and values that changed and submits each queue once. Items on different queues
that touch the same memory meet at signals.

Invariants: an item waits for the last writer of what it reads, and for the last writer and all readers since of what it
writes; items of one queue are in order anyway.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

from tinygrad.device import Buffer, Compiled, ProfileGraphEntry, ProfileGraphEvent
from tinygrad.dtype import dtypes
from tinygrad.engine.graph import MultiGraphRunner
from tinygrad.engine.realize import BufferXfer, CompiledRunner, ExecItem
from tinygrad.helpers import PROFILE, dedup
from tinygrad.runtime.support.hcq import HCQBuffer, HCQCompiled, HWQueue
from tinygrad.uop.ops import UOp, Variable

_ADDRESS_BITS = (1 << 64) - 1


class HCQGraph(MultiGraphRunner):
    """See the module. A place for an input's address is the variable `input_<number>`."""

    def __init__(
        self, jit_cache: list[ExecItem], input_rawbuffers: list[Buffer], var_vals: dict[str, int]
    ):
        super().__init__(jit_cache, input_rawbuffers, var_vals)
        names = dedup([b.device for item in jit_cache for b in item.bufs if b is not None])
        self.devices: list[Any] = [Buffer(name, 1, dtypes.uint8).allocator.dev for name in names]
        self.queues: dict[tuple[HCQCompiled, bool], HWQueue] = {}
        self.signals: dict[tuple[HCQCompiled, bool], Any] = {}
        self.steps: dict[tuple[HCQCompiled, bool], int] = defaultdict(int)
        self.clocks: list[tuple[ExecItem, HCQCompiled, Any, Any, bool]] = []
        # memory -> (queue, number) of its last writer, and of its readers since
        self.writer: dict[Any, tuple] = {}
        self.readers: dict[Any, list[tuple]] = defaultdict(list)
        self.deps: list[list[int]] = []
        self.round = UOp.variable("graph_round", 0, _ADDRESS_BITS, dtypes.uint64)
        for device in self.devices:
            self._queue(device, False)
        for j, item in enumerate(jit_cache):
            self._add(j, item)
        self._finish()
        self.rounds = 0
        self.last_timeline = dict.fromkeys(self.devices, 0)

    # recording

    def dev_name(self, dev) -> str:
        """How variables name a device."""
        return dev.device.replace(":", "_")

    def _start_variable(self, dev: HCQCompiled) -> Variable:
        return UOp.variable(f"start_{self.dev_name(dev)}", 0, _ADDRESS_BITS, dtypes.uint64)

    def _queue(self, dev: HCQCompiled, copies: bool) -> tuple[HCQCompiled, bool]:
        key = (dev, copies and dev.hw_copy_queue_t is not None)
        if key not in self.queues:
            make = dev.hw_copy_queue_t if key[1] else dev.hw_compute_queue_t
            assert make is not None
            queue = make()
            queue.wait(dev.timeline_signal, self._start_variable(dev) - 1).memory_barrier()
            self.queues[key], self.signals[key] = queue, dev.new_signal()
        return key

    def _count(self, key: tuple) -> int:
        """How many items the whole graph puts on a queue; its signal grows by that in each round."""
        return sum(1 for item in self.jit_cache if self._key_of(item) == key)

    def _key_of(self, item: ExecItem) -> tuple:
        copies = isinstance(item.prg, BufferXfer)
        source = item.bufs[1] if copies else item.bufs[0]
        assert source is not None
        dev: Any = source.allocator.dev
        return dev, copies and dev.hw_copy_queue_t is not None

    def _add(self, j: int, item: ExecItem) -> None:
        key = self._key_of(item)
        queue = self.queues[self._queue(*key)]
        waits = self._waits(j, item, key)
        for other, step in waits:
            queue.wait(self.signals[other], self._reached(other, step))
        dev, number = key[0], self.steps[key]
        clock = (dev.new_signal(), dev.new_signal()) if PROFILE else None
        if clock:
            queue.timestamp(clock[0])
        if isinstance(item.prg, CompiledRunner):
            self._add_kernel(j, item, queue)
        else:
            dest, src = (self._address(j, slot, item) for slot in (0, 1))
            queue.copy(dest.va_addr, src.va_addr, item._buffer(0).nbytes)
        if clock:
            queue.timestamp(clock[1])
            self.clocks.append((item, dev, *clock, isinstance(item.prg, BufferXfer)))
        self.steps[key] = number + 1
        queue.signal(self.signals[key], self._reached(key, number + 1))

    def _reached(self, key: tuple, step: int) -> UOp:
        """The value a queue's signal has after `step` items of the current round."""
        return self.round * self._count(key) + step

    def _waits(self, j: int, item: ExecItem, key: tuple) -> list[tuple[tuple, int]]:
        """For each other queue, the step of it that `item` waits for; and notes what it reads and writes."""
        outs, ins = self._slots(item)
        needed: list[tuple] = []
        for slot in (*ins, *outs):
            if (written := self.writer.get(self._memory_key(j, slot, item))) is not None:
                needed.append(written)
        for slot in outs:
            needed += self.readers.pop(self._memory_key(j, slot, item), [])
        here = (key, self.steps[key] + 1, j)
        for slot in ins:
            self.readers[self._memory_key(j, slot, item)].append(here)
        for slot in outs:
            self.writer[self._memory_key(j, slot, item)] = here
        self.deps.append(sorted({index for _, _, index in needed if index != j}))
        latest: dict[tuple, int] = {}
        for other, step, _ in needed:
            if other != key:
                latest[other] = max(step, latest.get(other, 0))
        return list(latest.items())

    @staticmethod
    def _slots(item: ExecItem) -> tuple[list[int], list[int]]:
        if isinstance(item.prg, CompiledRunner):
            return list(item.prg.facts.outs), list(item.prg.facts.ins)
        return [0], [1]

    def _memory_key(self, j: int, slot: int, item: ExecItem) -> Any:
        """Views of one base count as the same memory."""
        number = self.input_replace.get((j, slot))
        return ("input", number) if number is not None else item._buffer(slot).base

    def _address(self, j: int, slot: int, item: ExecItem) -> HCQBuffer:
        number, buf = self.input_replace.get((j, slot)), item._buffer(slot)
        if number is None:
            return buf._buf
        return HCQBuffer(
            UOp.variable(f"input_{number}", 0, _ADDRESS_BITS, dtypes.uint64), buf.nbytes
        )

    def _add_kernel(self, j: int, item: ExecItem, queue: HWQueue) -> None:
        prg: Any = item.prg
        slots = range(len(item.bufs)) if len(item.bufs) == len(prg._slots) else prg._slots
        handles = [self._address(j, slot, item) for slot in slots]
        known = {v.expr: v for v in prg.p.variables()}
        vals = tuple(item.fixedvars.get(name, known[name]) for name in prg._var_names)
        global_size, local_size = prg.p.sizes
        queue.exec(prg._prg, prg._prg.fill_kernargs(handles, vals), global_size, local_size)

    def _finish(self) -> None:
        """Each device's timeline moves on when all of its queues are done."""
        for key, queue in self.queues.items():
            dev, copies = key
            if copies:
                continue
            for other in self.queues:
                if other != key and other[0] is dev:
                    queue.wait(self.signals[other], self._reached(other, self._count(other)))
            queue.signal(dev.timeline_signal, self._start_variable(dev))
            queue.bind(dev)

    # replay

    def __call__(
        self, rawbufs: list[Buffer], var_vals: dict[str, int], wait: bool = False
    ) -> float | None:
        for (
            device
        ) in self.devices:  # the queues' words belong to the round before until it has finished
            device.timeline_signal.wait(self.last_timeline[device])
        values = {**var_vals, "graph_round": self.rounds}
        values.update((f"input_{number}", buf._buf.va_addr) for number, buf in enumerate(rawbufs))
        for device in self.devices:
            values[f"start_{self.dev_name(device)}"] = self.last_timeline[device] = (
                device.next_timeline()
            )
        for (dev, _), queue in self.queues.items():
            queue.submit(dev, values)
        self.rounds += 1
        if PROFILE and self.clocks:
            self.collect_timestamps()
        if not wait:
            return None
        started = min((c[2].timestamp for c in self.clocks), default=Decimal(0))
        for device in self.devices:
            device.synchronize()
        return float(max((c[3].timestamp for c in self.clocks), default=started) - started) * 1e-6

    def collect_timestamps(self):
        """Waits for the round and records when each of its items ran."""
        for device in self.devices:
            device.synchronize()
        entries, times = [], []
        for item, dev, start, end, is_copy in self.clocks:
            name = item.prg.display_name if item.prg is not None else item.ast.op.name
            entries.append(ProfileGraphEntry(dev.device, name, len(times), len(times) + 1, is_copy))
            times += [start.timestamp, end.timestamp]
        Compiled.profile_events.append(ProfileGraphEvent(entries, self.deps, times))

    @staticmethod
    def supports_exec_item(devs: list[Compiled], ei: ExecItem) -> bool:
        """Kernels, and transfers within a group, on devices with queues."""
        if not all(isinstance(d, HCQCompiled) for d in devs):
            return False
        takes = isinstance(ei.prg, (CompiledRunner, BufferXfer))
        return takes and len({d.group_id for d in devs}) == 1
