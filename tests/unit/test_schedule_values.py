"""What schedules compute: hand-built graphs through the scheduler, kernels run by NumPy."""

import gc

import numpy as np
import pytest
from tests.unit.schedule_oracle import numpy_dtype, run_kernel

from tinygrad.dtype import dtypes
from tinygrad.helpers import Context
from tinygrad.schedule.rangeify import get_rangeify_map
from tinygrad.uop.ops import Ops, UOp


class Machine:
    """Buffers with random contents; runs what the scheduler returns and reads results back."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.memory: dict[UOp, np.ndarray] = {}
        self.kernels = 0

    def tensor(self, *shape, dtype=dtypes.float) -> UOp:
        buffer = UOp.new_buffer("CPU", int(np.prod(shape)), dtype)
        if dtype == dtypes.float:
            data = self.random.standard_normal(buffer.arg).astype(np.float32)
        else:
            data = self.random.integers(0, 10, buffer.arg).astype(numpy_dtype(dtype))
        self.memory[buffer] = data
        return buffer.reshape(shape)

    def read(self, u: UOp) -> np.ndarray:
        return self.memory[u.base].reshape(u.shape).copy()

    def _of(self, u: UOp) -> np.ndarray:
        buffer = u.buf_uop
        if buffer not in self.memory:
            self.memory[buffer] = np.full(buffer.arg, 77).astype(numpy_dtype(buffer.dtype))
        return self.memory[buffer]

    def run(self, *outputs: UOp, **variables) -> list[UOp]:
        """The outputs as they are after their kernels ran."""
        sink = UOp.sink(*outputs)
        with Context(SPEC=2):
            done = sink.substitute(get_rangeify_map(sink))
        self.kernels = 0
        for kernel in done.toposort():
            if kernel.op is Ops.KERNEL:
                self.kernels += 1
                memory = [self._of(s) for s in kernel.src if s.op is not Ops.BIND]
                bound = {s.expr: s.val for s in kernel.src if s.op is Ops.BIND}
                run_kernel(kernel.arg.ast, memory, {**variables, **bound})
        ran = {u: u.buf_uop for u in done.toposort() if u.op is Ops.AFTER}
        self.asts = [u.arg.ast for u in done.toposort() if u.op is Ops.KERNEL]
        return list(done.substitute(ran).src)

    def value(self, u: UOp) -> np.ndarray:
        """The elements of an output, through its views."""
        again = self.run(u.contiguous())[0]
        return self._of(again).reshape(again.shape)


def check(machine: Machine, output: UOp, expected: np.ndarray, kernels: int):
    (done,) = machine.run(output)
    assert machine.kernels == kernels
    np.testing.assert_allclose(machine.value(done), expected, rtol=1e-4, atol=1e-5)


def total(u: UOp, *axes) -> UOp:
    summed = u.r(Ops.ADD, axes)
    return summed.reshape(tuple(s for a, s in enumerate(u.shape) if a not in axes))


def constant(shape, value, dtype=dtypes.float) -> UOp:
    return UOp.const(dtype, value, device="CPU", shape=shape)


def arange(n: int) -> UOp:
    """As tensors build it: a running sum of ones by pad, repeat and shrink."""
    ones = constant((n,), 1, dtypes.int).pad(((n - 1, 0),))
    size = 2 * n - 1
    rows = ones.reshape((1, size)).expand((n + 1, size)).reshape(((n + 1) * size,))
    windows = rows.shrink(((0, n * (size + 1)),)).reshape((n, size + 1)).shrink(((0, n), (0, n)))
    return total(windows, 1) + constant((n,), -1, dtypes.int)


def test_elementwise_is_one_kernel():
    m = Machine()
    a, b, c = m.tensor(4, 3), m.tensor(4, 3), m.tensor(3, 4)
    out = (a + b).permute((1, 0)) * c
    check(m, out, (m.read(a) + m.read(b)).T * m.read(c), 1)


def test_reduce_of_elementwise_is_one_kernel():
    m = Machine()
    a, b = m.tensor(5, 7), m.tensor(5, 7)
    check(m, total(a * b, 1) + 1, (m.read(a) * m.read(b)).sum(1) + 1, 1)


def test_reduce_read_by_an_expand_is_stored():
    m = Machine()
    a = m.tensor(4, 6)
    out = a - a.r(Ops.ADD, (1,)).expand((4, 6))
    check(m, out, m.read(a) - m.read(a).sum(1, keepdims=True), 2)


def test_two_reductions_over_different_axes_share_a_kernel():
    m = Machine()
    a = m.tensor(6, 6)
    check(m, total(a, 0) + total(a, 1), m.read(a).sum(0) + m.read(a).sum(1), 1)


def test_softmax_is_three_kernels():
    m = Machine()
    a = m.tensor(4, 6)
    shifted = a - a.r(Ops.MAX, (1,)).expand((4, 6))
    grown = shifted.alu(Ops.EXP2)
    out = grown * grown.r(Ops.ADD, (1,)).reciprocal().expand((4, 6))
    value = np.exp2(m.read(a) - m.read(a).max(1, keepdims=True))
    check(m, out, value / value.sum(1, keepdims=True), 3)


def test_padding_reads_nothing():
    m = Machine()
    a = m.tensor(3, 3)
    out = a.pad(((1, 2), (0, 1))) + 1
    check(m, out, np.pad(m.read(a), ((1, 2), (0, 1))) + 1, 1)


def test_padding_after_arithmetic_is_zero():
    m = Machine()
    a = m.tensor(3, 3)
    out = (a + 5).pad(((1, 0), (0, 1))).r(Ops.ADD, (0,)) * 2
    check(m, out, np.pad(m.read(a) + 5, ((1, 0), (0, 1))).sum(0, keepdims=True) * 2, 1)


@pytest.mark.parametrize("shape", [(12,), (2, 6), (6, 2), (3, 4), (2, 3, 2), (1, 12, 1)])
def test_reshapes(shape):
    m = Machine()
    a = m.tensor(3, 4)
    b = m.tensor(*shape)
    value = m.read(a).T.reshape(shape) + m.read(b)
    check(m, a.permute((1, 0)).reshape(shape) + b, value, 1)


def test_shrink_and_flip():
    m = Machine()
    a = m.tensor(5, 6)
    out = a.shrink(((1, 4), (2, 6))).flip(0) * 2
    check(m, out, m.read(a)[1:4, 2:6][::-1] * 2, 1)


def test_arange_needs_no_loop():
    m = Machine()
    (done,) = m.run(arange(10))
    assert len(m.asts) == 1
    assert not any(u.op is Ops.REDUCE for u in m.asts[0].toposort())
    np.testing.assert_equal(m.value(done), np.arange(10))


def test_arange_is_part_of_its_reader():
    m = Machine()
    a = m.tensor(10, dtype=dtypes.int)
    check(m, total(arange(10) * a, 0), (np.arange(10) * m.read(a)).sum(), 1)


def test_indexing_with_a_tensor_reads_only_what_it_needs():
    m = Machine()
    table, wanted = m.tensor(20, 4), m.tensor(6, dtype=dtypes.int)
    m.memory[wanted.base][:2] = (-3, 25)
    where = arange(20).reshape((1, 20, 1)).expand((6, 20, 4))
    same = where.ne(wanted.reshape((6, 1, 1)).expand((6, 20, 4))).logical_not()
    picked = same.where(table.reshape((1, 20, 4)).expand((6, 20, 4)), constant((6, 20, 4), 0))
    out = total(picked, 1)
    (done,) = m.run(out)
    assert len(m.asts) == 1
    assert not any(u.op is Ops.REDUCE for u in m.asts[0].toposort())
    rows = m.read(wanted)
    expected = np.stack([m.read(table)[r] if 0 <= r < 20 else np.zeros(4) for r in rows])
    np.testing.assert_allclose(m.value(done), expected)


def test_constant_results_run_nothing():
    m = Machine()
    a = m.tensor(4, dtype=dtypes.int)
    (done,) = m.run(a * 0)
    assert m.kernels == 0
    assert done.base.op is Ops.CONST and done.shape == (4,)


def test_a_constant_is_stored_on_demand():
    m = Machine()
    check(m, constant((3, 2), 4.0).contiguous(), np.full((3, 2), 4.0), 1)


def test_empty_tensors():
    m = Machine()
    a = m.tensor(4, 0)
    (done,) = m.run(total(a, 1))
    assert m.kernels == 0 and done.base.op is Ops.CONST and done.base.arg == 0


def test_assign_in_place():
    m = Machine()
    a = m.tensor(4, 4)
    before = m.read(a)
    m.run(a.assign(a + 1))
    assert m.kernels == 1
    np.testing.assert_allclose(m.read(a), before + 1)


def test_assign_that_reads_elsewhere_goes_through_a_copy():
    m = Machine()
    a = m.tensor(4, 4)
    before = m.read(a)
    m.run(a.assign(a + a.permute((1, 0))))
    assert m.kernels == 2
    np.testing.assert_allclose(m.read(a), before + before.T)


def test_assign_to_a_view():
    m = Machine()
    a, b = m.tensor(4, 4), m.tensor(2, 2)
    before = m.read(a)
    m.run(a.shrink(((1, 3), (2, 4))).assign(b * 2))
    before[1:3, 2:4] = m.read(b) * 2
    np.testing.assert_allclose(m.read(a), before)


def test_assigns_in_a_row_see_each_other():
    m = Machine()
    a = m.tensor(4)
    before = m.read(a)
    first = a.assign(a + 1)
    m.run(first.assign(first * 2))
    np.testing.assert_allclose(m.read(a), (before + 1) * 2)


def test_a_plain_copy_of_what_is_overwritten_is_a_copy():
    m = Machine()
    a, b = m.tensor(4), m.tensor(4)
    before = m.read(a)
    old, _ = m.run(a * 1, a.assign(b))
    np.testing.assert_allclose(m.value(old), before)


def test_readers_of_the_old_value_come_first():
    m = Machine()
    a, b = m.tensor(4), m.tensor(4)
    before = m.read(a)
    old, new = m.run(a + b, a.assign(b))
    np.testing.assert_allclose(m.value(old), before + m.read(b))
    np.testing.assert_allclose(m.read(a), m.read(b))


def test_a_reader_of_both_values_gets_a_copy_of_the_old():
    m = Machine()
    a, b = m.tensor(4), m.tensor(4)
    before = m.read(a)
    (done,) = m.run(a.flip(0) + a.assign(b))
    np.testing.assert_allclose(m.value(done), before[::-1] + m.read(b))


def test_variables_in_shapes():
    m = Machine()
    a = m.tensor(3, 10)
    size = UOp.variable("n", 1, 10).bind(4)
    view = a.shrink(((0, 3), (0, size)))
    (done,) = m.run(view + 1, n=4)
    stored = m.memory[done.buf_uop].reshape(3, 10)
    np.testing.assert_allclose(stored[:, :4], m.read(a)[:, :4] + 1)


def test_long_reductions_run_in_two_steps():
    m = Machine()
    a = m.tensor(65536, dtype=dtypes.int)
    check(m, total(a, 0), m.read(a).sum(), 2)


def test_deep_graphs():
    m = Machine()
    a = m.tensor(4)
    u = a
    for _ in range(10000):
        u = u + a
    m.run(u)
    assert m.kernels == 1


def test_doubling_graphs_stay_small():
    m = Machine()
    a = m.tensor(8)
    u, value = a, m.read(a)
    for _ in range(40):
        u, value = (u + u.flip(0)) * 0.5, (value + value[::-1]) * 0.5
    (done,) = m.run(u)
    assert m.kernels < 40
    np.testing.assert_allclose(m.value(done), value, rtol=1e-4)


def test_equal_computations_are_one_ast():
    m = Machine()
    a, b = m.tensor(4, 4), m.tensor(4, 4)
    m.run(total(a, 1) + 1, total(b, 1) + 1)
    assert m.kernels == 2 and len(set(m.asts)) == 1


def test_schedules_are_repeatable():
    m = Machine()
    a = m.tensor(4, 4)
    out = total(a * a.r(Ops.ADD, (1,)).expand((4, 4)), 0)

    def asts():
        sink = UOp.sink(out)
        done = sink.substitute(get_rangeify_map(sink))
        return [u.arg.ast for u in done.toposort() if u.op is Ops.KERNEL]

    assert asts() == asts()


def test_mixed_devices_are_an_error():
    a = UOp.new_buffer("CPU", 4, dtypes.float)
    b = UOp.new_buffer("OTHER", 4, dtypes.float)
    with pytest.raises(RuntimeError, match="all buffers must be on the same device"):
        get_rangeify_map(UOp.sink(a + b))


@pytest.mark.parametrize("limit", [8, 12, 31])
def test_kernels_bind_no_more_buffers_than_the_device_can(limit, monkeypatch):
    monkeypatch.setattr("tinygrad.schedule.build.max_buffers", lambda device: limit)
    m = Machine()
    tensors = [m.tensor(4, 5) for _ in range(60)]
    out, value = tensors[0], m.read(tensors[0])
    for u in tensors[1:]:
        out, value = out + u.alu(Ops.EXP2), value + np.exp2(m.read(u))
    (done,) = m.run(total(out, 1))
    for ast in m.asts:
        assert len([u for u in ast.toposort() if u.op is Ops.DEFINE_GLOBAL]) <= limit
    np.testing.assert_allclose(m.value(done), value.sum(1), rtol=1e-4)


def test_a_schedule_leaves_no_cycles():
    m = Machine()
    a = m.tensor(4, 4)
    gc.collect()
    gc.disable()
    try:
        get_rangeify_map(UOp.sink(a - a.r(Ops.ADD, (1,)).expand((4, 4))))
        assert gc.collect() == 0
    finally:
        gc.enable()
