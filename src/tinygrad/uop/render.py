"""Nodes as text: as a formula, as Python that evaluates back, as a table of instructions.

No function here recurses over the graph. `to_formula` is `UOp.render`, `to_python` is `repr`,
`to_script` is `UOp.pyrender`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tinygrad._core import UOp
from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.installed import Installed

# ---- formulas

_SIGNS = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.IDIV: "//",
    Ops.MOD: "%",
    Ops.FDIV: "/",
    Ops.POW: "**",
    Ops.SHL: "<<",
    Ops.SHR: ">>",
    Ops.CMPLT: "<",
    Ops.CMPNE: "!=",
    Ops.CMPEQ: "==",
    Ops.AND: "&",
    Ops.OR: "|",
    Ops.XOR: "^",
}
# how tightly the ops bind that may go without parentheses inside each other
_BINDING = {Ops.ADD: 1, Ops.SUB: 1, Ops.MUL: 2, Ops.IDIV: 2, Ops.MOD: 2}
_METHODS = {
    Ops.MAX: "maximum",
    Ops.EXP2: "exp2",
    Ops.LOG2: "log2",
    Ops.SIN: "sin",
    Ops.SQRT: "sqrt",
    Ops.RECIPROCAL: "reciprocal",
    Ops.TRUNC: "trunc",
    Ops.WHERE: "where",
    Ops.THREEFRY: "threefry",
}


def _operand(text: str, child: UOp, parent: UOp, least: int) -> str:
    """The text of an operand, without parentheses that the ops make needless."""
    bound = _BINDING.get(child.op, 0)
    needless = parent.op in _BINDING and bound >= _BINDING[parent.op] + least and bound > 0
    return text[1:-1] if needless else text


def _infix(u: UOp, a: str, b: str) -> str:
    left = _operand(a, u.src[0], u, 0)
    right = _operand(b, u.src[1], u, 1)
    return f"({left}{_SIGNS[u.op]}{right})"


def _axis_name(u: UOp) -> str:
    axis = u.arg[0] if isinstance(u.arg, tuple) and u.arg else u.arg
    parts = axis if isinstance(axis, tuple) else (axis,)
    return "r" + "_".join(str(part).replace("-", "m") for part in parts)


def _lanes(u: UOp, texts: list[str]) -> str:
    same = len(u.src) > 1 and all(s is u.src[0] for s in u.src)
    return f"{{{texts[0]}, ...}}" if same else f"{{{','.join(texts)}}}"


def _dtype_name(dtype) -> str:
    return repr(dtype).removeprefix("dtypes.")


def _call(u: UOp, texts: list[str]) -> str:
    extra = [] if u.arg is None else [argument_text(u.arg)]
    return f"{u.op.name}({', '.join([*texts, *extra])})"


_FORMULAS: dict[Ops, Callable[[UOp, list[str]], str]] = {
    Ops.DEFINE_VAR: lambda u, t: u.arg[0] if isinstance(u.arg, tuple) else _call(u, t),
    Ops.SPECIAL: lambda u, t: str(u.arg),
    Ops.RANGE: lambda u, t: _axis_name(u),
    Ops.CONST: lambda u, t: str(u.arg),
    Ops.VCONST: lambda u, t: str(u.arg),
    Ops.VECTORIZE: lambda u, t: _lanes(u, t) if t else "{}",
    Ops.BIND: lambda u, t: f"{t[0]}[={t[1]}]",
    Ops.CAST: lambda u, t: f"({_dtype_name(u.dtype)})({t[0]})",
    Ops.NEG: lambda u, t: f"(-{t[0]})",
    Ops.MULACC: lambda u, t: f"({t[0]}*{t[1]}+{t[2]})",
    Ops.INDEX: lambda u, t: f"{t[0]}[{','.join(t[1:])}]",
    Ops.GEP: lambda u, t: f"{t[0]}.gep({u.arg})",
    **{op: lambda u, t: _infix(u, t[0], t[1]) for op in _SIGNS},
    **{op: lambda u, t: f"{t[0]}.{_METHODS[u.op]}({', '.join(t[1:])})" for op in _METHODS},
}


# operands with longer texts are left out, so that the text of a chain or of shared nodes stays bounded
_LONGEST_OPERAND = 20_000


def to_formula(u: UOp) -> str:
    """The node as a formula in Python's notation, with as few parentheses in sums as will do.

    Operands of more than 20,000 characters are written `(...)`.
    """
    order = u.toposort()
    waiting = _use_counts(order)
    texts: dict[UOp, str] = {}
    for x in order:
        text = _FORMULAS.get(x.op, _call)(x, [texts[s] for s in x.src])
        texts[x] = text if len(text) <= _LONGEST_OPERAND or x is u else "(...)"
        for s in x.src:
            waiting[s] -= 1
            if not waiting[s]:
                del texts[s]
    return texts[u]


# ---- Python


def argument_text(arg) -> str:
    """An argument as Python that evaluates to it."""
    if isinstance(arg, float) and not math.isfinite(arg):
        return f"float('{arg}')"
    if type(arg) is tuple:
        inner = ", ".join(map(argument_text, arg))
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    return repr(arg)


def _head(u: UOp) -> str:
    tag = "" if u.tag is None else f", tag={argument_text(u.tag)}"
    return f"UOp({u.op}, {u.dtype!r}, arg={argument_text(u.arg)}{tag}, src=("


def _use_counts(nodes: Iterable[UOp]) -> dict[UOp, int]:
    """How often each node is a source of the given ones."""
    uses: dict[UOp, int] = {}
    for x in nodes:
        for s in x.src:
            uses[s] = uses.get(s, 0) + 1
    return uses


def _shared(u: UOp) -> dict[UOp, str]:
    """A name for each node that stands in the text more than once."""
    return {x: "" for x, count in _use_counts(u.toposort()).items() if count > 1}


# deeper nodes are not indented further, so that the text of a chain grows as the chain does
_DEEPEST_INDENT = 200


def to_python(u: UOp) -> str:
    """The graph as one Python expression; shared nodes are named where they first stand."""
    names = _shared(u)
    count = 0
    pieces: list[str] = []
    pending: list[tuple[UOp | None, int, str]] = [(u, 0, "")]
    while pending:
        x, depth, closing = pending.pop()
        if x is None:
            pieces.append(closing)
            continue
        if names.get(x):
            pieces.append(f"{' ' * depth}{names[x]}{closing}")
            continue
        label = ""
        if x in names:
            names[x] = f"x{count}"
            label = f"{names[x]}:="
            count += 1
        opening = f"{' ' * depth}{label}{_head(x)}"
        if not x.src:
            pieces.append(f"{opening})){closing}")
            continue
        pieces.append(f"{opening}\n")
        pending.append((None, 0, f")){closing}"))
        last = len(x.src) - 1
        below = min(depth + 2, _DEEPEST_INDENT)
        for place in range(last, -1, -1):
            pending.append((x.src[place], below, "," if place == last else ",\n"))
    return "".join(pieces)


def to_script(u: UOp) -> str:
    """The graph as Python statements, one per node; the last one sets `ast`."""
    names: dict[UOp, str] = {}
    lines = []
    for number, x in enumerate(u.toposort()):
        names[x] = "ast" if x is u else f"c{number}"
        sources = "".join(f"{names[s]}, " for s in x.src).rstrip(" ")
        if len(x.src) > 1:
            sources = sources.rstrip(",")
        tag = "" if x.tag is None else f", tag={argument_text(x.tag)}"
        body = f"UOp({x.op}, {x.dtype!r}, ({sources}), {argument_text(x.arg)}{tag})"
        lines.append(f"{names[x]} = {body}")
    return "\n".join(lines)


# ---- tables


def instruction_lines(uops: Iterable[UOp]) -> list[str]:
    """One line per instruction: number, op, loops it stands in, dtype, sources by number, arg."""
    uops = list(uops)
    number = {u: place for place, u in enumerate(uops)}
    lines = []
    for place, u in enumerate(uops):
        sources = [
            str(number[s])
            if s in number
            else f"--{argument_text(s.arg) if not s.src else s.op.name}"
            for s in u.src
        ]
        loops = ",".join(_axis_name(r) for r in u.ranges if r.op is Ops.RANGE)
        dtype = "" if u.dtype is dtypes.void else _dtype_name(u.dtype)
        arg = "" if u.arg is None else argument_text(u.arg)
        lines.append(
            f"{place:4d} {u.op.name:16s} {loops:12s} {dtype:28s} [{', '.join(sources)}] {arg}".rstrip()
        )
    return lines


def print_uops(uops: list[UOp]) -> None:
    """Prints an instruction list."""
    print("\n".join(instruction_lines(uops)))


class RenderMethods(Installed):
    """Text forms of a node."""

    def render(self, simplify: bool = True, pm=None) -> str:
        """The node as a formula. `pm` may turn nodes into NOOPs whose arg is their text instead.

        >>> (UOp.variable("n", 1, 8) * 2 + 1).render()
        '(n*2+1)'
        """
        u = self.simplify() if simplify else self
        if pm is None:
            return to_formula(u)
        from tinygrad._core import graph_rewrite

        text = graph_rewrite(u, pm)
        return text.arg if text.op is Ops.NOOP else to_python(text)

    def pyrender(self) -> str:
        """The graph as Python statements that build it; the last one sets `ast`.

        >>> print(UOp.variable("n", 1, 8).pyrender())
        ast = UOp(Ops.DEFINE_VAR, dtypes.index, (), ('n', 1, 8))
        """
        return to_script(self)

    def argstr(self) -> str:
        """The argument as text.

        >>> UOp.const(dtypes.int32, 3).argstr()
        '3'
        """
        return argument_text(self.arg)

    def tagstr(self) -> str:
        """The tag as text."""
        return "" if self.tag is None else f", tag={argument_text(self.tag)}"

    def __repr__(self) -> str:
        return to_python(self)
