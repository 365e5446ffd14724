"""What a graph prints under strategies is what it prints on one device: true values, once.

tf.Print and tf.print of means, rows, counts and constants, in conditionals and in loops. Both go to one stream each, whose
lines are compared as a set: nothing orders prints of one step. Replicas exchange nothing inside a loop, so rows are printed
there by each replica that has them.
"""

import os
import subprocess

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1
pytestmark = pytest.mark.weft_only

STEPS, BATCH, ROWS = 4, 5, 11  # the last batch of an epoch has one row
STRATEGIES = ["mirrored:2", "mirrored:3", "data_parallel:2", "central_storage:2", "multi_worker_mirrored:2", "parameter_server:mode=sync,ps=2,workers=2"]
X = (np.arange(ROWS * 3).reshape(ROWS, 3) / 8).astype("f")


def printed_old(x, p, loss):
    return v1.Print(p, [loss, tf.shape(x)[0], p[:, 0], tf.reduce_max(p), tf.size(x)], "old ", summarize=99)


def printed_new(x, p, loss):
    with tf.control_dependencies([tf.print("new", loss, p[:, 0], tf.shape(x), "of", tf.reduce_sum(x, 0), summarize=-1)]):
        return tf.identity(p)


def printed_first(x, p, loss):
    return v1.Print(p, [loss], "first ", first_n=2)


def printed_words(x, p, loss):
    return v1.Print(p, [tf.strings.as_string(loss, 3), tf.constant("word")], "words ")


def printed_in_branch(x, p, loss):
    first = v1.cond(loss < 5, lambda: v1.Print(p, [loss, p[:, 0]], "less ", summarize=99), lambda: v1.Print(p, [loss], "more "))

    def said():
        with tf.control_dependencies([tf.print("branch", loss, p[:, 0], summarize=-1)]):
            return tf.identity(first)

    return v1.cond(loss < 5, said, lambda: first)


def printed_in_loop(x, p, loss):
    def body(i, h):
        with tf.control_dependencies([tf.print("round", i), v1.Print(i, [i, loss], "in loop ")]):
            return i + 1, h * 1.01

    return v1.while_loop(lambda i, h: i < 3, body, [0, p])[1]


def printed_gradient(x, p, loss):
    @tf.custom_gradient
    def watched(h):
        return h, lambda d: v1.Print(d, [tf.reduce_sum(tf.abs(d))], "gradient ")

    return watched(p)


@pytest.fixture
def weft(request):
    return os.path.abspath(request.config.getoption("--weft"))


MODELS = [printed_old, printed_new, printed_first, printed_words, printed_in_branch, printed_in_loop, printed_gradient]


def make(model, folder, v2):
    with tf.Graph().as_default() as g:
        (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
        x = v1.placeholder(tf.float32, [None, 3], "x")
        p = tf.matmul(x, v1.get_variable("w", initializer=np.full((3, 1), 0.25, "f")))
        loss = tf.reduce_mean(tf.square(p))
        q = model(x, p, loss)
        train = v1.train.GradientDescentOptimizer(1 / 1024).minimize(tf.reduce_mean(tf.square(q)))
        tf.group(train, tf.reduce_sum(q), name="train")
        tf.identity(loss, name="loss")
        tf.group(v1.global_variables_initializer(), name="init")
    (folder / "graph.pb").write_bytes(g.as_graph_def().SerializeToString())
    np.save(folder / "x.npy", X)


def printed(program, folder, strategy=None):
    """Lines of stderr, each as the words and the numbers in it."""
    args = [program, "submit", "graph.pb", "--batch", str(BATCH), "--steps", str(STEPS), "--init", "init", "--target", "train"]
    args += ["--feed", "x=x.npy", "--fetch", "loss", "--json"] + (["--strategy", strategy] if strategy else [])
    done = subprocess.run(args, capture_output=True, cwd=folder, timeout=90, check=False)
    assert done.returncode == 0, done.stderr.decode()
    words = [line.replace("[", " ").replace("]", " ").split() for line in done.stderr.decode().splitlines()]
    assert words
    return sorted(words, key=lambda line: ([w for w in line if is_word(w)], [float(w) for w in line if not is_word(w)]))


def is_word(w):
    return not w.lstrip("-")[0].isdigit()


def same(a, b):
    """Are the lines equal, but for the last digit of a number?"""
    if [len(line) for line in a] != [len(line) for line in b]:
        return False
    pairs = [pair for one, other in zip(a, b) for pair in zip(one, other)]
    return all(v == w if is_word(v) or is_word(w) else np.isclose(float(v), float(w), 1e-4, 1e-5) for v, w in pairs)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_true_values_are_printed_once(weft, tmp_path, model, v2):
    make(model, tmp_path, v2)
    want = printed(weft, tmp_path)
    for strategy in STRATEGIES:
        got = printed(weft, tmp_path, strategy)
        assert same(got, want), f"{strategy}: {got} instead of {want}"


def test_rows_in_a_loop_are_printed_by_the_replicas_that_have_them(weft, tmp_path):
    def model(x, p, loss):
        return v1.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, v1.Print(h * 1.0, [h], "rows ", summarize=99)), [0, p])[1]

    make(model, tmp_path, v2=False)
    numbers = [sum(len(line) - 1 for line in printed(weft, tmp_path, strategy)) for strategy in (None, "mirrored:2")]
    assert numbers == [2 * (5 + 5 + 1 + 5)] * 2
