"""Pickled graphs that take their memory with them.

A BUFFER node is a name for memory. Pickled, it carries the memory; loaded, it is a new name, so that a loaded (or deep-copied)
tensor shares nothing with the original and can't meet a buffer of the loading process that has the same number. The rest of a
graph is pickled as the core does it: node by node where it is shallow, as flat rows where it is deep. Installed into the node
type by `tinygrad.uop.ops`.
"""

from __future__ import annotations

from typing import Any

from tinygrad._core import UOp
from tinygrad.uop import Ops
from tinygrad.uop.methods_tensor import buffers

_plain_reduce = UOp.__reduce__


def _new_buffer_node(fields: tuple, memory: Any) -> UOp:
    """A BUFFER of these fields under a new number, with its memory."""
    dtype, device, size, tag = fields
    node = UOp(Ops.BUFFER, dtype, (UOp.unique(), device), size, tag)
    if memory is not None:
        buffers[node] = memory
    return node


def _from_rows(rows: list) -> UOp:
    """The last node of `rows`; a row is a whole node, or fields with numbers of earlier rows as sources."""
    nodes: list[UOp] = []
    for row in rows:
        if isinstance(row, UOp):
            nodes.append(row)
        else:
            op, dtype, src, arg, tag = row
            nodes.append(UOp(op, dtype, tuple([nodes[i] for i in src]), arg, tag))
    return nodes[-1]


def _to_rows(root: UOp) -> list:
    number: dict[UOp, int] = {}
    rows: list = []
    for u in root.toposort():
        number[u] = len(rows)
        named = u.op is Ops.BUFFER
        rows.append(u if named else (u.op, u.dtype, tuple([number[s] for s in u.src]), u.arg, u.tag))
    return rows


class PicklingMethods:
    """What pickle and copy ask a node."""

    def __reduce__(self):
        if self.op is Ops.BUFFER and self.src[0].op is Ops.UNIQUE:
            return _new_buffer_node, ((self.dtype, self.src[1], self.arg, self.tag), buffers.get(self))
        reduced = _plain_reduce(self)
        if reduced[0] is UOp or not self.op_in_backward_slice_with_self(Ops.BUFFER):
            return reduced
        return _from_rows, (_to_rows(self),)
