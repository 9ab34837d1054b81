#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_bench.py BROWSER PAGE BENCHMARK...: pages of `scripts/bench NAME --html`, opened in a browser.

PAGE is the program that makes them; each BENCHMARK is measured."""
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

BROWSER, PAGE, BENCHMARKS = Browser(sys.argv[1]), sys.argv[2], sys.argv[3:]
MARKUP = "</title></style></svg><img src=x onerror=document.title=1>"
BLUE, ORANGE, DARK_PAPER, DARK_BLUE = "1f5fb0", "a84300", "14171b", "82b1ff"
CHART = "RDMA Write: bandwidth"


def figure(name, value=1.0, unit="x", **more):
    return {"name": name, "value": value, "unit": unit, "goal": None, "holds": None, **more}


def compared(count, ours, theirs, goal=None):
    points = [{"chart": CHART, "unit": "MB/s", "who": "uroce", "bytes": count, "value": ours, "goal": goal},
              {"chart": CHART, "unit": "MB/s", "who": "bare sockets", "bytes": count, "value": theirs}]
    return figure(f"{count}-byte Writes", ours / theirs, ours=ours, theirs=theirs, compared_unit="MB/s", points=points)


SWEEP = [compared(4096, 310.5, 700), compared(65536, 1100, 1500, 900), compared(1 << 20, 1900, 2000)]
PLAIN = [figure("poll of an empty queue", 48.25, "ns", goal="<= 60", holds=True),
         figure("poll of a full one", 99, "ns", goal="<= 60", holds=False),
         figure("rate", 2, goal=">= 3", reason="noise: the yardstick differs from itself by 40 % in this run")]


class Bench(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.history, self.page = self.path / "state" / "bench" / "uroce.jsonl", self.path / "page.html"

    def make(self, figures, *options, name="uroce"):
        path = self.path / "figures.json"
        path.write_text(figures if isinstance(figures, str) else json.dumps(figures))
        return subprocess.run([sys.executable, PAGE, name, str(path), str(self.page), "--history", str(self.history),
                               "--commit", "abc1234", "--machine", "a CPU, 2 CPUs", *options], capture_output=True, text=True)

    def text(self, figures, *options, **more):
        """The page as it was written: nothing in it changes in a browser."""
        made = self.make(figures, *options, **more)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return self.page.read_text()

    def test_chart__sizes_of_two__lines_goal_and_table_below(self):
        document = self.text(SWEEP + PLAIN)
        for told in ("uroce: 64 KiB, 1,100 MB/s", "bare sockets: 4 KiB, 700 MB/s"):
            self.assertIn(f"<title>{told}</title>", document)
        self.assertEqual(document.count('class="goal-name middle"'), 1)
        cells = re.findall(r'<tr><th scope="row">64 KiB</th><td>(.*?)</td><td>(.*?)</td>', document)
        self.assertEqual(cells, [("1,100", "1,500")])
        self.assertIn("goals met: 1 of 3", document)

    def test_figures__without_sizes__bars_and_what_became_of_goals(self):
        document = self.text(PLAIN)
        self.assertIn("<h2>Figures in ns</h2>", document)
        self.assertIn('width="48.74"', document)  # 48.25 of 99
        for word in ("met", "missed", "can't be told"):
            self.assertIn(f">{word}</span>", document)
        self.assertIn("the yardstick differs from itself by 40 %", document)

    def test_history__former_runs__lines_of_the_same_machine_and_a_table(self):
        self.make(SWEEP, "--machine", "another CPU")
        self.make(SWEEP)
        self.make([compared(4096, 200, 700), compared(65536, 900, 1500, 900)])
        document = self.text(SWEEP)
        self.assertEqual(len(re.findall(r'class="line former', document)), 4)  # two runs of two
        self.assertIn("1 former runs were on another machine", document)
        self.assertIn("3 runs, from 0.286 to 0.444", document)
        self.assertEqual(document.count("<td>abc1234</td>"), 3)

    def test_history__damaged_lines__left_out_counted_and_kept(self):
        self.make(SWEEP)
        good = self.history.read_text()
        deep = "[" * 100000
        wrong = [good[:-20], "\0\xff", deep, '{"schema": 1}', good.replace("1100.0", "1" + "0" * 400),
                 good.replace("1100.0", "NaN"), good.replace('"unit": "x"', '"unit": {}'), "[]", "7"]
        self.history.write_text(good + "\n".join(line.strip() for line in wrong))
        document = self.text(SWEEP)
        self.assertIn(f"{len(wrong)} damaged lines of the history left out", document)
        self.assertEqual(document.count("<td>abc1234</td>"), 1)
        self.assertIn(f"{len(wrong)} damaged lines", self.make(SWEEP).stdout)
        self.assertIn("with 3 former runs", self.make(SWEEP).stdout)

    def test_history__that_has_grown_too_long__the_newest_stay(self):
        self.make([])
        self.history.write_text(self.history.read_text() * 1000)
        self.make(SWEEP)
        lines = self.history.read_text().splitlines()
        self.assertEqual(len(lines), 1000)
        self.assertIn("4096-byte", lines[-1])

    def test_page__markup_in_every_text__shown_and_not_run(self):
        names = {key: MARKUP for key in ("name", "unit", "goal", "reason", "compared_unit")}
        hostile = [{**figure, **names, "points": [{**point, "chart": MARKUP, "unit": MARKUP, "who": MARKUP}
                                                  for point in figure["points"]]} for figure in SWEEP]
        hostile += [{**figure, **names} for figure in PLAIN]
        self.make(hostile, "--machine", MARKUP, "--commit", MARKUP, "--date", MARKUP)
        self.text(hostile, "--machine", MARKUP, "--commit", MARKUP, "--about", MARKUP, name=MARKUP)
        document = BROWSER.document(self.page)
        self.assertNotIn("<img", document)
        self.assertNotIn("<script", document)
        self.assertIn(f"<title>bench {MARKUP}".replace("<", "&lt;").replace(">", "&gt;")[len("&lt;title&gt;"):], document)
        self.assertGreater(document.count("&lt;img src=x onerror=document.title=1&gt;"), 20)

    def test_page__figures_that_no_axis_has__made_all_the_same(self):
        odd = [compared(4096, 0.001, 1e-300), compared(-8, 5, 5), compared(8, 7, 1e300, -1), figure("nothing", 0),
               figure("less than nothing", -5)]
        odd[0]["points"][0]["value"] = 0
        self.assertIn("less than nothing", self.text(odd))

    def test_page__no_figures__says_so(self):
        self.assertIn("nothing to measure", self.text([]))

    def test_figures__damaged__one_line_and_no_page(self):
        for content in ("{", "[1]", '[{"name": 5}]', "{}", "[" * 100000, json.dumps([figure("x", 1e400)])):
            made = self.make(content)
            self.assertEqual((made.returncode, made.stderr.count("\n")), (1, 1), made.stderr)
            self.assertIn("isn't what a benchmark writes by --json", made.stderr)
            self.assertFalse(self.page.exists())

    @unittest.skipUnless(BENCHMARKS, "no benchmark is named")
    def test_benchmarks__as_they_are__their_figures_are_shown(self):
        figures = self.path / "measured.json"
        for benchmark in BENCHMARKS:
            subprocess.run([benchmark, "--quick", "--json", str(figures)], check=True, capture_output=True)
            measured = json.loads(figures.read_text())
            text = self.text(figures.read_text())
            missing = [each["name"] for each in measured if html.escape(each["name"].strip()) not in text]
            self.assertEqual(missing, [])
            sizes = {(point["chart"], point["unit"]): set() for each in measured for point in each.get("points", [])}
            for point in (point for each in measured for point in each.get("points", [])):
                sizes[point["chart"], point["unit"]].add(point.get("bytes"))
            self.assertEqual(text.count('role="img" aria-label='), sum(len(each) > 1 for each in sizes.values()))
            self.history.unlink()

    def test_page__390_pixels__nothing_beside_the_screen(self):
        text = self.text(SWEEP + PLAIN)
        script = "document.body.dataset.wider = document.documentElement.scrollWidth - innerWidth;"
        # The page's policy lets no script run, not even the test's.
        self.page.write_text(re.sub("<meta http-equiv.*", "", text).replace("</body>", f"<script>{script}</script></body>"))
        self.assertIn('data-wider="0"', BROWSER.document(self.page, 390))

    def test_picture__wide_and_390_pixels_light_and_dark__lines_in_their_colours(self):
        self.make(SWEEP + PLAIN)
        for width in (1200, 390):
            colours = BROWSER.picture(self.page, self.path / "light.png", width).colours()
            self.assertGreater(colours.get(BLUE, 0), 300)
            self.assertGreater(colours.get(ORANGE, 0), 200)
            self.assertGreater(colours.get("ffffff", 0), 100000)
        dark = BROWSER.picture(self.page, self.path / "dark.png", dark=True).colours()
        self.assertGreater(dark.get(DARK_PAPER, 0), 100000)
        self.assertGreater(dark.get(DARK_BLUE, 0), 300)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
