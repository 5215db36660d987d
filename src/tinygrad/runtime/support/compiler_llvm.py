"""LLVM IR text to a relocatable object, in this process, by the LLVM inside llvmlite.

In: a module as text. Out: the bytes of an ELF object for a target machine. Subclasses name the
target. llvmlite is imported when the first compiler starts, since it loads 180 MB of libraries.
"""

from __future__ import annotations

from tinygrad.runtime.support.compiler import CompileError, Compiler


class LLVMCompiler(Compiler):
    """Compiles for `triple`, `cpu`, `features` (a string like `+avx2,+fma`) at O2.

    Raises ImportError where llvmlite is missing, and RuntimeError for an unknown target.
    """

    def __init__(self, triple: str, cpu: str, features: str, cachekey: str):
        import llvmlite.binding as llvm

        self.llvm = llvm
        self._start_targets(triple)
        target = llvm.Target.from_triple(triple)
        self.machine = target.create_target_machine(
            cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
        )
        self.triple, self.data_layout = triple, str(self.machine.target_data)
        version = ".".join(str(n) for n in llvm.llvm_version_info)
        super().__init__(f"{cachekey}_llvm{version}_{triple}_{cpu}_{features}")

    def _start_targets(self, triple: str) -> None:
        if triple == self.llvm.get_process_triple():
            self.llvm.initialize_native_target()
            self.llvm.initialize_native_asmprinter()
        else:
            self.llvm.initialize_all_targets()
            self.llvm.initialize_all_asmprinters()

    def compile(self, src: str) -> bytes:
        llvm = self.llvm
        header = f'target triple = "{self.triple}"\ntarget datalayout = "{self.data_layout}"\n'
        try:
            module = llvm.parse_assembly(header + src)
            module.verify()
        except RuntimeError as why:
            raise CompileError(f"LLVM refused the module: {why}\n{src}") from None
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)
        return self.machine.emit_object(module)
