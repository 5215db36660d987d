"""Conditions and what they guard: equal wherever the condition holds."""

from __future__ import annotations

import os

import numpy as np
import pytest
from evaluator import evaluate
from expressions import Grower

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, graph_rewrite
from tinygrad.uop.symbolic import (
    parse_valid,
    pm_simplify_valid,
    simplify_valid,
    sym,
    uop_given_valid,
)

COUNT = int(os.environ.get("RULES_FUZZ", "150"))
FIRST = int(os.environ.get("RULES_SEED", "0"))


def _condition_of(grower: Grower) -> UOp:
    parts = [grower.condition(2) for _ in range(grower.rng.randint(1, 3))]
    total = parts[0]
    for part in parts[1:]:
        total = total & part
    return graph_rewrite(total, sym)


def _values(u: UOp, leaves: dict, like: np.ndarray) -> np.ndarray:
    return np.broadcast_to(evaluate(u, leaves), like.shape)


@pytest.mark.parametrize("block", range(5))
def test_guarded_value(block: int):
    for i in range(COUNT // 5):
        seed = FIRST + block * COUNT + i
        grower = Grower(seed)
        valid = _condition_of(grower)
        target = graph_rewrite(grower.number(3), sym)
        better = uop_given_valid(valid, target)
        leaves = grower.leaves(400)
        like = next(iter(leaves.values()))
        holds = _values(valid, leaves, like)
        expected, got = _values(target, leaves, like), _values(better, leaves, like)
        assert (expected[holds] == got[holds]).all(), (
            f"seed {seed}: under {valid.render(simplify=False)} "
            f"{target.render(simplify=False)} became {better.render(simplify=False)}"
        )


@pytest.mark.parametrize("block", range(5))
def test_conjunction(block: int):
    for i in range(COUNT // 5):
        seed = FIRST + 5000 + block * COUNT + i
        grower = Grower(seed)
        valid = _condition_of(grower)
        if valid.op is not Ops.AND:
            continue
        better = simplify_valid(valid)
        if better is None:
            continue
        leaves = grower.leaves(400)
        like = next(iter(leaves.values()))
        expected, got = _values(valid, leaves, like), _values(better, leaves, like)
        assert (expected == got).all(), (
            f"seed {seed}: {valid.render(simplify=False)} became {better.render(simplify=False)}"
        )


@pytest.mark.parametrize("block", range(5))
def test_guarded_index_is_normal(block: int):
    """sym + pm_simplify_valid ends, and what it leaves is left alone."""
    matcher = sym + pm_simplify_valid
    for i in range(COUNT // 5):
        seed = FIRST + 9000 + block * COUNT + i
        grower = Grower(seed)
        guarded = grower.number(3).valid(grower.condition(2) & grower.condition(2))
        simple = graph_rewrite(guarded, matcher)
        again = graph_rewrite(simple, matcher)
        assert again is simple, (
            f"seed {seed}: {simple.render(simplify=False)} -> {again.render(simplify=False)}"
        )


def test_limits_are_read():
    x = UOp.variable("x", 0, 20)
    assert parse_valid(x < 5) == (x, True, 4)
    assert parse_valid((x < 5).logical_not()) == (x, False, 5)
    assert parse_valid(x.const_like(5) < x) == (x, False, 6)
    assert parse_valid((x.const_like(5) < x).logical_not()) == (x, True, 5)
    assert parse_valid(x.ne(3)) is None


def test_limit_on_part_of_the_index():
    x, y = UOp.variable("x", 0, 20), UOp.variable("y", 0, 3)
    assert uop_given_valid(x < 4, x // 4) is x.const_like(0)
    assert uop_given_valid((x + y) < 4, (x + y) % 4) is (x + y).simplify()
    # a limit on one of two factors leaves the other
    assert uop_given_valid(x < 4, x // 4 + y) is y


def test_some_summand_is_positive():
    a, b = UOp.variable("a", 0, 1), UOp.variable("b", 0, 1)
    valid = ((a + b) < 1).logical_not()
    target = (a + b).maximum(1)
    better = uop_given_valid(valid, target)
    for i in (0, 1):
        for j in (0, 1):
            if i + j >= 1:
                values = {a: a.const_like(i), b: b.const_like(j)}
                assert better.substitute(values).ssimplify() == max(i + j, 1)


def test_condition_that_never_holds_keeps_the_value():
    x = UOp.variable("x", 0, 20)
    never = (x < 3) & (x.const_like(5) < x)
    assert uop_given_valid(never, x // 7) is x // 7
    assert graph_rewrite(x.valid(never), sym + pm_simplify_valid).dtype is dtypes.index
