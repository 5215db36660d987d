# cython: language_level=3
"""Patterns compiled to rows of instructions.

In: a pattern, read through its attributes (so this module does not import the pattern class). Out: a `Program` over registers: names first,
then one register per pattern node. Registers hold borrowed nodes. Made once per rule by match.pyx, which runs it.
"""
import itertools

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from tinygrad._core.values cimport DTypeInfo, info_of

KINDS = ("CHECK", "PERMUTE", "BRANCH", "JUMP", "EACH", "ACCEPT", "START")


cdef class Program:
    """The instructions of one pattern.

    Attributes read from a pattern: op (tuple or None), dtype (tuple or None), arg, name, is_any, sources (tuple of
    patterns or None), source_mode ("ordered", "permuted", "every"), allow_any_len.
    """

    def __init__(self, pattern, str title):
        self.names = {}
        self.keep = []
        self.title = title
        self.collect_names(pattern)
        self.node(pattern, -1, 0, self.register())
        self.emit(ACCEPT)

    def __dealloc__(self):
        cdef int i
        for i in range(self.length):
            free(self.items[i].dtypes)
            free(self.items[i].table)
            free(self.items[i].hints)
        free(self.items)

    def listing(self):
        """The program as text, one instruction a line."""
        cdef list lines = []
        cdef int i
        cdef Instruction *ins
        for i in range(self.length):
            ins = &self.items[i]
            lines.append(f"{i:3d} {KINDS[ins.kind]:8s} reg={ins.reg} from={ins.parent}[{ins.position}] count={ins.count} "
                         f"name={ins.name} choices={ins.choices} target={ins.target}")
        return "\n".join(lines)

    cdef int register(self) except -1:
        self.registers += 1
        if self.registers > MAX_REGISTERS:
            raise ValueError(f"pattern of rule {self.title} is too large: more than {MAX_REGISTERS} nodes")
        return self.registers - 1

    cdef int emit(self, int kind) except -1:
        cdef Instruction *bigger
        cdef Instruction *made
        if self.length == self.size:
            self.size = self.size * 2 + 8
            bigger = <Instruction *>realloc(self.items, self.size * sizeof(Instruction))
            if bigger is NULL:
                raise MemoryError("no memory for a rule")
            self.items = bigger
        made = &self.items[self.length]
        memset(made, 0, sizeof(Instruction))
        made.kind = kind
        made.reg = made.parent = made.count = made.name = -1
        self.length += 1
        return self.length - 1

    cdef int collect_names(self, object pattern) except -1:
        if pattern.name is not None and pattern.name not in self.names:
            self.names[pattern.name] = self.register()
        for child in pattern.sources or ():
            self.collect_names(child)
        return 0

    cdef int node(self, object pattern, int parent, int position, int reg) except -1:
        """Code that matches one node: source `position` of register `parent`, or what `reg` holds."""
        cdef int at, i
        cdef tuple kids = pattern.sources
        at = self.emit(CHECK)
        self.items[at].reg = reg
        self.items[at].parent = parent
        self.items[at].position = position
        if pattern.name is not None:
            self.items[at].name = self.names[pattern.name]
        give_hint(pattern, &self.items[at].hint)
        if pattern.is_any:
            self.alternatives(kids, reg)
            return 0
        self.tests(pattern, at)
        if kids is None:
            return 0
        if pattern.source_mode == "every":
            self.every(kids[0], reg)
            return 0
        self.items[at].count = len(kids)
        self.items[at].at_least = 1 if pattern.allow_any_len else 0
        if pattern.source_mode == "permuted" and len(kids) > 1:
            self.permuted(kids, reg)
            return 0
        for i in range(len(kids)):
            self.node(kids[i], reg, i, self.register())
        return 0

    cdef int tests(self, object pattern, int at) except -1:
        """Fills in what a CHECK compares besides the number of sources."""
        cdef Instruction *ins = &self.items[at]
        cdef int i
        cdef DTypeInfo info
        if pattern.dtype is not None:
            wanted = tuple(pattern.dtype)
            ins.has_dtypes = max(len(wanted), 1)
            ins.dtypes = <PyObject **>calloc(ins.has_dtypes, sizeof(PyObject *))
            for i in range(len(wanted)):
                info = info_of(wanted[i])
                ins.dtypes[i] = <PyObject *>info.dtype
        if pattern.arg is not None:
            self.keep.append(pattern.arg)
            ins.arg = <PyObject *>pattern.arg
        return 0

    cdef int alternatives(self, tuple kids, int reg) except -1:
        cdef int branch = self.emit(BRANCH), i, end
        cdef list leaves = []
        cdef int *places = <int *>calloc(max(len(kids), 1), sizeof(int))
        self.items[branch].reg = reg
        self.items[branch].choices = len(kids)
        self.items[branch].table = places
        for i in range(len(kids)):
            places[i] = self.length
            self.node(kids[i], -1, 0, reg)
            leaves.append(self.emit(JUMP))
        end = self.length
        for i in leaves:
            self.items[i].target = end
        return 0

    cdef int permuted(self, tuple kids, int reg) except -1:
        cdef int at = self.emit(PERMUTE), i, j, n = len(kids), base
        cdef list orders = list(itertools.permutations(range(n)))
        cdef Instruction *ins
        if all(alike(kids[0], k) for k in kids[1:]):
            orders = orders[:1]
        base = self.registers
        for i in range(n):
            self.register()
        ins = &self.items[at]
        ins.reg, ins.count, ins.choices, ins.base = reg, n, len(orders), base
        ins.table = <int *>calloc(len(orders) * n, sizeof(int))
        ins.hints = <Hint *>calloc(n, sizeof(Hint))
        for i in range(len(orders)):
            # orders[i][place] says which pattern meets the source at that place
            for j in range(n):
                ins.table[i * n + <int>orders[i][j]] = j
        for i in range(n):
            give_hint(kids[i], &ins.hints[i])
        for i in range(n):
            self.node(kids[i], -1, 0, base + i)
        return 0

    cdef int every(self, object kid, int reg) except -1:
        cdef int counter = self.register(), child = self.register(), start, loop, back
        start = self.emit(START)
        self.items[start].reg = counter
        loop = self.emit(EACH)
        self.items[loop].reg = child
        self.items[loop].parent = reg
        self.items[loop].base = counter
        self.node(kid, -1, 0, child)
        back = self.emit(JUMP)
        self.items[back].target = loop
        self.items[loop].target = self.length
        return 0


cdef int give_hint(object pattern, Hint *hint) except -1:
    """Fills in the hint of a pattern; nothing is known of alternatives."""
    hint.needs = 0
    hint.ops0 = hint.ops1 = ~<uint64_t>0
    if pattern.is_any:
        return 0
    if pattern.op is not None:
        hint.ops0 = hint.ops1 = 0
        for op in pattern.op:
            add_op(&hint.ops0, &hint.ops1, op)
    if pattern.sources is None or pattern.source_mode == "every":
        return 0
    for kid in pattern.sources:
        if kid.op is not None and not kid.is_any and hint.needs < 4:
            hint.need0[hint.needs] = hint.need1[hint.needs] = 0
            for op in kid.op:
                add_op(&hint.need0[hint.needs], &hint.need1[hint.needs], op)
            hint.needs += 1
    return 0


cdef bint alike(object a, object b):
    """Whether two patterns are the same test and capture nothing, so that their order does not matter."""
    if a is b:
        return a.name is None or a.sources is None
    if a.name is not None or b.name is not None or a.sources is not None or b.sources is not None:
        return False
    return a.op == b.op and a.dtype == b.dtype and a.arg is None and b.arg is None


def root_ops(pattern):
    """Operations the root may have; None means any."""
    if pattern.is_any:
        out = set()
        for kid in pattern.sources:
            below = root_ops(kid)
            if below is None:
                return None
            out |= set(below)
        return out
    return pattern.op
