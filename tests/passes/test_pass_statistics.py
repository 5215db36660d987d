"""How much work the lowering does for one fixed kernel: counts that may fall and must not grow."""

import pytest

from tinygrad.codegen import statistics
from tinygrad.helpers import Context
from tinygrad.uop import Ops

from .kernels import LOOP, REDUCE, UPCAST, Axes, WideTarget, buffer, instructions

# instructions; nodes made, patterns tried, rules that fired in all passes
LIMITS = (175, 750, 3150, 48)


def padded_product():
    """A matrix product in tiles of 4 rows and 32 columns; its second factor has a border of zeros."""
    axes = Axes()
    i, rows = axes.split(64, 4, LOOP, UPCAST)
    j, columns = axes.split(64, 32, LOOP, UPCAST)
    k = axes(64, REDUCE)
    out, a, b = buffer(0, 64 * 64), buffer(1, 64 * 64), buffer(2, 64 * 64)
    inside = (j + k < 101) & ~(j + k < 1)
    product = a.index(i * 64 + k) * b.index((k * 64 + j - 1).valid(inside))
    total = product.reduce(k, arg=Ops.ADD)
    return out.index(i * 64 + j, ptr=True).store(total.relu()).end(*rows, *columns).sink()


def costs():
    """The cost of every pass for the kernel, and its instructions."""
    statistics.passes.clear()
    with Context(PASS_STATS=1):
        lines = instructions(padded_product(), WideTarget())
    return dict(statistics.passes), lines


def test_counts_do_not_grow():
    costs()  # matchers are compiled, and constants made, the first time
    found, lines = costs()
    sums = [sum(getattr(c, name) for c in found.values()) for name in ("made", "tried", "changed")]
    counts = (len(lines), *sums)
    assert all(count <= limit for count, limit in zip(counts, LIMITS, strict=True)), counts


def test_counts_are_those_of_the_kernel_alone():
    costs()
    first, second = costs()[0], costs()[0]
    for name, cost in first.items():
        other = second[name]
        assert (cost.nodes, cost.made, cost.tried) == (other.nodes, other.made, other.tried), name


def test_every_pass_has_a_line_in_the_table():
    found, _ = costs()
    lines = statistics.table(found).splitlines()
    assert len(found) > 10 and len(lines) == len(found) + 2
    assert lines[-1].startswith("all")


def test_nothing_is_counted_without_the_switch():
    statistics.passes.clear()
    instructions(padded_product(), WideTarget())
    assert not statistics.passes


@pytest.fixture(autouse=True)
def cleared():
    yield
    statistics.passes.clear()
