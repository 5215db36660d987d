"""Random tensors: counter-based, so that a seed gives the same numbers on every device and backend.

Generator: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). The key is (hash of the device's number, seed); the counter of a device is a tensor that
every call moves on, so that captured functions draw new numbers each time they are replayed.
"""

from __future__ import annotations

import hashlib
import math
import time
from typing import Any, Self

from tinygrad.dtype import DTypeLike, dtypes, to_dtype
from tinygrad.engine.realize import current_capture
from tinygrad.helpers import argfix, ceildiv, prod
from tinygrad.tensor.core import TensorCore, canonical_devices, graph_lock
from tinygrad.tensor.creation import checked_shape


class RandomMixin(TensorCore):
    """Uniform, normal and derived distributions. All are called on the class."""

    __slots__ = ()
    _seed: int = int(time.time())
    _device_seeds: dict[str, TensorCore] = {}
    _device_rng_counters: dict[str, TensorCore] = {}

    @classmethod
    def manual_seed(cls, seed=0) -> None:
        """Starts the random numbers of all devices anew from `seed`.

        >>> Tensor.manual_seed(1)
        >>> first = Tensor.rand(3).tolist()
        >>> Tensor.manual_seed(1)
        >>> Tensor.rand(3).tolist() == first
        True
        """
        if not isinstance(seed, int):
            raise TypeError(f"a seed is a whole number, got {type(seed).__name__} {seed!r}")
        RandomMixin._seed = seed
        RandomMixin._device_seeds.clear()
        RandomMixin._device_rng_counters.clear()

    @classmethod
    def _threefry_random_bits(
        cls, key: TensorCore, counts0: TensorCore, counts1: TensorCore
    ) -> Self:
        """Random uint32: first the words of `counts0`, then those of `counts1`.

        `key` is a uint32 tensor of two words; the counters are uint32 of equal length.
        """
        low, wide = 0xFFFFFFFF, dtypes.uint64
        counter = counts1.cast(wide).lshift(32) | counts0.cast(wide)
        seed = key[1].cast(wide).lshift(32) | key[0].cast(wide)
        mixed = counter.alu_threefry(seed)
        first = (mixed & low).cast(dtypes.uint32)
        second = (mixed.rshift(32) & low).cast(dtypes.uint32)
        return first.cat(second)

    def alu_threefry(self, seed: Self) -> Self:
        """One block per element of the uint64 tensor `self`, under the scalar key `seed`.

        >>> counter, seed = Tensor([0, 1], dtype="uint64"), Tensor([5], dtype="uint64")
        >>> counter.alu_threefry(seed).dtype
        dtypes.ulong
        """
        return self.threefry(seed._broadcast_to(self.shape))

    @classmethod
    def _advance(cls, device: str, words: int) -> TensorCore:
        """Moves the device's counter on by `words`; returns it as it was, (1,) uint32."""
        counters, seeds = RandomMixin._device_rng_counters, RandomMixin._device_seeds
        if device not in counters:
            number = len(seeds)
            digest = hashlib.sha256(number.to_bytes(4, "big")).digest()
            word = int.from_bytes(digest, "big") & 0xFFFFFFFF
            seeds[device] = cls(
                [word, cls._seed & 0xFFFFFFFF],
                device=device,
                dtype=dtypes.uint32,
                requires_grad=False,
            )
            # in a capture the counter has to be moved on by what is replayed
            first = 0 if current_capture() is not None else words & 0xFFFFFFFF
            counters[device] = cls([first], device=device, dtype=dtypes.uint32, requires_grad=False)
            cls._state_of_surroundings(seeds[device], counters[device])
            if first:
                return counters[device] - words
        counter = counters[device]
        counter.assign(counter + words)
        return counter - words

    @staticmethod
    def _state_of_surroundings(*tensors: Any) -> None:
        """Tensors that a captured function uses but must not make again each time."""
        from tinygrad.engine.realize import current_capture, not_recorded

        if (capture := current_capture()) is not None:
            with not_recorded():
                tensors[0].realize(*tensors[1:])
            capture.adopt(*tensors)

    @classmethod
    def _random_words(cls, count: int, device: str) -> Self:
        """`count` random uint32 on one device."""
        with graph_lock:  # two threads never draw the same numbers
            before = cls._advance(device, count)
        half = ceildiv(count, 2)
        first = cls.arange(half, device=device, dtype=dtypes.uint32, requires_grad=False) + before
        words = cls._threefry_random_bits(RandomMixin._device_seeds[device], first, first + half)
        return words.shrink(((0, count),))

    @classmethod
    def rand(
        cls,
        *shape,
        device: str | tuple[str, ...] | None = None,
        dtype: DTypeLike | None = None,
        contiguous: bool = True,
        **kwargs,
    ) -> Self:
        """Uniform numbers in [0, 1). Raises ValueError for dtypes that are no floats.

        >>> x = Tensor.rand(1000)
        >>> bool((x >= 0).all().item() and (x < 1).all().item())
        True
        """
        kind = dtypes.default_float if dtype is None else to_dtype(dtype)
        if not dtypes.is_float(kind):
            raise ValueError(f"rand gives floats, got dtype {kind}: use randint")
        sizes = checked_shape(*shape)
        if not all(isinstance(s, int) and s >= 0 for s in sizes):
            raise ValueError(f"rand needs whole sizes of 0 or more, got {sizes}")
        where = canonical_devices(device)
        if not isinstance(where, str):
            raise ValueError(f"rand makes numbers on one device, got {where}: use .shard()")
        if 0 in sizes:
            return cls.zeros(sizes, device=where, dtype=kind, **kwargs)
        if kind in dtypes.fp8s:
            # rounded down to the steps of the mantissa: to the nearest, 1 would be among them
            steps = 1 << dtypes.finfo(kind)[1]
            exact = cls.rand(*sizes, device=where, dtype=dtypes.float32, **kwargs)
            return ((exact * steps).floor() * (1 / steps)).cast(kind)
        grad = kwargs.pop("requires_grad", None)
        count = prod(sizes)
        words = cls._random_words(ceildiv(count * kind.itemsize, 4), where)
        made = _mantissas(words, kind).shrink(((0, count),)).reshape(sizes)
        made = made.contiguous() if contiguous else made
        made.requires_grad = grad
        return made

    def rand_like(self, **kwargs) -> Self:
        """Uniform numbers with the shape, dtype and device of `self`.

        >>> Tensor([[1.0, 2.0]]).rand_like().shape
        (1, 2)
        """
        return self._random_like(type(self).rand, **kwargs)

    def _random_like(self, make, **kwargs) -> Self:
        kind, where = kwargs.pop("dtype", None) or self.dtype, kwargs.pop("device", self.device)
        if isinstance(where, str):
            return make(*self.shape, device=where, dtype=kind, **kwargs)
        if where != self.device:
            raise RuntimeError(f"the copies are on {self.device}, got device={where}")
        if self.uop.axis is None:
            return make(*self.shape, device=where[0], dtype=kind, **kwargs).shard(where)
        kwargs.pop("contiguous", None)
        return self._per_device(make, dtype=kind, **kwargs)

    @classmethod
    def randn(
        cls, *shape, dtype: DTypeLike | None = None, requires_grad: bool | None = None, **kwargs
    ) -> Self:
        """Normal numbers with mean 0 and deviation 1 (Box and Muller, 1958).

        >>> Tensor.randn(2, 3).shape
        (2, 3)
        """
        kind = dtypes.default_float if dtype is None else to_dtype(dtype)
        pair = cls.rand(2, *argfix(*shape), **{**kwargs, "dtype": dtypes.float32})
        angle = pair[0].mul(2 * math.pi)
        # 1 - u is never 0, so the logarithm is finite
        radius = (1 - pair[1]).log().mul(-2).sqrt()
        made = angle.cos().mul(radius).cast(kind)
        made.requires_grad = requires_grad
        return made

    def randn_like(
        self, dtype: DTypeLike | None = None, requires_grad: bool | None = None, **kwargs
    ) -> Self:
        """Normal numbers with the shape, dtype and device of `self`.

        >>> Tensor([[1.0, 2.0]]).randn_like().shape
        (1, 2)
        """
        made = self._random_like(type(self).randn, dtype=dtype, **kwargs)
        made.requires_grad = requires_grad
        return made

    @classmethod
    def randint(cls, *shape, low=0, high=10, dtype=dtypes.int, **kwargs) -> Self:
        """Whole numbers in [low, high). Raises TypeError for float bounds or dtypes.

        >>> x = Tensor.randint(1000, low=3, high=5)
        >>> sorted(set(x.tolist()))
        [3, 4]
        """
        if not (isinstance(low, int) and isinstance(high, int)):
            raise TypeError(f"randint needs whole bounds, got low={low!r} high={high!r}")
        kind = to_dtype(dtype)
        if not dtypes.is_int(kind):
            raise TypeError(f"randint needs an integer dtype, got {kind}")
        return cls.uniform(*shape, low=low, high=high, dtype=kind, **kwargs)

    @classmethod
    def normal(cls, *shape, mean=0.0, std=1.0, requires_grad: bool | None = None, **kwargs) -> Self:
        """Normal numbers with the given mean and deviation.

        >>> Tensor.normal(2, 3, mean=5.0, std=0.5).shape
        (2, 3)
        """
        made = cls.randn(*shape, **kwargs).mul(std).add(mean)
        made.requires_grad = requires_grad
        return made

    @classmethod
    def uniform(
        cls,
        *shape,
        low=0.0,
        high=1.0,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs,
    ) -> Self:
        """Uniform numbers in [low, high); of an integer dtype whole ones.

        >>> Tensor.uniform(2, 3, low=-1.0, high=1.0).shape
        (2, 3)
        """
        kind = dtypes.default_float if dtype is None else to_dtype(dtype)
        spread = cls.rand(*shape, **kwargs).mul(high - low)
        if dtypes.is_int(kind):
            # rounding down before the shift keeps every value equally likely below zero too
            made = spread.floor().cast(kind) + low
        else:
            made = spread.cast(kind) + low
        made.requires_grad = requires_grad
        return made

    @classmethod
    def scaled_uniform(cls, *shape, **kwargs) -> Self:
        """Uniform numbers in [-1, 1) over the root of the number of elements.

        >>> Tensor.scaled_uniform(2, 3).shape
        (2, 3)
        """
        scale = prod(argfix(*shape)) ** -0.5 if prod(argfix(*shape)) else 1.0
        return cls.uniform(*shape, low=-1.0, high=1.0, **kwargs).mul(scale)

    @classmethod
    def glorot_uniform(cls, *shape, **kwargs) -> Self:
        """Glorot and Bengio's initialization (AISTATS 2010).

        >>> Tensor.glorot_uniform(2, 3).shape
        (2, 3)
        """
        sizes = argfix(*shape)
        bound = math.sqrt(6 / (sizes[0] + prod(sizes[1:]))) if prod(sizes) else 1.0
        return cls.uniform(*sizes, low=-1.0, high=1.0, **kwargs).mul(bound)

    @classmethod
    def kaiming_uniform(cls, *shape, a: float = 0.01, **kwargs) -> Self:
        """He's uniform initialization (arXiv:1502.01852) for leaky slope `a`.

        >>> Tensor.kaiming_uniform(2, 3).shape
        (2, 3)
        """
        bound = math.sqrt(3.0) * _he_deviation(argfix(*shape), a)
        return cls.uniform(*shape, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_normal(cls, *shape, a: float = 0.01, **kwargs) -> Self:
        """He's normal initialization (arXiv:1502.01852) for leaky slope `a`.

        >>> Tensor.kaiming_normal(2, 3).shape
        (2, 3)
        """
        return cls.normal(*shape, mean=0.0, std=_he_deviation(argfix(*shape), a), **kwargs)

    @classmethod
    def randperm(cls, n: int, device=None, dtype=dtypes.int, **kwargs) -> Self:
        """A random order of 0 .. n-1.

        >>> sorted(Tensor.randperm(5).tolist())
        [0, 1, 2, 3, 4]
        """
        return cls.rand(n, device=device, **kwargs).argsort().cast(dtype)

    def multinomial(self: Self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Indices drawn with probabilities in proportion to `self`, a vector or rows of them.

        Without replacement only one sample can be drawn. Raises AssertionError otherwise.

        >>> Tensor([0.0, 1.0]).multinomial(3, replacement=True).tolist()
        [1, 1, 1]
        """
        if not 1 <= self.ndim <= 2 or num_samples < 1:
            raise AssertionError(
                f"multinomial needs 1 or 2 axes and samples, got {self.shape} {num_samples}"
            )
        if not replacement and num_samples != 1:
            raise AssertionError(f"without replacement one sample can be drawn, got {num_samples=}")
        weights = self.unsqueeze(0) if self.ndim == 1 else self
        edges = weights.cumsum(1)
        edges = (edges.float() / edges[:, -1].unsqueeze(1)).unsqueeze(0)
        draws = self.rand(num_samples, edges.shape[1], 1, device=self.device)
        chosen = (draws >= edges).sum(2).permute((1, 0))
        return (chosen.squeeze(0) if self.ndim == 1 else chosen).cast(dtypes.int32)

    def dropout(self, p=0.5) -> Self:
        """While training, zeroes elements with probability `p` and scales the others by 1 / (1 - p).

        >>> Tensor([1.0, 2.0]).dropout(0.5).tolist()  # outside training: unchanged
        [1.0, 2.0]
        """
        if not 0 <= p <= 1:
            raise ValueError(f"p is a probability, got {p}")
        if not type(self).training or p == 0:
            return self
        if p == 1:
            return self.const_like(0)
        kept = (
            self.rand_like(requires_grad=False, dtype=dtypes.default_float, contiguous=False) >= p
        )
        return kept.contiguous().where(self, 0) / (1.0 - p)


def _mantissas(words, dtype):
    """Random words as floats in [0, 1): random mantissas under the exponent of 1, minus 1."""
    _, bits = dtypes.finfo(dtype)
    width = dtype.itemsize * 8
    unsigned = {16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[width]
    raw = words.bitcast(unsigned)
    one = words.ones(raw.shape, device=words.device, dtype=dtype).bitcast(unsigned)
    return raw.rshift(width - bits).bitwise_or(one).bitcast(dtype) - 1


def _he_deviation(shape, slope: float) -> float:
    fan_in = prod(shape[1:])
    return math.sqrt(2.0 / (1 + slope**2)) / math.sqrt(fan_in) if fan_in else 1.0
