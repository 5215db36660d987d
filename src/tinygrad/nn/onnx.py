"""Running ONNX models: `OnnxRunner("model.onnx")({"input": x})`.

Re-exports what users import; the parts live in `tinygrad.nn.onnx_parts`.
"""

from __future__ import annotations

from typing import Any

import tinygrad.nn.onnx_parts.ops  # noqa: F401  (registers the operators)
from tinygrad.dtype import DType, dtypes
from tinygrad.nn.onnx_parts.kinds import (
    AttributeType,
    Domain,
    OnnxDataType,
    OnnxNode,
    OnnxValue,
    OpSetId,
    dtype_fallback,
    to_python_const,
)
from tinygrad.nn.onnx_parts.model import OnnxPBParser
from tinygrad.nn.onnx_parts.registry import all_operators
from tinygrad.nn.onnx_parts.runner import OnnxRunner
from tinygrad.nn.onnx_parts.wire import PBBufferedReader, WireType
from tinygrad.tensor import Tensor

__all__ = [
    "AttributeType", "DType", "Domain", "OnnxDataType", "OnnxNode", "OnnxPBParser", "OnnxRunner",
    "OnnxValue", "OpSetId", "PBBufferedReader", "Tensor", "WireType", "dtype_fallback", "dtypes",
    "get_onnx_ops", "to_python_const",
]  # fmt: skip


def get_onnx_ops() -> dict[str, Any]:
    """The function of each operator by name; by operator set where it changed between versions."""
    return all_operators()
