"""Runs every benchmark against the published release and prints their tables: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    failed = 0
    for name in ("rewrite", "compile", "engine", "kernels"):
        print(f"\n## {name}\n", flush=True)
        failed |= subprocess.run([sys.executable, str(HERE / name / "run.py")]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
