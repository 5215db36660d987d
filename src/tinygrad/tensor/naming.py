"""Names the user's calls, so that a kernel can say which Tensor method it came from.

In: the methods of Tensor. Out: the same methods, which while they run hold a `Metadata` record in
`_METADATA`; `TensorCore._lift` attaches it to every node it builds. Only the outermost call counts.
TRACEMETA=0 turns it off, TRACEMETA=2 also records the caller's source line.
"""

from __future__ import annotations

import contextvars
import functools
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tinygrad.helpers import TRACEMETA, Metadata

_METADATA: contextvars.ContextVar[Metadata | None] = contextvars.ContextVar(
    "_METADATA", default=None
)

# plumbing and methods that build no graph nodes of their own
_UNNAMED = frozenset(
    "alu const_like ufix shape device dtype numpy data item tolist realize schedule backward "
    "gradient schedule_with_vars replace detach requires_grad_ size numel element_size nbytes "
    "is_floating_point manual_seed train where_values".split()
)
_OPERATORS = frozenset(
    f"__{side}{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
    for side in ("", "r", "i")
) | frozenset("__neg__ __invert__ __lt__ __gt__ __le__ __ge__ __eq__ __ne__ __getitem__".split())

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _calling_line() -> str:
    """`file:line::function` of the nearest frame outside this package."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno}::{code.co_name}"


def named(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, recording its name for the nodes built while it runs as the outermost call."""

    @functools.wraps(fn)
    def call(*args, **kwargs):
        level = TRACEMETA.value
        if level < 1 or _METADATA.get() is not None:
            return fn(*args, **kwargs)
        caller = _calling_line() if level >= 2 else ""
        token = _METADATA.set(Metadata(name=fn.__name__, caller=caller))
        try:
            return fn(*args, **kwargs)
        finally:
            _METADATA.reset(token)

    return call


def name_methods(cls: type) -> type:
    """Class decorator: wraps every public graph-building method of `cls`, inherited ones too."""
    chosen: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in vars(base).items():
            if name in _OPERATORS or not (name.startswith("_") or name in _UNNAMED):
                chosen[name] = value
    for name, value in chosen.items():
        if isinstance(value, classmethod):
            setattr(cls, name, classmethod(named(value.__func__)))
        elif isinstance(value, staticmethod):
            setattr(cls, name, staticmethod(named(value.__func__)))
        elif callable(value) and not isinstance(value, type):
            setattr(cls, name, named(value))
    return cls
