"""Kernel optimisation: what may be done to the loops of a kernel, and the record of what was done.

`Opt` and `OptOps` are the public vocabulary: users give lists of them (`contiguous(arg=opts)`, `get_program(ast, ren,
opts)`), the heuristic and BEAM produce them, `KernelInfo.applied_opts` keeps them. They are plain data and pickle.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OptOps(enum.Enum):
    """What is done to one axis. The argument is an amount; 0 means the whole axis."""

    TC = enum.auto()
    UPCAST = enum.auto()
    UNROLL = enum.auto()
    LOCAL = enum.auto()
    THREAD = enum.auto()
    GROUP = enum.auto()
    GROUPTOP = enum.auto()
    NOLOCALS = enum.auto()
    PADTO = enum.auto()
    SWAP = enum.auto()

    def __lt__(self, other: OptOps) -> bool:
        return self.value < other.value


@dataclass(frozen=True, order=True)
class Opt:
    """One step. `axis` counts the kernel's axes in their order at that moment; reduce axes alone for UNROLL and GROUP."""

    op: OptOps
    axis: int | None = None
    arg: int | tuple | None = None

    def __repr__(self) -> str:
        return f"Opt(op={self.op}, axis={self.axis}, arg={self.arg})"


class KernelOptError(Exception):
    """An optimisation does not apply to this kernel or target; the message says why."""


def check(condition: bool, message: str) -> None:
    """Raises KernelOptError(message) unless the condition holds."""
    if not condition:
        raise KernelOptError(message)
