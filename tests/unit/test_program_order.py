"""What a tensor is worth is decided by the order of the program, whatever is computed when."""

import threading

import pytest

from tinygrad import Tensor, TinyJit, Variable, dtypes
from tinygrad.helpers import GlobalCounters


def real(*values):
    return Tensor(list(values)).contiguous().realize()


# ---- computed from memory that is written afterwards


def test_value_of_before():
    a = real(1.0, 2.0, 3.0)
    y = a + 1
    a.assign(a * 10)
    a.realize()
    assert y.tolist() == [2.0, 3.0, 4.0]
    assert a.tolist() == [10.0, 20.0, 30.0]


@pytest.mark.parametrize("read_first", [0, 1, 2])
def test_values_between_writes(read_first):
    a = real(1.0, 2.0)
    values = [a + 0.5]
    a.assign(a * 10)
    values.append(a + 0.5)
    a.assign(a + 7)
    values.append(a + 0.5)
    wants = [[1.5, 2.5], [10.5, 20.5], [17.5, 27.5]]
    order = [read_first, *[k for k in range(3) if k != read_first]]
    for k in order:
        assert values[k].tolist() == wants[k]
    assert a.tolist() == [17.0, 27.0]


def test_old_and_new_value_in_one_kernel():
    a = real(1.0, 2.0)
    y = a + 1
    a.assign(a * 10)
    assert (y + a).tolist() == [12.0, 23.0]


def test_swap():
    a, b = real(1.0, 2.0), real(3.0, 4.0)
    x, y = a + 0, b + 0
    a.assign(y)
    b.assign(x)
    Tensor.realize(a, b)
    assert (a.tolist(), b.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_reduced_before_a_setitem():
    a = real(1.0, 2.0, 3.0)
    total, part = a.sum(), a[1:] * 2
    a[1] = 5
    assert (total.item(), part.tolist(), a.tolist()) == (6.0, [4.0, 6.0], [1.0, 5.0, 3.0])


def test_clone_of_before():
    a = real(1.0, 2.0)
    b = a.clone()
    a.assign(a * 10).realize()
    assert b.tolist() == [1.0, 2.0]


def test_nobody_reads_nothing_is_copied():
    a = real(1.0, 2.0)
    a.assign(a * 10)
    GlobalCounters.reset()
    a.realize()
    assert GlobalCounters.kernel_count == 1


def test_gradient_through_a_value_of_before():
    w, v = real(2.0), real(3.0)
    v.requires_grad = True
    loss = (w * v).sum()
    w.assign(w * 10).realize()
    loss.backward()
    assert v.grad.tolist() == [2.0]


# ---- views


def test_views_show_writes():
    a = real(1.0, 2.0, 3.0, 4.0)
    part, flipped, square = a[1:3], a.flip(0), a.reshape(2, 2)
    a.assign(a * 10)
    assert part.tolist() == [20.0, 30.0]
    assert flipped.tolist() == [40.0, 30.0, 20.0, 10.0]
    assert square.tolist() == [[10.0, 20.0], [30.0, 40.0]]


def test_written_through_a_view():
    a = real(1.0, 2.0, 3.0)
    view, y = a[:2], a + 1
    view.assign(view * 10)
    z = a + 1
    assert y.tolist() == [2.0, 3.0, 4.0]
    assert z.tolist() == [11.0, 21.0, 4.0]
    assert (view.tolist(), a.tolist()) == ([10.0, 20.0], [10.0, 20.0, 3.0])


def test_views_written_in_turn():
    a = real(0.0, 1.0, 2.0, 3.0)
    a[0:2].assign(a[2:4])
    a[2:4].assign(a[0:2] * 10)
    a.assign(a + 1)
    assert a.tolist() == [3.0, 4.0, 21.0, 31.0]


def test_overlapping_views():
    a = real(0.0, 1.0, 2.0, 3.0)
    a[1:].assign(a[:-1])
    assert a.tolist() == [0.0, 0.0, 1.0, 2.0]
    a.flip(0).assign(a)
    assert a.tolist() == [2.0, 1.0, 0.0, 0.0]


def test_view_of_what_is_not_realized():
    a = Tensor.arange(3).contiguous()
    view = a[1:]
    y = view * 2
    view.assign(view + 10)
    assert (view.tolist(), a.tolist(), y.tolist()) == ([11, 12], [0, 11, 12], [2, 4])


# ---- results that are equal to what is there


@pytest.mark.parametrize("written", ["source", "result"])
@pytest.mark.parametrize(
    "same", [lambda a: a + 0, lambda a: a * 1, lambda a: a * real(2.0, 2.0) / real(2.0, 2.0)]
)
def test_equal_memory_is_parted_by_a_write(same, written):
    a = real(1.0, 2.0)
    x = same(a).realize()
    first, second = (a, x) if written == "source" else (x, a)
    first.assign(first + 5).realize()
    assert (first.tolist(), second.tolist()) == ([6.0, 7.0], [1.0, 2.0])
    second.assign(second + 1).realize()
    assert (first.tolist(), second.tolist()) == ([6.0, 7.0], [2.0, 3.0])


def test_three_of_one_memory():
    a = real(1.0, 2.0)
    x, y = (a + 0).realize(), (a * 1).realize()
    x.assign(x + 1).realize()
    assert [t.tolist() for t in (a, x, y)] == [[1.0, 2.0], [2.0, 3.0], [1.0, 2.0]]
    a.assign(a + 10).realize()
    assert [t.tolist() for t in (a, x, y)] == [[11.0, 12.0], [2.0, 3.0], [1.0, 2.0]]


def test_sharded_memory_is_parted_by_a_write():
    a = real(1.0, 2.0, 3.0, 4.0).shard(("CPU:0", "CPU:1"), 0).realize()
    x, y = (a + 0).realize(), a * 2
    a.assign(a + 5).realize()
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0])
    square = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("CPU:0", "CPU:1"), 0).realize()
    z = square + 1
    square[:, 1:].assign(square[:, :1] * 10)
    assert square.tolist() == [[1.0, 10.0], [3.0, 30.0]]
    assert z.tolist() == [[2.0, 3.0], [4.0, 5.0]]


# ---- under the JIT


def test_replay_keeps_values_of_before():
    state = real(0.0)
    step = TinyJit(lambda x: state.assign(state + x).realize())
    kept = []
    for call in range(5):
        kept.append(state * 2)
        step(real(1.0))
        assert [t.item() for t in kept[-1:]] == [2.0 * call]
    lazy = state + 100
    step(real(1.0))
    assert (lazy.item(), state.item()) == (105.0, 6.0)


def test_captured_value_of_before():
    state = real(0.0)

    @TinyJit
    def step(x):
        old = state + 0.5
        state.assign(state + x).realize()
        return old

    assert [step(real(1.0)).item() for _ in range(6)] == [k + 0.5 for k in range(6)]


def test_captured_result_equal_to_state():
    state = real(0.0)

    @TinyJit
    def step(x):
        old = (state * 1).realize()
        state.assign(state + x).realize()
        return old

    assert [step(real(1.0)).item() for _ in range(6)] == [float(k) for k in range(6)]


def test_result_equal_to_an_input_or_state():
    state = real(7.0)
    jitted = TinyJit(lambda x: ((x * 1).realize(), (state * 1).realize(), (x + 1).realize()))
    for call in range(5):
        x = real(float(call))
        same, old, more = jitted(x)
        x.assign(x + 50).realize()
        state.assign(state + 1).realize()
        assert (same.item(), old.item(), more.item()) == (call, 7.0 + call, call + 1)


def test_weight_parted_after_capture():
    w = real(2.0)
    w2 = (w * 1).realize()
    jitted = TinyJit(lambda x: (x * w2).realize())
    for call in range(6):
        assert jitted(real(3.0)).item() == 6.0
        if call == 3:
            w.assign(w * 10).realize()


# ---- leftovers and threads


def test_pending_writes_of_others_are_no_part_of_a_capture():
    cache, v = real(0.0, 0.0, 0.0), Variable("n", 0, 2)
    first, second = cache[v.bind(0)].reshape(1), cache[v.bind(1)].reshape(1)
    first.assign(real(1.0))
    second.assign(real(2.0))
    jitted = TinyJit(lambda x: (x + 1).realize())
    assert [jitted(real(float(k))).item() for k in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_writes_in_threads():
    errors = []

    def work(k):
        try:
            a = real(*[float(k)] * 4)
            for i in range(20):
                before = a * 2
                a.assign(a + 1)
                assert (before + a).tolist() == [3.0 * (k + i) + 1] * 4
                a[1:2] += 0
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_one_capture_in_several_threads():
    errors, jitted = [], TinyJit(lambda x: (x * 2 + 1).realize())

    def work():
        try:
            for k in range(20):
                jitted(real(float(k)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


# ---- sharded


DEVICES = ("CPU:0", "CPU:1")


def test_sharded_swap_and_mixture():
    a, b = (Tensor(v).shard(DEVICES, 0).realize() for v in ([1.0, 2.0], [3.0, 4.0]))
    x, y = a + 0, b + 0
    a.assign(y)
    b.assign(x)
    Tensor.realize(a, b)
    assert (a.tolist(), b.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    y = a + 1
    a.assign(a * 10)
    assert (y + a).tolist() == [34.0, 45.0]


def test_sharded_write_runs_once():
    a, b = (Tensor(v).shard(DEVICES, 0).realize() for v in ([1.0, 2.0], [3.0, 4.0]))
    a.assign(a + b)
    assert (a * 2).tolist() == [8.0, 12.0]
    assert a.tolist() == [4.0, 6.0]


def test_realized_view_of_sharded_memory_stays_a_view():
    a = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).shard(DEVICES, 0).realize()
    view, y = a[:, 2:], a + 1
    view.realize()
    view.assign(view * 10).realize()
    assert a.tolist() == [[1.0, 2.0, 30.0], [4.0, 5.0, 60.0]]
    assert y.tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]


def test_part_of_a_sharded_axis_is_refused():
    a = Tensor([1.0, 2.0, 3.0, 4.0]).shard(DEVICES, 0).realize()
    with pytest.raises(RuntimeError, match="axis 0 of length 4, which is sharded"):
        a[2:4].assign(a[2:4] * 2)
    with pytest.raises(RuntimeError, match="axis 0 of length 1 over 2 devices"):
        a[:1].clone()


# ---- equal computations


@pytest.mark.parametrize(
    "build", [lambda x: x + 1, lambda x: (x + 1).contiguous(), lambda x: x.sum(0)]
)
@pytest.mark.parametrize("together", [True, False])
def test_equal_computations_are_two_tensors(build, together):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    a, b = build(x), build(x)
    Tensor.realize(a, b) if together else a.realize()
    want = b.numpy().copy()
    a.assign(a * 10).realize()
    assert b.numpy().tolist() == want.tolist()
    assert a.numpy().tolist() == (want * 10).tolist()


def test_a_view_of_all_of_a_computation_is_a_view():
    a = real(1.0, 2.0) + 1
    b = a.reshape(2)
    a.realize()
    a.assign(a * 10).realize()
    assert b.tolist() == a.tolist() == [20.0, 30.0]


def test_written_through_a_bitcast():
    a = real(1.0, 2.0)
    y = a + 1
    a.bitcast(dtypes.uint32).assign(Tensor([0x40400000, 0x40800000], dtype=dtypes.uint32)).realize()
    assert (a.tolist(), y.tolist()) == ([3.0, 4.0], [2.0, 3.0])


def test_captured_copy_of_state_that_is_written_later():
    state = real(1.0)

    @TinyJit
    def double():
        old = state + 0
        state.assign(state + state)
        return old.realize()

    assert [double().item() for _ in range(6)] == [2.0**k for k in range(6)]


# ---------------------------------------------------------------- equal computations, views of what is yet to be computed


def test_equal_computations_are_written_apart():
    x = real(1, 2, 3, 4)
    a, b = (x + 1).contiguous(), (x + 1).contiguous()
    a[1:2].assign(Tensor([9]))
    assert (a.tolist(), b.tolist(), (x + 1).contiguous().tolist()) == (
        [2, 9, 4, 5],
        [2, 3, 4, 5],
        [2, 3, 4, 5],
    )
    a, b = x + 1, (x + 1).flip(0)
    a.realize()
    a[0] = 7
    assert (a.tolist(), b.tolist()) == ([7, 3, 4, 5], [5, 4, 3, 2])
    devices = ("CPU:0", "CPU:1")
    a, b = x.shard(devices, 0), x.shard(devices, 0)
    a.assign(a + 1)
    assert (a.tolist(), b.tolist()) == ([2, 3, 4, 5], [1, 2, 3, 4])


@pytest.mark.parametrize("first", [lambda t: t, lambda t: t.realize()])
def test_views_of_what_is_yet_to_be_computed(first):
    x = real(1, 2, 3, 4)
    y = first(x + 1)
    back, bits, cut = y.flip(0), y.bitcast("uint32"), y.detach()
    first(bits)
    y[1:3].assign(Tensor([7, 8]))
    assert (y.tolist(), back.tolist(), bits.tolist(), cut.tolist()) == (
        [2, 7, 8, 5],
        [5, 8, 7, 2],
        [2, 7, 8, 5],
        [2, 7, 8, 5],
    )
    first(cut)
    back.assign(x)
    cut[0] = 9
    assert (y.tolist(), bits.tolist(), x.tolist()) == ([9, 3, 2, 1], [9, 3, 2, 1], [1, 2, 3, 4])


def test_a_comparison_that_is_one_number_can_be_set():
    x = real(1, 2)
    y = x < x
    y[1] = True
    assert y.tolist() == [False, True]


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.abs(),
        lambda t: t.round(),
        lambda t: t.trunc(),
        lambda t: t.max(0, keepdim=True),
        lambda t: t.cummax(0),
        lambda t: t.cumprod(0),
        lambda t: t.roll(1, 0),
        lambda t: t.max_pool2d((1, 1)),
    ],
)
def test_results_are_no_views_of_operands(function):
    """Where there is nothing to compute, the result is a value all the same."""
    x = real([[[3, 4]]]).cast("uint32").contiguous().realize()
    y = function(x)
    x.assign(x + 1)
    assert (x.tolist(), y.tolist()) == ([[[[4, 5]]]], [[[[3, 4]]]])
    y.assign(y + 5)
    assert (x.tolist(), y.tolist()) == ([[[[4, 5]]]], [[[[8, 9]]]])


def test_results_of_no_axes_are_no_views():
    x = Tensor(3).contiguous().realize()
    y, z = x.max(), x.cumsum(0)
    x.assign(x + 1)
    assert (x.item(), y.item(), z.item()) == (4, 3, 3)


def test_writes_through_a_reshape_leave_no_trace():
    """The graph of a state that is written through a view is as large after many writes as after one."""
    x = real(2, 3)
    sizes = []
    for _ in range(6):
        flat = x.reshape(2, 1)
        flat += 1
        x.realize()
        sizes.append(len(x.uop.toposort()))
    assert x.tolist() == [8, 9]
    assert len(set(sizes[1:])) == 1


def test_a_pruned_capture_keeps_what_it_computed_once():
    """Two lists of positions are made once; neither may lie where the other is needed again."""
    jitted = TinyJit(lambda x: ((y := x[[-1, 2, 0]]), y[[2]]), prune=True)
    for k in range(5):
        y, z = jitted(real(k, 6, 3, 5 + k))
        assert (y.tolist(), z.tolist()) == ([5 + k, 3, k], [k])


def test_a_pruned_capture_repeats_what_a_variable_decides():
    """A kernel of captured memory alone gives the same in every call, unless it is cut at a variable."""
    state = real(1, 2, 3, 4)
    jitted = TinyJit(lambda x, n: (x + 1, state[:n].sum()), prune=True)
    for n in (1, 3, 4, 2):
        x, total = jitted(real(n), Variable("n", 1, 4).bind(n))
        assert (x.tolist(), total.item()) == ([n + 1], n * (n + 1) // 2)


@pytest.mark.parametrize(
    "view", [lambda t: t.reshape(1, 2), lambda t: t.flip(0), lambda t: t[1:], lambda t: t[None]]
)
def test_writes_through_a_view_of_a_bitcast(view):
    x = real(1, 1)
    part = view(x.bitcast("uint32"))
    part.assign(part + 4)
    assert x.tolist() == [1 if part.numel() == 1 else 5, 5]
    bits = x.bitcast("uint32")
    bits[None] = 7
    assert x.tolist() == [7, 7]
