"""Makes a failing program small, and writes it to a file that runs on its own.

A smaller program has to fail in the same way: with wrong values if it was values, else with the same type of error. Each pass
tries changes one by one and keeps those after which it still fails; passes are repeated until none of them helps.
"""

from __future__ import annotations

import inspect
import pprint
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from . import driver
from .memory import Refused
from .modes import Case, fails, prepare
from .operations import OPERATIONS
from .program import Input, Machine, Program, Step, View, performed, play

MOST_TRIES = 1500


def shrink(program: Program, check: Callable[[Program], str | None]) -> Program:
    """`check` gives what is wrong with a program, or None; it may raise Refused."""
    why = check(program)
    kind = (why or "").split(":")[0]
    tries = 0

    def still(smaller: Program) -> bool:
        nonlocal tries
        tries += 1
        if tries > MOST_TRIES:
            return False
        try:
            found = check(smaller)
        except Refused:
            return False
        return found is not None and found.split(":")[0] == kind

    passes = (
        without_steps,
        without_outputs,
        with_inputs_for_values,
        with_sources_for_values,
        smaller_shapes,
        simpler_inputs,
    )
    better = True
    while better:
        better = False
        for candidates in passes:
            while (
                made := next(filter(still, candidates(program)), None)
            ) is not None and tries < MOST_TRIES:
                program, better = made, True
    return program


def without_steps(program: Program) -> Iterator[Program]:
    """Without halves, quarters, ... of the steps."""
    size = max(1, len(program.steps) // 2)
    while size:
        for at in range(0, len(program.steps), size):
            yield program.but(steps=program.steps[:at] + program.steps[at + size :])
        size //= 2


def _values(program: Program) -> dict[int, View]:
    """What each variable is when it is made."""
    played, _, calls = play(program, 1)
    values = {i.number: View.of(np.zeros(i.shape, i.dtype)) for i in played.inputs}
    machine = Machine(values, calls[0].n)
    found = dict(values)
    for step in played.steps:
        if performed(machine, step) and step.result in machine.values:
            found[step.result] = machine.values[step.result]
    return found


def with_inputs_for_values(program: Program) -> Iterator[Program]:
    """With an input in the place of a computed value, which frees what it was computed from."""
    values = _values(program)
    for step in reversed(program.steps):
        made = values.get(step.result) if step.result is not None else None
        if made is not None and not made.opaque and program.bounds is None:
            inputs = (*program.inputs, Input(step.result, made.shape, made.dtype))
            yield program.but(
                inputs=inputs, steps=tuple([s for s in program.steps if s is not step])
            )


def with_sources_for_values(program: Program) -> Iterator[Program]:
    """With a source in the place of a value of the same shape and dtype."""
    values = _values(program)
    for step in program.steps:
        if step.result is None or not step.sources or step.sources[0] not in values:
            continue
        old, new = step.result, step.sources[0]
        rest = [s for s in program.steps if s is not step]
        steps = tuple(
            [s._replace(sources=tuple([new if k == old else k for k in s.sources])) for s in rest]
        )
        yield program.but(
            steps=steps,
            outputs=tuple(dict.fromkeys(new if k == old else k for k in program.outputs)),
        )


def without_outputs(program: Program) -> Iterator[Program]:
    used = {k for s in program.steps for k in s.sources} | set(program.outputs)
    for i in program.inputs:
        if i.number not in used:
            yield program.but(inputs=tuple([x for x in program.inputs if x is not i]))
    for k in program.outputs:
        yield program.but(outputs=tuple([x for x in program.outputs if x != k]))


def simpler_inputs(program: Program) -> Iterator[Program]:
    for at, i in enumerate(program.inputs):
        simpler = [
            i._replace(fill=fill)
            for fill in ("count", "1", "0")
            if i.fill not in (fill, "1", "0", "real")
        ]
        simpler += [i._replace(state=False)] * i.state
        for new in simpler:
            yield program.but(inputs=(*program.inputs[:at], new, *program.inputs[at + 1 :]))


def smaller_shapes(program: Program) -> Iterator[Program]:
    """With an axis of length 1, or one shorter, in all the inputs that have one of that length."""
    if program.bounds is not None:
        return  # an axis that is cut at n needs its length
    sizes = sorted({size for i in program.inputs for size in i.shape if size > 1}, reverse=True)
    for size in sizes:
        for new in {1, size // 2, size - 1} - {0}:
            yield _resized(program, size, new, None)
            for at in range(len(program.inputs)):
                yield _resized(program, size, new, at)


def _resized(program: Program, old: int, new: int, only: int | None) -> Program:
    inputs = [
        i._replace(shape=tuple([new if size == old else size for size in i.shape]))
        if only in (None, at)
        else i
        for at, i in enumerate(program.inputs)
    ]
    return program.but(inputs=tuple(inputs))


# ---------------------------------------------------------------- files


def array_text(array: np.ndarray) -> str:
    return f"np.array({array.tolist()!r}, np.{array.dtype.name if array.dtype.kind != 'b' else 'bool_'}).reshape({array.shape})"


class _Shown:
    """An array that prints as an expression."""

    def __init__(self, array: np.ndarray):
        self.text = array_text(array)

    def __repr__(self) -> str:
        return self.text


def _printable(x):
    if isinstance(x, np.ndarray):
        return _Shown(x)
    if isinstance(x, dict):
        return {k: _printable(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(_printable(v) for v in x)
    return x


def stand_alone(case: Case, about: str) -> str:
    """The source of a file that fails as the case does, with this package and NumPy alone."""
    text = case.text.replace("\\", "\\\\")
    parts = [
        inspect.getsource(driver),
        f"# {about}",
        f'TEXT = """\n{text}"""',
        f"STATES = {pprint.pformat(_printable(case.states), width=110)}",
        f"CALLS = {pprint.pformat(_printable(case.calls), width=110, sort_dicts=False)}",
        f"HOW = {case.how!r}",
        'run(TEXT, {}, STATES, CALLS, HOW)\nprint("all as it should be")',
    ]
    return "\n\n".join(parts) + "\n"


def report(program: Program, name: str, folder: Path, shorten: bool = True) -> str:
    """Shrinks a program that fails, writes its file, and gives the message."""
    short = shrink(program, lambda p: fails(p, name)) if shorten else program
    why = fails(short, name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"program_{program.seed}_{re.sub(r'[^a-z]', '_', name)}.py"
    case = prepare(short, name)
    path.write_text(stand_alone(case, f"seed {program.seed}, {name}"))
    return f"seed {program.seed}, {name}: {why}\n{case.program}\n{case.text}\nrun {path}"


__all__ = ["OPERATIONS", "Step", "report", "shrink", "stand_alone"]
