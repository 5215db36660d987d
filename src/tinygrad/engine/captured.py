"""A capture of TinyJit: recorded launches, and how the inputs of a call go into them.

In: the items of one run, and for each input the slots it stands in. A call puts buffers into the slots and launches everything,
in graphs where the device has them. Also here: which items give the same every time (`split_once`).

Invariants: between calls the slots of inputs are empty; an input that the kernels would overwrite while they run is copied
aside; buffers of the capture stay where they are until it is freed or packed.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tinygrad.device import Buffer
from tinygrad.dtype import DType
from tinygrad.engine import sharing
from tinygrad.engine.effects import Effects
from tinygrad.engine.graph import (
    apply_graph_to_jit,
    get_input_replace,
    get_out_buffers_for_ei,
    get_updated_buffers,
    update_depends,
)
from tinygrad.engine.jit_args import JitError, Outputs, tensors_in
from tinygrad.engine.memory import _internal_memory_planner
from tinygrad.engine.realize import CompiledRunner, ExecItem, ViewOp, copy_buffer
from tinygrad.engine.watch_values import Anything
from tinygrad.helpers import JIT, JIT_BATCH_SIZE
from tinygrad.uop.ops import Ops, UOp

ReturnType = TypeVar("ReturnType")


@dataclass
class CapturedJit(Generic[ReturnType]):
    """Recorded launches and how a call's inputs go into them.

    `input_replace`: (item, slot) -> number of an input; `extra_view_inputs`: views into inputs, (input, offset in bytes,
    device, size, dtype), numbered on after the inputs. In `jit_cache` the slots of inputs are empty between calls.
    """

    ret: Any
    jit_cache: list[ExecItem]
    input_replace: dict[tuple[int, int], int]
    extra_view_inputs: list[tuple[int, int, str, int, DType]]
    expected_names: list[int | str]
    expected_st_vars_dtype_device: list[tuple[UOp, tuple[UOp, ...], DType, str]]
    outputs: Outputs | None = None
    fixed: list[tuple[int | str, UOp]] = field(default_factory=list)
    plain: list[tuple[int | str, Any]] = field(default_factory=list)
    input_count: int = -1  # how many input buffers there are, without views; -1: one for each name

    def __post_init__(self) -> None:
        # tensors whose memory the kernels use: the node and the memory that each had
        self.surroundings: list[weakref.ref] = []
        self.surroundings_nodes: list[UOp] = []
        self.surroundings_memory: list[set[Buffer]] = []
        # memory that is read, by kernels or as results, and values that Python saw
        self.used: set[Buffer] = set()
        self.used_nodes: set[UOp] = set()
        self.seen_values: list[tuple[Buffer, bytes]] = []
        self.frozen: list[Any] = []
        self.effects = Effects()
        self.splits = sharing.splits()
        if self.input_count < 0:
            self.input_count = len(self.expected_names)
        self._start_over()
        self._clear_inputs()

    def __reduce__(self):
        kinds = (int, float, str, bytes, type(None))
        plain = [(name, v if isinstance(v, kinds) else Anything()) for name, v in self.plain]
        args = (
            self.ret,
            self.jit_cache,
            self.input_replace,
            self.extra_view_inputs,
            self.expected_names,
        )
        return type(self), (
            *args,
            self.expected_st_vars_dtype_device,
            self.outputs,
            self.fixed,
            plain,
            self.input_count,
        )

    def _start_over(self) -> None:
        """Forgets graphs and what is known about the buffers."""
        self._jit_cache, self._input_replace = self.jit_cache, self.input_replace
        self._ready = False
        inputs = {self._slot_buffer(key) for key in self.input_replace}
        self._written: set[Buffer] = set()
        for item in self.jit_cache:
            for buf in (*get_out_buffers_for_ei(item), *get_updated_buffers(item)):
                if buf not in inputs:
                    self._written.add(buf.base)
        self._updates_inputs = self._find_updated_inputs()

    def _slot_buffer(self, key: tuple[int, int]) -> Buffer | None:
        return self.jit_cache[key[0]].bufs[key[1]]

    def _find_updated_inputs(self) -> set[int]:
        """Numbers of the inputs that the kernels write."""
        found = set()
        for (j, slot), number in self.input_replace.items():
            prg = self.jit_cache[j].prg
            writes = slot in prg.facts.outs if isinstance(prg, CompiledRunner) else slot == 0
            if writes and not isinstance(prg, ViewOp):
                view = number - self.input_count
                found.add(self.extra_view_inputs[view][0] if view >= 0 else number)
        return found

    def written_by(self, input_buffers: list[Buffer]) -> set[Buffer]:
        """The bases that a call with these inputs writes to."""
        return self._written.union([input_buffers[number].base for number in self._updates_inputs])

    def _clear_inputs(self) -> None:
        for j, slot in self._input_replace:
            self._jit_cache[j].bufs[slot] = None
        for j, slot in self.input_replace:
            self.jit_cache[j].bufs[slot] = None

    def __call__(self, input_buffers: list[Buffer], var_vals: dict[str, int]) -> Any:
        """Launches everything on these inputs. Returns the captured result object."""
        inputs = [self._aside(number, buf) for number, buf in enumerate(input_buffers)]
        for number, offset, device, size, dtype in self.extra_view_inputs:
            base = inputs[number]
            view = Buffer(device, size, dtype, base=base.base, offset=base.offset + offset)
            inputs.append(view.ensure_allocated())
        if not self._ready:
            self._get_ready(inputs, var_vals)
        for (j, slot), number in self._input_replace.items():
            self._jit_cache[j].bufs[slot] = inputs[number]
        try:
            for item in self._jit_cache:
                item.run(var_vals, jit=True)
        finally:
            self._clear_inputs()
        return self.ret

    def _aside(self, number: int, buf: Buffer) -> Buffer:
        """The input itself, or a copy where the kernels would overwrite it while they run."""
        if buf.base not in self._written:
            return buf
        if number in self._updates_inputs:
            raise JitError(
                f"input {number} is written by the captured kernels and is also one of their own buffers; "
                "pass a clone: x.clone().realize()"
            )
        copy = Buffer(buf.device, buf.size, buf.dtype).ensure_allocated()
        copy_buffer(copy, buf.ensure_allocated())
        return copy

    def _get_ready(self, inputs: list[Buffer], var_vals: dict[str, int]) -> None:
        """Allocates what the kernels need and makes graphs."""
        for (j, slot), number in self.input_replace.items():
            self.jit_cache[j].bufs[slot] = inputs[number]
        for item in self.jit_cache:
            for buf in item.bufs:
                if buf is not None:
                    buf.ensure_allocated()
        self._jit_cache, self._input_replace = self.jit_cache, self.input_replace
        if JIT < 2:
            self._jit_cache = apply_graph_to_jit(
                self.jit_cache, inputs, var_vals, max_batch_size=JIT_BATCH_SIZE.value
            )
            self._input_replace = get_input_replace(self._jit_cache, inputs)
        self._ready = True

    def free_intermediates(self):
        """Frees the memory of everything the kernels fill. The next call allocates it again."""
        depends: set[Buffer | None] = {None}
        update_depends(depends, self.jit_cache)
        for buf in {b for b in depends if b is not None}:
            if buf.is_initialized():
                buf.deallocate()
            base = buf.base
            if base is not buf and base.is_initialized() and base.allocated_views == 0:
                base.deallocate()
        self._start_over()

    def replan_buffers_memory_layout(self):
        """Moves buffers into as few allocations as possible, with what they hold.

        The result's stay, and state: memory that others know and the kernels write. What the kernels only read is copied,
        so that later changes of it are not seen.
        """
        results = {
            u.base.realized
            for t in tensors_in(self.ret)
            for u in t.uop.toposort()
            if u.op is Ops.BUFFER
        }
        keep = {b.base for b in results if isinstance(b, Buffer)}
        keep |= {b for b in self._written if b.uop_refcount > 0}
        every = [
            b for item in self.jit_cache for b in item.bufs if b is not None and b.base not in keep
        ]
        # all in one step: what the kernels only read has to last from call to call
        moved = _internal_memory_planner([every], noopt_buffers=keep, ignore_checks=True)
        for item in self.jit_cache:
            item.bufs = [None if b is None else moved.get(b, b) for b in item.bufs]
        for old, new in moved.items():
            if old.is_allocated():
                new.ensure_allocated().copyin(old.ensure_allocated().as_buffer())
        self._start_over()


# ---------------------------------------------------------------- pruning


def _takes_variables(item: ExecItem) -> bool:
    """Whether an item is launched with values that a call brings."""
    names = getattr(item.prg, "_var_names", ())
    return any(name not in item.fixedvars for name in names)


def split_once(
    items: list[ExecItem], filled_first: Collection[Buffer] = ()
) -> tuple[list[ExecItem], list[ExecItem]]:
    """(items to repeat, items that give the same every time). Inputs stand in the items as None.

    An item repeats if it is launched with the value of a variable, or reads or writes something that varies: an input,
    something updated in place or written twice, something that the surroundings may write, or what a repeating item fills. `filled_first` is
    memory that exists because the capture ran, though a tensor outside may know it by now: a table that the function keeps.
    """
    varying: set[Buffer | None] = {None}
    for item in items:
        varying.update(get_updated_buffers(item))
        outs = get_out_buffers_for_ei(item)
        # memory that existed before belongs to somebody else: filling it again each time is what was asked for
        varying.update(b for b in outs if b.base.is_allocated() and b.base not in filled_first)
    bases = {b.base for b in varying if b is not None}
    # what is written more than once holds something else at the end than those in between read
    writers = Counter(
        base for item in items for base in {b.base for b in get_out_buffers_for_ei(item)}
    )
    bases.update(base for base, times in writers.items() if times > 1)
    repeats: dict[int, None] = {}
    changed = True
    while changed:
        changed = False
        for j, item in enumerate(items):
            varies = _takes_variables(item) or any(b is None or b.base in bases for b in item.bufs)
            if j in repeats or not varies:
                continue
            repeats[j], changed = None, True
            bases.update(b.base for b in get_out_buffers_for_ei(item))
    kept = [item for j, item in enumerate(items) if j in repeats]
    once = [item for j, item in enumerate(items) if j not in repeats]
    return kept, once
