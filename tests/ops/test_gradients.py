"""Gradients of every differentiable method against central differences, twice; ties, zeros and edges.

First derivatives: for random weights of the results and random directions, the slope along a direction
equals the inner product of gradient and direction. Second derivatives: the same for the gradient itself.
All in float64, on the PYTHON device, which compiles nothing; `tests/oracle` compares with PyTorch on the
default device.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from tests.ops.table_gradients import CONSTANT, OTHER, ROWS, Row

from tinygrad import Tensor
from tinygrad.device import Device

STEP = 1e-5


@pytest.fixture(autouse=True)
def interpreted():
    """Everything runs on the interpreter: small and different each time, so compiling would be the cost."""
    before, Device.DEFAULT = Device.DEFAULT, "PYTHON"
    yield
    Device.DEFAULT = before


def drawn(row: Row) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(str(row).encode()))
    return [rng.uniform(low, high, shape) for shape, low, high in row.inputs]


class Weighted:
    """The row's function, made a number by weights of its results."""

    def __init__(self, row: Row, seed: int):
        self.fn, self.rng, self.weights = row.fn, np.random.default_rng(seed), None

    def __call__(self, *tensors: Tensor) -> Tensor:
        out = self.fn(*tensors)
        if self.weights is None:
            self.weights = self.rng.uniform(0.5, 1.5, out.shape)
        return (out * Tensor(self.weights)).sum()


def along(arrays, directions, amount: float) -> list[Tensor]:
    return [Tensor(a + amount * d) for a, d in zip(arrays, directions)]


def inner(grads, directions) -> float:
    return sum(float((g.numpy() * d).sum()) for g, d in zip(grads, directions))


def gradients(value: Tensor, tensors) -> list[Tensor]:
    return value.gradient(*tensors, materialize_grads=True)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_first_derivative(row):
    arrays = drawn(row)
    f = Weighted(row, 1)
    tensors = [Tensor(a) for a in arrays]
    grads = gradients(f(*tensors), tensors)
    for a, g in zip(arrays, grads):
        assert g.shape == a.shape and g.dtype == tensors[0].dtype
    rng = np.random.default_rng(2)
    for _ in range(2):
        directions = [rng.normal(size=a.shape) for a in arrays]
        ends = [f(*along(arrays, directions, s * STEP)).item() for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(inner(grads, directions), slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("row", [r for r in ROWS if r.second], ids=str)
def test_second_derivative(row):
    """Of the gradient's inner product with a fixed direction: Hessian times vector."""
    arrays = drawn(row)
    f = Weighted(row, 1)
    rng = np.random.default_rng(3)
    fixed, moved = ([rng.normal(size=a.shape) for a in arrays] for _ in range(2))

    def slope(tensors) -> Tensor:
        grads = gradients(f(*tensors), tensors)
        return sum((g * Tensor(d)).sum() for g, d in zip(grads, fixed))

    tensors = [Tensor(a) for a in arrays]
    grads = gradients(slope(tensors), tensors)
    ends = [slope(along(arrays, moved, s * STEP)).item() for s in (1, -1)]
    want = (ends[0] - ends[1]) / (2 * STEP)
    np.testing.assert_allclose(inner(grads, moved), want, rtol=1e-6, atol=1e-6)


def test_every_public_method_is_in_a_row_or_a_list():
    public = {n for n in dir(Tensor) if not n.startswith("_")}
    rows = {r.method for r in ROWS} - {"getitem", "setitem"}
    named = rows | CONSTANT | OTHER
    assert named == public, f"not here: {public - named}, no method: {named - public}"
    assert not rows & (CONSTANT | OTHER) and not CONSTANT & OTHER
