"""Reading from devices that only store: files, arrays.

They run no kernels, so whatever is done to what they hold is done where it is copied to. A piece of a stored buffer that lies in
one run of bytes is read alone (BUFFER_VIEW); any other view is taken after the copy. Called by the tensor rules for each COPY.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinygrad.dtype import DType
from tinygrad.helpers import prod
from tinygrad.uop.ops import GroupOp, Ops, UOp


def is_storage(device: str | tuple[str, ...] | None) -> bool:
    """Whether a device runs no kernels, by its backend's word."""
    from tinygrad.device import Device

    return isinstance(device, str) and Device.backend(device).storage_only


@dataclass
class _Run:
    """Consecutive bytes of a buffer, seen as `shape` elements of `dtype`."""

    start: int
    shape: tuple[int, ...]
    dtype: DType

    def follow(self, u: UOp) -> bool:
        """Applies a view; False where the result is no run, or its shape is not known."""
        if not all(isinstance(size, int) for size in u.shape):
            return False
        if u.op is Ops.SHRINK and not self._shrink(u.marg):
            return False
        self.shape, self.dtype = u.shape, u.dtype
        return True

    def _shrink(self, bounds: tuple) -> bool:
        """Consecutive: one element along the leading axes, any range of one axis, all of the others."""
        cut = next((axis for axis, (a, b) in enumerate(bounds) if b - a != 1), len(bounds))
        if any(
            (a, b) != (0, size) for (a, b), size in zip(bounds[cut + 1 :], self.shape[cut + 1 :])
        ):
            return False
        stride = self.dtype.itemsize
        for (begin, _), size in reversed(list(zip(bounds, self.shape))):
            self.start += begin * stride
            stride *= size
        return True


def one_run(source: UOp) -> UOp | None:
    """A view of stored memory as a BUFFER_VIEW of its shape, or None where it is not one run of bytes."""
    views = []
    base = source
    while base.op in (Ops.RESHAPE, Ops.SHRINK, Ops.BITCAST, Ops.CONTIGUOUS):
        views.append(base)
        base = base.src[0]
    if base.op is Ops.BUFFER_VIEW:
        shape, dtype, begin = base.shape, base.dtype, base.arg[1] * base.src[0].dtype.itemsize
        run, base = _Run(begin, shape, dtype), base.src[0]
    else:
        run = _Run(0, base.shape, base.dtype)
    if base.op is not Ops.BUFFER:
        return None
    if not all(run.follow(u) for u in reversed(views)) or run.start % base.dtype.itemsize:
        return None
    place = (prod(run.shape), run.start // base.dtype.itemsize)
    return UOp(Ops.BUFFER_VIEW, source.dtype, (base,), place).reshape(source.shape)


def copy_from_storage(copy: UOp) -> UOp | None:
    """COPY of something computed from stored memory: read a run of it, or compute where it is copied to."""
    source = copy.src[0]
    if source.op in (Ops.BUFFER, Ops.BUFFER_VIEW, Ops.CONST) or not is_storage(source.device):
        return None
    if (run := one_run(source)) is not None:
        return None if run is source else copy.replace(src=(run, *copy.src[1:]))
    if source.op is Ops.CONTIGUOUS:
        return copy.replace(src=source.src + copy.src[1:])
    if (
        source.op not in GroupOp.Movement
        and source.op not in GroupOp.Elementwise
        and source.op is not Ops.REDUCE_AXIS
    ):
        return None
    data = 1 if source.op in GroupOp.Movement or source.op is Ops.REDUCE_AXIS else len(source.src)
    moved = tuple(UOp(Ops.COPY, s.dtype, (s, *copy.src[1:]), copy.arg) for s in source.src[:data])
    return source.replace(src=moved + source.src[data:])


def custom_ast(fxn: Callable[..., UOp], sources: Sequence[UOp]) -> tuple[UOp, set[int]]:
    """A kernel that a user wrote for these values, and the numbers of those that it writes to."""
    ast = fxn(*[source.placeholder_like(slot) for slot, source in enumerate(sources)])
    stores = [node for node in ast.toposort() if node.op is Ops.STORE]
    return ast, {store.src[0].buf_target().arg for store in stores}
