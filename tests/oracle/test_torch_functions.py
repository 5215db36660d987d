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
