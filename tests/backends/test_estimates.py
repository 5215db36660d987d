"""Work counts of linear instruction lists."""

from __future__ import annotations

import pytest
from tests.backends.linear_kernels import CASES, Builder

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.renderer import Estimates, Renderer
from tinygrad.uop.ops import Ops, UOp


def estimate(name: str, ignore_indexing: bool = True) -> Estimates:
    return Estimates.from_uops(CASES[name]().uops, ignore_indexing)


def test_loop_multiplies():
    e = estimate("scalar_add")
    assert (e.ops, e.lds, e.mem) == (10, 120, 120)


def test_vector_lanes_count_each():
    # a product, a sum, a comparison and a select for each of 64 elements
    e = estimate("vector_fma_relu")
    assert (e.ops, e.lds, e.mem) == (4 * 64, 3 * 256, 3 * 256)


def test_indexing_is_counted_when_asked():
    assert estimate("vector_fma_relu", ignore_indexing=False).ops == 4 * 64 + 4


def test_registers_are_free_and_buffers_move_once():
    e = estimate("matmul_tile")
    assert e.ops == 2 * 4 * 16 * 24
    assert e.lds == 24 * (64 + 4 * 4) + 4 * 64
    assert e.mem == (64 + 4 * 24 + 16 * 24) * 4


def test_threads_multiply():
    assert estimate("threads").lds == 64 * 8


def test_fused_multiply_add_is_two():
    b = Builder()
    x = b.load(b.at(b.buf(0, dtypes.float32, 1), b.const(0)))
    fused = UOp(Ops.MULACC, dtypes.float32, (x, x, x))
    assert Estimates.from_uops(list(fused.toposort())).ops == 2


def test_symbolic_bounds():
    b = Builder()
    out = b.buf(0, dtypes.float32, 100)
    i = b.loop(b.var("n", 1, 50), 0)
    b.end(b.store(b.at(out, i), b.const(1.0, dtypes.float32)), i)
    e = Estimates.from_uops(b.finish("symbolic"), True)
    assert e.mem.sym_infer({"n": 7}) == 28


def test_symbolic_traffic_is_capped_by_the_buffer():
    b = Builder()
    out = b.buf(0, dtypes.float32, 4)
    i = b.loop(b.var("n", 8, 50), 0)
    b.end(b.store(b.at(out, b.const(0)), b.const(1.0, dtypes.float32)), i)
    assert Estimates.from_uops(b.finish("capped"), True).mem == 16


def test_local_memory_is_not_unique_traffic():
    e = estimate("local_memory")
    assert e.lds == 4 * 4 * 4
    assert e.mem == 32


def test_addition():
    total = Estimates(1, 2, 3) + Estimates(10, 20, 30)
    assert total == Estimates(11, 22, 33)


def test_base_renderer_says_what_it_lacks():
    with pytest.raises(NotImplementedError, match="has no render"):
        Renderer().render([])
    assert AddrSpace.REG is not None and Renderer().threads == 1
