"""Constants, feeds and fetches: every dtype, every kind of shape, in and out without a change."""

import numpy as np
import pytest
import tensorflow as tf

from support import ALL_DTYPES, FLOATS, W1, assert_same, config, fails, sample, session, v1

SHAPES = {
    "scalar": (),
    "one": (1,),
    "vector": (7,),
    "matrix": (3, 4),
    "empty": (0,),
    "empty_inside": (2, 0, 3),
    "rank8": (1, 2, 1, 2, 1, 2, 1, 2),
}


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda d: d.name)
def test_fed_values_come_back_unchanged(cluster, graph, dtype):
    x = v1.placeholder(dtype, name="x")
    near = tf.identity(x)
    with tf.device(W1):
        far = tf.identity(x)
    with session(cluster.master, graph) as sess:
        for name, shape in SHAPES.items():
            value = sample(dtype, shape)
            for got in sess.run([near, far], {x: value}):
                assert_same(got, value, exact=True, what=name)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda d: d.name)
def test_constants_of_every_shape_arrive(cluster, graph, dtype):
    values = {name: sample(dtype, shape) for name, shape in SHAPES.items()}
    values["repeated"] = np.broadcast_to(sample(dtype, (1,), 3), (40,)).copy()  # sent as one element
    values["long"] = sample(dtype, (100, 3), 4)  # sent as tensor_content
    constants = {name: tf.constant(value, dtype) for name, value in values.items()}
    with session(cluster.master, graph) as sess:
        for name, got in sess.run(constants).items():
            assert_same(got, values[name], exact=True, what=name)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_special_floats_survive(cluster, graph, dtype):
    value = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 65504.0], np.float64).astype(dtype.as_numpy_dtype)
    x = v1.placeholder(dtype)
    with session(cluster.master, graph) as sess:
        assert_same(sess.run(tf.identity(x), {x: value}), value, exact=True)


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.is_integer], ids=lambda d: d.name)
def test_extreme_integers_survive(cluster, graph, dtype):
    value = np.array([dtype.min, dtype.max, 0], dtype.as_numpy_dtype)
    x = v1.placeholder(dtype)
    with session(cluster.master, graph) as sess:
        got = sess.run([tf.identity(x), tf.constant(value)], {x: value})
    for g in got:
        assert_same(g, value)


def test_strings_of_every_length_survive(cluster, graph):
    value = np.array([b"", b"\0", "Grüße".encode(), b"x" * 127, b"y" * 128, b"z" * 70000, bytes(range(256))], object)
    x = v1.placeholder(tf.string)
    with tf.device(W1):
        far = tf.identity(x)
    with session(cluster.master, graph) as sess:
        assert sess.run(far, {x: value}).tolist() == value.tolist()


def test_a_scalar_string_is_bytes(cluster, graph):
    with session(cluster.master, graph) as sess:
        assert sess.run(tf.constant("hello")) == b"hello"


@pytest.mark.parametrize("task", [0, 1])
def test_a_large_feed_goes_there_and_back(cluster, graph, task):
    value = np.random.RandomState(0).rand(5 << 20).astype(np.float32)  # 20 MB
    x = v1.placeholder(tf.float32)
    with tf.device(f"/job:worker/task:{task}"):
        y, total = tf.identity(x), tf.reduce_sum(tf.cast(x, tf.float64))
    with session(cluster.master, graph) as sess:
        got, got_total = sess.run([y, total], {x: value})
    assert_same(got, value, exact=True)
    assert got_total == pytest.approx(value.astype(np.float64).sum(), rel=1e-10)


def test_a_large_constant_is_part_of_the_graph(cluster, graph):
    value = np.random.RandomState(0).rand(2 << 20).astype(np.float32)  # 8 MB
    c = tf.constant(value)
    with session(cluster.master, graph) as sess:
        assert_same(sess.run(c), value, exact=True)


def test_any_tensor_can_be_fed(cluster, graph):
    a = tf.constant(2.0, name="a")
    b = tf.square(a, name="b")
    c = tf.add(b, 1.0, name="c")
    with session(cluster.master, graph) as sess:
        assert sess.run(c) == 5.0
        assert sess.run(c, {b: 10.0}) == 11.0
        assert sess.run(c, {a: 3.0}) == 10.0
        assert sess.run([b, c], {b: 7.0}) == [7.0, 8.0]  # a fetch that is fed is the feed


def test_one_output_of_several_can_be_fed(cluster, graph):
    parts = tf.split(tf.constant([1.0, 2.0, 3.0]), 3)
    total = tf.add_n(parts)
    with session(cluster.master, graph) as sess:
        assert sess.run(total, {parts[1]: [20.0]}) == [24.0]


def test_many_fetches_and_structures(cluster, graph):
    xs = [tf.constant(i, name=f"c{i}") for i in range(200)]
    with session(cluster.master, graph) as sess:
        assert sess.run(xs) == list(range(200))
        assert sess.run({"a": xs[0], "b": (xs[1], [xs[2], xs[1]])}) == {"a": 0, "b": (1, [2, 1])}
        assert sess.run([xs[5], xs[5].op, "c7:0"]) == [5, None, 7]


def test_placeholder_with_default_uses_the_feed_or_the_default(cluster, graph):
    x = v1.placeholder_with_default([1.0, 2.0], [None])
    y = x * 2.0
    with session(cluster.master, graph) as sess:
        assert sess.run(y).tolist() == [2.0, 4.0]
        assert sess.run(y, {x: [5.0]}).tolist() == [10.0]


def test_a_fed_constant_of_wrong_dtype_is_refused_by_the_server(cluster, graph):
    """The client converts by the tensor's dtype, so the server sees only right dtypes; shapes it does see."""
    x = v1.placeholder(tf.float32, [None], name="x")
    y = tf.reshape(x, [2, 2], name="y")
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.InvalidArgumentError, op="y"):
            sess.run(y, {x: [1.0, 2.0, 3.0]})
        assert sess.run(y, {x: [1.0, 2.0, 3.0, 4.0]}).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_sparse_values_are_fed_and_fetched(cluster, graph):
    sp = v1.sparse_placeholder(tf.float32)
    value = v1.SparseTensorValue(
        np.array([[0, 1], [2, 0]], np.int64), np.array([3.0, 4.0], np.float32), np.array([3, 2], np.int64)
    )
    doubled = tf.SparseTensor(sp.indices, sp.values * 2.0, sp.dense_shape)
    with session(cluster.master, graph) as sess:
        got = sess.run(doubled, {sp: value})
    assert got.values.tolist() == [6.0, 8.0]
    assert got.indices.tolist() == value.indices.tolist()


def test_a_session_without_config_works(cluster, graph):
    """The client then sends a configuration made from its own machine."""
    with v1.Session(cluster.master, graph=graph) as sess:
        assert sess.run(tf.constant(1) + 1) == 2


def test_unused_config_is_accepted(cluster, graph):
    c = config(
        inter_op_parallelism_threads=2,
        intra_op_parallelism_threads=1,
        log_device_placement=True,
        device_count={"CPU": 3, "GPU": 1},
        session_inter_op_thread_pool=[],
    )
    c.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    with v1.Session(cluster.master, graph=graph, config=c) as sess:
        assert sess.run(tf.constant(3) * 2) == 6
