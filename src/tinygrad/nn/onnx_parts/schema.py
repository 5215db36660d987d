"""Which fields the messages of onnx.proto have, and a decoder that follows this table.

`decode(reader, "ModelProto")` gives dictionaries: repeated fields are lists, absent ones are missing.
Fields that the table does not name are skipped. Bulk data (`raw_data`) stays in the file: its value is
the pair of offsets where it lies.
"""

from __future__ import annotations

import array
import sys
from typing import Any

from tinygrad.nn.onnx_parts.wire import PBBufferedReader, WireType

# the limit of protocol buffers' own libraries
MAX_DEPTH = 100
_INT, _FLOAT, _TEXT, _BYTES, _SPAN = "int", "float", "text", "bytes", "span"
_SCALARS = (_INT, _FLOAT, _TEXT, _BYTES, _SPAN)

# message -> field number -> (name, kind or message, repeated)
MESSAGES: dict[str, dict[int, tuple[str, str, bool]]] = {
    "ModelProto": {
        1: ("ir_version", _INT, False), 2: ("producer_name", _TEXT, False),
        3: ("producer_version", _TEXT, False), 4: ("domain", _TEXT, False),
        5: ("model_version", _INT, False), 6: ("doc_string", _TEXT, False),
        7: ("graph", "GraphProto", False), 8: ("opset_import", "OperatorSetIdProto", True),
        14: ("metadata_props", "StringStringEntryProto", True),
        25: ("functions", "FunctionProto", True),
    },
    "OperatorSetIdProto": {1: ("domain", _TEXT, False), 2: ("version", _INT, False)},
    "StringStringEntryProto": {1: ("key", _TEXT, False), 2: ("value", _TEXT, False)},
    "FunctionProto": {
        1: ("name", _TEXT, False), 4: ("input", _TEXT, True), 5: ("output", _TEXT, True),
        6: ("attribute", _TEXT, True), 7: ("node", "NodeProto", True),
        9: ("opset_import", "OperatorSetIdProto", True), 10: ("domain", _TEXT, False),
        11: ("attribute_proto", "AttributeProto", True), 13: ("overload", _TEXT, False),
    },
    "GraphProto": {
        1: ("node", "NodeProto", True), 2: ("name", _TEXT, False),
        5: ("initializer", "TensorProto", True), 11: ("input", "ValueInfoProto", True),
        12: ("output", "ValueInfoProto", True), 13: ("value_info", "ValueInfoProto", True),
        15: ("sparse_initializer", "SparseTensorProto", True),
    },
    "NodeProto": {
        1: ("input", _TEXT, True), 2: ("output", _TEXT, True), 3: ("name", _TEXT, False),
        4: ("op_type", _TEXT, False), 5: ("attribute", "AttributeProto", True),
        7: ("domain", _TEXT, False), 8: ("overload", _TEXT, False),
    },
    "AttributeProto": {
        1: ("name", _TEXT, False), 2: ("f", _FLOAT, False), 3: ("i", _INT, False),
        4: ("s", _BYTES, False), 5: ("t", "TensorProto", False), 6: ("g", "GraphProto", False),
        7: ("floats", _FLOAT, True), 8: ("ints", _INT, True), 9: ("strings", _BYTES, True),
        10: ("tensors", "TensorProto", True), 11: ("graphs", "GraphProto", True),
        14: ("tp", "TypeProto", False), 15: ("type_protos", "TypeProto", True),
        20: ("type", _INT, False), 21: ("ref_attr_name", _TEXT, False),
        22: ("sparse_tensor", "SparseTensorProto", False),
    },
    "TensorProto": {
        1: ("dims", _INT, True), 2: ("data_type", _INT, False), 4: ("float_data", _FLOAT, True),
        5: ("int32_data", _INT, True), 6: ("string_data", _BYTES, True),
        7: ("int64_data", _INT, True), 8: ("name", _TEXT, False), 9: ("raw_data", _SPAN, False),
        10: ("double_data", "double", True), 11: ("uint64_data", _INT, True),
        13: ("external_data", "StringStringEntryProto", True), 14: ("data_location", _INT, False),
    },
    "SparseTensorProto": {
        1: ("values", "TensorProto", False), 2: ("indices", "TensorProto", False),
        3: ("dims", _INT, True),
    },
    "ValueInfoProto": {1: ("name", _TEXT, False), 2: ("type", "TypeProto", False)},
    "TypeProto": {
        1: ("tensor_type", "TypeProto.Tensor", False), 4: ("sequence_type", "TypeProto.Wrapped", False),
        8: ("sparse_tensor_type", "TypeProto.Tensor", False),
        9: ("optional_type", "TypeProto.Wrapped", False),
    },
    "TypeProto.Tensor": {
        1: ("elem_type", _INT, False), 2: ("shape", "TensorShapeProto", False),
    },
    "TypeProto.Wrapped": {1: ("elem_type", "TypeProto", False)},
    "TensorShapeProto": {1: ("dim", "TensorShapeProto.Dimension", True)},
    "TensorShapeProto.Dimension": {1: ("dim_value", _INT, False), 2: ("dim_param", _TEXT, False)},
}  # fmt: skip

_WIRE_TYPES = {_INT: WireType.VARINT, _FLOAT: WireType.FIXED32, "double": WireType.FIXED64}


def _packed(reader: PBBufferedReader, kind: str) -> list[Any]:
    if kind == _INT:
        return reader.read_packed_int64s()
    numbers = array.array("f" if kind == _FLOAT else "d")
    data = reader.read_delimited()
    if len(data) % numbers.itemsize:
        raise ValueError(
            f"{len(data)} bytes hold no whole number of elements of {numbers.itemsize}"
        )
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def _single(reader: PBBufferedReader, kind: str, depth: int) -> Any:
    if kind == _INT:
        return reader.read_int64()
    if kind == _FLOAT:
        return reader.read_float()
    if kind == "double":
        return array.array("d", reader.take(8))[0]
    if kind == _TEXT:
        return reader.read_string()
    if kind == _BYTES:
        return reader.read_delimited()
    if kind == _SPAN:
        return reader.span()
    count = reader.length()
    outer, reader.limit = reader.limit, reader.tell() + count
    message = decode(reader, kind, depth + 1)
    reader.limit = outer
    return message


def decode(reader: PBBufferedReader, message: str, depth: int = 0) -> dict[str, Any]:
    """The message that fills the reader up to its limit.

    Raises ValueError for a malformed field or messages nested too deep, EOFError where one ends early.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"messages are nested more than {MAX_DEPTH} deep")
    fields = MESSAGES[message]
    found: dict[str, Any] = {}
    while reader.tell() < reader.limit:
        number, wire_type = reader.tag()
        if number not in fields:
            reader.skip_field(wire_type)
            continue
        name, kind, repeated = fields[number]
        expected = _WIRE_TYPES.get(kind, WireType.LENGTH_DELIMITED)
        if repeated and wire_type == WireType.LENGTH_DELIMITED and kind in _WIRE_TYPES:
            found.setdefault(name, []).extend(_packed(reader, kind))
        elif wire_type != expected:
            raise ValueError(
                f"{message}.{name} has wire type {wire_type.name}, not {expected.name}"
            )
        elif repeated:
            found.setdefault(name, []).append(_single(reader, kind, depth))
        else:
            found[name] = _single(reader, kind, depth)
    return found
