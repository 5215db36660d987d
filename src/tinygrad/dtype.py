"""Element types.

A `DType` is an interned, immutable description of one element: equal fields give the same object, so identity is
equality and types may key dictionaries. Vectors (`dtype.vec(n)`) and pointers (`dtype.ptr(size)`) are types too.
Also here: Python-exact conversion of a value to the values a type can hold (`truncate`), the promotion lattice, and the
translation to NumPy and PyTorch types. Everything above the core uses this module; it imports only `helpers`.
"""

from __future__ import annotations

import builtins
import ctypes
import enum
import functools
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from tinygrad.helpers import getenv, prod

Method = TypeVar("Method", bound=Callable[..., Any])
FmtStr = Literal["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d"]

# the range of dtypes.index: wide enough that no index expression of a real program reaches it
_INDEX_BITS = 800


def _remembered(method: Method) -> Method:
    """`functools.cache` for methods of types, which are interned and live for ever; keeps the signature."""
    cached: Any = functools.cache(method)
    return cached


class InvalidTypeMetaClass(type):
    """Makes `InvalidType()` the one object that stands for "no element here"."""

    instance: InvalidType | None = None

    def __call__(cls) -> InvalidType:
        if InvalidTypeMetaClass.instance is None:
            InvalidTypeMetaClass.instance = super().__call__()
        return InvalidTypeMetaClass.instance


class InvalidType(metaclass=InvalidTypeMetaClass):
    """The constant of an index that must not be used. Ordered by identity so that it may sit in sorted tuples."""

    def __repr__(self) -> str:
        return "Invalid"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: object) -> bool:
        return self is not other

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return 0x1A7A11D

    def __reduce__(self) -> tuple:
        return (InvalidType, ())


Invalid = InvalidType()

ConstType = float | int | bool
PyConst = ConstType


class AddrSpace(enum.Enum):
    """Which memory a pointer leads to."""

    GLOBAL = 0
    LOCAL = 1
    REG = 2

    def __repr__(self) -> str:
        return str(self)


class DTypeMetaClass(type):
    """Interns types: constructing the same fields twice gives the same object."""

    dcache: dict[tuple, DType] = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        key = (cls, *(getattr(made, f.name) for f in fields(made)))
        return DTypeMetaClass.dcache.setdefault(key, made)


@dataclass(frozen=True, eq=False)
class DType(metaclass=DTypeMetaClass):
    """One element type.

    `priority` orders the promotion lattice, `itemsize` is in bytes (of the whole vector for vector types), `name` is the
    C spelling, `fmt` the `struct` code or None, `count` the number of lanes, `_scalar` the lane type of a vector.

    >>> dtypes.float32.itemsize, dtypes.float32.vec(4).count
    (4, 4)
    """

    priority: int
    itemsize: int
    name: str
    fmt: FmtStr | None
    count: int
    _scalar: DType | None

    @staticmethod
    def new(priority: int, itemsize: int, name: str, fmt: FmtStr | None) -> DType:
        """A scalar type; equal arguments give the one type."""
        return DType(priority, itemsize, name, fmt, 1, None)

    def __reduce__(self) -> tuple:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Any) -> DType:
        return self

    def __repr__(self) -> str:
        text = f"dtypes.{_SHORT_NAMES.get(self.scalar().name, self.scalar().name)}"
        return text if self.count == 1 else f"{text}.vec({self.count})"

    def _order(self) -> tuple:
        return (self.priority, self.itemsize, self.name, self.fmt or "", self.count)

    def __lt__(self, other: DType) -> bool:
        return self._order() < other._order()

    @property
    def base(self) -> DType:
        """The type itself; of a pointer what it points to.

        >>> dtypes.float32.ptr(16).base
        dtypes.float
        """
        return self

    @property
    def vcount(self) -> int:
        """The number of lanes.

        >>> dtypes.float32.vec(4).vcount
        4
        """
        return self.count

    @_remembered
    def vec(self, sz: int) -> DType:
        """The vector type of `sz` lanes of this scalar type; `sz` 1 gives the type itself.

        >>> dtypes.float32.vec(4)
        dtypes.float.vec(4)
        """
        if self.count != 1:
            raise AssertionError(
                f"cannot make a vector of the vector type {self}: use .scalar().vec({sz})"
            )
        if sz == 1 or self is dtypes.void:
            return self
        if sz < 1:
            raise ValueError(f"a vector type needs at least one lane, got {sz}")
        lane_name = self.name.replace(" ", "_")
        return DType(self.priority, self.itemsize * sz, f"{lane_name}{sz}", None, sz, self)

    @_remembered
    def ptr(self, size: int = -1, addrspace: AddrSpace = AddrSpace.GLOBAL) -> PtrDType:
        """A pointer to `size` elements of this type (-1: unknown).

        >>> dtypes.float32.ptr(16)
        dtypes.float.ptr(16)
        """
        return PtrDType(
            self.priority,
            self.itemsize,
            self.name,
            self.fmt,
            self.count,
            None,
            self,
            addrspace,
            1,
            size,
        )

    def scalar(self) -> DType:
        """The type of one lane.

        >>> dtypes.float32.vec(4).scalar()
        dtypes.float
        """
        return self if self._scalar is None else self._scalar

    def nbytes(self) -> int:
        """Bytes of what the type describes. Raises RuntimeError: only pointers have a size."""
        raise RuntimeError(f"{self} is not a pointer: only pointers have a size in bytes")

    @property
    def min(self) -> ConstType:
        """The smallest value, minus infinity for floats.

        >>> dtypes.int8.min
        -128
        """
        return dtypes.min(self)

    @property
    def max(self) -> ConstType:
        """The largest value, infinity for floats.

        >>> dtypes.int8.max
        127
        """
        return dtypes.max(self)


@dataclass(frozen=True, eq=False)
class PtrDType(DType):
    """A pointer; `v` is the number of lanes of a vector of pointers, `size` the number of elements or -1."""

    _base: DType
    addrspace: AddrSpace
    v: int
    size: int = -1

    @property
    def base(self) -> DType:
        """What it points to."""
        return self._base

    @property
    def vcount(self) -> int:
        """The number of lanes of a vector of pointers."""
        return self.v

    @_remembered
    def vec(self, sz: int) -> DType:
        if self.v != 1:
            raise AssertionError(
                f"cannot make a vector of {self}, which is a vector of pointers already"
            )
        if sz == 1:
            return self
        changed = {f.name: getattr(self, f.name) for f in fields(self)} | {"v": sz}
        if not isinstance(self, ImageDType):
            changed["_scalar"] = self
        return type(self)(**changed)

    def ptr(self, size: int = -1, addrspace: AddrSpace = AddrSpace.GLOBAL) -> PtrDType:
        """Raises RuntimeError: there are no pointers to pointers."""
        raise RuntimeError(f"cannot make a pointer to the pointer type {self}")

    def nbytes(self) -> int:
        """Bytes behind the pointer. Raises RuntimeError where the size is unknown.

        >>> dtypes.float32.ptr(16).nbytes()
        64
        """
        if self.size == -1:
            raise RuntimeError(f"{self} has no known size: give one with dtype.ptr(size)")
        return self.size * self.itemsize

    def __repr__(self) -> str:
        parts = (
            [str(self.size)] if self.size != -1 or self.addrspace is not AddrSpace.GLOBAL else []
        )
        if self.addrspace is not AddrSpace.GLOBAL:
            parts.append(str(self.addrspace))
        lanes = "" if self.v == 1 else f".vec({self.v})"
        return f"{self.base!r}.ptr({', '.join(parts)}){lanes}"


@dataclass(frozen=True, eq=False)
class ImageDType(PtrDType):
    """A two-dimensional texture of `shape` (height, width, 4); loads give float whatever the storage."""

    shape: tuple[int, ...] = ()

    def ptr(self, size: int = -1, addrspace: AddrSpace = AddrSpace.GLOBAL) -> PtrDType:
        """The image itself, which is a pointer already. Raises AssertionError outside global memory."""
        if addrspace is not AddrSpace.GLOBAL:
            raise AssertionError(f"images live in global memory, got {addrspace}")
        return self

    def __repr__(self) -> str:
        lanes = "" if self.v == 1 else f".vec({self.v})"
        return f"dtypes.{self.name}({self.shape}){lanes}"


def _image(name: str, fmt: FmtStr, itemsize: int, shape: tuple[int, ...]) -> ImageDType:
    base = dtypes.float32
    return ImageDType(
        100, itemsize, name, fmt, 1, None, base, AddrSpace.GLOBAL, 1, prod(shape), tuple(shape)
    )


class dtypes:
    """The namespace of all types, and questions about them."""

    @staticmethod
    @functools.cache
    def is_float(x: DType) -> bool:
        """Whether the lanes are floats.

        >>> dtypes.is_float(dtypes.float16), dtypes.is_float(dtypes.int8)
        (True, False)
        """
        return x.scalar() in dtypes.floats or isinstance(x, ImageDType)

    @staticmethod
    @functools.cache
    def is_int(x: DType) -> bool:
        """Whether the lanes are integers, signed or not; bools are none.

        >>> dtypes.is_int(dtypes.uint8), dtypes.is_int(dtypes.bool)
        (True, False)
        """
        return x.scalar() in dtypes.ints or x.scalar() is dtypes.index

    @staticmethod
    @functools.cache
    def is_unsigned(x: DType) -> bool:
        """Whether the lanes are unsigned integers.

        >>> dtypes.is_unsigned(dtypes.uint8), dtypes.is_unsigned(dtypes.int8)
        (True, False)
        """
        return x.scalar() in dtypes.uints

    @staticmethod
    def is_bool(x: DType) -> bool:
        """Whether the lanes are bools.

        >>> dtypes.is_bool(dtypes.bool)
        True
        """
        return x.scalar() is dtypes.bool

    @staticmethod
    def from_py(x: Any) -> DType:
        """The type that a Python number, or a (nested) list of them, has by default.

        >>> dtypes.from_py(1), dtypes.from_py(1.5), dtypes.from_py(True)
        (dtypes.int, dtypes.float, dtypes.bool)
        """
        if type(x) is float or isinstance(x, float):
            return dtypes.default_float
        if isinstance(x, bool):
            return dtypes.bool
        if isinstance(x, int):
            return dtypes.default_int
        if isinstance(x, (list, tuple)):
            # bool < int < float, as the promotion lattice has it
            return max((dtypes.from_py(y) for y in x), default=dtypes.default_float)
        raise RuntimeError(
            f"cannot tell the dtype of {x!r} ({type(x).__name__}): give a bool, int, float or a list of them"
        )

    @staticmethod
    def as_const(val: Any, dtype: DType) -> Any:
        """`val` as the Python value that `dtype` holds: int, float or bool; a tuple lane by lane.

        >>> dtypes.as_const(2.7, dtypes.int32), dtypes.as_const(1, dtypes.bool)
        (2, True)
        """
        if isinstance(val, tuple):
            if len(val) != dtype.count:
                raise AssertionError(
                    f"got {len(val)} values for {dtype}, which has {dtype.count} lanes"
                )
            return tuple(dtypes.as_const(x, dtype) for x in val)
        if isinstance(val, InvalidType):
            return val
        if dtypes.is_int(dtype):
            return int(val)
        return float(val) if dtypes.is_float(dtype) else bool(val)

    @staticmethod
    @functools.cache
    def min(dtype: DType) -> Any:
        """The least value of the type: an int, False, or -inf.

        >>> dtypes.min(dtypes.int8), dtypes.min(dtypes.float32)
        (-128, -inf)
        """
        if dtypes.is_int(dtype):
            return 0 if dtypes.is_unsigned(dtype) else -(1 << (_bit_width(dtype) - 1))
        return -math.inf if dtypes.is_float(dtype) else False

    @staticmethod
    @functools.cache
    def max(dtype: DType) -> Any:
        """The greatest value of the type: an int, True, or inf.

        >>> dtypes.max(dtypes.int8), dtypes.max(dtypes.float32)
        (127, inf)
        """
        if dtypes.is_int(dtype):
            return (1 << (_bit_width(dtype) - (0 if dtypes.is_unsigned(dtype) else 1))) - 1
        return math.inf if dtypes.is_float(dtype) else True

    @staticmethod
    def finfo(dtype: DType) -> tuple[int, int]:
        """(exponent bits, mantissa bits) of a float type. Raises ValueError for others.

        >>> dtypes.finfo(dtypes.float16)
        (5, 10)
        """
        try:
            return _FLOAT_LAYOUT[dtype.scalar().name]
        except KeyError:
            raise ValueError(f"{dtype} is not a floating point type") from None

    @staticmethod
    def fields() -> dict[str, DType]:
        """The scalar types by name.

        >>> dtypes.fields()["int32"]
        dtypes.int
        """
        return DTYPES_DICT

    # lattice position, bytes, C name, struct code
    void: DType = DType.new(-2, 0, "void", None)
    index: DType = DType.new(-1, _INDEX_BITS // 8, "index", None)
    bool: DType = DType.new(0, 1, "bool", "?")
    int8: DType = DType.new(1, 1, "signed char", "b")
    uint8: DType = DType.new(2, 1, "unsigned char", "B")
    int16: DType = DType.new(3, 2, "short", "h")
    uint16: DType = DType.new(4, 2, "unsigned short", "H")
    int32: DType = DType.new(5, 4, "int", "i")
    uint32: DType = DType.new(6, 4, "unsigned int", "I")
    int64: DType = DType.new(7, 8, "long", "q")
    uint64: DType = DType.new(8, 8, "unsigned long", "Q")
    fp8e4m3: DType = DType.new(9, 1, "float8_e4m3", None)
    fp8e5m2: DType = DType.new(10, 1, "float8_e5m2", None)
    float16: DType = DType.new(11, 2, "half", "e")
    bfloat16: DType = DType.new(12, 2, "__bf16", None)
    float32: DType = DType.new(13, 4, "float", "f")
    float64: DType = DType.new(14, 8, "double", "d")

    half = float16
    float = float32
    double = float64
    uchar = uint8
    ushort = uint16
    uint = uint32
    ulong = uint64
    char = int8
    short = int16
    int = int32
    long = int64

    @staticmethod
    def imageh(shp: tuple[builtins.int, ...]) -> ImageDType:
        """A texture of float16 of the shape (height, width, 4).

        >>> dtypes.imageh((2, 3, 4)).itemsize
        2
        """
        return _image("imageh", "e", 2, shp)

    @staticmethod
    def imagef(shp: tuple[builtins.int, ...]) -> ImageDType:
        """A texture of float32 of the shape (height, width, 4).

        >>> dtypes.imagef((2, 3, 4))
        dtypes.imagef((2, 3, 4))
        """
        return _image("imagef", "f", 4, shp)

    default_float: DType = float32
    default_int: DType = int32

    fp8s = (fp8e4m3, fp8e5m2)
    floats = (*fp8s, float16, bfloat16, float32, float64)
    uints = (uint8, uint16, uint32, uint64)
    sints = (int8, int16, int32, int64)
    ints = (*uints, *sints)
    index_like = (index, int32, int64)
    all = (*floats, *ints, bool, index)


def _bit_width(dtype: DType) -> int:
    return dtype.scalar().itemsize * 8


_SHORT_NAMES = {
    "signed char": "char",
    "unsigned char": "uchar",
    "unsigned short": "ushort",
    "unsigned int": "uint",
    "unsigned long": "ulong",
    "__bf16": "bfloat16",
    "float8_e4m3": "fp8e4m3",
    "float8_e5m2": "fp8e5m2",
}

# name -> (exponent bits, stored mantissa bits)
_FLOAT_LAYOUT = {
    "half": (5, 10),
    "__bf16": (8, 7),
    "float": (8, 23),
    "double": (11, 52),
    "float8_e4m3": (4, 3),
    "float8_e5m2": (5, 2),
}

DTYPES_DICT: dict[str, DType] = {
    name: dtype
    for name, dtype in vars(dtypes).items()
    if isinstance(dtype, DType) and not name.startswith(("default", "void", "index"))
}
INVERSE_DTYPES_DICT: dict[str, str] = {
    dtype.name: _SHORT_NAMES.get(dtype.name, dtype.name) for dtype in DTYPES_DICT.values()
} | {"void": "void", "index": "index"}

DTypeLike = str | DType


def to_dtype(dtype: DTypeLike) -> DType:
    """A type from its name or itself. Raises AttributeError for an unknown name.

    >>> to_dtype("float16"), to_dtype(dtypes.int8)
    (dtypes.half, dtypes.char)
    """
    if isinstance(dtype, DType):
        return dtype
    name = str(dtype).lower()
    if name in DTYPES_DICT or name in ("void", "index"):
        return getattr(dtypes, name)
    known = ", ".join(sorted(DTYPES_DICT))
    raise AttributeError(f"no dtype is called {dtype!r}; known are {known}")


def _default_float_from_environment() -> DType:
    wanted = getenv("DEFAULT_FLOAT", "")
    if not wanted:
        return dtypes.float32
    found = DTYPES_DICT.get(wanted.lower())
    if found is None or not dtypes.is_float(found):
        raise AssertionError(f"DEFAULT_FLOAT={wanted} is not a floating point dtype")
    return found


dtypes.default_float = _default_float_from_environment()

# *** promotion: least upper bounds in the lattice of the JAX type promotion document (jax.readthedocs.io, jep/9407) ***

_PROMOTES_TO: dict[DType, tuple[DType, ...]] = {
    dtypes.bool: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: dtypes.fp8s,
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: dtypes.fp8s,
    dtypes.fp8e4m3: (dtypes.float16, dtypes.bfloat16),
    dtypes.fp8e5m2: (dtypes.float16, dtypes.bfloat16),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


@functools.cache
def _upper_set(dtype: DType) -> frozenset[DType]:
    above = (_upper_set(up) for up in _PROMOTES_TO[dtype])
    return frozenset({dtype}).union(*above)


@functools.cache
def least_upper_dtype(*ds: DType) -> DType:
    """The type that an operation on values of all these types is computed in.

    >>> least_upper_dtype(dtypes.int8, dtypes.uint8)
    dtypes.short
    >>> least_upper_dtype(dtypes.int32, dtypes.float16)
    dtypes.half
    """
    images = [d for d in ds if isinstance(d, ImageDType)]
    if images:
        return images[0]
    scalars = {d.scalar() for d in ds}
    if dtypes.index in scalars:
        others = scalars - {dtypes.index, dtypes.bool}
        return least_upper_dtype(*others) if others else dtypes.index
    return min(frozenset.intersection(*map(_upper_set, scalars)))


def least_upper_float(dt: DType) -> DType:
    """The float type that `dt` is computed in where only floats will do.

    >>> least_upper_float(dtypes.int32), least_upper_float(dtypes.float16)
    (dtypes.float, dtypes.half)
    """
    return dt if dtypes.is_float(dt) else least_upper_dtype(dt.scalar(), dtypes.default_float)


def sum_acc_dtype(dt: DType) -> DType:
    """The type in which a sum over `dt` is accumulated by default.

    >>> sum_acc_dtype(dtypes.int8), sum_acc_dtype(dtypes.float16)
    (dtypes.int, dtypes.float)
    """
    if dtypes.is_unsigned(dt):
        return least_upper_dtype(dt, dtypes.uint)
    if dtypes.is_int(dt) or dtypes.is_bool(dt):
        return least_upper_dtype(dt, dtypes.int)
    wanted = to_dtype(getenv("SUM_DTYPE", "float32"))
    return least_upper_dtype(dt, wanted)


@functools.cache
def can_lossless_cast(dt0: DType, dt1: DType) -> bool:
    """True when every value of `dt0` is a value of `dt1`.

    >>> can_lossless_cast(dtypes.int8, dtypes.int16)
    True
    >>> can_lossless_cast(dtypes.int32, dtypes.float32)
    False
    """
    a, b = dt0.scalar(), dt1.scalar()
    if a is b or a is dtypes.bool:
        return True
    if b is dtypes.index:
        return dtypes.is_int(a)
    if b is dtypes.bool or a is dtypes.index:
        return False
    if dtypes.is_float(a):
        if not dtypes.is_float(b):
            return False
        (exp_a, man_a), (exp_b, man_b) = dtypes.finfo(a), dtypes.finfo(b)
        return exp_a <= exp_b and man_a <= man_b
    if dtypes.is_float(b):
        # drop-in: all bits of the integer must fit the stored mantissa, though the sign and the implicit bit would give two more
        return _bit_width(a) <= dtypes.finfo(b)[1]
    return dtypes.min(b) <= dtypes.min(a) and dtypes.max(a) <= dtypes.max(b)


# *** values ***


def _as_double(x: float) -> float:
    """A float64 that rounds to any narrower float as `x` itself would, also where `x` is an integer of
    more than 53 bits: one that is not exact gets an odd last bit, which no further rounding mistakes for
    a tie (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    if isinstance(x, float) or -(1 << 53) <= x <= 1 << 53:
        return float(x)
    dropped = abs(x).bit_length() - 53
    kept = abs(x) >> dropped
    kept |= kept << dropped != abs(x)
    try:
        return math.copysign(math.ldexp(kept, dropped), x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def float_to_fp16(x: float) -> float:
    """`x` rounded to half precision, to nearest even; too large gives an infinity.

    >>> float_to_fp16(1e6), float_to_fp16(0.1)
    (inf, 0.0999755859375)
    """
    try:
        return struct.unpack("e", struct.pack("e", _as_double(x)))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def _float_to_fp32(x: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", _as_double(x)))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def float_to_bf16(x: float) -> float:
    """`x` rounded to bfloat16, to nearest even; too large gives an infinity.

    >>> float_to_bf16(1.01)
    1.0078125
    """
    exact = _as_double(x)
    if exact == 0 or not math.isfinite(exact):
        return exact
    # 8 bits from the leading one on, fewer below 2**-126; Python rounds halves to even
    last_place = max(math.frexp(exact)[1], -125) - 8
    rounded = math.ldexp(round(math.ldexp(exact, -last_place)), last_place)
    return math.copysign(rounded if abs(rounded) < 2.0**128 else math.inf, exact)


def float_to_int(x: float, dtype: DType) -> int:
    """`x` rounded toward zero to an integer dtype; what lies outside as `docs/semantics.md` says.

    The conversion is one to int64 for the unsigned types of 32 and 64 bits, else to int32 (int64 to
    int64), which gives its least value where it has none for `x`; the low bits of that remain.

    >>> float_to_int(-1.9, dtypes.int8), float_to_int(300.0, dtypes.uint8), float_to_int(1e10, dtypes.int32)
    (-1, 44, -2147483648)
    """
    if dtype is dtypes.index:
        return int(x)
    if dtype is dtypes.uint64 and not x < 2.0**63:
        return int(x) if x < 2.0**64 else 0
    through = dtypes.int32 if dtype.itemsize < 4 or dtype is dtypes.int32 else dtypes.int64
    fits = math.isfinite(x) and dtypes.min(through) <= int(x) <= dtypes.max(through)
    return truncate[dtype](int(x) if fits else dtypes.min(through))


# exponent bias, largest finite magnitude as bits, bits of +inf or None, bits of the NaN
_FP8_FORMAT = {
    "float8_e4m3": (7, 0x7E, None, 0x7F),
    "float8_e5m2": (15, 0x7B, 0x7C, 0x7E),
}


def least_value(dtype: DType) -> Any:
    """What no value of the type is below: `dtypes.min`, but -448 for fp8e4m3, which holds no infinity."""
    scalar = dtype.scalar()
    layout = _FP8_FORMAT.get(scalar.name)
    if layout is None or layout[2] is not None:
        return dtypes.min(scalar)
    return -fp8_to_float(layout[1], scalar)


def greatest_value(dtype: DType) -> Any:
    """What no value of the type is above: `dtypes.max`, but 448 for fp8e4m3, which holds no infinity."""
    return -least_value(dtype) if dtypes.is_float(dtype) else dtypes.max(dtype.scalar())


def float_to_fp8(x: float, dtype: DType) -> int:
    """The byte of `x` in an OCP 8-bit float format, rounded to nearest even; finite overflow saturates.

    >>> float_to_fp8(1.0, dtypes.fp8e4m3)
    56
    """
    if dtype not in dtypes.fp8s:
        raise AssertionError(f"{dtype} is not an 8-bit float type")
    bias, largest, infinity, nan = _FP8_FORMAT[dtype.name]
    sign = 0x80 if math.copysign(1.0, x) < 0 else 0
    if math.isnan(x):
        return sign | nan
    if math.isinf(x):
        return sign | (nan if infinity is None else infinity)
    mantissa_bits = dtypes.finfo(dtype)[1]
    magnitude = abs(_as_double(x))
    if magnitude == 0:
        return sign
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - bias)
    # in units of the last place at this exponent; Python rounds halves to even. A carry moves into the exponent by itself
    units = round(math.ldexp(magnitude, mantissa_bits - exponent))
    code = ((exponent + bias - 1) << mantissa_bits) + units
    return sign | min(code, largest)


def fp8_to_float(x: int, dtype: DType) -> float:
    """The value of one byte in an OCP 8-bit float format.

    >>> fp8_to_float(56, dtypes.fp8e4m3)
    1.0
    """
    if dtype not in dtypes.fp8s:
        raise AssertionError(f"{dtype} is not an 8-bit float type")
    bias, largest, infinity, _ = _FP8_FORMAT[dtype.name]
    mantissa_bits = dtypes.finfo(dtype)[1]
    magnitude, sign = x & 0x7F, -1.0 if x & 0x80 else 1.0
    if magnitude > largest:
        return sign * (math.inf if magnitude == infinity else math.nan)
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    if exponent:
        mantissa |= 1 << mantissa_bits
    return sign * math.ldexp(mantissa, max(exponent, 1) - bias - mantissa_bits)


def _wrap_unsigned(bits: int) -> Callable[[Any], int]:
    mask = (1 << bits) - 1
    return lambda x: int(x) & mask


def _wrap_signed(bits: int) -> Callable[[Any], int]:
    half, span = 1 << (bits - 1), 1 << bits
    return lambda x: ((int(x) + half) & (span - 1)) - half


def _round_fp8(dtype: DType) -> Callable[[float], float]:
    return lambda x: x if math.isnan(x) else fp8_to_float(float_to_fp8(x, dtype), dtype)


truncate: dict[DType, Callable] = {
    dtypes.bool: bool,
    dtypes.float16: float_to_fp16,
    dtypes.bfloat16: float_to_bf16,
    dtypes.float32: _float_to_fp32,
    dtypes.float64: lambda x: ctypes.c_double(x).value,
    dtypes.index: int,
    **{dt: _round_fp8(dt) for dt in dtypes.fp8s},
    **{dt: _wrap_unsigned(dt.itemsize * 8) for dt in dtypes.uints},
    **{dt: _wrap_signed(dt.itemsize * 8) for dt in dtypes.sints},
}


def storage_fmt_for_dtype(dtype: DType) -> str | None:
    """The `struct` code under which elements of `dtype` are stored: types Python cannot pack go as raw integers."""
    if dtype is dtypes.bfloat16:
        return "H"
    return "B" if dtype in dtypes.fp8s else dtype.fmt


def to_storage_scalar(x: Any, dtype: DType) -> Any:
    """A Python value as what `storage_fmt_for_dtype` packs."""
    if dtype is dtypes.float16:
        return float_to_fp16(x)
    if dtype is dtypes.float32:
        return _float_to_fp32(x)
    if dtype is dtypes.bfloat16:
        return struct.unpack("I", struct.pack("f", float_to_bf16(x)))[0] >> 16
    return float_to_fp8(float(x), dtype) if dtype in dtypes.fp8s else x


def from_storage_scalar(x: Any, dtype: DType) -> Any:
    """The inverse of `to_storage_scalar`."""
    if dtype is dtypes.bfloat16:
        return struct.unpack("f", struct.pack("I", (x & 0xFFFF) << 16))[0]
    return fp8_to_float(x, dtype) if dtype in dtypes.fp8s else x


# *** other libraries ***


def _to_np_dtype(dtype: DType) -> Any:
    """The NumPy scalar type of `dtype`; bfloat16 and fp8 come out as float32, which holds all their values."""
    import numpy as np

    if dtype.scalar() in (dtypes.bfloat16, *dtypes.fp8s):
        return np.float32
    return None if dtype.fmt is None else np.dtype(dtype.fmt).type


def _from_np_dtype(npdtype: Any) -> DType:
    """The dtype of a NumPy dtype. Raises AttributeError for types that have no counterpart."""
    import numpy as np

    return to_dtype(np.dtype(npdtype).name)


@functools.cache
def _to_torch_dtype(dtype: DType) -> Any:
    import torch

    special = {
        dtypes.bfloat16: "bfloat16",
        dtypes.fp8e4m3: "float8_e4m3fn",
        dtypes.fp8e5m2: "float8_e5m2",
        dtypes.uint64: "uint64",
        dtypes.uint32: "uint32",
        dtypes.uint16: "uint16",
    }
    if dtype in special:
        return getattr(torch, special[dtype], None)
    import numpy as np

    return torch.from_numpy(np.empty(0, dtype=_to_np_dtype(dtype))).dtype


@functools.cache
def _from_torch_dtype(torchdtype: Any) -> DType:
    table = {_to_torch_dtype(dt): dt for dt in DTYPES_DICT.values()}
    if torchdtype not in table:
        raise KeyError(f"no dtype corresponds to {torchdtype}")
    return table[torchdtype]
