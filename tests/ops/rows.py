"""Rows of the tables: a method, its reference, and how close it has to be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

wide = np.longdouble


@dataclass(frozen=True)
class Function:
    """A method of one tensor, elementwise.

    `reference` maps a longdouble array to one. `ulps` bounds the error in float32 and float64; narrow
    floats, computed in float32, are within `narrow` of theirs. `lost` is on top, in units of the
    smallest normal number: results near it may come from a quotient that was infinite.
    """

    name: str
    reference: Callable[[Any], Any]
    ulps: float = 0.0
    narrow: float = 0.6
    lost: float = 0.0
    absolute: float = 0.0
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = ",".join(f"{k}={v}" for k, v in self.kwargs.items())
        return f"{self.name}({given})" if given else self.name


def sigmoid(x):
    """The logistic function without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small / (1 + small), 1 / (1 + small))


def softplus(x):
    """`log(1 + exp(x))` without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x):
    """By its series, and by the continued fraction of the complement (Abramowitz and Stegun 7.1.5,
    7.1.14), in longdouble."""
    size = np.abs(np.asarray(x, dtype=wide))
    near, term = np.zeros_like(size), np.where(size < 3, size, 0)
    square = np.where(size < 3, size, 0) ** 2
    for k in range(80):
        near = near + term / (2 * k + 1)
        term = -term * square / (k + 1)
    near = near * 2 / np.sqrt(wide(math.pi) + wide(1.2246467991473532e-16))
    far_size = np.clip(size, 3, 20)
    tail = far_size
    for k in range(60, 0, -1):
        tail = far_size + wide(k) / 2 / tail
    far = 1 - np.exp(-far_size * far_size) / tail / np.sqrt(wide(math.pi))
    return np.sign(x) * np.where(size < 3, near, far)


def gelu(x):
    """The tanh form, by the logistic function."""
    return x * sigmoid(2 * np.sqrt(2 / wide(math.pi)) * (x + wide("0.044715") * x**3))


def elu(x, alpha=1.0):
    """`x` above zero, else `alpha * (exp(x) - 1)`."""
    return np.where(x > 0, x, wide(alpha) * np.expm1(np.minimum(x, 0)))


def mish(x):
    """`x * tanh(softplus(x))`."""
    return x * np.tanh(softplus(x))
