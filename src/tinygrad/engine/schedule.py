"""The order of kernels: from tensor graphs to a list of ExecItems.

In: a SINK of the nodes to realize. Out: what every tensor node became, the steps in order with their buffers, and the
values of symbolic variables. What the scheduler decides for a graph depends on its form only, so it is kept under that form:
buffers are numbered by first use and variables unbound before the look-up, and put back afterwards.

Invariants: a step comes after the steps that write what it reads, and before the steps that overwrite it. The order
depends on the graph alone. Called by Tensor.schedule and Tensor.realize.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tinygrad.device import MultiBuffer
from tinygrad.dtype import dtypes
from tinygrad.engine.memory import memory_planner
from tinygrad.engine.realize import ExecItem
from tinygrad.helpers import (
    DEBUG,
    FUSE_OPTIM,
    IMAGE,
    MAX_BUFFER_SIZE,
    PCONTIG,
    RING,
    SPLIT_REDUCEOP,
    WINO,
    Metadata,
    pluralize,
)
from tinygrad.schedule.cleanup import UNDEFINED
from tinygrad.uop.ops import Ops, UOp, all_metadata, buffers, track_rewrites
from tinygrad.uop.tracing import trace_graph

# ---------------------------------------------------------------- order


class _KernelGraph:
    """Which kernel has to wait for which. Kernels are numbered by their place in the graph's own order."""

    def __init__(self, sink: UOp):
        order = sink.toposort()
        self.kernels = [u for u in order if u.op is Ops.KERNEL]
        self.number = {u: i for i, u in enumerate(self.kernels)}
        self.waits_for: list[set[int]] = [set() for _ in self.kernels]
        self.readers: dict[UOp, list[int]] = defaultdict(list)
        for i, kernel in enumerate(self.kernels):
            for source in kernel.src:
                self._read(i, source)
        self.afters = [u for u in order if u.op is Ops.AFTER]
        for after in self.afters:
            for writer in self._writers(after):
                if after.src[0].op is Ops.AFTER:
                    self._read(writer, after.src[0])

    def _read(self, reader: int, source: UOp) -> None:
        """Notes that `reader` uses this version of a buffer, so it waits for what wrote it."""
        pending = [source]
        while pending:
            u = pending.pop()
            if u.op in (Ops.AFTER, Ops.BUFFER):
                self.readers[u].append(reader)
            while u.op is Ops.AFTER:
                self.waits_for[reader].update(self._writers(u))
                u = u.src[0]
            if u.op in (Ops.MSELECT, Ops.MSTACK):
                pending.extend(u.src)

    def _writers(self, after: UOp) -> list[int]:
        return [self.number[k] for k in after.src[1:] if k.op is Ops.KERNEL]

    def overwrites(self) -> list[set[int]]:
        """For each kernel, those that must have read before it: they use the version that it replaces."""
        first: list[set[int]] = [set() for _ in self.kernels]
        for after in self.afters:
            writers = self._writers(after)
            readers = {r for part in _single(after.src[0]) for r in self.readers[part]}
            for writer in writers:
                first[writer].update(readers.difference(writers))
        return first


def _single(u: UOp) -> list[UOp]:
    """The buffers on single devices, or versions of them, that a version of memory is put together from."""
    if u.op not in (Ops.MSTACK, Ops.MSELECT):
        return [u]
    return [part for source in u.src for part in _single(source)]


def _in_order(hard: list[set[int]], soft: list[set[int]]) -> list[int]:
    """Every number once, after what it waits for; lowest first where there is a choice.

    A soft wait is dropped where only that lets the work go on: the reader then waits for the writer in some other way,
    which means that it wanted the new version. Raises RuntimeError where hard waits go round in a circle.
    """
    waits = [h | s for h, s in zip(hard, soft)]
    left = [len(w) for w in waits]
    followers: list[list[int]] = [[] for _ in waits]
    for number, wait in enumerate(waits):
        for before in wait:
            followers[before].append(number)
    ready = [number for number, count in enumerate(left) if count == 0]
    done: dict[int, None] = {}
    while len(done) < len(waits):
        if not ready:
            freed = next(
                (n for n in range(len(waits)) if n not in done and hard[n] <= done.keys()), None
            )
            if freed is None:
                raise RuntimeError(
                    "kernels wait for each other in a circle: a graph has to be free of cycles"
                )
            ready.append(freed)
        number = heapq.heappop(ready)
        if number in done:
            continue
        done[number] = None
        for follower in followers[number]:
            left[follower] -= 1
            if left[follower] == 0:
                heapq.heappush(ready, follower)
    return list(done)


def _buffer_nodes(kernel: UOp) -> list[UOp]:
    """The buffers of a kernel by slot, as they are named without versions."""
    return [_without_versions(s) for s in kernel.src if s.op not in (Ops.BIND, Ops.DEFINE_VAR)]


def _without_versions(u: UOp) -> UOp:
    while u.op is Ops.AFTER:
        u = u.src[0]
    if u.op in (Ops.MSTACK, Ops.MSELECT):
        return u.replace(src=tuple(_without_versions(part) for part in u.src))
    return u


def _without_places(ast: UOp) -> UOp:
    """A tensor's variable has a device; in a kernel it is only a name and a range."""
    placed = {u: u.replace(src=()) for u in ast.toposort() if u.op is Ops.DEFINE_VAR and u.src}
    return ast.substitute(placed) if placed else ast


def _ordered_kernels(sched_sink: UOp) -> list[UOp]:
    graph = _KernelGraph(sched_sink)
    return [graph.kernels[i] for i in _in_order(graph.waits_for, graph.overwrites())]


def create_schedule(sched_sink: UOp) -> tuple[list[ExecItem], UOp]:
    """The kernels of a kernel graph in order, and a SINK with one SINK of buffer nodes for each of them.

    The items have no buffers yet: the nodes may still be replaced (`complete_create_schedule_with_vars` does).
    """
    ordered = _ordered_kernels(sched_sink)
    items = [ExecItem(_without_places(k.arg.ast), [], tuple(k.arg.metadata), {}) for k in ordered]
    return items, UOp.sink(*[UOp.sink(*_buffer_nodes(k)) for k in ordered])


# ---------------------------------------------------------------- buffers


def _give_view(ast: UOp, nodes: tuple[UOp, ...]) -> None:
    """The output of a BUFFER_VIEW is a view of its input, `arg` = (elements, offset in elements of the input)."""
    target, whole = nodes[0], nodes[1].buffer
    if target not in buffers:
        size, offset = ast.arg
        buffers[target] = whole.view(target.size, target.dtype, offset * whole.dtype.itemsize)


def _with_buffers(item: ExecItem, nodes: tuple[UOp, ...]) -> list[ExecItem]:
    """The item on its buffers; one for each device where they are on several."""
    if item.ast.op is Ops.BUFFER_VIEW:
        _give_view(item.ast, nodes)
    bufs = [node.buffer for node in nodes]
    spread = [b for b in bufs if isinstance(b, MultiBuffer)]
    if not spread:
        return [ExecItem(item.ast, list(bufs), item.metadata, dict(item.fixedvars))]
    counts = {len(b.bufs) for b in spread}
    if len(counts) != 1 or len(spread) != len(bufs):
        raise RuntimeError(f"a kernel needs all of its buffers on the same devices, got {bufs}")
    return [
        ExecItem(item.ast, list(column), item.metadata, {**item.fixedvars, "_device_num": number})
        for number, column in enumerate(zip(*[b.bufs for b in spread]))
    ]


# ---------------------------------------------------------------- the cache

_CacheKey = tuple[UOp, tuple]


@dataclass(frozen=True)
class _Plan:
    """What was decided for a form: steps, their buffer nodes, and what tensor nodes become.

    `places`: for each step the nodes that it computes, by their places in the order of the graph, of which `size` is the length.
    """

    items: list[ExecItem]
    places: list[tuple[int, ...]]
    size: int
    nodes: UOp
    before: tuple[UOp, ...]
    after: tuple[UOp, ...]
    variables: frozenset[str]


schedule_cache: dict[_CacheKey, _Plan] = {}
_MOST_PLANS = 4096

_SCHEDULE_SWITCHES = (SPLIT_REDUCEOP, RING, PCONTIG, MAX_BUFFER_SIZE, FUSE_OPTIM, IMAGE, WINO)


@dataclass(frozen=True)
class _Form:
    """A graph without the names of its buffers and the values of its variables."""

    sink: UOp
    put_back: dict[UOp, UOp]
    var_vals: dict[str, int]


def _zeroed_undefined(nodes: Iterable[UOp]) -> set[UOp]:
    """Names of buffers that hold nothing yet and are multiplied by the constant 0.

    What was never written may be taken to be any number, so the product is 0 (`schedule.cleanup`). For a buffer that
    was written it is not: a float may be NaN or infinite.
    """
    found = set()
    for u in nodes:
        if u.op is Ops.MUL and dtypes.is_float(u.dtype):
            for x, zero in (u.src, u.src[::-1]):
                factor, memory = zero.base, x.base
                if (
                    factor.op is Ops.CONST
                    and factor.arg == 0
                    and memory.op is Ops.BUFFER
                    and not memory.is_realized
                ):
                    found.add(memory.src[0])
    return found


def _form_of(sink: UOp) -> _Form:
    """Numbers the buffers by first use and takes the values out of BINDs.

    Raises AssertionError for a variable with two values: they can't be told apart in one schedule.
    """
    names: dict[UOp, UOp] = {}
    bound: dict[UOp, UOp] = {}
    var_vals: dict[str, int] = {}
    nodes = sink.toposort()
    undefined = _zeroed_undefined(nodes)
    for u in nodes:
        if u.op is Ops.UNIQUE:
            # below zero, so that no numbering the scheduler does for itself can meet them
            names[u] = UOp(
                Ops.LUNIQUE, arg=-1 - len(names), tag=UNDEFINED if u in undefined else None
            )
        elif u.op is Ops.BIND and u.src[1].op is Ops.CONST:
            variable, value = u.unbind()
            if var_vals.setdefault(variable.expr, value) != value:
                raise AssertionError(
                    f"bind mismatch on {variable.expr}: it has the values {var_vals[variable.expr]} and {value} in one "
                    "graph; realize one of them first, or use two variables"
                )
            bound[u] = variable
    check_bounds(nodes)
    form = sink.substitute({**names, **bound}, name="normalize buffer names")
    put_back = {new: old for old, new in (*names.items(), *bound.items())}
    return _Form(form, put_back, var_vals)


def check_bounds(nodes: Iterable[UOp]) -> None:
    """Raises ValueError for two variables of one name: a kernel knows them by their names."""
    known: dict[str, UOp] = {}
    for u in nodes:
        if u.op is Ops.DEFINE_VAR:
            other = known.setdefault(u.arg[0], u)
            if other.arg != u.arg:
                spans = " and ".join(f"{low} .. {high}" for _, low, high in (other.arg, u.arg))
                raise ValueError(
                    f"variable {u.arg[0]} has the bounds {spans} in one graph; make it once, or use two names"
                )


def _copy_metadata(source: UOp, target: UOp) -> None:
    """Gives the nodes of the form the metadata of the nodes they stand for."""
    if not all_metadata:
        return
    twins: dict[UOp, UOp] = {}
    old, new = source.toposort(), target.toposort()
    if len(old) == len(new):
        twins.update(zip(old, new))
    for before, after in twins.items():
        found: tuple[Metadata, ...] | None = all_metadata.get(before)
        if found is not None and after is not before:
            all_metadata.setdefault(after, found)


def _plan_for(form: UOp) -> _Plan:
    from tinygrad.schedule.rangeify import get_rangeify_map

    became = get_rangeify_map(form)
    kernels = form.substitute(became, name="apply rangeify")
    items, nodes = create_schedule(kernels)
    places = [kernel.arg.places for kernel in _ordered_kernels(kernels)]
    # tensors see the buffer itself; the order of writes has done its work
    after = UOp.sink(*became.values())
    versions = {u: u.buf_uop for u in after.toposort() if u.op is Ops.AFTER}
    results = after.substitute(versions, name="drop versions") if versions else after
    asts = UOp.sink(*dict.fromkeys(item.ast for item in items))
    used = frozenset(u.arg[0] for u in asts.toposort() if u.op is Ops.DEFINE_VAR)
    size = len(form.toposort())
    return _Plan(items, places, size, nodes, tuple(became), results.src, used)


def _find_plan(form: UOp, source: UOp) -> _Plan:
    key = (form, tuple([switch.value for switch in _SCHEDULE_SWITCHES]))
    plan = schedule_cache.get(key)
    if plan is None:
        _copy_metadata(source, form)
        plan = _plan_for(form)
        while len(schedule_cache) >= _MOST_PLANS:
            del schedule_cache[next(iter(schedule_cache))]
        schedule_cache[key] = plan
    return plan


def _calls_of(plan: _Plan, source: UOp) -> list[tuple[Metadata, ...]]:
    """For each step, the calls of the user that made what it computes: those of this graph, not of the plan's first."""
    from tinygrad.schedule.rangeify import user_calls

    nodes = list(source.toposort()) if all_metadata else []
    if len(nodes) != plan.size:
        return [item.metadata for item in plan.items]
    return [user_calls(nodes, places) for places in plan.places]


def _instantiate(plan: _Plan, form: _Form, source: UOp) -> tuple[dict[UOp, UOp], list[ExecItem]]:
    """The plan on this graph's buffers, with new ones for what the plan stores in between."""
    both = UOp.sink(plan.nodes, UOp.sink(*plan.before), UOp.sink(*plan.after))
    put_back = dict(form.put_back)
    for u in both.toposort():
        if u.op in (Ops.UNIQUE, Ops.LUNIQUE) and u not in put_back:
            put_back[u] = UOp.unique()
    nodes, before, after = both.replace_nodes(put_back).src
    items = []
    for item, group, calls in zip(plan.items, nodes.src, _calls_of(plan, source)):
        items.extend(_with_buffers(replace(item, metadata=calls), group.src))
    return dict(zip(before.src, after.src)), items


@track_rewrites(name=lambda *args, ret, **kwargs: f"Schedule {pluralize('Kernel', len(ret[1]))}")
def complete_create_schedule_with_vars(
    big_sink: UOp, visible: Callable[[dict[UOp, UOp]], dict[UOp, UOp]] | None = None
) -> tuple[dict[UOp, UOp], list[ExecItem], dict[str, int]]:
    """What each tensor node becomes, the steps to run before it is that, and the values of variables.

    `visible` picks from the first what somebody can still see; the memory of the others is shared by the steps.
    """
    trace_graph(big_sink, "tensor graph")
    form = _form_of(big_sink)
    plan = _find_plan(form.sink, big_sink)
    became, items = _instantiate(plan, form, big_sink)
    if visible is not None:
        became = visible(became)
    planned = memory_planner(items)
    if DEBUG >= 3 and len(planned) > 1:
        print(f"scheduled {len(planned)} kernels")
    return became, planned, {name: v for name, v in form.var_vals.items() if name in plan.variables}
