"""Puts a compiled object into executable memory.

In: the bytes of a relocatable ELF object. Out: `LoadedObject`, with the address of each function.
Memory is written first and made executable and read-only afterwards, never both; it is unmapped
when the object dies, so whoever holds a function's address holds the object too.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from tinygrad.backends.cpu._pool import flush_code

from tinygrad.runtime.support.elf import parse_elf
from tinygrad.runtime.support.elf_link import link_image, linked_size

# where kernels find functions the compiler calls: memset and friends, rounding, half conversions
_LIBRARIES = ["libm.so.6", "libgcc_s.so.1"] if os.name == "posix" else []


def _protect(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    access = mmap.PROT_READ | mmap.PROT_EXEC
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise RuntimeError(f"the system refused executable memory for a kernel: {reason}")


class LoadedObject:
    """An object in memory; `functions` maps names to addresses.

    Raises ValueError for bytes that are no such object, AttributeError for an undefined symbol.
    """

    def __init__(self, lib: bytes):
        found = parse_elf(lib)
        size = linked_size(found)
        if size == 0:
            raise ValueError("the object has no code in it")
        self._memory = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        image, constant_size = link_image(found, self.address, _LIBRARIES)
        self._memory[: len(image)] = bytes(image)
        flush_code(self.address, constant_size)
        _protect(self.address, constant_size)
        self.size = size
        shift = size - len(found.image) if len(found.image) > found.code_size else 0
        self.functions = {
            name: self.address + offset + (shift if offset >= found.code_size else 0)
            for name, offset in found.functions().items()
        }

    def function(self, name: str) -> int:
        """Address of `name`, or of the only function there is. Raises RuntimeError if neither."""
        if name in self.functions:
            return self.functions[name]
        if len(self.functions) == 1:
            return next(iter(self.functions.values()))
        raise RuntimeError(f"the object has no function {name!r}; it has {sorted(self.functions)}")
