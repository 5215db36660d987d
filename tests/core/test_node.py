"""Construction, identity, lifetime, pickling and order of nodes."""

import copy
import enum
import gc
import os
import pickle
import random
import subprocess
import sys
import weakref
from dataclasses import dataclass

import pytest
from reference import postorder, random_graph
from tinygrad._core import UOp, compare, derived, install

from tinygrad.dtype import dtypes
from tinygrad.uop import Ops

NAN = float("nan")


def const(value, dtype=dtypes.int, tag=None):
    return UOp(Ops.CONST, dtype, (), value, tag)


def test_equal_fields_give_one_node():
    a, b = const(1), UOp(Ops.CONST, dtype=dtypes.int, arg=1)
    assert a is b and UOp(Ops.ADD, dtypes.int, [a, b]) is UOp(Ops.ADD, dtypes.int, (a, a))
    assert UOp.__new__(UOp, Ops.CONST, dtypes.int, arg=1) is a
    assert UOp(Ops.SINK).dtype is dtypes.void


@pytest.mark.parametrize(
    "values", [(1, 1.0, True), (0.0, -0.0), ((1,), (1.0,), (True,)), ("1", 1), (None, 0, False)]
)
def test_values_of_different_kind_stay_apart(values):
    nodes = [const(v) for v in values]
    assert len({id(n) for n in nodes}) == len(values)
    for node, value in zip(nodes, values):
        assert type(node.arg) is type(value)


def test_nan_is_one_constant():
    assert const(NAN) is const(float("nan"))


def test_equality_is_identity_and_usable_as_key():
    a, b = const(1), const(2)
    assert a == a and not a == b and {a: 1, b: 2}[const(1)] == 1
    assert (a == 1) is False


def test_fields_are_read_only():
    with pytest.raises(AttributeError):
        const(1).arg = 2
    with pytest.raises(AttributeError):
        const(1).unknown = 2


@pytest.mark.parametrize(
    "args, words",
    [
        (("ADD",), "member of Ops"),
        ((3,), "member of Ops"),
        ((Ops.ADD, 3), "DType"),
        ((Ops.ADD, dtypes.int, (1,)), "UOp.const"),
        ((Ops.ADD, dtypes.int, 5), "tuple of UOps"),
        ((Ops.CONST, dtypes.int, (), [1]), "unhashable"),
        ((), "op"),
    ],
)
def test_wrong_fields_are_explained(args, words):
    with pytest.raises(TypeError, match=words):
        UOp(*args)
    with pytest.raises(TypeError, match="unknown field"):
        UOp(Ops.CONST, color=3)
    with pytest.raises(AssertionError, match="unknown fields"):
        const(1).replace(color=3)


def test_a_node_lives_as_long_as_it_is_used():
    node = UOp(Ops.NEG, dtypes.int, (const(77),))
    seen = []
    watcher = weakref.ref(node, seen.append)
    assert watcher() is node and not gc.is_tracked(node)
    del node
    assert watcher() is None and seen == [watcher]


def test_a_dying_node_is_not_revived():
    made = []
    node = const(123456)
    watcher = weakref.ref(node, lambda _: made.append(const(123456)))
    del node
    assert made[0].arg == 123456 and watcher() is None


def test_copies_are_the_node():
    node = UOp(Ops.ADD, dtypes.int, (const(1), const(2)), tag="t")
    assert copy.copy(node) is node and copy.deepcopy([node])[0] is node
    assert node.rtag().tag is True and node.rtag("t") is node
    assert node.replace(op=Ops.MUL, tag=None).op is Ops.MUL


@pytest.mark.parametrize("seed", range(20))
def test_pickle_gives_the_same_node(seed):
    graph = random_graph(random.Random(seed), 200)
    assert pickle.loads(pickle.dumps(graph)) is graph
    several = list(graph.toposort())[-5:]
    assert all(a is b for a, b in zip(pickle.loads(pickle.dumps(several)), several))


def test_an_argument_compared_in_python_may_make_nodes():
    @dataclass(frozen=True)
    class Noisy:
        value: int

        def __eq__(self, other):
            kept = [const(i) for i in range(1000, 1100)]
            return isinstance(other, Noisy) and self.value == other.value and len(kept) == 100

        def __hash__(self):
            return 1

    nodes = [UOp(Ops.CUSTOM, dtypes.void, (), Noisy(i % 4)) for i in range(40)]
    assert len(set(nodes)) == 4


CHILD = """
from tinygrad._core import UOp
from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
import enum, dataclasses
@dataclasses.dataclass(frozen=True)
class Info:
    name: str
    sizes: tuple
class Kind(enum.Enum):
    A = enum.auto()
args = [1, 1.5, True, "text", None, ("a", 1, (2.0, None)), Info("n", (1, 2)), Kind.A, dtypes.int, float("nan"), b"x", int]
u = UOp(Ops.SINK, dtypes.void, tuple(UOp(Ops.CONST, dtypes.int, (), a, t) for a in args for t in (None, "t")))
print(hash(u), [hash(s) for s in u.src], u.key.hex())
print([str(s.arg) for s in {s for s in u.src}])
"""


def test_hash_key_and_set_order_are_the_same_in_every_process():
    seen = set()
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        seen.add(run.stdout)
    assert len(seen) == 1


@pytest.mark.parametrize("seed", range(10))
def test_compare_is_a_total_order(seed):
    nodes = list(random_graph(random.Random(seed), 30).toposort())
    for a in nodes:
        for b in nodes:
            assert compare(a, b) == -compare(b, a) and (compare(a, b) == 0) == (a is b)
            for c in nodes[::5]:
                if compare(a, b) < 0 and compare(b, c) < 0:
                    assert compare(a, c) < 0


def test_derived_property_is_computed_once_sources_first():
    calls = []

    def depth(u):
        calls.append(u)
        return 1 + max([s.depth_for_test for s in u.src], default=0)

    class Methods:
        depth_for_test = derived("depth_for_test", depth)

    install(UOp, Methods)
    graph = random_graph(random.Random(1), 50)
    assert graph.depth_for_test == graph.depth_for_test
    assert sorted(map(hash, calls)) == sorted(map(hash, postorder(graph)))
    with pytest.raises(AttributeError):
        graph.depth_for_test = 3
    calls.clear()


def test_enum_arguments():
    class Kind(enum.Enum):
        A = 1
        B = 2

    assert const(Kind.A) is const(Kind.A) and const(Kind.A) is not const(Kind.B)
