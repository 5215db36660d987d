"""`tinygrad.runtime.ops_disk`: see `tinygrad.backends.disk`."""

from tinygrad.backends.disk.device import DiskAllocator, DiskBuffer, DiskDevice

__all__ = ["DiskAllocator", "DiskBuffer", "DiskDevice"]
