"""Random programs on sharded tensors against the same programs on one device.

A program is a chain of operations on two tensors, each placed in a way of its own on 2, 3 or 4 devices. Its value and the
gradients must be those of one device; or it is refused, by an error that names devices, shards or the sharded axis. The seed
of a failure is printed: `SHARD_SEED=7 SHARD_PROGRAMS=1` repeats it.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tinygrad import Tensor

_SEED = int(os.environ.get("SHARD_SEED", random.randrange(1 << 30)))
_PROGRAMS = int(os.environ.get("SHARD_PROGRAMS", "15"))
_REFUSALS = ("shard", "between devices", "same device", "several devices")


def _axis(dice: random.Random, x: Tensor) -> int:
    return dice.randrange(x.ndim)


def _slice(dice: random.Random, x: Tensor) -> tuple:
    begins = [dice.choice((0, 0, s // 2, s // 3)) for s in x.shape]
    return tuple([slice(b, dice.choice((s, s, b + (s + 1) // 2))) for b, s in zip(begins, x.shape)])


def _reshape(dice: random.Random, x: Tensor) -> Tensor:
    at = _axis(dice, x)
    if x.ndim > 1 and dice.random() < 0.5:
        at = dice.randrange(x.ndim - 1)
        return x.reshape(*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])
    factor = dice.choice([f for f in (1, 2, 3, 4) if x.shape[at] % f == 0])
    return x.reshape(*x.shape[:at], x.shape[at] // factor, factor, *x.shape[at + 1 :])


# each takes (dice, x, y) and gives a tensor of floats; y has the shape that x had at first
OPERATIONS = {
    "elementwise": lambda d, x, y: (x * 1.5 + 0.25).tanh(),
    "add": lambda d, x, y: x + y if x.shape == y.shape else x + y.sum(),
    "where": lambda d, x, y: (x > 0).where(x, x * 0.1),
    "sum": lambda d, x, y: x.sum(_axis(d, x), keepdim=d.random() < 0.5),
    "max": lambda d, x, y: x.max(_axis(d, x), keepdim=True),
    "mean": lambda d, x, y: x - x.mean(_axis(d, x), keepdim=True),
    "softmax": lambda d, x, y: x.softmax(_axis(d, x)),
    "layernorm": lambda d, x, y: x.layernorm(),
    "var": lambda d, x, y: x / (x.var(_axis(d, x), keepdim=True, correction=0) + 1).sqrt(),
    "permute": lambda d, x, y: x.permute(*d.sample(range(x.ndim), x.ndim)),
    "reshape": lambda d, x, y: _reshape(d, x),
    "slice": lambda d, x, y: x[_slice(d, x)],
    "row": lambda d, x, y: x[d.randrange(x.shape[0])] if x.ndim > 1 else x,
    "flip": lambda d, x, y: x.flip(_axis(d, x)),
    "pad": lambda d, x, y: x.pad(
        tuple((d.choice((0, 0, 2)), d.choice((0, 0, 2))) for _ in x.shape)
    ),
    "cat": lambda d, x, y: x.cat(x * 2, dim=_axis(d, x)),
    "expand": lambda d, x, y: x.unsqueeze(0).expand(3, *x.shape) if x.ndim < 4 else x,
    "matmul": lambda d, x, y: x @ x.transpose(-1, -2) if x.ndim > 1 else x.dot(x),
    "matmul of both": lambda d, x, y: x @ y.transpose(-1, -2) if x.shape == y.shape else x,
    "contiguous": lambda d, x, y: x.contiguous(),
    "index": lambda d, x, y: x[
        Tensor([0, x.shape[0] - 1, 0]).shard_like(x.sum() if isinstance(x.device, tuple) else x)
    ],
    "gather": lambda d, x, y: x.gather(0, (x.abs() * 2).clip(0, x.shape[0] - 1).int()),
    "attention": lambda d, x, y: x.scaled_dot_product_attention(x * 0.5, x) if x.ndim > 1 else x,
    "cumsum": lambda d, x, y: x.cumsum(_axis(d, x)),
    "sort": lambda d, x, y: x.sort(_axis(d, x))[0],
    "to": lambda d, x, y: x.to(x.device),
}


class Program:
    """Operations with their random choices, and where the two tensors are."""

    def __init__(self, seed: int):
        dice = random.Random(seed)
        self.count = dice.choice((2, 3, 4))
        self.shape = tuple(dice.sample((self.count * 2, 12, 4, 6), dice.choice((2, 3))))
        divided = [None, *[a for a, s in enumerate(self.shape) if s % self.count == 0]]
        self.axes = (dice.choice(divided), dice.choice(divided))
        self.steps = [
            (n, dice.random()) for n in dice.choices(list(OPERATIONS), k=dice.randint(1, 4))
        ]
        numbers = np.random.default_rng(seed)
        self.values = [numbers.standard_normal(self.shape).astype(np.float32) for _ in range(2)]

    def run(self, sharded: bool) -> list[np.ndarray]:
        """The value, and the gradients of the mean of its squares."""
        leaves = [Tensor(v, requires_grad=True) for v in self.values]
        if sharded:
            names = tuple(f"CPU:{i}" for i in range(self.count))
            for leaf, axis in zip(leaves, self.axes):
                leaf.shard_(names, axis)
        x, y = leaves
        for name, choice in self.steps:
            if x.ndim:
                x = OPERATIONS[name](random.Random(choice), x, y)
        # before the value: what is realized has no graph left to go back through
        (x * x).mean().backward()
        return [x.numpy(), *[leaf.grad.numpy() for leaf in leaves if leaf.grad is not None]]

    def __repr__(self) -> str:
        steps = ", ".join(name for name, _ in self.steps)
        return f"{self.shape} along {self.axes} on {self.count} devices: {steps}"


def test_random_programs():
    print(f"SHARD_SEED={_SEED}")
    refused = 0
    for seed in range(_SEED, _SEED + _PROGRAMS):
        program = Program(seed)
        where = f"SHARD_SEED={seed} {program}"
        want = program.run(sharded=False)
        try:
            got = program.run(sharded=True)
        except (AssertionError, RuntimeError, ValueError) as error:
            refused += 1
            assert any(word in str(error) for word in _REFUSALS), f"{where}: {error!r}"
            continue
        assert len(got) == len(want), where
        for one, other in zip(got, want):
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4, err_msg=where)
    print(f"{refused} of {_PROGRAMS} were refused")
    assert refused <= max(1, _PROGRAMS // 2)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_operation_across_and_along(name):
    """Alone, along an axis that no shard cuts, every operation is done; along the cut one it is right or refused."""
    for axis in (0, 1):
        program = Program(0)
        program.count, program.shape, program.axes = 2, (8, 12), (axis, axis)
        program.values = [
            np.random.default_rng(s).standard_normal((8, 12), np.float32) for s in (1, 2)
        ]
        done = 0
        for choice in range(4):
            program.steps = [(name, choice)]
            want = program.run(sharded=False)
            try:
                got = program.run(sharded=True)
            except (AssertionError, RuntimeError, ValueError) as error:
                assert any(word in str(error) for word in _REFUSALS), error
                continue
            done += 1
            for one, other in zip(got, want):
                np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4, err_msg=str(program))
        # one row of many is on one device only
        assert done or (name, axis) == ("row", 0), f"{name} along axis {axis} is never done"
