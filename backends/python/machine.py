"""The interpreter: instruction lists, scalar or vector, executed for a whole work-group in step.

In: the instructions of a LINEAR, memory as memoryviews, launch sizes, values of variables. Out: what the kernel stores. A value
is a list of lanes (one for a scalar), and a lane is a list with an entry for each thread of the group; threads that a branch
excludes hold None. Every result is rounded or wrapped to its dtype, so results are exact.

Invariants: an access outside of its buffer raises IndexError; a loop has one trip count for the whole group.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygrad.dtype import (
    AddrSpace,
    DType,
    PtrDType,
    dtypes,
    float_to_int,
    from_storage_scalar,
    storage_fmt_for_dtype,
    to_storage_scalar,
    truncate,
)
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import python_alu

Lane = list[Any]
Value = list[Lane]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line: sources are numbers of earlier lines."""

    op: Ops
    dtype: DType
    src: tuple[int, ...]
    arg: Any
    space: AddrSpace | None = None


class _Memory:
    """Elements of one dtype in bytes that all threads share."""

    def __init__(self, data: memoryview, dtype: DType, name: str):
        self.dtype, self.name = dtype, name
        code = storage_fmt_for_dtype(dtype)
        self.code = struct.Struct(f"={code}")
        self.data = memoryview(data).cast("B")
        self.count = len(self.data) // dtype.itemsize

    def _at(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise IndexError(
                f"element {index} of {self.name}, which has {self.count} of {self.dtype}"
            )
        return index * self.dtype.itemsize

    def read(self, thread: int, index: int) -> Any:
        return from_storage_scalar(self.code.unpack_from(self.data, self._at(index))[0], self.dtype)

    def write(self, thread: int, index: int, value: Any) -> None:
        self.code.pack_into(self.data, self._at(index), to_storage_scalar(value, self.dtype))


class _Cells:
    """Elements as Python values: `copies` is 1 for memory of the group, else each thread has its own."""

    def __init__(self, count: int, copies: int, name: str):
        self.cells = [[0] * count for _ in range(copies)]
        self.count, self.name = count, name

    def _row(self, thread: int, index: int) -> list:
        if not 0 <= index < self.count:
            raise IndexError(f"element {index} of {self.name}, which has {self.count}")
        return self.cells[thread if len(self.cells) > 1 else 0]

    def read(self, thread: int, index: int) -> Any:
        return self._row(thread, index)[index]

    def write(self, thread: int, index: int, value: Any) -> None:
        self._row(thread, index)[index] = value


@dataclass(slots=True)
class _Address:
    """Where each thread points to; `gate` is False where the access must not happen."""

    memory: _Memory | _Cells
    index: Lane
    gate: Lane | None = None


class Machine:
    """A checked instruction list, ready to be launched any number of times."""

    def __init__(self, code: list[Instruction]):
        self.code = code
        self.globals = sorted(
            (i for i, c in enumerate(code) if c.op is Ops.DEFINE_GLOBAL), key=lambda i: code[i].arg
        )
        self.variables = sorted(
            (i for i, c in enumerate(code) if c.op is Ops.DEFINE_VAR), key=lambda i: code[i].arg
        )
        self.end_of, self.start_of = self._match_blocks()

    def _match_blocks(self) -> tuple[dict[int, int], dict[int, int]]:
        """RANGE -> its END, IF -> its ENDIF; and the other way round."""
        ends: dict[int, int] = {}
        for i, line in enumerate(self.code):
            if line.op is Ops.END:
                ends.update((s, i) for s in line.src if self.code[s].op is Ops.RANGE)
            elif line.op is Ops.ENDIF:
                ends[line.src[0]] = i
        unmatched = [
            c.op.name
            for i, c in enumerate(self.code)
            if c.op in (Ops.RANGE, Ops.IF) and i not in ends
        ]
        if unmatched:
            raise RuntimeError(f"blocks without an end: {', '.join(unmatched)}")
        return ends, {end: start for start, end in ends.items()}

    def launch(self, bufs, global_size: tuple, local_size: tuple, vals: tuple[int, ...]) -> None:
        """Runs every work-group, one after another."""
        if len(bufs) != len(self.globals):
            raise RuntimeError(f"the kernel takes {len(self.globals)} buffers, got {len(bufs)}")
        if len(vals) != len(self.variables):
            raise RuntimeError(f"the kernel takes {len(self.variables)} values, got {len(vals)}")
        memory = {}
        for line, buf in zip(self.globals, bufs):
            dtype = self.code[line].dtype.base
            memory[line] = _Memory(buf, dtype.scalar(), f"buffer {self.code[line].arg}")
        for group in itertools.product(*[range(n) for n in reversed(global_size)]):
            _Group(self, memory, tuple(reversed(group)), local_size, vals).run()


class _Group:
    """One work-group in flight."""

    def __init__(
        self, machine: Machine, memory: dict, group: tuple, local_size: tuple, vals: tuple[int, ...]
    ):
        self.machine, self.memory, self.group = machine, memory, group
        grid = itertools.product(*[range(n) for n in reversed(local_size)])
        self.local = [tuple(reversed(point)) for point in grid]
        self.threads = len(self.local)
        self.active = [True] * self.threads
        self.masks: list[list[bool]] = []
        self.trips: dict[int, int] = {}
        self.values: dict[int, Any] = {
            line: [[value] * self.threads] for line, value in zip(machine.variables, vals)
        }

    def run(self) -> None:
        code, at = self.machine.code, 0
        while at < len(code):
            line = code[at]
            if line.op in _CONTROL:
                at = _CONTROL[line.op](self, at, line)
                continue
            step = _STEPS.get(line.op)
            if step is None:
                raise NotImplementedError(
                    f"the interpreter has no {line.op.name}; dtype {line.dtype}, arg {line.arg}"
                )
            result = step(self, at, line)
            if result is not None:
                self.values[at] = result
            at += 1

    # control

    def _range(self, at: int, line: Instruction) -> int:
        ends = {n for n, on in zip(self.values[line.src[0]][0], self.active) if on}
        if len(ends) > 1:
            raise RuntimeError(
                f"threads of a group disagree about the end of a loop: {sorted(ends)}"
            )
        self.trips[at] = end = ends.pop() if ends else 0
        self.values[at] = [[0] * self.threads]
        return at + 1 if end > 0 else self.machine.end_of[at] + 1

    def _end(self, at: int, line: Instruction) -> int:
        start = self.machine.start_of.get(at)
        if start is None:
            return at + 1
        following = self.values[start][0][0] + 1
        if following >= self.trips[start]:
            return at + 1
        self.values[start] = [[following] * self.threads]
        return start + 1

    def _if(self, at: int, line: Instruction) -> int:
        self.masks.append(self.active)
        self.active = [bool(on and c) for on, c in zip(self.active, self.values[line.src[0]][0])]
        if any(self.active):
            return at + 1
        self.active = self.masks.pop()
        return self.machine.end_of[at] + 1

    def _endif(self, at: int, line: Instruction) -> int:
        self.active = self.masks.pop()
        return at + 1

    # definitions

    def _define_global(self, at: int, line: Instruction) -> _Address:
        return _Address(self.memory[at], [0] * self.threads)

    def _define_cells(self, at: int, line: Instruction) -> _Address:
        if at in self.values:
            return self.values[at]
        own = line.space is AddrSpace.REG
        count = line.dtype.size * line.dtype.base.count
        cells = _Cells(count, self.threads if own else 1, f"{line.op.name} {line.arg}")
        return _Address(cells, [0] * self.threads)

    def _define_var(self, at: int, line: Instruction) -> None:
        return None  # its value was given at launch

    def _special(self, at: int, line: Instruction) -> Value:
        axis = int(line.arg[-1])
        if line.arg.startswith("l"):
            return [[point[axis] for point in self.local]]
        return [[self.group[axis]] * self.threads]

    def _const(self, at: int, line: Instruction) -> Value:
        round_to = truncate[line.dtype.scalar()]
        parts = line.arg if isinstance(line.arg, tuple) else (line.arg,) * line.dtype.count
        return [[round_to(part)] * self.threads for part in parts]

    # memory

    def _index(self, at: int, line: Instruction) -> Any:
        base = self.values[line.src[0]]
        if not isinstance(base, _Address):
            raise RuntimeError(
                f"INDEX of a value of {self.machine.code[line.src[0]].dtype}; it needs a buffer"
            )
        step = line.dtype.base.count if isinstance(line.dtype, PtrDType) else 1
        step = 1 if step == self.machine.code[line.src[0]].dtype.base.count else step
        offsets = self.values[line.src[1]][0]
        index = [None if i is None else b + i * step for b, i in zip(base.index, offsets)]
        gate = self.values[line.src[2]][0] if len(line.src) > 2 else base.gate
        return _Address(base.memory, index, gate)

    def _lane_gates(self, address: _Address, count: int, extra: Value | None) -> list[Lane]:
        """For each lane, which threads access."""
        gates = []
        for lane in range(count):
            on = self.active
            for more in (address.gate, extra[lane % len(extra)] if extra else None):
                if more is not None:
                    on = [a and bool(g) for a, g in zip(on, more)]
            gates.append(on)
        return gates

    def _load(self, at: int, line: Instruction) -> Value:
        address, count = self.values[line.src[0]], line.dtype.count
        rest = [self.values[s] for s in line.src[1:] if s in self.values]
        instead = rest[0] if rest else None
        extra = rest[1] if len(rest) > 1 else None
        result = []
        for lane, gate in enumerate(self._lane_gates(address, count, extra)):
            other = instead[lane % len(instead)] if instead else [0] * self.threads
            result.append(
                [
                    address.memory.read(t, address.index[t] + lane) if gate[t] else other[t]
                    for t in range(self.threads)
                ]
            )
        return result

    def _store(self, at: int, line: Instruction) -> None:
        address, value = self.values[line.src[0]], self.values[line.src[1]]
        extra = (
            self.values[line.src[2]]
            if len(line.src) > 2 and isinstance(self.values.get(line.src[2]), list)
            else None
        )
        for lane, gate in enumerate(self._lane_gates(address, len(value), extra)):
            for t in range(self.threads):
                if gate[t]:
                    address.memory.write(t, address.index[t] + lane, value[lane][t])

    # values

    def _pass_on(self, at: int, line: Instruction) -> Any:
        return self.values.get(line.src[0]) if line.src else None

    def _vectorize(self, at: int, line: Instruction) -> Value:
        return [lane for s in line.src for lane in self.values[s]]

    def _gep(self, at: int, line: Instruction) -> Value:
        lanes = line.arg if isinstance(line.arg, tuple) else (line.arg,)
        return [self.values[line.src[0]][lane] for lane in lanes]

    def _cast(self, at: int, line: Instruction) -> Any:
        value = self.values[line.src[0]]
        if isinstance(value, _Address):
            return value
        convert = _conversion(line.dtype.scalar())
        return [self._each(convert, lane) for lane in value]

    def _bitcast(self, at: int, line: Instruction) -> Value:
        source = self.machine.code[line.src[0]].dtype.scalar()
        target = line.dtype.scalar()
        out, into = (
            struct.Struct(f"={storage_fmt_for_dtype(source)}"),
            struct.Struct(f"={storage_fmt_for_dtype(target)}"),
        )
        lanes: list[Lane] = [[None] * self.threads for _ in range(line.dtype.count)]
        for t in range(self.threads):
            column = [lane[t] for lane in self.values[line.src[0]]]
            if None in column:
                continue
            packed = b"".join(out.pack(to_storage_scalar(v, source)) for v in column)
            for lane, (raw,) in enumerate(into.iter_unpack(packed)):
                lanes[lane][t] = from_storage_scalar(raw, target)
        return lanes

    @staticmethod
    def _each(function: Callable, *lanes: Lane) -> Lane:
        """The function on each thread's values; None where a thread has none."""
        return [None if None in column else function(*column) for column in zip(*lanes)]

    def _alu(self, at: int, line: Instruction) -> Value:
        sources = [self.values[s] for s in line.src]
        count = line.dtype.count
        compute, round_to = python_alu[line.op], truncate[line.dtype.scalar()]
        if line.op is Ops.WHERE:
            return [self._select([s[lane % len(s)] for s in sources]) for lane in range(count)]
        return [
            self._each(lambda *v: round_to(compute(*v)), *[s[lane % len(s)] for s in sources])
            for lane in range(count)
        ]

    @staticmethod
    def _select(lanes: list[Lane]) -> Lane:
        return [None if c is None else (a if c else b) for c, a, b in zip(*lanes)]


def _conversion(dtype: DType) -> Callable[[Any], Any]:
    """C's conversion to `dtype`; where it has none, that of `float_to_int`."""
    if dtype is dtypes.bool:
        return bool
    round_to = truncate[dtype]
    if dtypes.is_float(dtype):
        return round_to
    return lambda x: float_to_int(x, dtype) if isinstance(x, float) else round_to(x)


_CONTROL = {
    Ops.RANGE: _Group._range,
    Ops.END: _Group._end,
    Ops.IF: _Group._if,
    Ops.ENDIF: _Group._endif,
}

_STEPS: dict[Ops, Callable[[_Group, int, Instruction], Any]] = {
    Ops.DEFINE_GLOBAL: _Group._define_global,
    Ops.DEFINE_LOCAL: _Group._define_cells,
    Ops.DEFINE_REG: _Group._define_cells,
    Ops.DEFINE_VAR: _Group._define_var,
    Ops.SPECIAL: _Group._special,
    Ops.CONST: _Group._const,
    Ops.VCONST: _Group._const,
    Ops.INDEX: _Group._index,
    Ops.LOAD: _Group._load,
    Ops.STORE: _Group._store,
    Ops.VECTORIZE: _Group._vectorize,
    Ops.CAT: _Group._vectorize,
    Ops.GEP: _Group._gep,
    Ops.CAST: _Group._cast,
    Ops.BITCAST: _Group._bitcast,
    Ops.AFTER: _Group._pass_on,
    **dict.fromkeys((Ops.NOOP, Ops.GROUP, Ops.SINK, Ops.BARRIER), lambda group, at, line: None),
    **dict.fromkeys(GroupOp.ALU, _Group._alu),
}
