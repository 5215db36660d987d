"""What a write to memory does to everybody else who can see that memory.

In: an assignment, or the graphs that are about to be computed. Three kinds of tensors know the memory that is written:

- views of it (chains of movement operations, bitcasts, detach) are the same elements: they show the write;
- values computed from it (`y = a + 1`, not computed yet) mean what it held when they were built: they go on reading a copy;
- results that turned out to be the very elements of it (`a + 0`) share it until then: see `engine.sharing`.

Invariant: every live view of written memory is a view of its newest state. Called by `memory`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from tinygrad._core.guard import same_objects
from tinygrad.device import Buffer, MultiBuffer
from tinygrad.engine import sharing
from tinygrad.engine.sharing import VIEWS, parts_of
from tinygrad.schedule.demand import split_views
from tinygrad.schedule.storage import custom_ast
from tinygrad.tensor.core import TensorCore, live_tensors, nodes_without_memory, origin_of
from tinygrad.uop.ops import Ops, UOp, all_metadata, buffers

T = TypeVar("T")

# what is written must have a place of its own: equal computations, `contiguous` and copies among them, are one node
_MEMORY = frozenset({Ops.BUFFER, Ops.ASSIGN, Ops.AFTER, Ops.MSELECT})
_MADE_MEMORY = frozenset({Ops.CONTIGUOUS, Ops.COPY})
# views of which each element has a place of its own in memory
_PLACES = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.SHRINK, Ops.FLIP})
# what overwrites memory
WRITES = (Ops.ASSIGN, Ops.CUSTOM_KERNEL)


# ---------------------------------------------------------------- views


def split(node: UOp) -> tuple[list[UOp], UOp]:
    """The views on top of a state of memory, outermost first, and that state."""
    return split_views(node, VIEWS)


def state_of(node: UOp) -> UOp:
    """The state of memory that a view shows."""
    return split(node)[1]


def is_constant(node: UOp) -> bool:
    """Whether a node is one number everywhere, also one that was sent to several devices: it has no memory to write to."""
    while (state := state_of(node)).op in (Ops.COPY, Ops.MULTI):
        node = state.src[0]
    return state.op is Ops.CONST


def shares_elements(node: UOp) -> bool:
    """Whether several elements of a view are one element of its memory."""
    return 0 not in node.shape and any(view.op is Ops.EXPAND for view in split(node)[0])


def _on(views: list[UOp], state: UOp) -> UOp:
    """The views, outermost first, of another state of the same shape.

    Of reshapes in a row the last is enough: where a tensor is written through a view again and again, they would add up.
    """
    for view in reversed(views):
        if view.op is Ops.RESHAPE:
            while state.op is Ops.RESHAPE:
                state = state.src[0]
            if state.shape == view.shape:
                continue
        state = view.replace(src=(state, *view.src[1:]))
    return state


def write(target: TensorCore, value: UOp) -> None:
    """Makes `target`, and every live view of the memory below it, show `value` in its place.

    Raises RuntimeError for a part of the axis along which a tensor is sharded.
    """
    views, state = split(target.uop)
    _refuse_part_of_shards(target.uop)
    partly = any(view.op is not Ops.RESHAPE for view in views)
    if not _in_memory(state):
        _move_to_memory(target, state, partly)
        views, state = split(target.uop)
    before, target.uop = target.uop, _on(views, state)
    done = target.uop.assign(value)
    if partly:
        newest = state.after(done)
    else:
        newest = done if done.shape == state.shape else done.reshape(state.shape)
    _writers[done] = threading.get_ident()
    for tensor in _views_of(state):
        if tensor is target:
            continue
        seen, _ = split(tensor.uop)
        tensor.uop = done if tensor.uop is before and not partly else _on(seen, newest)
    target.uop = _on(views, newest) if partly else done


def _views_of(state: UOp) -> list[TensorCore]:
    """The live tensors that show a state of memory."""
    return [t for t in live_tensors() if t.uop is state or state_of(t.uop) is state]


def written_by_kernel(fxn: Callable[..., UOp], tensors: Sequence[TensorCore]) -> set[int]:
    """The numbers of the tensors that a user's kernel writes to."""
    return custom_ast(fxn, [t.uop for t in tensors])[1]


def needs_memory_first(target: TensorCore) -> bool:
    """Whether a tensor is a computation whose result a kernel would overwrite: equal computations share it."""
    return state_of(target.uop).op in _MADE_MEMORY


def write_by_kernel(target: TensorCore, source: UOp, done: UOp) -> None:
    """As `write`, by a kernel of the user's: `source` is what it gets for `target`, `done` that afterwards.

    A part of memory, or one in another order, is copied for the kernel, and the copy written back.
    """
    _writers[done.src[1]] = threading.get_ident()
    views, state = split(target.uop)
    if _memory_behind(source) is not state or any(view.op is not Ops.RESHAPE for view in views):
        if _in_memory(state) and all(view.op in _PLACES for view in views):
            write(target, done)
        return
    newest = done if done.shape == state.shape else done.reshape(state.shape)
    for tensor in _views_of(state):
        seen, _ = split(tensor.uop)
        tensor.uop = _on(seen, newest)


def _memory_behind(node: UOp) -> UOp:
    """The state of memory that a value which was made contiguous is: what lies in order is not copied for that."""
    state = state_of(node)
    while state.op is Ops.CONTIGUOUS:
        views, below = split(state.src[0])
        if not _in_memory(below) or any(view.op is not Ops.RESHAPE for view in views):
            break
        state = below
    return state


def cut_of_shards(node: UOp) -> UOp | None:
    """The view among those of a node that takes a part of the axis along which a tensor is sharded."""
    for view in split(node)[0]:
        if view.op is Ops.SHRINK and (axis := view.src[0].axis) is not None:
            if view.marg[axis] != (0, view.src[0].shape[axis]):
                return view
    return None


def _refuse_part_of_shards(target: UOp) -> None:
    if (view := cut_of_shards(target)) is None:
        return
    whole, axis = view.src[0], view.src[0].axis
    raise RuntimeError(
        f"cannot assign to {view.marg[axis]} of axis {axis} of length {whole.shape[axis]}, which is sharded: that is other "
        "memory on every device; assign to the whole axis, with where()"
    )


def give_memory(target: TensorCore) -> None:
    """Before a part of `target` is written: what is yet to be computed is computed into memory of its own."""
    state = state_of(target.uop)
    if state.op is not Ops.CONST and not _in_memory(state):
        _move_to_memory(target, state, True)


def _in_memory(state: UOp) -> bool:
    """Whether a state has a place of its own before, or once, it is computed."""
    if not all(isinstance(size, int) for size in state.shape):
        return True  # memory is made for known shapes only
    if state.op in (Ops.MULTI, Ops.MSTACK):
        return all(_in_memory(state_of(u)) for u in state.src)
    return state.op in _MEMORY


def _move_to_memory(target: TensorCore, state: UOp, filled: bool) -> None:
    """Gives what is yet to be computed memory of its own, for `target` and the tensors of its origin.

    `filled`: with the values in it; else all of it is about to be overwritten.
    """
    blank: Any = type(target)._wrap(state).empty_like()
    values = state.src[0] if state.op is Ops.CONTIGUOUS else state
    home = blank.uop.assign(values) if filled else blank.uop
    origin = origin_of(target)
    for tensor in live_tensors():
        seen, below = split(tensor.uop)
        mine = tensor is target or (origin is not None and origin_of(tensor) is origin)
        if mine and below is state:
            remember(tensor)
            tensor.uop = _on(seen, home)


def _split_constant(node: UOp) -> tuple[list[UOp], UOp]:
    """The views of a number in all places of some shape, and that: what was computed, or made, as one number."""
    views, _ = split(node)
    below = max((i for i, view in enumerate(views) if view.op is Ops.EXPAND), default=0)
    return views[:below], views[below] if views else node


def give_constant_memory(target: TensorCore) -> bool:
    """Where other tensors show the number that `target` is a view of, gives them all memory that holds it; whether it did."""
    origin = origin_of(target)
    _, number = _split_constant(target.uop)
    shown = [
        (tensor, views)
        for tensor in live_tensors()
        if origin is not None and origin_of(tensor) is origin
        for views, below in [_split_constant(tensor.uop)]
        if below is number
    ]
    if len(shown) < 2:
        return False
    blank: Any = type(target)._wrap(number).empty_like()
    home = blank.uop.assign(number)
    for tensor, views in shown:
        tensor.uop = _on(views, home)
    return True


# assignment -> the thread that made it
_writers: WeakKeyDictionary[UOp, int] = WeakKeyDictionary()


def writer_of(node: UOp) -> int | None:
    """The thread whose write a view shows; None where it shows none that is yet to run."""
    state = state_of(node)
    if state.op is Ops.AFTER:
        state = state_of(state.src[-1])
    return _writers.get(state)


# ---------------------------------------------------------------- values of before


# BUFFER node of a copy that keeps what memory held -> the BUFFER node of that memory
_copy_of: WeakKeyDictionary[UOp, weakref.ref[UOp]] = WeakKeyDictionary()


class History:
    """By which nodes a graph knows what tensors show: their states before writes that came later, and kept copies of those."""

    def __init__(self, graph: dict[UOp, None]):
        self.graph = graph
        self.copies: dict[UOp, list[UOp]] = {}
        for u in graph:
            if u.op is Ops.BUFFER and (ref := _copy_of.get(u)) and (origin := ref()) is not None:
                self.copies.setdefault(origin, []).append(u)

    def states(self, tensor: TensorCore) -> list[UOp]:
        """The nodes of the graph that are what the tensor shows, or were; the newest first."""
        found: dict[UOp, None] = {}
        for node in (tensor.uop, *reversed(_alive(_earlier.get(tensor)))):
            found.update(dict.fromkeys(self._states_of(node)))
        return list(found)

    def _states_of(self, node: UOp) -> list[UOp]:
        found: dict[UOp, None] = {}
        while True:
            found.update(dict.fromkeys(u for u in (node, *self._kept(node)) if u in self.graph))
            views, state = split(node)
            if state.op not in (Ops.ASSIGN, Ops.AFTER):
                return list(found)
            node = _on(views, state.src[0])

    def _kept(self, node: UOp) -> list[UOp]:
        if not self.copies:
            return []
        own = [u for u in _below(node) if u in self.copies]
        # the parts of one value are copied together
        made = list(zip(*[self.copies[u] for u in own]))
        return [node.substitute(dict(zip(own, copies))) for copies in reversed(made)]


class _Notes(Generic[T]):
    """Something remembered of tensors for as long as they live. Tensors compare elementwise, so they can't be keys."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[weakref.ref, T]] = {}

    def get(self, tensor: TensorCore) -> T | None:
        held = self.found.get(id(tensor))
        return held[1] if held is not None and held[0]() is tensor else None

    def put(self, tensor: TensorCore, note: T) -> None:
        number = id(tensor)
        self.found[number] = (weakref.ref(tensor, lambda _: self.found.pop(number, None)), note)


# what tensors that want a gradient were before they were given memory to be written
_earlier: _Notes[list[weakref.ref[UOp]]] = _Notes()


def _alive(references: list[weakref.ref[UOp]] | None) -> list[UOp]:
    return [u for ref in references or () if (u := ref()) is not None]


def remember(tensor: TensorCore) -> None:
    """Notes what a tensor is, before it becomes something else: graphs that were built from it may be differentiated yet."""
    if tensor.requires_grad:
        known = _alive(_earlier.get(tensor))
        _earlier.put(tensor, [weakref.ref(u) for u in (*known, tensor.uop)])


def follow(changes: dict[UOp, UOp]) -> list[UOp]:
    """Keeps what was noted true when nodes are exchanged in all graphs. Gives the new nodes, to be held meanwhile."""
    held: list[UOp] = []
    for number, (ref, noted) in list(_earlier.found.items()):
        nodes = [u.substitute(changes) for u in _alive(noted)]
        held += nodes
        if nodes:
            _earlier.found[number] = (ref, [weakref.ref(u) for u in nodes])
        else:
            del _earlier.found[number]
    return held


# tensors that were computed because memory below them was overwritten, not because anybody asked
computed_early: _Notes[bool] = _Notes()


@dataclass(frozen=True)
class OldReaders:
    """Live tensors that are yet to be computed from memory that is about to be replaced.

    `path`: the nodes between them and the `replaced` states, sources first.
    """

    tensors: list[TensorCore]
    path: list[UOp]
    replaced: set[UOp]

    def in_memory(self) -> list[UOp]:
        """The BUFFER nodes that are read, where all that is replaced has been computed; else nothing."""
        met = {s for u in self.path for s in u.src if s in self.replaced}
        found: dict[UOp, None] = {}
        for state in met:
            if any(u.op not in (Ops.BUFFER, Ops.MULTI, Ops.MSTACK) for u in _below(state)):
                return []
            found.update(dict.fromkeys(u for u in _below(state) if u.op is Ops.BUFFER))
        return list(found)

    def read_from(self, copies: dict[UOp, UOp]) -> None:
        """Lets the tensors read `copies` instead of the buffers."""
        _copy_of.update((copy, weakref.ref(origin)) for origin, copy in copies.items())
        new = {s: s.substitute(copies) for u in self.path for s in u.src if s in self.replaced}
        for u in self.path:
            made = u.replace(src=tuple([new.get(s, s) for s in u.src]))
            if (note := all_metadata.get(u)) is not None:
                all_metadata.setdefault(made, note)
            new[u] = made
        for t in self.tensors:
            t.uop = new[t.uop]


def _below(state: UOp) -> list[UOp]:
    """What a state is put together from, down to buffers or to what is none; without views."""
    found, pending = [], [state]
    while pending:
        u = state_of(pending.pop())
        found.append(u)
        if u.op in (Ops.MULTI, Ops.MSTACK):
            pending.extend(u.src)
    return found


def old_readers(roots: Iterable[UOp]) -> OldReaders | None:
    """Who is yet to be computed from what the assignments in `roots` will replace."""
    together = UOp.sink(*roots)
    if not together.op_in_backward_slice_with_self(*WRITES):
        return None
    order = together.toposort()
    writes = {u for u in order if u.op in WRITES}
    replaced = {_memory_behind(target) for u in writes for target in _targets(u)}
    # what will be in memory of its own is read from there
    stored = {u for u in order if u.op in _MADE_MEMORY} | {state_of(u) for u in together.src}
    return _readers(replaced, writes | (stored - replaced), set(together.src))


def _targets(write: UOp) -> list[UOp]:
    """The sources of an assignment or of a user's kernel that it overwrites."""
    if write.op is Ops.ASSIGN:
        return [write.src[0]]
    if (slots := _written_slots.get(write)) is None:
        slots = _written_slots[write] = custom_ast(write.arg.fxn, write.src)[1]
    return [write.src[slot] for slot in slots]


_written_slots: WeakKeyDictionary[UOp, set[int]] = WeakKeyDictionary()


def _readers(replaced: set[UOp], writes: set[UOp], known: set[UOp]) -> OldReaders | None:
    """Live tensors, not of `known` nodes, computed from a state in `replaced` in another way than through `writes`."""
    waiting = [t for t in live_tensors() if t.uop not in known and not _is_view(t.uop)]
    if not waiting:
        return None

    def goes_on(u: UOp) -> bool:
        if u in replaced or u in writes:
            return False
        return u.op is not Ops.AFTER or not any(s in writes for s in u.src)

    path: dict[UOp, None] = {}
    for u in UOp.sink(*dict.fromkeys(t.uop for t in waiting)).toposort(goes_on):
        if u.op is not Ops.SINK and goes_on(u) and any(s in replaced or s in path for s in u.src):
            path[u] = None
    tensors = [t for t in waiting if t.uop in path]
    return OldReaders(tensors, list(path), replaced) if tensors else None


def _is_view(node: UOp) -> bool:
    """Whether a node shows memory as it is, so that there is nothing to keep of what it showed."""
    state = state_of(node)
    if state.op is Ops.MULTI:
        state = state_of(state.src[0])
    return state.op in (Ops.BUFFER, Ops.CONST, Ops.MSTACK, Ops.MSELECT)


class _LastLook:
    """What `readers_of_memory` saw last: the nodes of tensors, and the memory that they read. It is mostly the same again."""

    nodes: list[UOp] = []
    bases: frozenset[Buffer] | None = None
    splits = -1


def readers_of_memory(written: set[Buffer]) -> OldReaders | None:
    """Who is yet to be computed from buffers that are about to be overwritten."""
    # before each launch of a capture: what is nothing but a buffer, most of all there is, is passed over at once
    nodes = nodes_without_memory()
    if not nodes:
        return None
    if _LastLook.bases is not None and _LastLook.splits == sharing.splits():
        if written.isdisjoint(_LastLook.bases) and same_objects(nodes, _LastLook.nodes):
            return None
    waiting = dict.fromkeys(u for u in nodes if not _is_view(u))
    order = UOp.sink(*waiting).toposort()
    memory = {u: parts_of(u) for u in order if u.op is Ops.BUFFER}
    # memory that is yet to be allocated may be known by the next time
    known = all(memory.values())
    _LastLook.nodes, _LastLook.splits = nodes, sharing.splits()
    _LastLook.bases = frozenset(b for found in memory.values() for b in found) if known else None
    replaced = {u for u, found in memory.items() if not written.isdisjoint(found)}
    return _readers(replaced, set(), set()) if replaced else None


def like(node: UOp) -> UOp:
    """A BUFFER node of its own, with memory as that of `node`."""
    made = node.replace(src=(UOp.unique(), *node.src[1:]))
    kind = MultiBuffer if isinstance(node.device, tuple) else Buffer
    buffers[made] = kind(node.device, node.arg, node.dtype.base)
    return made
