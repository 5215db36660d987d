"""Convolution, pooling and resizing in 1 to 3 axes against plain loops over windows.

Arguments are drawn at random from all that the methods take: kernels, strides, dilations, groups, padding in
each way of writing it, ceil_mode, count_include_pad. In float64 on the PYTHON device; a share runs on the
default device. `tests/oracle` compares with PyTorch, with gradients.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tinygrad import Tensor
from tinygrad.device import Device

SEEDS = range(8)


@pytest.fixture(autouse=True)
def interpreted(request):
    before = Device.DEFAULT
    if "default_device" not in request.node.name:
        Device.DEFAULT = "PYTHON"
    yield
    Device.DEFAULT = before


class Draw(random.Random):
    def each(self, n, low, high):
        """One number per axis, and how it is written: one number where all are equal."""
        values = tuple(self.randint(low, high) for _ in range(n))
        return values, values[0] if len(set(values)) == 1 and self.random() < 0.7 else values

    def padding(self, n, limits):
        """(before, after) per axis, and how it is written."""
        kind = self.choice(["number", "axes", "sides"])
        if kind == "number":
            p = self.randint(0, min(limits))
            return [(p, p)] * n, p
        if kind == "axes" and n > 1:
            each = tuple(self.randint(0, m) for m in limits)
            return [(p, p) for p in each], each
        pairs = [(self.randint(0, m), self.randint(0, m)) for m in limits]
        return pairs, tuple(p for pair in reversed(pairs) for p in pair)

    def array(self, *shape):
        return np.random.default_rng(self.randrange(10**6)).normal(size=shape)


def padded(x, pairs, value=0.0):
    lead = [(0, 0)] * (x.ndim - len(pairs))
    return np.pad(x, lead + list(pairs), constant_values=value)


def convolved(x, w, groups, stride, dilation, pairs):
    n, x = w.ndim - 2, padded(x, pairs)
    gaps = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    places = [(s - g) // step + 1 for s, g, step in zip(x.shape[2:], gaps, stride)]
    out = np.zeros((x.shape[0], w.shape[0], *places))
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    for channel, place in itertools.product(range(w.shape[0]), np.ndindex(*places)):
        first = channel // per_out * per_in
        window = x[:, first : first + per_in][(slice(None), slice(None), *[
            slice(p * step, p * step + g, d) for p, step, g, d in zip(place, stride, gaps, dilation)
        ])]  # fmt: skip
        out[(slice(None), channel, *place)] = (window * w[channel]).sum(tuple(range(1, 2 + n)))
    return out


def check_convolution(n, seed):
    rng = Draw(seed * 10 + n)
    groups = rng.choice([1, 1, 2, 3])
    into, out = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    stride, stride_text = rng.each(n, 1, 3)
    dilation, dilation_text = rng.each(n, 1, 2)
    pairs, text = rng.padding(n, [2] * n)
    sizes = [
        max(1, d * (k - 1) + 1 - sum(p)) + rng.randint(0, 3)
        for d, k, p in zip(dilation, kernel, pairs)
    ]
    x, w, b = rng.array(2, into, *sizes), rng.array(out, into // groups, *kernel), rng.array(out)
    got = Tensor(x).conv2d(Tensor(w), Tensor(b), groups, stride_text, dilation_text, text)
    want = convolved(x, w, groups, stride, dilation, pairs) + b.reshape(-1, *(1,) * n)
    assert got.shape == want.shape, f"{seed=} {n=}"
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-10, err_msg=f"{seed=} {n=}")


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_convolution(n, seed):
    check_convolution(n, seed)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolution_on_the_default_device(n):
    check_convolution(n, 100 + n)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_transposed_convolution(n, seed):
    """Each input element adds the kernel, scaled, to a window of the result."""
    rng = Draw(seed * 20 + n)
    groups = rng.choice([1, 2])
    into, per_out = groups * rng.randint(1, 2), rng.randint(1, 2)
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    stride, stride_text = rng.each(n, 1, 3)
    dilation, dilation_text = rng.each(n, 1, 2)
    padding = tuple(rng.randint(0, min(1, d * (k - 1))) for k, d in zip(kernel, dilation))
    extra = tuple(rng.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation))
    sizes = [rng.randint(2, 4) for _ in range(n)]
    x, w = rng.array(1, into, *sizes), rng.array(into, per_out, *kernel)
    full = [
        (s - 1) * step + d * (k - 1) + 1 + e
        for s, step, d, k, e in zip(sizes, stride, dilation, kernel, extra)
    ]
    want = np.zeros((1, per_out * groups, *full))
    for channel, place in itertools.product(range(into), np.ndindex(*sizes)):
        first = channel // (into // groups) * per_out
        region = [
            slice(p * step, p * step + d * (k - 1) + 1, d)
            for p, step, d, k in zip(place, stride, dilation, kernel)
        ]
        want[(0, slice(first, first + per_out), *region)] += x[(0, channel, *place)] * w[channel]
    want = want[(..., *[slice(p, f - p) for p, f in zip(padding, full)])]
    got = Tensor(x).conv_transpose2d(
        Tensor(w), None, groups, stride_text, dilation_text, padding, extra
    )
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-10)


def pooled_places(sizes, kernel, stride, dilation, pairs, ceil_mode):
    places = []
    for size, k, step, d, (before, after) in zip(sizes, kernel, stride, dilation, pairs):
        room = size + before + after - (d * (k - 1) + 1)
        count = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (count - 1) * step >= size + before:
            count -= 1
        places.append(count)
    return places


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(kind, n, seed):
    rng = Draw(seed * 30 + n)
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    stride, stride_text = rng.each(n, 1, 3)
    dilation, dilation_text = rng.each(n, 1, 2)
    pairs, text = rng.padding(n, [k // 2 for k in kernel])
    ceil_mode, counted = rng.random() < 0.5, rng.random() < 0.5
    sizes = [
        max(d, d * (k - 1) + 1 - sum(p)) + rng.randint(0, 3)
        for d, k, p in zip(dilation, kernel, pairs)
    ]
    x = rng.array(1, 2, *sizes)
    places = pooled_places(sizes, kernel, stride, dilation, pairs, ceil_mode)
    want = np.zeros((1, 2, *places))
    inside = padded(np.ones(x.shape), pairs)
    given = padded(x, pairs, -np.inf if kind == "max" else 0.0)
    for place in np.ndindex(*places):
        region = (slice(None), slice(None), *[
            slice(p * step, p * step + d * (k - 1) + 1, d)
            for p, step, d, k in zip(place, stride, dilation, kernel)
        ])  # fmt: skip
        window = given[region].reshape(2, -1)
        if kind == "max":
            want[(0, slice(None), *place)] = window.max(1)
        else:
            # what ceil_mode reads behind the padding is no element; padding is one if it is counted
            count = window.shape[1] if counted else inside[region][0, 0].sum()
            want[(0, slice(None), *place)] = window.sum(1) / count
    options = {"kernel_size": kernel, "stride": stride_text, "dilation": dilation_text}
    options |= {"padding": text, "ceil_mode": ceil_mode}
    if kind == "max":
        got = Tensor(x).max_pool2d(**options)
    else:
        got = Tensor(x).avg_pool2d(count_include_pad=counted, **options)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-10, err_msg=f"{options}")


@pytest.mark.parametrize("have, want", [(1, 3), (4, 7), (5, 2), (3, 3), (2, 9)])
@pytest.mark.parametrize("mode", ["linear", "corners", "nearest", "nearest-exact"])
def test_interpolation_of_one_axis(mode, have, want):
    x = np.random.default_rng(have).normal(size=(1, 2, have))
    expected = np.zeros((1, 2, want))
    for i in range(want):
        if mode == "nearest":
            expected[..., i] = x[..., min(int(i * have / want), have - 1)]
        elif mode == "nearest-exact":
            expected[..., i] = x[..., min(int((i + 0.5) * have / want), have - 1)]
        else:
            at = i * (have - 1) / (want - 1) if mode == "corners" else (i + 0.5) * have / want - 0.5
            at = min(max(at, 0), have - 1)
            low = int(at)
            high = min(low + 1, have - 1)
            expected[..., i] = x[..., low] + (x[..., high] - x[..., low]) * (at - low)
    name = "linear" if mode == "corners" else mode
    got = Tensor(x).interpolate((want,), name, align_corners=mode == "corners")
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_empty_batches():
    assert Tensor.ones(0, 3, 8, 8).conv2d(Tensor.ones(4, 3, 3, 3)).numpy().shape == (0, 4, 6, 6)
    assert Tensor.ones(0, 3, 8, 8).max_pool2d().numpy().shape == (0, 3, 4, 4)
    assert Tensor.ones(0, 3, 8).avg_pool2d((2,)).numpy().shape == (0, 3, 4)
    assert Tensor.ones(0, 2, 3).interpolate((5,)).numpy().shape == (0, 2, 5)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.conv2d(Tensor.ones(2, 3, 2, 2)),
        lambda x: x.conv2d(Tensor.ones(2, 2, 2)),
        lambda x: x.conv2d(Tensor.ones(3, 1, 2, 2), groups=2),
        lambda x: x.conv2d(Tensor.ones(2, 2, 2, 2), Tensor.ones(3)),
        lambda x: x.conv2d(Tensor.ones(2, 2, 5, 5)),
        lambda x: x.conv2d(Tensor.ones(2, 2, 2, 2), padding=(1, 2, 3)),
        lambda x: x.conv2d(Tensor.ones(2, 2, 2, 2), stride=0),
        lambda x: x.conv2d(Tensor.ones(2, 2, 2, 2), dilation=0),
        lambda x: x.max_pool2d((5, 5)),
        lambda x: x.max_pool2d((2, 2), stride=0),
        lambda x: x.avg_pool2d((0, 2)),
        lambda x: x.avg_pool2d((2, 2), padding=(1, 2, 3)),
        lambda x: x.interpolate((2, 2), "cubic"),
        lambda x: x.interpolate((0, 2)),
        lambda x: x.scaled_dot_product_attention(x[:, :1].cat(x, dim=1), x, enable_gqa=True),
    ],
)
def test_errors(call):
    with pytest.raises((ValueError, RuntimeError)) as caught:
        call(Tensor.ones(1, 2, 4, 4))
    assert len(str(caught.value)) > 20


def test_the_place_of_a_maximum_that_is_nan():
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    x[..., 1, 0] = x[..., 1, 1] = np.nan
    values, places = Tensor(x).max_pool2d(2, 1, return_indices=True)
    assert places.tolist() == [[[[3, 4], [3, 4]]]]
    assert np.isnan(values.numpy()).all()
