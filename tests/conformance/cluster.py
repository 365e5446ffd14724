"""A cluster of server processes, of Weft's make or of TensorFlow's.

Both makers are started with the same arguments and announce themselves with the same line on standard
output, so that nothing above this file knows which of them it talks to. A server's standard error goes
to a file; a failed test shows what its servers wrote meanwhile.
"""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
READY = re.compile(r"listening on (grpc://\S+)")
START_DEADLINE_S = 120  # importing stock TensorFlow alone takes seconds on two idle cores


def hold_ports(count):
    """Sockets that are bound to a port of 127.0.0.1 each, which no other process is given while they are open.

    A server may listen on such a port all the same, and do so again after its end: its socket has SO_REUSEADDR, these
    have it from now on, and they do not listen.
    """
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def is_stopped(thread):
    try:
        with open(f"{thread}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "TtZX"
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended meanwhile


class Maker:
    """How to start one server; `name` is "weft" or "tensorflow"."""

    def __init__(self, name, weft_binary):
        self.name = name
        self.weft_binary = weft_binary

    def command(self, spec, job, task, cpus):
        args = ["--cluster", spec, "--job", job, "--task", str(task), "--cpus", str(cpus)]
        if self.name == "weft":
            return [self.weft_binary, "server", *args]
        return [sys.executable, os.path.join(HERE, "stock_server.py"), *args]


class Server:
    """One task of a cluster: a process that can be killed and started again on the same port."""

    def __init__(self, maker, spec, job, task, log_path, cpus):
        self.command = maker.command(spec, job, task, cpus)
        self.name = f"/job:{job}/replica:0/task:{task}"
        self.log_path = log_path
        self.process = None
        self.target = None
        self.log_mark = 0

    def spawn(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log)

    def wait_ready(self):
        deadline = time.monotonic() + START_DEADLINE_S
        seen = b""
        out = self.process.stdout.fileno()
        while True:
            ready, _, _ = select.select([out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RuntimeError(f"{self.name} did not say within {START_DEADLINE_S} s that it listens")
            piece = os.read(out, 4096)
            if not piece:
                raise RuntimeError(f"{self.name} ended with {self.process.wait()}: {self.log_tail()}")
            seen += piece
            match = READY.search(seen.decode(errors="replace"))
            if match and b"\n" in seen:
                self.target = match.group(1)
                return

    def start(self):
        self.spawn()
        self.wait_ready()

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, sig=signal.SIGTERM):
        """Ends the process; returns its exit status and how many seconds that took."""
        began = time.monotonic()
        if self.is_alive():
            self.process.send_signal(sig)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        return self.process.returncode, time.monotonic() - began

    def log_tail(self, limit=6000):
        """What the server wrote since the last mark_log()."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(self.log_mark)
                return log.read().decode(errors="replace")[-limit:]
        except FileNotFoundError:
            return ""

    def mark_log(self):
        self.log_mark = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0


class Cluster:
    """Servers on loopback, by default one parameter server and two workers of one CPU device each."""

    def __init__(self, maker, log_dir, ps=1, workers=2, cpus=1):
        self.maker = maker
        self.held = hold_ports(ps + workers)
        addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in self.held]
        self.jobs = {"ps": addresses[:ps], "worker": addresses[ps:]}
        self.jobs = {job: tasks for job, tasks in self.jobs.items() if tasks}
        self.spec = ";".join(f"{job}={','.join(tasks)}" for job, tasks in self.jobs.items())
        self.servers = {}
        for job, tasks in self.jobs.items():
            for task in range(len(tasks)):
                log = os.path.join(log_dir, f"{job}-{task}.stderr")
                self.servers[job, task] = Server(maker, self.spec, job, task, log, cpus)

    def start(self):
        try:
            for server in self.servers.values():
                server.spawn()
            for server in self.servers.values():
                server.wait_ready()
        except Exception:
            self.stop()
            raise
        return self

    def stop(self):
        for server in self.servers.values():
            if server.process is not None:
                # A stock server does not stop on SIGTERM in good time; Weft's own promise has a test.
                server.stop(signal.SIGTERM if self.maker.name == "weft" else signal.SIGKILL)
        for s in self.held:
            s.close()

    def target(self, job="worker", task=0):
        return "grpc://" + self.jobs[job][task]

    @property
    def master(self):
        return self.target("worker", 0)

    def kill(self, job, task):
        self.servers[job, task].stop(signal.SIGKILL)

    def restart(self, job, task):
        self.servers[job, task].start()

    @contextlib.contextmanager
    def frozen(self, job, task):
        """The process stands still meanwhile, with its connections open."""
        process = self.servers[job, task].process
        process.send_signal(signal.SIGSTOP)
        tasks = f"/proc/{process.pid}/task"
        while any(not is_stopped(f"{tasks}/{thread}") for thread in os.listdir(tasks)):
            os.sched_yield()  # a thread runs until it notices the signal
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def wait_until_known(self):
        """Until Weft's master has heard of all tasks, as it logs with WEFT_LOG_LEVEL=debug: one that falls silent before is waited for."""
        names = [s.name for s in self.servers.values() if s is not self.servers["worker", 0]]
        deadline = time.monotonic() + START_DEADLINE_S
        while any(f"{name} is there" not in self.servers["worker", 0].log_tail(1 << 20) for name in names):
            if time.monotonic() > deadline:
                raise RuntimeError("the master has not heard of all tasks")
            time.sleep(0.01)  # looks at a file

    def dead(self):
        return [s for s in self.servers.values() if not s.is_alive()]

    def mark_logs(self):
        for server in self.servers.values():
            server.mark_log()

    def logs(self):
        return [(s.name, s.log_tail()) for s in self.servers.values()]
