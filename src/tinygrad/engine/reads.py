"""What the code of a function reads besides its own locals, found in its instructions.

In: a code object. Out: `Chain`s: where each starts (a parameter, a global, a free variable, or something unknown) and the
attributes and constant subscripts that follow: `self.layers[0].eps` is ("self", .layers, [0], .eps). Nothing is run. Called
once for each code object, by `watch`.

What is found is never too little for names that are written in the code; a chain may be read on a path that is not taken.
`getattr`, `vars` and `__dict__` name nothing: code with one of them is marked (`all_attributes`).
"""

from __future__ import annotations

import dis
import fnmatch
import functools
import types
from dataclasses import dataclass, field
from typing import Any

PARAMETER, GLOBAL, FREE, UNKNOWN = "parameter", "global", "free", "unknown"

# a chain longer than this is cut: what follows is looked for on unknown objects
_LONGEST = 8

# instructions that neither use nor hide what is on top of the stack
_SILENT = frozenset(
    {
        "CACHE",
        "EXTENDED_ARG",
        "NOP",
        "PRECALL",
        "PUSH_NULL",
        "RESUME",
        "COPY_FREE_VARS",
        "MAKE_CELL",
    }
)
_REFLECTION = frozenset({"getattr", "vars", "attrgetter", "__dict__", "hasattr"})


@dataclass(frozen=True)
class Chain:
    """A root and the steps from it: ("." name) for attributes, ("[" constant) for subscripts."""

    root: str
    name: str
    steps: tuple[tuple[str, Any], ...] = ()

    def then(self, kind: str, what: Any) -> Chain:
        """The chain with one more step."""
        if len(self.steps) >= _LONGEST:
            return Chain(UNKNOWN, "", ((kind, what),))
        return Chain(self.root, self.name, (*self.steps, (kind, what)))


_NOBODY = Chain(UNKNOWN, "")


@dataclass
class CodeReads:
    """The chains that a code reads to their end. `escaping`: parameters and the like that go on as they are, to a call or
    another name, so that unknown objects may be them. `set_first`: chains that it sets before it can read them.
    """

    chains: dict[Chain, None] = field(default_factory=dict)
    set_first: set[Chain] = field(default_factory=set)
    all_attributes: bool = False


def _root_of(op: str, argument: Any, code: types.CodeType) -> tuple[str, str] | None:
    """(kind, name) of what an instruction loads by name; ("local", name) for a local variable."""
    if isinstance(argument, tuple) and op != "LOAD_CONST":
        # two loads in one: the second is on top
        argument = argument[-1]
    if op.startswith("LOAD_FAST"):
        return "local", argument
    if op in ("LOAD_GLOBAL", "LOAD_NAME"):
        return GLOBAL, argument
    if op in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_CLOSURE"):
        return (FREE, argument) if argument in code.co_freevars else ("local", argument)
    return None


def _parameters(code: types.CodeType) -> set[str]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return set(code.co_varnames[:count])


class _Scan:
    """One pass over the instructions. `aliases`: what locals were seen to be, from an earlier pass."""

    def __init__(self, code: types.CodeType, aliases: dict[str, set[Chain]]):
        self.code, self.known = code, aliases
        self.parameters = _parameters(code)
        self.aliases: dict[str, set[Chain]] = {}
        self.found = CodeReads()
        self.top: tuple[Chain, ...] = ()
        self.subscript: tuple[tuple[Chain, ...], Any] | None = None
        self.straight = True

    def run(self) -> CodeReads:
        every = [ins for ins in dis.get_instructions(self.code) if ins.opname not in _SILENT]
        skipped = 0
        for place, ins in enumerate(every):
            if place < skipped:
                continue
            if "JUMP" in ins.opname or ins.opname == "FOR_ITER" or ins.is_jump_target:
                self.straight = False
            if ins.opname == "COPY" and ins.arg == 1:
                continue
            if self.subscript is not None and _counts_an_item(every[place : place + 8]):
                self.subscript, skipped = None, place + 8
                continue
            if ins.opname == "BINARY_OP" and self._only_counts(every[place : place + 4]):
                self.subscript = None
            self._step(ins.opname, ins.argval)
        self._use()
        return self.found

    def _only_counts(self, following: list[dis.Instruction]) -> bool:
        """Whether what was loaded goes back, changed by a constant, to where it was: `n += 1`. That alone decides nothing."""
        if self.subscript is None or not following[0].argrepr.endswith("="):
            return False
        store = next((ins for ins in following[1:] if ins.opname != "SWAP"), None)
        chains = self.subscript[0]
        if store is None or len(chains) != 1:
            return False
        chain = chains[0]
        if store.opname == "STORE_ATTR":
            return bool(chain.steps) and chain.steps[-1] == (".", store.argval)
        stores = ("STORE_DEREF", "STORE_GLOBAL")
        return store.opname in stores and not chain.steps and chain.name == store.argval

    def _step(self, op: str, argument: Any) -> None:
        subscript, self.subscript = self.subscript, None
        root = _root_of(op, argument, self.code)
        if root is not None:
            self._use()
            self.top = self._start(*root)
        elif op in ("LOAD_ATTR", "LOAD_METHOD"):
            if argument in _REFLECTION:
                self.found.all_attributes = True
            self.top = tuple([c.then(".", argument) for c in self.top or (_NOBODY,)])
        elif op == "LOAD_CONST" and self.top:
            # not used yet: it may be what a constant subscript follows
            self.subscript, self.top = (self.top, argument), ()
        elif subscript is not None and (
            op == "BINARY_SUBSCR" or (op, argument) == ("BINARY_OP", 26)
        ):
            chains, key = subscript
            self.top = tuple([c.then("[", key) for c in chains])
            return
        elif subscript is not None and op == "STORE_SUBSCR":
            self._set([c.then("[", subscript[1]) for c in subscript[0]])
            return
        elif op in ("STORE_FAST", "STORE_DEREF") and not isinstance(argument, tuple):
            self.aliases.setdefault(argument, set()).update(self.top or (_NOBODY,))
            self._use()
        elif op == "STORE_ATTR":
            self._set([c.then(".", argument) for c in self.top])
            self.top = ()
        else:
            self._use()
        if subscript is not None and self.subscript is None:
            self._note(subscript[0])

    def _start(self, kind: str, name: str) -> tuple[Chain, ...]:
        if kind != "local":
            if name in _REFLECTION:
                self.found.all_attributes = True
            return (Chain(kind, name),)
        starts = [Chain(PARAMETER, name)] if name in self.parameters else []
        starts += sorted(self.known.get(name, ()), key=repr)
        return tuple(starts) or (_NOBODY,)

    def _set(self, targets: list[Chain]) -> None:
        """What is set on every path, and was not read before, is not what it was before the call."""
        if self.straight and len(targets) == 1 and targets[0] not in self.found.chains:
            self.found.set_first.add(targets[0])

    def _note(self, chains: tuple[Chain, ...]) -> None:
        for chain in chains:
            if chain is not _NOBODY:
                self.found.chains[chain] = None

    def _use(self) -> None:
        self._note(self.top)
        self.top = ()


# `calls[0] += 1`, after the container and the key
_ITEM_COUNT = (
    "COPY",
    "COPY",
    "BINARY_*",
    "LOAD_CONST",
    "BINARY_OP",
    "SWAP",
    "SWAP",
    "STORE_SUBSCR",
)


def _counts_an_item(following: list[dis.Instruction]) -> bool:
    """As `_only_counts`, for an item of a container."""
    names = [ins.opname for ins in following]
    return (
        len(names) == len(_ITEM_COUNT)
        and all(fnmatch.fnmatch(name, kind) for name, kind in zip(names, _ITEM_COUNT))
        and following[4].argrepr.endswith("=")
    )


@functools.lru_cache(maxsize=4096)
def reads_of(code: types.CodeType) -> CodeReads:
    """What a code object reads."""
    first = _Scan(code, {})
    first.run()
    # a second time, since a loop may use a name before the place where it is set
    return _Scan(code, first.aliases).run()
