"""Python's operators, written with the methods of `MathMixin`.

Each operator is the method of the same meaning, so that a class which overrides the method has the
operator too. `==` is left to the class: nodes compare by identity, tensors elementwise.
"""

from __future__ import annotations

from typing import Any


class OperatorMixin:
    """`+ - * / // % ** & | ^ << >> < > <= >= != ~` and their reflected forms.

    >>> (2 - Tensor([1, 2]) * 3).tolist()
    [-1, -4]
    """

    __slots__ = ()

    def __neg__(self: Any):
        """`-self`, see `neg`.

        >>> (-Tensor([1, -2])).tolist()
        [-1, 2]
        """
        return self.neg()

    def __invert__(self: Any):
        """`~self`: the complement of bits or bools. Raises RuntimeError for floats.

        >>> (~Tensor([True, False])).tolist()
        [False, True]
        """
        return self.bitwise_not()

    def __add__(self: Any, x: Any):
        """`self + x`: shapes broadcast, dtypes promote. Raises ValueError where shapes do not fit.

        >>> (Tensor([1, 2]) + 10).tolist()
        [11, 12]
        """
        return self.add(x)

    def __radd__(self: Any, x: Any):
        """`x + self`.

        >>> (10 + Tensor([1, 2])).tolist()
        [11, 12]
        """
        return self.add(x, True)

    def __sub__(self: Any, x: Any):
        """`self - x`.

        >>> (Tensor([1, 2]) - Tensor([[1], [2]])).tolist()
        [[0, 1], [-1, 0]]
        """
        return self.sub(x)

    def __rsub__(self: Any, x: Any):
        """`x - self`.

        >>> (10 - Tensor([1, 2])).tolist()
        [9, 8]
        """
        return self.sub(x, True)

    def __mul__(self: Any, x: Any):
        """`self * x`.

        >>> (Tensor([1, 2]) * 0.5).tolist()
        [0.5, 1.0]
        """
        return self.mul(x)

    def __rmul__(self: Any, x: Any):
        """`x * self`.

        >>> (3 * Tensor([1, 2])).tolist()
        [3, 6]
        """
        return self.mul(x, True)

    def __truediv__(self: Any, x: Any):
        """`self / x`, a float; division by zero gives infinities or NaN.

        >>> (Tensor([1, 2]) / 2).tolist()
        [0.5, 1.0]
        """
        return self.div(x)

    def __rtruediv__(self: Any, x: Any):
        """`x / self`.

        >>> (1 / Tensor([2.0, 4.0])).tolist()
        [0.5, 0.25]
        """
        return self.div(x, True)

    def __floordiv__(self: Any, x: Any):
        """`self // x`, rounded as the class does.

        >>> UOp.const(dtypes.int, 7) // 2 is not None
        True
        """
        return self.idiv(x)

    def __rfloordiv__(self: Any, x: Any):
        """`x // self`.

        >>> 7 // UOp.const(dtypes.int, 2) is not None
        True
        """
        return self.idiv(x, True)

    def __mod__(self: Any, x: Any):
        """`self % x`: the remainder that belongs to `//`.

        >>> (Tensor([-7, 7]) % 3).tolist()
        [2, 1]
        """
        return self.mod(x)

    def __rmod__(self: Any, x: Any):
        """`x % self`.

        >>> (7 % Tensor([4, 5])).tolist()
        [3, 2]
        """
        return self.mod(x, True)

    def __pow__(self: Any, x: Any):
        """`self ** x`.

        >>> UOp.const(dtypes.float, 3.0) ** 2 is not None
        True
        """
        return self.pow(x)

    def __rpow__(self: Any, x: Any):
        """`x ** self`.

        >>> 2 ** UOp.const(dtypes.float, 3.0) is not None
        True
        """
        return self.ufix(x).pow(self)

    def __and__(self: Any, x: Any):
        """`self & x` of integers or bools. Raises RuntimeError for floats.

        >>> (Tensor([6, 3]) & 5).tolist()
        [4, 1]
        """
        return self.bitwise_and(x)

    def __rand__(self: Any, x: Any):
        """`x & self`.

        >>> (5 & Tensor([6, 3])).tolist()
        [4, 1]
        """
        return self.bitwise_and(x, True)

    def __or__(self: Any, x: Any):
        """`self | x` of integers or bools. Raises RuntimeError for floats.

        >>> (Tensor([6, 3]) | 1).tolist()
        [7, 3]
        """
        return self.bitwise_or(x)

    def __ror__(self: Any, x: Any):
        """`x | self`.

        >>> (1 | Tensor([6, 3])).tolist()
        [7, 3]
        """
        return self.bitwise_or(x, True)

    def __xor__(self: Any, x: Any):
        """`self ^ x` of integers or bools. Raises RuntimeError for floats.

        >>> (Tensor([6, 3]) ^ 5).tolist()
        [3, 6]
        """
        return self.bitwise_xor(x)

    def __rxor__(self: Any, x: Any):
        """`x ^ self`.

        >>> (5 ^ Tensor([6, 3])).tolist()
        [3, 6]
        """
        return self.bitwise_xor(x, True)

    def __lshift__(self: Any, x: Any):
        """`self << x`: `x` bits to the left, wrapping as the dtype does.

        >>> (Tensor([1, 3]) << 2).tolist()
        [4, 12]
        """
        return self.lshift(x)

    def __rlshift__(self: Any, x: Any):
        """`x << self`.

        >>> (1 << Tensor([2, 3])).tolist()
        [4, 8]
        """
        return self.lshift(x, True)

    def __rshift__(self: Any, x: Any):
        """`self >> x`: `x` bits to the right, rounding down.

        >>> (Tensor([8, 12]) >> 2).tolist()
        [2, 3]
        """
        return self.rshift(x)

    def __rrshift__(self: Any, x: Any):
        """`x >> self`.

        >>> (16 >> Tensor([2, 3])).tolist()
        [4, 2]
        """
        return self.rshift(x, True)

    def __lt__(self: Any, x: Any):
        """`self < x` as bool, see `lt`.

        >>> (Tensor([1, 2]) < 2).tolist()
        [True, False]
        """
        return self.lt(x)

    def __gt__(self: Any, x: Any):
        """`self > x` as bool.

        >>> (Tensor([1, 2]) > 1).tolist()
        [False, True]
        """
        return self.gt(x)

    def __le__(self: Any, x: Any):
        """`self <= x` as bool.

        >>> (Tensor([1, 2]) <= 1).tolist()
        [True, False]
        """
        return self.le(x)

    def __ge__(self: Any, x: Any):
        """`self >= x` as bool.

        >>> (Tensor([1, 2]) >= 2).tolist()
        [False, True]
        """
        return self.ge(x)

    # `!=` builds a comparison where `==` is identity: drop-in, rules and the tests write it so
    def __ne__(self: Any, x: Any):
        """`self != x` as bool.

        >>> (Tensor([1, 2]) != 2).tolist()
        [True, False]
        """
        return self.ne(x)
