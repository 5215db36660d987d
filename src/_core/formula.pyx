# cython: language_level=3
"""Integer formulas as sums: `const + coefficient * node + ...`.

In: an expression of additions and multiplications by constants. Out: `Linear`, the sum taken apart, and back. Only meaningful where
nothing wraps: `dtypes.index`, or bounds that prove it. Used by the rules for sums, quotients, remainders and comparisons.
"""
import math

from cpython.dict cimport PyDict_GetItem, PyDict_Next, PyDict_SetItem
from cpython.object cimport PyObject

from tinygrad._core.arith cimport ADD, CONST, MUL, as_long, binary_node, bounds_of
from tinygrad._core.node cimport UOp

cdef extern from "Python.h":
    bint PyLong_Check(object)


cdef list parts_of(UOp u, Py_ssize_t limit):
    """The operands of a tree of additions from left to right; the tree is not followed beyond `limit` of them (-1: no limit)."""
    cdef list out = [], stack = [u]
    cdef UOp top
    cdef Py_ssize_t i
    while stack:
        top = stack.pop()
        if top.opnum == ADD and (limit < 0 or len(out) + len(stack) < limit):
            for i in range(len(top.src) - 1, -1, -1):
                stack.append(top.src[i])
        else:
            out.append(top)
    return out


def summands(UOp u not None, limit=None):
    """The operands of a tree of additions from left to right; stops growing at `limit`."""
    return parts_of(u, -1 if limit is None else limit)


def scaled_part(UOp u not None):
    """`(node, coefficient)` of one summand."""
    if u.opnum == MUL and (<UOp>u.src[1]).opnum == CONST:
        return u.src[0], (<UOp>u.src[1]).arg
    return u, 1


cdef object combined(UOp u, int op, object x):
    """`u op x`, natively where that is possible."""
    made = binary_node(u, op, x, False)
    if made is NotImplemented:
        return u * x if op == MUL else u + x
    return made


cdef object nonzero(dict terms):
    """The terms whose coefficient is not zero; the same dict when that is all."""
    for factor in terms.values():
        if factor == 0:
            return {node: f for node, f in terms.items() if f != 0}
    return terms


cdef Linear made(object cls, UOp like, dict terms, object const):
    """A sum of a class, without the cost of a call where it is the plain one."""
    cdef Linear out
    if cls is not Linear:
        return cls(like, terms, const)
    out = Linear.__new__(Linear)
    out.like = like
    out.terms = terms
    out.const = const
    return out


cdef class Linear:
    """A sum `const + sum(coefficient * node)`; `terms` keeps the order of first appearance.

    `like` is a node of the same dtype, for constants. May be subclassed; results have the class of their origin.
    """
    cdef public UOp like
    cdef public dict terms
    cdef public object const

    def __init__(self, UOp like not None, dict terms not None, object const):
        self.like = like
        self.terms = terms
        self.const = const

    def __repr__(self):
        return f"{type(self).__name__}({self.terms!r}, const={self.const!r})"

    @classmethod
    def of(cls, UOp u not None):
        """Takes `u` apart; equal nodes are collected, cancelled ones vanish."""
        cdef dict terms = {}
        cdef object const = 0, factor
        cdef PyObject *known
        cdef UOp part
        for part in parts_of(u, -1):
            if part.opnum == CONST:
                const = const + part.arg
                continue
            factor = 1
            if part.opnum == MUL and (<UOp>part.src[1]).opnum == CONST:
                factor = (<UOp>part.src[1]).arg
                part = part.src[0]
            known = PyDict_GetItem(terms, part)
            PyDict_SetItem(terms, part, factor if known is NULL else <object>known + factor)
        return made(cls, u, nonzero(terms), const)

    def map(self, of_factor, of_const):
        """The sum with every coefficient and the constant replaced; zero terms vanish."""
        cdef dict kept = {}
        for node, factor in self.terms.items():
            changed = of_factor(factor)
            if changed != 0:
                kept[node] = changed
        return made(type(self), self.like, kept, of_const(self.const))

    def split_by(self, m):
        """`(p, r)` with `self == m*p + r`: `p` has the terms whose coefficients `m` divides, `r` the others and what is left
        of the constant, `0 <= r.const < m`."""
        cdef dict whole = {}, rest = {}
        for node, factor in self.terms.items():
            if factor % m == 0:
                whole[node] = factor // m
            else:
                rest[node] = factor
        return made(type(self), self.like, whole, self.const // m), made(type(self), self.like, rest, self.const % m)

    def build(self):
        """The node of this sum: terms in order, the constant last."""
        cdef UOp total = None, part
        for node, factor in self.terms.items():
            part = node if factor == 1 else combined(node, MUL, factor)
            total = part if total is None else combined(total, ADD, part)
        if total is None:
            return self.like.const_like(self.const)
        return total if self.const == 0 else combined(total, ADD, self.const)

    def factor_gcd(self):
        """Greatest common divisor of the coefficients, 0 when there are none."""
        return math.gcd(*self.terms.values())

    def bounds(self):
        """Least and greatest value, each term taken on its own."""
        cdef object low = self.const, high = self.const
        cdef long long small_low = 0, small_high = 0, a = 0, b = 0, f = 0
        for node, factor in self.terms.items():
            ends = bounds_of(node)
            if is_small((<tuple>ends)[0], &a) and is_small((<tuple>ends)[1], &b) and is_small(factor, &f):
                # each product fits 60 bits; more than a handful of terms would be needed to leave 63
                a, b = a * f, b * f
                small_low += min(a, b)
                small_high += max(a, b)
                if not -(<long long>1 << 61) < small_low <= small_high < (<long long>1 << 61):
                    low, high, small_low, small_high = low + small_low, high + small_high, 0, 0
                continue
            corners = ((<tuple>ends)[0] * factor, (<tuple>ends)[1] * factor)
            low = low + min(corners)
            high = high + max(corners)
        return low + small_low, high + small_high


cdef bint is_small(object value, long long *out) except -1:
    """An int below 2**30 in size."""
    return PyLong_Check(value) and as_long(value, out) and -(<long long>1 << 30) < out[0] < (<long long>1 << 30)
