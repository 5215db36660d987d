"""The ways of running a program. Each is a change of the program (`realize` steps put in) and options of the driver."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tinygrad.backends.cpu.compiler import find_clang

from . import driver
from .memory import Refused
from .operations import OPERATIONS
from .profiles import gradient_by_differences
from .program import Program, Step, play


@dataclass(frozen=True)
class Mode:
    """`calls`: how often; `arrange`: puts steps in; `how`: for the driver; `weight`: how often it is drawn."""

    calls: int = 1
    arrange: Callable[[Program, random.Random], Program] | None = None
    how: dict = field(default_factory=dict)
    weight: float = 1.0


def stepwise(program: Program, draw: random.Random) -> Program:
    """Everything is realized as soon as it is there."""
    steps = []
    for step in program.steps:
        steps.append(step)
        target = step.result if step.result is not None else step.sources[0]
        if step.operation not in ("delete", "realize", "read"):
            steps.append(Step("realize", None, (target,)))
    return program.but(steps=tuple(steps))


def sometimes(program: Program, draw: random.Random) -> Program:
    """Any variable may be realized at any time."""
    steps: list[Step] = []
    known = [i.number for i in program.inputs]
    for step in program.steps:
        steps.append(step)
        if step.result is not None:
            known.append(step.result)
        if step.operation == "delete":
            known = [k for k in known if k != step.sources[0]]
        while known and draw.random() < 0.35:
            steps.append(Step("realize", None, (draw.choice(known),)))
    return program.but(steps=tuple(steps))


def quiet(program: Program, draw: random.Random) -> Program:
    """Nothing is read on the way: a capture cannot."""
    return program.but(steps=tuple([s for s in program.steps if s.operation != "read"]))


LLVM, CLANG = {"CPU_LLVM": 1, "CPU_CC": ""}, {"CPU_LLVM": 0, "CPU_CC": "CLANGJIT"}

MODES: dict[str, Mode] = {
    "fused": Mode(how={"context": LLVM}),
    "together": Mode(how={"context": LLVM, "together": True}),
    "stepwise": Mode(arrange=stepwise, how={"context": LLVM}),
    "sometimes": Mode(arrange=sometimes, how={"context": LLVM, "together": True}),
    "unoptimised": Mode(how={"context": {**LLVM, "NOOPT": 1}}),
    "jit": Mode(5, quiet, {"context": LLVM, "jit": {}}),
    "pruned jit": Mode(5, quiet, {"context": LLVM, "jit": {"prune": True}}),
    "packed jit": Mode(5, quiet, {"context": LLVM, "jit": {"optimize": True}}),
    "plan": Mode(3, quiet, {"context": LLVM, "plan": True}),
    "clang": Mode(how={"context": CLANG, "together": True}, weight=0.5),
    "python": Mode(how={"device": "PYTHON"}),
    "sharded": Mode(how={"context": LLVM}),
}


def applicable(program: Program) -> list[str]:
    """The modes in which a program can run, the plainest first."""
    names = [name for name in MODES if name != "clang" or find_clang()]
    if program.gradient or program.bounds:
        # shards of n rows, and plans that are counted, are other tests
        names = [name for name in names if name not in ("sharded", "plan", "sometimes")]
        # what is realized on the way has no gradient to give to what it was computed from
        names = [name for name in names if name != "stepwise"]
    return names


def shards(program: Program, draw: random.Random) -> dict[int, int | None]:
    """For each input the axis that is split over two devices, or None for a copy on each."""
    found: dict[int, int | None] = {}
    for i in program.inputs:
        even = [axis for axis, size in enumerate(i.shape) if size and size % 2 == 0]
        found[i.number] = draw.choice(even) if even and draw.random() < 0.8 else None
    return found


@dataclass(frozen=True)
class Case:
    """What the driver runs: all that a file of a failure holds."""

    program: Program
    text: str
    states: dict
    calls: list[dict]
    how: dict


def prepare(program: Program, name: str) -> Case:
    """Raises Refused for a program that means nothing in this mode."""
    mode = MODES[name]
    draw = random.Random(f"{program.seed} {name}")
    how = {**mode.how, "order": draw.randrange(1 << 30)}
    arranged = mode.arrange(program, draw) if mode.arrange else program
    if name == "sharded":
        how["shards"] = shards(program, draw)
        arranged = arranged.but(
            steps=tuple([s for s in arranged.steps if OPERATIONS[s.operation].kind != "to"])
        )
    played, states, calls = play(arranged, mode.calls)
    if not played.steps:
        raise Refused("no step is left")
    text = played.body("jit" not in how)
    plain = [c.plain() for c in calls]
    if program.gradient:
        how.update(gradient=True, close=1e-4)
        for call in plain:
            slopes = gradient_by_differences(played, call["inputs"])
            call["outputs"] = {k: (slope, "float64") for k, slope in slopes.items()}
    if program.bounds:
        how["bounds"] = program.bounds
    return Case(played, text, states, plain, how)


# a part of a sharded axis has no memory of its own to be written, and some shapes cannot be kept apart: these are errors
REFUSED = ("shard", "device", "axis", "MULTI", "divide", "multi", "size mismatch")


def fails(program: Program, name: str) -> str | None:
    """What is wrong with a program in a mode, or None. Raises Refused where nothing could be run."""
    case = prepare(program, name)
    try:
        driver.run(case.text, {}, case.states, case.calls, case.how)
    except Exception as error:
        if (
            name == "sharded"
            and not isinstance(error, driver.Wrong)
            and any(w in str(error) for w in REFUSED)
        ):
            raise Refused(str(error)) from None
        if "share memory" in str(error) and any(_sets_computed(case.program)):
            raise Refused(str(error)) from None
        return f"{type(error).__name__}: {error}"
    return None


def _sets_computed(program: Program) -> Iterator[bool]:
    """For each setitem whether its target is computed: what turns out to be one number has no memory, and is refused."""
    given = {i.number for i in program.inputs}
    for step in program.steps:
        if OPERATIONS[step.operation].kind.startswith(("set", "assign")):
            yield step.sources[0] not in given
