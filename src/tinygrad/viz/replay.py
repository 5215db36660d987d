"""`python -m tinygrad.viz.replay`: which kernels differ between two commits, or between two runs.

    CAPTURE_PROCESS_REPLAY=1 python -m pytest ...      on one commit: records every kernel with its source
    python -m tinygrad.viz.replay                      on the other: builds them again and prints what differs
    python -m tinygrad.viz.replay --compare A.db B.db  compares two runs that recorded to files of their own (CACHEDB=A.db)
    python -m tinygrad.viz.replay --clear              forgets all records

The last line of the output is JSON with the counts; the exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from tinygrad.engine.process_replay import clear, recorded
from tinygrad.helpers import colored, getenv


def _difference(old: str, new: str, old_name: str, new_name: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), old_name, new_name, lineterm="", n=2
    )
    colors = {"+": "green", "-": "red"}
    return "\n".join(colored(line, colors.get(line[:1])) for line in lines)


class Report:
    """Counts, and the first `show` differences as they are found."""

    def __init__(self, show: int, old_name: str, new_name: str):
        self.show, self.names = show, (old_name, new_name)
        self.counts = {"same": 0, "different": 0, "failed": 0}

    def compare(self, name: str, old: str, new: str) -> None:
        if old == new:
            self.counts["same"] += 1
            return
        self.counts["different"] += 1
        if self.counts["different"] <= self.show:
            print(f"{name} differs\n{_difference(old, new, *self.names)}")

    def fail(self, name: str, reason: str) -> None:
        self.counts["failed"] += 1
        if self.counts["failed"] <= self.show:
            print(f"{name} {reason}")

    def status(self) -> int:
        """1 if anything differs or failed."""
        return int(self.counts["different"] + self.counts["failed"] > 0)


def replay(show: int = 10) -> Report:
    """Makes every recorded call again; `not_ours` counts those of functions outside this package, which are left alone."""
    report = Report(show, "recorded", "now")
    for call in recorded():
        if not call.is_ours:
            report.counts["not_ours"] = report.counts.get("not_ours", 0) + 1
            continue
        try:
            now = call.again()
        except Exception as error:  # one kernel that no longer builds must not hide the others
            report.fail(call.name, f"does not build any more: {error}")
            continue
        report.compare(call.name, call.result, now)
    return report


def _results_of(path: str) -> dict[str, tuple[str, str]]:
    """Name and result by key, of a cache file. A process reads one file, so each is read by one of its own."""
    command = [sys.executable, "-m", "tinygrad.viz.replay", "--dump"]
    done = subprocess.run(
        command, env={**os.environ, "CACHEDB": path}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{path} can't be read: {done.stderr.strip()}")
    return {key: (name, result) for key, name, result in map(json.loads, done.stdout.splitlines())}


def compare(old_path: str, new_path: str, show: int = 10) -> Report:
    """Compares the calls that two runs recorded, each in a cache file of its own.

    Calls that one run alone made count as `only_old` and `only_new`; they are no difference, since another schedule asks for
    other kernels.
    """
    for path in (old_path, new_path):
        if not os.path.exists(path):
            raise FileNotFoundError(f"there is no cache file {path}")
    old, new = _results_of(old_path), _results_of(new_path)
    report = Report(show, old_path, new_path)
    for key in sorted(old.keys() & new.keys()):
        report.compare(old[key][0], old[key][1], new[key][1])
    report.counts["only_old"] = len(old.keys() - new.keys())
    report.counts["only_new"] = len(new.keys() - old.keys())
    return report


def _dump() -> Iterator[str]:
    for call in recorded():
        yield json.dumps((call.key, call.name, call.result))


def main(arguments: list[str]) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="tinygrad.viz.replay", description=__doc__)
    parser.add_argument("--clear", action="store_true", help="forget all records")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="two cache files")
    parser.add_argument("--dump", action="store_true", help="print all records as JSON, one a line")
    parser.add_argument(
        "--show", type=int, default=getenv("REPLAY_SHOW", 10), help="differences to print"
    )
    options = parser.parse_args(arguments)
    if options.clear:
        clear()
        return 0
    if options.dump:
        for line in _dump():
            print(line)
        return 0
    if options.compare:
        before, after = options.compare
        report = compare(before, after, options.show)
    else:
        report = replay(options.show)
    print(json.dumps(report.counts))
    return report.status()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
