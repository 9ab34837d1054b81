#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The ring of 30-sync-ring in Python: the same commands, the same memory.

    ring.py init FILE            once, before the others
    ring.py produce FILE COUNT
    ring.py consume FILE COUNT
"""

import mmap
import os
import stat
import struct
import sys

import sluice_sync

GRANULE = 2048
SLOTS = 64
PRODUCED = 0  # offsets of the flags: each has one writer, and a granule of its own
CONSUMED = GRANULE
FIRST_SLOT = 2 * GRANULE
SIZE = FIRST_SLOT + SLOTS * GRANULE


def map_ring(path, create):
    file = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        if create and stat.S_ISREG(os.fstat(file).st_mode):
            os.truncate(file, SIZE)
        return mmap.mmap(file, SIZE)
    finally:
        os.close(file)


def slot_of(number):
    return FIRST_SLOT + number % SLOTS * GRANULE


def record(number):
    return struct.pack("=Q", number) + b"record %d" % number


def init(ring):
    ring[:] = bytes(SIZE)
    sluice_sync.clean_invalidate(ring)


def produce(ring, count):
    first = sluice_sync.observe(ring, PRODUCED)
    for number in range(first, first + count):
        while number - sluice_sync.observe(ring, CONSUMED) >= SLOTS:
            os.sched_yield()
        sluice_sync.copy(ring, record(number).ljust(GRANULE, b"\0"), slot_of(number))
        sluice_sync.publish(ring, number + 1, PRODUCED)


def consume(ring, count):
    first = sluice_sync.observe(ring, CONSUMED)
    for number in range(first, first + count):
        while sluice_sync.observe(ring, PRODUCED) <= number:
            os.sched_yield()
        at = slot_of(number)
        sluice_sync.invalidate(ring, at, GRANULE)
        found = ring[at : at + GRANULE].rstrip(b"\0").ljust(8, b"\0")
        if found != record(number):
            sys.exit("instead of %r there is %r" % (record(number), found[:40]))
        sluice_sync.publish(ring, number + 1, CONSUMED)


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "init":
        init(map_ring(arguments[1], create=True))
    elif len(arguments) == 3 and arguments[0] in ("produce", "consume"):
        work = produce if arguments[0] == "produce" else consume
        work(map_ring(arguments[1], create=False), int(arguments[2]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
