"""`tinygrad.runtime.ops_python`: see `tinygrad.backends.python`."""

from tinygrad.backends.python.device import (
    PythonAllocator,
    PythonCompiler,
    PythonDevice,
    PythonProgram,
    PythonRenderer,
)
from tinygrad.dtype import from_storage_scalar

__all__ = [
    "PythonAllocator",
    "PythonCompiler",
    "PythonDevice",
    "PythonProgram",
    "PythonRenderer",
    "from_storage_scalar",
]
