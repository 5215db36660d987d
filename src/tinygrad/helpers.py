"""Helpers under the names that users import; every one is defined in `tinygrad.common`."""

from typing import TypeVar

from tinygrad.common.containers import (
    all_int,
    all_same,
    argfix,
    argsort,
    cdiv,
    ceildiv,
    cmod,
    data64,
    data64_le,
    dedup,
    flatten,
    fully_flatten,
    get_child,
    get_contraction,
    get_single_element,
    getbits,
    hi32,
    i2u,
    is_numpy_ndarray,
    lo32,
    make_tuple,
    merge_dicts,
    next_power2,
    partition,
    polyN,
    prod,
    round_down,
    round_up,
    strides_for_shape,
    unwrap,
)
from tinygrad.common.diskcache import (
    CACHEDB,
    VERSION,
    cache_dir,
    db_connection,
    diskcache,
    diskcache_clear,
    diskcache_get,
    diskcache_put,
)
from tinygrad.common.download import _ensure_downloads_dir, cpu_objdump, fetch, system, temp
from tinygrad.common.env import (
    ALLOW_DEVICE_USAGE,
    ALLOW_TF32,
    AMD_CC,
    AMD_LLVM,
    AMX,
    ARCH_X86,
    BEAM,
    CACHELEVEL,
    CAPTURE_PROCESS_REPLAY,
    CAPTURING,
    CCACHE,
    CI,
    CORRECT_DIVMOD_FOLDING,
    CPU_CC,
    CPU_COUNT,
    CPU_LLVM,
    CPU_LVP,
    CUDA_CC,
    CUDA_PTX,
    DEBUG,
    DEBUG_RANGEIFY,
    DEVECTORIZE,
    DISABLE_FAST_IDIV,
    EMULATE,
    FUSE_OPTIM,
    IGNORE_BEAM_CACHE,
    IGNORE_OOB,
    IMAGE,
    JIT,
    JIT_BATCH_SIZE,
    LRU,
    MAX_BUFFER_SIZE,
    NO_MEMORY_PLANNER,
    NOLOCALS,
    NOOPT,
    NULL_IR3,
    NULL_NAK,
    NV_CC,
    NV_NAK,
    NV_PTX,
    OSX,
    PCONTIG,
    PROFILE,
    QCOM_CC,
    QCOM_IR3,
    RING,
    SPEC,
    SPLIT_REDUCEOP,
    TC_OPT,
    TC_SELECT,
    TRACEMETA,
    TRANSCENDENTAL,
    TUPLE_ORDER,
    USE_TC,
    VALIDATE_WITH_CPU,
    VIZ,
    WIN,
    WINO,
    Context,
    ContextVar,
    getenv,
)
from tinygrad.common.memory import (
    flat_mv,
    from_mv,
    init_c_struct_t,
    init_c_var,
    mv_address,
    to_char_p_p,
    to_mv,
)
from tinygrad.common.profiling import (
    _METADATA,
    GlobalCounters,
    Metadata,
    ProfileEvent,
    ProfilePointEvent,
    ProfileRangeEvent,
    Profiling,
    Timing,
    TracingKey,
    cpu_events,
    cpu_profile,
    perf_counter_us,
    profile_marker,
)
from tinygrad.common.progress import tqdm, trange
from tinygrad.common.text import (
    ansilen,
    ansistrip,
    colored,
    colorize_float,
    pluralize,
    size_to_str,
    strip_parens,
    time_to_str,
    to_function_name,
    word_wrap,
)

_LAZY = {"TCPServerWithReuse": "tinygrad.common.server"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


T = TypeVar("T")
U = TypeVar("U")

__all__ = [name for name in dir() if not name.startswith("__")]
