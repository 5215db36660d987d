"""The host's processor as a device."""

from tinygrad.device import Backend


def _open(name: str):
    from tinygrad.backends.cpu.device import CPUDevice

    return CPUDevice(name)


def _supports(dtype) -> bool:
    """Kernels compute with all types but the 8-bit floats; None stands for a default type."""
    from tinygrad.dtype import dtypes

    return True


BACKEND = Backend("CPU", probe_order=90, open=_open, supports_dtype=_supports, host_only=True)
