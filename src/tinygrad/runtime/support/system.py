"""Finding PCI devices and reaching their registers through the kernel's files, for drivers without a kernel module of their own.

In: vendor and device numbers. Out: devices on the bus, their configuration words and their memory regions (BARs) as
`MMIOInterface`. Everything is read from `/sys/bus/pci/devices` (Linux, Documentation/PCI/sysfs-pci.rst).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinygrad.runtime.support.mmio import FileIOInterface, MMIOInterface

PCI_ROOT = Path("/sys/bus/pci/devices")


def pci_scan(vendor: int, devices: Sequence[int], root: Path = PCI_ROOT) -> list[Path]:
    """The folders of the devices with one of these numbers, in the order of the bus."""
    found = []
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        numbers = [int((folder / name).read_text(), 16) for name in ("vendor", "device")]
        if numbers[0] == vendor and numbers[1] in devices:
            found.append(folder)
    return found


class PCIDevice:
    """One device: `bars` gives (address on the bus, size) of each memory region that is there, by number."""

    def __init__(self, folder: Path):
        self.folder, self.address = folder, folder.name
        lines = (folder / "resource").read_text().splitlines()[:6]
        spans = [[int(number, 16) for number in line.split()[:2]] for line in lines]
        self.bars = {i: (low, high - low + 1) for i, (low, high) in enumerate(spans) if high > low}

    def read_config(self, offset: int, size: int) -> int:
        """`size` bytes of the configuration space as a number."""
        with (self.folder / "config").open("rb") as config:
            config.seek(offset)
            return int.from_bytes(config.read(size), "little")

    def map_bar(self, bar: int, offset: int = 0, size: int | None = None, fmt="B") -> MMIOInterface:
        """A memory region, from `offset` on, as elements of `fmt`. Raises RuntimeError where there is no such region."""
        if bar not in self.bars:
            raise RuntimeError(f"{self.address} has the regions {sorted(self.bars)}, not {bar}")
        size = self.bars[bar][1] - offset if size is None else size
        file = FileIOInterface(str(self.folder / f"resource{bar}"), os.O_RDWR)
        shared, both = mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
        return MMIOInterface(file.mmap(0, size, both, shared, offset), size, fmt)


class PCIIfaceBase:
    """What a driver of a PCI device starts from: number `dev_id` of the devices found, as `pci_dev`.

    Raises RuntimeError where the bus has fewer.
    """

    def __init__(
        self, dev: Any, dev_id: int, vendor: int, devices: Sequence[int], root: Path = PCI_ROOT
    ):
        found = pci_scan(vendor, devices, root)
        if dev_id >= len(found):
            raise RuntimeError(
                f"device {dev_id} of vendor {vendor:#06x} is wanted, the bus has {len(found)}"
            )
        self.dev, self.dev_id = dev, dev_id
        self.pci_dev = PCIDevice(found[dev_id])
