"""Methods that are other names, or one step, of those tested elsewhere."""

import numpy as np
import pytest

from tinygrad import Device, Tensor, dtypes

from .oracle import check_close, check_exact
from .rows import wide
from .values import draw, rng, tensor


def test_methods_behind_the_operators():
    t = tensor(np.array([1, -3, 100], np.int32), dtypes.int32)
    assert t.lshift(2).tolist() == (t << 2).tolist() and t.rshift(1).tolist() == (t >> 1).tolist()
    assert (
        t.lshift(1, reverse=True).tolist()[0] == 2 and t.rshift(64, reverse=True).tolist()[0] == 32
    )
    assert (
        t.pow(2).tolist() == (t**2).tolist() and t.pow(2, reverse=True).tolist() == (2**t).tolist()
    )


def test_images_are_a_storage_not_another_result():
    generator = rng("image")
    a, b = (
        draw(generator, (4, 8), dtypes.float32, -1, 1),
        draw(generator, (8, 4), dtypes.float32, -1, 1),
    )
    x, w = tensor(a, dtypes.float32), tensor(b, dtypes.float32)
    check_close(x.image_dot(w), a.astype(wide) @ b, dtypes.float32, 8, absolute=1e-6)
    picture, filters = Tensor(a).reshape(1, 2, 4, 4), Tensor(b).reshape(4, 2, 2, 2)
    got, want = picture.image_conv2d(filters), picture.conv2d(filters)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_hash_of_bytes():
    data = tensor(np.arange(200, dtype=np.uint8), dtypes.uint8)
    digest = data.hash()
    assert digest.dtype is dtypes.uint8 and digest.shape == (16,)
    assert digest.tolist() == data.hash().tolist() != (data + 1).hash().tolist()


def test_shrink_to_is_the_inverse_of_pad_to():
    values = draw(rng("shrink_to"), (3, 4), dtypes.float32)
    t = tensor(values, dtypes.float32)
    check_exact(t.shrink_to(2, 3), values[:2, :3], dtypes.float32)
    check_exact(t.shrink_to((None, 1)), values[:, :1], dtypes.float32)
    check_exact(t.pad_to(5, None).shrink_to(3, 4), values, dtypes.float32)
    with pytest.raises(ValueError):
        t.shrink_to(4, 4).realize()


def test_moving_in_place():
    t = tensor(np.array([1.0, 2.0], np.float32), dtypes.float32)
    device = Device.canonicalize(f"{Device.DEFAULT}:1")
    assert t.to_(device) is t and t.device == device and t.tolist() == [1.0, 2.0]


def test_training_is_a_mode():
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
        with Tensor.train(False):
            assert Tensor.training is False
        assert Tensor.training is True
    assert Tensor.training is False
