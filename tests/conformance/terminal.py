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


class Screen(pyte.Screen):
    """With the sequences of xterm that ncurses uses and pyte lacks (ECMA-48: REP, SU and SD)."""

    written = " "

    def draw(self, data):
        super().draw(data)
        self.written = data[-1:] or self.written

    def repeat(self, times=1):
        self.draw(self.written * (times or 1))

    def scroll_up(self, lines=1):
        self._scroll(lines, self.margins.bottom if self.margins else self.lines - 1, self.index)

    def scroll_down(self, lines=1):
        self._scroll(lines, self.margins.top if self.margins else 0, self.reverse_index)

    def _scroll(self, lines, from_row, step):
        row, self.cursor.y = self.cursor.y, from_row
        for _ in range(lines or 1):
            step()
        self.cursor.y = row


class Stream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "b": "repeat", "S": "scroll_up", "T": "scroll_down"}
    events = pyte.ByteStream.events | {"repeat", "scroll_up", "scroll_down"}


class Terminal:
    """A process whose terminal this is. What it writes is read when one waits for something."""

    def __init__(self, command, columns=80, rows=24, cwd=None, **environment):
        self.screen = Screen(columns, rows)
        self.stream = Stream(self.screen)
        self.raw, self.is_open, self.code = b"", True, None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(OSError):
                if cwd:
                    os.chdir(cwd)
                self.set_size(0, columns, rows)
                inherited = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}  # of another terminal
                os.execve(command[0], command, {**inherited, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment})
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
