"""Many programs, each in several ways. Called by the tests and by the command line."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tinygrad.runtime.support.compiler_llvm import LLVMCompiler

from .memory import Refused
from .modes import MODES, applicable, fails
from .profiles import make_program
from .shrinker import report


@dataclass
class Tally:
    """What was run: programs, runs in each mode, and those that a mode refuses."""

    programs: int = 0
    runs: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        modes = ", ".join(
            f"{name} {count} ({self.refused[name]} refused)"
            for name, count in sorted(self.runs.items())
        )
        return f"{self.programs} programs: {modes}; {len(self.failures)} failures"


def drawn_modes(seed: int, names: list[str]) -> list[str]:
    """The first of the modes that are there for a program, which is the plainest, and two others."""
    draw = random.Random(f"modes {seed}")
    weights = [MODES[name].weight for name in names[1:]]
    return (
        list(dict.fromkeys([names[0], *draw.choices(names[1:], weights, k=2)]))
        if weights
        else names
    )


@contextmanager
def quick_compiler(quick: bool) -> Iterator[None]:
    """LLVM without its optimisations, which take most of the time of kernels this small; what it is given is the same."""
    compile_well = LLVMCompiler.compile

    def compile_fast(self, src: str) -> bytes:
        head = f'target triple = "{self.triple}"\ntarget datalayout = "{self.data_layout}"\n'
        target = self.llvm.Target.from_triple(self.triple)
        features = self.llvm.get_host_cpu_features().flatten()
        machine = target.create_target_machine(
            cpu=self.llvm.get_host_cpu_name(),
            features=features,
            opt=0,
            reloc="pic",
            codemodel="default",
        )
        return machine.emit_object(self.llvm.parse_assembly(head + src))

    if quick:
        LLVMCompiler.compile = compile_fast
    try:
        yield
    finally:
        LLVMCompiler.compile = compile_well


def run_seeds(
    seeds: Iterable[int],
    modes: list[str] | None,
    out: Path,
    shorten: bool,
    say: Callable[[str], None] | None = None,
) -> Tally:
    """Runs the program of each seed in `modes` (None: in three that it draws). Failures get a file in `out`."""
    tally = Tally()
    for seed in seeds:
        program = make_program(seed)
        tally.programs += 1
        there = applicable(program)
        for name in drawn_modes(seed, there) if modes is None else [m for m in modes if m in there]:
            tally.runs[name] += 1
            try:
                with quick_compiler(seed % 4 != 0):
                    wrong = fails(program, name)
            except Refused:
                tally.refused[name] += 1
                continue
            if wrong is not None:
                tally.failures.append(report(program, name, out, shorten))
                if say is not None:
                    say(tally.failures[-1])
    return tally
