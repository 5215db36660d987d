"""NPY: NumPy arrays as buffers, so that a tensor made of an array copies it once, to the device that wants it."""

from __future__ import annotations

from tinygrad.device import Backend, Compiled


def _open(name: str) -> Compiled:
    from tinygrad.backends.npy.device import NpyDevice

    return NpyDevice(name)


BACKEND = Backend(
    "NPY", None, _open, supports_dtype=lambda dtype: True, storage_only=True, host_only=True
)
