"""Methods that treat nodes as formulas: factors, exact quotients, simplification, evaluation.

`SymbolicMethods` is installed into the node type by `tinygrad.uop.ops`. The quotients here are exact:
they answer only where nothing would be rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tinygrad._core import UOp, replaced
from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.evaluate import python_alu
from tinygrad.uop.installed import Installed
from tinygrad.uop.methods import identity_element

if TYPE_CHECKING:
    from tinygrad.uop.ops import sint


# ---- questions about sizes


def resolve(x: UOp | bool, default: bool = True) -> bool:
    """The truth of a condition on sizes; `default` where it depends on a variable."""
    if isinstance(x, bool):
        return x
    if not isinstance(x, UOp) or x.dtype.scalar() is not dtypes.bool:
        raise TypeError(f"resolve takes a bool or a bool node, got {x!r}")
    low, high = x._min_max
    if low != high:
        low, high = x.simplify()._min_max
    return bool(low) if low == high else default


def _by_bounds(sizes: tuple, end: int):
    values = [s._min_max[end] if isinstance(s, UOp) else s for s in sizes]
    return (min, max)[end](values)


def smax(*lst: sint) -> sint:
    """The largest size: an int or a node."""
    return _extreme(lst, largest=True)


def smin(*lst: sint) -> sint:
    """The smallest size: an int or a node."""
    return _extreme(lst, largest=False)


def _extreme(lst: tuple, largest: bool) -> sint:
    sizes = tuple(lst[0]) if len(lst) == 1 and isinstance(lst[0], (tuple, list)) else lst
    if not any(isinstance(size, UOp) for size in sizes):
        return max(sizes) if largest else min(sizes)
    result: Any = None
    for size in sizes:
        node = size if isinstance(size, UOp) else UOp(Ops.CONST, dtypes.index, (), size)
        if result is None:
            result = node
        else:
            result = result.maximum(node) if largest else result.minimum(node)
    return result.ssimplify()


def ssimplify(uop: sint):
    """A size in simplified form: an int where it is constant."""
    return uop.ssimplify() if isinstance(uop, UOp) else uop


def sym_infer(uop: UOp | int, var_vals: dict[str, int]) -> int:
    """The value of a size with the named variables set."""
    return uop.sym_infer(var_vals) if isinstance(uop, UOp) else uop


# ---- products as constants times factors


def _factors(u: UOp) -> tuple[int, list[UOp]]:
    """A product as its constant and its other factors, in order."""
    constant, others = 1, []
    for part in u.split_uop(Ops.MUL):
        if part.op is Ops.CONST and part.arg is not Invalid:
            constant *= part.arg
        else:
            others.append(part)
    return constant, others


def _product(dtype: DType, constant: int, others: list[UOp]) -> UOp:
    if not others:
        return UOp.const(dtype, constant)
    made = others[-1]
    for factor in reversed(others[:-1]):
        made = factor.alu(Ops.MUL, made)
    return made if constant == 1 else made * constant


def _take_away(factors: list[UOp], unwanted: list[UOp]) -> list[UOp] | None:
    """`factors` without one occurrence of each unwanted one, None if one is missing."""
    rest = list(factors)
    for factor in unwanted:
        if factor not in rest:
            return None
        rest.remove(factor)
    return rest


def _value_of(variable: UOp, var_vals: dict[str, int], bound: dict[UOp, int]) -> int:
    if variable.arg[0] in var_vals:
        return var_vals[variable.arg[0]]
    if variable in bound:
        return bound[variable]
    raise KeyError(f"variable {variable.arg[0]!r} has no value; given are {sorted(var_vals)}")


@functools.cache
def _simplifier() -> tuple:
    """The two rewriters and the rules of `simplify`, which are made of nodes themselves."""
    from tinygrad.uop.ops import graph_rewrite, untracked_rewrite
    from tinygrad.uop.symbolic import symbolic

    return graph_rewrite, untracked_rewrite, symbolic


class SymbolicMethods(Installed):
    """Nodes as formulas."""

    @property
    def vmin(self):
        """A value that this node is never below."""
        return self._min_max[0]

    @property
    def vmax(self):
        """A value that this node is never above."""
        return self._min_max[1]

    def overflows(self, dtype: DType) -> bool:
        """Whether this node may have a value that `dtype` cannot hold.

        >>> UOp.const(dtypes.index, 1 << 40).overflows(dtypes.int32)
        True
        """
        return self.vmin < dtypes.min(dtype) or dtypes.max(dtype) < self.vmax

    def is_increasing(self) -> bool:
        """Whether the value surely does not fall when a variable in it rises.

        >>> n = UOp.variable("n", 1, 8)
        >>> (n * 2 + 1).is_increasing(), (n * -1).is_increasing()
        (True, False)
        """
        pending = [self]
        while pending:
            u = pending.pop()
            if u.op is Ops.ADD:
                pending.extend(u.src)
            elif u.op in (Ops.MUL, Ops.IDIV) and u.src[1].op is Ops.CONST and u.src[1].vmin >= 0:
                pending.append(u.src[0])
            elif u.op not in GroupOp.Irreducible:
                return False
        return True

    # ---- sums and products

    def sum(self, *uops: UOp) -> UOp:
        """This node plus all `uops`.

        >>> UOp.sum(UOp.const(dtypes.int32, 1), UOp.const(dtypes.int32, 2)).simplify().arg
        3
        """
        total = self
        for u in uops:
            total = total.alu(Ops.ADD, u)
        return total

    def prod(self, *uops: UOp) -> UOp:
        """This node times all `uops`.

        >>> UOp.prod(UOp.const(dtypes.int32, 3), UOp.const(dtypes.int32, 2)).simplify().arg
        6
        """
        product = self
        for u in uops:
            product = product.alu(Ops.MUL, u)
        return product

    def split_uop(self, sep: Ops) -> Iterator[UOp]:
        """The operands of a chain of `sep`, from left to right.

        >>> n, m = UOp.variable("n", 1, 8), UOp.variable("m", 1, 8)
        >>> [part.render() for part in (n + m).split_uop(Ops.ADD)]
        ['n', 'm']
        """
        pending = [self]
        while pending:
            u = pending.pop()
            if u.op is sep:
                pending.extend(reversed(u.src))
            else:
                yield u

    def pop_const(self, op: Ops = Ops.ADD) -> tuple[UOp, int | float]:
        """The node without the constant on its right, and that constant.

        >>> value, constant = (UOp.variable("n", 1, 8) + 5).pop_const()
        >>> value.render(), constant
        ('n', 5)
        """
        if self.op is op and self.src[1].op is Ops.CONST:
            return self.src[0], self.src[1].arg
        return self, identity_element(op, self.dtype)

    def const_factor(self) -> int:
        """The largest known positive int that divides every value of this node.

        >>> (UOp.variable("n", 1, 8) * 6 + 4).const_factor()
        2
        """
        if self.op is Ops.CONST:
            return 1 if self.arg is Invalid else self.arg
        if self.op is Ops.VCONST:
            return 1 if Invalid in self.arg else math.gcd(*self.arg)
        if self.op is Ops.ADD:
            return math.gcd(*(part.const_factor() for part in self.split_uop(Ops.ADD)))
        if self.op is Ops.MUL:
            known = [s for s in self.src if s.op is Ops.CONST and s.arg is not Invalid]
            return known[0].arg if known else 1
        return 1

    def divides(self, v: int) -> UOp | None:
        """This node over `v` if that is exact by its form, else None.

        >>> (UOp.variable("n", 1, 8) * 6).divides(3).render()
        '(n*2)'
        """
        if v in (0, 1):
            return self if v else None
        if self.op is Ops.CONST and self.arg is not Invalid:
            return self.const_like(self.arg // v) if self.arg % v == 0 else None
        if self.op is Ops.VCONST and Invalid not in self.arg:
            exact = all(x % v == 0 for x in self.arg)
            return self.const_like(tuple(x // v for x in self.arg)) if exact else None
        if self.op is Ops.ADD:
            parts = [part.divides(v) for part in self.split_uop(Ops.ADD)]
            return None if None in parts else parts[0].sum(*parts[1:])
        if self.op is Ops.MUL:
            left = self.src[0].divides(v)
            if left is not None:
                return left * self.src[1]
            right = self.src[1].divides(v)
            return None if right is None else self.src[0] * right
        return None

    def divide_exact(self, v: UOp) -> UOp | None:
        """This node over the node `v` if that is exact by its form, else None.

        >>> (UOp.variable("n", 1, 8) * 6).divide_exact(UOp.const(dtypes.index, 2)).simplify().render()
        '(n*3)'
        """
        if self is v:
            return self.const_like(1)
        if v.op is Ops.CONST:
            return None if v.arg == 0 else self.divides(v.arg)
        if self.op is Ops.ADD:
            parts = [part.divide_exact(v) for part in self.split_uop(Ops.ADD)]
            if None not in parts:
                return parts[0].sum(*parts[1:])
        constant, factors = _factors(self)
        divisor, unwanted = _factors(v)
        rest = _take_away(factors, unwanted)
        if rest is None or divisor == 0 or constant % divisor:
            return None
        return _product(self.dtype, constant // divisor, rest)

    @staticmethod
    def gcd(*uops: UOp) -> UOp:
        """A common divisor of the nodes: the constants' greatest one times all shared factors.

        >>> UOp.gcd(UOp.variable("n", 1, 8) * 6, UOp.const(dtypes.int32, 4)).simplify().render()
        '2'
        """
        split = [_factors(u) for u in uops]
        shared = list(split[0][1])
        for _, factors in split[1:]:
            available = list(factors)
            kept = []
            for factor in shared:
                if factor in available:
                    available.remove(factor)
                    kept.append(factor)
            shared = kept
        return _product(uops[0].dtype, math.gcd(*(constant for constant, _ in split)), shared)

    # ---- simplification and evaluation

    def simplify(self, tracked: bool = False) -> UOp:
        """The same value in its simplest known form.

        >>> n = UOp.variable("n", 1, 8)
        >>> (n + n).simplify().render()
        '(n*2)'
        """
        if self.op in (Ops.CONST, Ops.VCONST, Ops.DEFINE_VAR):
            return self
        traced, plain, rules = _simplifier()
        return (traced if tracked else plain)(self, rules, name="simplify")

    def ssimplify(self):
        """The simplified node, or its value where that is constant.

        >>> UOp.variable("n", 1, 8).const_like(3).ssimplify()
        3
        """
        simple = self.simplify()
        return simple.arg if simple.op is Ops.CONST else simple

    def sintify(self) -> sint:
        """This node as a size: its value where it is a constant."""
        return self.arg if self.op is Ops.CONST else self

    def _evaluated(self, kind: type, dtype_is) -> Any:
        simple = self.simplify()
        if simple.op is not Ops.CONST and simple.vmin != simple.vmax:
            raise ValueError(
                f"eval failed to be a single number, range is {simple.vmin} to {simple.vmax} in "
                f"{simple.render()}"
            )
        value = simple.vmin
        if not dtype_is(simple.dtype):
            raise TypeError(f"cannot convert a node of {simple.dtype} to {kind.__name__}")
        return kind(value)

    def __bool__(self) -> bool:
        return self._evaluated(bool, dtypes.is_bool)

    def __int__(self) -> int:
        return self._evaluated(int, dtypes.is_int)

    def __index__(self) -> int:
        return self._evaluated(int, dtypes.is_int)

    def __float__(self) -> float:
        return self._evaluated(float, dtypes.is_float)

    def substitute(self, dvars: dict[UOp, UOp], name: str | None = None, extra_pm=None) -> UOp:
        """The graph with nodes replaced; what a replacement brings in is replaced again below it.

        With `extra_pm` its rules are tried on the way, and not on what was replaced.

        >>> n = UOp.variable("n", 1, 8)
        >>> (n + 1).substitute({n: n.const_like(4)}).simplify().arg
        5
        """
        from tinygrad.uop.ops import _substitute, graph_rewrite, substitute_nodes

        if not dvars and extra_pm is None:
            return self
        if extra_pm is None:
            return substitute_nodes(self, dvars)
        matcher = _substitute + extra_pm
        return graph_rewrite(self, matcher, dvars, bottom_up=True, name=name or "substitute")

    def replace_nodes(self, dvars: dict[UOp, UOp]) -> UOp:
        """The graph with nodes replaced in one pass: replacements are taken as they are.

        So a replacement may contain the node it stands for, as a BIND contains its variable.
        """
        return replaced(self, dvars)

    def sym_infer(self, var_vals: dict[str, int]) -> int:
        """The value with the named variables set. Raises KeyError for a variable not in the dict.

        >>> n = UOp.variable("n", 1, 8)
        >>> (n * 2 + 1).sym_infer({"n": 3})
        7
        """
        values: dict[UOp, int] = {}
        bound = {u.src[0]: u.val for u in self.toposort() if u.op is Ops.BIND}
        for u in self.toposort():
            if u.op is Ops.CONST:
                values[u] = u.arg
            elif u.op is Ops.DEFINE_VAR:
                values[u] = _value_of(u, var_vals, bound)
            elif u.op in (Ops.BIND, Ops.CAST):
                values[u] = dtypes.as_const(values[u.src[0]], u.dtype)
            elif u.op in python_alu:
                values[u] = python_alu[u.op](*(values[s] for s in u.src))
            else:
                raise RuntimeError(f"{u.op} cannot be evaluated: {self.render(simplify=False)}")
        return values[self]
