#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_site.py SOURCE: the site that scripts/site makes of the documentation, and what it refuses.

Exit status: 0 passed, 1 failed, 77 the generator isn't installed.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
LINKS = SOURCE / "scripts/lib/site/links.py"


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=250, check=False)


class Made(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.site = pathlib.Path(directory.name) / "site"
        cls.ran = run(SOURCE / "scripts/site", "--output", cls.site)

    def text(self, page):
        return (self.site / page).read_text(encoding="utf-8")

    def test_site__made__no_link_leads_nowhere(self):
        self.assertEqual(self.ran.returncode, 0, self.ran.stdout + self.ran.stderr)
        self.assertGreater(len(list(self.site.rglob("*.html"))), 300)

    def test_site__navigation__tutorials_guides_reference_decisions(self):
        home = self.text("index.html")
        for link in ("docs/start.html", "docs/tutorials/udapl.html", "docs/uroce.html", "man/index.html", "docs/adr/index.html"):
            self.assertIn(f'href="{link}"', home)

    def test_site__names_of_manual_pages__lead_there(self):
        self.assertIn('href="../../man/sluice-check.1.html"', self.text("docs/tutorials/udapl.html"))
        self.assertIn('href="../man/sluice-top.1.html"', self.text("docs/uroce.html"))
        self.assertIn('href="dat_rmr_bind.3.html"', self.text("man/dat_ep_post_rdma_read.3.html"))
        self.assertIn("rpma_conn_req_new.3.html", self.text("man/index.html"))

    def test_site__sources_of_examples__are_pages(self):
        self.assertIn("dat_lmr_sync_rdma_write", self.text("examples/04-rdma-write/main.c.html"))

    def test_site__search__knows_documents_and_manual_pages(self):
        entries = json.loads(self.text("search/search_index.json"))["docs"]
        for word, place in (("keeps", "docs/"), ("dat_lmr_sync_rdma_write", "man/")):
            self.assertTrue(any(word in entry["text"] and entry["location"].startswith(place) for entry in entries), word)

    def test_site__directory_of_somebody_else__left_alone(self):
        with tempfile.TemporaryDirectory() as mine:
            pathlib.Path(mine, "file").write_text("mine", encoding="utf-8")
            ran = run(SOURCE / "scripts/site", "--output", mine)
            self.assertEqual((ran.returncode, pathlib.Path(mine, "file").read_text(encoding="utf-8")), (2, "mine"))
            self.assertIn("name another directory", ran.stderr)


class Links(unittest.TestCase):
    def findings(self, **pages):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in pages.items():
                pathlib.Path(directory, name + ".html").write_text(text, encoding="utf-8")
            pathlib.Path(directory, "style.css").write_text("a { background: url(//example.org/x.png) }", encoding="utf-8")
            ran = run(sys.executable, LINKS, directory)
            self.assertEqual(ran.returncode, 1)
            return ran.stdout.splitlines()

    def test_links__nowhere_no_such_place_and_loaded_from_elsewhere__named(self):
        found = self.findings(a='<a href="b.html#there">x</a><a href="b.html#not">x</a><a href="c.html">x</a>'
                                '<a href="https://example.org">x</a><img src="https://example.org/y.png">',
                              b='<h1 id="there">x</h1>')
        self.assertEqual(found, ["a.html: loads https://example.org/y.png from elsewhere", "a.html: the link to c.html leads nowhere",
                                 "a.html: the page of b.html#not has no such place",
                                 "style.css: loads //example.org/x.png from elsewhere"])


if __name__ == "__main__":
    if not shutil.which("mkdocs") or not shutil.which("mandoc"):
        print("SKIP: mkdocs or mandoc isn't installed (scripts/packages install site)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
