"""No public method of Tensor is without a test here, or a reason."""

import ast
import inspect
from pathlib import Path

from tinygrad import Tensor

HERE = Path(__file__).parent

# method -> where it is tested instead, or why it needs no values compared
ELSEWHERE: dict[str, str] = {}


def public_methods() -> set[str]:
    """Names that users may call or read, on the class or on a tensor."""
    return {name for name in dir(Tensor) if not name.startswith("_")}


def names_used(path: Path) -> set[str]:
    """Attributes that a test file reads, and strings in it: tables call methods by their names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_every_public_method_is_tested():
    used = set().union(
        *(names_used(p) for p in HERE.glob("t*.py") if p.name != Path(__file__).name)
    )
    missing = public_methods() - used - ELSEWHERE.keys()
    assert not missing, f"no test in tests/ops calls {sorted(missing)}; add one, or a reason here"


def test_the_reasons_are_needed():
    used = set().union(
        *(names_used(p) for p in HERE.glob("t*.py") if p.name != Path(__file__).name)
    )
    assert not ELSEWHERE.keys() - public_methods(), "a name that Tensor does not have"
    assert not ELSEWHERE.keys() & used, f"tested by now: {sorted(ELSEWHERE.keys() & used)}"


def test_every_public_method_says_what_it_does():
    for name in public_methods():
        member = inspect.getattr_static(Tensor, name)
        if callable(member) or isinstance(member, (property, classmethod, staticmethod)):
            assert inspect.getdoc(getattr(Tensor, name)) or name == "train", (
                f"{name} has no docstring"
            )
