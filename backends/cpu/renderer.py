"""Kernels for the host processor, as C for clang and as LLVM IR.

Both dialects keep vectors of any lane count as values. In C they are `ext_vector_type`s that need
only their element's alignment; a vector of bools is a vector of bytes holding 0 or 1, which is also
how bools lie in memory, so that comparisons, masks and loads need no other form.
"""

from __future__ import annotations

from tinygrad.backends.cpu.helpers import helper_text
from tinygrad.backends.cpu.host import host

from tinygrad.dtype import DType, PtrDType, dtypes, float_to_fp8
from tinygrad.helpers import CPU_COUNT
from tinygrad.renderer.abi import access_gate, never_traps
from tinygrad.renderer.cstyle import CStyleLanguage, base_rewrite
from tinygrad.renderer.llvmir import LLVMRenderer
from tinygrad.renderer.narrow import (
    bf16_bits,
    bfloat16_by_bits,
    compute_in_float,
    fp8_by_bits,
    integers_by_signed,
    round_wide_once,
)
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

_NARROW = (dtypes.float16, dtypes.bfloat16, *dtypes.fp8s)
_COMPARES = (Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
_MASK_LANES = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}
host_matcher = (
    round_wide_once
    + bfloat16_by_bits
    + fp8_by_bits
    + integers_by_signed
    + compute_in_float(_NARROW)
)


def _is_vector(u: UOp) -> bool:
    return u.dtype.count > 1


def _full_register(lanes: int) -> bool:
    """Whether C loads and stores exactly this many lanes (it pads the others, 3 to 4)."""
    return lanes & (lanes - 1) == 0


# *** rules ***


def _vector_compare(ctx: ClangRenderer, x: UOp) -> str | None:
    if not _is_vector(x):
        return None
    test = ctx.code_for_op[x.op](ctx[x.src[0]], ctx[x.src[1]], x.dtype)
    return f"(__builtin_convertvector({test}, {ctx.type_name(x.dtype)})&1)"


def _vector_where(ctx: ClangRenderer, x: UOp) -> str | None:
    if not _is_vector(x.src[0]):
        return None
    lane = _MASK_LANES[x.dtype.scalar().itemsize]
    mask = ctx.type_name(lane.vec(x.dtype.count))
    condition = f"__builtin_convertvector({ctx[x.src[0]]}, {mask})!=0"
    return f"(({condition})?{ctx[x.src[1]]}:{ctx[x.src[2]]})"


def _divide(ctx: ClangRenderer, x: UOp) -> str | None:
    if never_traps(x.src[1]):
        return None
    kind = ("u" if dtypes.is_unsigned(x.dtype) else "i") + ("div" if x.op is Ops.IDIV else "mod")
    name = ctx.helper(("v" if _is_vector(x) else "") + kind, x.dtype)
    return f"{name}({ctx[x.src[0]]}, {ctx[x.src[1]]})"


def _maximum(ctx: ClangRenderer, x: UOp) -> str | None:
    if dtypes.is_bool(x.dtype):
        return None
    name = ctx.helper("fmaximum" if dtypes.is_float(x.dtype) else "maximum", x.dtype)
    return f"{name}({ctx[x.src[0]]}, {ctx[x.src[1]]})"


def _multiply_add(ctx: ClangRenderer, x: UOp) -> str:
    a, b, c = (ctx[s] for s in x.src)
    if not dtypes.is_float(x.dtype):
        return f"({a}*{b}+{c})"
    if _is_vector(x):
        return f"{ctx.helper('fma', x.dtype)}({a}, {b}, {c})"
    return f"__builtin_fma{_suffix(x.dtype)}({a}, {b}, {c})"


def _suffix(dt: DType) -> str:
    return "" if dt.scalar() is dtypes.float64 else "f"


def _float_function(ctx: ClangRenderer, x: UOp) -> str | None:
    word = "sqrt" if x.op is Ops.SQRT else "trunc"
    if _is_vector(x):
        return f"{ctx.helper(word, x.dtype)}({ctx[x.src[0]]})"
    return f"__builtin_{word}{_suffix(x.dtype)}({ctx[x.src[0]]})"


def _reciprocal(ctx: ClangRenderer, x: UOp) -> str:
    one = ctx.render_const(UOp.const(x.dtype, 1.0)) if not _is_vector(x) else "1.0f"
    if _is_vector(x):
        one = ctx.render_splat(x.dtype, ctx.render_literal(x.dtype.scalar(), 1.0))
    return f"({one}/{ctx[x.src[0]]})"


def _cast(ctx: ClangRenderer, x: UOp) -> str | None:
    if isinstance(x.dtype, PtrDType) or not _is_vector(x):
        return None
    if dtypes.is_bool(x.dtype):
        return f"(__builtin_convertvector({ctx[x.src[0]]}!=0, {ctx.type_name(x.dtype)})&1)"
    return f"__builtin_convertvector({ctx[x.src[0]]}, {ctx.type_name(x.dtype)})"


def _bitcast(ctx: ClangRenderer, x: UOp) -> str:
    source, kind = x.src[0], ctx.type_name(x.dtype)
    if kind == ctx.type_name(source.dtype):
        return ctx[source]
    if _is_vector(x) and _is_vector(source):
        return f"(({kind}){ctx[source]})"
    was = ctx.type_name(source.dtype)
    return f"((union {{{was} from; {kind} to;}}){{.from={ctx[source]}}}).to"


def _vectorize(ctx: ClangRenderer, x: UOp) -> str:
    first = x.src[0]
    if first.dtype.count == 1 and x.src.count(first) == len(x.src):
        return ctx.render_splat(x.dtype, ctx[first])
    texts = [ctx[s] for s in x.src]
    counts = {s.dtype.count for s in x.src}
    if counts == {1}:
        return ctx.render_vector(x.dtype, texts)
    if len(counts) > 1 or not _full_register(len(texts)):
        return ctx.render_vector(x.dtype, [lane for s in x.src for lane in ctx.lanes(s)])
    width = counts.pop()
    while len(texts) > 1:
        kind, order = x.dtype.scalar().vec(2 * width), range(2 * width)
        pairs = zip(texts[::2], texts[1::2], strict=True)
        texts = [ctx.render_shuffle(kind, a, b, order) for a, b in pairs]
        width *= 2
    return texts[0]


def _pick_lanes(ctx: ClangRenderer, x: UOp) -> str | None:
    if len(x.arg) == 1:
        return None
    source = ctx[x.src[0]]
    if not _is_vector(x.src[0]):
        return ctx.render_splat(x.dtype, source)
    return ctx.render_shuffle(x.dtype, source, source, x.arg)


def _load(ctx: ClangRenderer, x: UOp) -> str | None:
    gate = access_gate(x)
    if gate is not None and _is_vector(gate):
        name = ctx.helper("masked_load", x.dtype)
        return f"{name}({ctx.lane_pointer(x.src[0])}, {ctx[gate]}, {ctx[x.src[1]]})"
    if not _is_vector(x) or _full_register(x.dtype.count):
        return None
    value = f"{ctx.helper('load', x.dtype)}({ctx.lane_pointer(x.src[0])})"
    return value if gate is None else f"({ctx[gate]}?{value}:{ctx[x.src[1]]})"


def _store(ctx: ClangRenderer, x: UOp) -> str | None:
    gate, value = access_gate(x), x.src[1]
    if gate is not None and _is_vector(gate):
        name = ctx.helper("masked_store", value.dtype)
        return f"{name}({ctx.lane_pointer(x.src[0])}, {ctx[gate]}, {ctx.unwrapped(value)});"
    if not _is_vector(value) or _full_register(value.dtype.count):
        return None
    name = ctx.helper("store", value.dtype)
    text = f"{name}({ctx.lane_pointer(x.src[0])}, {ctx.unwrapped(value)});"
    return text if gate is None else f"if ({ctx[gate]}) {{ {text} }}"


class ClangRenderer(CStyleLanguage):
    """C with clang's vectors, for the host."""

    device = "CPU"
    suffix = "C"
    has_local = False
    has_threads = True
    global_max = (CPU_COUNT.value, 1, 1)
    local_max = None
    buffer_suffix = " restrict"
    gep_arr_threshold = 0
    bitcast_by_address = False
    infinity = "__builtin_inff()"
    nan = '__builtin_nanf("")'
    smem_align = "__attribute__((aligned(64))) "
    type_map = {
        dtypes.bool: "_Bool",
        dtypes.float16: "__fp16",
        dtypes.bfloat16: "unsigned short",
        dtypes.fp8e4m3: "unsigned char",
        dtypes.fp8e5m2: "unsigned char",
    }
    code_for_op = {
        op: code
        for op, code in CStyleLanguage.code_for_op.items()
        if op not in (Ops.SIN, Ops.EXP2, Ops.LOG2)
    } | {
        Ops.FDIV: lambda a, b, dtype: f"({a}/{b})",
        Ops.MAX: lambda a, b, dtype: f"({a}<{b}?{b}:{a})",
        **({Ops.MULACC: lambda a, b, c, dtype: f"({a}*{b}+{c})"} if host().has_fma else {}),
    }
    string_rewrite = (
        PatternMatcher(
            [
                (UPat(_COMPARES, name="x"), _vector_compare),
                (UPat(Ops.WHERE, name="x"), _vector_where),
                (UPat((Ops.IDIV, Ops.MOD), name="x"), _divide),
                (UPat(Ops.MAX, name="x"), _maximum),
                (UPat(Ops.MULACC, name="x"), _multiply_add),
                (UPat((Ops.SQRT, Ops.TRUNC), name="x"), _float_function),
                (UPat(Ops.RECIPROCAL, name="x"), _reciprocal),
                (UPat(Ops.CAST, name="x"), _cast),
                (UPat(Ops.BITCAST, name="x"), _bitcast),
                (UPat((Ops.VECTORIZE, Ops.CAT), name="x"), _vectorize),
                (UPat(Ops.GEP, name="x"), _pick_lanes),
                (UPat(Ops.LOAD, name="x"), _load),
                (UPat(Ops.STORE, name="x"), _store),
            ]
        )
        + base_rewrite
    )
    extra_matcher = host_matcher
    vector_bytes = host().vector_bytes
    vector_registers = host().vector_registers
    masked_lanes = host().has_masks

    def __init__(self):
        super().__init__()
        # helper functions that the kernel calls: name and text by word and type
        self._helpers: dict[tuple[str, DType], tuple[str, str]] = {}

    @property
    def threads(self) -> int:
        return max(1, CPU_COUNT.value)

    def render_dtype(self, dt: DType, mutable: bool = True) -> str:
        if not isinstance(dt, PtrDType) and dt.count > 1:
            word = {dtypes.bool: "bool", dtypes.float16: "half"}.get(dt.scalar())
            if word is not None:
                return f"{word}{dt.count}"
        return super().render_dtype(dt, mutable)

    def render_const(self, x: UOp) -> str:
        literal = self.render_literal(x.dtype.scalar(), x.arg)
        return literal if not _is_vector(x) else self.render_splat(x.dtype, literal)

    def render_literal(self, dt: DType, value) -> str:
        if dt is dtypes.bfloat16:
            return f"((unsigned short){bf16_bits(float(value))})"
        if dt in dtypes.fp8s:
            return f"((unsigned char){float_to_fp8(float(value), dt)})"
        return super().render_literal(dt, value)

    def render_vector(self, dt: DType, parts: list[str]) -> str:
        return f"({super().render_vector(dt, parts)})"

    def render_splat(self, dt: DType, value: str) -> str:
        """A vector with `value` in every lane; a cast, since adding to zero would cost an add."""
        if dt.scalar() is dtypes.float16:  # __fp16 is promoted before a cast could splat it
            return self.render_vector(dt, [value] * dt.count)
        if dt.scalar() is dtypes.bool:  # a true _Bool would be splatted as all ones
            value = f"(unsigned char)({value})"
        return f"(({self.type_name(dt)})({value}))"

    def render_shuffle(self, dt: DType, a: str, b: str, order) -> str:
        """Lanes of `a` and `b` in a new order; the cast is for compilers that forget the type."""
        picks = ",".join(map(str, order))
        return f"(({self.type_name(dt)})__builtin_shufflevector({a},{b},{picks}))"

    def lane_pointer(self, address: UOp) -> str:
        """The address as a pointer to single lanes."""
        return self[address.src[0] if address.op is Ops.CAST else address]

    def helper(self, word: str, dt: DType) -> str:
        """Asks for the helper function `word` on type `dt`; returns its name."""
        found = self._helpers.get((word, dt))
        if found is None:
            kind = self.type_name(dt)
            name = f"{word}_{kind.replace(' ', '_')}"
            bools = self.type_name(dtypes.bool.vec(dt.count))
            lane = self.type_name(dt.scalar())
            text = helper_text(word, name, kind, lane, bools, dt.count, dt.itemsize, _suffix(dt))
            found = self._helpers[word, dt] = name, text
        return found[0]

    def render_kernel(self, function_name, kernel, bufs, uops, prefix=None) -> str:
        body = super().render_kernel(function_name, kernel, bufs, uops)
        helpers = [text for _, text in self._helpers.values()]
        self._helpers = {}
        front = self._vector_types("\n".join([*helpers, body])) + helpers + (prefix or [])
        return "\n".join([*front, body])

    def _vector_types(self, text: str) -> list[str]:
        """Typedefs of the vector types that `text` mentions."""
        lines = []
        for dt, name in sorted(self._types.items(), key=lambda known: known[1]):
            if not isinstance(dt, PtrDType) and dt.count > 1 and name in text:
                scalar = dt.scalar()
                lane = "unsigned char" if scalar is dtypes.bool else self.render_dtype(scalar)
                kind = f"__attribute__((ext_vector_type({dt.count}), aligned({scalar.itemsize})))"
                lines.append(f"typedef {lane} {name} {kind};")
        return lines


class CPULLVMRenderer(LLVMRenderer):
    """LLVM IR for the host."""

    device = "CPU"
    has_local = False
    has_threads = True
    global_max = (CPU_COUNT.value, 1, 1)
    local_max = None
    extra_matcher = host_matcher
    vector_bytes = host().vector_bytes
    vector_registers = host().vector_registers
    masked_lanes = host().has_masks
    code_for_op = {
        op: code
        for op, code in LLVMRenderer.code_for_op.items()
        if op is not Ops.MULACC or host().has_fma
    }
    function_attributes = (
        f'nounwind "no-trapping-math"="true" "min-legal-vector-width"="{8 * vector_bytes}" '
        f'"prefer-vector-width"="{8 * vector_bytes}"'
    )

    @property
    def threads(self) -> int:
        return max(1, CPU_COUNT.value)
