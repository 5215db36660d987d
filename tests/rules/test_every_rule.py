"""Every rule proves itself: it fires, it keeps the value over its domain, it is written once.

Nodes come from the rule's own pattern and from random expressions. Values are compared over all
combinations of 8-bit operands, or edge and random values for wider types and floats; index rules are
also put to z3 over the integers.
"""

from __future__ import annotations

import inspect
import zlib

import numpy as np
import pytest
from evaluator import evaluate
from expressions import Grower
from instances import LANES, IllTypedError, Instances

from tinygrad.dtype import Invalid, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.decompositions import late_decompositions
from tinygrad.uop.ops import PatternMatcher, UOp, UPat, graph_rewrite
from tinygrad.uop.rules.base import ALL, BITS, BOOL, FLOATS, INDEX, INTS, NUMBERS, describe
from tinygrad.uop.symbolic import gep_pushing, pm_simplify_valid, sym, symbolic

SAMPLES = 150
PROOFS = 3

_MINIMAL = {
    Ops.ADD,
    Ops.MUL,
    Ops.IDIV,
    Ops.CMPLT,
    Ops.CMPNE,
    Ops.WHERE,
    Ops.AND,
    Ops.OR,
    Ops.XOR,
    Ops.SHL,
    Ops.SHR,
    Ops.RECIPROCAL,
    Ops.MOD,
}
_RICH = GroupOp.ALU - {Ops.POW, Ops.THREEFRY, Ops.SIN, Ops.LOG2, Ops.EXP2}

# proved by tests of their own: test_elementary.py, test_random_expressions.py, test_valid.py
_TESTED_ELSEWHERE = {
    "lower-exp2",
    "lower-log2",
    "lower-sin",
    "lower-pow",
    "lower-sqrt",
    "lower-trunc",
    "lower-threefry",
    "group-one",
    "conjunction",
}

_OPAQUE_TO_Z3 = {Ops.XOR, Ops.SHL, Ops.SHR, Ops.AND, Ops.OR, Ops.MULACC}

_DTYPES = {
    ALL: (dtypes.int8, dtypes.uint8, dtypes.index, dtypes.float32, dtypes.bool, dtypes.int32),
    INTS: (dtypes.int8, dtypes.uint8, dtypes.index, dtypes.int32),
    INDEX: (dtypes.index,),
    BOOL: (dtypes.bool,),
    FLOATS: (dtypes.float32,),
    NUMBERS: (dtypes.int8, dtypes.uint8, dtypes.index, dtypes.float32),
    BITS: (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.bool),
}


def _collect() -> dict[str, tuple[UPat, object]]:
    matchers = [
        sym,
        pm_simplify_valid,
        gep_pushing,
        late_decompositions(_MINIMAL, False, True),
        late_decompositions(_MINIMAL - {Ops.MOD}, False, True),
        late_decompositions(_RICH, False, True),
        late_decompositions(_RICH - {Ops.RECIPROCAL}, False, False),
    ]
    found: dict = {}
    for matcher in matchers:
        for pair in matcher.patterns:
            marks = describe(pair)
            assert marks is not None, f"a rule without a name: {pair[0]}"
            found.setdefault(marks.name, pair)
    return found


RULES = _collect()


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (a == b) | ((a != a) & (b != b))


def _compare(pair, u: UOp, result: UOp, leaves: dict, unsafe: str | None) -> None:
    before, after = np.broadcast_arrays(evaluate(u, leaves), evaluate(result, leaves))
    for guard in u.toposort():
        if guard.op is Ops.WHERE and _guards(guard):
            # of a missing element nothing is asked
            present = guard.src[0] if _guards(guard) == 2 else guard.src[0].logical_not()
            held = np.broadcast_to(evaluate(present, leaves), before.shape)
            before = np.where(held, before, np.zeros_like(before))
            after = np.where(held, after, np.zeros_like(after))
    if unsafe is not None:
        finite = np.isfinite(before.astype(np.float64)) & np.isfinite(after.astype(np.float64))
        with np.errstate(all="ignore"):
            rtol = 1e-3 if "subnormal" in unsafe else 1e-6
            near = np.isclose(
                before.astype(np.float64), after.astype(np.float64), rtol=rtol, atol=rtol * 1e-2
            )
        same = near | ~finite
    else:
        same = _equal(before, after)
    assert same.all(), (
        f"{describe(pair).name}: {u.render(simplify=False)} -> {result.render(simplify=False)}: "
        f"{before[~same][:4]} became {after[~same][:4]}"
    )


def _guards(u: UOp) -> int:
    """The branch of a WHERE that is Invalid, 0 for none."""
    return next((i for i in (1, 2) if u.src[i].op is Ops.CONST and u.src[i].arg is Invalid), 0)


def _holds_invalid(u: UOp) -> bool:
    return any(s.op is Ops.CONST and s.arg is Invalid for s in u.toposort())


def _bare_invalid(u: UOp) -> bool:
    """True when a missing element is an operand of anything but a choice."""
    return any(
        s.op is Ops.CONST and s.arg is Invalid
        for user in u.toposort()
        if user.op is not Ops.WHERE
        for s in user.src
    )


def _prove(name: str, u: UOp, result: UOp) -> None:
    z3 = pytest.importorskip("z3")
    from tinygrad.uop.validate import uops_to_z3

    solver = z3.Solver()
    solver.set("timeout", 2000)
    before, after = uops_to_z3(solver, u, result)
    solver.add(before != after)
    assert solver.check() != z3.sat, (
        f"{name}: z3 refutes {u.render(simplify=False)} -> {result.render(simplify=False)} at "
        f"{solver.model()}"
    )


def _from_pattern(pair, seed: int):
    """Nodes made from the pattern with their leaves."""
    source = Instances(seed)
    kinds = _DTYPES[describe(pair).domain]
    for i in range(SAMPLES):
        kind = kinds[i % len(kinds)]
        if i % 5 == 4:
            kind = kind.vec(LANES)
        try:
            u = source.of(pair[0], kind)
        except IllTypedError:
            continue
        yield u, source


class _ByHand:
    """Nodes that neither source meets often enough."""

    def __init__(self):
        self.x, self.y = UOp.variable("x", 0, 30), UOp.variable("y", 0, 3)
        self.variables = [self.x, self.y]

    def leaves(self, _: int) -> dict[UOp, np.ndarray]:
        x, y = np.meshgrid(np.arange(31), np.arange(4))
        return {self.x: x.ravel(), self.y: y.ravel()}

    def nodes(self):
        x, y = self.x, self.y
        for u in (
            (x * 4 + y) < 16,
            (y + x * 12) < 268,
            (x * 6 + y * 4) < 8,
            (x * 4 + y) < -8,
            x + 6 < x // 6 * 6 - 1,
        ):
            yield u, self
        yield (x.cast(dtypes.int32) & 1023).cast(dtypes.uint8), self


def _from_expressions(seed: int):
    grower = Grower(seed)
    for i in range(60):
        u = grower.number(3) if i % 2 else grower.condition(3)
        for node in graph_rewrite(u, PatternMatcher([])).toposort():
            yield node, grower


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule(name: str):
    if name in _TESTED_ELSEWHERE:
        pytest.skip("proved by a test of its own")
    pair = RULES[name]
    marks = describe(pair)
    matcher = PatternMatcher([pair])
    seed = zlib.crc32(name.encode())
    fired = proofs = 0
    for source_nodes in (
        _from_pattern(pair, seed),
        _from_expressions(seed),
        _ByHand().nodes(),
    ):
        for u, source in source_nodes:
            try:
                result = matcher.rewrite(u)
            except ZeroDivisionError:
                continue
            if result is None or result is u:
                continue
            assert result.dtype == u.dtype, f"{name}: {u.dtype} became {result.dtype} (seed {seed})"
            fired += 1
            if _bare_invalid(u) or _divides_by_zero(u):
                continue
            _compare(pair, u, result, source.leaves(3000), marks.unsafe)
            plain = not any(s.op in _OPAQUE_TO_Z3 or s.dtype.vcount > 1 for s in u.toposort())
            plain = plain and not _holds_invalid(u)
            if marks.domain == INDEX and plain and proofs < PROOFS:
                proofs += 1
                _prove(name, u, result)
    assert fired > 0, f"{name} never fires (seed {seed}): {pair[0]}"


def _divides_by_zero(u: UOp) -> bool:
    """Index division by zero is an error, not a value."""
    return any(
        s.op in (Ops.IDIV, Ops.MOD)
        and s.dtype is dtypes.index
        and s.src[1].vmin <= 0 <= s.src[1].vmax
        for s in u.toposort()
    )


def test_names_are_unique_within_a_matcher():
    for matcher in (sym, pm_simplify_valid, late_decompositions(_RICH, False, True)):
        names = [describe(pair).name for pair in matcher.patterns]
        doubled = {n for n in names if names.count(n) > 1}
        assert not doubled, f"two rules with one name: {sorted(doubled)}"


def _captured(pattern: UPat) -> set[str]:
    names = {pattern.name} if pattern.name else set()
    return names.union(*[_captured(p) for p in pattern.sources or ()])


@pytest.mark.parametrize("name", sorted(RULES))
def test_parameters_are_captured(name: str):
    pattern, fn = RULES[name]
    wanted = {p.name for p in inspect.signature(fn).parameters.values() if p.default is p.empty}
    assert wanted - {"ctx"} <= _captured(pattern), f"{name} asks for what its pattern lacks"
    assert "ctx" not in wanted, f"{name} takes a context: the rule sets are pure"


def test_matchers_nest():
    from tinygrad.uop.symbolic import symbolic_simple

    def names(matcher):
        return [describe(pair).name for pair in matcher.patterns]

    assert set(names(symbolic_simple)) < set(names(symbolic)) < set(names(sym))
