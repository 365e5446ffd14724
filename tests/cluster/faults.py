#!/usr/bin/env python3
"""Faults of a cluster in seeded trials: no hang, no cluster that needs a restart.

    tests/cluster/faults.py --trials 40 --seed 7           # on this host, tasks with host links
    tests/cluster/faults.py --trials 40 --hosts            # each task in a network and PID namespace of its own (root)
    tests/cluster/faults.py --only 'ssp.*client.*kill'     # the trials whose names match

A trial starts a ps and three workers, trains with `weft submit` under a strategy, and at a moment (before the first step, or after some)
kills, terminates, freezes and thaws, restarts, or cuts off one of them or the client. The job must go on, or end within 20 s
with a message; then all tasks are there again, and the next job must train within 20 s. Wants nothing but Python.
"""

import argparse
import contextlib
import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
GRAPH = os.path.join(REPO, "tests", "strategies", "testdata", "mlp_sgd.pb")
TASKS = [("ps", 0), ("worker", 0), ("worker", 1), ("worker", 2)]
DEADLINE_S = 20
STRATEGIES = {
    "plain": None,
    "workers": "multi_worker_mirrored:workers=3",
    "sync": "parameter_server:mode=sync,workers=3",
    "backup": "parameter_server:mode=sync,workers=3,backup=1",
    "async": "parameter_server:mode=async,workers=3",
    "ssp": "parameter_server:mode=ssp,staleness=2,workers=3",
    "mirrored": "mirrored:2",
    "central": "central_storage:2",
}
ON_WORKER0 = ["plain", "mirrored", "central"]  # use nothing of the others
ROLES = ["ps0", "worker0", "worker1", "worker2", "client"]
FAULTS = ["kill", "term", "restart", "freeze1", "freeze6", "freeze60", "cut6"]
MOMENTS = ["start", "first", "later"]


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Hosts:
    """Network namespaces behind one bridge: one for each task."""

    def __init__(self, number=len(TASKS)):
        self.id = f"{os.getpid() % 10000}"
        self.bridge = f"wb{self.id}"
        self.net = f"10.213.{os.getpid() % 250}"  # another run beside this one has another
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self.net}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        self.names = []
        for i in range(number):
            name, inside, outside = f"wn{self.id}-{i}", f"wi{self.id}-{i}", f"wo{self.id}-{i}"
            run("ip", "netns", "add", name)
            self.names.append(name)
            run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside)
            run("ip", "link", "set", inside, "netns", name)
            run("ip", "link", "set", outside, "master", self.bridge, "up")
            run("ip", "netns", "exec", name, "ip", "addr", "add", f"{self.net}.{i + 10}/24", "dev", inside)
            run("ip", "netns", "exec", name, "ip", "link", "set", inside, "up")
            run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")

    def address(self, i):
        return f"{self.net}.{i + 10}"

    def command(self, i):
        return ["ip", "netns", "exec", self.names[i], "unshare", "-p", "-f", "--mount-proc", "--kill-child"]

    def cut(self, i, is_up):
        run("ip", "link", "set", f"wo{self.id}-{i}", "up" if is_up else "down")

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False)


class Here:
    """All tasks on this host."""

    def address(self, i):
        return "127.0.0.1"

    def command(self, i):
        return []

    def close(self):
        pass


class Task:
    def __init__(self, cluster, i):
        self.cluster, self.i = cluster, i
        self.job, self.index = TASKS[i]
        self.name = f"/job:{self.job}/replica:0/task:{self.index}"
        self.process = None

    def start(self):
        c = self.cluster
        command = [*c.net.command(self.i), c.weft, "server", "--cluster", c.spec, "--job", self.job, "--task", str(self.index)]
        command += ["--host", c.net.address(self.i), "--cpus", str(c.cpus)]
        self.log = open(os.path.join(c.folder, f"{self.job}{self.index}.log"), "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=dict(os.environ, WEFT_LOG_LEVEL="debug"))

    def wait_ready(self):
        line = self.process.stdout.readline()
        if b"listening" not in line:
            raise RuntimeError(f"{self.name} does not start: see {self.log.name}")

    def pid(self):
        if not self.cluster.net.command(self.i):
            return self.process.pid
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            children = f.read().split()
        return int(children[0]) if children else self.process.pid

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(), number)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def end(self):
        if self.is_running():
            self.signal(signal.SIGKILL)
            self.process.wait()
        if self.process is not None:
            self.process.stdout.close()
            self.log.close()


class Cluster:
    def __init__(self, weft, net, folder, cpus):
        self.weft, self.net, self.folder, self.cpus = weft, net, folder, cpus
        self.record_log = os.path.join(folder, "worker0.log")
        self.held = [socket.socket() for _ in TASKS]  # so that no other process is given their ports
        for s in self.held:
            s.bind(("", 0))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ports = [s.getsockname()[1] for s in self.held]
        jobs = {}
        for i, (job, _) in enumerate(TASKS):
            jobs.setdefault(job, []).append(f"{net.address(i)}:{ports[i]}")
        self.spec = ";".join(f"{job}={','.join(a)}" for job, a in jobs.items())
        self.master = f"grpc://{jobs['worker'][0]}"
        self.tasks = [Task(self, i) for i, _ in enumerate(TASKS)]

    def start(self):
        self.log_begins = os.path.getsize(self.record_log) if os.path.exists(self.record_log) else 0
        for t in self.tasks:
            t.start()
        for t in self.tasks:
            t.wait_ready()

    def wait_until_known(self):
        """Until worker 0, which hosts the coordination service, has heard of all others, as it logs."""
        end = time.monotonic() + DEADLINE_S
        while True:
            with open(self.record_log, "rb") as log:
                log.seek(self.log_begins)
                text = log.read().decode(errors="replace")
            if all(f"{t.name} is there" in text for t in self.tasks if t.name != "/job:worker/replica:0/task:0"):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"worker 0 has not heard of all tasks: see {self.record_log}")
            time.sleep(0.005)  # looks at a file

    def end(self):
        for t in self.tasks:
            t.end()
        for s in self.held:
            s.close()


class Job:
    """`weft submit`, and a thread that reads its lines."""

    def __init__(self, cluster, strategy, steps):
        command = [cluster.weft, "submit", GRAPH, "--master", cluster.master, "--init", "init", "--target", "train", "--fetch", "loss", "--batch", "8"]
        command += ["--steps", str(steps), "--json", "--feed", os.path.join("x=" + cluster.folder, "x.npy"), "--feed", os.path.join("y=" + cluster.folder, "y.npy")]
        command += ["--strategy", strategy] if strategy else []
        command += ["--wait", f"{DEADLINE_S // 2}s"]  # for a master that is gone before the job has seen it: half of a trial's time
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines, self.steps, self.last = queue.Queue(), 0, time.monotonic()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                if not json.loads(line).get("done"):
                    self.steps, self.last = self.steps + 1, time.monotonic()

    def wait_steps(self, n, timeout_s):
        end = time.monotonic() + timeout_s
        while self.steps < n and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)  # looks at a counter of another thread
        return self.steps >= n

    def wait(self, timeout_s):
        try:
            self.process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            return False

    def message(self):
        return self.process.stderr.read().decode(errors="replace").strip() if self.process.poll() is not None else ""

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Outcome:
    def __init__(self, kind, detail="", error_s=None):
        self.kind, self.detail, self.error_s = kind, detail, error_s


def needed(strategy, role):
    """Does the job use this task?"""
    if role == "client" or role == "worker0":
        return True
    return strategy not in ON_WORKER0 and not (strategy == "workers" and role == "ps0")


def trial(cluster, strategy, role, fault, moment, rng):
    warm = next_job(cluster, strategy)  # a task that ends before its first heartbeat is waited for: it may yet start
    if warm.kind != "ok":
        return Outcome("no start", warm.detail)
    cluster.wait_until_known()
    job = Job(cluster, STRATEGIES[strategy], 10**8)
    task = None if role == "client" else cluster.tasks[ROLES.index(role)]
    try:
        if moment == "first" and not job.wait_steps(1, DEADLINE_S):
            return Outcome("no start", job.message())
        if moment == "later" and not job.wait_steps(rng.randint(50, 1000), DEADLINE_S):
            return Outcome("no start", job.message())
        if moment == "start":
            time.sleep(rng.random() * 0.05)  # anywhere between the process and its first step
        send = job.process.send_signal if task is None else task.signal
        began = time.monotonic()
        seconds = int(re.sub(r"\D", "", fault) or 0)
        if fault in ("kill", "restart"):
            send(signal.SIGKILL)
        elif fault == "term":
            send(signal.SIGTERM)
        elif fault.startswith("freeze"):
            send(signal.SIGSTOP)
        else:
            cluster.net.cut(task.i, False)
        outcome = watch(cluster, job, task, strategy, role, fault, seconds, began)
        if outcome.kind != "ok":
            return outcome
    finally:
        job.end()
    if task is not None and fault in ("kill", "term"):
        task.process.wait(DEADLINE_S)
        task.start()
        task.wait_ready()
    again = next_job(cluster, strategy)
    return again if again.kind != "ok" else outcome


def cause_of(message):
    """The line that an error begins with; `weft submit` puts the lines of a message one behind the other."""
    return re.split(r" (?:From /job:|=====)", message.removeprefix("weft: "), maxsplit=1)[0]


def watch(cluster, job, task, strategy, role, fault, seconds, began):
    """The job goes on, or ends in time."""
    is_needed = needed(strategy, role)
    is_gone = fault in ("kill", "term", "restart")
    error_s, message = None, ""
    if role == "client":
        if not is_gone:
            time.sleep(seconds)
            job.process.send_signal(signal.SIGCONT)
            before = job.steps
            if job.process.poll() is None and not job.wait_steps(before + 1, DEADLINE_S) and job.process.poll() is None:
                return Outcome("hang", "a thawed client makes no step")
            job.process.send_signal(signal.SIGTERM)
        return Outcome("ok") if job.wait(DEADLINE_S) else Outcome("hang", "the client does not end")
    if fault == "restart":
        task.process.wait()
        task.start()
        task.wait_ready()
    lasts_s, steps_then = max(seconds, 0), job.steps
    while True:
        now = time.monotonic()
        if job.process.poll() is not None:
            error_s, message = now - began, job.message()
            break
        if not is_gone and now - began >= lasts_s:
            break
        is_stuck = now - job.last > DEADLINE_S and now - began > DEADLINE_S
        if is_stuck and is_needed:
            return Outcome("hang", f"no step and no error {now - began:.0f} s after the fault")
        if is_gone and not is_needed and now - began > 2:
            break
        if fault == "restart" and now - began > 2 and job.steps > steps_then + 20:
            break  # the task was there again before the job had begun
        time.sleep(0.005)  # looks at a process and a counter
    if not is_gone:
        time.sleep(max(0.0, lasts_s - (time.monotonic() - began)))
        if fault.startswith("freeze"):
            task.signal(signal.SIGCONT)
        else:
            cluster.net.cut(task.i, True)
    if job.process.poll() is None:
        before = job.steps
        end = time.monotonic() + DEADLINE_S
        while job.steps <= before + 3 and job.process.poll() is None:
            if time.monotonic() > end:
                return Outcome("hang", "no step and no error after the fault is over")
            time.sleep(0.005)
        if job.process.poll() is not None:
            error_s, message = time.monotonic() - began, job.message()
        else:
            job.process.send_signal(signal.SIGTERM)
            if not job.wait(DEADLINE_S):
                return Outcome("hang", "the client does not end after SIGTERM")
    if error_s is not None and message.count("\n") > 0:
        return Outcome("bad message", message)
    address = cluster.master.removeprefix("grpc://")
    names = [task.name, address] if role == "worker0" else [task.name]  # a client that never reached its master has an address only
    if error_s is not None and not any(name in cause_of(message) for name in names):
        return Outcome("bad message", f"its beginning does not name {task.name}: {message}", error_s)
    if error_s is not None and fault == "term" and not re.search("shut down|stopped|is gone|cannot connect|no server listens", cause_of(message)):
        return Outcome("bad message", f"its beginning does not say that {task.name} was shut down: {message}", error_s)
    return Outcome("ok", "", error_s)


def next_job(cluster, strategy):
    end = time.monotonic() + DEADLINE_S
    message = ""
    while time.monotonic() < end:
        job = Job(cluster, STRATEGIES[strategy], 20)
        try:
            if not job.wait(max(0.1, end - time.monotonic())):
                return Outcome("next job hangs", message)
            message = job.message()
            if job.process.returncode == 0:
                return Outcome("ok")
        finally:
            job.end()
        time.sleep(0.2)  # the task may still be on its way back
    return Outcome("next job fails", message)


def all_trials(hosts):
    for strategy in STRATEGIES:
        for role in ROLES:
            for fault in FAULTS:
                if fault == "cut6" and (not hosts or role == "client"):
                    continue
                if fault == "restart" and role == "client":
                    continue
                for moment in MOMENTS:
                    yield strategy, role, fault, moment


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40, help="how many, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", action="store_true", help="each task in namespaces of its own: no host links (needs root)")
    parser.add_argument("--only", default="", help="trials whose name matches this: STRATEGY ROLE FAULT MOMENT")
    parser.add_argument("--weft", default=os.path.join(REPO, "bazel-bin", "tools", "weft"))
    parser.add_argument("--keep", action="store_true", help="keep the logs of servers")
    o = parser.parse_args()
    rng = random.Random(o.seed)
    chosen = [t for t in all_trials(o.hosts) if re.search(o.only, " ".join(t))]
    rng.shuffle(chosen)
    chosen = chosen[: o.trials]
    folder = tempfile.mkdtemp(prefix="weft-faults-")
    import array

    write_npy(os.path.join(folder, "x.npy"), array.array("f", [rng.random() for _ in range(64 * 32)]), (64, 32), "<f4")
    write_npy(os.path.join(folder, "y.npy"), array.array("i", [rng.randrange(10) for _ in range(64)]), (64,), "<i4")
    net = Hosts() if o.hosts else Here()
    passed, failed, death_s, silence_s = 0, 0, [], []
    try:
        for n, (strategy, role, fault, moment) in enumerate(chosen):
            cluster = Cluster(os.path.realpath(o.weft), net, folder, 2 if strategy in ON_WORKER0 else 1)
            began = time.monotonic()
            try:
                cluster.start()
                outcome = trial(cluster, strategy, role, fault, moment, rng)
            finally:
                if isinstance(net, Hosts):
                    for i, _ in enumerate(TASKS):
                        net.cut(i, True)
                cluster.end()
            name = f"{strategy} {role} {fault} {moment}"
            passed, failed = passed + (outcome.kind == "ok"), failed + (outcome.kind != "ok")
            took = "" if outcome.error_s is None else f", error after {outcome.error_s:.2f} s"
            if outcome.kind != "ok" or outcome.detail or o.only:
                print(f"{name}: {outcome.kind}{took} ({time.monotonic() - began:.1f} s) {outcome.detail[:400]}", flush=True)
            if outcome.error_s is not None:
                (death_s if fault in ("kill", "term", "restart") else silence_s).append(outcome.error_s)
    finally:
        net.close()
        if not o.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for what, seconds in (("a death", death_s), ("silence", silence_s)):
        if seconds:
            print(f"from {what} to the error: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s, {len(seconds)} trials")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def write_npy(path, values, shape, kind):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())


if __name__ == "__main__":
    sys.exit(main())
