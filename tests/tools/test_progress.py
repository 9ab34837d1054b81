#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_progress.py SLUICE PROVIDER: the line that says how much is done, where PROVIDER takes as long to load as
nobody opens the gate."""
import os
import pathlib
import select
import struct
import subprocess
import sys
import tempfile
import unittest

from terminal import Terminal

SLUICE, PROVIDER = sys.argv[1:3]


class Progress(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.gate = self.path / "gate"
        os.mkfifo(self.gate)
        self.environment = {"DAT_OVERRIDE": str(self.path / "dat.conf"), "TEST_GATE": str(self.gate), "TERM": "xterm",
                            "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        self.name_adapters("slow", "later")

    def name_adapters(self, *names):
        lines = [f'"{name}" u1.2 nonthreadsafe default {PROVIDER} test.1.0 "" ""\n' for name in names]
        (self.path / "dat.conf").write_text("".join(lines))

    def terminal(self, *args, columns=100, **environment):
        made = Terminal([SLUICE, *args], columns, **{**self.environment, **environment})
        self.addCleanup(made.close)
        return made

    def open_gate(self):
        """From now on, nobody waits there."""
        gate = os.open(self.gate, os.O_RDWR)
        self.addCleanup(os.close, gate)

    def test_dat_check__slow_library__line_counts_adapters_and_goes(self):
        shown = self.terminal("dat", "check")
        shown.shows("dat check: 1 of 2: slow (2 s)")
        shown.shows("(3 s)")  # nothing has moved but the time
        self.open_gate()
        self.assertEqual(os.waitstatus_to_exitcode(shown.change()), 1)
        self.assertTrue(shown.is_as_before())
        lines = shown.screen.text()
        self.assertFalse([line for line in lines if "dat check:" in line])
        self.assertTrue(lines[0].startswith("NAME"), lines)

    def test_doctor__slow_library__line_names_the_check(self):
        shown = self.terminal("doctor")
        shown.shows(": dat (")
        self.assertRegex("\n".join(shown.screen.text()), r"doctor: \d+ of \d+: dat \(\d+ s\)")
        self.open_gate()
        shown.change()
        self.assertFalse([line for line in shown.screen.text() if line.startswith("doctor:")])

    def test_line__narrow_terminal_and_long_name__doesnt_wrap(self):
        self.name_adapters("n" * 200)
        shown = self.terminal("dat", "check", columns=30)
        lines = shown.shows("dat check: 1 of 1: nnn")
        self.assertEqual([len(line) for line in lines], [29])
        self.open_gate()
        shown.change()

    def test_line__nobody_can_see_it_go__isnt_there(self):
        piped = subprocess.Popen([SLUICE, "dat", "check"], env={**os.environ, **self.environment}, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        dumb = self.terminal("dat", "check", TERM="dumb")
        nameless = self.terminal("dat", "check", TERM="")
        recording = self.path / "recording"
        os.mkfifo(recording)
        text = self.terminal("uroce", "dump", str(recording))  # its own lines go to the terminal
        to_text = os.open(recording, os.O_WRONLY)
        os.write(to_text, struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        # What began later has a line, and so would they.
        self.terminal("dat", "check").shows("(3 s)")
        for descriptor in (piped.stderr.fileno(), piped.stdout.fileno(), dumb.terminal, nameless.terminal, text.terminal):
            self.assertEqual(select.select([descriptor], [], [], 0)[0], [])
        os.write(to_text, b"\xff" * 16)  # no packet is that long; the shells of terminals have the pipe open, too
        os.close(to_text)
        self.open_gate()
        out, err = piped.communicate()
        self.assertNotIn(b"\r", out + err)
        for each in (dumb, nameless, text):
            each.change()
            self.assertTrue(each.screen.is_plain, each.screen.text())

    def test_dump__slow_recording__line_counts_what_is_read(self):
        recording = self.path / "recording"
        os.mkfifo(recording)
        shown = self.terminal("uroce", "dump", "--html", str(recording))
        writer = os.open(recording, os.O_WRONLY)
        os.write(writer, struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        shown.shows("uroce dump: 0 MiB (2 s)")
        os.close(writer)
        self.assertEqual(os.waitstatus_to_exitcode(shown.change()), 1)
        self.assertTrue(shown.screen.text()[0].startswith("sluice: "), shown.screen.text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
