"""Model files that are wrong in one place but right around it: a number, a name, a type, a nesting.

`variant(name, seed)` gives the bytes of one. Damage of single bytes mostly ends at the first check; these
files keep lengths, checksums and containers consistent, so that the change reaches the code behind it.
"""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import pickle
import random
import struct
import tarfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.torch_bytes import (
    MAGIC,
    PROTOCOL,
    Call,
    Global,
    Reference,
    Storage,
    TarTensor,
    pickled,
    stream_checkpoint,
    tar_checkpoint,
    tensor,
    zip_checkpoint,
)

NUMBERS = [
    0, 1, -1, 2, 3, 7, 31, 32, 255, 256, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40,
    (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 200, -(1 << 31), -(1 << 63),
]  # fmt: skip
ODD = [
    None,
    True,
    False,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x00",
    "α",
    "F32",
    "0",
    [],
    {},
    [[]],
    [1, 2],
]


def odd(draw: random.Random, old: Any) -> Any:
    """Something else for a value: a near number, an edge, another type."""
    if type(old) is int and draw.random() < 0.6:
        return draw.choice([old + 1, old - 1, -old, old * 2, old // 2, draw.choice(NUMBERS)])
    if isinstance(old, list) and old and draw.random() < 0.6:
        return draw.choice([old[:-1], old + old, old[::-1], [*old, old], old * 40])
    if draw.random() < 0.05:
        nested: Any = old
        for _ in range(draw.choice((3, 100, 300))):
            nested = [nested]
        return nested
    return draw.choice([*ODD, *NUMBERS])


def changed(tree: Any, draw: random.Random, other: Callable = odd) -> Any:
    """The tree with one node replaced."""
    target, seen = draw.randrange(_count(tree)), [-1]

    def visit(node: Any) -> Any:
        seen[0] += 1
        if seen[0] == target:
            return other(draw, node)
        if isinstance(node, OrderedDict):
            return OrderedDict((k, visit(v)) for k, v in node.items())
        if isinstance(node, dict):
            return {k: visit(v) for k, v in node.items()}
        if isinstance(node, (list, tuple)):
            return type(node)(visit(v) for v in node)
        if is_dataclass(node) and not isinstance(node, Global):
            return replace(node, **{f.name: visit(getattr(node, f.name)) for f in fields(node)})
        return node

    return visit(tree)


def _count(node: Any) -> int:
    if isinstance(node, dict):
        return 1 + sum(map(_count, node.values()))
    if isinstance(node, (list, tuple)):
        return 1 + sum(map(_count, node))
    if is_dataclass(node) and not isinstance(node, Global):
        return 1 + sum(_count(getattr(node, f.name)) for f in fields(node))
    return 1


# *** safetensors ***
def safetensors(draw: random.Random) -> bytes:
    header: Any = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "I8", "shape": [4], "data_offsets": [24, 28]},
        "c": {"dtype": "BF16", "shape": [], "data_offsets": [28, 30]},
        "e": {"dtype": "F64", "shape": [0, 5], "data_offsets": [30, 30]},
        "__metadata__": {"format": "pt"},
    }
    for _ in range(draw.choice((0, 1, 1, 2))):
        header = changed(header, draw)
    text = json.dumps(header)
    kind = draw.randrange(8)
    if kind == 0:
        text = text.replace('"b"', '"a"')
    elif kind == 1:
        text = text.replace('"shape"', draw.choice(['"Shape"', '"dtype"', '"\\ud800"']))
    elif kind == 2:
        text += draw.choice([" " * 9, "\n", "\x00", "{}", "]"])
    elif kind == 3:
        text = draw.choice(["[" * 99999, "null", "0", '"a"', "{", "1e999", "NaN", '{"a":1e400}'])
    raw = text.encode()
    if kind == 4:
        raw = raw.replace(b'"a"', draw.choice([b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"']))
    length = (
        len(raw)
        if kind != 5
        else draw.choice([len(raw) + 1, len(raw) - 1, *NUMBERS]) & (1 << 64) - 1
    )
    return (
        struct.pack("<Q", length)
        + raw
        + bytes(range(30 + (draw.choice((-1, 1, 8)) if kind == 6 else 0)))
    )


# *** GGUF ***
def _text(value: str) -> list:
    return [["Q", len(value)], ["raw", value]]


def gguf(draw: random.Random) -> bytes:
    pairs = [
        _text("name") + [["i", 8]] + _text("model"),
        _text("list") + [["i", 9], ["i", 4], ["Q", 3], ["I", 1], ["I", 2], ["I", 3]],
        _text("words") + [["i", 9], ["i", 8], ["Q", 2]] + _text("ab") + _text(""),
        _text("deep") + [["i", 9], ["i", 9], ["Q", 1], ["i", 5], ["Q", 1], ["i", 7]],
        _text("general.alignment") + [["i", 4], ["I", 32]],
    ]
    tensors = [
        _text("t") + [["I", 2], ["Q", 3], ["Q", 2], ["i", 0], ["Q", 0]],
        _text("q") + [["I", 1], ["Q", 32], ["i", draw.choice((2, 3, 6, 7, 8, 20, 39))], ["Q", 32]],
        _text("k")
        + [["I", 1], ["Q", 256], ["i", draw.choice((10, 12, 14, 16, 19, 23, 34))], ["Q", 96]],
    ]
    words: list = [["raw", "GGUF"], ["i", 3], ["q", len(tensors)], ["q", len(pairs)]]
    words += [word for part in pairs + tensors for word in part]
    for _ in range(draw.choice((0, 1, 1, 1, 2))):
        kind, at = draw.randrange(6), draw.randrange(len(words))
        if kind == 0:
            del words[at]
        elif kind == 1:
            words.insert(at, draw.choice(words))
        elif words[at][0] == "raw":
            words[at] = ["raw", odd(draw, words[at][1])]
        else:
            words[at] = [words[at][0], odd(draw, words[at][1])]
    out = b"".join(map(_word, words))
    out += bytes(-len(out) % 32) + bytes(range(256)) + bytes(200)
    return out[: draw.choice([len(out), len(out), len(out) - 250, draw.randrange(len(out))])]


def _word(word: list) -> bytes:
    code, value = word
    if code == "raw":
        return str(value).encode()
    number = value if type(value) is int else 1
    size = struct.calcsize(code)
    return (number & (1 << 8 * size) - 1).to_bytes(size, "little")


# *** archives ***
def archive(draw: random.Random) -> bytes:
    """A zip: entries whose records disagree with each other or with what they hold."""
    entries = [
        [b"stored", 0, b"abc" * 20],
        [b"packed", 8, b"abc" * 200],
        [b"bz", 12, b"abc" * 99],
        [b"lz", 14, b"xyz" * 99],
        [b"folder/", 0, b""],
    ]
    out, directory = b"", b""
    victim, part = draw.randrange(len(entries)), draw.randrange(14)
    for i, (name, method, data) in enumerate(entries):
        packer = {8: zlib.compressobj(wbits=-15), 12: bz2.BZ2Compressor()}.get(method)
        packed = packer.compress(data) + packer.flush() if packer else data
        if method == 14:
            filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 16}]
            body = lzma.compress(data, lzma.FORMAT_RAW, filters=filters)
            properties = bytes([93]) + struct.pack("<I", 1 << 16)
            if i == victim and part == 13:
                properties = draw.choice(
                    [b"\xff" * 5, bytes([93]) + b"\xff" * 4, b"\x5d\x00\x00\x00\x00"]
                )
            packed = b"\x09\x04" + struct.pack("<H", 5) + properties + body
        words = [
            0,
            method,
            0,
            zlib.crc32(data),
            len(packed),
            len(data),
            len(name),
            0,
            0,
            0,
            len(out),
        ]
        if i == victim and part < 11:
            words[part] = odd(draw, words[part])
        sizes = "HHIIIIHHHHI"
        made = [
            v & (1 << 8 * struct.calcsize(c)) - 1 if type(v) is int else 9
            for v, c in zip(words, sizes)
        ]
        extra = (
            struct.pack(
                "<HHQQQ", 1, 24, *draw.choices([n for n in NUMBERS if 0 <= n < 1 << 64], k=3)
            )
            if i == victim and part == 11
            else b""
        )
        flags, method, when, check, small, large, name_size, _, disk, attributes, start = made
        directory += struct.pack(
            "<4sHHHHIIIIHHHHHII", b"PK\x01\x02", 20, 20, flags, method, when, check, small, large, name_size,
            len(extra), 0, disk, attributes, 0, start,
        )  # fmt: skip
        directory += name + extra
        local = (len(packed), len(data)) if draw.random() < 0.9 else (small, large)
        out += struct.pack(
            "<4sHHHIIIIHH", b"PK\x03\x04", 20, flags, method, when, check, *local, name_size, 0
        )
        out += name + packed
    tail = [0, 0, len(entries), len(entries), len(directory), len(out), 0]
    if part == 12:
        at = draw.randrange(len(tail))
        tail[at] = odd(draw, tail[at])
    tail = [
        v & (0xFFFFFFFF if i in (4, 5) else 0xFFFF) if type(v) is int else 1
        for i, v in enumerate(tail)
    ]
    return out + directory + struct.pack("<4sHHHHIIH", b"PK\x05\x06", *tail)


def tape(draw: random.Random) -> bytes:
    """A tar whose checksums hold; some are packed."""
    target = io.BytesIO()
    kind = draw.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    with tarfile.open(fileobj=target, mode="w", format=kind) as made:
        for name in (
            "one",
            ("folder/" * 9 + "long" * 9) if kind == tarfile.USTAR_FORMAT else "long" * 60,
            "α",
        ):
            info = tarfile.TarInfo(name)
            info.size = 50
            made.addfile(info, io.BytesIO(bytes(50)))
    data = bytearray(target.getvalue())
    heads = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    for _ in range(draw.choice((0, 1, 1, 2))):
        at = draw.choice(heads)
        start, size = draw.choice(
            [(124, 12), (124, 12), (156, 1), (0, 100), (100, 8), (257, 8), (345, 155), (386, 12)]
        )
        number = draw.choice(NUMBERS)
        data[at + start : at + start + size] = draw.choice(
            [
                b"%0*o" % (size - 1, abs(number) % 8 ** (size - 1)) + b"\0",
                (b"\x80" + (number % (1 << 88)).to_bytes(11, "big"))[:size].ljust(size, b"\0"),
                bytes(draw.choice(b"0123456789LKSxgVD\xff- ") for _ in range(size)),
            ]
        )
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    plain = bytes(data)
    packed = draw.choice([None, None, gzip.compress, bz2.compress, lzma.compress])
    if packed is None:
        return plain[: draw.choice([len(plain), len(plain), draw.randrange(len(plain))])]
    out = bytearray(packed(plain))
    for _ in range(draw.choice((0, 1, 3))):
        out[draw.randrange(len(out))] = draw.randrange(256)
    return bytes(out[: draw.choice([len(out), len(out), draw.randrange(len(out))])])


# *** PyTorch ***
def _odd_object(draw: random.Random, old: Any) -> Any:
    names = [
        ("os", "system"), ("builtins", "eval"), ("torch", "FloatStorage"), ("torch", "float16"), ("a.b", "C"),
        ("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"), ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"), ("numpy.core.multiarray", "scalar"), ("numpy", "ndarray"),
        ("torch._tensor", "_rebuild_from_type_v2"), ("torch._utils", "_rebuild_qtensor"), ("builtins", "range"),
        ("builtins", "bytearray"), ("_codecs", "encode"), ("copyreg", "_reconstructor"), ("builtins", "set"),
    ]  # fmt: skip
    some = Global(*draw.choice(names))
    kind = draw.randrange(6)
    if kind == 0:
        return some
    if kind == 1:
        return Call(
            some,
            tuple(odd(draw, 3) for _ in range(draw.randrange(5))),
            draw.choice([None, {"a": 1}, (1, 2, 3, 4, 5)]),
        )
    if kind == 2 and isinstance(old, tuple):
        return tuple(list(old)[: draw.randrange(len(old) + 1)]) + tuple(
            draw.choices(NUMBERS, k=draw.randrange(3))
        )
    if kind == 3:
        return Call(some, (old,))
    return odd(draw, old)


def _objects(draw: random.Random, place: Any) -> Any:
    typed = (
        Storage(Global("torch.storage", "UntypedStorage"), "1", 8),
        0,
        (2, 2),
        (2, 1),
        False,
        OrderedDict(),
    )
    codes = (Storage(Global("torch", "QInt8Storage"), "1", 8), 0, (2, 2), (2, 1))
    array = Call(
        Global("numpy.core.multiarray", "_reconstruct"), (Global("numpy", "ndarray"), (0,), b"b")
    )
    kind = Call(
        Global("numpy", "dtype"), ("i2", False, True), (3, "<", None, None, None, -1, -1, 0)
    )
    array.state = (1, (2,), kind, False, b"\1\0\2\0")
    return OrderedDict(
        w=tensor(place, 0, (2, 3), (3, 1)),
        t=tensor(place, 1, (2, 2), (1, 2), "_rebuild_tensor"),
        h=Call(Global("torch._utils", "_rebuild_tensor_v3"), (*typed, Global("torch", "float16"))),
        q=Call(
            Global("torch._utils", "_rebuild_qtensor"),
            (*codes, (Global("torch", "per_tensor_affine"), 0.5, 3), False, OrderedDict()),
        ),
        epoch=3,
        array=array,
        best=Call(Global("numpy.core.multiarray", "scalar"), (kind, b"\1\0")),
    )


# what a change can turn into something that cannot be written at all
_UNWRITABLE = (
    RecursionError,
    TypeError,
    AttributeError,
    ValueError,
    struct.error,
    pickle.PicklingError,
)


def _checkpoint(draw: random.Random, make: Callable) -> bytes:
    place = Storage(Global("torch", "FloatStorage"), "0", 6)
    while True:
        obj = _objects(draw, place)
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            obj = changed(obj, draw, _odd_object)
        with contextlib.suppress(*_UNWRITABLE):
            return make(obj, draw)


def checkpoint_zip(draw: random.Random) -> bytes:
    parts = {"0": bytes(range(48)), "1": bytes(8)}
    if draw.random() < 0.2:
        parts[draw.choice("01")] = bytes(draw.choice((0, 1, 7, 99)))
    order = draw.choice([None, b"little", b"big", b"", b"middle"])
    return _checkpoint(draw, lambda obj, _: zip_checkpoint(obj, parts, order))


def checkpoint_stream(draw: random.Random) -> bytes:
    def make(obj: Any, draw: random.Random) -> bytes:
        if draw.random() < 0.7:
            count = 6 if draw.random() < 0.8 else draw.choice(NUMBERS[:18])
            return stream_checkpoint(obj, {"0": (count, bytes(24)), "1": (8, bytes(8))})
        system = changed(
            [MAGIC, PROTOCOL, {"little_endian": True}, obj, ["0", "1"]], draw, _odd_object
        )
        return b"".join(map(pickled, system)) + struct.pack("<q", 6) + bytes(200)

    return _checkpoint(draw, make)


def checkpoint_tar(draw: random.Random) -> bytes:
    kind, count, data = "Float", 6, bytes(24)
    described, views = TarTensor(1, 0, (2, 3), (3, 1)), [(2, 1, 1, 3)]
    edge = draw.choice([n for n in NUMBERS if -(1 << 63) <= n < 1 << 63])
    part = draw.randrange(10)
    if part == 0:
        kind = draw.choice(("Half", "Double", "No", "ComplexFloat"))
    elif part == 1:
        count = edge
    elif part == 2:
        data = bytes(draw.choice((0, 1, 23, 25)))
    elif part == 3:
        described.storage = draw.choice((2, 5, 7, "1", None))
    elif part == 4:
        described.offset = edge
    elif part == 5:
        described.size = (edge, 3)
    elif part == 6:
        described.stride = (edge, 1)
    elif part == 7:
        views = draw.choice(
            [[(2, 1, 1, 30)], [(2, 9, 0, 1)], [(2, 1)], [7], 5, [(2, 1, edge, edge)]]
        )
    held = {1: (kind, count, data)}
    while True:
        obj = changed([Reference(5), Reference(1), {"a": Reference(5)}], draw, _odd_object)
        with contextlib.suppress(*_UNWRITABLE):
            return tar_checkpoint(obj, held, {5: described}, views)


STRUCTURES: dict[str, Callable[[random.Random], bytes]] = {
    "safetensors": safetensors, "gguf": gguf, "zip": archive, "tar": tape, "torch zip": checkpoint_zip,
    "torch stream": checkpoint_stream, "torch tar": checkpoint_tar,
}  # fmt: skip


def variant(name: str, seed: int) -> bytes:
    """The file of this format and seed."""
    return STRUCTURES[name](random.Random(f"structure {name} {seed}"))
