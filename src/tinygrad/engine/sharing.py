"""Memory that several BUFFER nodes name, because their values were found to be equal.

`(a + 0).realize()` needs no kernel: its result is the memory of `a`. It gets a node of its own, so that the two can part again:
before one of them is written, the other gets a copy. Views of `a` are no such results, they have its node.

In: what a schedule made of tensor nodes, and the nodes that are about to be written. Invariant: `_sharers` has an entry for every
memory that more than one node names for that reason. Called by Tensor.realize and TinyJit.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary, WeakSet

from tinygrad.device import Buffer, MultiBuffer
from tinygrad.engine.realize import current_capture
from tinygrad.uop.ops import GroupOp, Ops, UOp, buffers

# what shows the elements of a node as they are, in another form
VIEWS = frozenset(GroupOp.Movement | {Ops.BITCAST, Ops.DETACH})

# memory -> the nodes that name it, where there are several, each with the capture under which it was shared
_sharers: WeakKeyDictionary[Buffer | MultiBuffer, WeakSet[UOp]] = WeakKeyDictionary()
# the nodes that took memory which another had before
_twins: WeakSet[UOp] = WeakSet()
_born_in: WeakKeyDictionary[UOp, int] = WeakKeyDictionary()


class _Splits:
    """Counts how often shared memory was parted; who remembers memory of nodes compares it."""

    count = 0


def splits() -> int:
    """How often a node that shared memory was given a copy of its own so far."""
    return _Splits.count


def parts_of(node: UOp) -> list[Buffer]:
    """The single buffers behind a BUFFER node, by their bases."""
    held = buffers.get(node)
    if held is None:
        return []
    return [b.base for b in (held.bufs if isinstance(held, MultiBuffer) else [held])]


def share(node: UOp, held: Buffer | MultiBuffer | None = None) -> UOp:
    """Another BUFFER node of the same memory (or of `held`), for a value that was found to be equal to it."""
    held = node.buffer if held is None else held
    twin = node.replace(src=(UOp.unique(), *node.src[1:]))
    buffers[twin] = held
    group = _sharers.get(held)
    if group is None:
        group = _sharers[held] = WeakSet()
    if buffers.get(node) is held:
        group.add(node)
    group.add(twin)
    _twins.add(twin)
    if (capture := current_capture()) is not None:
        _born_in[twin] = id(capture)
    return twin


def is_twin(node: UOp) -> bool:
    """Whether a node took the memory of another one and has it still."""
    if node not in _twins:
        return False
    held = buffers.get(node)
    group = _sharers.get(held) if held is not None else None
    return group is not None and node in group


def owned_changes(changes: dict[UOp, UOp], before: UOp) -> dict[UOp, UOp]:
    """`changes` in which no value becomes memory that was there before, other than its own.

    Such a value shares the memory under a name of its own (`share`).
    """
    made: dict[UOp, UOp] = {}
    there = None
    for old, new in changes.items():
        memory = [u for u in new.toposort() if u.op is Ops.BUFFER]
        if not memory:
            continue
        if there is None:
            there = {u for u in before.toposort() if u.op is Ops.BUFFER}
        foreign = [u for u in memory if u in there]
        if foreign and (others := [u for u in foreign if u not in _own_memory(old)]):
            made[old] = new.substitute({u: share(u) for u in others})
    return changes | made if made else changes


def _own_memory(node: UOp) -> set[UOp]:
    """The BUFFER nodes that a node shows or writes, rather than reads."""
    found, pending = set(), [node]
    while pending:
        u = pending.pop()
        if u.op is Ops.BUFFER:
            found.add(u)
        elif u.op in (Ops.MSTACK, Ops.MULTI):
            pending.extend(u.src)
        elif u.op in VIEWS or u.op in (Ops.ASSIGN, Ops.AFTER, Ops.MSELECT):
            pending.append(u.src[0])
    return found


def part(written: Iterable[UOp]) -> list[tuple[UOp, UOp]]:
    """Gives every one of the `written` nodes memory that it shares with nobody.

    The memory stays with the node that had it first, since others may know it; where that is the written one, all others
    get one copy together. Returns the copies to make: (node whose memory has the values, node whose memory gets them).
    """
    copies: list[tuple[UOp, UOp]] = []
    if not _sharers:
        return copies
    for node in written:
        held = buffers.get(node)
        group = _sharers.get(held) if held is not None else None
        if held is None or group is None or node not in group:
            continue
        others = [u for u in group if u is not node]
        if not others:
            continue
        _Splits.count += 1
        if node in _twins and not all(u in _twins for u in others):
            movers, source = [node], next(u for u in others if u not in _twins)
        else:
            movers, source = others, node
        _move(movers, held, group)
        if held.is_allocated():
            copies.append((source, movers[0]))
    return copies


def _move(movers: list[UOp], held: Buffer | MultiBuffer, group: WeakSet[UOp]) -> None:
    """Takes nodes out of a group, onto new memory that they share."""
    first = movers[0]
    kind = MultiBuffer if isinstance(held, MultiBuffer) else Buffer
    made = kind(first.device, first.arg, first.dtype.base)
    for u in movers:
        group.discard(u)
        buffers[u] = made
    if len(group) < 2:
        del _sharers[held]
    if len(movers) > 1:
        _sharers[made] = WeakSet(movers)


def born_in_capture(node: UOp) -> bool:
    """Whether a shared node was made by the capture that is under way."""
    capture = current_capture()
    return capture is not None and _born_in.get(node) == id(capture)


def written_memory(roots: Iterable[UOp]) -> list[UOp]:
    """The BUFFER nodes that computing `roots` writes to."""
    if not _sharers:
        return []
    found: dict[UOp, None] = {}
    for u in UOp.sink(*roots).toposort():
        if u.op is Ops.ASSIGN:
            found.update(dict.fromkeys(_own_memory(u)))
        elif u.op is Ops.CUSTOM_KERNEL:
            for source in u.src:
                found.update(dict.fromkeys(_own_memory(source)))
    return list(found)


def nodes_of_memory(written: set[Buffer]) -> list[UOp]:
    """The nodes of shared memory that lies in one of the buffers `written`."""
    found = []
    for group in list(_sharers.values()):
        for node in list(group):
            if not written.isdisjoint(parts_of(node)):
                found.append(node)
                break
    return found
