"""Lowered kernels on disk, so that a second process lowers nothing it has seen.

In: a kernel AST and a renderer. Out: the rendered PROGRAM of an earlier process, or None. The key is everything the PROGRAM
depends on: the AST's digest, the renderer's class and capabilities, the switches, and the state of the installed package. A
PROGRAM is stored as rows of plain data and rebuilt node by node: nothing that is read is unpickled into objects, and anything
that does not decode is a miss. Only kinds of arguments that this module knows are stored.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from tinygrad.common.diskcache import load_plain
from tinygrad.common.env import LOADED_NS
from tinygrad.dtype import AddrSpace, DType, ImageDType, Invalid, InvalidType, PtrDType, dtypes
from tinygrad.engine.program_facts import ProgramFacts, StoredProgram
from tinygrad.helpers import (
    CACHELEVEL,
    CAPTURE_PROCESS_REPLAY,
    CCACHE,
    DEBUG,
    VIZ,
    ContextVar,
    diskcache_get,
    diskcache_put,
)
from tinygrad.renderer import Estimates, Renderer
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, KernelInfo, UOp

_TABLE = "programs"

# switches that change what is shown, kept or run, but not the code of a kernel
_NO_CODE = frozenset(
    """DEBUG PASS_STATS PROFILE VIZ SPEC TRACEMETA DEBUG_RANGEIFY CAPTURING VALIDATE_WITH_CPU CACHELEVEL CCACHE LRU NO_MEMORY_PLANNER JIT
    JIT_BATCH_SIZE ALLOW_DEVICE_USAGE TRACK_MATCH_STATS CAPTURE_PROCESS_REPLAY RING SPLIT_REDUCEOP PCONTIG FUSE_OPTIM
    MAX_BUFFER_SIZE WINO""".split()
)


def code_context() -> tuple:
    """The values of all switches that may change generated code."""
    # by name: modules that are imported in another order make their switches in another order
    return tuple(
        [
            (name, var.value)
            for name, var in sorted(ContextVar._cache.items())
            if name not in _NO_CODE
        ]
    )


def _installed_files() -> Iterator[os.DirEntry]:
    import tinygrad
    import tinygrad._core
    import tinygrad.backends

    pending = [
        p for package in (tinygrad, tinygrad._core, tinygrad.backends) for p in package.__path__
    ]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.name.endswith((".py", ".so", ".pyd")):
                    yield entry


@functools.cache
def package_state() -> str:
    """A digest of the installed package: names, sizes and times of its files.

    Where files were changed since this process loaded the package it is of this process alone: nobody knows which of the two
    states the code that runs is.
    """
    facts = [(e.path, s.st_size, s.st_mtime_ns) for e in _installed_files() if (s := e.stat())]
    own = os.urandom(16) if any(mtime > LOADED_NS for _, _, mtime in facts) else b""
    return hashlib.sha256(repr(sorted(facts)).encode() + own).hexdigest()


_CAPABILITIES = (
    "device", "suffix", "supports_float4", "has_local", "has_threads", "has_shared", "global_max", "local_max", "shared_max",
    "vector_bytes", "vector_registers", "threads", "tensor_cores",
)  # fmt: skip


def _renderer_facts(ren: Renderer) -> str:
    rebuilt = ren.__reduce__()
    arguments = rebuilt[1] if isinstance(rebuilt, tuple) else rebuilt
    facts = [f"{type(ren).__module__}.{type(ren).__qualname__}{arguments!r}"]
    facts += [f"{name}={getattr(ren, name, None)!r}" for name in _CAPABILITIES]
    facts.append(",".join(sorted(op.name for op in ren.code_for_op)))
    return ";".join(facts)


def _key(ast: UOp, ren: Renderer) -> str:
    parts = (ast.key.hex(), _renderer_facts(ren), repr(code_context()), package_state())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_on() -> bool:
    """Off where somebody looks at the lowering itself."""
    return CACHELEVEL >= 1 and bool(CCACHE) and not VIZ and not CAPTURE_PROCESS_REPLAY and DEBUG < 5


# ---------------------------------------------------------------- plain data


class _NotPlain(Exception):
    """A value this module has no form for."""


@functools.cache
def _dtype_out(dtype: DType) -> tuple:
    if isinstance(dtype, ImageDType):
        raise _NotPlain(str(dtype))
    if isinstance(dtype, PtrDType):
        return ("ptr", _dtype_out(dtype.base), dtype.addrspace.name, dtype.v, dtype.size)
    return ("dtype", _dtype_names()[dtype.scalar()], dtype.count)


@functools.cache
def _dtype_names() -> dict[DType, str]:
    found = {value: name for name, value in vars(dtypes).items() if type(value) is DType}
    return {value: name for value, name in found.items() if value.count == 1}


def _dtype_in(data: tuple) -> DType:
    if data[0] == "ptr":
        pointer = _dtype_in(data[1]).ptr(data[4], AddrSpace[data[2]])
        return pointer.vec(data[3]) if data[3] > 1 else pointer
    found = getattr(dtypes, data[1])
    return found.vec(data[2]) if data[2] > 1 else found


_OP_NAMES = {op: op.name for op in Ops}


def _out(value: Any) -> Any:
    """A value as plain data. Raises _NotPlain for what has no form here."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, tuple):
        return ("tuple", *[_out(v) for v in value])
    if isinstance(value, InvalidType):
        return ("invalid",)
    if isinstance(value, AxisType):
        return ("axis", value.name)
    if isinstance(value, AddrSpace):
        return ("space", value.name)
    if isinstance(value, Ops):
        return ("op", value.name)
    if isinstance(value, DType):
        return _dtype_out(value)
    if isinstance(value, KernelInfo):
        fields = (
            value.name,
            value.axis_types,
            value.dont_use_locals,
            value.applied_opts,
            value.opts_to_apply,
        )
        return ("kernel", *[_out(v) for v in fields])
    if type(value).__name__ == "Opt":
        return ("opt", value.op.name, value.axis, _out(value.arg))
    raise _NotPlain(type(value).__name__)


def _opt_in(name: str, axis: int | None, arg: Any) -> Any:
    from tinygrad.codegen.opt import Opt, OptOps

    return Opt(OptOps[name], axis, _in(arg))


_READERS: dict[str, Callable] = {
    "tuple": lambda *parts: tuple([_in(p) for p in parts]),
    "invalid": lambda: Invalid,
    "axis": lambda name: AxisType[name],
    "space": lambda name: AddrSpace[name],
    "op": lambda name: Ops[name],
    "kernel": lambda *fields: KernelInfo(*[_in(f) for f in fields]),
    "opt": _opt_in,
}


def _in(data: Any) -> Any:
    if not isinstance(data, tuple):
        return data
    if data[0] in ("dtype", "ptr"):
        return _dtype_in(data)
    return _READERS[data[0]](*data[1:])


def to_rows(root: UOp) -> list[tuple]:
    """A graph as rows (op, dtype, numbers of source rows, arg, tag) of plain data, sources first."""
    number: dict[UOp, int] = {}
    rows: list[tuple] = []
    place = number.__getitem__
    for u in root.toposort():
        number[u] = len(rows)
        arg = None if u.arg is None else _out(u.arg)
        tag = None if u.tag is None else _out(u.tag)
        rows.append((_OP_NAMES[u.op], _dtype_out(u.dtype), tuple(map(place, u.src)), arg, tag))
    return rows


def from_rows(rows: list[tuple]) -> UOp:
    """The inverse of `to_rows`."""
    nodes: list[UOp] = []
    for op, dtype, src, arg, tag in rows:
        nodes.append(
            UOp(Ops[op], _dtype_in(dtype), tuple([nodes[i] for i in src]), _in(arg), _in(tag))
        )
    return nodes[-1]


# ---------------------------------------------------------------- entry points


def _is_whole(program: Any) -> bool:
    return (
        isinstance(program, UOp)
        and program.op is Ops.PROGRAM
        and len(program.src) == 4
        and program.src[3].op is Ops.SOURCE
    )


def _facts_out(program: UOp) -> tuple | None:
    """The facts of a program as plain data, None where they hold symbolic sizes."""
    facts = ProgramFacts.of(program)
    if not facts.is_static:
        return None
    work = (facts.estimates.ops, facts.estimates.lds, facts.estimates.mem)
    plain = {**vars(facts), "applied_opts": _out(facts.applied_opts), "estimates": work}
    return tuple([plain[f.name] for f in fields(ProgramFacts)])


def _facts_in(data: tuple) -> ProgramFacts:
    given = dict(zip([f.name for f in fields(ProgramFacts)], data, strict=True))
    given["applied_opts"] = _in(given["applied_opts"])
    given["estimates"] = Estimates(*given["estimates"])
    if not isinstance(given["name"], str) or not isinstance(given["source"], str):
        raise TypeError("these are no facts of a program")
    return ProgramFacts(**given)


def _find(ast: UOp, ren: Renderer) -> tuple[Any, bytes] | None:
    """The stored facts and rows of this kernel."""
    if not _is_on():
        return None
    entry = diskcache_get(_TABLE, _key(ast, ren))
    if not isinstance(entry, tuple) or len(entry) != 2 or not isinstance(entry[1], bytes):
        return None
    return entry


def _program_of(blob: bytes) -> UOp | None:
    try:
        program = from_rows(load_plain(blob))
    except Exception:  # whatever is wrong with an entry, it is a miss
        return None
    return program if _is_whole(program) else None


def load_program(ast: UOp, ren: Renderer) -> UOp | None:
    """The stored PROGRAM of this kernel, if there is a whole one."""
    entry = _find(ast, ren)
    return None if entry is None else _program_of(entry[1])


def load_stored(ast: UOp, ren: Renderer, make: Callable[[], UOp]) -> StoredProgram | None:
    """What is stored of this kernel, without making its nodes; None for a kernel with symbolic sizes.

    `make` lowers the kernel, should its nodes be asked for and turn out to be unreadable.
    """
    entry = _find(ast, ren)
    if entry is None or entry[0] is None:
        return None
    try:
        facts, blob = _facts_in(entry[0]), entry[1]
    except Exception:  # whatever is wrong with an entry, it is a miss
        return None

    def read() -> UOp:
        program = _program_of(blob)
        return make() if program is None else program

    return StoredProgram(facts, read)


def store_program(ast: UOp, ren: Renderer, program: UOp) -> None:
    """Keeps a PROGRAM for other processes, unless it holds something that has no plain form."""
    if not _is_on():
        return
    try:
        entry = (_facts_out(program), pickle.dumps(to_rows(program)))
    except (_NotPlain, KeyError):
        return
    diskcache_put(_TABLE, _key(ast, ren), entry)
