"""What the table and the matcher know of values and dtypes."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef class DTypeInfo:
    cdef readonly object dtype
    cdef readonly object scalar
    cdef uint64_t stable_hash
    cdef readonly int index


cdef uint64_t mix(uint64_t seed, uint64_t value) noexcept
cdef uint64_t stable_hash(object value) except? 0
cdef bint same_value(object a, object b) except -1
cdef bint plain(object value) noexcept
cdef bint is_dtype(object value) except -1
cdef DTypeInfo info_of(object dtype)
cdef DTypeInfo need_default()
