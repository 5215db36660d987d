"""Simplified random expressions keep their value and are in normal form."""

from __future__ import annotations

import os

import numpy as np
import pytest
from evaluator import evaluate
from expressions import Grower

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import graph_rewrite
from tinygrad.uop.symbolic import sym, symbolic

COUNT = int(os.environ.get("RULES_FUZZ", "150"))
FIRST = int(os.environ.get("RULES_SEED", "0"))


def _check(seed: int, dtype, matcher, condition: bool = False) -> None:
    grower = Grower(seed, dtype)
    u = grower.condition(3) if condition else grower.number(4)
    simple = graph_rewrite(u, matcher)
    leaves = grower.leaves(300)
    expected, got = evaluate(u, leaves), evaluate(simple, leaves)
    expected, got = np.broadcast_arrays(expected, got)
    wrong = np.nonzero(expected != got)[0]
    if len(wrong):
        at = {v.arg[0]: int(values[wrong[0]]) for v, values in leaves.items()}
        pytest.fail(
            f"seed {seed}: {u.render(simplify=False)} became {simple.render(simplify=False)}, "
            f"which at {at} is {got[wrong[0]]} instead of {expected[wrong[0]]}"
        )
    again = graph_rewrite(simple, matcher)
    assert again is simple, (
        f"seed {seed}: not in normal form: {simple.render(simplify=False)} -> "
        f"{again.render(simplify=False)}"
    )


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("matcher", [symbolic, sym], ids=["symbolic", "sym"])
def test_index_expressions(block: int, matcher):
    for i in range(COUNT // 10):
        _check(FIRST + block * COUNT + i, dtypes.index, matcher)


@pytest.mark.parametrize("block", range(10))
def test_conditions(block: int):
    for i in range(COUNT // 10):
        _check(FIRST + block * COUNT + i, dtypes.index, symbolic, condition=True)


@pytest.mark.parametrize(
    "dtype", [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.uint32], ids=str
)
def test_fixed_width_expressions(dtype):
    for i in range(COUNT // 3):
        _check(FIRST + 7919 + i, dtype, sym)
