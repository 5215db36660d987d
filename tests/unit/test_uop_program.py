"""The PROGRAM node: states, properties, launch sizes."""

import pytest

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import KernelInfo, UOp
from tinygrad.uop.spec import program_spec, type_verify


def parts(*specials: UOp, device="CPU", extra: tuple[UOp, ...] = ()) -> UOp:
    out = UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(16), (), 2)
    source = UOp(Ops.DEFINE_GLOBAL, dtypes.float.ptr(16), (), 0)
    zero = UOp.const(dtypes.int, 0)
    wide = dtypes.float.vec(4).ptr(4)
    load = source.index(zero, ptr=True).cast(wide).load(dtype=dtypes.float.vec(4))
    store = out.index(zero, ptr=True).cast(wide).store(load)
    sink = store.sink(arg=KernelInfo(name="copy_4"))
    uops = [out, source, *extra, *specials, zero, *store.src[0].toposort(), load, store, sink]
    return UOp.new_program("copy_4", "void copy_4() {}", device, sink, list(dict.fromkeys(uops)))


def special(name: str, size) -> UOp:
    end = size if isinstance(size, UOp) else UOp.const(dtypes.int, size)
    return UOp(Ops.SPECIAL, dtypes.int, (end,), name)


def test_states_verify():
    program = parts()
    type_verify([program], program_spec)
    for count in (2, 3):
        type_verify([program.replace(src=program.src[:count])], program_spec)
    for bad in (program.src[:1], program.src[1:], (*program.src, program.src[0])):
        with pytest.raises(RuntimeError, match="PROGRAM"):
            type_verify([program.replace(src=bad)], program_spec)


def test_properties():
    program = parts()
    assert program.name == "copy_4" and program.device == "CPU" and program.applied_opts == ()
    assert program.globals == [0, 2] and program.outs == [2] and program.ins == [0]
    assert program.uops[-1].op is Ops.SINK
    assert program.sizes == (None, None) and program.launch_dims({}) == (None, None)


def test_same_parts_same_program():
    assert parts() is parts()


def test_sizes_of_groups_and_threads():
    program = parts(special("gidx0", 8), special("lidx1", 4))
    assert program.sizes == ((8, 1, 1), (1, 4, 1))
    assert program.global_size == (8, 1, 1) and program.local_size == (1, 4, 1)
    assert parts(special("idx0", 8), special("idx2", 3)).sizes == ((8, 1, 3), None)


def test_threads():
    core = UOp.variable("core_id", 0, 3, dtypes.int)
    assert parts(extra=(core,)).sizes == ((4, 1, 1), None)


def test_symbolic_launch():
    n = UOp.variable("n", 1, 10, dtypes.int)
    m = UOp.variable("a", 1, 10, dtypes.int)
    program = parts(special("gidx0", n * 2), special("lidx0", 4), extra=(n, m))
    assert program.launch_dims({"n": 3}) == ([6, 1, 1], [4, 1, 1])
    assert program.variables() == program.prog_vars() == [m, n]
    with pytest.raises(KeyError, match="'n'"):
        program.launch_dims({})
    with pytest.raises(ValueError, match="1 .. 10"):
        program.launch_dims({"n": 11})


def test_other_ops_are_refused():
    for name in ("name", "uops", "estimates", "globals", "outs", "ins", "sizes", "applied_opts"):
        with pytest.raises(AssertionError, match=r"Ops\.SINK"):
            getattr(UOp.sink(), name)


def test_program_without_instructions():
    lowered = parts().replace(src=parts().src[:2])
    with pytest.raises(RuntimeError, match="no LINEAR"):
        _ = lowered.globals


def test_ast_without_arg_gets_the_name():
    program = UOp.new_program("asm", "ret", "CPU", UOp.sink(), [])
    assert program.name == "asm" and program.src[3].arg == "ret"
