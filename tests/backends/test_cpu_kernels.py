"""Hand-made instruction lists through both compilers of the CPU, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.linear_kernels import CASES
from tinygrad.backends.cpu._pool import HostBuffer
from tinygrad.backends.cpu.compiler import ClangJITCompiler, CPULLVMCompiler
from tinygrad.backends.cpu.device import CPUProgram
from tinygrad.backends.cpu.renderer import ClangRenderer, CPULLVMRenderer

PAIRS = {"clang": (ClangRenderer, ClangJITCompiler), "llvm": (CPULLVMRenderer, CPULLVMCompiler)}


def compiler_or_skip(kind: str):
    try:
        return PAIRS[kind][1]()
    except (RuntimeError, ImportError) as reason:
        pytest.skip(f"no {kind} here: {reason}")


def run(kind: str, uops, bufs, vals=(), threads=0):
    """Renders, compiles, loads and runs; returns the buffers' contents afterwards."""
    compiler = compiler_or_skip(kind)
    source = PAIRS[kind][0]().render(uops)
    program = CPUProgram(None, uops[-1].arg.function_name, compiler.compile(source))
    handles = []
    for array in bufs:
        handle = HostBuffer(array.nbytes)
        handle.copy_in(array.tobytes())
        handles.append(handle)
    sizes = {"global_size": (threads, 1, 1)} if threads else {}
    program(*handles, vals=vals, wait=True, **sizes)
    return [np.frombuffer(bytes(h), a.dtype) for h, a in zip(handles, bufs, strict=True)]


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("name", CASES)
def test_case(name, kind):
    made = CASES[name]()
    got = run(kind, made.uops, made.bufs, made.vals, made.threads)
    for values, expected in zip(got, made.expected, strict=False):
        np.testing.assert_allclose(values, expected, rtol=made.rtol, atol=1e-6)
