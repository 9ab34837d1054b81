#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_top.py SLUICE: `sluice top` in terminals of many kinds, about files of counters that grow here."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from counter_files import CounterFile
from terminal import Terminal

SLUICE = sys.argv[1]
NAMES = ["path.udp.bytes_sent", "path.udp.packets_sent", "path.udp.bytes_received", "transport.retransmissions"]
BLOCKS = "▁▂▃▄▅▆▇█"


class Top(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.environment = {"SLUICE_UROCE_COUNTERS": str(self.path), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.files = 0

    def file(self, command=b"program", **growth):
        """A process that counts GROWTH many times a second, until the test ends or stops it."""
        self.files += 1
        made = CounterFile(self.path, NAMES, command=command, opened_ns=self.files)
        made.put({}, device=b"uroce%d" % self.files)
        made.stop, made.growth = threading.Event(), {name.replace("__", "."): value for name, value in growth.items()}
        made.thread = threading.Thread(target=self.grow, args=(made, b"uroce%d" % self.files))
        made.thread.start()
        self.addCleanup(self.end, made)
        return made

    @staticmethod
    def grow(file, device):
        turns = 0
        while not file.stop.wait(0.01):
            turns += 1
            file.put({name: value * turns for name, value in file.growth.items()}, device=device)

    @staticmethod
    def end(file):
        if not file.stop.is_set():
            file.stop.set()
            file.thread.join()
            file.end()

    def top(self, *args, columns=100, **environment):
        made = Terminal([SLUICE, "top", *args, *([] if "--interval" in args else ["--interval", "0.1"])], columns, **{**self.environment, **environment})
        self.addCleanup(made.close)
        return made

    def plain(self, *args, **environment):
        return subprocess.run([SLUICE, "top", *args, *([] if "--interval" in args else ["--interval", "0.1"])], capture_output=True, check=False,
                              env={**os.environ, **self.environment, **environment})

    def test_screen__process_that_sends__rates_and_the_last_minute(self):
        self.file(path__udp__bytes_sent=100_000)
        lines = self.top().until(lambda lines: any(set(BLOCKS) & set(line) for line in lines))
        self.assertRegex(lines[2], r"PID +COMMAND +DEVICE +ADDRESS +SENT/S +RECEIVED/S +PACKETS/S +AGAIN/S +LAST MINUTE")
        self.assertRegex(lines[3], rf"^ *{os.getpid()}  program +uroce1 +127\.0\.0\.1 +[0-9.]+M +0 +0 +0 ")

    def test_screen__other_locale__signs_of_ascii(self):
        self.file(path__udp__bytes_sent=100_000)
        lines = self.top(LC_ALL="C").until(lambda lines: any(re.search("[.:=+*#@-]$", line) for line in lines[3:]))
        self.assertTrue(all(line.isascii() for line in lines))

    def test_keys__another_order__the_first_changes(self):
        self.file(b"bytes", path__udp__bytes_sent=100_000)
        self.file(b"packets", path__udp__packets_sent=100_000)
        self.file(b"again", transport__retransmissions=100_000)
        top = self.top()
        for key, name in ((b"p", "packets"), (b"r", "again"), (b"b", "bytes")):
            top.press(key)
            top.until(lambda lines, name=name: len(lines) > 3 and f" {name} " in lines[3])

    def test_width__each_from_1_to_200__no_line_is_wider(self):
        self.file(b"a-long-name-of-a-program", path__udp__bytes_sent=100_000)
        top = self.top(columns=200)
        for columns in (200, 131, 90, 60, 40, 20, 7, 1):
            top.resize(columns)
            lines = top.until(lambda lines, columns=columns: max(map(len, lines)) <= columns and len(lines) > 3)
        top.resize(20)
        lines = top.until(lambda lines: len(lines) > 3 and lines[2].startswith("COMMAND"))
        self.assertRegex(lines[2], r"^COMMAND +SE?")

    def test_width__too_narrow__columns_go_in_their_order(self):
        self.file(b"sender", path__udp__bytes_sent=100_000)
        top = self.top(columns=200)
        order = ["ADDRESS", "LAST MINUTE", "DEVICE", "PACKETS/S", "AGAIN/S", "RECEIVED/S", "PID"]
        gone = []
        for columns in range(110, 17, -1):
            top.resize(columns)
            head = top.until(lambda lines, columns=columns: max(map(len, lines)) <= columns and len(lines) > 3)[2]
            gone += [name for name in order if name not in head and name not in gone]
        # What fits may have been drawn for the width before.
        top.until(lambda lines: len(lines) > 3 and order[-1] not in lines[2])
        self.assertEqual(gone, order[:len(gone)])

    def test_height__more_processes_than_lines__cut_at_the_bottom(self):
        for _ in range(6):
            self.file()
        top = self.top()
        top.shows("uroce6")
        top.resize(100, lines=5)
        self.assertEqual(len(top.until(lambda lines: len(lines) <= 5)), 5)

    def test_killed_process__stays_and_is_marked(self):
        file = self.file(path__udp__bytes_sent=100_000)
        top = self.top()
        top.shows("M ")
        self.end(file)
        top.shows("program (ended)")

    def test_nobody__until_a_process_comes__said(self):
        top = self.top()
        top.shows("no process uses uroce")
        self.file(path__udp__bytes_sent=100_000)
        top.shows("uroce1")

    def test_end__q_and_signals__terminal_is_as_before(self):
        self.file()
        for end, status in ((lambda top: top.press(b"q"), 0), (lambda top: top.press(b"\x03"), signal.SIGINT),
                            (lambda top: os.kill(top.pid, signal.SIGTERM), signal.SIGTERM),
                            (lambda top: os.kill(top.pid, signal.SIGHUP), signal.SIGHUP)):
            top = self.top()
            top.shows("uroce1")
            self.assertIn(1049, top.screen.modes)
            self.assertFalse(top.is_as_before())
            end(top)
            self.assertEqual(top.change(), status)
            self.assertTrue(top.is_as_before())

    def test_stop__terminal_is_as_before_and_is_drawn_again_later(self):
        self.file()
        top = self.top()
        top.shows("uroce1")
        top.press(b"\x1a")
        self.assertTrue(os.WIFSTOPPED(top.change()))
        self.assertTrue(top.is_as_before())
        os.kill(top.pid, signal.SIGCONT)
        top.until(lambda _: 1049 in top.screen.modes)
        top.press(b"q")
        self.assertEqual(top.change(), 0)

    def test_dumb_terminal__tables_without_control_codes(self):
        self.file()
        for term in ("dumb", ""):
            top = self.top("--iterations", "2", columns=60, TERM=term)
            self.assertEqual(top.change(), 0, top.screen.text())
            self.assertTrue(top.screen.is_plain)
            self.assertEqual(sum(line.startswith("    PID") or "COMMAND" in line for line in top.screen.text()), 2)
            self.assertLessEqual(max(map(len, top.screen.text())), 60)

    def test_pipe__once__a_table_with_everything(self):
        self.file(path__udp__bytes_sent=100_000, transport__retransmissions=1)
        ran = self.plain("--once")
        self.assertEqual((ran.returncode, ran.stderr), (0, b""))
        self.assertNotIn(b"\x1b", ran.stdout)
        head, line = ran.stdout.decode().splitlines()
        self.assertIn("ADDRESS", head)
        self.assertRegex(line, r"127\.0\.0\.1 +[0-9.]+M +0 +0 +[0-9]+ .*[▁-█]$")

    def test_pipe__counters_of_another_shape__no_nonsense(self):
        CounterFile(self.path, ["path.bytes_sent", "x"], command=b"\x1b[2J").put({"x": 1}, address=b"\xff")
        (self.path / "sluice-counters-bad").write_bytes(b"bad")
        ran = self.plain("--once")
        self.assertEqual(ran.returncode, 0)
        self.assertNotIn(b"\x1b", ran.stdout)

    def test_pipe__nobody_or_nowhere__a_line_with_the_reason(self):
        for where, word in ((self.path, b"no process of this user"), (self.path / "none", b"SLUICE_UROCE_COUNTERS")):
            ran = self.plain("--once", SLUICE_UROCE_COUNTERS=str(where))
            self.assertIn(ran.returncode, (1, 3))
            self.assertIn(word, ran.stderr)
            self.assertEqual(ran.stderr.count(b"\n"), 1)

    def test_screen__no_directory__a_line_behind_the_screen(self):
        top = self.top(SLUICE_UROCE_COUNTERS=str(self.path / "none"))
        self.assertNotEqual(top.change(), 0)
        self.assertTrue(top.is_as_before())
        self.assertIn("sluice: ", "\n".join(top.screen.text()))

    def test_arguments__wrong__a_line(self):
        for args in (["--interval", "0"], ["--json"], ["--root", "/"], ["--once", "--iterations", "2"]):
            ran = self.plain(*args)
            self.assertEqual((ran.returncode, ran.stderr.count(b"\n")), (2, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
