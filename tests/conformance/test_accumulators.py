"""Conditional accumulators and barriers, the meeting points of synchronous training."""

import pytest
import tensorflow as tf

from support import PS, fails, session, v1
from test_queues import Background

raw = tf.raw_ops


class RefAccumulator:
    """The accumulator with a Ref(string) handle."""

    def __init__(self, reduction="MEAN", shape=(), dtype=tf.float32, **kwargs):
        self.dtype = dtype
        self.handle = raw.ConditionalAccumulator(dtype=dtype, shape=list(shape), reduction_type=reduction, **kwargs)

    def apply(self, step, grad):
        return raw.AccumulatorApplyGradient(handle=self.handle, local_step=step, gradient=grad)

    def take(self, n):
        return raw.AccumulatorTakeGradient(handle=self.handle, num_required=n, dtype=self.dtype)

    def set_step(self, step):
        return raw.AccumulatorSetGlobalStep(handle=self.handle, new_global_step=step)

    def count(self):
        return raw.AccumulatorNumAccumulated(handle=self.handle)


class ResourceAccumulator(RefAccumulator):
    """The accumulator with a resource handle."""

    def __init__(self, reduction="MEAN", shape=(), dtype=tf.float32, **kwargs):
        self.dtype = dtype
        self.handle = raw.ResourceConditionalAccumulator(
            dtype=dtype, shape=list(shape), reduction_type=reduction, **kwargs
        )

    def apply(self, step, grad):
        return raw.ResourceAccumulatorApplyGradient(handle=self.handle, local_step=step, gradient=grad)

    def take(self, n):
        return raw.ResourceAccumulatorTakeGradient(handle=self.handle, num_required=n, dtype=self.dtype)

    def set_step(self, step):
        return raw.ResourceAccumulatorSetGlobalStep(handle=self.handle, new_global_step=step)

    def count(self):
        return raw.ResourceAccumulatorNumAccumulated(handle=self.handle)


@pytest.fixture(params=[RefAccumulator, ResourceAccumulator], ids=["ref", "resource"])
def accumulator(request):
    return request.param


@pytest.mark.parametrize("reduction,want", [("MEAN", [2.0, 20.0]), ("SUM", [4.0, 40.0])])
def test_dense_gradients_are_reduced(cluster, graph, accumulator, reduction, want):
    with tf.device(PS):
        a = accumulator(reduction, (2,))
    g = v1.placeholder(tf.float32)
    apply, take, count = a.apply(tf.constant(0, tf.int64), g), a.take(2), a.count()
    with session(cluster.master, graph) as sess:
        sess.run(apply, {g: [1.0, 10.0]})
        assert sess.run(count) == 1
        sess.run(apply, {g: [3.0, 30.0]})
        assert sess.run(take).tolist() == want
        assert sess.run(count) == 0


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64], ids=lambda d: d.name)
def test_dense_gradients_of_other_dtypes(cluster, graph, accumulator, dtype):
    a = accumulator("MEAN", (2,), dtype)
    apply, take = a.apply(tf.constant(0, tf.int64), tf.constant([2, 4], dtype)), a.take(2)
    with session(cluster.master, graph) as sess:
        sess.run(apply)
        sess.run(apply)
        got = sess.run(take)
    assert got.dtype == dtype.as_numpy_dtype
    assert got.tolist() == [2.0, 4.0]


def test_take_waits_for_enough(cluster, graph, accumulator):
    a = accumulator()
    apply, take = a.apply(tf.constant(5, tf.int64), 3.0), a.take(3)
    with session(cluster.master, graph) as sess:
        blocked = Background(lambda: sess.run(take))
        sess.run(apply)
        sess.run(apply)
        assert blocked.is_blocked()
        sess.run(apply)
        assert blocked.result() == 3.0


def test_stale_gradients_are_dropped_silently(cluster, graph, accumulator):
    a = accumulator()
    step, g = v1.placeholder(tf.int64), v1.placeholder(tf.float32)
    apply, take, set_step, count = a.apply(step, g), a.take(1), a.set_step(10), a.count()
    with session(cluster.master, graph) as sess:
        sess.run(set_step)
        sess.run(apply, {step: 9, g: 100.0})
        assert sess.run(count) == 0
        sess.run(apply, {step: 10, g: 1.0})
        assert sess.run(take) == 1.0  # and the accumulator's own step is now 11
        sess.run(apply, {step: 10, g: 100.0})
        assert sess.run(count) == 0
        sess.run(apply, {step: 11, g: 2.0})
        assert sess.run(take) == 2.0


def test_wrong_shapes_are_refused(cluster, graph, accumulator):
    a = accumulator("MEAN", (2,))
    g = v1.placeholder(tf.float32)
    apply = a.apply(tf.constant(0, tf.int64), g)
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, "shape mismatch"):
            sess.run(apply, {g: [1.0, 2.0, 3.0]})
        with fails(tf.errors.InvalidArgumentError):
            sess.run(a.take(0))


def test_a_cancelled_take_takes_nothing(cluster, graph, accumulator):
    a = accumulator()
    apply, take = a.apply(tf.constant(0, tf.int64), 4.0), a.take(2)
    with session(cluster.master, graph) as sess:
        sess.run(apply)
        with fails(tf.errors.DeadlineExceededError):
            sess.run(take, options=v1.RunOptions(timeout_in_ms=300))
        sess.run(apply)
        assert sess.run(take) == 4.0


def test_an_accumulator_is_shared_by_name(cluster, unique, accumulator):
    for task in range(2):
        with tf.Graph().as_default() as g, tf.device(PS):
            a = accumulator(shared_name=unique)
            apply, count = a.apply(tf.constant(0, tf.int64), 1.0), a.count()
            with session(cluster.target("worker", task), g) as sess:
                sess.run(apply)
                assert sess.run(count) == task + 1


def test_sparse_gradients_are_reduced_by_row(cluster, graph):
    with tf.device(PS):
        a = v1.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    first = a.apply_grad([0, 2], [[1.0, 2.0], [3.0, 4.0]], [4, 2], local_step=0)
    second = a.apply_grad([2, 3], [[5.0, 6.0], [7.0, 8.0]], [4, 2], local_step=0)
    take = a.take_grad(2)
    with session(cluster.master, graph) as sess:
        sess.run(first)
        sess.run(second)
        assert sess.run(a.num_accumulated()) == 2
        indices, values, shape = sess.run(take)
    assert indices.tolist() == [0, 2, 3]
    assert values.tolist() == [[1.0, 2.0], [4.0, 5.0], [7.0, 8.0]]  # each by its own count
    assert shape.tolist() == [4, 2]


def test_sparse_sums_and_stale_rows(cluster, graph):
    a = v1.SparseConditionalAccumulator(tf.float32, shape=[4, 1], reduction_type="SUM")
    step = v1.placeholder(tf.int64)
    apply = a.apply_grad([1], [[2.0]], [4, 1], local_step=step)
    with session(cluster.master, graph) as sess:
        sess.run(a.set_global_step(1))
        sess.run(apply, {step: 0})
        sess.run(apply, {step: 1})
        sess.run(apply, {step: 1})
        got = sess.run(a.take_indexed_slices_grad(2))
    assert got.values.tolist() == [[4.0]]


def barrier():
    return raw.Barrier(component_types=[tf.float32, tf.string], shapes=[[], []])


def insert(handle, keys, values, index):
    return raw.BarrierInsertMany(handle=handle, keys=keys, values=values, component_index=index)


def take(handle, n, small=False, incomplete=False):
    return raw.BarrierTakeMany(
        handle=handle,
        num_elements=n,
        component_types=[tf.float32, tf.string],
        allow_small_batch=small,
        wait_for_incomplete=incomplete,
    )


def test_a_barrier_joins_components_by_key(cluster, graph):
    with tf.device(PS):
        h = barrier()
    a, b = insert(h, ["x", "y", "z"], [1.0, 2.0, 3.0], 0), insert(h, ["z", "x"], ["zz", "xx"], 1)
    ready, incomplete = raw.BarrierReadySize(handle=h), raw.BarrierIncompleteSize(handle=h)
    with session(cluster.master, graph) as sess:
        sess.run(a)
        assert sess.run([ready, incomplete]) == [0, 3]
        sess.run(b)
        assert sess.run([ready, incomplete]) == [2, 1]
        got = sess.run(take(h, 2))
    assert sorted(zip(got.keys.tolist(), got.values[0].tolist(), got.values[1].tolist())) == [
        (b"x", 1.0, b"xx"),
        (b"z", 3.0, b"zz"),
    ]


def test_taking_from_a_barrier_waits(cluster, graph):
    h = barrier()
    a, b, one = insert(h, ["k"], [1.0], 0), insert(h, ["k"], ["v"], 1), take(h, 1)
    with session(cluster.master, graph) as sess:
        blocked = Background(lambda: sess.run(one))
        sess.run(a)
        assert blocked.is_blocked()
        sess.run(b)
        assert blocked.result().keys.tolist() == [b"k"]


def test_a_closed_barrier_gives_what_is_complete(cluster, graph):
    h = barrier()
    with session(cluster.master, graph) as sess:
        sess.run(insert(h, ["a", "b"], [1.0, 2.0], 0))
        sess.run(insert(h, ["a"], ["aa"], 1))
        sess.run(raw.BarrierClose(handle=h))
        with fails(tf.errors.CancelledError):
            sess.run(insert(h, ["new"], [1.0], 0))
        got = sess.run(take(h, 5, small=True))
        assert got.keys.tolist() == [b"a"]
        sess.run(raw.BarrierClose(handle=h, cancel_pending_enqueues=True))
        with fails(tf.errors.OutOfRangeError):
            sess.run(take(h, 1))


def test_inserting_a_component_twice_is_refused(cluster, graph):
    h = barrier()
    a = insert(h, ["a"], [1.0], 0)
    with session(cluster.master, graph) as sess:
        sess.run(a)
        with fails(tf.errors.InvalidArgumentError):
            sess.run(a)
