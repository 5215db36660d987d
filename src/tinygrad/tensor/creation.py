"""Tensors from nothing: constants, ranges, identity, memory.

Shapes are given as separate sizes or one sequence; `device`, `dtype` and `requires_grad` as for
`Tensor(...)`. Constants take no memory until they are made contiguous.
"""

from __future__ import annotations

import gzip
import math
import weakref
import zlib
from typing import Self

import numpy as np

from tinygrad.dtype import ConstType, DTypeLike, dtypes, to_dtype
from tinygrad.helpers import argfix, fetch, prod
from tinygrad.tensor.core import TensorCore, canonical_devices
from tinygrad.uop.ops import Ops, UOp, resolve, sint


def checked_shape(*shape) -> tuple[sint, ...]:
    """A shape given as sizes or one sequence. Raises ValueError for sizes below 0."""
    sizes = tuple(argfix(*shape))
    for size in sizes:
        if isinstance(size, UOp):
            continue
        whole = isinstance(size, int) or hasattr(size, "__index__")
        if not whole or isinstance(size, TensorCore):
            raise ValueError(f"sizes are whole numbers, got {size!r} in {sizes}")
        if size < 0:
            raise ValueError(f"sizes must not be negative, got {sizes}")
    return sizes


# buffers made by `empty`: until they are written their contents mean nothing
_blank: weakref.WeakSet[UOp] = weakref.WeakSet()


def is_blank(node: UOp) -> bool:
    """Whether `node` is memory nothing was written to, so that it need not be copied."""
    return node.base in _blank and node.op in (Ops.BUFFER, Ops.RESHAPE) and not node.is_realized


class CreationMixin(TensorCore):
    """Constructors. All are called on the class: `Tensor.zeros(2, 3)`."""

    __slots__ = ()

    @classmethod
    def from_uop(cls, y: UOp, **kwargs) -> Self:
        """A scalar tensor of a symbolic integer, computed when the kernel runs.

        Sums, products and quotients of bound variables and constants; kwargs as for `Tensor(...)`.

        >>> Tensor.from_uop(Variable("n", 1, 8).bind(3) + 1).item()
        4
        """
        kwargs.setdefault("requires_grad", False)
        made: dict[UOp, Self] = {}
        for u in y.toposort():
            if u.op is Ops.DEFINE_VAR:
                continue  # only a bound variable has a value
            if u.op is Ops.BIND:
                made[u] = cls(u, **kwargs).cast(dtypes.default_int)
            elif u.op is Ops.CONST:
                made[u] = cls(u.arg, **kwargs)
            elif u.op is Ops.CAST and u.src[0] in made:
                made[u] = made[u.src[0]]
            elif u.src and all(s in made for s in u.src):
                made[u] = made[u.src[0]].alu(u.op, *[made[s] for s in u.src[1:]])
            else:
                raise RuntimeError(
                    f"{u.op} cannot be a tensor: bind all variables and use arithmetic only"
                )
        return made[y]

    @classmethod
    def empty(
        cls,
        *shape,
        device: str | tuple[str, ...] | None = None,
        dtype: DTypeLike | None = None,
        **kwargs,
    ) -> Self:
        """Memory of the given shape with arbitrary contents.

        >>> Tensor.empty(2, 3).shape
        (2, 3)
        """
        sizes = checked_shape(*shape)
        kind = dtypes.default_float if dtype is None else to_dtype(dtype)
        where = canonical_devices(device)
        room = [int(s.vmax) if isinstance(s, UOp) else s for s in sizes]
        node = UOp.new_buffer(where, prod(room), kind)
        _blank.add(node)
        if room != list(sizes):
            node = node.reshape(tuple(room)).shrink(tuple((0, s) for s in sizes))
        elif sizes != (prod(room),):
            node = node.reshape(sizes)
        return cls(node, where, kind, **kwargs)

    def empty_like(self, **kwargs) -> Self:
        """Memory with the shape, dtype and device of `self`, unless kwargs say otherwise.

        >>> Tensor([[1, 2]]).empty_like().shape
        (1, 2)
        """
        kind, where = kwargs.pop("dtype", self.dtype), kwargs.pop("device", self.device)
        if isinstance(where, tuple) and where == self.device and self.uop.axis is not None:
            return self._per_device(type(self).empty, dtype=kind, **kwargs)
        return self.empty(self.shape, dtype=kind, device=where, **kwargs)

    def _per_device(self, make, **kwargs) -> Self:
        """A sharded tensor laid out like `self`, each part made by `make(shape, device=...)`."""
        axis, devices = self.uop.axis, self.device
        if (
            axis is not None
            and isinstance(self.shape[axis], int)
            and self.shape[axis] % len(devices)
        ):
            raise RuntimeError(
                f"cannot shard axis {axis} of length {self.shape[axis]} over {len(devices)} devices: "
                "the length must be a multiple of the number of devices"
            )
        part = tuple(s // len(devices) if i == axis else s for i, s in enumerate(self.shape))
        grad = kwargs.pop("requires_grad", None)
        pieces = [make(*part, device=d, **kwargs).uop for d in devices]
        joined = UOp(Ops.MSTACK, pieces[0].dtype, tuple(pieces))
        return self._wrap(joined.multi(axis), grad)

    @classmethod
    def full(cls, shape: tuple[sint, ...], fill_value: ConstType, **kwargs) -> Self:
        """Every element is `fill_value`; the dtype follows it unless given.

        >>> Tensor.full((2, 2), 7).tolist()
        [[7, 7], [7, 7]]
        """
        sizes = checked_shape(shape)
        if isinstance(fill_value, UOp):
            kwargs.pop("buffer", None)
            kind = kwargs.pop("dtype", None)
            scalar = cls.from_uop(fill_value, **kwargs)
            scalar = scalar if kind is None else scalar.cast(kind)
        else:
            scalar = cls(fill_value, _force_unique=True, **kwargs)
        return scalar.reshape((1,) * len(sizes)).expand(sizes)

    @classmethod
    def zeros(cls, *shape, **kwargs) -> Self:
        """Zeros (default_float unless a dtype is given).

        >>> Tensor.zeros(2, 2).tolist()
        [[0.0, 0.0], [0.0, 0.0]]
        """
        return cls.full(argfix(*shape), 0.0, **kwargs)

    @classmethod
    def ones(cls, *shape, **kwargs) -> Self:
        """Ones (default_float unless a dtype is given).

        >>> Tensor.ones(2, 2).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """
        return cls.full(argfix(*shape), 1.0, **kwargs)

    def full_like(self, fill_value: ConstType, **kwargs) -> Self:
        """`fill_value` everywhere, with the shape, dtype and device of `self`.

        >>> Tensor([1, 2]).full_like(9).tolist()
        [9, 9]
        """
        kind, where = kwargs.pop("dtype", self.dtype), kwargs.pop("device", self.device)
        if isinstance(where, tuple) and where == self.device and self.uop.axis is not None:
            make = type(self).full
            return self._per_device(
                lambda *part, **more: make(part, fill_value, **more), dtype=kind, **kwargs
            )
        return self.full(self.shape, fill_value, dtype=kind, device=where, **kwargs)

    def zeros_like(self, **kwargs) -> Self:
        """Zeros like `self`.

        >>> Tensor([[5, 6]]).zeros_like().tolist()
        [[0, 0]]
        """
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs) -> Self:
        """Ones like `self`.

        >>> Tensor([[5, 6]]).ones_like().tolist()
        [[1, 1]]
        """
        return self.full_like(1, **kwargs)

    @classmethod
    def arange(cls, start, stop=None, step=1, **kwargs) -> Self:
        """`start, start + step, ...` up to but without `stop`; one argument counts from 0.

        Ints unless an argument is a float. Raises ValueError where a value does not fit the dtype.

        >>> Tensor.arange(2, 8, 3).tolist()
        [2, 5]
        >>> Tensor.arange(3).tolist()
        [0, 1, 2]
        """
        first, end = (0, start) if stop is None else (start, stop)
        # scalars of NumPy are the numbers they hold: its float32 is no float to Python
        given = tuple(v.item() if isinstance(v, np.generic) else v for v in (first, end, step))
        first, end, step = given
        is_float = any(isinstance(v, float) for v in given)
        kind = to_dtype(
            kwargs.pop("dtype", None) or (dtypes.default_float if is_float else dtypes.default_int)
        )
        if any(isinstance(v, UOp) for v in given):
            way, pace = (end - first, step) if resolve(step > 0) else (first - end, -step)
            count = (way + pace - 1) // pace
        else:
            count = max(0, math.ceil((end - first) / step))
            last = first + (count - 1) * step
            if dtypes.is_int(kind) and count:
                for v in (first, last):
                    if not dtypes.min(kind) <= v <= dtypes.max(kind):
                        raise ValueError(f"arange reaches {v}, which is out of range of {kind}")
        if isinstance(count, int) and count == 0:
            return cls.full((0,), 0, dtype=kind, **kwargs)
        # running sum of the step: the scheduler turns it into the closed form
        wide = dtypes.int32 if dtypes.is_int(kind) and kind.itemsize < 4 else kind
        steps = cls.full((count,), step, dtype=wide, **kwargs)
        return (steps._scan_direct(0, Ops.ADD) + (first - step)).cast(kind)

    @classmethod
    def linspace(cls, start: int | float, stop: int | float, steps: int, **kwargs) -> Self:
        """`steps` evenly spaced values from `start` to `stop`, both included.

        Raises ValueError for fewer than 0 steps or a bool dtype.

        >>> Tensor.linspace(0, 1, 5).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        if steps < 0:
            raise ValueError(f"linspace needs steps >= 0, got {steps}")
        kind = to_dtype(kwargs.pop("dtype", None) or dtypes.default_float)
        if kind is dtypes.bool:
            raise ValueError("linspace has no bool values: choose a number dtype")
        if steps == 1:
            return cls.full((1,), start, dtype=kind, **kwargs)
        exact = dtypes.is_int(kind) and isinstance(start, int) and isinstance(stop, int)
        work = dtypes.float64 if exact and kind.itemsize > 4 else dtypes.float32
        work = kind if dtypes.is_float(kind) and kind.itemsize >= 4 else work
        position = cls.arange(steps, **kwargs).cast(work)
        return (position * ((stop - start) / max(steps - 1, 1)) + start).cast(kind)

    @classmethod
    def eye(
        cls,
        n: int,
        m: int | None = None,
        dtype=None,
        device=None,
        requires_grad: bool | None = None,
    ) -> Self:
        """The `n` x `m` matrix (`m` defaults to `n`) with ones on the main diagonal.

        >>> Tensor.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        width = n if m is None else m
        if n < 0 or width < 0:
            raise ValueError(f"cannot have negative sizes, got n={n} m={m}")
        kind = dtypes.default_float if dtype is None else to_dtype(dtype)
        row = cls.arange(n, device=device).unsqueeze(-1)
        column = cls.arange(width, device=device)
        matrix = (row == column).cast(kind)
        matrix.requires_grad = requires_grad
        return matrix

    @classmethod
    def from_url(cls, url: str, gunzip: bool = False, **kwargs) -> Self:
        """The bytes behind a URL as a uint8 tensor, downloaded once and cached on disk.

        A path that starts with "/" or "./" is read in place; `gunzip` unpacks. `device` as for any
        tensor. Raises urllib.error.URLError, or gzip.BadGzipFile.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers"
        >>> path.write_bytes(bytes([1, 2, 3]))
        3
        >>> Tensor.from_url(str(path)).tolist()
        [1, 2, 3]
        """
        if not gunzip:
            return cls(fetch(url), **kwargs)
        path = fetch(url)
        try:
            with gzip.open(path) as stream:
                return cls(stream.read(), **kwargs)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            # half a download would be found in the cache for ever
            if str(path) != url:
                path.unlink()
            raise gzip.BadGzipFile(f"{url} is no whole gzip file: {error}") from error
