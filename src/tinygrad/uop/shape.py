"""Shapes: how they are stored in nodes, and which shape each op gives its result.

`compute_shape(u)` gives the tuple of sizes from the shapes of the sources, or None for nodes that
are no values (SINK, STORE, DEVICE, ...). A size is an int or, where it depends on a variable, an
index node in simplified form. Sizes of movement ops stand in the graph as sources:
`shape_to_uop` writes them, `decode_movement` (the property `marg`) reads them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygrad._core import UOp
from tinygrad.dtype import ImageDType, PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops

if TYPE_CHECKING:
    from tinygrad.uop.ops import sint

    Shape = tuple[sint, ...] | None


# ---- sizes as nodes and back


def canonical_size(size: sint) -> sint:
    """A size in its one form: an int where it is constant, else a simplified node."""
    if type(size) is int:
        return size
    if not isinstance(size, UOp):
        return int(size)
    return size if size.op in (Ops.BIND, Ops.DEFINE_VAR) else size.ssimplify()


def size_to_uop(size: sint, dtype=dtypes.index) -> UOp:
    """A size as a node."""
    return size if isinstance(size, UOp) else UOp(Ops.CONST, dtype, (), int(size))


def shape_to_uop(shape: tuple[sint, ...]) -> UOp:
    """A tuple of sizes as one node: NOOP for none, else an index node with one lane per size."""
    if not shape:
        return UOp(Ops.NOOP)
    if len(shape) == 1:
        return size_to_uop(shape[0])
    dtype = dtypes.index.vec(len(shape))
    if all(type(size) is int for size in shape):
        return UOp(Ops.VCONST, dtype, (), shape)
    return UOp(Ops.VECTORIZE, dtype, tuple(map(size_to_uop, shape)))


def uop_to_shape(u: UOp) -> tuple[sint, ...]:
    """The sizes that `shape_to_uop` wrote, also after rewriting."""
    if u.op is Ops.NOOP and not u.src:
        return ()
    if u.op is Ops.VCONST:
        return u.arg
    if u.op is Ops.VECTORIZE:
        return tuple(s.arg if s.op is Ops.CONST else s for s in u.src)
    if u.op is Ops.CONST:
        return (u.arg,) * u.dtype.count
    if u.dtype.count == 1:
        return (u,)
    return tuple(u.sgep(lane) for lane in range(u.dtype.count))


def decode_movement(u: UOp):
    """The argument of a movement op: sizes, an order, flags, or one pair per axis."""
    if u.op in (Ops.RESHAPE, Ops.EXPAND):
        return uop_to_shape(u.src[1])
    if u.op in (Ops.PAD, Ops.SHRINK):
        return tuple(zip(uop_to_shape(u.src[1]), uop_to_shape(u.src[2])))
    if u.op in (Ops.PERMUTE, Ops.FLIP):
        return u.arg
    raise RuntimeError(f"{u.op} is no movement op: only {sorted(GroupOp.Movement)} have a marg")


def encode_movement(op: Ops, x: UOp, arg) -> UOp:
    """The node of a movement op on `x` from its decoded argument."""
    if op in (Ops.RESHAPE, Ops.EXPAND):
        return UOp(op, x.dtype, (x, shape_to_uop(tuple(map(canonical_size, arg)))))
    if op in (Ops.PAD, Ops.SHRINK):
        first = shape_to_uop(tuple(canonical_size(pair[0]) for pair in arg))
        second = shape_to_uop(tuple(canonical_size(pair[1]) for pair in arg))
        return UOp(op, x.dtype, (x, first, second))
    if op in (Ops.PERMUTE, Ops.FLIP):
        return UOp(op, x.dtype, (x,), tuple(arg))
    raise RuntimeError(f"{op} is no movement op: expected one of {sorted(GroupOp.Movement)}")


# ---- the shape of each op


def _moved(u: UOp, shape: tuple) -> tuple:
    arg = decode_movement(u)
    if u.op is Ops.RESHAPE:
        return arg
    if len(arg) != len(shape):
        raise ValueError(f"{u.op} of shape {shape} has an argument for {len(arg)} axes: {arg}")
    if u.op is Ops.EXPAND:
        for have, want in zip(shape, arg):
            if type(have) is int and type(want) is int and have != want and have != 1:
                raise ValueError(f"cannot expand {shape} to {arg}: only axes of size 1 can grow")
        return arg
    if u.op is Ops.PERMUTE:
        return tuple(shape[axis] for axis in arg)
    if u.op is Ops.PAD:
        return tuple(canonical_size(a + size + b) for size, (a, b) in zip(shape, arg))
    if u.op is Ops.SHRINK:
        return tuple(canonical_size(end - begin) for begin, end in arg)
    return shape


def _agreed(u: UOp) -> Shape:
    """The common shape of the operands of an elementwise op."""
    found = None
    for s in u.src:
        shape = s._shape
        if shape is None or shape == found:
            continue
        if found is not None and not _compatible(found, shape):
            raise ValueError(
                f"shape mismatch at {u.op}: {[x._shape for x in u.src]}; reshape or expand first"
            )
        # where symbolic sizes differ in form only, the first stands
        found = shape if found is None else found
    return found


def _compatible(a: tuple, b: tuple) -> bool:
    if len(a) != len(b):
        return False
    return all(x is y or x == y or isinstance(x, UOp) or isinstance(y, UOp) for x, y in zip(a, b))


def _bitcast(u: UOp) -> Shape:
    shape, old, new = u.src[0]._shape, u.src[0].dtype.itemsize, u.dtype.itemsize
    if not shape or old == new:
        return shape
    if isinstance(shape[-1], int) and (shape[-1] * old) % new:
        raise RuntimeError(
            f"unsupported size in bitcast: {shape} of {u.src[0].dtype} is not a whole number of "
            f"{u.dtype} in its last axis"
        )
    return (*shape[:-1], canonical_size(shape[-1] * old // new))


def _indexed(u: UOp) -> Shape:
    """INDEX takes away one axis per index; an index with a shape of its own gives it to the result."""
    shape = u.src[0]._shape
    if shape is None or len(u.src) - 1 >= len(shape):
        return ()
    return shape[len(u.src) - 1 :]


def _bufferized(u: UOp) -> Shape:
    return tuple(
        canonical_size(r.src[0]) if r.op is Ops.RANGE else int(r.vmax + 1) for r in u.src[1:]
    )


def _sharded(u: UOp) -> Shape:
    shape, device = u.src[0]._shape, u.src[0]._device
    if shape is None or u.arg is None:
        return shape
    count = len(device) if isinstance(device, tuple) else 1
    return tuple(size * count if axis == u.arg else size for axis, size in enumerate(shape))


def _reduced(u: UOp) -> Shape:
    shape = u.src[0]._shape
    if shape is None:
        return None
    return tuple(1 if axis in u.arg[1] else size for axis, size in enumerate(shape))


def _stored(u: UOp) -> Shape:
    dtype = u.dtype
    if isinstance(dtype, ImageDType):
        return tuple(dtype.shape)
    return (dtype.size,) if isinstance(dtype, PtrDType) else ()


_SCALARS = {Ops.CONST, Ops.DEFINE_VAR, Ops.BIND, Ops.RANGE, Ops.SPECIAL, Ops.VCONST, Ops.LOAD}
_LIKE_FIRST = {
    Ops.CONTIGUOUS,
    Ops.CONTIGUOUS_BACKWARD,
    Ops.DETACH,
    Ops.COPY,
    Ops.ASSIGN,
    Ops.ALLREDUCE,
    Ops.MSELECT,
    Ops.MSTACK,
    Ops.AFTER,
    Ops.CAST,
    Ops.NOOP,
    Ops.GEP,
    Ops.VECTORIZE,
    Ops.CAT,
    Ops.CONTRACT,
    Ops.UNROLL,
    Ops.CUSTOM,
    Ops.CUSTOMI,
    Ops.END,
}
_OWN_RULE = {
    Ops.INDEX: _indexed,
    Ops.BITCAST: _bitcast,
    Ops.BUFFERIZE: _bufferized,
    Ops.MULTI: _sharded,
    Ops.REDUCE_AXIS: _reduced,
    Ops.REDUCE: lambda u: u.src[0]._shape,
    Ops.BUFFER: lambda u: (u.arg,),
    Ops.BUFFER_VIEW: lambda u: (u.arg[0],),
    Ops.ENCDEC: lambda u: tuple(u.arg[0]),
    **dict.fromkeys(GroupOp.Defines, _stored),
}


def compute_shape(u: UOp) -> Shape:
    """The shape of `u`, whose sources have theirs; None for a node that is no value."""
    op = u.op
    if op in _SCALARS:
        return ()
    rule = _OWN_RULE.get(op)
    if rule is not None:
        return rule(u)
    if op in _LIKE_FIRST:
        return u.src[0]._shape if u.src else None
    if op in GroupOp.Movement:
        shape = u.src[0]._shape
        if shape is None:
            raise ValueError(f"{op} of {u.src[0].op}, which has no shape")
        return _moved(u, shape)
    return _agreed(u) if op in GroupOp.ALU else None


def compute_axis(u: UOp) -> int | None:
    """The axis along which a value is split over devices, None where it is whole on each."""
    if u.op is Ops.MULTI:
        return u.arg
    if u.op in (Ops.COPY, Ops.ALLREDUCE, Ops.MSELECT) or not u.src:
        return None
    if u.op in GroupOp.ALU:
        # operands split along other axes are split anew along that of the first one
        return next((s.axis for s in u.src if s.axis is not None), None)
    axis = u.src[0].axis
    if axis is None:
        return None
    if u.op is Ops.REDUCE_AXIS:
        return None if axis in u.arg[1] else axis
    if u.op is Ops.PERMUTE:
        return u.arg.index(axis)
    return _axis_after_reshape(u, axis) if u.op is Ops.RESHAPE else axis


def _axis_after_reshape(u: UOp, axis: int) -> int:
    """The last new axis with as many elements before it as the split axis has before it."""
    from tinygrad.helpers import prod

    old, new = u.src[0].shape, u.shape
    before = prod(old[:axis])
    places = [place for place in range(len(new)) if prod(new[:place]) == before]
    if not places:
        raise ValueError(f"reshape {old} -> {new} would move items between devices (axis {axis})")
    return places[-1]
