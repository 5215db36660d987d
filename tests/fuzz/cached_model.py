"""A process that runs a small model, for the tests of the disk cache: `python cached_model.py FILE COMMAND [arguments]`.

`once` runs the model on the cache FILE; `unprivileged` does so as a user for whom files may be read-only; `damage SEED ROUNDS` runs it that often, and before each time changes the file in some
way. Every run must give, bit by bit, what a process without a cache gives. The last line of the output is JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sqlite3
import sys

from tinygrad import Tensor
from tinygrad.common import diskcache
from tinygrad.engine import realize, schedule
from tinygrad.helpers import CACHELEVEL, Context

_NOBODY = 65534
SHM, WAL = "-shm", "-wal"
TABLE = f"entries_{diskcache.VERSION}"
# what an unpickler without restrictions would make, as a sign that it ran
BURGLARY = f"{diskcache.CACHEDB}.burglary"


def run_model() -> list:
    """A convolution, a matrix product with a softmax, an index; as numbers, in a process that forgets its kernels."""
    for known in (realize.method_cache, realize._kind_cache, schedule.schedule_cache):
        known.clear()
    image = Tensor.arange(2 * 6 * 6).reshape(1, 2, 6, 6).float() / 7
    kernel = (Tensor.arange(3 * 2 * 3 * 3).reshape(3, 2, 3, 3).float() - 20) / 11
    hidden = image.conv2d(kernel).relu().flatten(1)
    weights = (Tensor.arange(48 * 5).reshape(48, 5) % 7).float() - 3
    scores = (hidden @ weights / 100).softmax().realize()
    return [*scores.flatten().tolist(), scores.argmax().item(), (scores > 0.2).sum().item()]


class Burglar:
    """A pickle that leaves a file behind when it is loaded."""

    def __reduce__(self):
        return os.mkdir, (BURGLARY,)


def flip_in_file(dice: random.Random, path: str) -> None:
    """Changes up to 50 bytes, anywhere in the file or its log."""
    victim = dice.choice([p for p in (path, path + WAL) if os.path.exists(p)])
    size = os.path.getsize(victim)
    if size == 0:
        return
    with open(victim, "r+b") as f:
        for _ in range(dice.choice((1, 5, 50))):
            f.seek(dice.randrange(size))
            byte = f.read(1)
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte[0] ^ dice.randrange(1, 256)]))


def cut_file(dice: random.Random, path: str) -> None:
    """Ends the file, or its log, early."""
    victim = dice.choice([p for p in (path, path + WAL) if os.path.exists(p)])
    os.truncate(victim, dice.randrange(os.path.getsize(victim) + 1))


def replace_file(dice: random.Random, path: str) -> None:
    """Something else under the name."""
    content = [b"", b"garbage" * 999, b"SQLite format 3\x00" + dice.randbytes(4080)]
    with open(path, "wb") as f:
        f.write(dice.choice(content))


def lose_file(dice: random.Random, path: str) -> None:
    """The file, its log or its index is gone, or stays behind without the others."""
    for suffix in dice.sample(("", WAL, SHM), dice.randrange(1, 4)):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)


def change_rows(dice: random.Random, path: str) -> None:
    """Every third entry, of every table, holds something else."""
    with sqlite3.connect(path) as db:
        rows = db.execute(f"SELECT rowid, tbl, key, digest, val FROM {TABLE}").fetchall()
        for number, tbl, key, _, val in dice.sample(rows, (len(rows) + 2) // 3):
            other = dice.choice(rows)
            at = dice.randrange(len(val) + 1)
            values = [
                val[:at] + dice.randbytes(3) + val[at + 3 :],
                val[:at], b"", other[4], "text", 17, 0.5, dice.randbytes(1 << 20),
            ]  # fmt: skip
            chosen = dice.choice(values)
            if dice.randrange(2):
                db.execute(f"UPDATE {TABLE} SET val = ? WHERE rowid = ?", (chosen, number))
            else:
                # with the digest of another entry, or of a pickle that should not be loaded
                blob = pickle.dumps(Burglar())
                pair = dice.choice([other[3:], (diskcache._digest(tbl, key, blob), blob)])
                db.execute(
                    f"UPDATE {TABLE} SET digest = ?, val = ? WHERE rowid = ?", (*pair, number)
                )
    db.close()


def change_tables(dice: random.Random, path: str) -> None:
    """The layout of another version, under another name or under ours."""
    statements = [
        f"DROP TABLE {TABLE}",
        f"ALTER TABLE {TABLE} RENAME TO entries",
        f"ALTER TABLE {TABLE} RENAME COLUMN digest TO checksum",
        f"ALTER TABLE {TABLE} RENAME COLUMN tbl TO name",
        f"DROP TABLE {TABLE}; CREATE VIEW {TABLE} AS SELECT 1 AS tbl, 2 AS key, 3 AS digest, 4 AS val",
    ]
    with sqlite3.connect(path) as db:
        db.executescript(dice.choice(statements))
    db.close()


DAMAGES = (flip_in_file, cut_file, replace_file, lose_file, change_rows, change_tables)


def damage_and_run(seed: int, rounds: int) -> dict:
    """Runs the model `rounds` times, each time on a file that was whole and is then changed in one or two ways."""
    dice, path = random.Random(seed), diskcache.CACHEDB
    right, counts = reference(), dict.fromkeys([d.__name__ for d in DAMAGES], 0)
    for turn in range(rounds):
        assert run_model() == right, f"seed {seed} turn {turn}: wrong on a whole file"
        keep_log = dice.randrange(2)
        if not keep_log:
            diskcache._drop_connection()
        damages = dice.sample(DAMAGES, dice.choice((1, 1, 2)))
        for damage in damages:
            counts[damage.__name__] += 1
            try:
                damage(dice, path)
            except (sqlite3.Error, OSError, ValueError, IndexError):
                continue  # what an earlier damage left can't be damaged in this way
        names = [d.__name__ for d in damages]
        assert run_model() == right, f"seed {seed} turn {turn}: wrong after {names}"
        assert not os.path.exists(BURGLARY), f"seed {seed} turn {turn}: an entry ran code"
        diskcache._drop_connection()
        diskcache.diskcache_put("healed", "turn", turn)
        diskcache._drop_connection()
        healed = diskcache.diskcache_get("healed", "turn") == turn
        assert healed, f"seed {seed} turn {turn}: the cache stays broken after {names}"
    return counts


def reference() -> list:
    """What the model gives without a cache."""
    with Context(CACHELEVEL=0):
        return run_model()


def main(command: str, *arguments: str) -> None:
    assert CACHELEVEL >= 1
    if command == "damage":
        print(json.dumps(damage_and_run(*map(int, arguments))))
    else:
        right = reference()
        if command == "unprivileged" and os.geteuid() == 0:
            os.seteuid(_NOBODY)
        print(json.dumps({"right": run_model() == right}))


if __name__ == "__main__":
    main(*sys.argv[1:])
