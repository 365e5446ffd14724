"""Processes that stand still: a server that is stopped (SIGSTOP) keeps its connections and answers nothing.

A frozen ps or worker is noticed by Weft's master, which ends the steps that need it and names it. A frozen master does not
answer: stock TensorFlow's client has no heartbeat, its own setting ends the wait (`operation_timeout_in_ms`, or `timeout_in_ms` of
one step). What was frozen is used again as soon as it goes on.
"""

import time

import pytest
import tensorflow as tf

from support import PS, W1, fails, is_in_time, session, v1
from test_queues import Background

pytestmark = pytest.mark.slow

LOST = (tf.errors.UnavailableError, tf.errors.AbortedError)
Deadline = tf.errors.DeadlineExceededError
NOTICED_S = 8  # of heartbeats every second, four of them missed, and what follows
DEVICES = {"ps": PS, "worker": W1}
VICTIMS = [pytest.param("ps", 0, id="ps"), pytest.param("worker", 1, id="worker")]


@pytest.fixture
def known_cluster(monkeypatch, request, maker):
    monkeypatch.setenv("WEFT_LOG_LEVEL", "debug")
    cluster = request.getfixturevalue("own_cluster")
    if maker.name == "weft":
        cluster.wait_until_known()
    return cluster


def training(device):
    """A variable on the device and a step that adds one to it."""
    with tf.device(device):
        w = v1.get_variable("w", [], tf.float32, v1.zeros_initializer(), use_resource=True)
        step = v1.assign_add(w, 1.0)
    return w, v1.global_variables_initializer(), step


def works_again(cluster, graph, fetch):
    """A new session on the same cluster; what is told of a thaw may come a moment after it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with session(cluster.master, graph, timeout_ms=20000) as again:
                return again.run(fetch)
        except LOST:
            assert time.monotonic() < deadline, "the cluster is not whole again"


@pytest.mark.weft_only
@pytest.mark.parametrize("job, task", VICTIMS)
@pytest.mark.parametrize("moment", ["first step", "later step", "in a step"])
def test_a_frozen_task_is_named(known_cluster, graph, job, task, moment):
    w, init, step = training(DEVICES[job])
    with tf.device(DEVICES[job]):
        q = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])
        get = q.dequeue()
    sess = session(known_cluster.master, graph)
    if moment != "first step":
        sess.run(init)
        assert sess.run(step) == 1.0
    blocked = None
    if moment == "in a step":
        blocked = Background(lambda: sess.run(get))
        assert blocked.is_blocked()
    with known_cluster.frozen(job, task):
        began = time.monotonic()
        with pytest.raises(LOST, match=f"/job:{job}/replica:0/task:{task}"):
            blocked.result() if blocked else sess.run(init if moment == "first step" else step)
        assert is_in_time(time.monotonic() - began, NOTICED_S)
    sess.close()
    works_again(known_cluster, graph, init)
    assert works_again(known_cluster, graph, step) == 1.0


@pytest.mark.weft_only
@pytest.mark.parametrize("job, task", VICTIMS)
def test_a_session_is_not_made_with_a_frozen_task(known_cluster, graph, job, task):
    _, init, step = training(DEVICES[job])
    with session(known_cluster.master, graph) as sess:
        sess.run(init)
    with known_cluster.frozen(job, task):
        began = time.monotonic()
        with pytest.raises(LOST, match=f"/job:{job}/replica:0/task:{task}"):
            with session(known_cluster.master, graph) as sess:
                sess.run(init)
        assert is_in_time(time.monotonic() - began, NOTICED_S)
    works_again(known_cluster, graph, init)
    assert works_again(known_cluster, graph, step) == 1.0


@pytest.mark.parametrize("moment", ["session", "first step", "later step", "in a step"])
def test_a_frozen_master_meets_the_deadline_of_the_session(known_cluster, graph, moment):
    w, init, step = training(PS)
    with tf.device(PS):
        q = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])
        get = q.dequeue()
    sess = session(known_cluster.master, graph, timeout_ms=4000)
    if moment in ("later step", "in a step"):
        sess.run(init)
        assert sess.run(step) == 1.0
    blocked = None
    if moment == "in a step":
        blocked = Background(lambda: sess.run(get))
        assert blocked.is_blocked()
    elif moment != "session":
        sess.run(q.size())
    with known_cluster.frozen("worker", 0):
        began = time.monotonic()
        with fails(Deadline):
            blocked.result() if blocked else sess.run(step if moment == "later step" else init)
        assert is_in_time(time.monotonic() - began, 6)
        if moment == "session":
            sess.close()  # there is none
        else:
            with fails(Deadline):  # closing meets it, too
                sess.close()
        assert is_in_time(time.monotonic() - began, 12)
    works_again(known_cluster, graph, init)
    assert works_again(known_cluster, graph, step) == 1.0


def test_a_frozen_master_meets_the_deadline_of_a_step(known_cluster, graph):
    w, init, step = training(PS)
    sess = session(known_cluster.master, graph)
    sess.run(init)
    with known_cluster.frozen("worker", 0):
        began = time.monotonic()
        with fails(Deadline):
            sess.run(step, options=v1.RunOptions(timeout_in_ms=2000))
        assert is_in_time(time.monotonic() - began, 4)
    assert sess.run(step) in (1.0, 2.0)  # the request may have reached the master before it stood still
    sess.close()
