"""Elementwise mathematics on tensors.

What is exact for every operand kind comes from `mixin.math`; here is what needs to know that the
operands are tensors: promotion to float, Python's rounding of quotients, numbers that a dtype cannot
hold, NaN and infinity. Functions of a real argument are in `elementary`. Shapes broadcast, dtypes
promote.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from tinygrad.dtype import (
    ConstType,
    dtypes,
    least_upper_dtype,
    least_upper_float,
    truncate,
)
from tinygrad.tensor.core import TensorCore, broadcast_shapes
from tinygrad.uop.ops import Ops, sint

# what depends on the value itself, not only on its low bits
_ASK_FOR_THE_VALUE = frozenset((Ops.CMPLT, Ops.CMPNE, Ops.MAX, Ops.IDIV, Ops.MOD))


class ElementwiseMixin(TensorCore):
    """Arithmetic, comparison, choice, rounding."""

    __slots__ = ()

    def _as_float(self) -> Self:
        """`self`, cast to a float dtype if it has none."""
        return self if dtypes.is_float(self.dtype) else self.cast(least_upper_float(self.dtype))

    def _is_unsigned(self) -> bool:
        return dtypes.is_unsigned(self.dtype) or self.dtype is dtypes.bool

    # ---- integers beside what their dtype cannot hold

    def _binop(self, op: Ops, x, reverse: bool) -> Self:
        if op in _ASK_FOR_THE_VALUE and dtypes.is_int(self.dtype):
            if isinstance(x, TensorCore):
                if dtypes.uint64 in (self.dtype, x.dtype) and op is not Ops.MAX:
                    return self._compare_by_sign(op, x, reverse)
            elif self._out_of_range(x):
                return self._beside_outsider(op, x, reverse)
        left, right = self._broadcasted(x, reverse)
        return left.alu(op, right)

    def _out_of_range(self, x) -> bool:
        """Whether `x` is a Python integer that wraps around in the integer dtype of `self`."""
        if type(x) is not int or not dtypes.is_int(self.dtype):
            return False
        return not dtypes.min(self.dtype) <= x <= dtypes.max(self.dtype)

    def _refuse_outsider(self, x, what: str) -> None:
        if self._out_of_range(x):
            raise OverflowError(
                f"{what} of {self.dtype} and {x}: the dtype holds {dtypes.min(self.dtype)} to "
                f"{dtypes.max(self.dtype)}; cast the tensor to a wider one first"
            )

    def _beside_outsider(self, op: Ops, x: int, reverse: bool) -> Self:
        """`self op x` for a number outside the range of the dtype: what the integers themselves say."""
        above = x > 0
        if op is Ops.CMPNE or op is Ops.CMPLT:
            return self._constant(op is Ops.CMPNE or above != reverse, dtypes.bool)._broadcast_to(
                self.shape
            )
        if op is Ops.MAX and not above:
            return self
        self._refuse_outsider(x, op.name.lower())
        raise AssertionError(f"{x} is in the range of {self.dtype}")

    def _compare_by_sign(self, op: Ops, x: TensorCore, reverse: bool) -> Self:
        """A comparison with uint64, which has no integer dtype in common with the signed ones."""
        left, right = self._broadcasted(x, reverse, match_dtype=False)
        if dtypes.is_float(left.dtype) or dtypes.is_float(right.dtype):
            left, right = left._broadcasted(right)
            return left.alu(op, right)
        wide = dtypes.uint64
        same_sign = left.cast(wide).alu(op, right.cast(wide))
        if not left._is_unsigned():
            return (left < 0) | same_sign
        if not right._is_unsigned():
            return (right < 0) | same_sign if op is Ops.CMPNE else (right >= 0) & same_sign
        return same_sign

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
        self._refuse_outsider(x, "division")
        if dtypes.is_float(top.dtype):
            if rounding_mode == "trunc":
                return (top * bottom.reciprocal()).trunc()
            return top._floor_parts(bottom)[0]
        if top.dtype is dtypes.bool:
            top, bottom = top.cast(dtypes.uint8), bottom.cast(dtypes.uint8)
        whole = top.alu(Ops.IDIV, bottom)
        if rounding_mode == "trunc" or top._is_unsigned():
            return whole
        # C rounds toward zero: one less where the signs differ and something is left over
        left_over = (top.alu(Ops.MOD, bottom) != 0) & ((top < 0) != (bottom < 0))
        return whole - left_over.cast(whole.dtype)

    def _floor_parts(self, bottom: Self) -> tuple[Self, Self]:
        """Quotient rounded down and remainder of floats, as Python's: the remainder has the sign of
        `bottom` and 0 // inf is 0. Exact while the quotient is, that is up to 2**24 in float32."""
        rounded = (self * bottom.reciprocal()).floor()
        # a product and sum in this form are rounded once where the target can; 0 * inf would be NaN
        rest = (rounded == 0).where(self, rounded * -bottom + self)
        # the division rounded up to a whole number that it does not reach
        above = (rest != 0) & ((rest < 0) != (bottom < 0))
        quotient = above.where(rounded - 1, rounded)
        return self.isinf().where(math.nan, quotient), above.where(rest + bottom, rest)

    def mod(self, x, reverse=False) -> Self:
        """Remainder with the sign of the divisor, as Python's `%`.

        >>> Tensor([-7, 7]).mod(3).tolist()
        [2, 1]
        """
        self._refuse_outsider(x, "remainder")
        top, bottom = self._broadcasted(x, reverse)
        if dtypes.is_float(top.dtype):
            return top._floor_parts(bottom)[1]
        if top.dtype is dtypes.bool:
            top, bottom = top.cast(dtypes.uint8), bottom.cast(dtypes.uint8)
        rest = top.alu(Ops.MOD, bottom)
        if top._is_unsigned():
            return rest
        wrong_side = (rest != 0) & ((rest < 0) != (bottom < 0))
        return rest + wrong_side.where(bottom, 0)

    def __floordiv__(self, x) -> Self:
        """`self // x`, rounded down as in Python; integers stay integers, and `x // 0` is 0.

        >>> (Tensor([-7, 7]) // 2).tolist()
        [-4, 3]
        """
        return self.div(x, rounding_mode="floor")

    def __rfloordiv__(self, x) -> Self:
        """`x // self`.

        >>> (7 // Tensor([2, -2])).tolist()
        [3, -4]
        """
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
        return base._integer_power(exponent)

    def _integer_power(self, exponent: Self) -> Self:
        """`self ** exponent` in integers, wrapped: the product of the squares that its bits name.

        Powers of 0, 1 and -1 aside, a negative exponent gives 0: the reciprocal without its fraction.
        """
        kind = self.dtype
        if kind is dtypes.bool:
            return self | exponent.logical_not()
        signed = not self._is_unsigned()
        result, square = self.const_like(1), self
        for bit in range(8 * kind.itemsize - signed):
            is_set = (exponent & (1 << bit)) != 0
            result = is_set.where(result * square, result)
            square = square * square
        if not signed:
            return result
        inverse = (self == 1).where(1, (self == -1).where(1 - 2 * (exponent & 1), 0))
        return (exponent < 0).where(inverse.cast(kind), result)

    def _power_of_number(self, x: float) -> Self:
        """`self ** x` for a Python number: products for small whole exponents, else POW."""
        if self.dtype is dtypes.bool and isinstance(x, int):
            # bools beside a number count, as in the other operators
            return self.cast(dtypes.default_int)._power_of_number(x)
        if not dtypes.is_float(self.dtype):
            if isinstance(x, float):
                return self.cast(least_upper_dtype(self.dtype, dtypes.default_float)).pow(x)
            if x < 0:
                raise RuntimeError(f"an integer tensor has no power {x}: cast it to a float dtype")
        if x == 0:
            # inf ** 0 and nan ** 0 are 1, and the slope is 0
            return self._dependent(self.ones_like(requires_grad=False))
        if not dtypes.is_float(self.dtype):
            return self._whole_power(int(x))
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
        """`self ** x`, see `pow`.

        >>> (Tensor([1, 2, 3]) ** 2).tolist()
        [1, 4, 9]
        """
        return self.pow(x)

    def __rpow__(self, x) -> Self:
        """`x ** self`.

        >>> (2.0 ** Tensor([1.0, 3.0])).tolist()
        [2.0, 8.0]
        """
        return self.pow(x, reverse=True)

    def __ipow__(self, x) -> Self:
        """`self **= x`: assigns the power to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([1, 2, 3])
        >>> x **= 2
        >>> x.tolist()
        [1, 4, 9]
        """
        return self.assign(self.pow(x))

    # ---- in-place operators

    def __iadd__(self, x) -> Self:
        """`self += x`: assigns the sum to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([1, 2])
        >>> x += 10
        >>> x.tolist()
        [11, 12]
        """
        return self.assign(self + x)

    def __isub__(self, x) -> Self:
        """`self -= x`: assigns the difference to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([1, 2])
        >>> x -= 1
        >>> x.tolist()
        [0, 1]
        """
        return self.assign(self - x)

    def __imul__(self, x) -> Self:
        """`self *= x`: assigns the product to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([1, 2])
        >>> x *= 3
        >>> x.tolist()
        [3, 6]
        """
        return self.assign(self * x)

    def __itruediv__(self, x) -> Self:
        """`self /= x`: assigns the quotient to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([1.0, 2.0])
        >>> x /= 2
        >>> x.tolist()
        [0.5, 1.0]
        """
        return self.assign(self / x)

    def __ifloordiv__(self, x) -> Self:
        """`self //= x`: assigns the quotient rounded down to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([-7, 7])
        >>> x //= 2
        >>> x.tolist()
        [-4, 3]
        """
        return self.assign(self // x)

    def __imod__(self, x) -> Self:
        """`self %= x`: assigns the remainder to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([-7, 7])
        >>> x %= 3
        >>> x.tolist()
        [2, 1]
        """
        return self.assign(self % x)

    def __iand__(self, x) -> Self:
        """`self &= x`: assigns the common bits to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([6, 3])
        >>> x &= 5
        >>> x.tolist()
        [4, 1]
        """
        return self.assign(self & x)

    def __ior__(self, x) -> Self:
        """`self |= x`: assigns the bits of both to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([6, 3])
        >>> x |= 1
        >>> x.tolist()
        [7, 3]
        """
        return self.assign(self | x)

    def __ixor__(self, x) -> Self:
        """`self ^= x`: assigns the bits that differ to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([6, 3])
        >>> x ^= 5
        >>> x.tolist()
        [3, 6]
        """
        return self.assign(self ^ x)

    def __ilshift__(self, x) -> Self:
        """`self <<= x`: assigns the bits moved left to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([1, 3])
        >>> x <<= 2
        >>> x.tolist()
        [4, 12]
        """
        return self.assign(self << x)

    def __irshift__(self, x) -> Self:
        """`self >>= x`: assigns the bits moved right to `self`, which keeps its dtype. Raises AssertionError
        where the result has another dtype or does not fit the shape.

        >>> x = Tensor([8, 12])
        >>> x >>= 2
        >>> x.tolist()
        [2, 3]
        """
        return self.assign(self >> x)

    # ---- bits

    def _shift_amount(self, x) -> int:
        if not isinstance(x, int) or x < 0:
            raise RuntimeError(f"shifts take a whole number of bits of 0 or more, got {x!r}")
        if not dtypes.is_int(self.dtype):
            raise RuntimeError(f"only integers are shifted, got {self.dtype}")
        return x

    def _shifted_operands(self, x, reverse: bool) -> tuple[Self, Self, Self]:
        """`(value, amount, inside)` of one shape and dtype; `inside`: the amount is below the width."""
        value, amount = self._broadcasted(x, reverse)
        value._shift_amount(0)
        inside = amount < 8 * value.dtype.itemsize
        return value, amount, inside if value._is_unsigned() else inside & (amount >= 0)

    def lshift(self, x, reverse=False) -> Self:
        """`self << x`, wrapping as the dtype does.

        By the width of the dtype or more, or by a negative tensor element: 0. Raises RuntimeError
        for floats and negative numbers.

        >>> Tensor([1, 3]).lshift(2).tolist()
        [4, 12]
        """
        if isinstance(x, TensorCore) or reverse:
            value, amount, inside = self._shifted_operands(x, reverse)
            return inside.where(value.alu(Ops.SHL, inside.where(amount, 0)), 0)
        bits = self._shift_amount(x)
        return self * (truncate[self.dtype](1 << bits) if bits < 8 * self.dtype.itemsize else 0)

    def rshift(self, x, reverse=False) -> Self:
        """`self >> x`: rounds down, as a floor division by `2 ** x`.

        By the width of the dtype or more, or by a negative tensor element: all bits are the sign.
        Raises RuntimeError for floats and negative numbers.

        >>> Tensor([8, 12]).rshift(2).tolist()
        [2, 3]
        """
        if isinstance(x, TensorCore) or reverse:
            value, amount, inside = self._shifted_operands(x, reverse)
            if value._is_unsigned():
                return inside.where(value.alu(Ops.SHR, inside.where(amount, 0)), 0)
            return value.alu(Ops.SHR, inside.where(amount, 8 * value.dtype.itemsize - 1))
        bits, width = self._shift_amount(x), 8 * self.dtype.itemsize
        if self._is_unsigned():
            return self.idiv(1 << bits) if bits < width else self * 0
        return self // (1 << bits) if bits < width - 1 else (self < 0).where(self.const_like(-1), 0)

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
        if self._out_of_range(x) and x > 0:
            return self
        self._refuse_outsider(x, "minimum")
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
        return self.alu(Ops.TRUNC) if dtypes.is_float(self.dtype) else self._own_values()

    def round(self: Self) -> Self:
        """Rounded to the nearest whole number, halves to the even one.

        >>> Tensor([0.5, 1.5, -2.5]).round().tolist()
        [0.0, 2.0, -2.0]
        """
        if not dtypes.is_float(self.dtype):
            return self._own_values()
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
        if self._is_unsigned():
            return self._own_values()
        size = self * self.sign().detach()
        return (self == 0).where(0, size) if dtypes.is_float(self.dtype) else size  # not -0.0

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
