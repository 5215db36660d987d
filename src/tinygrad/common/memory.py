"""Raw memory: between memoryviews, addresses and ctypes objects. Nothing here copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def from_mv(mv: memoryview, to_type: type[Any] = ctypes.c_char) -> ctypes.Array:
    """A ctypes array over the memory of a contiguous view; it keeps the view's owner alive.

    >>> list(from_mv(memoryview(bytearray([1, 2])), ctypes.c_uint8))
    [1, 2]
    """
    count = mv.nbytes // ctypes.sizeof(to_type)
    array: type[ctypes.Array] = to_type * count
    return array.from_address(mv_address(mv)) if mv.readonly else array.from_buffer(mv)


def to_mv(ptr: int, sz: int) -> memoryview:
    """A byte view of `sz` bytes at address `ptr`. The caller keeps that memory alive."""
    return memoryview((ctypes.c_uint8 * sz).from_address(ptr)).cast("B")


def mv_address(mv: Any) -> int:
    """The address of the first byte of a contiguous buffer, read-only ones included; 0 for an empty one."""
    view = memoryview(mv)
    if view.nbytes == 0:
        return 0
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view))
    import numpy as np

    return np.frombuffer(view.cast("B"), dtype=np.uint8).ctypes.data


def flat_mv(mv: memoryview) -> memoryview:
    """The same memory as a flat view of its element type.

    >>> flat_mv(memoryview(bytearray(4)).cast("B", (2, 2))).shape
    (4,)
    """
    if mv.nbytes == 0:
        return mv
    code: Any = mv.format
    return mv.cast("B").cast(code, (mv.nbytes // mv.itemsize,))


def to_char_p_p(options: list[bytes], to_type: type = ctypes.c_char) -> Any:
    """A C array of pointers to NUL-terminated strings."""
    pointers: list[Any] = [
        ctypes.cast(ctypes.create_string_buffer(o), ctypes.POINTER(to_type)) for o in options
    ]
    return (ctypes.POINTER(to_type) * len(options))(*pointers)


def init_c_var(ctypes_var: Any, creat_cb: Callable[[Any], Any]) -> Any:
    """Passes a fresh C variable to `creat_cb`, which fills it, and returns it."""
    var = ctypes_var() if isinstance(ctypes_var, type) else ctypes_var
    creat_cb(var)
    return var


def init_c_struct_t(fields: tuple[tuple[str, type], ...]) -> type[ctypes.Structure]:
    """A packed C structure type with these fields."""
    return type(
        "CStruct", (ctypes.Structure,), {"_pack_": 1, "_layout_": "ms", "_fields_": list(fields)}
    )
