"""What every renderer of functions agrees on: the kernel ABI and how accesses are read.

A kernel is `void name(T* data0, U* data1, ..., int var0, ..., int core_id)`: buffers by slot, then
variables by arg, the thread id last. Used by the C and LLVM renderers.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygrad.dtype import PtrDType, dtypes
from tinygrad.uop.ops import Ops, UOp

THREAD_ID = "core_id"
_PARAMETERS = frozenset({Ops.DEFINE_GLOBAL, Ops.DEFINE_VAR})


def writer_of(writers: dict[Ops, Callable], u: UOp, language: str) -> Callable:
    """The function that writes `u`. Raises RuntimeError where the language has none."""
    writer = writers.get(u.op)
    if writer is None:
        raise RuntimeError(
            f"{language} cannot render {u.op} of {u.dtype} with sources "
            f"{[(s.op, s.dtype) for s in u.src]}; decompose it before rendering"
        )
    return writer


def kernel_parameters(uops: list[UOp]) -> list[UOp]:
    """DEFINE_GLOBALs by slot, then DEFINE_VARs by arg; the thread id comes last."""
    found = dict.fromkeys([u for u in uops if u.op in _PARAMETERS])
    variables = [u for u in found if u.op is Ops.DEFINE_VAR]
    buffers = [u for u in found if u.op is Ops.DEFINE_GLOBAL]
    by_arg = sorted(variables, key=lambda u: (u.arg[0] == THREAD_ID, u.arg))
    return sorted(buffers, key=lambda u: u.arg) + by_arg


def parameter_name(u: UOp) -> str:
    """`data<slot>_<size>` of a buffer, the variable's own name otherwise."""
    if u.op is Ops.DEFINE_VAR:
        return u.arg[0]
    size = u.dtype.size if isinstance(u.dtype, PtrDType) else -1
    return f"data{u.arg}_{size}" if size >= 0 else f"data{u.arg}"


def function_name(uops: list[UOp]) -> str:
    """The C identifier of the kernel: its SINK's name, `test` for a fragment without one."""
    for u in reversed(uops):
        if u.op is Ops.SINK:
            return u.arg.function_name if u.arg is not None else "test"
    return "test"


def buffer_under(u: UOp) -> UOp:
    """The definition under an address."""
    while u.op in (Ops.INDEX, Ops.CAST, Ops.AFTER) and u.src:
        u = u.src[0]
    return u


def access_gate(u: UOp) -> UOp | None:
    """The condition of a LOAD or STORE: its own third source, or the one on its INDEX."""
    address = u.src[0]
    if u.op is Ops.STORE and len(u.src) > 2 and u.src[2].dtype.scalar() is dtypes.bool:
        return u.src[2]
    if address.op is Ops.CAST:
        address = address.src[0]
    return address.src[2] if address.op is Ops.INDEX and len(address.src) > 2 else None


def range_name(u: UOp) -> str:
    """Variable name of a loop counter, from its axis numbers."""
    numbers = "_".join(str(part) for part in u.arg if isinstance(part, int))
    kind = getattr(u.arg[-1], "name", "LOOP")
    return f"{'ridx' if kind == 'REDUCE' else 'idx'}{numbers.replace('-', 'm')}"


def never_traps(divisor: UOp) -> bool:
    """Whether an integer division by `divisor` is defined for every dividend."""
    return divisor.vmin > 0 or (divisor.vmax < -1 and not dtypes.is_unsigned(divisor.dtype))
