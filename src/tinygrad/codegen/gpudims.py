"""Launch dimensions: parallel axes become launch indices.

In: a kernel whose GLOBAL, WARP, LOCAL, GROUP_REDUCE and THREAD axes are ranges. Out: the same
kernel with SPECIAL nodes (`gidx`, `lidx`, or `idx` where the runner picks the local size) or, on
targets with threads, a `core_id` variable in their place; ENDs no longer mention those axes. A
launch has at most as many dimensions, and each at most as large, as the target says.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad.codegen.late.loops import strip_ended
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, UOp

_LOCAL_TYPES = (AxisType.WARP, AxisType.LOCAL, AxisType.GROUP_REDUCE)


def _most(dim: Any) -> int:
    return dim if isinstance(dim, int) else int(dim.vmax)


def _exceeds(dims: list, limits: tuple[int, ...]) -> bool:
    return any(_most(d) > limit for d, limit in zip(dims, limits))


def _merge_neighbours(dims: tuple, limits: tuple[int, ...]) -> list[list] | None:
    """Merges adjacent dims, leftmost first, until they fit; None when no merge helps."""
    groups = [[d] for d in dims]
    while len(groups) > len(limits) or _exceeds([math.prod(g) for g in groups], limits):
        for i in range(len(groups) - 1):
            merged = groups[i] + groups[i + 1]
            # a group may only sit at a position that exists
            if i < len(limits) and _most(math.prod(merged)) <= limits[i]:
                groups[i : i + 2] = [merged]
                break
        else:
            return None
    return groups


def _smallest_factor(n: int) -> int:
    return next((f for f in range(2, math.isqrt(n) + 1) if n % f == 0), n)


def _spread(dims: tuple, limits: tuple[int, ...]) -> list[int]:
    """Moves prime factors of dims that are too large to the next dim with room for them."""
    sizes = list(dims) + [1] * (len(limits) - len(dims))
    for i, limit in enumerate(limits):
        while _most(sizes[i]) > limit:
            factor = _smallest_factor(sizes[i]) if isinstance(sizes[i], int) else 0
            others = [(i + k) % len(sizes) for k in range(1, len(sizes))]
            free = [j for j in others if factor and _most(sizes[j]) * factor <= limits[j]]
            if not free:
                raise RuntimeError(
                    f"cannot launch dimensions {dims} within {limits}: {sizes[i]} at position {i} "
                    "has no factor that fits elsewhere; split or pad this axis"
                )
            sizes[i] //= factor
            sizes[free[0]] *= factor
    while len(sizes) > len(dims) and sizes[-1] == 1:
        sizes.pop()
    return sizes


def _ravel(parts: list[UOp], sizes: list) -> UOp:
    flat = parts[0]
    for part, size in zip(parts[1:], sizes[1:]):
        flat = flat * size + part
    return flat


def _unravel(flat: UOp, dims: list) -> list[UOp]:
    parts: list[UOp] = []
    for i, dim in enumerate(dims):
        below = math.prod(dims[i + 1 :])
        part = flat if isinstance(below, int) and below == 1 else flat // below
        parts.append(part if i == 0 else part % dim)
    return parts


def get_grouped_dims(
    prefix: str,
    dims: tuple[int | UOp, ...],
    max_sizes: tuple[int, ...] | None,
    reverse: bool = False,
) -> list[UOp]:
    """One index expression per dim of `dims`, over launch indices `<prefix>0`, `<prefix>1`, ...

    With `reverse` the last dim is the first launch index. Raises RuntimeError when the launch
    cannot be made to fit `max_sizes`.
    """
    ordered = tuple(reversed(dims)) if reverse else tuple(dims)
    # each entry: launch sizes, and the dims that they are taken apart into
    plan: list[tuple[list, list]]
    groups = [[d] for d in ordered] if max_sizes is None else _merge_neighbours(ordered, max_sizes)
    if groups is not None:
        plan = [([math.prod(g)], g) for g in groups]
    elif max_sizes is not None and len(ordered) <= len(max_sizes):
        plan = [(_spread(ordered, max_sizes), list(ordered))]
    else:
        raise RuntimeError(
            f"cannot launch dimensions {dims} within {max_sizes}: too many of them, and merging "
            "neighbours makes one too large; use fewer parallel axes"
        )
    found: list[UOp] = []
    count = 0
    for sizes, members in plan:
        specials = [UOp.special(s, f"{prefix}{count + i}") for i, s in enumerate(sizes)]
        count += len(sizes)
        found += _unravel(_ravel(specials, sizes), members)
    return found[::-1] if reverse else found


def _axis_key(r: UOp) -> tuple:
    return tuple(a for a in r.arg[:-1] if isinstance(a, int))


def _launch_size(r: UOp) -> int | UOp:
    end = r.src[0].ssimplify()
    return end if isinstance(end, UOp) else int(end)


def _thread_indices(threads: list[UOp]) -> dict[UOp, UOp]:
    sizes = [_launch_size(r) for r in threads]
    total = math.prod(sizes)
    core = UOp.variable("core_id", 0, _most(total) - 1)
    return dict(zip(threads, _unravel(core, sizes)))


def add_launch_indices(sink: UOp, ren: Any) -> UOp:
    """Replaces the parallel ranges of `sink` by what `ren` launches them with."""
    ranges = [u for u in sink.toposort() if u.op is Ops.RANGE]
    by_type = {t: [r for r in ranges if r.arg[-1] is t] for t in AxisType}
    launched: dict[UOp, UOp] = {}
    if threads := sorted(by_type[AxisType.THREAD], key=_axis_key):
        launched |= _thread_indices(threads)
    outer = sorted(by_type[AxisType.GLOBAL], key=_axis_key)
    inner = [r for t in _LOCAL_TYPES for r in sorted(by_type[t], key=_axis_key)]
    if ren.has_local:
        plain = sink.arg is not None and getattr(sink.arg, "dont_use_locals", False)
        if plain and inner:
            raise RuntimeError("a kernel without locals has local axes; drop dont_use_locals")
        sizes = tuple(_launch_size(r) for r in outer)
        prefix = "idx" if plain else "gidx"
        launched |= zip(outer, get_grouped_dims(prefix, sizes, ren.global_max, reverse=True))
        sizes = tuple(_launch_size(r) for r in inner)
        launched |= zip(inner, get_grouped_dims("lidx", sizes, ren.local_max))
    if not launched:
        return sink
    return strip_ended(sink.substitute(launched))
