"""DISK: a file as a buffer (`DISK:/path`), mapped into memory and read where it is used."""

from __future__ import annotations

from tinygrad.device import Backend, Compiled


def _open(name: str) -> Compiled:
    from tinygrad.backends.disk.device import DiskDevice

    return DiskDevice(name)


BACKEND = Backend(
    "DISK", None, _open, supports_dtype=lambda dtype: True, storage_only=True, host_only=True
)
