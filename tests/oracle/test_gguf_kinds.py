"""Every quantized kind of GGUF against the decoders of the gguf package."""

import gguf
import numpy as np
import pytest
from gguf import quants

from tinygrad import Tensor, dtypes
from tinygrad.nn.state import ggml_data_to_tensor, gguf_load

KINDS = {kind.name: kind for kind in quants._type_traits if kind.name != "BF16"}
BLOCKS = 64


@pytest.mark.parametrize("name", KINDS)
def test_decodes_as_gguf_does(name):
    kind = KINDS[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(kind.value).integers(0, 256, BLOCKS * size, dtype=np.uint8)
    if name == "MXFP4":
        data[::size] %= 200  # a half of infinity says nothing
    with np.errstate(all="ignore"):
        want = quants.dequantize(data, kind).reshape(-1)
    got = ggml_data_to_tensor(Tensor(data), BLOCKS * elements, kind.value).numpy()
    if name == "MXFP4":
        # kept from the published release: half of what others give (docs/semantics.md)
        want = want / 2
    np.testing.assert_array_equal(got, want)


def test_a_file_that_gguf_writes(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "model.gguf"
    plain = {
        "half": rng.normal(size=(3, 4)).astype(np.float16),
        "single": rng.normal(size=(2, 3, 4)).astype(np.float32),
        "double": rng.normal(size=5),
        **{f"int{n}": rng.integers(-100, 100, (2, n)).astype(f"int{n}") for n in (8, 16, 32, 64)},
    }
    weights = rng.normal(size=(4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "test")
    writer.add_custom_alignment(64)
    pairs = {"a.text": "x", "a.list": ["α", "", "c"], "a.numbers": [1, 2], "a.flag": True}
    writer.add_string("a.text", pairs["a.text"])
    writer.add_array("a.list", pairs["a.list"])
    writer.add_array("a.numbers", pairs["a.numbers"])
    writer.add_bool("a.flag", pairs["a.flag"])
    for name, value in plain.items():
        writer.add_tensor(name, value)
    kind = gguf.GGMLQuantizationType.Q8_0
    packed = quants.quantize(weights, kind)
    writer.add_tensor("packed", packed, raw_dtype=kind)
    brain = quants.quantize(weights, gguf.GGMLQuantizationType.BF16)
    writer.add_tensor("brain", brain, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found, tensors = gguf_load(path)
    assert pairs.items() <= found.items()
    for name, value in plain.items():
        assert tensors[name].dtype.itemsize == value.dtype.itemsize
        np.testing.assert_array_equal(tensors[name].numpy(), value, err_msg=name)
    np.testing.assert_array_equal(tensors["packed"].numpy(), quants.dequantize(packed, kind))
    assert tensors["brain"].dtype is dtypes.bfloat16
    want = quants.dequantize(brain, gguf.GGMLQuantizationType.BF16)
    np.testing.assert_array_equal(tensors["brain"].numpy(), want)
