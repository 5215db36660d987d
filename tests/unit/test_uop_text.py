"""Text forms of nodes, and the messages of errors about them."""

import random

import pytest

from tinygrad.dtype import AddrSpace, Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import (
    AxisType,
    KernelInfo,
    UOp,
    exec_alu,
    identity_element,
    print_uops,
    resolve,
    smax,
    smin,
    sym_infer,
)
from tinygrad.uop.spec import full_spec, kernel_spec, program_spec, tensor_spec, type_verify

SEED = random.SystemRandom().randrange(1 << 32)


def random_graph(rng: random.Random, size: int) -> UOp:
    nodes = [UOp.variable("a", 0, 9), UOp.const(dtypes.index, 3), UOp.range(7, 0)]
    for _ in range(size):
        op = rng.choice([Ops.ADD, Ops.MUL, Ops.IDIV, Ops.MAX])
        made = rng.choice(nodes[-6:]).alu(op, rng.choice(nodes[-6:]))
        nodes.append(made.rtag((1, "t")) if rng.random() < 0.1 else made)
    return nodes[-1].sink(arg=KernelInfo("k", axis_types=(AxisType.LOOP,)))


def run_script(script: str) -> UOp:
    scope = {
        "UOp": UOp, "Ops": Ops, "dtypes": dtypes, "KernelInfo": KernelInfo, "AxisType": AxisType,
        "AddrSpace": AddrSpace, "Invalid": Invalid,
    }  # fmt: skip
    exec(script, scope)
    return scope["ast"]


def test_repr_and_script_evaluate_back():
    rng = random.Random(SEED)
    for _ in range(30):
        u = random_graph(rng, 40)
        assert eval(repr(u)) is u, f"seed {SEED}"
        assert run_script(u.pyrender()) is u, f"seed {SEED}"


@pytest.mark.parametrize(
    "u",
    [
        UOp.const(dtypes.float, float("inf")),
        UOp.const(dtypes.float, -float("inf")),
        UOp.const(dtypes.half.vec(2), (float("inf"), 1.0)),
        UOp.invalid(),
        UOp.invalid(4),
        UOp(Ops.DEVICE, arg="CPU"),
        UOp(Ops.DEVICE, arg=("CPU:0", "CPU:1")),
        UOp.placeholder((4,), dtypes.float.vec(4), 3, AddrSpace.LOCAL),
        UOp(Ops.SINK, tag=("x", 1)),
    ],
)
def test_leaves_evaluate_back(u):
    assert eval(repr(u)) is u
    assert run_script(u.pyrender()) is u


def test_repr_of_a_deep_shared_graph_is_short():
    u = UOp.variable("a", 0, 1)
    for _ in range(60):
        u = u + u
    assert len(repr(u)) < 20_000


def test_formulas():
    a, b = UOp.variable("a", 0, 9), UOp.variable("b", 1, 9)
    show = lambda u: u.render(simplify=False)
    assert show(a + b * 2) == "(a+b*2)"
    assert show((a + b) * 2) == "((a+b)*2)"
    assert show(a + (b + 1)) == "(a+(b+1))"
    assert show(a * (b // 2)) == "(a*(b//2))"
    assert show((a < 3) & (b < 2)) == "((a<3)&(b<2))"
    assert show((a < 3).where(a, b)) == "(a<3).where(a, b)"
    assert show(a.maximum(b)) == "a.maximum(b)"
    assert show(a.cast(dtypes.float)) == "(float)(a)"
    assert show(UOp.range(3, (1, 2))) == "r1_2"
    assert show(a.bind(3)) == "a[=3]"


def test_formula_evaluates_back():
    rng = random.Random(SEED)
    a, b = UOp.variable("a", 0, 9), UOp.variable("b", 1, 9)
    for _ in range(100):
        u = rng.choice([a, b])
        for _ in range(4):
            other = rng.choice([a, b, a + 1, b * 3])
            u = rng.choice([lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x // y])(u, other)
        assert eval(u.render(simplify=False), {"a": a, "b": b}) is u, f"seed {SEED}"


def test_print_uops(capsys):
    a = UOp.variable("a", 0, 9)
    print_uops([a, a.const_like(2), a * 2])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and "MUL" in lines[2] and "[0, 1]" in lines[2]


def test_resolve_and_numbers():
    a = UOp.variable("a", 1, 10)
    assert resolve(True) and not resolve(False)
    assert resolve(a < 20) and not resolve(a < 1) and resolve(a < 5) and not resolve(a < 5, False)
    assert int(UOp.const(dtypes.int, 7) + 1) == 8 and float(UOp.const(dtypes.float, 0.5)) == 0.5
    with pytest.raises(ValueError, match="1 to 10"):
        int(a)
    with pytest.raises(TypeError, match="resolve"):
        resolve(a)
    assert smax(1, 5, 3) == 5 and smin((4, 2)) == 2
    assert smax(a, 20) == 20 and smin(a, 20) is a


def test_sym_infer():
    a, b = UOp.variable("a", -100, 100), UOp.variable("b", -100, 100)
    assert sym_infer((a * 3 - b) // 4, {"a": -5, "b": 2}) == -4
    assert sym_infer(a % b, {"a": -7, "b": 3}) == -1
    assert (a.bind(4) + 1).sym_infer({}) == 5
    with pytest.raises(KeyError, match="'b' has no value"):
        sym_infer(a + b, {"a": 1})


def test_bind():
    a = UOp.variable("a", 1, 10)
    assert a.bind(3).unbind() == (a, 3) and a.bind(3).val == 3 and a.bind(3).expr == "a"
    with pytest.raises(AssertionError, match="1 .. 10"):
        a.bind(11)
    with pytest.raises(AssertionError, match="DEFINE_VAR"):
        (a + 1).bind(2)
    with pytest.raises(AssertionError, match="unbind"):
        a.unbind()


def test_exact_quotients():
    a, b = UOp.variable("a", 0, 9), UOp.variable("b", 0, 9)
    assert (a * 6 + b * 4).const_factor() == 2
    assert (a * 6 + b * 4).divides(2) is a * 3 + b * 2
    assert (a * 6 + b).divides(2) is None
    assert (a + 5).pop_const() == (a, 5) and a.pop_const() == (a, 0)
    assert (a * 5).pop_const(Ops.MUL) == (a, 5)
    assert list((a + b + 3).split_uop(Ops.ADD)) == [a, b, a.const_like(3)]
    assert (a * 2 + b // 3).is_increasing() and not (a * -1).is_increasing()


def test_exec_alu_integers():
    assert exec_alu(Ops.IDIV, dtypes.int, (-7, 2)) == -3
    assert exec_alu(Ops.MOD, dtypes.int, (-7, 2)) == -1
    assert exec_alu(Ops.IDIV, dtypes.int, (7, 0)) == 0
    assert exec_alu(Ops.IDIV, dtypes.int, (-(2**31), -1)) == -(2**31)
    assert exec_alu(Ops.ADD, dtypes.uint8.vec(2), ((250, 1), 10)) == (4, 11)
    assert exec_alu(Ops.ADD, dtypes.index, (Invalid, 1)) is Invalid
    with pytest.raises(KeyError, match="no arithmetic"):
        exec_alu(Ops.LOAD, dtypes.int, (1,))


def test_exec_alu_floats():
    inf = float("inf")
    assert exec_alu(Ops.RECIPROCAL, dtypes.float, (-0.0,)) == -inf
    assert exec_alu(Ops.LOG2, dtypes.float, (0.0,)) == -inf
    assert exec_alu(Ops.EXP2, dtypes.float, (500.0,)) == inf
    assert exec_alu(Ops.SQRT, dtypes.float, (inf,)) == inf
    assert exec_alu(Ops.POW, dtypes.float, (0.0, -1.0)) == inf
    assert exec_alu(Ops.TRUNC, dtypes.float, (-inf,)) == -inf
    for op, operands in ((Ops.SQRT, (-1.0,)), (Ops.SIN, (inf,)), (Ops.MAX, (1.0, float("nan")))):
        result = exec_alu(op, dtypes.float, operands)
        assert result != result


@pytest.mark.parametrize(
    "counter, key, expected",
    [
        # Random123, kat_vectors, threefry2x32 with 20 rounds; the first word is the low one
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_known_answers(counter, key, expected):
    join = lambda words: words[1] << 32 | words[0]
    got = exec_alu(Ops.THREEFRY, dtypes.uint64, (join(counter), join(key)))
    assert got == join(expected)


def test_identity_elements():
    assert identity_element(Ops.MAX, dtypes.int8) == -128
    assert identity_element(Ops.MAX, dtypes.float) == -float("inf")
    with pytest.raises(KeyError, match="no identity"):
        identity_element(Ops.SUB, dtypes.int)


def test_verifier_names_the_node():
    one, two = UOp.const(dtypes.int, 1), UOp.const(dtypes.float, 2.0)
    bad = UOp(Ops.ADD, dtypes.int, (one, two)).sink()
    with pytest.raises(RuntimeError) as error:
        type_verify(bad, full_spec)
    text = str(error.value)
    assert "Ops.ADD" in text and "('CONST', dtypes.float)" in text and "->    2 ADD" in text


@pytest.mark.parametrize(
    "bad",
    [
        UOp(Ops.CONST, dtypes.int, (), 1.0),
        UOp(Ops.CONST, dtypes.float, (), 1),
        UOp(Ops.WHERE, dtypes.int, (UOp.const(dtypes.int, 1),) * 3),
        UOp(Ops.CMPLT, dtypes.int, (UOp.const(dtypes.int, 1),) * 2),
        UOp(Ops.IDIV, dtypes.float, (UOp.const(dtypes.float, 1.0),) * 2),
        UOp(Ops.GEP, dtypes.int, (UOp.const(dtypes.int.vec(2), 1),), (2,)),
        UOp(Ops.VECTORIZE, dtypes.int.vec(3), (UOp.const(dtypes.int, 1),) * 2),
        UOp(Ops.RANGE, dtypes.int, (UOp.const(dtypes.int, 4),), 0),
        UOp(Ops.STORE, dtypes.void, (UOp.const(dtypes.int, 1),) * 2),
        UOp(Ops.DEFINE_LOCAL, dtypes.int.ptr(4), (), 0),
        UOp(Ops.PROGRAM, dtypes.void, (UOp(Ops.DEVICE, arg="CPU"), UOp.sink())),
        UOp(Ops.REWRITE_ERROR),
    ],
)
def test_verifier_refuses(bad):
    with pytest.raises(RuntimeError, match="verification failed"):
        type_verify(bad, program_spec)


def test_verifier_accepts_each_stage():
    x = UOp.new_buffer("CPU", 12, dtypes.float).reshape(3, 4)
    tensor = (x.permute(1, 0).contiguous().r(Ops.ADD, (0,)) * 2.0).sink()
    type_verify(tensor, tensor_spec)
    i, r = UOp.range(3, 0), UOp.range(4, 1, AxisType.REDUCE)
    source = UOp.placeholder((12,), dtypes.float, 1)
    out = UOp.placeholder((3,), dtypes.float, 0)
    kernel = out[i].store(source[i * 4 + r].reduce(r, arg=Ops.ADD)).end(i).sink(arg=KernelInfo())
    type_verify(kernel, kernel_spec)
    for u in (tensor, kernel):
        type_verify(u, full_spec)


def test_groups_are_complete():
    assert len(GroupOp.All) == len(Ops) == max(Ops)
    assert GroupOp.Unary | GroupOp.Binary | GroupOp.Ternary == GroupOp.ALU
    assert not GroupOp.Unary & GroupOp.Binary
