"""Matchers that codegen runs together end, keep values, and work on lanes."""

from __future__ import annotations

import os

import numpy as np
import pytest
from evaluator import evaluate
from expressions import Grower

from tinygrad.dtype import dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.decompositions import late_decompositions
from tinygrad.uop.ops import UOp, graph_rewrite
from tinygrad.uop.symbolic import gep_pushing, sym, symbolic

COUNT = int(os.environ.get("RULES_FUZZ", "150"))
FIRST = int(os.environ.get("RULES_SEED", "0"))
LANES = 4

_C_LIKE = GroupOp.ALU - {Ops.POW, Ops.THREEFRY, Ops.SIN, Ops.LOG2, Ops.EXP2, Ops.MAX, Ops.FDIV}
_FEW = {Ops.ADD, Ops.MUL, Ops.IDIV, Ops.CMPLT, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR, Ops.XOR,
        Ops.SHL, Ops.SHR, Ops.RECIPROCAL}  # fmt: skip


def _same(u: UOp, v: UOp, leaves: dict) -> bool:
    with np.errstate(all="ignore"):
        a, b = np.broadcast_arrays(evaluate(u, leaves), evaluate(v, leaves))
        return bool(((a == b) | ((a != a) & (b != b))).all())


@pytest.mark.parametrize("ops", [_C_LIKE, _FEW, GroupOp.ALU], ids=["c", "few", "all"])
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint32, dtypes.int8], ids=str)
def test_symbolic_with_decompositions(ops, dtype):
    matcher = symbolic + late_decompositions(ops, fast_division=True)
    for i in range(COUNT // 3):
        seed = FIRST + i
        grower = Grower(seed, dtype)
        u = grower.number(4)
        lowered = graph_rewrite(u, matcher)
        assert _same(u, lowered, grower.leaves(200)), (
            f"seed {seed}: {u.render(simplify=False)} became {lowered.render(simplify=False)}"
        )
        assert graph_rewrite(lowered, matcher) is lowered, f"seed {seed}"


def _vector_of(grower: Grower) -> UOp:
    shared = grower.number(2)
    parts = []
    for lane in range(LANES):
        part = shared + lane if grower.rng.random() < 0.5 else grower.number(2)
        parts.append(part if grower.rng.random() < 0.8 else shared)
    if grower.rng.random() < 0.2:
        parts = [shared] * LANES
    return UOp(Ops.VECTORIZE, grower.dtype.vec(LANES), tuple(parts))


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.int32, dtypes.uint8], ids=str)
@pytest.mark.parametrize("matcher", [sym, sym + gep_pushing], ids=["sym", "pushing"])
def test_lanes(dtype, matcher):
    for i in range(COUNT // 2):
        seed = FIRST + i
        grower = Grower(seed, dtype)
        a, b = _vector_of(grower), _vector_of(grower)
        op = grower.rng.choice((Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.IDIV, Ops.MOD))
        if op in (Ops.IDIV, Ops.MOD):
            values = [grower.rng.randint(1, 9) for _ in range(LANES)]
            b = UOp.const(dtype.vec(LANES), grower.rng.choice((values[0], tuple(values))))
        u = a.alu(op, b)
        if u.dtype.scalar() is dtypes.bool:
            u = u.where(a, _vector_of(grower))
        if grower.rng.random() < 0.6:
            count = grower.rng.choice((1, 2, LANES))
            u = u.gep(tuple(grower.rng.randrange(LANES) for _ in range(count)))
        simple = graph_rewrite(u, matcher)
        assert simple.dtype == u.dtype, f"seed {seed}"
        assert _same(u, simple, grower.leaves(200)), f"seed {seed}: {u} became {simple}"
        assert graph_rewrite(simple, matcher) is simple, f"seed {seed}"


def _float_expression(grower: Grower, x: UOp, y: UOp, depth: int) -> UOp:
    if depth == 0:
        constants = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25)
        pick = grower.rng.randrange(3)
        return (x, y, x.const_like(grower.rng.choice(constants)))[pick]
    a = _float_expression(grower, x, y, depth - 1)
    b = _float_expression(grower, x, y, depth - 1)
    kind = grower.rng.randrange(8)
    if kind < 2:
        return a + b
    if kind < 4:
        return a * b
    if kind == 4:
        return a.reciprocal()
    if kind == 5:
        return a.maximum(b)
    if kind == 6:
        return (a < b).where(a, b)
    return a - b


def test_floats():
    """Where nothing overflows and no NaN or infinity is multiplied with zero, values are kept up to
    rounding."""
    x = UOp.variable("x", -float("inf"), float("inf"), dtypes.float32)
    y = UOp.variable("y", -float("inf"), float("inf"), dtypes.float32)
    matchers = [symbolic, sym, symbolic + late_decompositions(GroupOp.ALU)]
    for i in range(COUNT):
        seed = FIRST + i
        grower = Grower(seed)
        u = _float_expression(grower, x, y, 3)
        rng = np.random.default_rng(seed)
        leaves = {v: rng.uniform(-4, 4, 200).astype(np.float32) for v in (x, y)}
        with np.errstate(all="ignore"):
            expected = evaluate(u, leaves).astype(np.float64) * np.ones(200)
        for matcher in matchers:
            simple = graph_rewrite(u, matcher)
            with np.errstate(all="ignore"):
                got = evaluate(simple, leaves).astype(np.float64) * np.ones(200)
            # cancellation makes small differences large: compare where values are ordinary
            ordinary = np.isfinite(expected) & np.isfinite(got) & (np.abs(expected) < 1e4)
            error = np.abs(got[ordinary] - expected[ordinary])
            bound = 1e-3 * (1 + np.abs(expected[ordinary]))
            assert np.mean(error <= bound) > 0.97 if len(error) else True, (
                f"seed {seed}: {u.render(simplify=False)} became {simple.render(simplify=False)}"
            )
            assert graph_rewrite(simple, matcher) is simple, f"seed {seed}"
