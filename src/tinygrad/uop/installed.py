"""The base of classes whose methods are put into the node type.

Such a class is never instantiated: `tinygrad._core.install` copies what stands in its body. For type
checkers its `self` is a node, at run time it is a plain class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinygrad._core import UOp as Installed
else:
    Installed = object

__all__ = ["Installed"]
