"""Elementwise arithmetic for everything that has `alu` and `const_like`.

A class mixes this in and gives `alu(op, *src)`, `const_like(value)` and a `dtype`. Methods that take
another operand turn Python numbers into constants of their own dtype (`ufix`), then go through
`_binop`, which is the one place to override for broadcasting and type promotion.
"""

from __future__ import annotations

import math
from typing import Any, Self, TypeAlias

from tinygrad.dtype import DType, dtypes
from tinygrad.mixin.operators import OperatorMixin
from tinygrad.uop import Ops

# another value of the same class, or a Python number
Operand: TypeAlias = Any

_PYTHON_NUMBERS = (int, float, bool)


class MathMixin(OperatorMixin):
    """Elementwise operations. Results have the class of `self`.

    >>> n = UOp.variable("n", 1, 8)
    >>> ((n + 1) * 2).render()
    '(n*2+2)'
    """

    __slots__ = ()

    # ---- what the class must give

    def alu(self, op: Ops, *src: Self) -> Self:
        """Applies `op` to `self` and `src`.

        >>> UOp.variable("n", 1, 8).alu(Ops.MAX, UOp.const(dtypes.index, 3)).render()
        'n.maximum(3)'
        """
        raise NotImplementedError(f"{type(self).__name__} has no alu, needed for {op}")

    def const_like(self, b: float | int | bool) -> Self:
        """The constant `b` with the dtype (and shape) of `self`."""
        raise NotImplementedError(f"{type(self).__name__} has no const_like, needed for {b!r}")

    # ---- operands

    def ufix(self, x: Operand) -> Self:
        """`x` itself when it is already an operand, otherwise the constant `x` like `self`.

        >>> UOp.variable("n", 1, 8).ufix(2).dtype
        dtypes.index
        """
        if type(x) in _PYTHON_NUMBERS or not hasattr(x, "alu"):
            return self.const_like(x)
        return x

    def _binop(self, op: Ops, x: Operand, reverse: bool) -> Self:
        other = self.ufix(x)
        return other.alu(op, self) if reverse else self.alu(op, other)

    def _scalar_dtype(self) -> DType | None:
        """The dtype without lanes, None where it is not known (a pattern)."""
        dtype = getattr(self, "dtype", None)
        return dtype.scalar() if isinstance(dtype, DType) else None

    def _is_float(self) -> bool:
        dtype = self._scalar_dtype()
        return dtype is not None and dtypes.is_float(dtype)

    def _require_bits(self, what: str) -> None:
        dtype = self._scalar_dtype()
        if dtype is not None and not (dtypes.is_int(dtype) or dtypes.is_bool(dtype)):
            raise RuntimeError(
                f"{what} works on integers and bools, got {dtype}: cast to an integer dtype first"
            )

    # ---- sums and products

    def add(self, x: Operand, reverse: bool = False):
        """`self + x`.

        >>> Tensor([1, 2]).add(3).tolist()
        [4, 5]
        """
        return self._binop(Ops.ADD, x, reverse)

    def mul(self, x: Operand, reverse: bool = False):
        """`self * x`.

        >>> Tensor([1, 2]).mul(3).tolist()
        [3, 6]
        """
        return self._binop(Ops.MUL, x, reverse)

    def neg(self):
        """`-self`; of a bool its logical complement.

        >>> UOp.variable("n", 1, 8).neg().vmin
        -8
        """
        return self.logical_not() if self._scalar_dtype() is dtypes.bool else self.mul(-1)

    def sub(self, x: Operand, reverse: bool = False):
        """`self - x`, built as a sum with the negated operand.

        >>> UOp.variable("n", 1, 8).sub(2).render()
        '(n+-2)'
        """
        other = self.ufix(x)
        return other.add(self.neg()) if reverse else self.add(other.neg())

    def reciprocal(self):
        """`1 / self`.

        >>> UOp.const(dtypes.float32, 4.0).reciprocal().simplify().arg
        0.25
        """
        return self.alu(Ops.RECIPROCAL)

    def div(self, x: Operand, reverse: bool = False):
        """`self / x`, built as a product with the reciprocal."""
        other = self.ufix(x)
        top, bottom = (other, self) if reverse else (self, other)
        return top.mul(bottom.reciprocal())

    def idiv(self, x: Operand, reverse: bool = False):
        """Integer quotient, rounded toward zero.

        >>> Tensor([-7, 7]).idiv(2).tolist()
        [-3, 3]
        """
        return self._binop(Ops.IDIV, x, reverse)

    def mod(self, x: Operand, reverse: bool = False):
        """Remainder that belongs to `idiv`: it has the sign of the dividend.

        >>> UOp.variable("n", 1, 8).mod(4).render()
        '(n%4)'
        """
        return self._binop(Ops.MOD, x, reverse)

    def pow(self, x: Operand):
        """`self ** x`."""
        return self._binop(Ops.POW, x, False)

    def square(self):
        """`self * self`.

        >>> Tensor([-2, 3]).square().tolist()
        [4, 9]
        """
        return self.mul(self)

    # ---- bits

    def bitwise_and(self, x: Operand, reverse: bool = False):
        """Bitwise and; of bools the logical one.

        >>> Tensor([6, 3]).bitwise_and(2).tolist()
        [2, 2]
        """
        self._require_bits("bitwise_and")
        return self._binop(Ops.AND, x, reverse)

    def bitwise_or(self, x: Operand, reverse: bool = False):
        """Bitwise or; of bools the logical one.

        >>> Tensor([6, 3]).bitwise_or(1).tolist()
        [7, 3]
        """
        self._require_bits("bitwise_or")
        return self._binop(Ops.OR, x, reverse)

    def bitwise_xor(self, x: Operand, reverse: bool = False):
        """Bitwise exclusive or; of bools the logical one.

        >>> Tensor([6, 3]).bitwise_xor(2).tolist()
        [4, 1]
        """
        self._require_bits("bitwise_xor")
        return self._binop(Ops.XOR, x, reverse)

    def bitwise_not(self):
        """Bitwise complement; of bools the logical one."""
        self._require_bits("bitwise_not")
        if self._scalar_dtype() is dtypes.bool:
            return self.logical_not()
        return self.bitwise_xor(-1)

    def lshift(self, x: Operand, reverse: bool = False):
        """`self << x`."""
        return self._binop(Ops.SHL, x, reverse)

    def rshift(self, x: Operand, reverse: bool = False):
        """`self >> x`, arithmetic for signed integers."""
        return self._binop(Ops.SHR, x, reverse)

    def threefry(self, seed: Self):
        """Threefry-2x32 of the counter `self` under the key `seed`; both are uint64.

        >>> counter, key = Tensor([1], dtype="uint64"), Tensor([2], dtype="uint64")
        >>> counter.threefry(key).dtype
        dtypes.ulong
        """
        return self.alu(Ops.THREEFRY, seed)

    # ---- comparisons

    def lt(self, x: Operand):
        """`self < x` as bool.

        >>> Tensor([1, 2, 3]).lt(2).tolist()
        [True, False, False]
        """
        return self._binop(Ops.CMPLT, x, False)

    def gt(self, x: Operand):
        """`self > x` as bool.

        >>> Tensor([1, 2, 3]).gt(2).tolist()
        [False, False, True]
        """
        return self._binop(Ops.CMPLT, x, True)

    def ne(self, x: Operand):
        """`self != x` as bool; True where either is NaN.

        >>> UOp.variable("n", 1, 8).ne(4).dtype
        dtypes.bool
        """
        return self._binop(Ops.CMPNE, x, False)

    def eq(self, x: Operand):
        """`self == x` as bool; False where either is NaN.

        >>> Tensor([1, 2]).eq(2).tolist()
        [False, True]
        """
        return self.ne(x).logical_not()

    def le(self, x: Operand):
        """`self <= x` as bool; False where either is NaN.

        >>> Tensor([1, 2, 3]).le(2).tolist()
        [True, True, False]
        """
        # the complement of `>` is shorter, but would call NaN <= x true
        if self._is_float():
            return self.lt(x).bitwise_or(self.eq(x))
        return self.gt(x).logical_not()

    def ge(self, x: Operand):
        """`self >= x` as bool; False where either is NaN.

        >>> Tensor([1, 2, 3]).ge(2).tolist()
        [False, True, True]
        """
        if self._is_float():
            return self.gt(x).bitwise_or(self.eq(x))
        return self.lt(x).logical_not()

    def logical_not(self):
        """True where `self` is zero.

        >>> (UOp.variable("n", 1, 8) < 4).logical_not().dtype
        dtypes.bool
        """
        return self.ne(True)

    def isnan(self):
        """True where `self` is NaN.

        >>> Tensor([1.0, float("inf"), float("nan")]).isnan().tolist()
        [False, False, True]
        """
        return self.ne(self)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True):
        """True where `self` is infinite, of the chosen signs.

        >>> Tensor([1.0, float("inf"), float("nan")]).isinf().tolist()
        [False, True, False]
        """
        infinity = float("inf")
        nothing = self.ne(self).bitwise_and(False)
        positive = self.eq(infinity) if detect_positive else nothing
        negative = self.eq(-infinity) if detect_negative else nothing
        return positive.bitwise_or(negative)

    def isfinite(self):
        """True where `self` is neither infinite nor NaN.

        >>> Tensor([1.0, float("inf"), float("nan")]).isfinite().tolist()
        [True, False, False]
        """
        return self.isinf().bitwise_or(self.isnan()).logical_not()

    # ---- choice

    def where(self, x: Operand, y: Operand):
        """`x` where `self` is true, else `y`. At least one of them must be an operand.

        >>> n = UOp.variable("n", 1, 8)
        >>> (n < 4).where(n, 4).vmax
        8
        """
        if hasattr(x, "alu"):
            return self.alu(Ops.WHERE, x, x.ufix(y))
        if not hasattr(y, "alu"):
            raise RuntimeError(
                f"where needs one operand that is no Python number, got {x!r} and {y!r}"
            )
        return self.alu(Ops.WHERE, y.ufix(x), y)

    def maximum(self, x: Operand):
        """The larger of `self` and `x`.

        >>> UOp.variable("n", 1, 8).maximum(3).vmin
        3
        """
        return self._binop(Ops.MAX, x, False)

    def minimum(self, x: Operand):
        """The smaller of `self` and `x`, as the mirrored maximum.

        >>> UOp.variable("n", 1, 8).minimum(3).vmax
        3
        """
        other = self.ufix(x)
        return self._mirror().maximum(other._mirror())._mirror()

    def _mirror(self):
        """An order-reversing involution of the dtype: exact also at the ends of its range."""
        dtype = self._scalar_dtype()
        if dtype is None or dtype is dtypes.index or dtypes.is_float(dtype):
            return self.mul(-1)
        return self.bitwise_not()

    def clamp(self, min_=None, max_=None):
        """`self` limited to `min_` below and `max_` above; where they cross, `max_` wins.

        >>> Tensor([-3, 0, 3]).clamp(-1, 1).tolist()
        [-1, 0, 1]
        """
        if min_ is None and max_ is None:
            raise RuntimeError("clamp needs min_ or max_, got None for both")
        limited = self
        if min_ is not None:
            limited = limited.lt(min_).where(min_, limited)
        if max_ is not None:
            limited = limited.gt(max_).where(max_, limited)
        return limited

    def clip(self, min_=None, max_=None):
        """Same as `clamp`.

        >>> Tensor([-3, 0, 3]).clip(-1, 1).tolist()
        [-1, 0, 1]
        """
        return self.clamp(min_, max_)

    # ---- rounding

    def trunc(self):
        """Rounded toward zero.

        >>> UOp.const(dtypes.float32, -1.5).trunc().simplify().arg
        -1.0
        """
        return self.alu(Ops.TRUNC)

    def ceil(self):
        """Rounded toward plus infinity.

        >>> Tensor([-1.5, 1.5]).ceil().tolist()
        [-1.0, 2.0]
        """
        whole = self.trunc()
        return self.gt(whole).where(whole.add(1), whole)

    def floor(self):
        """Rounded toward minus infinity.

        >>> Tensor([-1.5, 1.5]).floor().tolist()
        [-2.0, 1.0]
        """
        whole = self.trunc()
        return self.lt(whole).where(whole.sub(1), whole)

    # ---- elementary functions

    def sqrt(self):
        """Square root; NaN below zero.

        >>> UOp.const(dtypes.float32, 9.0).sqrt().simplify().arg
        3.0
        """
        return self.alu(Ops.SQRT)

    def rsqrt(self):
        """`1 / sqrt(self)`.

        >>> Tensor([4.0, 16.0]).rsqrt().tolist()
        [0.5, 0.25]
        """
        return self.sqrt().reciprocal()

    def sin(self):
        """Sine of radians."""
        return self.alu(Ops.SIN)

    def exp2(self):
        """`2 ** self`.

        >>> UOp.const(dtypes.float32, 3.0).exp2().simplify().arg
        8.0
        """
        return self.alu(Ops.EXP2)

    def log2(self):
        """Binary logarithm.

        >>> UOp.const(dtypes.float32, 8.0).log2().simplify().arg
        3.0
        """
        return self.alu(Ops.LOG2)

    def sigmoid(self):
        """The logistic function `1 / (1 + exp(-self))`."""
        return self.mul(-1 / math.log(2)).exp2().add(1, True).reciprocal()

    def tanh(self):
        """Hyperbolic tangent, through the logistic function of the doubled argument."""
        return self.mul(2).sigmoid().mul(2).sub(1)

    # ---- activations

    def relu(self):
        """`max(self, 0)`; NaN stays NaN, the slope at 0 is 0.

        >>> Tensor([-1.0, 2.0]).relu().tolist()
        [0.0, 2.0]
        """
        return self.le(0).where(0, self)

    def relu6(self):
        """`self` limited to 0 .. 6, with slope 0 at both ends.

        >>> Tensor([-1.0, 2.0, 9.0]).relu6().tolist()
        [0.0, 2.0, 6.0]
        """
        return self.relu()._limited(6)

    def _limited(self, top):
        """`self` below `top`, else `top`, with slope 0 there; NaN stays NaN."""
        return self.ge(top).where(top, self)

    def leaky_relu(self, neg_slope=0.01):
        """`self` above zero, `neg_slope * self` below.

        >>> Tensor([-2.0, 3.0]).leaky_relu(0.5).tolist()
        [-1.0, 3.0]
        """
        return self.lt(0).where(self.mul(neg_slope), self)

    def silu(self):
        """`self * sigmoid(self)` (Elfwing et al., arXiv:1702.03118).

        >>> Tensor(0.0).silu().item()
        0.0
        """
        return self.mul(self.sigmoid())

    def swish(self):
        """Same as `silu` (Ramachandran et al., arXiv:1710.05941).

        >>> Tensor(0.0).swish().item()
        0.0
        """
        return self.silu()

    def gelu(self):
        """Gaussian error linear unit, tanh form (Hendrycks and Gimpel, arXiv:1606.08415).

        >>> round(Tensor(1.0).gelu().item(), 3)
        0.841
        """
        cubic = self.add(self.mul(self).mul(self).mul(0.044715))
        # (1 + tanh(x)) / 2 is sigmoid(2 * x), which does not cancel below zero
        return self.mul(cubic.mul(2 * math.sqrt(2 / math.pi)).sigmoid())

    def quick_gelu(self):
        """`self * sigmoid(1.702 * self)`, the cheap form of `gelu`.

        >>> Tensor(0.0).quick_gelu().item()
        0.0
        """
        return self.mul(self.mul(1.702).sigmoid())

    def hardtanh(self, min_val=-1, max_val=1):
        """`self` limited to `min_val` .. `max_val`.

        >>> Tensor([-4.0, 0.5, 4.0]).hardtanh().tolist()
        [-1.0, 0.5, 1.0]
        """
        return self.clamp(min_val, max_val)

    def hardsigmoid(self, alpha: float = 1 / 6, beta: float = 0.5):
        """`alpha * self + beta` limited to 0 .. 1, with slope 0 at both ends.

        >>> Tensor([-4.0, 0.0, 4.0]).hardsigmoid().tolist()
        [0.0, 0.5, 1.0]
        """
        return self.mul(alpha).add(beta).relu()._limited(1)

    def hardswish(self):
        """`self * relu6(self + 3) / 6` (Howard et al., arXiv:1905.02244).

        >>> Tensor([0.0, 4.0]).hardswish().tolist()
        [0.0, 4.0]
        """
        return self.mul(self.add(3).relu6().mul(1 / 6))
