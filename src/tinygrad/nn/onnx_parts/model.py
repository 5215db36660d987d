"""From the messages of a model file to graphs of nodes.

Small tensors become NumPy arrays at once, large ones `Weight`s that read their bytes when they are
first needed. External data is looked for only in the folder of the model.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from typing import Any

import numpy as np

from tinygrad.dtype import DType, dtypes
from tinygrad.nn.onnx_parts import kinds, narrow, schema
from tinygrad.nn.onnx_parts.kinds import OnnxNode, OnnxValue, OpSetId
from tinygrad.nn.onnx_parts.narrow import Narrow
from tinygrad.nn.onnx_parts.wire import PBBufferedReader
from tinygrad.tensor import Tensor

# elements up to which a tensor of the file is read at once: shapes, axes, scales, limits
SMALL = 64
_EXTERNAL = 1
_NUMPY = {
    dtypes.float32: "<f4", dtypes.uint8: "u1", dtypes.int8: "i1", dtypes.uint16: "<u2",
    dtypes.int16: "<i2", dtypes.int32: "<i4", dtypes.int64: "<i8", dtypes.bool: "?",
    dtypes.float16: "<f2", dtypes.float64: "<f8", dtypes.uint32: "<u4", dtypes.uint64: "<u8",
    dtypes.bfloat16: "<u2", dtypes.fp8e4m3: "u1", dtypes.fp8e5m2: "u1",
}  # fmt: skip
# types NumPy lacks travel as words of the same size
_AS_WORDS = (dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2)


@dataclasses.dataclass(frozen=True)
class AttributeReference:
    """Stands in a function's body for an attribute of the call."""

    name: str


@dataclasses.dataclass(frozen=True)
class Graph:
    """Nodes in the order to run them, and the names that go in and out."""

    nodes: tuple[OnnxNode, ...]
    inputs: dict[str, OnnxValue]
    outputs: tuple[str, ...]
    initializers: dict[str, Any]
    # ONNX types of inputs that no dtype tells
    narrow_inputs: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Function:
    """An operator that the model itself defines."""

    nodes: tuple[OnnxNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: dict[str, Any]


def tensor_from_array(array: np.ndarray, dtype: DType | None = None) -> Tensor:
    """A tensor of `dtype` from the array that holds its elements, or their bits where NumPy lacks it."""
    # a copy: the array may be a view of bytes that cannot be written
    plain = Tensor(np.array(array, dtype=array.dtype.newbyteorder("=")))
    return plain.bitcast(dtype) if dtype in _AS_WORDS else plain


class Weight:
    """A tensor of the file that is read when it is first needed."""

    def __init__(self, source: Tensor, start: int, end: int, dtype: DType, shape: tuple[int, ...]):
        self.source, self.start, self.end = source, start, end
        self.dtype, self.shape = dtype, shape

    def array(self) -> np.ndarray:
        """The elements, or their bits where NumPy lacks the type."""
        data = self.source[self.start : self.end].data() if self.end > self.start else b""
        return np.frombuffer(data, dtype=_NUMPY[self.dtype]).reshape(self.shape)

    def tensor(self) -> Tensor:
        """The elements as a tensor on the default device."""
        return tensor_from_array(self.array(), self.dtype).realize()


class ModelReader:
    """Builds graphs from decoded messages."""

    def __init__(self, reader: PBBufferedReader, folders: tuple[pathlib.Path, ...], external: bool):
        self.reader, self.folders, self.external = reader, folders, external
        self._files: dict[pathlib.Path, Tensor] = {}

    def model(self, message: dict[str, Any]) -> dict[str, Any]:
        """Graph, functions and versions of a ModelProto. Raises ValueError where there is no graph."""
        if "graph" not in message:
            raise ValueError("the file is no ONNX model: it has no graph")
        versions = self._versions(message)
        functions = {}
        for entry in message.get("functions", []):
            key = (kinds.domain_named(entry.get("domain", "")), entry.get("name", ""))
            functions[key] = self._function(entry, versions)
        about = {
            k: v for k, v in message.items() if k not in ("graph", "functions", "opset_import")
        }
        return {
            **about, "opset_import": versions, "graph": self._graph(message["graph"], versions),
            "functions": functions,
        }  # fmt: skip

    def _versions(self, message: dict[str, Any]) -> dict[Any, int]:
        entries = message.get("opset_import", [])
        return {kinds.domain_named(e.get("domain", "")): e.get("version", 1) for e in entries}

    def _function(self, message: dict[str, Any], versions: dict[Any, int]) -> Function:
        own = {**versions, **self._versions(message)}
        defaults = dict.fromkeys(message.get("attribute", []))
        for attribute in message.get("attribute_proto", []):
            defaults[attribute.get("name", "")] = self._attribute(attribute, own)
        nodes = tuple(self._node(node, own) for node in message.get("node", []))
        return Function(
            nodes, tuple(message.get("input", [])), tuple(message.get("output", [])), defaults
        )

    def _graph(self, message: dict[str, Any], versions: dict[Any, int]) -> Graph:
        initializers = {t.get("name", ""): self.tensor(t) for t in message.get("initializer", [])}
        for sparse in message.get("sparse_initializer", []):
            initializers[sparse.get("values", {}).get("name", "")] = self._sparse(sparse)
        inputs = {
            value.get("name", ""): self._value(value.get("type", {}))
            for value in message.get("input", [])
        }
        element_types = {
            value.get("name", ""): _tensor_type(value.get("type", {})).get("elem_type", 0)
            for value in message.get("input", [])
        }
        return Graph(
            tuple(self._node(node, versions) for node in message.get("node", [])),
            inputs,
            tuple(value.get("name", "") for value in message.get("output", [])),
            initializers,
            {name: kind for name, kind in element_types.items() if kind in narrow.KINDS},
        )

    def _node(self, message: dict[str, Any], versions: dict[Any, int]) -> OnnxNode:
        domain = kinds.domain_named(message.get("domain", ""))
        opts = {}
        for attribute in message.get("attribute", []):
            opts[attribute.get("name", "")] = self._attribute(attribute, versions)
        return OnnxNode(
            message.get("op_type", ""),
            OpSetId(domain, versions.get(domain, 1)),
            tuple(message.get("input", [])),
            tuple(message.get("output", [])),
            opts,
        )

    def _attribute(self, message: dict[str, Any], versions: dict[Any, int]) -> Any:
        if message.get("ref_attr_name"):
            return AttributeReference(message["ref_attr_name"])
        # zero and empty values may be left out: the type says what was meant
        empty = {
            1: ("f", 0.0),
            2: ("i", 0),
            3: ("s", b""),
            6: ("floats", []),
            7: ("ints", []),
            8: ("strings", []),
        }
        for field in ("g", "graphs", "t", "tensors", "sparse_tensor", "tp", "type_protos"):
            if field in message:
                return self._message_attribute(field, message[field], versions)
        kind = message.get("type", 0)
        field, default = empty.get(kind, ("", None))
        if kind not in empty:
            field = next((f for f, _ in empty.values() if f in message), "")
        value = message.get(field, default)
        if isinstance(value, bytes):
            return _text(value)
        return [_text(v) for v in value] if field == "strings" else value

    def _message_attribute(self, field: str, value: Any, versions: dict[Any, int]) -> Any:
        if field == "g":
            return self._graph(value, versions)
        if field == "graphs":
            return [self._graph(graph, versions) for graph in value]
        if field == "t":
            return self.tensor(value)
        if field == "tensors":
            return [self.tensor(tensor) for tensor in value]
        if field == "sparse_tensor":
            return self._sparse(value)
        return value

    def _value(self, message: dict[str, Any]) -> OnnxValue:
        around = _wrappers(message)
        tensor = _tensor_type(message)
        dims = tensor.get("shape", {}).get("dim", [])
        shape = tuple(d.get("dim_value", d.get("dim_param", "")) for d in dims)
        kind = tensor.get("elem_type", 0)
        known = kind in kinds.DTYPES or kind in narrow.KINDS
        dtype = kinds.element_dtype(kind) if known else dtypes.void
        return OnnxValue(shape, dtype, "optional_type" in around, "sequence_type" in around)

    # *** tensors ***
    def tensor(self, message: dict[str, Any]) -> Any:
        """A TensorProto as an array (small), a Weight (large) or a Tensor (types NumPy lacks)."""
        shape, kind = tuple(message.get("dims", [])), message.get("data_type", 0)
        name = message.get("name", "")
        if any(n < 0 for n in shape):
            raise ValueError(f"tensor {name!r} has the shape {shape}")
        if kind == kinds.STRING:
            texts = [_text(s) for s in message.get("string_data", [])]
            return _filled(np.array(texts, dtype=object), shape, name)
        dtype = kinds.element_dtype(kind)
        count = math.prod(shape)
        size = narrow.bytes_of(kind, count) if kind in narrow.KINDS else count * dtype.itemsize
        if message.get("data_location", 0) == _EXTERNAL:
            weight = self._external(message, size, dtype, shape)
        elif "raw_data" in message:
            begin, end = message["raw_data"]
            weight = Weight(self.reader.tensor, begin, end, dtype, shape)
        else:
            if kind in narrow.KINDS:
                return Narrow(kind, _typed_codes(message, kind, shape, name))
            return _plain(_typed(message, dtype, shape, name), dtype)
        if weight.end - weight.start != size:
            raise ValueError(
                f"tensor {name!r} of shape {shape} and {dtype} needs {size} bytes, "
                f"got {weight.end - weight.start}"
            )
        if kind in narrow.KINDS:
            codes = Weight(weight.source, weight.start, weight.end, dtypes.uint8, (size,)).array()
            if kind in narrow.PACKED:
                codes = narrow.unpacked(codes, count, narrow.PACKED[kind])
            return Narrow(kind, narrow.decoded(codes, kind).reshape(shape))
        return _plain(weight.array(), dtype) if count <= SMALL else weight

    def _external(self, message: dict[str, Any], size: int, dtype: DType, shape) -> Weight:
        entries = {e.get("key", ""): e.get("value", "") for e in message.get("external_data", [])}
        name, location = message.get("name", ""), entries.get("location", "")
        if not self.external:
            return Weight(self.reader.tensor, 0, size, dtype, shape)
        file = self._file(location, name)
        start = _whole(entries.get("offset", "0"), name)
        end = start + _whole(entries.get("length", str(size)), name)
        if end > len(file):
            raise ValueError(
                f"tensor {name!r} lies at {start}..{end} of {location!r}, which has {len(file)} bytes"
            )
        return Weight(file, start, end, dtype, shape)

    def _file(self, location: str, name: str) -> Tensor:
        """The external file. Raises ValueError where it would lie outside the folder of the model."""
        if not self.folders:
            raise ValueError(
                f"tensor {name!r} is in {location!r}: give the path of the model, not its bytes"
            )
        relative = pathlib.PurePosixPath(location.replace("\\", "/"))
        written = self.folders[0] / relative
        real = pathlib.Path(os.path.realpath(written))
        escapes = (
            relative.is_absolute() or ".." in relative.parts or not location or "\0" in location
        )
        if escapes or not any(real.is_relative_to(folder) for folder in self.folders):
            raise ValueError(
                f"tensor {name!r} is in {location!r}, outside the folder {self.folders[0]}"
            )
        if not real.is_file():
            raise FileNotFoundError(f"{written} with the values of tensor {name!r} does not exist")
        if real not in self._files:
            self._files[real] = Tensor(real)
        return self._files[real]

    def _sparse(self, message: dict[str, Any]) -> np.ndarray:
        """A sparse tensor, filled up. Raises ValueError for indices outside and sizes above a limit."""
        shape = tuple(message.get("dims", []))
        values, places = (
            _array(self.tensor(message["values"])),
            _array(self.tensor(message["indices"])),
        )
        if any(n < 0 for n in shape) or math.prod(shape) > 1 << 28:
            raise ValueError(f"a sparse tensor of shape {shape} is too large to fill up")
        flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)
        full = np.zeros(math.prod(shape), dtype=values.dtype)
        if flat.size and not (0 <= flat.min() and flat.max() < full.size):
            raise ValueError(f"a sparse tensor of shape {shape} has indices up to {flat.max()}")
        full[flat] = values
        return full.reshape(shape)


def _whole(text: str, name: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"tensor {name!r} has the offset or length {text!r}, expected a number")
    return int(text)


def _text(data: bytes) -> str | bytes:
    """Attribute strings are text in almost all operators; what is no UTF-8 stays bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _filled(array: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    if array.size != math.prod(shape):
        raise ValueError(f"tensor {name!r} of shape {shape} has {array.size} elements")
    return array.reshape(shape)


def _wrappers(message: dict[str, Any]) -> list[str]:
    """Which of optional_type and sequence_type are around the type of a tensor, outermost first."""
    found = []
    while kind := next((k for k in ("optional_type", "sequence_type") if k in message), ""):
        found.append(kind)
        message = message[kind].get("elem_type", {})
    return found


def _tensor_type(message: dict[str, Any]) -> dict[str, Any]:
    """The description of the tensor within a TypeProto."""
    for kind in _wrappers(message):
        message = message[kind].get("elem_type", {})
    return message.get("tensor_type", message.get("sparse_tensor_type", {}))


def _typed_codes(message: dict[str, Any], kind: int, shape, name: str) -> np.ndarray:
    """Elements of a narrow type from the field for numbers: codes, or pairs of them."""
    codes = np.array(message.get("int32_data", []), dtype=np.int64).astype(np.uint8)
    if kind in narrow.PACKED:
        codes = narrow.unpacked(codes, math.prod(shape), narrow.PACKED[kind])
    return narrow.decoded(_filled(codes, shape, name), kind)


def _typed(message: dict[str, Any], dtype: DType, shape, name: str) -> np.ndarray:
    """Elements from the fields for numbers; 16-bit floats and smaller types travel as 32-bit words."""
    if dtype is dtypes.float32:
        numbers = message.get("float_data", [])
    elif dtype is dtypes.float64:
        numbers = message.get("double_data", [])
    elif dtype is dtypes.int64:
        numbers = message.get("int64_data", [])
    elif dtype in (dtypes.uint32, dtypes.uint64):
        numbers = message.get("uint64_data", [])
    else:
        numbers = message.get("int32_data", [])
    if dtypes.is_float(dtype) and dtype.itemsize >= 4:
        return _filled(np.array(numbers, dtype=_NUMPY[dtype]), shape, name)
    words = _filled(np.array(numbers, dtype=np.int64), shape, name)
    if dtype is dtypes.float16:
        return words.astype(np.uint16).view(np.float16)
    return words.astype(_NUMPY[dtype])


def _plain(array: np.ndarray, dtype: DType) -> Any:
    """The array itself, or a tensor where NumPy lacks the type."""
    return tensor_from_array(array, dtype) if dtype in _AS_WORDS else array


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Weight):
        return value.array()
    value = value.tensor if isinstance(value, Narrow) else value
    return value.numpy() if isinstance(value, Tensor) else value


class OnnxPBParser:
    """Parses a model: the path of its file, or its bytes as a 1-d uint8 tensor."""

    def __init__(self, inp: Tensor | str | pathlib.Path, load_external_data: bool = True):
        folders: tuple[pathlib.Path, ...] = ()
        if not isinstance(inp, Tensor):
            path = pathlib.Path(inp)
            # a cache may keep the file and its data elsewhere, behind links
            folders = (path.parent.resolve(), path.resolve().parent)
        self.tensor = inp if isinstance(inp, Tensor) else Tensor(pathlib.Path(inp))
        self._external, self._folders = load_external_data, folders

    def parse(self) -> dict:
        """The model: "graph" (a Graph), "functions", "opset_import" and what the file says about itself.

        Raises ValueError or EOFError for a damaged file, NotImplementedError for element types without a
        dtype.
        """
        reader = PBBufferedReader(self.tensor)
        message = schema.decode(reader, "ModelProto")
        return ModelReader(reader, self._folders, self._external).model(message)
