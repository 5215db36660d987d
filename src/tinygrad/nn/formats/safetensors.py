"""The safetensors format: an 8-byte length, a JSON header, then the tensors' bytes.

Reading checks everything the header says against the file, and raises ValueError for what does not
fit, so that a damaged or hostile file never gives wrong numbers.
Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import stat
import struct
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from tinygrad.dtype import DType, dtypes
from tinygrad.helpers import round_up
from tinygrad.nn.formats.reading import accept_filename
from tinygrad.tensor import Tensor

_TYPES: dict[str, DType] = {
    "BOOL": dtypes.bool, "I8": dtypes.int8, "U8": dtypes.uint8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64, "F8_E4M3": dtypes.fp8e4m3, "F8_E5M2": dtypes.fp8e5m2,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_LENGTH_BYTES = 8
# the limits of the format's own library, and of what an axis can have
_MAX_HEADER, _MAX_ELEMENTS = 100_000_000, (1 << 63) - 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError for a key that occurs twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"safetensors header has the key {key!r} twice")
        found[key] = value
    return found


@accept_filename
def safe_load_metadata(t: Tensor) -> tuple[Tensor, int, dict[str, Any]]:
    """`(bytes of the file, where the tensors start, the header)`.

    Raises ValueError for a file that has no complete header.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> nn.state.safe_save({"w": Tensor([1.0, 2.0])}, path)
    >>> nn.state.safe_load_metadata(path)[2]["w"]["shape"]
    [2]
    """
    size = t.shape[0]
    if size < _LENGTH_BYTES:
        raise ValueError(f"a safetensors file has at least {_LENGTH_BYTES} bytes, got {size}")
    (length,) = struct.unpack("<Q", t[:_LENGTH_BYTES].data().tobytes())
    start = _LENGTH_BYTES + length
    if length > _MAX_HEADER:
        raise ValueError(
            f"safetensors header of {length} bytes is above the limit of {_MAX_HEADER}"
        )
    if start > size:
        raise ValueError(f"safetensors header of {length} bytes does not fit in a file of {size}")
    text = t[_LENGTH_BYTES:start].data().tobytes() if length else b""
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("safetensors header is nested too deep") from error
    if not isinstance(header, dict):
        raise ValueError(f"safetensors header is {type(header).__name__}, expected an object")
    return t, start, header


def _checked(name: str, entry: Any, available: int) -> tuple[DType, tuple[int, ...], int, int]:
    """dtype, shape, begin and end of one entry. Raises ValueError where they contradict each other."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise ValueError(f"tensor {name!r} needs dtype, shape and data_offsets, got {entry!r}")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in _TYPES:
        raise ValueError(f"tensor {name!r} has the unknown dtype {entry['dtype']!r}")
    dtype, shape, offsets = _TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    whole = [*shape, *offsets] if isinstance(shape, list) and isinstance(offsets, list) else [None]
    # `type`, as True is an int too
    if not all(type(v) is int and v >= 0 for v in whole) or len(offsets) != 2:
        raise ValueError(
            f"tensor {name!r} has shape {shape!r}, offsets {offsets!r}: not whole numbers"
        )
    begin, end = offsets
    if not begin <= end <= available:
        raise ValueError(f"tensor {name!r} lies at {begin}..{end} of {available} bytes")
    if math.prod(n for n in shape if n) > _MAX_ELEMENTS:
        raise ValueError(f"tensor {name!r} has the shape {tuple(shape)}, which no tensor can have")
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"tensor {name!r} of shape {tuple(shape)} and {dtype} needs "
            f"{math.prod(shape) * dtype.itemsize} bytes, got {end - begin}"
        )
    return dtype, tuple(shape), begin, end


def _check_coverage(spans: list[tuple[int, int, str]], available: int) -> None:
    """Raises ValueError unless the spans follow each other without overlap or hole to the end."""
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            what = "overlaps the one before it" if begin < reached else "has a hole before it"
            raise ValueError(f"tensor {name!r} at {begin}..{end} {what}, which ends at {reached}")
        reached = end
    if reached != available:
        raise ValueError(f"the tensors end at {reached}, but {available} bytes follow the header")


def safe_load(fn: Tensor | str | pathlib.Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, still on disk: move them with `.to(device)`.

    Raises ValueError for a file that breaks a rule of the format: a header that does not fit, keys that
    repeat, tensors that overlap, leave holes or are not as large as their shape says.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> safe_save({"w": Tensor([1.0])}, path)
    >>> safe_load(path)["w"].item()
    1.0
    """
    t, start, header = safe_load_metadata(fn)
    available = t.shape[0] - start
    entries = {k: _checked(k, v, available) for k, v in header.items() if k != "__metadata__"}
    _check_coverage([(begin, end, name) for name, (_, _, begin, end) in entries.items()], available)
    loaded = {}
    for name, (dtype, shape, begin, end) in entries.items():
        part = t[start + begin : start + end]
        loaded[name] = (
            part.bitcast(dtype).reshape(shape) if end > begin else Tensor.empty(shape, dtype=dtype)
        )
    return loaded


def safe_save(tensors: dict[str, Tensor], fn: str, metadata: dict[str, Any] | None = None):
    """Writes tensors to a safetensors file, in the order given.

    The file appears when it is complete: a save that fails leaves the old one. Raises ValueError for a
    dtype the format does not have.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> nn.state.safe_save({"w": Tensor([1.0, 2.0])}, path)
    >>> nn.state.safe_load(path)["w"].tolist()
    [1.0, 2.0]
    """
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name, t in tensors.items():
        if t.dtype not in _NAMES:
            raise ValueError(f"safetensors cannot hold {t.dtype} of tensor {name!r}: cast it")
        header[name] = {
            "dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes()],
        }  # fmt: skip
        offset += t.nbytes()
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (round_up(len(text), 8) - len(text))
    with _replacing(fn) as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for t in tensors.values():
            f.write(t._contents())


@contextlib.contextmanager
def _replacing(fn: str) -> Iterator[BinaryIO]:
    """A file beside `fn` that takes its place when all is written, so that `fn` is never half a file.

    Tensors that are still read from the old file stay right. What is no regular file is written to.
    """
    target = os.path.realpath(fn)
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        with open(target, "wb") as f:
            yield f
        return
    beside = f"{target}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(beside, "wb") as f:
            yield f
        os.replace(beside, target)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
