"""The compiled core: graph nodes, walks, pattern matching, rewriting.

Imports no other part of the package; what it needs from above is given to it: `bind` (operations and dtypes), `install` (methods
of the node), `set_hook`. Layers: values < node < slots, walk; pattern < match < rewrite; arith, formula, identity.
"""

from tinygrad._core.arith import bind
from tinygrad._core.formula import Linear, scaled_part, summands
from tinygrad._core.identity import compare
from tinygrad._core.match import (
    BottomUpGate,
    PatternMatcher,
    Rule,
    fired_rule,
    match_all,
    match_counts,
)
from tinygrad._core.node import (
    UOp,
    check_table,
    get_hook,
    install,
    live_nodes,
    made_nodes,
    python_forms,
    set_hook,
)
from tinygrad._core.rewrite import DEBUG, graph_rewrite, graph_rewrite_map
from tinygrad._core.slots import cached, derived, slot_number, uop_derived
from tinygrad._core.sweep import (
    arrange,
    loop_masks,
    rebuilt,
    replaced,
    set_structure,
    transform,
    with_bodies,
)
from tinygrad._core.values import set_default_dtype
from tinygrad._core.walk import substitute

__all__ = [
    "BottomUpGate",
    "DEBUG",
    "Linear",
    "PatternMatcher",
    "Rule",
    "UOp",
    "arrange",
    "bind",
    "cached",
    "check_table",
    "compare",
    "derived",
    "fired_rule",
    "get_hook",
    "graph_rewrite",
    "graph_rewrite_map",
    "install",
    "live_nodes",
    "loop_masks",
    "made_nodes",
    "match_all",
    "match_counts",
    "python_forms",
    "rebuilt",
    "replaced",
    "scaled_part",
    "set_default_dtype",
    "set_hook",
    "set_structure",
    "slot_number",
    "substitute",
    "summands",
    "transform",
    "uop_derived",
    "with_bodies",
]
