"""Reductions, scans and softmax: every way to name axes, empty and 0-d tensors, NaN and infinities."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes
from tinygrad.dtype import sum_acc_dtype

from .oracle import check_close, check_exact, spacing
from .rows import wide
from .values import (
    ALL_FLOATS,
    EVERY,
    FLOATS,
    SHAPES,
    axis_choices,
    draw,
    dtype_id,
    edges,
    rng,
    rounded,
    tensor,
)

INF, NAN = math.inf, math.nan


def positive(axis, rank):
    """`axis` as NumPy takes it: None, or a tuple counted from the front."""
    if axis is None:
        return None
    return tuple(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))) if rank else ()


def _prod(x, axis=None, keepdims=False):
    return np.prod(x, axis=axis, keepdims=keepdims)


def _variance(x, axis=None, keepdims=False):
    with np.errstate(all="ignore"):
        return np.var(x, axis=axis, keepdims=keepdims, ddof=1)


def _logsumexp(x, axis=None, keepdims=False):
    with np.errstate(all="ignore"):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


# name -> reference on longdouble, ULPs, whether no elements have a value
REDUCTIONS = {
    "sum": (np.sum, 3.0, True),
    "prod": (_prod, 30.0, True),
    "mean": (np.mean, 4.0, True),
    "var": (_variance, 12.0, True),
    "std": (lambda x, axis=None, keepdims=False: np.sqrt(_variance(x, axis, keepdims)), 8.0, True),
    "max": (np.max, 0.0, False),
    "min": (np.min, 0.0, False),
    "logsumexp": (_logsumexp, 6.0, True),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (2, 3), (2, 3, 4), (1, 8, 1), (2, 1, 3, 2), (1, 2, 3, 1, 2)], ids=str
)
def test_every_way_to_name_axes(name, shape):
    """None, one, several, from the front and from the back; with and without the axes kept."""
    reference, ulps, _ = REDUCTIONS[name]
    values = draw(rng(name, shape), shape, dtypes.float32, 0.5, 2.0)
    t = tensor(values, dtypes.float32)
    choices = axis_choices(len(shape))
    chosen = choices if len(shape) < 3 else choices[:: len(shape) - 1]
    for count, axis in enumerate(chosen):
        keepdim = count % 2 == 0
        with np.errstate(all="ignore"), np.testing.suppress_warnings() as quiet:
            quiet.filter(RuntimeWarning)
            want = reference(values.astype(wide), axis=positive(axis, len(shape)), keepdims=keepdim)
        got = getattr(t, name)(axis=axis, keepdim=keepdim)
        check_close(
            got,
            want,
            dtypes.float32,
            ulps,
            f"{name} {axis} {keepdim}",
            None,
            1e-6 if name in ("var", "std") else 0.0,
        )


@pytest.mark.parametrize(
    "name", [*REDUCTIONS, "any", "all", "argmax", "argmin", "softmax", "cumsum", "sort"]
)
def test_axes_that_are_not_there(name):
    t = Tensor.ones(2, 3)
    for axis in (2, -3):
        with pytest.raises(IndexError, match="out of range"):
            getattr(t, name)(axis)
    if name in REDUCTIONS:
        for axis in ((0, 0), (1, -1)):
            with pytest.raises(RuntimeError, match="twice"):
                getattr(t, name)(axis)
        with pytest.raises(TypeError):
            getattr(t, name)(1.0)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 1, 3)], ids=str)
def test_no_elements(shape):
    """Sums are 0, products 1, means NaN; extremes of nothing are those of the dtype's ends."""
    t = Tensor.zeros(*shape)
    empty = shape.index(0)
    rest = tuple(s for i, s in enumerate(shape) if i != empty)
    for name, value in (("sum", 0.0), ("prod", 1.0), ("mean", NAN), ("var", NAN), ("std", NAN), ("max", -INF),
                        ("min", INF), ("logsumexp", -INF)):  # fmt: skip
        check_exact(getattr(t, name)(axis=empty), np.full(rest, value), dtypes.float32, name)
        check_exact(
            getattr(t, name)(axis=empty, keepdim=True).sum(),
            np.full((), np.sum(np.full(rest, value))),
            dtypes.float32,
        )
        check_exact(getattr(t, name)(), np.full((), value), dtypes.float32, name)
    check_exact(t.any(axis=empty), np.zeros(rest, bool), dtypes.bool)
    check_exact(t.all(axis=empty), np.ones(rest, bool), dtypes.bool)
    for name in ("argmax", "argmin"):
        with pytest.raises(IndexError, match="no elements"):
            getattr(t, name)(empty)
        with pytest.raises(IndexError, match="no elements"):
            getattr(t, name)()
    for name in ("softmax", "log_softmax", "cumsum", "cummax", "logcumsumexp", "argsort"):
        for axis in range(len(shape)):
            assert getattr(t, name)(axis).shape == shape, (name, axis)
            assert getattr(t, name)(axis).numpy().shape == shape
    assert t.cumprod(empty).shape == shape
    assert all(part.shape == shape for part in t.sort(empty))
    whole = Tensor.zeros(*shape, dtype=dtypes.int8)
    assert whole.max().item() == -128 and whole.min().item() == 127 and whole.sum().item() == 0


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_a_scalar_is_its_own_reduction(dtype):
    t = tensor(np.array(1, dtype=rounded([1], dtype).dtype), dtype)
    for axis in (None, 0, -1, ()):
        for name in ("max", "min", "prod"):
            assert (
                getattr(t, name)(axis=axis).shape == () and getattr(t, name)(axis=axis).item() == 1
            )
        assert t.sum(axis=axis).item() == 1 and t.sum(axis=axis).dtype is t.reshape(1).sum().dtype
        assert (
            t.mean(axis=axis).item() == 1.0
            and t.any(axis).item() is True
            and t.all(axis).item() is True
        )
    assert t.argmax().item() == 0 and t.argmax(0).shape == () and t.argmin(-1).item() == 0
    assert t.cumsum().item() == 1 and t.cumprod(0).item() == 1 and t.cummax().item() == 1
    values, order = t.sort()
    assert values.item() == 1 and order.item() == 0
    if dtypes.is_float(dtype):
        assert t.softmax().item() == 1 and t.log_softmax().item() == 0 and t.logsumexp().item() == 1
        assert t.logcumsumexp().item() == 1


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_dtypes_of_results(dtype):
    t = tensor(rounded([1, 0, 1, 1], dtype), dtype)
    wide_sum = sum_acc_dtype(dtype)
    assert t.sum().dtype is (dtype if dtypes.is_float(dtype) else wide_sum)
    assert t.cumsum().dtype is (dtype if dtypes.is_float(dtype) else wide_sum)
    assert t.sum(dtype=dtypes.float64).dtype is dtypes.float64
    assert t.prod(dtype="int64").dtype is dtypes.int64
    for name in ("max", "min", "prod"):
        assert getattr(t, name)().dtype is dtype
    floating = dtype if dtypes.is_float(dtype) else dtypes.default_float
    for name in ("mean", "var", "std", "softmax", "log_softmax", "logsumexp"):
        assert getattr(t, name)().dtype is floating, name
    for name in ("argmax", "argmin", "argsort"):
        assert getattr(t, name)().dtype is dtypes.int32
    assert t.any().dtype is t.all().dtype is dtypes.bool


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_id)
def test_special_values(dtype):
    """NaN wins; infinities of both signs make NaN in sums; -0.0 is a zero."""
    rows = np.array([[1.0, NAN, INF], [INF, -INF, 1.0], [-INF, 2.0, 1.0], [-0.0, -0.0, -0.0], [0.0, INF, 1.0],
                     [-1.0, -2.0, -3.0], [NAN, NAN, NAN], [INF, INF, INF]])  # fmt: skip
    values = rounded(rows, dtype)
    t, exact = tensor(values, dtype), values.astype(wide)
    with np.errstate(all="ignore"):
        for name, reference in (
            ("sum", np.sum),
            ("prod", np.prod),
            ("max", np.max),
            ("min", np.min),
            ("mean", np.mean),
        ):
            check_close(getattr(t, name)(1), reference(exact, axis=1), dtype, 1, name)
        check_close(t.var(1), np.var(exact, axis=1, ddof=1), dtype, 2, "var")
        with_shift = np.where(np.isneginf(exact).all(1), -INF, np.log(np.exp(exact).sum(1)))
        check_close(t.logsumexp(1), with_shift, dtype, 2, "logsumexp")
        check_close(t.cumsum(1), np.cumsum(exact, axis=1), dtype, 1, "cumsum")
        check_close(t.cumprod(1), np.cumprod(exact, axis=1), dtype, 1, "cumprod")
        check_exact(t.cummax(1), np.maximum.accumulate(values, axis=1), dtype, "cummax")
    check_exact(t.any(1), values.astype(bool).any(1), dtypes.bool)
    check_exact(t.all(1), values.astype(bool).all(1), dtypes.bool)
    check_exact(t.argmax(1), np.argmax(values, 1), dtypes.int32, "argmax", None)
    check_exact(t.argmin(1), np.argmin(values, 1), dtypes.int32, "argmin", None)


@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_id)
def test_long_sums_lose_little(dtype):
    """Narrow floats are summed in float32; the error is that of the type of the sum."""
    values = draw(rng("long", dtype), (3000,), dtype, 0.0, 1.0)
    exact = values.astype(wide).sum()
    held = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    lost = 60 * float(spacing(np.array(exact), held))
    check_close(tensor(values, dtype).sum(), exact, dtype, 0.51, "sum", None, lost)
    check_close(tensor(values, dtype).mean(), exact / 3000, dtype, 0.51, "mean", None, lost / 3000)


@pytest.mark.parametrize("correction", [0, 1, 2, 0.5])
def test_corrections(correction):
    values = draw(rng("correction"), (3, 5), dtypes.float32)
    t, exact = tensor(values, dtypes.float32), values.astype(wide)
    for axis in (None, 0, 1, (0, 1)):
        var, std = (
            np.var(exact, axis=axis, ddof=correction),
            np.std(exact, axis=axis, ddof=correction),
        )
        check_close(t.var(axis, correction=correction), var, dtypes.float32, 8)
        check_close(t.std(axis, correction=correction), std, dtypes.float32, 8)
        got_var, got_mean = t.var_mean(axis, correction=correction)
        check_close(got_var, var, dtypes.float32, 8)
        check_close(got_mean, np.mean(exact, axis=axis), dtypes.float32, 4, absolute=1e-6)
        got_std, _ = t.std_mean(axis, correction=correction)
        check_close(got_std, std, dtypes.float32, 8)
    assert math.isnan(Tensor([3.0]).var().item()) and math.isnan(Tensor([3.0]).std().item())
    assert Tensor([3.0]).var(correction=0).item() == 0.0


def test_variance_of_numbers_far_from_zero():
    values = np.array([10000.25, 10001.5, 9999.0, 10000.75], np.float32)
    check_close(
        tensor(values, dtypes.float32).var(), np.var(values.astype(wide), ddof=1), dtypes.float32, 4
    )


# ---- softmax and its kin


def _softmax(x, axis):
    with np.errstate(all="ignore"):
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("dtype", ALL_FLOATS, ids=dtype_id)
def test_softmax(dtype):
    values = draw(rng("softmax", dtype), (3, 4, 5), dtype, -9, 9)
    t, exact = tensor(values, dtype), values.astype(wide)
    for axis in (0, 1, 2, -1, -3):
        want = _softmax(exact, axis)
        ulps = 20.0 if dtype.itemsize >= 4 else 12.0
        lost = 0.0 if dtype.itemsize >= 4 else float(spacing(np.ones(1), dtype)[0])
        check_close(t.softmax(axis), want, dtype, ulps, f"softmax {axis}", None, lost)
        check_close(
            t.log_softmax(axis),
            np.log(want),
            dtype,
            ulps,
            f"log_softmax {axis}",
            None,
            16 * lost + 1e-6,
        )
    assert t.softmax(dtype=dtypes.float64).dtype is dtypes.float64


def test_softmax_of_extremes():
    """No overflow whatever the size; all of the mass where one is infinite is NaN as in PyTorch."""
    rows = np.array([[1000.0, 1001.0, 1002.0], [-1e30, 0.0, 1.0], [3e38, -3e38, 0.0], [-INF, 0.0, 0.0],
                     [-INF, -INF, 0.0], [0.0, 0.0, 0.0]], np.float32)  # fmt: skip
    t = tensor(rows, dtypes.float32)
    want = _softmax(rows.astype(wide), 1)
    check_close(t.softmax(1), want, dtypes.float32, 4, absolute=1e-38)
    exact = rows.astype(wide)
    largest = exact.max(1, keepdims=True)
    want = np.log(np.exp(exact - largest).sum(1, keepdims=True))
    check_close(t.log_softmax(1), exact - largest - want, dtypes.float32, 4, absolute=1e-7)
    want = (largest + want)[:, 0]
    check_close(t.logsumexp(1), want, dtypes.float32, 2)
    for bad in ([INF, 0.0], [NAN, 0.0], [-INF, -INF]):
        assert all(math.isnan(v) for v in Tensor(bad).softmax().tolist()), bad


# ---- scans


@pytest.mark.parametrize("shape", [s for s in SHAPES if len(s)], ids=str)
def test_scans_along_every_axis(shape):
    values = draw(rng("scan", shape), shape, dtypes.float32, 0.5, 1.5)
    t, exact = tensor(values, dtypes.float32), values.astype(wide)
    for axis in range(len(shape)):
        name = axis if axis % 2 == 0 else axis - len(shape)
        check_close(t.cumsum(name), np.cumsum(exact, axis), dtypes.float32, 8, "cumsum")
        check_close(t.cumprod(name), np.cumprod(exact, axis), dtypes.float32, 8, "cumprod")
        check_exact(t.cummax(name), np.maximum.accumulate(values, axis), dtypes.float32, "cummax")
        want = np.logaddexp.accumulate(exact, axis)
        check_close(t.logcumsumexp(name), want, dtypes.float32, 8, "logcumsumexp", None, 1e-6)


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 513, 600])
def test_scans_of_blocks(length):
    """Around the length from which a scan goes in blocks."""
    values = rng("blocks", length).integers(-9, 9, (2, length)).astype(np.int32)
    t = tensor(values, dtypes.int32)
    check_exact(t.cumsum(1), np.cumsum(values, 1), dtypes.int32, "cumsum")
    check_exact(t.cummax(1), np.maximum.accumulate(values, 1), dtypes.int32, "cummax")
    odd = values | 1
    check_exact(
        tensor(odd, dtypes.int32).cumprod(1),
        np.cumprod(odd, 1, dtype=np.int32),
        dtypes.int32,
        "cumprod",
    )


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_cummax_of_every_dtype(dtype):
    values = edges(dtype)
    values = values[values == values]
    check_exact(tensor(values, dtype).cummax(), np.maximum.accumulate(values), dtype)
    descending = np.sort(values)[::-1].copy()
    check_exact(tensor(descending, dtype).cummax(), np.full(len(values), descending[0]), dtype)


def test_logcumsumexp_of_infinities():
    rows = np.array(
        [[-INF, 0.0, 1.0], [-INF, -INF, 2.0], [0.0, INF, 1.0], [1000.0, 1001.0, -1000.0]],
        np.float32,
    )
    with np.errstate(all="ignore"):
        want = np.logaddexp.accumulate(rows.astype(wide), 1)
    check_close(tensor(rows, dtypes.float32).logcumsumexp(1), want, dtypes.float32, 2)
