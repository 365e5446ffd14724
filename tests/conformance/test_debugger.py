"""Values watched by TensorFlow's debugger: RunOptions.debug_options and the files that tfdbg reads."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.debug.lib import debug_data, debug_utils

from support import PS, W1, fails, session, v1


def watched(sess, graph, fetches, folder, **of_watch):
    options = v1.RunOptions()
    debug_utils.watch_graph(options, graph, debug_urls=f"file://{folder}", **of_watch)
    return sess.run(fetches, options=options)


def dumps(folder):
    return debug_data.DebugDumpDir(str(folder))


def test_every_value_is_dumped(cluster, graph, tmp_path):
    with tf.device(W1):
        a = tf.constant([1.0, np.inf], name="a")
        b = tf.multiply(a, 2.0, name="scope/b")
    with tf.device(PS):
        c = tf.add(b, 1.0, name="c")
    with session(cluster.master, graph) as sess:
        assert watched(sess, graph, c, tmp_path).tolist() == [3.0, np.inf]
        assert sess.run(c).tolist() == [3.0, np.inf]
    d = dumps(tmp_path)
    assert {"a", "scope/b", "c"} <= {x.node_name for x in d.dumped_tensor_data}
    for name, value in (("a", 1.0), ("scope/b", 2.0), ("c", 3.0)):
        assert d.get_tensors(name, 0, "DebugIdentity")[0].tolist() == [value, np.inf]
    assert [x.node_name for x in d.find(debug_data.has_inf_or_nan)][0] == "a"
    assert d.node_op_type("c") == "AddV2"


def test_only_what_is_asked_for(cluster, graph, tmp_path):
    a = tf.constant([1.0, 2.0], name="a")
    b = tf.identity(a + 1.0, name="b")
    with session(cluster.master, graph) as sess:
        of_a = dict(node_name_regex_allowlist="^a$", debug_ops=["DebugIdentity", "DebugNumericSummary(lower_bound=1.5)"])
        assert watched(sess, graph, b, tmp_path, **of_a).tolist() == [2.0, 3.0]
    d = dumps(tmp_path)
    assert {x.node_name for x in d.dumped_tensor_data} == {"a"}
    assert d.get_tensors("a", 0, "DebugNumericSummary")[0][3] == 1.0  # at or below the bound


def test_loops_and_variables(cluster, graph, tmp_path, use_resource):
    v = v1.Variable(3.0, use_resource=use_resource, name="v")
    v1.disable_control_flow_v2()
    try:
        y = v1.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), [tf.constant(0), v.read_value()], name="loop")[1]
    finally:
        v1.enable_control_flow_v2()
    with session(cluster.master, graph) as sess:
        sess.run(v.initializer)
        assert watched(sess, graph, y, tmp_path) == 24.0
    products = [float(x) for x in dumps(tmp_path).get_tensors("loop/mul", 0, "DebugIdentity")]
    assert products == [6.0, 12.0, 24.0]


@pytest.mark.weft_only
def test_other_urls_are_refused(cluster, graph):
    a = tf.constant(1.0, name="a")
    b = a + 1.0
    options = v1.RunOptions()
    debug_utils.watch_graph(options, graph, debug_urls="grpc://localhost:1")
    with session(cluster.master, graph) as sess:
        with fails(tf.errors.UnimplementedError, "file://"):
            sess.run(b, options=options)
        assert sess.run(b) == 2.0


def test_unknown_debug_ops_are_refused(cluster, graph, tmp_path):
    a = tf.constant(1.0, name="a")
    b = a + 1.0
    options = v1.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(node_name="a", output_slot=0, debug_ops=["NoSuchOp"], debug_urls=[f"file://{tmp_path}"])
    with session(cluster.master, graph) as sess, fails(tf.errors.FailedPreconditionError, "NoSuchOp"):
        sess.run(b, options=options)


def test_the_clients_wrapper(cluster, graph, tmp_path):
    from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

    x = v1.placeholder(tf.float32, [], name="x")
    y = tf.square(x, name="y")
    with session(cluster.master, graph) as sess:
        wrapped = DumpingDebugWrapperSession(sess, session_root=str(tmp_path))
        assert wrapped.run(y, {x: 3.0}) == 9.0
    [run] = list(tmp_path.iterdir())
    assert float(dumps(run).get_tensors("y", 0, "DebugIdentity")[0]) == 9.0
