"""Helper functions in C that a kernel's text may call, emitted in front of it.

In: a word ("fma", "masked_load") and the names of the types it works on. Out: the text of one inline function.
Invariant: what a function computes does not depend on the compiler. Newer clangs have a builtin for
each that works on vectors of any length; for older ones (the oldest is 14) the same is done register by register with the
builtins of the target, and what is left lane by lane: without that a compiler takes vectors apart into
single lanes, and a matrix product runs at a hundredth of its speed.
"""

from __future__ import annotations

from collections.abc import Callable

_INLINE = "static inline __attribute__((always_inline))"

# registers of the target, widest first: the macros that tell of them, bytes
_FMA_REGISTERS = (("defined(__AVX512F__)", 64), ("defined(__FMA__)", 32), ("defined(__FMA__)", 16))
_MASKED_REGISTERS = (
    ("defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)", 64),
    ("defined(__AVX2__)", 32),
)
# by the size of a lane: the builtins' letter, and a float and an integer of that size
_LANES = {4: ("s", "float", "int"), 8: ("d", "double", "long long")}
_FMA_SUFFIX = {64: "512_mask", 32: "256", 16: ""}

# {T} a type, {S} its lane type, {B} the bool and {M} the mask vector of as many lanes, {n} the lanes
_FUNCTIONS = {
    "idiv": "{I} {T} {name}({T} a, {T} b) {{ return b == 0 ? 0 : b == -1 ? -a : a / b; }}",
    "imod": "{I} {T} {name}({T} a, {T} b) {{ return b == 0 || b == -1 ? 0 : a % b; }}",
    "udiv": "{I} {T} {name}({T} a, {T} b) {{ return b == 0 ? 0 : a / b; }}",
    "umod": "{I} {T} {name}({T} a, {T} b) {{ return b == 0 ? 0 : a % b; }}",
    "vidiv": """{I} {T} {name}({T} a, {T} b) {{
  {T} q = a / ((b == 0 | b == -1) ? ({T})(1) : b);
  return b == 0 ? ({T})(0) : b == -1 ? -a : q;
}}""",
    "vimod": """{I} {T} {name}({T} a, {T} b) {{
  {T} r = a % ((b == 0 | b == -1) ? ({T})(1) : b);
  return (b == 0 | b == -1) ? ({T})(0) : r;
}}""",
    "vudiv": "{I} {T} {name}({T} a, {T} b) {{ return b == 0 ? ({T})(0) : a / (b == 0 ? ({T})(1) : b); }}",
    "vumod": "{I} {T} {name}({T} a, {T} b) {{ return b == 0 ? ({T})(0) : a % (b == 0 ? ({T})(1) : b); }}",
    # a NaN on either side gives NaN
    "fmaximum": "{I} {T} {name}({T} a, {T} b) {{ return ((a < b) | (b != b)) ? b : a; }}",
    "maximum": "{I} {T} {name}({T} a, {T} b) {{ return a < b ? b : a; }}",
    "sqrt": """{I} {T} {name}({T} a) {{
#if __has_builtin(__builtin_elementwise_sqrt)
  return __builtin_elementwise_sqrt(a);
#else
{each_lane_sqrt}
#endif
}}""",
    "trunc": """{I} {T} {name}({T} a) {{
#if __has_builtin(__builtin_elementwise_trunc)
  return __builtin_elementwise_trunc(a);
#else
{each_lane_trunc}
#endif
}}""",
    "fma": """{I} {T} {name}({T} v, {T} w, {T} sum) {{
#if __has_builtin(__builtin_elementwise_fma)
  return __builtin_elementwise_fma(v, w, sum);
#else
{fma_by_registers}
  return sum;
#endif
}}""",
    "load": "{I} {T} {name}(const {S}* p) {{ {T} v; __builtin_memcpy(&v, p, {bytes}); return v; }}",
    "store": "{I} void {name}({S}* p, {T} v) {{ __builtin_memcpy(p, &v, {bytes}); }}",
    "masked_load": """{I} {T} {name}(const {S}* p, {B} mask, {T} other) {{
#if __has_builtin(__builtin_masked_load)
  typedef _Bool lanes __attribute__((ext_vector_type({n})));
  return __builtin_masked_load(__builtin_convertvector(mask, lanes), (const __typeof__(other[0])*)p, other);
#else
{masked_load_by_registers}
  return other;
#endif
}}""",
    "masked_store": """{I} void {name}({S}* p, {B} mask, {T} v) {{
#if __has_builtin(__builtin_masked_store)
  typedef _Bool lanes __attribute__((ext_vector_type({n})));
  __builtin_masked_store(__builtin_convertvector(mask, lanes), v, (__typeof__(v[0])*)p);
#else
{masked_store_by_registers}
#endif
}}""",
}


def helper_text(
    word: str, name: str, kind: str, lane: str, mask: str, lanes: int, bytes: int, suffix: str
) -> str:
    """The function `name` that does `word` on vectors `kind` of `lanes` lanes, `bytes` bytes in all.

    `lane` and `mask` name the type of a lane and of as many bools; `suffix` is that of C's functions on the lane type.
    """
    size = bytes // lanes
    fields = {
        "I": _INLINE,
        "T": kind,
        "S": lane,
        "B": mask,
        "name": name,
        "n": lanes,
        "bytes": bytes,
        "f": suffix,
        "each_lane_sqrt": _each_lane(f"__builtin_sqrt{suffix}", lane, lanes),
        "each_lane_trunc": _each_lane(f"__builtin_trunc{suffix}", lane, lanes),
        "fma_by_registers": _fma_by_registers(size, lanes, suffix),
        "masked_load_by_registers": _masked_load_by_registers(size, lanes),
        "masked_store_by_registers": _masked_store_by_registers(size, lanes),
    }
    return _FUNCTIONS[word].format(**fields)


def _each_lane(function: str, lane: str, lanes: int) -> str:
    """Calls on an array: compilers make vectors of those again, and not of calls on a vector's lanes."""
    return f"""  {lane} lane[{lanes}];
  __builtin_memcpy(lane, &a, sizeof(lane));
  for (int i = 0; i < {lanes}; i++) lane[i] = {function}(lane[i]);
  __builtin_memcpy(&a, lane, sizeof(lane));
  return a;"""


def _places(lanes: int, step: int) -> list[tuple[int, str]]:
    """(first lane, accessor) of every register in a vector: halves of halves, which no compiler takes for memory."""
    if lanes == step:
        return [(0, "")]
    half = _places(lanes // 2, step)
    low = [(first, f".lo{rest}") for first, rest in half]
    return low + [(first + lanes // 2, f".hi{rest}") for first, rest in half]


def _by_registers(
    registers, builtin: Callable, size: int, lanes: int, part: Callable, each: str
) -> str:
    """For the first kind of register that the target and the compiler have: `part` for each one; else `each`.

    `builtin(bytes)` names what works on registers that wide; `part(bytes, first lane, accessor)` is a statement.
    """
    text, word = "", "#if"
    whole = lanes & (lanes - 1) == 0 and size in _LANES
    for condition, width in registers if whole else ():
        if width <= lanes * size:
            _, number, integer = _LANES[size]
            places = _places(lanes, width // size)
            text += f"{word} {condition} && __has_builtin({builtin(width)})\n"
            text += f"  typedef {number} part __attribute__((vector_size({width})));\n"
            text += f"  typedef {integer} whole __attribute__((vector_size({width})));\n"
            text += "".join(f"  {part(width, first, at)}\n" for first, at in places)
            word = "#elif"
    return f"{text}#else\n{each}\n#endif" if text else each


def _fma_by_registers(size: int, lanes: int, suffix: str) -> str:
    def builtin(width: int) -> str:
        return f"__builtin_ia32_vfmaddp{_LANES[size][0]}{_FMA_SUFFIX[width]}"

    def part(width: int, first: int, at: str) -> str:
        rest = ", -1, 4" if width == 64 else ""
        registers = f"(part)(v{at}), (part)(w{at}), (part)(sum{at})"
        return f"sum{at} = (__typeof__(sum{at})){builtin(width)}({registers}{rest});"

    each = (
        f"  for (int i = 0; i < {lanes}; i++) sum[i] = __builtin_fma{suffix}(v[i], w[i], sum[i]);"
    )
    return _by_registers(_FMA_REGISTERS, builtin, size, lanes, part, each)


# Masks lie as one byte of 0 or 1 for each lane. The values are moved as floats of their size, bit by bit.


def _mask_bits(size: int, at: str) -> str:
    """The mask for 64 bytes of lanes: a bit for each."""
    if size == 4:
        return (
            f"__builtin_ia32_cvtb2mask128((__attribute__((vector_size(16))) char)(mask{at} << 7))"
        )
    return f"__builtin_ia32_cvtq2mask512(__builtin_convertvector(mask{at}, whole) << 63)"


def _mask_lanes(at: str) -> str:
    """The mask as lanes of all ones or zeros."""
    return f"(-__builtin_convertvector(mask{at}, whole))"


def _masked_load_by_registers(size: int, lanes: int) -> str:
    def builtin(width: int) -> str:
        letter = _LANES[size][0]
        return f"__builtin_ia32_{f'loadup{letter}512_mask' if width == 64 else f'maskloadp{letter}256'}"

    def part(width: int, first: int, at: str) -> str:
        here = f"{builtin(width)}((const void*)(p + {first})"
        if width == 64:
            value = f"{here}, (part)(other{at}), {_mask_bits(size, at)})"
        else:
            mask = _mask_lanes(at)
            value = f"((whole){here}, {mask}) & {mask}) | ((whole)(other{at}) & ~{mask})"
        return f"other{at} = (__typeof__(other{at}))({value});"

    each = f"  for (int i = 0; i < {lanes}; i++) if (mask[i]) other[i] = p[i];"
    each = _all_lanes("__builtin_memcpy(&other, p, {bytes}); return other;", size, lanes) + each
    return _by_registers(_MASKED_REGISTERS, builtin, size, lanes, part, each)


def _masked_store_by_registers(size: int, lanes: int) -> str:
    def builtin(width: int) -> str:
        letter = _LANES[size][0]
        return f"__builtin_ia32_{f'storeup{letter}512_mask' if width == 64 else f'maskstorep{letter}256'}"

    def part(width: int, first: int, at: str) -> str:
        here = f"{builtin(width)}((void*)(p + {first})"
        if width == 64:
            return f"{here}, (part)(v{at}), {_mask_bits(size, at)});"
        return f"{here}, {_mask_lanes(at)}, (part)(v{at}));"

    each = f"  for (int i = 0; i < {lanes}; i++) if (mask[i]) p[i] = v[i];"
    each = _all_lanes("__builtin_memcpy(p, &v, {bytes}); return;", size, lanes) + each
    return _by_registers(_MASKED_REGISTERS, builtin, size, lanes, part, each)


def _all_lanes(whole: str, size: int, lanes: int) -> str:
    """For lanes that no instruction masks: the usual case, all lanes, as one access."""
    return (
        f"  unsigned char all = 1;\n  for (int i = 0; i < {lanes}; i++) all &= mask[i];\n"
        f"  if (all) {{ {whole.format(bytes=size * lanes)} }}\n"
    )
