"""Layers without parameters: linear maps, convolution, pooling, normalization, attention, resizing."""

from __future__ import annotations

import math
from typing import Any, Self

from tinygrad.dtype import (
    DTypeLike,
    dtypes,
    least_upper_dtype,
    least_value,
    sum_acc_dtype,
    to_dtype,
)
from tinygrad.gradient import stored_once
from tinygrad.helpers import IMAGE, WINO, Context, ceildiv, make_tuple, prod
from tinygrad.tensor import texels, winograd
from tinygrad.tensor.core import TensorCore


def _pool_of(kernel_size, stride) -> tuple[tuple[int, ...], Any, tuple[int, ...]]:
    """The window, its step (the window itself by default) and the axes it runs along."""
    kernel = make_tuple(kernel_size, 2)
    return kernel, kernel if stride is None else stride, tuple(range(-len(kernel), 0))


class NetworkMixin(TensorCore):
    """Convolution, pooling, normalization, attention, interpolation."""

    __slots__ = ()

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """`self @ weight + bias` (a 1-d weight multiplies elementwise).

        `weight` is (in, out); `dtype` is the type all three are computed in.

        >>> Tensor([[1.0, 2.0]]).linear(Tensor([[1.0], [10.0]]), Tensor([0.5])).tolist()
        [[21.5]]
        """
        if dtype is not None:
            kind = to_dtype(dtype)
            return self.cast(kind).linear(
                weight.cast(kind), None if bias is None else bias.cast(kind)
            )
        x = self.mul(weight) if weight.ndim == 1 else self.dot(weight)
        return x if bias is None else x.add(bias)

    # ---- padding of windows

    def _padding_pairs(self, padding, n: int) -> list[tuple[int, int]]:
        """Per window axis (before, after), from one number, one per axis, or all 2n (last axis first)."""
        if isinstance(padding, int):
            return [(padding, padding)] * n
        if len(padding) == 2 * n:
            flat = list(padding)
            return list(zip(flat[::2], flat[1::2]))[::-1]
        if len(padding) == n:
            return [(p, p) for p in padding]
        raise ValueError(
            f"padding has {len(padding)} entries, expected 1, {n} or {2 * n} for {n} window axes"
        )

    def _ceil_pairs(self, pairs, kernel, stride, dilation) -> list[tuple[int, int]]:
        """`pairs` grown after the end so that windows that start inside are counted too."""
        n = len(kernel)
        grown = []
        for size, (before, after), k, s, d in zip(
            self.shape[-n:], pairs, kernel, make_tuple(stride, n), make_tuple(dilation, n)
        ):
            reach = d * (k - 1) + 1
            count = ceildiv(size + before + after - reach, s) + 1
            if (count - 1) * s >= size + before:
                count -= 1  # a window that would start in the padding behind is dropped
            grown.append((before, max(after, (count - 1) * s + reach - size - before)))
        return grown

    def _window_pairs(self, padding, kernel, stride, dilation, ceil_mode: bool):
        pairs = self._padding_pairs(padding, len(kernel))
        return self._ceil_pairs(pairs, kernel, stride, dilation) if ceil_mode else pairs

    def _pad_windows(self, pairs, value: float = 0.0) -> Self:
        return self.pad((None,) * (self.ndim - len(pairs)) + tuple(pairs), value=value)

    # ---- pooling

    def avg_pool2d(
        self,
        kernel_size: tuple[int, ...] = (2, 2),
        stride=None,
        dilation=1,
        padding: int | tuple[int, ...] = 0,
        ceil_mode=False,
        count_include_pad=True,
    ) -> Self:
        """Average over windows of the last axes, as many as `kernel_size` has.

        `count_include_pad` counts padded zeros as elements. See `max_pool2d` for the rest.

        >>> Tensor.arange(16).reshape(1, 1, 4, 4).float().avg_pool2d().tolist()
        [[[[2.5, 4.5], [10.5, 12.5]]]]
        """
        kernel, step, axes = _pool_of(kernel_size, stride)
        plain = self._padding_pairs(padding, len(kernel))
        pairs = self._ceil_pairs(plain, kernel, step, dilation) if ceil_mode else plain
        total = self._pad_windows(pairs)._windows(kernel, step, dilation).sum(axes)
        if count_include_pad and pairs == plain:
            return (
                total.div(prod(kernel)).cast(total.dtype)
                if dtypes.is_float(self.dtype)
                else total / prod(kernel)
            )
        counted = self.ones_like(requires_grad=False)
        if count_include_pad:
            # what ceil_mode adds behind the padding is no element
            counted = counted._pad_windows(plain, 1.0)
            extra = [(0, after - given) for (_, after), (_, given) in zip(pairs, plain)]
            counted = counted._pad_windows(extra)
        else:
            counted = counted._pad_windows(pairs)
        return total / counted._windows(kernel, step, dilation).sum(axes)

    def max_pool2d(
        self,
        kernel_size: tuple[int, ...] = (2, 2),
        stride=None,
        dilation=1,
        padding: int | tuple[int, ...] = 0,
        ceil_mode=False,
        return_indices=False,
    ) -> Self | tuple[Self, Self]:
        """Maximum over windows of the last axes, as many as `kernel_size` has.

        `stride` defaults to the kernel; `padding` is one number, one per axis or all sides (last axis
        first); `ceil_mode` keeps incomplete windows at the end; `return_indices` also gives positions
        in the flattened window axes. Raises ValueError for a padding of the wrong length.

        >>> Tensor.arange(16).reshape(1, 1, 4, 4).max_pool2d().tolist()
        [[[[5, 7], [13, 15]]]]
        """
        kernel, step, axes = _pool_of(kernel_size, stride)
        pairs = self._window_pairs(padding, kernel, step, dilation, ceil_mode)
        windows = self._pad_windows(pairs, least_value(self.dtype))._windows(kernel, step, dilation)
        best = windows.max(axes)
        if not return_indices:
            return best
        if (stored := self._lift(stored_once)).uop is not self.uop:
            # positions are found by comparing values, which has to be exact
            return stored.max_pool2d(kernel_size, stride, dilation, padding, ceil_mode, True)
        area = prod(self.shape[-len(kernel) :])
        # positions count down, so that the maximum is the first of equal elements
        countdown = self._counting(area, 0, -1).reshape(self.shape[-len(kernel) :])
        places = countdown._pad_windows(pairs)._windows(kernel, step, dilation)
        hit = windows == best.reshape(*best.shape, *(1,) * len(kernel))
        if dtypes.is_float(self.dtype):
            hit = hit | windows.isnan()  # the first NaN, which equals nothing
        return best, (area - (hit * places).max(axes)).cast(dtypes.int32)

    def max_unpool2d(
        self,
        indices: Self,
        kernel_size: tuple[int, ...] = (2, 2),
        stride=None,
        dilation=1,
        padding: int | tuple[int, ...] = 0,
        output_size=None,
    ) -> Self:
        """Puts pooled values back to the positions `max_pool2d` gave; zeros elsewhere.

        >>> x = Tensor([[[[1, 2], [3, 4]]]])
        >>> values, places = x.max_pool2d(return_indices=True)
        >>> values.max_unpool2d(places).tolist()
        [[[[0, 0], [0, 4]]]]
        """
        kernel, step, _ = _pool_of(kernel_size, stride)
        n = len(kernel)
        if output_size is not None:
            spatial = tuple(output_size[-n:])
        else:
            steps, gaps = make_tuple(step, n), make_tuple(dilation, n)
            pairs = self._padding_pairs(padding, n)
            spatial = tuple(
                (size - 1) * s - before - after + d * (k - 1) + 1
                for size, s, (before, after), d, k in zip(
                    self.shape[-n:], steps, pairs, gaps, kernel
                )
            )
        lead = self.shape[:-n]
        values, places = self.reshape(*lead, 1, -1), indices.reshape(*lead, 1, -1)
        area = prod(spatial)
        numbers = self._counting(0, area).reshape(area, 1)
        flat = (places == numbers).where(values, values.const_like(0)).sum(-1, dtype=self.dtype)
        return flat.reshape(*lead, *spatial)

    # ---- convolution

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups=1,
        stride=1,
        dilation=1,
        padding: int | tuple[int, ...] = 0,
        dtype: DTypeLike | None = None,
    ) -> Self:
        """Cross-correlation of (batch, channels, ...) with weight (out, channels / groups, ...).

        One, two or three window axes. `padding` as in `max_pool2d`; `dtype` is the type of the sum.
        Raises RuntimeError where the channels do not fit, ValueError for a wrong padding.

        >>> x, weight = Tensor.ones(1, 1, 3, 3), Tensor.ones(1, 1, 2, 2)
        >>> x.conv2d(weight).tolist()
        [[[[4.0, 4.0], [4.0, 4.0]]]]
        >>> x.conv2d(weight, padding=1, stride=2).shape
        (1, 1, 2, 2)
        """
        out_channels, per_group, *kernel = weight.shape
        n = len(kernel)
        if self.ndim != weight.ndim or groups * per_group != self.shape[1] or out_channels % groups:
            raise RuntimeError(
                f"input of shape {self.shape} does not fit the weight {weight.shape} with {groups} "
                f"groups: expected {groups * per_group} channels and {n} window axes"
            )
        if bias is not None and tuple(bias.shape) != (out_channels,):
            raise RuntimeError(f"bias has shape {bias.shape}, expected ({out_channels},)")
        if IMAGE:
            return self.image_conv2d(weight, bias, groups, stride, dilation, padding, dtype)
        padded = self._pad_windows(self._padding_pairs(padding, n))
        if WINO and winograd.applies(kernel, stride, dilation):
            result = winograd.convolve(padded, weight, groups, dtype)
        else:
            result = padded._convolve(weight, groups, stride, dilation, dtype)
        return result if bias is None else result.add(bias.reshape(1, -1, *(1,) * n))

    def _convolve(self, weight: Self, groups: int, stride, dilation, dtype) -> Self:
        """Windows times weights, summed over channels and window, for an input already padded."""
        batch, out_channels, per_group = self.shape[0], weight.shape[0], weight.shape[1]
        kernel = tuple(weight.shape[2:])
        n, per_out = len(kernel), out_channels // groups
        windows = self._windows(kernel, stride, dilation)
        place = windows.shape[2 : 2 + n]
        x = windows.reshape(batch, groups, per_group, 1, *place, *kernel)
        x = x.expand(batch, groups, per_group, per_out, *place, *kernel)
        # (batch, group, out, place, channel, window)
        x = x.permute(0, 1, 3, *range(4, 4 + n), 2, *range(4 + n, 4 + 2 * n))
        w = weight.reshape(1, groups, per_out, *(1,) * n, per_group, *kernel)
        product = x * w
        axes = tuple(range(-1 - n, 0))
        wide = sum_acc_dtype(product.dtype) if dtype is None else to_dtype(dtype)
        total = product.sum(axes, dtype=wide).reshape(batch, out_channels, *place)
        return total.cast(least_upper_dtype(self.dtype, weight.dtype)) if dtype is None else total

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups=1,
        stride=1,
        dilation=1,
        padding=0,
        output_padding=0,
    ) -> Self:
        """The transpose of `conv2d`: (batch, in, ...) with weight (in, out / groups, ...).

        `output_padding` adds to the end of each axis, to choose among the inputs a convolution with
        a stride maps to one size.

        >>> x, weight = Tensor.ones(1, 1, 2, 2), Tensor.ones(1, 1, 2, 2)
        >>> x.conv_transpose2d(weight).tolist()
        [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
        """
        channels, per_group, *kernel = weight.shape
        n = len(kernel)
        steps, gaps = make_tuple(stride, n), make_tuple(dilation, n)
        extra = make_tuple(output_padding, n)
        # as a convolution the weight is mirrored and has in and out exchanged within each group
        w = weight.unflatten(0, (groups, channels // groups)).transpose(1, 2)
        w = w.flatten(0, 1).flip(tuple(range(2, 2 + n)))
        x = self
        for axis, step in enumerate(steps, 2):
            if step > 1:
                x = x._spread_axis(axis, step)
        around = [
            ((k - 1) * d - before, (k - 1) * d - after + o)
            for k, d, o, (before, after) in zip(
                kernel, gaps, extra, self._padding_pairs(padding, n)
            )
        ]
        flat = tuple(p for pair in reversed(around) for p in pair)
        return x.conv2d(w, bias, groups=groups, dilation=gaps, padding=flat)

    def _spread_axis(self, axis: int, step: int) -> Self:
        """`step - 1` zeros between the elements along one axis."""
        size = self.shape[axis]
        wide = self.unsqueeze(axis + 1)
        gaps = tuple((0, step - 1) if i == axis + 1 else None for i in range(wide.ndim))
        return wide.pad(gaps).flatten(axis, axis + 1)._cut_axis(axis, (size - 1) * step + 1)

    def image_conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups=1,
        stride=1,
        dilation=1,
        padding=0,
        dtype=None,
    ) -> Self:
        """`conv2d` in the layout of images (`tensor.texels`): four channels together. The same values.

        >>> Tensor.ones(1, 3, 4, 4).image_conv2d(Tensor.ones(2, 3, 3, 3)).tolist()[0][1]
        [[27.0, 27.0], [27.0, 27.0]]
        """
        n = weight.ndim - 2
        pairs = self._padding_pairs(padding, n)
        sizes = (*self.shape, *weight.shape)
        if n == 2 and all(isinstance(size, int) and size > 0 for size in sizes):
            return texels.convolve(self, weight, bias, groups, stride, dilation, pairs, dtype)
        result = self._pad_windows(pairs)._convolve(weight, groups, stride, dilation, dtype)
        return result if bias is None else result.add(bias.reshape(1, -1, *(1,) * n))

    def image_dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """`dot` in the layout of images (`tensor.texels`); the same values.

        >>> Tensor([[1, 2], [3, 4]]).image_dot(Tensor([[1], [10]])).tolist()
        [[21], [43]]
        """
        if texels.multiplies(self, w):
            return texels.multiply(self, w, dtype)
        with Context(IMAGE=0):
            return self.dot(w, dtype)

    # ---- normalization

    def layernorm(self, axis: int | tuple[int, ...] = -1, eps: float = 1e-5) -> Self:
        """Mean 0 and variance 1 over `axis` (Ba et al., arXiv:1607.06450).

        >>> [round(v, 3) for v in Tensor([1.0, 3.0]).layernorm().tolist()]
        [-1.0, 1.0]
        """
        centred = self - self.mean(axis, keepdim=True)
        return centred * (centred * centred).mean(axis, keepdim=True).add(eps).rsqrt()

    def batchnorm(
        self,
        weight: Self | None,
        bias: Self | None,
        mean: Self,
        invstd: Self,
        axis: int | tuple[int, ...] = 1,
    ) -> Self:
        """`(self - mean) * weight * invstd + bias`, all given per element of `axis`.

        >>> x = Tensor([[1.0], [3.0]])
        >>> x.batchnorm(None, None, mean=Tensor([2.0]), invstd=Tensor([1.0])).tolist()
        [[-1.0], [1.0]]
        """
        axes = {self._resolve_dim(a) for a in make_tuple(axis, 1)}
        shape = tuple(s if i in axes else 1 for i, s in enumerate(self.shape))
        x = self - mean.reshape(shape)
        if weight is not None:
            x = x * weight.reshape(shape)
        scaled = x.mul(invstd.reshape(shape) if invstd.ndim == len(axes) else invstd)
        return scaled if bias is None else scaled + bias.reshape(shape)

    # ---- attention

    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        attn_mask: Self | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        enable_gqa: bool = False,
    ) -> Self:
        """`softmax(self @ key.T / sqrt(d)) @ value` (Vaswani et al., arXiv:1706.03762).

        Shapes (..., queries, d), (..., keys, d), (..., keys, e). A bool mask keeps where True, another
        is added. `is_causal` hides later keys; `enable_gqa` repeats key heads to those of `self`.
        Raises RuntimeError for a mask together with `is_causal`.

        >>> q = k = v = Tensor.ones(1, 4, 8)
        >>> q.scaled_dot_product_attention(k, v, is_causal=True).shape
        (1, 4, 8)
        """
        if enable_gqa:
            heads, shared = self.shape[-3], (key.shape[-3], value.shape[-3])
            if any(isinstance(n, int) and (n == 0 or heads % n) for n in shared):
                raise ValueError(
                    f"the {heads} heads of the queries must be a multiple of those of keys and values, "
                    f"got {shared}"
                )
            key = key.repeat_interleave(self.shape[-3] // key.shape[-3], dim=-3)
            value = value.repeat_interleave(self.shape[-3] // value.shape[-3], dim=-3)
        wide = least_upper_dtype(self.dtype, key.dtype, dtypes.float32)
        scores = self.matmul(key.transpose(-2, -1), dtype=wide) / math.sqrt(self.shape[-1])
        if is_causal:
            if attn_mask is not None:
                raise RuntimeError("cannot set attn_mask when is_causal=True")
            attn_mask = scores.ones_like(requires_grad=False, dtype=dtypes.bool).tril()
        if attn_mask is not None:
            if attn_mask.dtype is dtypes.bool:
                attn_mask = attn_mask.where(0.0, -math.inf)
            scores = scores + attn_mask
        weights = scores.cast(self.dtype).softmax(-1).dropout(dropout_p)
        return weights.cast(value.dtype) @ value

    # ---- resizing

    def interpolate(
        self, size: tuple[int, ...], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """The last axes resized to `size`. Modes "linear", "nearest", "nearest-exact".

        `align_corners` (linear only) keeps the centres of the corner elements in place.

        >>> Tensor([[[1.0, 3.0]]]).interpolate((4,)).tolist()
        [[[1.0, 1.5, 2.5, 3.0]]]
        """
        if mode not in ("linear", "nearest", "nearest-exact"):
            raise ValueError(f"mode is 'linear', 'nearest' or 'nearest-exact', got {mode!r}")
        if not isinstance(size, (tuple, list)) or not all(isinstance(s, int) for s in size):
            raise AssertionError(f"size is a sequence of whole numbers, got {size!r}")
        if any(s <= 0 for s in size):
            raise ValueError(f"sizes must be positive, got {tuple(size)}")
        if not 0 < len(size) <= self.ndim:
            raise AssertionError(f"size has {len(size)} entries for {self.ndim} axes")
        if align_corners and mode != "linear":
            raise AssertionError("align_corners option can only be set with linear mode")
        x = self
        # the last axis first: integer dtypes are rounded after each, as in PyTorch
        for axis, want in reversed(list(enumerate(size, self.ndim - len(size)))):
            x = x._resize_axis(axis, want, mode, align_corners)
        return x if x.dtype is self.dtype else x.cast(self.dtype)

    def _resize_axis(self, axis: int, want: int, mode: str, align_corners: bool) -> Self:
        have = self.shape[axis]
        step = self.arange(want, device=self.device, dtype=dtypes.float32)

        def taken(position: Self) -> Self:
            shaped = position.clip(0, have - 1).cast(dtypes.int32)
            table = self.transpose(0, axis)
            return table._take_rows(shaped).transpose(0, axis)

        if mode == "nearest":
            return taken((step * (have / want)).floor())
        if mode == "nearest-exact":
            return taken(((step + 0.5) * (have / want)).floor())
        if align_corners:
            place = step * ((have - 1) / (want - 1) if want > 1 else 0.0)
        else:
            place = ((step + 0.5) * (have / want) - 0.5).clip(0, have - 1)
        low = place.floor()
        part = (place - low).reshape(tuple(want if i == axis else 1 for i in range(self.ndim)))
        first, second = taken(low), taken(low + 1)
        if self.dtype is dtypes.uint8:
            return first.lerp(second, part._broadcast_to(first.shape))
        return first.lerp(second, part)
