"""Content hashes, content-addressed storage, video frames."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Self

from tinygrad.dtype import dtypes
from tinygrad.helpers import ceildiv, prod
from tinygrad.tensor.core import TensorCore
from tinygrad.uop.ops import UOp

if TYPE_CHECKING:
    from tinygrad.uop.ops import Variable

# the storage-only devices of a content-addressed file system
_LOAD_DEVICE, _STORE_DEVICE = "tinyfs:load", "tinyfs:store"
_DIGEST = 16

# name -> (rate in bytes, domain separation byte), FIPS 202
_KECCAK = {"sha3_224": (144, 0x06), "sha3_256": (136, 0x06), "shake_128": (168, 0x1F)}


@functools.cache
def _round_constants() -> tuple[int, ...]:
    """The 24 constants of step iota, from the linear feedback register of FIPS 202, 3.2.5."""
    register, constants = 1, []
    for _ in range(24):
        constant = 0
        for j in range(7):
            constant |= (register & 1) << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


@functools.cache
def _lane_moves() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Steps rho and pi: for each lane of the result its source, and how far each source is turned."""
    turns, sources = [0] * 25, [0] * 25
    x, y = 1, 0
    for t in range(24):
        turns[x + 5 * y] = ((t + 1) * (t + 2) // 2) % 64
        x, y = y, (2 * x + 3 * y) % 5
    for y in range(5):
        for x in range(5):
            sources[y + 5 * ((2 * x + 3 * y) % 5)] = x + 5 * y
    return tuple(sources), tuple(turns)


class StorageMixin(TensorCore):
    """keccak and hash, the hash-addressed store, HEVC decoding."""

    __slots__ = ()
    CHUNK_SIZE: int = 2**20

    def _turn_left(self, bits: TensorCore) -> Self:
        """uint64 lanes rotated; split in two shifts, as a shift by all 64 bits is undefined."""
        return (self << bits) | ((self >> 1) >> (63 - bits))

    def _keccak_rounds(self, turns: TensorCore, sources: TensorCore, constants: TensorCore) -> Self:
        """Keccak-f[1600] of (batch, 25) lanes."""
        state = self
        one = turns[1:2]
        for i in range(24):
            rows = [state[:, 5 * y : 5 * y + 5] for y in range(5)]
            parity = rows[0] ^ rows[1] ^ rows[2] ^ rows[3] ^ rows[4]
            column = parity.roll(1, 1) ^ parity.roll(-1, 1)._turn_left(one)
            mixed = (state ^ column.repeat(1, 5)).contiguous()._turn_left(turns)
            moved = mixed.transpose(0, 1)._take_rows(sources).transpose(0, 1)
            grid = (
                moved.reshape(-1, 5, 5)
                if isinstance(moved.shape[0], int)
                else moved.unflatten(1, (5, 5))
            )
            chi = grid ^ ((grid.roll(-1, 2) ^ dtypes.max(dtypes.uint64)) & grid.roll(-2, 2))
            state = (chi.flatten(1) ^ constants[i]).contiguous()
        return state

    def keccak(self, cfg: str | tuple[int, int] = "sha3_256"):
        """Keccak digests (FIPS 202) of the bytes along the last axis, uint8 in and out.

        `cfg` is "sha3_224", "sha3_256", "shake_128" (16 bytes), or (rate, domain byte).

        >>> digest = Tensor(b"abc").keccak("sha3_256")
        >>> digest.shape, digest.dtype
        ((32,), dtypes.uchar)
        """
        rate, separator = _KECCAK[cfg] if isinstance(cfg, str) else cfg
        length = self.shape[-1]
        total = ceildiv(length + 1, rate) * rate
        tail = [0] * (total - length)
        tail[0] ^= separator
        tail[-1] ^= 0x80
        lead = self.shape[:-1]
        data = self.bitcast(dtypes.uint8) if self.dtype.itemsize == 1 else self.cast(dtypes.uint8)
        flat = data.reshape(prod(lead), length)
        closing = type(self)(tail, device=self.device, dtype=dtypes.uint8).unsqueeze(0)
        padded = flat.cat(closing.expand(flat.shape[0], len(tail)), dim=1)
        blocks = padded.reshape(flat.shape[0], total // 8, 8)
        lanes = blocks.bitcast(dtypes.uint64).reshape(flat.shape[0], total // 8).contiguous()
        sources, turns = _lane_moves()
        where = type(self)(list(sources), device=self.device, dtype=dtypes.int32)
        amounts = type(self)(list(turns), device=self.device, dtype=dtypes.uint64)
        constants = type(self)(list(_round_constants()), device=self.device, dtype=dtypes.uint64)
        constants = constants.unsqueeze(1).pad((None, (0, 24)))  # added to lane 0 only
        state: Any = None
        for block in lanes.split(rate // 8, dim=1):
            filled = block.pad((None, (0, 25 - rate // 8)))
            state = (filled if state is None else state ^ filled)._keccak_rounds(
                amounts, where, constants
            )
        width = (200 - rate) // 2
        digest = state.bitcast(dtypes.uint8)
        return digest[:, :width].reshape(*lead, width)

    def hash(self) -> Self:
        """A 16-byte content hash of up to `CHUNK_SIZE` bytes: SHAKE-128 of the SHAKE-128 of each
        4096 bytes, the data padded with zeros."""
        data = self.flatten().bitcast(dtypes.uint8)
        if data.shape[0] > self.CHUNK_SIZE:
            raise RuntimeError(f"hash takes at most {self.CHUNK_SIZE} bytes, got {data.shape[0]}")
        page = 4096
        data = data.pad_to(self.CHUNK_SIZE).reshape(self.CHUNK_SIZE // page, page)
        return data.keccak("shake_128").flatten().keccak("shake_128")

    # ---- content-addressed storage

    def fs_load(self, size: int) -> Self:
        """The `size` bytes whose tree of hashes starts at this 16-byte hash."""
        level, fan = self.contiguous().flatten(), self.CHUNK_SIZE // _DIGEST
        chunks = ceildiv(size, self.CHUNK_SIZE)
        depth = math.ceil(math.log(max(chunks, 1), fan)) if chunks > 1 else 0
        for height in range(depth, -1, -1):
            hashes = ceildiv(chunks, fan**height)
            level = level[: hashes * _DIGEST].to(_LOAD_DEVICE).to(self.device)
        return level[:size]

    def fs_store(self) -> Self:
        """Stores the bytes in chunks, then their hashes, until one hash of 16 bytes is left."""
        level = self.contiguous().flatten().bitcast(dtypes.uint8)
        while True:
            chunks = ceildiv(level.shape[0], self.CHUNK_SIZE)
            level = level.pad_to(chunks * self.CHUNK_SIZE).to(_STORE_DEVICE)
            level = level[: chunks * _DIGEST].contiguous().to(self.device)
            if chunks == 1:
                return level

    # ---- video

    def decode_hevc_frame(
        self,
        frame_pos: Variable,
        shape: tuple[int, ...],
        state: Self,
        ref_frames: list[Self] | None = None,
    ) -> Self:
        """One frame of the HEVC stream `self`, decoded by the device from its `state` record."""
        references = [t.contiguous().uop for t in ref_frames or []]
        stream, record = self.contiguous().uop, state.contiguous().uop
        where = frame_pos if isinstance(frame_pos, UOp) else UOp.const(dtypes.index, frame_pos)
        return self._wrap(stream.encdec(record, *references, where, arg=(tuple(shape),)))
