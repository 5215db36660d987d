"""Which results differ between two states of the code: calls are recorded, and made again or compared.

`CAPTURE_PROCESS_REPLAY=1` makes every process record the calls of functions under `track_rewrites(replay=True)`: the
arguments, the switches, and what came out. `get_program` is one, so every kernel is recorded with its source. Records are plain
data in the disk cache; a call with arguments that have no plain form is left out. `tinygrad.viz.replay` is the command.

Only functions and renderers of this package are loaded by the names in a record; calls of other functions can be compared
between two runs, and are not made again.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tinygrad.common.diskcache import CACHEDB, diskcache_forget, diskcache_values
from tinygrad.engine.program_cache import _in, _NotPlain, _out, code_context, from_rows, to_rows
from tinygrad.helpers import (
    CAPTURE_PROCESS_REPLAY,
    Context,
    ContextVar,
    diskcache_get,
    diskcache_put,
)
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import Ops, UOp
from tinygrad.uop.tracing import replay_recorders

TABLE = "process_replay"
_PACKAGE = "tinygrad"


# ---------------------------------------------------------------- plain data


def _renderer_out(ren: Renderer) -> tuple:
    made = ren.__reduce__()
    arguments = made[1] if isinstance(made, tuple) and len(made) > 1 else ()
    if not all(isinstance(a, (str, int, float, bool, type(None))) for a in arguments):
        raise _NotPlain("arguments of the renderer")
    return ("renderer", type(ren).__module__, type(ren).__qualname__, tuple(arguments))


def _named(module: str, name: str) -> Any:
    """Something of this package by name. Raises ValueError for anything else."""
    if module.partition(".")[0] != _PACKAGE:
        raise ValueError(f"a record names {module}.{name}, which is not of this package")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _renderer_in(module: str, name: str, arguments: tuple) -> Renderer:
    kind = _named(module, name)
    if not (isinstance(kind, type) and issubclass(kind, Renderer)):
        raise ValueError(f"{module}.{name} is no renderer")
    return kind(*arguments)


def _argument_out(value: Any) -> Any:
    if isinstance(value, UOp):
        return ("rows", to_rows(value))
    if isinstance(value, Renderer):
        return _renderer_out(value)
    if isinstance(value, (list, tuple)):
        return ("several", [_argument_out(v) for v in value])
    return ("value", _out(value))


def _argument_in(kind: str, *data: Any) -> Any:
    if kind == "rows":
        return from_rows(data[0])
    if kind == "renderer":
        return _renderer_in(*data)
    if kind == "several":
        return tuple([_argument_in(*v) for v in data[0]])
    return _in(data[0])


def _result_text(result: Any) -> str:
    """What two runs are compared by: the source of a kernel, the text of another graph."""
    if not isinstance(result, UOp):
        return repr(result)
    if result.op is Ops.PROGRAM and len(result.src) == 4:
        return result.src[3].arg
    return result.pyrender()


# ---------------------------------------------------------------- records


@dataclass(frozen=True)
class Call:
    """A recorded call. Arguments and switches are plain data; `key` is the same for the same call in another run."""

    key: str
    name: str
    function: tuple[str, str]
    arguments: tuple
    keywords: tuple
    switches: tuple
    result: str

    @property
    def is_ours(self) -> bool:
        """Whether the function is one of this package, so that the call can be made again."""
        return self.function[0].partition(".")[0] == _PACKAGE

    def again(self) -> str:
        """The result that the code as it is now gives. Raises ValueError for a function that is not replayable."""
        function: Callable = _named(*self.function)
        if not getattr(function, "replayable", False):
            raise ValueError(f"{'.'.join(self.function)} is not under track_rewrites(replay=True)")
        arguments = [_argument_in(*a) for a in self.arguments]
        keywords = {name: _argument_in(*a) for name, a in self.keywords}
        known = {name: value for name, value in self.switches if name in ContextVar._cache}
        # made again, not looked up
        with Context(**known, CCACHE=0):
            return _result_text(function(*arguments, **keywords))


def record_call(function: Callable, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
    """Keeps what is needed to make a call again, and its result. The first result of a call counts."""
    try:
        arguments = tuple([_argument_out(a) for a in args])
        keywords = tuple([(name, _argument_out(a)) for name, a in sorted(kwargs.items())])
        switches = tuple(pair for pair in code_context() if isinstance(pair[1], (str, int, float)))
    except (_NotPlain, KeyError):
        return
    where = (function.__module__, function.__qualname__)
    key = hashlib.sha256(repr((where, arguments, keywords, switches)).encode()).hexdigest()
    if diskcache_get(TABLE, key) is None:
        is_program = isinstance(result, UOp) and result.op is Ops.PROGRAM
        name = result.name if is_program else function.__name__
        entry = (key, name, where, arguments, keywords, switches, _result_text(result))
        diskcache_put(TABLE, key, entry)


def recorded() -> Iterator[Call]:
    """All records of the cache file, in the order of their keys. What can't be read is left out."""
    for entry in diskcache_values(TABLE):
        yield Call(*entry)


def clear() -> None:
    """Forgets all records."""
    if not diskcache_forget(TABLE):
        raise RuntimeError(f"the records in {CACHEDB} can't be cleared; is the file writable?")


def main(arguments: list[str]) -> int:
    """The command, under the name it had before the visualiser."""
    from tinygrad.viz.replay import main as command

    return command(arguments)


if CAPTURE_PROCESS_REPLAY:
    replay_recorders.append(record_call)

if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
