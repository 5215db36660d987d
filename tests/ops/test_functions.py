"""Functions of one argument: accuracy, edge values, shapes, dtypes, both compilers and the interpreter."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes
from tinygrad.helpers import Context

from . import rows
from .oracle import check_close, check_exact, spacing
from .rows import Function, wide
from .values import (
    ALL_FLOATS,
    FLOATS,
    SHAPES,
    draw,
    dtype_id,
    edges,
    float_limits,
    numpy_type,
    rng,
    rounded,
    tensor,
)

FUNCTIONS = (
    # exact
    Function("neg", np.negative),
    Function("abs", np.abs),
    Function("sign", np.sign),
    Function("square", np.square, 0.5),
    Function("trunc", np.trunc),
    Function("floor", np.floor),
    Function("ceil", np.ceil),
    Function("round", np.round),
    Function("relu", lambda x: np.maximum(x, 0)),
    Function("relu6", lambda x: np.clip(x, 0, 6)),
    Function("hardtanh", lambda x: np.clip(x, -1, 1)),
    Function("hardtanh", lambda x: np.clip(x, -2, 3), kwargs={"min_val": -2, "max_val": 3}),
    # one to four roundings
    Function("sqrt", np.sqrt, 0.5),
    Function("rsqrt", lambda x: 1 / np.sqrt(x), 1.5),
    Function("reciprocal", lambda x: 1 / x, 0.5),
    Function("leaky_relu", lambda x: np.where(x < 0, x * wide("0.01"), x), 1.0, 1.0),
    Function("leaky_relu", lambda x: np.where(x < 0, x * 2, x), kwargs={"neg_slope": 2}),
    Function("hardsigmoid", lambda x: np.clip(x / 6 + wide(0.5), 0, 1), 1.0, 1.5, absolute=0.5),
    Function("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, 3.0, absolute=1.0),
    Function("softsign", lambda x: x / (1 + np.abs(x)), 1.6, 1.6),
    # elementary
    Function("exp", np.exp, 1.3),
    Function("exp2", np.exp2, 1.2),
    Function("log", np.log, 2.0),
    Function("log2", np.log2, 1.8),
    Function("sin", np.sin, 2.5, absolute=1e-3),
    Function("cos", np.cos, 2.5, absolute=1e-3),
    Function("tan", np.tan, 5.0, absolute=1e-3),
    Function("asin", np.arcsin, 3.0),
    Function("acos", np.arccos, 3.0),
    Function("atan", np.arctan, 3.0),
    Function("sinh", np.sinh, 4.5),
    Function("cosh", np.cosh, 4.5),
    Function("tanh", np.tanh, 3.5),
    Function("asinh", np.arcsinh, 6.0),
    Function("acosh", np.arccosh, 4.0),
    Function("atanh", np.arctanh, 4.5),
    Function("erf", rows.erf, 4.0),
    Function("sigmoid", rows.sigmoid, 3.0, lost=1.0),
    Function("logsigmoid", lambda x: -rows.softplus(-x), 3.5),
    Function("softplus", rows.softplus, 3.5),
    Function("softplus", lambda x: rows.softplus(2 * x) / 2, 3.5, kwargs={"beta": 2}),
    # activations; below zero their argument is rounded before it is an exponent
    Function("silu", lambda x: x * rows.sigmoid(x), 4.0, lost=200.0),
    Function("swish", lambda x: x * rows.sigmoid(x), 4.0, lost=200.0),
    Function("quick_gelu", lambda x: x * rows.sigmoid(wide("1.702") * x), 800.0, lost=200.0),
    Function("gelu", rows.gelu, 1500.0, lost=200.0),
    Function("mish", rows.mish, 5.0),
    Function("elu", rows.elu, 2.0),
    Function("elu", lambda x: rows.elu(x, 2.5), 3.0, kwargs={"alpha": 2.5}),
    Function("celu", rows.elu, 2.0),
    Function("celu", lambda x: 2 * rows.elu(x / 2), 3.0, kwargs={"alpha": 2.0}),
    Function("selu", lambda x: wide("1.0507") * rows.elu(x, "1.67326"), 4.5),
    # of bools
    Function("isnan", np.isnan),
    Function("isinf", np.isinf),
    Function("isinf", np.isposinf, kwargs={"detect_negative": False}),
    Function("isfinite", np.isfinite),
    Function("logical_not", np.logical_not),
)
BOOLEAN = ("isnan", "isinf", "isfinite", "logical_not")
EACH = pytest.mark.parametrize("row", FUNCTIONS, ids=str)


def inputs(row: Function, dtype) -> np.ndarray:
    """Edge values, random patterns of bits, and the ranges where functions bend."""
    generator = rng(str(row), dtype)
    width = np.dtype(f"u{dtype.itemsize}")
    raw = generator.integers(0, 2 ** (8 * dtype.itemsize), 200, dtype=width)
    if dtype is dtypes.bfloat16:
        bits = (raw.astype(np.uint32) << 16).view(np.float32)
    elif dtype in dtypes.fp8s:
        bits = draw(generator, (200,), dtype)
    else:
        bits = raw.view(numpy_type(dtype))
    near = draw(generator, (150,), dtype, -1.2, 1.2)
    bend = draw(generator, (150,), dtype, -30, 30)
    return np.concatenate([edges(dtype), bits[~np.isnan(bits)], near, bend])


def check(row: Function, t: Tensor, values: np.ndarray, dtype) -> None:
    """Calls the method and compares with the reference on the exact values."""
    with np.errstate(all="ignore"):
        want = np.asarray(row.reference(values.astype(wide)))
    got = getattr(t, row.name)(**row.kwargs)
    if row.name in BOOLEAN:
        check_exact(got, want, dtypes.bool, str(row), [values])
        return
    narrow = dtype.itemsize < 4
    absolute = row.lost * float_limits(dtype)[1] + row.absolute * float(spacing(np.ones(()), dtype))
    bound = row.narrow if narrow and row.ulps else row.ulps
    check_close(got, want, dtype, bound, str(row), [values], absolute)


@EACH
@pytest.mark.parametrize("dtype", FLOATS, ids=dtype_id)
def test_values(row, dtype):
    values = inputs(row, dtype)
    check(row, tensor(values, dtype), values, dtype)


@EACH
def test_shapes_of_zero_to_five_axes(row):
    """Scalars, no elements, and a shape that differs from row to row."""
    some = SHAPES[FUNCTIONS.index(row) % len(SHAPES)]
    for shape in ((), (0, 3), some):
        values = draw(rng(str(row), shape), shape, dtypes.float32)
        check(row, tensor(values, dtypes.float32), values, dtypes.float32)


@EACH
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint8, dtypes.bool], ids=dtype_id)
def test_integers_and_bools_are_taken_as_floats(row, dtype):
    """Or keep their dtype where the result is whole; either way the value is the function's."""
    values = np.array([0, 1, 2, 3, 7, 20][: 2 if dtype is dtypes.bool else 6], numpy_type(dtype))
    got = getattr(tensor(values, dtype), row.name)(**row.kwargs)
    with np.errstate(all="ignore"):
        want = np.asarray(row.reference(values.astype(wide)))
    if dtypes.is_float(got.dtype):
        assert got.dtype is dtypes.default_float
        check_close(
            got, want, got.dtype, row.ulps + 0.5, str(row), [values], row.absolute * 2.0**-23
        )
    else:
        if got.dtype is not dtypes.bool:
            want = np.trunc(want).astype(np.int64).astype(numpy_type(got.dtype))
        if dtype is dtypes.bool and row.name in ("neg", "bitwise_not"):
            want = ~values
        check_exact(got.cast(dtypes.int64), want.astype(np.int64), dtypes.int64, str(row), [values])


@EACH
def test_fp8_rounds_the_result(row):
    for dtype in dtypes.fp8s:
        values = np.concatenate([edges(dtype), draw(rng(str(row), dtype), (20,), dtype)])
        with np.errstate(all="ignore"):
            want = np.asarray(row.reference(values.astype(wide)))
        got = getattr(tensor(values, dtype), row.name)(**row.kwargs)
        if row.name in BOOLEAN:
            check_exact(got, want, dtypes.bool, str(row), [values])
        else:
            # what float32 does not hold either is infinite, and NaN where there is no infinity
            want = np.where(np.abs(want) > 3.4e38, np.sign(want) * math.inf, want)
            # several steps, each rounded to three bits, lose a value or two; the scale must be right
            lost = row.absolute / 8 + 4 * float_limits(dtype)[1]
            check_close(got, want, dtype, 3.1, str(row), [values], lost)


@EACH
def test_the_interpreter_and_plain_loops_agree(row):
    values = np.concatenate(
        [edges(dtypes.float32)[:40], draw(rng(str(row)), (24,), dtypes.float32)]
    )
    if row.name in ("cos", "tan"):
        # the interpreter has the sine of C, and cosines are sines of a rounded sum there
        values = values[np.abs(values) < 1.4]
        slack = Function(row.name, row.reference, row.ulps, absolute=8.0)
        check(slack, tensor(values, dtypes.float32).to("PYTHON"), values, dtypes.float32)
    elif row.ulps < 100:
        slack = Function(
            row.name,
            row.reference,
            row.ulps and row.ulps + 60,
            lost=200.0,
            absolute=row.absolute,
            kwargs=row.kwargs,
        )
        check(slack, tensor(values, dtypes.float32).to("PYTHON"), values, dtypes.float32)
    with Context(NOOPT=1):
        check(row, tensor(values, dtypes.float32), values, dtypes.float32)


def test_large_angles():
    """Multiples of pi/2 that lie very close to a float, and the largest angles there are."""
    hard = [
        1.5707964,
        3.1415927,
        22.0,
        355.0,
        573204.0,
        16367173.0 * 2**72,
        3.4e38,
        1e22,
        6381956970095103 * 2.0**797,
    ]
    for dtype in (dtypes.float32, dtypes.float64):
        values = rounded([v for h in hard for v in (h, -h) if v < float_limits(dtype)[0]], dtype)
        values = values[np.isfinite(values)]
        t = tensor(values, dtype)
        # about 62 bits of the angle are kept: small sines have an error next to 1, not to them
        lost = 2.0**-60
        check_close(t.sin(), np.sin(values.astype(wide)), dtype, 2.5, "sin", [values], lost)
        check_close(t.cos(), np.cos(values.astype(wide)), dtype, 2.5, "cos", [values], lost)


def test_functions_of_sums_and_products_are_as_exact():
    """What is fused into the argument must not change how it is reduced."""
    x = np.array([0.0, 1.0, 700.25, 12345.5, 1e10, -3e20], np.float32)
    t = tensor(x, dtypes.float32)
    exact = x.astype(wide)
    check_close((t * 0.5).cos(), np.cos(exact / 2), dtypes.float32, 2.5)
    check_close((t * 3 + 1).cos(), np.cos((t * 3 + 1).numpy().astype(wide)), dtypes.float32, 3)
    check_close((1 - t).cos(), np.cos((1 - t).numpy().astype(wide)), dtypes.float32, 2.5)
    y = np.array([-80.3, -20.7, -1.1, 0.3, 7.7, 41.3], np.float32)
    u, exact = tensor(y, dtypes.float32), y.astype(wide)
    check_close((u * 2).exp(), np.exp(exact * 2), dtypes.float32, 1.3, absolute=1e-38)
    check_close((-u).exp(), np.exp(-exact), dtypes.float32, 1.3)
    check_close((u - 3.5).exp(), np.exp((u - 3.5).numpy().astype(wide)), dtypes.float32, 1.3)


def test_signs_of_zeros():
    zeros = np.array([0.0, -0.0], np.float32)
    t = tensor(zeros, dtypes.float32)
    for name in ("asin", "asinh", "sinh", "atanh", "sqrt", "trunc", "floor", "round", "leaky_relu"):
        got = getattr(t, name)().numpy()
        assert (got == 0).all() and (np.signbit(got) == np.signbit(zeros)).all(), name
    assert not np.signbit(t.abs().numpy()).any()
    assert (1 / t.abs()).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("dtype", ALL_FLOATS, ids=dtype_id)
def test_dtypes_survive(dtype):
    t = tensor(rounded([0.5, 0.25], dtype), dtype)
    for row in FUNCTIONS:
        want = dtypes.bool if row.name in BOOLEAN else dtype
        assert getattr(t, row.name)(**row.kwargs).dtype is want, str(row)


def test_gradients_stay_finite_where_the_other_formula_overflows():
    x = Tensor([-1000.0, -90.0, -0.0, 0.0, 90.0, 1000.0], requires_grad=True)
    for name in ("tanh", "elu", "celu", "selu", "mish", "softplus", "logsigmoid", "sigmoid", "gelu", "silu",
                 "erf", "atan", "asinh"):  # fmt: skip
        x.grad = None
        getattr(x, name)().sum().backward()
        assert all(math.isfinite(v) for v in x.grad.tolist()), name
    x.grad = None
    x.tanh().sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_arguments_are_checked():
    t = Tensor([1.0])
    with pytest.raises(RuntimeError, match="min_ or max_"):
        t.clip()
    with pytest.raises(TypeError):
        t.exp(3)
