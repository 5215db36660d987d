"""Layers with the weights of PyTorch's: outputs, gradients of inputs and parameters, running statistics."""

import numpy as np
import pytest
import torch

from tinygrad import Tensor, nn
from tinygrad.nn.state import get_state_dict

N = torch.nn


class LayerNorm2d(N.LayerNorm):
    """Over the channels of images."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class TwoSteps:
    """Two steps of a recurrent cell, with the cell's parameters as its own."""

    def __init__(self, cell):
        self.cell = cell

    def __call__(self, x):
        h, c = self.cell(x)
        h, c = self.cell(x * 2, (h, c))
        return h + c


class TheirTwoSteps(N.Module):
    """The same for PyTorch."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    forward = TwoSteps.__call__


def cases():
    """Name, ours, theirs, shape of the input, training."""
    for bias in (True, False):
        yield f"linear {bias=}", nn.Linear(5, 3, bias), N.Linear(5, 3, bias), (2, 4, 5), False
        cells = nn.LSTMCell(4, 3, bias), N.LSTMCell(4, 3, bias)
        yield f"lstm {bias=}", TwoSteps(cells[0]), TheirTwoSteps(cells[1]), (2, 4), False
    norms = {(6, 4): N.BatchNorm1d, (3, 4, 5): N.BatchNorm1d, (3, 4, 5, 2): N.BatchNorm2d, (2, 4, 3, 2, 2): N.BatchNorm3d}  # fmt: skip
    for i, (shape, kind) in enumerate(norms.items()):
        for training in (True, False):
            for affine, track, momentum in (
                (True, True, 0.1),
                (False, True, 0.3),
                (True, False, 0.1),
            ):
                ours = nn.BatchNorm(4, 1e-3, affine, track, momentum)
                theirs = kind(4, 1e-3, momentum, affine, track)
                yield (
                    f"batch norm {i} {training=} {affine=} {track=}",
                    ours,
                    theirs,
                    shape,
                    training,
                )
    for size, stride, padding, dilation, groups, bias in (
        (3, 1, 0, 1, 1, True), (3, 2, 1, 1, 2, False), ((3, 2), (2, 1), (1, 0), (1, 2), 4, True), (1, 1, 0, 1, 1, True),
        (3, 1, "same", 1, 1, True), (4, 1, "same", 1, 1, True), (3, 1, "same", 2, 1, True), (3, 2, "valid", 1, 1, True),
    ):  # fmt: skip
        given = (4, 8, size, stride, padding, dilation, groups, bias)
        yield f"conv 2d {given}", nn.Conv2d(*given), N.Conv2d(*given), (2, 4, 9, 8), False
        if isinstance(size, int):
            yield f"conv 1d {given}", nn.Conv1d(*given), N.Conv1d(*given), (2, 4, 9), False
    yield (
        "conv 3d",
        nn.Conv2d(2, 4, (3, 3, 3), padding=1),
        N.Conv3d(2, 4, 3, padding=1),
        (1, 2, 4, 5, 4),
        False,
    )
    for size, stride, padding, more, dilation, groups, bias in (
        (3, 1, 0, 0, 1, 1, True), (3, 2, 1, 1, 1, 2, False), ((3, 2), (2, 3), (1, 0), (1, 2), (1, 2), 4, True),
        (3, 2, 1, 0, 2, 1, True),
    ):  # fmt: skip
        ours = nn.ConvTranspose2d(4, 8, size, stride, padding, more, dilation, groups, bias)
        theirs = N.ConvTranspose2d(4, 8, size, stride, padding, more, groups, bias, dilation)
        yield f"transposed 2d {size} {stride} {more}", ours, theirs, (2, 4, 5, 6), False
        if isinstance(size, int):
            ours = nn.ConvTranspose1d(4, 8, size, stride, padding, more, dilation, groups, bias)
            theirs = N.ConvTranspose1d(4, 8, size, stride, padding, more, groups, bias, dilation)
            yield f"transposed 1d {size} {stride} {more}", ours, theirs, (2, 4, 5), False
    for affine in (True, False):
        for groups in (1, 2, 4):
            ours, theirs = (
                nn.GroupNorm(groups, 4, 1e-3, affine),
                N.GroupNorm(groups, 4, 1e-3, affine),
            )
            yield f"group norm {groups} {affine=}", ours, theirs, (2, 4, 3, 5), False
        ours, theirs = nn.InstanceNorm(4, 1e-3, affine), N.InstanceNorm2d(4, 1e-3, affine=affine)
        yield f"instance norm {affine=}", ours, theirs, (2, 4, 3, 5), False
        for shape in (6, (5, 6)):
            ours, theirs = nn.LayerNorm(shape, 1e-3, affine), N.LayerNorm(shape, 1e-3, affine)
            yield f"layer norm {shape} {affine=}", ours, theirs, (2, 4, 5, 6), False
        yield (
            f"rms norm {affine=}",
            nn.RMSNorm(6, 1e-3, affine),
            N.RMSNorm(6, 1e-3, affine),
            (2, 4, 6),
            False,
        )
    yield "layer norm 2d", nn.LayerNorm2d(4, 1e-3), LayerNorm2d(4, 1e-3), (2, 4, 3, 5), False


CASES = {case[0]: case[1:] for case in cases()}


def close(name: str, got: Tensor, want: torch.Tensor) -> None:
    assert got.shape == tuple(want.shape), name
    np.testing.assert_allclose(
        got.numpy(), want.detach().numpy(), rtol=1e-4, atol=2e-5, err_msg=name
    )


def share_weights(ours, theirs) -> dict[str, Tensor]:
    """Gives ours the weights of theirs, drawn at random; returns ours by name."""
    mine = get_state_dict(ours)
    assert mine.keys() == theirs.state_dict().keys() or not theirs.state_dict().keys() - mine.keys()
    for name, value in theirs.named_parameters():
        torch.nn.init.normal_(value, 0.5, 0.5)
        mine[name].requires_grad = True
        mine[name].assign(Tensor(value.detach().numpy().copy())).realize()
    return mine


@pytest.mark.parametrize("name", CASES)
def test_layer(name):
    ours, theirs, shape, training = CASES[name]
    torch.manual_seed(0)
    mine = share_weights(ours, theirs)
    rng = np.random.default_rng(0)
    x = rng.normal(1, 2, shape).astype(np.float32)
    own, other = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    theirs.train(training)
    with Tensor.train(training):
        for _ in range(2 if training else 1):
            got, want = ours(own), theirs(other)
        weight = rng.normal(size=tuple(want.shape)).astype(np.float32)
        (got * Tensor(weight)).sum().backward()
        (want * torch.tensor(weight)).sum().backward()
        # a tensor that was read is a leaf: its values come after the gradients
        close("output", got, want)
        close("gradient of the input", own.grad, other.grad)
        for part, value in theirs.named_parameters():
            close(f"gradient of {part}", mine[part].grad, value.grad)
        for part, value in theirs.named_buffers():
            close(part, mine[part], value)


def test_embedding():
    ours, theirs = nn.Embedding(7, 3), N.Embedding(7, 3)
    mine = share_weights(ours, theirs)
    index = np.array([[1, 1, 6], [0, 1, 5]])
    got, want = ours(Tensor(index)), theirs(torch.tensor(index))
    got.square().sum().backward()
    want.square().sum().backward()
    close("output", got, want)
    close("gradient", mine["weight"].grad, theirs.weight.grad)
