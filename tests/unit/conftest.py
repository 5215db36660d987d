"""What several of the unit tests share."""

import threading

import pytest

from tinygrad.helpers import Context
from tinygrad.uop.ops import _name_cnt, active_rewrites, tracked_ctxs, tracked_keys


@pytest.fixture
def recording():
    """Rewrites are recorded, from an empty record on."""
    for record in (tracked_keys, tracked_ctxs, active_rewrites, _name_cnt):
        record.clear()
    with Context(TRACK_MATCH_STATS=2):
        yield


@pytest.fixture
def in_threads():
    """Calls `work(k)` in a thread for each k below `count`, at once; none may raise."""

    def run(work, count=4):
        errors = []

        def guarded(k):
            try:
                work(k)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors

    return run
