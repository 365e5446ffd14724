"""Functions and functional control flow as graphs hold them: called by op or by name, nested, lowered or not."""

import pytest
import tensorflow as tf

from support import session, v1

LOWER = "_lower_using_switch_merge"
CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "StatelessCase")


def program(unique):
    """The graph of the test, what to initialize and what to fetch; x is 2."""
    with tf.Graph().as_default() as g, g.container(unique):
        x = v1.placeholder(tf.float32, [], name="x")
        v = v1.get_variable("v", initializer=3.0, use_resource=True)

        @tf.function
        def double(a):
            return a * 2.0 + 1.0

        @tf.function
        def nested(a):
            return double(a) + double(a * 2.0)

        @tf.function
        def bump(a):
            with tf.control_dependencies([v.assign(a)]):
                return tf.function(lambda b: v.read_value() * b)(a)

        @tf.function
        def loop(a):
            def body(i, s):
                return i + 1.0, tf.cond(i < a, lambda: s + v.read_value(), lambda: s - 1.0)

            return tf.while_loop(lambda i, _: i < 5.0, body, [0.0, 0.0])[1]

        outputs = {
            "call": double(x),
            "nested": nested(x),
            "state": bump(x),
            "loop": loop(x),
            "gradient": tf.gradients(double(x) + nested(x), x)[0],
            "cond": tf.cond(x > 0.0, lambda: x + 1.0, lambda: x - 1.0),
            "while": tf.while_loop(lambda i: i < x, lambda i: i * 2.0 + 1.0, [0.0])[0],
            "case": tf.switch_case(tf.cast(x, tf.int32), [lambda: x, lambda: x * 5.0, lambda: x * 7.0]),
        }
        fetches = {name: tf.identity(t, name="out/" + name).name for name, t in outputs.items()}
        return g.as_graph_def(), v.initializer.name, fetches


EXPECTED = dict(call=5.0, nested=14.0, state=4.0, gradient=8.0, cond=3.0, case=14.0)
EXPECTED["while"] = 3.0


def every_node(definition):
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


@pytest.mark.parametrize("lower", ["as built", "false", "missing"])
def test_functional_control_flow(cluster, unique, lower):
    definition, init, fetches = program(unique)
    for node in every_node(definition):
        if LOWER in node.attr and lower == "false":
            node.attr[LOWER].b = False
        if LOWER in node.attr and lower == "missing":
            del node.attr[LOWER]
    with tf.Graph().as_default() as g:
        tf.import_graph_def(definition, name="")
        with session(cluster.master, g) as sess:
            sess.run(init)
            assert sess.run(fetches["loop"], {"x:0": 2.0}) == 3.0  # 3 + 3 - 1 - 1 - 1
            for name, value in EXPECTED.items():
                assert sess.run(fetches[name], {"x:0": 2.0}) == value, name


def test_calls_are_targets_feeds_and_fetches_by_their_own_names(cluster, unique):
    definition, init, _ = program(unique)
    with tf.Graph().as_default() as g:
        tf.import_graph_def(definition, name="")
        calls = [op for op in g.get_operations() if op.type in CALLS]
        more = {op: op.outputs[0] + 1 for op in calls if op.outputs and op.outputs[0].dtype == tf.float32}
        assert len(more) >= 5
        with session(cluster.master, g) as sess:
            sess.run(init)
            for op in calls:
                assert sess.run(op, {"x:0": 2.0}) is None
            for op, y in more.items():
                assert sess.run(y, {"x:0": 2.0}) == sess.run(op.outputs[0], {"x:0": 2.0}) + 1.0
                if "PartitionedCall" in op.type:  # what a lowered If is fed, TensorFlow ignores
                    assert sess.run(y, {op.outputs[0]: 20.0, "x:0": 2.0}) == 21.0


def test_a_node_whose_op_is_a_function(cluster):
    function = tf.function(lambda a: a * 10.0).get_concrete_function(tf.TensorSpec([], tf.float32)).function_def
    definition = v1.GraphDef()
    definition.versions.producer = tf.version.GRAPH_DEF_VERSION
    definition.library.function.add().CopyFrom(function)
    x = definition.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = tf.float32.as_datatype_enum
    definition.node.add(name="call", op=function.signature.name, input=["x"])
    y = definition.node.add(name="y", op="Neg", input=["call"])
    y.attr["T"].type = tf.float32.as_datatype_enum
    with tf.Graph().as_default() as g:
        tf.import_graph_def(definition, name="")
        with session(cluster.master, g) as sess:
            assert sess.run(["y:0", "call:0"], {"x:0": 2.0}) == [-20.0, 20.0]
            sess.run("call", {"x:0": 2.0})
