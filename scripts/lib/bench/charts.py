# SPDX-License-Identifier: BSD-3-Clause
"""Charts as SVG: lines on two logarithmic axes, with the names at their ends; bars; and small lines for a table's cell."""
import html
import math

WIDTH, HEIGHT = 420, 290
LEFT, TOP, BOTTOM = 54, 12, 40
LETTER, MOST_LETTERS = 7, 22  # of the names at the right
MOST_TICKS = 12
LABEL_ROOM = 13  # from one name to the next
COLOURS = 6  # in bench.css
SIZE_ROOM = 44  # from one size to the next, below the axis


def escaped(text):
    return html.escape(str(text))


def number(value):
    """Three digits that count."""
    if value == 0 or not math.isfinite(value):
        return "0"
    if not 1e-6 <= abs(value) < 1e12:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(0, min(digits, 6))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{number(count / scale)} {unit}"
    return f"{number(count)} B"


class Axis:
    """From values to places on the page, by their logarithms."""

    def __init__(self, values, start, end):
        low, high = math.log10(min(values)), math.log10(max(values))
        room = max(0.08, (high - low) * 0.06)
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def place(self, value):
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self):
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1,) if self.high - self.low > 2.2 else (1, 2, 5) if self.high - self.low > 0.5 else (1, 1.5, 2, 3, 4, 5, 6, 8)
        values = [step * 10.0 ** decade for decade in decades for step in steps]
        shown = [value for value in values if self.low <= math.log10(value) <= self.high]
        return shown[::1 + len(shown) // MOST_TICKS]


def spread(places, low, high):
    """PLACES, so far from each other that texts don't meet."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    result, former = list(places), low - LABEL_ROOM
    for i in order:
        former = result[i] = max(places[i], former + LABEL_ROOM)
    limit = high
    for i in reversed(order):
        result[i] = min(result[i], limit)
        limit = result[i] - LABEL_ROOM
    return result


def short(name):
    return name if len(name) <= MOST_LETTERS else name[:MOST_LETTERS - 1] + "\u2026"


def path_of(points):
    return " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))


def marker(x, y, which):
    """Forms differ as colours do."""
    if which % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
    if which % 3 == 1:
        return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"/>'
    return f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z"/>'


def grid(across, up, sizes, unit):
    bottom, right = HEIGHT - BOTTOM, across.end
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>']
    for value in up.ticks():
        y = up.place(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/><text x="{LEFT - 6}" y="{y + 4:.1f}" '
                     f'class="end">{number(value)}</text>')
    former = -SIZE_ROOM
    for value in sorted(sizes):
        x = across.place(value)
        if x - former >= SIZE_ROOM:
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/><text x="{x:.1f}" y="{bottom + 17}" '
                         f'class="middle">{size(value)}</text>')
            former = x
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 4}" class="middle faint">size</text>')
    parts.append(f'<text x="{right + 6}" y="{bottom + 4}" class="faint">{escaped(unit)}</text>')
    return "".join(parts)


def goals_of(points, across, up):
    """A line through goals of several sizes; where there is one, a short piece."""
    places = [(across.place(point["bytes"]), up.place(point["goal"])) for point in points if point["goal"]]
    if not places:
        return ""
    if len(places) == 1:
        places = [(places[0][0] - 16, places[0][1]), (places[0][0] + 16, places[0][1])]
    x, y = places[-1]
    return (f'<path class="goal" d="{path_of(places)}"/><text class="goal-name middle" x="{x:.1f}" '
            f'y="{y - 4:.1f}">goal</text>')


def lines(title, unit, series, former):
    """SERIES: of each contender its points by size. FORMER: the same of former runs, which are drawn faintly."""
    shown = [point for points in series.values() for point in points]
    old = [point for run in former for points in run.values() for point in points]
    sizes = {point["bytes"] for point in shown}
    across = Axis([point["bytes"] for point in shown + old], LEFT, WIDTH - 16 - LETTER * max(map(len, map(short, series))))
    values = [point["value"] for point in shown + old] + [point["goal"] for point in shown if point["goal"]]
    up = Axis(values, HEIGHT - BOTTOM, TOP)
    names = list(series)
    parts = [grid(across, up, sizes, unit)]
    for run in former:
        for name, points in run.items():
            places = [(across.place(point["bytes"]), up.place(point["value"])) for point in points]
            parts.append(f'<path class="line former s{names.index(name) % COLOURS}" d="{path_of(places)}"/>')
    ends = spread([up.place(points[-1]["value"]) for points in series.values()], TOP + 4, HEIGHT - BOTTOM - 4)
    for which, (name, points) in enumerate(series.items()):
        places = [(across.place(point["bytes"]), up.place(point["value"])) for point in points]
        parts.append(f'<g class="s{which % COLOURS}"><path class="line" d="{path_of(places)}"/>')
        for (x, y), point in zip(places, points):
            told = f"{name}: {size(point['bytes'])}, {number(point['value'])} {unit}"
            parts.append(f"<g>{marker(x, y, which)}<title>{escaped(told)}</title></g>")
        parts.append(f'<text class="name" x="{places[-1][0] + 8:.1f}" y="{ends[which] + 4:.1f}">{escaped(short(name))}</text></g>')
        parts.append(goals_of(points, across, up))
    return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped(title)}; the table below has the '
            f'figures">{"".join(parts)}</svg>')


def bar(value, largest, which, goal=None):
    """One bar of 100 units; a goal is a line across."""
    if largest <= 0:
        return ""
    parts = [f'<rect class="s{which % COLOURS}" x="0" y="1" width="{max(0.0, min(value / largest, 1)) * 100:.2f}" height="8"/>']
    if goal:
        parts.append(f'<path class="goal" d="M{min(goal / largest, 1) * 100:.2f} 0V10"/>')
    return (f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>')


def spark(values):
    """A figure's way through the runs, the newest at the right."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    places = [(2 + 76 * i / (len(values) - 1), 18 - 14 * ((value - low) / (high - low) if high > low else 0.5))
              for i, value in enumerate(values)]
    told = f"{len(values)} runs, from {number(low)} to {number(high)}"
    return (f'<svg class="spark s0" viewBox="0 0 80 22" role="img" aria-label="{told}"><title>{told}</title>'
            f'<path class="line" d="{path_of(places)}"/><g>{marker(*places[-1], 0)}</g></svg>')
