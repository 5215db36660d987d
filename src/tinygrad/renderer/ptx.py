"""PTX assembly from a linear instruction list.

In: the ordered UOps of one kernel, vectors already split to what one load moves. Out: a PTX module
with one entry. Every scalar has a register of its own (PTX is in SSA spirit; ptxas allocates), a
vector is a group of them. Bools are predicates in values and bytes in memory. bfloat16 is kept in
16-bit registers and computed with in float32.

Register arrays whose places are all constants become registers; others live in local memory.
"""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict

from tinygrad.dtype import AddrSpace, DType, PtrDType, dtypes, truncate
from tinygrad.renderer import Renderer
from tinygrad.renderer.abi import (
    access_gate,
    buffer_under,
    function_name,
    kernel_parameters,
    parameter_name,
    writer_of,
)
from tinygrad.renderer.narrow import bf16_bits, bfloat16_by_bits, compute_in_float
from tinygrad.uop.ops import GroupOp, Ops, UOp

# type of a value in arithmetic
_TYPES = {
    dtypes.int8: "s16",
    dtypes.int16: "s16",
    dtypes.int32: "s32",
    dtypes.int64: "s64",
    dtypes.uint8: "u16",
    dtypes.uint16: "u16",
    dtypes.uint32: "u32",
    dtypes.uint64: "u64",
    dtypes.float16: "f16",
    dtypes.bfloat16: "b16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
    dtypes.bool: "pred",
}
# type of a value in memory
_MEMORY = {
    dtypes.int8: "s8",
    dtypes.uint8: "u8",
    dtypes.bool: "u8",
    dtypes.float16: "b16",
    dtypes.bfloat16: "b16",
}
_CAST = {dtypes.int8: "s8", dtypes.uint8: "u8"}
_COMPARE = {Ops.CMPLT: ("lt", "lt"), Ops.CMPNE: ("neu", "ne"), Ops.CMPEQ: ("eq", "eq")}
_BOOL_FORM = {
    Ops.ADD: "or", Ops.MUL: "and", Ops.MAX: "or", Ops.CMPNE: "xor",
    Ops.OR: "or", Ops.AND: "and", Ops.XOR: "xor",
}  # fmt: skip
_SPACES = {AddrSpace.GLOBAL: "global", AddrSpace.LOCAL: "shared", AddrSpace.REG: "local"}


def _register_kind(kind: str) -> str:
    """Name of the register class of an arithmetic type: all 32-bit integers share one."""
    return kind if kind[0] in "fp" and kind != "f16" else f"b{kind[1:]}"


def _is_int(dt: DType) -> bool:
    return dt in dtypes.ints


class PTXRenderer(Renderer):
    """PTX for compute capability `arch` (`sm_90`); `device` names who loads it."""

    device = "CUDA"
    suffix = "PTX"
    global_max = (2147483647, 65535, 65535)
    local_max = (1024, 1024, 64)
    shared_max = 49152
    barrier = "bar.sync 0;"
    kernel_prefix = ".version VERSION\n.target TARGET\n.address_size 64\n.visible .entry"
    types = _TYPES
    mem_types = {**_TYPES, **_MEMORY}
    cast_types = {**_TYPES, **_CAST}
    tc_sm80: list = []
    extra_matcher = bfloat16_by_bits + compute_in_float((dtypes.bfloat16,))

    def __init__(self, arch: str, device: str = "CUDA"):
        self.arch, self.device = arch, device

    def __reduce__(self):
        return self.__class__, (self.arch, self.device)

    def render(self, uops: list[UOp]) -> str:
        """A module with the kernel `uops` describe."""
        body = _Kernel(self, uops)
        body.write()
        return self.render_kernel(
            body.lines, function_name(uops), body.parameters, body.registers(), uops
        )

    def render_kernel(self, kernel, function_name, bufs, regs, uops) -> str:
        """The module around the instruction lines; `bufs` are (name, type), `regs` declarations."""
        version = "7.8" if int(self.arch.rstrip("abf").split("_")[-1]) >= 89 else "7.5"
        head = self.kernel_prefix.replace("VERSION", version).replace("TARGET", self.arch)
        params = ",\n".join(f"  .param .{kind} {name}" for name, kind in bufs)
        sizes = [u.src[0].arg for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"]
        bound = f".maxntid {math.prod(sizes)}\n" if sizes else ""
        lines = "\n".join([*(f"  {r}" for r in regs), *kernel, "  ret;"])
        return f"{head} {function_name} (\n{params}\n)\n{bound}{{\n{lines}\n}}\n"


class _Kernel:
    """One kernel being written."""

    def __init__(self, ren: PTXRenderer, uops: list[UOp]):
        self.ren, self.uops = ren, uops
        self.lines: list[str] = []
        self.parameters: list[tuple[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.values: dict[UOp, list[str]] = {}
        self.arrays: list[str] = []
        self.cells: dict[UOp, dict[int, str]] = defaultdict(dict)
        self.in_memory = self._arrays_in_memory()
        self.labels: dict[UOp, str] = {}
        self.label_count = 0

    def _arrays_in_memory(self) -> set[UOp]:
        """Register arrays with an access whose place is not a constant, or of vectors."""
        found = set()
        for u in self.uops:
            if u.op is Ops.INDEX and u.src[1].op is not Ops.CONST:
                found.add(buffer_under(u))
        return {u for u in found if u.op is Ops.DEFINE_REG}

    # *** registers and text ***

    def register(self, kind: str) -> str:
        name = _register_kind(kind)
        self.counts[name] += 1
        return f"%{name}_{self.counts[name] - 1}"

    def registers(self) -> list[str]:
        """Declarations of all registers and arrays used."""
        plain = [f".reg .{kind} %{kind}_<{n}>;" for kind, n in sorted(self.counts.items())]
        return plain + self.arrays

    def put(self, text: str) -> None:
        self.lines.append(f"  {text};")

    def make(self, kind: str, instruction: str, *operands: str) -> str:
        result = self.register(kind)
        self.put(f"{instruction} {', '.join((result, *operands))}")
        return result

    def one(self, u: UOp) -> str:
        return self.values[u][0]

    def label(self, stem: str) -> str:
        self.label_count += 1
        return f"${stem}_{self.label_count}"

    def constant(self, dt: DType, value) -> str:
        """An immediate, or for predicates a register."""
        if dt is dtypes.bool:
            return self.make("pred", "setp.ne.s16", str(int(bool(value))), "0")
        if dt is dtypes.float32:
            bits = struct.unpack("I", struct.pack("f", truncate[dt](float(value))))[0]
            return f"0f{bits:08X}"
        if dt is dtypes.float64:
            return f"0d{struct.unpack('Q', struct.pack('d', float(value)))[0]:016X}"
        if dt is dtypes.float16:
            bits = struct.unpack("H", struct.pack("e", truncate[dt](float(value))))[0]
            return self.make("b16", "mov.b16", f"0x{bits:04X}")
        if dt is dtypes.bfloat16:
            return self.make("b16", "mov.b16", f"0x{bf16_bits(float(value)):04X}")
        return str(truncate[dt](int(value)))

    # *** the instructions ***

    def write(self) -> None:
        for u in kernel_parameters(self.uops):
            self._parameter(u)
        for u in self.uops:
            if u in self.values:
                continue
            if u.op in GroupOp.ALU:
                self.values[u] = [self.alu(u)]
                continue
            made = writer_of(_HANDLERS, u, "PTXRenderer")(self, u)
            if made is not None:
                self.values[u] = made if isinstance(made, list) else [made]

    def _parameter(self, u: UOp) -> None:
        name = parameter_name(u)
        kind = "u64" if isinstance(u.dtype, PtrDType) else _TYPES[u.dtype]
        self.parameters.append((name, kind))
        value = self.make(kind, f"ld.param.{kind}", f"[{name}]")
        if kind == "u64" and isinstance(u.dtype, PtrDType):
            value = self.make(kind, "cvta.to.global.u64", value)
        self.values[u] = [value]

    def special(self, u: UOp) -> str:
        axis = "xyz"[int(u.arg[-1])]
        if u.arg[0] == "g":
            return self.make("u32", "mov.u32", f"%ctaid.{axis}")
        if u.arg[0] == "l":
            return self.make("u32", "mov.u32", f"%tid.{axis}")
        group = self.make("u32", "mov.u32", f"%ctaid.{axis}")
        size = self.make("u32", "mov.u32", f"%ntid.{axis}")
        return self.make(
            "u32", "mad.lo.u32", group, size, self.make("u32", "mov.u32", f"%tid.{axis}")
        )

    def storage(self, u: UOp) -> str | None:
        if u.op is Ops.DEFINE_REG and u not in self.in_memory:
            return ""  # its places become registers one by one
        space = "shared" if u.op is Ops.DEFINE_LOCAL else "local"
        name = f"{space}_{len(self.arrays)}"
        size = max(u.dtype.size, 1) * u.dtype.base.itemsize
        self.arrays.append(f".{space} .align 16 .b8 {name}[{size}];")
        return self.make("u64", "mov.u64", name)

    def index(self, u: UOp) -> str:
        buf, place = buffer_under(u), u.src[1]
        if buf.op is Ops.DEFINE_REG and buf not in self.in_memory:
            return ""
        size, base = u.dtype.base.itemsize, self.one(u.src[0])
        if place.op is Ops.CONST:
            return (
                base if place.arg == 0 else self.make("u64", "add.s64", base, str(place.arg * size))
            )
        if place.dtype.itemsize == 8:
            return self.make("u64", "mad.lo.s64", self.one(place), str(size), base)
        return self.make("u64", f"mad.wide.{_TYPES[place.dtype]}", self.one(place), str(size), base)

    def _cell(self, address: UOp, lane: int) -> str:
        """The register that a constant place of a register array is."""
        while address.op is Ops.CAST:
            address = address.src[0]
        cells, place = self.cells[buffer_under(address)], address.src[1].arg + lane
        if place not in cells:
            cells[place] = self.register(_TYPES[address.dtype.base.scalar()])
        return cells[place]

    def _in_registers(self, address: UOp) -> bool:
        buf = buffer_under(address)
        return buf.op is Ops.DEFINE_REG and buf not in self.in_memory

    def load(self, u: UOp) -> list[str]:
        scalar, count = u.dtype.scalar(), u.dtype.count
        address, kind = u.src[0], _TYPES[scalar]
        if self._in_registers(address):
            word = "mov.pred" if kind == "pred" else f"mov.{_register_kind(kind)}"
            return [self.make(kind, word, self._cell(address, i)) for i in range(count)]
        memory = self.ren.mem_types[scalar]
        raw = [self.register("u16" if scalar is dtypes.bool else kind) for _ in range(count)]
        gate = access_gate(u)
        if gate is not None:
            other = self.values[u.src[1]]
            for register, value in zip(raw, other * (count // len(other)), strict=True):
                if scalar is dtypes.bool:
                    self.put(f"selp.u16 {register}, 1, 0, {value}")
                else:
                    self.put(f"mov.{_register_kind(kind)} {register}, {value}")
        guard = f"@{self.one(gate)} " if gate is not None else ""
        shape, target = (f".v{count}", f"{{{', '.join(raw)}}}") if count > 1 else ("", raw[0])
        space = _SPACES[address.dtype.addrspace]
        self.put(f"{guard}ld.{space}{shape}.{memory} {target}, [{self.one(address)}]")
        if scalar is not dtypes.bool:
            return raw
        return [self.make("pred", "setp.ne.s16", r, "0") for r in raw]

    def store(self, u: UOp) -> None:
        address, value = u.src[0], u.src[1]
        scalar, parts = value.dtype.scalar(), self.values[value]
        kind, gate = _TYPES[scalar], access_gate(u)
        guard = f"@{self.one(gate)} " if gate is not None else ""
        if self._in_registers(address):
            word = "pred" if kind == "pred" else _register_kind(kind)
            for i, part in enumerate(parts):
                self.put(f"{guard}mov.{word} {self._cell(address, i)}, {part}")
            return
        if scalar is dtypes.bool:
            parts = [self.make("u16", "selp.u16", "1", "0", p) for p in parts]
        elif len(parts) > 1:
            # a vector operand takes registers only
            parts = [
                p if p[0] == "%" else self.make(kind, f"mov.{_register_kind(kind)}", p)
                for p in parts
            ]
        memory, space = self.ren.mem_types[scalar], _SPACES[address.dtype.addrspace]
        shape, source = (
            (f".v{len(parts)}", f"{{{', '.join(parts)}}}") if len(parts) > 1 else ("", parts[0])
        )
        self.put(f"{guard}st.{space}{shape}.{memory} [{self.one(address)}], {source}")

    # *** control ***

    def open_range(self, u: UOp) -> str:
        kind = _TYPES[u.dtype]
        counter = self.make(kind, f"mov.{_register_kind(kind)}", "0")
        top = self.labels[u] = self.label("loop")
        self.lines.append(f"{top}:")
        done = self.make("pred", f"setp.ge.{kind}", counter, self.one(u.src[0]))
        self.put(f"@{done} bra {top}_end")
        return counter

    def close_range(self, u: UOp) -> None:
        for loop in (s for s in u.src if s.op is Ops.RANGE):
            counter, top = self.one(loop), self.labels[loop]
            self.put(f"add.{_TYPES[loop.dtype]} {counter}, {counter}, 1")
            self.put(f"bra {top}")
            self.lines.append(f"{top}_end:")

    def open_if(self, u: UOp) -> None:
        end = self.labels[u] = self.label("endif")
        self.put(f"@!{self.one(u.src[0])} bra {end}")

    def close_if(self, u: UOp) -> None:
        self.lines.append(f"{self.labels[u.src[0]]}:")

    # *** conversions ***

    def cast(self, u: UOp) -> list[str]:
        if isinstance(u.dtype, PtrDType):
            return self.values[u.src[0]]
        source = u.src[0].dtype.scalar()
        return [self._cast_one(v, source, u.dtype.scalar()) for v in self.values[u.src[0]]]

    def _cast_one(self, value: str, source: DType, target: DType) -> str:
        kind = _TYPES[target]
        if source is target:
            return value
        if source is dtypes.bool:
            if target in (dtypes.float16, dtypes.bfloat16):
                one = self.constant(target, 1.0)
                return self.make("b16", "selp.b16", one, self.constant(target, 0.0), value)
            one, zero = self.constant(target, 1), self.constant(target, 0)
            return self.make(kind, f"selp.{_register_kind(kind)}", one, zero, value)
        if target is dtypes.bool:
            if source is dtypes.float16:
                value, source = self.make("f32", "cvt.f32.f16", value), dtypes.float32
            word = "neu" if source in dtypes.floats else "ne"
            return self.make(
                "pred", f"setp.{word}.{_TYPES[source]}", value, self.constant(source, 0)
            )
        a, b = self.ren.cast_types[source], self.ren.cast_types[target]
        return self.make(
            kind, f"cvt{_rounding(source, target)}.{b}.{a}", self._in_register(value, source)
        )

    def _in_register(self, value: str, dt: DType) -> str:
        if value[0] == "%":
            return value
        return self.make(_TYPES[dt], f"mov.{_register_kind(_TYPES[dt])}", value)

    def bitcast(self, u: UOp) -> list[str]:
        source, target = u.src[0].dtype.scalar(), u.dtype.scalar()
        out = []
        for value in self.values[u.src[0]]:
            value = self._in_register(value, source)
            width = f"b{target.itemsize * 8}" if target.itemsize > 1 else "b16"
            out.append(self.make(_TYPES[target], f"mov.{width}", value))
        return out

    # *** arithmetic ***

    def alu(self, u: UOp) -> str:
        operands = [self.one(s) for s in u.src]
        if u.op in _COMPARE and u.src[0].dtype is not dtypes.bool:
            dt = u.src[0].dtype
            word = _COMPARE[u.op][0 if dt in dtypes.floats else 1]
            return self.make("pred", f"setp.{word}.{_TYPES[dt]}", *operands)
        build = self.ren.code_for_op.get(u.op)
        if build is None:
            raise RuntimeError(f"PTX has no {u.op}; decompose it first")
        if u.dtype is dtypes.bool and u.op is not Ops.WHERE:
            return self._logic(u, operands)
        instruction, operands = build(operands, u.dtype)
        result = self.make(_TYPES[u.dtype], instruction, *operands)
        if u.dtype in _CAST and u.op is not Ops.WHERE:
            # byte arithmetic happens in 16 bits: wrap
            return self.make(_TYPES[u.dtype], f"cvt.{_TYPES[u.dtype]}.{_CAST[u.dtype]}", result)
        return result

    def _logic(self, u: UOp, operands: list[str]) -> str:
        if u.op in _BOOL_FORM:
            return self.make("pred", f"{_BOOL_FORM[u.op]}.pred", *operands)
        if u.op is Ops.CMPEQ:
            return self.make("pred", "not.pred", self.make("pred", "xor.pred", *operands))
        if u.op is Ops.CMPLT:
            return self.make(
                "pred", "and.pred", self.make("pred", "not.pred", operands[0]), operands[1]
            )
        raise RuntimeError(f"PTX has no {u.op} on bools")


def _rounding(source: DType, target: DType) -> str:
    """The rounding modifier of a conversion: to integer towards zero, to a smaller float nearest."""
    if target in dtypes.floats:
        if source in dtypes.floats:
            return ".rn" if target.itemsize < source.itemsize else ""
        return ".rn"
    return ".rzi" if source in dtypes.floats else ""


def _same(word: str, float_word: str | None = None):
    """An instruction whose operands have the type of the result."""

    def build(operands: list[str], dt: DType):
        return (
            f"{float_word if dt in dtypes.floats and float_word else word}.{_TYPES[dt]}",
            operands,
        )

    return build


def _bits(word: str):
    return lambda operands, dt: (f"{word}.b{_TYPES[dt][1:]}", operands)


def _shift(word: str):
    def build(operands: list[str], dt: DType):
        kind = f"b{_TYPES[dt][1:]}" if word == "shl" else _TYPES[dt]
        return f"{word}.{kind}", operands

    return build


def _select(operands: list[str], dt: DType):
    kind = _register_kind(_TYPES[dt])
    return f"selp.{kind}", [operands[1], operands[2], operands[0]]


def _approximate(word: str):
    def build(operands: list[str], dt: DType):
        suffix = {dtypes.float64: "rn", dtypes.float32: "approx.ftz", dtypes.float16: "approx"}[dt]
        return f"{word}.{suffix}.{_TYPES[dt]}", operands

    return build


def _rounded(word: str):
    return lambda operands, dt: (f"{word}.rn.{_TYPES[dt]}", operands)


def _multiply_add(operands: list[str], dt: DType):
    return f"{'fma.rn' if dt in dtypes.floats else 'mad.lo'}.{_TYPES[dt]}", operands


PTXRenderer.code_for_op = {
    Ops.ADD: _same("add"),
    Ops.SUB: _same("sub"),
    Ops.MUL: _same("mul.lo", "mul"),
    Ops.IDIV: _same("div"),
    Ops.MOD: _same("rem"),
    Ops.MAX: lambda operands, dt: (
        f"max{'.NaN' if dt is dtypes.float32 else ''}.{_TYPES[dt]}",
        operands,
    ),
    Ops.SHL: _shift("shl"),
    Ops.SHR: _shift("shr"),
    Ops.AND: _bits("and"),
    Ops.OR: _bits("or"),
    Ops.XOR: _bits("xor"),
    Ops.NEG: _same("neg"),
    Ops.SQRT: _rounded("sqrt"),
    Ops.RECIPROCAL: _rounded("rcp"),
    Ops.EXP2: _approximate("ex2"),
    Ops.LOG2: _approximate("lg2"),
    Ops.SIN: _approximate("sin"),
    Ops.TRUNC: lambda operands, dt: (f"cvt.rzi.{_TYPES[dt]}.{_TYPES[dt]}", operands),
    Ops.WHERE: _select,
    Ops.MULACC: _multiply_add,
    **dict.fromkeys(_COMPARE, _same("setp")),
}

_HANDLERS = {
    Ops.CONST: lambda k, u: [k.constant(u.dtype.scalar(), u.arg)] * u.dtype.count,
    Ops.VCONST: lambda k, u: [k.constant(u.dtype.scalar(), v) for v in u.arg],
    Ops.SPECIAL: _Kernel.special,
    Ops.DEFINE_REG: _Kernel.storage,
    Ops.DEFINE_LOCAL: _Kernel.storage,
    Ops.INDEX: _Kernel.index,
    Ops.LOAD: _Kernel.load,
    Ops.STORE: _Kernel.store,
    Ops.RANGE: _Kernel.open_range,
    Ops.END: _Kernel.close_range,
    Ops.IF: _Kernel.open_if,
    Ops.ENDIF: _Kernel.close_if,
    Ops.CAST: _Kernel.cast,
    Ops.BITCAST: _Kernel.bitcast,
    Ops.GEP: lambda k, u: [k.values[u.src[0]][i] for i in u.arg],
    Ops.VECTORIZE: lambda k, u: [v for s in u.src for v in k.values[s]],
    Ops.CAT: lambda k, u: [v for s in u.src for v in k.values[s]],
    Ops.AFTER: lambda k, u: k.values[u.src[0]],
    Ops.BARRIER: lambda k, u: k.lines.append(f"  {k.ren.barrier}"),
    Ops.CUSTOM: lambda k, u: k.lines.append(u.arg.format(*(k.one(s) for s in u.src))),
    **dict.fromkeys((Ops.NOOP, Ops.GROUP, Ops.SINK), lambda k, u: None),
}
