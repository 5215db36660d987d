"""Code generation: from a kernel AST to a PROGRAM with its instructions and source.

`full_rewrite_to_sink` lowers (see `pipeline`), `full_rewrite_to_program` goes on through
`pm_to_program`, whose rules append one source to the PROGRAM at a time: the instructions, then the
text. The engine calls these; tools may stop after any step.
"""

from __future__ import annotations

from typing import Any

from tinygrad.codegen.late.finish import line_rewrite, pm_linearize_cleanups
from tinygrad.codegen.late.linearizer import linearize
from tinygrad.codegen.pipeline import lower
from tinygrad.codegen.statistics import measured
from tinygrad.codegen.target import PlainTarget
from tinygrad.uop import Ops
from tinygrad.uop.ops import KernelInfo, PatternMatcher, UOp, UPat, graph_rewrite

__all__ = [
    "full_rewrite_to_program",
    "full_rewrite_to_sink",
    "line_rewrite",
    "linearize",
    "pm_linearize_cleanups",
    "pm_to_program",
]


def full_rewrite_to_sink(sink: UOp, ren: Any = None, optimize: bool = True) -> UOp:
    """The kernel AST `sink` lowered for renderer `ren` (an unrestricted target when None).

    With `optimize` off no optimisation is chosen or applied.
    """
    return lower(sink, PlainTarget() if ren is None else ren, optimize)


def _instructions(sink: UOp) -> list[UOp]:
    return line_rewrite(linearize(sink), pm_linearize_cleanups)


def _add_instructions(program: UOp) -> UOp:
    """PROGRAM(SINK, DEVICE) gets its linear list."""
    lines = measured("linearize", _instructions, program.src[0])
    return program.replace(src=(*program.src, UOp(Ops.LINEAR, src=tuple(lines))))


def _add_source(ctx: Any, program: UOp) -> UOp:
    """PROGRAM(SINK, DEVICE, LINEAR) gets its text."""
    text = measured("render", ctx.render, list(program.src[2].src))
    return program.replace(src=(*program.src, UOp(Ops.SOURCE, arg=text)))


pm_to_program = PatternMatcher(
    [
        (
            UPat(Ops.PROGRAM, src=(UPat(Ops.SINK), UPat(Ops.DEVICE)), name="program"),
            _add_instructions,
        ),
        (
            UPat(
                Ops.PROGRAM,
                src=(UPat(Ops.SINK), UPat(Ops.DEVICE), UPat(Ops.LINEAR)),
                name="program",
            ),
            _add_source,
        ),
    ]
)


def full_rewrite_to_program(sink: UOp, ren: Any) -> UOp:
    """The rendered PROGRAM of the kernel AST `sink` for renderer `ren`.

    A sink with a tag is taken as it is: nothing is optimised.
    """
    if sink.arg is None:
        sink = sink.replace(arg=KernelInfo())
    lowered = full_rewrite_to_sink(sink, ren, optimize=sink.tag is None)
    program = UOp(Ops.PROGRAM, src=(lowered, UOp(Ops.DEVICE, arg=ren.device)))
    return graph_rewrite(program, pm_to_program, ctx=ren, name="linearize/render")
