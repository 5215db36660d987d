"""The operations that move, index and write: rows of the same table as `operations`.

A view's `run` gets positions, with -1 for padding. An effect's `run` gives the values that are written, for arrays (target, others);
where they go is `target(data, positions)`. Indices are text, which means the same in Python on tensors and on arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .memory import FLOATS, Refused
from .operations import (
    INTS,
    NUMBERS,
    OPERATIONS,
    Operation,
    add,
    broadcasts,
    clip,
    nothing,
    one_axis,
    require,
)


@functools.lru_cache(4096)
def index(text: str, n: int | None = None):
    """The index that the text between brackets is."""
    return eval(f"np.s_[{text}]", {"np": np, "n": n})


# ---------------------------------------------------------------- views


def view(name: str, text: str, run: Callable, make: Callable, **options) -> None:
    add(name, text, run, make, **{"kind": "view", "smooth": True, **options})


def factors(draw, size: int, rank: int) -> tuple[int, ...]:
    """`rank` sizes whose product is `size`."""
    found = []
    for _ in range(rank - 1):
        part = (
            draw.choice([k for k in range(1, size + 1) if size % k == 0])
            if size
            else draw.randint(0, 3)
        )
        found.append(part)
        size = size // part if part else 0
    return tuple(draw.sample([*found, size], rank)) if size or not found else (*found[:-1], 0, 1)


def new_shape(draw, view, pick):
    return (), factors(draw, view.at.size, draw.randint(1, 4))


def order(draw, view, pick):
    return (), tuple(draw.sample(range(len(view.shape)), len(view.shape)))


def some_axes(draw, view, pick):
    rank = len(view.shape)
    return ((), tuple(draw.sample(range(rank), draw.randint(1, rank)))) if rank else None


def bounds(draw, view, pick):
    """A part of each axis; of most it is all."""
    found = []
    for size in view.shape:
        start = draw.randint(0, size)
        part = (start, draw.randint(start, size))
        found.append(part if draw.random() < 0.6 and part[0] < part[1] else (0, size))
    return (), tuple(found)


def borders(draw, view, pick):
    return (), tuple((draw.choice((0, 0, 1, 2)), draw.choice((0, 0, 1, 2))) for _ in view.shape)


def grown(draw, view, pick):
    return (), tuple(draw.choice((1, 2, 3, 4)) if size == 1 else size for size in view.shape)


def times(draw, view, pick):
    return (), tuple(draw.choice((1, 1, 2, 3)) for _ in view.shape)


def two_axes(draw, view, pick):
    rank = len(view.shape)
    return ((), (draw.randrange(rank), draw.randrange(rank))) if rank else None


def place_of_axis(draw, view, pick):
    return (), draw.randint(0, len(view.shape))


def squeezable(draw, view, pick):
    found = [axis for axis, size in enumerate(view.shape) if size == 1]
    return ((), draw.choice(found)) if found else None


def piece(draw, view, pick):
    axis = draw.randrange(len(view.shape)) if view.shape else 0
    if not view.shape or not view.shape[axis]:
        return None
    size = draw.randint(1, view.shape[axis])
    return (), (size, axis, draw.randrange(-(-view.shape[axis] // size)))


def slide(draw, view, pick):
    axis = draw.randrange(len(view.shape)) if view.shape else 0
    if not view.shape or not view.shape[axis]:
        return None
    return (), (axis, draw.randint(1, view.shape[axis]), draw.randint(1, 2))


def unfold(d, at):
    seen = np.lib.stride_tricks.sliding_window_view(at, d[1], axis=d[0])
    return np.take(seen, np.arange(0, seen.shape[d[0]], d[2]), d[0])


def slice_text(draw, size: int) -> str:
    """A slice of an axis, as text."""
    kind = draw.randrange(6)
    if kind == 0 or size == 0:
        return ":"
    if kind == 1:
        return "::-1"
    if kind == 2:
        return f"::{draw.choice((2, 2, 3, -2))}"
    start = draw.randrange(size)
    stop = draw.randint(start + 1, size)
    if kind == 3:
        return f"{start - size}:" if stop == size else f"{start}:{stop - size}"
    return f"{start}:{stop}" if kind == 4 else f"{start}:{stop}:{draw.choice((1, 2))}"


def plain_index(draw, shape: tuple[int, ...], cuts: bool = True) -> str:
    """Slices, numbers, None and Ellipsis for a part of the axes."""
    rank = len(shape)
    used = draw.randint(0, rank)
    items = []
    for size in shape[:used]:
        if draw.random() < 0.25 and size:
            items.append(str(draw.randrange(-size, size)))
        else:
            items.append(slice_text(draw, size))
    if draw.random() < 0.2:
        items.insert(draw.randint(0, len(items)), "None")
    if draw.random() < 0.2 and used < rank:
        items.append("...")
    elif used == rank and rank > 1 and draw.random() < 0.2:
        items[1:2] = ["...", items[1]] if len(items) > 1 else ["..."]
    return ", ".join(items) if items else "..."


def plain(draw, view, pick):
    return (), plain_index(draw, view.shape)


view("reshape", "{0}.reshape({d})", lambda d, at: at.reshape(d), new_shape, weight=5)
view("permute", "{0}.permute({d})", lambda d, at: at.transpose(d), order, weight=5, symbolic=True)
view(
    "transpose",
    "{0}.transpose({d[0]}, {d[1]})",
    lambda d, at: at.swapaxes(*d),
    two_axes,
    symbolic=True,
)
view("flip", "{0}.flip({d})", lambda d, at: np.flip(at, d), some_axes, weight=4)
view("shrink", "{0}.shrink({d})", lambda d, at: at[tuple(slice(*b) for b in d)], bounds, weight=4)
view("pad", "{0}.pad({d})", lambda d, at: np.pad(at, d, constant_values=-1), borders, weight=4)
view("expand", "{0}.expand({d})", lambda d, at: np.broadcast_to(at, d), grown, weight=3)
view("index", "{0}[{d}]", lambda d, at: at[index(d)], plain, weight=6)
view("repeat", "{0}.repeat({d})", lambda d, at: np.tile(at, d), times)
view("repeat_interleave", "{0}.repeat_interleave({d[0]}, {d[1]})", lambda d, at: np.repeat(at, *d),
     lambda draw, view, pick: ((), (draw.randint(1, 3), draw.randrange(len(view.shape)))) if view.shape else None)  # fmt: skip
view(
    "unsqueeze",
    "{0}.unsqueeze({d})",
    lambda d, at: np.expand_dims(at, d),
    place_of_axis,
    symbolic=True,
)
view("squeeze", "{0}.squeeze({d})", lambda d, at: at.squeeze(d), squeezable)
view("flatten", "{0}.flatten()", lambda d, at: at.reshape(-1), nothing)
view("split", "{0}.split({d[0]}, {d[1]})[{d[2]}]",
     lambda d, at: np.split(at, range(d[0], at.shape[d[1]], d[0]), d[1])[d[2]], piece)  # fmt: skip
view("unfold", "{0}.unfold({d[0]}, {d[1]}, {d[2]})", unfold, slide)
view("detach", "{0}.detach()", lambda d, at: at, nothing, smooth=False, symbolic=True)


def same_width(draw, view, pick):
    fits = [t for t in ("int8", "uint8", "int32", "uint32", "float32", "int64", "float64", "int16", "uint16", "float16")
            if np.dtype(t).itemsize == np.dtype(view.dtype).itemsize]  # fmt: skip
    # floats are never made of bits of integers: they would be no whole numbers
    ints = [t for t in fits if t not in FLOATS or t == view.memory.native]
    return ((), draw.choice(ints)) if view.dtype != "bool" else None


view("bitcast", "{0}.bitcast(dtypes.{d})", lambda d, at: at, same_width, smooth=False, weight=3)


# ---------------------------------------------------------------- values by movement


def joined(draw, view, pick):
    if not view.shape:
        return None
    axis = draw.randrange(len(view.shape))
    rest = view.shape[:axis] + view.shape[axis + 1 :]

    def fits(v):
        same_rank = len(v.shape) == len(view.shape) and v.dtype == view.dtype
        return same_rank and v.shape[:axis] + v.shape[axis + 1 :] == rest

    return (pick(fits), pick(fits)), axis


def stacked(draw, view, pick):
    other = pick(lambda v: v.dtype == view.dtype and v.shape == view.shape)
    return None if other is None else ((other,), draw.randint(0, len(view.shape)))


def rolled(draw, view, pick):
    return (
        ((), (draw.randint(-3, 3), draw.randrange(len(view.shape))))
        if view.shape and view.at.size
        else None
    )


def diagonal(draw, view, pick):
    return ((), draw.randint(-2, 2)) if len(view.shape) > 1 else None


def pad_mode(draw, view, pick):
    if not view.shape or not view.at.size:
        return None
    mode = draw.choice(("reflect", "replicate", "circular"))
    pads = [(draw.randint(0, 1), draw.randint(0, 1)) for _ in view.shape]
    # without any padding it is the tensor itself
    return ((), (tuple(pads), mode)) if any(map(any, pads)) else None


NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def padded_by(d, x):
    require(all(size > max(p) for size, p in zip(x.shape, d[0])))
    return np.pad(x, d[0], mode=NUMPY_MODES[d[1]])


add(
    "cat",
    "{0}.cat({1}, {2}, dim={d})",
    lambda d, *x: np.concatenate(x, d),
    joined,
    weight=3,
    smooth=True,
)
add(
    "stack", "{0}.stack({1}, dim={d})", lambda d, *x: np.stack(x, d), stacked, weight=2, smooth=True
)
add("roll", "{0}.roll({d[0]}, {d[1]})", lambda d, x: np.roll(x, *d), rolled, smooth=True)
add("triu", "{0}.triu({d})", lambda d, x: np.triu(x, d), diagonal, smooth=True)
add("tril", "{0}.tril({d})", lambda d, x: np.tril(x, d), diagonal, smooth=True)
add("pad_mode", "{0}.pad({d[0]}, mode={d[1]!r})", padded_by, pad_mode, smooth=True)
add("pad_value", "{0}.pad({d}, value=1)", lambda d, x: np.pad(x, d, constant_values=1), borders, dtypes=NUMBERS,
    smooth=True)  # fmt: skip


# ---------------------------------------------------------------- values by index


def fancy_index(draw, shape: tuple[int, ...]) -> str | None:
    """An index with lists of numbers, and perhaps slices and None beside them."""
    if not shape or 0 in shape:
        return None
    lists = draw.sample(range(len(shape)), min(len(shape), draw.choice((1, 1, 2))))
    length = draw.randint(1, 4)
    items = []
    for axis in range(max(lists) + 1):
        size = shape[axis]
        if axis not in lists:
            items.append(slice_text(draw, size))
        elif len(lists) == 1 and draw.random() < 0.15:
            items.append(str([draw.random() < 0.6 for _ in range(size)]))
        else:
            items.append(str([draw.randrange(-size, size) for _ in range(length)]))
    return ", ".join(items)


def fancy(draw, view, pick):
    text = fancy_index(draw, view.shape)
    return None if text is None else ((), text)


def selected(d, x):
    found = index(d)
    return x[
        tuple(np.array(i) if isinstance(i, list) else i for i in found)
        if isinstance(found, tuple)
        else np.array(found)
    ]


def positions(draw, view, pick):
    """Another value of whole numbers, used as positions along an axis."""
    if not view.shape or not view.shape[0]:
        return None
    other = pick(lambda v: v.dtype in INTS and not v.opaque)
    return None if other is None else ((other,), view.shape[0])


def along(draw, view, pick):
    """A value of whole numbers of as many axes, none longer but the one that is picked along."""
    if not view.shape or 0 in view.shape:
        return None
    axis = draw.randrange(len(view.shape))

    def fits(v):
        if (
            v.dtype not in ("int32", "int64", "int8", "uint8")
            or len(v.shape) != len(view.shape)
            or v.opaque
        ):
            return False
        return all(a <= b or i == axis for i, (a, b) in enumerate(zip(v.shape, view.shape)))

    other = pick(fits)
    return None if other is None else ((other,), (axis, view.shape[axis]))


def gathered(d, x, i):
    axis, size = d
    part = x[tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(i.shape))]
    return np.take_along_axis(part, floor_positions(i, size), axis)


def floor_positions(i: np.ndarray, size: int) -> np.ndarray:
    return np.mod(i.astype(np.int64), size)


def beside(draw, view, pick):
    """For scatter: positions as `along`, and a source at least as large."""
    found = along(draw, view, pick)
    if found is None:
        return None
    other = pick(lambda v: v.dtype == view.dtype and v.shape == view.shape)
    return None if other is None else ((found[0][0], other), found[1])


def scattered(d, x, i, source):
    axis, size = d
    require(all(a <= b for a, b in zip(i.shape, source.shape)))
    made = x.copy()
    place = list(np.indices(i.shape))
    place[axis] = floor_positions(i, size)
    np.add.at(made, tuple(place), source[tuple(slice(n) for n in i.shape)])
    return clip(made)


add("pick", "{0}[{d}]", selected, fancy, weight=3, smooth=True)
add(
    "pick_rows",
    "{0}[{1} % {d}]",
    lambda d, x, i: x[floor_positions(i, d)],
    positions,
    weight=3,
    smooth=True,
)
add("pick_outside", "{0}[{1}]",
    lambda d, x, i: np.where(((i >= -d) & (i < d)).reshape(*i.shape, *[1] * (x.ndim - 1)), x[floor_positions(i, d)],
                             x.dtype.type(0)), positions, smooth=True)  # fmt: skip
add("gather", "{0}.gather({d[0]}, {1} % {d[1]})", gathered, along, weight=2, smooth=True)
add("scatter_add", "clip({0}.scatter_reduce({d[0]}, {1} % {d[1]}, {2}, reduce='sum'))", scattered, beside, dtypes=NUMBERS,
    weight=2)  # fmt: skip
add("one_hot", "({0} % 4).one_hot(4)", lambda d, x: (np.mod(x, 4)[..., None] == np.arange(4)).astype(np.int32), nothing,
    dtypes=INTS)  # fmt: skip


# ---------------------------------------------------------------- constants, copies


def made(name: str, text: str, run: Callable, make: Callable) -> None:
    OPERATIONS[name] = Operation(text, run, make, kind="constant", weight=0.7)


def constant(draw, view, pick):
    dtype = draw.choice(("float32", "int32", view.dtype, view.dtype))
    return (), (view.shape, draw.randint(0, 1), dtype)


made(
    "full",
    "Tensor.full({d[0]}, {d[1]}, dtype=dtypes.{d[2]})",
    lambda d: np.full(d[0], d[1], d[2]),
    constant,
)
made("arange", "Tensor.arange({d[0]}, dtype=dtypes.{d[1]})", lambda d: np.arange(d[0]).astype(d[1]),
     lambda draw, view, pick: ((), (draw.choice((1, 2, 3, 4, 6, 12)), draw.choice(("float32", "int32", "int64")))))  # fmt: skip
made("eye", "Tensor.eye({d[0]}, dtype=dtypes.{d[1]})", lambda d: np.eye(d[0], dtype=d[1]),
     lambda draw, view, pick: ((), (draw.choice((1, 2, 3, 4)), draw.choice(("float32", "int32")))))  # fmt: skip


def effect(name: str, text: str, run, make: Callable, kind: str, **options) -> None:
    OPERATIONS[name] = Operation(text, run, make, kind=kind, **options)


effect("contiguous", "{0}.contiguous()", None, nothing, "contiguous", weight=3, symbolic=True)
effect("clone", "{0}.clone()", None, nothing, "clone", weight=2)
effect("to", "{0}.to({d})", None, lambda draw, view, pick: ((), "OTHER" if view.device == 0 else "None"), "to",
       weight=0.7)  # fmt: skip


# ---------------------------------------------------------------- writes


def whole(d, at):
    return at


def part(d, at):
    return at[index(d)]


def value(draw, view, pick):
    """Any value that can be written to all of the target."""
    other = pick(lambda v: v.dtype == view.dtype and fits_into(v.shape, view.shape))
    return None if other is None else ((other,), None)


def fits_into(shape: tuple, target: tuple) -> bool:
    return len(shape) <= len(target) and all(a in (1, b) for a, b in zip(shape[::-1], target[::-1]))


def part_value(draw, view, pick):
    text = plain_index(draw, view.shape)
    shape = np.empty(view.shape, np.int8)[index(text)].shape
    other = pick(lambda v: v.dtype == view.dtype and fits_into(v.shape, shape))
    return None if other is None else ((other,), text)


def any_part_value(draw, view, pick):
    """As `part_value`, of any dtype: what is set is cast."""
    text = plain_index(draw, view.shape)
    shape = np.empty(view.shape, np.int8)[index(text)].shape
    other = pick(lambda v: fits_into(v.shape, shape) and (v.dtype == view.dtype or not v.opaque))
    return None if other is None else ((other,), text)


def part_number(draw, view, pick):
    return (), (plain_index(draw, view.shape), draw.randint(0, 1))


def list_number(draw, view, pick):
    text = fancy_index(draw, view.shape)
    return None if text is None else ((), (text, draw.randint(0, 1)))


def list_value(draw, view, pick):
    text = fancy_index(draw, view.shape)
    if text is None:
        return None
    shape = selected(text, np.empty(view.shape, np.int8)).shape
    other = pick(lambda v: v.dtype == view.dtype and fits_into(v.shape, shape))
    return None if other is None else ((other,), text)


def rows_value(draw, view, pick):
    found = positions(draw, view, pick)
    if found is None:
        return None
    other = pick(lambda v: v.dtype == view.dtype and fits_into(v.shape, view.shape[1:]))
    return None if other is None else ((*found[0], other), found[1])


def put(d, x, *values):
    return values[-1]


def put_number(d, x):
    return x.dtype.type(d[1])


def put_cast(d, x, value):
    return OPERATIONS["cast"].run(x.dtype.name, value)


effect("assign", "{0}.assign({1})", put, value, "assign", weight=6)
effect(
    "add_assign",
    "{0}.assign(clip({0} + {1}))",
    lambda d, x, v: clip(x + v),
    value,
    "assign",
    dtypes=NUMBERS,
    weight=4,
)
effect("iadd", "{0} += {1}", lambda d, x, v: x + v, value, "assign", dtypes=INTS)
effect("isub", "{0} -= {1}", lambda d, x, v: x - v, value, "assign", dtypes=INTS)
effect("imul", "{0} *= {1}", lambda d, x, v: x * v, value, "assign", dtypes=INTS)
effect("assign_part", "{0}[{d}].assign({1})", put, part_value, "assign part", weight=3)
effect(
    "set_part", "{0}[{d}] = clip({1}.cast({0}.dtype))", put_cast, any_part_value, "set", weight=4
)
effect("set_number", "{0}[{d[0]}] = {d[1]}", put_number, part_number, "set", weight=2)
effect("set_list", "{0}[{d}] = {1}", put, list_value, "set list", weight=2)
effect("set_list_number", "{0}[{d[0]}] = {d[1]}", put_number, list_number, "set list")
effect("set_rows", "{0}[{1} % {d}] = {2}", put, rows_value, "set rows", weight=2)
effect(
    "set_add", "{0}[{d}] += {1}", lambda d, x, v: x + v, part_value, "set", dtypes=INTS, weight=1
)
effect("realize", "{0}.realize()", None, nothing, "realize", weight=2)
effect("read", "see({number}, {0})", None, nothing, "read", weight=0.7)
effect("delete", "del {0}", None, nothing, "delete", weight=2)
effect("alias", "{result} = {0}", None, nothing, "alias", weight=0.3)
# (no replace: a movement that moves nothing may be the tensor itself, which then is replaced, too)

__all__ = ["index", "broadcasts", "part", "selected", "Refused", "one_axis"]
