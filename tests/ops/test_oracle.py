"""The comparison itself: what is wrong is found, what is right passes."""

import math

import numpy as np
import pytest

from tinygrad import dtypes

from .oracle import check_close, check_exact, errors_in_ulps, wrapped
from .values import ALL_FLOATS, EVERY, axis_choices, draw, edges, numpy_type, rng, rounded, tensor


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_tensors_hold_the_edge_values(dtype):
    values = edges(dtype)
    assert values.dtype == numpy_type(dtype)
    check_exact(tensor(values, dtype), values, dtype, signed_zeros=True)
    np.testing.assert_array_equal(rounded(values, dtype), values)


@pytest.mark.parametrize("dtype", ALL_FLOATS, ids=str)
def test_bounds_are_tight(dtype):
    values = draw(rng("tight", dtype), (50,), dtype, 0.5, 200.0)
    exact = values.astype(np.longdouble)
    step = 2.0 ** (np.floor(np.log2(exact)) - dtypes.finfo(dtype)[1])
    t = tensor(values, dtype)
    check_close(t, exact + 0.99 * step, dtype, ulps=1)
    with pytest.raises(AssertionError, match="50 of 50 wrong"):
        check_close(t, exact - 1.01 * step, dtype, ulps=1)
    assert errors_in_ulps(values, exact - step / 2, dtype).max() <= 1.0


def test_special_values_must_agree():
    t = tensor(np.array([math.nan, math.inf, -0.0, 1.0], np.float32), dtypes.float32)
    check_close(t, np.array([math.nan, 1e39, -0.0, 1.0]), dtypes.float32, 1, signed_zeros=True)
    for place, wrong in enumerate((1.0, -math.inf, 0.0, math.nan)):
        want = np.array([math.nan, math.inf, -0.0, 1.0])
        want[place] = wrong
        with pytest.raises(AssertionError, match="1 of 4 wrong"):
            check_close(t, want, dtypes.float32, 1, signed_zeros=True)
    with pytest.raises(AssertionError, match="dtype"):
        check_exact(t, np.zeros(4), dtypes.float64)
    with pytest.raises(AssertionError, match="shape"):
        check_exact(t, np.zeros((4, 1)), dtypes.float32)


def test_wide_integers_are_compared_exactly():
    t = tensor(np.array([2**63 - 1], np.int64), dtypes.int64)
    check_exact(t, wrapped([2**63 - 1 + 2**64], dtypes.int64), dtypes.int64)
    with pytest.raises(AssertionError, match="1 of 1 wrong"):
        check_exact(t, wrapped([2**63 - 2], dtypes.int64), dtypes.int64)


def test_every_set_of_axes_is_named_once():
    assert axis_choices(0) == [None]
    for rank in range(1, 6):
        named = [c if isinstance(c, tuple) else (c,) for c in axis_choices(rank) if c is not None]
        sets = {frozenset(a % rank for a in c) for c in named}
        assert len(sets) == len(named) == 2**rank
