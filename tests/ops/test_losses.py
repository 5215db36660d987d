"""Losses against their definitions in float64: reductions, weights, smoothing, ignored targets."""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

from .oracle import check_close
from .rows import softplus, wide
from .values import draw, rng, tensor

REDUCTIONS = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def reduced(each, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](each)


def log_softmax(x, axis):
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@REDUCTIONS
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 1, 3, 2)], ids=str)
def test_binary_crossentropy(shape, reduction):
    generator = rng("bce", shape)
    p, y = (
        draw(generator, shape, dtypes.float32, 0.05, 0.95),
        draw(generator, shape, dtypes.float32, 0, 1),
    )
    exact, target = p.astype(wide), y.astype(wide)
    want = reduced(-target * np.log(exact) - (1 - target) * np.log1p(-exact), reduction)
    got = tensor(p, dtypes.float32).binary_crossentropy(tensor(y, dtypes.float32), reduction)
    check_close(got, want, dtypes.float32, 30, absolute=1e-6)
    x = draw(generator, shape, dtypes.float32, -30, 30)
    exact = x.astype(wide)
    want = target * softplus(-exact) + (1 - target) * softplus(exact)
    got = tensor(x, dtypes.float32).binary_crossentropy_logits(tensor(y, dtypes.float32), reduction)
    check_close(got, reduced(want, reduction), dtypes.float32, 8)
    weight = tensor(np.full(shape, 2.5, np.float32), dtypes.float32)
    want = 2.5 * target * softplus(-exact) + (1 - target) * softplus(exact)
    got = tensor(x, dtypes.float32).binary_crossentropy_logits(
        tensor(y, dtypes.float32), reduction, weight
    )
    check_close(got, reduced(want, reduction), dtypes.float32, 8)


def test_logits_of_any_size_have_finite_losses():
    x, y = Tensor([1000.0, -1000.0, 1000.0, -1000.0]), Tensor([1.0, 0.0, 0.0, 1.0])
    assert x.binary_crossentropy_logits(y, "none").tolist() == [0.0, 0.0, 1000.0, 1000.0]
    logits = Tensor([[1000.0, -1000.0], [-1000.0, 1000.0]])
    assert logits.cross_entropy(Tensor([0, 0]), "none").tolist() == [0.0, 2000.0]
    assert logits.sparse_categorical_crossentropy(Tensor([0, 0]), reduction="none").tolist() == [
        0.0,
        2000.0,
    ]


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 4, 3), (2, 3, 2, 2)], ids=str)
def test_cross_entropy(shape, smoothing, reduction):
    generator = rng("ce", shape, smoothing)
    x = draw(generator, shape, dtypes.float32, -6, 6)
    axis = 0 if len(shape) == 1 else 1
    classes = shape[axis]
    rest = tuple(s for i, s in enumerate(shape) if i != axis)
    y = generator.integers(0, classes, rest).astype(np.int32)
    hot = np.moveaxis(np.eye(classes)[y], -1, axis)
    logs = log_softmax(x.astype(wide), axis)
    want = -(((1 - smoothing) * hot + smoothing / classes) * logs).sum(axis)
    t = tensor(x, dtypes.float32)
    got = t.cross_entropy(tensor(y, dtypes.int32), reduction, smoothing)
    check_close(got, reduced(want, reduction), dtypes.float32, 16, absolute=1e-6)
    got = t.cross_entropy(tensor(hot.astype(np.float32), dtypes.float32), reduction, smoothing)
    check_close(got, reduced(want, reduction), dtypes.float32, 16, absolute=1e-6)


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_sparse_categorical_crossentropy(smoothing, reduction):
    generator = rng("sparse", smoothing)
    x, y = draw(generator, (2, 4, 5), dtypes.float32, -6, 6), generator.integers(0, 5, (2, 4))
    y[0, 1] = y[1, 3] = -1
    logs = log_softmax(x.astype(wide), -1)
    counted = y != -1
    hit = np.take_along_axis(logs, np.where(counted, y, 0)[..., None], -1)[..., 0]
    each = -((1 - smoothing) * hit + smoothing * logs.mean(-1)) * counted
    want = each.sum() / counted.sum() if reduction == "mean" else reduced(each, reduction)
    t = tensor(x, dtypes.float32)
    got = t.sparse_categorical_crossentropy(
        Tensor(y.astype(np.int32)), label_smoothing=smoothing, reduction=reduction
    )
    check_close(got, want, dtypes.float32, 16, absolute=1e-6)
    got = t.sparse_categorical_crossentropy(
        Tensor(y.astype(np.int32)), ignore_index=3, reduction="sum"
    )
    # a target of -1 names no class then, and has no loss
    expected = -(hit * counted * (y != 3)).sum()
    check_close(got, expected, dtypes.float32, 16, absolute=1e-5)


@REDUCTIONS
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 4, 3)], ids=str)
def test_nll_loss(shape, reduction):
    generator = rng("nll", shape)
    axis = 0 if len(shape) == 1 else 1
    logs = log_softmax(draw(generator, shape, dtypes.float32).astype(wide), axis).astype(np.float32)
    classes = shape[axis]
    y = generator.integers(0, classes, tuple(s for i, s in enumerate(shape) if i != axis))
    weight = draw(generator, (classes,), dtypes.float32, 0.5, 2.0)
    picked = np.take_along_axis(logs.astype(wide), np.expand_dims(y, axis), axis).squeeze(axis)
    t, target = tensor(logs, dtypes.float32), tensor(y.astype(np.int32), dtypes.int32)
    check_close(
        t.nll_loss(target, reduction=reduction),
        reduced(-picked, reduction),
        dtypes.float32,
        8,
        absolute=1e-6,
    )
    for ignored in (None, 1):
        factor = weight.astype(wide)[y] * (1 if ignored is None else y != ignored)
        each = -picked * factor
        if reduction == "mean" and not np.sum(factor):
            continue
        want = each.sum() / np.sum(factor) if reduction == "mean" else reduced(each, reduction)
        got = t.nll_loss(target, tensor(weight, dtypes.float32), ignored, reduction)
        check_close(got, want, dtypes.float32, 8, absolute=1e-6)


def test_arguments_are_checked():
    x, y = Tensor([[0.5, 0.2]]), Tensor([0])
    for call in (
        lambda: x.binary_crossentropy(x, "avg"),
        lambda: x.binary_crossentropy_logits(x, "avg"),
        lambda: x.cross_entropy(y, "avg"),
        lambda: x.sparse_categorical_crossentropy(y, reduction="avg"),
        lambda: x.nll_loss(y, reduction="avg"),
    ):
        with pytest.raises(ValueError, match="reduction"):
            call()
    for call in (
        lambda: x.cross_entropy(y, label_smoothing=1.5),
        lambda: x.sparse_categorical_crossentropy(y, label_smoothing=-0.1),
    ):
        with pytest.raises(AssertionError, match="label_smoothing"):
            call()
    with pytest.raises(RuntimeError, match="do not fit"):
        x.cross_entropy(Tensor([0, 1, 2]))


def test_all_targets_ignored_is_nan_in_the_mean():
    x = Tensor([[1.0, 2.0]])
    assert math.isnan(x.sparse_categorical_crossentropy(Tensor([-1])).item())
    assert x.sparse_categorical_crossentropy(Tensor([-1]), reduction="sum").item() == 0.0
