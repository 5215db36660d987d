"""Layout of the node and of what the other core modules share with it.

Invariants: a node is in the table exactly while it is alive; `src` holds nodes only; `info` describes `dtype` and is
immortal; `slots` owns its first `nslots` entries (NULL = not computed).
"""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uint32_t, int32_t


cdef class UOp:
    # Walks touch the first of these, so that they lie in one or two cache lines.
    cdef object __weakref__
    cdef uint64_t mark          # last walk that met the node
    cdef tuple src
    cdef Py_hash_t hash
    cdef PyObject *chain        # next node in the chain of the table
    cdef int32_t opnum
    cdef int32_t depth
    cdef PyObject *info         # DTypeInfo of dtype, borrowed
    cdef object op
    cdef object dtype
    cdef object arg
    cdef object tag
    cdef PyObject **slots       # cached properties
    cdef uint64_t below0        # operations among the sources
    cdef uint64_t below1
    cdef uint64_t normal        # rule sets that leave this graph as it is (see rewrite.pyx)
    cdef uint32_t nslots
    cdef uint32_t flags         # 1: in the table, 2: walk.pyx remembers its order


ctypedef object (*binary_form)(UOp, int, object, bint)
ctypedef PyObject *(*order_keeper)(PyObject *) noexcept


cdef uint64_t next_epoch() noexcept
cdef UOp make_node(object op, object dtype, tuple src, object arg, object tag)
cdef object python_form(str name)
cdef void set_order_keeper(order_keeper fn) noexcept
cdef int set_binary(binary_form fn) except -1
cdef int set_operation(object op) except -1
