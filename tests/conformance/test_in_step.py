"""Workers of TensorFlow's distribution strategies: each a client process with a session at its own server.

Every step's loss must be that of one device on the rows that the workers were given together, and every worker must be
given the rows that the strategy's input is known to give it.
"""

import contextlib
import json
import time

import numpy as np
import pytest

from cluster import Cluster
from conftest import LIVE
from support import finish_client, is_in_time, spawn_client

pytestmark = pytest.mark.slow

ROWS, BATCH = 96, 12  # as the client has them


@contextlib.contextmanager
def servers(maker, directory, **counts):
    cluster = Cluster(maker, str(directory), **counts).start()
    LIVE.append(cluster)
    try:
        yield cluster
    finally:
        LIVE.remove(cluster)
        cluster.stop()


def spawn(cluster, task, strategy, kind, loop, steps, directory, pause=0.0):
    jobs = json.dumps(cluster.jobs)
    return spawn_client("in_step.py", cluster.target("worker", task), task, jobs, strategy, kind, loop, steps, directory, pause)


def told(process):
    return [json.loads(line) for line in finish_client(process).splitlines()]


def expected_rows(kind, replica, replicas, step):
    """Parts of the global batch, or, where the program shards its input itself, each so-many-th row."""
    share = BATCH // replicas
    if kind in ("dataset", "distributed"):
        return [step * BATCH + replica * share + i for i in range(share)]
    return [replica + replicas * (step * share + i) for i in range(share)]


class OneDevice:
    """The client's model, trained by the same rule."""

    def __init__(self):
        self.w, self.b = np.full([4, 1], 0.25, np.float32), np.zeros([1], np.float32)
        self.of_w, self.of_b = np.zeros_like(self.w), np.zeros_like(self.b)

    def step(self, rows):
        x = np.float32((np.asarray(sorted(rows), np.float32)[:, None] * 4 + np.arange(4, dtype=np.float32)) % 7 / 7)
        y = x @ np.float32([[1.0], [-2.0], [3.0], [0.5]]) + np.float32(0.25)
        error = x @ self.w + self.b - y
        self.of_w = 0.5 * self.of_w + 2 / BATCH * (x.T @ error)
        self.of_b = 0.5 * self.of_b + 2 / BATCH * error.sum(axis=0)
        self.w, self.b = self.w - np.float32(0.1) * self.of_w, self.b - np.float32(0.1) * self.of_b
        return float(np.sum(error * error) / BATCH)


def check_in_step(clients, kind, steps):
    """`clients`: what each told of its steps."""
    replicas = sum(len(c[0]["rows"]) for c in clients)
    model = OneDevice()
    for step in range(steps):
        at = [c[step] for c in clients]
        rows = [r for told in at for r in told["rows"]]
        per_epoch = ROWS // BATCH
        for i, got in enumerate(rows):
            assert got == expected_rows(kind, i, replicas, step % per_epoch), f"replica {i}, step {step}"
        want = model.step([r for each in rows for r in each])
        for told_by in at:
            assert abs(told_by["loss"] - want) < 1e-4 * max(1.0, want), f"step {step}: {told_by['loss']} instead of {want}"
            assert told_by["step"] == step + 1


PROGRAMS = [
    ("collective", "dataset", "session", 2),
    ("collective", "distributed", "session", 2),
    ("collective", "function", "session", 3),
    ("collective", "input_fn", "session", 2),
    ("experimental", "dataset", "session", 3),
    ("v1", "distributed", "session", 2),
    ("v1", "dataset", "monitored", 2),
]


@pytest.mark.parametrize("strategy,kind,loop,n", PROGRAMS)
def test_workers_train_in_step(maker, tmp_path, strategy, kind, loop, n):
    with servers(maker, tmp_path, ps=0, workers=n) as cluster:
        clients = [spawn(cluster, i, strategy, kind, loop, 6, tmp_path / "model") for i in range(n)]
        results = [told(c) for c in clients]
    for i, lines in enumerate(results):
        assert lines[0] == {"ready": True} and len(lines) == 7, f"client {i}: {lines[-1]}"
    check_in_step([lines[1:] for lines in results], kind, 6)


def test_the_data_end(maker, tmp_path):
    """A data set that a strategy distributes ends for all workers after the same step."""
    with servers(maker, tmp_path, ps=0, workers=2) as cluster:
        results = [told(c) for c in [spawn(cluster, i, "collective", "distributed", "session", 20, tmp_path) for i in range(2)]]
    for lines in results:
        assert lines[-1]["error"] == "OutOfRangeError"
    check_in_step([lines[1:-1] for lines in results], "distributed", ROWS // BATCH)


@pytest.mark.parametrize("kind,loop", [("dataset", "session"), ("distributed", "session"), ("input_fn", "monitored")])
def test_mirrored_over_the_devices_of_a_task(maker, tmp_path, kind, loop):
    with servers(maker, tmp_path, ps=0, workers=1, cpus=2) as cluster:
        lines = told(spawn(cluster, 0, "mirrored", kind, loop, 6, tmp_path / "model"))
    assert len(lines) == 7, lines[-1]
    model = OneDevice()
    for step, got in enumerate(lines[1:]):
        rows = [r for each in got["rows"] for r in each]
        assert sorted(rows) == list(range(step * BATCH, (step + 1) * BATCH))
        want = model.step(rows)
        assert abs(got["loss"] - want) < 1e-4 * max(1.0, want)


@pytest.mark.parametrize("kind", ["dataset", "input_fn"])
@pytest.mark.parametrize("loop", ["session", "monitored"])
def test_parameter_server_workers_train_at_their_own_pace(maker, tmp_path, kind, loop):
    """Each worker reads all rows, or its own; no update is lost, and the loss falls."""
    steps = 7 if kind == "dataset" else 3
    with servers(maker, tmp_path, ps=2, workers=2) as cluster:
        count = steps if loop == "session" else 2 * steps
        clients = [spawn(cluster, i, "ps", kind, loop, count, tmp_path / "model") for i in range(2)]
        results = [told(c)[1:] for c in clients]
    assert all("error" not in line for lines in results for line in lines), results
    for task, lines in enumerate(results):
        if kind == "dataset":
            want = [[list(range(step * BATCH, (step + 1) * BATCH))] for step in range(len(lines))]
        else:
            want = [[list(range(task + step * 2 * BATCH, ROWS, 2))[:BATCH]] for step in range(len(lines))]
        assert [line["rows"] for line in lines] == want
        assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
    everything = [line for lines in results for line in lines]
    last = max(line["step"] for line in everything)
    assert last == len(everything)
    if loop == "session":
        assert [len(lines) for lines in results] == [steps, steps]
    else:
        assert 2 * steps <= last <= 2 * steps + 1
    assert results[0][-1]["loss"] < results[0][0]["loss"]


@pytest.mark.weft_only  # a stock worker that waits for the lost one to come to a collective waits for ever
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_ends_the_steps_of_the_others(maker, tmp_path, victim):
    with servers(maker, tmp_path, ps=0, workers=2) as cluster:
        clients = [spawn(cluster, i, "collective", "dataset", "session", 1000, tmp_path, 0.1) for i in range(2)]
        other = clients[1 - victim]
        for _ in range(5):
            assert "error" not in other.stdout.readline()
        cluster.kill("worker", victim)
        killed = time.monotonic()
        line = {}
        while "error" not in line:
            line = json.loads(other.stdout.readline())
        assert is_in_time(time.monotonic() - killed, 3)
        assert line["error"] == "UnavailableError", line
        assert f"/job:worker/replica:0/task:{victim}" in line["message"]
        clients[victim].kill()
        for c in clients:
            c.communicate()
