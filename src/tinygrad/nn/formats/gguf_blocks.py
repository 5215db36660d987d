"""Decoders of GGUF's quantized blocks: from bytes (blocks, bytes of one) to float32 (blocks, elements).

A block has a scale (and maybe an offset) for a few numbers of few bits; K blocks have 256 numbers in groups
with scales of their own; IQ blocks choose groups of numbers from tables. Layouts: ggml-common.h of
https://github.com/ggml-org/ggml.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygrad.dtype import dtypes
from tinygrad.nn.formats.gguf_points import points
from tinygrad.tensor import Tensor


def _signed(x: Tensor, bits: int) -> Tensor:
    """Unsigned numbers of `bits` bits around their middle, as float32."""
    return x.cast(dtypes.float32) - (1 << (bits - 1))


def _half(blocks: Tensor, start: int) -> Tensor:
    """The float16 at byte `start` of each block, as a float32 column."""
    return blocks[:, start : start + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def _nibbles(packed: Tensor) -> Tensor:
    """All low halves of the bytes along the last axis, then all high ones."""
    return (packed & 15).cat(packed.rshift(4), dim=-1)


def _bits(packed: Tensor) -> Tensor:
    """The bits of the bytes along the last axis, the lowest of each first, as numbers of eight bits."""
    return (_shifted(packed, tuple(range(8)), -1) & 1).flatten(-2)


def _shifted(x: Tensor, shifts: tuple[int, ...], dim: int) -> Tensor:
    """x moved right by each count, along a new axis."""
    first, *rest = (x.rshift(n) if n else x for n in shifts)
    return first.stack(*rest, dim=dim)


# *** 32 numbers and one scale ***
def _q4_0(blocks: Tensor) -> Tensor:
    return _signed(_nibbles(blocks[:, 2:]), 4) * _half(blocks, 0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _nibbles(blocks[:, 4:]).cast(dtypes.float32) * _half(blocks, 0) + _half(blocks, 2)


def _fifth_bits(blocks: Tensor, start: int) -> Tensor:
    """Bit i of the 32-bit word at `start`, as 16 for each of 32 elements."""
    return _bits(blocks[:, start : start + 4]) * 16


def _q5_0(blocks: Tensor) -> Tensor:
    return _signed(_nibbles(blocks[:, 6:]) + _fifth_bits(blocks, 2), 5) * _half(blocks, 0)


def _q5_1(blocks: Tensor) -> Tensor:
    values = (_nibbles(blocks[:, 8:]) + _fifth_bits(blocks, 4)).cast(dtypes.float32)
    return values * _half(blocks, 0) + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].bitcast(dtypes.int8).cast(dtypes.float32) * _half(blocks, 0)


def _small_floats(codes: Tensor) -> Tensor:
    """Twice the values of 4-bit floats (sign, two bits of exponent, one of mantissa), as float32."""
    exponent, mantissa = codes.rshift(1) & 3, codes & 1
    size = (exponent == 0).where(mantissa, (mantissa + 2) * (1 << exponent.maximum(1)).rshift(1))
    return (codes >= 8).where(-size.cast(dtypes.float32), size.cast(dtypes.float32))


def _mxfp4(blocks: Tensor) -> Tensor:
    """OCP microscaling: 4-bit floats under a shared exponent of 8 bits."""
    shared = blocks[:, 0:1].cast(dtypes.int32)
    # half of the scale as bits, so that also the subnormal ones are exact
    bits = (shared >= 2).where((shared - 1) * (1 << 23), (shared == 1).where(1 << 22, 1 << 21))
    scale = bits.cast(dtypes.uint32).bitcast(dtypes.float32)
    return _small_floats(_nibbles(blocks[:, 1:])) * 0.5 * scale


def _q1_0(blocks: Tensor) -> Tensor:
    """128 signs; a bit that is set is a plus."""
    return (_bits(blocks[:, 2:]).cast(dtypes.float32) * 2 - 1) * _half(blocks, 0)


# *** 256 numbers in groups ***
def _grouped(values: Tensor, scales: Tensor, offsets: Tensor | None = None) -> Tensor:
    """Groups (blocks, groups, numbers) times a scale each, less an offset each, one after the other."""
    scaled = values.cast(dtypes.float32) * scales.unsqueeze(-1)
    scaled = scaled if offsets is None else scaled - offsets.unsqueeze(-1)
    return scaled.reshape(values.shape[0], -1)


def _quarters(packed: Tensor) -> Tensor:
    """256 numbers of two bits from 64 bytes, in 16 groups: of each half, all lowest bits come first."""
    halves = packed.reshape(-1, 2, 32)
    return (_shifted(halves, (0, 2, 4, 6), 2) & 3).reshape(-1, 16, 16)


def _q2_k(blocks: Tensor) -> Tensor:
    packed = blocks[:, :16]
    scales = (packed & 15).cast(dtypes.float32) * _half(blocks, 80)
    minima = packed.rshift(4).cast(dtypes.float32) * _half(blocks, 82)
    return _grouped(_quarters(blocks[:, 16:80]), scales, minima)


def _q3_k(blocks: Tensor) -> Tensor:
    packed = blocks[:, 96:104]
    low = (packed & 15).cat(packed.rshift(4), dim=1)
    high = (_shifted(blocks[:, 104:108], (0, 2, 4, 6), 1) & 3).reshape(-1, 16)
    scales = (low | high.lshift(4)).cast(dtypes.float32) - 32
    # a bit that is missing takes four away
    third = _shifted(blocks[:, :32], tuple(range(8)), 1) & 1
    missing = (1 - third.cast(dtypes.int8)).reshape(-1, 16, 16) * 4
    values = _quarters(blocks[:, 32:96]).cast(dtypes.int8) - missing
    return _grouped(values, scales * _half(blocks, 108))


def _scales_k4(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Eight 6-bit scales and eight 6-bit minima from twelve bytes."""
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = (first & 63).cat((third & 15) | (first.rshift(6).lshift(4)), dim=1)
    minima = (second & 63).cat(third.rshift(4) | (second.rshift(6).lshift(4)), dim=1)
    return scales.cast(dtypes.float32), minima.cast(dtypes.float32)


def _q4_k(blocks: Tensor) -> Tensor:
    scales, minima = _scales_k4(blocks[:, 4:16])
    values = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return _grouped(values, scales * _half(blocks, 0), minima * _half(blocks, 2))


def _q5_k(blocks: Tensor) -> Tensor:
    scales, minima = _scales_k4(blocks[:, 4:16])
    fifth = _shifted(blocks[:, 16:48], tuple(range(8)), 1) & 1
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return _grouped(low + fifth * 16, scales * _half(blocks, 0), minima * _half(blocks, 2))


def _q6_k(blocks: Tensor) -> Tensor:
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = (low & 15).cat(low.rshift(4), dim=2).reshape(-1, 2, 4, 32)
    high = _shifted(blocks[:, 128:192].reshape(-1, 2, 32), (0, 2, 4, 6), 2) & 3
    values = _signed(low | high.lshift(4), 6).reshape(-1, 16, 16)
    scales = blocks[:, 192:208].bitcast(dtypes.int8).cast(dtypes.float32)
    return _grouped(values, scales * _half(blocks, 208))


def _q8_k(blocks: Tensor) -> Tensor:
    scale = blocks[:, :4].bitcast(dtypes.float32)
    return blocks[:, 4:260].bitcast(dtypes.int8).cast(dtypes.float32) * scale


def _nvfp4(blocks: Tensor) -> Tensor:
    """Four groups of sixteen 4-bit floats, each under a scale of type E4M3 whose sign is ignored."""
    packed = blocks[:, :4].cast(dtypes.int32)
    exponent, mantissa = packed.rshift(3) & 15, packed & 7
    # in units of 2**-10; there is no negative zero, and no NaN: its code is 0
    units = (exponent == 0).where(mantissa * 2, (mantissa + 8) * (1 << exponent))
    scales = (packed == 0x7F).where(0, units).cast(dtypes.float32) * 2.0**-11
    return _grouped(_small_floats(_nibbles(blocks[:, 4:].reshape(-1, 4, 8))), scales)


# *** three values ***
def _tq1_0(blocks: Tensor) -> Tensor:
    """Five digits of base 3 in a byte, the highest first, as a fraction of 256."""

    def digits(packed: Tensor, count: int) -> Tensor:
        moved = [packed * power for power in (1, 3, 9, 27, 81)[:count]]
        wide = moved[0].stack(*moved[1:], dim=1).cast(dtypes.uint16)
        return (wide * 3).rshift(8).reshape(blocks.shape[0], -1)

    parts = digits(blocks[:, :32], 5), digits(blocks[:, 32:48], 5), digits(blocks[:, 48:52], 4)
    return (parts[0].cat(*parts[1:], dim=1).cast(dtypes.float32) - 1) * _half(blocks, 52)


def _tq2_0(blocks: Tensor) -> Tensor:
    values = _quarters(blocks[:, :64]).reshape(-1, 256)
    return (values.cast(dtypes.float32) - 1) * _half(blocks, 64)


# *** four bits that stand for uneven steps ***
_STEPS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _uneven(codes: Tensor) -> Tensor:
    return Tensor(list(_STEPS), dtype=dtypes.float32)[codes.cast(dtypes.int32)]


def _iq4_nl(blocks: Tensor) -> Tensor:
    return _uneven(_nibbles(blocks[:, 2:])) * _half(blocks, 0)


def _iq4_xs(blocks: Tensor) -> Tensor:
    high = blocks[:, 2:4].bitcast(dtypes.uint16)
    high = (_shifted(high, tuple(range(0, 16, 2)), 1).reshape(-1, 8) & 3).cast(dtypes.uint8)
    low = (_shifted(blocks[:, 4:8], (0, 4), 2) & 15).reshape(-1, 8)
    scales = (low | high.lshift(4)).cast(dtypes.float32) - 32
    values = _uneven(_nibbles(blocks[:, 8:].reshape(-1, 8, 16)))
    return _grouped(values, scales * _half(blocks, 0))


# *** points from tables ***
def _even_signs(codes: Tensor) -> Tensor:
    """Eight signs from seven bits: the eighth makes the number of minus signs even."""
    parity = codes
    for shift in (4, 2, 1):
        parity = parity ^ parity.rshift(shift)
    return codes | (parity & 1).lshift(7)


def _with_signs(values: Tensor, signs: Tensor) -> Tensor:
    """Numbers (..., 8) negated where the bits of `signs` (...) are set."""
    bits = _shifted(signs, tuple(range(8)), -1) & 1
    return (bits == 1).where(-values, values)


def _chosen(name: str, index: Tensor) -> Tensor:
    return points(name).to(index.device)[index.cast(dtypes.int32)]


def _words(blocks: Tensor, start: int, end: int, kind) -> Tensor:
    return blocks[:, start:end].bitcast(kind)


def _iq2_xxs(blocks: Tensor) -> Tensor:
    words = _words(blocks, 2, 66, dtypes.uint32).reshape(-1, 8, 2)
    index, rest = blocks[:, 2:66].reshape(-1, 8, 8)[:, :, :4], words[:, :, 1]
    signs = _even_signs(_shifted(rest, (0, 7, 14, 21), 2) & 127)
    values = _with_signs(_chosen("IQ2_XXS", index), signs).reshape(-1, 8, 32)
    scales = (rest.rshift(28).cast(dtypes.float32) + 0.5) * 0.25
    return _grouped(values, scales * _half(blocks, 0))


def _half_scales(packed: Tensor) -> Tensor:
    """Two scales in each byte, for 16 numbers each."""
    both = (_shifted(packed, (0, 4), 2) & 15).reshape(packed.shape[0], -1)
    return (both.cast(dtypes.float32) + 0.5) * 0.25


def _iq2_xs(blocks: Tensor) -> Tensor:
    words = _words(blocks, 2, 66, dtypes.uint16)
    signs = _even_signs(words.rshift(9))
    values = _with_signs(_chosen("IQ2_XS", words & 511), signs).reshape(-1, 16, 16)
    return _grouped(values, _half_scales(blocks[:, 66:74]) * _half(blocks, 0))


def _iq2_s(blocks: Tensor) -> Tensor:
    high = (_shifted(blocks[:, 66:74], (0, 2, 4, 6), 2) & 3).reshape(-1, 32)
    index = blocks[:, 2:34].cast(dtypes.uint16) | high.cast(dtypes.uint16).lshift(8)
    values = _with_signs(_chosen("IQ2_S", index), blocks[:, 34:66]).reshape(-1, 16, 16)
    return _grouped(values, _half_scales(blocks[:, 74:82]) * _half(blocks, 0))


def _iq3_xxs(blocks: Tensor) -> Tensor:
    rest = _words(blocks, 66, 98, dtypes.uint32)
    signs = _even_signs(_shifted(rest, (0, 7, 14, 21), 2) & 127)
    values = _chosen("IQ3_XXS", blocks[:, 2:66]).reshape(-1, 8, 4, 8)
    scales = (rest.rshift(28).cast(dtypes.float32) + 0.5) * 0.5
    return _grouped(_with_signs(values, signs).reshape(-1, 8, 32), scales * _half(blocks, 0))


def _iq3_s(blocks: Tensor) -> Tensor:
    high = (_shifted(blocks[:, 66:74], tuple(range(8)), 2) & 1).reshape(-1, 64)
    index = blocks[:, 2:66].cast(dtypes.uint16) | high.cast(dtypes.uint16).lshift(8)
    values = _chosen("IQ3_S", index).reshape(-1, 32, 8)
    values = _with_signs(values, blocks[:, 74:106]).reshape(-1, 8, 32)
    scales = (_shifted(blocks[:, 106:110], (0, 4), 2) & 15).reshape(-1, 8).cast(dtypes.float32)
    return _grouped(values, (scales * 2 + 1) * _half(blocks, 0))


def _iq1_s(blocks: Tensor) -> Tensor:
    heads = _words(blocks, 34, 50, dtypes.uint16)
    high = (_shifted(heads, (0, 3, 6, 9), 2) & 7).reshape(-1, 32)
    index = blocks[:, 2:34].cast(dtypes.uint16) | high.lshift(8)
    offset = (heads >= 1 << 15).where(-0.125, 0.125).reshape(-1, 8, 1)
    values = _chosen("IQ1_S", index).reshape(-1, 8, 32) + offset
    scales = (heads.rshift(12) & 7).cast(dtypes.float32) * 2 + 1
    return _grouped(values, scales * _half(blocks, 0))


def _iq1_m(blocks: Tensor) -> Tensor:
    words = _words(blocks, 48, 56, dtypes.uint16)
    # the highest four bits of each word are the scale of the block
    parts = [words[:, i : i + 1].rshift(12).lshift(4 * i) for i in range(4)]
    scale = (parts[0] | parts[1] | parts[2] | parts[3]).bitcast(dtypes.float16).cast(dtypes.float32)
    heads = (_shifted(blocks[:, 32:48], (0, 4), 2) & 15).reshape(-1, 32)
    index = blocks[:, :32].cast(dtypes.uint16) | (heads & 7).cast(dtypes.uint16).lshift(8)
    offset = (heads >= 8).where(-0.125, 0.125).unsqueeze(-1)
    values = (_chosen("IQ1_S", index) + offset).reshape(-1, 16, 16)
    scales = (_shifted(words, (0, 3, 6, 9), 2) & 7).reshape(-1, 16).cast(dtypes.float32)
    return _grouped(values, (scales * 2 + 1) * scale)


# type -> (elements, bytes, decoder) of one block
BLOCKS: dict[int, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    2: (32, 18, _q4_0), 3: (32, 20, _q4_1), 6: (32, 22, _q5_0), 7: (32, 24, _q5_1), 8: (32, 34, _q8_0),
    10: (256, 84, _q2_k), 11: (256, 110, _q3_k), 12: (256, 144, _q4_k),
    13: (256, 176, _q5_k), 14: (256, 210, _q6_k), 15: (256, 292, _q8_k), 16: (256, 66, _iq2_xxs),
    17: (256, 74, _iq2_xs), 18: (256, 98, _iq3_xxs), 19: (256, 50, _iq1_s), 20: (32, 18, _iq4_nl),
    21: (256, 110, _iq3_s), 22: (256, 82, _iq2_s), 23: (256, 136, _iq4_xs), 29: (256, 56, _iq1_m),
    34: (256, 54, _tq1_0), 35: (256, 66, _tq2_0), 39: (32, 17, _mxfp4), 40: (64, 36, _nvfp4),
    41: (128, 18, _q1_0),
}  # fmt: skip
