"""What the topics of the tensor API may ask of each other, for type checkers only.

Each module of this package adds the methods of one topic to `TensorCore`, and calls methods of the
other topics, which its own base class does not have. This module declares those methods once.
`core` names the classes here as bases under TYPE_CHECKING; at run time nothing imports this module.
Invariant: a signature here is the one in the topic that defines it; mypy compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy

from tinygrad.device import Buffer
from tinygrad.dtype import ConstType, DTypeLike
from tinygrad.uop.ops import Ops, UOp, sint

Axis = int | Sequence[int] | None


class Lender:
    """The buffer protocol, which the core gives."""

    def __buffer__(self, flags: int) -> memoryview:
        raise NotImplementedError


class CastMethods:
    """The methods `core` makes for each dtype that has a name of its own."""

    def cast(self, dtype: DTypeLike) -> Self:
        raise NotImplementedError

    def float(self) -> Self:
        return self.cast("float")

    def half(self) -> Self:
        return self.cast("half")

    def double(self) -> Self:
        return self.cast("double")

    def bfloat16(self) -> Self:
        return self.cast("bfloat16")

    def int(self) -> Self:
        return self.cast("int")

    def short(self) -> Self:
        return self.cast("short")

    def long(self) -> Self:
        return self.cast("long")

    def bool(self) -> Self:
        return self.cast("bool")


class CreationMethods(Protocol):
    """From `creation`."""

    @classmethod
    def from_uop(cls, y: UOp, **kwargs) -> Self: ...
    @classmethod
    def zeros(cls, *shape, **kwargs) -> Self: ...
    @classmethod
    def ones(cls, *shape, **kwargs) -> Self: ...
    @classmethod
    def empty(cls, *shape, **kwargs) -> Self: ...
    @classmethod
    def arange(cls, start, stop=None, step=1, **kwargs) -> Self: ...
    @classmethod
    def eye(
        cls,
        n: int,
        m: int | None = None,
        dtype=None,
        device=None,
        requires_grad: bool | None = None,
    ) -> Self: ...
    def empty_like(self, **kwargs) -> Self: ...
    def full_like(self, fill_value: ConstType, **kwargs) -> Self: ...
    def zeros_like(self, **kwargs) -> Self: ...
    def ones_like(self, **kwargs) -> Self: ...
    def _per_device(self, make, **kwargs) -> Self: ...


class ElementaryMethods(Protocol):
    """From `elementary`."""

    def sqrt(self) -> Self: ...
    def log(self) -> Self: ...
    def logsigmoid(self) -> Self: ...


class ElementwiseMethods(Protocol):
    """From `elementwise`."""

    def abs(self) -> Self: ...
    def sign(self) -> Self: ...
    def _as_float(self) -> Self: ...
    def _inverse(self) -> Self: ...


class ReduceMethods(Protocol):
    """From `reduce`."""

    def sum(self, axis: Axis = None, keepdim=False, dtype: DTypeLike | None = None) -> Self: ...
    def mean(self, axis: Axis = None, keepdim=False) -> Self: ...
    def max(self, axis: Axis = None, keepdim=False) -> Self: ...
    def any(self, axis: Axis = None, keepdim=False) -> Self: ...
    def all(self, axis: Axis = None, keepdim=False) -> Self: ...
    def log_softmax(self, axis=-1, dtype: DTypeLike | None = None) -> Self: ...
    def cumsum(self, axis: int = 0) -> Self: ...
    def argsort(self, dim: int = -1, descending: bool = False) -> Self: ...
    def _scan_direct(self, axis: int, op: Ops, exclusive: bool = False) -> Self: ...


class ShapeMethods(Protocol):
    """From `movement`, `indexing` and `scatter`."""

    def pad(
        self,
        padding: Sequence[sint] | Sequence[tuple[sint, sint] | None],
        mode: str = "constant",
        value: float = 0.0,
    ) -> Self: ...
    def cat(self, *args: Self, dim: int = 0) -> Self: ...
    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]: ...
    def pad_to(self, shape, *args) -> Self: ...
    def tril(self, diagonal: int = 0) -> Self: ...
    def _cut_axis(self, axis: int, end: sint) -> Self: ...
    def gather(self, dim: int, index: Self) -> Self: ...
    def __getitem__(self, indices) -> Self: ...
    def _windows(self, kernel: tuple[sint, ...], stride, dilation) -> Self: ...
    def _mask_positions(self, values: list[Any] | None = None) -> list[Self]: ...
    def _one_hot_bool(self, count: int) -> Self: ...
    def _take_rows(self, index: Any) -> Self: ...
    def _as_positions(self) -> Self: ...


class LinalgMethods(Protocol):
    """From `linalg`."""

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self: ...
    def image_dot(self, w: Self, dtype: DTypeLike | None = None) -> Self: ...
    def matmul(self, x: Self, reverse=False, dtype: DTypeLike | None = None) -> Self: ...


class MemoryMethods(Protocol):
    """From `memory`."""

    def assign(self, x) -> Self: ...
    def bitcast(self, dtype: DTypeLike) -> Self: ...
    def realize(self, *lst: Self, do_update_stats=True) -> Self: ...
    def item(self) -> ConstType: ...
    def to(self, device: str | tuple[str, ...] | None) -> Self: ...
    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Self: ...
    def tolist(self) -> Sequence[ConstType] | ConstType: ...
    def numpy(self) -> numpy.ndarray: ...
    def _storage(self) -> Buffer: ...
    def _known_shape(self) -> tuple[int, ...]: ...


class TensorMethods(
    CreationMethods,
    ElementaryMethods,
    ElementwiseMethods,
    ReduceMethods,
    ShapeMethods,
    LinalgMethods,
    MemoryMethods,
    CastMethods,
):
    """All of them: a base of `TensorCore` for type checkers."""
