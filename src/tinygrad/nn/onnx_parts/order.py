"""Whether the nodes of a graph can be run one after another, and in which order.

The standard wants nodes sorted by what they need; some exporters do not sort them. In: a graph and the names known around it.
Out: the same graph, sorted where it has to be. Refused with ValueError: names that two nodes give, nodes that need each other,
names that nothing gives. Called when a model is loaded.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

from tinygrad.nn.onnx_parts.kinds import OnnxNode
from tinygrad.nn.onnx_parts.model import Function, Graph


def nested_graphs(node: OnnxNode) -> list[Graph]:
    """The graphs among the attributes of a node."""
    values = [
        v
        for option in node.opts.values()
        for v in (option if isinstance(option, list) else [option])
    ]
    return [value for value in values if isinstance(value, Graph)]


def _needs(node: OnnxNode) -> set[str]:
    """All names that a node reads, those that its graphs take from around them too."""
    return {name for name in node.inputs if name}.union(*map(_free_names, nested_graphs(node)))


def _free_names(graph: Graph) -> set[str]:
    """The names that a graph reads and does not define."""
    own = {*graph.inputs, *graph.initializers, *(name for n in graph.nodes for name in n.outputs)}
    read = {name for name in graph.outputs if name}.union(*map(_needs, graph.nodes))
    return read - own


def _short(names) -> str:
    shown = sorted(names)[:5]
    return ", ".join(map(repr, shown)) + (", ..." if len(names) > len(shown) else "")


def _sorted(nodes: tuple[OnnxNode, ...], known: set[str], place: str) -> tuple[OnnxNode, ...]:
    given: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.outputs:
            if name and (name in given or name in known):
                raise ValueError(
                    f"{place} gives {name!r} twice: every value has one name of its own"
                )
            given[name] = i
    needs = [_needs(node) for node in nodes]
    if lost := set().union(*needs) - known - set(given):
        raise ValueError(f"{place} needs {_short(lost)}, which nothing computes")
    waits = [{given[name] for name in need - known} for need in needs]
    if all(max(wait, default=-1) < i for i, wait in enumerate(waits)):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for i, wait in enumerate(waits):
        for j in wait:
            readers[j].append(i)
    left = [len(wait) for wait in waits]
    ready, order = deque(i for i, count in enumerate(left) if not count), []
    while ready:
        i = ready.popleft()
        order.append(nodes[i])
        for j in readers[i]:
            left[j] -= 1
            if not left[j]:
                ready.append(j)
    if len(order) < len(nodes):
        circle = {node.op for node, count in zip(nodes, left) if count}
        raise ValueError(
            f"{place} has nodes that need each other's results, among them {_short(circle)}"
        )
    return tuple(order)


def _with_sorted_graphs(node: OnnxNode, known: set[str]) -> OnnxNode:
    if not nested_graphs(node):
        return node

    def changed(value: Any) -> Any:
        if isinstance(value, Graph):
            return ordered(value, known, f"a graph of {node.op}")
        return [changed(v) for v in value] if isinstance(value, list) else value

    return dataclasses.replace(node, opts={key: changed(value) for key, value in node.opts.items()})


def ordered(graph: Graph, around: set[str] | None = None, place: str = "the model") -> Graph:
    """The graph with its nodes, and those of the graphs within, in an order in which they can run."""
    own = {*graph.inputs, *graph.initializers}
    known = own | (around or set())
    nodes = (
        _sorted(graph.nodes, own, place) if around is None else _sorted_inside(graph, known, place)
    )
    names = known | {name for node in nodes for name in node.outputs}
    if lost := [name for name in graph.outputs if name not in names]:
        raise ValueError(f"nothing in {place} computes its output {lost[0]!r}")
    return dataclasses.replace(
        graph, nodes=tuple(_with_sorted_graphs(node, names) for node in nodes)
    )


def _sorted_inside(graph: Graph, known: set[str], place: str) -> tuple[OnnxNode, ...]:
    # a name of an inner graph may hide one from around it
    hidden = {name for node in graph.nodes for name in node.outputs} - {
        *graph.inputs,
        *graph.initializers,
    }
    return _sorted(graph.nodes, known - hidden, place)


def ordered_function(function: Function, name: str) -> Function:
    """As `ordered`, for an operator that the model defines."""
    nodes = _sorted(function.nodes, set(function.inputs), f"the function {name!r}")
    names = {*function.inputs, *(out for node in nodes for out in node.outputs)}
    nodes = tuple(_with_sorted_graphs(node, names) for node in nodes)
    return dataclasses.replace(function, nodes=nodes)
