"""Servers that die and come back: errors instead of hangs, and recovery."""

import signal
import time

import pytest
import tensorflow as tf

from support import PS, W1, config, fails, is_in_time, session, v1
from test_queues import Background

LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError)


def test_a_worker_that_dies_during_a_step(own_cluster, graph):
    with tf.device(W1):
        q = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])
        get = q.dequeue()
    with tf.device(PS):
        y = get + 1
    sess = session(own_cluster.master, graph)
    sess.run(q.size())
    blocked = Background(lambda: sess.run(y))
    assert blocked.is_blocked()
    began = time.monotonic()
    own_cluster.kill("worker", 1)
    with pytest.raises(LOST):
        blocked.result()
    assert is_in_time(time.monotonic() - began, 15)
    own_cluster.restart("worker", 1)  # a stock server only closes the session when all of its workers answer
    sess.close()


def test_others_go_on_while_one_is_dead(own_cluster, graph):
    x = v1.placeholder(tf.float32)
    with tf.device(PS):
        near = x * 2.0
    with tf.device(W1):
        far = x * 3.0
    with session(own_cluster.master, graph, timeout_ms=30000) as sess:
        assert sess.run([near, far], {x: 1.0}) == [2.0, 3.0]
        own_cluster.kill("worker", 1)
        with pytest.raises(LOST + (tf.errors.DeadlineExceededError,)):
            sess.run(far, {x: 1.0})
        assert sess.run(near, {x: 2.0}) == 4.0
        own_cluster.restart("worker", 1)
    with session(own_cluster.master, graph) as sess:
        assert sess.run([near, far], {x: 1.0}) == [2.0, 3.0]


def test_a_restarted_server_does_not_know_old_sessions(own_cluster, graph):
    x = tf.constant(1) + 1
    sess = session(own_cluster.master, graph)
    assert sess.run(x) == 2
    own_cluster.kill("worker", 0)
    own_cluster.restart("worker", 0)
    with pytest.raises(LOST):
        sess.run(x)
    with session(own_cluster.master, graph) as again:
        assert again.run(x) == 2


def test_a_restarted_worker_is_noticed(own_cluster, graph):
    """Its registered graphs are gone: steps fail with ABORTED or UNAVAILABLE, which clients take as 'start anew'."""
    with tf.device(W1):
        x = tf.square(v1.placeholder(tf.float32, [], name="x"))
    with session(own_cluster.master, graph, timeout_ms=30000) as sess:
        assert sess.run(x, {"x:0": 3.0}) == 9.0
        own_cluster.kill("worker", 1)
        own_cluster.restart("worker", 1)
        with pytest.raises((tf.errors.AbortedError, tf.errors.UnavailableError)):
            for _ in range(3):
                sess.run(x, {"x:0": 3.0})
    with session(own_cluster.master, graph) as sess:
        assert sess.run(x, {"x:0": 3.0}) == 9.0


@pytest.mark.parametrize("victim", [("ps", 0), ("worker", 1)], ids=["ps", "worker"])
def test_a_monitored_session_recovers(own_cluster, tmp_path, victim):
    with tf.Graph().as_default():
        with tf.device(PS):
            step = v1.train.get_or_create_global_step()
            w = v1.Variable(0.0, use_resource=True, name="w")
        with tf.device(W1):
            gradient = tf.identity(v1.placeholder_with_default(1.0, []))
        train = v1.group(v1.assign_add(w, gradient), v1.assign_add(step, 1))
        with v1.train.MonitoredTrainingSession(
            own_cluster.master,
            is_chief=True,
            checkpoint_dir=str(tmp_path),
            save_checkpoint_steps=5,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            hooks=[v1.train.StopAtStepHook(last_step=40)],
            config=config(60000),
        ) as sess:
            runs = 0
            while not sess.should_stop():
                sess.run(train)
                runs += 1
                if runs == 17:
                    own_cluster.kill(*victim)
                    own_cluster.restart(*victim)
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert reader.get_tensor("global_step") == 40
    assert reader.get_tensor("w") == 40.0
    assert runs >= 40


@pytest.mark.weft_only
def test_a_server_stops_within_a_second_and_its_port_is_free(own_cluster, graph):
    x = tf.constant(5)
    for sig in (signal.SIGTERM, signal.SIGINT):
        with session(own_cluster.master, graph) as sess:
            assert sess.run(x) == 5
        server = own_cluster.servers["worker", 0]
        code, seconds = server.stop(sig)
        assert is_in_time(seconds, 1)
        assert code == 0
        own_cluster.restart("worker", 0)


@pytest.mark.weft_only
def test_a_server_stops_during_a_step(own_cluster, graph):
    with tf.device(PS):
        get = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]]).dequeue()
    with session(own_cluster.master, graph) as sess:
        sess.run(tf.constant(0))
        blocked = Background(lambda: sess.run(get))
        assert blocked.is_blocked()
        assert is_in_time(own_cluster.servers["ps", 0].stop(signal.SIGTERM)[1], 1)
        with pytest.raises(tf.errors.OpError):
            blocked.result()


@pytest.mark.weft_only  # a stock server cannot be terminated alone
@pytest.mark.parametrize("victim", [("ps", 0), ("worker", 0), ("worker", 1)], ids=["ps", "master", "worker"])
def test_an_error_begins_with_the_task_that_was_shut_down(own_cluster, graph, victim):
    with tf.device(PS):
        get = tf.queue.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    with tf.device(W1):
        y = get + 1.0
    sess = session(own_cluster.master, graph)
    sess.run(tf.constant(0))
    blocked = Background(lambda: sess.run(y))
    assert blocked.is_blocked()
    own_cluster.servers[victim].stop(signal.SIGTERM)
    with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)) as caught:
        blocked.result()
    first = caught.value.message.removeprefix("Graph execution error:").strip().split("\n")[0]  # Python's words
    assert f"/job:{victim[0]}/replica:0/task:{victim[1]}" in first
    assert "was shut down" in first
    own_cluster.restart(*victim)


@pytest.mark.weft_only
def test_a_session_that_is_not_found_says_why(own_cluster, graph):
    x = tf.constant(1) + 1
    sess = session(own_cluster.master, graph)
    assert sess.run(x) == 2
    v1.Session.reset(own_cluster.master, ["c1", "c2"])
    with fails(tf.errors.AbortedError, "s ago: a client reset the cluster (containers 'c1', 'c2')."):
        sess.run(x)
    again = session(own_cluster.master, graph)
    assert again.run(x) == 2
    own_cluster.kill("worker", 0)
    own_cluster.restart("worker", 0)
    with fails(tf.errors.AbortedError, "is not found. The master /job:worker/replica:0/task:0 has run since "):
        again.run(x)


def test_a_session_waits_for_servers_that_come_later(own_cluster, graph):
    own_cluster.kill("worker", 1)
    x = tf.constant(7)
    with session(own_cluster.master, graph) as sess:
        waiting = Background(lambda: sess.run(x))
        assert waiting.is_blocked(0.7)
        own_cluster.restart("worker", 1)
        assert waiting.result() == 7


def test_creating_a_session_without_all_servers_can_time_out(own_cluster, graph):
    own_cluster.kill("worker", 1)
    x = tf.constant(7)
    with session(own_cluster.master, graph, timeout_ms=700) as sess:
        with fails(tf.errors.DeadlineExceededError):
            sess.run(x)
    with session(own_cluster.master, graph, device_filters=["/job:ps"]) as sess:
        assert sess.run(x) == 7


@pytest.mark.weft_only  # a stock server logs it, too, but not as it is started here
def test_a_master_names_the_tasks_it_waits_for(own_cluster, graph):
    x = tf.constant(1) + 1
    own_cluster.kill("ps", 0)
    own_cluster.kill("worker", 0)  # it hosts the coordination service: anew, it has never heard of the ps, and waits for it
    own_cluster.restart("worker", 0)
    with session(own_cluster.master, graph, timeout_ms=12000) as sess:
        with fails(tf.errors.DeadlineExceededError):
            sess.run(x)
    log = own_cluster.servers["worker", 0].log_tail()
    assert "CreateSession still waiting for response from worker: /job:ps/replica:0/task:0" in log
    assert "waiting for response from worker: /job:worker" not in log


@pytest.mark.weft_only  # a stock server waits for it
def test_a_session_is_not_made_without_a_task_that_has_died(own_cluster, graph):
    x = tf.constant(1) + 1
    deadline = time.monotonic() + 90
    while True:
        own_cluster.kill("ps", 0)
        began = time.monotonic()
        with session(own_cluster.master, graph, timeout_ms=6000) as sess:
            with pytest.raises((tf.errors.UnavailableError, tf.errors.DeadlineExceededError)) as caught:
                sess.run(x)  # TensorFlow's client asks ten times more, which takes it a second or two
        took = time.monotonic() - began
        if isinstance(caught.value, tf.errors.UnavailableError):
            break
        assert time.monotonic() < deadline, "the master does not hear of the death"
        own_cluster.restart("ps", 0)  # it ended before its first heartbeat, and might yet have started
        with session(own_cluster.master, graph) as sess:
            assert sess.run(x) == 2
    assert "/job:ps/replica:0/task:0" in caught.value.message
    assert is_in_time(took, 5)


def test_sessions_of_a_master_that_was_restarted_are_gone_but_state_stays(own_cluster, graph, use_resource):
    with tf.device(PS):
        v = v1.get_variable("v", initializer=1.0, use_resource=use_resource)
    old = session(own_cluster.master, graph)
    old.run(v.initializer)
    own_cluster.kill("worker", 0)
    own_cluster.restart("worker", 0)
    with fails(tf.errors.AbortedError, "is not found"):
        old.run(v)
    with session(own_cluster.master, graph) as sess:
        assert sess.run(v) == 1.0
