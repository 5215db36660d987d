"""Loading and running ONNX models: errors, external data, control flow, functions, versions, the JIT."""

import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, dtypes
from tinygrad.helpers import GlobalCounters
from tinygrad.nn.onnx import (
    OnnxDataType,
    OnnxPBParser,
    OnnxRunner,
    PBBufferedReader,
    WireType,
    get_onnx_ops,
    to_python_const,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from onnx_bytes import (  # noqa: E402
    attribute,
    field,
    floats,
    function,
    graph,
    ints,
    model,
    node,
    tensor,
    value,
    varint,
)


def run(data: bytes, **inputs):
    results = list(OnnxRunner(Tensor(data))(inputs).values())
    return results[0].tolist() if len(results) == 1 else [r.tolist() for r in results]


ADD = model([node("Add", ["x", "y"], ["z"])], [value("x", ["n"]), value("y", ["n"])], ["z"])


# *** loading ***
def test_unknown_operators_are_named_together():
    inner = graph([node("Inner", [], ["i"])], [], ["i"])
    nodes = [
        node("First", ["x"], ["a"]),
        node("If", ["c"], ["b"], then_branch=inner, else_branch=inner),
        node("Third", ["a"], ["z"], domain="com.microsoft"),
        node("Relu", ["z"], ["r"]),
    ]
    with pytest.raises(NotImplementedError, match=r"\['First', 'Inner', 'com.microsoft.Third'\]"):
        OnnxRunner(Tensor(model(nodes, [value("x", [1])], ["z"], domains=("com.microsoft",))))


@pytest.mark.parametrize("data", [b"", b"<html>", ADD[:-9], b"\x08\x08"])
def test_what_is_no_model(data):
    with pytest.raises((ValueError, EOFError)):
        OnnxRunner(Tensor(data))


def test_a_tensor_of_the_wrong_size():
    wrong = tensor("w", [3], 1, bytes(8))
    with pytest.raises(ValueError, match="'w' of shape .* needs 12 bytes, got 8"):
        OnnxRunner(Tensor(model([node("Relu", ["w"], ["z"])], [], ["z"], [wrong])))


def test_bytes_paths_and_tensors(tmp_path):
    path = tmp_path / "add.onnx"
    path.write_bytes(ADD)
    for source in (path, str(path), ADD, Tensor(ADD), Tensor(path)):
        assert OnnxRunner(source)({"x": [1.0, 2.0], "y": [3.0, 4.0]})["z"].tolist() == [4.0, 6.0]


def test_descriptions_of_inputs():
    runner = OnnxRunner(ADD)
    assert list(runner.graph_inputs) == ["x", "y"] and runner.graph_outputs == ("z",)
    assert (
        runner.graph_inputs["x"].shape == ("n",)
        and runner.graph_inputs["x"].dtype is dtypes.float32
    )
    assert {k: v.shape for k, v in runner.get_empty_input_data().items()} == {"x": (1,), "y": (1,)}
    assert OnnxPBParser(Tensor(ADD)).parse()["ir_version"] == 8


# *** inputs ***
def test_inputs_that_do_not_fit():
    runner = OnnxRunner(ADD)
    x = Tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="input 'y' is missing"):
        runner({"x": x})
    with pytest.raises(ValueError, match="3 elements along axis 0, expected 2"):
        runner({"x": x, "y": Tensor([1.0, 2.0, 3.0])})
    with pytest.raises(ValueError, match="shape"):
        runner({"x": x, "y": Tensor([[1.0, 2.0]])})
    with pytest.raises(TypeError, match="cast it"):
        runner({"x": x, "y": Tensor([1, 2])})
    assert runner({"x": x, "y": np.array([1, 2])})["z"].tolist() == [2.0, 4.0]


# *** external data ***
def stored_outside(folder: Path, **entries: str) -> Path:
    weight = tensor("w", [2], 1, None, **entries)
    path = folder / "model.onnx"
    path.write_bytes(model([node("Add", ["x", "w"], ["z"])], [value("x", [2])], ["z"], [weight]))
    return path


def test_external_data(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(4) + struct.pack("<2f", 1, 2))
    path = stored_outside(tmp_path, location="weights", offset="4", length="8")
    assert OnnxRunner(path)({"x": [1.0, 1.0]})["z"].tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="give the path of the model"):
        OnnxRunner(path.read_bytes())
    with pytest.raises(ValueError, match="has 12 bytes"):
        OnnxRunner(stored_outside(tmp_path, location="weights", offset="8"))
    with pytest.raises(FileNotFoundError, match="nothing"):
        OnnxRunner(stored_outside(tmp_path, location="nothing"))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "", "a/../../secret", "link"])
def test_external_data_stays_in_the_folder(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(8))
    os.symlink(tmp_path / "secret", folder / "link")
    with pytest.raises(ValueError, match="outside the folder"):
        OnnxRunner(stored_outside(folder, location=location))


# *** running ***
def test_versions_of_an_operator():
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    inputs = [value("x", [2, 2, 2])]
    old, new = (model([node("Softmax", ["x"], ["z"])], inputs, ["z"], opset=v) for v in (11, 13))
    assert np.allclose(np.sum(run(old, x=x), axis=(1, 2)), 1)
    assert np.allclose(np.sum(run(new, x=x), axis=2), 1)


def test_shape_arithmetic_runs_no_kernels():
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["rows"]),
        node("Mul", ["rows", "two"], ["more"]),
        node("Concat", ["more", "rest"], ["new"], axis=0),
        node("Reshape", ["x", "new"], ["z"]),
    ]
    constants = [ints("first", [0]), ints("two", [2]), ints("rest", [-1])]
    runner = OnnxRunner(model(nodes, [value("x", ["n", "m"])], ["z"], constants))
    x = Tensor.arange(12).cast(dtypes.float32).reshape(2, 6).contiguous().realize()
    before = GlobalCounters.kernel_count
    assert runner({"x": x})["z"].shape == (4, 3)
    assert GlobalCounters.kernel_count == before


def test_branches_see_the_values_around():
    def body(op):
        return graph([node(op, ["x", "w"], ["r"])], [], ["r"])

    nodes = [node("If", ["c"], ["z"], then_branch=body("Add"), else_branch=body("Mul"))]
    data = model(nodes, [value("c", [], 9), value("x", [2])], ["z"], [floats("w", [2], [10, 20])])
    assert run(data, c=np.array(True), x=[1.0, 2.0]) == [11.0, 22.0]
    assert run(data, c=np.array(False), x=[1.0, 2.0]) == [10.0, 40.0]


def test_loops_carry_and_stack():
    body = graph(
        [
            node("Add", ["sum", "step"], ["next"]),
            node("Less", ["next", "limit"], ["again"]),
            node("Mul", ["next", "next"], ["row"]),
        ],
        [value("i", [], 7), value("c", [], 9), value("sum", [1])],
        ["again", "next", "row"],
    )
    nodes = [node("Loop", ["count", "", "start"], ["last", "rows"], body=body)]
    constants = [floats("step", [1], [2]), floats("limit", [1], [7]), floats("start", [1], [0])]
    data = model(nodes, [value("count", [], 7)], ["last", "rows"], constants)
    assert run(data, count=np.array(9)) == [[8.0], [[4.0], [16.0], [36.0], [64.0]]]
    assert run(data, count=np.array(2))[0] == [4.0]


def test_functions_of_the_model():
    scaled = function(
        "Scaled", "own", ["a"], ["b"], ["by"],
        [node("LeakyRelu", ["a"], ["c"], alpha=0.5), node("Concat", ["c", "a"], ["b"], axis=("by",))],
    )  # fmt: skip
    calls = [node("Scaled", ["x"], ["y"], domain="own", by=1), node("Neg", ["y"], ["z"])]
    data = model(calls, [value("x", [1, 2])], ["z"], functions=[scaled], domains=("own",))
    assert run(data, x=[[-2.0, 4.0]]) == [[1.0, -4.0, 2.0, -4.0]]


def test_functions_that_call_themselves():
    endless = function("F", "own", ["a"], ["b"], [], [node("F", ["a"], ["b"], domain="own")])
    endless += field(9, field(1, "own") + field(2, 1))
    data = model([node("F", ["x"], ["z"], domain="own")], [value("x", [1])], ["z"],
                 functions=[endless], domains=("own",))  # fmt: skip
    with pytest.raises(ValueError, match="deep"):
        run(data, x=[1.0])


def test_a_captured_model():
    weight = floats("w", [40, 40], np.random.default_rng(0).random(1600))
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("Relu", ["y"], ["z"])]
    runner = OnnxRunner(model(nodes, [value("x", ["n", 40])], ["z"], [weight]))
    captured = TinyJit(lambda x: runner({"x": x})["z"].realize())
    for seed in range(4):
        x = Tensor(np.random.default_rng(seed).random((2, 40)).astype(np.float32)).realize()
        np.testing.assert_array_equal(captured(x).numpy(), runner({"x": x})["z"].numpy())


def test_weights_move():
    weight = floats("w", [100], range(100))
    runner = OnnxRunner(model([node("Neg", ["w"], ["z"])], [], ["z"], [weight])).to("PYTHON")
    assert runner({})["z"].device == "PYTHON"


def test_operators_by_name():
    table = get_onnx_ops()
    assert table["Add"](Tensor([1, 2]), Tensor([3, 4])).tolist() == [4, 6]
    assert {key.version for key in table["Softmax"]} == {1, 13}
    assert OnnxDataType.BFLOAT16.to_dtype() is dtypes.bfloat16


def test_constants():
    assert to_python_const(Tensor([[1, 2]]), "Op", 0) == [[1, 2]]
    assert to_python_const(Tensor(3.5), "Op", 0) == 3.5
    assert to_python_const(Tensor([1, 2], dtype=dtypes.uint8), "Op", 0) == b"\x01\x02"
    assert to_python_const(Tensor.empty(0, dtype=dtypes.int64), "Op", 0) == []
    assert to_python_const("text", "Op", 0) == "text"


# *** the wire format ***
def test_numbers_and_fields():
    reader = PBBufferedReader(
        Tensor(varint(300) + varint(-5) + varint(3) + b"abc" + struct.pack("<f", 1.5))
    )
    assert reader.decode_varint() == 300 and reader.read_int64() == -5
    assert reader.read_string() == "abc" and reader.read_float() == 1.5
    data = varint(4) + varint(1) + varint(-1 & 127) + varint(200)
    assert PBBufferedReader(Tensor(data)).read_packed_int64s() == [1, 127, 200]
    packed = varint(8) + struct.pack("<2f", 1, 2)
    assert PBBufferedReader(Tensor(packed)).read_packed_floats().tolist() == [1.0, 2.0]
    assert PBBufferedReader(Tensor(packed)).read_bytes().shape == (8,)


def test_groups_are_skipped():
    group = varint(1 << 3 | 3) + varint(2 << 3) + varint(7) + varint(1 << 3 | 4)
    reader = PBBufferedReader(Tensor(group + varint(9)))
    assert reader.tag() == (1, WireType.START_GROUP)
    reader.skip_field(WireType.START_GROUP)
    assert reader.decode_varint() == 9


@pytest.mark.parametrize("data", [b"\xff" * 11, b"\xff\xff", varint(5) + b"abc"])
def test_damaged_fields(data):
    with pytest.raises((ValueError, EOFError)):
        PBBufferedReader(Tensor(data)).read_delimited()


def test_attributes_of_all_kinds():
    data = model([node("LeakyRelu", ["x"], ["z"], alpha=0.25)], [value("x", [1])], ["z"])
    assert OnnxRunner(data).graph_nodes[0].opts == {"alpha": 0.25}
    assert attribute("axes", [1, 2]) in node("ReduceSum", [], [], axes=[1, 2])
