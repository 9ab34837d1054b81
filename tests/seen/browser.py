# SPDX-License-Identifier: BSD-3-Clause
"""A browser without a window: what a page has in it once its script has run, and how it looks."""
import pathlib
import struct
import subprocess
import tempfile
import zlib


class Browser:
    def __init__(self, program):
        self.program = program

    def run(self, page, *options):
        # A profile of its own: browsers that share one wait for each other.
        with tempfile.TemporaryDirectory() as profile:
            return subprocess.run(
                [self.program, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                 "--hide-scrollbars", "--no-first-run", *options, pathlib.Path(page).as_uri()],
                check=True, capture_output=True, timeout=120).stdout.decode()

    def document(self, page, width=1200):
        return self.run(page, f"--window-size={width},900", "--dump-dom")

    def picture(self, page, path, width=1200, dark=False):
        options = ["--force-dark-mode"] if dark else []
        self.run(page, f"--window-size={width},900", f"--screenshot={path}", *options)
        return Picture(path)


def paeth(left, above, corner):
    distances = [(abs(above - corner), left), (abs(left - corner), above), (abs(left + above - 2 * corner), corner)]
    return min(distances, key=lambda pair: pair[0])[1]


class Picture:
    """A PNG of eight bits for each colour, as browsers write it."""

    def __init__(self, path):
        content = pathlib.Path(path).read_bytes()
        at, data = 8, b""
        while at < len(content):
            length, kind = struct.unpack(">I4s", content[at:at + 8])
            body = content[at + 8:at + 8 + length]
            if kind == b"IHDR":
                self.width, self.height, depth, colours = struct.unpack(">IIBB", body[:10])
                assert depth == 8 and colours in (2, 6), "not a picture as browsers write it"
                self.channels = 3 if colours == 2 else 4
            elif kind == b"IDAT":
                data += body
            at += 12 + length
        self.rows = self.unfiltered(zlib.decompress(data))

    def unfiltered(self, data):
        step, stride, rows = self.channels, self.width * self.channels, []
        above = bytearray(stride)
        for y in range(self.height):
            start = y * (stride + 1)
            kind, row = data[start], bytearray(data[start + 1:start + 1 + stride])
            for i in range(stride) if kind else ():
                left = row[i - step] if i >= step else 0
                corner = above[i - step] if i >= step else 0
                guess = (0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner))[kind]
                row[i] = (row[i] + guess) & 255
            rows.append(bytes(row))
            above = row
        return rows

    def colours(self):
        """How many pixels there are of each colour."""
        counts = {}
        for row in self.rows:
            for i in range(0, len(row), self.channels):
                colour = row[i:i + 3].hex()
                counts[colour] = counts.get(colour, 0) + 1
        return counts
