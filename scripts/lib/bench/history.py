# SPDX-License-Identifier: BSD-3-Clause
"""Figures of a benchmark, of this run and of former ones. What files hold is checked here: nothing behind does it again."""
import json
import math
import os
import pathlib

SCHEMA = 1
MOST_BYTES = 16 << 20  # of a file that is read
MOST_FIGURES, MOST_POINTS, MOST_TEXT = 1000, 100, 200
MOST_RUNS = 1000  # that are kept


class Damaged(Exception):
    """Isn't what a benchmark has written."""


def text_of(value, otherwise=None):
    if value is None and otherwise is not None:
        return otherwise
    if not isinstance(value, str):
        raise Damaged("a text is missing")
    return value[:MOST_TEXT]


def number_of(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Damaged("a number is missing")
    number = float(value)  # of a whole number that is too large: OverflowError
    if not math.isfinite(number):
        raise Damaged("a number isn't finite")
    return number


def optional_number(value):
    return None if value is None else number_of(value)


def list_of(value, most):
    if not isinstance(value, list) or len(value) > most or not all(isinstance(each, dict) for each in value):
        raise Damaged("a list of objects is missing, or too long")
    return value


def point_of(value):
    return {"chart": text_of(value.get("chart")), "unit": text_of(value.get("unit")), "who": text_of(value.get("who")),
            "bytes": optional_number(value.get("bytes")), "value": number_of(value.get("value")),
            "goal": optional_number(value.get("goal"))}


def figure_of(value):
    holds = value.get("holds")
    return {"name": text_of(value.get("name")), "unit": text_of(value.get("unit")), "value": number_of(value.get("value")),
            "goal": text_of(value.get("goal"), ""), "holds": holds if isinstance(holds, bool) else None,
            "reason": text_of(value.get("reason"), ""), "ours": optional_number(value.get("ours")),
            "theirs": optional_number(value.get("theirs")), "compared_unit": text_of(value.get("compared_unit"), "ns"),
            "points": [point_of(point) for point in list_of(value.get("points", []), MOST_POINTS)]}


def figures_of(value):
    return with_keys([figure_of(figure) for figure in list_of(value, MOST_FIGURES)])


def with_keys(figures):
    """A name that is indented belongs to the figure above, and names may come again: keys tell all of them apart."""
    above, counts = "", {}
    for figure in figures:
        indented = figure["name"].startswith(" ")
        above = above if indented else figure["name"]
        name = f"{above}:{figure['name']}" if indented else figure["name"]
        counts[name] = counts.get(name, 0) + 1
        figure["key"] = (name, counts[name])
    return figures


def parsed(content):
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Damaged("no JSON") from None


def figures_in(path):
    if os.stat(path).st_size > MOST_BYTES:
        raise Damaged(f"more than {MOST_BYTES} bytes")
    return checked(figures_of, parsed(pathlib.Path(path).read_bytes()))


def checked(make, value):
    try:
        return make(value)
    except (OverflowError, AttributeError) as problem:
        raise Damaged(str(problem)) from None


def run_of(value):
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise Damaged("another schema")
    return {"date": text_of(value.get("date")), "commit": text_of(value.get("commit")),
            "machine": text_of(value.get("machine")), "quick": value.get("quick") is True,
            "figures": figures_of(value.get("figures"))}


def read(path):
    """The former runs, the oldest first, and how many lines are damaged."""
    try:
        with open(path, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - MOST_BYTES)
            file.seek(start)
            lines = file.read(MOST_BYTES).split(b"\n")
    except FileNotFoundError:
        return [], 0
    runs, damaged = [], 0
    for line in filter(None, lines[1:] if start else lines):
        try:
            runs.append(checked(run_of, parsed(line)))
        except Damaged:
            damaged += 1
    return runs[-MOST_RUNS:], damaged


def line_of(run):
    figures = [{name: value for name, value in figure.items() if name != "key"} for figure in run["figures"]]
    return json.dumps({"schema": SCHEMA, **run, "figures": figures}) + "\n"


def append(path, run, runs):
    """RUN behind RUNS, which were read from there. Old ones go, when there are too many."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(runs) < MOST_RUNS:
        with open(path, "ab+") as file:  # one write: two benchmarks at a time don't mix their lines
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            is_cut = file.read(1) not in (b"", b"\n")
            file.write((b"\n" if is_cut else b"") + line_of(run).encode())
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text("".join(map(line_of, runs[-MOST_RUNS + 1:] + [run])))
    os.replace(fresh, path)
