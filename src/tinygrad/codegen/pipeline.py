"""The lowering: an ordered table of passes, and the one function that runs it.

In: a kernel AST (SINK) and a target (a Renderer, or `PlainTarget`). Out: a sink of renderable ops.
A pass is a row of `PASSES`: its name (as users see it in traces), what it does, which specification
holds after it, and why it stands where it stands. `lower` runs the rows; with SPEC it verifies the
graph after each and an error names the pass.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from tinygrad.codegen.gpudims import add_launch_indices
from tinygrad.codegen.late.buffers import lower_bufferize, split_group_reduces
from tinygrad.codegen.late.checks import check_accesses
from tinygrad.codegen.late.finish import pm_empty_statements, pm_final_forms
from tinygrad.codegen.late.indices import lower_index_types
from tinygrad.codegen.late.lanes import expand_lanes
from tinygrad.codegen.late.loops import nest_ends, separate_reduces
from tinygrad.codegen.late.memory import (
    pm_add_loads,
    pm_fold_gates,
    pm_gated_alternatives,
    pm_gates,
)
from tinygrad.codegen.late.splats import pm_splats
from tinygrad.codegen.late.statements import lower_statements
from tinygrad.codegen.late.width import split_vectors
from tinygrad.codegen.statistics import measured
from tinygrad.common.env import PASS_STATS
from tinygrad.helpers import SPEC
from tinygrad.uop.decompositions import late_decompositions
from tinygrad.uop.ops import PatternMatcher, UOp, graph_rewrite
from tinygrad.uop.spec import full_spec, kernel_spec, program_spec, type_verify
from tinygrad.uop.symbolic import pm_simplify_valid, sym, symbolic, symbolic_simple
from tinygrad.uop.views import pm_flatten_index

Matcher: TypeAlias = "PatternMatcher | Callable[[Any], PatternMatcher | None]"


@dataclass(frozen=True)
class Pass:
    """One row: rules (a matcher, or a function from the target to one) or a graph function."""

    name: str
    why: str
    rules: Matcher | None = None
    function: Callable[[UOp, Any], UOp] | None = None
    bottom_up: bool = False
    optimizing: bool = False
    spec: PatternMatcher = full_spec

    def run(self, sink: UOp, ren: Any) -> UOp:
        """The sink after this pass."""
        if self.function is not None:
            return self.function(sink, ren)
        rules = self.rules
        if not isinstance(rules, PatternMatcher) and rules is not None:
            rules = rules(ren)
        if rules is None:
            return sink
        return graph_rewrite(sink, rules, ctx=ren, name=self.name, bottom_up=self.bottom_up)


@cache
def _optimiser() -> Callable[[UOp, Any], UOp] | None:
    """`apply_opts` of the optimiser, which is a package of its own above the passes it uses."""
    if importlib.util.find_spec("tinygrad.codegen.opt") is None:
        return None
    module = importlib.import_module("tinygrad.codegen.opt.postrange")
    return module.apply_opts


def apply_optimiser(sink: UOp, ren: Any) -> UOp:
    """Axes are split, typed and ordered as KernelInfo or the heuristic says."""
    optimiser = _optimiser()
    return sink if optimiser is None else optimiser(sink, ren)


def _target_matcher(ren: Any) -> PatternMatcher | None:
    return ren.pre_matcher


# matchers are made once for each set of ops: compiling one costs more than lowering a small kernel
@cache
def _decomposing(decompositions: PatternMatcher) -> PatternMatcher:
    return symbolic_simple + pm_splats + decompositions


@cache
def _finishing(decompositions: PatternMatcher, extra: PatternMatcher | None) -> PatternMatcher:
    rules = symbolic_simple + pm_splats + decompositions + pm_gated_alternatives
    return rules if extra is None else rules + extra


def _decompositions(ren: Any) -> PatternMatcher:
    return _decomposing(late_decompositions(ren.code_for_op))


def _target_rules(ren: Any) -> PatternMatcher:
    return _finishing(late_decompositions(ren.code_for_op), ren.extra_matcher)


PASSES: tuple[Pass, ...] = (
    Pass(
        "early movement ops",
        "all that follows reads one flat index per access",
        rules=pm_flatten_index,
        spec=kernel_spec,
    ),
    Pass(
        "lower statements",
        "buffers have to be flat, so that a buffer after its stores names only them",
        function=lambda sink, ren: lower_statements(sink),
        spec=kernel_spec,
    ),
    Pass(
        "initial symbolic",
        "the optimiser reads strides and sizes from simplified index expressions",
        rules=sym + pm_simplify_valid,
        spec=kernel_spec,
    ),
    Pass(
        "apply opts",
        "on scalar code over ranges, before anything fixes how an axis is run",
        function=apply_optimiser,
        optimizing=True,
        spec=kernel_spec,
    ),
    Pass(
        "postopt symbolic",
        "split axes leave sums and quotients that bounds of the new axes decide",
        rules=sym + pm_simplify_valid,
        spec=kernel_spec,
    ),
    Pass(
        "split group reduces",
        "needs the axis types of the optimiser; makes the arrays that the next pass lowers",
        function=lambda sink, ren: split_group_reduces(sink),
        spec=kernel_spec,
    ),
    Pass(
        "add local buffers",
        "before launch indices: an array's size is that of its ranges",
        function=lower_bufferize,
        spec=kernel_spec,
    ),
    Pass(
        "add gpudims",
        "before accumulators, which must not be told to wait for axes that are no loops",
        function=add_launch_indices,
        spec=kernel_spec,
    ),
    Pass(
        "nest loops",
        "while the graph is small; every later pass copies it",
        function=lambda sink, ren: nest_ends(separate_reduces(sink)),
        spec=kernel_spec,
    ),
    Pass(
        "** add loads (code)",
        "the expansion has to see accesses, not element values",
        rules=pm_add_loads,
    ),
    Pass(
        "lower gates",
        "conditions leave the index while its form still shows which lanes are neighbours",
        rules=symbolic + pm_gates + pm_fold_gates,
    ),
    Pass(
        "check accesses",
        "on one element per access, with its condition in plain view",
        function=lambda sink, ren: check_accesses(sink),
    ),
    Pass(
        "expander",
        "lane axes become vectors and copies, reductions become accumulators",
        function=expand_lanes,
    ),
    Pass(
        "post expand symbolic",
        "each copy has constants of its own",
        rules=symbolic + pm_splats + pm_gates + pm_fold_gates + pm_empty_statements,
    ),
    Pass(
        "devectorize",
        "after simplification, so that vectors of one value are not split",
        function=split_vectors,
    ),
    Pass(
        "lower all index dtypes",
        "after the last pass that builds index expressions",
        function=lambda sink, ren: lower_index_types(sink),
    ),
    Pass(
        "post index symbolic",
        "casts between widths fold, lanes of split vectors meet their sources",
        rules=symbolic + pm_splats + pm_gates + pm_fold_gates + pm_empty_statements,
    ),
    Pass(
        "pre_matcher",
        "the target's own rules see ops before they are decomposed",
        rules=_target_matcher,
    ),
    Pass(
        "decompositions",
        "ops that the target lacks, driven by its code_for_op",
        rules=_decompositions,
    ),
    Pass(
        "final rewrite",
        "the target's last word, with the decomposition of what its own rules make",
        rules=_target_rules,
    ),
    Pass(
        "final forms",
        "last: folding would put together again what this spells out",
        rules=pm_final_forms,
        spec=program_spec,
    ),
)


def lower(sink: UOp, ren: Any, optimize: bool = True) -> UOp:
    """Runs the table on `sink`.

    With SPEC the result is verified, with SPEC=2 what every pass leaves. An error from a pass or
    its specification names the pass.
    """
    for row in PASSES:
        if row.optimizing and not optimize:
            continue
        try:
            sink = measured(row.name, row.run, sink, ren) if PASS_STATS else row.run(sink, ren)
            if SPEC > 1 or (SPEC and row is PASSES[-1]):
                type_verify(sink, row.spec)
        except Exception as e:
            e.add_note(f"in pass {row.name!r} of the lowering")
            raise
    return sink
