"""Memory of a device behind a USB bridge, reached by requests instead of loads and stores."""

from __future__ import annotations

import struct
from typing import Any


class USBMMIOInterface:
    """`size` bytes at `addr` behind `usb`, as elements of the `struct` code `fmt`. Slices of bytes are bytes.

    `pcimem`: PCI memory, element by element; otherwise the bridge's own memory, in blocks.
    """

    def __init__(self, usb: Any, addr: int, size: int, fmt: str, pcimem=True):
        self.usb, self.addr, self.nbytes, self.fmt, self.pcimem = usb, addr, size, fmt, pcimem
        self.itemsize = struct.calcsize(f"<{fmt}")

    def __len__(self) -> int:
        return self.nbytes // self.itemsize

    def _span(self, place: int | slice) -> tuple[int, int]:
        """Address and element count. Raises IndexError outside of the memory."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise ValueError(f"only whole pieces can be transferred, got step {step}")
        else:
            start, stop = place, place + 1
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"elements {start} to {stop} of {len(self)}")
        return self.addr + start * self.itemsize, stop - start

    def _read(self, address: int, count: int) -> bytes:
        if not self.pcimem:
            return self.usb.read(address, count * self.itemsize)
        size = self.itemsize
        values = [self.usb.pcie_mem_req(address + i * size, size=size) for i in range(count)]
        return b"".join(v.to_bytes(size, "little") for v in values)

    def __getitem__(self, place: int | slice) -> Any:
        address, count = self._span(place)
        data = self._read(address, count)
        if isinstance(place, slice) and self.fmt == "B":
            return data
        values = list(struct.unpack(f"<{count}{self.fmt}", data))
        return values if isinstance(place, slice) else values[0]

    def __setitem__(self, place: int | slice, value: Any) -> None:
        address, count = self._span(place)
        values = list(value) if isinstance(place, slice) else [value]
        if len(values) != count:
            raise ValueError(f"{len(values)} values for {count} elements")
        if self.pcimem:
            self.usb.pcie_mem_write(address, values, self.itemsize)
        else:
            self.usb.write(address, struct.pack(f"<{count}{self.fmt}", *values))

    def view(
        self, offset: int = 0, size: int | None = None, fmt: str | None = None
    ) -> USBMMIOInterface:
        """A part: `size` bytes (to the end if None) from byte `offset` on."""
        size = self.nbytes - offset if size is None else size
        return USBMMIOInterface(self.usb, self.addr + offset, size, fmt or self.fmt, self.pcimem)
