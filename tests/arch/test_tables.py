"""The tables of ARCHITECTURE.md and the shape of the code: passes, devices, docstrings, sizes."""

import ast
import re
from pathlib import Path

import pytest

from tinygrad.codegen import pipeline
from tinygrad.schedule import rangeify
from tinygrad.uop import spec

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PYTHON_FILES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "backends").rglob("*.py")])
CYTHON_FILES = sorted([*(ROOT / "src").rglob("*.pyx"), *(ROOT / "backends").rglob("*.pyx")])

MOST_FUNCTION_LINES = 80
MOST_FILE_LINES = 700

# file -> why it may be longer
LONG_FILES = {
    "src/tinygrad/dtype.py": "types, their order and their values define each other; a fifth of it is examples",
}
# file::function -> why it may be longer
LONG_FUNCTIONS: dict[str, str] = {}


def table(heading: str) -> list[list[str]]:
    """The rows below the heading that holds `heading`, as lists of cells."""
    section = re.split(r"^#+ ", TEXT, flags=re.M)
    body = next(part for part in section if heading in part.split("\n")[0])
    rows = [line for line in body.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_passes_of_the_scheduler():
    assert table("`src/tinygrad/schedule/rangeify.py`") == [
        [p.name, p.why] for p in rangeify.PASSES
    ]


def test_passes_of_the_lowering():
    names = {id(getattr(spec, n)): n for n in ("kernel_spec", "full_spec", "program_spec")}
    assert table("`src/tinygrad/codegen/pipeline.py`") == [
        [p.name, p.why, names[id(p.spec)]] for p in pipeline.PASSES
    ]


@pytest.mark.parametrize("passes", [rangeify.PASSES, pipeline.PASSES], ids=["schedule", "lowering"])
def test_passes_have_names_of_their_own_and_reasons(passes):
    names = [p.name for p in passes]
    assert len(set(names)) == len(names)
    assert all(p.why for p in passes)


def backend_folders() -> list[Path]:
    return sorted(p.parent for p in (ROOT / "backends").glob("*/device.py"))


def test_devices():
    listed = sorted(re.findall(r"`([^`]*)`", row[0])[0] for row in table("The devices"))
    assert listed == [f"{name_of(folder)}/" for folder in backend_folders()]


def test_every_backend_has_a_readme_that_names_its_files():
    for folder in backend_folders():
        readme = (folder / "README.md").read_text()
        assert readme.startswith("# "), f"{name_of(folder)}/README.md has no title"
        sources = [p for p in folder.iterdir() if p.suffix in (".py", ".pyx")]
        hidden = [p.name for p in sources if p.name != "__init__.py" and p.name not in readme]
        few = len(sources) <= 2  # the package and one file, which the folder's text is about
        assert few or not hidden, f"{name_of(folder)}/README.md does not mention {hidden}"


def test_every_module_says_what_it_is():
    silent = [name_of(p) for p in PYTHON_FILES if not ast.get_docstring(ast.parse(p.read_text()))]
    for path in CYTHON_FILES:
        code = [line for line in path.read_text().split("\n") if not line.startswith("#")]
        if not "\n".join(code).lstrip().startswith('"""'):
            silent.append(name_of(path))
    assert not silent, f"modules without a docstring: {silent}"


def test_files_are_short():
    long = {name_of(p): len(p.read_text().splitlines()) for p in PYTHON_FILES + CYTHON_FILES}
    long = {name: lines for name, lines in long.items() if lines > MOST_FILE_LINES}
    assert not long.keys() - LONG_FILES.keys(), f"longer than {MOST_FILE_LINES} lines: {long}"
    assert not LONG_FILES.keys() - long.keys(), "an exception that is no longer needed"


def test_functions_are_short():
    """A function is counted without its docstring."""
    long = {}
    for path in PYTHON_FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node):
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            if lines > MOST_FUNCTION_LINES:
                long[f"{name_of(path)}::{node.name}"] = lines
    assert not long.keys() - LONG_FUNCTIONS.keys(), f"over {MOST_FUNCTION_LINES} lines: {long}"
    assert not LONG_FUNCTIONS.keys() - long.keys(), "an exception that is no longer needed"
