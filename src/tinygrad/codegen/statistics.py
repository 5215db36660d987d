"""What each pass of the lowering costs: time and counts, summed over kernels, in one table.

In: the calls that the pipeline makes while the switch PASS_STATS is on. Out: `passes`, a `PassCost`
by name of the pass, and its table, printed when the process ends. Counts are functions of the
kernels alone, times are not. With the switch off nothing is counted.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tinygrad._core import made_nodes, match_counts
from tinygrad.common.env import PASS_STATS
from tinygrad.uop.ops import UOp


@dataclass
class PassCost:
    """All runs of one pass: CPU seconds, nodes in its results, nodes made, patterns tried, rules
    that gave a result."""

    runs: int = 0
    seconds: float = 0.0
    nodes: int = 0
    made: int = 0
    tried: int = 0
    changed: int = 0


passes: dict[str, PassCost] = {}
_reports: list[Callable[[], None]] = []


def measured(name: str, step: Callable[..., Any], *args: Any) -> Any:
    """`step(*args)`, noted under `name` while PASS_STATS is on."""
    if not PASS_STATS:
        return step(*args)
    if not _reports:
        _reports.append(atexit.register(_report))
    cost = passes.setdefault(name, PassCost())
    made, (tried, changed), start = made_nodes(), match_counts(), time.process_time()
    result = step(*args)
    cost.seconds += time.process_time() - start
    tried_now, changed_now = match_counts()
    cost.made += made_nodes() - made
    cost.tried += tried_now - tried
    cost.changed += changed_now - changed
    cost.nodes += _size(result)
    cost.runs += 1
    return result


def _size(result: Any) -> int:
    """Nodes of a graph, instructions of a list, lines of a text."""
    if isinstance(result, UOp):
        return len(result.toposort())
    return result.count("\n") + 1 if isinstance(result, str) else len(result)


def _report() -> None:
    if passes:
        print(table(passes))


def table(costs: dict[str, PassCost]) -> str:
    """One line for each pass, and their sum."""
    head = (
        f"{'pass':28s} {'runs':>6} {'ms':>9} {'nodes':>9} {'made':>9} {'tried':>9} {'changed':>9}"
    )
    rows = [_row(name, cost) for name, cost in costs.items()]
    return "\n".join([head, *rows, _row("all", _total(costs.values()))])


def _row(name: str, c: PassCost) -> str:
    counts = f"{c.nodes:9d} {c.made:9d} {c.tried:9d} {c.changed:9d}"
    return f"{name:28s} {c.runs:6d} {c.seconds * 1e3:9.1f} {counts}"


def _total(costs: Iterable[PassCost]) -> PassCost:
    total = PassCost()
    for c in costs:
        total.runs = max(total.runs, c.runs)
        total.seconds += c.seconds
        total.nodes = c.nodes
        total.made += c.made
        total.tried += c.tried
        total.changed += c.changed
    return total
