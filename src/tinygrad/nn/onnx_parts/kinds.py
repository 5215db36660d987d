"""The vocabulary of ONNX models: element types, attribute types, domains, nodes and value descriptions.

Numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import numpy as np

from tinygrad.device import is_dtype_supported
from tinygrad.dtype import DType, dtypes
from tinygrad.helpers import DEBUG
from tinygrad.nn.onnx_parts import narrow
from tinygrad.tensor import Tensor


class AttributeType(enum.IntEnum):
    """AttributeProto.AttributeType, as far as operators of inference models use it."""

    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8


class Domain(enum.Enum):
    """Operator sets with a name of their own."""

    # of the standard, and of its machine learning and training parts
    ONNX = "ai.onnx"
    ONNX_ML = f"{ONNX}.ml"
    AI_ONNX_TRAINING = f"{ONNX}.training"
    AI_ONNX_PREVIEW_TRAINING = f"{ONNX}.preview.training"
    # of ONNX Runtime and of PyTorch
    PYTORCH_ATEN = "org.pytorch.aten"
    MICROSOFT_CONTRIB_OPS = "com.microsoft"
    MICROSOFT_EXPERIMENTAL = f"{MICROSOFT_CONTRIB_OPS}.experimental"
    MICROSOFT_NCHWC = f"{MICROSOFT_CONTRIB_OPS}.nchwc"


def domain_named(name: str) -> Domain | str:
    """The domain of that name (the empty one is ai.onnx); the name itself for a domain of the model."""
    try:
        return Domain(name or "ai.onnx")
    except ValueError:
        return name


class OpSetId(NamedTuple):
    """A domain and the version of its operator set."""

    domain: Domain | str
    version: int


class OnnxDataType(enum.IntEnum):
    """TensorProto.DataType of the types that have a dtype."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    BFLOAT16 = 16

    def to_dtype(self) -> DType:
        """The dtype of the elements."""
        return DTYPES[int(self)]


STRING = 8
DTYPES: dict[int, DType] = {
    1: dtypes.float32, 2: dtypes.uint8, 3: dtypes.int8, 4: dtypes.uint16, 5: dtypes.int16,
    6: dtypes.int32, 7: dtypes.int64, 9: dtypes.bool, 10: dtypes.float16, 11: dtypes.float64,
    12: dtypes.uint32, 13: dtypes.uint64, 16: dtypes.bfloat16, 17: dtypes.fp8e4m3,
    19: dtypes.fp8e5m2,
}  # fmt: skip
_LEGACY_NAMES = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
    "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13,
}  # fmt: skip


def element_dtype(kind: int | str) -> DType:
    """The dtype of a TensorProto.DataType number (or name, as in opset 1); of narrow types the one that holds them.

    Raises NotImplementedError for strings, complex numbers and other types without a dtype.
    """
    number = element_kind(kind)
    if number in narrow.KINDS:
        return narrow.wide_dtype(number)
    if number not in DTYPES:
        raise NotImplementedError(f"ONNX element type {kind} has no dtype; {sorted(DTYPES)} have")
    return DTYPES[number]


def element_kind(kind: int | str) -> int:
    """The number of a TensorProto.DataType, which opset 1 gave by name; 0 for an unknown name."""
    return _LEGACY_NAMES.get(kind.upper(), 0) if isinstance(kind, str) else kind


def usable_dtype(dtype: DType, context: str) -> DType:
    """`dtype` or what replaces it on the default device; 8-bit floats are converted everywhere."""
    return dtype if dtype in dtypes.fp8s else dtype_fallback(dtype, context)


def dtype_fallback(dtype: DType, fallback_context: str) -> DType:
    """`dtype`, or float32 (or int32) where the default device does not have it."""
    if is_dtype_supported(dtype):
        return dtype
    instead = dtypes.float32 if dtypes.is_float(dtype) else dtypes.int32
    if not is_dtype_supported(instead):
        raise RuntimeError(f"the device has neither {dtype} nor {instead}, for {fallback_context}")
    if DEBUG >= 1:
        print(f"{dtype} is not supported by the device, using {instead} for {fallback_context}")
    return instead


AxisSizes = tuple[str | int, ...]
ValueNames = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class OnnxValue:
    """Description of an input: axes are sizes or names, -1 or "" where nothing is known."""

    shape: AxisSizes
    dtype: DType
    is_optional: bool
    is_sequence: bool


@dataclasses.dataclass(frozen=True)
class OnnxNode:
    """One operator call: names of what it takes and gives ("" where left out), and attributes."""

    op: str
    opset_id: OpSetId
    inputs: ValueNames
    outputs: ValueNames
    opts: dict[str, Any]


def to_python_const(
    t: Any, op: str, idx: int
) -> list[float | int | bool] | float | int | bool | bytes:
    """Input `idx` of operator `op` as Python numbers: bytes for uint8, a number for a scalar, else a list.

    What is no tensor passes through unchanged.

    >>> from tinygrad.nn.onnx import to_python_const
    >>> to_python_const(Tensor([1, 2]), "Reshape", 1)
    [1, 2]
    """
    if isinstance(t, np.ndarray):
        return t.tobytes() if t.dtype == np.uint8 else t.tolist()
    if not isinstance(t, Tensor):
        return t
    if t.dtype is dtypes.uint8:
        return t.data().tobytes()
    numbers: Any = [] if 0 in t.shape else t.tolist()
    return numbers
