"""Several threads at once, processes that fork, interruptions: the result of some serial order, and nothing hangs.

The interpreter switches threads as often as it can, so that a state which is not guarded is met half done.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, Variable
from tinygrad.engine import realize
from tinygrad.helpers import NOOPT, Context

X = np.arange(64, dtype=np.float32).reshape(8, 8)
_TURNS = 12


@pytest.fixture
def hasty():
    """Threads are switched after a microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Worker:
    """What one thread does, with a tensor of its own and some that all threads read."""

    def __init__(self, number: int, shared: Tensor, unfinished: Tensor):
        self.number, self.shared, self.unfinished = number, shared, unfinished
        self.dice = random.Random(number)
        self.own, self.expected = Tensor.zeros(8, 8).contiguous(), np.zeros((8, 8), np.float32)
        self.jit = TinyJit(lambda x: (x @ shared + number).relu().realize())

    def run(self) -> None:
        jobs = (
            self.compute,
            self.finish,
            self.write,
            self.replay,
            self.differentiate,
            self.draw,
            self.bind,
        )
        for turn in range(_TURNS):
            self.dice.choice(jobs)(turn)
        np.testing.assert_array_equal(self.own.numpy(), self.expected)

    def compute(self, turn: int) -> None:
        np.testing.assert_array_equal(
            (self.shared + turn + self.number).numpy(), X + turn + self.number
        )

    def finish(self, turn: int) -> None:
        np.testing.assert_array_equal(
            (self.unfinished - turn).sum(0).numpy(), (X * 2 + 1 - turn).sum(0)
        )

    def write(self, turn: int) -> None:
        row = self.dice.randrange(8)
        self.own.assign(self.own + turn)
        self.own[row] = turn
        self.expected += turn
        self.expected[row] = turn

    def replay(self, turn: int) -> None:
        for value in (turn, turn + 1, turn + 2):
            x = Tensor(np.full((8, 8), value, np.float32)).realize()
            want = value * X.sum(0, keepdims=True).repeat(8, 0) + self.number
            np.testing.assert_array_equal(self.jit(x).numpy(), want)

    def differentiate(self, turn: int) -> None:
        x = Tensor(np.full(5, turn + 1, np.float32), requires_grad=True)
        (x * x * self.number).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(5, 2 * (turn + 1) * self.number))

    def draw(self, turn: int) -> None:
        values = Tensor.rand(32).numpy()
        assert ((values >= 0) & (values < 1)).all() and len(set(values.tolist())) > 16

    def bind(self, turn: int) -> None:
        size = 1 + turn % 8
        got = self.shared[: Variable("size", 1, 8).bind(size)].sum().item()
        assert got == X[:size].sum()


@pytest.mark.usefixtures("hasty")
def test_eight_threads_at_once(in_threads):
    shared = Tensor(X).contiguous().realize()
    workers = [Worker(number, shared, shared * 2 + 1) for number in range(8)]
    in_threads(lambda k: workers[k].run(), 8)


@pytest.mark.usefixtures("hasty")
def test_random_numbers_are_drawn_once(in_threads):
    """The draws of all threads together are the draws of one, in some order."""
    Tensor.manual_seed(11)
    want = sorted(tuple(Tensor.rand(4).tolist()) for _ in range(24))
    Tensor.manual_seed(11)
    got: list[tuple] = []
    in_threads(lambda k: got.extend(tuple(Tensor.rand(4).tolist()) for _ in range(6)))
    assert sorted(got) == want


@pytest.mark.usefixtures("hasty")
def test_writes_to_one_tensor_are_all_done(in_threads):
    total = Tensor.zeros(64).contiguous().realize()
    lock = threading.Lock()

    def add(k: int) -> None:
        for turn in range(6):
            with (
                lock
            ):  # read and write are two steps; what is tested is who sees the memory afterwards
                total.assign(total + (k + 1) * (turn + 1))
            total.realize()

    in_threads(add)
    np.testing.assert_array_equal(total.numpy(), np.full(64, 10 * 21))


def test_contexts_of_threads_leave_nothing_behind():
    first, second = Context(NOOPT=1), Context(NOOPT=2)
    first.__enter__()
    second.__enter__()
    assert NOOPT.value == 2
    first.__exit__(None, None, None)
    assert NOOPT.value == 2
    second.__exit__(None, None, None)
    assert NOOPT.value == 0
    with first, second:
        with first:  # one object, entered twice
            assert NOOPT.value == 1
        assert NOOPT.value == 2
    assert NOOPT.value == 0


# ---- processes


def _sum_in_child(queue) -> None:
    x = Tensor(X).contiguous().realize()
    queue.put(((x @ x).sum().item(), (Tensor.ones(300, 300) @ Tensor.ones(300, 300)).sum().item()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_computes(method):
    # large enough for the pool of threads, which a fork leaves behind
    assert (Tensor.ones(300, 300) @ Tensor.ones(300, 300)).sum().item() == 300**3
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_sum_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == ((X @ X).sum(), 300**3)
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_while_other_threads_compute():
    code = """
import os, threading
from tinygrad import Tensor
x, over = Tensor.ones(300, 300).contiguous().realize(), threading.Event()
def work():
    turn = 0
    while not over.is_set():
        turn += 1
        (x @ x + turn % 5).sum().item()
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads:
    t.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(int((x @ x).sum().item() != 300 ** 3))
    assert os.waitpid(child, 0)[1] == 0
over.set()
for t in threads:
    t.join()
print("over")
"""
    done = python(code)
    assert done.returncode == 0 and done.stdout == "over\n", done.stderr


def python(code: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "CPU": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120
    )


def test_exit_while_threads_compute():
    code = """
import threading, time
from tinygrad import Tensor
def work():
    while True:
        (Tensor.ones(200, 200) @ Tensor.rand(200, 200)).realize()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(1)
print("over")
"""
    done = python(code)
    assert done.returncode == 0 and done.stdout == "over\n", done.stderr


# ---- interruptions


class Stop(Exception):
    pass


class FailingRun:
    """In place of `ExecItem.run`: raises after `count` steps, as often as it is called from then on."""

    def __init__(self, monkeypatch, count: int, error: type[BaseException]):
        self.count, self.error, self.plain = count, error, realize.ExecItem.run
        fail = self

        def run(self, *args, **kwargs):
            fail.count -= 1
            if fail.count < 0:
                raise fail.error("in between")
            return fail.plain(self, *args, **kwargs)

        monkeypatch.setattr(realize.ExecItem, "run", run)


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_schedule_that_fails_is_finished_later(monkeypatch, error, count):
    """No tensor shows what was not computed, and writes are done once."""
    x = Tensor(X).contiguous().realize()
    y = (x + 1).contiguous()
    z = (y.sum(0) * 2).contiguous()
    x.assign(x * 3)
    with monkeypatch.context() as patch:
        FailingRun(patch, count, error)
        with pytest.raises(error):
            Tensor.realize(z, x, y)
    other = Tensor([1.0, 2.0]) + 1
    assert other.tolist() == [2.0, 3.0]
    np.testing.assert_array_equal(z.numpy(), (X + 1).sum(0) * 2)
    np.testing.assert_array_equal((y + 1).numpy(), X + 2)
    np.testing.assert_array_equal(x.numpy(), X * 3)


def test_a_line_that_cannot_be_printed_runs_nothing_twice(monkeypatch):
    x = Tensor(X).contiguous().realize()
    x.assign(x * 3)

    def broken(*args):
        raise BrokenPipeError

    with monkeypatch.context() as patch, Context(DEBUG=2):
        patch.setattr(realize, "print_item", broken)
        with pytest.raises(BrokenPipeError):
            x.realize()
    np.testing.assert_array_equal(x.numpy(), X * 3)


def test_a_capture_holds_nothing_of_what_is_finished_in_it(monkeypatch):
    x = Tensor(X).contiguous().realize()
    jit, count = TinyJit(lambda t: (t + 1).realize()), Tensor([0.0]).realize()
    assert jit(count).item() == 1
    x.assign(x * 3)
    with monkeypatch.context() as patch:
        FailingRun(patch, 0, MemoryError)
        with pytest.raises(MemoryError):
            x.realize()
    for _ in range(3):
        assert jit(count).item() == 1
    np.testing.assert_array_equal(x.numpy(), X * 3)


def test_what_fails_twice_is_lost_and_says_so(monkeypatch):
    x = Tensor(X).contiguous().realize()
    first, second = (x + 1).contiguous(), (x + 2).contiguous()
    with monkeypatch.context() as patch:
        FailingRun(patch, 1, MemoryError)
        for _ in range(2):
            with pytest.raises((MemoryError, RuntimeError)):
                first.realize(second)
    done = 0
    for t, want in ((first, X + 1), (second, X + 2)):
        try:
            np.testing.assert_array_equal(t.numpy(), want)
            done += 1
        except RuntimeError as error:
            assert "never computed" in str(error) and "in between" in str(error)
            with pytest.raises(RuntimeError, match="build the tensor again"):
                (t * 2).realize()
    assert done == 1
    np.testing.assert_array_equal((x + 2).numpy(), X + 2)


def test_lost_memory_can_be_written_again(monkeypatch):
    x = Tensor(X).contiguous().realize()
    x.assign(x + 1)
    with monkeypatch.context() as patch:
        FailingRun(patch, 0, MemoryError)
        with pytest.raises(MemoryError):
            x.realize()
        with pytest.raises(RuntimeError, match="never computed"):
            x.realize()
    with pytest.raises(RuntimeError, match="never computed"):
        x.numpy()
    x.assign(Tensor(X * 2)).realize()
    np.testing.assert_array_equal(x.numpy(), X * 2)


def test_a_signal_while_kernels_run():
    code = """
import signal, threading, os, time
from tinygrad import Tensor
x = Tensor.ones(400, 400).contiguous().realize()
interrupted = 0
for turn in range(6):
    timer = threading.Timer(0.02 * turn + 0.01, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        began = time.perf_counter()
        while time.perf_counter() - began < 1:
            y = (x @ x).sum().item()
    except KeyboardInterrupt:
        interrupted += 1
    assert (x @ x).sum().item() == 400 ** 3
print(interrupted)
"""
    done = python(code)
    assert done.returncode == 0 and done.stdout == "6\n", done.stderr


def test_signal_handlers_are_left_alone():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
