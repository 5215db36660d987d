"""Comparison of a tensor with exact values.

`want` is an array that is more exact than the dtype compared (float64, longdouble, Python ints in an
object array, or the dtype's own NumPy type for exact ones). A bound is given in units in the last
place (ULPs) of the dtype at the wanted value, with `absolute` on top where a result is small next
to what it was computed from. NaN must meet NaN; what lies beyond the largest value must be infinite
(or the largest value of a dtype that saturates); zeros must have the sign wanted if `signed_zeros`.
"""

from __future__ import annotations

import math

import numpy as np

from tinygrad import Tensor
from tinygrad.dtype import DType, dtypes

from .values import FP8S, float_limits, has_infinity


def values_of(t: Tensor) -> np.ndarray:
    """The elements, exactly, in a NumPy array of the shape of `t`."""
    found = t.numpy()
    assert found.shape == t.shape, f"numpy() gives the shape {found.shape} of a tensor {t.shape}"
    return found


def spacing(want: np.ndarray, dtype: DType) -> np.ndarray:
    """One unit in the last place of `dtype` at each value of `want`, as longdouble."""
    _, mantissa_bits = dtypes.finfo(dtype)
    largest, normal, _ = float_limits(dtype)
    size = np.clip(np.abs(want).astype(np.longdouble), normal, largest)
    _, exponent = np.frexp(size)
    return np.ldexp(np.longdouble(1.0), exponent - 1 - mantissa_bits)


def _report(what: str, bad: np.ndarray, got, want, inputs) -> str:
    places = np.argwhere(bad)
    lines = [f"{what}: {len(places)} of {bad.size} wrong"]
    for place in places[:8]:
        at = tuple(int(i) for i in place)
        given = ""
        if inputs is not None:
            given = ", ".join(repr(np.broadcast_to(x, bad.shape)[at]) for x in inputs)
        lines.append(f"  at {at} of ({given}): got {got[at]!r}, expected {want[at]!r}")
    return "\n".join(lines)


def _check_shape_and_dtype(t: Tensor, want: np.ndarray, dtype: DType, what: str) -> None:
    assert t.dtype is dtype, f"{what}: dtype {t.dtype}, expected {dtype}"
    assert t.shape == want.shape, f"{what}: shape {t.shape}, expected {want.shape}"


def check_exact(
    t: Tensor, want, dtype: DType, what: str = "", inputs=None, signed_zeros: bool = False
) -> None:
    """`t` has the dtype and shape, and every element equals that of `want` (NaN equals NaN).

    Object arrays of Python ints are compared as ints, so that no width rounds them.
    """
    want = np.asarray(want)
    _check_shape_and_dtype(t, want, dtype, what)
    got = values_of(t)
    if want.dtype == object or got.dtype.kind in "iub":
        left, right = got.astype(object), want.astype(object)
        bad = np.array([a != b for a, b in zip(left.reshape(-1), right.reshape(-1))], dtype=bool)
        bad = bad.reshape(want.shape)
    else:
        bad = (got != want) & ~(np.isnan(got) & np.isnan(want))
        if signed_zeros:
            bad |= (got == 0) & (np.signbit(got) != np.signbit(want))
    assert not bad.any(), _report(what, bad, got, want, inputs)


def check_close(
    t: Tensor,
    want,
    dtype: DType,
    ulps: float,
    what: str = "",
    inputs=None,
    absolute: float | np.ndarray = 0.0,
    signed_zeros: bool = False,
) -> None:
    """`t` has the dtype and shape, and lies within `ulps` of the dtype (plus `absolute`) of `want`."""
    want = np.asarray(want)
    _check_shape_and_dtype(t, want, dtype, what)
    if not dtypes.is_float(dtype):
        check_exact(t, want, dtype, what, inputs)
        return
    bad = far(values_of(t), want, dtype, ulps, absolute)
    if signed_zeros:
        got = values_of(t)
        bad |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    assert not bad.any(), _report(f"{what} ({ulps} ULPs)", bad, values_of(t), want, inputs)


def far(got, want, dtype: DType, ulps: float, absolute: float | np.ndarray = 0.0) -> np.ndarray:
    """Where `got` is further from `want` than allowed."""
    exact = np.asarray(want).astype(np.longdouble)
    found = np.asarray(got).astype(np.longdouble)
    largest, _, _ = float_limits(dtype)
    unit = spacing(np.nan_to_num(exact, nan=1.0, posinf=1.0, neginf=1.0), dtype)
    bound = unit * ulps + absolute
    with np.errstate(all="ignore"):
        bad = ~(np.abs(found - exact) <= bound)
    if dtype in FP8S:  # finite values saturate, an infinity stays one or becomes NaN
        exact = np.where(np.isfinite(exact), np.clip(exact, -largest, largest), exact)
        bad &= found != exact
    else:
        # rounding carries what is half a unit beyond the largest value to infinity
        beyond = np.abs(exact) + bound >= largest + spacing(np.array(largest), dtype) / 2
        bad &= ~(beyond & np.isinf(found) & (np.sign(found) == np.sign(exact)))
        bad &= ~(np.isinf(exact) & (found == exact))
    if not has_infinity(dtype):
        bad &= ~(np.isinf(exact) & np.isnan(found))
    bad &= ~(np.isnan(exact) & np.isnan(found))
    return bad


def errors_in_ulps(got, want, dtype: DType) -> np.ndarray:
    """How far finite values are from the exact ones, in units in the last place (0 elsewhere)."""
    exact = np.asarray(want).astype(np.longdouble)
    found = np.asarray(got).astype(np.longdouble)
    finite = np.isfinite(exact) & np.isfinite(found)
    with np.errstate(all="ignore"):
        distance = np.abs(found - exact) / spacing(np.where(finite, exact, 1.0), dtype)
    return np.where(finite, distance, 0.0).astype(np.float64)


def wrapped(values, dtype: DType) -> np.ndarray:
    """Python ints (any nesting) wrapped around to an integer dtype, as an object array."""
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    span = high - low + 1
    given = np.asarray(values, dtype=object)
    flat = [(int(v) - low) % span + low for v in given.reshape(-1)]
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(given.shape)


def same_float(a: float, b: float) -> bool:
    """Equal bit for bit but for the kind of NaN: -0.0 is not 0.0."""
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b)
    )
