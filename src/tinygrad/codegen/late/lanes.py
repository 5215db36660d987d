"""Expands UPCAST and UNROLL axes: tiles of values, and wide vectors.

In: a kernel of scalar operations over ranges, some of them typed UPCAST or UNROLL ("lane axes"). Out:
the same kernel without those ranges. One lane axis per tile becomes the lanes of vector operations
(`dtype.vec(n)`, n the size of the axis); the others become copies. Every REDUCE is turned into
accumulators on the way. Which axis becomes the vector is decided by `choose_vector_axes`: the one
along which most memory accesses are contiguous.

A node's expansion is a `Tile`: its operations for every coordinate of the copied axes that it
depends on, and only those. So an operand that does not depend on an axis exists once and is shared,
and nothing is built that a later pass has to merge again. Accesses along the vector axis become one
vector access where the addresses are consecutive, a scalar access where they are equal, and scalar
accesses gathered to a vector otherwise. One walk, sources first; no rewriting.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from tinygrad.codegen.late.accumulate import RegisterNames, accumulate, across_lanes, balanced
from tinygrad.codegen.late.memory import address_parts
from tinygrad.codegen.late.scopes import Scopes
from tinygrad.dtype import PtrDType
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, UOp

Axis = Any  # what identifies a lane axis: the axis id of its range

# accumulators that hide the latency of an addition
_PARALLEL_ACCUMULATORS = 8
_STRUCTURAL = {Ops.SINK, Ops.GROUP, Ops.BARRIER, Ops.END}


class Tile(NamedTuple):
    """Expansion of one node: `nodes` row by row over `axes`; with `vector`, each is that wide."""

    axes: tuple[Axis, ...]
    vector: Axis | None
    nodes: list[UOp]


def axis_of(r: UOp) -> Axis:
    """The identity of a range's axis."""
    return r.arg[0] if len(r.arg) == 2 else r.arg[:-1]


def is_lane_range(u: UOp) -> bool:
    """Whether `u` is an axis that this pass expands."""
    return u.op is Ops.RANGE and u.arg[-1] in (AxisType.UPCAST, AxisType.UNROLL)


def linear_in(idx: UOp, r: UOp, scopes: Scopes) -> tuple[list[UOp], int] | None:
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


def choose_vector_axes(scopes: Scopes, forbidden: int) -> set[UOp]:
    """The lane ranges that become vector lanes; no node depends on two of them.

    Each range earns points for accesses with stride 1 along it and loses some for strided ones; the
    best is taken, then the best of those that never meet it, and so on.
    """
    lanes = [r for r in scopes.ranges if is_lane_range(r) and not forbidden & scopes.bit[r]]
    points = dict.fromkeys(lanes, 0)
    for u in scopes.order:
        if u.op not in (Ops.LOAD, Ops.STORE) or (parts := address_parts(u.src[0])) is None:
            continue
        weight = 2 if u.op is Ops.STORE else 1
        for r in lanes:
            if scopes.mask[parts[1]] & scopes.bit[r]:
                found = linear_in(parts[1], r, scopes)
                unit = found is not None and found[1] == 1
                points[r] += 2 * weight if unit else -weight
    chosen: set[UOp] = set()
    taken = 0
    for r in sorted(lanes, key=lambda r: -points[r]):
        meets = any(m & scopes.bit[r] and m & taken for m in scopes.mask.values())
        if points[r] > 0 and not meets:
            chosen.add(r)
            taken |= scopes.bit[r]
    return chosen


class LaneExpander:
    """Expands one kernel; `expand` gives the new sink."""

    def __init__(self, sink: UOp, ren: Any):
        self.sink = sink
        self.ren = ren
        self.scopes = Scopes(sink)
        self.names = RegisterNames(sink)
        self.size: dict[Axis, int] = {}
        for r in self.scopes.ranges:
            if is_lane_range(r):
                self.size[axis_of(r)] = self._constant_size(r)
        for u in self.scopes.order:
            if u.op in (Ops.UNROLL, Ops.CONTRACT):
                self.size.update(u.arg)
        wide = getattr(ren, "vector_bytes", 0) > 0
        chosen = choose_vector_axes(self.scopes, self._scalar_only())
        self.vector_axes = chosen if wide or ren.supports_float4 else set()
        self.wide = wide
        self.tiles: dict[UOp, Tile] = {}

    @staticmethod
    def _constant_size(r: UOp) -> int:
        end = r.src[0].ssimplify()
        if not isinstance(end, int):
            raise RuntimeError(
                f"axis {r.arg} has size {end.render()}; only constant sizes can be upcast or unrolled"
            )
        return end

    def _scalar_only(self) -> int:
        """Ranges that may not become vector lanes: their elements are vectors already."""
        mask = 0
        for u in self.scopes.order:
            fixed = u.op in (Ops.WMMA, Ops.CUSTOM, Ops.CUSTOMI, Ops.CONTRACT, Ops.UNROLL)
            if fixed or (u.dtype.count > 1 and not isinstance(u.dtype, PtrDType)):
                mask |= self.scopes.mask[u]
                for s in u.src:
                    mask |= self.scopes.mask[s]
        return mask

    def expand(self) -> UOp:
        """The sink without lane ranges and without REDUCE."""
        for u in self.scopes.order:
            self.tiles[u] = self._tile(u)
        return self.tiles[self.sink].nodes[0]

    # *** tiles ***

    def _tile(self, u: UOp) -> Tile:
        if is_lane_range(u):
            return self._range(u)
        srcs = [self.tiles[s] for s in u.src]
        if u.op is Ops.REDUCE:
            return self._reduce(u, srcs[0])
        if u.op in (Ops.LOAD, Ops.STORE):
            return self._access(u)
        if u.op is Ops.AFTER:
            return self._after(u, srcs)
        if u.op in _STRUCTURAL:
            return self._structural(u, srcs)
        if u.op is Ops.CONTRACT:
            return self._contract(u, srcs[0])
        if u.op is Ops.UNROLL:
            return self._unroll(u, srcs[0])
        if u.op is Ops.INDEX and any(t.vector is not None for t in srcs):
            # its accesses take it apart themselves
            return Tile((), None, [u])
        return self._spread(u, srcs)

    def _range(self, r: UOp) -> Tile:
        size = self.size[axis_of(r)]
        if r in self.vector_axes:
            lanes = UOp.const(r.dtype.vec(size), tuple(range(size)))
            return Tile((), axis_of(r), [lanes if size > 1 else UOp.const(r.dtype, 0)])
        return Tile((axis_of(r),), None, [UOp.const(r.dtype, i) for i in range(size)])

    def _merged_axes(self, tiles: list[Tile]) -> tuple[Axis, ...]:
        return tuple(sorted({a for t in tiles for a in t.axes}, key=str))

    def _coordinates(self, axes: tuple[Axis, ...]):
        """Every coordinate over `axes`, as a dict, the last axis fastest."""
        for values in itertools.product(*(range(self.size[a]) for a in axes)):
            yield dict(zip(axes, values))

    def _at(self, tile: Tile, where: dict[Axis, int]) -> UOp:
        position = 0
        for a in tile.axes:
            position = position * self.size[a] + where[a]
        return tile.nodes[position]

    def _widened(self, tile: Tile, node: UOp, vector: Axis | None) -> UOp:
        if vector is None or tile.vector == vector or self.size[vector] == 1:
            return node
        return node.broadcast(self.size[vector])

    def _spread(self, u: UOp, srcs: list[Tile]) -> Tile:
        """An operation applied element by element."""
        axes = self._merged_axes(srcs)
        vector = next((t.vector for t in srcs if t.vector is not None), None)
        if not axes and vector is None:
            src = tuple(t.nodes[0] for t in srcs)
            return Tile((), None, [u if src == u.src else u.replace(src=src)])
        dtype = u.dtype if vector is None else u.dtype.vec(self.size[vector])
        nodes = []
        for where in self._coordinates(axes):
            src = tuple(self._widened(t, self._at(t, where), vector) for t in srcs)
            nodes.append(u.replace(dtype=dtype, src=src))
        return Tile(axes, vector, nodes)

    def _after(self, u: UOp, srcs: list[Tile]) -> Tile:
        waits: dict[UOp, None] = {}
        for s, t in zip(u.src[1:], srcs[1:]):
            if not is_lane_range(s):
                waits.update(dict.fromkeys(t.nodes))
        first = srcs[0]
        if not waits:
            return first
        return Tile(first.axes, first.vector, [n.after(*waits) for n in first.nodes])

    def _structural(self, u: UOp, srcs: list[Tile]) -> Tile:
        if u.op is Ops.END:
            body = UOp.group(*srcs[0].nodes) if len(srcs[0].nodes) > 1 else srcs[0].nodes[0]
            loops = [n for s, t in zip(u.src[1:], srcs[1:]) if not is_lane_range(s) for n in t.nodes]
            return Tile((), None, [u.replace(src=(body, *loops)) if loops else body])
        flat = tuple(dict.fromkeys(n for t in srcs for n in t.nodes))
        if flat == u.src:
            return Tile((), None, [u])
        return Tile((), None, [u.replace(src=flat)])

    def _contract(self, u: UOp, src: Tile) -> Tile:
        """Gathers axes into the lanes of an element, the last named axis fastest."""
        gathered = tuple(a for a, _ in u.arg)
        if src.vector is not None and src.vector in gathered:
            raise RuntimeError(f"axis {src.vector} is contracted and a vector axis at once")
        axes = tuple(a for a in src.axes if a not in gathered)
        nodes = []
        for where in self._coordinates(axes):
            picked = [self._at(src, where | lane) for lane in self._coordinates(gathered)]
            nodes.append(UOp(Ops.VECTORIZE, u.dtype, tuple(picked)) if len(picked) > 1 else picked[0])
        return Tile(axes, None, nodes)

    def _unroll(self, u: UOp, src: Tile) -> Tile:
        """Spreads the lanes of an element over axes."""
        spread = tuple(a for a, _ in u.arg)
        axes = tuple(sorted({*src.axes, *spread}, key=str))
        nodes = []
        for where in self._coordinates(axes):
            lane = 0
            for a in spread:
                lane = lane * self.size[a] + where[a]
            node = self._at(src, where)
            nodes.append(node.gep(lane) if node.dtype.count > 1 else node)
        return Tile(axes, None, nodes)

    # *** reductions ***

    def _reduce(self, u: UOp, value: Tile) -> Tile:
        op = u.arg
        lanes = [axis_of(r) for r in u.src[1:] if is_lane_range(r)]
        loops = tuple(self.tiles[r].nodes[0] for r in u.src[1:] if not is_lane_range(r))
        unused = [a for a in lanes if a not in value.axes and a != value.vector]
        value = self._repeat(op, value, math.prod(self.size[a] for a in unused))
        folded = tuple(a for a in value.axes if a in lanes)
        axes = tuple(a for a in value.axes if a not in lanes)
        across = value.vector is not None and value.vector in lanes
        results: list[list[UOp]] = []
        for where in self._coordinates(axes):
            results.append([self._at(value, where | inner) for inner in self._coordinates(folded)])
        if across and not self.wide:
            n = self.size[value.vector]
            results = [[v.gep(i) for v in row for i in range(n)] for row in results]
        if loops:
            mask = self.scopes.mask[u]
            outer = tuple(r for r in self.scopes.members(mask) if not is_lane_range(r))
            split = self._accumulators(len(results), results[0])
            groups = [[row[a::split] for a in range(split)] for row in results]
            around = tuple(self.tiles[r].nodes[0] for r in outer)
            results = accumulate(op, groups, loops, around, self.names)
        nodes = [balanced(op, row) for row in results]
        if across:
            nodes = [across_lanes(op, n) for n in nodes]
        return Tile(axes, None if across else value.vector, nodes)

    def _repeat(self, op: Ops, value: Tile, times: int) -> Tile:
        """A value reduced over lanes that it does not depend on."""
        if times == 1 or op is Ops.MAX:
            return value
        if op is Ops.ADD:
            nodes = [n * n.const_like(times) for n in value.nodes]
        else:
            nodes = [balanced(op, [n] * times) for n in value.nodes]
        return value._replace(nodes=nodes)

    def _accumulators(self, results: int, contributions: list[UOp]) -> int:
        """Into how many accumulators the contributions to one result are dealt."""
        width = self.ren.vector_bytes if self.wide else 0
        if not width:
            return 1
        dtype = contributions[0].dtype
        registers = max(1, dtype.itemsize // width) * results
        total = len(contributions)
        fitting = [p for p in range(1, total + 1) if total % p == 0]
        return max(p for p in fitting if p == 1 or p * registers <= _PARALLEL_ACCUMULATORS)

    # *** memory ***

    def _access(self, u: UOp) -> Tile:
        parts = address_parts(u.src[0])
        operands = [self.tiles[s] for s in u.src[1:]]
        if parts is None or u.src[0].op is not Ops.INDEX:
            return self._opaque_access(u, [self.tiles[u.src[0]], *operands])
        buf, idx, gate = parts
        involved = [self.tiles[idx], *operands, *([self.tiles[gate]] if gate is not None else [])]
        vector = next((t.vector for t in involved if t.vector is not None), None)
        axes = self._merged_axes(involved)
        if u.op is Ops.STORE and gate is None:
            # lanes that share an address: the last one is what remains
            axes_kept = self.tiles[idx].axes
            fixed = {a: self.size[a] - 1 for a in axes if a not in axes_kept}
            axes = axes_kept
        else:
            fixed = {}
        nodes: list[UOp] = []
        for where in self._coordinates(axes):
            plan = _AccessPlan(self, u, parts, where | fixed, vector)
            nodes += plan.load(operands) if u.op is Ops.LOAD else plan.store(operands)
        if u.op is Ops.STORE:
            return Tile((), None, [UOp.group(*nodes) if len(nodes) > 1 else nodes[0]])
        if vector is None or all(n.dtype.count == 1 for n in nodes):
            return Tile(axes, None, nodes)
        width = self.size[vector]
        nodes = [n if n.dtype.count == width else n.broadcast(width) for n in nodes]
        return Tile(axes, vector, nodes)

    def _opaque_access(self, u: UOp, srcs: list[Tile]) -> Tile:
        """An access whose address this pass does not look into."""
        tile = self._spread(u, srcs)
        if u.op is Ops.STORE and len(tile.nodes) > 1:
            return Tile((), None, [UOp.group(*tile.nodes)])
        return Tile((), None, tile.nodes) if u.op is Ops.STORE else tile


class _AccessPlan:
    """One LOAD or STORE at one coordinate: how its lanes map to accesses."""

    def __init__(self, lanes: LaneExpander, u: UOp, parts, where: dict[Axis, int], vector):
        self.lanes = lanes
        self.u = u
        self.where = where
        self.vector = vector
        self.count = 1 if vector is None else lanes.size[vector]
        buf, idx, gate = parts
        self.buf = lanes.tiles[buf].nodes[0]
        self.gate_tile = None if gate is None else lanes.tiles[gate]
        self.gate = None if gate is None else lanes._at(self.gate_tile, where)
        self.stride, self.base, self.each = self._stride(idx)
        gated_by_lane = self.gate_tile is not None and self.gate_tile.vector is not None
        self.uniform = self.stride == 0 and not gated_by_lane

    def _stride(self, idx: UOp) -> tuple[int | None, UOp | None, list[UOp]]:
        """(stride, index of lane 0, []), or (None, None, index of every lane)."""
        lanes, where = self.lanes, self.where
        tile = lanes.tiles[idx]
        if tile.vector is None:
            return 0, lanes._at(tile, where), []
        r = next(r for r in lanes.vector_axes if axis_of(r) == self.vector
                 and lanes.scopes.mask[idx] & lanes.scopes.bit[r])
        if (found := linear_in(idx, r, lanes.scopes)) is not None:
            terms = [lanes._at(lanes.tiles[t], where) for t in found[0]]
            base = UOp.sum(*terms) if terms else UOp.const(idx.dtype, 0)
            return found[1], base, []
        wide = lanes._at(tile, where)
        each = [lane_of(wide, i).simplify() for i in range(self.count)]
        steps = {step_between(a, b) for a, b in zip(each, each[1:])}
        if len(steps) == 1 and (step := steps.pop()) is not None:
            return step, each[0], []
        return None, None, each

    def _address(self, idx: UOp, gate: UOp | None, count: int) -> UOp:
        src = (self.buf, idx) if gate is None else (self.buf, idx, gate)
        address = UOp(Ops.INDEX, self.buf.dtype, src)
        if count == 1:
            return address
        ptr = self.buf.dtype
        return address.cast(ptr.base.vec(count).ptr(ptr.size, ptr.addrspace))

    def _gate_lanes(self, first: int, count: int) -> UOp | None:
        if self.gate is None or self.gate_tile.vector is None or count == self.count:
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
        alt = self.lanes._at(operands[0], self.where) if operands else None
        alt_wide = bool(operands) and operands[0].vector is not None
        if self.uniform and alt_wide:
            self.uniform = False
        if self.uniform:
            return [UOp(Ops.LOAD, u.dtype, (self._address(self.base, self.gate, 1),
                                            *(() if alt is None else (alt,))), u.arg)]
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

    def store(self, operands: list[Tile]) -> list[UOp]:
        """The stores that write every lane."""
        u = self.u
        value = self.lanes._at(operands[0], self.where)
        rest = tuple(self.lanes._at(t, self.where) for t in operands[1:])
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


def expand_lanes(sink: UOp, ren: Any) -> UOp:
    """`sink` without UPCAST and UNROLL ranges and without REDUCE."""
    wanted = (Ops.REDUCE, Ops.CONTRACT, Ops.UNROLL)
    if any(u.op in wanted or is_lane_range(u) for u in sink.toposort()):
        return LaneExpander(sink, ren).expand()
    return sink
