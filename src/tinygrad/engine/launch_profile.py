"""One launch under PROFILE: when it ran, on which buffers, and how much work it was.

Called by `ExecItem.run`; the visualiser joins the point noted before a launch with the range of its run by name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from tinygrad.device import Buffer
from tinygrad.helpers import ProfilePointEvent, cpu_events, cpu_profile
from tinygrad.uop.ops import sym_infer

if TYPE_CHECKING:
    from tinygrad.engine.realize import ExecItem


def _argument_uses(facts: Any, count: int) -> tuple[list[int], list[int]]:
    """Which arguments a kernel writes and which it reads; a copy writes its first."""
    if facts is None:
        return [0], list(range(1, count))
    place = {slot: i for i, slot in enumerate(facts.globals)}
    known = len(place) == count
    return (
        [place[slot] if known else slot for slot in facts.outs],
        [place[slot] if known else slot for slot in facts.ins],
    )


def _note(item: ExecItem, bufs: list[Buffer], var_vals: dict[str, int], is_graph: bool) -> None:
    prg = item.prg
    assert prg is not None
    outputs, inputs = _argument_uses(getattr(prg, "facts", None), len(bufs))
    facts = {
        "name": prg.display_name,
        "metadata": ", ".join(dict.fromkeys(str(m) for m in item.metadata)),
        "var_vals": {name: value for name, value in var_vals.items() if isinstance(value, int)},
        "bufs": [] if is_graph else [(b.device, b.trace_num) for b in bufs],
        "outputs": outputs,
        "inputs": inputs,
        "ops": sym_infer(prg.estimates.ops, var_vals),
        "mem": sym_infer(prg.estimates.mem, var_vals),
    }
    key = item.ast.key.hex()
    cpu_events.append(ProfilePointEvent(prg.device, "exec", key, facts))


def profiled_launch(
    item: ExecItem,
    bufs: list[Buffer],
    var_vals: dict[str, int],
    is_copy: bool,
    launch: Callable[[], float | None],
) -> float | None:
    """Launches and records it. Devices that note times on their own clock are left to do so."""
    prg = item.prg
    assert prg is not None
    _note(item, bufs, var_vals, is_graph=hasattr(prg, "jit_cache"))
    own_clock = prg.dev.records_launches and not is_copy
    timer: AbstractContextManager = (
        nullcontext() if own_clock else cpu_profile(prg.display_name, prg.device, is_copy=is_copy)
    )
    with timer:
        return launch()
