"""Memory shared with PyTorch and JAX, and values taken from them."""

import gc

import numpy as np
import pytest
import torch

from tinygrad import Tensor, dtypes

TYPES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 half float double bfloat16 "
    "fp8e4m3 fp8e5m2"
).split()


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_through_pytorch_and_back(dtype):
    t = Tensor([[1, 0, 2]], dtype=dtype).realize()
    shared = torch.from_dlpack(t)
    assert shared.float().tolist() == [[1, 0, 1 if dtype == "bool" else 2]]
    for back in (Tensor(shared), Tensor.from_dlpack(shared)):
        assert back.dtype is t.dtype and back.tolist() == t.tolist()


def test_memory_shared_with_pytorch():
    t = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    shared = torch.from_dlpack(t)
    shared[0, 0] = 9
    t.assign(t * 2).realize()
    assert t.tolist() == shared.tolist() == [[18.0, 4.0], [6.0, 8.0]]
    del t
    gc.collect()
    others = [Tensor([[7.0] * 2] * 2).realize() for _ in range(4)]
    assert shared.tolist() == [[18.0, 4.0], [6.0, 8.0]] and len(others) == 4
    source = torch.arange(4.0)
    mine = Tensor.from_dlpack(source)
    mine[1] = 7
    source[0] = 5
    assert mine.tolist() == source.tolist() == [5.0, 7.0, 2.0, 3.0]
    del source
    gc.collect()
    assert mine.tolist() == [5.0, 7.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(6).reshape(2, 3).T,
        lambda: torch.arange(6)[::2],
        lambda: torch.ones(3).expand(2, 3),
        lambda: torch.zeros(0, 3),
        lambda: torch.tensor(5),
        lambda: torch.tensor(2.5).bfloat16(),
        lambda: torch.randn(3, 4, 5).permute(2, 0, 1),
    ],
)
def test_values_of_any_layout(make):
    x = make()
    for t in (Tensor(x), Tensor.from_dlpack(x)):
        assert t.shape == tuple(x.shape) and t.tolist() == x.tolist()


def test_the_values_are_those_at_the_call():
    x = torch.tensor([1.0, 2.0])
    t = Tensor(x)
    x[0] = 9
    assert t.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: torch.tensor([1j]), TypeError),
        (lambda: torch.ones(2, requires_grad=True), BufferError),
        (lambda: torch.tensor([1, 2]).to_sparse(), BufferError),
    ],
)
def test_what_pytorch_does_not_give(make, error):
    with pytest.raises(error):
        Tensor(make())


def test_pytorch_reads_tensors_as_arrays():
    t = Tensor([[1.0, 2.0]]).realize()
    assert torch.tensor(np.array(t)).tolist() == [[1.0, 2.0]]
    assert torch.as_tensor(np.array(t.T)).tolist() == [[1.0], [2.0]]


def test_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    x = jnp.arange(6.0).reshape(2, 3)
    assert Tensor(x).tolist() == Tensor.from_dlpack(x).tolist() == x.tolist()
    assert Tensor(jnp.ones(2, dtype=jnp.bfloat16)).dtype is dtypes.bfloat16
    t = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    shared = jax.dlpack.from_dlpack(t)
    t.assign(t * 2).realize()
    assert np.array(shared).tolist() == t.tolist()
    assert jnp.asarray(t).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    narrow = Tensor([1.5], dtype="bfloat16").realize()
    assert jax.dlpack.from_dlpack(narrow).dtype == jnp.bfloat16
