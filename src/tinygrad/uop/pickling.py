"""Pickled graphs that take their memory with them.

A BUFFER node is a name for memory. Pickled, it carries the memory; loaded, it is a new name, so that a loaded (or deep-copied)
tensor shares nothing with the original and can't meet a buffer of the loading process that has the same number. The rest of a
graph is pickled as the core does it: node by node where it is shallow, as flat rows where it is deep. Installed into the node
type by `tinygrad.uop.ops`.

A PatternMatcher is pickled with its functions: those that can be imported by name, lambdas and local ones by their code.
"""

from __future__ import annotations

import copy
import copyreg
import importlib
import marshal
import types
from dataclasses import dataclass, field
from typing import Any

from tinygrad._core import PatternMatcher, UOp, set_hook
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
        rows.append(
            u if named else (u.op, u.dtype, tuple([number[s] for s in u.src]), u.arg, u.tag)
        )
    return rows


def copy_with_memory(root: UOp, memo: dict) -> UOp:
    """`copy.deepcopy` of a graph: the same nodes on copies of the memory; itself where it names none."""
    named = [u for u in root.toposort() if u.op is Ops.BUFFER and u in buffers]
    if not named:
        return root
    swaps = memo.setdefault(_SWAPS, {})
    for node in named:
        if node not in swaps:
            fields = (node.dtype, node.src[1], node.arg, node.tag)
            swaps[node] = _new_buffer_node(fields, copy.deepcopy(buffers[node], memo))
    return root.replace_nodes(swaps)


# where a memo of copy.deepcopy keeps the nodes that were copied
_SWAPS = "tinygrad buffer nodes"
set_hook("__deepcopy__", copy_with_memory)


class PicklingMethods:
    """What pickle and copy ask a node."""

    def __reduce__(self):
        if self.op is Ops.BUFFER and self.src[0].op is Ops.UNIQUE:
            return _new_buffer_node, (
                (self.dtype, self.src[1], self.arg, self.tag),
                buffers.get(self),
            )
        reduced = _plain_reduce(self)
        if reduced[0] is UOp or not self.op_in_backward_slice_with_self(Ops.BUFFER):
            return reduced
        return _from_rows, (_to_rows(self),)


# ---------------------------------------------------------------- rules


@dataclass
class _FunctionByCode:
    """A function that no import finds: its code, the module it sees, and what it closes over."""

    code: types.CodeType
    module: str
    name: str
    defaults: tuple | None
    keyword_defaults: dict | None
    closure: tuple
    attributes: dict = field(default_factory=dict)

    def build(self) -> types.FunctionType:
        names = vars(importlib.import_module(self.module))
        cells = tuple(types.CellType(value) for value in self.closure)
        made = types.FunctionType(self.code, names, self.name, self.defaults, cells)
        made.__kwdefaults__ = self.keyword_defaults
        made.__dict__.update(self.attributes)
        return made


def _is_importable(function: Any) -> bool:
    found: Any = importlib.import_module(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _portable(function: Any) -> Any:
    if not isinstance(function, types.FunctionType) or _is_importable(function):
        return function
    closure = tuple(_portable(cell.cell_contents) for cell in function.__closure__ or ())
    return _FunctionByCode(
        function.__code__,
        function.__module__,
        function.__name__,
        function.__defaults__,
        function.__kwdefaults__,
        closure,
        dict(function.__dict__),
    )


def _build(function: Any) -> Any:
    if not isinstance(function, _FunctionByCode):
        return function
    function.closure = tuple(_build(value) for value in function.closure)
    return function.build()


def _load_matcher(kind: type, rules: list) -> PatternMatcher:
    for pattern, _, place in rules:
        pattern.location = place
    return kind([(pattern, _build(function)) for pattern, function, _ in rules])


def _reduce_matcher(matcher: PatternMatcher) -> tuple:
    rules = [
        (pattern, _portable(function), pattern.location) for pattern, function in matcher.patterns
    ]
    return _load_matcher, (type(matcher), rules)


def _reduce_code(code: types.CodeType) -> tuple:
    return marshal.loads, (marshal.dumps(code),)


# drop-in: code objects can be pickled once this module is imported
copyreg.pickle(types.CodeType, _reduce_code)
copyreg.pickle(PatternMatcher, _reduce_matcher)
