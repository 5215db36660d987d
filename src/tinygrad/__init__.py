"""tinygrad: tensors, automatic differentiation, and a compiler from graphs to kernels.

The public names are loaded at first use, so that the lower layers can be imported alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinygrad.device import Device
    from tinygrad.dtype import dtypes
    from tinygrad.engine.jit import TinyJit
    from tinygrad.helpers import Context, GlobalCounters, fetch, getenv
    from tinygrad.tensor import Tensor
    from tinygrad.uop.ops import UOp

    Variable = UOp.variable

__all__ = [
    "Context", "Device", "GlobalCounters", "Tensor", "TinyJit", "UOp", "Variable", "dtypes", "fetch",
    "getenv",
]  # fmt: skip

_HOME = {
    "Device": "device",
    "dtypes": "dtype",
    "TinyJit": "engine.jit",
    "Context": "helpers",
    "GlobalCounters": "helpers",
    "fetch": "helpers",
    "getenv": "helpers",
    "Tensor": "tensor",
    "UOp": "uop.ops",
}


def __getattr__(name: str) -> Any:
    if name == "Variable":
        value = __getattr__("UOp").variable
    elif name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name == "nn":
        return importlib.import_module(f"{__name__}.nn")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _start_recording() -> None:
    from tinygrad.common.env import CAPTURE_PROCESS_REPLAY, PROFILE, VIZ

    if VIZ or PROFILE:
        importlib.import_module(f"{__name__}.viz.record")
    if CAPTURE_PROCESS_REPLAY:
        importlib.import_module(f"{__name__}.engine.process_replay")


_start_recording()
