"""The kernel scheduler: a kernel AST with its axes, the legal moves on them, and the AST that results.

In: a SINK of END'ed stores whose loops are RANGE nodes, and the target's Renderer. Out: the same computation with ranges
split, retyped and reordered, its KernelInfo filled in. An axis may be split by an amount that does not divide it where
the target works on vectors: the axis is then virtually padded until `get_optimized_ast`, which cuts the remainder off into
constant tails (`tails.py`), so that no optimised loop ever tests a bound. Called by `apply_opts`, BEAM and the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps, check
from tinygrad.codegen.opt.ranges import (
    AXIS_COLOURS,
    axis_key,
    axis_type,
    const_size,
    ranges_of,
    substitute_ranges,
)
from tinygrad.codegen.opt.tails import Tail, cut_tails
from tinygrad.codegen.opt.threads import split_over_threads
from tinygrad.dtype import dtypes
from tinygrad.helpers import BEAM, NOOPT, ceildiv, colored, round_up, to_function_name
from tinygrad.uop.ops import AxisType, GroupOp, KernelInfo, Ops, UOp, sint

# without vector registers more lanes than this only bloat the code
_MOST_SCALAR_UPCAST = 16
_MOST_SCALAR_UNROLL = 32
_MOST_LANES = 256

_OUTPUT_AXES = (AxisType.GLOBAL, AxisType.LOCAL, AxisType.LOOP)
_REDUCE_AXES = (AxisType.GROUP_REDUCE, AxisType.REDUCE)


class Scheduler:
    """One kernel being optimised. `apply_opt` changes it or raises KernelOptError and leaves it alone."""

    def __init__(self, ast: UOp, ren):
        self.ast, self.ren = ast, ren
        info = ast.arg if isinstance(ast.arg, KernelInfo) else KernelInfo()
        self.applied_opts: list[Opt] = list(info.applied_opts)
        self.dont_use_locals: bool = info.dont_use_locals
        self.tails: list[Tail] = []
        self.thread_axis: tuple[UOp, int] | None = None
        self._rngs: list[UOp] | None = None
        self._next_axis = 1 + max((r.arg[0] for r in self.rngs), default=-1)

    def copy(self) -> Scheduler:
        twin = Scheduler.__new__(Scheduler)
        twin.__dict__.update(self.__dict__)
        twin.applied_opts, twin.tails = list(self.applied_opts), list(self.tails)
        return twin

    # *** what the kernel looks like ***

    @property
    def rngs(self) -> list[UOp]:
        """All ranges in axis order."""
        if self._rngs is None:
            self._rngs = ranges_of(self.ast)
        return self._rngs

    @property
    def full_shape(self) -> tuple[sint, ...]:
        return tuple(s if (s := const_size(r)) is not None else r.src[0] for r in self.rngs)

    @property
    def axis_types(self) -> list[AxisType]:
        return [axis_type(r) for r in self.rngs]

    @property
    def shape_len(self) -> int:
        return len(self.rngs)

    @property
    def upcasted(self) -> int:
        return len(self.axes_of(AxisType.UPCAST, AxisType.UNROLL))

    @property
    def output_shape(self) -> tuple[sint, ...]:
        inner = (AxisType.REDUCE, AxisType.UNROLL, AxisType.GROUP_REDUCE)
        return tuple(1 if t in inner else s for s, t in zip(self.full_shape, self.axis_types))

    @property
    def reduceops(self) -> list[UOp]:
        return [u for u in self.ast.toposort() if u.op is Ops.REDUCE]

    @property
    def reduceop(self) -> UOp | None:
        return next(iter(self.reduceops), None)

    @property
    def bufs(self) -> list[UOp]:
        """The INDEX nodes, stores first."""
        found = [u for u in self.ast.toposort() if u.op is Ops.INDEX]
        stored = {u.src[0] for u in self.ast.toposort() if u.op is Ops.STORE}
        return [u for u in found if u in stored] + [u for u in found if u not in stored]

    def axes_of(self, *kinds: AxisType) -> list[int]:
        return [i for i, t in enumerate(self.axis_types) if t in kinds]

    @property
    def upcastable_dims(self) -> list[int]:
        return [i for i in self.axes_of(*_OUTPUT_AXES) if self._size(i) > 1]

    @property
    def unrollable_dims(self) -> list[int]:
        return [i for i in self.axes_of(*_REDUCE_AXES) if self._size(i) > 1]

    def upcast_size(self) -> int:
        size = 1
        for i in self.axes_of(AxisType.UPCAST, AxisType.UNROLL):
            size *= self._size(i)
        return size

    def group_for_reduces(self) -> int:
        return len(self.axes_of(AxisType.GROUP_REDUCE))

    def _size(self, axis: int) -> int:
        """The constant size of an axis; 0 for a symbolic one, which cannot be split."""
        return const_size(self.rngs[axis]) or 0

    def colors(self) -> list[str]:
        return [AXIS_COLOURS[t] for t in self.axis_types]

    def colored_shape(self) -> str:
        sizes = [str(s) if isinstance(s, int) else s.render() for s in self.full_shape]
        return " ".join(colored(f"{s:>4}", c) for s, c in zip(sizes, self.colors()))

    def shape_str(self) -> list[str]:
        counters: dict[str, int] = {}
        letters = {
            AxisType.GLOBAL: "g", AxisType.THREAD: "t", AxisType.WARP: "w", AxisType.LOCAL: "l", AxisType.LOOP: "L",
            AxisType.UPCAST: "u", AxisType.GROUP_REDUCE: "G", AxisType.REDUCE: "R", AxisType.UNROLL: "r",
            AxisType.OUTER: "O", AxisType.PLACEHOLDER: "?",
        }  # fmt: skip
        names = []
        for kind in self.axis_types:
            letter = letters[kind]
            names.append(f"{letter}{counters.get(letter, 0)}")
            counters[letter] = counters.get(letter, 0) + 1
        return names

    # *** moves ***

    def fresh_range(self, size: int | UOp, kind: AxisType) -> UOp:
        end = UOp.const(dtypes.index, size) if isinstance(size, int) else size
        made = UOp.range(end, self._next_axis, kind)
        self._next_axis += 1
        return made

    def _replace(self, replacements: dict[UOp, UOp]) -> None:
        self.ast = substitute_ranges(self.ast, replacements)
        self._rngs = None

        # what is kept of ranges for later follows them to their new places
        def now(rng: UOp) -> UOp:
            new = replacements.get(rng, rng)
            return new if new.op is Ops.RANGE else rng

        self.tails = [Tail(now(t.outer), now(t.inner), t.size) for t in self.tails]
        if self.thread_axis is not None:
            self.thread_axis = now(self.thread_axis[0]), self.thread_axis[1]

    def convert_loop_to_global(self) -> None:
        """Output loops become launch dimensions on targets that have them."""
        if not self.ren.has_local:
            return
        closed = [end.src[1:] for end in self.ast.src if end.op is Ops.END]
        common = set(closed[0]).intersection(*closed[1:]) if closed else set()
        loops = [r for r in self.rngs if axis_type(r) is AxisType.LOOP and r in common]
        self._replace({r: r.replace(arg=(*r.arg[:-1], AxisType.GLOBAL)) for r in loops})

    def shift_to(
        self, rng: UOp, amount: int, new_type: AxisType, top: bool = False
    ) -> tuple[UOp | None, UOp]:
        """Splits `amount` iterations off an axis into a new one: the inner, or the outer with `top`.

        Returns (what is left of the axis or None, the new axis). An amount that does not divide is legal for UPCAST and
        UNROLL where the target has vectors; the remainder becomes a tail.
        """
        size = const_size(rng)
        check(size is not None, f"the axis {rng.render()} has a symbolic size and cannot be split")
        assert size is not None
        check(0 < amount <= size, f"cannot take {amount} of an axis of {size}")
        if amount == size:
            whole = self.fresh_range(size, new_type)
            self._replace({rng: whole})
            return None, whole
        rest_size, remainder = divmod(size, amount)
        inner = self.fresh_range(amount, new_type)
        if remainder:
            allowed = new_type in (AxisType.UPCAST, AxisType.UNROLL) and self.supports_tails(rng)
            check(allowed, f"{amount} does not divide {size}")
            outer = rng.replace(src=(UOp.const(dtypes.index, ceildiv(size, amount)),))
            self.tails.append(Tail(outer, inner, size))
        else:
            outer = rng.replace(src=(UOp.const(dtypes.index, rest_size),))
        self._replace({rng: inner * rest_size + outer if top else outer * amount + inner})
        return outer, inner

    def supports_tails(self, rng: UOp) -> bool:
        """Tails are cut from plain loops, on targets whose vectors may have any number of lanes."""
        plain = axis_type(rng) in (AxisType.LOOP, AxisType.REDUCE)
        return plain and bool(getattr(self.ren, "vector_bytes", 0)) and not self._has_tail(rng)

    def _has_tail(self, rng: UOp) -> bool:
        return any(rng in (t.outer, t.inner) for t in self.tails)

    def real_axis(self, op: OptOps, axis: int | None) -> int:
        """The index among all axes of the axis that an Opt names."""
        if axis is None:
            return -1
        pool = list(range(self.shape_len))
        if op is OptOps.UNROLL:
            pool = self.unrollable_dims
        elif op in (OptOps.GROUP, OptOps.GROUPTOP):
            pool = self.axes_of(AxisType.REDUCE)
        check(0 <= axis < len(pool), f"{op.name} names axis {axis}, but there are {len(pool)}")
        return pool[axis]

    def apply_opt(self, opt: Opt, append_opt: bool = True):
        """Does one step. Raises KernelOptError when it is not legal here."""
        if opt.op is OptOps.NOLOCALS:
            check(self.ren.has_local and not self.axes_of(AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE),
                  "NOLOCALS comes before any local axis, on a target that has them")  # fmt: skip
            self.dont_use_locals = True
            result = None
        elif opt.op is OptOps.TC:
            check(bool(self.ren.tensor_cores), f"{self.ren.device} has no tensor cores")
            raise KernelOptError("no tensor core fits this kernel")
        else:
            axis = self.real_axis(opt.op, opt.axis)
            check(0 <= axis < self.shape_len, f"{opt.op.name} needs an axis, got {opt.axis}")
            result = self._apply_to_axis(opt, self.rngs[axis])
        if append_opt:
            self.applied_opts.append(opt)
        return result

    def _apply_to_axis(self, opt: Opt, rng: UOp):
        if opt.op is OptOps.SWAP:
            return self._swap(rng, opt.arg)
        if opt.op is OptOps.PADTO:
            return self._pad_to(rng, opt.arg)
        amount: Any = opt.arg
        check(
            isinstance(opt.arg, int) and opt.arg >= 0,
            f"{opt.op.name} needs an amount, got {opt.arg!r}",
        )
        size = const_size(rng)
        check(size is not None, f"axis {opt.axis} has a symbolic size")
        amount = amount or size
        kind = axis_type(rng)
        check(
            not (self._has_tail(rng) and opt.op is not OptOps.THREAD),
            "the axis has a tail and cannot be split again",
        )
        if opt.op is OptOps.THREAD:
            return self._thread(rng, amount)
        if opt.op is OptOps.UPCAST:
            self._check_upcast(kind, amount)
            return self.shift_to(rng, amount, AxisType.UPCAST)
        if opt.op is OptOps.UNROLL:
            self._check_unroll(rng, kind, amount)
            return self.shift_to(rng, amount, AxisType.UNROLL)
        check(
            self.ren.has_local and not self.dont_use_locals,
            f"{self.ren.device} has no local dimensions",
        )
        if opt.op is OptOps.LOCAL:
            check(
                kind in (AxisType.GLOBAL, AxisType.LOOP),
                f"LOCAL is for output axes, axis {opt.axis} is {kind.name}",
            )
            return self.shift_to(rng, amount, AxisType.LOCAL)
        self._check_group(rng, amount)
        return self.shift_to(rng, amount, AxisType.GROUP_REDUCE, top=opt.op is OptOps.GROUPTOP)

    def _check_upcast(self, kind: AxisType, amount: int) -> None:
        check(kind in _OUTPUT_AXES, f"UPCAST is for output axes, this one is {kind.name}")
        most = _MOST_LANES if getattr(self.ren, "vector_bytes", 0) else _MOST_SCALAR_UPCAST
        check(amount <= most, f"UPCAST by {amount} is more than {most}")
        check(self.upcast_size() * amount <= 4 * _MOST_LANES, "too many lanes")

    def _check_unroll(self, rng: UOp, kind: AxisType, amount: int) -> None:
        check(kind in _REDUCE_AXES, f"UNROLL is for reduce axes, this one is {kind.name}")
        most = _MOST_LANES if getattr(self.ren, "vector_bytes", 0) else _MOST_SCALAR_UNROLL
        check(amount <= most, f"UNROLL by {amount} is more than {most}")
        check(self.upcast_size() * amount <= 4 * _MOST_LANES, "too many lanes")

    def _check_group(self, rng: UOp, amount: int) -> None:
        check(self.ren.has_shared, f"{self.ren.device} has no shared memory")
        reduces = [u for u in self.reduceops if rng in u.src[1:]]
        for outer in self.reduceops:
            inside = outer.src[0].toposort()
            check(
                not any(r in inside for r in reduces),
                "a reduce inside another reduce cannot be grouped",
            )
        itemsize = max((u.dtype.itemsize for u in reduces), default=4)
        threads = amount * self.upcast_size()
        for i in self.axes_of(AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE):
            threads *= self._size(i)
        check(
            threads * itemsize <= self.ren.shared_max,
            f"{threads * itemsize} bytes exceed the shared memory",
        )

    def _thread(self, rng: UOp, amount: int):
        check(self.ren.has_threads, f"{self.ren.device} does not run kernels on threads")
        most = (self.ren.global_max or (1,))[0]
        check(1 < amount <= most, f"THREAD by {amount} on a target with {most}")
        check(self.thread_axis is None, "the kernel is split over threads already")
        check(axis_type(rng) in (AxisType.LOOP, AxisType.GLOBAL), "THREAD is for output loops")
        for end in self.ast.src:
            check(end.op is Ops.END and rng in end.src[1:], "the axis is not common to all stores")
        check(
            (const_size(rng) or 0) >= amount,
            f"an axis of {const_size(rng)} cannot feed {amount} threads",
        )
        self.thread_axis = (rng, amount)
        return

    def _swap(self, rng: UOp, other: object) -> None:
        check(
            isinstance(other, int) and 0 <= other < self.shape_len,
            f"SWAP needs a second axis, got {other}",
        )
        assert isinstance(other, int)
        partner = self.rngs[other]
        check(rng is not partner, "SWAP needs two different axes")
        same = axis_type(rng) is axis_type(partner) and axis_type(rng) in (
            AxisType.GLOBAL,
            AxisType.LOOP,
        )
        check(same, "SWAP is for two output axes of one kind")
        # both at once, through placeholders that no kernel has
        kind = axis_type(rng)
        middle = {rng: rng.replace(arg=(partner.arg[0], AxisType.PLACEHOLDER)),
                  partner: partner.replace(arg=(rng.arg[0], AxisType.PLACEHOLDER))}  # fmt: skip
        self._replace(middle)
        self._replace({m: m.replace(arg=(*m.arg[:-1], kind)) for m in middle.values()})

    def _pad_to(self, rng: UOp, multiple: object) -> None:
        check(
            isinstance(multiple, int) and multiple > 0, f"PADTO needs a multiple, got {multiple!r}"
        )
        assert isinstance(multiple, int)
        size = const_size(rng)
        check(size is not None, "an axis of symbolic size cannot be padded")
        assert size is not None
        kind = axis_type(rng)
        check(
            kind not in (AxisType.UPCAST, AxisType.UNROLL, AxisType.THREAD),
            f"cannot pad a {kind.name} axis",
        )
        padded = round_up(size, multiple)
        check(padded < size * 4, f"padding {size} to {padded} does more than four times the work")
        if kind in _REDUCE_AXES:
            self._check_reduce_padding(rng)
        longer = rng.replace(src=(UOp.const(dtypes.index, padded),))
        inside = longer < size
        guarded = {}
        for u in self.ast.toposort():
            if u.op is Ops.INDEX and rng in u.src[1].toposort():
                idx = u.src[1].substitute({rng: longer})
                guarded[u] = u.replace(
                    src=(u.src[0], idx.get_idx().valid(idx.get_valid() & inside), *u.src[2:])
                )
        self.ast = self.ast.substitute(guarded)
        self._replace({rng: longer})

    def _check_reduce_padding(self, rng: UOp) -> None:
        """A padded read gives 0, which must stay 0 up to the sum."""
        for u in self.reduceops:
            if rng not in u.src[1:]:
                continue
            check(u.arg is Ops.ADD, f"padding is not neutral for a {u.arg.name} reduce")
            unsafe = [x.op.name for x in u.src[0].toposort() if x.op in GroupOp.UnsafePad]
            check(
                not unsafe,
                f"{', '.join(sorted(set(unsafe)))} may turn padding into something else than 0",
            )

    # *** the result ***

    def kernel_name(self) -> str:
        """E for elementwise or r for reduce, then the sizes of the axes in their colours."""
        letter = "r" if self.reduceop is not None else "E"
        sizes = [
            to_function_name(str(s) if isinstance(s, int) else s.render()) for s in self.full_shape
        ]
        parts = [letter, *(colored(s, c) for s, c in zip(sizes, self.colors()))]
        return colored("_", "BLACK").join(parts)

    def get_optimized_ast(self, name_override: str | None = None) -> UOp:
        """The AST with everything applied, and a KernelInfo that says so."""
        info = self.ast.arg if isinstance(self.ast.arg, KernelInfo) else KernelInfo()
        given = info.name if info.name not in ("", "test") else None
        name = name_override or given or self.kernel_name()
        kinds = tuple(self.axis_types)
        ast = cut_tails(self.ast, self.tails, self.fresh_range)
        if self.thread_axis is not None:
            ast = split_over_threads(ast, *self.thread_axis, self.fresh_range)
        done = KernelInfo(name, kinds, self.dont_use_locals, tuple(self.applied_opts))
        return ast.replace(arg=done, tag=1)


def _is_optimised(ast: UOp) -> bool:
    return ast.tag is not None


def apply_opts(ast: UOp, ren) -> UOp:
    """The optimised AST: with the opts it asks for, else the best that BEAM finds, else by the heuristic."""
    if _is_optimised(ast):
        return ast
    k = Scheduler(ast, ren)
    k.convert_loop_to_global()
    wanted: Sequence[Opt] | None = (
        ast.arg.opts_to_apply if isinstance(ast.arg, KernelInfo) else None
    )
    if wanted is not None:
        for opt in wanted:
            k.apply_opt(opt)
    elif BEAM >= 1 and _can_search(ast):
        from tinygrad.codegen.opt.search import beam_search, buffers_for

        k = beam_search(k, buffers_for(ast, ren), BEAM.value)
    elif not NOOPT and _written_by_scheduler(ast):
        from tinygrad.codegen.opt.heuristic import hand_coded_optimizations

        k = hand_coded_optimizations(k)
    return k.get_optimized_ast()


def _written_by_scheduler(ast: UOp) -> bool:
    """Kernels written by hand order their own loops and registers; nothing may be moved in them unasked."""
    if any(
        u.op in (Ops.AFTER, Ops.BARRIER, Ops.DEFINE_LOCAL, Ops.DEFINE_REG, Ops.CUSTOM)
        for u in ast.toposort()
    ):
        return False
    return all(end.op is Ops.END and end.src[0].op is Ops.STORE for end in ast.src)


def _can_search(ast: UOp) -> bool:
    return _written_by_scheduler(ast) and all(
        const_size(u) is not None for u in ast.toposort() if u.op is Ops.RANGE
    )


__all__ = ["Scheduler", "apply_opts", "axis_key"]
