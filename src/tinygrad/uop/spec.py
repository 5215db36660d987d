"""What a well-formed graph is, in the rule language: the verifier.

A specification is a matcher whose rules answer True or False for a node. Rules of one op stand
together; the first that answers decides, and a node that no rule answers for is malformed.
`type_verify` checks every node and shows the ones around the first fault. There is one
specification per stage: `tensor_spec` for what users build, `kernel_spec` for the AST of a kernel,
`program_spec` for instruction lists; `full_spec` accepts every stage, also in the middle of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from tinygrad._core import PatternMatcher, UOp
from tinygrad.dtype import AddrSpace, Invalid, InvalidType, PtrDType, dtypes
from tinygrad.helpers import IGNORE_OOB
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.info import AxisType, KernelInfo
from tinygrad.uop.render import argument_text
from tinygrad.uop.upat import UPat

# ---- conditions


@cache
def _is_int(dtype) -> bool:
    return dtypes.is_int(dtype) and not isinstance(dtype, PtrDType)


def _is_pointer(u: UOp) -> bool:
    return isinstance(u.dtype, PtrDType)


def _is_bool(dtype) -> bool:
    return dtype.scalar() is dtypes.bool


def _is_const_arg(value, dtype) -> bool:
    """Whether a constant has the Python type that its dtype asks for."""
    if isinstance(value, InvalidType):
        return True
    if dtypes.is_float(dtype):
        return type(value) is float
    if _is_bool(dtype):
        return type(value) is bool
    return _is_int(dtype) and type(value) is int


def _valid_vconst(u: UOp) -> bool:
    if not isinstance(u.arg, tuple) or len(u.arg) != u.dtype.count:
        return False
    return all(_is_const_arg(value, u.dtype) for value in u.arg)


def _is_invalid(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg is Invalid


def _valid_comparison(u: UOp) -> bool:
    a, b = u.src
    operand = a.dtype
    same = operand is b.dtype or operand.base is b.dtype.base
    return same and _is_bool(u.dtype) and u.dtype.count == operand.base.count


def _valid_where(u: UOp) -> bool:
    condition, *branches = u.src
    if not _is_bool(condition.dtype) or condition.dtype.count not in (1, u.dtype.count):
        return False
    return all(_is_invalid(s) or s.dtype.base is u.dtype.base for s in branches)


def _valid_shift(u: UOp) -> bool:
    value, distance = (s.dtype for s in u.src)
    same = distance is value or distance.scalar() is dtypes.uint
    return value is u.dtype and _is_int(value) and same


def _operands_agree(u: UOp) -> bool:
    dtype = u.dtype
    for s in u.src:
        if s.dtype is not dtype and s.dtype.base is not dtype.base:
            return False
    return True


_OPERANDS = dict.fromkeys(GroupOp.Unary, 1) | dict.fromkeys(GroupOp.Ternary, 3)


def _valid_alu(u: UOp) -> bool:
    return len(u.src) == _OPERANDS.get(u.op, 2) and _operands_agree(u)


def _valid_gep(u: UOp) -> bool:
    lanes = u.src[0].dtype.vcount
    good = isinstance(u.arg, tuple) and all(type(i) is int and 0 <= i < lanes for i in u.arg)
    return good and u.dtype.vcount == len(u.arg) and u.dtype.scalar() is u.src[0].dtype.scalar()


def _valid_vectorize(u: UOp) -> bool:
    if _is_pointer(u):
        return len(u.src) == u.dtype.vcount
    # most vectors repeat one source, and all of their sources have one type
    kinds = {s.dtype for s in dict.fromkeys(u.src)}
    if any(kind.scalar() is not u.dtype.scalar() for kind in kinds):
        return False
    if len(kinds) == 1:
        return kinds.pop().count * len(u.src) == u.dtype.count
    return sum(s.dtype.count for s in u.src) == u.dtype.count


def _valid_variable(u: UOp) -> bool:
    if u.arg is None:
        return True
    return isinstance(u.arg, tuple) and len(u.arg) == 3 and isinstance(u.arg[0], str)


def _valid_bind(u: UOp) -> bool:
    return u.src[0].op is Ops.DEFINE_VAR and u.dtype is u.src[0].dtype


def _valid_range(u: UOp) -> bool:
    arg = u.arg
    named = isinstance(arg, tuple) and len(arg) >= 2 and isinstance(arg[1], AxisType)
    return named and _is_int(u.dtype) and u.src[0].dtype is u.dtype


def _valid_special(u: UOp) -> bool:
    return (
        isinstance(u.arg, str)
        and _is_int(u.dtype)
        and len(u.src) == 1
        and u.src[0].dtype is u.dtype
    )


def _valid_memory(space: AddrSpace) -> Callable[[UOp], bool]:
    return lambda u: _is_pointer(u) and u.dtype.addrspace is space and not u.src


def _indices(u: UOp) -> tuple[UOp, ...]:
    """The indices of an INDEX, without a gate at the end."""
    return u.src[1:-1] if len(u.src) > 2 and _is_bool(u.src[-1].dtype) else u.src[1:]


def _valid_index(u: UOp) -> bool:
    for s in u.src[1:2] if len(u.src) == 2 else _indices(u):
        if not _is_int(s.dtype):
            return False
    if isinstance(u.dtype, PtrDType):
        return True
    return u.dtype.scalar() is u.src[0].dtype.base.scalar()


_AROUND_ADDRESS = frozenset({Ops.CAST, Ops.BITCAST, Ops.AFTER, Ops.GEP})
_ADDRESSES = frozenset({Ops.INDEX, Ops.PTRCAT, Ops.VECTORIZE, Ops.CAT, Ops.CUSTOM, Ops.CUSTOMI})


def _is_address(u: UOp) -> bool:
    """An INDEX, perhaps cast to a pointer to a vector, or something that will become one."""
    while u.op in _AROUND_ADDRESS and u.src:
        u = u.src[0]
    return u.op in _ADDRESSES


def _valid_load(u: UOp) -> bool:
    if not _is_address(u.src[0]):
        return False
    if len(u.src) == 1 or u.src[1].dtype.base is u.dtype.base:
        return True
    return u.src[1].op in (Ops.BARRIER, Ops.STORE, Ops.IF, Ops.END, Ops.GROUP)


def _valid_store(u: UOp) -> bool:
    if u.dtype is not dtypes.void or len(u.src) < 2 or not _is_address(u.src[0]):
        return False
    # drop-in: the value may have another dtype than the memory; languages convert it
    return u.src[1].dtype is not dtypes.void


def _stays_inside(u: UOp) -> bool:
    """Whether the access provably stays within its buffer. Asked only with IGNORE_OOB=0."""
    if IGNORE_OOB:
        return True
    address = u.src[0]
    while address.op in (Ops.CAST, Ops.BITCAST):
        address = address.src[0]
    if address.op is not Ops.INDEX or len(_indices(address)) != 1:
        return True
    from tinygrad.uop.validate import validate_index

    gates = [s for s in (*address.src[2:], *u.src[2:]) if s.dtype is dtypes.bool]
    gate = gates[0] if gates else None
    memory, first = address.src[0].buf_target(), address.src[1]
    lanes = u.src[0].dtype.base.count // max(1, memory.dtype.base.count)
    last = first if lanes <= 1 or first.dtype.count > 1 else first + (lanes - 1)
    return all(validate_index(memory, idx, gate) for idx in dict.fromkeys((first, last)))


def _valid_end(u: UOp) -> bool:
    return bool(u.src) and all(s.op is not Ops.SINK for s in u.src)


def _valid_program(u: UOp) -> bool:
    wanted = (Ops.SINK, Ops.DEVICE, Ops.LINEAR, Ops.SOURCE)
    ops = tuple(s.op for s in u.src)
    return u.dtype is dtypes.void and len(ops) >= 2 and ops == wanted[: len(ops)]


def _valid_sizes(u: UOp) -> bool:
    return u.op is Ops.NOOP or _is_int(u.dtype)


def _valid_movement(u: UOp) -> bool:
    if u.dtype is not u.src[0].dtype:
        return False
    if u.op in (Ops.PERMUTE, Ops.FLIP):
        return isinstance(u.arg, tuple) and len(u.src) == 1
    wanted = 2 if u.op in (Ops.RESHAPE, Ops.EXPAND) else 3
    return len(u.src) == wanted and all(_valid_sizes(s) for s in u.src[1:]) and u.arg is None


def _valid_buffer(u: UOp) -> bool:
    names = u.src[0].op in (Ops.UNIQUE, Ops.LUNIQUE) and u.src[1].op is Ops.DEVICE
    return names and type(u.arg) is int


def _valid_buffer_view(u: UOp) -> bool:
    return isinstance(u.arg, tuple) and len(u.arg) == 2


def _valid_assign(u: UOp) -> bool:
    if len(u.src) < 2 or u.dtype is not u.src[0].dtype:
        return False
    return u.src[1].op is Ops.KERNEL or u.src[0].dtype.base is u.src[1].dtype.base


def _reduces(op) -> bool:
    return op in (Ops.ADD, Ops.MUL, Ops.MAX)


def _valid_reduce_axis(u: UOp) -> bool:
    arg = u.arg
    return (
        isinstance(arg, tuple) and len(arg) == 2 and _reduces(arg[0]) and isinstance(arg[1], tuple)
    )


def _valid_reduce(u: UOp) -> bool:
    return _reduces(u.arg) and all(_is_int(s.dtype) for s in u.src[1:])


def _like_first(u: UOp) -> bool:
    return bool(u.src) and u.dtype is u.src[0].dtype


def _always(u: UOp) -> bool:
    return True


def _void(u: UOp) -> bool:
    return u.dtype is dtypes.void


# ---- rules


def _rules(*table: tuple) -> list[tuple[UPat, Callable]]:
    """Rules from rows `(op or ops, condition)`."""
    location = (__file__, 0)
    return [(UPat(op, name="x", location=location), _answer(condition)) for op, condition in table]


def _answer(condition: Callable[[UOp], bool]) -> Callable[[UOp], bool]:
    def answer(x: UOp) -> bool:
        return condition(x)

    answer.__name__ = f"check{condition.__name__}"
    answer.condition = condition  # type: ignore[attr-defined]
    return answer


_ARITHMETIC = tuple(sorted(GroupOp.ALU - GroupOp.Comparison - {Ops.WHERE, Ops.SHL, Ops.SHR}))
_INTEGER_ONLY = (Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR)

shared_spec = PatternMatcher(
    _rules(
        (Ops.SINK, lambda u: _void(u) and (u.arg is None or isinstance(u.arg, KernelInfo))),
        (Ops.NOOP, _always),
        (Ops.GROUP, _void),
        (Ops.CONST, lambda u: _is_const_arg(u.arg, u.dtype)),
        (Ops.VCONST, _valid_vconst),
        (Ops.DEFINE_VAR, _valid_variable),
        (Ops.BIND, _valid_bind),
        (Ops.RANGE, _valid_range),
        (tuple(GroupOp.Comparison), _valid_comparison),
        (Ops.WHERE, _valid_where),
        ((Ops.SHL, Ops.SHR), _valid_shift),
        (
            _INTEGER_ONLY,
            lambda u: _valid_alu(u) and (_is_int(u.dtype) or _is_bool(u.dtype)),
        ),
        (_ARITHMETIC, _valid_alu),
        ((Ops.CAST, Ops.BITCAST), lambda u: len(u.src) == 1),
        (Ops.VECTORIZE, _valid_vectorize),
        (Ops.GEP, _valid_gep),
        (Ops.AFTER, _like_first),
        (Ops.DEVICE, lambda u: isinstance(u.arg, (str, tuple))),
    )
)

_memory_rules = _rules(
    (Ops.DEFINE_GLOBAL, _valid_memory(AddrSpace.GLOBAL)),
    (Ops.DEFINE_LOCAL, _valid_memory(AddrSpace.LOCAL)),
    (Ops.DEFINE_REG, _valid_memory(AddrSpace.REG)),
    (Ops.INDEX, _valid_index),
    (Ops.LOAD, _valid_load),
    (Ops.STORE, _valid_store),
    (Ops.END, _valid_end),
    (Ops.SPECIAL, _valid_special),
    ((Ops.BARRIER, Ops.IF, Ops.ENDIF), _void),
    ((Ops.CUSTOM, Ops.CUSTOMI), lambda u: isinstance(u.arg, str)),
    (Ops.WMMA, lambda u: len(u.src) >= 3),
)

_access_rules = _rules(
    (Ops.LOAD, lambda u: _valid_load(u) and _stays_inside(u)),
    (Ops.STORE, lambda u: _valid_store(u) and _stays_inside(u)),
)

_program_node_rules = _rules(
    (Ops.PROGRAM, _valid_program),
    (Ops.LINEAR, _void),
    (Ops.SOURCE, lambda u: _void(u) and isinstance(u.arg, str) and not u.src),
)

# what users build, before scheduling
tensor_spec = (
    PatternMatcher(
        _rules(
            ((Ops.UNIQUE, Ops.LUNIQUE), lambda u: type(u.arg) is int),
            (Ops.BUFFER, _valid_buffer),
            (Ops.BUFFER_VIEW, _valid_buffer_view),
            (tuple(GroupOp.Movement), _valid_movement),
            (Ops.REDUCE_AXIS, _valid_reduce_axis),
            ((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH), _like_first),
            ((Ops.COPY, Ops.ALLREDUCE), lambda u: _like_first(u) and u.src[1].op is Ops.DEVICE),
            (Ops.ASSIGN, _valid_assign),
            ((Ops.MULTI, Ops.MSELECT, Ops.MSTACK), _like_first),
            ((Ops.KERNEL, Ops.CUSTOM_KERNEL), _void),
            (Ops.ENCDEC, _always),
            # a loop around the whole tensor graph, and effects under it
            ((Ops.END, Ops.STORE, Ops.REDUCE), _always),
        )
    )
    + shared_spec
)

# the AST of one kernel
kernel_spec = (
    PatternMatcher(
        _memory_rules
        + _rules(
            (Ops.REDUCE, _valid_reduce),
            (Ops.BUFFERIZE, _always),
            ((Ops.CONTRACT, Ops.UNROLL, Ops.CAT, Ops.PTRCAT), _always),
            (tuple(GroupOp.Movement), _valid_movement),
            ((Ops.COPY, Ops.BUFFER_VIEW, Ops.BUFFER, Ops.UNIQUE, Ops.LUNIQUE, Ops.ENCDEC), _always),
        )
    )
    + shared_spec
)

# instruction lists, and PROGRAM nodes around them
program_spec = (
    PatternMatcher(
        _access_rules + _memory_rules + _program_node_rules + _rules((Ops.CAT, _valid_vectorize))
    )
    + shared_spec
)

# any stage, also half way through a pass
full_spec = PatternMatcher(_rules(((Ops.REWRITE_ERROR, Ops.CONTRACT, Ops.UNROLL), _always))) + (
    tensor_spec + kernel_spec + program_spec
)


# ---- the verifier

_CONTEXT = 10


def _advice(u: UOp) -> str:
    """How to mend what the rules alone do not tell."""
    if u.op in (Ops.LOAD, Ops.STORE) and u.src and not _stays_inside(u):
        where = u.src[0].render(simplify=False)
        return f"The access {where} can leave its buffer: limit the index, or gate it. "
    return ""


def _line(place: int, u: UOp) -> str:
    sources = ", ".join(f"{s.op.name}:{s.dtype!r}" for s in u.src)
    return f"{place:5d} {u.op.name:12s} {u.dtype!r} arg={argument_text(u.arg)} src=[{sources}]"


def _surroundings(nodes: list[UOp], place: int) -> str:
    first = max(0, min(place - _CONTEXT // 2, len(nodes) - _CONTEXT))
    shown = range(first, min(len(nodes), first + _CONTEXT))
    return "\n".join(("->" if i == place else "  ") + _line(i, nodes[i]) for i in shown)


@cache
def _conditions(check_spec: PatternMatcher) -> dict[Ops, Callable[[UOp], bool]] | None:
    """The condition that decides for each op, None where some rule of the specification is no condition of `_rules`."""
    found: dict[Ops, Callable[[UOp], bool]] = {}
    for pattern, answer in check_spec.patterns:
        condition = getattr(answer, "condition", None)
        if condition is None:
            return None
        for op in pattern.op:
            found.setdefault(op, condition)
    return found


def type_verify(ast: UOp | Iterable[UOp], check_spec: PatternMatcher) -> None:
    """Checks every node of a graph or list. Raises RuntimeError that shows the first bad one."""
    nodes = ast.toposort() if isinstance(ast, UOp) else ast if isinstance(ast, tuple) else list(ast)
    conditions = _conditions(check_spec)
    if conditions is None:
        place = next((i for i, u in enumerate(nodes) if check_spec.rewrite(u) is not True), None)
    else:
        place = _first_malformed(nodes, conditions)
    if place is None:
        return
    nodes = list(nodes)
    u = nodes[place]
    raise RuntimeError(
        f"UOp verification failed at {place} of {len(nodes)}: {u.op} {u.dtype!r} with sources "
        f"{[(s.op.name, s.dtype) for s in u.src]} and arg {argument_text(u.arg)} is not valid "
        f"here. {_advice(u)}The nodes around it:\n{_surroundings(nodes, place)}"
    )


def _first_malformed(nodes: Iterable[UOp], conditions: dict) -> int | None:
    for place, u in enumerate(nodes):
        condition = conditions.get(u.op)
        if condition is None or condition(u) is not True:
            return place
    return None
