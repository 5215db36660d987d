"""Methods for the tensor level: buffers, devices, movement, reductions, sharding, variables.

`TensorMethods` is installed into the node type by `tinygrad.uop.ops`. Real memory is not part of a
node: `buffers` maps BUFFER nodes weakly to what `tinygrad.device` allocates for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize

from tinygrad._core import UOp
from tinygrad.dtype import DType, PtrDType, dtypes
from tinygrad.helpers import prod
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.info import CustomKernel
from tinygrad.uop.installed import Installed
from tinygrad.uop.methods import device_to_uop
from tinygrad.uop.shape import decode_movement, encode_movement

if TYPE_CHECKING:
    from tinygrad.device import Buffer, MultiBuffer


class _NamedBuffers(WeakKeyDictionary):
    """Node -> memory. While a node is in it, the memory counts one more reference (`uop_refcount`)."""

    def __setitem__(self, node: UOp, memory: Buffer | MultiBuffer) -> None:
        super().__setitem__(node, memory)
        memory.ref(1)
        finalize(node, memory.ref, -1).atexit = False


buffers: WeakKeyDictionary[UOp, Buffer | MultiBuffer] = _NamedBuffers()
all_metadata: WeakKeyDictionary[UOp, tuple] = WeakKeyDictionary()

_VIEWS = GroupOp.Movement | {Ops.MULTI}


def compute_device(u: UOp):
    """The device name of `u`, a tuple of names for a value on several, None where it has none."""
    op, src = u.op, u.src
    if op is Ops.DEVICE:
        return u.arg
    if op is Ops.BUFFERIZE:
        return getattr(u.arg, "device", None) or src[0]._device
    if op in (Ops.COPY, Ops.ALLREDUCE, Ops.PROGRAM, Ops.BUFFER):
        return src[1]._device if len(src) > 1 else None
    if op is Ops.MSTACK:
        return tuple(s._device for s in src)
    if op is Ops.MSELECT:
        several = src[0]._device
        return several[u.arg] if isinstance(several, tuple) else several
    found = [d for s in src if (d := s._device) is not None]
    # a number on one device beside a value on several is wherever that is
    return next((d for d in found if isinstance(d, tuple)), found[0] if found else None)


class TensorMethods(Installed):
    """Nodes of the tensor graph."""

    # ---- shape

    @property
    def shape(self) -> tuple:
        """The sizes of the axes. Raises RuntimeError for a node that is no value.

        >>> Tensor([[1, 2, 3]]).uop.shape
        (1, 3)
        """
        shape = self._shape
        if shape is None:
            raise RuntimeError(f"{self.op} has no shape: it is no value")
        return shape

    @property
    def size(self) -> int:
        """The number of elements; the largest possible one where it depends on a variable.

        >>> Tensor([[1, 2, 3]]).uop.size
        3
        """
        count = prod(self.shape)
        return int(count.vmax) if isinstance(count, UOp) else count

    @property
    def marg(self):
        """The decoded argument of a movement op.

        >>> Tensor.arange(6).realize().reshape(2, 3).uop.marg
        (2, 3)
        """
        return decode_movement(self)

    def _mop(self, op: Ops, arg) -> UOp:
        return encode_movement(op, self, arg)

    def forced_reshape(self, arg: tuple) -> UOp:
        """A RESHAPE node also where the shape stays the same."""
        return encode_movement(Ops.RESHAPE, self, arg)

    def pad(self, arg: tuple) -> UOp:
        """Zeros added before and after each axis: one `(before, after)` pair per axis.

        >>> Tensor([1, 2]).uop.pad(((1, 1),)).shape
        (4,)
        """
        pairs = tuple((0, 0) if pair is None else tuple(pair) for pair in arg)
        if len(pairs) != len(self.shape):
            raise ValueError(f"pad needs one pair per axis: got {arg} for shape {self.shape}")
        if any(isinstance(side, int) and side < 0 for pair in pairs for side in pair):
            raise ValueError(f"pad cannot be negative, got {arg}: use shrink to cut")
        if all(isinstance(side, int) and side == 0 for pair in pairs for side in pair):
            return self
        return encode_movement(Ops.PAD, self, pairs)

    @property
    def base(self) -> UOp:
        """What this is a view of: itself below all movement ops.

        >>> x = Tensor([[1, 2]]).realize()
        >>> x.reshape(2).uop.base is x.uop.base
        True
        """
        u = self
        while u.op in _VIEWS:
            u = u.src[0]
        return u

    def is_contiguous(self) -> bool:
        """Whether the elements lie in memory in order, starting at the buffer's begin.

        >>> Tensor.arange(6).realize().reshape(2, 3).uop.is_contiguous()
        True
        """
        u = self
        while u.op in (Ops.RESHAPE, Ops.MULTI):
            u = u.src[0]
        return u.op in (Ops.BUFFER, Ops.CONTIGUOUS, Ops.BUFFER_VIEW)

    @property
    def ptrdtype(self) -> PtrDType:
        """The dtype, which has to be a pointer.

        >>> UOp.placeholder((4,), dtypes.float32, 0).ptrdtype.size
        4
        """
        if not isinstance(self.dtype, PtrDType):
            raise RuntimeError(f"{self.op} is no pointer, its dtype is {self.dtype}")
        return self.dtype

    # ---- device and memory

    @property
    def device(self):
        """The name of the device, or a tuple of names.

        >>> Tensor([1]).uop.device == Device.DEFAULT
        True
        """
        device = self._device
        if device is None:
            raise AssertionError(f"{self.op} has no device: no source of it names one")
        return device

    @staticmethod
    def new_buffer(device, size: int, dtype: DType, num: int | None = None) -> UOp:
        """A flat buffer of `size` elements that no other equals; memory comes when it is used.

        >>> UOp.new_buffer(Device.DEFAULT, 4, dtypes.float32).size
        4
        """
        return UOp(Ops.BUFFER, dtype, (UOp.unique(num), device_to_uop(device)), size)

    @property
    def buf_uop(self) -> UOp:
        """The node that owns the memory behind this view."""
        u = self
        while True:
            if u.op in (Ops.BUFFER, Ops.MSELECT, Ops.MSTACK):
                return u
            if u.op not in _VIEWS and u.op not in (Ops.AFTER, Ops.ASSIGN, Ops.BUFFERIZE):
                raise AssertionError(f"{self.op} is backed by no buffer: found {u.op}")
            if u.op is Ops.BUFFERIZE:
                return u
            u = u.src[0]

    def as_buf(self) -> UOp:
        """The buffer that holds this value, on each device where there are several."""
        u = self
        while u.src and u.op not in (Ops.BUFFER, Ops.BUFFERIZE, Ops.MSTACK, Ops.MSELECT):
            u = u.src[0]
        if u.op is Ops.MSELECT:
            return u.src[0].as_buf().mselect(u.arg)
        return u.replace(src=tuple(s.as_buf() for s in u.src)) if u.op is Ops.MSTACK else u

    def buf_target(self) -> UOp:
        """The memory that an address or a store goes to."""
        u = self
        while u.op not in GroupOp.Defines and u.op is not Ops.BUFFER:
            if not u.src:
                raise AssertionError(f"{self.op} leads to no memory: found {u.op}")
            u = u.src[0]
        return u

    @property
    def buffer(self) -> Buffer | MultiBuffer:
        """The memory of this node. It must be a whole buffer: a view other than a reshape is none.

        >>> Tensor([1, 2]).realize().uop.base.buffer.size
        2
        """
        from tinygrad.device import Buffer, MultiBuffer

        if self.op is Ops.MSELECT:
            several = self.src[0].buffer
            return several.bufs[self.arg] if isinstance(several, MultiBuffer) else several
        if self.op is Ops.MSTACK:
            return MultiBuffer.from_bufs([s.buffer for s in self.src])
        if self.op in (Ops.AFTER, Ops.ASSIGN, Ops.MULTI, Ops.RESHAPE):
            return self.src[0].buffer
        if self.op is Ops.BITCAST and isinstance(held := self.src[0].buffer, Buffer):
            return held.view(held.size, self.dtype.base, 0)
        if self.op in GroupOp.Movement:
            raise AssertionError(
                f"a view with the memory of its base can only be RESHAPE, got {self.op}"
            )
        if self.op is not Ops.BUFFER:
            raise AssertionError(
                f"{self.op} must be BUFFER to have memory: realize the tensor first"
            )
        found = buffers.get(self)
        if found is None:
            kind = MultiBuffer if isinstance(self.device, tuple) else Buffer
            dtype = self.dtype.base if not isinstance(self.dtype, PtrDType) else self.dtype
            found = buffers[self] = kind(self.device, self.arg, dtype)
        return found

    @property
    def realized(self) -> Buffer | MultiBuffer | None:
        """The memory if it exists and is allocated, else None.

        >>> Tensor([1, 2]).realize().uop.base.realized is not None
        True
        """
        if self.op in (Ops.BUFFER, Ops.MSTACK, Ops.MSELECT):
            found = buffers.get(self) if self.op is Ops.BUFFER else self._assembled()
            return found if found is not None and found.is_allocated() else None
        return None

    def _assembled(self) -> Buffer | MultiBuffer | None:
        """The memory of MSTACK or MSELECT where all parts of it exist."""
        parts = [s.base for s in self.src]
        if any(part.op not in (Ops.BUFFER, Ops.MSTACK, Ops.MSELECT) for part in parts):
            return None
        return self.buffer if all(part.realized is not None for part in parts) else None

    @property
    def is_realized(self) -> bool:
        """Whether the value lies in allocated memory.

        >>> Tensor([1]).realize().uop.is_realized
        True
        """
        base = self.base
        while base.op in (Ops.MULTI, Ops.BITCAST):
            base = base.src[0].base
        return base.realized is not None

    # ---- tensor ops

    def r(self, op: Ops, axis: tuple[int, ...]) -> UOp:
        """Reduced by ADD, MUL or MAX over the axes, which stay with size 1."""
        shape = self.shape
        axes = tuple(sorted(a for a in axis if not (type(shape[a]) is int and shape[a] == 1)))
        return UOp(Ops.REDUCE_AXIS, self.dtype, (self,), (op, axes)) if axes else self

    def contiguous(self, *args, **kwargs) -> UOp:
        """The value laid out in order in memory of its own.

        >>> Tensor([1.0]).uop.contiguous().shape
        (1,)
        """
        if not args and not kwargs and self.is_contiguous():
            return self
        return UOp(Ops.CONTIGUOUS, self.dtype, (self, *args), **kwargs)

    def contiguous_backward(self) -> UOp:
        """The value, whose gradient will be made contiguous."""
        return UOp(Ops.CONTIGUOUS_BACKWARD, self.dtype, (self,))

    def detach(self) -> UOp:
        """The value, through which no gradient flows.

        >>> Tensor([1.0]).uop.detach().op.name
        'DETACH'
        """
        return UOp(Ops.DETACH, self.dtype, (self,))

    def assign(self, x: UOp) -> UOp:
        """The memory of this value once `x` is written to it."""
        return UOp(Ops.ASSIGN, self.dtype, (self, x))

    def encdec(self, *src: UOp, arg=None) -> UOp:
        """A hardware encoder or decoder run on this value."""
        return UOp(Ops.ENCDEC, self.dtype, (self, *src), arg)

    def custom_kernel(*srcs: UOp, fxn, grad_fxn=None) -> list[UOp]:
        """Runs the kernel `fxn(*placeholders)` on these values; gives each as it is afterwards."""
        inputs = tuple(s if s.op in (Ops.AFTER, Ops.ASSIGN) else s.contiguous() for s in srcs)
        kernel = UOp(Ops.CUSTOM_KERNEL, dtypes.void, inputs, CustomKernel(fxn, grad_fxn))
        return [s.after(kernel) for s in inputs]

    # ---- several devices

    def copy_to_device(self, device, arg: int | None = None) -> UOp:
        """The value on another device; `arg` picks the copy to take where it lies on several.

        >>> Tensor([1, 2]).realize().uop.copy_to_device("PYTHON").device
        'PYTHON'
        """
        source = self if arg is None else self.mselect(arg)
        return UOp(Ops.COPY, self.dtype, (source, device_to_uop(device)))

    def mselect(self, arg: int) -> UOp:
        """The part of a value on several devices that lies on device number `arg`."""
        return UOp(Ops.MSELECT, self.dtype, (self,), arg)

    def multi(self, axis: int | None) -> UOp:
        """Parts on several devices as one value, joined along `axis` (None: equal copies)."""
        if not isinstance(self.device, tuple):
            raise AssertionError(f"multi needs a value on several devices, got {self.device}")
        return UOp(Ops.MULTI, self.dtype, (self,), axis)

    def allreduce(self, op: Ops, device) -> UOp:
        """The parts on all devices combined by `op`, the result on each of `device`."""
        if not isinstance(self.device, tuple):
            raise AssertionError(f"allreduce needs a value on several devices, got {self.device}")
        return UOp(Ops.ALLREDUCE, self.dtype, (self, device_to_uop(device)), op)

    def shard(self, devices: tuple[str, ...], axis: int | None) -> UOp:
        """The value split evenly along `axis` over the devices; a copy on each where `axis` is None."""
        if axis is None:
            return self.copy_to_device(devices)
        size = self.shape[axis]
        if isinstance(size, int) and size % len(devices):
            raise RuntimeError(
                f"cannot split axis {axis} of size {size} evenly over {len(devices)} devices"
            )
        part = size // len(devices)
        number = UOp.variable("_device_num", 0, len(devices) - 1)
        pairs = tuple(
            (number * part, number * part + part) if a == axis else (0, s)
            for a, s in enumerate(self.shape)
        )
        return self.copy_to_device(devices)._mop(Ops.SHRINK, pairs).multi(axis)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Where each device's part begins and ends along the axis that the value is split along."""
        if self.axis is None or not isinstance(self.device, tuple):
            raise RuntimeError(
                f"bounds need a value split over devices, this one is on {self.device}"
            )
        part = self.shape[self.axis] // len(self.device)
        return tuple((place * part, place * part + part) for place in range(len(self.device)))

    # ---- variables

    @property
    def expr(self) -> str:
        """The name of a variable, bound or not.

        >>> UOp.variable("n", 1, 8).expr
        'n'
        """
        u = self.src[0] if self.op is Ops.BIND else self
        if u.op is not Ops.DEFINE_VAR:
            raise AssertionError(f"only variables have a name, got {self.op}")
        return u.arg[0]

    def bind(self, val) -> UOp:
        """This variable with a value, which must lie within its bounds.

        Raises TypeError for what is no whole number, AssertionError for one out of bounds.

        >>> UOp.variable("n", 1, 8).bind(3).unbind()[1]
        3
        """
        if self.op is not Ops.DEFINE_VAR:
            raise AssertionError(f"only a DEFINE_VAR can be bound, got {self.op}")
        name, low, high = self.arg
        if not isinstance(val, UOp) and not hasattr(val, "__index__"):
            raise TypeError(f"cannot bind {name} to {val!r}: a variable's value is a whole number")
        value = val if isinstance(val, UOp) else UOp.const(self.dtype, val)
        if not (low <= value.vmin and value.vmax <= high):
            raise AssertionError(f"cannot bind {name} to {val}: its bounds are {low} .. {high}")
        return UOp(Ops.BIND, self.dtype, (self, value))

    def unbind(self) -> tuple[UOp, int]:
        """The variable and the int it is bound to.

        >>> UOp.variable("n", 1, 8).bind(3).unbind()[1]
        3
        """
        if self.op is not Ops.BIND or self.src[1].op is not Ops.CONST:
            raise AssertionError(f"can't unbind {self.op}: expected a BIND to a constant")
        return self.src[0], self.src[1].arg

    @property
    def val(self) -> int:
        """The value that a variable is bound to.

        >>> UOp.variable("n", 1, 8).bind(3).val
        3
        """
        return self.unbind()[1]

    def unbind_all(self) -> tuple[UOp, dict[UOp, int]]:
        """The graph with its variables unbound, and their values.

        A variable bound to something that is no constant (an outer loop) stays bound.

        >>> n = UOp.variable("n", 1, 8).bind(3)
        >>> (n * 2).unbind_all()[1] == {n.src[0]: 3}
        True
        """
        binds = [u for u in self.toposort() if u.op is Ops.BIND]
        bound = [u for u in binds if u.src[1].op is Ops.CONST]
        values: dict[UOp, int] = {}
        for u in bound:
            variable, value = u.unbind()
            if values.setdefault(variable, value) != value:
                raise RuntimeError(f"{variable.expr} is bound to {values[variable]} and to {value}")
        return self.substitute({u: u.src[0] for u in bound}), values

    def vars(self) -> set[UOp]:
        """The variables in this graph: as BIND where they are bound, else as DEFINE_VAR.

        >>> n = UOp.variable("n", 1, 8)
        >>> len((n + 1).vars())
        1
        """
        found = [u for u in self.toposort() if u.op in (Ops.BIND, Ops.DEFINE_VAR)]
        named = {u.src[0] for u in found if u.op is Ops.BIND and u.src[0].op is Ops.DEFINE_VAR}
        return {
            u for u in found if u not in named and (u.op is Ops.DEFINE_VAR or u.src[0] in named)
        }

    @property
    def metadata(self) -> tuple | None:
        """Which user-level calls made this node, where that was recorded."""
        return all_metadata.get(self)
