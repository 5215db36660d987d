"""tar and zip archives as tensors, without copying what need not be unpacked."""

from __future__ import annotations

import tarfile
import zipfile

from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.tensor import Tensor


@accept_filename
def tar_extract(t: Tensor) -> dict[str, Tensor]:
    """The files of a tar archive by name, as parts of `t`."""
    with tarfile.open(fileobj=TensorIO(t), mode="r") as archive:
        files = [member for member in archive if member.isfile()]
        return {f.name: t[f.offset_data : f.offset_data + f.size] for f in files}


@accept_filename
def zip_extract(t: Tensor) -> dict[str, Tensor]:
    """The files of a zip archive by name: parts of `t` where stored, copies where compressed."""
    files: dict[str, Tensor] = {}
    with zipfile.ZipFile(TensorIO(t), "r") as archive:
        for info in archive.infolist():
            if info.compress_type == zipfile.ZIP_STORED:
                # the local header repeats the name and may have other extra fields
                header = t[info.header_offset : info.header_offset + 30].data().tobytes()
                name_size = int.from_bytes(header[26:28], "little")
                extra_size = int.from_bytes(header[28:30], "little")
                start = info.header_offset + 30 + name_size + extra_size
                files[info.filename] = t[start : start + info.file_size]
            else:
                files[info.filename] = Tensor(archive.read(info.filename))
    return files
