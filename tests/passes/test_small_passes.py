"""Launch dimensions, index types, vector widths and the UNROLL rules, each by itself."""

import itertools
import math

import pytest

from tinygrad.codegen import full_rewrite_to_sink, line_rewrite
from tinygrad.codegen.gpudims import get_grouped_dims
from tinygrad.codegen.late.expander import expander
from tinygrad.codegen.late.indices import lower_index_types
from tinygrad.codegen.late.width import split_for_registers, split_vectors
from tinygrad.codegen.pipeline import PASSES
from tinygrad.dtype import dtypes
from tinygrad.helpers import Context
from tinygrad.uop import Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat, graph_rewrite
from tinygrad.uop.symbolic import sym

from .kernels import Float4Target, ScalarTarget, WideTarget, buffer

# *** launch dimensions ***


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("dims", "limits"),
    [
        ((2, 3), (16, 16, 16)),
        ((64, 3, 4), (16, 16, 16)),
        ((2, 3, 4, 5), (32, 16, 16)),
        ((128,), (16, 16, 256)),
        ((121,), (12, 12, 12)),
        ((6, 10), None),
    ],
)
def test_launch_covers_every_point_once(dims, limits, reverse):
    parts = get_grouped_dims("gidx", dims, limits, reverse)
    specials = sorted(
        {u for p in parts for u in p.toposort() if u.op is Ops.SPECIAL}, key=lambda u: u.arg
    )
    sizes = [u.src[0].arg for u in specials]
    if limits is not None:
        assert len(sizes) <= len(limits)
        assert all(s <= limit for s, limit in zip(sizes, limits))
    seen = set()
    for point in itertools.product(*map(range, sizes)):
        values = {u: u.const_like(v) for u, v in zip(specials, point)}
        seen.add(tuple(p.substitute(values).ssimplify() for p in parts))
    assert seen == set(itertools.product(*map(range, dims)))
    assert math.prod(sizes) == math.prod(dims)


@pytest.mark.parametrize(
    ("dims", "limits"),
    [((23,), (16, 16, 16)), ((2, 3, 4, 5, 6), (16, 16, 16)), ((128, 3, 4), (16, 2, 2))],
)
def test_launch_that_does_not_fit(dims, limits):
    with pytest.raises(RuntimeError, match="cannot launch"):
        get_grouped_dims("gidx", dims, limits)


# *** index types ***


def test_index_is_int32_where_it_fits():
    i = UOp.range(1000, 0)
    lowered = lower_index_types((i * 1000 + 5).sink()).src[0]
    assert {u.dtype for u in lowered.toposort()} == {dtypes.int32}


def test_index_is_int64_where_it_must():
    i, j = UOp.range(1 << 20, 0), UOp.range(1 << 20, 1)
    lowered = lower_index_types((i * (1 << 20) + j).sink()).src[0]
    assert lowered.dtype is dtypes.int64
    # what is small again is narrow again
    small = lower_index_types(((i * (1 << 20) + j) // (1 << 30)).sink()).src[0]
    assert small.dtype is dtypes.int32


def test_compared_indices_have_one_type():
    i, j = UOp.range(1 << 20, 0), UOp.range(1 << 20, 1)
    compared = lower_index_types(((i * (1 << 20) + j) < i).sink()).src[0]
    assert {s.dtype for s in compared.src} == {dtypes.int64}


# *** widths ***


@pytest.mark.parametrize("native", [4, 8, 16])
def test_register_pieces(native):
    for lanes in range(1, 200):
        pieces = split_for_registers(lanes, native)
        assert sum(pieces) == lanes
        assert all(p % native == 0 or (p < native and p & (p - 1) == 0) for p in pieces)
        assert max(pieces) <= 4 * native


def vector_copy(lanes, offset=0):
    out, a = buffer(0, 64), buffer(1, 64)
    at = UOp.range(2, 0) * 32 + offset

    def address(b):
        return b.index(at, ptr=True).cast(dtypes.float32.vec(lanes).ptr(64))

    value = UOp(Ops.LOAD, dtypes.float32.vec(lanes), (address(a),))
    return address(out).store(value * value).sink()


def accesses(sink):
    return sorted(u.dtype.count for u in sink.toposort() if u.op is Ops.LOAD)


def test_widths_of_targets():
    assert accesses(split_vectors(vector_copy(24), WideTarget())) == [8, 16]
    assert accesses(split_vectors(vector_copy(6), Float4Target())) == [2, 4]
    assert accesses(split_vectors(vector_copy(3), ScalarTarget())) == [1, 1, 1]


def test_narrow_accesses_are_aligned():
    assert accesses(split_vectors(vector_copy(4, offset=1), Float4Target())) == [1] * 4
    assert accesses(split_vectors(vector_copy(4, offset=2), Float4Target())) == [2, 2]


# *** UNROLL and CONTRACT ***


def spread(values, *axes):
    vec = UOp.const(dtypes.int32.vec(len(values)), tuple(values))
    return UOp(Ops.UNROLL, dtypes.int32, (vec,), axes)


def test_lanes_of_two_axes_multiply():
    total = graph_rewrite(spread((0, 10), (1, 2)) + spread((0, 1, 2), (2, 3)), sym + expander)
    assert (total.op, total.arg) == (Ops.UNROLL, ((1, 2), (2, 3)))
    assert total.src[0].arg == (0, 1, 2, 10, 11, 12)


def test_contract_undoes_unroll():
    value = spread((5, 7, 9), (3, 3))
    gathered = UOp(Ops.CONTRACT, dtypes.int32.vec(3), (value,), ((3, 3),))
    assert graph_rewrite(gathered, sym + expander).arg == (5, 7, 9)


# *** the table ***


def test_every_pass_is_named_and_explained():
    names = [row.name for row in PASSES]
    assert len(set(names)) == len(names)
    for row in PASSES:
        assert row.why
        assert (row.rules is None) != (row.function is None), row.name


def test_an_error_names_the_pass():
    bad = UOp(
        Ops.REDUCE, dtypes.float32, (buffer(0, 4).index(UOp.range(4, 0)), UOp.range(4, 0)), Ops.SUB
    )
    sink = buffer(1, 1).index(UOp.const(dtypes.index, 0), ptr=True).store(bad).sink()
    with Context(SPEC=1), pytest.raises(Exception, match="reduce") as error:
        full_rewrite_to_sink(sink, ScalarTarget(), optimize=False)
    assert any("pass 'expander'" in note for note in error.value.__notes__)


def test_lowering_twice_changes_nothing():
    i = UOp.range(8, 0)
    sink = buffer(0, 8).index(i, ptr=True).store(buffer(1, 8).index(i) * 2.0).end(i).sink()
    once = full_rewrite_to_sink(sink, ScalarTarget(), optimize=False)
    assert full_rewrite_to_sink(once, ScalarTarget(), optimize=False) is once


def test_line_rewrite_renames_later_uses():
    one, two = UOp.const(dtypes.int32, 1), UOp.const(dtypes.int32, 2)
    total = one + two
    three = UOp.const(dtypes.int32, 3)
    pm = PatternMatcher([(UPat(Ops.CONST, arg=2, name="u"), lambda u: (three, [three]))])
    assert line_rewrite([one, two, total], pm) == [one, three, one + three]


def test_rows_of_a_constant_matrix_are_spelled_out():
    """A transform by a small constant matrix computes each row once, not all rows for each place."""
    from tinygrad import Tensor
    from tinygrad.device import Device
    from tinygrad.engine.realize import get_program

    x = Tensor.empty(64, 6)
    left = [x[:, i : i + 1] for i in range(6)]
    rows = [left[0] + left[1], left[2] * 3 - left[0], left[3] + left[4] * 5, left[5] - left[1]]
    item = rows[0].cat(*rows[1:], dim=1).schedule()[-1]
    uops = get_program(item.ast, Device["CPU"].renderer).uops
    assert not [u for u in uops if u.op is Ops.WHERE]
