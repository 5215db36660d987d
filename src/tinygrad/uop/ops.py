"""What users import of the graph: nodes, patterns, matchers, rewriting.

A facade: the node type comes from the core, its methods from the modules beside this one, and are
put into the type here. Import nodes from this module, never from the core, so that they are whole.
"""

from __future__ import annotations

from typing import TypeAlias

from tinygrad._core import (
    BottomUpGate,
    PatternMatcher,
    UOp,
    cached,
    compare,
    derived,
    install,
    set_default_dtype,
    set_hook,
)
from tinygrad._core import graph_rewrite as untracked_rewrite
from tinygrad._core import substitute as substitute_nodes
from tinygrad.dtype import AddrSpace, ConstType, dtypes
from tinygrad.mixin import MathMixin, MovementMixin
from tinygrad.mixin.operators import OperatorMixin
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.bounds import compute_bounds
from tinygrad.uop.evaluate import exec_alu, python_alu
from tinygrad.uop.info import AxisType, CustomKernel, KernelInfo, axis_colors, axis_letters
from tinygrad.uop.installed import Installed
from tinygrad.uop.methods import BuildMethods, identity_element
from tinygrad.uop.methods_symbolic import (
    SymbolicMethods,
    resolve,
    smax,
    smin,
    ssimplify,
    sym_infer,
)
from tinygrad.uop.methods_tensor import TensorMethods, all_metadata, buffers, compute_device
from tinygrad.uop.pickling import PicklingMethods
from tinygrad.uop.program import ProgramMethods
from tinygrad.uop.ranges import compute_open_ranges, ended_ranges
from tinygrad.uop.render import RenderMethods, print_uops
from tinygrad.uop.shape import compute_axis, compute_shape, shape_to_uop, size_to_uop
from tinygrad.uop.tracing import (
    TRACK_MATCH_STATS,
    RewriteTrace,
    TrackedGraphRewrite,
    TrackedPatternMatcher,
    _name_cnt,
    active_rewrites,
    graph_rewrite,
    graph_rewrite_map,
    profile_matches,
    trace_number,
    track_rewrites,
    tracked_ctxs,
    tracked_keys,
    uop_fields,
)
from tinygrad.uop.upat import UPat

sint: TypeAlias = int | UOp
Variable: TypeAlias = UOp
ConstLike: TypeAlias = ConstType | tuple[ConstType, ...] | UOp
sint_to_uop = size_to_uop


class _Ordered:
    """A node as a sort key, in the core's structural order."""

    __slots__ = ("node",)

    def __init__(self, node: UOp):
        self.node = node

    def __lt__(self, other: _Ordered) -> bool:
        return compare(self.node, other.node) < 0

    def __gt__(self, other: _Ordered) -> bool:
        return compare(self.node, other.node) > 0

    def __le__(self, other: _Ordered) -> bool:
        return compare(self.node, other.node) <= 0

    def __ge__(self, other: _Ordered) -> bool:
        return compare(self.node, other.node) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and self.node is other.node

    def __hash__(self) -> int:
        return hash(self.node)


class _Derived(Installed):
    """Properties that are computed once per node, sources first."""

    _shape = derived("shape", compute_shape)
    _min_max = derived("bounds", compute_bounds)
    _device = derived("device", compute_device)
    _ranges_below = derived("ranges", compute_open_ranges)
    axis = derived("axis", compute_axis)

    @property
    def ranges(self) -> dict[UOp, None]:
        """The loops this node stands in. Shared between nodes: do not change it.

        >>> i = UOp.range(4, 0)
        >>> list((i + 1).ranges) == [i]
        True
        """
        below = self._ranges_below
        return {**below, self: None} if self.op is Ops.RANGE else below

    @property
    def ended_ranges(self) -> tuple[UOp, ...]:
        """The loops this node ends.

        >>> i = UOp.range(4, 0)
        >>> list(UOp.const(dtypes.int32, 1).end(i).ended_ranges) == [i]
        True
        """
        return ended_ranges(self)

    @property
    def tuplize(self) -> _Ordered:
        """A sort key: op, then arg, then dtype, then sources."""
        return _Ordered(self)

    @property
    def trace_num(self) -> int:
        """The number of this node in the trace."""
        return trace_number(self)


set_default_dtype(dtypes.void)
for _methods in (
    OperatorMixin,
    MathMixin,
    MovementMixin,
    _Derived,
    BuildMethods,
    SymbolicMethods,
    TensorMethods,
    RenderMethods,
    ProgramMethods,
    PicklingMethods,
):
    install(UOp, _methods)

# replaces the nodes that are keys of ctx, from the top; what a replacement brings in is new ground
_substitute = PatternMatcher([(UPat(tuple(Ops), name="x"), lambda ctx, x: ctx.get(x))])

__all__ = [
    "AddrSpace",
    "AxisType",
    "BottomUpGate",
    "ConstLike",
    "CustomKernel",
    "GroupOp",
    "KernelInfo",
    "Ops",
    "PatternMatcher",
    "RewriteTrace",
    "TRACK_MATCH_STATS",
    "TrackedGraphRewrite",
    "TrackedPatternMatcher",
    "UOp",
    "UPat",
    "Variable",
    "_name_cnt",
    "_substitute",
    "active_rewrites",
    "all_metadata",
    "axis_colors",
    "axis_letters",
    "buffers",
    "cached",
    "exec_alu",
    "graph_rewrite",
    "graph_rewrite_map",
    "identity_element",
    "print_uops",
    "profile_matches",
    "python_alu",
    "resolve",
    "set_hook",
    "shape_to_uop",
    "sint",
    "sint_to_uop",
    "smax",
    "smin",
    "ssimplify",
    "substitute_nodes",
    "sym_infer",
    "track_rewrites",
    "tracked_ctxs",
    "tracked_keys",
    "untracked_rewrite",
    "uop_fields",
]
