"""CUDA C++, for nvrtc or nvcc.

In: a linear instruction list. Out: one `extern "C"` kernel with the headers and vector types it
needs. Vectors of up to four lanes are CUDA's own types, longer ones are structures declared in front
of the kernel. bfloat16 and fp8 are computed with in float32.
"""

from __future__ import annotations

from math import prod

from tinygrad.dtype import DType, PtrDType, dtypes
from tinygrad.renderer.cstyle import LANE_NAMES, CStyleLanguage, base_rewrite
from tinygrad.renderer.narrow import compute_in_float
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

_HEADERS = {
    dtypes.float16: "cuda_fp16.h",
    dtypes.bfloat16: "cuda_bf16.h",
    dtypes.fp8e4m3: "cuda_fp8.h",
    dtypes.fp8e5m2: "cuda_fp8.h",
}
_BUILTIN_VECTORS = (dtypes.float32, dtypes.int32, dtypes.uint32, dtypes.float64)
_HALF_FUNCTIONS = {
    Ops.SQRT: "hsqrt",
    Ops.RECIPROCAL: "hrcp",
    Ops.EXP2: "hexp2",
    Ops.LOG2: "hlog2",
    Ops.SIN: "hsin",
    Ops.TRUNC: "htrunc",
}


def _function(op: Ops, word: str):
    """Code of a unary function that has another name for halves."""
    half = _HALF_FUNCTIONS[op]
    return lambda x, dtype: f"{half if dtype.scalar() is dtypes.float16 else word}({x})"


def _bitcast(ctx: CUDARenderer, x: UOp) -> str:
    """Bits are moved by a template that needs no address."""
    ctx.needs_bitcast = True
    return f"bits_as<{ctx.render_dtype(x.dtype)}>({ctx[x.src[0]]})"


_BITCAST = """template <class T, class F> __device__ __forceinline__ T bits_as(F from) {
  union U { F f; T t; __device__ U() {} } u; u.f = from; return u.t;
}"""


class CUDARenderer(CStyleLanguage):
    """CUDA C++ for compute capability `arch` (`sm_90`)."""

    device = "CUDA"
    suffix = "CUDA"
    kernel_typedef = 'extern "C" __global__ void'
    smem_prefix = "__shared__ "
    smem_align = "__align__(16) "
    smem_prefix_for_cast = False
    barrier = "__syncthreads();"
    float4 = "make_float4"
    float4_style = ("(", ")")
    gep_arr_threshold = 16
    bitcast_by_address = False
    infinity = "__int_as_float(0x7f800000)"
    nan = "__int_as_float(0x7fffffff)"
    global_max = (2147483647, 65535, 65535)
    local_max = (1024, 1024, 64)
    shared_max = 49152
    code_for_workitem = {
        "g": lambda axis: f"blockIdx.{LANE_NAMES[int(axis)]}",
        "l": lambda axis: f"threadIdx.{LANE_NAMES[int(axis)]}",
        "i": lambda axis: "(blockIdx.{0}*blockDim.{0}+threadIdx.{0})".format(LANE_NAMES[int(axis)]),
    }
    type_map = {
        dtypes.bfloat16: "nv_bfloat16",
        dtypes.fp8e4m3: "__nv_fp8_e4m3",
        dtypes.fp8e5m2: "__nv_fp8_e5m2",
    }
    code_for_op = {
        **CStyleLanguage.code_for_op,
        Ops.SQRT: _function(Ops.SQRT, "sqrt"),
        Ops.EXP2: _function(Ops.EXP2, "exp2"),
        Ops.LOG2: _function(Ops.LOG2, "log2"),
        Ops.SIN: _function(Ops.SIN, "sin"),
        Ops.TRUNC: _function(Ops.TRUNC, "trunc"),
        Ops.RECIPROCAL: lambda x, dtype: f"hrcp({x})" if dtype is dtypes.float16 else f"(1/{x})",
    }
    string_rewrite = PatternMatcher([(UPat(Ops.BITCAST, name="x"), _bitcast)]) + base_rewrite
    extra_matcher = compute_in_float((dtypes.bfloat16, *dtypes.fp8s))

    def __init__(self, arch: str):
        super().__init__()
        self.arch = arch
        self.needs_bitcast = False

    def __reduce__(self):
        return self.__class__, (self.arch,)

    def render_dtype(self, dt: DType, mutable: bool = True) -> str:
        if not isinstance(dt, PtrDType) and 1 < dt.count <= 4 and dt.scalar() is dtypes.uint32:
            return f"uint{dt.count}"
        return super().render_dtype(dt, mutable)

    def render_vector_prefix(self, dt: DType) -> str:
        """Declares the vector type `dt` and its `make_` function."""
        name, scalar = self.render_dtype(dt), self.render_dtype(dt.scalar())
        lanes = LANE_NAMES[: dt.count]
        params = ", ".join(f"{scalar} {lane}" for lane in lanes)
        return (
            f"struct __align__({dt.itemsize}) {name} {{ {scalar} {', '.join(lanes)}; }}; "
            f"__device__ {name} make_{name}({params}) {{ {name} r={{{', '.join(lanes)}}}; return r; }}"
        )

    def render_kernel(self, function_name, kernel, bufs, uops, prefix=None) -> str:
        used = {u.dtype.base for u in uops} | {s.dtype.base for u in uops for s in u.src}
        front = [f"#include <{name}>" for name in sorted({_HEADERS[dt.scalar()] for dt in used
                                                          if dt.scalar() in _HEADERS})]  # fmt: skip
        if self.needs_bitcast:
            front.append(_BITCAST)
            self.needs_bitcast = False
        own = [dt for dt in used if dt.count > 1 and not self._is_builtin(dt)]
        front += [self.render_vector_prefix(dt) for dt in sorted(own, key=str)]
        front += prefix or []
        sizes = [u.src[0].arg for u in uops if u.op is Ops.SPECIAL and u.arg[0] == "l"]
        bounds = f" __launch_bounds__({prod(sizes)})" if sizes else ""
        return super().render_kernel(
            f"{bounds.strip()} {function_name}".strip(), kernel, bufs, uops, front
        )

    @staticmethod
    def _is_builtin(dt: DType) -> bool:
        return dt.scalar() in _BUILTIN_VECTORS and dt.count <= 4
