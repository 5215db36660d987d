"""Loads, stores and their gates.

In: kernels that read a buffer by naming an element (`INDEX` with a value type) and mark "no element
here" by `Invalid` inside the index. Out: explicit LOAD and STORE over addresses (`INDEX` with a
pointer type), each with its condition as the third source of the INDEX; a gated LOAD carries the
value that stands for the missing element, and what is never executed is gone.
"""

from __future__ import annotations

from tinygrad.dtype import AddrSpace, Invalid, PtrDType, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat

# *** element reads become loads ***


def lower_element_read(u: UOp) -> UOp | None:
    """A value INDEX is a LOAD of an address INDEX."""
    if isinstance(u.dtype, PtrDType) or not isinstance(u.src[0].dtype, PtrDType):
        return None
    return UOp(Ops.LOAD, u.dtype, (u.replace(dtype=u.src[0].dtype),))


pm_add_loads = PatternMatcher(
    [
        (UPat(Ops.INDEX, name="u"), lower_element_read),
        # an element that is stored to is an address, not a read
        (
            UPat(Ops.STORE, src=(UPat(Ops.LOAD, name="read"),), allow_any_len=True, name="u"),
            lambda u, read: u.replace(src=(read.src[0], *u.src[1:])),
        ),
        (
            UPat(Ops.LOAD, src=(UPat(Ops.LOAD, name="read"),), allow_any_len=True, name="u"),
            lambda u, read: u.replace(src=(read.src[0], *u.src[1:])),
        ),
    ]
)


def address_parts(address: UOp) -> tuple[UOp, UOp, UOp | None] | None:
    """(buffer, index, gate or None) of an address; None where it is not one element's INDEX."""
    if address.op is not Ops.INDEX or len(address.src) < 2:
        return None
    return address.src[0], address.src[1], address.src[2] if len(address.src) > 2 else None


# *** validity becomes a gate ***


def _is_invalid(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg is Invalid


def _split_valid(idx: UOp) -> tuple[UOp, UOp | None] | None:
    """(index, condition) of `WHERE(condition, index, Invalid)`; None for an index without one."""
    if idx.op is not Ops.WHERE:
        return None
    cond, yes, no = idx.src
    if _is_invalid(no):
        inner = _split_valid(yes)
        return (yes, cond) if inner is None else (inner[0], cond & inner[1])
    if _is_invalid(yes):
        cond = cond.logical_not()
        inner = _split_valid(no)
        return (no, cond) if inner is None else (inner[0], cond & inner[1])
    return None


def lower_valid_to_gate(u: UOp) -> UOp | None:
    """`buf[WHERE(c, i, Invalid)]` is `buf[i]` behind the gate `c`."""
    if len(u.src) < 2 or (found := _split_valid(u.src[1])) is None:
        return None
    idx, cond = found
    gate = cond & u.src[2] if len(u.src) > 2 else cond
    return u.replace(src=(u.src[0], idx, gate))


def _clauses(cond: UOp) -> list[UOp]:
    return list(cond.split_uop(Ops.AND))


def _gate_of(address: UOp) -> UOp | None:
    address = address.src[0] if address.op is Ops.CAST else address
    return address.src[2] if len(address.src) > 2 else None


def _negations(cond: UOp) -> set[UOp]:
    """The spellings of "not cond"."""
    return {cond.logical_not(), cond.logical_not().simplify()}


def _is_zero(u: UOp) -> bool:
    return u.op is Ops.CONST and u.arg == 0


def _replacement_value(load: UOp, alt: UOp, cast: UOp | None) -> UOp | None:
    """`alt` as a value of the loaded type, when nothing is lost by that."""
    if cast is None:
        return alt
    if alt.op is not Ops.CONST:
        return None
    narrowed = dtypes.as_const(alt.arg, load.dtype.scalar())
    if dtypes.as_const(narrowed, alt.dtype.scalar()) != alt.arg:
        return None
    return load.const_like(narrowed)


_POSITIONS = (Ops.RANGE, Ops.SPECIAL, Ops.DEFINE_VAR)


def _positions(u: UOp) -> set[UOp]:
    """The loop counters and variables that `u` is computed from."""
    return {n for n in u.backward_slice_with_self if n.op in _POSITIONS}


def _unrelated_clauses(wanted: list[UOp], idx: UOp, alt: UOp) -> list[UOp]:
    """Clauses about other positions than the index: they cannot decide whether it is in bounds."""
    if alt.op is not Ops.CONST:
        return []
    own = _positions(idx)
    return [c for c in wanted if (found := _positions(c)) and not found & own]


def _with_alternative(load: UOp, cond: UOp, alt: UOp, cast: UOp | None) -> UOp | None:
    gate = _gate_of(load.src[0])
    if gate is None or (len(load.src) > 1 and not _is_zero(load.src[1])):
        return None
    if _is_invalid(alt):
        # the condition is that of an access at the place that is read here, which takes it
        return None
    wanted = _clauses(cond)
    if not all(c in wanted for c in _clauses(gate)):
        return None
    value = _replacement_value(load, alt, cast)
    if value is None or any(u is load or u.op is Ops.STORE for u in value.toposort()):
        return None
    # a load that does not move with an axis stays outside of that axis' loop
    outside = _unrelated_clauses(wanted, load.src[0].src[1], alt)
    inside = [c for c in wanted if c not in outside]
    address = load.src[0].replace(src=load.src[0].src[:2])
    if inside:
        address = address.replace(src=(*address.src, UOp.prod(*inside)))
    loaded = load.replace(src=(address, value) if inside else (address,))
    result = loaded if cast is None else cast.replace(src=(loaded,))
    return UOp.prod(*outside).where(result, alt) if outside else result


def push_where_into_load(cond: UOp, load: UOp, alt: UOp, cast: UOp | None = None) -> UOp | None:
    """`WHERE(c, load gated by c, alt)` is a load that yields `alt` where the gate is false."""
    return _with_alternative(load, cond, alt, cast)


def push_negated_where_into_load(
    cond: UOp, load: UOp, alt: UOp, cast: UOp | None = None
) -> UOp | None:
    """The same with the branches swapped: the gate is "not c"."""
    gate = _gate_of(load.src[0])
    if gate is None:
        return None
    if gate in _negations(cond) or cond in _negations(gate):
        return _with_alternative(load, gate, alt, cast)
    return None


def pull_where_into_gate(store: UOp, address: UOp, cond: UOp, yes: UOp, no: UOp) -> UOp | None:
    """Storing back what was read is not storing: the condition becomes the gate."""
    if address.dtype.addrspace is AddrSpace.REG:
        return None
    for value, other, gate in ((yes, no, cond), (no, yes, None)):
        plain = other.op is Ops.LOAD and other.src[0] is address and len(other.src) == 1
        if plain and len(address.src) == 2:
            gate = cond.logical_not() if gate is None else gate
            gated = address.replace(src=(*address.src, gate))
            return store.replace(src=(gated, value, *store.src[2:]))
    return None


_c, _v = UPat.var("c", dtypes.bool), UPat.var("v", dtypes.bool)

# a choice between conditions is a condition, whose clauses can be told apart
_bool_choices = [
    (_c.where(_v, UPat.const(dtypes.bool, False)), lambda c, v: c & v),
    (_c.where(_v, UPat.const(dtypes.bool, True)), lambda c, v: c.logical_not() | v),
    (_c.where(UPat.const(dtypes.bool, True), _v), lambda c, v: c | v),
    (_c.where(UPat.const(dtypes.bool, False), _v), lambda c, v: c.logical_not() & v),
]


def choose_by_less(x: UOp, c: UOp, less: UOp) -> UOp | None:
    """`x <= c ? c : x` is `x < c ? c : x`: where the two are equal it does not matter which is taken.

    For floats "less or equal" takes two comparisons, since "not greater" is true of a NaN. The zero that is taken
    may be the other one of 0.0 and -0.0, as with `maximum`.
    """
    return less.where(c, x) if less.src[0] is x and less.src[1] is c else None


_x, _least = UPat.var("x"), UPat(Ops.CONST, name="c")
_equal = UPat(Ops.CMPNE, src=(UPat(Ops.CMPNE, src=(_x, _least)), UPat.const(dtypes.bool, True)))
_less_or_equal = UPat(Ops.OR, src=[UPat(Ops.CMPLT, name="less"), _equal])

_load = UPat(Ops.LOAD, src=(UPat(Ops.INDEX),), allow_any_len=True, name="load")
_read = UPat.any(_load, _load.cast().named("cast"))

pm_gates = PatternMatcher(
    [
        (
            UPat(Ops.INDEX, src=(UPat(), UPat(Ops.WHERE)), allow_any_len=True, name="u"),
            lower_valid_to_gate,
        ),
        (UPat.var("cond").where(_read, UPat.var("alt")), push_where_into_load),
        (UPat.var("cond").where(UPat.var("alt"), _read), push_negated_where_into_load),
        (
            UPat(
                Ops.STORE,
                src=(
                    UPat(Ops.INDEX, name="address"),
                    UPat.var("cond").where(UPat.var("yes"), UPat.var("no")),
                ),
                allow_any_len=True,
                name="store",
            ),
            pull_where_into_gate,
        ),
        *_bool_choices,
        (_less_or_equal.where(_least, _x), choose_by_less),
    ]
)

# *** gates that are decided ***


def fold_gate(u: UOp) -> UOp | None:
    """A gate that is always true is no gate; an index that is Invalid has a gate of False."""
    if len(u.src) > 2 and u.src[2].op is Ops.CONST and u.src[2].arg is True:
        return u.replace(src=u.src[:2])
    if len(u.src) == 2 and _is_invalid(u.src[1]):
        never = UOp.const(dtypes.bool, False)
        return u.replace(src=(u.src[0], u.src[1].const_like(0), never))
    return None


def _never(address: UOp) -> bool:
    gate = _gate_of(address)
    return gate is not None and gate.op is Ops.CONST and gate.arg is False


def fold_never_loaded(load: UOp, address: UOp) -> UOp | None:
    """A load behind a false gate is its alternative."""
    if not _never(address):
        return None
    return load.src[1] if len(load.src) > 1 else load.const_like(0)


def fold_never_stored(address: UOp) -> UOp | None:
    """A store behind a false gate does nothing."""
    return UOp(Ops.NOOP) if _never(address) else None


def add_alternative(load: UOp, address: UOp) -> UOp | None:
    """A gated load says what it yields when the gate is false."""
    if len(load.src) > 1 or _gate_of(address) is None:
        return None
    return load.replace(src=(address, load.const_like(0)))


def drop_alternative(load: UOp, address: UOp) -> UOp | None:
    """A load that always happens has no alternative."""
    if (
        len(load.src) > 1
        and _gate_of(address) is None
        and load.src[1].op
        in GroupOp.ALU
        | {
            Ops.CONST,
            Ops.VCONST,
        }
    ):
        return load.replace(src=(address,))
    return None


_address = UPat((Ops.INDEX, Ops.CAST), name="address")
_gated = UPat(Ops.INDEX, src=(UPat(), UPat(), UPat()))
_decided_index = UPat(Ops.INDEX, src=(UPat(), UPat(), UPat(Ops.CONST)))
_decided = UPat.any(_decided_index, UPat(Ops.CAST, src=(_decided_index,))).named("address")

pm_fold_gates = PatternMatcher(
    [
        (UPat(Ops.INDEX, src=(UPat(), UPat(), UPat(Ops.CONST)), name="u"), fold_gate),
        (UPat(Ops.INDEX, src=(UPat(), UPat(Ops.CONST)), name="u"), fold_gate),
        (UPat(Ops.LOAD, src=(_decided,), allow_any_len=True, name="load"), fold_never_loaded),
        (UPat(Ops.STORE, src=(_decided,), allow_any_len=True), fold_never_stored),
    ]
)

pm_gated_alternatives = PatternMatcher(
    [
        (
            UPat(
                Ops.LOAD,
                src=(UPat.any(_gated, UPat(Ops.CAST, src=(_gated,))).named("address"),),
                name="load",
            ),
            add_alternative,
        ),
        (UPat(Ops.LOAD, src=(_address, UPat()), name="load"), drop_alternative),
    ]
)
