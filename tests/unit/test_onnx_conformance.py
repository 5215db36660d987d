"""Runs the conformance tests that the `onnx` package ships, where it is installed.

`ONNX_FILTER=resize pytest tests/unit/test_onnx_conformance.py` runs those with a word in their name.
"""

import os

import numpy as np
import pytest

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402

WORD = os.getenv("ONNX_FILTER", "")
# random results, derivatives of graphs
UNSUPPORTED = ("bernoulli", "training_dropout", "gradient")
# stored results that are wrong (a state of Adam, a norm of zeros, int8 that wraps), or that later versions
# of the standard changed and ONNX Runtime never gave (heads in groups, causal masks behind a cache,
# align_corners of fractional sizes)
WRONG = (
    "adam_multiple", "l2normalization_axis_0", "qlinearmatmul_2D_int8", "qlinearmatmul_3D_int8",
    "attention_3d_gqa", "attention_4d_gqa", "qk_matmul_bias_4d_mask_causal",
    "qk_matmul_bias_3d_mask_causal", "scales_linear_align_corners", "scales_cubic_align_corners",
)  # fmt: skip
# types of the package ml_dtypes
NARROW = (
    "bfloat16", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip


def cases():
    for kind in ("node", "simple", "pytorch-operator", "pytorch-converted"):
        for case in load_model_tests(kind=kind):
            if WORD in case.name and not any(part in case.name for part in (*UNSUPPORTED, *WRONG)):
                yield pytest.param(case, id=case.name)


def loaded(path: str, kind):
    """A stored value: an array, a list of arrays or None."""
    with open(path, "rb") as file:
        data = file.read()
    if kind.HasField("optional_type"):
        value = onnx.OptionalProto()
        value.ParseFromString(data)
        return numpy_helper.to_optional(value)
    if kind.HasField("sequence_type"):
        value = onnx.SequenceProto()
        value.ParseFromString(data)
        return numpy_helper.to_list(value)
    value = onnx.TensorProto()
    value.ParseFromString(data)
    return numpy_helper.to_array(value)


def plain(value):
    if isinstance(value, Tensor):
        return value.numpy()
    return [plain(part) for part in value] if isinstance(value, list) else value


def check(got, want, case):
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for g, w in zip(got, want):
            check(g, w, case)
        return
    if want is None:
        assert got is None
        return
    if want.dtype == object or want.dtype.kind in "SU":
        np.testing.assert_array_equal(np.asarray(got).astype(str), want.astype(str))
        return
    if want.dtype.kind == "V" or want.dtype.name in NARROW:
        # types that NumPy lacks come as wider numbers
        got, want = got.astype(np.float32), want.astype(np.float32)
    assert got.dtype == want.dtype, f"got {got.dtype}, expected {want.dtype}"
    atol = 1e-3 if want.dtype == np.float16 else 1e-5 if "dft" in case.name else 1e-7
    np.testing.assert_allclose(got, want, rtol=max(case.rtol, 1e-3), atol=max(case.atol, atol))


def stored(case, model):
    """The stored inputs and outputs of each run of a case."""
    for i in range(100):
        folder = os.path.join(case.model_dir, f"test_data_set_{i}")
        if not os.path.isdir(folder):
            return
        sides = []
        for side, values in (("input", model.graph.input), ("output", model.graph.output)):
            count = sum(name.startswith(f"{side}_") for name in os.listdir(folder))
            files = [os.path.join(folder, f"{side}_{k}.pb") for k in range(count)]
            sides.append([loaded(file, value.type) for file, value in zip(files, values)])
        yield sides


@pytest.mark.parametrize("case", cases())
def test_case(case):
    model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
    runs = list(case.data_sets) if case.data_sets else list(stored(case, model))
    runner = OnnxRunner(Tensor(model.SerializeToString(), device="PYTHON"))
    constants = {value.name for value in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    for inputs, outputs in runs:
        results = runner(dict(zip(names, inputs)))
        for got, want in zip(results.values(), outputs, strict=True):
            check(plain(got), want, case)
