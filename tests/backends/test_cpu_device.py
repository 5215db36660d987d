"""Host buffers, the thread pool, launch lists, and the compilers' errors."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from tests.backends.test_cpu_kernels import compiler_or_skip
from tinygrad.backends.cpu import BACKEND
from tinygrad.backends.cpu._pool import HostBuffer, Kernel, LaunchList, worker_count
from tinygrad.backends.cpu.device import CPUAllocator
from tinygrad.backends.cpu.loader import LoadedObject
from tinygrad.backends.cpu.renderer import ClangRenderer, CPULLVMRenderer

from tinygrad.device import BufferSpec, CompileError
from tinygrad.dtype import dtypes

IDS = "void k(int* out, int add, int core_id) { out[core_id] += core_id + add; }"
SLOW = """void k(int* out, int rounds, int core_id) {
  volatile int x = 0; for (int i = 0; i < rounds; i++) x += i; out[core_id] += 1; }"""


def kernel_of(source: str) -> Kernel:
    loaded = LoadedObject(compiler_or_skip("clang").compile(source))
    return Kernel(loaded.function("k"), loaded)


def ints(buf: HostBuffer) -> np.ndarray:
    return np.frombuffer(memoryview(buf), np.int32)


def zeros(count: int) -> HostBuffer:
    buf = HostBuffer(4 * count)
    buf.copy_in(bytes(4 * count))
    return buf


def test_buffer_views_share_and_keep_memory():
    buf = HostBuffer(64)
    assert buf.address % 64 == 0
    part = buf.view(8, 16)
    part.copy_in(b"abcdefgh")
    window = memoryview(buf)[16:24]
    del buf, part
    assert bytes(window) == b"abcdefgh"


def test_buffer_bounds():
    buf = HostBuffer(16)
    for size, offset in ((17, 0), (8, 9), (1, -1)):
        with pytest.raises(ValueError, match="outside"):
            buf.view(size, offset)
    with pytest.raises(ValueError, match="can't copy 17"):
        buf.copy_in(bytes(17))
    with pytest.raises((BufferError, TypeError)):
        buf.copy_out(b"read only")


def test_impossible_size_is_a_memory_error():
    with pytest.raises(MemoryError):
        HostBuffer(1 << 60)


def test_external_memory():
    array = np.arange(4, dtype=np.int32)
    handle = CPUAllocator(None).alloc(16, BufferSpec(external_ptr=array.ctypes.data))
    ints(handle)[1] = 77
    assert array[1] == 77


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_every_id_runs_once(threads, limit):
    kernel, out = kernel_of(IDS), zeros(16)
    for _ in range(200):
        kernel.launch((out,), (1,), threads, limit, False)
    expected = [200 * (i + 1) if i < threads else 0 for i in range(16)]
    assert ints(out).tolist() == expected


def test_workers_are_reused_and_sleep():
    kernel, out = kernel_of(IDS), zeros(2)
    kernel.launch((out,), (0,), 2, 2, False)
    before = worker_count()
    time.sleep(0.02)
    for _ in range(50):
        kernel.launch((out,), (0,), 2, 2, False)
    assert worker_count() == before
    assert ints(out).tolist() == [0, 51]


def test_pool_from_several_python_threads():
    kernel = kernel_of(SLOW)
    outs = [zeros(2) for _ in range(4)]

    def work(out):
        for _ in range(50):
            kernel.launch((out,), (100,), 2, 2, False)

    workers = [threading.Thread(target=work, args=(out,)) for out in outs]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert all(ints(out).tolist() == [50, 50] for out in outs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_pool_in_a_forked_child():
    kernel, out = kernel_of(IDS), zeros(2)
    kernel.launch((out,), (1,), 2, 2, False)
    child = os.fork()
    if child == 0:
        kernel.launch((out,), (1,), 2, 2, False)
        os._exit(0 if ints(out).tolist() == [2, 4] else 1)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
    assert done == (child, 0)


def test_interrupt_arrives_after_the_launch():
    kernel, out = kernel_of(SLOW), zeros(2)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            kernel.launch((out,), (10_000_000,), 2, 2, False)
    assert ints(out)[0] == ints(out)[1] > 0


def test_launch_list():
    kernel, out, other = kernel_of(IDS), zeros(4), zeros(4)
    launches = LaunchList()
    first = launches.add(kernel, (out,), (5,), 2)
    launches.add(kernel, (out,), (100,), 4)
    assert launches.run([], 2, False) is None
    assert ints(out).tolist() == [105, 107, 102, 103]
    launches.set_argument(first, 0, other)
    launches.set_argument(first, 1, 1)
    launches.set_threads(first, 1)
    assert launches.run([], 2, True) > 0
    assert ints(other).tolist() == [1, 0, 0, 0]
    assert ints(out).tolist() == [205, 208, 204, 206]
    for bad in ((9, 0), (0, 9), (-1, 0)):
        with pytest.raises(IndexError):
            launches.set_argument(*bad, 0)


def test_launch_list_inputs_and_copies():
    kernel, out, other = kernel_of(IDS), zeros(2), zeros(2)
    launches = LaunchList()
    launches.bind(launches.add(kernel, (out,), (1,), 2), 0, 0)
    copy = launches.add_copy(other, out, 8)
    launches.bind(copy, 1, 0)
    inputs = [zeros(2), zeros(2)]
    for buf in inputs:
        launches.run([buf], 2, False)
        assert ints(buf).tolist() == ints(other).tolist() == [1, 2]
    assert ints(out).tolist() == [0, 0]
    with pytest.raises(ValueError, match="got 0 inputs"):
        launches.run([], 2, False)
    with pytest.raises(ValueError, match="copy of 9"):
        launches.add_copy(other, out, 9)


def test_many_arguments():
    count = 300
    params = ", ".join(f"int* p{i}" for i in range(count))
    body = " ".join(f"*p{i} += {i} + n;" for i in range(count))
    kernel, out = kernel_of(f"void k({params}, int n) {{ {body} }}"), zeros(count)
    kernel.launch(tuple(out.view(4, 4 * i) for i in range(count)), (2,), 0, 1, False)
    assert ints(out).tolist() == [i + 2 for i in range(count)]
    with pytest.raises(ValueError, match="at most 512"):
        kernel.launch((out,) * 600, (), 0, 1, False)


@pytest.mark.parametrize("kind", ["clang", "llvm"])
def test_refused_source_says_why(kind):
    with pytest.raises(CompileError, match="nonsense"):
        compiler_or_skip(kind).compile("nonsense here")


@pytest.mark.parametrize("renderer", [ClangRenderer, CPULLVMRenderer])
def test_renderers_pickle(renderer):
    assert type(pickle.loads(pickle.dumps(renderer()))) is renderer


def test_supported_types():
    assert BACKEND.supports_dtype(dtypes.bfloat16) and BACKEND.supports_dtype(dtypes.float16)
    assert not BACKEND.supports_dtype(dtypes.fp8e4m3)
