"""How many bodies the register tiles of well-known kernels need: tails are copies, and copies cost compile time."""

import pytest

from tinygrad import Device, Tensor
from tinygrad.engine.realize import get_program
from tinygrad.uop.ops import Ops


def multiply_adds(out: Tensor) -> int:
    """How often the program of the last kernel multiplies and adds whole rows of lanes."""
    ast = out.schedule()[-1].ast
    uops = get_program(ast, Device["CPU"].renderer).uops
    return sum(u.op is Ops.MULACC for u in uops)


def conv(channels: int, size: int) -> Tensor:
    x, w = Tensor.empty(4, channels, size, size), Tensor.empty(channels, channels, 3, 3)
    return x.conv2d(w, padding=1)


needs_wide = pytest.mark.skipif(
    Device["CPU"].renderer.vector_bytes != 64
    or Ops.MULACC not in Device["CPU"].renderer.code_for_op,
    reason="the counts are those of registers of 64 bytes with a fused multiply-add",
)


@needs_wide
@pytest.mark.parametrize(
    "out, most",
    [
        # four rows of 56 lanes, in registers of 32, 16 and 8
        (lambda: conv(64, 56), 12),
        # eight rows of 28 lanes, in 16, 8 and 4
        (lambda: conv(128, 28), 24),
        (lambda: Tensor.empty(512, 512) @ Tensor.empty(512, 512), 4),
        # no tile divides both: up to four bodies, none larger than the registers hold
        (lambda: Tensor.empty(1000, 333) @ Tensor.empty(333, 777), 32),
    ],
)
def test_bodies(out, most):
    assert 0 < multiply_adds(out()) <= most
