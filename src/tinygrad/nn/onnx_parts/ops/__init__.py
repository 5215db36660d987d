"""The operators by topic; importing this package registers them all."""

from . import (
    attention,
    attention_contrib,
    contrib,
    contrib_quantized,
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
