"""Kernels that work on more buffers than a device can bind are cut.

In: the value of a stage. Out: an equal value that reads few enough buffers, and stores for the parts
that had to be computed before. Called by `build` once a value is final.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygrad.helpers import prod
from tinygrad.schedule.indexing import flat_index
from tinygrad.schedule.transplant import transplant
from tinygrad.uop.ops import GroupOp, Ops, UOp

# No device binds fewer buffers than this: only larger kernels are looked at.
ALWAYS_FITS = 7


def max_buffers(device) -> int:
    """How many buffers a kernel may work on; 0 for no limit."""
    from tinygrad.device import Device

    name = device[0] if isinstance(device, tuple) else device
    return Device.backend(name).max_buffers


def split_value(
    value: UOp, limit: int, is_read: Callable[[UOp], bool], keep: Callable[[UOp], UOp]
) -> UOp:
    """The value with operands replaced by `keep(operand)`, so that it reads less than `limit` buffers."""
    new: dict[UOp, UOp] = {}
    reads: dict[UOp, frozenset[UOp]] = {}
    for u in value.toposort():
        sources = [new[s] for s in u.src]
        if u.op in GroupOp.ALU:
            sources = _keep_largest(sources, reads, limit, keep)
        node = u if tuple(sources) == u.src else u.replace(src=tuple(sources))
        found = frozenset().union(*[reads[s] for s in sources])
        reads[node] = found | {node.src[0]} if is_read(node) else found
        new[u] = node
    return new[value]


def _keep_largest(sources: list[UOp], reads: dict, limit: int, keep: Callable) -> list[UOp]:
    while len(frozenset().union(*[reads[s] for s in sources])) >= limit:
        largest = max(sources, key=lambda s: len(reads[s]))
        if len(reads[largest]) < 2:
            break
        kept = keep(largest)
        reads[kept] = frozenset({kept.src[0]})
        sources = [kept if s is largest else s for s in sources]
    return sources


def loops_of(value: UOp) -> list[UOp]:
    """The loops that select an element of a value, in their order."""
    return sorted(value.ranges, key=lambda loop: loop.arg[0])


def as_array(value: UOp, buffer_of_size: Callable[[int], UOp], new_loop: Callable) -> tuple:
    """A value as a buffer over its loops: (the read that replaces it, position, value, loops)."""
    loops = loops_of(value)
    sizes = tuple(int(loop.vmax) + 1 for loop in loops)
    own = [new_loop(loop.src[0]) for loop in loops]
    buffer = buffer_of_size(prod(sizes))
    read = UOp(Ops.INDEX, value.dtype, (buffer, flat_index(sizes, tuple(loops))))
    position = flat_index(sizes, tuple(own))
    return read, position, transplant(value, dict(zip(loops, own)), None), tuple(own)
