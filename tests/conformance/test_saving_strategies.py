"""Checkpoints of `weft submit` under every strategy: what one strategy saves any other goes on with, and TensorFlow, too.

The model has variables of both kinds, a partitioned one, slots, a moving average and a step counter. What is compared
with is TensorFlow, training the same graph on one device with the same batches.
"""

import json
import shutil
import signal
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


def model(seed=1, width=5, parts=3, saver=None, metric=False):
    """Adam on an embedding in parts, two resource variables and a reference variable."""
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
            partitioner=v1.fixed_size_partitioner(parts) if parts else None,
            use_resource=False,
        )
        kernel = v1.get_variable("dense/kernel", initializer=start.randn(10, width).astype("f"), use_resource=True)
        bias = v1.get_variable("dense/bias", initializer=np.zeros(width, "f"), use_resource=False)
        out = v1.get_variable("out", initializer=start.randn(width, 2).astype("f"), use_resource=True)
        features = tf.concat([tf.gather(tf.convert_to_tensor(table), ids), x], 1)
        hidden = tf.tanh(tf.matmul(features, kernel) + bias)
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out) - y), name="loss")
        step = v1.train.get_or_create_global_step()
        train = v1.train.AdamOptimizer(0.05).minimize(loss, step)
        average = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([train]):
            averaged = average.apply([kernel])
        if metric:
            averaged = tf.group(averaged, v1.metrics.mean(loss, name="mean_loss")[1])
        tf.group(averaged, name="train")
        v1.global_variables_initializer()
        tf.group(g.get_operation_by_name("init"), v1.local_variables_initializer(), name="init_all")
        if saver:
            v1.train.Saver(saver(), name="saver")
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
        self.graph("graph.pb", model())
        for name, value in (("ids", IDS), ("x", X), ("y", Y)):
            np.save(folder / f"{name}.npy", value)

    def graph(self, name, graph):
        (self.folder / name).write_bytes(graph.as_graph_def().SerializeToString())
        return name

    def command(self, strategy, steps, *more, graph="graph.pb", init="init"):
        command = [self.weft, "submit", str(self.folder / graph), "--init", init, "--target", "train", "--fetch", "loss"]
        command += ["--json", "--steps", str(steps), "--batch", str(BATCH)]
        for name in ("ids", "x", "y"):
            command += ["--feed", f"{name}={self.folder}/{name}.npy"]
        if strategy:
            command += ["--strategy", strategy]
        return command + [str(m) for m in more]

    def __call__(self, strategy, steps, *more, fails=False, **names):
        done = subprocess.run(self.command(strategy, steps, *more, **names), capture_output=True, text=True, timeout=60)
        if fails:
            assert done.returncode == 1, done.stdout
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
            assert done.stdout == "", "something was trained"
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


# ---- TensorFlow's checkpoints ----


@pytest.mark.parametrize("strategy", EXACT, ids=name_of)
def test_what_tensorflow_saved_is_restored(submit, trained, tmp_path, strategy):
    lines = submit(strategy, 3, "--restore", trained[1] / f"tf-{HALF}", "--save", tmp_path / "m")
    with model().as_default() as g, v1.Session(graph=g) as s:
        v1.train.Saver().restore(s, str(trained[1] / f"tf-{HALF}"))
        wanted = [s.run(["loss:0", "train"], feed)[0] for feed in batches(0, 3)]
    np.testing.assert_allclose(losses_of(lines), wanted, rtol=2e-5)


@pytest.mark.parametrize("is_sharded", [False, True], ids=["one file", "sharded"])
@pytest.mark.parametrize("version", [v1.train.SaverDef.V1, v1.train.SaverDef.V2], ids=["V1", "V2"])
@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2,shards=fixed:2"], ids=name_of)
def test_every_format_of_tensorflow_is_restored(submit, trained, tmp_path, strategy, version, is_sharded):
    with model().as_default() as g, v1.Session(graph=g) as s:
        v1.train.Saver().restore(s, str(trained[1] / f"tf-{HALF}"))
        path = v1.train.Saver(write_version=version, sharded=is_sharded).save(s, str(tmp_path / "m [1]"), HALF)
    wanted = submit(None, 2, "--restore", trained[1] / f"tf-{HALF}")
    for prefix in (str(tmp_path), path.replace("-?????-of-00001", "")):
        lines = submit(strategy, 2, "--restore", prefix)
        np.testing.assert_allclose(losses_of(lines), losses_of(wanted), rtol=2e-5)


def test_a_directory_stands_for_its_latest_checkpoint(submit, trained):
    assert submit(None, 0, "--restore", trained[1])[0]["restored"] == str(trained[1] / f"tf-{STEPS}")


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2,shards=fixed:2"], ids=name_of)
@pytest.mark.parametrize("parts", [None, 1, 2, 4])
def test_a_partitioned_variable_may_be_cut_otherwise(submit, halves, trained, tmp_path, strategy, parts):
    folder, _ = halves(strategy)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    graph = submit.graph(f"parts_{parts}.pb", model(parts=parts))
    lines = submit(strategy, STEPS, "--save", tmp_path / "m", "--resume", graph=graph)
    np.testing.assert_allclose(losses_of(lines), trained[0][HALF:], rtol=2e-5)
    assert_equal_variables(variables_of(tmp_path / f"m-{STEPS}"), variables_of(trained[1] / f"tf-{STEPS}"))


@pytest.mark.parametrize("strategy", EXACT, ids=name_of)
def test_the_graphs_own_saver_is_fed(submit, halves, trained, strategy):
    """--init saver/restore_all restores what --feed says."""
    graph = submit.graph("saver.pb", model(saver=v1.global_variables))
    prefix = halves(None)[0] / f"m-{HALF}"
    lines = submit(strategy, 2, "--feed", f"saver/Const={prefix}", graph=graph, init="saver/restore_all")
    wanted = submit(None, 2, "--restore", prefix, graph=graph)
    np.testing.assert_allclose(losses_of(lines), losses_of(wanted), rtol=2e-5)


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2,shards=fixed:2"], ids=name_of)
def test_names_are_those_of_the_graphs_own_saver(submit, tmp_path, strategy):
    """Saver({"other name": variable}) is honoured, and TensorFlow restores it so."""

    def renamed():
        return {("net/" + v.op.name if "dense" in v.op.name else v.op.name): v for v in v1.global_variables() if "part_" not in v.op.name}

    graph = model(saver=renamed)
    submit(strategy, 2, "--save", tmp_path / "m", graph=submit.graph("renamed.pb", graph))
    names = variables_of(tmp_path / "m-2")
    assert "net/dense/kernel" in names and "net/dense/bias/Adam" in names and "dense/kernel" not in names and "table" in names
    with graph.as_default(), v1.Session(graph=graph) as s:
        s.run("saver/restore_all", {"saver/Const:0": str(tmp_path / "m-2")})


# ---- interruptions ----


@pytest.mark.parametrize("strategy", EXACT + ["mirrored:2,accumulate=2"], ids=name_of)
def test_an_interrupted_run_equals_an_uninterrupted_one(submit, tmp_path, strategy):
    """Shuffled data included: the second epoch has an order of its own."""
    shuffled = ["--shuffle", "--seed", 7, "--keep", 0]
    whole = submit(strategy, STEPS, "--save", tmp_path / "whole", *shuffled)
    submit(strategy, HALF, "--save", tmp_path / "m", *shuffled)
    submit(strategy, HALF + 3, "--save", tmp_path / "m", "--resume", *shuffled)
    lines = submit(strategy, STEPS, "--save", tmp_path / "m", "--resume", *shuffled)
    first = lines[0]["step"]
    np.testing.assert_allclose(losses_of(lines), losses_of(whole)[first:], rtol=1e-5)
    last = sorted(int(p.stem.split("-")[1]) for p in tmp_path.glob("m-*.index"))[-1]
    assert_equal_variables(variables_of(tmp_path / f"m-{last}"), variables_of(tmp_path / f"whole-{last}"))


@pytest.mark.parametrize("strategy", SEVERAL, ids=name_of)
def test_workers_stand_still_while_a_checkpoint_is_made(submit, tmp_path, strategy):
    """Every step of a checkpoint is in it: its counter says so, and TensorFlow reads it."""
    lines = submit(strategy, 40, "--save", tmp_path / "m", "--save-every", 7, "--keep", 0)
    saved = [line for line in lines if "saved" in line]
    assert len(saved) >= 4 and saved[-1]["step"] == 40
    for line in saved:
        assert variables_of(line["saved"])["global_step"] == line["step"], strategy
    lines = submit(strategy, 50, "--save", tmp_path / "m", "--resume")
    assert lines[0]["step"] == 40
    assert variables_of(tmp_path / "m-50")["global_step"] == 50


def test_the_last_few_are_kept_and_known(submit, tmp_path):
    submit(None, 20, "--save", tmp_path / "m", "--save-every", 3, "--keep", 2)
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["m-18.index", "m-20.index"]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == str(tmp_path / "m-20")
    assert list(state.all_model_checkpoint_paths) == [str(tmp_path / "m-18"), str(tmp_path / "m-20")]


def test_nothing_is_left_to_do(submit, halves):
    lines = submit(None, HALF, "--save", halves(None)[0] / "m", "--resume")
    assert losses_of(lines) == [] and lines[0]["step"] == HALF and lines[-1]["done"]


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=async,workers=2"], ids=name_of)
def test_a_job_may_be_killed_at_any_moment(submit, tmp_path, strategy):
    """Each job goes on from the newest checkpoint, which is never older than the last that was announced."""
    announced = 0
    for round_number in range(8):
        command = submit.command(strategy, 100000, "--save", tmp_path / "m", "--save-every", 1, "--keep", 2, "--resume")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            first, count = None, 0
            for line in job.stdout:
                line = json.loads(line)
                if "resumed" in line:
                    first = line["step"]
                count += "saved" in line
                announced = line["step"] if "saved" in line else announced
                if count > round_number:
                    break
            job.send_signal(signal.SIGKILL)
        assert first is not None, "the job did not start"
        latest = tf.train.latest_checkpoint(str(tmp_path))
        assert int(latest.rsplit("-", 1)[1]) >= announced >= first
        assert variables_of(latest)["global_step"] == int(latest.rsplit("-", 1)[1])


# ---- on a cluster ----


def test_one_device_then_a_cluster_then_one_device(own_cluster, submit, trained, tmp_path):
    master = ["--master", own_cluster.target("worker", 0), "--save", tmp_path / "m", "--resume"]
    losses = losses_of(submit("mirrored:2", 2, "--save", tmp_path / "m"))
    for steps, strategy in ((4, "parameter_server:mode=sync,shards=fixed:2"), (6, "multi_worker_mirrored"), (8, "parameter_server:mode=sync")):
        losses += losses_of(submit(strategy, steps, *master))
    losses += losses_of(submit(None, STEPS, "--save", tmp_path / "m", "--resume"))
    np.testing.assert_allclose(losses, trained[0], rtol=2e-5)
    assert_equal_variables(variables_of(tmp_path / f"m-{STEPS}"), variables_of(trained[1] / f"tf-{STEPS}"))


def two_clients(submit, own_cluster, folders, steps):
    commands = [
        submit.command(f"multi_worker_mirrored:task={i}", steps, "--master", own_cluster.target("worker", i), "--save", folder / "m", "--resume")
        for i, folder in enumerate(folders)
    ]
    jobs = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    return [(job.communicate(timeout=60), job.returncode) for job in jobs]


def test_with_a_client_per_worker_the_chief_saves(own_cluster, submit, tmp_path):
    for steps in (3, 6):
        results = two_clients(submit, own_cluster, [tmp_path, tmp_path], steps)
        assert [code for _, code in results] == [0, 0], results
        assert [f"m-{steps}" in out for (out, _), _ in results] == [True, False]
    wanted = losses_of(submit(None, 6))
    got = losses_of([json.loads(line) for line in results[0][0][0].splitlines()])
    np.testing.assert_allclose(got, wanted[3:], rtol=2e-5)  # both clients feed the same rows


def test_clients_that_start_from_different_checkpoints_are_refused(own_cluster, submit, halves, tmp_path):
    results = two_clients(submit, own_cluster, [halves(None)[0], tmp_path], STEPS)
    assert [code for _, code in results] == [1, 1]
    assert all("the checkpoint that it starts from" in err and len(err.splitlines()) == 1 for (_, err), _ in results)


def test_clients_that_do_not_compare_are_refused(own_cluster, submit, tmp_path):
    command = submit.command("multi_worker_mirrored:task=0", 2, "--master", own_cluster.target("worker", 0), "--save", tmp_path / "m", "--resume")
    del command[command.index("--init") : command.index("--init") + 2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--resume with a client per worker needs --init" in done.stderr


# ---- what is no good ----


def damage(folder, how):
    data, index = folder / f"m-{HALF}.data-00000-of-00001", folder / f"m-{HALF}.index"
    bytes_ = bytearray(data.read_bytes())
    if how == "data short":
        data.write_bytes(bytes_[: len(bytes_) // 2])
    elif how == "data gone":
        data.unlink()
    elif how == "bad checksum":
        bytes_[len(bytes_) // 2] ^= 1
        data.write_bytes(bytes_)
    elif how == "index short":
        index.write_bytes(index.read_bytes()[:100])
    elif how == "index empty":
        index.write_bytes(b"")


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=async,workers=2"], ids=name_of)
@pytest.mark.parametrize("option", ["--restore", "--resume"])
@pytest.mark.parametrize("how", ["data short", "data gone", "bad checksum", "index short", "index empty"])
def test_a_damaged_checkpoint_is_refused(submit, halves, tmp_path, how, option, strategy):
    shutil.copytree(halves(None)[0], tmp_path, dirs_exist_ok=True)
    damage(tmp_path, how)
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    more = ["--restore", tmp_path / f"m-{HALF}"] if option == "--restore" else ["--save", tmp_path / "m", "--resume"]
    error = submit(strategy, STEPS, *more, fails=True)
    assert f"{option} {tmp_path}/m-{HALF}: " in error and ("damaged" in error or "missing" in error) and "nothing was changed" in error
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == files


def test_the_checkpoint_before_a_damaged_one_is_named(submit, trained, tmp_path):
    submit(None, HALF, "--save", tmp_path / "m", "--save-every", 2)
    damage(tmp_path, "data gone")
    error = submit(None, STEPS, "--save", tmp_path / "m", "--resume", fails=True)
    assert f"to go on from m-2, remove {tmp_path}/m-{HALF}.index" in error
    (tmp_path / f"m-{HALF}.index").unlink()
    lines = submit(None, STEPS, "--save", tmp_path / "m", "--resume")
    np.testing.assert_allclose(losses_of(lines), trained[0][2:], rtol=2e-5)


def test_a_first_start_begins_with_another_checkpoint(submit, trained, tmp_path):
    """--restore with --resume: for a job that is started again and again by the same command."""
    more = ["--restore", trained[1] / f"tf-{HALF}", "--save", tmp_path / "m", "--resume"]
    lines = submit(None, 2, *more)
    assert [line for line in lines if "resumed" in line or "restored" in line] == [
        {"step": 0, "steps": 2, "resumed": None},
        {"step": 0, "steps": 2, "restored": str(trained[1] / f"tf-{HALF}")},
    ]
    assert submit(None, 3, *more)[0]["step"] == 2


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2,shards=fixed:2"], ids=name_of)
@pytest.mark.parametrize(
    "other, text",
    [
        (dict(width=6), "dense/kernel is float [10,5] in it, but float [10,6] in the graph (10 of 22 variables differ)"),
        (dict(metric=True), "it lacks mean_loss/total (2 of 24 variables); with --restore-partly"),
    ],
    ids=["shapes", "missing"],
)
def test_a_checkpoint_of_another_model_is_refused(submit, trained, other, text, strategy):
    graph = submit.graph("other.pb", model(**other))
    error = submit(strategy, STEPS, "--restore", trained[1] / f"tf-{HALF}", graph=graph, init="init_all", fails=True)
    assert "is the checkpoint of another model" in error and text in error, error


def test_types_that_differ_are_refused(submit, tmp_path):
    for dtype in (np.float32, np.float64):
        with tf.Graph().as_default() as g, v1.Session() as s:
            v = v1.get_variable("v", initializer=dtype(1))
            tf.group(v1.assign_add(v, dtype(1)), name="train")
            v1.global_variables_initializer()
            submit.graph(f"{dtype.__name__}.pb", g)
            s.run("init")
            v1.train.Saver().save(s, str(tmp_path / dtype.__name__))
    command = [submit.weft, "submit", submit.folder / "float64.pb", "--init", "init", "--target", "train"]
    done = subprocess.run([*command, "--restore", tmp_path / "float32"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "v is float [] in it, but double [] in the graph" in done.stderr


def test_what_a_checkpoint_lacks_may_keep_its_first_value(submit, trained, tmp_path):
    graph = submit.graph("metric.pb", model(metric=True))
    more = ["--restore", trained[1] / f"tf-{HALF}", "--restore-partly", "--save", tmp_path / "m"]
    for strategy in (None, "mirrored:2"):
        losses = losses_of(submit(strategy, 2, *more, graph=graph, init="init_all"))
        saved = variables_of(tmp_path / "m-2")
        np.testing.assert_allclose(saved["mean_loss/total"], sum(losses), rtol=1e-5)  # metrics are saved as all else
        assert saved["mean_loss/count"] == 2


def test_a_checkpoint_of_objects_is_told_apart(submit, tmp_path):
    with tf.Graph().as_default(), v1.Session() as s:
        v = tf.Variable(1.0)
        s.run(v.initializer)
        path = tf.train.Checkpoint(v=v).write(str(tmp_path / "object"))
    assert "tf.train.Checkpoint" in submit(None, 1, "--restore", path, fails=True)


@pytest.mark.parametrize("strategy", [None, "mirrored:2"], ids=name_of)
@pytest.mark.parametrize("case", ["a directory", "a file's", "below a file's", "locked"])
def test_a_prefix_that_cannot_be_written_is_refused_at_once(submit, tmp_path, case, strategy):
    (tmp_path / "file").write_text("")
    prefix = {
        "a directory": tmp_path,
        "a file's": tmp_path / "file" / "m",
        "below a file's": tmp_path / "file" / "deep" / "m",
        "locked": "/proc/m",
    }[case]
    error = submit(strategy, 2, "--save", prefix, fails=True)
    assert f"--save {prefix}" in error
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync,workers=2"], ids=name_of)
@pytest.mark.parametrize("folders", ["one", "one/two/three"])
def test_the_directory_of_a_prefix_is_made(submit, tmp_path, folders, strategy):
    submit(strategy, 2, "--save", tmp_path / folders / "m")
    assert tf.train.latest_checkpoint(str(tmp_path / folders)) == str(tmp_path / folders / "m-2")
    assert variables_of(tmp_path / folders / "m-2")


def test_a_full_disk_loses_no_checkpoint(submit, tmp_path):
    """The job ends with one line; the checkpoint before it is whole, and is gone on with."""
    submit(None, 2, "--save", tmp_path / "m")
    command = " ".join(str(c) for c in submit.command(None, 5, "--save", tmp_path / "m", "--save-every", 1, "--resume"))
    done = subprocess.run(["sh", "-c", f"trap '' XFSZ; ulimit -f 1; exec {command}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "step 3 could not be saved" in done.stderr and "the last checkpoint is m-2" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "m-2.data-00000-of-00001", "m-2.index"]
    assert submit(None, 5, "--save", tmp_path / "m", "--resume")[0]["step"] == 2


def test_feeds_of_different_lengths_say_what_to_do(submit, tmp_path):
    np.save(tmp_path / "x.npy", X[:10])
    for strategy in (None, "mirrored:2", "parameter_server:mode=sync,workers=2"):
        command = submit.command(strategy, 2)
        command[command.index(f"x={submit.folder}/x.npy")] = f"x={tmp_path}/x.npy"
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "--batch 8:ids" in done.stderr and "batch=ids" in done.stderr, done.stderr
    for strategy in ("mirrored:2", "central_storage:2", "parameter_server:mode=sync,workers=2"):  # arrays fed whole
        del command[command.index("--batch") : command.index("--batch") + 2]
        command[command.index("--strategy") + 1] = strategy
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "if one of them is no batch" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        command += ["--batch", "8"]


@pytest.mark.parametrize("strategy", ["mirrored:2", "central_storage:2", "parameter_server:mode=sync,workers=2"], ids=name_of)
def test_feeds_that_are_no_batch_are_named(submit, tmp_path, strategy):
    """A table that is fed whole stands beside batches that are cut."""
    with tf.Graph().as_default() as g:
        x, table = v1.placeholder(tf.float32, [None, 6], name="x"), v1.placeholder(tf.float32, [None], name="table")
        w = v1.get_variable("w", initializer=np.ones((6, 1), "f"), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)) * tf.reduce_sum(table), name="loss")
        v1.train.GradientDescentOptimizer(0.01).minimize(loss, name="train")
        v1.global_variables_initializer()
    submit.graph("table.pb", g)
    np.save(submit.folder / "table.npy", np.arange(3, dtype="f"))

    def run(batch, *more):
        command = [submit.weft, "submit", submit.folder / "table.pb", "--init", "init", "--target", "train", "--fetch", "loss", "--json"]
        command += ["--steps", 7, "--feed", f"x={submit.folder}/x.npy", "--feed", f"table={submit.folder}/table.npy", "--batch", batch, *more]
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60)

    assert "--batch 8:x" in run(8).stderr
    wanted = run("8:x")
    got = run("8:x", "--strategy", strategy + ("," if ":" in strategy else ":") + "batch=x")
    assert wanted.returncode == got.returncode == 0, wanted.stderr + got.stderr
    lines = [losses_of([json.loads(line) for line in r.stdout.splitlines()]) for r in (wanted, got)]
    assert len(lines[0]) == 7
    np.testing.assert_allclose(lines[1], lines[0], rtol=1e-5)
