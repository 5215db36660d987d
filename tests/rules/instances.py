"""Nodes that a pattern matches, made from the pattern itself.

`Instances(seed).of(pattern, dtype)` builds a random node with the shape of `pattern`: leaves become
variables, constants or small expressions of `dtype`. A node may still fail the rule's own predicate.
"""

from __future__ import annotations

import random

import numpy as np
from evaluator import numpy_type

from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp, UPat

LANES = 4
EVALUATED = (
    dtypes.bool,
    dtypes.int8,
    dtypes.uint8,
    dtypes.int32,
    dtypes.uint32,
    dtypes.int64,
    dtypes.uint64,
    dtypes.index,
    dtypes.float32,
    dtypes.float64,
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 4.0, 0.1, -7.25)
_INTS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 12, 16, -1, -1, -2, -3, -4, -8)


_BIT_OPS = {Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.IDIV, Ops.MOD}
_FLOAT_OPS = {Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV, Ops.POW, Ops.TRUNC}
_NO_BOOL_OPS = {Ops.NEG, Ops.SUB, Ops.SHL, Ops.SHR, Ops.IDIV, Ops.MOD}


class IllTypedError(Exception):
    """The pattern has no node with the dtype asked for."""


def _is_legal(op: Ops, dtype: DType) -> bool:
    if op is Ops.THREEFRY:
        return False
    if dtypes.is_float(dtype):
        return op not in _BIT_OPS
    if op in _FLOAT_OPS and op is not Ops.TRUNC:
        return False
    return not (dtype is dtypes.bool and op in _NO_BOOL_OPS)


class Instances:
    """A source of random nodes; `variables` are the leaves of the last one."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.variables: list[UOp] = []

    def of(self, pattern: UPat, dtype: DType) -> UOp:
        """A node shaped like `pattern` whose free choices have `dtype`."""
        self.variables = []
        self.free = dtype
        return self._build(pattern, self._result_type(pattern, dtype), {})

    def leaves(self, count: int) -> dict[UOp, np.ndarray]:
        """Edge values in all combinations where that is feasible, then random ones."""
        columns = [self._values(v) for v in self.variables]
        size = int(np.prod([len(c) for c in columns])) if columns else 1
        if size <= 70000:
            grid = np.meshgrid(*columns, indexing="ij") if columns else []
            return {v: g.ravel() for v, g in zip(self.variables, grid)}
        generator = np.random.default_rng(self.rng.randrange(2**32))
        return {v: generator.choice(c, count) for v, c in zip(self.variables, columns)}

    # ---- values

    def _values(self, v: UOp) -> np.ndarray:
        scalar = numpy_type(v.dtype)
        if v.dtype is dtypes.bool:
            return np.array([False, True])
        if dtypes.is_float(v.dtype):
            info = np.finfo(scalar)
            edges = [
                *_FLOATS,
                np.inf,
                -np.inf,
                np.nan,
                info.tiny,
                info.smallest_subnormal,
                info.max,
                -info.max,
                1 + info.eps,
                1e-3,
                12345.6,
            ]
            return np.array(edges, scalar)
        low, high = int(v.vmin), int(v.vmax)
        if high - low <= 255:
            return np.arange(low, high + 1).astype(scalar)
        edges = {low, low + 1, high, high - 1, -1, 0, 1, 2, 3, 127, 128, 255, 256}
        return np.array(sorted(e for e in edges if low <= e <= high), np.object_).astype(scalar)

    # ---- shapes

    def _forced(self, pattern: UPat) -> DType | None:
        """The dtype that the pattern itself asks for."""
        if pattern.is_any:
            return self._forced(pattern.sources[0])
        if pattern.dtype is not None:
            scalars = [dt for dt in pattern.dtype if dt in EVALUATED]
            return self.free if self.free in scalars else self.rng.choice(scalars)
        ops = pattern.op or ()
        if ops and all(op in GroupOp.Comparison for op in ops):
            return dtypes.bool
        if Ops.CAST in ops or Ops.BITCAST in ops or not pattern.sources:
            return None
        sources = pattern.sources[1:] if Ops.WHERE in ops else pattern.sources
        return next((dt for dt in map(self._forced, sources) if dt is not None), None)

    def _result_type(self, pattern: UPat, dtype: DType) -> DType:
        return self._forced(pattern) or dtype

    # ---- nodes

    def _build(self, pattern: UPat, dtype: DType, bound: dict[str, UOp]) -> UOp:
        if pattern.name is not None and pattern.name in bound:
            return bound[pattern.name]
        if pattern.is_any:
            u = self._build(self.rng.choice(pattern.sources), dtype, bound)
        elif pattern.op is None:
            u = self._leaf(dtype)
        else:
            u = self._node(pattern, dtype, bound)
        if pattern.name is not None:
            bound[pattern.name] = u
        return u

    def _leaf(self, dtype: DType) -> UOp:
        if dtype.vcount > 1:
            if self.rng.random() < 0.6:
                return UOp(Ops.VECTORIZE, dtype, (self._leaf(dtype.scalar()),) * dtype.vcount)
            return UOp(
                Ops.VECTORIZE, dtype, tuple(self._leaf(dtype.scalar()) for _ in range(dtype.vcount))
            )
        kind = self.rng.randrange(6)
        if kind == 0:
            return self._constant(dtype)
        existing = [v for v in self.variables if v.dtype is dtype]
        if len(existing) >= 2 or (existing and kind < 3):
            return self.rng.choice(existing)
        v = self._variable(dtype)
        if dtype is dtypes.index and kind == 5:
            other = self.rng.choice(self.variables)
            if other.dtype is not dtype:
                other = v
            return self.rng.choice(
                (v + 1, v // 3, v % 4, v * 4 + other, v * 3 + other * 6, v * 8 + other % 4)
            )
        if dtype is dtypes.bool and kind > 3:
            return self._leaf(dtypes.index) < self.rng.choice((1, 2, 4))
        return v + 1 if kind == 5 and dtypes.is_int(dtype) else v

    def _variable(self, dtype: DType) -> UOp:
        low, high = dtypes.min(dtype), dtypes.max(dtype)
        if dtype is dtypes.index or (dtypes.is_int(dtype) and self.rng.random() < 0.4):
            low = 0 if dtypes.is_unsigned(dtype) else self.rng.choice((0, 0, 1, -5))
            high = low + self.rng.choice((1, 3, 7, 30))
        v = UOp.variable(f"v{len(self.variables)}", low, high, dtype)
        self.variables.append(v)
        return v

    def _constant(self, dtype: DType) -> UOp:
        scalar = dtype.scalar()
        if scalar is dtypes.bool:
            return UOp.const(dtype, self.rng.random() < 0.5)
        if dtypes.is_float(scalar):
            return UOp.const(dtype, self.rng.choice(_FLOATS))
        value = self.rng.choice(_INTS)
        return UOp.const(dtype, abs(value) if dtypes.is_unsigned(scalar) else value)

    def _node(self, pattern: UPat, dtype: DType, bound: dict[str, UOp]) -> UOp:
        legal = [op for op in pattern.op if _is_legal(op, dtype.scalar())]
        if not legal:
            raise IllTypedError(f"none of {pattern.op} is an operation on {dtype}")
        op = self.rng.choice(legal)
        if op in GroupOp.Comparison:
            dtype = dtypes.bool.vec(dtype.vcount)
        if op in (Ops.CONST, Ops.VCONST):
            if pattern.arg is None:
                return self._constant(dtype)
            if pattern.arg is Invalid:
                return UOp.invalid()
            return UOp.const(dtype, pattern.arg)
        if op is Ops.DEFINE_VAR:
            return UOp.variable("single", 3, 3, dtype)
        if op in (Ops.GEP, Ops.VECTORIZE):
            return self._lanes(op, pattern, dtype, bound)
        return UOp(op, dtype, self._operands(op, pattern, dtype, bound), pattern.arg)

    def _lanes(self, op: Ops, pattern: UPat, dtype: DType, bound: dict[str, UOp]) -> UOp:
        if op is Ops.GEP:
            count = self.rng.choice((1, 1, 2, LANES))
            inner = (pattern.sources or (UPat(),))[0]
            source = self._build(inner, dtype.scalar().vec(LANES), bound)
            picked = tuple(self.rng.randrange(source.dtype.vcount) for _ in range(count))
            if count == source.dtype.vcount and self.rng.random() < 0.8:
                picked = tuple(range(count))
            return UOp(Ops.GEP, source.dtype.scalar().vec(count), (source,), picked)
        if pattern.sources is not None:
            u = self._build(pattern.sources[0], dtype.scalar(), bound)
            return UOp(Ops.VECTORIZE, u.dtype.scalar().vec(1), (u,))
        kind = self.rng.randrange(3)
        if kind == 0:
            parts = tuple(self._constant(dtype.scalar()) for _ in range(LANES))
        elif kind == 1:
            vector = self._leaf(dtype.scalar().vec(LANES))
            lanes = range(LANES)
            parts = tuple(UOp(Ops.GEP, dtype.scalar(), (vector,), (i,)) for i in lanes)
        else:
            parts = tuple(self._leaf(dtype.scalar()) for _ in range(LANES))
        return UOp(Ops.VECTORIZE, dtype.scalar().vec(LANES), parts)

    def _operands(self, op: Ops, pattern: UPat, dtype: DType, bound: dict[str, UOp]) -> tuple:
        count = (
            1
            if op in GroupOp.Unary | {Ops.CAST, Ops.BITCAST}
            else (3 if op in GroupOp.Ternary else 2)
        )
        if pattern.sources is None:
            patterns = [UPat()] * count
        elif pattern.source_mode == "every":
            patterns = [pattern.sources[0]] * count
        else:
            patterns = list(pattern.sources)
            if pattern.source_mode == "permuted" and self.rng.random() < 0.5:
                patterns.reverse()
        wanted = self._operand_types(op, patterns, dtype)
        return tuple(self._build(p, dt, bound) for p, dt in zip(patterns, wanted))

    def _operand_types(self, op: Ops, patterns: list[UPat], dtype: DType) -> list[DType]:
        lanes = dtype.vcount
        if op is Ops.WHERE:
            return [dtypes.bool.vec(lanes), dtype, dtype]
        if op in (Ops.CAST, Ops.BITCAST):
            forced = self._forced(patterns[0])
            if forced is None:
                same_size = [
                    dt
                    for dt in (
                        dtypes.int8,
                        dtypes.uint8,
                        dtypes.float32,
                        dtypes.int32,
                        dtypes.bool,
                        dtypes.index,
                    )
                    if op is Ops.CAST or dt.itemsize == dtype.scalar().itemsize
                ]
                forced = self.rng.choice(same_size or [dtype.scalar()])
            return [forced.scalar().vec(lanes)]
        if op in GroupOp.Comparison:
            forced = next((dt for dt in map(self._forced, patterns) if dt is not None), self.free)
            return [forced.scalar().vec(lanes)] * len(patterns)
        return [dtype] * len(patterns)
