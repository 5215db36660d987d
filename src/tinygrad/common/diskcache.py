"""The disk cache: values by (table, key) in one SQLite file that any number of processes share.

A cache never raises: a missing, foreign, damaged, locked, full or read-only file is a miss, and so is an entry whose
checksum does not match or whose pickle names anything but data. Writers are atomic (SQLite transactions), so a killed one
leaves the old entry. Called by compilers (compiled bytes), BEAM and code generation.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinygrad.common.env import CACHELEVEL, OSX, getenv

if TYPE_CHECKING:
    import sqlite3

# changes whenever the layout of the file or the meaning of an entry changes
VERSION = 1

cache_dir = getenv("XDG_CACHE_HOME", os.path.expanduser("~/Library/Caches" if OSX else "~/.cache"))
CACHEDB = getenv("CACHEDB", os.path.abspath(os.path.join(cache_dir, "tinygrad", "cython_cache.db")))

_SCHEMA = """CREATE TABLE IF NOT EXISTS entries (
  tbl TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, val BLOB NOT NULL, PRIMARY KEY (tbl, key)) WITHOUT ROWID"""

# what a cached value may be made of besides the built-in containers and numbers
_ALLOWED_GLOBALS = {
    ("tinygrad.codegen.opt", "Opt"),
    ("tinygrad.codegen.opt", "OptOps"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "complex"),
    ("builtins", "bytearray"),
}

_local = threading.local()


class _DataUnpickler(pickle.Unpickler):
    """Loads data only: a global outside the list above makes the entry unreadable."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED_GLOBALS:
            raise pickle.UnpicklingError(f"cache entries may not contain {module}.{name}")
        return super().find_class(module, name)


# seconds to wait for another process's lock; few once one has been held that long, so that a
# process that never lets go delays the others once and not at every access
_patience = 10.0


def db_connection() -> sqlite3.Connection:
    """This thread's connection to the cache file, opened at first use. Raises sqlite3.Error or OSError."""
    import sqlite3

    held = getattr(_local, "connection", None)
    if held is not None and held[0] == os.getpid():
        return held[1]
    Path(CACHEDB).parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(CACHEDB, timeout=_patience, isolation_level=None)
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(_SCHEMA)
    _local.connection = (os.getpid(), connection)
    return connection


def _drop_connection() -> None:
    held = getattr(_local, "connection", None)
    _local.connection = None
    if held is not None and held[0] == os.getpid():
        with contextlib.suppress(Exception):
            held[1].close()


def _run(sql: str, args: tuple = ()) -> list[tuple] | None:
    """The rows of a statement, or None when the file cannot serve it; a damaged file is replaced once."""
    global _patience
    import sqlite3

    for last_try in (False, True):
        try:
            return db_connection().execute(sql, args).fetchall()
        except sqlite3.DatabaseError as error:
            _drop_connection()
            damaged = not isinstance(error, sqlite3.OperationalError)
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                _patience = 0.05
            if last_try or not damaged:
                return None
            with contextlib.suppress(OSError):
                os.unlink(CACHEDB)
        except (sqlite3.Error, OSError):
            _drop_connection()
            return None
    return None


def _table_name(table: str) -> str:
    return f"{table}_{VERSION}"


def _key_text(key: dict | str | int) -> str:
    if isinstance(key, dict):
        return repr(sorted((str(name), str(value)) for name, value in key.items()))
    return str(key)


def _digest(table: str, key: str, blob: bytes) -> bytes:
    header = f"{len(table)}:{table}{len(key)}:{key}".encode()
    return hashlib.sha256(header + blob).digest()


def diskcache_get(table: str, key: dict | str | int) -> Any:
    """The value stored under (table, key), or None."""
    if CACHELEVEL < 1:
        return None
    name, text = _table_name(table), _key_text(key)
    rows = _run("SELECT digest, val FROM entries WHERE tbl = ? AND key = ?", (name, text))
    if not rows:
        return None
    digest, blob = rows[0]
    if not isinstance(blob, bytes) or digest != _digest(name, text, blob):
        return None
    try:
        return _DataUnpickler(io.BytesIO(blob)).load()
    except Exception:  # any unreadable entry is a miss, whatever the unpickler says about it
        return None


def diskcache_put(table: str, key: dict | str | int, val: Any, prepickled: bool = False) -> Any:
    """Stores `val` and returns it; a failure to store is silent."""
    if CACHELEVEL < 1:
        return val
    name, text = _table_name(table), _key_text(key)
    blob = val if prepickled else pickle.dumps(val)
    _run(
        "INSERT OR REPLACE INTO entries (tbl, key, digest, val) VALUES (?, ?, ?, ?)",
        (name, text, _digest(name, text, blob), blob),
    )
    return val


def diskcache_clear() -> None:
    """Forgets everything."""
    _run("DELETE FROM entries")


def diskcache(func: Callable) -> Callable:
    """Caches a function's results on disk by its name and arguments."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        table = f"cache_{func.__name__}"
        key = hashlib.sha256(pickle.dumps((args, kwargs))).hexdigest()
        found = diskcache_get(table, key)
        return found if found is not None else diskcache_put(table, key, func(*args, **kwargs))

    return wrapper
