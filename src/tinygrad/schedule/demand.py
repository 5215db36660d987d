"""Which elements of every node are asked for, and which nodes are stored.

One walk from the outputs to the inputs. Every node collects the distinct ways in which its readers
ask for its elements (`Read`: an index for each axis, in terms of the loops of the kernel that asks).
Movement ops translate reads, elementwise ops and reductions pass them on. A node becomes a `Stage`,
a place where a value over loops of its own is stored in a buffer, when it has to (an output,
CONTIGUOUS, COPY, ASSIGN) or as a proposal when readers disagree about its indices or ask for the
same element over and over. `build` decides about the proposals, since only there the cost is known.

Invariants: a node is visited after all of its readers; the order depends on the graph alone; no
recursion; work is linear in the number of (node, read) pairs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tinygrad.helpers import PCONTIG
from tinygrad.schedule.indexing import (
    Indices,
    as_index,
    conjunction,
    is_one,
    same_size,
    trace_movement,
)
from tinygrad.schedule.storage import is_storage
from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

# the value of these is in memory once they ran; they have no expression of their own
STORED_OPS = frozenset(
    {Ops.CONTIGUOUS, Ops.COPY, Ops.ASSIGN, Ops.BUFFER_VIEW, Ops.ENCDEC, Ops.CUSTOM_KERNEL}
)
# whose elements are in memory, or are the same everywhere, before anything runs
READY_OPS = frozenset({Ops.BUFFER, Ops.CONST, Ops.BIND, Ops.DEFINE_VAR})
# and those put together from nodes that are in memory
LEAF_OPS = READY_OPS | {Ops.AFTER, Ops.MSELECT, Ops.MSTACK}
TRANSPARENT_OPS = frozenset({Ops.DETACH, Ops.CONTIGUOUS_BACKWARD, Ops.NOOP})
# Elements of an array that a kernel may keep for itself (PCONTIG).
MAX_KEPT_ELEMENTS = 16384
# what a view is made of; MULTI is only found on top of outputs
VIEW_OPS = frozenset(GroupOp.Movement | TRANSPARENT_OPS | {Ops.MULTI})


def data_sources(u: UOp) -> tuple[UOp, ...]:
    """The sources of a tensor node that hold elements (not shapes, devices or names)."""
    if u.op in GroupOp.Elementwise or u.op in (Ops.ASSIGN, Ops.CUSTOM_KERNEL, Ops.MSTACK):
        return u.src
    if u.op is Ops.AFTER:
        return tuple(s for s in u.src if s.op is not Ops.KERNEL)
    if u.op in READY_OPS or u.op is Ops.KERNEL:
        return ()
    return u.src[:1]


def data_order(roots: list[UOp]) -> list[UOp]:
    """Every node that the roots need, sources first; iterative."""
    done: dict[UOp, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        u, expanded = stack.pop()
        if u in done:
            continue
        if expanded:
            done[u] = None
            continue
        stack.append((u, True))
        stack.extend((s, False) for s in reversed(data_sources(u)) if s not in done)
    return list(done)


def view_base(u: UOp) -> UOp:
    """The node below a chain of views."""
    while u.op in VIEW_OPS:
        u = u.src[0]
    return u


def put_views(base: UOp, views: list[UOp]) -> UOp:
    """The views, outermost first, on another base."""
    for view in reversed(views):
        if view.op not in TRANSPARENT_OPS:
            base = view.replace(src=(base, *view.src[1:]))
    return base


def split_views(u: UOp, kinds: Collection[Ops] = VIEW_OPS) -> tuple[list[UOp], UOp]:
    """The views (nodes of these `kinds`) on top of a node, outermost first, and the node below."""
    views = []
    while u.op in kinds:
        views.append(u)
        u = u.src[0]
    return views, u


def assign_targets(order: list[UOp]) -> dict[UOp, tuple[list[UOp], UOp]]:
    """For every assignment the views of what it overwrites, and that: also through other assignments."""
    targets: dict[UOp, tuple[list[UOp], UOp]] = {}
    for u in order:
        if u.op is Ops.ASSIGN:
            views, base = split_views(u.src[0])
            if base in targets:
                below, base = targets[base]
                views = views + below
            targets[u] = views, base
    return targets


def split_memory_views(u: UOp) -> tuple[list[UOp], UOp]:
    """As `split_views`, also through bitcasts, which show memory as it is. What a device only stores is read as it lies."""
    views, base = split_views(u)
    while base.op is Ops.BITCAST and not is_storage(base.device):
        below, inner = split_views(base.src[0])
        views, base = [*views, base, *below], inner
    return views, base


ReadKey = tuple[Indices, UOp | None]


@dataclass(slots=True)
class Read:
    """One way in which a node's elements are asked for."""

    indices: Indices
    exists: UOp | None = None  # outside of this condition the element is not used
    repeated: dict[UOp, None] = field(default_factory=dict)  # loops that ask for no new element
    sources: tuple[ReadKey, ...] = ()  # how the node's own sources are read for it
    padding: UOp | None = None  # PAD: when there is a source element
    reduced: tuple[UOp, ...] = ()  # REDUCE_AXIS: its loops

    @property
    def key(self) -> ReadKey:
        # the condition is about loops of the reader, which the indices need not tell apart
        return self.indices, self.exists


def shared_loops(shape: tuple, reads: list[Read]) -> list[UOp | None]:
    """Per axis the loop that all readers select the element with, if all of them are in its kernel.

    Only under PCONTIG: the value is then computed inside of that loop, and kept for the other axes.
    """
    shared: list[UOp | None] = [None] * len(shape)
    if PCONTIG <= 1 or any(read.exists is not None for read in reads):
        return shared
    repeated = {loop for read in reads for loop in read.repeated}
    room = 1
    for axis, size in enumerate(shape):
        indices = {read.indices[axis] for read in reads}
        index = next(iter(indices))
        is_loop = index.op is Ops.RANGE and index.arg[1] is AxisType.LOOP
        if len(indices) == 1 and is_loop and index not in repeated:
            shared[axis] = index
        else:
            room *= size.vmax if isinstance(size, UOp) else size
    return shared if room <= MAX_KEPT_ELEMENTS else [None] * len(shape)


@dataclass(slots=True)
class Stage:
    """A value over loops of its own, stored in a buffer (or a proposal to do so)."""

    node: UOp
    forced: bool
    body: Read
    target: Indices = ()  # ASSIGN: where in the overwritten tensor's base
    target_exists: UOp | None = None
    inside: bool = False  # some loops are those of its readers, hence it is inside their kernel


class Demand:
    """The reads of every node and the stages, found from the outputs downwards."""

    def __init__(self, outputs: list[UOp]):
        self.outputs = outputs
        self.order = data_order(outputs)
        self.reads: dict[UOp, dict[ReadKey, Read]] = {u: {} for u in self.order}
        self.stages: dict[UOp, Stage] = {}
        self.forced: dict[UOp, None] = dict.fromkeys(outputs)
        self.in_memory: set[UOp] = set()  # used as a whole by something that can't compute it
        self.reordering = reordering_assigns(self.order)
        self.targets = assign_targets(self.order)
        self.overwritten = {base for _, base in self.targets.values()}
        self._traced: dict[tuple, tuple[Indices, UOp | None]] = {}
        self._range_count = 0
        for u in reversed(self.order):
            self._visit(u)

    def new_range(self, size, axis_type: AxisType) -> UOp:
        """A loop that no other loop is equal to; an axis of one element needs none."""
        if is_one(size):
            return as_index(0)
        self._range_count += 1
        return UOp.range(size, self._range_count, axis_type)

    def new_loops(self, shape: tuple) -> Indices:
        return tuple(self.new_range(size, AxisType.LOOP) for size in shape)

    def ask(self, u: UOp, indices: Indices, exists: UOp | None, repeated: dict) -> ReadKey:
        """Record that a reader asks `u` for the element at `indices`."""
        key = (indices, exists)
        known = self.reads[u].get(key)
        if known is None:
            self.reads[u][key] = Read(indices, exists, dict(repeated))
        elif repeated:
            known.repeated.update(repeated)
        return key

    def _visit(self, u: UOp) -> None:
        if u.op in LEAF_OPS:
            self._visit_leaf(u)
        elif u.op is Ops.ASSIGN:
            self._visit_assign(u)
        elif u.op in STORED_OPS:
            self._visit_stored(u)
        elif u.op in GroupOp.Movement:
            for read in self.reads[u].values():
                self._pass_through_movement(u, read)
        elif u.op in TRANSPARENT_OPS:
            for read in self.reads[u].values():
                read.sources = (self.ask(u.src[0], *read.key, read.repeated),)
        elif u.op in GroupOp.Elementwise or u.op is Ops.REDUCE_AXIS:
            self._visit_computed(u)
        else:
            raise RuntimeError(
                f"a tensor graph can't hold {u.op} here; dtype {u.dtype}, arg {u.arg}"
            )

    def _visit_leaf(self, u: UOp) -> None:
        # an AFTER orders nodes that have to be in memory; nobody reads them element by element
        if u.op in (Ops.AFTER, Ops.MSTACK, Ops.MSELECT):
            self._use_as_memory(data_sources(u))

    def _use_as_memory(self, sources: tuple[UOp, ...]) -> None:
        bases = [view_base(source) for source in sources]
        self.forced.update(dict.fromkeys(bases))
        self.in_memory.update(bases)

    def _visit_stored(self, u: UOp) -> None:
        if u.op is Ops.CONTIGUOUS:
            body = Read(self.new_loops(u.shape))
            body.sources = (self.ask(u.src[0], *body.key, {}),)
            self.stages[u] = Stage(u, True, body)
            return
        self.stages[u] = Stage(u, True, Read(()))
        self._use_as_memory(data_sources(u))

    def _visit_assign(self, u: UOp) -> None:
        target, value = u.src
        body = Read(self.new_loops(target.shape))
        body.sources = (((), None), self.ask(value, *body.key, {}))
        stage = Stage(u, True, body)
        stage.target, stage.target_exists = trace_target(self.targets[u][0], body.indices)
        self.stages[u] = stage
        self._use_as_memory((target,))

    def _visit_computed(self, u: UOp) -> None:
        reads = self.reads[u]
        forced = u in self.forced
        proposed = len(reads) > 1 or any(read.repeated for read in reads.values())
        if not forced and not proposed:
            for read in reads.values():
                self._pass_through_computed(u, read)
            return
        indices = self.new_loops(u.shape)
        shared = [None] * len(indices) if forced else shared_loops(u.shape, list(reads.values()))
        own = tuple(loop if index is None else index for loop, index in zip(indices, shared))
        stage = Stage(u, forced, Read(own), inside=any(index is not None for index in shared))
        self.stages[u] = stage
        self._pass_through_computed(u, stage.body)

    def _pass_through_movement(self, u: UOp, read: Read) -> None:
        source = u.src[0]
        key = (u.op, source.shape, u.marg, read.indices)
        if (known := self._traced.get(key)) is None:
            known = self._traced[key] = trace_movement(*key)
        moved, read.padding = known
        repeated = read.repeated
        if u.op is Ops.EXPAND:
            repeated = dict(repeated)
            for index, old, new in zip(read.indices, source.shape, u.marg):
                if not same_size(old, new):
                    repeated.update(dict.fromkeys(index.ranges))
        conditions = [c for c in (read.exists, read.padding) if c is not None]
        read.sources = (self.ask(source, moved, conjunction(conditions), repeated),)

    def _pass_through_computed(self, u: UOp, read: Read) -> None:
        indices = read.indices
        if u.op is Ops.REDUCE_AXIS:
            axes, source = u.arg[1], u.src[0]
            loops = {a: self.new_range(source.shape[a], AxisType.REDUCE) for a in axes}
            indices = tuple(loops.get(axis, index) for axis, index in enumerate(indices))
            read.reduced = tuple(loop for loop in loops.values() if loop.op is Ops.RANGE)
        asked = [self.ask(source, indices, read.exists, read.repeated) for source in u.src]
        read.sources = tuple(asked)


# reading an overwritten buffer through one of these may read other elements than the written one
_REORDERS = frozenset({Ops.PERMUTE, Ops.FLIP, Ops.EXPAND})


def reordering_assigns(order: list[UOp]) -> set[UOp]:
    """Assignments to buffers whose value is computed, in some way, from a reordered view of them.

    Sets of buffers are kept as bits of an int, so that the walk stays linear.
    """
    assigns = [u for u in order if u.op is Ops.ASSIGN and view_base(u.src[0]).op is Ops.BUFFER]
    if not assigns:
        return set()
    bit: dict[UOp, int] = {}
    for u in assigns:
        bit.setdefault(view_base(u.src[0]), 1 << len(bit))
    plain: dict[UOp, int] = {}
    reordered: dict[UOp, int] = {}
    for u in order:
        below = () if u.op in STORED_OPS and u.op is not Ops.ASSIGN else data_sources(u)
        found, mixed = bit.get(u, 0), 0
        for source in below:
            found |= plain[source]
            mixed |= reordered[source]
        plain[u] = found
        reordered[u] = mixed | (found if u.op in _REORDERS else 0)
    return {u for u in assigns if reordered[u.src[1]] & bit[view_base(u.src[0])]}


def trace_target(views: list[UOp], indices: Indices) -> tuple[Indices, UOp | None]:
    """Where an element of an assignment's target is in what is overwritten, and if it is there."""
    conditions: list[UOp] = []
    for view in views:
        if view.op in GroupOp.Movement:
            indices, exists = trace_movement(view.op, view.src[0].shape, view.marg, indices)
            conditions += [] if exists is None else [exists]
    return indices, conjunction(conditions)
