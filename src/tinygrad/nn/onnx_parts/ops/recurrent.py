"""Recurrent layers: RNN, GRU and LSTM, in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


def _affine(x: Tensor, a: float, b: float) -> Tensor:
    return x * a + b


# lower-case name -> function of (x, alpha, beta), and the defaults of alpha and beta
_ACTIVATIONS: dict[str, tuple[Callable, float, float]] = {
    "sigmoid": (lambda x, a, b: x.sigmoid(), 0.0, 0.0),
    "tanh": (lambda x, a, b: x.tanh(), 0.0, 0.0),
    "relu": (lambda x, a, b: x.relu(), 0.0, 0.0),
    "affine": (_affine, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: x.leaky_relu(a), 0.01, 0.0),
    "thresholdedrelu": (lambda x, a, b: (x > a).where(x, 0), 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: (x * b).tanh() * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: (x * a + b).clip(0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: x.elu(a), 1.0, 0.0),
    "softsign": (lambda x, a, b: x / (1 + x.abs()), 0.0, 0.0),
    "softplus": (lambda x, a, b: x.softplus(), 0.0, 0.0),
}


def _activation(name: str, alpha: float | None, beta: float | None, clip: float | None) -> Callable:
    if name.lower() not in _ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r} of a recurrent layer")
    function, default_alpha, default_beta = _ACTIVATIONS[name.lower()]
    a = default_alpha if alpha is None else alpha
    b = default_beta if beta is None else beta
    if clip is None:
        return lambda x: function(x, a, b)
    return lambda x: function(x.clip(-clip, clip), a, b)


def _activations(names, default, alphas, betas, clip, directions: int) -> list[list[Callable]]:
    """The activations of each direction; alphas and betas belong to those that have such a number.

    What is clipped are the inputs of gates and candidates, not a cell that is shown, as in ONNX Runtime.
    """
    names = names or default * directions
    alphas, betas = list(alphas or []), list(betas or [])
    made: list[Callable] = []
    for name in names:
        takes_alpha = _ACTIVATIONS.get(name.lower(), (None, 0.0, 0.0))[1] != 0.0
        takes_beta = name.lower() in ("affine", "scaledtanh", "hardsigmoid")
        alpha = alphas.pop(0) if takes_alpha and alphas else None
        beta = betas.pop(0) if takes_beta and betas else None
        shows_cell = len(default) == 3 and len(made) % 3 == 2
        made.append(_activation(name, alpha, beta, None if shows_cell else clip))
    count = len(made) // directions
    return [made[i * count : (i + 1) * count] for i in range(directions)]


# up to this many steps, kernels of their own cost less than counting along
_FEW = 4


class Steps:
    """Walks along an axis; many steps count in a tensor, so that the same kernels serve them all."""

    def __init__(self, length: int, reverse: bool):
        self.order = list(range(length))[:: -1 if reverse else 1]
        self.way = -1 if reverse else 1
        self.place: Tensor | None = None

    def __iter__(self) -> Iterator[int]:
        if len(self.order) > _FEW:
            self.place = Tensor.full((1,), self.order[0], dtype=dtypes.int32).contiguous()
        for i in self.order:
            self.now: Tensor | int = i if self.place is None else self.place
            yield i
            if self.place is not None:
                self.place = (self.place + self.way).contiguous()

    def row(self, x: Tensor, axis: int = 0) -> Tensor:
        """The slice of x at the step, without the axis."""
        before = (slice(None),) * axis
        return (
            x[(*before, self.now)] if self.place is None else x[(*before, self.now)].squeeze(axis)
        )


def _run(x: Tensor, step: Callable, states: list[Tensor], lengths: Tensor | None, reverse: bool):
    """Steps through time; entries that are over keep their states and give zeros."""
    outputs: list[Any] = [None] * x.shape[0]
    steps = Steps(x.shape[0], reverse)
    for t in steps:
        after = [state.contiguous() for state in step(steps.row(x), states)]
        visible = after[0]
        if lengths is not None:
            alive = (lengths > steps.now).reshape(-1, 1)
            visible = alive.where(after[0], 0)
            after = [alive.where(new, old) for new, old in zip(after, states)]
        outputs[t], states = visible, after
    return outputs[0].stack(*outputs[1:]), states


def _layer(
    x, w, r, b, lengths, initial, gates: int, direction: str, layout: int, make_step, activations
):
    """Both directions of a layer: (all outputs, last states...)."""
    hidden, directions = r.shape[-1], w.shape[0]
    x = x.permute(1, 0, 2) if layout else x
    batch = x.shape[1]
    lasts: list[list[Tensor]] = []
    sequences = []
    for d in range(directions):
        reverse = direction == "reverse" or d == 1
        bias = Tensor.zeros(2 * gates * hidden, dtype=x.dtype) if b is None else b[d]
        step = make_step(d, bias[gates * hidden :], activations[d])
        # the inputs' share of all gates at once
        shares = (x.matmul(w[d].transpose()) + bias[: gates * hidden]).contiguous()
        states = []
        for state in initial:
            if state is None:
                states.append(Tensor.zeros(batch, hidden, dtype=x.dtype))
            else:
                states.append(state[:, d] if layout else state[d])
        outputs, states = _run(shares, step, states, lengths, reverse)
        sequences.append(outputs)
        lasts.append(states)
    y = sequences[0].stack(*sequences[1:], dim=1)
    y = y.permute(2, 0, 1, 3) if layout else y
    axis = 1 if layout else 0
    ends = [first.stack(*rest, dim=axis) for first, *rest in zip(*lasts)]
    return (y, *ends)


@operator("RNN")
def rnn(x, w, r, b=None, sequence_lens=None, initial_h=None, activation_alpha=None, activation_beta=None,
        activations=None, clip=None, direction="forward", hidden_size=None, layout=0,
        output_sequence=0):  # fmt: skip
    """h = f(x @ w + h @ r + b)."""
    functions = _activations(
        activations, ["Tanh"], activation_alpha, activation_beta, clip, w.shape[0]
    )

    def make_step(d, bias, chosen):
        recurrent = r[d].transpose()
        return lambda share, states: [chosen[0](share + states[0].matmul(recurrent) + bias)]

    return _layer(
        x, w, r, b, sequence_lens, [initial_h], 1, direction, layout, make_step, functions
    )


@operator("GRU")
def gru(x, w, r, b=None, sequence_lens=None, initial_h=None, activation_alpha=None, activation_beta=None,
        activations=None, clip=None, direction="forward", hidden_size=None, layout=0,
        linear_before_reset=0, output_sequence=0):  # fmt: skip
    """Gates in the order update, reset, hidden."""
    functions = _activations(
        activations, ["Sigmoid", "Tanh"], activation_alpha, activation_beta, clip, w.shape[0]
    )
    size = r.shape[-1]

    def make_step(d, bias, chosen):
        gate_rows, hidden_rows = r[d][: 2 * size].transpose(), r[d][2 * size :].transpose()
        squash, activate = chosen

        def step(share, states):
            (h,) = states
            both = squash(
                share[:, : 2 * size] + h.matmul(gate_rows) + bias[: 2 * size]
            ).contiguous()
            update, reset = both[:, :size], both[:, size:]
            if linear_before_reset:
                part = reset * (h.matmul(hidden_rows) + bias[2 * size :])
            else:
                part = (reset * h).matmul(hidden_rows) + bias[2 * size :]
            candidate = activate(share[:, 2 * size :] + part)
            return [(1 - update) * candidate + update * h]

        return step

    return _layer(
        x, w, r, b, sequence_lens, [initial_h], 3, direction, layout, make_step, functions
    )


@operator("LSTM")
def lstm(x, w, r, b=None, sequence_lens=None, initial_h=None, initial_c=None, p=None,
         activation_alpha=None, activation_beta=None, activations=None, clip=None, direction="forward",
         hidden_size=None, input_forget=0, layout=0, output_sequence=0):  # fmt: skip
    """Gates in the order input, output, forget, cell; `p` are the peepholes of the first three."""
    functions = _activations(
        activations,
        ["Sigmoid", "Tanh", "Tanh"],
        activation_alpha,
        activation_beta,
        clip,
        w.shape[0],
    )
    size = r.shape[-1]

    def make_step(d, bias, chosen):
        recurrent = r[d].transpose()
        squash, activate, show = chosen
        peepholes = [None] * 3 if p is None else [p[d][i * size : (i + 1) * size] for i in range(3)]

        def seen(gate, cell, peephole):
            return gate if peephole is None else gate + peephole * cell

        def step(share, states):
            h, cell = states
            gates = (share + h.matmul(recurrent) + bias).contiguous()
            i, o, f, c = (gates[:, k * size : (k + 1) * size] for k in range(4))
            enter = squash(seen(i, cell, peepholes[0]))
            forget = 1 - enter if input_forget else squash(seen(f, cell, peepholes[2]))
            new_cell = forget * cell + enter * activate(c)
            leave = squash(seen(o, new_cell, peepholes[1]))
            return [leave * show(new_cell), new_cell]

        return step

    return _layer(
        x,
        w,
        r,
        b,
        sequence_lens,
        [initial_h, initial_c],
        4,
        direction,
        layout,
        make_step,
        functions,
    )
