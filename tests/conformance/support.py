"""What most tests need: sessions that end, numbers that may differ a little, errors of one class."""

import contextlib
import itertools
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1
HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_MS = 90000  # no call of a test may take longer, on a busy machine either: a hang becomes DEADLINE_EXCEEDED

PS = "/job:ps/task:0"
W0 = "/job:worker/task:0"
W1 = "/job:worker/task:1"

FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
INTEGERS = [tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64]
COMPLEX = [tf.complex64, tf.complex128]
NUMBERS = FLOATS + INTEGERS + COMPLEX
ALL_DTYPES = NUMBERS + [tf.bool, tf.string]

# Relative tolerance by dtype: some units in the last place, for another order of summation.
RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12, "complex64": 2e-5, "complex128": 1e-12}
ATOL = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-13, "complex64": 2e-6, "complex128": 1e-13}


def config(timeout_ms=DEADLINE_MS, **fields):
    return v1.ConfigProto(operation_timeout_in_ms=timeout_ms, **fields)


def session(target, graph=None, timeout_ms=DEADLINE_MS, **fields):
    """A session that cannot hang: every call of it has a deadline."""
    return v1.Session(target, graph=graph, config=config(timeout_ms, **fields))


def local_session(graph=None):
    """The oracle: stock TensorFlow in this process."""
    return v1.Session(graph=graph)


def sample(dtype, shape, seed=0):
    """Some values of a dtype: small, distinct, with both signs where the dtype has them."""
    dtype = tf.as_dtype(dtype)
    rng = np.random.RandomState(seed + 1)
    if dtype == tf.string:
        words = [f"s{i}\0é".encode() * (i % 3) for i in range(int(np.prod(shape, dtype=np.int64)))]
        return np.array(words, dtype=object).reshape(shape)
    if dtype == tf.bool:
        return rng.rand(*shape) < 0.5
    if dtype.is_complex:
        return np.asarray(rng.randn(*shape) + 1j * rng.randn(*shape)).astype(dtype.as_numpy_dtype)
    if dtype.is_integer:
        low = 0 if dtype.is_unsigned else -50
        return np.asarray(rng.randint(low, 100, shape)).astype(dtype.as_numpy_dtype)
    return np.asarray(rng.randn(*shape)).astype(dtype.as_numpy_dtype)


def as_array(value):
    """A numpy array; strings are objects in it, so that trailing zero bytes count."""
    if isinstance(value, bytes):
        return np.array(value, object)
    value = np.asarray(value)
    return value.astype(object) if value.dtype.kind == "S" else value


def assert_same(got, want, rtol=None, atol=None, exact=False, what=""):
    """Equal dtype and shape; equal values, within the dtype's tolerance for floating point."""
    got, want = as_array(got), as_array(want)
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype} instead of {want.dtype}"
    assert got.shape == want.shape, f"{what}: shape {got.shape} instead of {want.shape}"
    name = want.dtype.name
    if name not in RTOL:
        np.testing.assert_array_equal(got, want, err_msg=what)
    elif exact:
        np.testing.assert_array_equal(
            got.view(np.uint8) if got.ndim else got.tobytes(),
            want.view(np.uint8) if want.ndim else want.tobytes(),
            err_msg=what,
        )
    else:
        wide = np.complex128 if name.startswith("complex") else np.float64
        np.testing.assert_allclose(
            got.astype(wide),
            want.astype(wide),
            rtol=RTOL[name] if rtol is None else rtol,
            atol=ATOL[name] if atol is None else atol,
            err_msg=what,
        )


def assert_all_same(got, want, **tolerance):
    """assert_same() over two equal structures of arrays."""
    tf.nest.assert_same_structure(got, want)
    for i, (g, w) in enumerate(zip(tf.nest.flatten(got), tf.nest.flatten(want))):
        assert_same(g, w, what=f"result {i}", **tolerance)


@contextlib.contextmanager
def fails(error, contains="", op=None):
    """The body must raise exactly `error`, with a text that holds `contains`, blaming the node `op`."""
    with pytest.raises(tf.errors.OpError) as caught:
        yield caught
    e = caught.value
    assert type(e) is error, f"{type(e).__name__} instead of {error.__name__}: {e.message}"
    assert contains.lower() in e.message.lower(), f"no {contains!r} in {e.message!r}"
    if op is not None:
        assert e.op is not None, f"no node can be found in {e.message!r}"
        assert e.op.name == op, f"blames {e.op.name}, not {op}: {e.message!r}"


def is_in_time(seconds, limit_s):
    """True if what took `seconds` was not slower than `limit_s`, which is said of an idle machine.

    A slow or busy one may take three times as long, or as many times as it now takes longer to start programs.
    """
    if seconds <= limit_s:
        return True
    idle_s, programs = 0.002, 50
    began = time.monotonic()
    for _ in range(programs):
        subprocess.run(["/bin/true"], check=True)
    pace = (time.monotonic() - began) / programs / idle_s
    print(f"{seconds:.2f} s instead of {limit_s} s; the machine is {pace:.1f} times slower than an idle one")
    return seconds <= limit_s * max(3, pace)


_counter = itertools.count()


def on_both(cluster, build, devices=True):
    """Runs one program on the cluster and on local TensorFlow; returns both results.

    build(place) makes the graph and returns a function of a session that returns results. place(device)
    is tf.device() on the cluster, and nothing locally.
    """
    results = []
    for local in (False, True):
        g = tf.Graph()
        place = (lambda _: contextlib.nullcontext()) if local or not devices else tf.device
        with g.as_default(), g.container(f"both.{os.getpid()}.{next(_counter)}"):
            steps = build(place)
            with local_session(g) if local else session(cluster.master, g) as sess:
                results.append(steps(sess))
    return results


def spawn_client(script, *args, **options):
    """Starts a client of its own process; collect it with finish_client(). `options`: those of Popen."""
    env = dict(os.environ, PYTHONPATH=HERE)
    return subprocess.Popen(
        [sys.executable, os.path.join(HERE, "clients", script), *map(str, args)],
        text=True,
        env=env,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def finish_client(process, timeout_s=150):
    """Waits for a client; returns what it printed. A client that fails or hangs fails the test."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"a client hung; it said {out!r} and {err[-3000:]!r}")
    assert process.returncode == 0, f"a client ended with {process.returncode}: {err[-4000:]}"
    return out


def wait_for_chief(task, directory):
    """Waits for the chief's first checkpoint. A worker that comes too early would sleep for half a minute."""
    deadline = time.monotonic() + 90
    while task != 0 and tf.train.latest_checkpoint(directory) is None and time.monotonic() < deadline:
        time.sleep(0.05)
