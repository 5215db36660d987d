"""Helpers: context variables, the shapes of text, and a disk cache that may lose entries but never lies or raises."""

import multiprocessing
import os
import pickle
import sqlite3
import subprocess
import sys

import pytest

from tinygrad.helpers import (
    Context,
    ContextVar,
    ansilen,
    argfix,
    cdiv,
    cmod,
    colored,
    fully_flatten,
    get_contraction,
    getenv,
    merge_dicts,
    mv_address,
    prod,
    strides_for_shape,
    strip_parens,
    time_to_str,
    to_function_name,
    word_wrap,
)

SWITCH = ContextVar("TEST_HELPERS_SWITCH", 3)


def test_context_nests_restores_and_rejects_unknown_names():
    with Context(TEST_HELPERS_SWITCH=4):
        with Context(TEST_HELPERS_SWITCH=5):
            assert SWITCH.value == 5
        assert SWITCH.value == 4
    assert SWITCH.value == 3
    with pytest.raises(KeyError, match="NO_SUCH_SWITCH"), Context(NO_SUCH_SWITCH=1):
        pass
    with pytest.raises(RuntimeError, match="import it"):
        ContextVar("TEST_HELPERS_SWITCH", 0)


def test_one_context_object_can_be_entered_twice():
    both = Context(TEST_HELPERS_SWITCH=9)
    with both, both:
        assert SWITCH.value == 9
    assert SWITCH.value == 3


def test_getenv_names_the_bad_value(monkeypatch):
    monkeypatch.setenv("TEST_HELPERS_NUMBER", "many")
    with pytest.raises(ValueError, match="TEST_HELPERS_NUMBER='many'"):
        getenv("TEST_HELPERS_NUMBER", 1)


def test_c_division_truncates_and_zero_is_defined():
    for x in range(-9, 10):
        for y in range(-4, 5):
            if y:
                assert cdiv(x, y) == int(x / y) and cdiv(x, y) * y + cmod(x, y) == x
            else:
                assert cdiv(x, y) == 0 and cmod(x, y) == 0


def test_text():
    assert (
        strip_parens("(1+2)") == "1+2"
        and strip_parens("(a)+(b)") == "(a)+(b)"
        and strip_parens("()") == ""
    )
    assert to_function_name(colored("r_3-4", "red")) == "r_32D4"
    assert time_to_str(0.5) == "  500.00ms" and time_to_str(0) == "    0.00us"
    wrapped = word_wrap(colored("x" * 25, "red"), wrap=10)
    assert [ansilen(line) for line in wrapped.splitlines()] == [10, 10, 5]


def test_containers():
    assert argfix([1, 2]) == (1, 2) and argfix(1, 2) == (1, 2)
    with pytest.raises(ValueError, match="got both"):
        argfix([1], 2)
    assert fully_flatten([[1, "ab"], [True, [None]]]) == [1, "ab", True, None]
    with pytest.raises(RuntimeError, match="cannot merge"):
        merge_dicts([{"a": 1}, {"a": 2}])
    assert prod(()) == 1 and prod((2, 3.0)) == 6.0
    assert strides_for_shape((2, 1, 3)) == (3, 0, 1)


def test_contraction_groups_multiply_to_the_new_shape():
    for old, new in (
        ((1, 2, 3, 4), (2, 12)),
        ((14, 1, 384, 14, 1), (1, 14, 384, 14)),
        ((4, 4), (16, 1, 1)),
        ((1,), (1, 1)),
    ):
        groups = get_contraction(old, new)
        assert [prod(old[i] for i in g) for g in groups] == list(new)
        assert [i for g in groups for i in g] == list(range(len(old)))
    assert get_contraction((1, 2, 3, 4), (1, 2, 6, 2)) is None
    assert get_contraction((2, 3), (2, 4)) is None


def test_address_of_a_read_only_view():
    data = bytes(range(16))
    assert mv_address(memoryview(data)[4:]) - mv_address(memoryview(data)) == 4
    assert mv_address(memoryview(b"")) == 0


def test_import_brings_no_heavy_module():
    code = "import sys, tinygrad.helpers, tinygrad.dtype; print([m for m in ('urllib.request', 'sqlite3', 'pstats', 'tqdm', 'numpy') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# *** the disk cache under faults ***


class _Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/must_not_exist_from_cache",))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    from tinygrad.common import diskcache as module

    monkeypatch.setattr(module, "CACHEDB", str(tmp_path / "sub" / "cache.db"))
    module._drop_connection()
    yield module
    module._drop_connection()


def test_cache_round_trip_and_key_kinds(cache):
    assert cache.diskcache_get("t", "k") is None
    assert cache.diskcache_put("t", {"a": 1, "b": "x"}, [1, (2,)]) == [1, (2,)]
    assert cache.diskcache_get("t", {"b": "x", "a": 1}) == [1, (2,)]
    cache.diskcache_put("t", 4, 5)
    assert cache.diskcache_get("t", "4") == 5
    cache.diskcache_clear()
    assert cache.diskcache_get("t", "4") is None


def test_cache_does_not_execute_pickles(cache):
    cache.diskcache_put("t", "k", pickle.dumps(_Evil()), prepickled=True)
    assert cache.diskcache_get("t", "k") is None
    assert not os.path.exists("/tmp/must_not_exist_from_cache")


@pytest.mark.parametrize("damage", ["garbage", "truncate", "directory", "flip"])
def test_a_damaged_cache_is_a_miss_and_heals(cache, damage):
    cache.diskcache_put("t", "k", "v" * 10000)
    path = cache.CACHEDB
    cache.db_connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    cache._drop_connection()
    if damage == "garbage":
        open(path, "wb").write(b"not a database at all" * 1000)
    elif damage == "truncate":
        os.truncate(path, os.path.getsize(path) // 2)
    elif damage == "directory":
        os.unlink(path)
        os.mkdir(path)
    else:
        db = sqlite3.connect(path)
        (blob,) = db.execute("SELECT val FROM entries_2").fetchone()
        db.execute("UPDATE entries_2 SET val = ?", (blob[:-3] + b"xyz",))
        db.commit()
        db.close()
    assert cache.diskcache_get("t", "k") is None
    cache.diskcache_put("t", "k", "new")
    assert cache.diskcache_get("t", "k") in ("new", None)
    if damage in ("garbage", "flip"):
        assert cache.diskcache_get("t", "k") == "new"


def test_cache_folder_that_cannot_be_made(cache, tmp_path):
    (tmp_path / "sub").write_text("a file where the folder should be")
    assert cache.diskcache_put("t", "k", 1) == 1
    assert cache.diskcache_get("t", "k") is None


def _hammer(path, worker):
    from tinygrad.common import diskcache as module

    module.CACHEDB = path
    for i in range(50):
        module.diskcache_put("shared", f"{worker}-{i}", (worker, i))
        module.diskcache_put("shared", "same", worker)


def test_many_processes_share_one_file(cache):
    cache.diskcache_put("shared", "same", -1)
    cache._drop_connection()
    workers = [
        multiprocessing.get_context("spawn").Process(target=_hammer, args=(cache.CACHEDB, w))
        for w in range(3)
    ]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
        assert w.exitcode == 0
    for w in range(3):
        assert cache.diskcache_get("shared", f"{w}-49") == (w, 49)
    assert cache.diskcache_get("shared", "same") in range(3)
