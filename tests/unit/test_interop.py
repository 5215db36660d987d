"""docs/interop.md, line by line, with what Python and NumPy have."""

import array
import copy
import ctypes
import gc
import mmap
import pickle
import weakref

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, dtypes
from tinygrad.engine.jit import JitError
from tinygrad.helpers import GlobalCounters

NUMPY_TYPES = "? b B h H i I q Q e f d".split()


def realized(values, **kwargs):
    return Tensor(values, **kwargs).realize()


# *** values go in


@pytest.mark.parametrize("code", NUMPY_TYPES)
@pytest.mark.parametrize("order", "<>")
def test_arrays_of_every_type_order_and_layout(code, order):
    values = np.arange(24).reshape(2, 3, 4).astype(np.dtype(code).newbyteorder(order))
    layouts = [
        values, values.T, values[:, ::-1], values[::-1, ::2, ::-3], values[:, :, 1:3], values[:, 0:0],
        values[1, 2, 3], values[1, 2, 3:], np.broadcast_to(values[:1], (3, 3, 4)), np.asfortranarray(values),
    ]  # fmt: skip
    for layout in layouts:
        layout = np.asarray(layout)
        t = Tensor(layout)
        assert t.shape == layout.shape
        assert t.dtype.fmt == np.dtype(code).char
        np.testing.assert_array_equal(t.numpy(), layout)


def test_the_values_are_those_at_the_call():
    a, raw = np.array([1.0, 2.0]), bytearray(b"ab")
    t, u, v = Tensor(a), Tensor(raw), Tensor(memoryview(a))
    a[0], raw[0] = 9, 0
    assert (t.tolist(), u.tolist(), v.tolist()) == ([1.0, 2.0], [97, 98], [1.0, 2.0])


def test_arrays_that_cannot_be_written_and_kinds_of_arrays():
    fixed = np.frombuffer(b"abcd", dtype=np.uint8)
    frozen = np.arange(3)
    frozen.flags.writeable = False
    assert Tensor(fixed).tolist() == [97, 98, 99, 100]
    assert Tensor(frozen).tolist() == [0, 1, 2]
    assert Tensor(frozen[1:]).tolist() == [1, 2]
    assert Tensor(np.ones((1, 2)).view(np.recarray)).shape == (1, 2)
    assert Tensor(np.ma.array([1, 2])).tolist() == [1, 2]
    assert Tensor(np.float16(1.5)).dtype is dtypes.float16


def test_a_view_without_write_access_of_memory_that_changes():
    owner = np.arange(3)
    view = owner[:]
    view.flags.writeable = False
    t = Tensor(view)
    owner[0] = 7
    assert t.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "refused",
    [
        np.array([1j]), np.array(["a"]), np.array([b"a"]), np.array([1, None], dtype=object),
        np.zeros(2, dtype=[("a", "f4")]), np.array(["2020-01-01"], dtype="M8[D]"),
        np.ma.array([1, 2], mask=[0, 1]), np.complex64(1), memoryview(np.array([1j])),
        array.array("u", "ab"),
    ],
    ids=lambda a: f"{type(a).__name__}",
)  # fmt: skip
def test_arrays_that_no_tensor_can_hold(refused):
    with pytest.raises(TypeError, match="a tensor cannot hold"):
        Tensor(refused)


@pytest.mark.parametrize("refused", ["text", 1j, {1, 2}, {"a": 1}, range(3), int, Tensor, object()])
def test_what_is_no_data(refused):
    with pytest.raises(RuntimeError, match="cannot make a tensor from .*: give a number"):
        Tensor(refused)


def test_a_long_repr_is_shortened_in_the_message():
    with pytest.raises(RuntimeError) as caught:
        Tensor({i: i for i in range(10_000)})
    assert len(str(caught.value)) < 400


def test_lists_that_are_no_data():
    endless = [1]
    endless[0] = endless
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        Tensor(endless)
    for wrong in (["a"], [None], [1j], [[1, "b"]], [range(2)]):
        with pytest.raises(
            TypeError, match="built from numbers, got .*: give bools, ints or floats"
        ):
            Tensor(wrong)
    for ragged in ([[1], [2, 3]], [1, [2]], [np.zeros(2), np.zeros(3)]):
        with pytest.raises(ValueError, match="inhomogeneous"):
            Tensor(ragged)
    assert [Tensor(x).shape for x in ([], [[]], [[], []], ())] == [(0,), (1, 0), (2, 0), (0,)]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_memory_by_address(device):
    memory = (ctypes.c_int32 * 4)(1, 2, 3, 4)
    t = Tensor.from_blob(ctypes.addressof(memory), (2, 2), dtype=dtypes.int32, device=device)
    memory[0] = 9
    assert t.tolist() == [[9, 2], [3, 4]]
    t.assign(t + 1).realize()
    assert list(memory) == [10, 3, 4, 5]
    assert Tensor.from_blob(0, (0, 3), device=device).shape == (0, 3)
    with pytest.raises(ValueError, match="no memory at address 0"):
        Tensor.from_blob(0, (2,), device=device)
    with pytest.raises(ValueError, match="negative"):
        Tensor.from_blob(8, (-1,), device=device)
    with pytest.raises(TypeError, match="an address is an int"):
        Tensor.from_blob(1.5, (2,), device=device)


def test_memory_of_python():
    assert Tensor(array.array("h", [1, -2])).tolist() == [1, -2]
    assert Tensor(memoryview(bytearray(8)).cast("f", (2, 1))).shape == (2, 1)
    assert Tensor(((ctypes.c_int * 2) * 3)()).shape == (3, 2)
    assert Tensor(mmap.mmap(-1, 8)).dtype is dtypes.uint8
    assert Tensor(memoryview(np.arange(6).reshape(2, 3).T)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert Tensor(array.array("d"), dtype="float").tolist() == []
    assert Tensor(array.array("b", [1]), dtype="float").dtype is dtypes.float


class Speaks:
    """An array of another library, by one protocol."""

    def __init__(self, **methods):
        for name, value in methods.items():
            setattr(self, name, value)


def test_other_protocols():
    class Array:
        def __array__(self, dtype=None, copy=None):
            return np.array([[1, 2]])

    assert Tensor(Array()).tolist() == [[1, 2]]
    shown = np.arange(3, dtype=np.int16)
    assert Tensor(Speaks(__array_interface__=shown.__array_interface__)).tolist() == [0, 1, 2]
    # before version 1.0 of DLPack there was no max_version
    old = Speaks(__dlpack__=lambda stream=None: shown.__dlpack__())
    assert Tensor(old).tolist() == [0, 1, 2]


# *** memory is shared


def test_shared_memory_of_an_array():
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    t = Tensor.from_dlpack(a)
    a[0, 0] = 5
    assert t.tolist() == [[5.0, 1.0], [2.0, 3.0]]
    t.assign(t * 2).realize()
    t[1, 1] = 0
    assert a.tolist() == [[10.0, 2.0], [4.0, 0.0]]


def test_a_computed_value_keeps_what_it_was():
    a = np.array([1, 2])
    t = Tensor.from_dlpack(a)
    before, later = (t + 1).realize(), t + 1
    a[:] = 10
    assert (before.tolist(), later.tolist()) == ([2, 3], [11, 11])


def test_either_side_may_die_first():
    a = np.array([1, 2])
    watch = weakref.ref(a)
    t = Tensor.from_dlpack(a)
    del a
    gc.collect()
    assert watch() is not None and t.tolist() == [1, 2]
    part = np.asarray(t)
    del t
    gc.collect()
    assert watch() is not None and part.tolist() == [1, 2]
    del part
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize(
    "layout", ["read-only", "strided", "backwards", "broadcast", "empty", "odd address"]
)
def test_memory_that_cannot_be_shared_is_copied(layout):
    a = np.arange(6)
    a = {
        "strided": a[::2], "backwards": a[::-1], "broadcast": np.broadcast_to(a, (2, 6)), "empty": a[:0],
        "odd address": np.zeros(17, np.uint8)[1:].view(np.int64),
    }.get(layout, a)  # fmt: skip
    if layout == "read-only":
        a.flags.writeable = False
    t = Tensor.from_dlpack(a)
    np.testing.assert_array_equal(t.numpy(), a)
    with pytest.raises(BufferError, match="cannot be shared .*copy=False"):
        Tensor.from_dlpack(a, copy=False)


def test_copies_on_demand_and_devices():
    a = np.array([1.0, 2.0])
    t, u = Tensor.from_dlpack(a, copy=True), Tensor.from_dlpack(a, device="PYTHON")
    v = Tensor.from_dlpack(a, device=("CPU:0", "CPU:1"))
    a[0] = 9
    assert (t.tolist(), u.tolist()) == ([1.0, 2.0], [9.0, 2.0])
    assert v.device == ("CPU", "CPU:1")


def test_what_is_no_source_of_memory():
    with pytest.raises(TypeError, match="__dlpack__"):
        Tensor.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="complex128"):
        Tensor.from_dlpack(np.array([1j]))
    with pytest.raises(BufferError, match="capsule"):
        Tensor.from_dlpack(Speaks(__dlpack__=lambda **_: 3))
    with pytest.raises(BufferError, match=r"\(2, 0\).*\.cpu\(\)"):
        Tensor.from_dlpack(Speaks(__dlpack__=None, __dlpack_device__=lambda: (2, 0)))


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_consumed_once(version):
    t = realized([1, 2])
    capsule = t.__dlpack__(max_version=version)
    holder = Speaks(__dlpack__=lambda **_: capsule)
    assert Tensor.from_dlpack(holder).tolist() == [1, 2]
    with pytest.raises(BufferError, match="nobody has consumed"):
        Tensor.from_dlpack(holder)


@pytest.mark.parametrize("version", [None, (1, 0), (2, 5)])
@pytest.mark.parametrize("consumed", [False, True])
def test_capsules_give_memory_back(version, consumed):
    before = GlobalCounters.mem_used
    for _ in range(5):
        t = realized([1.0] * 1000)
        capsule = t.__dlpack__(max_version=version)
        if consumed:
            Tensor.from_dlpack(Speaks(__dlpack__=lambda c=capsule, **_: c))
    del t, capsule
    gc.collect()
    assert GlobalCounters.mem_used == before


# *** memory is lent


def test_views_are_read_only_and_show_writes_of_the_tensor():
    t = realized([[1.0, 2.0], [3.0, 4.0]])
    view, shown = np.asarray(t), memoryview(t)
    assert not view.flags.writeable and shown.readonly
    t.assign(t + 1).realize()
    assert view.tolist() == shown.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert np.shares_memory(view, np.asarray(t))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0


def test_shared_arrays_show_writes_of_both():
    t = realized([1, 2, 3])
    a = np.from_dlpack(t)
    a[0] = 7
    t[1] = 8
    assert t.tolist() == a.tolist() == [7, 8, 3]


def test_memory_outlives_its_tensor():
    t = realized([1.0, 2.0, 3.0])
    a, m, d = np.asarray(t), memoryview(t), np.from_dlpack(t)
    del t
    gc.collect()
    others = [realized([9.0, 9.0, 9.0]) for _ in range(8)]
    assert a.tolist() == m.tolist() == d.tolist() == [1.0, 2.0, 3.0]
    assert len(others) == 8


def test_what_is_pending_keeps_its_values():
    t = realized([1, 2])
    pending = t + 1
    np.from_dlpack(t)[0] = 100
    assert pending.tolist() == [2, 3]


def test_equal_values_are_parted_before_they_are_lent():
    t = realized([1, 2])
    twin = (t + 0).realize()
    a = np.asarray(twin)
    t.assign(t * 10).realize()
    assert a.tolist() == twin.tolist() == [1, 2]
    np.from_dlpack(t)[0] = 5
    assert twin.tolist() == [1, 2]


def test_copies_are_copies():
    t = realized([1, 2])
    a, b = np.array(t), t.numpy()
    a[0], b[0] = 5, 6
    assert t.tolist() == [1, 2]
    assert bytes(t) == b"\x01\0\0\0\x02\0\0\0" and bytearray(t)[4] == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: realized([[1, 2], [3, 4]]).T,
        lambda: realized([1, 2]).reshape(2, 1).expand(2, 3),
        lambda: Tensor.ones(2, 3),
        lambda: realized([1, 2, 3, 4]).shard(("CPU:0", "CPU:1"), axis=0),
    ],
)
def test_what_is_not_in_order_in_memory_is_copied(make):
    t = make()
    assert (
        np.asarray(t).tolist() == memoryview(t).tolist() == np.from_dlpack(t).tolist() == t.tolist()
    )
    assert not np.asarray(t).flags.writeable
    with pytest.raises(BufferError, match="copy=False"):
        t.__dlpack__(copy=False)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (1, 1), (2, 3), (2, 1, 3)])
def test_shapes_of_views(shape):
    t = Tensor.arange(int(np.prod(shape))).reshape(shape)
    view = memoryview(t)
    assert (view.shape, view.format, view.itemsize, view.ndim) == (shape, "i", 4, len(shape))
    assert np.asarray(t).shape == np.from_dlpack(t).shape == shape
    assert view.tolist() == t.tolist() or 0 in shape


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8e4m3", "fp8e5m2"])
def test_types_that_numpy_lacks(dtype):
    t = Tensor([1.5, -2.0], dtype=dtype)
    with pytest.raises(BufferError, match="cast to float32"):
        memoryview(t)
    assert np.asarray(t).dtype == np.float32 and np.asarray(t).tolist() == [1.5, -2.0]
    assert Tensor.from_dlpack(t).dtype is t.dtype
    assert Tensor.from_dlpack(t).tolist() == [1.5, -2.0]
    with pytest.raises(ValueError, match="copy"):
        t.__array__(copy=False)


def test_arguments_of_array():
    t = realized([1.5, 2.5])
    assert np.asarray(t, dtype=np.int8).tolist() == [1, 2]
    assert t.__array__(np.float64).dtype == np.float64
    assert t.__array__(copy=True).flags.writeable
    with pytest.raises(ValueError, match="copy"):
        t.__array__(np.float64, copy=False)
    column_major = np.asfortranarray(realized([[1, 2], [3, 4]]))
    assert column_major.tolist() == [[1, 2], [3, 4]]


def test_arguments_of_dlpack():
    t = realized([1])
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            t.__dlpack__(**wrong)
    with pytest.raises(BufferError, match="NULL has no memory"):
        Tensor([1], device="NULL").__dlpack_device__()
    copied = Tensor.from_dlpack(Speaks(__dlpack__=lambda **_: t.__dlpack__(copy=True)))
    t[0] = 5
    assert copied.tolist() == [1]


def test_lending_inside_of_a_capture():
    @TinyJit
    def f(x):
        y = (x + 1).realize()
        np.asarray(y)
        return y

    f(realized([1.0]))
    with pytest.raises(JitError, match="read"):
        f(realized([1.0]))


# *** operators and numbers


def test_operators_with_arrays_give_tensors():
    a, t = np.array([1.0, 2.0], dtype=np.float32), Tensor([3.0, 4.0])
    cases = {
        "+": (a + t, a + t.numpy()), "-": (a - t, a - t.numpy()), "*": (a * t, a * t.numpy()),
        "/": (a / t, a / t.numpy()), "//": (a // t, a // t.numpy()), "%": (a % t, a % t.numpy()),
        "**": (a**t, a ** t.numpy()), "@": (a @ t, a @ t.numpy()), "<": (a < t, a < t.numpy()),
        ">=": (a >= t, a >= t.numpy()), "==": (a == t, a == t.numpy()), "!=": (a != t, a != t.numpy()),
        "scalar": (np.float32(3) * t, np.float32(3) * t.numpy()), "right": (t - a, t.numpy() - a),
    }  # fmt: skip
    for name, (got, want) in cases.items():
        assert isinstance(got, Tensor), name
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, err_msg=name)
    bits, i = np.array([6, 3]), Tensor([3, 1])
    for got, want in [
        (bits & i, [2, 1]),
        (bits | i, [7, 3]),
        (bits ^ i, [5, 2]),
        (bits << i, [48, 6]),
    ]:
        assert got.tolist() == want


def test_functions_of_numpy_give_arrays():
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    for got, want in [
        (np.sin(t), np.sin(t.numpy())), (np.mean(t, axis=0), [2.0, 3.0]), (np.stack([t, t]).shape, (2, 2, 2)),
        (np.add.reduce(t), [4.0, 6.0]), (np.where(t > 2, t, 0), [[0, 0], [3, 4]]), (np.divmod(t, 2)[1], [[1, 0], [1, 0]]),
        (np.concatenate((t, np.ones((1, 2))))[2], [1, 1]), (np.array([t, t]).shape, (2, 2, 2)),
    ]:  # fmt: skip
        assert not isinstance(got, Tensor)
        np.testing.assert_allclose(got, want)
    a = np.ones(2)
    a += Tensor([1.0, 2.0])
    assert a.tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="assign"):
        np.add(a, a, out=Tensor([1.0, 2.0]))
    assert np.arange(5)[Tensor([1, 3])].tolist() == [1, 3]


def test_numbers():
    assert int(Tensor([[2.7]])) == 2 and float(Tensor(3)) == 3.0 and complex(Tensor(1.5)) == 1.5
    assert [10, 20, 30][Tensor(1)] == 20 and list(range(Tensor(2))) == [0, 1]
    assert f"{Tensor(1.256):.2f}" == "1.26" and f"{Tensor([7]):03d}" == "007"
    assert f"{Tensor([1, 2])}" == str(Tensor([1, 2]))
    for call in (int, float, complex, lambda t: f"{t:.2f}", lambda t: [1][t]):
        with pytest.raises(TypeError, match="one element"):
            call(Tensor([1, 2]))
    with pytest.raises(TypeError, match="integers"):
        [1, 2][Tensor(1.0)]
    with pytest.raises(TypeError, match="truth value"):
        bool(Tensor(1))
    with pytest.raises(ValueError, match="whole numbers"):
        Tensor.zeros(Tensor(3))


def test_python_containers():
    t = Tensor([[1, 2], [3, 4]])
    assert len(t) == 2 and [row.tolist() for row in t] == [[1, 2], [3, 4]]
    assert 3 in t and 5 not in t
    assert {t: "a"}[t] == "a" and len({t, t, Tensor([1])}) == 2
    with pytest.raises(TypeError):
        len(Tensor(1))
    with pytest.raises(TypeError):
        iter(Tensor(1))


def test_copies_of_tensors():
    t = Tensor([1.0, 2.0], requires_grad=True).realize()
    same, own, loaded = copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))
    t.assign(t.detach() * 5).realize()
    assert same.tolist() == [5.0, 10.0]
    assert own.tolist() == loaded.tolist() == [1.0, 2.0]
    assert own.requires_grad and loaded.requires_grad


# *** text


def test_values_are_shown():
    assert repr(Tensor([1, 2])) == "Tensor([1, 2], dtype=int, device='CPU')"
    assert repr(realized([[1.5, 2.0], [3.0, -4.25]])) == (
        "Tensor([[ 1.5 ,  2.  ],\n        [ 3.  , -4.25]], dtype=float, device='CPU')"
    )
    assert repr(Tensor(True)) == "Tensor(True, dtype=bool, device='CPU')"
    assert repr(Tensor.ones(2, dtype="half")) == "Tensor([1., 1.], dtype=half, device='CPU')"
    assert (
        repr(Tensor(np.zeros((0, 3), np.int8)))
        == "Tensor([], shape=(0, 3), dtype=char, device='CPU')"
    )
    assert repr(realized([1.0, 32.0], dtype="fp8e5m2")).startswith(
        "Tensor([ 1., 32.], dtype=fp8e5m2"
    )
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert repr(x).endswith("requires_grad=True)")
    (x * x).sum().backward()
    x.grad.realize()
    assert repr(x).endswith("grad=[2., 4.])")


def test_views_are_shown():
    t = realized([[1, 2, 3], [4, 5, 6]])
    for view in (
        t.T, t[1], t[:, ::-1], t[1:, 1], t.pad(((1, 0), (0, 1))), t.reshape(3, 2).unsqueeze(0).expand(2, 3, 2),
        t.permute(1, 0).reshape(6)[2:4], t.flip((0, 1)).T.shrink(((1, 3), (0, 1))),
    ):  # fmt: skip
        assert repr(view).startswith(
            "Tensor(" + repr(view.numpy()).removeprefix("array(").split("]")[0]
        )
    split = (
        t.T.contiguous()
        .realize()
        .pad_to(4, 2)
        .contiguous()
        .realize()
        .shard(("CPU:0", "CPU:1"), 0)
        .realize()
    )
    assert repr(split).startswith(
        "Tensor([[1, 4],\n        [2, 5],\n        [3, 6],\n        [0, 0]]"
    )
    assert "device=('CPU', 'CPU:1')" in repr(split)


def test_large_tensors_are_shortened():
    t = Tensor.arange(40_000).reshape(200, 200).realize()
    text = repr(t)
    assert text.count("\n") == 6 and "39999]]" in text and "200, " in text
    assert text.count("...") == 7
    assert len(repr(Tensor.arange(1_000_000).realize())) < 120


def test_looking_computes_nothing(tmp_path):
    x = realized([1.0, 2.0])
    y = (x * 2 + 1).sum()
    pending = y.uop
    GlobalCounters.reset()
    text = repr(y)
    assert GlobalCounters.kernel_count == 0 and y.uop is pending
    assert text.startswith("<Tensor <UOp CPU () float> on CPU with grad None, computed by ")
    assert "REDUCE_AXIS" in text and "MUL" in text
    assert "without memory" in repr(Tensor.empty(3))
    file = tmp_path / "new"
    repr(Tensor.empty(3, device=f"DISK:{file}"))
    assert not file.exists()


def test_looking_inside_of_a_capture():
    texts = []

    @TinyJit
    def f(x):
        texts.append(repr(x))
        return (x + 1).realize()

    for i in range(3):
        assert f(realized([float(i)])).tolist() == [i + 1.0]
    assert texts[0].startswith("Tensor([0.]") and texts[1].startswith("<Tensor")
