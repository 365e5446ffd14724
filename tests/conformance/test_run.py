"""`weft run`: a training file trained on servers that are started for it, evaluated, resumed; and nothing is left behind."""

import json
import os
import re
import signal
import subprocess
import time
import uuid

import numpy as np
import pytest
import tensorflow as tf

from test_export import BATCH, MODELS, ROWS, STEPS, by_name, feeds, fresh, same, steps_of, trained_by_keras, weft_export

pytestmark = pytest.mark.weft_only
DEADLINE_S = 60


@pytest.fixture(autouse=True)
def eager():
    with tf.__internal__.eager_context.eager_mode():
        yield


class Runs:
    """The command, with a mark in the environment by which its servers are found."""

    def __init__(self, program, directory):
        self.program, self.directory, self.mark = program, directory, f"WEFT_TEST_MARK={uuid.uuid4()}"

    def start(self, *args):
        name, value = self.mark.split("=")
        return subprocess.Popen([self.program, "run", *args], cwd=self.directory, env={**os.environ, name: value, "TMPDIR": str(self.directory)},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    def __call__(self, *args, code=0):
        process = self.start(*args)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, err
        self.check_gone()
        assert not [f for f in os.listdir(self.directory) if f.startswith("weft-run")] or code != 0
        return out if code == 0 else err

    def servers(self):
        """The processes that have the mark, by their ids: their command lines."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/cmdline", "rb") as c:
                    line = c.read().decode().split("\0")
                    if self.mark.encode() in f.read().split(b"\0") and "server" in line:
                        found[int(pid)] = line
            except OSError:
                pass  # it has ended
        return found

    def check_gone(self):
        """The kernel kills servers with their parent: soon, not at once."""
        deadline = time.monotonic() + DEADLINE_S
        while self.servers():
            assert time.monotonic() < deadline, self.servers()


@pytest.fixture
def run(request, tmp_path):
    runs = Runs(os.path.abspath(request.config.getoption("--weft")), tmp_path)
    yield runs
    for pid in runs.servers():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def trained(tmp_path):
    """A file, its feeds, and what Keras tells of its steps."""
    m, data = fresh(MODELS["convolution_with_state"])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    args = [*feeds(tmp_path, by_name(m, data)), "--batch", str(BATCH)]
    return m, data, args, trained_by_keras(m, data)


SERVERS = {
    "none": [],
    "one worker": ["--workers", "1"],
    "two workers": ["--workers", "2"],
    "one worker, two devices": ["--workers", "1", "--cpus", "2", "--strategy", "mirrored:2"],
    "parameter servers": ["--workers", "2", "--ps", "2"],
    "central": ["--workers", "2", "--ps", "1", "--strategy", "parameter_server:mode=sync,placement=bytes"],
}


@pytest.mark.slow
@pytest.mark.parametrize("servers", sorted(SERVERS))
def test_a_file_is_trained_on_servers_of_its_own(run, trained, servers):
    m, data, args, wanted = trained
    out = run("model.pb", *SERVERS[servers], *args, "--epochs", "1", "--json")
    same(steps_of(out), wanted, 2e-4, servers)


@pytest.mark.parametrize("servers", ["none", "two workers", "parameter servers"])
def test_it_is_evaluated_and_resumed(run, trained, tmp_path, servers):
    """In two runs, the second on other servers; every checkpoint is evaluated as Keras does."""
    m, data, args, _ = trained
    again = [a for pair in zip(args[::2], args[1::2]) if pair[0] == "--feed" for a in ("--evaluate-feed", pair[1])]
    always = [*args, *again, "--evaluate-every", "2", "--save", "saved", "--keep", "0", "--json"]
    first = run("model.pb", *SERVERS[servers], *always, "--steps", "4")
    second = run("model.pb", "--workers", "2", *always, "--steps", str(STEPS), "--resume")
    told = {line["step"]: line["evaluated"] for line in map(json.loads, (first + second).splitlines()) if "evaluated" in line}
    assert sorted(told) == [2, 4, 6]
    for step, values in told.items():
        weft_export.load(tmp_path / "model.pb", tmp_path / f"saved-{step}", m)
        same([values], [m.evaluate(*data, batch_size=BATCH, verbose=0, return_dict=True)], 2e-4, f"step {step}")
    resumed = steps_of(second)
    assert len(resumed) == STEPS - 4


@pytest.mark.parametrize("jobs", [["worker"], ["ps", "worker"]], ids="+".join)
def test_all_workers_of_a_standing_cluster_take_part(run, cluster, unique, tmp_path, jobs):
    """Without --strategy, as those that --workers and --ps start: the last step's trace shows nodes of both."""
    m, data = fresh(MODELS["regression"])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    spec = ";".join(part for part in cluster.spec.split(";") if part.split("=")[0] in jobs)
    args = [*feeds(tmp_path, by_name(m, data)), "--batch", str(BATCH), "--epochs", "1", "--json", "--trace", "trace.json", "--container", unique]
    out = run("model.pb", "--cluster", spec, *args)
    same(steps_of(out), trained_by_keras(m, data), 2e-4, spec)
    said = (tmp_path / "trace.json").read_text()
    assert all(f"/job:worker/replica:0/task:{i}/" in said for i in range(2)) and ("/job:ps/" in said) == ("ps" in jobs)


TIMED = {
    "none": [],
    "mirrored": ["--workers", "1", "--cpus", "2", "--strategy", "mirrored:2"],
    "data parallel": ["--workers", "1", "--cpus", "2", "--strategy", "data_parallel:2"],
    "central storage": ["--workers", "1", "--cpus", "2", "--strategy", "central_storage:2"],
    "two workers": ["--workers", "2"],
    "parameter servers": ["--workers", "2", "--ps", "2"],
    "async": ["--workers", "2", "--ps", "1", "--strategy", "parameter_server:mode=async"],
    "ssp": ["--workers", "2", "--ps", "1", "--strategy", "parameter_server:mode=ssp,staleness=1"],
    "backup": ["--workers", "3", "--ps", "1", "--strategy", "parameter_server:mode=sync,backup=1"],
}
LATE = {"async", "ssp", "backup"}  # a checkpoint may be of a later step than the one that was asked for


@pytest.mark.slow
@pytest.mark.parametrize("strategy", sorted(TIMED))
@pytest.mark.parametrize("every", ["0.000001s", "1000h"])  # a save is due after each step; never
def test_it_is_evaluated_beside_saves_by_time(run, trained, tmp_path, strategy, every):
    m, data, args, _ = trained
    again = [a for pair in zip(args[::2], args[1::2]) if pair[0] == "--feed" for a in ("--evaluate-feed", pair[1])]
    out = run("model.pb", *TIMED[strategy], *args, *again, "--evaluate-every", "2", "--save", "saved", "--save-every", every,
              "--keep", "0", "--json", "--steps", "5")  # fmt: skip
    lines = [json.loads(line) for line in out.splitlines()]
    told = {line["step"]: line["evaluated"] for line in lines if "evaluated" in line}
    saved = [int(line["saved"].rsplit("-", 1)[1]) for line in lines if "saved" in line]
    assert saved == sorted(set(saved)) and set(told) <= set(saved) and max(told) == max(saved), lines
    if strategy not in LATE:
        assert saved == ([1, 2, 3, 4, 5] if every == "0.000001s" else [2, 4, 5]) and sorted(told) == [2, 4, 5], lines
    assert {s // 2 for s in told if s > 1} == {s // 2 for s in saved if s > 1}, lines
    for step, values in told.items():
        weft_export.load(tmp_path / "model.pb", tmp_path / f"saved-{step}", m)
        same([values], [m.evaluate(*data, batch_size=BATCH, verbose=0, return_dict=True)], 2e-4, f"step {step}")


def test_an_evaluation_that_fails_ends_the_job_in_a_line(run, trained):
    _, _, args, _ = trained
    err = run("model.pb", "--workers", "2", *args, "--evaluate-every", "2", "--save", "saved", "--evaluate-feed", "nothing=1", code=1)
    assert "while evaluating" in err and "--evaluate-feed x=" in err and "input 'x'" in err and len(err.strip().splitlines()) == 1, err


def test_a_file_that_reads_its_own_data_is_evaluated_on_its_own(run, tmp_path):
    m, data = fresh(MODELS["regression"])
    batches = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    weft_export.export(m, tmp_path / "model.pb", data=batches, evaluate_data=batches)
    out = run("model.pb", "--workers", "2", "--evaluate-every", "3", "--save", "saved", "--json")
    told = {line["step"]: line["evaluated"] for line in map(json.loads, out.splitlines()) if "evaluated" in line}
    assert len(steps_of(out)) == ROWS // BATCH and sorted(told) == [3, 6]
    weft_export.load(tmp_path / "model.pb", tmp_path / "saved", m)
    same([told[6]], [m.evaluate(*data, batch_size=BATCH, verbose=0, return_dict=True)], 2e-4, "evaluation")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["starting", "training"])
def test_no_server_outlives_it(run, trained, how, moment):
    _, _, args, _ = trained
    process = run.start("model.pb", "--workers", "2", "--ps", "1", *args, "--steps", "1000000", "--json")
    if moment == "training":
        assert process.stdout.readline()
        assert len(run.servers()) == 3
    process.send_signal(how)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode in ([-how] if how == signal.SIGKILL else [128 + how, -how])
    run.check_gone()


@pytest.mark.parametrize("victim", ["ps", "worker"])
def test_a_lost_server_ends_the_job_and_is_named(run, trained, victim):
    _, _, args, _ = trained
    process = run.start("model.pb", "--workers", "2", "--ps", "1", *args, "--steps", "1000000", "--json")
    assert process.stdout.readline()
    chosen = [pid for pid, line in run.servers().items() if line[line.index("--job") + 1] == victim]
    os.kill(max(chosen), signal.SIGKILL)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1 and re.search(rf"/job:{victim}/replica:0/task:\d", err) and "UNAVAILABLE" in err, err
    run.check_gone()


MISTAKES = [
    (["--workers", "2", "--master", "grpc://127.0.0.1:1"], 2, "--workers and --ps start servers here"),
    (["--cluster", "worker=127.0.0.1:1", "--master", "grpc://127.0.0.1:1"], 2, "give --cluster or --master, not both"),
    (["--cluster", "ps=127.0.0.1:1"], 1, "has neither a chief nor a worker 0"),
    (["--cluster", "worker"], 2, "--cluster worker: 'worker' is not job=host:port,host:port"),
    (["--evaluate-every", "5"], 2, "--evaluate-every needs --save"),
    (["--evaluate-feed", "x=x.npy"], 2, "need --evaluate-every"),
    (["--workers", "0x"], 2, "--workers"),
    (["--workers", "100000"], 2, "--workers"),
    (["--epochs", "0"], 2, "--epochs"),
    (["--epochs", "2", "--steps", "3"], 2, "--steps and --epochs both say when the job ends"),
    (["--signature", "predict", "--workers", "2"], 2, "--signature predict is run once"),
    (["--trace", "nowhere/t.json"], 1, "--trace nowhere/t.json; No such file or directory"),
    (["--save-fetch", "loss=nowhere/l.npy"], 1, "--save-fetch loss=nowhere/l.npy; No such file or directory"),
    (["--save-fetch", "loss=."], 1, "--save-fetch loss=.; Is a directory"),
    (["--evaluate-every", "2", "--save", "saved"], 1, "of signature 'evaluate' is not fed; give --evaluate-feed x="),
    (["--evaluate-every", "2", "--save", "saved", "--evaluate-data", "none.csv"], 1, "none.csv: there is no such file"),
    (["--fetch", "train/nothing"], 1, "--fetch train/nothing: the graph has no such node; `weft inspect` lists inputs and outputs; the outputs of signature 'train' are accuracy, loss"),
]


@pytest.mark.parametrize("args,code,said", MISTAKES, ids=[" ".join(m[0]) for m in MISTAKES])
def test_mistakes_are_told_in_a_line(run, trained, args, code, said):
    process = run.start("model.pb", *trained[2], *args)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code and said in err and len(err.strip().splitlines()) == 1, err
    assert out == "" and not list(run.directory.glob("saved-*"))  # no step was made


def test_a_full_device_is_named(run, trained):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([run.program, "run", "model.pb", *trained[2], "--steps", "2"], cwd=run.directory, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False)  # fmt: skip
    assert done.returncode == 1 and done.stderr == "weft: cannot write to standard output: No space left on device\n", done.stderr


def test_a_node_is_fetched_beside_the_step(run, tmp_path):
    """Its name is the graph's; those of the inputs stay the entry's."""
    m, data = fresh(MODELS["regression"])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    args = ["model.pb", *feeds(tmp_path, by_name(m, data)), "--batch", str(BATCH), "--json"]
    meta = tf.compat.v1.MetaGraphDef.FromString((tmp_path / "model.pb").read_bytes())
    node = next(n.name for n in meta.graph_def.node if n.op == "MatMul" and n.name.startswith("train/"))
    steps = steps_of(run(*args, "--fetch", "loss", "--fetch", node))
    same(steps, [{"loss": s["loss"]} for s in trained_by_keras(m, data)], 2e-4, "losses")
    assert all(len(s[node]) == BATCH for s in steps)


@pytest.mark.parametrize("shape,shown", [((ROWS,), f"[{ROWS}]"), ((ROWS, 5), f"[{ROWS},5]")])
@pytest.mark.parametrize("option", ["--feed", "--evaluate-feed"])
def test_an_array_of_another_shape_is_refused(run, tmp_path, option, shape, shown):
    """As TensorFlow's session does: with both shapes, before a step that would broadcast it."""
    m, data = fresh(MODELS["regression"])
    weft_export.export(m, tmp_path / "model.pb", data=data)
    args = [*feeds(tmp_path, by_name(m, data)), "--batch", str(BATCH)]
    np.save(tmp_path / "other.npy", np.zeros(shape, "float32"))
    wrong = ["y=other.npy" if a.startswith("y=") else a.replace("--feed", option) for a in args[:4]]
    more = wrong + args[4:] if option == "--feed" else [*args, *wrong, "--evaluate-every", "2", "--save", "saved"]
    err = run("model.pb", *more, code=1)
    assert f"{option} " in err and f"cannot feed other.npy of shape {shown} for tensor " in err and "which has shape [?,1]" in err and "input 'y'" in err, err
    assert len(err.strip().splitlines()) == 1, err


def test_what_is_no_training_file_is_run_once(run, tmp_path):
    class Half(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def half(self, x):
            return {"y": x / 2}

    m = Half()
    tf.saved_model.save(m, str(tmp_path / "half"), m.half)
    assert run("half", "--feed", "x=[1, 3]") == "y = [0.5, 1.5]\n"
    assert "is no training file" in run("half", "--workers", "2", "--feed", "x=[1]", code=2)


def test_a_saved_model_that_serves_is_run_once_and_trained_on_request(run, tmp_path):
    """Both signatures are in its folder: options of training choose the one that trains."""

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([[2.0]])

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")])
        def serve(self, x):
            return {"y": x @ self.w}

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")])
        def train(self, x):
            self.w.assign_sub([[0.5]])
            return {"loss": tf.reduce_sum(x @ self.w)}

    model = Model()
    folder = str(tmp_path / "model_dir")
    tf.saved_model.save(model, folder, signatures={"serving_default": model.serve, "train": model.train})
    assert json.loads(run(folder, "--feed", "x=[[1], [3]]", "--json"))["y"] == [[2.0], [6.0]]
    np.save(tmp_path / "x.npy", np.float32([[1], [3]]))
    for how in (["--workers", "2"], ["--workers", "1", "--ps", "1"], ["--epochs", "1"]):
        lines = run(folder, "--feed", "x=x.npy", "--batch", "2", "--json", *how).splitlines()
        assert json.loads(lines[-1])["fetches"] == {"loss": 6.0}, how
    lines = run(folder, "--feed", "x=x.npy", "--batch", "2", "--json", "--workers", "2", "--signature", "train").splitlines()
    assert json.loads(lines[-1])["fetches"] == {"loss": 6.0}
    assert "--signature serving_default is run once" in run(folder, "--signature", "serving_default", "--workers", "2", "--feed", "x=[[1]]", code=2)
