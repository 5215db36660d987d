"""Register tiles: how many bodies those of well-known kernels need (tails are copies, and copies cost compile time), and that
their masked and picked lanes are right and touch no foreign memory."""

import ctypes
import mmap

import numpy as np
import pytest

from tinygrad import Device, Tensor, dtypes
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.codegen.opt.vector import optimise_for_vectors
from tinygrad.engine.realize import CompiledRunner, get_program
from tinygrad.helpers import Context
from tinygrad.uop.ops import AxisType, KernelInfo, Ops, UOp


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


def at_the_end_of_a_page(values: np.ndarray) -> Tensor:
    """A tensor of memory behind which nothing may be read: one element further is another page, which is closed."""
    page = mmap.PAGESIZE
    room = -(-values.nbytes // page) * page
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    start = libc.mmap(None, room + page, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert libc.mprotect(ctypes.c_void_p(start + room), page, 0) == 0
    first = start + room - values.nbytes
    ctypes.memmove(first, values.ctypes.data, values.nbytes)
    return Tensor.from_blob(first, values.shape, dtype=dtypes.float32, device="CPU")


def convolved(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    p, size = padding, w.shape[-1]
    out = (x.shape[-1] + 2 * p - size) // stride + 1
    x = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
    want = np.zeros((x.shape[0], w.shape[0], out, out))
    for i in range(size):
        for j in range(size):
            rows = slice(i, i + (out - 1) * stride + 1, stride)
            columns = slice(j, j + (out - 1) * stride + 1, stride)
            want += np.einsum("bchw,oc->bohw", x[:, :, rows, columns], w[:, :, i, j])
    return want


# odd widths are rounded up to registers with masks; strides 2 and 4 pick lanes from whole vectors
@pytest.mark.parametrize("width", [3, 5, 7, 13, 14, 15, 28, 33])
@pytest.mark.parametrize(
    "stride, size, padding",
    [(1, 3, 1), (2, 3, 1), (2, 1, 0), (2, 3, 0), (4, 3, 1), (2, 7, 3), (3, 3, 1)],
)
def test_convolutions_stay_inside_their_memory(width, stride, size, padding):
    draw = np.random.default_rng(width)
    x = draw.integers(-4, 5, (2, 3, width, width)).astype(np.float32)
    w = draw.integers(-4, 5, (18, 3, size, size)).astype(np.float32)
    got = at_the_end_of_a_page(x).conv2d(at_the_end_of_a_page(w), stride=stride, padding=padding)
    np.testing.assert_array_equal(got.numpy(), convolved(x, w, stride, padding))


@pytest.mark.parametrize("rows, lanes", [(1, 14), (5, 7), (12, 13), (33, 77), (16, 30)])
def test_odd_products(rows, lanes):
    draw = np.random.default_rng(rows)
    a = draw.integers(-4, 5, (rows, 9)).astype(np.float32)
    b = draw.integers(-4, 5, (9, lanes)).astype(np.float32)
    out = Tensor.full((rows * lanes + 5,), 7.0).contiguous().realize()
    out[: rows * lanes].assign((at_the_end_of_a_page(a) @ at_the_end_of_a_page(b)).flatten())
    np.testing.assert_array_equal(out.numpy()[:-5], (a @ b).ravel())
    # what lies behind the last lane is nobody's to write
    np.testing.assert_array_equal(out.numpy()[-5:], np.full(5, 7, np.float32))


@needs_wide
@pytest.mark.parametrize("width, most", [(14, 32), (7, 32)])
def test_odd_widths_are_one_register(width, most):
    x, w = Tensor.empty(4, 128, width, width), Tensor.empty(128, 128, 1, 1)
    assert 0 < multiply_adds(x.conv2d(w)) <= most


def test_the_work_of_many_reductions_is_no_error():
    """Loops beside each other whose product is above the largest float."""
    loops = [UOp.range(1 << 20, 1 + i, AxisType.REDUCE) for i in range(60)]
    total = sum(r.cast(dtypes.float32).reduce(r, arg=Ops.ADD) for r in loops)
    out = UOp(Ops.DEFINE_GLOBAL, dtypes.float32.ptr(8), arg=0)
    at = UOp.range(8, 0)
    store = out.index(at).store(total * at.cast(dtypes.float32)).end(at)
    k = Scheduler(store.sink(arg=KernelInfo()), Device["CPU"].renderer)
    k.convert_loop_to_global()
    optimise_for_vectors(k)
    assert k.applied_opts


@pytest.mark.parametrize("switch", ["CPU_LLVM", "CPU_CC"])
def test_picked_lanes_that_are_all_masked(switch):
    """Where a gate is never open, the vectors that lanes are picked from are constants."""
    values = np.array([[1, 1, 1], [1, 1, 1]], np.int8)
    context = Context(CPU_LLVM=1, CPU_CC="") if switch == "CPU_LLVM" else Context(CPU_LLVM=0)
    with context:
        got = Tensor(values).cumsum(0).pad(((0, 2), (2, 0))).numpy()
    want = np.pad(np.cumsum(values, 0, dtype=np.int32), ((0, 2), (2, 0)))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("tile", [5, 7, 48])
@pytest.mark.parametrize("axis", [0, 1])
def test_tails_follow_an_axis_that_is_swapped(tile, axis):
    """The remainder of a tile is cut off wherever the axis went; past it there is foreign memory."""
    opts = (Opt(OptOps.UPCAST, axis, tile), Opt(OptOps.SWAP, 0, 1))
    whole = Tensor.full((64 * 64 + 512,), 7.0).contiguous().realize()
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    made = (Tensor(x).realize() + 1).contiguous(arg=opts)
    ast = made.schedule()[-1].ast
    runner = CompiledRunner(get_program(ast, Device["CPU"].renderer))
    memory = whole.uop.base.realized
    source = Tensor(x).realize().uop.base.realized
    front = memory.view(64 * 64, dtypes.float32, 0).ensure_allocated()
    runner([front, source], {}, wait=True)
    got = whole.numpy()
    np.testing.assert_array_equal(got[: 64 * 64], (x + 1).ravel())
    np.testing.assert_array_equal(got[64 * 64 :], np.full(512, 7, np.float32))
