"""Tensors on the CPU through both compilers: casts between all types, odd sizes, division, threads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.backends.test_cpu_kernels import compiler_or_skip

from tinygrad import Tensor, TinyJit, dtypes
from tinygrad.dtype import _to_np_dtype
from tinygrad.helpers import Context

SWITCHES = {"clang": 0, "llvm": 1}
TYPES = [
    d for d in dtypes.all if d not in (*dtypes.fp8s, dtypes.bfloat16, dtypes.void, dtypes.index)
]
VALUES = [0, 1, -1, 2.7, -2.7, 100, -100, 127, 128, 200, 255, 256, -129, 300, 40000, -40000, 70000]


@pytest.fixture(params=SWITCHES)
def kind(request):
    compiler_or_skip(request.param)
    with Context(CPU_LLVM=SWITCHES[request.param]):
        yield request.param


def cpu(array) -> Tensor:
    return Tensor(array, device="CPU")


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts(source, kind):
    wide = np.array(VALUES)
    is_float = source in dtypes.floats
    with np.errstate(all="ignore"):
        array = (wide if is_float else wide.astype(np.int64)).astype(_to_np_dtype(source))
    array = array[np.isfinite(array)] if is_float else array
    for target, size in itertools.product(TYPES, (len(array), 3)):
        with np.errstate(all="ignore"):
            expected = array[:size].astype(_to_np_dtype(target))
        np.testing.assert_array_equal(cpu(array[:size]).cast(target).numpy(), expected)


@pytest.mark.parametrize("size", [1, 2, 7, 16, 33, 100, 1023])
def test_sizes(size, kind):
    a = np.random.default_rng(size).standard_normal((2, size)).astype(np.float32)
    x, y = cpu(a[0]), cpu(a[1])
    np.testing.assert_allclose((x * y + x).numpy(), a[0] * a[1] + a[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.sum().numpy(), a[0].sum(), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x.maximum(y).numpy(), np.maximum(a[0], a[1]))


def test_division_never_traps(kind):
    low = -(2**31)
    a = np.array([7, -7, low, low, 5, 0], np.int32)
    b = np.array([2, 2, -1, 0, 0, 3], np.int32)
    got = cpu(a).idiv(cpu(b)).numpy()
    assert got.tolist() == [3, -3, low, 0, 0, 0]


def test_maximum_keeps_nan(kind):
    a = np.array([np.nan, 1, np.nan, 2], np.float32)
    b = np.array([1, np.nan, np.nan, 3], np.float32)
    np.testing.assert_array_equal(cpu(a).maximum(cpu(b)).numpy(), np.maximum(a, b))


def test_threads_do_not_change_results(kind):
    a = np.random.default_rng(0).standard_normal((300, 301)).astype(np.float32)
    results = []
    for count in (1, 2, 3):
        with Context(CPU_COUNT=count):
            results.append((cpu(a) @ cpu(a.T)).numpy())
    for got in results:
        np.testing.assert_allclose(got, a @ a.T, rtol=1e-4, atol=1e-3)


def test_replay_uses_new_inputs_and_variables(kind):
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return ((x + 1).contiguous() * 2).contiguous().realize()

    for value in range(5):
        got = step(cpu(np.full(10, value, np.float32)).realize())
        assert got.tolist() == [2 * (value + 1)] * 10


def test_zero_copy_view_of_numpy():
    array = np.arange(8, dtype=np.float32)
    shared = Tensor.from_blob(array.ctypes.data, (8,), dtype=dtypes.float32, device="CPU")
    array[3] = 50
    assert shared.tolist()[3] == 50
