"""Proofs about index expressions with the z3 solver.

`uops_to_z3` translates nodes to solver expressions over the integers and adds what is known of
their leaves (bounds of variables, counters, loaded values) to the solver. `validate_index` asks
whether an access can leave its buffer. z3 is an optional dependency, imported when first used; what
has no integer meaning (floats, loaded data) becomes an unknown of its sort.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

from tinygrad.dtype import DType, ImageDType, Invalid, PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp

_fresh = itertools.count()


@functools.cache
def _z3() -> Any:
    try:
        import z3
    except ImportError as e:
        raise ImportError(
            "bounds checks need the z3-solver package: pip install z3-solver, or set IGNORE_OOB=1"
        ) from e
    return z3


def z3_available() -> bool:
    """True when the solver can be imported."""
    try:
        _z3()
    except ImportError:
        return False
    return True


def z3_cdiv(a, b):
    """`a / b` rounded toward zero. z3 divides such that the remainder is never negative, which is
    the same for `a >= 0`."""
    return _z3().If(a < 0, -((-a) / b), a / b)


def z3_cmod(a, b):
    """The remainder that belongs to `z3_cdiv`."""
    return a - z3_cdiv(a, b) * b


def _shift_amount(y) -> int | None:
    return y.as_long() if _z3().is_int_value(y) else None


def _shift_left(x, y):
    amount = _shift_amount(y)
    return None if amount is None else x * (1 << amount)


def _shift_right(x, y):
    # the divisor is positive: z3 rounds down
    amount = _shift_amount(y)
    return None if amount is None else x / (1 << amount)


def _bitwise_and(x, y):
    z3 = _z3()
    if z3.is_bool(x):
        return z3.And(x, y)
    if z3.is_int_value(x):
        x, y = y, x
    mask = y.as_long() if z3.is_int_value(y) else None
    # a mask of low ones; z3's remainder is never negative, as two's complement needs
    return x % (mask + 1) if mask is not None and mask >= 0 and mask & (mask + 1) == 0 else None


def _bitwise_or(x, y):
    return _z3().Or(x, y) if _z3().is_bool(x) else None


def _exclusive_or(x, y):
    return _z3().Xor(x, y) if _z3().is_bool(x) else None


# op -> function of solver expressions; None as a result means "not expressible"
_INTEGER_OPS: dict[Ops, Callable] = {
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.NEG: lambda x: -x,
    Ops.TRUNC: lambda x: x,
    Ops.IDIV: z3_cdiv,
    Ops.MOD: z3_cmod,
    Ops.SHL: _shift_left,
    Ops.SHR: _shift_right,
    Ops.AND: _bitwise_and,
    Ops.OR: _bitwise_or,
    Ops.XOR: _exclusive_or,
    Ops.MULACC: lambda x, y, z: x * y + z,
}


def _as_number(x):
    """Booleans take part in arithmetic as 0 and 1."""
    z3 = _z3()
    return z3.If(x, z3.IntVal(1), z3.IntVal(0)) if z3.is_bool(x) else x


class _Translation:
    """One pass over a graph. `values` maps nodes to solver expressions."""

    def __init__(self, solver: Any):
        self.solver = solver
        self.values: dict[UOp, Any] = {}

    def add(self, u: UOp) -> None:
        """Translates `u`, whose sources are translated."""
        value = self._leaf(u) if u.op not in GroupOp.Elementwise else self._operation(u)
        self.values[u] = self._unknown(u) if value is None else value

    # ---- leaves

    def _bounded(self, name: str, low, high):
        v = _z3().Int(name)
        for limit in (
            (low <= v) if low is not None else None,
            (v <= high) if high is not None else None,
        ):
            if limit is not None:
                self.solver.add(limit)
        return v

    def _unknown(self, u: UOp):
        """A value of which only the sort and the bounds of the node are known."""
        z3, name = _z3(), f"unknown{next(_fresh)}"
        scalar = u.dtype.scalar() if not isinstance(u.dtype, PtrDType) else dtypes.void
        if scalar is dtypes.bool:
            return z3.Bool(name)
        if dtypes.is_int(scalar):
            if scalar is dtypes.index:
                return self._bounded(name, None, None)
            return self._bounded(name, *_declared_range(u, scalar))
        return z3.Real(name)

    def _leaf(self, u: UOp):
        z3 = _z3()
        if u.op is Ops.CONST:
            return self._constant(u)
        if u.op is Ops.DEFINE_VAR and dtypes.is_int(u.dtype.scalar()):
            return self._bounded(u.arg[0], u.vmin, u.vmax)
        if u.op is Ops.SPECIAL:
            v = self._bounded(str(u.arg), 0, None)
            self.solver.add(v < _as_number(self.values[u.src[0]]))
            return v
        if u.op is Ops.RANGE:
            v = self._bounded("r" + "_".join(str(part) for part in u.arg), 0, None)
            self.solver.add(v < _as_number(self.values[u.src[0]]))
            return v
        if u.op is Ops.BIND:
            return self.values[u.src[0]]
        if u.op in (Ops.DEFINE_VAR,) and u.dtype.scalar() is dtypes.bool:
            return z3.Bool(u.arg[0])
        return None

    def _constant(self, u: UOp):
        z3 = _z3()
        if u.arg is Invalid or u.dtype.vcount != 1:
            return None
        if isinstance(u.arg, bool):
            return z3.BoolVal(u.arg) if u.dtype is dtypes.bool else z3.IntVal(int(u.arg))
        if isinstance(u.arg, int) and dtypes.is_int(u.dtype):
            return z3.IntVal(u.arg)
        if isinstance(u.arg, (int, float)) and math.isfinite(u.arg):
            return z3.RealVal(u.arg)
        return None

    # ---- operations

    def _operation(self, u: UOp):
        z3 = _z3()
        src = [self.values[s] for s in u.src]
        if u.op is Ops.CAST:
            return self._cast(u, src[0])
        if u.op is Ops.WHERE:
            return self._choice(u, src)
        if any(z3.is_real(x) for x in src) or dtypes.is_float(u.dtype.scalar()):
            # rounding has no counterpart in the reals
            return None
        if u.op in GroupOp.Comparison:
            return self._comparison(u.op, *src)
        if u.op is Ops.MAX:
            x, y = (_as_number(v) for v in src)
            return z3.If(x < y, y, x)
        if u.op not in _INTEGER_OPS:
            return None
        if u.dtype.scalar() is not dtypes.bool:
            src = [_as_number(x) for x in src]
        return _INTEGER_OPS[u.op](*src)

    def _comparison(self, op: Ops, x, y):
        if op is Ops.CMPLT or not (_z3().is_bool(x) and _z3().is_bool(y)):
            x, y = _as_number(x), _as_number(y)
        if op is Ops.CMPLT:
            return x < y
        return x != y if op is Ops.CMPNE else x == y

    def _choice(self, u: UOp, src: list):
        z3 = _z3()
        cond, x, y = src
        # of a missing element nothing is ever asked
        if u.src[2].op is Ops.CONST and u.src[2].arg is Invalid:
            return x
        if u.src[1].op is Ops.CONST and u.src[1].arg is Invalid:
            return y
        return z3.If(cond, x, y) if x.sort() == y.sort() else None

    def _cast(self, u: UOp, x):
        z3 = _z3()
        source, target = u.src[0].dtype.scalar(), u.dtype.scalar()
        if isinstance(u.dtype, PtrDType) or z3.is_real(x):
            return None
        if target is dtypes.bool:
            return x if z3.is_bool(x) else x != 0
        if not dtypes.is_int(target):
            return None
        number = _as_number(x)
        if target is dtypes.index or source is dtypes.bool or _holds(target, u.src[0]):
            return number
        size = 1 << (8 * target.itemsize)
        return (number - target.min) % size + target.min


def _holds(dtype: DType, u: UOp) -> bool:
    return dtype.min <= u.vmin and u.vmax <= dtype.max


def _declared_range(u: UOp, scalar: DType) -> tuple[int, int]:
    return max(u.vmin, scalar.min), min(u.vmax, scalar.max)


def uops_to_z3(solver, *uops: UOp) -> list:
    """Solver expressions for `uops`; facts about their leaves are added to `solver`."""
    translation = _Translation(solver)
    for root in uops:
        # what is loaded is unknown, so its address does not matter here
        inside = root.toposort(lambda n: n.op is not Ops.LOAD)
        for u in (x for node in (*inside, root) for x in (*node.src, node)):
            if u not in translation.values and (u in inside or u.op is Ops.LOAD):
                translation.add(u)
    return [translation.values[root] for root in uops]


def _gate_of(idx: UOp) -> tuple[UOp, UOp | None]:
    """The index of an access and the condition under which it happens."""
    if idx.op is Ops.WHERE and idx.src[2].op is Ops.CONST and idx.src[2].arg is Invalid:
        return idx.src[1], idx.src[0]
    return idx, None


def validate_index(buf: UOp, idx: UOp, gate: UOp | None = None) -> bool:
    """True when `buf[idx]` stays inside the buffer wherever `gate` holds, or where nothing can be
    said: pointers of unknown size and images. Raises nothing; the caller reports."""
    dtype = buf.dtype
    if not isinstance(dtype, PtrDType) or isinstance(dtype, ImageDType) or dtype.size == -1:
        return True
    idx, inner = _gate_of(idx)
    if idx.dtype.vcount != 1 or (idx.op is Ops.CONST and idx.arg is Invalid):
        return True
    gates = [g for g in (gate, inner) if g is not None]
    if 0 <= idx.vmin and idx.vmax < dtype.size:
        return True
    z3 = _z3()
    solver = z3.Solver()
    solver.set("timeout", 10_000)
    index, *conditions = uops_to_z3(solver, idx, *gates)
    for condition in conditions:
        solver.add(condition)
    solver.add(z3.Or(index < 0, index >= dtype.size))
    # "unknown" is no proof, but no counterexample either
    return solver.check() != z3.sat
