"""Raw access to memory and files that drivers need: registers and rings by address, device nodes by file descriptor."""

from __future__ import annotations

import array
import ctypes
import fcntl
import mmap
import os
from typing import Any

from tinygrad.helpers import to_mv


class MMIOInterface:
    """`nbytes` of memory at `addr` as elements of the `struct` code `fmt`. Slices are lists."""

    def __init__(self, addr: int, nbytes: int, fmt="B"):
        self.addr, self.nbytes, self.fmt = addr, nbytes, fmt
        self.mv = to_mv(addr, nbytes).cast(fmt)

    def __len__(self) -> int:
        return self.nbytes // self.mv.itemsize

    def __getitem__(self, place: int | slice) -> Any:
        return self.mv[place].tolist() if isinstance(place, slice) else self.mv[place]

    def __setitem__(self, place: int | slice, value: Any) -> None:
        if not isinstance(place, slice):
            self.mv[place] = value
        elif isinstance(value, array.array) and value.typecode == self.fmt:
            self.mv[place] = value
        else:
            self.mv[place] = array.array(self.fmt, value)

    def view(self, offset: int = 0, size: int | None = None, fmt=None) -> MMIOInterface:
        """A part: `size` bytes (to the end if None) from byte `offset` on."""
        size = self.nbytes - offset if size is None else size
        if offset < 0 or size < 0 or offset + size > self.nbytes:
            raise ValueError(
                f"a view of {size} bytes at {offset} is outside of {self.nbytes} bytes"
            )
        return MMIOInterface(self.addr + offset, size, self.fmt if fmt is None else fmt)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value


def _map(start: int, size: int, prot: int, flags: int, fd: int, offset: int) -> int:
    found = _libc.mmap(start, size, prot, flags, fd, offset)
    if found == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"can't map {size:#x} bytes at {start:#x}: {os.strerror(number)}")
    return found or 0


class FileIOInterface:
    """A file or device node. It owns the descriptor, opened from `path` or given as `fd`."""

    def __init__(self, path: str = "", flags: int = os.O_RDONLY, fd: int | None = None):
        self.path = path
        self.fd: int = os.open(path, flags) if fd is None else fd

    def __del__(self):
        if hasattr(self, "fd"):
            os.close(self.fd)

    def ioctl(self, request, arg):
        """Calls the driver. Raises OSError."""
        return fcntl.ioctl(self.fd, request, arg)

    def mmap(self, start, sz, prot, flags, offset):
        """The address of a mapping of the file."""
        return _map(start, sz, prot, flags, self.fd, offset)

    def read(self, size=None, binary=False, offset=None):
        """What the file holds from `offset` (or the current place) on, as text or bytes."""
        if offset is not None:
            self.seek(offset)
        with open(self.fd, "rb" if binary else "r", closefd=False) as file:
            return file.read(size)

    def write(self, content, binary=False, offset=None):
        """Writes text or bytes at `offset` (or the current place)."""
        if offset is not None:
            self.seek(offset)
        with open(self.fd, "wb" if binary else "w", closefd=False) as file:
            file.write(content)

    def listdir(self):
        """Names in a directory."""
        return os.listdir(self.path)

    def seek(self, offset):
        os.lseek(self.fd, offset, os.SEEK_SET)

    @staticmethod
    def anon_mmap(start, sz, prot, flags, offset):
        """The address of memory that belongs to no file."""
        return _map(start, sz, prot, flags | mmap.MAP_ANONYMOUS, -1, offset)

    @staticmethod
    def munmap(buf, sz):
        return _libc.munmap(buf, sz)

    @staticmethod
    def exists(path):
        return os.path.exists(path)

    @staticmethod
    def readlink(path):
        return os.readlink(path)

    @staticmethod
    def eventfd(initval, flags=None):
        """A descriptor that other threads can signal and wait for."""
        return FileIOInterface(fd=os.eventfd(initval, os.EFD_CLOEXEC if flags is None else flags))
