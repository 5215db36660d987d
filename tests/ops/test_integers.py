"""Integers of every width compute exactly: against Python's own, wrapped to the width."""

import random

import numpy as np
import pytest

from tinygrad import Tensor, dtypes
from tinygrad.dtype import least_upper_dtype

from .oracle import check_exact, wrapped
from .values import INTS, SINTS, dtype_id, edge_pairs, edges, rng, seed, tensor

WIDTHS = pytest.mark.parametrize("dtype", INTS, ids=dtype_id)


def _truncated(x: int, y: int) -> int:
    """C's quotient; 0 where C has none."""
    if y == 0:
        return 0
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


def _floored(x: int, y: int) -> int:
    return x // y if y else 0


def _modulo(x: int, y: int) -> int:
    return x % y if y else 0


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "idiv": _truncated,
    "__floordiv__": _floored,
    "mod": _modulo,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "maximum": max,
    "minimum": min,
}

COMPARE = {
    "lt": lambda x, y: x < y,
    "gt": lambda x, y: x > y,
    "le": lambda x, y: x <= y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}

UNARY = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "square": lambda x: x * x,
    "bitwise_not": lambda x: ~x,
    "relu": lambda x: max(x, 0),
    "round": lambda x: x,
    "trunc": lambda x: x,
    "floor": lambda x: x,
    "ceil": lambda x: x,
}


def _pairs(dtype, limit=500):
    left, right = edge_pairs(dtype, limit)
    return left, right, left.tolist(), right.tolist()


@WIDTHS
def test_binary_operations(dtype):
    left, right, xs, ys = _pairs(dtype)
    a, b = tensor(left, dtype), tensor(right, dtype)
    for name, reference in BINARY.items():
        want = wrapped([reference(x, y) for x, y in zip(xs, ys)], dtype)
        check_exact(getattr(a, name)(b), want, dtype, name, [left, right])


@WIDTHS
def test_comparisons(dtype):
    left, right, xs, ys = _pairs(dtype)
    a, b = tensor(left, dtype), tensor(right, dtype)
    for name, reference in COMPARE.items():
        want = np.array([reference(x, y) for x, y in zip(xs, ys)])
        check_exact(getattr(a, name)(b), want, dtypes.bool, name, [left, right])


@WIDTHS
def test_unary_operations(dtype):
    values = edges(dtype)
    t = tensor(values, dtype)
    for name, reference in UNARY.items():
        want = wrapped([reference(x) for x in values.tolist()], dtype)
        check_exact(getattr(t, name)(), want, dtype, name, [values])


@WIDTHS
def test_rounding_modes_of_division(dtype):
    left, right, xs, ys = _pairs(dtype, 300)
    a, b = tensor(left, dtype), tensor(right, dtype)
    for mode, reference in (("trunc", _truncated), ("floor", _floored)):
        want = wrapped([reference(x, y) for x, y in zip(xs, ys)], dtype)
        check_exact(a.div(b, rounding_mode=mode), want, dtype, mode, [left, right])


@WIDTHS
def test_shifts_by_tensors(dtype):
    """By the width or more, or by a negative amount: all bits leave, as in NumPy and PyTorch."""
    values = edges(dtype)
    width = 8 * dtype.itemsize
    amounts = [0, 1, 2, width // 2, width - 1, width, width + 1, 100, 127]
    amounts += [-1, -2, -width, -128] if dtype in SINTS else []
    left = np.repeat(values, len(amounts))
    right = np.tile(np.array(amounts, values.dtype), len(values))
    a, b = tensor(left, dtype), tensor(right, dtype)
    pairs = list(zip(left.tolist(), right.tolist()))
    lost = [(x, y) if 0 <= y < width else (x, width) for x, y in pairs]
    check_exact(a << b, wrapped([x << y for x, y in lost], dtype), dtype, "<<", [left, right])
    check_exact(a >> b, wrapped([x >> y for x, y in lost], dtype), dtype, ">>", [left, right])


@WIDTHS
def test_shifts_by_numbers(dtype):
    values = edges(dtype)
    t = tensor(values, dtype)
    width = 8 * dtype.itemsize
    for amount in (0, 1, width - 1, width, width + 3):
        left = wrapped([x << amount for x in values.tolist()], dtype)
        check_exact(t << amount, left, dtype, f"<< {amount}", [values])
        right = wrapped([x >> amount for x in values.tolist()], dtype)
        check_exact(t >> amount, right, dtype, f">> {amount}", [values])
    for wrong in (-1, 1.0):
        with pytest.raises(RuntimeError, match="whole number of bits"):
            t << wrong


@WIDTHS
def test_division_by_constants(dtype):
    """Quotients by constants become multiplications and shifts: every width, signs, random too."""
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    values = np.concatenate(
        [edges(dtype), rng("dividends", dtype).integers(low, high, 100, edges(dtype).dtype)]
    )
    source = random.Random(seed() * 1000 + dtype.priority)
    divisors = {1, 3, 7, 10, 16, high, high - 1, high // 2 + 1, high // 3}
    divisors |= {source.randint(1, high) >> source.randrange(dtype.itemsize * 8) for _ in range(3)}
    if low < 0:
        divisors |= {-1, -2, -5, -16, low, low + 1, low // 2}
    t, xs = tensor(values, dtype), values.tolist()
    for d in sorted(divisors - {0}):
        parts = [t // d, t % d, t.idiv(d)]
        want = [[x // d for x in xs], [x % d for x in xs], [_truncated(x, d) for x in xs]]
        check_exact(Tensor.stack(*parts), wrapped(want, dtype), dtype, f"by {d}", [values])
    for result in (t // 0, t % 0, t.idiv(0)):
        check_exact(result, np.zeros(len(values)), dtype, "by zero", [values])


@WIDTHS
def test_constants_on_the_left(dtype):
    values = edges(dtype)
    t = tensor(values, dtype)
    for c in (7, dtypes.max(dtype), *([-7, dtypes.min(dtype)] if dtype in SINTS else [])):
        parts = [c // t, c % t, c - t, c * t]
        want = [
            [f(c, x) for x in values.tolist()]
            for f in (_floored, _modulo, lambda x, y: x - y, lambda x, y: x * y)
        ]
        check_exact(Tensor.stack(*parts), wrapped(want, dtype), dtype, f"{c} by", [values])


@WIDTHS
def test_powers_are_exact(dtype):
    """Of numbers and of tensors, wrapped; 0 ** 0 is 1, and 1 / x ** n is rounded toward zero."""
    values = edges(dtype)
    t, xs = tensor(values, dtype), values.tolist()
    modulus = 1 << 8 * dtype.itemsize
    for exponent in (0, 1, 2, 3, 5, 31, 63, 64, 65, 100):
        want = wrapped([pow(x, exponent, modulus) for x in xs], dtype)
        check_exact(t**exponent, want, dtype, f"** {exponent}", [values])
    exponents = [0, 1, 2, 3, 7, 31, 64, 127]
    left, right = np.repeat(values, len(exponents)), np.tile(exponents, len(values))
    got = tensor(left, dtype) ** tensor(right.astype(values.dtype), dtype)
    want = wrapped([pow(x, y, modulus) for x, y in zip(left.tolist(), right.tolist())], dtype)
    check_exact(got, want, dtype, "**", [left, right])
    got = 3 ** tensor(np.array([0, 1, 5, 100], values.dtype), dtype)
    check_exact(got, wrapped([3**n for n in (0, 1, 5, 100)], dtype), dtype, "3 **")
    if dtype in SINTS:
        base = np.array([1, -1, -1, 2, -2, 7], values.dtype)
        power = np.array([-3, -3, -2, -1, -5, -100], values.dtype)
        check_exact(tensor(base, dtype) ** tensor(power, dtype), [1, -1, 1, 0, 0, 0], dtype)
        with pytest.raises(RuntimeError, match="no power -2"):
            t**-2


@pytest.mark.parametrize("left", INTS, ids=dtype_id)
def test_mixed_signs_and_widths(left):
    """Comparisons are those of the integers themselves; sums are in the common dtype, which is a
    float for uint64 beside a signed dtype."""
    for right in INTS:
        a, b = edges(left), edges(right)[::3]
        x, y = tensor(a, left).reshape(-1, 1), tensor(b, right)
        pairs = [[(p, q) for q in b.tolist()] for p in a.tolist()]
        for name in ("lt", "ge", "ne"):
            want = np.array([[COMPARE[name](p, q) for p, q in row] for row in pairs])
            check_exact(getattr(x, name)(y), want, dtypes.bool, f"{left} {name} {right}")
        common = least_upper_dtype(left, right)
        if dtypes.is_int(common):
            want = wrapped([[p + q for p, q in row] for row in pairs], common)
            check_exact(x + y, want, common, f"{left} + {right}")
        else:
            assert dtypes.uint64 in (left, right) and {left, right} & {*SINTS}


@WIDTHS
def test_reductions_wrap(dtype):
    values = np.stack([edges(dtype), edges(dtype)[::-1]])
    t = tensor(values, dtype)
    wide = t.sum().dtype
    assert (
        wide is {1: dtypes.int32, 2: dtypes.int32, 4: dtypes.int32, 8: dtypes.int64}[dtype.itemsize]
        if dtype in SINTS
        else dtypes.is_unsigned(wide)
    )
    rows = values.tolist()
    total, product = [], []
    for row in rows:
        p = 1
        for x in row:
            p *= x | 1
        total.append(sum(row))
        product.append(p)
    check_exact(t.sum(1), wrapped(total, wide), wide, "sum")
    check_exact(t.sum(1, dtype=dtype), wrapped(total, dtype), dtype, "sum in its own dtype")
    check_exact((t | 1).prod(1), wrapped(product, dtype), dtype, "prod")
    for name, reference in (("max", max), ("min", min)):
        check_exact(getattr(t, name)(1), [reference(r) for r in rows], dtype, name)
        check_exact(getattr(t, name)(), reference(map(reference, rows)), dtype, name)


@WIDTHS
def test_means_and_variances_are_those_of_float64(dtype):
    """Sums of integers lose nothing, whatever the result is rounded to."""
    high = dtypes.max(dtype)
    values = np.array([high, high - 1, high - 2, 1, 3, high], dtype=edges(dtype).dtype)
    t = tensor(values, dtype)
    exact = sum(values.tolist()) / len(values)
    assert t.mean().item() == np.float32(exact)
    near = np.array([high - 7, high - 3, high - 5, high - 1], dtype=values.dtype)
    if dtype.itemsize < 8:
        assert tensor(near, dtype).var().item() == pytest.approx(20 / 3, rel=1e-6)
        assert tensor(near, dtype).std().item() == pytest.approx((20 / 3) ** 0.5, rel=1e-6)
    if dtype is dtypes.int32:
        assert tensor(np.array([2**30 + 1, -(2**30), 0]), dtype).mean().item() == np.float32(1 / 3)


@WIDTHS
def test_numbers_beside_tensors_keep_the_dtype(dtype):
    t = tensor(edges(dtype), dtype)
    xs = edges(dtype).tolist()
    high = dtypes.max(dtype)
    check_exact(t + 1, wrapped([x + 1 for x in xs], dtype), dtype)
    check_exact(t + True, wrapped([x + 1 for x in xs], dtype), dtype)
    check_exact(t * high, wrapped([x * high for x in xs], dtype), dtype)
    check_exact(t < high, [x < high for x in xs], dtypes.bool)
    check_exact(t == high, [x == high for x in xs], dtypes.bool)
    assert (t + 0.5).dtype is dtypes.default_float


@WIDTHS
def test_numbers_that_the_dtype_does_not_hold(dtype):
    """Sums wrap; comparisons tell the truth; what has no answer in the dtype is refused."""
    values = edges(dtype)
    t, xs = tensor(values, dtype), values.tolist()
    for number in (dtypes.max(dtype) + 1, dtypes.min(dtype) - 1, 2**70, -(2**70)):
        for name, reference in COMPARE.items():
            want = [reference(x, number) for x in xs]
            check_exact(getattr(t, name)(number), want, dtypes.bool, f"{name} {number}")
        low, high = min(number, 0), max(number, 5)
        check_exact(t.clip(low, high), wrapped([min(max(x, low), high) for x in xs], dtype), dtype)
        check_exact(t + number, wrapped([x + number for x in xs], dtype), dtype, f"+ {number}")
        inside, outside = (t.maximum, t.minimum) if number < 0 else (t.minimum, t.maximum)
        check_exact(inside(number), wrapped(xs, dtype), dtype)
        for refused in (outside, t.__mod__, t.__floordiv__, t.idiv, t.__rmod__, t.__rfloordiv__):
            with pytest.raises(OverflowError, match="holds"):
                refused(number)


def test_integers_of_lists_take_the_dtype_that_holds_them():
    assert Tensor([2**31 - 1, -(2**31)]).dtype is dtypes.int32
    assert Tensor([2**31]).dtype is dtypes.int64
    assert Tensor(-(2**31) - 1).dtype is dtypes.int64
    big = Tensor([2**63, 0])
    assert big.dtype is dtypes.uint64 and big.tolist() == [2**63, 0]
    assert Tensor(2**64 - 1).item() == 2**64 - 1
    for data in (2**64, [2**70], [2**63, -1], -(2**63) - 1):
        with pytest.raises(OverflowError, match="no integer dtype"):
            Tensor(data)
    # with a dtype they wrap, as its arithmetic does
    assert Tensor([300, -1, 2**70 + 5], dtype=dtypes.uint8).tolist() == [44, 255, 5]


@pytest.mark.parametrize("exponent, want", [(0, [1, 1]), (1, [1, 0]), (2, [1, 0]), (5, [1, 0])])
def test_bools_to_a_power_count(exponent, want):
    power = Tensor([True, False]) ** exponent
    assert power.dtype is dtypes.default_int and power.tolist() == want
    assert (power + power).tolist() == [2 * value for value in want]
