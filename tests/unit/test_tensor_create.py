"""Construction, realization, assignment, random numbers."""

import copy
import math
import pathlib
import pickle

import numpy as np
import pytest

from tinygrad import Device, Tensor, TinyJit, Variable, dtypes


def test_data_kinds(tmp_path):
    assert Tensor([[1, 2], [3, 4]]).dtype is dtypes.default_int
    assert Tensor([1, 2.5, True]).dtype is dtypes.default_float
    assert Tensor([2**31]).dtype is dtypes.int64
    assert Tensor([]).shape == (0,) and Tensor(None).shape == (0,)
    assert Tensor(b"ab").tolist() == [97, 98]
    assert Tensor(np.float64(2.0)).dtype is dtypes.float64
    path = tmp_path / "data.bin"
    path.write_bytes(b"xyz")
    assert Tensor(pathlib.Path(path)).tolist() == [120, 121, 122]


@pytest.mark.parametrize("data", [[[1], [1, 2]], [[1], 2], [[], [1]]])
def test_ragged_lists(data):
    with pytest.raises(ValueError, match="inhomogeneous"):
        Tensor(data)


def test_wrong_data():
    with pytest.raises(TypeError):
        Tensor(["a"])
    with pytest.raises(TypeError, match="complex"):
        Tensor(np.array([1j]))
    with pytest.raises(ValueError):
        Tensor.zeros(2, -1)


def test_values_wrap_and_round():
    np.testing.assert_array_equal(Tensor([-1, 256], dtype=dtypes.uint8).numpy(), [255, 0])
    np.testing.assert_array_equal(Tensor([-1.7, 2.9], dtype=dtypes.int32).numpy(), [-1, 2])
    assert Tensor([65520.0], dtype=dtypes.half).numpy()[0] == math.inf


def test_ranges():
    assert Tensor.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert Tensor.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert Tensor.arange(0).shape == (0,)
    np.testing.assert_allclose(Tensor.arange(0, 1, 0.25).numpy(), np.arange(0, 1, 0.25))
    np.testing.assert_allclose(Tensor.linspace(0, 1, 5).numpy(), np.linspace(0, 1, 5))
    np.testing.assert_array_equal(Tensor.eye(2, 3).numpy(), np.eye(2, 3))
    with pytest.raises(ValueError, match="out of range"):
        Tensor.arange(300, dtype=dtypes.uint8)


def test_reading():
    assert Tensor(3).item() == 3 and Tensor([[2.5]]).item() == 2.5
    assert Tensor([[1, 2]]).tolist() == [[1, 2]]
    assert Tensor([[1, 2]]).data().shape == (1, 2)
    assert Tensor.ones(2, 0, 3).tolist() == [[], []]
    with pytest.raises(AssertionError, match="exactly one"):
        Tensor([1, 2]).item()


def test_assign_keeps_the_buffer():
    t = Tensor([1.0, 2.0]).realize()
    before = t.uop.base.buffer
    t.assign(t * 3).realize()
    assert t.tolist() == [3.0, 6.0] and t.uop.base.buffer is before
    t += 1
    assert t.tolist() == [4.0, 7.0]
    with pytest.raises(AssertionError, match="dtype"):
        t.assign(Tensor([1, 2]))


def test_assign_to_a_constant_gives_each_element_its_own_memory():
    t = Tensor.zeros(2)
    t.assign(Tensor([1.0, 2.0]))
    assert t.tolist() == [1.0, 2.0]


def test_copies_do_not_share_memory():
    t = Tensor([1.0, 2.0]).realize()
    for twin in (t.clone(), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        twin.assign(twin + 1).realize()
        assert t.tolist() == [1.0, 2.0] and twin.tolist() == [2.0, 3.0]


def test_realize_moves_other_tensors():
    a = Tensor([1.0, 2.0]) + 1
    b = a * 2
    a.realize()
    assert a.uop.base in b.uop.toposort()
    assert b.tolist() == [4.0, 6.0]


def test_threefry_reference():
    # Random123's known answers for zero key and counter
    key = Tensor([0, 0], dtype=dtypes.uint32)
    zero = Tensor([0], dtype=dtypes.uint32)
    words = Tensor._threefry_random_bits(key, zero, zero).tolist()
    assert words == [0x6B200159, 0x99BA4EFE]


def test_random_numbers_repeat_by_seed():
    Tensor.manual_seed(5)
    first, second = Tensor.rand(3).tolist(), Tensor.rand(3).tolist()
    Tensor.manual_seed(5)
    assert Tensor.rand(3).tolist() == first != second
    x = Tensor.rand(1000).numpy()
    assert 0 <= x.min() and x.max() < 1 and abs(x.mean() - 0.5) < 0.05
    whole = Tensor.randint(1000, low=-2, high=3).numpy()
    assert set(whole.tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(Tensor.randperm(20).tolist()) == list(range(20))
    with pytest.raises(TypeError):
        Tensor.randint(3, low=0.5)


def test_random_numbers_change_under_capture():
    @TinyJit
    def draw():
        return Tensor.rand(4).realize()

    seen = {tuple(draw().tolist()) for _ in range(5)}
    assert len(seen) == 5


def test_symbolic_sizes():
    n = Variable("n", 1, 8)
    x = Tensor.arange(8).float().contiguous().realize()
    for value in (2, 5):
        part = x[: n.bind(value)]
        assert part.sum().item() == sum(range(value))
        assert part.mean().item() == sum(range(value)) / value


def test_devices():
    t = Tensor([1, 2, 3, 4])
    pair = (f"{Device.DEFAULT}:0", f"{Device.DEFAULT}:1")
    split = t.shard(pair, axis=0)
    assert split.device == tuple(Device.canonicalize(d) for d in pair)
    assert (split * 2).tolist() == [2, 4, 6, 8]
    with pytest.raises(RuntimeError, match="multiple"):
        Tensor([1, 2, 3]).shard(pair, axis=0)


def test_arange_of_symbolic_length():
    from tinygrad import Variable

    length = Variable("length", 1, 100)
    for n in (1, 2, 7, 50):
        assert Tensor.arange(length.bind(n)).sum().item() == n * (n - 1) // 2
        assert Tensor.arange(length.bind(n) + 1)[:2].tolist() == [0, 1]


def test_arrays_asked_to_be_bfloat16_stay_float32():
    array = np.array([1.2345678, -3.1415926], dtype=np.float32)
    kept = Tensor(array, dtype=dtypes.bfloat16)
    assert kept.dtype is dtypes.float32
    np.testing.assert_array_equal(kept.numpy(), array)
    assert Tensor(array).cast(dtypes.bfloat16).dtype is dtypes.bfloat16
    assert Tensor([1.0, 2.0], dtype=dtypes.bfloat16).dtype is dtypes.bfloat16
