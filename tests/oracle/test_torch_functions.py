"""Functions of one argument against PyTorch, on edge values and on random ones."""

import numpy as np
import pytest
import torch
from tests.ops.oracle import check_close
from tests.ops.values import draw, edges, rng, tensor

from tinygrad import Tensor, dtypes

F = torch.nn.functional


def _sign(x):
    # of NaN PyTorch says 0, NumPy (and we) NaN
    return torch.where(x.isnan(), x, torch.sign(x))


def _hardswish(x):
    # of -inf PyTorch says 0, the product is NaN
    return torch.where(x == -torch.inf, torch.nan, F.hardswish(x))


# our method -> PyTorch's function of a float64 tensor, bound in ULPs of float32, absolute bound
FUNCTIONS = {
    "relu": (F.relu, 0, 0.0),
    "abs": (torch.abs, 0, 0.0),
    "sign": (_sign, 0, 0.0),
    "round": (torch.round, 0, 0.0),
    "floor": (torch.floor, 0, 0.0),
    "ceil": (torch.ceil, 0, 0.0),
    "trunc": (torch.trunc, 0, 0.0),
    "isnan": (torch.isnan, 0, 0.0),
    "isinf": (torch.isinf, 0, 0.0),
    "isfinite": (torch.isfinite, 0, 0.0),
    "square": (torch.square, 1, 0.0),
    "exp": (torch.exp, 2, 0.0),
    "exp2": (torch.exp2, 2, 0.0),
    "log": (torch.log, 3, 0.0),
    "log2": (torch.log2, 3, 0.0),
    "sin": (torch.sin, 3, 1e-9),
    "cos": (torch.cos, 3, 1e-9),
    "tan": (torch.tan, 6, 1e-9),
    "asin": (torch.asin, 4, 0.0),
    "acos": (torch.acos, 4, 0.0),
    "atan": (torch.atan, 4, 0.0),
    "sinh": (torch.sinh, 5, 0.0),
    "cosh": (torch.cosh, 5, 0.0),
    "tanh": (torch.tanh, 4, 0.0),
    "asinh": (torch.asinh, 6, 0.0),
    "acosh": (torch.acosh, 5, 0.0),
    "atanh": (torch.atanh, 5, 0.0),
    "erf": (torch.erf, 5, 0.0),
    "sqrt": (torch.sqrt, 1, 0.0),
    "rsqrt": (torch.rsqrt, 2, 0.0),
    "reciprocal": (torch.reciprocal, 1, 0.0),
    "sigmoid": (torch.sigmoid, 4, 2e-38),
    "logsigmoid": (F.logsigmoid, 5, 0.0),
    "softplus": (lambda x: F.softplus(x, threshold=700), 5, 0.0),
    "relu6": (F.relu6, 0, 0.0),
    "hardtanh": (F.hardtanh, 0, 0.0),
    "hardsigmoid": (F.hardsigmoid, 2, 1e-7),
    "hardswish": (_hardswish, 4, 2e-7),
    "leaky_relu": (F.leaky_relu, 1, 0.0),
    "elu": (F.elu, 3, 0.0),
    "celu": (F.celu, 3, 0.0),
    "selu": (lambda x: 1.0507 * F.elu(x, 1.67326), 6, 0.0),
    "silu": (F.silu, 5, 1e-36),
    "mish": (F.mish, 8, 0.0),
    "softsign": (F.softsign, 2, 0.0),
    # its argument is rounded before the exponential
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), 8, 2e-7),
}

# of (x, axis) and of pairs
ALONG = {
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
    "logsumexp": torch.logsumexp,
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "logcumsumexp": torch.logcumsumexp,
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": torch.prod,
    "var": torch.var,
    "std": torch.std,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
}
PAIRS = {
    "remainder": (Tensor.__mod__, torch.remainder),
    "floor_divide": (Tensor.__floordiv__, torch.floor_divide),
    "pow": (Tensor.pow, torch.pow),
    "maximum": (Tensor.maximum, torch.maximum),
    "minimum": (Tensor.minimum, torch.minimum),
    "copysign": (Tensor.copysign, torch.copysign),
    "logaddexp": (Tensor.logaddexp, torch.logaddexp),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("inputs", ["edges", "random"])
def test_function(name, inputs):
    reference, ulps, absolute = FUNCTIONS[name]
    values = (
        edges(dtypes.float32)
        if inputs == "edges"
        else draw(rng("torch", name), (3, 40), dtypes.float32)
    )
    want = reference(torch.from_numpy(values).double()).numpy()
    got = getattr(Tensor, name)(tensor(values, dtypes.float32))
    check_close(got, want, got.dtype, ulps, name, [values], absolute)


def test_dtypes_translate_both_ways():
    from tinygrad.dtype import _from_torch_dtype, _to_torch_dtype

    for dtype in dtypes.fields().values():
        assert _from_torch_dtype(_to_torch_dtype(dtype)) is dtype


def test_arrays_come_back_from_torch():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = torch.from_numpy(values)
    assert Tensor(given.numpy()).tolist() == given.tolist()


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_function_along_an_axis(name, axis):
    values = draw(rng("along", name), (3, 4, 5), dtypes.float32)
    want = ALONG[name](torch.from_numpy(values).double(), axis).numpy()
    got = getattr(tensor(values, dtypes.float32), name)(axis)
    if got.dtype is dtypes.int32:
        np.testing.assert_array_equal(got.numpy(), want)
    else:
        check_close(got, want, dtypes.float32, 30, name, None, 5e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_function_of_pairs(name):
    ours, theirs = PAIRS[name]
    generator = rng("pair", name)
    left, right = (draw(generator, (200,), dtypes.float32, -6, 6) for _ in range(2))
    left = np.abs(left) if name == "pow" else left
    want = theirs(torch.from_numpy(left).double(), torch.from_numpy(right).double()).numpy()
    got = ours(tensor(left, dtypes.float32), tensor(right, dtypes.float32))
    check_close(got, want, dtypes.float32, 30, name, [left, right], 1e-6)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_with_nan(descending):
    values = edges(dtypes.float32)
    want, places = torch.from_numpy(values).sort(descending=descending, stable=True)
    got, order = tensor(values, dtypes.float32).sort(descending=descending)
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    np.testing.assert_array_equal(order.numpy(), places.numpy())


@pytest.mark.parametrize("source", [*dtypes.fields().values()], ids=str)
def test_conversions(source):
    """Values that every dtype holds, and what rounds: PyTorch converts alike."""
    from tinygrad.dtype import _to_torch_dtype

    values = [0, 1, 2, 3, 100, 127]
    given = Tensor(values).cast(source).contiguous().realize()
    peer = torch.tensor(values).to(_to_torch_dtype(source))
    for target in dict.fromkeys(dtypes.fields().values()):
        want = peer.to(_to_torch_dtype(target)).to(torch.float64)
        assert given.cast(target).cast(dtypes.float64).tolist() == want.tolist(), target
