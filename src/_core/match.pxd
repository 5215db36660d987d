"""Layout of rules and the entry point of the matcher."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from tinygrad._core.node cimport UOp
from tinygrad._core.pattern cimport Instruction, Program


ctypedef object (*native_body)(UOp)


cdef class Rule:
    cdef readonly object pattern
    cdef readonly object function
    cdef readonly str title
    cdef readonly tuple names
    cdef readonly tuple location
    cdef object call            # the function, or a wrapper taking keywords
    cdef tuple keyword_names
    cdef list defaults
    cdef list keep
    cdef int *sources           # for each parameter: name register, -1 ctx, -2 default
    cdef int parameters
    cdef native_body native     # compiled body of the function, or NULL
    cdef bint loose             # takes **kwargs
    cdef Program code
    cdef Instruction *program   # the instructions of `code`
    cdef int name_count
    cdef uint64_t need0
    cdef uint64_t need1
    cdef uint64_t root0
    cdef uint64_t root1

    cdef int set_roots(self, object pattern) except -1
    cdef int set_needs(self, object pattern) except -1
    cdef int set_parameters(self, dict registers) except -1
    cdef int set_native(self) except -1
    cdef bint takes_context(self)
    cdef object invoke(self, PyObject **regs, object ctx)
    cdef object invoke_loose(self, PyObject **regs, object ctx)


cdef class PatternMatcher:
    cdef readonly list rules
    cdef PyObject **by_op[128]
    cdef int by_op_count[128]
    cdef bint indexed
    cdef uint64_t pure          # numbers of the pure rule sets this is the sum of, 0 when it is not pure

    cdef int make_index(self) except -1


cdef object match_node(PatternMatcher pm, UOp u, object ctx)
cdef object apply_rules(object pm, UOp u, object ctx)
cdef PyObject *last_rule() noexcept
cdef int set_native_body(str rule_name, native_body fn) except -1
