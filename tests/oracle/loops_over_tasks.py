"""tests/master/testdata/*.pb: loops and conditionals over three tasks. Each computes "out:0", which tests/master/loops_test.c knows; it is checked here."""
import tensorflow as tf

import one_op

HERE = "tests/master/testdata"
v1 = tf.compat.v1
PS, WORKER_0, WORKER_1 = "/job:ps", "/job:worker/task:0", "/job:worker/task:1"


def loop(limit, body, start=1.0):
    """body(i, x) gives the next of both, while i < limit; the last x."""
    return v1.while_loop(lambda i, x: i < limit, body, [tf.constant(0), tf.constant(start)])[1]


def body_elsewhere():
    def body(i, x):
        with tf.device(WORKER_1):
            y = x * 2.0
        with tf.device(PS):
            return i + 1, y + tf.cast(i, tf.float32)

    return loop(10, body)


def cond_elsewhere():
    def is_on(i, _):
        with tf.device(PS):
            return i < 7

    def body(i, x):
        with tf.device(WORKER_1):
            return i + 1, x + 3.0

    return v1.while_loop(is_on, body, [tf.constant(0), tf.constant(1.0)])[1]


def nested():
    def inner(i, j, x):
        with tf.device(WORKER_1):
            y = x + 1.0
        with tf.device(PS):
            return i, j + 1, y * 1.0

    def body(i, x):
        with tf.device(PS):
            limit = i + 0
        x = v1.while_loop(lambda i, j, x: j < limit, inner, [i, tf.constant(0), x])[2]
        with tf.device(WORKER_1):
            return i + 1, x + 100.0

    return loop(6, body, 0.0)


def captured():
    with tf.device(PS):
        a = tf.constant(2.0) + 1.0
    with tf.device(WORKER_1):
        b = tf.constant(5.0) * a

    def body(i, x):
        with tf.device(WORKER_1):
            y = x + a
        with tf.device(PS):
            return i + 1, y + b

    return loop(5, body, 0.0) + a


def conditional():
    p = v1.placeholder_with_default(True, [], name="p")
    with tf.device(PS):
        a = tf.constant(3.0) + 1.0

    def double():
        with tf.device(WORKER_1):
            return a * 2.0

    def less():
        with tf.device(PS):
            return a - 1.0

    with tf.device(WORKER_0):
        return v1.cond(p, double, less)


def cond_in_loop():
    def double(x):
        with tf.device(WORKER_1):
            return x * 2.0

    def more(x):
        with tf.device(PS):
            return x + 1.0

    return loop(9, lambda i, x: (i + 1, v1.cond(tf.equal(i % 2, 0), lambda: double(x), lambda: more(x))))


def gradient():
    x = v1.placeholder_with_default(1.5, [], name="x")

    def body(i, y):
        with tf.device(WORKER_1):
            product = y * x
        return i + 1, product

    return v1.gradients(loop(4, body), x, colocate_gradients_with_ops=True)[0]


def never():
    def body(i, x):
        with tf.device(WORKER_1):
            return i + 1, x * 2.0

    return loop(0, body, 7.0)


def controls():
    def body(i, x):
        with tf.device(WORKER_1), tf.control_dependencies([i]):
            first = tf.no_op()
        with tf.device(PS), tf.control_dependencies([x, first]):
            second = tf.no_op()
        with tf.control_dependencies([second]):
            return i + 1, x + 1.0

    return loop(8, body)


OUT = {body_elsewhere: 2037, cond_elsewhere: 22, nested: 615, captured: 93, conditional: 8, cond_in_loop: 62, gradient: 13.5, never: 7, controls: 9}


def make(root, out):
    config = one_op.config()
    config.allow_soft_placement = True
    for build, expected in OUT.items():
        with tf.Graph().as_default() as graph:
            with tf.device(None):
                tf.identity(build(), name="out")
            (out / HERE / (build.__name__ + ".pb")).write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
        with tf.Graph().as_default() as graph:
            local = graph_without_devices(out / HERE / (build.__name__ + ".pb"))
            tf.import_graph_def(local, name="")
            with v1.Session(config=config) as sess:
                assert sess.run("out:0") == expected, build.__name__


def graph_without_devices(path):
    graph = v1.GraphDef.FromString(path.read_bytes())
    for node in graph.node:
        node.device = ""
    return graph
