# cython: language_level=3
"""Identity of graphs beyond one process: digest, pickling, structural order.

In: nodes. Out: `key` (a digest), the pickled form, and `compare`, a total order that does not depend on addresses, creation
order or the hash seed. All iterative. Called through the node's methods and by the rules that order operands.
"""
import hashlib
import types

from cpython.object cimport PyObject

from tinygrad._core.node cimport UOp, make_node
from tinygrad._core.slots cimport fill_slots, get_slot
from tinygrad._core.values cimport is_dtype, same_value

from tinygrad._core.node import install

cdef extern from "Python.h":
    bint PyTuple_CheckExact(object)


cdef str stable_text(object value):
    """Text of an argument that is the same in every process."""
    if isinstance(value, UOp):
        return (<UOp>value).key.hex()
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    if PyTuple_CheckExact(value):
        return "(" + ",".join([stable_text(item) for item in <tuple>value]) + ")"
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None and not is_dtype(value):
        inner = ",".join([stable_text(getattr(value, name)) for name, f in fields.items() if f.compare])
        return f"{type(value).__qualname__}({inner})"
    return f"{type(value).__name__}:{value!r}"


def digest(UOp u not None):
    """The digest of a node whose sources have theirs (see `UOp.key`)."""
    state = hashlib.sha256(f"{u.op.name}|{u.dtype!r}|{stable_text(u.arg)}|".encode())
    for s in u.src:
        state.update(<object>get_slot(<UOp>s, 0))
    return state.digest()


cdef list flatten(UOp root):
    """Rows (op, dtype, source numbers, arg, tag), sources before users, the root last."""
    cdef list rows = []
    cdef dict number = {}
    cdef list stack = [root]
    cdef UOp u
    while stack:
        u = stack[len(stack) - 1]
        if u in number:
            stack.pop()
            continue
        missing = [s for s in u.src[::-1] if s not in number]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        number[u] = len(rows)
        rows.append((u.op, u.dtype, tuple([number[s] for s in u.src]), u.arg, u.tag))
    return rows


def unflatten(list rows):
    """The last node of the rows that a pickled graph holds."""
    cdef list nodes = []
    for op, dtype, src, arg, tag in rows:
        nodes.append(make_node(op, dtype, tuple([nodes[i] for i in src]), arg, tag))
    return nodes[len(nodes) - 1]


# ---------------------------------------------------------------------------------------------- order

cdef int order_of_kind(object value):
    if value is None:
        return 0
    if isinstance(value, (bool, int, float)):
        return 1
    if isinstance(value, str):
        return 2
    if isinstance(value, tuple):
        return 3
    if isinstance(value, UOp):
        return 4
    return 5


cdef int compare_values(object a, object b) except -2:
    """Total order of arguments: None, numbers, text, tuples, nodes, the rest by their text."""
    cdef int kind, other, found
    if same_value(a, b):
        return 0
    kind, other = order_of_kind(a), order_of_kind(b)
    if kind != other:
        return -1 if kind < other else 1
    if kind == 3:
        for x, y in zip(a, b):
            found = compare_values(x, y)
            if found:
                return found
        return (len(a) > len(b)) - (len(a) < len(b))
    if kind == 4:
        return order(a, b)
    if kind in (1, 2) and a != b and (a < b or a > b):
        return -1 if a < b else 1
    x, y = (type(a).__name__, stable_text(a)), (type(b).__name__, stable_text(b))
    return (x > y) - (x < y)


cdef int order(UOp a, UOp b) except -2:
    """Structural order; distinct nodes differ, so only the first differing source is followed."""
    cdef int found
    cdef Py_ssize_t i, shorter
    while a is not b:
        if a.opnum != b.opnum:
            return -1 if a.opnum < b.opnum else 1
        if a.arg is not b.arg:
            found = compare_values(a.arg, b.arg)
            if found:
                return found
        if a.info is not b.info:
            if a.dtype < b.dtype:
                return -1
            if b.dtype < a.dtype:
                return 1
        shorter = min(len(a.src), len(b.src))
        for i in range(shorter):
            if a.src[i] is not b.src[i]:
                a, b = a.src[i], b.src[i]
                break
        else:
            if len(a.src) != len(b.src):
                return -1 if len(a.src) < len(b.src) else 1
            if a.tag is b.tag:
                x, y = repr(a.dtype), repr(b.dtype)
                return (x > y) - (x < y)
            return compare_values(a.tag, b.tag)
    return 0


def compare(UOp a not None, UOp b not None):
    """-1, 0 or 1: a structural total order that is the same in every process (op, arg, dtype, sources, tag)."""
    return order(a, b)


class _Identity:
    """The methods of the node about its identity."""

    def __reduce__(self):
        # Shallow graphs go node by node, so that one pickle shares them; deep ones flat, so that pickle does not recurse.
        if (<UOp>self).depth <= 48:
            return UOp, (self.op, self.dtype, self.src, self.arg, self.tag)
        return unflatten, (flatten(self),)

    @property
    def key(self):
        """A digest of the graph below and including this node (32 bytes), the same in every process."""
        cdef PyObject *found = get_slot(self, 0)
        if found is NULL:
            fill_slots(self, 0, digest)
            found = get_slot(self, 0)
        return <object>found


install(UOp, _Identity)
