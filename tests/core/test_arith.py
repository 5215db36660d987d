"""Native methods, slots and rule bodies against their Python forms."""

import operator
import random

import pytest
from tinygrad._core import python_forms

from tinygrad.dtype import Invalid, dtypes
from tinygrad.uop.bounds import compute_bounds
from tinygrad.uop.methods_tensor import compute_device
from tinygrad.uop.ops import GroupOp, Ops, UOp
from tinygrad.uop.ranges import compute_open_ranges
from tinygrad.uop.rules.const import fold_constant_operands, fold_single_value
from tinygrad.uop.shape import compute_shape
from tinygrad.uop.symbolic import symbolic

DTYPES = (
    dtypes.index,
    dtypes.int,
    dtypes.uint8,
    dtypes.int64,
    dtypes.uint64,
    dtypes.bool,
    dtypes.float,
)
NUMBERS = (0, 1, -1, 3, 7, 127, 255, 2**31 - 1, -(2**31), 2**40, 2**62, 2**70, True, 2.0, 0.5)


def random_expression(rng: random.Random, size: int) -> list[UOp]:
    """Well-typed scalar nodes over variables, loops, constants and a buffer."""
    buffer = UOp.placeholder((16,), dtypes.int, 0)
    nodes = [buffer.index(UOp.const(dtypes.index, 3)), UOp.range(5, 0), UOp.special(9, "gidx0")]
    for dtype in DTYPES:
        low, high = (0, 1) if dtype is dtypes.bool else (0, rng.choice((3, 100)))
        nodes.append(UOp.variable(f"v{dtype.name}", low, high, dtype))
        for _ in range(3):
            value = rng.choice(NUMBERS)
            if dtypes.is_int(dtype) and not dtypes.min(dtype) <= value <= dtypes.max(dtype):
                value = 5
            nodes.append(UOp.const(dtype, value))
    for _ in range(size):
        a = rng.choice(nodes)
        same = [n for n in nodes if n.dtype is a.dtype]
        b = rng.choice(same)
        kind = rng.random()
        if kind < 0.1:
            nodes.append(a.cast(rng.choice(DTYPES)))
        elif kind < 0.2:
            condition = rng.choice([n for n in nodes if n.dtype is dtypes.bool])
            nodes.append(condition.where(a, b))
        elif kind < 0.25 and a.dtype is dtypes.index:
            condition = rng.choice([n for n in nodes if n.dtype is dtypes.bool])
            nodes.append(condition.where(a, UOp.invalid()))
        else:
            ops = GroupOp.Comparison | {Ops.ADD, Ops.MUL, Ops.MAX}
            if dtypes.is_int(a.dtype):
                ops = ops | {Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHR, Ops.SUB}
            elif a.dtype is dtypes.bool:
                ops = {Ops.AND, Ops.OR, Ops.XOR, Ops.CMPNE, Ops.ADD, Ops.MUL, Ops.MAX}
            nodes.append(a.alu(rng.choice(sorted(ops)), b))
    return nodes


@pytest.mark.parametrize("seed", range(60))
def test_slots_agree_with_their_python_forms(seed):
    for u in random_expression(random.Random(seed), 120):
        for got, form in ((u._min_max, compute_bounds), (u._shape, compute_shape)):
            want = form(u)
            assert got == want and list(map(type, got)) == list(map(type, want)), (seed, form, u)
        assert u._device == compute_device(u), (seed, u)
        assert list(u._ranges_below) == list(compute_open_ranges(u)), (seed, u)
        assert (u.vmin, u.vmax) == u._min_max


@pytest.mark.parametrize("seed", range(60))
def test_methods_agree_with_their_python_forms(seed):
    rng = random.Random(seed)
    for u in random_expression(rng, 60):
        for value in (rng.choice(NUMBERS), Invalid):
            assert u.const_like(value) is python_forms["const_like"](u, value)
            assert UOp.const(u.dtype, value) is python_forms["const"](u.dtype, value)
        for op in (Ops.ADD, Ops.CMPLT, Ops.SHL, Ops.WHERE):
            assert u.alu(op, u, u) is python_forms["alu"](u, op, u, u)
        for x in (u, rng.choice(NUMBERS)):
            for reverse in (False, True):
                want = python_forms["_binop"](u, Ops.MUL, x, reverse)
                assert u._binop(Ops.MUL, x, reverse) is want, (seed, u, x)


@pytest.mark.parametrize("seed", range(20))
def test_operators_make_what_the_methods_make(seed):
    rng = random.Random(seed)
    methods = {
        operator.add: "add",
        operator.mul: "mul",
        operator.floordiv: "idiv",
        operator.mod: "mod",
        operator.and_: "bitwise_and",
        operator.or_: "bitwise_or",
        operator.xor: "bitwise_xor",
        operator.lshift: "lshift",
        operator.rshift: "rshift",
        operator.lt: "lt",
        operator.gt: "gt",
        operator.ne: "ne",
    }
    for u in random_expression(rng, 40):
        other = rng.choice((u, 3))
        for sign, name in methods.items():
            if "bitwise" in name and dtypes.is_float(u.dtype):
                with pytest.raises(RuntimeError):
                    sign(u, other)
                continue
            assert sign(u, other) is getattr(u, name)(other), (seed, u, name)
            if name not in ("lt", "gt", "ne"):
                assert sign(3, u) is getattr(u, name)(3, True), (seed, u, name)


@pytest.mark.parametrize("seed", range(60))
def test_rule_bodies_agree_with_their_python_forms(seed):
    rules = {r.title: r for r in symbolic.rules if r.title in ("single-value", "constant-operands")}
    forms = {"single-value": fold_single_value, "constant-operands": fold_constant_operands}
    assert rules.keys() == forms.keys()
    for u in random_expression(random.Random(seed), 120):
        for title, rule in rules.items():
            if u.op not in rule.pattern.op:
                continue
            try:
                want = forms[title](u)
            except ZeroDivisionError:
                with pytest.raises(ZeroDivisionError):
                    rule.rewrite(u)
                continue
            assert rule.rewrite(u) is want, (seed, title, u)


def test_tensor_constants_keep_shape_and_device():
    buffer = UOp.new_buffer("CPU", 6, dtypes.float).reshape((2, 3))
    assert (buffer + 1).shape == (2, 3) and (buffer + 1).device == "CPU"
    assert (buffer < 2.0).dtype is dtypes.bool
