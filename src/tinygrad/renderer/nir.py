"""Mesa's NIR as a target.

NIR is built in memory by Mesa's own library, not written as text, and this version has no bindings
to that library. The class exists so that programs can ask whether a renderer is one; making one
says what is missing instead of failing later.
"""

from __future__ import annotations

from tinygrad.renderer import Renderer


class NIRRenderer(Renderer):
    """A renderer for Mesa drivers. Raises RuntimeError: there are no bindings to Mesa here yet."""

    suffix = "NIR"
    shared_max = 32768
    global_max = (2147483647, 65535, 65535)
    local_max = (1024, 1024, 64)

    def __init__(self):
        raise RuntimeError(
            "NIR needs bindings to Mesa's compiler library, which this version does not have; "
            "choose another renderer of the device (on CPU: CPU_LLVM=1, or clang)"
        )
