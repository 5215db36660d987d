"""The operations: for each its text on tensors, its meaning in NumPy, and how to draw its data.

In `text`, {0}, {1} are the sources and {d} is the data of a step, which is a literal. `run(data, *arrays)` computes values; of a
`view` it moves byte positions instead. `make(draw, view, pick)` draws a step on a view: it gives (other sources, data) or None;
`pick(test)` finds another value. What an operation has to refuse, its `run` refuses (any exception), so `make` may be careless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .memory import FLOATS, SIGNED, UNSIGNED, Refused

INTS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTS)
BITS = (*INTS, "bool")
ANY = (*NUMBERS, "bool")
LARGEST = 64


@dataclass(frozen=True)
class Operation:
    """`kind`: value, view, or the name of an effect on the model; `smooth`: has a derivative in floats."""

    text: str
    run: Callable
    make: Callable
    kind: str = "value"
    dtypes: tuple[str, ...] = ANY
    weight: float = 1.0
    smooth: bool = False
    symbolic: bool = False


OPERATIONS: dict[str, Operation] = {}


def add(name: str, text: str, run: Callable, make: Callable, **options) -> None:
    OPERATIONS[name] = Operation(text, run, make, **options)


def clip(x: np.ndarray) -> np.ndarray:
    """As the driver's: what is computed in floats stays small."""
    if x.dtype.kind != "f":
        return x
    return np.where(np.abs(x) > LARGEST, x.dtype.type(1), x)


def clipped(run: Callable) -> Callable:
    return lambda *given: clip(run(*given))


def require(condition) -> None:
    if not condition:
        raise Refused


def accumulated(dtype: np.dtype) -> str:
    """The dtype of sums."""
    if dtype.kind in "fc" or dtype.itemsize >= 4:
        return dtype.name
    return "uint32" if dtype.kind == "u" else "int32"


def common(a: np.dtype, b: np.dtype) -> str:
    """The dtype of what combines two: the smallest that has both, and floats win."""
    if a.kind == "f" or b.kind == "f":
        floats = [x for x in (a, b) if x.kind == "f"]
        return max(floats, key=lambda x: x.itemsize).name
    return np.promote_types(a, b).name


# ---------------------------------------------------------------- one operand


def nothing(draw, view, pick):
    return (), None


def unary(name: str, text: str, run: Callable, dtypes=ANY, **options) -> None:
    add(name, text, lambda d, x: run(x), nothing, dtypes=dtypes, symbolic=True, **options)


def other_type(draw, view, pick):
    # a cast to the dtype that is there gives the tensor itself
    return (), draw.choice([t for t in ("float32", "float32", "int32", *ANY) if t != view.dtype])


def cast(d: str, x: np.ndarray) -> np.ndarray:
    if d == "bool":
        return x != 0
    if x.dtype.kind == "f" and np.dtype(d).kind in "iu":
        return x.astype(np.int64).astype(d)
    return clip(x.astype(d))


unary("neg", "(-{0})", lambda x: -x, NUMBERS, smooth=True)
unary("abs", "{0}.abs()", np.abs, NUMBERS, smooth=True)
unary("invert", "(~{0})", np.invert, BITS)
unary("relu", "{0}.relu()", lambda x: np.maximum(x, x.dtype.type(0)), NUMBERS, smooth=True)
unary("sign", "{0}.sign()", np.sign, NUMBERS)
unary("square", "clip({0}.square())", clipped(lambda x: x * x), NUMBERS, smooth=True)
unary("floor", "({0} * 0.5).floor()", lambda x: np.floor(x * x.dtype.type(0.5)), FLOATS)
unary("ceil", "({0} * 0.5).ceil()", lambda x: np.ceil(x * x.dtype.type(0.5)), FLOATS)
unary("trunc", "({0} * 0.5).trunc()", lambda x: np.trunc(x * x.dtype.type(0.5)), FLOATS)
unary("round", "({0} * 0.5).round()", lambda x: np.round(x * x.dtype.type(0.5)), FLOATS)
unary("logical_not", "{0}.logical_not()", np.logical_not)
add(
    "cast", "clip({0}.cast(dtypes.{d}))", cast,
    other_type, weight=3, symbolic=True,
)  # fmt: skip


def number(draw, view, pick):
    if view.dtype == "bool":
        return (), draw.random() < 0.5
    return (), draw.randint(0 if view.dtype.startswith("u") else -3, 5)


def nonzero(draw, view, pick):
    return (), draw.choice((1, 2, 3, 7) if view.dtype.startswith("u") else (1, 2, 3, -1, -2, 7))


def scalar(name: str, text: str, run: Callable, make=number, dtypes=NUMBERS, **options) -> None:
    def typed(d, x):
        return run(x, x.dtype.type(d))

    add(name, text, typed, make, dtypes=dtypes, symbolic=True, **options)


def floor_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


def floor_mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b))).astype(a.dtype)


scalar("add_number", "clip({0} + {d})", clipped(lambda x, d: x + d), smooth=True)
scalar("subtract_from", "clip({d} - {0})", clipped(lambda x, d: d - x), smooth=True)
scalar("scale", "clip({0} * {d})", clipped(lambda x, d: x * d), smooth=True)
scalar("div_number", "({0} // {d})", floor_div, nonzero, INTS)
scalar("mod_number", "({0} % {d})", floor_mod, nonzero, INTS)
scalar("and_number", "({0} & {d})", np.bitwise_and, dtypes=BITS)
scalar("or_number", "({0} | {d})", np.bitwise_or, dtypes=BITS)
scalar("xor_number", "({0} ^ {d})", np.bitwise_xor, dtypes=BITS)
scalar("max_number", "{0}.maximum({d})", np.maximum, dtypes=ANY, smooth=True)
scalar("less_number", "({0} < {d})", np.less, dtypes=ANY)
scalar("equals_number", "({0} == {d})", np.equal, dtypes=ANY)


def shift(draw, view, pick):
    return (), draw.randrange(8 * np.dtype(view.dtype).itemsize - 1)


scalar("lshift", "({0} << {d})", np.left_shift, shift, INTS)
scalar("rshift", "({0} >> {d})", np.right_shift, shift, INTS)
scalar("power", "({0} ** {d})", np.power, lambda *_: ((), _[0].choice((2, 3))), INTS)
add(
    "clamp", "{0}.clip({d[0]}, {d[1]})",
    lambda d, x: np.clip(x, x.dtype.type(d[0]), x.dtype.type(d[1])),
    lambda draw, view, pick: ((), (draw.randint(0, 2), draw.randint(2, 9))),
    dtypes=NUMBERS, smooth=True,
)  # fmt: skip


# ---------------------------------------------------------------- two operands


def broadcasts(a: tuple, b: tuple) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))


def partner(draw, view, pick):
    """Another value of the same dtype whose shape broadcasts."""
    other = pick(lambda v: v.dtype == view.dtype and broadcasts(v.shape, view.shape))
    return None if other is None else ((other,), None)


def binary(name: str, text: str, run: Callable, dtypes=NUMBERS, **options) -> None:
    make = options.pop("make", partner)
    add(name, text, lambda d, a, b: run(a, b), make, dtypes=dtypes, symbolic=True, **options)


binary("add", "clip({0} + {1})", clipped(np.add), weight=4, smooth=True)
binary("sub", "clip({0} - {1})", clipped(np.subtract), weight=2, smooth=True)
binary("mul", "clip({0} * {1})", clipped(np.multiply), weight=3, smooth=True)
binary("max", "{0}.maximum({1})", np.maximum, ANY, weight=2, smooth=True)
binary("min", "{0}.minimum({1})", np.minimum, ANY, smooth=True)
binary("div", "({0} // {1})", floor_div, INTS)
binary("mod", "({0} % {1})", floor_mod, INTS)
binary("and", "({0} & {1})", np.bitwise_and, BITS)
binary("or", "({0} | {1})", np.bitwise_or, BITS)
binary("xor", "({0} ^ {1})", np.bitwise_xor, BITS)
binary("less", "({0} < {1})", np.less, ANY, weight=2)
binary("equal", "({0} == {1})", np.equal, ANY)
binary("at_least", "({0} >= {1})", np.greater_equal, ANY)


def other_dtype(draw, view, pick):
    other = pick(lambda v: v.dtype != view.dtype and broadcasts(v.shape, view.shape))
    return None if other is None else ((other,), None)


def mixed(run: Callable, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    dtype = common(a.dtype, b.dtype)
    require(not (dtype == "bool" and run is np.multiply))
    return run(a.astype(dtype), b.astype(dtype))


binary(
    "mixed_add", "clip({0} + {1})", clipped(lambda a, b: mixed(np.add, a, b)), ANY, make=other_dtype
)
binary(
    "mixed_mul",
    "clip({0} * {1})",
    clipped(lambda a, b: mixed(np.multiply, a, b)),
    ANY,
    make=other_dtype,
)
binary("mixed_less", "({0} < {1})", lambda a, b: mixed(np.less, a, b), ANY, make=other_dtype)


def choose(draw, view, pick):
    """A condition and two values, all of shapes that broadcast."""
    fits = lambda v: broadcasts(v.shape, view.shape)  # noqa: E731
    condition = pick(lambda v: v.dtype == "bool" and fits(v))
    other = pick(lambda v: v.dtype == view.dtype and fits(v))
    return None if condition is None or other is None else ((condition, other), None)


add("where", "{1}.where({0}, {2})", lambda d, x, c, y: np.where(c, x, y), choose, weight=3,
    smooth=True, symbolic=True)  # fmt: skip


def condition(draw, view, pick):
    mask = pick(lambda v: v.dtype == "bool" and broadcasts(v.shape, view.shape))
    number = draw.random() < 0.5
    return None if mask is None else ((mask,), number if view.dtype == "bool" else int(number))


add("masked_fill", "{0}.masked_fill({1}, {d})", lambda d, x, m: np.where(m, x.dtype.type(d), x),
    condition, smooth=True, symbolic=True)  # fmt: skip


# ---------------------------------------------------------------- reductions


def axes(draw, view, pick):
    """Any axes, or all of them, with keepdim or not."""
    rank = len(view.shape)
    chosen = tuple(draw.sample(range(rank), draw.randint(1, rank))) if rank else ()
    return (), (draw.choice((None, chosen, chosen)) if rank else None, draw.random() < 0.5)


def one_axis(draw, view, pick):
    return ((), draw.randrange(len(view.shape))) if view.shape else None


def reduction(name: str, text: str, run: Callable, dtypes=NUMBERS, **options) -> None:
    add(name, text, run, options.pop("make", axes), dtypes=dtypes, symbolic=True, **options)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def total(d, x):
    return clip(wide(x).sum(d[0], keepdims=d[1], dtype=None if x.dtype.kind == "f" else accumulated(x.dtype))
                .astype(accumulated(x.dtype)))  # fmt: skip


def product(d, x):
    made = np.multiply.reduce(
        wide(x), axis=d[0], keepdims=d[1], dtype=None if x.dtype.kind == "f" else x.dtype
    )
    # also without the zeros, since some order of multiplying meets them last
    largest = np.multiply.reduce(np.where(x == 0, 1, wide(x)), axis=d[0])
    require(x.dtype.kind != "f" or np.abs(largest).max(initial=0) < 2000)
    return clip(np.asarray(made).astype(x.dtype))


def mean(d, x):
    axis = tuple(range(x.ndim)) if d[0] is None else d[0]
    count = int(np.prod([x.shape[a] for a in axis]))
    require(count and count & (count - 1) == 0)
    return np.floor(x.mean(d[0], keepdims=d[1], dtype=np.float64)).astype(x.dtype)


def scan(run: Callable) -> Callable:
    def along(d, x):
        return clip(run(wide(x), axis=d, dtype=None if x.dtype.kind == "f" else accumulated(x.dtype))
                    .astype(accumulated(x.dtype)))  # fmt: skip

    return along


reduction(
    "sum", "clip({0}.sum({d[0]}, keepdim={d[1]}))", total, (*NUMBERS, "bool"), weight=5, smooth=True
)
reduction(
    "max_over",
    "{0}.max({d[0]}, keepdim={d[1]})",
    lambda d, x: x.max(d[0], keepdims=d[1]),
    ANY,
    weight=2,
    smooth=True,
)
reduction(
    "min_over",
    "{0}.min({d[0]}, keepdim={d[1]})",
    lambda d, x: x.min(d[0], keepdims=d[1]),
    ANY,
    smooth=True,
)
reduction("prod", "clip({0}.prod({d[0]}, keepdim={d[1]}))", product, smooth=True)
reduction("mean", "{0}.mean({d[0]}, keepdim={d[1]}).floor()", mean, FLOATS)
reduction(
    "any", "{0}.any({d[0]}, keepdim={d[1]})", lambda d, x: (x != 0).any(d[0], keepdims=d[1]), ANY
)
reduction(
    "all", "{0}.all({d[0]}, keepdim={d[1]})", lambda d, x: (x != 0).all(d[0], keepdims=d[1]), ANY
)
reduction(
    "argmax", "{0}.argmax({d})", lambda d, x: x.argmax(d).astype(np.int32), ANY, make=one_axis
)
reduction(
    "argmin", "{0}.argmin({d})", lambda d, x: x.argmin(d).astype(np.int32), NUMBERS, make=one_axis
)
reduction("cumsum", "clip({0}.cumsum({d}))", scan(np.cumsum), make=one_axis, smooth=True)
add(
    "cummax",
    "{0}.cummax({d})",
    lambda d, x: np.maximum.accumulate(x, axis=d),
    one_axis,
    dtypes=NUMBERS,
)
add("sort", "{0}.sort({d}, {flag})[0]".replace("{d}, {flag}", "{d[0]}, {d[1]}"),
    lambda d, x: np.sort(x, axis=d[0]) if not d[1] else np.flip(np.sort(x, axis=d[0]), d[0]),
    lambda draw, view, pick: ((), (draw.randrange(len(view.shape)), draw.random() < 0.5)) if view.shape else None,
    dtypes=NUMBERS, weight=0.5)  # fmt: skip
add("argsort", "{0}.argsort({d})", lambda d, x: np.argsort(x, axis=d, kind="stable").astype(np.int32), one_axis,
    dtypes=NUMBERS, weight=0.5)  # fmt: skip


# ---------------------------------------------------------------- products of matrices, windows


def product_of(run: Callable) -> Callable:
    """Of two arrays of one dtype; floats are accumulated wide and rounded once."""
    return lambda d, a, b: clip(np.asarray(run(d, wide(a), wide(b))).astype(a.dtype))


def factor(draw, view, pick):
    def fits(v):
        if v.dtype != view.dtype or not v.shape or not view.shape:
            return False
        inner = v.shape[-2] if len(v.shape) > 1 else v.shape[0]
        return inner == view.shape[-1] and broadcasts(v.shape[:-2], view.shape[:-2])

    other = pick(fits)
    return None if other is None else ((other,), None)


FORMULAS = (
    "ij,jk->ik",
    "ij,kj->ik",
    "ij,ij->",
    "ij,ij->ji",
    "i,j->ij",
    "i,i->",
    "ijk,ikl->ijl",
    "ijk,k->ji",
    "ij,jk->kj",
)


def formula(draw, view, pick):
    text = draw.choice(FORMULAS)
    left, right = text.split("->")[0].split(",")
    if len(view.shape) != len(left):
        return None
    sizes = dict(zip(left, view.shape))
    other = pick(
        lambda v: (
            v.dtype == view.dtype
            and len(v.shape) == len(right)
            and all(sizes.get(k, n) == n for k, n in zip(right, v.shape))
        )
    )
    return None if other is None else ((other,), text)


add("matmul", "clip({0} @ {1})", product_of(lambda d, a, b: a @ b), factor, dtypes=NUMBERS, weight=4,
    smooth=True, symbolic=True)  # fmt: skip


def einsum(d, a, b):
    """Products have the dtype of the factors; sums of small integers are wider."""
    inputs, output = d.split("->")
    letters = "".join(dict.fromkeys(inputs.replace(",", "")))
    products = np.einsum(f"{inputs}->{letters}", wide(a), wide(b))
    dtype = accumulated(a.dtype) if set(letters) - set(output) else a.dtype.name
    summed = products if a.dtype.kind == "f" else products.astype(dtype)
    return clip(np.asarray(np.einsum(f"{letters}->{output}", summed)).astype(dtype))


add(
    "einsum",
    "clip(Tensor.einsum({d!r}, {0}, {1}))",
    einsum,
    formula,
    dtypes=NUMBERS,
    weight=2,
    smooth=True,
)


def windows(x: np.ndarray, kernel: tuple, stride: int, dilation: int = 1) -> np.ndarray:
    """(..., positions of two axes, kernel) of the last two axes."""
    size = tuple(dilation * (k - 1) + 1 for k in kernel)
    seen = np.lib.stride_tricks.sliding_window_view(x, size, axis=(-2, -1))
    return seen[..., ::stride, ::stride, ::dilation, ::dilation]


def convolution(d, x, w):
    stride, padding, dilation, groups = d
    x = np.pad(x, [(0, 0)] * 2 + [(padding, padding)] * 2)
    seen = windows(x, w.shape[2:], stride, dilation)
    n, c, p, q = seen.shape[:4]
    seen = seen.reshape(n, groups, c // groups, p, q, *w.shape[2:])
    filters = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    return np.einsum("ngcpqkl,gockl->ngopq", seen, filters).reshape(n, w.shape[0], p, q)


def filters(draw, view, pick):
    if len(view.shape) != 4 or 0 in view.shape:
        return None
    groups = draw.choice((1, 1, 2))
    other = pick(
        lambda v: (
            v.dtype == view.dtype
            and len(v.shape) == 4
            and v.shape[1] * groups == view.shape[1]
            and v.shape[0] % groups == 0
            and 0 not in v.shape
        )
    )
    return (
        None
        if other is None
        else ((other,), (draw.choice((1, 2)), draw.choice((0, 1)), draw.choice((1, 1, 2)), groups))
    )


add("conv2d", "clip({0}.conv2d({1}, stride={d[0]}, padding={d[1]}, dilation={d[2]}, groups={d[3]}))",
    product_of(convolution), filters, dtypes=("float32", "float64", "int32"), weight=8, smooth=True)  # fmt: skip


def window(draw, view, pick):
    return ((), ((draw.choice((1, 2)), 2), draw.choice((1, 2)))) if len(view.shape) == 4 else None


add("max_pool", "{0}.max_pool2d({d[0]}, stride={d[1]})", lambda d, x: windows(x, *d).max((-2, -1)), window,
    dtypes=NUMBERS, weight=2, smooth=True)  # fmt: skip
add("avg_pool", "{0}.avg_pool2d({d[0]}, stride={d[1]}).floor()",
    lambda d, x: np.floor(windows(wide(x), *d).mean((-2, -1))).astype(x.dtype), window, dtypes=FLOATS)  # fmt: skip
