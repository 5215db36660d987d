"""Evaluates node graphs over arrays with the semantics of the op set.

In: a node and an array for each of its leaves (variables). Out: the array of its values. Integers wrap,
IDIV and MOD truncate and give 0 for a zero divisor, floats round after every operation, index is int64
(values of the tests stay far inside it). Shared by the tests of the rules and of the decompositions.
"""

from __future__ import annotations

import numpy as np

from tinygrad.dtype import Invalid, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

_NUMPY = {
    dtypes.bool: np.bool_,
    dtypes.int8: np.int8,
    dtypes.uint8: np.uint8,
    dtypes.int16: np.int16,
    dtypes.uint16: np.uint16,
    dtypes.int32: np.int32,
    dtypes.uint32: np.uint32,
    dtypes.int64: np.int64,
    dtypes.uint64: np.uint64,
    dtypes.index: np.int64,
    dtypes.float16: np.float16,
    dtypes.float32: np.float32,
    dtypes.float64: np.float64,
}


def numpy_type(dtype):
    """The array type that holds one lane of `dtype`."""
    return _NUMPY[dtype.scalar()]


def _divide(x, y):
    safe = np.where(y == 0, np.ones_like(y), y)
    quotient = x // safe
    if np.issubdtype(x.dtype, np.signedinteger):
        # numpy rounds down
        inexact = quotient * safe != x
        quotient = quotient + ((x < 0) != (safe < 0)).astype(x.dtype) * inexact
    return np.where(y == 0, np.zeros_like(x), quotient).astype(x.dtype)


def _remainder(x, y):
    return np.where(y == 0, np.zeros_like(x), x - _divide(x, y) * y).astype(x.dtype)


def _maximum(x, y):
    return np.maximum(x, y)


_OPS = {
    Ops.ADD: lambda x, y: x | y if x.dtype == np.bool_ else x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x & y if x.dtype == np.bool_ else x * y,
    Ops.FDIV: lambda x, y: x / y,
    Ops.IDIV: _divide,
    Ops.MOD: _remainder,
    Ops.MAX: _maximum,
    Ops.SHL: lambda x, y: x << y,
    Ops.SHR: lambda x, y: x >> y,
    Ops.AND: lambda x, y: x & y,
    Ops.OR: lambda x, y: x | y,
    Ops.XOR: lambda x, y: x ^ y,
    Ops.CMPLT: lambda x, y: x < y,
    Ops.CMPNE: lambda x, y: x != y,
    Ops.CMPEQ: lambda x, y: x == y,
    Ops.WHERE: lambda c, x, y: np.where(c, x, y),
    Ops.MULACC: lambda x, y, z: x * y + z,
    Ops.NEG: lambda x: -x,
    Ops.TRUNC: np.trunc,
    Ops.SQRT: np.sqrt,
    Ops.RECIPROCAL: lambda x: (np.ones_like(x) / x).astype(x.dtype),
    Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2,
    Ops.SIN: np.sin,
    Ops.POW: np.power,
}


def _constant(u: UOp, shape):
    scalar = numpy_type(u.dtype)
    if u.arg is Invalid:
        return np.zeros(shape, scalar)
    if np.issubdtype(scalar, np.floating):
        return np.full(shape, u.arg, np.float64).astype(scalar)
    if scalar is np.bool_:
        return np.full(shape, bool(u.arg))
    bits = 8 * np.dtype(scalar).itemsize
    value = int(u.arg) % (1 << bits)
    return np.full(shape, value, np.uint64).astype(f"u{bits // 8}").view(scalar)


def _lanes(u: UOp, values: dict):
    if u.op is Ops.VECTORIZE:
        if u.dtype.vcount == 1:
            return values[u.src[0]]
        return np.stack([values[s] for s in u.src], axis=-1)
    if u.op is Ops.GEP:
        source = values[u.src[0]]
        if u.src[0].dtype.vcount == 1:
            source = source[..., None]
        picked = source[..., list(u.arg)]
        return picked if u.dtype.vcount > 1 else picked[..., 0]
    raise NotImplementedError(f"the evaluator has no {u.op}; got {u}")


def evaluate(root: UOp, leaves: dict[UOp, np.ndarray]) -> np.ndarray:
    """The values of `root`. Every leaf that is no constant must be in `leaves`; vectors have their
    lanes in the last axis."""
    shape = next(iter(leaves.values())).shape if leaves else (1,)
    values: dict[UOp, np.ndarray] = dict(leaves)
    with np.errstate(all="ignore"):
        for u in root.toposort():
            if u in values:
                continue
            if u.op is Ops.DEFINE_VAR and u.vmin == u.vmax:
                values[u] = _constant(UOp.const(u.dtype, u.vmin), shape)
            elif u.op in (Ops.CONST, Ops.VCONST):
                if u.op is Ops.VCONST:
                    parts = [_constant(UOp.const(u.dtype.scalar(), v), shape) for v in u.arg]
                    values[u] = np.stack(parts, axis=-1)
                else:
                    count = u.dtype.vcount
                    values[u] = _constant(u, shape if count == 1 else (*shape, count))
            elif u.op is Ops.CAST:
                values[u] = values[u.src[0]].astype(numpy_type(u.dtype))
            elif u.op is Ops.BITCAST:
                values[u] = values[u.src[0]].view(numpy_type(u.dtype))
            elif u.op in _OPS:
                values[u] = np.asarray(_OPS[u.op](*(values[s] for s in u.src))).astype(
                    numpy_type(u.dtype)
                )
            else:
                values[u] = _lanes(u, values)
    return values[root]
