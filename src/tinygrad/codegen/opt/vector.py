"""The heuristic for targets with wide vector registers and threads.

One register tile is chosen for the kernel and kept over the whole reduce: lanes along an axis where memory is contiguous,
rows along an axis that reuses the loaded vectors. Tiles need not divide the axes (`tails.py`). Costs are counted in
issue slots of fused multiply-adds on whole vectors, after the measurements in Goto and van de Geijn, "Anatomy of
High-Performance Matrix Multiplication" (2008), and Low et al., "Analytical Modeling Is Enough for High-Performance BLIS"
(2016): a tile must cover the latency of the multiply-adds and must not need more registers than there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.codegen.opt.access import Access, accesses_of
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.codegen.opt.ranges import axis_type, const_size
from tinygrad.dtype import dtypes
from tinygrad.helpers import USE_TC, ceildiv
from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

# a multiply-add's latency in issue slots, and the slots to sum a vector's lanes up
_LATENCY = 4
_HORIZONTAL_SUM = 10
# vector operations below which waking other threads costs more than it saves
_WORTH_THREADS = 3000
# conditions on one axis from which on it is spelled out, the longest such axis, and the most values at once
_WORTH_SPELLING_OUT = 3
_LONGEST_SPELLED_OUT = 8
_MOST_SPELLED_OUT = 64
_MOST_ROWS = 16
_MOST_VECTORS = 4
# TC=0: matrix products are made of blocks of this size either way, whatever the registers hold
_PLAIN_TILE = 4
# what one more body (tails have bodies of their own) may save: below this it costs more in code than it gains
_WORTH_A_BODY = 0.015
# a set-associative first-level cache keeps this many rows apart whose distance is a multiple of its way size
_ROWS_PER_SET = 6
_WAY_BYTES = 4096
_LINE_BYTES = 64


@dataclass
class KernelView:
    """What the choices are made from, read once before anything is moved."""

    k: Scheduler
    accesses: list[Access]
    outputs: list[UOp]
    reduces: list[UOp]
    lanes: int
    registers: int
    alu_count: int = 0
    costly: bool = False
    moved: dict[UOp, UOp] = field(default_factory=dict)

    @property
    def stores(self) -> list[Access]:
        return [a for a in self.accesses if a.is_store]

    @property
    def loads(self) -> list[Access]:
        return [a for a in self.accesses if not a.is_store]

    @property
    def body(self) -> list[Access]:
        """The loads inside the reduce, or all where there is none."""
        return [a for a in self.loads if a.in_reduce or not self.reduces]

    def now(self, rng: UOp) -> UOp:
        return self.moved.get(rng, rng)

    def apply(self, op: OptOps, rng: UOp, amount: int) -> bool:
        """Applies an opt to an axis if it is legal; says whether it was."""
        axes = self.k.rngs
        target = self.now(rng)
        if target not in axes:
            return False
        pool = [axes[i] for i in self.k.unrollable_dims] if op is OptOps.UNROLL else axes
        if target not in pool:
            return False
        try:
            self.k.apply_opt(Opt(op, pool.index(target), 0 if amount == _size(rng) else amount))
        except KernelOptError:
            return False
        return True


def _size(rng: UOp) -> int:
    return const_size(rng) or 0


_TRANSCENDENTAL = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.THREEFRY)


def view_of(k: Scheduler) -> KernelView:
    nodes = list(k.ast.toposort())
    accesses = accesses_of(k.ast)
    outputs = [r for r in k.rngs if axis_type(r) is AxisType.LOOP and _size(r) > 1]
    reduces = [r for r in k.rngs if axis_type(r) is AxisType.REDUCE]
    values = [
        u
        for u in nodes
        if u.op in GroupOp.ALU and u.dtype.scalar() not in (dtypes.index, dtypes.bool)
    ]
    widths = [u.dtype.itemsize for u in values] + [a.itemsize for a in accesses]
    lanes = max(1, k.ren.vector_bytes // max(widths, default=4))
    return KernelView(
        k, accesses, outputs, reduces, lanes, getattr(k.ren, "vector_registers", 16), len(values),
        any(u.op in _TRANSCENDENTAL for u in values),
    )  # fmt: skip


def optimise_for_vectors(k: Scheduler) -> None:
    """Applies a register tile and a split over threads."""
    v = view_of(k)
    if not v.stores or not v.outputs and not v.reduces:
        return
    work = _work(v)
    if _spell_out_selects(v):
        pass
    elif not v.reduces:
        _tile_elementwise(v)
    elif not (_tile_rows_and_lanes(v) or _tile_along_reduce(v)):
        _tile_elementwise(v)
    if work > _WORTH_THREADS:
        _thread(v)


def _selected(v: KernelView, axis: UOp, most: int) -> int:
    """How much of an axis to spell out so that selects between values are settled: all, a period of it, or 1 (nothing).

    Counts selects between computed values (a gate on a load is free) whose condition hangs on this axis alone, or on its place within a period ("axis % n").
    """
    conditions = [
        u.src[0]
        for u in v.k.ast.toposort()
        if u.op is Ops.WHERE
        and u.dtype.scalar() is not dtypes.index
        and any(side.op in GroupOp.ALU for side in u.src[1:])
    ]
    alone = [c for c in dict.fromkeys(conditions) if c.ranges.keys() == {axis}]
    if len(alone) < _WORTH_SPELLING_OUT:
        return 1
    if 1 < _size(axis) <= most:
        return _size(axis)
    periods = {
        u.src[1].arg
        for c in alone
        for u in c.toposort()
        if u.op is Ops.MOD and u.src[0] is axis and u.src[1].op is Ops.CONST
    }
    period = periods.pop() if len(periods) == 1 else 0
    return period if 1 < period <= most and _size(axis) % period == 0 else 1


def _spell_out_selects(v: KernelView) -> bool:
    """Unrolls output axes that pick one of several expressions, instead of computing all and selecting one each time.

    Such kernels come from transforms by small constant matrices, whose rows are put side by side. Says whether it did.
    """
    lane_axis = _lane_axis(v)
    spelled: list[UOp] = []
    room = _MOST_SPELLED_OUT
    for axis in v.outputs:
        amount = _selected(v, axis, min(_LONGEST_SPELLED_OUT, room))
        if amount > 1 and v.apply(OptOps.UPCAST, axis, amount):
            spelled.append(axis)
            room //= amount
    if spelled and lane_axis is not None and lane_axis not in spelled and not v.reduces:
        v.apply(OptOps.UPCAST, lane_axis, min(v.lanes, _size(lane_axis)))
    return bool(spelled)


def _work(v: KernelView) -> float:
    """Vector operations of the whole kernel, roughly."""
    # in floats: the loops of some hundred reductions have a product that is infinite here, and no error
    outputs, reduced = 1.0, 1.0
    for r in v.k.rngs:
        # a symbolic loop is counted at its longest
        size = _size(r) or max(1, int(r.vmax) + 1)
        if axis_type(r) is AxisType.REDUCE:
            reduced *= size
        else:
            outputs *= size
    steps = outputs * reduced if _moving_outputs(v) or not v.outputs else outputs + reduced
    return steps * max(1, v.alu_count, len(v.accesses)) / v.lanes


def _moving_outputs(v: KernelView) -> list[UOp]:
    """The output axes for whose every step the reduce is another one; elsewhere it is done once, before the loop."""
    return [r for r in v.outputs if any(a.stride(r) != 0 for a in v.body)]


# *** no reduce, or one that offers no tile ***


def _lane_axis(v: KernelView) -> UOp | None:
    """The output axis along which most accesses are contiguous; stores count twice."""
    best, best_score = None, 0.0
    for r in v.outputs:
        score = 0.0
        for a in v.accesses:
            weight = 2.0 if a.is_store else 1.0
            stride = a.stride(r)
            score += weight * (1.0 if stride == 1 else 0.25 if stride == 0 else -0.25)
        if score >= best_score and any(a.stride(r) == 1 for a in v.accesses):
            best, best_score = r, score
    return best


def _tile_elementwise(v: KernelView) -> None:
    axis = _lane_axis(v)
    if axis is None:
        return
    size, lanes = _size(axis), v.lanes
    across = _crossing_axis(v, axis)
    if across is not None:
        _tile_transpose(v, axis, across)
        return
    # long expressions keep many values alive; short ones gain from several independent vectors
    vectors = (
        1 if v.costly or v.alu_count > 24 or len(v.accesses) > 8 else 2 if v.alu_count > 8 else 4
    )
    while vectors > 1 and size < 2 * vectors * lanes:
        vectors //= 2
    if size < 2 * lanes:
        # an axis of one register and a rest is better walked by a divisor than spelled out
        divisor = size & -size
        v.apply(OptOps.UPCAST, axis, divisor if lanes < size and divisor >= 4 else size)
    else:
        while vectors > 1 and size % (vectors * lanes) and size // (vectors * lanes) < 8:
            vectors //= 2
        v.apply(OptOps.UPCAST, axis, vectors * lanes)


def _crossing_axis(v: KernelView, lane_axis: UOp) -> UOp | None:
    """An output axis along which some load is contiguous that is strided along the lanes: a transpose."""
    crossing = [a for a in v.loads if not a.friendly(lane_axis)]
    for r in v.outputs:
        if r is not lane_axis and any(a.stride(r) == 1 for a in crossing):
            return r
    return None


def _tile_transpose(v: KernelView, lane_axis: UOp, across: UOp) -> None:
    """A square of one register either way: loads are whole vectors, the lowering turns them in registers.

    The loop over the loads' contiguous axis goes inside, so that a line once fetched is used up.
    """
    order = v.k.rngs
    if order.index(across) < order.index(lane_axis):
        _swap(v, across, lane_axis)
    v.apply(OptOps.UPCAST, lane_axis, min(v.lanes, _size(lane_axis)))
    v.apply(OptOps.UPCAST, across, min(v.lanes, _size(across)))


# *** lanes on an output axis, rows on another, the reduce innermost ***


@dataclass(frozen=True)
class Tile:
    """`rows` by `lanes` values kept in registers; `cost` in issue slots per step of the reduce, over the whole output."""

    cost: float
    rows: int
    lanes: int


def _vectors(lanes: int, width: int) -> float:
    """Registers' worth of work in a row of lanes: half a register costs half where it is at most half full."""
    whole, rest = divmod(lanes, width)
    if rest == 0:
        return float(whole)
    return whole + (0.5 if rest <= width // 2 and width >= 16 else 1.0)


def _tile_cost(rows: int, lanes: int, width: int, pick: int) -> float:
    """Slots for one step of the reduce over one tile: arithmetic, latency, or loads, whichever is longest.

    `pick`: the stride of the lanes in memory. Above 1, as many vectors are loaded and joined by shuffles.
    """
    vectors = _vectors(lanes, width)
    return max(rows * vectors, _LATENCY, vectors * (2 * pick - 1) + rows / 2) + 0.3


def _axis_cost(
    size_rows: int, rows: int, size_lanes: int, lanes: int, width: int, pick: int
) -> float:
    """Slots for one step over the whole output plane, tails included."""
    whole_rows, rest_rows = divmod(size_rows, rows)
    whole_lanes, rest_lanes = divmod(size_lanes, lanes)
    total = whole_rows * whole_lanes * _tile_cost(rows, lanes, width, pick)
    if rest_rows:
        total += whole_lanes * _tile_cost(rest_rows, lanes, width, pick)
    if rest_lanes:
        total += whole_rows * _tile_cost(rows, rest_lanes, width, pick)
    if rest_rows and rest_lanes:
        total += _tile_cost(rest_rows, rest_lanes, width, pick)
    return total


def _bodies(size: int, tile: int) -> int:
    """How often the code for a tile is written: once more for a remainder."""
    return 1 if size % tile == 0 or size <= tile else 2


def _registers(rows: int, lanes: int, width: int) -> int:
    vectors = ceildiv(lanes, width)
    return rows * vectors + vectors + 1


def _rows_allowed(v: KernelView, row_axis: UOp) -> int:
    """Fewer rows where their addresses would fall into the same cache set."""
    most = _MOST_ROWS
    for a in v.body:
        stride = a.stride(row_axis)
        walks = any(a.stride(r) not in (0, None) for r in v.reduces)
        if not stride or not walks:
            continue
        apart = abs(stride) * a.itemsize
        sets = _WAY_BYTES // gcd(apart, _WAY_BYTES) if apart % _LINE_BYTES == 0 else _ROWS_PER_SET
        most = min(most, _ROWS_PER_SET * max(1, sets))
    return most


def _lane_choices(size: int, width: int) -> list[int]:
    """Amounts of lanes worth trying: whole registers, and the whole axis when it is short."""
    choices = [n * width for n in range(1, _MOST_VECTORS + 1) if n * width <= size]
    if size <= _MOST_VECTORS * width and size not in choices:
        choices.append(size)
    return choices


def _best_tile(v: KernelView, lane_axis: UOp, row_axis: UOp | None) -> Tile | None:
    size_lanes = _size(lane_axis)
    size_rows = _size(row_axis) if row_axis is not None else 1
    if not USE_TC:
        return Tile(1.0, min(size_rows, _PLAIN_TILE), min(size_lanes, _PLAIN_TILE))
    most_rows = min(size_rows, _rows_allowed(v, row_axis)) if row_axis is not None else 1
    pick = max(a.stride(lane_axis) or 0 for a in v.body)
    best: tuple[tuple, Tile] | None = None
    for lanes in _lane_choices(size_lanes, v.lanes):
        for rows in range(1, most_rows + 1):
            if _registers(rows, lanes, v.lanes) > v.registers:
                break
            cost = _axis_cost(size_rows, rows, size_lanes, lanes, v.lanes, pick)
            vectors = _vectors(lanes, v.lanes)
            penalty = 1.02 if rows * vectors < 12 < size_rows * size_lanes / v.lanes else 1.0
            penalty += _WORTH_A_BODY * (_bodies(size_rows, rows) * _bodies(size_lanes, lanes) - 1)
            # between equals the squarer tile loads less
            key = (cost * penalty, -rows * vectors / (rows + vectors))
            if best is None or key < best[0]:
                best = (key, Tile(cost, rows, lanes))
    return best[1] if best else None


def _tile_rows_and_lanes(v: KernelView) -> bool:
    """Lanes along an output axis: every load in the reduce is then one vector or one value for all lanes."""
    candidates: list[tuple] = []
    for lane_axis in v.outputs:
        if not all(a.stride(lane_axis) == 1 for a in v.stores):
            continue
        if not all(a.friendly(lane_axis) or a.picked(lane_axis) for a in v.body):
            continue
        if not any(a.walks(lane_axis) for a in v.body):
            continue
        # a register half empty is worse than lanes along the reduce
        if _size(lane_axis) * 2 <= v.lanes and _reduce_lanes(v):
            continue
        rows = [r for r in v.outputs if r is not lane_axis and _reuses(v, r, lane_axis)]
        # picking lanes pays where many rows use what was picked
        picks = any(a.picked(lane_axis) for a in v.body)
        for row_axis in rows if picks else [*rows, None]:
            tile = _best_tile(v, lane_axis, row_axis)
            if tile is not None:
                others = 1.0
                for r in v.outputs:
                    if r is not lane_axis and r is not row_axis:
                        others *= _size(r)
                candidates.append((tile.cost * others, len(candidates), tile, lane_axis, row_axis))
    if not candidates:
        return False
    _, _, tile, lane_axis, row_axis = min(candidates, key=lambda c: c[:2])
    lanes = tile.lanes
    if row_axis is None or tile.rows == 1:
        lanes = _streaming_lanes(v, lane_axis)
    elif row_axis is not None:
        _put_lane_loop_outside(v, lane_axis, row_axis)
    applied = v.apply(OptOps.UPCAST, lane_axis, lanes)
    if applied and row_axis is not None and tile.rows > 1:
        v.apply(OptOps.UPCAST, row_axis, tile.rows)
    return applied


def _streaming_lanes(v: KernelView, lane_axis: UOp) -> int:
    """Without rows the loads are the limit: read as long a piece of each row as the registers hold."""
    size, vectors = _size(lane_axis), 8
    while vectors > 1 and vectors * v.lanes > size:
        vectors //= 2
    return size if size <= v.lanes else vectors * v.lanes


def _reuses(v: KernelView, row_axis: UOp, lane_axis: UOp) -> bool:
    """Whether some vector that the lanes load serves every row."""
    return any(a.walks(lane_axis) and a.stride(row_axis) == 0 for a in v.body)


def _put_lane_loop_outside(v: KernelView, lane_axis: UOp, row_axis: UOp) -> None:
    """The panel that all rows share is walked by the inner loop, so the lane tiles go outside."""
    order = v.k.rngs
    if order.index(row_axis) > order.index(lane_axis):
        return
    shared = [a for a in v.body if a.walks(lane_axis) and a.stride(row_axis) == 0]
    if any(a.stride(r) != 0 for a in shared for r in v.outputs if r is not lane_axis):
        return
    _swap(v, row_axis, lane_axis)


def _swap(v: KernelView, first: UOp, second: UOp) -> None:
    """Exchanges the places of two output loops, where that is legal."""
    order = v.k.rngs
    try:
        v.k.apply_opt(Opt(OptOps.SWAP, order.index(first), order.index(second)))
    except KernelOptError:
        return
    v.moved[first] = first.replace(arg=second.arg)
    v.moved[second] = second.replace(arg=first.arg)


# *** lanes on the reduce axis ***


def _contiguous_reduce(v: KernelView, rng: UOp) -> bool:
    return all(a.friendly(rng) for a in v.body) and any(a.stride(rng) == 1 for a in v.body)


def _reduce_lanes(v: KernelView) -> list[UOp]:
    """Reduce axes that are contiguous in memory and fill at least half a register."""
    return [r for r in v.reduces if _contiguous_reduce(v, r) and _size(r) >= v.lanes // 2]


def _tile_along_reduce(v: KernelView) -> bool:
    """Lanes along the reduce: vectors of partial results, summed across when the loop is done."""
    usable = _reduce_lanes(v)
    if not usable or any(u.arg is Ops.MUL for u in v.k.reduceops):
        return False
    lane_axis = max(usable, key=_size)
    moving = _moving_outputs(v)
    rows = sorted(
        (r for r in moving if _independent_loads(v, r)), key=lambda r: -_independent_loads(v, r)
    )[:2]
    shape = _dot_tile(v, rows)
    accumulators = 1
    for n in shape:
        accumulators *= n
    vectors = 1
    while accumulators * vectors < 2 * _LATENCY and 2 * vectors * v.lanes <= _size(lane_axis):
        vectors *= 2
    if v.outputs and not moving:
        # leaves room for the lanes of the outputs
        vectors = min(vectors, _LATENCY)
    amount = vectors * v.lanes
    if amount > _size(lane_axis):
        amount = _size(lane_axis)
    if not v.apply(OptOps.UNROLL, lane_axis, amount):
        return False
    for r, n in zip(rows, shape):
        if n > 1:
            v.apply(OptOps.UPCAST, r, n)
    if v.outputs and not moving:
        # one result of the reduce serves every output: what follows it is elementwise
        axis = _lane_axis(v)
        if axis is not None:
            v.apply(OptOps.UPCAST, axis, min(v.lanes, _size(axis)))
    return True


def _independent_loads(v: KernelView, rng: UOp) -> int:
    """Loads of the reduce that an output axis does not move: each is shared by a tile's rows."""
    return sum(a.stride(rng) == 0 for a in v.body)


def _dot_tile(v: KernelView, rows: list[UOp]) -> list[int]:
    """How many outputs along each row axis to compute at once: fewest slots, within the registers."""
    sizes = [_size(r) for r in rows]
    best: tuple[float, list[int]] = (float("inf"), [1] * len(rows))
    first_choices = range(1, min(sizes[0], 6) + 1) if rows else [1]
    second_choices = range(1, min(sizes[1], 6) + 1) if len(rows) > 1 else [1]
    for m in first_choices:
        for n in second_choices:
            if m * n + min(m, n) + 1 > v.registers:
                continue
            tiles = ceildiv(sizes[0], m) if rows else 1
            tiles *= ceildiv(sizes[1], n) if len(rows) > 1 else 1
            cost = tiles * (max(m * n, _LATENCY, m + n) + m * n * _HORIZONTAL_SUM / 64)
            if cost < best[0] - 1e-9:
                best = (cost, [m, n][: len(rows)])
    return best[1]


# *** threads ***


def _thread(v: KernelView) -> None:
    """Splits the outermost loop that feeds every thread about equally."""
    k = v.k
    if not k.ren.has_threads:
        return
    threads = min((k.ren.global_max or (1,))[0], int(getattr(k.ren, "threads", 1) or 1))
    while threads > 1:
        best: tuple[float, int] | None = None
        for position in k.axes_of(AxisType.LOOP):
            size = _size(k.rngs[position])
            if size < threads or not all(
                end.op is Ops.END and k.rngs[position] in end.src[1:] for end in k.ast.src
            ):
                continue
            imbalance = ceildiv(size, threads) * threads / size
            if best is None or imbalance < best[0] - 0.02:
                best = (imbalance, position)
        if best is not None:
            try:
                k.apply_opt(Opt(OptOps.THREAD, best[1], threads))
                return
            except KernelOptError:
                pass
        threads //= 2
