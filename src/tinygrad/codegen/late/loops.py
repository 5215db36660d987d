"""Puts loops into a form in which each is opened and closed once.

In: ENDs that close several ranges together, ranges that several ENDs or REDUCEs close. Out: ENDs of
one range each, nested, and no two for the same range. Runs on the kernel AST, where graphs are
small, and again in front of the linearizer for the loops of accumulators.
"""

from __future__ import annotations

from tinygrad._core import rebuilt, with_bodies
from tinygrad.codegen.late.scopes import Scopes, axis_order
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp


def strip_ended(sink: UOp) -> UOp:
    """Takes out of every END what is no longer a range; an END without ranges is its statement."""
    done: dict[UOp, UOp] = {}
    for u in sink.toposort():
        node = rebuilt(u, done)
        if u.op is Ops.END:
            loops = tuple([s for s in node.src[1:] if s.op is Ops.RANGE])
            node = node.replace(src=(node.src[0], *loops)) if loops else node.src[0]
        done[u] = node
    return done[sink]


def nest_ends(sink: UOp) -> UOp:
    """Gives every END one range, and every range one END.

    Of the ranges that an END closes together, one that more of the enclosed stores depend on is
    further out: a store that does not depend on a range must run before that range's loop. Ties
    go by axis id. Statements that close the same range side by side share one loop.
    """
    ends = [u for u in sink.toposort() if u.op is Ops.END]
    if any(len(e.src) == 1 or any(r.op is not Ops.RANGE for r in e.src[1:]) for e in ends):
        sink = strip_ended(sink)
        ends = [u for u in sink.toposort() if u.op is Ops.END]
    if any(len(e.src) > 2 for e in ends):
        sink = _split_ends(sink, [e for e in ends if len(e.src) > 2])
        ends = [u for u in sink.toposort() if u.op is Ops.END]
    if len({e.src[1] for e in ends}) != len(ends):
        sink = _merge_ends(sink)
    return sink


def _split_ends(sink: UOp, ends: list[UOp]) -> UOp:
    scopes = Scopes(sink)
    replaced: dict[UOp, UOp] = {}
    for e in ends:
        # a REDUCE will store to its accumulator
        stores = [u for u in e.backward_slice if u.op in (Ops.STORE, Ops.REDUCE)]
        uses = {r: sum(1 for s in stores if scopes.mask[s] & scopes.bit[r]) for r in e.src[1:]}
        inner_first = sorted(e.src[1:], key=lambda r: (-uses[r], axis_order(r)), reverse=True)
        nested = e.src[0]
        for r in inner_first:
            nested = UOp(Ops.END, e.dtype, (nested, r), e.arg, e.tag)
        replaced[e] = nested
    return with_bodies(sink, replaced)


def _merge_ends(sink: UOp) -> UOp:
    """Joins ENDs of one range that stand side by side; the others get ranges of their own."""
    while True:
        scopes = Scopes(sink)
        by_range: dict[UOp, list[UOp]] = {}
        for u in scopes.order:
            if u.op is Ops.END:
                by_range.setdefault(u.src[1], []).append(u)
        shared = next(((r, es) for r, es in by_range.items() if len(es) > 1), None)
        if shared is None:
            return sink
        r, ends = shared
        beside = [e for e in ends if _may_share_loop(e, ends, scopes)]
        if len(beside) < len(ends):
            apart = [e for e in ends if e not in beside]
            sink = _clone_range(sink, r, apart, scopes)
            continue
        bodies = [e.src[0] for e in ends]
        statements = [s for b in bodies for s in (b.src if b.op is Ops.GROUP else (b,))]
        joined = UOp(Ops.END, ends[0].dtype, (UOp.group(*dict.fromkeys(statements)), r))
        sink = with_bodies(sink, dict.fromkeys(ends, joined))


def _may_share_loop(end: UOp, ends: list[UOp], scopes: Scopes) -> bool:
    """Whether `end` stands in the same loops as the first of `ends`, and waits for none of them."""
    if scopes.mask[end] != scopes.mask[ends[0]]:
        return False
    earlier = end.backward_slice
    return not any(o in earlier for o in ends)


def _fresh_axis(scopes: Scopes) -> int:
    ids = [a for r in scopes.ranges for a in r.arg[:-1] if isinstance(a, int)]
    return max(ids, default=-1) + 1


def _renamed(root: UOp, r: UOp, fresh: UOp, scopes: Scopes) -> UOp:
    """`root`, which closes `r`, with `fresh` in its place; what closed `r` before keeps it."""
    inside = scopes.bit[r]
    done: dict[UOp, UOp] = {}
    for u in root.toposort(gate=lambda n: n is root or bool(scopes.mask[n] & inside)):
        src = tuple(done.get(s, s) for s in u.src)
        done[u] = fresh if u is r else u if src == u.src else u.replace(src=src)
    return done[root]


def _clone_range(sink: UOp, r: UOp, apart: list[UOp], scopes: Scopes) -> UOp:
    """Rebuilds the ENDs in `apart` over a copy of `r`."""
    fresh = r.replace(arg=(_fresh_axis(scopes), *r.arg[1:]))
    return with_bodies(sink, {e: _renamed(e, r, fresh, scopes) for e in apart})


def separate_reduces(sink: UOp) -> UOp:
    """REDUCEs that cannot run in one loop get ranges of their own.

    Two can when they stand inside the same loops and neither needs the other's result.
    """
    scopes = Scopes(sink)
    by_range: dict[UOp, list[UOp]] = {}
    for u in scopes.order:
        if u.op is Ops.REDUCE:
            for r in u.src[1:]:
                by_range.setdefault(r, []).append(u)
    for r, reduces in by_range.items():
        apart = [u for u in reduces if not _may_share_loop(u, reduces, scopes)]
        if apart:
            return separate_reduces(_clone_range(sink, r, apart, scopes))
    return sink
