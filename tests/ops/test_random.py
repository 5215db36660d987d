"""Random tensors: the generator's published values, ranges, repetition, distributions, errors.

The numbers are those that users of the ecosystem get today for a seed; the first ones are pinned.
"""

import math

import numpy as np
import pytest

from tinygrad import Tensor, dtypes

from .values import ALL_FLOATS, INTS, SHAPES, dtype_id, float_limits

SEED = 42


@pytest.fixture(autouse=True)
def seeded():
    Tensor.manual_seed(SEED)


# first numbers after manual_seed(42), as the published release draws them
PINNED = {
    "rand": (lambda: Tensor.rand(3), [0.36450243, 0.850526452, 0.910668492]),
    "rand half": (
        lambda: Tensor.rand(3, dtype=dtypes.half),
        [0.262695312, 0.0791015625, 0.368164062],
    ),
    "rand double": (lambda: Tensor.rand(2, dtype=dtypes.double), [0.85052648, 0.88112863]),
    "randn": (lambda: Tensor.randn(3), [1.67703342, -1.8352524, 0.343402326]),
    "randint": (lambda: Tensor.randint(6, low=-5, high=17), [16, 7, -1, 11, 14, 14]),
    "uniform": (
        lambda: Tensor.uniform(3, low=-2, high=3.5),
        [0.00476336479, 2.67789555, 3.00867677],
    ),
    "normal": (lambda: Tensor.normal(3, mean=3, std=0.1), [3.16770339, 2.81647468, 3.03434014]),
    "scaled_uniform": (lambda: Tensor.scaled_uniform(3), [-0.156459108, 0.404753089, 0.474199116]),
    "glorot_uniform": (lambda: Tensor.glorot_uniform(3, 2)[0], [1.08894527, 0.196996853]),
    "kaiming_uniform": (lambda: Tensor.kaiming_uniform(3, 2)[0], [1.72168756, 0.311463803]),
    "kaiming_normal": (lambda: Tensor.kaiming_normal(3, 2)[0], [0.977807641, 0.467765033]),
    "randperm": (lambda: Tensor.randperm(10), [9, 4, 1, 0, 8, 7, 6, 5, 2, 3]),
    "multinomial": (
        lambda: Tensor([1.0, 2, 3, 4]).multinomial(8, replacement=True),
        [1, 3, 1, 3, 3, 3, 3, 3],
    ),
    "second call": (lambda: (Tensor.rand(3), Tensor.rand(2))[1], [0.276746154, 0.34949255]),
}


@pytest.mark.parametrize("name", PINNED)
def test_numbers_of_a_seed(name):
    draw, want = PINNED[name]
    np.testing.assert_allclose(draw().numpy().astype(np.float64), want, rtol=2e-6, atol=2e-7)


def test_dropout_keeps_the_same_elements():
    with Tensor.train():
        kept = Tensor.ones(12).dropout(0.5).tolist()
    assert kept == [0.0, 2.0, 2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.0]
    x = Tensor([1.0, 2.0])
    assert x.dropout(0.5) is x
    with Tensor.train():
        assert x.dropout(0.0) is x and x.dropout(1.0).tolist() == [0.0, 0.0]
        for wrong in (-0.1, 1.1):
            with pytest.raises(ValueError, match="probability"):
                x.dropout(wrong)
        share = (Tensor.ones(10000).dropout(0.25) != 0).float().mean().item()
    assert abs(share - 0.75) < 0.02


def test_seeds():
    first = Tensor.rand(4).tolist()
    assert Tensor.rand(4).tolist() != first
    Tensor.manual_seed(SEED)
    assert Tensor.rand(4).tolist() == first
    Tensor.manual_seed(SEED + 2**32)  # the low word counts
    assert Tensor.rand(4).tolist() == first
    for wrong in (1.5, "1", None):
        with pytest.raises(TypeError, match="whole number"):
            Tensor.manual_seed(wrong)


def test_one_call_draws_what_several_do_not_repeat():
    seen = np.concatenate([Tensor.rand(n).numpy() for n in (1, 2, 3, 64, 129)])
    assert len(set(seen.tolist())) > 0.99 * len(seen)


def test_devices_have_streams_of_their_own():
    one, two = Tensor.rand(4).tolist(), Tensor.rand(4, device="CPU:1").tolist()
    assert one != two
    Tensor.manual_seed(SEED)
    # the interpreter draws the same numbers: the order of first use counts, not the device
    assert Tensor.rand(4, device="PYTHON").tolist() == one


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape):
    for make in (
        Tensor.rand,
        Tensor.randn,
        Tensor.randint,
        Tensor.uniform,
        Tensor.normal,
        Tensor.scaled_uniform,
    ):
        assert make(*shape).shape == make(shape).shape == shape
        assert make(*shape).numpy().shape == shape
    if shape:
        for make in (Tensor.glorot_uniform, Tensor.kaiming_uniform, Tensor.kaiming_normal):
            assert make(*shape).numpy().shape == shape
    like = Tensor.zeros(*shape, dtype=dtypes.half)
    assert like.rand_like().shape == like.randn_like().shape == shape
    assert (
        like.rand_like().dtype is dtypes.half
        and like.randn_like(dtype="float32").dtype is dtypes.float32
    )


@pytest.mark.parametrize("dtype", ALL_FLOATS, ids=dtype_id)
def test_floats_are_in_range(dtype):
    x = Tensor.rand(2000, dtype=dtype)
    values = x.numpy().astype(np.float64)
    assert x.dtype is dtype and values.min() >= 0 and values.max() < 1
    _, mantissa_bits = dtypes.finfo(dtype)
    # every value of the mantissa is as likely, so the mean lies half a step below one half
    assert abs(values.mean() - (0.5 - 2.0 ** -(mantissa_bits + 1))) < 0.03
    y = Tensor.randn(2000, dtype=dtype).numpy().astype(np.float64)
    assert (
        abs(y.mean()) < 0.1 and abs(y.std() - 1) < 0.1 and np.abs(y).max() < float_limits(dtype)[0]
    )


@pytest.mark.parametrize("dtype", INTS, ids=dtype_id)
def test_integers_are_in_range(dtype):
    low = -3 if dtypes.min(dtype) < 0 else 2
    x = Tensor.randint(600, low=low, high=low + 6, dtype=dtype)
    counts = np.unique(x.numpy(), return_counts=True)
    assert x.dtype is dtype and counts[0].tolist() == list(range(low, low + 6))
    assert counts[1].min() > 60


def test_distributions():
    x = Tensor.randn(20000).numpy().astype(np.float64)
    assert abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.02 and abs((x**3).mean()) < 0.1
    assert abs((np.abs(x) < 1).mean() - 0.6827) < 0.012
    y = Tensor.normal(20000, mean=-3.0, std=0.5).numpy()
    assert abs(y.mean() + 3) < 0.02 and abs(y.std() - 0.5) < 0.02
    z = Tensor.uniform(20000, low=2.0, high=6.0).numpy()
    assert (
        z.min() >= 2 and z.max() <= 6 and abs(z.mean() - 4) < 0.05 and abs(z.var() - 16 / 12) < 0.05
    )
    w = Tensor([1.0, 0.0, 3.0]).multinomial(8000, replacement=True).numpy()
    assert set(w.tolist()) == {0, 2} and abs((w == 2).mean() - 0.75) < 0.02
    fan = Tensor.kaiming_uniform(50, 40).numpy()
    assert np.abs(fan).max() <= math.sqrt(3) * math.sqrt(2 / (1 + 0.01**2)) / math.sqrt(40)
    assert (
        abs(Tensor.kaiming_normal(100, 50).numpy().std() - math.sqrt(2 / (1 + 0.01**2) / 50)) < 0.01
    )
    assert np.abs(Tensor.glorot_uniform(50, 40).numpy()).max() <= math.sqrt(6 / 90)
    assert np.abs(Tensor.scaled_uniform(50, 40).numpy()).max() <= 2000**-0.5


@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
def test_permutations(n):
    order = Tensor.randperm(n)
    assert order.dtype is dtypes.int32 and sorted(order.tolist()) == list(range(n))
    assert Tensor.randperm(n, dtype="int64").dtype is dtypes.int64


def test_rows_of_multinomial():
    got = Tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]).multinomial(4, replacement=True)
    assert got.tolist() == [[0] * 4, [2] * 4] and got.dtype is dtypes.int32
    assert Tensor([0, 0, 5]).multinomial().tolist() == [2]


def test_lazy_and_gradients():
    assert Tensor.rand(3, requires_grad=True).requires_grad is True
    assert Tensor.randn(3, requires_grad=True).requires_grad is True
    Tensor.manual_seed(SEED)
    lazy = Tensor.rand(4, contiguous=False)
    Tensor.manual_seed(SEED)
    assert Tensor.rand(4).tolist() == lazy.tolist()


def test_arguments_are_checked():
    for error, call in (
        (ValueError, lambda: Tensor.rand(-1)),
        (ValueError, lambda: Tensor.rand(1.5)),
        (ValueError, lambda: Tensor.rand(2, dtype=dtypes.int32)),
        (TypeError, lambda: Tensor.randint(2, low=0.5)),
        (TypeError, lambda: Tensor.randint(2, high=3.0)),
        (TypeError, lambda: Tensor.randint(2, dtype=dtypes.float32)),
        (AssertionError, lambda: Tensor([1.0, 2.0]).multinomial(2)),
        (AssertionError, lambda: Tensor([1.0, 2.0]).multinomial(0, replacement=True)),
        (AssertionError, lambda: Tensor.ones(1, 2, 3).multinomial(1, replacement=True)),
        (AssertionError, lambda: Tensor(1.0).multinomial()),
    ):
        with pytest.raises(error):
            call()
