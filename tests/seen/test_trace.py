#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_trace.py BROWSER SLUICE TRACE_PROGRAM: pages of `sluice trace --html`, opened in a browser.

Addresses are those of own_loopback.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

BROWSER, SLUICE, PROGRAM = Browser(sys.argv[1]), sys.argv[2], sys.argv[3]
MARKUP = "</script><img src=x onerror=document.title=1>"
TEAL, DARK_PAPER, DARK_TEAL = "00695c", "14171b", "4fd1bd"


class Trace(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def page(self, script="", writes=40, word="x"):
        """The page of so many Writes, one after the other; SCRIPT does behind it what a reader would do."""
        page = self.path / "page.html"
        subprocess.run([SLUICE, "trace", "--html", str(page), "--", SLUICE, "run", "--local", "--", "sh", "-c",
                        'exec "$0" writes "$1"', PROGRAM, str(writes), word], check=True, capture_output=True, timeout=60)
        page.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        return page

    def document(self, script="", **how):
        return BROWSER.document(self.page(script, **how))

    def details(self, document):
        text = re.search(r'<aside id="details".*?</aside>', document, re.S)[0]
        return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))

    def test_page__writes__counted_and_in_the_table(self):
        document = self.document()
        self.assertRegex(document, r'id="summary"[^>]*>40 requests, 4 calls in [^;]*; 1 process, 1 queue<')
        self.assertRegex(document, r"<td>Write</td><td>40</td><td>2560</td>")
        self.assertIn('<p id="note" role="status"></p>', document)

    def test_page__drawn__in_its_colours(self):
        page = self.page()
        self.assertGreater(BROWSER.picture(page, self.path / "picture.png").colours().get(TEAL, 0), 100)
        dark = BROWSER.picture(page, self.path / "dark.png", dark=True).colours()
        self.assertGreater(dark.get(DARK_PAPER, 0), 10000)
        self.assertGreater(dark.get(DARK_TEAL, 0), 100)

    def test_keyboard__arrows__one_request_after_the_other(self):
        script = """const press = (key) => document.getElementById('picture').dispatchEvent(
            new KeyboardEvent('keydown', { key, bubbles: true }));
            press('ArrowRight'); press('ArrowRight'); press('+'); press('ArrowRight'); press('0');"""
        details = self.details(self.document(script))
        self.assertEqual((details["wr_id"], details["bytes"], details["status"]), ("2", "64", "IBV_WC_SUCCESS"))

    def test_longest__button__shows_it(self):
        document = self.document("document.querySelector('#lengths button').click();")
        self.assertEqual(self.details(document)["took"], re.search(r'title="Show it">(.*?)<', document)[1])

    def test_pointer__on_a_bar__its_request(self):
        script = """document.querySelector('#lengths button').click();
            const picture = document.getElementById('picture'), wanted = document.querySelector('#details').textContent;
            const point = (type, x, y) => picture.dispatchEvent(Object.defineProperties(
                new PointerEvent(type, { pointerId: 1 }), { offsetX: { value: x }, offsetY: { value: y } }));
            picture.setPointerCapture = () => {};
            point('pointerdown', 5, 3); point('pointerup', 5, 3);
            document.body.dataset.nothing = document.querySelector('#details').textContent.startsWith('Choose');
            const label = [...document.querySelectorAll('#labels div')].find((each) => each.textContent.includes('QP'));
            const y = label.offsetTop + 22;
            const chosen = (x) => { point('pointerdown', x, y); point('pointerup', x, y); return document.querySelector('#details').textContent; };
            // It has a fifth of the width, and lies in the middle unless it was among the first or the last.
            document.body.dataset.same = Array.from({ length: 30 }, (_, i) => chosen(picture.clientWidth * i / 30)).includes(wanted);"""
        document = self.document(script)
        self.assertIn('data-nothing="true"', document)
        self.assertIn('data-same="true"', document)

    def test_filter__queue_pair__only_its_tracks(self):
        script = """const field = document.getElementById('queue-pair');
            const set = (value) => { field.value = value; field.dispatchEvent(new Event('input')); };
            const count = () => document.querySelectorAll('#labels div').length;
            document.body.dataset.all = count();
            set(/QP ([0-9]+)/.exec(document.getElementById('labels').textContent)[1]); document.body.dataset.one = count();
            set('4294967295'); document.body.dataset.none = count(); set('x');"""
        document = self.document(script)
        self.assertIn('data-all="2"', document)
        self.assertIn('data-one="1"', document)
        self.assertIn('data-none="0"', document)
        self.assertIn('aria-invalid="true"', document)

    def test_page__markup_in_the_command__stays_text(self):
        document = self.document(word=MARKUP)
        self.assertNotIn("<img", document)
        self.assertIn("&lt;img src=x", re.search("<title>.*?</title>", document)[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
