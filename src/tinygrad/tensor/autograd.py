"""Gradients of tensors.

In: a scalar tensor (or a gradient for it) and targets. Out: gradient tensors, lazily built by
`tinygrad.gradient`; nothing runs here.
"""

from __future__ import annotations

import functools
from typing import Any, Self

from tinygrad.gradient import compute_gradient
from tinygrad.tensor import writes
from tinygrad.tensor.core import TensorCore, live_tensors
from tinygrad.uop.ops import UOp


class AutogradMixin(TensorCore):
    """Reverse-mode differentiation."""

    __slots__ = ()

    def gradient(
        self, *targets: Self, gradient: Self | None = None, materialize_grads=False
    ) -> list[Self]:
        """The gradients of `self` with respect to `targets`, one tensor of the target's shape each.

        `gradient` is the gradient of `self`; without it `self` must be a scalar. A target `self` does
        not depend on raises RuntimeError, or gives zeros with `materialize_grads`.

        >>> x = Tensor([3.0])
        >>> (x * x).sum().gradient(x)[0].tolist()
        [6.0]
        """
        for t in (self, *targets):
            if not t.is_floating_point():
                raise RuntimeError(f"only float tensors have gradients, got {t.dtype}: cast first")
        if gradient is None:
            if self.shape != ():
                raise RuntimeError(
                    f"gradient starts from a scalar, got shape {self.shape}: reduce it, or pass gradient="
                )
            seed = self.uop.const_like(1.0)
        else:
            if gradient.shape != self.shape:
                raise RuntimeError(f"gradient has shape {gradient.shape}, expected {self.shape}")
            seed = gradient.uop
        history = writes.History(self.uop.toposort())
        states = [history.states(t) for t in targets]
        found = compute_gradient(self.uop, seed, {known[0] for known in states if known})
        results = []
        for t, known in zip(targets, states):
            parts = [found[u] for u in known[:1] if u in found]
            # what was overwritten since: the gradient at the values of then
            parts += self._at_older_states(seed, known)
            if parts:
                results.append(self._wrap(functools.reduce(UOp.__add__, parts), None))
            elif materialize_grads:
                results.append(t.zeros_like(requires_grad=None))
            else:
                raise RuntimeError(
                    f"the result does not depend on the target {t!r}: "
                    "pass materialize_grads=True to get zeros"
                )
        return results

    def _at_older_states(self, seed: UOp, known: list[UOp]) -> list[UOp]:
        """Gradients for all but the newest of the states of one tensor, each without the way through newer ones."""
        parts = []
        for place in range(1, len(known)):
            found = compute_gradient(self.uop, seed, {known[place]}, known[:place])
            parts += [found[u] for u in known[place : place + 1] if u in found]
        return parts

    def backward(self, gradient: Self | None = None) -> Self:
        """Adds to `.grad` of every tensor in the graph that has `requires_grad=True`; returns self.

        A tensor that was assigned to since counts with the values that the graph was built from. Raises RuntimeError where
        those were overwritten before they were computed.

        >>> w = Tensor([2.0], requires_grad=True)
        >>> _ = (w * 3).sum().backward()
        >>> w.grad.tolist()
        [3.0]
        """
        from tinygrad.engine.realize import current_capture

        history = writes.History(self.uop.toposort())
        wanting: list[Any] = [
            t
            for t in live_tensors()
            # a condition that was computed from tensors that want gradients has none itself
            if t.requires_grad is True and t.is_floating_point() and history.states(t)
        ]
        if not any(t is not self for t in wanting) and writes.computed_early.get(self):
            raise RuntimeError(
                "the graph below this tensor is gone: a tensor that it depends on was assigned to before it was in memory. "
                "Call backward() before assign() or an optimizer's step(), or realize() the parameters first"
            )
        for t, grad in zip(
            wanting, self.gradient(*wanting, gradient=gradient, materialize_grads=True)
        ):
            if grad.shape != t.shape:
                raise AssertionError(f"gradient of shape {grad.shape} for a tensor of {t.shape}")
            if (capture := current_capture()) is not None:
                capture.note_backward(t)
            t.grad = grad if t.grad is None else t.grad + grad
        return self
