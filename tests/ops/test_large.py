"""More elements than 32 bits can count: positions are 64 bits wide where they have to be.

Nothing of that size is ever in memory: ten numbers are repeated 2**30 times each, and parts are read.
"""

import pytest

from tinygrad import Tensor, dtypes

EACH = 2**30
HALF = 2**33


def repeated() -> Tensor:
    """0.0 and so on to 9.0, each 2**30 times."""
    return Tensor.arange(10).float().realize().reshape(10, 1).expand(10, EACH).reshape(-1)


@pytest.mark.parametrize(
    "read, want",
    [
        (lambda x: x[9 * EACH + 5 : 9 * EACH + 7], [9.0, 9.0]),
        (lambda x: x[9 * EACH - 1 : 9 * EACH + 1], [8.0, 9.0]),
        (lambda x: x[HALF::EACH], [8.0, 9.0]),
        (lambda x: x.flip(0)[HALF : HALF + 2], [1.0, 1.0]),
        (lambda x: x.roll(1)[:2], [9.0, 0.0]),
        (lambda x: x.pad(((HALF, 0),))[HALF + EACH - 1 : HALF + EACH + 1], [0.0, 1.0]),
        (lambda x: x.unfold(0, 2, EACH).sum(1), [2.0 * i for i in range(10)]),
        (lambda x: x[Tensor([9 * EACH + 5, 2**32 + 1, -1])], [9.0, 4.0, 9.0]),
        (lambda x: x[Tensor([-1, 100], dtype=dtypes.int8)], [9.0, 0.0]),
        (lambda x: x[[9 * EACH + 5, 0]], [9.0, 0.0]),
        (lambda x: x.reshape(10, EACH)[Tensor([9, 3]), Tensor([EACH - 1, 5])], [9.0, 3.0]),
        (lambda x: x.gather(0, Tensor([9 * EACH + 5, 2**32 + 1])), [9.0, 4.0]),
        (lambda x: x.reshape(10, EACH)[:, -2:].sum(1), [2.0 * i for i in range(10)]),
    ],
)
def test_parts_of_many_elements(read, want):
    assert read(repeated()).contiguous().tolist() == want


@pytest.mark.parametrize(
    "total, want",
    [
        (lambda: Tensor.ones(HALF, dtype=dtypes.int64).sum(), HALF),
        (lambda: Tensor.ones(HALF).mean(), 1.0),
        (lambda: Tensor.ones(3, 2**32).triu(2**32 - 2).sum(), 3.0),
        (lambda: Tensor.ones(2**32, 3).tril(2 - 2**32).sum(), 3.0),
        (lambda: Tensor([HALF - 1, HALF]).one_hot(HALF).sum(), 1),
        (lambda: Tensor.ones(4, 4).triu(2**40).sum(), 0.0),
        (lambda: Tensor.ones(4, 4).triu(-(2**40)).sum(), 16.0),
    ],
)
def test_sums_over_many_elements(total, want):
    assert total().item() == want


def test_sizes_in_a_graph_are_exact():
    x = Tensor.empty(2**20, 2**20, 2**20)
    assert x.numel() == 2**60
    assert x.reshape(2**30, 2**30).shape == (2**30, 2**30)
    with pytest.raises(ValueError):
        x.reshape(2**30, 2**30 + 1)
