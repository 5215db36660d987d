"""The form of compiled patterns."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from tinygrad._core.node cimport UOp

cdef enum:
    CHECK = 0       # test a node, capture it
    PERMUTE = 1     # spread the sources over registers in some order
    BRANCH = 2      # go on at one of several places
    JUMP = 3
    EACH = 4        # next source of a node, or leave the loop
    ACCEPT = 5
    START = 6       # reset the counter of a loop
    MAX_REGISTERS = 250


cdef struct Hint:
    # What a node must have for a pattern to have a chance, read off the node alone.
    uint64_t ops0           # its operation is one of these
    uint64_t ops1
    int needs               # among the operations of its sources is one of each of these sets
    uint64_t need0[4]
    uint64_t need1[4]


cdef struct Instruction:
    int kind
    int reg              # register that receives the node
    int parent           # register of the node whose source is taken; -1: reg already holds the node
    int position         # number of that source
    int count            # required number of sources (-1: any)
    int at_least         # whether more sources are allowed
    int name             # register of the captured name, -1: none
    int choices          # number of alternatives
    int target           # where to go on
    int base             # first register of a permuted list
    int has_dtypes
    Hint hint
    PyObject **dtypes    # canonical dtypes, has_dtypes of them
    PyObject *arg        # NULL: any
    int *table           # permutations or jump targets
    Hint *hints          # of each pattern of a permuted list


cdef inline void add_op(uint64_t *low, uint64_t *high, int op) noexcept:
    """Adds an operation to a set of two words."""
    if op < 64:
        low[0] |= <uint64_t>1 << op
    else:
        high[0] |= <uint64_t>1 << (op - 64)


cdef inline bint has_op(uint64_t low, uint64_t high, int op) noexcept:
    return (low >> op) & 1 if op < 64 else (high >> (op - 64)) & 1


cdef inline bint promising(Hint *hint, UOp u) noexcept:
    """Whether a node meets a hint."""
    cdef int i
    if not has_op(hint.ops0, hint.ops1, u.opnum):
        return False
    for i in range(hint.needs):
        if not (u.below0 & hint.need0[i]) and not (u.below1 & hint.need1[i]):
            return False
    return True


cdef class Program:
    cdef Instruction *items
    cdef int length
    cdef int size
    cdef int registers
    cdef dict names         # captured name -> register; names have the first registers
    cdef list keep          # owners of what the instructions borrow
    cdef str title

    cdef int register(self) except -1
    cdef int emit(self, int kind) except -1
    cdef int collect_names(self, object pattern) except -1
    cdef int node(self, object pattern, int parent, int position, int reg) except -1
    cdef int tests(self, object pattern, int at) except -1
    cdef int alternatives(self, tuple kids, int reg) except -1
    cdef int permuted(self, tuple kids, int reg) except -1
    cdef int every(self, object kid, int reg) except -1
