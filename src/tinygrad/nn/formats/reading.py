"""Tensors as files, and functions that take a file name or its bytes."""

from __future__ import annotations

import functools
import io
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeVar

from tinygrad.dtype import dtypes
from tinygrad.tensor import Tensor
from tinygrad.tensor.memory import is_storage

T = TypeVar("T")
# a read of a tensor costs some 100 us, however short; parsers read a few bytes at a time
_WINDOW = 1 << 20


class TensorIO(io.RawIOBase, BinaryIO):
    """A 1-d uint8 tensor as a readable file. Raises ValueError for other tensors.

    Reads ahead: what is written to the tensor afterwards may not show.

    >>> io = nn.state.TensorIO(Tensor(bytes([1, 2, 3])))
    >>> list(io.read(2)), list(io.read(2))
    ([1, 2], [3])
    """

    def __init__(self, t: Tensor):
        if t.ndim != 1 or t.dtype is not dtypes.uint8:
            raise ValueError(f"a file is a 1-d uint8 tensor, got shape {t.shape} and {t.dtype}")
        self._position, self._tensor = 0, t
        self._ahead, self._ahead_start = b"", 0

    def _bytes(self, start: int, end: int) -> bytes:
        """The bytes of a range inside the tensor; those after it are kept at hand."""
        if not is_storage(self._tensor.device):
            # each read of a value that is still to be computed, or copied, would do all of it
            self._tensor.realize()
        if end - start >= _WINDOW:
            return self._tensor[start:end].data().tobytes()
        first = start - self._ahead_start
        if first < 0 or end > self._ahead_start + len(self._ahead):
            until = min(len(self._tensor), start + _WINDOW)
            self._ahead = self._tensor[start:until].data().tobytes()
            self._ahead_start, first = start, 0
        return self._ahead[first : first + end - start]

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes from here (all of them for -1)."""
        end = len(self._tensor) if size < 0 else min(len(self._tensor), self._position + size)
        part = self._bytes(self._position, end) if end > self._position else b""
        self._position = max(end, self._position)
        return part

    def readinto(self, buffer: Any) -> int:
        """Fills `buffer` as far as there are bytes; returns how many."""
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves to an offset from the start, from here or from the end, kept inside the file."""
        start = (0, self._position, len(self._tensor))[whence]
        self._position = min(len(self._tensor), max(0, start + offset))
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    # the typing base class asks for these
    def __enter__(self):
        return self

    def write(self, s: Any):
        """Raises io.UnsupportedOperation."""
        raise io.UnsupportedOperation("a TensorIO cannot be written")

    def writelines(self, lines: Iterable[Any]):
        """Raises io.UnsupportedOperation."""
        raise io.UnsupportedOperation("a TensorIO cannot be written")


def accept_filename(func: Callable[[Tensor], T]) -> Callable[[Tensor | str | pathlib.Path], T]:
    """`func` that also takes the name of a file for the tensor of its bytes."""

    @functools.wraps(func)
    def call(fn: Tensor | str | pathlib.Path) -> T:
        return func(Tensor(pathlib.Path(fn)) if isinstance(fn, (str, pathlib.Path)) else fn)

    return call
