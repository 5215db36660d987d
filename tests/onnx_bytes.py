"""Writes ONNX models as bytes, so that tests need no other package."""

from __future__ import annotations

import struct


def varint(n: int) -> bytes:
    """A number of 64 bits, seven in each byte."""
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(number: int, payload: bytes | str | int) -> bytes:
    """A field of a message: a number, text or another message."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    data = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, dims: list[int], kind: int, raw: bytes | None, **external: str) -> bytes:
    """A TensorProto with its bytes, or with the entries that say where they are."""
    out = b"".join(field(1, n) for n in dims) + field(2, kind) + field(8, name)
    if raw is not None:
        return out + field(9, raw)
    entries = (field(13, field(1, key) + field(2, value)) for key, value in external.items())
    return out + b"".join(entries) + field(14, 1)


def floats(name: str, dims: list[int], values) -> bytes:
    """A float tensor."""
    return tensor(name, dims, 1, struct.pack(f"<{len(values)}f", *values))


def ints(name: str, values) -> bytes:
    """A vector of int64."""
    return tensor(name, [len(values)], 7, struct.pack(f"<{len(values)}q", *values))


def attribute(name: str, value) -> bytes:
    """An int, a float, text, a list of ints, a graph (bytes) or a reference (as a tuple of its name)."""
    head = field(1, name)
    if isinstance(value, tuple):
        return head + field(21, value[0]) + field(20, 2)
    if isinstance(value, int):
        return head + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)
    if isinstance(value, list):
        return head + b"".join(field(8, n) for n in value) + field(20, 7)
    return head + (
        field(6, value) + field(20, 5)
        if isinstance(value, bytes)
        else field(4, value) + field(20, 3)
    )


def node(op: str, inputs, outputs, domain: str = "", **attributes) -> bytes:
    """A NodeProto."""
    out = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    out += field(4, op) + b"".join(field(5, attribute(k, v)) for k, v in attributes.items())
    return out + (field(7, domain) if domain else b"")


def value(name: str, dims, kind: int = 1) -> bytes:
    """A ValueInfoProto; text is the name of an axis."""
    axes = b"".join(field(1, field(2 if isinstance(n, str) else 1, n)) for n in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, axes)))


def graph(nodes, inputs, outputs, constants=()) -> bytes:
    """A GraphProto; outputs are names."""
    out = b"".join(field(1, n) for n in nodes) + field(2, "graph")
    out += b"".join(field(5, c) for c in constants) + b"".join(field(11, v) for v in inputs)
    return out + b"".join(field(12, field(1, name)) for name in outputs)


def model(nodes, inputs, outputs, constants=(), opset: int = 18, functions=(), domains=()) -> bytes:
    """A ModelProto."""
    out = field(1, 8) + field(7, graph(nodes, inputs, outputs, constants))
    out += field(8, field(1, "") + field(2, opset))
    out += b"".join(field(8, field(1, name) + field(2, 1)) for name in domains)
    return out + b"".join(field(25, f) for f in functions)


def function(name: str, domain: str, inputs, outputs, attributes, nodes, opset: int = 18) -> bytes:
    """A FunctionProto."""
    out = (
        field(1, name)
        + b"".join(field(4, i) for i in inputs)
        + b"".join(field(5, o) for o in outputs)
    )
    out += b"".join(field(6, a) for a in attributes) + b"".join(field(7, n) for n in nodes)
    return out + field(9, field(1, "") + field(2, opset)) + field(10, domain)
