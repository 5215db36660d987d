"""The structural order, for native rules."""
from tinygrad._core.node cimport UOp

cdef int order(UOp a, UOp b) except -2
