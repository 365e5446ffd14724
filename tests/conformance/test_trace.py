"""`weft trace`: steps of jobs that know nothing of it, on real clusters, opened in Perfetto's own trace processor."""

import collections
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf

import perfetto
from cluster import Cluster
from support import PS, W1, session, v1

pytestmark = pytest.mark.weft_only
DEADLINE_S = 120
STEPS = 6
LABEL = re.compile(r"^(?:\[\S+\] )*(\S+) from (\S+) to (\S+)$")


@pytest.fixture(scope="module")
def two_each(maker, tmp_path_factory):
    """A cluster whose tasks have two devices each."""
    c = Cluster(maker, str(tmp_path_factory.mktemp("servers")), cpus=2).start()
    yield c
    assert not c.dead()
    c.stop()


@pytest.fixture
def weft(request, tmp_path):
    program = os.path.abspath(request.config.getoption("--weft"))

    def start(*args):
        return subprocess.Popen([program, *map(str, args)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def ended(process, code=0):
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code, (process.args, err)
    return out if code == 0 else err


def recordings(cluster):
    """How many are open at each task."""
    counts = []
    for address in itertools.chain(*cluster.jobs.values()):
        with grpc.insecure_channel(address) as channel:
            text = channel.unary_unary("/weft.WorkerService/Metrics")(b"", wait_for_ready=True, timeout=DEADLINE_S)
        counts.append(int(re.search(rb"^weft_step_recordings (\d+)$", text, re.M).group(1)))
    return counts


def wait_for_recordings(cluster, process, n=1):
    """Until every task has so many: steps that begin later are told."""
    while min(recordings(cluster)) < n:
        assert process.poll() is None, process.communicate()


# ---- jobs ----


@contextlib.contextmanager
def stock_job(cluster, run):
    """Calls run(session) again and again, in a thread, until the end of the block; gives what the calls have returned."""
    results, stop, failures = [], threading.Event(), []

    def loop():
        try:
            with session(cluster.master, run.graph) as s:
                if run.init is not None:
                    s.run(run.init)
                while not stop.is_set():
                    results.append(run(s))
        except tf.errors.OpError as e:
            failures.append(e)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield results
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert not failures, failures[0]


class Product:
    """A matrix goes to a server, its square to a worker, and the sum of that back: three tensors between tasks in each step."""

    def __init__(self, graph, metadata=False):
        self.graph, self.init = graph, None
        self.options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE) if metadata else None
        self.x = v1.placeholder(tf.float32, [100, 100])
        with tf.device(PS):
            y = tf.matmul(self.x, self.x, name="product")
        with tf.device(W1):
            self.z = tf.reduce_sum(y, name="total")

    def __call__(self, s):
        metadata = v1.RunMetadata() if self.options else None
        assert s.run(self.z, {self.x: np.full([100, 100], 0.01, "f")}, options=self.options, run_metadata=metadata) > 0
        return metadata


STRATEGIES = ["multi_worker_mirrored", "parameter_server:mode=sync", "parameter_server:mode=async", "mirrored:2", "central_storage:2"]


@pytest.fixture
def training(tmp_path):
    rng = np.random.RandomState(3)
    np.save(tmp_path / "x.npy", rng.randn(64, 8).astype("f"))
    np.save(tmp_path / "y.npy", rng.randint(0, 4, 64))
    with tf.Graph().as_default() as g:
        x, y = v1.placeholder(tf.float32, [None, 8], name="x"), v1.placeholder(tf.int64, [None], name="y")
        w = [v1.get_variable(f"w{i}", initializer=rng.randn(*shape).astype("f") * 0.3) for i, shape in enumerate([(8, 16), (16, 4)])]
        logits = tf.matmul(tf.tanh(tf.matmul(x, w[0])), w[1])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")
        v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, name="train")
        v1.global_variables_initializer()
    (tmp_path / "graph.pb").write_bytes(g.as_graph_def().SerializeToString())
    return ["submit", "graph.pb", "--init", "init", "--target", "train", "--fetch", "loss", "--feed", "x=x.npy", "--feed", "y=y.npy", "--batch", "16", "--json"]


def losses(out):
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["step"]: line["fetches"]["loss"] for line in lines if "fetches" in line}


# ---- what a trace has to be ----


class Trace:
    def __init__(self, path):
        self.data = path.read_bytes()
        self.events = json.loads(self.data)["traceEvents"]
        self.processes = {e["pid"]: e["args"]["name"] for e in self.events if e["name"] == "process_name"}
        self.tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.events if e["name"] == "thread_name"}
        self.spans = [e for e in self.events if e["ph"] == "X"]
        self.arrows = [(s, f) for s, f in zip(*(sorted((e for e in self.events if e["ph"] == k), key=lambda e: e["id"]) for k in "sf"))]
        self.steps = collections.defaultdict(dict)  # number -> task -> span
        for e in self.of("step"):
            self.steps[e["name"]].setdefault(self.processes[e["pid"]], []).append(e)

    def of(self, category):
        return [e for e in self.spans if e["cat"] == category]

    def check_form(self):
        """Strictly, without a viewer: what has a start has an end, on known tracks, and nothing overlaps."""
        assert len(self.processes) == len(set(self.processes.values())) and 0 not in self.processes
        assert len({tid for _, tid in self.tracks}) == len(self.tracks)
        ends = {}
        for e in sorted(self.spans, key=lambda e: e["ts"]):
            track = e["pid"], e["tid"]
            assert track in self.tracks and e["dur"] > 0 and e["ts"] >= 0
            assert e["ts"] >= ends.get(track, 0) - 1e-6, "spans of one track overlap"
            ends[track] = e["ts"] + e["dur"]
        starts, finishes = ([e for e in self.events if e["ph"] == k] for k in "sf")
        assert len(starts) == len(finishes) == len(self.arrows) == len({e["id"] for e in starts})
        at = collections.defaultdict(list)
        for e in self.spans:
            at[e["pid"], e["tid"]].append(e)
        for ends_of_arrow in self.arrows:
            assert len({e["id"] for e in ends_of_arrow}) == 1 and ends_of_arrow[0]["ts"] <= ends_of_arrow[1]["ts"]
            for e in ends_of_arrow:
                assert any(s["name"] == e["name"] and s["ts"] <= e["ts"] <= s["ts"] + s["dur"] for s in at[e["pid"], e["tid"]])
        for e in self.events:
            assert e["ph"] in "XMCsf" and (e["pid"] in self.processes or e["ph"] == "M")

    def check_perfetto(self, folder):
        p = perfetto.TraceProcessor(folder, self.data)
        try:
            assert p.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
            assert p.query("select count(*) as n, max(depth) as depth from slice") == [{"n": len(self.spans), "depth": 0}]
            assert p.query("select count(*) as n from flow") == [{"n": len(self.arrows)}]
            names = {r["name"] for r in p.query("select name from process where name is not null")}
            assert names == set(self.processes.values())
            found = p.query(
                "select o.name as sent, i.name as received, op.name as source, ip.name as target from flow "
                "join slice o on o.id = flow.slice_out join thread_track ot on ot.id = o.track_id join thread oh on oh.utid = ot.utid join process op on op.upid = oh.upid "
                "join slice i on i.id = flow.slice_in join thread_track it on it.id = i.track_id join thread ih on ih.utid = it.utid join process ip on ip.upid = ih.upid"
            )
            shown = collections.Counter((r["sent"], r["received"], r["source"], r["target"]) for r in found)
            assert shown == collections.Counter((s["name"], f["name"], self.processes[s["pid"]], self.processes[f["pid"]]) for s, f in self.arrows)
            counters = p.query("select count(*) as n from counter")[0]["n"]
            assert counters == sum(len(e["args"]) for e in self.events if e["ph"] == "C") > 0
        finally:
            p.close()

    def check_steps(self, n):
        assert sorted(self.steps) == sorted(f"step {i + 1}" for i in range(n))
        ids = {name: {e["args"]["step_id"] for parts in tasks.values() for e in parts} for name, tasks in self.steps.items()}
        assert all(len(i) == 1 for i in ids.values()) and len(set.union(*ids.values())) == n
        numbers = {e["args"]["step"] for e in self.spans if e["cat"] != "step"}
        assert numbers <= set(range(1, n + 1))

    def nodes(self):
        """{step: Counter of (device, node)}; what a step waits for is part of it."""
        found = collections.defaultdict(collections.Counter)
        for e in self.spans:
            if e["cat"] not in ("step", "send", "receive"):
                found[e["args"]["step"]][self.processes[e["pid"]], e["name"]] += 1
        return found

    def transfers(self):
        """{step: Counter of (tensor, from, to)}"""
        found = collections.defaultdict(collections.Counter)
        for s, f in self.arrows:
            sent = next(e for e in self.of("send") if (e["pid"], e["tid"], e["ts"]) == (s["pid"], s["tid"], s["ts"]))
            found[sent["args"]["step"]][s["name"], self.processes[s["pid"]], self.processes[f["pid"]]] += 1
        return found


def trace(weft, cluster, tmp_path, steps=STEPS, *more):
    return weft("trace", "--cluster", cluster.spec, "--steps", steps, "--timeout", DEADLINE_S, "--out", tmp_path / "trace.json", "--json", *more)


def check(tmp_path, said, steps=STEPS):
    t, said = Trace(tmp_path / "trace.json"), json.loads(said)
    assert (said["steps"], said["tasks"], said["records_dropped"]) == (steps, 3, 0)
    assert said["transfers"] == len(t.arrows) and said["nodes"] == len([e for e in t.spans if e["cat"] not in ("step", "send", "receive")])
    t.check_form()
    t.check_steps(steps)
    return t


# ---- tests ----


def test_a_stock_clients_steps_are_whole(weft, cluster, graph, tmp_path):
    with stock_job(cluster, Product(graph)):
        t = check(tmp_path, ended(trace(weft, cluster, tmp_path)))
    w0, w1, ps = (f"/job:{task}/device:CPU:0" for task in ("worker/replica:0/task:0", "worker/replica:0/task:1", "ps/replica:0/task:0"))
    for step in range(1, STEPS + 1):
        assert set(t.steps[f"step {step}"]) == {"/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1", "/job:ps/replica:0/task:0"}
        assert {(ps, "product"): 1, (w1, "total"): 1}.items() <= dict(t.nodes()[step]).items()
        routes = [(name.rpartition("_")[2], source, target) for (name, source, target), n in t.transfers()[step].items() for _ in range(n)]
        assert sorted(routes) == sorted([("0", w0, ps), ("product", ps, w1), ("total", w1, w0)])


@pytest.mark.skipif(not perfetto.is_there(), reason="there is no Chromium: tools/setup chromium installs it")
def test_perfetto_shows_every_span_and_arrow(weft, cluster, graph, tmp_path, tmp_path_factory):
    with stock_job(cluster, Product(graph)):
        t = check(tmp_path, ended(trace(weft, cluster, tmp_path)))
    t.check_perfetto(tmp_path_factory.mktemp("profile"))


def test_a_trace_has_what_the_clients_own_metadata_has(weft, cluster, graph, tmp_path):
    """Steps that their client records, too: node for node, in each step."""
    with stock_job(cluster, Product(graph, metadata=True)) as results:
        t = check(tmp_path, ended(trace(weft, cluster, tmp_path)))
    at = {}  # a node is known by the moment of its start
    for i, metadata in enumerate(results):
        for d in metadata.step_stats.dev_stats:
            for n in d.node_stats:
                at[d.device, n.node_name, n.all_start_nanos or n.all_start_micros * 1000, LABEL.sub(r"\1 \2 \3", n.timeline_label)] = i
    origin = json.loads(t.data)["otherData"]["begins_at_unix_us"]
    seen = collections.defaultdict(list)
    for e in t.spans:
        if e["cat"] in ("step", "send"):
            continue
        device, start = t.processes[e["pid"]], origin * 1000 + e["ts"] * 1000
        name = "RecvTensor" if e["cat"] == "receive" else e["name"]
        near = [i for (d, n, ns, label), i in at.items() if d == device and n == name and abs(ns - start) < 2000 and label == LABEL.sub(r"\1 \2 \3", e["args"]["label"])]
        assert len(near) == 1, (device, e)
        seen[e["args"]["step"]].append(near[0])
    assert sorted(seen) == list(range(1, STEPS + 1))
    for own in seen.values():  # all of one step, and all that the client was told of it
        assert len(set(own)) == 1 and len(own) == sum(len(d.node_stats) for d in results[own[0]].step_stats.dev_stats)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_steps_of_strategies(weft, two_each, training, tmp_path, tmp_path_factory, strategy):
    more = ["--master", two_each.master, "--strategy", strategy, "--container", "trace" + re.sub(r"\W", "", strategy)]
    undisturbed = losses(ended(weft(*training, *more, "--steps", 40)))
    tracing = trace(weft, two_each, tmp_path)
    wait_for_recordings(two_each, tracing)
    traced = losses(ended(weft(*training, *more, "--steps", 40)))
    t = check(tmp_path, ended(tracing))
    if "async" not in strategy:
        assert traced == undisturbed and len(traced) == 40
    whole, moved = t.nodes(), t.transfers()
    # Steps of one kind have the same nodes and tensors: that of the initialisation, those of training, of each worker.
    kinds = collections.Counter((frozenset(whole[i].items()), frozenset((n[n.index("_", 5) :], a, b) for n, a, b in moved[i])) for i in range(1, STEPS + 1))
    assert len(kinds) <= 4 and max(kinds.values()) >= 2
    assert ("multi" in strategy or "mirrored" in strategy) == bool(t.of("collective"))
    if "parameter_server" in strategy:
        assert any("/job:ps/" in a for step in moved.values() for _, a, _ in step)
    if strategy == STRATEGIES[0] and perfetto.is_there():
        t.check_perfetto(tmp_path_factory.mktemp("profile"))


def test_a_client_per_worker(weft, cluster, training, tmp_path):
    """Two masters that run steps of the same ids: a step is whole when both have ended it."""
    tracing = trace(weft, cluster, tmp_path)
    wait_for_recordings(cluster, tracing)
    jobs = [
        weft(*training, "--strategy", f"multi_worker_mirrored:task={i}", "--master", cluster.target("worker", i), "--container", "traceclients", "--steps", 30)
        for i in range(2)
    ]
    for job in jobs:
        ended(job)
    t = check(tmp_path, ended(tracing))
    both = [parts for parts in t.steps.values() if len([task for task in parts if "worker" in task]) == 2]
    assert len(both) >= STEPS - 2  # the initialisation of each worker may be a step of its own


def test_several_observers_at_once(weft, cluster, graph, tmp_path):
    folders = [tmp_path / str(i) for i in range(3)]
    for folder in folders:
        folder.mkdir()
    with stock_job(cluster, Product(graph)):
        running = [trace(weft, cluster, folder, 3 + i) for i, folder in enumerate(folders)]
        for i, (folder, process) in enumerate(zip(folders, running)):
            check(folder, ended(process), 3 + i)


def test_nothing_runs(weft, cluster):
    said = ended(weft("trace", "--cluster", cluster.spec, "--timeout", 1), 1)
    assert said == "weft: no step ended on this cluster within 1 s: does a job run? --timeout waits longer (DEADLINE_EXCEEDED)\n"


def test_fewer_steps_than_asked_for_are_written(weft, cluster, graph, tmp_path):
    tracing = weft("trace", "--cluster", cluster.spec, "--steps", 1000000, "--timeout", 3, "--out", tmp_path / "trace.json")
    job = Product(graph)
    with session(cluster.master, graph) as s:
        results = 0
        while tracing.poll() is None and results < 5:
            job(s)
            results += 1
    out, err = tracing.communicate(timeout=DEADLINE_S)
    assert tracing.returncode == 1
    steps = len(Trace(tmp_path / "trace.json").steps) if (tmp_path / "trace.json").exists() else 0
    assert err.startswith(f"weft: only {steps} of 1000000 steps came" if steps else "weft: no step ended")


def test_a_killed_task_ends_the_trace_and_is_named(weft, own_cluster, graph, tmp_path):
    job = Product(graph)
    tracing = trace(weft, own_cluster, tmp_path, 1000000)
    wait_for_recordings(own_cluster, tracing)
    with session(own_cluster.master, graph) as s:
        job(s)
        own_cluster.kill("ps", 0)
        said = ended(tracing, 1)
    assert re.fullmatch(r"weft: task /job:ps/replica:0/task:0 at \S+ was lost while it was observed: .*\(UNAVAILABLE\)\n", said)
    assert own_cluster.servers["worker", 0].is_alive() and own_cluster.servers["worker", 1].is_alive()
    own_cluster.restart("ps", 0)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_no_recording(weft, own_cluster, graph, tmp_path, sig):
    job = Product(graph)
    tracing = trace(weft, own_cluster, tmp_path, 1000000)
    wait_for_recordings(own_cluster, tracing)
    with session(own_cluster.master, graph) as s:
        job(s)
        tracing.send_signal(sig)
        said = ended(tracing, 128 + sig)
        assert recordings(own_cluster) == [0, 0, 0]
        job(s)
    assert re.fullmatch(r"weft: interrupted after \d+ of 1000000 steps\n", said)
    assert not (tmp_path / "trace.json").exists()


def test_a_killed_observer_leaves_no_recording(weft, own_cluster, tmp_path):
    """Its connections break."""
    tracing = trace(weft, own_cluster, tmp_path)
    wait_for_recordings(own_cluster, tracing)
    tracing.kill()
    tracing.communicate()
    while max(recordings(own_cluster)) > 0:  # the test's own limit ends it
        pass


def test_a_frozen_task_is_named(weft, own_cluster):
    with own_cluster.frozen("worker", 1):
        said = ended(weft("trace", "--cluster", own_cluster.spec, "--timeout", 1), 1)
    assert said.startswith("weft: task /job:worker/replica:0/task:1 does not answer at ")


def test_a_stock_server_cannot_be_observed(weft, tmp_path, maker):
    from cluster import Maker

    stock = Cluster(Maker("tensorflow", maker.weft_binary), str(tmp_path), ps=0, workers=1).start()
    try:
        said = ended(weft("trace", "--cluster", stock.spec, "--timeout", 1), 1)
        assert re.fullmatch(r"weft: task /job:worker/replica:0/task:0 at \S+ cannot be observed: it is no Weft server, or an older one \(UNIMPLEMENTED\)\n", said)
    finally:
        stock.stop()


def test_a_cluster_by_tf_config(weft, cluster, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster.jobs, "task": {"type": "worker", "index": 1}}))
    assert ended(weft("trace", "--timeout", 1), 1).startswith("weft: no step ended")


def test_the_time_line_of_a_job_of_its_own_is_strict_too(weft, training, tmp_path, tmp_path_factory):
    """`weft submit --trace` draws with the same functions."""
    ended(weft(*training, "--strategy", "mirrored:2", "--steps", 3, "--trace", tmp_path / "trace.json"))
    t = Trace(tmp_path / "trace.json")
    t.check_form()
    assert t.of("collective") and t.of("compute") and not t.of("step")
    if perfetto.is_there():
        t.check_perfetto(tmp_path_factory.mktemp("profile"))
