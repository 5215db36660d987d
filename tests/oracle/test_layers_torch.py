"""Convolution, pooling, resizing, padding, attention, einsum and losses against PyTorch, with gradients.

Arguments are drawn at random; a failure names its seed and its arguments. All in float64.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from tinygrad import Tensor
from tinygrad.helpers import Context

F = torch.nn.functional
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
SEEDS = range(12)


def compare(ours, theirs, *arrays, note="", rtol=1e-9, atol=1e-9) -> None:
    """Values of both functions of `arrays`, and the gradients of a weighted sum of the results."""
    mine = [Tensor(a, requires_grad=True) for a in arrays]
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    got, want = ours(*mine), theirs(*other)
    assert got.shape == tuple(want.shape), note
    weights = np.random.default_rng(1).normal(size=tuple(want.shape))
    # before the values are read: what is in memory has no gradient
    (got * Tensor(weights)).sum().backward()
    (want * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(got.numpy(), want.detach().numpy(), rtol, atol, err_msg=note)
    for a, b in zip(mine, other):
        slope = np.zeros(a.shape) if b.grad is None else b.grad.numpy()
        np.testing.assert_allclose(a.grad.numpy(), slope, rtol, atol, err_msg=f"{note} gradient")


class Draw(random.Random):
    def sizes(self, n: int, low: int, high: int):
        """A number for all axes, or one for each."""
        if self.random() < 0.4:
            return self.randint(low, high)
        return tuple(self.randint(low, high) for _ in range(n))


def each(value, n: int) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,) * n


def array(rng, *shape, low=-1.0, high=1.0):
    return np.random.default_rng(rng.randrange(10**6)).uniform(low, high, shape)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_convolution(n, seed):
    rng = Draw(seed * 3 + n)
    groups, batch = rng.choice([1, 1, 2, 3]), rng.choice([1, 2])
    into, out = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    stride, dilation = rng.sizes(n, 1, 3), rng.sizes(n, 1, 2)
    padding = rng.sizes(n, 0, 2)
    size = [
        max(1, d * (k - 1) + 1 - 2 * p) + rng.randint(0, 4)
        for k, d, p in zip(kernel, each(dilation, n), each(padding, n))
    ]
    x, w = array(rng, batch, into, *size), array(rng, out, into // groups, *kernel)
    b = array(rng, out)
    options = {"stride": stride, "dilation": dilation, "groups": groups, "padding": padding}
    # a tuple of two is read as both sides of one axis
    mine = options | {"padding": each(padding, n)}
    note = f"{seed=} {x.shape} {w.shape} {options}"
    compare(
        lambda x, w, b: x.conv2d(w, b, **mine),
        lambda x, w, b: CONV[n](x, w, b, **options),
        x, w, b, note=note,
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_transposed_convolution(n, seed):
    rng = Draw(seed * 5 + n)
    groups = rng.choice([1, 1, 2])
    into, out = groups * rng.randint(1, 2), rng.randint(1, 2)
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    stride, dilation = rng.sizes(n, 1, 3), rng.sizes(n, 1, 2)
    padding = tuple(rng.randint(0, d * (k - 1)) for k, d in zip(kernel, each(dilation, n)))
    extra = tuple(rng.randint(0, max(s, d) - 1) for s, d in zip(each(stride, n), each(dilation, n)))
    x, w = (
        array(rng, 2, into, *[rng.randint(1, 4) for _ in range(n)]),
        array(rng, into, out, *kernel),
    )
    b = array(rng, out * groups)
    options = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups}
    options["output_padding"] = extra
    if any(
        (s - 1) * st - 2 * p + d * (k - 1) + o + 1 < 1
        for s, st, p, d, k, o in zip(
            x.shape[2:], each(stride, n), padding, each(dilation, n), kernel, extra
        )
    ):
        pytest.skip("an empty result")
    compare(
        lambda x, w, b: x.conv_transpose2d(w, b, **options),
        lambda x, w, b: TRANSPOSED[n](x, w, b, **options),
        x, w, b, note=f"{seed=} {x.shape} {w.shape} {options}",
    )  # fmt: skip


def pooling(rng: Draw, n: int, dilated: bool):
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    stride = rng.choice([None, rng.sizes(n, 1, 3)])
    dilation = rng.sizes(n, 1, 2) if dilated else 1
    padding = tuple(rng.randint(0, k // 2) for k in kernel)
    # at least as long as a gap, so that no window misses the input
    size = [
        max(d, d * (k - 1) + 1 - 2 * p) + rng.randint(0, 4)
        for k, d, p in zip(kernel, each(dilation, n), padding)
    ]
    if not dilated:
        # PyTorch refuses what is shorter than the kernel, padded or not
        size = [max(s, k) for s, k in zip(size, kernel)]
    x = array(rng, rng.choice([1, 2]), 2, *size)
    return (
        x,
        {
            "kernel_size": kernel,
            "stride": stride,
            "padding": padding,
            "ceil_mode": rng.random() < 0.5,
        },
        dilation,
    )


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_max_pooling(n, seed):
    x, options, dilation = pooling(Draw(seed * 7 + n), n, dilated=True)
    note = f"{seed=} {x.shape} {options} {dilation=}"
    compare(
        lambda x: x.max_pool2d(dilation=dilation, **options),
        lambda x: MAX_POOL[n](x, dilation=dilation, **options),
        x, note=note,
    )  # fmt: skip
    values, places = Tensor(x).max_pool2d(dilation=dilation, return_indices=True, **options)
    want, where = MAX_POOL[n](torch.tensor(x), dilation=dilation, return_indices=True, **options)
    np.testing.assert_array_equal(values.numpy(), want.numpy(), err_msg=note)
    np.testing.assert_array_equal(places.numpy(), where.numpy(), err_msg=note)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_average_pooling(n, seed):
    rng = Draw(seed * 11 + n)
    x, options, _ = pooling(rng, n, dilated=False)
    options["count_include_pad"] = rng.random() < 0.5
    compare(
        lambda x: x.avg_pool2d(**options),
        lambda x: AVG_POOL[n](x, **options),
        x, note=f"{seed=} {x.shape} {options}",
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_unpooling(n, seed):
    rng = Draw(seed * 13 + n)
    kernel = tuple(rng.randint(1, 3) for _ in range(n))
    x = array(rng, 1, 2, *[k * rng.randint(1, 3) for k in kernel])
    unpool = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[n]

    def ours(x):
        values, places = x.max_pool2d(kernel, return_indices=True)
        return values.square().max_unpool2d(places, kernel)

    def theirs(x):
        values, places = MAX_POOL[n](x, kernel, return_indices=True)
        return unpool(values.square(), places, kernel)

    compare(ours, theirs, x, note=f"{seed=} {x.shape} {kernel=}")


MODES = {"linear": {1: "linear", 2: "bilinear", 3: "trilinear"}}


@pytest.mark.parametrize("mode", ["linear", "nearest", "nearest-exact"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_interpolation(mode, n, corners, seed):
    if corners and mode != "linear":
        pytest.skip("for linear modes only")
    rng = Draw(seed * 17 + n)
    x = array(rng, 1, 2, *[rng.randint(1, 6) for _ in range(n)])
    size = tuple(rng.randint(1, 9) for _ in range(n))
    theirs = {"mode": MODES.get(mode, {}).get(n, mode)} | (
        {"align_corners": True} if corners else {}
    )
    compare(
        lambda x: x.interpolate(size, mode, align_corners=corners),
        lambda x: F.interpolate(x, size, **theirs),
        x, note=f"{seed=} {x.shape} {size=}", rtol=1e-5, atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("seed", range(6))
def test_padding(mode, seed):
    rng = Draw(seed)
    n = rng.randint(1, 3)
    x = array(rng, 2, 3, *[rng.randint(2, 5) for _ in range(n)])
    low = -1 if mode == "constant" else 0
    flat = tuple(rng.randint(low, x.shape[-1 - i // 2] - 1) for i in range(2 * n))
    compare(
        lambda x: x.pad(flat, mode=mode),
        lambda x: F.pad(x, flat, mode=mode),
        x, note=f"{seed=} {x.shape} {flat}",
    )  # fmt: skip


@pytest.mark.parametrize("masked", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 5), (4, 2), (1, 3)])
def test_attention(masked, groups, sizes):
    rng = Draw(sum(sizes) + groups)
    queries, keys = sizes
    q = array(rng, 2, 2 * groups, queries, 4)
    k, v = array(rng, 2, 2, keys, 4), array(rng, 2, 2, keys, 3)
    options = {"is_causal": masked == "causal", "enable_gqa": groups > 1}
    mask = None
    if masked == "bool":
        mask = np.random.default_rng(3).random((2, 1, queries, keys)) < 0.6
        mask[..., 0] = True
    if masked == "float":
        mask = array(rng, queries, keys)
    compare(
        lambda q, k, v: q.scaled_dot_product_attention(
            k, v, None if mask is None else Tensor(mask), **options
        ),
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, None if mask is None else torch.tensor(mask), **options
        ),
        q, k, v, note=f"{masked} {sizes}",
    )  # fmt: skip


EINSUMS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ij->ji", [(2, 3)]),
    ("ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij->i", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("ijij->ij", [(2, 3, 2, 3)]),
    ("iii->i", [(3, 3, 3)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,i->", [(3,), (3,)]),
    ("i,->i", [(3,), ()]),
    (",->", [(), ()]),
    ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
    ("...ij,...jk", [(4, 2, 2, 3), (2, 3, 2)]),
    ("i...,i...->...", [(3, 2), (3, 2)]),
    ("...i->...", [(2, 3)]),
    ("...->...", [(2, 3)]),
    ("b...h,h...->b...", [(2, 3, 4), (4, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 4)]),
    ("abcd,cd,d->ab", [(2, 1, 3, 2), (3, 2), (2,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("Ab,bA->Ab", [(2, 3), (3, 2)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    ("...,...->...", [(), (3,)]),
    ("ij,jk->ik", [(0, 3), (3, 2)]),
    ("ij,jk->ik", [(2, 0), (0, 2)]),
]


@pytest.mark.parametrize("formula, shapes", EINSUMS, ids=str)
def test_einsum(formula, shapes):
    arrays = [array(Draw(i), *shape) for i, shape in enumerate(shapes)]
    compare(lambda *t: Tensor.einsum(formula, *t), lambda *t: torch.einsum(formula, *t), *arrays)


@pytest.mark.parametrize(
    "left", [(3,), (2, 3), (1, 2, 3), (2, 2, 3), (4, 1, 2, 3), (0, 3)], ids=str
)
@pytest.mark.parametrize("right", [(3,), (3, 2), (2, 3, 2), (1, 3, 2), (1, 2, 3, 2)], ids=str)
def test_matmul(left, right):
    try:
        np.matmul(np.zeros(left), np.zeros(right))
    except ValueError:
        pytest.skip("these do not broadcast")
    compare(Tensor.matmul, torch.matmul, array(Draw(1), *left), array(Draw(2), *right))


@pytest.mark.parametrize(
    "shape, groups, padding",
    [((1, 1, 6, 6), 1, 0), ((1, 1, 9), 1, 1), ((1, 1, 5, 6), 2, (2, 0))],
)
def test_fast_convolution(shape, groups, padding):
    x = array(Draw(1), shape[0], shape[1] * groups, *shape[2:])
    n = len(shape) - 2
    w = array(Draw(2), 2 * groups, shape[1], *(3,) * n)
    with Context(WINO=1):
        compare(
            lambda x, w: x.conv2d(w, groups=groups, padding=each(padding, n)),
            lambda x, w: CONV[n](x, w, groups=groups, padding=padding),
            x, w,
        )  # fmt: skip


TARGETS = np.array([2, 0, 1, 0, 2])
REDUCTIONS = ["mean", "sum", "none"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("trailing", [(), (2,), (2, 3)], ids=str)
def test_cross_entropy(reduction, smoothing, trailing):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5, 3, *trailing))
    y = rng.integers(0, 3, (5, *trailing))
    options = {"reduction": reduction, "label_smoothing": smoothing}
    compare(
        lambda x: x.cross_entropy(Tensor(y.astype(np.int32)), **options),
        lambda x: F.cross_entropy(x, torch.tensor(y), **options),
        x,
    )
    p = rng.uniform(size=x.shape)
    compare(
        lambda x, p: x.cross_entropy(p, **options),
        lambda x, p: F.cross_entropy(x, p, **options),
        x, p,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignored", [-1, 0, 2])
def test_sparse_cross_entropy(reduction, ignored):
    x = np.random.default_rng(5).normal(size=(5, 3))
    compare(
        lambda x: x.sparse_categorical_crossentropy(
            Tensor(TARGETS.astype(np.int32)), ignore_index=ignored, reduction=reduction
        ),
        lambda x: F.cross_entropy(
            x, torch.tensor(TARGETS), ignore_index=ignored, reduction=reduction
        ),
        x,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignored", [None, 0, 2])
@pytest.mark.parametrize("trailing", [(), (2,), (2, 3)], ids=str)
def test_nll_loss(reduction, ignored, trailing):
    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(5, 3, *trailing)), rng.uniform(0.5, 1.5, 3)
    y = rng.integers(0, 3, (5, *trailing))
    theirs = {} if ignored is None else {"ignore_index": ignored}
    compare(
        lambda x: x.nll_loss(Tensor(y.astype(np.int32)), Tensor(w), ignored, reduction),
        lambda x: F.nll_loss(x, torch.tensor(y), torch.tensor(w), reduction=reduction, **theirs),
        x,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropies(reduction):
    rng = np.random.default_rng(7)
    x, y, w = rng.normal(size=(4, 3)), rng.uniform(size=(4, 3)), rng.uniform(0.5, 2, 3)
    compare(
        lambda p: p.binary_crossentropy(Tensor(y), reduction),
        lambda p: F.binary_cross_entropy(p, torch.tensor(y), reduction=reduction),
        rng.uniform(0.05, 0.95, (4, 3)),
    )
    compare(
        lambda x, y: x.binary_crossentropy_logits(y, reduction, Tensor(w)),
        lambda x, y: F.binary_cross_entropy_with_logits(
            x, y, reduction=reduction, pos_weight=torch.tensor(w)
        ),
        x * math.sqrt(500), y,
    )  # fmt: skip


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_reduce(reduce, include_self, dim):
    rng = np.random.default_rng(8)
    x, s = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 5, 4))
    shape = [min(a, b) for a, b in zip(x.shape, s.shape)]
    shape[dim] = s.shape[dim]
    index = rng.integers(0, x.shape[dim], shape)
    compare(
        lambda x, s: x.scatter_reduce(dim, Tensor(index.astype(np.int32)), s, reduce, include_self),
        lambda x, s: x.scatter_reduce(
            dim, torch.tensor(index), s[tuple(slice(0, n) for n in shape)], reduce,
            include_self=include_self,
        ),
        x, s,
    )  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather(dim):
    rng = np.random.default_rng(9)
    x = rng.normal(size=(3, 4, 2))
    index = rng.integers(0, x.shape[dim], (2, 3, 2))
    compare(
        lambda x: x.gather(dim, Tensor(index.astype(np.int32))),
        lambda x: x.gather(dim, torch.tensor(index)),
        x,
    )


def test_no_positions_reach_the_padding():
    x = np.random.default_rng(10).normal(size=(1, 1, 3, 3)) - 10
    values, places = Tensor(x).max_pool2d(3, stride=1, padding=1, return_indices=True)
    want, where = F.max_pool2d(torch.tensor(x), 3, stride=1, padding=1, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), want.numpy())
    np.testing.assert_array_equal(places.numpy(), where.numpy())
