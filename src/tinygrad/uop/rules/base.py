"""How a rule is written, and the constant arithmetic that rules share.

`rule` marks a function with its name and domain; `describe` reads the marks back (used by the tests
that prove every rule). `fold_alu` evaluates an op whose operands are constants.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import NamedTuple

from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp, UPat, exec_alu

ALL = "all"
INTS = "ints"  # fixed width integers and index
INDEX = "index"
BOOL = "bool"
FLOATS = "floats"
NUMBERS = "numbers"  # INTS and FLOATS
BITS = "bits"  # INTS and BOOL


class Rule(NamedTuple):
    """The marks of one rule."""

    name: str
    domain: str
    unsafe: str | None
    function: Callable


def rule(
    name: str, pattern: UPat, fn: Callable, domain: str = ALL, unsafe: str | None = None
) -> tuple[UPat, Callable]:
    """A rewrite rule: `fn` gets what `pattern` captured and returns a node, or None (no match).

    `domain` names the dtypes over which the rule is proved, `unsafe` the reason why values may
    change. The pair is what a PatternMatcher takes.
    """
    if hasattr(fn, "rule_name"):
        # one function in several rules: each pair carries its own marks
        assert isinstance(fn, types.FunctionType), f"{name} needs a function, got {fn}"
        clone = types.FunctionType(
            fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
        )
        clone.__kwdefaults__ = fn.__kwdefaults__
        fn = clone
    for mark, value in (("rule_name", name), ("domain", domain), ("unsafe", unsafe)):
        setattr(fn, mark, value)
    return pattern, fn


def describe(pair: tuple[UPat, Callable]) -> Rule | None:
    """The marks of a pair made by `rule`, None for a plain pair."""
    fn = pair[1]
    marks = vars(fn) if isinstance(fn, types.FunctionType) else {}
    if "rule_name" not in marks:
        return None
    return Rule(marks["rule_name"], marks["domain"], marks["unsafe"], fn)


def is_integer(dtype: DType) -> bool:
    """True for integers of any kind, lanes ignored; not for bool."""
    return dtypes.is_int(dtype.scalar())


def is_integral(dtype: DType) -> bool:
    """True for integers and bools, lanes ignored: dtypes without NaN."""
    return is_integer(dtype) or dtype.scalar() is dtypes.bool


def is_const(u: UOp) -> bool:
    """True for scalar and vector constants."""
    return u.op in (Ops.CONST, Ops.VCONST)


def lane(u: UOp, i: int):
    """The value of lane `i` of a constant."""
    return u.arg[i] if u.op is Ops.VCONST else u.arg


def _evaluate(op: Ops, dtype: DType, values: list):
    """One lane of a folded op. Invalid is absorbing, except that no bool is ever invalid."""
    if any(v is Invalid for v in values):
        if op is Ops.WHERE and values[0] is not Invalid:
            return values[1] if values[0] else values[2]
        return False if dtype is dtypes.bool else Invalid
    if op in (Ops.IDIV, Ops.MOD) and values[1] == 0 and dtype is dtypes.index:
        raise ZeroDivisionError(
            f"index expression {values[0]} {'//' if op is Ops.IDIV else '%'} 0: the divisor of an "
            "index must not be zero"
        )
    return exec_alu(op, dtype, values)


def fold_alu(op: Ops, dtype: DType, *consts: UOp) -> UOp:
    """The constant `op(*consts)` of type `dtype`; each operand is a CONST or VCONST."""
    scalar = dtype.scalar()
    if dtype.vcount == 1 or all(c.op is Ops.CONST for c in consts):
        value = _evaluate(op, scalar, [c.arg for c in consts])
        return UOp.const(dtype, value)
    lanes = [_evaluate(op, scalar, [lane(c, i) for c in consts]) for i in range(dtype.vcount)]
    return UOp.const(dtype, tuple(lanes))


# ops that `exec_alu` evaluates
FOLDABLE = GroupOp.ALU - {Ops.THREEFRY}
