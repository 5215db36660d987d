"""Compares the graph core with the published tinygrad 0.12.0, item by item.

    python benchmarks/rewrite/run.py [--rounds 5] [--json build/rewrite.json] [--items toposort ...]

Every round runs the items (see items.py) once per side, the sides taking turns, each item in a process of its own. The table shows the
ratio peer / ours of each item: median, least and greatest over the rounds; more than 1 is faster, or smaller, than the peer.
The peer's interpreter is `$PEER_PYTHON`, or an environment that this script makes in build/peer with pip.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from items import ITEMS  # noqa: E402
from peer import peer_python  # noqa: E402


def measure(python: str, item: str) -> float:
    """One item in a fresh process, away from the source tree so that each side imports what it has installed."""
    env = {**os.environ, "CPU": "1", "DEBUG": "0", "VIZ": "0", "PYTHONHASHSEED": "0"}
    command = [python, str(HERE / "items.py"), item]
    run = subprocess.run(command, env=env, capture_output=True, text=True, cwd="/")
    if run.returncode:
        raise SystemExit(f"{item} failed under {python}:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])[item]


def compare(items: list[str], rounds: int, ours: str, peer: str) -> dict:
    results: dict = {item: {"ours": [], "peer": []} for item in items}
    for number in range(rounds):
        for item in items:
            # the side that goes first changes, so that a drift of the machine hits both
            sides = [("ours", ours), ("peer", peer)]
            for side, python in sides if number % 2 == 0 else reversed(sides):
                results[item][side].append(measure(python, item))
    for entry in results.values():
        entry["ratios"] = [p / o for o, p in zip(entry["ours"], entry["peer"])]
    return results


def show(results: dict) -> None:
    print(f"{'item':20s} {'ours':>12s} {'peer':>12s} {'ratio':>8s} {'min':>8s} {'max':>8s}")
    for item, entry in results.items():
        scale, unit = (1, "B") if item == "bytes_per_node" else (1e6, "us")
        ours, peer = (statistics.median(entry[side]) * scale for side in ("ours", "peer"))
        ratios = entry["ratios"]
        print(
            f"{item:20s} {ours:10.3f}{unit:>2s} {peer:10.3f}{unit:>2s} {statistics.median(ratios):8.2f} "
            f"{min(ratios):8.2f} {max(ratios):8.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "rewrite.json")
    parser.add_argument("--items", nargs="*", default=list(ITEMS), choices=list(ITEMS))
    given = parser.parse_args()
    results = compare(given.items, given.rounds, sys.executable, peer_python())
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1))
    show(results)
    print(f"written to {given.json}")


if __name__ == "__main__":
    main()
