"""Gradients that Weft's C API adds to whole graphs, through loops, conditionals, functions, lists and arrays: computed by
TensorFlow and by Weft's servers, they have the values of those that TensorFlow's Python adds.

Each graph is a function of its inputs, float32 arrays, that gives the ys; all inputs are differentiated. `twice`: so are the
gradients' sums of squares, by Weft's own gradients again.
"""

import numpy as np
import pytest
import tensorflow as tf

from support import assert_same, local_session, session
from weft_graph import WeftGraphs

GRAPHS = {}


def graph(*shapes, twice=False, v1=False):
    """Registers a graph with inputs of these shapes. `v1`: its loops and conditionals are those of graphs, not functions."""

    def register(build):
        GRAPHS[build.__name__] = (build, shapes, twice, v1)
        return build

    return register


# ---- functions ----


@graph((3, 2), (2, 4), twice=True)
def a_function(x, w):
    return tf.function(lambda a, b: tf.tanh(a @ b))(x, w)


@graph((3,), twice=True)
def a_function_in_a_function(x):
    inner = tf.function(lambda a: tf.sin(a) * a)
    return tf.function(lambda a: inner(inner(a)) + inner(a))(x)


@graph((3,), (3,))
def two_results_of_which_one_counts(x, y):
    f = tf.function(lambda a, b: (a * b, tf.exp(a)))
    return f(x, y)[0]


@graph((4,))
def an_input_that_is_a_call_s_result(x):
    return tf.function(lambda a: a * a)(tf.function(lambda a: tf.exp(a))(x))


# ---- conditionals ----


@graph((3,), (3,), twice=True)
def a_branch_that_is_taken(x, y):
    return tf.cond(tf.reduce_sum(x) > -100.0, lambda: x * tf.sin(y), lambda: y)


@graph((3,), (3,))
def a_branch_that_is_not_taken(x, y):
    return tf.cond(tf.reduce_sum(x) > 100.0, lambda: x * tf.sin(y), lambda: y * y)


@graph((3,), twice=True)
def a_case(x):
    index = tf.cast(tf.reduce_sum(x) > -100.0, tf.int32) + 1
    return tf.switch_case(index, [lambda: x, lambda: x * x, lambda: tf.exp(x) * 2.0, lambda: -x])


@graph((3,))
def conds_in_conds(x):
    def inner():
        return tf.cond(x[1] > -100.0, lambda: tf.exp(x) * x[0], lambda: x)

    return tf.cond(x[0] > -100.0, inner, lambda: x * 3.0)


@graph((2, 3), (3,))
def different_shapes_in_branches(x, y):
    return tf.reduce_sum(tf.cond(tf.size(x) > 3, lambda: tf.reshape(x, [-1]), lambda: y) ** 2)


# ---- loops ----


@graph((3,), twice=True)
def a_loop(x):
    return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, tf.sin(v) * v), [0, x])[1]


@graph((3,), (3,), twice=True)
def a_loop_that_reads_another_tensor(x, w):
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * w + tf.tanh(v)), [0, x])[1]


@graph((3,), (3,))
def a_loop_that_never_runs(x, w):
    return tf.while_loop(lambda i, v: i < 0, lambda i, v: (i + 1, v * w), [0, x])[1]


@graph((3,))
def a_loop_with_two_variables(x):
    _, a, b = tf.while_loop(lambda i, a, b: i < 5, lambda i, a, b: (i + 1, b * 0.5, a + tf.sin(b)), [0, x, x * x])
    return a * b


@graph((3,))
def a_loop_as_long_as_its_value(x):
    return tf.while_loop(lambda v: tf.reduce_sum(v * v) < 100.0, lambda v: (v * 1.5,), [x + 1.0])[0]


@graph((3, 3), (3, 2))
def products_in_a_loop(w, x):
    return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, tf.tanh(w @ v)), [0, x])[1]


@graph((2, 3))
def a_loop_in_a_loop(x):
    def outer(i, v):
        _, inner = tf.while_loop(lambda j, u: j < i + 1, lambda j, u: (j + 1, tf.sin(u) + u * v), [0, v])
        return i + 1, inner * 0.5

    return tf.while_loop(lambda i, v: i < 3, outer, [0, x])[1]


@graph((3,))
def a_cond_in_a_loop(x):
    def body(i, v):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.sin(v) * v, lambda: v * x)

    return tf.while_loop(lambda i, v: i < 5, body, [0, x])[1]


@graph((3,))
def conds_in_conds_in_a_loop(x):
    def body(i, v):
        def even():
            return tf.cond(i > 1, lambda: tf.exp(-v) * x, lambda: v * v)

        return i + 1, tf.cond(tf.equal(i % 2, 0), even, lambda: tf.sin(v))

    return tf.while_loop(lambda i, v: i < 6, body, [0, x])[1]


@graph((3,))
def a_loop_in_a_cond(x):
    def loop():
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x + tf.sin(v)), [0, x])[1]

    return tf.cond(x[0] > -100.0, loop, lambda: x)


@graph((3,))
def a_loop_in_a_cond_that_is_not_taken(x):
    def loop():
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x + tf.sin(v)), [0, x])[1]

    return tf.cond(x[0] > 100.0, loop, lambda: x * x)


@graph((3,))
def a_loop_in_a_cond_in_a_loop(x):
    def body(i, v):
        def loop():
            return tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u * x + tf.sin(u)), [0, v])[1]

        return i + 1, tf.cond(tf.equal(i % 2, 1), loop, lambda: tf.cos(v))

    return tf.while_loop(lambda i, v: i < 4, body, [0, x])[1]


@graph((2,))
def a_growing_value(x):
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    grown = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.concat([v, tf.sin(v)], 0)), [0, x], shapes)[1]
    return grown * grown


@graph((3,))
def a_function_in_a_loop(x):
    f = tf.function(lambda a, b: tf.tanh(a) * b)
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, f(v, x)), [0, x])[1]


@graph((3,))
def a_loop_in_a_function(x):
    @tf.function
    def f(a):
        for _ in tf.range(3):
            a = tf.sin(a) * a
        return a

    return f(x)


@graph((4, 3), (3, 3), (2, 3))
def a_recurrent_net(x, w, state):
    def step(i, s):
        return i + 1, tf.tanh(s @ w + x[i])

    return tf.while_loop(lambda i, s: i < 4, step, [0, state])[1]


@graph((5,))
def a_shape_in_a_loop(x):
    def body(i, v):
        return i + 1, v + tf.reduce_mean(v * x) + tf.cast(tf.shape(v)[0], tf.float32)

    return tf.while_loop(lambda i, v: i < 3, body, [0, x])[1]


@graph((3,))
def random_numbers_in_a_loop_are_the_same_again(x):
    def body(i, v):
        return i + 1, v * tf.random.stateless_uniform([3], [1, i])

    return tf.while_loop(lambda i, v: i < 3, body, [0, x])[1]


@graph((2, 3))
def map_fn(x):
    return tf.map_fn(lambda row: tf.sin(row) * row[0], x)


@graph((4, 3))
def scan(x):
    return tf.scan(lambda a, row: a * 0.5 + tf.sin(row), x)


@graph((4, 3))
def foldl(x):
    return tf.foldl(lambda a, row: a * row + 1.0, x)


# ---- lists and arrays ----


@graph((3,), (3,))
def a_tensor_list(x, y):
    raw = tf.raw_ops
    a = raw.EmptyTensorList(element_shape=[3], max_num_elements=-1, element_dtype=tf.float32)
    a = raw.TensorListPushBack(input_handle=a, tensor=x * 2.0)
    a = raw.TensorListPushBack(input_handle=a, tensor=tf.sin(y))
    a = raw.TensorListSetItem(input_handle=a, index=0, item=x * y)
    stacked = raw.TensorListStack(input_handle=a, element_shape=[3], element_dtype=tf.float32)
    item = raw.TensorListGetItem(input_handle=a, index=1, element_shape=[3], element_dtype=tf.float32)
    return tf.reduce_sum(stacked * stacked, 0) * item


@graph((4, 2))
def a_list_scattered_and_gathered(x):
    raw = tf.raw_ops
    a = raw.TensorListScatterV2(tensor=x, indices=[2, 0, 3, 1], element_shape=[2], num_elements=-1)
    picked = raw.TensorListGather(input_handle=a, indices=[0, 2], element_shape=[2], element_dtype=tf.float32)
    b = raw.TensorListScatterIntoExistingList(input_handle=a, tensor=picked * picked, indices=[1, 3])
    return raw.TensorListStack(input_handle=b, element_shape=[2], element_dtype=tf.float32) ** 2


@graph((5, 2))
def a_list_split_and_joined(x):
    raw = tf.raw_ops
    a = raw.TensorListSplit(tensor=x, element_shape=[-1, 2], lengths=tf.constant([2, 3], tf.int64))
    a = raw.TensorListResize(input_handle=a, size=2)
    joined = raw.TensorListConcatV2(input_handle=a, element_shape=[-1, 2], leading_dims=tf.constant([], tf.int64), element_dtype=tf.float32)
    return joined[0] ** 2


@graph((3, 2))
def a_list_in_a_loop(x):
    raw = tf.raw_ops
    rows = raw.TensorListFromTensor(tensor=x, element_shape=[2])
    out = raw.TensorListReserve(element_shape=[2], num_elements=3, element_dtype=tf.float32)

    def body(i, o):
        row = raw.TensorListGetItem(input_handle=rows, index=i, element_shape=[2], element_dtype=tf.float32)
        return i + 1, raw.TensorListSetItem(input_handle=o, index=i, item=tf.sin(row) * row)

    out = tf.while_loop(lambda i, o: i < 3, body, [0, out])[1]
    return raw.TensorListStack(input_handle=out, element_shape=[2], element_dtype=tf.float32)


@graph((3, 2))
def an_array(x):
    a = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x)
    b = tf.TensorArray(tf.float32, 2).write(0, a.read(1) * 2.0).write(1, tf.sin(a.read(2)) * a.read(1))
    return b.stack() ** 2


@graph((4, 2), v1=True)
def an_array_in_a_loop(x):
    a = tf.TensorArray(tf.float32, 4).unstack(x)
    out = tf.TensorArray(tf.float32, 4)
    out = tf.while_loop(lambda i, o: i < 4, lambda i, o: (i + 1, o.write(i, tf.sin(a.read(i)))), [0, out])[1]
    return out.stack() ** 2


@graph((4, 2), (2,), v1=True)
def an_array_that_is_split(x, y):
    a = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x * y, [1, 3])
    return a.concat() ** 2


@graph((3,))
def a_list_as_long_as_a_tensor(x):
    """Its length depends on x, but has no gradient."""
    return tf.cond(x[0] > -100.0, lambda: tf.scan(lambda a, e: a * 0.5 + e * x[1], x[: tf.size(x)]), lambda: x)


@graph((3,), (2,))
def an_optional(x, y):
    some = tf.raw_ops.OptionalFromValue(components=[x * x, y])
    a, b = tf.raw_ops.OptionalGetValue(optional=some, output_types=[tf.float32, tf.float32], output_shapes=[[3], [2]])
    return tf.sin(a) * b[0]


@graph((3,))
def an_optional_out_of_a_cond(x):
    some = tf.cond(x[0] > -100.0, lambda: tf.raw_ops.OptionalFromValue(components=[x * x]), lambda: tf.raw_ops.OptionalFromValue(components=[x]))
    return tf.raw_ops.OptionalGetValue(optional=some, output_types=[tf.float32], output_shapes=[[3]])[0] * 2.0


# ---- gathers ----


@graph((5, 3))
def rows_gathered_twice(x):
    return tf.gather(x, [1, 4, 1]) ** 2


@graph((2, 5, 3))
def a_gather_with_batch_dims(x):
    return tf.gather(x, [[1, 4, 1], [0, 0, 2]], batch_dims=1) ** 2


@graph((2, 3, 5, 2))
def a_gather_along_an_axis_behind_batch_dims(x):
    return tf.gather(x, [[1, 4], [0, 2]], batch_dims=1, axis=2) ** 2


@graph((2, 3, 5))
def a_gather_with_only_batch_dims(x):
    return tf.gather(x, [[1, 4, 0], [0, 2, 2]], batch_dims=2) ** 2


@graph((4, 3))
def a_gather_in_a_loop(x):
    return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v + tf.gather(x, [i, 0])), [0, x[:2]])[1] ** 2


# ---- variables ----


def variable(*shape):
    return tf.compat.v1.Variable(np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32), use_resource=True)


@graph((3,))
def a_variable(x):
    return variable(3) * x


@graph((2, 3))
def rows_of_a_variable(x):
    return tf.raw_ops.ResourceGather(resource=variable(5, 3).handle, indices=[4, 1], dtype=tf.float32) * x


@graph((3, 2))
def elements_of_a_variable(x):
    return tf.raw_ops.ResourceGatherNd(resource=variable(4, 5, 2).handle, indices=[[1, 2], [0, 3], [1, 2]], dtype=tf.float32) * x


@graph((3,))
def a_variable_in_a_function(x):
    v = variable(3)
    return tf.function(lambda a: v * tf.sin(a))(x)


@graph((3,))
def a_variable_in_a_cond(x):
    v = variable(3)
    return tf.cond(x[0] > -100.0, lambda: v * x, lambda: x)


@graph((3,))
def a_variable_in_the_other_branch(x):
    v = variable(3)
    return tf.cond(x[0] > 100.0, lambda: v * x, lambda: x)


@graph((3,))
def a_variable_in_a_loop(x):
    v = variable(3)
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.sin(a) * v), [0, x])[1]


@graph((3, 2))
def rows_of_a_variable_in_a_loop(x):
    v = variable(4, 2)

    def body(i, a):
        return i + 1, a * tf.gather(v, [i, 0, i]) + tf.cond(tf.equal(i, 1), lambda: v[:3], lambda: a)

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


# ---- loops and conditionals of graphs ----


@graph((3,), (3,), v1=True)
def a_v1_loop(x, w):
    return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, tf.sin(v) * w), [0, x])[1]


@graph((3,), (3,), v1=True)
def a_v1_cond(x, w):
    return tf.cond(x[0] > -100.0, lambda: x * w, lambda: w)


@graph((3,), v1=True)
def a_v1_cond_in_a_loop(x):
    def body(i, v):
        return i + 1, tf.cond(i % 2 > 0, lambda: tf.sin(v) * x, lambda: v * v)

    return tf.while_loop(lambda i, v: i < 5, body, [0, x])[1]


@graph((3,), v1=True)
def a_v1_loop_in_a_loop(x):
    def outer(i, v):
        return i + 1, tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u * v + x), [0, v])[1]

    return tf.while_loop(lambda i, v: i < 3, outer, [0, x])[1]


@graph((3,), v1=True)
def a_v1_loop_in_a_cond(x):
    def loop():
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x), [0, x])[1]

    return tf.cond(x[0] > -100.0, loop, lambda: x)


@graph((3,), v1=True)
def a_v1_variable_in_a_cond_in_a_loop(x):
    v = variable(3)

    def body(i, a):
        return i + 1, tf.cond(i > 0, lambda: v * a, lambda: tf.sin(a))

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


@graph((3,), v1=True)
def a_v1_array_in_a_cond_in_a_loop(x):
    def body(i, v):
        return i + 1, tf.cond(i > 0, lambda: tf.map_fn(lambda e: tf.sin(e) * v[0], v), lambda: v * x)

    return tf.while_loop(lambda i, v: i < 3, body, [0, x])[1]


@graph((3, 2, 4), (2, 5), v1=True)
def a_v1_dynamic_rnn(x, state):
    kernel = variable(9, 5)

    def step(t, s, out):
        s = tf.where(tf.constant([[True], [False]]) | (t < 2), tf.tanh(tf.concat([inputs.read(t), s], 1) @ kernel), s)
        return t + 1, s, out.write(t, s)

    inputs = tf.TensorArray(tf.float32, 3).unstack(x)
    _, last, out = tf.while_loop(lambda t, s, out: t < 3, step, [0, state, tf.TensorArray(tf.float32, 3)])
    return out.stack() * last


# ---- random ones ----


class Nest:
    """A random expression of x [3], with conditionals, loops and functions in one another."""

    def __init__(self, seed, has_functions):
        self.rng = np.random.default_rng(seed)
        self.has_functions = has_functions

    def inner(self):
        return Nest(int(self.rng.integers(1 << 30)), self.has_functions)

    def formula(self, x, w):
        kind = self.rng.integers(8)
        if kind < 4:
            return [tf.sin(x) * w, tf.tanh(x * w) + x, tf.nn.softmax(x) * tf.reduce_sum(w), tf.maximum(x, w * 0.3)][kind]
        if kind == 4:
            return tf.gather(x, [2, 0, 1]) + 0.5 * w
        if kind == 5:
            array = tf.TensorArray(tf.float32, 2, clear_after_read=False).write(0, x).write(1, w * x)
            return array.read(1) + tf.reduce_mean(array.stack(), 0)
        if kind == 6:
            return tf.map_fn(lambda e: tf.sin(e) * w[0], x)
        return tf.scan(lambda a, e: a * 0.5 + e * w[1], x)

    def loop(self, x, w, level):
        inner, times, keeps = self.inner(), int(self.rng.integers(4)), self.rng.random() < 0.5

        def body(i, v, u):
            after = tf.ensure_shape(inner.block(v, u, level + 1, i), [3])
            return i + 1, after, u if keeps else u * 0.5 + after * 0.1

        _, v, u = tf.while_loop(lambda i, v, u: i < times, body, [0, x, w])
        return v + u * 0.25

    def cond(self, x, w, level, i):
        sides = [self.inner(), self.inner()]
        bound = float(self.rng.uniform(-1, 1))
        pred = tf.reduce_sum(x) > bound if i is None else tf.equal(i % 2, 0)
        return tf.cond(pred, lambda: sides[0].block(x, w, level + 1, i), lambda: sides[1].block(x, w, level + 1, i))

    def block(self, x, w, level=0, i=None):
        for _ in range(2):
            kind = self.rng.integers(6 if level < 2 else 2)
            if kind < 2:
                x = self.formula(x, w)
            elif kind < 4:
                x = self.cond(x, w, level, i)
            elif kind == 4 or not self.has_functions:
                x = self.loop(x, w, level)
            else:
                inner = self.inner()
                x = tf.function(lambda a, b: inner.block(a, b, level + 1))(x, w)
        return tf.ensure_shape(x, [3])


for _seed in range(10):

    def _nest(x, w, seed=_seed):
        return Nest(seed, seed % 2 == 0).block(x, w) + w * 0.1

    _nest.__name__ = f"random_{_seed}"
    graph((3,), (3,), v1=_seed % 2 == 1)(_nest)


# ---- the tests ----


class Built:
    """A graph with the gradients that TensorFlow's client adds; also those of its variables."""

    def __init__(self, name):
        build, shapes, self.twice, self.v1 = GRAPHS[name]
        if self.v1:
            tf.compat.v1.disable_control_flow_v2()
        try:
            self.build(build, shapes)
        finally:
            tf.compat.v1.enable_control_flow_v2()

    def build(self, build, shapes):
        rng = np.random.default_rng(7)
        inputs = [tf.compat.v1.placeholder(tf.float32, s) for s in shapes]
        y = build(*inputs)
        xs = inputs + [v.handle for v in tf.compat.v1.global_variables()]
        self.xs = [x.name for x in xs]
        self.y = y.name
        self.feeds = {x.name: rng.uniform(-1, 1, x.shape).astype(np.float32) for x in inputs}
        dy = tf.compat.v1.placeholder(tf.float32, y.shape)
        self.dy = dy.name
        self.init = tf.compat.v1.global_variables_initializer().name  # the same for all graphs: "init"
        self.forward = tf.compat.v1.get_default_graph().as_graph_def()
        grads = [g if g is None else tf.convert_to_tensor(g) for g in tf.gradients(y, xs, dy)]
        self.grads = [None if g is None else g.name for g in grads]
        if self.twice:
            total = sum(tf.reduce_sum(g * g) for g in grads if g is not None)
            self.seconds = [None if g is None else tf.convert_to_tensor(g).name for g in tf.gradients(total, xs)]

    def run(self, make_session, graph_def, names, feeds):
        """The values of the tensors; None where there is no name."""
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            with make_session(graph) as sess:
                sess.run(graph.get_operation_by_name(self.init))
                values = iter(sess.run([n for n in names if n is not None], feeds))
                return [None if n is None else next(values) for n in names]


def symbolic_gradients(name, feeds, dy):
    """The graph with the gradients of the same function that SymbolicGradient gives, and their names."""
    build, shapes, _, _ = GRAPHS[name]
    with tf.Graph().as_default() as graph:
        f = tf.function(lambda *xs: build(*xs)).get_concrete_function(*(tf.TensorSpec(s) for s in shapes))
        f.add_to_graph(graph)
        inputs = [tf.constant(v) for v in [*feeds.values(), dy]]
        grads = tf.raw_ops.SymbolicGradient(input=inputs, Tout=[tf.float32] * len(shapes), f=f.name)
        tf.compat.v1.global_variables_initializer()
        return graph.as_graph_def(), [g.name for g in grads]


def place(name):
    node, index = name.split(":")
    return node, int(index)


def compare(got, want, what):
    for i, (g, w) in enumerate(zip(got, want)):
        if g is not None or w is not None:
            g, w = (np.zeros_like(w) if g is None else g), (np.zeros_like(g) if w is None else w)
            assert_same(g, w, rtol=2e-4, atol=1e-5, what=f"{what}, input {i}")


@pytest.fixture(scope="module")
def graphs(request):
    library = WeftGraphs(request.config.getoption("--weft"))
    yield library
    library.stop()


def squared(graph_def, names):
    """The graph with the sum of the tensors' squares in it, and that one's name; and one that is a 1."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        total = sum(tf.reduce_sum(graph.get_tensor_by_name(n) ** 2) for n in names if n is not None)
        one = tf.ones([])
        return graph.as_graph_def(), total.name, one.name


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_gradients_of_graphs(cluster, graphs, name):
    def own_gradients(graph_def, y, dy, want, feeds, what):
        """Those that Weft adds, which are held against those wanted: the graph with them, and their names."""
        xs = [place(x) for x in built.xs]
        text, found = graphs.gradients(graph_def.SerializeToString(), [place(y)], xs, [place(dy)])
        own, names = tf.compat.v1.GraphDef.FromString(text), [None if p is None else "%s:%d" % p for p in found]
        compare(built.run(local_session, own, names, feeds), want, what + "by TensorFlow")
        compare(built.run(lambda g: session(cluster.master, g), own, names, feeds), want, what + "by Weft's servers")
        return own, names

    with tf.Graph().as_default() as graph:
        built = Built(name)
        whole = graph.as_graph_def()
    y = built.run(local_session, whole, [built.y], built.feeds)[0]
    feeds = built.feeds | {built.dy: np.random.default_rng(8).uniform(-1, 1, np.shape(y)).astype(np.float32)}
    want = built.run(local_session, whole, built.grads, feeds)
    assert any(g is not None and np.any(g != 0) for g in want)
    own, names = own_gradients(built.forward, built.y, built.dy, want, feeds, "")
    if not built.v1 and len(built.xs) == len(built.feeds):  # tf.function makes neither such loops nor variables
        symbolic = symbolic_gradients(name, built.feeds, feeds[built.dy])
        compare(built.run(lambda g: session(cluster.master, g), *symbolic, {}), want, "of SymbolicGradient")
    if built.twice:
        want = built.run(local_session, whole, built.seconds, feeds)
        own_gradients(*squared(own, names), want, feeds, "of second order, ")


@pytest.mark.parametrize("place_of", ["function", "cond", "loop"])
def test_random_numbers_are_those_of_the_values(cluster, graphs, place_of):
    """What is drawn in a call is drawn once: y = x * r has the gradient r that it was computed with."""
    with tf.Graph().as_default() as graph:
        x = tf.constant([1.0, 2.0, 4.0])
        draw = lambda a: a * tf.random.uniform([3], 0.5, 1.5)
        if place_of == "function":
            y = tf.function(draw)(x)
        elif place_of == "cond":
            y = tf.cond(x[0] > tf.stop_gradient(tf.reduce_sum(x)), lambda: x, lambda: draw(x))
        else:
            y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, draw(a)), [0, x])[1]
        dy = tf.ones([3])
        text, found = graphs.gradients(graph.as_graph_def().SerializeToString(), [place(y.name)], [place(x.name)], [place(dy.name)])
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(text), name="")
        with session(cluster.master, graph) as sess:
            values, grads = sess.run([y.name, "%s:%d" % found[0]])
    assert_same(grads * np.float32([1, 2, 4]), values, rtol=1e-5, atol=0, what="gradients")


def test_a_loop_on_two_tasks(cluster, graphs):
    def build(first, second):
        x = tf.compat.v1.placeholder(tf.float32, [3], "x")

        def body(i, v):
            with tf.device(first):
                a = tf.sin(v) * x
            with tf.device(second):
                return i + 1, tf.cond(i > 0, lambda: tf.exp(-a) * v, lambda: a)

        return x, tf.while_loop(lambda i, v: i < 4, body, [0, x])[1]

    feeds = {"x:0": np.float32([0.5, -0.25, 0.75])}
    with tf.Graph().as_default() as graph, local_session(graph) as sess:
        x, y = build(None, None)
        want = sess.run(tf.gradients(y, x)[0], feeds)
    with tf.Graph().as_default() as graph:
        x, y = build("/job:worker/task:0", "/job:worker/task:1")
        dy = tf.ones([3])
        text, found = graphs.gradients(graph.as_graph_def().SerializeToString(), [place(y.name)], [place(x.name)], [place(dy.name)])
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(text), name="")
        with session(cluster.master, graph) as sess:
            assert_same(sess.run("%s:%d" % found[0], feeds), want, rtol=1e-4, atol=1e-6, what="gradient")
