"""How the lanes of one LOAD or STORE map to memory accesses.

In: an access in a tile (see `lanes.py`), at one coordinate of its copied axes. Out: the nodes that
perform it: one vector access where the addresses of the lanes are consecutive, a scalar access
where they are equal, accesses gathered to a vector otherwise; and, where neighbours in memory lie
along a copied axis, vector loads along that axis and a transposition in registers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygrad.codegen.late.scopes import Axis, axis_of
from tinygrad.codegen.target import PICKED_STRIDES, native_lanes
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp

if TYPE_CHECKING:
    from tinygrad.codegen.late.lanes import LaneExpander, Tile


def linear_in(idx: UOp, r: UOp, scopes: Any) -> tuple[list[UOp], int] | None:
    """Terms without `r`, and the factor of `r`, of a sum; None when `r` is not a linear term."""
    rest: list[UOp] = []
    factor = 0
    for term in idx.split_uop(Ops.ADD):
        if term is r:
            factor += 1
        elif term.op is Ops.MUL and term.src[0] is r and term.src[1].op is Ops.CONST:
            factor += term.src[1].arg
        elif scopes.mask[term] & scopes.bit[r]:
            return None
        else:
            rest.append(term)
    return rest, factor


class AccessPlan:
    """One LOAD or STORE at one coordinate: how its lanes map to accesses."""

    def __init__(self, lanes: LaneExpander, u: UOp, parts, where: dict[Axis, int], vector):
        self.lanes = lanes
        self.u = u
        self.where = where
        self.vector = vector
        self.count = 1 if vector is None else lanes.size[vector]
        buf, idx, gate = parts
        self.buf = lanes.tiles[buf].nodes[0]
        self.gate = None if gate is None else lanes.at(lanes.tiles[gate], where)
        self.gated_by_lane = gate is not None and lanes.tiles[gate].vector is not None
        self.stride, self.base, self.each = self._stride(idx)
        self.uniform = self.stride == 0 and not self.gated_by_lane

    def _stride(self, idx: UOp) -> tuple[int | None, UOp, list[UOp]]:
        """(stride, index of lane 0, []), or (None, index of lane 0, index of every lane)."""
        lanes, where = self.lanes, self.where
        tile = lanes.tiles[idx]
        if tile.vector is None:
            return 0, lanes.at(tile, where), []
        r = lanes.vector_range(idx)
        if (found := linear_in(idx, r, lanes.scopes)) is not None:
            terms = [lanes.at(lanes.tiles[t], where) for t in found[0]]
            base = UOp.sum(*terms) if terms else UOp.const(idx.dtype, 0)
            return found[1], base, []
        wide = lanes.at(tile, where)
        each = [lane_of(wide, i).simplify() for i in range(self.count)]
        steps = {step_between(a, b) for a, b in zip(each, each[1:])}
        if len(steps) == 1 and (step := steps.pop()) is not None:
            return step, each[0], []
        return None, each[0], each

    def _address(self, idx: UOp, gate: UOp | None, count: int) -> UOp:
        src = (self.buf, idx) if gate is None else (self.buf, idx, gate)
        address = UOp(Ops.INDEX, self.buf.dtype, src)
        if count == 1:
            return address
        ptr = self.buf.dtype
        return address.cast(ptr.base.vec(count).ptr(ptr.size, ptr.addrspace))

    def _gate_lanes(self, first: int, count: int) -> UOp | None:
        if self.gate is None or not self.gated_by_lane or count == self.count:
            return self.gate
        return lane_slice(self.gate, first, count)

    def runs(self) -> list[tuple[int, int, UOp, bool]]:
        """Pieces (first lane, lanes, lowest index, reversed) that one access each can serve."""
        n = self.count
        if self.stride in (1, -1) and n > 1:
            low = self.base if self.stride == 1 else self.base + (1 - n)
            return [(0, n, low, self.stride == -1)]
        each = self.each
        if self.stride is not None:
            each = [self.base + i * self.stride if i else self.base for i in range(n)]
        pieces: list[tuple[int, int, UOp, bool]] = []
        start = 0
        for i in range(1, n + 1):
            if i == n or self.stride is not None or step_between(each[i - 1], each[i]) != 1:
                pieces.append((start, i - start, each[start], False))
                start = i
        return pieces

    def load(self, operands: list[Tile]) -> list[UOp]:
        """The loaded value: a vector, or a scalar when all lanes read the same."""
        u, scalar = self.u, self.u.dtype.scalar()
        alt = self.lanes.at(operands[0], self.where) if operands else None
        alt_wide = bool(operands) and operands[0].vector is not None
        if self.uniform and alt_wide:
            self.uniform = False
        if self.uniform:
            return [
                UOp(
                    Ops.LOAD,
                    u.dtype,
                    (self._address(self.base, self.gate, 1), *(() if alt is None else (alt,))),
                    u.arg,
                )
            ]
        if alt is None and (parts := self._deinterleaved()) is not None:
            return [join_vectors(parts)]
        got: list[UOp] = []
        for first, count, idx, backwards in self.runs():
            order = tuple(range(count - 1, -1, -1))
            gate = self._gate_lanes(first, count)
            if backwards and gate is not None and gate.dtype.count > 1:
                gate = gate.gep(order)
            src = [self._address(idx, gate, count)]
            if alt is not None:
                piece = lane_slice(alt, first, count) if alt_wide else alt
                piece = piece if piece.dtype.count == count else piece.broadcast(count)
                src.append(piece.gep(order) if backwards and count > 1 else piece)
            value = UOp(Ops.LOAD, scalar.vec(count), tuple(src), u.arg)
            got.append(value.gep(order) if backwards and count > 1 else value)
        return [join_lanes(got)]

    def _deinterleaved(self) -> list[UOp] | None:
        """Blocks of a load with stride 2 or 4: whole vectors are loaded, and lanes picked.

        A block's last vector ends with its last lane, so that nothing beyond the lanes' own addresses is read. Lanes that are
        not picked, or that a gate switches off, are masked.
        """
        native = native_lanes(self.lanes.ren, self.u.dtype.itemsize)
        step = self.stride
        if step not in PICKED_STRIDES or native < 2 * step or self.count < 2:
            return None
        if self.gated_by_lane and not getattr(self.lanes.ren, "masked_lanes", False):
            return None
        blocks: list[UOp] = []
        for first in range(0, self.count, native):
            blocks.append(self._picked(first, min(native, self.count - first), step, native))
        return blocks

    def _picked(self, first: int, lanes: int, step: int, native: int) -> UOp:
        """Lanes `first .. first+lanes-1` of a load with stride `step`."""
        span = (lanes - 1) * step + 1
        side = min(native, 1 << (span.bit_length() - 1))
        starts = [min(low, span - side) for low in range(0, span, side)]
        wide = self.u.dtype.vec(side)
        loads = []
        for start in starts:
            offset = first * step + start
            gate = self._spread_gate(first, lanes, step, range(start, start + side))
            address = self._address(self.base + offset if offset else self.base, gate, side)
            loads.append(UOp(Ops.LOAD, wide, (address,), self.u.arg))
        # vectors are joined in pairs, so their number is a power of two
        loads += [loads[-1]] * ((1 << (len(loads) - 1).bit_length()) - len(loads))
        order = []
        for place in range(0, span, step):
            group = min(place // side, len(starts) - 1)
            order.append(group * side + place - starts[group])
        both = loads[0]
        if len(loads) > 1:
            both = UOp(Ops.CAT, self.u.dtype.vec(side * len(loads)), tuple(loads))
        return both.gep(tuple(order)) if lanes > 1 else both.gep(order[0])

    def _spread_gate(self, first: int, lanes: int, step: int, places: range) -> UOp | None:
        """The gate for whole vectors: a lane's own where it is picked, False between."""
        if self.gate is None or not self.gated_by_lane:
            return self.gate
        own = lane_slice(self.gate, first, lanes)
        if lanes == 1:
            own = own.broadcast(1)
        both = UOp(Ops.CAT, own.dtype.scalar().vec(2 * lanes), (own, own.const_like(False)))
        return both.gep(tuple(p // step if p % step == 0 else lanes for p in places))

    def store(self, operands: list[Tile]) -> list[UOp]:
        """The stores that write every lane."""
        u = self.u
        value = self.lanes.at(operands[0], self.where)
        rest = tuple(self.lanes.at(t, self.where) for t in operands[1:])
        value_wide = operands[0].vector is not None
        if self.uniform:
            if value_wide:
                value = value.gep(self.count - 1)
            return [u.replace(src=(self._address(self.base, self.gate, 1), value, *rest))]
        made: list[UOp] = []
        for first, count, idx, backwards in self.runs():
            order = tuple(range(count - 1, -1, -1))
            gate = self._gate_lanes(first, count)
            piece = lane_slice(value, first, count) if value_wide else value
            piece = piece if piece.dtype.count == count else piece.broadcast(count)
            if backwards and count > 1:
                piece = piece.gep(order)
                gate = gate.gep(order) if gate is not None and gate.dtype.count > 1 else gate
            made.append(u.replace(src=(self._address(idx, gate, count), piece, *rest)))
        return made


def lane_slice(vector: UOp, first: int, count: int) -> UOp:
    """Lanes `first .. first+count-1` of `vector`."""
    if count == vector.dtype.count:
        return vector
    return vector.gep(first) if count == 1 else vector.gep(tuple(range(first, first + count)))


def join_lanes(parts: list[UOp]) -> UOp:
    """One vector of the lanes of `parts`, in order."""
    if len(parts) == 1:
        return parts[0]
    lanes = [p if p.dtype.count == 1 else p.gep(i) for p in parts for i in range(p.dtype.count)]
    return UOp(Ops.VECTORIZE, lanes[0].dtype.vec(len(lanes)), tuple(lanes))


def join_vectors(parts: list[UOp]) -> UOp:
    """One vector of `parts` laid end to end."""
    if len(parts) == 1:
        return parts[0]
    count = sum(p.dtype.count for p in parts)
    return UOp(Ops.CAT, parts[0].dtype.scalar().vec(count), tuple(parts))


def step_between(a: UOp, b: UOp) -> int | None:
    """`b - a` where it is a constant that shows in their form."""
    base_a, offset_a = a.pop_const()
    base_b, offset_b = b.pop_const()
    return offset_b - offset_a if base_a is base_b else None


def lane_of(vector: UOp, lane: int) -> UOp:
    """The scalar expression that lane `lane` of an element-wise vector expression computes."""
    done: dict[UOp, UOp] = {}
    for u in vector.toposort(gate=lambda n: n.dtype.count > 1):
        if u.dtype.count == 1:
            done[u] = u
        elif u.op is Ops.VCONST:
            done[u] = UOp.const(u.dtype.scalar(), u.arg[lane])
        elif u.op is Ops.CONST:
            done[u] = UOp.const(u.dtype.scalar(), u.arg)
        elif u.op is Ops.VECTORIZE:
            done[u] = u.src[lane]
        elif u.op in (Ops.LOAD, Ops.GEP, Ops.CAT):
            done[u] = u.gep(lane)
        else:
            src = tuple(done.get(s, s) for s in u.src)
            done[u] = u.replace(dtype=u.dtype.scalar(), src=src)
    return done[vector]


def exchange(a: UOp, b: UOp, distance: int) -> tuple[UOp, UOp]:
    """Swaps the lanes of `a` that have bit `distance` set with those of `b` that have not."""
    n = a.dtype.count
    both = UOp(Ops.CAT, a.dtype.scalar().vec(2 * n), (a, b))
    low = tuple(i if not i & distance else n + i - distance for i in range(n))
    high = tuple(i + distance if not i & distance else n + i for i in range(n))
    return both.gep(low), both.gep(high)


def transpose(rows: list[UOp]) -> list[UOp]:
    """The columns of a square of lanes whose side is a power of two, as vectors.

    Eklundh's method: halves of row pairs are exchanged, then quarters, and so on.
    """
    rows = list(rows)
    distance = len(rows) // 2
    while distance:
        for i in range(len(rows)):
            if not i & distance:
                rows[i], rows[i + distance] = exchange(rows[i], rows[i + distance], distance)
        distance //= 2
    return rows


def _block_side(copies: int, lanes: int, native: int) -> int:
    """Side of the squares that a tile of copies and lanes is transposed in."""
    common = math.gcd(copies, lanes)
    return min(common & -common, native)


class TransposedLoad:
    """A LOAD whose neighbours in memory lie along a copied axis."""

    def __init__(self, lanes: LaneExpander, u: UOp, copied: UOp, vector: UOp, strides, side: int):
        self.lanes = lanes
        self.u = u
        self.copied, self.vector = copied, vector
        self.rest, self.step = strides
        self.side = side

    @staticmethod
    def find(lanes: LaneExpander, u: UOp, parts, vector: UOp, native: int) -> TransposedLoad | None:
        """The transposed form of LOAD `u`, when its index has one and it is worth it."""
        buf, idx, gate = parts
        scopes = lanes.scopes
        if len(u.src) > 1 or (across := linear_in(idx, vector, scopes)) is None:
            return None
        if across[1] in (0, 1, -1):
            return None
        for r in scopes.members(scopes.mask[idx]):
            if r is vector or not lanes.is_copied(r):
                continue
            bits = scopes.bit[r] | scopes.bit[vector]
            if gate is not None and scopes.mask[gate] & bits:
                continue
            split = [linear_in(t, r, scopes) for t in across[0]]
            terms = [t for t in split if t is not None]
            if len(terms) < len(split) or sum(t[1] for t in terms) != 1:
                continue
            side = _block_side(lanes.size_of(r), lanes.size_of(vector), native)
            if side >= 4:
                rest = [part for t in terms for part in t[0]]
                return TransposedLoad(lanes, u, r, vector, (rest, across[1]), side)
        return None

    def columns(self, where: dict[Axis, int]) -> list[UOp]:
        """For every copy along the copied axis, its vector; `where` fixes the other axes."""
        lanes, side = self.lanes, self.side
        copies, count = lanes.size_of(self.copied), lanes.size_of(self.vector)
        where = where | {axis_of(self.copied): 0}
        terms = [lanes.at(lanes.tiles[t], where) for t in self.rest]
        base = UOp.sum(*terms) if terms else UOp.const(self.u.src[0].src[1].dtype, 0)
        buf, _, *gate = self.u.src[0].src
        array = lanes.tiles[buf].nodes[0]
        gates = tuple(lanes.at(lanes.tiles[g], where) for g in gate)
        parts: list[list[UOp]] = [[] for _ in range(copies)]
        for first in range(0, count, side):
            for low in range(0, copies, side):
                rows = []
                for lane in range(first, first + side):
                    offset = lane * self.step + low
                    idx = base + offset if offset else base
                    address = UOp(Ops.INDEX, array.dtype, (array, idx, *gates))
                    ptr = array.dtype
                    address = address.cast(ptr.base.vec(side).ptr(ptr.size, ptr.addrspace))
                    rows.append(UOp(Ops.LOAD, self.u.dtype.vec(side), (address,), self.u.arg))
                for i, column in enumerate(transpose(rows)):
                    parts[low + i].append(column)
        return [join_vectors(p) for p in parts]
