"""Methods that make nodes: constants, loops, memory access, vectors, structure.

`BuildMethods` is installed into the node type by `tinygrad.uop.ops`. Constructors check what users
can get wrong; methods called while rewriting trust their callers.
"""

from __future__ import annotations

import itertools

from tinygrad._core import UOp
from tinygrad.dtype import AddrSpace, DType, Invalid, PtrDType, dtypes, least_value
from tinygrad.helpers import prod
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.info import AxisType
from tinygrad.uop.installed import Installed
from tinygrad.uop.shape import shape_to_uop, size_to_uop

_PLACEHOLDER_OPS = {
    AddrSpace.GLOBAL: Ops.DEFINE_GLOBAL,
    AddrSpace.LOCAL: Ops.DEFINE_LOCAL,
    AddrSpace.REG: Ops.DEFINE_REG,
}


def device_to_uop(device: str | tuple[str, ...] | UOp) -> UOp:
    """A device name, or names, as a DEVICE node."""
    return device if isinstance(device, UOp) else UOp(Ops.DEVICE, arg=device)


def identity_element(op: Ops, dtype: DType):
    """The constant that leaves every other operand of ADD, MUL or MAX as it is."""
    values = {Ops.ADD: 0, Ops.MUL: 1, Ops.MAX: least_value(dtype)}
    if op not in values:
        raise KeyError(f"{op} has no identity element: expected ADD, MUL or MAX")
    return dtypes.as_const(values[op], dtype)


def _slice_bounds(item: slice, size) -> tuple:
    if item.step not in (None, 1):
        raise IndexError(f"slices of nodes have step 1, got {item}")
    begin = 0 if item.start is None else item.start
    end = size if item.stop is None else item.stop
    begin, end = (x + size if isinstance(x, int) and x < 0 else x for x in (begin, end))
    return begin, end


class BuildMethods(Installed):
    """Constructors of nodes."""

    unique_num = itertools.count(0)

    # ---- constants and inputs

    @staticmethod
    def const(dtype: DType, b, device=None, shape=None, unique: bool | int = False) -> UOp:
        """A constant of `dtype`; a tuple gives one value per lane.

        With `device` it is a tensor constant, with `shape` it is expanded to it, and with `unique`
        it is one that shares its node with no other.
        """
        if isinstance(b, UOp):
            return b.unbind()[0] if b.op is Ops.BIND else b
        if isinstance(b, tuple) and b and all(x is b[0] or x == b[0] for x in b):
            b = b[0]
        src: tuple[UOp, ...] = ()
        if device is not None:
            src = (device_to_uop(device),)
        if unique is not False:
            src = (*src, UOp.unique(None if unique is True else unique))
        op = Ops.VCONST if isinstance(b, tuple) else Ops.CONST
        made = UOp(op, dtype, src, dtypes.as_const(b, dtype))
        if not shape:
            return made
        flat = UOp(Ops.RESHAPE, dtype, (made, shape_to_uop((1,) * len(shape))))
        return flat._mop(Ops.EXPAND, tuple(shape)) if flat._shape != tuple(shape) else flat

    @staticmethod
    def unique_const(dtype: DType, b, device, unique: bool | int = True) -> UOp:
        """A tensor constant that shares its node with no other."""
        return UOp.const(dtype, b, device, unique=unique)

    def const_like(self, b) -> UOp:
        """The constant `b` with the dtype, device and shape of this node."""
        return UOp.const(self.dtype.base, b, device=self._device, shape=self._shape)

    @staticmethod
    def invalid(count: int = 1) -> UOp:
        """The index of no element.

        >>> UOp.invalid().dtype
        dtypes.index
        """
        return UOp(Ops.CONST, dtypes.index.vec(count), (), Invalid)

    @staticmethod
    def variable(name: str, min_val, max_val, dtype: DType = dtypes.index) -> UOp:
        """An input with a name and inclusive bounds.

        >>> n = Variable("n", 1, 8).bind(3)
        >>> Tensor.arange(8).realize().shrink(((0, n),)).sum().item()
        3
        """
        if isinstance(min_val, UOp) or isinstance(max_val, UOp):
            raise TypeError(f"bounds of variable {name!r} must be numbers: {min_val}, {max_val}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable must be a str, got {name!r}")
        if min_val > max_val:
            raise ValueError(
                f"variable {name!r} has no value: its bounds are {min_val} .. {max_val}"
            )
        return UOp(Ops.DEFINE_VAR, dtype, (), (name, min_val, max_val))

    @staticmethod
    def range(
        end, axis_id, axis_type=AxisType.LOOP, *arg, dtype=dtypes.index, src=(), **kwargs
    ) -> UOp:
        """A loop variable that runs from 0 to `end - 1`.

        >>> UOp.range(4, 0).vmax
        3
        """
        fields = (axis_id, axis_type, *arg)
        return UOp(Ops.RANGE, dtype, (size_to_uop(end, dtype), *src), fields, **kwargs)

    @staticmethod
    def special(end, name: str, dtype: DType = dtypes.index) -> UOp:
        """A hardware index such as `gidx0`, from 0 to `end - 1`.

        >>> UOp.special(8, "lidx0").vmax
        7
        """
        return UOp(Ops.SPECIAL, dtype, (size_to_uop(end, dtype),), name)

    @staticmethod
    def unique(arg: int | None = None) -> UOp:
        """A node that no other equals.

        >>> UOp.unique() is UOp.unique()
        False
        """
        return UOp(Ops.UNIQUE, arg=next(UOp.unique_num) if arg is None else arg)

    @staticmethod
    def placeholder(
        shape: tuple[int, ...], dtype: DType, slot: int, addrspace: AddrSpace = AddrSpace.GLOBAL
    ) -> UOp:
        """Memory of a hand-written kernel: argument `slot`, or local memory or registers.

        >>> UOp.placeholder((2, 3), dtypes.float32, 0).shape
        (2, 3)
        """
        pointer = dtype.ptr(prod(shape), addrspace)
        flat = UOp(_PLACEHOLDER_OPS[addrspace], pointer, (), slot)
        return flat if len(shape) == 1 else flat.reshape(tuple(shape))

    def placeholder_like(self, slot: int) -> UOp:
        """A kernel argument with the dtype of this node and the shape it has on one device.

        >>> UOp.placeholder((2, 3), dtypes.float32, 0).placeholder_like(1).shape
        (2, 3)
        """
        if not all(isinstance(size, int) for size in self.shape):
            raise ValueError(f"a placeholder needs a constant shape, got {self.shape}")
        shape = self.shape
        if self.axis is not None and isinstance(self.device, tuple):
            count = len(self.device)
            shape = tuple(s // count if a == self.axis else s for a, s in enumerate(shape))
        return UOp.placeholder(shape, self.dtype.base, slot)

    # ---- structure

    def sink(*srcs: UOp | None, **kwargs) -> UOp:
        """The root of a graph with these results.

        >>> UOp.sink(UOp.const(dtypes.int32, 1)).op.name
        'SINK'
        """
        return UOp(Ops.SINK, dtypes.void, tuple(s for s in srcs if s is not None), **kwargs)

    def group(*srcs: UOp | None) -> UOp:
        """Several effects as one node; a single one is itself.

        >>> UOp.group(UOp.const(dtypes.int32, 1), UOp.const(dtypes.int32, 2)).op.name
        'GROUP'
        """
        kept = tuple(s for s in srcs if s is not None)
        return kept[0] if len(kept) == 1 else UOp(Ops.GROUP, dtypes.void, kept)

    def end(self, *src: UOp) -> UOp:
        """This effect with the given loops closed around it.

        >>> i = UOp.range(4, 0)
        >>> len(UOp.const(dtypes.int32, 1).end(i).ranges)
        0
        """
        return UOp(Ops.END, dtypes.void, (self, *src)) if src else self

    def after(self, *src: UOp, **kwargs) -> UOp:
        """This buffer as it is once `src` has happened.

        >>> p = UOp.placeholder((4,), dtypes.float32, 0)
        >>> p.after(p[0].store(1.0)).shape
        (4,)
        """
        return UOp(Ops.AFTER, self.dtype, (self, *src), **kwargs) if src else self

    def barrier(self, *src: UOp) -> UOp:
        """A point that all threads of a group reach before any goes on.

        >>> UOp.const(dtypes.int32, 1).barrier().op.name
        'BARRIER'
        """
        return UOp(Ops.BARRIER, dtypes.void, (self, *src))

    def f(self, op: Ops, **kwargs) -> UOp:
        """A node of `op` on this one, with its dtype unless another is given.

        >>> UOp.const(dtypes.int32, 1).f(Ops.NOOP).op.name
        'NOOP'
        """
        return UOp(op, kwargs.pop("dtype", self.dtype), (self, *kwargs.pop("src", ())), **kwargs)

    # ---- memory

    def index(self, *srcs: UOp | None, ptr: bool = False, **kwargs) -> UOp:
        """The element at one index per axis; with `ptr` its address.

        >>> UOp.placeholder((4,), dtypes.float32, 0).index(UOp.const(dtypes.index, 2)).dtype
        dtypes.float
        """
        dtype = kwargs.pop("dtype", self.dtype if ptr else self.dtype.base)
        kept = tuple(s for s in srcs if s is not None)
        return UOp(Ops.INDEX, dtype, (self, *map(size_to_uop, kept)), **kwargs)

    def __getitem__(self, idx):
        """`buf[i, j]`: the element; with slices or fewer indices than axes, a smaller view."""
        items = idx if isinstance(idx, tuple) else (idx,)
        shape = self._shape
        if shape is None or (
            len(items) >= len(shape) and not any(isinstance(x, slice) for x in items)
        ):
            return self.index(*map(size_to_uop, items))
        if len(items) > len(shape):
            raise IndexError(f"too many indices: got {len(items)} for shape {shape}")
        pairs, kept = [], []
        for item, size in itertools.zip_longest(items, shape, fillvalue=slice(None)):
            begin, end = _slice_bounds(item, size) if isinstance(item, slice) else (item, item + 1)
            pairs.append((begin, end))
            if isinstance(item, slice):
                kept.append(end - begin)
        # not through `shrink`: a loop variable as the begin is right by construction
        return self._mop(Ops.SHRINK, tuple(pairs))._mop(Ops.RESHAPE, tuple(kept))

    def load(self, *src: UOp, **kwargs) -> UOp:
        """The value at this address; a source is the value where the address is not valid.

        >>> p = UOp.placeholder((4,), dtypes.float32, 0)
        >>> p.index(UOp.const(dtypes.index, 2), ptr=True).load().dtype
        dtypes.float
        """
        return UOp(Ops.LOAD, kwargs.pop("dtype", self.dtype.base), (self, *src), **kwargs)

    def store(self, src, **kwargs) -> UOp:
        """Writes a value, or a constant, to this address.

        >>> p = UOp.placeholder((4,), dtypes.float32, 0)
        >>> p[0].store(1.0).op.name
        'STORE'
        """
        value = src if isinstance(src, UOp) else UOp.const(self.dtype.base, src)
        return UOp(Ops.STORE, kwargs.pop("dtype", dtypes.void), (self, value), **kwargs)

    def set(self, val, end=()) -> UOp:
        """The buffer of this element once `val` is stored in it and the loops `end` are closed.

        >>> p = UOp.placeholder((4,), dtypes.float32, 0)
        >>> p[0].set(1.0).shape
        (4,)
        """
        loops = end if isinstance(end, (tuple, list)) else (end,)
        return self.src[0].after(self.store(val).end(*loops))

    # ---- values

    def alu(self, op, *src: UOp, **kwargs) -> UOp:
        """`op` on this node and `src`. Comparisons give bool, the rest the dtype of the operands."""
        dtype = (src[-1] if src else self).dtype
        if op in GroupOp.Comparison:
            dtype = dtypes.bool.vec(dtype.count) if dtype.count > 1 else dtypes.bool
        elif op in (Ops.SHL, Ops.SHR):
            dtype = self.dtype
        return UOp(op, dtype, (self, *src), **kwargs)

    def cast(self, dtype: DType) -> UOp:
        """The value converted to `dtype`; a scalar dtype is taken for every lane of a vector.

        >>> UOp.const(dtypes.int32, 3).cast(dtypes.float32).dtype
        dtypes.float
        """
        lanes = self.dtype.vcount
        if lanes > 1 and dtype.vcount == 1 and not isinstance(dtype, PtrDType):
            dtype = dtype.vec(lanes)
        return self if self.dtype is dtype else UOp(Ops.CAST, dtype, (self,))

    def bitcast(self, dtype: DType) -> UOp:
        """The same bits read as `dtype`.

        >>> UOp.variable("n", 1, 8).cast(dtypes.int32).bitcast(dtypes.float32).dtype
        dtypes.float
        """
        return self if self.dtype is dtype else UOp(Ops.BITCAST, dtype, (self,))

    def reduce(self, *src: UOp, **kwargs) -> UOp:
        """This value combined over the loops `src` by the op in `arg`.

        >>> i = UOp.range(4, 0)
        >>> len(i.reduce(i, arg=Ops.ADD).ranges)
        0
        """
        return UOp(Ops.REDUCE, kwargs.pop("dtype", self.dtype), (self, *src), **kwargs)

    def bufferize(self, *args: UOp, **kwargs) -> UOp:
        """This value stored over the loops `args`."""
        return UOp(Ops.BUFFERIZE, kwargs.pop("dtype", self.dtype), (self, *args), **kwargs)

    def valid(self, cond: UOp) -> UOp:
        """This index where `cond` holds, no element elsewhere.

        >>> i = UOp.range(8, 0)
        >>> i.valid(i < 4).get_idx() is i
        True
        """
        if cond.op is Ops.CONST and cond.arg is True:
            return self
        nowhere = UOp(Ops.CONST, self.dtype, (), Invalid)
        return UOp(Ops.WHERE, self.dtype, (cond, self, nowhere))

    def get_idx(self) -> UOp:
        """The index without its condition (see `valid`).

        >>> i = UOp.range(8, 0)
        >>> i.valid(i < 4).get_idx() is i
        True
        """
        return self.src[1] if _is_gated(self) else self

    def get_valid(self) -> UOp:
        """The condition under which this index names an element.

        >>> i = UOp.range(8, 0)
        >>> i.valid(i < 4).get_valid().render()
        '(r0<4)'
        """
        if _is_gated(self):
            return self.src[0]
        never = self.op is Ops.CONST and self.arg is Invalid
        return UOp(Ops.CONST, dtypes.bool, (), not never)

    # ---- vectors

    def gep(self, i: tuple[int, ...] | int) -> UOp:
        """Lane `i`, or the vector of several lanes.

        >>> v = UOp.variable("n", 1, 8).cast(dtypes.int32).broadcast(4)
        >>> v.gep(2).dtype
        dtypes.int
        """
        if isinstance(i, tuple) and len(i) == 1:
            i = i[0]
        if isinstance(i, int):
            if self.dtype.vcount == 1 and i == 0:
                return self
            if self.op is Ops.VECTORIZE:
                return self.src[i]
            if self.op is Ops.CONST:
                return UOp(Ops.CONST, self.dtype.scalar(), self.src, self.arg)
            if self.op is Ops.VCONST:
                return UOp(Ops.CONST, self.dtype.scalar(), self.src, self.arg[i])
            return UOp(Ops.GEP, self.dtype.scalar(), (self,), (i,))
        if i == tuple(range(self.dtype.vcount)):
            return self
        return UOp(Ops.GEP, self.dtype.scalar().vec(len(i)), (self,), i)

    def sgep(self, i: int):
        """Lane `i` as a size: an int where it is constant."""
        return self.gep(i).sintify()

    def vectorize(self, *srcs: UOp, **kwargs) -> UOp:
        """The vector of this scalar and `srcs`.

        >>> UOp.const(dtypes.int32, 1).vectorize(UOp.variable("n", 1, 8).cast(dtypes.int32)).dtype
        dtypes.int.vec(2)
        """
        lanes = (self, *srcs)
        dtype = kwargs.pop("dtype", None) or self.dtype.vec(len(lanes))
        return UOp(Ops.VECTORIZE, dtype, lanes, **kwargs)

    def broadcast(self, count: int) -> UOp:
        """The vector with this scalar in every lane.

        >>> UOp.variable("n", 1, 8).cast(dtypes.int32).broadcast(4).dtype.count
        4
        """
        if self.dtype.vcount != 1:
            raise ValueError(f"only scalars can be broadcast, got {self.dtype}")
        if count == 1:
            return self
        if self.op is Ops.CONST and not self.src:
            return UOp(Ops.CONST, self.dtype.vec(count), (), self.arg)
        return UOp(Ops.VECTORIZE, self.dtype.vec(count), (self,) * count)

    def contract(self, *rngs: UOp) -> UOp:
        """The vector of this value over all steps of the given unrolled loops."""
        for r in rngs:
            if r.op is not Ops.RANGE or r.arg[1] not in (AxisType.UPCAST, AxisType.UNROLL):
                raise ValueError(f"contract takes UPCAST or UNROLL ranges, got {r.op} {r.arg}")
        axes = tuple((r.arg[0], int(r.vmax) + 1) for r in rngs)
        lanes = prod(size for _, size in axes)
        return UOp(Ops.CONTRACT, self.dtype.vec(lanes), (self,), axes)


def _is_gated(u: UOp) -> bool:
    return u.op is Ops.WHERE and u.src[2].op is Ops.CONST and u.src[2].arg is Invalid
