"""The optimizer steps of the preview training domain."""

from __future__ import annotations

from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_TRAINING = Domain.AI_ONNX_PREVIEW_TRAINING


def _columns(tensors, kinds: int) -> list[tuple[Tensor, ...]]:
    """The inputs come grouped by kind: all parameters, all gradients, all states."""
    count = len(tensors) // kinds
    return [tuple(tensors[k * count + i] for k in range(kinds)) for i in range(count)]


def _grouped(rows) -> tuple[Tensor, ...]:
    return tuple(value for column in zip(*rows) for value in column)


@operator("Adagrad", domain=_TRAINING)
def adagrad(rate, turn, *tensors, decay_factor: float = 0.0, epsilon: float = 0.0,
            norm_coefficient: float = 0.0):  # fmt: skip
    """A step that shrinks with the squares of all gradients so far."""
    shrunk = rate / (1 + turn * decay_factor)
    rows = []
    for x, gradient, squares in _columns(tensors, 3):
        full = gradient + norm_coefficient * x
        after = squares + full * full
        rows.append((x - shrunk * full / (after.sqrt() + epsilon), after))
    return _grouped(rows)


@operator("Adam", domain=_TRAINING)
def adam(rate, turn, *tensors, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
         norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0):  # fmt: skip
    """A step by running means of gradients and their squares."""
    steps = turn.cast(rate.dtype)
    # without steps taken there is nothing to correct
    corrected = rate * (1 - beta**steps).sqrt() / (1 - alpha**steps)
    size = (turn > 0).where(corrected, rate)
    rows = []
    for x, gradient, mean, square in _columns(tensors, 4):
        full = gradient + norm_coefficient * x
        mean = alpha * mean + (1 - alpha) * full
        square = beta * square + (1 - beta) * full * full
        moved = x - size * mean / (square.sqrt() + epsilon)
        rows.append(((1 - norm_coefficient_post) * moved, mean, square))
    return _grouped(rows)


@operator("Momentum", domain=_TRAINING)
def momentum_step(rate, turn, *tensors, alpha: float, beta: float, mode: str = "standard",
                  norm_coefficient: float = 0.0):  # fmt: skip
    """A step by a running sum of gradients."""
    rows = []
    for x, gradient, speed in _columns(tensors, 3):
        full = gradient + norm_coefficient * x
        share = (turn > 0).where(beta, 1.0)
        after = alpha * speed + share * full
        direction = full + alpha * after if mode == "nesterov" else after
        rows.append((x - rate * direction, after))
    return _grouped(rows)
