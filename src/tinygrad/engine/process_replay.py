"""Which kernels differ between two states of the code.

`CAPTURE_PROCESS_REPLAY=1` makes every process record the kernels it builds: the AST, the renderer, the switches, and the source.
`python -m tinygrad.engine.process_replay` then builds all of them again with the code as it is now, and reports each that comes
out differently (exit status 1), so: run a test-suite on one commit with the switch, check out the other, replay.

Records are plain data in the disk cache, in a table that `python -m tinygrad.engine.process_replay --clear` empties.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from tinygrad.engine.program_cache import _NotPlain, code_context, from_rows, to_rows
from tinygrad.helpers import (
    Context,
    ContextVar,
    colored,
    db_connection,
    diskcache_get,
    diskcache_put,
    getenv,
)
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import UOp

TABLE = "process_replay"


def _renderer_out(ren: Renderer) -> tuple:
    made = ren.__reduce__()
    arguments = made[1] if isinstance(made, tuple) and len(made) > 1 else ()
    if not all(isinstance(a, (str, int, float, bool, type(None))) for a in arguments):
        raise _NotPlain("arguments of the renderer")
    return (type(ren).__module__, type(ren).__qualname__, tuple(arguments))


def _renderer_in(module: str, name: str, arguments: tuple) -> Renderer:
    """Only classes of this package are renderers that a record may name."""
    if module.partition(".")[0] != "tinygrad":
        raise ValueError(
            f"a record names the renderer {module}.{name}, which is not of this package"
        )
    kind: Any = getattr(importlib.import_module(module), name)
    if not (isinstance(kind, type) and issubclass(kind, Renderer)):
        raise ValueError(f"{module}.{name} is no renderer")
    return kind(*arguments)


def record(ast: UOp, ren: Renderer, program: UOp) -> None:
    """Keeps what is needed to build a kernel again, and its source now. What has no plain form is left out."""
    try:
        switches = tuple(pair for pair in code_context() if isinstance(pair[1], (str, int, float)))
        entry = (to_rows(ast), _renderer_out(ren), switches, program.src[3].arg, program.name)
    except (_NotPlain, KeyError):
        return
    key = hashlib.sha256(repr((ast.key, entry[1], switches)).encode()).hexdigest()
    known = diskcache_get(TABLE, key)
    if known is None:
        diskcache_put(TABLE, key, entry)


def recorded() -> Iterator[tuple]:
    """All records, in the order of their keys."""
    rows = db_connection().execute("SELECT DISTINCT tbl, key FROM entries").fetchall()
    for table, key in sorted(rows):
        if table.startswith(TABLE) and (entry := diskcache_get(TABLE, key)) is not None:
            yield entry


def build_again(entry: tuple) -> str:
    """The source that the code as it is now makes of a record."""
    from tinygrad.codegen import full_rewrite_to_program

    rows, renderer, switches, _, _ = entry
    with Context(**{name: value for name, value in switches if name in ContextVar._cache}):
        return full_rewrite_to_program(from_rows(rows), _renderer_in(*renderer)).src[3].arg


def _difference(old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), "recorded", "now", lineterm="", n=2
    )
    colors = {"+": "green", "-": "red"}
    return "\n".join(colored(line, colors.get(line[:1])) for line in lines)


def replay(show: int = 10) -> dict[str, int]:
    """Builds all records again; prints the first `show` differences; returns counts."""
    counts = {"same": 0, "different": 0, "failed": 0}
    for entry in recorded():
        old, name = entry[3], entry[4]
        try:
            new = build_again(entry)
        except Exception as error:  # one kernel that no longer builds must not hide the others
            counts["failed"] += 1
            print(f"{name} does not build any more: {error}")
            continue
        if new == old:
            counts["same"] += 1
            continue
        counts["different"] += 1
        if counts["different"] <= show:
            print(f"{name} differs\n{_difference(old, new)}")
    return counts


def clear() -> None:
    """Forgets all records."""
    db_connection().execute("DELETE FROM entries WHERE tbl LIKE ?", (f"{TABLE}%",))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="process_replay", description=__doc__)
    parser.add_argument("--clear", action="store_true", help="forget all records")
    parser.add_argument(
        "--show", type=int, default=getenv("REPLAY_SHOW", 10), help="differences to print"
    )
    options = parser.parse_args(arguments)
    if options.clear:
        clear()
        return 0
    counts = replay(options.show)
    print(json.dumps(counts))
    return int(counts["different"] + counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
