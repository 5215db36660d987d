"""Programs of two special kinds: differentiable ones, and ones with a length that differs from call to call."""

from __future__ import annotations

import random

import numpy as np

from .generator import Generator
from .memory import View
from .operations import OPERATIONS
from .program import Input, Machine, Program, Step, performed

# conditions for `where` have no derivative, and need none
_CONDITIONS = ("less", "less_number", "at_least")


class GradientGenerator(Generator):
    """Of real numbers in float64; the outputs are the gradients of a sum, and the judge is the difference quotient."""

    def make(self, length: int | None = None) -> Program:
        program = super().make(length or self.draw.choice((3, 5, 8, 12)))
        floats = [k for k in program.outputs if self.machine.values[k].dtype == "float64"]
        return program.but(outputs=tuple(floats), gradient=True)

    def _kinds(self) -> tuple[list[str], list[float]]:
        kinds = ("value", "view", "contiguous")
        names = [
            k
            for k, row in OPERATIONS.items()
            if (row.smooth or k in _CONDITIONS) and row.kind in kinds
        ]
        return names, [OPERATIONS[k].weight for k in names]

    def _inputs(self) -> tuple[Input, ...]:
        shapes = [self._shape() for _ in range(2)]
        shapes = [s for s in shapes if 0 < np.prod(s) <= 24] or [(2, 3)]
        return tuple(
            Input(k, self.draw.choice(shapes), "float64", False, "real")
            for k in range(self.draw.choice((1, 2, 3)))
        )


class SymbolicGenerator(Generator):
    """With a variable n. It is drawn with the largest n, a length that no other axis has, so that its axes are known by length."""

    LARGEST = 7

    def make(self, length: int | None = None) -> Program:
        draw = self.draw
        inputs = self._inputs()
        self.next = len(inputs)
        self.machine = Machine({i.number: View.of(i.values(draw)) for i in inputs}, self.LARGEST)
        for i in inputs:
            if i.shape and i.shape[0] == self.LARGEST and draw.random() < 0.8:
                self._add("index", (i.number,), ":n")
        names, weights = self._kinds()
        length = len(self.steps) + (length or draw.choice((2, 4, 6, 8)))
        tries = 0
        with np.errstate(all="ignore"):
            while len(self.steps) < length and tries < 300:
                tries += 1
                if draw.random() < 0.15:
                    self._write_row(inputs)
                else:
                    self._step(draw.choices(names, weights)[0])
            outputs = [self._closed(k) for k in self._outputs(inputs)]
        program = Program(self.seed, inputs, tuple(self.steps), tuple(outputs), (1, self.LARGEST))
        return program.but(steps=self._general(program))

    def _general(self, program: Program) -> tuple[Step, ...]:
        """The steps that mean something whatever n is: an axis of n rows and one of the largest n do not go together."""
        steps = program.steps
        with np.errstate(all="ignore"):
            for n in range(1, self.LARGEST + 1):
                draw = random.Random(n)
                machine = Machine({i.number: View.of(i.values(draw)) for i in program.inputs}, n)
                steps = tuple([step for step in steps if performed(machine, step)])
        return steps

    def _kinds(self) -> tuple[list[str], list[float]]:
        no = ("prod", "cumsum", "argmax", "argmin", "power", "contiguous")
        names = [k for k, row in OPERATIONS.items() if row.symbolic and k not in no]
        return names, [OPERATIONS[k].weight for k in names]

    def _inputs(self) -> tuple[Input, ...]:
        draw = self.draw
        k = draw.choice((1, 2, 3, 4))
        dtype = draw.choice(("float32", "float32", "int32"))
        shapes = [(self.LARGEST, k), (self.LARGEST, k), (self.LARGEST,), (1, k), (k, k)]
        found = [Input(0, shapes[0], dtype)]
        found += [Input(n, draw.choice(shapes), dtype) for n in range(1, draw.choice((2, 3)))]
        return (*found, Input(len(found), shapes[0], dtype, True))

    def _add(self, name: str, sources: tuple[int, ...], data) -> int | None:
        step = Step(name, self.next, sources, data)
        if not performed(self.machine, step):
            return None
        self.steps.append(step)
        self.next += 1
        return step.result

    def _write_row(self, inputs: tuple[Input, ...]) -> None:
        """The pattern of a growing cache: row n - 1 is written, rows up to n are read."""
        cache = inputs[-1]
        row = self._pick(lambda v: v.dtype == cache.dtype and v.shape == (1, *cache.shape[1:]))
        if row is None:
            return
        name = self.draw.choice(("assign_part", "set_part"))
        step = Step(name, None, (cache.number, row), "n-1:n")
        if performed(self.machine, step):
            self.steps.append(step)
            self._add("index", (cache.number,), ":n")

    def _closed(self, number: int) -> int:
        """A value without axes of length n: only such can be read."""
        view = self.machine.values[number]
        axes = tuple(a for a, size in enumerate(view.shape) if size == self.LARGEST)
        if not axes:
            return number
        name = "sum" if view.dtype != "bool" else "any"
        return self._add(name, (number,), (axes, False)) or number


def gradient_by_differences(
    program: Program, inputs: dict[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """The gradient of the sum that `Program.body` differentiates; NaN where there is a kink or a jump."""

    def loss(values: dict[int, np.ndarray]) -> float:
        machine = Machine({k: View.of(v) for k, v in values.items()})
        for step in program.steps:
            machine.perform(step)
        terms = [
            machine.values[k].read().sum() * (0.5 + 0.25 * i) for i, k in enumerate(program.outputs)
        ]
        return float(sum(terms)) + sum(float(v.sum()) * 0.125 for v in values.values())

    small = 1e-6
    here, found = loss(inputs), {}
    for number, array in inputs.items():
        slopes = np.empty(array.shape)
        for place in np.ndindex(array.shape):
            ahead, behind = ({**inputs, number: array.copy()} for _ in range(2))
            ahead[number][place] += small
            behind[number][place] -= small
            right, left = (loss(ahead) - here) / small, (here - loss(behind)) / small
            smooth = abs(right - left) < 1e-3 * (1 + abs(right))
            slopes[place] = (right + left) / 2 if smooth else np.nan
        found[number] = slopes
    return found


def make_program(seed: int) -> Program:
    """The program of a seed: of eight, one is differentiable and one has a variable length."""
    kind = random.Random(f"kind {seed}").randrange(8)
    return {0: GradientGenerator, 1: SymbolicGenerator}.get(kind, Generator)(seed).make()
