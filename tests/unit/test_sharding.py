"""Tensors on several devices: right values, in every way of placing them, or an error that says what to do."""

from __future__ import annotations

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

A = np.arange(24, dtype=np.float32).reshape(4, 6)


def devices(count: int) -> tuple[str, ...]:
    return tuple(f"CPU:{i}" for i in range(count))


def sharded(axis=0, values=A, count=2) -> Tensor:
    return Tensor(values).shard(devices(count), axis).realize()


def parts(x: Tensor) -> list[np.ndarray]:
    """What is on each device."""
    node = x.realize().uop
    while node.op.name == "MULTI":
        node = node.src[0]
    return [b.numpy() for b in node.base.buffer.bufs]


# ---- writes


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_assign_to_a_number_on_several_devices(axis):
    """As BatchNorm does with running statistics that were made, moved and never computed."""
    for made in (Tensor.zeros(4, 6), Tensor.full((4, 6), 2.0)):
        x = made.shard(devices(2), axis)
        x.assign(x * 0 + Tensor(A).shard(devices(2), 0))
        assert x.uop.axis == axis
        np.testing.assert_equal(x.numpy(), A)


def test_assign_to_elements_that_share_memory():
    for x in (Tensor([1.0]).expand(4), Tensor([1.0]).realize().shard(devices(2)).expand(4)):
        with pytest.raises(RuntimeError, match="contiguous"):
            x.assign(x + 1)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("is_number", [True, False])
def test_setitem(axis, is_number):
    indices = [
        1,
        -1,
        slice(1, 3),
        (slice(None), 2),
        (slice(0, 2), slice(1, 4)),
        (3, 5),
        ...,
        [0, 3],
    ]
    for index in indices:
        start = Tensor.zeros(4, 6) if is_number else Tensor(A)
        x, want = start.shard(devices(2), axis), np.zeros_like(A) if is_number else A.copy()
        x[index], want[index] = 7.0, 7.0
        np.testing.assert_equal(x.numpy(), want, err_msg=str(index))
        rows = np.arange(want[index].size, dtype=np.float32).reshape(want[index].shape)
        x[index], want[index] = Tensor(rows).shard(devices(2)), rows
        np.testing.assert_equal(x.numpy(), want, err_msg=str(index))
        assert x.uop.axis == axis


# ---- what crosses shards


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_that_change_devices(axis, count):
    values = np.random.default_rng(3).standard_normal((8, 12)).astype(np.float32)
    x = sharded(axis, values, count)
    for got, want in (
        (x.flip(0), values[::-1]),
        (x.flip(1), values[:, ::-1]),
        (x.pad(((2, 2), (1, 3))), np.pad(values, ((2, 2), (1, 3)))),
        (x.cat(x + 1, dim=0), np.concatenate([values, values + 1], 0)),
        (x.cat(x + 1, dim=1), np.concatenate([values, values + 1], 1)),
        (x.cat(Tensor(values).shard(x.device), dim=axis), np.concatenate([values] * 2, axis)),
    ):
        assert got.uop.axis == axis
        np.testing.assert_equal(got.numpy(), want)


def test_a_pad_that_leaves_unequal_shards_is_refused():
    with pytest.raises(AssertionError, match=r"axis 0 has to stay a multiple of 2.*\.to\(\)"):
        sharded(0).pad(((1, 0), None)).realize()


@pytest.mark.parametrize("ring", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_allreduce(ring, count, monkeypatch):
    monkeypatch.setattr("tinygrad.schedule.multi.RING_THRESHOLD", 20)
    dice = np.random.default_rng(count)
    for shape in ((count, 7), (2 * count, 13, 5), (count, 1), (count, count, 3)):
        values = dice.standard_normal(shape).astype(np.float32)
        with Context(RING=ring):
            x = sharded(0, values, count)
            np.testing.assert_allclose(x.sum(0).numpy(), values.sum(0), rtol=1e-4, atol=1e-5)
            np.testing.assert_equal(x.max(0).numpy(), values.max(0))
            for part in parts(x.sum(0).contiguous()):
                np.testing.assert_allclose(
                    part.reshape(shape[1:]), values.sum(0), rtol=1e-4, atol=1e-5
                )


# ---- placing


def test_copies_on_all_devices_are_equal():
    Tensor.manual_seed(5)
    x = sharded(None)
    with Tensor.train():
        made = [x.rand_like(), x.dropout(0.5), Tensor.zeros(5).shard(devices(3)) + 1]
    for t in made:
        first, *others = parts(t.contiguous())
        assert all((first == other).all() for other in others)


def test_a_number_goes_with_what_is_on_several_devices():
    for got, want in (
        (sharded() + Tensor(2.0), A + 2),
        (Tensor(2.0) * sharded(), A * 2),
        (Tensor.ones(4, 6) - sharded(1), 1 - A),
        ((sharded() > 3).where(Tensor(1.0), 0), A > 3),
    ):
        assert got.device == ("CPU", "CPU:1")
        np.testing.assert_equal(got.numpy(), want)


def test_mixed_devices_are_refused():
    here, there = Tensor(A).realize(), Tensor(A).to("CPU:1").realize()
    for mixed, remedy in (
        (lambda: here + there, r"\.to\("),
        (lambda: here.cat(there), r"\.to\("),
        (lambda: here + sharded(), r"\.shard\("),
        (lambda: sharded() @ there.T, r"\.shard\("),
    ):
        with pytest.raises(RuntimeError, match=f"same device.*{remedy}"):
            mixed().realize()
    with pytest.raises(TypeError, match="tuple of devices"):
        here.shard("CPU:1")
    with pytest.raises(RuntimeError, match=r"on one device.*\.to\(\)"):
        sharded().shard(devices(2), 1)
    with pytest.raises(RuntimeError, match="multiple of the number of devices"):
        here.shard(devices(3), 0)


# ---- training


class Model:
    def __init__(self):
        self.conv, self.norm = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm(4)
        self.words, self.hidden = nn.Embedding(10, 6), nn.Linear(4 * 6 * 6 + 6, 12)
        self.layer_norm, self.out = nn.LayerNorm(12), nn.Linear(12, 5)

    def __call__(self, image: Tensor, words: Tensor) -> Tensor:
        h = self.norm(self.conv(image)).relu().flatten(1)
        h = h.cat(self.words(words).mean(1), dim=1)
        return self.out(self.layer_norm(self.hidden(h)).gelu())


def train(optimizer: str, count: int, jit: bool) -> tuple[list[float], list[np.ndarray]]:
    """The losses and the state after three steps; `count` 0: on one device."""
    Tensor.manual_seed(3)
    dice, model = np.random.default_rng(1), Model()
    state = nn.state.get_parameters(model)
    for p in state if count else ():
        p.shard_(devices(count))
    opt = getattr(nn.optim, optimizer)(state, lr=0.01)

    def step(image: Tensor, words: Tensor, labels: Tensor) -> Tensor:
        opt.zero_grad()
        loss = model(image, words).sparse_categorical_crossentropy(labels)
        loss.backward()
        opt.step()
        return loss.realize()

    run, losses = TinyJit(step) if jit else step, []
    with Tensor.train():
        for _ in range(3):
            batch = [
                Tensor(dice.standard_normal((12, 1, 8, 8)).astype(np.float32)),
                Tensor(dice.integers(0, 10, (12, 3)).astype(np.int32)),
                Tensor(dice.integers(0, 5, 12).astype(np.int32)),
            ]
            if count:
                batch = [t.shard(devices(count), 0) for t in batch]
            losses.append(run(*[t.realize() for t in batch]).item())
    return losses, [p.numpy() for p in state]


@pytest.mark.parametrize(
    "optimizer, count, jit", [("SGD", 2, False), ("AdamW", 3, True), ("LAMB", 2, True)]
)
def test_a_training_step_is_that_of_one_device(optimizer, count, jit):
    losses, state = train(optimizer, 0, jit=True)
    got_losses, got_state = train(optimizer, count, jit)
    np.testing.assert_allclose(got_losses, losses, rtol=1e-3)
    for got, want in zip(got_state, state):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-3)
