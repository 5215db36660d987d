"""Times of common kernels, default settings and no search on both sides, as ratios to the published release.

Both sides get one C compiler, `CC` or else clang: by itself ours takes the newest clang on the PATH.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer import interleaved, ratios, table, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    compiler = os.environ.get("CC") or ("clang" if shutil.which("clang") else None)
    same = {"CC": compiler} if compiler else {}
    ours, theirs = interleaved(Path(__file__).with_name("measure.py"), [], args.runs, same)
    print(f"C compiler: {compiler or 'none'}")
    rows = []
    for name in ours[0]:
        middle, least, most = ratios(ours, theirs, name)
        ms = [f"{statistics.median(r[name] for r in side) * 1e3:.3f}" for side in (theirs, ours)]
        rows.append((name, *ms, f"{middle:.1f}", f"{least:.1f} .. {most:.1f}"))
    print(table(rows, ("kernel", "theirs, ms", "ours, ms", "ratio", "spread")))
    print(f"raw numbers: {write_json('kernels', {'ours': ours, 'theirs': theirs})}")


if __name__ == "__main__":
    main()
