"""Layout of the node and of what the other core modules share with it.

Invariants: a node is in the table exactly while it is alive; `src` holds nodes only; `info` describes `dtype` and is
immortal; `slots` owns its first `nslots` entries (NULL = not computed).
"""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uint32_t, int32_t


cdef class UOp:
    cdef object __weakref__
    cdef object op
    cdef object dtype
    cdef tuple src
    cdef object arg
    cdef object tag
    cdef PyObject *info
    cdef Py_hash_t hash
    cdef PyObject *chain
    cdef PyObject **slots
    cdef uint64_t mark
    cdef uint64_t below0
    cdef uint64_t below1
    cdef uint64_t normal        # rule sets that leave this graph as it is (see rewrite.pyx)
    cdef int32_t opnum
    cdef int32_t depth
    cdef uint32_t nslots
    cdef uint32_t flags


ctypedef object (*binary_form)(UOp, int, object, bint)


cdef uint64_t next_epoch() noexcept
cdef UOp make_node(object op, object dtype, tuple src, object arg, object tag)
cdef object python_form(str name)
cdef int set_binary(binary_form fn) except -1
cdef int set_operation(object op) except -1
