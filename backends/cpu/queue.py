"""Command queues on the host: lists that are recorded once and submitted often, with other values each time.

In: commands as `tinygrad.runtime.support.hcq` records them. Out: their effects, in order, by one thread per device, so that a
list may wait for a signal that another device or the host sets later. Tensors do not go this way: their kernels are
launched at once and are finished when the call returns (`device.py`).
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from tinygrad.backends.cpu._pool import HostBuffer

from tinygrad.helpers import CPU_COUNT, to_mv
from tinygrad.runtime.support.hcq import HCQArgsState, HWQueue

# a list of words is commands: code, number of operands, operands
_SIGNAL, _WAIT, _STAMP, _EXEC = range(4)


class CPUQueue(HWQueue):
    """A compute queue; the host's memory is coherent and its kernels see what came before without barriers."""

    def _command(self, code: int, *operands) -> CPUQueue:
        self.q(code, len(operands), *operands)
        return self

    def signal(self, signal, value):
        return self._command(_SIGNAL, signal.value_addr, value)

    def wait(self, signal, value):
        return self._command(_WAIT, signal.value_addr, value)

    def timestamp(self, signal):
        return self._command(_STAMP, signal.timestamp_addr)

    def exec(self, prg, args_state: HCQArgsState, global_size, local_size):
        # a kernel without a thread id does not look at the one more argument
        threads = 0 if global_size is None else global_size[0]
        addresses = [b.va_addr for b in args_state.bufs]
        return self._command(
            _EXEC, self.keep(prg), threads, len(addresses), *addresses, *args_state.vals
        )

    def _submit(self, dev) -> None:
        # a copy of the words: the next submit may change them before these have run
        dev.queue_worker.put(list(self.words), list(self.kept))


class QueueWorker:
    """Runs submitted lists one after the other. The first error stops the device, as a fault stops hardware."""

    def __init__(self, dev):
        self.dev = dev
        self._lists: queue.SimpleQueue[tuple[list[int], list[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=f"{dev.device} queue", daemon=True).start()

    def put(self, words: list[int], kept: list[Any]) -> None:
        self._lists.put((words, kept))

    def _serve(self) -> None:
        while self.dev.error_state is None:
            words, kept = self._lists.get()
            try:
                self._run(words, kept)
            except Exception as error:
                self.dev.error_state = error

    def _run(self, words: list[int], kept: list[Any]) -> None:
        at = 0
        while at < len(words):
            code, count = words[at : at + 2]
            operands = words[at + 2 : at + 2 + count]
            at += 2 + count
            if code == _EXEC:
                number, threads, bufs, *rest = operands
                places = tuple(HostBuffer(1, address) for address in rest[:bufs])
                limit = max(1, CPU_COUNT.value)
                kept[number].kernel.launch(places, tuple(rest[bufs:]), threads, limit, False)
                continue
            word = to_mv(operands[0], 8).cast("Q")
            if code == _SIGNAL:
                word[0] = operands[1]
            elif code == _STAMP:
                word[0] = time.perf_counter_ns()
            else:
                self._await(word, operands[1])

    @staticmethod
    def _await(word: memoryview, value: int) -> None:
        """Returns when a signal has reached `value`; gives way to others while it has not."""
        began = time.perf_counter()
        while word[0] < value:
            time.sleep(0 if time.perf_counter() - began < 0.001 else 0.0001)
