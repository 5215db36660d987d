"""The 8-bit floats on the default device: every code, rounding, saturation, arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinygrad import Tensor
from tinygrad.dtype import dtypes, float_to_fp8, fp8_to_float

FP8S = list(dtypes.fp8s)


def rounded(values, dtype) -> np.ndarray:
    """The values as the table-driven conversion of `dtypes` rounds them."""
    return np.array([fp8_to_float(float_to_fp8(float(v), dtype), dtype) for v in values])


def edges(dtype) -> np.ndarray:
    """All values of the type, what lies half way between two of them, and near that."""
    finite = sorted({v for c in range(256) if math.isfinite(v := fp8_to_float(c, dtype))})
    halves = [(a + b) / 2 for a, b in zip(finite, finite[1:])]
    near = [np.nextafter(np.float32(h), np.float32(s)) for h in halves for s in (-1e9, 1e9)]
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-30, 1e-42, 3.4e38]
    return np.array([*finite, *halves, *near, *special], np.float32)


@pytest.mark.parametrize("dtype", FP8S)
def test_every_code_has_its_value(dtype):
    codes = Tensor(np.arange(256, dtype=np.uint8)).realize()
    got = codes.bitcast(dtype).cast(dtypes.float32).numpy()
    np.testing.assert_array_equal(got, [fp8_to_float(c, dtype) for c in range(256)])


@pytest.mark.parametrize("dtype", FP8S)
@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64])
def test_conversion_rounds_to_nearest_even_and_saturates(dtype, source):
    values = edges(dtype)
    x = Tensor(values).cast(source).realize()
    got = x.cast(dtype).contiguous().realize().cast(dtypes.float32).numpy()
    np.testing.assert_array_equal(got, rounded(values, dtype))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("dtype", FP8S)
def test_float64_is_rounded_once(dtype):
    one = 1.0 + 2.0 ** -dtypes.finfo(dtype)[1] / 2  # half way to the next value
    values = np.array([one + 2.0**-40, one, one - 2.0**-40])
    got = Tensor(values).realize().cast(dtype).contiguous().cast(dtypes.float32).numpy()
    np.testing.assert_array_equal(got, rounded(values, dtype))


@pytest.mark.parametrize("dtype", FP8S)
@pytest.mark.parametrize("source", [*dtypes.ints, dtypes.bool, dtypes.float16, dtypes.bfloat16])
def test_other_types_convert_through_their_value(dtype, source):
    x = Tensor([0, 1, 3, 17, 100, 127]).cast(source).realize()
    got = x.cast(dtype).contiguous().realize()
    want = rounded(x.cast(dtypes.float32).numpy(), dtype)
    np.testing.assert_array_equal(got.cast(dtypes.float32).numpy(), want)
    back = (dtypes.uint8, dtypes.uint64, dtypes.int32, dtypes.bool, dtypes.float64)
    for kind in back:
        np.testing.assert_array_equal(
            got.cast(kind).cast(dtypes.float64).numpy(),
            (want != 0) if kind is dtypes.bool else want,
        )


@pytest.mark.parametrize("dtype", FP8S)
@pytest.mark.parametrize("size", [1, 7, 32, 61])
def test_arithmetic_rounds_every_result(dtype, size):
    rng = np.random.default_rng(size)
    a, b = (rounded(rng.normal(size=size) * 3, dtype) for _ in range(2))
    x, y = (Tensor(v).cast(dtype).contiguous().realize() for v in (a, b))

    def same(got, want):
        np.testing.assert_array_equal(got.cast(dtypes.float32).numpy(), rounded(want, dtype))

    same(x + y, a + b)
    same(x * y, a * b)
    same(x - y, a - b)
    same(-x, -a)
    same(x.maximum(y), np.maximum(a, b))
    same((x < y).where(x, y), np.where(a < b, a, b))
    same(x.relu(), np.maximum(a, 0))
    same((x * 2) + 1, rounded(a * 2, dtype) + 1)
    np.testing.assert_array_equal((x < y).numpy(), a < b)
    np.testing.assert_array_equal((x == x).numpy(), np.ones(size, bool))
    same(x.max().reshape(1), [a.max()])


@pytest.mark.parametrize("dtype", FP8S)
def test_constants_padding_and_matmul(dtype):
    x = Tensor([1.5, -0.3, 448.0]).cast(dtype)
    assert (x + 0.3).cast(dtypes.float32).tolist() == rounded(
        rounded([1.5, -0.3, 448.0], dtype) + rounded([0.3], dtype), dtype
    ).tolist()
    assert x.pad((1, 1)).cast(dtypes.float32).tolist()[::4] == [0.0, 0.0]
    assert (
        Tensor.full((3,), 0.3, dtype=dtype).numpy().tolist() == rounded([0.3] * 3, dtype).tolist()
    )
    eye = Tensor.eye(5).cast(dtype).contiguous().realize()
    values = rounded(np.arange(25) - 12, dtype).reshape(5, 5)
    table = Tensor(values).cast(dtype).contiguous().realize()
    np.testing.assert_array_equal(table.matmul(eye, dtype=dtypes.float32).numpy(), values)


def test_a_constant_is_what_its_type_holds_of_it():
    assert Tensor.full((1,), 0.1, dtype=dtypes.half).cast(dtypes.float).item() == np.float16(0.1)
    assert Tensor.full((1,), 0.1, dtype=dtypes.float).cast(dtypes.double).item() == np.float32(0.1)
    assert Tensor.full((1,), 2**24 + 1.0, dtype=dtypes.float).cast(dtypes.int).item() == 2**24
    assert Tensor.full((2,), 300, dtype=dtypes.uint8).cast(dtypes.int).tolist() == [44, 44]
    x = Tensor([1.0, -0.1], dtype=dtypes.bfloat16).realize()
    assert (x + 0.1).cast(dtypes.float).tolist() == [1.1015625, 0.0]
