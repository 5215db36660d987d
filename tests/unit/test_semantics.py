"""docs/semantics.md, line by line, against NumPy."""

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

NAN, INF = float("nan"), float("inf")


def realized(values, dtype=None):
    return Tensor(values, dtype=dtype).contiguous().realize()


def same(got, want):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_nan_propagates():
    data = np.array([[1.0, NAN, 3.0], [4.0, 5.0, -6.0]], dtype=np.float32)
    x, y = realized(data.tolist()), realized([[2.0, 2.0, NAN], [NAN, 1.0, 1.0]])
    other = y.numpy()
    same(x.max(1).numpy(), np.max(data, 1))
    same(x.min(1).numpy(), np.min(data, 1))
    same(x.maximum(y).numpy(), np.maximum(data, other))
    same(x.minimum(y).numpy(), np.minimum(data, other))
    same(x.relu().numpy(), np.maximum(data, 0))
    same(x.clip(0, 4).numpy(), np.clip(data, 0, 4))


def test_folds_keep_nan_and_infinity():
    data = np.array([0.0, INF, -INF, NAN, 2.0], dtype=np.float32)
    x = realized(data.tolist())
    zero = realized([0.0] * 5)
    with np.errstate(all="ignore"):
        same((x - x).numpy(), data - data)
        same((x / (x + zero)).numpy(), data / data)
        same((x * zero).numpy(), data * 0)
        same((x * 0).numpy(), data * 0)


@pytest.mark.parametrize("dtype", [*dtypes.ints])
def test_integers_wrap_and_division_is_pythons(dtype):
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    values = [v for v in (low, low + 1, -7, -1, 0, 1, 7, high - 1, high) if low <= v <= high]
    pairs = [(a, b) for a in values for b in values]
    a, b = realized([p[0] for p in pairs], dtype), realized([p[1] for p in pairs], dtype)

    def wrapped(v):
        span = high - low + 1
        return (v - low) % span + low

    same((a + b).numpy(), [wrapped(x + y) for x, y in pairs])
    same((a * b).numpy(), [wrapped(x * y) for x, y in pairs])
    quotient, remainder = (a // b).numpy(), (a % b).numpy()
    for (x, y), q, r in zip(pairs, quotient.tolist(), remainder.tolist()):
        if y:
            assert (q, r) == (wrapped(x // y), x % y), (x, y)


def test_division_by_zero_is_defined():
    a = realized([7, 0, -7, -(2**31)], dtypes.int32)
    b = realized([0, 0, 0, -1], dtypes.int32)
    assert a.idiv(b).tolist() == [0, 0, 0, -(2**31)]


def test_sums_of_narrow_floats_are_accumulated_wide():
    x = Tensor.full((4096,), 1.0, dtype=dtypes.half).contiguous().realize()
    assert x.sum().item() == 4096.0
    assert (
        Tensor.full((3000,), 1.0, dtype=dtypes.bfloat16).contiguous().realize().sum().item()
        == 3008.0
    )


def test_out_of_range_reads_give_zero():
    table = realized(list(range(1, 9)), dtypes.int32)
    index = realized([0, 7, 8, 100, -1000, 2**30, -(2**31)], dtypes.int32)
    got = table.gather(0, index).tolist()
    assert got[:2] == [1, 8]
    assert all(v == 0 for v in got[2:4])
    assert len(got) == 7


def test_quotients_that_the_published_release_folds():
    x = realized([0.0, 3.0])
    assert (x / x).tolist() == [1.0, 1.0]


def test_undefined_memory_times_zero_is_zero():
    blank = Tensor.empty(4)
    assert (blank * 0).schedule() == []
    written = Tensor.empty(4)
    assert (written * 0).schedule() == []
    written.assign(Tensor([NAN, 1.0, INF, 2.0])).realize()
    same((written * 0).numpy(), [NAN, 0.0, NAN, 0.0])
