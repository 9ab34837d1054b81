#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_ladder.py BROWSER SLUICE FIXTURES: pages of `sluice uroce dump --html`, opened in a browser."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import captures
from browser import Browser

BROWSER, SLUICE, FIXTURES = Browser(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
MARKUP = b"</script><img src=x onerror=document.title=1>"
MOST_MILLISECONDS = 3000
BLUE, TEAL, DARK_PAPER, DARK_BLUE = "1f5fb0", "00695c", "14171b", "82b1ff"


class Ladder(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def page(self, capture, script=""):
        """The page of CAPTURE; SCRIPT does behind it what a reader would do."""
        made = subprocess.run([SLUICE, "uroce", "dump", "--html", str(capture)], check=True, capture_output=True)
        page = self.path / "page.html"
        page.write_bytes(made.stdout.replace(b"</body>", f"<script>{script}</script></body>".encode()))
        return page

    def document(self, capture, script="", width=1200):
        return BROWSER.document(self.page(capture, script), width)

    def details(self, document):
        text = re.search(r'<aside id="details".*?</aside>', document, re.S)[0]
        return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))

    def test_page__recording_of_rping__ends_and_marks_in_words(self):
        document = self.document(FIXTURES / "rping.pcap")
        self.assertIn("41 RoCEv2 packets since 2026-11-20T08:54:30.331Z, 1 connection; 0 others", document)
        self.assertRegex(document, r'class="left">10\.1\.1\.2 0x[0-9a-f]+<')
        self.assertRegex(document, r'class="right">10\.1\.1\.1 0x[0-9a-f]+<')
        for words in ("<b>CM REQ</b>", "<b>CM REP</b>", "RC write only", "RC acknowledge"):
            self.assertIn(words, document)
        self.assertEqual(self.details(document)["port"], "7174")

    def test_page__packet_sent_again_and_one_damaged__named(self):
        packets = captures.packets_of(FIXTURES / "write.pcap")
        again = bytearray(packets[0])
        packets[1][-1] ^= 1
        captures.write(self.path / "trace.pcap", packets + [again])
        document = self.document(self.path / "trace.pcap")
        self.assertIn("<b>retransmission </b>RC write first", document)
        self.assertIn("<b>bad ICRC </b>", document)

    def test_page__refusals_of_the_peer__named(self):
        packets = captures.packets_of(FIXTURES / "rping.pcap")
        captures.answer_with(packets, [0x60, 0x2e])
        captures.write(self.path / "trace.pcap", packets)
        document = self.document(self.path / "trace.pcap")
        self.assertIn("<b>NAK: sequence</b>", document)
        self.assertIn("<b>RNR NAK: receiver not ready, 1280 us</b>", document)

    def test_page__markup_in_private_data_and_name__shown_and_not_run(self):
        packets = captures.packets_of(FIXTURES / "rping.pcap")
        packets[0][captures.REQ_PRIVATE_DATA:captures.REQ_PRIVATE_DATA + len(MARKUP)] = MARKUP
        name = self.path / "<img src=y onerror=document.title=2>.pcap"
        captures.write(name, packets)
        document = self.document(name)
        self.assertNotIn("<img", document)
        self.assertIn("&lt;/script&gt;&lt;img src=x onerror=document.title=1&gt;", self.details(document)["private-data"])
        self.assertIn("<img src=y onerror=document.title=2>.pcap".replace("<", "&lt;").replace(">", "&gt;"),
                      re.search("<title>.*?</title>", document)[0])

    def test_filter__opcode_and_queue_pair__only_what_passes(self):
        script = """const set = (id, value, what) => {
            document.getElementById(id).value = value; document.getElementById(id).dispatchEvent(new Event(what)); };
            const option = [...document.querySelectorAll('#opcode option')].find((o) => o.text === 'RC read request');
            set('opcode', option.value, 'change');
            document.body.dataset.rows = document.querySelectorAll('.row').length;
            document.body.dataset.labels = [...document.querySelectorAll('.label')].filter(
                (l) => l.textContent.startsWith('RC read request')).length;
            set('queue-pair', '0xfedcba', 'input');
            document.body.dataset.nobody = document.querySelectorAll('.row').length;
            set('queue-pair', 'x', 'input');"""
        document = self.document(FIXTURES / "rping.pcap", script)
        rows = int(re.search('data-rows="([0-9]+)"', document)[1])
        self.assertGreater(rows, 0)
        self.assertIn(f'data-labels="{rows}"', document)
        self.assertIn('data-nobody="0"', document)
        self.assertIn("No packet passes the filters.", document)
        self.assertIn('aria-invalid="true"', document)

    def test_keyboard__arrow_and_end__the_packet_s_header(self):
        script = """const press = (key) => document.getElementById('ladder').dispatchEvent(
            new KeyboardEvent('keydown', { key, bubbles: true }));
            press('End'); press('ArrowUp');"""
        document = self.document(FIXTURES / "rping.pcap", script)
        self.assertIn("packet 40,", document)
        self.assertIn('aria-activedescendant="row-39"', document)
        self.assertRegex(document, r'class="row [a-z-]* now" id="row-39"')

    def test_pointer_and_tap__the_packet_s_header(self):
        for what in ("mouseover", "click"):
            script = f"document.querySelector('#row-3 .label').dispatchEvent(new Event('{what}', {{bubbles: true}}));"
            self.assertIn("packet 4,", self.document(FIXTURES / "rping.pcap", script))

    def test_page__100000_packets__open_in_time_and_few_rows(self):
        packets = captures.packets_of(FIXTURES / "rping.pcap")
        captures.write(self.path / "trace.pcap", (packets * (100000 // len(packets) + 1))[:100000])
        document = self.document(self.path / "trace.pcap")
        self.assertIn("100000 RoCEv2 packets", document)
        self.assertLess(document.count('class="row'), 100)
        milliseconds = int(re.search('data-open-ms="([0-9]+)"', document)[1])
        print(f"100,000 packets: {milliseconds} ms")
        self.assertTrue(0 < milliseconds < MOST_MILLISECONDS)

    def test_print__all_rows_that_there_are(self):
        script = "dispatchEvent(new Event('beforeprint'));"
        self.assertEqual(self.document(FIXTURES / "rping.pcap", script).count('class="row'), 41)

    def test_picture__wide_and_390_pixels_light_and_dark__arrows_in_their_colours(self):
        page = self.page(FIXTURES / "rping.pcap")
        for width in (1200, 390):
            colours = BROWSER.picture(page, self.path / "light.png", width).colours()
            self.assertGreater(colours.get(BLUE, 0), 300)
            self.assertGreater(colours.get(TEAL, 0), 100)
            self.assertGreater(colours.get("ffffff", 0), 100000)
        dark = BROWSER.picture(page, self.path / "dark.png", dark=True).colours()
        self.assertGreater(dark.get(DARK_PAPER, 0), 100000)
        self.assertGreater(dark.get(DARK_BLUE, 0), 300)

    def test_page__390_pixels__nothing_beside_the_screen(self):
        script = "document.body.dataset.wider = document.documentElement.scrollWidth - innerWidth;"
        self.assertIn('data-wider="0"', self.document(FIXTURES / "rping.pcap", script, 390))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
