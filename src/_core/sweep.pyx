# cython: language_level=3
"""Walks of the lowering that touch every instruction of a kernel: rebuilding, open loops, the order of instructions.

In: graphs, and what to do at the few nodes that need a decision, as Python functions. Out: dictionaries and lists over nodes. Each walk
is iterative, visits sources left to right and depends on the graph alone. Called by `tinygrad.codegen.late`; the numbers of the
operations that have a meaning here are given by `set_structure`.
"""
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.set cimport PySet_Add, PySet_Contains
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from tinygrad._core.node cimport UOp, make_node, next_epoch
from tinygrad._core.values cimport DTypeInfo
from tinygrad._core.walk cimport Stack, Step, postorder, push

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)

cdef int RANGE = -1, END = -1, REDUCE = -1, BUFFERIZE = -1, AFTER = -1, GROUP = -1, BARRIER = -1


def set_structure(ops):
    """Gives the core the operations that open, close or order loops (an enumeration that has them as members)."""
    global RANGE, END, REDUCE, BUFFERIZE, AFTER, GROUP, BARRIER
    RANGE, END, REDUCE = int(ops.RANGE), int(ops.END), int(ops.REDUCE)
    BUFFERIZE, AFTER, GROUP, BARRIER = int(ops.BUFFERIZE), int(ops.AFTER), int(ops.GROUP), int(ops.BARRIER)


# ---------------------------------------------------------------------------------------------- rebuilding


cdef UOp over(UOp u, dict done):
    """The node over what its sources became."""
    cdef Py_ssize_t count = PyTuple_GET_SIZE(u.src), i
    cdef PyObject *below
    cdef PyObject *found
    cdef bint changed = False
    cdef object src, item
    for i in range(count):
        below = PyTuple_GET_ITEM_RAW(u.src, i)
        found = PyDict_GetItem(done, <object>below)
        if found is NULL:
            raise KeyError(f"a source of a {u.op} node has no value here")
        if found is not below:
            changed = True
    if not changed:
        return u
    src = PyTuple_New(count)
    for i in range(count):
        item = <object>PyDict_GetItem(done, <object>PyTuple_GET_ITEM_RAW(u.src, i))
        if not isinstance(item, UOp):
            raise TypeError(f"a source of a {u.op} node must become a node, got {item!r}")
        Py_INCREF(item)
        PyTuple_SET_ITEM(src, i, item)
    return make_node(u.op, u.dtype, <tuple>src, u.arg, u.tag)


def rebuilt(UOp u not None, dict done):
    """The node over `done[s]` for each of its sources `s`; the node itself where all of them stayed."""
    return over(u, done)


def with_bodies(UOp root not None, dict bodies):
    """The graph in which `bodies[u]` stands for `u`; the sources of a body are rebuilt in the same way.

    Raises RuntimeError when a body contains, at any depth, the node it stands for.
    """
    cdef dict done = {}
    cdef list stack = [root], position = [0]
    cdef PyObject *found
    cdef UOp u, body
    cdef object below
    cdef Py_ssize_t at, count
    done[root] = None
    while stack:
        u = <UOp>stack[len(stack) - 1]
        found = PyDict_GetItem(bodies, u)
        body = u if found is NULL else <UOp?><object>found
        at, count = position[len(position) - 1], PyTuple_GET_SIZE(body.src)
        while at < count:
            below = <object>PyTuple_GET_ITEM_RAW(body.src, at)
            found = PyDict_GetItem(done, below)
            if found is NULL:
                break
            if found is <PyObject *>None:
                raise RuntimeError(f"what stands for a {below.op} node contains that node")
            at += 1
        position[len(position) - 1] = at
        if at < count:
            PyDict_SetItem(done, below, None)
            stack.append(below)
            position.append(0)
            continue
        stack.pop()
        position.pop()
        PyDict_SetItem(done, u, over(body, done))
    return done[root]


def replaced(UOp root not None, dict moves not None, op=None, fn=None):
    """The graph with `moves[u]` in the place of `u`, in one pass: what is put in is taken as it is.

    With `op`, a node of this operation whose sources changed becomes `fn(that node over its new sources)`.
    """
    cdef dict done = {}
    cdef int opnum = -1 if op is None else int(op)
    cdef PyObject *found
    cdef UOp u, new
    for u in postorder(root):
        found = PyDict_GetItem(moves, u)
        if found is not NULL:
            PyDict_SetItem(done, u, <object>found)
            continue
        new = over(u, done)
        if new is not u and u.opnum == opnum:
            PyDict_SetItem(done, u, fn(new))
        else:
            PyDict_SetItem(done, u, new)
    return done[root]


def transform(UOp root not None, scalar, fn):
    """The graph after `fn(node, new sources as a list)` at every node whose type, or whose first source's type, has lanes of `scalar`.

    All other nodes are rebuilt over their new sources.
    """
    cdef dict done = {}
    cdef UOp u
    for u in postorder(root):
        if has_scalar(u, scalar) or (PyTuple_GET_SIZE(u.src) and has_scalar(<UOp>PyTuple_GET_ITEM_RAW(u.src, 0), scalar)):
            PyDict_SetItem(done, u, fn(u, [done[s] for s in u.src]))
        else:
            PyDict_SetItem(done, u, over(u, done))
    return done[root]


cdef inline bint has_scalar(UOp u, object scalar) noexcept:
    return (<DTypeInfo>u.info).scalar is scalar


# ---------------------------------------------------------------------------------------------- open loops


cdef class OpenLoops:
    """Bit sets of the ranges that are open at each node of one walk; for code that calls no Python in between."""
    cdef uint64_t *words
    cdef uint64_t *closed       # scratch: one set
    cdef Py_ssize_t width
    cdef uint64_t base          # mark of the first node of the order
    cdef uint64_t count

    def __dealloc__(self):
        free(self.words)
        free(self.closed)

    cdef uint64_t *of(self, PyObject *u) noexcept:
        return &self.words[((<UOp>u).mark - self.base) * self.width]

    cdef int close(self, UOp dep, dict number) except -1:
        """Adds to `closed` the ranges that end when a statement is done, looking through groups and barriers."""
        cdef Py_ssize_t i
        cdef UOp s
        if dep.opnum == END or dep.opnum == REDUCE:
            for i in range(1, PyTuple_GET_SIZE(dep.src)):
                s = <UOp>PyTuple_GET_ITEM_RAW(dep.src, i)
                if s.opnum == RANGE:
                    at = <Py_ssize_t>number[s]
                    self.closed[at >> 6] |= <uint64_t>1 << (at & 63)
        elif dep.opnum == GROUP or dep.opnum == BARRIER:
            for i in range(PyTuple_GET_SIZE(dep.src)):
                s = <UOp>PyTuple_GET_ITEM_RAW(dep.src, i)
                if s.opnum == END or s.opnum == GROUP or s.opnum == BARRIER:
                    self.close(s, number)
        return 0

    cdef int visit(self, UOp u, dict number) except -1:
        """Computes the set of a node whose sources are done."""
        cdef uint64_t *mine = self.of(<PyObject *>u)
        cdef uint64_t *theirs
        cdef Py_ssize_t i, k, at
        cdef UOp s
        for i in range(PyTuple_GET_SIZE(u.src)):
            s = <UOp>PyTuple_GET_ITEM_RAW(u.src, i)
            if s.mark - self.base >= self.count:
                raise ValueError(f"a source of a {u.op} node is not in the order")
            theirs = self.of(<PyObject *>s)
            for k in range(self.width):
                mine[k] |= theirs[k]
        if u.opnum == RANGE:
            at = <Py_ssize_t>number[u]
            mine[at >> 6] |= <uint64_t>1 << (at & 63)
        elif u.opnum == BUFFERIZE:
            # a position may be an expression of the ranges that an axis was split into
            for i in range(1, PyTuple_GET_SIZE(u.src)):
                theirs = self.of(PyTuple_GET_ITEM_RAW(u.src, i))
                for k in range(self.width):
                    mine[k] &= ~theirs[k]
        elif u.opnum == END or u.opnum == REDUCE or u.opnum == AFTER:
            for k in range(self.width):
                self.closed[k] = 0
            if u.opnum == AFTER:
                for i in range(1, PyTuple_GET_SIZE(u.src)):
                    s = <UOp>PyTuple_GET_ITEM_RAW(u.src, i)
                    if s.opnum != REDUCE:
                        self.close(s, number)
            else:
                self.close(u, number)
            for k in range(self.width):
                mine[k] &= ~self.closed[k]
        return 0

    cdef object as_int(self, PyObject *u):
        cdef uint64_t *mine = self.of(u)
        cdef Py_ssize_t k
        out = <object>mine[0]
        for k in range(1, self.width):
            if mine[k]:
                out |= <object>mine[k] << (64 * k)
        return out


def loop_masks(list order not None, list ranges not None):
    """For every node of a topological order, the ranges open there, as a mask with bit i for `ranges[i]`.

    A RANGE is open at itself and at whatever depends on it; an END or REDUCE closes its ranges, BUFFERIZE those of its positions, and
    an AFTER those that the statements it waits for have closed.
    """
    cdef OpenLoops loops = OpenLoops()
    cdef dict number = {r: i for i, r in enumerate(ranges)}
    cdef dict out = {}
    cdef Py_ssize_t n = len(order), i
    cdef UOp u
    cdef uint64_t last = 0
    cdef object mask = 0
    loops.width = max(1, (len(ranges) + 63) >> 6)
    loops.words = <uint64_t *>calloc(max(1, n) * loops.width, sizeof(uint64_t))
    loops.closed = <uint64_t *>calloc(loops.width, sizeof(uint64_t))
    if loops.words is NULL or loops.closed is NULL:
        raise MemoryError("no memory for a walk")
    # a node's mark is its place in the order: no dictionary is needed to find its set
    loops.base = next_epoch()
    loops.count = n
    for i in range(n):
        (<UOp>order[i]).mark = loops.base + i
        next_epoch()
    for u in order:
        loops.visit(u, number)
        if loops.width > 1:
            mask = loops.as_int(<PyObject *>u)
        elif loops.of(<PyObject *>u)[0] != last:
            last = loops.of(<PyObject *>u)[0]
            mask = <object>last
        PyDict_SetItem(out, u, mask)
    return out


# ---------------------------------------------------------------------------------------------- the order of instructions


cdef set containing_loops(list order):
    """The nodes at or above an END."""
    cdef set out = set()
    cdef PyObject *below
    cdef Py_ssize_t i
    cdef UOp u
    cdef uint64_t epoch = next_epoch()
    for u in order:
        if u.opnum != END:
            for i in range(PyTuple_GET_SIZE(u.src)):
                below = PyTuple_GET_ITEM_RAW(u.src, i)
                if (<UOp>below).mark == epoch:
                    break
            else:
                continue
        u.mark = epoch
        PySet_Add(out, u)
    return out


cdef list loops_first(UOp root, set looping):
    """Sources before users; among the sources of a node, those in `looping` first."""
    cdef Stack stack = Stack(NULL, 0, 0)
    cdef uint64_t epoch = next_epoch()
    cdef Py_ssize_t count, at
    cdef list out = []
    cdef Step *top
    cdef PyObject *below
    cdef UOp u
    root.mark = epoch
    try:
        push(&stack, <PyObject *>root)
        while stack.count:
            top = &stack.items[stack.count - 1]
            u = <UOp>top.node
            count = PyTuple_GET_SIZE(u.src)
            if top.at == 0 and not PySet_Contains(looping, u):
                top.at = count      # no source contains a loop
            if top.at == 2 * count:
                stack.count -= 1
                out.append(u)
                continue
            at = top.at
            top.at += 1
            below = PyTuple_GET_ITEM_RAW(u.src, at if at < count else at - count)
            if (<UOp>below).mark != epoch and (at >= count or PySet_Contains(looping, <object>below)):
                (<UOp>below).mark = epoch
                push(&stack, below)
    finally:
        free(stack.items)
    return out


def arrange(list order not None, dict masks not None, home_of, frozenset silent not None, frozenset header not None):
    """Puts every node into the loop it belongs to: (nodes at the top, headers in order, loops that have no END).

    `order` is a topological order whose last is the sink. `masks` are those of `loop_masks`; `home_of(mask)` is the innermost loop of
    a mask, None for none, asked once for each. Nodes of operations in `silent`, and RANGEs, stand nowhere; an END puts its range, the
    body and itself where it stands. Nodes at the top whose operation is in `header` are listed apart.
    """
    cdef dict homes = {}, bodies = {}
    cdef list top = [], heads = [], block
    cdef PyObject *found
    cdef UOp u
    for u in loops_first(<UOp?>order[len(order) - 1], containing_loops(order)):
        if u.opnum == RANGE or PySet_Contains(silent, u.op):
            continue
        mask = <object>PyDict_GetItem(masks, u)
        found = PyDict_GetItem(homes, mask)
        if found is NULL:
            homes[mask] = top if (home := home_of(mask)) is None else bodies.setdefault(home, [])
            found = PyDict_GetItem(homes, mask)
        block = <list>found
        if u.opnum == END:
            opened = u.src[1]
            body = bodies.setdefault(opened, [])
            block.append(opened)
            block.extend(body)
            block.append(u)
            # the same list stays the loop's body: what is put into it from now on is reported
            body.clear()
        elif block is top and PySet_Contains(header, u.op):
            heads.append(u)
        else:
            block.append(u)
    return top, heads, [loop for loop, body in bodies.items() if body]
