"""The algebra of the graph, one module per family of root ops.

In: `(pattern, function)` pairs written with `rule(name, pattern, function)`. Out: lists of such
pairs, put together by `tinygrad.uop.symbolic` (simplification) and `tinygrad.uop.decompositions`
(lowering). A pair stays a plain pair, so that it can stand in any `PatternMatcher([...])`.

Soundness contract of every rule here: integers and bools are equal bit for bit, wrap included
(`dtypes.index` is unbounded); floats are equal or both NaN. A rule that is not value-preserving
says why in `unsafe`. Every rule shrinks the graph or moves it toward the canonical form: constants
right, commutative operands of index arithmetic in structural order, sums of products.
"""

from tinygrad.uop.rules.base import Rule, describe, fold_alu, rule

__all__ = ["Rule", "describe", "fold_alu", "rule"]
