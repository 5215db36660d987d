"""Sums taken apart and put together, against plain arithmetic on their values."""

import random

import pytest
from tinygrad._core import Linear, compare, python_forms, summands

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp
from tinygrad.uop.rules.commute import canon_operand_order
from tinygrad.uop.symbolic import symbolic

NAMES = "abcd"


def random_sum(rng: random.Random) -> UOp:
    variables = [UOp.variable(n, rng.randrange(-5, 3), rng.randrange(3, 9)) for n in NAMES]
    parts = []
    for _ in range(rng.randint(1, 7)):
        part = rng.choice([*variables, UOp.const(dtypes.index, rng.randrange(-9, 9))])
        if part.op is not Ops.CONST and rng.random() < 0.6:
            part = part.alu(Ops.MUL, UOp.const(dtypes.index, rng.choice((-3, 2, 5, 2**40))))
        parts.append(part)
    while len(parts) > 1:
        a, b = parts.pop(rng.randrange(len(parts))), parts.pop()
        parts.append(a.alu(Ops.ADD, b))
    return parts[0]


def value(u: UOp, at: dict[str, int]) -> int:
    return u.sym_infer(at)


@pytest.mark.parametrize("seed", range(80))
def test_taking_apart_and_building_keep_the_value(seed):
    rng = random.Random(seed)
    u = random_sum(rng)
    total = Linear.of(u)
    bounds = total.bounds()
    inside = {v.arg[0]: (v.arg[1], v.arg[2]) for v in u.toposort() if v.op is Ops.DEFINE_VAR}
    assert 0 not in total.terms.values()
    for _ in range(10):
        at = {name: rng.randint(*ends) for name, ends in inside.items()}
        want = value(u, at)
        assert value(total.build(), at) == want and bounds[0] <= want <= bounds[1]
        doubled = total.map(lambda f: 2 * f, lambda c: 2 * c).build()
        assert value(doubled, at) == 2 * want
        for m in (2, 3, 7):
            whole, rest = total.split_by(m)
            assert value(whole.build(), at) * m + value(rest.build(), at) == want
            assert 0 <= rest.const < m
    assert sum(part.sym_infer(at) for part in summands(u)) == want


@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_reached(seed):
    total = Linear.of(random_sum(random.Random(seed)))
    low = high = total.const
    for node, factor in total.terms.items():
        low += min(node.vmin * factor, node.vmax * factor)
        high += max(node.vmin * factor, node.vmax * factor)
    assert total.bounds() == (low, high)


def test_building_is_the_python_arithmetic():
    a, b = UOp.variable("a", 0, 5), UOp.variable("b", 0, 5)
    total = Linear(a, {a: 3, b: 1}, 4)
    assert total.build() is a * 3 + b + 4
    assert Linear(a, {}, 7).build() is python_forms["const_like"](a, 7)
    assert Linear(a, {b: 2}, 0).build() is b * 2


def test_subclasses_stay_what_they_are():
    class Sum(Linear):
        pass

    total = Sum.of(UOp.variable("a", 0, 5) * 4 + 1)
    assert type(total) is Sum and type(total.map(int, int)) is Sum
    assert type(total.split_by(2)[0]) is Sum


@pytest.mark.parametrize("seed", range(30))
def test_operand_order_is_the_structural_one(seed):
    rule = next(r for r in symbolic.rules if r.title == "order-operands")
    for u in random_sum(random.Random(seed)).toposort():
        if u.op in (Ops.ADD, Ops.MUL):
            assert rule.rewrite(u) is canon_operand_order(u)
            swapped = compare(u.src[1], u.src[0]) < 0
            assert (rule.rewrite(u) is not None) == swapped
