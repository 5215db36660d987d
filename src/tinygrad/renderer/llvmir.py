"""LLVM IR text from a linear instruction list.

In: the ordered UOps of one kernel. Out: one module with one function, opaque pointers, SSA values.
Vectors of any lane count are IR vectors; bools are `i1` in values and `i8` in memory; bfloat16 and
fp8 are integers (a target that computes with them decomposes to float first). Loops count up with a
phi; register arrays are allocas, which the compiler's scalar replacement turns into values.

A target subclasses `LLVMRenderer` and sets capabilities and `function_attributes`.
"""

from __future__ import annotations

import math
import struct

from tinygrad.dtype import DType, PtrDType, dtypes, float_to_fp8, truncate
from tinygrad.renderer import Renderer
from tinygrad.renderer.abi import (
    access_gate,
    function_name,
    kernel_parameters,
    never_traps,
    parameter_name,
    range_name,
    writer_of,
)
from tinygrad.renderer.narrow import bf16_bits
from tinygrad.uop.ops import GroupOp, Ops, UOp

_STORAGE = {dtypes.bfloat16: "i16", dtypes.fp8e4m3: "i8", dtypes.fp8e5m2: "i8"}
_FLOAT_NAMES = {dtypes.float16: "half", dtypes.float32: "float", dtypes.float64: "double"}
_COMPARE = {
    Ops.CMPLT: ("olt", "slt", "ult"),
    Ops.CMPNE: ("une", "ne", "ne"),
    Ops.CMPEQ: ("oeq", "eq", "eq"),
}
_BOOL_FORM = {Ops.ADD: Ops.OR, Ops.MUL: Ops.AND, Ops.MAX: Ops.OR}


def _scalar_type(dt: DType) -> str:
    if dt in _STORAGE:
        return _STORAGE[dt]
    if dt in _FLOAT_NAMES:
        return _FLOAT_NAMES[dt]
    return "i1" if dt is dtypes.bool else f"i{dt.itemsize * 8}"


def ir_type(dt: DType) -> str:
    """Type of a value."""
    if isinstance(dt, PtrDType):
        return "ptr"
    if dt is dtypes.void:
        return "void"
    scalar = _scalar_type(dt.scalar())
    return scalar if dt.count == 1 else f"<{dt.count} x {scalar}>"


def memory_type(dt: DType) -> str:
    """Type of a value as it lies in memory: bools take a byte."""
    return ir_type(dt).replace("i1", "i8") if dtypes.is_bool(dt) else ir_type(dt)


def _is_native_float(dt: DType) -> bool:
    return dt.scalar() in _FLOAT_NAMES


def ir_literal(dt: DType, value) -> str:
    """A scalar constant; floats are written as the bits of a double, so that nothing is rounded."""
    if dt is dtypes.bool:
        return "true" if value else "false"
    if dt is dtypes.bfloat16:
        return str(bf16_bits(float(value)))
    if dt in dtypes.fp8s:
        return str(float_to_fp8(float(value), dt))
    if dt is dtypes.float16:
        return f"0xH{struct.unpack('H', struct.pack('e', truncate[dt](float(value))))[0]:04X}"
    if dt in _FLOAT_NAMES:
        value = float(value)
        if math.isnan(value):
            return "0x7FF8000000000000"
        exact = value if dt is dtypes.float64 or math.isinf(value) else truncate[dt](value)
        return f"0x{struct.unpack('Q', struct.pack('d', exact))[0]:016X}"
    return str(truncate[dt](int(value)))


def _intrinsic_suffix(dt: DType) -> str:
    scalar = {"half": "f16", "float": "f32", "double": "f64"}.get(
        _scalar_type(dt.scalar()), _scalar_type(dt.scalar())
    )
    return scalar if dt.count == 1 else f"v{dt.count}{scalar}"


class LLVMRenderer(Renderer):
    """Renders LLVM IR. `function_attributes` go on the kernel; `code_for_op` maps an op to the
    `_Function` method that builds it."""

    suffix = "LLVM"
    function_attributes = "nounwind"
    function_prefix = "define void"

    def render(self, uops: list[UOp]) -> str:
        """A module with the kernel `uops` describe."""
        return _Function(self, uops).write()


class _Function:
    """One function being written: values by UOp, the current block, declarations needed."""

    def __init__(self, ren: LLVMRenderer, uops: list[UOp]):
        self.ren, self.uops = ren, uops
        self.values: dict[UOp, str] = {}
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declared: dict[str, None] = {}
        self.block = "entry"
        self.blocks: dict[UOp, str] = {}
        self.taken: set[str] = set()
        self.count = 0

    # *** text ***

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def emit(self, text: str, stem: str = "v") -> str:
        """Appends an instruction with a result; returns the result's name."""
        result = self.name(stem)
        self.lines.append(f"  {result} = {text}")
        return result

    def effect(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def typed(self, u: UOp) -> str:
        return f"{ir_type(u.dtype)} {self.values[u]}"

    def declare(self, text: str) -> None:
        self.declared[f"declare {text}"] = None

    def call(self, function: str, dt: DType, *operands: str) -> str:
        """Calls an overloaded intrinsic whose operands and result all have type `dt`."""
        kind, full = ir_type(dt), f"@llvm.{function}.{_intrinsic_suffix(dt)}"
        self.declare(f"{kind} {full}({', '.join([kind] * len(operands))})")
        return self.emit(f"call {kind} {full}({', '.join(f'{kind} {o}' for o in operands)})")

    def constant(self, dt: DType, value) -> str:
        """`value` in every lane of `dt`; a tuple gives the lanes one by one."""
        scalar = dt.scalar()
        if dt.count == 1:
            return ir_literal(scalar, value[0] if isinstance(value, tuple) else value)
        lanes = value if isinstance(value, tuple) else (value,) * dt.count
        kind = _scalar_type(scalar)
        return f"<{', '.join(f'{kind} {ir_literal(scalar, v)}' for v in lanes)}>"

    # *** the function ***

    def write(self) -> str:
        params = []
        for u in kernel_parameters(self.uops):
            self.values[u] = f"%{parameter_name(u)}"
            self.taken.add(self.values[u])
            pointer = isinstance(u.dtype, PtrDType)
            params.append(f"{'ptr noalias' if pointer else ir_type(u.dtype)} {self.values[u]}")
        for u in self.uops:
            if u not in self.values:
                self.visit(u)
        head = f"{self.ren.function_prefix} @{function_name(self.uops)}({', '.join(params)}) #0 {{"
        body = [head, "entry:", *self.allocas, *self.lines, "  ret void", "}"]
        tail = [*self.declared, f"attributes #0 = {{ {self.ren.function_attributes} }}"]
        return "\n".join([*body, *tail]) + "\n"

    def visit(self, u: UOp) -> None:
        if u.op in GroupOp.ALU:
            self.values[u] = self._alu(u)
            return
        value = writer_of(_HANDLERS, u, type(self.ren).__name__)(self, u)
        if value is not None:
            self.values[u] = value

    # *** control ***

    def open_range(self, u: UOp) -> str:
        stem = range_name(u)
        while f"%{stem}" in self.taken:
            stem += "_"
        self.taken.add(f"%{stem}")
        kind, counter, before = ir_type(u.dtype), f"%{stem}", self.block
        self.blocks[u] = stem
        self.effect(f"br label %head_{stem}")
        self.start_block(f"head_{stem}")
        self.effect(f"{counter} = phi {kind} [ 0, %{before} ], [ {counter}_next, %latch_{stem} ]")
        more = self.emit(f"icmp slt {kind} {counter}, {self.values[u.src[0]]}")
        self.effect(f"br i1 {more}, label %body_{stem}, label %exit_{stem}")
        self.start_block(f"body_{stem}")
        return counter

    def close_range(self, u: UOp) -> None:
        for loop in (s for s in u.src if s.op is Ops.RANGE):
            stem, counter = self.blocks[loop], self.values[loop]
            self.effect(f"br label %latch_{stem}")
            self.start_block(f"latch_{stem}")
            self.effect(f"{counter}_next = add nuw nsw {ir_type(loop.dtype)} {counter}, 1")
            self.effect(f"br label %head_{stem}")
            self.start_block(f"exit_{stem}")

    def open_if(self, u: UOp) -> None:
        stem = self.blocks[u] = self.name("if")[1:]
        self.effect(f"br i1 {self.values[u.src[0]]}, label %then_{stem}, label %end_{stem}")
        self.start_block(f"then_{stem}")

    def close_if(self, u: UOp) -> None:
        stem = self.blocks[u.src[0]]
        self.effect(f"br label %end_{stem}")
        self.start_block(f"end_{stem}")

    # *** memory ***

    def storage(self, u: UOp) -> str:
        result = self.name("acc" if u.op is Ops.DEFINE_REG else "temp")
        size = max(u.dtype.size, 1)
        kind = f"[{size} x {memory_type(u.dtype.base)}]"
        self.allocas.append(f"  {result} = alloca {kind}, align 64")
        return result

    def index(self, u: UOp) -> str:
        # a gated address may lie outside the buffer as long as it is not used
        inbounds = "inbounds " if len(u.src) == 2 else ""
        kind = memory_type(u.dtype.base)
        return self.emit(
            f"getelementptr {inbounds}{kind}, {self.typed(u.src[0])}, {self.typed(u.src[1])}", "p"
        )

    def load(self, u: UOp) -> str:
        gate = access_gate(u)
        if gate is None:
            return self._plain_load(u)
        if gate.dtype.count > 1:
            return self._masked_load(u, gate)
        stem, before = self.name("gate")[1:], self.block
        self.effect(f"br i1 {self.values[gate]}, label %load_{stem}, label %after_{stem}")
        self.start_block(f"load_{stem}")
        value = self._plain_load(u)
        self.effect(f"br label %after_{stem}")
        self.start_block(f"after_{stem}")
        other = self.values[u.src[1]]
        return self.emit(
            f"phi {ir_type(u.dtype)} [ {value}, %load_{stem} ], [ {other}, %{before} ]"
        )

    def _plain_load(self, u: UOp) -> str:
        align = u.dtype.scalar().itemsize
        raw = self.emit(f"load {memory_type(u.dtype)}, {self.typed(u.src[0])}, align {align}")
        return self._from_memory(u.dtype, raw)

    def _from_memory(self, dt: DType, raw: str) -> str:
        if not dtypes.is_bool(dt):
            return raw
        return self.emit(f"trunc {memory_type(dt)} {raw} to {ir_type(dt)}")

    def _to_memory(self, dt: DType, value: str) -> str:
        if not dtypes.is_bool(dt):
            return value
        return self.emit(f"zext {ir_type(dt)} {value} to {memory_type(dt)}")

    def _masked_load(self, u: UOp, gate: UOp) -> str:
        dt, kind = u.dtype, memory_type(u.dtype)
        lanes = _intrinsic_suffix(dtypes.uint8.vec(dt.count) if dtypes.is_bool(dt) else dt)
        full = f"@llvm.masked.load.{lanes}.p0"
        mask = f"<{dt.count} x i1>"
        self.declare(f"{kind} {full}(ptr, i32 immarg, {mask}, {kind})")
        other = self._to_memory(dt, self.values[u.src[1]])
        raw = self.emit(
            f"call {kind} {full}({self.typed(u.src[0])}, i32 {dt.scalar().itemsize}, "
            f"{mask} {self.values[gate]}, {kind} {other})"
        )
        return self._from_memory(dt, raw)

    def store(self, u: UOp) -> None:
        gate = access_gate(u)
        if gate is None:
            self._plain_store(u)
            return
        if gate.dtype.count > 1:
            self._masked_store(u, gate)
            return
        stem = self.name("gate")[1:]
        self.effect(f"br i1 {self.values[gate]}, label %store_{stem}, label %after_{stem}")
        self.start_block(f"store_{stem}")
        self._plain_store(u)
        self.effect(f"br label %after_{stem}")
        self.start_block(f"after_{stem}")

    def _plain_store(self, u: UOp) -> None:
        dt = u.src[1].dtype
        value = self._to_memory(dt, self.values[u.src[1]])
        self.effect(
            f"store {memory_type(dt)} {value}, {self.typed(u.src[0])}, align {dt.scalar().itemsize}"
        )

    def _masked_store(self, u: UOp, gate: UOp) -> None:
        dt = u.src[1].dtype
        kind, mask = memory_type(dt), f"<{dt.count} x i1>"
        lanes = _intrinsic_suffix(dtypes.uint8.vec(dt.count) if dtypes.is_bool(dt) else dt)
        full = f"@llvm.masked.store.{lanes}.p0"
        self.declare(f"void {full}({kind}, ptr, i32 immarg, {mask})")
        value = self._to_memory(dt, self.values[u.src[1]])
        self.effect(
            f"call void {full}({kind} {value}, {self.typed(u.src[0])}, "
            f"i32 {dt.scalar().itemsize}, {mask} {self.values[gate]})"
        )

    # *** vectors ***

    def vectorize(self, u: UOp) -> str:
        if all(s.op is Ops.CONST for s in u.src):
            lanes = tuple(s.arg for s in u.src for _ in range(s.dtype.count))
            return self.constant(u.dtype, lanes)
        if any(s.dtype.count > 1 for s in u.src):
            return self._concatenate(u)
        if all(s is u.src[0] for s in u.src):
            return self._splat(u.dtype, self.values[u.src[0]])
        kind, value = ir_type(u.dtype), "poison"
        for lane, s in enumerate(u.src):
            value = self.emit(f"insertelement {kind} {value}, {self.typed(s)}, i32 {lane}")
        return value

    def _splat(self, dt: DType, scalar: str) -> str:
        kind = ir_type(dt)
        one = self.emit(f"insertelement {kind} poison, {_scalar_type(dt.scalar())} {scalar}, i32 0")
        return self._shuffle(kind, one, "poison", (0,) * dt.count)

    def _shuffle(self, kind: str, a: str, b: str, order) -> str:
        picks = ", ".join("i32 poison" if i is None else f"i32 {i}" for i in order)
        return self.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{picks}>")

    def _concatenate(self, u: UOp) -> str:
        """Joins vectors pairwise; a scalar or an odd one is widened with undefined lanes."""
        parts = [(self.values[s], s.dtype.count) for s in u.src]
        scalar = u.dtype.scalar()
        parts = [
            (v, n) if n > 1 else (self.emit(f"insertelement <1 x {_scalar_type(scalar)}> poison, "
                                            f"{_scalar_type(scalar)} {v}, i32 0"), 1)
            for v, n in parts
        ]  # fmt: skip
        while len(parts) > 1:
            joined = [
                self._join(scalar, *parts[i], *parts[i + 1]) for i in range(0, len(parts) - 1, 2)
            ]
            parts = joined + parts[len(joined) * 2 :]
        return parts[0][0]

    def _join(self, scalar: DType, a: str, n: int, b: str, m: int) -> tuple[str, int]:
        width, lane = max(n, m), _scalar_type(scalar)
        wide = []
        for value, count in ((a, n), (b, m)):
            if count < width:
                order = [*range(count), *([None] * (width - count))]
                value = self._shuffle(f"<{count} x {lane}>", value, "poison", order)
            wide.append(value)
        order = [*range(n), *range(width, width + m)]
        low, high = wide
        return self._shuffle(f"<{width} x {lane}>", low, high, order), n + m

    def pick_lanes(self, u: UOp) -> str:
        source = u.src[0]
        if source.dtype.count == 1:
            value = self.values[source]
            return value if u.dtype.count == 1 else self._splat(u.dtype, value)
        if len(u.arg) == 1:
            return self.emit(f"extractelement {self.typed(source)}, i32 {u.arg[0]}")
        return self._shuffle(ir_type(source.dtype), self.values[source], "poison", u.arg)

    # *** conversions ***

    def cast(self, u: UOp) -> str:
        source = u.src[0]
        if isinstance(u.dtype, PtrDType):
            return self.values[source]
        word = _cast_word(source.dtype, u.dtype)
        if word is None:
            return self.values[source]
        if word == "test":
            zero = self.constant(source.dtype, 0)
            test = "fcmp une" if _is_native_float(source.dtype) else "icmp ne"
            return self.emit(f"{test} {self.typed(source)}, {zero}")
        return self.emit(f"{word} {self.typed(source)} to {ir_type(u.dtype)}")

    def bitcast(self, u: UOp) -> str:
        source = u.src[0]
        if ir_type(u.dtype) == ir_type(source.dtype):
            return self.values[source]
        value, kind = self._to_memory(source.dtype, self.values[source]), memory_type(source.dtype)
        value = self.emit(f"bitcast {kind} {value} to {memory_type(u.dtype)}")
        return self._from_memory(u.dtype, value)

    # *** arithmetic ***

    def _alu(self, u: UOp) -> str:
        op = _BOOL_FORM.get(u.op, u.op) if dtypes.is_bool(u.dtype) else u.op
        build = self.ren.code_for_op.get(op)
        if build is None:
            raise RuntimeError(f"{type(self.ren).__name__} has no {op}; decompose it first")
        return build(self, u)

    def binary(self, u: UOp, float_word: str, signed: str, unsigned: str) -> str:
        """An instruction on two operands of the result's type."""
        if _is_native_float(u.dtype):
            word = float_word
        else:
            word = unsigned if dtypes.is_unsigned(u.dtype) or dtypes.is_bool(u.dtype) else signed
        a, b = u.src
        if word in ("add", "sub", "mul") and _never_wraps(u):
            word += " nsw"
        return self.emit(f"{word} {ir_type(u.dtype)} {self.values[a]}, {self._operand(b, u.dtype)}")

    def _operand(self, u: UOp, dt: DType) -> str:
        """The value of `u` as type `dt`; shift amounts may come in another integer type."""
        if ir_type(u.dtype) == ir_type(dt):
            return self.values[u]
        word = _cast_word(u.dtype, dt)
        return (
            self.values[u]
            if word is None
            else self.emit(f"{word} {self.typed(u)} to {ir_type(dt)}")
        )

    def compare(self, u: UOp) -> str:
        for_float, signed, unsigned = _COMPARE[u.op]
        a, b = u.src
        if _is_native_float(a.dtype):
            return self.emit(f"fcmp {for_float} {self.typed(a)}, {self.values[b]}")
        plain = dtypes.is_unsigned(a.dtype) or dtypes.is_bool(a.dtype)
        return self.emit(f"icmp {unsigned if plain else signed} {self.typed(a)}, {self.values[b]}")

    def where(self, u: UOp) -> str:
        return self.emit(f"select {', '.join(self.typed(s) for s in u.src)}")

    def maximum(self, u: UOp) -> str:
        """A NaN on either side gives NaN."""
        a, b = u.src
        if not _is_native_float(u.dtype):
            word = "ult" if dtypes.is_unsigned(u.dtype) else "slt"
            less = self.emit(f"icmp {word} {self.typed(a)}, {self.values[b]}")
        else:
            below = self.emit(f"fcmp olt {self.typed(a)}, {self.values[b]}")
            is_nan = self.emit(f"fcmp uno {self.typed(b)}, {self.values[b]}")
            less = self.emit(f"or {_mask(u.dtype)} {below}, {is_nan}")
        return self._select(u.dtype, less, self.values[b], self.values[a])

    def _select(self, dt: DType, condition: str, a: str, b: str) -> str:
        return self.emit(f"select {_mask(dt)} {condition}, {ir_type(dt)} {a}, {ir_type(dt)} {b}")

    def divide(self, u: UOp) -> str:
        """Division and remainder; by zero both give 0, and by -1 the quotient wraps."""
        quotient, unsigned = u.op is Ops.IDIV, dtypes.is_unsigned(u.dtype)
        word = ("u" if unsigned else "s") + ("div" if quotient else "rem")
        kind, a, b = ir_type(u.dtype), self.values[u.src[0]], self.values[u.src[1]]
        if never_traps(u.src[1]):
            return self.emit(f"{word} {kind} {a}, {b}")
        zero, one = self.constant(u.dtype, 0), self.constant(u.dtype, 1)
        is_zero = unsafe = self.emit(f"icmp eq {kind} {b}, {zero}")
        if not unsigned:
            is_minus = self.emit(f"icmp eq {kind} {b}, {self.constant(u.dtype, -1)}")
            unsafe = self.emit(f"or {_mask(u.dtype)} {is_zero}, {is_minus}")
        safe = self._select(u.dtype, unsafe, one, b)
        value = self.emit(f"{word} {kind} {a}, {safe}")
        if not quotient:
            return self._select(u.dtype, unsafe, zero, value)
        if not unsigned:
            negated = self.emit(f"sub {kind} {zero}, {a}")
            value = self._select(u.dtype, is_minus, negated, value)
        return self._select(u.dtype, is_zero, zero, value)

    def negate(self, u: UOp) -> str:
        if _is_native_float(u.dtype):
            return self.emit(f"fneg {self.typed(u.src[0])}")
        return self.emit(
            f"sub {ir_type(u.dtype)} {self.constant(u.dtype, 0)}, {self.values[u.src[0]]}"
        )

    def reciprocal(self, u: UOp) -> str:
        one = self.constant(u.dtype, 1.0)
        return self.emit(f"fdiv {ir_type(u.dtype)} {one}, {self.values[u.src[0]]}")

    def multiply_add(self, u: UOp) -> str:
        a, b, c = (self.values[s] for s in u.src)
        if _is_native_float(u.dtype):
            return self.call("fma", u.dtype, a, b, c)
        product = self.emit(f"mul {ir_type(u.dtype)} {a}, {b}")
        return self.emit(f"add {ir_type(u.dtype)} {product}, {c}")


def _never_wraps(u: UOp) -> bool:
    """Whether bounds prove that signed arithmetic stays inside its type, as for index arithmetic."""
    dt = u.dtype.scalar()
    return (
        dt in (dtypes.int32, dtypes.int64) and dtypes.min(dt) < u.vmin and u.vmax < dtypes.max(dt)
    )


def _mask(dt: DType) -> str:
    return ir_type(dtypes.bool.vec(dt.count))


def _cast_word(source: DType, target: DType) -> str | None:
    """The conversion instruction; None where the bits stay, `test` for a comparison with zero."""
    a, b = source.scalar(), target.scalar()
    if _scalar_type(a) == _scalar_type(b):
        return None
    if b is dtypes.bool:
        return "test"
    from_float, to_float = a in _FLOAT_NAMES, b in _FLOAT_NAMES
    unsigned = dtypes.is_unsigned(a) or a is dtypes.bool
    if from_float and to_float:
        return "fpext" if b.itemsize > a.itemsize else "fptrunc"
    if from_float:
        return "fptoui" if dtypes.is_unsigned(b) else "fptosi"
    if to_float:
        return "uitofp" if unsigned else "sitofp"
    if b.itemsize < a.itemsize:
        return "trunc"
    return "zext" if unsigned else "sext"


def _binary(float_word: str, signed: str, unsigned: str | None = None):
    return lambda fn, u: fn.binary(u, float_word, signed, unsigned or signed)


def _unary(word: str):
    return lambda fn, u: fn.call(word, u.dtype, fn.values[u.src[0]])


LLVMRenderer.code_for_op = {
    Ops.ADD: _binary("fadd", "add"),
    Ops.SUB: _binary("fsub", "sub"),
    Ops.MUL: _binary("fmul", "mul"),
    Ops.FDIV: _binary("fdiv", "sdiv", "udiv"),
    Ops.AND: _binary("and", "and"),
    Ops.OR: _binary("or", "or"),
    Ops.XOR: _binary("xor", "xor"),
    Ops.SHL: _binary("shl", "shl"),
    Ops.SHR: _binary("ashr", "ashr", "lshr"),
    Ops.IDIV: _Function.divide,
    Ops.MOD: _Function.divide,
    Ops.MAX: _Function.maximum,
    Ops.WHERE: _Function.where,
    Ops.NEG: _Function.negate,
    Ops.RECIPROCAL: _Function.reciprocal,
    Ops.MULACC: _Function.multiply_add,
    Ops.SQRT: _unary("sqrt"),
    Ops.TRUNC: _unary("trunc"),
    **dict.fromkeys(_COMPARE, _Function.compare),
}

_HANDLERS = {
    Ops.CONST: lambda fn, u: fn.constant(u.dtype, u.arg),
    Ops.VCONST: lambda fn, u: fn.constant(u.dtype, u.arg),
    Ops.DEFINE_REG: _Function.storage,
    Ops.DEFINE_LOCAL: _Function.storage,
    Ops.RANGE: _Function.open_range,
    Ops.END: _Function.close_range,
    Ops.IF: _Function.open_if,
    Ops.ENDIF: _Function.close_if,
    Ops.INDEX: _Function.index,
    Ops.LOAD: _Function.load,
    Ops.STORE: _Function.store,
    Ops.VECTORIZE: _Function.vectorize,
    Ops.CAT: _Function.vectorize,
    Ops.GEP: _Function.pick_lanes,
    Ops.CAST: _Function.cast,
    Ops.BITCAST: _Function.bitcast,
    Ops.AFTER: lambda fn, u: fn.values[u.src[0]],
    Ops.CUSTOMI: lambda fn, u: u.arg.format(*(fn.values[s] for s in u.src)),
    Ops.CUSTOM: lambda fn, u: fn.effect(u.arg.format(*(fn.values[s] for s in u.src))),
    **dict.fromkeys((Ops.NOOP, Ops.GROUP, Ops.SINK, Ops.BARRIER), lambda fn, u: None),
}
