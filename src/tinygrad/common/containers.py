"""Small functions over sequences, dictionaries and integers. No state; imported by every layer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def prod(x: Iterable[T]) -> T | int:
    """The product of numbers or symbolic values; symbolic factors come first so that the constant stands right.

    >>> prod([2, 3, 4]), prod([])
    (24, 1)
    """
    constant: Any = 1
    symbolic: Any = None
    for factor in x:
        if isinstance(factor, (int, float)):
            constant = constant * factor
        else:
            symbolic = factor if symbolic is None else symbolic * factor
    if symbolic is None:
        return constant
    return symbolic if constant == 1 and isinstance(constant, int) else symbolic * constant


def dedup(x: Iterable[T]) -> list[T]:
    """The distinct elements in order of first appearance.

    >>> dedup([3, 1, 3, 2])
    [3, 1, 2]
    """
    return list(dict.fromkeys(x))


def all_same(items: tuple[T, ...] | list[T]) -> bool:
    """Whether all elements are equal; of none they are.

    >>> all_same([1, 1]), all_same([1, 2]), all_same([])
    (True, False, True)
    """
    return len(items) < 2 or all(item == items[0] for item in items)


def all_int(t: Sequence[Any]) -> bool:
    return all(isinstance(s, int) for s in t)


def argfix(*x: Any) -> tuple:
    """Arguments given one by one or as one list or tuple, as a tuple. Raises ValueError for a mix of both.

    >>> argfix(1, 2), argfix([1, 2])
    ((1, 2), (1, 2))
    """
    if not x or not isinstance(x[0], (tuple, list)):
        return x
    if len(x) > 1:
        raise ValueError(f"expected separate arguments or one {type(x[0]).__name__}, got both: {x}")
    return tuple(x[0])


def argsort(x: Sequence[Any]) -> Any:
    """The permutation that sorts `x`, in the container type of `x`."""
    return type(x)(sorted(range(len(x)), key=lambda i: x[i]))  # type: ignore[call-arg]


def make_tuple(x: int | Sequence[int], cnt: int) -> tuple[int, ...]:
    """A number repeated `cnt` times; a tuple or list as a tuple.

    >>> make_tuple(3, 2), make_tuple((1, 2), 2)
    ((3, 3), (1, 2))
    """
    return (x,) * cnt if isinstance(x, int) else tuple(x)


def flatten(l: Iterable[Iterable[T]]) -> list[T]:  # noqa: E741  drop-in: the parameter's public name
    """The elements of the elements, in order.

    >>> flatten([[1, 2], [3]])
    [1, 2, 3]
    """
    return list(itertools.chain.from_iterable(l))


def fully_flatten(l: Any) -> list:  # noqa: E741
    """All leaves of nested lists, tuples and NumPy arrays, in order; strings are leaves.

    >>> fully_flatten([1, (2, [3])])
    [1, 2, 3]
    """
    out: list = []
    pending = [l]
    while pending:
        item = pending.pop()
        if (
            hasattr(item, "tolist")
            and hasattr(item, "__array__")
            and not isinstance(item, (list, tuple))
        ):
            item = item.tolist()
        if isinstance(item, (list, tuple)):
            pending.extend(reversed(item))
        else:
            out.append(item)
    return out


def partition(itr: Iterable[T], fxn: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """(those for which `fxn` holds, the others).

    >>> partition([1, 2, 3, 4], lambda n: n % 2 == 0)
    ([2, 4], [1, 3])
    """
    sides: tuple[list[T], list[T]] = ([], [])
    for item in itr:
        sides[0 if fxn(item) else 1].append(item)
    return sides


def unwrap(x: T | None) -> T:
    """The value. Raises AssertionError for None.

    >>> unwrap(5)
    5
    """
    if x is None:
        raise AssertionError("expected a value, got None")
    return x


def get_single_element(x: Sequence[T]) -> T:
    """The only element of a sequence. Raises AssertionError for more or fewer.

    >>> get_single_element([7])
    7
    """
    if len(x) != 1:
        raise AssertionError(f"expected exactly one element, got {len(x)}: {list(x)[:8]}")
    return x[0]


def merge_dicts(ds: Iterable[dict[T, U]]) -> dict[T, U]:
    """The union. Raises RuntimeError when two give one key different values.

    >>> merge_dicts([{"a": 1}, {"b": 2}])
    {'a': 1, 'b': 2}
    """
    merged: dict[T, U] = {}
    for d in ds:
        for key, value in d.items():
            if merged.setdefault(key, value) != value:
                raise RuntimeError(f"cannot merge: {key!r} is both {merged[key]!r} and {value!r}")
    return merged


def get_child(obj: Any, key: str) -> Any:
    """Follows a dotted path through attributes, list indices and dictionary keys.

    >>> get_child({"a": [1, 2]}, "a.1")
    2
    """
    for part in key.split("."):
        if isinstance(obj, dict):
            obj = obj[part]
        else:
            obj = obj[int(part)] if part.isnumeric() else getattr(obj, part)
    return obj


def ceildiv(num: Any, amt: Any) -> Any:
    """num / amt rounded up; works on symbolic values.

    >>> ceildiv(7, 2)
    4
    """
    return (
        -(num // -amt)
        if isinstance(num, int) and isinstance(amt, int)
        else (num + (amt - 1)) // amt
    )


def round_up(num: int, amt: int) -> int:
    """The least multiple of `amt` that is not below `num`.

    >>> round_up(13, 8)
    16
    """
    return ceildiv(num, amt) * amt


def round_down(num: int, amt: int) -> int:
    return num // amt * amt


def next_power2(x: int) -> int:
    return 1 if x < 1 else 1 << (x - 1).bit_length()


def cdiv(x: int, y: int) -> int:
    """Integer division as in C, toward zero; by zero gives 0.

    >>> cdiv(-7, 2), cdiv(7, 0)
    (-3, 0)
    """
    if y == 0:
        return 0
    quotient = abs(x) // abs(y)
    return -quotient if (x < 0) != (y < 0) else quotient


def cmod(x: int, y: int) -> int:
    """The remainder of `cdiv`: it has the sign of `x`; by zero gives 0, as NumPy's integers do.

    >>> cmod(-7, 2), cmod(7, 0)
    (-1, 0)
    """
    return 0 if y == 0 else x - cdiv(x, y) * y


def lo32(x: Any) -> Any:
    return x & 0xFFFFFFFF


def hi32(x: Any) -> Any:
    return x >> 32


def data64(data: Any) -> tuple[Any, Any]:
    """(high word, low word)."""
    return hi32(data), lo32(data)


def data64_le(data: Any) -> tuple[Any, Any]:
    """(low word, high word)."""
    return lo32(data), hi32(data)


def i2u(bits: int, value: int) -> int:
    return value if value >= 0 else (1 << bits) + value


def is_numpy_ndarray(x: Any) -> bool:
    """Whether `x` is a NumPy array, told without importing NumPy.

    >>> is_numpy_ndarray([1, 2])
    False
    """
    kind = type(x)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray"


def getbits(value: int, start: int, end: int) -> int:
    """Bits `start` to `end`, both included, as an integer.

    >>> getbits(0b110100, 2, 4)
    5
    """
    return (value >> start) & ((2 << (end - start)) - 1)


def polyN(x: Any, p: list[float]) -> Any:
    """The polynomial with coefficients `p`, highest power first, at `x`, by Horner's rule.

    >>> polyN(2.0, [1.0, 0.0, 3.0])
    7.0
    """
    value: Any = 0.0
    for coefficient in p:
        value = value * x + coefficient
    return value


def strides_for_shape(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Row-major strides in elements; axes of size 1 get stride 0.

    >>> strides_for_shape((2, 3, 4)), strides_for_shape((2, 1, 4))
    ((12, 4, 1), (4, 0, 1))
    """
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(0 if isinstance(size, int) and size == 1 else step)
        step = size * step
    return tuple(reversed(strides))


def get_contraction(
    old_shape: tuple[Any, ...], new_shape: tuple[Any, ...]
) -> list[list[int]] | None:
    """Which axes of `old_shape` each axis of `new_shape` is the product of, or None when there is no such grouping.

    >>> get_contraction((2, 3, 4), (6, 4)), get_contraction((2, 3), (3, 2))
    ([[0, 1], [2]], None)
    """
    first_end: dict[Any, int] = {}
    running: Any = 1
    for end, size in enumerate((1, *old_shape)):
        running = running * size
        first_end.setdefault(running, end)
    ends = []
    target: Any = 1
    for size in new_shape:
        target = target * size
        if target not in first_end:
            return None
        ends.append(first_end[target])
    if target != running:
        return None
    if ends:
        # ones at the very end belong to the last axis
        ends[-1] = len(old_shape)
    return [list(range(begin, end)) for begin, end in zip([0, *ends], ends)]
