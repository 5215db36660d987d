"""TinyJit: a function's kernels, captured once and launched again with other inputs.

In: a function of tensors. Its first call runs as it is. The second runs with every launch recorded; from then on a call only
puts its inputs' buffers into the recorded launches and replays them, in graphs where the device has them.

What must hold on every call is checked or arranged, never assumed: inputs must look as they did (else JitError); an input
that is one of the capture's own buffers is copied aside; Python values that the function reads (`engine.watch`), constants and
tensors of the surroundings that the kernels use are compared, and where one changed the function runs again; every result is
made of new Tensor objects. Arguments that are frozen by contract (whole numbers, lists of tensors) are warned about when they change.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tinygrad._core.guard import is_same
from tinygrad.device import Buffer
from tinygrad.dtype import DType
from tinygrad.engine.captured import CapturedJit, split_once
from tinygrad.engine.effects import Before, find_effects
from tinygrad.engine.graph import (
    GraphException,
    GraphRunner,
    MultiGraphRunner,
    apply_graph_to_jit,
    get_input_replace,
    get_out_buffers_for_ei,
    graph_class,
    update_depends,
)
from tinygrad.engine.jit_args import (
    ArgumentNames,
    CallInputs,
    JitError,
    Outputs,
    bases_of,
    explain_mismatch,
    gather_inputs,
    is_pending,
    mop_cleanup,
    tensors_in,
)
from tinygrad.engine.memory import _internal_memory_planner
from tinygrad.engine.realize import (
    CompiledRunner,
    ExecItem,
    ViewOp,
    capturing,
    current_capture,
)
from tinygrad.engine.surroundings import surroundings_changed
from tinygrad.engine.watch import Observer, Watch
from tinygrad.engine.watch_values import Snapshots
from tinygrad.helpers import BEAM, DEBUG, JIT, NO_MEMORY_PLANNER, Context, getenv
from tinygrad.uop.ops import Ops, UOp

__all__ = [
    "CapturedJit",
    "GraphException",
    "GraphRunner",
    "JitError",
    "MultiGraphRunner",
    "TinyJit",
    "apply_graph_to_jit",
    "get_input_replace",
    "get_out_buffers_for_ei",
    "graph_class",
    "mop_cleanup",
    "update_depends",
]

ReturnType = TypeVar("ReturnType")

_WRITES = (Ops.ASSIGN, Ops.CUSTOM_KERNEL)

# captures in a row that were of no use for the call after; then the function just runs until what it depends on holds still
_PATIENCE = 3


def _live_tensors() -> list[Any]:
    """All tensors there are. Their registry belongs to the layer above, which has been loaded when there are any."""
    from tinygrad.tensor.core import live_tensors

    return live_tensors()


def _recording_tensors():
    """A context that gives the list of the tensors that this thread makes inside."""
    from tinygrad.tensor.core import recording_tensors

    return recording_tensors()


def _keep_values_of(written: set[Buffer]) -> None:
    """Whatever is yet to be computed from buffers that are about to be written keeps its value."""
    from tinygrad.tensor.memory import keep_values_of

    keep_values_of(written)


def _lose(tensor: Any) -> None:
    """A tensor of the captured call that a replay does not compute can't be used any more."""
    from tinygrad.tensor.lost import lose

    lose(tensor)


def _written_here(node: UOp) -> bool:
    """Whether a node is no write of another thread."""
    from tinygrad.tensor.writes import writer_of

    return writer_of(node) in (None, threading.get_ident())


# ---------------------------------------------------------------- the wrapper


class TinyJit(Generic[ReturnType]):
    """Wraps `fxn` so that from its third call on only kernels run. Use it as a decorator or as `TinyJit(f)`.

    `prune`: kernels that don't depend on the inputs run once, at capture. `optimize`: after capture, buffers are laid out
    in as few allocations as possible (see `CapturedJit.replan_buffers_memory_layout` for what that freezes). Results share memory from call to call: clone what has to outlive the next one.

    >>> @TinyJit
    ... def double(x):
    ...     return (x * 2).realize()
    >>> [double(Tensor([i]).realize()).item() for i in range(4)]
    [0, 2, 4, 6]
    """

    def __init__(
        self,
        fxn: Callable[..., ReturnType] | None,
        captured: CapturedJit | None = None,
        prune=False,
        optimize=False,
    ):
        if fxn is None and captured is None:
            raise ValueError("TinyJit needs a function or a capture")
        self.fxn, self.captured, self.prune, self.optimize = fxn, captured, prune, optimize
        self.cnt = 2 if fxn is None else 0
        self._names = ArgumentNames(fxn)
        self._items: list[ExecItem] = []
        self._optional: list[ExecItem] = []
        self._inputs: list[Buffer] = []
        self._seen_values: list[tuple[Buffer, bytes]] = []
        self._stand_ins: weakref.WeakKeyDictionary[Buffer, Buffer] = weakref.WeakKeyDictionary()
        self._filled_first: weakref.WeakKeyDictionary[Buffer, None] = weakref.WeakKeyDictionary()
        self._instances: dict[int, TinyJit] = {}
        self._warned: set[int | str] = set()
        # what the function read besides its arguments when it ran last, and whether `captured` is of that run
        self._watch: Watch | None = None
        self._stale = False
        self._misses = 0
        # tensors that are there when a capture begins; those without memory, and those of them that were read since
        self._before = Before()
        self._made: list[weakref.ref] = []
        self._pending: list[Any] = []
        self._read_pending: list[Any] = []
        self._is_method = False
        self.capture_thread = 0
        # one call at a time: a capture has one set of buffers
        self._lock = threading.RLock()
        if fxn is not None:
            functools.update_wrapper(self, fxn, updated=())

    def __reduce__(self):
        if self.captured is None:
            raise JitError(
                "a TinyJit pickles its capture, and this one has none yet: call it twice first"
            )
        return type(self), (None, self.captured, self.prune, self.optimize), {"_names": self._names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __get__(self, obj, objtype=None):
        """As a method: each instance has captures of its own."""
        if obj is None or isinstance(self.fxn, staticmethod):
            return self
        mine: Any = self._instances.get(id(obj))
        if mine is None:
            mine = TinyJit(self.fxn, prune=self.prune, optimize=self.optimize)
            mine._is_method = True
            self._instances[id(obj)] = mine
            try:
                weakref.finalize(obj, self._instances.pop, id(obj), None).atexit = False
            except TypeError:  # no weak references: the number could come back with another object, so hold this one
                mine._owner = obj
        return functools.partial(mine.__call__, obj)

    # state

    @property
    def jit_cache(self) -> list[ExecItem]:
        """What a call launches; empty before capture."""
        return self.captured._jit_cache if self.captured is not None else []

    @property
    def input_replace(self) -> dict[tuple[int, int], int]:
        """(item, slot) of `jit_cache` -> number of an input."""
        return self.captured._input_replace if self.captured is not None else {}

    def reset(self):
        """Forgets the capture; the next call runs the function as it is."""
        if self.fxn is None:
            raise JitError("a TinyJit that was unpickled has no function to capture again")
        self.cnt, self.captured = 0, None

    # recording, called by run_schedule

    def add_buffer(self, b: Buffer) -> Buffer:
        """The buffer that stands for `b` in the capture: its own for temporaries, itself for what others know."""
        if (found := self._stand_ins.get(b)) is not None:
            return found
        if b._base is not None:
            # first the base: all views of one memory go the same way, also when it was allocated meanwhile
            home = self.add_buffer(b._base)
            made = b if home is b._base else home.view(b.size, b.dtype, b.offset)
        elif b.is_allocated():
            return b
        elif b.uop_refcount > 0:
            self._filled_first[b] = None
            return b
        else:
            made = Buffer(b.device, b.size, b.dtype, options=b.options)
        self._stand_ins[b] = made
        return made

    def add(self, ei: ExecItem):
        """Records an item that is about to run."""
        bufs = [None if b is None else self.add_buffer(b) for b in ei.bufs]
        self._items.append(ExecItem(ei.ast, bufs, ei.metadata, ei.fixedvars, ei.prg))

    def refuse(self, what: str, remedy: str) -> None:
        """Raises JitError for something that happens once, and would not at a replay."""
        raise JitError(
            f"{what} inside of {self._title()} while it is captured, which a replay would not do again: {remedy}"
        )

    def note_reading(self, buf: Buffer) -> None:
        """Notes the values that Python is about to see. Raises JitError where a launch computes them."""
        inputs = {b.base for b in self._inputs}
        made = (out.base for item in self._items for out in get_out_buffers_for_ei(item))
        if buf.base in inputs or any(buf.base is base for base in made):
            self.refuse(
                "the values of a tensor are read (item, tolist, numpy, data)",
                "return the tensor and read it outside, or use where()",
            )
        self._seen_values.append((buf, bytes(buf.as_buffer())))

    def add_copy(self, dest: Buffer, src: Buffer, optional: bool) -> None:
        """Records that `dest` holds what `src` held here; `optional`: left out in the end if no kernel reads `dest`."""
        ast = UOp(Ops.COPY, src.dtype, (UOp(Ops.DEVICE, arg=dest.device),))
        self.add(ExecItem(ast, [dest, src]).lower())
        if optional:
            self._optional.append(self._items[-1])

    def _without_idle_copies(self, items: list[ExecItem]) -> list[ExecItem]:
        """The items but for optional copies that no other item reads."""
        optional, self._optional = self._optional, []
        if not optional:
            return items
        idle = {id(item): item.bufs[0] for item in optional}
        used = {b for item in items if id(item) not in idle for b in item.bufs if b is not None}
        return [item for item in items if id(item) not in idle or idle[id(item)] in used]

    def adopt(self, *tensors: Any) -> None:
        """Counts tensors as such that were there before the capture began."""
        self._before.add(tensors)

    def note_backward(self, tensor: Any) -> None:
        """Notes that a tensor is about to get a gradient."""
        self._before.note_backward(tensor)

    def note_schedule(self, roots: list[UOp]) -> None:
        """Notes which tensors that were there before, and are yet to be computed, are part of what is computed now."""
        if not self._pending:
            return
        inside = UOp.sink(*roots).toposort()
        self._read_pending += [t for t in self._pending if t.uop in inside]
        self._pending = [t for t in self._pending if t.uop not in inside]

    def made_before(self, tensor: Any) -> bool:
        """Whether a tensor was what it is when the capture began."""
        return self._before.nodes.get(id(tensor)) is tensor.uop

    # calling

    def __call__(self, *args, **kwargs) -> ReturnType:
        if (self.captured is not None or self.cnt > 0) and current_capture() is not None:
            raise JitError(
                f"having TinyJit inside another TinyJit is not supported (inner: {self._title()}); "
                "call the plain function inside, and jit the outer one"
            )
        if not JIT and self.fxn is not None:
            return self._run_plain(args, kwargs)
        with self._lock:
            return self._call(args, kwargs)

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> ReturnType:
        named = self._names.of(args, kwargs)
        # the object of a method is the same in every call of this instance, and is not looked into
        call = gather_inputs(named[1:] if self._is_method else named)
        if self.cnt == 0:
            result = self._observe(lambda: self._run_plain(args, kwargs))
            self.cnt = 1
            return result
        if self.captured is not None:
            self._require_fitting(self.captured, call)
            if not self._stale:
                _keep_values_of(self.captured.written_by(call.buffers))
        reason = self._changed(call)
        if self.captured is not None and not self._stale and reason is None:
            self._misses = 0
            return self._replay(self.captured, call)
        return self._run_again(call, args, kwargs, reason)

    def _run_again(
        self, call: CallInputs, args: tuple, kwargs: dict[str, Any], reason: str | None
    ) -> ReturnType:
        """Runs the function: captures it, unless what it depends on changed in each of the last calls."""
        if self.fxn is None:
            raise JitError(
                f"{reason} is not what it was, and there is no function to capture again"
            )
        if reason is not None and self.captured is not None:
            self._misses += 1
            if self._misses == _PATIENCE:
                self._warn_of_change(reason)
        if reason is not None and self._misses > _PATIENCE:
            self._stale = self.captured is not None
            result = self._observe(lambda: self._run_plain(args, kwargs))
        else:
            result = self._observe(lambda: self._capture(call, args, kwargs))
            self._after_capture()
        self.cnt += 1
        return result

    def _observe(self, run: Callable[[], ReturnType]) -> ReturnType:
        """Runs the function and notes what it reads besides its arguments."""
        observer = Observer(self.fxn, self._watch)
        with observer.watching():
            result = run()
        self._watch = observer.watch
        return result

    def _after_capture(self) -> None:
        watch = self._watch
        assert watch is not None
        if self.captured is not None and not self._stale:
            watch.settle(self.captured.used, self.captured.used_nodes)
        for name in watch.unseen:
            self._warn_once(
                name,
                f"{self._title()} uses {name}, which a replay does not do again: what came of it when it was captured stays; "
                "pass it as an argument, in a Tensor",
            )

    def _changed(self, call: CallInputs) -> str | None:
        """The name of something that is not what it was in the last run; None where the capture is good for this call."""
        watch = self._watch
        if watch is not None:
            if (changed := next(iter(watch.spent), None) or watch.differing()) is not None:
                return changed
        if self.captured is None or self._stale:
            return None
        if call.fixed != self.captured.fixed:
            return "a constant argument"
        if (effect := self.captured.effects.changed()) is not None:
            return effect
        return self._changed_argument(self.captured, call) or (
            "a tensor that it uses" if surroundings_changed(self.captured) else None
        )

    def _warn_once(self, key: int | str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(text, RuntimeWarning, stacklevel=6)

    def _warn_of_change(self, name: str) -> None:
        self._warn_once(
            name,
            f"{self._title()} depends on {name}, which changes from call to call, so it is run again instead of replayed; "
            "keep it in a Tensor that is realized, and change that with assign()",
        )

    def _title(self) -> str:
        return getattr(self.fxn, "__qualname__", None) or type(self.fxn).__name__

    def _run_plain(self, args: tuple, kwargs: dict[str, Any]) -> ReturnType:
        assert self.fxn is not None
        before = {id(t): t.uop for t in _live_tensors()}
        ret = self.fxn(*args, **kwargs)
        self._realize_effects(ret, before)
        return ret

    @staticmethod
    def _realize_effects(ret: Any, before: dict[int, UOp]) -> None:
        """Realizes the result, and assignments to tensors that existed before, which nobody may look at in time."""
        pending = {id(t): t for t in tensors_in(ret)}
        for t in _live_tensors():
            old = before.get(id(t))
            if old is None or old is t.uop or not _written_here(t.uop):
                continue
            if t.uop.op_in_backward_slice_with_self(*_WRITES):
                pending[id(t)] = t
        if pending:
            first, *rest = pending.values()
            first.realize(*rest)

    # capture

    def _capture(self, call: CallInputs, args: tuple, kwargs: dict[str, Any]) -> ReturnType:
        self._realize_surroundings()
        # held, so that those that the function drops are known to it, too
        self._before = Before(_live_tensors())
        self._pending = [t for t in self._before.tensors if is_pending(t.uop)]
        self._read_pending = []
        self._items, self._stand_ins = [], weakref.WeakKeyDictionary()
        self._filled_first = weakref.WeakKeyDictionary()
        self.capture_thread = threading.get_ident()
        self._inputs, self._seen_values = call.buffers, []
        capturing.append(self)
        try:
            assert self.fxn is not None
            # what is pruned is computed once and read in every call: it shares no memory with what comes later
            apart = int(self.prune or NO_MEMORY_PLANNER.value)
            beam = getenv("JITBEAM", BEAM.value)
            with (
                Context(BEAM=beam, NO_MEMORY_PLANNER=apart),
                _recording_tensors() as self._made,
            ):
                ret = self.fxn(*args, **kwargs)
                self._realize_effects(ret, self._before.nodes)
        except BaseException:
            self._forget_run()
            raise
        finally:
            capturing.remove(self)
        try:
            return self._keep(self._without_idle_copies(self._items), ret, call)
        finally:
            self._forget_run()

    def _forget_run(self) -> None:
        self._items, self._optional, self._before, self._made = [], [], Before(), []
        self._pending, self._read_pending = [], []
        self._inputs, self._seen_values = [], []

    def _keep(self, items: list[ExecItem], ret: Any, call: CallInputs) -> Any:
        """Makes the capture of what was recorded; returns the result."""
        if not items and self.captured is None:
            raise JitError(
                f"didn't JIT anything: {self._title()} ran no kernel. "
                "It has to return, realize or assign tensors that depend on its arguments"
            )
        # nothing to launch: the values that it depends on made everything constant, and the result is right
        self._stale = not items
        if items:
            self._require_known_variables(items, call)
            self.captured = self._make_capture(items, ret, call)
        return ret

    @staticmethod
    def _realize_surroundings() -> None:
        """Assignments that are still pending would be recorded as if the function made them."""
        pending = [t for t in _live_tensors() if t.uop.op_in_backward_slice_with_self(*_WRITES)]
        for t in pending:
            # one by one: what can't be computed is somebody else's error, and is raised where it is used
            if t.uop.op_in_backward_slice_with_self(*_WRITES):
                with contextlib.suppress(RuntimeError, AssertionError, ValueError):
                    t.realize()

    def _require_known_variables(self, items: list[ExecItem], call: CallInputs) -> None:
        for item in items:
            if not isinstance(item.prg, CompiledRunner):
                continue
            for name in item.prg._var_names:
                if name not in call.var_vals and name not in item.fixedvars:
                    raise JitError(
                        f"variable {name} is used in {self._title()} but no argument brings its value; "
                        f"pass the bound variable (or a tensor that has it in its shape) as an argument"
                    )

    def _make_capture(self, items: list[ExecItem], ret: Any, call: CallInputs) -> CapturedJit:
        inputs = list(call.buffers)
        views = self._views_into(items, inputs)
        if self.prune:
            items = self._prune(items, inputs, call.var_vals, set(self._filled_first))
        items = self._plan(items)
        replaced = get_input_replace(items, inputs)
        unused = set(range(len(call.buffers))) - set(
            self._used_inputs(replaced, views, len(call.buffers))
        )
        if unused and DEBUG >= 1:
            print(
                f"jit of {self._title()}: {len(unused)} of {len(call.buffers)} input buffers are not used"
            )
        results = tensors_in(ret)
        touched = {b.base for item in items for b in item.bufs if b is not None}
        touched |= {b.base for b in call.buffers}
        effects, grads = find_effects(
            self._before, self._made, results, touched, self._read_pending, call.tensors
        )
        outputs = Outputs((ret, grads), call, set(self._before.nodes))
        used = {b.base for item in items for b in item.bufs if b is not None}
        used |= outputs.memory() | {b.base for b, _ in self._seen_values}
        own = self._surroundings(used - {b.base for b in inputs}, call)
        made: CapturedJit = CapturedJit(
            ret,
            items,
            replaced,
            views,
            call.names,
            call.forms,
            outputs=outputs,
            fixed=call.fixed,
            plain=[(name, Snapshots().take(v, str(name))) for name, v in call.plain],
            input_count=len(call.buffers),
        )
        made.surroundings = [weakref.ref(t) for t in own]
        made.surroundings_nodes = [t.uop for t in own]
        made.surroundings_memory = [bases_of(t.uop) for t in own]
        made.used, made.seen_values = used, self._seen_values
        made.used_nodes = {self._before.nodes[id(t)] for t in self._read_pending}
        # drop-in: tensors in a list stay those of the capture
        made.effects = effects
        made.frozen = [v for _, v in call.plain if isinstance(v, list) and tensors_in(v)]
        if self.optimize:
            made.replan_buffers_memory_layout()
        return made

    @staticmethod
    def _used_inputs(replaced: dict[tuple[int, int], int], views: list, count: int) -> list[int]:
        return [views[n - count][0] if n >= count else n for n in replaced.values()]

    @staticmethod
    def _views_into(
        items: list[ExecItem], inputs: list[Buffer]
    ) -> list[tuple[int, int, str, int, DType]]:
        """Buffers of the items that lie in an input become inputs of their own; they are appended to `inputs`."""
        by_base = {b.base: (i, b.offset) for i, b in enumerate(inputs)}
        known, views = set(inputs), []
        for item in items:
            for buf in item.bufs:
                if buf is None or buf in known or buf.base not in by_base:
                    continue
                number, start = by_base[buf.base]
                views.append((number, buf.offset - start, buf.device, buf.size, buf.dtype))
                inputs.append(buf)
                known.add(buf)
        return views

    @staticmethod
    def _prune(
        items: list[ExecItem],
        inputs: list[Buffer],
        var_vals: dict[str, int],
        filled_first: set[Buffer],
    ) -> list[ExecItem]:
        given = set(inputs)
        shown = [
            replace(item, bufs=[None if b in given else b for b in item.bufs]) for item in items
        ]
        kept_shown, once = split_once(shown, filled_first)
        kept = [item for item, seen in zip(items, shown) if any(seen is k for k in kept_shown)]
        if DEBUG >= 1 and once:
            print(f"pruned from {len(items)} -> {len(kept)} kernels")
        for item in once:
            item.run(var_vals, jit=True)
        return kept

    @staticmethod
    def _plan(items: list[ExecItem]) -> list[ExecItem]:
        """Temporaries of the capture share memory."""
        fixed = {
            b for item in items if isinstance(item.prg, ViewOp) for b in item.bufs if b is not None
        }
        steps = [[b for b in item.bufs if b is not None] for item in items]
        moved = _internal_memory_planner(steps, noopt_buffers=fixed, debug_prefix="JIT ")
        return [
            replace(item, bufs=[None if b is None else moved.get(b, b) for b in item.bufs])
            for item in items
        ]

    def _surroundings(self, used: set[Buffer], call: CallInputs) -> list[Any]:
        """Tensors that existed before the call, are no inputs, and are used, for their memory or for what they stand for."""
        given = {id(t) for t in call.tensors}
        read = {id(t) for t in self._read_pending}
        found = []
        for t in self._before.tensors:
            if id(t) in given or (id(t) not in read and is_pending(self._before.nodes[id(t)])):
                continue
            if not used.isdisjoint(bases_of(t.uop)):
                found.append(t)
        return found

    # replay

    @staticmethod
    def _replay(captured: CapturedJit, call: CallInputs) -> Any:
        captured(call.buffers, call.var_vals)
        if captured.outputs is None:
            return captured.ret
        ret, grads = captured.outputs.rebuild(call)
        captured.effects.redo(grads, _lose)
        return ret

    @staticmethod
    def _require_fitting(captured: CapturedJit, call: CallInputs) -> None:
        """Raises JitError where the tensors among the arguments are not of the captured form."""
        forms = captured.expected_st_vars_dtype_device
        if call.names != captured.expected_names or call.forms != forms:
            raise JitError(
                explain_mismatch(captured.expected_names, forms, call) or "args mismatch in JIT"
            )

    def _changed_argument(self, captured: CapturedJit, call: CallInputs) -> str | None:
        """The name of an argument, no tensor, that is not what it was. What stays frozen all the same is warned about."""
        if [name for name, _ in captured.plain] != [name for name, _ in call.plain]:
            return "which arguments it gets"
        for (name, expected), (_, now) in zip(captured.plain, call.plain):
            if is_same(expected, now):
                continue
            # drop-in: whole numbers and lists of tensors keep the value that they had at the capture
            if type(now) is type(expected) is int:
                remedy = "pass a Tensor or a Variable"
            elif isinstance(now, list) and tensors_in(now):
                remedy = "pass its tensors in a tuple or a dict"
            else:
                return f"argument {name}"
            self._warn_once(
                name,
                f"{self._title()} was captured with another value of argument {name} ({type(now).__name__}), "
                f"which the captured kernels keep using; {remedy}",
            )
        return None
