"""Storage in NumPy arrays: a handle is an array, contiguous or not. Runs no kernels."""

from __future__ import annotations

import numpy as np

from tinygrad.device import Allocator, BufferSpec, Compiled


class NpyAllocator(Allocator["NpyDevice"]):
    """Bytes of arrays; an array that is not contiguous is made so when it is read."""

    accounted = False

    def _alloc(self, size: int, options: BufferSpec) -> np.ndarray:
        return np.empty(size, np.uint8)

    def _as_buffer(self, src: np.ndarray) -> memoryview:
        return memoryview(np.require(src, requirements="C").reshape(-1).view(np.uint8))

    def _copyin(self, dest: np.ndarray, src: memoryview) -> None:
        dest.reshape(-1).view(np.uint8)[:] = src

    def _copyout(self, dest: memoryview, src: np.ndarray) -> None:
        dest[:] = self._as_buffer(src)


def _no_kernels(name: str, lib: bytes):
    raise RuntimeError(
        f"NPY only stores arrays, it can't run {name}; move the tensor with .to() first"
    )


class NpyDevice(Compiled):
    """See the module."""

    def __init__(self, device: str):
        super().__init__(device, NpyAllocator(self), None, _no_kernels)
