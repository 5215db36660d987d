"""Constant tails: an axis that its tile does not divide becomes a main loop of whole tiles and one smaller tile.

While a kernel is being optimised such an axis is virtually padded: `outer` runs over ceil(size / tile) tiles of `inner`
lanes. Here, once all opts are in, the remainder is cut off: the stores (or the reduce) are written twice, over the whole
tiles and over the remainder with `inner` shortened and `outer` a constant. No bound is tested at run time and no
masked lane is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinygrad.codegen.opt.ranges import axis_type, const_size, substitute_ranges
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import AxisType, Ops, PatternMatcher, UOp, UPat, graph_rewrite

FreshRange = Callable[[int, AxisType], UOp]


@dataclass(frozen=True)
class Tail:
    """`outer * tile + inner` counts `size` iterations, where the tile (the size of `inner`) does not divide `size`."""

    outer: UOp
    inner: UOp
    size: int

    @property
    def whole_tiles(self) -> int:
        return self.size // (const_size(self.inner) or 1)

    @property
    def remainder(self) -> int:
        return self.size % (const_size(self.inner) or 1)


def cut_tails(ast: UOp, tails: list[Tail], fresh_range: FreshRange) -> UOp:
    """The AST with every tail cut off."""
    for tail in tails:
        if axis_type(tail.outer) is AxisType.REDUCE:
            ast = _cut_reduces(ast, tail, fresh_range)
        else:
            ast = _cut_stores(ast, tail, fresh_range)
    return ast


def _replacements(tail: Tail, fresh_range: FreshRange) -> tuple[dict[UOp, UOp], dict[UOp, UOp]]:
    """What stands for (outer, inner) in the whole tiles and in the remainder."""
    whole = UOp.const(dtypes.index, tail.whole_tiles)
    if tail.whole_tiles == 1:
        body = {tail.outer: UOp.const(dtypes.index, 0)}
    else:
        body = {tail.outer: tail.outer.replace(src=(whole,))}
    if tail.remainder == 1:
        short = UOp.const(dtypes.index, 0)
    else:
        short = fresh_range(tail.remainder, axis_type(tail.inner))
    return body, {tail.outer: whole, tail.inner: short}


def _cut_stores(ast: UOp, tail: Tail, fresh_range: FreshRange) -> UOp:
    """Each END over the axis becomes two."""
    body, rest = _replacements(tail, fresh_range)
    ends: list[UOp] = []
    for end in ast.src:
        if tail.outer in end.toposort():
            ends += [substitute_ranges(end, body), substitute_ranges(end, rest)]
        else:
            ends.append(end)
    return ast.replace(src=tuple(ends))


def _cut_reduces(ast: UOp, tail: Tail, fresh_range: FreshRange) -> UOp:
    """Each REDUCE over the axis becomes two, combined by its own operation."""
    body, rest = _replacements(tail, fresh_range)

    def cut(u: UOp) -> UOp | None:
        if tail.outer not in u.src[1:]:
            return None
        return substitute_ranges(u, body).alu(u.arg, substitute_ranges(u, rest))

    # once per REDUCE: what comes out no longer lists the axis in its padded form
    return graph_rewrite(
        ast, PatternMatcher([(UPat(Ops.REDUCE, name="u"), cut)]), name="cut reduce tails"
    )
