"""Turns what a user hands to `Tensor(...)` into a graph node.

In: a number, nested sequence, bytes, NumPy array, path, symbolic node or None. Out: a UOp that holds
the data, on the device that is cheapest for it (constants on the wanted device, bytes in host
storage); `Tensor.__init__` moves it. Nothing here runs a kernel.
"""

from __future__ import annotations

import pathlib
import struct
import sys
from collections.abc import Sequence
from typing import Any

from tinygrad.dtype import (
    DType,
    _from_np_dtype,
    dtypes,
    storage_fmt_for_dtype,
    to_storage_scalar,
    truncate,
)
from tinygrad.helpers import prod
from tinygrad.tensor import exchange
from tinygrad.uop.ops import Ops, UOp

# storage-only devices: where bytes that Python holds, arrays and files live before they are copied
HOST_STORAGE = "PYTHON"
ARRAY_STORAGE = "NPY"
FILE_STORAGE = "DISK"


# as NumPy; a list that contains itself is found by it too
_MOST_AXES = 64


def get_shape(x, depth: int = 0) -> tuple[int, ...]:
    """Shape of a nested sequence; `()` for anything that cannot be indexed.

    Raises ValueError where sequences of one level differ in shape, or are nested more than 64 deep.
    """
    if not hasattr(x, "__len__") or not hasattr(x, "__getitem__") or isinstance(x, str):
        return ()
    if hasattr(x, "shape"):
        return tuple(x.shape)
    if depth == _MOST_AXES:
        raise ValueError(
            f"a sequence is nested more than {_MOST_AXES} deep: does it contain itself?"
        )
    inner = [get_shape(entry, depth + 1) for entry in x]
    if any(shape != inner[0] for shape in inner):
        raise ValueError(
            f"inhomogeneous shape: entries of one level have the shapes {sorted(set(inner))}; "
            "all of them must be equal"
        )
    return (len(inner), *(inner[0] if inner else ()))


def flat_values(x) -> list[Any]:
    """The numbers of a nested sequence in row-major order; NumPy scalars become Python ones."""
    if hasattr(x, "shape") and hasattr(x, "tolist"):
        value = x.tolist()
        return flat_values(value) if isinstance(value, list) else [value]
    if isinstance(x, (list, tuple, bytes, bytearray)):
        return [value for entry in x for value in flat_values(entry)]
    return [x]


def infer_dtype(values: Sequence[Any]) -> DType:
    """The dtype a list of Python numbers gets: the widest of bool, int and float in it.

    Integers take default_int, else the first of int64 and uint64 that holds them all. Raises
    OverflowError where none does.
    """
    if not values:
        return dtypes.default_float
    if all(isinstance(v, bool) for v in values):
        return dtypes.bool
    if not all(isinstance(v, int) for v in values):
        return dtypes.default_float
    least, greatest = min(values), max(values)
    for chosen in (dtypes.default_int, dtypes.int64, dtypes.uint64):
        if dtypes.min(chosen) <= least and greatest <= dtypes.max(chosen):
            return chosen
    raise OverflowError(
        f"no integer dtype holds {least} and {greatest}: use floats, or give a dtype to wrap around to"
    )


def stored(data: bytearray | memoryview, shape: tuple, dtype: DType, device: str = HOST_STORAGE):
    """A node of `shape` whose buffer is `data` itself (not copied), on a storage device."""
    flat = UOp.new_buffer(device, prod(shape), dtype)
    flat.buffer.allocate(memoryview(data) if isinstance(data, bytearray) else data)
    return flat if shape == (flat.size,) else flat.reshape(shape)


def from_sequence(data: list | tuple, dtype: DType | None) -> UOp:
    """Packs nested numbers as `dtype` (None: what they need), rounding or wrapping each as the dtype does."""
    shape = get_shape(data)
    values = flat_values(data)
    for value in values:
        if not isinstance(value, (int, float)):
            raise TypeError(
                f"a tensor is built from numbers, got {type(value).__name__} {_short(value)}: give bools, ints "
                "or floats"
            )
    dtype = infer_dtype(values) if dtype is None else dtype
    code = storage_fmt_for_dtype(dtype)
    if code is None:
        raise TypeError(f"values of {dtype} cannot be stored: choose another dtype")
    rounded = truncate[dtype]
    packed = [to_storage_scalar(rounded(dtypes.as_const(v, dtype)), dtype) for v in values]
    return stored(bytearray(struct.pack(f"{len(packed)}{code}", *packed)), shape, dtype)


def is_array(data: Any) -> bool:
    """Whether `data` is an array or a scalar of NumPy, told without importing NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(data, (numpy.ndarray, numpy.generic))


# what the package ml_dtypes adds to NumPy
_ADDED_DTYPES = {
    "bfloat16": dtypes.bfloat16, "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2,
}  # fmt: skip


def from_bytes(data: bytearray, dtype: DType) -> UOp:
    """The elements of `dtype` that lie in the bytes. Raises ValueError for a part of one."""
    if len(data) % dtype.itemsize:
        raise ValueError(
            f"{len(data)} bytes are no whole number of {dtype}, {dtype.itemsize} bytes each"
        )
    return stored(data, (len(data) // dtype.itemsize,), dtype)


def array_dtype(array) -> DType:
    """The dtype of a NumPy array. Raises TypeError for kinds that tensors do not have."""
    added = _ADDED_DTYPES.get(array.dtype.name)
    if added is not None:
        return added
    try:
        return _from_np_dtype(array.dtype)
    except AttributeError:
        raise TypeError(
            f"a tensor cannot hold a NumPy array of {array.dtype}: convert it with .astype first"
        ) from None


def stored_dtype(data: Any, dtype: DType) -> DType:
    """The dtype that a tensor of `data` gets where `dtype` is asked for.

    drop-in: NumPy has no bfloat16, and an array asked to be bfloat16 stays at the float32 that stands for it there; a
    cast afterwards gives the narrow type.
    """
    if dtype is dtypes.bfloat16 and is_array(data) and data.ndim:
        return dtype if array_dtype(data) is dtype else dtypes.float32
    return dtype


def _holds_constant_bytes(array) -> bool:
    """Whether nobody can change the elements: the array looks at a `bytes` object."""
    base = array
    while base is not None and not isinstance(base, bytes):
        if getattr(getattr(base, "flags", None), "writeable", False):
            return False
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None


def from_array(array) -> UOp:
    """The values that a NumPy array has now; a later write to it does not show. 0-d arrays become constants."""
    if hasattr(array, "filled") and array.mask.any():
        raise TypeError("a tensor cannot hold a masked array: give array.filled(value)")
    dtype = array_dtype(array)
    words = array.view(exchange.AS_WORDS[dtype]) if dtype in exchange.AS_WORDS else array
    if not array.ndim and words is array:
        return UOp.const(dtype, array.item(), HOST_STORAGE, ())
    native = words.dtype.newbyteorder("=")
    if words.dtype != native or not words.flags.c_contiguous or not _holds_constant_bytes(words):
        words = words.astype(native, order="C", subok=False, copy=True)
    return _in_array(words, dtype)


def _in_array(words, dtype: DType) -> UOp:
    """A node whose buffer is a contiguous array, of the elements or of words of their size."""
    flat = UOp.new_buffer(ARRAY_STORAGE, words.size, dtype)
    flat.buffer.allocate(words)
    return flat.reshape(tuple(words.shape))


def from_borrowed(memory: exchange.Borrowed) -> UOp:
    """The values that memory of another library has now."""
    array, dtype = exchange.as_array(memory)
    return _in_array(array.copy(order="C"), dtype)


def from_file(path: pathlib.Path, dtype: DType) -> UOp:
    """The whole file as a flat tensor of `dtype` on the file device; nothing is read yet.

    Raises FileNotFoundError or IsADirectoryError where there is no file.
    """
    if path.is_dir():
        raise IsADirectoryError(f"a tensor is made from a file, got the directory {str(path)!r}")
    return UOp.new_buffer(
        f"{FILE_STORAGE}:{path.resolve()}", path.stat().st_size // dtype.itemsize, dtype
    )


def from_symbolic(value: UOp, device) -> UOp:
    """A bound variable as a scalar with a device; any other node unchanged."""
    if value.op is not Ops.BIND:
        return value
    variable, number = value.unbind()
    placed = UOp.const(variable.dtype, number, device, ())
    return value.replace(src=(variable.replace(src=placed.src), placed))


def to_node(data: Any, dtype: DType | None, device, unique: bool) -> UOp:
    """The node for `data`. `unique` gives a constant an identity of its own."""
    if isinstance(data, UOp):
        return from_symbolic(data, device)
    if data is None:
        return (
            UOp.const(dtype or dtypes.default_float, 0, device, ()).reshape((1,)).shrink(((0, 0),))
        )
    # NumPy scalars come first: float64 is a Python float too
    if is_array(data):
        if data.ndim:
            return from_array(data)
        return UOp.const(array_dtype(data), data.item(), device, ())
    if isinstance(data, (bool, int, float)):
        kind = dtype or infer_dtype([data])
        if unique:
            return UOp.unique_const(kind, dtypes.as_const(data, kind), device)
        return UOp.const(kind, dtypes.as_const(data, kind), device, ())
    if isinstance(data, (bytes, bytearray)):
        return from_bytes(bytearray(data), dtype or dtypes.uint8)
    if isinstance(data, (list, tuple)):
        return from_sequence(data, dtype)
    if isinstance(data, pathlib.Path):
        return from_file(data, dtype or dtypes.uint8)
    if (node := _from_protocols(data)) is not None:
        return node
    raise RuntimeError(
        f"cannot make a tensor from {type(data).__name__} {_short(data)}: give a number, a nested list or "
        "tuple, bytes, an array of any library, a path or a UOp"
    )


def _from_protocols(data: Any) -> UOp | None:
    """The values of an object of another library, by whichever protocol it speaks; None where by none."""
    if isinstance(data, type):
        return None
    if hasattr(data, "__dlpack__"):
        return from_borrowed(exchange.borrow(data))
    try:
        memoryview(data)
    except TypeError:
        if not any(hasattr(data, name) for name in ("__array__", "__array_interface__")):
            return None
        import numpy as np

        return from_array(np.asarray(data))
    return from_array(exchange.typed_memory(data))


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) < 100 else f"{text[:97]}..."
