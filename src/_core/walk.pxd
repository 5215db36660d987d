"""The walking stack shared by the walks and the rewriter."""
from cpython.object cimport PyObject

from tinygrad._core.node cimport UOp


cdef struct Step:
    PyObject *node
    Py_ssize_t at


cdef struct Stack:
    Step *items
    Py_ssize_t count
    Py_ssize_t size


cdef int push(Stack *stack, PyObject *node) except -1
cdef dict postorder(UOp root)
