"""Layers, optimizers and model files."""

import json
import struct

import numpy as np
import pytest

from tinygrad import Tensor, dtypes, nn


def test_linear_and_conv_shapes():
    assert nn.Linear(3, 5)(Tensor.ones(2, 3)).shape == (2, 5)
    assert nn.Conv2d(3, 4, 3, padding="same")(Tensor.ones(1, 3, 7, 6)).shape == (1, 4, 7, 6)
    assert nn.Conv1d(3, 4, 3, stride=2)(Tensor.ones(1, 3, 9)).shape == (1, 4, 4)
    assert nn.ConvTranspose2d(3, 4, 3, stride=2)(Tensor.ones(1, 3, 4, 4)).shape == (1, 4, 9, 9)
    with pytest.raises(ValueError, match="stride 1"):
        nn.Conv2d(3, 4, 3, stride=2, padding="same")


def test_batch_norm_tracks_unbiased_statistics():
    x = np.array([[1.0, 2.0], [3.0, 5.0]], dtype=np.float32)
    norm = nn.BatchNorm(2)
    with Tensor.train():
        out = norm(Tensor(x))
    np.testing.assert_allclose(out.numpy(), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-5)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.9 + 0.1 * x.var(0, ddof=1), rtol=1e-5)
    assert norm.num_batches_tracked.item() == 1


@pytest.mark.parametrize(
    "layer, axes",
    [(nn.LayerNorm(6), (2,)), (nn.GroupNorm(1, 4), (1, 2)), (nn.InstanceNorm(4), (2,))],
    ids=["layer", "group", "instance"],
)
def test_norms(layer, axes):
    x = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    np.testing.assert_allclose(
        layer(Tensor(x)).numpy(), (x - mean) / np.sqrt(var + 1e-5), atol=1e-4
    )


def test_embedding_and_lstm():
    table = nn.Embedding(10, 4)
    got = table(Tensor([[1, 9]])).numpy()
    np.testing.assert_allclose(got, table.weight.numpy()[[[1, 9]]])
    with pytest.raises(TypeError, match="integer"):
        table(Tensor([1.0]))
    h, c = nn.LSTMCell(3, 5)(Tensor.ones(2, 3))
    assert h.shape == c.shape == (2, 5)


OPTIMIZERS = {
    "sgd": lambda p: nn.optim.SGD(p, lr=0.1),
    "momentum": lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: nn.optim.Adam(p, lr=0.2),
    "adamw": lambda p: nn.optim.AdamW(p, lr=0.2),
    "lamb": lambda p: nn.optim.LAMB(p, lr=0.2),
    "lars": lambda p: nn.optim.LARS(p, lr=5.0),
    "fused": lambda p: nn.optim.Adam(p, lr=0.2, fused=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_descend(name):
    w = Tensor([3.0, -2.0], requires_grad=True)
    v = Tensor([[1.0], [4.0]], requires_grad=True)
    optimizer = OPTIMIZERS[name]([w, v])
    losses = []
    with Tensor.train():
        for _ in range(8):
            optimizer.zero_grad()
            loss = (w.square().sum() + v.square().sum()).backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] * 0.9


def test_optimizer_needs_training_mode():
    w = Tensor([1.0], requires_grad=True)
    optimizer = nn.optim.SGD([w])
    w.sum().backward()
    with pytest.raises(RuntimeError, match="training"):
        optimizer.step()


def test_state_dict_names():
    class Model:
        def __init__(self):
            self.layers = [nn.Linear(2, 2, bias=False), {"norm": nn.RMSNorm(2)}]
            self.itself = self

    assert list(nn.state.get_state_dict(Model())) == ["layers.0.weight", "layers.1.norm.weight"]


def test_load_state_dict():
    layer, values = nn.Linear(2, 3), {"weight": Tensor.ones(3, 2), "bias": Tensor.zeros(3)}
    nn.state.load_state_dict(layer, values, verbose=False)
    assert layer.weight.tolist() == [[1.0, 1.0]] * 3
    with pytest.raises(KeyError, match="bias"):
        nn.state.load_state_dict(layer, {"weight": Tensor.ones(3, 2)}, verbose=False)
    with pytest.raises(ValueError, match="Shape mismatch"):
        nn.state.load_state_dict(layer, {**values, "weight": Tensor.ones(2, 2)}, verbose=False)


def test_safetensors_round_trip(tmp_path):
    path = str(tmp_path / "m.safetensors")
    saved = {
        "f": Tensor([[1.0, 2.0], [3.0, 4.0]]).transpose(),
        "b": Tensor([True, False]),
        "h": Tensor([1.5], dtype=dtypes.bfloat16),
        "s": Tensor(7),
    }
    nn.state.safe_save(saved, path, {"note": "x"})
    loaded = nn.state.safe_load(path)
    assert {k: v.dtype for k, v in loaded.items()} == {k: v.dtype for k, v in saved.items()}
    assert loaded["f"].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert loaded["b"].tolist() == [True, False] and loaded["s"].item() == 7
    assert loaded["h"].cast(dtypes.float32).tolist() == [1.5]
    assert nn.state.safe_load_metadata(path)[2]["__metadata__"] == {"note": "x"}


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[]",
        b'{"a":1,"a":2}',
        json.dumps({"t": {**ENTRY, "data_offsets": [0, 400]}}).encode(),
        json.dumps({"t": {**ENTRY, "data_offsets": [-4, 0]}}).encode(),
        json.dumps({"t": {**ENTRY, "shape": [2]}}).encode(),
        json.dumps({"t": {**ENTRY, "shape": [True, 1.5]}}).encode(),
        json.dumps({"t": {**ENTRY, "dtype": "Q8"}}).encode(),
        json.dumps({"t": {"dtype": "F32"}}).encode(),
    ],
)
def test_damaged_safetensors(tmp_path, header):
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(ValueError):
        nn.state.safe_load(str(path))


def test_gguf_blocks():
    scale = np.float16(0.5).tobytes()
    block = scale + np.arange(-16, 16, dtype=np.int8).tobytes()
    got = nn.state.ggml_data_to_tensor(Tensor(block), 32, 8).numpy()
    np.testing.assert_array_equal(got, np.arange(-16, 16) * 0.5)
    with pytest.raises(ValueError, match="not supported"):
        nn.state.ggml_data_to_tensor(Tensor(block), 32, 1337)
