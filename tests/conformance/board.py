"""A training graph with summaries, jobs that log it, and what reads their logs: TensorFlow, and TensorBoard itself."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import numpy as np
import tensorflow as tf

from support import v1

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS, BATCH = 50, 8


def build():
    """init, train, loss, lr, summaries (scalar, histogram, image), words (a text); fed x and y."""
    g = tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        with v1.variable_scope("layer"):
            w = v1.get_variable("w", [4, 1], initializer=v1.constant_initializer(0.25))
            b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
            out = tf.matmul(x, w) + b
        loss = tf.reduce_mean(tf.square(out - y), name="loss")
        step = v1.train.get_or_create_global_step()
        lr = v1.train.exponential_decay(0.1, step, 5, 0.5)
        tf.identity(lr, name="lr")
        picture = tf.reshape(tf.linspace(0.0, 1.0, 4096) + 0.0 * tf.reduce_sum(w), [1, 64, 64, 1])  # made anew at each step
        parts = [v1.summary.histogram("weights", w), v1.summary.image("picture", picture), v1.summary.scalar("inner/loss", loss)]
        summaries = tf.identity(v1.summary.merge(parts), name="summaries")
        with tf.control_dependencies([summaries, lr]):  # which are of the state before the step
            tf.group(v1.train.MomentumOptimizer(lr, 0.5).minimize(loss, global_step=step), name="train")
        tf.group(v1.global_variables_initializer(), name="init")
        tf.constant("a text with **bold** words", name="words")
    return g


def write_inputs(folder, g=None):
    """graph.pb, x.npy and y.npy."""
    (folder / "graph.pb").write_bytes((g or build()).as_graph_def().SerializeToString())
    rng = np.random.RandomState(0)
    np.save(folder / "x.npy", rng.rand(ROWS, 4).astype(np.float32))
    np.save(folder / "y.npy", rng.rand(ROWS, 1).astype(np.float32))
    return folder


FETCHES = ["--fetch", "loss", "--fetch", "summaries", "--fetch", "words", "--fetch", "lr"]


def command(maker, folder, *args, fetches=FETCHES):
    feeds = ["--feed", f"x={folder}/x.npy", "--feed", f"y={folder}/y.npy", "--batch", str(BATCH)]
    return [maker.weft_binary, "submit", f"{folder}/graph.pb", "--init", "init", "--target", "train", *fetches, *feeds, "--json", *args]


def submit(maker, folder, *args, **kwargs):
    """What each step printed."""
    done = subprocess.run(command(maker, folder, *args, **kwargs), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    return [line["fetches"] for line in map(json.loads, done.stdout.splitlines()) if line.get("done") is False]


def files(folder):
    return sorted(str(p) for p in folder.rglob("*") if "tfevents" in p.name)


def events(folder):
    return [e for f in files(folder) for e in v1.train.summary_iterator(f)]


def scalars(folder):
    """{tag: [(step, value)]}"""
    found = {}
    for e in events(folder):
        for v in e.summary.value:
            if v.WhichOneof("value") == "simple_value":
                found.setdefault(v.tag, []).append((e.step, v.simple_value))
    return found


class Board:
    """TensorBoard's HTTP API."""

    def __init__(self, url):
        self.url = url

    def get(self, path, **query):
        url = f"{self.url}data/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()

    def json(self, path, **query):
        return json.loads(self.get(path, **query))

    def post(self, path, body):
        request = urllib.request.Request(f"{self.url}data/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def has_steps(self, runs, n):
        """Are the files of these runs read to the end: a scalar of step n, and how the job ended?"""
        tags = self.json("plugin/scalars/tags")
        if any("loss" not in tags.get(run, ()) or len(self.json("plugin/scalars/scalars", run=run, tag="loss")) < n for run in runs):
            return False
        groups = self.post("plugin/hparams/session_groups", {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "startIndex": 0, "sliceSize": 10})
        return len(groups["sessionGroups"]) == len(runs)

    def wait_for(self, is_there):
        """Looks again until TensorBoard, which reads files now and then, has read enough."""
        deadline = time.monotonic() + 60
        while not is_there(self):
            assert time.monotonic() < deadline, "TensorBoard has not read the logs"
            time.sleep(0.05)


@contextlib.contextmanager
def tensorboard(logdir, log, *args):
    """TensorBoard on a folder of logs. `log`: a file for what it says."""
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--port", "0", "--host", "127.0.0.1", "--reload_interval", "1", *args],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline, url = time.monotonic() + 60, None
            while url is None:
                with open(log, encoding="utf-8") as said:
                    text = said.read()
                assert process.poll() is None and time.monotonic() < deadline, text
                url = re.search(r"http://127\.0\.0\.1:\d+/", text)
                time.sleep(0.05)
            yield Board(url.group())
        finally:
            process.terminate()
            process.wait(timeout=30)
