# SPDX-License-Identifier: BSD-3-Clause
"""Recordings for pages, made from those of the kernel's driver."""
import pathlib
import struct
import zlib

ETHERNET, IPV4, UDP, BTH, DETH, MAD = 14, 20, 8, 12, 8, 24
REQ_PRIVATE_DATA = ETHERNET + IPV4 + UDP + BTH + DETH + MAD + 140
SYNDROME = ETHERNET + IPV4 + UDP + BTH
OPCODE, ACKNOWLEDGE = ETHERNET + IPV4 + UDP, 0x11


def packets_of(path):
    content, at, packets = pathlib.Path(path).read_bytes(), 24, []
    while at < len(content):
        length = struct.unpack("<I", content[at + 8:at + 12])[0]
        packets.append(bytearray(content[at + 16:at + 16 + length]))
        at += 16 + length
    return packets


def write(path, packets):
    """A millisecond from one to the next."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 0x40000, 1))
        for i, packet in enumerate(packets):
            out.write(struct.pack("<IIII", 1000 + i // 1000, i % 1000 * 1000, len(packet), len(packet)) + packet)


def seal(packet):
    """Gives PACKET the ICRC that it must have: over all but what routers change."""
    shown = bytearray(packet[ETHERNET:-4])
    for at in (1, 8, 10, 11, 26, 27, IPV4 + UDP + 4):  # type of service, TTL, checksums, what is reserved in the BTH
        shown[at] = 0xff
    packet[-4:] = struct.pack("<I", zlib.crc32(b"\xff" * 8 + shown))


def answer_with(packets, syndromes):
    """The first acknowledgements say SYNDROMES instead."""
    found = [packet for packet in packets if packet[OPCODE] == ACKNOWLEDGE]
    for packet, syndrome in zip(found, syndromes):
        packet[SYNDROME] = syndrome
        seal(packet)
