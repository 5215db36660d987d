"""Operators that combine elements along axes: sums, means, norms, softmax and losses."""

from __future__ import annotations

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


def _mean(x: Tensor, axis, keepdim: bool) -> Tensor:
    return x.mean(axis, keepdim=keepdim).cast(x.dtype)


def _sum(x: Tensor, axis, keepdim: bool) -> Tensor:
    return x.sum(axis, keepdim=keepdim).cast(x.dtype)


def _log_sum(x: Tensor, axis, keepdim: bool) -> Tensor:
    return _sum(x, axis, keepdim).log().cast(x.dtype)


def _log_sum_exp(x: Tensor, axis, keepdim: bool) -> Tensor:
    return x.logsumexp(axis, keepdim=keepdim).cast(x.dtype)


def _norm(x: Tensor, axis, keepdim: bool) -> Tensor:
    wide = x.cast(dtypes.float64) if dtypes.is_int(x.dtype) else x
    return (wide * wide).sum(axis, keepdim=keepdim).sqrt().cast(x.dtype)


# name -> what combines, and what becomes of a tensor that no axis is named for
_REDUCTIONS = {
    "ReduceSum": (_sum, lambda x: x),
    "ReduceMean": (_mean, lambda x: x),
    "ReduceProd": (lambda x, a, k: x.prod(a, keepdim=k).cast(x.dtype), lambda x: x),
    "ReduceMax": (lambda x, a, k: x.max(a, keepdim=k), lambda x: x),
    "ReduceMin": (lambda x, a, k: x.min(a, keepdim=k), lambda x: x),
    "ReduceL1": (lambda x, a, k: _sum(x.abs(), a, k), lambda x: x.abs()),
    "ReduceL2": (_norm, lambda x: x.abs()),
    "ReduceSumSquare": (lambda x, a, k: _sum(x * x, a, k), lambda x: x * x),
    "ReduceLogSum": (_log_sum, lambda x: x.log()),
    "ReduceLogSumExp": (_log_sum_exp, lambda x: x),
}


def _register(name: str, combine, alone) -> None:
    @operator(name, constants=("axes",))
    def reduce(x: Tensor, axes: list[int] | None = None, keepdims: int = 1,
               noop_with_empty_axes: int = 0) -> Tensor:  # fmt: skip
        """Combined along the axes, all of them where none is named."""
        if not axes and noop_with_empty_axes:
            return alone(x)
        chosen = tuple(axis_in(a, x.ndim) for a in axes) if axes else tuple(range(x.ndim))
        if x.ndim == 0:
            return alone(x)
        return combine(x, chosen, bool(keepdims))


for _name, (_combine, _alone) in _REDUCTIONS.items():
    _register(_name, _combine, _alone)


def _running(x: Tensor, axis, exclusive: int, reverse: int, first: int, total) -> Tensor:
    """`total` along an axis of x, or of x moved on by one behind `first`, from either end."""
    place = axis_in(int(axis if not isinstance(axis, list) else axis[0]), x.ndim)
    line = x.flip(place) if reverse else x
    if exclusive:
        grown = [(1, 0) if i == place else (0, 0) for i in range(x.ndim)]
        kept = [(0, n) for n in x.shape]
        line = line.pad(tuple(grown), value=first).shrink(tuple(kept))
    result = total(line, place).cast(x.dtype)
    return result.flip(place) if reverse else result


@operator("CumSum", constants=("axis",))
def cumulative_sum(x: Tensor, axis, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Running sums, without the element itself if `exclusive`, from the end if `reverse`."""
    return _running(x, axis, exclusive, reverse, 0, lambda line, place: line.cumsum(place))


@operator("CumProd", constants=("axis",))
def cumulative_product(x: Tensor, axis, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Running products, without the element itself if `exclusive`, from the end if `reverse`."""
    return _running(x, axis, exclusive, reverse, 1, lambda line, place: line.cumprod(place))


# *** softmax: along one axis since operator set 13, over all axes from `axis` on before ***
def _rows(x: Tensor, axis: int) -> Tensor:
    return x.flatten(axis_in(axis, x.ndim)) if x.ndim else x.reshape(1)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    place = axis_in(axis, x.ndim)
    line = Tensor.arange(x.shape[place]).reshape([-1 if i == place else 1 for i in range(x.ndim)])
    return (line == x.argmax(place, keepdim=True)).cast(x.dtype)


def _register_softmax(name: str, function) -> None:
    @operator(name, since=13)
    def along_axis(x: Tensor, axis: int = -1) -> Tensor:
        """Along one axis."""
        return function(x, axis).cast(x.dtype)

    @operator(name, since=1)
    def over_rest(x: Tensor, axis: int = 1) -> Tensor:
        """Over all axes from `axis` on."""
        return function(_rows(x, axis), -1).reshape(x.shape).cast(x.dtype)


_register_softmax("Softmax", lambda x, axis: x.softmax(axis))
_register_softmax("LogSoftmax", lambda x, axis: x.log_softmax(axis))
_register_softmax("Hardmax", _hardmax)


# *** losses ***
@operator("NegativeLogLikelihoodLoss")
def nll_loss(x: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int | None = None,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    """Minus the input at the target classes (axis 1), weighted by class, without the ignored ones."""
    classes = Tensor.arange(x.shape[1]).reshape(1, -1, *[1] * (x.ndim - 2))
    hit = classes == target.unsqueeze(1)
    chosen = hit.where(x, 0).sum(1)
    share = Tensor.ones(*target.shape, dtype=x.dtype)
    if weight is not None:
        share = hit.where(weight.reshape(classes.shape), 0).sum(1)
    if ignore_index is not None:
        share = (target == ignore_index).where(0, share)
    loss = -chosen * share
    if reduction == "none":
        return loss.cast(x.dtype)
    total = loss.sum()
    return (total if reduction == "sum" else total / share.sum()).cast(x.dtype)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(x: Tensor, target: Tensor, weights: Tensor | None = None,
                          ignore_index: int | None = None, reduction: str = "mean"):  # fmt: skip
    """The loss of the logarithms of the softmax along axis 1, and these logarithms."""
    logs = x.log_softmax(1)
    return nll_loss(logs, target, weights, ignore_index, reduction), logs.cast(x.dtype)
