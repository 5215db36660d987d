"""The expansion to lanes gives the values of the scalar loops, for every target width."""

import numpy as np
import pytest

from tinygrad.dtype import PtrDType, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

from .kernels import (
    LOOP,
    REDUCE,
    TARGETS,
    UNROLL,
    UPCAST,
    Axes,
    Float4Target,
    ScalarTarget,
    WideTarget,
    buffer,
    floats,
    run,
)

targets = pytest.mark.parametrize("ren", TARGETS, ids=lambda t: type(t).__name__)


def elementwise(size, lanes):
    axes = Axes()
    i, ranges = axes.split(size, lanes, LOOP, UPCAST)
    out, a, b = (buffer(s, size) for s in range(3))
    value = a.index(i) * b.index(i) + 1.0
    return out.index(i, ptr=True).store(value).end(*ranges).sink()


@targets
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 12, 24])
def test_elementwise(ren, lanes):
    a, b, out = floats(48), floats(48, seed=1), np.zeros(48, np.float32)
    run(elementwise(48, lanes), ren, out, a, b)
    np.testing.assert_array_equal(out, a * b + 1)


def matmul(m, n, k, ti, tj, tk):
    axes = Axes()
    i, ri = axes.split(m, ti, LOOP, UPCAST)
    j, rj = axes.split(n, tj, LOOP, UPCAST)
    kk, rk = axes.split(k, tk, REDUCE, UNROLL)
    out, a, b = buffer(0, m * n), buffer(1, m * k), buffer(2, k * n)
    product = a.index(i * k + kk) * b.index(kk * n + j)
    total = product.reduce(*rk, arg=Ops.ADD)
    return out.index(i * n + j, ptr=True).store(total).end(*ri, *rj).sink()


@targets
@pytest.mark.parametrize(
    "tile", [(1, 1, 1), (2, 4, 1), (1, 8, 2), (6, 24, 1), (3, 12, 5), (6, 1, 10)]
)
def test_matmul(ren, tile):
    m, n, k = 6, 24, 10
    a, b, out = floats(m, k), floats(k, n, seed=1), np.zeros((m, n), np.float32)
    run(matmul(m, n, k, *tile), ren, out.reshape(-1), a.reshape(-1), b.reshape(-1))
    np.testing.assert_array_equal(out, a @ b)


def test_matmul_tile_keeps_vectors_whole():
    lines = run(
        matmul(6, 64, 8, 6, 64, 1),
        WideTarget(),
        np.zeros(6 * 64, np.float32),
        np.zeros(48, np.float32),
        np.zeros(8 * 64, np.float32),
    )
    start = next(i for i, u in enumerate(lines) if u.op is Ops.RANGE)
    stop = next(i for i, u in enumerate(lines) if u.op is Ops.END)
    loads = [
        u
        for u in lines[start:stop]
        if u.op is Ops.LOAD and u.src[0].dtype.addrspace.name == "GLOBAL"
    ]
    # one row of B as a vector, six elements of A
    assert sorted(u.dtype.count for u in loads) == [1] * 6 + [64]
    multiplies = [u for u in lines[start:stop] if u.op is Ops.MUL and u.dtype.count > 1]
    assert len(multiplies) == 6


@targets
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MUL])
@pytest.mark.parametrize("lanes", [1, 4, 16, 20])
def test_reduce_over_lanes(ren, op, lanes):
    axes = Axes()
    i = axes(3)
    k, rk = axes.split(80, lanes, REDUCE, UNROLL)
    out, a = buffer(0, 3), buffer(1, 240)
    sink = out.index(i, ptr=True).store(a.index(i * 80 + k).reduce(*rk, arg=op)).end(i).sink()
    data, got = floats(3, 80), np.zeros(3, np.float32)
    if op is Ops.MUL:
        data = np.where(data > 0, np.float32(1), np.float32(-1))
    run(sink, ren, got, data.reshape(-1))
    want = {Ops.ADD: data.sum(1), Ops.MAX: data.max(1), Ops.MUL: data.prod(1)}[op]
    np.testing.assert_array_equal(got, want)


@targets
def test_transpose_and_reverse(ren):
    axes = Axes()
    i, ri = axes.split(8, 4, LOOP, UPCAST)
    j, rj = axes.split(8, 8, LOOP, UPCAST)
    out, a = buffer(0, 64), buffer(1, 64)
    value = a.index(j * 8 + i) + a.index(i * 8 + (7 - j))
    sink = out.index(i * 8 + j, ptr=True).store(value).end(*ri, *rj).sink()
    data, got = floats(8, 8), np.zeros((8, 8), np.float32)
    run(sink, ren, got.reshape(-1), data.reshape(-1))
    np.testing.assert_array_equal(got, data.T + data[:, ::-1])


@targets
@pytest.mark.parametrize("lanes", [4, 16])
def test_padded_read_and_gated_store(ren, lanes):
    axes = Axes()
    i, ranges = axes.split(16, lanes, LOOP, UPCAST)
    out, a = buffer(0, 16), buffer(1, 10)
    inside = (i >= 3) & (i < 13)
    value = a.index((i - 3).valid(inside)) + 2.0
    sink = out.index(i.valid(i < 15), ptr=True).store(value).end(*ranges).sink()
    data, got = floats(10), np.full(16, -9, np.float32)
    run(sink, ren, got, data)
    want = np.pad(data, 3) + 2
    want[15] = -9
    np.testing.assert_array_equal(got, want)


@targets
def test_gather_through_loaded_index(ren):
    axes = Axes()
    i, ranges = axes.split(12, 4, LOOP, UPCAST)
    out, a, at = buffer(0, 12), buffer(1, 20), buffer(2, 12, dtypes.int32)
    value = a.index(at.index(i).cast(dtypes.index))
    sink = out.index(i, ptr=True).store(value).end(*ranges).sink()
    data, where = floats(20), np.random.default_rng(2).integers(0, 20, 12).astype(np.int32)
    got = np.zeros(12, np.float32)
    run(sink, ren, got, data, where)
    np.testing.assert_array_equal(got, data[where])


@targets
def test_pieces_of_neighbours(ren):
    """Lanes whose addresses are neighbours in pieces only."""
    axes = Axes()
    i, ranges = axes.split(32, 16, LOOP, UPCAST)
    out, a = buffer(0, 32), buffer(1, 64)
    value = a.index((i // 4) * 8 + i % 4)
    sink = out.index(i, ptr=True).store(value).end(*ranges).sink()
    data, got = floats(64), np.zeros(32, np.float32)
    run(sink, ren, got, data)
    np.testing.assert_array_equal(got, data.reshape(8, 8)[:, :4].reshape(-1))


@targets
def test_range_as_data(ren):
    axes = Axes()
    i, ranges = axes.split(24, 8, LOOP, UPCAST)
    out = buffer(0, 24, dtypes.int32)
    sink = out.index(i, ptr=True).store((i * i).cast(dtypes.int32)).end(*ranges).sink()
    got = np.zeros(24, np.int32)
    run(sink, ren, got)
    np.testing.assert_array_equal(got, np.arange(24) ** 2)


@targets
def test_lanes_that_share_an_address_leave_the_last(ren):
    axes = Axes()
    i, ranges = axes.split(16, 4, LOOP, UPCAST)
    out, a = buffer(0, 4), buffer(1, 16)
    sink = out.index(ranges[0], ptr=True).store(a.index(i)).end(*ranges).sink()
    data, got = floats(16), np.zeros(4, np.float32)
    run(sink, ren, got, data)
    np.testing.assert_array_equal(got, data[3::4])


@targets
def test_reduce_does_not_depend_on_its_axis(ren):
    axes = Axes()
    i = axes(4)
    k, rk = axes.split(6, 3, REDUCE, UNROLL)
    out, a = buffer(0, 4), buffer(1, 4)
    sink = out.index(i, ptr=True).store(a.index(i).reduce(*rk, arg=Ops.ADD)).end(i).sink()
    data, got = floats(4), np.zeros(4, np.float32)
    run(sink, ren, got, data)
    np.testing.assert_array_equal(got, data * 6)


def test_scalar_target_has_no_vectors():
    arrays = [np.zeros(48, np.float32) for _ in range(3)]
    lines = run(elementwise(48, 8), ScalarTarget(), *arrays)
    assert all(u.dtype.count == 1 for u in lines if not isinstance(u.dtype, PtrDType))


def test_float4_target_loads_four_at_a_time():
    arrays = [np.zeros(48, np.float32) for _ in range(3)]
    lines = run(elementwise(48, 8), Float4Target(), *arrays)
    assert {u.dtype.count for u in lines if u.op is Ops.LOAD} == {4}
    assert all(u.dtype.count == 1 for u in lines if u.op in (Ops.ADD, Ops.MUL))


def test_symbolic_size_cannot_be_a_lane_axis():
    n = UOp.variable("n", 1, 8)
    i = UOp.range(n, 0, UPCAST)
    sink = buffer(0, 8).index(i, ptr=True).store(UOp.const(dtypes.float32, 1.0)).end(i).sink()
    with pytest.raises(RuntimeError, match="constant sizes"):
        run(sink, WideTarget(), np.zeros(8, np.float32), n=3)


@pytest.mark.parametrize("ren", TARGETS[2:], ids=lambda t: type(t).__name__)
def test_square_transpose_uses_shuffles(ren):
    axes = Axes()
    i, ri = axes.split(32, 16, LOOP, UPCAST)
    j, rj = axes.split(48, 16, LOOP, UPCAST)
    out, a = buffer(0, 32 * 48), buffer(1, 32 * 48)
    sink = out.index(i * 48 + j, ptr=True).store(a.index(j * 32 + i)).end(*ri, *rj).sink()
    data, got = floats(48, 32), np.zeros((32, 48), np.float32)
    lines = run(sink, ren, got.reshape(-1), data.reshape(-1))
    np.testing.assert_array_equal(got, data.T)
    assert all(u.dtype.count > 1 for u in lines if u.op is Ops.LOAD)


@targets
def test_transposed_operand_of_a_product(ren):
    """A @ B.T with lanes over the rows of B, the reduction unrolled."""
    m, n, k = 4, 16, 32
    axes = Axes()
    i, ri = axes.split(m, 2, LOOP, UPCAST)
    j, rj = axes.split(n, 16, LOOP, UPCAST)
    kk, rk = axes.split(k, 8, REDUCE, UNROLL)
    out, a, b = buffer(0, m * n), buffer(1, m * k), buffer(2, n * k)
    total = (a.index(i * k + kk) * b.index(j * k + kk)).reduce(*rk, arg=Ops.ADD)
    sink = out.index(i * n + j, ptr=True).store(total).end(*ri, *rj).sink()
    x, y, got = floats(m, k), floats(n, k, seed=1), np.zeros((m, n), np.float32)
    run(sink, ren, got.reshape(-1), x.reshape(-1), y.reshape(-1))
    np.testing.assert_array_equal(got, x @ y.T)


@targets
@pytest.mark.parametrize("step", [2, 3, 4])
def test_strided_lanes(ren, step):
    axes = Axes()
    i, ranges = axes.split(64, 32, LOOP, UPCAST)
    # the buffer ends with the last element that is read
    out, a = buffer(0, 64), buffer(1, 63 * step + 1)
    sink = out.index(i, ptr=True).store(a.index(i * step)).end(*ranges).sink()
    data, got = floats(63 * step + 1), np.zeros(64, np.float32)
    lines = run(sink, ren, got, data)
    np.testing.assert_array_equal(got, data[::step])
    if step != 3 and isinstance(ren, WideTarget):
        assert all(u.dtype.count > 1 for u in lines if u.op is Ops.LOAD)
