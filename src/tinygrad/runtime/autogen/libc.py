"""Functions of the host's C library, with the types that keep 64-bit addresses whole. Drivers and tests call them.

Addresses are numbers; a call that fails returns what C returns and leaves the reason in `ctypes.get_errno()`.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_long, c_size_t, c_ssize_t, c_void_p

_library = ctypes.CDLL(None, use_errno=True)

# name -> (result, arguments)
_PROTOTYPES: dict[str, tuple] = {
    "memcmp": (c_int, (c_void_p, c_void_p, c_size_t)),
    "memcpy": (c_void_p, (c_void_p, c_void_p, c_size_t)),
    "memmove": (c_void_p, (c_void_p, c_void_p, c_size_t)),
    "memset": (c_void_p, (c_void_p, c_int, c_size_t)),
    "mmap": (c_void_p, (c_void_p, c_size_t, c_int, c_int, c_int, c_long)),
    "munmap": (c_int, (c_void_p, c_size_t)),
    "mprotect": (c_int, (c_void_p, c_size_t, c_int)),
    "madvise": (c_int, (c_void_p, c_size_t, c_int)),
    "mlock": (c_int, (c_void_p, c_size_t)),
    "munlock": (c_int, (c_void_p, c_size_t)),
    "read": (c_ssize_t, (c_int, c_void_p, c_size_t)),
    "write": (c_ssize_t, (c_int, c_void_p, c_size_t)),
}

__all__ = list(_PROTOTYPES)


def __getattr__(name: str):
    """The function `name`; raises AttributeError for one that has no prototype here or that the host lacks."""
    if name not in _PROTOTYPES:
        raise AttributeError(f"no prototype for {name}; there are {', '.join(_PROTOTYPES)}")
    found = getattr(_library, name)
    found.restype, found.argtypes = _PROTOTYPES[name]
    globals()[name] = found
    return found
