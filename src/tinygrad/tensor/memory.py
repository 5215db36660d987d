"""Where tensors become real: realize, assign, devices, reading values back.

In: graphs of nodes. Out: buffers, Python numbers, NumPy arrays. The work is done by `engine`; this
module chooses what to compute and moves every live tensor onto the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from tinygrad.device import Buffer, Device
from tinygrad.dtype import ConstType, DTypeLike, _to_np_dtype, dtypes, to_dtype
from tinygrad.engine import interrupted, sharing
from tinygrad.helpers import prod
from tinygrad.schedule.storage import one_run
from tinygrad.tensor import writes
from tinygrad.tensor.core import (
    TensorCore,
    canonical_devices,
    forget_origin,
    graph_lock,
    live_tensors,
    make_view,
    origin_of,
    replace_nodes,
)
from tinygrad.tensor.creation import checked_shape, is_blank
from tinygrad.tensor.lost import refuse_lost
from tinygrad.uop.ops import GroupOp, Ops, UOp

if TYPE_CHECKING:
    import numpy

    from tinygrad.engine.realize import ExecItem


def _sharded(node: UOp, devices: tuple[str, ...], axis: int | None) -> UOp:
    """`node` split or copied over `devices`; memory without contents is made there, not copied."""
    if not is_blank(node):
        return node.shard(devices, axis)
    shape = tuple(s // len(devices) if i == axis else s for i, s in enumerate(node.shape))
    parts = [UOp.new_buffer(d, prod(shape), node.dtype).reshape(shape) for d in devices]
    return UOp(Ops.MSTACK, node.dtype, tuple(parts)).multi(axis)


def is_storage(device: str | tuple[str, ...]) -> bool:
    """Whether a device only holds bytes, and computes nothing."""
    return isinstance(device, str) and Device.backend(device).storage_only


# operations by which a user asks for memory: what they stand for exists once it has been computed;
# a SHRINK only changes where it picks each device's part of a copy
_ASKS_FOR_MEMORY = frozenset(
    {Ops.CONTIGUOUS, Ops.COPY, Ops.ASSIGN, Ops.BUFFER, Ops.AFTER, Ops.SHRINK}
)


def _visible_changes(changes: dict[UOp, UOp], roots: tuple[UOp, ...]) -> dict[UOp, UOp]:
    """The changes that tensors take part in: of `roots` and of memory that was asked for.

    What the scheduler stored for its own sake stays a computation: a tensor that gave up the
    computation behind such a node could no longer be differentiated through it.
    """
    asked = set()
    for root in roots:
        while root not in asked:
            asked.add(root)
            if root.op not in sharing.VIEWS and root.op is not Ops.MULTI:
                break
            root = root.src[0]
    return {old: new for old, new in changes.items() if old.op in _ASKS_FOR_MEMORY or old in asked}


def _reachable(changes: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """The changes that live tensors meet first on the way down their graphs."""
    roots = dict.fromkeys(t.uop for t in live_tensors())
    met = {u for u in roots if u in changes}
    if len(met) == len(changes):
        return changes
    others = UOp.sink(*[u for u in roots if u not in met])
    for u in others.toposort(lambda u: u not in changes):
        met.update(s for s in u.src if s in changes)
    return {old: new for old, new in changes.items() if old in met}


def keep_old_values(roots: list[UOp]) -> list[UOp]:
    """Sees to it that what is yet to be computed from memory that `roots` overwrite keeps its value.

    What lies in memory is copied. What is only written and overwritten by `roots` is computed with them: the result is
    `roots` with the tensors that need it.
    """
    roots = list(roots)
    while (readers := writes.old_readers(roots)) is not None:
        if memory := readers.in_memory():
            _read_copies(readers, memory)
        else:
            roots += dict.fromkeys(t.uop for t in readers.tensors)
            for t in readers.tensors:
                if t.requires_grad:
                    writes.computed_early.put(t, True)
    part_shared(sharing.part(sharing.written_memory(roots)))
    return roots


# nodes of which equal ones are one computation, but no memory that two tensors have in common
_COMPUTED = (
    GroupOp.Elementwise | {Ops.REDUCE_AXIS, Ops.CONTIGUOUS, Ops.COPY}
) - {Ops.BITCAST}  # fmt: skip


def _separate_owners(changes: dict[UOp, UOp]) -> None:
    """Two tensors that came by one computation share its result only until one of them is written."""
    owners: dict[UOp, Any] = {}
    for t in live_tensors():
        node = t.uop
        base = writes.state_of(node)
        if base.op not in _COMPUTED or (base not in changes and node not in changes):
            continue
        owner = origin_of(t) or t
        if owners.setdefault(base, owner) is owner:
            continue
        new = node.substitute({base: changes[base]}) if base in changes else changes[node]
        memory = [u for u in new.toposort() if u.op is Ops.BUFFER]
        if memory and new.base.op is not Ops.CONST:
            t.uop = new.substitute({u: sharing.share(u) for u in memory})


def keep_values_of(written: set[Buffer]) -> None:
    """As `keep_old_values`, for buffers that are written by something other than assignments."""
    with graph_lock:
        if (readers := writes.readers_of_memory(written)) is not None:
            _read_copies(readers, readers.in_memory())
        part_shared(sharing.part(sharing.nodes_of_memory(written)))


def _read_copies(readers: writes.OldReaders, memory: list[UOp]) -> None:
    """Lets the readers read copies of `memory`, made now.

    A capture under way has to repeat the copy for tensors that it made itself, and for them only.
    """
    from tinygrad.engine.realize import current_capture

    capture = current_capture()
    inside = capture is not None and not all(capture.made_before(t) for t in readers.tensors)
    copies = {node: writes.like(node) for node in memory}
    for node, copy in copies.items():
        _copy_memory(node, copy, inside, True)
    readers.read_from(copies)


def part_shared(copies: list[tuple[UOp, UOp]]) -> None:
    """Makes the copies that `sharing.part` asks for."""
    for source, target in copies:
        _copy_memory(source, target, sharing.born_in_capture(target), False)


def _copy_memory(source: UOp, target: UOp, repeated: bool, optional: bool) -> None:
    """Fills the memory of one BUFFER node from that of another of the same size.

    `repeated`: the capture under way does so too, each time that it is launched; if `optional`, where it uses the copy.
    """
    from tinygrad.engine.realize import copy_buffer, current_capture

    parts = [getattr(u.buffer, "bufs", [u.buffer]) for u in (target, source)]
    for to, origin in zip(*parts):
        if not origin.is_allocated():
            continue
        copy_buffer(to.ensure_allocated(), origin)
        if repeated and (capture := current_capture()) is not None:
            capture.add_copy(to, origin, optional)


class MemoryMixin(TensorCore):
    """Realization, assignment, transfer and reading."""

    __slots__ = ()

    # ---- scheduling

    def schedule_with_vars(self, *lst: Self) -> tuple[list[ExecItem], dict[str, int]]:
        """The kernels that compute `self` and `lst`, and the values of symbolic variables.

        The tensors are moved onto the buffers the kernels will fill.

        >>> items, values = (Tensor([1.0, 2.0]).realize() * 2).schedule_with_vars()
        >>> len(items), values
        (1, {})
        """
        from tinygrad.engine.realize import current_capture
        from tinygrad.engine.schedule import complete_create_schedule_with_vars

        with graph_lock:
            refuse_lost([t.uop for t in (self, *lst)])
            roots = keep_old_values([t.uop for t in (self, *lst)])
            if (capture := current_capture()) is not None:
                capture.note_schedule(roots)
            together = UOp.sink(*roots)

            def visible(found: dict[UOp, UOp]) -> dict[UOp, UOp]:
                # what no tensor can see any more must not be held while memory is planned
                seen = _reachable(_visible_changes(found, together.src))
                return sharing.owned_changes(seen, together)

            changes, items, var_vals = complete_create_schedule_with_vars(together, visible)
            _separate_owners(changes)
            held = writes.follow(changes)
            replace_nodes(changes, name="Apply Schedule Map")
            del held
            return items, var_vals

    def schedule(self, *lst: Self) -> list[ExecItem]:
        """As `schedule_with_vars`, for graphs without symbolic variables.

        >>> x = Tensor([1.0]).realize()
        >>> len((x + 1).schedule())
        1
        """
        items, var_vals = self.schedule_with_vars(*lst)
        if var_vals:
            raise AssertionError(
                f"the graph has the variables {sorted(var_vals)}: use schedule_with_vars, "
                "which returns their values too"
            )
        return items

    def realize(self, *lst: Self, do_update_stats=True) -> Self:
        """Computes `self` and `lst`, all in one schedule; returns self.

        >>> x = (Tensor([1, 2]) + 1).realize()
        >>> x.uop.is_realized
        True
        """
        from tinygrad.engine.realize import finish_interrupted, run_schedule

        with graph_lock:
            finish_interrupted()
            if interrupted.is_any_lost():
                together = UOp.sink(*[t.uop for t in (self, *lst) if t._is_in_place()])
                for node in together.toposort():
                    interrupted.require_computed(sharing.parts_of(node))
            pending = [t for t in (self, *lst) if not t._is_in_place()]
            if pending:
                items, var_vals = pending[0].schedule_with_vars(*pending[1:])
                run_schedule(items, var_vals, do_update_stats=do_update_stats)
        return self

    def _is_in_place(self) -> bool:
        """Whether there is nothing to compute: the node is a buffer or a plain view of one."""
        node = self.uop
        while node.op is Ops.RESHAPE:
            node = node.src[0]
        return node.op is Ops.BUFFER or (node.op is Ops.MULTI and node.src[0].op is Ops.BUFFER)

    # ---- replacing and assigning

    def replace(self, x: Self, allow_shape_mismatch=False) -> Self:
        """Makes `self` stand for the node of `x`; other tensors and `x` itself do not change.

        Device and dtype become those of `x`. Raises AssertionError where the shapes differ.

        >>> x = Tensor([1, 2])
        >>> x.replace(Tensor([3, 4])).tolist()
        [3, 4]
        """
        if not allow_shape_mismatch and self.shape != x.shape:
            raise AssertionError(f"replace needs equal shapes, got {self.shape} and {x.shape}")
        self.uop = x.uop
        forget_origin(self)
        make_view(self, x)
        return self

    def assign(self, x) -> Self:
        """Overwrites the values of `self`, in its buffer, when it is next realized; returns self.

        `x` must have the shape (or broadcast to it), dtype and device of `self`.

        >>> x = Tensor([1, 2]).realize()
        >>> x.assign(Tensor([3, 4])).tolist()
        [3, 4]
        """
        value: Any = x
        if not isinstance(x, TensorCore):
            value = type(self)(x, self.device, dtype=self.dtype)
        if self.uop is value.uop:
            return self
        if value.shape != self.shape and is_storage(self.device) and value.numel() == self.numel():
            # drop-in: what is stored is a run of bytes, whose shape nobody asks about
            value = value.reshape(self.shape)
        if value.shape != self.shape:
            try:
                value = value._broadcast_to(self.shape)
            except ValueError as error:
                raise AssertionError(f"assign to {self.shape} of {x.shape}: {error}") from None
        if is_storage(self.device):
            self._write_stored(value)
            return self
        if value.device != self.device:
            raise AssertionError(
                f"assign needs one device, got {self.device} and {value.device}: use .to()"
            )
        if value.dtype is not self.dtype:
            raise AssertionError(
                f"assign needs one dtype, got {self.dtype} and {value.dtype}: use .cast()"
            )
        # a constant has no memory that another tensor could see: the value gets memory of its own
        with graph_lock:
            if self.uop.base.op is Ops.CONST and not writes.give_constant_memory(self):
                writes.remember(self)
                self.uop = value.uop.contiguous()
                forget_origin(self)
                return self
            if writes.is_constant(self.uop):  # on several devices, and it stays cut as it is
                self.uop = self.empty_like().uop
            elif writes.shares_elements(self.uop):
                raise RuntimeError(
                    "assign target has elements that share memory (an expanded tensor): "
                    "call .contiguous() first"
                )
            writes.write(self, value.uop)
        return self

    def clone(self) -> Self:
        """A copy in a buffer of its own, with the gradient copied too.

        >>> x = Tensor([1, 2])
        >>> x.clone().tolist()
        [1, 2]
        """
        made = self.empty_like(requires_grad=self.requires_grad).assign(self.detach())
        made.requires_grad = self.requires_grad
        if self.grad is not None:
            made.grad = self.grad.clone()
        return made

    # ---- devices

    def to(self, device: str | tuple[str, ...] | None) -> Self:
        """`self` on another device (None: the default one); a tuple puts a copy on each.

        >>> Tensor([1, 2]).to("PYTHON").device
        'PYTHON'
        """
        target = canonical_devices(device)
        if target == self.device:
            return self
        if isinstance(target, tuple):
            return self.shard(target)
        moved = self._lift(lambda u: self._place(u, target))
        if self.grad is not None:
            moved.grad = self.grad.to(target)
        return moved

    def to_(self, device: str | tuple[str, ...] | None) -> Self:
        """Moves `self`, and its gradient, to another device; returns self.

        >>> x = Tensor([1, 2])
        >>> x.to_("PYTHON").device
        'PYTHON'
        """
        moved = self.to(device)
        if self.grad is not None and moved is not self:
            self.grad = moved.grad
        return self._take(moved)

    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """`self` split along `axis` over `devices`; without an axis each gets a copy.

        Raises RuntimeError where the axis does not divide evenly.

        >>> x = Tensor([1, 2, 3, 4]).shard(("CPU:0", "CPU:1"), axis=0)
        >>> x.device, x.tolist()
        (('CPU', 'CPU:1'), [1, 2, 3, 4])
        """
        if not isinstance(self.device, str):
            raise RuntimeError(
                f"shard needs a tensor on one device, got one on {self.device}: move it to one first, with .to()"
            )
        if isinstance(devices, str):
            raise TypeError(f"shard takes a tuple of devices, got {devices!r}; to() takes one")
        target: tuple[Any, ...] = tuple(canonical_devices(d) for d in devices)
        if len(target) == 1:
            return self.to(target[0])
        where = None if axis is None else self._resolve_dim(axis)
        if where is None:
            return self._lift(lambda u: _sharded(u, target, None))
        length = self.shape[where]
        if isinstance(length, int) and length % len(target):
            raise RuntimeError(
                f"cannot shard axis {where} of length {length} over {len(target)} devices: "
                "the length must be a multiple of the number of devices"
            )
        return self._lift(lambda u: _sharded(u, target, where))

    def shard_(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """As `shard`, in place.

        >>> x = Tensor([1, 2, 3, 4])
        >>> x.shard_(("CPU:0", "CPU:1"), axis=0).device
        ('CPU', 'CPU:1')
        """
        return self._take(self.shard(devices, axis))

    def _take(self, x: Self) -> Self:
        """Takes over the node of `x`, whatever its device; returns self."""
        if x is not self:
            self.uop = x.uop
            forget_origin(self)
        return self

    def shard_like(self, y: Self) -> Self:
        """`self` placed on devices as `y` is.

        >>> x = Tensor([1, 2]).shard(("CPU:0", "CPU:1"), axis=0)
        >>> Tensor([3, 4]).shard_like(x).device
        ('CPU', 'CPU:1')
        """
        if isinstance(y.device, str):
            return self.to(y.device)
        if isinstance(self.device, tuple):
            if self.device == y.device and self.uop.axis == y.uop.axis:
                return self
            raise RuntimeError(
                f"cannot move from {self.device} axis {self.uop.axis} to the layout of y"
            )
        return self.shard(y.device, y.uop.axis)

    # ---- reading

    def _write_stored(self, value: Self) -> None:
        """Writes into a file or array at once. Raises RuntimeError where `self` is not one run of bytes of it.

        Under a capture it is a JitError: a replay would not write again.
        """
        from tinygrad.engine.realize import current_capture

        if (capture := current_capture()) is not None:
            capture.refuse(f"{self.device} is written", "return the value and assign it outside")
        if value.dtype is not self.dtype:
            raise AssertionError(
                f"assign needs one dtype, got {self.dtype} and {value.dtype}: use .cast()"
            )
        run = one_run(self.uop)
        if run is None:
            raise RuntimeError(
                f"only a run of bytes of {self.device} can be assigned, got {self.uop.op}: "
                "assign to a slice of the flat tensor"
            )
        view = run.base
        whole = view.src[0].buffer.ensure_allocated()
        if (readers := writes.readers_of_memory({whole.base})) is not None:
            readers.tensors[0].realize(*readers.tensors[1:])
        size, offset = view.arg
        part = whole.view(size, self.dtype, offset * whole.dtype.itemsize).ensure_allocated()
        part.copyin(value._contents())

    def _storage(self) -> Buffer:
        """The allocated buffer of this tensor alone, realized, on one device."""
        from tinygrad.engine.realize import current_capture

        # several devices: all of it on the first; a file: in memory, where views can be computed
        here = self if isinstance(self.device, str) else self.to(self.device[0])
        refuse_lost([here.uop])
        here = here.to(None) if is_storage(here.device) else here
        may_be_differentiated = here.requires_grad is not False and here.is_floating_point()
        if may_be_differentiated and not here.uop.is_realized:
            # a tensor that is only read stays what it is computed from: backward() may follow
            here = here.contiguous()
        here = here.realize()
        if not here._is_in_place():
            here = here.contiguous().realize()
        held = here.uop.base.buffer.ensure_allocated()
        interrupted.require_computed((held,))
        if (capture := current_capture()) is not None:
            capture.note_reading(held)
        return held

    def _contents(self) -> memoryview:
        """The bytes of all elements in row-major order."""
        if 0 in self.shape:
            return memoryview(bytearray(0))
        return self._storage().as_buffer()

    def _known_shape(self) -> tuple[int, ...]:
        if not all(isinstance(size, int) for size in self.shape):
            raise AssertionError(
                f"cannot read a tensor of the symbolic shape {self.shape}: shrink it first"
            )
        return self.shape

    def data(self) -> memoryview[Any]:
        """The elements as a memoryview of the tensor's shape.

        Raises TypeError for dtypes that have no `struct` code (bfloat16, fp8).

        >>> Tensor([[1, 2], [3, 4]]).data().tolist()
        [[1, 2], [3, 4]]
        """
        shape = self._known_shape()
        code: Any = self.dtype.base.fmt
        if code is None:
            raise TypeError(f"no memoryview format for {self.dtype}: cast to float32 first")
        if 0 in shape:
            return memoryview(bytearray(self.dtype.itemsize)).cast(code)[:0]
        flat = memoryview(self._contents()).cast("B").cast(code)
        return flat.cast("B").cast(code, shape) if shape else flat

    def item(self) -> ConstType:
        """The one element as a Python number. Raises AssertionError for more or fewer.

        >>> Tensor([[5]]).item()
        5
        """
        if self.numel() != 1:
            raise AssertionError(f"item() needs exactly one element, got shape {self.shape}")
        return self._numbers()[0]

    def _numbers(self) -> list[Any]:
        """All elements as a flat list of Python numbers."""
        wide = self if self.dtype.base.fmt not in (None, "e") else self.cast(dtypes.float32)
        code: Any = wide.dtype.base.fmt
        return memoryview(wide._contents()).cast("B").cast(code).tolist()

    def tolist(self) -> Sequence[ConstType] | ConstType:
        """The elements as nested lists; of a 0-d tensor one number.

        >>> Tensor([[1, 2], [3, 4]]).tolist(), Tensor(5).tolist()
        ([[1, 2], [3, 4]], 5)
        """
        shape = self._known_shape()
        if not shape:
            return self.item()
        level = self._numbers() if prod(shape) else []
        for axis in range(len(shape) - 1, 0, -1):
            count, size = prod(shape[:axis]), shape[axis]
            level = [level[i * size : (i + 1) * size] for i in range(count)]
        return level

    def numpy(self) -> numpy.ndarray:
        """The elements as a NumPy array of the same shape; bfloat16 and fp8 become float32.

        >>> Tensor([1, 2]).numpy()
        array([1, 2], dtype=int32)
        """
        import numpy as np

        if self.dtype.base in (dtypes.bfloat16, *dtypes.fp8s):
            return self.cast(dtypes.float32).numpy()
        kind = _to_np_dtype(self.dtype.base)
        if kind is None:
            raise TypeError(f"NumPy has no counterpart of {self.dtype}")
        shape = self._known_shape()
        if 0 in shape:
            return np.empty(shape, dtype=kind)
        return np.frombuffer(self._contents(), dtype=kind).reshape(shape).copy()

    # ---- raw memory

    @classmethod
    def from_blob(cls, ptr: int, shape: tuple[int, ...], **kwargs) -> Self:
        """A tensor over memory that is owned by someone else, at address `ptr`.

        The memory must outlive the tensor. `dtype` (default_float) and `device` as for any tensor.
        Raises TypeError for an address that is no int, ValueError for 0 and for a shape that is none.

        >>> import ctypes
        >>> memory = (ctypes.c_float * 2)(1.5, 2.5)
        >>> Tensor.from_blob(ctypes.addressof(memory), (2,), dtype=dtypes.float32).tolist()
        [1.5, 2.5]
        """
        dtype = to_dtype(kwargs.pop("dtype", None) or dtypes.default_float)
        device: Any = canonical_devices(kwargs.pop("device", None))
        shape = checked_shape(*shape)
        if not isinstance(ptr, int):
            raise TypeError(f"an address is an int, got {type(ptr).__name__} {ptr!r}")
        if 0 in shape:
            return cls.empty(*shape, dtype=dtype, device=device, **kwargs)
        if ptr == 0:
            raise ValueError(f"there is no memory at address 0, expected {prod(shape)} elements")
        node = UOp.new_buffer(device, prod(shape), dtype)
        allocator: Any = Device[device].allocator
        if hasattr(allocator, "_adopt"):
            node.buffer.allocate(allocator._adopt(ptr, prod(shape) * dtype.itemsize, None))
        else:
            node.buffer.allocate(external_ptr=ptr)
        return cls(node.reshape(shape), device, dtype, **kwargs)

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits read as `dtype`; where the item sizes differ the last axis changes length.

        Raises RuntimeError where the last axis does not divide evenly, or a gradient is wanted.

        >>> Tensor([1.0]).bitcast("int32").tolist()
        [1065353216]
        """
        target = to_dtype(dtype)
        if self.dtype is target:
            return self
        if self.requires_grad:
            raise RuntimeError("bitcast has no gradient: detach() the tensor first")
        old, new = self.dtype.itemsize, target.itemsize
        if old == new:
            seen = self._lift(lambda u: u.bitcast(target))
            make_view(seen, self)
            return seen
        if not self.shape or (self.shape[-1] * old) % new:
            raise RuntimeError(
                f"cannot bitcast {self.dtype} of shape {self.shape} to {target}: the last axis must "
                f"be a multiple of {new} bytes"
            )
        # other parts of a file are put together where they are read to
        if is_storage(self.device) and one_run(self.uop) is not None:
            length = self.shape[-1] * old // new
            view = self.contiguous()._lift(lambda u: UOp(Ops.BITCAST, target, (u,)))
            return (
                view
                if view.shape == (*self.shape[:-1], length)
                else view.reshape(*self.shape[:-1], length)
            )
        return self._split_bits(target) if old > new else self._join_bits(target)

    def _split_bits(self, target) -> Self:
        whole = self._lift(lambda u: u.bitcast(_unsigned(self.dtype.itemsize)))
        width = target.itemsize
        parts = [
            whole.rshift(8 * width * i).cast(_unsigned(width))
            for i in range(self.dtype.itemsize // width)
        ]
        joined = parts[0].stack(*parts[1:], dim=-1).flatten(-2)
        return joined._lift(lambda u: u.bitcast(target))

    def _join_bits(self, target) -> Self:
        count, width = target.itemsize // self.dtype.itemsize, self.dtype.itemsize
        small = self._lift(lambda u: u.bitcast(_unsigned(width)))
        grouped = small.reshape(*self.shape[:-1], self.shape[-1] // count, count)
        total: Any = None
        for i in range(count):
            lane = grouped[..., i].cast(_unsigned(target.itemsize)).lshift(8 * width * i)
            total = lane if total is None else total.bitwise_or(lane)
        return total._lift(lambda u: u.bitcast(target))

    def custom_kernel(
        self, *lst: Self, fxn: Callable, grad_fxn: Callable | None = None
    ) -> list[Self]:
        """Runs a hand-written kernel over `self` and `lst`; returns them as after the kernel.

        `fxn` gets one placeholder node per tensor and returns the kernel's AST. A tensor of memory that it stores to
        is overwritten, as by `assign`; of a computation that is not in memory, only the returned tensor shows the result.

        >>> def plus_one(out, x):
        ...     i = UOp.range(out.size, 0)
        ...     return out[i].store(x[i] + 1).end(i).sink()
        >>> out = Tensor.empty(3, dtype=dtypes.int32)
        >>> out.custom_kernel(Tensor([1, 2, 3]), fxn=plus_one)[0].tolist()
        [2, 3, 4]
        """
        tensors = (self, *lst)
        written = sorted(writes.written_by_kernel(fxn, tensors))
        for slot in written:
            if writes.needs_memory_first(tensors[slot]):
                tensors[slot].realize()
        with graph_lock:
            nodes = UOp.custom_kernel(*[t.uop for t in tensors], fxn=fxn, grad_fxn=grad_fxn)
            made = [self._wrap(node, t.requires_grad) for node, t in zip(nodes, tensors)]
            for slot in written:
                source = nodes[slot].src[0]
                writes.write_by_kernel(tensors[slot], source, nodes[slot])
        return made


def _unsigned(width: int):
    return {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[width]
