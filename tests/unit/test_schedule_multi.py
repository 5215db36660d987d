"""Tensors on several devices against the same tensors on one."""

import numpy as np
import pytest

from tinygrad import Tensor
from tinygrad.helpers import Context
from tinygrad.uop.ops import Ops, UOp

DEVICES = ("CPU:1", "CPU:2")
FOUR = ("CPU:1", "CPU:2", "CPU:3", "CPU:4")


def numbers(*shape) -> np.ndarray:
    return np.random.default_rng(7).integers(-9, 9, shape).astype(np.int32)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(
    "function",
    [
        lambda t: t + 1,
        lambda t: t.sum(0),
        lambda t: t.sum(1),
        lambda t: t.max(),
        lambda t: t.permute(1, 0) * 2,
        lambda t: t.reshape(2, 2, 8) + 3,
        lambda t: (t + t.sum(0, keepdim=True)).sum(),
    ],
)
def test_sharding_changes_no_value(axis, function):
    data = numbers(4, 8)
    sharded = function(Tensor(data).shard(DEVICES, axis))
    np.testing.assert_array_equal(sharded.numpy(), function(Tensor(data)).numpy())


@pytest.mark.parametrize("axes", [(0, 0), (0, 1), (1, 0), (1, 1), (None, 0), (1, None)])
def test_operands_of_different_axes_are_resharded(axes):
    a, b = numbers(4, 8), numbers(8, 4)
    product = Tensor(a).shard(DEVICES, axes[0]) @ Tensor(b).shard(DEVICES, axes[1])
    np.testing.assert_array_equal(product.numpy(), a @ b)


@pytest.mark.parametrize("ring", [0, 2])
@pytest.mark.parametrize("width", [1, 3, 10])
def test_allreduce(ring, width):
    data = numbers(4, width)
    with Context(RING=ring):
        sharded = Tensor(data).shard(FOUR, 0).realize()
        total = Tensor(UOp.allreduce(sharded.uop, Ops.ADD, sharded.device)).numpy()
    np.testing.assert_array_equal(total, np.tile(data.sum(0), (4, 1)))


def test_each_device_gets_only_its_part():
    t = Tensor(numbers(4, 6)).realize()
    copies = [i for i in t.shard(DEVICES, 0).schedule() if i.ast.op is Ops.COPY]
    assert [c.bufs[1].size for c in copies] == [12, 12]


def test_kernels_are_the_same_on_all_devices():
    t = Tensor(numbers(8, 6)).shard(FOUR, 0).realize()
    kernels = [i.ast for i in (t * 3).schedule() if i.ast.op is Ops.SINK]
    assert len(kernels) == 4 and len(set(kernels)) == 1


def test_shrinking_to_a_shard_and_between_shards():
    data = numbers(8, 6)
    t = Tensor(data).shard(FOUR, 0).realize()
    np.testing.assert_array_equal(t.shrink(((2, 4), None)).numpy(), data[2:4])
    with pytest.raises(AssertionError, match="shard boundaries"):
        t.shrink(((1, 3), (0, 6))).schedule()


def test_assigning_to_shards():
    data = numbers(4, 4)
    t = Tensor(data).shard(DEVICES, 0).realize()
    t.assign(t + Tensor(data).shard(DEVICES, 0)).realize()
    np.testing.assert_array_equal(t.numpy(), data * 2)
