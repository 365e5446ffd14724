"""`weft top`: what it says of a cluster beside the tasks' own counters and what clients did; tasks that die, hang and come back; the terminal."""

import concurrent.futures
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import termios
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf

from support import PS, W0, W1, is_in_time, v1
from terminal import Terminal
from test_metrics import over_grpc, samples

pytestmark = pytest.mark.weft_only
DEADLINE_S = 90
NAMES = {"ps": "/job:ps/replica:0/task:0", "w0": "/job:worker/replica:0/task:0", "w1": "/job:worker/replica:0/task:1"}


class Watch:
    """`weft top --json`, line by line."""

    def __init__(self, program, spec, *options, every="0.3"):
        command = [program, "top", "--cluster", spec, "--json", "--every", every, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.rest, self.seen = b"", []

    def next(self):
        """The next object."""
        deadline = time.monotonic() + DEADLINE_S
        while b"\n" not in self.rest:
            assert select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0], "no line"
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            assert piece, self.process.stderr.read().decode()
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        self.seen.append(json.loads(line))
        return self.seen[-1]

    def until(self, wanted):
        """The first object, from the next one on, for which wanted(its tasks by name) is true."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            view = self.next()
            if wanted(tasks_of(view)):
                return view
            assert time.monotonic() < deadline, view

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 128 + number, err
        return out, err

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def tasks_of(view):
    return {t["task"]: t for t in view["tasks"]}


def sums(views):
    """Steps of each task and bytes and messages of each link over all intervals."""
    steps, links = {}, {}
    for view in views:
        tasks = tasks_of(view)
        for name, t in tasks.items():
            steps[name] = steps.get(name, 0) + (t.get("steps") or 0)
        for link in view["traffic"]:
            seconds = tasks[link["to"]]["interval_seconds"]
            key = link["from"], link["to"], link["class"]
            old = links.get(key, (0, 0))
            links[key] = old[0] + link["bytes_per_second"] * seconds, old[1] + link["messages_per_second"] * seconds
    return steps, {k: (round(b), round(m)) for k, (b, m) in links.items() if round(m)}


def counters(cluster):
    """The same of the tasks' own numbers, since they began."""
    steps, links = {}, {}
    for job, tasks in cluster.jobs.items():
        for i, address in enumerate(tasks):
            for name, labels, value in samples(over_grpc(address)):
                if name == "weft_graph_runs_total" and labels["result"] == "ok":
                    steps[f"/job:{job}/replica:0/task:{i}"] = value
                if name in ("weft_link_bytes_total", "weft_link_messages_total"):
                    key = labels["from"], labels["to"], labels["class"]
                    at = name == "weft_link_messages_total"
                    links[key] = tuple(int(value) if k == at else x for k, x in enumerate(links.get(key, (0, 0))))
    return steps, links


def grown(before, now):
    steps = {k: now[0][k] - before[0].get(k, 0) for k in now[0]}
    links = {k: tuple(x - y for x, y in zip(v, before[1].get(k, (0, 0)))) for k, v in now[1].items()}
    return steps, {k: v for k, v in links.items() if v[1]}


@contextlib.contextmanager
def running(*calls):
    """Each call again and again, on a thread of its own; the first failure is raised at the end."""
    over, failures = threading.Event(), []

    def repeat(call):
        try:
            while not over.is_set():
                call()
        except Exception as e:  # told on the test's thread
            failures.append(e)

    threads = [threading.Thread(target=repeat, args=(c,)) for c in calls]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        over.set()
        for t in threads:
            t.join()
    if failures:
        raise failures[0]


# ---- figures ----


def test_steps_and_bytes_are_those_that_a_client_made(maker, own_cluster, graph):
    """A variable of 64 KiB on ps is read by each of the workers: 40 and 25 times."""
    with tf.device(PS):
        v = v1.get_variable("v", [128, 128], use_resource=True, initializer=v1.ones_initializer())
    sums_of = []
    for worker in (W0, W1):
        with tf.device(worker):
            sums_of.append(tf.reduce_sum(v + 1))
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # a constant's memory is not the variable's
    with v1.Session(own_cluster.master, graph=graph, config=config) as sess:
        sess.run(v.initializer)
        runs = [sess.make_callable(s) for s in sums_of]
        before = counters(own_cluster)
        with Watch(maker.weft_binary, own_cluster.spec) as watch:
            watch.next()
            begin = len(watch.seen)
            for n, call in zip((40, 25), runs):
                for _ in range(n):
                    assert call() == 2 * 128 * 128
            watch.until(lambda tasks: sums(watch.seen[begin:])[0][NAMES["ps"]] >= 65)
            watch.next()
            seen = sums(watch.seen[begin:])
            now = grown(before, counters(own_cluster))
            assert seen == now, (seen, now)
            assert seen[0][NAMES["ps"]] == 65 and seen[0][NAMES["w1"]] == 25
            for worker, n in (("w0", 40), ("w1", 25)):
                moved, messages = seen[1][NAMES["ps"], NAMES[worker], "tensor"]
                assert messages == n and moved == n * 128 * 128 * 4
            last = tasks_of(watch.seen[-1])
            assert last[NAMES["ps"]]["memory"]["param"]["bytes"] == 128 * 128 * 4
            assert last[NAMES["w0"]]["client_sessions"] == 1 and last[NAMES["w1"]]["client_sessions"] == 0
            assert all(t["sessions"] == 1 and t["state"] == "up" and t["resident_bytes"] > 1 << 20 for t in last.values())
            assert watch.end()[1] == b""


STRATEGIES = ["multi_worker_mirrored", "parameter_server:mode=sync", "parameter_server:mode=async", "parameter_server:mode=ssp,staleness=1"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_figures_of_a_job_are_those_of_the_counters(maker, own_cluster, tmp_path, strategy):
    """All that the tasks counted while a job ran, in pieces of 0.3 s: nothing is lost, nothing is counted twice."""
    with tf.Graph().as_default() as g:
        x, y = v1.placeholder(tf.float32, [None, 64], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        hidden = tf.tanh(x @ v1.get_variable("a", [64, 256]))
        loss = tf.reduce_mean(tf.square(hidden @ v1.get_variable("b", [256, 1]) - y), name="loss")
        v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss, name="train")
        v1.global_variables_initializer()
    (tmp_path / "graph.pb").write_bytes(g.as_graph_def().SerializeToString())
    np.save(tmp_path / "x.npy", np.random.rand(400, 64).astype("f"))
    np.save(tmp_path / "y.npy", np.random.rand(400, 1).astype("f"))
    before = counters(own_cluster)
    with Watch(maker.weft_binary, own_cluster.spec) as watch:
        watch.next()
        begin = len(watch.seen)
        command = [maker.weft_binary, "submit", "graph.pb", "--master", own_cluster.master, "--strategy", strategy, "--init", "init", "--target", "train",
                   "--fetch", "loss", "--feed", "x=x.npy", "--feed", "y=y.npy", "--batch", "40", "--steps", "120", "--json"]  # fmt: skip
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        now = grown(before, counters(own_cluster))
        watch.until(lambda tasks: sums(watch.seen[begin:])[0] == now[0])
        assert sums(watch.seen[begin:]) == now
    assert now[0][NAMES["w0"]] >= 120 and any(k[2] == ("collective" if "mirrored" in strategy else "tensor") and v[0] > 0 for k, v in now[1].items())


def test_memory_waits_and_progress_of_a_step_that_waits(maker, own_cluster, graph):
    with tf.device(W1):
        taken = v1.FIFOQueue(1, tf.float32, shared_name="q")
        element, put = taken.dequeue(), taken.enqueue(1.0)
    with v1.Session(own_cluster.master, graph=graph) as sess, Watch(maker.weft_binary, own_cluster.spec) as watch:
        waiting = threading.Thread(target=sess.make_callable(element))
        waiting.start()
        view = watch.until(lambda tasks: tasks[NAMES["w1"]].get("steps_in_progress") == 1)
        assert tasks_of(view)[NAMES["ps"]]["steps_in_progress"] == 0
        sess.run(put)
        waiting.join()
        watch.until(lambda tasks: tasks[NAMES["w1"]]["steps_in_progress"] == 0)


def test_the_slowest_nodes_are_told(maker, own_cluster, graph):
    with tf.device(W1):
        big = tf.random.normal([500, 500])
        slow = tf.matmul(tf.matmul(big, big, name="first_of_two"), big, name="second_of_two")
        out = tf.reduce_sum(slow)
    with v1.Session(own_cluster.master, graph=graph) as sess, running(sess.make_callable(out.op)):
        for _ in range(3):  # a machine that is busy may hold another node up
            done = subprocess.run(
                [maker.weft_binary, "top", "--cluster", own_cluster.spec, "--once", "--json", "--nodes"], capture_output=True, text=True, timeout=60, check=True
            )
            told = json.loads(done.stdout)["slowest_nodes"]
            slowest = [n["name"] for n in told["nodes"][:3]]
            if {"first_of_two", "second_of_two"} <= set(slowest):
                break
        assert {"first_of_two", "second_of_two"} <= set(slowest), told
        node = next(n for n in told["nodes"] if n["name"] == "first_of_two")
        assert node["op"] == "MatMul" and node["device"] == NAMES["w1"] + "/device:CPU:0" and node["runs"] == 1
        assert 0 < node["seconds"] <= told["step_seconds"] and node["share"] == pytest.approx(node["seconds"] / told["step_seconds"])


def recordings(cluster):
    """How many recordings of steps are open on each task."""
    return [v for tasks in cluster.jobs.values() for a in tasks for n, _, v in samples(over_grpc(a)) if n == "weft_step_recordings"]


def test_nothing_is_recorded_while_nodes_are_not_shown(maker, own_cluster, graph):
    with tf.device(W1):
        m = tf.random.normal([100, 100])
        out = tf.reduce_sum(tf.matmul(m, m))
    with v1.Session(own_cluster.master, graph=graph) as sess, running(sess.make_callable(out.op)), top(maker, own_cluster.spec) as t:
        t.until("3 tasks: 3 up")
        assert recordings(own_cluster) == [0, 0, 0]
        t.type("n")
        t.until("Slowest nodes of step ")
        t.type("n")
        t.until(lambda text: "Slowest nodes" not in text)
        deadline = time.monotonic() + DEADLINE_S
        while any(recordings(own_cluster)):
            assert time.monotonic() < deadline
        for _ in range(3):  # it looks again, and records nothing
            first = t.text().splitlines()[0]
            t.until(lambda text, first=first: text.splitlines()[0] != first)
        assert recordings(own_cluster) == [0, 0, 0]
        t.type("n")
        t.until("Slowest nodes of step ")
        t.type("q")
        assert t.end() == 0
    while any(recordings(own_cluster)):
        assert time.monotonic() < deadline + DEADLINE_S


def test_without_steps_there_are_no_nodes(maker, own_cluster):
    done = subprocess.run([maker.weft_binary, "top", "--cluster", own_cluster.spec, "--once", "--nodes"], capture_output=True, text=True, timeout=60, check=True)
    assert "Slowest nodes: no step ran" in done.stdout


def test_a_straggler_is_marked(maker, own_cluster):
    """Two clients, each with a worker of its own; the steps of one take longer."""
    sizes = {W0: 10, W1: 600}
    with contextlib.ExitStack() as stack:
        calls = []
        for i, (worker, size) in enumerate(sizes.items()):
            g = tf.Graph()
            with g.as_default(), tf.device(worker):
                m = tf.random.normal([size, size])
                out = tf.reduce_sum(tf.matmul(m, m))
            sess = stack.enter_context(v1.Session(own_cluster.target("worker", i), graph=g))
            calls.append(sess.make_callable(out.op))
        stack.enter_context(running(*calls))
        watch = stack.enter_context(Watch(maker.weft_binary, own_cluster.spec, "--straggler", "3"))
        view = watch.until(lambda tasks: tasks[NAMES["w1"]].get("straggler") is not None)
        task = tasks_of(view)[NAMES["w1"]]
        other = tasks_of(view)[NAMES["w0"]]
        assert task["straggler"]["of"] == "time" and other["straggler"] is None
        assert task["straggler"]["by"] == pytest.approx(task["step_seconds"]["mean"] / other["step_seconds"]["mean"])
        text = subprocess.run([maker.weft_binary, "top", "--cluster", own_cluster.spec, "--once", "--straggler", "3"], capture_output=True, text=True, timeout=60, check=True).stdout
        assert re.search(r"^worker:1 .* slow: [\d.]+ times the median time", text, re.M), text


# ---- tasks that are not there ----


def state(name, wanted):
    return lambda tasks: tasks[NAMES[name]]["state"] == wanted


@pytest.mark.parametrize("victim", ["ps", "w0", "w1"])
def test_a_task_that_dies_and_comes_back(maker, own_cluster, victim):
    place = ("ps", 0) if victim == "ps" else ("worker", int(victim[1]))
    with Watch(maker.weft_binary, own_cluster.spec) as watch:
        view = watch.until(lambda tasks: all(t["state"] == "up" for t in tasks.values()))
        since = tasks_of(view)[NAMES[victim]]["since"]
        began = time.monotonic()
        own_cluster.kill(*place)
        view = watch.until(state(victim, "lost"))
        assert is_in_time(time.monotonic() - began, 3)
        assert all(t["state"] == "up" and t["steps_per_second"] == 0 for name, t in tasks_of(view).items() if name != NAMES[victim])
        assert tasks_of(view)[NAMES[victim]]["why"] == "it takes no connections"
        own_cluster.restart(*place)
        began = time.monotonic()
        view = watch.until(state(victim, "up"))
        assert is_in_time(time.monotonic() - began, 3)
        assert tasks_of(view)[NAMES[victim]]["since"] > since
        watch.until(lambda tasks: tasks[NAMES[victim]]["steps_per_second"] == 0)  # of the new process


def test_a_task_that_hangs_and_goes_on(maker, own_cluster):
    with Watch(maker.weft_binary, own_cluster.spec) as watch:
        watch.until(lambda tasks: all(t["state"] == "up" for t in tasks.values()))
        with own_cluster.frozen("worker", 1):
            began = time.monotonic()
            view = watch.until(state("w1", "silent"))
            assert is_in_time(time.monotonic() - began, 3)
            assert all(t["state"] == "up" for name, t in tasks_of(view).items() if name != NAMES["w1"])
            times = [watch.next()["time"] for _ in range(3)]
            assert tasks_of(watch.seen[-1])[NAMES["w1"]]["state"] == "silent" and times[2] - times[0] < 10
        watch.until(state("w1", "up"))


def silent_listener():
    """Takes connections, and never says a word."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(20)
    return s


def test_tasks_that_were_never_there(maker, own_cluster):
    """A closed port, one that says nothing, a host without a name; the others are shown."""
    with silent_listener() as s, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        silent = s.getsockname()[1]
        spec = f"{own_cluster.spec};chief=127.0.0.1:{closed.getsockname()[1]},127.0.0.1:{silent},no.such.host.invalid:1"
        began = time.monotonic()
        with Watch(maker.weft_binary, spec) as watch:
            wanted = {f"/job:chief/replica:0/task:{i}": "unreachable" for i in range(3)} | {n: "up" for n in NAMES.values()}
            view = watch.until(lambda tasks: {n: t["state"] for n, t in tasks.items()} == wanted)
            assert is_in_time(time.monotonic() - began, 4)
            assert all(t["why"] for n, t in tasks_of(view).items() if "chief" in n)


def field(number, data):
    """A protobuf field of bytes."""
    size, length = len(data), b""
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


ANSWERS = {
    "nothing": (b"", "these are not the numbers of a Weft task"),
    "no message": (b"\xff\xff\xff", None),
    "no text": (field(1, b"\x00\xff garbage"), "line 1 of the metrics is no sample"),
    "another exporter": (field(1, b"go_goroutines 5\n"), "these are not the numbers of a Weft task"),
    "half a line": (field(1, b"a 1\nb{c=\"d"), "line 2 of the metrics is no sample"),
    "too much": (field(1, b"a 1\n" * (5 << 20)), None),
    "not known": (None, "it is no Weft server, or an older one"),
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_peer_that_answers_otherwise(maker, own_cluster, name):
    """A gRPC server that is not Weft's, or lies."""
    answer, why = ANSWERS[name]

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            known = details.method == "/weft.WorkerService/Metrics" and answer is not None
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer) if known else None

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[Handler()], options=[("grpc.max_send_message_length", -1)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Watch(maker.weft_binary, f"{own_cluster.spec};chief=127.0.0.1:{port}") as watch:
            view = watch.until(lambda tasks: tasks["/job:chief/replica:0/task:0"]["state"] == "unreachable")
            told = tasks_of(view)["/job:chief/replica:0/task:0"]["why"]
            assert told and (why is None or why in told) and "\n" not in told, told
            watch.until(lambda tasks: all(tasks[n]["state"] == "up" for n in NAMES.values()))
    finally:
        server.stop(None).wait()


def test_no_task_is_there(maker):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        spec = f"worker=127.0.0.1:{closed.getsockname()[1]}"
        done = subprocess.run([maker.weft_binary, "top", "--cluster", spec, "--once"], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("weft: no task of the cluster answers; the first, worker:0 at ") and len(done.stderr.splitlines()) == 1
        with Watch(maker.weft_binary, spec) as watch:  # waits for it
            assert watch.next()["tasks"][0]["state"] == "unreachable"
            watch.end(signal.SIGTERM)


MISTAKES = [
    ([], 2, "which cluster? give --cluster"),
    (["--cluster", "worker", "--once"], 2, "--cluster worker: 'worker' is not job=host:port"),
    (["--cluster", "worker=nohost", "--once"], 2, "--cluster worker=nohost: 'nohost' (job 'worker', task 0) is not host:port"),
    (["--cluster", "worker=h:1", "--every", "0"], 2, "--every 0: give seconds, 0.1 to 3600"),
    (["--cluster", "worker=h:1", "--every", "1m"], 2, "--every 1m: give seconds"),
    (["--cluster", "worker=h:1", "--sort", "name"], 2, "--sort name: give task, steps, time, cpu or memory"),
    (["--cluster", "worker=h:1", "--straggler", "0.5"], 2, "--straggler 0.5: give a factor, 1 or more"),
    (["--cluster", "worker=h:1"], 2, "standard output is no terminal: give --once or --json"),
    (["--clutser", "worker=h:1"], 2, "did you mean '--cluster'"),
]


@pytest.mark.parametrize("args,code,said", MISTAKES, ids=[" ".join(m[0]) or "none" for m in MISTAKES])
def test_mistakes_are_told_in_a_line(maker, args, code, said):
    done = subprocess.run([maker.weft_binary, "top", *args], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and said in done.stderr and len(done.stderr.splitlines()) == 1, done


# ---- the terminal ----

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


def top(maker, spec, columns=150, rows=30, *options, **environment):
    return Terminal([maker.weft_binary, "top", "--cluster", spec, *options], columns, rows, **environment)


def is_given_back(t, before):
    assert t.raw.count(ENTER) == t.raw.count(LEAVE) and t.raw.rfind(LEAVE) > t.raw.rfind(ENTER)
    now = termios.tcgetattr(t.fd)
    assert now[:4] == before[:4], "the terminal's settings"
    assert t.raw.rfind(b"\x1b[?25h") < 0 or t.raw.rfind(b"\x1b[?25l") < t.raw.rfind(b"\x1b[?25h")  # the cursor is shown


WAYS_OUT = {
    "q": (lambda t: t.type("q"), 0),
    "Ctrl-C": (lambda t: t.type("\x03"), 128 + signal.SIGINT),
    "SIGTERM": (lambda t: t.signal(signal.SIGTERM), 128 + signal.SIGTERM),
    "SIGHUP": (lambda t: t.signal(signal.SIGHUP), 128 + signal.SIGHUP),
    "Ctrl-\\": (lambda t: t.type("\x1c"), 128 + signal.SIGQUIT),
}


@pytest.mark.parametrize("way", sorted(WAYS_OUT))
def test_every_way_out_gives_the_terminal_back(maker, cluster, way):
    leave, code = WAYS_OUT[way]
    with top(maker, cluster.spec) as t:
        before = termios.tcgetattr(t.fd)
        text = t.until("3 tasks: 3 up")
        assert re.search(r"^TASK +STATE +SINCE +STEPS/S", text, re.M) and "q quit" in text.splitlines()[-1]
        leave(t)
        assert t.end() == code
        is_given_back(t, before)


def test_it_is_stopped_and_goes_on(maker, cluster):
    """By a shell with job control: a process without one cannot be stopped by its terminal."""
    with Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], 150, 30, PS1="> ") as t:
        t.until(">")
        t.type(f"{maker.weft_binary} top --cluster '{cluster.spec}'\n")
        t.until("3 tasks: 3 up")
        for n in range(1, 3):
            mark = len(t.raw)
            t.type("\x1a")
            while b"Stopped" not in t.raw[mark:]:
                assert t.read(30)
            assert t.raw.count(LEAVE) == t.raw.count(ENTER) == n
            t.type(f"echo back $((40 + {n}))\n")
            while f"back 4{n}".encode() not in t.raw[mark:]:
                assert t.read(30)
            mark = len(t.raw)
            t.type("fg\n")
            while b"3 up" not in t.raw[mark:]:
                assert t.read(30)
        mark = len(t.raw)
        t.type("q")
        while LEAVE not in t.raw[mark:]:
            assert t.read(30)
        t.type("exit 7\n")
        assert t.end() == 7


def test_it_goes_on_after_a_stop_that_it_does_not_see(maker, cluster):
    with top(maker, cluster.spec) as t:
        t.until("3 tasks: 3 up")
        t.signal(signal.SIGSTOP)
        os.waitpid(t.pid, os.WUNTRACED)
        mark = len(t.raw)
        t.signal(signal.SIGCONT)
        while b"TASK" not in t.raw[mark:]:  # all of it is drawn anew
            assert t.read(30)
        t.type("q")
        assert t.end() == 0


def test_a_terminal_that_is_not_known(maker, cluster):
    with top(maker, cluster.spec, TERM="no-such-terminal") as t:
        assert t.end() == 1
        assert "the terminal 'no-such-terminal' is not known here" in t.text().replace("\n", " ")


def test_keys(maker, cluster):
    with top(maker, cluster.spec) as t:
        t.until(lambda text: "MEMORY" in text and "FROM" in text and "sort: task" in text)
        for order in ("steps", "time", "cpu", "memory", "task"):
            t.type("s")
            t.until(f"sort: {order}")
        t.type("b")
        t.until(lambda text: "FROM" not in text)
        t.type("m")
        t.until(lambda text: not re.search(r"^MEMORY", text, re.M))
        t.type("mb")
        t.until(lambda text: "FROM" in text and re.search(r"^MEMORY", text, re.M))
        t.type("n")
        t.until("Slowest nodes")
        t.type("?")
        t.until("page up, page down")
        t.type("?")
        t.until("Slowest nodes")
        t.type("p")
        t.until("PAUSED")
        text = t.text().splitlines()[0]
        for _ in range(3):  # it is drawn again when the view would have changed
            t.type("?")
            t.until("page up, page down")
            t.type("?")
            t.until("Slowest nodes")
        assert t.text().splitlines()[0] == text
        t.type("p")
        t.until(lambda now: "PAUSED" not in now and now.splitlines()[0] != text)
        t.type("q")
        assert t.end() == 0


def test_a_resize_and_scrolling(maker, cluster):
    with top(maker, cluster.spec, 150, 30) as t:
        t.until("3 tasks: 3 up")
        t.resize(60, 8)
        t.until(lambda text: len(text.splitlines()) == 8 and "q quit" in text.splitlines()[7] and "3 tasks" in text.splitlines()[0])
        assert not re.search(r"^FROM", t.text(), re.M)
        t.type("\x1b[6~" * 3)  # page down
        t.until(lambda text: re.search(r"^FROM", text, re.M) and "3 tasks" in text.splitlines()[0])
        t.type("\x1b[5~" * 5)
        t.until(lambda text: "TASK" in text)
        t.resize(20, 3)
        t.until(lambda text: len(text.splitlines()) == 3 and "q quit" in text.splitlines()[2])
        t.resize(150, 40)
        t.until(lambda text: re.search(r"^TASK.*NOTE$", text, re.M) and re.search(r"^FROM", text, re.M))
        t.type("q")
        assert t.end() == 0


def test_lost_and_silent_tasks_on_the_terminal(maker, own_cluster):
    with top(maker, own_cluster.spec) as t:
        t.until("3 tasks: 3 up")
        own_cluster.kill("ps", 0)
        t.until(lambda text: re.search(r"^ps:0 +lost .*it takes no connections", text, re.M))
        with own_cluster.frozen("worker", 1):
            t.until("3 tasks: 1 up, 1 silent, 1 lost")
            t.type("s")
            t.until("sort: steps")  # keys are answered meanwhile
        t.until("3 tasks: 2 up, 1 lost")
        own_cluster.restart("ps", 0)
        t.until("3 tasks: 3 up")
        t.type("q")
        assert t.end() == 0
