"""A total order on nodes that depends on their structure only.

Used by the commutative rules: the same operands must come out in the same order in every process,
thread and hash seed, so neither addresses nor creation counters take part. Nodes are unique per
structure, hence the comparison follows one path: at each level the first operand that differs.
"""

from __future__ import annotations

from tinygrad._core import compare
from tinygrad.uop.ops import UOp


def comes_before(a: UOp, b: UOp) -> bool:
    """True when `a` sorts strictly before `b`: by op, argument, dtype, then operands."""
    return compare(a, b) < 0
