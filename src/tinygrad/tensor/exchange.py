"""Memory of other libraries: what an object that speaks DLPack, the buffer protocol or NumPy's holds.

In: arrays of PyTorch, JAX, CuPy and others, `array.array`, memoryviews. Out: NumPy arrays that show the same memory, with the
dtype of the elements (NumPy lacks bfloat16 and 8-bit floats: those come as words), or `Borrowed` memory as it is. Used by
`source` to build tensors from values, and by `interop` to share memory. Nothing here copies or runs a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad._core.exchange import HOST, Borrowed
from tinygrad.dtype import DType, dtypes
from tinygrad.helpers import prod

if TYPE_CHECKING:
    import numpy

# (type code, bits) of DLPack; the codes of 8-bit floats came with version 1.1
_ELEMENTS: dict[DType, tuple[int, int]] = {
    dtypes.int8: (0, 8), dtypes.int16: (0, 16), dtypes.int32: (0, 32), dtypes.int64: (0, 64),
    dtypes.uint8: (1, 8), dtypes.uint16: (1, 16), dtypes.uint32: (1, 32), dtypes.uint64: (1, 64),
    dtypes.float16: (2, 16), dtypes.float32: (2, 32), dtypes.float64: (2, 64),
    dtypes.bfloat16: (4, 16), dtypes.bool: (6, 8), dtypes.fp8e4m3: (10, 8), dtypes.fp8e5m2: (12, 8),
}  # fmt: skip
_DTYPES = {element: dtype for dtype, element in _ELEMENTS.items()}
_KINDS = {0: "int", 1: "uint", 2: "float", 3: "pointers of", 4: "bfloat", 5: "complex", 6: "bool"}
# memory that the host can read: its own, and what it shares with CUDA and ROCm
_READABLE = frozenset({1, 3, 11})
# what travels as words of its size, since NumPy has no such type
AS_WORDS = {dtypes.bfloat16: "<u2", dtypes.fp8e4m3: "|u1", dtypes.fp8e5m2: "|u1"}


def element_code(dtype: DType) -> tuple[int, int]:
    """DLPack's (type code, bits). Raises BufferError for a dtype that it lacks."""
    if dtype not in _ELEMENTS:
        raise BufferError(f"DLPack has no element type for {dtype}: cast it first")
    return _ELEMENTS[dtype]


def element_dtype(element: tuple[int, int, int]) -> DType:
    """The dtype of (type code, bits, lanes). Raises TypeError for elements that tensors do not have."""
    code, bits, lanes = element
    if lanes != 1 or (code, bits) not in _DTYPES:
        kind = f"{_KINDS.get(code, f'type {code} of')}{bits}" + (
            f" x {lanes}" if lanes != 1 else ""
        )
        raise TypeError(
            f"a tensor cannot hold elements of {kind}: convert them to another type first"
        )
    return _DTYPES[code, bits]


def borrow(x: Any) -> Borrowed:
    """The memory behind `x.__dlpack__()`. Raises BufferError for what the host cannot read."""
    place = tuple(x.__dlpack_device__()) if hasattr(x, "__dlpack_device__") else HOST
    if place[0] not in _READABLE:
        raise BufferError(
            f"the {type(x).__name__} lies on device {place} of DLPack, which the host cannot read: "
            "copy it to the host first (.cpu())"
        )
    try:
        return Borrowed(x.__dlpack__(max_version=(1, 0)))
    except TypeError as error:
        # before version 1.0 there was no such argument
        if "max_version" not in str(error):
            raise
        return Borrowed(x.__dlpack__())


def in_order(memory: Borrowed) -> bool:
    """Whether the elements lie side by side in row-major order."""
    step = 1
    for size, stride in zip(reversed(memory.shape), reversed(memory.strides)):
        if size != 1 and stride != step:
            return 0 in memory.shape
        step *= size
    return True


class _Shown:
    """Borrowed memory in the form that NumPy understands; keeps it."""

    def __init__(self, memory: Borrowed, code: str, size: int):
        self.memory = memory
        self.__array_interface__ = {
            "version": 3, "typestr": code, "shape": memory.shape,
            "strides": tuple(stride * size for stride in memory.strides),
            "data": (memory.address, memory.read_only),
        }  # fmt: skip


def as_array(memory: Borrowed) -> tuple[numpy.ndarray, DType]:
    """The elements as an array that shows the memory and keeps it, and their dtype."""
    import numpy as np

    dtype = element_dtype(memory.element)
    code = AS_WORDS.get(dtype) or np.dtype(dtype.fmt).str
    if prod(memory.shape) == 0:
        return np.empty(memory.shape, code), dtype
    return np.asarray(_Shown(memory, code, dtype.itemsize)), dtype


def typed_memory(x: Any) -> numpy.ndarray:
    """What the buffer protocol shows of `x`. Raises TypeError for a format that NumPy does not know."""
    import numpy as np

    view = memoryview(x)
    try:
        return np.asarray(view)
    except (ValueError, RuntimeError, NotImplementedError, BufferError) as error:
        raise TypeError(
            f"a tensor cannot hold the elements of {type(x).__name__}, whose format is "
            f"{view.format!r}: give numbers of one size ({error})"
        ) from error
