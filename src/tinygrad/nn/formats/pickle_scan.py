"""Looks at a pickle before it is loaded: only plain data, and no opcode that could exhaust memory.

The C unpickler allocates for what an opcode announces (a memo slot, a byte array) before it looks whether
the data is there, and lets opcodes reach any global. This scan refuses such streams; it never loads.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

# arguments of these are places in the memo
_MEMO = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"})
# no writer of checkpoints uses them: classes by other ways than GLOBAL, and buffers outside the stream
_REFUSED = frozenset(
    {"EXT1", "EXT2", "EXT4", "INST", "OBJ", "NEXT_BUFFER", "READONLY_BUFFER", "BYTEARRAY8"}
)


class _Bounded(io.BufferedReader):
    """Reads no more than there is: the base class allocates what it is asked for."""

    def __init__(self, raw: io.RawIOBase):
        here = raw.tell()
        self._end = raw.seek(0, io.SEEK_END)
        raw.seek(here)
        super().__init__(raw, 1 << 16)

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes."""
        left = self._end - self.tell()
        return super().read(left if size is None or size < 0 else min(size, left))


def scan(stream: io.RawIOBase) -> bytes:
    """The bytes of the pickle at the position of the stream, which moves behind it.

    Raises pickle.UnpicklingError where it is damaged or uses an opcode that is refused.
    """
    start, opcodes = stream.tell(), 0
    buffered = _Bounded(stream)
    end = start
    try:
        for opcode, argument, position in pickletools.genops(buffered):
            opcodes += 1
            slot: Any = argument
            if opcode.name in _REFUSED:
                raise pickle.UnpicklingError(f"opcode {opcode.name} at {position} is not allowed")
            if opcode.name in _MEMO and not 0 <= slot <= opcodes:
                raise pickle.UnpicklingError(f"memo slot {slot} at {position} is out of reach")
            end = buffered.tell()
    except (ValueError, AttributeError, TypeError, OverflowError, IndexError) as error:
        raise pickle.UnpicklingError(f"the pickle at {start} is damaged: {error}") from error
    finally:
        buffered.detach()
    stream.seek(start)
    data = stream.read(end - start)
    stream.seek(end)
    return data
