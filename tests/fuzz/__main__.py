"""Runs random programs from the command line: `python tests/fuzz --seed 0 --count 1000 --mode fused,jit --shrink`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from random_programs.campaign import run_seeds  # noqa: E402
from random_programs.modes import MODES  # noqa: E402


def main() -> None:
    options = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    options.add_argument("--seed", type=int, default=0, help="the first seed")
    options.add_argument("--count", type=int, default=100, help="how many programs (seeds)")
    options.add_argument(
        "--mode", default="drawn", help=f"drawn, all, or some of: {', '.join(MODES)}"
    )
    options.add_argument("--shrink", action="store_true", help="make failing programs small first")
    options.add_argument(
        "--out", type=Path, default=None, help="folder for files of failures (default: FUZZ_OUT)"
    )
    given = options.parse_args()
    out = given.out or Path(os.getenv("FUZZ_OUT", tempfile.gettempdir()))
    modes = (
        None
        if given.mode == "drawn"
        else list(MODES)
        if given.mode == "all"
        else given.mode.split(",")
    )
    print(f"seeds {given.seed} to {given.seed + given.count - 1}")
    tally = run_seeds(range(given.seed, given.seed + given.count), modes, out, given.shrink, print)
    print(tally)
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
