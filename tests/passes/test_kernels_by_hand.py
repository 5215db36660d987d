"""Kernels that order their own loops, registers and stores."""

import numpy as np
import pytest

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, KernelInfo, UOp

from .kernels import (
    REDUCE,
    TARGETS,
    UNROLL,
    UPCAST,
    Axes,
    ScalarTarget,
    WideTarget,
    buffer,
    floats,
    instructions,
    run,
)

targets = pytest.mark.parametrize("ren", TARGETS, ids=lambda t: type(t).__name__)


def test_matrix_product_in_memory():
    n = 5
    a, b, c = (UOp.placeholder((n, n), dtypes.float32, s) for s in range(3))
    i, j, k = UOp.range(n, 0), UOp.range(n, 1), UOp.range(n, 2, REDUCE)
    c = c[i, j].set(0.0)
    c = c[i, j].set(c.after(k)[i, j] + a[i, k] * b[k, j])
    x, y, out = floats(n, n), floats(n, n, seed=1), np.ones((n, n), np.float32)
    run(c.end(i, j, k).sink(), ScalarTarget(), x.reshape(-1), y.reshape(-1), out.reshape(-1))
    np.testing.assert_array_equal(out, x @ y)


def test_loop_inside_then_more_work():
    n = 4
    a, b, c = (UOp.placeholder((n, n), dtypes.float32, s) for s in range(3))
    i, j, k = UOp.range(n, 0), UOp.range(n, 1), UOp.range(n, 2, REDUCE)
    c = c[i, j].set(0.0)
    c = c[i, j].set(c.after(k)[i, j] + a[i, k] * b[k, j], end=k)
    c = c[i, j].set(c[i, j].maximum(0.0))
    x, y, out = floats(n, n), floats(n, n, seed=1), np.ones((n, n), np.float32)
    run(c.end(i, j).sink(), ScalarTarget(), x.reshape(-1), y.reshape(-1), out.reshape(-1))
    np.testing.assert_array_equal(out, np.maximum(x @ y, 0))


def test_nested_accumulators():
    n, d = 4, 3
    o, q, k, v = (UOp.placeholder((n, d), dtypes.float32, s) for s in range(4))
    i, col, j, inner = (
        UOp.range(n, 0),
        UOp.range(d, 1),
        UOp.range(n, 2, REDUCE),
        UOp.range(d, 3, REDUCE),
    )
    score = UOp.placeholder((1,), dtypes.float32, 0, addrspace=AddrSpace.REG)
    score = score.after(i, j)[0].set(0.0)
    score = score[0].set(score.after(inner)[0] + q[i, inner] * k[j, inner], end=inner)
    total = UOp.placeholder((1,), dtypes.float32, 1, addrspace=AddrSpace.REG)
    total = total.after(i, col)[0].set(0.0)
    total = total[0].set(total.after(j)[0] + score[0] * v[j, col], end=j)
    sink = o[i, col].store(total[0]).end(col).end(i).sink()
    arrays = [np.zeros((n, d), np.float32)] + [floats(n, d, seed=s) for s in range(3)]
    run(sink, ScalarTarget(), *(x.reshape(-1) for x in arrays))
    np.testing.assert_array_equal(arrays[0], (arrays[1] @ arrays[2].T) @ arrays[3])


@targets
def test_contracted_lanes_are_stored_in_another_order(ren):
    src, dest = (UOp.placeholder((10, 4), dtypes.float32, s) for s in (1, 0))
    i, j = UOp.range(10, 0), UOp.range(4, 1, UPCAST)
    vec = src[i, j].contract(j)
    stores = UOp.group(*[dest[i, k].store(vec.gep(3 - k)) for k in range(4)])
    data, out = floats(10, 4), np.zeros((10, 4), np.float32)
    run(stores.end(i).sink(), ren, out.reshape(-1), data.reshape(-1))
    np.testing.assert_array_equal(out, data[:, ::-1])


@targets
def test_two_reductions_share_a_loop(ren):
    axes = Axes()
    i = axes(3)
    k, rk = axes.split(24, 4, REDUCE, UNROLL)
    out, a = buffer(0, 3), buffer(1, 72)
    x = a.index(i * 24 + k)
    value = x.reduce(*rk, arg=Ops.ADD) * 100.0 + (x * x).reduce(*rk, arg=Ops.ADD)
    data, got = floats(3, 24), np.zeros(3, np.float32)
    lines = run(out.index(i, ptr=True).store(value).end(i).sink(), ren, got, data.reshape(-1))
    np.testing.assert_array_equal(got, data.sum(1) * 100 + (data * data).sum(1))
    assert sum(u.op is Ops.RANGE for u in lines) == 2


@targets
def test_a_reduction_that_waits_for_another_over_the_same_range(ren):
    axes = Axes()
    i = axes(3)
    k = axes(8, REDUCE)
    out, a = buffer(0, 3), buffer(1, 24)
    x = a.index(i * 8 + k)
    biggest = x.reduce(k, arg=Ops.MAX)
    value = (x - biggest).reduce(k, arg=Ops.ADD)
    data, got = floats(3, 8), np.zeros(3, np.float32)
    run(out.index(i, ptr=True).store(value).end(i).sink(), ren, got, data.reshape(-1))
    np.testing.assert_array_equal(got, (data - data.max(1, keepdims=True)).sum(1))


@targets
def test_tail_shares_the_outer_loop(ren):
    """Whole tiles and a remainder, with a reduction in both."""
    m, n, k = 3, 11, 7
    out, a, b = buffer(0, m * n), buffer(1, m * k), buffer(2, k * n)
    i, kk = UOp.range(m, 0), UOp.range(k, 1, REDUCE)

    def part(j, *ranges):
        total = (a.index(i * k + kk) * b.index(kk * n + j)).reduce(kk, arg=Ops.ADD)
        return out.index(i * n + j, ptr=True).store(total).end(i, *ranges)

    jo, ji, jr = UOp.range(2, 2), UOp.range(4, 3, UPCAST), UOp.range(3, 4, UPCAST)
    sink = UOp.sink(part(jo * 4 + ji, jo, ji), part(jr + 8, jr))
    x, y, got = floats(m, k), floats(k, n, seed=1), np.zeros((m, n), np.float32)
    run(sink, ren, got.reshape(-1), x.reshape(-1), y.reshape(-1))
    np.testing.assert_array_equal(got, x @ y)


class ThreadTarget(WideTarget):
    has_threads = True
    threads = 2


def test_unequal_threads():
    thread = UOp.range(2, 0, AxisType.THREAD)
    size = (thread < 1).where(UOp.const(dtypes.index, 4), UOp.const(dtypes.index, 3))
    mine = UOp.range(size, 1)
    i = thread * 4 + mine
    out, a = buffer(0, 7), buffer(1, 7)
    sink = out.index(i, ptr=True).store(a.index(i) + 1.0).end(mine, thread).sink()
    data, got = floats(7), np.zeros(7, np.float32)
    lines = run(sink, ThreadTarget(), got, data)
    np.testing.assert_array_equal(got, data + 1)
    assert [u.arg for u in lines if u.op is Ops.DEFINE_VAR] == [("core_id", 0, 1)]


class GroupTarget(ScalarTarget):
    has_local = True
    supports_float4 = True


@pytest.mark.parametrize("upcast", [1, 4])
def test_reduction_by_a_group(upcast):
    axes = Axes()
    row = axes(2, AxisType.GLOBAL)
    local = axes(2, AxisType.LOCAL)
    col, lanes = (
        axes.split(upcast, upcast, AxisType.LOOP, UPCAST)
        if upcast > 1
        else (UOp.const(dtypes.index, 0), [])
    )
    group, k = axes(4, AxisType.GROUP_REDUCE), axes(5, REDUCE)
    i = (row * 2 + local) * upcast + col
    out, a = buffer(0, 4 * upcast), buffer(1, 80 * upcast)
    total = a.index(i + (group * 5 + k) * 4 * upcast).reduce(group, k, arg=Ops.ADD)
    sink = out.index(i, ptr=True).store(total).end(row, local, *lanes).sink()
    data, got = floats(20, 4 * upcast), np.zeros(4 * upcast, np.float32)
    lines = run(sink, GroupTarget(), got, data.reshape(-1))
    np.testing.assert_array_equal(got, data.sum(0))
    assert sum(u.op is Ops.BARRIER for u in lines) == 1
    assert any(u.op is Ops.IF for u in lines)


@targets
@pytest.mark.parametrize("space", [AddrSpace.LOCAL, AddrSpace.REG])
def test_row_kept_in_the_kernel(ren, space):
    """A row is computed once, reduced, and read again."""

    class Kept:
        addrspace = space

    axes = Axes()
    i = axes(3)
    j, fill = axes.split(16, 8, AxisType.LOOP, UPCAST)
    k = axes(16, REDUCE)
    j2, read = axes.split(16, 8, AxisType.LOOP, UPCAST)
    out, a = buffer(0, 48), buffer(1, 48)
    lane = UOp.range(16, 99)
    row = (a.index(i * 16 + lane) * 2.0).bufferize(lane, arg=Kept)
    total = row.index(k, dtype=dtypes.float32).reduce(k, arg=Ops.ADD)
    value = row.index(j2, dtype=dtypes.float32) + total
    sink = out.index(i * 16 + j2, ptr=True).store(value).end(i, *read).sink()
    data, got = floats(3, 16), np.zeros((3, 16), np.float32)
    run(sink, ren, got.reshape(-1), data.reshape(-1))
    np.testing.assert_array_equal(got, data * 2 + (data * 2).sum(1, keepdims=True))


def test_loop_that_is_never_ended():
    i = UOp.range(4, 0)
    sink = buffer(0, 4).index(i, ptr=True).store(UOp.const(dtypes.float32, 1.0)).sink()
    with pytest.raises(RuntimeError, match="never ended"):
        instructions(sink, ScalarTarget())


def test_launch_of_idx_on_request():
    i = UOp.range(8, 0, AxisType.GLOBAL)
    sink = buffer(0, 8).index(i, ptr=True).store(UOp.const(dtypes.float32, 1.0)).end(i)
    lines = instructions(sink.sink(arg=KernelInfo(dont_use_locals=True)), GroupTarget())
    assert [u.arg for u in lines if u.op is Ops.SPECIAL] == ["idx0"]


def test_two_lowerings_give_the_same_node():
    i = UOp.range(8, 0)
    sink = buffer(0, 8).index(i, ptr=True).store(i.cast(dtypes.float32)).end(i).sink()
    assert instructions(sink, ScalarTarget()) == instructions(sink, ScalarTarget())


@targets
def test_every_lane_keeps_a_row_of_its_own(ren):
    """A kept value inside an upcast axis, over an axis that was split."""

    class Kept:
        addrspace = AddrSpace.LOCAL

    axes = Axes()
    row, rows = axes.split(8, 4, AxisType.LOOP, UPCAST)
    col, columns = axes.split(16, 8, AxisType.LOOP, UPCAST)
    k = axes(16, REDUCE)
    out, a = buffer(0, 8), buffer(1, 128)
    kept = UOp(Ops.BUFFERIZE, dtypes.float32, (a.index(row * 16 + col) * 3.0, col), Kept)
    total = UOp(Ops.INDEX, dtypes.float32, (kept, k)).reduce(k, arg=Ops.ADD)
    sink = out.index(row, ptr=True).store(total).end(*rows).sink()
    data, got = floats(8, 16), np.zeros(8, np.float32)
    run(sink, ren, got, data.reshape(-1))
    np.testing.assert_array_equal(got, data.sum(1) * 3)
