"""The tensor API: `Tensor`, put together from one module per topic.

In: calls by the user. Out: graphs of UOps, which `schedule` and `engine` turn into kernels.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from tinygrad.device import Device
from tinygrad.dtype import _from_np_dtype, _to_np_dtype, dtypes
from tinygrad.tensor.autograd import AutogradMixin
from tinygrad.tensor.core import TensorCore, canonicalize_device, live_tensors
from tinygrad.tensor.creation import CreationMixin
from tinygrad.tensor.elementary import ElementaryMixin
from tinygrad.tensor.elementwise import ElementwiseMixin
from tinygrad.tensor.indexing import IndexingMixin
from tinygrad.tensor.interop import InteropMixin
from tinygrad.tensor.linalg import LinalgMixin
from tinygrad.tensor.loss import LossMixin
from tinygrad.tensor.memory import MemoryMixin
from tinygrad.tensor.movement import MovementOpsMixin
from tinygrad.tensor.naming import _METADATA, name_methods
from tinygrad.tensor.network import NetworkMixin
from tinygrad.tensor.random import RandomMixin
from tinygrad.tensor.reduce import ReduceMixin
from tinygrad.tensor.scatter import ScatterMixin
from tinygrad.tensor.source import get_shape
from tinygrad.tensor.storage import StorageMixin

__all__ = [
    "TYPE_CHECKING", "_METADATA", "Device", "Tensor", "_from_np_dtype", "_to_np_dtype",
    "canonicalize_device", "cast", "dtypes", "fn", "get_shape", "live_tensors",
]  # fmt: skip


@name_methods
class Tensor(
    CreationMixin,
    RandomMixin,
    ElementwiseMixin,
    ElementaryMixin,
    ReduceMixin,
    MovementOpsMixin,
    IndexingMixin,
    ScatterMixin,
    LinalgMixin,
    NetworkMixin,
    LossMixin,
    StorageMixin,
    MemoryMixin,
    InteropMixin,
    AutogradMixin,
    TensorCore,
):
    """A lazy multi-dimensional array of one dtype on one or several devices.

    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> loss = (x * x).sum()
    >>> _ = loss.backward()
    >>> loss.item(), x.grad.tolist()
    (30.0, [[2.0, 4.0], [6.0, 8.0]])
    """

    __slots__ = ()
    training: bool = False

    class train(contextlib.ContextDecorator):
        """Turns training mode on (or off) within a `with` block or a decorated function.

        >>> with Tensor.train():
        ...     Tensor.training
        True
        >>> Tensor.training
        False
        """

        def __init__(self, mode: bool = True):
            self.mode = mode

        def __enter__(self):
            self.previous, Tensor.training = Tensor.training, self.mode
            return self

        def __exit__(self, *_):
            Tensor.training = self.previous


# drop-in: a name that programs find here; it makes a tensor like another one
fn = Tensor.ones_like

# what the module's annotations and isinstance checks of users see
Tensor.__module__ = __name__
