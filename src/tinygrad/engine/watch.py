"""The Python values that a captured function depends on besides its arguments, and whether they are what they were.

In: a function that runs. While it does, each function of the user's that is entered is noted, and what its code reads
(`engine.reads`) is followed from its globals, free variables and parameters to numbers, containers, objects and tensors: these
are the places of a `Watch`, with what they held when the run began. Out: the name of the first place that holds something else.

What a place held is taken before the function can change it. A value that the function changes by itself differs at the next
call, as it must. Python's random numbers and iterators that it uses up are never the same: `spent` names them. What no place
can show, such as the time, is named in `unseen`. Called by `jit`.
"""

from __future__ import annotations

import functools
import gc
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinygrad._core.guard import DICT, GONE, MISSING, OBJECT, READER, Entries, Identity, Places
from tinygrad.device import Device
from tinygrad.dtype import dtypes
from tinygrad.engine.reads import FREE, GLOBAL, UNKNOWN, Chain, reads_of
from tinygrad.engine.realize import run_schedule
from tinygrad.engine.watch_values import (
    Equal,
    HeldTensor,
    Snapshots,
    TensorNode,
    generator_state,
    is_users_class,
    is_users_code,
    is_users_file,
    tensor_class,
)
from tinygrad.helpers import ContextVar
from tinygrad.uop.ops import UOp

# switches that change what is computed, and not only how fast
_SWITCHES = (
    "WINO",
    "SPLIT_REDUCEOP",
    "TRANSCENDENTAL",
    "ALLOW_TF32",
    "IMAGE",
    "CORRECT_DIVMOD_FOLDING",
)
# builtin functions whose results nothing in the process shows
_OUTSIDE = frozenset({"open", "input"})
_CONTAINERS = (list, tuple, dict)
_CLOCKS = frozenset({"time", "secrets", "uuid"})
# an owner and a key, by kind of owner
Place = tuple[int, Any, Any]


# ---------------------------------------------------------------- places that are no entry of a dict


class _Cell:
    """A variable of an enclosing function."""

    def __init__(self, cell: types.CellType):
        self.cell = cell

    def read(self, key: str) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING


class _Attribute:
    """Slots of an object, and what a class gives to its instances."""

    def __init__(self, owner: Any):
        self.reference = Identity(owner)

    def read(self, key: str) -> Any:
        owner = self.reference.value
        return GONE if owner is None else getattr(owner, key, MISSING)


class _Item:
    """Items of the container that stands in another place."""

    def __init__(self, place: tuple[int, Any, Any]):
        self.kind, owner, self.key = place
        self.owner = Identity(owner) if self.kind == OBJECT else owner

    def read(self, key: Any) -> Any:
        owner = self.owner.value if self.kind == OBJECT else self.owner
        if owner is None:
            return GONE
        inside = _read(self.kind, owner, self.key)
        if inside is GONE:
            return GONE
        try:
            return inside[key]
        except (KeyError, IndexError, TypeError):
            return MISSING


class _Defaults:
    """The default values of a function's parameters."""

    def __init__(self, function: types.FunctionType):
        self.reference = Identity(function)

    def read(self, key: str) -> Any:
        function = self.reference.value
        return GONE if function is None else getattr(function, key)


class _Settings:
    """What changes the meaning of the same code: training mode, default dtypes, the default device, switches."""

    names = ("Tensor.training", "dtypes.default_float", "dtypes.default_int", "Device.DEFAULT")

    def read(self, key: str) -> Any:
        # all in one: it is read at every call
        return (
            tensor_class().training,
            dtypes.default_float,
            dtypes.default_int,
            Device.DEFAULT,
            *[switch.value for switch in _switches()],
        )

    def differing(self, before: tuple) -> str:
        """The name of the first setting that is not what it was."""
        names = (*self.names, *_SWITCHES)
        return next((n for n, a, b in zip(names, before, self.read("")) if a != b), "a setting")


@functools.cache
def _switches() -> list[ContextVar]:
    return [ContextVar._cache[name] for name in _SWITCHES]


class _Environment:
    """The variables of the process's environment."""

    def read(self, key: str) -> Any:
        return dict(os.environ)


_SETTINGS, _ENVIRONMENT = _Settings(), _Environment()


def _read(kind: int, owner: Any, key: Any) -> Any:
    """What stands in a place now."""
    if kind == READER:
        return owner.read(key)
    table = owner if kind == DICT else vars(owner)
    return table.get(key, MISSING)


# ---------------------------------------------------------------- following what the code names


class Watch:
    """Places and what they held. `spent`: what is never twice the same; `unseen`: what can't be looked at."""

    def __init__(self) -> None:
        self.places = Places()
        self.settings = _SETTINGS.read("")
        self.places.add(READER, _SETTINGS, "settings", Equal(self.settings), "settings")
        self.spent: dict[str, None] = {}
        self.unseen: dict[str, None] = {}

    def differing(self) -> str | None:
        """The name of the first place that holds something else by now."""
        label = self.places.differing()
        return _SETTINGS.differing(self.settings) if label == "settings" else label

    def settle(self, used: set[Any], nodes: set[UOp]) -> None:
        """Forgets tensors that the function named but did not read: none of the memory in `used`, none of the `nodes`."""

        def unread(value: Any) -> bool:
            if isinstance(value, HeldTensor):
                return used.isdisjoint(value.bases)
            return isinstance(value, TensorNode) and value.pending and value.node not in nodes

        self.places.drop(unread)


class Observer:
    """Fills a `Watch` while a function runs. `before`: the watch of an earlier run, whose places are taken down at once."""

    def __init__(self, function: Callable | None, before: Watch | None):
        self.watch = Watch()
        self.functions: dict[types.CodeType, list[types.FunctionType]] = {}
        self.readers: dict[tuple[type, int], tuple[Any, Any]] = {}
        self.items: dict[tuple, _Item] = {}
        self.entered: set[tuple] = set()
        self.kept: list[Any] = []
        if before is not None:
            self._take_again(before)
        if function is not None:
            self._learn(function)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """What this thread enters inside is looked at."""
        drawn = _global_random_states()
        with Entries(is_users_code, self._enter):
            yield
        for name, state in _global_random_states().items():
            if drawn.get(name, state) != state:
                self.watch.spent[name] = None
        self.functions, self.readers, self.items, self.kept = {}, {}, {}, []

    def _take_again(self, before: Watch) -> None:
        for group in before.places.groups.values():
            owner = group.owner() if group.kind == OBJECT else group.owner
            if owner is None or owner is _SETTINGS:
                continue
            for key, label in zip(group.keys, group.labels):
                value = _read(group.kind, owner, key)
                if value is not GONE:
                    expected = value if value is MISSING else Snapshots().take(value, label)
                    self.watch.places.add(group.kind, owner, key, expected, label)

    # functions

    def _learn(self, function: Any) -> None:
        """Notes a function, to know its free variables and defaults when its code is entered."""
        while not isinstance(function, types.FunctionType):
            kinds = ("__func__", "func", "fget")
            inner = next((f for k in kinds if (f := getattr(function, k, None))), None)
            if inner is None:
                return
            function = inner
        if not is_users_code(function.__code__):
            return
        known = self.functions.setdefault(function.__code__, [])
        if any(f is function for f in known):
            return
        known.append(function)
        reader = self._reader(_Defaults, function)
        for kind in ("__defaults__", "__kwdefaults__"):
            if (values := getattr(function, kind)) is not None:
                label = f"a default argument of {function.__qualname__}"
                self._note((READER, reader, kind), values, label)

    def _reader(self, kind: type, about: Any) -> Any:
        """The one reader of a kind for an object, which it keeps from being freed during the run."""
        found = self.readers.get((kind, id(about)))
        if found is None:
            found = self.readers[kind, id(about)] = (kind(about), about)
        return found[0]

    # frames

    def _enter(self, frame: types.FrameType) -> None:
        """Looks at a function of the user's that is about to run."""
        try:
            self._look_at(frame)
        except Exception as error:
            # an object with a will of its own; it must not end the user's call
            where = f"{frame.f_code.co_name} ({type(error).__name__}: {error})"
            self.watch.unseen[f"what is read in {where}"] = None

    def _look_at(self, frame: types.FrameType) -> None:
        reads, local = reads_of(frame.f_code), frame.f_locals
        held = [v for v in local.values() if is_users_class(type(v)) or type(v) in _CONTAINERS]
        mark = (frame.f_code, *map(id, held))
        if mark in self.entered or _is_interruption(frame):
            return
        self.entered.add(mark)
        # as long as marks are made of addresses
        self.kept.append(held)
        loose: list[Any] = []
        for chain in reads.chains:
            if chain.root != UNKNOWN and chain not in reads.set_first:
                self._start(chain, frame, local, loose)
        if reads.all_attributes:
            loose += [v for v in held if type(v) not in _CONTAINERS]
        for value in loose:
            label = type(value).__name__
            for chain in reads.chains:
                if chain.root == UNKNOWN:
                    self._follow(value, chain.steps, None, label, [])
            if reads.all_attributes:
                for name in list(getattr(value, "__dict__", ())):
                    self._follow(value, ((".", name),), None, label, [])

    def _start(self, chain: Chain, frame: types.FrameType, local: dict, loose: list[Any]) -> None:
        place: Place | None = None
        if chain.root == GLOBAL:
            if chain.name not in frame.f_globals:
                if chain.name in _OUTSIDE:
                    self.watch.unseen[f"{chain.name}()"] = None
                return
            value = frame.f_globals[chain.name]
            place = (DICT, frame.f_globals, chain.name)
        else:
            value = local.get(chain.name, MISSING)
            if chain.root == FREE:
                place = self._cell(frame.f_code, chain.name, value)
        if value is not MISSING:
            self._follow(value, chain.steps, place, chain.name, loose)

    def _cell(self, code: types.CodeType, name: str, value: Any) -> Place | None:
        """The place of a free variable, where the function is known that has it; of all of them that could be meant."""
        at, found = code.co_freevars.index(name), None
        for function in self.functions.get(code, ()):
            cell = (function.__closure__ or ())[at]
            place = (READER, self._reader(_Cell, cell), "cell_contents")
            held = place[1].read("cell_contents")
            if held is value:
                found = place
            elif held is not MISSING:
                self._note(place, held, name)
        return found

    def _follow(
        self,
        value: Any,
        steps: tuple[tuple[str, Any], ...],
        place: Place | None,
        label: str,
        loose: list[Any],
    ) -> None:
        """Walks a chain from a value that stands in `place`, and notes every place that decides where it leads."""
        for kind, what in steps:
            if self._is_special(value, what):
                return
            step = self._item(value, what, place) if kind == "[" else self._attribute(value, what)
            if step is None:
                break
            if place is not None and not isinstance(value, (*_CONTAINERS, types.ModuleType)):
                self._note(place, value, label)
            label += f"[{what!r}]" if kind == "[" else f".{what}"
            place, value = step
        self._is_special(value, "")
        if place is not None and not isinstance(value, types.ModuleType):
            loose.extend(self._note(place, value, label))
        elif is_users_class(type(value)):
            loose.append(value)
        elif type(value) in _CONTAINERS:
            found = Snapshots()
            found.take(value, label)
            loose.extend(found.objects)

    def _is_special(self, value: Any, attribute: str) -> bool:
        """Whether a value tells of the world outside; notes what can be noted of it."""
        if value is os.environ or value is os.getenv:
            self._note((READER, _ENVIRONMENT, "os.environ"), dict(os.environ), "os.environ")
            return True
        if (name := _unseen_name(value, attribute)) is not None:
            self.watch.unseen[name] = None
        return name is not None

    def _item(self, value: Any, key: Any, place: Place | None) -> tuple[Place | None, Any] | None:
        if type(value) not in (dict, list, tuple):
            return None
        try:
            inside = value[key]
        except (KeyError, IndexError, TypeError):
            return None
        if place is None:
            return None, inside
        number = (place[0], id(place[1]), place[2])
        if number not in self.items:
            self.items[number] = _Item(place)
            self.kept.append(place[1])
        return (READER, self.items[number], key), inside

    def _attribute(self, value: Any, name: str) -> tuple[Place | None, Any] | None:
        if isinstance(value, types.ModuleType):
            if name not in vars(value):
                return None
            known = getattr(value, "__file__", None)
            own = known is not None and not is_users_file(known)
            return (None if own else (DICT, vars(value), name)), vars(value)[name]
        if isinstance(value, ContextVar):
            return (READER, self._reader(_Attribute, value), "value"), value.value
        kind = value if isinstance(value, type) else type(value)
        if isinstance(value, types.FunctionType):
            return ((OBJECT, value, name), vars(value)[name]) if name in vars(value) else None
        if not is_users_class(kind) or isinstance(value, tensor_class()):
            return None
        if isinstance(value, type):
            return self._of_class(value, value, name)
        inside = getattr(value, "__dict__", None)
        if isinstance(inside, dict) and name in inside:
            if kind.__weakrefoffset__ == 0:
                return (READER, self._reader(_Attribute, value), name), inside[name]
            return (OBJECT, value, name), inside[name]
        return self._of_class(value, type(value), name)

    def _of_class(self, value: Any, kind: type, name: str) -> tuple[Place | None, Any] | None:
        """An attribute that a class gives: plain data, slots; functions are only noted."""
        owner = next((c for c in kind.__mro__ if name in vars(c)), None)
        if owner is None or not is_users_class(owner):
            return None
        found = vars(owner)[name]
        if isinstance(found, (types.FunctionType, classmethod, staticmethod, property)):
            self._learn(found)
            return None
        slot = isinstance(found, types.MemberDescriptorType)
        if hasattr(type(found), "__get__") and not slot:
            return None
        held = getattr(value, name, MISSING)
        return (READER, self._reader(_Attribute, value), name), held

    def _note(self, place: Place, value: Any, label: str) -> list[Any]:
        """Remembers what a place holds; the users' objects in it."""
        kind, owner, key = place
        if isinstance(value, ContextVar):
            self._note((READER, self._reader(_Attribute, value), "value"), value.value, label)
        taking = Snapshots()
        expected = taking.take(value, label)
        self.watch.places.add(kind, owner, key, expected, label)
        self.watch.spent.update(dict.fromkeys(taking.spent))
        for function in taking.functions:
            self._learn(function)
        return taking.objects


def _is_interruption(frame: types.FrameType | None) -> bool:
    """Whether a frame belongs to what the collector of garbage, an import or the launch of kernels called in between.

    What a device keeps for itself (clocks, queues) moves with every launch and decides nothing about the function.
    """
    hooks = {getattr(f, "__code__", None) for f in gc.callbacks}
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code in hooks or code is run_schedule.__code__:
            return True
        if code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _unseen_name(value: Any, attribute: str) -> str | None:
    """The name of something that gives another value each time and can't be looked at; None for anything else."""
    module = getattr(value, "__module__", None)
    if isinstance(value, type):
        moving = module == "datetime" and attribute in ("now", "today", "utcnow")
        return f"datetime.{value.__name__}.{attribute}()" if moving else None
    callable_kinds = (types.BuiltinFunctionType, types.FunctionType)
    if attribute or module not in _CLOCKS or not isinstance(value, callable_kinds):
        return None
    return None if value.__name__ == "sleep" else f"{module}.{value.__name__}()"


def _global_random_states() -> dict[str, Any]:
    """The generators behind `random.random` and `numpy.random.rand`, by the names of their modules."""
    states: dict[str, Any] = {"random": random.getstate()}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        states["numpy.random"] = generator_state(numpy_random.mtrand._rand)
    return states
