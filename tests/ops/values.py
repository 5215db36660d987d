"""Inputs: dtypes, shapes, edge values, and arrays drawn from a domain.

Values travel as NumPy arrays that hold them exactly: the dtype's own NumPy type, or float32 for
bfloat16 and the 8-bit floats, which NumPy lacks. `tensor(array, dtype)` makes them a realized tensor
of exactly that dtype.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import zlib
from collections.abc import Sequence

import numpy as np

from tinygrad import Tensor
from tinygrad.dtype import DType, dtypes, truncate

FP8S = dtypes.fp8s
NARROW = (*FP8S, dtypes.float16, dtypes.bfloat16)
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
ALL_FLOATS = (*FP8S, *FLOATS)
SINTS, UINTS = dtypes.sints, dtypes.uints
INTS = (*SINTS, *UINTS)
BOOL = (dtypes.bool,)
NUMBERS = (*INTS, *ALL_FLOATS)
EVERY = (*BOOL, *NUMBERS)

# from no axis to five, lengths of 0 and 1 among them, odd and even, and some that vectors divide
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (0,),
    (5,),
    (1, 1),
    (2, 3),
    (3, 0),
    (0, 4),
    (4, 1),
    (2, 3, 4),
    (1, 0, 3),
    (1, 8, 1),
    (2, 1, 3, 2),
    (2, 0, 1, 3),
    (1, 2, 3, 1, 2),
    (2, 1, 0, 1, 2),
)

# pairs that broadcast, from left, right and both sides
BROADCASTS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((), (3,)),
    ((4, 1), (3,)),
    ((2, 3), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((1, 0), (3, 1)),
    ((0,), ()),
    ((1, 2, 1, 3), (2, 1, 4, 1)),
    ((2, 1, 1, 1, 3), (1, 4, 1, 2, 1)),
    ((1, 1, 0, 2, 1), (3, 1, 1, 4)),
)


def seed() -> int:
    """The seed of this run: OPS_SEED, else 1. A failing test prints it."""
    return int(os.environ.get("OPS_SEED", "1"))


def rng(*labels: object) -> np.random.Generator:
    """A generator that depends on the seed and on what it is for; prints the seed for the report."""
    number = zlib.crc32(repr(labels).encode()) ^ seed()
    print(f"OPS_SEED={seed()} for {labels}")
    return np.random.default_rng(number)


def dtype_id(dtype: DType) -> str:
    """A test's name for a dtype."""
    return repr(dtype).removeprefix("dtypes.")


def numpy_type(dtype: DType) -> np.dtype:
    """The NumPy dtype that holds all values of `dtype`."""
    if dtype in (dtypes.bfloat16, *FP8S):
        return np.dtype(np.float32)
    return np.dtype(dtype.fmt)


def float_limits(dtype: DType) -> tuple[float, float, float]:
    """(largest finite, smallest normal, smallest subnormal) of a float dtype."""
    exponent_bits, mantissa_bits = dtypes.finfo(dtype)
    bias = 2 ** (exponent_bits - 1) - 1
    if dtype is dtypes.fp8e4m3:
        largest = 448.0
    else:
        largest = math.ldexp(2.0 - 2.0**-mantissa_bits, bias)
    return largest, math.ldexp(1.0, 1 - bias), math.ldexp(1.0, 1 - bias - mantissa_bits)


def has_infinity(dtype: DType) -> bool:
    """fp8e4m3 has none."""
    return dtype is not dtypes.fp8e4m3


def _float_edges(dtype: DType) -> list[float]:
    largest, normal, subnormal = float_limits(dtype)
    _, mantissa_bits = dtypes.finfo(dtype)
    epsilon = 2.0**-mantissa_bits
    positive = [
        0.0, subnormal, 3 * subnormal, normal - subnormal, normal, epsilon / 2, epsilon,
        0.1, 0.25, 1 / 3, 0.5, 0.5 + epsilon / 4, 1 - epsilon / 2, 1.0, 1 + epsilon, 1.5, 2.0, 2.5,
        3.0, 3.5, 7.0, 10.0, 127.5, 128.0, 255.0, 256.0, 2.0 ** (mantissa_bits + 1) - 1,
        2.0 ** (mantissa_bits + 1), 2.0**15, 2.0**16 - 1, 2.0**24 + 1, 2.0**31 - 1, 2.0**31, 2.0**32,
        2.0**63, 2.0**64, math.sqrt(largest) * 0.9, largest / 2, largest,
    ]  # fmt: skip
    kept = [v for p in positive if math.isfinite(v := truncate[dtype](p)) and abs(v) <= largest]
    signed = [s for v in dict.fromkeys(kept) for s in (v, -v)]
    if has_infinity(dtype):
        signed += [math.inf, -math.inf]
    return [*signed, math.nan]


def _int_edges(dtype: DType) -> list[int]:
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    around = [
        0,
        low,
        high,
        *(s << b for b in (3, 7, 8, 15, 16, 24, 31, 32, 53, 63) for s in (1, -1)),
    ]
    near = [v + d for v in around for d in (-1, 0, 1)] + [2, 3, -3, 7, -7, 10, 100]
    return sorted({v for v in near if low <= v <= high})


def edges(dtype: DType) -> np.ndarray:
    """The values of `dtype` where operations go wrong: ends, zeros of both signs, subnormals, NaN,
    infinities, halves, and what other dtypes cannot hold."""
    if dtype is dtypes.bool:
        return np.array([False, True])
    found = _float_edges(dtype) if dtypes.is_float(dtype) else _int_edges(dtype)
    return np.array(found, dtype=numpy_type(dtype))


def edge_pairs(dtype: DType, limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values as two arrays; `limit` draws that many of them."""
    column = edges(dtype)
    left = np.repeat(column, len(column))
    right = np.tile(column, len(column))
    if limit is None or limit >= len(left):
        return left, right
    chosen = rng("edge_pairs", dtype_id(dtype)).choice(len(left), limit, replace=False)
    return left[chosen], right[chosen]


def rounded(array, dtype: DType) -> np.ndarray:
    """`array` with every value rounded (floats) or wrapped (ints) to one that `dtype` holds."""
    given = np.asarray(array)
    if dtype is dtypes.bool:
        return given.astype(bool)
    with np.errstate(all="ignore"):
        if dtype in (dtypes.bfloat16, *FP8S):
            one = truncate[dtype]
            flat = [one(float(v)) for v in given.astype(np.float64).reshape(-1)]
            return np.array(flat, dtype=np.float32).reshape(given.shape)
        return given.astype(numpy_type(dtype))


def draw(
    generator: np.random.Generator,
    shape: Sequence[int],
    dtype: DType,
    low: float | None = None,
    high: float | None = None,
) -> np.ndarray:
    """Random values of `dtype` between `low` and `high` (both included for ints).

    Without bounds: floats of all moderate sizes and both signs, ints over the whole range.
    """
    size = tuple(shape)
    if dtype is dtypes.bool:
        return generator.integers(0, 2, size).astype(bool)
    if dtypes.is_int(dtype):
        first = dtypes.min(dtype) if low is None else max(int(low), dtypes.min(dtype))
        last = dtypes.max(dtype) if high is None else min(int(high), dtypes.max(dtype))
        kind = np.uint64 if first >= 0 else np.int64
        return generator.integers(first, last, size, dtype=kind, endpoint=True).astype(
            numpy_type(dtype)
        )
    if low is None and high is None:
        found = generator.normal(size=size) * 2.0 ** generator.integers(-3, 4, size)
    else:
        found = generator.uniform(-4.0 if low is None else low, 4.0 if high is None else high, size)
    return rounded(found, dtype)


def tensor(array, dtype: DType) -> Tensor:
    """A realized tensor of exactly `dtype`, in memory of its own: nothing is folded at build time."""
    given = np.asarray(array)
    made = Tensor(np.ascontiguousarray(given).reshape(given.shape))
    if given.ndim == 0:  # a 0-d array would become a constant
        made = Tensor(given.reshape(1)).realize().reshape(())
    made = made.realize()
    return made if made.dtype is dtype else made.cast(dtype).contiguous().realize()


def random_shapes(label: object, count: int, most: int = 60) -> list[tuple[int, ...]]:
    """`count` shapes of 0 to 5 axes with lengths of 0 to 5, of at most `most` elements."""
    source = random.Random(zlib.crc32(repr(label).encode()) ^ seed())
    shapes: list[tuple[int, ...]] = []
    while len(shapes) < count:
        rank = source.randint(0, 5)
        shape = tuple(source.choice((0, 1, 1, 2, 2, 3, 4, 5)) for _ in range(rank))
        if math.prod(shape) <= most:
            shapes.append(shape)
    return shapes


def axis_choices(rank: int) -> list[int | tuple[int, ...] | None]:
    """All ways to name axes to a reduction of `rank` axes, each set once, both signs among them."""
    choices: list[int | tuple[int, ...] | None] = [None, ()] if rank else [None]
    for count in range(1, rank + 1):
        for axes in itertools.combinations(range(rank), count):
            spelled = tuple(a - rank if (a + count) % 2 else a for a in axes)
            choices.append(spelled[0] if count == 1 else spelled)
    return choices
