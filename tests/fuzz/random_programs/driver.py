"""Runs the text of a program on tensors and compares what it gives with what it should give.

Everything is plain data, and nothing but this package and NumPy is imported: the file that the shrinker writes is this module
with a program at its end. `text` defines `body(inputs..., see)`, which finds its state in `state`; a call is a dictionary of
`inputs`, `reads` (values seen on the way), `outputs`, `after` (state and inputs afterwards) and `n` (a variable's value).
"""

from __future__ import annotations

import random

import numpy as np

from tinygrad import Context, Device, Tensor, TinyJit, Variable, dtypes
from tinygrad.engine.jit import JitError

LARGEST = 64


class Wrong(AssertionError):
    """The program gave something else than it should."""


def clip(x):
    """Keeps what is computed in floats small, so that every order of operations gives the same."""
    return (x.abs() > LARGEST).where(1, x) if dtypes.is_float(x.dtype) else x


def same(got: np.ndarray, want: np.ndarray, native: str, close: float) -> bool:
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if native != want.dtype.name and native.startswith("float"):
        got, want = got.view(native), want.view(native)  # bits of floats: -0.0 equals 0.0
    if close:
        known = ~np.isnan(want)  # NaN: there is a kink
        return np.allclose(got[known], want[known], rtol=close, atol=close)
    return np.array_equal(got, want, equal_nan=want.dtype.kind == "f")


def compare(what: str, got, want: np.ndarray, native: str, close: float = 0) -> None:
    got = got.numpy()
    if not same(got, want, native, close):
        raise Wrong(
            f"{what}:\ngot  {got.dtype} {got.shape} {got.tolist()}\nwant {want.dtype} {want.shape} {want.tolist()}"
        )


def place(array: np.ndarray, how: dict, number: int):
    """An input on the device(s) of a mode, in memory of its own."""
    tensor = Tensor(array.copy(), device=how.get("device", "CPU"))
    axis = how.get("shards", {}).get(number, "none")
    if axis != "none":
        tensor = tensor.shard(("CPU:0", "CPU:1"), axis)
    tensor = tensor.contiguous().realize()
    return tensor.requires_grad_() if how.get("gradient") and array.dtype.kind == "f" else tensor


def check_plan(outputs: list) -> None:
    """Computes the outputs, and looks for live buffers of the plan that overlap."""
    from tinygrad.engine.realize import run_schedule

    pending = [t for t in outputs if t.uop.base.op.name != "CONST"]
    if not pending:
        return
    items, values = pending[0].schedule_with_vars(*pending[1:])
    spans: dict = {}
    for number, item in enumerate(items):
        for buf in item.bufs:
            if buf is not None:
                # one object for each buffer before the plan: two that follow each other in one place are two
                first = spans.setdefault(id(buf), [number, number, buf])
                first[1] = number
    parts = [span for span in spans.values() if span[2].base is not span[2]]
    for i, (first, last, a) in enumerate(parts):
        for other_first, other_last, b in parts[:i]:
            if a.base is b.base and first <= other_last and other_first <= last:
                apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
                if not apart and a.base.uop_refcount == 0:
                    raise Wrong(
                        f"plan: {a} (steps {first} to {last}) and {b} ({other_first} to {other_last}) "
                        "overlap in memory"
                    )
    run_schedule(items, values)


def realize(outputs: list, how: dict, draw: random.Random) -> None:
    if how.get("plan"):
        check_plan(outputs)
    elif outputs and how.get("together"):
        first, *rest = draw.sample(outputs, len(outputs))
        first.realize(*rest)


def run(text: str, numbers: dict, states: dict, calls: list, how: dict) -> None:
    """Raises Wrong where a program's values differ from those of `calls`, and what the package raises."""
    context = {"CACHELEVEL": 0, **how.get("context", {})}
    before, Device.DEFAULT = Device.DEFAULT, how.get("device", "CPU")
    try:
        with Context(**context):
            _run(text, numbers, states, calls, how)
    finally:
        Device.DEFAULT = before


def _run(text: str, numbers: dict, states: dict, calls: list, how: dict) -> None:
    from tinygrad.engine.schedule import schedule_cache

    draw = random.Random(how.get("order", 0))
    other = how.get("device", "CPU") + ":1"
    state = {k: place(a, how, k) for k, a in states.items()}
    space = {"Tensor": Tensor, "dtypes": dtypes, "clip": clip, "OTHER": other, "np": np}
    space["state"] = list(state.values())
    exec(compile(text, "<program>", "exec"), space)
    body = space["body"]
    if "jit" in how:
        body = TinyJit(body, **how["jit"])
    for turn, call in enumerate(calls):
        inputs = {k: place(a, how, k) for k, a in call["inputs"].items()}
        arguments = list(inputs.values())
        if call.get("n") is not None:
            low, high = how["bounds"]
            arguments.append(Variable("n", low, high).bind(call["n"]))
        reads = iter(call["reads"])

        def see(number, tensor, reads=reads, turn=turn):
            want, native = next(reads)
            compare(f"call {turn}, v{number} where it is read", tensor, want, native)

        if "jit" not in how:
            arguments.append(see)
        if turn == 0:
            schedule_cache.clear()
        known = len(schedule_cache)
        try:
            got = body(*arguments)
        except JitError as error:
            if "ran no kernel" in str(error):
                return
            raise
        realize([got[k] for k in call["outputs"]], how, draw)
        if how.get("plan") and turn > 1 and len(schedule_cache) != known:
            raise Wrong(f"plan: {len(schedule_cache) - known} new schedules in an equal call")
        close = how.get("close", 0)
        for number, (want, native) in draw.sample(
            sorted(call["outputs"].items(), key=lambda pair: pair[0]), len(got)
        ):
            compare(f"call {turn}, v{number}", got[number], want, native, close)
        for number, (want, native) in call["after"].items():
            held = state.get(number, inputs.get(number))
            compare(f"call {turn}, v{number} afterwards", held, want, native, close)
