"""ConfigProto.cluster_def: a session that gives the servers other names than they were started with."""

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import cluster_pb2

from support import config, fails, v1

Invalid = tf.errors.InvalidArgumentError


def cluster_def(**jobs):
    """jobs: name=[address, …] or name={index: address, …}"""
    definition = cluster_pb2.ClusterDef()
    for name, tasks in jobs.items():
        job = definition.job.add(name=name)
        for index, address in tasks.items() if isinstance(tasks, dict) else enumerate(tasks):
            job.tasks[index] = address
    return definition


@pytest.fixture
def ps(cluster):
    return cluster.jobs["ps"][0]


@pytest.fixture
def workers(cluster):
    return cluster.jobs["worker"]


def named(cluster, graph, definition, **fields):
    return v1.Session(cluster.master, graph=graph, config=config(cluster_def=definition, **fields))


def test_tasks_go_by_the_names_of_the_session(cluster, graph, ps, workers):
    with tf.device("/job:beta/task:0"):
        x = v1.placeholder(tf.float32, name="x")
        y = x * 2.0
    with tf.device("/job:alpha/task:0"):
        z = y + 1.0
    with named(cluster, graph, cluster_def(alpha=[workers[1], workers[0]], beta=[ps])) as sess:
        assert sess.run([y, z], {x: 3.0}) == [6.0, 7.0]
        assert {d.name for d in sess.list_devices()} == {
            "/job:alpha/replica:0/task:0/device:CPU:0",
            "/job:alpha/replica:0/task:1/device:CPU:0",
            "/job:beta/replica:0/task:0/device:CPU:0",
        }


def test_devices_keep_their_incarnation(cluster, graph, workers):
    tf.constant(1)
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        usual = {d.name: d.incarnation for d in sess.list_devices()}
    with named(cluster, graph, cluster_def(alpha={7: workers[0], 3: workers[1]})) as sess:
        found = {d.name: d.incarnation for d in sess.list_devices()}
    assert found["/job:alpha/replica:0/task:7/device:CPU:0"] == usual["/job:worker/replica:0/task:0/device:CPU:0"]
    assert found["/job:alpha/replica:0/task:3/device:CPU:0"] == usual["/job:worker/replica:0/task:1/device:CPU:0"]


def test_loops_and_transfers_between_renamed_tasks(cluster, graph, ps, workers):
    v1.disable_control_flow_v2()
    try:
        with tf.device("/job:alpha/task:0"):
            n = v1.placeholder(tf.int32, [])

            def body(i, a):
                with tf.device("/job:beta/task:0"):
                    return i + 1, a * 2.0

            _, a = v1.while_loop(lambda i, _: i < n, body, [tf.constant(0), tf.constant(1.0)])
    finally:
        v1.enable_control_flow_v2()
    with named(cluster, graph, cluster_def(alpha=[workers[0]], beta=[ps, workers[1]])) as sess:
        for k in (0, 3, 10):
            assert sess.run(a, {n: k}) == 2.0**k


@pytest.mark.parametrize("shared", [False, True])
def test_state_is_the_sessions_own_unless_shared(cluster, graph, ps, workers, use_resource, shared):
    with tf.device("/job:beta/task:0"):
        v = v1.get_variable("v", initializer=1.0, use_resource=use_resource)
        more = v1.assign_add(v, 1.0)
    definition = cluster_def(alpha=[workers[0]], beta=[ps])
    fields = config(cluster_def=definition)
    fields.experimental.share_session_state_in_clusterspec_propagation = shared
    with v1.Session(cluster.master, graph=graph, config=fields) as first:
        first.run(v.initializer)
        assert first.run(more) == 2.0
        with v1.Session(cluster.master, graph=graph, config=fields) as second:
            if shared:
                assert second.run(v) == 2.0
            else:
                with fails(tf.errors.FailedPreconditionError):
                    second.run(v)


def test_statistics_and_partition_graphs_name_the_sessions_devices(cluster, graph, ps, workers):
    with tf.device("/job:beta/task:0"):
        y = tf.random.uniform([])
    with tf.device("/job:alpha/task:0"):
        z = y + 1.0
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with named(cluster, graph, cluster_def(alpha=[workers[0]], beta=[ps])) as sess:
        sess.run(z, options=options, run_metadata=metadata)
    ours = {"/job:alpha/replica:0/task:0/device:CPU:0", "/job:beta/replica:0/task:0/device:CPU:0"}
    assert {d.device for d in metadata.step_stats.dev_stats} == ours
    assert {n.device for g in metadata.partition_graphs for n in g.node} == ours


def test_filters_mean_the_sessions_names(cluster, graph, workers):
    x = tf.constant(3.0) + 1.0
    definition = cluster_def(alpha=[workers[0]], beta=[workers[1]], gamma=["127.0.0.1:1"])
    with named(cluster, graph, definition, device_filters=["/job:alpha", "/job:beta"]) as sess:
        assert sess.run(x) == 4.0
        assert len(sess.list_devices()) == 2


def test_a_cluster_without_the_master(cluster, graph, workers):
    x = tf.constant(1)
    with named(cluster, graph, cluster_def(alpha=[workers[1]])) as sess:
        with fails(Invalid, "The master (current machine) is not included in the provided cluster_def. job {"):
            sess.run(x)


def test_a_cluster_with_the_master_twice(cluster, graph, workers):
    x = tf.constant(1)
    with named(cluster, graph, cluster_def(alpha=[workers[0]], beta=[workers[0]])) as sess:
        with fails(Invalid, f"Found multiple matching tasks that correspond to to the master. Master target: '{cluster.master}'"):
            sess.run(x)


def test_a_cluster_that_calls_the_master_what_it_is_called_anyway(cluster, graph, workers):
    x = tf.constant(1)
    with named(cluster, graph, cluster_def(worker=workers)) as sess:
        with fails(Invalid, "This is currently not allowed. Job: worker, task index: 0"):
            sess.run(x)


def test_devices_of_the_usual_cluster_are_not_there(cluster, graph, workers):
    with tf.device("/job:worker/task:1"):
        x = tf.constant(1) + v1.placeholder_with_default(1, [])
    with named(cluster, graph, cluster_def(alpha=[workers[0]])) as sess:
        with fails(Invalid, "available devices are [ /job:alpha/replica:0/task:0/device:CPU:0 ]"):
            sess.run(x)


def test_an_address_that_is_none(cluster, graph, workers):
    x = tf.constant(1)
    with named(cluster, graph, cluster_def(alpha=[workers[0]], beta=["127.0.0.1:x"])) as sess:
        with fails(Invalid, "127.0.0.1:x"):
            sess.run(x)


def test_an_empty_cluster_is_the_servers_own(cluster, graph):
    with tf.device("/job:worker/task:1"):
        x = tf.constant(1) + v1.placeholder_with_default(1, [])
    with named(cluster, graph, cluster_def()) as sess:
        assert sess.run(x) == 2
