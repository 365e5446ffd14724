"""Checkpoints of `weft submit` under every strategy: what one strategy saves any other goes on with, and TensorFlow, too.

The model has variables of both kinds, a partitioned one, slots, a moving average and a step counter. What is compared
with is TensorFlow, training the same graph on one device with the same batches.
"""

import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1
pytestmark = pytest.mark.weft_only

ROWS, BATCH, HALF, STEPS = 44, 8, 4, 9  # six batches in an epoch, the last of four rows; the second half passes its end
rng = np.random.RandomState(0)
IDS = rng.randint(0, 31, ROWS).astype(np.int64)
X, Y = rng.randn(ROWS, 6).astype("f"), rng.randn(ROWS, 2).astype("f")

EXACT = [
    None,
    "mirrored:2",
    "mirrored:3",
    "data_parallel:2",
    "central_storage:2",
    "multi_worker_mirrored:2",
    "parameter_server:mode=sync,workers=2",
    "parameter_server:mode=sync,workers=2,shards=fixed:2",
    "parameter_server:mode=async,workers=1,shards=fixed:3",
    "parameter_server:mode=ssp,workers=1,staleness=1",
]
SEVERAL = [
    "parameter_server:mode=async,workers=2",
    "parameter_server:mode=async,workers=3,shards=fixed:2",
    "parameter_server:mode=ssp,workers=2,staleness=0",
    "parameter_server:mode=ssp,workers=3,staleness=2",
    "parameter_server:mode=sync,workers=3,backup=1",
]


def name_of(strategy):
    return (strategy or "none").replace("parameter_server", "ps")


def model(seed=1, width=5, is_saver=False, extra=False):
    """Adam on an embedding in three parts, a resource variable and a reference variable."""
    start = np.random.RandomState(seed)
    whole = start.randn(31, 4)

    def rows(shape, dtype=tf.float32, partition_info=None):
        begin = partition_info.var_offset[0] if partition_info else 0
        return tf.constant(whole[begin : begin + shape[0]], dtype)

    with tf.Graph().as_default() as g:
        ids, x = v1.placeholder(tf.int64, [None], name="ids"), v1.placeholder(tf.float32, [None, 6], name="x")
        y = v1.placeholder(tf.float32, [None, 2], name="y")
        table = v1.get_variable(
            "table",
            [31, 4],
            initializer=rows,
            partitioner=v1.fixed_size_partitioner(3),
            use_resource=False,
        )
        kernel = v1.get_variable("dense/kernel", initializer=start.randn(10, width).astype("f"), use_resource=True)
        bias = v1.get_variable("dense/bias", initializer=np.zeros(width, "f"), use_resource=False)
        out = v1.get_variable("out", initializer=start.randn(width, 2).astype("f"), use_resource=True)
        if extra:
            v1.get_variable("unused", initializer=np.float32(3))
        features = tf.concat([tf.matmul(tf.one_hot(ids, 31), tf.convert_to_tensor(table)), x], 1)
        hidden = tf.tanh(tf.matmul(features, kernel) + bias)
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out) - y), name="loss")
        step = v1.train.get_or_create_global_step()
        train = v1.train.AdamOptimizer(0.05).minimize(loss, step)
        average = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([train]):
            averaged = average.apply([kernel])
        tf.group(averaged, name="train")
        v1.global_variables_initializer()
        if is_saver:
            v1.train.Saver(name="saver")
    return g


def batches(first=0, last=STEPS):
    """What --batch feeds: the last batch of an epoch is smaller."""
    starts = list(range(0, ROWS, BATCH))
    for i in range(first, last):
        begin = starts[i % len(starts)]
        rows = slice(begin, min(begin + BATCH, ROWS))
        yield {"ids:0": IDS[rows], "x:0": X[rows], "y:0": Y[rows]}


def variables_of(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map() if not k.startswith("_weft/")}


def assert_equal_variables(got, wanted):
    assert sorted(got) == sorted(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5, rtol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """TensorFlow's losses of all steps, and what its Saver writes after HALF and all of them."""
    folder = tmp_path_factory.mktemp("tensorflow")
    with model().as_default() as g, v1.Session(graph=g) as s:
        saver = v1.train.Saver()
        s.run("init")
        losses = []
        for i, feed in enumerate(batches()):
            losses.append(s.run(["loss:0", "train"], feed)[0])
            if i + 1 in (HALF, STEPS):
                saver.save(s, str(folder / "tf"), i + 1)
    return losses, folder


class Submit:
    """Runs of `weft submit` on files of one folder."""

    def __init__(self, weft, folder):
        self.weft, self.folder = weft, folder
        (folder / "graph.pb").write_bytes(model().as_graph_def().SerializeToString())
        for name, value in (("ids", IDS), ("x", X), ("y", Y)):
            np.save(folder / f"{name}.npy", value)

    def command(self, strategy, steps, *more, graph="graph.pb"):
        command = [self.weft, "submit", str(self.folder / graph), "--init", "init", "--target", "train", "--fetch", "loss"]
        command += ["--json", "--steps", str(steps), "--batch", str(BATCH)]
        for name in ("ids", "x", "y"):
            command += ["--feed", f"{name}={self.folder}/{name}.npy"]
        if strategy:
            command += ["--strategy", strategy]
        return command + [str(m) for m in more]

    def __call__(self, strategy, steps, *more, graph="graph.pb", fails=False, command=None):
        done = subprocess.run(command or self.command(strategy, steps, *more, graph=graph), capture_output=True, text=True, timeout=60)
        if fails:
            assert done.returncode == 1, done.stdout
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
            assert '"loss":0' not in done.stdout and '"loss":1' not in done.stdout, "something was trained"
            return done.stderr
        assert done.returncode == 0, f"{strategy}: {done.stderr}"
        return [json.loads(line) for line in done.stdout.splitlines()]


def losses_of(lines):
    return [line["fetches"]["loss"] for line in lines if "fetches" in line and not line["done"]]


@pytest.fixture(scope="module")
def submit(request, tmp_path_factory):
    return Submit(request.config.getoption("--weft"), tmp_path_factory.mktemp("weft"))


@pytest.fixture(scope="module")
def halves(submit):
    """By strategy: the folder of a job that stopped half-way."""
    made = {}

    def half(strategy):
        if strategy not in made:
            folder = submit.folder / f"half_{len(made)}"
            folder.mkdir()
            lines = submit(strategy, HALF, "--save", folder / "m")
            made[strategy] = folder, losses_of(lines)
        return made[strategy]

    return half


@pytest.mark.parametrize("strategy", EXACT, ids=name_of)
def test_what_is_saved_is_what_tensorflow_saves(halves, trained, strategy):
    folder, losses = halves(strategy)
    np.testing.assert_allclose(losses, trained[0][:HALF], rtol=1e-5)
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / f"m-{HALF}")
    assert_equal_variables(variables_of(folder / f"m-{HALF}"), variables_of(trained[1] / f"tf-{HALF}"))


@pytest.mark.parametrize("strategy", EXACT, ids=name_of)
def test_tensorflow_goes_on(halves, trained, strategy):
    folder, _ = halves(strategy)
    with model().as_default() as g, v1.Session(graph=g) as s:
        v1.train.Saver().restore(s, str(folder / f"m-{HALF}"))
        losses = [s.run(["loss:0", "train"], feed)[0] for feed in batches(HALF)]
    np.testing.assert_allclose(losses, trained[0][HALF:], rtol=2e-5)


@pytest.mark.parametrize("second", EXACT, ids=name_of)
@pytest.mark.parametrize("first", EXACT, ids=name_of)
def test_any_strategy_goes_on_where_another_stopped(submit, halves, trained, tmp_path, first, second):
    folder, _ = halves(first)
    subprocess.run(["cp", "-r", f"{folder}/.", tmp_path], check=True)
    lines = submit(second, STEPS, "--save", tmp_path / "m", "--resume")
    assert lines[0] == {"step": HALF, "steps": STEPS, "resumed": f"{tmp_path}/m-{HALF}"}
    np.testing.assert_allclose(losses_of(lines), trained[0][HALF:], rtol=2e-5)
    assert_equal_variables(variables_of(tmp_path / f"m-{STEPS}"), variables_of(trained[1] / f"tf-{STEPS}"))
