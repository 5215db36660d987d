"""Trains a small convolutional network on scikit-learn's 1,797 handwritten digits, on whatever device
tinygrad finds. Run `python examples/digits.py`; a fifth of the digits is held out for the test.

Shown at the end: the test accuracy, what each kernel of one training step costs, and the source of
the kernel of the second convolution.
"""

import time

import numpy as np
from sklearn.datasets import load_digits

from tinygrad import Device, GlobalCounters, Tensor, TinyJit, nn
from tinygrad.engine.realize import CompiledRunner
from tinygrad.helpers import ansilen, colored, time_to_str, tqdm

EPOCHS, BATCH = 14, 64


class Net:
    """Two convolutions with batch norm, pooled in between, and a linear layer."""

    def __init__(self):
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm(32)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm1(self.conv1(x)).relu().max_pool2d()
        x = self.norm2(self.conv2(x)).relu().max_pool2d()
        return self.head(x.flatten(1).dropout(0.2))


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (n, 1, 8, 8) in 0..1 and labels, split into training and test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order].astype(np.float32) / 16)[:, None]
    labels = digits.target[order].astype(np.int32)
    held_out = len(labels) // 5
    train, test = slice(held_out, None), slice(held_out)
    arrays = images[train], labels[train], images[test], labels[test]
    return tuple(Tensor(a).realize() for a in arrays)


def show_kernels(schedule) -> None:
    """Runs a schedule once more, kernel by kernel, and prints what each one cost."""
    print(f"\n{'kernel':<38} {'time':>10} {'GFLOPS':>9} {'GB/s':>8}")
    for item in schedule:
        item.lower()
        if not isinstance(item.prg, CompiledRunner):
            continue
        item.run({}, wait=True)
        seconds = min(item.run({}, wait=True) for _ in range(5))
        cost = item.prg.estimates
        name = item.prg.display_name
        rates = f"{cost.ops / seconds * 1e-9:9.2f} {cost.mem / seconds * 1e-9:8.2f}"
        print(f"{name}{' ' * (38 - ansilen(name))} {time_to_str(seconds)} {rates}")


def show_convolution(net: Net) -> None:
    """Prints the source of the kernel that a batch of the second convolution runs."""
    item = net.conv2(Tensor.empty(BATCH, 16, 4, 4)).schedule()[-1].lower()
    print(f"\nsource of the convolution {item.prg.display_name}:\n\n{item.prg.p.src[3].arg}")


def main() -> None:
    """Trains, tests, and shows what ran."""
    Tensor.manual_seed(42)
    x_train, y_train, x_test, y_test = load()
    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.003)

    def forward_backward(rows: Tensor) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad()
        out = net(x_train[rows])
        loss = out.sparse_categorical_crossentropy(y_train[rows]).backward()
        return loss, (out.argmax(1) == y_train[rows]).mean()

    @TinyJit
    @Tensor.train()
    def step(rows: Tensor) -> tuple[Tensor, Tensor]:
        loss, accuracy = forward_backward(rows)
        return loss.realize(*optimizer.schedule_step(), accuracy), accuracy

    @TinyJit
    def test() -> Tensor:
        return (net(x_test).argmax(1) == y_test).mean()

    count = x_train.shape[0] // BATCH
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    with tqdm(total=EPOCHS * count, desc="training", unit="step") as bar:
        for _ in range(EPOCHS):
            order = rng.permutation(x_train.shape[0]).astype(np.int32)
            for i in range(count):
                GlobalCounters.reset()
                began = time.perf_counter()
                loss, accuracy = step(Tensor(order[i * BATCH : (i + 1) * BATCH]).realize())
                shown = loss.item(), accuracy.item() * 100
                rate = BATCH / (time.perf_counter() - began)
                bar.set_description(
                    f"loss {shown[0]:6.3f} accuracy {shown[1]:5.1f} % {rate:7.0f} images/s"
                )
                bar.update(1)
    accuracy = test().item() * 100
    seconds = time.perf_counter() - start
    line = (
        f"test accuracy {accuracy:.1f} % after {EPOCHS} epochs, {seconds:.1f} s on {Device.DEFAULT}"
    )
    print(colored(line, "green" if accuracy >= 97 else "red"))

    with Tensor.train():
        rows = Tensor(np.arange(BATCH, dtype=np.int32)).realize()
        loss, right = forward_backward(rows)
        show_kernels(loss.schedule(*optimizer.schedule_step(), right))
    show_convolution(net)
    print(f"\n{line}")


if __name__ == "__main__":
    main()
