#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_stat.py SLUICE: what `sluice stat` prints, about files of counters that were written here."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import openmetrics
from counter_files import CounterFile
from terminal import Terminal

SLUICE = sys.argv[1]
NAMES = ["path.udp.bytes_sent", "path.udp.packets_sent", "path.memory.bytes_sent", "path.direct.requests",
         "drop.no_room", "completion.success", "transport.retransmissions", "", "cm.entered.time_wait",
         "sync.before_device_reads", "sync.after_device_wrote", "sync.lines_cleaned", "sync.lines_invalidated"]
ALL = {name: 10 + i for i, name in enumerate(NAMES)}


class Stat(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def file(self, *args, **kwargs):
        made = CounterFile(self.path, NAMES, *args, **kwargs)
        return made.put(ALL)

    def run_stat(self, *args):
        return subprocess.run([SLUICE, "stat", *args], capture_output=True, text=True, check=False,
                              env={**os.environ, "SLUICE_UROCE_COUNTERS": str(self.path)})

    def metrics(self, *args):
        ran = self.run_stat("--metrics", *args)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return openmetrics.parse(ran.stdout)

    def only(self, families, name):
        (labels, value), = families["sluice_uroce_" + name].samples.items()
        return dict(labels), value

    def test_table__20_columns__the_text_is_cut_and_no_number(self):
        self.file(pid=4194303, command=b"a_long_name_of_a_program").end()
        stat = Terminal([SLUICE, "stat", "--color", "never"], columns=20, SLUICE_UROCE_COUNTERS=str(self.path))
        self.addCleanup(stat.close)
        self.assertEqual(stat.change(), 0)
        self.assertRegex("\n".join(stat.screen.text()), r"(^|\n)4194303  a_long_name *$")
        self.assertLessEqual(max(map(len, stat.screen.text())), 20)

    def test_metrics__process_that_runs__families_labels_and_units(self):
        self.file(command=b"ib_write_bw", opened_ns=1_700_000_000_000_000_001)
        families = self.metrics()
        labels, value = self.only(families, "drops")
        self.assertEqual(labels, {"device": "uroce0", "address": "127.0.0.1", "pid": str(os.getpid()),
                                  "opened_ns": "1700000000000000001", "command": "ib_write_bw", "reason": "no_room"})
        self.assertEqual(value, ALL["drop.no_room"])
        self.assertEqual(self.only(families, "completions")[0]["status"], "success")
        self.assertEqual(self.only(families, "transport_retransmissions")[1], ALL["transport.retransmissions"])
        self.assertEqual(self.only(families, "path_requests")[0]["path"], "direct")
        self.assertEqual(self.only(families, "process_running")[1], 1)
        self.assertEqual(families["sluice_uroce_path_sent_bytes"].about["UNIT"], "bytes")
        sent = {dict(labels)["path"]: value for labels, value in families["sluice_uroce_path_sent_bytes"].samples.items()}
        self.assertEqual(sent, {"udp": 10, "memory": 12})

    def test_metrics__everything_that_json_has__is_there(self):
        self.file()
        numbers = sorted(v for f in self.metrics().values() if f.about["TYPE"] == "counter" for v in f.samples.values())
        self.assertEqual(numbers, sorted(ALL[name] for name in NAMES if name))

    def test_metrics__process_that_has_ended__is_there_and_not_running(self):
        self.file(pid=4711).end()
        labels, value = self.only(self.metrics(), "process_running")
        self.assertEqual((labels["pid"], value), ("4711", 0))

    def test_metrics__two_of_one_number__are_told_apart(self):
        self.file(pid=1, opened_ns=1).end()
        self.file(pid=1, opened_ns=2).end()
        self.assertEqual(len(self.metrics()["sluice_uroce_drops"].samples), 2)

    def test_metrics__quotation_marks_and_lines_in_a_name__stay_in_their_label(self):
        for name in (b'a"} 1\n# EOF\n', b"back\\slash\\n", b"<b>\x1b[2J", b"\xff\xfe"):
            self.file(command=name).end()
        commands = {dict(labels)["command"] for labels in self.metrics()["sluice_uroce_process_running"].samples}
        self.assertEqual(commands, {'a"} 1?# EOF?', "back\\slash\\n", "<b>?[2J", "??"})

    def test_metrics__two_names_that_become_one__one_sample(self):
        CounterFile(self.path, ["a.b_c", "a_b.c", "path.udp", "path.", "drop."]).put({"a.b_c": 1, "a_b.c": 2})
        self.assertEqual(self.only(self.metrics(), "a_b_c")[1], 1)

    def test_metrics__one_process_asked_for__that_alone(self):
        self.file(pid=1).end()
        self.file(pid=2).end()
        self.assertEqual(self.only(self.metrics("--pid", "2"), "drops")[0]["pid"], "2")

    def test_metrics__nobody__an_empty_document_and_a_line(self):
        ran = self.run_stat("--metrics")
        self.assertEqual((ran.returncode, ran.stdout), (3, "# EOF\n"))
        self.assertEqual(ran.stderr.count("\n"), 1)

    def test_metrics__with_json__a_line_that_tells_what_to_do(self):
        ran = self.run_stat("--metrics", "--json")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("name one of them", ran.stderr)

    # Of ended processes only the newest are kept, and the doctor opens every device in a process of its own.
    def test_plain__after_the_doctor__nothing_of_its_own(self):
        env = {**os.environ, "SLUICE_UROCE_COUNTERS": str(self.path)}
        said = subprocess.run([SLUICE, "doctor"], capture_output=True, text=True, check=False, env=env).stdout
        self.assertRegex(said, r"uroce0 \S+ opens")
        self.assertEqual((self.run_stat().returncode, list(self.path.iterdir())), (3, []))

    def test_plain__syncs_and_lines__both_directions_together(self):
        self.file()
        head, line = (re.split(r"\s{2,}", text.strip()) for text in self.run_stat("--wide").stdout.splitlines())
        shown = dict(zip(head, line))
        self.assertEqual(shown["SYNCS"], str(ALL["sync.before_device_reads"] + ALL["sync.after_device_wrote"]))
        self.assertEqual(shown["LINES"], str(ALL["sync.lines_cleaned"] + ALL["sync.lines_invalidated"]))

    def test_metrics__states_of_connections__one_family(self):
        self.file()
        labels, value = self.only(self.metrics(), "cm_entered")
        self.assertEqual((labels["state"], value), ("time_wait", ALL["cm.entered.time_wait"]))

    QUEUE_PAIRS = [{"qpn": 0x1234, "peer": 99, "local": "127.0.0.1", "remote": "127.0.0.2", "messages_sent": 11,
                    "bytes_received": 12, "retransmissions": 13},
                   {"qpn": 7, "type": "UD", "state": "ERR", "dropped": 14, "completions.failed": 15}]

    def lines(self, *args):
        ran = self.run_stat("--queue-pairs", *args)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return [re.split(r"\s{2,}", line.strip()) for line in ran.stdout.splitlines()]

    def test_queue_pairs__two_of_a_process__a_line_for_each_by_number(self):
        self.file(command=b"server").put_queue_pairs(self.QUEUE_PAIRS)
        head, first, second = self.lines()
        self.assertEqual(head, ["DEVICE", "PID", "QP", "TYPE", "STATE", "PEER", "SENT", "RECEIVED", "BYTES SENT",
                                "BYTES RECEIVED", "SENT AGAIN", "DROPPED", "FAILED", "COMMAND"])
        self.assertEqual(first, ["uroce0", str(os.getpid()), "7", "UD", "ERR", "0", "0", "0", "0", "0", "14", "15",
                                 "server"])
        self.assertEqual(second, ["uroce0", str(os.getpid()), "4660", "RC", "RTS", "127.0.0.2 99", "11", "0", "0",
                                  "12", "13", "0", "0", "server"])

    def test_queue_pairs__of_a_process_that_has_ended__say_so(self):
        self.file(pid=4711).put_queue_pairs(self.QUEUE_PAIRS).end()
        self.assertEqual([line[4] for line in self.lines()[1:]], ["ERR, ended", "RTS, ended"])

    def test_queue_pairs__in_json__with_names_of_members(self):
        self.file().put_queue_pairs(self.QUEUE_PAIRS)
        uses = json.loads(self.run_stat("--json").stdout)["uses"]
        second = uses[0]["queue-pairs"][1]
        self.assertEqual([second[name] for name in ("qpn", "type", "state", "local", "remote", "peer-qpn")],
                         [0x1234, "RC", "RTS", "127.0.0.1", "127.0.0.2", 99])
        self.assertEqual(second["counters"]["bytes_received"], 12)
        self.assertEqual(second["counters"]["completions"]["failed"], 0)

    def test_queue_pairs__one_process_asked_for__that_alone(self):
        self.file(pid=1).put_queue_pairs(self.QUEUE_PAIRS).end()
        self.file(pid=2).put_queue_pairs(self.QUEUE_PAIRS[:1]).end()
        self.assertEqual([line[1] for line in self.lines("--pid", "2")[1:]], ["2"])

    def test_queue_pairs__none__a_line_that_tells_where_to_look(self):
        self.file()
        ran = self.run_stat("--queue-pairs")
        self.assertEqual((ran.returncode, ran.stdout), (3, ""))
        self.assertIn("`sluice stat` shows", ran.stderr)

    def test_queue_pairs__as_metrics__a_line_that_tells_what_to_do(self):
        self.file().put_queue_pairs(self.QUEUE_PAIRS)
        ran = self.run_stat("--queue-pairs", "--metrics")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("use --json", ran.stderr)


class Parser(unittest.TestCase):
    def test_parse__what_the_standard_forbids__refused(self):
        for text in ('a_total{x="1"} 1\n', '# TYPE a counter\na{x="1"} 1\n', '# TYPE a gauge\na{x="1} 1\n',
                     '# TYPE a gauge\n# UNIT a bytes\n', '# TYPE a gauge\na{x="1"} 1\na{x="1"} 2\n',
                     '# TYPE a gauge\n# TYPE b gauge\n# HELP a x\n', '# TYPE a gauge\na{x="1"} 1\n# HELP a b\n'):
            with self.assertRaises(openmetrics.Refused):
                openmetrics.parse(text + "# EOF\n")
        with self.assertRaises(openmetrics.Refused):
            openmetrics.parse('# TYPE a gauge\na{x="1"} 1\n')


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
