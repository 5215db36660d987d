"""tar and zip archives as tensors, without copying what need not be unpacked."""

from __future__ import annotations

import struct
import tarfile
import zipfile
import zlib

from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.tensor import Tensor

try:
    from lzma import LZMAError
except ImportError:
    # a Python without the library refuses such archives before it unpacks anything
    LZMAError = RuntimeError  # type: ignore[misc,assignment]

_LOCAL_HEADER = 30
# deflate, the common method, cannot pack more tightly
_MAX_RATIO = 1100
# what unpackers raise; they also ask for the memory that a damaged header announces
_DAMAGE = (EOFError, LZMAError, MemoryError, OSError, OverflowError, ValueError, zlib.error)


@accept_filename
def tar_extract(t: Tensor) -> dict[str, Tensor]:
    """The files of a tar archive by name, as parts of `t` (copies where the archive is compressed).

    Raises tarfile.TarError for what is no archive or a damaged one.

    >>> import io, tarfile
    >>> buffer = io.BytesIO()
    >>> with tarfile.open(fileobj=buffer, mode="w") as tar:
    ...     entry = tarfile.TarInfo("a.txt")
    ...     entry.size = 2
    ...     tar.addfile(entry, io.BytesIO(b"hi"))
    >>> bytes(nn.state.tar_extract(Tensor(buffer.getvalue()))["a.txt"].tolist())
    b'hi'
    """
    try:
        with tarfile.open(fileobj=TensorIO(t), mode="r:") as archive:
            files = [member for member in archive if member.isfile()]
    except tarfile.TarError:
        return _packed_tar(t)
    except (ValueError, OverflowError, UnicodeError, RecursionError) as error:
        raise tarfile.ReadError(f"the archive is damaged: {error}") from error
    for f in files:
        if f.issparse() or not 0 <= f.offset_data <= f.offset_data + f.size <= t.shape[0]:
            raise tarfile.ReadError(f"{f.name!r} of {f.size} bytes at {f.offset_data} is not whole")
    return {f.name: t[f.offset_data : f.offset_data + f.size] for f in files}


def _packed_tar(t: Tensor) -> dict[str, Tensor]:
    try:
        with tarfile.open(fileobj=TensorIO(t), mode="r:*") as archive:
            members = [member for member in archive if member.isfile()]
            if sum(f.size for f in members) > _MAX_RATIO * t.shape[0]:
                raise tarfile.ReadError("the archive unpacks to more than it can hold")
            return {f.name: Tensor(archive.extractfile(f).read()) for f in members}  # type: ignore[union-attr]
    except (*_DAMAGE, RecursionError) as error:
        raise tarfile.ReadError(f"the archive is damaged: {error}") from error


@accept_filename
def zip_extract(t: Tensor) -> dict[str, Tensor]:
    """The files of a zip archive by name: parts of `t` where stored, copies where compressed.

    Raises zipfile.BadZipFile for what is no archive or a damaged one.

    >>> import io, zipfile
    >>> buffer = io.BytesIO()
    >>> with zipfile.ZipFile(buffer, "w") as archive:
    ...     archive.writestr("a.txt", "hi")
    >>> bytes(nn.state.zip_extract(Tensor(buffer.getvalue()))["a.txt"].tolist())
    b'hi'
    """
    try:
        with zipfile.ZipFile(TensorIO(t), "r") as archive:
            return {info.filename: _member(t, archive, info) for info in archive.infolist()}
    except (*_DAMAGE, RuntimeError, struct.error) as error:
        raise zipfile.BadZipFile(f"the archive is damaged or not supported: {error}") from error


def _member(t: Tensor, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Tensor:
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        if info.file_size > _MAX_RATIO * max(1, info.compress_size):
            raise zipfile.BadZipFile(f"{info.filename!r} unpacks to {info.file_size} bytes")
        return Tensor(archive.read(info))
    # the local header repeats the name and may have other extra fields
    end = info.header_offset + _LOCAL_HEADER
    if not 0 <= info.header_offset <= end <= t.shape[0]:
        raise zipfile.BadZipFile(f"the header of {info.filename!r} lies outside the file")
    header = t[info.header_offset : end].data().tobytes()
    if header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"there is no header of {info.filename!r} at {info.header_offset}")
    start = end + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    if start + info.file_size > t.shape[0]:
        raise zipfile.BadZipFile(f"{info.filename!r} ends behind the file of {t.shape[0]} bytes")
    return t[start : start + info.file_size]
