"""Splits vectors to widths that the target has.

In: operations over vectors of any number of lanes. Out: on a target with vector registers, vectors
of whole registers (up to four together) and of smaller powers of two; on others scalar arithmetic,
with vector accesses of four or two elements where the target has those and the address is aligned.
Lane masks are split with the accesses that they guard.

A vector node is replaced by its pieces, a list of (node, lanes); one walk, sources first.
"""

from __future__ import annotations

from typing import Any

from tinygrad._core import rebuilt
from tinygrad.codegen.target import native_lanes
from tinygrad.dtype import AddrSpace, DType, PtrDType
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp

# vectors of this many registers are left whole: compilers split them without loss
_REGISTERS_TOGETHER = 4
_ELEMENTWISE = frozenset(GroupOp.Elementwise)
_ACCESSES = (Ops.LOAD, Ops.STORE)
# ops that become long polynomials, which hold many values at a time
_LONG = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW)


def split_for_registers(lanes: int, native: int, together: int = _REGISTERS_TOGETHER) -> list[int]:
    """Piece sizes for `lanes` lanes: up to `together` whole registers, then powers of two."""
    pieces: list[int] = []
    while lanes:
        if lanes >= native:
            # a power of two: compilers keep three registers taken together in memory
            registers = min(lanes // native, together)
            size = native << (registers.bit_length() - 1)
        else:
            size = 1 << (lanes.bit_length() - 1)
        pieces.append(size)
        lanes -= size
    return pieces


def _is_vector(u: UOp) -> bool:
    dtype = u.dtype
    return dtype.count > 1 and not isinstance(dtype, PtrDType)


class _Splitter:
    def __init__(self, ren: Any, order: list[UOp]):
        crowded = any(u.op in _LONG and u.dtype.count > 1 for u in order)
        self.together = max(ren.vector_registers // 16, 1) if crowded else _REGISTERS_TOGETHER
        self.native = native_lanes(ren)
        self.scalar_alu = self.native == 1
        self.narrow_access = [4, 2] if ren.supports_float4 else []
        self.plans: dict[int, list[int]] = {}
        # values whose pieces are not those of the plan
        self.unplanned: set[UOp] = set()
        self.pieces: dict[UOp, list[UOp]] = {}
        self.whole: dict[UOp, UOp] = {}

    def plan(self, lanes: int) -> list[int]:
        """Sizes of the pieces of a vector value."""
        sizes = self.plans.get(lanes)
        if sizes is None:
            sizes = [1] * lanes
            if not self.scalar_alu:
                sizes = split_for_registers(lanes, self.native, self.together)
            self.plans[lanes] = sizes
        return sizes

    # *** pieces of values ***

    def lanes(self, u: UOp, first: int, count: int) -> UOp:
        """Lanes `first .. first+count-1` of the value `u` of the input graph."""
        if not _is_vector(u):
            return self.whole[u] if count == 1 else self.whole[u].broadcast(count)
        pieces = self.pieces[u]
        if len(pieces) == 1 and pieces[0].dtype.count == count:
            return pieces[0]
        start = 0
        picked: list[UOp] = []
        for piece in pieces:
            size = piece.dtype.count
            low, high = max(first, start), min(first + count, start + size)
            if low < high:
                if high - low == size:
                    picked.append(piece)
                elif high - low == 1:
                    picked.append(piece.gep(low - start))
                else:
                    picked.append(piece.gep(tuple(range(low - start, high - start))))
            start += size
        return _joined(picked)

    def _slices(self, sources: tuple[UOp, ...], first: int, count: int) -> list[UOp]:
        """What of `sources`, laid end to end, lies in lanes `first .. first+count-1`."""
        picked: list[UOp] = []
        start = 0
        for s in sources:
            size = s.dtype.count
            low, high = max(first, start), min(first + count, start + size)
            if low < high:
                picked.append(self.lanes(s, low - start, high - low))
            start += size
        return picked

    def select(self, u: UOp, order: tuple[int, ...]) -> UOp:
        """The lanes of `u` named by `order`, as one value."""
        contiguous = all(b == a + 1 for a, b in zip(order, order[1:]))
        if contiguous:
            return self.lanes(u, order[0], len(order))
        start = 0
        for piece in self.pieces[u]:
            size = piece.dtype.count
            if size > 1 and all(start <= i < start + size for i in order):
                return piece.gep(tuple(i - start for i in order))
            start += size
        return UOp(
            Ops.VECTORIZE,
            u.dtype.scalar().vec(len(order)),
            tuple(self.lanes(u, i, 1) for i in order),
        )

    # *** nodes ***

    def visit(self, u: UOp) -> None:
        """Splits `u`; its sources have been visited."""
        op = u.op
        if op in _ACCESSES and u.src[0].op is Ops.CAST:
            self._access(u)
        elif _is_vector(u):
            self._value(u)
        elif op is Ops.GEP:
            self.whole[u] = self.select(u.src[0], u.arg)
        elif op is Ops.STORE and _is_vector(u.src[1]):
            raise RuntimeError(f"a vector of {u.src[1].dtype} is stored through a scalar address")
        elif op is Ops.INDEX and len(u.src) > 2 and _is_vector(u.src[2]):
            # the access splits the mask, and makes addresses of its own
            self.whole[u] = u
        else:
            for s in u.src:
                if s in self.pieces:
                    self.whole[s] = _joined(self.pieces[s])
            self.whole[u] = rebuilt(u, self.whole)

    def _operand(self, u: UOp) -> UOp:
        """`u` as an operand of a node that is not split."""
        return _joined(self.pieces[u]) if _is_vector(u) else self.whole[u]

    def _value(self, u: UOp) -> None:
        sizes = self.plan(u.dtype.count)
        scalar = u.dtype.scalar()
        made: list[UOp] = []
        first = 0
        if u.op is Ops.WMMA or u.op in (Ops.CUSTOM, Ops.CUSTOMI):
            whole = u.replace(src=tuple(self._operand(s) for s in u.src))
            self.pieces[u] = (
                [whole.gep(i) for i in range(u.dtype.count)] if self.scalar_alu else [whole]
            )
            self.unplanned.add(u)
            return
        if u.op is Ops.CAT and len(sizes) == 1:
            self.pieces[u] = [u.replace(src=tuple(self._operand(s) for s in u.src))]
            return
        if len(sizes) == 1 and u.op is Ops.VECTORIZE:
            self.pieces[u] = [rebuilt(u, self.whole)]
            return
        if u.op in _ELEMENTWISE and self.unplanned.isdisjoint(u.src):
            self.pieces[u] = self._lane_by_lane(u, scalar, sizes)
            return
        for size in sizes:
            made.append(self._piece(u, scalar, first, size))
            first += size
        self.pieces[u] = made

    def _lane_by_lane(self, u: UOp, scalar: DType, sizes: list[int]) -> list[UOp]:
        """The pieces of an operation whose operands are split like itself."""
        columns: list[list[UOp]] = []
        for s in u.src:
            parts = self.pieces.get(s)
            if parts is None:
                whole = self.whole[s]
                parts = [whole.broadcast(n) if n > 1 else whole for n in sizes]
            columns.append(parts)
        kinds = [scalar.vec(n) for n in sizes]
        rows = zip(kinds, zip(*columns))
        return [UOp(u.op, kind, src, u.arg, u.tag) for kind, src in rows]

    def _piece(self, u: UOp, scalar: DType, first: int, size: int) -> UOp:
        if u.op is Ops.CONST:
            return UOp.const(scalar.vec(size), u.arg)
        if u.op is Ops.VCONST:
            values = u.arg[first : first + size]
            return UOp.const(scalar.vec(size), values if size > 1 else values[0])
        if u.op is Ops.VECTORIZE:
            srcs = [self.whole[s] for s in u.src[first : first + size]]
            return srcs[0] if size == 1 else UOp(Ops.VECTORIZE, scalar.vec(size), tuple(srcs))
        if u.op is Ops.GEP:
            return self.select(u.src[0], u.arg[first : first + size])
        if u.op is Ops.CAT:
            return _joined(self._slices(u.src, first, size))
        if u.op in _ELEMENTWISE:
            src = tuple([self.lanes(s, first, size) for s in u.src])
            return UOp(u.op, scalar.vec(size), src, u.arg, u.tag)
        raise RuntimeError(f"cannot split {u.op} of {u.dtype} into vectors of {size}")

    # *** accesses ***

    def _access(self, u: UOp) -> None:
        """A LOAD or STORE of several elements through `CAST(INDEX)`."""
        address = u.src[0].src[0]
        buf, idx = (self.whole[s] for s in address.src[:2])
        gate = address.src[2] if len(address.src) > 2 else None
        lanes = (u if u.op is Ops.LOAD else u.src[1]).dtype.count
        made: list[UOp] = []
        first = 0
        masked = gate is not None and _is_vector(gate)
        for size in self._access_plan(lanes, buf.dtype, idx, masked):
            at = idx + first if first else idx
            mask = None if gate is None else self._gate(gate, first, size)
            target = _address(buf, at, mask, size)
            operands = [self.lanes(s, first, size) for s in u.src[1:2]]
            rest = [self._operand(s) for s in u.src[2:]]
            dtype = u.dtype if u.op is Ops.STORE else u.dtype.scalar().vec(size)
            made.append(u.replace(dtype=dtype, src=(target, *operands, *rest)))
            first += size
        if u.op is Ops.STORE:
            self.whole[u] = UOp.group(*made) if len(made) > 1 else made[0]
        elif self.scalar_alu:
            self.pieces[u] = [
                m.gep(i) if m.dtype.count > 1 else m for m in made for i in range(m.dtype.count)
            ]
        elif _is_vector(u):
            self.pieces[u] = made
        else:
            self.whole[u] = made[0]

    def _gate(self, gate: UOp, first: int, size: int) -> UOp:
        if not _is_vector(gate):
            return self.whole[gate]
        return self.lanes(gate, first, size)

    def _access_plan(self, lanes: int, ptr: PtrDType, idx: UOp, masked: bool) -> list[int]:
        if not self.scalar_alu:
            return self.plan(lanes)
        sizes: list[int] = []
        # without vector registers there are no lane masks
        if ptr.addrspace is not AddrSpace.REG and not masked:
            for size in self.narrow_access:
                done = sum(sizes)
                if (idx + done).divides(size) is not None:
                    sizes += [size] * ((lanes - done) // size)
        return sizes + [1] * (lanes - sum(sizes))


def _joined(parts: list[UOp]) -> UOp:
    if len(parts) == 1:
        return parts[0]
    flat = [p if p.dtype.count == 1 else p.gep(i) for p in parts for i in range(p.dtype.count)]
    return UOp(Ops.VECTORIZE, flat[0].dtype.vec(len(flat)), tuple(flat))


def _address(buf: UOp, idx: UOp, gate: UOp | None, count: int) -> UOp:
    src = (buf, idx) if gate is None else (buf, idx, gate)
    address = UOp(Ops.INDEX, buf.dtype, src)
    if count == 1:
        return address
    ptr = buf.dtype
    return address.cast(ptr.base.vec(count).ptr(ptr.size, ptr.addrspace))


def split_vectors(sink: UOp, ren: Any) -> UOp:
    """`sink` with every vector value in pieces that `ren` has registers for."""
    order = list(sink.toposort())
    if not any(_is_vector(u) for u in order):
        return sink
    splitter = _Splitter(ren, order)
    for u in order:
        splitter.visit(u)
    return splitter.whole[sink]
