"""Types of the remembered places as the rest of the package sees them."""

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

DICT: int
OBJECT: int
READER: int
MISSING: Any
GONE: Any

class Expected:
    def same(self, now: Any) -> bool: ...

class Identity(Expected):
    def __init__(self, value: Any, *rest: Any) -> None: ...
    @property
    def value(self) -> Any: ...

class Sequence(Expected):
    def __init__(self, kind: type, items: list[Any]) -> None: ...

class Mapping(Expected):
    def __init__(self, kind: type, items: dict[Any, Any]) -> None: ...

def is_same(expected: Any, now: Any) -> bool: ...

class Group:
    owner: Any
    kind: int
    keys: list[Any]
    expected: list[Any]
    labels: list[str]

class Places:
    groups: dict[int, Group]
    def __len__(self) -> int: ...
    def add(self, kind: int, owner: Any, key: Any, expected: Any, label: str) -> None: ...
    def drop(self, unneeded: Callable[[Any], bool]) -> None: ...
    def differing(self) -> str | None: ...

class Entries:
    def __init__(
        self, wanted: Callable[[CodeType], bool], enter: Callable[[FrameType], None]
    ) -> None: ...
    def __enter__(self) -> Entries: ...
    def __exit__(self, *exc: object) -> None: ...
