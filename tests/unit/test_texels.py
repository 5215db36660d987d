"""Convolutions and products in the layout of images: the values of the plain forms, in few kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tinygrad import Context, Tensor
from tinygrad.tensor.texels import filled_sizes
from tinygrad.uop.ops import Ops

# batch, channels in, channels out, groups, window, stride, padding, size
CONVOLUTIONS = [
    (1, 3, 5, 1, 3, 1, 1, 6), (2, 4, 8, 1, 3, 2, 1, 7), (1, 8, 8, 8, 3, 1, 1, 5), (1, 6, 6, 6, 3, 1, 1, 5),
    (1, 6, 12, 6, 3, 1, 1, 5), (2, 6, 4, 2, 1, 1, 0, 4), (1, 10, 15, 5, 3, 1, 2, 6), (1, 1, 3, 1, 3, 1, 1, 5),
]  # fmt: skip


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float32)


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_convolution(case, with_bias: bool):
    batch, channels, out, groups, window, stride, padding, size = case
    x = Tensor(draw(batch, channels, size, size))
    w = Tensor(draw(out, channels // groups, window, window))
    bias = Tensor(draw(out)) if with_bias else None
    expected = x.conv2d(w, bias, groups, stride, padding=padding).numpy()
    with Context(IMAGE=1):
        got = x.conv2d(w, bias, groups, stride, padding=padding)
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 5), (5, 7)), ((2, 3, 5), (2, 5, 7)), ((5,), (5, 7)), ((2, 3, 4), (4, 5)), ((4, 4), (4,))],
)
def test_product(left, right):
    a, b = draw(*left), draw(*right)
    with Context(IMAGE=1):
        np.testing.assert_array_equal((Tensor(a) @ Tensor(b)).numpy(), a @ b)


def test_gradient():
    a, w = draw(1, 3, 4, 4), draw(2, 3, 3, 3)
    found = []
    for image in (0, 1):
        x, weight = Tensor(a, requires_grad=True), Tensor(w, requires_grad=True)
        with Context(IMAGE=image):
            x.conv2d(weight, padding=1).square().sum().backward()
            found.append((x.grad.numpy(), weight.grad.numpy()))
    for plain, textured in zip(*found):
        np.testing.assert_array_equal(plain, textured)


def test_channels_fill_texels():
    for groups, per_group, per_out in [(1, 3, 5), (6, 1, 1), (5, 2, 3), (4, 1, 2), (1, 1, 1)]:
        g, i, o = filled_sizes(groups, per_group, per_out)
        assert g >= groups and i >= per_group and o >= per_out
        assert g * i % 4 == 0 and g * o % 4 == 0


def test_a_chain_stays_in_its_layout():
    def convolve(x: Tensor) -> Tensor:
        return x.image_conv2d(Tensor.empty(16, 16, 1, 1), Tensor.empty(16))

    base = convolve(Tensor.empty(1, 16, 32, 32))
    x = convolve(convolve(base) + base)
    # the input, three weights, three convolutions
    assert sum(item.ast.op is Ops.SINK for item in x.schedule()) == 7


def test_what_lends_its_memory_stays_a_value():
    x = Tensor(draw(4, 3)).realize()
    sums = x.sum(1)
    kept = sums.contiguous()
    mixed = sums * 2 + sums.flip(0)
    items = Tensor.schedule(kept, mixed)
    assert len(items) == 2
    for item in items:
        item.run()
    expected = draw(4, 3).sum(1)
    kept.assign(kept + 100).realize()
    np.testing.assert_array_equal(kept.numpy(), expected + 100)
    np.testing.assert_array_equal(sums.numpy(), expected)
    np.testing.assert_array_equal(mixed.numpy(), expected * 2 + expected[::-1])
