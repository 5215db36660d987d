"""`tinygrad.runtime.ops_npy`: see `tinygrad.backends.npy`."""

from tinygrad.backends.npy.device import NpyAllocator, NpyDevice

__all__ = ["NpyAllocator", "NpyDevice"]
