# SPDX-License-Identifier: BSD-3-Clause
"""Reads text in the format of OpenMetrics 1.0, and refuses what isn't in it.

It knows what the standard demands of counters and gauges: the descriptions before the samples, each family in one
piece, units at the end of names, each set of labels once, quotation marks, and the end.
"""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} ([0-9]+(?:\.[0-9]+)?)")
ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


class Refused(Exception):
    pass


def require(holds, line):
    if not holds:
        raise Refused(line)


def unescape(text):
    return re.sub(r'\\[n"\\]', lambda found: ESCAPES[found[0]], text)


class Family:
    def __init__(self):
        self.about, self.samples = {}, {}

    def describe(self, what, text, name, line):
        require(what in ("TYPE", "UNIT", "HELP") and what not in self.about and not self.samples, line)
        require(what != "TYPE" or text in ("counter", "gauge"), line)
        require(what != "UNIT" or name.endswith("_" + text), line)
        self.about[what] = text

    def add(self, sample, line):
        labels = [(key, unescape(value)) for key, value in re.findall(LABEL, sample[2])]
        key = frozenset(labels)
        require(len(dict(labels)) == len(labels) and key not in self.samples, line)
        require(self.about.get("TYPE") != "counter" or float(sample[7]) >= 0, line)
        self.samples[key] = float(sample[7])


def parse(text):
    """The families by name; each sample of one is a number by its labels."""
    require(text.endswith("# EOF\n"), "the end")
    families, now = {}, None
    for line in text[:-len("# EOF\n")].split("\n")[:-1]:
        if line.startswith("# "):
            words = line[2:].split(" ", 2)
            require(len(words) == 3 and re.fullmatch(NAME, words[1]), line)
            what, name, about = words
            if name != now:
                require(name not in families, line)
                now, families[name] = name, Family()
            families[name].describe(what, about, name, line)
            continue
        sample = SAMPLE.fullmatch(line)
        require(sample and now is not None, line)
        suffix = "_total" if families[now].about.get("TYPE") == "counter" else ""
        require(sample[1] == now + suffix, line)
        families[now].add(sample, line)
    return families
