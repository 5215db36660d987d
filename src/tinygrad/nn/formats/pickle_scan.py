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


def scan(stream: Any) -> bytes:
    """The bytes of the pickle at the position of the stream, which moves behind it.

    Raises pickle.UnpicklingError where it is damaged or uses an opcode that is refused.
    """
    start, opcodes = stream.tell(), 0
    buffered = io.BufferedReader(stream, 1 << 16) if isinstance(stream, io.RawIOBase) else stream
    end = start
    try:
        for opcode, argument, position in pickletools.genops(buffered):
            opcodes += 1
            if opcode.name in _REFUSED:
                raise pickle.UnpicklingError(f"opcode {opcode.name} at {position} is not allowed")
            if opcode.name in _MEMO and not 0 <= argument <= opcodes:
                raise pickle.UnpicklingError(f"memo slot {argument} at {position} is out of reach")
            end = buffered.tell()
    except (ValueError, AttributeError, TypeError, OverflowError, IndexError) as error:
        raise pickle.UnpicklingError(f"the pickle at {start} is damaged: {error}") from error
    finally:
        if buffered is not stream:
            buffered.detach()
    stream.seek(start)
    data = stream.read(end - start)
    stream.seek(end)
    return data
