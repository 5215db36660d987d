"""Instruction lists with work-groups, shared memory, vectors of four and 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable

from tests.backends.linear_kernels import Builder

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, UOp

KERNELS: dict[str, Callable[[], list[UOp]]] = {}


def kernel(make):
    KERNELS[make.__name__] = make
    return make


def _ids(b: Builder, groups: int, threads: int) -> tuple[UOp, UOp]:
    return (
        b.add(Ops.SPECIAL, dtypes.int32, (b.const(groups),), "gidx0"),
        b.add(Ops.SPECIAL, dtypes.int32, (b.const(threads),), "lidx0"),
    )


@kernel
def vector_copy_scale() -> list[UOp]:
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 256), b.buf(1, dtypes.float32, 256)
    group, thread = _ids(b, 4, 16)
    start = b.alu(Ops.ADD, b.alu(Ops.MUL, group, b.const(64)), b.alu(Ops.MUL, thread, b.const(4)))
    v = b.load(b.at(x, start, 4))
    lanes = [b.add(Ops.GEP, dtypes.float32, (v,), (i,)) for i in range(4)]
    scaled = [b.alu(Ops.MUL, lane, b.const(0.5, dtypes.float32)) for lane in lanes]
    b.store(b.at(out, start, 4), b.add(Ops.VECTORIZE, dtypes.float32.vec(4), scaled))
    return b.finish("vector_copy_scale")


@kernel
def group_sum() -> list[UOp]:
    b = Builder()
    out, x = b.buf(0, dtypes.float32, 4), b.buf(1, dtypes.float32, 64)
    group, thread = _ids(b, 4, 16)
    shared = b.add(Ops.DEFINE_LOCAL, dtypes.float32.ptr(16, AddrSpace.LOCAL), arg=0)
    acc = b.add(Ops.DEFINE_REG, dtypes.float32.ptr(1, AddrSpace.REG), arg=0)
    place = b.alu(Ops.ADD, b.alu(Ops.MUL, group, b.const(16)), thread)
    stored = b.store(b.at(shared, thread), b.load(b.at(x, place)))
    barrier = b.add(Ops.BARRIER, src=(stored,))
    first = b.alu(Ops.CMPLT, thread, b.const(1))
    branch = b.add(Ops.IF, src=(first, barrier))
    start = b.store(b.at(acc, b.const(0)), b.const(0.0, dtypes.float32))
    loop = b.loop(b.const(16), 1)
    inside = b.add(Ops.AFTER, acc.dtype, (acc, start, loop))
    after = b.add(Ops.AFTER, shared.dtype, (shared, barrier))
    cell = b.at(inside, b.const(0))
    total = b.alu(Ops.ADD, b.load(cell), b.load(b.at(after, loop)))
    done = b.end(b.store(cell, total), loop)
    final = b.add(Ops.AFTER, acc.dtype, (acc, done))
    b.store(b.at(out, group), b.load(b.at(final, b.const(0))))
    b.add(Ops.ENDIF, src=(branch,))
    return b.finish("group_sum")


@kernel
def half_and_bool() -> list[UOp]:
    b = Builder()
    out, x, flags = (
        b.buf(0, dtypes.float16, 64),
        b.buf(1, dtypes.float16, 64),
        b.buf(2, dtypes.bool, 64),
    )
    group, thread = _ids(b, 4, 16)
    place = b.alu(Ops.ADD, b.alu(Ops.MUL, group, b.const(16)), thread)
    v = b.load(b.at(x, place))
    flag = b.load(b.at(flags, place))
    root = b.alu(Ops.SQRT, b.add(Ops.CAST, dtypes.float32, (v,)))
    narrow = b.add(Ops.CAST, dtypes.float16, (root,))
    b.store(b.at(out, place), b.alu(Ops.WHERE, flag, narrow, b.const(1.5, dtypes.float16)))
    return b.finish("half_and_bool")


@kernel
def bits_and_ints() -> list[UOp]:
    b = Builder()
    out, x, n = b.buf(0, dtypes.uint32, 16), b.buf(1, dtypes.float32, 16), b.var("n", 1, 16)
    thread = b.add(Ops.SPECIAL, dtypes.int32, (b.const(16),), "lidx0")
    gate = b.alu(Ops.CMPLT, thread, n)
    v = b.load(b.at(x, thread, gate=gate), b.const(-1.0, dtypes.float32))
    word = b.add(Ops.BITCAST, dtypes.uint32, (v,))
    mixed = b.alu(Ops.XOR, b.alu(Ops.SHR, word, b.const(16, dtypes.uint32)), word)
    b.store(b.at(out, thread), b.alu(Ops.ADD, mixed, b.const(2**31, dtypes.uint32)))
    return b.finish("bits_and_ints")
