"""A total order on nodes that depends on their structure only.

Used by the commutative rules: the same operands must come out in the same order in every process,
thread and hash seed, so neither addresses nor creation counters take part. Nodes are unique per
structure, hence the comparison follows one path: at each level the first operand that differs.
"""

from __future__ import annotations

from tinygrad._core import compare
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp


def _argument_before(a: object, b: object) -> bool | None:
    """The order of two arguments, None where they are equal."""
    if type(a) is type(b) and isinstance(a, (int, str)):
        # the common case, without building keys
        return None if a == b else a < b  # type: ignore[operator]
    key_a, key_b = _argument_key(a), _argument_key(b)
    return None if key_a == key_b else key_a < key_b


def comes_before(a: UOp, b: UOp) -> bool:
    """True when `a` sorts strictly before `b`: by op, argument, dtype, then operands."""
    return compare(a, b) < 0
