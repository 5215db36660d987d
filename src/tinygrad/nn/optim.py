"""Optimizers.

In: parameters with gradients. Out: new values, assigned in place when `step` realizes them. The
learning rate and all state are tensors, so that a captured step can be replayed and the rate changed
between steps. `fused` treats all parameters as one long vector, so that one kernel updates them all.
"""

from __future__ import annotations

from tinygrad.dtype import dtypes, least_upper_dtype
from tinygrad.helpers import FUSE_OPTIM, dedup
from tinygrad.tensor import Tensor


def _beside(x: Tensor, y: Tensor) -> Tensor:
    """`x` where `y` is."""
    return (
        x
        if x.device == y.device
        else (x.to(y.device) if isinstance(y.device, str) else x.shard_like(y))
    )


class Optimizer:
    """What all optimizers share; a subclass gives `_step`.

    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = nn.optim.SGD([w], lr=0.5)
    >>> with Tensor.train():
    ...     _ = (w * w).sum().backward()
    ...     optimizer.step()
    >>> w.tolist()
    [0.0]
    """

    def __init__(self, params: list[Tensor], lr: float, fused=FUSE_OPTIM):
        """Parameters whose `requires_grad` is None become trainable; those with False are only
        realized with each step. Raises ValueError when none is trainable."""
        for p in params:
            if p.requires_grad is None:
                p.requires_grad = True
        self.params: list[Tensor] = dedup([p for p in params if p.requires_grad])
        if not self.params:
            raise AssertionError("optimizer must have at least one param")
        self.buffers: list[Tensor] = dedup([p for p in params if not p.requires_grad])
        self.fused = bool(fused)
        rate_dtype = least_upper_dtype(dtypes.default_float, dtypes.float32)
        # a buffer of one element, not a constant, so that a captured step sees a rate assigned later
        self.lr = lr if isinstance(lr, Tensor) else self._one_element([lr], rate_dtype)
        if self.fused:
            self._places = self._layout()

    def _one_element(self, value: list[float], dtype) -> Tensor:
        return Tensor(value, device=self.device, dtype=dtype, requires_grad=False)

    def _layout(self) -> list[int]:
        """Where each parameter starts in the fused vector."""
        starts = [0]
        for p in self.params:
            starts.append(starts[-1] + int(p.numel()))
        return starts

    def _new_state(self) -> list[Tensor]:
        """Zeros like each parameter, in at least float32."""
        if self.fused:
            kind = least_upper_dtype(*[p.dtype for p in self.params], dtypes.float32)
            return [
                Tensor.zeros(
                    self._places[-1], dtype=kind, device=self.device, requires_grad=False
                ).contiguous()
            ]
        return [
            p.zeros_like(
                dtype=least_upper_dtype(p.dtype, dtypes.float32), requires_grad=False
            ).contiguous()
            for p in self.params
        ]

    @property
    def device(self):
        """The device of the parameters."""
        return self.params[0].device

    def zero_grad(self):
        """Forgets the gradients of all parameters.

        >>> w = Tensor([1.0], requires_grad=True)
        >>> _ = (w * w).sum().backward()
        >>> nn.optim.SGD([w]).zero_grad()
        >>> w.grad is None
        True
        """
        for p in self.params:
            p.grad = None

    def step(self):
        """Updates all parameters from their gradients. Raises RuntimeError outside training mode."""
        Tensor.realize(*self.schedule_step())

    def _gradients(self) -> list[Tensor]:
        found = []
        for i, p in enumerate(self.params):
            if p.grad is None:
                raise AssertionError(
                    f"parameter {i} of shape {p.shape} has no gradient: call backward() first"
                )
            found.append(p.grad)
        return found

    def schedule_step(self) -> list[Tensor]:
        """Assigns the new values without running anything; returns the tensors to realize."""
        if not Tensor.training:
            raise RuntimeError(
                "Tensor.training is False: do an optimizer step within `with Tensor.train():`"
            )
        grads = self._gradients()
        if self.fused:
            flat = [p.flatten() for p in self.params]
            vector = flat[0].cat(*flat[1:]) if len(flat) > 1 else flat[0]
            lines = [g.contiguous().flatten() for g in grads]
            gradient = lines[0].cat(*lines[1:]) if len(lines) > 1 else lines[0]
            updates, extra = self._step([vector], [gradient])
            deltas = [
                updates[0][start:end].reshape(p.shape)
                for p, start, end in zip(self.params, self._places, self._places[1:])
            ]
        else:
            deltas, extra = self._step(self.params, grads)
        for p, delta in zip(self.params, deltas):
            p.assign((p.detach() - _beside(delta, p)).cast(p.dtype))
        return extra + self.params + self.buffers

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """What to subtract from each parameter, and the state tensors that changed."""
        raise NotImplementedError(f"{type(self).__name__} has no _step")

    def _rate(self, p: Tensor) -> Tensor:
        return _beside(self.lr, p)


class OptimizerGroup(Optimizer):
    """Several optimizers, each for its own parameters, stepped as one.

    >>> a, b = Tensor([1.0]), Tensor([2.0])
    >>> group = nn.optim.OptimizerGroup(nn.optim.SGD([a], lr=0.1), nn.optim.Adam([b], lr=0.1))
    >>> len(group.params)
    2
    """

    def __init__(self, *optimizers: Optimizer):
        self.optimizers = optimizers
        self.params = [p for o in optimizers for p in o.params]
        self.buffers = [b for o in optimizers for b in o.buffers]

    def __getitem__(self, i):
        return self.optimizers[i]

    def zero_grad(self):
        """Forgets the gradients of all groups."""
        for o in self.optimizers:
            o.zero_grad()

    def schedule_step(self) -> list[Tensor]:
        """The steps of all groups."""
        return [t for o in self.optimizers for t in o.schedule_step()]


def SGD(
    params: list[Tensor], lr=0.001, momentum=0.0, weight_decay=0.0, nesterov=False, classic=False,
    fused=FUSE_OPTIM,
):  # fmt: skip
    """Gradient descent with optional momentum and weight decay.

    `classic` multiplies the learning rate into the momentum instead of the update.

    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = nn.optim.SGD([w], lr=0.25, momentum=0.5)
    >>> with Tensor.train():
    ...     _ = (w * w).sum().backward()
    ...     optimizer.step()
    >>> w.tolist()
    [0.5]
    """
    return LARS(
        params, lr, momentum, weight_decay, 0, None, nesterov, classic, tcoef=0.0, fused=fused
    )


def Muon(
    params: list[Tensor], lr=0.001, momentum=0.95, weight_decay=0.1, ns_steps=5,
    ns_coefficients=(3.4445, -4.775, 2.0315), nesterov=True, fused=FUSE_OPTIM,
):  # fmt: skip
    """Momentum made orthogonal (Jordan et al., 2024), for matrices. Cannot be fused.

    >>> len(nn.optim.Muon([Tensor.rand(2, 2)], lr=0.1).params)
    1
    """
    if fused:
        raise AssertionError("Muon works on whole matrices: it cannot be fused")
    return LARS(
        params, lr, momentum, weight_decay, ns_steps, ns_coefficients, nesterov,
        classic=False, pre_wd=False, tcoef=0.0, fused=fused,
    )  # fmt: skip


class LARS(Optimizer):
    """Layer-wise adaptive rates (You et al., arXiv:1708.03888); `tcoef=0` is plain SGD.

    `ns_steps` orthogonalizes the update; `pre_wd` adds weight decay to the gradient, else it shrinks
    the parameter.

    >>> len(nn.optim.LARS(nn.state.get_parameters(nn.Linear(2, 2)), lr=0.1).params)
    2
    """

    def __init__(
        self, params: list[Tensor], lr=0.001, momentum=0.9, weight_decay=1e-4, ns_steps=0,
        ns_coefficients=None, nesterov=False, classic=True, pre_wd=True, tcoef=0.001, fused=FUSE_OPTIM,
    ):  # fmt: skip
        super().__init__(params, lr, fused)
        self.momentum, self.wd, self.nesterov, self.classic = (
            momentum,
            weight_decay,
            nesterov,
            classic,
        )
        self.ns_steps, self.ns_coefficients = ns_steps, ns_coefficients
        self.pre_wd, self.tcoef = pre_wd, tcoef
        self.b: list[Tensor] = self._new_state() if momentum else []

    def _trust(self, p: Tensor, g: Tensor) -> Tensor | float:
        if self.tcoef == 0:
            return 1.0
        size, slope = p.square().sum().sqrt(), g.square().sum().sqrt()
        ratio = self.tcoef * size / (slope + self.wd * size)
        return ((size > 0) & (slope > 0)).where(ratio, 1.0)

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        deltas = []
        for i, (param, grad) in enumerate(zip(params, grads)):
            p, g = param.detach(), grad
            rate, trust = self._rate(p), self._trust(p, g)
            if self.pre_wd and self.wd > 0:
                g = g + self.wd * p
            if self.classic:
                g = g * trust * rate
            if self.momentum:
                speed = self.b[i]
                speed.assign((self.momentum * speed + _beside(g, speed)).cast(speed.dtype))
                g = g + self.momentum * _beside(speed, p) if self.nesterov else _beside(speed, p)
            if self.ns_steps:
                g = (
                    g.reshape(g.shape[0], -1)
                    .newton_schulz(self.ns_steps, self.ns_coefficients)
                    .reshape(g.shape)
                )
            if not self.classic:
                g = g * trust * rate
            if not self.pre_wd and self.wd > 0:
                g = g + self.wd * rate * p
            deltas.append(g)
        return deltas, list(self.b)


def AdamW(
    params: list[Tensor], lr=0.001, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, fused=FUSE_OPTIM
):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, arXiv:1711.05101).

    >>> len(nn.optim.AdamW(nn.state.get_parameters(nn.Linear(2, 2)), lr=0.1).params)
    2
    """
    return LAMB(params, lr, b1, b2, eps, weight_decay, adam=True, fused=fused)


def Adam(params: list[Tensor], lr=0.001, b1=0.9, b2=0.999, eps=1e-8, fused=FUSE_OPTIM):
    """Adaptive moments (Kingma and Ba, arXiv:1412.6980).

    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = nn.optim.Adam([w], lr=0.1)
    >>> with Tensor.train():
    ...     _ = (w * w).sum().backward()
    ...     optimizer.step()
    >>> round(w.item(), 3)
    0.9
    """
    return LAMB(params, lr, b1, b2, eps, 0.0, adam=True, fused=fused)


class LAMB(Optimizer):
    """Layer-wise adaptive moments (You et al., arXiv:1904.00962); with `adam` no layer-wise rate.

    >>> len(nn.optim.LAMB(nn.state.get_parameters(nn.Linear(2, 2)), lr=0.1).params)
    2
    """

    def __init__(
        self, params: list[Tensor], lr=0.001, b1=0.9, b2=0.999, eps=1e-6, weight_decay=0.0, adam=False,
        fused=FUSE_OPTIM,
    ):  # fmt: skip
        super().__init__(params, lr, fused)
        self.b1, self.b2, self.eps, self.wd, self.adam = b1, b2, eps, weight_decay, adam
        self.b1_t, self.b2_t = (
            Tensor.ones(
                1, dtype=dtypes.float32, device=self.device, requires_grad=False
            ).contiguous()
            for _ in range(2)
        )
        self.m, self.v = self._new_state(), self._new_state()

    def _step(self, params: list[Tensor], grads: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        self.b1_t *= self.b1
        self.b2_t *= self.b2
        deltas = []
        for i, (param, grad) in enumerate(zip(params, grads)):
            m, v = self.m[i], self.v[i]
            g = _beside(grad, m)
            m.assign((self.b1 * m + (1.0 - self.b1) * g).cast(m.dtype))
            v.assign((self.b2 * v + (1.0 - self.b2) * (g * g)).cast(v.dtype))
            mean = m / (1.0 - _beside(self.b1_t, m))
            spread = (v / (1.0 - _beside(self.b2_t, v))).sqrt()
            p = param.detach()
            up = _beside(mean / (spread + self.eps), p)
            if self.wd:
                up = up + self.wd * p
            if not self.adam:
                size, length = p.square().sum().sqrt(), up.square().sum().sqrt()
                up = up * ((size > 0) & (length > 0)).where(size / length, 1.0)
            deltas.append(self._rate(p) * up)
        return deltas, [self.b1_t, self.b2_t, *self.m, *self.v]
