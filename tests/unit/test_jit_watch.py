"""Python values that a captured function reads besides its arguments: right on every call, and told when that costs the replay."""

import functools
import itertools
import os
import random
import types
import warnings
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, dtypes, nn
from tinygrad.helpers import Context, ContextVar

SCALE = 1.0


def real(*values, dtype=dtypes.float32):
    return Tensor(list(values), dtype=dtype).contiguous().realize()


def check(jitted, call, wants, captures=None):
    """`call(k)` gives `wants[k]`; `captures`: how many different captures there were."""
    seen, got = [], []
    for k in range(len(wants)):
        got.append(call(k))
        if jitted.captured is not None and not any(c is jitted.captured for c in seen):
            seen.append(jitted.captured)
    assert got == list(wants)
    if captures is not None:
        assert len(seen) == captures


def changes(jitted, change, before, after, captures=2):
    """The result is `before` until `change` is called before the fourth call, and `after` from then on."""

    def call(k):
        if k == 3:
            change()
        return jitted(real(2.0)).item()

    check(jitted, call, [before] * 3 + [after] * 3, captures)


# ---- where values are read from


def test_global(monkeypatch):
    jitted = TinyJit(lambda x: (x * SCALE).realize())
    changes(jitted, lambda: monkeypatch.setitem(globals(), "SCALE", 5.0), 2.0, 10.0)


def test_free_variable():
    scale = 1.0
    jitted = TinyJit(lambda x: (x * scale).realize())

    def change():
        nonlocal scale
        scale = 5.0

    changes(jitted, change, 2.0, 10.0)


def test_equal_values_are_no_change():
    scale = [1.0]
    jitted = TinyJit(lambda x: (x * scale[0]).realize())
    changes(jitted, lambda: scale.__setitem__(0, float("1")), 2.0, 2.0, captures=1)


class Layer:
    def __init__(self, eps):
        self.eps = eps

    def __call__(self, x):
        return x + self.eps


class Slotted:
    __slots__ = ("a", "__weakref__")

    def __init__(self, a):
        self.a = a


class Model:
    of_class = 2.0

    def __init__(self):
        self.p, self.flag, self.step = 1.0, True, 0
        self.config = {"scale": {"x": 1.0}, "unread": 0}
        self.layers = [Layer(0.0), Layer(0.0)]
        self.slotted, self.namespace = Slotted(0.0), types.SimpleNamespace(lr=0.0)
        self.act = Tensor.relu

    @property
    def doubled(self):
        return self.p + self.p

    def helper(self, x):
        return x * self.doubled / 2

    @TinyJit
    def forward(self, x):
        y = self.helper(x) * self.config["scale"]["x"]
        for layer in self.layers:
            y = layer(y) + layer.eps * 0
        y = y * (1.0 if self.flag else 2.0)
        y = self.act(y) + self.slotted.a + self.namespace.lr
        return (y * self.of_class).realize()


@pytest.mark.parametrize(
    "change, after",
    [
        (lambda m: setattr(m, "p", 3.0), 12.0),
        (lambda m: m.config["scale"].update(x=3.0), 12.0),
        (lambda m: setattr(m, "config", {"scale": {"x": 3.0}}), 12.0),
        (lambda m: setattr(m.layers[1], "eps", 3.0), 10.0),
        (lambda m: m.layers.__setitem__(1, Layer(3.0)), 10.0),
        (lambda m: m.layers.append(Layer(3.0)), 10.0),
        (lambda m: setattr(m, "flag", False), 8.0),
        (lambda m: setattr(m.slotted, "a", 1.0), 6.0),
        (lambda m: setattr(m, "slotted", Slotted(1.0)), 6.0),
        (lambda m: setattr(m.namespace, "lr", 1.0), 6.0),
        (lambda m: setattr(m, "act", Tensor.neg), -4.0),
        (lambda m: setattr(m, "of_class", 3.0), 6.0),
    ],
)
def test_attributes(change, after):
    model = Model()

    def call(k):
        if k == 3:
            change(model)
        return model.forward(real(2.0)).item()

    check(model.forward.func.__self__, call, [4.0] * 3 + [after] * 3, captures=2)


@pytest.mark.parametrize(
    "change", [lambda m: setattr(m, "step", 7), lambda m: m.config.update(unread=7)]
)
def test_what_is_not_read_is_no_change(change):
    model = Model()

    def call(k):
        change(model)
        return model.forward(real(2.0)).item()

    check(model.forward.func.__self__, call, [4.0] * 5, captures=1)


def test_class_attribute(monkeypatch):
    model = Model()

    def call(k):
        if k == 3:
            monkeypatch.setattr(Model, "of_class", 5.0)
        return model.forward(real(2.0)).item()

    check(model.forward.func.__self__, call, [4.0] * 3 + [10.0] * 3, captures=2)


def test_slots_without_weak_references():
    class Small:
        __slots__ = ("a",)

        def __init__(self, a):
            self.a = a

        @TinyJit
        def forward(self, x):
            return (x + self.a).realize()

    small, other = Small(1.0), Small(7.0)
    for k in range(6):
        if k == 3:
            small.a = 5.0
        assert small.forward(real(2.0)).item() == (3.0 if k < 3 else 7.0)
        assert other.forward(real(2.0)).item() == 9.0


def test_default_arguments():
    def f(x, config={"s": 1.0}, k=2.0):  # noqa: B006  that it is shared is what is tested
        return (x * config["s"] * k).realize()

    jitted = TinyJit(f)

    def call(k):
        if k == 3:
            f.__defaults__[0]["s"] = 3.0
        if k == 5:
            f.__defaults__ = ({"s": 1.0}, 3.0)
        return jitted(real(1.0)).item()

    check(jitted, call, [2.0] * 3 + [6.0] * 2 + [3.0] * 2, captures=3)


def test_closures_in_a_list():
    def make(scale):
        def multiply(x):
            return x * scale

        def change(value):
            nonlocal scale
            scale = value

        return multiply, change

    made = [make(1.0), make(2.0)]

    def f(x):
        for multiply, _ in made:
            x = multiply(x)
        return x.realize()

    changes(TinyJit(f), lambda: made[1][1](5.0), 4.0, 10.0)


def test_attribute_of_a_decorated_function():
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            return fn(*args) * fn.scale

        return wrapper

    def base(x):
        return x + 1

    base.scale = 1.0
    decorated = decorate(base)
    jitted = TinyJit(lambda x: decorated(x).realize())
    changes(jitted, lambda: setattr(base, "scale", 3.0), 3.0, 9.0)


def test_getattr_by_a_computed_name():
    layer = Layer(1.0)
    jitted = TinyJit(lambda x: (x * getattr(layer, "e" + "ps")).realize())
    changes(jitted, lambda: setattr(layer, "eps", 3.0), 2.0, 6.0)


def test_dataclass_and_enum():
    @dataclass
    class Config:
        lr: float = 1.0
        sizes: list = field(default_factory=lambda: [1, 2])

    class Mode(Enum):
        SLOW = 1.0
        FAST = 2.0

    config, mode = Config(), Mode.SLOW
    jitted = TinyJit(lambda x: (x * config.lr * mode.value + sum(config.sizes)).realize())

    def call(k):
        nonlocal config, mode
        if k == 3:
            config.lr = 3.0
        if k == 5:
            config.sizes.append(1)
        if k == 7:
            config = Config(5.0)
        if k == 9:
            mode = Mode.FAST
        return jitted(real(1.0)).item()

    check(jitted, call, [4.0] * 3 + [6.0] * 2 + [7.0] * 2 + [8.0] * 2 + [13.0] * 2, captures=5)


def test_numpy_array():
    table = np.array([1.0, 2.0], dtype=np.float32)
    jitted = TinyJit(lambda x: (x * float(table[0])).realize())
    changes(jitted, lambda: table.__setitem__(0, 3.0), 2.0, 6.0)


def test_environment(monkeypatch):
    monkeypatch.setenv("OF_THIS_TEST", "1")
    jitted = TinyJit(lambda x: (x * float(os.environ["OF_THIS_TEST"])).realize())
    changes(jitted, lambda: monkeypatch.setenv("OF_THIS_TEST", "3"), 2.0, 6.0)
    jitted = TinyJit(lambda x: (x * float(os.getenv("OF_THIS_TEST"))).realize())
    changes(jitted, lambda: monkeypatch.setenv("OF_THIS_TEST", "4"), 6.0, 8.0)


# ---- what changes the meaning of the same code


def test_training_mode():
    jitted = TinyJit(lambda x: (x * (2.0 if Tensor.training else 1.0)).realize())

    def call(k):
        with Tensor.train(k in (3, 4)):
            return jitted(real(1.0)).item()

    check(jitted, call, [1.0] * 3 + [2.0] * 2 + [1.0] * 2)


def test_training_mode_inside_of_layers():
    norm, x = nn.BatchNorm(2, affine=False), Tensor([[1.0, 5.0], [3.0, 9.0]]).realize()
    jitted = TinyJit(lambda x: norm(x).realize())
    for k in range(6):
        with Tensor.train(k in (3, 4)):
            mean = abs(jitted(x.clone().realize()).mean().item())
            assert (mean < 1e-3) == (k in (3, 4))


def test_default_dtype():
    jitted = TinyJit(lambda x: (x * Tensor([1, 2.5])).realize())
    try:
        for k in range(6):
            dtypes.default_float = dtypes.float64 if k >= 3 else dtypes.float32
            got = jitted(real(1, 2, dtype=dtypes.int32))
            assert got.dtype is dtypes.default_float and got.tolist() == [1.0, 5.0]
    finally:
        dtypes.default_float = dtypes.float32


def test_context_variable():
    switch = ContextVar("OF_TEST_JIT_WATCH", 0)
    jitted = TinyJit(lambda x: (x + (10 * switch.value if switch else 0)).realize())

    def call(k):
        with Context(OF_TEST_JIT_WATCH=k // 3):
            return jitted(real(1.0)).item()

    check(jitted, call, [1.0] * 3 + [11.0] * 3 + [21.0] * 2, captures=3)


# ---- values that are never twice the same


def test_a_counter_of_its_own_is_told():
    class Counter:
        def __init__(self):
            self.n = 0

        @TinyJit
        def forward(self, x):
            self.n += 1
            return (x * self.n).realize()

    counter = Counter()
    with pytest.warns(RuntimeWarning, match=r"depends on self\.n, which changes .* assign\(\)"):
        assert [counter.forward(real(1.0)).item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]


def test_replay_returns_when_values_hold_still():
    scale = 0.0
    jitted = TinyJit(lambda x: (x * scale).realize())

    def call(k):
        nonlocal scale
        scale = float(min(k, 5))
        return jitted(real(1.0)).item()

    with pytest.warns(RuntimeWarning, match="depends on scale"):
        check(jitted, call, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = jitted.captured
        assert [call(9), call(10)] == [5.0, 5.0] and jitted.captured is kept


@pytest.mark.filterwarnings("ignore:.*changes from call to call")
def test_effects_on_python_values_happen():
    losses, total = [], 0

    def bump():
        nonlocal total
        total += 1

    @TinyJit
    def f(x):
        losses.append(x.shape)
        bump()
        return (x * 2).realize()

    for k in range(6):
        assert f(real(1.0)).item() == 2.0
        assert (len(losses), total) == (k + 1, k + 1)


@pytest.mark.filterwarnings("ignore:.*changes from call to call")
@pytest.mark.parametrize("kind", ["random", "numpy", "generators", "count", "iterator"])
def test_numbers_that_python_draws(kind):
    def source():
        random.seed(7), np.random.seed(7)
        rng, py = np.random.default_rng(3), random.Random(2)
        count, some = itertools.count(), iter([float(i) for i in range(20)])
        return {
            "random": lambda: random.random(),
            "numpy": lambda: float(np.random.rand()),
            "generators": lambda: float(rng.random()) + py.random(),
            "count": lambda: next(count),
            "iterator": lambda: next(some),
        }[kind]

    draw = source()
    want = [np.float32(draw()) for _ in range(6)]
    draw = source()
    jitted = TinyJit(lambda x: (x + draw()).realize())
    assert [jitted(real(0.0)).item() for _ in range(6)] == want


def test_clocks_are_told():
    import time

    jitted = TinyJit(lambda x: (x + 0 * time.time() + 1).realize())
    jitted(real(1.0))
    with pytest.warns(RuntimeWarning, match=r"uses time\.time\(\), which a replay does not"):
        jitted(real(1.0))


# ---- arguments that are no tensors


@pytest.mark.parametrize(
    "first, later",
    [(1.0, 2.0), ("a", "bb"), (None, 1.0), (True, False), ([1.0], [2.0]), ((1.0,), (2.0,))],
)
def test_arguments(first, later):
    def f(x, v):
        if isinstance(v, (list, tuple)):
            v = v[0]
        return (x + (len(v) if isinstance(v, str) else 0.0 if v is None else float(v))).realize()

    jitted = TinyJit(f)
    wants = [f(real(1.0), v).item() for v in (first, later)]
    check(
        jitted,
        lambda k: jitted(real(1.0), first if k < 3 else later).item(),
        [wants[0]] * 3 + [wants[1]] * 3,
        captures=2,
    )


def test_arguments_that_change_inside():
    numbers, layer = [1.0], Layer(1.0)
    jitted = TinyJit(lambda x, n, o: (x + n[0] + o.eps).realize())

    def call(k):
        numbers[0], layer.eps = 1.0 + (k >= 3), 1.0 + (k >= 5)
        return jitted(real(1.0), numbers, Layer(9.0) if k == 7 else layer).item()

    check(jitted, call, [3.0] * 3 + [4.0] * 2 + [5.0] * 2 + [12.0], captures=4)


def test_an_argument_that_was_left_out():
    jitted = TinyJit(lambda x, k=1.0: (x + k).realize())
    check(
        jitted,
        lambda k: (jitted(real(1.0)) if k < 3 else jitted(real(1.0), k=4.0)).item(),
        [2.0] * 3 + [5.0] * 3,
        captures=2,
    )


# ---- tensors of the surroundings


def test_a_tensor_that_python_reads():
    table = real(1.0)
    jitted = TinyJit(lambda x: (x + table.item()).realize())

    def call(k):
        if k == 3:
            table.assign(real(5.0)).realize()
        if k == 5:
            table.assign(table + 1)
        return jitted(real(1.0)).item()

    check(jitted, call, [2.0] * 3 + [6.0] * 2 + [7.0] * 2, captures=3)


def test_a_constant_tensor_that_is_replaced():
    scale = Tensor(2.0)
    jitted = TinyJit(lambda x: (x * scale).realize())
    changes(jitted, lambda: scale.replace(Tensor(3.0)), 4.0, 6.0)


def test_another_view_of_the_same_memory():
    w = real(1.0, 2.0)
    jitted = TinyJit(lambda x: (x * w).sum().realize() - 2 * w[0])
    changes(jitted, lambda: w.replace(w.flip(0)), 4.0, 2.0)


@pytest.mark.filterwarnings("ignore:.*changes from call to call")
def test_state_that_is_bound_anew():
    class Recurrent:
        def __init__(self):
            self.h = real(0.0)

        @TinyJit
        def forward(self, x):
            self.h = (self.h + x).realize()
            return self.h

    model = Recurrent()
    assert [model.forward(real(1.0)).item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.filterwarnings("ignore:.*changes from call to call")
def test_other_tensors_that_live_on():
    tensors, held = [real(float(k)) for k in range(6)], {}
    jitted = TinyJit(lambda x: (x + held["t"]).realize())
    for k in range(6):
        held["t"] = tensors[k]
        assert jitted(real(0.0)).item() == k


def test_what_is_set_before_it_is_read_is_no_state():
    class Module:
        def __init__(self):
            self.w = real(2.0)

        @TinyJit
        def forward(self, x):
            self.hidden = (x * self.w).contiguous()
            self.loss = self.hidden + 1
            return (self.loss * 2).realize()

    module = Module()
    check(
        module.forward.func.__self__,
        lambda k: module.forward(real(float(k))).item(),
        [(2.0 * k + 1) * 2 for k in range(6)],
        captures=1,
    )


def test_seed():
    jitted = TinyJit(lambda x: (x + Tensor.rand(2)).realize())
    drawn = []
    for seed in (1, 1, 2):
        Tensor.manual_seed(seed)
        drawn.append([jitted(real(0.0, 0.0)).tolist() for _ in range(4)])
    Tensor.manual_seed(1)
    eager = [(real(0.0, 0.0) + Tensor.rand(2)).tolist() for _ in range(4)]
    assert drawn[0] == drawn[1] == eager
    assert drawn[2] != eager


# ---- what a user's program does, and must go on to be replayed


class Net:
    def __init__(self):
        self.layers = [nn.Linear(8, 8), Tensor.relu, nn.BatchNorm(8), lambda x: x, nn.Linear(8, 4)]

    def __call__(self, x):
        return x.sequential(self.layers)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: nn.optim.Adam(p),
        lambda p: nn.optim.Muon([w for w in p if w.ndim == 2]),
    ],
)
def test_training_is_captured_once_or_twice(make):
    model, x, y = Net(), Tensor.rand(16, 8).realize(), Tensor.randint(16, high=4).realize()
    optimizer = make(nn.state.get_parameters(model))

    class Trainer:
        step, history = 0, ()

        @TinyJit
        @Tensor.train()
        def train(self, x, y):
            optimizer.zero_grad()
            self.loss = model(x).sparse_categorical_crossentropy(y).backward()
            optimizer.step()
            return self.loss

        @TinyJit
        def accuracy(self, x, y):
            return (model(x).argmax(axis=1) == y).mean()

    trainer, captures = Trainer(), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            loss = trainer.train(x, y).item()
            trainer.step += 1
            trainer.history = (*trainer.history, loss)
            trainer.accuracy(x, y)
            for jitted in (trainer.train.func.__self__, trainer.accuracy.func.__self__):
                if not any(c is jitted.captured for c in captures) and jitted.captured:
                    captures.append(jitted.captured)
    assert len(captures) <= 3
    assert trainer.history[-1] < trainer.history[0]


def test_an_instance_can_die():
    import gc
    import weakref

    class Parent:
        def __init__(self):
            self.child = Layer(1.0)
            self.child.parent = self

        @TinyJit
        def forward(self, x):
            return (x + self.child.eps + self.child.parent.child.eps).realize()

    parent = Parent()
    assert [parent.forward(real(1.0)).item() for _ in range(4)] == [3.0] * 4
    gone = weakref.ref(parent)
    del parent
    gc.collect()
    assert gone() is None


def test_code_of_the_collector_is_not_looked_at():
    import gc

    count = 0

    def hook(phase, info):
        nonlocal count
        count += 1

    gc.callbacks.append(hook)
    try:

        def f(x):
            gc.collect()
            return (x + 1).realize()

        jitted = TinyJit(f)
        check(jitted, lambda k: jitted(real(float(k))).item(), [k + 1.0 for k in range(5)], 1)
    finally:
        gc.callbacks.remove(hook)


def test_an_object_that_raises_is_told():
    class Odd:
        def __getattr__(self, name):
            raise ValueError("no")

        @property
        def __dict__(self):
            raise ValueError("not even this")

    odd = Odd()
    jitted = TinyJit(lambda x: (x + (odd is None and odd.a)).realize())
    jitted(real(1.0))
    with pytest.warns(RuntimeWarning, match="what is read in"):
        assert jitted(real(1.0)).item() == 1.0


def _default_of_nothing(values=None):
    return [*(values or ()), 1]


def test_constants_that_are_empty_tuples():
    def f(x):
        return (x * _default_of_nothing()[0]).realize()

    step = TinyJit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(3):
            assert step(Tensor([float(i)]).realize()).tolist() == [float(i)]


def test_counting_calls_is_no_dependence():
    calls, counter, listed = 0, Layer(0), [0]
    counter.n = 0

    def f(x):
        nonlocal calls
        calls += 1
        counter.n += 1
        listed[0] += 1
        return (x + 1).realize()

    jitted = TinyJit(f)
    check(jitted, lambda k: jitted(real(float(k))).item(), [k + 1.0 for k in range(6)], 1)
    assert (calls, counter.n, listed) == (2, 2, [2])
