"""Random programs of views and writes in seven ways of running, against a model on NumPy arrays.

`PROGRAMS=3000 SEED=0 pytest tests/fuzz/test_order.py` runs more of them. A failure is shrunk, printed with its seed, and written
to a file that runs on its own, in SHRUNK (default: the temporary directory).
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import order_programs as programs  # noqa: E402

COUNT = int(os.getenv("PROGRAMS", "30"))
FIRST = int(os.getenv("SEED", "0"))


@pytest.mark.parametrize("mode", programs.MODES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_order(seed, mode):
    program, shapes = programs.Generator(seed).make(length=4 + seed % 24)
    if programs.fails(program, shapes, seed, mode) is None:
        return
    program = programs.shrink(program, shapes, seed, mode)
    why = programs.fails(program, shapes, seed, mode)
    place = (
        Path(os.getenv("SHRUNK", tempfile.gettempdir()))
        / f"order_{seed}_{mode.replace(' ', '_')}.py"
    )
    place.write_text(programs.stand_alone(program, shapes, seed, mode))
    lines = "\n".join(map(repr, program))
    pytest.fail(f"seed {seed}, {mode}: {why}\nshapes {shapes}\n{lines}\nrun {place}", pytrace=False)


def test_the_shrinker_finds_the_statement(monkeypatch):
    """A wrong subtraction in a long program is cut down to it."""
    program, shapes = programs.Generator(5).make(length=20)
    program = [s for s in program if s[0] != "sub"] + [("sub", 90, (0, 0), None)]
    right = programs.step_tensor

    def wrong(statement, values):
        right(statement, values)
        if statement[0] == "sub":
            values[statement[1]] = values[statement[1]] + 1

    monkeypatch.setattr(programs, "step_tensor", wrong)
    short = programs.shrink(program, shapes, 5, "lazy")
    assert short == [("sub", 90, (0, 0), None)]
    assert "PROGRAM = [\n    ('sub', 90, (0, 0), None),\n]" in programs.stand_alone(
        short, shapes, 5, "lazy"
    )
