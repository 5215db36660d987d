"""Compilers for the host: a clang from PATH, or the LLVM inside llvmlite.

In: C source or LLVM IR. Out: a relocatable ELF object, as bytes; the loader beside this file runs
it. Nothing is written to disk. `CC`, or a `CPU_CC` that is no compiler's name, is the C compiler to call.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tinygrad.backends.cpu.host import host

from tinygrad.helpers import CPU_CC, OSX, cpu_objdump
from tinygrad.runtime.support.compiler import CompileError, Compiler
from tinygrad.runtime.support.compiler_llvm import LLVMCompiler

# what a C compiler must understand: vectors with `?:` in C are clang's
_FLAGS = [
    "-x", "c", "-c", "-O2", "-fPIC", "-ffreestanding", "-fno-math-errno", "-fno-strict-aliasing", "-fwrapv",
    "-ffp-contract=off", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fbracket-depth=1024",
    "-Wno-unknown-warning-option", "-Wno-psabi", "-w",
]  # fmt: skip
_PAIR_NAMES = ("", "LLVM", "CLANGJIT", "LVP")


def _version_in_name(path: str) -> int:
    found = re.search(r"(?:clang|llvm)-?(\d+)", os.path.realpath(path))
    return int(found.group(1)) if found else 0


@functools.cache
def find_clang() -> str | None:
    """The newest clang on PATH (by its name: no process is started), or None."""
    names = ["clang", *(f"clang-{version}" for version in range(40, 13, -1))]
    found = [path for path in map(shutil.which, names) if path]
    return max(found, key=_version_in_name, default=None)


def _command() -> str:
    asked = CPU_CC.value if str(CPU_CC.value).upper() not in _PAIR_NAMES else os.getenv("CC", "")
    if not asked:
        found = find_clang()
        if found is None:
            raise RuntimeError("no clang on PATH; install one, name one in CC, or use CPU_LLVM=1")
        return found
    path = shutil.which(asked)
    if path is None:
        raise RuntimeError(f"the C compiler {asked!r} is not on PATH")
    return path


def _target_flags() -> list[str]:
    flags = ["-march=native"] if "arm" not in host().machine else ["-mcpu=native"]
    if host().vector_bytes == 64:
        flags.append("-mprefer-vector-width=512")
    return flags if not OSX else [*flags, "--target=arm64-none-unknown-elf"]


class ClangJITCompiler(Compiler):
    """Calls clang with the source on stdin and takes the object from stdout.

    Raises RuntimeError where there is none.
    """

    def __init__(self, cachekey: str = "compile_clang_jit"):
        self.command = [_command(), *_FLAGS, *_target_flags()]
        real = Path(os.path.realpath(self.command[0]))
        stamp = f"{real}_{real.stat().st_mtime_ns}_{'_'.join(self.command[1:])}"
        features = f"{hash_features():x}"
        super().__init__(f"{cachekey}_{re.sub(r'[^A-Za-z0-9]+', '_', stamp)}_{features}")

    def compile(self, src: str) -> bytes:
        done = subprocess.run(
            [*self.command, "-", "-o", "-"], input=src.encode(), capture_output=True
        )
        if done.returncode != 0:
            raise CompileError(
                f"{self.command[0]} refused the source:\n{done.stderr.decode(errors='replace')}\n{src}"
            )
        return done.stdout

    def disassemble(self, lib: bytes) -> None:
        cpu_objdump(lib)


def hash_features() -> int:
    """A number that tells hosts apart, since `native` means another machine elsewhere."""
    import zlib

    return zlib.crc32(" ".join([host().machine, *sorted(host().features)]).encode())


class CPULLVMCompiler(LLVMCompiler):
    """LLVM IR for the host's processor and features."""

    def __init__(self):
        import llvmlite.binding as llvm

        features = (
            llvm.get_host_cpu_features().flatten() if hasattr(llvm, "get_host_cpu_features") else ""
        )
        triple = llvm.get_process_triple()
        super().__init__(triple, llvm.get_host_cpu_name(), features, "compile_cpu")

    def disassemble(self, lib: bytes) -> None:
        cpu_objdump(lib)
