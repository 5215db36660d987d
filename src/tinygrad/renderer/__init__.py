"""What a target can express, and what a kernel costs.

In: the linear instruction list of a lowered kernel. Out: source text (`Renderer.render`, by the
subclasses) and work counts (`Estimates`). A renderer describes a language and its machine through
plain attributes; it knows no compiler and opens no device. The lowering and the optimiser read the
attributes, the runner reads the estimates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinygrad.dtype import AddrSpace, PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tinygrad.uop.ops import PatternMatcher, UOp, sint

# A MULACC is a multiply and an add; everything else in GroupOp.ALU is one operation a lane.
_OPS_PER_LANE = {Ops.MULACC: 2}
_COUNTERS = frozenset({Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR, Ops.CONST, Ops.VCONST})
_COUNTER_ARITHMETIC = frozenset(GroupOp.ALU | {Ops.CAST, Ops.VECTORIZE, Ops.GEP, Ops.CAT})
_NO_LIMIT = (2**31 - 1,) * 3


def _simplified(value: sint) -> sint:
    return value if isinstance(value, (int, float)) else value.ssimplify()


def _at_most(value: sint, limit: int) -> sint:
    """`min(value, limit)`, decided by bounds where `value` is symbolic."""
    if isinstance(value, int):
        return min(value, limit)
    if value.vmin >= limit:
        return limit
    if value.vmax <= limit:
        return value
    return value.minimum(limit)


def _address_only(uops: list[UOp]) -> set[UOp]:
    """Nodes that are bookkeeping: they feed an address, a loop bound or a branch, or are arithmetic
    on loop counters alone. A loaded value ends the search: it is data.
    """
    found: set[UOp] = set()
    counters: set[UOp] = set()
    for u in uops:
        if u.op in _COUNTERS or (
            u.op in _COUNTER_ARITHMETIC
            and not dtypes.is_float(u.dtype)
            and all(s in counters for s in u.src)
        ):
            counters.add(u)
        if u.op is Ops.INDEX:
            pending = list(u.src[1:])
        elif u.op in (Ops.RANGE, Ops.SPECIAL, Ops.IF):
            pending = list(u.src[:1])
        else:
            continue
        while pending:
            node = pending.pop()
            if node in found or node.op in (Ops.LOAD, Ops.RANGE):
                continue
            found.add(node)
            pending.extend(node.src)
    return found | counters


def _pointed_at(u: UOp) -> UOp | None:
    """The buffer definition under an address, or None when there is none (test fragments)."""
    while u.op in (Ops.INDEX, Ops.CAST, Ops.AFTER, Ops.GEP, Ops.NOOP) and u.src:
        u = u.src[0]
    return u if u.op in GroupOp.Defines else None


class _WorkCounter:
    """Walks the instruction list once, keeping how often the current line is executed."""

    def __init__(self, skipped: set[UOp]):
        self.skipped = skipped
        self.repeat: sint = 1
        self.outer: list[sint] = []
        self.ops: sint = 0
        self.moved: sint = 0
        self.traffic: dict[tuple[UOp, Ops], sint] = {}
        self.thread: UOp | None = None

    def over_threads(self, one: sint) -> sint:
        """The sum over all threads of what one does; shares may be unequal."""
        if self.thread is None:
            return one
        count = int(self.thread.arg[2]) + 1
        if isinstance(one, (int, float)) or self.thread not in one.toposort():
            return one * count
        shares = (one.substitute({self.thread: self.thread.const_like(i)}) for i in range(count))
        return sum((_simplified(share) for share in shares), start=0)

    def visit(self, u: UOp) -> None:
        op = u.op
        if op is Ops.RANGE:
            self.outer.append(self.repeat)
            self.repeat = self.repeat * u.src[0].ssimplify()
        elif op is Ops.END:
            if self.outer:
                self.repeat = self.outer.pop()
        elif op is Ops.SPECIAL:
            self.repeat = self.repeat * u.src[0].ssimplify()
        elif op is Ops.DEFINE_VAR and u.arg[0] == "core_id":
            self.thread = u
        elif op is Ops.LOAD:
            self._memory(u.src[0], op, u.dtype)
        elif op is Ops.STORE:
            self._memory(u.src[0], op, u.src[1].dtype)
        elif op is Ops.WMMA:
            if u not in self.skipped:
                dims, threads = u.arg[1], u.arg[5]
                self.ops = self.ops + self.repeat * (2 * math.prod(dims) // threads)
        elif op in GroupOp.ALU and u not in self.skipped:
            lanes = max(u.dtype.count, u.src[0].dtype.count if u.src else 1)
            self.ops = self.ops + self.repeat * (_OPS_PER_LANE.get(op, 1) * lanes)

    def _memory(self, address: UOp, op: Ops, dtype) -> None:
        if isinstance(address.dtype, PtrDType) and address.dtype.addrspace == AddrSpace.REG:
            return
        size = self.repeat * dtype.itemsize
        self.moved = self.moved + size
        buf = _pointed_at(address)
        if buf is not None and buf.op is Ops.DEFINE_GLOBAL:
            self.traffic[buf, op] = self.traffic.get((buf, op), 0) + size

    def unique_bytes(self) -> sint:
        """Bytes that must move at least once: per buffer and direction, at most its size."""
        total: sint = 0
        for (buf, _), one in self.traffic.items():
            size = self.over_threads(one)
            limit = buf.dtype.size * buf.dtype.base.itemsize if buf.dtype.size > 0 else None
            total = total + (size if limit is None else _at_most(size, limit))
        return total


@dataclass(frozen=True)
class Estimates:
    """Work of one launch: arithmetic operations, bytes loaded and stored, bytes moved at least once.

    The three are ints, or expressions over the kernel's variables where loop bounds are symbolic.
    """

    ops: sint = 0
    lds: sint = 0
    mem: sint = 0

    def __add__(self, other: Estimates) -> Estimates:
        return Estimates(self.ops + other.ops, self.lds + other.lds, self.mem + other.mem)

    def simplify(self) -> Estimates:
        """The same estimates with symbolic entries simplified."""
        return Estimates(_simplified(self.ops), _simplified(self.lds), _simplified(self.mem))

    @staticmethod
    def from_uops(uops: list[UOp], ignore_indexing: bool = False) -> Estimates:
        """Counts a linear instruction list; `ignore_indexing` leaves out address arithmetic."""
        counter = _WorkCounter(_address_only(uops) if ignore_indexing else set())
        for u in uops:
            counter.visit(u)
        ops, moved = counter.over_threads(counter.ops), counter.over_threads(counter.moved)
        return Estimates(ops, moved, counter.unique_bytes()).simplify()


class Renderer:
    """A target language with its machine's capabilities; subclasses implement `render`.

    `device` and `suffix` name the default device and language. `supports_float4` allows vector
    accesses of four. `has_local`, `has_shared`, `has_threads` say whether work-groups, memory
    shared by a group, and a `core_id` argument exist. `global_max`, `local_max`, `shared_max` bound
    a launch. `code_for_op` holds the ops the target has; others are decomposed. `pre_matcher` and
    `extra_matcher` are rewrite rules of this target, applied before and after decomposition.
    `vector_bytes` is the width of a native vector register (0: vectors are not values of their
    own), `vector_registers` how many of them a kernel may hold live, `masked_lanes` whether loads and
    stores of 4 and 8 byte lanes take a mask at no cost.
    """

    # who and what
    suffix: str = ""
    device: str = ""
    code_for_op: dict[Ops, Callable] = {}
    # rules of this target
    extra_matcher: PatternMatcher | None = None
    pre_matcher: PatternMatcher | None = None
    # the machine
    vector_bytes: int = 0
    vector_registers: int = 16
    masked_lanes: bool = False
    supports_float4: bool = True
    tensor_cores: list = []
    # a launch
    has_threads: bool = False
    has_local: bool = True
    local_max: tuple[int, ...] | None = _NO_LIMIT
    global_max: tuple[int, ...] | None = _NO_LIMIT
    has_shared: bool = True
    shared_max: int = 32768

    @property
    def threads(self) -> int:
        """How many threads one launch may be split over (1 where there is no `core_id`)."""
        return 1

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, ()

    def render(self, uops: list[UOp]) -> str:
        """Source text of the linear list `uops`."""
        raise NotImplementedError(
            f"{type(self).__name__} describes a target but has no render(); give it one to emit code"
        )
