"""Gradients with respect to tensors that were overwritten between the forward pass and backward(): those of the values of then."""

import pytest

from tinygrad import Tensor, TinyJit, nn


def weight(*values):
    made = Tensor(list(values)).contiguous().realize()
    made.requires_grad = True
    return made


@pytest.mark.parametrize("realized", [True, False])
def test_assigned_before_backward(realized):
    w = weight(2.0)
    loss = (w * w).sum()
    w.assign(w * 10)
    if realized:
        w.realize()
    loss.backward()
    assert (w.grad.tolist(), w.tolist(), loss.item()) == ([4.0], [20.0], 4.0)


def test_assigned_twice():
    w = weight(2.0)
    loss = (w * w).sum()
    w.assign(w * 10)
    w.assign(w * 10).realize()
    loss.backward()
    w.assign(w + 1).realize()
    assert (w.grad.tolist(), w.tolist()) == ([4.0], [201.0])


@pytest.mark.parametrize("realized", [True, False])
def test_old_and_new_values_in_one_loss(realized):
    w = weight(2.0)
    before = (w * w).sum()
    w.assign(w * 10)
    if realized:
        w.realize()
    (before + (w * w).sum()).backward()
    assert w.grad.tolist() == [44.0]


def test_new_values_only():
    w = weight(2.0)
    w.assign(w * 10)
    (w * w).sum().backward()
    assert w.grad.tolist() == [40.0]


def test_gradient_of_what_an_assigned_value_came_from():
    w, v = weight(2.0), weight(3.0)
    before = (w * v).sum()
    w.assign(v * 4)
    (before + (w * w).sum()).backward()
    # v * w of then, and (4 v) ** 2
    assert (w.grad.tolist(), v.grad.tolist()) == ([27.0], [2.0 + 32 * 3.0])


def test_views():
    w = weight(2.0, 3.0)
    view = w.reshape(2, 1).permute(1, 0)
    view.requires_grad = True
    loss = (view * view).sum()
    w.assign(w * 0).realize()
    loss.backward()
    assert (view.grad.tolist(), w.grad.tolist()) == ([[4.0, 6.0]], [4.0, 6.0])


def test_targets_of_gradient():
    w = weight(3.0)
    loss = (w * w).sum()
    w.assign(w * 0).realize()
    assert loss.gradient(w)[0].tolist() == [6.0]
    with pytest.raises(RuntimeError, match="does not depend on the target"):
        loss.gradient(weight(1.0))


def test_constant_that_was_assigned_to():
    w = Tensor.full((2,), 2.0, requires_grad=True)
    loss = (w * w).sum()
    w.assign(Tensor([5.0, 6.0])).realize()
    loss.backward()
    assert (w.grad.tolist(), w.tolist()) == ([4.0, 4.0], [5.0, 6.0])


@pytest.mark.parametrize(
    "make", [lambda: Tensor.full((2,), 2.0).contiguous(), lambda: Tensor([2.0, 2.0]) + 0]
)
@pytest.mark.parametrize("read_first", [True, False])
def test_values_that_were_yet_to_be_computed(make, read_first):
    w = make()
    w.requires_grad = True
    loss = (w * w).sum()
    w.assign(w * 10).realize()
    if read_first:
        assert loss.item() == 8.0
    loss.backward()
    assert (w.grad.tolist(), w.tolist()) == ([4.0, 4.0], [20.0, 20.0])


def test_sharded():
    w = Tensor([1.0, 2.0]).shard(("CPU:0", "CPU:1")).realize()
    w.requires_grad = True
    loss = (w * w).sum()
    w.assign(w * 3).realize()
    loss.backward()
    assert (w.grad.tolist(), w.tolist()) == ([2.0, 4.0], [3.0, 6.0])


def test_backward_again_after_a_step():
    w = weight(1.0)
    optimizer = nn.optim.SGD([w], lr=0.5)
    with Tensor.train():
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.backward()
    assert (w.grad.tolist(), w.tolist()) == ([2.0], [0.0])


def test_accumulation_over_steps():
    w, got = weight(1.0), []
    for _ in range(4):
        (w * w).sum().backward()
        got.append(w.grad.item())
        w.assign((w + 1).detach()).realize()
    assert got == [2.0, 6.0, 12.0, 20.0]


def test_captured():
    w = weight(1.0)

    @TinyJit
    def step(x):
        w.grad = None
        loss = (w * w * x).sum()
        w.assign(w + 1)
        loss.backward()
        return w.grad.realize(), loss.realize()

    for k in range(1, 7):
        grad, loss = step(Tensor([1.0]).realize())
        assert (grad.item(), loss.item(), w.item()) == (2.0 * k, float(k * k), k + 1.0)


@pytest.mark.filterwarnings("ignore:.*changes from call to call")
def test_captured_accumulation():
    w = weight(1.0)

    @TinyJit
    def step(x):
        (w * x).sum().backward()
        return w.grad.realize()

    assert [step(Tensor([1.0]).realize()).item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]


def test_captured_micro_batches():
    def run(jit):
        w = weight(1.0, 2.0)
        optimizer = nn.optim.SGD([w], lr=0.1, momentum=0.5)

        def step(x, y):
            with Tensor.train():
                optimizer.zero_grad()
                for part in (x, y):
                    loss = ((w * part - 1) ** 2).sum().backward()
                optimizer.step()
            return loss

        call = TinyJit(step) if jit else step
        made = [
            call(Tensor([float(k), 1.0]).realize(), Tensor([2.0, k / 2]).realize()).item()
            for k in range(6)
        ]
        return made, w.tolist()

    eager, captured = run(False), run(True)
    assert captured[0] == pytest.approx(eager[0]) and captured[1] == pytest.approx(eager[1])


def test_values_that_were_never_in_memory():
    w = weight(2.0)
    w.assign(w + 1)
    loss = (w * w).sum()
    w.assign(w * 10).realize()
    assert (loss.item(), w.tolist()) == (9.0, [30.0])
    with pytest.raises(RuntimeError, match="Call backward\\(\\) before assign"):
        loss.backward()
