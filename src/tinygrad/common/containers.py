"""Small functions over sequences, dictionaries and integers. No state; imported by every layer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def prod(x: Iterable[T]) -> T | int:
    """The product of numbers or symbolic values; symbolic factors come first so that the constant stands right."""
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
    """The distinct elements in order of first appearance."""
    return list(dict.fromkeys(x))


def all_same(items: tuple[T, ...] | list[T]) -> bool:
    return len(items) < 2 or all(item == items[0] for item in items)


def all_int(t: Sequence[Any]) -> bool:
    return all(isinstance(s, int) for s in t)


def argfix(*x: Any) -> tuple:
    """Arguments given one by one or as one list or tuple, as a tuple. Raises ValueError for a mix of both."""
    if not x or not isinstance(x[0], (tuple, list)):
        return x
    if len(x) > 1:
        raise ValueError(f"expected separate arguments or one {type(x[0]).__name__}, got both: {x}")
    return tuple(x[0])


def argsort(x: Sequence[Any]) -> Any:
    """The permutation that sorts `x`, in the container type of `x`."""
    return type(x)(sorted(range(len(x)), key=lambda i: x[i]))  # type: ignore[call-arg]


def make_tuple(x: int | Sequence[int], cnt: int) -> tuple[int, ...]:
    return (x,) * cnt if isinstance(x, int) else tuple(x)


def flatten(l: Iterable[Iterable[T]]) -> list[T]:  # noqa: E741  drop-in: the parameter's public name
    return list(itertools.chain.from_iterable(l))


def fully_flatten(l: Any) -> list:  # noqa: E741
    """All leaves of nested lists, tuples and NumPy arrays, in order; strings are leaves."""
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
    """(those for which `fxn` holds, the others)."""
    sides: tuple[list[T], list[T]] = ([], [])
    for item in itr:
        sides[0 if fxn(item) else 1].append(item)
    return sides


def unwrap(x: T | None) -> T:
    if x is None:
        raise AssertionError("expected a value, got None")
    return x


def get_single_element(x: Sequence[T]) -> T:
    if len(x) != 1:
        raise AssertionError(f"expected exactly one element, got {len(x)}: {list(x)[:8]}")
    return x[0]


def merge_dicts(ds: Iterable[dict[T, U]]) -> dict[T, U]:
    """The union. Raises RuntimeError when two give one key different values."""
    merged: dict[T, U] = {}
    for d in ds:
        for key, value in d.items():
            if merged.setdefault(key, value) != value:
                raise RuntimeError(f"cannot merge: {key!r} is both {merged[key]!r} and {value!r}")
    return merged


def get_child(obj: Any, key: str) -> Any:
    """Follows a dotted path through attributes, list indices and dictionary keys."""
    for part in key.split("."):
        if isinstance(obj, dict):
            obj = obj[part]
        else:
            obj = obj[int(part)] if part.isnumeric() else getattr(obj, part)
    return obj


def ceildiv(num: Any, amt: Any) -> Any:
    """num / amt rounded up; works on symbolic values."""
    return (
        -(num // -amt)
        if isinstance(num, int) and isinstance(amt, int)
        else (num + (amt - 1)) // amt
    )


def round_up(num: int, amt: int) -> int:
    """The least multiple of `amt` that is not below `num`."""
    return ceildiv(num, amt) * amt


def round_down(num: int, amt: int) -> int:
    return num // amt * amt


def next_power2(x: int) -> int:
    return 1 if x < 1 else 1 << (x - 1).bit_length()


def cdiv(x: int, y: int) -> int:
    """Integer division as in C, toward zero; by zero gives 0."""
    if y == 0:
        return 0
    quotient = abs(x) // abs(y)
    return -quotient if (x < 0) != (y < 0) else quotient


def cmod(x: int, y: int) -> int:
    """The remainder of `cdiv`: it has the sign of `x`; by zero gives 0, as NumPy's integers do."""
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
    """Whether `x` is a NumPy array, told without importing NumPy."""
    kind = type(x)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray"


def getbits(value: int, start: int, end: int) -> int:
    """Bits `start` to `end`, both included, as an integer."""
    return (value >> start) & ((2 << (end - start)) - 1)


def polyN(x: Any, p: list[float]) -> Any:
    """The polynomial with coefficients `p`, highest power first, at `x`, by Horner's rule."""
    value: Any = 0.0
    for coefficient in p:
        value = value * x + coefficient
    return value


def strides_for_shape(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Row-major strides in elements; axes of size 1 get stride 0."""
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(0 if isinstance(size, int) and size == 1 else step)
        step = size * step
    return tuple(reversed(strides))


def get_contraction(
    old_shape: tuple[Any, ...], new_shape: tuple[Any, ...]
) -> list[list[int]] | None:
    """Which axes of `old_shape` each axis of `new_shape` is the product of, or None when there is no such grouping."""
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


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    it = iter(items)
    while chunk := tuple(itertools.islice(it, size)):
        yield chunk
