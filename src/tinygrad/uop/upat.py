"""Patterns over the graph.

A `UPat` describes nodes: which operations, dtypes, argument and sources they may have, and under which name a matched node is handed
to the function of a rule. `tinygrad._core.PatternMatcher` compiles patterns once, from the attributes of this class, so
patterns are immutable by convention. Arithmetic on patterns (`UPat.var("x") + 0`) gives patterns of the nodes that the same
arithmetic on nodes builds. Used by every module with rules.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from tinygrad._core import Rule, bind, match_all, set_structure
from tinygrad.dtype import DType, dtypes
from tinygrad.mixin import OpMixin
from tinygrad.uop import GroupOp, Ops

__all__ = ["UPat", "upat_compile"]

bind(Ops, dtypes)
set_structure(Ops)

_OWN_FILES = (__file__, "<string>")
_COMPARISONS = frozenset((Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ))


def _as_tuple(value: Any, kind: type, what: str) -> tuple | None:
    """One member, a collection of members or None, as a tuple or None."""
    if value is None:
        return None
    members = (value,) if isinstance(value, kind) else tuple(value)
    for member in members:
        if not isinstance(member, kind):
            raise TypeError(
                f"{what} of a UPat must be {kind.__name__}s, got {member!r} in {value!r}"
            )
    return members


def _creation_place() -> tuple[str, int]:
    """File and line of the code that writes the pattern: the first frame outside patterns and mixins."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if name not in _OWN_FILES and "/mixin/" not in name:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class UPat(OpMixin):
    """A pattern of nodes.

    op, dtype: one, several, or None for any; a scalar dtype also matches its vectors. src: a tuple (sources in this order), a list
    (in any order), one pattern (every source), None (any sources). allow_any_len: further sources may follow. arg: equal
    argument, None for any. name: the captured name; the same name twice must meet the same node.
    custom_early_reject: operations that must occur among the sources, replacing what is derived from src.
    """

    __slots__ = (
        "op",
        "dtype",
        "arg",
        "name",
        "src",
        "sources",
        "source_mode",
        "allow_any_len",
        "custom_early_reject",
        "location",
        "is_any",
    )

    def __init__(
        self,
        op: Ops | tuple[Ops, ...] | set[Ops] | None = None,
        dtype: DType | tuple[DType, ...] | set[DType] | None = None,
        src: tuple[UPat, ...] | list[UPat] | UPat | None = None,
        arg: Any = None,
        name: str | None = None,
        allow_any_len: bool = False,
        custom_early_reject: set[Ops] | None = None,
        location: tuple[str, int] | None = None,
        is_any: bool = False,
    ):
        self.op = _as_tuple(op, Ops, "op")
        self.dtype = _as_tuple(dtype, DType, "dtype")
        self.arg = arg
        self.name = name
        self.allow_any_len = allow_any_len
        self.custom_early_reject = custom_early_reject
        self.is_any = is_any
        self.location = location or _creation_place()
        self._set_sources(src)

    def _set_sources(self, src: tuple[UPat, ...] | list[UPat] | UPat | None) -> None:
        self.source_mode = "ordered"
        self.src: list | None = None
        if src is None:
            if self.is_any:
                raise ValueError("UPat.any needs at least one alternative")
            self.sources = None
            return
        self.sources = (src,) if isinstance(src, UPat) else tuple(src)
        for pattern in self.sources:
            if not isinstance(pattern, UPat):
                raise TypeError(f"src of a UPat must hold UPats, got {pattern!r}; use UPat.const")
        if isinstance(src, UPat):
            self.source_mode = "every"
            self.src = [itertools.repeat(src)]
        elif isinstance(src, list):
            self.source_mode = "permuted"
            self.src = list(itertools.permutations(self.sources))
        else:
            self.src = [self.sources]

    def _given_source(self) -> tuple[UPat, ...] | list[UPat] | UPat | None:
        """The src argument this pattern was made with."""
        if self.sources is None or self.source_mode == "ordered":
            return self.sources
        return self.sources[0] if self.source_mode == "every" else list(self.sources)

    def __reduce__(self):
        fields = (self.op, self.dtype, self._given_source(), self.arg, self.name)
        # the place is that of the caller, who names the pattern
        rest = (self.allow_any_len, self.custom_early_reject, None, self.is_any)
        return UPat, fields + rest

    def __repr__(self) -> str:
        if self.is_any:
            return "UPat.any(" + ", ".join(map(repr, self.sources or ())) + ")"
        shown = []
        if self.op is not None:
            shown.append(
                str(self.op[0]) if len(self.op) == 1 else f"({', '.join(map(str, self.op))})"
            )
        for field in ("dtype", "arg", "name"):
            if getattr(self, field) is not None:
                shown.append(f"{field}={getattr(self, field)!r}")
        if self.sources is not None:
            shown.append(f"src={self._given_source()!r}")
        if self.allow_any_len:
            shown.append("allow_any_len=True")
        return f"UPat({', '.join(shown)})"

    # ---- patterns without operands

    @staticmethod
    def var(name: str | None = None, dtype: DType | tuple[DType, ...] | None = None) -> UPat:
        """Any node (of these dtypes)."""
        return UPat(dtype=dtype, name=name)

    @staticmethod
    def cvar(
        name: str | None = None,
        dtype: DType | tuple[DType, ...] | None = None,
        vec: bool = True,
        arg: Any = None,
    ) -> UPat:
        """Any constant; vector constants only with vec."""
        ops = (Ops.CONST, Ops.VCONST) if vec else Ops.CONST
        return UPat(ops, dtype=dtype, name=name, arg=arg)

    @staticmethod
    def const(dtype: DType | tuple[DType, ...] | None, b: Any) -> UPat:
        """The constant equal to b."""
        return UPat(Ops.CONST, dtype=dtype, arg=b)

    @staticmethod
    def any(*src: UPat | tuple[UPat, ...] | list[UPat]) -> UPat:
        """What one of the alternatives matches, tried in this order."""
        flat: Any = src[0] if len(src) == 1 and isinstance(src[0], (tuple, list)) else src
        return UPat(src=tuple(flat), is_any=True)

    # ---- the same pattern with a name

    def named(self, name: str) -> UPat:
        """The pattern, capturing the node as `name`."""
        # the place is that of the caller, who names the pattern
        rest = (self.allow_any_len, self.custom_early_reject, None, self.is_any)
        return UPat(self.op, self.dtype, self._given_source(), self.arg, name, *rest)

    def or_casted(self, name: str | None = None) -> UPat:
        """The pattern, or a CAST of it."""
        plain = self if name is None else self.named(name)
        return UPat.any(plain, UPat(Ops.CAST, name=name, src=(self,)))

    def or_after(self, name: str | None = None) -> UPat:
        """The pattern, or an AFTER of it."""
        plain = self if name is None else self.named(name)
        return UPat.any(plain, UPat(Ops.AFTER, name=name, src=(self,), allow_any_len=True))

    # ---- patterns of users of this one

    def f(self, op: Ops, **kwargs: Any) -> UPat:
        """A node with this pattern as its only source."""
        return UPat(op, src=(self,), **kwargs)

    def _user(self, op: Ops, others: tuple, dtype: Any = None, **kwargs: Any) -> UPat:
        kwargs.setdefault("dtype", dtype)
        return UPat(op, src=(self, *[s for s in others if s is not None]), **kwargs)

    def sink(self, *srcs: UPat | None, **kwargs: Any) -> UPat:
        return self._user(Ops.SINK, srcs, dtypes.void, **kwargs)

    def index(self, idx: UPat, valid: UPat | None = None, **kwargs: Any) -> UPat:
        return self._user(Ops.INDEX, (idx, valid), self.dtype, **kwargs)

    def cast(self, dtype: Any = None, **kwargs: Any) -> UPat:
        return self._user(Ops.CAST, (), dtype, **kwargs)

    def bitcast(self, dtype: Any = None) -> UPat:
        return self._user(Ops.BITCAST, (), dtype)

    def gep(self, i: int | None = None, **kwargs: Any) -> UPat:
        return self._user(Ops.GEP, (), self.dtype, arg=None if i is None else (i,), **kwargs)

    def load(self, *src: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.LOAD, src, **kwargs)

    def store(self, *src: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.STORE, src, **kwargs)

    def assign(self, x: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.ASSIGN, (x,), self.dtype, **kwargs)

    def reduce(self, *src: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.REDUCE, src, self.dtype, **kwargs)

    def contiguous(self, *args: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.CONTIGUOUS, args, self.dtype, **kwargs)

    def after(self, *src: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.AFTER, src, self.dtype, **kwargs)

    def end(self, *src: UPat, **kwargs: Any) -> UPat:
        return self._user(Ops.END, src, self.dtype, **kwargs)

    def broadcast(self, **kwargs: Any) -> UPat:
        """A VECTORIZE all of whose sources match."""
        return UPat(Ops.VECTORIZE, self.dtype, src=self, **kwargs)

    # ---- what the mixins need

    def const_like(self, b: Any) -> UPat:
        return UPat.const(self.dtype, b)

    def alu(self, op: Ops, *src: UPat) -> UPat:
        """The pattern of `op` over these operands, in any order when it commutes."""
        operands = (self, *src)
        dtype = dtypes.bool if op in _COMPARISONS else operands[-1].dtype
        return UPat(op, dtype, list(operands) if op in GroupOp.Commutative else operands)

    def match(self, uop: Any, store: dict[str, Any]) -> list[dict[str, Any]]:
        """Every way to match a node: the captures of each, on top of those in store."""
        return match_all(self, uop, store)


def upat_compile(self: UPat, fxn: Callable) -> Callable | None:
    """A function `(node, ctx) -> result or None` for one rule (compiled by the core, so always available)."""
    return Rule(self, fxn).rewrite


def _get_code(self: UPat, has_ctx: bool) -> tuple[str, dict[str, Any]]:
    """The program of a pattern as text, and the objects it refers to by name."""
    rule = Rule(self, lambda **captures: captures)
    return rule.listing(), dict(zip(rule.names, rule.names))
