"""Random graphs of views, arithmetic and reductions against NumPy; a failure names its seed."""

import random

import numpy as np
import pytest
from tests.unit.test_schedule_values import Machine

from tinygrad.dtype import dtypes
from tinygrad.helpers import Context
from tinygrad.uop.ops import Ops, UOp

SEEDS = range(150)
LIMIT = 2**26  # larger numbers would overflow soon


def random_factors(rnd: random.Random, n: int) -> tuple[int, ...]:
    sizes = []
    while n > 1:
        sizes.append(rnd.choice([d for d in range(2, n + 1) if n % d == 0]))
        n //= sizes[-1]
    if rnd.random() < 0.3:
        sizes.insert(rnd.randrange(len(sizes) + 1), 1)
    return tuple(sizes) or (1,)


def shrunk(rnd, u, n):
    bounds = []
    for size in n.shape:
        begin = rnd.randrange(size)
        bounds.append((begin, rnd.randrange(begin + 1, size + 1)))
    return u.shrink(tuple(bounds)), n[tuple(slice(*b) for b in bounds)]


def padded(rnd, u, n):
    room = tuple((rnd.randrange(2), rnd.randrange(2)) for _ in n.shape)
    return u.pad(room), np.pad(n, room)


def reshaped(rnd, u, n):
    shape = random_factors(rnd, n.size)
    return u.reshape(shape), n.reshape(shape)


def permuted(rnd, u, n):
    order = list(range(n.ndim))
    rnd.shuffle(order)
    return u.permute(tuple(order)), n.transpose(order)


def flipped(rnd, u, n):
    axis = rnd.randrange(n.ndim)
    return u.flip(axis), np.flip(n, axis)


def expanded(rnd, u, n):
    shape = tuple(rnd.choice([1, 3]) if size == 1 else size for size in n.shape)
    return u.expand(shape), np.broadcast_to(n, shape)


def reduced(rnd, u, n):
    axes = tuple(axis for axis in range(n.ndim) if rnd.random() < 0.5)
    if rnd.random() < 0.5:
        return u.r(Ops.ADD, axes), n.sum(axis=axes, keepdims=True)
    return u.r(Ops.MAX, axes), n.max(axis=axes, keepdims=True)


def scaled(rnd, u, n):
    return u * 2 + 1, n * 2 + 1


def stored(rnd, u, n):
    return u.contiguous(), n


def folded(rnd, u, n):
    return u + u.flip(0), n + np.flip(n, 0)


GROWING = [padded, expanded]
STEPS = [shrunk, reshaped, permuted, flipped, reduced, scaled, stored, folded, *GROWING]


def random_tensors(rnd: random.Random, machine: Machine) -> list[tuple[UOp, np.ndarray]]:
    pool = []
    for _ in range(3):
        shape = [rnd.choice([1, 2, 3, 4]) for _ in range(rnd.randrange(1, 4))]
        u = machine.tensor(*shape, dtype=dtypes.int)
        pool.append((u, machine.read(u).astype(np.int64)))
    for _ in range(rnd.randrange(5, 40)):
        u, n = rnd.choice(pool) if rnd.random() < 0.4 else pool[-1]
        step = rnd.choice([s for s in STEPS if s not in GROWING or n.size <= 300])
        u, n = step(rnd, u, n)
        partners = [p for p in pool if p[1].shape == n.shape]
        if partners and rnd.random() < 0.3:
            other, value = rnd.choice(partners)
            u, n = u + other, n + value
        if np.abs(n).max(initial=0) < LIMIT:
            pool.append((u, n))
    return pool


@pytest.mark.parametrize("pcontig", [0, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(seed, pcontig):
    rnd, machine = random.Random(seed), Machine(seed)
    pool = random_tensors(rnd, machine)
    outputs = [pool[-1], rnd.choice(pool)]
    with Context(PCONTIG=pcontig):
        done = machine.run(*[u for u, _ in outputs])
    for u, (_, expected) in zip(done, outputs):
        np.testing.assert_array_equal(machine.value(u), expected, err_msg=f"seed {seed}")


def random_value(rnd, tensors, values, depth=0):
    kind = rnd.randrange(6)
    if depth > 2 or kind == 0:
        at = rnd.randrange(len(tensors))
        return tensors[at], values[at]
    u, n = random_value(rnd, tensors, values, depth + 1)
    if kind == 1:
        return u.permute((1, 0)), n.T
    if kind == 2:
        return u.flip(0), n[::-1]
    if kind == 3:
        return u.r(Ops.ADD, (1,)).expand((4, 4)), np.broadcast_to(n.sum(1, keepdims=True), (4, 4))
    if kind == 4:
        return u.shrink(((1, 4), (0, 4))).pad(((0, 1), (0, 0))), np.pad(n[1:], ((0, 1), (0, 0)))
    other, value = random_value(rnd, tensors, values, depth + 1)
    return u + other, n + value


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_of_assignments(seed):
    """Assignments to whole tensors and to rows of them, mixed with readers of all versions."""
    rnd, machine = random.Random(seed), Machine(seed)
    tensors = [machine.tensor(4, 4, dtype=dtypes.int) for _ in range(3)]
    values = [machine.read(u) for u in tensors]
    outputs = []
    for _ in range(rnd.randrange(2, 8)):
        u, n = random_value(rnd, tensors, values)
        at = rnd.randrange(3)
        if rnd.random() < 0.4:
            outputs.append((u + 1, n + 1))
        else:
            tensors[at], values[at] = tensors[at].assign(u), n.copy()
    done = machine.run(*[u for u, _ in outputs], *tensors)
    for u, (_, expected) in zip(done, [*outputs, *zip(tensors, values)]):
        np.testing.assert_array_equal(machine.value(u), expected, err_msg=f"seed {seed}")
