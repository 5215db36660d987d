"""Devices, buffers, allocators: names, sharing, counting, failing."""

import copy
import gc
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tinygrad.device import (
    Allocator,
    Buffer,
    BufferSpec,
    Compiled,
    CompileError,
    Compiler,
    CompilerPair,
    CompilerSet,
    Device,
    LRUAllocator,
    MultiBuffer,
    enumerate_devices_str,
    is_dtype_supported,
)
from tinygrad.dtype import dtypes
from tinygrad.helpers import Context, ContextVar, GlobalCounters
from tinygrad.renderer import Renderer


def filled(*values, device="CPU", dtype=dtypes.int32):
    data = np.array(values, dtype=np.dtype(dtype.fmt))
    return Buffer(device, len(values), dtype).allocate().copyin(memoryview(data))


# ---- names


@pytest.mark.parametrize(
    "given, full",
    [
        ("cpu", "CPU"),
        ("CPU:0", "CPU"),
        ("cpu:1", "CPU:1"),
        ("disk:/a/B", "DISK:/a/B"),
        ("cl:0", "CL"),
    ],
)
def test_one_spelling(given, full):
    assert Device.canonicalize(given) == full
    assert Device.canonicalize(full) == full


def test_unknown_device_lists_the_known():
    with pytest.raises(ModuleNotFoundError, match="no device is called 'TYPO'.*CPU.*NULL.*PYTHON"):
        Device["TYPO"]


def test_opened_once():
    assert Device["CPU"] is Device["cpu:0"]
    assert Device["CPU:1"] is not Device["CPU"]


def test_every_device_is_listed_with_its_compilers():
    text = "\n".join(enumerate_devices_str())
    for name in Device._devices:
        assert name in text
    assert "PASS" in text


@pytest.mark.parametrize("setting", [{"DEV": "python"}, {"PYTHON": "1"}])
def test_default_from_the_environment(setting):
    code = "from tinygrad.device import Device; print(Device.DEFAULT)"
    done = subprocess.run([sys.executable, "-c", code], env=setting, capture_output=True, text=True)
    assert done.stdout.strip() == "PYTHON", done.stderr


def test_default_that_is_no_device():
    code = "from tinygrad.device import Device; print(Device.DEFAULT)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"DEV": "NOPE"}, capture_output=True, text=True
    )
    assert "no device is called 'NOPE'" in done.stderr


def test_devices_may_be_forbidden():
    Device._opened.pop("NULL:7", None)
    with Context(ALLOW_DEVICE_USAGE=0):
        assert Device["NULL:7"].device == "NULL:7"  # touches no hardware


def test_supported_dtypes():
    assert is_dtype_supported(dtypes.float32, "CPU")
    assert is_dtype_supported(dtypes.bfloat16, "CPU")
    assert not is_dtype_supported(dtypes.fp8e4m3, "CPU")
    assert is_dtype_supported(dtypes.fp8e4m3, "PYTHON")
    assert not is_dtype_supported(dtypes.fp8e4m3, "A_DEVICE_NOT_INSTALLED")


# ---- buffers


def test_bytes_go_in_and_out():
    buf = filled(1, 2, 3)
    assert buf.numpy().tolist() == [1, 2, 3]
    assert buf.as_typed_buffer((3,)).tolist() == [1, 2, 3]
    target = memoryview(bytearray(12)).cast("i")
    assert buf.copyout(target).cast("i").tolist() == [1, 2, 3]
    assert target.tolist() == [1, 2, 3]


def test_zero_copy():
    buf = filled(1, 2, 3)
    buf.as_buffer(force_zero_copy=True).cast("i")[1] = 7
    assert buf.numpy().tolist() == [1, 7, 3]
    buf.as_buffer().cast("i")[1] = 9  # a copy
    assert buf.numpy().tolist() == [1, 7, 3]
    null = Buffer("NULL", 3, dtypes.int32).allocate()
    with pytest.raises(RuntimeError, match="can't see the memory"):
        null.as_buffer(force_zero_copy=True)


@pytest.mark.parametrize("wrong", [8, 16])
def test_sizes_must_agree(wrong):
    buf = filled(1, 2, 3)
    with pytest.raises(ValueError, match="size mismatch"):
        buf.copyin(memoryview(bytearray(wrong)))
    with pytest.raises(ValueError, match="size mismatch"):
        buf.copyout(memoryview(bytearray(wrong)))


def test_no_memory_no_access():
    buf = Buffer("CPU", 3, dtypes.int32)
    with pytest.raises(RuntimeError, match="has no memory"):
        buf.as_buffer()
    with pytest.raises(RuntimeError, match="no memory to deallocate"):
        buf.deallocate()
    buf.allocate()
    with pytest.raises(RuntimeError, match="allocated already"):
        buf.allocate()


def test_views():
    base = filled(*range(8))
    part = base.view(4, dtypes.int32, 8)
    again = part.view(4, dtypes.int16, 4).ensure_allocated()
    assert part.ensure_allocated().numpy().tolist() == [2, 3, 4, 5]
    assert (again.base, again.offset) == (base, 12)
    assert again.numpy().tolist() == [3, 0, 4, 0]
    part.copyin(memoryview(np.array([9, 9, 9, 9], np.int32)))
    assert base.numpy().tolist() == [0, 1, 9, 9, 9, 9, 6, 7]
    assert base.allocated_views == 2
    with pytest.raises(ValueError, match="outside"):
        base.view(4, dtypes.int32, 20)
    with pytest.raises(ValueError, match="past its base"):
        Buffer("CPU", 4, dtypes.int32, base=base, offset=20).allocate()
    with pytest.raises(ValueError, match="lies on the device of its base"):
        Buffer("CPU:1", 4, dtypes.int32, base=base)


def test_a_view_keeps_its_base():
    view = filled(1, 2, 3).view(2, dtypes.int32, 4).ensure_allocated()
    gc.collect()
    assert view.numpy().tolist() == [2, 3]


def test_memory_is_counted():
    gc.collect()
    before = GlobalCounters.mem_used
    buf = Buffer("CPU", 1000, dtypes.float64).allocate()
    assert GlobalCounters.mem_used - before == 8000
    view = buf.view(10, dtypes.float64, 0).ensure_allocated()
    assert GlobalCounters.mem_used - before == 8000
    del buf
    assert GlobalCounters.mem_used - before == 8000
    del view
    assert GlobalCounters.mem_used == before
    assert Buffer.peak_mem_used >= before + 8000


def test_references_are_counted_on_the_base():
    base = Buffer("CPU", 4, dtypes.int32)
    view = base.view(2, dtypes.int32, 0).ref(1)
    assert (base.uop_refcount, view.uop_refcount) == (1, 1)
    view.ref(-1)
    assert base.uop_refcount == 0


@pytest.mark.parametrize("clone", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy])
def test_copies_have_memory_of_their_own(clone):
    base = filled(1, 2, 3)
    view = base.view(2, dtypes.int32, 4).ensure_allocated()
    other, part = clone((base, view))
    assert part.base is other and part.numpy().tolist() == [2, 3]
    other.copyin(memoryview(np.array([7, 8, 9], np.int32)))
    assert base.numpy().tolist() == [1, 2, 3] and part.numpy().tolist() == [8, 9]
    empty = clone(Buffer("CPU", 3, dtypes.int32))
    assert not empty.is_allocated() and empty.size == 3


def test_external_memory():
    data = np.arange(4, dtype=np.int32)
    buf = Buffer("CPU", 4, dtypes.int32).allocate(external_ptr=data.ctypes.data)
    assert buf.numpy().tolist() == [0, 1, 2, 3]
    data[0] = 5
    assert buf.numpy()[0] == 5


def test_several_at_once():
    many = MultiBuffer(("CPU", "CPU:1"), 4, dtypes.int32)
    assert (many.size, many.dtype, many.is_allocated()) == (4, dtypes.int32, False)
    many.ref(2)
    assert [b.uop_refcount for b in many.bufs] == [2, 2]
    for b in many.bufs:
        b.allocate()
    assert many.is_allocated()
    with pytest.raises(ValueError, match="must be alike"):
        MultiBuffer.from_bufs([many.bufs[0], Buffer("CPU", 5, dtypes.int32)])


# ---- allocators


class Scarce(LRUAllocator):
    """Room for `room` bytes, and a log."""

    def __init__(self, room):
        super().__init__(None)
        self.room, self.log = room, []

    def _alloc(self, size, options):
        if size > self.room:
            raise MemoryError("full")
        self.room -= size
        self.log.append(("alloc", size))
        return bytearray(size)

    def _free(self, opaque, options):
        self.room += len(opaque)
        self.log.append(("free", len(opaque)))


def test_freed_memory_is_used_again():
    pool = Scarce(100)
    first = pool.alloc(40)
    pool.free(first, 40)
    assert pool.alloc(40) is first
    pool.free(first, 40)
    other = pool.alloc(40, BufferSpec(host=True))  # another kind
    assert other is not first


def test_kept_memory_is_given_up_when_there_is_no_other():
    pool = Scarce(100)
    pool.free(pool.alloc(60), 60)
    assert len(pool.alloc(80)) == 80
    assert pool.log == [("alloc", 60), ("free", 60), ("alloc", 80)]
    with pytest.raises(MemoryError):
        pool.alloc(80)


@pytest.mark.parametrize("options", [BufferSpec(nolru=True), BufferSpec(external_ptr=1)])
def test_what_must_not_be_kept(options):
    pool = Scarce(100)
    pool.free(pool.alloc(60, options), 60, options)
    assert pool.log[-1] == ("free", 60)


def test_nothing_can_not_be_allocated():
    with pytest.raises(ValueError, match="can't allocate 0 bytes"):
        Scarce(1).alloc(0)
    with pytest.raises(NotImplementedError, match="gives no _alloc"):
        Allocator(None).alloc(1)


# ---- compilers


class Works(Compiler):
    made = 0

    def __init__(self):
        Works.made += 1
        super().__init__(None)


class OtherCompiler(Compiler):
    pass


class BrokenCompiler(Compiler):
    def __init__(self):
        raise FileNotFoundError("no such tool: brokencc")


class Text(Renderer):
    device = "TEST"


WANTED = ContextVar("TEST_ENGINE_CC", "")
SWITCH = ContextVar("TEST_ENGINE_SWITCH", 0)


def device_with(*pairs, ctrl_var=None):
    return Compiled("TEST", Allocator(None), CompilerSet(list(pairs), ctrl_var), None)


def test_the_first_that_starts():
    dev = device_with(CompilerPair(Text, BrokenCompiler), CompilerPair(Text, OtherCompiler))
    assert type(dev.compiler) is OtherCompiler
    assert dev.compiler is dev.compiler and dev.renderer is dev.renderer
    assert dev.pair_names() == ["BROKEN", "OTHER"]


def test_none_starts():
    dev = device_with(CompilerPair(Text, BrokenCompiler))
    with pytest.raises(RuntimeError, match="BROKEN: no such tool: brokencc"):
        dev.compiler  # noqa: B018


def test_switches():
    pairs = CompilerPair(Text, Works), CompilerPair(Text, OtherCompiler, SWITCH)
    dev = device_with(*pairs, ctrl_var=WANTED)
    first = dev.compiler
    with Context(TEST_ENGINE_SWITCH=1):
        assert type(dev.compiler) is OtherCompiler
    assert dev.compiler is first
    with Context(TEST_ENGINE_CC="other"):
        assert type(dev.compiler) is OtherCompiler
    with Context(TEST_ENGINE_CC="typo"), pytest.raises(RuntimeError, match="it has WORKS, OTHER"):
        dev.compiler  # noqa: B018


def test_an_error_is_not_cached(tmp_path):
    class Fails(Compiler):
        def compile(self, src):
            raise CompileError("line 1: no")

    for _ in range(2):
        with pytest.raises(CompileError, match="line 1"):
            Fails("test_engine_fails").compile_cached("x")


def test_memory_that_is_not_bytes_is_a_miss():
    from tinygrad.helpers import diskcache_put

    diskcache_put("test_engine_garbage", "source", {"not": "bytes"})
    assert Compiler("test_engine_garbage").compile_cached("source") == b"source"


def test_a_device_without_a_backend_is_not_replaced_by_the_default():
    """A program that switches a GPU on must not run on the CPU without a word."""
    code = "from tinygrad import Device; Device.DEFAULT"
    env = {**os.environ, "CUDA": "1"}
    env.pop("CPU", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode != 0 and "no device is called 'CUDA'" in done.stderr


@pytest.mark.parametrize("name", ["CUDAA", "GPUX:1", "C PU"])
def test_a_misspelt_device_is_refused_where_it_is_named(name):
    """At the call, not when the tensor is realized; devices without a backend may stand in graphs."""
    from tinygrad import Tensor

    for make in (lambda: Tensor.ones(3, device=name), lambda: Tensor([1]).to(name)):
        with pytest.raises(ModuleNotFoundError, match="this installation knows CPU"):
            make()
    assert Tensor.empty(3, device="cuda").device == "CUDA"
