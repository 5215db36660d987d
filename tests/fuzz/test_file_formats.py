"""Damaged model files: every parser gives an answer or a documented error, in little memory.

Each round changes a valid file: bytes at random, whole fields of sizes and counts, cut or doubled parts; or it
makes one that is right but for one value (`file_structures`), read under a limit of memory that the system
enforces. `ROUNDS=2000 SEED=7 pytest tests/fuzz/test_file_formats.py` runs more; a failure prints seed and format.
"""

import io
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.fuzz import file_structures

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxPBParser, OnnxRunner
from tinygrad.nn.state import gguf_load, safe_load, tar_extract, torch_load, zip_extract

sys.path.insert(0, str(Path(__file__).parents[1]))
from onnx_bytes import field, varint  # noqa: E402

ROUNDS = int(os.getenv("ROUNDS", "30"))
FIRST = int(os.getenv("SEED", "0"))
DOCUMENTED = {
    "safetensors": (ValueError,),
    "gguf": (ValueError, EOFError),
    "zip": (zipfile.BadZipFile,),
    "tar": (tarfile.TarError,),
    "onnx": (ValueError, EOFError, NotImplementedError, FileNotFoundError),
    "torch": (ValueError, EOFError, zipfile.BadZipFile, tarfile.TarError, pickle.UnpicklingError),
}


def onnx_file() -> bytes:
    weight = (
        field(1, 2)
        + field(1, 3)
        + field(2, 1)
        + field(8, "w")
        + field(9, struct.pack("<6f", *range(6)))
    )
    shape = field(1, 2) + field(1, 3) + field(2, 7) + field(8, "s") + field(7, 3) + field(7, 2)
    axis = field(5, field(1, "allowzero") + field(3, 1) + field(20, 2))
    nodes = [
        field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Add"),
        field(1, "y") + field(1, "t") + field(2, "z") + field(4, "Reshape") + axis,
    ]
    value = field(1, "x") + field(
        2, field(1, field(1, 1) + field(2, field(1, field(1, 2)) + field(1, field(1, 3))))
    )
    shape = shape.replace(field(8, "s"), field(8, "t")).replace(field(1, 3), b"", 1)
    graph = (
        b"".join(field(1, node) for node in nodes)
        + field(2, "g")
        + field(5, weight)
        + field(5, shape)
    )
    graph += field(11, value) + field(12, field(1, "z"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 18))


def safetensors_file() -> bytes:
    header = (
        b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'
        b'"b":{"dtype":"I8","shape":[4],"data_offsets":[24,28]},"__metadata__":{"k":"v"}}'
    )
    return struct.pack("<Q", len(header)) + header + bytes(range(28))


def gguf_file() -> bytes:
    text = lambda s: struct.pack("<Q", len(s)) + s  # noqa: E731
    pairs = text(b"name") + struct.pack("<i", 8) + text(b"model")
    pairs += text(b"list") + struct.pack("<iiQ", 9, 4, 3) + struct.pack("<3I", 1, 2, 3)
    tensors = text(b"t") + struct.pack("<IQQiQ", 2, 3, 2, 0, 0)
    tensors += text(b"q") + struct.pack("<IQiQ", 1, 32, 8, 32)
    head = b"GGUF" + struct.pack("<iqq", 3, 2, 2) + pairs + tensors
    return head + bytes(-len(head) % 32) + bytes(range(24)) + bytes(8) + bytes(range(34))


def tensor_pickle() -> bytes:
    """What torch.save writes for {"w": a tensor of 2 x 3 floats}, by hand."""
    out = b"\x80\x02}X\x01\x00\x00\x00w"
    out += b"ctorch._utils\n_rebuild_tensor_v2\n("
    out += b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"
    out += b"K\x00K\x02K\x03\x86K\x03K\x01\x86\x89ccollections\nOrderedDict\n)RtRs."
    return out


def torch_zip() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("archive/data.pkl", tensor_pickle())
        archive.writestr("archive/data/0", struct.pack("<6f", *range(6)))
        archive.writestr("archive/version", "3\n")
    return target.getvalue()


def torch_stream() -> bytes:
    plain = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    out = b"".join(pickle.dumps(value, protocol=2) for value in plain)
    out += tensor_pickle() + pickle.dumps(["0"], protocol=2)
    return out + struct.pack("<q", 6) + struct.pack("<6f", *range(6))


def zip_file() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("stored", b"abc" * 20)
        archive.writestr("packed", b"abc" * 200, compress_type=zipfile.ZIP_DEFLATED)
    return target.getvalue()


def tar_file() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("one", "folder/two"):
            info = tarfile.TarInfo(name)
            info.size = 50
            archive.addfile(info, io.BytesIO(bytes(50)))
    return target.getvalue()


def touch(value) -> None:
    """Reads what a parser returned, unless it stands for more than the file could hold."""
    if isinstance(value, Tensor):
        if value.numel() <= 1 << 16:
            value.numpy()
    elif isinstance(value, dict):
        for part in value.values():
            touch(part)


def parse_safetensors(data: bytes, folder) -> None:
    path = folder / "fuzzed.safetensors"
    path.write_bytes(data)
    touch(safe_load(path))


def parse_onnx(data: bytes, folder) -> None:
    t = Tensor(data)
    OnnxPBParser(t).parse()
    OnnxRunner(t)


CASES = {
    "safetensors": (safetensors_file, parse_safetensors),
    "gguf": (gguf_file, lambda data, _: touch(gguf_load(Tensor(data))[1])),
    "zip": (zip_file, lambda data, _: touch(zip_extract(Tensor(data)))),
    "tar": (tar_file, lambda data, _: touch(tar_extract(Tensor(data)))),
    "onnx": (onnx_file, parse_onnx),
    "torch zip": (torch_zip, lambda data, _: touch(torch_load(Tensor(data)))),
    "torch stream": (torch_stream, lambda data, _: touch(torch_load(Tensor(data)))),
}
EDGES = [
    0,
    1,
    2,
    127,
    128,
    255,
    1 << 15,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
]


def damaged(data: bytes, draw: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(out)) if out else 0
        kind = draw.randrange(7)
        if kind == 0 and out:
            out[at] = draw.randrange(256)
        elif kind == 1 and out:
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            width = draw.choice((1, 2, 4, 8))
            number = draw.choice(EDGES) & ((1 << 8 * width) - 1)
            out[at : at + width] = number.to_bytes(width, "little")
        elif kind == 3:
            out[at : at + 1] = varint(draw.choice(EDGES))
        elif kind == 4:
            del out[at : at + draw.choice((1, 4, 16, len(out)))]
        elif kind == 5:
            part = out[at : at + draw.choice((1, 8, 40))]
            out[at:at] = part * draw.choice((1, 3))
        else:
            out[at:at] = bytes(draw.randrange(256) for _ in range(draw.choice((1, 3, 9))))
    return bytes(out)


@pytest.mark.parametrize("name", CASES)
def test_a_whole_file_is_read(name, tmp_path):
    make, parse = CASES[name]
    parse(make(), tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_damaged_files(name, tmp_path):
    make, parse = CASES[name]
    data, allowed = make(), DOCUMENTED[name.split()[0]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(FIRST, FIRST + ROUNDS):
        changed = damaged(data, random.Random(f"{name} {seed}"))
        try:
            parse(changed, tmp_path)
        except allowed:
            pass
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}: {error!r} for {changed!r}") from error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 512 * 1024, f"{grown} KiB more for files of {len(data)} bytes"


def read_in_little_memory(
    names: list[str], seeds: range, folder: Path, most: int = 1 << 30
) -> None:
    """Reads files of each structure, with `most` bytes of address space more than there were before."""
    # what is loaded for the first kernel counts for none of the files
    Tensor([1.0]).add(1).numpy()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + most
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name in names:
        for seed in seeds:
            data = file_structures.variant(name, seed)
            try:
                _parser_of(name)(data, folder)
            except DOCUMENTED[name.split()[0]]:
                pass
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {error!r}") from error


def _parser_of(name: str):
    return CASES["torch zip" if name == "torch tar" else name][1]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
def test_files_that_are_wrong_in_one_value(tmp_path):
    names = list(file_structures.STRUCTURES)
    seeds = range(FIRST, FIRST + ROUNDS * 2 // 3)
    code = f"""
from pathlib import Path
from tests.fuzz.test_file_formats import read_in_little_memory
read_in_little_memory({names}, {seeds}, Path({str(tmp_path)!r}))
"""
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]


@pytest.mark.parametrize("name", file_structures.STRUCTURES)
def test_most_structures_without_a_change_are_read(name, tmp_path):
    """A generator whose files all fail at the first check would test nothing."""
    read = 0
    for seed in range(40):
        try:
            _parser_of(name)(file_structures.variant(name, seed), tmp_path)
        except DOCUMENTED[name.split()[0]]:
            continue
        read += 1
    assert read >= 3, f"{read} of 40"


def test_pickles_run_nothing():
    for code in (b"cos\nsystem\n(X\x02\x00\x00\x00lstR.", b"(X\x02\x00\x00\x00lsios\nsystem\n."):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02" + code)
        with pytest.raises(pickle.UnpicklingError, match="os.system|INST"):
            torch_load(Tensor(data.getvalue()))


def test_pickles_that_ask_for_memory():
    for code in (
        b"\x96" + struct.pack("<Q", 1 << 40) + b".",
        b"Nr" + struct.pack("<I", (1 << 31) - 1) + b".",
        b"\x8e" + struct.pack("<Q", 1 << 40) + b".",
        b"\x8a\x04\xff\xff",
    ):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x04" + code)
        with pytest.raises(pickle.UnpicklingError):
            torch_load(Tensor(data.getvalue()))


def test_messages_nested_without_end():
    graph = b""
    for _ in range(3000):
        graph = field(1, field(5, field(6, graph)))
        if len(graph) > 1 << 20:
            break
    with pytest.raises(ValueError, match="nested"):
        OnnxRunner(Tensor(field(7, graph)))
