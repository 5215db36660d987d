"""Index expressions as sums: `const + coefficient * node + ...`.

`Linear.of` takes an integer sum apart, `Linear.build` puts it together again in the canonical shape
(terms in the order of their first appearance, constant last). Only meaningful for arithmetic that
does not wrap: `dtypes.index`, or bounds that prove it. Both, and `summands`, live in the core.
"""

from __future__ import annotations

import functools

from tinygrad._core import Linear, scaled_part, summands
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp
from tinygrad.uop.rules.order import comes_before

__all__ = ["Linear", "ordered_product", "scaled", "scaled_part", "summands"]


def scaled(node: UOp, factor: int) -> UOp:
    """`node * factor` without a multiplication by one."""
    return node if factor == 1 else node * factor


def ordered_product(u: UOp) -> UOp:
    """The product `u` rebuilt from its factors in structural order, the last ones innermost and the
    constant outermost: products with the same factors become the same node."""
    if u.op is not Ops.MUL:
        return u
    constant = 1
    factors = []
    for factor in u.split_uop(Ops.MUL):
        if factor.op is Ops.CONST:
            constant *= factor.arg
        else:
            factors.append(factor)
    factors.sort(key=functools.cmp_to_key(lambda a, b: comes_before(b, a) - comes_before(a, b)))
    if not factors:
        return u.const_like(constant)
    product = factors.pop()
    while factors:
        factor = factors.pop()
        in_order = comes_before(factor, product)
        product = factor * product if in_order else product * factor
    return scaled(product, constant)
