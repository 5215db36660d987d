"""Schedules and memory plans of whole training steps: made once for equal graphs, never overlapping, close to the least possible."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tinygrad import Context, Tensor, TinyJit, Variable, nn
from tinygrad.engine import schedule as engine_schedule
from tinygrad.engine.memory import _internal_memory_planner
from tinygrad.engine.schedule import schedule_cache


class Net:
    """A small residual network."""

    def __init__(self):
        self.first = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.last = nn.Linear(4, 3)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        return self.last((self.second(x) + x).relu().mean((2, 3)))


def trainer(seed: int, kind=nn.optim.Adam):
    """A network with its optimizer, and a function that makes a step."""
    Tensor.manual_seed(seed)
    net = Net()
    optimizer = kind(nn.state.get_parameters(net), lr=0.01)
    Tensor.realize(*nn.state.get_parameters([net, optimizer]))

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    return net, step


def batch(seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 1, 8, 8)).astype(np.float32)
    return Tensor(x).realize(), Tensor(rng.integers(0, 3, 4).astype(np.int32)).realize()


def test_one_schedule_for_other_weights_and_other_inputs():
    with Tensor.train():
        _, step = trainer(1)
        for _ in range(2):
            step(*batch(1))
        known = len(schedule_cache)
        step(*batch(2))
        assert len(schedule_cache) == known
        _, other = trainer(2)
        before = len(schedule_cache)
        other(*batch(3))
        assert len(schedule_cache) == before == known


def test_one_schedule_for_gradients_under_a_variable():
    known = None
    for n in (3, 7, 1):
        x = Tensor(np.arange(8, dtype=np.float32), requires_grad=True)
        x[: Variable("n", 1, 8).bind(n)].square().sum().backward()
        assert x.grad.tolist() == [2.0 * i if i < n else 0.0 for i in range(8)]
        assert known in (None, len(schedule_cache))
        known = len(schedule_cache)


def lifetimes(steps) -> dict:
    life: dict = {}
    for number, bufs in enumerate(steps):
        for b in bufs:
            if b is not None:
                life[b] = (life.get(b, (number,))[0], number)
    return life


def assert_apart(steps) -> None:
    """No two buffers of one memory that are in use at the same time share a byte."""
    by_home: dict = {}
    for b, life in lifetimes(steps).items():
        by_home.setdefault(b.base, []).append((b.offset, b.offset + b.nbytes, *life, b))
    for places in by_home.values():
        for (a0, a1, a_first, a_last, a), (b0, b1, b_first, b_last, b) in itertools.combinations(
            places, 2
        ):
            together = a_first <= b_last and b_first <= a_last
            assert not together or a1 <= b0 or b1 <= a0, f"{a} and {b} overlap"


def test_plan_of_a_training_step_is_close_to_the_least_possible(monkeypatch):
    seen = []

    def planner(items):
        planned = original(items)
        # a schedule is used up by running it
        seen.append((list(items), list(planned)))
        return planned

    original = engine_schedule.memory_planner
    monkeypatch.setattr(engine_schedule, "memory_planner", planner)
    with Tensor.train():
        trainer(1)[1](*batch(1))
    before, after = max(seen, key=lambda pair: len(pair[0]))
    steps = [[b for b in item.bufs if b is not None] for item in before]
    moved = {b: m for b, m in _internal_memory_planner(steps).items() if b is b.base}
    # the plan that was used holds the same buffers at the same offsets, in a home of its own
    assert_apart([[moved.get(b, b) for b in bufs] for bufs in steps])
    assert [len(item.bufs) for item in after] == [len(item.bufs) for item in before]
    life = {b: times for b, times in lifetimes(steps).items() if b in moved}
    least = max(
        sum(b.nbytes for b, (first, last) in life.items() if first <= number <= last)
        for number in range(len(steps))
    )
    (home,) = {m.base for m in moved.values()}
    assert sum(b.nbytes for b in life) > 1.05 * least
    assert home.nbytes <= least + 256 * len(life)


@pytest.mark.parametrize("planned", [True, False])
def test_a_captured_training_step(planned: bool):
    with Tensor.train(), Context(NO_MEMORY_PLANNER=0 if planned else 1):
        net, step = trainer(3, nn.optim.SGD)
        jitted = TinyJit(step)
        losses = [jitted(*batch(i)).item() for i in range(5)]
        plain_net, plain = trainer(3, nn.optim.SGD)
        expected = [plain(*batch(i)).item() for i in range(5)]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    np.testing.assert_allclose(
        net.last.weight.numpy(), plain_net.last.weight.numpy(), rtol=1e-3, atol=1e-5
    )
    assert_apart([[b for b in item.bufs if b is not None] for item in jitted.captured.jit_cache])


def test_saved_memory_is_printed(capsys):
    x = Tensor.empty(1000).contiguous().realize()
    with Context(DEBUG=1):
        for _ in range(4):
            x = (x + 1).contiguous()
        x.realize()
    assert "memory plan: 11.72 KB in 3 buffers -> " in capsys.readouterr().out
