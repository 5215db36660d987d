"""Records that stand in the `arg` of nodes, and the kinds of axes.

All are immutable and hashable, and print as Python that evaluates back. Made by users and by the
schedule, read by every later stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from tinygrad.helpers import to_function_name


class AxisType(Enum):
    """What becomes of a loop: hardware index, loop, vector lanes, ..."""

    def __repr__(self) -> str:
        return str(self)

    GLOBAL = auto()
    WARP = auto()
    LOCAL = auto()
    LOOP = auto()
    GROUP_REDUCE = auto()
    REDUCE = auto()
    UPCAST = auto()
    UNROLL = auto()
    THREAD = auto()
    OUTER = auto()
    PLACEHOLDER = auto()


# one letter per kind, as kernel names and printed shapes show them, and its colour
_APPEARANCE: dict[AxisType, tuple[str, str]] = {
    AxisType.GLOBAL: ("g", "blue"),
    AxisType.THREAD: ("t", "BLUE"),
    AxisType.LOCAL: ("l", "cyan"),
    AxisType.WARP: ("w", "CYAN"),
    AxisType.LOOP: ("L", "WHITE"),
    AxisType.UPCAST: ("u", "yellow"),
    AxisType.GROUP_REDUCE: ("G", "RED"),
    AxisType.REDUCE: ("R", "red"),
    AxisType.UNROLL: ("r", "magenta"),
    AxisType.OUTER: ("O", "green"),
    AxisType.PLACEHOLDER: ("p", "white"),
}
axis_letters: dict[AxisType, str] = {kind: look[0] for kind, look in _APPEARANCE.items()}
axis_colors: dict[AxisType, str] = {kind: look[1] for kind, look in _APPEARANCE.items()}


@dataclass(frozen=True)
class KernelInfo:
    """The `arg` of a kernel's SINK: its name, how its axes are used, and the optimiser's part.

    `opts_to_apply` None lets the optimiser choose; a tuple, also an empty one, is applied as it is.
    """

    name: str = "test"
    axis_types: tuple[AxisType, ...] = ()
    dont_use_locals: bool = False
    applied_opts: tuple = ()
    opts_to_apply: tuple | None = None

    @property
    def function_name(self) -> str:
        """The name as a C identifier."""
        return to_function_name(self.name)


@dataclass(frozen=True)
class CustomKernel:
    """The `arg` of CUSTOM_KERNEL: builds the kernel from placeholders, and perhaps its gradient."""

    fxn: Callable
    grad_fxn: Callable | None = None
