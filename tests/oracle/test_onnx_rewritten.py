"""Models that ONNX Runtime's quantizer and optimizer rewrote, and recurrent layers with all options, against ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType

from tinygrad.nn.onnx import OnnxRunner

F = np.float32
R = np.random.default_rng(11)


def normal(*shape, scale=1.0):
    return (R.standard_normal(shape) * scale).astype(F)


def built(nodes, inputs, outputs, constants):
    specs = [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, s) for k, s in inputs.items()]
    results = [
        helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, s) for k, s in outputs.items()
    ]
    tensors = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", specs, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions():
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4), n("Relu", ["c0"], ["r0"]),
        n("Conv", ["r0", "w1", "b1"], ["c1"], group=8, pads=[1] * 4), n("Clip", ["c1", "zero", "six"], ["r1"]),
        n("Conv", ["r1", "w2", "b2"], ["c2"]), n("Add", ["c2", "r0"], ["s"]), n("Sigmoid", ["s"], ["g"]),
        n("Mul", ["s", "g"], ["m"]), n("MaxPool", ["m"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        n("AveragePool", ["p"], ["a"], kernel_shape=[2, 2]), n("Concat", ["a", "a"], ["cat"], axis=1),
        n("GlobalAveragePool", ["cat"], ["h"]), n("Flatten", ["h"], ["f"]), n("Gemm", ["f", "w3", "b3"], ["y0"], transB=1),
        n("Softmax", ["y0"], ["y"], axis=-1),
    ]  # fmt: skip
    constants = {
        "w0": normal(8, 3, 3, 3, scale=0.3), "b0": normal(8), "w1": normal(8, 1, 3, 3), "b1": normal(8),
        "w2": normal(8, 8, 1, 1, scale=0.3), "b2": normal(8), "w3": normal(5, 16), "b3": normal(5),
        "zero": np.array(0, F), "six": np.array(6, F),
    }  # fmt: skip
    return built(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 5]}, constants), lambda: {
        "x": normal(1, 3, 8, 8)
    }


def transformer():
    """A layer of BERT as PyTorch exports it: what the optimizer fuses to Attention, SkipLayerNormalization and BiasGelu."""
    n = helper.make_node
    nodes, constants = [], {}

    def linear(x, name, width_in, width_out):
        constants[f"{name}.w"], constants[f"{name}.b"] = (
            normal(width_in, width_out, scale=0.2),
            normal(width_out),
        )
        nodes.extend(
            [
                n("MatMul", [x, f"{name}.w"], [f"{name}.m"]),
                n("Add", [f"{name}.m", f"{name}.b"], [name]),
            ]
        )
        return name

    constants.update(
        shape=np.array([0, 0, 2, 8], np.int64),
        flat=np.array([0, 0, 16], np.int64),
        root=np.array(8**0.5, F),
    )
    for part in "qkv":
        linear("x", part, 16, 16)
        nodes.append(n("Reshape", [part, "shape"], [f"{part}.r"]))
        nodes.append(
            n(
                "Transpose",
                [f"{part}.r"],
                [f"{part}.t"],
                perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3],
            )
        )
    nodes += [
        n("MatMul", ["q.t", "k.t"], ["s"]), n("Div", ["s", "root"], ["d"]), n("Softmax", ["d"], ["p"], axis=-1),
        n("MatMul", ["p", "v.t"], ["o"]), n("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]), n("Reshape", ["ot", "flat"], ["of"]),
    ]  # fmt: skip
    linear("of", "out", 16, 16)
    constants["gamma"], constants["beta"] = normal(16), normal(16)
    nodes += [
        n("Add", ["out", "x"], ["res"]),
        n("LayerNormalization", ["res", "gamma", "beta"], ["norm"], axis=-1),
    ]
    linear("norm", "up", 16, 32)
    constants.update(two=np.array(2**0.5, F), one=np.array(1, F), half=np.array(0.5, F))
    nodes += [
        n("Div", ["up", "two"], ["e0"]), n("Erf", ["e0"], ["e1"]), n("Add", ["e1", "one"], ["e2"]),
        n("Mul", ["up", "e2"], ["e3"]), n("Mul", ["e3", "half"], ["gelu"]),
    ]  # fmt: skip
    linear("gelu", "down", 32, 16)
    nodes.append(n("Add", ["down", "norm"], ["y"]))
    return built(nodes, {"x": [2, 6, 16]}, {"y": [2, 6, 16]}, constants), lambda: {
        "x": normal(2, 6, 16)
    }


MODELS = {"convolutions": convolutions, "transformer": transformer}


class Samples(quantization.CalibrationDataReader):
    def __init__(self, draw):
        self.left = [draw() for _ in range(8)]

    def get_next(self):
        return self.left.pop() if self.left else None


def both(path, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(
        None, inputs
    )
    got = [v.numpy() for v in OnnxRunner(path)(inputs).values()]
    return got, want


def operators(path):
    return {(n.domain, n.op_type) for n in onnx.load(path).graph.node}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("form", [QuantFormat.QOperator, QuantFormat.QDQ])
@pytest.mark.parametrize("kind", [QuantType.QUInt8, QuantType.QInt8])
def test_quantized_by_samples(name, channels, form, kind, tmp_path):
    model, draw = MODELS[name]()
    onnx.save(model, tmp_path / "plain.onnx")
    path = tmp_path / "quantized.onnx"
    quantization.quantize_static(
        tmp_path / "plain.onnx", path, Samples(draw), quant_format=form, per_channel=channels,
        activation_type=kind, weight_type=QuantType.QInt8,
    )  # fmt: skip
    for _ in range(2):
        for got, want in zip(*both(path, draw())):
            # one step of a result may differ where a tie is broken
            np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02 * max(1, abs(want).max()))


@pytest.mark.parametrize("name", MODELS)
def test_quantized_on_the_way(name, tmp_path):
    model, draw = MODELS[name]()
    onnx.save(model, tmp_path / "plain.onnx")
    path = tmp_path / "quantized.onnx"
    kinds = ["MatMul", "Gemm", "Attention"]
    quantization.quantize_dynamic(
        tmp_path / "plain.onnx", path, op_types_to_quantize=kinds, weight_type=QuantType.QUInt8
    )
    for got, want in zip(*both(path, draw())):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * max(1, abs(want).max()))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("level", ["ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED"])
@pytest.mark.parametrize("quantized", [False, True])
def test_optimized(name, level, quantized, tmp_path):
    model, draw = MODELS[name]()
    plain, path = tmp_path / "plain.onnx", tmp_path / "optimized.onnx"
    onnx.save(model, plain)
    if quantized:
        quantization.quantize_dynamic(
            plain, tmp_path / "q.onnx", op_types_to_quantize=["MatMul", "Gemm"]
        )
        plain = tmp_path / "q.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path)
    session = onnxruntime.InferenceSession(str(plain), options, providers=["CPUExecutionProvider"])
    inputs = draw()
    got = [v.numpy() for v in OnnxRunner(path)(inputs).values()]
    for found, want in zip(got, session.run(None, inputs)):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3 * max(1, abs(want).max()))


LAYERS = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("options", ["plain", "all"])
def test_recurrent_layers(layer, direction, options, tmp_path):
    ways, gates, size, width, length, batch = (
        (2 if direction == "bidirectional" else 1),
        LAYERS[layer],
        5,
        3,
        6,
        2,
    )
    constants = {
        "w": normal(ways, gates * size, width), "r": normal(ways, gates * size, size, scale=0.5),
        "b": normal(ways, 2 * gates * size),
    }  # fmt: skip
    names, more = ["x", "w", "r", "b"], {"hidden_size": size, "direction": direction}
    outputs = {"y": [length, ways, batch, size], "h": [ways, batch, size]}
    if options == "all":
        constants.update(
            lengths=np.array([4, 6], np.int32),
            h0=normal(ways, batch, size),
            c0=normal(ways, batch, size),
            p=normal(ways, 3 * size),
        )
        names += ["lengths", "h0"] + (["c0", "p"] if layer == "LSTM" else [])
        more["clip"] = 1.5
        if layer == "GRU":
            more["linear_before_reset"] = 1
        if layer == "LSTM":
            more["activations"] = ["HardSigmoid", "Tanh", "Softsign"] * ways
            more["activation_alpha"], more["activation_beta"] = [0.3] * ways, [0.4] * ways
        elif layer == "RNN":
            more["activations"] = ["Relu"] * ways
    constants = {k: v for k, v in constants.items() if k in names}
    if layer == "LSTM":
        outputs["c"] = [ways, batch, size]
    node = helper.make_node(layer, names, list(outputs), **more)
    path = tmp_path / "layer.onnx"
    onnx.save(built([node], {"x": [length, batch, width]}, outputs, constants), path)
    for got, want in zip(*both(path, {"x": normal(length, batch, width)})):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
