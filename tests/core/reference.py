"""A slow and plain model of the core: what matching and rewriting mean, written for reading.

Works on real nodes but uses none of the compiled matcher, rewriter and walks. `random_graph` and `random_rules` make inputs from a seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from tinygrad._core import UOp

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.upat import UPat

UNARY = (Ops.NEG, Ops.SQRT, Ops.SIN)
BINARY = (Ops.ADD, Ops.MUL, Ops.SUB, Ops.MAX)
OTHER = (Ops.WHERE, Ops.NOOP, Ops.SINK)
LEAVES = (Ops.CONST, Ops.DEFINE_VAR)
DTYPES = (dtypes.int, dtypes.float, dtypes.float.vec(4), dtypes.int.vec(2))


def matches(pattern: UPat, node: UOp, store: dict) -> Iterator[dict]:
    """Every way the pattern matches, in the order in which the core tries them."""
    if pattern.name is not None:
        if store.setdefault(pattern.name, node) is not node:
            return
    if pattern.is_any:
        for alternative in pattern.sources:
            yield from matches(alternative, node, dict(store))
        return
    if pattern.op is not None and node.op not in pattern.op:
        return
    if pattern.dtype is not None and not {node.dtype, node.dtype.scalar()} & set(pattern.dtype):
        return
    if pattern.arg is not None and pattern.arg != node.arg:
        return
    if pattern.sources is None:
        yield store
        return
    if pattern.source_mode == "every":
        yield from in_sequence([(pattern.sources[0], s) for s in node.src], store)
        return
    wanted, given = len(pattern.sources), len(node.src)
    if given < wanted or (given > wanted and not pattern.allow_any_len):
        return
    if pattern.source_mode == "ordered":
        yield from in_sequence(list(zip(pattern.sources, node.src)), store)
        return
    for order in itertools.permutations(range(wanted)):
        pairs = [(pattern.sources[i], node.src[order.index(i)]) for i in range(wanted)]
        yield from in_sequence(pairs, dict(store))


def in_sequence(pairs: list[tuple[UPat, UOp]], store: dict) -> Iterator[dict]:
    if not pairs:
        yield store
        return
    for found in matches(pairs[0][0], pairs[0][1], dict(store)):
        yield from in_sequence(pairs[1:], found)


def rejected_early(pattern: UPat, node: UOp) -> bool:
    """A source pattern of one operation must find that operation among the sources of the root."""
    if pattern.is_any or pattern.sources is None:
        return False
    have = {s.op for s in node.src}
    return any(
        p.op is not None and len(p.op) == 1 and not p.is_any and p.op[0] not in have
        for p in pattern.sources
    )


def first_result(rules: list, node: UOp):
    """What `PatternMatcher(rules).rewrite(node)` must return; rule functions take a dict here."""
    for pattern, fn in rules:
        if rejected_early(pattern, node):
            continue
        for found in matches(pattern, node, {}):
            result = fn(found)
            if result is not None:
                return result
    return None


def rewrite(root: UOp, up: list | None, down: list | None) -> UOp:
    """What graph_rewrite must return (recursive, for small graphs)."""
    done: dict[UOp, UOp] = {}

    def visit(node: UOp) -> UOp:
        if node in done:
            return done[node]
        current = node
        while down is not None:
            result = first_result(down, current)
            if result is None or result is current:
                break
            current = result
        sources = tuple(visit(s) for s in current.src)
        if sources != current.src:
            result = UOp(current.op, current.dtype, sources, current.arg, current.tag)
        else:
            result = first_result(up, current) if up is not None else None
        if result is None or result is current:
            done[node] = current
        else:
            done[node] = visit(result)
        return done[node]

    return visit(root)


def postorder(root: UOp) -> list[UOp]:
    """Sources first, left to right, each once."""
    seen: dict[UOp, None] = {}

    def visit(node: UOp) -> None:
        if node not in seen:
            for s in node.src:
                visit(s)
            seen[node] = None

    visit(root)
    return list(seen)


def random_graph(rng: random.Random, size: int) -> UOp:
    """A graph of about `size` nodes with shared parts."""
    nodes = [UOp(Ops.CONST, rng.choice(DTYPES), arg=rng.randrange(3)) for _ in range(3)] + [
        UOp(Ops.DEFINE_VAR, rng.choice(DTYPES), arg=(name, 0, 9)) for name in "ab"
    ]
    for _ in range(size):
        kind = rng.random()
        if kind < 0.25:
            op, count = rng.choice(UNARY), 1
        elif kind < 0.8:
            op, count = rng.choice(BINARY), 2
        else:
            op, count = rng.choice(OTHER), 3
        recent = nodes[-8:]
        src = tuple(rng.choice(recent) for _ in range(count))
        nodes.append(UOp(op, rng.choice(DTYPES), src, rng.choice((None, None, 1))))
    return UOp(Ops.SINK, dtypes.void, tuple(nodes[-3:]))


def random_pattern(rng: random.Random, depth: int, names: list[str]) -> UPat:
    """A pattern with alternatives, commutative lists, repeated names."""
    name = rng.choice(names + [None] * len(names))
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        op = rng.choice((None, None, Ops.CONST, LEAVES, rng.choice(BINARY)))
        dtype = rng.choice((None, None, None, dtypes.int, (dtypes.float, dtypes.int)))
        arg = rng.choice((None, None, 1)) if op is Ops.CONST else None
        return UPat(op, dtype, arg=arg, name=name)
    if kind < 0.35:
        return UPat.any(*[random_pattern(rng, depth - 1, names) for _ in range(rng.randint(1, 3))])
    below = [random_pattern(rng, depth - 1, names) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
    op = {1: UNARY, 2: BINARY, 3: OTHER}[len(below)]
    if rng.random() < 0.5:
        op = rng.choice(op)
    if kind < 0.45:
        return UPat(rng.choice(OTHER + BINARY), src=below[0], name=name)
    src = below if rng.random() < 0.5 else tuple(below)
    return UPat(op, src=src, name=name, allow_any_len=rng.random() < 0.2)


def names_in(pattern: UPat) -> set[str]:
    own = {pattern.name} if pattern.name is not None else set()
    return own.union(*[names_in(p) for p in pattern.sources or ()])
