"""Links the image of a relocatable object for an address, for x86-64 and AArch64.

In: an `ElfFile` and the address it will lie at. Out: the finished bytes. Functions of other
libraries may lie further away than a call reaches: each gets a stub behind the constant part of the
image, and a slot with its address. Used by the CPU loader. The formulas are those of the psABIs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tinygrad.runtime.support.elf import (
    EM_AARCH64,
    EM_X86_64,
    PAGE,
    SHN_UNDEF,
    ElfFile,
    ElfRelocation,
    find_symbol,
)

_STUB = 24  # code (16) and, behind it, the address it jumps to
_STUB_CODE = {
    EM_X86_64: bytes.fromhex("ff250a000000") + b"\xcc" * 10,  # jmp *[rip+10]
    EM_AARCH64: bytes.fromhex("90000058 00021fd6") + b"\0" * 8,  # ldr x16, .+16; br x16
}


def stub_room(found: ElfFile) -> int:
    """Bytes of stubs that `found` may need: one for each symbol relocations name."""
    return _STUB * len({r.symbol for r in found.relocations})


class _Linker:
    def __init__(self, found: ElfFile, base: int, libraries: list[str] | None):
        self.found, self.base, self.libraries = found, base, libraries
        self.stub_at = -(-found.code_size // 16) * 16
        room = -(-(self.stub_at + stub_room(found)) // PAGE) * PAGE
        self.constant_size = room
        # writable sections move behind the stubs
        self.shift = room - found.code_size if len(found.image) > found.code_size else 0
        self.image = bytearray(max(room, len(found.image) + self.shift))
        self.image[: found.code_size] = found.image[: found.code_size]
        tail = found.image[found.code_size :]
        self.image[room : room + len(tail)] = tail
        self.stubs: dict[str, int] = {}

    def moved(self, offset: int) -> int:
        return offset + self.shift if offset >= self.found.code_size else offset

    def address(self, r: ElfRelocation) -> int:
        """Where the symbol of `r` really is."""
        if r.symbol.section == SHN_UNDEF and r.symbol.name:
            return find_symbol(r.symbol.name, self.libraries)
        return self.base + self.moved(r.symbol.value)

    def stub(self, r: ElfRelocation) -> int:
        """Address of a stub that jumps to the symbol; its slot follows 16 bytes later."""
        key = r.symbol.name or f"#{r.symbol.value}"
        if key not in self.stubs:
            at = self.stubs[key] = self.stub_at
            self.image[at : at + 16] = _STUB_CODE[self.found.machine]
            struct.pack_into("<Q", self.image, at + 16, self.address(r))
            self.stub_at += _STUB
        return self.base + self.stubs[key]

    def callee(self, r: ElfRelocation) -> int:
        """Where a call or a near reference goes: the stub of a far symbol, else the symbol."""
        return self.stub(r) if r.symbol.section == SHN_UNDEF and r.symbol.name else self.address(r)

    def link(self) -> bytearray:
        patch = {EM_X86_64: self.patch_x86, EM_AARCH64: self.patch_arm}.get(self.found.machine)
        if patch is None:
            raise ValueError(
                f"the object is for ELF machine {self.found.machine}; this loader links x86-64 (62) "
                "and AArch64 (183)"
            )
        for r in self.found.relocations:
            try:
                patch(r, self.moved(r.offset))
            except struct.error as why:
                raise ValueError(
                    f"relocation {r.kind} of {r.symbol.name!r} at {r.offset} does not fit: {why}"
                ) from None
        return self.image

    def patch_x86(self, r: ElfRelocation, at: int) -> None:
        place = self.base + at
        if r.kind == 0:
            return
        if r.kind == 1:  # R_X86_64_64
            struct.pack_into("<Q", self.image, at, (self.address(r) + r.addend) % 2**64)
        elif r.kind in (2, 4):  # PC32, PLT32
            struct.pack_into("<i", self.image, at, self.callee(r) + r.addend - place)
        elif r.kind in (9, 41, 42):  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
            struct.pack_into("<i", self.image, at, self.stub(r) + 16 + r.addend - place)
        elif r.kind == 10:  # R_X86_64_32
            struct.pack_into("<I", self.image, at, self.address(r) + r.addend)
        elif r.kind == 11:  # R_X86_64_32S
            struct.pack_into("<i", self.image, at, self.address(r) + r.addend)
        elif r.kind == 24:  # R_X86_64_PC64
            struct.pack_into("<q", self.image, at, self.address(r) + r.addend - place)
        else:
            raise ValueError(f"x86-64 relocation {r.kind} of {r.symbol.name!r} is not supported")

    def patch_arm(self, r: ElfRelocation, at: int) -> None:
        place = self.base + at
        if r.kind in (0, 256):
            return
        if r.kind == 257:  # ABS64
            struct.pack_into("<Q", self.image, at, (self.address(r) + r.addend) % 2**64)
        elif r.kind == 260:  # PREL64
            struct.pack_into("<q", self.image, at, self.address(r) + r.addend - place)
        elif r.kind == 261:  # PREL32
            struct.pack_into("<i", self.image, at, self.address(r) + r.addend - place)
        else:
            field = _ARM_FIELDS.get(r.kind)
            if field is None:
                raise ValueError(
                    f"AArch64 relocation {r.kind} of {r.symbol.name!r} is not supported"
                )
            word = struct.unpack_from("<I", self.image, at)[0]
            struct.pack_into("<I", self.image, at, field(self, r, place, word))


def _insert(word: int, value: int, low: int, bits: int, signed: bool, r: ElfRelocation) -> int:
    """`word` with the field of `bits` bits from bit `low` on set to `value`."""
    smallest, largest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not smallest <= value <= largest:
        raise ValueError(f"relocation {r.kind} of {r.symbol.name!r} is out of reach: {value}")
    mask = ((1 << bits) - 1) << low
    return (word & ~mask) | ((value << low) & mask)


def _arm_branch(bits: int, low: int) -> Callable[[_Linker, ElfRelocation, int, int], int]:
    def field(ln: _Linker, r: ElfRelocation, place: int, word: int) -> int:
        return _insert(word, (ln.callee(r) + r.addend - place) >> 2, low, bits, True, r)

    return field


def _split_address(word: int, value: int, r: ElfRelocation) -> int:
    low = _insert(word, value & 3, 29, 2, False, r)
    return _insert(low, value >> 2, 5, 19, True, r)


def _arm_page(ln: _Linker, r: ElfRelocation, place: int, word: int) -> int:
    return _split_address(word, ((ln.address(r) + r.addend) >> 12) - (place >> 12), r)


def _arm_slot_page(ln: _Linker, r: ElfRelocation, place: int, word: int) -> int:
    return _split_address(word, ((ln.stub(r) + 16) >> 12) - (place >> 12), r)


def _arm_slot_low(ln: _Linker, r: ElfRelocation, place: int, word: int) -> int:
    return _insert(word, ((ln.stub(r) + 16) & 0xFFF) >> 3, 10, 12, False, r)


def _arm_near(ln: _Linker, r: ElfRelocation, place: int, word: int) -> int:
    return _split_address(word, ln.address(r) + r.addend - place, r)


def _arm_low(scale: int) -> Callable[[_Linker, ElfRelocation, int, int], int]:
    def field(ln: _Linker, r: ElfRelocation, place: int, word: int) -> int:
        return _insert(word, ((ln.address(r) + r.addend) & 0xFFF) >> scale, 10, 12, False, r)

    return field


_ARM_FIELDS = {
    274: _arm_near,  # ADR_PREL_LO21
    275: _arm_page,  # ADR_PREL_PG_HI21
    276: _arm_page,
    277: _arm_low(0),  # ADD_ABS_LO12_NC
    278: _arm_low(0),  # LDST8_ABS_LO12_NC
    284: _arm_low(1),
    285: _arm_low(2),
    286: _arm_low(3),
    299: _arm_low(4),
    279: _arm_branch(14, 5),  # TSTBR14
    280: _arm_branch(19, 5),  # CONDBR19
    282: _arm_branch(26, 0),  # JUMP26
    283: _arm_branch(26, 0),  # CALL26
    311: _arm_slot_page,  # ADR_GOT_PAGE
    312: _arm_slot_low,  # LD64_GOT_LO12_NC
}


def linked_size(found: ElfFile) -> int:
    """Size of the linked image; it does not depend on the address."""
    return len(_Linker(found, 0, None).image)


def link_image(
    found: ElfFile, base: int, libraries: list[str] | None = None
) -> tuple[bytearray, int]:
    """The image of `found` for address `base`, and how many of its bytes are never written to.

    Raises ValueError for a relocation that is unknown or out of reach, AttributeError for a symbol
    that neither this process nor `libraries` has.
    """
    linker = _Linker(found, base, libraries)
    return linker.link(), linker.constant_size
