"""What the rewrite benchmark measures, run in one process under one interpreter.

Uses only names that both tinygrads have. Prints one JSON object: item -> seconds of CPU time per unit (the median of the repeats), except
`bytes_per_node` (bytes) and `import` (seconds of CPU time of a fresh process). `python items.py [ITEM ...]` runs some of them.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time

REPEATS = 3


def clocked(fn, units: int, repeats: int = REPEATS) -> float:
    """Median CPU seconds per unit. What fn returns is freed after the clock has stopped."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        kept = fn()
        times.append(time.process_time() - start)
        del kept
    return statistics.median(times) / units


def some_graph(size: int, seed: int = 1):
    """A shared graph of integer sums, products and comparisons of distinct leaves."""
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, UOp

    rng = random.Random(seed)
    nodes = [UOp(Ops.DEFINE_VAR, dtypes.int, (), (f"v{i}", 0, 100)) for i in range(20)]
    nodes += [UOp(Ops.CONST, dtypes.int, (), i) for i in range(20)]
    for _ in range(size):
        op = rng.choice((Ops.ADD, Ops.MUL, Ops.MAX, Ops.IDIV, Ops.MOD))
        below = (nodes[-1 - rng.randrange(20)], nodes[-1 - rng.randrange(40)])
        nodes.append(UOp(op, dtypes.int, below))
    return UOp(Ops.SINK, dtypes.void, tuple(nodes[-40:]))


def construct_existing() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, UOp

    a, b = UOp(Ops.CONST, dtypes.int, (), 1), UOp(Ops.CONST, dtypes.int, (), 2)
    kept = UOp(Ops.ADD, dtypes.int, (a, b))
    add, kind = Ops.ADD, dtypes.int

    def run():
        for _ in range(200_000):
            UOp(add, kind, (a, b))

    out = clocked(run, 200_000)
    assert kept is UOp(add, kind, (a, b))
    return out


def construct_new() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, UOp

    leaf = UOp(Ops.DEFINE_VAR, dtypes.int, (), ("v", 0, 9))
    add, kind = Ops.ADD, dtypes.int

    def run():
        node, kept = leaf, []
        for _ in range(100_000):
            node = UOp(add, kind, (node, leaf))
            kept.append(node)
        return kept

    return clocked(run, 100_000)


def add_existing() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import UOp

    x = UOp.variable("x", 0, 100, dtypes.int)
    kept = x + 3

    def run():
        for _ in range(50_000):
            x + 3

    out = clocked(run, 50_000)
    assert kept is x + 3
    return out


def toposort() -> float:
    """The order below a root that was never walked before."""
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, UOp

    graph = some_graph(100_000)
    count = len(graph.toposort())
    roots = iter([UOp(Ops.SINK, dtypes.void, (graph,), i) for i in range(5)])
    return clocked(lambda: next(roots).toposort(), count, 5)


def toposort_again() -> float:
    """The order below a root that was walked just before."""
    graph = some_graph(100_000)
    count = len(graph.toposort())
    return clocked(graph.toposort, count, 5)


def no_rule_applies() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, PatternMatcher, UPat, graph_rewrite

    rules = []
    ops = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.IDIV, Ops.MOD)
    for i in range(20):
        for op in ops:
            rules.append(
                (UPat(op, dtypes.int, (UPat.var("x"), UPat.cvar("c", arg=1000 + i))), _second)
            )
    pm = PatternMatcher(rules)
    graph = some_graph(20_000)
    assert graph_rewrite(graph, pm) is graph
    return clocked(lambda: graph_rewrite(graph, pm), len(graph.toposort()))


def _second(x, c):
    return c


def attempts() -> float:
    from tinygrad.uop.symbolic import symbolic

    nodes = [u for u in some_graph(2_000).toposort() if symbolic.rewrite(u) is None]

    def run():
        for u in nodes:
            symbolic.rewrite(u)

    return clocked(run, len(nodes))


def deep_patterns() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

    x, y, z = UPat.var("x"), UPat.var("y"), UPat.var("z")
    either = UPat.any(x * y + z, z + UPat.cvar("c") * (y + x), (x + y) * (x + z))
    nested = (either + x * UPat.cvar("c", arg=77)) * UPat.var("w") + UPat.var("w")
    pm = PatternMatcher([(nested, _nothing)])
    v = [UOp(Ops.DEFINE_VAR, dtypes.int, (), (f"v{i}", 0, 9)) for i in range(6)]
    nodes = []
    for i in range(2000):
        a, b, c, d = (v[(i + k * (1 + i % 3)) % 6] for k in range(4))
        nodes.append(
            ((((a + b) * (a + c)) + a * d) * b + b) if i % 2 else ((a * b + c) + d * a) * c + d
        )
    pm.rewrite(nodes[0])

    def run():
        for u in nodes:
            pm.rewrite(u)

    return clocked(run, len(nodes))


def _nothing(**captures):
    return None


def substitute() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, UOp

    graph = some_graph(20_000)
    swap = {
        UOp(Ops.DEFINE_VAR, dtypes.int, (), (f"v{i}", 0, 100)): UOp(
            Ops.DEFINE_VAR, dtypes.int, (), (f"w{i}", 0, 100)
        )
        for i in range(20)
    }
    return clocked(lambda: graph.substitute(swap), len(graph.toposort()))


def simplify() -> float:
    """Index expressions as views make them: strides, divisions and remainders of a flat index."""
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import UOp, graph_rewrite
    from tinygrad.uop.symbolic import symbolic

    rng = random.Random(3)

    def expression():
        a, b, c = (UOp.variable(n, 0, rng.choice((3, 7, 15, 31)), dtypes.index) for n in "abc")
        sizes = [rng.choice((2, 3, 4, 8, 16)) for _ in range(3)]
        flat = (a * sizes[0] + b) * sizes[1] + c
        first = flat // (sizes[1] * sizes[2]) % sizes[0]
        second = (flat + rng.randrange(4)) % (sizes[1] * 4)
        return (first * sizes[2] + second // 2) * 4 + (second % 2) * 1 + 0

    rounds = iter(range(10**9))

    def run():
        # a fresh seed each time: neither side may remember the expressions
        rng.seed(next(rounds))
        return [graph_rewrite(expression(), symbolic) for _ in range(5000)]

    return clocked(run, 5000, 1)


def bytes_per_node() -> float:
    from tinygrad.dtype import dtypes
    from tinygrad.uop.ops import Ops, UOp

    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    leaf = UOp(Ops.DEFINE_VAR, dtypes.int, (), ("v", 0, 9))
    count = 300_000
    before, node = resident(), leaf
    for _ in range(count):
        node = UOp(Ops.ADD, dtypes.int, (node, leaf))
    return (resident() - before) / count


def import_time() -> float:
    code = "import time; s = time.process_time(); from tinygrad import Tensor; print(time.process_time() - s)"
    runs = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(REPEATS)
    ]
    return statistics.median(runs)


ITEMS = {
    "construct_existing": construct_existing,
    "construct_new": construct_new,
    "add_existing": add_existing,
    "toposort": toposort,
    "toposort_again": toposort_again,
    "no_rule_applies": no_rule_applies,
    "attempts": attempts,
    "deep_patterns": deep_patterns,
    "substitute": substitute,
    "simplify": simplify,
    "bytes_per_node": bytes_per_node,
    "import": import_time,
}


def main(chosen: list[str]) -> None:
    sys.setrecursionlimit(10**6)
    results = {}
    for name in chosen or ITEMS:
        if name not in ITEMS:
            raise SystemExit(f"unknown item {name!r}, expected some of {', '.join(ITEMS)}")
        results[name] = ITEMS[name]()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
