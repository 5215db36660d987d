"""The structural order of nodes: total, and the same in every process."""

from __future__ import annotations

import itertools
import subprocess
import sys

from expressions import Grower

from tinygrad.uop.ops import UOp, graph_rewrite
from tinygrad.uop.rules.order import comes_before
from tinygrad.uop.symbolic import commutative, symbolic


def _nodes() -> list[UOp]:
    found: dict[UOp, None] = {}
    for seed in range(6):
        found.update(Grower(seed).number(3).toposort())
    return list(found)[:60]


def test_order_is_total():
    nodes = _nodes()
    for a, b in itertools.product(nodes, nodes):
        assert comes_before(a, b) + comes_before(b, a) == (a is not b), f"{a} and {b}"


def test_order_is_transitive():
    nodes = _nodes()[:25]
    for a, b, c in itertools.product(nodes, nodes, nodes):
        if comes_before(a, b) and comes_before(b, c):
            assert comes_before(a, c)


def test_constants_come_last():
    x = UOp.variable("x", 0, 3)
    assert comes_before(x, x.const_like(1)) and comes_before(x * 3 // 2, x.const_like(1))
    assert graph_rewrite(x.const_like(1) + x, commutative) is x + 1


def test_operands_meet_in_one_node():
    a, b, c = (UOp.variable(name, 0, 9) for name in "abc")
    assert graph_rewrite(a + b, commutative) is graph_rewrite(b + a, commutative)
    assert graph_rewrite(a * (b * c), symbolic) is graph_rewrite((c * a) * b, symbolic)


def test_order_ignores_hash_seed_and_creation():
    program = (
        "from tinygrad.uop.ops import UOp, graph_rewrite\n"
        "from tinygrad.uop.symbolic import symbolic\n"
        "v = {n: UOp.variable(n, 0, 9) for n in %r}\n"
        "e = v['c'] * v['a'] + v['b'] * 2 + v['a'] %% 3 + v['c'].maximum(v['b'])\n"
        "print(graph_rewrite(e, symbolic).render(simplify=False))"
    )
    texts = set()
    for names, seed in (("abc", "0"), ("cba", "1"), ("bca", "2")):
        result = subprocess.run(
            [sys.executable, "-c", program % names],
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
        )
        texts.add(result.stdout)
    assert len(texts) == 1, texts
