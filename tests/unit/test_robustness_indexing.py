"""Positions that are out of range, of every integer type, never reach foreign memory."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tinygrad import Tensor
from tinygrad.dtype import dtypes

KINDS = {
    np.int8: [-128, 127, -1, 3, 2],
    np.int16: [-32768, 32767, -5, 2],
    np.int32: [-(2**31), 2**31 - 1, 2**30, -1, 5, 6, 7, 12345678],
    np.int64: [-(2**63), 2**63 - 1, 2**32, -(2**32), 2**33 + 3, -7, -8, 4],
    np.uint8: [255, 128, 7, 6],
    np.uint32: [2**32 - 1, 2**31, 5],
    np.uint64: [2**64 - 1, 2**63, 2**63 + 1, 2**32, 5],
}


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("repeat", [1, 17])
@pytest.mark.parametrize("kind", KINDS)
def test_reads_and_writes(kind, size, repeat):
    positions = KINDS[kind] * repeat
    table = np.arange(1, size + 1, dtype=np.float32)
    t, index = Tensor(table).realize(), Tensor(np.array(positions, kind)).realize()
    wrapped = [p + size if p < 0 else p for p in positions]
    want = [table[p] if 0 <= p < size else 0 for p in wrapped]
    np.testing.assert_array_equal(t[index].numpy(), want)

    rows = t.reshape(size, 1).expand(size, 5).contiguous()
    np.testing.assert_array_equal(rows[index].numpy(), np.repeat(np.array([want]), 5, 0).T)

    want = [table[p] if 0 <= p < size else 0 for p in positions]
    np.testing.assert_array_equal(t.gather(0, index).numpy(), want)
    counts = [sum(p == i for p in positions) for i in range(size)]
    ones = Tensor.ones(len(positions))
    np.testing.assert_array_equal(t.scatter(0, index, ones).numpy(), np.where(counts, 1, table))
    added = t.scatter_reduce(0, index, ones, reduce="sum").numpy()
    np.testing.assert_array_equal(added, table + counts)
    assert index.one_hot(size).numpy().sum() == sum(counts)

    want = table.copy()
    for p in wrapped:
        if 0 <= p < size:
            want[p] = 50
    t = Tensor(table).realize()
    t[index] = 50.0
    np.testing.assert_array_equal(t.numpy(), want)


def test_a_write_out_of_range_leaves_the_first_element_alone():
    t = Tensor([1.0, 2.0, 3.0]).realize()
    t[Tensor([7, -9], dtype=dtypes.int16)] = 5.0
    assert t.tolist() == [1.0, 2.0, 3.0]


def test_conditions_that_read_memory_read_inside_of_it():
    """The interpreter refuses a read that is out of range; other devices would do it."""
    x, s, index = (
        Tensor(a, device="PYTHON")
        for a in (np.ones((2, 3)), np.full((2, 3), 2.0), np.array([[0, 2, 0], [1, 1, 2]], np.int32))
    )
    written = np.array([[2.0, 1, 2], [1, 2, 2]])
    np.testing.assert_array_equal(x.scatter(1, index, s).square().numpy(), written**2)
    slope = x.cumprod(1).sum().gradient(x)[0]
    np.testing.assert_allclose(slope.sum().gradient(x)[0].numpy(), [[3, 3, 2]] * 2)


def test_digests_of_data_that_is_padded():
    """The lanes of each round are read where a table says, behind the conditions of the padding around them."""
    for data in (b"abc", b"abc" * 50):
        assert bytes(Tensor(data).keccak("sha3_256").tolist()) == hashlib.sha3_256(data).digest()
