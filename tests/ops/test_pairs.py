"""Functions of two and three arguments on floats: every pair of edge values, broadcasting, numbers."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

from .oracle import check_close, check_exact, spacing
from .rows import wide
from .values import (
    ALL_FLOATS,
    BROADCASTS,
    EVERY,
    FLOATS,
    INTS,
    draw,
    dtype_id,
    edge_pairs,
    edges,
    rng,
    rounded,
    tensor,
)

EACH_FLOAT = pytest.mark.parametrize("dtype", FLOATS, ids=dtype_id)


def _copysign(x, y):
    return np.copysign(x, y)


def _logaddexp(x, y):
    return np.logaddexp(x, y)


# method -> reference, ULPs; the operations are rounded once
ARITHMETIC = {
    "add": (np.add, 0.5),
    "sub": (np.subtract, 0.5),
    "mul": (np.multiply, 0.5),
    "div": (np.divide, 0.5),
    "maximum": (np.maximum, 0.0),
    "minimum": (np.minimum, 0.0),
    "copysign": (_copysign, 0.0),
    "logaddexp": (_logaddexp, 3.0),
}
COMPARISONS = {
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def pairs(dtype, limit=400):
    left, right = edge_pairs(dtype, limit)
    generator = rng("pairs", dtype)
    return (
        np.concatenate([left, draw(generator, (40,), dtype)]),
        np.concatenate([right, draw(generator, (40,), dtype)]),
    )


@pytest.mark.parametrize("name", ARITHMETIC)
@EACH_FLOAT
def test_arithmetic(name, dtype):
    reference, ulps = ARITHMETIC[name]
    left, right = pairs(dtype)
    with np.errstate(all="ignore"):
        want = reference(left.astype(wide), right.astype(wide))
    if name in ("div", "logaddexp") and dtype is dtypes.float64:
        ulps += 0.01  # longdouble is not much wider
    if name == "div" and dtype in (dtypes.float16, dtypes.bfloat16):
        ulps = 1.5  # a product with the reciprocal, each rounded
    got = getattr(tensor(left, dtype), name)(tensor(right, dtype))
    lost = float(spacing(np.zeros(1), dtype)[0]) if name == "div" else 0.0
    if name == "div" and dtype is dtypes.float16:
        # the reciprocal of the largest numbers is subnormal, that of the smallest infinite
        keep = (
            (np.abs(right) > 2.0**-13) & (np.abs(right) < 2.0**13)
            | (right == 0)
            | ~np.isfinite(right)
        )
        left, right, want = left[keep], right[keep], want[keep]
        got = tensor(left, dtype).div(tensor(right, dtype))
    check_close(got, want, dtype, max(ulps, 0.51 * (ulps > 0)), name, [left, right], lost)


@pytest.mark.parametrize("dtype", [*ALL_FLOATS, dtypes.bool], ids=dtype_id)
def test_comparisons(dtype):
    left, right = pairs(dtype, 200)
    a, b = tensor(left, dtype), tensor(right, dtype)
    for name, reference in COMPARISONS.items():
        check_exact(getattr(a, name)(b), reference(left, right), dtypes.bool, name, [left, right])


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_broadcasting(shapes):
    generator = rng("broadcast", shapes)
    left, right = (draw(generator, s, dtypes.float32) for s in shapes)
    a, b = tensor(left, dtypes.float32), tensor(right, dtypes.float32)
    check_exact(a + b, left + right, dtypes.float32)
    check_exact(a.maximum(b), np.maximum(left, right), dtypes.float32)
    check_exact(a < b, left < right, dtypes.bool)
    check_exact((a < b).where(a, b), np.where(left < right, left, right), dtypes.float32)
    check_exact(b - a, right - left, dtypes.float32)


def test_shapes_that_do_not_fit():
    for one, two in (((3,), (4,)), ((2, 3), (3, 2)), ((0,), (3,)), ((2, 1, 3), (2, 2, 2))):
        for combine in (Tensor.add, Tensor.maximum, Tensor.lt, lambda x, y: (x > 0).where(x, y)):
            with pytest.raises(ValueError, match="cannot broadcast"):
                combine(Tensor.zeros(*one), Tensor.zeros(*two))


# ---- quotients and remainders of floats


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=dtype_id)
def test_floor_division_and_remainder(dtype):
    """As Python's and NumPy's where the quotient is exact: the sign of the divisor, no remainder of
    the divisor's size."""
    generator = rng("mod", dtype)
    left = np.concatenate(
        [draw(generator, (200,), dtype, -50, 50), [1.0, 6.0, -6.0, 0.0, -0.0, 0.3, 1e-30, -1e-30]]
    )
    right = np.concatenate(
        [draw(generator, (200,), dtype, -5, 5), [0.1, 3.0, 3.0, 2.0, -2.0, 0.1, 3.0, 3.0]]
    )
    left, right = rounded(left, dtype), rounded(right, dtype)
    a, b = tensor(left, dtype), tensor(right, dtype)
    check_exact(a // b, np.floor_divide(left, right), dtype, "//", [left, right])
    unit = np.spacing(np.abs(left).astype(left.dtype))
    check_close(a % b, np.mod(left, right), dtype, 1.0, "%", [left, right], unit)
    ends = ((5.0, math.inf), (-5.0, math.inf), (5.0, -math.inf), (-5.0, -math.inf), (math.inf, 2.0),
            (-math.inf, 2.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 0.0), (math.nan, 1.0), (1.0, math.nan))  # fmt: skip
    top, bottom = (np.array(v, left.dtype) for v in zip(*ends))
    with np.errstate(all="ignore"):
        check_exact(
            tensor(top, dtype) // tensor(bottom, dtype), np.floor_divide(top, bottom), dtype
        )
        check_exact(tensor(top, dtype) % tensor(bottom, dtype), np.mod(top, bottom), dtype)
    check_exact(a.div(b, rounding_mode="trunc"), np.trunc(left / right), dtype)
    with pytest.raises(RuntimeError, match="rounding_mode"):
        a.div(b, rounding_mode="ceil")


# ---- powers


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16], ids=dtype_id)
def test_powers(dtype):
    """All special cases of C99 (F.10.4.4), which NumPy follows; errors grow with the exponent."""
    base = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 1.5, -1.5, 7.25, 1e-3, 1e4, -1e4,
                     math.inf, -math.inf, math.nan])  # fmt: skip
    power = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 5.0, 0.5, -0.5, 0.3, 1.7, -1.7, 12.0, 13.0,
                      1e4, -1e4, math.inf, -math.inf, math.nan])  # fmt: skip
    left = rounded(np.repeat(base, len(power)), dtype)
    right = rounded(np.tile(power, len(base)), dtype)
    with np.errstate(all="ignore"):
        want = np.power(left.astype(wide), right.astype(wide))
        grown = np.nan_to_num(
            np.abs(right.astype(float) * np.log2(np.abs(left.astype(float)))), posinf=1
        )
    absolute = spacing(np.nan_to_num(want.astype(float), posinf=1, neginf=1), dtype) * (
        4 + 2 * grown
    )
    got = tensor(left, dtype) ** tensor(right, dtype)
    check_close(
        got, want, dtype, 0.6, "**", [left, right], absolute.astype(float), signed_zeros=False
    )


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 7, 2.5, 65, -0.0])
def test_powers_by_numbers(exponent):
    values = np.concatenate(
        [
            [0.0, -1.0, 1.0, math.inf, -math.inf, math.nan],
            draw(rng(exponent), (40,), dtypes.float32),
        ]
    )
    values = rounded(values, dtypes.float32)
    with np.errstate(all="ignore"):
        want = np.power(values.astype(wide), wide(exponent))
    if exponent in (0.5, 2.5):  # see the table of docs/semantics.md
        want = np.where(values == -math.inf, math.nan, want)
    ulps = (
        4
        + 2 * abs(exponent)
        + 2
        * np.abs(exponent * np.log2(np.maximum(np.abs(values.astype(float)), 1e-3))).max(
            where=np.isfinite(values), initial=0
        )
    )
    check_close(
        tensor(values, dtypes.float32) ** exponent,
        want,
        dtypes.float32,
        ulps,
        f"** {exponent}",
        [values],
    )


def test_numbers_to_a_tensor():
    y = rounded([-2.0, -0.5, 0.0, 0.5, 3.0, 10.0, math.inf, -math.inf, math.nan], dtypes.float32)
    for base in (2, 2.0, 0.5, 0.0, 1, 10):
        with np.errstate(all="ignore"):
            want = np.power(wide(base), y.astype(wide))
        check_close(base ** tensor(y, dtypes.float32), want, dtypes.float32, 45, f"{base} **", [y])


# ---- choice and limits


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_where_keeps_every_value(dtype):
    values = edges(dtype)
    other = values[::-1].copy()
    mask = np.arange(len(values)) % 3 == 0
    a, b = tensor(values, dtype), tensor(other, dtype)
    m = tensor(mask, dtypes.bool)
    check_exact(m.where(a, b), np.where(mask, values, other), dtype, signed_zeros=True)
    check_exact(a.masked_fill(m, b), np.where(mask, other, values), dtype)
    zero = False if dtype is dtypes.bool else 0
    check_exact(m.where(a, zero), np.where(mask, values, values.dtype.type(0)), dtype)
    # any dtype can be the condition: what is not zero is true, NaN too
    check_exact(a.where(1, 0), np.where(values.astype(bool), 1, 0), dtypes.default_int)


def test_where_of_numbers():
    m = Tensor([True, False])
    assert m.where(1, 2.5).dtype is dtypes.default_float and m.where(1, 2.5).tolist() == [1.0, 2.5]
    assert m.where(1, 2).dtype is dtypes.default_int and m.where(True, False).dtype is dtypes.bool


@EACH_FLOAT
def test_clip(dtype):
    values = edges(dtype)
    t = tensor(values, dtype)
    for low, high in ((-1.0, 2.0), (None, 0.5), (0.25, None), (2.0, -1.0), (0.0, 0.0)):
        want = np.clip(values, low, high)
        check_exact(t.clip(low, high), want, dtype, f"clip {low} {high}", [values])
        check_exact(t.clamp(low, high), want, dtype)
    low, high = (
        rounded(np.linspace(-2, 0, len(values)), dtype),
        rounded(np.linspace(0, 3, len(values)), dtype),
    )
    check_exact(t.clip(tensor(low, dtype), tensor(high, dtype)), np.clip(values, low, high), dtype)


@pytest.mark.parametrize("dtype", INTS, ids=dtype_id)
def test_clip_of_integers(dtype):
    values = edges(dtype)
    low, high = (1, 100) if dtypes.is_unsigned(dtype) else (-3, 100)
    check_exact(tensor(values, dtype).clip(low, high), np.clip(values, low, high), dtype)


@EACH_FLOAT
def test_lerp(dtype):
    generator = rng("lerp", dtype)
    start, end, weight = (draw(generator, (3, 7), dtype, 0, 1) for _ in range(3))
    s, e, w = (tensor(v, dtype) for v in (start, end, weight))
    exact = start.astype(wide) + (end.astype(wide) - start.astype(wide)) * weight.astype(wide)
    eps = float(spacing(np.ones(1), dtype)[0])
    check_close(s.lerp(e, w), exact, dtype, 2, "lerp", None, 2 * eps)
    exact = start.astype(wide) + (end.astype(wide) - start.astype(wide)) * wide(0.25)
    check_close(s.lerp(e, 0.25), exact, dtype, 2, "lerp", None, 2 * eps)
    assert s.lerp(e, 0.0).tolist() == start.tolist()


def test_lerp_of_bytes():
    a = tensor(np.array([0, 10, 200, 255], np.uint8), dtypes.uint8)
    b = tensor(np.array([255, 20, 100, 255], np.uint8), dtypes.uint8)
    got = a.lerp(b, Tensor([0.5, 0.25, 1.0, 0.3]))
    assert got.dtype is dtypes.uint8 and got.tolist() == [128, 13, 100, 255]


def test_isclose_and_allclose():
    x = np.array([1.0, 1.0, math.inf, math.inf, -math.inf, math.nan, 0.0, 1e-9, 1.0], np.float32)
    y = np.array(
        [1.0, 1.00001, math.inf, -math.inf, -math.inf, math.nan, 1e-9, 0.0, math.inf], np.float32
    )
    a, b = tensor(x, dtypes.float32), tensor(y, dtypes.float32)
    for equal_nan in (False, True):
        check_exact(
            a.isclose(b, equal_nan=equal_nan), np.isclose(x, y, equal_nan=equal_nan), dtypes.bool
        )
    check_exact(a.isclose(b, rtol=0.0, atol=0.0), np.isclose(x, y, rtol=0.0, atol=0.0), dtypes.bool)
    assert not a.allclose(b) and Tensor([1.0, math.nan]).allclose(
        Tensor([1.0, math.nan]), equal_nan=True
    )
    assert Tensor([]).allclose(Tensor([])) and Tensor([1, 2]).allclose(Tensor([1, 2]))


def test_bits_of_bools_and_errors_for_floats():
    m, n = Tensor([True, True, False, False]), Tensor([True, False, True, False])
    assert (m & n).tolist() == [True, False, False, False]
    assert (m | n).tolist() == [True, True, True, False]
    assert (m ^ n).tolist() == [False, True, True, False]
    assert (~m).tolist() == [False, False, True, True]
    x = Tensor([1.0])
    for refused in (
        lambda: x & 1,
        lambda: x | x,
        lambda: x ^ 1,
        lambda: ~x,
        lambda: x << 1,
        lambda: x >> x,
    ):
        with pytest.raises(RuntimeError):
            refused()


def test_operators_are_the_methods():
    x = Tensor([5.0, -3.0])
    assert (x + 1).tolist() == x.add(1).tolist() == (1 + x).tolist() == [6.0, -2.0]
    assert (x - 1).tolist() == x.sub(1).tolist() == [4.0, -4.0] and (1 - x).tolist() == [-4.0, 4.0]
    assert (x * 2).tolist() == (2 * x).tolist() == [10.0, -6.0]
    assert (x / 2).tolist() == [2.5, -1.5] and (15 / x).tolist() == [3.0, -5.0]
    assert (x // 2).tolist() == [2.0, -2.0] and (7 // x).tolist() == [1.0, -3.0]
    assert (x % 2).tolist() == [1.0, 1.0] and (7 % x).tolist() == [2.0, -2.0]
    assert (
        (-x).tolist() == [-5.0, 3.0]
        and (x**2).tolist() == [25.0, 9.0]
        and (2**x).tolist() == [32.0, 0.125]
    )
    i = Tensor([6, 3])
    assert (i & 2).tolist() == (2 & i).tolist() == [2, 2] and (1 | i).tolist() == [7, 3]
    assert (
        (5 ^ i).tolist() == [3, 6] and (i << 1).tolist() == [12, 6] and (1 << i).tolist() == [64, 8]
    )
    assert (i >> 1).tolist() == [3, 1] and (64 >> i).tolist() == [1, 8]
    y = Tensor([1.0, 2.0]).contiguous().realize()
    for change, want in (("__iadd__", [3.0, 4.0]), ("__isub__", [1.0, 2.0]), ("__imul__", [2.0, 4.0]),
                         ("__itruediv__", [1.0, 2.0]), ("__ipow__", [1.0, 4.0]), ("__ifloordiv__", [0.0, 2.0]),
                         ("__imod__", [0.0, 0.0])):  # fmt: skip
        y = getattr(y, change)(2)
        assert y.tolist() == want, change
    z = Tensor([6, 3]).contiguous().realize()
    for change, want in (("__iand__", [2, 2]), ("__ior__", [2, 2]), ("__ixor__", [0, 0]), ("__ior__", [2, 2]),
                         ("__ilshift__", [8, 8]), ("__irshift__", [2, 2])):  # fmt: skip
        z = getattr(z, change)(2)
        assert z.tolist() == want, change


def test_what_is_no_operand_is_refused():
    for wrong in ("1", None, [1], object()):
        with pytest.raises((RuntimeError, TypeError)):
            Tensor([1.0]) + wrong
