"""What each arithmetic op computes, on Python numbers.

`python_alu[op]` is the exact operation; `exec_alu` then rounds or wraps the result to a dtype. This
is what folds constants, and the reference that rules and renderers are tested against. Integers
have C semantics: quotients round toward zero, and division by zero gives 0 instead of a trap.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad.dtype import DType, Invalid, truncate
from tinygrad.helpers import cdiv, cmod
from tinygrad.uop import GroupOp, Ops

_INFINITY = float("inf")
_NAN = float("nan")


def _exp2(x: float) -> float:
    try:
        return 2.0**x
    except OverflowError:
        return _INFINITY


def _log2(x: float) -> float:
    if x > 0:
        return math.log2(x)
    return -_INFINITY if x == 0 else _NAN


def _sqrt(x: float) -> float:
    return _NAN if x < 0 else math.sqrt(x)


def _sin(x: float) -> float:
    return math.sin(x) if math.isfinite(x) else _NAN


def _reciprocal(x: float) -> float:
    return math.copysign(_INFINITY, x) if x == 0 else 1 / x


def _trunc(x: float) -> float:
    if not isinstance(x, float):
        return x
    # copysign: what lies between -1 and 0 becomes -0.0
    return math.copysign(float(math.trunc(x)), x) if math.isfinite(x) else x


def _fdiv(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or math.isnan(x):
        return _NAN
    return math.copysign(_INFINITY, x) * math.copysign(1.0, y)


def _pow(x: float, y: float) -> float:
    try:
        result = x**y
    except ZeroDivisionError:
        odd = float(y).is_integer() and int(y) % 2 == 1
        return math.copysign(_INFINITY, x) if odd else _INFINITY
    except OverflowError:
        negative = x < 0 and float(y).is_integer() and int(y) % 2 == 1
        return -_INFINITY if negative else _INFINITY
    return _NAN if isinstance(result, complex) else result


def _maximum(x: Any, y: Any) -> Any:
    if x != x or y != y:
        return _NAN
    return x if x >= y else y


def _shift_left(x: int, y: int) -> int:
    return x << y if y >= 0 else 0


def _shift_right(x: int, y: int) -> int:
    return x >> y if y >= 0 else 0


def _threefry(counter: int, key: int) -> int:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC'11): the low word is the first one."""
    word = (1 << 32) - 1
    keys = [key & word, (key >> 32) & word]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    low = (counter + keys[0]) & word
    high = ((counter >> 32) + keys[1]) & word
    for group in range(5):
        for distance in rotations[group % 2]:
            low = (low + high) & word
            high = ((high << distance) | (high >> (32 - distance))) & word
            high ^= low
        low = (low + keys[(group + 1) % 3]) & word
        high = (high + keys[(group + 2) % 3] + group + 1) & word
    return (high << 32) | low


python_alu: dict[Ops, Callable] = {
    Ops.EXP2: _exp2,
    Ops.LOG2: _log2,
    Ops.SIN: _sin,
    Ops.SQRT: _sqrt,
    Ops.RECIPROCAL: _reciprocal,
    Ops.NEG: operator.neg,
    Ops.TRUNC: _trunc,
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.FDIV: _fdiv,
    Ops.IDIV: cdiv,
    Ops.MOD: cmod,
    Ops.POW: _pow,
    Ops.MAX: _maximum,
    Ops.SHL: _shift_left,
    Ops.SHR: _shift_right,
    Ops.AND: operator.and_,
    Ops.OR: operator.or_,
    Ops.XOR: operator.xor,
    Ops.CMPLT: operator.lt,
    Ops.CMPNE: operator.ne,
    Ops.CMPEQ: operator.eq,
    Ops.THREEFRY: _threefry,
    Ops.WHERE: lambda condition, x, y: x if condition else y,
    Ops.MULACC: lambda x, y, z: x * y + z,
}


def _exec_scalar(op: Ops, dtype: DType, operands: Sequence, truncate_output: bool) -> Any:
    if op is not Ops.WHERE and any(value is Invalid for value in operands):
        return Invalid
    result = python_alu[op](*operands)
    if not truncate_output or result is Invalid:
        return result
    return truncate[dtype](result) if dtype in truncate else result


def exec_alu(op: Ops, dtype: DType, operands: Sequence, truncate_output: bool = True) -> Any:
    """The value of `op` on constants of `dtype`, rounded or wrapped to it.

    For a vector dtype an operand is a tuple of lanes, or one value for all lanes, and the result is
    a tuple. With `truncate_output=False` an integer result may leave the range of the dtype.
    """
    if op not in GroupOp.ALU:
        raise KeyError(f"{op} is no arithmetic op: expected one of GroupOp.ALU")
    if dtype.count == 1:
        return _exec_scalar(op, dtype.scalar(), operands, truncate_output)
    lanes = [x if isinstance(x, tuple) else (x,) * dtype.count for x in operands]
    scalar = dtype.scalar()
    return tuple(_exec_scalar(op, scalar, lane, truncate_output) for lane in zip(*lanes))
