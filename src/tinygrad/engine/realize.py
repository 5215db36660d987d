"""Running a schedule: from a kernel's AST to a launched program, its time and its numbers.

In: `ExecItem`s (an AST with the buffers it works on). `lower` gives each a `Runner`: a compiled program, a copy, a
transfer, or a view. `run` launches it, counts, and prints at DEBUG>=2. `get_program` is the one way from AST to a rendered
PROGRAM node, `get_runner` the cache in front of it. Called by Tensor.realize, TinyJit and BEAM.

Invariants: a PROGRAM is compiled at most once a process and device kind; a runner never looks at the AST; while `capturing`
holds a capture, every item that runs is also handed to it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tinygrad.device import Buffer, Compiled, Device
from tinygrad.engine import interrupted
from tinygrad.engine.program_cache import (
    code_context,
    load_program,
    load_stored,
    store_program,
)
from tinygrad.engine.program_facts import ProgramFacts, StoredProgram
from tinygrad.engine.report import print_item
from tinygrad.helpers import (
    CAPTURING,
    DEBUG,
    PROFILE,
    VALIDATE_WITH_CPU,
    GlobalCounters,
    Metadata,
    TracingKey,
    cpu_profile,
    size_to_str,
)
from tinygrad.renderer import Estimates, Renderer
from tinygrad.uop.ops import KernelInfo, Ops, UOp, print_uops, sym_infer, track_rewrites

if TYPE_CHECKING:
    from tinygrad.engine.jit import TinyJit

# ---------------------------------------------------------------- AST to PROGRAM


@track_rewrites(  # with replay, so that CAPTURE_PROCESS_REPLAY keeps every kernel
    name=lambda *args, ret, **kwargs: TracingKey(
        ret.name, (ret.src[0].arg.function_name,), ret=ret
    ),
    replay=True,
)
def get_program(ast: UOp, renderer: Renderer, opts: Iterable | None = None) -> UOp:
    """The rendered PROGRAM of a kernel AST for `renderer`'s target.

    `opts`: exactly these optimisations instead of the optimiser's choice; only for an AST without a KernelInfo of its own,
    ValueError otherwise. Raises TypeError where `ast` is no SINK.
    """
    from tinygrad.codegen import full_rewrite_to_program

    if not isinstance(ast, UOp) or ast.op is not Ops.SINK:
        raise TypeError(f"get_program needs the SINK of a kernel, got {getattr(ast, 'op', ast)}")
    if opts is not None:
        if ast.arg is not None:
            raise ValueError(
                f"opts {opts} were given for a kernel that has {ast.arg}; put them there as opts_to_apply"
            )
        ast = ast.replace(arg=KernelInfo(opts_to_apply=tuple(opts)))
    elif ast.arg is None:
        ast = ast.replace(arg=KernelInfo())
    if DEBUG >= 5:
        print(ast.pyrender())
    program = load_program(ast, renderer)
    if program is None:
        program = full_rewrite_to_program(ast, renderer)
        store_program(ast, renderer, program)
    if DEBUG >= 6:
        print_uops(list(program.uops))
    return program


# ---------------------------------------------------------------- runners


_NO_WORK = Estimates()


class Runner:
    """Something that can be launched on buffers. `estimates` is the work of one launch."""

    def __init__(self, display_name: str, device: str, estimates=_NO_WORK):
        self.first_run, self.display_name, self.device, self.estimates = (
            True,
            display_name,
            device,
            estimates,
        )

    @property
    def dev(self) -> Compiled:
        return Device[self.device]

    def exec(self, rawbufs: list[Buffer], var_vals: dict[str, int] | None = None) -> float | None:
        """Launches once, without waiting."""
        return self(rawbufs, {} if var_vals is None else var_vals)

    def __call__(self, rawbufs: list[Buffer], var_vals: dict[str, int], wait=False) -> float | None:
        """Launches on allocated buffers; with `wait`, returns the seconds it took, else None."""
        raise NotImplementedError(f"{type(self).__name__} can't be launched: it gives no __call__")


def pick_local_size(
    prg: CompiledRunner, global_size: list[int], bufs: list[Any], vals: tuple[int, ...]
) -> list[int]:
    """The fastest local size, by timing, among those that divide `global_size` exactly."""
    limit = prg.dev.renderer.local_max or (1024,) * len(global_size)
    per_axis = [
        [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256) if size % n == 0] for size in global_size
    ]
    best, best_time = [1] * len(global_size), math.inf
    for local in _size_choices(per_axis, limit):
        groups = [g // n for g, n in zip(global_size, local)]
        try:
            took = prg._prg(
                *bufs, global_size=tuple(groups), local_size=tuple(local), vals=vals, wait=True
            )
        except Exception:  # a driver may refuse a size for its own reasons, then it is no candidate
            continue
        if took is not None and took < best_time:
            best, best_time = list(local), took
    if best_time == math.inf:
        raise RuntimeError(
            f"no local size that divides {global_size} can launch {prg.display_name}"
        )
    return best


def _size_choices(per_axis: list[list[int]], limit: tuple[int, ...]) -> list[tuple[int, ...]]:
    choices: list[tuple[int, ...]] = [()]
    for axis, sizes in enumerate(per_axis):
        choices = [(*head, n) for head in choices for n in sizes if n <= limit[axis]]
    most = min(1024, math.prod(limit))
    return [c for c in choices if math.prod(c) <= most]


class CompiledRunner(Runner):
    """A rendered PROGRAM, compiled and loaded on its device. Pickles as `(p, lib)`, so loading compiles nothing.

    `precompiled`: bytes to load instead of compiling; `prg`: a loaded program to use instead of loading.
    """

    def __init__(
        self, p: UOp | StoredProgram, precompiled: bytes | None = None, prg=None, device=None
    ):
        if isinstance(p, StoredProgram):
            self._p: UOp | None = None
            self._stored: StoredProgram | None = p
            self.facts = p.facts
        else:
            self._p, self._stored, self.facts = p, None, ProgramFacts.of(p)
            device = p.device
        facts = self.facts
        if DEBUG >= 3:
            print(facts.applied_opts)
        if DEBUG >= 4:
            print(facts.source)
        dev = Device[device]
        if precompiled is not None:
            self.lib = precompiled
        else:
            with cpu_profile(TracingKey(f"compile {facts.name}", (facts.function_name,)), "TINY"):
                self.lib = dev.compiler.compile_cached(facts.source)
        if DEBUG >= 7:
            dev.compiler.disassemble(self.lib)
        self._prg = dev.runtime(facts.function_name, self.lib) if prg is None else prg
        super().__init__(facts.name, device, facts.estimates)
        self._prepare()

    @property
    def p(self) -> UOp:
        """The rendered PROGRAM; one that an earlier process stored is read when it is asked for."""
        if self._p is None:
            assert self._stored is not None
            self._p = _on_device(self._stored.make(), self.device)
        return self._p

    def on_device(self, device: str) -> CompiledRunner:
        """The same program on another device of the kind."""
        source = self._stored if self._p is None else _on_device(self._p, device)
        assert source is not None
        return CompiledRunner(source, self.lib, device=device)

    def _prepare(self) -> None:
        """Works out once what each launch needs."""
        self._slots = self.facts.globals
        # the runtime itself passes the number of the thread
        self._var_names = tuple([name for name in self.facts.var_names if name != "core_id"])
        self._picked_local: list[int] | None = None
        self._static_dims = all(isinstance(e, int) for e in self.facts.launch_entries())
        self._fixed_dims: Any = self.facts.sizes if self._static_dims else None

    def __reduce__(self):
        return CompiledRunner, (self.p, self.lib)

    def launch_sizes(self, var_vals: dict[str, int]) -> tuple[list[int] | None, list[int] | None]:
        """Global and local size as ints for these variables."""
        if self._fixed_dims is not None:
            return self._fixed_dims
        return self.p.launch_dims(var_vals)

    def pick_buffers(self, bufs: list[Buffer]) -> list[Buffer]:
        """The buffers of the slots the program uses, of a list with one entry a slot."""
        if len(bufs) == len(self._slots):
            return bufs
        return [bufs[slot] for slot in self._slots]

    def pick_vals(self, var_vals: dict[str, int]) -> tuple[int, ...]:
        """The values of the program's variables, in its order. Raises KeyError naming one that is missing."""
        try:
            return tuple([var_vals[name] for name in self._var_names])
        except KeyError as missing:
            raise KeyError(
                f"{self.facts.name} needs a value of variable {missing}; got {var_vals}"
            ) from None

    def __call__(
        self,
        rawbufs: list[Buffer],
        var_vals: dict[str, int],
        wait=False,
        timeout: int | None = None,
    ):
        vals = self.pick_vals(var_vals)
        handles = [b._buf for b in self.pick_buffers(rawbufs)]
        global_size, local_size = self.launch_sizes(var_vals)
        sizes = {}
        if global_size is not None:
            has_local = self.dev.renderer.has_local
            if local_size is None and has_local:
                global_size, local_size = self._size_by_timing(list(global_size), handles, vals)
            sizes["global_size"] = tuple(global_size)
            if local_size is not None:
                sizes["local_size"] = tuple(local_size)
        return self._prg(*handles, **sizes, vals=vals, wait=wait)

    def _size_by_timing(self, global_size: list[int], handles: list[Any], vals: tuple[int, ...]):
        if self._picked_local is None or any(
            g % n for g, n in zip(global_size, self._picked_local)
        ):
            self._picked_local = pick_local_size(self, global_size, handles, vals)
        return [g // n for g, n in zip(global_size, self._picked_local)], self._picked_local


class ViewOp(Runner):
    """Makes one buffer a view of another; there is nothing to run."""

    def __init__(self, buf: Buffer):
        super().__init__(f"view {buf.nbytes:8d} @ {buf.offset:<10d}", buf.device)

    def __call__(self, rawbufs: list[Buffer], var_vals: dict[str, int], wait=False) -> float | None:
        view, whole = rawbufs
        if view.base is not whole.base:
            raise RuntimeError(f"{view} should be a view of {whole}, but its base is {view.base}")
        return None


class BufferCopy(Runner):
    """Copies a buffer of one device into one of another, through the host."""

    verb = "copy"

    def __init__(self, total_sz, dest_device, src_device):
        name = (
            f"{self.verb} {size_to_str(total_sz):>8s}, {dest_device[:7]:>7s} <- {src_device[:7]:7s}"
        )
        super().__init__(name, dest_device, Estimates(lds=total_sz, mem=total_sz))

    def copy(self, dest, src):
        """Both buffers are allocated and equally long. Copies once where either side's memory is open to the host."""
        if hasattr(dest.allocator, "_as_buffer") and not dest.allocator.reports_errors:
            src.allocator._copyout(dest.allocator._as_buffer(dest._buf), src._buf)
        else:
            dest.copyin(src.as_buffer(allow_zero_copy=True))

    def __call__(self, rawbufs: list[Buffer], var_vals: dict[str, int], wait=False) -> float | None:
        dest, src = rawbufs[:2]
        if dest.nbytes != src.nbytes:
            raise RuntimeError(
                f"a copy is between equals, got {src.nbytes} bytes of {src} for {dest.nbytes} of {dest}"
            )
        start = time.perf_counter()
        self.copy(dest, src)
        if not wait:
            return None
        Device[dest.device].synchronize()
        return time.perf_counter() - start


class BufferXfer(BufferCopy):
    """Copies between two devices of a kind that reach each other's memory."""

    verb = "xfer"

    def copy(self, dest, src):
        dest.allocator._transfer(
            dest._buf, src._buf, dest.nbytes, src_dev=src.allocator.dev, dest_dev=dest.allocator.dev
        )


# ---------------------------------------------------------------- the cache of runners

# by (device, what the code depends on)
method_cache: dict[tuple, CompiledRunner] = {}
# by (kind of device, ditto): one runner, from which those of the other devices of the kind are made
_kind_cache: dict[tuple, CompiledRunner] = {}


def _on_device(program: UOp, device: str) -> UOp:
    place = UOp(Ops.DEVICE, arg=device)
    return program.replace(src=(program.src[0], place, *program.src[2:]))


def _make_runner(device: str, ast: UOp) -> CompiledRunner:
    if Device.backend(device).storage_only:
        raise RuntimeError(
            f"{device} only stores and runs no kernels: move the tensor with .to() first"
        )
    if ast.op is Ops.PROGRAM:
        return CompiledRunner(_on_device(ast, device))
    renderer = Device[device].renderer
    informed = ast if ast.arg is not None else ast.replace(arg=KernelInfo())
    stored = load_stored(informed, renderer, lambda: get_program(informed, renderer))
    if stored is not None:
        return CompiledRunner(stored, device=device)
    return CompiledRunner(_on_device(get_program(ast, renderer), device))


def get_runner(device: str, ast: UOp) -> CompiledRunner:
    """The runner of a kernel AST (or of a PROGRAM) on `device`, made at most once for each kind of device."""
    compiler = Device[device].compiler
    kind = device.partition(":")[0]
    about = (type(compiler), compiler.cachekey, ast.key, code_context())
    if (found := method_cache.get((device, about))) is not None:
        return found
    if (sibling := _kind_cache.get((kind, about))) is not None:
        made = sibling.on_device(device)
    else:
        made = _kind_cache[(kind, about)] = _make_runner(device, ast)
    method_cache[(device, about)] = made
    return made


# ---------------------------------------------------------------- items

# captures that are under way, one a thread
capturing: list[TinyJit] = []


def current_capture() -> TinyJit | None:
    """The capture of this thread. Other threads' work is not part of it."""
    if not capturing:
        return None
    here = threading.get_ident()
    return next((jit for jit in capturing if jit.capture_thread == here), None)


@contextmanager
def not_recorded() -> Iterator[None]:
    """What this thread runs inside is no part of its capture."""
    capture = current_capture()
    if capture is None:
        yield
        return
    capturing.remove(capture)
    try:
        yield
    finally:
        capturing.append(capture)


def _copy_runner(dest: Buffer, src: Buffer) -> BufferCopy:
    kinds = {b.device.partition(":")[0] for b in (dest, src)}
    can_transfer = (
        len(kinds) == 1 and hasattr(dest.allocator, "_transfer") and dest.device != src.device
    )
    return (BufferXfer if can_transfer else BufferCopy)(dest.nbytes, dest.device, src.device)


def copy_buffer(dest: Buffer, src: Buffer) -> None:
    """Copies between two allocated buffers of one size and one device, at once and as no part of any schedule."""
    if hasattr(src.allocator, "_transfer"):
        dev = Device[src.device]
        src.allocator._transfer(dest._buf, src._buf, src.nbytes, src_dev=dev, dest_dev=dev)
    else:
        _copy_runner(dest, src).copy(dest, src)


@dataclass
class ExecItem:
    """One step of a schedule: an AST, its buffers by slot, and, once lowered, what runs it."""

    ast: UOp
    bufs: list[Buffer | None] = field(default_factory=list)
    metadata: tuple[Metadata, ...] = field(default=())
    fixedvars: dict[str, int] = field(default_factory=dict)
    prg: Runner | None = None
    launched: bool = field(default=False, repr=False, compare=False)

    def lower(self) -> ExecItem:
        """Gives the item its runner and returns it. An error says for which kernel."""
        if self.prg is not None:
            return self
        try:
            self.prg = self._make_runner()
        except Exception as error:
            where = ", ".join(dict.fromkeys(str(m) for m in self.metadata)) or "no metadata"
            error.add_note(f"while lowering {self.ast.op.name} of {where}")
            if DEBUG >= 2:
                print(f"error lowering {self.ast.op.name}: {error}")
                print(f"tensor operations: {where}")
            raise
        return self

    def _make_runner(self) -> Runner:
        op = self.ast.op
        if op in (Ops.SINK, Ops.PROGRAM):
            return get_runner(self._buffer(0).device, self.ast)
        if op is Ops.BUFFER_VIEW:
            return ViewOp(self._buffer(0))
        if op is Ops.COPY:
            return _copy_runner(self._buffer(0), self._buffer(1))
        raise RuntimeError(f"a schedule holds kernels (SINK), COPY and BUFFER_VIEW, got {op.name}")

    def _buffer(self, slot: int) -> Buffer:
        if slot >= len(self.bufs) or (buf := self.bufs[slot]) is None:
            raise RuntimeError(f"{self.ast.op.name} has no buffer in slot {slot}")
        return buf

    def run(
        self, _var_vals: dict[str, int] | None = None, wait=False, jit=False, do_update_stats=True
    ) -> float | None:
        """Launches the item, lowering it if it was not; returns the seconds if it waited (DEBUG>=2 waits)."""
        if self.prg is None:
            self.lower()
        assert self.prg is not None
        var_vals = self.fixedvars if not _var_vals else {**_var_vals, **self.fixedvars}
        bufs = [self._buffer(slot).ensure_allocated() for slot in range(len(self.bufs))]
        timed = wait or DEBUG >= 2
        if PROFILE:
            from tinygrad.engine.launch_profile import profiled_launch

            run, is_copy = self.prg, isinstance(self.prg, BufferCopy)
            took = profiled_launch(
                self, bufs, var_vals, is_copy, lambda: run(bufs, var_vals, wait=timed)
            )
        else:
            took = self.prg(bufs, var_vals, wait=timed)
        self.launched = True
        if do_update_stats:
            self._count(bufs, var_vals, took, jit)
        return took

    def _count(
        self, bufs: list[Buffer], var_vals: dict[str, int], took: float | None, jit: bool
    ) -> None:
        prg = self.prg
        assert prg is not None
        GlobalCounters.kernel_count += 1
        GlobalCounters.global_ops += (ops := sym_infer(prg.estimates.ops, var_vals))
        GlobalCounters.global_mem += (mem := sym_infer(prg.estimates.mem, var_vals))
        if took is not None:
            GlobalCounters.time_sum_s += took
        if DEBUG >= 2:
            print_item(self, len(bufs), took, ops, sym_infer(prg.estimates.lds, var_vals), mem, jit)
        prg.first_run = False


def _run_step(item: ExecItem, var_vals: dict[str, int] | None, do_update_stats: bool) -> None:
    if CAPTURING and (capture := current_capture()) is not None:
        capture.add(item)
    if VALIDATE_WITH_CPU and item.ast.op is Ops.SINK:
        from tinygrad.engine.validate import run_validated

        run_validated(item, var_vals, do_update_stats)
    else:
        item.run(var_vals, do_update_stats=do_update_stats)


def run_schedule(
    schedule: list[ExecItem], var_vals: dict[str, int] | None = None, do_update_stats=True
) -> None:
    """Runs the items in order and empties the list, so that a buffer dies after its last use.

    Where one fails, it and those after it are left to `engine.interrupted`, which sees to it that nobody reads what they
    would have filled.
    """
    pending = deque(schedule)
    schedule.clear()
    try:
        with interrupted.BetweenSteps() as between:
            while pending:
                between.check()
                item = pending[0].lower()
                item.launched = False
                launch = partial(_run_step, item, var_vals, do_update_stats)
                interrupted.run_step(item, launch)
                pending.popleft()
    except BaseException:
        if pending and pending[0].launched:  # and then what is printed about it failed
            pending.popleft()
        interrupted.leave(pending, var_vals)
        raise


def finish_interrupted() -> None:
    """Runs what is left of schedules that failed; no capture under way takes part in it."""
    if interrupted.is_any_left():
        with not_recorded():
            interrupted.finish(run_schedule)
