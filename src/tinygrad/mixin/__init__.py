"""Method sets that several classes share: tensors, graph nodes and patterns.

`MathMixin` is arithmetic, `MovementMixin` is shapes; `OpMixin` is both. They know no class they are
mixed into: arithmetic ends in `alu` and `const_like`, movement in `_mop` and `shape`.
"""

from tinygrad.mixin.math import MathMixin
from tinygrad.mixin.movement import MovementMixin

__all__ = ["MathMixin", "MovementMixin", "OpMixin"]


class OpMixin(MathMixin, MovementMixin):
    """Arithmetic and movement together.

    >>> issubclass(Tensor, OpMixin)
    True
    """

    __slots__ = ()
