#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""page.py NAME FIGURES PAGE [--about TEXT] [--history FILE] [--commit ID] [--quick] [--date TEXT] [--machine TEXT]

A page of HTML from the figures of `scripts/bench NAME --json FIGURES`, with those of former runs from the history, to
which this run is added. The page has no script, and its policy lets nothing be loaded: whatever the figures hold is text.
"""
import argparse
import datetime
import os
import pathlib
import re
import sys

import charts
import history
from charts import escaped, number

HERE = pathlib.Path(__file__).resolve().parent
STYLES = (HERE.parents[2] / "tools/page/page.css", HERE / "bench.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
FORMER_LINES = 8  # of former runs in a chart
FORMER_ROWS = 50
AXES = (1e-9, 1e15)  # what they can show
HOLDS = {True: '<span class="met">met</span>', False: '<span class="missed">missed</span>',
         None: '<span class="unknown">can\'t be told</span>'}


def machine():
    """What ratios depend on; not what the machine is called."""
    model = "an unknown CPU"
    try:
        told = re.search(r"^(?:model name|cpu model)\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
        model = told[1] if told else os.uname().machine
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} CPUs, {os.uname().sysname} {os.uname().release}"


def row(cells, header="td"):
    first, *rest = cells
    scope = "col" if header == "th" else "row"
    others = "".join(f'<th scope="col">{cell}</th>' if header == "th" else f"<td>{cell}</td>" for cell in rest)
    return f'<tr><th scope="{scope}">{first}</th>{others}</tr>'


def table(caption, head, rows, kind=""):
    said = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return (f'<div class="wide"><table class="{kind}">{said}<thead>{row(head, "th")}</thead>'
            f"<tbody>{''.join(map(row, rows))}</tbody></table></div>")


def charts_of(figures):
    """The points of each chart, each with the name of its figure."""
    found = {}
    for figure in figures:
        for point in figure["points"]:
            found.setdefault((point["chart"], point["unit"]), []).append({**point, "figure": figure["name"].strip()})
    return found


def fits(value):
    return AXES[0] <= value <= AXES[1]


def series_of(points):
    """By contender, those that logarithmic axes can show."""
    series = {}
    for point in points:
        if fits(point["bytes"] or 0) and fits(point["value"]) and (point["goal"] is None or fits(point["goal"])):
            series.setdefault(point["who"], []).append(point)
    return {who: sorted(shown, key=lambda point: point["bytes"]) for who, shown in series.items()}


def has_sizes(series):
    return len({point["bytes"] for points in series.values() for point in points}) > 1


def sizes_table(title, unit, series):
    sizes = sorted({point["bytes"] for points in series.values() for point in points})
    by_size = {who: {point["bytes"]: point["value"] for point in points} for who, points in series.items()}
    rows = [[charts.size(count), *(number(values[count]) if count in values else "" for values in by_size.values())]
            for count in sizes]
    return table(f"{title}, in {unit}", ["size", *map(escaped, series)], rows, "numbers")


def bars(caption, rows):
    """ROWS of a name, a contender, a value and a goal."""
    contenders = list(dict.fromkeys(who for _, who, _, _ in rows))
    largest = max([value for _, _, value, _ in rows] + [goal or 0 for _, _, _, goal in rows])
    cells = [[escaped(name), escaped(who), charts.bar(value, largest, contenders.index(who), goal), number(value),
              "" if goal is None else number(goal)] for name, who, value, goal in rows]
    shown = [0, 2, 3, 4] if len(contenders) < 2 else [0, 1, 2, 3, 4]
    head = ["figure", "of", "", "value", "goal"]
    return table(caption, [head[i] for i in shown], [[cell[i] for i in shown] for cell in cells], "bars")


def chart(title, unit, points, former):
    series = series_of(points)
    if not has_sizes(series):
        return bars(f"{title}, in {unit}", [(point["figure"], point["who"], point["value"], point["goal"]) for point in points])
    old = [{who: shown for who, shown in series_of(run.get((title, unit), [])).items() if who in series} for run in former]
    return charts.lines(title, unit, series, old) + sizes_table(title, unit, series)


def goal_number(figure):
    told = re.search(r"[0-9.]+(?:e[-+]?[0-9]+)?", figure["goal"])
    try:
        return float(told[0]) if told else None
    except ValueError:
        return None


def uncharted(figures):
    """Rows for bars, of figures that are in no chart, by unit."""
    groups = {}
    for figure in figures:
        if not figure["points"]:
            groups.setdefault(figure["unit"], []).append(figure)
    return {unit: [(figure["name"].strip(), "", figure["value"], goal_number(figure)) for figure in group]
            for unit, group in groups.items() if len(group) > 1}


def picture(title, inside):
    return f"<section><h2>{escaped(title)}</h2>{inside}</section>"


def all_charts(figures, former):
    old = [charts_of(run["figures"]) for run in former[-FORMER_LINES:]]
    parts = [picture(title, chart(title, unit, points, old)) for (title, unit), points in charts_of(figures).items()]
    parts += [picture(f"Figures in {unit}", bars("", rows)) for unit, rows in uncharted(figures).items()]
    return f'<main class="charts">{"".join(parts)}</main>'


def way_through(key, value, former):
    by_run = [{figure["key"]: figure["value"] for figure in run["figures"]} for run in former]
    return charts.spark([run[key] for run in by_run if key in run] + [value])


def figure_row(figure, former):
    both = ""
    if figure["ours"] is not None and figure["theirs"] is not None:
        both = f"{number(figure['ours'])} / {number(figure['theirs'])} {escaped(figure['compared_unit'])}"
    holds, reason = "", f'<small>{escaped(figure["reason"])}</small>' if figure["reason"] else ""
    if figure["goal"]:
        holds = HOLDS[figure["holds"]]
    name = figure["name"]
    shown = f'<span class="part">{escaped(name.strip())}</span>' if name.startswith(" ") else escaped(name)
    return [shown, f"{number(figure['value'])} {escaped(figure['unit'])}", escaped(figure["goal"]), f"{holds} {reason}", both,
            way_through(figure["key"], figure["value"], former)]


def figures_table(figures, former):
    head = ["figure", "value", "goal", "here, now", "ours / yardstick", "former runs"]
    return table("All figures", head, [figure_row(figure, former) for figure in figures], "figures")


def goals_met(run):
    asked = [figure for figure in run["figures"] if figure["goal"]]
    return f"{sum(figure['holds'] is True for figure in asked)} of {len(asked)}"


def runs_table(runs):
    if not runs:
        return ""
    rows = [[escaped(run["date"]), escaped(run["commit"]), escaped(run["machine"]), "quick" if run["quick"] else "full",
             goals_met(run)] for run in reversed(runs[-FORMER_ROWS:])]
    return table("Former runs", ["date", "commit", "machine", "rounds", "goals met"], rows, "runs")


def notes(run, runs, former, damaged):
    said = []
    if run["quick"]:
        said.append("A quick run, with few rounds: for trying, not for citing.")
    if len(runs) > len(former):
        said.append(f"{len(runs) - len(former)} former runs were on another machine, or with another number of rounds; they are "
                    "in no chart.")
    if damaged:
        said.append(f"{damaged} damaged {'line' if damaged == 1 else 'lines'} of the history left out.")
    if not run["figures"]:
        said.append("The benchmark had nothing to measure here.")
    return "".join(f'<p class="note">{escaped(line)}</p>' for line in said)


def page(name, about, run, runs, damaged):
    # Times of another machine mean nothing here.
    former = [old for old in runs if (old["machine"], old["quick"]) == (run["machine"], run["quick"])]
    style = "\n".join(path.read_text() for path in STYLES)
    title = escaped(f"bench {name}")
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n<title>{title}</title>\n<style>\n{style}</style>\n</head>\n'
            f'<body>\n<header><h1>{title}</h1><p>{escaped(about)}</p><p class="faint">{escaped(run["date"])}, commit '
            f'{escaped(run["commit"])}, {escaped(run["machine"])}; goals met: {goals_met(run)}</p>'
            f"{notes(run, runs, former, damaged)}</header>\n{all_charts(run['figures'], former)}\n"
            f"<footer>{figures_table(run['figures'], former) if run['figures'] else ''}{runs_table(runs)}</footer>\n"
            f"</body>\n</html>\n")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[0])
    for name in ("name", "figures", "page"):
        parser.add_argument(name)
    for name in ("about", "history", "commit", "date", "machine"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def write(asked):
    run = {"date": asked.date or datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
           "commit": asked.commit or "unknown", "machine": asked.machine or machine(), "quick": asked.quick,
           "figures": history.figures_in(asked.figures)}
    runs, damaged = history.read(asked.history) if asked.history else ([], 0)
    pathlib.Path(asked.page).write_text(page(asked.name, asked.about, run, runs, damaged))
    print(f"{asked.page}: the page, with {len(runs)} former runs" + (f"; {damaged} damaged lines left out" if damaged else ""))
    if asked.history:
        history.append(asked.history, run, runs)


if __name__ == "__main__":
    given = arguments()
    try:
        write(given)
    except history.Damaged as problem:
        sys.exit(f"bench: {given.figures} isn't what a benchmark writes by --json: {problem}")
    except OSError as problem:
        sys.exit(f"bench: {problem.filename}: {problem.strerror}; name files that can be read and written")
