"""The device that interprets kernels in Python.

A kernel is "rendered" to a pickled instruction list (base64, so that it is text like any other source). Memory is Python's own:
a handle is a memoryview, and whatever bytes the user has can be one without a copy.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import pickle
import time

from tinygrad.backends.python.machine import Instruction, Machine

from tinygrad.device import Allocator, BufferSpec, Compiled, Compiler, CompilerPair, CompilerSet
from tinygrad.dtype import PtrDType
from tinygrad.renderer import Renderer
from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp, python_alu

_NO_ARG = frozenset({Ops.SINK, Ops.RANGE, Ops.END, Ops.NOOP, Ops.GROUP})


class PythonRenderer(Renderer):
    """Serialises the instruction list; every operation that Python can compute is native."""

    device = "PYTHON"
    code_for_op = dict(python_alu)

    def render(self, uops: list[UOp]) -> str:
        """Base64 text of the pickled instructions; sources are numbers of earlier instructions."""
        number = {u: i for i, u in enumerate(uops)}
        lines = []
        for u in uops:
            arg = None if u.op in _NO_ARG else u.arg
            missing = [s.op.name for s in u.src if s not in number and u.op is not Ops.SINK]
            if missing:
                raise RuntimeError(
                    f"{u.op.name} uses {', '.join(missing)}, which the instruction list lacks"
                )
            sources = tuple(number[s] for s in u.src if s in number)
            space = u.dtype.addrspace if isinstance(u.dtype, PtrDType) else None
            lines.append(Instruction(u.op, u.dtype, sources, arg, space))
        return base64.b64encode(pickle.dumps(lines)).decode()


class PythonCompiler(Compiler):
    """Text to the pickled instructions."""

    def compile(self, src: str) -> bytes:
        return base64.b64decode(src)


class PythonProgram:
    """A loaded instruction list. Sizes may be left out where the kernel has none."""

    def __init__(self, name: str, lib: bytes):
        self.name = name
        self.machine = Machine(pickle.loads(lib))

    def __call__(
        self,
        *bufs: memoryview,
        global_size=(1, 1, 1),
        local_size=(1, 1, 1),
        vals: tuple[int, ...] = (),
        wait=False,
        **kw,
    ) -> float | None:
        start = time.perf_counter()
        self.machine.launch(bufs, tuple(global_size), tuple(local_size or (1, 1, 1)), vals)
        return time.perf_counter() - start if wait else None


@functools.cache
def _Adopted(size: int) -> type:
    """A type of `size` bytes that somebody else owns."""
    return type("Adopted", (ctypes.c_ubyte * size,), {})


class PythonAllocator(Allocator["PythonDevice"]):
    """Memory is a bytearray, or whatever else has the buffer interface."""

    def _alloc(self, size: int, options: BufferSpec) -> memoryview:
        return memoryview(bytearray(size))

    def _copyin(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src

    def _copyout(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = self._as_buffer(src)

    def _as_buffer(self, src: memoryview) -> memoryview:
        view = memoryview(src)
        return view.cast("B") if view.nbytes else view

    def _adopt(self, address: int, size: int, owner) -> memoryview:
        memory = _Adopted(size).from_address(address)
        memory.owner = owner
        return memoryview(memory).cast("B")

    def _offset(self, buf: memoryview, size: int, offset: int) -> memoryview:
        return self._as_buffer(buf)[offset : offset + size]


class PythonDevice(Compiled):
    """See the module."""

    def __init__(self, device: str):
        pairs = CompilerSet([CompilerPair(PythonRenderer, PythonCompiler)])
        super().__init__(device, PythonAllocator(self), pairs, PythonProgram)
