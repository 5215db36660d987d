"""The simplifiers, put together from the rules of `uop/rules`.

- `symbolic_simple`: folds that look at one or two nodes and always shrink the graph.
- `symbolic`: adds index algebra: linear forms, division, limits, canonical operand order.
- `sym`: adds rules that move casts and lanes, for kernels.
- `commutative`: only the order of operands. `pm_simplify_valid`: what conditions say about the
  expressions they guard.

Each contains the one before it. All are pure: no context, no environment, no side effects, and
running one twice changes nothing the second time. Called by the schedule, by codegen and through
`UOp.simplify`. The rules themselves live in `uop/rules/<family of the root op>.py`.
"""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat, graph_rewrite
from tinygrad.uop.rules import (
    add,
    cast,
    commute,
    compare,
    const,
    divide,
    invalid,
    logic,
    logistic,
    minmax,
    misc,
    mul,
    power,
    rule,
    valid,
    vector,
    where,
)
from tinygrad.uop.rules.valid import parse_valid, simplify_valid, uop_given_valid

__all__ = [
    "commutative",
    "gep_pushing",
    "invalid_gate",
    "parse_valid",
    "pm_simplify_valid",
    "simplify",
    "simplify_valid",
    "sym",
    "symbolic",
    "symbolic_simple",
    "uop_given_valid",
]

# before: everything else, because Invalid * 0 is Invalid and not 0
invalid_gate = PatternMatcher(invalid.rules)

commutative = PatternMatcher(commute.rules)

gep_pushing = PatternMatcher(vector.identity_rules + vector.push_rules)

symbolic_simple = invalid_gate + PatternMatcher(
    [
        *const.operand_rules,
        *add.identity_rules,
        *mul.identity_rules,
        *divide.identity_rules,
        *power.identity_rules,
        *compare.identity_rules,
        *where.identity_rules,
        *logic.identity_rules,
        *minmax.identity_rules,
        *cast.identity_rules,
        *vector.identity_rules,
        *misc.identity_rules,
    ]
)

symbolic = (
    symbolic_simple
    + PatternMatcher(const.bounds_rules)
    + commutative
    + PatternMatcher(
        [
            *commute.constant_rules,
            *add.rules,
            *mul.rules,
            *divide.rules,
            *compare.rules,
            *where.rules,
            *logic.rules,
            *minmax.rules,
            *cast.rules,
        ]
    )
)

pm_simplify_valid = PatternMatcher(valid.rules)


def drop_empty_group(group: UOp) -> UOp | None:
    """A GROUP of one node is that node."""
    return group.src[0] if len(group.src) == 1 else None


sym = symbolic + PatternMatcher(
    [
        *where.late_rules,
        *logistic.rules,
        *vector.rules,
        *vector.index_push_rules,
        rule(
            "group-one",
            UPat(Ops.GROUP, dtype=dtypes.void, name="group"),
            drop_empty_group,
        ),
    ]
)


def simplify(u: UOp) -> UOp:
    """`u` in normal form under `symbolic`."""
    return graph_rewrite(u, symbolic, name="simplify")
