"""What a session offers besides run(): callables, partial runs, devices, growing graphs, closing, resetting."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from support import PS, W1, config, fails, session, v1
from test_queues import Background


def test_a_graph_may_grow_between_runs(cluster, graph):
    with session(cluster.master, graph) as sess:
        a = tf.constant(1.0)
        assert sess.run(a) == 1.0
        for i in range(5):
            with tf.device(W1 if i % 2 else PS):
                a = a + 1.0
            assert sess.run(a) == i + 2.0


def test_stateful_nodes_stay_when_the_graph_grows(cluster, graph, use_resource):
    v = v1.Variable(1.0, use_resource=use_resource)
    q = tf.queue.FIFOQueue(5, [tf.float32], shapes=[[]])
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        sess.run(q.enqueue(2.0))
        double = v * 2.0
        assert sess.run(double) == 2.0
        assert sess.run(q.dequeue() + v) == 3.0


def test_functions_may_come_with_an_extension(cluster, graph):
    @tf.function(autograph=False)
    def square(x):
        return x * x

    with session(cluster.master, graph) as sess:
        x = tf.constant(3.0)
        assert sess.run(x) == 3.0
        y = square(x)
        assert sess.run(y) == 9.0
        assert sess.run(square(y)) == 81.0


def test_make_callable(cluster, graph):
    x = v1.placeholder(tf.float32, [])
    y = x * 2.0
    v = v1.Variable(1, use_resource=True)
    add = v.assign_add(1, read_value=False)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        double, bump = sess.make_callable(y, [x]), sess.make_callable(add)
        pair = sess.make_callable([v, y], [x])
        assert [double(1.0), double(2.5)] == [2.0, 5.0]
        assert bump() is None
        assert [float(a) for a in pair(4.0)] == [2.0, 8.0]


def callable_options(feeds, fetches, targets=()):
    options = config_pb2.CallableOptions()
    options.feed.extend(t.name for t in feeds)
    options.fetch.extend(t.name for t in fetches)
    options.target.extend(op.name for op in targets)
    return options


def test_callables_of_the_server(cluster, graph):
    """_make_callable_from_options() uses MakeCallable and RunCallable instead of RunStep."""
    x, z = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
    with tf.device(W1):
        y = x - z
    v = v1.Variable(0, use_resource=True)
    add = v.assign_add(1, read_value=False)
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        run = sess._make_callable_from_options(callable_options([z, x], [y, v.read_value()], [add]))
        for _ in range(3):
            got = run(np.float32(1.0), np.array([5.0, 6.0], np.float32))
            assert got[0].tolist() == [4.0, 5.0]
        assert sess.run(v) == 3
        del run
        assert sess.run(v) == 3


def test_errors_of_a_callable_name_the_node(cluster, graph):
    x = v1.placeholder(tf.int32)
    y = tf.math.floordiv(10, x, name="quotient")
    with session(cluster.master, graph) as sess:
        run = sess._make_callable_from_options(callable_options([x], [y]))
        assert run(np.int32(2)) == [5]
        with pytest.raises(tf.errors.InvalidArgumentError, match="quotient"):
            run(np.int32(0))
        assert run(np.int32(5)) == [2]


def test_a_partial_run_goes_on_where_it_stopped(cluster, graph):
    a, b, c = (v1.placeholder(tf.float32, []) for _ in range(3))
    first = a + b
    with tf.device(W1):
        second = first * c
    with session(cluster.master, graph) as sess:
        for k in range(3):
            handle = sess.partial_run_setup([first, second], [a, b, c])
            assert sess.partial_run(handle, first, {a: 1.0, b: 2.0 + k}) == 3.0 + k
            assert sess.partial_run(handle, second, {c: 10.0}) == 30.0 + 10.0 * k


def test_a_partial_run_may_feed_what_it_fetched(cluster, graph):
    a = v1.placeholder(tf.float32, [])
    x = a * 2.0
    y = v1.placeholder(tf.float32, [])
    z = y + 1.0
    with session(cluster.master, graph) as sess:
        handle = sess.partial_run_setup([x, z], [a, y])
        got = sess.partial_run(handle, x, {a: 3.0})
        assert sess.partial_run(handle, z, {y: got}) == 7.0


def test_misuse_of_a_partial_run_is_refused(cluster, graph):
    a, b = v1.placeholder(tf.float32, [], name="a"), v1.placeholder(tf.float32, [], name="b")
    x, y = a + 1.0, b + 1.0
    with session(cluster.master, graph) as sess:
        handle = sess.partial_run_setup([x], [a])
        with fails(tf.errors.InvalidArgumentError, "not specified in partial_run_setup"):
            sess.partial_run(handle, y, {b: 1.0})
        handle = sess.partial_run_setup([x, y], [a, b])
        with fails(tf.errors.InvalidArgumentError):
            sess.partial_run(handle, x, {b: 1.0})
        handle = sess.partial_run_setup([x], [a])
        assert sess.partial_run(handle, x, {a: 1.0}) == 2.0
        with fails(tf.errors.InvalidArgumentError):
            sess.partial_run(handle, x, {a: 1.0})


def test_devices_are_listed(cluster, graph):
    with session(cluster.master, graph) as sess:
        devices = sess.list_devices()
        cpus = {d.name: d for d in devices if d.device_type == "CPU"}
        want = [f"/job:{j}/replica:0/task:{t}/device:CPU:0" for j, t in (("ps", 0), ("worker", 0), ("worker", 1))]
        assert sorted(cpus) == want
        assert all(d.incarnation != 0 for d in cpus.values())
        assert len({d.incarnation for d in cpus.values()}) == 3
        assert all(d.memory_limit_bytes > 0 for d in cpus.values())
        assert sess.run(tf.constant(1)) == 1  # the graph comes after an empty one
        assert len(sess.list_devices()) == len(devices)


def test_every_server_is_a_master(cluster, graph):
    with tf.device(PS):
        a = tf.constant(2.0)
    with tf.device(W1):
        b = a * 3.0
    for job, task in (("ps", 0), ("worker", 0), ("worker", 1)):
        with session(cluster.target(job, task), graph) as sess:
            assert sess.run(b) == 6.0


def test_device_filters_hide_tasks(cluster, graph):
    with session(cluster.master, graph, device_filters=["/job:ps", "/job:worker/task:0"]) as sess:
        names = {d.name for d in sess.list_devices()}
        assert names == {"/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"}
    with tf.device(W1):
        x = tf.constant(1.0, name="hidden")
    with session(cluster.master, graph, device_filters=["/job:ps"]) as sess:
        with fails(tf.errors.InvalidArgumentError, "hidden"):
            sess.run(x)


def test_a_closed_session_is_closed(cluster, graph):
    x = tf.constant(1)
    sess = session(cluster.master, graph)
    assert sess.run(x) == 1
    sess.close()
    with pytest.raises(RuntimeError, match="closed"):
        sess.run(x)
    sess.close()


def test_closing_ends_a_blocked_step(cluster, graph):
    with tf.device(PS):
        q = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])
    get = q.dequeue()
    sess = session(cluster.master, graph)
    sess.run(q.size())
    blocked = Background(lambda: sess.run(get))
    assert blocked.is_blocked()
    sess.close()
    with fails(tf.errors.CancelledError):
        blocked.result()


def test_interactive_sessions(cluster, graph):
    sess = v1.InteractiveSession(cluster.master, graph=graph, config=config())
    try:
        assert tf.constant(4.0).eval() == 4.0
        v = v1.Variable(3.0, use_resource=True)
        v.initializer.run()
        assert v.eval() == 3.0
    finally:
        sess.close()


def test_reset_clears_the_named_containers_and_closes_sessions(own_cluster, use_resource):
    made = {}
    for container in ("keep", "drop"):
        with tf.Graph().as_default() as g, g.container(container), tf.device(PS):
            v = v1.Variable(1.0, use_resource=use_resource, name="v")
        made[container] = (g, v)
        with session(own_cluster.master, g) as sess:
            sess.run(v.initializer)
    old = session(own_cluster.master, made["keep"][0])
    assert old.run(made["keep"][1]) == 1.0
    v1.Session.reset(own_cluster.master, ["drop"], config())
    with pytest.raises(tf.errors.AbortedError):
        old.run(made["keep"][1])
    with session(own_cluster.master, made["keep"][0]) as sess:
        assert sess.run(made["keep"][1]) == 1.0
    with session(own_cluster.master, made["drop"][0]) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(made["drop"][1])
    with tf.Graph().as_default() as g, tf.device(PS):
        v = v1.Variable(1.0, use_resource=use_resource, name="v")
    with session(own_cluster.master, g) as sess:
        sess.run(v.initializer)
    v1.Session.reset(own_cluster.master, None, config())  # the default container
    with session(own_cluster.master, g) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(v)


def test_many_short_sessions(cluster, graph):
    x = tf.constant(1) + 1
    for _ in range(50):
        with session(cluster.master, graph) as sess:
            assert sess.run(x) == 2


def test_many_signatures_on_one_session(cluster, graph):
    xs = [tf.constant(float(i)) * 2.0 for i in range(60)]
    with session(cluster.master, graph) as sess:
        for i, x in enumerate(xs):
            assert sess.run(x) == 2.0 * i


def test_a_session_on_a_meta_graph_made_elsewhere(cluster, graph, tmp_path):
    x = v1.placeholder(tf.float32, [None], name="x")
    tf.reduce_sum(tf.square(x), name="y")
    path = str(tmp_path / "graph.pb")
    tf.io.write_graph(graph, str(tmp_path), "graph.pb", as_text=False)
    definition = v1.GraphDef()
    with open(path, "rb") as f:
        definition.ParseFromString(f.read())
    with tf.Graph().as_default() as other:
        tf.import_graph_def(definition, name="imported")
        with session(cluster.master, other) as sess:
            assert sess.run("imported/y:0", {"imported/x:0": [3.0, 4.0]}) == 25.0


def test_the_default_container_is_named_as_the_job(own_cluster, use_resource):
    with tf.Graph().as_default() as g:
        with tf.device(PS):
            v = v1.get_variable("v", initializer=1.0, use_resource=use_resource)
        with tf.device("/job:worker/task:1"):
            w = v1.get_variable("w", initializer=2.0, use_resource=use_resource)
    for containers, left in ((["localhost"], (True, True)), (["ps"], (False, True)), ([], (False, False))):
        with session(own_cluster.master, g) as sess:
            sess.run([v.initializer, w.initializer])
        v1.Session.reset(own_cluster.master, containers)
        with session(own_cluster.master, g) as sess:
            assert tuple(sess.run([v1.is_variable_initialized(v), v1.is_variable_initialized(w)])) == left


@pytest.mark.weft_only
def test_tensors_stay_in_the_session(cluster, graph):
    """TensorFlow's workers keep none: only a session of one process does."""
    with session(cluster.master, graph) as sess:
        with tf.device(W1):
            handle = sess.run(v1.get_session_handle(tf.constant([1.0, 2.0]) * 2.0))
        assert "/job:worker/replica:0/task:1/" in handle.handle.split(";")[-1]
        holder, value = v1.get_session_tensor(handle.handle, tf.float32)
        doubled = value * 2.0
        for _ in range(2):
            assert sess.run(doubled, {holder: handle.handle}).tolist() == [4.0, 8.0]
        where, delete = v1.delete_session_tensor(handle.handle)
        sess.run(delete, {where: handle.handle})
        with fails(tf.errors.InvalidArgumentError, "is not in the session store"):
            sess.run(value, {holder: handle.handle})


@pytest.mark.weft_only
def test_tensors_of_a_session_end_with_it(cluster):
    with tf.Graph().as_default() as graph:
        with session(cluster.master, graph) as sess:
            handle = sess.run(v1.get_session_handle(tf.constant(1.0)))
    with tf.Graph().as_default() as graph, session(cluster.master, graph) as sess:
        holder, value = v1.get_session_tensor(handle.handle, tf.float32)
        with fails(tf.errors.InvalidArgumentError, "is not in the session store"):
            sess.run(value, {holder: handle.handle})
