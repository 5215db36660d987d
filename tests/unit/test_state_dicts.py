"""Finding and loading parameters: names, order, devices, dtypes, what is consumed and realized."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from tinygrad import Tensor, TinyJit, dtypes, nn
from tinygrad.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

Pair = namedtuple("Pair", "left right")


class Model:
    """Tensors in every place where they are looked for."""

    def __init__(self):
        self.first = nn.Linear(2, 3)
        self.rest = [Tensor([1.0]), (Tensor([2.0]), {"deep": Tensor([3.0])})]
        self.named = Pair(Tensor([4.0]), nn.Linear(1, 1, bias=False))
        self.ordered = OrderedDict(b=Tensor([5.0]), a=Tensor([6.0]))
        self.number, self.text, self.none, self.kind = 1, "x", None, Tensor
        self.again, self.shared = self, self.rest[0]
        self.step = TinyJit(lambda x: x + 1)


NAMES = [
    "first.weight", "first.bias", "rest.0", "rest.1.0", "rest.1.1.deep", "named.left", "named.right.weight",
    "ordered.b", "ordered.a", "shared",
]  # fmt: skip


def test_names_and_order():
    model = Model()
    assert list(get_state_dict(model)) == NAMES
    assert [t is u for t, u in zip(get_parameters(model), get_state_dict(model).values())] == [
        True
    ] * 10
    assert list(get_state_dict(model.first, "layer")) == ["layer.weight", "layer.bias"]
    assert get_state_dict(Tensor([1.0]), "one").keys() == {"one"} and get_parameters([]) == []


@pytest.mark.parametrize("realize", [True, False])
def test_load_through_a_file(tmp_path, realize):
    path = str(tmp_path / "m.safetensors")
    saved, other = Model(), Model()
    safe_save(get_state_dict(saved), path)
    loaded = load_state_dict(other, safe_load(path), verbose=False, realize=realize)
    assert len(loaded) == len(NAMES) and all(t.uop.is_realized == realize for t in loaded)
    for mine, want in zip(get_parameters(other), get_parameters(saved)):
        assert mine.device == want.device
        np.testing.assert_array_equal(mine.numpy(), want.numpy())


def test_what_is_missing_and_what_is_more():
    layer = nn.Linear(2, 1)
    old = layer.bias.numpy()
    with pytest.raises(KeyError, match="bias is not in the state dict"):
        load_state_dict(layer, {"weight": Tensor.ones(1, 2)}, verbose=False)
    values = {"weight": Tensor.full((1, 2), 3.0), "more": Tensor([1.0])}
    assert len(load_state_dict(layer, values, strict=False, verbose=False)) == 1
    assert layer.weight.tolist() == [[3.0, 3.0]] and layer.bias.tolist() == old.tolist()
    assert values.keys() == {"weight", "more"}
    load_state_dict(layer, values, strict=False, verbose=False, consume=True)
    assert values.keys() == {"more"}
    with pytest.raises(
        ValueError, match=r"layer `weight`: Expected shape \(1, 2\), but found \(2, 1\)"
    ):
        load_state_dict(layer, {"weight": Tensor.ones(2, 1), "bias": Tensor.ones(1)}, verbose=False)


def test_dtypes_and_scalars():
    holder = {"half": Tensor([0.0], dtype=dtypes.float16), "count": Tensor(0), "one": Tensor([0.0])}
    load_state_dict(
        holder,
        {"half": Tensor([1.5, 2.5][:1]), "count": Tensor([7]), "one": Tensor(2.0)},
        verbose=False,
    )
    assert holder["half"].dtype is dtypes.float16 and holder["half"].tolist() == [1.5]
    assert (
        holder["count"].shape == ()
        and holder["count"].item() == 7
        and holder["one"].tolist() == [2.0]
    )


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_onto_several_devices(axis):
    devices = ("CPU:1", "CPU:2")
    layer = nn.Linear(4, 2, bias=False)
    layer.weight.shard_(devices, axis)
    want = np.arange(8, dtype=np.float32).reshape(2, 4)
    load_state_dict(layer, {"weight": Tensor(want)}, verbose=False)
    assert layer.weight.device == devices and layer.weight.uop.axis == axis
    np.testing.assert_array_equal(layer.weight.numpy(), want)
    np.testing.assert_array_equal(layer(Tensor.eye(4).shard(devices)).numpy(), want.T)


@pytest.mark.parametrize("realize", [True, False])
@pytest.mark.parametrize("kind", ["model", "lazy", "realized", "numpy", "number"])
def test_what_is_loaded_is_a_copy(kind, realize):
    """Target networks and averaged weights: training one model leaves the others as they were."""
    source, first, second = (nn.Linear(2, 2, bias=False) for _ in range(3))
    values = {
        "model": lambda: nn.state.get_state_dict(source),
        "lazy": lambda: {"weight": source.weight * 2},
        "realized": lambda: {"weight": (source.weight * 2).realize()},
        "numpy": lambda: {"weight": Tensor(np.arange(4, dtype=np.float32).reshape(2, 2))},
        "number": lambda: {"weight": Tensor.ones(2, 2)},
    }[kind]()
    for layer in (first, second):
        load_state_dict(layer, values, verbose=False, realize=realize)
    want = values["weight"].numpy()
    first.weight.assign(first.weight * 0 + 9).realize()
    np.testing.assert_array_equal(first.weight.numpy(), np.full((2, 2), 9, np.float32))
    np.testing.assert_array_equal(second.weight.numpy(), want)
    np.testing.assert_array_equal(values["weight"].numpy(), want)


def test_what_is_consumed_is_taken_over():
    layer, weight = nn.Linear(2, 2, bias=False), Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    load_state_dict(layer, {"weight": weight}, verbose=False, consume=True)
    assert layer.weight.uop.base is weight.uop.base


def test_nothing_is_printed(capsys):
    load_state_dict(
        nn.Linear(1, 1), {"weight": Tensor.ones(1, 1), "bias": Tensor.ones(1)}, verbose=False
    )
    assert capsys.readouterr() == ("", "")


def test_a_layer_that_was_loaded_learns():
    layer = nn.Linear(1, 1, bias=False)
    load_state_dict(layer, {"weight": Tensor([[2.0]])}, verbose=False)
    optimizer = nn.optim.SGD(get_parameters(layer), lr=0.5)
    with Tensor.train():
        layer(Tensor([[1.0]])).sum().backward()
        optimizer.step()
    assert layer.weight.tolist() == [[1.5]]
