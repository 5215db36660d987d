"""The operations of the graph.

`Ops` numbers every kind of node. The order of the members is part of the interface: it decides how
nodes are sorted, and the core stores an op as its number. `GroupOp` holds the families that rules
and walks ask about. Nothing here depends on nodes; every layer from `mixin` upwards imports it.
"""
from __future__ import annotations

from enum import IntEnum

_MEMBERS = {
    "inputs of a kernel": "DEFINE_GLOBAL DEFINE_VAR BIND SPECIAL DEFINE_LOCAL DEFINE_REG",
    "structure": "NOOP REWRITE_ERROR PROGRAM LINEAR SOURCE SINK AFTER GROUP",
    "vectors and memory": "GEP VECTORIZE INDEX LOAD STORE WMMA",
    "unary": "CAST BITCAST EXP2 LOG2 SIN SQRT RECIPROCAL NEG TRUNC",
    "binary": "ADD MUL SHL SHR IDIV MAX MOD CMPLT CMPNE CMPEQ XOR OR AND THREEFRY SUB FDIV POW",
    "ternary": "WHERE MULACC",
    "control": "BARRIER RANGE IF END ENDIF",
    "constants and escapes": "VCONST CONST CUSTOM CUSTOMI",
    "tensor graph": "UNIQUE DEVICE KERNEL ASSIGN CUSTOM_KERNEL LUNIQUE CONTIGUOUS "
    "CONTIGUOUS_BACKWARD DETACH BUFFERIZE COPY BUFFER BUFFER_VIEW MSELECT MSTACK ENCDEC",
    "movement": "RESHAPE PERMUTE EXPAND PAD SHRINK FLIP MULTI",
    "reduction": "REDUCE_AXIS REDUCE ALLREDUCE",
    "expander": "UNROLL CONTRACT CAT PTRCAT",
}


class FastEnum(IntEnum):
    """An IntEnum that prints as `Class.MEMBER`, so that printed nodes evaluate back."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __hash__ = int.__hash__


Ops = FastEnum(  # type: ignore[misc]
    "Ops", " ".join(_MEMBERS.values()).split(), module=__name__, qualname="Ops"
)


def _ops(names: str) -> set[Ops]:
    return {Ops[name] for name in names.split()}


class GroupOp:
    """Families of ops. Every attribute is a set of `Ops`."""

    Unary = _ops(_MEMBERS["unary"]) - {Ops.CAST, Ops.BITCAST}
    Binary = _ops(_MEMBERS["binary"])
    Ternary = _ops(_MEMBERS["ternary"])
    ALU = Unary | Binary | Ternary

    # one output element per input element; CAST and BITCAST are not arithmetic
    Elementwise = ALU | {Ops.CAST, Ops.BITCAST}

    Defines = {Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_REG}

    # leaves of an index expression
    Irreducible = {Ops.CONST, Ops.DEFINE_VAR, Ops.SPECIAL, Ops.RANGE}
    Movement = _ops(_MEMBERS["movement"]) - {Ops.MULTI}
    Buffer = {Ops.LOAD, Ops.STORE, Ops.CONST, Ops.DEFINE_VAR}

    Comparison = {Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ}
    Commutative = {Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.XOR, Ops.AND, Ops.OR}
    Associative = {Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.MAX}
    Idempotent = {Ops.OR, Ops.AND, Ops.MAX}

    # f(0) is not 0: padding with zeros may not be pushed below these
    UnsafePad = {Ops.RECIPROCAL, Ops.LOG2, Ops.EXP2, Ops.IDIV, Ops.POW}

    All = set(Ops)
