"""A job of several workers in step goes on after servers were killed and started again.

Clients of tf.distribute's MultiWorkerMirroredStrategy begin anew at the last checkpoint, by a loop of their own with
a Saver or by MonitoredTrainingSession. Every step's loss must be that of a run in which nothing was lost.
"""

import contextlib
import json
import subprocess
import threading
import time
from queue import Empty, Queue

import pytest

from support import is_in_time, spawn_client
from test_in_step import BATCH, ROWS, OneDevice, servers

STEPS, PAUSE_S = 14, 0.1  # a kill has come before the save that is some steps ahead
pytestmark = [pytest.mark.slow, pytest.mark.weft_only]  # stock workers that have lost one refuse collectives until they are started again, too


@pytest.fixture(scope="module")
def unbroken():
    """The rows and the loss of each step of a run in which nothing is lost."""
    model, steps = OneDevice(), []
    for step in range(STEPS):
        first = step % (ROWS // BATCH) * BATCH
        rows = list(range(first, first + BATCH))
        steps.append((rows, model.step(rows)))
    return steps


class Client:
    """A process that runs the program once for each begin(); its lines come with the time when they were read."""

    def __init__(self, cluster, task, loop, directory):
        jobs = json.dumps(cluster.jobs)
        self.process = spawn_client("rejoin.py", cluster.target("worker", task), task, jobs, loop, STEPS, directory, PAUSE_S,
                                    stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
        self.lines, self.told = Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), json.loads(line)))

    def begin(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def until(self, *words):
        """The next line with one of the words, and when it came."""
        while True:
            try:
                at, line = self.lines.get(timeout=90)
            except Empty:
                pytest.fail(f"a client waits for ever; it told {self.told[-5:]}")
            self.told.append(line)
            if "error" in line and "error" not in words:
                pytest.fail(f"a client failed: {line}")
            if any(w in line for w in words):
                return at, line

    def stop(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def job(maker, directory, n, loop):
    """Servers, and a client for each that has not begun."""
    with servers(maker, directory, ps=0, workers=n) as cluster:
        clients = [Client(cluster, i, loop, directory / "model") for i in range(n)]
        try:
            yield cluster, clients
        finally:
            for c in clients:
                c.stop()


def begin(clients):
    for c in clients:
        c.begin()


def check_steps(clients, unbroken):
    """Each step that was told, before or after the loss, was that of the unbroken run, and the last one was reached."""
    share = BATCH // len(clients)
    for i, c in enumerate(clients):
        steps = [line for line in c.told if "loss" in line]
        for line in steps:
            rows, loss = unbroken[line["step"] - 1]
            assert line["rows"] == [rows[i * share : (i + 1) * share]], f"client {i}, step {line['step']}"
            assert abs(line["loss"] - loss) < 1e-4 * max(1.0, loss), f"step {line['step']}: {line['loss']} instead of {loss}"
        assert steps[-1]["step"] == STEPS


def check_anew(clients):
    """All began at the same step after the loss, behind a checkpoint if there was one."""
    begun = []
    for c in clients:
        told = c.told[max(i for i, line in enumerate(c.told) if "ready" in line) :]
        steps = [line["step"] for line in told if "step" in line]
        assert steps == list(range(steps[0], STEPS + 1))
        begun.append(steps[0])
    assert len(set(begun)) == 1 and begun[0] % 3 == 1


KILLS = [(n, victim, moment) for n, victim in [(2, 0), (2, 1), (3, 0), (3, 2)] for moment in ["middle", "saving"]]
KILLS += [(n, 0, moment) for n in [2, 3] for moment in ["beginning", "first"]]
KILLS += [(n, victim, moment) for n, victim in [(2, 1), (3, 2)] for moment in ["beginning", "first"]]


@pytest.mark.parametrize("n,victim,moment", KILLS)
def test_clients_begin_anew_at_the_checkpoint(maker, tmp_path, unbroken, n, victim, moment):
    with job(maker, tmp_path, n, "saver") as (cluster, clients):
        others = [c for i, c in enumerate(clients) if i != victim]
        if moment == "beginning":  # the victim's client has not come: the others wait for its part of the first values
            begin(others)
            for c in others:
                c.until("beginning")
        else:
            begin(clients)
            for c in clients:
                c.until("ready")
        if moment == "middle":
            while others[0].until("step")[1]["step"] < 5:
                pass
        elif moment == "saving":
            clients[0].until("saving")
        cluster.kill("worker", victim)
        killed = time.monotonic()
        for c in others:
            at, line = c.until("error")
            assert is_in_time(at - killed, 3)
            assert line["error"] == "UnavailableError", line
            assert f"/job:worker/replica:0/task:{victim}" in line["message"]
        cluster.restart("worker", victim)
        if moment != "beginning":
            clients[victim].until("error")  # it waits for its server to close its session
        begin(clients)
        for c in clients:
            c.until("over")
        check_steps(clients, unbroken)
        check_anew(clients)


@pytest.mark.parametrize("client_dies", [False, True])
@pytest.mark.parametrize("n,victim", [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_monitored_sessions_recover_by_themselves(maker, tmp_path, unbroken, n, victim, client_dies):
    with job(maker, tmp_path, n, "monitored") as (cluster, clients):
        begin(clients)
        while clients[1 - victim % 2].until("step")[1]["step"] < 7:
            pass
        cluster.kill("worker", victim)
        if client_dies:
            clients[victim].stop()
            clients[victim] = Client(cluster, victim, "monitored", tmp_path / "model")
            clients[victim].begin()
        cluster.restart("worker", victim)
        for c in clients:
            c.until("over")
        check_steps(clients, unbroken)
