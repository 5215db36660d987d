"""Profile events packed for the page: tracks of ranges, tracks of memory, and markers.

In: events as they were recorded, in any order, with times in microseconds on the clocks of their devices. Out: bytes, little
endian, on one clock that starts with the first event:

    header   u32 duration, u64 highest memory of any device, u32 bytes of the index, u32 tracks
    index    JSON {strings, dtypes: bytes of an element by name, markers: [{name, color, ts}]}
    track    u8 length and name; u8 kind (0 ranges, 1 memory); u32 events
      range  u32 name, u32 1 + group of the rewrite trace or 0, u32 1 + number of the launch or 0, u32 start, f32 length, u32 details
      memory u64 peak; then by time either u8 1, u32 time, u32 buffer, u32 dtype, u64 elements
             or u8 0, u32 time, u32 buffer, u32 users, each u32 name, u32 number of the launch, u32 argument, u8 0 read 1 write 2 both

Strings are numbers into `strings`. Times are u32, so what takes longer than 71 minutes raises struct.error.
Called by `tinygrad.viz.serve`.
"""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tinygrad.device import ProfileDeviceEvent, ProfileGraphEvent
from tinygrad.helpers import (
    ProfileEvent,
    ProfilePointEvent,
    ProfileRangeEvent,
    TracingKey,
    to_function_name,
)

_READ, _WRITE, _BOTH = 0, 1, 2
_HOST_TRACKS = {"USER": 0, "TINY": 1}


def device_sort_fn(track: str) -> tuple:
    """Order of tracks: those of the host, then devices by name and number, each before what belongs to it."""
    match = re.match(r"([^\s:]*)(?::(\d+))?\s*(.*)", track)
    assert match is not None
    name, number, rest = match.groups()
    return (_HOST_TRACKS.get(track, len(_HOST_TRACKS)), name, int(number or 0), rest)


@dataclass
class _Range:
    """One bar. `launch` is its number among all launches, `facts` what was noted when it was launched."""

    name: str
    keys: tuple[str, ...]
    start: Decimal
    end: Decimal
    launch: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Change:
    """Memory of one device: a buffer comes, goes, or is used (`facts` of the launch)."""

    kind: str
    ts: Decimal
    key: int
    facts: dict[str, Any] = field(default_factory=dict)


class _Events:
    """The events by track, on the host's clock."""

    def __init__(self, profile: list[ProfileEvent]):
        self.ranges: dict[str, list[_Range]] = defaultdict(list)
        self.memory: dict[str, list[_Change]] = defaultdict(list)
        self.markers: list[ProfilePointEvent] = []
        self.launches: dict[tuple[str, str], deque[ProfilePointEvent]] = defaultdict(deque)
        self.clocks = {e.device: e for e in profile if isinstance(e, ProfileDeviceEvent)}
        points = [e for e in profile if isinstance(e, ProfilePointEvent)]
        for point in sorted(points, key=lambda e: e.ts):
            self._add_point(point)
        for event in profile:
            if isinstance(event, ProfileRangeEvent) and event.en is not None:
                self._add_range(event)
            elif isinstance(event, ProfileGraphEvent):
                self._add_graph(event)
        for ranges in self.ranges.values():
            ranges.sort(key=lambda r: r.start)
        self._join_launches()

    def _on_host(self, ts: Decimal, device: str, is_copy: bool) -> Decimal:
        clock = self.clocks.get(device)
        if clock is None:
            return ts
        return ts + (clock.copy_tdiff if is_copy else clock.comp_tdiff)

    def _add_point(self, point: ProfilePointEvent) -> None:
        if point.name == "marker":
            self.markers.append(point)
        elif point.name == "exec":
            self.launches[(point.device, to_function_name(point.arg["name"]))].append(point)
        elif point.name in ("alloc", "free"):
            self.memory[point.device].append(_Change(point.name, point.ts, point.key, point.arg))

    def _add_range(self, event: ProfileRangeEvent) -> None:
        name: Any = event.name
        keys: tuple[str, ...] = ()
        if isinstance(name, TracingKey):
            name, keys = name.display_name, tuple(str(key) for key in name.keys)
        assert event.en is not None
        start, end = (self._on_host(t, event.device, event.is_copy) for t in (event.st, event.en))
        self.ranges[event.device].append(_Range(name, (name, *keys), start, end))

    def _add_graph(self, event: ProfileGraphEvent) -> None:
        bars = []
        for entry in event.ents:
            start, end = (
                self._on_host(event.sigs[i], entry.device, entry.is_copy)
                for i in (entry.st_id, entry.en_id)
            )
            bars.append(_Range(entry.name, (entry.name,), start, end))
            self.ranges[entry.device].append(bars[-1])
        if bars:
            whole = (min(b.start for b in bars), max(b.end for b in bars))
            graph = _Range(f"graph of {len(bars)}", (), *whole)
            self.ranges[f"{event.ents[0].device} Graph"].append(graph)

    def _join_launches(self) -> None:
        """Gives bars the facts of their launches: the n-th of a name on a device is its n-th launch."""
        number = 0
        for device, ranges in self.ranges.items():
            for bar in ranges:
                waiting = self.launches.get((device, to_function_name(bar.name)))
                if not waiting:
                    continue
                point = waiting.popleft()
                bar.launch, bar.facts, number = number, point.arg, number + 1
                self._note_uses(bar, point)

    def _note_uses(self, bar: _Range, point: ProfilePointEvent) -> None:
        outputs, inputs = point.arg.get("outputs", ()), point.arg.get("inputs", ())
        for place, (device, key) in enumerate(point.arg.get("bufs", ())):
            mode = _READ if place not in outputs else _BOTH if place in inputs else _WRITE
            use = {"name": bar.name, "launch": bar.launch, "place": place, "mode": mode}
            self.memory[device].append(_Change("use", point.ts, key, use))

    def times(self) -> list[Decimal]:
        out = [m.ts for m in self.markers]
        for ranges in self.ranges.values():
            out.extend(t for bar in ranges for t in (bar.start, bar.end))
        for changes in self.memory.values():
            out.extend(c.ts for c in changes if c.kind != "use")
        return out


class _Strings:
    """Every string once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def _details(bar: _Range) -> str:
    """What the page shows of a bar besides its name and time."""
    facts = bar.facts
    lines: list[str] = []
    microseconds = float(bar.end - bar.start)
    if microseconds > 0:
        rates = ((facts.get("ops", 0), 1e3, "GFLOPS"), (facts.get("mem", 0), 1e3, "GB/s"))
        lines.extend(
            f"{amount / microseconds / unit:.2f} {name}" for amount, unit, name in rates if amount
        )
    if facts.get("var_vals"):
        lines.append(", ".join(f"{name}={value}" for name, value in facts["var_vals"].items()))
    if facts.get("metadata"):
        lines.append(facts["metadata"])
    return "\n".join(lines)


def _pack_ranges(
    ranges: list[_Range], zero: Decimal, text: _Strings, groups: Mapping[str, int]
) -> bytes:
    out = [struct.pack("<BI", 0, len(ranges))]
    for bar in ranges:
        group = next((groups[key] for key in bar.keys if key in groups), None)
        out.append(
            struct.pack(
                "<IIIIfI",
                text(bar.name),
                0 if group is None else group + 1,
                0 if bar.launch is None else bar.launch + 1,
                int(bar.start - zero),
                float(bar.end - bar.start),
                text(_details(bar)),
            )
        )
    return b"".join(out)


class _Memory:
    """The changes of one device packed, with the highest sum of bytes that lived at once."""

    def __init__(self, zero: Decimal, end: Decimal, text: _Strings, sizes: dict[str, int]):
        self.zero, self.end, self.text, self.sizes = zero, end, text, sizes
        self.live: dict[int, tuple[int, list[dict]]] = {}
        self.out: list[bytes] = []
        self.now = self.peak = 0

    def _alloc(self, change: _Change) -> None:
        dtype, size = change.facts["dtype"], change.facts["sz"]
        name = str(dtype)
        self.sizes[name] = dtype.itemsize
        self.live[change.key] = (size * dtype.itemsize, [])
        self.now += size * dtype.itemsize
        self.peak = max(self.peak, self.now)
        where = int(change.ts - self.zero)
        self.out.append(struct.pack("<BIIIQ", 1, where, change.key, self.text(name), size))

    def _free(self, key: int, ts: Decimal) -> None:
        nbytes, users = self.live.pop(key)
        self.now -= nbytes
        packed = [struct.pack("<BIII", 0, int(ts - self.zero), key, len(users))]
        for user in users:
            facts = (self.text(user["name"]), user["launch"], user["place"], user["mode"])
            packed.append(struct.pack("<IIIB", *facts))
        self.out.append(b"".join(packed))

    def pack(self, changes: list[_Change]) -> bytes:
        """What was allocated before the recording is left out, what outlives it is freed at its end."""
        for change in sorted(changes, key=lambda c: c.ts):
            if change.kind == "alloc":
                if change.key in self.live:
                    self._free(change.key, change.ts)
                self._alloc(change)
            elif change.key in self.live:
                if change.kind == "free":
                    self._free(change.key, change.ts)
                else:
                    self.live[change.key][1].append(change.facts)
        for key in list(self.live):
            self._free(key, self.end)
        return struct.pack("<BIQ", 1, len(self.out), self.peak) + b"".join(self.out)


def pack_profile(
    profile: list[ProfileEvent],
    groups: Mapping[str, int],
    sort_fn: Callable[[str], Any] = device_sort_fn,
) -> bytes | None:
    """The packed profile, None for one without events. `groups`: the number of a rewrite group by name."""
    events = _Events(profile)
    times = events.times()
    if not times:
        return None
    zero, end = min(times), max(times)
    text, peak = _Strings(), 0
    sizes: dict[str, Any] = {}
    tracks: dict[str, bytes] = {
        name: _pack_ranges(ranges, zero, text, groups) for name, ranges in events.ranges.items()
    }
    for device, changes in events.memory.items():
        if any(change.kind == "alloc" for change in changes):
            memory = _Memory(zero, end, text, sizes)
            tracks[f"{device} Memory"] = memory.pack(changes)
            peak = max(peak, memory.peak)
    markers = [{**m.arg, "ts": float(m.ts - zero)} for m in events.markers]
    strings = {"strings": list(text.numbers), "dtypes": sizes, "markers": markers}
    index = json.dumps(strings).encode()
    out = [struct.pack("<IQII", int(end - zero), peak, len(index), len(tracks)), index]
    for name in sorted(tracks, key=sort_fn):
        label = name.encode()[:255]
        out.extend((struct.pack("<B", len(label)), label, tracks[name]))
    return b"".join(out)
