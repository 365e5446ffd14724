"""A server's numbers at --http, as Prometheus reads them, beside what clients did."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc
import keras
import numpy as np
import pytest
import tensorflow as tf

from cluster import hold_ports
from support import v1

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import weft_export  # noqa: E402

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})? (-?[0-9.]+|\+Inf)$')


class HttpServer:
    """One task with --http, from its start to its end."""

    def __init__(self, binary, *options):
        self.binary = binary
        held = hold_ports(1)
        port = held[0].getsockname()[1]
        command = [binary, "server", "--job", "worker", "--cluster", f"worker=127.0.0.1:{port}", "--http", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.target = re.search(r"grpc://\S+", self.process.stdout.readline()).group(0)
        self.url = re.search(r"(http://\S+)/metrics", self.process.stderr.readline()).group(1)
        held[0].close()

    def get(self, path):
        return urllib.request.urlopen(self.url + path, timeout=10)

    def text(self):
        return self.get("/metrics").read().decode()

    def value(self, name, **labels):
        """The sum of the samples of that name which have these labels."""
        found = [s for s in samples(self.text()) if s[0] == name and labels.items() <= s[1].items()]
        assert found, name
        return sum(v for _, _, v in found)


def samples(text):
    """(name, labels, value) of each; the text is checked on the way."""
    families, found = {}, []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert line.split()[2] not in families, f"a family twice: {line}"
            families[line.split()[2]] = None
        elif line.startswith("# TYPE "):
            families[line.split()[2]] = line.split()[3]
        else:
            name, labels, value = SAMPLE.match(line).groups()
            base = re.sub("_(bucket|sum|count)$", "", name)
            kind = families.get(name) or families.get(base)
            assert kind in ("counter", "gauge", "histogram"), line
            assert name.endswith("_total") == (kind == "counter"), line
            found.append((name, dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")), float(value)))
    assert len(found) == len({(n, tuple(sorted(lab.items()))) for n, lab, _ in found}), "a sample twice"
    return found


@pytest.fixture
def server(request):
    s = HttpServer(request.config.getoption("--weft"))
    yield s
    s.process.terminate()
    assert s.process.wait(10) == 0
    s.process.stdout.close()
    s.process.stderr.close()


def test_health_and_readiness(server):
    assert (server.get("/healthz").status, server.get("/healthz").read()) == (200, b"ok\n")
    assert (server.get("/readyz").status, server.get("/readyz").read()) == (200, b"ready\n")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        server.get("/other")


def test_steps_are_counted_by_their_end(server):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        good, bad = x * 2, v1.Assert(x > 0, [x])
        with v1.Session(server.target, graph=graph) as sess:
            for _ in range(7):
                sess.run(good, {x: 1.0})
            for _ in range(3):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    sess.run(bad, {x: -1.0})
            assert server.value("weft_graph_runs_total", result="ok") == 7
            assert server.value("weft_graph_runs_total", result="failed") == 3
            assert server.value("weft_graph_run_seconds_count") == 10
            assert server.value("weft_graph_run_seconds_bucket", le="+Inf") == 10
            assert server.value("weft_master_sessions") == 1
    assert server.value("weft_master_sessions") == 0
    assert server.value("weft_task_up", task="/job:worker/replica:0/task:0") == 1


@pytest.mark.parametrize("isolated", [False, True])
def test_waiting_for_input_is_counted(server, isolated):
    """Elements, the time that steps waited for them, and what is made ahead; a closed session loses nothing of it."""
    slow = tf.data.Dataset
    with tf.Graph().as_default() as graph:
        data = slow.range(100).map(lambda i: tf.reduce_sum(tf.random.normal([1 << 20])) * 0 + tf.cast(i, tf.float32))
        iterator = v1.data.make_initializable_iterator(data.batch(2))
        element = iterator.get_next()
        config = v1.ConfigProto(isolate_session_state=isolated)
        with v1.Session(server.target, graph=graph, config=config) as sess:
            sess.run(iterator.initializer)
            for _ in range(5):
                sess.run(element)
    assert server.value("weft_input_elements_total") == 5
    assert server.value("weft_input_wait_seconds_total") > 0.01  # ten times a million random numbers
    assert server.value("weft_input_ahead_bytes") == 0


def test_what_is_made_ahead_is_seen(server):
    with tf.Graph().as_default() as graph:
        data = tf.data.Dataset.range(100).map(lambda i: tf.fill([1000], i)).prefetch(4)
        iterator = v1.data.make_initializable_iterator(data)
        element = iterator.get_next()
        with v1.Session(server.target, graph=graph) as sess:
            sess.run(iterator.initializer)
            sess.run(element)
            # A buffer that was full before the step took its element is filled again when half of it is taken.
            while server.value("weft_input_ahead_bytes") < 3 * 8000:  # the test's time-out ends it
                pass
            assert server.value("weft_input_ahead_bytes") in (3 * 8000, 4 * 8000)


def test_memory_by_its_use(server):
    with tf.Graph().as_default() as graph:
        v = v1.get_variable("v", [1 << 18], use_resource=True)
        with v1.Session(server.target, graph=graph) as sess:
            sess.run(v.initializer)
            assert server.value("weft_memory_bytes", tag="param") == 4 << 18
            assert server.value("weft_memory_peak_bytes", tag="param") >= 4 << 18
    assert server.value("process_resident_memory_bytes") > 1 << 20


@pytest.mark.parametrize("kind", ["references", "handles", "Keras"])
def test_variables_whose_first_values_are_constants_are_counted(server, tmp_path, kind):
    """Weights of 64 KiB, and two slots of Adam: each counts from its first update, which makes the bytes its own."""
    first = np.ones([128, 128], np.float32)
    if kind == "Keras":
        with tf.__internal__.eager_context.eager_mode():
            m = keras.Sequential([keras.layers.Input((128,)), keras.layers.Dense(128, use_bias=False)])
            m.compile("adam", "mse")
            weft_export.export(m, tmp_path / "graph.pb")
        np.save(tmp_path / "y.npy", first)
        args = ["--feed", "y=y.npy"]
    else:
        with tf.Graph().as_default() as graph:
            w = v1.get_variable("w", initializer=first, use_resource=kind == "handles")
            x = v1.placeholder(tf.float32, [None, 128], name="x")
            v1.train.AdamOptimizer().minimize(tf.reduce_mean(tf.square(x @ w)), name="train")
            v1.global_variables_initializer()
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        args = ["--init", "init", "--target", "train"]
    np.save(tmp_path / "x.npy", first)
    command = [server.binary, "submit", "graph.pb", "--master", server.target, "--feed", "x=x.npy", *args, "--batch", "32", "--steps", "4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert server.value("weft_memory_bytes", tag="param") == 1 << 16
    assert server.value("weft_memory_bytes", tag="opt_state") == 2 << 16


def over_grpc(target):
    """The text of weft.WorkerService/Metrics: an empty request; field 1 of the answer, which has no others."""
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        answer = channel.unary_unary("/weft.WorkerService/Metrics")(b"", timeout=30)
    assert answer[0] == 1 << 3 | 2
    at, length, shift = 1, 0, 0
    while True:
        length |= (answer[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if answer[at - 1] < 0x80:
            break
    assert len(answer) == at + length
    return answer[at:].decode()


def test_the_same_text_comes_over_grpc(server):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        y = x + 1
        with v1.Session(server.target, graph=graph) as sess:
            for _ in range(5):
                sess.run(y, {x: 1.0})
            moving = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
            http, rpc = ([s for s in samples(text) if s[0] not in moving] for text in (server.text(), over_grpc(server.target)))
            assert http == rpc
            assert server.value("weft_graph_runs_total", result="ok") == 5
            assert 0 < time.time() - server.value("weft_task_start_time_seconds") < 600


@pytest.mark.parametrize("body", [b"\x00", b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x08\x01" * 1000])
def test_a_request_that_is_not_empty_does_not_harm(server, body):
    with grpc.insecure_channel(server.target.removeprefix("grpc://")) as channel:
        with contextlib.suppress(grpc.RpcError):
            channel.unary_unary("/weft.WorkerService/Metrics")(body, timeout=30)
    assert "weft_graph_runs_total" in over_grpc(server.target)


def test_metrics_come_while_steps_wait(server):
    """A step that waits is seen, and keeps no other request waiting."""
    ends = []

    def wait(call):
        try:
            call()
        except tf.errors.OpError as e:
            ends.append(type(e))

    with tf.Graph().as_default() as graph:
        q = v1.FIFOQueue(1, tf.float32)
        taken, closed = q.dequeue(), q.close()
        with v1.Session(server.target, graph=graph) as sess:
            waiting = threading.Thread(target=wait, args=(sess.make_callable(taken),))
            waiting.start()
            while server.value("weft_graph_runs_in_progress") != 1:
                pass
            sess.run(closed)
            waiting.join()
            assert ends == [tf.errors.OutOfRangeError]
            while server.value("weft_graph_runs_in_progress") != 0:  # a run is answered before it is taken down
                pass


BAD_REQUESTS = {
    "no HTTP": b"\x00\xff\x13\x37" * 100 + b"\r\n\r\n",
    "a method": b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "a body": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 5000,
    "large headers": b"GET /metrics HTTP/1.1\r\n" + b"A: " + b"x" * (1 << 20) + b"\r\n\r\n",
    "many headers": b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 100000 + b"\r\n",
    "a long path": b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
    "half": b"GET /metr",
    "nothing": b"",
}


@pytest.mark.parametrize("name", sorted(BAD_REQUESTS))
def test_bad_requests_do_not_harm(server, name):
    host, port = server.url[len("http://") :].split(":")
    for _ in range(5):
        with socket.create_connection((host, int(port)), timeout=10) as s:
            try:
                s.sendall(BAD_REQUESTS[name])
                s.shutdown(socket.SHUT_WR)
                while answer := s.recv(1 << 16):
                    assert answer  # some refusal, or an answer
            except OSError:
                pass  # refused before all of it was sent
    assert server.get("/healthz").status == 200


def test_an_open_connection_does_not_hold_the_server(server):
    host, port = server.url[len("http://") :].split(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHo")
        server.process.terminate()
        assert server.process.wait(5) == 0


def test_a_port_that_is_taken_is_named(request):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [request.config.getoption("--weft"), "server", "--job", "worker", "--cluster", "worker=127.0.0.1:0", "--http", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode != 0
    assert f"127.0.0.1:{port}" in ended.stderr


PIPELINES = {
    "plain": lambda d: d,
    "map": lambda d: d.map(lambda x: tf.reduce_sum(tf.random.normal([1 << 16])) + tf.cast(x, tf.float32)),
    "parallel map": lambda d: d.map(lambda x: tf.reduce_sum(tf.random.normal([1 << 16])), num_parallel_calls=4),
    "prefetch": lambda d: d.map(lambda x: tf.reduce_sum(tf.random.normal([1 << 16]))).prefetch(8),
    "interleave": lambda d: d.interleave(lambda x: tf.data.Dataset.range(x), cycle_length=3, num_parallel_calls=2),
    "shuffle": lambda d: d.shuffle(50).batch(3).prefetch(2),
}


@pytest.mark.parametrize("one_shot", [False, True])
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_nothing_runs_when_sessions_have_ended(server, name, isolated, one_shot):
    """Sessions are closed at once behind a step, whose thread may be the pipeline's: the server ends all the same."""
    config = v1.ConfigProto(isolate_session_state=isolated)
    for _ in range(8):
        with tf.Graph().as_default() as graph:
            data = PIPELINES[name](tf.data.Dataset.range(1000))
            iterator = (v1.data.make_one_shot_iterator if one_shot else v1.data.make_initializable_iterator)(data)
            element = iterator.get_next()
            with v1.Session(server.target, graph=graph, config=config) as sess:
                if not one_shot:
                    sess.run(iterator.initializer)
                sess.run(element)
    while server.value("weft_graph_runs_in_progress") != 0:
        pass  # the test's time-out ends it
    server.process.terminate()
    assert server.process.wait(5) == 0
