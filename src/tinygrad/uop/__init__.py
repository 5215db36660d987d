"""The operations of the graph.

`Ops` numbers every kind of node. The order of the members is part of the interface: it decides how
nodes are sorted, and the core stores an op as its number. `GroupOp` holds the families that rules
and walks ask about. Nothing here depends on nodes; every layer from `mixin` upwards imports it.
"""

from __future__ import annotations

from enum import EnumType, IntEnum


class _PlainLookup(EnumType):
    """A metaclass of its own, in which the core may make member look-up cheap (see `_core.bind`)."""


class FastEnum(IntEnum, metaclass=_PlainLookup):
    """An IntEnum that prints as `Class.MEMBER`, so that printed nodes evaluate back."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __hash__ = int.__hash__


class Ops(FastEnum):
    """The kinds of nodes, in the order that sorting and the core rely on."""

    # inputs of a kernel
    DEFINE_GLOBAL = 1
    DEFINE_VAR = 2
    BIND = 3
    SPECIAL = 4
    DEFINE_LOCAL = 5
    DEFINE_REG = 6

    # structure
    NOOP = 7
    REWRITE_ERROR = 8
    PROGRAM = 9
    LINEAR = 10
    SOURCE = 11
    SINK = 12
    AFTER = 13
    GROUP = 14

    # vectors and memory
    GEP = 15
    VECTORIZE = 16
    INDEX = 17
    LOAD = 18
    STORE = 19
    WMMA = 20

    # unary
    CAST = 21
    BITCAST = 22
    EXP2 = 23
    LOG2 = 24
    SIN = 25
    SQRT = 26
    RECIPROCAL = 27
    NEG = 28
    TRUNC = 29

    # binary
    ADD = 30
    MUL = 31
    SHL = 32
    SHR = 33
    IDIV = 34
    MAX = 35
    MOD = 36
    CMPLT = 37
    CMPNE = 38
    CMPEQ = 39
    XOR = 40
    OR = 41
    AND = 42
    THREEFRY = 43
    SUB = 44
    FDIV = 45
    POW = 46

    # ternary
    WHERE = 47
    MULACC = 48

    # control
    BARRIER = 49
    RANGE = 50
    IF = 51
    END = 52
    ENDIF = 53

    # constants and escapes
    VCONST = 54
    CONST = 55
    CUSTOM = 56
    CUSTOMI = 57

    # tensor graph
    UNIQUE = 58
    DEVICE = 59
    KERNEL = 60
    ASSIGN = 61
    CUSTOM_KERNEL = 62
    LUNIQUE = 63
    CONTIGUOUS = 64
    CONTIGUOUS_BACKWARD = 65
    DETACH = 66
    BUFFERIZE = 67
    COPY = 68
    BUFFER = 69
    BUFFER_VIEW = 70
    MSELECT = 71
    MSTACK = 72
    ENCDEC = 73

    # movement
    RESHAPE = 74
    PERMUTE = 75
    EXPAND = 76
    PAD = 77
    SHRINK = 78
    FLIP = 79
    MULTI = 80

    # reduction
    REDUCE_AXIS = 81
    REDUCE = 82
    ALLREDUCE = 83

    # expander
    UNROLL = 84
    CONTRACT = 85
    CAT = 86
    PTRCAT = 87


def _between(first: Ops, last: Ops) -> set[Ops]:
    """The ops from `first` to `last`, both included."""
    return {op for op in Ops if first <= op <= last}


class GroupOp:
    """Families of ops. Every attribute is a set of `Ops`."""

    Unary: set[Ops] = _between(Ops.EXP2, Ops.TRUNC)
    Binary: set[Ops] = _between(Ops.ADD, Ops.POW)
    Ternary: set[Ops] = _between(Ops.WHERE, Ops.MULACC)
    ALU: set[Ops] = Unary | Binary | Ternary

    # one output element per input element; CAST and BITCAST are not arithmetic
    Elementwise: set[Ops] = ALU | {Ops.CAST, Ops.BITCAST}

    Defines = {Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.DEFINE_REG}

    # leaves of an index expression
    Irreducible = {Ops.CONST, Ops.DEFINE_VAR, Ops.SPECIAL, Ops.RANGE}
    Movement = _between(Ops.RESHAPE, Ops.FLIP)
    Buffer = {Ops.LOAD, Ops.STORE, Ops.CONST, Ops.DEFINE_VAR}

    Comparison = {Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ}
    Commutative = {Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.XOR, Ops.AND, Ops.OR}
    Associative = {Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.MAX}
    Idempotent = {Ops.OR, Ops.AND, Ops.MAX}

    # f(0) is not 0: padding with zeros may not be pushed below these
    UnsafePad = {Ops.RECIPROCAL, Ops.LOG2, Ops.EXP2, Ops.IDIV, Ops.POW}

    All = set(Ops)
