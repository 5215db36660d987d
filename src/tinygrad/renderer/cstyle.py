"""C-like source text from a linear instruction list.

In: the ordered UOps of one kernel (see `Renderer.render`). Out: one function in a C dialect. A
dialect is a subclass: it names types (`type_map`), operators (`code_for_op`), storage classes and
work-item ids, and puts its own rules in front of `string_rewrite`. A rule sees `ctx` (the
renderer) and one UOp, and returns text; `ctx[u]` is the text of an already rendered UOp.

Invariants: the list is in execution order; every value is a pure expression except LOAD, which is
always read into a variable where it stands, so that inlining never moves a read over a write.
"""

from __future__ import annotations

import importlib
import math
import struct
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

from tinygrad.dtype import AddrSpace, DType, PtrDType, dtypes, truncate
from tinygrad.helpers import strip_parens
from tinygrad.renderer import Renderer
from tinygrad.renderer.abi import (
    access_gate,
    buffer_under,
    function_name,
    kernel_parameters,
    parameter_name,
    range_name,
)
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UOp, UPat

if TYPE_CHECKING:
    from collections.abc import Callable

# An expression longer than this is given a name, even when it is used once: compilers bound the
# nesting of brackets (clang: 256), and readers bound the width of a line.
_LONGEST_INLINE = 120
_INDENT = "  "
LANE_NAMES = "xyzwabcdefghijkl"
_INLINE_ALWAYS = frozenset({Ops.CONST, Ops.INDEX, Ops.AFTER, Ops.CUSTOMI})
_INLINE_ONCE = frozenset(
    GroupOp.ALU | {Ops.CAST, Ops.BITCAST, Ops.VECTORIZE, Ops.VCONST, Ops.CAT, Ops.GEP}
)
_SILENT = frozenset({Ops.NOOP, Ops.GROUP, Ops.SINK})
_STATEMENT = frozenset(
    {
        Ops.STORE,
        Ops.RANGE,
        Ops.END,
        Ops.IF,
        Ops.ENDIF,
        Ops.BARRIER,
        Ops.DEFINE_REG,
        Ops.DEFINE_LOCAL,
        Ops.CUSTOM,
    }
)
_OPENING = frozenset({Ops.RANGE, Ops.IF})
_CLOSING = frozenset({Ops.END, Ops.ENDIF})
# arithmetic on bools is logic: 1 + 1 is 1 also before it is stored
_BOOL_FORM = {Ops.ADD: Ops.OR, Ops.MUL: Ops.AND, Ops.MAX: Ops.OR}
_NAME_PREFIX = {
    Ops.LOAD: "val",
    Ops.CAST: "cast",
    Ops.BITCAST: "bits",
    Ops.VECTORIZE: "vec",
    Ops.VCONST: "vec",
    Ops.CAT: "vec",
    Ops.GEP: "lane",
    Ops.WMMA: "wmma",
    Ops.CUSTOMI: "custom",
}


# *** rules of plain C ***


def _declare_storage(ctx: CStyleLanguage, x: UOp) -> str:
    shared = x.op is Ops.DEFINE_LOCAL
    prefix = (ctx.smem_align + ctx.smem_prefix) if shared else ""
    return f"{prefix}{ctx.type_name(x.dtype.base)} {ctx[x]}[{max(x.dtype.size, 1)}];"


def _open_loop(ctx: CStyleLanguage, x: UOp) -> str:
    kind, name = ctx.type_name(x.dtype), ctx[x]
    return f"for ({kind} {name} = 0; {name} < {ctx[x.src[0]]}; {name}++) {{"


def _render_index(ctx: CStyleLanguage, x: UOp) -> str:
    text, src = ctx._text, x.src
    return f"({text[src[0]]}+{text[src[1]]})"


def _render_load(ctx: CStyleLanguage, x: UOp) -> str:
    gate = access_gate(x)
    value = ctx.render_access(x.src[0])
    return value if gate is None else f"({ctx[gate]}?{value}:{ctx[x.src[1]]})"


def _render_store(ctx: CStyleLanguage, x: UOp) -> str:
    gate = access_gate(x)
    text = f"{ctx.render_access(x.src[0])} = {ctx.unwrapped(x.src[1])};"
    return text if gate is None else f"if ({ctx[gate]}) {{ {text} }}"


def _render_vector(ctx: CStyleLanguage, x: UOp) -> str:
    return ctx.render_vector(x.dtype, [lane for s in x.src for lane in ctx.lanes(s)])


def _render_vconst(ctx: CStyleLanguage, x: UOp) -> str:
    scalar = x.dtype.scalar()
    return ctx.render_vector(x.dtype, [ctx.render_literal(scalar, v) for v in x.arg])


def _render_gep(ctx: CStyleLanguage, x: UOp) -> str:
    picked = [ctx.render_lane(x.src[0], i) for i in x.arg]
    return picked[0] if len(picked) == 1 else ctx.render_vector(x.dtype, picked)


def _render_alu(ctx: CStyleLanguage, x: UOp) -> str:
    op, dtype, texts = x.op, x.dtype, ctx._text
    scalar = dtype.scalar()
    if scalar is dtypes.bool:
        op = _BOOL_FORM.get(op, op)
    text = ctx.code_for_op[op](*[texts[s] for s in x.src], dtype)
    # C computes small integers (and some compilers small floats) wider than they are stored
    if scalar.itemsize < 4 and dtype.count == 1 and dtype is not dtypes.bool:
        return f"({ctx.render_cast(dtype, strip_parens(text))})"
    return text


def _render_workitem(ctx: CStyleLanguage, x: UOp) -> str:
    kind, axis = x.arg[0], x.arg[-1]
    if kind not in ctx.code_for_workitem:
        raise RuntimeError(
            f"{type(ctx).__name__} has no work-item of kind {kind!r} (got SPECIAL {x.arg!r}); "
            f"it knows {sorted(ctx.code_for_workitem)}"
        )
    return ctx.code_for_workitem[kind](axis)


base_rewrite = PatternMatcher(
    [
        (UPat((Ops.DEFINE_REG, Ops.DEFINE_LOCAL), name="x"), _declare_storage),
        (UPat(Ops.RANGE, name="x"), _open_loop),
        (UPat(Ops.IF, name="x"), lambda ctx, x: f"if ({ctx.unwrapped(x.src[0])}) {{"),
        (UPat((Ops.END, Ops.ENDIF)), lambda ctx: "}"),
        (UPat(Ops.BARRIER), lambda ctx: ctx.barrier),
        (UPat(Ops.SPECIAL, name="x"), _render_workitem),
        (UPat(Ops.CONST, name="x"), lambda ctx, x: ctx.render_const(x)),
        (UPat(Ops.VCONST, name="x"), _render_vconst),
        (UPat((Ops.VECTORIZE, Ops.CAT), name="x"), _render_vector),
        (UPat(Ops.GEP, name="x"), _render_gep),
        (UPat(Ops.INDEX, name="x"), _render_index),
        (UPat(Ops.AFTER, name="x"), lambda ctx, x: ctx[x.src[0]]),
        (UPat(Ops.LOAD, name="x"), _render_load),
        (UPat(Ops.STORE, name="x"), _render_store),
        (
            UPat(Ops.BITCAST, name="x"),
            lambda ctx, x: f"(*(({ctx.type_name(x.dtype)}*)&{ctx[x.src[0]]}))",
        ),
        (
            UPat(Ops.CAST, name="x"),
            lambda ctx, x: f"({ctx.render_cast(x.dtype, ctx.unwrapped(x.src[0]))})",
        ),
        (
            UPat(Ops.WMMA, name="x"),
            lambda ctx, x: f"__{x.arg[0]}({', '.join(ctx[s] for s in x.src)})",
        ),
        (
            UPat((Ops.CUSTOM, Ops.CUSTOMI), name="x"),
            lambda ctx, x: x.arg.format(*(ctx[s] for s in x.src)),
        ),
        (UPat(tuple(GroupOp.ALU), name="x"), _render_alu),
    ]
)


_SIGNS = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.IDIV: "/", Ops.MOD: "%",
    Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>",
    Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
}  # fmt: skip
_WORDS = {
    Ops.SQRT: "sqrt", Ops.TRUNC: "trunc", Ops.EXP2: "exp2", Ops.LOG2: "log2", Ops.SIN: "sin",
}  # fmt: skip


def _infix(sign: str) -> Callable[..., str]:
    return lambda a, b, dtype: f"({a}{sign}{b})"


def _call(word: str) -> Callable[..., str]:
    return lambda x, dtype: f"{word}({x})"


class CStyleLanguage(Renderer):
    """Renders C; the attributes are what a dialect changes.

    `kernel_typedef` is the return type with its qualifiers, `buffer_prefix` and `buffer_suffix`
    surround pointer parameters, `smem_*` shared arrays, `arg_int_prefix` is the type of integer
    parameters, `extra_args` more parameters, `code_for_workitem` the ids by kind letter, `float4`
    and `float4_style` the vector constructor and its brackets, and up to `gep_arr_threshold`
    lanes are named `.x .y .z .w`, more are indexed.
    """

    # the function and its parameters
    kernel_typedef: str = "void"
    arg_int_prefix: str = "const int"
    buffer_prefix: str = ""
    buffer_suffix: str = ""
    extra_args: list[str] = []
    # work-groups
    code_for_workitem: dict[str, Callable[[str], str]] = {}
    barrier: str = ""
    smem_prefix: str = ""
    smem_prefix_for_cast: bool = True
    smem_align: str = ""
    # types and values
    type_map: dict[DType, str] = {}
    nan: str = "NAN"
    infinity: str = "INFINITY"
    gep_arr_threshold: int = 4
    float4_style: tuple[str, str] = ("{", "}")
    float4: str | None = None
    bitcast_by_address: bool = True
    # operations: called with the texts of the operands and the dtype of the result
    code_for_op = {
        **{op: _infix(sign) for op, sign in _SIGNS.items()},
        **{op: _call(word) for op, word in _WORDS.items()},
        Ops.NEG: lambda x, dtype: f"(-{x})",
        Ops.RECIPROCAL: lambda x, dtype: f"(1/{x})",
        Ops.WHERE: lambda c, a, b, dtype: f"({c}?{a}:{b})",
    }
    string_rewrite = base_rewrite
    extra_matcher: PatternMatcher | None = None

    def __init__(self):
        self._text: dict[UOp, str] = {}
        # names of the types that the kernel mentions
        self._types: dict[DType, str] = {}

    def __getitem__(self, u: UOp) -> str:
        """The text of an already rendered UOp (rules use this for operands)."""
        return self._text[u]

    # *** pieces of text ***

    def render_dtype(self, dt: DType, mutable: bool = True) -> str:
        """Name of a type; pointers carry their storage class, vectors their lane count."""
        if isinstance(dt, PtrDType):
            storage = ""
            if dt.addrspace == AddrSpace.LOCAL and self.smem_prefix_for_cast:
                storage = self.smem_prefix
            elif dt.addrspace == AddrSpace.GLOBAL:
                storage = self.buffer_prefix
            inner = dt.base.vec(dt.v) if dt.v > 1 else dt.base
            return f"{storage}{'' if mutable else 'const '}{self.render_dtype(inner)}*"
        scalar = dt.scalar()
        name = self.type_map.get(scalar, scalar.name)
        return name if dt.count == 1 else f"{name.replace(' ', '_').strip('_')}{dt.count}"

    def type_name(self, dt: DType) -> str:
        """`render_dtype(dt)`, remembered while one kernel is rendered."""
        found = self._types.get(dt)
        if found is None:
            found = self._types[dt] = self.render_dtype(dt)
        return found

    def render_cast(self, dt: DType, val: str) -> str:
        """`val` converted to `dt`."""
        return f"({self.type_name(dt)})({val})"

    def render_const(self, x: UOp) -> str:
        """A literal that reads back as exactly the value of the CONST `x`."""
        literal = self.render_literal(x.dtype.scalar(), x.arg)
        return (
            literal
            if x.dtype.count == 1
            else self.render_vector(x.dtype, [literal] * x.dtype.count)
        )

    def render_vector(self, dt: DType, parts: list[str]) -> str:
        """A vector value of type `dt` from the texts of its lanes."""
        left, right = self.float4_style
        kind = self.type_name(dt)
        head = f"({kind})" if self.float4 is None else self.float4.replace("float4", kind)
        return f"{head}{left}{','.join(parts)}{right}"

    def render_literal(self, dt: DType, value) -> str:
        """A literal of the scalar type `dt`."""
        if dt is dtypes.int32 and -(2**31) < value < 2**31:
            return str(int(value))
        if dt in dtypes.floats:
            return self._float_literal(dt, float(value))
        if dt is dtypes.bool:
            return "1" if value else "0"
        return self._int_literal(dt, int(value))

    def _float_literal(self, dt: DType, value: float) -> str:
        if math.isnan(value):
            text = self.nan
        elif math.isinf(value):
            text = self.infinity if value > 0 else f"-{self.infinity}"
        elif dt is dtypes.float64:
            return repr(value)
        else:
            short = value if dt in dtypes.fp8s else truncate[dt](value)
            # nine significant digits name every float32, and so every smaller format
            text = f"{struct.unpack('f', struct.pack('f', short))[0]:.9g}"
            text += "f" if any(c in text for c in ".e") else ".0f"
        if dt is dtypes.float32:
            return text if value >= 0 or math.isnan(value) else f"({text})"
        return f"({self.render_cast(dt, text)})"

    def _int_literal(self, dt: DType, value: int) -> str:
        value = truncate[dt](value)
        if dt is dtypes.int32:
            return str(value) if value > -(2**31) else "(-2147483647-1)"
        if dt is dtypes.int64:
            return f"{value}l" if value > -(2**63) else "(-9223372036854775807l-1l)"
        if dt is dtypes.uint32:
            return f"{value}u"
        if dt is dtypes.uint64:
            return f"{value}ul"
        return f"({self.render_cast(dt, str(value))})"

    def render_declaration(self, dt: DType, name: str, value: str) -> str:
        """The statement that gives a value its name."""
        return f"{self.type_name(dt)} {name} = {value};"

    def render_lane(self, u: UOp, lane: int) -> str:
        """One lane of the vector `u`."""
        if u.dtype.count == 1:
            return self[u]
        if u.dtype.count > self.gep_arr_threshold:
            return f"{self[u]}[{lane}]"
        return f"{self[u]}.{LANE_NAMES[lane]}"

    def lanes(self, u: UOp) -> list[str]:
        """All lanes of `u`, which may be a scalar."""
        return [self.render_lane(u, i) for i in range(u.dtype.count)]

    def render_access(self, address: UOp) -> str:
        """The place an address names, as an lvalue."""
        while address.op is Ops.AFTER:
            address = address.src[0]
        if address.op is Ops.INDEX:
            return f"{self[address.src[0]]}[{self.unwrapped(address.src[1])}]"
        return f"*{self[address]}"

    def unwrapped(self, u: UOp) -> str:
        """The text of `u` without a redundant outer pair of brackets."""
        return strip_parens(self[u])

    # *** the whole kernel ***

    def render_kernel(
        self,
        function_name: str,
        kernel: list[str],
        bufs: list[tuple[str, tuple[DType, bool]]],
        uops: list[UOp],
        prefix: list[str] | None = None,
    ) -> str:
        """Puts the body lines into a function; `bufs` are (name, (dtype, written to))."""
        params = [self.render_parameter(name, dt, mutable) for name, (dt, mutable) in bufs]
        head = f"{self.kernel_typedef} {function_name}({', '.join(params + self.extra_args)}) {{"
        return "\n".join([*(prefix or []), head, *kernel, "}"])

    def render_parameter(self, name: str, dt: DType, mutable: bool) -> str:
        """Declaration of one kernel parameter."""
        if isinstance(dt, PtrDType):
            return f"{self.render_dtype(dt, mutable)}{self.buffer_suffix} {name}"
        return f"{self.arg_int_prefix} {name}"

    def render(self, uops: list[UOp]) -> str:
        """Source text of the linear list `uops`."""
        return self.render_kernel(*_BodyWriter(self, uops).write(), uops)


class _BodyWriter:
    """One rendering of one list: decides names, what is inlined, and the indentation."""

    def __init__(self, ren: CStyleLanguage, uops: list[UOp]):
        self.ren = ren
        self.uops = uops
        self.uses = Counter(chain.from_iterable([u.src for u in uops]))
        # plain C reads the bits of a value through its address, so it must be a variable
        by_address = ren.bitcast_by_address
        self.addressed = {u.src[0] for u in uops if by_address and u.op is Ops.BITCAST}
        self.taken: dict[str, int] = {}
        self.lines: list[str] = []
        self.indent = _INDENT

    def write(self) -> tuple[str, list[str], list[tuple[str, tuple[DType, bool]]]]:
        text = self.ren._text = {}
        self.ren._types = {}
        bufs = self._parameters(text)
        rewrite, ren = self.ren.string_rewrite.rewrite, self.ren
        uses, addressed = self.uses, self.addressed
        for u in self.uops:
            op = u.op
            if op in _SILENT or u in text:
                continue
            if op in _STATEMENT:
                self._statement(u, text)
                continue
            value = rewrite(u, ren)
            if value is None:
                self._refuse(u)
            if op in _INLINE_ONCE:
                inline = uses[u] <= 1 and len(value) < _LONGEST_INLINE
            else:
                inline = op in _INLINE_ALWAYS
            # a pointer is no variable
            inline = (inline or isinstance(u.dtype, PtrDType)) and u not in addressed
            text[u] = value if inline else self._declared(u, value)
        return function_name(self.uops), self.lines, bufs

    def _parameters(self, text: dict[UOp, str]) -> list[tuple[str, tuple[DType, bool]]]:
        written = {buffer_under(u.src[0]) for u in self.uops if u.op is Ops.STORE}
        bufs = []
        for u in kernel_parameters(self.uops):
            text[u] = parameter_name(u)
            self.taken[text[u]] = self.taken.get(text[u], 0) + 1
            bufs.append((text[u], (u.dtype, u in written)))
        return bufs

    def _new_name(self, wanted: str, numbered: bool = True) -> str:
        count = self.taken.get(wanted, 0)
        self.taken[wanted] = count + 1
        if numbered or count:
            return self._free(f"{wanted}{count}" if numbered else f"{wanted}_{count}")
        return wanted

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken[name] = 1
        return name

    def _emit(self, line: str) -> None:
        if "\n" in line:
            self.lines.extend([self.indent + part for part in line.split("\n") if part])
        elif line:
            self.lines.append(self.indent + line)

    def _refuse(self, u: UOp) -> NoReturn:
        raise RuntimeError(
            f"{type(self.ren).__name__} cannot render {u.op} of {u.dtype} with sources "
            f"{[(s.op, s.dtype) for s in u.src]}; add a rule to its string_rewrite, or leave "
            "the op out of code_for_op so that it is decomposed"
        )

    def _statement(self, u: UOp, text: dict[UOp, str]) -> None:
        if u.op is Ops.RANGE:
            text[u] = self._new_name(range_name(u), numbered=False)
        elif u.op in (Ops.DEFINE_REG, Ops.DEFINE_LOCAL):
            text[u] = self._new_name("acc" if u.op is Ops.DEFINE_REG else "temp")
        line = self.ren.string_rewrite.rewrite(u, self.ren)
        if line is None:
            self._refuse(u)
        if u.op in _CLOSING:
            self.indent = self.indent[: -len(_INDENT)]
        self._emit(line)
        if u.op in _OPENING:
            self.indent += _INDENT

    def _declared(self, u: UOp, value: str) -> str:
        """Declares a variable of this value; returns its name."""
        note = ""
        if u.op is Ops.SPECIAL:
            name = self._new_name(str(u.arg), numbered=False)
            note = f" /* {u.src[0].arg if u.src[0].op is Ops.CONST else 'symbolic'} */"
        else:
            name = self._new_name(_NAME_PREFIX.get(u.op, "alu"))
        self._emit(self.ren.render_declaration(u.dtype, name, strip_parens(value)) + note)
        return name


# Renderers of one device live in that device's folder; these are the import paths users know.
_DIALECT_HOMES = {
    "CUDARenderer": "tinygrad.renderer.cuda",
    "ClangRenderer": "tinygrad.backends.cpu.renderer",
}


def __getattr__(name: str):
    home = _DIALECT_HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
