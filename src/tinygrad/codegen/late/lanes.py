"""Expands UPCAST and UNROLL axes: tiles of values, and wide vectors.

In: a kernel of scalar operations over ranges, some of them typed UPCAST or UNROLL ("lane axes").
Out: the same kernel without those ranges. One lane axis per tile becomes the lanes of vector
operations (`dtype.vec(n)`, n the size of the axis); the others become copies. Every REDUCE is
turned into accumulators on the way. Which axis becomes the vector is decided by
`choose_vector_axes`: the one along which most memory accesses are contiguous.

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

from tinygrad.codegen.late.accesses import AccessPlan, TransposedLoad, linear_in
from tinygrad.codegen.late.accumulate import RegisterNames, accumulate, across_lanes, balanced
from tinygrad.codegen.late.memory import address_parts
from tinygrad.codegen.late.padding import pad_vector_axes
from tinygrad.codegen.late.scopes import Axis, Scopes, axis_of
from tinygrad.codegen.target import PICKED_STRIDES, native_lanes
from tinygrad.dtype import PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import AxisType, UOp

# accumulators that hide the latency of an addition, and how many results are nearly as good
_PARALLEL_ACCUMULATORS = 8
_ENOUGH_RESULTS = 4
_STRUCTURAL = {Ops.SINK, Ops.GROUP, Ops.BARRIER, Ops.END}


class Tile(NamedTuple):
    """Expansion of one node: `nodes` row by row over `axes`; with `vector`, each is that wide."""

    axes: tuple[Axis, ...]
    vector: Axis | None
    nodes: list[UOp]


def is_lane_range(u: UOp) -> bool:
    """Whether `u` is an axis that this pass expands."""
    return u.op is Ops.RANGE and u.arg[-1] in (AxisType.UPCAST, AxisType.UNROLL)


def _executions(scopes: Scopes, mask: int) -> int:
    """How often a node inside the loops of `mask` is executed, about."""
    times = 1
    for r in scopes.members(mask):
        times *= max(int(r.vmax) + 1, 1)
    return times


def _selects_computed(u: UOp) -> bool:
    """Whether `u` picks between values of which at least one takes arithmetic."""
    if u.op is not Ops.WHERE or u.dtype.scalar() is dtypes.index:
        return False
    return any(side.op in GroupOp.ALU for side in u.src[1:])


def choose_vector_axes(scopes: Scopes, forbidden: int) -> set[UOp]:
    """The lane ranges that become vector lanes; no node depends on two of them.

    Each range earns the executions of every access with stride 1 along it, and loses half of those
    of strided ones, whose lanes have to be gathered. A select that the range alone decides costs both
    its sides as lanes, and neither where the range is spelled out. The best is taken, then the best of those that
    never meet it, and so on.
    """
    candidates = [r for r in scopes.ranges if is_lane_range(r) and r.vmax > 0]
    lanes = [r for r in candidates if not forbidden & scopes.bit[r]]
    points = dict.fromkeys(lanes, 0)
    for u in scopes.order if lanes else ():
        # (a gated load computes nothing that could be left out)
        if _selects_computed(u):
            for r in lanes:
                if scopes.mask[u.src[0]] == scopes.bit[r]:
                    points[r] -= 2 * _executions(scopes, scopes.mask[u])
        if u.op not in (Ops.LOAD, Ops.STORE) or (parts := address_parts(u.src[0])) is None:
            continue
        mask = scopes.mask[parts[1]]
        weight = _executions(scopes, mask)
        for r in lanes:
            if mask & scopes.bit[r]:
                found = linear_in(parts[1], r, scopes)
                stride = 0 if found is None else found[1]
                if abs(stride) == 1:
                    points[r] += 2 * weight
                elif stride not in PICKED_STRIDES:
                    points[r] -= weight
    masks = set(scopes.mask.values())
    chosen: set[UOp] = set()
    taken = 0
    for r in sorted(lanes, key=lambda r: -points[r]):
        meets = any(m & scopes.bit[r] and m & taken for m in masks)
        if points[r] > 0 and not meets:
            chosen.add(r)
            taken |= scopes.bit[r]
    return chosen


class LaneExpander:
    """Expands one kernel; `expand` gives the new sink."""

    def __init__(self, sink: UOp, ren: Any, vector_axes: set[UOp] | None = None):
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
        if vector_axes is None:
            chosen = choose_vector_axes(self.scopes, self._scalar_only())
            vector_axes = chosen if wide or ren.supports_float4 else set()
        self.vector_axes = vector_axes
        self.wide = wide
        self.tiles: dict[UOp, Tile] = {}
        self.positions: dict[tuple, list[int]] = {}

    @staticmethod
    def _constant_size(r: UOp) -> int:
        end = r.src[0].ssimplify()
        if not isinstance(end, int):
            raise RuntimeError(
                f"axis {r.arg} has size {end.render()}; "
                "only constant sizes can be upcast or unrolled"
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

    def size_of(self, r: UOp) -> int:
        """How many lanes a lane range has."""
        return self.size[axis_of(r)]

    def is_copied(self, r: UOp) -> bool:
        """Whether `r` is a lane range that becomes copies."""
        return is_lane_range(r) and r not in self.vector_axes

    def padded(self) -> LaneExpander:
        """The expander of the kernel with vector axes rounded up to registers; itself where none is."""
        sink, axes = pad_vector_axes(
            self.sink, self.scopes, self.vector_axes, self._masked_stride, self.ren
        )
        return self if sink is self.sink else LaneExpander(sink, self.ren, axes)

    def _masked_stride(self, idx: UOp, r: UOp) -> int | None:
        """The stride of an index along `r` where an access along it takes a mask as a vector, else None."""
        if not self.scopes.mask[idx] & self.scopes.bit[r]:
            return 0
        found = linear_in(idx, r, self.scopes)
        return found[1] if found is not None and found[1] in (1, *PICKED_STRIDES) else None

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
            return Tile((), axis_of(r), [UOp.const(r.dtype.vec(size), tuple(range(size)))])
        return Tile((axis_of(r),), None, [UOp.const(r.dtype, i) for i in range(size)])

    def _merged_axes(self, tiles: list[Tile]) -> tuple[Axis, ...]:
        found = {t.axes for t in tiles if t.axes}
        if len(found) <= 1:
            return found.pop() if found else ()
        return tuple(sorted({a for axes in found for a in axes}, key=str))

    def _coordinates(self, axes: tuple[Axis, ...]):
        """Every coordinate over `axes`, as a dict, the last axis fastest."""
        for values in itertools.product(*(range(self.size[a]) for a in axes)):
            yield dict(zip(axes, values))

    def at(self, tile: Tile, where: dict[Axis, int]) -> UOp:
        position = 0
        for a in tile.axes:
            position = position * self.size[a] + where[a]
        return tile.nodes[position]

    def _spread(self, u: UOp, srcs: list[Tile]) -> Tile:
        """An operation applied element by element."""
        axes = self._merged_axes(srcs)
        vector = next((t.vector for t in srcs if t.vector is not None), None)
        if not axes and vector is None:
            src = tuple(t.nodes[0] for t in srcs)
            return Tile((), None, [u if src == u.src else u.replace(src=src)])
        dtype = u.dtype if vector is None else u.dtype.vec(self.size[vector])
        columns = [self._column(t, axes, vector) for t in srcs]
        nodes = [UOp(u.op, dtype, src, u.arg, u.tag) for src in zip(*columns)]
        return Tile(axes, vector, nodes)

    def _column(self, tile: Tile, axes: tuple[Axis, ...], vector: Axis | None) -> list[UOp]:
        """The nodes of `tile` for every coordinate over `axes`, as wide as `vector` is."""
        nodes = tile.nodes
        if vector is not None and tile.vector != vector:
            nodes = [n.broadcast(self.size[vector]) for n in nodes]
        if tile.axes == axes:
            return nodes
        return [nodes[i] for i in self._positions(tile.axes, axes)]

    def _positions(self, inner: tuple[Axis, ...], axes: tuple[Axis, ...]) -> list[int]:
        """For every coordinate over `axes`, its place in a tile over some of them."""
        found = self.positions.get((inner, axes))
        if found is None:
            found = [0]
            for a in axes:
                step = (
                    math.prod(self.size[b] for b in inner[inner.index(a) + 1 :])
                    if a in inner
                    else 0
                )
                found = [at + i * step for at in found for i in range(self.size[a])]
            self.positions[inner, axes] = found
        return found

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
            loops = [
                n for s, t in zip(u.src[1:], srcs[1:]) if not is_lane_range(s) for n in t.nodes
            ]
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
            picked = [self.at(src, where | lane) for lane in self._coordinates(gathered)]
            nodes.append(
                UOp(Ops.VECTORIZE, u.dtype, tuple(picked)) if len(picked) > 1 else picked[0]
            )
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
            node = self.at(src, where)
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
            results.append([self.at(value, where | inner) for inner in self._coordinates(folded)])
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
        if registers >= _ENOUGH_RESULTS:
            return 1
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
        if u.op is Ops.LOAD and (rows := self._transposed(u, parts, vector)) is not None:
            return Tile(axes, vector, [rows(where) for where in self._coordinates(axes)])
        nodes: list[UOp] = []
        for where in self._coordinates(axes):
            plan = AccessPlan(self, u, parts, where | fixed, vector)
            nodes += plan.load(operands) if u.op is Ops.LOAD else plan.store(operands)
        if u.op is Ops.STORE:
            return Tile((), None, [UOp.group(*nodes) if len(nodes) > 1 else nodes[0]])
        if vector is None or all(n.dtype.count == 1 for n in nodes):
            return Tile(axes, None, nodes)
        width = self.size[vector]
        nodes = [n if n.dtype.count == width else n.broadcast(width) for n in nodes]
        return Tile(axes, vector, nodes)

    def vector_range(self, idx: UOp) -> UOp | None:
        """The range of the vector lanes that `idx` depends on."""
        mask = self.scopes.mask[idx]
        return next((r for r in self.vector_axes if mask & self.scopes.bit[r]), None)

    def _transposed(self, u: UOp, parts, vector: Axis | None):
        """A function from coordinates to vectors, for a load that is best made by transposing."""
        r = None if vector is None or not self.wide else self.vector_range(parts[1])
        native = native_lanes(self.ren, u.dtype.itemsize)
        found = None if r is None else TransposedLoad.find(self, u, parts, r, native)
        if found is None:
            return None
        copied = axis_of(found.copied)
        made: dict[tuple, list[UOp]] = {}

        def at(where: dict[Axis, int]) -> UOp:
            key = tuple(i for a, i in where.items() if a != copied)
            if key not in made:
                made[key] = found.columns(where)
            return made[key][where[copied]]

        return at

    def _opaque_access(self, u: UOp, srcs: list[Tile]) -> Tile:
        """An access whose address this pass does not look into."""
        tile = self._spread(u, srcs)
        if u.op is Ops.STORE and len(tile.nodes) > 1:
            return Tile((), None, [UOp.group(*tile.nodes)])
        return Tile((), None, tile.nodes) if u.op is Ops.STORE else tile


def expand_lanes(sink: UOp, ren: Any) -> UOp:
    """`sink` without UPCAST and UNROLL ranges and without REDUCE."""
    wanted = (Ops.REDUCE, Ops.CONTRACT, Ops.UNROLL)
    if any(u.op in wanted or is_lane_range(u) for u in sink.toposort()):
        return LaneExpander(sink, ren).padded().expand()
    return sink
