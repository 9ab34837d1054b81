# SPDX-License-Identifier: BSD-3-Clause
"""A terminal with a program in it: what its screen shows, and how the program leaves it."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

# Only a test that fails waits so long.
PATIENCE_SECONDS = 30
SEQUENCE = re.compile(rb"\x1b\[(\??)([0-9]*)([A-Za-z])")
# The shell writes it behind what the program has written: the kernel hands that over when it gets to it.
CHANGED = b"\x05"


class Screen:
    """As much of ECMA-48 as a program that draws pictures needs; another sequence fails the test."""

    def __init__(self):
        self.lines, self.row, self.column = [b""], 0, 0
        self.modes, self.is_plain, self.changes = set(), True, 0

    def feed(self, data):
        at = 0
        while at < len(data):
            found = SEQUENCE.match(data, at)
            if found:
                self.obey(*found.groups())
                at = found.end()
            elif data[at:at + 1] == b"\x1b":
                return data[at:]
            elif data[at:at + 1] == CHANGED:
                self.changes += 1
                at += 1
            else:
                self.put(data[at:at + 1])
                at += 1
        return b""

    def obey(self, private, number, letter):
        self.is_plain = False
        if private and letter in b"hl":
            (self.modes.add if letter == b"h" else self.modes.discard)(int(number))
        elif letter == b"H":
            self.row, self.column = 0, 0
        elif letter == b"K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif letter == b"J":
            del self.lines[self.row + 1:]
            self.lines[self.row] = self.lines[self.row][:self.column]
        else:
            raise AssertionError(f"the terminal doesn't know {letter}")

    def put(self, byte):
        if byte == b"\r":
            self.column = 0
        elif byte == b"\n":
            self.row += 1
            self.lines += [b""] * (self.row + 1 - len(self.lines))
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[:self.column] + byte + line[self.column + 1:]
            self.column += 1

    def text(self):
        return [line.decode() for line in self.lines]


class Terminal:
    """COMMAND in a terminal, in the foreground as a shell starts it."""

    def __init__(self, command, columns=100, lines=24, **environment):
        self.screen, self.rest, self.changes = Screen(), b"", 0
        said, tell = os.pipe()
        begin, begins = os.pipe()
        shell, self.terminal = pty.fork()
        if shell == 0:
            try:
                self.be_shell(command, {**os.environ, **environment}, (tell, begin), (lines, columns))
            finally:
                os._exit(1)  # never back into the test
        os.close(tell)
        self.shell, self.said = shell, said
        self.pid = int(self.hear())
        self.before = termios.tcgetattr(self.terminal)
        os.write(begins, b"x")
        os.close(begins)
        os.close(begin)

    @staticmethod
    def be_shell(command, environment, pipes, size):
        """A job of its own, that can be stopped; each change of it is told in a line. The test lets it begin."""
        tell, begin = pipes
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        go, goes = os.pipe()
        job = os.fork()
        if job == 0:
            os.read(go, 1)
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execvpe(command[0], command, environment)
        os.setpgid(job, job)
        os.tcsetpgrp(0, job)
        os.write(tell, f"{job}\n".encode())
        os.read(begin, 1)
        os.write(goes, b"x")
        while True:
            _, status = os.waitpid(job, os.WUNTRACED)
            os.write(1, CHANGED)
            os.write(tell, f"{status}\n".encode())
            if not os.WIFSTOPPED(status):
                os.tcsetpgrp(0, os.getpgrp())
                os.read(0, 1)  # the terminal stays until it has been looked at
                return

    def hear(self):
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.said], [], [], PATIENCE_SECONDS)
            byte = os.read(self.said, 1) if ready else b""
            if not byte:
                raise AssertionError("the program's shell tells nothing")
            line += byte
        return line

    def resize(self, columns, lines=24):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def press(self, keys):
        os.write(self.terminal, keys)

    def until(self, holds):
        """Reads until HOLDS of the lines that the screen shows; gives them."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds(self.screen.text()):
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"never came; the screen shows {self.screen.text()}")
            self.rest = self.screen.feed(self.rest + os.read(self.terminal, 65536))
        return self.screen.text()

    def shows(self, text):
        return self.until(lambda lines: any(text in line for line in lines))

    def change(self):
        """The status of waitpid() when the program has stopped or ended, and everything that it wrote until then."""
        status = int(self.hear())
        self.changes += 1
        self.until(lambda _: self.screen.changes == self.changes)
        return status

    def is_as_before(self):
        now = termios.tcgetattr(self.terminal)
        return now == self.before and self.screen.modes <= {7, 25}

    def close(self):
        for pid in (self.pid, self.shell):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(self.shell, 0)
        os.close(self.terminal)
        os.close(self.said)
