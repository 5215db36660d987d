"""Control flow, sequences and optional values.

Conditions and trip counts are fetched, so that only what is needed is run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.host import Known
from tinygrad.nn.onnx_parts.kinds import element_dtype
from tinygrad.nn.onnx_parts.narrow import Narrow
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.ops.recurrent import Steps
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


def _truth(value: Any) -> bool:
    """A condition as a bool."""
    if isinstance(value, Known):
        return bool(value.array.item())
    return bool(value.item()) if isinstance(value, (Tensor, np.ndarray)) else bool(value)


def _plain(value: Any) -> Any:
    return value.tensor if isinstance(value, Known) else value


def _row(value: Any) -> Any:
    return value.tensor if isinstance(value, (Known, Narrow)) else value


@operator("If")
def branch(condition, then_branch, else_branch, context):
    """The outputs of one of two graphs."""
    return tuple(context.run(then_branch if _truth(condition) else else_branch, []))


def _stacked(rows: list[Tensor], axis: int = 0) -> Tensor:
    return rows[0].stack(*rows[1:], dim=axis)


@operator("Loop", constants=("trip_count",))
def loop(trip_count, condition, *carried, body, context):
    """Runs a graph until its count is reached or its condition fails; rows per turn are stacked."""
    limit = None if trip_count is None else int(np.array(trip_count).item())
    state, rows = list(carried), []
    going = condition is None or _truth(condition)
    turn = 0
    while going and (limit is None or turn < limit):
        bound = [
            Known(np.array(turn, dtype=np.int64)),
            Known(np.array(True)) if condition is None else condition,
        ]
        keep_on, *results = context.run(body, [*bound, *state])
        state = results[: len(state)]
        scanned = [_row(value) for value in results[len(state) :]]
        # a row is computed now: the graph of all turns together could grow without bound
        rows.append([value.contiguous().realize() for value in scanned])
        state = [_settled(value) for value in state]
        going, turn = _truth(keep_on), turn + 1
    if rows:
        return (*map(_plain, state), *(_stacked(list(column)) for column in zip(*rows)))
    empty = len(body.outputs) - 1 - len(state)
    return (*map(_plain, state), *(Tensor.empty(0, dtype=dtypes.float32) for _ in range(empty)))


def _settled(value: Any) -> Any:
    return value.realize() if isinstance(value, Tensor) else value


@operator("Scan", since=9)
def scan(*inputs, body, num_scan_inputs: int, context, scan_input_axes=None, scan_input_directions=None,
         scan_output_axes=None, scan_output_directions=None):  # fmt: skip
    """Runs a graph over slices of the last inputs, carrying the first ones along."""
    count = len(inputs) - num_scan_inputs
    state, lines = list(inputs[:count]), [_row(line) for line in inputs[count:]]
    axes = [axis_in(a, x.ndim) for a, x in zip(scan_input_axes or [0] * len(lines), lines)]
    backward = scan_input_directions or [0] * len(lines)
    length = lines[0].shape[axes[0]]
    rows = []
    ways = [Steps(length, bool(back)) for back in backward]
    for _ in zip(*ways):
        slices = [way.row(x, axis) for way, x, axis in zip(ways, lines, axes)]
        results = [_plain(value) for value in context.run(body, [*state, *slices])]
        state = [_settled(value) for value in results[:count]]
        rows.append([_row(value).contiguous().realize() for value in results[count:]])
    scanned = []
    outputs = len(body.outputs) - count
    directions = scan_output_directions or [0] * outputs
    for i, axis in enumerate(scan_output_axes or [0] * outputs):
        column = [row[i] for row in rows]
        column = column[::-1] if directions[i] else column
        scanned.append(_stacked(column, axis_in(axis, column[0].ndim + 1)))
    return (*state, *scanned)


@operator("Scan", since=8)
def scan_batched(lengths, *inputs, body, num_scan_inputs: int, context, directions=None):
    """Scan over each entry of a batch, along the second axis."""
    results = []
    for entry in range(inputs[0].shape[0]):
        parts = [x[entry] for x in inputs]
        results.append(scan(*parts, body=body, num_scan_inputs=num_scan_inputs, context=context,
                            scan_input_directions=directions))  # fmt: skip
    return tuple(_stacked(list(column)) for column in zip(*results))


# *** sequences ***
def _place(sequence: list, position, default: int, limit: int) -> int:
    index = default if position is None else int(np.array(position).item())
    if not -len(sequence) <= index < max(limit, 1):
        raise IndexError(f"position {index} is outside a sequence of {len(sequence)}")
    return index + len(sequence) if index < 0 else index


@operator("SequenceConstruct")
def sequence_construct(*parts):
    """A sequence of the inputs."""
    return list(parts)


@operator("SequenceEmpty")
def sequence_empty(dtype: int = 1):
    """A sequence of nothing."""
    if dtype != 8:
        element_dtype(dtype)
    return []


@operator("SequenceInsert", constants=("position",))
def sequence_insert(sequence, value, position=None):
    """The sequence with a value before a position, at the end by default."""
    index = _place(sequence, position, len(sequence), len(sequence) + 1)
    return [*sequence[:index], value, *sequence[index:]]


@operator("SequenceErase", constants=("position",))
def sequence_erase(sequence, position=None):
    """The sequence without the value at a position, the last by default."""
    index = _place(sequence, position, len(sequence) - 1, len(sequence))
    return [*sequence[:index], *sequence[index + 1 :]]


@operator("SequenceAt", constants=("position",))
def sequence_at(sequence, position):
    """The value at a position."""
    return sequence[_place(sequence, position, 0, len(sequence))]


@operator("SequenceLength")
def sequence_length(sequence):
    """How many values there are."""
    return np.array(len(sequence), dtype=np.int64)


@operator("ConcatFromSequence")
def concat_from_sequence(sequence, axis: int, new_axis: int = 0):
    """The values joined along an axis, a new one if asked for."""
    first, *rest = sequence
    return first.stack(*rest, dim=axis) if new_axis else first.cat(*rest, dim=axis)


@operator("SplitToSequence", constants=("split",))
def split_to_sequence(x, split=None, axis: int = 0, keepdims: int = 1):
    """Pieces of the sizes given, or slices of one element."""
    size = x.shape[axis]
    if split is None:
        pieces = x.split(1, dim=axis)
        return [p if keepdims else p.squeeze(axis) for p in pieces]
    if not isinstance(split, list):
        split = [min(split, size - i) for i in range(0, size, split)]
    return list(x.split(split, dim=axis))


@operator("SequenceMap")
def sequence_map(*inputs, body, context):
    """Sequences of what a graph gives for each position."""
    length = len(inputs[0])
    results = []
    for i in range(length):
        values = [value[i] if isinstance(value, list) else value for value in inputs]
        results.append([_plain(value) for value in context.run(body, values)])
    return tuple(list(column) for column in zip(*results)) or tuple([] for _ in body.outputs)


# *** optional values ***
@operator("Optional")
def optional(value=None, type=None):
    """The value, or nothing."""
    return value


@operator("OptionalHasElement")
def optional_has_element(value=None):
    """Whether there is a value."""
    return np.array(value is not None)


@operator("OptionalGetElement")
def optional_get_element(value):
    """The value. Raises ValueError where there is none."""
    if value is None:
        raise ValueError("OptionalGetElement of nothing")
    return value
