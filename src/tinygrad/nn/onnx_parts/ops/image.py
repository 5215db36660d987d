"""Resizing and sampling of images and volumes.

Sizes are known when the graph is built, so that the places and weights along each axis are computed with
NumPy; each axis is then one gather (nearest) or one product with a matrix of weights.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


def _source_places(
    mode: str, have: int, want: int, scale: float, start: float, end: float
) -> np.ndarray:
    """Where each element of the result lies in the source. Raises ValueError for an unknown mode."""
    x = np.arange(want, dtype=np.float64)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and want > 1):
        return (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return x * 0
    if mode == "half_pixel_symmetric":
        adjustment = want / (scale * have)
        return have / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5
    if mode == "align_corners":
        return x * 0 if want == 1 else x * (have - 1) / (want - 1)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        if want == 1:
            return np.full(1, 0.5 * (start + end) * (have - 1))
        return start * (have - 1) + x * (end - start) * (have - 1) / (want - 1)
    raise ValueError(f"Resize: unknown coordinate_transformation_mode {mode!r}")


_NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _tent(distance: np.ndarray, _: float) -> np.ndarray:
    return np.clip(1 - np.abs(distance), 0, None)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _weights(places: np.ndarray, have: int, scale: float, kernel, reach: int, a: float,
             antialias: int, exclude_outside: int) -> np.ndarray:  # fmt: skip
    """The (results, sources) matrix of an axis; what lies outside is the edge, or has no weight."""
    stretch = min(scale, 1.0) if antialias else 1.0
    span = math.ceil(reach / stretch)
    taps = np.floor(places)[:, None] + np.arange(-span + 1, span + 1)[None, :]
    weights = kernel((taps - places[:, None]) * stretch, a)
    if exclude_outside:
        weights = np.where((taps >= 0) & (taps < have), weights, 0)
    if antialias or exclude_outside:
        weights = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((len(places), have))
    rows = np.repeat(np.arange(len(places)), taps.shape[1])
    np.add.at(
        matrix, (rows, np.clip(taps, 0, have - 1).astype(np.int64).reshape(-1)), weights.reshape(-1)
    )
    return matrix


def _taken_along(x: Tensor, axis: int, index: np.ndarray) -> Tensor:
    """The slices of an axis at the indices: repeats by a whole factor need no gather."""
    have, want = x.shape[axis], len(index)
    if want % have == 0 and np.array_equal(index, np.arange(want) // (want // have)):
        shape = [*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]]
        wide = [*x.shape[: axis + 1], want // have, *x.shape[axis + 1 :]]
        return x.reshape(shape).expand(wide).flatten(axis, axis + 1)
    return x[(slice(None),) * axis + (Tensor(index.astype(np.int32)),)]


def _weighted_along(x: Tensor, axis: int, matrix: np.ndarray) -> Tensor:
    line = x.transpose(axis, -1)
    kind = line.dtype if dtypes.is_float(line.dtype) else dtypes.float32
    factors = Tensor(matrix.astype(np.float32)).cast(kind).transpose()
    return line.cast(kind).matmul(factors).transpose(axis, -1)


def _sizes_and_scales(shape, axes, scales, sizes, policy: str):
    """The size and the scale of each resized axis."""
    have = [shape[a] for a in axes]
    if sizes:
        ratios = [want / n for want, n in zip(sizes, have)]
        if policy == "stretch":
            return list(sizes), ratios
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        return [math.floor(ratio * n + 0.5) for n in have], [ratio] * len(have)
    return [math.floor(n * s) for n, s in zip(have, scales)], list(scales)


def resize_axes(x: Tensor, axes, sizes, scales, roi, mode, coordinates, nearest, a, antialias,
                exclude_outside, fill) -> Tensor:  # fmt: skip
    """Each axis on its own; what a crop reads outside becomes `fill`."""
    result, outside = x, []
    for i, (axis, want, scale) in enumerate(zip(axes, sizes, scales)):
        have = x.shape[axis]
        start, end = (roi[i], roi[i + len(axes)]) if roi else (0.0, 1.0)
        if want == have and scale == 1 and coordinates != "tf_crop_and_resize":
            continue
        places = _source_places(coordinates, have, want, scale, start, end)
        if coordinates == "tf_crop_and_resize":
            outside.append((axis, (places < 0) | (places > have - 1)))
        if mode == "nearest":
            index = np.clip(_NEAREST[nearest](places), 0, have - 1).astype(np.int64)
            result = _taken_along(result, axis, index)
        else:
            kernel, reach = (_cubic, 2) if mode == "cubic" else (_tent, 1)
            matrix = _weights(places, have, scale, kernel, reach, a, antialias, exclude_outside)
            result = _weighted_along(result, axis, matrix)
    for axis, mask in outside:
        if mask.any():
            shape = [-1 if i == axis else 1 for i in range(x.ndim)]
            result = Tensor(mask).reshape(shape).where(fill, result)
    if dtypes.is_int(x.dtype) and result.dtype is not x.dtype:
        result = result.round().clip(dtypes.min(x.dtype), dtypes.max(x.dtype))
    return result.cast(x.dtype)


@operator("Resize", constants=("roi", "scales", "sizes"), since=11)
def resize(x: Tensor, roi=None, scales=None, sizes=None, antialias: int = 0, axes=None,
           coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
           exclude_outside: int = 0, extrapolation_value: float = 0.0,
           keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
           nearest_mode: str = "round_prefer_floor") -> Tensor:  # fmt: skip
    """x resampled to the sizes, or by the scales, of the axes named (all by default)."""
    axes = list(range(x.ndim)) if axes is None else [axis_in(a, x.ndim) for a in axes]
    if not scales and not sizes:
        raise ValueError("Resize needs scales or sizes")
    wanted, ratios = _sizes_and_scales(x.shape, axes, scales, sizes, keep_aspect_ratio_policy)
    return resize_axes(
        x, axes, wanted, ratios, roi, mode, coordinate_transformation_mode, nearest_mode,
        cubic_coeff_a, antialias, exclude_outside, extrapolation_value,
    )  # fmt: skip


@operator("Resize", "Upsample", constants=("scales",), since=7)
def resize_by_scales(x: Tensor, scales, mode: str = "nearest") -> Tensor:
    """x resampled by the scales of all axes, from the corner."""
    sizes = [math.floor(n * s) for n, s in zip(x.shape, scales)]
    return resize_axes(
        x, range(x.ndim), sizes, scales, None, mode, "asymmetric", "floor", -0.75, 0, 0, 0.0
    )


@operator("Upsample", since=1)
def upsample(x: Tensor, height_scale: float, width_scale: float, mode: str = "nearest") -> Tensor:
    """An image resampled by two scales."""
    kind = "linear" if mode == "bilinear" else mode
    return resize_by_scales(x, [1.0, 1.0, height_scale, width_scale], kind)


# *** sampling at given places ***
def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    """Places outside low..high thrown back at the borders."""
    length = high - low
    if length == 0:
        return place * 0 + low
    distance = (place - low).abs()
    turns = (distance / length).floor()
    rest = distance - turns * length
    odd = turns - (turns / 2).floor() * 2
    return (odd == 0).where(low + rest, high - rest)


def _kept_inside(place: Tensor, size: int, padding: str, align: int) -> Tensor:
    if padding == "border":
        return place.clip(0, size - 1)
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        return _reflected(place, low, high)
    return place


def _axis_taps(place: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """Whole places around a real one along one axis, each with its weight."""
    if mode == "nearest":
        return [(place, None)]
    base = place.floor()
    part = place - base
    if mode != "cubic":
        return [(base, 1 - part), (base + 1, part)]
    a = -0.75

    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(part + 1), near(part), near(1 - part), far(2 - part))
    return [(base + i - 1, weight) for i, weight in enumerate(weights)]


@operator("GridSample")
def grid_sample(x: Tensor, grid: Tensor, align_corners: int = 0, mode: str = "linear",
                padding_mode: str = "zeros") -> Tensor:  # fmt: skip
    """Values of x at the places of the grid, whose coordinates (x first) go from -1 to 1."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    sizes, out = x.shape[2:], grid.shape[1:-1]
    n, channels = x.shape[:2]
    flat = x.reshape(n, channels, math.prod(sizes))
    axis_taps = []
    for i, size in enumerate(sizes):
        unit = grid[..., len(sizes) - 1 - i].reshape(n, math.prod(out))
        place = (unit + 1) / 2 * (size - 1) if align_corners else ((unit + 1) * size - 1) / 2
        place = place.round() if mode == "nearest" else place
        if mode != "cubic":
            place = _kept_inside(place, size, padding_mode, align_corners)
        axis_taps.append(_axis_taps(place, mode))
    total: Any = None
    for taps in itertools.product(*axis_taps):
        index: Any = None
        weight: Any = None
        inside: Any = None
        for (place, share), size in zip(taps, sizes):
            whole = _kept_inside(place, size, padding_mode, align_corners)
            fits = (whole >= 0) & (whole <= size - 1)
            whole = whole.clip(0, size - 1).cast(dtypes.int32)
            index = whole if index is None else index * size + whole
            inside = fits if inside is None else inside & fits
            weight = share if weight is None else weight * share
        factor = inside.cast(x.dtype) if weight is None else inside.where(weight, 0)
        values = flat.gather(2, index.unsqueeze(1).expand(n, channels, index.shape[1]))
        part = values * factor.unsqueeze(1)
        total = part if total is None else total + part
    return total.reshape(n, channels, *out).cast(x.dtype)


@operator("AffineGrid", constants=("size",))
def affine_grid(theta: Tensor, size: list[int], align_corners: int = 0) -> Tensor:
    """The places (x first) that an affine map gives to the elements of an image or volume."""
    axes = []
    for n in size[2:]:
        step = np.arange(n, dtype=np.float64)
        axes.append(
            (step * 2 / (n - 1) - 1 if n > 1 else step - 1)
            if align_corners
            else (2 * step + 1) / n - 1
        )
    mesh = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*reversed(mesh), np.ones_like(mesh[0])], axis=-1)
    places = Tensor(points.reshape(-1, len(axes) + 1)).cast(theta.dtype)
    return places.matmul(theta.transpose(-1, -2)).reshape(size[0], *size[2:], len(axes))


def _roi_axis(start: float, bin_size: float, count: int, samples: int, size: int):
    """Per sample along one axis: low and high place, their weights (none outside the image)."""
    steps = (np.arange(count)[:, None] + (np.arange(samples)[None, :] + 0.5) / samples).reshape(-1)
    place = start + steps * bin_size
    inside = (place >= -1) & (place <= size)
    place = np.clip(place, 0, size - 1)
    low = np.floor(place).astype(np.int64)
    part = place - low
    return low, np.minimum(low + 1, size - 1), (1 - part) * inside, part * inside


@operator("RoiAlign", since=16)
def roi_align(x: Tensor, rois: Tensor, batch_indices: Tensor, coordinate_transformation_mode: str = "half_pixel",
              mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
              spatial_scale: float = 1.0) -> Tensor:  # fmt: skip
    """Each region of an image pooled to one size, from interpolated samples."""
    half = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    batches, pooled = batch_indices.numpy(), []
    height, width = x.shape[2:]
    for roi, batch in zip(rois.numpy().astype(np.float64), batches):
        left, top, right, bottom = roi * spatial_scale - half
        spans = (bottom - top, right - left)
        if not half:
            spans = tuple(max(span, 1.0) for span in spans)
        bins = (spans[0] / output_height, spans[1] / output_width)
        counts = [sampling_ratio or max(1, math.ceil(b)) for b in bins]
        rows = _roi_axis(top, bins[0], output_height, counts[0], height)
        columns = _roi_axis(left, bins[1], output_width, counts[1], width)
        parts = []
        for (r, rw), (c, cw) in itertools.product(
            ((rows[0], rows[2]), (rows[1], rows[3])),
            ((columns[0], columns[2]), (columns[1], columns[3])),
        ):
            weights = Tensor((rw[:, None] * cw[None, :]).astype(np.float32))
            parts.append(
                x[int(batch)][:, Tensor(r).reshape(-1, 1), Tensor(c).reshape(1, -1)] * weights
            )
        shape = (x.shape[1], output_height, counts[0], output_width, counts[1])
        if mode == "avg":
            total = parts[0] + parts[1] + parts[2] + parts[3]
            pooled.append(total.reshape(shape).mean((2, 4)))
        else:
            best = parts[0].maximum(parts[1]).maximum(parts[2].maximum(parts[3]))
            pooled.append(best.reshape(shape).max((2, 4)))
    if not pooled:
        return Tensor.zeros(0, x.shape[1], output_height, output_width, dtype=x.dtype)
    return pooled[0].stack(*pooled[1:]).cast(x.dtype)


@operator("RoiAlign", since=10)
def roi_align_by_corner(x: Tensor, rois: Tensor, batch_indices: Tensor, **options) -> Tensor:
    """RoiAlign whose coordinates are those of corners of pixels."""
    return roi_align(x, rois, batch_indices, "output_half_pixel", **options)


@operator("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Tensor, pooled_shape: list[int], spatial_scale: float = 1.0
) -> Tensor:
    """The maxima of a grid of parts of each region, zero for an empty part."""
    height, width = x.shape[2:]
    results = []
    for batch, *corners in rois.numpy():
        left, top, right, bottom = (int(math.floor(v * spatial_scale + 0.5)) for v in corners)
        spans = (
            max(bottom - top + 1, 1) / pooled_shape[0],
            max(right - left + 1, 1) / pooled_shape[1],
        )
        cells = []
        for i, j in itertools.product(range(pooled_shape[0]), range(pooled_shape[1])):
            y = [
                min(max(v + top, 0), height)
                for v in (math.floor(i * spans[0]), math.ceil((i + 1) * spans[0]))
            ]
            z = [
                min(max(v + left, 0), width)
                for v in (math.floor(j * spans[1]), math.ceil((j + 1) * spans[1]))
            ]
            empty = y[0] >= y[1] or z[0] >= z[1]
            area = x[int(batch)][:, y[0] : y[1], z[0] : z[1]]
            cells.append(Tensor.zeros(x.shape[1], dtype=x.dtype) if empty else area.max((1, 2)))
        results.append(cells[0].stack(*cells[1:], dim=1).reshape(-1, *pooled_shape))
    return results[0].stack(*results[1:])


@operator("ImageDecoder")
def image_decoder(encoded: Tensor, pixel_format: str = "RGB") -> Tensor:
    """The pixels (height, width, channels) of an image file, none where it cannot be decoded.

    Raises ImportError where Pillow, which decodes it, is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("ImageDecoder needs Pillow: pip install pillow") from error
    mode = "L" if pixel_format == "Grayscale" else "RGB"
    try:
        with Image.open(io.BytesIO(encoded.data().tobytes())) as image:
            pixels = np.array(image.convert(mode), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        pixels = np.zeros((0, 0, 3) if mode == "RGB" else (0, 0), dtype=np.uint8)
    if mode == "L":
        pixels = pixels[:, :, None]
    return Tensor(np.ascontiguousarray(pixels[:, :, ::-1] if pixel_format == "BGR" else pixels))
