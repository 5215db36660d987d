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
VERSION = 2


def _user_cache_dir() -> str:
    """The user's folder for caches; "" where nobody knows one, since a shared folder is not to be trusted with code."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(
        named
    ):  # anything else is to be ignored, says the XDG base directory specification
        return named
    home = os.path.expanduser("~/Library/Caches" if OSX else "~/.cache")
    return home if os.path.isabs(home) else ""


cache_dir = _user_cache_dir()
# "" = no cache
CACHEDB = getenv(
    "CACHEDB", os.path.join(cache_dir, "tinygrad", "cython_cache.db") if cache_dir else ""
)

# the layout is in the name, so that a file of another version is no trouble; keys are digests of what they are made of
_TABLE = f"entries_{VERSION}"
_SCHEMA = f"""CREATE TABLE IF NOT EXISTS {_TABLE} (
  tbl TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, val BLOB NOT NULL, PRIMARY KEY (tbl, key))"""

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


def load_plain(blob: bytes) -> Any:
    """What `pickle.dumps` made of plain data. Raises for anything else, and runs nothing that a pickle may name."""
    return _DataUnpickler(io.BytesIO(blob)).load()


# seconds to wait for another process's lock; few once one has been held that long, so that a
# process that never lets go delays the others once and not at every access
_patience = 2.0

# connections of a parent process: SQLite wants them neither used nor closed after a fork
_inherited: list[Any] = []


def db_connection() -> sqlite3.Connection:
    """This thread's connection to the cache file, opened at first use. Raises sqlite3.Error or OSError."""
    import sqlite3

    held = getattr(_local, "connection", None)
    if held is not None:
        if held[0] == os.getpid():
            return held[1]
        _inherited.append(held[1])
    if not CACHEDB:
        raise FileNotFoundError("there is no folder for a cache; name a file in CACHEDB")
    Path(CACHEDB).parent.mkdir(parents=True, exist_ok=True)
    # the log is a convenience that is not waited for; who has it set up first serves the others
    connection = sqlite3.connect(CACHEDB, timeout=0.01, isolation_level=None)
    try:
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
            connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA busy_timeout={int(_patience * 1000)}").fetchone()
        connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    _local.connection = (os.getpid(), connection)
    return connection


def _drop_connection() -> None:
    held = getattr(_local, "connection", None)
    _local.connection = None
    if held is not None and held[0] == os.getpid():
        with contextlib.suppress(Exception):
            held[1].close()


def _is_damage(error: Exception) -> bool:
    """Whether the file is no database, a broken one, or one whose table is not ours."""
    import sqlite3

    # SQLITE_ERROR is a table without our columns: the statements themselves are right
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.Error) and code is not None and code & 0xFF in broken


def _remove_file() -> None:
    # the file last: whoever makes a new one has its log and index to itself
    for suffix in ("-wal", "-shm", "-journal", ""):
        with contextlib.suppress(OSError):
            os.unlink(CACHEDB + suffix)


def _run(sql: str, args: tuple = ()) -> list[tuple] | None:
    """The rows of a statement, or None when the file cannot serve it; a damaged file is replaced once."""
    global _patience
    import sqlite3

    for last_try in (False, True):
        try:
            return db_connection().execute(sql, args).fetchall()
        except (
            Exception
        ) as error:  # whatever SQLite or the system says, the cache just is not there
            _drop_connection()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                _patience = min(_patience, 0.05)
            if last_try or not _is_damage(error):
                return None
            _remove_file()
    return None


def _table_name(table: str) -> str:
    return f"{table}_{VERSION}"


def _key_text(key: dict | str | int) -> str:
    if isinstance(key, dict):
        key = repr(sorted((str(name), str(value)) for name, value in key.items()))
    return hashlib.sha256(str(key).encode(errors="surrogatepass")).hexdigest()


def _digest(table: str, key: str, blob: bytes) -> bytes:
    header = f"{len(table)}:{table}{len(key)}:{key}".encode()
    return hashlib.sha256(header + blob).digest()


def _checked(table: str, key: str, digest: Any, blob: Any) -> Any:
    """The value of an entry, None where it is not what was stored."""
    if not isinstance(blob, bytes) or digest != _digest(table, key, blob):
        return None
    try:
        return load_plain(blob)
    except Exception:  # any unreadable entry is a miss, whatever the unpickler says about it
        return None


def diskcache_get(table: str, key: dict | str | int) -> Any:
    """The value stored under (table, key), or None."""
    if CACHELEVEL < 1:
        return None
    name, text = _table_name(table), _key_text(key)
    rows = _run(f"SELECT digest, val FROM {_TABLE} WHERE tbl = ? AND key = ?", (name, text))
    return _checked(name, text, *rows[0]) if rows else None


def diskcache_put(table: str, key: dict | str | int, val: Any, prepickled: bool = False) -> Any:
    """Stores `val` and returns it; a failure to store is silent."""
    if CACHELEVEL < 1:
        return val
    name, text = _table_name(table), _key_text(key)
    try:
        blob = val if prepickled else pickle.dumps(val)
    except Exception:  # a value that has no pickle is not cached
        return val
    _run(
        f"INSERT OR REPLACE INTO {_TABLE} (tbl, key, digest, val) VALUES (?, ?, ?, ?)",
        (name, text, _digest(name, text, blob), blob),
    )
    return val


def diskcache_values(table: str) -> list[Any]:
    """All readable values of a table, in the order of their keys."""
    name = _table_name(table)
    rows = _run(f"SELECT key, digest, val FROM {_TABLE} WHERE tbl = ? ORDER BY key", (name,))
    found = [_checked(name, *row) for row in rows or ()]
    return [value for value in found if value is not None]


def diskcache_forget(table: str) -> bool:
    """Forgets all entries of a table; False where the file can't be written."""
    return _run(f"DELETE FROM {_TABLE} WHERE tbl = ?", (_table_name(table),)) is not None


def diskcache_clear() -> None:
    """Forgets everything."""
    _run(f"DELETE FROM {_TABLE}")


def diskcache(func: Callable) -> Callable:
    """Caches a function's results on disk by its name and arguments."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        table = f"cache_{func.__name__}"
        key = hashlib.sha256(pickle.dumps((args, kwargs))).hexdigest()
        found = diskcache_get(table, key)
        return found if found is not None else diskcache_put(table, key, func(*args, **kwargs))

    return wrapper
