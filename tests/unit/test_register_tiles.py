"""What the heuristic makes of kernels for wide registers."""

from __future__ import annotations

import numpy as np

from tinygrad import Context, Device, Tensor
from tinygrad.codegen.opt import OptOps
from tinygrad.engine.realize import get_program
from tinygrad.uop.ops import Ops


def program_of(result: Tensor):
    (*_, last) = result.schedule()
    return get_program(last.ast, renderer=Device["CPU"].renderer)


def stored_lanes(program) -> set[int]:
    return {u.src[1].dtype.count for u in program.uops if u.op is Ops.STORE}


def test_tc_0_makes_products_of_small_blocks():
    a = np.random.default_rng(0).integers(-3, 4, (64, 64)).astype(np.float32)
    x = Tensor(a).realize()
    with Context(TC=0):
        assert stored_lanes(program_of(x @ x)) == {4}
        np.testing.assert_array_equal((x @ x).numpy(), a @ a)
    assert max(stored_lanes(program_of(x @ x))) > 4


def test_a_scalar_is_made_once_and_what_uses_it_is_stored_in_vectors():
    x = Tensor.empty(4096).contiguous().realize()
    program = program_of(x / x.square().sum().sqrt())
    kinds = [opt.op for opt in program.applied_opts]
    assert OptOps.UNROLL in kinds and OptOps.UPCAST in kinds
    assert min(stored_lanes(program)) > 1
    loops = [u for u in program.uops if u.op in (Ops.RANGE, Ops.END)]
    # the loop of the sum is closed before that of the outputs opens
    assert [u.op for u in loops] == [Ops.RANGE, Ops.END] * 2
