"""The walks of the lowering against plain Python models, on random kernels of loops and statements."""

import random

import pytest
from tinygrad._core import arrange, loop_masks, rebuilt, transform, with_bodies

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, UOp


def random_kernel(rng: random.Random, loops: int, statements: int) -> UOp:
    """Loops around sums and registers, some of them after others."""
    ranges = [
        UOp(Ops.RANGE, dtypes.index, (UOp.const(dtypes.index, i + 2),), (i, AxisType.LOOP))
        for i in range(loops)
    ]
    values: list[UOp] = [*ranges, UOp.const(dtypes.index, 1)]
    done: list[UOp] = []
    unused = list(ranges)
    for n in range(statements):
        values.append(rng.choice(values) + rng.choice(values))
        reg = UOp(Ops.DEFINE_REG, dtypes.index.ptr(1), (), n)
        waits = tuple(rng.sample(done, min(len(done), rng.randint(0, 2))))
        after = UOp(Ops.AFTER, reg.dtype, (reg, *waits)) if waits else reg
        body = UOp(Ops.STORE, dtypes.void, (after, rng.choice(values)))
        if rng.random() < 0.3 and done:
            body = UOp(Ops.GROUP, dtypes.void, (body, rng.choice(done)))
        if unused and rng.random() < 0.7:
            body = UOp(Ops.END, dtypes.void, (body, unused.pop()))
        done.append(body)
    return UOp(Ops.SINK, dtypes.void, tuple(done))


def closed_by(u: UOp) -> set[UOp]:
    if u.op is Ops.END:
        return {r for r in u.src[1:] if r.op is Ops.RANGE}
    return {r for s in u.src for r in closed_by(s)} if u.op in (Ops.GROUP, Ops.BARRIER) else set()


def open_loops(order: list[UOp]) -> dict[UOp, set[UOp]]:
    """What `loop_masks` says, as sets."""
    found: dict[UOp, set[UOp]] = {}
    for u in order:
        here = {r for s in u.src for r in found[s]}
        if u.op is Ops.RANGE:
            here.add(u)
        elif u.op in (Ops.END, Ops.REDUCE):
            here -= set(u.src[1:])
        elif u.op is Ops.AFTER:
            here -= {r for s in u.src[1:] for r in closed_by(s)}
        found[u] = here
    return found


# more than 64 loops need more than one word for a set
@pytest.mark.parametrize("loops", [1, 5, 64, 65, 150])
def test_masks_are_those_of_sets(loops):
    for seed in range(20):
        sink = random_kernel(random.Random(seed), loops, 2 * loops)
        order = list(sink.toposort())
        ranges = [u for u in order if u.op is Ops.RANGE]
        masks, expected = loop_masks(order, ranges), open_loops(order)
        for u in order:
            assert {r for i, r in enumerate(ranges) if masks[u] >> i & 1} == expected[u], seed


def test_masks_need_a_whole_order():
    a = UOp.const(dtypes.index, 1) + UOp.variable("n", 1, 4)
    with pytest.raises(ValueError, match="not in the order"):
        loop_masks([a], [])


def test_bodies_are_rebuilt_inside_each_other():
    a, b, c = (UOp.variable(name, 0, 9) for name in "abc")
    root = (a + b) * c
    assert with_bodies(root, {a + b: a * b, b: c}) is (a * c) * c
    assert with_bodies(root, {}) is root


def test_a_body_must_not_contain_what_it_stands_for():
    a = UOp.variable("a", 0, 9)
    with pytest.raises(RuntimeError, match="contains that node"):
        with_bodies(a + 1, {a: a * 2})


def test_rebuilt_needs_every_source():
    a = UOp.variable("a", 0, 9)
    assert rebuilt(a + 1, {s: s for s in (a + 1).src}) is a + 1
    with pytest.raises(KeyError):
        rebuilt(a + 1, {})


def test_transform_asks_only_where_the_type_occurs():
    x = UOp(Ops.DEFINE_VAR, dtypes.float32, (), ("x", 0.0, 1.0))
    i = UOp.variable("i", 0, 9, dtypes.index)
    asked: list[UOp] = []

    def note(u, src):
        asked.append(u)
        return u.replace(src=tuple(src))

    root = UOp(Ops.SINK, dtypes.void, (x + x, (i + 1) < 4))
    assert transform(root, dtypes.index, note) is root
    assert {u.op for u in asked} == {Ops.DEFINE_VAR, Ops.CONST, Ops.ADD, Ops.CMPLT}
    assert x not in asked and x + x not in asked


def test_what_comes_after_the_end_of_its_loop_is_reported():
    r = UOp(Ops.RANGE, dtypes.index, (UOp.const(dtypes.index, 4),), (0, AxisType.LOOP))
    late = r + 1
    end = UOp(Ops.END, dtypes.void, (UOp(Ops.NOOP), r))
    sink = UOp(Ops.SINK, dtypes.void, (end, late))
    order = list(sink.toposort())
    masks = loop_masks(order, [r])
    _, _, never_ended = arrange(
        order, masks, lambda mask: r if mask else None, frozenset({Ops.NOOP}), frozenset()
    )
    assert never_ended == [r]
