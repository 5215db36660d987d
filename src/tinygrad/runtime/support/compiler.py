"""From the text of a kernel to bytes a device loads: the base compiler, its disk cache, and the choice among several.

`tinygrad.device` re-exports it. A renderer knows no compiler; a device offers ordered pairs of the two.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinygrad.helpers import CCACHE, ContextVar, diskcache_get, diskcache_put, getenv

if TYPE_CHECKING:
    from tinygrad.renderer import Renderer


class CompileError(Exception):
    """A compiler refused a source; the message holds what it said."""


class Compiler:
    """Text to bytes. The base class passes the text through, for devices whose runtime compiles by itself.

    `cachekey` names the table of the disk cache. It must tell apart everything but the source that the bytes depend
    on: the compiler, its version, its flags, the target. None = never cached.

    >>> Compiler().compile("text")
    b'text'
    """

    def __init__(self, cachekey: str | None = None):
        self.cachekey = cachekey if CCACHE else None

    def compile(self, src: str) -> bytes:
        """Compiles; raises CompileError with the compiler's words."""
        return src.encode()

    def compile_cached(self, src: str) -> bytes:
        """As `compile`, through the disk cache. What the cache holds is used only if it is whole."""
        if self.cachekey is not None:
            found = diskcache_get(self.cachekey, src)
            if isinstance(found, bytes):
                return found
        if getenv("ASSERT_COMPILE"):
            raise CompileError(f"ASSERT_COMPILE is set and this source is not in the cache:\n{src}")
        lib = self.compile(src)
        if self.cachekey is not None:
            diskcache_put(self.cachekey, src, lib)
        return lib

    def disassemble(self, lib: bytes) -> None:
        """Prints the machine code; compilers that can't print nothing."""


@dataclass(frozen=True)
class CompilerPair:
    """A renderer and the compiler that takes its text. `ctrl_var`: set to 1, it asks for this pair."""

    renderer: type[Renderer] | functools.partial
    compiler: type[Compiler] | functools.partial
    ctrl_var: ContextVar | None = None

    def name(self, device: str) -> str:
        """The compiler's class name without `Compiler` and the device: CPULLVMCompiler on CPU is LLVM."""
        maker = (
            self.compiler.func if isinstance(self.compiler, functools.partial) else self.compiler
        )
        word = maker.__name__.upper().removesuffix("COMPILER") or "NONE"
        return word.removeprefix(device.partition(":")[0].upper()) or word


@dataclass(frozen=True)
class CompilerSet:
    """The pairs of a device, best first. `ctrl_var` holds the name of the wanted pair, or nothing.

    `takes_commands`: a value of `ctrl_var` that is no pair's name is left to the compilers to read.
    """

    cset: list[CompilerPair]
    ctrl_var: ContextVar | None = None
    takes_commands: bool = False
