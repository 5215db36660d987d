"""Recordings on disk: the rewrite trace and the profile, in files that hold data only.

Written when the recording process ends, read by the process that serves the page. The files are pickles in which only the
classes listed here may stand; whatever else a node has as its argument is written as text, so that every trace can be written
and no file can make its reader run code. A node that is an argument of a node is written as its number in the trace.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tinygrad.helpers import TracingKey, getenv, temp
from tinygrad.uop import Ops
from tinygrad.uop.ops import RewriteTrace, UOp
from tinygrad.uop.tracing import known_number

_LONGEST_TEXT = 10_000


@dataclass(frozen=True)
class Shown:
    """An argument of which only the text was kept."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Numbered:
    """A node as its number in the trace."""

    number: int

    def __repr__(self) -> str:
        return f"<node {self.number}>"


@dataclass(frozen=True)
class KernelView:
    """What `python -m tinygrad.viz.serve` tells of a rendered kernel besides its rewrites."""

    name: str
    source: str
    listing: str


@dataclass
class Recording:
    """What one file holds."""

    trace: RewriteTrace = field(default_factory=RewriteTrace)
    kernels: dict[int, KernelView] = field(default_factory=dict)


_PLAIN = (int, float, str, bytes, bool, type(None), tuple, list, dict, set, frozenset, complex)
_CLASSES = {
    "builtins": {"set", "frozenset", "complex", "bytearray"},
    "decimal": {"Decimal"},
    "tinygrad.uop": {"Ops"},
    "tinygrad.uop.info": {"AxisType", "KernelInfo"},
    "tinygrad.dtype": {"DType", "PtrDType", "ImageDType", "AddrSpace", "InvalidType"},
    "tinygrad.codegen.opt": {"Opt", "OptOps"},
    "tinygrad.common.profiling": {
        "Metadata",
        "ProfilePointEvent",
        "ProfileRangeEvent",
        "TracingKey",
    },
    "tinygrad.runtime.support.profile_events": {
        "ProfileDeviceEvent",
        "ProfileGraphEntry",
        "ProfileGraphEvent",
        "ProfileProgramEvent",
    },
    "tinygrad.uop.tracing": {"RewriteTrace", "TrackedGraphRewrite"},
    __name__: {"KernelView", "Numbered", "Recording", "Shown"},
}


def _is_listed(kind: type) -> bool:
    return kind.__qualname__ in _CLASSES.get(kind.__module__, ())


class _Writer(pickle.Pickler):
    """Pickles listed classes and plain data; anything else as its text."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            return NotImplemented if _is_listed(obj) else (Shown, (repr(obj),))
        if isinstance(obj, UOp):
            number = known_number(obj)
            return (Shown, (f"<{obj.op.name}>",)) if number is None else (Numbered, (number,))
        if isinstance(obj, TracingKey):
            shown = tuple(str(key) for key in obj.keys)
            return TracingKey, (obj.display_name, shown, None, obj.tb)
        if isinstance(obj, Enum) and _is_listed(type(obj)):
            # by value: some versions of Python write the member as an attribute of its class
            return type(obj), (obj.value,)
        if type(obj) in _PLAIN or _is_listed(type(obj)):
            return NotImplemented
        return Shown, (_text_of(obj),)


def _text_of(obj: Any) -> str:
    try:
        return repr(obj)[:_LONGEST_TEXT]
    except (
        Exception
    ) as error:  # a foreign object may fail to print itself, the trace is still wanted
        return f"<{type(obj).__name__} that can't be printed: {error}>"


class _Reader(pickle.Unpickler):
    """Loads what `_Writer` writes and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in _CLASSES.get(module, ()):
            raise pickle.UnpicklingError(
                f"a recording may not contain {module}.{name}; it was not written by this package"
            )
        return super().find_class(module, name)


def dumps(value: Any) -> bytes:
    """`value` as bytes for `loads`; what is no data becomes text."""
    out = io.BytesIO()
    _Writer(out, protocol=5).dump(value)
    return out.getvalue()


def loads(data: bytes) -> Any:
    """The value. Raises pickle.UnpicklingError for a file that names anything outside the list."""
    return _Reader(io.BytesIO(data)).load()


def write(path: str, value: Any) -> None:
    """Writes beside `path` and renames, so that a reader never sees half a file."""
    data = dumps(value)
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "wb") as out:
        out.write(data)
    os.replace(unfinished, path)


def read(path: str) -> Any:
    with open(path, "rb") as file:
        return loads(file.read())


# ---- what is recorded


def rewrites_path() -> str:
    """Where a process leaves its rewrites (`REWRITES_PATH`)."""
    return getenv("REWRITES_PATH", "") or temp("rewrites.pkl", append_user=True)


def profile_path() -> str:
    """Where a process leaves its profile (`PROFILE_PATH`)."""
    return getenv("PROFILE_PATH", "") or temp("profile.pkl", append_user=True)


def _listing(program: UOp) -> str:
    """The instructions, one a line, with numbers of those they use."""
    uops = list(program.uops)
    place = {u: i for i, u in enumerate(uops)}
    lines = []
    for i, u in enumerate(uops):
        used = ", ".join(str(place.get(s, s.arg)) for s in u.src)
        argument = "" if u.arg is None else str(u.arg)
        lines.append(f"{i:4d} {u.op.name:16s} {u.dtype!s:30s} [{used}] {argument}".rstrip())
    return "\n".join(lines)


def kernel_views(keys: Iterable[TracingKey]) -> dict[int, KernelView]:
    """Source and instructions of the groups whose result is a rendered PROGRAM."""
    views = {}
    for number, key in enumerate(keys):
        ret = key.ret
        if isinstance(ret, UOp) and ret.op is Ops.PROGRAM and len(ret.src) == 4:
            views[number] = KernelView(key.display_name, ret.src[3].arg, _listing(ret))
    return views


def write_rewrites(trace: RewriteTrace, path: str) -> None:
    """Leaves the trace for the page."""
    write(path, Recording(trace, kernel_views(trace.keys)))
