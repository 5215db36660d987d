"""What a captured function does to tensors besides returning some: gradients that it leaves, tensors that it replaces, and
values that it leaves uncomputed where somebody can see them.

In: the tensors there were when the capture began, with their nodes and gradients, and those there are afterwards. Out: `Effects`,
which says whether a call may be replayed, and does again what a replay of kernels does not: gradients in memory are set anew
at each call; what was left uncomputed belongs to the captured call, and is lost at the first replay: using it is a JitError.
Called by `jit`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tinygrad.device import Buffer
from tinygrad.engine.jit_args import bases_of, is_pending, memory_of
from tinygrad.uop.ops import Ops, UOp


@dataclass
class Effects:
    """Of one capture. `numbers` of `grads` count among the results that are gradients; None: no gradient is left."""

    # (tensor, number of its gradient, or None)
    grads: list[tuple[weakref.ref, int | None]] = field(default_factory=list)
    # tensors that were made and left uncomputed, until the first replay
    leaks: list[weakref.ref] = field(default_factory=list)
    # tensors whose gradient was left uncomputed, and what stands for it after a replay
    lost_grads: list[tuple[weakref.ref, Any]] = field(default_factory=list)
    # (tensor, the gradient that it has to have, or None)
    needed_grads: list[tuple[weakref.ref, weakref.ref | None]] = field(default_factory=list)
    replaces: bool = False

    def changed(self) -> str | None:
        """What would not be right at a replay."""
        if self.replaces:
            return "a tensor that it replaces"
        for ref, needed in self.needed_grads:
            if (t := ref()) is not None and t.grad is not (needed() if needed else None):
                return "a gradient that it adds to"
        return None

    def redo(self, grads: list[Any], lose: Callable[[Any], None]) -> None:
        """Sets gradients after a replay. `grads`: those of this call; `lose` takes a tensor its value."""
        leaks, self.leaks = self.leaks, []
        for ref in leaks:
            # also where its value was computed since: in its place there would be a tensor of this call
            if (t := ref()) is not None:
                lose(t)
        for ref, number in self.grads:
            if (t := ref()) is not None:
                t.grad = None if number is None else grads[number]
        for ref, lost in self.lost_grads:
            if (t := ref()) is not None and t.grad is not lost:
                t.grad = lost


@dataclass
class Before:
    """Tensors as they are when a capture begins."""

    tensors: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes: dict[int, UOp] = {}
        self.grads: dict[int, Any] = {}
        self.add(self.tensors)
        # tensors that got a gradient, and those of them that had none
        self.reached: dict[int, Any] = {}
        self.started: list[Any] = []

    def add(self, tensors: Iterable[Any]) -> None:
        """Counts tensors as such that were there before."""
        if tensors is not self.tensors:
            self.tensors += tensors
        for t in tensors:
            self.nodes[id(t)], self.grads[id(t)] = t.uop, t.grad

    def note_backward(self, tensor: Any) -> None:
        """Notes that a tensor is about to get a gradient."""
        if id(tensor) in self.nodes:
            self.reached[id(tensor)] = tensor
        if tensor.grad is None and self.grads.get(id(tensor), tensor) is None:
            self.started.append(tensor)

    def left_grads(self) -> list[tuple[Any, Any]]:
        """(tensor, its gradient) where that is another one by now."""
        return [(t, t.grad) for t in self.reached.values() if t.grad is not self.grads[id(t)]]

    def is_replaced(self, tensor: Any, used: set[Buffer], read: bool) -> bool:
        """Whether a tensor was used and shows something else by now, or shows what was used or made.

        `read`: it was yet to be computed, and is used. Other threads may replace other tensors at any time.
        """
        start, now = self.nodes[id(tensor)], tensor.uop
        if now is start:
            return False
        if is_pending(start):
            if is_pending(now):
                return not used.isdisjoint(bases_of(now) - bases_of(start))
            return read
        if _view_of(now) is _view_of(start) and now.shape == start.shape:
            return False
        return not used.isdisjoint(memory_of(start)) or not used.isdisjoint(bases_of(now))


def _view_of(node: UOp) -> UOp:
    """A node without the reshapes on top."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node


def find_effects(
    before: Before,
    made: list[weakref.ref],
    returned: list[Any],
    used: set[Buffer],
    read: list[Any],
    inputs: list[Any],
) -> tuple[Effects, list[Any]]:
    """The effects of a run, and the gradients that belong to its results.

    `made`: the tensors that it made; `used`: memory of inputs and kernels; `read`: tensors of before that were yet to be
    computed, and were used.
    """
    effects = Effects()
    grads: list[Any] = []
    known = {id(t) for t in returned}
    was_read = {id(t) for t in read}
    for t, grad in before.left_grads():
        if grad is None or not (memory_of(grad.uop) or _reads_memory(grad.uop)):
            effects.grads.append((weakref.ref(t), None if grad is None else len(grads)))
            grads += [] if grad is None else [grad]
        elif memory_of(grad.uop):
            effects.grads.append((weakref.ref(t), len(grads)))
            grads.append(grad)
        else:
            effects.lost_grads.append((weakref.ref(t), grad))
    for ref in made:
        if (t := ref()) is None or id(t) in known:
            continue
        if is_pending(t.uop) and _reads_memory(t.uop):
            effects.leaks.append(ref)
    effects.needed_grads += [(weakref.ref(t), None) for t in before.started]
    for t in before.tensors:
        grad = before.grads[id(t)]
        if grad is not None and (id(grad) in was_read or not used.isdisjoint(memory_of(grad.uop))):
            effects.needed_grads.append((weakref.ref(t), weakref.ref(grad)))
    given = {id(t) for t in inputs}
    effects.replaces = any(
        before.is_replaced(t, used, id(t) in was_read) for t in before.tensors if id(t) not in given
    )
    return effects, grads


def _reads_memory(node: UOp) -> bool:
    return any(u.op is Ops.BUFFER for u in node.toposort())
