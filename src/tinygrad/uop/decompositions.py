"""Operations that a target lacks, written with those it has.

In: a kernel after expansion. Out: the same values from the ops in `ops`, the keys of a renderer's
`code_for_op`. `late_decompositions(ops)` builds the matcher once per set of ops; codegen runs it
after the symbolic passes, because what it makes (shifts, magic multiplications, polynomials) hides
the algebra. Elementary functions come from `uop/transcendental.py`; it is exported here too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection

from tinygrad.dtype import DType, dtypes, truncate
from tinygrad.helpers import DISABLE_FAST_IDIV, TRANSCENDENTAL
from tinygrad.uop import Ops
from tinygrad.uop.ops import PatternMatcher, UOp, UPat
from tinygrad.uop.rules.base import FLOATS, INTS, NUMBERS, rule
from tinygrad.uop.transcendental import (
    TRANSCENDENTAL_DTYPES,
    cody_waite_reduction,
    frexp,
    payne_hanek_reduction,
    pow2if,
    rintk,
    trig_poly,
    xcos,
    xexp,
    xexp2,
    xlog2,
    xpow,
    xsin,
    xsqrt,
    xtrunc,
)
from tinygrad.uop.transcendental_tables import LOG2_E

__all__ = [
    "TRANSCENDENTAL_DTYPES",
    "cody_waite_reduction",
    "fast_idiv",
    "frexp",
    "get_late_rewrite_patterns",
    "late_decompositions",
    "payne_hanek_reduction",
    "pow2if",
    "rintk",
    "trig_poly",
    "xcos",
    "xexp",
    "xexp2",
    "xlog2",
    "xpow",
    "xsin",
]

_x, _y = UPat.var("x"), UPat.var("y")
_c = UPat.cvar("c", vec=False)
# index arithmetic has no width yet: only ints with one are lowered here
_FIXED_INTS = tuple(dt for dt in dtypes.ints if dt is not dtypes.index)
_int_x = UPat.var("x", _FIXED_INTS)


# ---- division by constants


def log2_exact(value: int) -> int | None:
    """`k` for `2**k`, else None."""
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None


def magic_multiplier(largest: int, divisor: int) -> tuple[int, int]:
    """`(m, s)` with `(n * m) >> s == n // divisor` for `0 <= n <= largest`, smallest `s`.

    With `m = ceil(2**s / divisor)` and `e = m*divisor - 2**s` the product overshoots `n / divisor`
    by `n*e / (divisor * 2**s)`, which never reaches the next integer while `n * e < 2**s`.
    (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994.)
    """
    shift = 0
    while True:
        m = -(-(1 << shift) // divisor)
        if (m * divisor - (1 << shift)) * largest < 1 << shift:
            return m, shift
        shift += 1


def _multiply_and_shift(x: UOp, divisor: int) -> UOp | None:
    """The quotient in the type of `x`, None where the product would leave it; `divisor` is no power
    of two, so that the product is never exact."""
    largest = max(abs(x.vmin), abs(x.vmax))
    m, shift = magic_multiplier(largest, divisor)
    if m * largest > x.dtype.scalar().max or shift >= 8 * x.dtype.scalar().itemsize:
        return None
    quotient = (x * x.const_like(m)) >> x.const_like(shift)
    if x.vmin >= 0:
        return quotient
    # the shift rounds down: one too low for every negative dividend
    return quotient + (x < x.const_like(0)).where(x.const_like(1), x.const_like(0))


def _shift_quotient(x: UOp, k: int) -> UOp:
    """`x // 2**k`: a negative dividend is moved up first, because the shift rounds down."""
    if x.vmin >= 0:
        return x >> x.const_like(k)
    bias = (x < x.const_like(0)).where(x.const_like((1 << k) - 1), x.const_like(0))
    return (x + bias) >> x.const_like(k)


def fast_idiv(device: str, x: UOp, d: int, dont_cast=False) -> UOp | None:
    """`x // d` for a constant `d > 0` by a multiplication and a shift, None where it is not exact.

    Tried in turn: the type of `x`; after the factors of two of `d` are shifted out; 64 bits, unless
    `dont_cast`. A target without 64 bit integers passes `dont_cast`, so `device` does not matter.
    """
    if d <= 0 or not dtypes.is_int(x.dtype.scalar()) or x.dtype.scalar() is dtypes.index:
        return None
    if d == 1:
        return x
    exact = log2_exact(d)
    direct = _multiply_and_shift(x, d) if exact is None else _shift_quotient(x, exact)
    if direct is not None:
        return direct
    twos = (d & -d).bit_length() - 1
    if twos > 0 and x.vmin >= 0:
        rest = fast_idiv(device, x >> x.const_like(twos), d >> twos, True)
        if rest is not None:
            return rest
    if dont_cast or x.dtype.scalar().itemsize >= 8:
        return None
    wide = dtypes.uint64 if dtypes.is_unsigned(x.dtype.scalar()) else dtypes.int64
    result = fast_idiv(device, x.cast(wide.vec(x.dtype.vcount)), d, True)
    return None if result is None else result.cast(x.dtype)


def _lower_quotient(x: UOp, c: UOp) -> UOp | None:
    """`x // 2**k` as a shift."""
    k = log2_exact(c.arg)
    return None if k is None or k == 0 else _shift_quotient(x, k)


def _lower_remainder_to_mask(x: UOp, c: UOp) -> UOp | None:
    """`x % 2**k -> x & (2**k - 1)` for `x >= 0`."""
    if log2_exact(c.arg) is None or x.vmin < 0:
        return None
    return x & x.const_like(c.arg - 1)


def _lower_product_to_shift(x: UOp, c: UOp) -> UOp | None:
    """`x * 2**k -> x << k`."""
    k = log2_exact(c.arg)
    return None if k is None or k == 0 else x << x.const_like(k)


def _lower_remainder(x: UOp, y: UOp) -> UOp:
    """`x % y` from the quotient; 0 for a zero divisor, like the quotient."""
    rest = x - (x // y) * y
    return rest if y.vmin > 0 or y.vmax < 0 else y.ne(0).where(rest, x.const_like(0))


def _lower_maximum(x: UOp, y: UOp) -> UOp:
    """`max(x, y)`, NaN if either is."""
    larger = x < y
    return (larger | y.ne(y) if dtypes.is_float(x.dtype.scalar()) else larger).where(y, x)


def _lower_quotient_fast(x: UOp, c: UOp) -> UOp | None:
    # on vectors a detour through 64 bits halves the lanes
    return fast_idiv("", x, c.arg, dont_cast=x.dtype.vcount > 1)


def _lower_remainder_fast(x: UOp, c: UOp) -> UOp | None:
    quotient = _lower_quotient_fast(x, c)
    return None if quotient is None else x - quotient * c


# ---- Threefry


_THREEFRY_PARITY = 0x1BD11BDA
_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _rotate_left(v: UOp, distance: int) -> UOp:
    return (v << v.const_like(distance)) | (v >> v.const_like(32 - distance))


def lower_threefry(x: UOp, y: UOp) -> UOp:
    """Threefry-2x32 with 20 rounds: `x` is the counter, `y` the key, words packed low first.

    Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11: four
    rounds of add, rotate, xor; then a key injection that also adds the number of the group.
    """
    word = dtypes.uint32.vec(x.dtype.vcount)
    half = x.const_like(32)

    def split(u: UOp) -> list[UOp]:
        return [u.cast(word), (u >> half).cast(word)]

    keys = split(y)
    keys.append(keys[0] ^ keys[1] ^ keys[0].const_like(_THREEFRY_PARITY))
    low, high = (part + key for part, key in zip(split(x), keys))
    for group in range(1, 6):
        for distance in _THREEFRY_ROTATIONS[(group - 1) % 2]:
            low = low + high
            high = _rotate_left(high, distance) ^ low
        low = low + keys[group % 3]
        high = high + keys[(group + 1) % 3] + high.const_like(group)
    return (high.cast(x.dtype) << half) | low.cast(x.dtype)


# ---- the matcher


def _when(dtype_set: Collection[DType], fn: Callable[[UOp], UOp]):
    def lower(d: UOp) -> UOp | None:
        return fn(d) if d.dtype.scalar() in dtype_set else None

    return lower


def _angle_of_cosine(u: UOp) -> UOp | None:
    """`x` of `x + pi/2` or `pi/2 - x`, in all forms that a sum takes on its way here."""
    quarter = {Ops.ADD: u.src[-1:], Ops.SUB: u.src[:1], Ops.MULACC: u.src[-1:]}.get(u.op)
    if not quarter or quarter[0].op is not Ops.CONST:
        return None
    rounded = truncate[u.dtype.scalar()]
    if rounded(quarter[0].arg) != rounded(math.pi / 2):
        return None
    if u.op is Ops.MULACC:
        return u.src[0] * u.src[1]
    return u.src[0] if u.op is Ops.ADD else u.src[1]


def _lower_sine(d: UOp) -> UOp:
    """A cosine is spelt as the sine of a sum with pi/2, which for large angles would be rounded away."""
    angle = _angle_of_cosine(d) if d.dtype.scalar() in _ROUNDED_SUMS else None
    return xsin(d) if angle is None else xcos(angle)


def _lower_exp2(d: UOp) -> UOp:
    """`e**x` is spelt as `2**(x * log2(e))`; the product would be rounded, by the more the larger it is."""
    if d.op is Ops.MUL and d.src[1].op is Ops.CONST and d.dtype.scalar() in _ROUNDED_SUMS:
        rounded = truncate[d.dtype.scalar()]
        fraction, exponent = math.frexp(rounded(d.src[1].arg))
        if abs(fraction) == rounded(LOG2_E / 2):
            factor = math.copysign(math.ldexp(1.0, exponent - 1), fraction)
            x = d.src[0]
            return xexp(x if factor == 1.0 else x * x.const_like(factor))
    return xexp2(d)


# float16 is computed in float32, after its sums were rounded
_ROUNDED_SUMS = (dtypes.float32, dtypes.float64)


def _elementary_rules(ops: Collection[Ops], force: bool) -> list:
    lowered: list[tuple[Ops, Callable[[UOp], UOp]]] = [
        (Ops.EXP2, _lower_exp2),
        (Ops.LOG2, xlog2),
        (Ops.SIN, _lower_sine),
    ]
    missing = [(op, fn) for op, fn in lowered if force or op not in ops]
    missing += [(op, fn) for op, fn in ((Ops.SQRT, xsqrt), (Ops.TRUNC, xtrunc)) if op not in ops]
    rules = [
        rule(
            f"lower-{op.name.lower()}",
            UPat(op, src=(UPat.var("d"),)),
            _when(TRANSCENDENTAL_DTYPES, fn),
            domain=FLOATS,
            unsafe="correct to one or two units in the last place",
        )
        for op, fn in missing
    ]
    if Ops.POW not in ops:
        rules.append(
            rule(
                "lower-pow",
                UPat(Ops.POW, src=(UPat.var("base", TRANSCENDENTAL_DTYPES), UPat.var("exponent"))),
                xpow,
                domain=FLOATS,
                unsafe="relative error grows with the exponent of the result",
            )
        )
    return rules


def _integer_rules(ops: Collection[Ops], fast_division: bool) -> list:
    # before: the fast quotient, because a power of two needs no multiplication
    rules = []
    if Ops.AND in ops:
        rules.append(rule("lower-mod-mask", _int_x % _c, _lower_remainder_to_mask, domain=INTS))
    if Ops.SHL in ops:
        rules.append(rule("lower-mul-shift", _int_x * _c, _lower_product_to_shift, domain=INTS))
    if Ops.SHR in ops:
        rules.append(rule("lower-div-shift", _int_x // _c, _lower_quotient, domain=INTS))
        if fast_division:
            rules.append(rule("lower-div-magic", _int_x // _c, _lower_quotient_fast, domain=INTS))
            rules.append(rule("lower-mod-magic", _int_x % _c, _lower_remainder_fast, domain=INTS))
    if Ops.MOD not in ops:
        rules.append(rule("lower-mod", _int_x % _y, _lower_remainder, domain=INTS))
    return rules


def _sign_rules(ops: Collection[Ops]) -> list:
    rules = []
    if Ops.NEG in ops:
        rules.append(
            rule(
                "lower-times-minus-one",
                UPat.var("x", (*_FIXED_INTS, *dtypes.floats)) * -1,
                lambda x: x.alu(Ops.NEG),
                NUMBERS,
            )
        )
    else:
        rules.append(rule("lower-neg", UPat(Ops.NEG, src=(_x,)), lambda x: x * -1, NUMBERS))
    if Ops.SUB in ops:
        negated = UPat(Ops.NEG, src=(_y,))
        rules.append(rule("lower-add-neg", _x + negated, lambda x, y: x.alu(Ops.SUB, y), NUMBERS))
    else:
        rules.append(
            rule("lower-sub", UPat(Ops.SUB, src=(_x, _y)), lambda x, y: x + y * -1, NUMBERS)
        )
    return rules


def _comparison_rules(ops: Collection[Ops]) -> list:
    negated = UPat.const(dtypes.bool, True)
    rules = [
        # !(x < c) is (c - 1) < x
        rule(
            "lower-not-less",
            (_int_x < _c).ne(negated),
            lambda x, c: None if c.arg <= x.dtype.min else x.const_like(c.arg - 1) < x,
            domain=INTS,
        ),
        # !(c < x) is x < (c + 1)
        rule(
            "lower-not-greater",
            (_c < _int_x).ne(negated),
            lambda x, c: None if c.arg >= x.dtype.max else x < x.const_like(c.arg + 1),
            domain=INTS,
        ),
    ]
    if Ops.CMPEQ in ops:
        rules.append(
            rule("lower-not-unequal", _x.ne(_y).ne(negated), lambda x, y: x.alu(Ops.CMPEQ, y))
        )
    else:
        rules.append(
            rule("lower-equal", UPat(Ops.CMPEQ, src=(_x, _y)), lambda x, y: x.ne(y).ne(True))
        )
    if Ops.MAX not in ops:
        rules.append(rule("lower-max", UPat(Ops.MAX, src=(_x, _y)), _lower_maximum))
    return rules


def _product_rules(ops: Collection[Ops]) -> list:
    rules = []
    if Ops.FDIV in ops:
        inverse = UPat(Ops.RECIPROCAL, src=(_y,))
        one = UPat.const(None, 1)
        rules.append(
            rule(
                "lower-reciprocal-product",
                _x * inverse,
                lambda x, y: x.alu(Ops.FDIV, y),
                FLOATS,
                unsafe="one rounding in place of two",
            )
        )
        if Ops.RECIPROCAL not in ops:
            rules.append(
                rule(
                    "lower-reciprocal", inverse, lambda y: y.const_like(1).alu(Ops.FDIV, y), FLOATS
                )
            )
        else:
            rules.append(
                rule(
                    "lower-one-over",
                    UPat(Ops.FDIV, src=(one, _y)),
                    lambda y: y.reciprocal(),
                    FLOATS,
                )
            )
    else:
        rules.append(
            rule(
                "lower-fdiv",
                UPat(Ops.FDIV, src=(_x, _y)),
                lambda x, y: x * y.reciprocal(),
                FLOATS,
                unsafe="two roundings in place of one",
            )
        )
    if Ops.MULACC in ops:
        fused = UPat.var("x", dtypes.floats) * _y + UPat.var("z")
        rules.append(
            rule(
                "lower-multiply-add",
                fused,
                lambda x, y, z: x.alu(Ops.MULACC, y, z),
                FLOATS,
                unsafe="one rounding in place of two",
            )
        )
    else:
        rules.append(
            rule(
                "lower-mulacc",
                UPat(Ops.MULACC, src=(_x, _y, UPat.var("z"))),
                lambda x, y, z: x * y + z,
                NUMBERS,
            )
        )
    return rules


def _random_rules(ops: Collection[Ops]) -> list:
    if Ops.THREEFRY in ops:
        return []
    packed = UPat(Ops.THREEFRY, dtype=dtypes.uint64, src=(_x, _y))
    return [rule("lower-threefry", packed, lower_threefry)]


@functools.cache
def _matcher(
    ops: frozenset[Ops], force_transcendental: bool, fast_division: bool
) -> PatternMatcher:
    return PatternMatcher(
        [
            *_elementary_rules(ops, force_transcendental),
            *_random_rules(ops),
            *_integer_rules(ops, fast_division),
            *_sign_rules(ops),
            *_comparison_rules(ops),
            *_product_rules(ops),
        ]
    )


def late_decompositions(
    ops: Collection[Ops],
    force_transcendental: bool | None = None,
    fast_division: bool | None = None,
) -> PatternMatcher:
    """The matcher that leaves only `ops`.

    `force_transcendental` replaces EXP2, LOG2 and SIN also where the target has them (default:
    TRANSCENDENTAL >= 2); `fast_division` allows magic multiplication (default: not
    DISABLE_FAST_IDIV). The result is the same object for the same arguments.
    """
    if force_transcendental is None:
        force_transcendental = TRANSCENDENTAL.value >= 2
    if fast_division is None:
        fast_division = not DISABLE_FAST_IDIV.value
    return _matcher(frozenset(ops), bool(force_transcendental), bool(fast_division))


# the name under which the ecosystem asks for it
get_late_rewrite_patterns = late_decompositions
