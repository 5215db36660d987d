"""The GGUF format of llama.cpp: typed key-value pairs, tensor descriptions, quantized blocks.

Every count, offset and size is checked against the file before it is used; ValueError says what does
not fit. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; block layouts: ggml-common.h.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from tinygrad.dtype import DType, dtypes
from tinygrad.helpers import round_up
from tinygrad.nn.formats.gguf_blocks import BLOCKS
from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.tensor import Tensor
from tinygrad.tensor.memory import is_storage

_PLAIN: dict[int, DType] = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip
_SCALARS = "B b H h I i f ? s a Q q d".split()
_STRING, _ARRAY, _MAX_DEPTH = 8, 9, 64


def _byte_count(n: int, ggml_type: int) -> int:
    if ggml_type in _PLAIN:
        return n * _PLAIN[ggml_type].itemsize
    if ggml_type not in BLOCKS:
        raise ValueError(
            f"GGML type {ggml_type} is not supported: {sorted({*_PLAIN, *BLOCKS})} are"
        )
    elements, size, _ = BLOCKS[ggml_type]
    if n % elements:
        raise ValueError(f"{n} elements do not fill blocks of {elements} of GGML type {ggml_type}")
    return n // elements * size


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
    """The first `n` elements of the bytes `t`, decoded: plain types as they are, blocks as float32.

    Blocks of a file are decoded on the default device, from a copy of these bytes alone. Raises ValueError for a type that is not supported, or too few bytes.
    """
    size = _byte_count(n, ggml_type)
    if size > t.shape[0]:
        raise ValueError(
            f"{n} elements of GGML type {ggml_type} need {size} bytes, got {t.shape[0]}"
        )
    data = t[:size]
    if ggml_type in _PLAIN:
        return data.bitcast(_PLAIN[ggml_type])
    elements, width, decode = BLOCKS[ggml_type]
    data = data.to(None) if is_storage(data.device) else data
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
        if key in metadata:
            raise ValueError(f"the key {key!r} occurs twice")
        metadata[key] = fields.value(fields.number("i"))
    entries = []
    for _ in range(count):
        name, rank = fields.text(), fields.number("I")
        if rank > 8:
            raise ValueError(f"tensor {name!r} has {rank} axes")
        sizes = tuple(fields.number("Q") for _ in range(rank))
        entries.append((name, sizes, fields.number("i"), fields.number("Q")))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment <= 0:
        raise ValueError(f"the alignment is {alignment!r}, expected a positive number")
    start = round_up(fields.stream.tell(), alignment)
    tensors = {}
    for name, dims, kind, offset in entries:
        if math.prod(d for d in dims if d) >= 1 << 63:
            raise ValueError(f"tensor {name!r} has the shape {dims}, which no tensor can have")
        if name in tensors:
            raise ValueError(f"there are two tensors {name!r}")
        n = math.prod(dims)
        if start + offset + _byte_count(n, kind) > tensor.shape[0]:
            raise ValueError(
                f"tensor {name!r} of {dims} ends behind the file of {tensor.shape[0]} bytes"
            )
        data = ggml_data_to_tensor(tensor[start + offset :], n, kind)
        tensors[name] = data.reshape(tuple(reversed(dims)))
    return metadata, tensors
