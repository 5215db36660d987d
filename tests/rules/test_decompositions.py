"""Integer division by constants, Threefry, and what a matcher leaves."""

from __future__ import annotations

import random

import numpy as np
import pytest
from evaluator import evaluate, numpy_type
from expressions import Grower

from tinygrad.dtype import dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.decompositions import fast_idiv, late_decompositions, magic_multiplier
from tinygrad.uop.ops import UOp, exec_alu, graph_rewrite

SEED = 5
MINIMAL = frozenset(
    {
        Ops.ADD, Ops.MUL, Ops.IDIV, Ops.CMPLT, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR, Ops.XOR,
        Ops.SHL, Ops.SHR, Ops.RECIPROCAL,
    }
)  # fmt: skip


def _trunc_div(x: np.ndarray, d: int) -> np.ndarray:
    return np.sign(x) * (np.abs(x.astype(np.int64)) // d)


def test_magic_numbers_are_exact():
    rng = random.Random(SEED)
    for _ in range(300):
        divisor, largest = rng.randint(1, 5000), rng.randint(1, 2**20)
        m, shift = magic_multiplier(largest, divisor)
        edges = {0, 1, divisor - 1, divisor, largest, largest - 1, largest // divisor * divisor,
                 max(largest // divisor * divisor - 1, 0)}  # fmt: skip
        for n in edges | {rng.randint(0, largest) for _ in range(20)}:
            if n <= largest:
                assert (n * m) >> shift == n // divisor, f"{n} // {divisor} up to {largest}"


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32,
                                   dtypes.uint32], ids=str)  # fmt: skip
@pytest.mark.parametrize("signed", [False, True])
def test_fast_division(dtype, signed: bool):
    if signed and dtypes.is_unsigned(dtype):
        pytest.skip("no negative values")
    rng = np.random.default_rng(SEED)
    found = 0
    for _ in range(60):
        high = int(rng.integers(1, dtype.max + 1))
        low = -int(rng.integers(0, high + 1)) if signed else 0
        divisor = int(rng.integers(1, min(high, 1000) + 1))
        x = UOp.variable("x", low, high, dtype)
        result = fast_idiv("CPU", x, divisor)
        if result is None:
            continue
        found += 1
        values = np.unique(np.concatenate([
            rng.integers(low, high + 1, 400), [low, low + 1, high, high - 1, 0],
            np.arange(-3 * divisor, 3 * divisor + 1),
        ]))  # fmt: skip
        values = values[(values >= low) & (values <= high)]
        got = evaluate(result, {x: values.astype(numpy_type(dtype))})
        assert (got.astype(np.int64) == _trunc_div(values, divisor)).all(), (
            f"{low}..{high}//{divisor}"
        )
    assert found > 20


def test_powers_of_two_leave_before_the_multiplication():
    x = UOp.variable("x", 0, 2**20 - 1, dtypes.int32)
    result = fast_idiv("CPU", x, 7 * 64)
    assert result.render(simplify=False) == "(((x>>6)*18725)>>17)"
    assert not any(u.op is Ops.CAST for u in result.toposort())


def test_no_division_by_zero_or_negative_constants():
    x = UOp.variable("x", 0, 100, dtypes.int32)
    assert fast_idiv("CPU", x, 0) is None
    assert fast_idiv("CPU", x, -3) is None


def test_threefry():
    """The values of the reference evaluator, which known answers of Random123 pin."""
    lowered = late_decompositions(MINIMAL)
    counter = UOp.variable("counter", 0, 2**64 - 1, dtypes.uint64)
    key = UOp.variable("key", 0, 2**64 - 1, dtypes.uint64)
    u = graph_rewrite(counter.threefry(key), lowered)
    assert not any(v.op is Ops.THREEFRY for v in u.toposort())
    rng = random.Random(SEED)
    counters = [0, 2**64 - 1, 0x85A308D3243F6A88] + [rng.randrange(2**64) for _ in range(50)]
    keys = [0, 2**64 - 1, 0x0370734413198A2E] + [rng.randrange(2**64) for _ in range(50)]
    got = evaluate(u, {counter: np.array(counters, np.uint64), key: np.array(keys, np.uint64)})
    expected = [exec_alu(Ops.THREEFRY, dtypes.uint64, pair) for pair in zip(counters, keys)]
    assert [int(v) for v in got] == expected
    # kat_vectors of Random123, "threefry2x32 20": zeros, ones, digits of pi
    assert expected[:3] == [0x99BA4EFE6B200159, 0xBB002BE71CB996FC, 0x483DF7A0C4923A9C]


@pytest.mark.parametrize(
    "ops",
    [
        MINIMAL,
        MINIMAL | {Ops.NEG, Ops.SUB, Ops.CMPEQ, Ops.MULACC},
        GroupOp.ALU - {Ops.MOD, Ops.POW},
    ],
    ids=["few", "some", "most"],
)
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint32, dtypes.int8], ids=str)
def test_only_the_given_ops_are_left(ops, dtype):
    matcher = late_decompositions(ops)
    for seed in range(60):
        grower = Grower(SEED * 1000 + seed, dtype)
        u = grower.number(4)
        lowered = graph_rewrite(u, matcher)
        left = {v.op for v in lowered.toposort() if v.op in GroupOp.ALU}
        assert left <= set(ops), f"seed {seed}: {left - set(ops)} left"
        leaves = grower.leaves(200)
        expected, got = np.broadcast_arrays(evaluate(u, leaves), evaluate(lowered, leaves))
        assert (expected == got).all(), (
            f"seed {seed}: {u.render(simplify=False)} became {lowered.render(simplify=False)}"
        )
        assert graph_rewrite(lowered, matcher) is lowered


def test_same_arguments_give_the_same_matcher():
    assert late_decompositions((Ops.ADD, Ops.MUL)) is late_decompositions({Ops.MUL, Ops.ADD})
    assert late_decompositions({Ops.SIN}, True) is not late_decompositions({Ops.SIN}, False)
