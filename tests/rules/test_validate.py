"""The z3 translation agrees with the evaluator, and accesses are judged right."""

from __future__ import annotations

import numpy as np
import pytest
from evaluator import evaluate
from expressions import Grower

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp
from tinygrad.uop.validate import uops_to_z3, validate_index, z3_cdiv, z3_cmod

z3 = pytest.importorskip("z3")


def _buffer(size: int) -> UOp:
    return UOp(Ops.DEFINE_GLOBAL, dtypes.int.ptr(size), arg=0)


def test_division_rounds_toward_zero():
    for x in range(-9, 10):
        for y in (-4, -3, -1, 1, 2, 5):
            a, b = z3.IntVal(x), z3.IntVal(y)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            assert z3.simplify(z3_cdiv(a, b)).as_long() == quotient
            assert z3.simplify(z3_cmod(a, b)).as_long() == x - quotient * y


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.int32], ids=str)
def test_translation_agrees_with_the_evaluator(dtype):
    for seed in range(40):
        grower = Grower(seed)
        grower.dtype = dtype
        u = grower.number(3)
        if any(s.op in (Ops.IDIV, Ops.MOD) and s.src[1].op is not Ops.CONST for s in u.toposort()):
            continue
        leaves = grower.leaves(20)
        expected = np.broadcast_to(evaluate(u, leaves), next(iter(leaves.values())).shape)
        solver = z3.Solver()
        (value,) = uops_to_z3(solver, u)
        for i in range(0, len(expected), 7):
            at = [(z3.Int(v.arg[0]), z3.IntVal(int(c[i]))) for v, c in leaves.items()]
            result = z3.simplify(z3.substitute(value, *at))
            assert result.as_long() == expected[i], f"seed {seed}: {u.render(simplify=False)}"


def test_leaves_carry_their_bounds():
    solver = z3.Solver()
    i = UOp.range(10, 0)
    v = UOp.variable("v", 3, 5)
    total, _ = uops_to_z3(solver, i + v, v)
    assert solver.check(total > 14) == z3.unsat
    assert solver.check(total < 3) == z3.unsat
    assert solver.check(total == 14) == z3.sat


def test_converted_integers_wrap():
    solver = z3.Solver()
    v = UOp.variable("v", 0, 300, dtypes.int32)
    (byte,) = uops_to_z3(solver, v.cast(dtypes.uint8))
    assert solver.check(byte > 255) == z3.unsat
    assert solver.check(z3.Int("v") == 300, byte != 44) == z3.unsat


def test_access_inside_and_outside():
    i = UOp.variable("i", 0, 20)
    assert validate_index(_buffer(21), i)
    assert not validate_index(_buffer(20), i)
    assert not validate_index(_buffer(21), i - 1)
    # more than bounds can tell: the two summands are never large together
    assert validate_index(_buffer(21), i // 2 + (20 - i) // 2)


def test_gate_limits_the_access():
    i = UOp.variable("i", 0, 20)
    assert validate_index(_buffer(16), i, i < 16)
    assert validate_index(_buffer(16), i.valid(i < 16))
    assert not validate_index(_buffer(16), i, i < 17)
    assert validate_index(_buffer(4), UOp.invalid())


def test_loaded_index_is_unknown():
    i = UOp.variable("i", 0, 7)
    loaded = _buffer(8).index(i, ptr=True).load().cast(dtypes.index)
    assert not validate_index(_buffer(32), loaded)
    assert validate_index(_buffer(32), loaded, (loaded >= 0) & (loaded < 32))
    assert validate_index(_buffer(64), loaded * 2, (loaded >= 0) & (loaded < 32))


def test_float_in_the_index_is_unknown():
    i = UOp.variable("i", 0, 19)
    rounded = (i.cast(dtypes.float) * 0.68).trunc().cast(dtypes.int)
    assert validate_index(_buffer(16), rounded, (rounded >= 0) & (rounded < 16))
    assert not validate_index(_buffer(8), rounded)


def test_unsized_memory_is_not_judged():
    i = UOp.variable("i", 0, 20)
    unsized = UOp(Ops.DEFINE_GLOBAL, dtypes.int.ptr(), arg=0)
    assert validate_index(unsized, i)
    local = UOp(Ops.DEFINE_LOCAL, dtypes.int.ptr(4, AddrSpace.LOCAL), arg=0)
    assert not validate_index(local, i)
