"""Random programs about memory: views, values computed before and after writes, assignments to overlapping views.

The judge is a model on NumPy arrays: a variable is an array of positions in a flat memory (-1: a zero from padding), so that every
chain of movement operations stays a view. A computed value gets memory of its own. A program is a list of plain tuples:

    (kind, result, sources, data)

`result` and `sources` are numbers of variables; a statement whose sources are missing does nothing, so any part of a program
is a program, which is what the shrinker needs. Inputs and state are the first variables.
"""

from __future__ import annotations

import random

import numpy as np

from tinygrad import Tensor, TinyJit
from tinygrad.engine.jit import JitError
from tinygrad.helpers import Context

INPUTS, STATES = 2, 2
DEVICES = ("CPU:0", "CPU:1")
MODES = ("lazy", "stepwise", "unoptimised", "jit", "pruned jit", "packed jit", "sharded")
CALLS = 5


class View:
    """A variable of the model. `backed`: it may be written, since it is known to have memory of its own."""

    def __init__(self, memory: np.ndarray, at: np.ndarray, backed: bool):
        self.memory, self.at, self.backed = memory, at, backed

    @staticmethod
    def of(values: np.ndarray, backed: bool) -> View:
        values = np.asarray(values, np.float32)
        return View(values.reshape(-1).copy(), np.arange(values.size).reshape(values.shape), backed)

    def read(self) -> np.ndarray:
        return np.where(self.at < 0, np.float32(0), self.memory[self.at]).astype(np.float32)

    def write(self, values: np.ndarray) -> None:
        self.memory[self.at] = values

    @property
    def writable(self) -> bool:
        return self.backed and self.at.min() >= 0 and len(np.unique(self.at)) == self.at.size


def clip(x):
    """Keeps integers small, so that float32 is exact."""
    if isinstance(x, Tensor):
        return (x.abs() > 64).where(1.0, x)
    return np.where(np.abs(x) > 64, np.float32(1), x).astype(np.float32)


def move(x, how: str, data):
    """A movement operation on a tensor or on an array of positions."""
    if isinstance(x, Tensor):
        if how == "shrink":
            return x.shrink(data)
        return getattr(x, how)(data)
    if how == "shrink":
        return x[tuple(slice(a, b) for a, b in data)]
    if how == "pad":
        return np.pad(x, data, constant_values=-1)
    if how == "expand":
        return np.broadcast_to(x, data)
    return {"permute": np.transpose, "flip": np.flip, "reshape": np.reshape}[how](x, data)


BINARY = ("add", "sub", "mul", "max", "lt")


def combine(how: str, a, b):
    tensors = isinstance(a, Tensor)
    if how == "add":
        return clip(a + b)
    if how == "sub":
        return clip(a - b)
    if how == "mul":
        return clip(a * b)
    if how == "max":
        return a.maximum(b) if tensors else np.maximum(a, b)
    return (a < b).float() if tensors else (a < b).astype(np.float32)


def single(how: str, a, data):
    """An operation on one operand; `same` is one that gives what is there already."""
    if how == "same":
        return a + 0 if data == 0 else a * 1
    if how == "scale":
        return clip(a * data[0] + data[1])
    if how == "sum":
        axis = {"keepdim" if isinstance(a, Tensor) else "keepdims": True}
        return clip(a.sum(data, **axis))
    return a.clone() if isinstance(a, Tensor) else a.copy()


# ---------------------------------------------------------------- running


def run_model(program: list, values: dict[int, View]) -> None:
    """The program on the model."""
    for statement in program:
        step_model(statement, values)


def step_model(statement: tuple, values: dict[int, View]) -> bool:
    kind, result, sources, data = statement
    if any(s not in values for s in sources):
        return False
    given = [values[s] for s in sources]
    if kind == "view":
        values[result] = View(given[0].memory, move(given[0].at, *data), given[0].backed)
    elif kind in BINARY:
        values[result] = View.of(combine(kind, given[0].read(), given[1].read()), False)
    elif kind == "one":
        values[result] = View.of(single(data[0], given[0].read(), data[1]), False)
    elif kind == "realize":
        given[0].backed = True
    elif kind == "delete":
        del values[sources[0]]
    elif kind in ("assign", "add_to"):
        if not given[0].writable:
            return False
        given[0].write(new_value(kind, data, *[g.read() for g in given]))
    elif kind == "setitem":
        target = given[0]
        part = View(target.memory, move(target.at, "shrink", data), True)
        if not target.writable:
            return False
        part.write(given[1].read() if len(given) > 1 else np.float32(3))
    elif kind == "pick":
        target = given[0]
        if not target.writable:
            return False
        View(target.memory, target.at[list(data)], True).write(np.float32(-2))
    return True


def new_value(kind: str, data, target, *others):
    if kind == "add_to":
        return clip(target + others[0])
    return clip(others[0] * data[0] + (target * data[1] if data[1] else 0))


def step_tensor(statement: tuple, values: dict[int, Tensor]) -> None:
    kind, result, sources, data = statement
    given = [values[s] for s in sources]
    if kind == "view":
        values[result] = move(given[0], *data)
    elif kind in BINARY:
        values[result] = combine(kind, *given)
    elif kind == "one":
        values[result] = single(data[0], given[0], data[1])
    elif kind == "realize":
        given[0].realize()
    elif kind == "delete":
        del values[sources[0]]
    elif kind in ("assign", "add_to"):
        given[0].assign(new_value(kind, data, *given))
    elif kind == "setitem":
        index = tuple(slice(a, b) for a, b in data)
        given[0][index] = given[1] if len(given) > 1 else 3
    elif kind == "pick":
        given[0][list(data)] = -2


def run_both(program: list, views: dict[int, View], tensors: dict[int, Tensor], stepwise: bool):
    for statement in program:
        if statement[0] == "read":
            if statement[2][0] in views:
                compare(statement[2][0], tensors, views, "read")
        elif step_model(statement, views):
            step_tensor(statement, tensors)
            if stepwise and statement[1] in tensors:
                tensors[statement[1]].realize()


def compare(number: int, tensors: dict[int, Tensor], views: dict[int, View], when: str) -> None:
    got, want = tensors[number].numpy(), views[number].read()
    if not np.array_equal(got, want):
        raise AssertionError(f"{when}: variable {number} is\n{got}\nand should be\n{want}")


def fresh(draw: random.Random, shape: tuple[int, ...], mode: str) -> tuple[View, Tensor]:
    view = View.of(
        np.array([draw.randint(-4, 4) for _ in range(int(np.prod(shape)))]).reshape(shape), True
    )
    tensor = Tensor(view.read())
    if mode == "sharded" and shape[0] % 2 == 0:
        return view, tensor.shard(DEVICES, 0).realize()
    return view, tensor.shard(DEVICES).realize() if mode == "sharded" else tensor.realize()


def check(program: list, shapes: list[tuple[int, ...]], seed: int, mode: str) -> None:
    """Runs a program in one way. Raises AssertionError where tensors and model differ."""
    draw = random.Random(seed + 1)
    with Context(NOOPT=int(mode == "unoptimised")):
        made = [fresh(draw, shape, mode) for shape in shapes]
        if "jit" in mode:
            return check_jit(program, shapes, made, draw, mode)
        views, tensors = ({k: pair[side] for k, pair in enumerate(made)} for side in (0, 1))
        run_both(program, views, tensors, mode == "stepwise")
        for number in draw.sample(sorted(views), len(views)):
            compare(number, tensors, views, "end")
    return None


def check_jit(program: list, shapes: list, made: list, draw: random.Random, mode: str) -> None:
    """The program as a jitted function of the inputs, with the state from outside."""
    program = [s for s in program if s[0] not in ("read", "delete")]
    state = dict(enumerate(made[INPUTS:], INPUTS))

    def body(*inputs):
        views, tensors = dict(model_inputs), dict(enumerate(inputs))
        for number, (view, tensor) in state.items():
            views[number], tensors[number] = view, tensor
        run_both(program, views, tensors, False)
        return {number: tensors[number] for number in outputs}

    options = {"jit": {}, "pruned jit": {"prune": True}, "packed jit": {"optimize": True}}
    jitted = TinyJit(body, **options[mode])
    saved = {number: view.memory.copy() for number, (view, _) in state.items()}
    for call in range(CALLS):
        pairs = [fresh(draw, shape, mode) for shape in shapes[:INPUTS]]
        model_inputs = {k: View.of(view.read(), True) for k, (view, _) in enumerate(pairs)}
        views = {k: view for k, (view, _) in enumerate(pairs)}
        for number, (view, _) in state.items():
            view.memory[:] = saved[number]
            views[number] = view
        run_model(program, views)
        outputs = [k for k in views if k >= INPUTS + STATES][-4:]
        wants = {k: views[k].read() for k in outputs}
        after = {number: view.memory.copy() for number, (view, _) in state.items()}
        for number, (view, _) in state.items():
            view.memory[:] = saved[number]
        try:
            got = jitted(*[tensor for _, tensor in pairs])
        except JitError as error:
            if "ran no kernel" in str(error):
                return
            raise
        saved = after
        for number, (view, tensor) in state.items():
            view.memory[:] = saved[number]
            compare(number, {number: tensor}, {number: view}, f"call {call}, state")
        for number in outputs:
            compare(number, got, {number: View.of(wants[number], True)}, f"call {call}, result")
        for number, (view, tensor) in enumerate(pairs):
            compare(number, {number: tensor}, {number: view}, f"call {call}, input")


# ---------------------------------------------------------------- making


class Generator:
    """Makes programs; every choice comes from the seed."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.program: list[tuple] = []
        self.values: dict[int, View] = {}
        self.next = INPUTS + STATES

    def make(self, length: int) -> tuple[list, list]:
        draw = self.draw
        shapes = [
            tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.choice((1, 2, 2))))
            for _ in range(2)
        ]
        shapes = [draw.choice(shapes) for _ in range(INPUTS + STATES)]
        for number, shape in enumerate(shapes):
            self.values[number] = View.of(np.zeros(shape), True)
        while len(self.program) < length:
            self._step()
        return self.program, shapes

    def _add(self, kind: str, sources: tuple, data, result: int | None = None) -> None:
        statement = (kind, result, sources, data)
        if kind == "read" or step_model(statement, self.values):
            self.program.append(statement)
            if result is not None:
                self.next += 1

    def _step(self) -> None:
        draw = self.draw
        source = draw.choice(
            sorted(self.values)[-8:] if draw.random() < 0.7 else sorted(self.values)
        )
        shape = self.values[source].at.shape
        kind = draw.choice(
            ["view"] * 5 + ["binary"] * 4 + ["one"] * 4 + ["write"] * 6
            + ["setitem", "pick", "realize", "read", "delete"]
        )  # fmt: skip
        if kind == "view":
            how, data = self._movement(shape)
            if 0 < move(self.values[source].at, how, data).size <= 100:
                self._add("view", (source,), (how, data), self.next)
        elif kind == "binary":
            self._add(draw.choice(BINARY), (source, self._like(shape)), None, self.next)
        elif kind == "one":
            self._add("one", (source,), self._operation(shape), self.next)
        elif kind in ("realize", "read") or (
            kind == "delete" and len(self.values) > 6 and source > 3
        ):
            self._add(kind, (source,), None)
        elif kind in ("write", "setitem", "pick"):
            self._write(kind, source, shape)

    def _like(self, shape: tuple) -> int:
        return self.draw.choice([k for k, v in self.values.items() if v.at.shape == shape])

    def _write(self, kind: str, source: int, shape: tuple) -> None:
        draw = self.draw
        targets = [k for k, v in self.values.items() if v.writable]
        target = draw.choice(targets)
        shape = self.values[target].at.shape
        if kind == "write":
            how = draw.choice(("assign", "assign", "add_to"))
            data = (draw.choice((1, 1, 2)), draw.choice((0, 0, 1)))
            self._add(how, (target, self._like(shape)), data)
        elif kind == "pick":
            self._add("pick", (target,), tuple({draw.randrange(shape[0]) for _ in range(2)}))
        else:
            bounds = self._movement(shape, "shrink")[1]
            part = tuple(b - a for a, b in bounds)
            fits = [k for k, v in self.values.items() if v.at.shape == part]
            self._add("setitem", (target, draw.choice(fits)) if fits else (target,), bounds)

    def _operation(self, shape: tuple):
        draw = self.draw
        how = draw.choice(("same", "scale", "sum", "copy"))
        if how == "same":
            return how, draw.randrange(2)
        if how == "scale":
            return how, (draw.choice((1, 2, -1)), draw.choice((0, 1, -3)))
        return how, draw.randrange(len(shape)) if how == "sum" else None

    def _movement(self, shape: tuple, how: str | None = None):
        draw, rank = self.draw, len(shape)
        how = how or draw.choice(
            ("shrink", "shrink", "permute", "flip", "reshape", "pad", "expand")
        )
        if how == "shrink":
            starts = [draw.randrange(size) for size in shape]
            return how, tuple((a, draw.randint(a + 1, size)) for a, size in zip(starts, shape))
        if how == "permute":
            return how, tuple(draw.sample(range(rank), rank))
        if how == "flip":
            return how, draw.randrange(rank)
        if how == "pad":
            return how, tuple((draw.randint(0, 1), draw.randint(0, 1)) for _ in shape)
        if how == "expand":
            return how, tuple(draw.choice((2, 3)) if size == 1 else size for size in shape)
        size = int(np.prod(shape))
        first = draw.choice([n for n in range(1, size + 1) if size % n == 0])
        return how, draw.choice([(first, size // first), (size,)])


# ---------------------------------------------------------------- shrinking


def fails(program: list, shapes: list, seed: int, mode: str) -> str | None:
    """What is wrong with a program, or None."""
    try:
        check(program, shapes, seed, mode)
    except Exception as error:
        if mode == "sharded" and refused(error):
            return None
        return f"{type(error).__name__}: {error}"
    return None


def refused(error: Exception) -> bool:
    """Whether sharded tensors can't do this at all, and say so."""
    words = ("shard", "device", "axis", "MULTI", "divide")
    return not str(error).startswith(("read", "end")) and any(w in str(error) for w in words)


def shrink(program: list, shapes: list, seed: int, mode: str) -> list:
    """A part of the program that fails still, and no statement of which can be left out."""
    size = len(program) // 2
    while size:
        at = 0
        while at < len(program):
            shorter = program[:at] + program[at + size :]
            if fails(shorter, shapes, seed, mode):
                program = shorter
            else:
                at += size
        size //= 2
    return program


def stand_alone(program: list, shapes: list, seed: int, mode: str) -> str:
    """The source of a file that fails as the program does, and needs this package only."""
    with open(__file__) as source:
        text = source.read()
    lines = "".join(f"    {statement!r},\n" for statement in program)
    call = f"check(PROGRAM, {shapes!r}, seed={seed}, mode={mode!r})"
    return f"{text}\n\n# seed {seed}, mode {mode}\nPROGRAM = [\n{lines}]\n{call}\n"
