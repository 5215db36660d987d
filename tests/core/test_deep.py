"""Two million nodes in a row: nothing recurses over the graph."""

import os
import pickle

import pytest
from tinygrad._core import (
    PatternMatcher,
    UOp,
    check_table,
    compare,
    graph_rewrite,
    live_nodes,
    slot_number,
    substitute,
    uop_derived,
)

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.upat import UPat

LENGTH = int(os.environ.get("CORE_CHAIN", "2000000"))


def chain(value: int) -> UOp:
    node = UOp(Ops.CONST, dtypes.int, arg=value)
    for _ in range(LENGTH):
        node = UOp(Ops.NEG, dtypes.int, (node,))
    return node


@pytest.mark.timeout(600)
def test_chain():
    before = live_nodes()
    one = chain(1)
    assert live_nodes() - before >= LENGTH
    assert len(one.toposort()) == LENGTH + 1
    assert not one.op_in_backward_slice_with_self(Ops.ADD)
    assert uop_derived(one, slot_number("length_for_test"), lambda u: None) is None
    assert len(one.key) == 32
    data = pickle.dumps(one)
    two = substitute(one, {UOp(Ops.CONST, dtypes.int, arg=1): UOp(Ops.CONST, dtypes.int, arg=2)})
    assert (compare(one, two), compare(two, one)) == (-1, 1)
    pm = PatternMatcher([(UPat(Ops.CONST, arg=2, name="c"), lambda c: c.replace(arg=1))])
    assert graph_rewrite(two, pm) is one and graph_rewrite(two, pm, bottom_up=True) is one
    del one, two
    assert live_nodes() <= before + 4
    again = pickle.loads(data)
    assert live_nodes() - before >= LENGTH and again.op is Ops.NEG
    del again
    check_table()
    assert live_nodes() <= before + 4
