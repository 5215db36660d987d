"""What DEBUG prints: a line for every step that users can read in columns, and more with every level."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from tinygrad import Device, Tensor
from tinygrad.engine.realize import _kind_cache, method_cache
from tinygrad.helpers import Context, ansistrip

_LINE = re.compile(
    r"\*\*\* (?P<device>\S+) +(?P<number>\d+) (?P<name>.+?) +arg +(?P<args>\d+) mem +[\d.]+ GB tm +[\d.]+(us|ms|s )/ *[\d.]+ms "
    r"\( *[\d.]+ GFLOPS +[\d.]+\|[\d.]+ +GB/s\)( (?P<calls>\[.*\]))?"
)


def _lines(capsys, level: int) -> list[str]:
    """What is printed about a kernel, a copy to another device, and a kernel there."""
    method_cache.clear()
    _kind_cache.clear()
    x = Tensor.ones(64, 64).contiguous().realize()
    capsys.readouterr()
    with Context(DEBUG=level, CCACHE=0):
        (x.matmul(x).sum(0).to("CPU:1") + 1).realize()
    return [ansistrip(line) for line in capsys.readouterr().out.splitlines()]


def test_lines_of_steps(capsys):
    lines = [line for line in _lines(capsys, 2) if line.startswith("***")]
    found = [_LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    assert [m["device"] for m in found] == ["CPU", "CPU:1", "CPU:1"]
    assert "matmul" in found[0]["calls"] and found[1]["name"].startswith("xfer")
    numbers = [int(m["number"]) for m in found]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    # the columns line up, and leave room in a terminal of usual width
    assert (
        len({tuple(line.index(w) for w in (" arg ", " mem ", " tm ", "GFLOPS")) for line in lines})
        == 1
    )
    assert all(m.end("calls") - len(m["calls"] or "") <= 128 for m in found)


def test_each_level_adds_something(capsys):
    text = {level: "\n".join(_lines(capsys, level)) for level in range(8)}
    assert text[0] == text[1] == ""
    marks = {2: "GFLOPS", 3: "Opt(op=", 4: "void r_", 5: "UOp(Ops.SINK", 6: "   0 DEFINE_GLOBAL"}
    if Device["CPU"].renderer.suffix == "":
        marks.pop(4)
    for level, mark in marks.items():
        assert mark in text[level] and mark not in text[level - 1], level
    if shutil.which("objdump"):
        assert "Disassembly" in text[7] and "Disassembly" not in text[6]


def test_colours_are_left_out_on_request(tmp_path):
    code = "from tinygrad import Tensor; (Tensor([1.0]).realize() + 1).tolist()"
    env = {**os.environ, "CACHEDB": str(tmp_path / "cache.db"), "CPU": "1", "DEBUG": "2"}
    for switch, has_codes in (("", True), ("1", False)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**env, "NO_COLOR": switch},
            capture_output=True,
            text=True,
        )
        assert "GFLOPS" in done.stdout and ("\x1b" in done.stdout) is has_codes
