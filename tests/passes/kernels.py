"""Kernel ASTs for the tests of the lowering, with the axis types that an optimiser would choose."""

from __future__ import annotations

import numpy as np

from tinygrad.codegen import full_rewrite_to_sink, line_rewrite, linearize, pm_linearize_cleanups
from tinygrad.codegen.target import PlainTarget
from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, KernelInfo, UOp

from .machine import Machine

LOOP, REDUCE, UPCAST, UNROLL = (
    AxisType.LOOP,
    AxisType.REDUCE,
    AxisType.UPCAST,
    AxisType.UNROLL,
)


class ScalarTarget(PlainTarget):
    """No vectors at all, and no launch indices."""

    supports_float4 = False
    has_local = False
    code_for_op = dict.fromkeys(
        [
            Ops.ADD,
            Ops.MUL,
            Ops.IDIV,
            Ops.MOD,
            Ops.CMPLT,
            Ops.CMPNE,
            Ops.WHERE,
            Ops.MAX,
            Ops.AND,
            Ops.OR,
            Ops.XOR,
            Ops.SQRT,
            Ops.RECIPROCAL,
            Ops.TRUNC,
            Ops.SHL,
            Ops.SHR,
        ]
    )


class Float4Target(ScalarTarget):
    """Vector accesses of four, scalar arithmetic."""

    supports_float4 = True


class VectorTarget(ScalarTarget):
    """Vector registers of 16 bytes."""

    vector_bytes = 16


class WideTarget(ScalarTarget):
    """Vector registers of 64 bytes."""

    vector_bytes = 64


TARGETS = [ScalarTarget(), Float4Target(), VectorTarget(), WideTarget()]


def buffer(slot, size, dtype=dtypes.float32):
    return UOp(Ops.DEFINE_GLOBAL, dtype.ptr(size), (), slot)


class Axes:
    """Hands out ranges with fresh axis ids."""

    def __init__(self):
        self.count = 0

    def __call__(self, size, kind=LOOP):
        self.count += 1
        return UOp.range(size, self.count - 1, kind)

    def split(self, size, inner, outer_kind, inner_kind):
        """An index over `size` as (expression, ranges): whole tiles of `inner` lanes."""
        assert size % inner == 0
        ranges = [self(size // inner, outer_kind)] if size != inner else []
        lanes = self(inner, inner_kind)
        return (ranges[0] * inner + lanes if ranges else lanes), [*ranges, lanes]


def instructions(sink, ren):
    lowered = full_rewrite_to_sink(sink.replace(arg=sink.arg or KernelInfo()), ren, optimize=False)
    return line_rewrite(linearize(lowered), pm_linearize_cleanups)


def run(sink, ren, *arrays, **variables):
    """Lowers and runs; gives the instruction list."""
    lines = instructions(sink, ren)
    Machine(lines, dict(enumerate(arrays)), variables).run()
    return lines


def floats(*shape, seed=0):
    """Small integers as floats, so that every order of summation gives the same."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)
