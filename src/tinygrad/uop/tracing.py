"""Records of rewriting, for the visualiser. Costs one comparison per rewrite when off.

`graph_rewrite` and `graph_rewrite_map` here are what users call. While `TRACK_MATCH_STATS` is 2 or
more they run a plain Python driver that writes every change down; otherwise they are the core's.
Records hold nodes as numbers (`UOp.trace_num`) into `uop_fields`, so that no trace keeps a buffer
alive. `replay` runs the driver again on a record, which gives the graph as it was after any change.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from tinygrad._core import BottomUpGate, PatternMatcher, UOp, fired_rule
from tinygrad._core import graph_rewrite as core_rewrite
from tinygrad._core import graph_rewrite_map as core_rewrite_map
from tinygrad.helpers import (
    CAPTURE_PROCESS_REPLAY,
    PROFILE,
    VIZ,
    ContextVar,
    TracingKey,
    cpu_profile,
)
from tinygrad.uop import Ops

TRACK_MATCH_STATS = ContextVar("TRACK_MATCH_STATS", 2 if VIZ else 0)
REWRITE_STACK_LIMIT = ContextVar("REWRITE_STACK_LIMIT", 250_000)


@dataclass
class TrackedGraphRewrite:
    """One rewrite: where it was called, what it started from, and each change (before, after, rule, seconds).

    A rule is (file, line, name). `gated`: the nodes whose sources a rule kept from being visited;
    `down_rules`: whether further rules were tried before the sources. `seconds`: all of it.
    `downward`: which matches were made before the sources, where there are both kinds.
    """

    loc: tuple[str, int]
    sink: int
    matches: list[tuple[int, int, tuple[str, int, str] | None, float]]
    name: str | None
    depth: int
    bottom_up: bool
    trace: tuple = ()
    down_rules: bool = False
    gated: list[int] = field(default_factory=list)
    seconds: float = 0.0
    downward: list[int] = field(default_factory=list)


@dataclass
class RewriteTrace:
    """Everything recorded: group names, the rewrites of each group, and the nodes by number."""

    keys: list[TracingKey] = field(default_factory=list)
    rewrites: list[list[TrackedGraphRewrite]] = field(default_factory=list)
    uop_fields: dict[int, tuple] = field(default_factory=dict)


tracked_keys: list[TracingKey] = []
tracked_ctxs: list[list[TrackedGraphRewrite]] = []
active_rewrites: list[TrackedGraphRewrite] = []
uop_fields: dict[int, tuple] = {}
_name_cnt: dict[str, int] = {}

_numbers: WeakKeyDictionary[UOp, int] = WeakKeyDictionary()


def known_number(u: UOp) -> int | None:
    """The number of a node that stands in the trace."""
    return _numbers.get(u)


def trace_number(u: UOp) -> int:
    """The number of a node in `uop_fields`, where its fields are written down the first time."""
    known = _numbers.get(u)
    if known is not None:
        return known
    for x in u.toposort(gate=lambda below: below not in _numbers):
        number = _numbers[x] = len(uop_fields)
        sources = tuple(_numbers[s] for s in x.src)
        uop_fields[number] = (x.op, x.dtype, sources, x.arg, x.tag, x.metadata)
    return _numbers[u]


class TrackedPatternMatcher(PatternMatcher):
    """A matcher as `PatternMatcher`; kept as a name of its own for users who ask for tracing."""


def tracing() -> bool:
    """Whether rewrites are being recorded."""
    return TRACK_MATCH_STATS.value >= 2


# ---- groups


def _new_group(key: TracingKey) -> None:
    tracked_keys.append(key)
    tracked_ctxs.append([])


def _numbered(name: str) -> str:
    _name_cnt[name] = _name_cnt.get(name, 0) + 1
    return f"{name} n{_name_cnt[name]}"


def _result_name(name, func: Callable, ret, args: tuple, kwargs: dict) -> TracingKey | None:
    if not callable(name):
        return None
    named = name(*args, **kwargs, ret=ret)
    # the result itself may hold buffers: only a TracingKey that asks for it keeps one
    return named if isinstance(named, TracingKey) else TracingKey(_numbered(named))


# what `replay=True` functions hand their calls to: (function, args, kwargs, result)
replay_recorders: list[Callable[[Callable, tuple, dict, Any], None]] = []


def _record_calls(func: Callable) -> Callable:
    """`func`, telling every recorder of process replay about each call."""

    @functools.wraps(func)
    def recorded(*args, **kwargs):
        ret = func(*args, **kwargs)
        for recorder in replay_recorders:
            recorder(func, args, kwargs, ret)
        return ret

    return recorded


def track_rewrites(name: Callable[..., str | TracingKey] | bool = True, replay: bool = False):
    """Makes the rewrites inside a function one group of the trace.

    `name` gives the group's name from the arguments and `ret`, the result; True takes the
    function's. With `replay` the call is recorded for process replay.
    """

    def decorate(func: Callable) -> Callable:
        if replay and CAPTURE_PROCESS_REPLAY:
            func = _record_calls(func)  # by tinygrad.engine.process_replay

        @functools.wraps(func)
        def tracked(*args, **kwargs):
            if not tracing():
                return func(*args, **kwargs) if not PROFILE else timed(args, kwargs)
            _new_group(first_key())
            return timed(args, kwargs, group=len(tracked_keys) - 1)

        def first_key() -> TracingKey:
            plain = name if isinstance(name, str) else func.__name__
            return TracingKey(plain if callable(name) else _numbered(plain))

        def timed(args: tuple, kwargs: dict, group: int | None = None):
            """The call as one range of the profile, which has the name of the group."""
            with cpu_profile(first_key() if group is None else tracked_keys[group]) as event:
                ret = func(*args, **kwargs)
                final = _result_name(name, func, ret, args, kwargs)
                if final is not None:
                    event.name = final
                    if group is not None:
                        tracked_keys[group] = final
            return ret

        vars(tracked)["replayable"] = replay
        return tracked

    return decorate


def _caller() -> tuple[tuple[str, int], tuple]:
    """The file and line outside this module that asked for a rewrite, and the stack above it."""
    frames = []
    at: FrameType | None = sys._getframe(1)
    while at is not None:
        frames.append((at.f_code.co_filename, at.f_lineno, at.f_code.co_name))
        at = at.f_back
    outside = [frame for frame in frames if frame[0] != __file__]
    return outside[0][:2], tuple(outside)


def _open(sink: UOp, name: str | None, bottom_up: bool, down: bool = False) -> TrackedGraphRewrite:
    if not tracked_keys:
        _new_group(TracingKey("default graph_rewrite"))
    loc, stack = _caller()
    depth = len(active_rewrites)
    record = TrackedGraphRewrite(loc, trace_number(sink), [], name, depth, bottom_up, stack, down)
    tracked_ctxs[-1].append(record)
    active_rewrites.append(record)
    return record


def trace_graph(sink: UOp, name: str) -> None:
    """Shows a graph as it is, as a step of the trace in which nothing changes."""
    if tracing():
        _open(sink, name, False)
        active_rewrites.pop()


def profile_matches(fxn: Callable) -> Callable:
    """Makes the rewrites inside a function, whose first argument is a node, one step of the trace."""

    @functools.wraps(fxn)
    def wrapped(*args, **kwargs):
        if not tracing():
            return fxn(*args, **kwargs)
        first = args[0] if args else None
        assert isinstance(first, UOp), f"invalid match tracing input {first!r}: expected a UOp"
        _open(first, fxn.__name__, False)
        try:
            return fxn(*args, **kwargs)
        finally:
            active_rewrites.pop()

    return wrapped


# ---- the recording driver


ENDLESS = "infinite loop in fixed_point_rewrite"


def _note(
    record: TrackedGraphRewrite, before: UOp, after: UOp, rule: tuple | None, seconds: float
) -> None:
    record.matches.append((trace_number(before), trace_number(after), rule, seconds))


class _Recorded:
    """A matcher that notes in a record what it changes."""

    def __init__(self, pm, record: TrackedGraphRewrite, downward: bool):
        self.pm, self.record, self.downward = pm, record, downward
        # a matcher with a `rewrite` of its own may not tell which rule it used
        self.tells_rule = type(pm).rewrite is PatternMatcher.rewrite

    def rewrite(self, u: UOp, ctx) -> UOp | None:
        started = time.perf_counter()
        try:
            found = self.pm.rewrite(u, ctx)
        except BottomUpGate:
            self.record.gated.append(trace_number(u))
            raise
        except Exception as error:
            text = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            _note(self.record, u, UOp(Ops.REWRITE_ERROR, src=u.src, arg=text), None, 0.0)
            raise
        if found is None or found is u or not isinstance(found, UOp):
            return None
        fired = fired_rule() if self.tells_rule else None
        rule = None if fired is None else (*fired.location, fired.title)
        if self.downward:
            self.record.downward.append(len(self.record.matches))
        _note(self.record, u, found, rule, time.perf_counter() - started)
        return found

    def circle(self, u: UOp) -> None:
        """The last change led back to a node in work: shows that instead."""
        matches = self.record.matches
        rule = matches.pop()[2] if matches and matches[-1][0] == trace_number(u) else None
        if self.record.downward and self.record.downward[-1] == len(matches):
            self.record.downward.pop()
        _note(self.record, u, UOp(Ops.NOOP, arg=ENDLESS), rule, 0.0)


class _Script:
    """A matcher that repeats the first changes of a record in their order; one for each direction shares the list.

    A change belongs to a direction: taken in the other one it would meet the sources at another time.
    """

    def __init__(self, changes: list[tuple[UOp, UOp, bool]], gated: set[UOp], downward: bool):
        self.changes, self.gated, self.downward = changes, gated, downward

    def rewrite(self, u: UOp, ctx) -> UOp | None:
        if self.changes and self.changes[-1][0] is u and self.changes[-1][2] is self.downward:
            return self.changes.pop()[1]
        if self.downward and u in self.gated:
            raise BottomUpGate
        return None

    def circle(self, u: UOp) -> None:
        """Nothing to note."""


class _Driver:
    """Rewrites like the core, one node at a time. Matchers are those above."""

    def __init__(self, down, up, ctx):
        self.down, self.up, self.ctx = down, up, ctx
        self.done: dict[UOp, UOp] = {}
        self.in_work: set[UOp] = set()

    def _circle(self, u: UOp) -> None:
        (self.up or self.down).circle(u)
        raise RuntimeError(f"{ENDLESS} at {u.op}: the rules lead back to where they started")

    def _descend(self, u: UOp) -> tuple[UOp, bool]:
        """`u` after the rules tried before its sources, and whether to stop at it."""
        if self.down is None:
            return u, False
        seen = {u}
        try:
            while (after := self.down.rewrite(u, self.ctx)) is not None:
                if after in seen:
                    self._circle(u)
                seen.add(after)
                u = after
        except BottomUpGate:
            return u, True
        return u, False

    def _enter(self, node: UOp, stack: list[tuple[UOp, UOp, int]]) -> None:
        if node in self.done:
            return
        if node in self.in_work:
            self._circle(node)
        current, stop = self._descend(node)
        if stop:
            self.done[node] = current
            return
        self.in_work.add(node)
        stack.append((node, current, 1))
        stack.extend((s, s, 0) for s in reversed(current.src) if s not in self.done)

    def _leave(self, node: UOp, current: UOp, stack: list[tuple[UOp, UOp, int]]) -> None:
        """The sources of a node are done: rebuilds it and tries the rules."""
        sources = tuple([self.done[s] for s in current.src])
        rebuilt = current if sources == current.src else current.replace(src=sources)
        after = None if self.up is None else self.up.rewrite(rebuilt, self.ctx)
        if after is not None and after in self.in_work and after not in self.done:
            self._circle(rebuilt)
        # what rules returned is new ground; the same holds for a node rebuilt on the way down
        if after is None and (rebuilt is current or self.down is None):
            self._finish(node, rebuilt)
            return
        fresh = rebuilt if after is None else after
        stack.append((node, fresh, 2))
        stack.append((fresh, fresh, 0))

    def _finish(self, node: UOp, result: UOp) -> None:
        self.done[node] = result
        self.in_work.discard(node)

    def run(self, root: UOp) -> UOp:
        """The rewritten root."""
        # (node, what it has become, stage): 0 enter, 1 sources done, 2 the replacement is done
        stack: list[tuple[UOp, UOp, int]] = [(root, root, 0)]
        while stack:
            if len(stack) > REWRITE_STACK_LIMIT.value:
                raise RuntimeError(f"{ENDLESS} at {root.op}: more than {len(stack)} steps are open")
            node, current, stage = stack.pop()
            if stage == 0:
                self._enter(node, stack)
            elif stage == 1:
                self._leave(node, current, stack)
            else:
                self._finish(node, self.done[current])
        return self.done[root]


def replay(
    record: TrackedGraphRewrite, sink: UOp, changes: list[tuple[UOp, UOp]], gated: set[UOp]
) -> UOp:
    """The graph of a recorded rewrite from `sink` after `changes`, the nodes of its first matches."""
    goes_down = record.bottom_up or record.down_rules
    marks = set(record.downward)
    left = [(*change, record.bottom_up or i in marks) for i, change in enumerate(changes)][::-1]
    driver = _Driver(
        _Script(left, gated, True) if goes_down else None,
        None if record.bottom_up else _Script(left, gated, False),
        None,
    )
    return driver.run(sink)


def _traced(
    sink: UOp, pm, ctx, bottom_up: bool, name: str | None, bpm, every_node: bool = False
) -> dict[UOp, UOp]:
    """What the sink became, or every node below it."""
    record = _open(sink, name, bottom_up, bpm is not None)
    down, up = (pm, None) if bottom_up else (bpm, pm)
    driver = _Driver(
        None if down is None else _Recorded(down, record, True),
        None if up is None else _Recorded(up, record, False),
        ctx,
    )
    started = time.perf_counter()
    try:
        return {u: driver.run(u) for u in (sink.toposort() if every_node else (sink,))}
    finally:
        record.seconds = time.perf_counter() - started
        active_rewrites.pop()


def graph_rewrite(
    sink: UOp, pm, ctx: Any = None, bottom_up: bool = False, name=None, bpm=None
) -> UOp:
    """Applies the rules of `pm` to the graph until none changes it.

    A node is rewritten when its sources are done; `bottom_up` tries the rules before the sources.
    `bpm` holds further rules to try before the sources.
    """
    if TRACK_MATCH_STATS.value >= 2:
        return _traced(sink, pm, ctx, bottom_up, name, bpm)[sink]
    return core_rewrite(sink, pm, ctx, bottom_up, name, bpm)


def graph_rewrite_map(
    sink: UOp, pm, ctx: Any = None, bottom_up: bool = False, name=None, bpm=None, input_map=None
) -> dict[UOp, UOp]:
    """As `graph_rewrite`, for the new node of every node in the graph."""
    if TRACK_MATCH_STATS.value < 2:
        return core_rewrite_map(sink, pm, ctx, bottom_up, name, bpm, input_map)
    out = _traced(sink, pm, ctx, bottom_up, name, bpm, every_node=True)
    for old, new in (input_map or {}).items():
        out[old] = out.get(new, new)
    return out
