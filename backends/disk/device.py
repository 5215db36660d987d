"""Files as memory.

A device is a file: `DISK:/path`. It is mapped once, when the first buffer of it is allocated, grown to the size asked for, and
unmapped with the last. A handle is a part of the map; views are free. Reading a tensor from a file copies each byte once, to
where it is wanted. Runs no kernels: only views and copies of a file exist.
"""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass

from tinygrad.device import Allocator, BufferSpec, Compiled


@dataclass(frozen=True)
class DiskBuffer:
    """`size` bytes, `offset` bytes into a mapped file.

    It keeps the map it was made with: where another file takes the place of this one, as when a checkpoint
    is saved anew, it goes on to hold what it held.
    """

    mapping: mmap.mmap
    size: int
    offset: int = 0

    def bytes(self) -> memoryview:
        """The mapped bytes. They change with the file."""
        return memoryview(self.mapping)[self.offset : self.offset + self.size]


class DiskAllocator(Allocator["DiskDevice"]):
    """Parts of the file."""

    accounted = False
    pickles_content = False

    def _alloc(self, size: int, options: BufferSpec) -> DiskBuffer:
        return DiskBuffer(self.dev.hold(size), size)

    def _free(self, opaque: DiskBuffer, options: BufferSpec) -> None:
        self.dev.release()

    def _as_buffer(self, src: DiskBuffer) -> memoryview:
        return src.bytes()

    def _copyin(self, dest: DiskBuffer, src: memoryview) -> None:
        dest.bytes()[:] = src

    def _copyout(self, dest: memoryview, src: DiskBuffer) -> None:
        dest[:] = src.bytes()

    def _offset(self, buf: DiskBuffer, size: int, offset: int) -> DiskBuffer:
        return DiskBuffer(buf.mapping, size, buf.offset + offset)


def _no_kernels(name: str, lib: bytes):
    raise RuntimeError(
        f"DISK only stores files, it can't run {name}; move the tensor with .to() first"
    )


class DiskDevice(Compiled):
    """A file, by its path. Opening the device does not touch it; allocating does."""

    def __init__(self, device: str):
        self.path = device.partition(":")[2]
        self._holders = 0
        self._mapping: mmap.mmap | None = None
        # which file is mapped, and how large it was: its path may come to name another
        self._mapped: tuple[int, int, int] | None = None
        super().__init__(device, DiskAllocator(self), None, _no_kernels)

    @property
    def map(self) -> memoryview:
        """The whole mapped file."""
        if self._mapping is None:
            raise RuntimeError(f"{self.device} is not mapped: its buffer was freed")
        return memoryview(self._mapping)

    def hold(self, size: int) -> mmap.mmap:
        """The file, mapped with at least `size` bytes. Raises OSError with its path where that fails."""
        if self._mapping is None or size > len(self._mapping) or self._identity() != self._mapped:
            self._mapping, self._mapped = self._open_map(size), self._identity()
        self._holders += 1
        return self._mapping

    def _identity(self) -> tuple[int, int, int] | None:
        try:
            info = os.stat(self.path)
        except OSError:
            return None
        return info.st_dev, info.st_ino, info.st_size

    def release(self) -> None:
        """One buffer fewer; the map goes with the last (and with the last view somebody still has)."""
        self._holders -= 1
        if self._holders == 0:
            self._mapping = self._mapped = None

    def _open_map(self, size: int) -> mmap.mmap:
        if not self.path:
            raise OSError("a DISK device needs the path of its file, as in DISK:/tmp/weights")
        fd = self._open_file()
        try:
            info = os.fstat(fd)
            have = info.st_size if stat.S_ISREG(info.st_mode) else size
            if have < size:
                os.ftruncate(fd, size)
                have = size
            writable = os.access(self.path, os.W_OK)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            return mmap.mmap(fd, have, access=access)
        finally:
            os.close(fd)

    def _open_file(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT)
        except OSError:
            return os.open(self.path, os.O_RDONLY)
