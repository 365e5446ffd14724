"""Makers that take turns: a process each, and what is said of their times."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile


class Process:
    """One maker: a program that serves (serve.py). What it writes to standard error is kept for when it ends early."""

    def __init__(self, program, *arguments, python=sys.executable):
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([python, program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)

    def tell(self, command):
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.ended()
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.ended()

    def ended(self):
        self.said.seek(0)
        last = (self.said.read().strip().splitlines() or [""])[-1]
        return {"error": f"the process ended with {self.process.wait()}: {last}"}

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.said.close()


class Load:
    """Processes that compute beside the makers, `count` of them, while they are not paused."""

    def __init__(self, count):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def pause(self, is_paused):
        for p in self.processes:
            p.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    def close(self):
        for p in self.processes:
            p.kill()
            p.wait()


def geometric(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))
