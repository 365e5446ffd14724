"""Several CPU devices per task: what each is called, what it keeps, and how tensors get from one to another."""

import pytest
import tensorflow as tf

from cluster import Cluster
from conftest import LIVE
from support import fails, session, v1

CPUS = 3
R = tf.raw_ops


@pytest.fixture(scope="module")
def wide(maker, tmp_path_factory):
    """Two workers of three CPU devices each."""
    cluster = Cluster(maker, str(tmp_path_factory.mktemp("wide")), ps=0, workers=2, cpus=CPUS).start()
    LIVE.append(cluster)
    yield cluster
    LIVE.remove(cluster)
    cluster.stop()


def cpu(index, task=0):
    return f"/job:worker/task:{task}/device:CPU:{index}"


def full(index, task=0):
    return f"/job:worker/replica:0/task:{task}/device:CPU:{index}"


def traced(sess, fetch, feed=None):
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    value = sess.run(fetch, feed, options=options, run_metadata=metadata)
    return value, metadata


def test_every_device_is_listed_with_an_incarnation_of_its_own(wide, graph):
    with session(wide.master, graph) as sess:
        devices = sess.list_devices()
    assert {d.name for d in devices} == {full(i, task) for i in range(CPUS) for task in range(2)}
    assert len({d.incarnation for d in devices}) == 2 * CPUS


def test_nodes_run_where_they_are_told(wide, graph):
    x = v1.placeholder(tf.float32, [])
    y = x
    for step in range(6):
        with tf.device(cpu(step % CPUS, step % 2)):
            y = tf.add(y, 1.0, name=f"add_{step}")
    with session(wide.master, graph) as sess:
        value, metadata = traced(sess, y, {x: 1.0})
    assert value == 7.0
    where = {n.name: n.device for g in metadata.partition_graphs for n in g.node}
    assert [where[f"add_{i}"] for i in range(6)] == [full(i % CPUS, i % 2) for i in range(6)]
    ran = {n.node_name: d.device for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert [ran[f"add_{i}"] for i in range(6)] == [full(i % CPUS, i % 2) for i in range(6)]


def test_step_stats_show_one_partition_per_device(wide, graph):
    with tf.device(cpu(1)):
        a = tf.square(v1.placeholder_with_default(3.0, []), name="a")
    with tf.device(cpu(2)):
        b = tf.add(a, a, name="b")
    with session(wide.master, graph) as sess:
        value, metadata = traced(sess, b)
    assert value == 18.0
    parts = {frozenset(n.device for n in g.node): {n.op for n in g.node} for g in metadata.partition_graphs}
    assert all(len(devices) == 1 for devices in parts)
    assert "_Send" in parts[frozenset([full(1)])]
    assert "_Recv" in parts[frozenset([full(2)])]


def test_variables_of_one_name_on_two_devices_are_two(wide, graph, unique):
    values = []
    for i in range(CPUS):
        with tf.device(cpu(i)):
            handle = R.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", container=unique, name=f"handle_{i}")
            write = R.AssignVariableOp(resource=handle, value=tf.constant(float(i)))
            values.append((write, R.ReadVariableOp(resource=handle, dtype=tf.float32)))
    with session(wide.master, graph) as sess:
        sess.run(values[0][0])
        with fails(tf.errors.FailedPreconditionError, "v"):
            sess.run(values[1][1])
        sess.run([write for write, _ in values])
    with session(wide.target("worker", 1), graph) as sess:
        assert sess.run([read for _, read in values]) == [0.0, 1.0, 2.0]


def test_reference_variables_too(wide, graph, unique):
    reads = []
    for i in range(CPUS):
        with tf.device(cpu(i)):
            v = R.VariableV2(shape=[], dtype=tf.float32, shared_name="r", container=unique, name=f"ref_{i}")
            write = R.Assign(ref=v, value=tf.constant(float(i)))
            with tf.control_dependencies([write]):
                reads.append(tf.identity(v))
    with session(wide.master, graph) as sess:
        assert sess.run(reads) == [0.0, 1.0, 2.0]


def test_a_reference_does_not_leave_its_device(wide, graph):
    with tf.device(cpu(1)):
        v = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=False)
    with tf.device(cpu(2)):
        update = v1.assign_add(v, 3.0, name="update")
        twice = tf.multiply(update, 2.0, name="twice")
    with session(wide.master, graph) as sess:
        sess.run(v.initializer)
        value, metadata = traced(sess, twice)
    assert value == 6.0
    ran = {n.node_name: d.device for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert ran["update"] == full(1) and ran["twice"] == full(2)


def test_a_handle_is_of_no_use_on_another_device(wide, graph):
    with tf.device(cpu(0)):
        handle = R.VarHandleOp(dtype=tf.float32, shape=[], shared_name="moved")
        write = R.AssignVariableOp(resource=handle, value=1.0)
    with tf.device(cpu(1)):
        moved = R.IdentityN(input=[handle, tf.constant(0)])[0]
        update = R.AssignAddVariableOp(resource=moved, value=1.0, name="update")
    with session(wide.master, graph) as sess:
        sess.run(write)
        with fails(tf.errors.InvalidArgumentError, "Trying to access resource moved located in device " + full(0)):
            sess.run(update)


def test_colocation_across_devices(wide, graph):
    with tf.device(cpu(2)):
        a = tf.square(v1.placeholder_with_default(2.0, []), name="a")
    with v1.colocate_with(a.op, ignore_existing=True):
        b = tf.add(v1.placeholder(tf.float32, []), 1.0, name="b")
    with session(wide.master, graph) as sess:
        _, metadata = traced(sess, [a, b], {b.op.inputs[0]: 1.0})
    ran = {n.node_name: d.device for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert ran["b"] == full(2)


def test_a_device_beyond_the_last(wide, graph):
    with tf.device(cpu(CPUS)):
        y = tf.square(v1.placeholder_with_default(2.0, []), name="y")
    with session(wide.master, graph, allow_soft_placement=True) as sess:
        assert sess.run(y) == 4.0
    with session(wide.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, full(CPUS - 1, 1)):
            sess.run(y)


def test_loops_and_conditions_over_devices(wide, graph, control_flow):
    def body(i, x):
        with tf.device(cpu(1)):
            x = x * 2.0
        with tf.device(cpu(2, 1)):
            return i + 1, x + 1.0

    with tf.device(cpu(0)):
        limit = v1.placeholder(tf.int32, [])
        _, x = tf.while_loop(lambda i, _: i < limit, body, [0, 1.0])
    with tf.device(cpu(2)):
        y = tf.cond(x > 100.0, lambda: x * 10.0, lambda: x)
    with session(wide.master, graph) as sess:
        assert [sess.run(y, {limit: n}) for n in (0, 1, 5, 7)] == [1.0, 3.0, 63.0, 2550.0]


def test_a_reset_clears_every_device(maker, tmp_path, graph):
    cluster = Cluster(maker, str(tmp_path), ps=0, workers=1, cpus=2).start()
    try:
        reads = []
        for i in range(2):
            with tf.device(cpu(i)):
                handle = R.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", container="box", name=f"h{i}")
                reads.append((R.AssignVariableOp(resource=handle, value=1.0), R.ReadVariableOp(resource=handle, dtype=tf.float32)))
        with session(cluster.master, graph) as sess:
            sess.run([write for write, _ in reads])
        v1.Session.reset(cluster.master, ["box"])
        with session(cluster.master, graph) as sess:
            for _, read in reads:
                with fails(tf.errors.FailedPreconditionError, "v"):
                    sess.run(read)
    finally:
        cluster.stop()


def test_partial_runs_and_callables_over_devices(wide, graph):
    x, z = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
    with tf.device(cpu(1)):
        a = x + 1.0
    with tf.device(cpu(2)):
        b = a * z
    with session(wide.master, graph) as sess:
        call = sess.make_callable(b, [x, z])
        assert [call(float(i), 2.0) for i in range(3)] == [2.0, 4.0, 6.0]
        handle = sess.partial_run_setup([a, b], [x, z])
        assert sess.partial_run(handle, a, {x: 1.0}) == 2.0
        assert sess.partial_run(handle, b, {z: 5.0}) == 10.0
