# cython: language_level=3
"""Rules and their matching.

In: rules `(UPat, function)`. Out: `PatternMatcher.rewrite(node, ctx)`, the first result that is not None, or None. A small backtracking
machine runs the programs that pattern.pyx makes: a commutative list or an `any` leaves a choice point to which a later
mismatch, or a rule that answers None, returns. It runs no Python before it has a whole match, except `==` of unusual arguments.
"""
import inspect
import types

from cpython.object cimport PyObject, PyObject_RichCompareBool, Py_EQ
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from tinygrad._core.node cimport UOp
from tinygrad._core.pattern cimport (
    ACCEPT,
    BRANCH,
    CHECK,
    EACH,
    JUMP,
    MAX_REGISTERS,
    PERMUTE,
    START,
    Instruction,
    Program,
    add_op,
    has_op,
    promising,
)
from tinygrad._core.values cimport DTypeInfo

from tinygrad._core.pattern import root_ops

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    object PyObject_Vectorcall(object, PyObject **, size_t, PyObject *)

cdef enum:
    INLINE_CHOICES = 32
    INLINE_TRAIL = 64


class BottomUpGate(Exception):
    """Raised by a rule tried on the way down: the node stays as it is and its sources are not visited."""


cdef dict native_places = {}
cdef native_body native_bodies[16]


cdef int set_native_body(str rule_name, native_body fn) except -1:
    """Registers the native form of the function of a named rule that captures only its root.

    It answers NotImplemented where the Python function must be asked.
    """
    place = native_places.setdefault(rule_name, len(native_places))
    native_bodies[<int>place] = fn
    return 0


cdef class Rule:
    """A pattern with its function, compiled. `title` names it in messages."""

    def __cinit__(self):
        self.native = NULL
        self.keep = []
        self.defaults = []

    def __dealloc__(self):
        free(self.sources)

    def __init__(self, pattern, function):
        self.pattern = pattern
        self.function = types.FunctionType(*function) if isinstance(function, tuple) else function
        self.location = tuple(getattr(pattern, "location", None) or ("?", 0))
        self.title = getattr(self.function, "rule_name", None) or getattr(self.function, "__name__", "rule")
        self.code = Program(pattern, self.title)
        self.program = self.code.items
        self.names = tuple(self.code.names)
        self.name_count = len(self.names)
        self.set_roots(pattern)
        self.set_needs(pattern)
        self.set_parameters(self.code.names)

    def __repr__(self):
        return f"<rule {self.title} ({self.location[0]}:{self.location[1]})>"

    def rewrite(self, UOp uop not None, ctx=None):
        """The result of this rule alone on a node, or None."""
        if not has_op(self.root0, self.root1, uop.opnum):
            return None
        if (self.need0 & ~uop.below0) or (self.need1 & ~uop.below1):
            return None
        return try_rule(self, uop, ctx)

    def listing(self):
        """The program as text, one instruction a line."""
        return self.code.listing()

    cdef int set_roots(self, object pattern) except -1:
        roots = root_ops(pattern)
        if roots is None:
            self.root0 = self.root1 = ~<uint64_t>0
        else:
            for op in roots:
                add_op(&self.root0, &self.root1, op)
        return 0

    cdef int set_needs(self, object pattern) except -1:
        """Operations that must occur among the sources of the root for the rule to have a chance."""
        needed = getattr(pattern, "custom_early_reject", None)
        if needed is None:
            needed = set()
            if not pattern.is_any:
                for kid in pattern.sources or ():
                    if kid.op is not None and not kid.is_any and len(kid.op) == 1:
                        needed.update(kid.op)
        for op in needed:
            add_op(&self.need0, &self.need1, op)
        return 0

    cdef int set_parameters(self, dict registers) except -1:
        """Maps the captured names to the parameters of the function, once."""
        cdef list sources = [], keywords = []
        cdef int i
        self.call = self.function
        parameters = plain_parameters(self.function)
        if parameters is None:
            try:
                parameters = list(inspect.signature(self.function).parameters.values())
            except (TypeError, ValueError):
                self.loose = True
                parameters = []
        for p in parameters:
            if p.kind is p.VAR_KEYWORD:
                self.loose = True
                continue
            if p.kind is p.VAR_POSITIONAL:
                continue
            if p.kind is p.KEYWORD_ONLY:
                keywords.append(p.name)
            if p.name == "ctx":
                sources.append(-1)
            elif p.name in registers:
                sources.append(registers[p.name])
            elif p.default is not p.empty:
                sources.append(-2)
            else:
                raise TypeError(f"function of rule {self.title} ({self.location[0]}:{self.location[1]}) takes {p.name!r}, "
                                f"which the pattern does not capture (it captures {sorted(registers)}): name a pattern so, "
                                "or give the parameter a default")
            self.defaults.append(None if p.default is p.empty else p.default)
            self.keep.append(p.default is not p.empty)
        self.parameters = len(sources)
        if len(registers) == 1 and len(sources) == 1 and sources[0] == 0 and self.pattern.name is not None:
            self.set_native()
        self.sources = <int *>calloc(max(self.parameters, 1), sizeof(int))
        for i in range(self.parameters):
            self.sources[i] = sources[i]
        self.keyword_names = tuple(keywords)
        return 0

    cdef bint takes_context(self):
        cdef int i
        for i in range(self.parameters):
            if self.sources[i] == -1:
                return True
        return self.loose

    cdef int set_native(self) except -1:
        """Takes the native body registered for a named rule of a single captured root."""
        cdef object place = native_places.get(getattr(self.function, "rule_name", None))
        if place is not None and self.pattern.sources is None:
            self.native = native_bodies[<int>place]
        return 0

    cdef object invoke(self, PyObject **regs, object ctx):
        """Calls the function with the captured nodes."""
        cdef PyObject *args[MAX_REGISTERS + 2]
        cdef int i, s
        cdef Py_ssize_t positional = self.parameters - len(self.keyword_names)
        if self.loose:
            return self.invoke_loose(regs, ctx)
        for i in range(self.parameters):
            s = self.sources[i]
            if s == -1:
                args[i] = <PyObject *>ctx
            elif s >= 0 and regs[s] is not NULL:
                args[i] = regs[s]
            else:
                args[i] = <PyObject *>self.defaults[i]
        return PyObject_Vectorcall(self.call, args, positional,
                                   <PyObject *>self.keyword_names if positional != self.parameters else NULL)

    cdef object invoke_loose(self, PyObject **regs, object ctx):
        cdef dict found = {}
        cdef int i
        for i in range(len(self.names)):
            if regs[i] is not NULL:
                found[self.names[i]] = <object>regs[i]
        for i in range(self.parameters):
            if self.sources[i] == -1:
                found["ctx"] = ctx
        return self.call(**found)


class _Parameter:
    """What `set_parameters` reads of an inspect.Parameter, at a tenth of the cost."""

    __slots__ = ("name", "default")
    empty, VAR_KEYWORD, VAR_POSITIONAL, KEYWORD_ONLY, kind = object(), 1, 2, 3, 0

    def __init__(self, name, default):
        self.name = name
        self.default = default


cdef Rule rule_of_pair(object pair):
    """The rule for (pattern, function), which users write by hand."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"a rule is a pair (UPat, function), got {pair!r}")
    pattern, function = pair
    if isinstance(pattern, UOp) or not hasattr(pattern, "name"):
        raise TypeError(f"a rule is a pair (UPat, function), got {type(pattern).__name__} in place of the UPat")
    if not callable(function) and not isinstance(function, tuple):
        raise TypeError(f"a rule is a pair (UPat, function), got {type(function).__name__} {function!r} in place of the function")
    return Rule(pattern, function)


cdef object plain_parameters(object function):
    """The parameters of an ordinary function without * and **, None for anything else."""
    if type(function) is not types.FunctionType or hasattr(function, "__wrapped__"):
        return None
    code = function.__code__
    if code.co_flags & 0x0C or code.co_kwonlyargcount:
        return None
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    missing = (_Parameter.empty,) * (len(names) - len(defaults))
    return [_Parameter(n, d) for n, d in zip(names, missing + tuple(defaults))]


# ---------------------------------------------------------------------------------------------- the machine

cdef struct Choice:
    int place
    int option
    int trail


cdef struct Undo:
    int reg
    PyObject *old


cdef struct Machine:
    PyObject *regs[MAX_REGISTERS + 1]
    Choice *choices
    int choice_count
    int choice_size
    Undo *trail
    int trail_count
    int trail_size
    Choice few_choices[INLINE_CHOICES]
    Undo short_trail[INLINE_TRAIL]


cdef int grow_choices(Machine *m) except -1:
    cdef Choice *bigger = <Choice *>malloc(m.choice_size * 2 * sizeof(Choice))
    if bigger is NULL:
        raise MemoryError("no memory for matching")
    memcpy(bigger, m.choices, m.choice_count * sizeof(Choice))
    if m.choices is not &m.few_choices[0]:
        free(m.choices)
    m.choices = bigger
    m.choice_size *= 2
    return 0


cdef int grow_trail(Machine *m) except -1:
    cdef Undo *bigger = <Undo *>malloc(m.trail_size * 2 * sizeof(Undo))
    if bigger is NULL:
        raise MemoryError("no memory for matching")
    memcpy(bigger, m.trail, m.trail_count * sizeof(Undo))
    if m.trail is not &m.short_trail[0]:
        free(m.trail)
    m.trail = bigger
    m.trail_size *= 2
    return 0


cdef inline int write(Machine *m, int reg, PyObject *value) except -1:
    """Sets a register so that backtracking restores it."""
    if m.choice_count:
        if m.trail_count == m.trail_size:
            grow_trail(m)
        m.trail[m.trail_count].reg = reg
        m.trail[m.trail_count].old = m.regs[reg]
        m.trail_count += 1
    m.regs[reg] = value
    return 0


cdef bint arg_differs(object have, object want) except -1:
    return not PyObject_RichCompareBool(have, want, Py_EQ)


cdef inline bint check(Instruction *ins, UOp u) except -1:
    """The tests of one pattern node that do not look at the sources."""
    cdef int i
    cdef PyObject *scalar
    if not promising(&ins.hint, u):
        return False
    if ins.count >= 0:
        if ins.at_least:
            if PyTuple_GET_SIZE(u.src) < ins.count:
                return False
        elif PyTuple_GET_SIZE(u.src) != ins.count:
            return False
    if ins.has_dtypes:
        scalar = <PyObject *>(<DTypeInfo>u.info).scalar
        for i in range(ins.has_dtypes):
            if ins.dtypes[i] is <PyObject *>u.dtype or ins.dtypes[i] is scalar:
                break
        else:
            return False
    if ins.arg is not NULL and ins.arg is not <PyObject *>u.arg and arg_differs(u.arg, <object>ins.arg):
        return False
    return True


cdef int next_order(Instruction *ins, UOp u, int option) noexcept:
    """The first order from `option` on whose operations fit; -1 when there is none."""
    cdef int i, place
    cdef bint fits
    while option < ins.choices:
        fits = True
        for i in range(ins.count):
            place = ins.table[option * ins.count + i]
            if not promising(&ins.hints[i], <UOp>PyTuple_GET_ITEM_RAW(u.src, place)):
                fits = False
                break
        if fits:
            return option
        option += 1
    return -1


cdef int leave_choice(Machine *m, int place, int option) except -1:
    if m.choice_count == m.choice_size:
        grow_choices(m)
    m.choices[m.choice_count].place = place
    m.choices[m.choice_count].option = option
    m.choices[m.choice_count].trail = m.trail_count
    m.choice_count += 1
    return 0


cdef int execute(Machine *m, Rule rule, int place, int option) except -2:
    """Runs from an instruction until the pattern is accepted (1) or no alternative is left (0).

    `option` is the alternative to take when the first instruction is a choice.
    """
    cdef Instruction *ins
    cdef PyObject *node
    cdef UOp parent
    cdef int i, after
    cdef bint good
    cdef size_t counter
    while True:
        ins = &rule.program[place]
        good = True
        if ins.kind == CHECK:
            if ins.parent >= 0:
                node = PyTuple_GET_ITEM_RAW((<UOp>m.regs[ins.parent]).src, ins.position)
                write(m, ins.reg, node)
            else:
                node = m.regs[ins.reg]
            if not check(ins, <UOp>node):
                good = False
            elif ins.name >= 0:
                if m.regs[ins.name] is NULL:
                    write(m, ins.name, node)
                elif m.regs[ins.name] is not node:
                    good = False
            place += 1
        elif ins.kind == PERMUTE:
            parent = <UOp>m.regs[ins.reg]
            option = next_order(ins, parent, option)
            if option < 0:
                good = False
            else:
                after = next_order(ins, parent, option + 1)
                if after >= 0:
                    leave_choice(m, place, after)
                for i in range(ins.count):
                    write(m, ins.base + i, PyTuple_GET_ITEM_RAW(parent.src, ins.table[option * ins.count + i]))
                place += 1
            option = 0
        elif ins.kind == BRANCH:
            if option >= ins.choices:
                good = False
            else:
                if option + 1 < ins.choices:
                    leave_choice(m, place, option + 1)
                place = ins.table[option]
            option = 0
        elif ins.kind == JUMP:
            place = ins.target
        elif ins.kind == START:
            write(m, ins.reg, NULL)
            place += 1
        elif ins.kind == EACH:
            counter = <size_t>m.regs[ins.base]
            parent = <UOp>m.regs[ins.parent]
            if counter < <size_t>PyTuple_GET_SIZE(parent.src):
                write(m, ins.reg, PyTuple_GET_ITEM_RAW(parent.src, counter))
                write(m, ins.base, <PyObject *>(counter + 1))
                place += 1
            else:
                place = ins.target
        else:
            return 1
        if not good:
            place = backtrack(m, &option)
            if place < 0:
                return 0


cdef int backtrack(Machine *m, int *option) noexcept:
    """Undoes everything since the last choice and says where to go on; -1 when there is no choice left."""
    cdef Choice *last
    if m.choice_count == 0:
        return -1
    m.choice_count -= 1
    last = &m.choices[m.choice_count]
    while m.trail_count > last.trail:
        m.trail_count -= 1
        m.regs[m.trail[m.trail_count].reg] = m.trail[m.trail_count].old
    option[0] = last.option
    return last.place


cdef object try_rule(Rule rule, UOp u, object ctx):
    """The result of one rule on one node: every way to match is tried until the function answers."""
    cdef Machine m
    cdef int place = 0, option = 0, names = rule.name_count
    m.choices = &m.few_choices[0]
    m.choice_count = 0
    m.choice_size = INLINE_CHOICES
    m.trail = &m.short_trail[0]
    m.trail_count = 0
    m.trail_size = INLINE_TRAIL
    memset(&m.regs[0], 0, names * sizeof(PyObject *))
    m.regs[names] = <PyObject *>u
    try:
        while execute(&m, rule, place, option):
            result = call_rule(rule, &m.regs[0], ctx, u)
            if result is not None:
                return result
            place = backtrack(&m, &option)
            if place < 0:
                return None
        return None
    finally:
        if m.choices is not &m.few_choices[0]:
            free(m.choices)
        if m.trail is not &m.short_trail[0]:
            free(m.trail)


cdef object call_rule(Rule rule, PyObject **regs, object ctx, UOp u):
    try:
        return rule.invoke(regs, ctx)
    except BottomUpGate:
        raise
    except Exception as error:
        if len(getattr(error, "__notes__", ())) < 8:
            error.add_note(f"in rule {rule.title} ({rule.location[0]}:{rule.location[1]}) on a {u.op} node")
        raise


cdef Rule fired = None


cdef PyObject *last_rule() noexcept:
    """The rule that gave the last result (for messages)."""
    return <PyObject *>fired


def fired_rule():
    """The rule that gave the last result of any matcher, None before the first; traces name it."""
    return fired


cdef object match_node(PatternMatcher pm, UOp u, object ctx):
    global fired, tried, changed
    cdef int i
    cdef Rule rule
    cdef PyObject **rules
    if not pm.indexed:
        pm.make_index()
    rules = pm.by_op[u.opnum]
    for i in range(pm.by_op_count[u.opnum]):
        rule = <Rule>rules[i]
        if (rule.need0 & ~u.below0) or (rule.need1 & ~u.below1):
            continue
        tried += 1
        if not check(&rule.program[0], u):
            continue
        if rule.native is not NULL:
            result = rule.native(u)
            if result is NotImplemented:
                result = try_rule(rule, u, ctx)
        else:
            result = try_rule(rule, u, ctx)
        if result is not None:
            fired = rule
            changed += 1
            return result
    return None


# Patterns tried and results given since the start, by all matchers.
cdef uint64_t tried = 0, changed = 0


def match_counts():
    """How many patterns were tried on nodes, and how many rules gave a result, since the start."""
    return tried, changed


cdef object apply_rules(object pm, UOp u, object ctx):
    """The rewrite of any matcher, also of a subclass that overrides it in Python."""
    if type(pm) is PatternMatcher:
        return match_node(<PatternMatcher>pm, u, ctx)
    return pm.rewrite(u, ctx)


# Sets of pure rules are numbered, so that a node can note which of them leave its graph as it is.
cdef int pure_sets = 0


cdef uint64_t pure_set(list rules) except? 0:
    """A bit of its own for a set of rules whose results depend on the node alone, 0 for any other set.

    Rules made by the rule helper (they carry a rule_name) are pure unless they take ctx or close over something.
    """
    global pure_sets
    cdef Rule rule
    if pure_sets >= 63 or not rules:
        return 0
    for rule in rules:
        if not hasattr(rule.function, "rule_name") or rule.takes_context():
            return 0
        if getattr(rule.function, "__closure__", None) is not None:
            return 0
    pure_sets += 1
    return <uint64_t>1 << (pure_sets - 1)


cdef uint64_t joined(PatternMatcher a, PatternMatcher b) noexcept:
    """The bits of a sum of rule sets: 0 when a part is not pure."""
    if (a.pure or not a.rules) and (b.pure or not b.rules):
        return a.pure | b.pure
    return 0


cdef class PatternMatcher:
    """An ordered list of rules `(UPat, function)`; `a + b` tries the rules of a first.

    A function takes the captured names as parameters, and `ctx` if it has one, and returns a result or None (no match).
    """

    def __cinit__(self, *args, **kwargs):
        memset(&self.by_op[0], 0, sizeof(self.by_op))
        memset(&self.by_op_count[0], 0, sizeof(self.by_op_count))

    def __dealloc__(self):
        cdef int i
        for i in range(128):
            free(self.by_op[i])

    def __init__(self, patterns, compiled=True):
        cdef list rules = []
        for entry in patterns:
            rules.append(entry if isinstance(entry, Rule) else rule_of_pair(entry))
        self.rules = rules
        self.pure = pure_set(rules) if type(self) is PatternMatcher else 0

    @property
    def patterns(self):
        """The rules as the pairs they were made from."""
        return [((<Rule>r).pattern, (<Rule>r).function) for r in self.rules]

    cdef int make_index(self) except -1:
        cdef int op, n
        cdef Rule rule
        for op in range(128):
            n = 0
            for rule in self.rules:
                n += has_op(rule.root0, rule.root1, op)
            if n == 0:
                continue
            self.by_op[op] = <PyObject **>calloc(n, sizeof(PyObject *))
            if self.by_op[op] is NULL:
                raise MemoryError("no memory for rules")
            for rule in self.rules:
                if has_op(rule.root0, rule.root1, op):
                    self.by_op[op][self.by_op_count[op]] = <PyObject *>rule
                    self.by_op_count[op] += 1
        self.indexed = True
        return 0

    def rewrite(self, UOp uop not None, ctx=None):
        """The first result of a rule that is not None, or None."""
        return match_node(self, uop, ctx)

    def __add__(self, other):
        cdef PatternMatcher both
        if not isinstance(self, PatternMatcher) or not isinstance(other, PatternMatcher):
            return NotImplemented
        if type(self) is not PatternMatcher:
            return type(self)((<PatternMatcher>self).rules + (<PatternMatcher>other).rules)
        both = PatternMatcher(())
        both.rules = (<PatternMatcher>self).rules + (<PatternMatcher>other).rules
        if type(other) is PatternMatcher:
            both.pure = joined((<PatternMatcher>self), <PatternMatcher>other)
        return both

    def __len__(self):
        return len(self.rules)

    def __reduce__(self):
        return type(self), (self.patterns,)


def match_all(pattern, UOp uop not None, dict store):
    """Every way the pattern matches the node, as dictionaries of captures that extend `store`."""
    cdef list out = []

    def note(**captures):
        out.append({**store, **captures})

    cdef Rule rule = Rule(pattern, note)
    if has_op(rule.root0, rule.root1, uop.opnum):
        try_rule(rule, uop, None)
    return [m for m in out if all(store[k] is m[k] for k in store)]
