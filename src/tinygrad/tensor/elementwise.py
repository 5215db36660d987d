"""Elementwise mathematics on tensors.

What is exact for every operand kind comes from `mixin.math`; here is what needs to know that the
operands are tensors: promotion to float, Python's rounding of quotients, NaN and infinity, and the
functions that NumPy and PyTorch users expect. Shapes broadcast, dtypes promote.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self

from tinygrad.dtype import (
    ConstType,
    dtypes,
    least_upper_dtype,
    least_upper_float,
)
from tinygrad.tensor.core import TensorCore, broadcast_shapes
from tinygrad.uop.ops import Ops, sint

_LN2 = math.log(2)


class ElementwiseMixin(TensorCore):
    """Arithmetic, comparison, choice, rounding, elementary functions, activations."""

    __slots__ = ()

    def _as_float(self) -> Self:
        """`self`, cast to a float dtype if it has none."""
        return self if dtypes.is_float(self.dtype) else self.cast(least_upper_float(self.dtype))

    def _is_unsigned(self) -> bool:
        return dtypes.is_unsigned(self.dtype) or self.dtype is dtypes.bool

    # ---- arithmetic

    def neg(self) -> Self:
        """`-self`; of bools the complement.

        >>> Tensor([1, -2]).neg().tolist()
        [-1, 2]
        """
        return self.logical_not() if self.dtype is dtypes.bool else self * -1

    def sub(self, x, reverse=False) -> Self:
        """`self - x`.

        >>> Tensor([5, 7]).sub(2).tolist()
        [3, 5]
        >>> Tensor([5, 7]).sub(2, reverse=True).tolist()
        [-3, -5]
        """
        left, right = self._broadcasted(x, reverse)
        if left.dtype is dtypes.bool:
            left, right = left.cast(dtypes.default_int), right.cast(dtypes.default_int)
        return left + -right

    def reciprocal(self) -> Self:
        """`1 / self` as a float.

        >>> Tensor([2.0, -4.0]).reciprocal().tolist()
        [0.5, -0.25]
        """
        return self._as_float().alu(Ops.RECIPROCAL)

    def div(self, x, reverse=False, rounding_mode: Literal["trunc", "floor"] | None = None) -> Self:
        """`self / x` as a float, or the quotient rounded ("trunc", "floor") in the common dtype.
        Raises RuntimeError for another rounding mode.

        >>> Tensor([-7, 7]).div(2).tolist()
        [-3.5, 3.5]
        >>> Tensor([-7, 7]).div(2, rounding_mode="floor").tolist()
        [-4, 3]
        """
        top, bottom = self._broadcasted(x, reverse)
        if rounding_mode is None:
            return top._as_float() * bottom.reciprocal()
        if rounding_mode not in ("trunc", "floor"):
            raise RuntimeError(f"rounding_mode is None, 'trunc' or 'floor', got {rounding_mode!r}")
        if dtypes.is_float(top.dtype):
            ratio = top * bottom.reciprocal()
            return ratio.trunc() if rounding_mode == "trunc" else ratio.floor()
        if top.dtype is dtypes.bool:
            top, bottom = top.cast(dtypes.uint8), bottom.cast(dtypes.uint8)
        whole = top.alu(Ops.IDIV, bottom)
        if rounding_mode == "trunc" or top._is_unsigned():
            return whole
        # C rounds toward zero: one less where the signs differ and something is left over
        left_over = (top.alu(Ops.MOD, bottom) != 0) & ((top < 0) != (bottom < 0))
        return whole - left_over.cast(whole.dtype)

    def mod(self, x, reverse=False) -> Self:
        """Remainder with the sign of the divisor, as Python's `%`.

        >>> Tensor([-7, 7]).mod(3).tolist()
        [2, 1]
        """
        top, bottom = self._broadcasted(x, reverse)
        if dtypes.is_float(top.dtype):
            return top - top.div(bottom, rounding_mode="floor") * bottom
        if top.dtype is dtypes.bool:
            top, bottom = top.cast(dtypes.uint8), bottom.cast(dtypes.uint8)
        rest = top.alu(Ops.MOD, bottom)
        if top._is_unsigned():
            return rest
        wrong_side = (rest != 0) & ((rest < 0) != (bottom < 0))
        return rest + wrong_side.where(bottom, 0)

    def __floordiv__(self, x) -> Self:
        return self.div(x, rounding_mode="floor")

    def __rfloordiv__(self, x) -> Self:
        return self.div(x, reverse=True, rounding_mode="floor")

    def pow(self, x, reverse=False) -> Self:
        """`self ** x`. Integers stay integers; a negative integer exponent raises RuntimeError.

        >>> Tensor([1, 2, 3]).pow(2).tolist()
        [1, 4, 9]
        """
        if not reverse and isinstance(x, (int, float)) and not isinstance(x, bool):
            return self._power_of_number(x)
        base, exponent = self._broadcasted(x, reverse)
        if dtypes.is_float(base.dtype):
            return base.alu(Ops.POW, exponent)
        wide = dtypes.float64 if base.dtype.itemsize > 3 else dtypes.float32
        return base.cast(wide).alu(Ops.POW, exponent.cast(wide)).round().cast(base.dtype)

    def _power_of_number(self, x: float) -> Self:
        """`self ** x` for a Python number: products for small whole exponents, else POW."""
        if not dtypes.is_float(self.dtype):
            if isinstance(x, float):
                return self.cast(least_upper_dtype(self.dtype, dtypes.default_float)).pow(x)
            if x < 0:
                raise RuntimeError(f"an integer tensor has no power {x}: cast it to a float dtype")
        if x == 0:
            # inf ** 0 and nan ** 0 are 1, and the slope is 0
            return self._dependent(self.ones_like(requires_grad=False))
        if float(x).is_integer() and abs(x) <= 64:
            power = self._whole_power(abs(int(x)))
            return power if x > 0 else power.reciprocal()
        if x == 0.5:
            return self.sqrt()
        if x == -0.5:
            return self.reciprocal().sqrt()
        base, exponent = self._broadcasted(x)
        return base.alu(Ops.POW, exponent)

    def _dependent(self, value: Self) -> Self:
        """`value`, with a gradient of 0 for `self`."""
        return self._constant(False, dtypes.bool).where(self, value)

    def _whole_power(self, exponent: int) -> Self:
        """Product by repeated squaring; `exponent` is at least 1."""
        result: Any = None
        square = self
        while True:
            if exponent & 1:
                result = square if result is None else result * square
            exponent >>= 1
            if not exponent:
                return result
            square = square * square

    def __pow__(self, x) -> Self:
        return self.pow(x)

    def __rpow__(self, x) -> Self:
        return self.pow(x, reverse=True)

    def __ipow__(self, x) -> Self:
        return self.assign(self.pow(x))

    # ---- in-place operators

    def __iadd__(self, x) -> Self:
        return self.assign(self + x)

    def __isub__(self, x) -> Self:
        return self.assign(self - x)

    def __imul__(self, x) -> Self:
        return self.assign(self * x)

    def __itruediv__(self, x) -> Self:
        return self.assign(self / x)

    def __ifloordiv__(self, x) -> Self:
        return self.assign(self // x)

    def __imod__(self, x) -> Self:
        return self.assign(self % x)

    def __iand__(self, x) -> Self:
        return self.assign(self & x)

    def __ior__(self, x) -> Self:
        return self.assign(self | x)

    def __ixor__(self, x) -> Self:
        return self.assign(self ^ x)

    def __ilshift__(self, x) -> Self:
        return self.assign(self << x)

    def __irshift__(self, x) -> Self:
        return self.assign(self >> x)

    # ---- bits

    def _shift_amount(self, x) -> int:
        if not isinstance(x, int) or x < 0:
            raise RuntimeError(f"shifts take a whole number of bits of 0 or more, got {x!r}")
        if not dtypes.is_int(self.dtype):
            raise RuntimeError(f"only integers are shifted, got {self.dtype}")
        return x

    def lshift(self, x, reverse=False) -> Self:
        """`self << x`: a product with `2 ** x`, wrapping as the dtype does.

        >>> Tensor([1, 3]).lshift(2).tolist()
        [4, 12]
        """
        if isinstance(x, TensorCore) or reverse:
            return self._binop(Ops.SHL, x, reverse)
        return self * (1 << self._shift_amount(x))

    def rshift(self, x, reverse=False) -> Self:
        """`self >> x`: rounds down, as a floor division by `2 ** x`.

        >>> Tensor([8, 12]).rshift(2).tolist()
        [2, 3]
        """
        if isinstance(x, TensorCore) or reverse:
            return self._binop(Ops.SHR, x, reverse)
        amount = self._shift_amount(x)
        if self._is_unsigned():
            return self.idiv(1 << amount)
        return self // (1 << amount)

    def bitwise_not(self) -> Self:
        """`~self`; of bools the complement. Raises RuntimeError for floats.

        >>> Tensor([0, 5]).bitwise_not().tolist()
        [-1, -6]
        """
        if self.dtype is dtypes.bool:
            return self.logical_not()
        self._require_bits("bitwise_not")
        return self ^ -1 if not self._is_unsigned() else self ^ dtypes.max(self.dtype)

    # ---- comparison and choice

    def ne(self, x) -> Self:
        """`self != x` as bool.

        >>> Tensor([1, 2]).ne(2).tolist()
        [True, False]
        """
        return self._binop(Ops.CMPNE, x, False)

    def logical_not(self) -> Self:
        """True where `self` is zero.

        >>> Tensor([0, 2]).logical_not().tolist()
        [True, False]
        """
        return self.cast(dtypes.bool)._binop(Ops.CMPNE, True, False)

    def where(self: Self, x, y) -> Self:
        """`x` where `self` is true, else `y`; all three broadcast, `x` and `y` promote.

        >>> Tensor([True, False]).where(1, Tensor([5, 6])).tolist()
        [1, 6]
        """
        if isinstance(x, TensorCore):
            x, y = x._broadcasted(y)
        elif isinstance(y, TensorCore):
            y, x = y._broadcasted(x)
        else:
            x, y = self._two_numbers(x, y)
        shape = broadcast_shapes(self.shape, x.shape)
        condition = self.cast(dtypes.bool)._broadcast_to(shape)
        return condition.alu(Ops.WHERE, x._broadcast_to(shape), y._broadcast_to(shape))

    def _two_numbers(self, x: ConstType | sint, y: ConstType | sint) -> tuple[Self, Self]:
        """Two numbers as scalar tensors of their common dtype."""
        make = type(self)
        one, two = (
            make.from_uop(v, device=self.device)
            if hasattr(v, "op")
            else make(v, device=self.device)
            for v in (x, y)
        )
        common = least_upper_dtype(one.dtype, two.dtype)
        return one.cast(common), two.cast(common)

    def masked_fill(self: Self, mask: Self, value: Self | ConstType) -> Self:
        """`value` where `mask` is true, else `self`.

        >>> Tensor([1, 2, 3]).masked_fill(Tensor([True, False, True]), 0).tolist()
        [0, 2, 0]
        """
        return mask.where(value, self)

    def maximum(self, x) -> Self:
        """The larger of `self` and `x`; equal values share the gradient.

        >>> Tensor([1, 5]).maximum(Tensor([3, 2])).tolist()
        [3, 5]
        """
        return self._binop(Ops.MAX, x, False)

    def minimum(self, x) -> Self:
        """The smaller of `self` and `x`.

        >>> Tensor([1, 5]).minimum(Tensor([3, 2])).tolist()
        [1, 2]
        """
        left, right = self._broadcasted(x)
        return left._inverse().maximum(right._inverse())._inverse()

    def _inverse(self) -> Self:
        """Reverses the order of values, exactly, within the dtype."""
        return -self if dtypes.is_float(self.dtype) else self.bitwise_not()

    def isclose(
        self, other: Self, rtol: float = 1e-05, atol: float = 1e-08, equal_nan=False
    ) -> Self:
        """Where `|self - other| <= atol + rtol * |other|`; equal infinities are close.

        >>> Tensor([1.0, 2.0]).isclose(Tensor([1.0, 2.1])).tolist()
        [True, False]
        """
        near = (self - other).abs() <= atol + rtol * other.abs()
        close = (self.isfinite() & other.isfinite() & near) | (self == other)
        return close | (self.isnan() & other.isnan()) if equal_nan else close

    def allclose(
        self, other: Self, rtol: float = 1e-05, atol: float = 1e-08, equal_nan=False
    ) -> bool:
        """Whether `isclose` holds for every element, as a Python bool (runs the kernels).

        >>> Tensor([1.0]).allclose(Tensor([1.0 + 1e-7]))
        True
        """
        return bool(self.isclose(other, rtol, atol, equal_nan).all().item())

    # ---- rounding and sign

    def trunc(self) -> Self:
        """Rounded toward zero; integers unchanged.

        >>> Tensor([-1.5, 1.5]).trunc().tolist()
        [-1.0, 1.0]
        """
        return self.alu(Ops.TRUNC) if dtypes.is_float(self.dtype) else self

    def round(self: Self) -> Self:
        """Rounded to the nearest whole number, halves to the even one.

        >>> Tensor([0.5, 1.5, -2.5]).round().tolist()
        [0.0, 2.0, -2.0]
        """
        if not dtypes.is_float(self.dtype):
            return self
        whole = self.trunc()
        distance = (self - whole).abs()
        is_odd = (whole * 0.5).trunc() * 2 != whole
        away = (distance > 0.5) | ((distance == 0.5) & is_odd)
        return away.where(whole + self.sign(), whole)

    def sign(self) -> Self:
        """-1, 0 or 1; NaN stays NaN.

        >>> Tensor([-2.0, 0.0, 3.0]).sign().tolist()
        [-1.0, 0.0, 1.0]
        """
        unit = (self > 0).where(self.const_like(1), self.const_like(0))
        signed = unit if self._is_unsigned() else (self < 0).where(self.const_like(-1), unit)
        return self.isnan().where(self, signed) if dtypes.is_float(self.dtype) else signed

    def abs(self) -> Self:
        """`|self|`.

        >>> Tensor([-1, 2]).abs().tolist()
        [1, 2]
        """
        return self if self._is_unsigned() else self * self.sign().detach()

    def copysign(self, other) -> Self:
        """The magnitude of `self` with the sign of `other`; -0.0 counts as negative.

        >>> Tensor([1.0, -2.0]).copysign(Tensor([-1.0, 1.0])).tolist()
        [-1.0, 2.0]
        """
        magnitude, sign_of = self._as_float()._broadcasted(other)
        negative = (sign_of < 0) | ((sign_of == 0) & (sign_of.reciprocal() < 0))
        signed = magnitude.abs() * negative.where(-1.0, 1.0).cast(magnitude.dtype)
        return sign_of._dependent(signed)

    def lerp(self, end: Self, weight: Self | float) -> Self:
        """`self + (end - self) * weight`; for uint8 with weights in 1/128.

        >>> Tensor([0.0, 10.0]).lerp(Tensor([4.0, 20.0]), 0.25).tolist()
        [1.0, 12.5]
        """
        if self.dtype is dtypes.uint8 and isinstance(weight, TensorCore):
            steps = (weight * 128 + 0.5).cast(dtypes.int16)
            moved = (end.cast(dtypes.int16) - self.cast(dtypes.int16)) * steps + 64
            return (self.cast(dtypes.int16) + moved.rshift(7)).cast(dtypes.uint8)
        return self + (end - self) * weight

    # ---- elementary functions

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
