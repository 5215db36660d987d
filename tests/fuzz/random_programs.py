"""Random tensor programs with NumPy as the judge.

A program is a list of steps made from a seed: elementwise operations, views, reductions, assigns to views of state. `run` does
the steps on tensors and on arrays at once, so the two see the same program; `Program` can be run eagerly, realized step by
step, or inside TinyJit. Values stay small integers in float32, so results are compared exactly.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from tinygrad import Tensor

_LIMIT = 64.0


def clip(x):
    """Keeps integers small, so that float32 is exact."""
    if isinstance(x, np.ndarray):
        return np.where(np.abs(x) > _LIMIT, np.float32(1), x).astype(np.float32)
    return (x.abs() > _LIMIT).where(1.0, x)


BINARY = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "max": (lambda a, b: a.maximum(b), np.maximum),
    "lt": (lambda a, b: (a < b).float(), lambda a, b: (a < b).astype(np.float32)),
}


@dataclass(frozen=True)
class Step:
    """`kind` says what to do; sources are numbers of earlier values; `data` is whatever else it needs."""

    kind: str
    sources: tuple[int, ...]
    data: tuple = ()


@dataclass
class Program:
    """`shapes`: of the inputs, then of the state. `steps` make new values; an assign changes state."""

    seed: int
    input_shapes: list[tuple[int, ...]] = field(default_factory=list)
    state_shapes: list[tuple[int, ...]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def run(self, values: list, state: list, after_step=None) -> list:
        """The outputs, for values that are all tensors or all arrays. State is changed in place."""
        for step in self.steps:
            made = apply(step, values, state)
            if made is not None:
                values.append(after_step(made) if after_step else made)
        return [values[i] for i in self.outputs]

    def text(self) -> str:
        lines = [f"seed {self.seed}: inputs {self.input_shapes}, state {self.state_shapes}"]
        number = len(self.input_shapes)
        for step in self.steps:
            name = f"v{number} =" if step.kind != "assign" else "     "
            number += step.kind != "assign"
            lines.append(f"  {name} {step.kind} {step.sources} {step.data}")
        return "\n".join([*lines, f"  return {self.outputs}"])


def apply(step: Step, values: list, state: list):
    """One step; None for an assign."""
    arrays = isinstance((values or state)[0], np.ndarray)
    if step.kind == "read":
        made = state[step.data[0]]
        return made.copy() if arrays else (made + 0).realize()
    if step.kind == "assign":
        target, index, scale = step.data
        value = values[step.sources[0]]
        if arrays:
            state[target][index] = clip(value + state[target][index] * np.float32(scale))
        else:
            part = state[target][index]
            part.assign(clip(value + part * scale).contiguous())
            if not arrays:
                part.realize()
        return None
    x = values[step.sources[0]]
    if step.kind in BINARY:
        return clip(BINARY[step.kind][arrays](x, values[step.sources[1]]))
    return _UNARY[step.kind][arrays](x, *step.data)


_UNARY = {
    "permute": (lambda x, order: x.permute(order), lambda x, order: x.transpose(order)),
    "reshape": (lambda x, shape: x.reshape(shape), lambda x, shape: x.reshape(shape)),
    "flip": (lambda x, axis: x.flip(axis), lambda x, axis: np.flip(x, axis)),
    "shrink": (lambda x, index: x[index], lambda x, index: x[index]),
    "pad": (lambda x, pads: x.pad(pads), lambda x, pads: np.pad(x, pads)),
    "expand": (lambda x, shape: x.expand(shape), lambda x, shape: np.broadcast_to(x, shape)),
    "sum": (
        lambda x, axis: clip(x.sum(axis, keepdim=True)),
        lambda x, axis: clip(x.sum(axis, keepdims=True)),
    ),
    "max_over": (
        lambda x, axis: x.max(axis, keepdim=True),
        lambda x, axis: x.max(axis, keepdims=True),
    ),
    "contiguous": (lambda x: x.contiguous(), lambda x: x.copy()),
    "scale": (
        lambda x, k, c: clip(x * k + c),
        lambda x, k, c: clip(x * np.float32(k) + np.float32(c)),
    ),
}


class Generator:
    """Makes programs; every choice comes from the seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.program = Program(seed)
        self.shapes: list[tuple[int, ...]] = []

    def make(self, length: int) -> Program:
        draw, program = self.random, self.program
        base = tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.choice((1, 2, 3))))
        for _ in range(draw.randint(1, 3)):
            program.input_shapes.append(tuple(draw.sample(base, len(base))))
        program.state_shapes = [
            tuple(draw.choice((2, 3, 4)) for _ in range(2)) for _ in range(draw.randint(0, 2))
        ]
        self.shapes = list(program.input_shapes)
        while len(program.steps) < length:
            self._step()
        made = range(len(program.input_shapes), len(self.shapes))
        last = list(made)[-3:] or [0]
        program.outputs = sorted(set(last) | set(draw.sample(range(len(self.shapes)), 1)))
        return program

    def _add(
        self, kind: str, sources: tuple[int, ...], data: tuple, shape: tuple[int, ...] | None
    ) -> None:
        self.program.steps.append(Step(kind, sources, data))
        if shape is not None:
            self.shapes.append(shape)

    def _step(self) -> None:
        draw = self.random
        source = draw.randrange(max(0, len(self.shapes) - 5), len(self.shapes))
        shape = self.shapes[source]
        kind = draw.choice(["binary"] * 5 + ["scale", "assign", "assign", "read", *_UNARY])
        if kind == "binary":
            others = [i for i, s in enumerate(self.shapes) if s == shape]
            self._add(draw.choice(list(BINARY)), (source, draw.choice(others)), (), shape)
        elif kind in ("assign", "read"):
            self._state_step(kind)
        else:
            data, new = self._view(kind, shape)
            if 0 < int(np.prod(new)) <= 600:
                self._add(kind, (source,), data, new)

    def _state_step(self, kind: str) -> None:
        draw, states = self.random, self.program.state_shapes
        if not states:
            return
        target = draw.randrange(len(states))
        if kind == "read":
            self._add("read", (), (target,), states[target])
            return
        index, part = self._index(states[target])
        fits = [i for i, s in enumerate(self.shapes) if s == part]
        if fits:
            self._add(
                "assign", (draw.choice(fits),), (target, index, draw.choice((0, 1, -1))), None
            )

    def _index(self, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[int, ...]]:
        index, part = [], []
        for size in shape:
            start = self.random.randrange(size)
            stop = self.random.randint(start + 1, size)
            index.append(slice(start, stop))
            part.append(stop - start)
        return tuple(index), tuple(part)

    def _view(self, kind: str, shape: tuple[int, ...]) -> tuple[tuple, tuple[int, ...]]:
        draw, rank = self.random, len(shape)
        if kind == "permute":
            order = tuple(draw.sample(range(rank), rank))
            return (order,), tuple(shape[i] for i in order)
        if kind == "reshape":
            size = int(np.prod(shape))
            cuts = [n for n in range(1, size + 1) if size % n == 0]
            first = draw.choice(cuts)
            return ((first, size // first),), (first, size // first)
        if kind in ("flip", "sum", "max_over"):
            axis = draw.randrange(rank)
            new = (
                shape
                if kind == "flip"
                else tuple(1 if a == axis else s for a, s in enumerate(shape))
            )
            return (axis,), new
        if kind == "shrink":
            index, new = self._index(shape)
            return (index,), new
        if kind == "pad":
            pads = tuple((draw.randint(0, 1), draw.randint(0, 2)) for _ in shape)
            return (pads,), tuple(s + a + b for s, (a, b) in zip(shape, pads))
        if kind == "expand":
            new = tuple(draw.choice((2, 3, 4)) if s == 1 else s for s in shape)
            return (new,), new
        if kind == "scale":
            return (draw.choice((1, 2, -1, 0)), draw.choice((0, 1, -3))), shape
        return (), shape


def random_array(draw: random.Random, shape: tuple[int, ...]) -> np.ndarray:
    return np.array([draw.randint(-4, 4) for _ in range(int(np.prod(shape)))], np.float32).reshape(
        shape
    )


def as_tensor(array: np.ndarray) -> Tensor:
    return Tensor(array.copy()).contiguous().realize()
