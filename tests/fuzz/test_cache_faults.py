"""The cache file in every state that it can be found in: a miss, never an error and never a wrong kernel.

Each test runs a model in processes of its own (`cached_model.py`), which compare its results with those of a run without a
cache. `CACHE_FAULTS=200` damages the file that often, `CACHE_SEED=7` repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tinygrad.common import diskcache

_MODEL = Path(__file__).with_name("cached_model.py")
_ROUNDS = int(os.environ.get("CACHE_FAULTS", "12"))


def start(cache, *command, env=None, **options) -> subprocess.Popen:
    full = {**os.environ, "CACHEDB": str(cache), "CPU": "1", **(env or {})}
    line = [sys.executable, str(_MODEL), *(command or ("once",))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, env=full, **pipes, **options)


def result(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def assert_right(cache, **options) -> None:
    assert result(start(cache, **options)) == {"right": True}


@pytest.fixture(scope="module")
def whole_cache(tmp_path_factory):
    """A cache file with all that the model needs, closed."""
    path = tmp_path_factory.mktemp("whole") / "cache.db"
    assert_right(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    return path


@pytest.fixture
def cache(whole_cache, tmp_path):
    return Path(shutil.copy(whole_cache, tmp_path / "cache.db"))


def test_random_damage(tmp_path):
    seed = int(os.environ.get("CACHE_SEED", random.randrange(1 << 30)))
    print(f"CACHE_SEED={seed}")
    process = start(tmp_path / "cache.db", "damage", str(seed), str(_ROUNDS))
    assert sum(result(process).values()) >= _ROUNDS


def test_a_folder_in_its_place(tmp_path):
    (tmp_path / "cache.db").mkdir()
    assert_right(tmp_path / "cache.db")
    (tmp_path / "file").write_text("no folder")
    assert_right(tmp_path / "file" / "cache.db")


def test_a_disk_that_is_full(cache, tmp_path):
    def limit(size):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    for size in (0, 20_000):
        assert_right(tmp_path / f"new{size}.db", preexec_fn=limit(size))
    # a file that holds something, and can't grow
    with sqlite3.connect(cache) as db:
        db.execute(f"DELETE FROM entries_{diskcache.VERSION} WHERE rowid % 2")
    db.close()
    assert_right(cache, preexec_fn=limit(cache.stat().st_size))
    assert_right(cache)


def test_a_place_that_is_read_only(whole_cache):
    # pytest's own folders are closed to other users
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache = Path(shutil.copy(whole_cache, folder / "cache.db"))
        os.chmod(cache, 0o444)
        os.chmod(folder, 0o777)
        assert result(start(cache, "unprivileged")) == {"right": True}
        os.chmod(folder, 0o555)
        assert result(start(cache, "unprivileged")) == {"right": True}
        assert result(start(folder / "new.db", "unprivileged")) == {"right": True}
        assert not (folder / "new.db").exists()
        os.chmod(folder, 0o700)


def test_a_file_that_somebody_locks(cache):
    holder = sqlite3.connect(cache, isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("CREATE TABLE mine (x)")
    try:
        assert_right(cache)
    finally:
        holder.close()
    assert_right(cache)


def test_writers_that_are_killed(tmp_path):
    cache = tmp_path / "cache.db"
    dice = random.Random(4)
    for _ in range(5):
        process = start(cache)
        time.sleep(dice.uniform(0.2, 1.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert_right(cache)


def test_eight_processes_at_once(tmp_path):
    cache = tmp_path / "cache.db"
    processes = [start(cache) for _ in range(8)]
    processes.pop().kill()
    assert [result(p) for p in processes] == [{"right": True}] * 7
    with sqlite3.connect(cache) as db:
        (count,) = db.execute(f"SELECT COUNT(*) FROM entries_{diskcache.VERSION}").fetchone()
    db.close()
    assert count > 0


def test_nobody_knows_a_home(monkeypatch):
    for named, home, expected in (
        ("", "~/.cache", ""),
        ("relative", "~/.cache", ""),
        ("relative", "/home/me/.cache", "/home/me/.cache"),
        ("/elsewhere", "~/.cache", "/elsewhere"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        monkeypatch.setattr(os.path, "expanduser", lambda path, home=home: home)
        assert diskcache._user_cache_dir() == expected
    assert_right("")


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    monkeypatch.setattr(diskcache, "CACHEDB", str(tmp_path / "own.db"))
    diskcache._drop_connection()
    yield
    diskcache._drop_connection()


@pytest.mark.usefixtures("own_file")
def test_what_does_not_fit_does_no_harm():
    diskcache.diskcache_put("t", "small", 1)
    connection = diskcache.db_connection()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    assert diskcache.diskcache_put("t", "huge", "v" * 5000) == "v" * 5000
    assert diskcache.diskcache_get("t", "huge") is None
    assert diskcache.diskcache_get("t", "small") == 1
    # no pickle, and a key that is no text
    assert callable(diskcache.diskcache_put("t", "code", lambda: 1))
    diskcache.diskcache_put("t", "\ud800", 2)
    assert diskcache.diskcache_get("t", "\ud800") == 2


@pytest.mark.usefixtures("own_file")
def test_an_entry_is_of_its_key_only():
    diskcache.diskcache_put("t", "one", 1)
    diskcache.diskcache_put("t", "two", 2)
    table = f"entries_{diskcache.VERSION}"
    connection = diskcache.db_connection()
    rows = connection.execute(f"SELECT rowid, digest, val FROM {table}").fetchall()
    for (number, *_), (_, digest, val) in zip(rows, reversed(rows)):
        change = f"UPDATE {table} SET digest = ?, val = ? WHERE rowid = ?"
        connection.execute(change, (digest, val, number))
    assert diskcache.diskcache_get("t", "one") is diskcache.diskcache_get("t", "two") is None
    assert diskcache.diskcache_values("t") == []
