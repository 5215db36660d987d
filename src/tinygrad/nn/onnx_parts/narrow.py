"""Numbers of types that tensors lack: integers and floats of four and two bits, 8-bit floats without infinities, powers of two.

They are computed with in a wider type that holds all their values (int8, uint8 or float32); a `Narrow` remembers which type
was meant, so that operators that depend on it (Cast, CastLike, QuantizeLinear) round to it. Formats: the ONNX standard's
pages on float8, float4 and int4. Used by the reader of tensors, the runner and the operators on types.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from tinygrad.dtype import DType, dtypes
from tinygrad.tensor import Tensor

UINT4, INT4, UINT2, INT2 = 21, 22, 25, 26
E4M3FNUZ, E5M2FNUZ, E2M1, E8M0 = 18, 20, 23, 24
# bits of types of which several share a byte, the low ones come first
PACKED = {UINT4: 4, INT4: 4, E2M1: 4, UINT2: 2, INT2: 2}
INTEGERS: dict[int, DType] = {
    UINT4: dtypes.uint8, INT4: dtypes.int8, UINT2: dtypes.uint8, INT2: dtypes.int8,
}  # fmt: skip


class _Format(NamedTuple):
    """A float of sign, exponent and fraction; all codes but at most one are finite."""

    exponent_bits: int
    fraction_bits: int
    bias: int
    largest: float
    nan: int | None


FLOATS = {
    E4M3FNUZ: _Format(4, 3, 8, 240.0, 0x80),
    E5M2FNUZ: _Format(5, 2, 16, 57344.0, 0x80),
    E2M1: _Format(2, 1, 1, 6.0, None),
}
KINDS = frozenset({*INTEGERS, *FLOATS, E8M0})


class Narrow:
    """Values of the ONNX type `kind`, held in a wider one."""

    def __init__(self, kind: int, values: Tensor | np.ndarray):
        self.kind, self._values = kind, values

    @property
    def tensor(self) -> Tensor:
        """The values as a tensor of the wider type."""
        if not isinstance(self._values, Tensor):
            self._values = Tensor(self._values)
        return self._values


def wide_dtype(kind: int) -> DType:
    """The type that holds all values of `kind`."""
    return INTEGERS.get(kind, dtypes.float32)


@functools.cache
def _values_of_codes(kind: int) -> np.ndarray:
    if kind == E8M0:
        return np.array([*(2.0 ** (code - 127) for code in range(255)), math.nan], dtype=np.float32)
    form = FLOATS[kind]
    width = form.exponent_bits + form.fraction_bits
    values = []
    for code in range(2 << width):
        exponent = code >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
        fraction = code & ((1 << form.fraction_bits) - 1)
        whole = fraction + ((1 << form.fraction_bits) if exponent else 0)
        size = math.ldexp(whole, max(exponent, 1) - form.bias - form.fraction_bits)
        values.append(math.nan if code == form.nan else -size if code >> width else size)
    return np.array(values, dtype=np.float32)


def decoded(codes: np.ndarray, kind: int) -> np.ndarray:
    """The values of codes, one in each byte."""
    if kind in INTEGERS:
        if INTEGERS[kind] is dtypes.uint8:
            return codes.astype(np.uint8)
        sign = 1 << (PACKED[kind] - 1)
        return ((codes ^ sign).astype(np.int8) - sign).astype(np.int8)
    return _values_of_codes(kind)[codes]


def bytes_of(kind: int, count: int) -> int:
    """How many bytes `count` numbers take in a file."""
    return -(-count * PACKED.get(kind, 8) // 8)


def unpacked(packed: np.ndarray, count: int, bits: int) -> np.ndarray:
    """`count` codes of a few bits, the low bits of each byte first, one in each byte."""
    mask = (1 << bits) - 1
    parts = [packed >> shift & mask for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(-1)[:count]


def limits(kind: int) -> tuple[int, int] | None:
    """The smallest and largest number of an integer type."""
    if kind not in INTEGERS:
        return None
    size = 1 << PACKED[kind]
    return (0, size - 1) if INTEGERS[kind] is dtypes.uint8 else (-size // 2, size // 2 - 1)


def rounded(x: Tensor, kind: int, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """The values of `kind` nearest to x, in the wider type; what is too large becomes the largest, or NaN."""
    if kind in INTEGERS:
        # as a cast to fewer bits: what does not fit wraps around
        size = 1 << PACKED[kind]
        whole = x.cast(dtypes.int32) & (size - 1)
        low = INTEGERS[kind] is dtypes.uint8
        return (whole if low else (whole ^ size // 2) - size // 2).cast(INTEGERS[kind])
    wide = x.cast(dtypes.float32)
    return _power(wide, saturate, round_mode) if kind == E8M0 else _nearest(wide, kind, saturate)


def _exponent(x: Tensor) -> Tensor:
    """The exponents of float32 numbers, of 0 and the smallest ones -127."""
    return (x.bitcast(dtypes.int32).rshift(23) & 0xFF) - 127


def _power_of_two(exponent: Tensor) -> Tensor:
    """2 ** exponent, exactly, for exponents of normal numbers."""
    return (exponent + 127).lshift(23).bitcast(dtypes.float32)


def _nearest(x: Tensor, kind: int, saturate: bool) -> Tensor:
    form = FLOATS[kind]
    size = x.abs()
    finite = (size < math.inf).where(size, 0)
    step = _power_of_two(_exponent(finite).maximum(1 - form.bias) - form.fraction_bits)
    near = (finite / step).round() * step
    over = (near > form.largest) | (size == math.inf)
    if saturate or form.nan is None:
        near = over.where(form.largest, near)
    else:
        near = over.where(math.nan, near)
    # of the formats that spend the code of -0 on NaN there is no -0
    signed = ((x < 0) & ((near != 0) | (form.nan is None))).where(-near, near)
    # a format without NaN gives -0 for it, as the tests of the standard do
    return x.isnan().where(math.nan if form.nan is not None else -0.0, signed)


def _power(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    bits = x.abs().bitcast(dtypes.int32)
    exponent, fraction = bits.rshift(23), bits & 0x7FFFFF
    if round_mode == "nearest":
        # a tie goes up
        exponent = exponent + (fraction >= 0x400000).cast(dtypes.int32)
    elif round_mode == "up":
        exponent = exponent + (fraction > 0).cast(dtypes.int32)
    elif round_mode != "down":
        raise ValueError(f"round_mode {round_mode!r} is not one of up, down, nearest")
    over = exponent > 254
    exponent = exponent.clip(0, 254)
    # 2 ** -127 is no normal float32
    value = (exponent == 0).where(2.0**-127, exponent.lshift(23).bitcast(dtypes.float32))
    lost = x.isnan() if saturate else x.isnan() | over
    return lost.where(math.nan, value)
