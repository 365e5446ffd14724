"""Tasks of both makers in one cluster: tensors go between them as TensorFlow's tasks exchange them, in both directions and
whichever of them is the master."""

import numpy as np
import pytest
import tensorflow as tf

from cluster import Cluster, Maker
from support import v1

pytestmark = [pytest.mark.slow, pytest.mark.weft_only]


def training(placed, side=64, small=20, large=1 << 13, rows=4):
    """Many small variables and one of 2 MB on the parameter server, their gradients from the worker."""
    graph = tf.Graph()
    with graph.as_default(), graph.device(v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0") if placed else None):
        x = v1.placeholder(tf.float32, [rows, side], name="x")
        h = x
        for _ in range(small):
            h = h * v1.Variable(tf.ones([side]), use_resource=True)
        wide = tf.matmul(h, v1.Variable(tf.ones([side, large]), use_resource=True))
        loss = tf.reduce_mean(h) + tf.reduce_mean(wide)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = v1.global_variables_initializer()
    return graph, init, [loss, train], {x: np.ones([rows, side], np.float32)}


def losses(target, steps=4):
    graph, init, fetches, feed = training(placed=target != "")
    with v1.Session(target, graph=graph, config=v1.ConfigProto(operation_timeout_in_ms=60000)) as session:
        session.run(init)
        return [float(session.run(fetches, feed)[0]) for _ in range(steps)]


@pytest.mark.parametrize("stock_job", ["ps", "worker"])
def test_a_stock_task_takes_part(maker, tmp_path, stock_job):
    cluster = Cluster(maker, str(tmp_path), ps=1, workers=1)
    stock = cluster.servers[stock_job, 0]
    stock.command = Maker("tensorflow", maker.weft_binary).command(cluster.spec, stock_job, 0, 1)
    expected = losses("")
    try:
        cluster.start()
        for master in ("ps", "worker"):
            np.testing.assert_allclose(losses(cluster.target(master, 0)), expected, rtol=1e-4)
    finally:
        cluster.kill(stock_job, 0)
        cluster.stop()
