"""Arithmetic that other core modules build on. The numbers are those of the operations, once `bind` has run."""
from tinygrad._core.node cimport UOp

cdef int CONST, ADD, MUL

cdef bint as_long(object value, long long *out) except -1
cdef object bounds_of(UOp u)
cdef object binary_node(UOp u, int op, object other, bint reverse)
