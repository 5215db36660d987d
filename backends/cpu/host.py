"""Facts about the processor this process runs on, read once.

Out: `host()`, a small record of what kernels may use. Linux tells it in /proc/cpuinfo; elsewhere the
least that the architecture guarantees is assumed. Used by the CPU renderers and compilers.
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass
from pathlib import Path

_X86 = ("x86_64", "amd64", "x86-64")
_ARM = ("aarch64", "arm64")


@dataclass(frozen=True)
class Host:
    """`vector_bytes` and `vector_registers` of the widest vectors, whether fma is one instruction, and so a masked access."""

    machine: str
    features: frozenset[str]
    vector_bytes: int
    vector_registers: int
    has_fma: bool
    has_masks: bool


def _cpu_flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return frozenset(value.split())
    return frozenset()


def _describe(machine: str, flags: frozenset[str]) -> Host:
    if machine in _ARM:
        return Host(machine, flags, 16, 32, True, False)
    if machine in _X86:
        fma = "fma" in flags
        if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
            return Host(machine, flags, 64, 32, fma, True)
        if "avx2" in flags:
            return Host(machine, flags, 32, 16, fma, True)
    return Host(machine, flags, 16, 16, False, False)


@functools.cache
def host() -> Host:
    """The record of this machine."""
    return _describe(platform.machine().lower(), _cpu_flags())
