"""Reductions become loops over accumulators.

In: for one REDUCE, the values that one loop iteration contributes to each result. Out: an
accumulator register per result (or several, when there are few results and the loop would wait for
each addition), initialised before the loop, updated in it, read after it. All accumulators of one
REDUCE share one loop. Called by the lane expansion.
"""

from __future__ import annotations

from typing import Any

from tinygrad.codegen.late.scopes import axis_order
from tinygrad.dtype import AddrSpace, DType, dtypes, least_value
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp


def neutral_element(op: Ops, dtype: DType) -> Any:
    """The value that changes nothing under `op`."""
    if op is Ops.ADD:
        return dtypes.as_const(0, dtype)
    if op is Ops.MUL:
        return dtypes.as_const(1, dtype)
    if op is Ops.MAX:
        return least_value(dtype)
    raise NotImplementedError(f"cannot reduce with {op}; expected ADD, MUL or MAX")


def balanced(op: Ops, values: list[UOp]) -> UOp:
    """Combines `values` pairwise, halving their number each time."""
    while len(values) > 1:
        paired = [a.alu(op, b) for a, b in zip(values[::2], values[1::2])]
        values = paired + values[len(values) & ~1 :]
    return values[0]


def across_lanes(op: Ops, vector: UOp) -> UOp:
    """Combines the lanes of `vector` to a scalar, by halves."""
    left_over: list[UOp] = []
    while (n := vector.dtype.count) > 1:
        if n % 2:
            left_over.append(vector.gep(n - 1))
        half = n // 2
        low = vector.gep(tuple(range(half))) if half > 1 else vector.gep(0)
        high = vector.gep(tuple(range(half, 2 * half))) if half > 1 else vector.gep(1)
        vector = low.alu(op, high)
    return balanced(op, [vector, *left_over])


def register_access(reg: UOp, lanes: int) -> UOp:
    """The address of the whole of `reg`, an array of `lanes` elements."""
    address = reg.index(UOp.const(dtypes.index, 0), ptr=True)
    if lanes == 1:
        return address
    return address.cast(address.dtype.base.vec(lanes).ptr(address.dtype.size, AddrSpace.REG))


class RegisterNames:
    """Numbers registers and local buffers so that they differ from those the kernel has already."""

    def __init__(self, sink: UOp):
        defines = (Ops.DEFINE_REG, Ops.DEFINE_LOCAL)
        used = [u.arg for u in sink.toposort() if u.op in defines and isinstance(u.arg, int)]
        self.next_free = max(used, default=-1) + 1

    def take(self) -> int:
        """A number that no register or local buffer of the kernel has."""
        self.next_free += 1
        return self.next_free - 1

    def register(self, dtype: DType) -> UOp:
        """A new register array for one value of `dtype`."""
        ptr = dtype.scalar().ptr(dtype.count, AddrSpace.REG)
        return UOp(Ops.DEFINE_REG, ptr, (), self.take())


def accumulate(
    op: Ops,
    groups: list[list[list[UOp]]],
    loops: tuple[UOp, ...],
    outer: tuple[UOp, ...],
    names: RegisterNames,
) -> list[list[UOp]]:
    """Runs `loops`, combining contributions with `op`.

    `groups[r][a]` lists what an iteration adds, one after the other, to accumulator `a` of result
    `r`. `outer` are the loops around this one. The answer has the totals, `[r][a]`.
    """
    updates: list[UOp] = []
    registers: list[list[tuple[UOp, DType]]] = []
    for accumulators in groups:
        row = []
        for contributions in accumulators:
            dtype = contributions[0].dtype
            reg = names.register(dtype)
            before = reg.after(*outer) if outer else reg
            start = UOp.const(dtype, neutral_element(op, dtype.scalar()))
            init = register_access(before, dtype.count).store(start)
            total = register_access(reg.after(init, *loops), dtype.count).load(dtype=dtype)
            for value in contributions:
                total = total.alu(op, value)
            updates.append(register_access(reg.after(init, *loops), dtype.count).store(total))
            row.append((reg, dtype))
        registers.append(row)
    done = UOp.group(*updates)
    for r in sorted(loops, key=axis_order, reverse=True):
        done = done.end(r)
    return [
        [register_access(reg.after(done), dtype.count).load(dtype=dtype) for reg, dtype in row]
        for row in registers
    ]
