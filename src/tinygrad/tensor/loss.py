"""Loss functions. `reduction` is "mean", "sum" or "none"; targets are class numbers or probabilities."""

from __future__ import annotations

from typing import Literal, Self, get_args

from tinygrad.tensor.core import TensorCore

ReductionStr = Literal["mean", "sum", "none"]


class LossMixin(TensorCore):
    """Cross entropies and likelihoods."""

    __slots__ = ()

    def _apply_reduction(self, reduction: ReductionStr) -> Self:
        if reduction not in get_args(ReductionStr):
            raise ValueError(f"reduction is one of {get_args(ReductionStr)}, got {reduction!r}")
        if reduction == "none":
            return self
        return self.mean() if reduction == "mean" else self.sum()

    def _bounded_log(self) -> Self:
        """`max(log(self), -100)`, with slope 0 at 0."""
        is_zero = self == 0
        return is_zero.where(-100, is_zero.where(1, self).log().maximum(-100))

    def binary_crossentropy(self, Y: Self, reduction: ReductionStr = "mean") -> Self:
        """Of probabilities `self` against probabilities `Y` of the same shape.

        A logarithm counts as no less than -100, so that certainty about the wrong class is finite.

        >>> round(Tensor([0.9, 0.2]).binary_crossentropy(Tensor([1.0, 0.0])).item(), 4)
        0.1643
        """
        each = -Y * self._bounded_log() - (1 - Y) * (1 - self)._bounded_log()
        return each._apply_reduction(reduction)

    def binary_crossentropy_logits(
        self, Y: Self, reduction: ReductionStr = "mean", pos_weight: Self | None = None
    ) -> Self:
        """As `binary_crossentropy` of `self.sigmoid()`, without overflow.

        `pos_weight` scales the part of positive targets.

        >>> round(Tensor([2.0, -1.0]).binary_crossentropy_logits(Tensor([1.0, 0.0])).item(), 4)
        0.2201
        """
        positive = Y * self.logsigmoid()
        if pos_weight is not None:
            positive = pos_weight * positive
        each = -(positive + (1 - Y) * (-self).logsigmoid())
        return each._apply_reduction(reduction)

    def sparse_categorical_crossentropy(
        self,
        Y: Self,
        ignore_index: int = -1,
        label_smoothing=0.0,
        reduction: ReductionStr = "mean",
    ) -> Self:
        """Of logits over the last axis against class numbers `Y`, ignoring targets `ignore_index`.

        `label_smoothing` in [0, 1) moves that share of the target to all classes evenly.

        >>> round(Tensor([[2.0, 0.0]]).sparse_categorical_crossentropy(Tensor([0])).item(), 4)
        0.1269
        """
        if not 0.0 <= label_smoothing <= 1.0:
            raise AssertionError(f"label_smoothing must be in [0.0, 1.0], got {label_smoothing}")
        if reduction not in get_args(ReductionStr):
            raise ValueError(f"reduction is one of {get_args(ReductionStr)}, got {reduction!r}")
        if isinstance(self.device, str):
            Y = Y.to(self.device)
        logs = self.log_softmax()
        counts = Y != ignore_index
        chosen = Y.unsqueeze(-1)._one_hot_bool(self.shape[-1]).squeeze(-2)
        hit = (chosen & counts.unsqueeze(-1)).where(logs, 0).sum(-1)
        smooth = logs.mean(-1) * counts
        each = -((1 - label_smoothing) * hit + label_smoothing * smooth)
        if reduction == "mean":
            return each.sum() / counts.sum()
        return each._apply_reduction(reduction)

    def cross_entropy(
        self, Y: Self, reduction: ReductionStr = "mean", label_smoothing: float = 0.0
    ) -> Self:
        """Of logits with classes on axis 1 (axis 0 of a vector) against class numbers or
        probabilities `Y`.

        >>> round(Tensor([[2.0, 0.0], [0.0, 2.0]]).cross_entropy(Tensor([0, 1])).item(), 4)
        0.1269
        """
        if not 0.0 <= label_smoothing <= 1.0:
            raise AssertionError(f"label_smoothing must be in [0.0, 1.0], got {label_smoothing}")
        axis = 0 if self.ndim == 1 else 1
        classes = self.shape[axis]
        if Y.ndim < self.ndim:
            moved = Y._one_hot_bool(classes).cast(self.dtype)
            order = list(range(moved.ndim - 1))
            order.insert(axis, moved.ndim - 1)
            Y = moved.permute(order)
        if Y.shape != self.shape:
            raise RuntimeError(
                f"targets of shape {Y.shape} do not fit logits of shape {self.shape}"
            )
        Y = (1 - label_smoothing) * Y + label_smoothing / classes
        each = -(self.log_softmax(axis=axis) * Y).sum(axis)
        return each._apply_reduction(reduction)

    def nll_loss(
        self,
        Y: Self,
        weight: Self | None = None,
        ignore_index: int | None = None,
        reduction: ReductionStr = "mean",
    ) -> Self:
        """Of log-probabilities with classes on axis 1 against class numbers `Y`.

        `weight` is one factor per class; the mean is over the weights of the targets.

        >>> round(Tensor([[0.7, 0.3]]).log().nll_loss(Tensor([0])).item(), 4)
        0.3567
        """
        factor = Y.ones_like(requires_grad=False, dtype=self.dtype) if weight is None else weight[Y]
        counted = factor if ignore_index is None else factor * (Y != ignore_index)
        axis = 0 if self.ndim == 1 else 1
        each = -self.gather(axis, Y.unsqueeze(axis)).squeeze(axis) * counted
        if reduction == "mean":
            return each.sum() / counted.sum()
        return each._apply_reduction(reduction)
