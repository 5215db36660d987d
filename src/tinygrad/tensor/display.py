"""What a tensor looks like as text: its values where they are in memory, else what is yet to be computed.

In: graph nodes. Out: text. Looking changes nothing: no kernel runs, no memory is allocated and no file is opened; of large
tensors only the elements that are shown are read. Called by `Tensor.__repr__`.
"""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

from tinygrad.device import Buffer, MultiBuffer
from tinygrad.dtype import dtypes, from_storage_scalar, storage_fmt_for_dtype
from tinygrad.engine.realize import current_capture
from tinygrad.uop.ops import GroupOp, Ops, UOp, buffers

# as NumPy: up to so many elements all are shown, of more the outer ones of each axis
_ALL, _EDGE = 1000, 3
# bytes that may be copied from a device for the sake of a text
_COPIED = 1 << 20

Places = list[tuple[int, ...]]
# what shows the values of its source as they are
_SAME = frozenset({Ops.COPY, Ops.CONTIGUOUS, Ops.DETACH})


def _through(u: UOp, places: Places) -> tuple[Places, list[bool]]:
    """Where the elements at `places` of a view lie in its source, and which of them lie there at all."""
    arg, shape, inside = u.marg, u.src[0].shape, [True] * len(places)
    if u.op is Ops.RESHAPE:
        weights = [math.prod(u.shape[i + 1 :]) for i in range(len(u.shape))]
        found = []
        for place in places:
            flat, parts = sum(p * w for p, w in zip(place, weights)), []
            for size in reversed(shape):
                flat, part = divmod(flat, size)
                parts.append(part)
            found.append(tuple(reversed(parts)))
        return found, inside
    if u.op is Ops.EXPAND:
        return [tuple(p if n > 1 else 0 for p, n in zip(q, shape)) for q in places], inside
    if u.op is Ops.PERMUTE:
        order = [arg.index(axis) for axis in range(len(arg))]
        return [tuple(q[axis] for axis in order) for q in places], inside
    if u.op is Ops.FLIP:
        return [
            tuple(n - 1 - p if turned else p for p, n, turned in zip(q, shape, arg)) for q in places
        ], inside
    sign = 1 if u.op is Ops.SHRINK else -1
    moved = [tuple(p + sign * a for p, (a, _) in zip(q, arg)) for q in places]
    return moved, [all(0 <= p < n for p, n in zip(q, shape)) for q in moved]


def _is_fixed(u: UOp) -> bool:
    """Whether a view is the same on every device and for every value of a variable."""
    arg = u.marg
    flat = [n for pair in arg for n in pair] if u.op in (Ops.PAD, Ops.SHRINK) else arg
    return all(isinstance(n, int) for n in (*flat, *u.src[0].shape))


def _memory(u: UOp, part: int) -> memoryview | None:
    """The bytes of a BUFFER node, if they can be seen without opening or allocating anything."""
    held: Any = buffers.get(u)
    held = held.bufs[part] if isinstance(held, MultiBuffer) else held
    if not isinstance(held, Buffer) or not held.is_initialized():
        return None
    try:
        if hasattr(held.allocator, "_as_buffer"):
            return held.as_buffer(allow_zero_copy=True)
        return held.as_buffer() if held.nbytes <= _COPIED else None
    except OSError:
        # a file that became shorter: whoever computes with it is told
        return None


def _of_parts(u: UOp, places: Places) -> list[Any] | None:
    """As `_elements`, of a tensor that is split over several devices."""
    axis, size = u.axis, u.src[0].shape
    values: list[Any] = [None] * len(places)
    for part in range(len(u.device) if axis is not None else 1):
        own = [i for i, q in enumerate(places) if axis is None or q[axis] // size[axis] == part]
        local = [tuple(p % n for p, n in zip(places[i], size)) for i in own]
        if (found := _elements(u.src[0], local, part)) is None:
            return None
        for i, value in zip(own, found):
            values[i] = value
    return values


def _elements(u: UOp, places: Places, part: int = 0) -> list[Any] | None:
    """The values at `places`, or None where they are not known yet; `part` is the number of the device."""
    while u.op in _SAME or u.op is Ops.MSTACK:
        u = u.src[part if u.op is Ops.MSTACK else 0]
    if u.op is Ops.MULTI:
        return _of_parts(u, places)
    if u.op is Ops.CONST:
        return [u.arg] * len(places)
    if u.op in GroupOp.Movement:
        if not _is_fixed(u):
            return None
        below, inside = _through(u, places)
        found = _elements(u.src[0], [q for q, there in zip(below, inside) if there], part)
        if found is None:
            return None
        values = iter(found)
        return [next(values) if there else 0 for there in inside]
    if u.op is not Ops.BUFFER:
        return None
    memory, dtype = _memory(u, part), u.dtype.base
    code = storage_fmt_for_dtype(dtype)
    if memory is None or code is None:
        return None
    one = struct.Struct(f"={code}")
    raw = (one.unpack_from(memory, q[0] * dtype.itemsize)[0] for q in places)
    return [from_storage_scalar(value, dtype) for value in raw]


def _shown_axis(size: int, shorten: bool) -> list[int]:
    """Which entries of an axis are looked at; one more than is shown, so that NumPy leaves it out."""
    if not shorten or size <= 2 * _EDGE:
        return list(range(size))
    return [*range(_EDGE + 1), *range(size - _EDGE, size)]


def values_text(u: UOp) -> str | None:
    """The elements as NumPy prints them, or None where that would take work."""
    shape: Any = u.shape
    known = all(isinstance(size, int) for size in shape)
    if not known or current_capture() is not None or u.dtype.base in (dtypes.void, dtypes.index):
        return None
    shorten = math.prod(shape) > _ALL
    axes = [_shown_axis(size, shorten) for size in shape]
    try:
        values = _elements(u, list(itertools.product(*axes)))
    except NotImplementedError:
        return None
    if values is None:
        return None
    import numpy as np

    # NumPy's type, where it has one, tells how many digits there are
    array = np.empty(len(values), dtype=u.dtype.base.fmt or np.float32)
    array[:] = values
    return np.array2string(
        array.reshape([len(axis) for axis in axes]), separator=", ", prefix="Tensor(",
        threshold=0 if shorten else _ALL, edgeitems=_EDGE,
    )  # fmt: skip


def graph_text(u: UOp, depth: int = 2) -> str:
    """The outermost operations of a node: `ADD(MUL(BUFFER, CONST), BUFFER)`."""
    while u.op in GroupOp.Movement or u.op in (Ops.MULTI, Ops.DETACH):
        u = u.src[0]
    sources = [s for s in u.src if s._shape is not None]
    if not sources or u.op in (Ops.BUFFER, Ops.CONST):
        return u.op.name
    if depth == 0:
        return f"{u.op.name}(...)"
    return f"{u.op.name}({', '.join(graph_text(s, depth - 1) for s in sources)})"


def _origin(u: UOp) -> str:
    text = graph_text(u)
    if text != Ops.BUFFER.name:
        return f"computed by {text}"
    return "in memory" if u.is_realized else "without memory"


def summary(t: Any) -> str:
    """Device, shape and dtype."""
    return f"<UOp {t.device} {t.shape} {_name(t)}>"


def _name(t: Any) -> str:
    return repr(t.dtype).removeprefix("dtypes.")


def describe(t: Any) -> str:
    """A tensor as text; see the module."""
    grad = None if t.grad is None else summary(t.grad)
    text = values_text(t.uop)
    if text is None:
        # drop-in: the form that programs know, with what is to be computed
        return f"<Tensor {summary(t)} on {t.device} with grad {grad}, {_origin(t.uop)}>"
    parts = [text, f"dtype={_name(t)}", f"device={t.device!r}"]
    if 0 in t.shape:
        parts.insert(1, f"shape={t.shape}")
    if t.grad is not None:
        parts.append(f"grad={values_text(t.grad.uop) or grad}")
    elif t.requires_grad:
        parts.append("requires_grad=True")
    return f"Tensor({', '.join(parts)})"
