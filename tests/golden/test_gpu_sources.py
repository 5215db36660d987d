"""The text of the GPU dialects; where their compiler is installed the files also compile."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.golden.gpu_kernels import KERNELS
from tinygrad.renderer.cuda import CUDARenderer
from tinygrad.renderer.ptx import PTXRenderer

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
