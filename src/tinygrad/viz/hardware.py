"""What accelerators leave in a profile beside times: machine code and counters, as tables.

Called by `tinygrad.viz.serve` and by tools.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

_LINE = re.compile(
    r"^\s*(?P<text>\S.*?)\s*//\s*(?P<at>[0-9A-Fa-f]+):(?P<words>(?:\s+[0-9A-Fa-f]+)+)"
)


def _objdumps() -> list[str]:
    """Those on PATH, the newest first: older ones know fewer processors."""
    names = [*(f"llvm-objdump-{n}" for n in range(24, 13, -1)), "llvm-objdump"]
    found = [path for name in names if (path := shutil.which(name)) is not None]
    if not found:
        raise RuntimeError("disassembly needs llvm-objdump on PATH, none was found: install llvm")
    return found


def _listing(arch: str, lib: bytes) -> str:
    """The text of the first disassembler that can read the file."""
    reasons = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.elf"
        path.write_bytes(lib)
        for tool in _objdumps():
            command = [tool, "--disassemble", f"--mcpu={arch}", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            # an unknown processor is only a warning
            if done.returncode == 0 and "is not a recognized processor" not in done.stderr:
                return done.stdout
            reasons.append(f"\n  {tool}: {done.stderr.strip()[:300]}")
    raise RuntimeError(f"can't disassemble code of {arch}:{''.join(reasons)}")


def llvm_disasm(arch: str, lib: bytes) -> dict[int, tuple[str, int]]:
    """The instructions of an ELF file for the AMD processor `arch`: text and bytes of each by its address.

    Raises RuntimeError where llvm-objdump is missing or does not know the processor.
    """
    code: dict[int, tuple[str, int]] = {}
    for line in _listing(arch, lib).splitlines():
        if (found := _LINE.match(line)) is not None:
            nbytes = sum(len(word) // 2 for word in found["words"].split())
            code[int(found["at"], 16)] = (found["text"], nbytes)
    return code


def _places(sample: Any) -> list[tuple[int, int, int, int]]:
    """(XCC, instance, engine, array) of each value of a counter, in their order in memory."""
    return [
        (xcc, inst, se, sa)
        for xcc in range(sample.xcc)
        for inst in range(sample.inst)
        for se in range(sample.se)
        for sa in range(sample.sa)
    ]


def unpack_pmc(e: Any) -> dict:
    """The counters of one kernel as a table: a row each with its sum and a table of the values by place.

    `e`: a profile event with `sched`, the samples (name, xcc, inst, se, sa, wgp, off, size) and `blob`, u64 values.
    """
    columns = ["XCC", "INST", "SE", "SA", "WGP", "Value"]
    tables: dict[str, list[list[int]]] = defaultdict(list)
    for sample in e.sched:
        nbytes = len(_places(sample)) * sample.wgp * 8
        if sample.off + nbytes > len(e.blob):
            raise ValueError(
                f"counter {sample.name} needs bytes {sample.off} to {sample.off + nbytes}, got {len(e.blob)} bytes"
            )
        values = iter(struct.unpack_from(f"<{nbytes // 8}Q", e.blob, sample.off))
        for place in _places(sample):
            tables[sample.name].extend([*place, wgp, next(values)] for wgp in range(sample.wgp))
    rows = [
        [name, sum(row[-1] for row in table), {"cols": columns, "rows": table}]
        for name, table in tables.items()
    ]
    return {"cols": ["Counter", "Sum"], "rows": rows}
