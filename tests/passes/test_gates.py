"""Conditions: from `Invalid` in an index to gates, alternatives and branches."""

import numpy as np
import pytest

from tinygrad.dtype import dtypes
from tinygrad.helpers import Context
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

from .kernels import (
    LOOP,
    REDUCE,
    UPCAST,
    Axes,
    ScalarTarget,
    WideTarget,
    buffer,
    floats,
    instructions,
    run,
)


def ops_of(lines):
    return [u.op for u in lines]


def test_choice_becomes_the_alternative_of_a_load():
    i = UOp.range(16, 0)
    out, a = buffer(0, 16), buffer(1, 10)
    value = (i < 10).where(a.index(i.valid(i < 10)), UOp.const(dtypes.float32, 5.0))
    sink = out.index(i, ptr=True).store(value).end(i).sink()
    data, got = floats(10), np.zeros(16, np.float32)
    lines = run(sink, ScalarTarget(), got, data)
    assert Ops.WHERE not in ops_of(lines)
    np.testing.assert_array_equal(got, np.append(data, [5] * 6))


def test_swapped_choice():
    i = UOp.range(16, 0)
    out, a = buffer(0, 16), buffer(1, 10)
    value = (i >= 10).where(UOp.const(dtypes.float32, 5.0), a.index(i.valid(i < 10)))
    data, got = floats(10), np.zeros(16, np.float32)
    run(out.index(i, ptr=True).store(value).end(i).sink(), ScalarTarget(), got, data)
    np.testing.assert_array_equal(got, np.append(data, [5] * 6))


def test_alternative_in_another_type_must_be_exact():
    i = UOp.range(16, 0)
    for alt, folds in ((5.0, True), (5.5, False)):
        out, a = buffer(0, 16), buffer(1, 10, dtypes.int32)
        read = a.index(i.valid(i < 10)).cast(dtypes.float32)
        value = (i < 10).where(read, UOp.const(dtypes.float32, alt))
        data, got = np.arange(10, dtype=np.int32), np.zeros(16, np.float32)
        lines = run(out.index(i, ptr=True).store(value).end(i).sink(), ScalarTarget(), got, data)
        np.testing.assert_array_equal(got, np.append(data, [alt] * 6))
        assert (Ops.WHERE not in ops_of(lines)) == folds


def test_load_stays_outside_of_a_loop_it_does_not_move_with():
    i, j = UOp.range(6, 0), UOp.range(4, 1, REDUCE)
    out, a = buffer(0, 6), buffer(1, 4)
    rows, columns = (i >= 1) & (i < 5), (j >= 1) & (j < 3)
    both = rows & columns
    value = both.where(a.index((i - 1).valid(both)), UOp.const(dtypes.float32, 2.0))
    sink = out.index(i, ptr=True).store(value.reduce(j, arg=Ops.ADD)).end(i).sink()
    data, got = floats(4), np.zeros(6, np.float32)
    lines = run(sink, ScalarTarget(), got, data)
    np.testing.assert_array_equal(got, [8, *(data * 2 + 4), 8])
    inner = [k for k, u in enumerate(lines) if u.op is Ops.RANGE][1]
    read = next(k for k, u in enumerate(lines) if u.op is Ops.LOAD and u.src[0].src[0].arg == 1)
    assert read < inner


def test_storing_back_what_was_read_is_not_storing():
    i = UOp.range(8, 0)
    out = buffer(0, 8)
    address = out.index(i, ptr=True)
    value = (i < 3).where(UOp.const(dtypes.float32, 7.0), address.load())
    data = floats(8)
    want = np.append([7, 7, 7], data[3:])
    lines = run(address.store(value).end(i).sink(), ScalarTarget(), data)
    assert Ops.LOAD not in ops_of(lines)
    assert Ops.IF in ops_of(lines)
    np.testing.assert_array_equal(data, want)


def test_branch_holds_only_the_store():
    i = UOp.range(8, 0)
    sink = buffer(0, 8).index(i.valid(i < 3), ptr=True).store(UOp.const(dtypes.float32, 7.0)).end(i)
    ops = ops_of(instructions(sink.sink(), ScalarTarget()))
    at = ops.index(Ops.IF)
    assert ops[at : at + 3] == [Ops.IF, Ops.STORE, Ops.ENDIF]


def test_lane_masks_stay_masks():
    axes = Axes()
    i, ranges = axes.split(16, 16, LOOP, UPCAST)
    value = buffer(1, 16).index(i) + 1.0
    sink = buffer(0, 16).index(i.valid(i < 13), ptr=True).store(value).end(*ranges).sink()
    data, got = floats(16), np.zeros(16, np.float32)
    lines = run(sink, WideTarget(), got, data)
    assert Ops.IF not in ops_of(lines)
    np.testing.assert_array_equal(got[:13], data[:13] + 1)
    np.testing.assert_array_equal(got[13:], 0)


def test_decided_gates_disappear():
    out, a, b = buffer(0, 1), buffer(1, 1), buffer(2, 1)
    zero = UOp.const(dtypes.index, 0)
    never, always = UOp.const(dtypes.bool, False), UOp.const(dtypes.bool, True)
    value = a.index(zero.valid(never)) + b.index(zero.valid(always))
    sink = out.index(zero, ptr=True).store(value).sink()
    lines = instructions(sink, ScalarTarget())
    assert [u.arg for u in lines if u.op is Ops.DEFINE_GLOBAL] == [0, 2]


def test_stores_that_never_happen_leave_no_loop():
    i = UOp.range(8, 0)
    never = UOp.const(dtypes.bool, False)
    sink = buffer(0, 8).index(i.valid(never), ptr=True).store(UOp.const(dtypes.float32, 1.0)).end(i)
    assert ops_of(instructions(sink.sink(), ScalarTarget())) == [Ops.SINK]


def test_access_out_of_bounds_is_named():
    i = UOp.range(9, 0)
    sink = buffer(0, 8).index(i, ptr=True).store(UOp.const(dtypes.float32, 1.0)).end(i).sink()
    with Context(IGNORE_OOB=0), pytest.raises(RuntimeError, match="buffer of 8 elements"):
        instructions(sink, ScalarTarget())
