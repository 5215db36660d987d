"""PyTorch checkpoints of all three containers, from bytes written by hand: tensors come out, nothing runs."""

import io
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from tests.torch_bytes import (
    Call,
    Global,
    Reference,
    Storage,
    TarTensor,
    pickled,
    storage,
    stream_checkpoint,
    tar_checkpoint,
    tensor,
    zip_checkpoint,
)

from tinygrad import Tensor, dtypes
from tinygrad.nn.state import torch_load

NUMBERS = np.arange(24, dtype=np.float32)
# offset, size, strides
VIEWS = {
    "whole": (0, (4, 6), (6, 1)),
    "part": (3, (2, 3), (6, 1)),
    "transposed": (0, (6, 4), (1, 6)),
    "every second": (1, (2, 3), (12, 2)),
    "permuted": (0, (3, 4, 2), (2, 6, 1)),
    "expanded": (5, (3, 4), (0, 1)),
    "one number": (7, (), ()),
    "overlapping": (0, (5, 4), (2, 1)),
    "one row": (6, (1, 6), (99, 1)),
    "none": (0, (0, 3), (3, 1)),
}


def expected(offset, size, stride) -> np.ndarray:
    strides = [4 * s for s in stride]
    return np.lib.stride_tricks.as_strided(NUMBERS[offset:], size, strides)


def views(place) -> dict:
    return {name: tensor(place, *view) for name, view in VIEWS.items()}


def check(loaded) -> None:
    assert list(loaded) == list(VIEWS)
    for name, view in VIEWS.items():
        assert loaded[name].shape == view[1], name
        np.testing.assert_array_equal(loaded[name].numpy(), expected(*view), err_msg=name)


@pytest.mark.parametrize("from_file", [True, False])
def test_views_in_a_zip(tmp_path, from_file):
    data = zip_checkpoint(views(storage("Float", "0", 24)), {"0": NUMBERS.tobytes()})
    (tmp_path / "x.pt").write_bytes(data)
    check(torch_load(tmp_path / "x.pt" if from_file else Tensor(data)))


def test_views_in_a_stream(tmp_path):
    (tmp_path / "x.pt").write_bytes(
        stream_checkpoint(views(storage("Float", "7", 24)), {"7": (24, NUMBERS.tobytes())})
    )
    check(torch_load(tmp_path / "x.pt"))


def test_views_in_a_tar():
    tensors = {10 + i: TarTensor(1, *view) for i, view in enumerate(VIEWS.values())}
    names = {name: Reference(10 + i) for i, name in enumerate(VIEWS)}
    data = tar_checkpoint(OrderedDict(names), {1: ("Float", 24, NUMBERS.tobytes())}, tensors)
    check(torch_load(Tensor(data)))


def test_storages_that_are_parts_of_others():
    place = storage("Float", "0", 24, (("part", 4, 6),))
    data = stream_checkpoint([tensor(place, 1, (2,), (1,))], {"0": (24, NUMBERS.tobytes())})
    assert torch_load(Tensor(data))[0].tolist() == [5.0, 6.0]
    data = tar_checkpoint(
        [Reference(9)],
        {1: ("Float", 24, NUMBERS.tobytes())},
        {9: TarTensor(2, 1, (2,), (1,))},
        [(2, 1, 4, 6)],
    )
    assert torch_load(Tensor(data))[0].tolist() == [5.0, 6.0]


KINDS = {
    "Half": np.float16, "Float": np.float32, "Double": np.float64, "Char": np.int8, "Byte": np.uint8,
    "Short": np.int16, "Int": np.int32, "Long": np.int64, "Bool": np.bool_,
}  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_storage_in_both_byte_orders(order):
    arrays = {k: np.array([0, 1, 2, 100], kind) for k, kind in KINDS.items()}
    whole = {k: tensor(storage(k, k, 4), 1, (3,), (1,)) for k in arrays}
    contents = {k: a.astype(a.dtype.newbyteorder(order)).tobytes() for k, a in arrays.items()}
    loaded = torch_load(
        Tensor(zip_checkpoint(whole, contents, b"little" if order == "<" else b"big"))
    )
    for kind, array in arrays.items():
        got = loaded[kind].numpy()
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array[1:], err_msg=kind)


def test_dtypes_without_a_storage_class():
    untyped = Storage(Global("torch.storage", "UntypedStorage"), "0", 8)

    def typed(kind, offset, size):
        args = (untyped, offset, (size,), (1,), False, OrderedDict(), Global("torch", kind))
        return Call(Global("torch._utils", "_rebuild_tensor_v3"), args)

    whole = [
        typed("uint16", 1, 3),
        typed("uint64", 0, 1),
        typed("float8_e5m2", 2, 2),
        typed("bfloat16", 3, 1),
    ]
    data = zip_checkpoint(whole, {"0": bytes([1, 0, 0x3C, 0xC0, 4, 0, 0x80, 0x3F])})
    loaded = torch_load(Tensor(data))
    assert [t.dtype for t in loaded] == [
        dtypes.uint16,
        dtypes.uint64,
        dtypes.fp8e5m2,
        dtypes.bfloat16,
    ]
    assert loaded[0].tolist() == [0xC03C, 4, 0x3F80]
    assert loaded[1].tolist() == [0x3F800004C03C0001]
    assert loaded[2].float().tolist() == [1.0, -2.0] and loaded[3].float().tolist() == [1.0]


def test_tensors_of_every_make():
    place = storage("Float", "0", 24)
    plain = tensor(place, 0, (2,), (1,))
    v2 = Global("torch._utils", "_rebuild_tensor_v2")
    args = (place, 2, (2,), (1,), False, OrderedDict())
    whole = {
        "oldest": tensor(place, 0, (2,), (1,), "_rebuild_tensor"),
        "parameter": Call(Global("torch._utils", "_rebuild_parameter"), (plain, True, OrderedDict())),
        "with state": Call(Global("torch._utils", "_rebuild_parameter_with_state"), (plain, True, {}, {"a": 1})),
        "attributes": Call(Global("torch._tensor", "_rebuild_from_type_v2"), (v2, Global("torch", "Tensor"), args, {})),
        "size": Call(Global("torch", "Size"), ([2, 3],)),
        "negative": Call(v2, (*args, {"neg": True})),
        "typed negative": Call(Global("torch._utils", "_rebuild_tensor_v3"), (*args, Global("torch", "float32"), {"neg": True})),
    }  # fmt: skip
    loaded = torch_load(Tensor(zip_checkpoint(whole, {"0": NUMBERS.tobytes()})))
    assert loaded["size"] == (2, 3)
    values = {name: value.tolist() for name, value in loaded.items() if name != "size"}
    assert values == {
        "oldest": [0.0, 1.0],
        "parameter": [0.0, 1.0],
        "with state": [0.0, 1.0],
        "attributes": [2.0, 3.0],
        "negative": [-2.0, -3.0],
        "typed negative": [-2.0, -3.0],
    }


def test_quantized_tensors_are_the_numbers_they_stand_for():
    rebuild = Global("torch._utils", "_rebuild_qtensor")
    codes = (storage("QInt8", "0", 6), 0, (2, 3), (3, 1))
    scales = (
        tensor(storage("Double", "1", 2), 0, (2,), (1,)),
        tensor(storage("Long", "2", 2), 0, (2,), (1,)),
    )
    whole = [
        Call(
            rebuild, (*codes, (Global("torch", "per_tensor_affine"), 0.5, 3), False, OrderedDict())
        ),
        Call(
            rebuild,
            (*codes, (Global("torch", "per_channel_affine"), *scales, 0), False, OrderedDict()),
        ),
    ]
    raw = np.array([[-128, 0, 3], [127, 1, 2]], np.int8)
    parts = {"0": raw.tobytes(), "1": struct.pack("<2d", 2, 0.25), "2": struct.pack("<2q", 0, 1)}
    one, each = torch_load(Tensor(zip_checkpoint(whole, parts)))
    np.testing.assert_array_equal(one.numpy(), (raw.astype(np.float32) - 3) * 0.5)
    np.testing.assert_array_equal(each.numpy(), (raw - np.array([[0], [1.0]])) * [[2], [0.25]])


# *** what is around the tensors of a training run ***
def made_by_pickle(obj, protocol: int = 2):
    return torch_load(Tensor(zip_checkpoint(_Raw(pickle.dumps(obj, protocol)), {})))


class _Raw:
    """Bytes of a pickle to take as they are."""

    def __init__(self, data: bytes):
        self.data = data


@pytest.fixture(autouse=True)
def _raw_pickles(monkeypatch):
    import tests.torch_bytes as made

    plain = made.pickled
    monkeypatch.setattr(
        made, "pickled", lambda obj: obj.data if isinstance(obj, _Raw) else plain(obj)
    )


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_data(protocol):
    from collections import Counter, defaultdict

    whole = {
        "epoch": 3, "big": 1 << 100, "rate": 1e-3, "name": "α", "none": None, "flags": [True, False],
        "bytes": b"\x00\xff", "array": bytearray(b"\x80"), "set": {1, 2}, "frozen": frozenset([3]), "z": 1 + 2j,
        "counts": Counter("aab"), "lists": defaultdict(list, {"a": [1]}), "ordered": OrderedDict(b=1, a=2),
    }  # fmt: skip
    loaded = made_by_pickle(whole, protocol)
    assert loaded == whole and list(loaded["ordered"]) == ["b", "a"]


@pytest.mark.parametrize("protocol", [2, 4])
def test_numpy_data(protocol):
    whole = {
        "best": np.float64(0.25), "step": np.int32(-7), "swapped": np.arange(3, dtype=">i2"),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "empty": np.zeros((0, 2), np.float16),
        "flag": np.bool_(True),
    }  # fmt: skip
    loaded = made_by_pickle(whole, protocol)
    for name, value in whole.items():
        assert loaded[name].dtype.newbyteorder("=") == value.dtype.newbyteorder("="), name
        np.testing.assert_array_equal(loaded[name], value, err_msg=name)
    with pytest.raises(pickle.UnpicklingError, match="'O8' are not allowed"):
        made_by_pickle(np.array([[], None], object), protocol)


def test_objects_of_other_projects_are_placeholders():
    callback = Global("pytorch_lightning.callbacks", "ModelCheckpoint")
    namespace = Call(
        Global("copy_reg", "_reconstructor"),
        (Global("argparse", "Namespace"), Global("__builtin__", "object"), None),
        {"lr": 1},
    )
    whole = {
        callback: {"best": 1},
        "made": Call(callback, (1, 2), {"x": 3}, ((4, 5),)),
        "args": namespace,
    }
    loaded = torch_load(Tensor(zip_checkpoint(_Raw(pickled(whole)), {})))
    kind = next(iter(loaded))
    assert (kind.__module__, kind.__name__) == ("pytorch_lightning.callbacks", "ModelCheckpoint")
    made = loaded["made"]
    assert type(made).__name__ == "ModelCheckpoint" and made.args == (1, 2)
    assert made.state == {"x": 3} and made.items == [(4, 5)] and loaded["args"].state == {"lr": 1}


# *** what is refused ***
@pytest.mark.parametrize(
    "name",
    [
        "os.system", "posix.system", "nt.system", "subprocess.Popen", "builtins.eval", "builtins.exec",
        "__builtin__.eval", "builtins.getattr", "builtins.__import__", "importlib.import_module", "sys.exit",
        "runpy._run_code", "shutil.rmtree", "pickle.loads", "operator.attrgetter", "webbrowser.open",
        "torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_meta_tensor_no_storage",
    ],
)  # fmt: skip
def test_the_global_that_is_refused_is_named(name):
    module, _, attribute = name.rpartition(".")
    for obj in (Call(Global(module, attribute), ("echo",)), [Global(module, attribute)]):
        with pytest.raises(pickle.UnpicklingError, match=name.replace(".", r"\.")):
            torch_load(Tensor(zip_checkpoint(obj, {})))


@pytest.mark.parametrize(
    "code",
    [
        b"(X\x02\x00\x00\x00lsios\nsystem\n.",  # INST
        b"(cos\nsystem\nX\x02\x00\x00\x00lso.",  # OBJ
        b"\x8c\x02os\x8c\x06system\x93X\x02\x00\x00\x00ls\x85R.",  # STACK_GLOBAL
        b"\x82\x01.",  # EXT1
        b"c__main__\nX\n)\x81}(X\x01\x00\x00\x00acos\nsystem\nub.",  # in the state of an object
        b"ctests.unit\nnothing.__class__.__base__\n.",  # a dotted name leads nowhere
    ],
)
def test_nothing_runs_by_another_way(code):
    data = zip_checkpoint(_Raw(b"\x80\x04" + code), {})
    try:
        loaded = torch_load(Tensor(data))
    except pickle.UnpicklingError:
        return
    assert loaded.__mro__[1].__name__ == "Placeholder"


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ((0, (5, 5), (5, 1)), "reaches 25 of 24"),
        ((24, (1,), (1,)), "reaches 25 of 24"),
        ((0, (2,), (1 << 62,)), "reaches"),
        ((-1, (2,), (1,)), "offset -1"),
        ((0, (2,), (-1,)), "strides"),
        ((0, (-2,), (1,)), "shape"),
        ((0, (2.0,), (1,)), "shape"),
        ((0, (2,), (1, 1)), "2 strides"),
        ((0, (1 << 40, 1 << 40), (0, 0)), "no tensor can have"),
    ],
)
def test_views_that_leave_their_storage(view, message):
    place = storage("Float", "0", 24)
    for data in (
        zip_checkpoint([tensor(place, *view)], {"0": NUMBERS.tobytes()}),
        stream_checkpoint([tensor(place, *view)], {"0": (24, NUMBERS.tobytes())}),
    ):
        with pytest.raises(ValueError, match=message):
            torch_load(Tensor(data))


def test_storages_that_are_not_there():
    one = [tensor(storage("Float", "0", 24), 0, (2,), (1,))]
    for data, message in (
        (zip_checkpoint(one, {}), "'0' is not in"),
        (zip_checkpoint(one, {"0": bytes(8)}), "has 2 elements, expected 24"),
        (zip_checkpoint([tensor(storage("Complex" + "Float", "0", 1), 0, (1,), (1,))], {"0": bytes(8)}), "no dtype"),
        (stream_checkpoint(one, {"0": (1 << 40, bytes(8))}), "of a file of"),
        (stream_checkpoint(one, {"0": (-1, bytes(8))}), "of a file of"),
    ):  # fmt: skip
        with pytest.raises((ValueError, EOFError), match=message):
            torch_load(Tensor(data))


def test_the_bytes_of_the_helper_are_a_plain_pickle():
    # the fixtures above mean something only if they hold what other readers see
    names = [
        arg
        for op, arg, _ in pickletools.genops(pickled(views(storage("Float", "0", 24))))
        if op.name == "GLOBAL"
    ]
    assert names[:2] == ["torch._utils _rebuild_tensor_v2", "torch FloatStorage"]
    with zipfile.ZipFile(io.BytesIO(zip_checkpoint({}, {"0": b"12"}))) as archive:
        assert archive.read("archive/data/0") == b"12"
