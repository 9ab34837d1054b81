#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_timeline.py BROWSER SLUICE WRONG CORRECTED: pages of `sluice check --timeline`, opened in a browser.

The programs are race 20: DAT, without and with a dat_lmr_sync_rdma_write() behind a peer's Write. Addresses are those of
own_loopback.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

BROWSER, SLUICE, WRONG, CORRECTED = Browser(sys.argv[1]), *sys.argv[2:5]
MARKUP = "<img src=x onerror=document.title=1>"
BLUE, RED, DARK_PAPER, DARK_BLUE = "1f5fb0", "b3261e", "14171b", "82b1ff"


class Timeline(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def page(self, program=WRONG, script=""):
        """The page of PROGRAM; SCRIPT does behind it what a reader would do."""
        page = self.path / "page.html"
        environment = dict(os.environ, RACES_ADDRESS=os.environ["TEST_ADDRESS"])
        ended = subprocess.run([SLUICE, "check", "--timeline", str(page), "--", program], env=environment, capture_output=True,
                               text=True, timeout=60, check=False)
        self.assertIn(ended.returncode, (0, 1), ended.stderr)
        page.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        return page

    def document(self, *arguments, width=1200, **how):
        return html.unescape(BROWSER.document(self.page(*arguments, **how), width))

    def test_page__a_call_is_forgotten__named_at_the_top_with_region_lines_and_remedy(self):
        document = self.document()
        top = re.search(r'<section id="mistakes".*?</section>', document, re.S)[0]
        self.assertIn("1 mistake", top)
        self.assertIn("<strong>dat_lmr_sync_rdma_write() is missing</strong> for lines 0 to 63 (bytes 0 to 4096) of LMR 2", top)
        self.assertIn("Remedy: call dat_lmr_sync_rdma_write() for these bytes", top)
        self.assertRegex(top, r"#0 main at .*20-no-sync-after-a-write\.c:\d+")
        self.assertIn("at the end 64 lines stale", document)
        self.assertEqual(len(re.findall(r'class="flag"', document)), 1)
        self.assertIn('class="band stale"', document)

    def test_page__corrected__no_mistake_and_the_call(self):
        document = self.document(CORRECTED)
        self.assertIn("<h2>No mistake seen</h2>", document)
        self.assertNotIn('class="flag"', document)
        self.assertRegex(document, r"<td>invalidated</td><td>LMR 2</td><td>0 to 63</td><td>dat_lmr_sync_rdma_write</td>")

    def test_reader__button_tap_arrows_and_axis__what_each_shows(self):
        script = """const seen = {}, region = document.getElementById('regions');
            const details = () => {
                const panel = document.getElementById('details'), found = { stack: panel.querySelector('pre').textContent };
                for (const name of panel.querySelectorAll('dt')) found[name.textContent] = name.nextSibling.textContent;
                return found;
            };
            document.querySelector('#mistakes button').click();
            seen.button = details();
            document.querySelector('.band.stale:not(.unsure)').dispatchEvent(new MouseEvent('click', { bubbles: true }));
            seen.tap = details();
            document.querySelector('#region-1 svg').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
            seen.arrow = details();
            const axis = document.getElementById('axis'), before = region.innerHTML;
            axis.value = 'time';
            axis.dispatchEvent(new Event('change'));
            seen.drawn = before !== region.innerHTML && document.querySelectorAll('.band').length;
            document.body.dataset.seen = JSON.stringify(seen);"""
        document = BROWSER.document(self.page(script=script))
        seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', document)[1]))
        button, tap, arrow = seen["button"], seen["tap"], seen["arrow"]
        self.assertEqual((button["missing"], button["lines"]), ("dat_lmr_sync_rdma_write", "0 to 63 (bytes 0 to 4096)"))
        self.assertRegex(button["region"], r"^LMR 2, process \d+$")
        self.assertRegex(button["time"], r"^[0-9.]+ (ns|µs|ms|s)$")
        self.assertRegex(button["stack"], r"^#0 main at ")
        self.assertEqual(tap["call"], "dat_evd_wait")
        self.assertIn("or since", tap)
        self.assertIn("main at", tap["stack"])
        self.assertEqual(arrow, button)
        self.assertGreater(seen["drawn"], 3)

    def test_page__390_pixels__nothing_beside_the_screen(self):
        script = "document.body.dataset.wider = document.documentElement.scrollWidth - innerWidth;"
        self.assertIn('data-wider="0"', self.document(script=script, width=390))

    def test_page__markup_in_the_programs_name__stays_text(self):
        program = self.path / MARKUP
        shutil.copy(WRONG, program)
        document = BROWSER.document(self.page(str(program)))
        self.assertNotIn("<img", document)
        self.assertIn("&lt;img src=x", re.search("<title>.*?</title>", document)[0])
        self.assertRegex(document, r"#0 main at .*&lt;img src=x")

    def test_picture__light_dark_and_390_pixels__in_its_colours(self):
        page = self.page()
        for width, least in ((1200, 500), (390, 0)):
            colours = BROWSER.picture(page, self.path / "light.png", width).colours()
            self.assertGreater(colours.get("ffffff", 0), 100000)
            self.assertGreater(colours.get(RED, 0), 100)
            self.assertGreaterEqual(colours.get(BLUE, 0), least)
        dark = BROWSER.picture(page, self.path / "dark.png", dark=True).colours()
        self.assertGreater(dark.get(DARK_PAPER, 0), 100000)
        self.assertGreater(dark.get(DARK_BLUE, 0), 500)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
