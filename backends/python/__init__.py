"""PYTHON: an interpreter of instruction lists, the reference that other devices are compared with; also holds bytes."""

from __future__ import annotations

from tinygrad.device import Backend, Compiled


def _open(name: str) -> Compiled:
    from tinygrad.backends.python.device import PythonDevice

    return PythonDevice(name)


BACKEND = Backend("PYTHON", 1000, _open, supports_dtype=lambda dtype: True, host_only=True)
