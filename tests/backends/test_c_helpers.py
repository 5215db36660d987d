"""The helper functions of the host's C kernels give the same values by a clang's builtins and by registers and lanes.

Every function is compiled for several processors, once as it is and once as a compiler without the vector builtins sees
it, and compared with NumPy. Processors that this host can't run are only compiled for.
"""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tinygrad.backends.cpu.helpers import helper_text
from tinygrad.backends.cpu.host import host

# every clang there is: the oldest has the fewest builtins for vectors, the newest the fewest for registers
CLANGS = [
    path for v in ("", *(f"-{n}" for n in range(14, 41))) if (path := shutil.which(f"clang{v}"))
]
pytestmark = pytest.mark.skipif(not CLANGS, reason="needs a clang")
LANES = (1, 2, 3, 4, 8, 12, 16, 32, 64)
KINDS = {
    "float": np.float32, "double": np.float64, "unsigned char": np.uint8, "short": np.int16,
    "int": np.int32, "long": np.int64,
}  # fmt: skip
X86 = host().machine in ("x86_64", "AMD64")
TARGETS = ["-march=native", *(["-march=x86-64", "-march=x86-64-v3"] if X86 else [])]


def functions(kind: str, lanes: int) -> str:
    """The helpers on `lanes` lanes, and functions on memory that call them; all names end in the number of lanes."""
    size, suffix = np.dtype(KINDS[kind]).itemsize, "f" if kind == "float" else ""
    floats = ["fma", "sqrt", "trunc"] if kind in ("float", "double") else []
    texts = [
        helper_text(w, f"{w}{lanes}", f"T{lanes}", kind, f"B{lanes}", lanes, size * lanes, suffix)
        for w in ["masked_load", "masked_store", *floats]
    ]
    # what lies in memory is as long as its lanes; a vector of 3 is longer
    text = """
typedef KIND TN __attribute__((ext_vector_type(N), aligned(SIZE)));
typedef unsigned char BN __attribute__((ext_vector_type(N), aligned(1)));
HELPERS
void do_masked_loadN(const KIND* p, void* m, void* o) {
  GET(BN, mask, m, N); GET(TN, other, o, N); PUT(TN, masked_loadN(p, mask, other), o, N);
}
void do_masked_storeN(KIND* p, void* m, void* v) {
  GET(BN, mask, m, N); GET(TN, value, v, N); masked_storeN(p, mask, value);
}
"""
    if floats:
        text += """
void do_fmaN(void* a, void* b, void* c) {
  GET(TN, x, a, N); GET(TN, y, b, N); GET(TN, z, c, N); PUT(TN, fmaN(x, y, z), c, N);
}
void do_sqrtN(void* a) { GET(TN, x, a, N); PUT(TN, sqrtN(x), a, N); }
void do_truncN(void* a) { GET(TN, x, a, N); PUT(TN, truncN(x), a, N); }
"""
    text = re.sub(r"N\b", str(lanes), text).replace("KIND", kind).replace("SIZE", str(size))
    return text.replace("HELPERS", "\n".join(texts))


def program(kind: str) -> str:
    macros = [
        "#define GET(V, v, p, n) V v; __builtin_memcpy(&v, p, sizeof(v[0]) * n)",
        "#define PUT(V, v, p, n) do { V r = v; __builtin_memcpy(p, &r, sizeof(r[0]) * n); } while (0)",
    ]
    return "\n".join([*macros, *(functions(kind, lanes) for lanes in LANES)])


def build(clang: str, folder: Path, text: str, target: str) -> ctypes.CDLL | None:
    """The library, or None where this host can't run it."""
    out = folder / "helpers.so"
    flags = ["-O2", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-w", target]
    done = subprocess.run(
        [clang, *flags, "-x", "c", "-", "-o", out, "-lm"],
        input=text,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    runs = target == "-march=native" or target == "-march=x86-64" or "avx2" in host().features
    return ctypes.CDLL(str(out)) if runs else None


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


# as it is, and as a compiler without builtins for vectors of any length sees it
CASES = [(True, "-march=native"), *((False, target) for target in TARGETS)]


@pytest.mark.parametrize(
    "builtins, target", CASES, ids=[f"{'vectors' if b else 'registers'}{t}" for b, t in CASES]
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clang", CLANGS)
def test_helpers(tmp_path, clang, kind, builtins, target):
    draw = np.random.default_rng(7)
    text = program(kind)
    if not builtins:
        text = text.replace("#if __has_builtin", "#if 0 && __has_builtin")
    library = build(clang, tmp_path, text, target)
    for lanes in LANES if library is not None else ():
        dtype = KINDS[kind]
        check_masks(library, draw, lanes, dtype)
        if kind in ("float", "double"):
            check_floats(library, draw, lanes, dtype)


def check_masks(library, draw, lanes, dtype):
    for keep in (np.zeros(lanes), np.ones(lanes), *draw.integers(0, 2, (4, lanes))):
        mask = keep.astype(np.uint8)
        memory = draw.integers(1, 100, lanes).astype(dtype)
        other = draw.integers(1, 100, lanes).astype(dtype)
        want = np.where(mask, memory, other)
        got = other.copy()
        library[f"do_masked_load{lanes}"](address(memory), address(mask), address(got))
        np.testing.assert_array_equal(got, want)
        target = memory.copy()
        library[f"do_masked_store{lanes}"](address(target), address(mask), address(other))
        np.testing.assert_array_equal(target, np.where(mask, other, memory))


def check_floats(library, draw, lanes, dtype):
    # a product that rounds: only one rounding at the end gives the small rest
    a = (1 + draw.integers(1, 1000, lanes) * np.finfo(dtype).eps).astype(dtype)
    b = (1 - draw.integers(1, 1000, lanes) * np.finfo(dtype).epsneg).astype(dtype)
    c = -np.ones(lanes, dtype)
    exact = [int(x * 2**60) * int(y * 2**60) - 2**120 for x, y in zip(a.tolist(), b.tolist())]
    got = c.copy()
    library[f"do_fma{lanes}"](address(a), address(b), address(got))
    np.testing.assert_array_equal(got, np.array([e / 2**120 for e in exact]).astype(dtype))
    x = np.resize(np.array([0.0, -0.0, 2.0, 2.5, -2.5, np.inf, np.nan, 1e-40, 7.99], dtype), lanes)
    for name, function in (("sqrt", np.sqrt), ("trunc", np.trunc)):
        got = x.copy()
        library[f"do_{name}{lanes}"](address(got))
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(got, function(x))
