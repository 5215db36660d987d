"""float16 and bfloat16 arithmetic by way of float32, bit for bit, through both CPU compilers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.linear_kernels import Builder
from tests.backends.test_cpu_kernels import PAIRS, run

from tinygrad.dtype import dtypes
from tinygrad.renderer.narrow import bf16_bits
from tinygrad.uop.ops import KernelInfo, Ops, UOp, graph_rewrite

LANES = 8


def run_graph(kind, store: UOp, bufs):
    """Applies the renderer's rules to a store, lists the graph in order and runs it."""
    sink = UOp(Ops.SINK, dtypes.void, (store,), KernelInfo(name="narrow"))
    sink = graph_rewrite(sink, PAIRS[kind][0].extra_matcher)
    return run(kind, list(sink.toposort()), bufs)


def vector_kernel(dtype, fn, out_dtype=None):
    b = Builder()
    out_dtype = out_dtype or dtype
    out = b.buf(0, out_dtype, LANES)
    values = [b.load(b.at(b.buf(i, dtype, LANES), b.const(0), LANES)) for i in (1, 2)]
    return b.store(b.at(out, b.const(0), LANES), fn(*values))


def bf16_array(values) -> np.ndarray:
    return np.array([bf16_bits(float(v)) for v in values], np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


FLOATS = np.array([1.0, -2.5, 0.1, 3e4, 1e-7, np.inf, np.nan, -0.0], np.float32)
OTHERS = np.array([0.3, 7.0, -0.1, 3e4, 1e-7, -np.inf, 1.0, 2.0], np.float32)


@pytest.mark.parametrize("kind", PAIRS)
def test_half_arithmetic_rounds_every_step(kind):
    store = vector_kernel(
        dtypes.float16,
        lambda x, y: UOp(Ops.ADD, x.dtype, (UOp(Ops.MUL, x.dtype, (x, y)), y)),
    )
    x, y = FLOATS.astype(np.float16), OTHERS.astype(np.float16)
    got = run_graph(kind, store, [np.zeros(LANES, np.float16), x, y])[0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, x * y + y)


@pytest.mark.parametrize("kind", PAIRS)
def test_half_select_and_compare(kind):
    store = vector_kernel(
        dtypes.float16,
        lambda x, y: UOp(
            Ops.WHERE, x.dtype, (UOp(Ops.CMPLT, dtypes.bool.vec(LANES), (x, y)), x, y)
        ),
    )
    x, y = FLOATS.astype(np.float16), OTHERS.astype(np.float16)
    got = run_graph(kind, store, [np.zeros(LANES, np.float16), x, y])[0]
    np.testing.assert_array_equal(got, np.where(x < y, x, y))


@pytest.mark.parametrize("kind", PAIRS)
def test_bfloat16_arithmetic(kind):
    store = vector_kernel(dtypes.bfloat16, lambda x, y: UOp(Ops.MUL, x.dtype, (x, y)))
    x, y = bf16_array(FLOATS), bf16_array(OTHERS)
    got = run_graph(kind, store, [np.zeros(LANES, np.uint16), x, y])[0]
    with np.errstate(all="ignore"):
        exact = from_bf16(x) * from_bf16(y)
    np.testing.assert_array_equal(from_bf16(got), from_bf16(bf16_array(exact)))


@pytest.mark.parametrize("kind", PAIRS)
def test_float_to_bfloat16_ties_and_nan(kind):
    bits = np.array(
        [0x3F808000, 0x3F818000, 0x3F808001, 0x7F800001, 0xFF800001, 0x7F7FFFFF, 1, 0x80000000],
        np.uint32,
    )
    store = vector_kernel(
        dtypes.float32,
        lambda x, y: UOp(Ops.CAST, dtypes.bfloat16.vec(LANES), (x,)),
        dtypes.bfloat16,
    )
    x = bits.view(np.float32)
    got = run_graph(kind, store, [np.zeros(LANES, np.uint16), x, x])[0]
    assert got[:3].tolist() == [0x3F80, 0x3F82, 0x3F81]
    assert np.isnan(from_bf16(got)[3:5]).all()
    assert got[5:].tolist() == [0x7F80, 0, 0x8000]


@pytest.mark.parametrize("kind", PAIRS)
def test_double_to_half_rounds_once(kind):
    ulp = 2.0**-10
    values = np.array(
        [1 + ulp / 2, 1 + ulp / 2 + 2.0**-40, 1 + 1.5 * ulp - 2.0**-40, -1 - ulp / 2 - 2.0**-40,
         65519.999999, 65520.0, np.nan, 2.0**-25 + 2.0**-60]
    )  # fmt: skip
    store = vector_kernel(
        dtypes.float64, lambda x, y: UOp(Ops.CAST, dtypes.float16.vec(LANES), (x,)), dtypes.float16
    )
    got = run_graph(kind, store, [np.zeros(LANES, np.float16), values, values])[0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, values.astype(np.float16))


@pytest.mark.parametrize("kind", PAIRS)
def test_half_constants_and_splats(kind):
    b = Builder()
    out = b.buf(0, dtypes.float16, 4)
    for n, value in enumerate((0.1, -65504.0, float("inf"), 6e-8)):
        b.store(b.at(out, b.const(n)), b.const(value, dtypes.float16))
    got = run(kind, b.finish("halves"), [np.zeros(4, np.float16)])[0]
    np.testing.assert_array_equal(got, np.array([0.1, -65504.0, np.inf, 6e-8], np.float16))
