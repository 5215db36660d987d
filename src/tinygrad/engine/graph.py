"""Graphs of launches: a captured list of kernels that a device replays in one call.

In: lowered ExecItems whose buffers are set, which of them are inputs, and the values of variables. A backend's graph class
derives from `GraphRunner` (or `MultiGraphRunner`, where one graph may span devices of a kind) and gives `__call__`; this
module tells it what changes between calls. `apply_graph_to_jit` cuts a list into batches and makes the graphs.

Invariants: a graph launches exactly what its items would launch one after another; items that no graph takes stay as
they are, in their place.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tinygrad.device import Buffer, Compiled, Device
from tinygrad.engine.realize import BufferXfer, CompiledRunner, ExecItem, Runner, ViewOp
from tinygrad.helpers import DEBUG, PROFILE, colored, dedup
from tinygrad.renderer import Estimates
from tinygrad.uop.ops import Ops, UOp


class GraphException(Exception):
    """A device can't make a graph of these items; they are then launched one by one."""


def get_input_replace(
    jit_cache: list[ExecItem], input_rawbuffers: list[Buffer]
) -> dict[tuple[int, int], int]:
    """(item, slot) -> number of the input that is used there."""
    number = {id(b): i for i, b in enumerate(input_rawbuffers)}
    return {
        (j, slot): number[id(buf)]
        for j, item in enumerate(jit_cache)
        for slot, buf in enumerate(item.bufs)
        if buf is not None and id(buf) in number
    }


def get_out_buffers_for_ei(ei: ExecItem) -> list[Buffer]:
    """The buffers an item fills without looking at what they held."""
    prg = ei.prg
    if isinstance(prg, CompiledRunner):
        slots = [slot for slot in prg.facts.outs if slot not in prg.facts.ins]
    elif isinstance(prg, Runner) and not isinstance(prg, (GraphRunner, ViewOp)):
        slots = [0]
    else:
        slots = []
    return [buf for slot in slots if (buf := ei.bufs[slot]) is not None]


def get_updated_buffers(ei: ExecItem) -> list[Buffer]:
    """The buffers an item changes in place: what they hold after depends on what they held before."""
    if not isinstance(ei.prg, CompiledRunner):
        return []
    both = [slot for slot in ei.prg.facts.outs if slot in ei.prg.facts.ins]
    return [buf for slot in both if (buf := ei.bufs[slot]) is not None]


def update_depends(depends: set[Buffer | None], jit_cache: list[ExecItem]):
    """Adds to `depends` every buffer filled from something in it. Inputs stand in the items as None."""
    for item in jit_cache:
        if any(b in depends for b in item.bufs):
            depends.update(get_out_buffers_for_ei(item))


def graph_class(dev):
    """The class of a device's graphs, or None."""
    return dev.graph.func if isinstance(dev.graph, functools.partial) else dev.graph


class GraphRunner(Runner):
    """What all graphs know: their items, where the inputs go, and which values and sizes follow the variables."""

    def __init__(
        self, jit_cache: list[ExecItem], input_rawbuffers: list[Buffer], var_vals: dict[str, int]
    ):
        self.jit_cache = jit_cache
        self.input_replace = get_input_replace(jit_cache, input_rawbuffers)
        # (item, place among its values) -> variable, for variables that the caller gives
        self.var_vals_replace: dict[int, list[tuple[int, str]]] = {}
        # items whose launch sizes follow variables
        self.launch_dims_replace: list[int] = []
        for j, item in enumerate(jit_cache):
            if isinstance(item.prg, CompiledRunner):
                self._note_variables(j, item)
        self.vars = sorted(
            {name for places in self.var_vals_replace.values() for _, name in places}
        )
        devices = dedup([b.device for item in jit_cache for b in item.bufs if b is not None])
        total = sum((item.prg.estimates for item in jit_cache if item.prg is not None), Estimates())
        super().__init__(
            colored(f"<batched {len(jit_cache)}>", "cyan"), devices[0], total.simplify()
        )

    def _note_variables(self, j: int, item: ExecItem) -> None:
        assert isinstance(item.prg, CompiledRunner)
        given = [
            (place, n) for place, n in enumerate(item.prg._var_names) if n not in item.fixedvars
        ]
        if given:
            self.var_vals_replace[j] = given
        if not item.prg._static_dims:
            self.launch_dims_replace.append(j)

    def updated_vars(self, var_vals: dict[str, int]) -> Iterator[tuple[int, int, int]]:
        """(item, place among its values, value) for everything that follows a variable."""
        for j, places in self.var_vals_replace.items():
            for place, name in places:
                yield j, place, var_vals[name]

    def updated_launch_dims(
        self, var_vals: dict[str, int]
    ) -> Iterator[tuple[int, list[int], list[int] | None]]:
        """(item, global size, local size) for every item whose sizes follow a variable."""
        for j in self.launch_dims_replace:
            item = self.jit_cache[j]
            assert isinstance(item.prg, CompiledRunner)
            global_size, local_size = item.prg.launch_sizes({**var_vals, **item.fixedvars})
            assert global_size is not None
            yield j, global_size, local_size

    @staticmethod
    def supports_exec_item(devs: list[Compiled], ei: ExecItem) -> bool:
        """Whether one graph can hold `ei`, with `devs` all devices of that graph."""
        return isinstance(ei.prg, CompiledRunner) and len(dedup(devs)) == 1


class MultiGraphRunner(GraphRunner):
    """A graph over several devices of one kind, with the transfers between them."""

    @staticmethod
    def supports_exec_item(devs: list[Compiled], ei: ExecItem) -> bool:
        """Whether the item may be part of a graph over several devices of one kind."""
        takes = isinstance(ei.prg, (CompiledRunner, BufferXfer))
        return takes and len({type(d) for d in devs}) == 1


class _Batcher:
    """Collects items that one graph can hold and makes graphs of them; batches double, so that work starts early."""

    def __init__(self, inputs: list[Buffer], var_vals: dict[str, int], max_batch_size: int):
        self.inputs, self.var_vals, self.limit = inputs, var_vals, max_batch_size
        self.done: list[ExecItem] = []
        self.batch: list[ExecItem] = []
        self.devices: list[Compiled] = []

    def _graph_for(self, item: ExecItem, devices: list[Compiled]):
        graph = graph_class(devices[0])
        if PROFILE and not devices[0].records_launches:
            return None  # a profile wants the time of each item
        return graph if graph is not None and graph.supports_exec_item(devices, item) else None

    def add(self, item: ExecItem) -> None:
        if isinstance(item.prg, ViewOp):
            return  # its buffers are views already
        own = dedup([Device[b.device] for b in item.bufs if b is not None])
        if self.batch and (
            (0 < self.limit <= len(self.batch))
            or self._graph_for(item, dedup(self.devices + own)) is None
        ):
            self.flush()
        if not own or self._graph_for(item, own) is None:
            self.done.append(item)
            return
        self.batch.append(item)
        self.devices = dedup(self.devices + own)

    def flush(self) -> None:
        batch, devices, self.batch, self.devices = self.batch, self.devices, [], []
        if len(batch) < 2:
            self.done.extend(batch)
            return
        try:
            runner = devices[0].graph(batch, self.inputs, self.var_vals)
        except GraphException as reason:
            if DEBUG >= 2:
                print(f"no graph of {len(batch)} items on {devices[0].device}: {reason}")
            self.done.extend(batch)
            return
        self.limit *= 2
        # a graph is launched on all inputs, and looks those it uses up by number
        self.done.append(ExecItem(UOp(Ops.NOOP), list(self.inputs), prg=runner))
        if DEBUG >= 2:
            print(f"made a graph of {len(batch)} items on {devices[0].device}")


def apply_graph_to_jit(
    jit_cache: list[ExecItem],
    input_rawbuffers: list[Buffer],
    var_vals: dict[str, int],
    max_batch_size=0,
) -> list[ExecItem]:
    """The list with graphs in place of runs of items that a device can replay together.

    `max_batch_size`: items in the first graph (0 = no limit); each later graph may be twice as long.
    """
    batcher = _Batcher(input_rawbuffers, var_vals, max_batch_size)
    for item in jit_cache:
        batcher.add(item)
    batcher.flush()
    return batcher.done
