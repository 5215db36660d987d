"""A total order on nodes that depends on their structure only.

Used by the commutative rules: the same operands must come out in the same order in every process,
thread and hash seed, so neither addresses nor creation counters take part. Nodes are unique per
structure, hence the comparison follows one path: at each level the first operand that differs.
"""

from __future__ import annotations

from tinygrad.uop.ops import UOp


def _argument_key(arg: object) -> tuple:
    """Arguments of one type compare by value where they can, else by their text."""
    if arg is None:
        return (0,)
    if isinstance(arg, (bool, int, float)):
        return (1, arg, type(arg).__name__)
    if isinstance(arg, str):
        return (2, arg)
    if isinstance(arg, tuple):
        return (3, tuple(_argument_key(item) for item in arg))
    return (4, type(arg).__name__, repr(arg))


def comes_before(a: UOp, b: UOp) -> bool:
    """True when `a` sorts strictly before `b`: by op, argument, dtype, then operands."""
    while a is not b:
        if a.op is not b.op:
            return a.op < b.op
        if a.arg is not b.arg:
            key_a, key_b = _argument_key(a.arg), _argument_key(b.arg)
            if key_a != key_b:
                return key_a < key_b
        if a.dtype is not b.dtype:
            return a.dtype < b.dtype
        src_a, src_b = a.src, b.src
        differing = next(((x, y) for x, y in zip(src_a, src_b) if x is not y), None)
        if differing is None:
            if len(src_a) != len(src_b):
                return len(src_a) < len(src_b)
            return repr(a.tag) < repr(b.tag)
        a, b = differing
    return False
