"""Thirty steps of each optimizer against PyTorch's: plain, fused, captured, on shards, with a changing rate."""

import numpy as np
import pytest
import torch

from tinygrad import Tensor, TinyJit, dtypes, nn

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3,), (2, 3, 2, 2))]
INPUTS = RNG.normal(size=(30, 5, 4)).astype(np.float32)
RATES = [0.02 * 0.9**i for i in range(30)]
O, T = nn.optim, torch.optim  # noqa: E741
PAIRS = {
    "sgd": (lambda p, **k: O.SGD(p, lr=0.01, weight_decay=0.1, **k), lambda p: T.SGD(p, lr=0.01, weight_decay=0.1)),
    "momentum": (
        lambda p, **k: O.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01, **k),
        lambda p: T.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01),
    ),
    "nesterov": (
        lambda p, **k: O.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.01, **k),
        lambda p: T.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    # the same as long as the rate is
    "classic": (
        lambda p, **k: O.SGD(p, lr=0.01, momentum=0.9, nesterov=True, classic=True, **k),
        lambda p: T.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    ),
    "adam": (
        lambda p, **k: O.Adam(p, lr=0.01, b1=0.8, b2=0.98, eps=1e-6, **k),
        lambda p: T.Adam(p, lr=0.01, betas=(0.8, 0.98), eps=1e-6),
    ),
    "adamw": (
        lambda p, **k: O.AdamW(p, lr=0.01, weight_decay=0.1, **k),
        lambda p: T.AdamW(p, lr=0.01, weight_decay=0.1),
    ),
}  # fmt: skip


def loss(weights, x):
    a, b, c = weights
    return ((x @ a + b).tanh() ** 2).sum() + ((c * c * 0.3 + c).sum() - 1) ** 2 * 0.1


def theirs(make, rates=None, dtype=torch.float32, steps=30):
    weights = [torch.tensor(w).to(dtype).requires_grad_() for w in WEIGHTS]
    optimizer = make(weights)
    for i in range(steps):
        if rates:
            optimizer.param_groups[0]["lr"] = rates[i]
        optimizer.zero_grad()
        loss(weights, torch.tensor(INPUTS[i]).to(dtype)).backward()
        optimizer.step()
    return [w.detach().float().numpy() for w in weights]


def ours(make, rates=None, jit=False, devices=(), axes=(None,) * 3, dtype=dtypes.float32, steps=30):
    weights = [Tensor(w).cast(dtype) for w in WEIGHTS]
    if devices:
        weights = [w.shard(devices, axis) for w, axis in zip(weights, axes)]
    weights = [w.realize().requires_grad_(True) for w in weights]
    optimizer = make(weights)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        loss(weights, x).backward()
        optimizer.step()

    call = TinyJit(step) if jit else step
    with Tensor.train():
        for i in range(steps):
            if rates:
                rate = Tensor([rates[i]], dtype=optimizer.lr.dtype, device=optimizer.lr.device)
                optimizer.lr.assign(rate).realize()
            x = Tensor(INPUTS[i]).cast(dtype)
            call((x.shard(devices, None) if devices else x).realize())
    return [w.float().numpy() for w in weights]


def close(got, want, tolerance=5e-6):
    for mine, other in zip(got, want):
        np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", PAIRS)
def test_steps(name):
    make, their = PAIRS[name]
    want = theirs(their)
    close(ours(make), want)
    close(ours(lambda p: make(p, fused=True)), want)
    close(ours(make, jit=True), want)
    close(ours(lambda p: make(p, fused=True), jit=True), want)


@pytest.mark.parametrize("axes", [(None, None, None), (0, None, 0), (0, None, 2)])
@pytest.mark.parametrize("name", ["nesterov", "adamw"])
def test_steps_on_shards(name, axes):
    make, their = PAIRS[name]
    close(ours(make, devices=("CPU:0", "CPU:1"), axes=axes), theirs(their))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_a_rate_that_changes(name, jit):
    make, their = PAIRS[name]
    close(ours(make, rates=RATES, jit=jit), theirs(their, rates=RATES))


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_half_precision(name):
    make, their = PAIRS[name]
    got = ours(make, dtype=dtypes.float16, steps=10)
    close(got, theirs(their, dtype=torch.float16, steps=10), 2e-3)


def test_groups():
    def make(p):
        return O.OptimizerGroup(O.SGD(p[:1], lr=0.01, momentum=0.9), O.AdamW(p[1:], lr=0.02))

    class Both:
        def __init__(self, p):
            self.parts = T.SGD(p[:1], lr=0.01, momentum=0.9), T.AdamW(p[1:], lr=0.02)

        def zero_grad(self):
            for part in self.parts:
                part.zero_grad()

        def step(self):
            for part in self.parts:
                part.step()

    close(ours(make), theirs(Both))
    close(ours(make, jit=True), theirs(Both))


def test_muon():
    """PyTorch's, which computes in bfloat16; a wide matrix, as it changes the rate of a tall one."""
    weight = WEIGHTS[2].reshape(4, 6)
    mine, other = Tensor(weight, requires_grad=True), torch.tensor(weight, requires_grad=True)
    ours_, theirs_ = (
        O.Muon([mine], lr=0.05, weight_decay=0.1),
        T.Muon([other], lr=0.05, weight_decay=0.1),
    )
    with Tensor.train():
        for i in range(10):
            x = np.random.default_rng(i).normal(size=(5, 4)).astype(np.float32)
            for optimizer, value, data in (
                (ours_, mine, Tensor(x)),
                (theirs_, other, torch.tensor(x)),
            ):
                optimizer.zero_grad()
                (data @ value).tanh().square().sum().backward()
                optimizer.step()
    change = np.abs(other.detach().numpy() - weight).max()
    np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), atol=0.05 * change)
