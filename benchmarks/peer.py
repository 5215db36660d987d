"""The published release that we compare with, in an environment of its own, and fair interleaved measurement.

`PEER_PYTHON` names an interpreter that has it; otherwise `build/peer` is made once with the pinned release from the package
index. Both sides run the same script in fresh processes, in turn (A B A B ...), so that a drifting machine hits both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
PEER = "tinygrad==0.12.0"


def peer_python() -> str:
    """The interpreter that imports the published release."""
    named = os.environ.get("PEER_PYTHON")
    if named:
        return named
    home = ROOT / "build" / "peer"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = home / ".complete"
    if not done.exists():
        print(f"making {home.relative_to(ROOT)} with {PEER}", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PEER, "numpy"], check=True)
        done.touch()
    return str(python)


def run_once(python: str, script: Path, args: list[str], env: dict[str, str] | None = None) -> dict:
    """The last line that the script prints, as JSON. Each process gets an empty cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        full = dict(os.environ, CACHEDB=f"{cache}/cache.db", XDG_CACHE_HOME=cache, **(env or {}))
        full.pop("PYTHONPATH", None)
        out = subprocess.run(
            [python, str(script), *args], capture_output=True, text=True, env=full, cwd=cache
        )
    if out.returncode != 0:
        raise RuntimeError(
            f"{script.name} {' '.join(args)} failed under {python}:\n{out.stderr[-2000:]}"
        )
    return json.loads(out.stdout.strip().splitlines()[-1])


def interleaved(
    script: Path, args: list[str], runs: int, env: dict[str, str] | None = None
) -> tuple[list[dict], list[dict]]:
    """(ours, theirs): `runs` measurements each, in turn, after one of each that is not counted."""
    sides = (sys.executable, peer_python())
    results: tuple[list[dict], list[dict]] = ([], [])
    for i in tqdm(range(runs + 1), desc=f"{script.parent.name} {' '.join(args)}", leave=False):
        for side, python in enumerate(sides):
            measured = run_once(python, script, args, env)
            if i:
                results[side].append(measured)
    return results


def ratios(ours: list[dict], theirs: list[dict], key: str) -> tuple[float, float, float]:
    """(median, least, greatest) of theirs / ours, pair by pair: above 1 we are better."""
    pairs = [t[key] / o[key] for o, t in zip(ours, theirs) if o[key]]
    return statistics.median(pairs), min(pairs), max(pairs)


def table(rows: list[tuple[str, ...]], head: tuple[str, ...]) -> str:
    """A Markdown table."""
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |" for r in (head, *rows)]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def write_json(name: str, data: object) -> Path:
    """Keeps the raw numbers under build/benchmarks."""
    folder = ROOT / "build" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(data, indent=1))
    return path
