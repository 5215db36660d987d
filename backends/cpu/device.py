"""The device that runs kernels on the host's own processor.

In: relocatable objects from the compilers beside this file, and launches. Out: effects on host
memory. Memory is shared with the host: views and reads copy nothing. Kernels run before the call
returns, so there is nothing to synchronize but what was submitted on command queues.
"""

from __future__ import annotations

import ctypes
import functools

from tinygrad.backends.cpu._pool import HostBuffer, Kernel
from tinygrad.backends.cpu.compiler import ClangJITCompiler, CPULLVMCompiler
from tinygrad.backends.cpu.loader import LoadedObject
from tinygrad.backends.cpu.queue import CPUQueue, QueueWorker
from tinygrad.backends.cpu.renderer import ClangRenderer, CPULLVMRenderer

from tinygrad.device import (
    BufferSpec,
    CompilerPair,
    CompilerSet,
    DMACPURef,
    LRUAllocator,
)
from tinygrad.helpers import CPU_CC, CPU_COUNT, CPU_LLVM
from tinygrad.runtime.support.hcq import (
    SIGNAL_SIZE,
    HCQBuffer,
    HCQCompiled,
    HCQProgram,
    HCQSignal,
    MMIOInterface,
)


class CPUAllocator(LRUAllocator):
    """Host memory; a handle is a `HostBuffer`. Before it is looked at, what programs put into the device's queue is done."""

    def _alloc(self, size: int, options: BufferSpec) -> HostBuffer:
        if options.external_ptr is not None:
            return HostBuffer(size, options.external_ptr)
        return HostBuffer(size)

    def _copyin(self, dest: HostBuffer, src: memoryview) -> None:
        self.dev.synchronize()
        dest.copy_in(src)

    def _copyout(self, dest: memoryview, src: HostBuffer) -> None:
        self.dev.synchronize()
        src.copy_out(dest)

    def _as_buffer(self, src: HostBuffer) -> memoryview:
        self.dev.synchronize()
        return memoryview(src)

    def _adopt(self, address: int, size: int, owner) -> HostBuffer:
        return HostBuffer(size, address, owner)

    def _offset(self, buf: HostBuffer, size: int, offset: int) -> HostBuffer:
        return buf.view(size, offset)

    def _transfer(self, dest: HostBuffer, src: HostBuffer, sz: int, src_dev=None, dest_dev=None):
        dest.copy_in(memoryview(src)[:sz])

    def _as_dmaref(self, buf: HostBuffer) -> DMACPURef:
        return DMACPURef(buf.address, buf.size)


class CPUProgram(HCQProgram):
    """A loaded kernel, called as `prg(*buffers, vals=(...), wait=False)`.

    `global_size` is (threads, 1, 1) for a kernel that takes its thread id as last argument, and
    absent for others. Returns seconds if `wait`.
    """

    def __init__(self, dev: CPUDevice, name: str, lib: bytes):
        super().__init__(dev, name, lib)
        self.object = LoadedObject(lib)
        self.kernel = Kernel(self.object.function(name), self.object)

    def __call__(
        self,
        *bufs: HostBuffer,
        global_size: tuple[int, int, int] | None = None,
        local_size: tuple[int, int, int] | None = None,
        vals: tuple[int, ...] = (),
        wait: bool = False,
    ) -> float | None:
        threads = 0 if global_size is None else int(global_size[0])
        return self.kernel.launch(bufs, vals, threads, max(1, CPU_COUNT.value), wait)


def _graph_class():
    # the module needs the engine, which in turn opens devices
    from tinygrad.backends.cpu.graph import CPUGraph

    return CPUGraph


class CPUDevice(HCQCompiled):
    """The host as a device; `CPU:1` and so on are the same processor with other memory.

    Tensors launch their kernels directly. Command queues (`queue.py`) are there for programs that record their own.
    """

    records_launches = False

    def __init__(self, device: str = "CPU"):
        pairs = [
            CompilerPair(ClangRenderer, ClangJITCompiler),
            CompilerPair(CPULLVMRenderer, CPULLVMCompiler, ctrl_var=CPU_LLVM),
        ]
        super().__init__(
            device,
            CPUAllocator(self),
            CompilerSet(pairs, ctrl_var=CPU_CC, takes_commands=True),
            self.load,
            HCQSignal,
            CPUQueue,
            graph=_graph_class(),
            group_id="host",
        )

    @functools.cached_property
    def queue_worker(self) -> QueueWorker:
        """Started by the first list that is submitted."""
        return QueueWorker(self)

    def new_signal(self, **kwargs) -> HCQSignal:
        """A signal in memory of its own."""
        memory = (ctypes.c_uint64 * (SIGNAL_SIZE // 8))()
        address = ctypes.addressof(memory)
        view = MMIOInterface(address, SIGNAL_SIZE)
        home = HCQBuffer(address, SIGNAL_SIZE, meta=memory, view=view, owner=self)
        return self.signal_t(base_buf=home, owner=self, **kwargs)

    def _at_profile_finalize(self) -> None:
        """Launches were noted as they ran."""

    def load(self, name: str, lib: bytes) -> CPUProgram:
        """A program from an object's bytes."""
        return CPUProgram(self, name, lib)
