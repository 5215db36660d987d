"""Tensors from nothing and from Python data: values, dtypes, shapes, errors; what tensors say of themselves."""

import ctypes
import math

import numpy as np
import pytest

from tinygrad import Tensor, Variable, dtypes
from tinygrad.uop.ops import Ops

from .oracle import check_close, check_exact
from .rows import wide
from .values import ALL_FLOATS, EVERY, INTS, SHAPES, dtype_id, edges, numpy_type, rounded, tensor


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_constants(shape):
    for dtype in (dtypes.float32, dtypes.bool, dtypes.int64, dtypes.bfloat16):
        kind = numpy_type(dtype)
        check_exact(Tensor.zeros(*shape, dtype=dtype), np.zeros(shape, kind), dtype)
        check_exact(Tensor.ones(shape, dtype=dtype), np.ones(shape, kind), dtype)
        check_exact(Tensor.full(shape, 1, dtype=dtype).contiguous(), np.ones(shape, kind), dtype)
    assert (
        Tensor.empty(*shape).shape == shape
        and Tensor.empty(shape, dtype="half").dtype is dtypes.half
    )
    like = Tensor.zeros(*shape, dtype=dtypes.int16)
    check_exact(like.ones_like(), np.ones(shape, np.int16), dtypes.int16)
    check_exact(like.zeros_like(dtype=dtypes.float64), np.zeros(shape), dtypes.float64)
    check_exact(like.full_like(7), np.full(shape, 7, np.int16), dtypes.int16)
    check_exact(like.const_like(3), np.full(shape, 3, np.int16), dtypes.int16)
    assert like.empty_like().shape == shape and like.empty_like().dtype is dtypes.int16


def test_dtypes_follow_the_value():
    assert (
        Tensor.full((2,), 1).dtype is dtypes.int32
        and Tensor.full((2,), 1.0).dtype is dtypes.float32
    )
    assert Tensor.full((2,), True).dtype is dtypes.bool
    assert Tensor.zeros(2).dtype is Tensor.ones(2).dtype is Tensor.eye(2).dtype is dtypes.float32


@pytest.mark.parametrize("dtype", EVERY, ids=dtype_id)
def test_constants_of_every_value(dtype):
    """A number given for a dtype is the one it is in memory."""
    for value in edges(dtype).tolist()[::4]:
        want = np.full((2,), value, numpy_type(dtype))
        check_exact(
            Tensor.full((2,), value, dtype=dtype).contiguous(), want, dtype, signed_zeros=True
        )
        check_exact(Tensor([value, value], dtype=dtype), want, dtype, signed_zeros=True)
        check_exact(Tensor(value, dtype=dtype), want[0], dtype)


@pytest.mark.parametrize("wrong", [(-1,), (2, -3), (1.5,), ("2",)], ids=str)
def test_wrong_shapes(wrong):
    for make in (Tensor.zeros, Tensor.ones, Tensor.empty, Tensor.rand):
        with pytest.raises(ValueError):
            make(*wrong)


RANGES = [(5,), (0,), (-3,), (2, 9), (2, 9, 3), (9, 2, -2), (2, 9, -1), (9, 2), (0, 1, 0.25), (1.0, -1.0, -0.3), (5.5,),
          (-3, 4, 2), (0, 1000), (10, 0, -3)]  # fmt: skip


@pytest.mark.parametrize("given", RANGES, ids=str)
def test_arange(given):
    want = np.arange(*given)
    got = Tensor.arange(*given)
    if want.dtype.kind == "i":
        check_exact(got, want, dtypes.int32)
        check_exact(Tensor.arange(*given, dtype=dtypes.int64), want, dtypes.int64)
    else:
        check_close(got, want, dtypes.float32, 4, absolute=1e-6)
        check_close(
            Tensor.arange(*given, dtype=dtypes.float64), want, dtypes.float64, 4, absolute=1e-15
        )


def test_arange_of_numpy_scalars():
    floats = Tensor.arange(np.float32(0), np.float32(1), np.float16(0.25))
    assert floats.dtype is dtypes.default_float and floats.tolist() == [0.0, 0.25, 0.5, 0.75]
    ints = Tensor.arange(np.uint8(3), np.int64(-1), np.int8(-2))
    assert ints.dtype is dtypes.default_int and ints.tolist() == [3, 1]


def test_arange_at_the_ends_of_dtypes():
    assert Tensor.arange(256, dtype=dtypes.uint8).tolist() == list(range(256))
    assert Tensor.arange(-128, 128, 51, dtype=dtypes.int8).tolist() == list(range(-128, 128, 51))
    assert Tensor.arange(2**40, 2**40 + 3, dtype=dtypes.int64).tolist() == [
        2**40,
        2**40 + 1,
        2**40 + 2,
    ]
    for wrong in ((257, dtypes.uint8), (2**31 + 1, dtypes.int32)):
        with pytest.raises(ValueError, match="out of range"):
            Tensor.arange(wrong[0], dtype=wrong[1])
    with pytest.raises(ZeroDivisionError):
        Tensor.arange(0, 3, 0)


@pytest.mark.parametrize(
    "given",
    [(0, 1, 5), (0, 1, 1), (0, 1, 0), (1, -1, 7), (-2.5, 3.25, 11), (5, 5, 3), (0, 1e6, 101)],
    ids=str,
)
def test_linspace(given):
    want = np.linspace(*given)
    check_close(Tensor.linspace(*given), want, dtypes.float32, 4, absolute=1e-6)
    check_close(
        Tensor.linspace(*given, dtype=dtypes.float64), want, dtypes.float64, 4, absolute=1e-15
    )
    assert Tensor.linspace(0, 10, 6, dtype=dtypes.int32).tolist() == [0, 2, 4, 6, 8, 10]
    for steps, kind in ((-1, None), (3, dtypes.bool)):
        with pytest.raises(ValueError, match="linspace"):
            Tensor.linspace(0, 1, steps, dtype=kind)


@pytest.mark.parametrize("size", [(0,), (1,), (4,), (2, 5), (5, 2), (3, 0)], ids=str)
def test_eye(size):
    check_exact(Tensor.eye(*size), np.eye(*size), dtypes.float32)
    check_exact(Tensor.eye(*size, dtype=dtypes.bool), np.eye(*size, dtype=bool), dtypes.bool)
    for wrong in ((-1,), (2, -1)):
        with pytest.raises(ValueError, match="negative"):
            Tensor.eye(*wrong)


def test_data_of_every_kind():
    assert (
        Tensor([]).shape == (0,) and Tensor([[], []]).shape == (2, 0) and Tensor(()).shape == (0,)
    )
    assert Tensor([[[1]]]).shape == (1, 1, 1) and Tensor(((1, 2), (3, 4))).tolist() == [
        [1, 2],
        [3, 4],
    ]
    assert Tensor([np.float32(1.5), 2]).tolist() == [1.5, 2.0]
    assert Tensor(bytearray(b"\x01\x02"), dtype=dtypes.uint16).tolist() == [513]
    assert Tensor(np.float32([1, -2]).tobytes(), dtype="float32").tolist() == [1.0, -2.0]
    with pytest.raises(ValueError, match="3 bytes"):
        Tensor(b"abc", dtype=dtypes.int16)
    nan = Tensor([math.nan, math.inf, -math.inf]).tolist()
    assert math.isnan(nan[0]) and nan[1:] == [math.inf, -math.inf]
    for wrong, error in ((["a"], TypeError), ([[1], [2, 3]], ValueError), (object(), RuntimeError), ([None], TypeError),
                         ([math.nan], None)):  # fmt: skip
        if error is not None:
            with pytest.raises(error):
                Tensor(wrong)
    for value in (math.nan, math.inf):
        with pytest.raises((ValueError, OverflowError)):
            Tensor([value], dtype=dtypes.int32)


@pytest.mark.parametrize("dtype", [d for d in EVERY if d.fmt], ids=dtype_id)
def test_numpy_arrays_go_in_and_out(dtype):
    values = np.resize(edges(dtype), (2, 3, 2))
    for given in (
        values,
        values[::-1],
        values.transpose(2, 0, 1),
        values[:, ::2],
        values[:0],
        values[0, 0, 0],
    ):
        back = Tensor(given)
        check_exact(back, given, dtype, signed_zeros=True)
        assert back.numpy().dtype == given.dtype


def test_what_a_tensor_says_of_itself():
    t = Tensor.zeros(2, 3, 4, dtype=dtypes.half)
    assert (t.numel(), t.ndim, t.nbytes(), t.element_size()) == (24, 3, 48, 2)
    assert t.size() == (2, 3, 4) and t.size(1) == t.size(-2) == 3 and len(t) == 2
    assert t.is_floating_point() and not Tensor([1]).is_floating_point()
    assert Tensor(1.0).numel() == 1 and Tensor.zeros(0, 5).numel() == 0 and Tensor(1).ndim == 0
    with pytest.raises(IndexError):
        t.size(3)
    with pytest.raises(TypeError, match="0-d"):
        len(Tensor(1))
    with pytest.raises(TypeError, match="truth value"):
        bool(Tensor([True]))
    assert hash(t) != hash(Tensor.zeros(2, 3, 4)) and t.uop is t.uop
    for dtype in (*ALL_FLOATS, *INTS):
        assert Tensor.empty(3, dtype=dtype).element_size() == dtype.itemsize


def test_copies_and_flags():
    t = tensor(np.array([1.0, 2.0], np.float32), dtypes.float32)
    twin = t.clone()
    twin.assign(twin * 5).realize()
    assert t.tolist() == [1.0, 2.0] and twin.tolist() == [5.0, 10.0]
    assert t.detach().requires_grad is False and t.requires_grad_().requires_grad is True
    assert t.contiguous().tolist() == t.contiguous_backward().tolist() == [1.0, 2.0]
    assert t.replace(twin).tolist() == [5.0, 10.0]
    assert bytes(t.data()) == np.array([5.0, 10.0], np.float32).tobytes()
    assert t.ufix(3).dtype is dtypes.float32 and t.ufix(t) is t


def test_graph_nodes_as_values():
    n = Variable("n", 1, 9)
    assert Tensor.from_uop(n.bind(4) * 2 + 1).item() == 9
    assert Tensor([1, 2]).alu(Ops.ADD, Tensor([3, 4])).tolist() == [4, 6]
    assert Tensor.full((2,), n.bind(3)).tolist() == [3, 3]


def test_threefry_is_the_published_one():
    # Random123's known answers: counter and key of zeros, of ones, of the digits of pi
    for counter, key, want in (
        (0, 0, 0x99BA4EFE6B200159),
        (2**64 - 1, 2**64 - 1, 0xBB002BE71CB996FC),
        (0x85A308D3243F6A88, 0x0370734413198A2E, 0x483DF7A0C4923A9C),
    ):
        words = Tensor([counter], dtype=dtypes.uint64)
        assert words.threefry(Tensor([key], dtype=dtypes.uint64)).tolist() == [want]
        assert words.alu_threefry(Tensor(key, dtype=dtypes.uint64)).tolist() == [want]


def test_memory_of_others():
    block = (ctypes.c_float * 4)(1.0, 2.0, 3.0, 4.0)
    t = Tensor.from_blob(ctypes.addressof(block), (2, 2), dtype=dtypes.float32, device="CPU")
    assert (t * 2).tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_default_float_is_a_setting():
    before = dtypes.default_float
    try:
        for kind in (dtypes.half, dtypes.float64):
            dtypes.default_float = kind
            assert Tensor([1.5]).dtype is Tensor.ones(2).dtype is Tensor.rand(2).dtype is kind
            assert (
                (Tensor([1]) + 0.5).dtype
                is (Tensor([1]) / 2).dtype
                is Tensor([4]).sqrt().dtype
                is kind
            )
            assert Tensor.arange(0, 1, 0.5).dtype is Tensor.linspace(0, 1, 3).dtype is kind
    finally:
        dtypes.default_float = before


def test_rounding_of_lists_is_that_of_casts():
    values = [0.1, 1 / 3, 65519.999, 1e-8, -2.5, 2.0**24 + 1]
    for dtype in ALL_FLOATS:
        check_exact(Tensor(values, dtype=dtype), rounded(values, dtype), dtype)
    check_close(Tensor(values), np.array(values).astype(wide), dtypes.float32, 0.5)
