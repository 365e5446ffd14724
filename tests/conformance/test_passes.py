"""Graph optimisation: the same results with passes and without, and the same as TensorFlow's; errors name their nodes."""

import os

import numpy as np
import pytest
import tensorflow as tf

from support import DEADLINE_MS, W0, assert_all_same, fails, local_session, v1

OFF = 2  # RewriterConfig.OFF
SEEDS = int(os.environ.get("WEFT_PASS_SEEDS", "60"))  # random graphs of each kind


def config(rewrite=None, level=0):
    c = v1.ConfigProto(operation_timeout_in_ms=DEADLINE_MS)
    c.graph_options.optimizer_options.opt_level = level
    for field, value in (rewrite or {}).items():
        setattr(c.graph_options.rewrite_options, field, value)
    return c


def without_passes():
    return config({"disable_meta_optimizer": True}, level=-1)


class Drawn:
    """A random graph of small tensors: what passes look for, and what must keep them from it."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.feeds, self.values = {}, []
        for _ in range(self.rng.randint(1, 4)):
            self.input()
        for _ in range(self.rng.randint(12, 45)):
            self.values.append(self.node())
        count = self.rng.randint(1, 5)
        self.fetches = [self.values[-1 - i] for i in range(count)] + [self.pick()]

    def input(self):
        shape = list(self.rng.choice([1, 2, 3, 4], self.rng.randint(0, 4)))
        known = [s if self.rng.rand() < 0.7 else None for s in shape]
        x = v1.placeholder(tf.float32, known if self.rng.rand() < 0.9 else None)
        value = np.asarray(self.rng.randn(*shape))
        value = np.where(self.rng.rand(*shape) < 0.1, self.rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan]), value)
        self.feeds[x] = value.astype(np.float32)
        self.values.append(x)

    def pick(self):
        return self.values[self.rng.randint(len(self.values))]

    def constant(self):
        special = self.rng.choice([0.0, -0.0, 1.0, 2.0, 0.5, -1.0])
        shape = [[], [], [1], [1, 1]][self.rng.randint(4)]
        return tf.constant(np.full(shape, special, np.float32) if self.rng.rand() < 0.6 else np.asarray(self.rng.randn(*shape), np.float32))

    def controls(self):
        if self.rng.rand() < 0.85:
            return tf.control_dependencies([])
        return tf.control_dependencies([self.pick().op, tf.no_op()][: self.rng.randint(1, 3)])

    def weights(self, *shape):
        return tf.constant(self.rng.uniform(-1, 1, shape).astype(np.float32))

    def activation(self, y):
        r = self.rng
        kinds = [tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.tanh, lambda v: v * tf.sigmoid(v), tf.nn.gelu, lambda v: tf.nn.leaky_relu(v, 0.3), tf.identity]
        return kinds[r.randint(len(kinds))](y)

    def layer(self, x):
        """A product, a convolution or neither, with what follows it in models; x may have any shape."""
        r, rows = self.rng, tf.reshape(x, [-1, 1])
        kind = r.randint(4)
        if kind == 0:
            y = tf.matmul(rows, self.weights(1, 5))
        elif kind == 1:
            y = tf.nn.conv2d(tf.reshape(x, [1, -1, 1, 1]), self.weights(3, 1, 1, 5), 1, "SAME")
        elif kind == 2:
            y = rows * self.weights(5)
        else:
            first = tf.nn.bias_add(tf.reshape(x, [1, 1, -1, 1]) * self.weights(1, 5, 1, 1), self.weights(5), "NCHW")
            y = tf.transpose(self.activation(first), [0, 2, 3, 1])
        bias = [lambda v: tf.nn.bias_add(v, self.weights(5)), lambda v: v + self.weights(5), lambda v: self.weights(1, 5) + v]
        y = bias[r.randint(3)](y)
        if r.rand() < 0.3:
            y = tf.nn.batch_normalization(y, *[self.weights(5) for _ in range(3)], tf.abs(self.weights(5)), 1e-3)
        if r.rand() < 0.3:
            y = y + tf.reshape(rows, [-1, 1]) if y.shape.rank == 2 else tf.square(y) + y
        return self.activation(y)

    def attention(self, x):
        """As Keras writes it, with operands [batch, length, heads, depth], or with heads first."""
        r, y = self.rng, tf.reshape(x, [1, -1, 1, 1]) * self.weights(1, 1, 2, 3)
        q, k, v = y * 0.5, tf.tanh(y), y + self.weights(3)
        if r.rand() < 0.5:
            scores = tf.einsum("aecd,abcd->acbe", k, q)
        else:
            scores = tf.matmul(*[tf.transpose(t, [0, 2, 1, 3]) for t in (q, k)], transpose_b=True)
        if r.rand() < 0.5:
            scores = scores / np.float32(1.5) + self.weights(2, 1, 1)
        shares = tf.nn.softmax(scores)
        return tf.einsum("acbe,aecd->abcd", shares, v) if r.rand() < 0.5 else tf.matmul(shares, tf.transpose(v, [0, 2, 1, 3]))

    def call(self, x):
        """A function that is lowered into the graph, or one that a kernel calls for each row."""
        scale, is_mapped = self.constant(), self.rng.rand() < 0.3
        body = tf.function(lambda v: tf.nn.relu(v * 1.0 - tf.sqrt(tf.constant(4.0))) * tf.identity(v) + scale)
        if not is_mapped:
            return body(x) + body(x)
        body = tf.function(lambda v: tf.transpose(tf.transpose(v - 0.0)) * tf.exp(tf.constant(0.5)) + tf.cast(tf.size(v), tf.float32))
        concrete = body.get_concrete_function(tf.TensorSpec([1], tf.float32))
        return tf.raw_ops.MapDefun(arguments=[tf.reshape(x, [-1, 1])], captured_inputs=[], output_types=[tf.float32], output_shapes=[[1]], f=concrete)[0]

    def static_loop(self, x):
        """A loop whose number of iterations and shapes do not depend on values."""
        w, b = self.weights(4, 4), self.weights(4)
        start = [tf.constant(0), tf.reshape(x, [-1, 1]) * self.weights(4)]
        return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, tf.tanh(tf.nn.bias_add(tf.matmul(v, w), b)) * 1.0 + v), start)[1]

    def node(self):
        r = self.rng
        with self.controls():
            kind = r.randint(21)
            x = self.pick()
            if kind in (16, 17):
                return self.layer(x)
            if kind == 18:
                return self.attention(x)
            if kind == 19:
                return self.call(x)
            if kind == 20:
                return self.static_loop(x)
            if kind == 0:
                return self.constant()
            if kind == 1:
                return tf.identity(x) if r.rand() < 0.5 else tf.stop_gradient(x)
            if kind in (2, 3):
                f = [tf.negative, tf.tanh, tf.abs, tf.square, tf.nn.relu, tf.sign, tf.nn.sigmoid][r.randint(7)]
                return f(f(x)) if r.rand() < 0.3 else f(x)
            if kind in (4, 5, 6):
                f = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.realdiv][r.randint(5)]
                y = self.constant() if r.rand() < 0.6 else x
                return f(x, y) if r.rand() < 0.6 else f(y, x)
            if kind == 7:  # the same twice, in either order
                y = self.constant()
                return tf.concat([tf.reshape(x * y, [-1]), tf.reshape(y * x, [-1])], 0)
            if kind == 8:
                return tf.cast(tf.cast(x, tf.float64 if r.rand() < 0.5 else tf.float32), tf.float32)
            if kind == 9:
                y = tf.transpose(x)
                return tf.transpose(y) if r.rand() < 0.7 else y
            if kind == 10:
                flat = tf.reshape(x, [-1])
                return tf.reshape(flat, tf.shape(x)) if r.rand() < 0.7 else tf.reshape(flat, [-1, 1])
            if kind == 11:
                of = [tf.size(x), tf.rank(x), tf.reduce_sum(tf.shape(x)), tf.reduce_prod(tf.shape(x) + 1)][r.randint(4)]
                return tf.cast(of, tf.float32)
            if kind == 12:
                f = [tf.reduce_sum, tf.reduce_max, tf.reduce_mean][r.randint(3)]
                return f(x) if r.rand() < 0.5 else f(x, axis=[])
            if kind == 13:
                return tf.add_n([x] * r.randint(1, 4))
            if kind == 14:
                y = self.constant()
                test = tf.reduce_sum(tf.zeros_like(x)) < tf.reduce_sum(y)
                return tf.cond(test, lambda: x * 1.0 + tf.cast(tf.size(x), tf.float32), lambda: (x - 0.0) * y)
            return tf.while_loop(
                lambda i, v: i < 3, lambda i, v: (i + 1, tf.identity(v) * 1.0 - tf.constant(0.0) + 2.0 * tf.constant(3.0)), [tf.constant(0), x],
                shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]


def run(target, graph, drawn, settings):
    with v1.Session(target, graph=graph, config=settings) as sess:
        return sess.run(drawn.fetches, drawn.feeds)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graphs_keep_their_results(cluster, graph, seed):
    control_flow_v2 = seed % 2 == 0
    (v1.enable_control_flow_v2 if control_flow_v2 else v1.disable_control_flow_v2)()
    try:
        with tf.device(W0 if seed % 3 == 0 else None):
            drawn = Drawn(seed)
        with tf.Graph().as_default() as same:
            again = Drawn(seed)
    finally:
        v1.enable_control_flow_v2()
    plain = run(cluster.master, graph, drawn, without_passes())
    all_passes = run(cluster.master, graph, drawn, config({"min_graph_nodes": -1}))
    for field in ("constant_folding", "arithmetic_optimization", "dependency_optimization", "common_subgraph_elimination", "implementation_selector"):
        others = run(cluster.master, graph, drawn, config({field: OFF, "min_graph_nodes": -1}))
        assert_all_same(others, plain, exact=not has_nan(plain))
    assert_all_same(all_passes, plain, exact=not has_nan(plain))
    with local_session(same) as sess:
        assert_all_same(all_passes, sess.run(again.fetches, again.feeds), atol=1e-5)


@pytest.mark.parametrize("seed", range(100000, 100000 + SEEDS * 2 // 3))
def test_values_fed_in_the_middle_are_what_consumers_read(cluster, graph, seed):
    """TensorFlow's own optimiser takes -x + x for 0 although -x is fed, so that the oracle runs without it."""
    drawn = Drawn(seed)
    with tf.Graph().as_default() as same:
        again = Drawn(seed)
    rng = np.random.RandomState(seed)
    inner = [i for i, v in enumerate(drawn.values) if v not in drawn.feeds and v.op.type != "Const"]
    inner = list(rng.choice(inner, min(len(inner), 1 + seed % 3), replace=False))
    wanted = list(rng.randint(len(drawn.values), size=4))
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        known = sess.run([drawn.values[i] for i in inner], drawn.feeds)
    fed = {i: np.asarray(v * 0.5 + 1, v.dtype) for i, v in zip(inner, known)}
    results = []
    for target, of, settings in ((cluster.master, drawn, config({"min_graph_nodes": -1})), (cluster.master, drawn, without_passes()), ("", again, without_passes())):
        feeds = dict(of.feeds) | {of.values[i]: v for i, v in fed.items()}
        with v1.Session(target, graph=same if of is again else graph, config=settings) as sess:
            results.append([sess.run([of.values[i] for i in wanted], feeds) for _ in range(3)])
    assert_all_same(results[0], results[1], exact=not has_nan(tf.nest.flatten(results[1])))
    assert_all_same(results[0], results[2], atol=1e-5)


def has_nan(values):
    """The bits of a NaN are those of one of the operands: which is not said."""
    return any(np.isnan(v).any() for v in values)


# ---- what is left of a graph ----


def nodes_run(cluster, graph, fetches, feeds=None, settings=None):
    metadata = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True)
    with v1.Session(cluster.master, graph=graph, config=settings or config({"min_graph_nodes": -1})) as sess:
        result = sess.run(fetches, feeds, options=options, run_metadata=metadata)
    ops = [n.op for part in metadata.partition_graphs for n in part.node]
    return result, ops


@pytest.mark.weft_only
def test_constants_are_computed_before_the_step(cluster, graph):
    x = v1.placeholder(tf.float32, [3, 4])
    scale = tf.sqrt(tf.constant(16.0)) * tf.cast(tf.shape(x)[0], tf.float32)
    result, ops = nodes_run(cluster, graph, x * scale, {x: np.ones([3, 4], np.float32)})
    np.testing.assert_array_equal(result, np.full([3, 4], 12, np.float32))
    assert "Sqrt" in nodes_run(cluster, graph, x * scale, {x: np.ones([3, 4])}, without_passes())[1]
    assert "Sqrt" not in ops and ops.count("Mul") == 1


@pytest.mark.weft_only
def test_a_toggle_turns_its_pass_off(cluster, graph):
    x = v1.placeholder(tf.float32, [3])
    y = tf.tanh(x) + tf.tanh(x) * tf.sqrt(tf.constant(4.0))
    y = tf.transpose(tf.transpose(tf.reshape(y, [3, 1])))
    feeds = {x: np.ones(3, np.float32)}
    for field, op, few, many in (
        ("common_subgraph_elimination", "Tanh", 1, 2),
        ("constant_folding", "Sqrt", 0, 1),
        ("arithmetic_optimization", "Transpose", 0, 2),
    ):
        assert nodes_run(cluster, graph, y, feeds)[1].count(op) == few
        settings = config({field: OFF, "min_graph_nodes": -1})
        assert nodes_run(cluster, graph, y, feeds, settings)[1].count(op) == many
    assert nodes_run(cluster, graph, y, feeds, config(level=-1))[1].count("Tanh") == 2


@pytest.mark.weft_only
def test_small_graphs_are_left_alone(cluster, graph):
    x = tf.sqrt(tf.constant(4.0))
    assert "Sqrt" in nodes_run(cluster, graph, x, settings=config())[1]
    assert "Sqrt" not in nodes_run(cluster, graph, x, settings=config({"min_graph_nodes": -1}))[1]


# ---- what must not change ----


def test_a_fed_constant_is_not_folded(cluster, graph):
    c = tf.constant(2.0)
    y = tf.sqrt(c * 2.0) + 1.0
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        assert sess.run(y, {c: 8.0}) == 5.0
        assert sess.run(y) == 3.0
        assert sess.run(y, {c: 2.0}) == 3.0


def test_a_target_runs_and_a_fetch_keeps_its_name(cluster, graph):
    v = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=True)
    update = v.assign_add(1.0)
    with tf.control_dependencies([update]):
        a = tf.identity(tf.constant(3.0), name="a")
        b = tf.identity(a, name="b")
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        sess.run(v.initializer)
        assert sess.run(["b:0", "a:0"]) == [3.0, 3.0]
        assert sess.run(v) == 1.0
        sess.run("b")
        assert sess.run(v) == 2.0
        assert sess.run(tf.raw_ops.Shape(input=b) + 0).tolist() == []
        assert sess.run(v) == 3.0


def test_reads_of_a_variable_stay_in_order(cluster, graph):
    v = v1.get_variable("v", [], initializer=v1.ones_initializer(), use_resource=False)
    before = tf.identity(v) * 1.0
    with tf.control_dependencies([before]):
        update = v1.assign_add(v, 1.0)
    with tf.control_dependencies([update]):
        after = tf.identity(v) * 1.0
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        sess.run(v.initializer)
        assert sess.run([before, after, update])[:2] == [1.0, 2.0]
        assert sess.run([before, after]) == [2.0, 3.0]


def test_random_numbers_are_not_shared(cluster, graph):
    a, b = v1.random_uniform([4]), v1.random_uniform([4])
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        one, two = sess.run([a + 0.0, b + 0.0])
        assert not np.array_equal(one, two)


def fused(kind):
    """The nodes that a convolution of `kind` becomes: TensorFlow's, and Weft's own for what that has no form for."""
    return {"_Fused" + kind, "_WeftFused" + kind}


@pytest.mark.parametrize("kind", ["check", "gather", "segments"])
def test_a_constant_that_cannot_be_computed_fails_in_the_step(cluster, graph, kind):
    x = v1.placeholder(tf.float32, [])
    if kind == "check":
        y = tf.debugging.check_numerics(tf.math.log(tf.constant([0.0])) * tf.constant([1.0]), "no number", name="bad")
    if kind == "gather":
        y = tf.raw_ops.GatherV2(params=tf.constant([1.0, 2.0]), indices=tf.constant([1, 2]) + tf.constant(1), axis=0, name="bad")
    if kind == "segments":
        y = tf.raw_ops.SegmentSum(data=tf.constant([1.0, 2.0]), segment_ids=tf.constant([1, 0]) + tf.constant(1), name="bad")
    z = tf.reduce_sum(y) * x + x
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        with fails(tf.errors.InvalidArgumentError, op="bad"):
            sess.run(z, {x: 1.0})


@pytest.mark.weft_only
def test_a_reshape_that_may_not_fit_stays(cluster, graph):
    shape = v1.placeholder_with_default(tf.constant([5]), [1])
    x = v1.placeholder(tf.float32, [])
    y = tf.reduce_sum(tf.reshape(tf.constant([1.0, 2.0]), shape, name="bad")) * x
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        with fails(tf.errors.InvalidArgumentError, op="bad"):
            sess.run(y, {x: 1.0})


def test_a_shape_in_a_branch_that_is_not_taken_is_dead(cluster, graph):
    x, p = v1.placeholder(tf.float32, [2, 3]), v1.placeholder(tf.bool, [])
    v1.disable_control_flow_v2()
    try:
        y = v1.cond(p, lambda: tf.shape(x) * 2, lambda: tf.shape(tf.transpose(x)) + tf.constant([1, 1]))
    finally:
        v1.enable_control_flow_v2()
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        value = np.zeros([2, 3], np.float32)
        assert sess.run(y, {x: value, p: True}).tolist() == [4, 6]
        assert sess.run(y, {x: value, p: False}).tolist() == [4, 3]


def test_pow_becomes_what_tensorflow_makes_of_it(cluster, graph):
    x = v1.placeholder(tf.float32, [6])
    values = np.array([0.0, -0.0, 2.5, -1.5, np.inf, 1e-3], np.float32)
    ys = [tf.pow(x, e) for e in (2.0, 1.0, 0.5, -0.5, -1.0, 3.0)]
    with v1.Session(cluster.master, graph=graph, config=config()) as sess, local_session(graph) as oracle:
        assert_all_same(sess.run(ys, {x: values}), oracle.run(ys, {x: values}))


def test_custom_optimizers_are_ignored(cluster, graph):
    settings = config()
    settings.graph_options.rewrite_options.custom_optimizers.add(name="NotThere")
    x = tf.constant(1.0) + tf.constant(2.0)
    with v1.Session(cluster.master, graph=graph, config=settings) as sess:
        assert sess.run(x * 2.0 + 1.0) == 7.0


@pytest.mark.parametrize("activation", [None, tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu, tf.nn.tanh, tf.nn.elu, tf.nn.selu, tf.nn.sigmoid, tf.nn.softplus, tf.nn.softsign, tf.nn.silu, tf.nn.gelu])
@pytest.mark.parametrize("kind", ["MatMul", "Conv2D", "DepthwiseConv2dNative"])
def test_a_layer_keeps_its_bits(cluster, graph, kind, activation):
    rng = np.random.RandomState(len(kind))
    x = v1.placeholder(tf.float32, None)
    channels = 6
    if kind == "MatMul":
        value, y = rng.randn(7, 5), tf.matmul(tf.reshape(x, [-1, 5]), tf.constant(rng.randn(5, 6).astype(np.float32)))
    elif kind == "Conv2D":
        channels = 70
        value, y = rng.randn(2, 9, 8, 3), tf.nn.conv2d(x, rng.randn(3, 3, 3, 70).astype(np.float32), 2, "SAME")
    else:
        value, y = rng.randn(2, 9, 8, 3), tf.nn.depthwise_conv2d(x, rng.randn(3, 3, 3, 2).astype(np.float32), [1, 1, 1, 1], "VALID")
    y = tf.nn.bias_add(y, tf.constant(rng.randn(channels).astype(np.float32)))
    y = y if activation is None else activation(y)
    z = tf.reduce_max(y, axis=0)
    value = np.where(rng.rand(*value.shape) < 0.02, rng.choice([np.nan, np.inf, -0.0]), value).astype(np.float32)
    both, ops = nodes_run(cluster, graph, [y * 1.0, z], {x: value})
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        assert_all_same(both, sess.run([y * 1.0, z], {x: value}))
    if cluster.maker.name == "weft":
        assert "BiasAdd" not in ops and fused(kind) & set(ops)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["Conv2D", "DepthwiseConv2dNative"])
def test_a_padded_convolution_keeps_its_bits(cluster, graph, kind, seed):
    """Images behind a first convolution, which says their rank, as in a network."""
    rng = np.random.RandomState(seed)
    channels, size, kernel, stride = [int(rng.choice(c)) for c in ([3, 16, 40, 48], [1, 5, 12, 19], [1, 2, 3, 5], [1, 2, 3])]
    x = v1.placeholder(tf.float32, [None, None, None, None])
    y = tf.nn.conv2d(x, rng.randn(1, 1, 3, channels).astype(np.float32), 1, "VALID")
    pads = [[0, 0], *(rng.randint(0, 4, [2, 2]) + kernel // 2).tolist(), [0, 0]]
    y = tf.pad(y, pads) if seed % 3 else tf.pad(y, pads, constant_values=0.0)
    if kind == "Conv2D":
        y = tf.nn.conv2d(y, rng.randn(kernel, kernel, channels, 33).astype(np.float32), stride, "VALID")
    else:
        y = tf.nn.depthwise_conv2d(y, rng.randn(kernel, kernel, channels, 1).astype(np.float32), [1, stride, stride, 1], "VALID")
    if seed % 2:
        y = tf.nn.relu6(tf.nn.bias_add(y, rng.randn(y.shape[-1]).astype(np.float32)))
    value = rng.randn(2, size, size + 1, 3)
    value = np.where(rng.rand(*value.shape) < 0.02, rng.choice([np.nan, np.inf, -0.0]), value).astype(np.float32)
    got, ops = nodes_run(cluster, graph, y, {x: value})
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        assert_all_same(got, sess.run(y, {x: value}))
    if cluster.maker.name == "weft":
        assert "Pad" not in ops and "PadV2" not in ops


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("activation", [None, tf.nn.relu, tf.nn.leaky_relu, tf.nn.silu])
@pytest.mark.parametrize("addend", [None, "alike", "row", "larger", "first"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("kind", ["Conv2D", "DepthwiseConv2dNative"])
def test_a_normalised_layer_keeps_its_bits(cluster, graph, kind, has_bias, addend, activation, is_written):
    rng = np.random.RandomState(len(kind))
    x, z = v1.placeholder(tf.float32, None), v1.placeholder(tf.float32, None)
    value = rng.randn(1, 9, 8, 3).astype(np.float32)
    if kind == "Conv2D":
        y = tf.nn.conv2d(x, rng.randn(3, 3, 3, 70).astype(np.float32), 2, "SAME")
    else:
        y = tf.nn.depthwise_conv2d(x, rng.randn(3, 3, 3, 1).astype(np.float32), [1, 2, 2, 1], "SAME")
    channels = 70 if kind == "Conv2D" else 3
    if has_bias:
        y = tf.nn.bias_add(y, tf.constant(rng.randn(channels).astype(np.float32)))
    moments = [rng.uniform(0.5, 2, channels).astype(np.float32) for _ in range(4)]
    y = tf.nn.batch_normalization(y, *moments, 0.01) if is_written else v1.nn.fused_batch_norm(y, *moments, epsilon=0.01, is_training=False)[0]
    shape = {"row": [1, 1, channels], "larger": [3, 5, 4, channels]}.get(addend, [1, 5, 4, channels])
    if addend is not None:
        y = z + y if addend == "first" else y + z
    y = y if activation is None else activation(y)
    feeds = {x: np.where(rng.rand(*value.shape) < 0.02, rng.choice([np.nan, np.inf, -0.0]), value), z: rng.randn(*shape).astype(np.float32)}
    fetches = [y * 1.0, tf.reduce_max(y, axis=0)]
    both, ops = nodes_run(cluster, graph, fetches, feeds)
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        assert_all_same(both, sess.run(fetches, feeds))
    if cluster.maker.name == "weft":
        assert "FusedBatchNormV3" not in ops and "AddV2" not in ops and fused(kind) & set(ops)


def test_a_sum_that_does_not_fit_fails_by_its_name(cluster, graph):
    x, z = v1.placeholder(tf.float32, None), v1.placeholder(tf.float32, None)
    y = tf.nn.bias_add(tf.nn.conv2d(x, np.ones([1, 1, 2, 3], np.float32), 1, "SAME"), np.ones(3, np.float32))
    y = tf.nn.relu(tf.add(y, z, name="the_sum")) * 1.0
    with v1.Session(cluster.master, graph=graph, config=config()) as sess, fails(tf.errors.InvalidArgumentError, "the_sum"):
        sess.run(y, {x: np.ones([1, 4, 4, 2]), z: np.ones([1, 5, 4, 3])})


def test_a_variable_that_changes_between_steps_is_read_anew(cluster, graph):
    """A kernel keeps a filter in its own layout while the variable is the same."""
    x = v1.placeholder(tf.float32, [1, 4, 4, 20])
    w = v1.Variable(tf.ones([3, 3, 20, 40]), use_resource=True)
    y = tf.reduce_max(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")))
    change = w.assign_add(tf.ones([3, 3, 20, 40]))
    train = v1.train.GradientDescentOptimizer(0.0).minimize(y)
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        sess.run(v1.global_variables_initializer())
        for k in range(1, 6):
            for _ in range(k):
                assert sess.run(y, {x: np.ones([1, 4, 4, 20])}) == 180 * k
            sess.run([train, y], {x: np.ones([1, 4, 4, 20])})
            sess.run(change)


def test_a_matrix_that_stays_in_a_loop_and_one_that_does_not(cluster, graph):
    """Panels of the first are kept from iteration to iteration."""
    rng = np.random.RandomState(3)
    x = v1.placeholder(tf.float32, [8, 40])
    w, scale = tf.constant(rng.randn(40, 40).astype(np.float32) / 8), tf.constant(np.float32(0.9))
    def body(i, h, u):
        return i + 1, tf.tanh(tf.matmul(h, w) + tf.matmul(h, u)), u * scale
    fetches = tf.while_loop(lambda i, *_: i < 9, body, [0, x, w])[1:]
    feeds = {x: rng.randn(8, 40)}
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        want = sess.run(fetches, feeds)
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        for _ in range(3):
            assert_all_same(sess.run(fetches, feeds), want)


# ---- products of the slices that a loop reads ----


def recurrence(kind, x, rng, units=6):
    """A layer over x [batch, steps, columns]: its last state, and all of them. `x` may have unknown sizes, but for its columns."""
    columns = x.shape[-1]
    gates = {"lstm": 4, "gates": 3}.get(kind, 1)
    w = [tf.constant(rng.randn(columns, units * (4 if kind == "lstm" else 1)).astype(np.float32) / 4) for _ in range(1 if kind == "lstm" else gates)]
    u = tf.constant(rng.randn(units, units * gates).astype(np.float32) / 4)
    major = tf.transpose(tf.reverse(x, [1]) if kind == "backward" else x, [1, 0, 2])
    length = tf.shape(major)[0]
    steps = tf.TensorArray(tf.float32, length, element_shape=[None, columns]).unstack(major)
    states = tf.TensorArray(tf.float32, length, element_shape=[None, units])
    zeros = tf.zeros([tf.shape(x)[0], units])
    zeros.set_shape([None, units])

    def body(t, h, c, states):
        slice_ = steps.read(t)
        if kind == "lstm":
            i, f, g, o = tf.split(tf.matmul(slice_, w[0]) + tf.matmul(h, u), 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        elif kind == "gates":
            hu = tf.split(tf.matmul(h, u), 3, 1)
            r, z = (tf.sigmoid(tf.matmul(slice_, w[k]) + hu[k]) for k in range(2))
            h = z * h + (1 - z) * tf.tanh(tf.matmul(slice_, w[2]) + r * hu[2])
        else:
            h = tf.tanh(tf.nn.bias_add(tf.matmul(slice_, w[0]), np.arange(units, dtype=np.float32) / 9) + tf.matmul(h, u))
        if kind == "read again":
            h += tf.reduce_mean(slice_, 1, keepdims=True)
        return t + 1, h, c, states.write(t, h)

    _, h, _, states = tf.while_loop(lambda t, *_: t < length, body, [0, zeros, zeros, states], [tf.TensorShape(s) for s in ([], [None, units], [None, units], None)])
    return h, states.stack()


RECURRENCES = ["lstm", "gates", "backward", "read again"]


@pytest.mark.parametrize("batch,steps", [(1, 7), (3, 5), (9, 4), (2, 1), (2, 0), (0, 3)])
@pytest.mark.parametrize("kind", RECURRENCES)
def test_products_before_a_loop_keep_their_bits(cluster, graph, kind, batch, steps):
    x = v1.placeholder(tf.float32, [None, None, 5])
    y = recurrence(kind, x, np.random.RandomState(3))[: 2 if steps > 0 else 1]
    value = np.random.RandomState(4).randn(batch, steps, 5).astype(np.float32)
    if value.size > 20:
        value[0, 2, 1], value[0, 1, 3] = np.inf, -0.0
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        got = [sess.run(y, {x: value}) for _ in range(3)]
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        want = sess.run(y, {x: value})
    assert_all_same(got, [want] * 3)
    with local_session(graph) as sess:
        assert_all_same(got[0], sess.run(y, {x: value}), atol=1e-5)


@pytest.mark.weft_only
@pytest.mark.parametrize("kind", RECURRENCES)
def test_a_loop_reads_products_of_its_input(cluster, graph, kind):
    x = v1.placeholder(tf.float32, [None, None, 5])
    y = recurrence(kind, x, np.random.RandomState(3))
    feeds, products = {x: np.ones([2, 3, 5], np.float32)}, 3 if kind == "gates" else 1

    def counts(*options):
        ops = nodes_run(cluster, graph, y, feeds, *options)[1]
        return ops.count("BatchMatMulV2"), sum(ops.count(op) for op in ("MatMul", "_FusedMatMul", "_WeftFusedMatMul"))

    assert counts() == (products, 1)
    assert counts(config({"loop_optimization": OFF, "min_graph_nodes": -1})) == (0, 1 + products)


def test_an_input_that_does_not_fit_a_loop_fails_by_the_name_of_its_list(cluster, graph):
    x = v1.placeholder(tf.float32, None)
    w = tf.ones([5, 4])
    steps = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[-1, 5], name="slices")

    def body(t, h):
        one = tf.raw_ops.TensorListGetItem(input_handle=steps, index=t, element_shape=[-1, 5], element_dtype=tf.float32, name="slice")
        return t + 1, h + tf.matmul(one, w)

    y = tf.while_loop(lambda t, _: t < 3, body, [0, tf.zeros([2, 4])])[1]
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        np.testing.assert_array_equal(sess.run(y, {x: np.ones([3, 2, 5])}), np.full([2, 4], 15, np.float32))
        for shape, node in (([3, 2, 6], "slices"), ([2, 5], "slices"), ([2, 2, 5], "slice")):
            with fails(tf.errors.InvalidArgumentError, f"{node}}}}}"):
                sess.run(y, {x: np.ones(shape)})


# ---- rows ----


def layer_norm(x, axes):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, tf.cast(0.5, x.dtype), tf.cast(1.5, x.dtype), 1e-3)


def written_softmax(x, axes):
    e = tf.exp(x - tf.reduce_max(x, axes, keepdims=True))
    return e / tf.reduce_sum(e, axes, keepdims=True)


ROWS = {
    "layer norm": layer_norm,
    "softmax": written_softmax,
    "gradient": lambda x, axes: tf.gradients(layer_norm(x, axes), x, tf.sin(x))[0],
    "loss": lambda x, axes: tf.reduce_mean(tf.math.squared_difference(x, tf.sin(x)), axes),
    "norm": lambda x, axes: tf.nn.l2_normalize(x * 2, axes),
    "least and greatest": lambda x, axes: tf.reduce_max(-x, axes) * tf.reduce_min(x * x, axes) + tf.reduce_prod(x, axes),
    "log softmax": lambda x, axes: tf.nn.log_softmax(x * 0.5 + tf.sin(x)) - tf.reduce_sum(x * 0.1, axes, keepdims=True),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ROWS)
def test_rows_are_tensorflows_and_keep_their_bits(cluster, graph, kind, dtype):
    rng = np.random.RandomState(len(kind))
    x = v1.placeholder(dtype, None)
    with tf.Graph().as_default() as same:
        twin = v1.placeholder(dtype, None)
        theirs = [tf.cast(ROWS[kind](twin, axes), tf.float64) for axes in ([-1], [-2, -1], [1, 2])]
    ours = [tf.cast(ROWS[kind](x, axes), tf.float64) for axes in ([-1], [-2, -1], [1, 2])]
    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    for shape in ([2, 3, 5], [4, 1, 40], [2, 33, 129], [1, 2, 1], [3, 2, 4, 3], [2, 0, 3], [0, 2, 3]):
        value = rng.uniform(-1, 1, shape)
        special = np.where(rng.rand(*shape) < 0.02, rng.choice([np.inf, -np.inf, np.nan, -0.0]), value)
        for fed in (value, special):
            fed = fed.astype(tf.as_dtype(dtype).as_numpy_dtype)
            with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
                got = sess.run(ours, {x: fed})
            with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
                plain = sess.run(ours, {x: fed})
            assert_all_same(got, plain, exact=not has_nan(plain))
            with local_session(same) as sess:
                assert_all_same(got, sess.run(theirs, {twin: fed}), atol=tolerance, rtol=tolerance)


def test_a_reduction_of_a_dimension_that_is_not_there_fails_by_its_name(cluster, graph):
    x = v1.placeholder(tf.float32, None)
    y = tf.reduce_sum(tf.sin(x), 3, keepdims=True, name="the_sum") * tf.cos(x)
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        assert sess.run(y, {x: np.ones([1, 1, 1, 4])}).shape == (1, 1, 1, 4)
        for _ in range(2):
            with fails(tf.errors.InvalidArgumentError, "Invalid reduction dimension", "the_sum"):
                sess.run(y, {x: np.ones([4, 4])})


def test_rows_in_branches_and_with_values_fed_in_the_middle(cluster, graph):
    x, p = v1.placeholder(tf.float32, [None, 8]), v1.placeholder(tf.bool, [])
    mean = tf.reduce_mean(x * 2.0, -1, keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(centred * centred, -1, keepdims=True)
    y = tf.cond(p, lambda: written_softmax(centred * tf.math.rsqrt(variance + 0.1), -1), lambda: layer_norm(centred + mean, [-1]))
    rng = np.random.RandomState(5)
    value = rng.randn(6, 8).astype(np.float32)
    for side in (True, False):
        for fed in ({}, {mean: rng.randn(6, 1)}, {variance: rng.uniform(1, 2, [6, 1])}, {centred: rng.randn(6, 8)}):
            feeds, wanted = {x: value, p: side, **fed}, [y, variance, tf.reduce_max(y, 1)]
            with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
                got = sess.run(wanted, feeds)
            with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
                assert_all_same(got, sess.run(wanted, feeds))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("kind", ["bias", "rank", "vector"])
def test_a_bias_that_does_not_fit_fails_by_its_name(cluster, graph, kind, dtype):
    x, b = v1.placeholder(dtype, None), v1.placeholder(dtype, None)
    y = tf.tanh(tf.raw_ops.BiasAdd(value=x * x, bias=b, name="the_bias")) * x
    shapes = {"bias": ([2, 3, 4], [3]), "rank": ([4], [4]), "vector": ([3, 4], [1, 4])}[kind]
    words = {"bias": "Must provide as many biases", "rank": "Input tensor must be at least 2D", "vector": "Biases must be 1D"}[kind]
    feeds = {t: np.ones(s, tf.as_dtype(dtype).as_numpy_dtype) for t, s in zip((x, b), shapes)}
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        with fails(tf.errors.InvalidArgumentError, words, "the_bias"):
            sess.run(y, feeds)


@pytest.mark.parametrize("length", [5, 40, 130])
@pytest.mark.parametrize("mask", ["none", "keys", "causal"])
def test_an_attention_keeps_its_bits(cluster, graph, mask, length):
    rng = np.random.RandomState(length)
    q, k, v = (v1.placeholder(tf.float32, [2, 3, None, 16]) for _ in range(3))
    allowed = v1.placeholder(tf.float32, [2, 1, 1, None])
    scores = tf.matmul(q, k, transpose_b=True) * 0.25
    if mask == "keys":
        scores += (1.0 - allowed) * -1e9
    if mask == "causal":
        scores += np.triu(np.full([length, length], -1e9, np.float32), 1)
    y = tf.matmul(tf.nn.softmax(scores), v) * 1.5
    feeds = {x: rng.randn(2, 3, length, 16) for x in (q, k, v)} | {allowed: rng.rand(2, 1, 1, length) < 0.7}
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        got = sess.run([y, scores] if mask == "none" and length == 5 else [y], feeds)
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        assert_all_same(got[0], sess.run(y, feeds))
    with v1.Session("", graph=graph) as sess:
        assert_all_same(got[0], sess.run(y, feeds), atol=1e-5)


@pytest.mark.parametrize("length", [5, 40, 130])
@pytest.mark.parametrize("mask", ["none", "keras"])
def test_an_attention_of_einsums_keeps_its_bits(cluster, graph, mask, length):
    rng = np.random.RandomState(length)
    q, k, v = (v1.placeholder(tf.float32, [None, None, 3, None]) for _ in range(3))
    allowed = v1.placeholder(tf.bool, [2, 1, 1, None])
    scores = tf.einsum("aecd,abcd->acbe", k, q * 0.25)
    if mask == "keras":
        scores += (1.0 - tf.cast(allowed, tf.float32)) * -1e9
    y = tf.einsum("acbe,aecd->abcd", tf.nn.softmax(scores), v) * 1.5
    feeds = {x: rng.randn(2, length + (x is not q), 3, 16) for x in (q, k, v)} | {allowed: rng.rand(2, 1, 1, length + 1) < 0.7}
    with v1.Session(cluster.master, graph=graph, config=config({"min_graph_nodes": -1})) as sess:
        got = sess.run(y, feeds)
        with fails(tf.errors.InvalidArgumentError, "Expected dimension"):
            sess.run(y, feeds | {k: rng.randn(2, length + 1, 3, 15)})
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        assert_all_same([got], [sess.run(y, feeds)])
    with local_session(graph) as sess:
        assert_all_same([got], [sess.run(y, feeds)], atol=1e-5)


# ---- bodies of functions that kernels call ----


class DrawnBody(Drawn):
    """The same in a function: its arguments instead of what is fed."""

    def __init__(self, seed, args):
        self.rng = np.random.RandomState(seed)
        self.feeds, self.values = {}, list(args)
        for _ in range(self.rng.randint(12, 30)):
            self.values.append(self.node())
        self.fetches = self.values[-2:]


@pytest.mark.parametrize("kind", ["map", "dataset"])
@pytest.mark.parametrize("seed", range(200000, 200000 + SEEDS // 5))
def test_random_bodies_keep_their_results(cluster, graph, seed, kind):
    rng = np.random.RandomState(seed)
    value = rng.randn(3, 2, 4).astype(np.float32)

    def results(x):
        body = tf.function(lambda row: [tf.reduce_sum(tf.cast(v, tf.float64)) for v in DrawnBody(seed, [row, row * 0.5]).fetches])
        if kind == "map":
            concrete = body.get_concrete_function(tf.TensorSpec([2, 4], tf.float32))
            return tf.raw_ops.MapDefun(arguments=[x], captured_inputs=[], output_types=[tf.float64] * 2, output_shapes=[[], []], f=concrete)
        data = tf.data.Dataset.from_tensor_slices(x).map(lambda row: tuple(body(row))).batch(3)
        iterator = v1.data.make_initializable_iterator(data)
        starts.append(iterator.initializer)
        return list(iterator.get_next())

    def outcome(target, of, settings):
        g, x, fetches, start = of
        with v1.Session(target, graph=g, config=settings) as sess:
            sess.run(start, {x: value})
            return sess.run(fetches, {x: value})

    built = []
    for g in (graph, tf.Graph()):
        with g.as_default():
            starts = []
            x = v1.placeholder(tf.float32, [3, 2, 4])
            built.append((g, x, results(x), starts))
    plain = outcome(cluster.master, built[0], without_passes())
    for settings in (config(), config({"min_graph_nodes": -1}), config({"constant_folding": OFF}), config({"common_subgraph_elimination": OFF})):
        assert_all_same(outcome(cluster.master, built[0], settings), plain, exact=not has_nan(plain))
    assert_all_same(plain, outcome("", built[1], None), atol=1e-4, rtol=1e-4)


def test_a_constant_of_a_body_that_cannot_be_computed_fails_by_its_name(cluster, graph):
    def body(x):
        bad = tf.raw_ops.GatherV2(params=tf.constant([1.0, 2.0]), indices=tf.constant([1, 2]) + tf.constant(1), axis=0, name="bad")
        return x * tf.reduce_sum(bad) + x

    concrete = tf.function(body).get_concrete_function(tf.TensorSpec([], tf.float32))
    y = tf.raw_ops.MapDefun(arguments=[tf.ones([3])], captured_inputs=[], output_types=[tf.float32], output_shapes=[[]], f=concrete)
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        with fails(tf.errors.InvalidArgumentError, "bad"):
            sess.run(y)


# ---- layouts ----

TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class DrawnImages:
    """Convolutions with channels last, and between them, with channels first, what models have there; if
    are_first, the convolutions have channels first, too, which TensorFlow computes on no CPU."""

    def __init__(self, seed, static, are_first=False):
        self.rng, self.are_first = np.random.RandomState(seed), are_first
        self.x = v1.placeholder(tf.float32, [2, 8, 10, 3] if static else [None, 8, 10, 3])
        self.feed = self.rng.randn(2, 8, 10, 3).astype(np.float32)
        y = tf.transpose(self.x, TO_FIRST)
        for _ in range(self.rng.randint(2, 4)):
            y = self.convolution(y)
            for _ in range(self.rng.randint(0, 4)):
                y = self.between(y)
        ends = [y, tf.nn.softmax(y), tf.transpose(y, TO_LAST), tf.cast(tf.shape(y), tf.float32), tf.cast(tf.size(y), tf.float32), tf.reshape(y, [-1]) * 2.0]
        self.exact = [ends[self.rng.randint(len(ends))], tf.transpose(y, TO_LAST) * 2.0]
        loss = tf.reduce_sum(tf.math.squared_difference(tf.reduce_mean(y, [2, 3]), 0.5))
        self.sums = [tf.reduce_mean(y, [2, 3]), *[g for g in tf.gradients(loss, [self.x, *self.weights]) if g is not None]]

    weights = ()

    def constant(self, shape):
        value = tf.constant(self.rng.uniform(0.1, 1, shape).astype(np.float32))
        self.weights = (*self.weights, value)
        return value

    def convolution(self, y):
        filters = self.constant([3, 3, int(y.shape[1]), 4]) * 0.05
        if self.are_first:
            return tf.nn.conv2d(y, filters, 1, "SAME", "NCHW")
        y = tf.nn.conv2d(tf.transpose(y, TO_LAST), filters, 1, "SAME")
        return tf.transpose(y, TO_FIRST)

    def between(self, y):
        kind, r, c = self.rng.randint(12), self.rng, int(y.shape[1])
        if kind == 0:
            return tf.nn.bias_add(y, self.constant([c]), "NCHW")
        if kind == 1:
            return tf.nn.relu(y) + y
        if kind == 2:
            return y * self.constant([[c, 1, 1], [1, c, 1, 1], [], [int(y.shape[3])], [1, 1, 1, 1]][r.randint(5)])
        if kind == 3:
            return tf.pad(y, [[0, 0], [0, 1], [1, 0], [0, 2]], ["CONSTANT", "REFLECT"][r.randint(2)])
        if kind == 4:
            return tf.concat([y, y * 0.5], int(r.choice([1, -3])))
        if kind == 5:
            return tf.split(y, [1, c - 1], 1)[1] if c > 1 else y
        if kind == 6:
            return y - tf.reduce_max(y, [-1, 2], keepdims=True)
        if kind == 7:
            last = tf.nn.max_pool2d(tf.transpose(y, TO_LAST), 2, 1, "SAME")
            return tf.transpose(last, TO_FIRST)
        if kind == 8:
            return tf.where(y > 0.1, y, tf.tanh(y))
        if kind == 9:
            return tf.slice(y, [0, 0, 1, 0], [-1, -1, -1, int(y.shape[3]) - 1])
        if kind == 10:
            return tf.reverse(tf.tile(y, [1, 1, 1, 2]), [1, 3])
        return tf.clip_by_value(tf.cast(tf.cast(y, tf.float64) * 2.0, tf.float32), -1.5, 1.5)


@pytest.mark.weft_only
@pytest.mark.parametrize("seed", range(300000, 300000 + SEEDS // 3))
def test_random_images_with_channels_first_keep_their_results(cluster, graph, seed):
    drawn = DrawnImages(seed, seed % 2 == 0, are_first=True)
    feeds = {drawn.x: drawn.feed}
    for fetches in (drawn.exact, drawn.sums):
        with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
            plain = sess.run(fetches, feeds)
        for settings in (config({"min_graph_nodes": -1}), config({"min_graph_nodes": -1, "layout_optimizer": OFF})):
            with v1.Session(cluster.master, graph=graph, config=settings) as sess:
                assert_all_same(sess.run(fetches, feeds), plain, exact=fetches is drawn.exact, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("seed", range(SEEDS * 2 // 3))
def test_random_images_keep_their_results(cluster, graph, seed):
    drawn = DrawnImages(seed, seed % 2 == 0)
    with tf.Graph().as_default() as same:
        again = DrawnImages(seed, seed % 2 == 0)
    feeds = {drawn.x: drawn.feed}
    for fetches, theirs in ((drawn.exact, again.exact), (drawn.sums, again.sums)):
        is_exact = fetches is drawn.exact
        with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
            plain = sess.run(fetches, feeds)
        for settings in (config({"min_graph_nodes": -1}), config({"min_graph_nodes": -1, "layout_optimizer": OFF})):
            with v1.Session(cluster.master, graph=graph, config=settings) as sess:
                assert_all_same(sess.run(fetches, feeds), plain, exact=is_exact, atol=1e-3, rtol=1e-3)
        with local_session(same) as sess:
            assert_all_same(plain, sess.run(theirs, {again.x: again.feed}), atol=1e-3, rtol=1e-3)


@pytest.mark.weft_only
def test_transposes_between_convolutions_go(cluster, graph):
    rng = np.random.RandomState(1)
    x = v1.placeholder(tf.float32, [None, 8, 8, 3])
    y = tf.transpose(tf.nn.conv2d(x, rng.randn(3, 3, 3, 4).astype(np.float32), 1, "SAME"), TO_FIRST)
    y = tf.nn.relu(tf.nn.bias_add(y, np.ones(4, np.float32), "NCHW"))
    y = tf.nn.conv2d(tf.transpose(tf.pad(y, [[0, 0], [0, 0], [1, 1], [2, 2]]), TO_LAST), rng.randn(3, 3, 4, 4).astype(np.float32), 1, "VALID")
    feeds = {x: rng.randn(2, 8, 8, 3)}
    got, ops = nodes_run(cluster, graph, y, feeds)
    assert "Transpose" not in ops and "_FusedConv2D" in ops
    plain, ops = nodes_run(cluster, graph, y, feeds, config({"min_graph_nodes": -1, "layout_optimizer": OFF}))
    assert ops.count("Transpose") == 2
    assert_all_same([got], [plain])


@pytest.mark.weft_only
def test_channels_come_last_on_a_cpu(cluster, graph):
    """TensorFlow has no kernel for this on a CPU."""
    rng = np.random.RandomState(1)
    x = v1.placeholder(tf.float32, [2, 9, 8, 3])
    y = tf.transpose(x, TO_FIRST) * 1.5
    for channels in (3, 4):
        y = tf.nn.conv2d(y, rng.randn(3, 3, channels, 4).astype(np.float32), [1, 1, 2, 1], [[0, 0], [0, 0], [1, 2], [2, 0]], "NCHW", [1, 1, 1, 2])
        y = tf.nn.relu(tf.nn.bias_add(y, np.ones(4, np.float32), "NCHW"))
    y = tf.nn.avg_pool2d(y, [1, 1, 2, 1], 1, "VALID", "NCHW")
    gradient = tf.gradients(y, x, tf.sin(y))[0]
    feeds = {x: rng.randn(2, 9, 8, 3)}
    got, ops = nodes_run(cluster, graph, [y, gradient], feeds)
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        assert_all_same(got, sess.run([y, gradient], feeds))
    assert ops.count("_FusedConv2D") == 2


@pytest.mark.parametrize("is_dead", [False, True])
def test_images_in_loops_and_branches_keep_their_results(cluster, graph, is_dead):
    rng = np.random.RandomState(3)
    x, p = v1.placeholder(tf.float32, [2, 6, 5, 4]), v1.placeholder(tf.bool, [])
    filters, row = tf.constant(rng.randn(3, 3, 4, 4).astype(np.float32) * 0.1), v1.placeholder(tf.float32, [4])

    def layer(y):
        y = tf.transpose(tf.nn.conv2d(y, filters, 1, "SAME"), TO_FIRST)
        y = tf.nn.bias_add(tf.pad(y, [[0, 0], [0, 0], [1, 0], [0, 1]]), row, "NCHW") * tf.reshape(row, [4, 1, 1])
        y = tf.concat([y[:, :, 1:, :-1], y[:, :, 1:, :-1] * 0.5], 1)
        return tf.transpose(tf.split(tf.tanh(y), 2, 1)[1], TO_LAST)

    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, layer(v)), [tf.constant(0), tf.nn.conv2d(x, filters, 1, "SAME")])[1]
    y = tf.cond(p, lambda: layer(y), lambda: tf.transpose(tf.nn.relu(tf.transpose(tf.nn.max_pool2d(y, 2, 1, "SAME"), TO_FIRST)), TO_LAST))
    fetches, feeds = [y, tf.gradients(y, x)[0]], {x: rng.randn(2, 6, 5, 4), p: is_dead, row: rng.uniform(0.5, 1, 4)}
    with v1.Session(cluster.master, graph=graph, config=without_passes()) as sess:
        plain = sess.run(fetches, feeds)
    with v1.Session(cluster.master, graph=graph, config=config()) as sess:
        for _ in range(2):
            assert_all_same(sess.run(fetches, feeds), plain, atol=1e-5, rtol=1e-5)
    with local_session(graph) as sess:
        assert_all_same(plain, sess.run(fetches, feeds), atol=1e-4, rtol=1e-4)
