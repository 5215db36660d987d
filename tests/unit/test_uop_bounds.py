"""Bounds hold: every value an expression takes lies between its vmin and vmax."""

import itertools
import random

import pytest

from tinygrad.dtype import Invalid, dtypes, truncate
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, exec_alu

SEED = random.SystemRandom().randrange(1 << 32)
INT_OPS = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
    Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ,
)  # fmt: skip


def evaluate(u: UOp, values: dict[UOp, object]):
    """The value of a formula, one op at a time, with wrap-around."""
    results: dict[UOp, object] = {}
    for x in u.toposort():
        if x.op is Ops.CONST:
            results[x] = x.arg
        elif x.op is Ops.DEFINE_VAR:
            results[x] = values[x]
        elif x.op is Ops.CAST:
            value = results[x.src[0]]
            results[x] = truncate[x.dtype](value) if x.dtype in truncate else value
        else:
            results[x] = exec_alu(x.op, x.dtype, [results[s] for s in x.src])
    return results[u]


def random_formula(rng: random.Random, dtype, variables: list[UOp], depth: int) -> UOp:
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.4:
            low, high = (-9, 9) if not dtypes.is_unsigned(dtype) else (0, 9)
            return UOp.const(dtype, rng.randint(low, high))
        return rng.choice(variables)
    op = rng.choice(INT_OPS)
    left = random_formula(rng, dtype, variables, depth - 1)
    right = random_formula(rng, dtype, variables, depth - 1)
    if op in (Ops.SHL, Ops.SHR):
        right = UOp.const(dtype, rng.randint(0, 4))
    made = left.alu(op, right)
    return made if made.dtype is dtype else made.where(left, right)


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.int8, dtypes.uint8, dtypes.int32])
def test_integer_formulas_by_brute_force(dtype):
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    for _ in range(250):
        low = 0 if dtypes.is_unsigned(dtype) else rng.randint(-6, 0)
        variables = [UOp.variable(f"v{i}", low, low + rng.randint(0, 6), dtype) for i in range(2)]
        formula = random_formula(rng, dtype, variables, 3)
        spans = [range(v.arg[1], v.arg[2] + 1) for v in variables]
        for point in itertools.product(*spans):
            value = evaluate(formula, dict(zip(variables, point)))
            assert formula.vmin <= value <= formula.vmax, (
                f"seed {SEED}: {formula.render(simplify=False)} at {point} is {value}, "
                f"bounds {formula.vmin} .. {formula.vmax}"
            )


def test_wraparound_gives_full_range():
    a = UOp.variable("a", 100, 120, dtypes.int8)
    assert (a + 10)._min_max == (dtypes.int8.min, dtypes.int8.max)
    assert (a + 5)._min_max == (105, 125)
    assert (UOp.variable("a", 100, 120) + 10)._min_max == (110, 130)


def test_division_by_possible_zero_is_unbounded():
    x, y = UOp.variable("x", -10, 10, dtypes.int), UOp.variable("y", -8, 9, dtypes.int)
    for u in (x // y, x % y):
        assert u._min_max == (dtypes.int.min, dtypes.int.max)


def test_remainder_with_one_quotient():
    assert (UOp.variable("a", 12, 15) % 10)._min_max == (2, 5)
    assert (UOp.variable("a", 8, 15) % 10)._min_max == (0, 9)


def test_casts():
    a = UOp.variable("a", -3, 300)
    assert a.cast(dtypes.uint8)._min_max == (0, 255)
    assert a.cast(dtypes.int16)._min_max == (-3, 300)
    assert a.cast(dtypes.float)._min_max == (-3.0, 300.0)
    assert a.cast(dtypes.bool)._min_max == (False, True)
    assert (a + 4).cast(dtypes.bool)._min_max == (True, True)
    f = UOp.variable("f", -1.5, 2.5, dtypes.float)
    assert f.cast(dtypes.int)._min_max == (-1, 2)


def test_nan_is_not_ordered():
    loaded = UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(4), (), 0).index(UOp.const(dtypes.int, 0))
    positive = loaded.maximum(1.0)
    # the maximum of a NaN is NaN, so this need not be true
    assert (UOp.const(dtypes.float, 0.0) < positive)._min_max == (False, True)
    assert (positive < 0.0)._min_max == (False, False)


def test_where_ignores_the_missing_element():
    idx = UOp.range(10, 0).valid(UOp.range(10, 0) < 5)
    assert idx._min_max == (0, 9)
    assert idx.src[2].arg is Invalid


def test_loops_and_vectors():
    n = UOp.variable("n", 1, 8)
    assert UOp.range(n, 0)._min_max == (0, 7)
    assert UOp.special(4, "gidx0")._min_max == (0, 3)
    vec = UOp.const(dtypes.int, 3).vectorize(UOp.const(dtypes.int, 7))
    assert vec._min_max == (3, 7)


def test_million_deep_sum():
    u = UOp.variable("a", 0, 1)
    for _ in range(100_000):
        u = u + 1
    assert u._min_max == (100_000, 100_001)
