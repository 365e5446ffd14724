"""A command on a terminal of its own: what its screen shows, as pyte emulates it, and keys, sizes and signals for it."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pyte

DEADLINE_S = 60


class Terminal:
    """A process whose terminal this is. What it writes is read when one waits for something."""

    def __init__(self, command, columns=80, rows=24, cwd=None, **environment):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self.is_open, self.code = b"", True, None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(OSError):
                if cwd:
                    os.chdir(cwd)
                self.set_size(0, columns, rows)
                os.execve(command[0], command, {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment})
            os._exit(127)

    @staticmethod
    def set_size(fd, columns, rows):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows=24):
        """As a window does: the kernel sends SIGWINCH to what runs in it."""
        self.screen.resize(rows, columns)
        self.set_size(self.fd, columns, rows)

    def read(self, timeout):
        """Something that the process wrote; False: nothing came in time, or it has ended."""
        if not self.is_open or not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except OSError:  # EIO: no process has the terminal open
            piece = b""
        self.is_open = bool(piece)
        self.raw += piece
        self.stream.feed(piece)
        return self.is_open

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def until(self, wanted, deadline_s=DEADLINE_S):
        """Reads until wanted(text of the screen) is true, or a text is on it; returns the screen then."""
        is_there = wanted if callable(wanted) else lambda text: wanted in text
        deadline = time.monotonic() + deadline_s
        while not is_there(self.text()):
            left = deadline - time.monotonic()
            assert left > 0, f"not within {deadline_s} s: {wanted}\n{self.text()}"
            if not self.read(left):
                assert self.is_open, f"it ended before: {wanted}\n{self.text()}"
        return self.text()

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def signal(self, number):
        os.kill(self.pid, number)

    def end(self, deadline_s=DEADLINE_S):
        """Reads to the end; the exit code, or minus the signal that ended it."""
        deadline = time.monotonic() + deadline_s
        while self.read(max(0.0, deadline - time.monotonic())):
            pass
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            assert pid or time.monotonic() < deadline, f"it does not end\n{self.text()}"
        return self.code

    def close(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
