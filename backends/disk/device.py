"""Files as memory.

A device is a file: `DISK:/path`. It is opened when the first buffer of it is allocated, grown to the size asked for, and closed
with the last. A handle is a part of the open file; views are free. Bytes are read and written by calls, which report what goes
wrong: a file that became shorter, a full disk; only who asks for a view of the file gets it mapped. Runs no kernels.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import stat
from dataclasses import dataclass

from tinygrad.device import Allocator, BufferSpec, Compiled


class OpenFile:
    """A file that stays open, and mapped where a view of it was asked for, as long as this lives."""

    def __init__(self, path: str, size: int):
        self.path, self.fd = path, -1
        self.fd, self.writable = _opened(path)
        try:
            info = os.fstat(self.fd)
            self.length = size
            if stat.S_ISREG(info.st_mode):
                self.length = max(size, info.st_size)
                if info.st_size < size:
                    self._grow(info.st_size, size)
        except BaseException:
            self.close()
            raise

    def _grow(self, have: int, size: int) -> None:
        if not self.writable:
            raise OSError(
                errno.EACCES,
                f"{size} bytes were asked for, the file has {have} and can't grow",
                self.path,
            )
        os.ftruncate(self.fd, size)

    def close(self) -> None:
        """Closes the file; views of it keep their bytes."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    __del__ = close

    @functools.cached_property
    def mapping(self) -> mmap.mmap:
        """The whole file. What is shown is not there any more where somebody makes the file shorter."""
        access = mmap.ACCESS_WRITE if self.writable else mmap.ACCESS_READ
        try:
            return mmap.mmap(self.fd, self.length, access=access)
        except ValueError as error:
            raise OSError(errno.EIO, f"{error}: it became shorter", self.path) from error

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fills `target`. Raises OSError where the file has become too short."""
        done = 0
        while done < len(target):
            count = os.preadv(self.fd, [target[done:]], offset + done)
            if not count:
                raise OSError(
                    errno.EIO, f"the file ends at {offset + done}, expected {len(target) - done} bytes more",
                    self.path,
                )  # fmt: skip
            done += count

    def write(self, source: memoryview, offset: int) -> None:
        """Writes all of `source`. Raises OSError where the file can't be written or the disk is full."""
        if not self.writable:
            raise OSError(errno.EACCES, "the file can only be read", self.path)
        done = 0
        while done < len(source):
            done += os.pwrite(self.fd, source[done:], offset + done)


@dataclass(frozen=True)
class DiskBuffer:
    """`size` bytes, `offset` bytes into an open file.

    It keeps the file it was made with: where another file takes the place of this one, as when a checkpoint
    is saved anew, it goes on to hold what it held.
    """

    file: OpenFile
    size: int
    offset: int = 0

    def bytes(self) -> memoryview:
        """The bytes, mapped. They change with the file."""
        return memoryview(self.file.mapping)[self.offset : self.offset + self.size]


class DiskAllocator(Allocator["DiskDevice"]):
    """Parts of the file."""

    accounted = False
    pickles_content = False
    reports_errors = True

    def _alloc(self, size: int, options: BufferSpec) -> DiskBuffer:
        return DiskBuffer(self.dev.hold(size), size)

    def _free(self, opaque: DiskBuffer, options: BufferSpec) -> None:
        self.dev.release()

    def _as_buffer(self, src: DiskBuffer) -> memoryview:
        return src.bytes()

    def _copyin(self, dest: DiskBuffer, src: memoryview) -> None:
        dest.file.write(src, dest.offset)

    def _copyout(self, dest: memoryview, src: DiskBuffer) -> None:
        src.file.read_into(memoryview(dest).cast("B"), src.offset)

    def _offset(self, buf: DiskBuffer, size: int, offset: int) -> DiskBuffer:
        return DiskBuffer(buf.file, size, buf.offset + offset)


def _no_kernels(name: str, lib: bytes):
    raise RuntimeError(
        f"DISK only stores files, it can't run {name}; move the tensor with .to() first"
    )


class DiskDevice(Compiled):
    """A file, by its path. Opening the device does not touch it; allocating does."""

    def __init__(self, device: str):
        self.path = device.partition(":")[2]
        self._holders = 0
        self._file: OpenFile | None = None
        # which file is open, and how large it was: its path may come to name another
        self._opened: tuple[int, int, int] | None = None
        super().__init__(device, DiskAllocator(self), None, _no_kernels)

    @property
    def map(self) -> memoryview:
        """The whole file, mapped."""
        if self._file is None:
            raise RuntimeError(f"{self.device} is not mapped: its buffer was freed")
        return memoryview(self._file.mapping)

    def hold(self, size: int) -> OpenFile:
        """The file, open, with at least `size` bytes. Raises OSError with its path where that fails."""
        if self._file is None or size > self._file.length or self._identity() != self._opened:
            self._file, self._opened = OpenFile(self.path, size), self._identity()
        self._holders += 1
        return self._file

    def _identity(self) -> tuple[int, int, int] | None:
        try:
            info = os.stat(self.path)
        except OSError:
            return None
        return info.st_dev, info.st_ino, info.st_size

    def release(self) -> None:
        """One buffer fewer; the file is closed with the last (and with the last view somebody still has)."""
        self._holders -= 1
        if self._holders == 0:
            self._file = self._opened = None


def _opened(path: str) -> tuple[int, bool]:
    """A descriptor, and whether it can be written. The file is made where there is none."""
    if not path:
        raise OSError("a DISK device needs the path of its file, as in DISK:/tmp/weights")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), True
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
