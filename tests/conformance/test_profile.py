"""`weft profile`: its sums beside what clients were told of the same steps, and its operations beside TensorFlow's profiler."""

import collections
import json
import os
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops as framework_ops
from tensorflow.python.profiler.internal import flops_registry

from support import PS, W1, session, v1
from test_trace import DEADLINE_S, Product, ended, stock_job, training, two_each, wait_for_recordings, weft  # noqa: F401  (fixtures)

pytestmark = pytest.mark.weft_only
STEPS = 5


def profile(weft, cluster, *more, steps=STEPS):
    return weft("profile", "--cluster", cluster.spec, "--steps", steps, "--timeout", DEADLINE_S, *more)


# ---- sums ----


def sums(metadata):
    """{(device, node, op): [count, time, bytes]} of RunMetadata, as a profile names them."""
    found = collections.defaultdict(lambda: np.zeros(3, np.int64))
    for d in metadata.step_stats.dev_stats:
        for n in d.node_stats:
            transfer = re.match(r"(?:\[\S+\] )*(\S+) from ", n.timeline_label)
            name, op = (transfer.group(1), "RecvTensor") if transfer else (n.node_name, re.match(r"\S+ = (\w+)\(", n.timeline_label).group(1))
            size = sum(o.tensor_description.allocation_description.requested_bytes for o in n.output)
            found[d.device, name, op] += [1, n.op_end_rel_nanos or n.op_end_rel_micros * 1000, size]
    return {key: tuple(map(int, value)) for key, value in found.items()}


@pytest.mark.parametrize("by", ["op", "node"])
def test_times_counts_and_bytes_are_those_of_the_clients_metadata(weft, own_cluster, graph, by):  # noqa: F811
    """The client makes exactly as many steps as are asked for, all recorded by both."""
    job = Product(graph, metadata=True)
    with session(own_cluster.master, graph) as s:
        job(s)  # before the recording
        process = profile(weft, own_cluster, "--json", "--by", by)
        results = []
        while process.poll() is None:  # steps that begin before all recordings are open do not count
            results.append(job(s))
        out = json.loads(ended(process))
    assert (out["steps"], out["by"], out["records_dropped"]) == (STEPS, by, 0)
    rows = {(r["device"], r.get("node", ""), r["op"]): (r["count"], r["time_ns"], r["output_bytes"]) for r in out["rows"]}
    # The steps are consecutive: a window of the client's has the same sums.
    windows = []
    for i in range(len(results) - STEPS + 1):
        total = collections.defaultdict(lambda: np.zeros(3, np.int64))
        for metadata in results[i : i + STEPS]:
            for (device, name, op), value in sums(metadata).items():
                total[device, name if by == "node" else "", op] += value
        windows.append({key: tuple(map(int, value)) for key, value in total.items()})
    assert windows.count(rows) == 1
    assert abs(sum(r["share"] for r in out["rows"]) - 1) < 1e-9 and out["time_ns"] == sum(r["time_ns"] for r in out["rows"])


# ---- operations ----


def dense():
    x = v1.placeholder(tf.float32, [12, 30], name="x")
    w = tf.constant(np.ones([30, 20], "f"))
    h = tf.nn.bias_add(tf.matmul(x, w), np.ones(20, "f"))
    wide = tf.matmul(h, np.ones([7, 20], "f"), transpose_b=True)
    tall = tf.matmul(h, h, transpose_a=True)
    return [wide, tall, tf.matmul(tf.reshape(h, [3, 4, 20]), tf.ones([3, 20, 5]) * h[0, 0])]


def elements():
    x = v1.placeholder(tf.float32, [12, 30], name="x")
    y = tf.reduce_sum(x, 0)
    made = [x + y, x - y, x * y, x / (y + 3), tf.maximum(x, y), tf.minimum(x, y), tf.pow(x, y * 0 + 2), tf.math.squared_difference(x, y)]
    made += [tf.square(x), tf.math.rsqrt(x), tf.math.log(x), -x, tf.math.reciprocal(x), tf.nn.softmax(x), tf.nn.l2_loss(x), tf.add_n([x, x, x])]
    made += [tf.cast(c(x, y), tf.float32) for c in (tf.greater, tf.greater_equal, tf.less, tf.less_equal, tf.equal, tf.not_equal)]
    made += [tf.reduce_mean(x, 1), tf.reduce_sum(x), tf.argmax(x, 1), tf.argmin(x, 0)]
    return made


def pictures(strides=1, padding="SAME"):
    x = v1.placeholder(tf.float32, [2, 12, 12, 3], name="x")
    h = tf.nn.conv2d(x, tf.ones([3, 3, 3, 8]) * x[0, 0, 0, 0], strides, padding)
    h = tf.nn.depthwise_conv2d(h, np.ones([3, 3, 8, 2], "f"), [1, 1, 1, 1], padding)
    pooled = tf.nn.max_pool2d(h, 2, 2, padding) + tf.nn.avg_pool2d(h, 2, 2, padding)
    return [tf.nn.dilation2d(pooled, np.ones([2, 2, 16], "f"), [1, 1, 1, 1], padding, "NHWC", [1, 1, 1, 1])]


def strided():
    return pictures(2, "SAME")


def unpadded():
    return pictures(1, "VALID")


def volumes():
    x = v1.placeholder(tf.float32, [2, 6, 6, 6, 2], name="x")
    return [tf.nn.conv3d(x, np.ones([2, 2, 2, 2, 4], "f"), [1, 1, 1, 1, 1], "SAME")]


def gradients_of(function, through=tf.reduce_sum):
    def build():
        with tf.name_scope("model"):
            made = function()
        x = tf.compat.v1.get_default_graph().get_tensor_by_name("model/x:0")
        return made + [g for g in tf.gradients([through(m) for m in made], [x]) if g is not None]

    build.__name__ = f"{function.__name__}_gradients"
    return build


def convolution():
    x = v1.placeholder(tf.float32, [2, 12, 12, 3], name="x")
    w = v1.placeholder_with_default(np.ones([3, 3, 3, 8], "f"), [3, 3, 3, 8])
    h = tf.nn.conv2d(x, w, 2, "SAME")
    p = tf.nn.max_pool2d(h, 2, 2, "SAME") + tf.nn.avg_pool2d(h, 2, 2, "SAME")
    b = tf.nn.bias_add(p, tf.ones([8]) * h[0, 0, 0, 0])
    return [b, *tf.gradients(tf.reduce_sum(b * b), [x, w])]


GRAPHS = [dense, elements, pictures, strided, unpadded, volumes, convolution, gradients_of(dense), gradients_of(convolution)]
# TensorFlow's profiler knows the ops that it has registered numbers for.
COUNTED = set(flops_registry.IMPLEMENTED_OPS) | {"Conv3D", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}


def tensorflows(graph):
    """{node: operations}, as its profiler says by the shapes of the graph."""
    found = {}
    for op in graph.get_operations():
        if op.type.startswith("BatchMatMul") and op.get_attr("adj_x"):
            continue  # it looks for an attribute transpose_a, which the op does not have
        if op.type in COUNTED:
            stats = framework_ops.get_stats_for_node_def(graph, op.node_def, "flops")
            if stats.value is not None:
                found[op.name] = int(stats.value)
    return found


@pytest.mark.parametrize("build", GRAPHS, ids=lambda b: b.__name__)
def test_operations_are_those_of_tensorflows_profiler(weft, cluster, graph, build):  # noqa: F811
    with tf.device(W1):
        made = build()
    x = next(op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder")
    wanted = tensorflows(graph)
    value = np.random.RandomState(1).rand(*x.shape).astype("f") + 0.5
    config = v1.ConfigProto(operation_timeout_in_ms=90000)
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # its nodes, not those that they are joined to
    process = profile(weft, cluster, "--json", "--by", "node", steps=2)
    with v1.Session(cluster.master, graph=graph, config=config) as s:
        while process.poll() is None:
            s.run(made, {x: value})
    rows = {r["node"]: r for r in json.loads(ended(process))["rows"] if r["op"] != "RecvTensor"}
    seen = {name: rows[name]["flops"] / rows[name]["count"] for name in wanted if name in rows}
    assert len(seen) >= 3 or build is volumes
    assert seen == {name: wanted[name] for name in seen}
    assert all(rows[name]["counted"] == rows[name]["count"] for name in seen)
    # What the whole graph is said to take by the profiler's own report, where nothing of it was folded.
    if set(seen) == set(wanted):
        options = v1.profiler.ProfileOptionBuilder(v1.profiler.ProfileOptionBuilder.float_operation()).with_empty_output().build()
        assert v1.profiler.profile(graph, options=options).total_float_ops == sum(seen.values())


# ---- peaks, and what bounds ----


def test_large_products_are_bound_by_computing_and_copies_by_memory(weft, cluster, graph):  # noqa: F811
    side = 700
    with tf.device(W1):
        a = tf.random.uniform([side, side], seed=1, name="a")
        product = tf.matmul(a, a, name="large")
        tiny = tf.constant(1.0) * tf.reduce_sum(a[:1, :1])
        c = tf.add(tiny, 1.0, name="small")
        moved = tf.transpose(tf.random.uniform([2000, 2000], seed=2), name="moved")
    process = profile(weft, cluster, "--json", "--by", "node", steps=4)
    with session(cluster.master, graph) as s:
        while process.poll() is None:
            s.run([product.op, c.op, moved.op])
    out = json.loads(ended(process))
    rows = {r["node"]: r for r in out["rows"] if r["op"] != "RecvTensor"}
    large = rows["large"]
    assert (large["flops"], large["input_bytes"], large["output_bytes"]) == (large["count"] * 2 * side**3, large["count"] * 8 * side**2, large["count"] * 4 * side**2)
    peaks = {t["task"]: t for t in out["tasks"]}
    mine = peaks["/job:worker/replica:0/task:1"]
    for t in peaks.values():
        assert 1e8 < t["peak_flops"] < 1e15 and 1e7 < t["peak_bytes"] < 1e14
    assert large["peak_flops_share"] == pytest.approx(large["flops"] / large["time_ns"] * 1e9 / mine["peak_flops"])
    assert large["peak_bytes_share"] == pytest.approx((large["input_bytes"] + large["output_bytes"]) / large["time_ns"] * 1e9 / mine["peak_bytes"])
    for r in out["rows"]:
        shares = [r["peak_flops_share"] or 0, r["peak_bytes_share"] or 0]
        assert r["bound"] == ("neither" if max(shares) < 0.1 else "compute" if shares[0] >= shares[1] else "memory")
    assert rows["moved"]["flops"] is None and rows["small"]["bound"] == "neither"


def test_peaks_are_measured_once(weft, own_cluster, graph):  # noqa: F811
    with stock_job(own_cluster, Product(graph)):
        first, second = (json.loads(ended(profile(weft, own_cluster, "--json")))["tasks"] for _ in range(2))
    assert [{k: t[k] for k in ("task", "peak_flops", "peak_bytes")} for t in first] == [{k: t[k] for k in ("task", "peak_flops", "peak_bytes")} for t in second]


# ---- jobs, the table ----


@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "parameter_server:mode=async"])
def test_a_job_under_a_strategy(weft, two_each, training, strategy):  # noqa: F811
    more = ["--master", two_each.master, "--strategy", strategy, "--container", "profile" + re.sub(r"\W", "", strategy)]
    process = profile(weft, two_each, "--json", steps=20)
    wait_for_recordings(two_each, process)
    ended(weft(*training, *more, "--steps", 40))
    out = json.loads(ended(process))
    ops = {(r["op"], r["device"].rpartition("/device")[0]) for r in out["rows"]}
    assert {("MatMul", f"/job:worker/replica:0/task:{i}") for i in range(2)} <= ops
    assert any(op == "RecvTensor" for op, _ in ops)


def test_the_table_says_the_same(weft, cluster, graph):  # noqa: F811
    with stock_job(cluster, Product(graph)):
        out = ended(profile(weft, cluster, "--top", "3"))
    lines = out.splitlines()
    assert lines[0].startswith(f"{STEPS} steps on 3 tasks, ")
    assert [line.split()[0] for line in lines[1:4]] == ["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"]
    assert all(re.search(r"reaches [\d.]+ [MGT]FLOP/s, [\d.]+ [MGT]B/s$", line) for line in lines[1:4])
    assert lines[5].split()[:4] == ["share", "ms/step", "/step", "op"] and lines[5].endswith("bound by")
    table = lines[6:9]
    assert all(re.fullmatch(r" *[\d.]+% +[\d.]+ +[\d.]+  \w+ +\w+:\d CPU:\d .*  (compute|memory|neither)", line) for line in table)
    shares = [float(line.split()[0][:-1]) for line in table]
    assert shares == sorted(shares, reverse=True)
    assert re.fullmatch(r" *[\d.]+% +[\d.]+ +\d+ more: --top shows them", lines[9]) and len(lines) == 10


def test_a_wrong_word(weft):  # noqa: F811
    assert ended(weft("profile", "--by", "device"), 2) == "weft profile: --by device: give op or node; see `weft profile --help`\n"


def test_a_closed_pipe_is_a_failure(weft, cluster, graph, tmp_path, request):  # noqa: F811
    program = os.path.abspath(request.config.getoption("--weft"))
    with stock_job(cluster, Product(graph)), open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([program, "profile", "--cluster", cluster.spec, "--steps", "1"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1 and done.stderr == "weft: cannot write to standard output: No space left on device\n"
