"""tests/graph/testdata/*.pb: graphs of each style that TensorFlow's client makes: variables of both kinds with gradients, control flow of both versions, functions."""
import tensorflow as tf

import one_op  # noqa: F401: graph mode

HERE = "tests/graph/testdata"
v1 = tf.compat.v1


def mlp(is_resource):
    v1.set_random_seed(1)
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    y = v1.placeholder(tf.int32, [None], name="y")
    w, b, w2 = (v1.get_variable(name, shape, use_resource=is_resource, initializer=v1.zeros_initializer() if name == "b" else None)
                for name, shape in (("w", [4, 8]), ("b", [8]), ("w2", [8, 3])))
    h = tf.nn.relu(tf.matmul(x, w) + b, name="h")
    logits = tf.matmul(h, w2, name="logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")
    optimizer = v1.train.AdamOptimizer(0.01) if is_resource else v1.train.GradientDescentOptimizer(0.1)
    optimizer.minimize(loss, name="train")
    v1.global_variables_initializer()


def while_v1():
    """A loop in a loop, and a conditional, of Switch and Merge."""
    n = v1.placeholder(tf.int32, [], name="n")

    def body(i, x):
        inner = v1.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y + 1.5), [0, x])
        return i + 1, inner[1]

    x = v1.while_loop(lambda i, x: i < n, body, [0, 0.0])[1]
    tf.identity(x, name="out")
    tf.identity(v1.cond(n > 3, lambda: x * 2, lambda: x + 1), name="out2")


def control_v2():
    """While with an If in its body, If and Case, of functions."""
    n = v1.placeholder(tf.int32, [], name="n")
    v = v1.get_variable("v", [], use_resource=True, initializer=v1.zeros_initializer())

    def body(i, x):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return i + 1, x + tf.cond(tf.equal(i % 2, 0), lambda: v * 2.0, lambda: v - x)

    x = tf.identity(tf.while_loop(lambda i, x: i < n, body, [tf.constant(0), tf.constant(0.0)])[1], name="out")
    tf.identity(tf.cond(n > 3, lambda: x * 2, lambda: x + 1), name="out2")
    tf.identity(tf.switch_case(n, [lambda: x, lambda: x + 1, lambda: x * x]), name="out3")
    v1.global_variables_initializer()


def tf_function():
    """A function that calls a function and has a conditional and an effect."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    v = v1.get_variable("v", [4], use_resource=True, initializer=v1.zeros_initializer())

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)], autograph=False)
    def inner(a):
        return tf.reduce_sum(a) + tf.cond(tf.reduce_max(a) > 1, lambda: tf.reduce_mean(a), lambda: tf.reduce_min(a))

    @tf.function(autograph=False)
    def f(a, k):
        v.assign_add(tf.ones([4]))
        return a * inner(a) + v, k * 3

    a, k = f(x, tf.constant(2))
    tf.identity(a, name="out")
    tf.identity(k, name="out2")
    v1.global_variables_initializer()


GRAPHS = {"mlp_v1": (lambda: mlp(False), False), "mlp_resource": (lambda: mlp(True), False), "while_v1": (while_v1, False),
          "control_v2": (control_v2, True), "tf_function": (tf_function, True)}


def make(root, out):
    for name, (build, is_v2) in GRAPHS.items():
        (tf.compat.v1.enable_control_flow_v2 if is_v2 else tf.compat.v1.disable_control_flow_v2)()
        with tf.Graph().as_default() as graph:
            build()
            (out / HERE / (name + ".pb")).write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
    tf.compat.v1.disable_control_flow_v2()
