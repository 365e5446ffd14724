"""Training graphs as people write them: what the files graphs_*.py share.

A graph is a function of a `Training`, marked with @graph; its name is the graph's. It makes placeholders with
`t.rows()` (cut into batches) and `t.whole()` (fed alike at every step), names what is fetched with `t.fetch()` and ends
with `t.train(loss, op)`. The nodes `init_all`, `train`, `loss`, the fetches' own names and `after/<variable>`, which reads
a variable after the step's updates, are all that a run needs.
"""

import collections
import os

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
BATCH = 10
Size = collections.namedtuple("Size", ("rows", "steps"))  # of what is fed in an epoch, and of a run
FULL = Size(37, 30)  # three batches of ten and one of seven in each epoch
ROWS = FULL.rows  # the most that is fed


def short(last_rows):
    """Two epochs whose last batch has so few rows that replicas may get none."""
    return Size(3 * BATCH + last_rows, 8)


GRAPHS = collections.OrderedDict()

rng = np.random.RandomState(11)
X = rng.randn(ROWS, 8).astype("f")
Y = rng.randint(0, 4, ROWS).astype("i4")
T = (X[:, :2] * 0.5 + 0.2 * rng.randn(ROWS, 2)).astype("f")  # targets of a regression
SEQ = rng.randn(ROWS, 6, 5).astype("f")
LENGTH = rng.randint(1, 7, ROWS).astype("i4")
IDS = rng.randint(0, 20, (ROWS, 6)).astype("i4")
TAGS = rng.randint(0, 3, (ROWS, 6)).astype("i4")
IMAGE = rng.randn(ROWS, 8, 8, 2).astype("f")
USER = rng.randint(0, 12, ROWS).astype("i4")
ITEM = rng.randint(0, 15, ROWS).astype("i4")
WEIGHT = (rng.rand(ROWS) * (rng.rand(ROWS) < 0.7)).astype("f")  # some rows are masked out


Graph = collections.namedtuple("Graph", ("build", "v2", "refused"))


def graph(build=None, *, v2=False, name=None, refused=None):
    """Marks a builder; v2: with functional control flow (If, While, PartitionedCall). `refused`: what strategies say of it."""
    if build is None:
        return lambda f: graph(f, v2=v2, name=name, refused=refused)
    name = name or build.__name__
    assert name not in GRAPHS, name
    GRAPHS[name] = Graph(build, v2, refused)
    return build


class Training:
    """A graph under construction, and what a run of it feeds and fetches."""

    def __init__(self, name, size=FULL):
        self.name, self.size = name, size
        self.feeds, self.constants, self.fetches, self.after = {}, {}, ["loss"], []
        self.options = None  # of strategies, in their own notation

    def rows(self, name, array, batch=None):
        """A placeholder whose rows are batches. `batch`: its first dimension, fixed; the rest of the rows is left out."""
        array = array[: self.size.rows]
        self.feeds[name] = array if batch is None else array[: len(array) // batch * batch]
        return v1.placeholder(array.dtype, [batch, *array.shape[1:]], name=name)

    def whole(self, name, value):
        """A placeholder that is fed the same value at every step."""
        value = np.asarray(value)
        self.constants[name] = value
        return v1.placeholder(value.dtype, value.shape, name=name)

    def fetch(self, **tensors):
        for name, tensor in tensors.items():
            self.fetches.append("fetch_" + name)
            tf.identity(tensor, name=self.fetches[-1])

    def train(self, loss, *ops):
        tf.identity(loss, name="loss")
        train = tf.group(*ops, name="train")
        variables = v1.global_variables() + v1.local_variables()
        with tf.control_dependencies([train]):
            for i, v in enumerate(variables):
                self.after.append(f"after_{i}")
                tf.identity(v.read_value(), name=self.after[-1])
        tf.group(v1.global_variables_initializer(), v1.local_variables_initializer(), name="init_all")

    def minimize(self, loss, rate=0.1, optimizer=None, before=(), **fetches):
        """The usual ending: one optimizer, a global step, UPDATE_OPS. `before`: what reads variables before they change."""
        self.fetch(**fetches)
        step = v1.train.get_or_create_global_step()
        optimizer = optimizer or v1.train.GradientDescentOptimizer(rate)
        pairs = optimizer.compute_gradients(loss)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS) + list(before)):
            op = optimizer.apply_gradients(pairs, global_step=step)
        self.train(loss, op)


def make(name, size=FULL):
    """Builds a graph of the registry; returns the tf.Graph and its Training."""
    build, v2, _ = GRAPHS[name]
    t = Training(name, size)
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as g, g.container(name.replace("_", ".")):
            v1.set_random_seed(42)
            build(t)
    finally:
        v1.disable_control_flow_v2()
    return g, t


def batches(t):
    """The feeds of each step, as `weft submit --batch` cuts them."""
    at, rows = 0, min(len(a) for a in t.feeds.values())
    for _ in range(t.size.steps):
        feed = {name + ":0": a[at : at + BATCH] for name, a in t.feeds.items()}
        feed.update({name + ":0": a for name, a in t.constants.items()})
        yield feed
        at = 0 if at + BATCH >= rows else at + BATCH


def run_on_tensorflow(g, t):
    """The losses and fetches of each step, and the variables in the end, of a stock session. A step that fails (the four largest of
    one row) is the last, and leaves no variables."""
    steps, values = [], None
    with v1.Session(graph=g, config=v1.ConfigProto(operation_timeout_in_ms=60000)) as s:
        s.run("init_all")
        for feed in batches(t):
            try:
                values = s.run([f + ":0" for f in t.fetches] + [a + ":0" for a in t.after] + ["train"], feed)
            except tf.errors.InvalidArgumentError:
                if t.size is FULL:
                    raise
                values = None
                break
            steps.append(values[: len(t.fetches)])
    fetches = {f: [np.asarray(step[i]) for step in steps] for i, f in enumerate(t.fetches)}
    return fetches, dict(zip(t.after, values[len(t.fetches) : -1])) if values else None


def write(g, t, folder):
    """What `weft submit` is given."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "graph.pb"), "wb") as f:
        f.write(g.as_graph_def().SerializeToString())
    for name, array in t.feeds.items():
        np.save(os.path.join(folder, name + ".npy"), array)


def arguments(t):
    args = ["--batch", str(BATCH), "--steps", str(t.size.steps), "--init", "init_all", "--target", "train", "--json"]
    for name in t.feeds:
        args += ["--feed", f"{name}={name}.npy"]
    for name, value in t.constants.items():
        args += ["--feed", f"{name}={str(value.tolist()).replace(' ', '')}"]
    for name in t.fetches:
        args += ["--fetch", name]
    for name in t.after:
        args += ["--save-fetch", f"{name}={name}.npy"]
    return args


# ---- what many models are made of ----


def variable(name, shape, scale=0.3, dtype="f", **more):
    """A variable with a start value that depends on its name alone."""
    seed = sum(ord(c) * (i + 1) for i, c in enumerate(name)) % 1000
    return v1.get_variable(name, initializer=(np.random.RandomState(seed).randn(*shape) * scale).astype(dtype), **more)


def dense(x, units, name, activation=None, bias=True, use_resource=None):
    """As tf.layers.dense: the last axis is contracted, of inputs of any rank."""
    with v1.variable_scope(name, use_resource=use_resource):
        kernel = v1.get_variable("kernel", [x.shape[-1], units], initializer=v1.glorot_uniform_initializer(seed=3))
        y = tf.matmul(x, kernel) if len(x.shape) == 2 else tf.tensordot(x, kernel, 1)
        if bias:
            y = tf.nn.bias_add(y, v1.get_variable("bias", [units], initializer=v1.zeros_initializer()))
        return activation(y) if activation else y


def conv(x, filters, name, size=3, stride=1, activation=None, padding="SAME", bias=True):
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [size, size, x.shape[-1], filters], initializer=v1.glorot_uniform_initializer(seed=5))
        y = tf.nn.conv2d(x, kernel, stride, padding)
        if bias:
            y = tf.nn.bias_add(y, v1.get_variable("bias", [filters], initializer=v1.zeros_initializer()))
        return activation(y) if activation else y


def batch_norm(x, name, fused=False, momentum=0.9):
    """As tf.layers.batch_normalization(training=True): moving averages in UPDATE_OPS."""
    size, axes = x.shape[-1], list(range(len(x.shape) - 1))
    with v1.variable_scope(name):
        gamma, beta = v1.get_variable("gamma", [size], initializer=v1.ones_initializer()), v1.get_variable("beta", [size], initializer=v1.zeros_initializer())
        mean = v1.get_variable("moving_mean", [size], initializer=v1.zeros_initializer(), trainable=False)
        var = v1.get_variable("moving_variance", [size], initializer=v1.ones_initializer(), trainable=False)
        if fused:
            y, m, v = v1.nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3, is_training=True)
        else:
            m, v = tf.nn.moments(x, axes)
            y = tf.nn.batch_normalization(x, m, v, beta, gamma, 1e-3)
        for moving, value in ((mean, m), (var, v)):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(moving, (moving - value) * (1 - momentum)))
        return y


def layer_norm(x, name):
    size = x.shape[-1]
    with v1.variable_scope(name):
        gamma, beta = v1.get_variable("gamma", [size], initializer=v1.ones_initializer()), v1.get_variable("beta", [size], initializer=v1.zeros_initializer())
        mean, var = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(var + 1e-5) * gamma + beta


def cross_entropy(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def accuracy(logits, labels):
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32))


def mlp(x, units=6, classes=4, activation=tf.tanh, use_resource=None):
    return dense(dense(x, units, "hidden", activation, use_resource=use_resource), classes, "logits", use_resource=use_resource)


def classifier(t, **more):
    """x, y, logits and loss of a small classifier."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x, **more)
    return x, y, logits, cross_entropy(logits, y)


class Cell:
    """What dynamic_rnn asks of a cell; the arithmetic is that of tf.nn.rnn_cell."""

    trainable, dtype = True, tf.float32

    def __init__(self, units, name):
        self.units, self.name, self.scope = units, name, None
        self.state_size = self.output_size = units

    def zero_state(self, batch, dtype):
        def zeros(n):
            return tf.zeros(tf.stack([batch, n]), dtype)

        return tf.nest.map_structure(zeros, self.state_size)

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return self.zero_state(tf.shape(inputs)[0] if inputs is not None else batch_size, dtype or inputs.dtype)

    def weights(self, name, inputs, units, bias=0.0):
        with v1.variable_scope(self.name, reuse=v1.AUTO_REUSE):
            kernel = v1.get_variable(name + "_kernel", [inputs, units], initializer=v1.glorot_uniform_initializer(seed=7))
            return kernel, v1.get_variable(name + "_bias", [units], initializer=v1.constant_initializer(bias))

    def __call__(self, x, state, scope=None):
        return self.call(x, state)


class BasicCell(Cell):
    def call(self, x, h):
        kernel, bias = self.weights("rnn", int(x.shape[-1]) + self.units, self.units)
        h = tf.tanh(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias))
        return h, h


class GRUCell(Cell):
    def call(self, x, h):
        n = int(x.shape[-1]) + self.units
        kernel, bias = self.weights("gates", n, 2 * self.units, 1.0)
        r, u = tf.split(tf.sigmoid(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias)), 2, 1)
        kernel, bias = self.weights("candidate", n, self.units)
        c = tf.tanh(tf.nn.bias_add(tf.matmul(tf.concat([x, r * h], 1), kernel), bias))
        h = u * h + (1 - u) * c
        return h, h


State = collections.namedtuple("State", ("c", "h"))


class LSTMCell(Cell):
    def __init__(self, units, name):
        super().__init__(units, name)
        self.state_size = State(units, units)

    def call(self, x, state):
        c, h = state
        kernel, bias = self.weights("lstm", int(x.shape[-1]) + self.units, 4 * self.units)
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), kernel), bias), 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return h, State(c, h)


class StackedCell(Cell):
    def __init__(self, cells):
        super().__init__(cells[-1].units, "stacked")
        self.cells = cells
        self.state_size, self.output_size = tuple(c.state_size for c in cells), cells[-1].output_size

    def call(self, x, states):
        new = []
        for cell, state in zip(self.cells, states):
            x, state = cell(x, state)
            new.append(state)
        return x, tuple(new)


class ResidualCell(Cell):
    """tf.nn.rnn_cell.ResidualWrapper."""

    def __init__(self, cell):
        super().__init__(cell.units, cell.name)
        self.cell, self.state_size = cell, cell.state_size

    def call(self, x, state):
        y, state = self.cell(x, state)
        return x + y, state
