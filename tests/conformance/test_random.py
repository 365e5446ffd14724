"""Random numbers: with given seeds, bit for bit TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

from support import W1, assert_same, on_both, session, v1

raw = tf.raw_ops
SHAPES = [[1], [3], [4], [5, 7], [1000], [0]]
FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]


def three_runs(cluster, make, device=""):
    """Each of three runs of one session continues the sequence of the one before."""

    def build(place):
        with place(device):
            outs = [make(shape) for shape in SHAPES]
        return lambda sess: [sess.run(outs) for _ in range(3)]

    got, want = on_both(cluster, build)
    for g, w in zip(sum(got, []), sum(want, [])):
        assert g.tobytes() == w.tobytes() or np.allclose(
            g.astype(np.float64), w.astype(np.float64), rtol=3e-7, atol=0
        )
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
    return got


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("op_name", ["RandomUniform", "RandomStandardNormal", "TruncatedNormal"])
def test_floats(cluster, op_name, dtype):
    op = getattr(raw, op_name)
    three_runs(cluster, lambda shape: op(shape=shape, dtype=dtype, seed=87, seed2=5))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda d: d.name)
def test_integers(cluster, dtype):
    three_runs(
        cluster,
        lambda shape: raw.RandomUniformInt(
            shape=shape, minval=tf.constant(-7, dtype), maxval=tf.constant(1000003, dtype), seed=3, seed2=9
        ),
    )


def test_uniform_bits_are_exact(cluster):
    def build(place):
        with place(W1):
            outs = [raw.RandomUniform(shape=[1000], dtype=d, seed=1, seed2=2) for d in FLOATS]
        return lambda sess: sess.run(outs)

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert_same(g, w, exact=True)


def test_seeds_of_graph_and_op(cluster):
    for graph_seed, op_seed in ((1, None), (None, 2), (3, 4), (0, 0)):

        def build(_):
            v1.set_random_seed(graph_seed)
            outs = [v1.random_uniform([5], seed=op_seed), v1.random_normal([5], seed=op_seed)]
            return lambda sess: [sess.run(outs), sess.run(outs)]

        got, want = on_both(cluster, build)
        for g, w in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
            assert_same(g, w, rtol=3e-7, atol=0)


def test_a_new_session_starts_again(cluster, graph):
    x = raw.RandomUniform(shape=[4], dtype=tf.float32, seed=1, seed2=2)
    runs = []
    for _ in range(2):
        with session(cluster.master, graph) as sess:
            runs.append([sess.run(x).tolist() for _ in range(3)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_other_fetches_do_not_restart_the_sequence(cluster):
    """A kernel keeps its state in the session, whatever else a step runs."""

    def build(_):
        x = raw.RandomUniform(shape=[2], dtype=tf.float32, seed=1, seed2=2)
        y = x + 1.0
        return lambda sess: [sess.run(x), sess.run(y), sess.run([x, y])[1], sess.run(x)]

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert_same(g, w, exact=True)


def test_unseeded_numbers_differ(cluster, graph):
    a, b = (raw.RandomUniform(shape=[8], dtype=tf.float32) for _ in range(2))
    with session(cluster.master, graph) as sess:
        draws = sess.run([a, b]) + sess.run([a, b])
    assert len({tuple(d.tolist()) for d in draws}) == 4
    assert all(0.0 <= v < 1.0 for d in draws for v in d)


def test_shuffle_and_multinomial(cluster):
    def build(_):
        shuffled = raw.RandomShuffle(value=np.arange(20).reshape(10, 2), seed=4, seed2=5)
        drawn = raw.Multinomial(logits=np.log([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]), num_samples=30, seed=6, seed2=7)
        return lambda sess: [sess.run([shuffled, drawn]) for _ in range(2)]

    got, want = on_both(cluster, build)
    for g, w in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
        assert_same(g, w)


def test_parameterized_truncated_normal(cluster):
    def build(_):
        x = raw.ParameterizedTruncatedNormal(
            shape=[2, 50],
            means=[0.0, 3.0],
            stdevs=[1.0, 2.0],
            minvals=[-1.0, 0.0],
            maxvals=[1.0, 9.0],
            seed=3,
            seed2=4,
        )
        return lambda sess: sess.run(x)

    got, want = on_both(cluster, build)
    assert_same(got, want, rtol=1e-6, atol=1e-7)


def test_initializers_and_dropout(cluster):
    def build(place):
        v1.set_random_seed(11)
        with place("/job:ps/task:0"):
            ws = [
                v1.get_variable(f"w{i}", [4, 5], initializer=init, use_resource=True)
                for i, init in enumerate(
                    [
                        v1.glorot_uniform_initializer(),
                        v1.truncated_normal_initializer(stddev=0.1),
                        v1.random_normal_initializer(),
                        v1.variance_scaling_initializer(),
                    ]
                )
            ]
        dropped = v1.nn.dropout(tf.ones([50]), rate=0.4)

        def steps(sess):
            sess.run(v1.global_variables_initializer())
            return sess.run([*ws, dropped])

        return steps

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert_same(g, w, rtol=1e-6, atol=1e-7)
