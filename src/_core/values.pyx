# cython: language_level=3
"""Values and dtypes as parts of a node's identity.

In: the argument or tag of a node, or a dtype. Out: a hash that is the same in every process, equality that tells 1, 1.0 and True
apart, and one entry per dtype. Used by the node table, the matcher and the digest; knows nodes only as `node_type`.
"""
import enum
import types

from cpython.object cimport PyObject, PyObject_Hash, PyObject_RichCompareBool, Py_EQ
from cpython.ref cimport Py_INCREF
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    void Py_XDECREF(PyObject *)
    bint PyLong_Check(object)
    bint PyLong_CheckExact(object)
    bint PyFloat_CheckExact(object)
    bint PyUnicode_CheckExact(object)
    bint PyTuple_CheckExact(object)
    bint PyBool_Check(object)
    bint PyBytes_CheckExact(object)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef dict dtype_infos = {}
cdef list dtype_list = []
cdef DTypeInfo default_info = None
cdef object dtype_class = None
cdef object node_type = type(None)

cdef enum:
    POINTER_CACHE = 1024
cdef PyObject *pointer_key[POINTER_CACHE]
cdef PyObject *pointer_info[POINTER_CACHE]
memset(pointer_key, 0, sizeof(pointer_key))


def set_node_type(kind):
    """Tells this module what a node is, so that arguments may hold nodes."""
    global node_type
    node_type = kind


cdef uint64_t hash_bytes(const char *data, Py_ssize_t size) noexcept:
    """FNV-1a over the bytes."""
    cdef uint64_t value = <uint64_t>0xCBF29CE484222325
    cdef Py_ssize_t i
    for i in range(size):
        value = (value ^ <unsigned char>data[i]) * <uint64_t>0x100000001B3
    return value


cdef uint64_t hash_text(str text) except? 0:
    cdef Py_ssize_t size = 0
    cdef const char *data
    try:
        data = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
        return hash_bytes(raw, len(raw)) | 1
    return hash_bytes(data, size) | 1


cdef uint64_t stable_hash(object value) except? 0:
    """Hash of an argument that does not depend on the process; falls back to hash() for unknown types."""
    cdef uint64_t out
    cdef double number
    cdef uint64_t bits = 0
    if value is None:
        return 0x51ED27
    if PyBool_Check(value):
        return 0xB001 + (value is True)
    if PyLong_CheckExact(value):
        return mix(3, <uint64_t>PyObject_Hash(value))
    if PyFloat_CheckExact(value):
        number = value
        memcpy(&bits, &number, sizeof(double))
        return mix(5, bits)
    if PyUnicode_CheckExact(value):
        return mix(7, hash_text(value))
    if PyTuple_CheckExact(value):
        out = 11
        for item in <tuple>value:
            out = mix(out, stable_hash(item))
        return out
    if isinstance(value, node_type):
        return mix(13, <uint64_t>PyObject_Hash(value))
    if PyBytes_CheckExact(value):
        return mix(17, hash_bytes(value, len(value)))
    if isinstance(value, enum.Enum):
        return mix(hash_text(type(value).__qualname__), hash_text(value.name))
    if dtype_class is not None and isinstance(value, dtype_class):
        return info_of(value).stable_hash
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return mix(hash_text(value.__module__ or ""), hash_text(value.__qualname__))
    if PyLong_Check(value):
        return mix(hash_text(type(value).__qualname__), <uint64_t>PyObject_Hash(value))
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None and type(value).__hash__ is not object.__hash__:
        PyObject_Hash(value)  # a dataclass without a hash is refused here
        out = hash_text(type(value).__qualname__)
        for name, field in fields.items():
            if field.compare:
                out = mix(out, stable_hash(getattr(value, name)))
        return out
    return mix(19, <uint64_t>PyObject_Hash(value))


cdef bint same_value(object a, object b) except -1:
    """Equality that also separates 1, 1.0 and True, 0.0 and -0.0, and takes equal NaN bits as equal."""
    cdef double x, y
    cdef uint64_t p = 0, q = 0
    cdef Py_ssize_t i
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if PyFloat_CheckExact(a):
        x = a
        y = b
        memcpy(&p, &x, sizeof(double))
        memcpy(&q, &y, sizeof(double))
        return p == q
    if PyTuple_CheckExact(a):
        if len(<tuple>a) != len(<tuple>b):
            return False
        for i in range(len(<tuple>a)):
            if not same_value((<tuple>a)[i], (<tuple>b)[i]):
                return False
        return True
    if isinstance(a, node_type) or PyBool_Check(a):
        return False
    return PyObject_RichCompareBool(a, b, Py_EQ)


cdef bint plain(object value) noexcept:
    """Whether comparing this value cannot run Python code."""
    return (value is None or PyLong_CheckExact(value) or PyFloat_CheckExact(value) or PyUnicode_CheckExact(value)
            or PyBool_Check(value) or isinstance(value, node_type))


cdef class DTypeInfo:
    """What the core knows of one dtype: its canonical object, its scalar, a process-independent hash."""


cdef DTypeInfo register_dtype(object dtype):
    cdef DTypeInfo info
    known = dtype_infos.get(dtype)
    if known is not None:
        return known
    if dtype_class is None and hasattr(dtype, "scalar"):
        set_dtype_class(dtype)
    if dtype_class is None or not isinstance(dtype, dtype_class):
        raise TypeError(f"dtype of a UOp must be a DType, got {dtype!r}; pass for example dtypes.float32")
    info = DTypeInfo()
    info.dtype = dtype
    info.scalar = dtype.scalar()
    info.stable_hash = hash_text(repr(dtype))
    info.index = len(dtype_list)
    dtype_infos[dtype] = info
    dtype_list.append(info)
    if info.scalar is not dtype:
        info.scalar = register_dtype(info.scalar).dtype
    return info


cdef DTypeInfo info_of(object dtype):
    """The entry of a dtype: by address first, then by equality, so that copies share one entry."""
    cdef size_t at = (<size_t><PyObject *>dtype >> 4) & (POINTER_CACHE - 1)
    if pointer_key[at] is <PyObject *>dtype:
        return <DTypeInfo>pointer_info[at]
    info = register_dtype(dtype)
    # The key is kept alive: an address in the cache must never be reused by another object.
    if pointer_key[at] is not NULL:
        Py_XDECREF(pointer_key[at])
    Py_INCREF(dtype)
    pointer_key[at] = <PyObject *>dtype
    pointer_info[at] = <PyObject *>info
    return info


cdef int set_dtype_class(object dtype) except -1:
    """The class every dtype must be an instance of: the root of the first one seen."""
    global dtype_class
    dtype_class = next(c for c in reversed(type(dtype).__mro__) if hasattr(c, "scalar"))
    return 0


cdef bint is_dtype(object value) except -1:
    return dtype_class is not None and isinstance(value, dtype_class)


def set_default_dtype(dtype):
    """Sets the dtype of nodes built without one."""
    global default_info
    default_info = info_of(dtype)


cdef object namespace = None
cdef object FAR = 1 << 62


def set_dtypes(dtypes):
    """Gives the core the namespace of dtypes, for questions about kinds and ranges."""
    global namespace
    namespace = dtypes


cdef DTypeInfo known(DTypeInfo info):
    """The entry with its kind, range and relatives filled in."""
    if info.kind != UNKNOWN or namespace is None:
        return info
    dtype = info.dtype
    info.kind = OTHER
    info.scalar_info = info_of(info.scalar)
    info.lanes = dtype.count
    info.bool_form = namespace.bool.vec(info.lanes) if info.lanes > 1 else namespace.bool
    if dtype.base is not dtype or dtype is namespace.void:
        return info
    if namespace.is_bool(dtype):
        info.kind = BOOLEAN
    elif namespace.is_int(dtype):
        info.kind = INTEGER
        info.low = max(namespace.min(info.scalar), -FAR)
        info.high = min(namespace.max(info.scalar), FAR)
    elif namespace.is_float(dtype):
        info.kind = FLOATING
    return info


cdef object const_value(DTypeInfo info, object value):
    """A Python number as the value of a constant of the dtype; NotImplemented where that takes more than a conversion."""
    cdef Kind kind = known(info).kind
    if PyBool_Check(value) or PyLong_CheckExact(value) or PyFloat_CheckExact(value):
        if kind == INTEGER:
            return value if PyLong_CheckExact(value) else int(value)
        if kind == FLOATING:
            return value if PyFloat_CheckExact(value) else float(value)
        if kind == BOOLEAN:
            return bool(value)
    return NotImplemented


cdef DTypeInfo need_default():
    if default_info is None:
        from tinygrad.dtype import dtypes
        set_default_dtype(dtypes.void)
    return default_info
