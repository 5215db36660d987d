"""Profiles: what a launch records, the packed form, and its page."""

import json
import shutil
import struct
import subprocess
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from tinygrad import Tensor, TinyJit
from tinygrad.device import (
    Buffer,
    ProfileDeviceEvent,
    ProfileGraphEntry,
    ProfileGraphEvent,
)
from tinygrad.dtype import dtypes
from tinygrad.helpers import (
    Context,
    ProfilePointEvent,
    ProfileRangeEvent,
    TracingKey,
    ansistrip,
    cpu_events,
    cpu_profile,
    profile_marker,
)
from tinygrad.viz import serve
from tinygrad.viz.timeline import device_sort_fn, pack_profile

PAGE = Path(serve.__file__).parent / "page"


@pytest.fixture
def profiling():
    cpu_events.clear()
    Buffer.profile_events.clear()
    with Context(PROFILE=1):
        yield
    cpu_events.clear()
    Buffer.profile_events.clear()


def unpacked(packed: bytes) -> dict:
    """The form that `tinygrad.viz.timeline` describes, read back."""
    at = 0

    def take(form: str):
        nonlocal at
        found = struct.unpack_from(f"<{form}", packed, at)
        at += struct.calcsize(f"<{form}")
        return found if len(found) > 1 else found[0]

    def text(length: int) -> str:
        nonlocal at
        at += length
        return packed[at - length : at].decode()

    duration, peak, length, count = take("IQII")
    index = json.loads(text(length))
    tracks = {}
    for _ in range(count):
        name = text(take("B"))
        kind, events = take("BI")
        if kind == 0:
            bars = [take("IIIIfI") for _ in range(events)]
            tracks[name] = [
                (index["strings"][n], ref, launch, start, took, index["strings"][d])
                for n, ref, launch, start, took, d in bars
            ]
            continue
        tracks[name] = [("peak", take("Q"))]
        for _ in range(events):
            alloc, ts, key = take("BII")
            if alloc:
                tracks[name].append(("alloc", ts, key, index["strings"][take("I")], take("Q")))
            else:
                users = [take("IIIB") for _ in range(take("I"))]
                named = [(index["strings"][u[0]], *u[1:]) for u in users]
                tracks[name].append(("free", ts, key, named))
    assert at == len(packed)
    return {"duration": duration, "peak": peak, "tracks": tracks, "markers": index["markers"]}


def at(*times) -> list[Decimal]:
    return [Decimal(t) for t in times]


# ---- recording


def test_launches_and_copies_are_recorded(profiling):
    x = Tensor([1.0, 2.0, 3.0]).realize()
    (x * 3.5).sum().realize()
    ranges = [e for e in cpu_events if isinstance(e, ProfileRangeEvent)]
    copies = [e for e in ranges if e.is_copy]
    assert len(copies) == 1 and copies[0].en > copies[0].st
    points = [e for e in cpu_events if isinstance(e, ProfilePointEvent) and e.name == "exec"]
    kernels = [e for e in ranges if not e.is_copy and e.device == x.device]
    assert [p.arg["name"] for p in points] == [c.name for c in [*copies, *kernels]]
    assert points[-1].arg["outputs"] == [0] and points[-1].arg["inputs"] == [1]
    steps = {
        (e.name.display_name if isinstance(e.name, TracingKey) else e.name).split()[0]
        for e in ranges
        if e.device == "TINY"
    }
    assert {"Schedule", "compile"} <= steps


def test_nothing_is_recorded_when_off():
    cpu_events.clear()
    Buffer.profile_events.clear()
    with Context(PROFILE=0):
        (Tensor([1.0, 2.0]) + 1).realize()
        profile_marker("nobody looks")
        with cpu_profile("block"):
            pass
    assert not cpu_events and not Buffer.profile_events


def test_a_captured_run_shows_every_kernel(profiling):
    @TinyJit
    def step(x):
        return ((x + 1).contiguous() * 2).realize()

    for _ in range(2):
        step(Tensor.empty(64).realize())
    cpu_events.clear()
    step(Tensor.empty(64).realize())
    device = Tensor.empty(1).device
    bars = [e for e in cpu_events if isinstance(e, ProfileRangeEvent) and e.device == device]
    assert len(bars) == 2


def test_errors_end_a_range(profiling):
    with pytest.raises(ZeroDivisionError), cpu_profile("broken"):
        raise ZeroDivisionError
    (event,) = cpu_events
    assert event.name == "broken" and event.en >= event.st


# ---- packing


def test_nothing_packs_to_nothing():
    assert pack_profile([], {}) is None
    assert serve.get_profile([ProfileDeviceEvent("DEV")]) is None


def test_clocks_of_devices_and_links_to_rewrites():
    st, en = at(1000, 1010)
    profile = [
        ProfileDeviceEvent("DEV", Decimal(-1000), Decimal(-100)),
        ProfileRangeEvent("DEV", "kern", st, en),
        ProfileRangeEvent("DEV", "copy", st, en, is_copy=True),
        ProfileRangeEvent("TINY", TracingKey("compile", ("kern",)), *at(5, 25)),
        ProfileRangeEvent("TINY", "never ended", Decimal(3)),
    ]
    tracks = unpacked(pack_profile(profile, {"kern": 7}))["tracks"]
    assert list(tracks) == ["TINY", "DEV"]
    assert tracks["TINY"] == [("compile", 8, 0, 5, 20.0, "")]
    assert [bar[:5] for bar in tracks["DEV"]] == [
        ("kern", 8, 0, 0, 10.0),
        ("copy", 0, 0, 900, 10.0),
    ]


def test_graphs_show_entries_and_the_whole():
    entries = [ProfileGraphEntry("DEV", "first", 0, 1, False), ProfileGraphEntry("DEV:1", "second", 2, 3, True)]  # fmt: skip
    profile = [ProfileGraphEvent(entries, [[], [0]], at(10, 12, 14, 18))]
    tracks = unpacked(pack_profile(profile, {}))["tracks"]
    assert {name: bars[0][3:5] for name, bars in tracks.items()} == {
        "DEV": (0, 2.0), "DEV Graph": (0, 8.0), "DEV:1": (4, 4.0)
    }  # fmt: skip


def launch(name: str, ts: int, bufs, outputs, inputs, **more) -> list:
    facts = {"name": name, "bufs": bufs, "outputs": outputs, "inputs": inputs, **more}
    return [
        ProfilePointEvent("DEV", "exec", name, facts, Decimal(ts)),
        ProfileRangeEvent("DEV", ansistrip(name), *at(ts + 1, ts + 3)),
    ]


def memory(event: str, key: int, ts: int, size: int = 4) -> ProfilePointEvent:
    facts = {"dtype": dtypes.float, "sz": size} if event == "alloc" else {}
    return ProfilePointEvent("DEV", event, key, facts, Decimal(ts))


def test_memory_knows_its_users():
    profile = [
        memory("alloc", 1, 0),
        memory("alloc", 2, 1, 8),
        *launch("\x1b[31mone\x1b[0m", 10, [("DEV", 1)], [0], []),
        *launch(
            "two", 20, [("DEV", 1), ("DEV", 2), ("DEV", 99)], [0, 1], [0, 2], ops=4000, mem=2000
        ),
        memory("free", 1, 30),
        memory("free", 77, 31),
        memory("alloc", 1, 40),
    ]
    found = unpacked(pack_profile(profile, {}))
    assert found["peak"] == 48 and found["duration"] == 40
    peak, *events = found["tracks"]["DEV Memory"]
    assert peak == ("peak", 48)
    assert events[:2] == [("alloc", 0, 1, "dtypes.float", 4), ("alloc", 1, 2, "dtypes.float", 8)]
    assert events[2] == ("free", 30, 1, [("one", 0, 0, 1), ("two", 1, 0, 2)])
    assert events[4:] == [("free", 40, 2, [("two", 1, 1, 1)]), ("free", 40, 1, [])]
    assert [bar[2] for bar in found["tracks"]["DEV"]] == [1, 2]
    assert found["tracks"]["DEV"][1][5] == "2.00 GFLOPS\n1.00 GB/s"


def test_too_long_is_an_error():
    profile = [ProfileRangeEvent("DEV", "k", *at(t, t + 1)) for t in (0, 2**32)]
    with pytest.raises(struct.error):
        pack_profile(profile, {})


def test_order_of_tracks():
    names = ["DEV:10", "DEV Memory", "TINY", "DEV:2", "USER", "DEV", "DEV:2 Graph", "ABC"]
    assert sorted(names, key=device_sort_fn) == [
        "USER", "TINY", "ABC", "DEV", "DEV Memory", "DEV:2", "DEV:2 Graph", "DEV:10"
    ]  # fmt: skip


def test_markers_and_a_real_run(profiling):
    x = Tensor([1.0, 2.0]).realize()
    profile_marker("half")
    (x + 3).realize()
    found = unpacked(serve.get_profile([*cpu_events, *Buffer.profile_events]))
    (marker,) = found["markers"]
    assert marker["name"] == "half"
    bars = found["tracks"][x.device]
    assert bars[0][3] <= marker["ts"] <= bars[-1][3] and bars[-1][2] > 0


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_reads_what_is_packed(tmp_path):
    profile = [
        memory("alloc", 1, 0),
        *launch("one", 10, [("DEV", 1)], [0], []),
        *launch("two", 11, [("DEV", 1)], [], [0]),
        ProfilePointEvent("TINY", "marker", None, {"name": "m", "color": "red"}, Decimal(5)),
    ]
    (tmp_path / "profile").write_bytes(pack_profile(profile, {"one": 4}))
    for name in ("timeline", "text"):
        source = (PAGE / f"{name}.js").read_text().replace("./text.js", "./text.mjs")
        (tmp_path / f"{name}.mjs").write_text(source)
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ unpack, lanes, memorySteps }} from {json.dumps((tmp_path / "timeline.mjs").as_uri())};
        const bytes = readFileSync({json.dumps(str(tmp_path / "profile"))});
        const profile = unpack(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
        const [bars, memory] = profile.tracks;
        console.log(JSON.stringify({{ profile, lanes: lanes(bars.events), steps: memorySteps(memory.events) }}));
    """
    command = ["node", "--input-type=module"]
    done = subprocess.run(command, input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    bars, buffers = found["profile"]["tracks"]
    assert [(b["name"], b["group"], b["launch"], b["start"], b["length"]) for b in bars["events"]] == [
        ("one", 4, 0, 11, 2), ("two", None, 1, 12, 2)
    ]  # fmt: skip
    assert found["lanes"] == 2 and found["steps"] == [[0, 0], [0, 16], [14, 0]]
    assert buffers["events"][1]["users"] == [
        {"name": "one", "launch": 0, "place": 0, "mode": 1},
        {"name": "two", "launch": 1, "place": 0, "mode": 0},
    ]
    assert found["profile"]["markers"][0]["ts"] == 5


# ---- hardware


def _assembler() -> str | None:
    for name in (f"clang-{n}" for n in range(24, 15, -1)):
        if (path := shutil.which(name)) is None:
            continue
        targets = subprocess.run([path, "--print-targets"], capture_output=True, text=True).stdout
        if "amdgcn" in targets:
            return path
    return None


@pytest.mark.skipif(
    _assembler() is None or shutil.which("llvm-objdump") is None,
    reason="needs LLVM for AMD",
)
def test_disassembly(tmp_path):
    (tmp_path / "code.s").write_text(".text\ns_mov_b32 s1, 4\ns_mov_b32 s2, 0x12345678\ns_endpgm\n")
    command = [str(_assembler()), "--target=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-c"]
    subprocess.run([*command, "code.s", "-o", "code.o"], cwd=tmp_path, check=True)
    code = serve.llvm_disasm("gfx1100", (tmp_path / "code.o").read_bytes())
    assert code == {0: ("s_mov_b32 s1, 4", 4), 4: ("s_mov_b32 s2, 0x12345678", 8), 12: ("s_endpgm", 4)}  # fmt: skip
    with pytest.raises(RuntimeError, match="disassemble"):
        serve.llvm_disasm("gfx1100", b"no elf")


@dataclass
class Sample:
    name: str
    xcc: int
    inst: int
    se: int
    sa: int
    wgp: int
    off: int
    size: int = 8


@dataclass
class Counters:
    sched: list[Sample]
    blob: bytes


def test_counters_as_tables():
    event = Counters(
        [Sample("WAVES", 1, 1, 2, 1, 1, 0), Sample("CYCLES", 1, 1, 1, 1, 2, 16)],
        struct.pack("<4Q", 3, 4, 10, 20),
    )
    table = serve.unpack_pmc(event)
    assert [row[:2] for row in table["rows"]] == [["WAVES", 7], ["CYCLES", 30]]
    assert table["rows"][0][2]["rows"] == [[0, 0, 0, 0, 0, 3], [0, 0, 1, 0, 0, 4]]
    with pytest.raises(ValueError, match="needs bytes"):
        serve.unpack_pmc(Counters([Sample("X", 1, 1, 1, 1, 1, 30)], b"\0" * 32))
