"""NULL: runs nothing and holds nothing, for looking at schedules and generated code without a machine."""

from __future__ import annotations

from tinygrad.device import Backend, Compiled


def _open(name: str) -> Compiled:
    from tinygrad.backends.null.device import NullDevice

    return NullDevice(name)


BACKEND = Backend("NULL", None, _open, supports_dtype=lambda dtype: True, host_only=True)
