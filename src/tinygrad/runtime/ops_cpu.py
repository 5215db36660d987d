"""Import path of the CPU device; it is defined in its backend's folder."""

from tinygrad.backends.cpu.compiler import ClangJITCompiler, CPULLVMCompiler
from tinygrad.backends.cpu.device import CPUAllocator, CPUDevice, CPUProgram

__all__ = ["CPUAllocator", "CPUDevice", "CPULLVMCompiler", "CPUProgram", "ClangJITCompiler"]
