"""The GGUF format of llama.cpp: typed key-value pairs, tensor descriptions, quantized blocks.

Every count, offset and size is checked against the file before it is used; ValueError says what does
not fit. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; block layouts: ggml-common.h.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from tinygrad.dtype import DType, dtypes
from tinygrad.helpers import round_up
from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.tensor import Tensor

_PLAIN: dict[int, DType] = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip
_SCALARS = "B b H h I i f ? s a Q q d".split()
_STRING, _ARRAY, _MAX_DEPTH = 8, 9, 64


def _signed(x: Tensor, bits: int) -> Tensor:
    """Unsigned numbers of `bits` bits around their middle, as float32."""
    return x.cast(dtypes.float32) - (1 << (bits - 1))


def _half(blocks: Tensor, start: int) -> Tensor:
    """The float16 at byte `start` of each block, as a float32 column."""
    return blocks[:, start : start + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def _nibbles(packed: Tensor) -> Tensor:
    """All low halves of the bytes along the last axis, then all high ones."""
    return (packed & 15).cat(packed.rshift(4), dim=-1)


def _q4_0(blocks: Tensor) -> Tensor:
    return _signed(_nibbles(blocks[:, 2:]), 4) * _half(blocks, 0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _nibbles(blocks[:, 4:]).cast(dtypes.float32) * _half(blocks, 0) + _half(blocks, 2)


def _fifth_bits(blocks: Tensor, start: int) -> Tensor:
    """Bit i of the 32-bit word at `start`, as 16 for each of 32 elements."""
    word = blocks[:, start : start + 4].bitcast(dtypes.uint32)
    bits = word.cat(*[word.rshift(i) for i in range(1, 32)], dim=1)
    return (bits & 1).cast(dtypes.uint8) * 16


def _q5_0(blocks: Tensor) -> Tensor:
    return _signed(_nibbles(blocks[:, 6:]) + _fifth_bits(blocks, 2), 5) * _half(blocks, 0)


def _q5_1(blocks: Tensor) -> Tensor:
    values = (_nibbles(blocks[:, 8:]) + _fifth_bits(blocks, 4)).cast(dtypes.float32)
    return values * _half(blocks, 0) + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].bitcast(dtypes.int8).cast(dtypes.float32) * _half(blocks, 0)


def _scales_k4(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Eight 6-bit scales and eight 6-bit minima from twelve bytes."""
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = (first & 63).cat((third & 15) | (first.rshift(6).lshift(4)), dim=1)
    minima = (second & 63).cat(third.rshift(4) | (second.rshift(6).lshift(4)), dim=1)
    return scales.cast(dtypes.float32), minima.cast(dtypes.float32)


def _q4_k(blocks: Tensor) -> Tensor:
    n = blocks.shape[0]
    scales, minima = _scales_k4(blocks[:, 4:16])
    values = _nibbles(blocks[:, 16:].reshape(n, 4, 32)).reshape(n, 8, 32).cast(dtypes.float32)
    scaled = values * (scales * _half(blocks, 0)).unsqueeze(-1)
    return (scaled - (minima * _half(blocks, 2)).unsqueeze(-1)).reshape(n, 256)


def _q5_k(blocks: Tensor) -> Tensor:
    n = blocks.shape[0]
    scales, minima = _scales_k4(blocks[:, 4:16])
    high = blocks[:, 16:48].reshape(n, 1, 32)
    fifth = high.cat(*[high.rshift(i) for i in range(1, 8)], dim=1) & 1
    low = _nibbles(blocks[:, 48:].reshape(n, 4, 32)).reshape(n, 8, 32)
    values = (low + fifth * 16).cast(dtypes.float32)
    scaled = values * (scales * _half(blocks, 0)).unsqueeze(-1)
    return (scaled - (minima * _half(blocks, 2)).unsqueeze(-1)).reshape(n, 256)


def _q6_k(blocks: Tensor) -> Tensor:
    n = blocks.shape[0]
    low = blocks[:, :128].reshape(n, 2, 1, 64)
    low = (low & 15).cat(low.rshift(4), dim=2).reshape(n, 2, 4, 32)
    high = blocks[:, 128:192].reshape(n, 2, 1, 32)
    high = high.cat(*[high.rshift(2 * i) for i in range(1, 4)], dim=2) & 3
    values = _signed(low | high.lshift(4), 6).reshape(n, 16, 16)
    scales = blocks[:, 192:208].bitcast(dtypes.int8).cast(dtypes.float32).unsqueeze(-1)
    return (values * (scales * _half(blocks, 208).unsqueeze(-1))).reshape(n, 256)


def _mxfp4(blocks: Tensor) -> Tensor:
    """OCP microscaling: 4-bit floats (E2M1) under a shared exponent of 8 bits."""
    codes = _nibbles(blocks[:, 1:])
    exponent, mantissa = codes.rshift(1) & 3, (codes & 1).cast(dtypes.float32)
    power = (exponent.cast(dtypes.float32) - 1).exp2()
    size = (exponent == 0).where(mantissa * 0.5, (1 + mantissa * 0.5) * power)
    shared = blocks[:, 0:1].cast(dtypes.int32)
    # half of the scale as bits, so that also the subnormal ones are exact
    bits = (shared >= 2).where((shared - 1) * (1 << 23), (shared == 1).where(1 << 22, 1 << 21))
    scale = bits.cast(dtypes.uint32).bitcast(dtypes.float32)
    return (codes >= 8).where(-size, size) * scale


# type -> (elements, bytes, decoder) of one block
_BLOCKS: dict[int, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    2: (32, 18, _q4_0), 3: (32, 20, _q4_1), 6: (32, 22, _q5_0), 7: (32, 24, _q5_1), 8: (32, 34, _q8_0),
    12: (256, 144, _q4_k), 13: (256, 176, _q5_k), 14: (256, 210, _q6_k), 39: (32, 17, _mxfp4),
}  # fmt: skip


def _byte_count(n: int, ggml_type: int) -> int:
    if ggml_type in _PLAIN:
        return n * _PLAIN[ggml_type].itemsize
    if ggml_type not in _BLOCKS:
        raise ValueError(
            f"GGML type {ggml_type} is not supported: {sorted({*_PLAIN, *_BLOCKS})} are"
        )
    elements, size, _ = _BLOCKS[ggml_type]
    if n % elements:
        raise ValueError(f"{n} elements do not fill blocks of {elements} of GGML type {ggml_type}")
    return n // elements * size


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
    """The first `n` elements of the bytes `t`, decoded: plain types as they are, blocks as float32.

    Raises ValueError for a type that is not supported, or too few bytes.
    """
    size = _byte_count(n, ggml_type)
    if size > t.shape[0]:
        raise ValueError(
            f"{n} elements of GGML type {ggml_type} need {size} bytes, got {t.shape[0]}"
        )
    data = t[:size]
    if ggml_type in _PLAIN:
        return data.bitcast(_PLAIN[ggml_type])
    elements, width, decode = _BLOCKS[ggml_type]
    return decode(data.reshape(n // elements, width)).flatten()


class _Fields:
    """Reads the typed fields of the header."""

    def __init__(self, t: Tensor):
        self.stream, self.size = TensorIO(t), t.shape[0]

    def raw(self, count: int) -> bytes:
        if count < 0 or self.stream.tell() + count > self.size:
            raise EOFError(f"the file of {self.size} bytes ends within a field of {count} bytes")
        return self.stream.read(count)

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.raw(struct.calcsize(code)))[0]

    def text(self) -> str:
        return self.raw(self.number("Q")).decode("utf-8")

    def value(self, kind: int, depth: int = 0) -> Any:
        if not 0 <= kind < len(_SCALARS):
            raise ValueError(f"unknown value type {kind}")
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        if depth >= _MAX_DEPTH:
            raise ValueError(f"arrays are nested more than {_MAX_DEPTH} deep")
        inner, count = self.number("i"), self.number("Q")
        if count > self.size:
            raise ValueError(f"an array of {count} entries does not fit in {self.size} bytes")
        if inner not in (_STRING, _ARRAY) and 0 <= inner < len(_SCALARS):
            code = _SCALARS[inner]
            return list(struct.unpack(f"<{count}{code}", self.raw(count * struct.calcsize(code))))
        return [self.value(inner, depth + 1) for _ in range(count)]


@accept_filename
def gguf_load(tensor: Tensor) -> tuple[dict, dict[str, Tensor]]:
    """`(key-value pairs, tensors by name)` of a GGUF file (version 2 or 3) given as bytes.

    Raises ValueError for another format and sizes that do not fit, EOFError for a short file.
    """
    fields = _Fields(tensor)
    magic, version = fields.raw(4), fields.number("i")
    count, pairs = fields.number("q"), fields.number("q")
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"expected GGUF version 2 or 3, got {magic!r} version {version}")
    if count < 0 or pairs < 0:
        raise ValueError(f"negative counts: {count} tensors, {pairs} pairs")
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        key = fields.text()
        metadata[key] = fields.value(fields.number("i"))
    entries = []
    for _ in range(count):
        name, rank = fields.text(), fields.number("I")
        if rank > 8:
            raise ValueError(f"tensor {name!r} has {rank} axes")
        sizes = tuple(fields.number("Q") for _ in range(rank))
        entries.append((name, sizes, fields.number("i"), fields.number("Q")))
    alignment = metadata.get("general.alignment", 32)
    start = round_up(fields.stream.tell(), alignment)
    tensors = {}
    for name, dims, kind, offset in entries:
        n = math.prod(dims)
        if start + offset + _byte_count(n, kind) > tensor.shape[0]:
            raise ValueError(
                f"tensor {name!r} of {dims} ends behind the file of {tensor.shape[0]} bytes"
            )
        data = ggml_data_to_tensor(tensor[start + offset :], n, kind)
        tensors[name] = data.reshape(tuple(reversed(dims)))
    return metadata, tensors
