"""WGSL, the language of WebGPU.

In: a linear instruction list of scalars. Out: a module with one compute entry. Buffers are bindings
of group 0 by slot, variables are uniforms behind them, in argument order.

WGSL has no types below 32 bits but f16: elements of one or two bytes lie packed in words that are
read and written atomically, since neighbours in a word belong to other invocations. It has no 64-bit
integers: a uint64 is a pair of words, which is enough to pack and unpack random numbers. Infinity
and NaN must not be constant expressions, so their bits come from private variables.
"""

from __future__ import annotations

from tinygrad.dtype import AddrSpace, DType, PtrDType, dtypes
from tinygrad.renderer.abi import access_gate, buffer_under
from tinygrad.renderer.cstyle import CStyleLanguage, base_rewrite
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

_PACKED = (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
_SPECIAL_VALUES = """var<private> inf_bits: u32 = 0x7F800000u;
var<private> nan_bits: u32 = 0x7FC00000u;
fn infinity() -> f32 { return bitcast<f32>(inf_bits); }
fn not_a_number() -> f32 { return bitcast<f32>(nan_bits); }"""
_ADD_PAIRS = """fn add_pairs(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}"""


def _is_packed(address: UOp) -> bool:
    """Whether an access goes to words that hold several elements; private arrays hold plain values."""
    buf = buffer_under(address)
    return buf.dtype.base in _PACKED and buf.dtype.addrspace != AddrSpace.REG


def _word_and_shift(ctx: WGSLRenderer, address: UOp) -> tuple[str, str]:
    """The word an element lies in, and the position of its lowest bit."""
    size, place = address.dtype.base.itemsize, ctx.unwrapped(address.src[1])
    count = 4 // size
    return f"{ctx[address.src[0]]}[({place})/{count}]", f"(u32(({place})%{count})*{8 * size}u)"


def _load(ctx: WGSLRenderer, x: UOp) -> str | None:
    gate, address, dt = access_gate(x), x.src[0], x.dtype
    if _is_packed(address):
        word, shift = _word_and_shift(ctx, address)
        bits = 8 * dt.itemsize
        whole = ctx.render_load(word, dt)
        if dt in dtypes.sints:
            whole = f"bitcast<i32>({whole})"
        value = f"extractBits({whole}, {shift}, {bits}u)"
        value = f"({value}!=0u)" if dt is dtypes.bool else value
    else:
        value = ctx.render_access(address)
    return value if gate is None else f"select({ctx[x.src[1]]}, {value}, {ctx[gate]})"


def _store(ctx: WGSLRenderer, x: UOp) -> str | None:
    gate, address, value = access_gate(x), x.src[0], x.src[1]
    if not _is_packed(address):
        return None
    word, shift = _word_and_shift(ctx, address)
    mask = f"{(1 << 8 * value.dtype.itemsize) - 1}u"
    bits = f"({ctx.as_word(value)}&{mask})<<{shift}"
    text = f"atomicAnd(&{word}, ~({mask}<<{shift})); atomicOr(&{word}, {bits});"
    return text if gate is None else f"if ({ctx[gate]}) {{ {text} }}"


def _bitcast(ctx: WGSLRenderer, x: UOp) -> str | None:
    source, text = x.src[0].dtype, ctx[x.src[0]]
    if x.dtype is dtypes.float16:
        return f"bitcast<vec2<f16>>({ctx.as_word(x.src[0])}&65535u)[0]"
    if source is dtypes.float16:
        word = f"bitcast<u32>(vec2<f16>({text}, 0.0h))"
        return ctx.render_cast(x.dtype, f"{word}&65535u")
    if x.dtype.itemsize < 4:
        return ctx.render_cast(x.dtype, f"bitcast<{ctx.render_dtype(x.dtype)}>({text})")
    return f"bitcast<{ctx.render_dtype(x.dtype)}>({text})"


def _pair_cast(ctx: WGSLRenderer, x: UOp) -> str | None:
    source = x.src[0].dtype
    if x.dtype is dtypes.uint64 and source is not dtypes.uint64:
        return f"vec2<u32>({ctx.as_word(x.src[0])}, 0u)"
    if source is dtypes.uint64 and x.dtype is not dtypes.uint64:
        return ctx.render_cast(x.dtype, f"{ctx[x.src[0]]}.x")
    return None


def _pair_shift(ctx: WGSLRenderer, x: UOp) -> str | None:
    """Pairs are shifted, multiplied and divided only by whole words."""
    if x.dtype is not dtypes.uint64:
        return None
    amount = x.src[1].arg if x.src[1].op is Ops.CONST else None
    words = {Ops.SHL: 32, Ops.SHR: 32}.get(x.op, 2**32)
    if amount != words:
        raise RuntimeError(
            f"WGSL has no 64-bit integers: {x.op} by {amount} is not a move of words"
        )
    value = ctx[x.src[0]]
    up = x.op in (Ops.SHL, Ops.MUL)
    return f"vec2<u32>(0u, {value}.x)" if up else f"vec2<u32>({value}.y, 0u)"


def _pair_add(ctx: WGSLRenderer, x: UOp) -> str | None:
    if x.dtype is not dtypes.uint64:
        return None
    ctx.front.add(_ADD_PAIRS)
    return f"add_pairs({ctx[x.src[0]]}, {ctx[x.src[1]]})"


def _bool_operation(ctx: WGSLRenderer, x: UOp) -> str | None:
    if x.src[0].dtype is not dtypes.bool:
        return None
    a, b = ctx[x.src[0]], ctx[x.src[1]]
    return f"(!{a}&{b})" if x.op is Ops.CMPLT else f"({a}!={b})"


class WGSLRenderer(CStyleLanguage):
    """WGSL for devices with f16 (`enable f16` is asked for where a kernel uses halves)."""

    device = "WEBGPU"
    suffix = "WGSL"
    supports_float4 = False
    bitcast_by_address = False
    barrier = "workgroupBarrier();"
    nan = "not_a_number()"
    infinity = "infinity()"
    global_max = (65535, 65535, 65535)
    local_max = (256, 256, 64)
    shared_max = 16384
    type_map = {
        dtypes.float32: "f32",
        dtypes.float16: "f16",
        dtypes.bool: "bool",
        dtypes.int32: "i32",
        dtypes.int16: "i32",
        dtypes.int8: "i32",
        dtypes.uint32: "u32",
        dtypes.uint16: "u32",
        dtypes.uint8: "u32",
        dtypes.uint64: "vec2<u32>",
    }
    code_for_workitem = {
        "g": lambda axis: f"i32(gindex.{'xyz'[int(axis)]})",
        "l": lambda axis: f"i32(lindex.{'xyz'[int(axis)]})",
    }
    code_for_op = {
        **CStyleLanguage.code_for_op,
        Ops.WHERE: lambda c, a, b, dtype: f"select({b}, {a}, {c})",
        Ops.SHL: lambda a, b, dtype: f"({a}<<u32({b}))",
        Ops.SHR: lambda a, b, dtype: f"({a}>>u32({b}))",
        Ops.RECIPROCAL: lambda x, dtype: f"(1.0/{x})",
    }
    string_rewrite = (
        PatternMatcher(
            [
                (UPat((Ops.CMPLT, Ops.XOR), name="x"), _bool_operation),
                (UPat((Ops.SHL, Ops.SHR, Ops.MUL, Ops.IDIV), name="x"), _pair_shift),
                (UPat(Ops.ADD, name="x"), _pair_add),
                (UPat(Ops.CAST, name="x"), _pair_cast),
                (UPat(Ops.BITCAST, name="x"), _bitcast),
                (UPat(Ops.LOAD, name="x"), _load),
                (UPat(Ops.STORE, name="x"), _store),
                (UPat(Ops.DEFINE_LOCAL), lambda ctx: ""),
                (UPat(Ops.DEFINE_REG, name="x"), lambda ctx, x: ctx.private_array(x)),
                (UPat(Ops.RANGE, name="x"), lambda ctx, x: ctx.loop_head(x)),
            ]
        )
        + base_rewrite
    )

    def __init__(self):
        super().__init__()
        self.front: set[str] = set()

    def render_dtype(self, dt: DType, mutable: bool = True) -> str:
        if isinstance(dt, PtrDType):
            return self.render_dtype(dt.base)
        if dt.count > 1 or dt not in self.type_map:
            raise RuntimeError(
                f"WGSL has no type for {dt}; it has {sorted(map(str, self.type_map))}"
            )
        return self.type_map[dt]

    def buf_map(self, dt: DType) -> str:
        """Type of what a buffer of `dt` is an array of."""
        return "atomic<u32>" if dt in _PACKED else self.type_map[dt]

    def render_load(self, x: str, dt: DType) -> str:
        """The value of the memory place `x`, which is an atomic for packed types."""
        return f"atomicLoad(&{x})" if dt in _PACKED else x

    def render_cast(self, dt: DType, val: str) -> str:
        kind = self.render_dtype(dt)
        if dt in _PACKED and dt is not dtypes.bool:
            return f"extractBits({kind}({val}), 0u, {8 * dt.itemsize}u)"
        return f"{kind}({val})"

    def render_literal(self, dt: DType, value) -> str:
        if dt is dtypes.bool:
            return "true" if value else "false"
        if dt is dtypes.uint64:
            return f"vec2<u32>({int(value) & 0xFFFFFFFF}u, {int(value) >> 32 & 0xFFFFFFFF}u)"
        if dt is dtypes.int32 and int(value) == -(2**31):
            return "i32(-2147483648)"
        text = super().render_literal(dt, value)
        if "infinity" in text or "not_a" in text:
            self.front.add(_SPECIAL_VALUES)
        return text

    def render_declaration(self, dt: DType, name: str, value: str) -> str:
        return f"let {name}: {self.render_dtype(dt)} = {value};"

    def as_word(self, u: UOp) -> str:
        """The bits of a value of at most 32 bits as a u32."""
        if u.dtype is dtypes.float16:
            return f"bitcast<u32>(vec2<f16>({self[u]}, 0.0h))"
        return self[u] if u.dtype is dtypes.uint32 else f"u32({self.unwrapped(u)})"

    def private_array(self, x: UOp) -> str:
        """Declares a register array."""
        return f"var {self[x]}: array<{self.render_dtype(x.dtype.base)},{max(x.dtype.size, 1)}>;"

    def loop_head(self, x: UOp) -> str:
        """Opens the loop of a RANGE."""
        name = self[x]
        head = f"var {name}: {self.render_dtype(x.dtype)} = 0"
        return f"for ({head}; {name} < {self[x.src[0]]}; {name}++) {{"

    def _shared_array(self, u: UOp) -> str:
        size, dt = max(u.dtype.size, 1), u.dtype.base
        words = -(-size * dt.itemsize // 4) if dt in _PACKED else size
        return f"var<workgroup> {self[u]}: array<{self.buf_map(dt)},{words}>;"

    def render_kernel(self, function_name, kernel, bufs, uops, prefix=None) -> str:
        uses_half = any(dtypes.float16 in (u.dtype.base, u.dtype) for u in uops)
        front = ["enable f16;"] if uses_half else []
        front += sorted(self.front) + [
            self._shared_array(u) for u in uops if u.op is Ops.DEFINE_LOCAL
        ]
        self.front = set()
        for slot, (name, (dt, _)) in enumerate(bufs):
            if isinstance(dt, PtrDType):
                kind = f"var<storage, read_write> {name}: array<{self.buf_map(dt.base)}>"
            else:
                kind = f"var<uniform> {name}: {self.render_dtype(dt)}"
            front.append(f"@group(0) @binding({slot}) {kind};")
        sizes = ["1", "1", "1"]
        for u in uops:
            if u.op is Ops.SPECIAL and u.arg[0] == "l":
                sizes[int(u.arg[-1])] = str(u.src[0].arg)
        entry = (
            f"@compute @workgroup_size({','.join(sizes)}) fn {function_name}("
            "@builtin(workgroup_id) gindex: vec3<u32>, "
            "@builtin(local_invocation_id) lindex: vec3<u32>) {"
        )
        return "\n".join([*front, *(prefix or []), entry, *kernel, "}"])
