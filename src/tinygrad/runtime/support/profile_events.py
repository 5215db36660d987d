"""Records that devices leave when PROFILE is on; the visualiser reads them from the profile file.

Plain frozen data, pickled as they are. `tinygrad.device` re-exports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tinygrad.helpers import ProfileEvent


@dataclass(frozen=True)
class ProfileDeviceEvent(ProfileEvent):
    """A device took part; the differences (microseconds) map its clocks to the host's."""

    device: str
    comp_tdiff: Decimal = Decimal(0)
    copy_tdiff: Decimal = Decimal(0)
    props: dict[str, Any] | None = None


@dataclass(frozen=True)
class ProfileProgramEvent(ProfileEvent):
    """A program was loaded on a device, at address `base` where that is known."""

    device: str
    name: str
    lib: bytes | None
    base: int | None


@dataclass(frozen=True)
class ProfileGraphEntry:
    """One launch of a captured graph; the ids index the timestamps of its ProfileGraphEvent."""

    device: str
    name: str
    st_id: int
    en_id: int
    is_copy: bool


@dataclass(frozen=True)
class ProfileGraphEvent(ProfileEvent):
    """One replay of a captured graph: entries, the entries each waited for, and all timestamps."""

    ents: list[ProfileGraphEntry]
    deps: list[list[int]]
    sigs: list[Decimal]
