"""`weft submit` of training graphs that read their data by an iterator: under every strategy the losses of one device.

Nothing is fed; a run ends without an error when its data do.
"""

import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from support import v1

pytestmark = pytest.mark.weft_only
BATCH, ROWS = 8, 44  # the last of six batches has four rows


def element(i):
    x = tf.cast(4 * i + tf.range(4), tf.float32) % 7.0 / 7.0
    return i, x, tf.reduce_sum(x * [1.0, -2.0, 3.0, 0.5], keepdims=True) + 0.25


def build(kind, drops):
    """A graph with the nodes init, data, train, loss and rows."""
    g = tf.Graph()
    with g.as_default():
        rows = tf.data.Dataset.range(ROWS, output_type=tf.int32).shuffle(16, seed=3).map(element)
        rows = rows.batch(BATCH, drop_remainder=drops).prefetch(2)
        once = kind == "one_shot"
        iterator = v1.data.make_one_shot_iterator(rows) if once else v1.data.make_initializable_iterator(rows)
        index, x, y = iterator.get_next()
        tf.identity(index, name="rows")
        w = v1.get_variable("w", [4, 1], initializer=v1.constant_initializer(0.25))
        b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y), name="loss")
        tf.group(v1.train.MomentumOptimizer(0.1, 0.5).minimize(loss), name="train")
        tf.group(v1.global_variables_initializer(), name="init")
        tf.group(tf.no_op() if once else iterator.initializer, name="data")
    return g


def one_device(g):
    told = []
    with v1.Session(graph=g) as sess:
        sess.run("init")
        sess.run("data")
        while True:
            try:
                told.append(sess.run(["loss:0", "train"])[0])
            except tf.errors.OutOfRangeError:
                return told


def submit(maker, path, *args):
    command = [maker.weft_binary, "submit", str(path), "--init", "init", "--init", "data", "--target", "train", "--fetch", "loss", "--json"]
    done = subprocess.run([*command, *args], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["done"] and "error" not in lines[-1]
    return [line["fetches"] for line in lines if not line["done"]]


def losses(*args):
    return [step["loss"] for step in submit(*args)]


LOCAL = ["mirrored:2", "mirrored:3", "data_parallel:2", "central_storage:2", "parameter_server:mode=sync,workers=3"]


@pytest.mark.parametrize("kind,drops", [("initialised", False), ("initialised", True), ("one_shot", False)])
def test_losses_are_those_of_one_device(maker, tmp_path, kind, drops):
    g = build(kind, drops)
    want, path = one_device(g), tmp_path / "graph.pb"
    assert len(want) == (5 if drops else 6)
    path.write_bytes(g.as_graph_def().SerializeToString())
    np.testing.assert_allclose(losses(maker, path), want, rtol=1e-5)
    for strategy in LOCAL:
        np.testing.assert_allclose(losses(maker, path, "--strategy", strategy), want, rtol=1e-5, err_msg=strategy)


@pytest.mark.parametrize("strategy", ["parameter_server:mode=sync", "multi_worker_mirrored"])
def test_on_servers(maker, cluster, tmp_path, unique, strategy):
    g = build("initialised", False)
    want, path = one_device(g), tmp_path / "graph.pb"
    path.write_bytes(g.as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--container", unique, "--strategy", strategy]
    for _ in range(2):  # the second run initialises what the first left at its end
        np.testing.assert_allclose(losses(maker, path, *more), want, rtol=1e-5)
    np.testing.assert_allclose(losses(maker, path, *more, "--steps", "3"), want[:3], rtol=1e-5)


@pytest.mark.parametrize("options", ["mode=async", "mode=ssp,staleness=1"])
def test_workers_with_batches_of_their_own_read_parts_of_the_data(maker, cluster, tmp_path, unique, options):
    path = tmp_path / "graph.pb"
    path.write_bytes(build("initialised", False).as_graph_def().SerializeToString())
    more = ["--master", cluster.master, "--container", unique, "--strategy", f"parameter_server:{options}", "--fetch", "rows"]
    for _ in range(2):
        steps = submit(maker, path, *more)
        rows = [r for step in steps for r in step["rows"]]
        assert len(steps) >= 3 and len(set(rows)) == len(rows) and set(rows) <= set(range(ROWS))
