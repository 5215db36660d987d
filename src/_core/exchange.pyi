"""Types of the native half of interoperation."""

from typing import Any

HOST: tuple[int, int]

class Lender:
    def _lend(self, writable: bool) -> tuple[Any, Any, tuple[int, ...], bytes, int]: ...
    def __buffer__(self, flags: int) -> memoryview: ...

def capsule(
    address: int,
    shape: tuple[int, ...],
    code: int,
    bits: int,
    owner: Any,
    versioned: bool,
    copied: bool = False,
) -> Any: ...

class Borrowed:
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: tuple[int, int, int]
    device: tuple[int, int]
    read_only: bool
    def __new__(cls, source: Any) -> Borrowed: ...
