"""Whole models: thirty steps on the cluster and thirty steps locally end at the same numbers."""

import numpy as np
import pytest
import tensorflow as tf

from support import PS, W0, W1, assert_same, on_both, v1

STEPS = 30


def train(cluster, model, data, optimizer, use_resource, rtol):
    """The model's variables are on the ps; each worker has half of the batch; gradients are added."""

    def build(place):
        v1.set_random_seed(42)
        x, y = v1.placeholder(tf.float32, [None, *data[0].shape[1:]]), v1.placeholder(data[1].dtype, [None])
        with place(PS):
            x_parts, y_parts = tf.split(x, 2), tf.split(y, 2)
        losses = []
        with v1.variable_scope("m", use_resource=use_resource) as scope:
            for i, device in enumerate([W0, W1]):
                with place(device):
                    losses.append(model(x_parts[i], y_parts[i], place))
                scope.reuse_variables()
        loss = tf.add_n(losses) / 2.0
        step = optimizer().minimize(loss)

        def steps(sess):
            sess.run(v1.global_variables_initializer())
            history = []
            for k in range(STEPS):
                rows = slice(k % 4 * 16, k % 4 * 16 + 16)
                history.append(sess.run([loss, step], {x: data[0][rows], y: data[1][rows]})[0])
            return np.array(history), sess.run(v1.trainable_variables())

        return steps

    (got_loss, got_vars), (want_loss, want_vars) = on_both(cluster, build)
    np.testing.assert_allclose(got_loss, want_loss, rtol=rtol, atol=rtol)
    for g, w in zip(got_vars, want_vars):
        assert_same(g, w, rtol=20 * rtol, atol=5 * rtol)
    assert want_loss[-4:].mean() < 0.95 * want_loss[:4].mean(), "the model does not learn: a bad test"


def variable(place, name, shape, init=None):
    with place(PS):
        return v1.get_variable(name, shape, initializer=init or v1.truncated_normal_initializer(stddev=0.2))


def regression(x, y, place):
    w, b = variable(place, "w", [5, 1]), variable(place, "b", [1], v1.zeros_initializer())
    return tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w) + b, 1) - y))


def mlp(x, y, place):
    h = x
    for i, (n, m) in enumerate([(64, 32), (32, 24)]):
        h = tf.nn.relu(
            tf.matmul(h, variable(place, f"w{i}", [n, m])) + variable(place, f"b{i}", [m], v1.zeros_initializer())
        )
    h = tf.tanh(h)
    logits = tf.matmul(h, variable(place, "out", [24, 10]))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def cnn(x, y, place):
    h = tf.nn.relu(
        tf.nn.bias_add(
            tf.nn.conv2d(x, variable(place, "c1", [3, 3, 1, 8]), 1, "SAME"),
            variable(place, "b1", [8], v1.zeros_initializer()),
        )
    )
    h = tf.nn.max_pool2d(h, 2, 2, "SAME")
    h = tf.nn.conv2d(h, variable(place, "c2", [3, 3, 8, 12]), 2, "VALID")
    h = tf.nn.avg_pool2d(tf.nn.relu(h), 1, 1, "SAME")
    h = tf.reshape(h, [tf.shape(h)[0], -1])
    logits = tf.matmul(h, variable(place, "out", [12, 10]))
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(y, 10), logits=logits))


def batch_norm(x, y, place):
    h = tf.nn.conv2d(x, variable(place, "c1", [3, 3, 1, 6]), 1, "SAME")
    scale, offset = variable(place, "s", [6], v1.ones_initializer()), variable(
        place, "o", [6], v1.zeros_initializer()
    )
    h = v1.nn.fused_batch_norm(h, scale, offset, is_training=True)[0]
    h = tf.reduce_mean(tf.nn.relu(h), [1, 2])
    logits = tf.matmul(h, variable(place, "out", [6, 10]))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def embedding(x, y, place):
    ids = tf.cast(x[:, 0], tf.int32)
    table = variable(place, "table", [20, 8])
    h = tf.nn.embedding_lookup(table, ids)
    logits = tf.matmul(h, variable(place, "out", [8, 10]))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def digits():
    """Blurred class patterns: learnable, and made from a fixed seed."""
    rng = np.random.RandomState(3)
    labels = rng.randint(0, 10, 64)
    return (rng.rand(10, 8, 8, 1)[labels] + 0.1 * rng.randn(64, 8, 8, 1)).astype(np.float32), labels.astype(np.int32)


def line():
    rng = np.random.RandomState(4)
    x = rng.randn(64, 5).astype(np.float32)
    return x, (x @ np.arange(5.0) + 1.0).astype(np.float32)


def words():
    ids = np.random.RandomState(5).randint(0, 20, (64, 1))
    return ids.astype(np.float32), (ids[:, 0] % 10).astype(np.int32)


def test_linear_regression(cluster, use_resource):
    train(cluster, regression, line(), lambda: v1.train.GradientDescentOptimizer(0.05), use_resource, 1e-5)


def test_mlp(cluster, use_resource):
    x, y = digits()
    train(cluster, mlp, (x.reshape(64, 64), y), lambda: v1.train.AdamOptimizer(0.01), use_resource, 1e-4)


def test_cnn(cluster, use_resource):
    train(cluster, cnn, digits(), lambda: v1.train.MomentumOptimizer(0.1, 0.9), use_resource, 5e-4)


def test_batch_normalisation(cluster, use_resource):
    train(cluster, batch_norm, digits(), lambda: v1.train.AdamOptimizer(0.05), use_resource, 1e-3)


def test_embedding(cluster, use_resource):
    train(cluster, embedding, words(), lambda: v1.train.AdagradOptimizer(0.8), use_resource, 1e-4)


@pytest.mark.parametrize("control", ["v1", "v2"])
def test_a_recurrent_model_in_a_loop(cluster, control):
    """A recurrence over time as a loop: its gradient keeps what each iteration made."""
    if control == "v2":
        pytest.skip("gradients of functional loops need tensor lists, which are not part of Tier 0")
    v1.disable_control_flow_v2()
    try:

        def build(place):
            v1.set_random_seed(1)
            x = v1.placeholder(tf.float32, [6, 4, 3])
            with place(PS):
                w = v1.get_variable("w", [7, 4], initializer=v1.truncated_normal_initializer(stddev=0.3))

            def body(t, h):
                now = tf.gather(x, t)
                return t + 1, tf.tanh(tf.matmul(tf.concat([now, h], 1), w))

            with place(W1):
                h = v1.while_loop(lambda t, h: t < 6, body, [tf.constant(0), tf.zeros([4, 4])])[1]
                loss = tf.reduce_mean(tf.square(h - 0.5))
            step = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
            data = np.random.RandomState(0).randn(6, 4, 3)

            def steps(sess):
                sess.run(v1.global_variables_initializer())
                return [sess.run([loss, step], {x: data})[0] for _ in range(10)] + [sess.run(w)]

            return steps

        got, want = on_both(cluster, build)
    finally:
        v1.enable_control_flow_v2()
    for g, w in zip(got, want):
        assert_same(g, w, rtol=1e-4, atol=1e-5)
