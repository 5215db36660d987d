# cython: language_level=3
"""Arithmetic on nodes: native forms of what the graph modules define in Python.

`bind(Ops, dtypes)` gives the core the operations and dtypes. The native forms then make the same nodes and values as the Python
forms (`tests/core/test_arith.py` compares them) and leave the rest to those: pointers, images, tensors with a shape or device,
values outside 62 bits. Called by the operators of the node, by its methods, by slots and by rules with a native body.
"""
import enum

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from tinygrad._core.identity cimport order
from tinygrad._core.match cimport set_native_body
from tinygrad._core.node cimport UOp, make_node, python_form, set_binary, set_operation
from tinygrad._core.slots cimport Derived, derived_named, get_slot, set_native, slot_value
from tinygrad._core.values cimport (
    BOOLEAN,
    FLOATING,
    INTEGER,
    OTHER,
    UNKNOWN,
    DTypeInfo,
    const_value,
    info_of,
    known,
)

from tinygrad._core.node import install
from tinygrad._core.values import set_dtypes

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        void *tp_getattro
    void PyType_Modified(PyTypeObject *)
    bint PyLong_Check(object)
    bint PyFloat_CheckExact(object)
    bint PyLong_CheckExact(object)
    bint PyBool_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)

cdef extern from *:
    """
    #define core_add(a, b, r) __builtin_add_overflow(a, b, r)
    #define core_mul(a, b, r) __builtin_mul_overflow(a, b, r)
    """
    bint core_add(long long, long long, long long *) nogil
    bint core_mul(long long, long long, long long *) nogil

# Numbers of the operations that are computed here.
cdef int VCONST, DEFINE_VAR, RANGE, SPECIAL, BIND, GEP, VECTORIZE, CAST, WHERE, LOAD
cdef int IDIV, MOD, MAX, AND, OR, XOR, SHL, SHR, CMPLT, CMPNE, CMPEQ, SUB, INDEX, REDUCE
cdef PyObject *ops_by_number[128]
cdef object const_op = None

cdef enum:
    COMPARES = 1        # result is bool
    SHIFTS = 2          # result has the dtype of the first operand
    BITWISE = 4         # integers and bools only
    ELEMENTWISE = 8     # arithmetic: shape of the operands
    SCALAR = 16         # a value without shape
    FOLLOWS = 32        # shape of the first source
    HAS_DEVICE = 64     # a device rule of its own
    ENDS = 128          # may end ranges
cdef int traits[128]

cdef Derived bounds_slot = None
cdef Derived shape_slot = None
cdef Derived device_slot = None
cdef Derived ranges_slot = None
cdef dict NO_RANGES = {}


def bind(ops, dtypes):
    """Gives the core the operations (an IntEnum) and the namespace of dtypes. Idempotent."""
    global const_op
    plain_members(ops)
    for op in ops:
        set_operation(op)
    const_op = ops.CONST
    number_operations(ops)
    set_traits(ops)
    set_dtypes(dtypes)
    set_binary(binary_node)
    set_native("bounds", native_bounds)
    set_native("shape", native_shape)
    set_native("device", native_device)
    set_native("ranges", native_ranges)
    set_native_body("single-value", single_value)
    set_native_body("constant-operands", constant_operands)
    set_native_body("order-operands", ordered_operands)


cdef int plain_members(object ops) except -1:
    """Lets `Ops.ADD` be looked up like an attribute of any class.

    Up to Python 3.11 the metaclass of enumerations has a `__getattr__`, for which every look-up of a member pays threefold,
    although members are ordinary class attributes. Only for a metaclass that is not the shared one.
    """
    cdef type metaclass = type(ops)
    if metaclass is enum.EnumType or not all([member.name in vars(ops) for member in ops]):
        return 0
    (<PyTypeObject *>metaclass).tp_getattro = (<PyTypeObject *>type).tp_getattro
    PyType_Modified(<PyTypeObject *>metaclass)
    return 0


cdef int number_operations(object ops) except -1:
    global CONST, VCONST, DEFINE_VAR, RANGE, SPECIAL, BIND, GEP, VECTORIZE, CAST, WHERE, LOAD
    global ADD, MUL, IDIV, MOD, MAX, AND, OR, XOR, SHL, SHR, CMPLT, CMPNE, CMPEQ, SUB, INDEX, REDUCE
    CONST, VCONST, DEFINE_VAR, RANGE, SPECIAL = ops.CONST, ops.VCONST, ops.DEFINE_VAR, ops.RANGE, ops.SPECIAL
    BIND, GEP, VECTORIZE, CAST, WHERE, LOAD = ops.BIND, ops.GEP, ops.VECTORIZE, ops.CAST, ops.WHERE, ops.LOAD
    ADD, MUL, IDIV, MOD, MAX, SUB = ops.ADD, ops.MUL, ops.IDIV, ops.MOD, ops.MAX, ops.SUB
    AND, OR, XOR, SHL, SHR = ops.AND, ops.OR, ops.XOR, ops.SHL, ops.SHR
    CMPLT, CMPNE, CMPEQ = ops.CMPLT, ops.CMPNE, ops.CMPEQ
    INDEX, REDUCE = ops.INDEX, ops.REDUCE
    return 0


cdef int set_traits(object ops) except -1:
    cdef dict groups = {
        COMPARES: "CMPLT CMPNE CMPEQ",
        SHIFTS: "SHL SHR",
        BITWISE: "AND OR XOR",
        ELEMENTWISE: "EXP2 LOG2 SIN SQRT RECIPROCAL NEG TRUNC ADD MUL SHL SHR IDIV MAX MOD CMPLT CMPNE CMPEQ XOR OR AND "
        "THREEFRY SUB FDIV POW WHERE MULACC",
        SCALAR: "CONST DEFINE_VAR BIND RANGE SPECIAL VCONST LOAD",
        FOLLOWS: "CAST GEP VECTORIZE",
        HAS_DEVICE: "DEVICE BUFFERIZE COPY ALLREDUCE PROGRAM BUFFER MSTACK MSELECT",
        ENDS: "BUFFERIZE REDUCE END STORE WMMA AFTER",
    }
    cdef int i
    for i in range(128):
        traits[i] = 0
    for op in ops:
        ops_by_number[<int>op] = <PyObject *>op
    for trait, names in groups.items():
        for name in names.split():
            traits[<int>ops[name]] |= <int>trait
    return 0


# ---------------------------------------------------------------------------------------------- making nodes

cdef UOp const_node(DTypeInfo info, object value):
    """The constant, or None where the Python form must make it."""
    made = const_value(info, value)
    return None if made is NotImplemented else make_node(const_op, info.dtype, (), made, None)


cdef bint is_bare(UOp u) except -1:
    """Whether the node has neither a shape nor a device, so that constants like it need none."""
    global shape_slot, device_slot
    if u.opnum == CONST and PyTuple_GET_SIZE(u.src) == 0:
        return True
    if shape_slot is None or device_slot is None:
        shape_slot = derived_named("shape")
        device_slot = derived_named("device")
        if shape_slot is None or device_slot is None:
            return False
    shape = slot_value(u, shape_slot)
    return (shape is None or PyTuple_GET_SIZE(shape) == 0) and slot_value(u, device_slot) is None


cdef UOp const_beside(UOp u, object value):
    """The constant with the dtype of a node; None where the Python form must make it."""
    cdef DTypeInfo info = known(<DTypeInfo>u.info)
    if info.kind == OTHER or info.kind == UNKNOWN or not is_bare(u):
        return None
    return const_node(info, value)


cdef object dtype_of(int op, UOp first, UOp last):
    """The dtype of an operation on these operands."""
    if traits[op] & COMPARES:
        return known(<DTypeInfo>last.info).bool_form
    return first.dtype if traits[op] & SHIFTS else last.dtype


cdef object binary_node(UOp u, int op, object other, bint reverse):
    """An operator applied to a node and a node or number; NotImplemented for what Python must do."""
    cdef UOp x
    cdef DTypeInfo info
    if isinstance(other, UOp):
        x = <UOp>other
    elif PyLong_CheckExact(other) or PyFloat_CheckExact(other) or PyBool_Check(other):
        x = const_beside(u, other)
        if x is None:
            return NotImplemented
    else:
        return NotImplemented
    if traits[op] & BITWISE:
        info = known(<DTypeInfo>u.info)
        if info.kind != INTEGER and info.kind != BOOLEAN:
            return NotImplemented
    if reverse:
        u, x = x, u
    return make_node(<object>ops_by_number[op], dtype_of(op, u, x), (u, x), None, None)


class _Arithmetic:
    """Native forms of methods of the node."""

    def alu(self, op, *src, **kwargs):
        """`op` on this node and `src`. Comparisons give bool, the rest the dtype of the operands."""
        cdef UOp u = self
        cdef int number = op
        if kwargs:
            return python_form("alu")(self, op, *src, **kwargs)
        return make_node(op, dtype_of(number, u, src[len(src) - 1] if src else u), (u, *src), None, None)

    def _binop(self, op, x, reverse):
        cdef UOp u = self, other
        if isinstance(x, UOp):
            other = x
            return other.alu(op, u) if reverse else u.alu(op, other)
        other = const_beside(u, x)
        if other is None:
            return python_form("_binop")(self, op, x, reverse)
        if reverse:
            u, other = other, u
        return make_node(op, dtype_of(op, u, other), (u, other), None, None)

    def const_like(self, b):
        """The constant `b` with the dtype, device and shape of this node."""
        made = const_beside(self, b)
        return python_form("const_like")(self, b) if made is None else made

    @staticmethod
    def const(dtype, b, device=None, shape=None, unique=False):
        """A constant of `dtype`; a tuple gives one value per lane (see the Python form for the rest)."""
        cdef UOp made = None
        if device is None and unique is False and not shape:
            made = const_node(info_of(dtype), b)
        return python_form("const")(dtype, b, device, shape, unique) if made is None else made

    @property
    def vmin(self):
        """A value that this node is never below."""
        return PyTuple_GET_ITEM_OBJECT(bounds_of(self), 0)

    @property
    def vmax(self):
        """A value that this node is never above."""
        return PyTuple_GET_ITEM_OBJECT(bounds_of(self), 1)


cdef inline object PyTuple_GET_ITEM_OBJECT(object items, int i):
    return (<tuple>items)[i]


cdef object bounds_of(UOp u):
    """The pair (vmin, vmax)."""
    global bounds_slot
    if bounds_slot is None:
        bounds_slot = derived_named("bounds")
        if bounds_slot is None:
            raise TypeError("bounds are not known yet: import tinygrad.uop.ops, which installs them")
    return slot_value(u, bounds_slot)


# ---------------------------------------------------------------------------------------------- bounds

cdef struct Interval:
    long long low
    long long high


cdef bint as_long(object value, long long *out) except -1:
    """An int or bool that fits 62 bits."""
    cdef int overflow = 0
    if not PyLong_Check(value):
        return False
    out[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0 and -(<long long>1 << 62) < out[0] < (<long long>1 << 62)


cdef bint interval_of(UOp u, Interval *out) except -1:
    """The bounds of a source, which are known; false where they are no small ints."""
    cdef PyObject *found = get_slot(u, bounds_slot.slot)
    if found is NULL:
        return False
    return as_long((<tuple>found)[0], &out.low) and as_long((<tuple>found)[1], &out.high)


cdef inline long long quotient(long long a, long long b) noexcept:
    return a // b if (a >= 0) == (b > 0) else -((-a) // b) if b > 0 else -(a // (-b))


cdef inline Interval spread(long long a, long long b, long long c, long long d) noexcept:
    cdef Interval out
    out.low = min(min(a, b), min(c, d))
    out.high = max(max(a, b), max(c, d))
    return out


cdef bint quotient_bounds(Interval a, Interval b, Interval *out) noexcept:
    if b.low <= 0 <= b.high:
        return False
    out[0] = spread(quotient(a.low, b.low), quotient(a.low, b.high), quotient(a.high, b.low), quotient(a.high, b.high))
    return True


cdef bint remainder_bounds(Interval a, Interval b, Interval *out) noexcept:
    cdef long long largest, shift
    if b.low <= 0 <= b.high:
        return False
    if b.low == b.high and (a.low >= 0 or a.high <= 0) and quotient(a.low, b.low) == quotient(a.high, b.low):
        shift = quotient(a.low, b.low) * b.low
        out.low, out.high = a.low - shift, a.high - shift
        return True
    largest = max(abs(b.low), abs(b.high)) - 1
    out.low = 0 if a.low >= 0 else max(a.low, -largest)
    out.high = 0 if a.high <= 0 else min(a.high, largest)
    return True


cdef bint product_bounds(Interval a, Interval b, Interval *out) noexcept:
    cdef long long p = 0, q = 0, r = 0, s = 0
    if core_mul(a.low, b.low, &p) or core_mul(a.low, b.high, &q):
        return False
    if core_mul(a.high, b.low, &r) or core_mul(a.high, b.high, &s):
        return False
    out[0] = spread(p, q, r, s)
    return True


cdef bint arithmetic_bounds(int op, Interval a, Interval b, Interval *out) noexcept:
    """Exact bounds of an integer operation; false where they are not computed here."""
    if op == ADD:
        out.low, out.high = a.low + b.low, a.high + b.high
    elif op == MUL:
        return product_bounds(a, b, out)
    elif op == MAX:
        out.low, out.high = max(a.low, b.low), max(a.high, b.high)
    elif op == SUB:
        out.low, out.high = a.low - b.high, a.high - b.low
    elif op == IDIV:
        return quotient_bounds(a, b, out)
    elif op == MOD:
        return remainder_bounds(a, b, out)
    else:
        return False
    return True


cdef object truth_bounds(int op, Interval a, Interval b):
    """Bounds of a bool operation on bools."""
    if op == AND or op == MUL:
        return bool(a.low and b.low), bool(a.high and b.high)
    if op == OR or op == ADD or op == MAX:
        return bool(a.low or b.low), bool(a.high or b.high)
    return NotImplemented


cdef object relation_bounds(int op, Interval a, Interval b):
    cdef bint never = a.high < b.low or b.high < a.low
    cdef bint always = a.low == a.high == b.low == b.high
    if op == CMPLT:
        return a.high < b.low, a.low < b.high
    return (never, not always) if op == CMPNE else (always, not never)


cdef bint is_integral(UOp u):
    cdef DTypeInfo info = known(<DTypeInfo>u.info)
    return info.kind == INTEGER or info.kind == BOOLEAN


cdef object fitted(DTypeInfo info, Interval out):
    return (out.low, out.high) if info.low <= out.low and out.high <= info.high else NotImplemented


cdef object native_bounds(UOp u):
    """The bounds of integers and bools; NotImplemented where compute_bounds must find them."""
    global bounds_slot
    cdef DTypeInfo info = known(<DTypeInfo>u.info)
    cdef int op = u.opnum
    cdef Interval a, b, out
    cdef UOp first
    if bounds_slot is None:
        bounds_slot = derived_named("bounds")
    if op == CONST:
        value = u.arg
        return (value, value) if PyLong_Check(value) or PyFloat_CheckExact(value) else NotImplemented
    if info.kind == FLOATING:
        return float_bounds(op, u)
    if (info.kind != INTEGER and info.kind != BOOLEAN) or PyTuple_GET_SIZE(u.src) == 0:
        return NotImplemented
    first = <UOp>PyTuple_GET_ITEM_RAW(u.src, 0)
    if op == GEP or op == BIND:
        return <object>get_slot(first, bounds_slot.slot)
    if op == WHERE:
        return chosen_bounds(info, u) if PyTuple_GET_SIZE(u.src) == 3 else NotImplemented
    if not is_integral(first) or not interval_of(first, &a):
        if traits[op] & COMPARES and known(<DTypeInfo>first.info).kind == FLOATING and any_number(u):
            return False, True
        return NotImplemented
    if op == RANGE or op == SPECIAL:
        return 0, a.high - 1
    if op == CAST and info.kind == INTEGER:
        return fitted(info, a)
    if PyTuple_GET_SIZE(u.src) != 2 or not interval_of(<UOp>PyTuple_GET_ITEM_RAW(u.src, 1), &b):
        return NotImplemented
    if traits[op] & COMPARES:
        return relation_bounds(op, a, b) if is_integral(<UOp>PyTuple_GET_ITEM_RAW(u.src, 1)) else NotImplemented
    if info.kind == BOOLEAN:
        return truth_bounds(op, a, b)
    return fitted(info, out) if arithmetic_bounds(op, a, b, &out) else NotImplemented


cdef tuple ANY_FLOAT = (-float("inf"), float("inf"))


cdef object float_bounds(int op, UOp u):
    """Bounds of floats that are, or are computed from, any number: most of those in kernels."""
    if op == LOAD or op == INDEX or op == REDUCE:
        return ANY_FLOAT
    if (op == ADD or op == MUL or op == SUB) and any_number(u):
        return ANY_FLOAT
    return NotImplemented


cdef bint any_number(UOp u) except -1:
    """Whether one of two floats may be any number, and the other any or finite."""
    cdef PyObject *first
    cdef PyObject *second
    if PyTuple_GET_SIZE(u.src) != 2:
        return False
    first = get_slot(<UOp>PyTuple_GET_ITEM_RAW(u.src, 0), bounds_slot.slot)
    second = get_slot(<UOp>PyTuple_GET_ITEM_RAW(u.src, 1), bounds_slot.slot)
    if first is NULL or second is NULL:
        return False
    if first is not <PyObject *>ANY_FLOAT:
        first, second = second, first
    if first is not <PyObject *>ANY_FLOAT:
        return False
    low, high = <object>second
    return (ANY_FLOAT[0] < low and high < ANY_FLOAT[1]) or <object>second == ANY_FLOAT


cdef object chosen_bounds(DTypeInfo info, UOp u):
    """Bounds of a WHERE whose branches are both numbers."""
    cdef Interval a, b
    cdef UOp x = <UOp>PyTuple_GET_ITEM_RAW(u.src, 1), y = <UOp>PyTuple_GET_ITEM_RAW(u.src, 2)
    if (x.opnum == CONST and not PyLong_Check(x.arg)) or (y.opnum == CONST and not PyLong_Check(y.arg)):
        return NotImplemented
    if info.kind != INTEGER or not interval_of(x, &a) or not interval_of(y, &b):
        return NotImplemented
    return min(a.low, b.low), max(a.high, b.high)


# ---------------------------------------------------------------------------------------------- shape, device, ranges

cdef object native_shape(UOp u):
    """The shape of values in a kernel, mostly ()."""
    cdef Py_ssize_t i
    cdef PyObject *found
    global shape_slot
    if shape_slot is None:
        shape_slot = derived_named("shape")
    if traits[u.opnum] & SCALAR:
        return ()
    if traits[u.opnum] & FOLLOWS and PyTuple_GET_SIZE(u.src):
        return <object>get_slot(<UOp>PyTuple_GET_ITEM_RAW(u.src, 0), shape_slot.slot)
    if not traits[u.opnum] & ELEMENTWISE:
        return NotImplemented
    for i in range(PyTuple_GET_SIZE(u.src)):
        found = get_slot(<UOp>PyTuple_GET_ITEM_RAW(u.src, i), shape_slot.slot)
        if <object>found is None or PyTuple_GET_SIZE(<object>found):
            return NotImplemented
    return ()


cdef object native_device(UOp u):
    """The device of the first source on several devices, else of the first that has one."""
    cdef Py_ssize_t i
    cdef object first = None
    global device_slot
    if traits[u.opnum] & HAS_DEVICE:
        return NotImplemented
    if device_slot is None:
        device_slot = derived_named("device")
    for i in range(PyTuple_GET_SIZE(u.src)):
        found = <object>get_slot(<UOp>PyTuple_GET_ITEM_RAW(u.src, i), device_slot.slot)
        if type(found) is tuple:
            return found
        if first is None:
            first = found
    return first


cdef object native_ranges(UOp u):
    """The open ranges below a node that ends none."""
    cdef Py_ssize_t i
    cdef dict merged = NO_RANGES, below
    cdef UOp s
    global ranges_slot
    if traits[u.opnum] & ENDS:
        return NotImplemented
    if ranges_slot is None:
        ranges_slot = derived_named("ranges")
    for i in range(PyTuple_GET_SIZE(u.src)):
        s = <UOp>PyTuple_GET_ITEM_RAW(u.src, i)
        below = <dict>get_slot(s, ranges_slot.slot)
        if s.opnum == RANGE:
            if s in merged:
                continue
            below = {**below, s: None}
        if not below or below is merged:
            continue
        if not merged:
            merged = below
            continue
        added = [r for r in below if r not in merged]
        if added:
            merged = {**merged, **dict.fromkeys(added)}
    return merged


# ---------------------------------------------------------------------------------------------- rule bodies

cdef object single_value(UOp a):
    """Native body of the rule single-value: an integer or bool whose bounds meet."""
    cdef DTypeInfo info = known(<DTypeInfo>a.info)
    cdef UOp s
    if info.kind == UNKNOWN:
        return NotImplemented
    if (info.kind != INTEGER and info.kind != BOOLEAN) or info.lanes != 1:
        return None if info.kind == FLOATING or info.kind == INTEGER or info.kind == BOOLEAN else NotImplemented
    if a.opnum == WHERE:
        for s in a.src[1:]:
            if s.opnum == CONST and not PyLong_Check(s.arg):
                return NotImplemented
    if a.opnum == IDIV or a.opnum == MOD:
        low, high = bounds_of(a.src[1])
        if low <= 0 <= high:
            return None
    low, high = bounds_of(a)
    if not (low is high or low == high):
        return None
    return a.const_like(low)


cdef object constant_operands(UOp a):
    """Native body of the rule constant-operands, for integers that stay in range."""
    cdef DTypeInfo info
    cdef Interval x, y, out
    cdef UOp s
    for s in a.src:
        if s.opnum != CONST:
            return NotImplemented if s.opnum == VCONST else None
    info = known(<DTypeInfo>a.info)
    if PyTuple_GET_SIZE(a.src) != 2 or info.lanes != 1 or info.kind != INTEGER:
        return NotImplemented
    if not as_long((<UOp>a.src[0]).arg, &x.low) or not as_long((<UOp>a.src[1]).arg, &y.low):
        return NotImplemented
    x.high, y.high = x.low, y.low
    if not arithmetic_bounds(a.opnum, x, y, &out) or not info.low <= out.low <= info.high:
        return NotImplemented
    return make_node(const_op, a.dtype, (), out.low, None)


cdef object ordered_operands(UOp x):
    """Native body of the rule order-operands: operands of commutative index arithmetic in structural order."""
    if PyTuple_GET_SIZE(x.src) != 2 or order(x.src[1], x.src[0]) >= 0:
        return None
    return make_node(x.op, x.dtype, (x.src[1], x.src[0]), x.arg, x.tag)


install(UOp, _Arithmetic, native=True)
