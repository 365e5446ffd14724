"""Graphs of one device, rewritten by Weft for parameter servers, run on the servers of either maker.

What comes out is compared with the same steps of the graph as it was, in a session without servers. In step, two workers
share each batch of 23 rows; at will, one takes nine rows of each and the other the rest.
"""

import subprocess
import threading

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1
STEPS, ROWS = 8, [slice(0, 9), slice(9, 23)]
rng = np.random.RandomState(0)
IDS, LABELS = rng.randint(0, 103, (STEPS, 23)), rng.rand(STEPS, 23, 5).astype("f")
OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
}


def recommender(optimizer, use_resource, clips):
    """An embedding and a dense layer: sparse and dense gradients."""
    start = np.random.RandomState(1)
    with tf.Graph().as_default() as g:
        ids, y = v1.placeholder(tf.int64, [None], name="ids"), v1.placeholder(tf.float32, [None, 5], name="y")
        table, kernel = (
            v1.get_variable(name, initializer=start.randn(rows, columns).astype("f"), use_resource=use_resource)
            for name, rows, columns in (("table", 103, 8), ("kernel", 8, 5))
        )
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.embedding_lookup(table, ids), kernel) - y), name="loss")
        opt = OPTIMIZERS[optimizer]()
        grads, variables = zip(*opt.compute_gradients(loss))
        if clips:
            grads, _ = tf.clip_by_global_norm(grads, 0.1)
        step = v1.get_variable("step", initializer=np.int64(0), use_resource=use_resource)
        opt.apply_gradients(zip(grads, variables), step, name="train")
        v1.global_variables_initializer()
        tf.identity(table, name="table_now")
        tf.identity(kernel, name="kernel_now")
        tf.identity(step, name="step_now")
    return g


def train_alone(graph):
    with v1.Session(graph=graph) as s:
        s.run("init")
        for i in range(STEPS):
            s.run("train", {"ids:0": IDS[i], "y:0": LABELS[i]})
        return s.run(["table_now:0", "kernel_now:0", "step_now:0"])


@pytest.fixture
def rewrite(request, tmp_path):
    def run(graph, options):
        plain, rewritten = tmp_path / "plain.pb", tmp_path / "rewritten.pb"
        plain.write_bytes(graph.as_graph_def().SerializeToString())
        command = [request.config.getoption("--weft"), "inspect", plain, "--strategy", "parameter_server:" + options]
        command += ["--cluster", "ps=1,worker=2", "--target", "train", "--init", "init"]
        for name in ("loss", "table_now", "kernel_now", "step_now"):
            command += ["--fetch", name]
        subprocess.run([*command, "--save", rewritten], check=True, timeout=180, capture_output=True)
        out = tf.Graph()
        with out.as_default():
            tf.import_graph_def(v1.GraphDef.FromString(rewritten.read_bytes()), name="")
        return out

    return run


def side_by_side(*functions):
    """Each function, in a thread of its own; a failure of one fails the test."""
    failures = []

    def run(function):
        try:
            function()
        except tf.errors.OpError as e:
            failures.append(e)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def sessions(cluster, graph):
    config = v1.ConfigProto(operation_timeout_in_ms=90000)
    targets = [cluster.target("worker", 0), cluster.target("worker", 1), cluster.target("ps", 0)]
    return [v1.Session(target, graph=graph, config=config) for target in targets]


def worker_steps(session, i, prefix, target):
    def run():
        for ids, labels in zip(IDS, LABELS):
            session.run(target, {prefix + "ids:0": ids[ROWS[i]], prefix + "y:0": labels[ROWS[i]]})

    return run


@pytest.mark.parametrize("clips", [False, True], ids=["plain", "clipped"])
@pytest.mark.parametrize("shards", ["", ",shards=fixed:3"], ids=["whole", "sharded"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_workers_in_step_equal_one_device(own_cluster, rewrite, use_resource, optimizer, shards, clips):
    plain = recommender(optimizer, use_resource, clips)
    first = sessions(own_cluster, rewrite(plain, "mode=sync" + shards))[0]
    first.run("init")
    for ids, labels in zip(IDS, LABELS):
        first.run("train", {"ids:0": ids, "y:0": labels})
    got, wanted = first.run(["table_now:0", "kernel_now:0", "step_now:0"]), train_alone(plain)
    np.testing.assert_allclose(got[0], wanted[0], atol=3e-6)
    np.testing.assert_allclose(got[1], wanted[1], atol=3e-6)
    assert got[2] == wanted[2] == STEPS


@pytest.mark.parametrize("shards", ["", ",shards=fixed:3"], ids=["whole", "sharded"])
def test_workers_at_will_count_every_step(own_cluster, rewrite, use_resource, shards):
    first, second, _ = sessions(own_cluster, rewrite(recommender("sgd", use_resource, False), "mode=async" + shards))
    first.run("init")
    before = first.run("loss:0", {"ids:0": IDS[0], "y:0": LABELS[0]})
    side_by_side(worker_steps(first, 0, "", "train"), worker_steps(second, 1, "worker_1/", "worker_1/train"))
    assert first.run("step_now:0") == 2 * STEPS
    assert first.run("loss:0", {"ids:0": IDS[0], "y:0": LABELS[0]}) < before


def test_a_backup_worker_is_not_waited_for(own_cluster, rewrite, use_resource):
    first, _, server = sessions(own_cluster, rewrite(recommender("sgd", use_resource, False), "mode=sync,backup=1"))
    first.run("init")
    first.run("parameter_server/init")
    side_by_side(
        worker_steps(first, 0, "worker_0/", "worker_0/parameter_server/done"),
        lambda: [server.run("parameter_server/update") for _ in range(STEPS)],
    )
    assert first.run(["step_now:0", "parameter_server/dropped_now:0"]) == [STEPS, 0]
