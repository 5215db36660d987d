# cython: language_level=3
"""Walks over the graph: orders, slices, consumers, substitution.

In: a node. Out: dictionaries in visiting order (their values are None where only the order counts). Every walk is iterative and
visits sources left to right, so the order depends on the graph alone. Called by the methods of the node and by the rewriter.
"""
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from tinygrad._core.node cimport UOp, make_node, next_epoch, set_order_keeper

from tinygrad._core.node import install

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    void Py_XDECREF(PyObject *)

cdef extern from *:
    """
    /* Private and, from Python 3.13 on, out of reach: sets an item whose hash is known. */
    #define core_prefetch(p) __builtin_prefetch(p)
    #if PY_VERSION_HEX < 0x030D0000
    #define core_set_known(d, k, v, h) _PyDict_SetItem_KnownHash(d, k, v, h)
    #else
    #define core_set_known(d, k, v, h) PyDict_SetItem(d, k, v)
    #endif
    """
    void prefetch "core_prefetch" (const void *) noexcept
    int set_known "core_set_known" (dict, PyObject *, object, Py_hash_t) except -1


cdef int push(Stack *stack, PyObject *node) except -1:
    """Puts a node on the stack (borrowed: the caller keeps the graph alive)."""
    cdef Step *bigger
    if stack.count == stack.size:
        bigger = <Step *>realloc(stack.items, (stack.size * 2 + 256) * sizeof(Step))
        if bigger is NULL:
            raise MemoryError("no memory for a walk")
        stack.items = bigger
        stack.size = stack.size * 2 + 256
    stack.items[stack.count].node = node
    stack.items[stack.count].at = 0
    stack.count += 1
    return 0


# The last few orders of larger graphs: passes walk the graph that the one before them has just walked. The root is not in its
# order, so remembering it keeps nothing alive that the root does not; a dying root gives it up.
cdef enum:
    REMEMBERED = 4
    SMALLEST = 64
    LARGEST = 1 << 18
cdef PyObject *roots[REMEMBERED]
cdef PyObject *orders[REMEMBERED]
cdef int oldest = 0
memset(roots, 0, sizeof(roots))
memset(orders, 0, sizeof(orders))


cdef PyObject *give_up(PyObject *root) noexcept:
    """Forgets the order of a root and hands its reference over; NULL when there is none."""
    cdef PyObject *order
    cdef int i
    for i in range(REMEMBERED):
        if roots[i] is root:
            order = orders[i]
            roots[i] = orders[i] = NULL
            (<UOp>root).flags &= ~<uint32_t>2
            return order
    return NULL


set_order_keeper(give_up)


cdef int remember(UOp root, dict below) except -1:
    """Keeps the order below a root in place of the oldest one."""
    global oldest
    cdef PyObject *dropped
    if not SMALLEST <= len(below) <= LARGEST:
        return 0
    dropped = give_up(roots[oldest]) if roots[oldest] is not NULL else NULL
    Py_INCREF(below)
    roots[oldest] = <PyObject *>root
    orders[oldest] = <PyObject *>below
    root.flags |= 2
    oldest = (oldest + 1) % REMEMBERED
    Py_XDECREF(dropped)
    return 0


cdef dict order_below(UOp root):
    """Every node strictly below the root, sources first, in a dict of its own."""
    cdef int i
    cdef dict below
    if root.flags & 2:
        for i in range(REMEMBERED):
            if roots[i] is <PyObject *>root:
                return (<dict>orders[i]).copy()
    below = walk_below(root)
    remember(root, below)
    return below.copy() if root.flags & 2 else below


cdef dict postorder(UOp root):
    """Every node at or below the root, sources first."""
    cdef dict out = order_below(root)
    out[root] = None
    return out


cdef dict walk_below(UOp root):
    """Every node strictly below the root, sources first."""
    cdef Stack stack = Stack(NULL, 0, 0)
    cdef uint64_t epoch = next_epoch()
    cdef Step *top
    cdef PyObject *below
    cdef PyObject *src
    cdef dict out = {}
    cdef Py_ssize_t i
    root.mark = epoch
    try:
        push(&stack, <PyObject *>root)
        while stack.count:
            top = &stack.items[stack.count - 1]
            src = sources_of(top.node)
            if top.at == 0:
                # large graphs do not fit the cache: fetch all sources while the first one is walked
                for i in range(1, PyTuple_GET_SIZE(<object>src)):
                    prefetch(PyTuple_GET_ITEM_RAW(<object>src, i))
            if top.at < PyTuple_GET_SIZE(<object>src):
                below = PyTuple_GET_ITEM_RAW(<object>src, top.at)
                top.at += 1
                if (<UOp>below).mark != epoch:
                    (<UOp>below).mark = epoch
                    prefetch(sources_of(below))
                    push(&stack, below)
            else:
                stack.count -= 1
                if stack.count:
                    set_known(out, top.node, None, (<UOp>top.node).hash)
    finally:
        free(stack.items)
    return out


cdef inline PyObject *sources_of(PyObject *node) noexcept:
    """The tuple of sources, borrowed."""
    return <PyObject *>(<UOp>node).src


cdef dict gated_postorder(UOp root, gate):
    """The same, not entering what the gate refuses."""
    cdef dict out = {}
    cdef dict entered = {root: None}
    cdef list stack = []
    cdef list position = []
    cdef UOp u
    cdef Py_ssize_t at
    if not gate(root):
        return out
    stack.append(root)
    position.append(0)
    while stack:
        u = stack[len(stack) - 1]
        at = position[len(position) - 1]
        if at < len(u.src):
            position[len(position) - 1] = at + 1
            below = u.src[at]
            if below not in entered:
                entered[below] = None
                if gate(below):
                    stack.append(below)
                    position.append(0)
        else:
            stack.pop()
            position.pop()
            out[u] = None
    return out


cdef bint has_op_below(UOp root, uint64_t low, uint64_t high) except -1:
    """Whether an operation of the set occurs strictly below the root."""
    cdef Stack stack = Stack(NULL, 0, 0)
    cdef uint64_t epoch = next_epoch()
    cdef PyObject *at
    cdef PyObject *below
    cdef Py_ssize_t i
    root.mark = epoch
    try:
        push(&stack, <PyObject *>root)
        while stack.count:
            stack.count -= 1
            at = stack.items[stack.count].node
            if (<UOp>at).below0 & low or (<UOp>at).below1 & high:
                return True
            for i in range(PyTuple_GET_SIZE((<UOp>at).src)):
                below = PyTuple_GET_ITEM_RAW((<UOp>at).src, i)
                if (<UOp>below).mark != epoch:
                    (<UOp>below).mark = epoch
                    push(&stack, below)
    finally:
        free(stack.items)
    return False


def substitute(UOp root not None, dict replacements):
    """The graph with nodes replaced, from the top down; what is put in is searched again.

    A replacement may have the node it replaces as a direct source (x -> f(x)): that one stays. Raises RuntimeError
    when it contains it further below.
    """
    cdef dict done = {}
    cdef Stack stack = Stack(NULL, 0, 0)
    cdef dict target = {}
    cdef Step *top
    cdef PyObject *found
    cdef UOp u, cur
    if not replacements:
        return root
    try:
        push(&stack, <PyObject *>root)
        while stack.count:
            top = &stack.items[stack.count - 1]
            u = <UOp>top.node
            if top.at == 0:
                cur = follow(u, replacements)
                target[u] = cur
                done[u] = None
                top.at = 1
            else:
                cur = target[u]
            while top.at <= PyTuple_GET_SIZE(cur.src):
                below = <object>PyTuple_GET_ITEM_RAW(cur.src, top.at - 1)
                found = PyDict_GetItem(done, below)
                if found is NULL:
                    push(&stack, <PyObject *>below)
                    break
                if <object>found is None and below is not u:
                    raise RuntimeError(f"infinite loop in substitute: a replacement contains {below.op} node it replaces")
                top.at += 1
            else:
                stack.count -= 1
                done[u] = u
                done[u] = rebuilt(cur, done)
    finally:
        free(stack.items)
    return done[root]


cdef UOp follow(UOp u, dict replacements):
    """The end of the chain of replacements that starts at a node."""
    cdef PyObject *found = PyDict_GetItem(replacements, u)
    cdef Py_ssize_t left = len(replacements)
    while found is not NULL and <object>found is not u:
        if not isinstance(<object>found, UOp):
            raise TypeError(f"a replacement must be a UOp, got {<object>found!r}")
        if left < 0:
            raise RuntimeError(f"infinite loop in substitute: the replacements of {u.op} lead in a circle")
        left -= 1
        u = <UOp>found
        found = PyDict_GetItem(replacements, u)
    return u


cdef UOp rebuilt(UOp u, dict done):
    """The node with its sources replaced by what is noted for them; the same node when nothing differs."""
    cdef tuple src = u.src
    cdef Py_ssize_t i
    for i in range(len(src)):
        if PyDict_GetItem(done, src[i]) is not PyTuple_GET_ITEM_RAW(src, i):
            return make_node(u.op, u.dtype, tuple([<object>PyDict_GetItem(done, s) for s in src]), u.arg, u.tag)
    return u


class _Walks:
    """The walking methods of the node."""

    def toposort(self, gate=None):
        """Every node at or below this one, sources first, as the keys of a dict.

        `gate(node)` false keeps the walk from entering a node.
        """
        return postorder(self) if gate is None else gated_postorder(self, gate)

    def topovisit(self, visitor, cache):
        """Calls visitor(node) on every node not in the cache, sources first; returns the value for this node."""
        cdef Stack stack = Stack(NULL, 0, 0)
        cdef Step *top
        cdef UOp u
        try:
            if self not in cache:
                push(&stack, <PyObject *>self)
            while stack.count:
                top = &stack.items[stack.count - 1]
                u = <UOp>top.node
                if top.at < PyTuple_GET_SIZE(u.src):
                    below = u.src[top.at]
                    top.at += 1
                    if below not in cache:
                        push(&stack, <PyObject *>below)
                else:
                    stack.count -= 1
                    if u not in cache:
                        cache[u] = visitor(u)
        finally:
            free(stack.items)
        return cache[self]

    def get_consumer_map(self):
        """For every node at or below this one the nodes that use it (in visiting order)."""
        cdef dict out = {}
        for u in postorder(self):
            out[u] = {}
            for s in (<UOp>u).src:
                (<dict>out[s])[u] = None
        return out

    def reverse_toposort(self, consumer_map):
        """The nodes of the consumer map from this one up to their last users, users first."""
        cdef dict out = {}
        cdef dict entered = {self: None}
        cdef list stack = [(self, iter(consumer_map[self]))]
        while stack:
            u, users = stack[len(stack) - 1]
            for user in users:
                if user not in entered:
                    entered[user] = None
                    stack.append((user, iter(consumer_map[user])))
                    break
            else:
                stack.pop()
                out[u] = None
        return out

    @property
    def backward_slice(self):
        """Every node strictly below this one, sources first, as the keys of a dict."""
        return order_below(self)

    @property
    def backward_slice_with_self(self):
        """Every node at or below this one, this one first, as the keys of a dict."""
        cdef dict out = {self: None}
        out.update(postorder(self))
        return out

    def op_in_backward_slice_with_self(self, *ops):
        """Whether one of the operations occurs at or below this node."""
        cdef uint64_t low = 0, high = 0
        for op in ops:
            if op < 64:
                low |= <uint64_t>1 << <int>op
            else:
                high |= <uint64_t>1 << <int>(op - 64)
        if (<UOp>self).op in ops:
            return True
        return has_op_below(self, low, high)


install(UOp, _Walks)
