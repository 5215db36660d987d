"""What DEBUG>=2 prints about each step that ran, in columns that line up and fit a terminal.

In: an item, its time in seconds and its work. Out: one line on stdout, of at most 127 characters but for what a long name
takes and for the tensor operations at its end, which a terminal shows as far as it is wide. Called by `ExecItem.run` and
graph replays.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from tinygrad.common.text import NO_COLOR
from tinygrad.helpers import GlobalCounters, ansilen, ansistrip, colored, time_to_str

if TYPE_CHECKING:
    from tinygrad.engine.realize import ExecItem

_NAME_COLUMNS = 33


def _rate(amount: float, seconds: float) -> float:
    """Giga-units a second."""
    return amount * 1e-9 / seconds if seconds > 0 else 0.0


def _name_column(name: str) -> str:
    # programs of earlier processes may have colours in their names
    name = ansistrip(name) if NO_COLOR else name
    return name + " " * max(0, _NAME_COLUMNS - ansilen(name))


def _count_color(jit: bool, first_run: bool) -> str | None:
    if jit:
        return "magenta"
    return "green" if first_run else None


def _time_column(took: float) -> str:
    text = time_to_str(took, w=7)
    return colored(text, "yellow") if took > 0.01 else text


def print_item(
    item: ExecItem,
    buffer_count: int,
    took: float | None,
    ops: float,
    lds: float,
    mem: float,
    jit: bool,
) -> None:
    """One line: device, number, name, arguments, memory in use, time, rates, and the tensor operations it came from.

    Rates are operations, then bytes loaded and stored, and bytes that had to move, all in 1e9 a second.
    """
    prg = item.prg
    assert prg is not None
    number = colored(f"{GlobalCounters.kernel_count:5d}", _count_color(jit, prg.first_run))
    line = (
        f"*** {prg.device[:7]:6s} {number} {_name_column(prg.display_name)} arg {buffer_count:2d} "
        f"mem {GlobalCounters.mem_used / 1e9:5.2f} GB"
    )
    if took is not None:
        total = f"{GlobalCounters.time_sum_s * 1e3:7.2f}ms"
        line += f" tm {_time_column(took)}/{total} ({_rate(ops, took):7.2f} GFLOPS"
        line += f" {_rate(mem, took):5.1f}|{_rate(lds, took):<5.1f} GB/s)"
    if item.metadata:
        line += _that_fits(f" {[str(m) for m in dict.fromkeys(item.metadata)]}", ansilen(line))
    print(line)


def _that_fits(text: str, taken: int) -> str:
    """The text, cut where a terminal would wrap it; whole where the output goes elsewhere."""
    if not sys.stdout.isatty():
        return text
    room = max(0, shutil.get_terminal_size().columns - taken)
    return text if len(text) <= room else text[: max(0, room - 1)] + "…" * (room > 0)
