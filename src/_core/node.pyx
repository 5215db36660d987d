# cython: language_level=3
"""The interned graph node.

In: an operation (a member of an IntEnum), a dtype, sources, an argument, a tag. Out: the one node for these fields.
Invariants: equal fields give the identical node while it lives; the table borrows, so it never keeps a node alive; the hash
is structural and the same in every process; nodes are outside the cyclic collector, so nothing reachable from a node's own
argument, tag or slots may lead back to it. Freeing a node never recurses over the graph. Called by everything above.
"""
import cython

from cpython.dict cimport PyDict_SetItem
from cpython.object cimport PyObject, Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE
from cpython.ref cimport Py_INCREF
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from tinygrad._core.values cimport DTypeInfo, info_of, mix, need_default, plain, same_value, stable_hash

from tinygrad._core.values import set_node_type

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject *tp_dict
        void *tp_new
        void *tp_vectorcall
    void PyType_Modified(PyTypeObject *)
    void Py_XDECREF(PyObject *)
    int PyObject_GC_IsTracked(PyObject *)
    void PyObject_GC_UnTrack(void *)
    bint PyLong_Check(object)
    bint PyLong_CheckExact(object)
    long PyLong_AsLong(object) except? -1
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    Py_ssize_t Py_REFCNT(PyObject *)
    Py_ssize_t PyVectorcall_NARGS(size_t)

cdef extern from *:
    """
    #include <stddef.h>
    #include "structmember.h"
    static PyMemberDef node_field_defs[] = {
        {"op", T_OBJECT_EX, 0, READONLY, "operation, a member of Ops"},
        {"dtype", T_OBJECT_EX, 0, READONLY, "dtype of the value"},
        {"src", T_OBJECT_EX, 0, READONLY, "tuple of source nodes"},
        {"arg", T_OBJECT_EX, 0, READONLY, "argument of the operation"},
        {"tag", T_OBJECT_EX, 0, READONLY, "user mark, part of the identity"},
    };
    static int node_add_field(PyTypeObject *type, int which, Py_ssize_t offset) {
        PyMemberDef *def = &node_field_defs[which];
        def->offset = offset;
        PyObject *descr = PyDescr_NewMember(type, def);
        if (descr == NULL) return -1;
        int failed = PyDict_SetItemString(type->tp_dict, def->name, descr);
        Py_DECREF(descr);
        return failed;
    }
    typedef PyObject *(*node_vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    typedef PyObject *(*node_new)(PyTypeObject *, PyObject *, PyObject *);
    """
    int node_add_field(PyTypeObject *, int, Py_ssize_t) except -1

cdef PyObject **table = NULL
cdef Py_ssize_t table_size = 0
cdef Py_ssize_t live = 0
cdef uint64_t made = 0         # nodes that were not there when they were asked for
cdef uint64_t version = 0
cdef uint64_t epoch = 0

cdef dict hooks = {}

# Objects whose release is put off until the outermost node is gone: this is what keeps freeing iterative.
cdef PyObject **pending = NULL
cdef Py_ssize_t pending_count = 0
cdef Py_ssize_t pending_size = 0
cdef bint draining = False


cdef uint64_t next_epoch() noexcept:
    """A mark no node carries yet; valid until Python code runs that may walk the graph as well."""
    global epoch
    epoch += 1
    return epoch


# ---------------------------------------------------------------------------------------------- table

cdef int resize_table(Py_ssize_t wanted) except -1:
    global table, table_size, version
    cdef PyObject **fresh = <PyObject **>calloc(wanted, sizeof(PyObject *))
    cdef PyObject *node
    cdef PyObject *following
    cdef Py_ssize_t i
    cdef size_t at
    if fresh is NULL:
        raise MemoryError("no memory for the node table")
    for i in range(table_size):
        node = table[i]
        while node is not NULL:
            following = (<UOp>node).chain
            at = <size_t>(<UOp>node).hash & <size_t>(wanted - 1)
            (<UOp>node).chain = fresh[at]
            fresh[at] = node
            node = following
    free(table)
    table = fresh
    table_size = wanted
    version += 1
    return 0


cdef void unlink(UOp u) noexcept:
    """Takes a dying node out of the table."""
    global live, version
    cdef PyObject **at = &table[<size_t>u.hash & <size_t>(table_size - 1)]
    while at[0] is not NULL:
        if at[0] is <PyObject *>u:
            at[0] = u.chain
            live -= 1
            version += 1
            return
        at = &(<UOp>at[0]).chain


cdef order_keeper give_up_order = NULL


cdef void set_order_keeper(order_keeper fn) noexcept:
    """Names who remembers the order below a node whose flag 2 is set, and hands that over when the node dies."""
    global give_up_order
    give_up_order = fn


cdef void put_off(PyObject *item) noexcept:
    """Takes over one reference and drops it later (or now, when memory is short)."""
    global pending, pending_size, pending_count
    cdef PyObject **bigger
    if pending_count == pending_size:
        bigger = <PyObject **>realloc(pending, (pending_size * 2 + 1024) * sizeof(PyObject *))
        if bigger is NULL:
            Py_XDECREF(item)
            return
        pending = bigger
        pending_size = pending_size * 2 + 1024
    pending[pending_count] = item
    pending_count += 1


cdef void drain() noexcept:
    global draining, pending_count
    if draining:
        return
    draining = True
    while pending_count:
        pending_count -= 1
        Py_XDECREF(pending[pending_count])
    draining = False


# ---------------------------------------------------------------------------------------------- node

@cython.final
@cython.no_gc
@cython.freelist(8192)
cdef class UOp:
    """One node of the graph: `UOp(op, dtype=dtypes.void, src=(), arg=None, tag=None)`.

    The same fields give the same object, so equality is identity. Fields cannot be written.
    Raises TypeError when a field has the wrong type or `arg` or `tag` cannot be hashed.
    """

    def __dealloc__(self):
        cdef uint32_t i
        cdef PyObject *held
        if self.flags & 1:
            unlink(self)
        if self.flags & 2:
            put_off(give_up_order(<PyObject *>self))
        if self.src is not None and PyTuple_GET_SIZE(self.src):
            held = <PyObject *>self.src
            Py_INCREF(<object>held)
            self.src = None
            put_off(held)
        if self.slots is not NULL:
            for i in range(self.nslots):
                if self.slots[i] is not NULL:
                    put_off(self.slots[i])
            free(self.slots)
            self.slots = NULL
        drain()

    def __hash__(self):
        return self.hash

    def __richcmp__(self, other, int kind):
        if kind == Py_EQ:
            return self is other if isinstance(other, UOp) else NotImplemented
        if kind == Py_NE:
            # drop-in: != builds a comparison, == is identity
            if other is None or isinstance(other, (str, tuple)) or "__ne__" not in hooks:
                return self is not other
            return relation(self, CMPNE, kind, other, False)
        if kind == Py_LT or kind == Py_GT:
            return relation(self, CMPLT, kind, other, kind == Py_GT)
        return need_hook(ORDER_HOOKS[kind])(self, other)

    def __repr__(self):
        hook = hooks.get("__repr__")
        return plain_repr(self) if hook is None else hook(self)

    def __str__(self):
        hook = hooks.get("__str__")
        return repr(self) if hook is None else hook(self)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        hook = hooks.get("__deepcopy__")
        return self if hook is None else hook(self, memo)

    def replace(self, **fields):
        """The node with some of op, dtype, src, arg, tag changed."""
        cdef object op = fields.pop("op", self.op)
        cdef object dtype = fields.pop("dtype", self.dtype)
        cdef object src = fields.pop("src", self.src)
        cdef object arg = fields.pop("arg", self.arg)
        cdef object tag = fields.pop("tag", self.tag)
        if fields:
            raise AssertionError(f"replace() got unknown fields {sorted(fields)}, expected op, dtype, src, arg or tag")
        return make_node(op, dtype, as_sources(src), arg, tag)

    def rtag(self, tag=True):
        """The node with another tag."""
        return make_node(self.op, self.dtype, self.src, self.arg, tag)

    def __bool__(self):
        hook = hooks.get("__bool__")
        return True if hook is None else hook(self)

    def __int__(self):
        return need_hook("__int__")(self)

    def __float__(self):
        return need_hook("__float__")(self)

    def __index__(self):
        return need_hook("__index__")(self)

    def __getitem__(self, item):
        return need_hook("__getitem__")(self, item)

    def __iter__(self):
        # every index gives a node, so going through them until an IndexError would never end
        raise TypeError(f"cannot iterate over a {self.op} node; go through its sources with .src, or over range(size) by index")

    def __add__(self, other):
        return binary(self, ADD, "add", other, False)

    def __radd__(self, other):
        return binary(self, ADD, "add", other, True)

    def __sub__(self, other):
        return self.sub(other)

    def __rsub__(self, other):
        return self.sub(other, True)

    def __mul__(self, other):
        return binary(self, MUL, "mul", other, False)

    def __rmul__(self, other):
        return binary(self, MUL, "mul", other, True)

    def __truediv__(self, other):
        return self.div(other)

    def __rtruediv__(self, other):
        return self.div(other, True)

    def __floordiv__(self, other):
        return binary(self, IDIV, "idiv", other, False)

    def __rfloordiv__(self, other):
        return binary(self, IDIV, "idiv", other, True)

    def __mod__(self, other):
        return binary(self, MOD, "mod", other, False)

    def __rmod__(self, other):
        return binary(self, MOD, "mod", other, True)

    def __pow__(self, other, modulo):
        return self.pow(other)

    def __rpow__(self, other, modulo):
        hook = hooks.get("__rpow__")
        return self.ufix(other).pow(self) if hook is None else hook(self, other)

    def __and__(self, other):
        return binary(self, AND, "bitwise_and", other, False)

    def __rand__(self, other):
        return binary(self, AND, "bitwise_and", other, True)

    def __or__(self, other):
        return binary(self, OR, "bitwise_or", other, False)

    def __ror__(self, other):
        return binary(self, OR, "bitwise_or", other, True)

    def __xor__(self, other):
        return binary(self, XOR, "bitwise_xor", other, False)

    def __rxor__(self, other):
        return binary(self, XOR, "bitwise_xor", other, True)

    def __lshift__(self, other):
        return binary(self, SHL, "lshift", other, False)

    def __rlshift__(self, other):
        return binary(self, SHL, "lshift", other, True)

    def __rshift__(self, other):
        return binary(self, SHR, "rshift", other, False)

    def __rrshift__(self, other):
        return binary(self, SHR, "rshift", other, True)

    def __neg__(self):
        return self.neg()

    def __invert__(self):
        hook = hooks.get("__invert__")
        return self.logical_not() if hook is None else hook(self)

    def __abs__(self):
        hook = hooks.get("__abs__")
        return self.abs() if hook is None else hook(self)


cdef dict ORDER_HOOKS = {Py_LT: "__lt__", Py_GT: "__gt__", Py_LE: "__le__", Py_GE: "__ge__", Py_NE: "__ne__"}

# The operations behind operators, as places in `operations`; filled by name once Ops is known.
cdef enum:
    ADD, MUL, IDIV, MOD, AND, OR, XOR, SHL, SHR, CMPLT, CMPNE, OPERATORS
cdef tuple OPERATOR_NAMES = ("ADD", "MUL", "IDIV", "MOD", "AND", "OR", "XOR", "SHL", "SHR", "CMPLT", "CMPNE")
cdef int operations[OPERATORS]
cdef binary_form native_binary = NULL


cdef int set_operation(object op) except -1:
    """Notes the number of an operation that an operator stands for."""
    if op.name in OPERATOR_NAMES:
        operations[OPERATOR_NAMES.index(op.name)] = op
    return 0


cdef int set_binary(binary_form fn) except -1:
    """Gives operators their native form; it returns NotImplemented for what the Python method must do."""
    global native_binary
    native_binary = fn
    return 0


cdef object binary(UOp u, int which, str method, object other, bint reverse):
    """An arithmetic operator: natively where that is possible, else by the method."""
    if native_binary is not NULL:
        made = native_binary(u, operations[which], other, reverse)
        if made is not NotImplemented:
            return made
    return getattr(u, method)(other, True) if reverse else getattr(u, method)(other)


cdef object relation(UOp u, int which, int kind, object other, bint reverse):
    if native_binary is not NULL:
        made = native_binary(u, operations[which], other, reverse)
        if made is not NotImplemented:
            return made
    return need_hook(ORDER_HOOKS[kind])(u, other)


cdef object need_hook(str name):
    hook = hooks.get(name)
    if hook is None:
        raise TypeError(f"UOp has no {name} yet: import tinygrad.uop.ops, which installs it")
    return hook


cdef str plain_repr(UOp u):
    """One level of the node, for use before the full renderer is installed."""
    return f"UOp({u.op!r}, {u.dtype!r}, arg={u.arg!r}, src=<{len(u.src)} nodes>)"


cdef tuple as_sources(object src):
    if isinstance(src, tuple):
        return src if type(src) is tuple else tuple(src)
    if isinstance(src, UOp) or not hasattr(src, "__iter__"):
        raise TypeError(f"src of a UOp must be a tuple of UOps, got {src!r}; write src=({src!r},)"
                        if isinstance(src, UOp) else f"src of a UOp must be a tuple of UOps, got {type(src).__name__}")
    return tuple(src)


cdef uint64_t NONE_HASH = 0x51ED27


cdef UOp make_node(object op, object dtype, tuple src, object arg, object tag):
    """The node for these fields: found in the table, or made and entered."""
    global live, made, version
    cdef DTypeInfo info = info_of(dtype)
    cdef Py_ssize_t count = PyTuple_GET_SIZE(src)
    cdef Py_ssize_t i
    cdef long opnum
    cdef uint64_t h, below0 = 0, below1 = 0
    cdef int32_t depth = 0
    cdef PyObject *item
    cdef UOp node
    if not PyLong_Check(op) or PyLong_CheckExact(op):
        raise TypeError(f"op of a UOp must be a member of Ops, got {op!r}")
    opnum = PyLong_AsLong(op)
    if opnum < 0 or opnum > 127:
        raise TypeError(f"op of a UOp must have a value in 0..127, got {op!r}")
    h = mix(<uint64_t>opnum + 1, info.stable_hash)
    for i in range(count):
        item = PyTuple_GET_ITEM_RAW(src, i)
        if not isinstance(<object>item, UOp):
            raise TypeError(f"src of a UOp must hold only UOps, got {<object>item!r} at index {i} of {op!r}; "
                            "make constants with UOp.const")
        h = mix(h, <uint64_t>(<UOp>item).hash)
        if (<UOp>item).opnum < 64:
            below0 |= <uint64_t>1 << (<UOp>item).opnum
        else:
            below1 |= <uint64_t>1 << ((<UOp>item).opnum - 64)
        if (<UOp>item).depth > depth:
            depth = (<UOp>item).depth
    h = mix(h, NONE_HASH if arg is None else stable_hash(arg))
    if tag is not None:
        h = mix(h ^ 0x7A6, stable_hash(tag))
    if <Py_hash_t>h == -1:
        h = 2
    node = find_node(op, info, src, arg, tag, <Py_hash_t>h)
    if node is not None:
        return node
    if live >= table_size:
        resize_table(table_size * 2)
    node = UOp.__new__(UOp)
    node.op = op
    node.dtype = info.dtype
    node.info = <PyObject *>info
    node.src = src
    node.arg = arg
    node.tag = tag
    node.hash = <Py_hash_t>h
    node.opnum = opnum
    node.depth = depth + 1 if depth < 0x7FFFFFFF else depth
    node.below0 = below0
    node.below1 = below1
    if count and PyObject_GC_IsTracked(<PyObject *>src):
        # Nodes are not collected, so a tuple of nodes cannot be part of a cycle.
        PyObject_GC_UnTrack(<void *>src)
    node.chain = table[<size_t>h & <size_t>(table_size - 1)]
    table[<size_t>h & <size_t>(table_size - 1)] = <PyObject *>node
    node.flags |= 1
    live += 1
    made += 1
    version += 1
    return node


cdef UOp find_node(object op, DTypeInfo info, tuple src, object arg, object tag, Py_hash_t h):
    """The live node with these fields, or None. Starts over when comparing arguments changed the table."""
    cdef PyObject *at = table[<size_t>h & <size_t>(table_size - 1)]
    cdef UOp other
    cdef uint64_t seen = version
    cdef Py_ssize_t count = PyTuple_GET_SIZE(src), i
    cdef bint same, quiet = tag is None and (arg is None or plain(arg))
    while at is not NULL:
        if (<UOp>at).hash == h and (<UOp>at).op is op and (<UOp>at).info is <PyObject *>info:
            if Py_REFCNT(at) == 0:
                # its weak references are being cleared: it must not be revived
                at = (<UOp>at).chain
                continue
            other = <UOp>at
            same = PyTuple_GET_SIZE(other.src) == count
            if same and other.src is not src:
                for i in range(count):
                    if PyTuple_GET_ITEM_RAW(other.src, i) is not PyTuple_GET_ITEM_RAW(src, i):
                        same = False
                        break
            if (same and (other.arg is arg or same_value(other.arg, arg))
                    and (other.tag is tag or same_value(other.tag, tag))):
                return other
            if not quiet and version != seen:
                at = table[<size_t>h & <size_t>(table_size - 1)]
                seen = version
                continue
        at = (<UOp>at).chain
    return None


# ---------------------------------------------------------------------------------------------- type set-up

cdef tuple SLOT_NAMES = ("__repr__", "__str__", "__bool__", "__int__", "__float__", "__index__", "__getitem__", "__lt__",
                         "__gt__", "__le__", "__ge__", "__ne__", "__rpow__", "__invert__", "__abs__")


# Methods that have a native form: the Python form is kept here, for what the native one leaves to it.
python_forms = {}
cdef set native_names = set()


cdef object python_form(str name):
    """The Python form of a native method."""
    form = python_forms.get(name)
    if form is None:
        raise TypeError(f"UOp.{name} has no Python form yet: import tinygrad.uop.ops, which installs it")
    return form


def install(type target, source, bint native=False):
    """Copies the attributes of a class body (functions, properties, static methods) into the node type.

    Special methods that have a type slot are recorded as hooks; arithmetic ones stay native and call `add`, `mul`, ... where
    they need to. A method that the core has natively goes to `python_forms` instead of replacing it.
    """
    if target is not UOp:
        raise TypeError(f"install() extends UOp only, got {target!r}")
    cdef PyTypeObject *raw = <PyTypeObject *>UOp
    for name, value in list(vars(source).items()):
        if name in SLOT_NAMES:
            hooks[name] = value
        elif name in native_names:
            python_forms[name] = getattr(value, "__func__", value)
        elif name == "__reduce__" or not (name.startswith("__") and name.endswith("__")):
            PyDict_SetItem(<object>raw.tp_dict, name, value)
            if native:
                native_names.add(name)
    PyType_Modified(raw)
    return UOp


def set_hook(str name, fn):
    """Gives the core a function of a higher layer, by name."""
    hooks[name] = fn


def get_hook(str name):
    """The function set with `set_hook`, or None."""
    return hooks.get(name)


def live_nodes():
    """How many nodes exist now."""
    return live


def made_nodes():
    """How many nodes were made since the start."""
    return made


def check_table():
    """Verifies the table: every node hangs in the chain of its hash, exactly once. Raises AssertionError. For tests."""
    cdef Py_ssize_t i, found = 0
    cdef PyObject *at
    for i in range(table_size):
        at = table[i]
        while at is not NULL:
            found += 1
            if (<size_t>(<UOp>at).hash & <size_t>(table_size - 1)) != <size_t>i:
                raise AssertionError(f"node {<object>at!r} hangs in the wrong chain")
            if Py_REFCNT(at) <= 0:
                raise AssertionError("the table holds a dead node")
            if found > live:
                raise AssertionError("the table holds more nodes than are alive, or a chain is circular")
            at = (<UOp>at).chain
    if found != live:
        raise AssertionError(f"the table holds {found} nodes, {live} are alive")


cdef object build(object op, object dtype, object src, object arg, object tag):
    if dtype is None:
        dtype = need_default().dtype
    return make_node(op, dtype, src if type(src) is tuple else as_sources(src), arg, tag)


cdef object construct(PyObject *kind, PyObject **args, size_t nargsf, PyObject *names):
    """The call `UOp(...)`."""
    cdef PyObject *field[5]
    cdef Py_ssize_t given = PyVectorcall_NARGS(nargsf), i, at
    for i in range(5):
        field[i] = NULL
    if given > 5:
        raise TypeError(f"UOp() takes at most 5 arguments (op, dtype, src, arg, tag), got {given}")
    for i in range(given):
        field[i] = args[i]
    if names is not NULL:
        for i in range(PyTuple_GET_SIZE(<object>names)):
            name = <object>PyTuple_GET_ITEM_RAW(<object>names, i)
            at = field_number(name)
            if field[at] is not NULL:
                raise TypeError(f"UOp() got {name!r} twice")
            field[at] = args[given + i]
    if field[0] is NULL:
        raise TypeError("UOp() needs an op as its first argument")
    return build(<object>field[0], <object>field[1] if field[1] is not NULL else None,
                 <object>field[2] if field[2] is not NULL else (), <object>field[3] if field[3] is not NULL else None,
                 <object>field[4] if field[4] is not NULL else None)


cdef Py_ssize_t field_number(object name) except -1:
    if name == "arg":
        return 3
    if name == "src":
        return 2
    if name == "dtype":
        return 1
    if name == "tag":
        return 4
    if name == "op":
        return 0
    raise TypeError(f"UOp() got an unknown field {name!r}, expected op, dtype, src, arg or tag")


cdef object construct_slow(PyObject *kind, PyObject *args, PyObject *names):
    """`UOp.__new__(UOp, ...)`: the same as the call."""
    return construct_any(*<tuple>args, **(<dict>names if names is not NULL else {}))


def construct_any(op, dtype=None, src=(), arg=None, tag=None):
    """The node for these fields; the same as calling UOp."""
    return build(op, dtype, src, arg, tag)


cdef Py_ssize_t offset_of(UOp probe, object marker) except -1:
    """Where in the node the field holding the marker lies (Cython gives no offsetof for object fields)."""
    cdef PyObject **word = <PyObject **><PyObject *>probe
    cdef Py_ssize_t i
    for i in range(2, 24):
        if word[i] is <PyObject *>marker:
            return i * <Py_ssize_t>sizeof(PyObject *)
    raise SystemError("the node layout has changed: no field holds the marker")


cdef int set_up() except -1:
    cdef PyTypeObject *raw = <PyTypeObject *>UOp
    cdef UOp probe = UOp.__new__(UOp)
    cdef list markers = [object(), object(), (object(),), object(), object()]
    cdef Py_ssize_t i
    set_node_type(UOp)
    resize_table(1 << 14)
    probe.op, probe.dtype, probe.src, probe.arg, probe.tag = markers
    for i in range(5):
        node_add_field(raw, i, offset_of(probe, markers[i]))
    raw.tp_vectorcall = <void *>construct
    raw.tp_new = <void *>construct_slow
    PyType_Modified(raw)
    return 0


set_up()
