"""Whether the tensors that a captured function uses, besides its arguments, are what they were.

In: a capture, which knows the tensors of its surroundings by their nodes and memory. Out: whether it may be replayed; assignments to
them that are still pending are computed for that. Called by `jit` before each replay.
"""

from __future__ import annotations

from tinygrad._core.guard import unmoved
from tinygrad.engine import sharing
from tinygrad.engine.captured import CapturedJit
from tinygrad.engine.jit_args import bases_of
from tinygrad.uop.ops import Ops, UOp


def surroundings_changed(captured: CapturedJit) -> bool:
    """Realizes what was assigned since; whether a tensor that is used has other memory, or shows it in another way."""
    refs, nodes, memory = (
        captured.surroundings,
        captured.surroundings_nodes,
        captured.surroundings_memory,
    )
    if captured.splits == sharing.splits() and unmoved(refs, nodes):
        return _seen_values_changed(captured)
    alive = [place for place, ref in enumerate(refs) if ref() is not None]
    if len(alive) != len(refs):
        # memory that no tensor knows any more: the function uses another tensor by now
        known = {b for place in alive for b in memory[place]}
        if any(not known.issuperset(bases & captured.used) for bases in memory):
            return True
        refs[:], nodes[:] = [refs[k] for k in alive], [nodes[k] for k in alive]
        memory[:] = [memory[k] for k in alive]
    tensors = [(place, t) for place, ref in enumerate(refs) if (t := ref()) is not None]
    stale = [(place, t) for place, t in tensors if t.uop is not nodes[place]]
    if stale:
        stale[0][1].realize(*[t for _, t in stale[1:]])
    if captured.splits != sharing.splits():
        captured.splits, stale = sharing.splits(), tensors
    for place, t in stale:
        old = nodes[place]
        same_view = _view_of(t.uop) is _view_of(old) and t.uop.shape == old.shape
        if not same_view or bases_of(t.uop) != memory[place]:
            return True
        nodes[place] = t.uop
    return _seen_values_changed(captured)


def _seen_values_changed(captured: CapturedJit) -> bool:
    """Whether values that Python read in the capture are others by now."""
    return any(bytes(buf.as_buffer()) != values for buf, values in captured.seen_values)


def _view_of(node: UOp) -> UOp:
    """A node without reshapes of reshapes, and without those of a whole buffer."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node
