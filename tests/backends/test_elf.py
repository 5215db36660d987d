"""The ELF loader: objects of both compilers, foreign symbols, and damaged files."""

from __future__ import annotations

import random
import struct

import pytest
from tests.backends.test_cpu_kernels import compiler_or_skip
from tinygrad.backends.cpu._pool import HostBuffer, Kernel
from tinygrad.backends.cpu.loader import LoadedObject

from tinygrad.runtime.support.elf import elf_loader, find_symbol, parse_elf
from tinygrad.runtime.support.elf_link import link_image

SOURCE = """
float cosf(float);
static const float table[4] = {1, 2, 3, 4};
static int calls[2000];
void k(float* out, int n) {
  calls[n] += 3;
  for (int i = 0; i < 4; i++) out[i] = table[(i + n) & 3] + cosf(out[i]) + calls[n];
}
"""


@pytest.fixture(scope="module")
def blob() -> bytes:
    return compiler_or_skip("clang").compile(SOURCE)


def test_sections_and_relocations(blob):
    image, sections, relocations = elf_loader(blob, link_libs=["m"])
    assert {".text", ".bss"} <= {s.name for s in sections}
    assert all(0 <= offset < len(image) for offset, *_ in relocations)
    text = next(s for s in sections if s.name == ".text")
    at = text.header.sh_addr
    assert bytes(image[at : at + 4]) == text.content[:4] or relocations[0][0] - at < 4


def test_forced_alignment(blob):
    for s in parse_elf(blob, 128).sections:
        if s.header.sh_flags & 2 and s.header.sh_size:
            assert s.header.sh_addr % 128 == 0


def test_constants_writable_data_and_far_calls(blob):
    loaded = LoadedObject(blob)
    kernel = Kernel(loaded.function("k"), loaded)
    out = HostBuffer(16)
    for call in (1, 2):
        out.copy_in(struct.pack("4f", 0, 0, 0, 0))
        kernel.launch((out,), (1,), 0, 1, False)
        got = struct.unpack("4f", bytes(out))
        assert got == tuple(c + 1 + 3 * call for c in (2, 3, 4, 1))


def test_unknown_symbol_is_named():
    lib = compiler_or_skip("clang").compile("void gone(void); void k(int* p) { gone(); p[0] = 1; }")
    with pytest.raises(AttributeError, match="'gone'"):
        LoadedObject(lib)
    with pytest.raises(AttributeError, match="link_libs"):
        find_symbol("surely_no_such_function", ["libm.so.6"])


def test_wrong_name_lists_functions():
    lib = compiler_or_skip("clang").compile("void a(int* p) { *p = 1; } void b(int* p) { *p = 2; }")
    with pytest.raises(RuntimeError, match=r"\['a', 'b'\]"):
        LoadedObject(lib).function("c")


@pytest.mark.parametrize(
    "junk", [b"", b"hello", b"\x7fELF", b"\x7fELF\x01\x01" + b"\0" * 60, b"\x7fELF\x02\x02" * 20]
)
def test_not_elf(junk):
    with pytest.raises(ValueError, match="ELF"):
        parse_elf(junk)


def test_every_truncation_is_an_error(blob):
    for size in range(0, len(blob), 7):
        with pytest.raises(ValueError):
            parse_elf(blob[:size])


def test_damaged_files_never_crash(blob):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(400):
        damaged = bytearray(blob)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            link_image(parse_elf(bytes(damaged)), 0x10000, ["libm.so.6"])
        except (ValueError, AttributeError) as why:
            assert str(why), f"seed {seed}"


def _arm_object(words: list[int], relocations: list[tuple[int, int, int]]) -> bytes:
    """A minimal AArch64 object: .text, one external symbol `abs` and one local at byte 8."""
    text = struct.pack(f"<{len(words)}I", *words)
    names = b"\0.text\0.rela\0.sym\0.str\0"
    strings = b"\0abs\0here\0"
    symbols = b"".join(
        struct.pack("<IBBHQQ", *row)
        for row in [(0, 0, 0, 0, 0, 0), (1, 0x10, 0, 0, 0, 0), (5, 0x12, 0, 1, 8, 0)]
    )
    rela = b"".join(struct.pack("<QQq", at, sym << 32 | kind, 0) for at, sym, kind in relocations)
    parts = [b"", text, rela, symbols, strings, names]
    offsets, position = [], 64
    for part in parts:
        offsets.append(position)
        position += len(part)
    kinds = [(0, 0), (1, 6), (4, 0), (2, 0), (3, 0), (3, 0)]
    links = [(0, 0), (0, 0), (3, 1), (4, 1), (0, 0), (0, 0)]
    starts = [0, 1, 7, 13, 18, 18]
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 1, 183, 1, 0, 0, position, 0, 64, 0, 0, 64, 6, 5)
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", starts[i], kinds[i][0], kinds[i][1], 0, offsets[i],
                    len(parts[i]), *links[i], 4, 24)
        for i in range(6)
    )  # fmt: skip
    return head + b"".join(parts) + table


def test_aarch64_fields():
    nop, call, page, low = 0xD503201F, 0x94000000, 0x90000000, 0x91000000
    words = [call, call, nop, page, low]
    # CALL26 of an external and of a local symbol, ADRP and ADD of the local one
    blob = _arm_object(words, [(0, 1, 283), (4, 2, 283), (12, 2, 275), (16, 2, 277)])
    base = 0x7F0012340000
    image, _ = link_image(parse_elf(blob), base)
    got = struct.unpack_from("<5I", image)
    assert got[0] & 0x3FFFFFF == 32 // 4  # the stub lies behind the 20 bytes of text, aligned to 16
    assert got[1] & 0x3FFFFFF == 1  # from byte 4 to byte 8
    assert got[3] == page  # the same page
    assert (got[4] >> 10) & 0xFFF == 8
    slot = struct.unpack_from("<Q", image, 32 + 16)[0]
    assert slot == find_symbol("abs")
    assert struct.unpack_from("<I", image, 32)[0] == 0x58000090
