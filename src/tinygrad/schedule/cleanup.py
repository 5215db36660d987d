"""Tensor rules that run before anything is decided.

What they leave: no size-0 arithmetic, no DETACH, COPY only of dense memory, ASSIGN only to views of
memory, long reductions in two steps.
"""

from __future__ import annotations

from tinygrad.dtype import dtypes, least_value
from tinygrad.helpers import SPLIT_REDUCEOP, getenv, prod
from tinygrad.schedule.demand import put_views, split_views
from tinygrad.schedule.indexing import axis_runs, is_one, same_size
from tinygrad.schedule.storage import copy_from_storage, is_storage, one_run
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UOp, UPat, graph_rewrite_map

# Elements a result element is made of, from which on a reduction is done in two steps.
SPLIT_THRESHOLD = getenv("REDUCEOP_SPLIT_THRESHOLD", 32768)
# The second step of a split reduction adds up at most this many partial results for each element.
MAX_SPLIT = 256
# Partial results that a split may write in all.
MAX_PARTIAL_RESULTS = 2 ** getenv("REDUCEOP_SPLIT_SIZE", 22)

MEMORY_OPS = frozenset(
    {Ops.BUFFER, Ops.CONTIGUOUS, Ops.COPY, Ops.BUFFER_VIEW, Ops.AFTER, Ops.ASSIGN, Ops.MSELECT,
     Ops.MSTACK, Ops.ENCDEC}
)  # fmt: skip


def is_empty(u: UOp) -> bool:
    return any(same_size(size, 0) for size in u.shape)


def reshape_base(u: UOp) -> UOp:
    while u.op is Ops.RESHAPE:
        u = u.src[0]
    return u


def is_dense_memory(u: UOp) -> bool:
    """Whether the elements are in memory, all of it, in order."""
    base = reshape_base(u)
    return base.op in MEMORY_OPS and base.op is not Ops.ASSIGN


# *** rules ***


def fold_empty(u: UOp) -> UOp | None:
    """Nothing is computed for a tensor without elements."""
    return u.const_like(0) if is_empty(u) else None


def fold_reduce(reduce: UOp) -> UOp | None:
    """A reduction over nothing is the neutral element; axes of one element need no reduction."""
    source, (op, axes) = reduce.src[0], reduce.arg
    if is_empty(source) and not is_empty(reduce):
        neutral = {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: least_value(reduce.dtype)}[op]
        return reduce.const_like(neutral)
    kept = tuple(axis for axis in axes if not is_one(source.shape[axis]))
    if len(kept) == len(axes):
        return None
    return reduce.replace(arg=(op, kept)) if kept else source


def pull_expand(u: UOp, expand: UOp) -> UOp | None:
    """f(expand(x)) -> expand(f(x)): the smaller computation.

    Of a single element it is done once before the loops anyway.
    """
    if all(is_one(size) for size in expand.src[0].shape):
        return None
    return expand.replace(dtype=u.dtype, src=(u.replace(src=(expand.src[0],)), *expand.src[1:]))


def merge_reshapes(outer: UOp, inner: UOp) -> UOp:
    """Only the last shape counts."""
    source = inner.src[0]
    same = len(source.shape) == len(outer.shape) and all(map(same_size, source.shape, outer.shape))
    return source if same else outer.replace(src=(source, *outer.src[1:]))


def merge_permutes(outer: UOp, inner: UOp) -> UOp:
    """One order of axes instead of two, none where it is that of before."""
    order = tuple(inner.marg[axis] for axis in outer.marg)
    in_place = order == tuple(range(len(order)))
    return inner.src[0] if in_place else outer.replace(src=inner.src, arg=order)


def drop_contiguous(contiguous: UOp, source: UOp) -> UOp | None:
    """What is dense in memory already needs no copy."""
    return source if contiguous.arg is None and is_dense_memory(source) else None


def view_storage(contiguous: UOp, source: UOp) -> UOp | None:
    """On a device that only stores, what lies in one run of bytes is a view."""
    return one_run(source) if is_storage(contiguous.device) else None


def make_copy_dense(copy: UOp) -> UOp | None:
    """COPY moves bytes: its source has to be dense; a constant is made where it is wanted."""
    source = copy.src[0]
    views, base = split_views(source)
    if base.op is Ops.CONST:
        return put_views(base.replace(src=copy.src[1:]), views)
    is_dense = is_dense_memory(source)
    # what is to be made contiguous on a device that only stores can't be made there
    if is_dense and reshape_base(source).op is not Ops.CONTIGUOUS:
        return None
    if (stored := copy_from_storage(copy)) is not None:
        return stored
    return None if is_dense else copy.replace(src=(_as_dense(source), *copy.src[1:]))


def make_parts_dense(stack: UOp) -> UOp | None:
    """The parts of a tensor on several devices are in memory, or the same constant everywhere."""
    views, base = split_views(stack.src[0])
    if base.op is Ops.CONST:
        forms = [split_views(part) for part in stack.src]
        sizes = [[view.src[1:] for view in chain] for chain, _ in forms]
        same = all(size == sizes[0] and form[1].arg == base.arg for size, form in zip(sizes, forms))
        if same and all(part.op is Ops.CONST for _, part in forms):
            devices = UOp(Ops.DEVICE, arg=stack.device)
            return put_views(base.replace(src=(devices,)), views)
    if all(is_dense_memory(part) for part in stack.src):
        return None
    return stack.replace(src=tuple(_as_dense(part) for part in stack.src))


def _as_dense(u: UOp) -> UOp:
    return u if is_dense_memory(u) else UOp(Ops.CONTIGUOUS, u.dtype, (u,))


def make_selected_dense(select: UOp) -> UOp | None:
    """One part of a tensor on several devices: of memory, or of a constant."""
    views, base = split_views(select.src[0])
    if base.op is Ops.CONST:
        device = UOp(Ops.DEVICE, arg=select.device)
        return put_views(base.replace(src=(device,)), views)
    if is_dense_memory(select.src[0]):
        return None
    return select.replace(src=(_as_dense(select.src[0]),))


def make_target_memory(assign: UOp) -> UOp | None:
    """An assignment writes to memory; a target that is not in memory yet is put there.

    Assigning the same value twice is assigning it once.
    """
    target, value = assign.src
    if target.op is Ops.BITCAST:
        return assign.replace(
            dtype=target.src[0].dtype, src=(target.src[0], value.bitcast(target.src[0].dtype))
        ).bitcast(target.dtype)
    views, base = split_views(target)
    if base.op is Ops.BITCAST:
        # what is written are the bits, in the same places below the bitcast
        below, kind = base.src[0], base.src[0].dtype
        for view in reversed(views):
            if view.op in GroupOp.Movement:
                below = view.replace(dtype=kind, src=(below, *view.src[1:]))
        return assign.replace(dtype=kind, src=(below, value.bitcast(kind))).bitcast(target.dtype)
    if base.op is Ops.ASSIGN and base is target and base.src[1] is value:
        return target
    if base.op in MEMORY_OPS:
        return None
    if base is reshape_base(target):
        return value.contiguous()
    return assign.replace(src=(put_views(base.contiguous(), views), value))


def wait_for_assignment(after: UOp) -> UOp | None:
    """What an AFTER waits for is an assignment itself, not a view of what it wrote."""
    sources = []
    for source in after.src[1:]:
        bare = source
        while bare.op is Ops.BITCAST or bare.op in GroupOp.Movement:
            bare = bare.src[0]
        sources.append(bare if bare.op is Ops.ASSIGN else source)
    made = (after.src[0], *sources)
    return None if made == after.src else after.replace(src=made)


def split_long_reduce(reduce: UOp) -> UOp | None:
    """Partial results first, where few result elements are made of many each."""
    source, axes = reduce.src[0], reduce.arg[1]
    if not SPLIT_REDUCEOP or any(isinstance(size, UOp) for size in source.shape):
        return None
    results = prod(reduce.shape)
    if results == 0 or prod(source.shape) // results < SPLIT_THRESHOLD:
        return None
    repeated = repeated_axes(source)
    for parts in range(min(MAX_SPLIT, MAX_PARTIAL_RESULTS // results), 7, -1):
        for axis in axes:
            size = source.shape[axis]
            if not repeated[axis] and size % parts == 0 and size > parts:
                return _split_axis(reduce, axis, parts)
    return None


def _split_axis(reduce: UOp, axis: int, parts: int) -> UOp:
    source, (op, axes) = reduce.src[0], reduce.arg
    shape = source.shape
    rows = source.reshape((*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))
    order = tuple(a for a in range(len(shape) + 1) if a != axis) + (axis,)
    partial = rows.permute(order).r(op, axes).contiguous()
    return partial.r(op, (len(shape),)).reshape(reduce.shape)


def repeated_axes(u: UOp) -> list[bool]:
    """Axes along which all elements are the same, as far as views tell."""
    views = []
    while u.op in GroupOp.Movement:
        views.append(u)
        u = u.src[0]
    repeated = [False] * len(u.shape)
    for view in reversed(views):
        old, before = view.src[0].shape, repeated
        if view.op is Ops.EXPAND:
            repeated = [r or not same_size(a, b) for r, a, b in zip(repeated, old, view.shape)]
        elif view.op is Ops.PERMUTE:
            repeated = [repeated[axis] for axis in view.marg]
        elif view.op is Ops.RESHAPE:
            runs = axis_runs(old, view.shape)
            repeated = [False] * len(view.shape)
            for old_axes, new_axes in runs:
                for axis in new_axes:
                    repeated[axis] = bool(old_axes) and all(before[a] for a in old_axes)
    return repeated


# marks the name of a buffer that holds nothing yet
UNDEFINED = "undefined"


def fold_undefined_product(u: UOp) -> UOp | None:
    """What was never written, times 0, is 0: it may be taken to be any number."""
    for x, zero in (u.src, u.src[::-1]):
        factor, memory = zero.base, x.base
        if factor.op is Ops.CONST and factor.arg == 0 and memory.op is Ops.BUFFER:
            if memory.src[0].tag == UNDEFINED:
                return u.const_like(0)
    return None


pm_cleanup = PatternMatcher(
    [
        (UPat(Ops.MUL, dtype=dtypes.floats, name="u"), fold_undefined_product),
        (UPat((Ops.DETACH, Ops.CONTIGUOUS_BACKWARD), src=(UPat.var("x"),)), lambda x: x),
        (UPat(Ops.REDUCE_AXIS, name="reduce"), fold_reduce),
        (
            UPat((*GroupOp.Elementwise, *GroupOp.Movement, Ops.CONTIGUOUS, Ops.COPY), name="u"),
            fold_empty,
        ),
        (UPat(Ops.ASSIGN, name="u"), fold_empty),
        (
            UPat(
                Ops.RESHAPE,
                src=(UPat(Ops.RESHAPE, name="inner"),),
                name="outer",
                allow_any_len=True,
            ),
            merge_reshapes,
        ),
        (UPat(Ops.PERMUTE, src=(UPat(Ops.PERMUTE, name="inner"),), name="outer"), merge_permutes),
        (
            UPat(
                (*GroupOp.Unary, Ops.CAST, Ops.BITCAST),
                src=(UPat(Ops.EXPAND, name="expand"),),
                name="u",
            ),
            pull_expand,
        ),
        (
            UPat(Ops.CONTIGUOUS, src=(UPat.var("source"),), name="contiguous"),
            drop_contiguous,
        ),
        (
            UPat(Ops.CONTIGUOUS, src=(UPat.var("source"),), name="contiguous"),
            view_storage,
        ),
        (UPat(Ops.COPY, name="copy"), make_copy_dense),
        (UPat(Ops.MSTACK, name="stack"), make_parts_dense),
        (UPat(Ops.MSELECT, name="select"), make_selected_dense),
        (UPat(Ops.ASSIGN, name="assign"), make_target_memory),
        (UPat(Ops.AFTER, name="after"), wait_for_assignment),
        (UPat(Ops.REDUCE_AXIS, name="reduce"), split_long_reduce),
    ]
)


def rewrite_all(nodes: list[UOp], rules: PatternMatcher, name: str) -> list[UOp]:
    """What the rules make of every one of the nodes, also of those that they replace on the way."""
    found = graph_rewrite_map(UOp.sink(*nodes), rules, name=name)
    return [found.get(u, u) for u in nodes]


def clean_graph(nodes: list[UOp]) -> list[UOp]:
    """The clean form of every node."""
    return rewrite_all(nodes, pm_cleanup, "clean tensors")
