"""Recording of rewrites: groups, steps, changes; and that recording changes no result."""

import random

import pytest

from tinygrad.dtype import dtypes
from tinygrad.helpers import Context, TracingKey
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import (
    BottomUpGate,
    PatternMatcher,
    TrackedPatternMatcher,
    UOp,
    UPat,
    active_rewrites,
    graph_rewrite,
    profile_matches,
    track_rewrites,
    tracked_ctxs,
    tracked_keys,
    uop_fields,
)
from tinygrad.uop.symbolic import sym

SEED = random.SystemRandom().randrange(1 << 32)


pytestmark = pytest.mark.usefixtures("recording")

a, b = UOp.variable("a", 0, 10), UOp.variable("b", 1, 7)


def test_one_group_with_its_changes():
    @track_rewrites()
    def simplify(u):
        return graph_rewrite(u, TrackedPatternMatcher(sym.patterns), name="step")

    assert simplify((a + 0) * 1) is a
    assert simplify(a * 1) is a
    assert [key.display_name for key in tracked_keys] == ["simplify n1", "simplify n2"]
    (step,) = tracked_ctxs[0]
    assert step.name == "step" and step.depth == 0 and len(step.matches) == 2
    before, after = step.matches[0][:2]
    assert uop_fields[before][0] is Ops.ADD and uop_fields[after][0] is Ops.DEFINE_VAR
    assert step.loc[0] == __file__ and not active_rewrites


def test_names_from_functions():
    @track_rewrites(name=lambda u, ret: ret.render())
    def by_text(u):
        return graph_rewrite(u, PatternMatcher([]))

    @track_rewrites(name=lambda u, ret: TracingKey("given", (u,)))
    def by_key(u):
        return graph_rewrite(u, PatternMatcher([]))

    by_text(a + 1)
    by_key(a + 1)
    assert [key.display_name for key in tracked_keys] == ["(a+1) n1", "given"]


def test_default_group_and_nesting():
    inner = PatternMatcher(
        [(UPat(Ops.DEFINE_VAR, name="x"), lambda x: x.rtag(1) if x.tag is None else None)]
    )

    def both(x):
        return graph_rewrite(x, inner, name="inner") if x.tag is None else None

    graph_rewrite(a + b, PatternMatcher([(UPat(Ops.ADD, name="x"), both)]), name="outer")
    assert [key.display_name for key in tracked_keys] == ["default graph_rewrite"]
    assert [(step.name, step.depth) for step in tracked_ctxs[0]][:2] == [("outer", 0), ("inner", 1)]


def test_profile_matches():
    @profile_matches
    def stage(u):
        return graph_rewrite(u, PatternMatcher([]), name="part")

    stage(a)
    assert [(step.name, step.depth) for step in tracked_ctxs[0]] == [("stage", 0), ("part", 1)]
    with pytest.raises(AssertionError, match="invalid match tracing input"):
        stage("text")


def test_errors_are_recorded():
    def count(x):
        assert x.arg < 3
        return x.replace(arg=x.arg + 1)

    with pytest.raises(AssertionError):
        graph_rewrite(UOp.const(dtypes.int, 0), PatternMatcher([(UPat.cvar("x"), count)]))
    (step,) = tracked_ctxs[0]
    assert len(step.matches) == 4
    assert uop_fields[step.matches[-1][1]][0] is Ops.REWRITE_ERROR
    assert not active_rewrites


def test_endless_rules_end():
    rules = PatternMatcher(
        [
            (UPat(Ops.CONST, arg=3, name="x"), lambda x: x.replace(arg=4)),
            (UPat(Ops.CONST, arg=4, name="x"), lambda x: x.replace(arg=3)),
        ]
    )
    for bottom_up in (False, True):
        with Context(REWRITE_STACK_LIMIT=100), pytest.raises(RuntimeError, match="infinite loop"):
            graph_rewrite(UOp.const(dtypes.int, 3), rules, bottom_up=bottom_up)


def gate(x):
    raise BottomUpGate


def random_formula(rng: random.Random) -> UOp:
    nodes = [a, b, a.const_like(2), a.const_like(0)]
    for _ in range(30):
        op = rng.choice([Ops.ADD, Ops.MUL, Ops.MAX, Ops.IDIV])
        right = b if op is Ops.IDIV else rng.choice(nodes[-8:])
        nodes.append(rng.choice(nodes[-8:]).alu(op, right))
    return nodes[-1]


def test_recording_changes_no_result():
    rng = random.Random(SEED)
    swap = PatternMatcher([(UPat(Ops.DEFINE_VAR, name="x"), lambda x: b if x is a else None)])
    stop = PatternMatcher(
        [(UPat(Ops.MUL, name="x"), gate), (UPat(Ops.DEFINE_VAR, name="x"), lambda x: x.rtag(1))]
    )
    order_plain, order_traced = [], []
    visit = PatternMatcher([(UPat(GroupOp.All, name="x"), lambda ctx, x: ctx.append(x))])
    for _ in range(40):
        u = random_formula(rng)
        for pm, bottom_up in ((sym, False), (swap, True), (swap, False)):
            traced = graph_rewrite(u, pm, bottom_up=bottom_up)
            with Context(TRACK_MATCH_STATS=0):
                assert graph_rewrite(u, pm, bottom_up=bottom_up) is traced, f"seed {SEED}"
        gated = PatternMatcher(stop.patterns[:1])
        assert graph_rewrite(u, swap, bpm=gated) is not None
        graph_rewrite(u, visit, ctx=order_traced, bpm=visit)
        with Context(TRACK_MATCH_STATS=0):
            graph_rewrite(u, visit, ctx=order_plain, bpm=visit)
            untraced = graph_rewrite(u, swap, bpm=gated)
        assert graph_rewrite(u, swap, bpm=gated) is untraced, f"seed {SEED}"
    assert order_plain == order_traced
