"""Small public data sets, downloaded once and cached. Images as uint8, labels as uint8 numbers.

Without a network: urllib.error.URLError that names the address; a damaged download: gzip.BadGzipFile,
tarfile.TarError or ValueError, and the next call downloads it again.
"""

from __future__ import annotations

from tinygrad.nn.state import tar_extract
from tinygrad.tensor import Tensor

_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"


def mnist(device=None, fashion=False):
    """Handwritten digits (or clothing): train images (60000, 1, 28, 28), labels, test images, labels."""
    base = _FASHION if fashion else _MNIST

    def part(name: str, header: int) -> Tensor:
        whole = Tensor.from_url(f"{base}{name}-ubyte.gz", gunzip=True)
        each = 28 * 28 if header == 16 else 1
        if whole.shape[0] < header or (whole.shape[0] - header) % each:
            raise ValueError(f"{name} of {base} has {whole.shape[0]} bytes: that is no whole file")
        return whole[header:].to(device)

    train, train_labels = part("train-images-idx3", 16), part("train-labels-idx1", 8)
    test, test_labels = part("t10k-images-idx3", 16), part("t10k-labels-idx1", 8)
    return train.reshape(-1, 1, 28, 28), train_labels, test.reshape(-1, 1, 28, 28), test_labels


def cifar(device=None):
    """CIFAR-10: train images (50000, 3, 32, 32), labels, test images, labels."""
    files = tar_extract(Tensor.from_url(_CIFAR, gunzip=True))
    folder = "cifar-10-batches-bin/"
    batches = [files[f"{folder}data_batch_{i}.bin"] for i in range(1, 6)]
    # a record is one label byte and 3072 image bytes
    train = batches[0].cat(*batches[1:]).reshape(-1, 3073).to(device)
    test = files[f"{folder}test_batch.bin"].reshape(-1, 3073).to(device)

    def images(t: Tensor) -> Tensor:
        return t[:, 1:].reshape(-1, 3, 32, 32)

    return images(train), train[:, 0], images(test), test[:, 0]
