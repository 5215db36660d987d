"""Small kernels as linear instruction lists, each with inputs and the right answer.

Used by the golden tests (what text comes out) and the run tests (what it computes). A case is built
by a function so that its nodes live only as long as the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinygrad.dtype import AddrSpace, DType, dtypes
from tinygrad.uop.ops import AxisType, KernelInfo, Ops, UOp

NP = {
    dtypes.float32: np.float32,
    dtypes.float64: np.float64,
    dtypes.float16: np.float16,
    dtypes.int32: np.int32,
    dtypes.int64: np.int64,
    dtypes.int8: np.int8,
    dtypes.uint8: np.uint8,
    dtypes.uint32: np.uint32,
    dtypes.bool: np.bool_,
}


class Builder:
    """Appends nodes to an instruction list in the order they are made."""

    def __init__(self):
        self.uops: list[UOp] = []

    def add(self, op: Ops, dtype: DType = dtypes.void, src=(), arg=None) -> UOp:
        u = UOp(op, dtype, tuple(src), arg)
        if u not in self.uops:
            self.uops.append(u)
        return u

    def buf(self, slot: int, dtype: DType, size: int) -> UOp:
        return self.add(Ops.DEFINE_GLOBAL, dtype.ptr(size), arg=slot)

    def const(self, value, dtype: DType = dtypes.int32) -> UOp:
        return self.add(Ops.CONST, dtype, arg=value)

    def var(self, name: str, low: int, high: int) -> UOp:
        return self.add(Ops.DEFINE_VAR, dtypes.int32, arg=(name, low, high))

    def at(self, buf: UOp, idx: UOp, lanes: int = 1, gate: UOp | None = None) -> UOp:
        src = (buf, idx) if gate is None else (buf, idx, gate)
        address = self.add(Ops.INDEX, buf.src[0].dtype if buf.op is Ops.AFTER else buf.dtype, src)
        if lanes == 1:
            return address
        vector = buf.dtype.base.vec(lanes).ptr(addrspace=buf.dtype.addrspace)
        return self.add(Ops.CAST, vector, (address,))

    def load(self, address: UOp, other: UOp | None = None) -> UOp:
        src = (address,) if other is None else (address, other)
        return self.add(Ops.LOAD, address.dtype.base, src)

    def store(self, address: UOp, value: UOp, gate: UOp | None = None) -> UOp:
        return self.add(Ops.STORE, src=(address, value) if gate is None else (address, value, gate))

    def alu(self, op: Ops, *src: UOp, dtype: DType | None = None) -> UOp:
        if dtype is None:
            compare = op in (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
            dtype = dtypes.bool.vec(src[0].dtype.count) if compare else src[-1].dtype
        return self.add(op, dtype, src)

    def splat(self, u: UOp, lanes: int) -> UOp:
        return self.add(Ops.VECTORIZE, u.dtype.vec(lanes), (u,) * lanes)

    def loop(self, end: UOp, number: int, kind=AxisType.LOOP) -> UOp:
        return self.add(Ops.RANGE, dtypes.int32, (end,), (number, kind))

    def end(self, last: UOp, loop: UOp) -> UOp:
        return self.add(Ops.END, src=(last, loop))

    def finish(self, name: str) -> list[UOp]:
        last = [u for u in self.uops if u.op in (Ops.STORE, Ops.END)][-1]
        self.add(Ops.SINK, src=(last,), arg=KernelInfo(name=name))
        return self.uops


@dataclass
class Case:
    """`bufs` are the arrays in slot order (outputs first); `expected` the outputs afterwards."""

    uops: list[UOp]
    bufs: list[np.ndarray]
    expected: list[np.ndarray]
    vals: tuple[int, ...] = ()
    threads: int = 0
    rtol: float = 1e-6


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


@case
def scalar_add() -> Case:
    b = Builder()
    out, x, y = (b.buf(i, dtypes.float32, 10) for i in range(3))
    i = b.loop(b.const(10), 0)
    value = b.alu(Ops.ADD, b.load(b.at(x, i)), b.load(b.at(y, i)))
    b.end(b.store(b.at(out, i), value), i)
    a = _rng().standard_normal((2, 10)).astype(np.float32)
    return Case(b.finish("scalar_add"), [np.zeros(10, np.float32), *a], [a[0] + a[1]])


@case
def vector_fma_relu() -> Case:
    b = Builder()
    out, x, y = (b.buf(i, dtypes.float32, 64) for i in range(3))
    i = b.loop(b.const(4), 0)
    j = b.alu(Ops.MUL, i, b.const(16))
    v, w = b.load(b.at(x, j, 16)), b.load(b.at(y, j, 16))
    zero = b.splat(b.const(0.0, dtypes.float32), 16)
    total = b.alu(Ops.ADD, b.alu(Ops.MUL, v, w), v)
    positive = b.alu(Ops.CMPLT, zero, total)
    b.end(b.store(b.at(out, j, 16), b.alu(Ops.WHERE, positive, total, zero)), i)
    a = _rng().standard_normal((2, 64)).astype(np.float32)
    return Case(
        b.finish("vector_fma_relu"),
        [np.zeros(64, np.float32), *a],
        [np.maximum(a[0] * a[1] + a[0], 0)],
    )


@case
def masked_tail() -> Case:
    """19 elements as one full vector and one with 3 lanes: constant-prefix masks."""
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 19), b.buf(1, dtypes.float32, 19)
    start, one = b.const(16), b.const(1.0, dtypes.float32)
    mask = b.add(Ops.VCONST, dtypes.bool.vec(16), arg=(True,) * 3 + (False,) * 13)
    ones = b.splat(one, 16)
    b.store(b.at(out, b.const(0), 16), b.alu(Ops.ADD, b.load(b.at(x, b.const(0), 16)), ones))
    tail = b.load(b.at(x, start, 16, mask), ones)
    b.store(b.at(out, start, 16, mask), b.alu(Ops.ADD, tail, ones))
    a = _rng().standard_normal(19).astype(np.float32)
    return Case(b.finish("masked_tail"), [np.zeros(19, np.float32), a], [a + 1])


@case
def lane_mask_from_compare() -> Case:
    b = Builder()
    out, x, flags = b.buf(0, dtypes.int32, 8), b.buf(1, dtypes.int32, 8), b.buf(2, dtypes.bool, 8)
    zero = b.const(0)
    gate = b.load(b.at(flags, zero, 8))
    other = b.splat(b.const(-5), 8)
    v = b.load(b.at(x, zero, 8, gate), other)
    is_other = b.alu(Ops.CMPNE, v, other)
    b.store(b.at(out, zero, 8), b.alu(Ops.WHERE, is_other, b.alu(Ops.ADD, v, v), other))
    a = np.arange(8, dtype=np.int32)
    f = np.array([1, 0, 0, 1, 1, 0, 1, 0], np.bool_)
    return Case(b.finish("lane_mask"), [np.zeros(8, np.int32), a, f], [np.where(f, 2 * a, -5)])


@case
def bool_vectors() -> Case:
    b = Builder()
    out, x, y = (b.buf(i, dtypes.bool, 8) for i in range(3))
    zero = b.const(0)
    v, w = b.load(b.at(x, zero, 8)), b.load(b.at(y, zero, 8))
    both = b.alu(Ops.ADD, v, b.alu(Ops.MUL, v, w))
    b.store(b.at(out, zero, 8), b.alu(Ops.XOR, both, b.alu(Ops.CMPLT, v, w)))
    a = np.array([[1, 1, 0, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 1, 0, 0]], np.bool_)
    expected = (a[0] | (a[0] & a[1])) ^ (~a[0] & a[1])
    return Case(b.finish("bool_vectors"), [np.zeros(8, np.bool_), *a], [expected])


@case
def matmul_tile() -> Case:
    """Vector accumulators in a register array over the whole reduce loop."""
    k = 24
    b = Builder()
    out, x, y = (
        b.buf(0, dtypes.float32, 64),
        b.buf(1, dtypes.float32, 4 * k),
        b.buf(2, dtypes.float32, 16 * k),
    )
    acc = b.add(Ops.DEFINE_REG, dtypes.float32.ptr(64, AddrSpace.REG), arg=0)
    zeros = b.splat(b.const(0.0, dtypes.float32), 16)
    starts = [b.store(b.at(acc, b.const(16 * r), 16), zeros) for r in range(4)]
    loop = b.loop(b.const(k), 0, AxisType.REDUCE)
    inside = b.add(Ops.AFTER, acc.dtype, (acc, *starts, loop))
    row = b.load(b.at(y, b.alu(Ops.MUL, loop, b.const(16)), 16))
    for r in range(4):
        scalar = b.load(b.at(x, b.alu(Ops.ADD, loop, b.const(k * r))))
        place = b.at(inside, b.const(16 * r), 16)
        last = b.store(
            place, b.alu(Ops.ADD, b.load(place), b.alu(Ops.MUL, b.splat(scalar, 16), row))
        )
    done = b.end(last, loop)
    final = b.add(Ops.AFTER, acc.dtype, (acc, done))
    for r in range(4):
        b.store(b.at(out, b.const(16 * r), 16), b.load(b.at(final, b.const(16 * r), 16)))
    a = _rng().standard_normal((4, k)).astype(np.float32)
    c = _rng().standard_normal((k, 16)).astype(np.float32)
    return Case(
        b.finish("matmul_tile"),
        [np.zeros(64, np.float32), a.ravel(), c.ravel()],
        [(a.astype(np.float64) @ c).astype(np.float32).ravel()],
        rtol=1e-4,
    )


@case
def shuffles() -> Case:
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 16), b.buf(1, dtypes.float32, 8)
    v = b.load(b.at(x, b.const(0), 8))
    back = b.add(Ops.GEP, dtypes.float32.vec(8), (v,), tuple(range(7, -1, -1)))
    low = b.add(Ops.GEP, dtypes.float32.vec(4), (v,), (0, 2, 4, 6))
    one = b.add(Ops.GEP, dtypes.float32, (v,), (5,))
    b.store(b.at(out, b.const(0), 8), back)
    pair = b.add(Ops.VECTORIZE, dtypes.float32.vec(8), (low, b.splat(one, 4)))
    b.store(b.at(out, b.const(8), 8), pair)
    a = _rng().standard_normal(8).astype(np.float32)
    expected = np.concatenate([a[::-1], a[::2], np.repeat(a[5], 4)])
    return Case(b.finish("shuffles"), [np.zeros(16, np.float32), a], [expected])


@case
def odd_lanes() -> Case:
    """Three lanes: C pads such a vector to four, the store must not."""
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 4), b.buf(1, dtypes.float32, 3)
    v = b.load(b.at(x, b.const(0), 3))
    b.store(b.at(out, b.const(0), 3), b.alu(Ops.MUL, v, v))
    a = np.array([1, 2, 3], np.float32)
    return Case(b.finish("odd_lanes"), [np.full(4, 9, np.float32), a], [np.array([1, 4, 9, 9.0])])


@case
def integer_division() -> Case:
    b = Builder()
    x, y = b.buf(2, dtypes.int32, 8), b.buf(3, dtypes.int32, 8)
    out, rest = b.buf(0, dtypes.int32, 16), b.buf(1, dtypes.int32, 16)
    zero, eight = b.const(0), b.const(8)
    v, w = b.load(b.at(x, zero, 8)), b.load(b.at(y, zero, 8))
    b.store(b.at(out, zero, 8), b.alu(Ops.IDIV, v, w))
    b.store(b.at(rest, zero, 8), b.alu(Ops.MOD, v, w))
    i = b.loop(eight, 0)
    p, q = b.load(b.at(x, i)), b.load(b.at(y, i))
    place = b.alu(Ops.ADD, i, eight)
    b.store(b.at(out, place), b.alu(Ops.IDIV, p, q))
    b.end(b.store(b.at(rest, place), b.alu(Ops.MOD, p, q)), i)
    low = -(2**31)
    a = np.array([7, -7, 7, low, low, 5, 0, -9], np.int32)
    d = np.array([2, 2, -2, -1, 0, 0, 3, -1], np.int32)
    quotient = np.array([3, -3, -3, low, 0, 0, 0, 9], np.int32)
    remainder = np.array([1, -1, 1, 0, 0, 0, 0, 0], np.int32)
    return Case(
        b.finish("integer_division"),
        [np.zeros(16, np.int32), np.zeros(16, np.int32), a, d],
        [np.tile(quotient, 2), np.tile(remainder, 2)],
    )


@case
def conversions() -> Case:
    b = Builder()
    out, small, x = (
        b.buf(0, dtypes.int32, 8),
        b.buf(1, dtypes.uint8, 8),
        b.buf(2, dtypes.float32, 8),
    )
    zero = b.const(0)
    v = b.load(b.at(x, zero, 8))
    b.store(b.at(out, zero, 8), b.add(Ops.BITCAST, dtypes.int32.vec(8), (v,)))
    ints = b.add(Ops.CAST, dtypes.int32.vec(8), (v,))
    true = b.add(Ops.CAST, dtypes.bool.vec(8), (ints,))
    bytes_ = b.add(Ops.CAST, dtypes.uint8.vec(8), (ints,))
    more = b.add(Ops.CAST, dtypes.uint8.vec(8), (true,))
    b.store(b.at(small, zero, 8), b.alu(Ops.ADD, bytes_, more))
    a = np.array([0, 1.5, 2, 300, 77, 0.25, 9, 255], np.float32)
    expected = (a.astype(np.int32) + (a.astype(np.int32) != 0)).astype(np.uint8)
    return Case(
        b.finish("conversions"),
        [np.zeros(8, np.int32), np.zeros(8, np.uint8), a],
        [a.view(np.int32), expected],
    )


@case
def scalar_conversions() -> Case:
    b = Builder()
    out, x = b.buf(0, dtypes.int64, 4), b.buf(1, dtypes.float64, 1)
    v = b.load(b.at(x, b.const(0)))
    single = b.add(Ops.CAST, dtypes.float32, (v,))
    word = b.add(Ops.BITCAST, dtypes.int32, (single,))
    b.store(b.at(out, b.const(0)), b.add(Ops.CAST, dtypes.int64, (word,)))
    b.store(b.at(out, b.const(1)), b.add(Ops.BITCAST, dtypes.int64, (v,)))
    byte = b.add(Ops.CAST, dtypes.int8, (word,))
    wrapped = b.alu(Ops.ADD, byte, b.const(100, dtypes.int8))
    b.store(b.at(out, b.const(2)), b.add(Ops.CAST, dtypes.int64, (wrapped,)))
    shifted = b.alu(Ops.SHR, word, b.const(3))
    b.store(b.at(out, b.const(3)), b.add(Ops.CAST, dtypes.int64, (shifted,)))
    a = np.array([-2.7182818284], np.float64)
    word = int(a.astype(np.float32).view(np.int32)[0])
    byte = (word + 100 + 128) % 256 - 128
    expected = np.array([word, a.view(np.int64)[0], byte, word >> 3], np.int64)
    return Case(b.finish("scalar_conversions"), [np.zeros(4, np.int64), a], [expected])


@case
def float_functions() -> Case:
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 40), b.buf(1, dtypes.float32, 8)
    zero = b.const(0)
    v = b.load(b.at(x, zero, 8))
    for n, op in enumerate((Ops.SQRT, Ops.TRUNC, Ops.RECIPROCAL, Ops.NEG)):
        b.store(b.at(out, b.const(8 * n), 8), b.alu(op, v))
    flipped = b.add(Ops.GEP, v.dtype, (v,), tuple(range(7, -1, -1)))
    b.store(b.at(out, b.const(32), 8), b.alu(Ops.MAX, v, flipped))
    a = np.array([0, 1.5, -2.75, np.inf, np.nan, 4, -0.5, 1e-30], np.float32)
    with np.errstate(all="ignore"):
        parts = [np.sqrt(a), np.trunc(a), 1 / a, -a, np.maximum(a, a[::-1])]
    return Case(b.finish("float_functions"), [np.zeros(40, np.float32), a], [np.concatenate(parts)])


@case
def branch_and_gates() -> Case:
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 6), b.buf(1, dtypes.float32, 4)
    n = b.var("n", 0, 6)
    i = b.loop(n, 0)
    inside = b.alu(Ops.CMPLT, i, b.const(4))
    v = b.load(b.at(x, i, gate=inside), b.const(-1.0, dtypes.float32))
    keep = b.alu(Ops.CMPNE, i, b.const(2))
    condition = b.add(Ops.IF, src=(keep,))
    stored = b.store(b.at(out, i), b.alu(Ops.ADD, v, v))
    b.add(Ops.ENDIF, src=(condition,))
    b.end(stored, i)
    a = np.array([1, 2, 3, 4], np.float32)
    expected = np.array([2, 4, 0, 8, -2, 0], np.float32)
    return Case(b.finish("branch_and_gates"), [np.zeros(6, np.float32), a], [expected], vals=(5,))


@case
def threads() -> Case:
    b = Builder()
    out, x = b.buf(0, dtypes.int32, 64), b.buf(1, dtypes.int32, 64)
    scale, core = b.var("scale", 1, 9), b.var("core_id", 0, 3)
    start = b.alu(Ops.MUL, core, b.const(16))
    i = b.loop(b.const(16), 0)
    at = b.alu(Ops.ADD, start, i)
    product = b.alu(Ops.MUL, b.load(b.at(x, at)), scale)
    b.end(b.store(b.at(out, at), b.alu(Ops.ADD, product, core)), i)
    a = np.arange(64, dtype=np.int32)
    expected = a * 7 + np.repeat(np.arange(4, dtype=np.int32), 16)
    return Case(b.finish("threads"), [np.zeros(64, np.int32), a], [expected], vals=(7,), threads=4)


@case
def local_memory() -> Case:
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 4), b.buf(1, dtypes.float32, 4)
    temp = b.add(Ops.DEFINE_LOCAL, dtypes.float32.ptr(4, AddrSpace.LOCAL), arg=0)
    i = b.loop(b.const(4), 0)
    stored = b.store(b.at(temp, i), b.load(b.at(x, i)))
    done = b.end(stored, i)
    barrier = b.add(Ops.BARRIER, src=(done,))
    after = b.add(Ops.AFTER, temp.dtype, (temp, barrier))
    j = b.loop(b.const(4), 1)
    mirrored = b.alu(Ops.SUB, b.const(3), j)
    b.end(b.store(b.at(out, j), b.load(b.at(after, mirrored))), j)
    a = np.array([1, 2, 3, 4], np.float32)
    return Case(b.finish("local_memory"), [np.zeros(4, np.float32), a], [a[::-1]])


@case
def constants() -> Case:
    """Values whose literals are easy to get wrong."""
    b = Builder()
    floats = [np.inf, -np.inf, np.nan, 0.1, -0.0, 3.4028235e38, 1e-45, 16777217.0]
    out, out64, words = (
        b.buf(0, dtypes.float32, 8),
        b.buf(1, dtypes.float64, 8),
        b.buf(2, dtypes.int64, 4),
    )
    for n, value in enumerate(floats):
        b.store(b.at(out, b.const(n)), b.const(value, dtypes.float32))
        b.store(b.at(out64, b.const(n)), b.const(value, dtypes.float64))
    ints = [-(2**63), 2**63 - 1, -(2**31), 5_000_000_000]
    for n, value in enumerate(ints):
        b.store(b.at(words, b.const(n)), b.const(value, dtypes.int64))
    with np.errstate(all="ignore"):
        expected = [np.array(floats, np.float32), np.array(floats), np.array(ints, np.int64)]
    blank = [np.zeros(8, np.float32), np.zeros(8), np.zeros(4, np.int64)]
    return Case(b.finish("constants"), blank, expected)
