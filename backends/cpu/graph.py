"""Captured launches on the CPU, replayed without Python between kernels.

In: lowered items of one capture. Out: a runner whose call sets the inputs and the values that follow
variables, and runs all kernels and copies in order. Buffers of the capture stay where they are for
as long as it lives, so only what changes is written at a call.
"""

from __future__ import annotations

from tinygrad.backends.cpu._pool import LaunchList

from tinygrad.device import Buffer
from tinygrad.engine.graph import GraphException, MultiGraphRunner
from tinygrad.engine.realize import BufferXfer, CompiledRunner, ExecItem
from tinygrad.helpers import CPU_COUNT


class CPUGraph(MultiGraphRunner):
    """Kernels and copies of CPU devices as one `LaunchList`."""

    def __init__(
        self, jit_cache: list[ExecItem], input_rawbuffers: list[Buffer], var_vals: dict[str, int]
    ):
        super().__init__(jit_cache, input_rawbuffers, var_vals)
        self.launches = LaunchList()
        self.first_value: list[int] = []
        for item in jit_cache:
            if isinstance(item.prg, CompiledRunner):
                self._add_kernel(item, var_vals)
            elif isinstance(item.prg, BufferXfer):
                self._add_copy(item)
            else:
                raise GraphException(f"{type(item.prg).__name__} is neither a kernel nor a copy")
        for (launch, slot), number in self.input_replace.items():
            place = self._place(jit_cache[launch], slot)
            if place is not None:
                self.launches.bind(launch, place, number)

    @staticmethod
    def _place(item: ExecItem, slot: int) -> int | None:
        """Which argument a slot of the item is; None for one its program does not use."""
        if not isinstance(item.prg, CompiledRunner) or len(item.bufs) == len(item.prg._slots):
            return slot
        return item.prg._slots.index(slot) if slot in item.prg._slots else None

    def _add_kernel(self, item: ExecItem, var_vals: dict[str, int]) -> None:
        prg = item.prg
        values = {**var_vals, **item.fixedvars}
        bufs = tuple(b.ensure_allocated()._buf for b in prg.pick_buffers(item.bufs))
        global_size, _ = prg.launch_sizes(values)
        threads = 0 if global_size is None else int(global_size[0])
        self.launches.add(prg._prg.kernel, bufs, prg.pick_vals(values), threads)
        self.first_value.append(len(bufs))

    def _add_copy(self, item: ExecItem) -> None:
        target, source = (b.ensure_allocated() for b in item.bufs[:2])
        self.launches.add_copy(target._buf, source._buf, target.nbytes)
        self.first_value.append(0)

    def __call__(
        self, rawbufs: list[Buffer], var_vals: dict[str, int], wait: bool = False
    ) -> float | None:
        launches = self.launches
        if self.vars:
            for launch, place, value in self.updated_vars(var_vals):
                launches.set_argument(launch, self.first_value[launch] + place, value)
            for launch, global_size, _ in self.updated_launch_dims(var_vals):
                launches.set_threads(launch, int(global_size[0]))
        return launches.run([b._buf for b in rawbufs], max(1, CPU_COUNT.value), wait)
