"""TinyJit against eager execution: right on every call, or a JitError that says what to do."""

import copy
import gc
import pickle
import warnings
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, Variable, dtypes, nn
from tinygrad.engine.jit import JitError
from tinygrad.helpers import Context, GlobalCounters

CALLS = 5


def real(*values, dtype=dtypes.float32):
    return Tensor(list(values), dtype=dtype).contiguous().realize()


def compare(function, make_args, calls=CALLS):
    """Runs a pure function eagerly and jitted on fresh arguments; results must agree on each call."""
    jitted = TinyJit(function)
    for call in range(calls):
        args = make_args(call)
        want = [t.numpy() for t in as_list(function(*args))]
        got = [t.numpy() for t in as_list(jitted(*make_args(call)))]
        for w, g in zip(want, got, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=f"call {call}")
    return jitted


def as_list(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


# ---- inputs


def test_containers_of_inputs():
    @dataclass
    class Batch:
        x: Tensor
        y: Tensor

    Pair = namedtuple("Pair", "left right")

    def f(batch, pair, extra):
        return batch.x * 2 + batch.y + pair.left - pair.right + extra["a"]["b"]

    def args(call):
        a, b, c, d, e = (real(call + k, 2.0 * k) for k in range(5))
        return Batch(a, b), Pair(c, d), {"a": {"b": e}}

    compare(f, args)


def test_keywords_and_positions_mix():
    jitted = TinyJit(lambda a, b=None: a - b)
    calls = [
        lambda a, b: jitted(a, b),
        lambda a, b: jitted(a, b=b),
        lambda a, b: jitted(b=b, a=a),
        lambda a, b: jitted(a=a, b=b),
    ]
    for round_, call in enumerate(calls * 2):
        assert call(real(7.0 + round_), real(1.0)).item() == 6.0 + round_


def test_unrealized_inputs():
    compare(lambda x: x + 1, lambda call: (Tensor.ones(4).contiguous() * call,))


def test_constant_inputs_that_change():
    compare(lambda x, c: x + c, lambda call: (real(1.0, 2.0), Tensor(float(call))))
    compare(lambda x, c: x + c, lambda call: (real(1.0, 2.0), Tensor.full((2,), call)))


def test_same_buffer_twice_is_an_error():
    jitted = TinyJit(lambda a, b: a + b)
    x = real(1.0, 2.0, 3.0, 4.0)
    with pytest.raises(JitError, match="arguments a and b share one buffer"):
        jitted(x, x)
    with pytest.raises(JitError, match="share one buffer"):
        jitted(x[:2], x[2:])


@pytest.mark.parametrize(
    "bad", [lambda: real(1.0, 2.0, 3.0), lambda: real(1, 2, dtype=dtypes.int32)]
)
def test_another_shape_or_dtype_is_an_error(bad):
    jitted = TinyJit(lambda x: x + 1)
    for _ in range(3):
        jitted(real(1.0, 2.0))
    with pytest.raises(JitError, match="argument x was captured as"):
        jitted(bad())
    assert jitted(real(5.0, 6.0)).tolist() == [6.0, 7.0]


def test_another_view_is_an_error():
    jitted = TinyJit(lambda x: x + 1)
    for _ in range(3):
        jitted(real(*range(12)).reshape(3, 4).permute(1, 0))
    with pytest.raises(JitError, match="argument x"):
        jitted(real(*range(12)).reshape(4, 3))


def test_equal_views_written_differently():
    jitted = TinyJit(lambda x: x * 2)
    for call in range(4):
        x = real(*range(12))
        x = x.reshape(12).reshape(3, 4) if call % 2 else x.reshape(2, 6).reshape(3, 4)
        np.testing.assert_array_equal(jitted(x).numpy(), np.arange(12).reshape(3, 4) * 2)


def test_views_of_inputs():
    def f(x):
        return x[2:4] + 1, x[:2].sum()

    compare(f, lambda call: (real(*[float(call + k) for k in range(4)]),))


def test_bound_variables():
    def f(x, v):
        return x[:v].sum()

    def args(call):
        return real(1.0, 2.0, 4.0, 8.0, 16.0), Variable("v", 1, 5).bind(call + 1)

    compare(f, args)


def test_symbolic_shape_brings_its_variable():
    jitted = TinyJit(lambda x: (x * 3).sum().realize())
    for n in range(1, 6):
        x = real(*[1.0] * 8)[: Variable("n", 1, 8).bind(n)]
        assert jitted(x).item() == 3.0 * n


def test_variable_from_nowhere_is_an_error():
    x = real(1.0, 2.0, 3.0)
    state = {"n": 1}
    jitted = TinyJit(lambda y: (x[: Variable("n", 1, 3).bind(state["n"])].sum() + y).realize())
    jitted(real(1.0))
    with pytest.raises(JitError, match="variable n .* no argument brings its value"):
        jitted(real(1.0))


# ---- outputs


def test_result_fed_back():
    jitted = TinyJit(lambda x: ((x + 1).contiguous() * 2).realize())
    r, want = real(1.0), 1.0
    for _ in range(7):
        r, want = jitted(r), (want + 1) * 2
        assert r.item() == want


def test_two_results_fed_back_crosswise():
    jitted = TinyJit(lambda a, b: ((a + b).realize(), (a - b).realize()))
    a, b, x, y = real(3.0), real(1.0), 3.0, 1.0
    for _ in range(7):
        a, b = jitted(b, a)
        x, y = y + x, y - x
        assert (a.item(), b.item()) == (x, y)


def test_result_is_an_input():
    jitted = TinyJit(lambda x, y: (x, (x + y).realize()))
    for call in range(CALLS):
        x, y = real(float(call)), real(10.0)
        first, second = jitted(x, y)
        assert (first.item(), second.item()) == (call, call + 10)


def test_result_is_a_view_of_an_input():
    jitted = TinyJit(lambda x: (x.reshape(2, 2), x[1:3], (x + 1).realize()))
    for call in range(CALLS):
        x = real(*[float(call + k) for k in range(4)])
        whole, part, more = jitted(x)
        np.testing.assert_array_equal(whole.numpy(), np.arange(4).reshape(2, 2) + call)
        np.testing.assert_array_equal(part.numpy(), np.arange(1, 3) + call)
        np.testing.assert_array_equal(more.numpy(), np.arange(1, 5) + call)


def test_results_are_new_objects():
    jitted = TinyJit(lambda x: (x + 1).realize())
    seen = []
    for call in range(4):
        out = jitted(real(float(call)))
        assert out.item() == call + 1
        out += 100  # what is done to a result must not reach the next call
        assert out.item() == call + 101
        seen.append(out)
    assert len({id(t) for t in seen}) == 4


def test_containers_of_results():
    jitted = TinyJit(lambda x: {"a": [x + 1, (x * 2, "text")], "n": None})
    for call in range(4):
        out = jitted(real(float(call)))
        assert out["a"][0].item() == call + 1
        assert out["a"][1][0].item() == call * 2
        assert out["a"][1][1] == "text" and out["n"] is None


# ---- state


def test_assign_to_an_input():
    w = real(0.0, 0.0)

    @TinyJit
    def step(w):
        loss = ((w - 1) * (w - 1)).sum()
        w.assign(w + 0.25)
        return loss

    for call in range(6):
        step(w)
        assert w.tolist() == [0.25 * (call + 1)] * 2


def test_pending_assign_of_the_surroundings():
    total = real(0.0)

    @TinyJit
    def add(x):
        total.assign(total + x)
        return (x * 2).realize()

    for call in range(6):
        add(real(1.0))
        assert total.item() == call + 1
        if call == 3:
            total.assign(Tensor([100.0])).realize()
            total.assign(total - 96.0)  # pending when the next call starts


def test_surroundings_replaced():
    w = real(2.0)
    jitted = TinyJit(lambda x: (x * w).realize())
    for _ in range(3):
        assert jitted(real(3.0)).item() == 6.0
    w.replace(real(5.0))
    for _ in range(3):
        assert jitted(real(3.0)).item() == 15.0


def test_cache_with_a_position():
    cache = Tensor.zeros(8).contiguous().realize()

    @TinyJit
    def f(x, p):
        cache[p : p + 1].assign(x).realize()
        return cache[: p + 1].sum().realize()

    got = [f(real(i + 1.0), Variable("p", 0, 7).bind(i)).item() for i in range(6)]
    assert got == [1.0, 3.0, 6.0, 10.0, 15.0, 21.0]


def test_training_step():
    def train(jit):
        w = Tensor([1.0, -1.0], requires_grad=True).contiguous().realize()
        optimizer = nn.optim.SGD([w], lr=0.1)

        def step(x):
            with Tensor.train():
                optimizer.zero_grad()
                loss = ((w * x - 1) * (w * x - 1)).sum().backward()
                optimizer.step()
                return loss

        run = TinyJit(step) if jit else step
        losses = [run(real(1.0, float(i))).item() for i in range(6)]
        return losses, w.tolist()

    eager, jitted = train(False), train(True)
    np.testing.assert_allclose(jitted[0], eager[0], rtol=1e-5)
    np.testing.assert_allclose(jitted[1], eager[1], rtol=1e-5)


def test_random_numbers_differ():
    jitted = TinyJit(lambda x: (x + Tensor.rand(4)).realize())
    seen = {tuple(jitted(real(0.0, 0.0, 0.0, 0.0)).tolist()) for _ in range(6)}
    assert len(seen) == 6


def test_pruned_random_numbers_differ():
    weights = real(1.0, 2.0)
    jitted = TinyJit(
        lambda x: ((weights * 2).contiguous() + x + Tensor.rand(2)).realize(), prune=True
    )
    seen = {tuple(jitted(real(0.0, 0.0)).tolist()) for _ in range(6)}
    assert len(seen) == 6


def test_pruned_table_that_the_function_keeps():
    kept = {}

    def scale(x):
        kept["table"] = (Tensor.arange(4).float() * 3).contiguous().realize()
        return (x + kept["table"]).realize()

    pruned, whole = TinyJit(scale, prune=True), TinyJit(scale)
    for _ in range(4):
        x = real(1.0, 2.0, 3.0, 4.0)
        assert pruned(x).tolist() == whole(x).tolist() == [1.0, 5.0, 9.0, 13.0]
    assert len(pruned.captured.jit_cache) == 1
    assert len(whole.captured.jit_cache) == 2


# ---- frozen by contract


@pytest.mark.parametrize("first, later", [(1, 2), ([real(1.0)], [real(2.0)])])
def test_what_is_frozen_is_warned_about(first, later):
    jitted = TinyJit(lambda x, k: (x + (k[0] if isinstance(k, list) else k)).realize())
    jitted(real(1.0), first)
    jitted(real(1.0), first)
    with pytest.warns(RuntimeWarning, match="another value of argument k"):
        jitted(real(1.0), later)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jitted(real(1.0), later)  # once is enough


# ---- captures


def test_nothing_to_capture():
    jitted = TinyJit(lambda x: None)
    jitted(real(1.0))
    with pytest.raises(JitError, match="ran no kernel"):
        jitted(real(1.0))


def test_nested():
    inner = TinyJit(lambda x: (x + 1).realize())
    outer = TinyJit(lambda x: (inner(x) * 2).realize())
    outer(real(1.0))
    with pytest.raises(JitError, match="inside another TinyJit is not supported"):
        outer(real(1.0))
    for _ in range(3):
        inner(real(1.0))
    with pytest.raises(JitError, match="inside another"):  # a replay would not be recorded either
        outer(real(1.0))


def test_error_in_a_capture_leaves_no_trace():
    state = {"fail": False}

    @TinyJit
    def f(x):
        y = (x + 1).realize()
        if state["fail"]:
            raise KeyError("mine")
        return y

    f(real(1.0))
    state["fail"] = True
    with pytest.raises(KeyError, match="mine"):
        f(real(1.0))
    state["fail"] = False
    assert [f(real(float(i))).item() for i in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_instances_of_one_method():
    class Layer:
        def __init__(self, k):
            self.w = real(float(k))

        @TinyJit
        def forward(self, x):
            return (x * self.w).realize()

    layers = [Layer(k) for k in range(3)]
    for call in range(CALLS):
        assert [layer.forward(real(float(call))).item() for layer in layers] == [0, call, 2 * call]
    assert layers[0].forward.func.__self__ is not layers[1].forward.func.__self__


def test_instances_die():
    class Layer:
        def __init__(self):
            self.w = real(1.0)

        @TinyJit
        def forward(self, x):
            return (x + self.w).realize()

    jitted = Layer.__dict__["forward"]
    layer = Layer()
    for _ in range(3):
        layer.forward(real(1.0))
    assert len(jitted._instances) == 1
    del layer
    gc.collect()
    assert len(jitted._instances) == 0


def test_pickled_capture():
    w = real(2.0, 3.0)
    jitted = TinyJit(lambda x: (x * w, (x + 1).realize()))
    with pytest.raises(JitError, match="has none yet"):
        pickle.dumps(jitted)
    for _ in range(3):
        jitted(real(1.0, 1.0))
    loaded = pickle.loads(pickle.dumps(jitted))
    for call in range(3):
        a, b = loaded(real(float(call), 1.0))
        assert a.tolist() == [2.0 * call, 3.0] and b.tolist() == [call + 1.0, 2.0]
    with pytest.raises(JitError, match="argument x"):
        loaded(real(1.0))


def test_copied_capture_shares_no_memory():
    jitted = TinyJit(lambda x: (x + 1).realize())
    for _ in range(3):
        first = jitted(real(1.0))
    other = copy.deepcopy(jitted)
    second = other(real(10.0))
    assert (first.item(), second.item()) == (2.0, 11.0)


def test_reset_captures_again():
    jitted = TinyJit(lambda x: (x + 1).realize())
    for _ in range(3):
        jitted(real(1.0))
    jitted.reset()
    assert jitted.jit_cache == []
    for call in range(3):
        assert jitted(real(float(call), 2.0)).tolist() == [call + 1.0, 3.0]


def test_switched_off():
    jitted = TinyJit(lambda x, k: (x + k).realize())
    with Context(JIT=0):
        assert [jitted(real(1.0), k).item() for k in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert jitted.jit_cache == []


@pytest.mark.parametrize("level", [1, 2])
def test_long_captures(level):
    def f(a, b):
        for _ in range(40):
            a = (a + b).realize()
        return a

    with Context(JIT=level):
        jitted = compare(f, lambda call: (real(float(call), 1.0), real(0.5, 2.0)), calls=4)
    assert len(jitted.jit_cache) == (40 if level == 2 else 2)


def test_temporaries_share_memory():
    def f(x):
        for _ in range(10):
            x = (x + 1).contiguous()
        return x

    with Context(JIT=2):
        jitted = compare(
            f, lambda call: (Tensor.full((1000,), float(call)).contiguous().realize(),)
        )
    bases = {b.base for item in jitted.captured.jit_cache for b in item.bufs if b is not None}
    assert len(bases) <= 3


def test_memory_comes_back():
    def f(x):
        return ((x + 1).contiguous() * 2).contiguous().sum().realize()

    def once():
        jitted = TinyJit(f)
        for _ in range(4):
            jitted(Tensor.ones(1000).contiguous().realize())

    once()
    gc.collect()
    before = GlobalCounters.mem_used
    for _ in range(3):
        once()
    gc.collect()
    assert GlobalCounters.mem_used == before


def test_free_and_replan():
    w = real(*range(100))
    jitted = TinyJit(lambda x: ((x * w).contiguous() + 1).sum().realize(), optimize=True)
    for call in range(5):
        x = Tensor.full((100,), float(call)).contiguous().realize()
        assert jitted(x).item() == 4950.0 * call + 100
        if call == 3:
            jitted.captured.free_intermediates()


def test_captures_in_several_threads(in_threads):
    def work(k):
        jitted = TinyJit(lambda x: ((x + k).contiguous() * 2).realize())
        for call in range(6):
            assert jitted(real(float(call))).item() == 2.0 * (call + k)
        assert len(jitted.captured.jit_cache) == 2

    in_threads(work)


# ---- what a replay would not see


@pytest.mark.parametrize(
    "body",
    [
        lambda x: (x + x.sum().item()).realize(),
        lambda x: ((x + 1) if x.sum().item() < 2 else (x + 5)).realize(),
        lambda x: (Tensor((x + 1).numpy() * 2) + x).realize(),
        lambda x: (x + (x * 2).realize().tolist()[0]).realize(),
    ],
)
def test_values_read_inside_are_an_error(body):
    jitted = TinyJit(body)
    jitted(real(1.0))
    with pytest.raises(JitError, match="values of a tensor are read .* return the tensor"):
        jitted(real(2.0))


def test_values_of_the_surroundings_may_be_read_inside():
    table = real(3.0)
    jitted = TinyJit(lambda x: (x + table.item()).realize())
    assert [jitted(real(float(k))).item() for k in range(4)] == [3.0, 4.0, 5.0, 6.0]


def test_lists_inside_of_other_containers_are_inputs():
    jitted = TinyJit(lambda d, t: (d["a"][0] + t[0][1]).realize())
    for k in range(5):
        assert jitted({"a": [real(float(k))]}, ([None, real(10.0)],)).item() == k + 10


def test_a_tensor_that_took_the_place_of_another():
    held = {"t": real(0.0)}
    jitted = TinyJit(lambda x: (x + held["t"]).realize())
    for k in range(6):
        held["t"] = real(float(k))
        assert jitted(real(1.0)).item() == k + 1


def test_a_weight_that_is_replaced_by_a_loaded_one():
    class Layer:
        def __init__(self):
            self.w = real(2.0)

        @TinyJit
        def __call__(self, x):
            return (x * self.w).realize()

    layer = Layer()
    for k in range(6):
        if k == 3:
            layer.w = real(5.0)
        assert layer(real(1.0)).item() == (2.0 if k < 3 else 5.0)


def test_another_part_of_a_buffer_is_refused_with_what_differs():
    rows = Tensor.arange(24).reshape(6, 4).contiguous().realize()
    jitted = TinyJit(lambda x: x.sum().realize())
    assert [jitted(rows[i : i + 2].contiguous()).item() for i in range(4)] == [28, 60, 92, 124]
    jitted = TinyJit(lambda x: x.sum().realize())
    assert jitted(rows[0:2]).item() == 28
    assert jitted(rows[0:2]).item() == 28
    with pytest.raises(JitError, match="argument x .*another view of its buffer; make it contig"):
        jitted(rows[2:4])
