"""Power series of elementary functions, cut where a dtype cannot tell the difference.

In: float32 or float64 tensors (or anything with their operators) within the range of a series. Out:
values whose relative error is that of the arithmetic. Called by `elementary`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad.dtype import DType, dtypes

# coefficient number k of P in x * P(x * x), and the largest |x| it is meant for
_ODD: dict[str, tuple[Callable[[int], float], float]] = {
    "sinh": (lambda k: 1 / math.factorial(2 * k + 1), 1.0),
    "asin": (lambda k: math.comb(2 * k, k) / (4**k * (2 * k + 1)), 0.5),
    "atan": (lambda k: (-1) ** k / (2 * k + 1), math.sqrt(2) - 1),
    "atanh": (lambda k: 1 / (2 * k + 1), 1 / 3),
    "erf": (lambda k: 2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)), 1.0),
}

# exp(x*x) * erfc(x) * (1 + 2*x) as a polynomial in (x - 2.5) / (x + 2.5) on 1 <= x <= 4.2 and 6.2,
# lowest power first: minimax fits of the relative error, 1.5e-7 and 5.3e-16, of what is at most 0.16.
# The form is that of Schonfelder, "Chebyshev expansions for the error and related functions" (1978).
_ERFC_FLOAT32 = (
    1.2648381195324245, -0.12235994089487763, -0.09901456931676679, 0.15780412654460052,
    -0.10308759831733997, 0.030539622640823064,
)  # fmt: skip
_ERFC_FLOAT64 = (
    1.2648381843668615, -0.12235676308242763, -0.09902453957364753, 0.15762991902801052,
    -0.10296705603393846, 0.032760892983699066, 0.0009318926320735457, -0.004382070861561032,
    0.0004918695735647875, 0.0006320234007363296, -8.852203967005965e-05, -0.00011279004496767173,
    6.544975693173001e-06, 1.9969064909689936e-05, 1.6199661788357662e-06,
)  # fmt: skip


def _terms(coefficient: Callable[[int], float], ratio: float, dtype: DType) -> tuple[float, ...]:
    """Coefficients up to the first whose term, at powers of `ratio`, is an eighth of the last place."""
    _, mantissa_bits = dtypes.finfo(dtype)
    found: list[float] = []
    while True:
        term = coefficient(len(found))
        if abs(term) * ratio ** len(found) < 2.0 ** -(mantissa_bits + 4):
            return tuple(found)
        found.append(term)


@functools.cache
def _odd_terms(name: str, dtype: DType) -> tuple[float, ...]:
    coefficient, largest = _ODD[name]
    return _terms(coefficient, largest**2, dtype)


@functools.cache
def _expm1_terms(dtype: DType) -> tuple[float, ...]:
    return _terms(lambda k: 1 / math.factorial(k + 1), 0.5, dtype)


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's scheme, lowest power first."""
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def odd(name: str, x: Any) -> Any:
    """ "sinh" for |x| <= 1, "asin" <= 1/2, "atan" <= tan(pi/8), "atanh" <= 1/3, "erf" <= 1."""
    first, *rest = _odd_terms(name, x.dtype)
    square = x * x
    # the leading term comes last, so that small arguments lose nothing
    cubic = x * square * _polynomial(square, rest)
    return cubic + (x if first == 1 else x * first)


def expm1(x: Any) -> Any:
    """`exp(x) - 1` for |x| <= 1/2."""
    _, *rest = _expm1_terms(x.dtype)
    return x * x * _polynomial(x, rest) + x


def scaled_erfc(x: Any) -> Any:
    """`erfc(x) * exp(x * x)` for x >= 1, to what the error function of the dtype shows of it."""
    coefficients = _ERFC_FLOAT64 if x.dtype is dtypes.float64 else _ERFC_FLOAT32
    return _polynomial((x - 2.5) / (x + 2.5), coefficients) / (x * 2 + 1)
