#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stage.py MAN TREE CONFIG: what the site's generator is given.

TREE becomes a copy of what readers read of the source tree, at the same places, so that links hold. What GitHub shows and the
generator doesn't is made for it: sources of examples become pages, folders get a list, manual pages, whose HTML lies in MAN,
become pages, and words like sluice(1) lead there.
"""
import html
import pathlib
import posixpath
import re
import subprocess
import sys

MAN, TREE, CONFIG = (pathlib.Path(argument) for argument in sys.argv[1:])
ROOT = pathlib.Path(__file__).resolve().parents[3]
ROOT_PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
TUTORIALS = ["ci", "udapl", "rpma", "sync"]
GUIDES = ["uroce", "uroce-faults", "containers", "moving-from-rxe", "which-device", "porting-udapl", "dat2",
          "rpma-compatibility", "sync", "coherence", "attributes", "probes", "lab"]
REFERENCE = ["status", "packages", "reliability", "dat-conformance", "threading", "security", "uroce-cm"]
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".sh": "bash", ".cmake": "cmake", ".txt": "cmake"}
SECTIONS = {"1": "Commands", "3": "Functions", "5": "Files", "7": "Overviews"}
REFERENCE_WORD = re.compile(r"(?<![\w`/\[(])(\*?)([a-z][a-z0-9_-]*)\1\(([13578])\)")
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def title_of(text, otherwise):
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].replace("`", "") if found else otherwise


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def put(name, text):
    path = TREE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def outside_code(text, change):
    """CHANGE is called for each line that isn't code, with the line before it."""
    made, fence, before = [], None, ""
    for line in text.split("\n"):
        opening = re.match(r" *(```+|~~~+)", line)
        if fence is None and opening:
            fence = opening[1]
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is None and not line.startswith("    "):
            line = change(line, before)
        made.append(line)
        before = line.split("\n")[-1]
    return "\n".join(made)


def manual_names():
    """Which page is about a name: (name, section) to the file."""
    pages = {}
    for page in sorted(MAN.glob("*.html")):
        name, section = page.stem.rsplit(".", 1)
        pages[(name, section)] = page
    for page in sorted(MAN.glob("*.html")):
        section = page.stem.rsplit(".", 1)[1]
        names = re.search(r'id="NAME">.*?</h1>\s*(.*?)</section>', page.read_text(encoding="utf-8"), re.DOTALL)
        listed = html.unescape(re.sub(r"<[^>]*>", "", names[1])) if names else ""
        for name in re.split(r"[,\s]+", re.split(r"\s[-\u2013\u2014]\s", listed)[0]):
            pages.setdefault((name, section), page)
    return pages


class Stage:
    def __init__(self):
        self.man = manual_names()
        self.examples = {name for name in tracked("examples") if "/." not in name}
        self.folders = {posixpath.dirname(name) for name in tracked("docs", "examples")} | {"docs/adr"}

    def man_link(self, name, section, here):
        page = self.man.get((name, section))
        return None if page is None else posixpath.relpath(f"man/{page.stem}.md", posixpath.dirname(here) or ".")

    def target(self, link, here):
        """Where a link of the page HERE leads on the site."""
        if re.match(r"[a-z]+:", link):
            return link
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
        manual = re.fullmatch(r"docs/man/(?:dat/)?([\w-]+)\.(\d)\.scd", path)
        if manual:
            return self.man_link(manual[1], manual[2], here) or link
        if path in self.folders:
            page = "README.md" if f"{path}/README.md" in self.examples else "index.md"
            return posixpath.relpath(f"{path}/{page}", posixpath.dirname(here) or ".")
        return link + ".md" if path in self.examples and not path.endswith(".md") else link

    def page(self, text, here):
        def change(line, before):
            line = LINK.sub(lambda m: m[1] + self.target(m[2], here) + (m[3] or "") + m[4], line)
            if not line.startswith("#"):
                line = REFERENCE_WORD.sub(lambda m: self.reference(m, here), line)
            begins = re.match(r" {0,3}([-*]|\d+\.) ", line)
            # A list needs an empty line before it here, and none on GitHub.
            if begins and before.strip() and not re.match(r" *([-*]|\d+\.) ", before) and not before.startswith(" "):
                line = "\n" + line
            return line
        return outside_code(text, change)

    def reference(self, match, here):
        link = self.man_link(match[2], match[3], here)
        return match[0] if link is None else f"[{match[0]}]({link})"

    def put_page(self, name):
        text = (ROOT / name).read_text(encoding="utf-8")
        put(name, self.page(text, name))
        return title_of(text, name)

    def put_example(self, name):
        if name.endswith(".md"):
            self.put_page(name)
            return
        path = ROOT / name
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return
        fence = "~" * 8
        put(name + ".md", f"# {name}\n\n{fence}{LANGUAGES.get(path.suffix, '')}\n{text}\n{fence}\n")

    def put_folder(self, folder):
        """A list of what is in it, where there is no README.md."""
        names = sorted(name for name in self.examples | set(tracked("docs/adr")) if posixpath.dirname(name) == folder)
        if f"{folder}/README.md" in names or not names:
            return
        lines = [f"# {folder}", ""]
        for name in names:
            own = posixpath.basename(name)
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            shown = title_of(text, own) if name.endswith(".md") else own
            lines.append(f"- [{shown}]({own if own.endswith('.md') else own + '.md'})")
        if folder == "docs/adr":
            lines[0] = "# Decisions and their reasons"
        put(f"{folder}/index.md", "\n".join(lines) + "\n")

    def put_manual(self):
        by_section = {section: [] for section in SECTIONS}
        for page in sorted(MAN.glob("*.html")):
            name, section = page.stem.rsplit(".", 1)
            text = page.read_text(encoding="utf-8")
            text = re.sub(r'href="([\w.-]+)\.html"', self.manual_href, text)
            text = re.sub(r"<b>([\w.-]+)</b>\((\d)\)", self.manual_word, text)
            text = re.sub(r"<pre>.*?</pre>", lambda m: m[0].replace("<br/>", ""), text, flags=re.DOTALL)
            # Its headings are the page's own, below the site's.
            text = re.sub(r"<(/?)h([12])\b", lambda m: f"<{m[1]}h{int(m[2]) + 1}", text)
            put(f"man/{page.stem}.md", f"---\ntitle: {name}({section})\n---\n\n<div class=\"manual\">\n{text}\n</div>\n")
            summary = re.search(r'id="NAME">.*?</h1>\s*(.*?)</section>', page.read_text(encoding="utf-8"), re.DOTALL)
            said = " ".join(html.unescape(re.sub(r"<[^>]*>", "", summary[1])).split()) if summary else ""
            said = re.split(r"\s[-\u2013\u2014]\s", said, maxsplit=1)[-1]
            by_section.setdefault(section, []).append(f"- [{name}({section})]({page.stem}.md): {said}")
        lines = ["# Manual pages"]
        for section, entries in by_section.items():
            lines += ["", f"## {SECTIONS.get(section, 'Section ' + section)}", "", *entries]
        put("man/index.md", "\n".join(lines) + "\n")

    def manual_word(self, match):
        page = self.man.get((match[1], match[2]))
        return f'<a href="{page.stem}.html"><b>{match[1]}</b></a>({match[2]})' if page else match[0]

    def manual_href(self, match):
        name, _, section = match[1].rpartition(".")
        page = self.man.get((name, section))
        return f'href="{page.stem}.html"' if page else f'href="#" data-elsewhere="{match[1]}"'


def yaml_text(text):
    return "'" + text.replace("'", "''") + "'"


def main():
    stage = Stage()
    titles = {name: stage.put_page(name) for name in ROOT_PAGES + tracked("docs/*.md")}
    for name in sorted(stage.examples):
        stage.put_example(name)
    for folder in sorted(stage.folders):
        stage.put_folder(folder)
    for picture in tracked("docs/*.png", "docs/*.svg"):
        (TREE / picture).parent.mkdir(parents=True, exist_ok=True)
        (TREE / picture).write_bytes((ROOT / picture).read_bytes())
    stage.put_manual()
    put("style.css", ".manual h2 { font-size: 120%; } .manual h3 { font-size: 105%; } .manual dd { margin-left: 2em; }\n"
                     ".manual table.head, .manual table.foot { width: 100%; }\n"
                     "@media print { nav, .wy-nav-side, .rst-versions { display: none; } .wy-nav-content-wrap { margin: 0; } }\n")

    # Debian's theme asks for both, and has neither.
    put("js/theme_extra.js", "")
    put("js/jquery-3.6.0.min.js", pathlib.Path("/usr/share/javascript/jquery/jquery.min.js").read_text(encoding="utf-8"))

    def docs(names):
        return [f"docs/{name}.md" for name in names]

    listed = {"docs/start.md", *docs(f"tutorials/{name}" for name in TUTORIALS), *docs(GUIDES), *docs(REFERENCE), "docs/paths.md"}
    more = [name for name in sorted(titles) if name.count("/") == 1 and name.startswith("docs/") and name not in listed]
    nav = {"Tutorials": docs(f"tutorials/{name}" for name in TUTORIALS), "Guides": docs(GUIDES) + more + ["examples/README.md"],
           "Reference": ["man/index.md", *docs(REFERENCE)],
           "Project": ["ARCHITECTURE.md", "docs/paths.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/adr/index.md"]}
    names = {"man/index.md": "Manual pages", "docs/adr/index.md": "Decisions", "examples/README.md": "Examples"}
    lines = ["site_name: Sluice", f"docs_dir: {TREE}", "use_directory_urls: false", "extra_css: [style.css]",
             "theme: {name: readthedocs, highlightjs: false, navigation_depth: 2}",
             "plugins: [search]", "markdown_extensions: [sane_lists, {toc: {permalink: false}}]", "nav:",
             "  - Sluice: README.md", "  - Start: docs/start.md"]
    for section, pages in nav.items():
        lines.append(f"  - {section}:")
        lines += [f"      - {yaml_text(names.get(page) or titles.get(page, page))}: {page}" for page in pages if (TREE / page).exists()]
    CONFIG.write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
