"""Every differentiable method of Tensor, each way it can be called, with inputs where it is smooth.

A row is a function of tensors and how its float64 inputs are drawn: (shape, low, high). `method` is the
name of the method it is about; `test_gradients` fails where a public one is in no row and in no list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinygrad import Tensor, dtypes, nn


@dataclass(frozen=True)
class Row:
    method: str
    about: str
    fn: Callable
    inputs: tuple[tuple[tuple[int, ...], float, float], ...]
    second: bool = True  # whether the second derivative is compared as well

    def __str__(self):
        return f"{self.method}-{self.about}" if self.about else self.method


ROWS: list[Row] = []
M = (2, 3)  # the shape of most inputs


def row(name: str, fn: Callable, *inputs, second: bool = True) -> None:
    """A row; an input is a shape (values from -2 to 2) or (shape, low, high)."""
    method, _, about = name.partition(" ")
    full = tuple(
        i if len(i) == 3 and isinstance(i[0], tuple) else (i, -2.0, 2.0) for i in (inputs or (M,))
    )
    ROWS.append(Row(method, about.replace(" ", "-"), fn, full, second))


def above(low: float, shape=M, high: float | None = None):
    return (shape, low, low + 1.5 if high is None else high)


def ints(values) -> Tensor:
    return Tensor(np.array(values, dtype=np.int32))


# ---------------------------------------------------------------- elementwise

for _name in ("neg", "square", "sin", "cos", "tan", "exp", "exp2", "sinh", "cosh", "tanh", "atan"):
    row(_name, getattr(Tensor, _name), (M, -1.2, 1.2))
for _name in ("asinh", "erf", "sigmoid", "logsigmoid", "softplus", "softsign", "mish", "silu"):
    row(_name, getattr(Tensor, _name))
for _name in ("swish", "gelu", "quick_gelu", "elu", "celu", "selu", "leaky_relu", "relu", "abs"):
    row(_name, getattr(Tensor, _name))
for _name in ("relu6", "hardswish", "hardsigmoid", "hardtanh"):
    row(_name, getattr(Tensor, _name), (M, -1.8, 1.8))
for _name in ("sqrt", "rsqrt", "log", "log2", "reciprocal"):
    row(_name, getattr(Tensor, _name), above(0.4))
for _name in ("asin", "acos", "atanh"):
    row(_name, getattr(Tensor, _name), (M, -0.8, 0.8))
row("acosh", Tensor.acosh, above(1.3))
row("leaky_relu slope", lambda x: x.leaky_relu(0.3))
row("elu alpha", lambda x: x.elu(alpha=0.7))
row("celu alpha", lambda x: x.celu(alpha=0.7))
row("selu params", lambda x: x.selu(alpha=1.2, gamma=0.9))
row("softplus beta", lambda x: x.softplus(beta=3))
row("hardsigmoid params", lambda x: x.hardsigmoid(alpha=0.2, beta=0.4))
row("hardtanh params", lambda x: x.hardtanh(-0.5, 1.5))
row("clip", lambda x: x.clip(-0.7, 0.9))
row("clip one", lambda x: x.clip(min_=0.1) * x.clip(max_=0.4))
row("clamp", lambda x: x.clamp(-0.7, 0.9))
row("clip tensors", lambda x, a, b: x.clip(a, b), M, (M, -1.0, -0.2), (M, 0.2, 1.0))

row("add", Tensor.add, M, M)
row("add broadcast", Tensor.add, (2, 1), (3,))
row("add number", lambda x: x.add(2.5) + 1)
row("sub", Tensor.sub, M, M)
row("sub reverse", lambda x, y: x.sub(y, reverse=True) + (3 - x), M, M)
row("mul", Tensor.mul, M, M)
row("mul broadcast", Tensor.mul, (2, 1, 3), (4, 1))
row("mul itself", lambda x: x * x * x)
row("div", Tensor.div, M, above(0.5))
row("div reverse", lambda x, y: x.div(y, reverse=True) + 2 / x, above(0.5), M)
row("div floor", lambda x, y: x.div(y, rounding_mode="trunc") + x * y, M, above(0.5))
row("mod", lambda x: x % 0.7, above(0.1))
row("mod tensor", lambda x, y: x.mod(y), (M, 4.1, 4.2), (M, 1.1, 1.3))
row("pow", Tensor.pow, above(0.3), M)
row("pow reverse", lambda x: 2.5**x + (3.0 ** x.pow(2)))
for _power in (0, 1, 2, 3, 5, -1, -2, 0.5, -0.5, 1.7, -2.3):
    row(f"pow {_power}", lambda x, p=_power: x.pow(p), above(0.4))
row("pow negative base", lambda x: x.pow(3) + x.pow(2) * x.pow(-1), (M, -2.0, -0.5))
row("maximum", Tensor.maximum, M, M)
row("maximum number", lambda x: x.maximum(0.3))
row("minimum", Tensor.minimum, M, (3,))
row("minimum number", lambda x: x.minimum(0.3) * x)
row("where", lambda x, y: (x > 0).where(x * y, y.square()), M, M)
row("where number", lambda x: (x > 0.2).where(x.square(), 3.0))
row("masked_fill", lambda x: x.square().masked_fill(x > 0.5, 2.0))
row("masked_fill tensor", lambda x, y: x.masked_fill(x > 0.1, y * y), M, M)
row("lerp", lambda x, y, w: x.lerp(y, w), M, M, (M, 0.0, 1.0))
row("lerp number", lambda x, y: x.lerp(y, 0.3), M, M)
row("logaddexp", Tensor.logaddexp, M, M)
row("copysign", Tensor.copysign, M, M)
row("sequential", lambda x: x.sequential([Tensor.sin, Tensor.exp]))
row("contiguous", lambda x: x.sin().contiguous() * x)
row("contiguous_backward", lambda x: x.sin().contiguous_backward() * x)
row("clone", lambda x: x.sin() * x.contiguous().square())
row("cast", lambda x: x.cast(dtypes.float64).square())
row("double", lambda x: x.double().square())
row("ufix", lambda x: x * x.ufix(3.0))
row("alu", lambda x, y: x.alu(_mul(), y), M, M)


def _mul():
    from tinygrad.uop import Ops

    return Ops.MUL


# ---------------------------------------------------------------- reductions

T = (2, 3, 4)
for _axis in (None, 0, -1, (0, 2), ()):
    _about = str(_axis).replace(" ", "")
    row(f"sum {_about}", lambda x, a=_axis: x.square().sum(a), T)
    row(f"mean {_about}", lambda x, a=_axis: x.square().mean(a), T)
    row(f"prod {_about}", lambda x, a=_axis: x.prod(a), T)
    row(f"max {_about}", lambda x, a=_axis: x.square().max(a), T)
    row(f"min {_about}", lambda x, a=_axis: x.min(a) * 2, T)
for _axis in (None, 0, -1, (0, 2)):
    _about = str(_axis).replace(" ", "")
    row(f"var {_about}", lambda x, a=_axis: x.var(a), T)
    row(f"std {_about}", lambda x, a=_axis: x.std(a, correction=0), T)
    row(f"logsumexp {_about}", lambda x, a=_axis: x.logsumexp(a), T)
row("sum keepdim", lambda x: x.square().sum(1, keepdim=True) * x, T)
row("sum dtype", lambda x: x.square().sum(1, dtype=dtypes.float64), T)
row("prod keepdim", lambda x: x.prod(1, keepdim=True) * x, T)
row("prod dtype", lambda x: x.prod(dtype=dtypes.float64))
row("prod zeros", lambda x: (x * Tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).double()).prod(1))
row("var_mean", lambda x: Tensor.mul(*x.var_mean(1)), T)
row("std_mean", lambda x: Tensor.mul(*x.std_mean((0, 1))), T)
row("softmax", Tensor.softmax, M)
row("softmax axis", lambda x: x.softmax(0).square(), T)
row("softmax dtype", lambda x: x.softmax(1, dtype=dtypes.float64), T)
row("log_softmax", Tensor.log_softmax, M)
row("log_softmax axis", lambda x: x.log_softmax(1), T)
row("logcumsumexp", lambda x: x.logcumsumexp(1), T)
row("cumsum", lambda x: x.cumsum(1).square(), T)
row("cumsum 0", lambda x: x.cumsum().square(), T)
row("cumprod", lambda x: x.cumprod(1), T)
row("cumprod zero", lambda x: (x * Tensor([1.0, 0.0, 1.0]).double()).cumprod(1))
row("cummax", lambda x: x.cummax(1).square(), T)
row("sort", lambda x: x.sort(1)[0] * Tensor([1.0, 2.0, 4.0]).double())
row("sort descending", lambda x: x.sort(0, descending=True)[0].square() * x)
row("topk", lambda x: x.topk(2)[0].square())
row("topk smallest", lambda x: x.topk(2, dim=1, largest=False)[0].square(), T)
row("layernorm", lambda x: x.layernorm(), T)
row("layernorm axes", lambda x: x.layernorm(axis=(1, 2), eps=0.1), T)
row(
    "batchnorm",
    lambda x, w, b, m, i: x.batchnorm(w, b, m, i),
    T,
    (3,),
    (3,),
    (3,),
    above(0.5, (3,)),
)
row("batchnorm axes", lambda x, m, i: x.batchnorm(None, None, m, i, axis=(0, 1)), T, M, above(0.5))

# ---------------------------------------------------------------- movement

row("reshape", lambda x: x.reshape(3, 2).square())
row("view", lambda x: x.view(6).square())
row("expand", lambda x: x.expand(4, 2, 3).square(), (2, 1))
row(
    "expand new axes",
    lambda x: x.expand(2, 4, 3) * Tensor.arange(24).reshape(2, 4, 3).double(),
    (3,),
)
row("permute", lambda x: x.permute(2, 0, 1).square(), T)
row("transpose", lambda x: x.transpose(0, 2).square(), T)
row("T", lambda x: x.T.square())
row("flip", lambda x: x.flip((0, -1)).square() * x, T)
row("shrink", lambda x: x.shrink(((1, 2), (0, 2), None)).square(), T)
row("shrink_to", lambda x: x.shrink_to(1, 2).square())
row("pad", lambda x: x.pad(((1, 0), (2, 1))).square())
row("pad value", lambda x: x.pad(((1, 0), (2, 1)), value=3.0).square())
row("pad flat", lambda x: x.pad((1, 2)).square(), T)
row("pad cut", lambda x: x.pad(((-1, 1), (1, -1))).square())
row("pad reflect", lambda x: x.pad((2, 1, 1, 2), mode="reflect").square(), (1, 3, 4))
row("pad replicate", lambda x: x.pad((2, 1, 3, 0), mode="replicate").square(), T)
row("pad circular", lambda x: x.pad((2, 1, 3, 0), mode="circular").square(), T)
row("pad_to", lambda x: x.pad_to(3, None).square())
row("flatten", lambda x: x.flatten(1).square(), T)
row("unflatten", lambda x: x.unflatten(-1, (2, 2)).square(), T)
row("squeeze", lambda x: x.squeeze().square(), (2, 1, 3))
row("unsqueeze", lambda x: x.unsqueeze(1).square())
row("repeat", lambda x: x.repeat(2, 1, 3).square())
row("repeat_interleave", lambda x: x.repeat_interleave(3, 1).square())
row("repeat_interleave flat", lambda x: x.repeat_interleave(2).square())
row("rearrange", lambda x: x.rearrange("a (b c) d -> (a b) d c", b=3).square(), T)
row("roll", lambda x: x.roll((1, -2), (0, 2)).square() * x, T)
row("cat", lambda x, y: x.cat(y, x, dim=1).square(), M, (2, 2))
row("stack", lambda x, y: Tensor.stack(x, y, x, dim=1).square(), M, M)
row("split", lambda x: Tensor.mul(*[p.sum(1) for p in x.split([1, 3], dim=2)]), T)
row("chunk", lambda x: Tensor.mul(*x.chunk(2, dim=2)), T)
row("meshgrid", lambda x, y: Tensor.mul(*x.meshgrid(y)), (3,), (2,))
row("diag", lambda x: x.diag().square(), (3,))
row("diagonal", lambda x: x.diagonal().square(), (3, 3))
row("tril", lambda x: x.tril(1).square(), T)
row("triu", lambda x: x.triu(-1).square(), T)
row("unfold", lambda x: x.unfold(1, 2, 1).square(), T)
row("unfold apart", lambda x: x.unfold(2, 2, 2).square(), T)

# ---------------------------------------------------------------- indexing

row("getitem views", lambda x: x[1, ::2, None, 3:0:-2].square(), T)
row("getitem repeats", lambda x: x[ints([1, 0, 1, 1])].square(), T)
row("getitem two", lambda x: x[ints([[1], [0]]), :, ints([2, 2, -1])].square(), T)
row("getitem mask", lambda x: x[Tensor([[True, False, True], [False, True, True]])].square(), T)
row("getitem out of range", lambda x: x[ints([5, 1, -9])].square(), T)
row("gather", lambda x: x.gather(1, ints([[[2], [2], [0]], [[1], [1], [1]]])).square(), T)
row("masked_select", lambda x: x.masked_select(Tensor([True, False, True])).square())
_INDEX = [[0, 2, 0], [1, 1, 2]]
row("scatter", lambda x, s: x.scatter(1, ints(_INDEX), s).square(), M, M)
row("scatter number", lambda x: x.scatter(1, ints(_INDEX), 3.0, reduce="multiply").square())
row("scatter add", lambda x: x.scatter(0, ints([[0, 1, 1]]), 3.0, reduce="add").square())
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _with in (True, False):
        row(
            f"scatter_reduce {_reduce} {_with}",
            lambda x, s, r=_reduce, w=_with: x.scatter_reduce(1, ints(_INDEX), s, r, w).square(),
            M,
            M,
        )
row("one_hot", lambda x: (ints([2, 0]).one_hot(3) * x).square())


def _written(index, value=None):
    def fn(x, *values):
        # a tensor computed from one that wants a gradient, then written
        x.requires_grad = True
        y = x * x
        y[index] = values[0] * 2 if values else value
        y[0] = y[1] * 3
        return y.sin()

    return fn


row("setitem number", _written((slice(None), 1), 2.0), T)
row("setitem view", _written((1, slice(None, None, -2)), None), T, (2, 4))
row("setitem repeats", _written(ints([1, 1])), T, (2, 3, 4))
row("setitem mask", _written(Tensor([[True, False, True], [False, True, True]])), T, (4, 4))
row("setitem broadcast", _written((..., ints([0, 3]))), T, (3, 1))
row("assign", lambda x, y: x.square().contiguous().assign(y.square() * 3) * x, M, M)
row("replace", lambda x: Tensor.zeros(2, 3).double().replace(x.square()) * x)

# ---------------------------------------------------------------- linear algebra

row("dot", Tensor.dot, M, (3, 2))
row("dot vectors", Tensor.dot, (3,), (3,))
row("dot matrix vector", lambda m, v: m.dot(v) * v.dot(m.T), M, (3,))
row("dot dtype", lambda x, y: x.dot(y, dtype=dtypes.float64), M, (3, 2))
row("matmul", lambda x, y: x @ y, (2, 1, 2, 3), (3, 3, 2))
row("matmul reverse", lambda x, y: x.matmul(y, reverse=True), (3, 2), M)
row("image_dot", Tensor.image_dot, M, (3, 2))
row("linear", lambda x, w, b: x.linear(w, b), M, (3, 2), (2,))
row("linear elementwise", lambda x, w: x.linear(w, dtype=dtypes.float64), M, (3,))
row("einsum", lambda x, y: Tensor.einsum("ij,kj->ik", x, y), M, (4, 3))
row("einsum trace", lambda x: Tensor.einsum("ii->", x.square()), (3, 3))
row("einsum diagonal", lambda x, y: Tensor.einsum("ibi,b->ib", x, y), (2, 3, 2), (3,))
row("einsum dots", lambda x, y: Tensor.einsum("...ij,...jk->...ik", x, y), (2, 2, 3), (3, 2))
row("einsum three", lambda x, y, z: Tensor.einsum("i,ij,j", x, y, z), (2,), M, (3,))
row(
    "qr",
    lambda x: x.qr()[0].square() * Tensor([[1.0, 2.0, 3.0]] * 3).double(),
    (3, 3),
    second=False,
)
row("qr r", lambda x: x.qr()[1].square().triu(), (4, 2), second=False)
row("svd", lambda x: x.svd()[1].square(), (3, 2), second=False)
row("svd u", lambda x: x.svd(full_matrices=False)[0].square(), (3, 2), second=False)
row("newton_schulz", lambda x: x.newton_schulz(2, (1.5, -0.5)), second=False)

# ---------------------------------------------------------------- convolution and pooling

row("conv2d", lambda x, w, b: x.conv2d(w, b), (1, 2, 4, 4), (2, 2, 3, 3), (2,))
row("conv2d one axis", lambda x, w: x.conv2d(w, stride=2, padding=1), (1, 2, 6), (2, 2, 3))
row("conv2d three axes", lambda x, w: x.conv2d(w, padding=1), (1, 1, 2, 3, 2), (1, 1, 2, 2, 2))
row(
    "conv2d strided",
    lambda x, w: x.conv2d(w, stride=(2, 3), padding=(1, 2)),
    (1, 1, 5, 6),
    (1, 1, 2, 3),
)
row(
    "conv2d grouped",
    lambda x, w: x.conv2d(w, groups=2, dilation=2, padding=(1, 0, 2, 1)),
    (2, 4, 3, 4),
    (2, 2, 2, 2),
)
row("conv2d dtype", lambda x, w: x.conv2d(w, dtype=dtypes.float64), (1, 1, 3, 3), (1, 1, 2, 2))
row("image_conv2d", lambda x, w: x.image_conv2d(w, padding=1), (1, 1, 3, 3), (1, 1, 2, 2))
row("conv_transpose2d", lambda x, w, b: x.conv_transpose2d(w, b), (1, 2, 3, 3), (2, 2, 2, 2), (2,))
row(
    "conv_transpose2d strided",
    lambda x, w: x.conv_transpose2d(w, stride=2, padding=1, output_padding=1, dilation=2),
    (1, 2, 3, 3),
    (2, 1, 3, 3),
)
row(
    "conv_transpose2d grouped",
    lambda x, w: x.conv_transpose2d(w, groups=2, stride=(2, 1)),
    (1, 4, 2, 3),
    (4, 1, 2, 2),
)
row("conv_transpose2d one axis", lambda x, w: x.conv_transpose2d(w, stride=3), (1, 2, 3), (2, 2, 2))
row("max_pool2d", lambda x: x.max_pool2d().square(), (1, 2, 4, 4))
row("max_pool2d overlap", lambda x: x.max_pool2d(3, stride=1, padding=1).square(), (1, 1, 4, 4))
row(
    "max_pool2d ceil",
    lambda x: x.max_pool2d((2, 3), stride=2, ceil_mode=True, dilation=(1, 2)).square(),
    (1, 1, 5, 6),
)
row("max_pool2d one axis", lambda x: x.max_pool2d((2,), stride=1).square(), (1, 2, 5))
row("avg_pool2d", lambda x: x.avg_pool2d().square(), (1, 2, 4, 4))
row(
    "avg_pool2d padded",
    lambda x: x.avg_pool2d(3, 2, padding=1, ceil_mode=True).square(),
    (1, 1, 6, 6),
)
row(
    "avg_pool2d uncounted",
    lambda x: x.avg_pool2d(3, 2, padding=1, count_include_pad=False).square(),
    (1, 1, 5, 5),
)
row("avg_pool2d three axes", lambda x: x.avg_pool2d((2, 2, 2)).square(), (1, 1, 2, 4, 2))


def _unpooled(x):
    values, places = x.max_pool2d(return_indices=True)
    return values.square().max_unpool2d(places)


row("max_unpool2d", _unpooled, (1, 2, 4, 4))
for _mode in ("linear", "nearest", "nearest-exact"):
    for _size in ((5, 7), (2, 2)):
        row(
            f"interpolate {_mode} {_size[0]}",
            lambda x, m=_mode, s=_size: x.interpolate(s, m).square(),
            (1, 2, 3, 4),
        )
row(
    "interpolate corners",
    lambda x: x.interpolate((5, 2), align_corners=True).square(),
    (1, 2, 3, 4),
)

Q = (1, 2, 3, 4)
row("scaled_dot_product_attention", Tensor.scaled_dot_product_attention, Q, Q, Q)
row(
    "scaled_dot_product_attention causal",
    lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
    Q,
    Q,
    Q,
)
row(
    "scaled_dot_product_attention mask",
    lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m),
    Q,
    (1, 2, 5, 4),
    (1, 2, 5, 2),
    (3, 5),
)
row(
    "scaled_dot_product_attention groups",
    lambda q, k, v: q.scaled_dot_product_attention(k, v, Tensor([[True, False]]), enable_gqa=True),
    (1, 4, 2, 3),
    (1, 2, 2, 3),
    (1, 2, 2, 3),
)


def _dropped(x):
    Tensor.manual_seed(5)
    with Tensor.train():
        return x.square().dropout(0.4)


row("dropout", _dropped, T)
row("dropout off", lambda x: x.dropout(0.4).square())

# ---------------------------------------------------------------- losses

C = (4, 3)
P = (C, 0.1, 0.9)
_TARGETS = [2, 0, 1, 0]
for _reduction in ("mean", "sum", "none"):
    row(
        f"binary_crossentropy {_reduction}",
        lambda x, y, r=_reduction: x.binary_crossentropy(y, reduction=r),
        P,
        P,
    )
    row(
        f"binary_crossentropy_logits {_reduction}",
        lambda x, y, w, r=_reduction: x.binary_crossentropy_logits(y, r, pos_weight=w),
        C,
        P,
        above(0.5, (3,)),
    )
    row(
        f"sparse_categorical_crossentropy {_reduction}",
        lambda x, r=_reduction: x.sparse_categorical_crossentropy(
            ints(_TARGETS), ignore_index=1, label_smoothing=0.2, reduction=r
        ),
        C,
    )
    row(
        f"cross_entropy {_reduction}",
        lambda x, r=_reduction: x.cross_entropy(ints(_TARGETS), r, label_smoothing=0.2),
        C,
    )
    row(
        f"cross_entropy probabilities {_reduction}",
        lambda x, y, r=_reduction: x.cross_entropy(y, r),
        C,
        P,
    )
    row(
        f"nll_loss {_reduction}",
        lambda x, w, r=_reduction: x.nll_loss(ints(_TARGETS), w, ignore_index=2, reduction=r),
        C,
        above(0.5, (3,)),
    )

# ---------------------------------------------------------------- layers, as they are used


def _layer(make, *shape):
    """A layer with float64 parameters that are the inputs after the first."""

    def fn(x, *parameters):
        layer = make()
        for name, value in zip(nn.state.get_state_dict(layer), parameters):
            setattr(layer, name, value)
        return layer(x)

    return fn


row("linear layer", _layer(lambda: nn.Linear(3, 2)), M, (2, 3), (2,))
row("layernorm layer", _layer(lambda: nn.LayerNorm(3)), M, (3,), (3,))
row("layernorm group", _layer(lambda: nn.GroupNorm(2, 4)), (2, 4, 3), (4,), (4,))
row("layernorm rms", _layer(lambda: nn.RMSNorm(3)), M, (3,))
row("gather embedding", lambda w: _embedding(w).square(), (5, 3))


def _embedding(weight):
    layer = nn.Embedding(5, 3)
    layer.weight = weight
    return layer(ints([[1, 4, 1], [0, 1, 4]]))


# ---------------------------------------------------------------- what has no gradient

# results that are constant between steps: the gradient is zero, or none arrives
CONSTANT = {
    "argmax", "argmin", "argsort", "ceil", "eq", "floor", "ge", "gt", "isclose", "isfinite", "isinf",
    "isnan", "le", "lt", "ne", "round", "sign", "trunc", "any", "all", "logical_not", "const_like",
    "empty_like", "full_like", "ones_like", "zeros_like", "rand_like", "randn_like", "bool", "int",
    "long", "short", "detach", "multinomial",
}  # fmt: skip
# makes tensors, reads them, moves them, or is for integers
OTHER = {
    "CHUNK_SIZE", "allclose", "alu_threefry", "arange", "backward", "bfloat16", "bitcast",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "custom_kernel", "data",
    "decode_hevc_frame", "device", "dtype", "element_size", "empty", "eye", "float", "from_blob",
    "from_dlpack", "from_uop", "from_url", "fs_load", "fs_store", "full", "glorot_uniform", "grad", "gradient", "half",
    "hash", "idiv", "is_floating_point", "item", "kaiming_normal", "kaiming_uniform", "keccak",
    "linspace", "lshift", "manual_seed", "nbytes", "ndim", "normal", "numel", "numpy", "ones", "rand",
    "randint", "randn", "randperm", "realize", "requires_grad", "requires_grad_", "rshift",
    "scaled_uniform", "schedule", "schedule_with_vars", "shape", "shard", "shard_", "shard_like", "size",
    "threefry", "to", "to_", "tolist", "train", "training", "uniform", "uop", "zeros",
}  # fmt: skip
