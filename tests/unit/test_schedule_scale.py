"""Graphs of any depth and width schedule, in work that grows with their nodes.

Work is counted in calls of functions, which does not depend on the machine.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections.abc import Callable

import numpy as np
import pytest

from tinygrad import Context, Device, Tensor, TinyJit, dtypes
from tinygrad.engine.realize import run_schedule
from tinygrad.uop.ops import Ops


def made(*shape: int) -> Tensor:
    return Tensor.empty(*shape).contiguous().realize()


def repeat(n: int, x: Tensor, f: Callable[[Tensor], Tensor]) -> list[Tensor]:
    for _ in range(n):
        x = f(x)
    return [x]


def in_pairs(ts: list[Tensor]) -> list[Tensor]:
    """The sum, as a balanced tree."""
    while len(ts) > 1:
        ts = [a + b for a, b in zip(ts[::2], ts[1::2])] + ([ts[-1]] if len(ts) % 2 else [])
    return ts


def assigned(n: int) -> list[Tensor]:
    x = made(4)
    for _ in range(n):
        x.assign(x + 1)
    return [x]


def assigned_views(n: int) -> list[Tensor]:
    x = made(64)
    for i in range(n):
        x[i % 60 : i % 60 + 4].assign(x[i % 50 : i % 50 + 4] + 1)
    return [x]


def read_and_assigned(n: int) -> list[Tensor]:
    x, seen = made(8), []
    for _ in range(n):
        seen.append(x.sum())
        x.assign(x + 1)
    return [x, *seen]


def running_outputs(n: int) -> list[Tensor]:
    x, seen = made(4), []
    for _ in range(n):
        x = x + 1
        seen.append(x)
    return seen


def gradients_of_layers(n: int) -> list[Tensor]:
    x, weights = made(4, 4), [made(4, 4) for _ in range(n)]
    for w in weights:
        w.requires_grad = True
        x = (x @ w).relu()
    x.sum().backward()
    return [w.grad for w in weights]


def gradient_of_chain(n: int) -> list[Tensor]:
    x = made(4)
    x.requires_grad = True
    repeat(n, x, lambda y: (y * 1.01).relu() + 0.5)[0].sum().backward()
    return [x.grad]


GRAPHS: dict[str, Callable[[int], list[Tensor]]] = {
    "elementwise": lambda n: repeat(n, made(4), lambda x: (x * 1.5 + 1).relu()),
    "contiguous": lambda n: repeat(n, made(4), lambda x: (x + 1).contiguous()),
    "cat": lambda n: (lambda y: repeat(n, made(4), lambda x: x.cat(y)[:4]))(made(4)),
    "pad": lambda n: repeat(n, made(4), lambda x: x.pad(((1, 0),))[:4] + 1),
    "views": lambda n: repeat(n, made(2, 2), lambda x: x.permute(1, 0).flip(0) + 1),
    "reduce": lambda n: repeat(n, made(2, 2), lambda x: x - x.sum(1, keepdim=True)),
    "product": lambda n: (lambda w: repeat(n, made(4, 4), lambda x: (x @ w).relu()))(made(4, 4)),
    "read twice": lambda n: repeat(n, made(4), lambda x: x + x * 0.5),
    "gather": lambda n: (lambda i: repeat(n, made(8), lambda x: x[i]))(
        Tensor.empty(8, dtype=dtypes.int32)
    ),
    "inputs": lambda n: in_pairs([made(4) for _ in range(n)]),
    "computed inputs": lambda n: in_pairs([Tensor.empty(4) * 2 for _ in range(n)]),
    "reduced inputs": lambda n: in_pairs([Tensor.empty(4).sum() for _ in range(n)]),
    "outputs": lambda n: (lambda x: [x + i for i in range(1, n)])(made(4)),
    "running outputs": running_outputs,
    "assign": assigned,
    "assign to views": assigned_views,
    "read and assign": read_and_assigned,
    "layers": gradients_of_layers,
    "gradient": gradient_of_chain,
}


def calls(outputs: list[Tensor]) -> int:
    profile = cProfile.Profile()
    gc.collect()
    gc.disable()
    try:
        profile.runcall(Tensor.schedule, *outputs)
    finally:
        gc.enable()
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize("name", GRAPHS)
def test_work_is_linear(name: str):
    with Context(SPEC=0):
        build = GRAPHS[name]
        Tensor.schedule(*build(3))
        base, one, two = (calls(build(n)) for n in (40, 100, 160))
    assert two - one < 1.25 * (one - base), f"{base}, {one}, {two} calls for 40, 100, 160 steps"


def test_a_chain_of_20_000_operations():
    x = made(4)
    with Context(SPEC=0):
        (deep,) = repeat(20_000, x, lambda y: y + x)
        items = deep.schedule()
    assert len(items) == 1 and len(items[0].bufs) == 2


def test_5_000_kernels():
    with Context(SPEC=0):
        items = repeat(5_000, made(1), lambda x: (x + 1).contiguous())[0].schedule()
    assert len(items) == 5_000


def test_more_inputs_than_a_launch_can_carry():
    inputs = [Tensor([float(i)]).realize() for i in range(1_200)]
    assert sum(inputs[1:], inputs[0]).tolist() == [719400.0]
    jitted = TinyJit(lambda x: sum(inputs, x))
    for start in range(4):
        assert jitted(Tensor([float(start)])).tolist() == [719400.0 + start]


def test_10_000_inputs():
    with Context(SPEC=0):
        items = in_pairs([Tensor.empty(1) for _ in range(10_000)])[0].schedule()
    # as few kernels as can carry them
    limit = Device.backend("CPU").max_buffers
    assert max(len(item.bufs) for item in items) <= limit
    assert len({b for item in items for b in item.bufs[1:]}) >= 10_000 and len(items) < 42


def test_1_000_outputs_at_once():
    x = Tensor.arange(4).contiguous().realize()
    outputs = [x + i for i in range(1000)]
    with Context(SPEC=0):
        items = Tensor.schedule(*outputs)
    # the first is x itself
    assert sum(item.ast.op is Ops.SINK for item in items) == 999
    run_schedule(items[:20])
    assert [t.tolist() for t in outputs[:20]] == [[i, i + 1, i + 2, i + 3] for i in range(20)]


def test_sum_of_rows_and_of_all():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor(a, requires_grad=True)
    np.testing.assert_array_equal((x.sum(1) + x.sum(1).sum()).numpy(), a.sum(1) + a.sum())
    y = x.sum(1) + x.sum(1).sum()
    (y * Tensor([1.0, 2.0, 3.0])).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.array([[7], [8], [9]]) * np.ones((3, 4)))


@pytest.mark.parametrize("length", [1, 2, 255, 511, 512, 513, 4096 * 3 + 1, 1_100_000])
def test_running_sum_and_its_gradient(length: int):
    a = np.random.default_rng(length).integers(-2, 3, length).astype(np.int32)
    x = Tensor(a).realize()
    np.testing.assert_array_equal(x.cumsum().numpy(), np.cumsum(a))
    if length > 20_000:
        return
    w = np.arange(length, dtype=np.float32) % 3
    y = Tensor(a.astype(np.float32), requires_grad=True)
    (y.cumsum() * Tensor(w)).sum().backward()
    np.testing.assert_array_equal(y.grad.numpy(), np.cumsum(w[::-1])[::-1])
