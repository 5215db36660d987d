"""A recording in a terminal: what each pass and each rule cost, what ran longest.

`python -m tinygrad.viz.summary [--kernels FILE] [--profile FILE]` prints three tables for the last recording, or for the files
given. Times of passes include what they call; nodes are those of the graphs they started from.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tinygrad.helpers import ProfileEvent, ProfileRangeEvent, TracingKey, ansilen, time_to_str
from tinygrad.uop.ops import RewriteTrace
from tinygrad.viz import rewrites, store

_SHOWN = 30


@dataclass
class Total:
    """Sums over everything of one name."""

    name: str
    count: int = 0
    changes: int = 0
    nodes: int = 0
    seconds: float = 0.0


def nodes_below(number: int, uop_fields: dict[int, tuple]) -> int:
    """How many nodes a graph has."""
    seen, pending = {number}, [number]
    while pending:
        for source in uop_fields[pending.pop()][2]:
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return len(seen)


def totals_of_passes(t: RewriteTrace) -> list[Total]:
    """One entry for each name of a step, the most expensive first."""
    out: dict[str, Total] = {}
    for group, records in zip(rewrites.list_rewrites(t), t.rewrites):
        for step, record in zip(group["steps"], records):
            total = out.setdefault(step["name"], Total(step["name"]))
            total.count += 1
            total.changes += len(record.matches)
            total.nodes += nodes_below(record.sink, t.uop_fields)
            total.seconds += record.seconds
    return sorted(out.values(), key=lambda total: -total.seconds)


def totals_of_rules(t: RewriteTrace) -> list[Total]:
    """One entry for each rule that fired; its time is that of the tries that ended with it."""
    out: dict[tuple, Total] = {}
    for records in t.rewrites:
        for record in records:
            for _, _, rule, seconds in record.matches:
                if rule is None:
                    continue
                place = f"{os.path.basename(rule[0])}:{rule[1]}"
                total = out.setdefault(rule, Total(f"{rule[2]}  {place}"))
                total.count += 1
                total.seconds += seconds
    return sorted(out.values(), key=lambda total: -total.seconds)


def totals_of_ranges(profile: Iterable[ProfileEvent]) -> list[Total]:
    """One entry for each name and device of a profile."""
    out: dict[tuple[str, str], Total] = {}
    for event in profile:
        if not isinstance(event, ProfileRangeEvent) or event.en is None:
            continue
        named = event.name
        name = named.display_name if isinstance(named, TracingKey) else named
        total = out.setdefault((event.device, name), Total(f"{event.device:8s} {name}"))
        total.count += 1
        total.seconds += float(event.en - event.st) * 1e-6
    return sorted(out.values(), key=lambda total: -total.seconds)


def table(title: str, totals: list[Total], columns: tuple[str, ...]) -> list[str]:
    """Lines of a table: time, the counts named in `columns`, and the name last."""
    heads = "".join(f"{column:>10s}" for column in columns)
    lines = [f"{title}:", f"{'time':>10s}{heads}  name"]
    for total in totals[:_SHOWN]:
        counts = "".join(f"{getattr(total, column):10d}" for column in columns)
        # colours end with the line, whatever the name leaves open
        reset = "\x1b[0m" if ansilen(total.name) != len(total.name) else ""
        lines.append(f"{time_to_str(total.seconds):>10s}{counts}  {total.name}{reset}")
    if len(totals) > _SHOWN:
        rest = sum(total.seconds for total in totals[_SHOWN:])
        lines.append(f"{time_to_str(rest):>10s} in {len(totals) - _SHOWN} more")
    return lines


def summary(t: RewriteTrace, profile: Iterable[ProfileEvent]) -> str:
    """All tables that have entries."""
    tables = (
        ("passes", totals_of_passes(t), ("count", "changes", "nodes")),
        ("rules", totals_of_rules(t), ("count",)),
        ("what ran", totals_of_ranges(profile), ("count",)),
    )
    return "\n\n".join("\n".join(table(*entry)) for entry in tables if entry[1])


def main(arguments: list[str]) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="tinygrad.viz.summary", description=__doc__)
    parser.add_argument("--kernels", default=store.rewrites_path(), help="file of rewrites")
    parser.add_argument("--profile", default=store.profile_path(), help="file of profile events")
    options = parser.parse_args(arguments)
    recording = (
        store.read(options.kernels) if os.path.exists(options.kernels) else store.Recording()
    )
    profile = store.read(options.profile) if os.path.exists(options.profile) else []
    text = summary(recording.trace, profile)
    if not text:
        print("nothing was recorded: run a program with VIZ=-1", file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
