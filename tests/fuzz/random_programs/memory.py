"""The model of memory: every value of a program is a view, which says where each of its elements lies.

A view holds byte positions, so that chains of movement operations and bitcasts stay views whatever they are applied to. Position -1
is a zero from padding. Values that are computed get memory of their own. Used by `program`.
"""

from __future__ import annotations

import numpy as np

FLOATS = ("float16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32")
DTYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")


class Refused(Exception):
    """A step means nothing here: shapes that do not fit, memory that may not be written."""


class Memory:
    """Bytes. `native`: the dtype of what is computed into them.

    `settled`: writes are refused, since the program leaves open who would see them. `constant`: one number, which has no memory.
    """

    __slots__ = ("data", "native", "device", "settled", "constant")

    def __init__(self, data: np.ndarray, native: str, device: int):
        self.data, self.native, self.device = data, native, device
        self.settled = self.constant = False


class View:
    """`at`: byte position of each element, which is read as `dtype`. `spread`: elements were expanded on the way."""

    __slots__ = ("memory", "at", "dtype", "spread")

    def __init__(self, memory: Memory, at: np.ndarray, dtype: str, spread: bool = False):
        self.memory, self.at, self.dtype, self.spread = memory, at, dtype, spread

    @staticmethod
    def of(array: np.ndarray, device: int = 0) -> View:
        array = np.asarray(array)
        data = np.frombuffer(array.tobytes(), np.uint8).copy()
        at = np.arange(array.size, dtype=np.int64).reshape(array.shape) * array.itemsize
        return View(Memory(data, array.dtype.name, device), at, array.dtype.name)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.at.shape

    @property
    def device(self) -> int:
        return self.memory.device

    @property
    def opaque(self) -> bool:
        """Whether this shows the bits of floats as integers: only moved and compared, since -0.0 equals 0.0."""
        return self.memory.native in FLOATS and self.dtype != self.memory.native

    def _bytes_at(self) -> np.ndarray:
        return self.at[..., None] + np.arange(np.dtype(self.dtype).itemsize)

    def read(self) -> np.ndarray:
        dtype = np.dtype(self.dtype)
        if not self.at.size or not self.memory.data.size:
            return np.zeros(self.at.shape, dtype)
        values = self.memory.data[self._bytes_at()].view(dtype)[..., 0]
        return np.where(self.at < 0, dtype.type(0), values)

    def write(self, values: np.ndarray) -> None:
        if self.at.size:
            raw = np.ascontiguousarray(np.broadcast_to(values, self.shape), np.dtype(self.dtype))
            itemsize = np.dtype(self.dtype).itemsize
            raw = np.frombuffer(raw.tobytes(), np.uint8).reshape(*self.shape, itemsize)
            self.memory.data[self._bytes_at()] = raw

    def become(self, other: View) -> None:
        """Stands for something else from now on, under all its names."""
        self.memory, self.at, self.dtype, self.spread = (
            other.memory,
            other.at,
            other.dtype,
            other.spread,
        )

    @property
    def in_order(self) -> bool:
        """Whether the elements are all of the memory, in order."""
        size = np.dtype(self.dtype).itemsize
        whole = self.at.size * size == self.memory.data.size
        return whole and np.array_equal(self.at.reshape(-1), np.arange(self.at.size) * size)

    @property
    def distinct(self) -> bool:
        """Whether every element is an element of memory, and no two are the same."""
        return not self.at.size or (self.at.min() >= 0 and np.unique(self.at).size == self.at.size)
