#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""objects.py CONFIG OSD: of the Ceph cluster of CONFIG. OSD: makes the place of the object store with this UUID. Without it: makes a pool, writes
objects into it, and reads what it wrote."""
import json
import sys

import rados

SIZE = 4 << 20
OBJECTS = 16


def content(number):
    return bytes((number * 31 + i) % 251 for i in range(4096)) * (SIZE // 4096)


def command(cluster, prefix, **arguments):
    status, _, said = cluster.mon_command(json.dumps({"prefix": prefix, **arguments}), b"", timeout=30)
    if status != 0:
        sys.exit(f"{prefix}: {said}")


def main():
    cluster = rados.Rados(conffile=sys.argv[1], name="client.admin")
    cluster.connect(timeout=30)
    if len(sys.argv) > 2:
        command(cluster, "osd new", uuid=sys.argv[2])
        return
    command(cluster, "osd pool create", pool="objects", pg_num=8)
    with cluster.open_ioctx("objects") as pool:
        for number in range(OBJECTS):
            pool.write_full(f"object-{number}", content(number))
        for number in range(OBJECTS):
            if pool.read(f"object-{number}", SIZE) != content(number):
                sys.exit(f"object {number} isn't what was written")
    cluster.shutdown()
    print(OBJECTS, "objects written and read")


main()
