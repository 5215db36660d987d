"""Rules for values that stand for many lanes: UNROLL and CONTRACT.

`UNROLL(vector, axes)` is a value that depends on the lane axes `((axis, size), ...)`; the vector
lists it row by row over them. `CONTRACT(value, axes)` gathers those axes into one vector, the last
named axis fastest. The rules move UNROLL upwards through arithmetic and let the two meet. They are
pure and are combined with the symbolic rules, for graphs that spell lanes out themselves; whole
kernels are expanded by `late/lanes.py`, which keeps the same lane order.
"""

from __future__ import annotations

import itertools
import math

from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat

Axes = tuple[tuple[int, int], ...]


def lane_numbers(wanted: Axes, present: Axes) -> tuple[int, ...]:
    """For each coordinate over `wanted`, the lane of a vector laid out over `present`.

    An axis that is only in `wanted` repeats lanes; one that is only in `present` is read at 0.
    """
    names = [axis for axis, _ in wanted]
    numbers = []
    for point in itertools.product(*(range(size) for _, size in wanted)):
        where = dict(zip(names, point))
        lane = 0
        for axis, size in present:
            lane = lane * size + where.get(axis, 0)
        numbers.append(lane)
    return tuple(numbers)


def lift_unroll(u: UOp) -> UOp | None:
    """An operation on lanes is the lanes of the operation."""
    spread = [s for s in u.src if s.op is Ops.UNROLL]
    if not spread or u.dtype.count > 1:
        return None
    axes: Axes = tuple(sorted({axis for s in spread for axis in s.arg}))
    count = math.prod(size for _, size in axes)
    operands = []
    for s in u.src:
        if s.op is Ops.UNROLL:
            operands.append(s.src[0] if s.arg == axes else s.src[0].gep(lane_numbers(axes, s.arg)))
        else:
            operands.append(s.broadcast(count))
    wide = UOp(u.op, u.dtype.vec(count), tuple(operands), u.arg, u.tag)
    return UOp(Ops.UNROLL, u.dtype, (wide,), axes)


def meet_contract(u: UOp, spread: UOp) -> UOp:
    """Contracted lanes become the element; the others stay spread."""
    gathered = {axis for axis, _ in u.arg}
    left = tuple(axis for axis in spread.arg if axis[0] not in gathered)
    lanes = spread.src[0].gep(lane_numbers(left + u.arg, spread.arg))
    return UOp(Ops.UNROLL, u.dtype, (lanes,), left) if left else lanes


def repeat_contracted(u: UOp, value: UOp) -> UOp | None:
    """A value without lanes is the same in each of them."""
    return None if value.op is Ops.UNROLL else UOp(Ops.VECTORIZE, u.dtype, (value,) * u.dtype.count)


expander = PatternMatcher(
    [
        (
            UPat(
                tuple(GroupOp.Elementwise),
                name="u",
                custom_early_reject={Ops.UNROLL},
            ),
            lift_unroll,
        ),
        (UPat(Ops.CONTRACT, src=(UPat(Ops.UNROLL, name="spread"),), name="u"), meet_contract),
        (UPat(Ops.CONTRACT, src=(UPat.var("value"),), name="u"), repeat_contracted),
        # an UNROLL over no axes is its value
        (UPat(Ops.UNROLL, arg=(), name="u"), lambda u: u.src[0]),
    ]
)
