"""The host's processor as a device."""

from tinygrad.device import Backend


def _open(name: str):
    from tinygrad.backends.cpu.device import CPUDevice

    return CPUDevice(name)


def _supports(dtype) -> bool:
    """What users may count on; None stands for a default type.

    drop-in: kernels compute 8-bit floats too, but programs and public tests take the answer for native support, and then
    expect of every conversion to and from them what only such devices give.
    """
    from tinygrad.dtype import dtypes

    return dtype is None or dtype.scalar() not in dtypes.fp8s


# A launch carries 512 arguments (`_pool.pyx`), of which some are sizes and the number of the thread.
MAX_BUFFERS = 480

BACKEND = Backend(
    "CPU",
    probe_order=90,
    open=_open,
    supports_dtype=_supports,
    host_only=True,
    max_buffers=MAX_BUFFERS,
)
