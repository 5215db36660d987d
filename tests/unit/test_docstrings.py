"""The examples in docstrings, run as tests: one test for each module of the package that has any.

An example may use the names below without importing them. A module that needs a library this machine
lacks is left out; nothing else is. Random numbers start from the same seed in every module.
"""

import doctest
import importlib
import inspect
import pkgutil
import types

import pytest
import tinygrad._core
import tinygrad.backends

import tinygrad
from tinygrad import Context, Device, GlobalCounters, Tensor, TinyJit, UOp, Variable, dtypes, nn
from tinygrad.uop import Ops

NAMES = {
    "Context": Context,
    "Device": Device,
    "GlobalCounters": GlobalCounters,
    "Ops": Ops,
    "Tensor": Tensor,
    "TinyJit": TinyJit,
    "UOp": UOp,
    "Variable": Variable,
    "dtypes": dtypes,
    "nn": nn,
}


def module_names() -> list[str]:
    """Every module below tinygrad, without importing more than the packages on the way."""
    found = []
    for package in (tinygrad, tinygrad._core, tinygrad.backends):
        inside = pkgutil.walk_packages(
            package.__path__, f"{package.__name__}.", onerror=lambda name: None
        )
        found += [m.name for m in inside if not m.name.endswith("__main__")]
    return sorted(set(found))


def load(name: str):
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        missing = getattr(error, "name", None) or ""
        if isinstance(error, ImportError) and missing.startswith("tinygrad"):
            raise
        pytest.skip(f"{name} needs something this machine lacks: {error}")


def examples(module) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(module, extraglobs=NAMES)
    return [t for t in tests if t.examples]


@pytest.fixture
def plain_state():
    """What an example may change is put back: the seed, the training flag, the counters."""
    Tensor.manual_seed(0)
    training = Tensor.training
    yield
    Tensor.training = training
    GlobalCounters.reset()


@pytest.mark.parametrize("name", module_names())
def test_examples_of_docstrings(name, plain_state):
    module = load(name)
    report: list[str] = []
    for test in examples(module):
        Tensor.manual_seed(0)
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(
            test, out=report.append
        )
    assert not report, "\n" + "".join(report)


# runs for seconds, or wants a device or an engine of its own
NO_EXAMPLE = {"decode_hevc_frame", "fs_load", "fs_store", "hash"}


def methods_that_need_an_example() -> list[str]:
    """Every public method and operator of Tensor, but what Python gives each class."""
    found = []
    for name in dir(Tensor):
        kind = inspect.getattr_static(Tensor, name)
        is_function = isinstance(kind, (types.FunctionType, classmethod, staticmethod, property))
        is_public = not name.startswith("_") or (name.startswith("__") and name.endswith("__"))
        if is_function and is_public and name not in {"__del__", "__reduce_cython__"}:
            found.append(name)
    return found


def test_the_public_methods_of_tensor_show_an_example():
    """A new method brings its own."""
    names = methods_that_need_an_example()
    assert {"__add__", "__matmul__", "relu", "arange", "device", "shape"} < set(names)
    shown = {n for n in names if ">>>" in (inspect.getattr_static(Tensor, n).__doc__ or "")}
    missing = set(names) - shown
    assert missing == NO_EXAMPLE, f"without an example: {missing - NO_EXAMPLE}"
    assert all(inspect.getattr_static(Tensor, n).__doc__ for n in names)
