"""Lets the tests of the core import their reference model, and checks after each test that no node stayed behind."""

import gc
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_leak():
    """The table is sound and holds no more nodes than before the test."""
    # what rules and properties import or keep on first use is not a leak of the test
    from tinygrad._core import check_table, live_nodes

    import tinygrad.uop.symbolic  # noqa: F401

    gc.collect()
    before = live_nodes()
    yield
    gc.collect()
    check_table()
    assert live_nodes() <= before, "nodes leaked"
