"""Layers with parameters.

A layer is a plain object whose tensors are attributes; `nn.state.get_parameters` finds them. Layers
know the shapes of their parameters only: everything they compute is in `tinygrad.tensor`.
"""

from __future__ import annotations

import math

from tinygrad.device import is_dtype_supported
from tinygrad.dtype import dtypes
from tinygrad.helpers import flatten, make_tuple, prod
from tinygrad.nn import datasets, optim, state
from tinygrad.tensor import Tensor

__all__ = [
    "BatchNorm", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose1d",
    "ConvTranspose2d", "Embedding", "GroupNorm", "InstanceNorm", "LSTMCell", "LayerNorm",
    "LayerNorm2d", "Linear", "RMSNorm", "Tensor", "datasets", "dtypes", "flatten",
    "is_dtype_supported", "make_tuple", "optim", "state",
]  # fmt: skip


def _uniform(*shape: int, bound: float) -> Tensor:
    return Tensor.uniform(*shape, low=-bound, high=bound)


class BatchNorm:
    """Normalizes each channel (axis 1) over all other axes (Ioffe and Szegedy, arXiv:1502.03167).

    While training with batch statistics, which also move the running ones by `momentum`; otherwise
    with the running ones. Works for inputs of two or more axes.

    >>> norm = nn.BatchNorm(3)
    >>> norm(Tensor.rand(8, 3, 4, 4)).shape
    (8, 3, 4, 4)
    """

    def __init__(self, sz: int, eps=1e-5, affine=True, track_running_stats=True, momentum=0.1):
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.weight: Tensor | None = Tensor.ones(sz) if affine else None
        self.bias: Tensor | None = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = Tensor.zeros(
            dtype="long" if is_dtype_supported(dtypes.long) else "int", requires_grad=False
        )
        if track_running_stats:
            self.running_mean = Tensor.zeros(sz, requires_grad=False)
            self.running_var = Tensor.ones(sz, requires_grad=False)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and (biased) variance per channel: of the batch, or the running ones."""
        if self.track_running_stats and not Tensor.training:
            return self.running_mean, self.running_var
        others = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean = x.mean(axis=others)
        # the mean is constant for the gradient: its part of the derivative sums to zero
        channels = (1, -1, *(1,) * (x.ndim - 2))
        centred = x - mean.detach().reshape(channels)
        return mean, (centred * centred).mean(axis=others)

    def _track(self, x: Tensor, mean: Tensor, var: Tensor) -> None:
        count = x.numel() / x.shape[1]
        keep = 1 - self.momentum
        unbiased = count / (count - 1) if count > 1 else 1.0
        self.running_mean.assign(keep * self.running_mean + self.momentum * mean.detach())
        self.running_var.assign(keep * self.running_var + self.momentum * unbiased * var.detach())
        self.num_batches_tracked += 1

    def __call__(self, x: Tensor) -> Tensor:
        mean, var = self.calc_stats(x)
        if self.track_running_stats and Tensor.training:
            self._track(x, mean, var)
        return x.batchnorm(self.weight, self.bias, mean, var.add(self.eps).rsqrt())


BatchNorm2d = BatchNorm3d = BatchNorm


class Conv2d:
    """Convolution over as many axes as `kernel_size` has (a number counts for two).

    `padding` is a number, a tuple as for `Tensor.conv2d`, "valid" or "same" (stride 1 only).
    Raises ValueError for another string, or "same" with a stride.

    >>> nn.Conv2d(3, 8, 3, padding=1)(Tensor.rand(2, 3, 5, 5)).shape
    (2, 8, 5, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride=1,
        padding: int | tuple[int, ...] | str = 0,
        dilation=1,
        groups=1,
        bias=True,
    ):
        self.kernel_size: tuple[int, ...] = make_tuple(kernel_size, 2)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding = self._padding_amounts(padding)
        bound = 1 / math.sqrt(in_channels * prod(self.kernel_size))
        self.weight = _uniform(out_channels, in_channels // groups, *self.kernel_size, bound=bound)
        self.bias: Tensor | None = _uniform(out_channels, bound=bound) if bias else None

    def _padding_amounts(self, padding) -> int | tuple[int, ...]:
        if not isinstance(padding, str):
            return padding
        name = padding.lower()
        if name == "valid":
            return 0
        if name != "same":
            raise ValueError(f"padding is 'valid', 'same' or numbers, got {padding!r}")
        if any(s != 1 for s in make_tuple(self.stride, len(self.kernel_size))):
            raise ValueError(f"padding='same' needs stride 1, got stride={self.stride}")
        sides: list[int] = []
        gaps = make_tuple(self.dilation, len(self.kernel_size))
        for gap, size in zip(reversed(gaps), reversed(self.kernel_size)):
            total = gap * (size - 1)
            sides += [total // 2, total - total // 2]
        return tuple(sides)

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding
        )


def Conv1d(
    in_channels: int, out_channels: int, kernel_size: int, stride=1, padding: int | str = 0, dilation=1,
    groups=1, bias=True,
) -> Conv2d:  # fmt: skip
    """`Conv2d` over one axis.

    >>> nn.Conv1d(3, 8, 3)(Tensor.rand(2, 3, 10)).shape
    (2, 8, 8)
    """
    return Conv2d(
        in_channels, out_channels, (kernel_size,), stride, padding, dilation, groups, bias
    )


class ConvTranspose2d(Conv2d):
    """The transpose of `Conv2d`: grows its input (see `Tensor.conv_transpose2d`).

    >>> nn.ConvTranspose2d(3, 8, 3)(Tensor.rand(2, 3, 5, 5)).shape
    (2, 8, 7, 7)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride=1,
        padding=0,
        output_padding=0,
        dilation=1,
        groups=1,
        bias=True,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        bound = 1 / math.sqrt(in_channels * prod(self.kernel_size))
        self.weight = _uniform(in_channels, out_channels // groups, *self.kernel_size, bound=bound)
        self.output_padding = output_padding

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding,
            self.output_padding,
        )  # fmt: skip


def ConvTranspose1d(
    in_channels: int, out_channels: int, kernel_size: int, stride=1, padding=0, output_padding=0,
    dilation=1, groups=1, bias=True,
) -> ConvTranspose2d:  # fmt: skip
    """`ConvTranspose2d` over one axis.

    >>> nn.ConvTranspose1d(3, 8, 3)(Tensor.rand(2, 3, 10)).shape
    (2, 8, 12)
    """
    return ConvTranspose2d(
        in_channels,
        out_channels,
        (kernel_size,),
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        bias,
    )


class Linear:
    """`x @ weight.T + bias` over the last axis; `weight` is (out, in).

    >>> nn.Linear(3, 2)(Tensor.rand(5, 3)).shape
    (5, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias=True):
        bound = 1 / math.sqrt(in_features)
        self.weight = _uniform(out_features, in_features, bound=bound)
        self.bias: Tensor | None = _uniform(out_features, bound=bound) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.transpose(), self.bias)


class _ChannelNorm:
    """Normalizes the channels of each sample in groups, then scales and shifts each channel."""

    weight: Tensor | None
    bias: Tensor | None
    eps: float

    def _set_up(self, channels: int, eps: float, affine: bool) -> None:
        self.eps = eps
        self.weight, self.bias = None, None
        if affine:
            self.weight, self.bias = Tensor.ones(channels), Tensor.zeros(channels)

    def _normalized(self, x: Tensor, groups: int) -> Tensor:
        flat = x.reshape(x.shape[0], groups, -1)
        x = flat.layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None or self.bias is None:
            return x
        channels = (1, -1, *(1,) * (x.ndim - 2))
        return x * self.weight.reshape(channels) + self.bias.reshape(channels)


class GroupNorm(_ChannelNorm):
    """Normalizes groups of channels (axis 1) of each sample (Wu and He, arXiv:1803.08494).

    >>> nn.GroupNorm(2, 4)(Tensor.rand(1, 4, 3, 3)).shape
    (1, 4, 3, 3)
    """

    def __init__(self, num_groups: int, num_channels: int, eps=1e-5, affine=True):
        self._set_up(num_channels, eps, affine)
        self.num_groups, self.num_channels = num_groups, num_channels

    def __call__(self, x: Tensor) -> Tensor:
        return self._normalized(x, self.num_groups)


class InstanceNorm(_ChannelNorm):
    """Normalizes each channel of each sample (Ulyanov et al., arXiv:1607.08022).

    >>> nn.InstanceNorm(4)(Tensor.rand(1, 4, 3, 3)).shape
    (1, 4, 3, 3)
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True):
        self._set_up(num_features, eps, affine)
        self.num_features = num_features

    def __call__(self, x: Tensor) -> Tensor:
        return self._normalized(x, self.num_features)


class LayerNorm:
    """Normalizes the last axes, which must have the shape given (Ba et al., arXiv:1607.06450).

    >>> nn.LayerNorm(4)(Tensor.rand(2, 4)).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
    ):
        self.normalized_shape: tuple[int, ...] = make_tuple(normalized_shape, 1)
        self.axis = tuple(range(-len(self.normalized_shape), 0))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight: Tensor | None = (
            Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        )
        self.bias: Tensor | None = (
            Tensor.zeros(*self.normalized_shape) if elementwise_affine else None
        )

    def __call__(self, x: Tensor) -> Tensor:
        if self.normalized_shape != x.shape[-len(self.normalized_shape) :]:
            raise AssertionError(f"last dimensions of {x.shape} must match {self.normalized_shape}")
        x = x.layernorm(eps=self.eps, axis=self.axis)
        if self.weight is None or self.bias is None:
            return x
        return x * self.weight + self.bias


class LayerNorm2d(LayerNorm):
    """`LayerNorm` over the channels (axis 1) of images.

    >>> nn.LayerNorm2d(4)(Tensor.rand(1, 4, 3, 3)).shape
    (1, 4, 3, 3)
    """

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm:
    """Scales the last axis to root mean square 1 (Zhang and Sennrich, arXiv:1910.07467).

    >>> [round(v, 3) for v in nn.RMSNorm(2)(Tensor([3.0, 3.0])).tolist()]
    [1.0, 1.0]
    """

    def __init__(self, dim: int, eps=1e-6, elementwise_affine=True):
        self.eps = eps
        self.weight: Tensor | None = Tensor.ones(dim) if elementwise_affine else None

    def _norm(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()

    def __call__(self, x: Tensor) -> Tensor:
        # narrow floats are computed in float32
        wide = x if x.dtype is dtypes.float64 else x.float()
        scaled = self._norm(wide).cast(x.dtype)
        return scaled if self.weight is None else scaled * self.weight


class Embedding:
    """Rows of a table by number: (...) integers to (..., embed_size).

    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(self, vocab_size: int, embed_size: int):
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def __call__(self, idx: Tensor) -> Tensor:
        if not dtypes.is_int(idx.dtype):
            raise TypeError(f"Expected integer dtype for index in embedding, got {idx.dtype}")
        return self.weight._take_rows(idx)


class LSTMCell:
    """One step of a long short-term memory (Hochreiter and Schmidhuber, 1997).

    `cell(x, (h, c))` gives the next `(h, c)`; without a state it starts from zeros.

    >>> h, c = nn.LSTMCell(4, 8)(Tensor.rand(2, 4))
    >>> h.shape, c.shape
    ((2, 8), (2, 8))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        bound = 1.0 / math.sqrt(hidden_size)
        self.weight_ih = _uniform(hidden_size * 4, input_size, bound=bound)
        self.weight_hh = _uniform(hidden_size * 4, hidden_size, bound=bound)
        self.bias_ih: Tensor | None = Tensor.zeros(hidden_size * 4) if bias else None
        self.bias_hh: Tensor | None = Tensor.zeros(hidden_size * 4) if bias else None

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hc is None:
            start = Tensor.zeros(
                x.shape[0], self.weight_hh.shape[1], dtype=x.dtype, device=x.device
            )
            hc = (start, start)
        h, c = hc
        gates = x.linear(self.weight_ih.T, self.bias_ih) + h.linear(self.weight_hh.T, self.bias_hh)
        write, forget, new, show = gates.chunk(4, dim=1)
        next_c = forget.sigmoid() * c + write.sigmoid() * new.tanh()
        next_h = show.sigmoid() * next_c.tanh()
        return next_h.contiguous(), next_c.contiguous()
