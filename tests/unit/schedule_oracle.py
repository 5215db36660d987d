"""Runs kernel ASTs with NumPy, straight from their meaning; for tests of the scheduler alone.

Every loop of a kernel is an axis of an array, every node is evaluated on the whole grid. Slow and
simple: nothing of the code generator is used.
"""

from __future__ import annotations

import numpy as np

from tinygrad.dtype import PtrDType, dtypes
from tinygrad.uop.ops import Ops, UOp

_NUMPY = {
    dtypes.bool: np.bool_,
    dtypes.int: np.int32,
    dtypes.float: np.float32,
    dtypes.long: np.int64,
    dtypes.uint: np.uint32,
    dtypes.ulong: np.uint64,
    dtypes.uchar: np.uint8,
    dtypes.char: np.int8,
    dtypes.short: np.int16,
    dtypes.ushort: np.uint16,
    dtypes.half: np.float16,
    dtypes.double: np.float64,
    dtypes.index: np.int64,
}


def numpy_dtype(dtype):
    return _NUMPY[dtype.base.scalar()]


def _truncated(a, b):
    """C division: towards zero; by zero gives zero."""
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient)


_ALU = {
    Ops.ADD: lambda a, b: a | b if a.dtype == bool else a + b,
    Ops.MUL: lambda a, b: a & b if a.dtype == bool else a * b,
    Ops.SUB: lambda a, b: a - b,
    Ops.MAX: np.maximum,
    Ops.IDIV: _truncated,
    Ops.MOD: lambda a, b: a - b * _truncated(a, b),
    Ops.CMPLT: np.less,
    Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
    Ops.WHERE: np.where,
    Ops.EXP2: np.exp2,
    Ops.LOG2: np.log2,
    Ops.SQRT: np.sqrt,
    Ops.SIN: np.sin,
    Ops.RECIPROCAL: lambda a: (1 / a).astype(a.dtype),
    Ops.NEG: np.negative,
    Ops.TRUNC: np.trunc,
    Ops.FDIV: np.divide,
    Ops.POW: np.power,
}
_REDUCE = {Ops.ADD: np.sum, Ops.MUL: np.prod, Ops.MAX: np.max}


class _Grid:
    """One kernel on its memory; `values` maps nodes to arrays over all loops."""

    def __init__(self, ast: UOp, memory: list[np.ndarray], variables: dict[str, int]):
        self.memory, self.variables = memory, variables
        self.values: dict[UOp, np.ndarray] = {}
        nodes = ast.toposort()
        self.loops = [u for u in nodes if u.op is Ops.RANGE]
        for u in nodes:
            self._visit(u)

    def _visit(self, u: UOp) -> None:
        if u.op in (Ops.END, Ops.SINK, Ops.GROUP):
            return
        if u.op is Ops.STORE:
            self._store(*u.src)
        elif u.op is Ops.INDEX and isinstance(u.dtype, PtrDType):
            return
        else:
            self.values[u] = self._value(u)

    def _value(self, u: UOp):
        if u.op is Ops.DEFINE_GLOBAL:
            return self.memory[u.arg]
        if u.op is Ops.DEFINE_VAR:
            return np.array(self.variables[u.arg[0]], dtype=numpy_dtype(u.dtype))
        if u.op is Ops.CONST:
            if type(u.arg) not in (bool, int, float):
                return None
            return np.array(u.arg).astype(numpy_dtype(u.dtype))
        args = [self.values[s] for s in u.src]
        if u.op is Ops.RANGE:
            shape = [1] * len(self.loops)
            shape[self.loops.index(u)] = int(args[0])
            return np.arange(int(args[0]), dtype=np.int64).reshape(shape)
        if u.op is Ops.BUFFERIZE:
            return self._array(u, args[0])
        if u.op is Ops.INDEX and u.src[0].op is Ops.BUFFERIZE:
            return self._array_element(*args)
        if u.op is Ops.INDEX:
            return self._load(u, *args)
        if u.op is Ops.CAST:
            return args[0].astype(numpy_dtype(u.dtype))
        if u.op is Ops.BITCAST:
            return np.ascontiguousarray(args[0]).view(numpy_dtype(u.dtype))
        if u.op is Ops.REDUCE:
            axes = tuple(self.loops.index(s) for s in u.src[1:])
            full = [a.shape[axis] for axis, a in zip(axes, args[1:])]
            value = args[0].reshape((1,) * (len(self.loops) - args[0].ndim) + args[0].shape)
            want = list(value.shape)
            for axis, size in zip(axes, full):
                want[axis] = size
            grown = np.broadcast_to(value, want)
            return _REDUCE[u.arg](grown, axis=axes, keepdims=True).astype(value.dtype)
        if u.op is Ops.WHERE and args[2] is None:
            return np.where(args[0], args[1], -1)  # Invalid
        return np.asarray(_ALU[u.op](*args)).astype(numpy_dtype(u.dtype))

    def _array(self, u: UOp, value):
        """The value with the array's loops as one leading axis."""
        axes = [self.loops.index(loop) for loop in u.src[1:]]
        value = value.reshape((1,) * (len(self.loops) - value.ndim) + value.shape)
        full = list(value.shape)
        for axis, loop in zip(axes, u.src[1:]):
            full[axis] = self.values[loop].shape[axis]
        value = np.broadcast_to(value, full)
        rest = [1 if axis in axes else size for axis, size in enumerate(full)]
        front = np.moveaxis(value, axes, range(len(axes)))
        return front.reshape(-1, *rest)

    def _array_element(self, array, position):
        position = np.broadcast_to(position, np.broadcast_shapes(position.shape, array.shape[1:]))
        array = np.broadcast_to(array, (len(array), *position.shape))
        return np.take_along_axis(array, position[None], axis=0)[0]

    def _load(self, u: UOp, memory, position):
        inside = (position >= 0) & (position < memory.size)
        gated = u.src[1].op is Ops.WHERE
        assert gated or inside.all(), (
            f"read outside of memory of {memory.size}: {u.src[1].render()}"
        )
        return np.where(inside, memory[np.where(inside, position, 0)], 0).astype(memory.dtype)

    def _store(self, target: UOp, value: UOp) -> None:
        memory, position = self.values[target.src[0]], self.values[target.src[1]]
        position, value = np.broadcast_arrays(position, self.values[value])
        kept = position >= 0
        flat = position[kept]
        assert flat.size == np.unique(flat).size, "an element is stored twice"
        memory[flat] = value[kept]


def run_kernel(ast: UOp, memory: list[np.ndarray], variables: dict[str, int]) -> None:
    """Runs a SINK on flat arrays, one for each slot."""
    with np.errstate(all="ignore"):
        _Grid(ast, memory, variables)
