"""Operators that the standard's own tests leave out, on models made by hand: narrow types, ONNX Runtime's operators."""

import math
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit
from tinygrad.nn.onnx import OnnxRunner

sys.path.insert(0, str(Path(__file__).parents[1]))
from onnx_bytes import field, floats, graph, ints, model, node, tensor, value  # noqa: E402

MS = "com.microsoft"


def run(op, *inputs, outputs=1, constants=(), **attributes):
    """The outputs of one node of ONNX Runtime for arrays; None where an input is left out."""
    kinds = {"f": 1, "B": 2, "b": 3, "i": 6, "q": 7, "l": 7, "?": 9}
    given = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None}
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    specs = [value(k, v.shape, kinds[v.dtype.char]) for k, v in given.items()]
    data = model([node(op, names, results, domain=MS, **attributes)], specs, results, domains=(MS,))
    found = [None if v is None else v.numpy() for v in OnnxRunner(Tensor(data))(given).values()]
    return found[0] if outputs == 1 else found


# *** narrow types


def typed(name: str, kind: int, raw: bytes, count: int) -> bytes:
    return tensor(name, [count], kind, raw)


def cast_of(kind: int, raw: bytes, count: int) -> list[float]:
    """The values of stored numbers of a type, as float32."""
    nodes = [node("Cast", ["w"], ["y"], to=1)]
    return list(
        OnnxRunner(Tensor(model(nodes, [], ["y"], [typed("w", kind, raw, count)])))({}).values()
    )[0].tolist()


@pytest.mark.parametrize(
    ("kind", "raw", "values"),
    [
        (21, b"\x21\x0f", [1, 2, 15]),
        (22, b"\x8f\x07", [-1, -8, 7]),
        (25, b"\xe4\x01", [0, 1, 2, 3, 1]),
        (26, b"\xe4\x03", [0, 1, -2, -1, -1]),
        (23, b"\x21\xf7\x08", [0.5, 1.0, 6.0, -6.0, -0.0]),
        (24, b"\x7f\x80\x00\xfe", [1.0, 2.0, 2.0**-127, 2.0**127]),
        (17, b"\x38\x7e\x01", [1.0, 448.0, 2.0**-9]),
        (18, b"\x40\x7f\x01\xc0", [1.0, 240.0, 2.0**-10, -1.0]),
        (19, b"\x3c\x7b\x01", [1.0, 57344.0, 2.0**-16]),
        (20, b"\x40\x7f\x01\xff", [1.0, 57344.0, 2.0**-17, -57344.0]),
    ],
)
def test_stored_numbers_of_narrow_types(kind, raw, values):
    assert cast_of(kind, raw, len(values)) == values


@pytest.mark.parametrize(("kind", "code"), [(18, 0x80), (20, 0x80), (24, 0xFF)])
def test_the_code_of_nan(kind, code):
    assert math.isnan(cast_of(kind, bytes([code]), 1)[0])


def rounded(kind: int, values: list[float], **attributes) -> list[float]:
    """Values cast to a type and back."""
    nodes = [
        node("Cast", ["x"], ["n"], to=kind, **attributes),
        node("Identity", ["n"], ["m"]),
        node("Cast", ["m"], ["y"], to=1),
    ]
    data = model(nodes, [value("x", [len(values)])], ["y"], opset=24)
    return OnnxRunner(Tensor(data))({"x": Tensor(values)})["y"].tolist()


@pytest.mark.parametrize("kind", [18, 20, 23])
def test_every_value_of_a_type_is_kept_and_all_others_go_to_the_nearest(kind):
    width = 4 if kind == 23 else 8
    codes = [c for c in range(1 << width) if (kind == 23 or c != 0x80)]
    packed = (
        bytes(codes) if width == 8 else bytes(codes[i] | codes[i + 1] << 4 for i in range(0, 16, 2))
    )
    values = np.array(sorted(set(cast_of(kind, packed, len(codes)))))
    assert rounded(kind, values.tolist()) == values.tolist()
    between = np.random.default_rng(3).uniform(values[0], values[-1], 500).astype(np.float32)
    got = np.array(rounded(kind, between.tolist()))
    nearest = np.abs(values[None, :] - between[:, None].astype(np.float64)).min(1)
    np.testing.assert_array_equal(np.abs(got - between.astype(np.float64)), nearest)


def test_what_is_too_large_and_ties():
    inf, nan = math.inf, math.nan
    assert rounded(18, [1e9, -inf, 0.0, -1e-9]) == [240.0, -240.0, 0.0, 0.0]
    assert all(map(math.isnan, rounded(18, [1e9, -inf, nan], saturate=0)))
    assert rounded(23, [2.5, 3.5, 5.0, 99.0, -0.25, 0.75]) == [2.0, 4.0, 4.0, 6.0, -0.0, 1.0]
    assert rounded(24, [3.0, 4.0, 0.0, 1e39]) == [4.0, 4.0, 2.0**-127, 2.0**127]
    assert rounded(24, [3.0, 2.9], round_mode="down") == [2.0, 2.0]
    assert rounded(24, [3.0, 2.9], round_mode="nearest") == [4.0, 2.0]
    assert rounded(21, [1.9, 16.0, -1.0]) == [1.0, 0.0, 15.0]
    assert rounded(22, [7.0, 8.0, -8.0]) == [7.0, -8.0, -8.0]
    assert rounded(25, [3.9, 4.0, -1.0]) == [3.0, 0.0, 3.0] and rounded(26, [1.0, 2.0]) == [
        1.0,
        -2.0,
    ]


def test_the_type_goes_along_with_the_numbers():
    # the target of CastLike is moved about before it is looked at, also through branches
    inner = graph([node("Squeeze", ["t"], ["s"])], [], ["s"])
    nodes = [
        node("Reshape", ["w", "shape"], ["r"]), node("Transpose", ["r"], ["t"]),
        node("If", ["yes"], ["k"], then_branch=inner, else_branch=inner),
        node("CastLike", ["x", "k"], ["n"]), node("Cast", ["n"], ["y"], to=1),
    ]  # fmt: skip
    constants = [
        typed("w", 18, b"\x40\x41", 2),
        ints("shape", [1, 2]),
        field(2, 9) + field(8, "yes") + field(5, 1),
    ]
    data = model(nodes, [value("x", [2])], ["y"], constants, opset=24)
    assert OnnxRunner(Tensor(data))({"x": Tensor([1000.0, 1.05])})["y"].tolist() == [240.0, 1.0]


def test_quantizing_to_the_type_of_a_zero_point():
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    for kind, raw, want in (
        (22, b"\x01", [5.0, -4.5, 3.0]),
        (21, b"\x01", [5.0, -0.5, 3.0]),
        (18, b"\x00", [5.0, -9.0, 3.0]),
    ):
        constants = [floats("s", [], [0.5]), tensor("z", [], kind, raw)]
        got = OnnxRunner(Tensor(model(nodes, [value("x", [3])], ["y"], constants, opset=21)))
        scaled = got({"x": Tensor([5.0, -9.0, 3.0])})["y"].tolist()
        if kind == 22:
            want = [3.0, -4.5, 3.0]
        assert scaled == want


def test_inputs_of_a_narrow_type():
    nodes = [node("Cast", ["x"], ["y"], to=1)]
    run4 = OnnxRunner(Tensor(model(nodes, [value("x", [3], 22)], ["y"])))
    for given in (np.array([-8, 0, 7]), Tensor([-8, 0, 7], dtype="int8"), [-8, 0, 7]):
        assert run4({"x": given})["y"].tolist() == [-8.0, 0.0, 7.0]
    run8 = OnnxRunner(Tensor(model(nodes, [value("x", [2], 18)], ["y"])))
    assert run8({"x": np.array([0.5, 240.0])})["y"].tolist() == [0.5, 240.0]
    assert run8.get_empty_input_data()["x"].dtype.name == "float"


# *** operators of ONNX Runtime, by their formulas


R = np.random.default_rng(5)


def normal(*shape):
    return R.standard_normal(shape).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_head(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, heads, seen=None):
    q, k, v = (by_head(x, heads) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def close(got, want, tolerance=1e-5):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_attention_of_one_matrix():
    x, w, b = normal(2, 5, 8), normal(8, 24), normal(24)
    q, k, v = np.split(x @ w + b, 3, axis=-1)
    close(run("Attention", x, w, b, num_heads=2), attended(q, k, v, 2), 1e-4)
    order = np.tril(np.ones((5, 5), bool))
    close(
        run("Attention", x, w, b, num_heads=2, unidirectional=1), attended(q, k, v, 2, order), 1e-4
    )
    seen = (np.arange(5) < np.array([[3], [5]])).reshape(2, 1, 1, 5)
    lengths = np.array([3, 5], np.int32)
    close(run("Attention", x, w, b, lengths, num_heads=2), attended(q, k, v, 2, seen), 1e-3)
    spans = np.array([5, 4, 2, 0], np.int32)
    seen = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]], bool).reshape(2, 1, 1, 5)
    close(run("Attention", x, w, b, spans, num_heads=2), attended(q, k, v, 2, seen), 1e-3)


def test_attention_with_a_cache():
    q, past = normal(1, 2, 8), normal(1, 2, 3, 4)
    y, keys, values = run(
        "MultiHeadAttention", q, q, q, None, None, None, past, past, num_heads=2, outputs=3
    )
    flat = np.concatenate([past.transpose(0, 2, 1, 3).reshape(1, 3, 8), q], axis=1)
    close(y, attended(q, flat, flat, 2))
    assert keys.shape == values.shape == (1, 2, 5, 4)
    with pytest.raises(NotImplementedError, match="cache_indirection"):
        run(
            "MultiHeadAttention",
            q,
            q,
            q,
            None,
            None,
            None,
            None,
            None,
            None,
            np.zeros((1, 1, 4), np.int32),
            num_heads=2,
        )


def grouped(x, k, v, heads, few, seen):
    wide = [np.repeat(by_head(t, few), heads // few, axis=1) for t in (k, v)]
    flat = [t.transpose(0, 2, 1, 3).reshape(t.shape[0], t.shape[2], -1) for t in wide]
    return attended(x, *flat, heads, seen)


def test_grouped_heads_with_windows_and_lines_of_different_lengths():
    q, k, v = normal(2, 4, 16), normal(2, 4, 8), normal(2, 4, 8)
    empty = np.zeros((2, 2, 0, 4), np.float32)
    totals, total = np.array([3, 1], np.int32), np.array(4, np.int32)
    order = np.tril(np.ones((4, 4), bool))
    y = run(
        "GroupQueryAttention", q, k, v, empty, empty, totals, total, num_heads=4, kv_num_heads=2
    )
    want = grouped(q, k, v, 4, 2, order)
    close(y[0], want[0])
    close(y[1, :2], want[1, :2])
    window = order & ~np.tril(np.ones((4, 4), bool), -2)
    y = run(
        "GroupQueryAttention",
        q,
        k,
        v,
        empty,
        empty,
        totals * 0 + 3,
        total,
        num_heads=4,
        kv_num_heads=2,
        local_window_size=2,
    )
    close(y, grouped(q, k, v, 4, 2, window))


def test_one_token_after_lines_of_different_lengths():
    past, new = normal(2, 1, 4, 4), normal(2, 1, 4)
    totals = np.array([4, 2], np.int32)
    y, keys, _ = run(
        "GroupQueryAttention",
        new,
        new,
        new,
        past,
        past,
        totals,
        np.array(5, np.int32),
        num_heads=1,
        kv_num_heads=1,
        outputs=3,
    )
    for line, before in enumerate(totals):
        rows = np.concatenate([past[line : line + 1, 0, :before], new[line : line + 1]], axis=1)
        close(y[line], attended(new[line : line + 1], rows, rows, 1)[0])
        close(keys[line, 0, : before + 1], rows[0])


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_with_weights_of_few_bits(bits):
    size, n, per = 16, 3, 8 // bits
    codes = R.integers(0, 1 << bits, (n, 2, size))
    packed = sum(codes[..., i::per] << (bits * i) for i in range(per)).astype(np.uint8)
    scales, a = normal(n, 2), normal(4, 32)
    real = ((codes - (1 << (bits - 1))) * scales[..., None]).reshape(n, 32)
    close(
        run("MatMulNBits", a, packed, scales, K=32, N=n, bits=bits, block_size=size),
        a @ real.T,
        1e-4,
    )
    points = np.full((n, 2), 1)
    zero = (
        sum(points[:, i] << (bits * i) for i in range(min(per, 2))).astype(np.uint8).reshape(n, 1)
    )
    zero = points.astype(np.uint8) if per == 1 else zero
    real = ((codes - 1) * scales[..., None]).reshape(n, 32)
    close(
        run("MatMulNBits", a, packed, scales, zero, K=32, N=n, bits=bits, block_size=size),
        a @ real.T,
        1e-4,
    )


def test_rows_of_a_table_of_four_bits():
    codes = R.integers(0, 16, (5, 32))
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    scales, wanted = normal(5, 2), np.array([[4, 1]])
    real = (codes - 8) * np.repeat(scales, 16, axis=1)
    close(run("GatherBlockQuantized", packed, wanted, scales, block_size=16), real[wanted])


def test_experts():
    x, router, fc1, fc2 = normal(3, 4), normal(3, 2), normal(2, 6, 4), normal(2, 4, 6)
    shares = softmax(router)
    every = np.stack([np.maximum(x @ fc1[i].T, 0) @ fc2[i].T for i in range(2)], axis=1)
    best = shares.argmax(1)
    y = run("MoE", x, router, fc1, None, fc2, k=1)
    close(y, every[range(3), best] * shares[range(3), best, None])
    y = run("MoE", x, router, fc1, None, fc2, k=2, normalize_routing_weights=1)
    close(y, (every * shares[..., None]).sum(1))


def test_channels_last():
    x, w = normal(1, 5, 5, 2), normal(3, 2, 3, 3)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    want = Tensor(first).conv2d(Tensor(w)).numpy().transpose(0, 2, 3, 1)
    close(run("NhwcConv", x, w), want)
    bytes_ = R.integers(0, 255, (1, 4, 4, 2)).astype(np.uint8)
    got = run("NhwcMaxPool", bytes_, kernel_shape=[2, 2], strides=[2, 2])
    np.testing.assert_array_equal(got, bytes_.reshape(1, 2, 2, 2, 2, 2).max((2, 4)))


def test_matrices_and_sets():
    x = normal(2, 4, 4)
    close(run("Inverse", x), np.linalg.inv(x), 1e-3)
    close(run("Inverse", np.array([[0, 2], [4, 0]], np.float32)), [[0, 0.25], [0.5, 0]])
    values, places, counts = run("Unique", np.array([2, 1, 1, 3], np.float32), outputs=3)
    assert (values.tolist(), places.tolist(), counts.tolist()) == (
        [2, 1, 3],
        [0, 1, 1, 2],
        [1, 2, 1],
    )
    assert run("IsAllFinite", np.array([1, np.inf], np.float32)).item() is False
    pairs = normal(3, 2), normal(3, 2)
    numbers = [p[:, 0] + 1j * p[:, 1] for p in pairs]
    for op, want in (
        ("ComplexMul", numbers[0] * numbers[1]),
        ("ComplexMulConj", numbers[0] * numbers[1].conj()),
    ):
        got = run(op, *pairs)
        close(got[:, 0] + 1j * got[:, 1], want)
    signal = normal(2, 8)
    got = run("Rfft", signal)
    close(got[..., 0] + 1j * got[..., 1], np.fft.rfft(signal), 1e-4)


def test_runs_of_tokens_are_not_repeated():
    ids = np.array([[1, 2, 3, 1, 2]])
    got = run("NGramRepeatBlock", ids, np.zeros((1, 5), np.float32), ngram_size=3)
    assert got.tolist() == [[0, 0, 0, -math.inf, 0]]


def test_running_products_and_bits():
    data = model(
        [
            node("CumProd", ["x", "axis"], ["y"], exclusive=1, reverse=1),
            node("BitCast", ["x"], ["b"], to=6),
        ],
        [value("x", [3])],
        ["y", "b"],
        [field(2, 7) + field(8, "axis") + field(7, 0)],
        opset=26,
    )
    got = OnnxRunner(Tensor(data))({"x": Tensor([2.0, 3.0, 4.0])})
    assert got["y"].tolist() == [12.0, 4.0, 1.0] and got["b"].tolist() == [
        0x40000000,
        0x40400000,
        0x40800000,
    ]


# *** runs


def test_shapes_that_change_from_call_to_call():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Reshape", ["x", "flat"], ["f"]),
        node("Add", ["f", "f"], ["y"]),
    ]
    run2 = OnnxRunner(
        Tensor(model(nodes, [value("x", ["n", "m"])], ["y", "s"], [ints("flat", [-1])]))
    )
    for shape in ((2, 3), (1, 4), (0, 3), (2, 3)):
        got = run2({"x": Tensor.ones(*shape)})
        assert got["s"].tolist() == list(shape) and got["y"].shape == (shape[0] * shape[1],)
        assert run2.variable_dims == {"n": shape[0], "m": shape[1]}


def test_an_initializer_that_is_also_an_input():
    data = model(
        [node("Add", ["x", "w"], ["y"])],
        [value("x", [2]), value("w", [2])],
        ["y"],
        [floats("w", [2], [1, 2])],
    )
    run1 = OnnxRunner(Tensor(data))
    assert list(run1.graph_inputs) == ["x"]
    assert run1({"x": Tensor([0.0, 0.0])})["y"].tolist() == [1.0, 2.0]
    assert run1({"x": Tensor([0.0, 0.0]), "w": Tensor([5.0, 6.0])})["y"].tolist() == [5.0, 6.0]


def test_a_captured_attention_model():
    x = [normal(1, 3, 8) for _ in range(4)]
    nodes = [node("MultiHeadAttention", ["x", "x", "x"], ["y"], domain=MS, num_heads=2)]
    runner = OnnxRunner(Tensor(model(nodes, [value("x", [1, 3, 8])], ["y"], domains=(MS,))))
    step = TinyJit(lambda t: runner({"x": t})["y"].realize())
    for values in x:
        close(step(Tensor(values).realize()).numpy(), attended(values, values, values, 2))


@pytest.mark.parametrize(("kind", "code"), [(10, "e"), (16, None)])
def test_models_of_sixteen_bits(kind, code):
    raw = struct.pack("<2e", 0.5, 2.0) if code else b"\x00\x3f\x00\x40"
    data = model(
        [node("Mul", ["x", "w"], ["y"])],
        [value("x", [2], kind)],
        ["y"],
        [tensor("w", [2], kind, raw)],
    )
    y = OnnxRunner(Tensor(data))({"x": Tensor([3.0, 4.0], dtype="half" if code else "bfloat16")})[
        "y"
    ]
    assert y.dtype.name == ("half" if code else "__bf16") and y.tolist() == [1.5, 8.0]


def test_what_debug_prints(capsys):
    data = model([node("Neg", ["x"], ["y"])], [value("x", [2])], ["y"])
    runner = OnnxRunner(Tensor(data))
    runner({"x": Tensor([1.0, 2.0])}, debug=0)
    assert capsys.readouterr().out == ""
    runner({"x": Tensor([1.0, 2.0])}, debug=2)
    assert capsys.readouterr().out == "0: Neg ['x'] -> ['y']\n   [(2,)] {} -> [(2,)]\n"
