"""Schedule: from the tensors to be realized to kernels.

`get_rangeify_map(sink)` gives, for every tensor node that is in memory afterwards (or turned out to
be a constant), the node that replaces it. The work is done by the rows of `PASSES`, in this order.
`engine.schedule` puts the KERNEL nodes inside the replacements into an order and runs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tinygrad.dtype import DType
from tinygrad.helpers import SPEC
from tinygrad.schedule.build import Build, Memory
from tinygrad.schedule.cleanup import clean_graph
from tinygrad.schedule.demand import (
    READY_OPS,
    Demand,
    data_sources,
    put_views,
    split_memory_views,
    split_views,
    view_base,
)
from tinygrad.schedule.kernels import Emit, Kernel, versions_in
from tinygrad.schedule.multi import spread_over_devices
from tinygrad.uop.ops import Ops, UOp, all_metadata
from tinygrad.uop.spec import kernel_spec, tensor_spec, type_verify

__all__ = ["Kernel", "get_rangeify_map", "PASSES"]


# How many nodes of a kernel are searched for the calls that made them.
MAX_TRACED_NODES = 1000


class NewBuffers:
    """Makes buffers for what is stored; numbered from the graph alone when the graph's buffers are."""

    def __init__(self, sink: UOp):
        numbers = [u.arg for u in sink.toposort() if u.op is Ops.LUNIQUE]
        self.numbers = itertools.count(max(-1, *numbers) + 1) if numbers else None

    def __call__(self, u: UOp, size: int, dtype: DType | None = None) -> UOp:
        buffer = UOp.new_buffer(u.device, size, u.dtype if dtype is None else dtype)
        if self.numbers is None:
            return buffer
        name = UOp(Ops.LUNIQUE, arg=next(self.numbers))
        return buffer.replace(src=(name, *buffer.src[1:]))


@dataclass
class Schedule:
    """What the passes fill in, from the top down."""

    sink: UOp
    cleaned: dict[UOp, UOp] = field(default_factory=dict)  # every node of sink -> its clean form
    outputs: list[UOp] = field(default_factory=list)
    demand: Demand = field(init=False)
    build: Build = field(init=False)
    emit: Emit = field(init=False)
    becomes: dict[UOp, UOp] = field(default_factory=dict)

    def __post_init__(self):
        self.new_buffer = NewBuffers(self.sink)


# *** passes ***


def spread_and_clean(schedule: Schedule) -> None:
    """Sharded tensors become one tensor for each device; tensor rules."""
    nodes = list(schedule.sink.toposort())
    schedule.cleaned = dict(zip(nodes, clean_graph(spread_over_devices(nodes))))


def find_outputs(schedule: Schedule) -> None:
    """What has to be in memory: the bases of the sink's sources."""
    bases = [split_memory_views(s)[1] for s in schedule.cleaned[schedule.sink].src]
    schedule.outputs = list(dict.fromkeys(base for base in bases if base.op not in READY_OPS))


def find_reads(schedule: Schedule) -> None:
    """Indices of every node and proposals where to store, from the outputs down."""
    schedule.demand = Demand(schedule.outputs)


def build_values(schedule: Schedule) -> None:
    """Values over loops and the decision about the proposals, from the inputs up."""
    schedule.build = Build(schedule.demand, schedule.new_buffer)


def emit_kernels(schedule: Schedule) -> None:
    """One KERNEL for every store that an output needs, ordered where memory is overwritten."""
    memories = schedule.build.memories
    needed = [memories[u].token for u in schedule.outputs if u in memories]
    nodes, traced = list(schedule.cleaned), traced_nodes(schedule)

    def origin(node: UOp) -> tuple[tuple, tuple[int, ...]]:
        places = traced(node) if all_metadata else ()
        return user_calls(nodes, places), places

    schedule.emit = Emit(schedule.build.stores, needed, schedule.new_buffer, origin)


def traced_nodes(schedule: Schedule) -> Callable[[UOp], tuple[int, ...]]:
    """Which nodes are computed by the kernel that stores a node, by their places in the sink's own order."""
    places: dict[UOp, int] = {}
    for place, (u, clean) in enumerate(schedule.cleaned.items()):
        # equal constants are one node, which belongs to no call
        if u.base.op is not Ops.CONST:
            places.setdefault(clean, place)

    # not the schedule itself: it holds what calls this, and a cycle would keep its nodes alive
    stored = schedule.build.memories

    def found(node: UOp) -> tuple[int, ...]:
        inside: dict[UOp, None] = {}
        stack, result = [node], []
        while stack and len(inside) < MAX_TRACED_NODES:
            u = stack.pop()
            if u in inside or (u is not node and u in stored):
                continue
            inside[u] = None
            if u in places:
                result.append(places[u])
            stack.extend(data_sources(u))
        return tuple(result)

    return found


def user_calls(nodes: Sequence[UOp], places: Iterable[int]) -> tuple:
    """The calls of the user that made the nodes at these places."""
    found: dict = {}
    for place in places:
        found.update(dict.fromkeys(all_metadata.get(nodes[place], ())))
    return tuple(found)


def replace_tensors(schedule: Schedule) -> None:
    """What users see instead of their nodes."""
    replacement = Replacement(schedule)
    for source in schedule.sink.src:
        views, base = split_memory_views(source)
        if base.op is Ops.MSTACK and all(view_base(s).op is Ops.BUFFER for s in base.src):
            continue  # a view of memory stays one, so that it goes along when that is written
        for u in [base, *reversed(views)]:
            new = replacement.of(schedule.cleaned[u])
            if new is not None:
                schedule.becomes[u] = new
                break
    for u, clean in schedule.cleaned.items():
        base = view_base(clean) if clean.op is Ops.MULTI else clean
        stored = base in schedule.demand.stages or base.op is Ops.AFTER or clean.op is Ops.MSTACK
        if stored and u not in schedule.becomes:
            new = replacement.of(clean)
            if new is not None:
                schedule.becomes[u] = new
    schedule.becomes = {u: new for u, new in schedule.becomes.items() if new is not u}


def check_clean(schedule: Schedule) -> None:
    type_verify(schedule.cleaned[schedule.sink], tensor_spec)


def check_kernels(schedule: Schedule) -> None:
    for kernel in schedule.emit.kernels.values():
        if kernel.arg.ast.op is Ops.SINK and kernel.arg.ast.src:
            type_verify(kernel.arg.ast, kernel_spec)


@dataclass(frozen=True)
class Pass:
    """A step of the scheduler: what it does, what holds afterwards, why it stands where it does."""

    name: str
    run: Callable[[Schedule], None]
    why: str
    check: Callable[[Schedule], None] | None = None


PASSES: tuple[Pass, ...] = (
    Pass(
        "clean tensors",
        spread_and_clean,
        "rules about tensors need shapes, which ranges lose",
        check_clean,
    ),
    Pass("find outputs", find_outputs, "views cost nothing, their bases are stored"),
    Pass("find reads", find_reads, "a node's reads are known when all of its readers were visited"),
    Pass("build values", build_values, "the cost of a stage is known when all below is decided"),
    Pass(
        "emit kernels", emit_kernels, "only now is it known which buffers are read", check_kernels
    ),
    Pass("replace tensors", replace_tensors, "needs the kernels"),
)


class Replacement:
    """The new form of a clean tensor node, where it has one."""

    def __init__(self, schedule: Schedule):
        self.build = schedule.build
        self.emit = schedule.emit
        self.targets = schedule.demand.targets

    def of(self, u: UOp) -> UOp | None:
        """Views are put on top of what their base becomes; None: nothing is known about it."""
        views, base = split_views(u)
        new = self._of_base(base)
        return None if new is None else put_views(new, views)

    def _of_base(self, u: UOp) -> UOp | None:
        if (constant := self.build.constants.get(u)) is not None:
            return UOp.const(u.dtype, constant.arg, device=u.device, shape=u.shape)
        if u.op in READY_OPS:
            return u
        memory = self.build.memories.get(u)
        if memory is None or u in self.build.lent or not self._is_computed(memory):
            return None
        if u.op is Ops.ASSIGN:
            return self._of_assign(u, memory)
        return self._as_view(u.shape, memory)

    def _is_computed(self, memory: Memory) -> bool:
        return all(self.emit.is_ready(version) for version in versions_in(memory.token))

    def _as_view(self, shape: tuple, memory: Memory) -> UOp:
        view = self.emit.finished(memory.token)
        if memory.layout != (memory.buffer.size,):
            view = view.reshape(memory.layout)
        stored = view.shape
        if stored != shape:
            kept = [1 if old == 1 else size for size, old in zip(shape, stored)]
            view = view.shrink(tuple((0, size) for size in kept)).expand(shape)
        return view

    def _of_assign(self, u: UOp, memory: Memory) -> UOp:
        """The overwritten view, on the new version of its base."""
        views, target = self.targets[u]
        return put_views(self._as_view(target.shape, memory), views)


def get_rangeify_map(sink: UOp) -> dict[UOp, UOp]:
    """Replacements for the tensor nodes below `sink`; the kernels to run are inside of them."""
    schedule = Schedule(sink)
    for step in PASSES:
        try:
            step.run(schedule)
            if SPEC > 1 and step.check is not None:
                step.check(schedule)
        except Exception as error:
            error.add_note(f"in pass '{step.name}' of the scheduler")
            raise
    return schedule.becomes
