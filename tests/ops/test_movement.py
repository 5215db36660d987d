"""Changes of shape, joining, splitting, padding and windows against NumPy, over shapes of 0 to 5 axes.

Lengths of 0 and 1 are among them. Exact: elements only move. On the PYTHON device, which compiles
nothing and refuses reads out of range; `test_on_the_default_device` runs a share of it where users do.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.ops.values import SHAPES

from tinygrad import Tensor
from tinygrad.device import Device


@pytest.fixture(autouse=True)
def interpreted(request):
    before = Device.DEFAULT
    if "default_device" not in request.node.name:
        Device.DEFAULT = "PYTHON"
    yield
    Device.DEFAULT = before


def filled(shape, kind=np.int32) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(kind)


class Random(random.Random):
    def axis(self, x) -> int:
        """An axis, from either end; the array has one."""
        return self.randint(-x.ndim, x.ndim - 1)

    def axes(self, x) -> tuple[int, ...]:
        chosen = self.sample(range(x.ndim), self.randint(0, x.ndim))
        return tuple(a - x.ndim if self.random() < 0.3 else a for a in chosen)

    def pairs(self, x, most) -> list[tuple[int, int]]:
        return [(self.randint(0, most(s)), self.randint(0, most(s))) for s in x.shape]


def grown(a, pairs, **options):
    """`np.pad`, which wants at least one axis."""
    return np.pad(a, pairs, **options) if pairs else a


def padded(mode, other, most):
    def row(r, x):
        pairs = r.pairs(x, most)
        options = {} if mode == "constant" else {"mode": mode}
        return lambda t: t.pad(pairs, **options), lambda a: grown(a, pairs, mode=other)

    return row


def _reshape(r, x):
    sizes = list(x.shape)
    r.shuffle(sizes)
    at = r.randint(0, len(sizes))
    sizes.insert(at, 1)
    if x.size and r.random() < 0.5:
        sizes[r.randrange(len(sizes))] = -1
    shape = tuple(sizes)
    return lambda t: t.reshape(shape), lambda a: a.reshape(shape)


def _expand(r, x):
    new = tuple(r.randint(0, 3) if s == 1 else s for s in x.shape)
    shape = tuple(r.randint(0, 3) for _ in range(r.randint(0, 2))) + new
    return lambda t: t.expand(shape), lambda a: np.broadcast_to(a, shape)


def _permute(r, x):
    order = r.sample(range(x.ndim), x.ndim)
    spelled = [o - x.ndim if r.random() < 0.3 else o for o in order]
    return lambda t: t.permute(spelled), lambda a: a.transpose(order)


def _flip(r, x):
    axes = r.axes(x)
    return lambda t: t.flip(axes), lambda a: np.flip(a, axes)


def _shrink(r, x):
    ends = [sorted((r.randint(0, s), r.randint(0, s))) for s in x.shape]
    cut = tuple(slice(b, e) for b, e in ends)
    return lambda t: t.shrink(tuple(map(tuple, ends))), lambda a: a[cut]


def _pad_value(r, x):
    pairs, value = r.pairs(x, lambda s: 2), r.randint(-5, 5)
    return (
        lambda t: t.pad(pairs, value=value),
        lambda a: grown(a, pairs, constant_values=a.dtype.type(value)),
    )


def _pad_cut(r, x):
    pairs = [(r.randint(-1, 2), r.randint(0, 2)) for _ in x.shape]
    pairs = [(max(b, -s), e) for (b, e), s in zip(pairs, x.shape)]
    kept = tuple(slice(-min(b, 0), None) for b, _ in pairs)
    added = [(max(b, 0), e) for b, e in pairs]
    return lambda t: t.pad(pairs), lambda a: grown(a[kept], added)


def _repeat(r, x):
    counts = [r.randint(0, 3) for _ in range(x.ndim + r.randint(0, 1))]
    return lambda t: t.repeat(counts), lambda a: np.tile(a, counts)


def _interleave(r, x):
    count = r.randint(0, 3)
    if r.random() < 0.3:
        return lambda t: t.repeat_interleave(count), lambda a: np.repeat(a, count)
    axis = r.axis(x)
    return lambda t: t.repeat_interleave(count, axis), lambda a: np.repeat(a, count, axis)


def _roll(r, x):
    axes = r.axes(x)
    shifts = tuple(r.randint(-7, 7) for _ in axes)
    if not axes:
        return lambda t: t.roll(3), lambda a: np.roll(a, 3)
    return lambda t: t.roll(shifts, axes), lambda a: np.roll(a, shifts, axes)


def _cat(r, x):
    axis = r.axis(x)
    parts = [x[tuple(slice(r.randint(0, s)) if i == axis % x.ndim else slice(None)
                     for i, s in enumerate(x.shape))] for _ in range(3)]  # fmt: skip
    return (
        lambda t: Tensor.cat(*[Tensor(p) for p in parts], t, dim=axis),
        lambda a: np.concatenate([*parts, a], axis),
    )


def _stack(r, x):
    axis = r.randint(-x.ndim - 1, x.ndim)
    return lambda t: Tensor.stack(t, t, t, dim=axis), lambda a: np.stack([a, a, a], axis)


def _split(r, x):
    axis, size = r.axis(x), r.randint(1, 3)
    edges = list(range(size, x.shape[axis], size))
    return (
        lambda t: Tensor.cat(*t.split(size, axis)[::-1], dim=axis),
        lambda a: np.concatenate(np.split(a, edges, axis)[::-1], axis),
    )


def _transpose(r, x):
    a, b = r.axis(x), r.axis(x)
    return lambda t: t.transpose(a, b), lambda v: np.swapaxes(v, a, b)


def _flatten(r, x):
    first = r.randint(0, x.ndim - 1)
    last = r.randint(first, x.ndim - 1)
    shape = (*x.shape[:first], int(np.prod(x.shape[first : last + 1])), *x.shape[last + 1 :])
    return lambda t: t.flatten(first, last - x.ndim), lambda a: a.reshape(shape)


def _squeeze(r, x):
    ones = [i for i, s in enumerate(x.shape) if s == 1]
    if not ones or r.random() < 0.3:
        return lambda t: t.squeeze(), np.squeeze
    axis = r.choice(ones)
    return lambda t: t.squeeze(axis), lambda a: np.squeeze(a, axis)


def _unsqueeze(r, x):
    axis = r.randint(-x.ndim - 1, x.ndim)
    return lambda t: t.unsqueeze(axis), lambda a: np.expand_dims(a, axis)


def _triangle(name):
    def row(r, x):
        k = r.randint(-4, 4)
        return lambda t: getattr(t, name)(k), lambda a: getattr(np, name)(a, k)

    return row


def _unfold(r, x):
    axis = r.axis(x)
    size, step = r.randint(0, x.shape[axis]), r.randint(1, 3)
    if size == 0:
        size = min(1, x.shape[axis])
    if size == 0:
        return None

    def reference(a):
        windows = np.lib.stride_tricks.sliding_window_view(a, size, axis)
        return windows[tuple(slice(None, None, step) if i == axis % a.ndim else slice(None)
                             for i in range(a.ndim))]  # fmt: skip

    return lambda t: t.unfold(axis, size, step), reference


def _meshgrid(r, x):
    lines = [np.arange(r.randint(0, 3)) for _ in range(2)]
    way = r.choice(["ij", "xy"])
    flat = x.reshape(-1)[:4]
    at = r.randint(0, 2)
    return (
        lambda t: t.flatten()[:4].meshgrid(*[Tensor(line) for line in lines], indexing=way)[at],
        lambda a: np.meshgrid(flat, *lines, indexing=way)[at],
    )


# (needs an axis, how it is called and what NumPy says)
ROWS = {
    "reshape": (0, _reshape), "expand": (0, _expand), "permute": (0, _permute), "flip": (0, _flip),
    "shrink": (0, _shrink), "pad": (0, padded("constant", "constant", lambda s: 2)),
    "pad value": (0, _pad_value), "pad cut": (0, _pad_cut),
    "reflect": (0, padded("reflect", "reflect", lambda s: max(s - 1, 0))),
    "replicate": (0, padded("replicate", "edge", lambda s: 3 if s else 0)),
    "circular": (0, padded("circular", "wrap", lambda s: s)),
    "repeat": (0, _repeat), "repeat_interleave": (1, _interleave), "roll": (0, _roll),
    "cat": (1, _cat), "stack": (0, _stack), "split": (1, _split), "transpose": (1, _transpose),
    "flatten": (1, _flatten), "squeeze": (0, _squeeze), "unsqueeze": (0, _unsqueeze),
    "tril": (2, _triangle("tril")), "triu": (2, _triangle("triu")), "unfold": (1, _unfold),
    "meshgrid": (1, _meshgrid),
}  # fmt: skip


def check(name: str, shapes, draws: int, kind=np.int32) -> None:
    least, make = ROWS[name]
    for number, shape in enumerate(shapes):
        if len(shape) < least:
            continue
        for draw in range(draws):
            x = filled(shape, kind)
            row = make(Random(number * 100 + draw), x)
            if row is None:
                continue
            got, want = row[0](Tensor(x)), row[1](x)
            note = f"{name} of {shape}, draw {draw}"
            assert got.shape == want.shape, note
            np.testing.assert_array_equal(got.numpy(), want, err_msg=note)


@pytest.mark.parametrize("name", ROWS)
def test_against_numpy(name):
    check(name, SHAPES, 3)


@pytest.mark.parametrize(
    "kind", [np.bool_, np.float16, np.int64, np.uint8], ids=lambda k: k.__name__
)
@pytest.mark.parametrize("name", ["pad", "reflect", "cat", "unfold", "triu", "roll"])
def test_dtypes_stay(name, kind):
    check(name, SHAPES[5:12], 1, kind)


@pytest.mark.parametrize("name", ROWS)
def test_on_the_default_device(name):
    check(name, [(2, 3, 4), (1, 2, 3, 1, 2)], 1)


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda t: t.reshape(4), ValueError),
        (lambda t: t.reshape(-1, -1), RuntimeError),
        (lambda t: t.reshape(-2, 3), ValueError),
        (lambda t: t.expand(3, 3), ValueError),
        (lambda t: t.expand(3), ValueError),
        (lambda t: t.permute(0, 0), RuntimeError),
        (lambda t: t.permute(0), RuntimeError),
        (lambda t: t.permute(0, 2), IndexError),
        (lambda t: t.flip(0, 0), RuntimeError),
        (lambda t: t.flip(2), IndexError),
        (lambda t: t.shrink(((0, 1),)), ValueError),
        (lambda t: t.shrink(((0, 3), None)), ValueError),
        (lambda t: t.shrink(((1, 0), None)), ValueError),
        (lambda t: t.pad(((0, 1),)), ValueError),
        (lambda t: t.pad((1, 2, 3)), ValueError),
        (lambda t: t.pad((1, 1), mode="mirror"), NotImplementedError),
        (lambda t: t.pad((3, 0), mode="reflect"), ValueError),
        (lambda t: t.pad((4, 0), mode="circular"), ValueError),
        (lambda t: t.pad((-4, 0)), ValueError),
        (lambda t: t.pad_to(1, 2, 3), ValueError),
        (lambda t: t.repeat(2), ValueError),
        (lambda t: t.repeat(-1, 2), ValueError),
        (lambda t: t.repeat_interleave(-1), ValueError),
        (lambda t: t.transpose(0, 2), IndexError),
        (lambda t: t.transpose(0.5, 1), TypeError),
        (lambda t: t.flatten(0, 2), IndexError),
        (lambda t: t.unflatten(1, (2, 2)), ValueError),
        (lambda t: t.squeeze(2), IndexError),
        (lambda t: t.unsqueeze(4), IndexError),
        (lambda t: t.cat(Tensor.ones(2, 2), dim=0), AssertionError),
        (lambda t: t.cat(Tensor.ones(3), dim=0), AssertionError),
        (lambda t: t.cat(t, dim=2), IndexError),
        (lambda t: t.stack(Tensor.ones(3, 2)), AssertionError),
        (lambda t: t.split([1, 2], 0), ValueError),
        (lambda t: t.split(-1), ValueError),
        (lambda t: t.chunk(0), AssertionError),
        (lambda t: t.roll((1, 2), 0), RuntimeError),
        (lambda t: t.diag(), ValueError),
        (lambda t: t.diagonal(), ValueError),
        (lambda t: Tensor([1]).tril(), ValueError),
        (lambda t: t.unfold(0, 3, 1), RuntimeError),
        (lambda t: t.unfold(0, 1, 0), RuntimeError),
        (lambda t: t.meshgrid(t, indexing="no"), RuntimeError),
        (lambda t: t.rearrange("a b -> a c"), AssertionError),
        (lambda t: t.rearrange("a b c -> a b c"), RuntimeError),
    ],
)
def test_errors(call, kind):
    with pytest.raises(kind) as caught:
        call(Tensor(filled((2, 3))))
    assert len(str(caught.value)) > 10
