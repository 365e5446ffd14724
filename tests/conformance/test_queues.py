"""Queues: order, capacity, closing, cancelling, and that a blocked run holds up no other run."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W1, fails, session, v1

KINDS = {
    "fifo": lambda capacity, **k: tf.queue.FIFOQueue(capacity, [tf.int32], shapes=[[]], **k),
    "random": lambda capacity, **k: tf.queue.RandomShuffleQueue(capacity, 0, [tf.int32], shapes=[[]], seed=1, **k),
    "padding": lambda capacity, **k: tf.queue.PaddingFIFOQueue(capacity, [tf.int32], shapes=[[]], **k),
}


class Background:
    """Runs a function on a thread of its own and keeps what it returned or raised."""

    def __init__(self, function):
        self.value = self.error = None
        self.thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self.thread.start()

    def _run(self, function):
        try:
            self.value = function()
        except Exception as e:  # kept for result(), which raises it on the test's thread
            self.error = e

    def is_blocked(self, seconds=0.3):
        """True if the function still runs after a while."""
        self.thread.join(seconds)
        return self.thread.is_alive()

    def result(self):
        self.thread.join(120)
        assert not self.thread.is_alive(), "still blocked"
        if self.error is not None:
            raise self.error
        return self.value


@pytest.fixture(params=KINDS)
def make_queue(request):
    return KINDS[request.param]


def test_what_goes_in_comes_out(cluster, graph, make_queue):
    with tf.device(PS):
        q = make_queue(10)
    x = v1.placeholder(tf.int32, [])
    put, get, size = q.enqueue(x), q.dequeue(), q.size()
    with session(cluster.master, graph) as sess:
        for i in range(5):
            sess.run(put, {x: i})
        assert sess.run(size) == 5
        assert sorted(sess.run(get) for _ in range(5)) == list(range(5))
        assert sess.run(size) == 0


def test_fifo_keeps_the_order(cluster, graph):
    q = tf.queue.FIFOQueue(100, [tf.int32, tf.string], shapes=[[], [2]])
    put = q.enqueue_many([tf.range(6), tf.as_string(tf.reshape(tf.range(12), [6, 2]))])
    one, several, rest = q.dequeue(), q.dequeue_many(3), q.dequeue_up_to(2)
    with session(cluster.master, graph) as sess:
        sess.run(put)
        a, s = sess.run(one)
        assert (int(a), s.tolist()) == (0, [b"0", b"1"])
        a, s = sess.run(several)
        assert a.tolist() == [1, 2, 3]
        assert s[2].tolist() == [b"6", b"7"]
        assert sess.run(rest)[0].tolist() == [4, 5]


def test_shuffling_loses_nothing_and_keeps_a_minimum(cluster, graph):
    q = tf.queue.RandomShuffleQueue(100, 5, [tf.int32], shapes=[[]], seed=7)
    put, many, one, close = q.enqueue_many([tf.range(20)]), q.dequeue_many(15), q.dequeue(), q.close()
    with session(cluster.master, graph) as sess:
        sess.run(put)
        first = sess.run(many).tolist()
        blocked = Background(lambda: sess.run(one))  # five are left: not to be touched
        assert blocked.is_blocked()
        sess.run(close)
        rest = [blocked.result()] + [sess.run(one) for _ in range(4)]
        assert sorted(first + rest) == list(range(20))
        assert first != sorted(first)


def test_padding_queue_pads_to_the_longest(cluster, graph):
    q = tf.queue.PaddingFIFOQueue(10, [tf.int32], shapes=[[None]])
    x = v1.placeholder(tf.int32, [None])
    put, get = q.enqueue([x]), q.dequeue_many(3)
    with session(cluster.master, graph) as sess:
        for v in ([1], [2, 3, 4], []):
            sess.run(put, {x: v})
        assert sess.run(get).tolist() == [[1, 0, 0], [2, 3, 4], [0, 0, 0]]


def test_priority_queue_gives_the_least_first(cluster, graph):
    q = tf.queue.PriorityQueue(10, [tf.string], shapes=[[]])
    put = q.enqueue_many([tf.constant([5, 1, 3, 1], tf.int64), tf.constant(["five", "one", "three", "uno"])])
    get = q.dequeue()
    with session(cluster.master, graph) as sess:
        sess.run(put)
        got = [sess.run(get) for _ in range(4)]
    assert [int(k) for k, _ in got] == [1, 1, 3, 5]
    assert {got[0][1], got[1][1]} == {b"one", b"uno"}
    assert [v for _, v in got[2:]] == [b"three", b"five"]


@pytest.mark.weft_only
def test_what_is_left_of_a_closed_priority_queue(cluster, graph):
    """TensorFlow's queue loses what is left, and says that it is closed."""
    q = tf.queue.PriorityQueue(10, [tf.string], shapes=[[]])
    put = q.enqueue_many(([2, 1, 3], ["b", "a", "c"]))
    close, rest = q.close(), q.dequeue_up_to(5)
    with session(cluster.master, graph) as sess:
        sess.run(put)
        sess.run(close)
        places, values = sess.run(rest)
        assert places.tolist() == [1, 2, 3] and values.tolist() == [b"a", b"b", b"c"]
        with fails(tf.errors.OutOfRangeError):
            sess.run(rest)


def test_a_blocked_dequeue_waits_for_an_enqueue(cluster, graph, make_queue):
    with tf.device(W1):
        q = make_queue(10)
    put, get = q.enqueue(42), q.dequeue()
    free = tf.constant(1) + 1
    with session(cluster.master, graph) as sess:
        blocked = Background(lambda: sess.run(get))
        assert blocked.is_blocked()
        for _ in range(20):
            assert sess.run(free) == 2  # other runs of the session go on
        sess.run(put)
        assert blocked.result() == 42


def test_a_full_queue_blocks_until_there_is_room(cluster, graph, make_queue):
    q = make_queue(2)
    put, get = q.enqueue(1), q.dequeue()
    with session(cluster.master, graph) as sess:
        sess.run(put)
        sess.run(put)
        blocked = Background(lambda: sess.run(put))
        assert blocked.is_blocked()
        assert sess.run(get) == 1
        blocked.result()
        assert sess.run(q.size()) == 2


def test_enqueue_many_goes_in_piece_by_piece(cluster, graph):
    q = tf.queue.FIFOQueue(3, [tf.int32], shapes=[[]])
    put, get = q.enqueue_many([tf.range(8)]), q.dequeue()
    with session(cluster.master, graph) as sess:
        blocked = Background(lambda: sess.run(put))
        assert [sess.run(get) for _ in range(8)] == list(range(8))
        blocked.result()


def test_dequeue_many_waits_for_all(cluster, graph, make_queue):
    q = make_queue(10)
    put, get = q.enqueue(1), q.dequeue_many(3)
    with session(cluster.master, graph) as sess:
        blocked = Background(lambda: sess.run(get))
        sess.run(put)
        sess.run(put)
        assert blocked.is_blocked()
        sess.run(put)
        assert blocked.result().tolist() == [1, 1, 1]


def test_a_closed_queue_is_emptied_and_then_out_of_range(cluster, graph, make_queue):
    q = make_queue(10)
    put, get, up_to, many = (
        q.enqueue_many([tf.range(3)]),
        q.dequeue(name="get"),
        q.dequeue_up_to(5),
        q.dequeue_many(5),
    )
    with session(cluster.master, graph) as sess:
        sess.run(put)
        assert not sess.run(q.is_closed())
        sess.run(q.close())
        assert sess.run(q.is_closed())
        with fails(tf.errors.OutOfRangeError, "is closed and has insufficient elements"):
            sess.run(many)
        with fails(tf.errors.CancelledError, "is closed"):
            sess.run(put)
        assert sorted(sess.run(up_to).tolist()) == [0, 1, 2]
        with fails(tf.errors.OutOfRangeError, "(requested 1, current size 0)", op="get"):
            sess.run(get)
        with fails(tf.errors.OutOfRangeError):
            sess.run(up_to)


def test_closing_lets_waiting_dequeues_go(cluster, graph, make_queue):
    with tf.device(PS):
        q = make_queue(10)
    get = q.dequeue(name="waiting")
    with session(cluster.master, graph) as sess:
        blocked = Background(lambda: sess.run(get))
        assert blocked.is_blocked()
        sess.run(q.close())
        with fails(tf.errors.OutOfRangeError, "closed"):
            blocked.result()


def test_closing_with_cancel_stops_waiting_enqueues(cluster, graph):
    q = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])
    second = q.enqueue(2)
    with session(cluster.master, graph) as sess:
        sess.run(q.enqueue(1))
        blocked = Background(lambda: sess.run(second))
        assert blocked.is_blocked()
        sess.run(q.close(cancel_pending_enqueues=True))
        with fails(tf.errors.CancelledError):
            blocked.result()
        assert sess.run(q.dequeue()) == 1


def test_closing_without_cancel_waits_for_waiting_enqueues(cluster, graph):
    q = tf.queue.FIFOQueue(1, [tf.int32], shapes=[[]])
    second, get, close = q.enqueue(2), q.dequeue(), q.close()
    with session(cluster.master, graph) as sess:
        sess.run(q.enqueue(1))
        blocked = Background(lambda: sess.run(second))
        assert blocked.is_blocked()
        closing = Background(lambda: sess.run(close))
        assert closing.is_blocked()
        assert sess.run(get) == 1
        blocked.result()
        closing.result()
        assert sess.run(get) == 2
        with fails(tf.errors.OutOfRangeError):
            sess.run(get)


def test_a_cancelled_dequeue_takes_nothing(cluster, graph, make_queue):
    with tf.device(PS):
        q = make_queue(10)
    put, get = q.enqueue(1), q.dequeue()
    with session(cluster.master, graph) as sess:
        for _ in range(2):
            with fails(tf.errors.DeadlineExceededError):
                sess.run(get, options=v1.RunOptions(timeout_in_ms=200))
        sess.run(put)
        assert sess.run(get) == 1


def test_a_shared_name_is_one_queue_for_all_sessions(cluster, unique):
    got = []
    for task in range(2):
        with tf.Graph().as_default() as g:
            with tf.device(PS):
                q = tf.queue.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name=unique)
            with session(cluster.target("worker", task), g) as sess:
                sess.run(q.enqueue(task + 5))
                got.append(sess.run(q.size()))
    assert got == [1, 2]


def test_unnamed_queues_of_two_sessions_are_two(cluster, graph):
    q = tf.queue.FIFOQueue(10, [tf.int32], shapes=[[]])
    for _ in range(2):
        with session(cluster.master, graph) as sess:
            sess.run(q.enqueue(1))
            assert sess.run(q.size()) == 1


def test_a_shared_name_with_other_types_is_refused(cluster, graph, unique):
    a = tf.queue.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name=unique)
    b = tf.queue.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name=unique, name="other")
    with session(cluster.master, graph) as sess:
        sess.run(a.enqueue(1))
        with fails(tf.errors.InvalidArgumentError, "requested component types"):
            sess.run(b.enqueue(1.0))


def test_elements_of_wrong_shape_are_refused(cluster, graph):
    q = tf.queue.FIFOQueue(10, [tf.int32], shapes=[[2]])
    x = v1.placeholder(tf.int32)
    put = q.enqueue([x], name="put")
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, "shape mismatch", op="put"):
            sess.run(put, {x: [1, 2, 3]})
        sess.run(put, {x: [1, 2]})
        assert sess.run(q.size()) == 1


def test_queues_without_shapes_take_any_element_one_by_one(cluster, graph):
    q = tf.queue.FIFOQueue(10, [tf.float32])
    x = v1.placeholder(tf.float32)
    with session(cluster.master, graph) as sess:
        for shape in ((), (2, 2), (0,)):
            sess.run(q.enqueue(x), {x: np.zeros(shape)})
        for shape in ((), (2, 2), (0,)):
            assert sess.run(q.dequeue()).shape == shape
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            sess.run(q.dequeue_many(1))


@pytest.mark.parametrize("op_name", ["FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue"])
def test_queues_with_reference_handles(cluster, graph, op_name):
    raw = tf.raw_ops
    handle = getattr(raw, op_name)(component_types=[tf.int32], shapes=[[]], capacity=5)
    put = raw.QueueEnqueue(handle=handle, components=[tf.constant(3)])
    put_many = raw.QueueEnqueueMany(handle=handle, components=[tf.constant([3, 3])])
    get = raw.QueueDequeue(handle=handle, component_types=[tf.int32])
    many = raw.QueueDequeueMany(handle=handle, n=2, component_types=[tf.int32])
    up_to = raw.QueueDequeueUpTo(handle=handle, n=5, component_types=[tf.int32])
    close, closed = raw.QueueClose(handle=handle), raw.QueueIsClosed(handle=handle)
    with session(cluster.master, graph) as sess:
        sess.run(put)
        sess.run(put_many)
        assert sess.run(raw.QueueSize(handle=handle)) == 3
        assert sess.run(get) == [3]
        assert sess.run(many)[0].tolist() == [3, 3]
        sess.run(put)
        sess.run(close)
        assert sess.run(closed)
        assert sess.run(up_to)[0].tolist() == [3]


def test_queue_runners_feed_a_training_loop(cluster, graph):
    with tf.device(W1):
        q = tf.queue.FIFOQueue(8, [tf.int32], shapes=[[]])
        counter = v1.Variable(0, use_resource=True)
        count = v1.count_up_to(counter, 50)
    v1.train.add_queue_runner(v1.train.QueueRunner(q, [q.enqueue(count)] * 2))
    got = []
    with session(cluster.master, graph) as sess:
        sess.run(counter.initializer)
        coordinator = tf.train.Coordinator()
        threads = v1.train.start_queue_runners(sess, coordinator)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                got.append(sess.run(q.dequeue()))
        coordinator.request_stop()
        coordinator.join(threads)
    assert sorted(got) == list(range(50))


def test_string_input_producer_and_batch(cluster, graph):
    names = v1.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False)
    batch = v1.train.batch([names.dequeue()], 4, allow_smaller_final_batch=True)
    with session(cluster.master, graph) as sess:
        sess.run(v1.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = v1.train.start_queue_runners(sess, coordinator)
        got = [sess.run(batch).tolist(), sess.run(batch).tolist()]
        with fails(tf.errors.OutOfRangeError):
            sess.run(batch)
        coordinator.request_stop()
        coordinator.join(threads)
    assert got == [[b"a", b"b", b"c", b"a"], [b"b", b"c"]]
