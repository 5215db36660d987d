"""Rules for vectors with one value in every lane: arithmetic on them is scalar arithmetic.

The expansion widens a scalar operand where a vector operand meets it, and sorting the terms of a
sum may then pair two widened ones. These rules compute with the scalars and widen once.
"""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat


def splatted(u: UOp) -> UOp | None:
    """The scalar in every lane of `u`, None when lanes differ."""
    if u.dtype.count == 1:
        return None
    if u.op is Ops.CONST:
        return UOp.const(u.dtype.scalar(), u.arg)
    if u.op is Ops.VECTORIZE and all(s is u.src[0] for s in u.src) and u.src[0].dtype.count == 1:
        return u.src[0]
    return None


def narrow_splat_operation(u: UOp) -> UOp | None:
    """An operation on splats is the splat of the operation."""
    if u.dtype.count == 1:
        return None
    scalars = [splatted(s) for s in u.src]
    if any(s is None for s in scalars):
        return None
    return u.replace(dtype=u.dtype.scalar(), src=tuple(scalars)).broadcast(u.dtype.count)


def join_splat_terms(u: UOp, x: UOp, a: UOp, b: UOp) -> UOp | None:
    """`(x + splat a) + splat b` is `x + splat (a + b)`, for integers."""
    first, second = splatted(a), splatted(b)
    if first is None or second is None or splatted(x) is not None:
        return None
    return x.alu(u.op, first.alu(u.op, second).broadcast(u.dtype.count))


pm_splats = PatternMatcher(
    [
        (
            UPat(
                tuple(GroupOp.Elementwise),
                src=UPat((Ops.VECTORIZE, Ops.CONST)),
                name="u",
            ),
            narrow_splat_operation,
        ),
        (
            UPat(
                Ops.ADD,
                dtypes.ints + (dtypes.index,),
                src=[
                    UPat(Ops.ADD, src=[UPat.var("x"), UPat(Ops.VECTORIZE, name="a")]),
                    UPat(Ops.VECTORIZE, name="b"),
                ],
                name="u",
            ),
            join_splat_terms,
        ),
    ]
)
