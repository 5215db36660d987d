"""A kernel of the user's overwrites memory in program order, as an assignment does."""

import pytest

from tinygrad import Tensor, TinyJit, UOp
from tinygrad.uop.ops import KernelInfo


def real(*values):
    return Tensor(list(values)).contiguous().realize()


def copy_plus_one(target, source):
    target, source = target.flatten(), source.flatten()
    i = UOp.range(source.size, 0)
    return target[i].store(source[i] + 1).end(i).sink(arg=KernelInfo(name="copy_plus_one"))


def increase(target):
    target = target.flatten()
    i = UOp.range(target.size, 0)
    return target[i].store(target[i] + 1).end(i).sink(arg=KernelInfo(name="increase"))


@pytest.mark.parametrize("realized", [True, False])
def test_values_of_before_and_after(realized):
    out, x = real(10.0, 20.0), real(1.0, 2.0)
    before, of_input = out + 1, x + 1
    result = out.custom_kernel(x, fxn=copy_plus_one)[0]
    after = out + 1
    if realized:
        result.realize()
    assert (before.tolist(), after.tolist()) == ([11.0, 21.0], [3.0, 4.0])
    assert (of_input.tolist(), x.tolist()) == ([2.0, 3.0], [1.0, 2.0])
    assert result.tolist() == out.tolist() == [2.0, 3.0]


def test_views_show_it():
    out = real(10.0, 20.0)
    view, square = out[1:], out.reshape(2, 1)
    before = view + 1
    out.custom_kernel(real(1.0, 2.0), fxn=copy_plus_one)
    assert ((view + 1).tolist(), view.tolist(), square.tolist()) == ([4.0], [3.0], [[2.0], [3.0]])
    assert before.tolist() == [21.0]


@pytest.mark.parametrize(
    "pick, want",
    [
        (lambda t: t[1:3], [1.0, 11.0, 21.0, 4.0]),
        (lambda t: t.flip(0)[:2], [1.0, 2.0, 21.0, 11.0]),
        (lambda t: t.reshape(2, 2).permute(1, 0)[1], [1.0, 11.0, 3.0, 21.0]),
    ],
)
def test_into_a_part(pick, want):
    whole = real(1.0, 2.0, 3.0, 4.0)
    before = whole * 1 + 0.5
    result = pick(whole).custom_kernel(real(10.0, 20.0), fxn=copy_plus_one)[0]
    assert (result.tolist(), whole.tolist()) == ([11.0, 21.0], want)
    assert before.tolist() == [1.5, 2.5, 3.5, 4.5]


def test_one_after_another():
    out = real(1.0)
    first = out.custom_kernel(fxn=increase)[0]
    out.assign(out * 10)
    second = out.custom_kernel(fxn=increase)[0]
    assert out.tolist() == second.tolist() == [21.0]
    assert first.tolist() == [21.0]  # it is the memory of `out`


def test_equal_memory_is_parted():
    out = real(1.0)
    same = (out * 1).realize()
    out.custom_kernel(fxn=increase)[0].realize()
    assert (same.tolist(), out.tolist()) == ([1.0], [2.0])


def test_memory_that_is_yet_to_be_made():
    out, other = Tensor.zeros(2).contiguous(), Tensor.zeros(2).contiguous()
    before = out + 5
    result = out.custom_kernel(real(1.0, 2.0), fxn=copy_plus_one)[0]
    assert (result.tolist(), out.tolist()) == ([2.0, 3.0], [2.0, 3.0])
    assert (before.tolist(), other.tolist()) == ([5.0, 5.0], [0.0, 0.0])


def test_captured():
    state = real(1.0)

    @TinyJit
    def step(x):
        before = state * 10
        state.custom_kernel(fxn=increase)
        return (before + x).realize()

    for k in range(6):
        lazy = state * 100
        assert step(real(0.5)).item() == 10.0 * (k + 1) + 0.5
        assert (state.item(), lazy.item()) == (k + 2.0, 100.0 * (k + 1))


def test_captured_input():
    step = TinyJit(lambda x: x.custom_kernel(fxn=increase)[0])
    for k in range(5):
        x = real(float(k))
        lazy = x * 2
        assert step(x).item() == k + 1
        assert (x.item(), lazy.item()) == (k + 1.0, 2.0 * k)


def test_sharded():
    out = Tensor([1.0, 2.0]).shard(("CPU:0", "CPU:1"), 0).realize()
    before = out * 10
    out.custom_kernel(fxn=increase)[0].realize()
    assert (before.tolist(), out.tolist()) == ([10.0, 20.0], [2.0, 3.0])
