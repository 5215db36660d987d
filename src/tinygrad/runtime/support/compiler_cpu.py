"""Import path of the host's compilers; they are defined in the CPU backend's folder."""

from tinygrad.backends.cpu.compiler import ClangJITCompiler, CPULLVMCompiler
from tinygrad.runtime.support.compiler_llvm import LLVMCompiler

__all__ = ["CPULLVMCompiler", "ClangJITCompiler", "LLVMCompiler"]
