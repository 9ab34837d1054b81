#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""migrate.py FROM TO URI: the guest of the QEMU with the monitor FROM moves to that with TO, which waits at URI, and both end."""
import json
import socket
import sys
import time


class Monitor:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r", encoding="utf-8")
        json.loads(self.lines.readline())  # its greeting
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:  # events come between
            said = json.loads(self.lines.readline())
            if "error" in said:
                sys.exit(f"{command}: {said['error']['desc']}")
            if "return" in said:
                return said["return"]


def until(monitor, command, wanted, wrong):
    end = time.monotonic() + 40
    while (said := monitor(command).get("status", "none")) != wanted:
        if said in wrong or time.monotonic() > end:
            sys.exit(f"{command}: {said}, not {wanted}")
        time.sleep(0.05)


def main():
    source, target = Monitor(sys.argv[1]), Monitor(sys.argv[2])
    source("migrate", uri=sys.argv[3])
    until(source, "query-migrate", "completed", ("failed", "cancelled"))
    until(target, "query-status", "running", ("internal-error", "guest-panicked"))
    ram = source("query-migrate")["ram"]
    print("the guest has moved:", ram["transferred"], "bytes")
    source("quit")
    target("quit")


main()
