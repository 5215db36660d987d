"""From stores to KERNEL nodes.

In: the stores of `build` and the outputs. Out: for every node that is in memory afterwards, the node
that users see instead: a view of AFTER(BUFFER, KERNEL). Only stores that an output needs become
kernels. A KERNEL's sources are the memory it works on in the order of its slots (written first),
then the bound variables. Reading memory that a kernel writes is reading AFTER(buffer, kernel); a
kernel that overwrites memory comes AFTER those that still read the old version.

The AST of a kernel depends on the computation alone (loops numbered from zero, buffers by slot), so
that equal computations are one node.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tinygrad.dtype import dtypes
from tinygrad.schedule.build import Store, buffer_of, reads_memory
from tinygrad.schedule.transplant import transplant
from tinygrad.uop.ops import AxisType, KernelInfo, Ops, UOp


@dataclass(frozen=True)
class Kernel:
    """What one KERNEL runs: an AST (a SINK, or a COPY and the like) and where it came from.

    `metadata`: the calls of the user; `places`: the nodes that these made, by their places in the order of the sink.
    """

    ast: UOp
    metadata: tuple = ()
    places: tuple[int, ...] = ()

    def __repr__(self) -> str:
        ast = self.ast.op if self.ast.op is not Ops.SINK else f"SINK of {len(self.ast.src)}"
        return f"<Kernel {ast} {self.metadata}>"


def tokens_read(store: Store) -> dict[UOp, None]:
    """The versions of memory that a store reads."""
    tokens = dict.fromkeys(store.inputs)
    for part in (store.value, store.position):
        if part is not None:
            tokens.update((u.src[0], None) for u in part.toposort() if reads_memory(u))
    return tokens


def versions_in(token: UOp) -> list[UOp]:
    """The single versions that memory on several devices is put together from."""
    if token.op in (Ops.MSELECT, Ops.MSTACK):
        return [version for s in token.src for version in versions_in(s)]
    return [token]


# *** order ***


class Order:
    """The stores that are needed, in an order that respects reads and overwrites."""

    def __init__(self, stores: list[Store], needed: list[UOp]):
        self.stores = stores
        self.writer = {new: n for n, store in enumerate(stores) for new, _ in store.writes}
        self.reads = [
            dict.fromkeys(v for token in tokens_read(store) for v in versions_in(token))
            for store in stores
        ]
        self.used = self._reach([v for token in needed for v in versions_in(token)])
        self.readers: dict[UOp, list[int]] = {}
        for number in self.used:
            for version in self.reads[number]:
                self.readers.setdefault(version, []).append(number)

    def _producers(self, number: int) -> list[int]:
        replaced = [old for _, old in self.stores[number].writes if old is not None]
        overwritten = [version for old in replaced for version in versions_in(old)]
        versions = [*self.reads[number], *overwritten]
        return [self.writer[version] for version in versions if version in self.writer]

    def _reach(self, needed: list[UOp]) -> list[int]:
        stack = [self.writer[version] for version in needed if version in self.writer]
        seen: set[int] = set()
        while stack:
            number = stack.pop()
            if number not in seen:
                seen.add(number)
                stack.extend(self._producers(number))
        return sorted(seen)

    def earlier_readers(self, number: int) -> list[int]:
        """Who has to read the old versions before this store overwrites them."""
        found: dict[int, None] = {}
        store = self.stores[number]
        for new, old in store.writes:
            if new not in store.unchanged and old is not None:
                for version in versions_in(old):
                    found.update(dict.fromkeys(self.readers.get(version, ())))
        return [reader for reader in found if reader != number]

    def sequence(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Topological order; among those that may go next, the earliest built.

        Where it ends early, the second result says why: pairs (reader, writer) of which the reader
        wants the version that the writer overwrites, and something that waits for the writer.
        """
        hard = {n: set(self._producers(n)) for n in self.used}
        soft = {n: set(self.earlier_readers(n)) - hard[n] for n in self.used}
        waiting = {n: len(hard[n]) + len(soft[n]) for n in self.used}
        followers: dict[int, list[int]] = {n: [] for n in self.used}
        for number in self.used:
            for other in hard[number] | soft[number]:
                followers[other].append(number)
        ready = [n for n, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        done: dict[int, None] = {}
        while ready:
            number = heapq.heappop(ready)
            done[number] = None
            for follower in followers[number]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    heapq.heappush(ready, follower)
        for number in self.used:
            if number not in done and hard[number] <= done.keys():
                late = sorted(soft[number] - done.keys())
                return list(done), [(reader, number) for reader in late]
        if len(done) != len(self.used):
            stuck = [self.stores[n].node for n in self.used if n not in done]
            raise RuntimeError(f"kernels wait for each other in a cycle: {stuck[:4]}")
        return list(done), []


def order_stores(stores: list[Store], needed: list[UOp], new_buffer) -> tuple[Order, list[int]]:
    """An order in which everybody finds the version that it reads.

    A reader of an old version that also needs what comes after it gets a copy of the old one.
    """
    while True:
        order = Order(stores, needed)
        sequence, late = order.sequence()
        if not late:
            return order, sequence
        stores = list(stores)
        copies: dict[UOp, UOp] = {}
        for reader, writer in late:
            lost = {
                version
                for new, old in stores[writer].writes
                if new not in stores[writer].unchanged and old is not None
                for version in versions_in(old)
            }
            for token in tokens_read(stores[reader]):
                if lost.isdisjoint(versions_in(token)):
                    continue
                if token not in copies:
                    copies[token], store = _copy_store(stores[writer].node, token, new_buffer)
                    stores.append(store)
                stores[reader] = _redirect(stores[reader], token, copies[token])


def _copy_store(node: UOp, old: UOp, new_buffer) -> tuple[UOp, Store]:
    buffer = buffer_of(old)
    spare = new_buffer(buffer, buffer.size)
    loop = UOp.range(buffer.size, 0, AxisType.LOOP)
    value = UOp(Ops.INDEX, old.dtype, (old, loop))
    return spare, Store(node, [(spare, None)], loop, value, (loop,))


def _redirect(store: Store, old: UOp, new: UOp) -> Store:
    # later versions hold the old one; they stay as they are
    swap = {token: token for token in tokens_read(store)} | {old: new}
    if store.value is not None:
        store.value = transplant(store.value, swap, None)
    store.inputs = tuple(swap[token] for token in store.inputs)
    return store


# *** the AST ***


def canonical_loops(sink: UOp, loops: tuple[UOp, ...]) -> dict[UOp, UOp]:
    """Numbers for the loops: those of the result in axis order, then reductions as they appear."""
    numbers = {loop: number for number, loop in enumerate(loops)}
    for u in sink.toposort():
        if u.op is Ops.RANGE and u not in numbers:
            numbers[u] = len(numbers)
    return {
        loop: loop.replace(arg=(number, loop.arg[1]))
        for loop, number in numbers.items()
        if loop.arg[0] != number
    }


def without_context(sink: UOp) -> tuple[UOp, list[UOp]]:
    """The sink with its variables unbound and constants without a device; the bound variables."""
    swaps, binds = {}, []
    for u in sink.toposort():
        if u.op is Ops.BIND:
            binds.append(u)
            swaps[u] = u.src[0]
        elif u.op is Ops.CONST and u.src:
            swaps[u] = u.replace(src=())
    return transplant(sink, swaps, None) if swaps else sink, binds


def memory_arguments(store: Store, tokens: list[UOp]) -> dict[UOp, UOp]:
    """A DEFINE_GLOBAL for every version of memory; slots by buffer, the written one first."""
    slots: dict[UOp, int] = {}
    arguments = {}
    for token in [store.token, *tokens]:
        buffer = buffer_of(token)
        slot = slots.setdefault(buffer, len(slots))
        arguments[token] = UOp(Ops.DEFINE_GLOBAL, buffer.dtype.ptr(buffer.size), (), slot)
    devices = dict.fromkeys(buffer.device for buffer in slots)
    if len(devices) > 1:
        raise RuntimeError(
            f"all buffers must be on the same device: {tuple(devices)}; move them to one, with .to(device)"
        )
    return arguments


def kernel_ast(store: Store) -> tuple[UOp, list[UOp], list[UOp]]:
    """The SINK of a store, the versions it reads in slot order, the bound variables."""
    tokens = list(tokens_read(store))
    arguments = memory_arguments(store, tokens)
    target = UOp(Ops.INDEX, arguments[store.token].dtype, (store.token, store.position))
    body = target.store(store.value)
    if store.loops:
        body = body.end(*store.loops)
    sink = transplant(UOp.sink(body, arg=kernel_info(store.node)), arguments, None)
    sink, binds = without_context(sink)
    loops = sink.src[0].src[1:] if store.loops else ()
    return transplant(sink, canonical_loops(sink, loops), None), tokens, binds


def kernel_info(node: UOp) -> KernelInfo | None:
    """CONTIGUOUS may carry the optimisations that its kernel gets."""
    if node.op is Ops.CONTIGUOUS and node.arg is not None:
        return KernelInfo(opts_to_apply=node.arg)
    return None


class Emit:
    """KERNEL nodes for the stores, in order."""

    def __init__(self, stores: list[Store], needed: list[UOp], new_buffer, origin):
        self.origin = origin
        self.order, sequence = order_stores(stores, needed, new_buffer)
        self.after: dict[UOp, UOp] = {}
        self.kernels: dict[int, UOp] = {}
        for number in sequence:
            self._emit(number, self.order.stores[number])

    def is_ready(self, version: UOp) -> bool:
        """Whether a version of a buffer is there without, or after, the kernels that run."""
        return version in self.after or version not in self.order.writer

    def finished(self, token: UOp) -> UOp:
        """Memory as users see it, after the kernels that make it."""
        if token.op in (Ops.MSELECT, Ops.MSTACK):
            return token.replace(src=tuple(self.finished(s) for s in token.src))
        return self.after.get(token, token)

    def _emit(self, number: int, store: Store) -> None:
        if store.ast is not None:
            ast, tokens = store.ast, list(store.inputs)
            binds: list[UOp] = []
        else:
            ast, tokens, binds = kernel_ast(store)
        earlier = [self.kernels[reader] for reader in self.order.earlier_readers(number)]
        sources: dict[UOp, UOp] = {}
        for new, old in store.writes:
            previous = buffer_of(new) if old is None else self.finished(old)
            sources[buffer_of(new)] = previous.after(*earlier) if earlier else previous
        for token in tokens:
            sources.setdefault(buffer_of(token), self.finished(token))
        what = Kernel(ast, *self.origin(store.node))
        kernel = UOp(Ops.KERNEL, dtypes.void, (*sources.values(), *binds), what)
        self.kernels[number] = kernel
        for new, _ in store.writes:
            self.after[new] = buffer_of(new).after(kernel)
