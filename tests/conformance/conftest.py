"""Options and fixtures of the conformance suite.

The suite states what TensorFlow's servers do towards an unmodified TensorFlow client. `--maker=tensorflow`
runs it against those servers and so proves the statements; `--maker=weft`, the default, runs it against Weft.
"""

import gc
import hashlib
import math
import os
import re
import signal
import subprocess

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # the oracle shall compute as written, not with a fused library
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# A shell without job control lets what it starts in the background ignore SIGINT, and so would what the tests start: a
# signal that comes before a program has its own handler would be lost. What has a handler here is SIG_DFL there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402

from cluster import Cluster, Maker  # noqa: E402

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIVE = []  # every running cluster of this process, for the logs of a failed test


def pytest_addoption(parser):
    parser.addoption("--maker", choices=["weft", "tensorflow"], default="weft", help="whose servers to run")
    parser.addoption(
        "--weft",
        default=os.environ.get("WEFT_BIN", os.path.join(REPO, "bazel-bin", "tools", "weft")),
        help="the weft command (default: $WEFT_BIN or bazel-bin/tools/weft)",
    )
    parser.addoption(
        "--sample",
        default=os.environ.get("WEFT_SAMPLE"),
        metavar="FRACTION:SEED",
        help="run only this fraction of each test function's cases, chosen by the seed (default: $WEFT_SAMPLE or all)",
    )
    parser.addoption("--progress", default=None, help="file that gets one line per test begun and ended")
    parser.addoption("--done", default=None, help="file with the names of tests not to run again")
    parser.addoption("--graphs", default="sample", help="of test_differential: sample, all, or WORD+WORD of their names")
    parser.addoption("--graph-seed", type=int, default=1, help="which sample")
    parser.addoption("--kills", type=int, default=12, help="of test_saving_kills: how often each kind of saving is killed")
    parser.addoption("--cases", type=int, default=20, help="of test_properties: how many cases of each op")
    parser.addoption("--case", type=int, default=None, help="of test_properties: only this one")
    parser.addoption("--applications", default="small", help="of test_keras: small, or all of them")
    parser.addoption("--record", default=os.environ.get("WEFT_RECORD"), help="of test_properties: a file that gets, for each op, how many cases agree")
    parser.addoption("--last-rows", type=int, default=1, help="of test_differential: rows of the last batch, where they are few")


def pytest_configure(config):
    config.addinivalue_line("markers", "weft_only: states something that stock servers do not do")
    config.addinivalue_line("markers", "slow: a case takes seconds, so a sample runs fewer of them")


FEW, FEW_SLOW = 8, 3  # so many cases of a function a sample runs at least


def sampled(items, fraction, seed):
    """The part of `items` that the seed chooses: of each test function that fraction of its cases, and at least a few.

    Of functions that are marked as slow it is half of that: a case of them takes seconds.
    """
    functions = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for cases in functions.values():
        cases.sort(key=lambda item: hashlib.sha256(f"{seed} {item.nodeid}".encode()).digest())
        slow = cases[0].get_closest_marker("slow") is not None
        part, least = (fraction / 2, FEW_SLOW) if slow and fraction < 1 else (fraction, FEW)
        kept.update(item.nodeid for item in cases[: max(least, math.ceil(len(cases) * part))])
    return [item for item in items if item.nodeid in kept]


def pytest_collection_modifyitems(config, items):
    sample = config.getoption("--sample")
    if sample:
        fraction, _, seed = sample.partition(":")
        items[:] = sampled(items, float(fraction), seed)
    if config.getoption("--maker") == "tensorflow":
        skip = pytest.mark.skip(reason="TensorFlow's servers do not do this")
        for item in items:
            if item.get_closest_marker("weft_only"):
                item.add_marker(skip)
    done_path = config.getoption("--done")
    if done_path:
        with open(done_path, encoding="utf-8") as f:
            done = set(f.read().splitlines())
        items[:] = [item for item in items if item.nodeid not in done]


def _note(config, word, nodeid):
    path = config.getoption("--progress")
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"{word} {nodeid}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    _note(item.config, "begin", item.nodeid)
    for cluster in LIVE:
        cluster.mark_logs()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for cluster in LIVE:
            for name, text in cluster.logs():
                if text.strip():
                    report.sections.append((f"stderr of {name}", text))
        _note(item.config, "failed", item.nodeid)
    elif report.skipped:
        _note(item.config, "skipped", item.nodeid)
    elif report.when == "teardown":
        _note(item.config, "end", item.nodeid)


def weft_binary(config):
    return os.path.abspath(config.getoption("--weft"))


def pytest_sessionstart(session):
    """Ends before anything is collected, and before pytest-xdist starts its processes, where there is nothing to test."""
    binary = weft_binary(session.config)
    if session.config.getoption("--maker") == "weft" and not os.access(binary, os.X_OK):
        pytest.exit(f"no weft command at {binary}: build it, or name it with --weft", returncode=3)


@pytest.fixture(scope="session")
def maker(request):
    return Maker(request.config.getoption("--maker"), weft_binary(request.config))


@pytest.fixture(scope="session")
def _shared_cluster(maker, tmp_path_factory):
    cluster = Cluster(maker, str(tmp_path_factory.mktemp("servers"))).start()
    LIVE.append(cluster)
    yield cluster
    LIVE.remove(cluster)
    cluster.stop()


@pytest.fixture
def cluster(_shared_cluster):
    """The cluster that all tests share: 1 ps, 2 workers. A test under which a server dies has failed."""
    yield _shared_cluster
    dead = _shared_cluster.dead()
    for server in dead:
        server.start()  # so that one crash fails one test
    if dead:
        pytest.fail("these servers died during the test: " + ", ".join(s.name for s in dead))


@pytest.fixture
def own_cluster(maker, tmp_path):
    """A fresh cluster of 1 ps and 2 workers, for tests that kill servers or reset containers."""
    cluster = Cluster(maker, str(tmp_path)).start()
    LIVE.append(cluster)
    yield cluster
    for server in cluster.dead():
        server.start()
    gc.collect()  # a forgotten session closes itself when it is collected, and waits for its master when that is gone
    LIVE.remove(cluster)
    cluster.stop()


@pytest.fixture
def weft_command(request, tmp_path):
    """The weft command, run in the test's directory: gives its output. A failure fails the test."""
    program = weft_binary(request.config)

    def run(*args):
        done = subprocess.run([program, *args], capture_output=True, timeout=180, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run


@pytest.fixture
def unique(request):
    """A name that no other test uses, good for containers (no underscore there), shared names and node names."""
    return re.sub(r"[\W_]+", ".", request.node.name).strip(".") + f".{os.getpid()}"


@pytest.fixture
def graph(unique):
    """A graph of the test's own, entered, whose variables live in a container of the test's own."""
    g = tf.Graph()
    with g.as_default(), g.container(unique):
        yield g


@pytest.fixture(params=["ref", "resource"])
def use_resource(request):
    """Runs a test once with reference variables and once with resource variables."""
    return request.param == "resource"


@pytest.fixture(autouse=True)
def _control_flow_stays():
    """A test that chooses a version of control flow leaves the client as it was."""
    was_v2 = tf.compat.v1.control_flow_v2_enabled()
    yield
    (tf.compat.v1.enable_control_flow_v2 if was_v2 else tf.compat.v1.disable_control_flow_v2)()


@pytest.fixture(params=["v1", "v2"])
def control_flow(request):
    """Runs a test once with v1 control flow (Switch, Merge, Enter, …) and once with If and While."""
    (tf.compat.v1.enable_control_flow_v2 if request.param == "v2" else tf.compat.v1.disable_control_flow_v2)()
    return request.param
