"""What the table and the matcher know of values and dtypes."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef enum Kind:
    UNKNOWN = 0
    OTHER = 1           # pointers, void
    BOOLEAN = 2
    INTEGER = 3         # with dtypes.index
    FLOATING = 4


cdef class DTypeInfo:
    cdef readonly object dtype
    cdef readonly object scalar
    cdef uint64_t stable_hash
    cdef readonly int index
    cdef object bool_form           # bool with as many lanes
    cdef DTypeInfo scalar_info
    cdef long long low              # range of an integer type, as far as it lies within +-2**62
    cdef long long high
    cdef int lanes
    cdef Kind kind                  # UNKNOWN until `known` has looked


cdef inline uint64_t mix(uint64_t seed, uint64_t value) noexcept:
    """One round of the splitmix64 finaliser over the running value (Steele, Lea, Flood 2014)."""
    seed ^= value + <uint64_t>0x9E3779B97F4A7C15 + (seed << 6) + (seed >> 2)
    seed = (seed ^ (seed >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    return seed ^ (seed >> 27)


cdef uint64_t stable_hash(object value) except? 0
cdef bint same_value(object a, object b) except -1
cdef bint plain(object value) noexcept
cdef bint is_dtype(object value) except -1
cdef DTypeInfo info_of(object dtype)
cdef DTypeInfo need_default()
cdef DTypeInfo known(DTypeInfo info)
cdef object const_value(DTypeInfo info, object value)
