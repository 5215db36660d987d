"""Element access through views, as address arithmetic.

`buf[i, j]` on a shaped value gives INDEX(view, i, j) with one index per axis of the view. The rules in
`pm_flatten_index` push the indices through the movement ops down to the flat memory, so that every
INDEX ends up as INDEX(memory, offset). Run once, first, by the lowering of a kernel. What they
introduce (products and sums of sizes) is simplified by the passes that follow.
"""

from __future__ import annotations

from tinygrad._core import PatternMatcher, UOp
from tinygrad.dtype import PtrDType
from tinygrad.helpers import prod
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.shape import decode_movement, size_to_uop
from tinygrad.uop.upat import UPat


def _offset(shape: tuple, idxs: tuple[UOp, ...]) -> UOp:
    """The row-major position of an element."""
    position = size_to_uop(0)
    for size, idx in zip(shape, idxs):
        if isinstance(size, int) and size == 1:
            continue
        position = idx if _is_zero(position) else position * size + idx
    return position


def _is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0


def _positions(shape: tuple, offset: UOp) -> tuple[UOp, ...]:
    """The indices of the element at a row-major position."""
    idxs = []
    for axis, size in enumerate(shape):
        inner = prod(shape[axis + 1 :])
        place = offset if isinstance(inner, int) and inner == 1 else offset // inner
        idxs.append(place if axis == 0 else place % size)
    return tuple(idxs)


def reshape_indices(old: tuple, new: tuple, idxs: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """Indices into the shape `new` as indices into the shape `old` of the same elements."""
    if all(isinstance(size, int) for size in (*old, *new)):
        kept_old = [axis for axis, size in enumerate(old) if size != 1]
        kept_new = [axis for axis, size in enumerate(new) if size != 1]
        if [old[a] for a in kept_old] == [new[a] for a in kept_new]:
            # only axes of size 1 come and go
            moved = dict(zip(kept_old, kept_new))
            return tuple(idxs[moved[a]] if a in moved else size_to_uop(0) for a in range(len(old)))
    return _positions(old, _offset(new, idxs))


def push_indices(view: UOp, idxs: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """Indices into the movement op `view` as indices into what it moves."""
    source, arg = view.src[0], decode_movement(view)
    if view.op is Ops.RESHAPE:
        return reshape_indices(source.shape, arg, idxs)
    if view.op is Ops.PERMUTE:
        return tuple(idxs[arg.index(axis)] for axis in range(len(arg)))
    if view.op is Ops.EXPAND:
        sizes = zip(source.shape, arg, idxs)
        return tuple(
            idx if have is want or have == want else size_to_uop(0) for have, want, idx in sizes
        )
    if view.op is Ops.FLIP:
        sizes = zip(source.shape, arg, idxs)
        return tuple((size - 1) - idx if flipped else idx for size, flipped, idx in sizes)
    if view.op is Ops.SHRINK:
        begins = (begin for begin, _ in arg)
        return tuple(idx if type(b) is int and b == 0 else idx + b for idx, b in zip(idxs, begins))
    return _unpadded(source.shape, arg, idxs)


def _unpadded(shape: tuple, arg: tuple, idxs: tuple[UOp, ...]) -> tuple[UOp, ...]:
    inside = []
    for size, (before, after), idx in zip(shape, arg, idxs):
        if type(before) is int and before == 0 and type(after) is int and after == 0:
            inside.append(idx)
            continue
        place = idx - before
        inside.append(place.valid((idx >= before) & (place < size)))
    return tuple(inside)


def flatten_index(view: UOp, x: UOp) -> UOp | None:
    """One INDEX of a movement op as the INDEX of what it moves."""
    count = len(view.shape)
    if len(x.src) - 1 < count:
        return None
    idxs, extra = x.src[1 : 1 + count], x.src[1 + count :]
    return x.replace(src=(view.src[0], *push_indices(view, idxs), *extra))


def lift_view(view: UOp, x: UOp) -> UOp:
    """AFTER(view, ...) as the view of AFTER(memory, ...)."""
    memory = view.src[0]
    later = x.replace(dtype=memory.dtype, src=(memory, *x.src[1:]))
    return view.replace(src=(later, *view.src[1:]))


def drop_views(x: UOp) -> UOp | None:
    """An effect on a view is an effect on its memory."""
    sources = tuple(s.base if isinstance(s.dtype, PtrDType) else s for s in x.src)
    return None if sources == x.src else x.replace(src=sources)


def _over_view(op: Ops) -> UPat:
    return UPat(op, src=(UPat(GroupOp.Movement, name="view"),), allow_any_len=True, name="x")


pm_flatten_index = PatternMatcher(
    [
        (_over_view(Ops.INDEX), flatten_index),
        (_over_view(Ops.AFTER), lift_view),
        (UPat((Ops.SINK, Ops.GROUP, Ops.END, Ops.BARRIER), name="x"), drop_views),
    ]
)
