"""The progress of a job on a real terminal, and its figures as JSON: jobs that run, beside what is known of them."""

import json
import os
import re
import signal
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from terminal import Terminal
from test_run import BATCH, Runs, eager, run, trained  # noqa: F401  (fixtures)

v1 = tf.compat.v1
pytestmark = pytest.mark.weft_only
BLOCKS = "▁▂▃▄▅▆▇█"


@pytest.fixture
def weft(request):
    return os.path.abspath(request.config.getoption("--weft"))


@pytest.fixture
def job(tmp_path):
    """A graph whose "loss" is the number that the file "value" has at the time, and "never" what never comes."""
    path = tmp_path / "value"

    def put(text):
        (tmp_path / "next").write_text(text)
        os.replace(tmp_path / "next", path)

    with tf.Graph().as_default() as g:
        tf.strings.to_number(tf.io.read_file(str(path)), name="loss")
        tf.identity(v1.FIFOQueue(1, tf.float32).dequeue(), name="never")
        x = v1.placeholder(tf.float32, [None], name="x")
        tf.reduce_sum(x, name="total")
    (tmp_path / "graph.pb").write_bytes(g.as_graph_def().SerializeToString())
    np.save(tmp_path / "x.npy", np.ones(40, "f"))
    put("1")
    return put


def drawn(terminal):
    """Every line that was drawn in place of the one before."""
    return [line.split("\r")[0] for line in terminal.raw.decode().split("\r\x1b[2K")[1:]]


@pytest.mark.parametrize("columns", [30, 80, 160])
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_the_loss_is_drawn_as_it_changes(weft, job, tmp_path, locale, columns):
    command = [weft, "submit", "graph.pb", "--fetch", "loss", "--steps", "1000000000"]
    with Terminal(command, columns, cwd=tmp_path, LC_ALL=locale) as t:
        for value in ("8", "4.5", "1", "nan", "inf"):
            job(value)
            t.until(f"loss {value}")
        if columns > 80:
            t.until("∞" if locale != "C" else "I")
            text = t.until("N")
            assert (re.search(f"[{BLOCKS}]", text) is not None) == (locale != "C"), text
            assert "steps/s" in text and "[..." in text and " left" in text
        t.signal(signal.SIGINT)
        assert t.end() == 130
        lines = drawn(t)
        assert len(lines) > 4 and all(len(line.rstrip("\n")) < columns for line in lines if "weft:" not in line)
        if locale == "C":
            assert t.raw.isascii()
        assert "interrupted after" in t.text()


def test_a_resize_is_followed_while_a_step_waits(weft, job, tmp_path):
    command = [weft, "submit", "graph.pb", "--fetch", "never", "--steps", "100"]
    with Terminal(command, 120, cwd=tmp_path) as t:
        t.until("[" + "." * 30 + "] 0/100  0.0 steps/s")
        t.resize(40)
        t.until(lambda text: re.search(r"^\[\.{18}\] 0/100  0.0 steps/s$", text, re.M))
        t.resize(10)
        t.until(lambda text: text.endswith("0/100"))
        t.resize(120)
        t.until("[" + "." * 30 + "] 0/100  0.0 steps/s")
        t.signal(signal.SIGTERM)
        assert t.end() == 128 + signal.SIGTERM


def test_the_last_save_ages_while_a_step_waits(weft, job, tmp_path, trained, run):
    """Steps are made, a state is saved, then a server is stopped: the line goes on."""
    command = [weft, "run", "model.pb", "--workers", "1", *trained[2], "--steps", "1000000000", "--save", "m", "--save-every", "50"]
    name, value = run.mark.split("=")
    with Terminal(command, 200, cwd=tmp_path, TMPDIR=str(tmp_path), **{name: value}) as t:
        t.until(lambda text: re.search(r"\d+ examples/s .* saved \d+, \d+ s ago", text))
        (server,) = run.servers()
        os.kill(server, signal.SIGSTOP)
        try:
            t.until(lambda text: re.search(r"saved \d+, [2-9] s ago", text))
        finally:
            os.kill(server, signal.SIGCONT)
        t.signal(signal.SIGINT)
        assert t.end() == 130


@pytest.mark.parametrize("strategy", ["mode=async", "mode=ssp,staleness=1000000"])
def test_a_worker_that_is_behind_is_named(run, trained, tmp_path, strategy):
    command = [run.program, "run", "model.pb", "--workers", "3", "--ps", "1", "--strategy", f"parameter_server:{strategy}", *trained[2]]
    name, value = run.mark.split("=")
    environment = {name: value, "TMPDIR": str(tmp_path)}
    with Terminal([*command, "--steps", "1000000"], 200, cwd=tmp_path, **environment) as t:
        t.until(lambda text: re.search(r"[1-9]\d*/1000000 .* steps/s", text))
        (second,) = [pid for pid, line in run.servers().items() if line[line.index("--job") + 1 : line.index("--job") + 4] == ["worker", "--task", "2"]]
        os.kill(second, signal.SIGSTOP)
        try:
            t.until(lambda text: re.search(r"worker 2 is ([2-9]\d|\d{3,}) behind", text))
        finally:
            os.kill(second, signal.SIGCONT)
        t.signal(signal.SIGINT)
        assert t.end() == 130
    run.check_gone()


STRATEGIES = {
    "none": ([], 1, 0),
    "mirrored": (["--workers", "1", "--cpus", "2", "--strategy", "mirrored:2"], 1, 0),
    "two workers": (["--workers", "2"], 1, 0),
    "async": (["--workers", "2", "--ps", "1", "--strategy", "parameter_server:mode=async"], 1, 2),
    "ssp": (["--workers", "2", "--ps", "1", "--strategy", "parameter_server:mode=ssp,staleness=1"], 1, 2),
    "backup": (["--workers", "3", "--ps", "1", "--strategy", "parameter_server:mode=sync,backup=1"], 2, 3),
}


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_figures_for_machines(run, trained, name):
    """`batches` of each step at least; `workers` that have a loop of their own."""
    args, batches, workers = STRATEGIES[name]
    out = run("model.pb", *args, *trained[2], "--steps", "40", "--json", "--save", "m", "--save-every", "10")
    lines = [json.loads(line) for line in out.splitlines()]
    steps = [line for line in lines if "fetches" in line]
    saved, last_save = 0, []
    for line in lines:
        saved = line["step"] if "saved" in line else saved
        if "fetches" in line and saved and not line["done"]:
            last_save.append((line["last_save"]["step"], saved))
            assert 0 <= line["last_save"]["seconds_ago"] < line["seconds"]
    assert len(steps) == 41 and len(last_save) > 20 and all(a == b for a, b in last_save), lines
    for line in steps:
        rows = line["examples_per_second"] / line["steps_per_second"] * line["step"]
        least = BATCH * batches * line["step"] - (line["step"] // 2 + 1) * BATCH  # an epoch's last batch may be small
        assert 0.9 * least <= rows <= 1.1 * BATCH * (line["step"] + 4) * max(batches, workers if name == "backup" else 1), line
        assert line["seconds_left"] == pytest.approx((40 - line["step"]) / line["steps_per_second"], rel=0.1, abs=0.1)
        assert ("workers" in line) == ("lag" in line) == (workers > 0), line
        if workers:
            counts = line["workers"]
            assert len(counts) == workers and line["lag"]["steps"] == max(counts.values()) - min(counts.values()), line
            assert counts[line["lag"]["worker"]] == min(counts.values())
            if batches == 1:
                assert sum(counts.values()) == line["step"]


def test_there_is_no_bar_where_there_is_no_terminal(weft, job, tmp_path):
    command = [weft, "submit", "graph.pb", "--fetch", "loss", "--steps", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "\r" not in done.stdout and done.stdout.startswith("step 1/3  loss 1  ")
    with Terminal(command, cwd=tmp_path, TERM="dumb") as t:
        assert t.end() == 0
        assert b"\x1b" not in t.raw and b"step 3/3  loss 1" in t.raw
