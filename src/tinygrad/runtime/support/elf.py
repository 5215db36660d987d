"""ELF64 objects: parsing, layout into one image, and linking of the result.

In: the bytes of a little-endian ELF64 file, a relocatable object from a compiler or a linked code
object of a GPU. Out: `ElfFile` with sections laid out in one image, its symbols and relocations;
`elf_link` applies the relocations for a load address. Nothing here
maps memory or runs code.

Invariants: every offset is checked against the size of the file before it is used, so that a
damaged file gives a ValueError that says what is wrong and never an index error or a wrong image.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import struct
from dataclasses import dataclass, field

EM_X86_64, EM_AARCH64 = 62, 183
ET_REL = 1
SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 1, 2, 4, 8, 9
SHF_WRITE, SHF_ALLOC = 1, 2
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2
STT_FUNC = 2
PAGE = 4096
_LARGEST_IMAGE = 1 << 31


@dataclass
class ElfHeader:
    """Fields of a section header under their ELF names."""

    sh_name: int
    sh_type: int
    sh_flags: int
    sh_addr: int
    sh_offset: int
    sh_size: int
    sh_link: int
    sh_info: int
    sh_addralign: int
    sh_entsize: int


@dataclass
class ElfSection:
    """A section; for one that is loaded, `header.sh_addr` is its offset in the image."""

    name: str
    header: ElfHeader
    content: bytes


@dataclass(frozen=True)
class ElfSymbol:
    """`value` is an offset in the image where `section` is a section, else as in the file."""

    name: str
    value: int
    section: int
    kind: int


@dataclass(frozen=True)
class ElfRelocation:
    """A place in the image (`offset`) that depends on where `symbol` lies."""

    offset: int
    symbol: ElfSymbol
    kind: int
    addend: int


@dataclass
class ElfFile:
    """A parsed file. `code_size` bytes of the image come first and are never written to."""

    machine: int
    sections: list[ElfSection]
    image: bytearray
    code_size: int
    symbols: list[ElfSymbol] = field(default_factory=list)
    relocations: list[ElfRelocation] = field(default_factory=list)

    def functions(self) -> dict[str, int]:
        """Offset in the image of every function."""
        return {
            s.name: s.value for s in self.symbols if s.kind == STT_FUNC and s.section != SHN_UNDEF
        }


def _take(blob: bytes, fmt: str, offset: int, what: str) -> tuple:
    size = struct.calcsize(fmt)
    if offset < 0 or offset + size > len(blob):
        raise ValueError(
            f"not a whole ELF file: {what} at byte {offset} needs {size} bytes, the file has {len(blob)}"
        )
    return struct.unpack_from(fmt, blob, offset)


def _string(table: bytes, offset: int, what: str) -> str:
    end = table.find(b"\0", offset)
    if offset < 0 or offset >= len(table) or end < 0:
        raise ValueError(f"damaged ELF file: {what} names string {offset}, outside its table")
    return table[offset:end].decode("utf-8", "replace")


def _read_sections(blob: bytes) -> tuple[int, int, list[ElfSection]]:
    if blob[:4] != b"\x7fELF":
        raise ValueError(
            f"not an ELF file: it starts with {bytes(blob[:4])!r}, expected b'\\x7fELF'"
        )
    if blob[4:6] != b"\x02\x01":
        raise ValueError(
            f"ELF class and byte order {blob[4:6].hex()} are not supported, expected 64-bit little-endian"
        )
    head = _take(blob, "<HHIQQQIHHHHHH", 16, "the file header")
    kind, machine, table, entry_size, count, names_at = (head[i] for i in (0, 1, 5, 10, 11, 12))
    if count and entry_size != 64:
        raise ValueError(f"damaged ELF file: section headers of {entry_size} bytes, expected 64")
    headers = [
        ElfHeader(*_take(blob, "<IIQQQQIIQQ", table + 64 * i, f"section header {i}"))
        for i in range(count)
    ]
    contents = [_content(blob, i, h) for i, h in enumerate(headers)]
    if count and names_at >= count:
        raise ValueError(f"damaged ELF file: section names in section {names_at} of {count}")
    sections = [
        ElfSection(_string(contents[names_at], h.sh_name, "a section header"), h, c)
        for h, c in zip(headers, contents, strict=True)
    ]
    return kind, machine, sections


def _content(blob: bytes, number: int, header: ElfHeader) -> bytes:
    if header.sh_type in (0, SHT_NOBITS):
        return b""
    if header.sh_offset + header.sh_size > len(blob):
        raise ValueError(
            f"not a whole ELF file: section {number} ends at byte "
            f"{header.sh_offset + header.sh_size}, the file has {len(blob)}"
        )
    return bytes(blob[header.sh_offset : header.sh_offset + header.sh_size])


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _stack_up(sections: list[ElfSection], position: int, force_align: int) -> int:
    """Places sections one after the other from `position` on; returns where the last one ends."""
    for s in sections:
        position = _round_up(position, max(s.header.sh_addralign, force_align, 1))
        s.header.sh_addr = position
        position += s.header.sh_size
        _check_size(position)
    return position


def _place(sections: list[ElfSection], force_align: int, linked: bool) -> tuple[int, int]:
    """Gives loaded sections their image offsets; returns (size of image, size of constant part)."""
    loaded = [s for s in sections if s.header.sh_flags & SHF_ALLOC and s.header.sh_type != 0]
    if linked:
        end = max((s.header.sh_addr + s.header.sh_size for s in loaded), default=0)
        _check_size(end)
        return end, end
    constant = [s for s in loaded if not s.header.sh_flags & SHF_WRITE]
    writable = [s for s in loaded if s.header.sh_flags & SHF_WRITE]
    code_size = position = _stack_up(constant, 0, force_align)
    if writable:
        code_size = _round_up(position, PAGE)
        position = _stack_up(writable, code_size, force_align)
    return position, code_size


def _check_size(size: int) -> None:
    if size > _LARGEST_IMAGE:
        raise ValueError(f"damaged ELF file: an image of {size} bytes, more than {_LARGEST_IMAGE}")


def _read_symbols(sections: list[ElfSection], table: ElfSection, linked: bool) -> list[ElfSymbol]:
    if table.header.sh_link >= len(sections):
        raise ValueError("damaged ELF file: a symbol table without a string table")
    names = sections[table.header.sh_link].content
    found = []
    for at in range(0, len(table.content) - 23, 24):
        name, info, _, section, value, _ = _take(table.content, "<IBBHQQ", at, "a symbol")
        text = _string(names, name, "a symbol") if name else ""
        if section == SHN_COMMON:
            raise ValueError(f"symbol {text!r} is a common block; compile with -fno-common")
        if section not in (SHN_UNDEF, SHN_ABS) and not linked:
            if section >= len(sections):
                raise ValueError(f"damaged ELF file: symbol {text!r} in section {section}")
            value += sections[section].header.sh_addr
            text = text or sections[section].name
        found.append(ElfSymbol(text, value, section, info & 15))
    return found


def _read_relocations(
    sections: list[ElfSection], table: ElfSection, symbols: list[ElfSymbol], linked: bool
) -> list[ElfRelocation]:
    if linked:
        base, size = 0, _LARGEST_IMAGE
    elif table.header.sh_info < len(sections):
        target = sections[table.header.sh_info].header
        if not target.sh_flags & SHF_ALLOC:
            return []
        base, size = target.sh_addr, target.sh_size
    else:
        raise ValueError(f"damaged ELF file: {table.name} relocates section {table.header.sh_info}")
    with_addend = table.header.sh_type == SHT_RELA
    step, fmt = (24, "<QQq") if with_addend else (16, "<QQ")
    found = []
    for at in range(0, len(table.content) - step + 1, step):
        offset, info, *addend = _take(table.content, fmt, at, f"an entry of {table.name}")
        if info >> 32 >= len(symbols) or offset >= size:
            raise ValueError(
                f"damaged ELF file: entry {at // step} of {table.name} is out of range"
            )
        symbol = symbols[info >> 32]
        kind = info & 0xFFFFFFFF
        found.append(ElfRelocation(base + offset, symbol, kind, addend[0] if addend else 0))
    return found


def parse_elf(blob: bytes, force_section_align: int = 1) -> ElfFile:
    """Parses and lays out `blob`. Raises ValueError naming what is wrong with a bad file."""
    kind, machine, sections = _read_sections(blob)
    linked = kind != ET_REL
    size, code_size = _place(sections, force_section_align, linked)
    image = bytearray(size)
    for s in sections:
        if s.header.sh_flags & SHF_ALLOC and s.content:
            image[s.header.sh_addr : s.header.sh_addr + len(s.content)] = s.content
    found = ElfFile(machine, sections, image, code_size)
    tables = {i: _read_symbols(sections, s, linked) for i, s in enumerate(sections)
              if s.header.sh_type in (SHT_SYMTAB, 11)}  # fmt: skip
    found.symbols = [symbol for table in tables.values() for symbol in table]
    for s in sections:
        if s.header.sh_type in (SHT_RELA, SHT_REL):
            used = tables.get(s.header.sh_link, [])
            found.relocations += _read_relocations(sections, s, used, linked)
    return found


@functools.cache
def _library(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        path = ctypes.util.find_library(name) if name else None
        return ctypes.CDLL(path) if path else None


def find_symbol(name: str, libraries: list[str] | None = None) -> int:
    """Address of a function of this process, or of one of `libraries`.

    Raises AttributeError naming the symbol when none has it.
    """
    places = [None, *(libraries or [])]
    for place in places:
        library = _library(place)
        function = getattr(library, name, None) if library is not None else None
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise AttributeError(
        f"symbol {name!r} is not defined in the object, nor in {['this process', *places[1:]]}; "
        "give the library that has it in link_libs"
    )


def elf_loader(
    blob: bytes, force_section_align: int = 1, link_libs: list[str] | None = None
) -> tuple[memoryview, list[ElfSection], list[tuple]]:
    """(image, sections, relocations) of an ELF file, for loaders that relocate by themselves.

    A relocation is (offset in the image, value of the symbol, kind, addend); the value is an offset
    in the image, or an address for a symbol that `link_libs` (or this process) provides.
    """
    found = parse_elf(blob, force_section_align)
    relocations = []
    for r in found.relocations:
        external = r.symbol.section == SHN_UNDEF and r.symbol.name
        value = find_symbol(r.symbol.name, link_libs) if external else r.symbol.value
        relocations.append((r.offset, value, r.kind, r.addend))
    return memoryview(found.image), found.sections, relocations
