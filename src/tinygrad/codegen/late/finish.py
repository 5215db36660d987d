"""The last rules before the linearizer: only forms that renderers know remain.

Vector constants are spelled out, groups and empty statements disappear from the sink. Also here,
for the linear list: a store behind a scalar condition becomes a branch around the store.
"""

from __future__ import annotations

from tinygrad.dtype import PtrDType
from tinygrad.uop import Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat


def spell_out_constant(u: UOp) -> UOp:
    """A vector of different constants, one source each. (The same in every lane stays a CONST.)"""
    scalar = u.dtype.scalar()
    return UOp(Ops.VECTORIZE, u.dtype, tuple(UOp.const(scalar, v) for v in u.arg))


def flatten_group(u: UOp) -> UOp | None:
    """A group or sink of groups holds their statements; nothing is not a statement."""
    if not any(s.op in (Ops.GROUP, Ops.NOOP) for s in u.src):
        return None
    flat: list[UOp] = []
    for s in u.src:
        if s.op is Ops.GROUP:
            flat += s.src
        elif s.op is not Ops.NOOP or s.src:
            flat.append(s)
    if u.op is Ops.GROUP and not flat:
        return UOp(Ops.NOOP)
    return u.replace(src=tuple(dict.fromkeys(flat)))


def drop_empty_loop(u: UOp) -> UOp | None:
    """A loop around nothing is nothing."""
    return u.src[0] if u.src[0].op is Ops.NOOP and not u.src[0].src else None


def drop_satisfied_wait(u: UOp) -> UOp | None:
    """Nothing has to be waited for when nothing happens."""
    kept = tuple(s for s in u.src[1:] if s.op is not Ops.NOOP or s.src)
    if len(kept) == len(u.src) - 1:
        return None
    return u.replace(src=(u.src[0], *kept)) if kept else u.src[0]


def select_one_lane(u: UOp) -> UOp | None:
    """A lane of a vector that is being put together is that source."""
    vector = u.src[0]
    if vector.op is Ops.VECTORIZE and vector.src[0].dtype.count == 1:
        picked = tuple(vector.src[i] for i in u.arg)
        return picked[0] if len(picked) == 1 else UOp(Ops.VECTORIZE, u.dtype, picked)
    return None


pm_empty_statements = PatternMatcher(
    [
        (UPat((Ops.GROUP, Ops.SINK), name="u"), flatten_group),
        (UPat(Ops.END, custom_early_reject={Ops.NOOP}, name="u"), drop_empty_loop),
        (UPat(Ops.AFTER, custom_early_reject={Ops.NOOP}, name="u"), drop_satisfied_wait),
    ]
)

pm_final_forms = PatternMatcher(
    [
        (UPat(Ops.VCONST, name="u"), spell_out_constant),
        (UPat(Ops.GEP, name="u"), select_one_lane),
    ]
)

# *** rules over the linear list: (node that stands for the old one, instructions) ***


def branch_around_store(u: UOp) -> tuple[UOp, list[UOp]] | None:
    """`STORE` through a scalar gate is `IF gate: STORE`."""
    address = u.src[0]
    inner = address.src[0] if address.op is Ops.CAST else address
    if inner.op is not Ops.INDEX or len(inner.src) < 3 or inner.src[2].dtype.count > 1:
        return None
    plain = inner.replace(src=inner.src[:2])
    lines = [plain]
    if address.op is Ops.CAST:
        plain = address.replace(src=(plain,))
        lines.append(plain)
    # one branch for each store: equal gates must not make equal nodes, which the list holds once
    branch = UOp(Ops.IF, src=(inner.src[2], plain, u.src[1]))
    store = u.replace(src=(plain, *u.src[1:]))
    return store, [*lines, branch, store, UOp(Ops.ENDIF, src=(branch,))]


pm_linearize_cleanups = PatternMatcher(
    [
        (
            UPat(Ops.STORE, src=(UPat((Ops.INDEX, Ops.CAST)),), allow_any_len=True, name="u"),
            branch_around_store,
        )
    ]
)


def _is_address(u: UOp) -> bool:
    return u.op in (Ops.INDEX, Ops.CAST) and isinstance(u.dtype, PtrDType)


def line_rewrite(lst: list[UOp], pm: PatternMatcher) -> list[UOp]:
    """Applies `pm` to every instruction of a linear list, top to bottom.

    A rule gives (the node that later instructions see, the instructions in its place). Addresses
    that no instruction uses afterwards are left out; so are repetitions.
    """
    stands_for: dict[UOp, UOp] = {}
    lines: list[UOp] = []
    for u in lst:
        current = u
        if stands_for and not stands_for.keys().isdisjoint(u.src):
            current = u.replace(src=tuple([stands_for.get(s, s) for s in u.src]))
        found = pm.rewrite(current)
        if found is not None:
            stands_for[u] = found[0]
            lines += found[1]
            continue
        if current is not u:
            stands_for[u] = current
        lines.append(current)
    once = list(dict.fromkeys(lines))
    return _without_unused_addresses(once) if stands_for else once


def _without_unused_addresses(lines: list[UOp]) -> list[UOp]:
    kept: list[UOp] = []
    used: set[UOp] = set()
    for u in reversed(lines):
        if _is_address(u) and u not in used:
            continue
        kept.append(u)
        used.update(u.src)
    return kept[::-1]
