"""Which function computes an operator: by domain, name and the operator set that introduced it.

An operator is a plain function over tensors. Inputs are positional, attributes are keywords of the
name ONNX gives them; where an attribute became an input in a later version, one parameter serves both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from tinygrad.nn.onnx_parts.kinds import Domain, OpSetId

# attributes that say nothing about the result: hints of old versions and of exporters
IGNORED_ATTRIBUTES = frozenset({"consumed_inputs", "is_test", "doc_string", "onnx_opset_version"})


class Operator(NamedTuple):
    """A function and how to call it: `constants` are the positions it wants as Python values."""

    function: Callable[..., Any]
    since: OpSetId
    constants: frozenset[int]
    wants_count: bool
    wants_context: bool
    wants_kinds: bool
    hosted: frozenset[int]


_TABLE: dict[tuple[Domain | str, str], list[Operator]] = {}


def operator(
    *names: str,
    since: int = 1,
    domain: Domain = Domain.ONNX,
    constants: tuple[str, ...] = (),
    hosted: tuple[str, ...] = (),
):
    """Registers a function as the operators `names`; `constants` names parameters given as Python values,
    `hosted` such as are given as they are where they are known on the host.

    A parameter `output_count` receives how many outputs the node has, `context` the running graph, `kinds` for each input
    the number of its ONNX type where it is a narrow one, else 0.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(function).parameters)
        entry = Operator(
            function,
            OpSetId(domain, since),
            frozenset(parameters.index(name) for name in constants),
            "output_count" in parameters,
            "context" in parameters,
            "kinds" in parameters,
            frozenset(parameters.index(name) for name in hosted),
        )
        for name in names:
            versions = _TABLE.setdefault((domain, name), [])
            versions.append(entry)
            versions.sort(key=lambda known: known.since.version)
        return function

    return register


def find(domain: Domain | str, name: str, version: int) -> Operator | None:
    """The newest function that is not newer than `version`, else the oldest; None for an unknown name."""
    versions = _TABLE.get((domain, name))
    if not versions:
        return None
    fitting = [entry for entry in versions if entry.since.version <= version]
    return fitting[-1] if fitting else versions[0]


def all_operators() -> dict[str, Any]:
    """By name: the function, or a dictionary from operator set to function where there are several."""
    grouped: dict[str, dict[OpSetId, Any]] = {}
    for (_, name), versions in _TABLE.items():
        for entry in versions:
            grouped.setdefault(name, {})[entry.since] = entry.function
    return {name: next(iter(by.values())) if len(by) == 1 else by for name, by in grouped.items()}
