"""The device that does nothing, at once.

Programs are rendered and "compiled" as they would be for a device with work-groups, then dropped: a launch returns
immediately. Buffers take no memory; zeros are read from one.
"""

from __future__ import annotations

import functools

from tinygrad.device import Allocator, BufferSpec, Compiled, Compiler, CompilerPair, CompilerSet
from tinygrad.renderer.cstyle import CStyleLanguage


class NullRenderer(CStyleLanguage):
    """Generic C-like text with work-groups; nobody reads it but people."""

    device = "NULL"
    has_local = True
    float4 = "float4"
    barrier = "// BARRIER"
    code_for_workitem = {
        "g": lambda axis: f"group_id({axis})",
        "l": lambda axis: f"local_id({axis})",
        "i": lambda axis: f"global_id({axis})",
    }


class NullProgram:
    """Accepts any launch. `wait` gets a nominal millisecond."""

    def __init__(self, device: str, name: str, lib: bytes):
        self.device, self.name, self.lib = device, name, lib

    def __call__(
        self, *bufs, global_size=(1, 1, 1), local_size=(1, 1, 1), vals=(), wait=False, **kw
    ):
        return 1e-3


class NullAllocator(Allocator["NullDevice"]):
    """Handles without memory."""

    def _alloc(self, size: int, options: BufferSpec) -> str:
        return "null"

    def _copyin(self, dest: str, src: memoryview) -> None:
        """Drops the bytes."""

    def _copyout(self, dest: memoryview, src: str) -> None:
        """Zeros, so that nobody sees what lay there before."""
        dest.cast("B")[:] = bytes(dest.nbytes)

    def _transfer(
        self, dest: str, src: str, size: int, src_dev: Compiled, dest_dev: Compiled
    ) -> None:
        """Moves nothing."""

    def _offset(self, buf: str, size: int, offset: int) -> str:
        return buf


class NullDevice(Compiled):
    """See the module."""

    def __init__(self, device: str):
        pairs = CompilerSet([CompilerPair(NullRenderer, Compiler)])
        runtime = functools.partial(NullProgram, device)
        super().__init__(device, NullAllocator(self), pairs, runtime)
