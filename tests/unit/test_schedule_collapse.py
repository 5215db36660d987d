"""Sums with a closed form equal the sums; a failure names its seed."""

import random

import numpy as np
import pytest
from tests.unit.schedule_oracle import run_kernel

from tinygrad.dtype import dtypes
from tinygrad.schedule.collapse import simplify_value
from tinygrad.uop.ops import AxisType, Ops, UOp

ROWS = 7


def evaluate(value: UOp, row: UOp, table: np.ndarray) -> np.ndarray:
    """The value for every row; `table` is the memory in slot 1."""
    result = np.zeros(ROWS, np.int32)
    out = UOp(Ops.DEFINE_GLOBAL, value.dtype.ptr(ROWS), (), 0)
    store = UOp(Ops.INDEX, out.dtype, (out, row)).store(value).end(row)
    run_kernel(UOp.sink(store), [result, table], {})
    return result


def random_condition(rnd: random.Random, loop: UOp, row: UOp) -> UOp:
    linear = loop * rnd.choice([1, 1, 1, -1, 2, -2, 3]) + row * rnd.choice([0, 1, -1, 2])
    condition = linear.lt(rnd.randrange(-8, 20))
    return condition.logical_not() if rnd.random() < 0.5 else condition


def random_sum(rnd: random.Random, row: UOp, memory: UOp) -> UOp:
    """A sum over one or two loops of something that is zero outside of some conditions."""
    loops = [UOp.range(rnd.randrange(1, 9), 1 + n, AxisType.REDUCE) for n in range(2)]
    loops = loops[: rnd.randrange(1, 3)]
    loop = loops[0]
    condition = random_condition(rnd, loop, row)
    for _ in range(rnd.randrange(3)):
        condition = condition & random_condition(rnd, rnd.choice(loops), row)
    element = UOp.const(dtypes.int, rnd.randrange(1, 5))
    if rnd.random() < 0.5:
        # one value of the loop counts: a table is read there
        wanted = (row * rnd.choice([1, 2]) + rnd.randrange(-3, 4)).cast(dtypes.int)
        condition = loop.cast(dtypes.int).ne(wanted).logical_not() & condition
        inside = UOp(Ops.INDEX, dtypes.int, (memory, loop))
        element = element * inside
    other = UOp.const(dtypes.int, rnd.choice([0, 0, 3]))
    value = condition.where(element, other)
    if rnd.random() < 0.3:
        value = value + row.cast(dtypes.int)
    if rnd.random() < 0.3:
        value = value * rnd.randrange(2, 4)
    return UOp(Ops.REDUCE, dtypes.int, (value, *loops), Ops.ADD)


@pytest.mark.parametrize("seed", range(300))
def test_closed_forms_equal_the_sums(seed):
    rnd = random.Random(seed)
    row = UOp.range(ROWS, 0, AxisType.LOOP)
    table = np.arange(10, 20, dtype=np.int32)
    memory = UOp(Ops.DEFINE_GLOBAL, dtypes.int.ptr(len(table)), (), 1)
    total = random_sum(rnd, row, memory)
    closed = simplify_value(total)
    expected, got = evaluate(total, row, table), evaluate(closed, row, table)
    np.testing.assert_array_equal(got, expected, err_msg=f"seed {seed}: {closed.render()}")


def test_counting_needs_no_loop():
    row = UOp.range(ROWS, 0, AxisType.LOOP)
    loop = UOp.range(9, 1, AxisType.REDUCE)
    one, zero = UOp.const(dtypes.int, 1), UOp.const(dtypes.int, 0)
    total = UOp(Ops.REDUCE, dtypes.int, (loop.lt(row).where(one, zero), loop), Ops.ADD)
    closed = simplify_value(total)
    assert not any(u.op is Ops.REDUCE for u in closed.toposort())


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_loops_that_nothing_depends_on(op):
    row = UOp.range(ROWS, 0, AxisType.LOOP)
    loop = UOp.range(3, 1, AxisType.REDUCE)
    total = UOp(Ops.REDUCE, dtypes.int, ((row + 1).cast(dtypes.int), loop), op)
    closed = simplify_value(total)
    assert not any(u.op is Ops.REDUCE for u in closed.toposort())
    rows = np.arange(1, ROWS + 1)
    expected = {Ops.ADD: rows * 3, Ops.MUL: rows**3, Ops.MAX: rows}[op]
    np.testing.assert_array_equal(evaluate(closed, row, np.zeros(1, np.int32)), expected)
