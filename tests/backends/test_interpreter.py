"""The PYTHON device against the CPU: operations of two operands, reductions, conversions, views, on edge values of every dtype."""

import math
import random

import numpy as np
import pytest
from tinygrad.backends.python.machine import Instruction, Machine

from tinygrad import Tensor, dtypes
from tinygrad.uop import Ops

SEED = 20261130
INTS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
FLOATS = "half bfloat16 float double fp8e4m3 fp8e5m2".split()
# relative differences of sums and quotients, by the bits of the fraction
TOLERANCE = {
    "half": 2e-3,
    "bfloat16": 2e-2,
    "fp8e4m3": 0.13,
    "fp8e5m2": 0.26,
    "float": 1e-6,
    "double": 1e-14,
}


def edges(name: str) -> list:
    dtype = getattr(dtypes, name)
    if name == "bool":
        return [True, False] * 6
    if dtypes.is_int(dtype):
        low, high = dtypes.min(dtype), dtypes.max(dtype)
        return [low, high, 0, 1, 2, 3, high - 1, low + 1, 5, 7, max(low, -3), high // 2]
    return [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.25, math.inf, -math.inf, math.nan, 100.0, 1e-3]


def operands(name: str, device: str) -> tuple[Tensor, Tensor]:
    first = edges(name)
    second = first[:]
    random.Random(SEED).shuffle(second)
    dtype = getattr(dtypes, name)
    return tuple(Tensor(v, dtype=dtype, device=device).realize() for v in (first, second))


# what has one result in every arithmetic, as one tensor: one kernel a dtype
EXACT = {
    "order": lambda a, b: [a < b, a == b, a != b, a >= b],
    "choice": lambda a, b: [a.maximum(b), a.minimum(b), (a < b).where(a, b)],
    "moved": lambda a, b: [b.flip(0), a.roll(3), a.pad(((1, 0),))[:12], a[::-1]],
}
EXACT_INTS = {
    "ring": lambda a, b: [a + b, a - b, a * b, -a, a * a * b],
    "quotients": lambda a, b: [a // b, a % b],
    "bits": lambda a, b: [a & b, a | b, a ^ b, ~a, a << 3, a >> 1],
    "sums": lambda a, b: [a.cumsum(0), a.cumprod(0), (a * b).sum().expand(12)],
}
ROUNDED_FLOATS = {
    "ring": lambda a, b: [a + b, a - b, a * b, -a],
    "sums": lambda a, b: [a[:7].cumsum(0).pad(((0, 5),)), (a[:7] * b[:7]).isnan().where(0, 1).sum().expand(12)],
    "quotients": lambda a, b: [a / b, a.reciprocal(), a.abs().sqrt()],
    "parts": lambda a, b: [a.trunc(), a.floor(), a.ceil(), a.round(), a.sign()],
}  # fmt: skip
CASES = [
    *((n, k, f, True) for n in ["bool", *INTS, *FLOATS] for k, f in EXACT.items()),
    *(
        (n, "sorted", lambda a, b: [a.sort()[0], b.sort()[0]], True)
        for n in ("int8", "uint64", "float")
    ),
    *((n, k, f, True) for n in INTS for k, f in EXACT_INTS.items()),
    *((n, k, f, False) for n in FLOATS for k, f in ROUNDED_FLOATS.items()),
]


def results(name: str, function) -> list[np.ndarray]:
    found = []
    for device in ("CPU", "PYTHON"):
        first, *rest = function(*operands(name, device))
        found.append(first.stack(*rest).to("CPU").numpy())
    return found


@pytest.mark.parametrize(
    ("name", "kind", "function", "exact"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_operations(name, kind, function, exact):
    cpu, interpreted = results(name, function)
    assert cpu.dtype == interpreted.dtype
    if exact:
        np.testing.assert_array_equal(interpreted, cpu)
    else:
        bound = TOLERANCE[name]
        np.testing.assert_allclose(interpreted, cpu, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("source", ["bool", *INTS, *FLOATS])
def test_conversions(source):
    """To every dtype; of numbers that the target has no value near, any is right, so that they are left out."""
    values = [v for v in edges(source) if isinstance(v, (bool, int)) or math.isfinite(v)]
    for target in ["bool", *INTS, *FLOATS]:
        into = getattr(dtypes, target)
        kept = [
            v for v in values
            if not dtypes.is_float(getattr(dtypes, source)) or not dtypes.is_int(into) or dtypes.min(into) <= v <= dtypes.max(into)
        ]  # fmt: skip
        got = [
            Tensor(kept, dtype=getattr(dtypes, source), device=d)
            .realize()
            .cast(into)
            .to("CPU")
            .numpy()
            for d in ("CPU", "PYTHON")
        ]
        np.testing.assert_array_equal(got[1], got[0], err_msg=f"{source} to {target}")


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_bits_read_as_other_types(width):
    names = [n for n in (*INTS, *FLOATS) if getattr(dtypes, n).itemsize == width]
    raw = np.random.default_rng(SEED).integers(0, 256, 16 * width).astype(np.uint8)
    whole = getattr(dtypes, f"uint{8 * width}")
    for name in names:
        got = []
        for device in ("CPU", "PYTHON"):
            words = Tensor(raw, device=device).bitcast(whole).contiguous().realize()
            got.append(
                (words.bitcast(getattr(dtypes, name)).contiguous().bitcast(whole)).to("CPU").numpy()
            )
        np.testing.assert_array_equal(got[1], got[0], err_msg=name)


def test_programs_that_make_no_sense():
    loop = Instruction(Ops.RANGE, dtypes.int32, (0,), (0,))
    with pytest.raises(RuntimeError, match="blocks without an end: RANGE"):
        Machine([Instruction(Ops.CONST, dtypes.int32, (), 3), loop])
    pointer = dtypes.int32.ptr(4)
    code = [
        Instruction(Ops.DEFINE_GLOBAL, pointer, (), 0), Instruction(Ops.CONST, dtypes.int32, (), 9),
        Instruction(Ops.INDEX, pointer, (0, 1), None), Instruction(Ops.LOAD, dtypes.int32, (2,), None),
    ]  # fmt: skip
    machine = Machine(code)
    with pytest.raises(IndexError, match="element 9 of buffer 0, which has 4"):
        machine.launch([memoryview(bytearray(16))], (1, 1, 1), (1, 1, 1), ())
    with pytest.raises(RuntimeError, match="takes 1 buffers, got 0"):
        machine.launch([], (1, 1, 1), (1, 1, 1), ())
    with pytest.raises(NotImplementedError, match="the interpreter has no WMMA"):
        Machine([Instruction(Ops.WMMA, dtypes.float32, (), None)]).launch(
            [], (1, 1, 1), (1, 1, 1), ()
        )
