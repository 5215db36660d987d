"""Which device a name or a switch of the environment means, and what the NULL device does."""

import pytest

from tinygrad import Device, Tensor, TinyJit, dtypes, nn
from tinygrad.helpers import GlobalCounters
from tinygrad.runtime.support import registry
from tinygrad.runtime.support.registry import DeviceRegistry


@pytest.fixture
def default(monkeypatch):
    """The default device under the switches given."""

    def ask(**switches):
        monkeypatch.setattr(
            registry, "getenv", lambda key, otherwise=0: switches.get(key, otherwise)
        )
        return DeviceRegistry().DEFAULT

    return ask


def test_switches_choose_the_default_device(default):
    assert default(CPU=1) == "CPU" and default(PYTHON=1) == "PYTHON" and default(NULL=1) == "NULL"
    assert default(NULL=0) == "CPU" and default(CPU=1, NULL=1) == "CPU"
    assert default(DEV="python") == "PYTHON" and default(DEV="NULL", CPU=1) == "NULL"


def test_switches_that_name_no_device_that_computes(default):
    with pytest.raises(
        ModuleNotFoundError, match="no device is called 'NOPE'.*CPU, DISK, NPY, NULL, PYTHON"
    ):
        default(DEV="nope")
    for switches, said in (({"DISK": 1}, "DISK=1"), ({"DEV": "npy"}, "DEV=npy")):
        with pytest.raises(RuntimeError, match=f"{said} makes .* only stores and computes nothing"):
            default(**switches)


@pytest.mark.parametrize("name", ["nope", "", "CPUS", "gpu:1"])
def test_devices_that_nobody_knows(name):
    for use in (
        lambda: Tensor([1], device=name),
        lambda: Tensor([1]).to(name),
        lambda: Device[name],
        lambda: Tensor.zeros(2, device=name),
    ):
        with pytest.raises(
            ModuleNotFoundError, match="no device is called .*this installation knows CPU"
        ):
            use()


@pytest.mark.parametrize("name", ["CPU:x", "CPU:-1", "CPU:0:1", "PYTHON:1.5", "NULL:"])
def test_instances_are_numbers(name):
    with pytest.raises(ValueError, match="expected a number as in"):
        Tensor([1], device=name)


def test_spellings_of_a_name():
    assert [Tensor([1], device=n).device for n in ("cpu", "CPU:0", "cpu:2", "Python")] == [
        "CPU",
        "CPU",
        "CPU:2",
        "PYTHON",
    ]
    with pytest.raises(TypeError, match="a device is named by a str"):
        Tensor([1], device=3)


# *** NULL


def test_a_training_step_that_computes_nothing():
    previous, Device.DEFAULT = Device.DEFAULT, "NULL"
    try:
        layer = nn.Linear(4, 4)
        optimizer = nn.optim.Adam(nn.state.get_parameters(layer))
        before = GlobalCounters.kernel_count

        @TinyJit
        def step(x):
            optimizer.zero_grad()
            loss = layer(x).relu().sum().backward()
            return loss.realize(*optimizer.schedule_step())

        with Tensor.train():
            for _ in range(4):
                loss = step(Tensor.ones(2, 4).contiguous().realize())
        assert GlobalCounters.kernel_count > before
        assert (loss.shape, loss.device, loss.item()) == ((), "NULL", 0.0)
    finally:
        Device.DEFAULT = previous


def test_memory_that_is_not_there():
    huge = Tensor.empty(1 << 42, dtype=dtypes.uint8, device="NULL").realize()
    assert huge.shape == (1 << 42,) and huge[5:8].tolist() == [0, 0, 0]
    assert Tensor([1, 2], device="NULL").to("CPU").tolist() == [0, 0]
    split = Tensor.ones(4, 4).contiguous().shard(("NULL:0", "NULL:1"), axis=0)
    assert (split + 1).sum().item() == 0.0
    with pytest.raises(BufferError):
        Tensor([1], device="NULL").__dlpack__()
