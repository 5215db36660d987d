"""Devices, the memory on them, and the compilers that serve them.

What comes in: a device name (`"CPU"`, `"cpu:1"`, `"DISK:/path"`). What goes out: the opened `Compiled` device, its
`Allocator`, and `Buffer`s, which are typed runs of device memory. Backends are leaves: one folder under
`tinygrad.backends`, each with a `BACKEND` record, found by listing that package and imported only when asked for.

Invariants: a base Buffer owns its memory and frees it when it dies; a view keeps its base alive and owns nothing;
`uop_refcount` counts the graph nodes that name the base. Called by the engine, the backends and Tensor's data access.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import re
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tinygrad.dtype import DType, ImageDType, PtrDType, dtypes
from tinygrad.helpers import (
    CI,
    DEBUG,
    OSX,
    PROFILE,
    GlobalCounters,
    ProfileEvent,
    ProfilePointEvent,
    colored,
    cpu_events,
    size_to_str,
)
from tinygrad.runtime.support.allocator import (
    Allocator,
    BufferSpec,
    DMACPURef,
    DMAFdRef,
    LRUAllocator,
)
from tinygrad.runtime.support.compiler import CompileError, Compiler, CompilerPair, CompilerSet
from tinygrad.runtime.support.profile_events import (
    ProfileDeviceEvent,
    ProfileGraphEntry,
    ProfileGraphEvent,
    ProfileProgramEvent,
)
from tinygrad.runtime.support.registry import Backend, DeviceRegistry

if TYPE_CHECKING:
    import numpy as np

    from tinygrad.renderer import Renderer

__all__ = [
    "CI",
    "OSX",
    "Allocator",
    "Backend",
    "Buffer",
    "BufferSpec",
    "CompileError",
    "Compiled",
    "Compiler",
    "CompilerPair",
    "CompilerSet",
    "DMACPURef",
    "DMAFdRef",
    "Device",
    "LRUAllocator",
    "MultiBuffer",
    "ProfileDeviceEvent",
    "ProfileEvent",
    "ProfileGraphEntry",
    "ProfileGraphEvent",
    "ProfileProgramEvent",
    "enumerate_devices_str",
    "is_dtype_supported",
]

# ---------------------------------------------------------------- registry


Device = DeviceRegistry()


def is_dtype_supported(dtype: DType, device: str | None = None) -> bool:
    """Whether kernels on `device` (the default device if None) can hold and compute `dtype`.

    >>> is_dtype_supported(dtypes.float32)
    True
    """
    try:
        record = Device.backend(Device.canonicalize(device))
    except ModuleNotFoundError:
        return dtype not in _UNCOMMON_DTYPES
    if record.supports_dtype is not None:
        return record.supports_dtype(dtype)
    return dtype not in _UNCOMMON_DTYPES


_UNCOMMON_DTYPES = frozenset((dtypes.bfloat16, *dtypes.fp8s))

# ---------------------------------------------------------------- buffers


class MultiBuffer:
    """One equal Buffer on each of several devices, for a tensor that is sharded or replicated.

    >>> MultiBuffer((f"{Device.DEFAULT}:0", f"{Device.DEFAULT}:1"), 4, dtypes.int8).size
    4
    """

    def __init__(self, device: tuple[str, ...], size: int, dtype: DType):
        self.bufs = [Buffer(name, size, dtype) for name in device]

    @staticmethod
    def from_bufs(bufs: list[Buffer]) -> MultiBuffer:
        """Groups existing buffers, which must be of one size and dtype."""
        if len({(b.size, b.dtype) for b in bufs}) != 1:
            raise ValueError(f"the buffers of a MultiBuffer must be alike, got {bufs}")
        multi = MultiBuffer.__new__(MultiBuffer)
        multi.bufs = list(bufs)
        return multi

    @property
    def size(self) -> int:
        """Elements on one device."""
        return self.bufs[0].size

    @property
    def dtype(self) -> DType:
        """The type of one element, the same on every device."""
        return self.bufs[0].dtype

    def ref(self, cnt: int) -> MultiBuffer:
        """Adds `cnt` graph references to every part."""
        for b in self.bufs:
            b.ref(cnt)
        return self

    def is_allocated(self) -> bool:
        """Whether every part is allocated."""
        return all(b.is_allocated() for b in self.bufs)

    def __repr__(self) -> str:
        places = ", ".join(b.device for b in self.bufs)
        return f"<multibuf devices:({places}) size:{self.size} dtype:{self.dtype}>"


_buffer_numbers = itertools.count()


class Buffer:
    """`size` elements of `dtype` on `device`: memory of its own, or a view `offset` bytes into another Buffer.

    Memory is allocated on first need (`ensure_allocated`), or at once with `preallocate` or `initial_value`.

    >>> from tinygrad.device import Buffer
    >>> b = Buffer(Device.DEFAULT, 2, dtypes.int32).allocate()
    >>> _ = b.copyin(memoryview(bytearray([1, 0, 0, 0, 2, 0, 0, 0])))
    >>> b.numpy()
    array([1, 2], dtype=int32)
    """

    device: str
    _base: Buffer | None
    profile_events: list[ProfileEvent] = []
    peak_mem_used = 0  # highest GlobalCounters.mem_used seen after an allocation

    def __init__(
        self,
        device: str,
        size: int,
        dtype: DType,
        opaque: Any = None,
        options: BufferSpec | None = None,
        initial_value: bytes | None = None,
        uop_refcount=0,
        base: Buffer | None = None,
        offset: int = 0,
        preallocate=False,
    ):
        if isinstance(dtype, PtrDType) and not isinstance(dtype, ImageDType):
            raise ValueError(f"a Buffer holds elements, not pointers, got dtype {dtype}")
        if base is not None and base._base is not None:
            raise ValueError("a view must be of a base Buffer; use base.view() to view a view")
        if base is not None and base.device != device:
            raise ValueError(
                f"a view lies on the device of its base, got {device} for a base on {base.device}"
            )
        if isinstance(dtype, ImageDType):
            options = replace(options or BufferSpec(), image=dtype)
        self.device, self.size, self.dtype = device, size, dtype
        self.options, self.offset = options, offset
        self._base, self.allocated_views = base, 0
        self._uop_refcount = 0 if base is not None else uop_refcount
        if base is not None and uop_refcount:
            raise ValueError("references are counted on the base Buffer, not on a view")
        if opaque is not None:
            self.allocate(opaque)
        if initial_value is not None:
            self.allocate()
            self.copyin(memoryview(initial_value))
        elif preallocate:
            self.ensure_allocated()

    # identity and size

    @property
    def base(self) -> Buffer:
        """The Buffer that owns the memory: itself unless this is a view.

        >>> b = Buffer(Device.DEFAULT, 4, dtypes.uint8).allocate()
        >>> b.view(2, dtypes.uint8, 1).base is b
        True
        """
        return self if self._base is None else self._base

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def uop_refcount(self) -> int:
        """How many graph nodes name the memory."""
        return self.base._uop_refcount

    @functools.cached_property
    def _number(self) -> int:
        return next(_buffer_numbers)

    @property
    def trace_num(self) -> int:
        """A number unique to the memory, by which profiles name it."""
        return self.base._number

    def ref(self, cnt: int) -> Buffer:
        """Adds `cnt` (may be negative) to the count of graph nodes that name the memory."""
        self.base._uop_refcount += cnt
        return self

    def __repr__(self) -> str:
        parts = [
            f"<buf real:{self.is_allocated()} device:{self.device} size:{self.size} dtype:{self.dtype}"
        ]
        if self._base is not None:
            parts.append(f"offset:{self.offset}")
        if self.options is not None:
            parts.append(f"options:{self.options}")
        return " ".join(parts) + ">"

    # allocation

    def is_allocated(self) -> bool:
        """Whether the memory exists; that of a view is its base's.

        >>> Buffer(Device.DEFAULT, 2, dtypes.uint8).is_allocated()
        False
        """
        return hasattr(self.base, "_buf")

    def is_initialized(self) -> bool:
        """Whether this very Buffer has its handle, so that kernels can use it as it stands."""
        return hasattr(self, "_buf") and self.is_allocated()

    def ensure_allocated(self) -> Buffer:
        """Allocates the memory unless that is done already; returns self."""
        return self if hasattr(self, "_buf") else self.allocate()

    @property
    def allocator(self) -> Allocator:
        return Device[self.device].allocator

    def allocate(self, opaque=None, external_ptr=None) -> Buffer:
        """Gives the Buffer memory: `opaque` if given, the memory at `external_ptr`, or newly allocated.

        Raises RuntimeError if it has memory, MemoryError if the device has none left.

        >>> Buffer(Device.DEFAULT, 2, dtypes.uint8).allocate().is_allocated()
        True
        """
        if hasattr(self, "_buf"):
            raise RuntimeError(f"{self} is allocated already; deallocate it first")
        if external_ptr is not None:
            self.options = replace(self.options or BufferSpec(), external_ptr=external_ptr)
        allocator = self.allocator
        if self._base is not None:
            self._allocate_view(allocator)
        elif opaque is not None:
            self._buf, self._foreign = opaque, True
        else:
            self._buf, self._foreign = allocator.alloc(self.nbytes, self.options), False
            self._account(self.nbytes, "alloc")
        return self

    def _allocate_view(self, allocator: Allocator) -> None:
        assert self._base is not None
        self._base.ensure_allocated()
        if not hasattr(allocator, "_offset"):
            raise RuntimeError(
                f"device {self.device} has no views into memory, so {self} can't be made"
            )
        if self.offset + self.nbytes > self._base.nbytes:
            raise ValueError(
                f"{self} ends {self.offset + self.nbytes - self._base.nbytes} bytes past its base"
            )
        self._buf = allocator._offset(self._base._buf, self.nbytes, self.offset)
        self._base.allocated_views += 1

    def _account(self, nbytes: int, event: str) -> None:
        if self.allocator.accounted:
            GlobalCounters.mem_used += nbytes
            Buffer.peak_mem_used = max(Buffer.peak_mem_used, GlobalCounters.mem_used)
        if PROFILE:
            facts = {"dtype": self.dtype, "sz": self.size} if event == "alloc" else {}
            Buffer.profile_events.append(
                ProfilePointEvent(self.device, event, self.trace_num, facts)
            )

    def deallocate(self) -> None:
        """Returns the memory to the allocator (a view returns none). Raises RuntimeError if there is none."""
        if not hasattr(self, "_buf"):
            raise RuntimeError(f"{self} has no memory to deallocate")
        if self._base is not None:
            self._base.allocated_views -= 1
        elif not self._foreign:
            self._account(-self.nbytes, "free")
            self.allocator.free(self._buf, self.nbytes, self.options)
        del self._buf

    def __del__(self):
        # modules may be half gone at interpreter exit, where the system takes all memory back anyway
        if hasattr(self, "_buf") and not sys.is_finalizing():
            self.deallocate()

    def view(self, size: int, dtype: DType, offset: int) -> Buffer:
        """`size` elements of `dtype`, `offset` bytes into this Buffer, sharing its memory.

        >>> from tinygrad.device import Buffer
        >>> whole = Buffer(Device.DEFAULT, 4, dtypes.int32).allocate()
        >>> whole.view(2, dtypes.int32, 8).offset
        8
        """
        if offset < 0 or offset + size * dtype.itemsize > self.nbytes:
            raise ValueError(
                f"a view of {size * dtype.itemsize} bytes at {offset} is outside {self}"
            )
        return Buffer(self.device, size, dtype, base=self.base, offset=self.offset + offset)

    # data

    def _require_memory(self, what: str) -> None:
        if not self.is_initialized():
            raise RuntimeError(
                f"can't {what} {self}: it has no memory, call ensure_allocated() first"
            )

    def _fitting(self, mv: memoryview, what: str) -> memoryview:
        """`mv` as bytes. Raises ValueError for a wrong size, RuntimeError without memory to copy."""
        flat = mv.cast("B") if mv.nbytes else mv
        if len(flat) != self.nbytes:
            raise ValueError(
                f"size mismatch, can't {what} {self}: it has {self.nbytes} bytes, "
                f"the memoryview {len(flat)}"
            )
        self._require_memory(what)
        return flat

    def copyin(self, mv: memoryview) -> Buffer:
        """Copies host bytes in; `mv` must be contiguous and of exactly `nbytes`.

        >>> from tinygrad.device import Buffer
        >>> b = Buffer(Device.DEFAULT, 2, dtypes.uint8).allocate()
        >>> b.copyin(memoryview(bytes([1, 2]))).numpy()
        array([1, 2], dtype=uint8)
        """
        flat = self._fitting(mv, "copy into")
        self.allocator._copyin(self._buf, flat)
        return self

    def copyout(self, mv: memoryview) -> memoryview:
        """Copies out into `mv`, which must be contiguous, writable and of exactly `nbytes`; returns its flat form.

        >>> from tinygrad.device import Buffer
        >>> b = Buffer(Device.DEFAULT, 2, dtypes.uint8).allocate().copyin(memoryview(bytes([1, 2])))
        >>> b.copyout(memoryview(bytearray(2))).tolist()
        [1, 2]
        """
        flat = self._fitting(mv, "copy out of")
        self.allocator._copyout(flat, self._buf)
        return flat

    def as_buffer(self, allow_zero_copy=False, force_zero_copy=False) -> memoryview:
        """The bytes: a copy, or the memory itself where asked for and the device can show it.

        Raises RuntimeError where `force_zero_copy` can't be met.

        >>> b = Buffer(Device.DEFAULT, 2, dtypes.uint8).allocate()
        >>> b.copyin(memoryview(bytes([1, 2]))).as_buffer().tolist()
        [1, 2]
        """
        if allow_zero_copy or force_zero_copy:
            is_image = self.options is not None and self.options.image is not None
            if hasattr(self.allocator, "_as_buffer") and not is_image:
                self._require_memory("read")
                return self.allocator._as_buffer(self._buf)
            if force_zero_copy:
                raise RuntimeError(
                    f"the host can't see the memory of {self}; drop force_zero_copy to get a copy"
                )
        return self.copyout(memoryview(bytearray(self.nbytes)))

    def as_typed_buffer(
        self, shape=None, allow_zero_copy=False, force_zero_copy=False
    ) -> memoryview:
        """As `as_buffer`, with the element type and `shape` (one dimension if None)."""
        fmt = self.dtype.base.fmt
        if fmt is None:
            raise TypeError(f"memoryview has no format for {self.dtype.base}")
        flat = self.as_buffer(allow_zero_copy, force_zero_copy)
        shape = (self.size,) if shape is None else tuple(shape)
        typed: Any = flat.cast("B")
        return typed.cast(fmt) if 0 in shape or shape == (self.size,) else typed.cast(fmt, shape)

    def numpy(self) -> np.ndarray:
        """A one-dimensional NumPy array with a copy of the elements."""
        import numpy as np

        if self.dtype.base.fmt is None:
            raise TypeError(f"NumPy has no dtype for {self.dtype.base}; cast to float32 first")
        return np.frombuffer(self.as_buffer(), dtype=np.dtype(self.dtype.base.fmt))

    def as_dmaref(self) -> DMACPURef | DMAFdRef:
        """How another device may reach the memory directly."""
        if not hasattr(self.allocator, "_as_dmaref"):
            raise RuntimeError(f"device {self.device} does not let other devices reach its memory")
        self._require_memory("map")
        return self.allocator._as_dmaref(self._buf)

    # pickling: a base carries its bytes when it has any, a view carries its base

    def __reduce__(self):
        if self._base is not None:
            args = (
                self.device,
                self.size,
                self.dtype,
                None,
                None,
                None,
                0,
                self._base,
                self.offset,
            )
            return Buffer, (*args, self.is_initialized())
        keep = self.is_initialized() and self.allocator.pickles_content
        content = bytes(self.as_buffer()) if keep else None
        return Buffer, (
            self.device,
            self.size,
            self.dtype,
            None,
            self.options,
            content,
            self._uop_refcount,
        )


# ---------------------------------------------------------------- devices


class Compiled:
    """An opened device: `allocator`, `runtime(name, lib)` that loads a program, and the pair that makes `lib`.

    `graph` is the GraphRunner class that replays captured kernels, if there is one. Devices with one `group_id` can
    transfer to each other directly.
    """

    profile_events: list[ProfileEvent] = [ProfileDeviceEvent("CPU")]
    # whether the device notes the times of launches itself, under PROFILE
    records_launches: bool = False

    def __init__(
        self,
        device: str,
        allocator: Allocator,
        compilers: CompilerSet | None,
        runtime,
        graph=None,
        group_id=None,
    ):
        self.device, self.allocator, self.runtime = device, allocator, runtime
        self.graph, self.group_id = graph, group_id
        self.compilers = compilers or CompilerSet(
            [CompilerPair(functools.partial(_plain_renderer), Compiler)]
        )
        self._started: dict[int, tuple[Renderer, Compiler] | Exception] = {}

    @property
    def renderer(self) -> Renderer:
        """The renderer in use: that of the selected pair."""
        return self._selected_pair()[0]

    @property
    def compiler(self) -> Compiler:
        """The compiler in use: that of the selected pair."""
        return self._selected_pair()[1]

    def pair_names(self) -> list[str]:
        """What the switches call the pairs."""
        return [pair.name(self.device) for pair in self.compilers.cset]

    def _selected_pair(self) -> tuple[Renderer, Compiler]:
        """The pair a switch asks for, else the first that starts. Started once; switches are read each time."""
        wanted = self._asked_for()
        order = range(len(self.compilers.cset)) if wanted is None else [wanted]
        for place in order:
            started = self._start_pair(place)
            if not isinstance(started, Exception):
                return started
        names = self.pair_names()
        reasons = "".join(f"\n  {names[place]}: {self._started[place]}" for place in order)
        raise RuntimeError(f"no compiler of device {self.device} starts:{reasons}")

    def _asked_for(self) -> int | None:
        pairs, names = self.compilers.cset, self.pair_names()
        if self.compilers.ctrl_var is not None and (
            name := str(self.compilers.ctrl_var.value).upper()
        ):
            if name in names:
                return names.index(name)
            if not self.compilers.takes_commands:
                switch = self.compilers.ctrl_var.key
                raise RuntimeError(
                    f"{switch}={name} names no compiler of {self.device}; it has {', '.join(names)}"
                )
        asked = [
            i for i, pair in enumerate(pairs) if pair.ctrl_var is not None and pair.ctrl_var.value
        ]
        if len(asked) > 1:
            switches = " and ".join(str(getattr(pairs[i].ctrl_var, "key", "")) for i in asked)
            raise RuntimeError(
                f"{switches} ask for different compilers of {self.device}; set one of them"
            )
        return asked[0] if asked else None

    def _start_pair(self, place: int) -> tuple[Renderer, Compiler] | Exception:
        if place not in self._started:
            pair = self.compilers.cset[place]
            try:
                self._started[place] = (pair.renderer(), pair.compiler())
            except Exception as reason:
                # kept, so that a missing compiler is looked for once and not at every kernel
                self._started[place] = reason
        return self._started[place]

    def synchronize(self) -> None:
        """Returns when all work queued so far is done."""

    def count(self) -> int:
        """How many devices of this kind the machine has."""
        return 1

    def _at_profile_finalize(self) -> None:
        """Adds what the device still holds to `profile_events`."""

    def finalize(self) -> None:
        """Called once at interpreter exit."""


def _plain_renderer() -> Renderer:
    from tinygrad.renderer import Renderer

    return Renderer()


# called with all events at interpreter exit, when every device has told what it held; the visualiser adds itself
profile_sinks: list[Callable[[list[ProfileEvent]], None]] = []


@atexit.register
def _finalize_devices() -> None:
    for device in Device.opened():
        try:
            device.synchronize()
            if PROFILE:
                device._at_profile_finalize()
            device.finalize()
        except Exception as reason:
            print(f"device {device.device} did not close: {reason}", file=sys.stderr)
    if DEBUG >= 1 and Buffer.peak_mem_used:
        print(f"peak memory {size_to_str(Buffer.peak_mem_used)}")
    if PROFILE:
        events = [*cpu_events, *Compiled.profile_events, *Buffer.profile_events]
        for sink in profile_sinks:
            sink(events)


# ---------------------------------------------------------------- python -m tinygrad.device


def _pair_lines(device: Compiled) -> Generator[str, None, None]:
    for place, name in enumerate(device.pair_names()):
        started = device._start_pair(place)
        if isinstance(started, Exception):
            yield f"    {name:10s} {colored('FAIL', 'red')} {_one_line(started)}"
        else:
            chosen = " (used)" if started[1] is device.compiler else ""
            yield f"    {name:10s} {colored('PASS', 'green')} {type(started[0]).__name__}{chosen}"


def _one_line(reason: Exception) -> str:
    return re.sub(r"\s+", " ", f"{type(reason).__name__}: {reason}")[:100]


def enumerate_devices_str() -> Generator[str, None, None]:
    """One line a device, with whether it opens or why not, and one a compiler of it."""
    for name in Device._devices:
        mark = colored("*", "green") if name == Device.DEFAULT.partition(":")[0] else " "
        try:
            device = Device[name]
            yield f"{mark} {name:8s} {colored('PASS', 'green')}"
            yield from _pair_lines(device)
        except Exception as reason:
            yield f"{mark} {name:8s} {colored('FAIL', 'red')} {_one_line(reason)}"


if __name__ == "__main__":
    # run the one module object that backends import, not this second copy called __main__
    from tinygrad.device import enumerate_devices_str as lines_of_devices

    for line in lines_of_devices():
        print(line)
