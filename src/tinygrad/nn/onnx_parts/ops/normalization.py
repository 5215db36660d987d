"""Normalization layers and dropout."""

from __future__ import annotations

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.kinds import DTYPES
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


def _per_channel(v: Tensor, x: Tensor) -> Tensor:
    return v.reshape(1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else v


@operator("BatchNormalization", since=7)
def batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor,
               epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0,
               spatial: int = 1):  # fmt: skip
    """Normalized by given statistics or (`training_mode`) the batch's, which then update the given ones."""
    if not spatial:
        shape = (1, *x.shape[1:])
        scaled = scale.reshape(shape) / (variance.reshape(shape) + epsilon).sqrt()
        return (x - mean.reshape(shape)) * scaled + bias.reshape(shape)
    if training_mode:
        axes = tuple(i for i in range(x.ndim) if i != 1)
        now_mean, now_variance = x.mean(axes), x.var(axes, correction=0)
        kept_mean = mean * momentum + now_mean * (1 - momentum)
        kept_variance = variance * momentum + now_variance * (1 - momentum)
        y = batch_norm(x, scale, bias, now_mean, now_variance, epsilon)
        return y, kept_mean.cast(mean.dtype), kept_variance.cast(variance.dtype)
    factor = scale * (variance + epsilon).rsqrt()
    y = (x - _per_channel(mean, x)) * _per_channel(factor, x) + _per_channel(bias, x)
    return y.cast(x.dtype)


operator("BatchNormalization", since=1)(batch_norm)


def _standardized(x: Tensor, axes: tuple[int, ...], epsilon: float):
    mean = x.mean(axes, keepdim=True)
    centered = x - mean
    inverse = ((centered * centered).mean(axes, keepdim=True) + epsilon).rsqrt()
    return centered * inverse, mean, inverse


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each entry normalized by its own statistics."""
    normal, _, _ = _standardized(x, tuple(range(2, x.ndim)), epsilon)
    return normal * _per_channel(scale, x) + _per_channel(bias, x)


@operator("LayerNormalization")
def layer_norm(x: Tensor, scale: Tensor, bias: Tensor | None = None, axis: int = -1,
               epsilon: float = 1e-5, stash_type: int = 1):  # fmt: skip
    """Normalized over the axes from `axis` on; also the mean and the inverse deviation."""
    axes = tuple(range(axis_in(axis, x.ndim), x.ndim))
    normal, mean, inverse = _standardized(x.cast(DTYPES[stash_type]), axes, epsilon)
    y = normal.cast(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@operator("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(x: Tensor, scale: Tensor, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1):
    """Divided by the root of the mean square over the axes from `axis` on."""
    axes = tuple(range(axis_in(axis, x.ndim), x.ndim))
    wide = x.cast(DTYPES[stash_type])
    inverse = ((wide * wide).mean(axes, keepdim=True) + epsilon).rsqrt()
    return ((wide * inverse).cast(x.dtype) * scale).cast(x.dtype)


operator("SimplifiedLayerNormalization", domain=_CONTRIB)(rms_norm)


def _grouped(x: Tensor, groups: int, epsilon: float, stash_type: int) -> Tensor:
    split = x.reshape(x.shape[0], groups, -1).cast(DTYPES[stash_type])
    return _standardized(split, (2,), epsilon)[0].reshape(x.shape).cast(x.dtype)


@operator("GroupNormalization", since=21)
def group_norm(x: Tensor, scale: Tensor, bias: Tensor, num_groups: int, epsilon: float = 1e-5,
               stash_type: int = 1) -> Tensor:  # fmt: skip
    """Groups of channels normalized together, scaled by channel."""
    normal = _grouped(x, num_groups, epsilon, stash_type)
    return normal * _per_channel(scale, x) + _per_channel(bias, x)


@operator("GroupNormalization", since=18)
def group_norm_by_group(x: Tensor, scale: Tensor, bias: Tensor, num_groups: int,
                        epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:  # fmt: skip
    """Groups of channels normalized together, scaled by group."""

    def spread(v):
        return v.reshape(-1, 1).expand(num_groups, x.shape[1] // num_groups).flatten()

    return group_norm(x, spread(scale), spread(bias), num_groups, epsilon, stash_type)


@operator("GroupNorm", domain=_CONTRIB)
def group_norm_last(x: Tensor, gamma: Tensor, beta: Tensor, activation: int = 0, channels_last: int = 1,
                    epsilon: float = 1e-5, groups: int = 1) -> Tensor:  # fmt: skip
    """GroupNormalization with the channels last by default, and x * sigmoid(x) on demand."""
    moved = x.permute(0, x.ndim - 1, *range(1, x.ndim - 1)) if channels_last else x
    y = group_norm(moved, gamma, beta, groups, epsilon)
    y = y * y.sigmoid() if activation else y
    y = y.permute(0, *range(2, x.ndim), 1) if channels_last else y
    return y.cast(x.dtype)


@operator("SkipLayerNormalization", domain=_CONTRIB)
def skip_layer_norm(x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None,
                    bias: Tensor | None = None, epsilon: float = 1e-12):  # fmt: skip
    """LayerNormalization of a sum; the sum is the fourth output."""
    total = x + skip if bias is None else x + skip + bias
    y, mean, inverse = layer_norm(total, gamma, beta, -1, epsilon)
    return y, mean, inverse, total


@operator("SkipSimplifiedLayerNormalization", domain=_CONTRIB)
def skip_rms_norm(x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None,
                  epsilon: float = 1e-12):  # fmt: skip
    """RMSNormalization of a sum; the sum is the fourth output."""
    total = x + skip if bias is None else x + skip + bias
    return rms_norm(total, gamma, -1, epsilon), None, None, total


@operator("EmbedLayerNormalization", domain=_CONTRIB)
def embed_layer_norm(ids: Tensor, segments: Tensor | None, words: Tensor, positions: Tensor,
                     segment_rows: Tensor | None, gamma: Tensor, beta: Tensor,
                     mask: Tensor | None = None, position_ids: Tensor | None = None,
                     epsilon: float = 1e-12, mask_index_type: int = 0):  # fmt: skip
    """The sum of word, position and segment rows, normalized; also how long each line is."""
    places = Tensor.arange(ids.shape[1]).unsqueeze(0) if position_ids is None else position_ids
    total = words[ids] + positions[places]
    if segments is not None and segment_rows is not None:
        total = total + segment_rows[segments]
    y = layer_norm(total, gamma, beta, -1, epsilon)[0]
    return y, line_lengths(ids, mask), total


def line_lengths(ids: Tensor, mask: Tensor | None) -> Tensor:
    """How many positions of each line the mask keeps; 0 without one."""
    if mask is None:
        return Tensor.zeros(ids.shape[0], dtype=dtypes.int32)
    return mask.sum(1).cast(dtypes.int32)


@operator("LpNormalization")
def lp_norm(x: Tensor, axis: int = -1, p: int = 2) -> Tensor:
    """Divided by the p-norm along an axis; zero where that is zero."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return (norm == 0).where(0, x / (norm == 0).where(1, norm)).cast(x.dtype)


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, axes=(0, 2, 3)) -> Tensor:
    """Normalized over the axes named."""
    axes = tuple(axes)
    mean = x.mean(axes, keepdim=True)
    deviation = ((x - mean) * (x - mean)).mean(axes, keepdim=True).sqrt()
    return (x - mean) / (deviation + 1e-9)


@operator("LRN")
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75,
                        bias: float = 1.0) -> Tensor:  # fmt: skip
    """Divided by a power of the squares summed over neighbouring channels."""
    before = (size - 1) // 2
    rest = ((0, 0),) * (x.ndim - 2)
    squares = (x * x).pad(((0, 0), (before, size - 1 - before), *rest))
    total = squares.unfold(1, size, 1).sum(-1)
    return x / (total * (alpha / size) + bias) ** beta


@operator("Dropout", constants=("ratio", "training_mode"))
def dropout(x: Tensor, ratio=0.5, training_mode=False, seed: int | None = None):
    """x, or (`training_mode`) x with elements dropped and the others scaled up; and what was kept."""
    share = 0.5 if ratio is None else float(np.array(ratio).item())
    if not training_mode or share == 0:
        return x, Tensor.ones(*x.shape, dtype=dtypes.bool)
    if seed is not None:
        drawn = np.random.RandomState(seed & 0xFFFFFFFF).uniform(0, 1, x.shape) >= share
        kept = Tensor(drawn)
    else:
        kept = Tensor.rand(*x.shape) >= share
    return (kept.where(x, 0) / (1 - share)).cast(x.dtype), kept
