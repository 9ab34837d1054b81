#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_bpftrace.py SCRIPTS LIBSLUICE LIBSYNC SYNC_PROGRAM RUN_DAT DAT_PROGRAM: the scripts for bpftrace, natively.

Each script looks at programs that have these libraries, in place of the installed ones which it names, while an example of DAT
runs over uroce with lost packets, and a program that syncs.

Exit status: 0 passed, 1 failed, 77 bpftrace or this kernel can't.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

scripts, libsluice, libsync, sync_program, run_dat, dat_program = sys.argv[1:]
LIBRARIES = {"/usr/lib/x86_64-linux-gnu/libsluice.so.1": os.path.realpath(libsluice),
             "/usr/lib/x86_64-linux-gnu/libsluice-sync.so.1": os.path.realpath(libsync)}
ATTACHED = "everything is attached"
CLEANS = 50
LIMIT_SECONDS = int(os.environ.get("BPFTRACE_LIMIT_SECONDS", "60"))  # of each step


def can():
    """Why there is nothing to test, or an empty text."""
    if os.geteuid() != 0:
        return "bpftrace needs root"
    try:
        probe = f'usdt:{os.path.realpath(libsluice)}:sluice:register_begin {{ }} BEGIN {{ printf("works\\n"); exit(); }}'
        ran = subprocess.run(["bpftrace", "-e", probe],
                             capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except FileNotFoundError:
        return "bpftrace isn't installed (scripts/packages install seen)"
    return "" if "works" in ran.stdout else f"no probes here: {ran.stderr.strip()}"


class Script:
    """One that runs. It is ready when it has said READY. That may be ATTACHED, which the last of its probes that the kernel gets
    then says, which is its first."""

    def __init__(self, work, name, ready, *arguments):
        text = pathlib.Path(scripts, name).read_text(encoding="utf-8")
        self.ready = ready
        for installed, built in LIBRARIES.items():
            text = text.replace(installed, built)
        path = pathlib.Path(work, name)
        library = os.path.realpath(libsluice)
        first = f'usdt:{library}:sluice:register_begin /!@attached/ {{ @attached = 1; printf("{ATTACHED}\\n"); }}\n'
        path.write_text((first if ready == ATTACHED else "") + text, encoding="utf-8")
        self.output = pathlib.Path(work, name + ".out")
        with self.output.open("w", encoding="utf-8") as out:
            # pylint: disable-next=consider-using-with  # it runs on
            self.process = subprocess.Popen(["bpftrace", "-B", "line", str(path), *arguments], stdout=out,
                                            stderr=subprocess.STDOUT)

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def is_attached(self):
        if self.process.poll() is not None:
            raise AssertionError(f"bpftrace ended: {self.text()}")
        return self.ready in self.text()

    def work_done(self):
        """What a process that sleeps has used of the CPU. None: it is at work, or has ended."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return fields[11:13] if fields[0] == "S" else None

    def end(self):
        # A signal that doesn't meet bpftrace in its wait is forgotten: another one is needed. But one that comes while it prints what
        # it has counted ends it at once, without the rest: so it has slept for five seconds before, since on a busy machine one may pass
        # before it gets to that, or, where it prints all the time, has had time.
        slept = 0
        for second in range(LIMIT_SECONDS):
            before = self.work_done()
            if second % (LIMIT_SECONDS // 4) == 0:
                self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(1)
                break
            except subprocess.TimeoutExpired:
                slept = slept + 1 if before is not None and before == self.work_done() else 0
                if slept == 5:
                    self.process.send_signal(signal.SIGINT)
                    slept = 0
        else:
            raise AssertionError("bpftrace doesn't end")
        # What it couldn't do is no matter: it has said what there was.
        return "\n".join(line for line in self.text().splitlines() if ATTACHED not in line) + "\n"


def run_programs():
    lossy = dict(os.environ, SLUICE_UROCE_FAULTS="drop-request=5/16")
    subprocess.run([run_dat, dat_program], env=lossy, check=True, timeout=LIMIT_SECONDS, stdout=subprocess.DEVNULL)
    subprocess.run([sync_program, "cleans", str(CLEANS)], check=True, timeout=LIMIT_SECONDS, stdout=subprocess.DEVNULL)


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        running = {name: Script(cls.work.name, name + ".bt", *arguments) for name, *arguments in
                   (("latency", ATTACHED), ("retransmits", ATTACHED), ("slow-registrations", "error 0", "0"),
                    ("syncs", " calls "), ("connections", "-> established"))}
        for one in running.values():
            cls.addClassCleanup(one.process.wait)
            cls.addClassCleanup(one.process.kill)
        limit = time.monotonic() + LIMIT_SECONDS
        while not all([one.is_attached() for one in running.values()]):  # a list: all are asked
            if time.monotonic() > limit:
                raise AssertionError({name: one.text() for name, one in running.items()})
            run_programs()
        run_programs()
        cls.said = {name: one.end() for name, one in running.items()}

    def said_by(self, name):
        """What it has printed. bpftrace 0.17 at times closes a descriptor of its own twice, and loses probes by that."""
        if "Bad file descriptor" in self.said[name]:
            self.skipTest("bpftrace has lost probes: Bad file descriptor")
        return self.said[name]

    def test_latency__requests_of_two_kinds__a_histogram_of_each(self):
        kinds = re.findall(r"^@nanoseconds_by_opcode\[([a-z ]+)\]:", self.said_by("latency"), re.MULTILINE)
        self.assertLessEqual({"send", "write"}, set(kinds), self.said_by("latency"))
        self.assertRegex(self.said_by("latency"), r"\[\w+, \w+\) +[1-9]\d* \|@")

    def test_retransmits__lost_packets__their_peers(self):
        self.assertRegex(self.said_by("retransmits"), r"@again\[127\.\d+\.\d+\.\d+, \d+, \d+\]: [1-9]")

    def test_slow_registrations__no_limit__each_with_its_caller(self):
        self.assertRegex(self.said_by("slow-registrations"),
                         r"\bdat_rdma_write, process \d+: \d+ us: 65536 bytes at 0x[0-9a-f]+, key 0x[0-9a-f]+, error 0\n +sluice::")

    def test_syncs__two_places__calls_and_bytes(self):
        said = self.said_by("syncs")
        places = re.findall(r"^test_trace_prog\w*, process (\d+): \S+ at 0x([0-9a-f]+) calls", said, re.MULTILINE)
        process = int(places[-1][0])
        counted = re.findall(rf"^@calls\[{process}, (\d+)\]", said, re.MULTILINE)
        self.assertEqual(len(counted), 2, said)
        first, second = sorted(int(place) for place in counted)
        named = {int(place, 16) for pid, place in places if int(pid) == process}
        self.assertLessEqual(named, {first, second})
        for text in (f"@calls[{process}, {first}]: {CLEANS}\n", f"@calls[{process}, {second}]: {CLEANS}\n",
                     f"@bytes[{process}, {first}]: {CLEANS * 4096}\n", f"@segments[{process}, {second}]: {CLEANS * 2}\n"):
            self.assertIn(text, said)

    def test_connections__one__each_step_of_both_sides(self):
        for step in ("request sent -> request sent", "request received -> request received", "request received -> reply sent",
                     "request sent -> reply received", "reply received -> established", "reply sent -> established",
                     "established -> disconnect sent"):
            self.assertIn(": " + step + ", after", self.said_by("connections"))


if __name__ == "__main__":
    REASON = can()
    if REASON:
        print("SKIP:", REASON)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
