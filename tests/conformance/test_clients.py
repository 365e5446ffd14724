"""Several clients at once: threads of one process, and processes of their own."""

import threading
import time

import tensorflow as tf

from support import PS, W1, finish_client, session, spawn_client, v1


def in_threads(count, function):
    errors = []

    def guarded(i):
        try:
            function(i)
        except Exception as e:  # shown by the assertion below, on the test's thread
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


def test_threads_of_one_session(cluster, graph, use_resource):
    with tf.device(PS):
        v = v1.Variable(0, use_resource=use_resource)
        add = v1.assign_add(v, 1, use_locking=True).op
    x = v1.placeholder(tf.int32, [])
    with tf.device(W1):
        y = x * 2
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)

        def work(i):
            for k in range(100):
                sess.run(add)
                assert sess.run(y, {x: 1000 * i + k}) == 2 * (1000 * i + k)

        in_threads(6, work)
        assert sess.run(v) == 600


def test_sessions_in_threads_on_different_masters(cluster, graph, use_resource):
    with tf.device(PS):
        v = v1.Variable(0, use_resource=use_resource)
        add = v1.assign_add(v, 1, use_locking=True).op
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)

    def work(i):
        with session(cluster.target("worker", i % 2), graph) as sess:
            for _ in range(50):
                sess.run(add)

    in_threads(4, work)
    with session(cluster.master, graph) as sess:
        assert sess.run(v) == 200


def test_threads_with_graphs_of_their_own(cluster, unique):
    def work(i):
        with tf.Graph().as_default() as g, g.container(f"{unique}.{i}"):
            with tf.device([PS, W1, ""][i % 3]):
                v = v1.Variable(float(i), use_resource=bool(i % 2), name="v")
                step = v1.assign_add(v, 1.0).op
            with session(cluster.target("worker", i % 2), g) as sess:
                sess.run(v.initializer)
                for _ in range(20):
                    sess.run(step)
                assert sess.run(v) == i + 20.0

    in_threads(6, work)


def test_processes_share_a_variable(cluster, graph, unique, use_resource):
    with tf.device(PS):
        v = v1.Variable([0.0] * 100, use_resource=use_resource, name="shared")
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        clients = [
            spawn_client("add.py", cluster.target("worker", i), unique, 200, int(use_resource)) for i in (0, 1)
        ]
        for c in clients:
            assert finish_client(c) == "read 100\n"
        assert sess.run(v).tolist() == [400.0] * 100


def test_a_client_that_is_killed_leaves_the_servers_well(cluster, graph, unique):
    with tf.device(PS):
        v = v1.Variable([0.0] * 100, use_resource=True, name="shared")
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        client = spawn_client("add.py", cluster.target("worker", 1), unique, 10**9, 1)
        while sess.run(v)[0] < 10.0:
            assert client.poll() is None
        client.kill()
        client.communicate()
        before = sess.run(v)[0]
        assert before >= 10.0
        sess.run(v.assign_add([1.0] * 100, read_value=False))


def test_a_client_that_is_killed_leaves_no_step_behind(cluster, graph, unique):
    """What it waited for goes to the other clients."""
    with tf.device(PS):
        queue = tf.queue.FIFOQueue(5, [tf.int32], shapes=[[]], shared_name=unique)
        put, size = queue.enqueue(41), queue.size()
    client = spawn_client("blocked.py", cluster.master, unique)
    with session(cluster.master, graph) as sess:
        assert client.stdout.readline() == "ready\n"
        sess.run(put)  # the one that it waits for, or the one that it is about to wait for
        assert client.wait(90) == 0
        client.communicate()
        client = spawn_client("blocked.py", cluster.master, unique)
        assert client.stdout.readline() == "ready\n"
        time.sleep(0.5)  # now it waits
        client.kill()
        client.communicate()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            sess.run(put)
            if sess.run(size) > 0:
                return
            time.sleep(0.1)
        assert False, "a dead client still takes elements"
