"""What a launch needs to know of a PROGRAM, without its instructions.

`ProgramFacts.of` reads them from a rendered PROGRAM; `StoredProgram` holds them for a PROGRAM that an earlier process stored,
whose nodes are made only if somebody asks for them. Called by `CompiledRunner` and the cache of programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygrad.renderer import Estimates
from tinygrad.uop.ops import Ops, UOp

# an int, or a symbolic expression
Size = Any


@dataclass(frozen=True)
class ProgramFacts:
    """Name, source and arguments of a kernel, its launch sizes and its work.

    `globals`, `outs`, `ins`: buffer slots used, stored to, loaded from. `var_names`: in the order of the arguments.
    """

    name: str
    function_name: str
    source: str
    applied_opts: tuple
    globals: tuple[int, ...]
    outs: tuple[int, ...]
    ins: tuple[int, ...]
    var_names: tuple[str, ...]
    sizes: tuple[tuple[Size, ...] | None, tuple[Size, ...] | None]
    estimates: Estimates

    @staticmethod
    def of(p: UOp) -> ProgramFacts:
        """The facts of a rendered PROGRAM. Raises TypeError for anything else, naming what it is."""
        _require_rendered(p)
        return ProgramFacts(
            p.name,
            p.src[0].arg.function_name,
            p.src[3].arg,
            p.applied_opts,
            tuple(p.globals),
            tuple(p.outs),
            tuple(p.ins),
            tuple([v.expr for v in p.variables()]),
            p.sizes,
            p.estimates,
        )

    @property
    def is_static(self) -> bool:
        """Whether sizes and work are the same in every launch."""
        work = (self.estimates.ops, self.estimates.lds, self.estimates.mem)
        return all(isinstance(n, (int, float)) for n in (*self.launch_entries(), *work))

    def launch_entries(self) -> list[Size]:
        """All launch sizes in one list."""
        global_size, local_size = self.sizes
        return [*(global_size or ()), *(local_size or ())]


@dataclass
class StoredProgram:
    """A PROGRAM by its facts; `make` gives its nodes, on the device that it was stored from."""

    facts: ProgramFacts
    make: Callable[[], UOp]


def _require_rendered(p: UOp) -> None:
    if not isinstance(p, UOp) or p.op is not Ops.PROGRAM:
        got = p.op if isinstance(p, UOp) else type(p).__name__
        raise TypeError(
            f"CompiledRunner takes a rendered PROGRAM, got {got}; use get_program(ast, renderer)"
        )
    if len(p.src) != 4 or p.src[3].op is not Ops.SOURCE:
        has = ", ".join(s.op.name for s in p.src)
        raise TypeError(
            f"CompiledRunner takes a rendered PROGRAM, this one has only ({has}); render it first"
        )
