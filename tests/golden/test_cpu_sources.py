"""The text of both CPU dialects for the hand-made kernels; the files also compile.

The files are for a machine with 64-byte vectors and fma: what depends on the host is pinned.
"""

from __future__ import annotations

import pytest
from tests.backends.linear_kernels import CASES
from tests.backends.test_cpu_kernels import compiler_or_skip
from tinygrad.backends.cpu.renderer import ClangRenderer, CPULLVMRenderer

DIALECTS = {"clang": (ClangRenderer, "c"), "llvm": (CPULLVMRenderer, "ll")}


@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize("name", CASES)
def test_source(name, kind, golden, monkeypatch):
    renderer, suffix = DIALECTS[kind]
    if kind == "llvm":
        monkeypatch.setattr(renderer, "function_attributes", "nounwind")
    source = renderer().render(CASES[name]().uops)
    golden(f"cpu/{name}.{suffix}", source)
    compiler_or_skip(kind).compile(source)
