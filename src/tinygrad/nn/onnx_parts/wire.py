"""The wire format of protocol buffers: varints, fixed-size numbers and length-delimited fields.

Every length is checked against what remains of the enclosing message before anything is read, so that
a damaged file raises ValueError (a malformed field) or EOFError (it ends early), and never makes the
reader allocate more than the file holds. Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import enum
import io
import struct

from tinygrad.dtype import dtypes
from tinygrad.nn.formats.reading import TensorIO
from tinygrad.tensor import Tensor

_MAX_VARINT_BYTES = 10
_CHUNK = 1 << 16


class WireType(enum.IntEnum):
    """How the payload of a field is laid out."""

    VARINT = 0
    FIXED64 = 1
    LENGTH_DELIMITED = 2
    START_GROUP = 3
    END_GROUP = 4
    FIXED32 = 5


class PBBufferedReader(io.BufferedReader):
    """Reads fields from a 1-d uint8 tensor; `limit` is where the message being read ends.

    >>> from tinygrad.nn.onnx import PBBufferedReader
    >>> PBBufferedReader(Tensor(bytes([0x96, 0x01]))).decode_varint()
    150
    """

    def __init__(self, tensor: Tensor):
        super().__init__(TensorIO(tensor), buffer_size=_CHUNK)
        self.tensor, self.limit = tensor, len(tensor)

    def take(self, count: int) -> bytes:
        """The next `count` bytes. Raises EOFError where the message has fewer."""
        self._require(count)
        part = self.read(count)
        if len(part) != count:
            raise EOFError(f"expected {count} bytes, the file gave {len(part)}")
        return part

    def _require(self, count: int) -> None:
        left = self.limit - self.tell()
        if count > left:
            raise EOFError(f"a field of {count} bytes does not fit in the {left} that remain")

    def decode_varint(self) -> int:
        """An unsigned number of 64 bits, seven bits in each byte. Raises ValueError where longer."""
        ahead = self.peek(_MAX_VARINT_BYTES)
        if len(ahead) < _MAX_VARINT_BYTES:
            # a peek may stop at the end of the buffer
            start = self.tell()
            ahead = self.read(_MAX_VARINT_BYTES)
            self.seek(start)
        value = 0
        for i, byte in enumerate(ahead[:_MAX_VARINT_BYTES]):
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                self.take(i + 1)
                return value & 0xFFFF_FFFF_FFFF_FFFF
        if len(ahead) < _MAX_VARINT_BYTES:
            raise EOFError("the file ends within a varint")
        raise ValueError(f"a varint is longer than {_MAX_VARINT_BYTES} bytes")

    def length(self) -> int:
        """The length prefix of a field, checked against what remains."""
        count = self.decode_varint()
        self._require(count)
        return count

    def span(self) -> tuple[int, int]:
        """Where the length-delimited field lies, as (start, end); moves behind it."""
        count = self.length()
        start = self.tell()
        self.seek(start + count)
        return start, start + count

    def read_delimited(self, use_tensor: bool = False):
        """A length-delimited field: its bytes, or (`use_tensor`) the part of the tensor that holds it."""
        if not use_tensor:
            return self.take(self.length())
        start, end = self.span()
        return self.tensor[start:end]

    def read_bytes(self) -> Tensor:
        """A length-delimited field as a part of the tensor, not copied."""
        return self.read_delimited(use_tensor=True)

    def read_string(self) -> str:
        """A length-delimited field as text. Raises ValueError where it is no UTF-8."""
        return self.read_delimited().decode("utf-8")

    def read_int64(self) -> int:
        """A varint as a signed number of 64 bits."""
        value = self.decode_varint()
        return value - (1 << 64) if value >> 63 else value

    def read_float(self) -> float:
        """Four bytes as a float."""
        return struct.unpack("<f", self.take(4))[0]

    def read_packed_floats(self) -> Tensor:
        """A length-delimited run of floats, as a float32 tensor."""
        data = self.read_delimited()
        if len(data) % 4:
            raise ValueError(f"{len(data)} bytes hold no whole number of floats")
        return Tensor(list(struct.unpack(f"<{len(data) // 4}f", data)), dtype=dtypes.float32)

    def read_packed_int64s(self) -> list[int]:
        """A length-delimited run of varints, as signed numbers."""
        count = self.length()
        end, outer = self.tell() + count, self.limit
        self.limit = end
        values = []
        while self.tell() < end:
            values.append(self.read_int64())
        self.limit = outer
        return values

    def skip_field(self, wire_type: WireType) -> None:
        """Moves behind a field whose tag was read; groups (an old construct) with all that is inside."""
        open_groups = 0
        while True:
            if wire_type == WireType.VARINT:
                self.decode_varint()
            elif wire_type == WireType.LENGTH_DELIMITED:
                self.span()
            elif wire_type in (WireType.FIXED32, WireType.FIXED64):
                self.take(4 if wire_type == WireType.FIXED32 else 8)
            elif wire_type == WireType.START_GROUP:
                open_groups += 1
            elif wire_type == WireType.END_GROUP and open_groups:
                open_groups -= 1
            else:
                raise ValueError(f"unexpected wire type {int(wire_type)}")
            if not open_groups:
                return
            _, wire_type = self.tag()

    def tag(self) -> tuple[int, WireType]:
        """Number and wire type of the next field. Raises ValueError where there is no such type."""
        key = self.decode_varint()
        if key & 7 > WireType.FIXED32 or key >> 3 == 0:
            raise ValueError(f"{key} is no tag of a field")
        return key >> 3, WireType(key & 7)
