"""Which devices this installation has, which of them opens, and the one used when none is named.

A backend is a folder of `tinygrad.backends` whose `__init__` holds a `BACKEND` record and imports nothing heavy; the
folder's name in capitals is the device's. `tinygrad.device.Device` is the one registry. Devices open at most once.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinygrad.helpers import ALLOW_DEVICE_USAGE, DEBUG, getenv

if TYPE_CHECKING:
    from tinygrad.device import Compiled
    from tinygrad.dtype import DType


@dataclass(frozen=True)
class Backend:
    """What a backend folder says about itself; `tinygrad.backends.<folder>.BACKEND`.

    `open(name)` returns the Compiled device and raises with a reason when the machine has none.
    `probe_order`: rank in the search for a default device, lowest first; None = never chosen unasked.
    `supports_dtype(dtype)`: which element types kernels may load, store and compute; None = the common types.
    `storage_only`: holds bytes and runs no kernels, and its memory is not counted as used.
    `host_only`: touches no accelerator, so it may be used where ALLOW_DEVICE_USAGE=0.
    `max_buffers`: how many buffers a kernel may work on; 0 = any number.
    """

    name: str
    probe_order: int | None
    open: Callable[[str], Compiled]
    supports_dtype: Callable[[DType], bool] | None = None
    storage_only: bool = False
    host_only: bool = False
    max_buffers: int = 0


class DeviceRegistry:
    """`Device["CPU"]` opens a device once and returns it; `Device.DEFAULT` is the name used when none is given."""

    def __init__(self) -> None:
        self._opened: dict[str, Compiled] = {}
        self._records: dict[str, Backend] = {}
        self._chosen: str | None = None
        self._checked: set[str] = set()

    @functools.cached_property
    def _devices(self) -> tuple[str, ...]:
        """Names of all backends in this installation, none of them imported."""
        package = importlib.import_module("tinygrad.backends")
        return tuple(
            sorted(m.name.upper() for m in pkgutil.iter_modules(package.__path__) if m.ispkg)
        )

    @property
    def _without_backend(self) -> tuple[str, ...]:
        """Devices of the ecosystem that this installation cannot open; graphs may name them."""
        return importlib.import_module("tinygrad.backends").WITHOUT_BACKEND

    def require_known(self, name: str) -> str:
        """`name`, when it names a device of this installation or of the ecosystem.

        Raises ModuleNotFoundError naming the known devices, ValueError for an instance that is no number.
        """
        if name in self._checked:
            return name
        family, colon, instance = name.partition(":")
        if family not in self._without_backend:
            # what stores may have a path there
            if not self.backend(name).storage_only and colon and not instance.isdecimal():
                raise ValueError(
                    f"device {name!r} has the instance {instance!r}, expected a number as in {family}:1"
                )
        self._checked.add(name)
        return name

    def backend(self, name: str) -> Backend:
        """The BACKEND record of `name` (with or without an instance number).

        Raises ModuleNotFoundError naming the known devices.
        """
        family = name.partition(":")[0].upper()
        if family not in self._devices:
            known = ", ".join(self._devices)
            raise ModuleNotFoundError(
                f"no device is called {name!r}; this installation knows {known}"
            )
        if family not in self._records:
            module = importlib.import_module(f"tinygrad.backends.{family.lower()}")
            self._records[family] = module.BACKEND
        return self._records[family]

    @staticmethod
    @functools.cache
    def _normal_name(name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"a device is named by a str, got {type(name).__name__} {name!r}")
        family, colon, rest = name.partition(":")
        return family.upper() + ("" if rest == "0" else colon + rest)

    def canonicalize(self, device: str | None) -> str:
        """The one spelling of a device name: `None` -> the default, `"cpu:0"` -> `"CPU"`, `"disk:f"` -> `"DISK:f"`."""
        return self._normal_name(self.DEFAULT if device is None else device)

    def __getitem__(self, name: str) -> Compiled:
        opened = self._opened.get(name)
        if opened is not None:
            return opened
        return self._open(self.canonicalize(name))

    def _open(self, name: str) -> Compiled:
        if name in self._opened:
            return self._opened[name]
        record = self.backend(name)
        if not ALLOW_DEVICE_USAGE and not record.host_only:
            raise RuntimeError(
                f"device {name} was asked for where ALLOW_DEVICE_USAGE=0 forbids to open one"
            )
        self._opened[name] = device = record.open(name)
        if DEBUG >= 1:
            print(f"opened device {name}")
        return device

    @property
    def default(self) -> Compiled:
        """The opened default device."""
        return self[self.DEFAULT]

    def get_available_devices(self) -> Iterator[str]:
        """Names of the devices that open on this machine, best first."""
        for record in self._probe_list():
            try:
                self._open(record.name)
                yield record.name
            except Exception as reason:
                if DEBUG >= 2:
                    print(f"device {record.name} does not open: {reason}")

    def _probe_list(self) -> list[Backend]:
        records = [self.backend(name) for name in self._devices]
        return sorted(
            (r for r in records if r.probe_order is not None), key=lambda r: r.probe_order or 0
        )

    @property
    def DEFAULT(self) -> str:
        """Set by assignment, else by `DEV=name`, else by `NAME=1` in the environment, else found by probing."""
        if self._chosen is None:
            self._chosen = self._default_from_environment() or self._default_from_probe()
        return self._chosen

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:
        self._chosen = self._normal_name(name)

    def _default_from_environment(self) -> str | None:
        if named := getenv("DEV", ""):
            return self._computing(self._normal_name(named), f"DEV={named}")
        for name in self._devices:
            if getenv(name) == 1:
                return self._computing(name, f"{name}=1")
        for name in self._without_backend:
            if os.environ.get(name) == "1":
                self.backend(name)  # raises, naming the devices there are
        return None

    def _computing(self, name: str, switch: str) -> str:
        """`name`, which `switch` asks for. Raises RuntimeError for a device that runs no kernels."""
        if self.backend(name).storage_only:
            raise RuntimeError(
                f"{switch} makes {name} the default device, which only stores and computes nothing"
            )
        return name

    def _default_from_probe(self) -> str:
        found = next(self.get_available_devices(), None)
        if found is None:
            tried = ", ".join(r.name for r in self._probe_list())
            raise RuntimeError(f"no usable device; tried {tried} (DEBUG=2 shows why each failed)")
        return found

    def opened(self) -> list[Compiled]:
        """The devices opened so far."""
        return list(self._opened.values())

    @property
    def _opened_devices(self) -> set[str]:
        return set(self._opened)
