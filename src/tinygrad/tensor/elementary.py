"""Elementary functions and activations of tensors.

Exponentials, logarithms, circular and hyperbolic functions and what networks make of them. Integers
are computed in the default float; shapes and dtypes as in `elementwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

from tinygrad.dtype import dtypes
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
        return self.sin() / self.cos()

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
        return self.log2() * _LN2

    def sinh(self) -> Self:
        """Hyperbolic sine.

        >>> Tensor(0.0).sinh().item()
        0.0
        """
        return (self.exp() - self.neg().exp()) / 2

    def cosh(self) -> Self:
        """Hyperbolic cosine.

        >>> Tensor(0.0).cosh().item()
        1.0
        """
        return (self.exp() + self.neg().exp()) / 2

    def tanh(self) -> Self:
        """Hyperbolic tangent.

        >>> Tensor(0.0).tanh().item()
        0.0
        """
        return 2.0 * (2.0 * self).sigmoid() - 1.0

    def asin(self) -> Self:
        """Inverse sine, by Abramowitz and Stegun 4.4.46 (error below 2e-8).

        >>> round(Tensor(1.0).asin().item(), 4)
        1.5708
        """
        coefficients = (
            -0.0012624911, 0.0066700901, -0.0170881256, 0.0308918810,
            -0.0501743046, 0.0889789874, -0.2145988016, 1.5707963050,
        )  # fmt: skip
        size = self.abs()
        near = math.pi / 2 - (1.0 - size).sqrt() * _horner(size, coefficients)
        return self.sign() * near

    def acos(self) -> Self:
        """Inverse cosine.

        >>> round(Tensor(0.0).acos().item(), 4)
        1.5708
        """
        return math.pi / 2 - self.asin()

    def atan(self) -> Self:
        """Inverse tangent.

        >>> round(Tensor(1.0).atan().item(), 4)
        0.7854
        """
        return (self / (1 + self * self).sqrt()).asin()

    def asinh(self) -> Self:
        """Inverse hyperbolic sine.

        >>> round(Tensor(1.0).asinh().item(), 4)
        0.8814
        """
        return (self + (self.square() + 1).sqrt()).log()

    def acosh(self) -> Self:
        """Inverse hyperbolic cosine; NaN below 1.

        >>> round(Tensor(2.0).acosh().item(), 4)
        1.317
        """
        return (self + (self.square() - 1).sqrt()).log()

    def atanh(self) -> Self:
        """Inverse hyperbolic tangent.

        >>> round(Tensor(0.5).atanh().item(), 4)
        0.5493
        """
        return ((1 + self) / (1 - self)).log() / 2

    def erf(self) -> Self:
        """Error function, by Abramowitz and Stegun 7.1.26 (error below 1.5e-7).

        >>> round(Tensor(1.0).erf().item(), 4)
        0.8427
        """
        size = self.abs()
        t = 1.0 / (1.0 + 0.3275911 * size)
        series = _horner(t, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
        return self.sign() * (1.0 - t * series * (-self.square()).exp())

    def logaddexp(self, other) -> Self:
        """`log(exp(self) + exp(other))` without overflow.

        >>> round(Tensor(0.0).logaddexp(Tensor(0.0)).item(), 4)
        0.6931
        """
        left, right = self._as_float()._broadcasted(other)
        top = left.maximum(right).detach()
        shift = top.isinf().where(0.0, top)
        return ((left - shift).exp() + (right - shift).exp()).log() + shift

    def sigmoid(self) -> Self:
        """`1 / (1 + exp(-self))`.

        >>> Tensor(0.0).sigmoid().item()
        0.5
        """
        return (1 + (self._as_float() * (-1 / _LN2)).exp2()).reciprocal()

    # ---- activations

    def logsigmoid(self) -> Self:
        """`log(sigmoid(self))` without overflow.

        >>> round(Tensor(0.0).logsigmoid().item(), 4)
        -0.6931
        """
        return -((-self).softplus())

    def softplus(self, beta=1.0) -> Self:
        """`log(1 + exp(beta * self)) / beta`, a smooth relu.

        >>> round(Tensor(0.0).softplus().item(), 4)
        0.6931
        """
        scaled = self * beta
        return scaled.logaddexp(0.0) * (1 / beta)

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
        return self * self.softplus().tanh()

    def elu(self, alpha=1.0) -> Self:
        """`self` above zero, `alpha * (exp(self) - 1)` below (Clevert et al., arXiv:1511.07289).

        >>> Tensor([-1000.0, 2.0]).elu().tolist()
        [-1.0, 2.0]
        """
        return self.relu() - alpha * (1 - self.exp()).relu()

    def celu(self, alpha=1.0) -> Self:
        """The elu that is smooth for every alpha (Barron, arXiv:1704.07483).

        >>> Tensor([-1000.0, 2.0]).celu().tolist()
        [-1.0, 2.0]
        """
        return self.maximum(0) + (alpha * ((self / alpha).exp() - 1)).minimum(0)

    def selu(self, alpha=1.67326, gamma=1.0507) -> Self:
        """The self-normalizing elu (Klambauer et al., arXiv:1706.02515).

        >>> Tensor(0.0).selu().item()
        0.0
        """
        return gamma * (self >= 0).detach().where(self, alpha * (self.exp() - 1))


def _horner(x, coefficients):
    """The polynomial with `coefficients`, highest power first."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total
