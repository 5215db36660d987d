"""A program as data, its text, and what it gives by the model.

A step is (operation, result, sources, data): numbers of variables, and a literal. A step whose sources are missing, or which the
model refuses, does nothing; so any part of a program is a program, which is what the shrinker needs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from . import moves
from .memory import Memory, Refused, View
from .moves import floor_positions, index, selected
from .operations import OPERATIONS

LIMIT = 400


class Step(NamedTuple):
    operation: str
    result: int | None
    sources: tuple[int, ...]
    data: Any = None


class Input(NamedTuple):
    """`state`: lives on from call to call. `fill`: what its values are like."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    state: bool = False
    fill: str = "small"

    def values(self, draw: random.Random) -> np.ndarray:
        size = int(np.prod(self.shape))
        low, high = (
            (0, 1) if self.dtype == "bool" else (0, 7) if self.dtype.startswith("u") else (-4, 4)
        )
        if self.fill == "wide":
            limits = np.iinfo(self.dtype)
            made: Iterable = [
                draw.choice((limits.min, limits.max, draw.randint(limits.min, limits.max)))
                for _ in range(size)
            ]
        elif self.fill == "real":
            made = [draw.uniform(-2, 2) for _ in range(size)]
        elif self.fill == "count":
            made = [k % (high + 1) for k in range(size)]
        elif self.fill in ("0", "1"):
            made = [int(self.fill)] * size
        else:
            made = [draw.randint(low, high) for _ in range(size)]
        return np.array(list(made), dtype=self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Program:
    """`bounds`: of the variable n, whose value differs from call to call; `gradient`: results are gradients of the outputs."""

    seed: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    bounds: tuple[int, int] | None = None
    gradient: bool = False
    kept: dict = field(default_factory=dict, compare=False)

    def but(self, **changes) -> Program:
        return replace(self, kept={}, **changes)

    def body(self, see: bool) -> str:
        """The source of `body`; `see`: with an argument that gets the values that are read."""
        names = [f"v{i.number}" for i in self.inputs if not i.state]
        states = [f"v{i.number}" for i in self.inputs if i.state]
        names += ["n"] * (self.bounds is not None) + ["see"] * see
        lines = [f"def body({', '.join(names)}):"]
        if states:
            lines.append(f"    {', '.join(states)}, = state")
        lines += [f"    {line(step)}" for step in self.steps]
        if self.gradient:
            return "\n".join([*lines, *self._gradient_lines(), ""])
        shown = ", ".join(f"{k}: v{k}" for k in self.outputs)
        return "\n".join([*lines, f"    return {{{shown}}}", ""])

    def _gradient_lines(self) -> list[str]:
        terms = " + ".join(f"(v{k} * {0.5 + 0.25 * i}).sum()" for i, k in enumerate(self.outputs))
        names = [f"v{i.number}" for i in self.inputs if i.dtype == "float64"]
        terms = " + ".join([terms, *[f"({k} * 0.125).sum()" for k in names]]).removeprefix(" + ")
        shown = ", ".join(f"{k[1:]}: {k}.grad" for k in names)
        return [f"    ({terms}).backward()", f"    return {{{shown}}}"]

    def __str__(self) -> str:
        heads = [
            f"{'state' if i.state else 'input'} v{i.number}: {i.dtype} {i.shape} {i.fill}"
            for i in self.inputs
        ]
        return "\n".join([f"seed {self.seed}", *heads, self.body(True)])


def line(step: Step) -> str:
    """A step as a statement on tensors."""
    operation = OPERATIONS[step.operation]
    names = [f"v{s}" for s in step.sources]
    result = "" if step.result is None else f"v{step.result}"
    first = step.sources[0] if step.sources else None
    text = operation.text.format(*names, d=step.data, number=first, result=result)
    return f"{result} = {text}" if step.result is not None and step.operation != "alias" else text


# ---------------------------------------------------------------- the model


def copied(view: View, device: int | None = None) -> View:
    """The values in memory of their own."""
    made = View.of(view.read(), view.device if device is None else device)
    made.memory.native = view.memory.native if view.opaque else made.memory.native
    return made


class Machine:
    """The values of a program's variables, by the model."""

    def __init__(self, values: dict[int, View], n: int | None = None, limit: int = LIMIT):
        self.values, self.n, self.limit = values, n, limit
        self.fixed = list(values.values())
        self.reads: list[tuple[np.ndarray, str]] = []

    def perform(self, step: Step) -> None:
        """Raises Refused, or what NumPy raises, where the step means nothing; then nothing has changed."""
        if any(s not in self.values for s in step.sources):
            raise Refused
        operation = OPERATIONS[step.operation]
        views = [self.values[s] for s in step.sources]
        if views and views[0].dtype not in operation.dtypes:
            raise Refused
        data = self._concrete(step)
        act = getattr(self, "_" + operation.kind.split()[0])
        made = act(operation, data, *views)
        if operation.kind == "delete":
            del self.values[step.sources[0]]
        if made is not None and step.result is not None:
            if made.at.size > self.limit or len(made.shape) > 5:
                raise Refused
            self.values[step.result] = made

    def _concrete(self, step: Step):
        """The data with the variable's value in the place of its name."""
        if self.n is None:
            return step.data
        put = lambda x: re.sub(r"\bn\b", str(self.n), x) if isinstance(x, str) else x  # noqa: E731
        data = tuple(map(put, step.data)) if isinstance(step.data, tuple) else put(step.data)
        if isinstance(data, str) and step.operation in ("reshape", "expand", "pad", "shrink"):
            return eval(data)
        return data

    def _value(self, operation, data, *views: View) -> View:
        if any(v.opaque or v.device != views[0].device for v in views):
            raise Refused
        return View.of(operation.run(data, *[v.read() for v in views]), views[0].device)

    def _constant(self, operation, data) -> View:
        made = View.of(operation.run(data))
        made.memory.constant = True
        return made

    def _view(self, operation, data, view: View) -> View:
        at = np.asarray(operation.run(data, view.at))
        spread = view.spread or np.unique(at[at >= 0]).size < np.count_nonzero(at >= 0)
        return View(
            view.memory, at, data if operation is OPERATIONS["bitcast"] else view.dtype, spread
        )

    def _contiguous(self, operation, data, view: View) -> View:
        if not view.in_order or view.memory.constant:
            return copied(view)
        # memory itself, or a copy of what is yet to be computed: either way nobody may write to it any more
        view.memory.settled = True
        return View(view.memory, view.at, view.dtype)

    def _clone(self, operation, data, view: View) -> View:
        return copied(view)

    def _to(self, operation, data, view: View) -> View:
        device = int(data == "OTHER")
        if device == view.device:
            raise Refused
        return copied(view, device)

    def _alias(self, operation, data, view: View) -> View:
        return view

    def _delete(self, operation, data, view: View) -> None:
        if any(view is v for v in self.fixed):
            raise Refused

    def _read(self, operation, data, view: View) -> None:
        self.reads.append((view.read(), view.memory.native))

    def _realize(self, operation, data, view: View) -> None:
        """Changes no values."""

    def _replace(self, operation, data, view: View, other: View) -> None:
        if any(view is v for v in self.fixed) or view is other or view.device != other.device:
            raise Refused
        view.become(other)

    # writes

    def _shared(self, memory: Memory, but: View) -> bool:
        return any(v.memory is memory and v is not but for v in self.values.values())

    @staticmethod
    def _new_values(
        operation, data, target: View, part: View, values: tuple[View, ...]
    ) -> np.ndarray:
        """What is written to `part`. Bits of floats go only where bits of floats are."""
        for v in (target, *values):
            if v.device != target.device:
                raise Refused
            if v.opaque and (target.dtype, target.memory.native) != (
                values[-1].dtype,
                values[-1].memory.native,
            ):
                raise Refused
        if target.opaque and operation.run is not moves.put:
            raise Refused
        made = operation.run(data, part.read(), *[v.read() for v in values])
        if np.broadcast_shapes(np.shape(made), part.shape) != part.shape:
            raise Refused
        return np.asarray(made)

    def _assign(self, operation, data, target: View, *values: View) -> None:
        if "part" in operation.kind:
            part = View(target.memory, moves.part(data, target.at), target.dtype)
        else:
            part = target
        constant = target.memory.constant
        if target.spread or target.memory.settled or not (part.distinct or constant):
            raise Refused
        if constant and (self._shared(target.memory, target) or part is not target):
            raise Refused
        new = self._new_values(operation, data, target, part, values)
        if constant:
            target.become(
                View.of(np.broadcast_to(new, target.shape).astype(target.dtype), target.device)
            )
        else:
            part.write(new)

    def _set(self, operation, data, target: View, *values: View) -> None:
        memory = target.memory
        if target.spread or not target.distinct or memory.settled or memory.constant:
            raise Refused
        if operation.kind == "set rows":
            rows = floor_positions(values[0].read(), data)
            if values[0].opaque:
                raise Refused
            at, values = target.at[rows], values[1:]
        else:
            text = data[0] if isinstance(data, tuple) else data
            at = selected(text, target.at) if "list" in operation.kind else target.at[index(text)]
        part = View(memory, np.asarray(at), target.dtype)
        part.write(self._new_values(operation, data, target, part, values))


# ---------------------------------------------------------------- running on the model


@dataclass
class Call:
    """One call: what goes in, and what must come out. Values have the dtype of the memory they come from beside them."""

    inputs: dict[int, np.ndarray]
    reads: list
    outputs: dict[int, tuple]
    after: dict[int, tuple]
    n: int | None = None

    def plain(self) -> dict:
        return {
            "inputs": self.inputs,
            "reads": self.reads,
            "outputs": self.outputs,
            "after": self.after,
            "n": self.n,
        }


def shown(view: View) -> tuple[np.ndarray, str]:
    return view.read(), view.memory.native


def play(program: Program, count: int) -> tuple[Program, dict[int, np.ndarray], list[Call]]:
    """(the program without steps that do nothing, the state before, the calls) by the model."""
    with np.errstate(all="ignore"):
        return _play(program, count)


def _play(program: Program, count: int):
    draw = random.Random(program.seed)
    state = {i.number: View.of(i.values(draw)) for i in program.inputs if i.state}
    begin = {k: v.read() for k, v in state.items()}
    calls = []
    for turn in range(count):
        inputs = {i.number: i.values(draw) for i in program.inputs if not i.state}
        values = {
            i.number: state[i.number] if i.state else View.of(inputs[i.number])
            for i in program.inputs
        }
        for v in state.values():
            v.memory.settled = False
        n = draw.randint(*program.bounds) if program.bounds else None
        machine = Machine(dict(values), n)
        done = [step for step in program.steps if performed(machine, step)]
        if turn == 0:
            program = program.but(steps=tuple(done))
            program = program.but(
                outputs=tuple([k for k in program.outputs if k in machine.values])
            )
        elif len(done) != len(program.steps):
            raise Refused("a step means something in one call and nothing in another")
        outputs = {k: shown(machine.values[k]) for k in program.outputs}
        after = {k: shown(v) for k, v in values.items()}
        calls.append(Call(inputs, machine.reads, outputs, after, n))
    return program, begin, calls


def performed(machine: Machine, step: Step) -> bool:
    try:
        machine.perform(step)
    except (Refused, ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError):
        return False
    return True
