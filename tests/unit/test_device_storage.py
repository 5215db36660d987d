"""Storage devices: files, arrays, Python's own bytes."""

import errno
import gc
import os
import stat

import numpy as np
import pytest

from tinygrad import Device, Tensor, dtypes
from tinygrad.device import Buffer


def test_a_file_is_a_tensor(tmp_path):
    path = tmp_path / "numbers"
    np.arange(8, dtype=np.float32).tofile(path)
    t = Tensor.empty(8, dtype=dtypes.float32, device=f"DISK:{path}")
    assert t.to("CPU").tolist() == list(range(8))
    assert t[2:5].to("CPU").tolist() == [2.0, 3.0, 4.0]
    assert t.reshape(2, 4)[1].to("CPU").tolist() == [4.0, 5.0, 6.0, 7.0]


def test_a_file_is_written_and_grows(tmp_path):
    path = tmp_path / "new"
    t = Tensor.empty(4, dtype=dtypes.int32, device=f"DISK:{path}")
    t.assign(Tensor([1, 2, 3, 4], dtype=dtypes.int32)).realize()
    assert np.fromfile(path, np.int32).tolist() == [1, 2, 3, 4]
    t[1:3].assign(Tensor([7, 8], dtype=dtypes.int32)).realize()
    assert np.fromfile(path, np.int32).tolist() == [1, 7, 8, 4]
    t[1:3].assign(Tensor([2, 3], dtype=dtypes.int32)).realize()
    with pytest.raises(RuntimeError, match="only a run of bytes"):
        t[::2].assign(Tensor([7, 8], dtype=dtypes.int32))
    bigger = Buffer(f"DISK:{path}", 6, dtypes.int32).allocate()
    assert bigger.numpy().tolist() == [1, 2, 3, 4, 0, 0]


def test_wider_numbers_from_scattered_parts_of_a_file(tmp_path):
    path, data = tmp_path / "rows", np.arange(36, dtype=np.uint8).reshape(2, 18)
    data.tofile(path)
    rows = Tensor(path).reshape(2, 18)
    want = data[:, 2:10].copy().view(np.uint32)
    np.testing.assert_array_equal(rows[:, 2:10].bitcast(dtypes.uint32).numpy(), want)
    np.testing.assert_array_equal(rows[:, 2:10].contiguous().bitcast(dtypes.uint32).numpy(), want)
    want = data[:, :16:2].copy().view(np.uint16)[:, 1:3] + 1
    got = rows[:, ::2].pad((None, (0, 1))).bitcast(dtypes.uint16)[:, 1:3] + 1
    np.testing.assert_array_equal(got.numpy(), want)


def test_views_into_a_file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(32)))
    whole = Buffer(f"DISK:{path}", 32, dtypes.uint8).allocate()
    part = whole.view(2, dtypes.uint16, 6).ensure_allocated()
    assert part.numpy().tolist() == [6 + 7 * 256, 8 + 9 * 256]
    assert bytes(part.as_buffer(force_zero_copy=True)) == bytes([6, 7, 8, 9])


def test_a_missing_folder(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        Buffer(f"DISK:{tmp_path}/nowhere/file", 4, dtypes.uint8).allocate()
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        Buffer(f"DISK:{tmp_path}", 4, dtypes.uint8).allocate()
    with pytest.raises(IsADirectoryError, match="got the directory"):
        Tensor(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Tensor(tmp_path / "nowhere")
    with pytest.raises(OSError, match="needs the path of its file"):
        Buffer("DISK", 4, dtypes.uint8).allocate()


def test_the_map_goes_with_the_last_buffer(tmp_path):
    device = Device[f"DISK:{tmp_path}/x"]
    first, second = (Buffer(device.device, n, dtypes.uint8).allocate() for n in (4, 8))
    del first
    second.copyin(memoryview(bytes(8)))
    del second
    with pytest.raises(RuntimeError, match="is not mapped"):
        device.map  # noqa: B018


def test_arrays_are_copied_once_and_only_when_used():
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    assert Tensor(array).tolist() == array.tolist()
    assert Tensor(array.T).tolist() == array.T.tolist()
    assert Tensor(array[::2, ::-1]).tolist() == array[::2, ::-1].tolist()


@pytest.mark.parametrize("name", ["NPY", "DISK:/tmp/unused"])
def test_storage_runs_no_kernels(name):
    with pytest.raises(RuntimeError, match="only stores"):
        Device[name].runtime("kernel", b"")


def test_any_view_of_a_file(tmp_path):
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    path = tmp_path / "numbers"
    array.tofile(path)
    t = Tensor.empty(24, dtype=dtypes.int32, device=f"DISK:{path}").reshape(2, 3, 4)
    for view, want in [
        (t[1, 1:], array[1, 1:]),
        (t[:, 1], array[:, 1]),
        (t.permute(2, 0, 1), array.transpose(2, 0, 1)),
        (t[1].flip(0).pad(((1, 0), (0, 0))), np.pad(array[1][::-1], ((1, 0), (0, 0)))),
        (t.bitcast(dtypes.uint8)[0, 2], array.view(np.uint8)[0, 2]),
        (t.sum(1) * 2, array.sum(1) * 2),
    ]:
        assert view.to("CPU").tolist() == want.tolist()


def test_only_the_piece_is_read(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(64)))
    t = Tensor.empty(64, dtype=dtypes.uint8, device=f"DISK:{path}")
    piece = t[9:17].bitcast(dtypes.float32).to("CPU")
    copies = [i for i in piece.schedule() if i.ast.op.name == "COPY"]
    assert [c.bufs[1].nbytes for c in copies] == [8]
    again = t[9:17].bitcast(dtypes.float32).to("CPU")
    assert again.bitcast(dtypes.uint8).tolist() == list(range(9, 17))


def test_a_file_that_became_shorter(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(64)))
    t = Tensor(path)
    assert t[60:].tolist() == [60, 61, 62, 63]
    os.truncate(path, 8)
    assert t[:8].tolist() == list(range(8))
    with pytest.raises(OSError, match="the file ends at 8, expected 4 bytes more.*bytes"):
        t[4:12].tolist()
    with pytest.raises(OSError, match="became shorter"):
        t.uop.base.buffer.as_buffer(force_zero_copy=True)
    assert "in memory" in repr(t)
    assert Tensor(path).tolist() == list(range(8))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk():
    with pytest.raises(OSError, match="No space left"):
        Tensor([1, 2, 3]).to("DISK:/dev/full").realize()


def test_a_file_that_can_only_be_read(tmp_path, monkeypatch):
    path = tmp_path / "fixed"
    path.write_bytes(bytes(8))
    real = os.open

    def refusing(name, flags, *mode, **more):
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return real(name, flags, *mode, **more)

    # whoever runs the tests as root may write anything
    monkeypatch.setattr(os, "open", refusing)
    t = Tensor.empty(8, dtype=dtypes.uint8, device=f"DISK:{path}")
    assert t.tolist() == [0] * 8
    with pytest.raises(PermissionError, match="can only be read.*fixed"):
        t.assign(Tensor.ones(8, dtype=dtypes.uint8)).realize()
    with pytest.raises(PermissionError, match="16 bytes were asked for, the file has 8"):
        Tensor.empty(16, dtype=dtypes.uint8, device=f"DISK:{path}").tolist()
    assert memoryview(t.uop.base.buffer.as_buffer(force_zero_copy=True)).readonly


def test_what_is_assigned_to_a_file_fits(tmp_path):
    t = Tensor.empty(4, dtype=dtypes.int32, device=f"DISK:{tmp_path}/n")
    t.assign([1, 2, 3, 4])
    assert t.assign(Tensor([[1, 2], [3, 4]])).tolist() == [1, 2, 3, 4]
    assert t.assign(Tensor([7])).tolist() == [7, 7, 7, 7]
    t[1:3] = Tensor([2.5, 3.5])
    t[0] = 5
    assert t.tolist() == [5, 2, 3, 7]
    with pytest.raises(AssertionError, match="one dtype"):
        t.assign(Tensor([1.0, 2.0, 3.0, 4.0]))
    with pytest.raises(AssertionError, match="broadcast"):
        t.assign(Tensor([1, 2]))
    with pytest.raises(RuntimeError, match="only stores and runs no kernels"):
        (t + 1).realize()


def test_views_by_type_and_small_files(tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(b"12345")
    assert Tensor(path).bitcast(dtypes.int8)[4].item() == 53
    assert Tensor(path, dtype=dtypes.int32).tolist() == [0x34333231]
    assert Tensor(path)[1:5].bitcast(dtypes.uint32).tolist() == [0x35343332]
    assert Tensor(path)[3:99].tolist() == [52, 53] and Tensor(path)[::2].tolist() == [49, 51, 53]
    assert Tensor(path).cast(dtypes.float32).to("CPU").tolist() == [49.0, 50.0, 51.0, 52.0, 53.0]
    (tmp_path / "empty").touch()
    assert Tensor(tmp_path / "empty").tolist() == []


def test_many_files_are_closed_and_large_ones_are_sparse(tmp_path):
    def open_files():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = open_files() if os.path.exists("/proc/self/fd") else None
    for i in range(50):
        path = tmp_path / str(i)
        Tensor([i, i]).to(f"DISK:{path}").realize()
        assert Tensor(path).bitcast(dtypes.int32).tolist() == [i, i]
    assert before is None or open_files() == before
    huge = Tensor.empty(1 << 33, dtype=dtypes.uint8, device=f"DISK:{tmp_path}/huge")
    huge[(1 << 33) - 2 :] = Tensor([8, 9], dtype=dtypes.uint8)
    assert huge[-3:].tolist() == [0, 8, 9]
    assert os.stat(tmp_path / "huge").st_blocks * 512 < 1 << 20
    assert stat.S_IMODE(os.stat(tmp_path / "huge").st_mode) & 0o111 == 0


def test_arrays_of_the_user_are_not_held_back():
    array = np.arange(6, dtype=np.float32)
    stored = Buffer("NPY", 6, dtypes.float32, opaque=array)
    assert stored.numpy().tolist() == array.tolist()
    stored.copyin(memoryview(np.ones(6, np.float32)))
    assert array.tolist() == [1.0] * 6
    strided = Buffer("NPY", 3, dtypes.float32, opaque=np.arange(6, dtype=np.float32)[::2])
    assert strided.numpy().tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(RuntimeError, match="only stores and runs no kernels"):
        Tensor([1.0], device="NPY").add(1).realize()
