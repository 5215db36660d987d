"""The rewriter and the walks against the reference model, and their contract."""

import os
import random
import subprocess
import sys

import pytest
from reference import names_in, postorder, random_graph, random_pattern, rewrite
from tinygrad._core import (
    BottomUpGate,
    PatternMatcher,
    UOp,
    graph_rewrite,
    graph_rewrite_map,
    substitute,
)

from tinygrad.dtype import dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.rules.base import rule
from tinygrad.uop.upat import UPat

SEEDS = range(150)


def const(value, dtype=dtypes.int):
    return UOp(Ops.CONST, dtype, arg=value)


def add(a, b):
    return UOp(Ops.ADD, a.dtype, (a, b))


def shrinking_rules(rng, count):
    """Rules whose result is a captured node (mostly a proper part) or a smaller constant, so that they end."""
    rules, model = [], []
    for _ in range(count):
        pattern = random_pattern(rng, rng.randint(1, 2), ["x", "y", "z"])
        names = sorted(names_in(pattern)) or None
        if names is None:
            continue
        chosen = rng.choice(names)
        rules.append((pattern, eval(f"lambda {chosen}=None: {chosen}")))
        model.append((pattern, lambda found, chosen=chosen: found.get(chosen)))
    lower = UPat(Ops.CONST, name="c")
    rules.append((lower, lambda c: c.replace(arg=c.arg - 1) if c.arg > 0 else None))
    model.append((lower, lambda f: f["c"].replace(arg=f["c"].arg - 1) if f["c"].arg > 0 else None))
    return rules, model


@pytest.mark.parametrize("seed", SEEDS)
def test_rewriting_agrees_with_the_model(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 30)
    up, up_model = shrinking_rules(rng, 6)
    down, down_model = shrinking_rules(rng, 4)
    assert graph_rewrite(graph, PatternMatcher(up)) is rewrite(graph, up_model, None), seed
    got = graph_rewrite(graph, PatternMatcher(down), bottom_up=True)
    assert got is rewrite(graph, None, down_model), seed
    got = graph_rewrite(graph, PatternMatcher(up), bpm=PatternMatcher(down))
    assert got is rewrite(graph, up_model, down_model), seed


@pytest.mark.parametrize("seed", range(40))
def test_map_holds_every_node(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 30)
    rules, _ = shrinking_rules(rng, 5)
    pm = PatternMatcher(rules)
    found = graph_rewrite_map(graph, pm)
    assert list(found) == postorder(graph)
    for node in graph.toposort():
        assert found[node] is graph_rewrite(node, pm), seed


def test_input_map_is_led_through():
    one, two = const(1), const(2)
    pm = PatternMatcher([(UPat(Ops.CONST, arg=2), lambda: const(3))])
    found = graph_rewrite_map(add(two, two), pm, input_map={one: two})
    assert found[one] is const(3)


@pytest.mark.parametrize("seed", range(60))
def test_walks_agree_with_the_model(seed):
    graph = random_graph(random.Random(seed), 40)
    want = postorder(graph)
    assert list(graph.toposort()) == want
    assert list(graph.backward_slice) == want[:-1]
    assert list(graph.backward_slice_with_self) == [graph, *want[:-1]]
    consumers = graph.get_consumer_map()
    assert list(consumers) == want
    for node in want:
        assert list(consumers[node]) == [u for u in want if node in u.src]
    place = {u: i for i, u in enumerate(want[0].reverse_toposort(consumers))}
    for node in place:
        assert all(place[u] < place[node] for u in consumers[node])
    present = {u.op for u in want}
    for op in GroupOp.All:
        assert graph.op_in_backward_slice_with_self(op) == (op in present)


def test_gate_keeps_the_walk_out():
    inner = add(const(1), const(2))
    outer = add(inner, const(3))
    walked = list(outer.toposort(lambda u: u is not inner))
    assert walked == [const(3), outer]


def test_topovisit_fills_the_cache_sources_first():
    graph = add(add(const(1), const(2)), const(1))
    cache = {}
    depth = graph.topovisit(lambda u: 1 + max([cache[s] for s in u.src], default=0), cache)
    assert depth == 3 and list(cache) == postorder(graph)


def test_each_node_is_visited_once_and_in_order():
    seen = []

    def note(ctx, x, way):
        ctx.append((x.op, way))

    up = PatternMatcher([(UPat(GroupOp.All, name="x"), lambda ctx, x: note(ctx, x, "up"))])
    down = PatternMatcher([(UPat(GroupOp.All, name="x"), lambda ctx, x: note(ctx, x, "down"))])
    shared = UOp(Ops.NEG, dtypes.int, (const(1),))
    graph_rewrite(add(shared, shared), up, ctx=seen, bpm=down)
    assert seen == [
        (Ops.ADD, "down"),
        (Ops.NEG, "down"),
        (Ops.CONST, "down"),
        (Ops.CONST, "up"),
        (Ops.NEG, "up"),
        (Ops.ADD, "up"),
    ]


@pytest.mark.parametrize("bottom_up", (False, True))
def test_endless_rules_are_reported(bottom_up):
    back_and_forth = PatternMatcher(
        [
            (UPat(Ops.CONST, arg=3, name="x"), lambda x: x.replace(arg=4)),
            (UPat(Ops.CONST, arg=4, name="x"), lambda x: x.replace(arg=3)),
        ]
    )
    growing = PatternMatcher([(UPat(Ops.CONST, name="x"), lambda x: x.replace(arg=x.arg + 1))])
    wrapping = PatternMatcher([(UPat(Ops.CONST, name="x"), lambda x: add(x, const(0)))])
    for pm in (back_and_forth, growing, wrapping):
        with pytest.raises(RuntimeError, match="infinite loop.*test_rewrite.py"):
            graph_rewrite(add(const(3), const(1)), pm, bottom_up=bottom_up)


def test_returning_the_input_is_no_change():
    pm = PatternMatcher([(UPat(Ops.CONST, name="x"), lambda x: x)])
    graph = add(const(1), const(2))
    assert graph_rewrite(graph, pm) is graph
    assert graph_rewrite(graph, pm, bottom_up=True) is graph


def test_gate_stops_the_descent():
    def stop(x):
        raise BottomUpGate

    pm = PatternMatcher(
        [(UPat(Ops.NEG, name="x"), stop), (UPat(Ops.CONST, arg=1), lambda: const(2))]
    )
    kept = UOp(Ops.NEG, dtypes.int, (const(1),))
    assert graph_rewrite(add(kept, const(1)), pm, bottom_up=True) is add(kept, const(2))


def test_a_rule_may_rewrite_inside():
    inner = PatternMatcher([(UPat(Ops.CONST, arg=1), lambda: const(2))])
    outer = PatternMatcher([(UPat(Ops.NEG, name="x"), lambda x: graph_rewrite(x.src[0], inner))])
    assert graph_rewrite(UOp(Ops.NEG, dtypes.int, (const(1),)), outer) is const(2)


def test_a_rule_must_return_a_node():
    with pytest.raises(TypeError, match="must return a UOp"):
        graph_rewrite(const(1), PatternMatcher([(UPat(Ops.CONST), lambda: 3)]))


def test_an_overridden_rewrite_is_used():
    class Counting(PatternMatcher):
        calls = 0

        def rewrite(self, uop, ctx=None):
            Counting.calls += 1
            return super().rewrite(uop, ctx)

    pm = Counting([(UPat(Ops.CONST, arg=1), lambda: const(2))])
    assert graph_rewrite(add(const(1), const(2)), pm) is add(const(2), const(2))
    assert Counting.calls >= 3 and type(pm + pm) is Counting


def test_substitute_searches_what_it_puts_in():
    one, two, three = const(1), const(2), const(3)
    neg = UOp(Ops.NEG, dtypes.int, (one,))
    assert substitute(add(neg, two), {neg: add(two, two), two: three}) is add(
        add(three, three), three
    )
    assert substitute(neg, {}) is neg
    assert substitute(add(one, two), {one: neg}) is add(neg, two)
    with pytest.raises(RuntimeError, match="infinite loop"):
        substitute(add(one, two), {one: UOp(Ops.NEG, dtypes.int, (neg,))})
    with pytest.raises(RuntimeError, match="circle"):
        substitute(add(one, two), {one: two, two: one})


CALLS = []


def note_call(x):
    CALLS.append(x)


def note_plain_call(x):
    CALLS.append(x)


def test_pure_rules_are_not_tried_again_on_what_they_leave_alone():
    """In a process of its own: only the first 63 pure sets of a process are remembered, and tests make more."""
    if os.environ.get("FRESH_PROCESS") != "1":
        name = "test_pure_rules_are_not_tried_again_on_what_they_leave_alone"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"{__file__}::{name}"],
            env={**os.environ, "FRESH_PROCESS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return
    pure = PatternMatcher([rule("note", UPat(Ops.ADD, name="x"), note_call)])
    graph = add(add(const(1), const(2)), const(3))
    CALLS.clear()
    assert graph_rewrite(graph, pure) is graph and len(CALLS) == 2
    # also as a part of a sum, and below a new root
    assert graph_rewrite(add(graph, graph), pure) is add(graph, graph) and len(CALLS) == 3
    other = PatternMatcher([rule("three", UPat(Ops.CONST, arg=3), lambda: const(4))])
    changed = graph_rewrite(graph, pure + other)
    assert changed is add(add(const(1), const(2)), const(4))
    seen = len(CALLS)
    assert graph_rewrite(changed, pure) is changed and len(CALLS) == seen
    CALLS.clear()


def test_rules_that_depend_on_more_than_the_node_are_tried_again():
    calls = []
    closing = PatternMatcher([rule("closing", UPat(Ops.ADD, name="x"), lambda x: calls.append(x))])
    plain = PatternMatcher([(UPat(Ops.ADD, name="x"), note_plain_call)])
    with_ctx = PatternMatcher(
        [rule("ctx", UPat(Ops.ADD, name="x"), lambda ctx, x: const(9) if ctx else None)]
    )
    graph = add(const(1), const(2))
    CALLS.clear()
    for _ in range(2):
        graph_rewrite(graph, closing)
        graph_rewrite(graph, plain)
    assert len(calls) == 2 and len(CALLS) == 2
    assert graph_rewrite(graph, with_ctx, False) is graph
    assert graph_rewrite(graph, with_ctx, True) is const(9)
    calls.clear()
    CALLS.clear()


@pytest.mark.parametrize("seed", range(10))
def test_remembered_orders_are_right_and_die_with_their_root(seed):
    rng = random.Random(seed)
    graphs = [random_graph(rng, 150) for _ in range(7)]
    orders = [postorder(g) for g in graphs]
    for _ in range(60):
        i = rng.randrange(len(graphs))
        found = rng.choice((graphs[i].toposort(), dict.fromkeys(graphs[i].get_consumer_map())))
        assert list(found) == orders[i]
        found.clear()
        assert list(graphs[i].backward_slice) == orders[i][:-1]
        if rng.random() < 0.2:
            graphs[i] = random_graph(rng, 150)
            orders[i] = postorder(graphs[i])
