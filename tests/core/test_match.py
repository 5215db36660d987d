"""The compiled matcher against the reference model, and its contract."""

import random

import pytest
from reference import first_result, matches, names_in, random_graph, random_pattern
from tinygrad._core import PatternMatcher, Rule, UOp, match_all

from tinygrad.dtype import dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.upat import UPat

SEEDS = range(120)


def const(value, dtype=dtypes.int):
    return UOp(Ops.CONST, dtype, arg=value)


def add(a, b):
    return UOp(Ops.ADD, a.dtype, (a, b))


def without_repeats(found):
    out = []
    for captures in found:
        if captures not in out:
            out.append(captures)
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_all_matches_agree_with_the_model(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 25)
    for _ in range(12):
        pattern = random_pattern(rng, rng.randint(0, 3), ["x", "y", "z"])
        for node in graph.toposort():
            # the core tries interchangeable sources in one order only, so equal captures may come up less often
            want = without_repeats(matches(pattern, node, {}))
            got = without_repeats(match_all(pattern, node, {}))
            assert got == want, (seed, pattern, node)


@pytest.mark.parametrize("seed", SEEDS)
def test_first_result_agrees_with_the_model(seed):
    rng = random.Random(seed)
    graph = random_graph(rng, 25)
    rules, model = [], []
    for number in range(10):
        pattern = random_pattern(rng, rng.randint(1, 3), ["x", "y", "z"])
        names = sorted(names_in(pattern))
        refuse = rng.random() * 0.7

        def answer(found, names=names, number=number, refuse=refuse):
            seen = tuple(found.get(n) for n in names)
            if sum(hash(n) if n is not None else 7 for n in seen) % 101 < refuse * 101:
                return None
            return (number, seen)

        parameters = ", ".join(f"{n}=None" for n in names)
        packed = ", ".join(f"{n}={n}" for n in names)
        scope = {"answer": answer}
        code = f"lambda {parameters}: answer({{k: v for k, v in dict({packed}).items() if v is not None}})"
        rules.append((pattern, eval(code, scope)))
        model.append((pattern, answer))
    pm = PatternMatcher(rules)
    for node in graph.toposort():
        assert pm.rewrite(node) == first_result(model, node), (seed, node)


def test_repeated_names_meet_one_node():
    pm = PatternMatcher([(UPat.var("x") + UPat.var("x"), lambda x: x)])
    assert pm.rewrite(add(const(1), const(1))) is const(1)
    assert pm.rewrite(add(const(1), const(2))) is None


def test_a_rule_that_declines_sees_the_other_order():
    seen = []
    pm = PatternMatcher(
        [(UPat.var("x") + UPat.cvar("c"), lambda x, c: seen.append((x.arg, c.arg)))]
    )
    assert pm.rewrite(add(const(1), const(2))) is None
    assert seen == [(1, 2), (2, 1)]


def test_context_defaults_and_keywords():
    def keyword_only(ctx, *, x, missing=5):
        return (ctx, x, missing)

    node = const(3)
    assert PatternMatcher([(UPat.cvar("x"), keyword_only)]).rewrite(node, "c") == ("c", node, 5)
    loose = PatternMatcher([(UPat.cvar("x"), lambda **found: found)])
    assert loose.rewrite(node) == {"x": node}
    assert PatternMatcher([(UPat.cvar("x"), lambda: 1)]).rewrite(node) == 1


def test_a_parameter_nobody_captures_is_refused():
    with pytest.raises(TypeError, match="does not capture"):
        PatternMatcher([(UPat.cvar("x"), lambda x, y: y)])


def test_errors_name_the_rule():
    pm = PatternMatcher([(UPat.cvar("x"), lambda x: 1 // 0)])
    with pytest.raises(ZeroDivisionError) as caught:
        pm.rewrite(const(1))
    assert "test_match.py" in caught.value.__notes__[0]


def test_scalar_dtype_matches_vectors_and_pointers_do_not():
    pm = PatternMatcher([(UPat(Ops.CONST, dtypes.float, name="x"), lambda x: True)])
    assert pm.rewrite(const(1.0, dtypes.float.vec(4)))
    assert pm.rewrite(const(1.0, dtypes.double)) is None


def test_arg_is_compared_by_value():
    pm = PatternMatcher([(UPat(Ops.CONST, arg=0), lambda: True)])
    assert pm.rewrite(const(0.0, dtypes.float)) and pm.rewrite(const(False, dtypes.bool))
    assert pm.rewrite(const(1)) is None


def test_sum_of_matchers_keeps_the_order():
    first = PatternMatcher([(UPat.cvar("x"), lambda x: 1)])
    second = PatternMatcher([(UPat.cvar("x"), lambda x: 2), (UPat(Ops.ADD), lambda: 3)])
    both = first + second
    assert both.rewrite(const(1)) == 1 and (second + first).rewrite(const(1)) == 2
    assert both.rewrite(add(const(1), const(1))) == 3 and len(both.patterns) == 3


def test_many_sources_with_alternatives_do_not_overflow():
    wide = UOp(Ops.SINK, dtypes.void, tuple(const(i) for i in range(3000)))
    either = UPat.any(UPat(Ops.CONST, dtypes.float), UPat(Ops.CONST, dtypes.int))
    assert PatternMatcher([(UPat(Ops.SINK, src=either), lambda: True)]).rewrite(wide)
    assert (
        PatternMatcher([(UPat(Ops.SINK, src=UPat.cvar("c")), lambda c: True)]).rewrite(wide) is None
    )


def test_location_is_where_the_rule_is_written():
    rule = Rule(UPat.var("x") + 0, lambda x: x)
    assert rule.location[0] == __file__
    assert (UPat.var("x") + 0).location[
        1
    ] == test_location_is_where_the_rule_is_written.__code__.co_firstlineno + 3


def test_custom_early_reject_and_groups():
    pm = PatternMatcher(
        [(UPat(GroupOp.ALU, name="x", custom_early_reject={Ops.CONST}), lambda x: x.op)]
    )
    assert pm.rewrite(add(const(1), const(1))) is Ops.ADD
    variable = UOp(Ops.DEFINE_VAR, dtypes.int, arg=("a", 0, 1))
    assert pm.rewrite(add(variable, variable)) is None
