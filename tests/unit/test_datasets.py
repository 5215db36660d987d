"""Data sets from a server on this machine: they arrive whole, are kept, and damage says what is damaged."""

import gzip
import http.server
import io
import socketserver
import struct
import tarfile
import threading
import urllib.error

import numpy as np
import pytest

from tinygrad.common import download
from tinygrad.nn import datasets

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 6, dtype=np.uint8)
RECORDS = RNG.integers(0, 256, (6, 2, 3073), dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """The format of MNIST."""
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def cifar_archive() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
        for name, part in zip(names, RECORDS):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = part.size
            archive.addfile(info, io.BytesIO(part.tobytes()))
    return target.getvalue()


@pytest.fixture
def served(monkeypatch, tmp_path):
    """The files by name, to be changed, and the names that were asked for."""
    files = {"cifar.tar.gz": cifar_archive()}
    for kind, count in (("train", 6), ("t10k", 2)):
        files[f"{kind}-images-idx3-ubyte.gz"] = gzip.compress(idx(IMAGES[:count]))
        files[f"{kind}-labels-idx1-ubyte.gz"] = gzip.compress(idx(LABELS[:count]))
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.strip("/")
            asked.append(name)
            self.send_response(200 if name in files else 404)
            self.end_headers()
            self.wfile.write(files.get(name, b""))

        def log_message(self, *args):
            """Quiet."""

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    monkeypatch.setattr(datasets, "_MNIST", base)
    monkeypatch.setattr(datasets, "_CIFAR", f"{base}cifar.tar.gz")
    monkeypatch.setattr(download, "_ensure_downloads_dir", lambda: tmp_path)
    yield files, asked
    server.shutdown()
    server.server_close()


def test_mnist_is_downloaded_once(served):
    for _ in range(2):
        x, y, test_x, test_y = datasets.mnist()
        np.testing.assert_array_equal(x.numpy()[:, 0], IMAGES)
        np.testing.assert_array_equal(y.numpy(), LABELS)
        assert test_x.shape == (2, 1, 28, 28) and test_y.tolist() == LABELS[:2].tolist()
    assert len(served[1]) == 4


def test_cifar(served):
    x, y, test_x, test_y = datasets.cifar()
    train = RECORDS[:5].reshape(10, 3073)
    np.testing.assert_array_equal(x.numpy(), train[:, 1:].reshape(10, 3, 32, 32))
    np.testing.assert_array_equal(y.numpy(), train[:, 0])
    assert test_x.shape == (2, 3, 32, 32) and test_y.tolist() == RECORDS[5, :, 0].tolist()


@pytest.mark.parametrize(
    "damage", [lambda d: d[: len(d) // 2], lambda d: b"<html>", lambda d: d[:40] + b"xx" + d[42:]]
)
def test_a_damaged_download_is_named_and_not_kept(served, damage):
    files, name = served[0], "train-images-idx3-ubyte.gz"
    whole = files[name]
    files[name] = damage(whole)
    with pytest.raises(gzip.BadGzipFile, match=name):
        datasets.mnist()
    files[name] = whole
    np.testing.assert_array_equal(datasets.mnist()[0].numpy()[:, 0], IMAGES)


def test_a_file_that_is_too_short(served):
    served[0]["train-images-idx3-ubyte.gz"] = gzip.compress(idx(IMAGES)[:-5])
    with pytest.raises(ValueError, match="train-images-idx3 of .* has 4715 bytes"):
        datasets.mnist()


def test_what_cannot_be_reached_is_named(served, monkeypatch):
    del served[0]["t10k-labels-idx1-ubyte.gz"]
    with pytest.raises(urllib.error.HTTPError, match="404.*t10k-labels-idx1-ubyte.gz"):
        datasets.mnist()
    monkeypatch.setattr(datasets, "_CIFAR", "http://nowhere.invalid/x.tar.gz")
    with pytest.raises(urllib.error.URLError, match="nowhere.invalid/x.tar.gz cannot be reached"):
        datasets.cifar()
