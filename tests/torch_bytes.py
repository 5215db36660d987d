"""PyTorch checkpoints written by hand: a pickler that names globals without importing them.

`Global("torch", "FloatStorage")` is written as that global, `Call(f, *args)` as what f(*args) gives when it is
read, `Storage(...)` as a reference to a storage. The three containers are `zip_checkpoint` (since 1.6),
`stream_checkpoint` (0.1.10 to 1.5) and `tar_checkpoint` (before).
"""

import io
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


@dataclass(frozen=True)
class Global:
    """The name of a class or function."""

    module: str
    name: str

    def __call__(self):
        """Only to look callable to the pickler."""


@dataclass
class Call:
    """What a call gives when the pickle is read; `state` is set on it, `pairs` are put in as items."""

    func: Any
    args: tuple = ()
    state: Any = None
    pairs: tuple = ()


@dataclass
class Storage:
    """A reference to the storage `key` of `count` elements; `view` is (key, offset, count) of a part."""

    kind: Any
    key: Any
    count: Any
    view: Any = ()


@dataclass
class Reference:
    """A reference as it is, such as the number of a tensor in the tar container."""

    key: Any


class _Pickler(pickle._Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Reference):
            return obj.key
        if isinstance(obj, Storage):
            view = obj.view if isinstance(obj.view, tuple) else (obj.view,)
            return ("storage", obj.kind, obj.key, "cpu", obj.count, *view)
        return None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Global):
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            self.save(obj.func)
            self.save(obj.args)
            self.write(pickle.REDUCE)
            for key, value in obj.pairs:
                self.save(key)
                self.save(value)
                self.write(pickle.SETITEM)
            if obj.state is not None:
                self.save(obj.state)
                self.write(pickle.BUILD)
        else:
            super().save(obj, save_persistent_id)


def pickled(obj: Any, protocol: int = 2) -> bytes:
    """The pickle of an object that may hold the classes above."""
    target = io.BytesIO()
    _Pickler(target, protocol).dump(obj)
    return target.getvalue()


def storage(kind: str, key: Any, count: Any, view: Any = ()) -> Storage:
    """A storage of a class of `torch`: "Float", "Half", ..."""
    return Storage(Global("torch", f"{kind}Storage"), key, count, view)


def tensor(place: Any, offset: Any, size: Any, stride: Any, function="_rebuild_tensor_v2") -> Call:
    """A tensor in a storage."""
    rest = () if function == "_rebuild_tensor" else (False, OrderedDict())
    return Call(Global("torch._utils", function), (place, offset, size, stride, *rest))


def zip_checkpoint(obj: Any, storages: dict[str, bytes], order: bytes | None = b"little") -> bytes:
    """The container since 1.6."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("archive/data.pkl", pickled(obj))
        if order is not None:
            archive.writestr("archive/byteorder", order)
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", "3\n")
    return target.getvalue()


def stream_checkpoint(obj: Any, storages: dict[str, tuple[int, bytes]]) -> bytes:
    """The plain stream: of each storage the number of elements and their bytes."""
    system = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"int": 4}}
    out = b"".join(pickled(part) for part in (MAGIC, PROTOCOL, system, obj, sorted(storages)))
    return out + b"".join(
        struct.pack("<q", storages[k][0]) + storages[k][1] for k in sorted(storages)
    )


@dataclass
class TarTensor:
    """A tensor of the tar container: the key of its storage and its view."""

    storage: Any
    offset: int
    size: tuple
    stride: tuple


def tar_checkpoint(
    obj: Any,
    storages: dict[int, tuple[str, int, bytes]],
    tensors: dict[int, TarTensor],
    views: list | None = None,
) -> bytes:
    """The container before 0.1.10; `obj` holds a `Reference` for each tensor."""
    held = pickled(len(storages))
    for key, (kind, count, data) in storages.items():
        held += pickled((key, "cpu", Global("torch", f"{kind}Storage")))
        held += struct.pack("<q", count) + data
    held += pickled(views or [])
    described = pickled(len(tensors))
    for key, t in tensors.items():
        described += pickled((key, t.storage, Global("torch", "FloatTensor")))
        described += struct.pack("<i4x", len(t.size))
        described += struct.pack(f"<{2 * len(t.size)}q", *t.size, *t.stride)
        described += struct.pack("<q", t.offset)
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in (("storages", held), ("tensors", described), ("pickle", pickled(obj))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return target.getvalue()
