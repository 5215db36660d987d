"""What a backend's memory looks like to Buffer: handles in, bytes in and out, freed handles kept for reuse.

`tinygrad.device` re-exports all of it. A handle ("opaque") is whatever the backend likes; only its allocator and its
programs look inside. Invariant: a handle is in use or kept, never both.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tinygrad.dtype import ImageDType
from tinygrad.helpers import LRU

if TYPE_CHECKING:
    from tinygrad.device import Compiled


@dataclass(frozen=True)
class BufferSpec:
    """How memory is to be allocated; part of the key under which an LRUAllocator keeps freed memory."""

    image: ImageDType | None = None
    uncached: bool = False
    cpu_access: bool = field(default=False)
    host: bool = field(default=False)
    nolru: bool = False
    external_ptr: int | None = None


@dataclass
class DMACPURef:
    """Memory another device may reach by host address."""

    addr: int
    size: int


@dataclass
class DMAFdRef:
    """Memory another device may reach through a file descriptor."""

    fd: int
    offset: int
    size: int


DeviceType = TypeVar("DeviceType", bound="Compiled")


class Allocator(Generic[DeviceType]):
    """Memory of one device. A backend gives `_alloc`, `_free`, `_copyin`, `_copyout`, and where it can:

    `_as_buffer(opaque) -> memoryview` (host view of the memory), `_offset(opaque, size, offset)` (a handle inside
    another), `_transfer(dest, src, size, src_dev=, dest_dev=)` (device to device), `_as_dmaref(opaque)`,
    `_adopt(address, size, owner)` (a handle over memory of the host, which keeps its owner).
    """

    accounted = True  # whether the bytes count into GlobalCounters.mem_used
    pickles_content = (
        True  # whether a pickled Buffer carries its bytes; no where they outlive the process
    )

    # whether copies must go by `_copyin` and `_copyout`, which report what a view of the memory can't
    reports_errors = False

    def __init__(self, dev: DeviceType):
        self.dev: DeviceType = dev
        self.default_buffer_spec = BufferSpec()

    def alloc(self, size: int, options: BufferSpec | None = None):
        """A handle of `size` bytes. Raises ValueError for a size below 1, MemoryError when there is no room."""
        if size <= 0:
            raise ValueError(f"can't allocate {size} bytes; a buffer holds at least one element")
        return self._alloc(size, self.default_buffer_spec if options is None else options)

    def free(self, opaque, size: int, options: BufferSpec | None = None):
        """Gives a handle back; it must not be used again."""
        self._free(opaque, self.default_buffer_spec if options is None else options)

    def _alloc(self, size: int, options: BufferSpec):
        raise NotImplementedError(f"{type(self).__name__} gives no _alloc")

    def _free(self, opaque, options: BufferSpec) -> None:
        """Memory that ends with its handle needs no more than this."""

    def _copyin(self, dest, src: memoryview) -> None:
        raise NotImplementedError(f"{type(self).__name__} gives no _copyin")

    def _copyout(self, dest: memoryview, src) -> None:
        raise NotImplementedError(f"{type(self).__name__} gives no _copyout")


class LRUAllocator(Allocator[DeviceType], Generic[DeviceType]):
    """Keeps freed memory by (size, spec) for the next request alike; gives all of it back when memory runs out."""

    def __init__(self, dev: DeviceType):
        super().__init__(dev)
        self.cache: dict[tuple[int, BufferSpec | None], list[Any]] = defaultdict(list)

    def alloc(self, size: int, options: BufferSpec | None = None):
        """Memory of this size and these options: what was freed last, or fresh memory."""
        kept = self.cache.get((size, options))
        if kept:
            try:
                return kept.pop()
            except IndexError:  # another thread took the last one
                pass
        try:
            return super().alloc(size, options)
        except (RuntimeError, MemoryError):
            self.free_cache()
            return super().alloc(size, options)

    def free(self, opaque: Any, size: int, options: BufferSpec | None = None):
        """Keeps the memory for the next `alloc` of its size and options."""
        may_keep = options is None or not (options.nolru or options.external_ptr is not None)
        if LRU and may_keep:
            self.cache[(size, options)].append(opaque)
        else:
            super().free(opaque, size, options)

    def free_cache(self) -> None:
        """Frees everything that is kept."""
        for (size, options), kept in list(self.cache.items()):
            while kept:
                super().free(kept.pop(), size, options)
