"""`tinygrad.runtime.ops_null`: see `tinygrad.backends.null`."""

from tinygrad.backends.null.device import NullAllocator, NullDevice, NullProgram, NullRenderer

__all__ = ["NullAllocator", "NullDevice", "NullProgram", "NullRenderer"]
