"""Graphs as plain data for the page: one entry a node, with its label, colour and sources.

In: a node. Out: dicts that json takes. Small nodes that only say how their user works (constants, devices, shapes) are
written into the label of the user. Called by `tinygrad.viz.serve`.
"""

from __future__ import annotations

import textwrap
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.helpers import ansistrip
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp

# ---- what a node looks like

_FAMILIES: list[tuple[str, set[Ops]]] = [
    ("#e8a0a0", {Ops.REWRITE_ERROR}),
    ("#f2c879", {Ops.LOAD, Ops.STORE, Ops.COPY, Ops.ASSIGN}),
    ("#9cc4f0", {Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_REG, Ops.BUFFER}),
    ("#8fd6c4", {Ops.INDEX, Ops.BUFFER_VIEW}),
    ("#d3b0ea", {Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR, Ops.BIND}),
    ("#f0a58c", {Ops.REDUCE, Ops.REDUCE_AXIS, Ops.WMMA}),
    ("#b9dd8f", {Ops.KERNEL, Ops.PROGRAM, Ops.LINEAR, Ops.SOURCE}),
    ("#e3d9a6", set(GroupOp.Movement)),
    ("#c9ced6", set(GroupOp.ALU)),
]
_COLORS: dict[Ops, str] = {op: color for color, ops in reversed(_FAMILIES) for op in ops}
_OTHER = "#e6e6e6"

_INLINE = {Ops.CONST, Ops.VCONST, Ops.DEVICE, Ops.UNIQUE, Ops.LUNIQUE}
_LONGEST_LINE, _MOST_LINES = 100, 16


def is_inline(u: UOp) -> bool:
    """Whether a node is written into the labels of its users."""
    if u.op in (Ops.VECTORIZE, Ops.NOOP):
        return all(s.op in _INLINE for s in u.src) and u.arg is None
    return u.op in _INLINE


def _folded(text: str) -> list[str]:
    """Lines of bounded length, so that one long argument does not make the graph unreadable."""
    lines: list[str] = []
    for line in text.split("\n"):
        if len(ansistrip(line)) > _LONGEST_LINE:
            lines.extend(textwrap.wrap(ansistrip(line), _LONGEST_LINE, subsequent_indent="  "))
        else:
            lines.append(line)
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], f"... {left_out} more lines"]
    return lines


def _argument(u: UOp) -> str | None:
    if u.op in GroupOp.Movement:
        try:
            return str(u.marg)
        except Exception:  # an ill-formed graph is still to be shown, that is what the page is for
            return None if u.arg is None else str(u.arg)
    if u.arg is None:
        return None
    # the repr of a dataclass prints the codes of colours as text
    return str(u.arg).replace("\\x1b", "\x1b")


def _shape(u: UOp) -> str | None:
    try:
        shape = u.shape
    except Exception:  # many nodes have no shape; asking one is the way to know
        return None
    return str(tuple(d.render() if isinstance(d, UOp) else d for d in shape)) if shape else None


def _inline_text(u: UOp) -> str:
    if u.op is Ops.VECTORIZE:
        return str(tuple(s.arg for s in u.src))
    return str(u.arg)


def node_label(u: UOp) -> str:
    """Everything the page tells about a node, a line a fact."""
    lines = [u.op.name]
    argument = _argument(u)
    if argument is not None:
        lines.extend(_folded(argument))
    if u.dtype is not dtypes.void:
        shape = _shape(u)
        lines.append(str(u.dtype) if shape is None else f"{u.dtype} {shape}")
    if u.op not in GroupOp.Movement:
        for place, s in enumerate(u.src):
            if is_inline(s) and s.op not in (Ops.UNIQUE, Ops.LUNIQUE, Ops.NOOP):
                lines.extend(_folded(f"{place}: {_inline_text(s)}"))
    if u.tag is not None:
        lines.extend(_folded(f"tag {u.tag}"))
    if u.metadata is not None:
        lines.append(repr(u.metadata))
    return "\n".join(lines)


def uop_to_json(x: UOp) -> dict[int, dict]:
    """The graph under `x` by id of the node, sources first: label, sources as (place, id), colour, tag."""
    graph: dict[int, dict[str, Any]] = {}
    for u in x.toposort():
        if u is not x and is_inline(u):
            continue
        sources = [(i, id(s)) for i, s in enumerate(u.src) if not is_inline(s)]
        graph[id(u)] = {
            "label": node_label(u),
            "src": sources,
            "color": _COLORS.get(u.op, _OTHER),
            "tag": None if u.tag is None else str(u.tag),
        }
    return graph
