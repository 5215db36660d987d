"""Operators of ONNX Runtime (com.microsoft) against it: one node a model, random inputs."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tinygrad.nn.onnx import OnnxRunner

F, U8, I8, I32, I64 = np.float32, np.uint8, np.int8, np.int32, np.int64


class Case:
    """A node with its inputs (None where left out); `packed` names inputs that are four-bit numbers."""

    def __init__(
        self,
        op,
        *inputs,
        outputs=1,
        tolerance=1e-4,
        constants=(),
        packed=None,
        steps=0,
        **attributes,
    ):
        self.op, self.inputs, self.outputs = op, inputs, outputs
        self.tolerance, self.constants, self.packed = tolerance, constants, packed or {}
        self.steps, self.attributes = steps, attributes
        self.ragged = attributes.pop("ragged", None)

    def model(self):
        given = {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None}
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        wanted = self.outputs if isinstance(self.outputs, (list, tuple)) else range(self.outputs)
        outputs = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
        node = helper.make_node(self.op, names, outputs, domain="com.microsoft", **self.attributes)
        fixed = [f"x{i}" for i in self.constants]
        initializers = [self._tensor(name, given[name]) for name in fixed]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in given.items() if name not in fixed
        ]  # fmt: skip
        results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
        graph = helper.make_graph([node], "g", inputs, results, initializers)
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        return model.SerializeToString(), {k: v for k, v in given.items() if k not in fixed}

    def _tensor(self, name, x):
        if name in self.packed:
            return helper.make_tensor(name, self.packed[name], x.shape, x.reshape(-1).tolist())
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        return helper.make_tensor(name, kind, x.shape, np.ascontiguousarray(x).tobytes(), raw=True)


R = np.random.default_rng(7)


def normal(*shape, scale=1.0):
    return (R.standard_normal(shape) * scale).astype(F)


def whole(low, high, *shape, dtype=I32):
    return R.integers(low, high, shape).astype(dtype)


def scalar(x, dtype=F):
    return np.array(x, dtype=dtype)


def attention_cases():
    x, w, b = normal(2, 5, 16), normal(16, 48, scale=0.3), normal(48)
    yield "plain", Case("Attention", x, w, b, num_heads=4)
    yield "causal", Case("Attention", x, w, b, num_heads=4, unidirectional=1)
    yield "lengths", Case("Attention", x, w, b, np.array([3, 5], I32), num_heads=4)
    yield "ends-starts", Case("Attention", x, w, b, np.array([5, 5, 2, 0], I32), num_heads=4)
    yield (
        "mask-2d",
        Case("Attention", x, w, b, np.array([[1, 1, 0, 0, 0], [1] * 5], I32), num_heads=4),
    )
    yield (
        "mask-3d",
        Case("Attention", x, w, b, whole(0, 2, 2, 5, 5) | np.eye(5, dtype=I32), num_heads=4),
    )
    yield "scale", Case("Attention", x, w, b, num_heads=2, scale=0.3)
    yield "bias", Case("Attention", x, w, b, None, None, normal(1, 4, 5, 5), num_heads=4)
    yield (
        "past",
        Case(
            "Attention",
            x,
            w,
            b,
            None,
            normal(2, 2, 4, 3, 4),
            num_heads=4,
            outputs=2,
            unidirectional=1,
        ),
    )
    yield (
        "sizes",
        Case("Attention", x, normal(16, 40), normal(40), num_heads=4, qkv_hidden_sizes=[16, 16, 8]),
    )


def multi_head_cases():
    q, k, v = normal(2, 3, 16), normal(2, 5, 16), normal(2, 5, 16)
    yield "plain", Case("MultiHeadAttention", q, k, v, num_heads=4)
    yield "bias", Case("MultiHeadAttention", q, k, v, normal(48), num_heads=4)
    yield (
        "mask",
        Case(
            "MultiHeadAttention",
            q,
            k,
            v,
            None,
            np.array([[1] * 5, [1, 1, 1, 0, 0]], I32),
            num_heads=4,
        ),
    )
    yield "lengths", Case("MultiHeadAttention", q, k, v, None, np.array([5, 2], I32), num_heads=4)
    yield (
        "mask-3d",
        Case(
            "MultiHeadAttention",
            q,
            k,
            v,
            None,
            whole(0, 2, 2, 3, 5) | np.eye(3, 5, dtype=I32),
            num_heads=4,
        ),
    )
    yield (
        "added",
        Case("MultiHeadAttention", q, k, v, None, None, normal(2, 4, 3, 5), num_heads=4, scale=0.2),
    )
    yield "values", Case("MultiHeadAttention", q, k, normal(2, 5, 24), num_heads=4)
    yield "causal", Case("MultiHeadAttention", q, q, q, num_heads=4, unidirectional=1)
    past = normal(2, 4, 2, 4)
    yield (
        "past",
        Case("MultiHeadAttention", q, q, q, None, None, None, past, past, num_heads=4, outputs=3),
    )
    cross = normal(2, 4, 6, 4)
    yield "cross", Case("MultiHeadAttention", q, cross, cross, num_heads=4)


def group_query_cases():
    heads, few, size = 4, 2, 16
    cos, sin = normal(16, 8), normal(16, 8)

    def case(batch, new, past, totals, total, room=0, packed=False, rotary=True, **more):
        kv = few * size
        if packed:
            qkv = (normal(batch, new, (heads + 2 * few) * size), None, None)
        else:
            qkv = (normal(batch, new, heads * size), normal(batch, new, kv), normal(batch, new, kv))
        cache = (
            normal(batch, few, max(past, room), size)
            if past or room
            else np.zeros((batch, few, 0, size), F)
        )
        extra = (cos, sin) if rotary else (None, None)
        inputs = [*qkv, cache, cache * 2, np.array(totals, I32) - 1, np.array(total, I32), *extra]
        inputs += [more.pop("position_ids", None), more.pop("bias", None), more.pop("sink", None)]
        if more.pop("norms", False):
            inputs += [None, None, normal(size), normal(size)]
        while inputs[-1] is None:
            inputs.pop()
        return Case("GroupQueryAttention", *inputs, num_heads=heads, kv_num_heads=few, do_rotary=int(rotary),
                    outputs=3, constants=(6,), **more)  # fmt: skip

    yield "ragged", case(2, 5, 0, [5, 3], 5, ragged=[5, 3])
    yield "ragged-tokens", case(2, 1, 4, [5, 3], 5, room=5, ragged=[5, 3])
    yield "room", case(1, 1, 4, [5], 5, room=8, ragged=[5])
    yield "qk-norm", case(1, 5, 0, [5], 5, norms=True)
    yield "prompt", case(1, 5, 0, [5], 5)
    yield "packed", case(1, 5, 0, [5], 5, packed=True)
    yield "token", case(1, 1, 4, [5], 5)
    yield "no-rotary", case(2, 5, 0, [5, 5], 5, rotary=False)
    yield "interleaved", case(1, 5, 0, [5], 5, rotary_interleaved=1)
    yield "window", case(1, 6, 0, [6], 6, local_window_size=3)
    yield "window-token", case(1, 1, 6, [7], 7, local_window_size=3)
    yield "softcap", case(1, 5, 0, [5], 5, softcap=2.0)
    yield "smooth", case(1, 5, 0, [5], 5, smooth_softmax=1)
    yield "scale", case(1, 5, 0, [5], 5, scale=0.5)
    yield "sink", case(1, 5, 0, [5], 5, sink=normal(4))
    yield "more-tokens", case(1, 3, 4, [7], 7)
    yield "bias", case(1, 5, 0, [5], 5, bias=normal(1, 4, 5, 5), rotary=False)


def other_cases():
    x = normal(2, 3, 8)
    yield "Gelu", Case("Gelu", x)
    yield "FastGelu", Case("FastGelu", x, normal(8))
    yield "BiasGelu", Case("BiasGelu", x, normal(8))
    yield "QuickGelu", Case("QuickGelu", x, alpha=1.7)
    yield (
        "SkipLayerNormalization",
        Case(
            "SkipLayerNormalization",
            x,
            normal(2, 3, 8),
            normal(8),
            normal(8),
            normal(8),
            outputs=[0, 3],
        ),
    )
    yield (
        "SkipSimplified",
        Case(
            "SkipSimplifiedLayerNormalization",
            x,
            normal(2, 3, 8),
            normal(8),
            normal(8),
            outputs=[0, 3],
        ),
    )
    yield "skip-broadcast", Case("SkipLayerNormalization", x, normal(1, 3, 8), normal(8), normal(8))
    ids = whole(0, 9, 2, 4)
    yield "EmbedLayerNormalization", Case(
        "EmbedLayerNormalization", ids, whole(0, 2, 2, 4), normal(9, 8), normal(6, 8), normal(2, 8), normal(8), normal(8),
        np.array([[1, 1, 0, 0], [1] * 4], I32), outputs=2,
    )  # fmt: skip
    for name, more in {
        "": {},
        "trans": {"transA": 1, "transB": 1},
        "alpha": {"alpha": 0.3},
    }.items():
        yield f"FusedMatMul-{name}", Case("FusedMatMul", normal(2, 4, 4), normal(2, 4, 4), **more)
    yield "FusedMatMul-batch", Case("FusedMatMul", normal(4, 2, 3), normal(2, 3, 5), transBatchA=1)
    yield (
        "FusedGemm",
        Case(
            "FusedGemm",
            normal(3, 4),
            normal(4, 5),
            normal(5),
            activation="LeakyRelu",
            activation_alpha=0.2,
        ),
    )
    for activation in ("Relu", "Sigmoid", "Tanh"):
        yield (
            f"FusedConv-{activation}",
            Case(
                "FusedConv",
                normal(1, 3, 6, 6),
                normal(4, 3, 3, 3),
                normal(4),
                pads=[1] * 4,
                activation=activation,
            ),
        )
    yield (
        "FusedConv-sum",
        Case(
            "FusedConv",
            normal(1, 3, 6, 6),
            normal(4, 3, 3, 3),
            normal(4),
            normal(1, 4, 4, 4),
            activation="Relu",
        ),
    )
    yield (
        "rotary",
        Case(
            "RotaryEmbedding",
            normal(2, 4, 16),
            whole(0, 9, 2, 4, dtype=I64),
            normal(9, 4),
            normal(9, 4),
        ),
    )
    yield (
        "rotary-start",
        Case(
            "RotaryEmbedding",
            normal(2, 4, 16),
            np.array([3], I64),
            normal(9, 4),
            normal(9, 4),
            interleaved=1,
        ),
    )
    yield (
        "rotary-heads",
        Case(
            "RotaryEmbedding",
            normal(2, 2, 4, 8),
            whole(0, 9, 2, 4, dtype=I64),
            normal(9, 4),
            normal(9, 4),
        ),
    )
    yield (
        "rotary-part",
        Case(
            "RotaryEmbedding",
            normal(1, 3, 32),
            whole(0, 9, 1, 3, dtype=I64),
            normal(9, 4),
            normal(9, 4),
            num_heads=2,
            rotary_embedding_dim=8,
        ),
    )
    yield "Trilu", Case("Trilu", normal(3, 4), upper=0)
    yield "ExpandDims", Case("ExpandDims", normal(3, 4), scalar(1, I32), constants=(1,))
    yield "Range", Case("Range", scalar(1.0), scalar(5.0), scalar(1.5), constants=(0, 1, 2))
    yield "Pad", Case("Pad", normal(2, 3), np.array([1, 0, 0, 2], I64), scalar(1.5), constants=(1,))
    yield "Unique", Case("Unique", np.array([2, 1, 1, 3, 4, 3], F), outputs=3)
    yield "GatherND", Case("GatherND", normal(3, 4), np.array([[0, 1], [2, 3]], I64))
    yield "Inverse", Case("Inverse", normal(2, 4, 4), tolerance=1e-3)
    yield "Inverse-pivot", Case("Inverse", np.array([[0, 2, 0], [1, 0, 0], [0, 0, 4]], F))
    yield "CDist", Case("CDist", normal(3, 4), normal(5, 4), metric="euclidean")
    yield "IsAllFinite", Case("IsAllFinite", normal(3), np.array([1, np.inf], F))
    yield (
        "NGramRepeatBlock",
        Case(
            "NGramRepeatBlock",
            np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]], I64),
            normal(2, 6),
            ngram_size=3,
        ),
    )
    yield (
        "CropAndResize",
        Case(
            "CropAndResize",
            normal(2, 3, 6, 7),
            np.array([[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.9]], F),
            np.array([1, 0], I32),
            np.array([3, 4], I32),
            constants=(3,),
        ),
    )
    yield "UnfoldTensor", Case("UnfoldTensor", normal(2, 8), dim=1, size=3, step=2)
    yield (
        "ConvTransposeWithDynamicPads",
        Case(
            "ConvTransposeWithDynamicPads",
            normal(1, 2, 4, 4),
            normal(2, 3, 3, 3),
            np.array([1, 1, 1, 1], I64),
            constants=(2,),
            strides=[2, 2],
        ),
    )
    yield "GridSample", Case("GridSample", normal(1, 2, 4, 4), np.clip(normal(1, 3, 3, 2), -1, 1))
    yield (
        "MatMulInteger16",
        Case(
            "MatMulInteger16",
            whole(-99, 99, 2, 3, dtype=np.int16),
            whole(-99, 99, 3, 2, dtype=np.int16),
        ),
    )


def quantized_cases():
    a, b = whole(0, 256, 3, 8, dtype=U8), whole(0, 256, 3, 8, dtype=U8)
    s, t, r = scalar(0.05), scalar(0.07), scalar(0.09)
    z, y, n = scalar(120, U8), scalar(130, U8), scalar(110, U8)
    for op in ("QLinearAdd", "QLinearMul"):
        yield op, Case(op, a, s, z, b, t, y, r, n, steps=1)
        yield (
            f"{op}-signed",
            Case(
                op,
                a.view(I8),
                s,
                scalar(3, I8),
                b.view(I8)[:1],
                t,
                scalar(-5, I8),
                r,
                scalar(0, I8),
                steps=1,
            ),
        )
    yield (
        "QLinearSigmoid",
        Case(
            "QLinearSigmoid",
            a,
            s,
            z,
            scalar(1 / 256),
            scalar(0, U8),
            constants=(1, 2, 3, 4),
            steps=1,
        ),
    )
    yield (
        "QLinearLeakyRelu",
        Case("QLinearLeakyRelu", a, s, z, t, y, constants=(1, 2, 3, 4), alpha=0.1, steps=1),
    )
    yield (
        "QLinearSoftmax",
        Case(
            "QLinearSoftmax",
            a,
            s,
            z,
            scalar(1 / 256),
            scalar(0, U8),
            constants=(1, 2, 3, 4),
            steps=1,
            opset=13,
            axis=-1,
        ),
    )
    yield (
        "QLinearWhere",
        Case("QLinearWhere", whole(0, 2, 3, 8, dtype=bool), a, s, z, b, t, y, r, n, steps=1),
    )
    image = whole(0, 256, 1, 4, 6, 6, dtype=U8)
    yield "QLinearGlobalAveragePool", Case("QLinearGlobalAveragePool", image, s, z, t, y, steps=1)
    yield (
        "QLinearAveragePool",
        Case("QLinearAveragePool", image, s, z, t, y, kernel_shape=[2, 2], strides=[2, 2], steps=1),
    )
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    yield (
        "QLinearAveragePool-last",
        Case("QLinearAveragePool", last, s, z, t, y, kernel_shape=[2, 2], channels_last=1, steps=1),
    )
    yield (
        "QLinearGlobalAveragePool-last",
        Case("QLinearGlobalAveragePool", last, s, z, t, y, channels_last=1, steps=1),
    )
    yield "NhwcMaxPool", Case("NhwcMaxPool", last, kernel_shape=[2, 2], strides=[2, 2])
    weights = whole(-99, 99, 5, 4, 3, 3, dtype=I8)
    for name, x, more in (("", image, {}), ("-last", last, {"channels_last": 1})):
        yield (
            f"QLinearConv{name}",
            Case(
                "QLinearConv",
                x,
                s,
                z,
                weights,
                scalar(0.02),
                scalar(0, I8),
                scalar(2.0),
                y,
                whole(-99, 99, 5),
                pads=[1] * 4,
                steps=1,
                **more,
            ),
        )
    yield "QLinearConcat", Case("QLinearConcat", r, n, a, s, z, b, t, y, axis=1, steps=1)
    yield (
        "QGemm",
        Case(
            "QGemm",
            a,
            s,
            z,
            whole(-99, 99, 8, 4, dtype=I8),
            t,
            scalar(0, I8),
            whole(-99, 99, 4),
            scalar(1.0),
            n,
            steps=1,
        ),
    )
    yield (
        "QGemm-real",
        Case(
            "QGemm", a, s, z, whole(-99, 99, 4, 8, dtype=I8), t, scalar(0, I8), transB=1, alpha=0.5
        ),
    )
    w = whole(-99, 99, 8, 4, dtype=I8)
    yield (
        "MatMulIntegerToFloat",
        Case("MatMulIntegerToFloat", a, w, s, t, z, scalar(2, I8), normal(4)),
    )
    yield (
        "MatMulIntegerToFloat-columns",
        Case("MatMulIntegerToFloat", a, w, s, np.abs(normal(4)), z, whole(-5, 5, 4, dtype=I8)),
    )
    yield (
        "DynamicQuantizeMatMul",
        Case("DynamicQuantizeMatMul", normal(3, 8), w, t, scalar(2, I8), normal(4), tolerance=1e-3),
    )
    x, qkv = whole(0, 256, 2, 5, 16, dtype=U8), whole(-99, 99, 16, 48, dtype=I8)
    common = (normal(48), scalar(0.01), scalar(0.01))
    yield (
        "QAttention",
        Case(
            "QAttention",
            x,
            qkv,
            *common,
            None,
            scalar(120, U8),
            scalar(1, I8),
            num_heads=4,
            constants=(1, 4, 7),
        ),
    )
    yield (
        "QAttention-mask",
        Case(
            "QAttention",
            x,
            qkv,
            *common,
            np.array([3, 5], I32),
            scalar(120, U8),
            scalar(1, I8),
            num_heads=4,
            unidirectional=1,
            constants=(1, 4, 7),
        ),
    )
    tables = [whole(0, 256, n, 8, dtype=U8) for n in (9, 6, 2)]
    yield "QEmbedLayerNormalization", Case(
        "QEmbedLayerNormalization", whole(0, 9, 2, 4), whole(0, 2, 2, 4), *tables, whole(0, 256, 8, dtype=U8), whole(0, 256, 8, dtype=U8),
        np.array([[1, 1, 0, 0], [1] * 4], I32), s, t, r, s, t, z, y, n, z, y, outputs=2, constants=(2, 3, 4, 5, 6, *range(8, 18)),
    )  # fmt: skip


def block_cases():
    for bits, size, k, n in ((4, 16, 32, 6), (4, 32, 40, 5), (8, 16, 32, 4), (2, 16, 32, 4)):
        blocks = -(-k // size)
        b = whole(0, 256, n, blocks, size * bits // 8, dtype=U8)
        scales = np.abs(normal(n, blocks)) * 0.1
        more = {"K": k, "N": n, "bits": bits, "block_size": size}
        yield (
            f"MatMulNBits-{bits}-{k}",
            Case("MatMulNBits", normal(2, 3, k), b, scales, constants=(1, 2), **more),
        )
        zero = whole(0, 256, n, -(-blocks * bits // 8), dtype=U8)
        yield (
            f"MatMulNBits-{bits}-{k}-zero",
            Case("MatMulNBits", normal(3, k), b, scales, zero, constants=(1, 2, 3), **more),
        )
    yield (
        "MatMulNBits-bias",
        Case(
            "MatMulNBits",
            normal(3, 32),
            whole(0, 256, 4, 2, 8, dtype=U8),
            normal(4, 2),
            None,
            None,
            normal(4),
            constants=(1, 2),
            K=32,
            N=4,
            bits=4,
            block_size=16,
        ),
    )
    for kind in (0, 1):
        yield (
            f"MatMulBnb4-{kind}",
            Case(
                "MatMulBnb4",
                normal(3, 32),
                whole(0, 256, 32 * 6 // 2, dtype=U8),
                np.abs(normal(12)),
                constants=(1, 2),
                K=32,
                N=6,
                block_size=16,
                quant_type=kind,
            ),
        )
    for name, kind, low, high in (
        ("uint4", TensorProto.UINT4, 0, 16),
        ("int4", TensorProto.INT4, -8, 8),
    ):
        data, zero = whole(low, high, 5, 32), whole(low, high, 5, 2)
        yield (
            f"GatherBlockQuantized-{name}",
            Case(
                "GatherBlockQuantized",
                data,
                np.array([[1, 4]], I64),
                normal(5, 2),
                zero,
                constants=(0, 2, 3),
                packed={"x0": kind, "x3": kind},
                block_size=16,
                quantize_axis=1,
            ),
        )
    yield (
        "GatherBlockQuantized-bytes",
        Case(
            "GatherBlockQuantized",
            whole(0, 256, 5, 16, dtype=U8),
            np.array([[1, 4]], I64),
            normal(5, 2),
            whole(0, 256, 5, 1, dtype=U8),
            constants=(0, 2, 3),
            block_size=16,
            quantize_axis=1,
            bits=4,
        ),
    )
    yield (
        "GatherBlockQuantized-no-zero",
        Case(
            "GatherBlockQuantized",
            whole(0, 256, 5, 16, dtype=U8),
            np.array([3], I64),
            normal(5, 2),
            constants=(0, 2),
            block_size=16,
            quantize_axis=1,
            bits=4,
        ),
    )
    gates = whole(-99, 99, 1, 3, 16, dtype=I8)
    yield "DynamicQuantizeLSTM", Case(
        "DynamicQuantizeLSTM", normal(4, 2, 3), gates, whole(-99, 99, 1, 4, 16, dtype=I8), normal(1, 32), None, None, None, None,
        np.array([0.01], F), np.array([0], I8), np.array([0.01], F), np.array([0], I8), hidden_size=4, outputs=3, constants=(1, 2, 8, 9, 10, 11), tolerance=3e-2,
    )  # fmt: skip


def expert_cases():
    x, router = normal(6, 8), normal(6, 4)
    for activation in ("relu", "gelu", "silu", "identity"):
        yield (
            activation,
            Case(
                "MoE",
                x,
                router,
                normal(4, 16, 8),
                normal(4, 16),
                normal(4, 8, 16),
                normal(4, 8),
                k=2,
                activation_type=activation,
            ),
        )
    yield (
        "normalized",
        Case(
            "MoE",
            x,
            router,
            normal(4, 16, 8),
            normal(4, 16),
            normal(4, 8, 16),
            normal(4, 8),
            k=2,
            activation_type="relu",
            normalize_routing_weights=1,
        ),
    )
    yield (
        "swiglu",
        Case(
            "MoE",
            x,
            router,
            normal(4, 32, 8),
            normal(4, 32),
            normal(4, 8, 16),
            normal(4, 8),
            k=2,
            activation_type="swiglu",
            swiglu_fusion=1,
            activation_alpha=1.7,
            activation_beta=1.0,
            swiglu_limit=7.0,
        ),
    )
    packed = [whole(0, 256, 4, 16, 16, dtype=U8), whole(0, 256, 4, 32, 8, dtype=U8)]
    scales = [np.abs(normal(4, 16)) * 0.1, np.abs(normal(4, 32)) * 0.1]
    yield (
        "quantized",
        Case(
            "QMoE",
            normal(6, 32),
            router,
            packed[0],
            scales[0],
            normal(4, 16),
            packed[1],
            scales[1],
            normal(4, 32),
            k=2,
            activation_type="relu",
            constants=(2, 3, 5, 6),
        ),
    )


CASES = {
    f"{group}-{name}": case
    for group, cases in {
        "Attention": attention_cases, "MultiHead": multi_head_cases, "GroupQuery": group_query_cases,
        "Other": other_cases, "Quantized": quantized_cases, "Blocks": block_cases, "Experts": expert_cases,
    }.items()
    for name, case in cases()
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    case = CASES[name]
    model, inputs = case.model()
    try:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        want = session.run(None, inputs)
    except Exception as error:
        pytest.skip(f"this ONNX Runtime does not have it: {str(error)[:200]}")
    got = OnnxRunner(model)(inputs)
    for value, reference in zip(got.values(), want):
        found = value.numpy()
        for line, length in enumerate(case.ragged or ()):
            # what belongs to padding is unspecified
            rows = found.ndim == 3
            if rows and found.shape[1] == 1:
                continue
            place = (
                (line, slice(length, None)) if rows else (line, slice(None), slice(length, None))
            )
            found[place] = reference[place] = 0
        assert found.dtype == reference.dtype and found.shape == reference.shape
        if case.steps:
            # quantized results may fall on the other side of a tie
            assert abs(found.astype(np.int32) - reference.astype(np.int32)).max() <= case.steps
        else:
            np.testing.assert_allclose(found, reference, rtol=case.tolerance, atol=case.tolerance)
