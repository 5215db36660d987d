"""Index expressions as sums: `const + coefficient * node + ...`.

`Linear.of` takes an integer sum apart, `Linear.build` puts it together again in the canonical shape
(terms in the order of their first appearance, constant last). Only meaningful for arithmetic that
does not wrap: `dtypes.index`, or bounds that prove it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp
from tinygrad.uop.rules.order import comes_before


def scaled_part(u: UOp) -> tuple[UOp, int]:
    """`(node, coefficient)` of one summand."""
    if u.op is Ops.MUL and u.src[1].op is Ops.CONST:
        return u.src[0], u.src[1].arg
    return u, 1


def summands(u: UOp, limit: int | None = None) -> list[UOp]:
    """The operands of a tree of additions from left to right; stops growing at `limit`."""
    out: list[UOp] = []
    stack = [u]
    while stack:
        top = stack.pop()
        if top.op is Ops.ADD and (limit is None or len(out) + len(stack) < limit):
            stack.extend(reversed(top.src))
        else:
            out.append(top)
    return out


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


class Linear:
    """A sum `const + sum(coefficient * node)`; `terms` keeps the order of first appearance."""

    __slots__ = ("const", "like", "terms")

    def __init__(self, like: UOp, terms: dict[UOp, int], const: int):
        self.like = like
        self.terms = terms
        self.const = const

    @staticmethod
    def of(u: UOp) -> Linear:
        """Takes `u` apart; equal nodes are collected, cancelled ones vanish."""
        terms: dict[UOp, int] = {}
        const = 0
        for part in summands(u):
            if part.op is Ops.CONST:
                const += part.arg
                continue
            node, factor = scaled_part(part)
            terms[node] = terms.get(node, 0) + factor
        return Linear(u, {node: f for node, f in terms.items() if f != 0}, const)

    def map(self, of_factor: Callable[[int], int], of_const: Callable[[int], int]) -> Linear:
        """The sum with every coefficient and the constant replaced; zero terms vanish."""
        changed = {node: of_factor(f) for node, f in self.terms.items()}
        kept = {node: f for node, f in changed.items() if f != 0}
        return Linear(self.like, kept, of_const(self.const))

    def split_by(self, m: int) -> tuple[Linear, Linear]:
        """`(p, r)` with `self == m*p + r`: `p` has the terms whose coefficients `m` divides, `r`
        the others and what is left of the constant, `0 <= r.const < m`."""
        whole = {node: f // m for node, f in self.terms.items() if f % m == 0}
        rest = {node: f for node, f in self.terms.items() if f % m != 0}
        return Linear(self.like, whole, self.const // m), Linear(self.like, rest, self.const % m)

    def build(self) -> UOp:
        """The node of this sum."""
        total = None
        for node, factor in self.terms.items():
            part = scaled(node, factor)
            total = part if total is None else total + part
        if total is None:
            return self.like.const_like(self.const)
        return total + self.const if self.const != 0 else total

    def factor_gcd(self) -> int:
        """Greatest common divisor of the coefficients, 0 when there are none."""
        return math.gcd(*self.terms.values())

    def bounds(self) -> tuple[int, int]:
        """Least and greatest value, each term taken on its own."""
        low = high = self.const
        for node, factor in self.terms.items():
            ends = (node.vmin * factor, node.vmax * factor)
            low += min(ends)
            high += max(ends)
        return low, high
