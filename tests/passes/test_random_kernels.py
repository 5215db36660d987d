"""Random kernels give the same values however their axes are run.

A kernel is drawn from a seed: a shape, loads through strided, permuted, reversed, padded or gathered
indices, some arithmetic, perhaps a reduction. The reference is the same kernel with plain loops on the
scalar target; every variant splits axes into lanes of random sizes, with tails, for a random target.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

from .kernels import LOOP, REDUCE, TARGETS, UNROLL, UPCAST, Axes, ScalarTarget, buffer, run

SEEDS = range(int(os.environ.get("KERNEL_SEEDS", "60")))
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)


class Kernel:
    """One drawn kernel; `build` writes it with given forms of its axes."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.out_sizes = [rng.choice(SIZES) for _ in range(rng.randint(1, 2))]
        self.red_sizes = [rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2)))]
        self.op = rng.choice((Ops.ADD, Ops.MAX))
        self.reads = [self._draw_read(rng) for _ in range(rng.randint(1, 3))]
        self.arith = rng.choice(("sum", "product", "choice"))
        self.after = rng.choice((None, "double", "square"))
        self.gated = rng.random() < 0.25
        self.permuted_store = rng.random() < 0.3

    def _draw_read(self, rng):
        axes = list(range(len(self.out_sizes) + len(self.red_sizes)))
        used = sorted(rng.sample(axes, rng.randint(1, len(axes))), key=lambda _: rng.random())
        kind = rng.choice(("plain", "plain", "plain", "reversed", "padded", "strided", "divided"))
        return used, kind

    @property
    def sizes(self):
        return self.out_sizes + self.red_sizes

    def read_size(self, read):
        used, kind = read
        size = 1
        for a in used:
            size *= self.sizes[a]
        return size * (2 if kind == "strided" else 1)

    def _index(self, read, idx):
        used, kind = read
        flat = UOp.const(dtypes.index, 0)
        for a in used:
            flat = flat * self.sizes[a] + idx[a]
        total = self.read_size(read)
        if kind == "reversed":
            return (total - 1) - flat
        if kind == "strided":
            return flat * 2
        if kind == "divided":
            return (flat // 3) * 2 % total
        if kind == "padded":
            last = used[-1]
            return (flat - 1).valid((idx[last] >= 1) & (idx[last] < self.sizes[last]))
        return flat

    def value(self, idx):
        reads = [
            buffer(i + 1, self.read_size(r)).index(self._index(r, idx))
            for i, r in enumerate(self.reads)
        ]
        total = reads[0]
        for r in reads[1:]:
            if self.arith == "sum":
                total = total + r
            elif self.arith == "product":
                total = total * r
            else:
                total = (total < r).where(total, r * 0.5)
        return total

    def store(self, idx, reduce_ranges):
        total = self.value(idx)
        if reduce_ranges:
            total = total.reduce(*reduce_ranges, arg=self.op)
        if self.after == "double":
            total = total * 2.0
        elif self.after == "square":
            total = total * total
        order = list(range(len(self.out_sizes)))
        if self.permuted_store:
            order.reverse()
        flat = UOp.const(dtypes.index, 0)
        for a in order:
            flat = flat * self.sizes[a] + idx[a]
        if self.gated:
            flat = flat.valid(idx[0] < max(self.sizes[0] - 1, 1))
        return buffer(0, self.out_size).index(flat, ptr=True).store(total)

    @property
    def out_size(self):
        size = 1
        for s in self.out_sizes:
            size *= s
        return size

    def plain(self):
        axes = Axes()
        out = [axes(s, LOOP) for s in self.out_sizes]
        red = [axes(s, REDUCE) for s in self.red_sizes]
        return self.store(out + red, red).end(*out).sink()

    def variant(self, rng):
        axes = Axes()
        red_idx, red_ranges = [], []
        forms = []
        for s in self.out_sizes:
            lanes = rng.randint(1, s)
            forms.append(self._pieces(axes, s, lanes, rng.random() < 0.7))
        for s in self.red_sizes:
            divisors = [d for d in range(1, s + 1) if s % d == 0]
            lanes = rng.choice(divisors)
            if rng.random() < 0.7:
                idx, ranges = axes.split(s, lanes, REDUCE, UNROLL)
            else:
                idx = axes(s, REDUCE)
                ranges = [idx]
            red_idx.append(idx)
            red_ranges += ranges
        stores = []
        for choice in self._products(forms):
            idx = [c[0] for c in choice]
            ranges = [r for c in choice for r in c[1]]
            stores.append(self.store(idx + red_idx, red_ranges).end(*ranges))
        return UOp.sink(*stores)

    @staticmethod
    def _pieces(axes, size, lanes, upcast):
        """An axis as whole tiles and a tail: a list of (index, ranges)."""
        if not upcast:
            r = axes(size, LOOP)
            return [(r, [r])]
        outer, inner = axes(size // lanes, LOOP), axes(lanes, UPCAST)
        pieces = [(outer * lanes + inner, [outer, inner])]
        if rest := size % lanes:
            tail = axes(rest, UPCAST)
            pieces.append((tail + (size - rest), [tail]))
        return pieces

    @staticmethod
    def _products(forms):
        if not forms:
            return [[]]
        return [[f, *rest] for f in forms[0] for rest in Kernel._products(forms[1:])]


def draw_arrays(kernel, seed):
    rng = np.random.default_rng(seed)
    sizes = [kernel.read_size(r) for r in kernel.reads]
    return [rng.integers(-3, 4, n).astype(np.float32) for n in sizes]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernel(seed):
    kernel = Kernel(seed)
    arrays = draw_arrays(kernel, seed)
    want = np.full(kernel.out_size, -99, np.float32)
    run(kernel.plain(), ScalarTarget(), want, *arrays)
    rng = random.Random(seed + 1)
    for _ in range(3):
        ren = rng.choice(TARGETS)
        got = np.full(kernel.out_size, -99, np.float32)
        run(kernel.variant(rng), ren, got, *arrays)
        np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}, {type(ren).__name__}")
