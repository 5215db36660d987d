"""Random programs of all kinds of operations, each in three of the ways of running, against a model on NumPy arrays.

`SEED=1000 PROGRAMS=5000 pytest tests/fuzz/test_random_programs.py` runs others, and more of them. A failure is shrunk and written
to a file that runs on its own, in FUZZ_OUT (default: the temporary directory).
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import driver, modes, shrinker  # noqa: E402
from random_programs.campaign import run_seeds  # noqa: E402
from random_programs.operations import OPERATIONS  # noqa: E402
from random_programs.profiles import make_program  # noqa: E402
from random_programs.program import Input, Program, Step, play  # noqa: E402

COUNT = int(os.getenv("PROGRAMS", "2000"))
FIRST = int(os.getenv("SEED", "0"))
OUT = Path(os.getenv("FUZZ_OUT", tempfile.gettempdir()))
BATCH = 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_programs(first):
    tally = run_seeds(range(first, min(first + BATCH, FIRST + COUNT)), None, OUT, True)
    print(tally)
    if tally.failures:
        pytest.fail("\n\n".join(tally.failures), pytrace=False)
    assert sum(tally.refused.values()) < sum(tally.runs.values()) / 4


def test_every_operation_is_drawn():
    """In so many programs, none is so hard to fit that it never comes up; equal seeds give equal programs."""
    drawn = {step.operation for seed in range(1500) for step in make_program(seed).steps}
    assert drawn == set(OPERATIONS)
    assert make_program(7) == make_program(7)


def wrong_subtraction(monkeypatch) -> Program:
    """A long program, and a row of the table that makes its subtraction wrong on tensors."""
    steps = (
        Step("reshape", 2, (0,), (6,)),
        Step("flip", 3, (2,), (0,)),
        Step("add", 4, (3, 2)),
        Step("contiguous", 5, (1,)),
        Step("sub", 6, (4, 3)),
        Step("set_number", None, (6,), ("1:3", 1)),
        Step("sum", 7, (6,), (None, False)),
    )
    row = OPERATIONS["sub"]
    changed = {**row.__dict__, "text": "clip({0} - {1} - 1)"}
    monkeypatch.setitem(OPERATIONS, "sub", type(row)(**changed))
    inputs = (Input(0, (2, 3), "float32"), Input(1, (4,), "int32", True))
    return Program(3, inputs, steps, (5, 6, 7))


def test_the_shrinker_finds_the_step(monkeypatch):
    program = wrong_subtraction(monkeypatch)
    short = shrinker.shrink(program, lambda p: modes.fails(p, "fused"))
    assert [step.operation for step in short.steps] == ["sub"]
    assert all(size == 1 for i in short.inputs for size in i.shape)
    assert len(short.outputs) == 1


def test_a_failure_has_a_file_of_its_own(monkeypatch, tmp_path, capsys):
    program = wrong_subtraction(monkeypatch)
    message = shrinker.report(program, "jit", tmp_path)
    assert "seed 3, jit: Wrong: call 0" in message
    (path,) = tmp_path.iterdir()
    assert str(path) in message
    text = path.read_text()
    assert "random_programs import" not in text and "from tests" not in text
    with pytest.raises(Exception, match="got  float32") as caught:
        exec(compile(text, str(path), "exec"), {"__name__": "alone"})
    assert type(caught.value).__name__ == "Wrong"
    # and it passes where the operation is right
    exec(compile(text.replace(" - 1)", ")"), str(path), "exec"), {"__name__": "alone"})
    assert "all as it should be" in capsys.readouterr().out


def test_the_driver_sees_overlapping_buffers(monkeypatch):
    """A plan that puts everything in one place is noticed."""
    from tinygrad.engine import memory

    steps = (
        Step("permute", 1, (0,), (1, 0)),
        Step("contiguous", 2, (1,)),
        Step("matmul", 3, (2, 2)),
        Step("sum", 4, (2,), ((0,), True)),
        Step("contiguous", 5, (4,)),
        Step("add", 6, (3, 5)),
    )
    program = Program(0, (Input(0, (4, 4), "int32"),), steps, (6,))
    assert modes.fails(program, "plan") is None
    monkeypatch.setattr(memory._Arena, "take", lambda self, base: self.places.__setitem__(base, 0))
    monkeypatch.setattr(memory._Arena, "give", lambda self, base: setattr(self, "peak", 4096))
    assert "overlap" in (modes.fails(program, "plan") or "")


def test_the_model_knows_views():
    """A write through a view shows in its base, one to a value does not; padding cannot be written."""
    inputs = (Input(0, (4,), "int32", False, "count"),)
    steps = (
        Step("flip", 1, (0,), (0,)),
        Step("add_number", 2, (0,), 1),
        Step("set_number", None, (1,), ("0", 5)),
        Step("pad", 3, (0,), ((1, 1),)),
        Step("set_number", None, (3,), ("0", 5)),
    )
    played, _, (call,) = play(Program(0, inputs, steps, (1, 2, 3)), 1)
    assert [s.operation for s in played.steps] == ["flip", "add_number", "set_number", "pad"]
    assert {k: v[0].tolist() for k, v in call.outputs.items()} == {
        1: [5, 2, 1, 0],
        2: [1, 2, 3, 4],
        3: [0, 0, 1, 2, 5, 0],
    }


def test_the_driver_compares_dtypes_and_shapes():
    assert driver.same(np.zeros(2, np.int32), np.zeros(2, np.int32), "int32", 0)
    assert not driver.same(np.zeros(2, np.int32), np.zeros(2, np.int64), "int64", 0)
    assert not driver.same(np.zeros((2, 1), np.int32), np.zeros(2, np.int32), "int32", 0)
    zero = np.array([-0.0], np.float32)
    assert driver.same(zero.view(np.int32), np.zeros(1, np.int32), "float32", 0)
