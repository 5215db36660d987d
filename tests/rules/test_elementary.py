"""Elementary functions made of arithmetic, against NumPy in a wider type."""

from __future__ import annotations

import numpy as np
import pytest
from evaluator import evaluate

from tinygrad.dtype import dtypes
from tinygrad.uop import transcendental as t
from tinygrad.uop.ops import UOp

# dtype, type of the arguments, type of the reference
KINDS = {
    "float16": (dtypes.float16, np.float16, np.float64),
    "float32": (dtypes.float32, np.float32, np.float64),
    "float64": (dtypes.float64, np.float64, np.longdouble),
}
SEED = 11


def _arguments(scalar) -> np.ndarray:
    """Special values, all magnitudes, the unit interval, and the neighbourhood of one."""
    rng = np.random.default_rng(SEED)
    info = np.finfo(scalar)
    bits = 8 * np.dtype(scalar).itemsize
    special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, 3, 0.5, 127.5, -126.5, -149.5, 128]
    edges = [info.tiny, -info.tiny, info.smallest_subnormal, info.max, -info.max, -1074.3, 1023.9]
    with np.errstate(over="ignore"):
        return np.concatenate(
            [
                np.array(special + edges, scalar),
                rng.integers(0, 2**bits, 60000, dtype=f"u{bits // 8}").view(scalar),
                rng.uniform(-1, 1, 20000).astype(scalar),
                rng.uniform(-1000, 1000, 20000).astype(scalar),
                (1 + rng.uniform(-0.05, 0.05, 10000)).astype(scalar),
            ]
        )


def _ulps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the expected value; 0 where both are the same."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
        distance = np.abs(got.astype(np.longdouble) - expected.astype(np.longdouble)) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0, distance)


def _check(function, reference, kind: str, limit: float, arguments=None) -> None:
    dtype, scalar, wide = KINDS[kind]
    x = UOp.variable("x", -float("inf"), float("inf"), dtype)
    values = _arguments(scalar) if arguments is None else arguments
    got = evaluate(function(x), {x: values})
    with np.errstate(all="ignore"):
        expected = reference(values.astype(wide))
    error = _ulps(got, expected)
    bad = np.nonzero(~(error <= limit))[0]
    assert not len(bad), (
        f"{len(bad)} results beyond {limit} ulp, first at {values[bad[0]]!r}: "
        f"{got[bad[0]]!r} instead of {expected[bad[0]]!r} (seed {SEED})"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_exp2(kind: str):
    _check(t.xexp2, np.exp2, kind, 1.5)


@pytest.mark.parametrize("kind", KINDS)
def test_log2(kind: str):
    _check(t.xlog2, np.log2, kind, 2)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_sin(kind: str):
    _check(t.xsin, np.sin, kind, 3)


def test_sin_of_doubles():
    # glibc's sine is correct to less than one unit; very close to a multiple of pi the fixed point
    # fraction of the large reduction has fewer bits than a double
    dtype = dtypes.float64
    x = UOp.variable("x", -float("inf"), float("inf"), dtype)
    values = _arguments(np.float64)
    got = evaluate(t.xsin(x), {x: values})
    with np.errstate(invalid="ignore"):
        expected = np.sin(values)
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-17)


def test_sin_near_multiples_of_pi():
    values = (np.arange(-4000, 4000) * np.pi).astype(np.float32)
    dtype = dtypes.float32
    x = UOp.variable("x", -float("inf"), float("inf"), dtype)
    got = evaluate(t.xsin(x), {x: values})
    np.testing.assert_allclose(got, np.sin(values.astype(np.float64)), rtol=3e-7, atol=0)


def test_pow_of_floats():
    rng = np.random.default_rng(SEED)
    base = rng.uniform(0.01, 20, 5000).astype(np.float32)
    exponent = rng.uniform(-6, 6, 5000).astype(np.float32)
    b = UOp.variable("b", -float("inf"), float("inf"), dtypes.float32)
    e = UOp.variable("e", -float("inf"), float("inf"), dtypes.float32)
    got = evaluate(t.xpow(b, e), {b: base, e: exponent})
    expected = base.astype(np.float64) ** exponent.astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol=3e-6)


def test_pow_special_cases():
    inf, nan = np.inf, np.nan
    cases = [
        # base, exponent, C's pow
        (0.0, 0.0, 1.0), (nan, 0.0, 1.0), (inf, 0.0, 1.0), (1.0, nan, 1.0), (1.0, inf, 1.0),
        (-1.0, inf, 1.0), (-1.0, -inf, 1.0), (0.0, 2.0, 0.0), (0.0, -2.0, inf), (0.0, -1.0, inf),
        (-0.0, -1.0, -inf), (-2.0, 3.0, -8.0), (-2.0, 2.0, 4.0), (-2.0, 0.5, nan),
        (-2.0, -1.0, -0.5), (inf, 2.0, inf), (inf, -2.0, 0.0), (-inf, 3.0, -inf), (-inf, 2.0, inf),
        (-inf, 0.5, inf), (2.0, inf, inf), (0.5, inf, 0.0), (2.0, -inf, 0.0), (0.5, -inf, inf),
        (nan, 1.0, nan), (2.0, nan, nan), (2.0, 10.0, 1024.0), (-0.0, 3.0, -0.0),
    ]  # fmt: skip
    base, exponent, expected = (np.array(column, np.float32) for column in zip(*cases))
    b = UOp.variable("b", -inf, inf, dtypes.float32)
    e = UOp.variable("e", -inf, inf, dtypes.float32)
    got = evaluate(t.xpow(b, e), {b: base, e: exponent})
    for case, value in zip(cases, got):
        np.testing.assert_allclose(value, case[2], rtol=1e-6, err_msg=f"pow{case[:2]}")


def test_sqrt_and_trunc():
    values = _arguments(np.float32)
    x = UOp.variable("x", -float("inf"), float("inf"), dtypes.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(evaluate(t.xsqrt(x), {x: values}), np.sqrt(values), rtol=3e-7)
        np.testing.assert_array_equal(evaluate(t.xtrunc(x), {x: values}), np.trunc(values))


def test_unknown_dtype_is_refused():
    with pytest.raises(TypeError, match="cast to one of them"):
        t.rintk(UOp.const(dtypes.bfloat16, 1.0))
