"""Turns what a user hands to `Tensor(...)` into a graph node.

In: a number, nested sequence, bytes, NumPy array, path, symbolic node or None. Out: a UOp that holds
the data, on the device that is cheapest for it (constants on the wanted device, bytes in host
storage); `Tensor.__init__` moves it. Nothing here runs a kernel.
"""

from __future__ import annotations

import pathlib
import struct
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
from tinygrad.helpers import is_numpy_ndarray, prod
from tinygrad.uop.ops import Ops, UOp

# storage-only devices: where bytes that Python holds, arrays and files live before they are copied
HOST_STORAGE = "PYTHON"
ARRAY_STORAGE = "NPY"
FILE_STORAGE = "DISK"


def get_shape(x) -> tuple[int, ...]:
    """Shape of a nested sequence; `()` for anything that cannot be indexed.

    Raises ValueError where sequences of one level differ in shape.
    """
    if not hasattr(x, "__len__") or not hasattr(x, "__getitem__") or isinstance(x, str):
        return ()
    if hasattr(x, "shape"):
        return tuple(x.shape)
    inner = [get_shape(entry) for entry in x]
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
    """The dtype a list of Python numbers gets: the widest of bool, int and float in it."""
    if not values:
        return dtypes.default_float
    if all(isinstance(v, bool) for v in values):
        return dtypes.bool
    if not all(isinstance(v, int) for v in values):
        return dtypes.default_float
    chosen = dtypes.default_int
    if any(not dtypes.min(chosen) <= v <= dtypes.max(chosen) for v in values):
        return dtypes.int64
    return chosen


def stored(data: bytearray | memoryview, shape: tuple, dtype: DType, device: str = HOST_STORAGE):
    """A node of `shape` whose buffer is `data` itself (not copied), on a storage device."""
    flat = UOp.new_buffer(device, prod(shape), dtype)
    flat.buffer.allocate(memoryview(data) if isinstance(data, bytearray) else data)
    return flat if shape == (flat.size,) else flat.reshape(shape)


def from_sequence(data: list | tuple, dtype: DType) -> UOp:
    """Packs nested numbers as `dtype`, rounding or wrapping each value as the dtype does."""
    shape = get_shape(data)
    values = flat_values(data)
    for value in values:
        if not isinstance(value, (int, float)):
            raise TypeError(
                f"a tensor is built from numbers, got {type(value).__name__} {value!r}: "
                "use Tensor.stack to join tensors"
            )
    code = storage_fmt_for_dtype(dtype)
    if code is None:
        raise TypeError(f"values of {dtype} cannot be stored: choose another dtype")
    rounded = truncate[dtype]
    packed = [to_storage_scalar(rounded(dtypes.as_const(v, dtype)), dtype) for v in values]
    return stored(bytearray(struct.pack(f"{len(packed)}{code}", *packed)), shape, dtype)


def array_dtype(array) -> DType:
    """The dtype of a NumPy array. Raises TypeError for kinds that tensors do not have."""
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
    if dtype is dtypes.bfloat16 and is_numpy_ndarray(data):
        return dtypes.float32
    return dtype


def from_array(array) -> UOp:
    """A NumPy array as it is; the array is kept alive by the buffer. 0-d arrays become constants."""
    dtype = array_dtype(array)
    if array.ndim == 0:
        return UOp.const(dtype, array.item(), HOST_STORAGE, ())
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    flat = UOp.new_buffer(ARRAY_STORAGE, array.size, dtype)
    flat.buffer.allocate(array)
    return flat.reshape(tuple(array.shape))


def from_file(path: pathlib.Path, dtype: DType) -> UOp:
    """The whole file as a flat tensor of `dtype` on the file device; nothing is read yet."""
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
    if hasattr(data, "dtype") and hasattr(data, "item") and getattr(data, "shape", None) == ():
        return UOp.const(array_dtype(data), data.item(), device, ())
    if isinstance(data, (bool, int, float)):
        kind = dtype or infer_dtype([data])
        if unique:
            return UOp.unique_const(kind, dtypes.as_const(data, kind), device)
        return UOp.const(kind, dtypes.as_const(data, kind), device, ())
    if isinstance(data, (bytes, bytearray, memoryview)):
        raw = stored(bytearray(data), (len(data),), dtypes.uint8)
        return raw if dtype in (None, dtypes.uint8) else raw.bitcast(dtype)
    if isinstance(data, (list, tuple)):
        return from_sequence(data, dtype or infer_dtype(flat_values(data)))
    if is_numpy_ndarray(data):
        return from_array(data)
    if isinstance(data, pathlib.Path):
        return from_file(data, dtype or dtypes.uint8)
    raise RuntimeError(
        f"cannot make a tensor from {type(data).__name__} {data!r}: give a number, a nested list or "
        "tuple, bytes, a NumPy array, a path or a UOp"
    )
