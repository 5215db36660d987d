"""Layer-wise optimizers, whose sizes of steps PyTorch does not have, against their formulas in NumPy."""

import numpy as np
import pytest

from tinygrad import Tensor, nn

SHAPES = ((4, 3), (3,), (2, 3, 2))
STEPS = 6


def draws(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in SHAPES]


def ratio(p, g, scale: float, decay: float) -> float:
    size, slope = np.linalg.norm(p), np.linalg.norm(g)
    return scale * size / (slope + decay * size) if size > 0 and slope > 0 else 1.0


def lars(
    params, gradients, lr=0.5, momentum=0.9, decay=0.02, trust=0.01, nesterov=False, classic=True
):
    """You et al., arXiv:1708.03888, algorithm 1."""
    speed = [np.zeros_like(p) for p in params]
    for grads in gradients:
        for i, g in enumerate(grads):
            rate = lr * ratio(params[i], g, trust, decay)
            g = g + decay * params[i]
            speed[i] = momentum * speed[i] + (rate * g if classic else g)
            change = (rate * g if classic else g) + momentum * speed[i] if nesterov else speed[i]
            params[i] = params[i] - (change if classic else rate * change)
    return params


def lamb(params, gradients, lr=0.05, b1=0.9, b2=0.99, eps=1e-4, decay=0.1, adam=False):
    """You et al., arXiv:1904.00962, algorithm 2; without the ratio it is AdamW."""
    m, v = ([np.zeros_like(p) for p in params] for _ in range(2))
    for step, grads in enumerate(gradients, 1):
        for i, g in enumerate(grads):
            m[i] = b1 * m[i] + (1 - b1) * g
            v[i] = b2 * v[i] + (1 - b2) * g * g
            change = (
                m[i] / (1 - b1**step) / (np.sqrt(v[i] / (1 - b2**step)) + eps) + decay * params[i]
            )
            rate = lr if adam else lr * ratio(params[i], change, 1.0, 0.0)
            params[i] = params[i] - rate * change
    return params


CASES = {
    "lars": (lambda p: nn.optim.LARS(p, 0.5, weight_decay=0.02, tcoef=0.01), lars, {}),
    "lars, nesterov": (
        lambda p: nn.optim.LARS(p, 0.5, weight_decay=0.02, tcoef=0.01, nesterov=True), lars, {"nesterov": True},
    ),
    "lars, rate on the update": (
        lambda p: nn.optim.LARS(p, 0.5, weight_decay=0.02, tcoef=0.01, classic=False), lars, {"classic": False},
    ),
    "lamb": (lambda p: nn.optim.LAMB(p, 0.05, b2=0.99, eps=1e-4, weight_decay=0.1), lamb, {}),
    "lamb as adam": (
        lambda p: nn.optim.LAMB(p, 0.05, b2=0.99, eps=1e-4, weight_decay=0.1, adam=True), lamb, {"adam": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_formula(name):
    make, formula, options = CASES[name]
    start, gradients = draws(0), [draws(1 + i) for i in range(STEPS)]
    start[1] *= 0  # a parameter of length zero takes the rate as it is
    params = [Tensor(p.astype(np.float32), requires_grad=True) for p in start]
    optimizer = make(params)
    with Tensor.train():
        for grads in gradients:
            for p, g in zip(params, grads):
                p.grad = Tensor(g.astype(np.float32))
            optimizer.step()
    for got, want in zip(params, formula(start, gradients, **options)):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)
