"""Writes through views that nobody holds: `t[1:3].assign(x)` must reach `t`.

An assignment is a node of the view's tensor, and that tensor is often gone by the next line. So each
write to a view is kept here until it has run, and runs before anything that reads its memory.
Called by `memory`.
"""

from __future__ import annotations

from tinygrad.tensor.core import TensorCore
from tinygrad.uop.ops import GroupOp, Ops, UOp

_waiting: list[TensorCore] = []


def is_view(node: UOp) -> bool:
    """Whether `node` shows part of, or reorders, the memory of another node."""
    return node.op in GroupOp.Movement or node.op is Ops.BITCAST


def _memory(node: UOp) -> UOp:
    """The node below all views."""
    while is_view(node):
        node = node.src[0]
    return node


def keep(written: TensorCore) -> None:
    """Remembers a tensor whose node assigns to a view."""
    _waiting.append(written._wrap(written.uop, False))


def take_due(roots: list[UOp]) -> list[TensorCore]:
    """The writes that must run before `roots` are computed, oldest first; they wait no longer.

    Writes that are part of `roots` run with them.
    """
    if not _waiting:
        return []
    # a write that has run is a buffer by now
    _waiting[:] = [t for t in _waiting if any(u.op is Ops.ASSIGN for u in _views_of(t.uop))]
    inside = UOp.sink(*roots).toposort()
    due = []
    for t in list(_waiting):
        assign = next(u for u in _views_of(t.uop) if u.op is Ops.ASSIGN)
        if assign in inside:
            continue
        if _memory(assign.src[0]) in inside:
            due.append(t)
    _waiting[:] = [t for t in _waiting if not any(t is d for d in due)]
    return due


def _views_of(node: UOp) -> list[UOp]:
    """`node` and what lies below its views."""
    chain = [node]
    while is_view(node):
        node = node.src[0]
        chain.append(node)
    return chain
