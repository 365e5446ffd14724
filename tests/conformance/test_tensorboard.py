"""`weft submit --logdir`: event files that TensorFlow reads and that the real TensorBoard shows."""

import json
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import board
from support import v1

sys.path.insert(0, os.path.join(board.REPO, "python"))
import weft_export  # noqa: E402

pytestmark = pytest.mark.weft_only
SPEED = ["performance/steps_per_second", "performance/step_ms", "performance/examples_per_second"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return board.write_inputs(tmp_path_factory.mktemp("inputs"))


def oracle(steps):
    """What stock TensorFlow fetches at each step: loss, learning rate, summaries."""
    g, told = board.build(), []
    rng = np.random.RandomState(0)
    xs, ys = rng.rand(board.ROWS, 4).astype(np.float32), rng.rand(board.ROWS, 1).astype(np.float32)
    with v1.Session(graph=g) as sess:
        sess.run("init")
        for i in range(steps):
            per_epoch = -(-board.ROWS // board.BATCH)
            rows = slice(i % per_epoch * board.BATCH, i % per_epoch * board.BATCH + board.BATCH)
            told.append(sess.run(["loss:0", "lr:0", "summaries:0", "train"], {"x:0": xs[rows], "y:0": ys[rows]})[:3])
    return told


STRATEGIES = [None, "mirrored:2", "data_parallel:2", "parameter_server:mode=sync,workers=2"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_step_has_what_was_fetched(maker, inputs, tmp_path, strategy):
    args = [] if strategy is None else ["--strategy", strategy]
    told = board.submit(maker, inputs, "--steps", "9", "--logdir", str(tmp_path / "run"), *args)
    (path,) = board.files(tmp_path)
    assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\.[^/]+\.\d+\.\d+\.v2", os.path.basename(path))
    found, events = board.scalars(tmp_path), board.events(tmp_path)
    assert events[0].file_version == "brain.Event:2"
    times = [e.wall_time for e in events]
    assert times == sorted(times) and times[0] > 1e9
    assert sorted(found) == sorted(["loss", "lr", "learning_rate", "inner/loss", *SPEED])
    want = oracle(9)
    for tag, values in found.items():
        assert [step for step, _ in values] == list(range(1, 10)), tag
    for k, tag in enumerate(["loss", "lr"]):
        got = [v for _, v in found[tag]]
        np.testing.assert_array_equal(np.float32(got), np.float32([t[tag] for t in told]))
        np.testing.assert_allclose(got, [w[k] for w in want], rtol=1e-4)
    for _, v in found["performance/step_ms"] + found["performance/examples_per_second"]:
        assert v > 0


@pytest.mark.parametrize("asked", [[], ["--fetch", "rate"]], ids=["all", "one"])
def test_scalars_of_a_training_file_are_called_as_in_the_terminal(maker, inputs, tmp_path, asked):
    weft_export.export(board.build(), tmp_path / "model.pb", train={"train": "train", "error": "loss:0", "rate": "ExponentialDecay:0"})
    command = [maker.weft_binary, "submit", str(tmp_path / "model.pb"), *asked, "--feed", f"x={inputs}/x.npy", "--feed", f"y={inputs}/y.npy"]
    done = subprocess.run([*command, "--batch", "8", "--steps", "2", "--logdir", str(tmp_path / "log"), "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])["fetches"]
    assert set(told) == ({"rate"} if asked else {"error", "rate"})
    assert set(board.scalars(tmp_path / "log")) == {*told, "learning_rate", *SPEED}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_summaries_that_ops_make_are_kept(maker, inputs, tmp_path, strategy):
    args = [] if strategy is None else ["--strategy", strategy]
    board.submit(maker, inputs, "--steps", "3", "--logdir", str(tmp_path), *args)
    steps = [e for e in board.events(tmp_path) if e.step > 0 and e.summary.value]
    assert len(steps) == 3
    for event, (loss, _, data) in zip(steps, oracle(3)):
        got = {v.tag: v for v in event.summary.value}
        want = {v.tag: v for v in v1.Summary.FromString(data).value}
        assert set(want) == {"weights", "picture/image/0", "inner/loss"} <= set(got)
        assert got["weights"].histo.num == 4
        np.testing.assert_allclose(got["weights"].histo.sum, want["weights"].histo.sum, rtol=1e-5)
        pictures = [tf.io.decode_png(v["picture/image/0"].image.encoded_image_string).numpy() for v in (got, want)]
        np.testing.assert_array_equal(*pictures)
        np.testing.assert_allclose(got["inner/loss"].simple_value, loss, rtol=1e-4)
        assert tf.make_ndarray(got["words"].tensor).item() == b"a text with **bold** words"
        assert got["words"].metadata.plugin_data.plugin_name == "text"


def test_events_may_be_of_some_steps_only(maker, inputs, tmp_path):
    board.submit(maker, inputs, "--steps", "10", "--logdir", str(tmp_path), "--log-every", "4")
    found = board.scalars(tmp_path)
    for tag in ("loss", *SPEED):
        assert [step for step, _ in found[tag]] == [4, 8, 10], tag  # the last of a run, too


def test_the_graph_is_the_file_s_and_the_rewritten_one_has_its_devices(maker, inputs, tmp_path):
    board.submit(maker, inputs, "--steps", "1", "--logdir", str(tmp_path), "--strategy", "mirrored:2")
    (graph,) = [v1.GraphDef.FromString(e.graph_def) for e in board.events(tmp_path) if e.graph_def]
    want = v1.GraphDef.FromString((inputs / "graph.pb").read_bytes())
    assert [(n.name, n.op, n.device) for n in graph.node] == [(n.name, n.op, n.device) for n in want.node]
    rewritten = [v for e in board.events(tmp_path) for v in e.summary.value if v.tag == "rewritten"]
    metadata = v1.RunMetadata.FromString(tf.make_ndarray(rewritten[0].tensor).item())
    nodes = metadata.function_graphs[0].pre_optimization_graph.node
    assert len(nodes) > len(want.node)
    assert {re.search(r"CPU:\d", n.device).group() for n in nodes if n.device} == {"CPU:0", "CPU:1"}


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:workers=2"])
def test_statistics_of_traced_steps_are_of_nodes_of_the_graph(maker, inputs, tmp_path, strategy):
    args = [] if strategy is None else ["--strategy", strategy]
    board.submit(maker, inputs, "--steps", "8", "--logdir", str(tmp_path), "--profile-every", "4", *args)
    graph, traced = None, {}
    for e in board.events(tmp_path):
        if e.graph_def:
            graph = v1.GraphDef.FromString(e.graph_def)
        if e.tagged_run_metadata.tag:
            traced[e.tagged_run_metadata.tag] = v1.RunMetadata.FromString(e.tagged_run_metadata.run_metadata)
        for v in e.summary.value:
            if v.metadata.plugin_data.plugin_name == "graph_run_metadata":
                traced[v.tag] = v1.RunMetadata.FromString(tf.make_ndarray(v.tensor).item())
                graph = traced[v.tag].function_graphs[0].pre_optimization_graph
    if strategy != "parameter_server:workers=2":  # whose workers do not make their steps together
        assert sorted(traced) == ["step_4", "step_8"]
    assert traced
    names = {n.name for n in graph.node}
    for metadata in traced.values():
        stats = [s for d in metadata.step_stats.dev_stats for s in d.node_stats]
        known = [s for s in stats if s.node_name in names]
        assert len(known) > 10 and any("MatMul" in s.node_name for s in known)
        assert any(s.all_end_rel_nanos > 0 for s in known)


def test_a_job_in_the_folder_of_another_takes_the_place_of_its_steps(maker, inputs, tmp_path):
    log = ["--logdir", str(tmp_path / "log"), "--save", str(tmp_path / "model")]
    board.submit(maker, inputs, "--steps", "6", *log)
    board.submit(maker, inputs, "--steps", "10", *log, "--resume")
    steps = [step for step, _ in board.scalars(tmp_path / "log")["loss"]]
    assert steps == list(range(1, 11))
    starts = [e.step for e in board.events(tmp_path / "log") if e.HasField("session_log")]
    assert starts == [1, 7]
    board.submit(maker, inputs, "--steps", "3", *log)  # anew
    seen = EventAccumulator(str(tmp_path / "log"))
    seen.Reload()
    assert [s.step for s in seen.Scalars("loss")] == [1, 2, 3]


def test_hyperparameters_are_numbers_booleans_or_texts(maker, inputs, tmp_path):
    from tensorboard.plugins.hparams import plugin_data_pb2

    board.submit(maker, inputs, "--steps", "2", "--logdir", str(tmp_path), "--shuffle", "--seed", "7", "--strategy", "mirrored:2", "--hparam", "rate=0.1", "--hparam", "note=a=b|c", "--hparam", "batch=9")
    values = {v.tag: v for e in board.events(tmp_path) for v in e.summary.value}
    start, end = [plugin_data_pb2.HParamsPluginData.FromString(values[f"_hparams_/session_{w}_info"].metadata.plugin_data.content) for w in ("start", "end")]
    got = {k: getattr(v, v.WhichOneof("kind")) for k, v in start.session_start_info.hparams.items()}
    assert got == {"strategy": "mirrored:2", "cluster": "this process", "devices": 2, "batch": 9, "shuffle": True, "seed": 7, "steps": 2, "rate": 0.1, "note": "a=b|c"}
    assert start.session_start_info.start_time_secs <= end.session_end_info.end_time_secs
    assert end.session_end_info.status == 1
    table = tf.make_ndarray(values["job"].tensor).item().decode()
    assert "| rate | 0.1 |" in table and "| note | a=b\\|c |" in table


@pytest.mark.parametrize("strategy", ["parameter_server:mode=sync", "multi_worker_mirrored", "data_parallel"])
def test_norms_on_a_cluster_are_those_of_the_whole_batch(maker, tmp_path, cluster, strategy):
    args = ["--master", cluster.master, "--container", "norms_" + strategy.split(":")[0]]
    found = check_norms(maker, tmp_path, norm_graph("momentum", True), strategy, args=args)
    assert len(found["learning_rate"]) == 5


def test_workers_that_step_apart_log_each_step_once(maker, inputs, tmp_path, cluster):
    board.submit(maker, inputs, "--steps", "20", "--logdir", str(tmp_path), "--master", cluster.master, "--strategy", "parameter_server", "--container", "board", "--log-norms", fetches=["--fetch", "loss"])
    found = board.scalars(tmp_path)
    for tag in ("loss", "learning_rate", "gradient_norm/layer/w", "weight_norm/layer/b"):
        assert [step for step, _ in found[tag]] == list(range(1, 21)), tag


def test_errors_of_the_disk_name_the_file(maker, inputs, tmp_path):
    (tmp_path / "file").write_text("no folder")
    bad = subprocess.run(board.command(maker, inputs, "--steps", "1", "--logdir", str(tmp_path / "file")), capture_output=True, text=True, timeout=60)
    assert bad.returncode != 0 and f"--logdir {tmp_path}/file" in bad.stderr
    shell = ["sh", "-c", 'trap "" XFSZ; ulimit -f 64; exec "$@"', "sh"]  # files of 32 KiB at most
    full = subprocess.run([*shell, *board.command(maker, inputs, "--steps", "3000", "--logdir", str(tmp_path / "full"))], capture_output=True, text=True, timeout=60)
    assert full.returncode != 0 and str(tmp_path / "full") in full.stderr and "tfevents" in full.stderr
    assert len(board.events(tmp_path / "full")) > 2  # what is there can be read


def test_options_of_a_log_need_its_folder(maker, inputs):
    for args in (["--hparam", "a=1"], ["--profile-every", "3"], ["--log-every", "3"]):
        bad = subprocess.run(board.command(maker, inputs, *args), capture_output=True, text=True, timeout=60)
        assert bad.returncode == 2 and "--logdir" in bad.stderr
    bad = subprocess.run(board.command(maker, inputs, "--logdir", "/tmp/unused", "--hparam", "a"), capture_output=True, text=True, timeout=60)
    assert bad.returncode != 0 and "--hparam a: give NAME=VALUE" in bad.stderr


OPTIMIZERS = {
    "descent": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01),
}


def norm_graph(optimizer, resource, dtype=tf.float32, rate=None):
    """A graph, and what a step shows of it: gradients, in the order of the variables' names."""
    g = tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        shapes, variables = {"layer/w": [4, 3], "layer/v": [3, 1], "b": [1]}, {}
        for i, (name, shape) in enumerate(shapes.items()):
            values = np.linspace(-0.5, 0.6, int(np.prod(shape))).reshape(shape) + 0.1 * i
            variables[name] = v1.get_variable(name, initializer=tf.constant(values, dtype), use_resource=resource)
        hidden = tf.tanh(tf.matmul(tf.cast(x, dtype), variables["layer/w"]))
        out = tf.matmul(hidden, variables["layer/v"]) + variables["b"]
        loss = tf.reduce_mean(tf.square(out - tf.cast(y, dtype)), name="loss")
        chosen = OPTIMIZERS[optimizer]() if rate is None else v1.train.GradientDescentOptimizer(rate(dtype))
        pairs = chosen.compute_gradients(loss, list(variables.values()))
        tf.group(chosen.apply_gradients(pairs), name="train")
        v1.global_variables_initializer()
    return g, [grad for grad, _ in pairs], list(variables.values())


def norms_of_one_device(graph, steps, feeds=()):
    g, gradients, variables = graph
    told, rng = [], np.random.RandomState(0)
    xs, ys = rng.rand(board.ROWS, 4).astype(np.float32), rng.rand(board.ROWS, 1).astype(np.float32)
    with v1.Session(graph=g) as sess:
        sess.run("init")
        for i in range(steps):
            rows = slice(i % 7 * board.BATCH, i % 7 * board.BATCH + board.BATCH)
            found = sess.run([*gradients, "train"], {"x:0": xs[rows], "y:0": ys[rows], **dict(feeds)})[:-1]
            told.append([np.linalg.norm(np.float64(v)) for v in found + sess.run(variables)])
    return np.transpose(told)


def check_norms(maker, folder, graph, strategy, steps=5, rtol=1e-4, args=(), feeds=()):
    """Writes the graph, logs a training of it, and returns its scalars."""
    board.write_inputs(folder, graph[0])
    args = [*args, "--log-norms", "--logdir", str(folder / "log"), "--steps", str(steps)]
    board.submit(maker, folder, *args, *([] if strategy is None else ["--strategy", strategy]), fetches=["--fetch", "loss"])
    found, want = board.scalars(folder / "log"), norms_of_one_device(graph, steps, feeds)
    names = [v.op.name for v in graph[2]]
    for k, tag in enumerate([f"{kind}_norm/{name}" for kind in ("gradient", "weight") for name in names]):
        np.testing.assert_allclose([v for _, v in found[tag]], want[k], rtol=rtol, atol=rtol / 10, err_msg=tag)
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("resource", [True, False], ids=["resource", "ref"])
def test_norms_are_those_of_gradients_and_weights(maker, tmp_path, optimizer, resource):
    found = check_norms(maker, tmp_path, norm_graph(optimizer, resource), None)
    rate = 0.01 if optimizer in ("adam", "rmsprop") else 0.1
    np.testing.assert_allclose([v for _, v in found["learning_rate"]], [rate] * 5, rtol=1e-6)


@pytest.mark.parametrize("strategy", [*STRATEGIES[1:], "mirrored:3", "central_storage:2", "parameter_server:mode=sync,workers=3"])
def test_under_strategies_norms_are_those_of_the_whole_batch(maker, tmp_path, strategy):
    for optimizer, resource in (("momentum", True), ("adam", False)):
        folder = tmp_path / optimizer
        folder.mkdir()
        check_norms(maker, folder, norm_graph(optimizer, resource), strategy)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_norms_of_other_types(maker, tmp_path, dtype):
    check_norms(maker, tmp_path, norm_graph("descent", True, dtype), None, rtol={8: 1e-6}.get(dtype.size, 0.03))


RATES = {
    "constant": (lambda t: 0.25, None, 0.25),
    "variable": (lambda t: tf.Variable(tf.constant(0.25, t), trainable=False), None, 0.25),
    "fed": (lambda t: v1.placeholder(t, [], name="rate"), 0.5, 0.5),
    "computed": (lambda t: tf.constant(0.25, t) * 0.5, None, 0.125),
}


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2"])
@pytest.mark.parametrize("kind", RATES)
def test_the_learning_rate_is_found(maker, tmp_path, kind, strategy):
    rate, fed, want = RATES[kind]
    args, feeds = ([], []) if fed is None else (["--feed", f"rate={fed}"], [("rate:0", fed)])
    found = check_norms(maker, tmp_path, norm_graph("descent", True, rate=rate), strategy, args=args, feeds=feeds)
    np.testing.assert_allclose([v for _, v in found["learning_rate"]], [want] * 5, rtol=1e-6)


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2"])
def test_rates_and_norms_of_keras_are_those_that_its_optimizer_applies(maker, tmp_path, strategy):
    """A table with rows, a batch normalisation whose gradients are two outputs of a node, gradients that are clipped."""
    with tf.__internal__.eager_context.eager_mode():
        keras.utils.set_random_seed(3)
        layers, schedule = keras.layers, keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        m = keras.Sequential([layers.Input((2,), dtype="int32"), layers.Embedding(9, 3), layers.Flatten(), layers.Dense(4, use_bias=False), layers.BatchNormalization(), layers.Dense(1)])
        m.compile(keras.optimizers.Adam(schedule, clipnorm=0.5), "mse")
        weft_export.export(m, tmp_path / "model.pb")
        rng = np.random.RandomState(0)
        x, y = rng.randint(0, 9, (24, 2)).astype(np.int32), rng.rand(24, 1).astype(np.float32)
        want = {"learning_rate": []}
        for at in range(0, 24, 8):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((m(x[at : at + 8], training=True) - y[at : at + 8]) ** 2)
            gradients = tape.gradient(loss, m.trainable_variables)
            want["learning_rate"].append(float(m.optimizer.learning_rate))
            for v, g in zip(m.trainable_variables, gradients):
                norm = np.linalg.norm(g.values if isinstance(g, tf.IndexedSlices) else g)
                want.setdefault(f"gradient_norm/{v.path}", []).append(min(norm, 0.5))
            m.optimizer.apply(gradients, m.trainable_variables)
            for v in m.trainable_variables:
                want.setdefault(f"weight_norm/{v.path}", []).append(np.linalg.norm(v))
    for name, rows in (("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", rows)
    command = [maker.weft_binary, "submit", "model.pb", "--feed", "x=x.npy", "--feed", "y=y.npy", "--batch", "8", "--steps", "3", "--logdir", "log", "--log-norms"]
    done = subprocess.run(command + ([] if strategy is None else ["--strategy", strategy]), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = board.scalars(tmp_path / "log")
    assert {t for t in found if "norm/" in t} == {t for t in want if "norm/" in t}
    for tag, values in want.items():
        np.testing.assert_allclose([v for _, v in found[tag]], values, rtol=1e-3, atol=1e-4, err_msg=tag)


def test_learning_rates_that_differ_have_their_variables_names(maker, tmp_path):
    g = tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        a, b = v1.get_variable("a", [4, 1]), v1.get_variable("b", [1])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, a) + b - y), name="loss")
        slow, fast = v1.train.GradientDescentOptimizer(0.01), v1.train.GradientDescentOptimizer(0.5)
        tf.group(slow.minimize(loss, var_list=[a]), fast.minimize(loss, var_list=[b]), name="train")
        v1.global_variables_initializer()
    board.write_inputs(tmp_path, g)
    board.submit(maker, tmp_path, "--steps", "2", "--logdir", str(tmp_path / "log"), fetches=[])
    found = board.scalars(tmp_path / "log")
    assert {t: np.float32(v[0][1]) for t, v in found.items() if t.startswith("learning_rate")} == {"learning_rate/a": np.float32(0.01), "learning_rate/b": np.float32(0.5)}
    assert not any("norm" in t for t in found)  # they are asked for


@pytest.mark.parametrize("kind", ["branch", "loop", "behind a loop"])
def test_updates_that_not_every_step_makes_are_left_out(maker, tmp_path, kind):
    """Conditionals and loops of nodes, as TensorFlow 1 makes them."""
    v1.disable_control_flow_v2()
    try:
        g = tf.Graph()
        with g.as_default():
            x, y = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
            w = v1.get_variable("w", initializer=tf.ones([4, 1]), use_resource=False)
            rate, step = tf.constant(0.5) * 0.1, v1.get_variable("step", initializer=0, use_resource=False)

            def update(gradient):
                return tf.raw_ops.ApplyGradientDescent(var=w._ref(), alpha=rate, delta=gradient)

            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y), name="loss")
            if kind == "branch":
                (gradient,) = tf.gradients(loss, [w])
                made = v1.cond(tf.equal(step % 2, 0), lambda: tf.identity(update(gradient)), lambda: tf.zeros([4, 1]))
            elif kind == "loop":
                made = tf.while_loop(lambda i: i < 2, lambda i: [i + 1 + 0 * tf.cast(tf.reduce_sum(update(tf.ones([4, 1]))), tf.int32)], [0], parallel_iterations=1)[0]
            else:
                doubled = tf.while_loop(lambda i, t: i < 3, lambda i, t: [i + 1, t * 1.5], [0, tf.reduce_mean(tf.square(tf.matmul(x, w)))])[1]
                chosen = v1.cond(tf.equal(step % 2, 0), lambda: doubled * 2.0, lambda: doubled * 3.0)
                (gradient,) = tf.gradients(chosen, [w])
                made = update(gradient)
            with tf.control_dependencies([made]):
                tf.group(v1.assign_add(step, 1), name="train")
            v1.global_variables_initializer()
    finally:
        v1.enable_control_flow_v2()
    assert any(n.op in ("Switch", "RefSwitch") for n in g.as_graph_def().node)
    board.write_inputs(tmp_path, g)
    told = board.submit(maker, tmp_path, "--steps", "4", "--logdir", str(tmp_path / "log"), "--log-norms", fetches=["--fetch", "loss"])
    assert len(told) == 4
    tags = {"learning_rate", "gradient_norm/w", "weight_norm/w"}
    assert tags & set(board.scalars(tmp_path / "log")) == (tags if kind == "behind a loop" else set())


def test_norms_of_rows_that_are_looked_up(maker, tmp_path):
    g = tf.Graph()
    with g.as_default():
        x, y = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        table = v1.get_variable("table", initializer=tf.reshape(tf.linspace(0.0, 1.0, 20), [10, 2]), use_resource=True)
        rows = tf.nn.embedding_lookup(table, tf.cast(x * 9.99, tf.int32))
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - y[:, 0]), name="loss")
        chosen = v1.train.AdagradOptimizer(0.1)
        ((gradient, _),) = pairs = chosen.compute_gradients(loss, [table])
        tf.group(chosen.apply_gradients(pairs), name="train")
        v1.global_variables_initializer()
        whole = tf.convert_to_tensor(gradient)
    check_norms(maker, tmp_path, (g, [whole], [table]), None)


def summary_nodes():
    """Nodes that make summaries, and what is said of them: in a line, and as JSON."""
    g = tf.Graph()
    with g.as_default():
        v1.summary.scalar("loss", 0.25)
        v1.summary.histogram("one", [3.0])
        v1.summary.histogram("many", np.linspace(-1, 2, 100))
        v1.summary.image("picture", np.zeros([2, 3, 5, 1], np.uint8))
        v1.summary.audio("sound", np.zeros([1, 800, 1], np.float32), 1600)
        v1.summary.tensor_summary("tensor", np.zeros([2, 3], np.int32))
        v1.summary.text("words", tf.constant("some\nwords"))
        v1.summary.merge([v1.summary.scalar("a", 1.0), v1.summary.scalar("b", float("nan"))], name="both")
        tf.constant([v1.Summary(value=[v1.Summary.Value(tag=t, simple_value=2)]).SerializeToString() for t in "xy"], name="list")
        tf.constant(b"\n\x05hello", name="text")
        tf.constant(b"", name="none")
    picture = {"kind": "image", "width": 5, "height": 3}
    return g, {
        "loss": ("loss: 0.25", [{"tag": "loss", "kind": "scalar", "value": 0.25}]),
        "one": ("one: histogram of 1 value, 3 to 3", [{"tag": "one", "kind": "histogram", "count": 1, "min": 3, "max": 3}]),
        "many": ("many: histogram of 100 values, -1 to 2", [{"tag": "many", "kind": "histogram", "count": 100, "min": -1, "max": 2}]),
        "picture": ("picture/image/0: image of 5 x 3; picture/image/1: image of 5 x 3", [{"tag": f"picture/image/{i}", **picture} for i in range(2)]),
        "sound": ("sound/audio/0: audio of 0.5 s", [{"tag": "sound/audio/0", "kind": "audio", "seconds": 0.5}]),
        "tensor": ("tensor: int32 of shape [2,3]", [{"tag": "tensor", "kind": "tensor", "dtype": "int32", "shape": [2, 3]}]),
        "words": ('words: text "some words"', [{"tag": "words", "kind": "text", "text": "some\nwords"}]),
        "both/both": ("a: 1; b: nan", [{"tag": "a", "kind": "scalar", "value": 1}, {"tag": "b", "kind": "scalar", "value": None}]),
        "list": ("[x: 2, y: 2]", [{"summary": [{"tag": t, "kind": "scalar", "value": 2}]} for t in "xy"]),
        "text": ('"\\n\\x05hello"', "\n\x05hello"),
        "none": ('""', ""),
    }


def test_fetched_summaries_say_what_they_have(maker, tmp_path):
    g, wanted = summary_nodes()
    (tmp_path / "graph.pb").write_bytes(g.as_graph_def().SerializeToString())
    command = [maker.weft_binary, "submit", str(tmp_path / "graph.pb")]
    for name in wanted:
        command += ["--fetch", name]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    for name, (line, _) in wanted.items():
        assert f"\n{name} = {line}\n" in said.stdout, said.stdout
    json_lines = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60).stdout
    fetches = json.loads(json_lines.splitlines()[-1])["fetches"]
    for name, (_, value) in wanted.items():
        is_summary = isinstance(value, list) and name != "list"
        assert fetches[name] == ({"summary": value} if is_summary else value), name


def data_graph(drops):
    """A graph that reads its batches itself."""
    g = tf.Graph()
    with g.as_default():
        rows = tf.data.Dataset.range(40).map(lambda i: tf.cast(i, tf.float32)).batch(8, drop_remainder=drops)
        iterator = v1.data.make_initializable_iterator(rows)
        loss = tf.reduce_mean(iterator.get_next(), name="loss")
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        tf.group(w.assign_add(loss), name="train")
        tf.group(v1.global_variables_initializer(), iterator.initializer, name="begin")
    return g


@pytest.mark.parametrize("strategy,drops", [(None, True), (None, False), ("mirrored:2", True)])
def test_graphs_that_read_their_data_log_how_long_they_waited(maker, tmp_path, strategy, drops):
    (tmp_path / "graph.pb").write_bytes(data_graph(drops).as_graph_def().SerializeToString())
    command = [maker.weft_binary, "submit", str(tmp_path / "graph.pb"), "--init", "begin", "--target", "train", "--fetch", "loss", "--logdir", str(tmp_path / "log")]
    done = subprocess.run(command + ([] if strategy is None else ["--strategy", strategy]), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = board.scalars(tmp_path / "log")
    np.testing.assert_allclose([v for _, v in found["loss"]], [3.5, 11.5, 19.5, 27.5, 35.5], rtol=1e-6)
    ((step, share),) = found["input/wait_share"]
    assert step == 5 and 0 <= share <= 1 and found["input/wait_ms_per_step"][0][1] >= 0
    assert ("performance/examples_per_second" in found) == drops  # else the graph does not say how many there are


# ---- TensorBoard ----


@pytest.fixture(scope="module")
def logs(maker, inputs, tmp_path_factory):
    """Two trainings: on one device, and under a strategy."""
    folder = tmp_path_factory.mktemp("logs")
    args = ["--steps", "30", "--profile-every", "15", "--hparam", "rate=0.1"]
    told = board.submit(maker, inputs, "--logdir", str(folder / "single"), *args)
    board.submit(maker, inputs, "--logdir", str(folder / "mirrored"), "--strategy", "mirrored:2", *args)
    return folder, told


@pytest.fixture(scope="module")
def shown(logs, tmp_path_factory):
    with board.tensorboard(logs[0], tmp_path_factory.mktemp("board") / "said.txt") as b:
        b.wait_for(lambda b: b.has_steps(["single", "mirrored"], 30))
        yield b


def test_tensorboard_shows_scalars(shown, logs):
    tags = shown.json("plugin/scalars/tags")
    for run in ("single", "mirrored"):
        assert set(tags[run]) == {"loss", "lr", "learning_rate", "inner/loss", *SPEED}
        points = shown.json("plugin/scalars/scalars", run=run, tag="loss")
        assert [p[1] for p in points] == list(range(1, 31))
        np.testing.assert_allclose([p[2] for p in points], [t["loss"] for t in logs[1]], rtol=1e-4)


def test_tensorboard_shows_histograms_images_and_texts(shown):
    for run in ("single", "mirrored"):
        steps = shown.json("plugin/histograms/histograms", run=run, tag="weights")
        assert len(steps) == 30 and sum(bucket[2] for bucket in steps[-1][2]) == 4
        picture = shown.json("plugin/images/images", run=run, tag="picture/image/0", sample="0")[0]
        png = shown.get("plugin/images/individualImage?" + picture["query"])
        assert tf.io.decode_png(png).shape == (64, 64, 1)
        assert "<strong>bold</strong>" in shown.json("plugin/text/text", run=run, tag="words")[0]["text"]
        assert "<table" in shown.json("plugin/text/text", run=run, tag="job")[0]["text"]


def test_tensorboard_shows_graphs_with_times(shown):
    info = shown.json("plugin/graphs/info")
    assert info["single"]["run_graph"] and info["mirrored"]["run_graph"]
    assert {t: (v["op_graph"], v["profile"]) for t, v in info["single"]["tags"].items()} == {"step_15": (False, True), "step_30": (False, True)}
    assert {t: (v["op_graph"], v["profile"]) for t, v in info["mirrored"]["tags"].items()} == {"rewritten": (True, False), "step_15": (True, True), "step_30": (True, True)}
    own = shown.get("plugin/graphs/graph", run="single").decode()
    assert 'name: "layer/MatMul"' in own and 'device: "' not in own
    rewritten = shown.get("plugin/graphs/graph", run="mirrored", tag="rewritten").decode()
    assert "CPU:1" in rewritten
    for run in ("single", "mirrored"):
        times = shown.get("plugin/graphs/run_metadata", run=run, tag="step_30").decode()
        assert "MatMul" in times and "all_end_rel_nanos" in times


def test_tensorboard_shows_hyperparameters(shown):
    experiment = shown.post("plugin/hparams/experiment", {"experimentName": ""})
    found = {h["name"]: h for h in experiment["hparamInfos"]}
    assert {"strategy", "batch", "steps", "rate", "shuffle", "cluster"} <= set(found)
    assert {"loss", "lr"} <= {m["name"]["tag"] for m in experiment["metricInfos"]}
    groups = shown.post("plugin/hparams/session_groups", {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "colParams": [{"metric": {"tag": "loss", "group": ""}}], "startIndex": 0, "sliceSize": 10})["sessionGroups"]
    assert {g["hparams"]["strategy"] for g in groups} == {"none", "mirrored:2"}
    assert all(g["hparams"]["rate"] == 0.1 and g["metricValues"][0]["trainingStep"] == 30 for g in groups)
