"""Deadlines: a step that takes too long ends for the client and on the servers."""

import time

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W1, config, fails, is_in_time, session, v1
from test_queues import Background

Deadline = tf.errors.DeadlineExceededError


def never(device):
    """A dequeue that waits for ever, and an enqueue that ends it."""
    with tf.device(device):
        q = tf.queue.FIFOQueue(5, [tf.int32], shapes=[[]])
        return q.dequeue(), q.enqueue(1), q.size()


def test_a_step_with_a_deadline_ends(cluster, graph):
    for device in (PS, W1, ""):
        get, put, size = never(device)
        with session(cluster.master, graph) as sess:
            began = time.monotonic()
            with fails(Deadline):
                sess.run(get, options=v1.RunOptions(timeout_in_ms=300))
            took = time.monotonic() - began
            assert took > 0.25 and is_in_time(took, 5)
            sess.run(put)
            assert sess.run(size) == 1  # the cancelled dequeue did not take it
            assert sess.run(get) == 1


def test_the_default_deadline_of_a_session(cluster, graph):
    get, put, _ = never(PS)
    with session(cluster.master, graph, timeout_ms=4000) as sess:
        sess.run(put)
        assert sess.run(get) == 1
        with fails(Deadline):
            sess.run(get)
        sess.run(put)
        assert sess.run(get) == 1


def test_a_deadline_does_not_disturb_other_steps(cluster, graph):
    get, put, _ = never(PS)
    x = v1.placeholder(tf.float32)
    y = x + 1.0
    with session(cluster.master, graph) as sess:
        late = Background(lambda: sess.run(get, options=v1.RunOptions(timeout_in_ms=400)))
        for i in range(200):
            assert sess.run(y, {x: i}) == i + 1.0
        with fails(Deadline):
            late.result()


def test_a_deadline_ends_a_loop(cluster, graph):
    v1.disable_control_flow_v2()
    try:
        loop = v1.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i, 0), [v1.placeholder(tf.int32, [])])
    finally:
        v1.enable_control_flow_v2()
    x = tf.constant(1) + 1
    with session(cluster.master, graph) as sess:
        with fails(Deadline):
            sess.run(loop, {"Placeholder:0": 0}, options=v1.RunOptions(timeout_in_ms=300))
        assert sess.run(x) == 2


@pytest.mark.parametrize("micros", [10**6, 10**13, 10**16, 2**63 - 1])
def test_a_pause_of_any_length_ends_with_its_step(cluster, graph, micros):
    """From 9223372036854776 microseconds on their nanoseconds have no place in 64 bits."""
    variant = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.Dataset.range(3)._variant_tensor, sleep_microseconds=np.int64(micros), output_types=[tf.int64], output_shapes=[[]]
    )
    iterator = tf.raw_ops.AnonymousIteratorV3(output_types=[tf.int64], output_shapes=[[]])
    begin = tf.raw_ops.MakeIterator(dataset=variant, iterator=iterator)
    with tf.control_dependencies([begin]):
        row = tf.raw_ops.IteratorGetNext(iterator=iterator, output_types=[tf.int64], output_shapes=[[]])[0]
    with session(cluster.master, graph) as sess:
        with fails(Deadline):
            sess.run(row, options=v1.RunOptions(timeout_in_ms=300))
        assert sess.run(tf.constant(2)) == 2


def test_a_generous_deadline_does_no_harm(cluster, graph):
    x = tf.constant(20) + 1
    with session(cluster.master, graph) as sess:
        assert sess.run(x, options=v1.RunOptions(timeout_in_ms=20000)) == 21


def test_a_server_that_is_not_there(graph):
    """The client waits for a server to come; only its own deadline ends that."""
    tf.constant(1)
    with v1.Session("grpc://127.0.0.1:1", graph=graph, config=config(700)) as sess:
        with fails(Deadline):
            sess.run(tf.constant(2))
