"""Parses a rearrange formula into a plan of splits, one permutation and merges.

Called by `MovementMixin.rearrange`. The notation is that of einops (Rogozhnikov, ICLR 2022): names
of axes, groups in parentheses, `1` or `()` for an axis of size 1, `...` for all axes not named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"[()]|[^\s()]+")
_ELLIPSIS = "..."

# an axis is a name, or a list of the names it is made of
Axis = str | list[str]


@dataclass(frozen=True)
class Plan:
    """What to do: `splits` are (axis, sizes), `merges` (first axis, number of axes)."""

    splits: list[tuple[int, tuple[int, ...]]]
    order: tuple[int, ...]
    merges: list[tuple[int, int]]


def _check_name(name: str) -> str:
    assert name.isidentifier() and not name.startswith("_") and not name.endswith("_"), (
        f"bad axis name {name!r}: expected letters, digits and inner underscores"
    )
    return name


def _names(axes: list[Axis]) -> list[str]:
    return [name for axis in axes for name in ([axis] if isinstance(axis, str) else axis)]


def _parse_side(text: str) -> list[Axis]:
    axes: list[Axis] = []
    group: list[str] | None = None
    for token in _TOKEN.findall(text.replace("…", _ELLIPSIS)):
        if token == "(":
            assert group is None, f"parentheses inside parentheses in {text!r}"
            group = []
        elif token == ")":
            assert group is not None, f"closing parenthesis without an opening one in {text!r}"
            axes.append(group)
            group = None
        elif token == "1":
            if group is None:
                axes.append([])
        else:
            name = token if token == _ELLIPSIS else _check_name(token)
            (axes if group is None else group).append(name)
    assert group is None, f"missing closing parenthesis in {text!r}"
    names = _names(axes)
    assert len(set(names)) == len(names), f"a name stands twice in {text!r}"
    return axes


def _fill_ellipsis(axes: list[Axis], hidden: list[str]) -> list[Axis]:
    """The axes with `...` replaced by the names of the axes it stands for."""
    filled: list[Axis] = []
    for axis in axes:
        if axis == _ELLIPSIS:
            filled.extend(hidden)
        elif isinstance(axis, str):
            filled.append(axis)
        else:
            filled.append([n for name in axis for n in (hidden if name == _ELLIPSIS else [name])])
    return filled


def _part_sizes(group: list[str], sizes: dict[str, int]) -> tuple[int, ...]:
    unknown = [name for name in group if name not in sizes]
    if len(unknown) > 1:
        raise RuntimeError(f"one size of a group can be inferred, but {unknown} have none")
    return tuple(sizes.get(name, -1) for name in group)


def plan_rearrange(formula: str, shape: tuple, sizes: dict[str, int]) -> Plan:
    """The plan for a value of this shape; `sizes` gives sizes of axes by name."""
    sides = formula.split("->")
    assert len(sides) == 2, f"need exactly one '->' in {formula!r}"
    left, right = _parse_side(sides[0]), _parse_side(sides[1])
    assert not any(_ELLIPSIS in axis for axis in left if not isinstance(axis, str)), (
        f"an ellipsis stands in parentheses left of '->' in {formula!r}"
    )
    assert set(_names(left)) == set(_names(right)), f"the sides of {formula!r} differ in names"
    assert set(sizes) <= set(_names(left)), f"{formula!r} does not name all of {sorted(sizes)}"
    hidden_count = len(shape) - len(left) + 1 if _ELLIPSIS in left else 0
    if hidden_count < 0 or (_ELLIPSIS not in left and len(left) != len(shape)):
        raise RuntimeError(f"{formula!r} names {len(left)} axes, got shape {shape}")
    # '.' cannot stand in a name, so these are new
    hidden = [f".{number}" for number in range(hidden_count)]
    left, right = _fill_ellipsis(left, hidden), _fill_ellipsis(right, hidden)
    for axis, size in zip(left, shape):
        assert not isinstance(axis, str) or sizes.get(axis, size) == size, (
            f"axis {axis} has size {size}, got {sizes.get(axis)}"
        )
    return _lay_out(left, right, sizes)


def _lay_out(left: list[Axis], right: list[Axis], sizes: dict[str, int]) -> Plan:
    splits = [
        (place, _part_sizes(axis, sizes))
        for place, axis in enumerate(left)
        if not isinstance(axis, str)
    ]
    position = {name: place for place, name in enumerate(_names(left))}
    order = tuple(position[name] for name in _names(right))
    merges, place = [], 0
    for axis in right:
        count = 1 if isinstance(axis, str) else len(axis)
        if count != 1:
            merges.append((place, count))
        place += count
    return Plan(splits, order, merges)
