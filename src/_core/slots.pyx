# cython: language_level=3
"""Cached properties of nodes, in numbered C slots.

In: a node, a slot, the function that computes it. Out: the value, computed once per node. `derived` properties are computed sources
first without recursion, so their function may read the same property of the sources. A value must not contain its own node: it
would never be freed. A slot can have a native form (`set_native`), asked before the Python function.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from tinygrad._core.node cimport UOp

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    void Py_XDECREF(PyObject *)

cdef enum:
    SLOTS = 64
cdef native_slot natives[SLOTS]
memset(natives, 0, sizeof(natives))


cdef int set_native(str name, native_slot fn) except -1:
    """Registers the native form of a slot."""
    natives[slot_number(name)] = fn
    return 0


cdef inline object compute(UOp u, uint32_t slot, object fn):
    if natives[slot] is not NULL:
        value = natives[slot](u)
        if value is not NotImplemented:
            return value
    return fn(u)


cdef PyObject *get_slot(UOp u, uint32_t slot) noexcept:
    """Borrowed value of a slot, NULL when it is not computed."""
    return u.slots[slot] if slot < u.nslots else NULL


cdef int set_slot(UOp u, uint32_t slot, object value) except -1:
    cdef PyObject **bigger
    cdef uint32_t wanted
    if slot >= u.nslots:
        wanted = (slot + 4) & ~<uint32_t>3
        bigger = <PyObject **>realloc(u.slots, wanted * sizeof(PyObject *))
        if bigger is NULL:
            raise MemoryError("no memory for the slots of a node")
        memset(bigger + u.nslots, 0, (wanted - u.nslots) * sizeof(PyObject *))
        u.slots = bigger
        u.nslots = wanted
    if value is u:
        raise ValueError("a node must not cache itself: it would never be freed")
    Py_INCREF(value)
    Py_XDECREF(u.slots[slot])
    u.slots[slot] = <PyObject *>value
    return 0


cdef int fill_slots(UOp root, uint32_t slot, object fn) except -1:
    """Computes a slot for the node and everything below it that lacks it, sources first, without recursion."""
    cdef Py_ssize_t size = 64, top = 0, i
    cdef PyObject **stack
    cdef PyObject *item
    cdef PyObject **bigger
    cdef UOp u
    cdef bint ready
    if get_slot(root, slot) is not NULL:
        return 0
    for i in range(PyTuple_GET_SIZE(root.src)):
        if get_slot(<UOp>PyTuple_GET_ITEM_RAW(root.src, i), slot) is NULL:
            break
    else:
        set_slot(root, slot, compute(root, slot, fn))
        return 0
    stack = <PyObject **>malloc(size * sizeof(PyObject *))
    if stack is NULL:
        raise MemoryError("no memory for a walk")
    stack[0] = <PyObject *>root
    top = 1
    try:
        while top:
            u = <UOp>stack[top - 1]
            if get_slot(u, slot) is not NULL:
                top -= 1
                continue
            ready = True
            for i in range(PyTuple_GET_SIZE(u.src) - 1, -1, -1):
                item = PyTuple_GET_ITEM_RAW(u.src, i)
                if get_slot(<UOp>item, slot) is NULL:
                    ready = False
                    if top == size:
                        bigger = <PyObject **>realloc(stack, size * 2 * sizeof(PyObject *))
                        if bigger is NULL:
                            raise MemoryError("no memory for a walk")
                        stack = bigger
                        size *= 2
                    stack[top] = item
                    top += 1
            if ready:
                top -= 1
                set_slot(u, slot, compute(u, slot, fn))
    finally:
        free(stack)
    return 0


cdef dict slot_numbers = {"key": 0}


def slot_number(str name):
    """The number of the slot with this name; a new one the first time."""
    number = slot_numbers.get(name)
    if number is None:
        number = slot_numbers[name] = len(slot_numbers)
        if number >= 64:
            raise RuntimeError(f"no slot left for {name!r}: 64 are in use")
    return number


def uop_derived(UOp u not None, int slot, fn):
    """The value of a slot; `fn(node)` computes it, called for sources before users."""
    fill_slots(u, slot, fn)
    return <object>get_slot(u, slot)


cdef class Derived:
    """A property kept in a slot of each node and computed sources first (see `derived`)."""

    def __get__(self, instance, owner):
        cdef PyObject *found
        if instance is None:
            return self
        found = get_slot(<UOp?>instance, self.slot)
        if found is NULL:
            if self.walk:
                fill_slots(<UOp>instance, self.slot, self.fn)
            else:
                value = self.fn(instance)
                if value is instance:
                    return value
                set_slot(<UOp>instance, self.slot, value)
                return value
            found = get_slot(<UOp>instance, self.slot)
        return <object>found

    def __set__(self, instance, value):
        raise AttributeError(f"{self.name} of a UOp is derived and cannot be set")


cdef object new_derived(str name, object fn, bint walk):
    cdef Derived out = Derived()
    out.name = name
    out.fn = fn
    out.slot = slot_number(name)
    out.walk = walk
    out.__doc__ = getattr(fn, "__doc__", None)
    by_name[name] = out
    return out


def derived(str name, fn):
    """A cached property of nodes for `install`: `shape = derived("shape", compute_shape)`.

    `fn(node)` may read the same property of the node's sources: they are computed before it, without recursion. The value
    must not contain the node itself.
    """
    return new_derived(name, fn, True)


def cached(str name, fn):
    """Like `derived`, for properties that do not read themselves on the sources: only the asked node is computed."""
    return new_derived(name, fn, False)


cdef object slot_value(UOp u, Derived what):
    """The value of a derived property."""
    cdef PyObject *found = get_slot(u, what.slot)
    if found is NULL:
        fill_slots(u, what.slot, what.fn)
        found = get_slot(u, what.slot)
    return <object>found


cdef dict by_name = {}


cdef Derived derived_named(str name):
    """The derived property last declared with this name, or None."""
    return by_name.get(name)
