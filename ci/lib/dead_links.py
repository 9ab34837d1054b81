#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: dead_links.py DIR

The links in DIR's Markdown that lead to no file, one a line; a line, too, where there is no link at all.
"""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])
links = [(page, target)
         for page in sorted(top.rglob("*.md"))
         for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
         if ":" not in target]
if not links:
    print(f"there are no links below {top}")
for page, target in links:
    if not (page.parent / target).exists():
        print(f"{page.relative_to(top)}: {target}")
