"""Checkpoints that torch.save writes, in every form it has, against torch.load."""

import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from tinygrad import Tensor
from tinygrad.nn.state import torch_load

NUMBERS = torch.arange(24, dtype=torch.float32)


class Tagged(torch.Tensor):
    """A subclass, which is saved by another way."""


def whole() -> dict:
    grid = NUMBERS.reshape(4, 6)
    tagged = NUMBERS[:3].clone()
    tagged.note = "attributes are saved along"
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Linear(3, 1)
    )
    return {
        "views": {
            "transposed": grid.T, "strided": grid[::2, 1::2], "part": NUMBERS[3:9], "row": grid[2],
            "expanded": torch.ones(3, 1).expand(3, 5), "empty": torch.zeros(0, 2), "scalar": NUMBERS[5],
            "channels last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "window": NUMBERS.unfold(0, 4, 2),
        },
        "makes": {
            "parameter": torch.nn.Parameter(torch.ones(2)), "subclass": NUMBERS[:2].as_subclass(Tagged),
            "attribute": tagged, "buffer": torch.nn.Buffer(torch.zeros(3)),
            "state": OrderedDict(layers.state_dict()),
        },
        "kinds": {
            str(kind): torch.tensor([0, 1, 2, 100]).to(kind)
            for kind in (
                torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
                torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64, torch.bool,
                torch.float8_e4m3fn, torch.float8_e5m2,
            )
        },
        "quantized": torch.quantize_per_tensor(NUMBERS - 9, 0.5, 3, torch.qint8),
        "quantized each": torch.quantize_per_channel(
            NUMBERS.reshape(4, 6) - 9, torch.tensor([0.5, 1, 2, 4]), torch.tensor([0, 1, 2, 3]), 0, torch.quint8
        ),
        "list": [NUMBERS[:1], (NUMBERS[1:2], None)], "size": grid.shape, "epoch": 3, "rate": 1e-3,
        "best": np.float64(0.5), "generator": np.random.RandomState(0).get_state(),
    }  # fmt: skip


def compare(got, want, where: str) -> None:
    if isinstance(want, dict):
        assert got.keys() == want.keys(), where
        for name in want:
            compare(got[name], want[name], f"{where}.{name}")
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), where
        for i, part in enumerate(want):
            compare(got[i], part, f"{where}.{i}")
    elif isinstance(want, torch.Tensor):
        want = want.dequantize() if want.is_quantized else want.detach().as_subclass(torch.Tensor)
        assert isinstance(got, Tensor) and got.shape == tuple(want.shape), where
        if want.dtype.is_floating_point:
            got, want = got.float(), want.float()
        np.testing.assert_array_equal(got.numpy(), want.numpy(), err_msg=where)
    else:
        np.testing.assert_array_equal(got, want, err_msg=where)


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("from_file", [True, False])
def test_what_torch_saves(tmp_path, modern, protocol, from_file):
    path, made = tmp_path / "x.pt", whole()
    torch.save(made, path, _use_new_zipfile_serialization=modern, pickle_protocol=protocol)
    loaded = torch_load(path if from_file else Tensor(path.read_bytes()))
    compare(loaded, made, "")


def test_a_training_run(tmp_path):
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    made = {
        "model": layer.state_dict(), "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(), "random": torch.get_rng_state(),
    }  # fmt: skip
    torch.save(made, tmp_path / "x.pt")
    compare(torch_load(tmp_path / "x.pt"), made, "")


def test_numbers_of_a_big_endian_machine(tmp_path):
    """The file that such a machine writes, as torch.load reads it here."""
    plain, turned = tmp_path / "plain.pt", tmp_path / "turned.pt"
    torch.save({"a": NUMBERS.reshape(4, 6).T, "b": NUMBERS[:0]}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(turned, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if "/data/" in name:
                data = np.frombuffer(data, np.float32).byteswap().tobytes()
            target.writestr(name, b"big" if name.endswith("/byteorder") else data)
    compare(torch_load(turned), torch.load(turned), "")
    assert torch_load(turned)["a"].shape == (6, 4)
