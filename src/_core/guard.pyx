# cython: language_level=3
"""Remembered Python values, and whether they are still what they were; which functions are entered meanwhile.

In: places (an attribute of an object, an entry of a dict, anything a function can read) and what stood there. Out: the first
place that holds another value. Plain data is compared by value, containers item by item, everything else by identity.
Objects are held weakly, so that remembering keeps nothing alive; a place of an object that is gone counts as unchanged.
`Entries` tells a function of each Python function that a thread enters. Used by the capture of functions.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from cpython.list cimport PyList_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport uintptr_t
from libc.string cimport memset
from tinygrad._core.node cimport UOp
import sys
import weakref

cdef extern from *:
    """
    #include <Python.h>
    #include <structmember.h>
    #if PY_VERSION_HEX >= 0x030D0000
    static PyObject *tg_referent(PyObject *ref) {
      PyObject *found = NULL;
      if (PyWeakref_GetRef(ref, &found) < 0) PyErr_Clear();
      return found;
    }
    #else
    static PyObject *tg_referent(PyObject *ref) {
      PyObject *found = PyWeakref_GET_OBJECT(ref);
      if (found == Py_None) return NULL;
      Py_INCREF(found);
      return found;
    }
    #endif
    static Py_ssize_t tg_offset(PyObject *descriptor) {
      if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
      return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    static PyObject *tg_at(PyObject *owner, Py_ssize_t offset) {
      return *(PyObject **)((char *)owner + offset);
    }
    static PyObject *tg_code(PyFrameObject *frame) { return (PyObject *)PyFrame_GetCode(frame); }
    """
    PyObject *tg_referent(object ref)
    Py_ssize_t tg_offset(object)
    PyObject *tg_at(PyObject *, Py_ssize_t)
    object PyObject_GenericGetDict(object, void *)
    ctypedef struct PyFrameObject:
        pass
    ctypedef int (*Py_tracefunc)(PyObject *, PyFrameObject *, int, PyObject *) except -1
    void PyEval_SetProfile(Py_tracefunc, PyObject *)
    PyObject *tg_code(PyFrameObject *)
    int PyTrace_CALL

cdef object WeakReference = weakref.ref


class _Missing:
    """Stands for a value where there is none."""

    def __repr__(self):
        return "MISSING"


MISSING = _Missing()


cdef class Expected:
    """What stood in a place, where that is not compared as plain data."""

    cdef bint fits(self, object now) except -1:
        return self.same(now)

    def same(self, now):
        """Whether `now` counts as the value that was remembered. For subclasses in Python."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it is equal to")


cdef class Identity(Expected):
    """This very object, held weakly where that is possible."""

    cdef readonly object reference
    cdef object strong

    def __cinit__(self, value, *rest):
        try:
            self.reference = WeakReference(value)
        except TypeError:
            self.strong = value

    @property
    def value(self):
        """The object; None if it is gone."""
        return self.reference() if self.reference is not None else self.strong

    cdef bint fits(self, object now) except -1:
        cdef PyObject *held
        if self.reference is None:
            return now is self.strong
        held = tg_referent(self.reference)
        Py_XDECREF(held)
        return held is <PyObject *>now or self.same(now)

    def same(self, now):
        """Whether another object may stand for this one."""
        return False


cdef class Sequence(Expected):
    """A list or tuple of one length, item by item."""

    cdef readonly object kind
    cdef readonly list items

    def __cinit__(self, kind, list items):
        self.kind, self.items = kind, items

    cdef bint fits(self, object now) except -1:
        cdef Py_ssize_t i
        if type(now) is not self.kind or len(now) != len(self.items):
            return False
        if PyList_CheckExact(now):
            # a list may shrink while it is looked at: plain indexing checks
            for i in range(len(self.items)):
                if not same(self.items[i], (<list>now)[i]):
                    return False
            return True
        for expected, value in zip(self.items, now):
            if not same(expected, value):
                return False
        return True


cdef class Mapping(Expected):
    """A dict with these keys, in any order, and their values."""

    cdef readonly object kind
    cdef readonly dict items

    def __cinit__(self, kind, dict items):
        self.kind, self.items = kind, items

    cdef bint fits(self, object now) except -1:
        if type(now) is not self.kind or len(now) != len(self.items):
            return False
        for key, expected in self.items.items():
            if not same(expected, now.get(key, MISSING)):
                return False
        return True


cdef frozenset PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None)})


cdef bint same(object expected, object now) except -1:
    """Whether a value is what was remembered of it."""
    if expected is now:
        return True
    if isinstance(expected, Expected):
        return (<Expected>expected).fits(now)
    if type(expected) is not type(now) or type(now) not in PLAIN:
        return False
    # not a number is what it was, too
    return expected == now or (expected != expected and now != now)


def is_same(expected, now):
    """Whether a value is what was remembered of it."""
    return same(expected, now)


cdef enum:
    IN_DICT = 0
    IN_OBJECT = 1
    IN_READER = 2

DICT, OBJECT, READER = IN_DICT, IN_OBJECT, IN_READER


class _Gone:
    """What a reader answers when there is nothing to read from any more."""

    def __repr__(self):
        return "GONE"


GONE = _Gone()


cdef class Group:
    """Places with one owner: a dict, the attributes of an object (held weakly), or something with `read(key)`."""

    cdef readonly object owner
    cdef readonly int kind
    cdef readonly dict numbers
    cdef readonly list keys, expected, labels

    def __cinit__(self, object owner, int kind):
        self.owner = WeakReference(owner) if kind == IN_OBJECT else owner
        self.kind = kind
        self.numbers, self.keys, self.expected, self.labels = {}, [], [], []

    cdef bint belongs_to(self, object owner) except -1:
        return (self.owner() if self.kind == IN_OBJECT else self.owner) is owner

    cdef object table(self):
        """The dict to look into; None if there is no owner any more."""
        cdef PyObject *held
        if self.kind == IN_DICT:
            return self.owner
        held = tg_referent(self.owner)
        if held is NULL:
            return None
        try:
            return PyObject_GenericGetDict(<object>held, NULL)
        finally:
            Py_XDECREF(held)

    cdef object differing(self):
        """The label of the first place that holds another value, or None."""
        cdef Py_ssize_t i
        cdef PyObject *found
        if self.kind == IN_READER:
            for i in range(len(self.keys)):
                value = self.owner.read(self.keys[i])
                if value is not GONE and not same(self.expected[i], value):
                    return self.labels[i]
            return None
        table = self.table()
        if table is None:
            return None
        for i in range(len(self.keys)):
            found = PyDict_GetItemWithError(table, self.keys[i])
            if found is NULL:
                if PyErr_Occurred():
                    PyErr_Clear()
                    return self.labels[i]
                if self.expected[i] is not MISSING:
                    return self.labels[i]
            elif not same(self.expected[i], <object>found):
                return self.labels[i]
        return None


cdef class Places:
    """Places and what stood there. A place is an owner and a key; what was remembered of it first is what counts."""

    cdef readonly dict groups

    def __cinit__(self):
        self.groups = {}

    def __len__(self):
        return sum([len((<Group>g).keys) for g in self.groups.values()])

    cdef Group group_of(self, object owner):
        group = self.groups.get(id(owner))
        return group if group is not None and (<Group>group).belongs_to(owner) else None

    def add(self, int kind, object owner, object key, object expected, str label):
        """Remembers a place, unless it is remembered. `owner`: a dict, an object with attributes, or a reader, by `kind`."""
        cdef Group group = self.group_of(owner)
        if group is None:
            group = self.groups[id(owner)] = Group(owner, kind)
        if key not in group.numbers:
            group.numbers[key] = len(group.keys)
            group.keys.append(key)
            group.expected.append(expected)
            group.labels.append(label)

    def drop(self, unneeded):
        """Forgets owners that are gone, and the places for whose remembered value `unneeded(value)` is true."""
        cdef Group group, kept
        for number, found in list(self.groups.items()):
            group = found
            if group.kind == IN_OBJECT and group.owner() is None:
                del self.groups[number]
                continue
            owner = group.owner() if group.kind == IN_OBJECT else group.owner
            kept = Group(owner, group.kind)
            for key, expected, label in zip(group.keys, group.expected, group.labels):
                if not unneeded(expected):
                    kept.numbers[key] = len(kept.keys)
                    kept.keys.append(key)
                    kept.expected.append(expected)
                    kept.labels.append(label)
            if kept.keys:
                self.groups[number] = kept
            else:
                del self.groups[number]

    def differing(self):
        """The label of the first place that holds another value, or None."""
        for group in self.groups.values():
            label = (<Group>group).differing()
            if label is not None:
                return label
        return None


# ---------------------------------------------------------------- tensors and their nodes


cdef Py_ssize_t node_offset = -1


def bind_node_slot(descriptor):
    """Tells where tensors keep their node: the descriptor of that slot. All tensors given to this module have it."""
    global node_offset
    node_offset = tg_offset(descriptor)
    if node_offset < 0:
        raise TypeError(f"{descriptor!r} is not the descriptor of a slot")


cdef inline UOp node_of(object reference):
    """The node of a tensor that is weakly given; None if it is gone, or has no node yet."""
    cdef PyObject *held = tg_referent(reference)
    cdef PyObject *node
    if held is NULL:
        return None
    node = tg_at(held, node_offset)
    found = None if node is NULL else <object>node
    Py_XDECREF(held)
    return <UOp>found


def not_memory(list references, object buffer_op, object reshape_op):
    """The nodes of all live tensors (weakly given) but those that are nothing but a buffer, or a reshape of one."""
    cdef list found = []
    cdef UOp node, base
    for reference in references:
        node = node_of(reference)
        if node is None:
            continue
        base = <UOp>node.src[0] if node.op is reshape_op else node
        if base.op is not buffer_op:
            found.append(node)
    return found


def same_objects(list a, list b):
    """Whether two lists hold the same objects."""
    cdef Py_ssize_t i
    if len(a) != len(b):
        return False
    for i in range(len(a)):
        if a[i] is not b[i]:
            return False
    return True


def unmoved(list references, list nodes):
    """Whether all tensors (weakly given) are alive and still have these nodes."""
    cdef Py_ssize_t i
    for i in range(len(references)):
        if node_of(references[i]) is not nodes[i]:
            return False
    return True


# ---------------------------------------------------------------- functions entered

cdef enum:
    # entries of a table of code objects that are of no interest, by address
    SKIPPED = 8192


cdef class Entries:
    """Calls `enter(frame)` for each Python function that this thread enters inside `with`, if `wanted(code)`."""

    cdef object wanted, enter, before
    cdef dict answers
    cdef PyObject *skipped[SKIPPED]

    def __cinit__(self, wanted, enter):
        self.wanted, self.enter = wanted, enter
        self.answers = {}
        memset(self.skipped, 0, sizeof(self.skipped))

    def __enter__(self):
        self.before = sys.getprofile()
        PyEval_SetProfile(_entered, <PyObject *>self)
        return self

    def __exit__(self, *exc):
        PyEval_SetProfile(NULL, NULL)
        before, self.before = self.before, None
        if before is None:
            return
        if isinstance(before, Entries):
            PyEval_SetProfile(_entered, <PyObject *>before)
        elif callable(before):
            sys.setprofile(before)
        elif hasattr(before, "enable"):
            # a profiler that is written in C
            before.enable()

    cdef int look(self, object frame, PyObject *code) except -1:
        cdef size_t slot = (<uintptr_t>code >> 4) % SKIPPED
        if self.skipped[slot] is code:
            return 0
        number = <uintptr_t>code
        answer = self.answers.get(number)
        if answer is None:
            # the code is kept, so that its address stays its own
            answer = self.answers[number] = (bool(self.wanted(<object>code)), <object>code)
        if answer[0]:
            self.enter(frame)
        else:
            self.skipped[slot] = code
        return 0


cdef int _entered(PyObject *entries, PyFrameObject *frame, int what, PyObject *arg) except -1:
    cdef PyObject *code
    if what == PyTrace_CALL:
        code = tg_code(frame)
        try:
            (<Entries>entries).look(<object>frame, code)
        finally:
            Py_XDECREF(code)
    return 0
