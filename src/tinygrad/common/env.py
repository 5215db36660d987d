"""Switches: environment variables read once, and `ContextVar`s that a `Context` overrides for a while.

A `ContextVar` is created once per process under its key, with the value of the environment variable of that name or its
default. Reading `.value` is an attribute access, cheap enough for anything but an inner loop.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import threading
import time
from typing import Any, ClassVar

# when this process began to load the package: what is on disk may be newer than the code that runs
LOADED_NS = time.time_ns()

OSX = platform.system() == "Darwin"
WIN = platform.system() == "Windows"
CI = os.getenv("CI", "") != ""
ARCH_X86 = platform.machine().lower() in ("x86_64", "amd64", "x86", "i386")


@functools.cache
def getenv(key: str, default: Any = 0) -> Any:
    """The environment variable `key` converted to the type of `default`; a value that does not convert is an error.

    >>> getenv("A_NAME_NOBODY_SETS", 7)
    7
    """
    text = os.environ.get(key)
    if text is None:
        return default
    kind = type(default)
    if kind is bool:
        return text.strip().lower() not in ("", "0", "false", "no")
    try:
        return kind(text)
    except ValueError:
        raise ValueError(
            f"{key}={text!r} is not a valid {kind.__name__}; unset it or give one"
        ) from None


class ContextVar:
    """A named switch. Compares and tests like its value.

    >>> from tinygrad.helpers import Context, ContextVar
    >>> switch = ContextVar("A_SWITCH_OF_MINE", 1)
    >>> with Context(A_SWITCH_OF_MINE=5):
    ...     switch.value
    5
    >>> switch.value
    1
    """

    _cache: ClassVar[dict[str, ContextVar]] = {}
    __slots__ = ("_settings", "key", "value")

    def __init__(self, key: str, default_value: Any):
        if key in ContextVar._cache:
            raise RuntimeError(
                f"the context variable {key} exists already; import it instead of making it again"
            )
        ContextVar._cache[key] = self
        self.key, self.value = key, getenv(key, default_value)
        # below, the value outside of every Context; above, those of open ones, latest last
        self._settings: list[tuple[object, Any]] = []

    def _set(self, owner: object, value: Any) -> None:
        if not self._settings:
            self._settings.append((None, self.value))
        self._settings.append((owner, value))
        self.value = value

    def _unset(self, owner: object) -> None:
        was_latest = self._settings[-1][0] is owner
        self._settings = [s for s in self._settings if s[0] is not owner]
        if was_latest:
            self.value = self._settings[-1][1]
        if len(self._settings) == 1:
            self._settings.clear()

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __lt__(self, other: Any) -> bool:
        return self.value < other

    def __le__(self, other: Any) -> bool:
        return self.value <= other

    def __gt__(self, other: Any) -> bool:
        return self.value > other

    def __ge__(self, other: Any) -> bool:
        return self.value >= other

    def __repr__(self) -> str:
        return f"ContextVar({self.key}={self.value!r})"


class Context(contextlib.ContextDecorator):
    """Sets context variables inside a `with` block or a decorated function: `Context(DEBUG=2, BEAM=1)`.

    Raises KeyError for a name that no ContextVar has.

    >>> from tinygrad.helpers import NOOPT
    >>> with Context(NOOPT=1):
    ...     NOOPT.value
    1
    """

    def __init__(self, **kwargs: Any):
        self.kwargs = kwargs
        self._entered: list[object] = []

    def __enter__(self) -> Context:
        unknown = [name for name in self.kwargs if name not in ContextVar._cache]
        if unknown:
            raise KeyError(f"no context variable is called {', '.join(unknown)}")
        owner = object()
        self._entered.append(owner)
        with _settings_lock:
            for name, value in self.kwargs.items():
                ContextVar._cache[name]._set(owner, value)
        return self

    def __exit__(self, *exc: object) -> None:
        owner = self._entered.pop()
        with _settings_lock:
            for name in self.kwargs:
                ContextVar._cache[name]._unset(owner)


# switches are of the process: contexts of several threads overlap, and each takes away what it set
_settings_lock = threading.Lock()


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


# debugging and tracing
DEBUG = ContextVar("DEBUG", 0)
PROFILE = ContextVar("PROFILE", abs(getenv("VIZ", 0)))
VIZ = ContextVar("VIZ", 0)
SPEC = ContextVar("SPEC", 1)
TRACEMETA = ContextVar("TRACEMETA", 1)
DEBUG_RANGEIFY = ContextVar("DEBUG_RANGEIFY", 0)
PASS_STATS = ContextVar("PASS_STATS", 0)
CAPTURING = ContextVar("CAPTURING", 1)
VALIDATE_WITH_CPU = ContextVar("VALIDATE_WITH_CPU", 0)
CAPTURE_PROCESS_REPLAY = getenv("CAPTURE_PROCESS_REPLAY", 0)
# caches and memory
CACHELEVEL = ContextVar("CACHELEVEL", 2)
CCACHE = ContextVar("CCACHE", 1)
IGNORE_BEAM_CACHE = ContextVar("IGNORE_BEAM_CACHE", 0)
LRU = ContextVar("LRU", 1)
MAX_BUFFER_SIZE = ContextVar("MAX_BUFFER_SIZE", 0)
NO_MEMORY_PLANNER = ContextVar("NO_MEMORY_PLANNER", 0)
# scheduling
JIT = ContextVar("JIT", 1)
JIT_BATCH_SIZE = ContextVar("JIT_BATCH_SIZE", 32)
SPLIT_REDUCEOP = ContextVar("SPLIT_REDUCEOP", 1)
FUSE_OPTIM = ContextVar("FUSE_OPTIM", 0)
PCONTIG = ContextVar("PCONTIG", 0)
RING = ContextVar("RING", 1)
WINO = ContextVar("WINO", 0)
ALLOW_DEVICE_USAGE = ContextVar("ALLOW_DEVICE_USAGE", 1)
# code generation
BEAM = ContextVar("BEAM", 0)
NOOPT = ContextVar("NOOPT", 0)
NOLOCALS = ContextVar("NOLOCALS", 0)
DEVECTORIZE = ContextVar("DEVECTORIZE", 1)
DISABLE_FAST_IDIV = ContextVar("DISABLE_FAST_IDIV", 0)
CORRECT_DIVMOD_FOLDING = ContextVar("CORRECT_DIVMOD_FOLDING", 0)
TRANSCENDENTAL = ContextVar("TRANSCENDENTAL", 1)
TUPLE_ORDER = ContextVar("TUPLE_ORDER", 1)
IGNORE_OOB = ContextVar("IGNORE_OOB", 1)
IMAGE = ContextVar("IMAGE", 0)
USE_TC = ContextVar("TC", 1)
TC_SELECT = ContextVar("TC_SELECT", -1)
TC_OPT = ContextVar("TC_OPT", 0)
ALLOW_TF32 = ContextVar("ALLOW_TF32", 0)
AMX = ContextVar("AMX", 0)
EMULATE = ContextVar("EMULATE", "")
# which compiler a device uses
CPU_COUNT = ContextVar("CPU_COUNT", _usable_cpus())
CPU_CC, CPU_LLVM, CPU_LVP = (
    ContextVar("CPU_CC", ""),
    ContextVar("CPU_LLVM", 0),
    ContextVar("CPU_LVP", 0),
)
CUDA_CC, CUDA_PTX = ContextVar("CUDA_CC", ""), ContextVar("CUDA_PTX", 0)
NV_CC, NV_PTX, NV_NAK = ContextVar("NV_CC", ""), ContextVar("NV_PTX", 0), ContextVar("NV_NAK", 0)
AMD_CC, AMD_LLVM = ContextVar("AMD_CC", ""), ContextVar("AMD_LLVM", 0)
QCOM_CC, QCOM_IR3 = ContextVar("QCOM_CC", ""), ContextVar("QCOM_IR3", 0)
NULL_IR3, NULL_NAK = ContextVar("NULL_IR3", 0), ContextVar("NULL_NAK", 0)
