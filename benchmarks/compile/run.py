"""Time to schedule and lower whole models, cold, in one process, as ratios to the published release."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer import interleaved, ratios, table, write_json

MODELS = ("convnet", "resnet50")
STAGES = ("build", "schedule", "lower", "total")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    args = parser.parse_args()
    rows, raw = [], {}
    for model in args.models:
        ours, theirs = interleaved(Path(__file__).with_name("measure.py"), [model], args.runs)
        raw[model] = {"ours": ours, "theirs": theirs}
        for stage in STAGES:
            middle, least, most = ratios(ours, theirs, stage)
            seconds = [
                f"{statistics.median(r[stage] for r in side):.2f}" for side in (theirs, ours)
            ]
            rows.append((model, stage, *seconds, f"{middle:.1f}", f"{least:.1f} .. {most:.1f}"))
        kernels = f"{ours[0]['items']} kernels, theirs {theirs[0]['items']}"
        rows.append((model, kernels, "", "", "", ""))
    print(table(rows, ("model", "stage", "theirs, s", "ours, s", "ratio", "spread")))
    print(f"raw numbers: {write_json('compile', raw)}")


if __name__ == "__main__":
    main()
