"""Values watched by TensorFlow's debugger: RunOptions.debug_options and the files that tfdbg reads."""

import itertools
import time
import zlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.python.debug.lib import debug_data, debug_events_reader, debug_utils
from tensorflow.python.framework import op_def_library

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


# ---- the second debugger: DebugIdentityV2 ----


def traced(x, folder, **attrs):
    return tf.raw_ops.DebugIdentityV2(input=x, debug_urls=[f"file://{folder}"], tfdbg_run_id="run", tfdbg_context_id="g", **attrs)


def traces(folder):
    """What the debugger's reader finds in all sets of files of a folder: (op, slot, mode, value, device)."""
    found = []
    with debug_events_reader.DebugEventsReader(str(folder)) as reader:
        assert reader.tfdbg_run_id() == "run"
        assert reader.tfdbg_file_version() == "debug.Event:1"
        for event in itertools.chain(*reader.graph_execution_traces_iterators()):
            trace = event.debug_event.graph_execution_trace
            assert trace.tfdbg_context_id == "g"
            found.append((trace.op_name, trace.output_slot, trace.tensor_debug_mode, tf.make_ndarray(trace.tensor_proto), trace.device_name))
    return found


@pytest.mark.parametrize("value", [np.float32([[1, np.inf], [np.nan, 4]]), np.int64(7), np.asarray([b"ab", b""], object), np.zeros((0, 3), np.complex64), np.asarray(True)], ids=["float", "int64", "string", "empty", "bool"])
def test_traces_are_written_at_once(cluster, graph, tmp_path, value):
    with tf.device(W1):
        x = v1.placeholder(tf.as_dtype(value.dtype) if value.dtype != object else tf.string)
        y = traced(x, tmp_path / "not" / "there", op_name="x", output_slot=2, tensor_debug_mode=8, circular_buffer_size=0)
    with session(cluster.master, graph) as sess:
        for _ in range(3):
            np.testing.assert_array_equal(sess.run(y, {x: value}), value)
    found = traces(tmp_path / "not" / "there")
    assert [t[:3] for t in found] == [("x", 2, 8)] * 3
    for t in found:
        np.testing.assert_array_equal(t[3], value)
        assert t[3].dtype == value.dtype and "task:1" in t[4] and "CPU:0" in t[4]


def test_tasks_share_a_folder(cluster, graph, tmp_path):
    with tf.device(W1):
        a = traced(tf.constant(1.0), tmp_path, op_name="a", circular_buffer_size=0)
    with tf.device(PS):
        b = traced(a + 1.0, tmp_path, op_name="b", circular_buffer_size=0)
    with session(cluster.master, graph) as sess:
        assert sess.run(b) == 2.0
    assert sorted((t[0], float(t[3])) for t in traces(tmp_path)) == [("a", 1.0), ("b", 2.0)]


@pytest.mark.weft_only  # TensorFlow's servers never write what is in the buffer
def test_the_last_traces_are_written_when_the_server_ends(own_cluster, graph, tmp_path):
    x = v1.placeholder(tf.float32, [])
    y = traced(x, tmp_path, op_name="x", circular_buffer_size=3)
    with session(own_cluster.master, graph) as sess:
        for i in range(5):
            sess.run(y, {x: float(i)})
    assert traces(tmp_path) == []
    own_cluster.stop()
    assert [float(t[3]) for t in traces(tmp_path)] == [2.0, 3.0, 4.0]


def test_a_folder_that_cannot_be_made(cluster, graph, tmp_path):
    (tmp_path / "file").write_text("")
    y = traced(tf.constant(1.0), tmp_path / "file" / "folder", circular_buffer_size=0)
    with session(cluster.master, graph) as sess, fails(tf.errors.FailedPreconditionError):
        sess.run(y)


def test_dumped_tensors_are_records_of_a_compressed_file(cluster, graph, tmp_path):
    """DumpTensor: with the session's end the file is what TensorFlow writes, whatever the compressor has made of it."""

    def records(path):
        text = zlib.decompress(path.read_bytes())
        while text:
            length = int.from_bytes(text[:8], "little")
            yield tf.make_ndarray(tensor_pb2.TensorProto.FromString(text[12 : 12 + length]))
            text = text[16 + length :]

    x = v1.placeholder(tf.float32)
    dump = op_def_library._apply_op_helper("DumpTensor", name="dump", tensor_data=x, log_dir_path=str(tmp_path / "a" / "b"), file_name="t.pb", enabled=True, func_name="f", node_name="n")[2]
    with session(cluster.master, graph) as sess:
        for i in range(3):
            sess.run(dump, {x: [i, i + 1]})
    file = tmp_path / "a" / "b" / "t.pb"
    for _ in range(100):  # the worker's session ends a moment after the client's
        try:
            zlib.decompress(file.read_bytes())
            break
        except zlib.error:
            time.sleep(0.1)
    assert [list(r) for r in records(file)] == [[0, 1], [1, 2], [2, 3]]
    assert (tmp_path / "a" / "b" / "quant_unit.pb").read_bytes() == b"\x12\x01n\x1a\x01f"
