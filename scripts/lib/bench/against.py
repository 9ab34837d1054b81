#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""against.py DIRECTORY [--json FILE]: the figures of two builds that a benchmark measured in turns.

DIRECTORY has this.N.json, other.N.json and again.N.json for each turn N: again is the other build once more, and what
it differs by from itself is what this machine can't tell apart. Figures that only one of the builds has are counted."""
import argparse
import json
import pathlib
import statistics
import sys

import history

WHO = ("this", "other", "again")
MOST_NAME = 58


def measured(figure):
    """Of a comparison our own part, and its unit."""
    return (figure["value"], figure["unit"]) if figure["ours"] is None else (figure["ours"], figure["compared_unit"])


def medians(directory, who):
    """By figure, in the order of the first turn: the median over the turns, and the unit."""
    found = {}
    for path in sorted(directory.glob(f"{who}.*.json")):
        for figure in history.figures_in(path):
            value, unit = measured(figure)
            found.setdefault(figure["key"], (unit, []))[1].append(value)
    return {key: (statistics.median(values), unit) for key, (unit, values) in found.items()}


def ratio(one, another):
    return one / another if another else None


def compared(this, other, again):
    rows = []
    for key, (value, unit) in this.items():
        if key in other and key in again:
            rows.append({"name": key[0], "unit": unit, "this": value, "other": other[key][0],
                         "ratio": ratio(value, other[key][0]), "noise": ratio(again[key][0], other[key][0])})
    return rows


def told(number, places=3):
    return "-" if number is None else f"{number:.{places}f}"


def line(name, cells, unit):
    return f"{name[:MOST_NAME]:<{MOST_NAME}} " + " ".join(f"{cell:>11}" for cell in cells) + f"  {unit}"


def show(rows, turns, lonely):
    print(line(f"medians of {turns} turns", ("this", "other", "this/other", "other twice"), "unit"))
    for row in rows:
        print(line(row["name"], (told(row["this"], 1), told(row["other"], 1), told(row["ratio"]), told(row["noise"])), row["unit"]))
    ratios = sorted(row["ratio"] for row in rows if row["ratio"] is not None)
    if ratios:
        print(f"\n{len(ratios)} ratios: {ratios[0]:.3f} to {ratios[-1]:.3f}, median {statistics.median(ratios):.3f}")
    if lonely:
        print(f"{lonely} figures of one of the two builds alone")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        of = {who: medians(arguments.directory, who) for who in WHO}
    except (OSError, history.Damaged) as problem:
        print(f"against.py: {arguments.directory}: {problem}; run the benchmark again", file=sys.stderr)
        return 1
    rows = compared(of["this"], of["other"], of["again"])
    if not rows:
        print("against.py: the two builds have no figure in common; compare with a later commit", file=sys.stderr)
        return 1
    turns = len(list(arguments.directory.glob("this.*.json")))
    show(rows, turns, len(of["this"].keys() ^ of["other"].keys()))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
