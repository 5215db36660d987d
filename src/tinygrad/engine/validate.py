"""VALIDATE_WITH_CPU: runs each kernel a second time on the host device and compares what both wrote.

In: a lowered item on any device. It is run as usual; a difference raises AssertionError naming the kernel and the buffer. A
kernel of the host itself is compared with the same one without optimisations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygrad.device import Buffer
from tinygrad.helpers import NOOPT, Context

if TYPE_CHECKING:
    from tinygrad.engine.realize import ExecItem

REFERENCE_DEVICE = "CPU"


def _copy_of(buf: Buffer) -> Buffer:
    twin = Buffer(REFERENCE_DEVICE, buf.size, buf.dtype).ensure_allocated()
    return twin.copyin(buf.ensure_allocated().as_buffer(allow_zero_copy=True))


def run_validated(item: ExecItem, var_vals: dict[str, int] | None, do_update_stats: bool) -> None:
    """Runs `item`, then its AST on copies of the buffers as they were, and compares every buffer."""
    from tinygrad.engine.realize import ExecItem as Item

    bufs = [b for b in item.bufs if b is not None]
    twins = [_copy_of(b) for b in bufs]
    item.run(var_vals, do_update_stats=do_update_stats)
    is_host = bufs[0].device.partition(":")[0] == REFERENCE_DEVICE
    with Context(BEAM=0, CAPTURING=0, NOOPT=int(is_host or bool(NOOPT))):
        Item(item.ast, list(twins), item.metadata, item.fixedvars).run(
            var_vals, do_update_stats=False
        )
    for slot, (buf, twin) in enumerate(zip(bufs, twins)):
        _compare(item, slot, buf, twin)


def _compare(item: ExecItem, slot: int, buf: Buffer, twin: Buffer) -> None:
    import numpy as np

    got, want = bytes(buf.as_buffer()), bytes(twin.as_buffer())
    if got == want:
        return
    name = item.prg.display_name if item.prg is not None else item.ast.op.name
    if buf.dtype.base.fmt is None:
        raise AssertionError(
            f"{name} wrote bytes to buffer {slot} ({buf}) that differ from {REFERENCE_DEVICE}'s"
        )
    where = f"{name}, buffer {slot} ({buf}) against {REFERENCE_DEVICE}"
    np.testing.assert_allclose(buf.numpy(), twin.numpy(), rtol=1e-3, atol=1e-3, err_msg=where)
