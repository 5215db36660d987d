"""Reading and writing the cached properties of nodes."""
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from tinygrad._core.node cimport UOp

ctypedef object (*native_slot)(UOp)


cdef class Derived:
    cdef readonly str name
    cdef readonly object fn
    cdef uint32_t slot
    cdef bint walk
    cdef public object __doc__


cdef PyObject *get_slot(UOp u, uint32_t slot) noexcept
cdef int set_slot(UOp u, uint32_t slot, object value) except -1
cdef int fill_slots(UOp root, uint32_t slot, object fn) except -1
cdef int set_native(str name, native_slot fn) except -1
cdef object slot_value(UOp u, Derived what)
cdef Derived derived_named(str name)
