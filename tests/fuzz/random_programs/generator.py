"""Draws programs; every choice comes from the seed."""

from __future__ import annotations

import random

import numpy as np

from . import moves  # noqa: F401  the rows of movement and writes
from .memory import SIGNED, UNSIGNED, View
from .operations import OPERATIONS
from .program import Input, Machine, Program, Step, performed

SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6)
DTYPES = ("float32",) * 5 + ("int32",) * 3 + (
    "bool", "uint8", "int8", "int64", "float16", "float64", "uint32", "int16", "uint16")  # fmt: skip


class Generator:
    """One program. `make` may be called once."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.seed = seed
        self.steps: list[Step] = []
        self.machine = Machine({})
        self.next = 0

    def make(self, length: int | None = None) -> Program:
        draw = self.draw
        length = length or draw.choice((3, 5, 8, 8, 12, 12, 16, 24))
        inputs = self._inputs()
        self.next = len(inputs)
        self.machine = Machine({i.number: View.of(i.values(draw)) for i in inputs})
        names, weights = self._kinds()
        tries = 0
        with np.errstate(all="ignore"):
            while len(self.steps) < length and tries < 20 * length:
                tries += 1
                if draw.random() < 0.05:
                    self._again()
                else:
                    self._step(draw.choices(names, weights)[0])
        return Program(self.seed, inputs, tuple(self.steps), self._outputs(inputs))

    def _kinds(self) -> tuple[list[str], list[float]]:
        """Operations and their weights: each program prefers some, so that they meet."""
        draw = self.draw
        names = list(OPERATIONS)
        liked = set(draw.sample(names, 12))
        weights = [OPERATIONS[k].weight * (6 if k in liked else 1) for k in names]
        if draw.random() < 0.3:
            no_writes = [OPERATIONS[k].kind.split()[0] not in ("assign", "set") for k in names]
            weights = [w * keep for w, keep in zip(weights, no_writes)]
        return names, weights

    def _inputs(self) -> tuple[Input, ...]:
        draw = self.draw
        shapes = [self._shape() for _ in range(2)]
        dtypes = [draw.choice(DTYPES) for _ in range(2)]
        found = []
        for number in range(draw.choice((1, 2, 3, 3))):
            shape = draw.choice(shapes)
            shape = tuple(draw.sample(shape, len(shape))) if draw.random() < 0.3 else shape
            dtype = draw.choice(dtypes)
            fill = "wide" if dtype in (*SIGNED, *UNSIGNED) and draw.random() < 0.2 else "small"
            found.append(Input(number, shape, dtype, False, fill))
        for number in range(len(found), len(found) + draw.choice((0, 0, 1, 2))):
            found.append(Input(number, draw.choice(shapes), draw.choice(dtypes), True))
        return tuple(found)

    def _shape(self) -> tuple[int, ...]:
        draw = self.draw
        rank = draw.choice((0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5))
        if rank == 1 and draw.random() < 0.2:
            return (draw.choice((7, 16, 17, 33, 64, 100, 128)),)
        shape = [draw.choice(SIZES[:5] if rank > 3 else SIZES) for _ in range(rank)]
        if rank and draw.random() < 0.04:
            shape[draw.randrange(rank)] = 0
        return tuple(shape)

    def _step(self, name: str) -> None:
        draw, machine = self.draw, self.machine
        operation = OPERATIONS[name]
        numbers = sorted(machine.values)
        recent = numbers[-6:] if draw.random() < 0.7 else numbers
        right = [k for k in recent if machine.values[k].dtype in operation.dtypes]
        if not right:
            return
        number = draw.choice(right)
        found = operation.make(draw, machine.values[number], self._pick)
        if found is None or None in found[0]:
            return
        others, data = found
        made = operation.kind in ("value", "view", "constant", "contiguous", "clone", "to", "alias")
        sources = () if operation.kind == "constant" else (number, *others)
        step = Step(name, self.next if made else None, sources, data)
        if performed(machine, step):
            self.steps.append(step)
            self.next += made

    def _again(self) -> None:
        """A step that was there already: equal computations must stay apart."""
        made = [s for s in self.steps if s.result is not None]
        if made:
            step = self.draw.choice(made)._replace(result=self.next)
            if performed(self.machine, step):
                self.steps.append(step)
                self.next += 1

    def _pick(self, test) -> int | None:
        found = [k for k, v in self.machine.values.items() if test(v)]
        if not found:
            return None
        return self.draw.choice(found[-6:] if self.draw.random() < 0.6 else found)

    def _outputs(self, inputs: tuple[Input, ...]) -> tuple[int, ...]:
        """The last values, and some of the others."""
        draw = self.draw
        made = [k for k in self.machine.values if k >= len(inputs)]
        some = draw.choice((0, 0.3, 1))
        return tuple(k for k in made if k in made[-2:] or draw.random() < some)
