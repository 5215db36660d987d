# cython: language_level=3
"""The rewrite engine.

In: a node, a matcher tried when the sources of a node are done (`pm`), a matcher tried before them (`bpm`), a context for the
rules. Out: the rewritten node. A node is visited once, when its sources are done; what a rule returns is visited in turn until
nothing changes. Iterative: the depth of the graph does not matter. Nothing is kept between calls.
"""
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc

from tinygrad._core.match cimport PatternMatcher, apply_rules, last_rule
from tinygrad._core.node cimport UOp, make_node
from tinygrad._core.walk cimport postorder

from tinygrad._core.match import BottomUpGate
from tinygrad._core.node import check_table

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM_RAW "PyTuple_GET_ITEM" (object, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(object)
    object PyTuple_New(Py_ssize_t)
    void PyTuple_SET_ITEM_RAW "PyTuple_SET_ITEM" (object, Py_ssize_t, PyObject *)
    void Py_XDECREF(PyObject *)

cdef extern from *:
    """
    #ifdef CORE_DEBUG
    #define core_debug 1
    #else
    #define core_debug 0
    #endif
    """
    bint core_debug

# Whether this is a debug build (CFLAGS=-DCORE_DEBUG): then the node table is verified after every hundredth rewrite, and what
# the normal-form marks promise is tried.
DEBUG = bool(core_debug)
cdef long long runs = 0

cdef enum:
    ENTER = 0           # the node has not been looked at
    SOURCES = 1         # its sources are being done
    REPLACED = 2        # it became another node, which is being done
    FREE_STEPS = 50000  # rewrites on one path before the size of the graph is asked for


cdef struct Frame:
    PyObject *node      # what is being rewritten (kept alive by `done`)
    PyObject *current   # what it has become so far, owned
    PyObject *rule      # the rule that replaced it
    int stage
    Py_ssize_t at       # next source
    long long steps     # rewrites on the path from the root to here


cdef class Rewriter:
    """One run: `done` maps a visited node to its result, None while it is in progress."""
    cdef dict done
    cdef object pm
    cdef object bpm
    cdef object ctx
    cdef UOp root
    cdef Frame *frames
    cdef Py_ssize_t depth
    cdef Py_ssize_t size
    cdef long long limit
    cdef uint64_t pure      # bits of the rule sets, when all are pure: nodes with these bits are in normal form

    def __cinit__(self):
        self.done = {}
        self.limit = FREE_STEPS

    def __dealloc__(self):
        while self.depth:
            self.depth -= 1
            Py_XDECREF(self.frames[self.depth].current)
        free(self.frames)

    cdef int enter(self, UOp u, long long steps) except -1:
        """Opens a frame for a node."""
        cdef Frame *bigger
        cdef Frame *made
        if self.depth == self.size:
            bigger = <Frame *>realloc(self.frames, (self.size * 2 + 64) * sizeof(Frame))
            if bigger is NULL:
                raise MemoryError("no memory for a rewrite")
            self.frames = bigger
            self.size = self.size * 2 + 64
        if steps > self.limit:
            self.judge_length(steps)
        if self.pure and (u.normal & self.pure) == self.pure:
            PyDict_SetItem(self.done, u, u)
            return 0
        PyDict_SetItem(self.done, u, None)
        made = &self.frames[self.depth]
        made.node = <PyObject *>u
        made.current = NULL
        made.rule = NULL
        made.stage = ENTER
        made.at = 0
        made.steps = steps
        self.depth += 1
        return 0

    cdef int leave(self, Frame *frame, UOp result) except -1:
        """Notes the result of the top frame and closes it."""
        PyDict_SetItem(self.done, <object>frame.node, result)
        result.normal |= self.pure
        Py_XDECREF(frame.current)
        frame.current = NULL
        self.depth -= 1
        return 0

    cdef int judge_length(self, long long steps, UOp down=None) except -1:
        """More rewrites follow from each other than the graph explains: raises, or allows a longer path."""
        cdef long long allowed = FREE_STEPS + 2 * len(postorder(self.root))
        if steps > allowed:
            raise RuntimeError(f"infinite loop in graph_rewrite: {steps} rewrites follow from each other; "
                               f"the rules that fire are {self.recent_rules(down)}")
        self.limit = allowed
        return 0

    cdef list rules_on(self, UOp u):
        """Names of the way-down rules that fire from here on, found by following them a little further."""
        cdef list names = []
        cdef int i
        for i in range(64):
            try:
                found = apply_rules(self.bpm, u, self.ctx)
            except BottomUpGate:
                break
            if not isinstance(found, UOp) or found is u:
                break
            text = repr(<object>last_rule()) if last_rule() is not NULL else repr(self.bpm)
            if text not in names and len(names) < 6:
                names.append(text)
            u = <UOp>found
        return names

    cdef str recent_rules(self, UOp down=None):
        """Names of the last different rules on the stack, after those that turn the node `down` on the way down."""
        cdef list names = [] if down is None else self.rules_on(down)
        cdef Py_ssize_t i = self.depth - 1
        while i >= 0 and len(names) < 6 and self.depth - i < 1000:
            if self.frames[i].rule is not NULL:
                text = repr(<object>self.frames[i].rule)
                if text not in names:
                    names.append(text)
            i -= 1
        return ", ".join(names) or "unknown"

    cdef int circle(self, UOp u, UOp down=None) except -1:
        raise RuntimeError(f"infinite loop in graph_rewrite: rewriting a {u.op} node leads back to it; "
                           f"the rules that fire are {self.recent_rules(down)}")

    cdef UOp descend(self, Frame *frame, UOp u, bint *gated):
        """Applies the way-down rules until none matches. Rules may call the engine again, so `frame` is refound after."""
        cdef set seen = None
        cdef Py_ssize_t mine = self.depth - 1
        cdef object found
        gated[0] = False
        while True:
            try:
                found = apply_rules(self.bpm, u, self.ctx)
            except BottomUpGate:
                gated[0] = True
                return u
            if found is None or found is u:
                return u
            need_node(found)
            self.frames[mine].rule = rule_of(self.bpm)
            self.frames[mine].steps += 1
            if seen is None:
                seen = {u}
            else:
                seen.add(u)
            if found in seen:
                self.circle(found, found)
            if self.frames[mine].steps > self.limit:
                self.judge_length(self.frames[mine].steps, found)
            u = found

    cdef UOp sources_done(self, Frame *frame, UOp cur):
        """The node over its rewritten sources; None when a source had to be entered first."""
        cdef Py_ssize_t count = PyTuple_GET_SIZE(cur.src), i
        cdef PyObject *below
        cdef PyObject *found
        cdef bint changed = False
        while frame.at < count:
            below = PyTuple_GET_ITEM_RAW(cur.src, frame.at)
            found = PyDict_GetItem(self.done, <object>below)
            if found is NULL:
                self.enter(<UOp>below, frame.steps)
                return None
            if found is <PyObject *>None:
                self.circle(<UOp>below)
            frame.at += 1
        for i in range(count):
            below = PyTuple_GET_ITEM_RAW(cur.src, i)
            if PyDict_GetItem(self.done, <object>below) is not below:
                changed = True
                break
        return self.over_results(cur) if changed else cur

    cdef UOp over_results(self, UOp cur):
        cdef Py_ssize_t count = PyTuple_GET_SIZE(cur.src), i
        cdef object src = PyTuple_New(count)
        cdef object item
        for i in range(count):
            item = <object>PyDict_GetItem(self.done, <object>PyTuple_GET_ITEM_RAW(cur.src, i))
            Py_INCREF(item)
            PyTuple_SET_ITEM_RAW(src, i, <PyObject *>item)
        return make_node(cur.op, cur.dtype, <tuple>src, cur.arg, cur.tag)

    cdef int go_on_with(self, Py_ssize_t mine, UOp fresh) except -1:
        """The top node has become another one: takes that one's result, or has it done first."""
        cdef Frame *frame = &self.frames[mine]
        cdef PyObject *found = PyDict_GetItem(self.done, fresh)
        if found is <PyObject *>None:
            self.circle(fresh)
        if found is not NULL:
            self.leave(frame, <UOp>found)
            return 0
        Py_INCREF(fresh)
        Py_XDECREF(frame.current)
        frame.current = <PyObject *>fresh
        frame.stage = REPLACED
        frame.steps += 1
        self.enter(fresh, frame.steps)
        return 0

    cdef int step(self) except -1:
        """Advances the top frame."""
        cdef Py_ssize_t mine = self.depth - 1
        cdef Frame *frame = &self.frames[mine]
        cdef UOp u = <UOp>frame.node, cur, fresh
        cdef PyObject *known
        cdef bint gated
        if frame.stage == REPLACED:
            return self.leave(frame, <UOp>PyDict_GetItem(self.done, <object>frame.current))
        if frame.stage == ENTER:
            cur = u
            if self.bpm is not None:
                cur = self.descend(frame, u, &gated)
                frame = &self.frames[mine]
                if gated:
                    # what lies below was not visited, so nothing is known of its form
                    self.pure = 0
                    return self.leave(frame, cur)
                if cur is not u:
                    known = PyDict_GetItem(self.done, cur)
                    if known is not NULL and known is not <PyObject *>None:
                        return self.leave(frame, <UOp>known)
            Py_INCREF(cur)
            frame.current = <PyObject *>cur
            frame.stage = SOURCES
        cur = <UOp>frame.current
        fresh = self.sources_done(frame, cur)
        if fresh is None:
            return 0
        if fresh is cur:
            if self.pm is None:
                return self.leave(&self.frames[mine], cur)
            found = apply_rules(self.pm, cur, self.ctx)
            if found is None or found is cur:
                return self.leave(&self.frames[mine], cur)
            need_node(found)
            fresh = <UOp>found
            self.frames[mine].rule = rule_of(self.pm)
        return self.go_on_with(mine, fresh)

    cdef UOp run(self, UOp sink):
        """The result for a node; results are shared between calls."""
        cdef PyObject *known = PyDict_GetItem(self.done, sink)
        if known is NULL:
            self.root = sink
            self.enter(sink, 0)
            while self.depth:
                self.step()
            known = PyDict_GetItem(self.done, sink)
            if core_debug:
                self.verify(<UOp>known)
        return <UOp>known

    cdef int verify(self, UOp result) except -1:
        """Debug builds: the table is sound, and no pure rule changes a result that is marked as in normal form."""
        global runs
        cdef UOp u
        runs += 1
        if runs % 100 == 0:
            check_table()
        if self.pure and self.pm is not None and runs % 10 == 0:
            for u in postorder(result):
                found = apply_rules(self.pm, u, self.ctx)
                if found is not None and found is not u:
                    raise AssertionError(f"{u.op} node is marked as in normal form, but {<object>last_rule()!r} changes it")
        return 0


cdef PyObject *rule_of(object pm) noexcept:
    """The rule that gave the last result, NULL for a matcher that is not the core's (its rules may not live on)."""
    return last_rule() if type(pm) is PatternMatcher else NULL


cdef int need_node(object found) except -1:
    if not isinstance(found, UOp):
        raise TypeError(f"a rule must return a UOp or None, got {found!r} from {<object>last_rule()!r}")
    return 0


cdef uint64_t purity(object pm, object bpm):
    """The bits of the rule sets of a run, 0 when some are not pure."""
    cdef uint64_t out
    if type(pm) is not PatternMatcher or not (bpm is None or type(bpm) is PatternMatcher):
        return 0
    out = (<PatternMatcher>pm).pure
    if bpm is not None:
        out = out | (<PatternMatcher>bpm).pure if out and (<PatternMatcher>bpm).pure else 0
    return out


cdef Rewriter new_rewriter(pm, ctx, bint bottom_up, bpm):
    cdef Rewriter out = Rewriter()
    out.pm = None if bottom_up else pm
    out.bpm = pm if bottom_up else bpm
    out.ctx = ctx
    out.pure = purity(pm, bpm)
    return out


def graph_rewrite(UOp sink not None, pm, ctx=None, bint bottom_up=False, name=None, bpm=None):
    """Rewrites the graph with the rules of a matcher until none applies; returns the new node.

    The rules of `pm` see a node after its sources, or, with bottom_up, before them. `bpm` holds further rules tried before the
    sources. `ctx` is passed to rules that take it. `name` is for tracing.
    Raises RuntimeError when rules undo each other or never end, and what a rule raises, with a note that names it.
    """
    return new_rewriter(pm, ctx, bottom_up, bpm).run(sink)


def graph_rewrite_map(UOp sink not None, pm, ctx=None, bint bottom_up=False, name=None, bpm=None, input_map=None):
    """Like `graph_rewrite`; returns what every node at or below the sink became.

    `input_map` is the result of an earlier map: its keys are led through to their new results.
    """
    cdef Rewriter run = new_rewriter(pm, ctx, bottom_up, bpm)
    cdef dict out = {}
    for u in postorder(sink):
        out[u] = run.run(u)
    for old, new in (input_map or {}).items():
        out[old] = out.get(new, new)
    return out
