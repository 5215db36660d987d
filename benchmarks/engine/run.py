"""The host's work around kernels: replays, calls, schedules, caches; as ratios to the published release."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import ITEMS
from peer import interleaved, ratios, table, write_json


def shown(seconds: float) -> str:
    """A time in the unit that leaves few digits before the point."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError("unreachable: the last unit takes all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--items", nargs="*", default=list(ITEMS), choices=list(ITEMS))
    args = parser.parse_args()
    rows, raw = [], {}
    for name in args.items:
        ours, theirs = interleaved(Path(__file__).with_name("measure.py"), [name], args.runs)
        raw[name] = {"ours": ours, "theirs": theirs}
        for what in ours[0]:
            middle, least, most = ratios(ours, theirs, what)
            times = [shown(statistics.median(r[what] for r in side)) for side in (theirs, ours)]
            rows.append((name, what, *times, f"{middle:.1f}", f"{least:.1f} .. {most:.1f}"))
    print(table(rows, ("item", "of", "theirs", "ours", "ratio", "spread")))
    print(f"raw numbers: {write_json('engine', raw)}")


if __name__ == "__main__":
    main()
