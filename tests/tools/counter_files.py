# SPDX-License-Identifier: BSD-3-Clause
"""Files in which processes count (ADR 76), as a process with a uroce device writes them."""
import fcntl
import ipaddress
import os
import pathlib
import struct

ROOMS_AT, ROOM_BYTES, MOST = 8192, 2048, 192
ROWS_HEAD_AT = ROOMS_AT + 256 * ROOM_BYTES
ROWS_AT, ROW_BYTES = ROWS_HEAD_AT + 4096, 256
ROW_NAMES = ["messages_sent", "messages_received", "bytes_sent", "bytes_received", "retransmissions", "dropped",
             "completions.failed"]
TYPES = ["RC", "UC", "UD", "XRC_SEND", "XRC_RECV"]
STATES = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]


def gid(ipv4):
    """The 16 bytes of an address; none for no address."""
    return ipaddress.IPv6Address("::ffff:" + ipv4).packed if ipv4 else bytes(16)


class CounterFile:
    """One process: it runs as long as its file is open here."""

    def __init__(self, directory, names, command=b"program", pid=1, opened_ns=1_000_000_000):
        self.path = pathlib.Path(directory) / f"sluice-counters-{os.urandom(6).hex()}"
        self.names = names
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        head = struct.pack("<8sIiQ64s", b"SLUCNT01", len(names), pid, opened_ns, command)
        os.pwrite(self.file, head + b"".join(struct.pack("40s", name.encode()) for name in names), 0)

    def put(self, values, room=0, device=b"uroce0", address=b"127.0.0.1"):
        """Values by name; the others are 0."""
        numbers = [values.get(name, 0) for name in self.names]
        room_bytes = struct.pack(f"<64s64s{len(numbers)}Q", device, address, *numbers)
        os.pwrite(self.file, room_bytes.ljust(ROOM_BYTES, b"\0"), ROOMS_AT + room * ROOM_BYTES)
        return self

    def put_queue_pairs(self, queue_pairs):
        """Of room 0, with type, state, local, remote, peer and counters by name."""
        head = struct.pack("<8sIIQ", b"SLUQPS01", len(ROW_NAMES), 0, len(queue_pairs))
        os.pwrite(self.file, head + b"".join(struct.pack("40s", name.encode()) for name in ROW_NAMES), ROWS_HEAD_AT)
        for i, one in enumerate(queue_pairs):
            row = struct.pack("<5Q16s16s", 0, one["qpn"], TYPES.index(one.get("type", "RC")),
                              STATES.index(one.get("state", "RTS")), one.get("peer", 0),
                              gid(one.get("local")), gid(one.get("remote")))
            row += struct.pack(f"<{len(ROW_NAMES)}Q", *(one.get(name, 0) for name in ROW_NAMES))
            os.pwrite(self.file, row.ljust(ROW_BYTES, b"\0"), ROWS_AT + i * ROW_BYTES)
        os.ftruncate(self.file, max(os.fstat(self.file).st_size, ROWS_AT))
        return self

    def end(self):
        """As the kernel does at the end of a process."""
        os.close(self.file)
        return self
