"""Conversions between any two dtypes, value by value, against exact rational arithmetic."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes
from tinygrad.dtype import truncate

from .oracle import same_float
from .values import (
    ALL_FLOATS,
    EVERY,
    FP8S,
    INTS,
    dtype_id,
    edges,
    float_limits,
    has_infinity,
    rng,
    rounded,
    tensor,
)


def nearest(value: int | float, dtype) -> float:
    """`value` rounded once to a float dtype, to nearest even; beyond: infinite, of fp8 saturated."""
    if isinstance(value, float) and not math.isfinite(value):
        return value if math.isnan(value) or has_infinity(dtype) else math.nan
    if value == 0:
        return float(value)
    largest, normal, _ = float_limits(dtype)
    _, mantissa_bits = dtypes.finfo(dtype)
    top, bottom = abs(value).as_integer_ratio()
    exponent = top.bit_length() - bottom.bit_length()
    exponent -= (top << max(-exponent, 0)) < (bottom << max(exponent, 0))
    # the size is `units` steps of 2**step, rounded to a whole number of them
    step = max(exponent, math.frexp(normal)[1] - 1) - mantissa_bits
    top, bottom = (top, bottom << step) if step >= 0 else (top << -step, bottom)
    units, rest = divmod(top, bottom)
    units += 2 * rest > bottom or (2 * rest == bottom and units % 2 == 1)
    if units << max(step, 0) > int(largest) << max(-step, 0):
        size = largest if dtype in FP8S else math.inf
    else:
        size = math.ldexp(units, step)
    return math.copysign(size, value)


def to_integer(value: int | float, dtype) -> int | None:
    """Rounded toward zero, wrapped; None where a float has no value in `dtype`."""
    if isinstance(value, float):
        if not math.isfinite(value) or not dtypes.min(dtype) <= int(value) <= dtypes.max(dtype):
            return None
    return truncate[dtype](int(value))


def check(got: list, values: list, source, target) -> None:
    for value, found in zip(values, got):
        if target is dtypes.bool:
            assert found is (value != 0), f"{source} {value!r} to bool: {found!r}"
        elif dtypes.is_float(target):
            want = nearest(value if source is not dtypes.bool else int(value), target)
            assert same_float(found, want), (
                f"{source} {value!r} to {target}: {found!r}, not {want!r}"
            )
        elif (want := to_integer(value, target)) is not None:
            assert found == want, f"{source} {value!r} to {target}: {found!r}, not {want!r}"


def test_the_reference_itself():
    for dtype in ALL_FLOATS:
        for value in edges(dtype).tolist():
            assert same_float(nearest(value, dtype), value)
    assert (
        nearest(2**24 + 1, dtypes.float32) == 2**24
        and nearest(2**24 + 3, dtypes.float32) == 2**24 + 4
    )
    assert (
        nearest(65519.999, dtypes.float16) == 65504 and nearest(65520, dtypes.float16) == math.inf
    )
    assert nearest(2**64 - 1, dtypes.float64) == 2.0**64 and nearest(1e-50, dtypes.float32) == 0.0
    assert nearest(1e9, dtypes.fp8e4m3) == 448 and nearest(2.0**-10, dtypes.fp8e4m3) == 0.0


@pytest.mark.parametrize("source", EVERY, ids=dtype_id)
def test_every_pair_on_edge_values(source):
    """The whole table of a source in one launch for each target: NaN, infinities, both zeros,
    subnormals, halves, ends of every other dtype."""
    values = edges(source)
    t = tensor(values, source)
    for target in EVERY:
        check(t.cast(target).tolist(), values.tolist(), source, target)


@pytest.mark.parametrize("target", ALL_FLOATS, ids=dtype_id)
@pytest.mark.parametrize("source", [dtypes.float64, dtypes.int64, dtypes.uint64], ids=dtype_id)
def test_ties_and_their_neighbours_round_once(source, target):
    """Half way between two values of the target, and one step of the source to either side."""
    _, mantissa_bits = dtypes.finfo(target)
    largest, _, subnormal = float_limits(target)
    values = []
    if source is dtypes.float64:
        for unit in (subnormal, 2.0**-mantissa_bits, largest * 2.0 ** -(mantissa_bits + 1)):
            for count in (0.5, 1.5, 2.5, 2**mantissa_bits + 0.5, 2**mantissa_bits + 1.5):
                middle = unit * count
                values += [middle, math.nextafter(middle, 0), math.nextafter(middle, math.inf)]
        values += [largest * (1 + 2.0 ** -(mantissa_bits + 2)), -largest * 1.5]
    else:
        top = 62 if source is dtypes.int64 else 63
        for exponent in range(mantissa_bits + 1, top + 1, 3):
            for units in (2 * 2**mantissa_bits + 1, 2 * 2**mantissa_bits + 3):
                middle = units << max(exponent - mantissa_bits - 1, 0)
                if middle < 2 ** (top + 1):
                    values += [middle, middle - 1, middle + 1]
    given = np.array(values, dtype=np.dtype(source.fmt))
    check(tensor(given, source).cast(target).tolist(), given.tolist(), source, target)


@pytest.mark.parametrize("source", [*ALL_FLOATS, *INTS], ids=dtype_id)
def test_random_bits(source):
    """Random patterns of bits, every target among the floats and the widest integers."""
    generator = rng("bits", source)
    raw = generator.integers(0, 256, 300 * source.itemsize, dtype=np.uint8)
    bits = Tensor(raw).realize()
    t = bits.bitcast(source).contiguous().realize() if source.itemsize > 1 else None
    t = bits.bitcast(source).contiguous().realize() if t is None else t
    values = t.tolist()
    for target in (*ALL_FLOATS, dtypes.int64, dtypes.uint64, dtypes.int8, dtypes.bool):
        check(t.cast(target).tolist(), values, source, target)


@pytest.mark.parametrize("target", INTS, ids=dtype_id)
def test_floats_out_of_range_give_what_is_documented(target):
    """NaN, infinities and what lies outside: the low bits of the widest conversion, else its mark.

    The same in memory and as constants that are folded.
    """
    values = [
        math.nan,
        math.inf,
        -math.inf,
        300.0,
        -1.0,
        -200.0,
        40000.0,
        3e9,
        -3e9,
        5e9,
        1e19,
        -1e19,
        1e20,
    ]
    for source in (dtypes.float32, dtypes.float64):
        held = [truncate[source](v) for v in values]
        want = [out_of_range(v, target) for v in held]
        got = tensor(np.array(held, np.dtype(source.fmt)), source).cast(target).tolist()
        assert got == want, f"{source} to {target}"
        folded = [Tensor(v, dtype=source).cast(target).item() for v in held]
        assert folded == want, f"constant {source} to {target}"


def out_of_range(value: float, target) -> int:
    """docs/semantics.md: conversion goes through int32 or int64, where what does not fit is the least
    value, and keeps the low bits."""
    through = (
        dtypes.int64 if target in (dtypes.uint32, dtypes.int64, dtypes.uint64) else dtypes.int32
    )
    low = dtypes.min(through)
    if target is dtypes.uint64 and value >= 2.0**63:
        return int(value) if value < 2.0**64 else 0
    if target is dtypes.uint64 and math.isnan(value):
        return 0
    fits = math.isfinite(value) and low <= int(value) <= dtypes.max(through)
    return truncate[target](int(value) if fits else low)


@pytest.mark.parametrize("size", [1, 3, 8, 16, 37])
def test_vectors_and_tails_convert_alike(size):
    """The same values whatever part of a vector they are in, and on 0 to 5 axes."""
    for source, target in (
        (dtypes.float32, dtypes.bfloat16), (dtypes.float64, dtypes.float16), (dtypes.int64, dtypes.float32),
        (dtypes.float32, dtypes.int8), (dtypes.fp8e5m2, dtypes.float16), (dtypes.uint8, dtypes.bool),
        (dtypes.float32, dtypes.fp8e4m3), (dtypes.bool, dtypes.float64), (dtypes.uint64, dtypes.float64),
    ):  # fmt: skip
        values = edges(source)[:size]
        check(tensor(values, source).cast(target).tolist(), values.tolist(), source, target)


def test_shapes_survive():
    for shape in ((), (0,), (1, 0, 2), (2, 1, 3, 1, 2)):
        values = rounded(np.arange(math.prod(shape)).reshape(shape) - 2, dtypes.float32)
        got = tensor(values, dtypes.float32).cast(dtypes.int16)
        assert got.shape == shape and got.tolist() == values.astype(np.int16).tolist()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float", "float32"), ("half", "float16"), ("double", "float64"), ("int", "int32"), ("short", "int16"),
     ("long", "int64"), ("bool", "bool"), ("bfloat16", "bfloat16")],
)  # fmt: skip
def test_named_casts(name, dtype):
    assert getattr(Tensor([1.5, 0.0]), name)().dtype is getattr(dtypes, dtype)
    assert getattr(Tensor([1.5, 0.0]), name)().tolist() == Tensor([1.5, 0.0]).cast(dtype).tolist()


def test_a_dtype_that_is_none_is_refused():
    for wrong in ("flaot", 3, None):
        with pytest.raises(AttributeError, match="no dtype is called"):
            Tensor([1]).cast(wrong)


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_bitcast_keeps_every_bit(dtype):
    raw = np.arange(256, dtype=np.uint8)
    bits = Tensor(raw).realize()
    if dtype is dtypes.bool:
        return
    back = bits.bitcast(dtype).contiguous().realize().bitcast(dtypes.uint8)
    np.testing.assert_array_equal(back.numpy(), raw)
