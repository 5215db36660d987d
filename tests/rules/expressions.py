"""Random expressions for the tests of the rules.

`Grower(seed, dtype)` grows trees over a few bounded variables. Bounds stay small enough that an int64
holds every value, also those of unsimplified intermediate results.
"""

from __future__ import annotations

import random

import numpy as np
from evaluator import numpy_type

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

LIMIT = 2**40


class Grower:
    """Makes random expressions of one dtype; remembers its variables in `variables`."""

    def __init__(self, seed: int, dtype=dtypes.index, negative: bool = True):
        self.rng = random.Random(seed)
        self.dtype = dtype
        self.variables = []
        for name in "abcd":
            negative = negative and not dtypes.is_unsigned(dtype)
            low = self.rng.choice((0, 0, 0, 1, -3, -8) if negative else (0, 0, 1, 2))
            high = low + self.rng.choice((1, 2, 3, 7, 12, 31))
            if dtype is not dtypes.index and self.rng.random() < 0.5:
                # all values: arithmetic wraps
                low, high = dtype.min, dtype.max
            self.variables.append(UOp.variable(name, low, high, dtype))

    def constant(self) -> UOp:
        value = self.rng.choice((0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 12, 16, -1, -2, -3, -4, -7))
        if dtypes.is_unsigned(self.dtype):
            value = abs(value)
        return UOp.const(self.dtype, value)

    def divisor(self) -> UOp:
        value = self.rng.choice((1, 2, 2, 3, 4, 4, 5, 6, 8, 12, -2, -3, -4))
        return UOp.const(self.dtype, abs(value) if dtypes.is_unsigned(self.dtype) else value)

    def condition(self, depth: int) -> UOp:
        kind = self.rng.randrange(5)
        if kind == 0 and depth > 0:
            return self.condition(depth - 1) & self.condition(depth - 1)
        if kind == 1 and depth > 0:
            return self.condition(depth - 1) | self.condition(depth - 1)
        if kind == 2:
            return self.condition(depth - 1).logical_not() if depth > 0 else self.condition(0)
        left = self.number(max(depth - 1, 0))
        right = self.constant() if self.rng.random() < 0.7 else self.number(max(depth - 1, 0))
        return left.alu(self.rng.choice((Ops.CMPLT, Ops.CMPLT, Ops.CMPNE)), right)

    def number(self, depth: int) -> UOp:
        """An expression of at most `depth` levels that stays inside LIMIT."""
        while True:
            u = self._number(depth)
            if -LIMIT < u.vmin and u.vmax < LIMIT:
                return u

    def _number(self, depth: int) -> UOp:
        if depth == 0:
            return self.constant() if self.rng.random() < 0.25 else self.rng.choice(self.variables)
        a = self.number(depth - 1)
        kind = self.rng.randrange(13)
        if kind < 3:
            return a + self.number(depth - 1)
        if kind < 5:
            return a * self.constant()
        if kind == 5:
            return a + self.constant()
        if kind < 8:
            return a // self.divisor()
        if kind < 10:
            return a % self.divisor()
        if kind == 10:
            return a.maximum(self.number(depth - 1))
        if kind == 11:
            return self.condition(depth - 1).where(a, self.number(depth - 1))
        b = self.rng.choice(self.variables)
        return a // b if b.vmin > 0 else a * b

    def leaves(self, count: int) -> dict[UOp, np.ndarray]:
        """Arrays of values of the variables: all corners, then random points."""
        corners = [
            [v.vmin if bit >> i & 1 else v.vmax for i, v in enumerate(self.variables)]
            for bit in range(1 << len(self.variables))
        ]
        points = corners + [
            [self.rng.randint(v.vmin, v.vmax) for v in self.variables] for _ in range(count)
        ]
        columns = np.array(points).T
        scalar = numpy_type(self.dtype)
        return {v: column.astype(scalar) for v, column in zip(self.variables, columns)}
