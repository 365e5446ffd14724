"""RunMetadata: step statistics good for a timeline, and the graphs that were run."""

import json
import re

import tensorflow as tf
from tensorflow.python.client import timeline

from support import PS, W1, session, v1


def traced(cluster, graph, level=None):
    x = v1.placeholder(tf.float32, [100, 100])
    with tf.device(PS):
        y = tf.matmul(x, x, name="product")
    with tf.device(W1):
        z = tf.reduce_sum(y, name="total")
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=level or v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with session(cluster.master, graph) as sess:
        for _ in range(2):
            assert sess.run(z, {x: [[0.01] * 100] * 100}, options=options, run_metadata=metadata) > 0
        assert sess.run(z, {x: [[0.0] * 100] * 100}) == 0.0
    return metadata


def test_statistics_name_devices_and_nodes(cluster, graph):
    stats = traced(cluster, graph).step_stats
    nodes = {n.node_name: (d.device, n) for d in stats.dev_stats for n in d.node_stats}
    for name, task in (("product", "/job:ps/replica:0/task:0"), ("total", "/job:worker/replica:0/task:1")):
        device, node = nodes[name]
        assert device.startswith(task)
        assert node.all_start_micros > 1e15
        assert 0 <= node.op_start_rel_micros <= node.op_end_rel_micros <= node.all_end_rel_micros + 1
        assert node.timeline_label.startswith(f"{name} = ")
    product = nodes["product"][1]
    assert [d.size for d in product.output[0].tensor_description.shape.dim] == [100, 100]


LABEL = re.compile(r"^\[(\d+B|\d+\.\dMB)\] \[[0-9.e+-]+[MG]b/s\] (\S+) from (\S+) to (\S+)$")


def test_statistics_show_transfers_between_tasks(cluster, graph):
    stats = traced(cluster, graph).step_stats
    moved = {}
    for d in stats.dev_stats:
        for n in d.node_stats:
            assert not re.search(r" = _(Send|Recv)\(", n.timeline_label)
            if n.node_name != "RecvTensor":
                continue
            size, edge, source, destination = LABEL.match(n.timeline_label).groups()
            assert destination == d.device
            assert 0 <= n.op_start_rel_micros <= n.op_end_rel_micros <= n.all_end_rel_micros
            moved[source, destination] = (edge, n.output[0].tensor_description.allocation_description.requested_bytes)
    ps, w0, w1 = (
        f"/job:{task}/device:CPU:0" for task in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")
    )
    expected = {(w0, ps): ("Placeholder_0", 40000), (ps, w1): ("product", 40000), (w1, w0): ("total", 4)}
    # A stock master asks its workers to log without waiting for them, so that the first transfers may be missing.
    assert moved and set(moved) <= set(expected)
    assert cluster.maker.name != "weft" or set(moved) == set(expected)
    for route, (edge, size) in moved.items():
        assert edge.startswith("edge_") and edge.endswith(expected[route][0])
        assert size == expected[route][1]


def test_a_timeline_can_be_drawn(cluster, graph):
    trace = json.loads(timeline.Timeline(traced(cluster, graph).step_stats).generate_chrome_trace_format())
    names = {e["name"] for e in trace["traceEvents"]}
    assert {"MatMul", "Sum", "RecvTensor"} <= names


def test_partition_graphs_show_what_ran(cluster, graph):
    graphs = traced(cluster, graph).partition_graphs
    ops = {(n.op, n.device) for g in graphs for n in g.node}
    assert ("MatMul", "/job:ps/replica:0/task:0/device:CPU:0") in ops
    assert {"_Send", "_Recv"} <= {op for op, _ in ops}


def test_less_tracing_does_no_harm(cluster, graph):
    for level in (v1.RunOptions.SOFTWARE_TRACE, v1.RunOptions.HARDWARE_TRACE):
        with tf.Graph().as_default() as g:
            traced(cluster, g, level)
