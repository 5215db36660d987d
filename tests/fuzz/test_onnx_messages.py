"""ONNX models changed field by field: the loader gives an answer or a documented error, in little memory.

A model is taken apart into the tree of its messages by the table of the format, changed in ways that keep it well-formed
(numbers at their limits, names exchanged, messages moved, doubled, nested), and written again.
`ROUNDS=5000 SEED=7 pytest tests/fuzz/test_onnx_messages.py` runs more; a failure prints the seed.
"""

import copy
import os
import random
import sys
import tracemalloc
from pathlib import Path

import pytest

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner
from tinygrad.nn.onnx_parts.schema import MESSAGES

sys.path.insert(0, str(Path(__file__).parents[1]))
from onnx_bytes import attribute, field, floats, function, graph, ints, model, node, value, varint  # noqa: E402

ROUNDS = int(os.getenv("ROUNDS", "200"))
FIRST = int(os.getenv("SEED", "0"))
DOCUMENTED = (ValueError, EOFError, NotImplementedError, FileNotFoundError)
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    18,
    23,
    24,
    99,
    127,
    1 << 31,
    (1 << 31) - 1,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
NAMES = (b"", b"x", b"y", b"w", b"\xff\xfe", b"n" * 300, b"../../etc/passwd", b"\0")


def models() -> list[bytes]:
    loop = graph(
        [node("Add", ["s", "w"], ["t"]), node("Identity", ["c"], ["d"])],
        [value("i", [], 7), value("c", [], 9), value("s", [2, 3])], ["d", "t"],
    )  # fmt: skip
    then, other = (
        graph([node("Relu", ["y"], ["a"])], [], ["a"]),
        graph([node("Neg", ["y"], ["b"])], [], ["b"]),
    )
    nodes = [
        node("Add", ["x", "w"], ["y"]),
        node("Reshape", ["y", "shape"], ["z"], allowzero=1),
        node("Loop", ["trips", "", "y"], ["l"], body=loop),
        node("If", ["yes"], ["f"], then_branch=then, else_branch=other),
        node("Twice", ["z"], ["q"], domain="mine"),
        node("Constant", [], ["k"], value_ints=[1, 2, 3]),
        node("Cast", ["z"], ["h"], to=17),
    ]
    constants = [
        floats("w", [2, 3], range(6)), ints("shape", [3, 2]), field(1, 1) + field(2, 7) + field(8, "trips") + field(7, 2),
        field(2, 9) + field(8, "yes") + field(5, 1),
        field(1, 3) + field(2, 22) + field(8, "nibbles") + field(9, b"\x21\x03"),
    ]  # fmt: skip
    twice = function("Twice", "mine", ["v"], ["u"], [], [node("Add", ["v", "v"], ["u"])])
    inputs = [value("x", ["n", 3])]
    full = model(
        nodes, inputs, ["q", "l", "f", "k", "h"], constants, functions=[twice], domains=("mine",)
    )
    return [full, model([node("Add", ["x", "x"], ["y"])], inputs, ["y"])]


# *** messages as trees: lists of [number, wire type, number or bytes or tree, name of the message]


def number_at(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        found |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return found, at


def taken_apart(data: bytes, message: str) -> list[list]:
    found, at = [], 0
    while at < len(data):
        key, at = number_at(data, at)
        kind = MESSAGES[message].get(key >> 3, ("", "bytes", False))[1]
        if key & 7 == 0:
            content, at = number_at(data, at)
        elif key & 7 == 5:
            content, at = data[at : at + 4], at + 4
        else:
            size, at = number_at(data, at)
            content, at = data[at : at + size], at + size
        if kind in MESSAGES:
            content = taken_apart(content, kind)
        found.append([key >> 3, key & 7, content, kind])
    return found


def together(tree: list[list]) -> bytes:
    out = bytearray()
    for key, wire, content, _ in tree:
        out += varint(key << 3 | wire)
        if wire == 0:
            out += varint(content)
        elif wire == 5:
            out += content
        else:
            data = together(content) if isinstance(content, list) else content
            out += varint(len(data)) + data
    return bytes(out)


def places(tree: list[list]) -> list[tuple[list, int]]:
    """Every field as (its message, its place)."""
    found, pending = [], [tree]
    while pending:
        message = pending.pop()
        for i, entry in enumerate(message):
            found.append((message, i))
            if isinstance(entry[2], list):
                pending.append(entry[2])
    return found


def changed(tree: list[list], draw: random.Random) -> None:
    everywhere = places(tree)
    if not everywhere:
        return
    message, i = draw.choice(everywhere)
    entry = message[i]
    other, j = draw.choice(everywhere)
    what = draw.randrange(8)
    if what == 0:
        del message[i]
    elif what == 1:
        message.insert(draw.randrange(len(message) + 1), copy.deepcopy(entry))
    elif what == 2:
        # a message in the place of another, or around itself
        entry[2], entry[1] = copy.deepcopy(other[j][2]), other[j][1]
    elif what == 3 and isinstance(entry[2], list):
        entry[2].append(copy.deepcopy(entry))
    elif what == 4:
        entry[0] = draw.choice((draw.randrange(1, 30), 1 << 28))
    elif what == 5:
        draw.shuffle(message)
    elif isinstance(entry[2], int):
        entry[2] = draw.choice(NUMBERS)
    elif isinstance(entry[2], bytes):
        texts = [m[k][2] for m, k in everywhere if isinstance(m[k][2], bytes)]
        entry[2] = draw.choice(
            (draw.choice(texts), draw.choice(NAMES), entry[2][: len(entry[2]) // 2])
        )
        entry[1] = 2


def load_and_run(data: bytes) -> str:
    """What came of it, in a word."""
    try:
        runner = OnnxRunner(Tensor(data))
    except DOCUMENTED as error:
        return type(error).__name__
    if any(n.op in ("Loop", "Scan") for n in runner.graph_nodes):
        # how often a loop runs is the model's business
        return "loaded"
    try:
        inputs = runner.get_empty_input_data()
        if all(t.nbytes() < 1 << 20 for t in inputs.values()):
            runner(inputs)
    except (
        *DOCUMENTED,
        RuntimeError,
        TypeError,
        IndexError,
        KeyError,
        AssertionError,
        AttributeError,
    ):
        # a node may have arguments that its operator does not take
        return "refused at the call"
    return "ran"


def test_what_is_taken_apart_is_the_same_together():
    for data in models():
        assert together(taken_apart(data, "ModelProto")) == data
        assert load_and_run(data) in ("loaded", "ran")


def test_changed_models():
    trees = [taken_apart(data, "ModelProto") for data in models()]
    outcomes: dict[str, int] = {}
    tracemalloc.start()
    for seed in range(FIRST, FIRST + ROUNDS):
        draw = random.Random(seed)
        tree = copy.deepcopy(draw.choice(trees))
        for _ in range(draw.choice((1, 1, 2, 4))):
            changed(tree, draw)
        data = together(tree)
        tracemalloc.reset_peak()
        try:
            outcome = load_and_run(data)
        except BaseException as error:
            raise AssertionError(
                f"SEED={seed} ROUNDS=1: {type(error).__name__}: {error}"
            ) from error
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        # the reader holds one piece of the file, the graph a few objects a field
        peak = tracemalloc.get_traced_memory()[1]
        assert peak < 64 << 20, f"SEED={seed}: {peak} bytes for a model of {len(data)}"
    tracemalloc.stop()
    assert outcomes.get("ValueError", 0) and outcomes.get("ran", 0), outcomes


# *** what the changes aim at, one by one


def refused(data: bytes, match: str, error=ValueError):
    with pytest.raises(error, match=match):
        OnnxRunner(Tensor(data))


def test_nodes_that_need_each_other():
    nodes = [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"])]
    refused(
        model(nodes, [value("x", [1])], ["b"]), "need each other's results, among them 'Add', 'Neg'"
    )
    refused(model([node("Neg", ["a"], ["a"])], [], ["a"]), "need each other")


def test_nodes_in_any_order():
    nodes = [node("Neg", ["b"], ["c"]), node("Add", ["a", "x"], ["b"]), node("Relu", ["x"], ["a"])]
    run = OnnxRunner(Tensor(model(nodes, [value("x", [2])], ["c"])))
    assert run({"x": Tensor([1.0, -2.0])})["c"].tolist() == [-2.0, 2.0]
    # the graph of the first node reads what the last one gives
    inner = graph([node("Neg", ["late"], ["i"])], [], ["i"])
    nodes = [
        node("If", ["yes"], ["r"], then_branch=inner, else_branch=inner),
        node("Relu", ["x"], ["late"]),
    ]
    yes = field(2, 9) + field(8, "yes") + field(5, 1)
    run = OnnxRunner(Tensor(model(nodes, [value("x", [2])], ["r"], [yes])))
    assert run({"x": Tensor([1.0, -2.0])})["r"].tolist() == [-1.0, 0.0]


def test_names_given_twice_or_never():
    twice = [node("Neg", ["x"], ["y"]), node("Relu", ["x"], ["y"])]
    refused(model(twice, [value("x", [1])], ["y"]), "gives 'y' twice")
    refused(model([node("Neg", ["x"], ["x"])], [value("x", [1])], ["x"]), "gives 'x' twice")
    refused(
        model([node("Neg", ["lost"], ["y"])], [value("x", [1])], ["y"]),
        "needs 'lost', which nothing computes",
    )
    refused(model([], [value("x", [1])], ["gone"]), "computes its output 'gone'")


def test_graphs_nested_without_end():
    inner = graph([node("Relu", ["x"], ["y"])], [], ["y"])
    for _ in range(60):
        inner = graph(
            [node("If", ["c"], ["y"], then_branch=inner, else_branch=inner[:0])], [], ["y"]
        )
    refused(
        model([node("If", ["c"], ["y"], then_branch=inner)], [value("c", [], 9)], ["y"]),
        "nested more than",
    )


@pytest.mark.parametrize(
    ("dims", "match"),
    [([1 << 62, 4], "needs"), ([-1], "has the shape"), ([1 << 63], "has the shape"), ([0, 1 << 40], "needs|has")],
)  # fmt: skip
def test_sizes_that_do_not_fit(dims, match):
    tensor = b"".join(field(1, n) for n in dims) + field(2, 1) + field(8, "w") + field(9, b"abc")
    refused(model([node("Neg", ["w"], ["y"])], [], ["y"], [tensor]), match)


def test_numbers_longer_than_64_bits():
    refused(b"\x08" + b"\xff" * 10 + b"\x01", "varint is longer")
    refused(
        field(7, b"")[:-1] + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "does not fit", EOFError
    )


@pytest.mark.parametrize("kind", [0, 14, 15, 27, 99, (1 << 31) - 1])
def test_element_types_that_are_unknown(kind):
    tensor = field(1, 1) + field(2, kind) + field(8, "w") + field(9, b"abcd")
    refused(
        model([node("Neg", ["w"], ["y"])], [], ["y"], [tensor]), "has no dtype", NotImplementedError
    )


def test_attributes_that_no_operator_knows():
    empty = node("Neg", ["x"], ["y"]) + field(5, field(1, "mystery") + field(20, 77))
    run = OnnxRunner(Tensor(model([empty], [value("x", [1])], ["y"])))
    assert run({"x": Tensor([1.0])})["y"].tolist() == [-1.0]
    head = node("Neg", ["x"], ["y"]) + field(5, attribute("mystery", 1.5))
    run = OnnxRunner(Tensor(model([head], [value("x", [1])], ["y"])))
    with pytest.raises(ValueError, match=r"Neg .*\['mystery'\].* not supported"):
        run({"x": Tensor([1.0])})
