"""Random programs run eagerly, realized step by step, unoptimised and jitted, all against NumPy.

`PROGRAMS=2000 SEED=0 pytest tests/fuzz/test_programs.py` runs more of them; a failure prints the program, and the seed alone
brings it back.
"""

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad import TinyJit
from tinygrad.engine.jit import JitError
from tinygrad.helpers import Context

sys.path.insert(0, str(Path(__file__).parent))
import random_programs as programs  # noqa: E402

COUNT = int(os.getenv("PROGRAMS", "40"))
FIRST = int(os.getenv("SEED", "0"))
CALLS = 5
JIT_MODES = {"jit": {}, "pruned jit": {"prune": True}, "packed jit": {"optimize": True}}


def check(program, mode: str) -> None:
    draw = random.Random(program.seed + 1)
    arrays = [programs.random_array(draw, s) for s in program.state_shapes]
    state = [programs.as_tensor(a) for a in arrays]

    def body(*inputs):
        after = (lambda t: t.realize()) if mode == "stepwise" else None
        return program.run(list(inputs), state, after)

    jitted = mode in JIT_MODES
    function = TinyJit(body, **JIT_MODES[mode]) if jitted else body
    for call in range(CALLS if jitted else 2):
        inputs = [programs.random_array(draw, s) for s in program.input_shapes]
        want = [w.copy() for w in program.run([a.copy() for a in inputs], arrays)]
        got = [t.numpy() for t in function(*[programs.as_tensor(a) for a in inputs])]
        for number, (w, g) in enumerate(zip(want, got, strict=True)):
            np.testing.assert_array_equal(
                g, w, err_msg=f"{mode}, call {call}, output {number}\n{program.text()}"
            )
        for number, (a, t) in enumerate(zip(arrays, state)):
            np.testing.assert_array_equal(
                t.numpy(), a, err_msg=f"{mode}, call {call}, state {number}\n{program.text()}"
            )


@pytest.mark.parametrize("mode", ["fused", "stepwise", "unoptimised", *JIT_MODES])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_program(seed, mode):
    program = programs.Generator(seed).make(length=4 + seed % 12)
    with Context(NOOPT=int(mode == "unoptimised")):
        try:
            check(program, mode)
        except JitError as error:
            if "ran no kernel" not in str(error):
                raise
            pytest.skip("only views: there is nothing to capture")
