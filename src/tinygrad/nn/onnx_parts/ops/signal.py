"""Fourier transforms, windows and random numbers."""

from __future__ import annotations

import math

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.kinds import element_dtype
from tinygrad.nn.onnx_parts.ops.layout import axis_in
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


# *** windows ***
def _window(name: str, coefficients: tuple[float, ...]) -> None:
    @operator(name, constants=("size",))
    def window(size, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        """A sum of cosines over `size` elements, one period of it or (not `periodic`) symmetric."""
        count = int(np.array(size).item())
        steps = max(1, count if periodic else count - 1)
        phase = np.arange(count) * 2 * math.pi / steps
        values = sum(c * np.cos(k * phase) for k, c in enumerate(coefficients))
        return Tensor(values + np.zeros(count)).cast(element_dtype(output_datatype))


_window("HannWindow", (0.5, -0.5))
_window("HammingWindow", (25 / 46, -21 / 46))
_window("BlackmanWindow", (0.42, -0.5, 0.08))


@operator("MelWeightMatrix", constants=("bins", "length", "rate", "low", "high"))
def mel_weight_matrix(bins, length, rate, low, high, output_datatype: int = 1) -> Tensor:
    """Weights that gather the lines of a spectrum into bands of equal width in mel."""
    bins, length, rate = (int(np.array(v).item()) for v in (bins, length, rate))
    lines = length // 2 + 1
    to_mel = lambda hertz: 2595 * math.log10(1 + hertz / 700)  # noqa: E731
    first, last = to_mel(float(np.array(low).item())), to_mel(float(np.array(high).item()))
    mels = first + np.arange(bins + 2) * (last - first) / (bins + 2)
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(np.int64)
    matrix = np.zeros((lines, bins))
    for i in range(bins):
        start, middle, end = edges[i : i + 3]
        if middle == start:
            matrix[middle, i] = 1
        rise = np.arange(start, middle + 1)
        matrix[rise, i] = (
            (rise - start) / max(1, middle - start) if middle > start else matrix[rise, i]
        )
        if end > middle:
            fall = np.arange(middle, end)
            matrix[fall, i] = (end - fall) / (end - middle)
    return Tensor(matrix).cast(element_dtype(output_datatype))


# *** Fourier transforms ***
def _transformed(x: Tensor, length: int, inverse: bool, lines: int) -> Tensor:
    """The transform of (..., length, 1 or 2) as (..., lines, 2), by products with sines and cosines."""
    have = x.shape[-2]
    if have < length:
        x = x.pad(((0, 0),) * (x.ndim - 2) + ((0, length - have), (0, 0)))
    elif have > length:
        x = x[..., :length, :]
    angles = 2 * math.pi / length * (np.outer(np.arange(length), np.arange(lines)) % length)
    cos, sin = (Tensor(f(angles)).cast(x.dtype) for f in (np.cos, np.sin))
    sign = 1 if inverse else -1
    real = x[..., 0]
    parts = (real.matmul(cos), real.matmul(sin) * sign)
    if x.shape[-1] == 2:
        imaginary = x[..., 1]
        parts = (parts[0] - imaginary.matmul(sin) * sign, parts[1] + imaginary.matmul(cos))
    result = parts[0].stack(parts[1], dim=-1)
    return result / length if inverse else result


def _real_again(half: Tensor, length: int) -> Tensor:
    """The real signal of which `half` is the first half of the spectrum."""
    rest = half[..., 1 : (length + 1) // 2, :].flip(-2)
    mirrored = rest * Tensor([1.0, -1.0], dtype=half.dtype)
    return _transformed(half.cat(mirrored, dim=-2), length, True, length)[..., 0:1]


@operator("DFT", since=20, constants=("dft_length", "axis"))
def discrete_fourier_transform(
    x: Tensor, dft_length=None, axis=-2, inverse: int = 0, onesided: int = 0
):
    """The transform along an axis of numbers of one (real) or two (complex) parts."""
    place = axis_in(int(np.array(-2 if axis is None else axis).item()), x.ndim)
    moved = x.transpose(place, -2)
    if onesided and inverse:
        length = (
            int(np.array(dft_length).item())
            if dft_length is not None
            else 2 * (moved.shape[-2] - 1)
        )
        return _real_again(moved, length).transpose(place, -2)
    length = moved.shape[-2] if dft_length is None else int(np.array(dft_length).item())
    lines = length // 2 + 1 if onesided else length
    return _transformed(moved, length, bool(inverse), lines).transpose(place, -2)


@operator("DFT", since=17, constants=("dft_length",))
def discrete_fourier_transform_17(
    x, dft_length=None, axis: int = 1, inverse: int = 0, onesided: int = 0
):
    """DFT with the axis as an attribute."""
    return discrete_fourier_transform(x, dft_length, axis, inverse, onesided)


@operator("STFT", constants=("frame_step", "frame_length"))
def short_time_fourier_transform(x: Tensor, frame_step, window: Tensor | None = None, frame_length=None,
                                 onesided: int = 1) -> Tensor:  # fmt: skip
    """The transforms of frames of a signal, each weighted by a window."""
    step = int(np.array(frame_step).item())
    if frame_length is not None:
        length = int(np.array(frame_length).item())
    elif window is not None:
        length = window.shape[0]
    else:
        raise ValueError("STFT needs a window or frame_length")
    signal = x if x.ndim == 3 else x.unsqueeze(-1)
    frames = signal.unfold(1, length, step).transpose(-1, -2)
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    return _transformed(frames, length, False, length // 2 + 1 if onesided else length)


# *** random numbers ***
def _generator(seed: float) -> np.random.Generator:
    return np.random.default_rng(int(np.float32(seed).view(np.uint32)))


def _uniform(shape, seed: float | None) -> Tensor:
    if seed is None:
        return Tensor.rand(*shape, dtype=dtypes.float32)
    return Tensor(_generator(seed).random(tuple(shape)).astype(np.float32))


def _normal(shape, seed: float | None) -> Tensor:
    if seed is None:
        return Tensor.randn(*shape, dtype=dtypes.float32)
    return Tensor(_generator(seed).standard_normal(tuple(shape)).astype(np.float32))


@operator("RandomUniform")
def random_uniform(shape, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed=None) -> Tensor:
    """Numbers spread evenly between low and high."""
    return (_uniform(shape, seed) * (high - low) + low).cast(element_dtype(dtype))


@operator("RandomNormal")
def random_normal(
    shape, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed=None
) -> Tensor:
    """Normally distributed numbers."""
    return (_normal(shape, seed) * scale + mean).cast(element_dtype(dtype))


@operator("RandomUniformLike")
def random_uniform_like(x, dtype: int | None = None, high=1.0, low=0.0, seed=None) -> Tensor:
    """RandomUniform in the shape, and by default the type, of a tensor."""
    kind = x.dtype if dtype is None else element_dtype(dtype)
    return (_uniform(x.shape, seed) * (high - low) + low).cast(kind)


@operator("RandomNormalLike")
def random_normal_like(x, dtype: int | None = None, mean=0.0, scale=1.0, seed=None) -> Tensor:
    """RandomNormal in the shape, and by default the type, of a tensor."""
    kind = x.dtype if dtype is None else element_dtype(dtype)
    return (_normal(x.shape, seed) * scale + mean).cast(kind)


@operator("Bernoulli")
def bernoulli(x: Tensor, dtype: int | None = None, seed=None) -> Tensor:
    """One with the probability of each element, else zero."""
    kind = x.dtype if dtype is None else element_dtype(dtype)
    return (_uniform(x.shape, seed) < x).cast(kind)


@operator("Multinomial")
def multinomial(x: Tensor, dtype: int = 6, sample_size: int = 1, seed=None) -> Tensor:
    """Classes drawn with probabilities that the rows give as logarithms."""
    levels = x.softmax(-1).cumsum(-1).unsqueeze(1)
    drawn = _uniform((x.shape[0], sample_size), seed).unsqueeze(-1)
    return (drawn >= levels).sum(-1).clip(0, x.shape[1] - 1).cast(element_dtype(dtype))
