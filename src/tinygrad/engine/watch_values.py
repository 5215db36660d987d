"""What a place held when a captured function ran: taken down so that it can be compared later.

In: a Python value. Out: the value itself where it is a number, a text or the like, else an `Expected` that a later value fits or
does not. Containers are taken down item by item, arrays and generators of random numbers by content, objects by identity (their
attributes are places of their own), tensors by identity or, without memory, by node. Nothing that can die is kept alive. Also
here: whose code and whose classes are looked at. Called by `watch`.
"""

from __future__ import annotations

import decimal
import fractions
import functools
import os
import pathlib
import random
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

import tinygrad
from tinygrad._core.guard import Expected, Identity, Mapping, Sequence
from tinygrad.dtype import DType
from tinygrad.engine.jit_args import is_pending, memory_of
from tinygrad.uop.ops import UOp

# containers are looked into to this depth, and to this many items altogether
_DEEPEST, _MOST_ITEMS = 6, 20_000

_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None)})
_BY_VALUE = (range, slice, pathlib.PurePath, decimal.Decimal, fractions.Fraction)


@functools.cache
def tensor_class() -> Any:
    """The class of all tensors; it belongs to the layer above, which is loaded when there are any."""
    from tinygrad.tensor import Tensor

    return Tensor


# ---------------------------------------------------------------- whose code it is


@functools.cache
def _folders() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(this package's folders, those of the standard library), each with a separator at its end."""
    own = [os.path.dirname(os.path.abspath(tinygrad.__file__))]
    for package in (tinygrad._core, sys.modules.get("tinygrad.backends")):
        own += [os.path.abspath(p) for p in getattr(package, "__path__", ())]
    library = [p for kind in ("stdlib", "platstdlib") if (p := sysconfig.get_path(kind))]
    return tuple(p + os.sep for p in own), tuple(p + os.sep for p in library)


@functools.lru_cache(maxsize=4096)
def is_users_file(name: str) -> bool:
    """Whether the code of a file may keep state that a captured function depends on."""
    path = os.path.abspath(name)
    parts = path.split(os.sep)
    own, library = _folders()
    if path.startswith(own):
        return path.startswith(tuple(own[0] + part + os.sep for part in ("nn", "apps")))
    if name.startswith("<frozen") or "numpy" in parts:
        return False
    installed = "site-packages" in parts or "dist-packages" in parts
    return installed or not path.startswith(library)


def is_users_code(code: types.CodeType) -> bool:
    """Whether a code belongs to the user (or to `tinygrad.nn`, whose layers are objects of the user's)."""
    return code.co_name != "<module>" and is_users_file(code.co_filename)


def is_users_class(kind: type) -> bool:
    """Whether the attributes of instances are looked at."""
    return _is_users_module(kind.__module__)


@functools.lru_cache(maxsize=4096)
def _is_users_module(name: str) -> bool:
    module = sys.modules.get(name)
    if module is None or name in sys.builtin_module_names:
        return False
    path = os.path.abspath(getattr(module, "__file__", None) or "")
    return not path.startswith(_folders()[0]) or is_users_file(path)


# ---------------------------------------------------------------- what stood in a place


class HeldTensor(Identity):
    """A tensor with memory, by identity. What becomes of the memory is watched elsewhere."""

    def __init__(self, tensor: Any):
        self.bases = memory_of(tensor.uop)


class TensorNode(Expected):
    """A tensor without memory of its own (a constant, say): any with the same node."""

    def __init__(self, tensor: Any):
        self.node: UOp = tensor.uop
        self.pending = is_pending(tensor.uop)

    def same(self, now: Any) -> bool:
        """Whether `now` is a tensor of that node."""
        return isinstance(now, tensor_class()) and now.uop is self.node


class Anything(Expected):
    """What a capture that was loaded from elsewhere can't compare."""

    def __reduce__(self):
        return Anything, ()

    def same(self, now: Any) -> bool:
        """Always."""
        return True


class Equal(Expected):
    """A value that is compared by `==`."""

    def __init__(self, value: Any):
        self.value = value

    def same(self, now: Any) -> bool:
        """Whether `now` has the type and the value."""
        return type(now) is type(self.value) and bool(now == self.value)


class Members(Expected):
    """What a set holds."""

    def __init__(self, value: Any):
        self.kind, self.value = type(value), frozenset(value)

    def same(self, now: Any) -> bool:
        """Whether `now` holds the same."""
        return type(now) is self.kind and now == self.value


class ArrayBytes(Expected):
    """A NumPy array, by its elements."""

    def __init__(self, value: Any):
        self.value = value.copy()

    def same(self, now: Any) -> bool:
        """Whether `now` has the same form and bytes."""
        old = self.value
        if type(now) is not type(old) or now.shape != old.shape or now.dtype != old.dtype:
            return False
        return now.tobytes() == old.tobytes()


class GeneratorState(Expected):
    """A generator of random numbers, by its state."""

    def __init__(self, value: Any):
        self.state = generator_state(value)

    def same(self, now: Any) -> bool:
        """Whether `now` would give the same numbers."""
        return generator_state(now) == self.state


def generator_state(generator: Any) -> Any:
    """Something that changes with each number drawn; None for what is no generator of random numbers."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    kind = type(generator)
    if kind.__module__.startswith("numpy.random"):
        bits = getattr(generator, "bit_generator", None) or getattr(
            generator, "_bit_generator", None
        )
        return None if bits is None else repr(bits.state)
    return None


class Snapshots:
    """Takes down values; the users' objects, and the functions, that are met on the way are kept."""

    def __init__(self) -> None:
        self.left = _MOST_ITEMS
        self.objects: list[Any] = []
        self.functions: list[Any] = []
        self.spent: list[str] = []

    def take(self, value: Any, label: str, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _PLAIN or isinstance(value, (UOp, DType)):
            return value
        if isinstance(value, tensor_class()):
            return HeldTensor(value) if memory_of(value.uop) else TensorNode(value)
        if isinstance(value, (list, tuple, dict)) and depth < _DEEPEST and len(value) <= self.left:
            return self._container(value, label, depth)
        if isinstance(value, (set, frozenset)) and len(value) <= self.left:
            self.left -= len(value)
            return Members(value)
        if isinstance(value, _BY_VALUE) or _is_numpy(value, "generic"):
            return Equal(value)
        if _is_numpy(value, "ndarray"):
            return ArrayBytes(value)
        if generator_state(value) is not None:
            return GeneratorState(value)
        if isinstance(value, Iterator) and not hasattr(value, "fileno"):
            self.spent.append(label)
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self.functions.append(value)
        elif is_users_class(kind):
            self.objects.append(value)
        return Identity(value)

    def _container(self, value: Any, label: str, depth: int) -> Any:
        self.left -= len(value)
        if isinstance(value, dict):
            items = {k: self.take(v, f"{label}[{k!r}]", depth + 1) for k, v in value.items()}
            return Mapping(type(value), items)
        taken = [self.take(v, f"{label}[{i}]", depth + 1) for i, v in enumerate(value)]
        return Sequence(type(value), taken)


def _is_numpy(value: Any, name: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, name))
