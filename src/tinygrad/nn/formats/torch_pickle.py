"""PyTorch checkpoints: a pickle that names tensors, and their storages.

Only what a state dict needs is unpickled; every other class becomes an inert placeholder, so that
loading never runs code from the file. Three containers exist: zip (since 1.6), tar (before 0.1.10)
and the plain stream between them.
"""

from __future__ import annotations

import collections
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from tinygrad.dtype import DType, dtypes
from tinygrad.nn.formats.archives import tar_extract, zip_extract
from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.tensor import Tensor

_STORAGES: dict[str, DType] = {
    "HalfStorage": dtypes.float16, "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64,
    "BFloat16Storage": dtypes.bfloat16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "ShortStorage": dtypes.int16, "IntStorage": dtypes.int32, "LongStorage": dtypes.int64,
    "BoolStorage": dtypes.bool,
}  # fmt: skip


class _Placeholder:
    """Stands for an object of a class that is not loaded."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs

    def __setstate__(self, state):
        self.state = state


def _strided(flat: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """The view of `flat` with the given strides. Raises ValueError where it leaves the storage."""
    if 0 in size:
        return Tensor.empty(*size, dtype=flat.dtype)
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1
    if offset < 0 or min(stride, default=0) < 0 or reach > flat.shape[0]:
        raise ValueError(
            f"a tensor of {size} with strides {stride} reaches {reach} of {flat.shape[0]}"
        )
    # axes by falling stride: a permuted dense tensor is a plain block of memory
    order = sorted(range(len(size)), key=lambda i: (-stride[i], i))
    dense, expected = True, 1
    for i in reversed(order):
        dense = dense and (size[i] == 1 or stride[i] == expected)
        expected *= size[i]
    if dense:
        block = flat[offset : offset + expected].reshape([size[i] for i in order])
        return (
            block.permute([order.index(i) for i in range(len(size))]) if size else block.reshape(())
        )
    index = Tensor([offset])
    for n, s in zip(size, stride):
        index = index.unsqueeze(-1) + Tensor.arange(n) * s
    return flat.to(None)[index.reshape(size)]


class _Reader(pickle.Unpickler):
    """Unpickles a state dict; `storage(key, dtype, count)` gives the elements of a storage."""

    def __init__(self, stream, storage: Callable[[Any, DType, int], Any]):
        super().__init__(stream)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.cuda") and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return self._tensor
        if module == "torch._utils" and name == "_rebuild_parameter":
            return lambda data, *_: data
        return type(name, (_Placeholder,), {})

    def _tensor(self, storage, offset, size, stride, *_) -> Any:
        if callable(storage):
            # filled in once the stream's storages are read
            return lambda: _strided(storage(), offset, tuple(size), tuple(stride))
        return _strided(storage, offset, tuple(size), tuple(stride))

    def persistent_load(self, pid: Any) -> Any:
        kind, dtype, key, _, count, *_ = pid
        if kind != "storage" or not isinstance(dtype, DType):
            raise pickle.UnpicklingError(f"unknown reference {pid!r} in the checkpoint")
        return self._storage(key, dtype, count)


def _resolved(obj: Any) -> Any:
    """`obj` with delayed tensors made, in dictionaries and lists."""
    if isinstance(obj, dict):
        for key, value in obj.items():
            obj[key] = _resolved(value)
        return obj
    if isinstance(obj, (list, tuple)):
        return type(obj)(_resolved(value) for value in obj)
    return obj() if callable(obj) and not isinstance(obj, type) else obj


def _load_zip(t: Tensor) -> Any:
    files = zip_extract(t)
    inner = next((name for name in files if name.endswith("/data.pkl") or name == "data.pkl"), None)
    if inner is None:
        raise ValueError(f"no data.pkl in the checkpoint, which has {sorted(files)[:8]}")
    folder = inner[: -len("data.pkl")]

    def storage(key, dtype: DType, count: int) -> Tensor:
        raw = files[f"{folder}data/{key}"]
        return raw.bitcast(dtype) if raw.shape[0] else Tensor.empty(0, dtype=dtype)

    return _Reader(TensorIO(files[inner]), storage).load()


def _load_stream(t: Tensor) -> Any:
    """Magic number, protocol, system, the object, the keys of its storages, then the storages."""
    stream = TensorIO(t)
    for _ in range(3):
        pickle.Unpickler(stream).load()
    wanted: dict[Any, DType] = {}
    ready: dict[Any, Tensor] = {}

    def storage(key, dtype: DType, count: int):
        wanted[key] = dtype
        return lambda: ready[key]

    obj = _Reader(stream, storage).load()
    for key in pickle.Unpickler(stream).load():
        (count,) = struct.unpack("<q", stream.read(8))
        start = stream.tell()
        end = start + count * wanted[key].itemsize
        if end > t.shape[0]:
            raise EOFError(
                f"storage {key!r} lies at {start}..{end} of a file of {t.shape[0]} bytes"
            )
        ready[key] = t[start:end].bitcast(wanted[key])
        stream.seek(end)
    return _resolved(obj)


def _load_tar(t: Tensor) -> Any:
    files = tar_extract(t)
    ready: dict[Any, Tensor] = {}
    stream = TensorIO(files["storages"])
    for _ in range(pickle.Unpickler(stream).load()):
        key, _, name = _Reader(stream, lambda *_: None).load()
        dtype = name if isinstance(name, DType) else _STORAGES[name.__name__]
        (count,) = struct.unpack("<q", stream.read(8))
        start = stream.tell()
        ready[key] = files["storages"][start : start + count * dtype.itemsize].bitcast(dtype)
        stream.seek(start + count * dtype.itemsize)
    tensors: dict[Any, Tensor] = {}
    stream = TensorIO(files["tensors"])
    for _ in range(pickle.Unpickler(stream).load()):
        key, storage_key, _ = pickle.Unpickler(stream).load()
        (rank,) = struct.unpack("<ixxxx", stream.read(8))
        size = struct.unpack(f"<{rank}q", stream.read(8 * rank))
        stride = struct.unpack(f"<{rank}q", stream.read(8 * rank))
        (offset,) = struct.unpack("<q", stream.read(8))
        tensors[key] = _strided(ready[storage_key], offset, size, stride)
    reader = _Reader(TensorIO(files["pickle"]), lambda *_: None)
    reader.persistent_load = lambda pid: tensors[pid]  # type: ignore[method-assign]
    return reader.load()


@accept_filename
def torch_load(t: Tensor) -> dict[str, Tensor]:
    """The object saved by `torch.save`, its tensors on the device of `t`.

    Raises ValueError, EOFError, zipfile.BadZipFile or pickle.UnpicklingError for a damaged file.
    """
    head = t[: min(262, t.shape[0])].data().tobytes()
    if head[:2] == b"PK":
        return _load_zip(t)
    if head[257:262] == b"ustar":
        return _load_tar(t)
    if zipfile.is_zipfile(TensorIO(t)):
        return _load_zip(t)
    return _load_stream(t)
