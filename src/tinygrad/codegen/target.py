"""What the lowering assumes when no renderer is given.

`PlainTarget` carries the capability attributes of a renderer with the values of an unrestricted
one, so that a sink can be lowered and looked at without choosing a device. The lowering reads a
target only through these names; renderers live above this layer and are passed in.
"""

from __future__ import annotations

from typing import Any

_ANY_SIZE = (2**31 - 1,) * 3
# strides along a vector whose lanes are picked from that many whole vectors
PICKED_STRIDES = (2, 4)


class PlainTarget:
    """A target with group memory and four-wide accesses, whose ops are all that exist."""

    device = ""
    supports_float4 = True
    has_local = True
    has_shared = True
    has_threads = False
    global_max: tuple[int, ...] | None = _ANY_SIZE
    local_max: tuple[int, ...] | None = _ANY_SIZE
    shared_max = 32768
    tensor_cores: list = []
    pre_matcher = None
    extra_matcher = None
    code_for_op: dict = {}
    vector_bytes = 0
    vector_registers = 16
    masked_lanes = False
    threads = 1


def native_lanes(ren: Any, itemsize: int = 4) -> int:
    """Lanes of one native vector register for elements of `itemsize` bytes; 1 without vectors."""
    width = getattr(ren, "vector_bytes", 0)
    return max(1, width // itemsize) if width else 1
