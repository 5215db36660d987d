"""What a tensor is: one graph node, whether it wants a gradient, and that gradient.

Tensors are lazy. Every operation builds a node (`_lift`) and nothing is computed until `realize`.
All live tensors are registered, so that when a node has been computed every tensor whose graph
contains it is moved onto the buffer that holds the result (`replace_nodes`).

The other modules of this package add methods by topic; `Tensor` in `__init__` puts them together.
Invariant: `uop` is never mutated, only exchanged for a node of the same shape, dtype and device.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from tinygrad._core.guard import bind_node_slot, not_memory
from tinygrad.device import Device
from tinygrad.dtype import ConstType, DType, DTypeLike, dtypes, least_upper_dtype, to_dtype
from tinygrad.mixin import OpMixin
from tinygrad.tensor import display, source
from tinygrad.tensor.naming import _METADATA
from tinygrad.uop.ops import GroupOp, Ops, UOp, all_metadata, sint

if TYPE_CHECKING:
    from tinygrad.tensor.interface import Lender, TensorMethods
else:
    from tinygrad._core.exchange import Lender

    TensorMethods = object

_live: dict[int, weakref.ref] = {}


class _Origin:
    """What a tensor and its views have in common, whatever their nodes are: equal computations are one node."""


# tensor -> its origin, if it is a view or has views
_origins: dict[int, _Origin] = {}

# thread -> the tensors that it makes, while somebody wants to know
_recorders: dict[int, list[weakref.ref]] = {}

# held while tensors are moved onto other nodes, and while a node is built and its tensor is not known yet
graph_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # a child has only the thread that forked: it must not find the lock held, nor graphs half changed, by another
    os.register_at_fork(
        before=graph_lock.acquire,
        after_in_parent=graph_lock.release,
        after_in_child=graph_lock.release,
    )


def canonicalize_device(device: str | None) -> str:
    """The full name of a device; None is the default device."""
    return Device.require_known(Device.canonicalize(device))


def canonical_devices(device) -> str | tuple[str, ...]:
    """As `canonicalize_device`, for one device or a sequence of them (one entry counts as one)."""
    if not isinstance(device, (tuple, list)):
        return canonicalize_device(device)
    names = tuple(canonicalize_device(name) for name in device)
    return names[0] if len(names) == 1 else names


def live_tensors() -> list[TensorCore]:
    """All tensors that exist now, oldest first."""
    found = [ref() for ref in list(_live.values())]
    return [t for t in found if t is not None]


@contextmanager
def recording_tensors() -> Iterator[list[weakref.ref]]:
    """Gives a list to which every tensor is added that this thread makes inside."""
    here = threading.get_ident()
    outer = _recorders.get(here)
    made = _recorders[here] = []
    try:
        yield made
    finally:
        if outer is None:
            del _recorders[here]
        else:
            outer += made
            _recorders[here] = outer


def _register(tensor: TensorCore) -> None:
    _live[id(tensor)] = ref = weakref.ref(tensor)
    if _recorders and (made := _recorders.get(threading.get_ident())) is not None:
        made.append(ref)


def nodes_without_memory() -> list[UOp]:
    """The nodes of live tensors but those that are a buffer as it is, oldest first."""
    return not_memory(list(_live.values()), Ops.BUFFER, Ops.RESHAPE)


def origin_of(tensor: TensorCore) -> _Origin | None:
    """What the tensor has in common with its views and with what it is a view of; None where there are none."""
    return _origins.get(id(tensor))


def make_view(view: TensorCore, of: TensorCore) -> None:
    """Notes that `view` shows the elements of `of`, and of whatever that is a view of."""
    if view is of:
        return
    if (origin := _origins.get(id(of))) is None:
        origin = _origins[id(of)] = _Origin()
    _origins[id(view)] = origin


def forget_origin(tensor: TensorCore) -> None:
    """Notes that a tensor shows something of its own from now on."""
    _origins.pop(id(tensor), None)


def replace_nodes(changes: dict[UOp, UOp], name: str | None = None) -> None:
    """Exchanges nodes in the graphs of all live tensors."""
    if not changes:
        return
    with graph_lock:
        _replace_nodes(changes, name)


def _replace_nodes(changes: dict[UOp, UOp], name: str | None) -> None:
    tensors = live_tensors()
    roots = list(dict.fromkeys(t.uop for t in tensors))
    direct = {u: changes[u] for u in roots if u in changes}
    indirect = [u for u in roots if u not in direct]
    if indirect:
        together = UOp.sink(*indirect)
        after = together.substitute(changes, name=name)
        if after is not together:
            direct.update(zip(together.src, after.src))
    for t in tensors:
        t.uop = direct.get(t.uop, t.uop)


def any_requires_grad(*flags: bool | None) -> bool | None:
    """Of a result: True when an input wants a gradient, None when one is undecided, else False."""
    if True in flags:
        return True
    return None if None in flags else False


def broadcast_shapes(*shapes: tuple[sint, ...]) -> tuple[sint, ...]:
    """The common shape by NumPy's rules. Raises ValueError where sizes differ and none is 1."""
    rank = max(len(s) for s in shapes)
    result: list[sint] = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, rank - len(shape)):
            known = result[position]
            if isinstance(known, int) and known == 1:
                result[position] = size
            elif isinstance(size, UOp) or isinstance(known, UOp):
                continue  # that two symbolic sizes are equal is checked where they are expanded
            elif size not in (1, known):
                raise ValueError(
                    f"cannot broadcast the shapes {', '.join(map(str, shapes))}: sizes {known} and "
                    f"{size} meet in axis {position - rank}; they must be equal or one of them 1"
                )
    return tuple(result)


class TensorCore(OpMixin, Lender, TensorMethods):
    """Construction, dtype, device and the one way to build nodes."""

    __slots__ = ("uop", "requires_grad", "grad", "__weakref__")
    training: bool = False

    def __init__(
        self,
        data: ConstType | bytes | list | tuple | UOp | Any | None,
        device: str | tuple | list | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        _force_unique: bool = False,
    ):
        """A tensor of `data`: number, nested list, bytes, NumPy array, path, node or another tensor.

        `dtype` defaults to what the data has (Python ints: default_int, floats: default_float), and
        `device` to Device.DEFAULT; a tuple of devices puts a copy on each.
        Raises ValueError for ragged lists, TypeError for data that are no numbers.

        >>> Tensor([[1, 2], [3, 4]]).shape
        (2, 2)
        >>> Tensor([1, 2.5]).dtype
        dtypes.float
        """
        wanted = None if dtype is None else source.stored_dtype(data, to_dtype(dtype))
        path: Any = data
        if device is None and hasattr(path, "parent") and hasattr(path, "resolve"):
            device = f"{source.FILE_STORAGE}:{path.resolve()}"
        if isinstance(data, TensorCore):
            make_view(self, data)
            device, data = data.device if device is None else device, data.uop
        placed = canonical_devices(device)
        unique = _force_unique or requires_grad is True
        node = source.to_node(data, wanted, placed, unique)
        if wanted is not None and node.dtype is not wanted:
            if isinstance(data, UOp):
                raise AssertionError(
                    f"the node has dtype {node.dtype}, got dtype={wanted}: cast it"
                )
        # storage devices run no kernels: first the copy, then the cast
        node = self._place(node, placed)
        if node.dtype is not wanted and wanted is not None:
            node = node.cast(wanted)
        self.requires_grad: bool | None = requires_grad
        self.grad: Self | None = None
        self.uop: UOp = node
        _register(self)

    @staticmethod
    def _place(node: UOp, device: str | tuple[str, ...]) -> UOp:
        """`node` on `device`, by copies where it is elsewhere."""
        if node._device is None or node.device == device:
            return node
        if node.base.op is Ops.CONST and node.op in (Ops.CONST, Ops.RESHAPE, Ops.EXPAND):
            moved = UOp.const(node.dtype, node.base.arg, device, ())
            return moved.reshape((1,) * len(node.shape)).expand(node.shape) if node.shape else moved
        if isinstance(device, tuple):
            return node.shard(device, None)
        return node.copy_to_device(device)

    def __del__(self):
        _live.pop(id(self), None)
        _origins.pop(id(self), None)

    @classmethod
    def _wrap(cls, node: UOp, requires_grad: bool | None = None) -> Self:
        """A tensor of a node that is in place already: the fast way for results of operations."""
        made = object.__new__(cls)
        made.uop = node
        made.requires_grad = requires_grad
        made.grad = None
        _register(made)
        return made

    def __reduce__(self):
        """For `pickle` and `copy`: the node with its memory, and the gradient.

        >>> import pickle
        >>> pickle.loads(pickle.dumps(Tensor([1, 2]))).tolist()
        [1, 2]
        """
        return _rebuild, (type(self), self.uop, self.requires_grad, self.grad)

    def _lift(self, build: Callable[..., UOp], *others: TensorCore) -> Self:
        """The tensor of `build(self.uop, *others.uop)`; it wants a gradient if an input does."""
        flags = (self.requires_grad, *[t.requires_grad for t in others])
        with graph_lock:
            node = build(self.uop, *[t.uop for t in others])
            made = self._wrap(node, any_requires_grad(*flags) if others else self.requires_grad)
        if (note := _METADATA.get()) is not None and node not in all_metadata:
            # equal constants are one node, which belongs to no call
            if node.op not in GroupOp.Movement or node.base.op is not Ops.CONST:
                all_metadata[node] = (note,)
        return made

    # ---- what the mixins ask for

    def alu(self, op: Ops, *src: TensorCore) -> Self:
        """Applies `op` to tensors that have one shape and dtype already.

        >>> Tensor([1, 2]).alu(Ops.ADD, Tensor([3, 4])).tolist()
        [4, 6]
        """
        return self._lift(lambda u, *rest: u.alu(op, *rest), *src)

    def const_like(self, b: ConstType) -> Self:
        """The constant `b` with the shape, dtype and device of `self`.

        >>> Tensor([1, 2]).const_like(7).tolist()
        [7, 7]
        """
        return self._wrap(self._constant(b, self.dtype).uop, False)._broadcast_to(self.shape)

    def _mop(self, op: Ops, arg) -> Self:
        made = self._lift(lambda u: u._mop(op, arg))
        make_view(made, self)
        return made

    @property
    def shape(self) -> tuple[sint, ...]:
        """The length of every axis; a symbolic length is a UOp.

        >>> Tensor([[1, 2, 3]]).shape
        (1, 3)
        """
        return self.uop.shape

    @property
    def device(self) -> str | tuple[str, ...]:
        """Where the tensor lives: a device name, or one name for each shard.

        >>> Tensor([1], device="PYTHON").device
        'PYTHON'
        """
        return self.uop.device

    @property
    def dtype(self) -> DType:
        """The type of one element.

        >>> Tensor([1.5]).dtype
        dtypes.float
        """
        return self.uop.dtype

    # ---- Python protocol

    def __repr__(self) -> str:
        """The values, shortened, where they are in memory; else shape, dtype and what computes them.

        >>> Tensor([1, 2])
        Tensor([1, 2], dtype=int, device='CPU')
        """
        return display.describe(self)

    # comparison is elementwise, so tensors are told apart by identity
    def __hash__(self) -> int:
        """By identity: tensors are keys of dicts and members of sets.

        >>> x = Tensor([1])
        >>> x in {x}, hash(x) == hash(Tensor([1]))
        (True, False)
        """
        return id(self)

    def __eq__(self, x) -> Self:  # type: ignore[override]
        """`self == x`, elementwise as bool.

        >>> (Tensor([1, 2]) == 2).tolist()
        [False, True]
        """
        return self.eq(x)

    def __ne__(self, x) -> Self:  # type: ignore[override]
        """`self != x`, elementwise as bool.

        >>> (Tensor([1, 2]) != 2).tolist()
        [True, False]
        """
        return self.ne(x)

    def __bool__(self):
        """Raises TypeError: which of the elements would count is not said.

        >>> bool(Tensor([True]).all().item())
        True
        """
        raise TypeError(
            "a tensor has no truth value of its own: use .item() for one element, or .any(), .all()"
        )

    def __len__(self) -> int:
        """The length of the first axis. Raises TypeError without axes.

        >>> len(Tensor([[1, 2], [3, 4], [5, 6]]))
        3
        """
        if not self.shape:
            raise TypeError("len() of a 0-d tensor: it has no axes")
        return self.shape[0]

    # ---- size and kind

    def numel(self) -> UOp | int:
        """Number of elements.

        >>> Tensor([[1, 2, 3], [4, 5, 6]]).numel()
        6
        """
        count: sint = 1
        for size in self.shape:
            count = count * size
        return count

    def element_size(self) -> int:
        """Bytes of one element.

        >>> Tensor([1.0], dtype="float16").element_size()
        2
        """
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> Tensor([1.0, 2.0], dtype="float16").nbytes()
        4
        """
        return int(self.numel()) * self.element_size()

    def is_floating_point(self) -> bool:
        """Whether the dtype is a float.

        >>> Tensor([1.0]).is_floating_point(), Tensor([1]).is_floating_point()
        (True, False)
        """
        return dtypes.is_float(self.dtype)

    def size(self, dim: int | None = None) -> sint | tuple[sint, ...]:
        """The shape, or the length of one axis. Raises IndexError for an axis that is not there.

        >>> Tensor([[1, 2, 3]]).size(), Tensor([[1, 2, 3]]).size(1)
        ((1, 3), 3)
        """
        return self.shape if dim is None else self.shape[dim]

    def _resolve_dim(self, dim: int, *, extra: bool = False) -> int:
        """`dim` counted from the front. Raises IndexError outside the axes (`extra`: one more)."""
        if not isinstance(dim, int):
            raise TypeError(f"an axis is a whole number, got {type(dim).__name__} {dim!r}")
        rank = max(self.ndim + extra, 1)
        if not -rank <= dim < rank:
            raise IndexError(
                f"axis {dim} is out of range [{-rank}, {rank - 1}] of a {self.ndim}-d tensor"
            )
        return dim % rank

    # ---- operands and broadcasting

    def _counting(self, start: sint, stop: sint, step: int = 1) -> Self:
        """The whole numbers from `start` to before `stop`, in a type that holds them; no gradient."""
        ends = [e for e in (start, stop) if isinstance(e, int)]
        wide = max(map(abs, ends), default=0) > dtypes.max(dtypes.default_int)
        kind = {"dtype": dtypes.int64} if wide else {}
        return self.arange(start, stop, step, device=self.device, requires_grad=False, **kind)

    def _constant(self, value: ConstType | UOp, dtype: DType) -> Self:
        """A scalar tensor on the device of `self`."""
        return self._wrap(UOp.const(dtype, dtypes.as_const(value, dtype), self.device, ()), False)

    def _dtype_of_number(self, value: ConstType) -> DType:
        """The dtype a Python number takes beside `self`: never wider than its kind asks for."""
        own = self.dtype
        if dtypes.is_float(own) or isinstance(value, bool):
            return own if dtypes.is_float(own) or dtypes.is_int(own) else dtypes.bool
        if isinstance(value, int):
            return own if dtypes.is_int(own) else dtypes.default_int
        return dtypes.default_float

    def ufix(self, x) -> Self:
        """`x` as a tensor: tensors unchanged, symbolic integers and Python numbers as constants.

        >>> Tensor([1.0]).ufix(2).dtype
        dtypes.float
        """
        tensor: Self = x
        if isinstance(x, TensorCore):
            return tensor
        if isinstance(x, UOp):
            return type(self).from_uop(x, device=self.device)
        if hasattr(x, "dtype") and hasattr(x, "shape"):
            return type(self)(x, device=self.device, requires_grad=False)
        if not isinstance(x, (int, float, bool)):
            raise RuntimeError(
                f"cannot use {type(x).__name__} {x!r} as an operand: give a tensor or a number"
            )
        return self._constant(x, self._dtype_of_number(x))

    def _broadcast_to(self, shape: tuple[sint, ...]) -> Self:
        """Expanded to `shape` by NumPy's rules. Raises ValueError where that is not possible."""
        if self.shape == shape:
            return self
        if self.ndim > len(shape):
            raise ValueError(f"cannot broadcast {self.shape} to {shape}, which has fewer axes")
        padded = (1,) * (len(shape) - self.ndim) + self.shape
        for have, want in zip(padded, shape):
            if isinstance(have, int) and isinstance(want, int) and have not in (1, want):
                raise ValueError(
                    f"cannot broadcast {self.shape} to {shape}: size {have} is not 1 or {want}"
                )
        lifted = self if padded == self.shape else self.reshape(padded)
        return lifted.expand(shape)

    def _broadcasted(self, y, reverse: bool = False, match_dtype: bool = True) -> tuple[Self, Self]:
        """`self` and `y` with one shape and, unless told otherwise, one dtype."""
        x, y = self, self.ufix(y)
        if match_dtype and x.dtype is not y.dtype:
            common = least_upper_dtype(x.dtype, y.dtype)
            x, y = x.cast(common), y.cast(common)
        if x.shape != y.shape:
            shape = broadcast_shapes(x.shape, y.shape)
            x, y = x._broadcast_to(shape), y._broadcast_to(shape)
        return (y, x) if reverse else (x, y)

    def _binop(self, op: Ops, x, reverse: bool) -> Self:
        left, right = self._broadcasted(x, reverse)
        return left.alu(op, right)

    # ---- dtype

    def cast(self, dtype: DTypeLike) -> Self:
        """Values converted to `dtype`: floats to ints by truncation, anything to bool by `!= 0`.

        >>> Tensor([-1.7, 2.5]).cast("int32").tolist()
        [-1, 2]
        """
        target = to_dtype(dtype)
        return self if self.dtype is target else self._lift(lambda u: u.cast(target))

    def detach(self) -> Self:
        """The same values, cut from the gradient.

        >>> Tensor([1.0], requires_grad=True).detach().requires_grad
        False
        """
        made = self._wrap(self.uop.detach(), False)
        make_view(made, self)
        return made

    def requires_grad_(self, requires_grad=True) -> Self:
        """Sets whether `backward` gives this tensor a gradient; returns self.

        >>> Tensor([1.0]).requires_grad_().requires_grad
        True
        """
        self.requires_grad = requires_grad
        return self

    def _own_values(self) -> Self:
        """The same values as a result: writes to `self` do not show in it, and the other way round."""
        return self.bitwise_or(False) if self.dtype is dtypes.bool else self * 1

    def contiguous(self, *args, **kwargs) -> Self:
        """The same values, promised to lie in a buffer of their own once realized.

        >>> Tensor([[1, 2], [3, 4]]).permute(1, 0).contiguous().tolist()
        [[1, 3], [2, 4]]
        """
        return self._lift(lambda u: u.contiguous(*args, **kwargs))

    def contiguous_backward(self) -> Self:
        """The same values; the gradient that flows back through here is made contiguous.

        >>> Tensor([1.0]).contiguous_backward().tolist()
        [1.0]
        """
        return self._lift(lambda u: u.contiguous_backward())


bind_node_slot(TensorCore.__dict__["uop"])


def _rebuild(cls, node: UOp, requires_grad, grad):
    """Unpickles a tensor."""
    made = cls._wrap(node, requires_grad)
    made.grad = grad
    return made


def _cast_method(name: str) -> Callable[[TensorCore], TensorCore]:
    def method(self):
        return self.cast(getattr(dtypes, name))

    method.__name__ = name
    method.__doc__ = (
        f"Same as `cast(dtypes.{name})`.\n\n>>> Tensor([1]).{name}().dtype\ndtypes.{name}\n"
    )
    return method


for _name in ("float", "half", "double", "bfloat16", "int", "short", "long", "bool"):
    setattr(TensorCore, _name, _cast_method(_name))
