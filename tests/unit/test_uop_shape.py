"""Shapes of nodes, movement arguments, devices, loops."""

import pytest

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop import Ops
from tinygrad.uop.ops import AxisType, KernelInfo, UOp, graph_rewrite
from tinygrad.uop.views import pm_flatten_index


def buffer(size: int, device="CPU") -> UOp:
    return UOp.new_buffer(device, size, dtypes.float)


def test_movement_shapes_and_args():
    x = buffer(24).reshape(2, 3, 4)
    assert x.shape == (2, 3, 4) and x.marg == (2, 3, 4)
    assert x.permute(2, 0, 1).shape == (4, 2, 3)
    assert x.permute(2, 0, 1).marg == (2, 0, 1)
    assert x.flip(1).marg == (False, True, False)
    padded = x.pad(((1, 0), (0, 0), (2, 3)))
    assert padded.shape == (3, 3, 9) and padded.marg == ((1, 0), (0, 0), (2, 3))
    assert padded.shrink(((1, 3), None, (2, 6))).marg == ((1, 3), (0, 3), (2, 6))
    assert x.reshape(2, 3, 1, 4).expand(2, 3, 5, 4).marg == (2, 3, 5, 4)
    assert buffer(1).reshape(()).shape == () and buffer(1).reshape(()).marg == ()
    assert x.base.op is Ops.BUFFER


def test_what_changes_nothing_gives_the_same_node():
    x = buffer(6).reshape(2, 3)
    assert x.reshape(2, 3) is x and x.expand(2, -1) is x and x.permute(0, 1) is x
    assert x.flip(()) is x and x.shrink(((0, 2), (0, 3))) is x and x.pad(((0, 0), (0, 0))) is x


def test_movement_errors():
    x = buffer(6).reshape(2, 3)
    with pytest.raises(ValueError, match="size mismatch"):
        x.reshape(4, 2)
    with pytest.raises(RuntimeError, match="only one dimension"):
        x.reshape(-1, -1)
    with pytest.raises(ValueError, match="size 1"):
        x.expand(2, 6)
    with pytest.raises(RuntimeError, match="permutation"):
        x.permute(0, 0)
    with pytest.raises(RuntimeError, match="at most once"):
        x.flip(0, -2)
    with pytest.raises(IndexError):
        x.squeeze(5)
    with pytest.raises(ValueError, match="invalid shrink"):
        x.shrink(((0, 3), (0, 3)))
    with pytest.raises(ValueError, match="shape mismatch"):
        _ = (x + buffer(6)).shape
    with pytest.raises(RuntimeError, match="no shape"):
        _ = x.sink().shape


def test_symbolic_shapes():
    n = UOp.variable("n", 1, 10).bind(3)
    m = UOp.variable("m", 1, 10).bind(2)
    x = buffer(100).reshape(10, 10).shrink(((0, n), (0, m)))
    assert x.shape == (n, m)
    assert x.reshape(m, n).shape == (m, n)
    assert x.reshape(n * m).shape == (m * n,) or x.reshape(n * m).shape == (n * m,)
    assert buffer(100).shrink(((n, n + 1),)).shape == (1,)
    unbound, values = x.unbind_all()
    assert values == {n.src[0]: 3, m.src[0]: 2}
    assert unbound.shape == (n.src[0], m.src[0])
    assert x.vars() == {n, m}


def test_reduce_axis_and_sharding():
    x = buffer(24).reshape(2, 3, 4)
    assert x.r(Ops.ADD, (1,)).shape == (2, 1, 4)
    assert x.r(Ops.ADD, (1,)).arg == (Ops.ADD, (1,))
    assert buffer(4).reshape(4, 1).r(Ops.ADD, (1,)).op is Ops.RESHAPE
    sharded = buffer(24).reshape(4, 6).shard(("CPU:0", "CPU:1"), 1)
    assert sharded.shape == (4, 6) and sharded.axis == 1 and sharded.device == ("CPU:0", "CPU:1")
    assert (sharded + sharded).axis == 1
    assert sharded.permute(1, 0).axis == 0
    assert sharded.r(Ops.ADD, (1,)).axis is None
    assert sharded.reshape(2, 2, 6).axis == 2
    with pytest.raises(RuntimeError, match="evenly"):
        buffer(9).shard(("CPU:0", "CPU:1"), 0)


def test_device():
    x = buffer(4, "CPU:3")
    assert (x + 1).device == "CPU:3"
    assert x.copy_to_device("CPU").device == "CPU"
    with pytest.raises(AssertionError, match="no device"):
        _ = UOp.const(dtypes.int, 3).device
    u = buffer(1)
    for _ in range(50_000):
        u = u + u
    assert u.device == "CPU" and u.shape == (1,)


def test_ranges():
    i, j = UOp.range(4, 0), UOp.range(5, 1, AxisType.REDUCE)
    total = (i + j).reduce(j, arg=Ops.ADD)
    assert list(total.ranges) == [i]
    assert list((i + j).ranges) == [i, j]
    assert list(total.end(i).ranges) == []
    assert total.end(i).ended_ranges == (i,)
    nested = UOp.range(i, 2)
    assert list(nested.ranges) == [i, nested]


def flat(u: UOp) -> UOp:
    return graph_rewrite(u, pm_flatten_index)


def positions(u: UOp, axes: list[UOp], sizes: list[int]) -> list[int]:
    """The offsets that an INDEX of flat memory reads, over all loops."""
    assert u.src[0].op is Ops.DEFINE_GLOBAL and len(u.src) == 2
    found = []
    for number in range(sizes[0] * sizes[1]):
        point = {
            axes[0]: UOp.const(dtypes.index, number // sizes[1]),
            axes[1]: UOp.const(dtypes.index, number % sizes[1]),
        }
        found.append(u.src[1].substitute(point).ssimplify())
    return found


def test_views_of_placeholders_become_offsets():
    np = pytest.importorskip("numpy")
    memory = UOp.placeholder((6, 4), dtypes.float, 0)
    numbers = np.arange(24).reshape(6, 4)
    i, j = UOp.range(4, 0), UOp.range(6, 1)
    cases = [
        (memory.permute(1, 0), numbers.T),
        (memory.flip(0).permute(1, 0), numbers[::-1].T),
        (memory.reshape(4, 6), numbers.reshape(4, 6)),
        (memory.reshape(2, 3, 4).permute(1, 0, 2).reshape(4, 6),
         numbers.reshape(2, 3, 4).transpose(1, 0, 2).reshape(4, 6)),
        (memory[0:1, :].reshape(4, 1).expand(4, 6),
         np.broadcast_to(numbers[:1].reshape(4, 1), (4, 6))),
    ]  # fmt: skip
    for view, expected in cases:
        got = positions(flat(view[i, j]), [i, j], [4, 6])
        assert got == expected.flatten().tolist()


def test_store_and_read_back_of_a_shaped_placeholder():
    out = UOp.placeholder((3, 5), dtypes.int, 0)
    i, j = UOp.range(3, 0), UOp.range(5, 1)
    written = out[i, j].set(7, end=(i, j))
    assert written.shape == (3, 5) and written.op is Ops.AFTER
    sink = flat(written.sink(arg=KernelInfo()))
    assert all(len(u.src) == 2 for u in sink.toposort() if u.op is Ops.INDEX)
    assert not any(u.op is Ops.RESHAPE for u in sink.toposort())


def test_rows_of_a_placeholder():
    x = UOp.placeholder((4, 6), dtypes.float, 0)
    i, j = UOp.range(4, 0), UOp.range(6, 1)
    row = x[i, :]
    assert row.shape == (6,)
    assert flat(row[j]).src[1].simplify() is (i * 6 + j).simplify()
    with pytest.raises(IndexError, match="too many"):
        x[i, j, :]
    register = UOp.placeholder((1,), dtypes.float, 0, addrspace=AddrSpace.REG)
    assert register.op is Ops.DEFINE_REG and register.shape == (1,)


def test_bounds_of_parts():
    sharded = buffer(24).reshape(4, 6).shard(("CPU:0", "CPU:1"), 1)
    assert sharded.bounds == ((0, 3), (3, 6))
    with pytest.raises(RuntimeError, match="split over devices"):
        _ = buffer(4).bounds
    with pytest.raises(ValueError, match="between devices"):
        _ = sharded.reshape(24).axis
