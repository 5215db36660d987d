"""Records of rewriting, for the visualiser. Costs one comparison per rewrite when off.

`graph_rewrite` and `graph_rewrite_map` here are what users call. While `TRACK_MATCH_STATS` is 2 or
more they run a plain Python driver that writes every change down; otherwise they are the core's.
Records hold nodes as numbers (`UOp.trace_num`) into `uop_fields`, so that no trace keeps a buffer
alive.
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

from tinygrad._core import BottomUpGate, PatternMatcher, UOp
from tinygrad._core import graph_rewrite as core_rewrite
from tinygrad._core import graph_rewrite_map as core_rewrite_map
from tinygrad.helpers import VIZ, Context, ContextVar, TracingKey, cpu_profile
from tinygrad.uop import Ops

TRACK_MATCH_STATS = ContextVar("TRACK_MATCH_STATS", 2 if VIZ else 0)
REWRITE_STACK_LIMIT = ContextVar("REWRITE_STACK_LIMIT", 250_000)


@dataclass
class TrackedGraphRewrite:
    """One rewrite: where it was called, what it started from, and each change (before, after, rule, seconds)."""

    loc: tuple[str, int]
    sink: int
    matches: list[tuple[int, int, tuple[str, int] | None, float]]
    name: str | None
    depth: int
    bottom_up: bool
    trace: tuple = ()


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


def trace_number(u: UOp) -> int:
    """The number of a node in `uop_fields`, where its fields are written down the first time."""
    for x in u.toposort():
        if x not in _numbers:
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
    return named if isinstance(named, TracingKey) else TracingKey(_numbered(named), ret=ret)


def track_rewrites(name: Callable[..., str | TracingKey] | bool = True, replay: bool = False):
    """Makes the rewrites inside a function one group of the trace.

    `name` gives the group's name from the arguments and `ret`, the result; True takes the
    function's. With `replay` the call is recorded for process replay.
    """

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def tracked(*args, **kwargs):
            if not tracing():
                return func(*args, **kwargs)
            plain = name if isinstance(name, str) else func.__name__
            key = TracingKey(plain if callable(name) else _numbered(plain), (), None)
            _new_group(key)
            place = len(tracked_keys) - 1
            with cpu_profile(key, "TINY") as event:
                ret = func(*args, **kwargs)
            final = _result_name(name, func, ret, args, kwargs)
            if final is not None:
                tracked_keys[place] = final
                if event is not None:
                    event.name = final
            return ret

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


def _open(sink: UOp, name: str | None, bottom_up: bool) -> TrackedGraphRewrite:
    if not tracked_keys:
        _new_group(TracingKey("default graph_rewrite"))
    loc, stack = _caller()
    depth = len(active_rewrites)
    record = TrackedGraphRewrite(loc, trace_number(sink), [], name, depth, bottom_up, stack)
    tracked_ctxs[-1].append(record)
    active_rewrites.append(record)
    return record


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


def _note(record: TrackedGraphRewrite, before: UOp, after: UOp, seconds: float) -> None:
    record.matches.append((trace_number(before), trace_number(after), None, seconds))


class _Driver:
    """Rewrites like the core, one node at a time, and records each change."""

    def __init__(self, record: TrackedGraphRewrite, pm, ctx, bottom_up: bool, bpm):
        self.record, self.ctx = record, ctx
        self.down = pm if bottom_up else bpm
        self.up = None if bottom_up else pm
        self.done: dict[UOp, UOp] = {}

    def _once(self, pm, u: UOp) -> UOp:
        started = time.perf_counter()
        try:
            found = pm.rewrite(u, self.ctx)
        except BottomUpGate:
            raise
        except Exception:
            failed = UOp(Ops.REWRITE_ERROR, src=u.src, arg=str(sys.exc_info()[1]))
            _note(self.record, u, failed, 0.0)
            raise
        if found is None or found is u or not isinstance(found, UOp):
            return u
        _note(self.record, u, found, time.perf_counter() - started)
        return found

    def _descend(self, u: UOp) -> tuple[UOp, bool]:
        """`u` after the rules tried before its sources, and whether to stop at it."""
        if self.down is None:
            return u, False
        seen = {u}
        try:
            while (after := self._once(self.down, u)) is not u:
                if after in seen:
                    self._endless(u)
                seen.add(after)
                u = after
        except BottomUpGate:
            return u, True
        return u, False

    def _endless(self, u: UOp) -> None:
        raise RuntimeError(f"infinite loop in fixed_point_rewrite at {u.op}: rules undo each other")

    def run(self, root: UOp) -> UOp:
        """The rewritten root."""
        # (node, what it has become, stage): 0 enter, 1 sources done, 2 the replacement is done
        stack: list[tuple[UOp, UOp, int]] = [(root, root, 0)]
        while stack:
            if len(stack) > REWRITE_STACK_LIMIT.value:
                self._endless(root)
            node, current, stage = stack.pop()
            if stage == 0:
                if node in self.done:
                    continue
                current, stop = self._descend(node)
                if stop:
                    self.done[node] = current
                    continue
                stack.append((node, current, 1))
                stack.extend((s, s, 0) for s in reversed(current.src) if s not in self.done)
            elif stage == 1:
                sources = tuple(self.done[s] for s in current.src)
                rebuilt = current if sources == current.src else current.replace(src=sources)
                after = rebuilt if self.up is None else self._once(self.up, rebuilt)
                # what rules returned is new ground; the same holds for a node rebuilt on the way down
                if after is rebuilt and (rebuilt is current or self.down is None):
                    self.done[node] = after
                else:
                    stack.append((node, after, 2))
                    stack.append((after, after, 0))
            else:
                self.done[node] = self.done[current]
        return self.done[root]


def _traced(sink: UOp, pm, ctx, bottom_up: bool, name: str | None, bpm) -> UOp:
    record = _open(sink, name, bottom_up)
    try:
        return _Driver(record, pm, ctx, bottom_up, bpm).run(sink)
    except RuntimeError as error:
        if "infinite loop" in str(error):
            _note(record, sink, UOp(Ops.NOOP, arg="infinite loop in fixed_point_rewrite"), 0.0)
        raise
    finally:
        active_rewrites.pop()


def graph_rewrite(
    sink: UOp, pm, ctx: Any = None, bottom_up: bool = False, name=None, bpm=None
) -> UOp:
    """Applies the rules of `pm` to the graph until none changes it.

    A node is rewritten when its sources are done; `bottom_up` tries the rules before the sources.
    `bpm` holds further rules to try before the sources.
    """
    if TRACK_MATCH_STATS.value >= 2:
        return _traced(sink, pm, ctx, bottom_up, name, bpm)
    return core_rewrite(sink, pm, ctx, bottom_up, name, bpm)


def graph_rewrite_map(
    sink: UOp, pm, ctx: Any = None, bottom_up: bool = False, name=None, bpm=None, input_map=None
) -> dict[UOp, UOp]:
    """As `graph_rewrite`, for the new node of every node in the graph."""
    if TRACK_MATCH_STATS.value >= 2:
        _traced(sink, pm, ctx, bottom_up, name, bpm)
        with Context(TRACK_MATCH_STATS=0):
            return core_rewrite_map(sink, pm, ctx, bottom_up, name, bpm, input_map)
    return core_rewrite_map(sink, pm, ctx, bottom_up, name, bpm, input_map)
