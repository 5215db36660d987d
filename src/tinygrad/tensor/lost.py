"""Tensors whose values are gone: a captured function left them uncomputed, and its replay does not make them.

In: such a tensor. It gets memory that is never allocated; whoever wants it computed gets a JitError that says what to do. Called
by `TinyJit` at a replay, and by `memory` before anything is computed or read.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakSet

from tinygrad.engine.jit_args import JitError
from tinygrad.helpers import prod
from tinygrad.tensor.core import TensorCore, graph_lock
from tinygrad.uop.ops import UOp

_lost: WeakSet[UOp] = WeakSet()


def lose(tensor: TensorCore) -> None:
    """Takes a tensor its value; shape, dtype and device stay."""
    with graph_lock:
        sizes = [s if isinstance(s, int) else s.vmax for s in tensor.shape]
        node = UOp.new_buffer(tensor.device, prod(sizes), tensor.dtype)
        _lost.add(node)
        tensor.uop = node.reshape(tensor.shape) if isinstance(prod(tensor.shape), int) else node


def refuse_lost(roots: Iterable[UOp]) -> None:
    """Raises JitError where one of the nodes depends on a value that is gone."""
    if not _lost:
        return
    if any(u in _lost for u in UOp.sink(*roots).toposort()):
        raise JitError(
            "this value (a gradient, or a tensor that was kept in an attribute) was left uncomputed by a function under TinyJit, "
            "and a replay does not compute it: realize() it inside of the function, or return it"
        )
