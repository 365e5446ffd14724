"""tf.device on other tasks: where nodes run, which names are right, what colocation and soft placement do."""

import pytest
import tensorflow as tf

from support import PS, W0, W1, fails, session, v1

FULL = {
    "/job:ps/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:0/device:CPU:0",
    "/job:worker/replica:0/task:1/device:CPU:0",
}


def partitions(sess, fetch, feed=None):
    """Runs a step and returns where each node ran: name to device."""
    metadata = v1.RunMetadata()
    sess.run(fetch, feed, options=v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    assert metadata.partition_graphs, "no partition graphs came back"
    return {n.name: n.device for g in metadata.partition_graphs for n in g.node}


@pytest.mark.parametrize(
    "device,task",
    [
        ("/job:worker/task:1", "/job:worker/replica:0/task:1"),
        ("/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1"),
        ("/job:worker/task:1/cpu:0", "/job:worker/replica:0/task:1"),
        ("/task:1/job:worker", "/job:worker/replica:0/task:1"),
        ("/job:ps", "/job:ps/replica:0/task:0"),
        ("/job:ps/device:CPU:*", "/job:ps/replica:0/task:0"),
        ("/task:1", "/job:worker/replica:0/task:1"),
        ("/job:worker", "/job:worker/replica:0/task:0"),
        ("/device:CPU:0", "/job:worker/replica:0/task:0"),
        ("", "/job:worker/replica:0/task:0"),
    ],
)
def test_device_names_full_and_partial(cluster, graph, device, task):
    x = v1.placeholder(tf.float32)
    with tf.device(device):
        y = tf.square(x, name="y")
    with session(cluster.master, graph) as sess:
        assert sess.run(y, {x: 3.0}) == 9.0
        assert partitions(sess, y, {x: 3.0})["y"] == task + "/device:CPU:0"


def test_an_unconstrained_node_runs_at_the_master(cluster, graph):
    x = v1.placeholder(tf.float32)
    y = tf.square(x, name="y")
    with session(cluster.target("worker", 1), graph) as sess:
        assert partitions(sess, y, {x: 1.0})["y"] == W1.replace("/task", "/replica:0/task") + "/device:CPU:0"


def test_a_chain_over_all_tasks(cluster, graph):
    x = v1.placeholder(tf.float32)
    y = x
    for i, device in enumerate([PS, W0, W1] * 4):
        with tf.device(device):
            y = y + float(i)
    with session(cluster.master, graph) as sess:
        assert sess.run(y, {x: 0.0}) == sum(range(12))


def test_one_tensor_for_many_consumers_elsewhere(cluster, graph):
    x = v1.placeholder(tf.float32)
    with tf.device(PS):
        y = tf.square(x)
    with tf.device(W1):
        zs = [y + float(i) for i in range(10)]
    with session(cluster.master, graph) as sess:
        assert sess.run(zs, {x: 2.0}) == [4.0 + i for i in range(10)]


@pytest.mark.parametrize("dtype", [tf.string, tf.bool, tf.bfloat16, tf.complex128, tf.int64], ids=lambda d: d.name)
def test_every_kind_of_tensor_travels(cluster, graph, dtype):
    with tf.device(PS):
        x = v1.placeholder(dtype)
    with tf.device(W1):
        y = tf.concat([x, x], 0)
    value = {tf.string: [b"a", b""], tf.bool: [True, False]}.get(dtype, [1, 2])
    with session(cluster.master, graph) as sess:
        assert sess.run(y, {x: value}).tolist() == list(value) * 2


def test_colocation_follows_the_named_node(cluster, graph, use_resource):
    with tf.device(PS):
        v = v1.Variable(1.0, use_resource=use_resource, name="v")
    with v1.colocate_with(v.op if not use_resource else v.handle.op, ignore_existing=True):
        y = tf.constant(2.0, name="near")
    z = tf.add(y, 1.0, name="z")
    with session(cluster.master, graph) as sess:
        where = partitions(sess, z)
    assert all(device in FULL for device in where.values())
    assert where.get("near", "/job:ps/replica:0/task:0/device:CPU:0").startswith("/job:ps")


def test_variables_pull_their_updates(cluster, graph, use_resource):
    with tf.device(PS):
        v = v1.Variable(1.0, use_resource=use_resource, name="v")
    x = v1.placeholder(tf.float32, [])
    if use_resource:
        update = tf.raw_ops.AssignAddVariableOp(resource=v.handle, value=x, name="update")
    else:
        update = tf.raw_ops.AssignAdd(ref=v._ref(), value=x, name="update").op
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert partitions(sess, update, {x: 1.0})["update"].startswith("/job:ps")
        assert sess.run(v) == 2.0


def test_conflicting_colocation_is_refused(cluster, graph):
    with tf.device(PS):
        v = v1.Variable(1.0, use_resource=False, name="v")
    with tf.device(W1):
        w = v1.Variable(1.0, use_resource=False, name="w")
    both = graph.create_op("Identity", [tf.constant(1.0)], [tf.float32], name="both")
    both._set_attr("_class", v1.AttrValue(list=v1.AttrValue.ListValue(s=[b"loc:@v", b"loc:@w"])))
    del w
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, "both"):
            sess.run(v.initializer)


UNKNOWN = ["/job:absent", "/job:worker/task:7", "/job:ps/task:0/device:TPU:0"]


@pytest.mark.parametrize("device", UNKNOWN)
def test_unknown_devices_are_refused_with_the_node_and_the_device(cluster, graph, device):
    with tf.device(device):
        y = tf.square(tf.constant(1.0, name="c"), name="lost")
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, "cannot assign a device for operation"):
            sess.run(tf.constant(0))  # the whole graph is placed, whatever is run
        with fails(tf.errors.InvalidArgumentError, device):
            sess.run(y)


def test_soft_placement_falls_back_to_a_device_that_is_there(cluster, graph):
    with tf.device("/job:ps/task:0/device:GPU:0"):
        x = v1.placeholder(tf.float32)
        y = tf.square(x, name="y")
    with session(cluster.master, graph, allow_soft_placement=True) as sess:
        assert sess.run(y, {x: 3.0}) == 9.0
        assert partitions(sess, y, {x: 3.0})["y"] == "/job:ps/replica:0/task:0/device:CPU:0"
    with session(cluster.master, graph, allow_soft_placement=False) as sess:
        with fails(tf.errors.InvalidArgumentError, "device:GPU:0"):
            sess.run(y)


@pytest.mark.parametrize("device", ["/job:absent", "/job:worker/task:7"])
def test_soft_placement_never_moves_to_another_task(cluster, graph, device):
    with tf.device(device):
        y = tf.square(2.0)
    with session(cluster.master, graph, allow_soft_placement=True) as sess:
        with fails(tf.errors.InvalidArgumentError):
            sess.run(y)


def test_a_replica_device_setter_spreads_a_model(cluster, graph, use_resource):
    with v1.device(v1.train.replica_device_setter(cluster=cluster.jobs, worker_device="/job:worker/task:1")):
        x = v1.placeholder(tf.float32, [None, 3])
        w = v1.Variable(tf.ones([3, 2]), use_resource=use_resource, name="w")
        y = tf.matmul(x, w, name="y")
    with session(cluster.master, graph) as sess:
        sess.run(v1.global_variables_initializer())
        assert sess.run(y, {x: [[1.0, 2.0, 3.0]]}).tolist() == [[6.0, 6.0]]
        where = partitions(sess, y, {x: [[1.0, 2.0, 3.0]]})
    assert where["y"] == "/job:worker/replica:0/task:1/device:CPU:0"
    assert where["w"] == "/job:ps/replica:0/task:0/device:CPU:0"


def test_a_large_tensor_between_tasks(cluster, graph):
    with tf.device(PS):
        x = tf.fill([3000, 1000], v1.placeholder(tf.float32, [], name="value"))  # 12 MB
    with tf.device(W1):
        y = tf.reduce_max(x)
    with session(cluster.master, graph) as sess:
        for value in (1.0, 2.0, 3.0):
            assert sess.run(y, {"value:0": value}) == value
