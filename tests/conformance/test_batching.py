"""Functions that kernels run, and batches of several steps: clients that meet, and waits that end."""

import threading
import time

import numpy as np
import tensorflow as tf

from support import W1, fails, is_in_time, session, v1

Deadline = tf.errors.DeadlineExceededError
LONG = 100_000_000  # microseconds


def size_of_batch(x, name, rows):
    """For each row of x, how many are in its batch."""
    f = tf.function(lambda y: tf.zeros_like(y) + tf.cast(tf.shape(y)[0], tf.float32), autograph=False)
    g = f.get_concrete_function(tf.TensorSpec([None], tf.float32))
    y = tf.raw_ops.BatchFunction(in_tensors=[x], captured_tensors=[], Tout=[tf.float32], f=g, num_batch_threads=1, max_batch_size=rows, batch_timeout_micros=LONG, shared_name=name)
    return y[0]


def test_steps_of_two_sessions_are_joined(cluster, graph, unique):
    with tf.device(W1):
        x = v1.placeholder(tf.float32, [None])
        y = size_of_batch(x, unique, 5)
    got = {}

    def client(rows):
        with session(cluster.master, graph) as sess:
            got[rows] = sess.run(y, {x: np.zeros(rows)})

    clients = [threading.Thread(target=client, args=(rows,)) for rows in (2, 3)]
    for c in clients:
        c.start()
    for c in clients:
        c.join(60)
    assert {rows: list(v) for rows, v in got.items()} == {2: [5] * 2, 3: [5] * 3}


def test_a_request_that_waits_ends_with_its_step(cluster, graph, unique):
    with tf.device(W1):
        x = v1.placeholder(tf.float32, [None])
        y = size_of_batch(x, unique, 3)
        b = tf.raw_ops.Batch(in_tensors=[x], num_batch_threads=1, max_batch_size=3, batch_timeout_micros=LONG, grad_timeout_micros=LONG, shared_name=unique + "b")
    with session(cluster.master, graph) as sess:
        for waits in (y, b.id):
            began = time.monotonic()
            with fails(Deadline):
                sess.run(waits, {x: [1]}, options=v1.RunOptions(timeout_in_ms=300))
            assert is_in_time(time.monotonic() - began, 5)
        assert list(sess.run(y, {x: [1, 2, 3]})) == [3, 3, 3]  # the cancelled request is not among them


def test_a_function_that_waits_ends_with_its_step(cluster, graph):
    with tf.device(W1):
        handle = tf.raw_ops.FIFOQueueV2(component_types=[tf.int32], shapes=[[]])
        f = tf.function(lambda row, h: row + tf.raw_ops.QueueDequeueV2(handle=h, component_types=[tf.int32])[0], autograph=False)
        g = f.get_concrete_function(tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.resource))
        y = tf.raw_ops.MapDefun(arguments=[tf.constant([1, 2])], captured_inputs=[handle], output_types=[tf.int32], output_shapes=[[]], f=g)[0]
        put = tf.raw_ops.QueueEnqueueManyV2(handle=handle, components=[tf.constant([10, 10])])
    with session(cluster.master, graph) as sess:
        began = time.monotonic()
        with fails(Deadline):
            sess.run(y, options=v1.RunOptions(timeout_in_ms=300))
        assert is_in_time(time.monotonic() - began, 5)
        sess.run(put)
        assert list(sess.run(y)) == [11, 12]
