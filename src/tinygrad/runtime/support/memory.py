"""Ranges of addresses or offsets: who may have which.

`TLSFAllocator` hands out parts of one range in constant time (two-level segregated fit: M. Masmano, I. Ripoll, A. Crespo,
J. Real, "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004). It holds numbers, no memory. Called by
the memory planner and by devices that manage their own address space.

Invariants: free and used blocks tile the range; two free blocks never touch; a free block is in the list of its class.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass


class AddrSpace(enum.Enum):
    """Where a physical address lies: in the device's memory, in the host's, or in another device's."""

    PHYS = enum.auto()
    SYS = enum.auto()
    PEER = enum.auto()


@dataclass(slots=True)
class _Block:
    start: int
    size: int
    free: bool
    below: _Block | None  # the neighbour at lower addresses
    above: _Block | None

    @property
    def end(self) -> int:
        return self.start + self.size


class TLSFAllocator:
    """Parts of the range [base, base + size). Sizes are rounded up to `block_size`.

    A free block belongs to the class (lv1, lv2): its highest bit, and the `lv2_cnt` steps between that power of two and
    the next. A request looks at the classes whose every block is big enough, smallest first.
    """

    def __init__(self, size: int, base: int = 0, block_size: int = 16, lv2_cnt: int = 16):
        if size < 1 or block_size < 1 or lv2_cnt < 1:
            raise ValueError(
                f"size, block_size and lv2_cnt are at least 1, got {size}, {block_size}, {lv2_cnt}"
            )
        self.size, self.base, self.block_size, self.lv2_cnt = size, base, block_size, lv2_cnt
        self._lv2_bits = max(1, (lv2_cnt - 1).bit_length())
        # class -> its free blocks by start; nonempty[lv1] has a bit for each nonempty lv2, _lv1_mask one for each lv1
        self._classes: dict[tuple[int, int], dict[int, _Block]] = {}
        self._lv1_mask = 0
        self._lv2_masks: dict[int, int] = {}
        self._used: dict[int, _Block] = {}
        self._insert(_Block(base, size, True, None, None))

    @staticmethod
    @functools.cache
    def lv1(size: int) -> int:
        """The first-level class: how many bits the size has."""
        return size.bit_length()

    @staticmethod
    @functools.cache
    def lv2(size: int, bits: int = 4) -> int:
        """The second-level class: the `bits` bits below the highest one."""
        top = size.bit_length() - 1
        low = size - (1 << top)
        return low >> (top - bits) if top >= bits else low << (bits - top)

    def _class_of(self, size: int) -> tuple[int, int]:
        return self.lv1(size), self.lv2(size, self._lv2_bits)

    def _insert(self, block: _Block) -> None:
        first, second = self._class_of(block.size)
        self._classes.setdefault((first, second), {})[block.start] = block
        self._lv2_masks[first] = self._lv2_masks.get(first, 0) | (1 << second)
        self._lv1_mask |= 1 << first

    def _remove(self, block: _Block) -> None:
        first, second = self._class_of(block.size)
        blocks = self._classes[(first, second)]
        del blocks[block.start]
        if not blocks:
            self._lv2_masks[first] &= ~(1 << second)
            if not self._lv2_masks[first]:
                self._lv1_mask &= ~(1 << first)

    def _first_fit_class(self, size: int) -> _Block | None:
        """A block of the smallest nonempty class all of whose blocks hold `size`; else one of `size`'s own class."""
        first, second = self._class_of(size)
        own = self._lv2_masks.get(first, 0)
        if higher := own >> (second + 1):
            place = second + 1 + _lowest_bit(higher)
            return next(iter(self._classes[(first, place)].values()))
        if higher := self._lv1_mask >> (first + 1):
            place = first + 1 + _lowest_bit(higher)
            return next(iter(self._classes[(place, _lowest_bit(self._lv2_masks[place]))].values()))
        same = self._classes.get((first, second), {})
        return next((b for b in same.values() if b.size >= size), None)

    def alloc(self, req_size: int, align: int = 1) -> int:
        """The start of a free part of `req_size`, a multiple of `align`. Raises MemoryError where none is left."""
        size = max(self.block_size, -(-req_size // self.block_size) * self.block_size)
        same = self._classes.get(self._class_of(size), {})
        block = next((b for b in same.values() if b.size >= size and b.start % align == 0), None)
        if block is None:
            block = self._first_fit_class(size + align - 1)
        if block is None:
            raise MemoryError(f"no {req_size} bytes in one piece are left of {self.size}")
        self._remove(block)
        start = -(-block.start // align) * align
        if start > block.start:
            block = self._split(block, start - block.start)
        if block.size > size:
            self._insert_split(block, size)
        block.free = False
        self._used[block.start] = block
        return block.start

    def _split(self, block: _Block, head: int) -> _Block:
        """Cuts a free block; the head goes back to its class, the tail is returned."""
        tail = self._cut(block, head)
        self._insert(block)
        return tail

    def _insert_split(self, block: _Block, head: int) -> None:
        self._insert(self._cut(block, head))

    @staticmethod
    def _cut(block: _Block, head: int) -> _Block:
        tail = _Block(block.start + head, block.size - head, True, block, block.above)
        if block.above is not None:
            block.above.below = tail
        block.above, block.size = tail, head
        return tail

    def free(self, start: int) -> None:
        """Gives back what `alloc` returned; neighbouring free parts become one. Raises ValueError for other starts."""
        block = self._used.pop(start, None)
        if block is None:
            raise ValueError(f"nothing is allocated at {start}")
        block.free = True
        if block.above is not None and block.above.free:
            self._remove(block.above)
            self._absorb(block)
        if block.below is not None and block.below.free:
            block = block.below
            self._remove(block)
            self._absorb(block)
        self._insert(block)

    @staticmethod
    def _absorb(block: _Block) -> None:
        """Joins a block with the one above it."""
        gone = block.above
        assert gone is not None
        block.size += gone.size
        block.above = gone.above
        if gone.above is not None:
            gone.above.below = block


def _lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
