"""Reverse-mode differentiation of graphs.

In: a root node, the gradient that arrives at it, and target nodes. Out: for each target the node of
its gradient. `pm_gradient` has one rule per operation: it gets the arriving gradient as `ctx` and the
operation as `ret`, and gives one gradient (or None) per source. The walk is iterative, so depth is
not limited. Called by `tensor.autograd`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from tinygrad.dtype import dtypes, sum_acc_dtype
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat, all_metadata, resolve


def _expand_back(grad: UOp, shape: tuple) -> UOp:
    return grad if grad.shape == shape else grad.expand(shape)


def _sum_axes(grad: UOp, axes: tuple[int, ...]) -> UOp:
    """Sum over `axes` (kept as size 1), accumulated in a wide enough dtype."""
    wide = sum_acc_dtype(grad.dtype) if dtypes.is_float(grad.dtype) else grad.dtype
    return grad.cast(wide).r(Ops.ADD, axes).cast(grad.dtype)


# what is read from memory; a reduction that is read twice is stored by the scheduler
_STORED = frozenset(
    {Ops.BUFFER, Ops.COPY, Ops.CONTIGUOUS, Ops.ASSIGN, Ops.CONST, Ops.BUFFER_VIEW, Ops.REDUCE_AXIS}
)
_EXACT = frozenset({Ops.MAX, Ops.WHERE, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.NEG, Ops.DETACH})


def _is_unit(x: UOp) -> bool:
    return x.base.op is Ops.CONST and abs(x.base.arg) == 1


def _rounds(x: UOp) -> bool:
    """Whether computing `x` from what is stored may round."""
    pending, seen = [x], set()
    while pending:
        u = pending.pop()
        if u in seen or u.op in _STORED or not dtypes.is_float(u.dtype):
            continue
        seen.add(u)
        if u.op is Ops.MUL and any(map(_is_unit, u.src)):
            pending += u.src
        elif u.op in _EXACT or u.op in GroupOp.Movement:
            pending += u.src[:1] if u.op in GroupOp.Movement else u.src
        else:
            return True
    return False


def stored_once(x: UOp) -> UOp:
    """`x` read from memory: a float computation below its views is made contiguous.

    For values that are compared for equality across kernels: two kernels may round one expression
    differently.
    """
    if not dtypes.is_float(x.dtype) or not _rounds(x):
        return x
    views = []
    while x.op in GroupOp.Movement:
        views.append(x)
        x = x.src[0]
    x = x.contiguous()
    for view in reversed(views):
        x = view.replace(src=(x, *view.src[1:]))
    return x


def _share_of_maximum(ctx: UOp, ret: UOp) -> UOp:
    """Equal shares for all elements that attain the maximum, counted in a dtype that can count.

    Two kernels may round the same expression differently (a fused multiply-add, a quotient for a
    product), and then no element would equal the maximum. So elements and maximum are taken from one
    stored copy of the values.
    """
    axes, x = ret.arg[1], stored_once(ret.src[0])
    top = ret if x is ret.src[0] else x.r(Ops.MAX, axes)
    wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    hit = x.eq(_expand_back(top, x.shape)).cast(wide)
    ties = _expand_back(hit.r(Ops.ADD, axes), x.shape)
    return (hit * _expand_back(ctx.cast(wide), x.shape) / ties).cast(x.dtype)


def _product_without(ctx: UOp, ret: UOp) -> UOp:
    """d prod / d x_i, the product of all the others, exact also where elements are zero."""
    x, axes = ret.src[0], ret.arg[1]
    is_zero = x.eq(0)
    safe = is_zero.where(x.const_like(1), x)
    others = _expand_back(safe.r(Ops.MUL, axes), x.shape)
    zeros = _expand_back(is_zero.cast(dtypes.int32).r(Ops.ADD, axes), x.shape)
    nothing = x.const_like(0)
    at_zero = zeros.eq(1).where(others, nothing)
    elsewhere = zeros.eq(0).where(others / safe, nothing)
    return _expand_back(ctx, x.shape) * is_zero.where(at_zero, elsewhere)


def reduce_gradient(ctx: UOp, ret: UOp, op: Ops) -> tuple[UOp]:
    """The gradient of a REDUCE_AXIS with operation `op`, for its one source."""
    if op is Ops.ADD:
        return (_expand_back(ctx, ret.src[0].shape),)
    if op is Ops.MAX:
        return (_share_of_maximum(ctx, ret),)
    if op is Ops.MUL:
        return (_product_without(ctx, ret),)
    raise RuntimeError(f"no gradient is known for a reduction by {op}")


def _cast_gradient(ctx: UOp, ret: UOp):
    was = ret.src[0].dtype
    return (ctx.cast(was) if dtypes.is_float(was) and dtypes.is_float(ret.dtype) else None,)


def _maximum_gradient(ctx: UOp, ret: UOp):
    left, right = ret.src
    tie, nothing = ctx * 0.5, ctx.const_like(0)
    equal = left.eq(right)
    return tuple(
        equal.where(tie, greater.where(ctx, nothing))
        for greater in (left.gt(right), left.lt(right))
    )


def _cosine(angle: UOp) -> UOp:
    """The cosine, spelt as the sine of pi/2 - angle; of such a difference the sine of what is
    subtracted, which the difference has rounded."""
    if angle.op is Ops.ADD:
        for quarter, other in (angle.src, angle.src[::-1]):
            if quarter.base.op is not Ops.CONST or quarter.base.arg != math.pi / 2:
                continue
            if other.op is Ops.MUL and other.src[1].base.op is Ops.CONST:
                if other.src[1].base.arg == -1:
                    return other.src[0].sin()
    return (math.pi / 2 - angle).sin()


def _power_gradient(ctx: UOp, ret: UOp):
    base, exponent = ret.src
    nothing = ctx.const_like(0)
    slope = exponent * base.alu(Ops.POW, exponent - 1)
    of_base = exponent.eq(0).where(nothing, ctx * slope)
    flat = base.eq(0).bitwise_and(exponent.lt(0).logical_not())
    of_exponent = flat.where(nothing, ctx * ret * (base.log2() * math.log(2)))
    return of_base, of_exponent


def _where_gradient(ctx: UOp, ret: UOp):
    condition = ret.src[0]
    nothing = ctx.const_like(0)
    return None, condition.where(ctx, nothing), condition.where(nothing, ctx)


def _expand_gradient(ctx: UOp, ret: UOp):
    pairs = zip(ret.src[0].shape, ret.shape)
    # only a size 1 grows; where the new size is a variable it may be 1 as well, and the sum is right
    grown = tuple(i for i, (a, b) in enumerate(pairs) if a is not b and resolve(a != b))
    return (_sum_axes(ctx, grown), None)


def _pad_gradient(ctx: UOp, ret: UOp):
    inner = tuple((before, before + size) for (before, _), size in zip(ret.marg, ret.src[0].shape))
    return (ctx.shrink(inner), None, None)


def _shrink_gradient(ctx: UOp, ret: UOp):
    around = tuple((begin, size - end) for (begin, end), size in zip(ret.marg, ret.src[0].shape))
    return (ctx.pad(around), None, None)


def _permute_gradient(ctx: UOp, ret: UOp):
    order = ret.marg
    return (ctx.permute(tuple(order.index(i) for i in range(len(order)))),)


def _multi_gradient(ctx: UOp, ret: UOp):
    return tuple(
        ctx.shard(ret.device, ret.axis).src[0]
        if isinstance(ctx.device, str)
        else _unwrapped(ctx, ret)
        for _ in ret.src
    )


def _unwrapped(ctx: UOp, ret: UOp) -> UOp:
    return ctx.src[0] if ctx.op is Ops.MULTI and ctx.arg == ret.arg else ctx


# nodes looked at before an expression counts as a computed one
_MOST_UNIFORM_NODES = 32


def _is_uniform(u: UOp) -> bool:
    """Whether all elements are one number, put together from constants only."""
    pending, seen = [u], {u}
    while pending:
        node = pending.pop()
        if node.op in GroupOp.ALU or node.op is Ops.CAST:
            parts = node.src
        elif node.op in (Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.SHRINK):
            parts = node.src[:1]
        elif node.op is Ops.CONST:
            continue
        else:
            return False
        fresh = [p for p in parts if p not in seen]
        seen.update(fresh)
        pending += fresh
        if len(seen) > _MOST_UNIFORM_NODES:
            return False
    return True


def _contiguous_gradient(ctx: UOp):
    """In memory before it goes on, unless it is one number, which is at hand everywhere."""
    return (ctx if _is_uniform(ctx) else ctx.contiguous(),)


_LN2 = math.log(2)

# ruff: format off
pm_gradient = PatternMatcher(
    [
        (UPat(Ops.CAST, name="ret"), _cast_gradient),
        (UPat(Ops.ADD), lambda ctx: (ctx, ctx)),
        (UPat(Ops.SUB), lambda ctx: (ctx, -ctx)),
        (UPat(Ops.NEG), lambda ctx: (-ctx,)),
        (UPat(Ops.MUL, name="ret"), lambda ctx, ret: (ret.src[1] * ctx, ret.src[0] * ctx)),
        (UPat(Ops.RECIPROCAL, name="ret"), lambda ctx, ret: (-(ctx * ret * ret),)),
        (UPat(Ops.FDIV, name="ret"), lambda ctx, ret: (ctx / ret.src[1], -ctx * ret / ret.src[1])),
        (UPat(Ops.SIN, name="ret"), lambda ctx, ret: (_cosine(ret.src[0]) * ctx,)),
        (UPat(Ops.LOG2, name="ret"), lambda ctx, ret: (ctx / (ret.src[0] * _LN2),)),
        (UPat(Ops.EXP2, name="ret"), lambda ctx, ret: (ret * ctx * _LN2,)),
        (UPat(Ops.SQRT, name="ret"), lambda ctx, ret: (ctx / (ret * 2),)),
        (UPat(Ops.TRUNC, name="ret"), lambda ctx, ret: (ctx.const_like(0),)),
        (UPat((Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)), lambda ctx: (None, None)),
        (UPat(Ops.POW, name="ret"), _power_gradient),
        (UPat(Ops.MAX, name="ret"), _maximum_gradient),
        (UPat(Ops.WHERE, name="ret"), _where_gradient),
        (UPat(Ops.REDUCE_AXIS, name="ret"), lambda ctx, ret: reduce_gradient(ctx, ret, ret.arg[0])),
        (UPat(Ops.CONTIGUOUS), lambda ctx: (ctx,)),
        (UPat(Ops.CONTIGUOUS_BACKWARD), _contiguous_gradient),
        (UPat((Ops.ASSIGN, Ops.AFTER)), lambda ctx: (None, ctx)),
        (UPat(Ops.RESHAPE, name="ret"), lambda ctx, ret: (ctx.reshape(ret.src[0].shape), None)),
        (UPat(Ops.EXPAND, name="ret"), _expand_gradient),
        (UPat(Ops.PAD, name="ret"), _pad_gradient),
        (UPat(Ops.SHRINK, name="ret"), _shrink_gradient),
        (UPat(Ops.PERMUTE, name="ret"), _permute_gradient),
        (UPat(Ops.FLIP, name="ret"), lambda ctx, ret: (ctx._mop(Ops.FLIP, ret.arg),)),
        (
            UPat(Ops.COPY, name="ret"),
            lambda ctx, ret: (ctx.copy_to_device(ret.src[0].device), None),
        ),
        (UPat(Ops.MULTI, name="ret"), _multi_gradient),
        (UPat((Ops.DETACH, Ops.BITCAST)), lambda ctx: (None,)),
    ]
)
# ruff: format on

_NO_PATH = frozenset({Ops.DETACH, Ops.BITCAST})


def _paths_to(root: UOp, targets: set[UOp], ends: set[UOp]) -> list[UOp]:
    """The nodes below which a target lies, sources before consumers; not looking below `ends`."""
    leads: dict[UOp, None] = {}
    for node in root.toposort(lambda u: u not in ends):
        if node.op in _NO_PATH or node in ends:
            continue
        if any(s in leads or s in targets for s in node.src):
            leads[node] = None
    return list(leads)


def _note_backward(grad: UOp, forward: UOp) -> None:
    """Marks gradient nodes with the name of the forward call they belong to."""
    notes = all_metadata.get(forward)
    if notes and grad not in all_metadata:
        all_metadata[grad] = tuple(dataclasses.replace(note, backward=True) for note in notes)


def compute_gradient(
    root: UOp, root_grad: UOp, targets: set[UOp], ends: Iterable[UOp] = ()
) -> dict[UOp, UOp]:
    """Gradients of every node on a path from `root` to `targets`, the targets among them.

    No path leads through a node of `ends`. A target that `root` does not depend on is absent. Raises RuntimeError for an operation without a
    gradient rule.
    """
    grads: dict[UOp, UOp] = {root: root_grad}
    for node in reversed(_paths_to(root, targets, set(ends))):
        arriving = grads.get(node)
        if arriving is None:
            continue
        parts = _kernel_parts(arriving, node) or pm_gradient.rewrite(node, ctx=arriving)
        if parts is None:
            raise RuntimeError(f"no gradient is known for {node.op}: detach() what needs none")
        for source, part in zip(node.src, parts):
            if part is None:
                continue
            known = grads.get(source)
            grads[source] = part if known is None else known + part
            _note_backward(grads[source], node)
    return grads


def _kernel_parts(arriving: UOp, node: UOp):
    """Gradients of a custom kernel's inputs: the user's function sees the gradient and the node."""
    if node.op is not Ops.CUSTOM_KERNEL:
        return None
    fxn = getattr(node.arg, "grad_fxn", None)
    if fxn is None:
        raise RuntimeError("a custom kernel without grad_fxn has no gradient: pass grad_fxn=")
    return tuple(fxn(arriving, node))
