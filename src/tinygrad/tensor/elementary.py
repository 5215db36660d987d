"""Elementary functions and activations of tensors.

Exponentials, logarithms, circular and hyperbolic functions and what networks make of them. Integers
are computed in the default float, narrow floats in float32 and rounded once. Every function is within
a few units in the last place of the true value wherever that is no subnormal number: near a zero the
series of `series` take over from formulas that would cancel. Where two formulas meet, the one that is
not used is given a harmless argument, so that its slope cannot make the gradient NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from tinygrad.dtype import dtypes
from tinygrad.mixin.math import MathMixin
from tinygrad.tensor import series
from tinygrad.tensor.core import TensorCore
from tinygrad.uop.ops import Ops

_LN2 = math.log(2)


class ElementaryMixin(TensorCore):
    """Functions of a real argument, and activations."""

    __slots__ = ()

    def sqrt(self) -> Self:
        """Square root as a float; NaN below zero.

        >>> Tensor([4.0, 9.0]).sqrt().tolist()
        [2.0, 3.0]
        """
        return self._as_float().alu(Ops.SQRT)

    def _through_float32(self, function: Callable[[Self], Self]) -> Self:
        """`function` of the values as floats; narrow floats are widened for its steps."""
        x = self._as_float()
        if x.dtype.itemsize < 4:
            return function(x.cast(dtypes.float32)).cast(x.dtype)
        return function(x)

    def sin(self) -> Self:
        """Sine of radians.

        >>> Tensor(0.0).sin().item()
        0.0
        """
        return self._as_float().alu(Ops.SIN)

    def cos(self) -> Self:
        """Cosine of radians.

        >>> Tensor(0.0).cos().item()
        1.0
        """
        return self._through_float32(lambda x: (math.pi / 2 - x).sin())

    def tan(self) -> Self:
        """Tangent of radians.

        >>> Tensor(0.0).tan().item()
        0.0
        """
        return self._through_float32(lambda x: x.sin() / x.cos())

    def exp2(self) -> Self:
        """`2 ** self`.

        >>> Tensor([3.0, -1.0]).exp2().tolist()
        [8.0, 0.5]
        """
        return self._as_float().alu(Ops.EXP2)

    def exp(self) -> Self:
        """`e ** self`; half precision is computed in float32.

        >>> Tensor(0.0).exp().item()
        1.0
        """
        return self._through_float32(lambda x: (x * (1 / _LN2)).exp2())

    def log2(self) -> Self:
        """Binary logarithm; -inf at 0, NaN below.

        >>> Tensor([8.0, 0.5]).log2().tolist()
        [3.0, -1.0]
        """
        return self._as_float().alu(Ops.LOG2)

    def log(self) -> Self:
        """Natural logarithm; -inf at 0, NaN below.

        >>> Tensor(1.0).log().item()
        0.0
        """
        return self._through_float32(lambda x: x.log2() * _LN2)

    def sinh(self) -> Self:
        """Hyperbolic sine.

        >>> Tensor(0.0).sinh().item()
        0.0
        """

        def of(x):
            is_small = x.abs() < 1
            # two factors, so that nothing overflows before the result does
            root = (x * 0.5).exp()
            inverse = root.reciprocal()
            large = (root * 0.5) * root - (inverse * 0.5) * inverse
            return is_small.where(series.odd("sinh", is_small.where(x, 0)), large)

        return self._through_float32(of)

    def cosh(self) -> Self:
        """Hyperbolic cosine.

        >>> Tensor(0.0).cosh().item()
        1.0
        """

        def of(x):
            root = (x * 0.5).exp()
            inverse = root.reciprocal()
            return (root * 0.5) * root + (inverse * 0.5) * inverse

        return self._through_float32(of)

    def tanh(self) -> Self:
        """Hyperbolic tangent.

        >>> Tensor(0.0).tanh().item()
        0.0
        """

        def of(x):
            # beyond 20 it is 1 in every dtype
            minus_one = ((x > 20).where(20, x) * 2)._expm1()
            return minus_one / (minus_one + 2)

        return self._through_float32(of)

    def _expm1(self) -> Self:
        """`exp(self) - 1` of a float tensor, also near zero."""
        is_small = self.abs() < 0.5
        return is_small.where(series.expm1(is_small.where(self, 0)), self.exp() - 1)

    def _log1p(self) -> Self:
        """`log(1 + self)` of a float tensor, also near zero."""
        is_small = self.abs() < 0.5
        part = is_small.where(self, 0)
        # log(1 + u) is 2 * atanh(u / (u + 2)), with an argument below 1/3
        return is_small.where(series.odd("atanh", part / (part + 2)) * 2, (self + 1).log())

    def asin(self) -> Self:
        """Inverse sine; NaN outside [-1, 1].

        >>> round(Tensor(1.0).asin().item(), 4)
        1.5708
        """

        def of(x):
            is_small, near, far = x._asin_parts()
            return is_small.where(near, (math.pi / 2 - 2 * far) * x.sign())

        return self._through_float32(of)

    def _asin_parts(self) -> tuple[Self, Self, Self]:
        """`is_small`, the inverse sine where it is, and that of `sqrt((1 - |self|) / 2)` elsewhere."""
        size = self.abs()
        is_small = size < 0.5
        rest = is_small.where(0.25, (1 - size) * 0.5).sqrt()
        value = series.odd("asin", is_small.where(self, rest))
        return is_small, value, value

    def acos(self) -> Self:
        """Inverse cosine.

        >>> round(Tensor(0.0).acos().item(), 4)
        1.5708
        """

        def of(x):
            is_small, near, far = x._asin_parts()
            return is_small.where(math.pi / 2 - near, (x < 0).where(math.pi - 2 * far, 2 * far))

        return self._through_float32(of)

    def atan(self) -> Self:
        """Inverse tangent.

        >>> round(Tensor(1.0).atan().item(), 4)
        0.7854
        """

        def of(x):
            is_large = x.abs() > 1
            y = is_large.where(is_large.where(x, 1).reciprocal(), x)
            # from tan(pi/8) on, as the distance from pi/4
            is_middle = y.abs() > math.sqrt(2) - 1
            side = y.sign().detach()
            z = is_middle.where((y - side) / (y.abs() + 1), y)
            angle = series.odd("atan", z) + is_middle.where(side * (math.pi / 4), 0)
            return is_large.where(x.sign().detach() * (math.pi / 2) - angle, angle)

        return self._through_float32(of)

    def asinh(self) -> Self:
        """Inverse hyperbolic sine.

        >>> round(Tensor(1.0).asinh().item(), 4)
        0.8814
        """

        def of(x):
            size = x.abs()
            is_small = size < 0.3
            part = is_small.where(x, 0)
            near = series.odd("atanh", part / (part.square() + 1).sqrt())
            is_large = size > 1e9  # the square would overflow
            moderate = is_large.where(0, size)
            sum_ = is_large.where(size, moderate + (moderate.square() + 1).sqrt())
            far = (sum_.log() + is_large.where(size.const_like(_LN2), 0)) * x.sign().detach()
            return is_small.where(near, far)

        return self._through_float32(of)

    def acosh(self) -> Self:
        """Inverse hyperbolic cosine; NaN below 1.

        >>> round(Tensor(2.0).acosh().item(), 4)
        1.317
        """

        def of(x):
            is_large = x > 1e9  # the square would overflow
            above = is_large.where(1, x - 1)
            moderate = (above + (above * (above + 2)).sqrt())._log1p()
            value = is_large.where(is_large.where(x, 1).log() + _LN2, moderate)
            # a sum, because below -1 PyTorch has the slope of the formula
            return value + (x < 1).where(value.const_like(math.nan), 0)

        return self._through_float32(of)

    def atanh(self) -> Self:
        """Inverse hyperbolic tangent.

        >>> round(Tensor(0.5).atanh().item(), 4)
        0.5493
        """

        def of(x):
            is_small = x.abs() < 1 / 3
            # of the quotient the slope at 1 would be infinity times zero
            far = ((x + 1).log() - (1 - x).log()) * 0.5
            return is_small.where(series.odd("atanh", is_small.where(x, 0)), far)

        return self._through_float32(of)

    def erf(self) -> Self:
        """Error function.

        >>> round(Tensor(1.0).erf().item(), 4)
        0.8427
        """

        def of(x):
            is_small = x.abs() < 1
            near = series.odd("erf", is_small.where(x, 0))
            size = x.abs()
            size = (size > 10).where(10, size)
            far = (1 - series.scaled_erfc(size) * (-size.square()).exp()) * x.sign().detach()
            return is_small.where(near, far)

        return self._through_float32(of)

    def logaddexp(self, other) -> Self:
        """`log(exp(self) + exp(other))` without overflow.

        >>> round(Tensor(0.0).logaddexp(Tensor(0.0)).item(), 4)
        0.6931
        """
        left, right = self._as_float()._broadcasted(other)
        kind = left.dtype
        if kind.itemsize < 4:
            left, right = left.cast(dtypes.float32), right.cast(dtypes.float32)
        # where both are the same infinity, so is the result
        apart = (left == right).where(0.0, left - right).abs()
        return (left.maximum(right) + (-apart).exp()._log1p()).cast(kind)

    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-self))`.

        >>> Tensor(0.0).sigmoid().item()
        0.5
        """
        return self._through_float32(lambda x: ((x * (-1 / _LN2)).exp2() + 1).reciprocal())

    # ---- activations

    def logsigmoid(self) -> Self:
        """`log(sigmoid(self))` without overflow.

        >>> round(Tensor(0.0).logsigmoid().item(), 4)
        -0.6931
        """
        return -((-self._as_float()).softplus())

    def softplus(self, beta=1.0) -> Self:
        """`log(1 + exp(beta * self)) / beta`, a smooth relu.

        >>> round(Tensor(0.0).softplus().item(), 4)
        0.6931
        """
        return self._through_float32(lambda x: (x * beta).logaddexp(0.0) * (1 / beta))

    def softsign(self) -> Self:
        """`self / (1 + |self|)`.

        >>> Tensor([1.0, -3.0]).softsign().tolist()
        [0.5, -0.75]
        """
        return self / (1 + self.abs())

    def mish(self) -> Self:
        """`self * tanh(softplus(self))` (Misra, arXiv:1908.08681).

        >>> Tensor(0.0).mish().item()
        0.0
        """

        def of(x):
            # tanh(log(1 + e)) is n / (n + 2) for n = e * (e + 2); beyond 20 it is 1 in every dtype
            is_large = x > 20
            power = is_large.where(0, x).exp()
            n = power * (power + 2)
            return is_large.where(x, x * (n / (n + 2)))

        return self._through_float32(of)

    def _elu(self, alpha: float) -> Self:
        """`self` above zero, `alpha * (exp(self) - 1)` else."""
        is_positive = self > 0
        return is_positive.where(self, is_positive.where(0, self)._expm1() * alpha)

    def elu(self, alpha=1.0) -> Self:
        """`self` above zero, `alpha * (exp(self) - 1)` below (Clevert et al., arXiv:1511.07289).

        >>> Tensor([-1000.0, 2.0]).elu().tolist()
        [-1.0, 2.0]
        """
        return self._through_float32(lambda x: x._elu(alpha))

    def celu(self, alpha=1.0) -> Self:
        """The elu that is smooth for every alpha (Barron, arXiv:1704.07483).

        >>> Tensor([-1000.0, 2.0]).celu().tolist()
        [-1.0, 2.0]
        """
        return self._through_float32(
            lambda x: (
                (x / alpha)._elu(1.0) * alpha
                if alpha > 0
                else x.maximum(0) + ((x / alpha)._expm1() * alpha).minimum(0)
            )
        )

    def selu(self, alpha=1.67326, gamma=1.0507) -> Self:
        """The self-normalizing elu (Klambauer et al., arXiv:1706.02515).

        >>> Tensor(0.0).selu().item()
        0.0
        """
        return self._through_float32(lambda x: x._elu(alpha) * gamma)


def _rounded_once(name: str) -> Callable[[ElementaryMixin], ElementaryMixin]:
    """The method of `MathMixin`, computed in float32 for narrow floats."""
    general = getattr(MathMixin, name)

    def method(self):
        return self._through_float32(general)

    method.__name__, method.__doc__ = name, general.__doc__
    return method


for _name in ("rsqrt", "silu", "swish", "gelu", "quick_gelu", "hardswish"):
    setattr(ElementaryMixin, _name, _rounded_once(_name))
