#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""links.py SITE: whether every link within the site leads somewhere, and nothing is loaded from elsewhere.

Each finding is a line "PAGE: what is wrong". Links to other sites are left alone: there is no network.
"""
import html.parser
import pathlib
import re
import sys
import urllib.parse

SITE = pathlib.Path(sys.argv[1])
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.ids.update(value for value in (known.get("id"), known.get("name")) if value)
        if tag == "a" and known.get("href") and "data-elsewhere" not in known:
            self.links.append(known["href"])
        if tag in LOADED and known.get(LOADED[tag]) and known.get("rel") != "canonical":
            self.loads.append(known[LOADED[tag]])


def findings(name, page, pages):
    for link in page.links + page.loads:
        address = urllib.parse.urlsplit(link)
        if address.scheme or address.netloc:
            if link in page.loads:
                yield f"loads {link} from elsewhere"
            continue
        target = (SITE / name).parent / urllib.parse.unquote(address.path) if address.path else SITE / name
        target = target.resolve()
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            yield f"the link to {link} leads nowhere"
        elif address.fragment and target.suffix == ".html":
            known = pages.get(str(target.relative_to(SITE.resolve())))
            if known and urllib.parse.unquote(address.fragment) not in known.ids:
                yield f"the page of {link} has no such place"


def main():
    pages = {str(path.relative_to(SITE)): Page(path) for path in sorted(SITE.rglob("*.html"))}
    wrong = [f"{name}: {text}" for name, page in pages.items() for text in findings(name, page, pages)]
    for path in sorted(SITE.rglob("*.css")):
        for address in re.findall(r"url\(['\"]?([^)'\"]+)", path.read_text(encoding="utf-8", errors="replace")):
            if re.match(r"(https?:)?//", address):
                wrong.append(f"{path.relative_to(SITE)}: loads {address} from elsewhere")
    print("\n".join(sorted(set(wrong))), end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


main()
