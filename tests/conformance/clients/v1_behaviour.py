"""A client that turned version 2 behaviour off, as programs of the 1.x line do: TARGET CONTAINER DIR."""

import sys

import numpy as np

from support import PS, W1, config, tf, v1


def main():
    target, container, directory = sys.argv[1:4]
    v1.disable_v2_behavior()
    g = v1.get_default_graph()
    with g.container(container):
        x = v1.placeholder(tf.float32, [None, 4])
        y = v1.placeholder(tf.float32, [None, 1])
        with tf.device(PS):
            w = v1.get_variable("w", [4, 1], initializer=v1.zeros_initializer())
            b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
        assert w.op.type == "VariableV2"
        with tf.device(W1):
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        train = v1.train.MomentumOptimizer(0.1, 0.5).minimize(loss)
        branch = v1.cond(loss < 1e-3, lambda: tf.constant("done"), lambda: tf.constant("going"))
        total = v1.while_loop(lambda i, t: i < 10, lambda i, t: (i + 1, t + i), [0, 0])[1]
        gradient = tf.gradients(v1.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [b[0] + 3.0]), b)[0]
        saver = v1.train.Saver()
    rng = np.random.RandomState(0)
    xs = rng.randn(64, 4)
    ys = xs @ [[1.0], [-2.0], [3.0], [0.5]] + 0.25
    with v1.Session(target, config=config()) as sess:
        sess.run(v1.global_variables_initializer())
        assert sess.run(branch, {x: xs, y: ys}) == b"going"
        for _ in range(150):
            _, value = sess.run([train, loss], {x: xs, y: ys})
        assert value < 1e-3, value
        assert sess.run(branch, {x: xs, y: ys}) == b"done"
        assert sess.run(total) == 45
        assert sess.run(gradient).tolist() == [32.0]
        np.testing.assert_allclose(sess.run(w).ravel(), [1.0, -2.0, 3.0, 0.5], atol=0.03)
        path = saver.save(sess, directory + "/m")
        sess.run(v1.assign(b, [9.0]))
        saver.restore(sess, path)
        np.testing.assert_allclose(sess.run(b), [0.25], atol=0.03)
    print("fine")


if __name__ == "__main__":
    main()
