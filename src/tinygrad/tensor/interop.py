"""Tensors and the rest of Python: NumPy's protocols, DLPack, the buffer protocol, conversion to numbers.

In: calls by Python and by other libraries. Out: views of a tensor's memory, capsules, arrays, numbers. What is shared and what
is copied is told in docs/interop.md. Invariant: whoever is given memory of a tensor keeps it alive, and nobody else gets it
meanwhile; a tensor that was lent shares its memory with no other tensor.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Self

from tinygrad._core.exchange import HOST, capsule
from tinygrad.device import Buffer, Device
from tinygrad.dtype import dtypes
from tinygrad.engine import sharing
from tinygrad.helpers import mv_address, prod
from tinygrad.tensor import exchange, source
from tinygrad.tensor.core import TensorCore, canonical_devices, graph_lock
from tinygrad.tensor.memory import keep_values_of, part_shared
from tinygrad.uop.ops import Ops, UOp

if TYPE_CHECKING:
    import numpy

# NumPy's functions that stand for operators: with a tensor they give a tensor
_OPERATORS = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "matmul": operator.matmul,
    "divide": operator.truediv, "true_divide": operator.truediv, "floor_divide": operator.floordiv,
    "remainder": operator.mod, "power": operator.pow, "left_shift": operator.lshift,
    "right_shift": operator.rshift, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip


def _arrays(value: Any) -> Any:
    """`value` with arrays in place of the tensors in it."""
    import numpy as np

    if isinstance(value, TensorCore):
        return np.asarray(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_arrays(part) for part in value)
    if type(value) is dict:
        return {key: _arrays(part) for key, part in value.items()}
    return value


class InteropMixin(TensorCore):
    """What other libraries and Python itself ask of a tensor."""

    __slots__ = ()

    # ---- memory

    def _lent_memory(self, writable: bool) -> tuple[memoryview, Buffer | None, bool]:
        """The bytes of all elements on the host, the Buffer that owns them, and whether they are the tensor's own.

        `writable`: what is yet to be computed from the memory is computed from a copy, since it may be written.
        """
        if 0 in self._known_shape():
            return memoryview(bytearray(0)), None, True
        with graph_lock:
            self.realize()
            # equal values may lie in one memory until one of them is written: a borrower is told of this tensor only
            part_shared(sharing.part([u for u in self.uop.toposort() if u.op is Ops.BUFFER]))
            held = self._storage()
            own = self._is_memory_of(held)
            if own and writable:
                keep_values_of({held.base})
        return held.as_buffer(allow_zero_copy=True), held, own

    def _is_memory_of(self, held: Buffer) -> bool:
        """Whether `held`, which has the elements, is memory of this very tensor that the host can see."""
        if not isinstance(self.device, str) or not hasattr(held.allocator, "_as_buffer"):
            return False
        nodes = (u for u in self.uop.toposort() if u.op is Ops.BUFFER)
        return any(held.base in sharing.parts_of(u) for u in nodes)

    def _lend(self, writable: bool):
        """For the buffer protocol: (memory, shape, format, itemsize)."""
        code = self.dtype.base.fmt
        if code is None:
            raise BufferError(f"no memoryview format for {self.dtype}: cast to float32 first")
        if writable:
            raise BufferError(
                "a tensor shows its memory to be read: use numpy.from_dlpack(t) to share it for writing"
            )
        shape = self._known_shape()
        view, held, _ = self._lent_memory(False)
        return view, held, shape, code.encode(), self.dtype.itemsize

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number of the device: the host's, (1, 0), for memory that the host can read.

        >>> Tensor([1, 2]).__dlpack_device__()
        (1, 0)
        """
        first = self.device if isinstance(self.device, str) else self.device[0]
        if not hasattr(Device[first].allocator, "_as_buffer"):
            raise BufferError(
                f'{first} has no memory that other libraries can read: use .to("CPU")'
            )
        return HOST

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule of the elements; the tensor's own memory where they lie in it side by side.

        `copy` True always copies, False raises BufferError where a copy is needed.

        >>> import numpy as np
        >>> t = Tensor([1, 2, 3]).realize()
        >>> shared = np.from_dlpack(t)
        >>> _ = t.assign(Tensor([4, 5, 6])).realize()
        >>> shared.tolist()
        [4, 5, 6]
        """
        place = self.__dlpack_device__()
        if stream is not None:
            raise BufferError(
                f"memory of the host has no streams, got stream={stream!r}: leave it out"
            )
        if dl_device is not None and tuple(dl_device) != place:
            raise BufferError(
                f"the tensor lies on {place}, asked for {tuple(dl_device)}: copy it after"
            )
        code, bits = exchange.element_code(self.dtype.base)
        shape = self._known_shape()
        source_tensor = self.detach().clone() if copy else self
        view, held, own = source_tensor._lent_memory(True)
        if copy is False and not own:
            raise BufferError(
                "the elements do not lie in memory of this tensor side by side, and copy=False: call .contiguous()"
            )
        address = mv_address(view) if held is not None else 0
        versioned = max_version is not None and tuple(max_version) >= (1, 0)
        copied = bool(copy) or not own
        return capsule(address, shape, code, bits, (view, held), versioned, copied)

    @classmethod
    def from_dlpack(cls, x: Any, *, device: str | None = None, copy: bool | None = None) -> Self:
        """A tensor over the memory of an array of another library, which shows what either side writes.

        Memory that may not be written, that has gaps or that `device` (default: Device.DEFAULT) cannot use is copied;
        `copy` True always copies, False raises BufferError instead. `Tensor(x)` always copies.

        >>> import numpy as np
        >>> array = np.array([1.0, 2.0])
        >>> t = Tensor.from_dlpack(array)
        >>> array[0] = 5
        >>> t.tolist()
        [5.0, 2.0]
        """
        target: Any = canonical_devices(device)
        if not hasattr(x, "__dlpack__"):
            raise TypeError(
                f"from_dlpack takes an array with a __dlpack__ method, got {type(x).__name__}: "
                "use Tensor(...)"
            )
        memory = exchange.borrow(x)
        dtype = exchange.element_dtype(memory.element)
        reason = "asked for" if copy else _why_copied(memory, target)
        if reason is None:
            flat = UOp.new_buffer(target, prod(memory.shape), dtype)
            allocator: Any = Device[target].allocator
            size = prod(memory.shape) * dtype.itemsize
            flat.buffer.allocate(allocator._adopt(memory.address, size, memory))
            return cls._wrap(flat.reshape(memory.shape), False)
        if copy is False:
            raise BufferError(f"the memory cannot be shared ({reason}), and copy=False: drop it")
        values = cls._wrap(source.from_borrowed(memory), False)
        return cls(values, device=target, requires_grad=False)

    # ---- NumPy

    def __array__(self, dtype=None, copy: bool | None = None) -> numpy.ndarray:
        """For `numpy.asarray`: a read-only view of the elements, or a copy where they cannot be shown.

        >>> import numpy as np
        >>> np.asarray(Tensor([1.5], dtype="bfloat16")).dtype
        dtype('float32')
        """
        import numpy as np

        shown = self.dtype.base.fmt is not None
        made = np.asarray(memoryview(self)) if shown else self.numpy()
        wanted = made.dtype if dtype is None else np.dtype(dtype)
        if copy is False and (not shown or wanted != made.dtype):
            raise ValueError(
                f"an array of {wanted} of a tensor of {self.dtype} is a copy: drop copy=False"
            )
        if wanted != made.dtype:
            return made.astype(wanted)
        return made.copy() if copy and shown else made

    def __array_ufunc__(self, ufunc, method: str, *inputs, **kwargs) -> Any:
        """Operators between arrays and tensors give tensors; all other functions of NumPy give arrays.

        >>> import numpy as np
        >>> (np.array([1, 2]) + Tensor([3, 4])).tolist()
        [4, 6]
        """
        compute = _OPERATORS.get(ufunc.__name__)
        if method == "__call__" and compute is not None and not kwargs:
            left, right = (
                x
                if isinstance(x, TensorCore)
                else type(self)(x, device=self.device, requires_grad=False)
                for x in inputs
            )
            return compute(left, right)
        for out in kwargs.get("out", ()):
            if isinstance(out, TensorCore):
                raise TypeError("out= takes an array, got a tensor: use t.assign(...)")
        return getattr(ufunc, method)(*_arrays(inputs), **_arrays(kwargs))

    def __array_function__(self, function, types, args, kwargs) -> Any:
        """Functions of NumPy take tensors as arrays.

        >>> import numpy as np
        >>> np.stack([Tensor([1, 2]), Tensor([3, 4])]).tolist()
        [[1, 2], [3, 4]]
        """
        return function(*_arrays(args), **_arrays(kwargs))

    # ---- numbers

    def _one_element(self, kind: str) -> Any:
        shape = self._known_shape()
        if prod(shape) != 1:
            raise TypeError(
                f"only a tensor of one element becomes {kind}, got shape {shape}: use .tolist()"
            )
        return self.item()

    def __int__(self) -> int:
        """The one element, as `int` makes it.

        >>> int(Tensor([2.7]))
        2
        """
        return int(self._one_element("an int"))

    def __float__(self) -> float:
        """The one element, as `float` makes it.

        >>> float(Tensor(3))
        3.0
        """
        return float(self._one_element("a float"))

    def __complex__(self) -> complex:
        """The one element, as `complex` makes it.

        >>> complex(Tensor([1.5]))
        (1.5+0j)
        """
        return complex(self._one_element("a complex number"))

    def __index__(self) -> int:
        """The one element, of an integer tensor, so that it can be a position.

        >>> "abc"[Tensor(1)]
        'b'
        """
        if not dtypes.is_int(self.dtype):
            raise TypeError(
                f"only a tensor of integers can be a position, got {self.dtype}: use int(t)"
            )
        return int(self._one_element("a position"))

    def __contains__(self, x) -> bool:
        """Whether an element equals `x`.

        >>> 3 in Tensor([1, 2, 3])
        True
        """
        return bool((self == x).any().item())

    def __format__(self, spec: str) -> str:
        """As `str`; with a format, that of the one element.

        >>> f"{Tensor(1.25):.1f}"
        '1.2'
        """
        return format(self._one_element("formatted text"), spec) if spec else str(self)


def _why_copied(memory: exchange.Borrowed, target: Any) -> str | None:
    """Why borrowed memory cannot be a tensor's own; None if it can."""
    if 0 in memory.shape:
        return "it has no elements"
    if memory.read_only:
        return "it may not be written"
    if not exchange.in_order(memory):
        return "its elements do not lie side by side"
    if memory.address % (memory.element[1] // 8):
        return "its elements lie between the places that the processor likes"
    if not isinstance(target, str) or not hasattr(Device[target].allocator, "_adopt"):
        return f"{target} does not use memory of the host"
    return None
