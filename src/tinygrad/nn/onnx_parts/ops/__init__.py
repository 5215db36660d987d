"""The operators by topic; importing this package registers them all."""

from . import (
    attention,
    control,
    convolution,
    elementwise,
    image,
    indexing,
    layout,
    linear,
    machine_learning,
    normalization,
    quantized,
    recurrent,
    reduction,
    signal,
    text,
    training,
)
