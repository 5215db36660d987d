"""What a captured function does besides returning tensors, and what it may be: right on every call, or a JitError."""

import asyncio
import functools
import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, Variable, dtypes
from tinygrad.engine.jit import JitError

CALLS = range(6)
again = pytest.mark.filterwarnings("ignore:.*changes from call to call")


def real(*values, dtype=dtypes.float32):
    return Tensor(list(values), dtype=dtype).contiguous().realize()


def weight(*values):
    made = real(*values)
    made.requires_grad = True
    return made


# ---- gradients that are left on tensors of the surroundings


def test_gradients_in_memory_are_set_at_each_call():
    w = weight(1.0, 2.0)

    @TinyJit
    def step(x):
        w.grad = None
        (w * w * x).sum().backward()
        w.grad.realize()
        return (x + 1).realize()

    for k in CALLS:
        step(real(float(k), 1.0))
        assert w.grad.tolist() == [2.0 * k, 4.0]


@pytest.mark.parametrize("inside", [True, False])
def test_gradient_that_is_an_input(inside):
    w = weight(1.0, 2.0)

    @TinyJit
    def step(x):
        if inside:
            w.grad = None
        (w * x).sum().backward()
        w.grad.realize()
        return (x + 1).realize()

    for k in CALLS:
        if not inside:
            w.grad = None
        step(real(float(k), 1.0))
        assert w.grad.tolist() == [float(k), 1.0]


@again
def test_gradients_are_added_to_when_nobody_clears_them():
    w = weight(1.0)

    @TinyJit
    def step(x):
        (w * x).sum().backward()
        w.grad.realize()
        return (x + 1).realize()

    got = []
    for k in range(8):
        if k < 4:
            w.grad = None
        step(real(1.0))
        got.append(w.grad.item())
    assert got == [1, 1, 1, 1, 2, 3, 4, 5]


def test_gradients_that_are_left_uncomputed_are_refused():
    w = weight(1.0)

    @TinyJit
    def step(x):
        w.grad = None
        (w * w * x).sum().backward()
        return (x + 1).realize()

    for k in range(2):
        step(real(float(k)))
        assert w.grad.item() == 2.0 * k
    step(real(2.0))
    with pytest.raises(JitError, match="left uncomputed by a function under TinyJit"):
        w.grad.item()
    with pytest.raises(JitError, match="left uncomputed"):
        (w.grad + 1).realize()
    w.grad = None
    (w * w).sum().backward()
    assert w.grad.item() == 2.0


# ---- tensors that are left elsewhere


class Keeper:
    last: Tensor


def test_a_tensor_in_memory_that_is_kept_shows_the_last_call():
    keeper = Keeper()

    @TinyJit
    def f(x):
        keeper.last = (x * 3).realize()
        return (x + 1).realize()

    for k in CALLS:
        assert (f(real(float(k))).item(), keeper.last.item()) == (k + 1.0, 3.0 * k)


def test_a_tensor_that_is_kept_uncomputed_is_refused():
    keeper = Keeper()

    @TinyJit
    def f(x):
        keeper.last = x * 3
        return (x + 1).realize()

    for k in CALLS:
        assert f(real(float(k))).item() == k + 1.0
        if k < 2:
            assert keeper.last.item() == 3.0 * k
        else:
            with pytest.raises(
                JitError, match="realize\\(\\) it inside of the function, or return"
            ):
                keeper.last.tolist()


@again
@pytest.mark.parametrize("lazy", [True, False])
def test_replaced_tensors(lazy):
    state = real(0.0)

    @TinyJit
    def f(x):
        new = state + x
        state.replace(new if lazy else new.realize())
        return (x + 1).realize()

    for k in CALLS:
        f(real(1.0))
        assert state.item() == k + 1.0


def test_writing_a_file_is_an_error(tmp_path):
    (tmp_path / "x").write_bytes(bytes(8))
    stored = Tensor(tmp_path / "x", dtype=dtypes.float32)

    @TinyJit
    def f(x):
        stored[:1].assign(Tensor([1.0]))
        return (x + 1).realize()

    f(real(1.0))
    with pytest.raises(JitError, match="is written inside of .* assign it outside"):
        f(real(1.0))


# ---- arguments and results


def test_inputs_in_everything():
    @dataclass(frozen=True)
    class Inner:
        t: Tensor

    @dataclass
    class Outer:
        items: list
        named: dict

    Pair = namedtuple("Pair", "a b")

    @TinyJit
    def f(o, /, first, *rest, key, **more):
        total = o.items[0].t + o.named["k"][1] * 2 + first + rest[0]
        return (total + key + more["z"].a * 3 + more["z"].b).realize()

    for k in CALLS:
        outer = Outer([Inner(real(float(k)))], {"k": (None, real(10.0))})
        named = {"key": real(7.0), "z": Pair(real(float(k)), real(1.0))}
        if k % 2:
            named = dict(reversed(named.items()))
        assert f(outer, real(5.0), real(6.0), **named).item() == 4 * k + 39.0


def test_results_that_share():
    @TinyJit
    def f(x):
        y = (x + 1).realize()
        return y, y.reshape(2, 1), y[1:], y, x

    for k in CALLS:
        y, column, part, again_y, x = f(real(float(k), 1.0))
        assert again_y is y
        assert (y.tolist(), column.tolist()) == ([k + 1.0, 2.0], [[k + 1.0], [2.0]])
        assert (part.tolist(), x.tolist()) == ([2.0], [float(k), 1.0])


def test_views_of_inputs_are_written():
    @TinyJit
    def f(x):
        x[1:3] += 1
        view = x[0:2]
        view.assign(view * 2)
        return x.sum()

    for k in CALLS:
        x = real(float(k), 1.0, 2.0, 3.0)
        assert (f(x).item(), x.tolist()) == (2 * k + 10.0, [2.0 * k, 4.0, 3.0, 3.0])


@pytest.mark.parametrize("fails", [(1,), (1, 2), (2, 3)])
def test_errors_of_the_function(fails):
    failing = False

    @TinyJit
    def f(x):
        y = (x + 1).realize()
        if failing:
            raise KeyError("mine")
        return (y * 2).realize()

    for k in range(7):
        failing = k in fails
        if failing:
            with pytest.raises(KeyError, match="mine"):
                f(real(float(k)))
        else:
            assert f(real(float(k))).item() == 2.0 * (k + 1)


def test_no_elements():
    f = TinyJit(lambda x, y: (x.sum() + y).realize())
    for k in CALLS:
        assert f(Tensor.empty(0).realize(), real(float(k))).tolist() == [k]
    f = TinyJit(lambda x: x + 1)
    f(Tensor.empty(0))
    with pytest.raises(JitError, match="ran no kernel"):
        f(Tensor.empty(0))


def test_files_and_arrays_as_inputs(tmp_path):
    def stored(k):
        path = tmp_path / str(k)
        path.write_bytes(np.array([k, k + 1], dtype=np.float32).tobytes())
        return Tensor(path, dtype=dtypes.float32)

    f, g = TinyJit(lambda d: (d.to("CPU") * 2).realize()), TinyJit(lambda d: d + 1)
    for k in CALLS:
        assert f(stored(k)).tolist() == [2.0 * k, 2.0 * k + 2]
        assert g(Tensor(np.array([k], dtype=np.float32))).item() == k + 1.0


def test_cache_over_several_devices():
    state = real(1.0, 2.0).shard(("CPU:0", "CPU:1"), 0).realize()

    @TinyJit
    def f(x):
        state.assign(state + x)
        return (state * 2).realize()

    for k in CALLS:
        x = real(1.0, 1.0).shard(("CPU:0", "CPU:1"), 0).realize()
        assert f(x).tolist() == [2.0 * (k + 2), 2.0 * (k + 3)]


def test_cache_with_a_growing_part():
    cache = Tensor.zeros(8, 2).contiguous().realize()

    @TinyJit
    def f(x, p):
        cache[p : p + 1].assign(x)
        return cache[: p + 1].sum(0).realize()

    for k in CALLS:
        got = f(Tensor([[1.0, 2.0]]).realize(), Variable("p", 0, 7).bind(k))
        assert got.tolist() == [k + 1.0, 2.0 * (k + 1)]


# ---- kinds of functions


class Kinds:
    scale = 2.0

    @staticmethod
    @TinyJit
    def static(x):
        return (x * 2).realize()

    @TinyJit
    @staticmethod
    def static_inside(x):
        return (x * 2).realize()

    @classmethod
    @TinyJit
    def of_class(cls, x):
        return (x * cls.scale).realize()

    @classmethod
    def plain(cls, x):
        return (x * cls.scale).realize()

    def __call__(self, x):
        return (x * self.scale).realize()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Kinds.static,
        lambda: Kinds().static,
        lambda: Kinds.static_inside,
        lambda: Kinds().static_inside,
        lambda: Kinds.of_class,
        lambda: TinyJit(Kinds.plain),
        lambda: TinyJit(Kinds()),
        lambda: TinyJit(functools.partial(lambda a, b, s: (a * s * b).realize(), b=2.0, s=1.0)),
        lambda: TinyJit(functools.partial(lambda w, x: (w * x).realize(), real(2.0))),
    ],
)
def test_kinds_of_functions(make):
    f = make()
    assert [f(real(float(k))).item() for k in CALLS] == [2.0 * k for k in CALLS]


def test_coroutines_and_generators_are_refused():
    async def coroutine(x):
        return (x + 1).realize()

    def generator(x):
        yield (x + 1).realize()

    for f, run in ((TinyJit(coroutine), asyncio.run), (TinyJit(generator), list)):
        run(f(real(1.0)))
        with pytest.raises(JitError, match="ran no kernel"):
            f(real(1.0))


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_capture_in_another_process(tmp_path):
    w = real(2.0, 3.0)
    f = TinyJit(lambda x, v: (x * w + v).realize())
    for k in range(3):
        f(real(1.0, 1.0), real(float(k)))
    (tmp_path / "f").write_bytes(pickle.dumps(f))
    code = (
        "import pickle, sys; from tinygrad import Tensor; f = pickle.load(open(sys.argv[1], 'rb'));"
        "made = lambda *v: Tensor(list(v)).realize();"
        "print([f(made(float(k), 1.0), made(float(k))).tolist() for k in range(3)])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "f"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str([[3.0 * k, 3.0 + k] for k in range(3)])


def test_another_shape_of_the_same_memory():
    w = real(1.0, 2.0)
    f = TinyJit(lambda x: (x * w).realize())
    for k in CALLS:
        if k == 3:
            w.replace(w.reshape(2, 1), allow_shape_mismatch=True)
        assert f(real(1.0, 1.0)).shape == ((2,) if k < 3 else (2, 2))


def test_pruned_capture_repeats_what_is_written_twice():
    """A copy that is read and then written to holds the written values at the end: it has to be made again each time."""
    state = Tensor([0, 0]).contiguous().realize()

    @functools.partial(TinyJit, prune=True)
    def step(choose):
        copy = state.clone()
        picked = choose.where(state, copy)
        copy[0:1] = 1
        return picked.realize()

    for _ in range(5):
        assert step(Tensor([False, False]).contiguous().realize()).tolist() == [0, 0]
