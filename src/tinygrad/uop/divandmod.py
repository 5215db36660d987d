"""Integer quotients and remainders of index expressions.

In: an IDIV or MOD node of `dtypes.index` whose operands are simplified. Out: an equal, smaller or
more canonical node, or None. Called by the rules in `rules/divide.py`.

IDIV rounds toward zero and MOD has the sign of the dividend. Three facts carry everything here, for
integers `x`, `y != 0`, `g != 0`:

- scaling: `(g*x) // (g*y) == x // y` and `(g*x) % (g*y) == g * (x % y)`, any signs;
- signs: `x // -y == -(x // y)`, `-x // y == -(x // y)`, `x % -y == x % y`, `-x % y == -(x % y)`;
- for `x >= 0`, `y > 0` truncation is flooring, so whole multiples of `y` can be taken out:
  `(y*q + r) // y == q + r // y` provided `r >= 0`, and with `floor(r / y) == k` known, `q + k`.

Steps that need the third fact prove `x >= 0` from bounds. Each step is a function
`(Division) -> UOp | None`; they are tried in the order of `_STEPS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tinygrad.uop import Ops
from tinygrad.uop.ops import UOp
from tinygrad.uop.rules.linear import Linear, scaled


def truncated_quotient(x: int, y: int) -> int:
    """`x / y` rounded toward zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def truncated_remainder(x: int, y: int) -> int:
    """What is left of `x` after `truncated_quotient`, with the sign of `x`."""
    return x - y * truncated_quotient(x, y)


class Division:
    """One IDIV or MOD node with the facts that the steps ask for."""

    __slots__ = ("_sum", "divisor", "node", "wants_quotient", "x", "y")

    def __init__(self, node: UOp):
        self.node = node
        self.x, self.y = node.src
        self.wants_quotient = node.op is Ops.IDIV
        # the divisor as a number, 0 when it is an expression
        self.divisor: int = self.y.arg if self.y.op is Ops.CONST else 0
        self._sum: Linear | None = None

    @property
    def sum(self) -> Linear:
        """The dividend taken apart."""
        if self._sum is None:
            self._sum = Linear.of(self.x)
        return self._sum

    @property
    def floors(self) -> bool:
        """True when rounding toward zero is rounding down."""
        return self.x.vmin >= 0 and self.y.vmin > 0

    def divide(self, x: UOp, y: UOp | int) -> UOp:
        """The same op on other operands."""
        return x.alu(self.node.op, x.ufix(y))


# ---- any divisor


def fold_known_quotient(d: Division) -> UOp | None:
    """A quotient that is the same at all corners is that number everywhere."""
    x, y = d.x, d.y
    (low, high), (least, most) = x._min_max, y._min_max
    quotient = truncated_quotient(low, least)
    if truncated_quotient(high, least) != quotient:
        return None
    if least != most and (
        truncated_quotient(low, most) != quotient or truncated_quotient(high, most) != quotient
    ):
        return None
    if d.wants_quotient:
        return d.node.const_like(quotient)
    return x if quotient == 0 else x - y * quotient


def fold_below_symbolic_end(d: Division) -> UOp | None:
    """A loop counter is smaller than its own end."""
    if d.x.op is Ops.RANGE and d.x.src[0] is d.y:
        return d.node.const_like(0) if d.wants_quotient else d.x
    return None


def canon_signs(d: Division) -> UOp | None:
    """Operands that are negative everywhere change sign."""
    if d.y.vmax < 0:
        result = d.divide(d.x, -d.y)
        return -result if d.wants_quotient else result
    if d.x.vmax <= 0:
        return -d.divide(Linear.of(d.x).map(lambda f: -f, lambda c: -c).build(), d.y)
    return None


# ---- a divisor that is a number


def merge_nested(d: Division) -> UOp | None:
    """`(x//a)//b -> x//(a*b)`, `(x//a + k)//b -> (x + a*k)//(a*b)`, `(x%(a*b))%b -> x%b`,
    `(x%(a*b))//b -> (x//b)%a`."""
    inner, offset = d.x, 0
    if inner.op is Ops.ADD and inner.src[1].op is Ops.CONST:
        inner, offset = inner.src[0], inner.src[1].arg
    if inner.op not in (Ops.IDIV, Ops.MOD) or inner.src[1].op is not Ops.CONST:
        return None
    x, a = inner.src[0], inner.src[1].arg
    if a <= 0:
        return None
    if inner.op is Ops.IDIV and d.wants_quotient:
        if offset == 0:
            return x // (a * d.divisor)
        if x.vmin >= 0 and d.x.vmin >= 0:
            return (x + a * offset) // (a * d.divisor)
    if inner.op is Ops.MOD and offset == 0 and a % d.divisor == 0:
        return (x // d.divisor) % (a // d.divisor) if d.wants_quotient else x % d.divisor
    return None


def divide_by_common_factor(d: Division) -> UOp | None:
    """A factor of every summand and of the divisor cancels, whatever the signs."""
    g = math.gcd(d.sum.factor_gcd(), d.sum.const, d.divisor)
    if g == 1:
        return None
    reduced = d.sum.map(lambda f: f // g, lambda c: c // g).build()
    divisor = d.divisor // g
    if d.wants_quotient:
        return reduced if divisor == 1 else d.divide(reduced, divisor)
    return d.node.const_like(0) if divisor == 1 else d.divide(reduced, divisor) * g


def _signed_residue(factor: int, divisor: int) -> int:
    residue = factor % divisor
    return residue if 2 * residue <= divisor else residue - divisor


def _positive_residue(factor: int, divisor: int) -> int:
    return factor % divisor


def _fold_with_residues(d: Division, residue: Callable[[int, int], int]) -> UOp | None:
    c = d.divisor
    rest = d.sum.map(lambda f: residue(f, c), lambda k: k % c)
    low, high = rest.bounds()
    bucket = low // c
    if high // c != bucket:
        return None
    if not d.wants_quotient:
        return Linear(rest.like, rest.terms, rest.const - bucket * c).build()
    return d.sum.map(lambda f: (f - residue(f, c)) // c, lambda k: k // c + bucket).build()


def fold_single_bucket(d: Division) -> UOp | None:
    """Coefficients replaced by residues so that the rest stays between two multiples of the
    divisor: then quotient and remainder are both linear."""
    if not d.floors:
        return None
    folded = _fold_with_residues(d, _signed_residue)
    return folded if folded is not None else _fold_with_residues(d, _positive_residue)


def interpolate_two_values(d: Division) -> UOp | None:
    """A single summand that takes two values makes a function of two values: a line."""
    if len(d.sum.terms) != 1:
        return None
    ((node, factor),) = d.sum.terms.items()
    if node.vmax - node.vmin != 1:
        return None
    apply = truncated_quotient if d.wants_quotient else truncated_remainder
    first, second = (apply(factor * v + d.sum.const, d.divisor) for v in (node.vmin, node.vmax))
    slope = second - first
    return Linear(d.x, {node: slope} if slope else {}, first - slope * node.vmin).build()


def merge_remainders_in_sum(d: Division) -> UOp | None:
    """`((x % (a*c))*k + r) % c -> (x*k + r) % c` where nothing is negative."""
    if d.wants_quotient or not d.floors:
        return None
    terms: dict[UOp, int] = {}
    changed = False
    for node, factor in d.sum.terms.items():
        inner_divides = (
            node.op is Ops.MOD
            and node.src[1].op is Ops.CONST
            and node.src[1].arg % d.divisor == 0
            and node.src[0].vmin >= 0
            and factor > 0
        )
        key = node.src[0] if inner_divides else node
        changed = changed or inner_divides
        terms[key] = terms.get(key, 0) + factor
    if not changed:
        return None
    return d.divide(Linear(d.x, terms, d.sum.const).build(), d.divisor)


def take_out_multiples(d: Division) -> UOp | None:
    """`(c*q + r) // c -> r//c + q` and `(c*q + r) % c -> r % c`, for `r >= 0`."""
    if not d.floors:
        return None
    c = d.divisor
    if d.wants_quotient:
        whole, rest = d.sum.split_by(c)
    else:
        whole = d.sum.map(lambda f: truncated_quotient(f, c), lambda k: k // c)
        rest = d.sum.map(lambda f: truncated_remainder(f, c), lambda k: k % c)
    if (not whole.terms and whole.const == 0) or rest.bounds()[0] < 0:
        return None
    result = d.divide(rest.build(), c)
    if not d.wants_quotient:
        return result
    if whole.terms:
        result = result + Linear(d.x, whole.terms, 0).build()
    return result + whole.const if whole.const else result


def canon_positive_residues(d: Division) -> UOp | None:
    """`(k - p) % c -> (k%c + r) % c` where the residues `r` of the coefficients are no larger."""
    if d.wants_quotient or not d.floors:
        return None
    c = d.divisor
    if all(0 < f < c for f in d.sum.terms.values()) and 0 <= d.sum.const < c:
        return None
    if any(f % c > abs(f) for f in d.sum.terms.values()):
        return None
    rest = d.sum.map(lambda f: f % c, lambda k: k % c)
    return d.divide(rest.build(), c) if rest.bounds()[0] >= 0 else None


def round_off_constant(d: Division) -> UOp | None:
    """With `g` a factor of the coefficients and the divisor, a remainder of the constant below `g`
    never carries: `(g*p + k) // (g*c) -> (p + k//g) // c`."""
    if not d.floors:
        return None
    g = math.gcd(d.sum.factor_gcd(), d.divisor)
    if g == 1:
        return None
    reduced = d.sum.map(lambda f: f // g, lambda k: k // g).build()
    result = d.divide(reduced, d.divisor // g)
    return result if d.wants_quotient else scaled(result, g) + d.sum.const % g


def mirror_negative_sum(d: Division) -> UOp | None:
    """`(k - p) // c -> q - (p + c-1-s) // c` with `k == q*c + s`, `0 <= s < c`."""
    if not (d.wants_quotient and d.floors) or not d.sum.terms:
        return None
    if any(f > 0 for f in d.sum.terms.values()):
        return None
    quotient, left = divmod(d.sum.const, d.divisor)
    mirrored = d.sum.map(lambda f: -f, lambda _: d.divisor - 1 - left)
    if mirrored.bounds()[0] < 0:
        return None
    return -d.divide(mirrored.build(), d.divisor) + quotient


def drop_small_terms(d: Division) -> UOp | None:
    """Summands that together stay below a factor `g` of all other coefficients and of the divisor
    never carry: `(g*p + r) // (g*c) -> p // c` for `0 <= r < g`."""
    if not d.floors:
        return None
    for g in sorted({math.gcd(f, d.divisor) for f in d.sum.terms.values()}, reverse=True):
        if g == 1:
            return None
        kept, small = d.sum.split_by(g)
        low, high = small.bounds()
        if not small.terms or low < 0 or high >= g:
            continue
        result = d.divide(kept.build(), d.divisor // g)
        return result if d.wants_quotient else scaled(result, g) + small.build()
    return None


def divide_in_two_steps(d: Division) -> UOp | None:
    """`x // (a*b) -> (x//a) // b` where the first division simplifies, smallest factor first."""
    if not (d.wants_quotient and d.floors):
        return None
    factors = sorted({abs(f) for f in d.sum.terms.values() if 1 < abs(f) < d.divisor})
    first = next((f for f in factors if d.divisor % f == 0), None)
    if first is None:
        return None
    inner = fold_divmod_general(d.x // first, True)
    if inner is None or inner.vmin < 0 or inner.op is Ops.IDIV:
        return None
    if inner.op is Ops.ADD and inner.src[1].op is Ops.CONST and inner.src[0].op is Ops.IDIV:
        # merge_nested would undo this
        return None
    return inner // (d.divisor // first)


# ---- a divisor that is an expression


def divide_by_symbolic_factor(d: Division) -> UOp | None:
    """A factor of every summand and of the divisor cancels."""
    if d.divisor != 0:
        return None
    parts = _parts(d.sum)
    g = UOp.gcd(*parts, d.y)
    if g.op is Ops.CONST and abs(g.arg) == 1:
        return None
    reduced = [part.divide_exact(g) for part in parts]
    divisor = d.y.divide_exact(g)
    if divisor is None or any(part is None for part in reduced):
        return None
    if divisor is d.y:
        return None
    result = d.divide(_total(reduced), divisor)
    return result if d.wants_quotient else result * g


def take_out_symbolic_multiples(d: Division) -> UOp | None:
    """`(y*q + r) // y -> r//y + q` and `(y*q + r) % y -> r % y`, for `r >= 0`."""
    if d.divisor != 0 or not d.floors:
        return None
    whole: list[UOp] = []
    rest: list[UOp] = []
    for part in _parts(d.sum):
        quotient = part.divide_exact(d.y)
        if quotient is None:
            rest.append(part)
        else:
            whole.append(quotient)
    if not whole:
        return None
    left = _total(rest) if rest else d.x.const_like(0)
    if left.vmin < 0:
        return None
    result = d.divide(left, d.y)
    return _total(whole) + result if d.wants_quotient else result


def _parts(total: Linear) -> list[UOp]:
    parts = [scaled(node, factor) for node, factor in total.terms.items()]
    if total.const != 0 or not parts:
        parts.append(total.like.const_like(total.const))
    return parts


def _total(parts: Iterable[UOp]) -> UOp:
    total = None
    for part in parts:
        total = part if total is None else total + part
    assert total is not None, "a dividend has at least one summand"
    return total


Step = Callable[[Division], UOp | None]

_ANY_DIVISOR: tuple[Step, ...] = (fold_below_symbolic_end, fold_known_quotient, canon_signs)
_SYMBOLIC_DIVISOR: tuple[Step, ...] = (divide_by_symbolic_factor, take_out_symbolic_multiples)
_NUMBER_DIVISOR: tuple[Step, ...] = (
    merge_nested,
    divide_by_common_factor,
    fold_single_bucket,
    interpolate_two_values,
    merge_remainders_in_sum,
    take_out_multiples,
    canon_positive_residues,
    round_off_constant,
    mirror_negative_sum,
    # before: drop_small_terms, because users' programs are compared by the form this one leaves
    divide_in_two_steps,
    drop_small_terms,
)


def fold_divmod_general(d: UOp, correct_divmod_folding: bool) -> UOp | None:
    """Simplifies an index IDIV or MOD; None when no step applies.

    Raises ZeroDivisionError for a divisor that is always zero. Every step is exact for truncating
    division, so `correct_divmod_folding`, which elsewhere allows folds that are only right for
    flooring, changes nothing; it is part of the interface.
    """
    division = Division(d)
    y = division.y
    if y.vmin == 0 and y.vmax == 0:
        raise ZeroDivisionError(
            f"{d.render(simplify=False)}: the divisor is always 0, expected a value that is never 0"
        )
    if y.vmin <= 0 <= y.vmax:
        # the divisor may be zero: nothing is known about such elements
        return None
    steps = _ANY_DIVISOR
    if y.op is not Ops.VCONST:
        steps += _NUMBER_DIVISOR if division.divisor else _SYMBOLIC_DIVISOR
    for step in steps:
        result = step(division)
        if result is not None and result is not d:
            return result
    return None
