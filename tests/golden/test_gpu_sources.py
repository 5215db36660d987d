"""The text of the GPU dialects; where their compiler is installed the files also compile."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tests.backends.linear_kernels import Builder
from tests.golden.gpu_kernels import KERNELS

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.renderer.cuda import CUDARenderer
from tinygrad.renderer.ptx import PTXRenderer
from tinygrad.renderer.wgsl import WGSLRenderer
from tinygrad.uop.ops import Ops

DIALECTS = {"cuda": (CUDARenderer, "cu", "nvcc -cubin"), "ptx": (PTXRenderer, "ptx", "ptxas")}


@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize("name", KERNELS)
def test_source(name, kind, golden, tmp_path):
    renderer, suffix, command = DIALECTS[kind]
    source = renderer("sm_80").render(KERNELS[name]())
    golden(f"{kind}/{name}.{suffix}", source)
    tool, *options = command.split()
    if shutil.which(tool) is None:
        return
    path = tmp_path / f"kernel.{suffix}"
    path.write_text(source)
    call = [tool, *options, "-arch=sm_80", "-o", str(tmp_path / "out"), str(path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "vector_copy_scale"])
def test_wgsl_source(name, golden):
    golden(f"wgsl/{name}.wgsl", WGSLRenderer().render(KERNELS[name]()))


def test_wgsl_packs_small_elements(golden):
    b = Builder()
    out, x = b.buf(0, dtypes.int8, 16), b.buf(1, dtypes.uint16, 16)
    b.add(Ops.DEFINE_LOCAL, dtypes.uint8.ptr(16, AddrSpace.LOCAL), arg=0)
    thread = b.add(Ops.SPECIAL, dtypes.int32, (b.const(16),), "lidx0")
    value = b.add(Ops.CAST, dtypes.int8, (b.load(b.at(x, thread)),))
    b.store(b.at(out, thread), value)
    source = WGSLRenderer().render(b.finish("packed"))
    assert "temp0: array<atomic<u32>,4>;" in source
    golden("wgsl/packed.wgsl", source)


def test_wgsl_refuses_vectors_by_name():
    with pytest.raises(RuntimeError, match="WGSL has no type"):
        WGSLRenderer().render(KERNELS["vector_copy_scale"]())
