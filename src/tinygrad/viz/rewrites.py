"""The rewrite trace as plain data: groups with their steps, and the graph of a step after any of its changes.

In: a `RewriteTrace`, in memory or read from a file. Nodes are built again from their recorded fields; where the same node is
still alive, the core gives that one. Called by `tinygrad.viz.serve`.
"""

from __future__ import annotations

import difflib
import linecache
import os
from collections.abc import Generator
from typing import Any, TypedDict

from tinygrad.uop import Ops
from tinygrad.uop.ops import RewriteTrace, UOp, all_metadata
from tinygrad.uop.tracing import TrackedGraphRewrite, replay
from tinygrad.viz.graphs import uop_to_json


class GraphRewriteDetails(TypedDict):
    """The graph after one change, its text, and what that change was (None for the graph at the start)."""

    graph: dict[int, dict]
    uop: str
    changed: list[int] | None
    diff: list[str] | None
    upat: tuple[tuple[str, int], str] | None


# ---- groups and steps


def code_line(file: str, line: int) -> str:
    """The line as it is in the file now, empty where the file is gone."""
    return linecache.getline(file, line).strip()


def _step(record: TrackedGraphRewrite) -> dict[str, Any]:
    file, line = record.loc
    frames = [(f, n, name, code_line(f, n)) for f, n, name in record.trace]
    return {
        "name": record.name or f"{os.path.basename(file)}:{line}",
        "loc": (file, line),
        "match_count": len(record.matches),
        "code_line": code_line(file, line),
        "depth": record.depth,
        "trace": frames,
    }


def list_rewrites(t: RewriteTrace) -> list[dict]:
    """The groups in the order in which they began: name, and steps with place, depth and number of changes."""
    return [
        {"name": key.display_name, "steps": [_step(record) for record in records]}
        for key, records in zip(t.keys, t.rewrites)
    ]


def groups_by_name(t: RewriteTrace) -> dict[str, int]:
    """The number of a group by its name and by each of its keys; the first of a name counts."""
    out: dict[str, int] = {}
    for number, key in enumerate(t.keys):
        for name in (key.display_name, *key.keys):
            if isinstance(name, str):
                out.setdefault(name, number)
    return out


# ---- graphs


class Nodes:
    """The nodes of a trace by number, built at first use and kept, so that their ids stay what they are."""

    def __init__(self, uop_fields: dict[int, tuple]):
        self.fields = uop_fields
        self.built: dict[int, UOp] = {}

    def __getitem__(self, number: int) -> UOp:
        pending = [number]
        while pending:
            at = pending[-1]
            op, dtype, sources, arg, tag, metadata = self.fields[at]
            missing = [s for s in sources if s not in self.built]
            if missing and at not in self.built:
                pending.extend(missing)
                continue
            pending.pop()
            if at not in self.built:
                node = UOp(op, dtype, tuple([self.built[s] for s in sources]), arg, tag)
                if metadata is not None:
                    all_metadata.setdefault(node, metadata)
                self.built[at] = node
        return self.built[number]


def graph_after(record: TrackedGraphRewrite, nodes: Nodes, count: int) -> UOp:
    """The graph of a step when its first `count` changes had been made."""
    if count == 0:
        return nodes[record.sink]
    changes = [(nodes[before], nodes[after]) for before, after, *_ in record.matches[:count]]
    # an error ends a step; what it says is the graph
    if changes[-1][1].op is Ops.NOOP:
        return changes[-1][1]
    return replay(record, nodes[record.sink], changes, {nodes[u] for u in record.gated})


def _text(u: UOp) -> str:
    try:
        return u.pyrender()
    except (
        Exception
    ) as error:  # an ill-formed graph is still to be shown, that is what the page is for
        return f"can't be written as text: {error}"


def _difference(before: UOp, after: UOp) -> list[str]:
    old, new = _text(before).splitlines(), _text(after).splitlines()
    lines = difflib.unified_diff(old, new, lineterm="", n=len(old) + len(new))
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def describe(
    record: TrackedGraphRewrite, nodes: Nodes, count: int, before: UOp | None
) -> tuple[UOp, GraphRewriteDetails]:
    """The graph after `count` changes, and its description; `before` is the one a change earlier."""
    sink = graph_after(record, nodes, count)
    graph = uop_to_json(sink)
    details: GraphRewriteDetails = {
        "graph": graph,
        "uop": _text(sink),
        "changed": None,
        "diff": None,
        "upat": None,
    }
    if count > 0 and before is not None:
        old, new, rule, _ = record.matches[count - 1]
        known = {id(u) for u in before.toposort()}
        details["changed"] = [number for number in graph if number not in known]
        details["diff"] = _difference(nodes[old], nodes[new])
        if rule is not None:
            details["upat"] = ((rule[0], rule[1]), f"{rule[2]}: {code_line(rule[0], rule[1])}")
    return sink, details


# the nodes of the last walk stay alive, so that its ids still name them when a caller looks at one graph only
_last_walked: dict[str, Nodes] = {}


def walk_rewrite(
    record: TrackedGraphRewrite, uop_fields: dict[int, tuple]
) -> Generator[GraphRewriteDetails, None, None]:
    """The graph a step started from, and after each of its changes."""
    nodes = _last_walked["nodes"] = Nodes(uop_fields)
    before: UOp | None = None
    for count in range(len(record.matches) + 1):
        before, details = describe(record, nodes, count, before)
        yield details
