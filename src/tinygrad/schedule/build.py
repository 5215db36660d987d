"""Values over loop ranges, and the decision which of the proposed stages are worth a buffer.

Walks the nodes in the order of `Demand`, sources first, and gives every read of every node an
expression: element reads are INDEX(memory, position), where memory is a BUFFER or a version of one.
When a stage is reached everything below it is final, so its simplified value tells its real cost:
a stage that is cheap to compute again is dissolved into its readers, the others become a `Store`.
`kernels` turns the stores into KERNEL nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.helpers import prod
from tinygrad.schedule.collapse import simplify_value
from tinygrad.schedule.demand import (
    LEAF_OPS,
    TRANSPARENT_OPS,
    Demand,
    Read,
    ReadKey,
    Stage,
    data_sources,
    trace_target,
    view_base,
)
from tinygrad.schedule.indexing import Indices, conjunction, flat_index
from tinygrad.schedule.limits import ALWAYS_FITS, as_array, max_buffers, split_value
from tinygrad.schedule.storage import custom_ast
from tinygrad.schedule.transplant import gate_position, transplant
from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

# A proposal that reads more buffers than this is stored: its readers would load all of them again.
MAX_REREAD_BUFFERS = 3
# Arithmetic (operations times readers) up to which a proposal without reductions is recomputed.
MAX_RECOMPUTED_ALUS = 2000
# A proposal with so many reads inside of each other's positions is stored: such chains can be of any length.
MAX_NESTED_READS = 4
# Elements up to which what is computed from reductions to a scalar is repeated in every kernel that
# reads it, once before its loops. Longer reductions were split, and end with fewer.
MAX_REPEATED_REDUCTION = 1 << 16


def upper_bound(size) -> int:
    """The largest value of a size, the room that a buffer needs for it."""
    return int(size.vmax) if isinstance(size, UOp) else int(size)


def buffer_of(token: UOp) -> UOp:
    """The buffers without their versions."""
    while token.op is Ops.AFTER:
        token = token.src[0]
    if token.op in (Ops.MSELECT, Ops.MSTACK):
        return token.replace(src=tuple(buffer_of(s) for s in token.src))
    return token


@dataclass(frozen=True)
class BufferizeOpts:
    """Where a BUFFERIZE puts its value."""

    addrspace: AddrSpace = AddrSpace.GLOBAL


KEPT = BufferizeOpts(AddrSpace.LOCAL)


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the elements of a node are: a BUFFER or a version of one, as a dense array."""

    token: UOp
    layout: tuple[int, ...]

    @property
    def buffer(self) -> UOp:
        return buffer_of(self.token)

    def read(self, dtype, indices: Indices, exists: UOp | None) -> UOp:
        return UOp(Ops.INDEX, dtype, (self.token, self.position(indices, exists)))

    def position(self, indices: Indices, exists: UOp | None) -> UOp:
        return gate_position(flat_index(self.layout, indices), exists)


@dataclass(slots=True)
class Store:
    """What one kernel does: a value that it writes, or a node that runs as it is on whole buffers."""

    node: UOp
    writes: list[tuple[UOp, UOp | None]]  # (version afterwards, version overwritten)
    position: UOp | None = None
    value: UOp | None = None
    loops: tuple[UOp, ...] = ()
    inputs: tuple[UOp, ...] = ()  # versions read, where there is no value to find them in
    ast: UOp | None = None  # what runs, where it is not made from the value
    unchanged: frozenset[UOp] = frozenset()  # of the versions afterwards: the same as before

    @property
    def token(self) -> UOp:
        return self.writes[0][0]


def count_alus(value: UOp) -> int:
    """Operations on elements; where in memory these are is computed once for many of them."""
    counted, stack = {value}, [value]
    while stack:
        u = stack.pop()
        sources = u.src[:1] if u.op is Ops.INDEX else u.src
        new = [s for s in dict.fromkeys(sources) if s not in counted]
        counted.update(new)
        stack += new
    return sum(1 for u in counted if u.op in GroupOp.ALU and u.dtype != dtypes.index)


def memory_reads(value: UOp) -> list[UOp]:
    """The INDEX nodes that read memory, in a fixed order."""
    return [u for u in value.toposort() if reads_memory(u)]


def reads_memory(u: UOp) -> bool:
    """Whether a node of a value reads a buffer (and not an array inside the kernel)."""
    return u.op is Ops.INDEX and u.src[0].op is not Ops.BUFFERIZE


class Build:
    """Expressions for every read; `stores` and `memories` are the result."""

    def __init__(self, demand: Demand, new_buffer: Callable[..., UOp]):
        self.demand = demand
        self.new_buffer = new_buffer
        self.exprs: dict[UOp, dict[ReadKey, UOp]] = {}
        self.memories: dict[UOp, Memory] = {}
        self.constants: dict[UOp, UOp] = {}
        self.stores: list[Store] = []
        self._versions = 0
        self._made: dict[UOp, Store] = {}  # memory of this schedule -> what fills it
        self._overwritten: set[UOp] = set()
        self.lent: set[UOp] = set()  # nodes whose memory became that of a contiguous tensor
        self._custom: dict[UOp, Store] = {}
        for u in demand.order:
            self._visit(u)

    def _visit(self, u: UOp) -> None:
        stage = self.demand.stages.get(u)
        if stage is not None:
            self._visit_stage(u, stage)
            return
        if u.op in LEAF_OPS:
            self._place_leaf(u)
        reads = self.demand.reads[u]
        self.exprs[u] = {read.key: self._express(u, read) for read in reads.values()}

    # *** expressions ***

    def _source(self, u: UOp, read: Read, at: int) -> UOp:
        return self.exprs[u.src[at]][read.sources[at]]

    def _express(self, u: UOp, read: Read) -> UOp:
        """The element of a node without a stage."""
        if u in self.memories:
            return self.memories[u].read(u.dtype, read.indices, read.exists)
        if u.op is Ops.CONST:
            return UOp.const(u.dtype, u.arg)
        if u.op in (Ops.BIND, Ops.DEFINE_VAR):
            return u
        if u.op in TRANSPARENT_OPS or u.op in GroupOp.Movement:
            value = self._source(u, read, 0)
            if read.padding is None:
                return value
            return read.padding.where(value, UOp.const(u.dtype, 0))
        if u.op is Ops.REDUCE_AXIS:
            value = self._source(u, read, 0)
            return UOp(Ops.REDUCE, u.dtype, (value, *read.reduced), u.arg[0])
        return UOp(u.op, u.dtype, tuple(self._source(u, read, i) for i in range(len(u.src))), u.arg)

    def _place_leaf(self, u: UOp) -> None:
        if u.op is Ops.BUFFER:
            self.memories[u] = Memory(u, (u.size,))
        elif u.op is Ops.AFTER:
            layout = tuple(upper_bound(size) for size in u.shape)
            if (written := assigned_in(u)) is not None:
                token = self.memories[written].token
            else:
                token = self._after_version(u, self.memories[view_base(u.src[0])].token)
            self.memories[u] = Memory(token, layout)
        elif u.op in (Ops.MSELECT, Ops.MSTACK):
            parts = [self.memories[view_base(s)] for s in u.src]
            layout = tuple(upper_bound(size) for size in u.shape)
            self.memories[u] = Memory(u.replace(src=tuple(p.token for p in parts)), layout)

    def _after_version(self, u: UOp, token: UOp) -> UOp:
        """The version that an AFTER names: made by a custom kernel here, or by kernels of before."""
        for source in u.src[1:]:
            if (store := self._custom.get(source)) is not None:
                return next(new for new, old in store.writes if old is token)
        return u.replace(src=(token, *u.src[1:]))

    # *** stages ***

    def _visit_stage(self, u: UOp, stage: Stage) -> None:
        if u.op is Ops.ASSIGN:
            self._store_assign(u, stage)
        elif u.op in GroupOp.Elementwise or u.op in (Ops.CONTIGUOUS, Ops.REDUCE_AXIS):
            self._visit_valued(u, stage)
        else:
            self._store_whole(u)
        if u not in self.exprs:
            reads = self.demand.reads[u].values()
            self.exprs[u] = {read.key: self._read_back(u, read) for read in reads}

    def _read_back(self, u: UOp, read: Read) -> UOp:
        if u in self.constants:
            return self.constants[u]
        return self.memories[u].read(u.dtype, read.indices, read.exists)

    def _visit_valued(self, u: UOp, stage: Stage) -> None:
        if u.op is Ops.CONTIGUOUS:
            value = self._source(u, stage.body, 0)
        else:
            value = self._express(u, stage.body)
        value = simplify_value(value)
        if value.op is Ops.CONST and u.op is not Ops.CONTIGUOUS and u not in self.demand.in_memory:
            self.constants[u] = value
            return
        reads = list(self.demand.reads[u].values())
        if not stage.forced and not worth_storing(stage, value, reads):
            self._dissolve(u, stage, value, reads)
            return
        if stage.inside:
            self._keep_inside(u, stage, value, reads)
            return
        same = self._already_stored(u, stage, value)
        if same is not None:
            self.memories[u] = same
            return
        layout = tuple(upper_bound(size) for size in u.shape)
        if u.op is not Ops.CONTIGUOUS and u not in self.demand.in_memory:
            layout = without_idle_axes(layout, value, stage)
        memory = Memory(self.new_buffer(u, prod(layout)), layout)
        self._store(u, memory, memory.position(stage.body.indices, None), value, stage, None)

    def _already_stored(self, u: UOp, stage: Stage, value: UOp) -> Memory | None:
        """The buffer that already holds a value which turned out to be a plain copy of it."""
        if (
            value.op is not Ops.INDEX
            or value.dtype is not u.dtype
            or value.src[0].op is not Ops.BUFFER
        ):
            return None
        if u.op is Ops.CONTIGUOUS:
            return self._stored_in_order(u, stage, value)
        return self._equal_buffer(u, stage, value)

    def _stored_in_order(self, u: UOp, stage: Stage, value: UOp) -> Memory | None:
        """For CONTIGUOUS: memory of this schedule that was only made to be read, and lies in that order.

        The node that it was made for stays a value: writing the contiguous tensor must not show in it.
        """
        token, position = value.src
        made = self._made.get(token)
        if made is None or made.node in self.demand.forced or made.node.op is Ops.CONTIGUOUS:
            return None
        if u.arg is not None or any(isinstance(size, UOp) for size in u.shape):
            return None
        if not self.demand.overwritten.isdisjoint((u, made.node)):
            return None
        own = flat_index(u.shape, stage.body.indices)
        apart = (position + own * -1).simplify()
        if token.size != prod(u.shape) or apart.op is not Ops.CONST or apart.arg != 0:
            return None
        self.lent.add(made.node)
        return Memory(token, tuple(u.shape))

    def _equal_buffer(self, u: UOp, stage: Stage, value: UOp) -> Memory | None:
        """drop-in: users expect that x*y/y needs no kernel, the result then shares memory with x; of a
        single element they expect one.
        """
        if len(u.shape) != 1:
            return None
        token, position = value.src
        if buffer_of(token) in self.demand.overwritten:
            return None
        same = token.size == u.shape[0] != 1 and position is flat_index(u.shape, stage.body.indices)
        return Memory(token, (token.size,)) if same else None

    def _dissolve(self, u: UOp, stage: Stage, value: UOp, reads: list[Read]) -> None:
        loops = stage.body.indices
        exprs = {}
        for number, read in enumerate(reads):
            pairs = zip(loops, read.indices)
            moves = {loop: at for loop, at in pairs if loop.op is Ops.RANGE and loop is not at}
            if number > 0:
                moves.update(self._renamed_reductions(value))
            exprs[read.key] = transplant(value, moves, read.exists)
        self.exprs[u] = exprs

    def _keep_inside(self, u: UOp, stage: Stage, value: UOp, reads: list[Read]) -> None:
        """Keep a value in an array of its readers' kernel, for the axes that they do not share."""
        kept = [
            axis
            for axis, loop in enumerate(stage.body.indices)
            if loop.op is Ops.RANGE and any(read.indices[axis] is not loop for read in reads)
        ]
        sizes = tuple(upper_bound(u.shape[axis]) for axis in kept)
        loops = tuple(stage.body.indices[axis] for axis in kept)
        array = UOp(Ops.BUFFERIZE, u.dtype, (value, *loops), KEPT) if kept else None
        exprs = {}
        for read in reads:
            position = flat_index(sizes, tuple(read.indices[axis] for axis in kept))
            exprs[read.key] = UOp(Ops.INDEX, u.dtype, (array, position)) if kept else value
        self.exprs[u] = exprs

    def _renamed_reductions(self, value: UOp) -> dict[UOp, UOp]:
        """New loops for the reductions of a value that is used once more in the same kernel."""
        reductions = [u for u in value.toposort() if u.op is Ops.REDUCE]
        loops = dict.fromkeys(loop for u in reductions for loop in u.src[1:])
        return {loop: self.demand.new_range(loop.src[0], AxisType.REDUCE) for loop in loops}

    def _store(self, u, memory, position, value, stage, overwrites) -> None:
        self.memories[u] = memory
        self._write(u, memory, position, value, stage, overwrites)

    def _write(self, u, memory, position, value, stage, overwrites) -> None:
        value = self._within_limits(u, value)
        used = UOp.sink(value, position).ranges
        loops = tuple(loop for loop in stage.body.indices if loop in used)
        self._add(Store(u, [(memory.token, overwrites)], position, value, loops))

    def _within_limits(self, u: UOp, value: UOp) -> UOp:
        """The value, with parts of it stored before where it reads more buffers than can be bound."""
        if len({read.src[0] for read in memory_reads(value)}) < ALWAYS_FITS:
            return value
        limit = max_buffers(u.device)
        if limit == 0:
            return value

        def keep(part: UOp) -> UOp:
            read, position, moved, loops = as_array(
                part,
                lambda size: self.new_buffer(u, size, part.dtype),
                lambda end: self.demand.new_range(end, AxisType.LOOP),
            )
            self._add(Store(u, [(read.src[0], None)], position, moved, loops))
            return read

        return split_value(value, limit, reads_memory, keep)

    def _add(self, store: Store) -> None:
        self.stores.append(store)
        for new, old in store.writes:
            if old is None:
                self._made[new] = store
            else:
                self._overwritten.add(old)

    def _store_whole(self, u: UOp) -> None:
        """COPY and the like: the node itself is what runs, on whole buffers."""
        inputs = tuple(self.memories[view_base(s)].token for s in data_sources(u))
        if u.op is Ops.CUSTOM_KERNEL:
            store = custom_store(u, [(self._next_version(t), t) for t in inputs])
            self._custom[u] = store
            self._add(store)
            return
        layout = tuple(upper_bound(size) for size in u.shape)
        memory = Memory(self.new_buffer(u, prod(layout)), layout)
        self.memories[u] = memory
        ast = UOp(u.op, u.dtype, u.src[1:], u.arg)
        self._add(Store(u, [(memory.token, None)], inputs=inputs, ast=ast))

    def _own_target(self, target: Memory) -> Memory:
        """Memory to overwrite. What is made in this schedule and overwritten already is made again:
        equal nodes are one node, but two tensors that are assigned to do not share their memory.
        """
        made = self._made.get(target.token)
        if made is None or target.token not in self._overwritten:
            return target
        again = Memory(self.new_buffer(made.node, target.buffer.size), target.layout)
        self._add(replace(made, writes=[(again.token, None)]))
        return again

    def _next_version(self, token: UOp) -> UOp:
        """What the memory will be after it is written; differs from every other version.

        It does not contain the version before, so that a value stays small after many writes.
        """
        self._versions += 1
        return buffer_of(token).after(UOp(Ops.NOOP, arg=("version", self._versions)))

    def _store_assign(self, u: UOp, stage: Stage) -> None:
        value = simplify_value(self._source(u, stage.body, 1))
        target = self._own_target(self.memories[view_base(u.src[0])])
        position = target.position(stage.target, stage.target_exists)
        # drop-in: users count a kernel of its own for a value that depends on a reordered view of what
        # it replaces, also where the element it replaces is the only one that its kernel reads
        if u in self.demand.reordering or reads_elsewhere(value, target, position):
            layout = tuple(upper_bound(size) for size in u.shape)
            spare = Memory(self.new_buffer(u, prod(layout)), layout)
            where = spare.position(stage.body.indices, None)
            self._write(u.src[1], spare, where, value, stage, None)
            value = spare.read(u.dtype, stage.body.indices, None)
        written = Memory(self._next_version(target.token), target.layout)
        self._store(u, written, position, value, stage, target.token)
        reads = self.demand.reads[u].values()
        exprs = {}
        for read in reads:
            indices, inside = trace_target(self.demand.targets[u][0], read.indices)
            exists = conjunction([c for c in (read.exists, inside) if c is not None])
            exprs[read.key] = written.read(u.dtype, indices, exists)
        self.exprs[u] = exprs


def assigned_in(after: UOp) -> UOp | None:
    """The assignment to a part of memory after which an AFTER gives the whole of it."""
    bases = [view_base(source) for source in after.src[1:]]
    return next((base for base in bases if base.op is Ops.ASSIGN), None)


def custom_store(u: UOp, writes: list[tuple[UOp, UOp | None]]) -> Store:
    """A kernel that the user wrote; every source has a version afterwards."""
    ast, written = custom_ast(u.arg.fxn, u.src)
    unchanged = frozenset(new for slot, (new, _) in enumerate(writes) if slot not in written)
    inputs = tuple(old for _, old in writes if old is not None)
    return Store(u, writes, inputs=inputs, ast=ast, unchanged=unchanged)


def without_idle_axes(layout: tuple[int, ...], value: UOp, stage: Stage) -> tuple[int, ...]:
    """Axes along which a value is the same everywhere are stored once."""
    used = value.ranges
    pairs = zip(layout, stage.body.indices)
    return tuple(size if loop in used else 1 for size, loop in pairs)


def reads_elsewhere(value: UOp, target: Memory, position: UOp) -> bool:
    """Whether a value reads the overwritten buffer anywhere but at the element it replaces."""
    for read in memory_reads(value):
        if buffer_of(read.src[0]) is not target.buffer:
            continue
        if read.src[0] is not target.token or read.src[1].get_idx() is not position.get_idx():
            return True
    return False


def worth_storing(stage: Stage, value: UOp, reads: list[Read]) -> bool:
    """Whether a proposed stage gets a buffer; the alternative is to compute it in every reader."""
    if not reads:
        return False
    places = memory_reads(value)
    buffers = {read.src[0] for read in places}
    if len(buffers) > MAX_REREAD_BUFFERS or nested_reads(places) > MAX_NESTED_READS:
        return True
    if value.op_in_backward_slice_with_self(Ops.REDUCE):
        repeated, once = reductions_of(value)
        # drop-in: a tensor of one element that has axes is stored, users count a kernel of its own
        has_one = all(loop.op is not Ops.RANGE for loop in stage.body.indices)
        if repeated or (has_one and stage.body.indices):
            return True
        if sum(steps_of(u) for u in once) > MAX_REPEATED_REDUCTION:
            return True
    times = len(reads)
    if len(value.toposort()) * times <= MAX_RECOMPUTED_ALUS:
        return False
    return count_alus(value) * times > MAX_RECOMPUTED_ALUS


def nested_reads(places: list[UOp]) -> int:
    """The longest chain of reads each of which needs the next to know its position; `places` sources first."""
    depth: dict[UOp, int] = {}
    for read in places:
        position = read.src[1]
        inner: list[UOp] = []
        if position.op_in_backward_slice_with_self(Ops.INDEX):
            inner = [u for u in position.toposort() if u in depth]
        depth[read] = 1 + max((depth[u] for u in inner), default=0)
    return max(depth.values(), default=0)


def reductions_of(value: UOp) -> tuple[list[UOp], list[UOp]]:
    """The outermost reductions of a value: those for each of its elements, and those to a scalar."""
    repeated: list[UOp] = []
    once: list[UOp] = []
    seen, stack = {value}, [value]
    while stack:
        u = stack.pop()
        if u.op is Ops.REDUCE:
            (repeated if u.ranges else once).append(u)
            continue
        new = [s for s in dict.fromkeys(u.src) if s not in seen]
        seen.update(new)
        stack += new
    return repeated, once


def steps_of(scalar: UOp) -> int:
    """Elements that a reduction to a scalar looks at, at most."""
    loops = [u for u in scalar.toposort() if u.op is Ops.RANGE]
    return prod(upper_bound(loop.src[0]) for loop in loops)
