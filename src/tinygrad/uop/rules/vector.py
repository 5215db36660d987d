"""Rules rooted at GEP and VECTORIZE: lanes of vectors.

`symbolic` keeps the rules that only drop nodes. `push_rules` move a GEP through arithmetic, which
computes on fewer lanes but may repeat work; `index_push_rules` do so for index expressions only,
where it exposes what differs from lane to lane.
"""

from __future__ import annotations

from tinygrad.dtype import PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import UOp, UPat
from tinygrad.uop.rules.base import INDEX, is_const, rule

_x = UPat.var("x")


def fold_lanes_of_vectorize(gep: UOp, vec: UOp) -> UOp | None:
    """`gep(vectorize(a, b, ...), i) -> a` or a narrower vectorize."""
    if any(s.dtype.vcount != 1 for s in vec.src) or len(vec.src) != vec.dtype.vcount:
        return None
    picked = tuple(vec.src[i] for i in gep.arg)
    if gep.dtype.vcount == 1:
        return picked[0]
    return UOp(Ops.VECTORIZE, gep.dtype, picked)


def fold_lanes_of_constant(gep: UOp, c: UOp) -> UOp:
    """`gep(constant, i)` as a constant."""
    values = c.arg if c.op is Ops.VCONST else (c.arg,) * c.dtype.vcount
    picked = tuple(values[i] for i in gep.arg)
    return UOp.const(gep.dtype, picked if gep.dtype.vcount > 1 else picked[0])


def merge_gep_of_gep(outer: UOp, inner: UOp, x: UOp) -> UOp:
    """`gep(gep(x, p), q) -> gep(x, p[q])`."""
    return UOp(Ops.GEP, outer.dtype, (x,), tuple(inner.arg[i] for i in outer.arg))


def fold_all_lanes(gep: UOp, x: UOp) -> UOp | None:
    """`gep(x, all lanes in order) -> x`."""
    if gep.dtype != x.dtype:
        return None
    return x if gep.arg == tuple(range(x.dtype.vcount)) else None


def fold_vectorize_of_constants(vec: UOp) -> UOp | None:
    """`vectorize(constants) -> constant`."""
    if not vec.src or isinstance(vec.dtype, PtrDType) or not all(is_const(s) for s in vec.src):
        return None
    values = tuple(v for s in vec.src for v in (s.arg if s.op is Ops.VCONST else (s.arg,)))
    if len(values) != vec.dtype.vcount:
        return None
    return UOp.const(vec.dtype, values)


def fold_vectorize_of_lanes(vec: UOp) -> UOp | None:
    """`vectorize(gep(x, i), gep(x, j), ...) -> gep(x, (i, j, ...))`."""
    if not vec.src or isinstance(vec.dtype, PtrDType):
        return None
    x = vec.src[0].src[0] if vec.src[0].op is Ops.GEP else None
    if x is None or isinstance(x.dtype, PtrDType) or x.dtype.scalar() is not vec.dtype.scalar():
        return None
    if any(s.op is not Ops.GEP or s.src[0] is not x or len(s.arg) != 1 for s in vec.src):
        return None
    lanes = tuple(s.arg[0] for s in vec.src)
    if lanes == tuple(range(x.dtype.vcount)):
        return x
    return UOp(Ops.GEP, vec.dtype, (x,), lanes)


def push_lanes_into_operation(gep: UOp, op: UOp) -> UOp | None:
    """`gep(a + b, i) -> gep(a, i) + gep(b, i)`."""
    if isinstance(op.dtype, PtrDType) or any(s.dtype.vcount != op.dtype.vcount for s in op.src):
        return None
    picked = tuple(s.gep(gep.arg) for s in op.src)
    return UOp(op.op, op.dtype.scalar().vec(gep.dtype.vcount), picked, op.arg)


def _broadcast_scalar(u: UOp) -> UOp | None:
    """The scalar of which every lane of `u` is a copy, None when lanes differ."""
    if u.op is Ops.CONST:
        return UOp.const(u.dtype.scalar(), u.arg)
    if u.op is Ops.VECTORIZE and u.src[0].dtype.vcount == 1:
        first = u.src[0]
        return first if all(s is first for s in u.src) else None
    return None


def pull_broadcast_out(op: UOp) -> UOp | None:
    """`broadcast(a) + broadcast(b) -> broadcast(a + b)`: computes one lane."""
    count = op.dtype.vcount
    if count == 1 or isinstance(op.dtype, PtrDType):
        return None
    if not any(s.op is Ops.VECTORIZE for s in op.src):
        return None
    scalars = [_broadcast_scalar(s) if s.dtype.vcount == count else None for s in op.src]
    if any(s is None for s in scalars):
        return None
    return UOp(op.op, op.dtype.scalar(), tuple(scalars), op.arg).broadcast(count)


_POINTWISE = tuple(GroupOp.ALU | {Ops.CAST})

identity_rules = [
    rule(
        "gep-vectorize",
        UPat(Ops.GEP, src=(UPat(Ops.VECTORIZE, name="vec"),), name="gep"),
        fold_lanes_of_vectorize,
    ),
    rule("gep-constant", UPat(Ops.GEP, src=(UPat.cvar("c"),), name="gep"), fold_lanes_of_constant),
    rule(
        "gep-gep",
        UPat(Ops.GEP, src=(UPat(Ops.GEP, src=(_x,), name="inner"),), name="outer"),
        merge_gep_of_gep,
    ),
    rule("gep-all", UPat(Ops.GEP, src=(_x,), name="gep"), fold_all_lanes),
    rule(
        "vectorize-one",
        UPat(Ops.VECTORIZE, src=(_x,), name="vec"),
        lambda vec, x: x if vec.dtype == x.dtype else None,
    ),
    rule(
        "vectorize-constants",
        UPat(Ops.VECTORIZE, src=UPat((Ops.CONST, Ops.VCONST)), name="vec"),
        fold_vectorize_of_constants,
    ),
    rule(
        "vectorize-lanes",
        UPat(Ops.VECTORIZE, src=UPat(Ops.GEP), name="vec"),
        fold_vectorize_of_lanes,
    ),
]

rules = [
    rule("pull-broadcast", UPat(_POINTWISE, name="op"), pull_broadcast_out),
]

index_push_rules = [
    rule(
        "gep-into-index",
        UPat(Ops.GEP, dtype=dtypes.index, src=(UPat(tuple(GroupOp.ALU), name="op"),), name="gep"),
        push_lanes_into_operation,
        domain=INDEX,
    ),
]

push_rules = [
    rule(
        "gep-into-operation",
        UPat(Ops.GEP, src=(UPat(_POINTWISE, name="op"),), name="gep"),
        push_lanes_into_operation,
    ),
]
