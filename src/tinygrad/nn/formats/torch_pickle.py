"""PyTorch checkpoints: a pickle that names tensors, and their storages.

Three containers exist: zip (since 1.6), tar (before 0.1.10) and the plain stream between them. Loading never
runs code from the file: `pickle_globals` says what each global stands for. Pickles are scanned before they are
loaded, offsets and strides are checked against the storages.
"""

from __future__ import annotations

import contextlib
import io
import math
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tinygrad.dtype import DType, dtypes
from tinygrad.nn.formats.archives import tar_extract, zip_extract
from tinygrad.nn.formats.pickle_globals import Kind, first, stand_in
from tinygrad.nn.formats.pickle_scan import scan
from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.tensor import Tensor

_MAX_RANK = 64


class _Storage(NamedTuple):
    """The elements of a storage: nothing before they are known (the first pass of a plain stream)."""

    flat: Tensor | None
    kind: Kind


def _checked_numbers(
    offset: Any, size: Any, stride: Any
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride) or len(size) > _MAX_RANK:
        raise ValueError(f"a tensor of {len(size)} axes has {len(stride)} strides")
    if not all(type(n) is int and n >= 0 for n in (offset, *size, *stride)):
        raise ValueError(f"a tensor has offset {offset!r}, shape {size!r} and strides {stride!r}")
    if math.prod(n for n in size if n) >= 1 << 63:
        raise ValueError(f"a tensor has the shape {size}, which no tensor can have")
    return offset, size, stride


def strided(flat: Tensor, offset: Any, size: Any, stride: Any) -> Tensor:
    """The view of `flat` with the given strides. Raises ValueError where it leaves the storage."""
    offset, size, stride = _checked_numbers(offset, size, stride)
    if 0 in size:
        return Tensor.empty(*size, dtype=flat.dtype)
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1
    if reach > flat.shape[0]:
        raise ValueError(
            f"a tensor of {size} with strides {stride} reaches {reach} of {flat.shape[0]}"
        )
    # an axis without stride repeats what is there
    own = [n if s else 1 for n, s in zip(size, stride)]
    # axes by falling stride: a permuted dense tensor is a plain block of memory
    order = sorted(range(len(own)), key=lambda i: (-stride[i] if own[i] > 1 else 0, i))
    dense, expected = True, 1
    for i in reversed(order):
        dense = dense and (own[i] == 1 or stride[i] == expected)
        expected *= own[i]
    if dense:
        block = flat[offset : offset + expected].reshape([own[i] for i in order])
        view = (
            block.permute([order.index(i) for i in range(len(own))]) if own else block.reshape(())
        )
    else:
        index = Tensor([offset], dtype=dtypes.int64)
        for n, s in zip(own, stride):
            index = index.unsqueeze(-1) + Tensor.arange(n, dtype=dtypes.int64) * s
        view = flat.to(None)[index.reshape(own)]
    return view.expand(size) if tuple(own) != size else view


def _signed(value: Tensor, about: Any) -> Tensor:
    """Its negative where that is how the file means it: {"neg": True} beside the imaginary part of a conjugate."""
    return -value if isinstance(about, dict) and about.get("neg") is True else value


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """A view of a storage: (requires_grad, hooks, what else is known) may follow."""
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError(f"a tensor has {type(storage).__name__} as storage")
    if storage.kind.dtype is None:
        raise ValueError(f"a tensor is of {storage.kind.name}, which has no dtype")
    if storage.flat is None:
        return None
    return _signed(strided(storage.flat, offset, size, stride), rest[2] if len(rest) > 2 else None)


def _typed_tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """A tensor whose dtype is not that of its storage: (requires_grad, hooks, dtype, ...) follow."""
    kind = rest[2] if len(rest) > 2 else None
    if not isinstance(kind, Kind) or not isinstance(storage, _Storage):
        raise pickle.UnpicklingError(f"a tensor has the dtype {kind!r}")
    if kind.dtype is None:
        raise ValueError(f"a tensor is of {kind.name}, which has no dtype")
    if storage.flat is None:
        return None
    view = strided(_elements(storage.flat, kind.dtype), offset, size, stride)
    return _signed(view, rest[3] if len(rest) > 3 else None)


def _elements(raw: Tensor, dtype: DType) -> Tensor:
    """Bytes as elements; a few that are left over at the end belong to none."""
    count = raw.nbytes() // dtype.itemsize
    if not count:
        return Tensor.empty(0, dtype=dtype)
    return raw if raw.dtype is dtype else raw[: count * dtype.itemsize].bitcast(dtype)


def _quantized(storage: Any, offset: Any, size: Any, stride: Any, scheme: Any, *_: Any) -> Any:
    """The numbers that a quantized tensor stands for: (scheme, scale, zero), or one of each along an axis."""
    codes = _tensor(storage, offset, size, stride)
    if not isinstance(scheme, tuple) or len(scheme) not in (3, 4):
        raise ValueError(f"a quantized tensor has the scheme {scheme!r}")
    if codes is None:
        return None
    scale, zero = scheme[1:3]
    if len(scheme) == 4:
        along = [-1 if axis == scheme[3] else 1 for axis in range(codes.ndim)]
        scale, zero = (part.reshape(along).to(codes.device) for part in (scale, zero))
    return (codes.cast(dtypes.float32) - zero) * scale


def _with_attributes(rebuild: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or one that users gave attributes; as a plain tensor."""
    if not any(rebuild is known for known in _REBUILDS.values()):
        raise pickle.UnpicklingError(f"a tensor is made by {rebuild!r}")
    return rebuild(*args)


# how tensors are put together, by the name of the function in torch._utils
_REBUILDS: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": _tensor, "_rebuild_tensor_v2": _tensor, "_rebuild_tensor_v3": _typed_tensor,
    "_rebuild_qtensor": _quantized, "_rebuild_parameter": first, "_rebuild_parameter_with_state": first,
}  # fmt: skip


def _turned(raw: Tensor, width: int) -> Tensor:
    """Numbers of `width` bytes with the bytes of each the other way round."""
    count = raw.shape[0] // width
    return raw[: count * width].to(None).reshape(count, width).flip(1).flatten() if count else raw


def _known_global(module: str, name: str) -> Any:
    """What a global of a checkpoint stands for. Raises pickle.UnpicklingError for what is refused."""
    if module == "torch._utils" and name in _REBUILDS:
        return _REBUILDS[name]
    if (module, name) == ("torch._tensor", "_rebuild_from_type_v2"):
        return _with_attributes
    if module == "torch.nn.parameter" and name in ("Parameter", "Buffer"):
        return first
    return stand_in(module, name)


class _Reader(pickle.Unpickler):
    """Unpickles a state dict; `persistent` gives what a reference stands for."""

    def __init__(self, stream: Any, persistent: Callable[[Any], Any]):
        super().__init__(io.BytesIO(scan(stream)), encoding="utf-8")
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> Any:
        return _known_global(module, name)

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) > 1 and pid[0] == "module":
            # a class along with its source text, which is not looked at
            return pid[1]
        return self._persistent(pid)


def _plain(stream: Any) -> Any:
    """An object of plain data."""
    return _Reader(stream, lambda pid: None).load()


def _storage_reference(pid: Any) -> tuple[Kind, str, int, Any]:
    """Kind, key, number of elements and view of a reference to a storage."""
    if (
        not isinstance(pid, tuple)
        or len(pid) < 5
        or pid[0] != "storage"
        or not isinstance(pid[1], Kind)
    ):
        raise pickle.UnpicklingError(f"unknown reference {str(pid)[:200]} in the checkpoint")
    if not isinstance(pid[2], (str, int)) or type(pid[4]) is not int or pid[4] < 0:
        raise pickle.UnpicklingError(f"unknown reference {str(pid)[:200]} in the checkpoint")
    return pid[1], str(pid[2]), pid[4], pid[5] if len(pid) > 5 else None


def _load_zip(t: Tensor) -> Any:
    files = zip_extract(t)
    inner = next((name for name in files if name.endswith("/data.pkl") or name == "data.pkl"), None)
    if inner is None:
        raise ValueError(f"no data.pkl in the checkpoint, which has {sorted(files)[:8]}")
    folder = inner[: -len("data.pkl")]
    order = files.get(f"{folder}byteorder")
    is_big = order is not None and order.data().tobytes().strip() == b"big"

    def persistent(pid: Any) -> _Storage:
        kind, key, count, _ = _storage_reference(pid)
        raw = files.get(f"{folder}data/{key}")
        if raw is None:
            raise ValueError(f"storage {key!r} is not in the checkpoint")
        if is_big and kind.dtype is not None:
            raw = _turned(raw, kind.dtype.itemsize)
        elements = raw if kind.dtype is None else _elements(raw, kind.dtype)
        if kind.dtype is not None and elements.shape[0] < count:
            raise ValueError(f"storage {key!r} has {elements.shape[0]} elements, expected {count}")
        return _Storage(elements, kind)

    return _Reader(TensorIO(files[inner]), persistent).load()


def _load_stream(t: Tensor) -> Any:
    """Magic number, protocol, system, the object, the keys of its storages, then the storages.

    The storages lie behind the object, so it is read twice: first for their kinds, then with them.
    """
    stream = TensorIO(t)
    for _ in range(3):
        _plain(stream)
    start = stream.tell()
    kinds: dict[str, Kind] = {}

    def noted(pid: Any) -> _Storage:
        kind, key, _, _ = _storage_reference(pid)
        kinds[key] = kind
        return _Storage(None, kind)

    _Reader(stream, noted).load()
    ready = {}
    for key in map(str, _plain(stream)):
        if key not in kinds:
            raise pickle.UnpicklingError(f"storage {key!r} belongs to no tensor")
        ready[key] = _next_storage(t, stream, kinds[key], key)

    def found(pid: Any) -> _Storage:
        kind, key, count, view = _storage_reference(pid)
        if key not in ready:
            raise ValueError(f"storage {key!r} is not in the checkpoint")
        flat = ready[key]
        if isinstance(view, tuple) and len(view) == 3:
            flat = strided(flat, view[1], (view[2],), (1,))
        return _Storage(flat, kind)

    stream.seek(start)
    return _Reader(stream, found).load()


def _exactly(stream: TensorIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise EOFError(f"the file ends within a field of {count} bytes")
    return data


def _next_storage(t: Tensor, stream: TensorIO, kind: Kind, key: str) -> Tensor:
    """The storage at the position of the stream: a count, then the elements."""
    (count,) = struct.unpack("<q", _exactly(stream, 8))
    start = stream.tell()
    width = 1 if kind.dtype is None else kind.dtype.itemsize
    end = start + count * width
    if count < 0 or end > t.shape[0]:
        raise EOFError(f"storage {key!r} lies at {start}..{end} of a file of {t.shape[0]} bytes")
    stream.seek(end)
    return _elements(t[start:end], kind.dtype or dtypes.uint8)


def _entry(value: Any, count: int) -> tuple[Any, ...]:
    """The parts of an entry of the tar container. Raises pickle.UnpicklingError for another number of them."""
    if not isinstance(value, tuple) or len(value) != count:
        raise pickle.UnpicklingError(f"expected an entry of {count}, got {str(value)[:200]}")
    return value


def _load_tar(t: Tensor) -> Any:
    files = tar_extract(t)
    missing = {"storages", "tensors", "pickle"} - files.keys()
    if missing:
        raise ValueError(f"the checkpoint lacks {sorted(missing)}, it has {sorted(files)[:8]}")
    ready: dict[Any, Tensor] = {}
    stream = TensorIO(files["storages"])
    for _ in range(_plain(stream)):
        key, _, kind = _entry(_plain(stream), 3)
        if not isinstance(kind, Kind):
            raise pickle.UnpicklingError(f"storage {key!r} is of {kind!r}")
        ready[key] = _next_storage(files["storages"], stream, kind, key)
    # views of storages: (key, key of the whole, offset, size)
    for view in _plain(stream) if stream.tell() < len(files["storages"]) else []:
        key, root, offset, count = _entry(view, 4)
        ready[key] = strided(ready[root], offset, (count,), (1,))
    tensors: dict[Any, Tensor] = {}
    stream = TensorIO(files["tensors"])
    for _ in range(_plain(stream)):
        key, storage_key, _ = _entry(_plain(stream), 3)
        (rank,) = struct.unpack("<ixxxx", _exactly(stream, 8))
        if not 0 <= rank <= _MAX_RANK:
            raise ValueError(f"tensor {key!r} has {rank} axes")
        size = struct.unpack(f"<{rank}q", _exactly(stream, 8 * rank))
        stride = struct.unpack(f"<{rank}q", _exactly(stream, 8 * rank))
        (offset,) = struct.unpack("<q", _exactly(stream, 8))
        tensors[key] = strided(ready[storage_key], offset, size, stride)
    found = {**ready, **tensors}
    return _Reader(TensorIO(files["pickle"]), lambda pid: found[int(pid)]).load()


@contextlib.contextmanager
def _as_damage() -> Iterator[None]:
    """What a damaged pickle makes the unpickler stumble over, as an UnpicklingError."""
    known = (ValueError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile, tarfile.TarError)
    try:
        yield
    except known:
        raise
    except (
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        struct.error,
        RuntimeError,
    ) as error:
        raise pickle.UnpicklingError(f"the checkpoint is damaged: {error!r}") from error


@accept_filename
def torch_load(t: Tensor) -> dict[str, Tensor]:
    """The object saved by `torch.save`, its tensors on the device of `t`.

    Nothing of the file is run: objects of other projects' classes come back as inert placeholders, functions
    of the standard library are refused. Quantized tensors come back as the numbers they stand for. Raises
    pickle.UnpicklingError that names what is refused, and ValueError, EOFError, zipfile.BadZipFile,
    tarfile.TarError or pickle.UnpicklingError for a damaged file.
    """
    head = t[: min(262, t.shape[0])].data().tobytes() if t.shape[0] else b""
    with _as_damage():
        if head[:2] == b"PK":
            return _load_zip(t)
        if head[257:262] == b"ustar":
            return _load_tar(t)
        if zipfile.is_zipfile(TensorIO(t)):
            return _load_zip(t)
        return _load_stream(t)
