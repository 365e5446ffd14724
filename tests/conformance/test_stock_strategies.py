"""Programs under TensorFlow's own strategies that one client process drives, on the maker's servers and on TensorFlow's.

Losses, counts of steps, saved variables and what ends a program must be the same. clients/stock.py has the programs.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from cluster import Cluster, Maker
from conftest import LIVE
from support import HERE

pytestmark = pytest.mark.slow

STRATEGIES = [
    "ps", "central", "central_2", "central_named", "central_ps", "one_device", "one_device_1", "one_device_ps",
    "mirrored", "mirrored_2", "mirrored_3", "mirrored_copy", "mirrored_named", "mirrored_tasks",
]  # fmt: skip
MODELS = ["linear", "deep", "batch_norm", "embedding", "partitioned", "recurrent", "metrics", "averaged"]
OPTIMIZERS = ["sgd", "adam", "momentum", "rmsprop", "adagrad", "nesterov", "ftrl", "decay", "adadelta", "clipped"]
INPUTS = ["dataset", "distributed", "function", "feeds", "uneven", "input_fn", "distributed_uneven", "none"]
LOOPS = ["saver", "monitored", "session"]


def takes(strategy, kind):
    """What TensorFlow's servers and classes can do."""
    if strategy == "ps":  # version 1's class returns nothing where version 2's returns a data set
        return kind in ("dataset", "uneven", "input_fn", "feeds", "none")
    if strategy == "mirrored_tasks":  # an iterator's handle is used on another task
        return kind in ("feeds", "none")
    if strategy == "mirrored_named":  # a data set that is sent as a graph loses half of its functions' devices
        return kind in ("function", "input_fn", "feeds", "none")
    return True


def programs():
    """Each strategy with each model and each kind of input, beside optimizers and loops in turn."""
    made = []
    for i, strategy in enumerate(STRATEGIES):
        inputs = [k for k in INPUTS if takes(strategy, k)]
        for j, model in enumerate(MODELS):
            kind = inputs[(i + j) % len(inputs)]
            loop = "session" if strategy == "ps" and (i + j) % 2 else LOOPS[(i + j) % 3]
            if strategy == "ps" and loop == "monitored":
                loop = "saver"
            made.append((strategy, model, OPTIMIZERS[(3 * i + j) % len(OPTIMIZERS)], kind, loop))
    return made


class Client:
    """A process that runs programs, one after the other; a new one takes the place of one that hangs or dies."""

    def __init__(self, directory):
        self.log = os.path.join(directory, "client.stderr")
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "clients", "stock.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True, env=dict(os.environ, PYTHONPATH=HERE)
            )

    def run(self, program):
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps(program) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()  # a call of a session ends after DEADLINE_MS
        if not line:
            status, self.process = self.process.wait(), None
            pytest.fail(f"the client ended with {status}")
        return json.loads(line)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture(scope="module")
def stage(maker, tmp_path_factory):
    """A client, the maker's servers and TensorFlow's, which start together."""
    makers = {"maker": maker, "stock": Maker("tensorflow", None)}
    clusters = [Cluster(m, str(tmp_path_factory.mktemp(name)), ps=2, workers=2, cpus=3) for name, m in makers.items()]
    client = Client(str(tmp_path_factory.mktemp("client")))
    LIVE.append(clusters[0])
    try:
        client.start()
        for cluster in clusters:
            cluster.start()
        yield client, *clusters
    finally:
        LIVE.remove(clusters[0])
        client.stop()
        for cluster in clusters:
            cluster.stop()


def check_same(got, want):
    assert (got["ended"] or [None])[0] == (want["ended"] or [None])[0], got["ended"]
    assert len(got["told"]) == len(want["told"])
    for step, (g, w) in enumerate(zip(got["told"], want["told"])):
        assert g[2] == w[2], f"step {step}: the global step is {g[2]} instead of {w[2]}"
        np.testing.assert_allclose([g[0], *g[1]], [w[0], *w[1]], rtol=1e-4, atol=1e-6, err_msg=f"losses of step {step}")
    assert got["values"].keys() == want["values"].keys()
    for name, w in want["values"].items():
        np.testing.assert_allclose(got["values"][name], w, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("strategy,model,optimizer,kind,loop", programs())
def test_programs_do_the_same(maker, stage, tmp_path, strategy, model, optimizer, kind, loop):
    client, cluster, stock = stage
    program = {"strategy": strategy, "model": model, "optimizer": optimizer, "input": kind, "loop": loop}
    program["workers"] = 2 if strategy == "ps" else 1
    want = client.run(dict(program, jobs=stock.jobs, directory=str(tmp_path / "stock")))
    got = client.run(dict(program, jobs=cluster.jobs, directory=str(tmp_path / "maker")))
    assert want["told"], want["ended"]
    assert want["ended"] is None or want["ended"][0] == "OutOfRangeError", want["ended"]
    check_same(got, want)
