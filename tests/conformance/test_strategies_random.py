"""Random numbers under strategies: every replica gets those of one device.

Graphs as people write them with TensorFlow: dropout of all kinds, noise, sampling, shuffling, in loops and outside. Stock
TensorFlow trains each on one device; Weft trains the same file on one device and under each strategy. With given seeds all
losses agree, step by step, and so do the numbers themselves where they are fetched; the last batch of an epoch has one row, so
that some replicas have none.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

v1, raw = tf.compat.v1, tf.raw_ops
STEPS, BATCH, ROWS = 12, 10, 31  # three batches of ten and one of a single row in each epoch
rng = np.random.RandomState(11)
X = rng.randn(ROWS, 8).astype("f")
Y = rng.randint(0, 4, ROWS).astype("i4")
STRATEGIES = ["mirrored:2", "mirrored:3", "data_parallel:2", "central_storage:2", "multi_worker_mirrored:workers=2",
              "multi_worker_mirrored:workers=3", "parameter_server:mode=sync,workers=2"]


def variable(name, shape, seed, **more):
    value = (np.random.RandomState(seed).randn(*shape) * 0.3).astype("f")
    return v1.get_variable(name, initializer=value, use_resource=True, **more)


def dense(name, x, columns, seed):
    return tf.matmul(x, variable(name, (x.shape[-1], columns), seed))


def cross_entropy(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def classified(h, y):
    return cross_entropy(dense("out", h, 4, 9), y)


def rows(x):
    return tf.shape(x)[0]


# Each makes a loss, and what else is fetched, from placeholders "x" and "y".

MODELS = {}


def model(f):
    MODELS[f.__name__] = f
    return f


@model
def dropout(x, y):
    h = tf.nn.dropout(tf.tanh(dense("w", x, 6, 1)), rate=0.4, seed=3)
    return classified(h, y), h


@model
def dropout_v1(x, y):
    h = v1.nn.dropout(tf.tanh(dense("w", x, 6, 1)), keep_prob=0.7, seed=3)
    return classified(h, y), h


@model
def dropout_rate_is_a_tensor(x, y):
    rate = 0.5 / (1.0 + tf.cast(v1.train.get_or_create_global_step(), tf.float32))
    h = tf.nn.dropout(tf.tanh(dense("w", x, 5, 1)), rate=rate, seed=3)
    return classified(h, y), h


@model
def dropout_of_whole_rows(x, y):
    h = tf.nn.dropout(dense("w", x, 6, 1), rate=0.4, seed=3, noise_shape=[rows(x), 1])
    return classified(h, y), h


@model
def dropout_alike_for_all_rows(x, y):
    h = tf.nn.dropout(dense("w", x, 6, 1), rate=0.4, seed=3, noise_shape=[1, 6])
    return classified(h, y), h


@model
def dropout_of_channels(x, y):
    image = tf.reshape(x, [-1, 2, 2, 2])
    h = tf.nn.conv2d(image, variable("k", (2, 2, 2, 3), 1), 1, "SAME")
    h = tf.nn.dropout(h, rate=0.3, seed=4, noise_shape=[rows(x), 1, 1, 3])
    return classified(tf.reshape(h, [-1, 12]), y), h


@model
def dropout_twice_by_the_seed_of_the_graph(x, y):
    v1.set_random_seed(17)
    h = tf.nn.dropout(dense("w", x, 7, 1), rate=0.4)
    h = tf.nn.dropout(dense("u", tf.nn.relu(h), 5, 2), rate=0.2)
    return classified(h, y), h


@model
def noise_for_the_batch(x, y):
    noise = v1.random_normal([rows(x), 8], stddev=0.3, seed=5)
    return classified(x + noise, y), noise


@model
def noise_of_the_shape(x, y):
    noise = tf.random.uniform(tf.shape(x), -0.5, 0.5, seed=5) + tf.random.truncated_normal(tf.shape(x), seed=6)
    return classified(x + noise, y), noise


@model
def noise_of_each_type(x, y):
    noise = [tf.cast(v1.random_normal([rows(x), 3], dtype=d, seed=5 + i), tf.float32) for i, d in enumerate(
        [tf.float16, tf.bfloat16, tf.float32, tf.float64])]
    return classified(tf.concat([x, *noise], 1)[:, :20], y), tf.concat(noise, 1)


@model
def noise_for_weights(x, y):
    noise = v1.random_normal([8, 4], stddev=0.1, seed=5)
    return cross_entropy(tf.matmul(x, variable("w", (8, 4), 1) + noise), y), noise


@model
def autoencoder(x, y):
    """Variational: the sampled code of each row."""
    mean, log_var = dense("m", x, 3, 1), dense("v", x, 3, 2)
    code = mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean), seed=8)
    wrong = tf.reduce_sum(tf.square(dense("d", code, 8, 3) - x), 1)
    divergence = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), 1)
    return tf.reduce_mean(wrong + divergence), code


@model
def several_samples_for_each_row(x, y):
    """[2 * batch, D]."""
    both = tf.concat([x, x], 0)
    noise = v1.random_normal([2 * rows(x), 8], stddev=0.2, seed=5)
    h = tf.reshape(both, [-1, 8]) + 0 * noise
    wide = tf.reshape(noise, [-1, 2, 8])
    return classified(x + tf.reduce_mean(wide, 1), y), [noise, tf.reduce_sum(h)]


@model
def sequences(x, y):
    seq = tf.reshape(x, [-1, 4, 2])
    noise = v1.random_normal([rows(x), 4, 2], stddev=0.2, seed=5)
    return classified(tf.reshape(seq + noise, [-1, 8]), y), noise


@model
def sequences_time_first(x, y):
    seq = tf.transpose(tf.reshape(x, [-1, 4, 2]), [1, 0, 2])
    noise = v1.random_normal([4, rows(x), 2], stddev=0.2, seed=5)
    drop = tf.nn.dropout(seq + noise, rate=0.3, seed=6)
    return classified(tf.reshape(tf.transpose(drop, [1, 0, 2]), [-1, 8]), y), noise


@model
def noise_between_all_pairs(x, y):
    noise = v1.random_normal([rows(x), rows(x)], stddev=0.2, seed=5)
    pairs = tf.matmul(x, x, transpose_b=True) + noise
    return classified(x, y) + 0.01 * tf.reduce_mean(tf.square(pairs)), noise


@model
def smoothed_labels(x, y):
    noise = tf.random.uniform([rows(x), 4], seed=5) * 0.1
    labels = tf.one_hot(y, 4) * 0.9 + noise / tf.reduce_sum(noise, 1, keepdims=True) * 0.1
    logits = dense("out", x, 4, 9)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)), labels


@model
def augmented(x, y):
    """Each row is scaled by a number of its own and mirrored by chance."""
    scale = tf.random.uniform([rows(x), 1], 0.8, 1.2, seed=5)
    mirrored = tf.where(tf.random.uniform([rows(x), 1], seed=6) < 0.5, x[:, ::-1], x)
    return classified(mirrored * scale, y), mirrored


@model
def flipped_all_or_none(x, y):
    flipped = v1.cond(tf.random.uniform([], seed=5) < 0.5, lambda: x[:, ::-1], lambda: x)
    return classified(flipped, y), flipped


@model
def noise_in_a_branch(x, y):
    step = v1.train.get_or_create_global_step()
    noisy = v1.cond(tf.equal(step % 2, 0), lambda: x + v1.random_normal(tf.shape(x), stddev=0.2, seed=5), lambda: x)
    return classified(noisy, y), noisy


@model
def sampled_classes(x, y):
    logits = dense("p", x, 5, 1)
    drawn = tf.random.categorical(logits, 3, seed=5)
    h = tf.reduce_sum(tf.gather(variable("e", (5, 6), 2), drawn), 1)
    return classified(tf.concat([x, h], 1), y), drawn


@model
def sampled_one_class(x, y):
    drawn = v1.multinomial(dense("p", x, 5, 1), 1, seed=5, output_dtype=tf.int32)[:, 0]
    return classified(tf.concat([x, tf.one_hot(drawn, 5)], 1), y), drawn


@model
def policy_gradient(x, y):
    logits = dense("p", x, 3, 1)
    action = tf.squeeze(tf.random.categorical(tf.stop_gradient(logits), 1, seed=5), 1)
    reward = tf.cast(tf.equal(action, tf.cast(y % 3, tf.int64)), tf.float32)
    return tf.reduce_mean(reward * tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)), action


@model
def drawn_integers(x, y):
    ids = tf.random.uniform([rows(x), 2], 0, 7, tf.int32, seed=5)
    wide = tf.random.uniform([rows(x), 3], -4, 9, tf.int64, seed=6)
    h = tf.reduce_sum(tf.gather(variable("e", (7, 6), 2), ids), 1)
    return classified(tf.concat([x, h, tf.cast(wide, tf.float32)], 1), y), ids


@model
def drawn_rows_of_the_batch(x, y):
    """The bound is the number of rows."""
    others = tf.random.uniform([rows(x)], 0, rows(x), tf.int32, seed=5)
    return classified(x - tf.gather(x, others), y), others


@model
def truncated_by_parameters(x, y):
    noise = raw.ParameterizedTruncatedNormal(
        shape=tf.stack([rows(x), 8]), means=0.0, stdevs=1.0, minvals=-0.5, maxvals=0.7, seed=3, seed2=4)
    return classified(x + noise, y), noise


@model
def shuffled_rows(x, y):
    other = tf.random.shuffle(x, seed=5)
    return classified(x + 0.3 * other, y), other


@model
def mixed_up(x, y):
    order = tf.random.shuffle(tf.range(rows(x)), seed=5)
    mixed = 0.7 * x + 0.3 * tf.gather(x, order)
    logits = dense("out", mixed, 4, 9)
    labels = 0.7 * tf.one_hot(y, 4) + 0.3 * tf.gather(tf.one_hot(y, 4), order)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)), order


@model
def shuffled_constant(x, y):
    order = tf.random.shuffle(tf.constant([0, 1, 2, 3, 4, 5, 6, 7]), seed=5)
    return classified(tf.gather(x, order, axis=1), y), order


@model
def stateless_fixed_seed(x, y):
    noise = tf.random.stateless_normal(tf.shape(x), [3, 4]) + tf.random.stateless_uniform([rows(x), 8], [5, 6])
    return classified(x + noise, y), noise


@model
def stateless_seed_of_the_step(x, y):
    step = tf.cast(v1.train.get_or_create_global_step(), tf.int32)
    seed = tf.stack([7, step])
    noise = tf.random.stateless_truncated_normal([rows(x), 8], seed)
    ids = tf.random.stateless_uniform([rows(x)], seed, 0, 5, tf.int32)
    kept = tf.nn.experimental.stateless_dropout(x, 0.3, seed)
    return classified(kept + noise + tf.one_hot(ids, 8), y), [noise, ids]


@model
def stateless_first_versions(x, y):
    shape, seed = tf.shape(x), tf.constant([3, 4])
    noise = raw.StatelessRandomNormal(shape=shape, seed=seed) + raw.StatelessRandomUniform(shape=shape, seed=seed)
    noise += raw.StatelessTruncatedNormal(shape=shape, seed=seed)
    ids = raw.StatelessRandomUniformInt(shape=tf.shape(y), seed=seed, minval=0, maxval=8)
    return classified(x + noise + tf.one_hot(ids, 8), y), noise


@model
def seed_from_a_variable(x, y):
    """As Keras draws: a state that each draw moves on."""
    state = v1.get_variable("state", initializer=np.array([1, 2], "i4"), trainable=False, use_resource=True)
    seed = state.read_value()
    with tf.control_dependencies([seed]):
        move = state.assign_add([0, 1])
    with tf.control_dependencies([move]):
        h = tf.nn.experimental.stateless_dropout(dense("w", x, 6, 1), 0.4, seed)
    return classified(h, y), h


@model
def shape_is_fed_in_a_tensor(x, y):
    """Whole shapes from arithmetic on the batch."""
    size = tf.cast(tf.cast(rows(x), tf.float32) * 2.0 / 2.0, tf.int32)
    noise = v1.random_normal(tf.stack([size, 8]), stddev=0.2, seed=5)
    return classified(x + noise, y), noise


@model
def noise_in_a_while_loop(x, y):
    w = variable("w", (8, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (
        i + 1, tf.tanh(tf.matmul(h, w)) + v1.random_normal(tf.shape(h), stddev=0.1, seed=5)), (0, x))[1]
    return classified(h, y), h


@model
def dropout_in_a_while_loop(x, y):
    w = variable("w", (8, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (
        i + 1, tf.nn.dropout(tf.tanh(tf.matmul(h, w)), rate=0.3, seed=5)), (0, x))[1]
    return classified(h, y), h


@model
def noise_for_all_in_a_while_loop(x, y):
    w = variable("w", (8, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (
        i + 1, tf.tanh(tf.matmul(h, w)) * (1 + v1.random_normal([8], stddev=0.1, seed=5))), (0, x))[1]
    return classified(h, y), h


@model
def stateless_in_a_while_loop(x, y):
    w = variable("w", (8, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (
        i + 1, tf.tanh(tf.matmul(h, w)) + 0.1 * tf.random.stateless_normal(tf.shape(h), tf.stack([i, 5]))), (0, x))[1]
    return classified(h, y), h


@model
def sampled_in_a_while_loop(x, y):
    e = variable("e", (5, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (
        i + 1, tf.tanh(h + tf.matmul(tf.one_hot(v1.multinomial(h[:, :5], 1, seed=5)[:, 0], 5), e))), (0, x))[1]
    return classified(h, y), h


@model
def noise_in_nested_loops(x, y):
    def inner(h):
        return v1.while_loop(lambda i, h: i < 2, lambda i, h: (
            i + 1, h + v1.random_normal(tf.shape(h), stddev=0.1, seed=5)), (0, h))[1]

    w = variable("w", (8, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(inner(tf.matmul(h, w)))), (0, x))[1]
    return classified(h, y), h


@model
def truncated_in_a_while_loop(x, y):
    """Rows of these cannot be drawn alone: each replica draws all and takes its own. Data are spoilt, no gradient comes by."""
    shape = tf.stack([rows(x), 8])
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h) + raw.ParameterizedTruncatedNormal(
        shape=shape, means=0.0, stdevs=1.0, minvals=-0.5, maxvals=0.7, seed=3, seed2=4)), (0, x))[1]
    return classified(h, y), h


@model
def noise_between_all_pairs_in_a_while_loop(x, y):
    shape = tf.stack([rows(x), 8, rows(x)])
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(h) + tf.reduce_mean(
        v1.random_normal(shape, stddev=0.3, seed=5), 2)), (0, x))[1]
    return classified(h, y), h


@model
def scan_with_dropout(x, y):
    seq = tf.transpose(tf.reshape(x, [-1, 4, 2]), [1, 0, 2])
    w, u = variable("w", (2, 5), 1), variable("u", (5, 5), 2)
    h = tf.scan(lambda h, xt: tf.nn.dropout(tf.tanh(tf.matmul(xt, w) + tf.matmul(h, u)), rate=0.2, seed=6), seq,
                initializer=tf.zeros([rows(x), 5]))
    return classified(h[-1], y), h


@model
def recurrent_with_dropout(x, y):
    """dynamic_rnn's way, by hand: TensorArrays, dropout on inputs, state and output of each time step."""
    w, u = variable("w", (2, 5), 1), variable("u", (5, 5), 2)
    seq = tf.transpose(tf.reshape(x, [-1, 4, 2]), [1, 0, 2])
    inputs = tf.TensorArray(tf.float32, 4).unstack(seq)

    def step(t, h, out):
        xt = tf.nn.dropout(inputs.read(t), rate=0.2, seed=5)
        h = tf.nn.dropout(tf.tanh(tf.matmul(xt, w) + tf.matmul(h, u)), rate=0.2, seed=6)
        return t + 1, h, out.write(t, tf.nn.dropout(h, rate=0.3, seed=7))

    out = v1.while_loop(lambda t, *_: t < 4, step, (0, tf.zeros([rows(x), 5]), tf.TensorArray(tf.float32, 4)))[2].stack()
    return classified(tf.reduce_sum(out, 0), y), out


def build(name, second_version=False):
    (v1.enable_control_flow_v2 if second_version else v1.disable_control_flow_v2)()
    with tf.Graph().as_default() as g:
        x, y = v1.placeholder(tf.float32, [None, 8], name="x"), v1.placeholder(tf.int32, [None], name="y")
        loss, seen = MODELS[name](x, y)
        tf.identity(loss, name="loss")
        for i, s in enumerate(seen if isinstance(seen, list) else [seen]):
            tf.identity(s, name=f"seen{i}")
        step = v1.train.get_or_create_global_step()
        v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
    return g.as_graph_def().SerializeToString(), [f"seen{i}" for i in range(len(seen) if isinstance(seen, list) else 1)]


def batches():
    for i in range(STEPS):
        begin = i * BATCH % 40
        yield {"x:0": X[begin : begin + BATCH], "y:0": Y[begin : begin + BATCH]}


def on_tensorflow(definition, seen):
    """One round of a loop after the other: else which round gets which numbers is a matter of stock TensorFlow's scheduler."""
    definition = v1.GraphDef.FromString(definition)
    for node in definition.node:
        if node.op == "Enter":
            node.attr["parallel_iterations"].i = 1
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    with v1.Session(graph=graph) as s:
        s.run("init")
        return [s.run({f: f + ":0" for f in ["loss", *seen]} | {"": "train"}, b) for b in batches()]


def flat(value):
    return np.array(value, "d").ravel()


@pytest.fixture
def weft(weft_command, tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return weft_command


FEEDS = ["--feed", "x=x.npy", "--feed", "y=y.npy", "--batch", str(BATCH)]


def on_weft(weft, seen, *strategy):
    fetches = [a for f in ["loss", *seen] for a in ("--fetch", f)]
    out = weft("submit", "plain.pb", *FEEDS, "--init", "init", "--target", "train", *fetches, "--steps", str(STEPS), "--json",
               *strategy)
    lines = [json.loads(line) for line in out.splitlines()]
    return [line["fetches"] for line in lines if not line.get("done")]


def compare(got, want, names, what):
    assert len(got) == len(want) == STEPS
    for step, (g, w) in enumerate(zip(got, want)):
        for name in names:
            a, b = flat(g[name]), flat(w[name])
            assert a.shape == b.shape, f"{what}, step {step}, {name}: {a.shape} for {b.shape}"
            assert np.all(np.abs(a - b) <= 1e-5 * np.maximum(np.abs(b), 1.0)), f"{what}, step {step}, {name}: {a} for {b}"


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_one_device(name, weft, tmp_path):
    definition, seen = build(name)
    (tmp_path / "plain.pb").write_bytes(definition)
    want = on_tensorflow(definition, seen)
    compare(on_weft(weft, seen), want, ["loss", *seen], "one device")
    for strategy in STRATEGIES:
        compare(on_weft(weft, seen, "--strategy", strategy), want, ["loss", *seen], strategy)


@pytest.mark.parametrize("name", [n for n in MODELS if "loop" in n or "branch" in n or "flipped" in n or "scan" in n or "recurrent" in n])
def test_numbers_in_functions_are_those_of_one_device(name, weft, tmp_path):
    """The second version of control flow: While and If with functions."""
    definition, seen = build(name, second_version=True)
    (tmp_path / "plain.pb").write_bytes(definition)
    want = on_weft(weft, seen)
    for strategy in STRATEGIES:
        compare(on_weft(weft, seen, "--strategy", strategy), want, ["loss", *seen], strategy)


def write(tmp_path, make):
    """Fetches what `make` makes of "x"."""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [None, 8], name="x")
        w = variable("w", (8, 4), 1)
        seen = make(x)
        tf.identity(seen, name="seen")
        loss = tf.reduce_mean(tf.square(tf.matmul(x + 0 * tf.reduce_mean(seen), w)), name="loss")
        v1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
    (tmp_path / "plain.pb").write_bytes(g.as_graph_def().SerializeToString())


def fetch(weft, strategy):
    out = weft("submit", "plain.pb", "--feed", "x=x.npy", "--batch", str(BATCH), "--init", "init", "--target", "train", "--fetch", "seen",
               "--fetch", "loss", "--steps", "6", "--json", "--strategy", strategy)
    lines = [json.loads(line) for line in out.splitlines()]
    return [np.array(line["fetches"]["seen"]) for line in lines if not line.get("done")]


@pytest.mark.parametrize("strategy", [*STRATEGIES, "parameter_server:mode=async,workers=2"])
def test_without_a_seed_nothing_repeats(strategy, weft, tmp_path):
    write(tmp_path, lambda x: v1.random_uniform([rows(x), 3]))
    numbers = np.concatenate([step.ravel() for step in fetch(weft, strategy)])
    by_chance = 2  # of 2^23 numbers, two of 153 are equal once in 700 runs, three pairs once in 10^9
    assert len(set(numbers.tolist())) >= len(numbers) - by_chance and np.all((numbers >= 0) & (numbers < 1))


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if not s.startswith("parameter")])
def test_without_a_seed_replicas_agree_in_a_loop(strategy, weft, tmp_path):
    """All rows get the same noise in a round, whichever replica has them."""

    def noisy(x):
        return v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, h + v1.random_normal([8])), (0, 0 * x))[1]

    write(tmp_path, noisy)
    steps = fetch(weft, strategy)
    assert all(np.all(s == s[0]) for s in steps)
    assert len({s[0].tobytes() for s in steps}) == len(steps)


@pytest.mark.parametrize("strategy", ["parameter_server:mode=async,workers=3", "parameter_server:mode=ssp,staleness=1,workers=3",
                                      "parameter_server:mode=sync,workers=3,backup=1"])
def test_workers_on_their_own_have_seeds_of_their_own(strategy, weft, tmp_path):
    write(tmp_path, lambda x: tf.nn.dropout(x, rate=0.5, seed=3))
    told = weft("inspect", "plain.pb", "--strategy", strategy, "--init", "init", "--target", "train", "--fetch", "loss", "--save", "out.pb")
    assert "each worker draws a sequence of its own" in told
    drawing = [n for n in v1.GraphDef.FromString((tmp_path / "out.pb").read_bytes()).node if n.op == "RandomUniform"]
    by_device = {n.device: (n.attr["seed"].i, n.attr["seed2"].i) for n in drawing}
    assert len(by_device) == 3 and len(set(by_device.values())) == 3


def test_inspect_says_whose_numbers_they_are(weft, tmp_path):
    write(tmp_path, lambda x: tf.nn.dropout(x, rate=0.5, seed=3) + v1.random_normal(tf.shape(x), name="free"))
    told = weft("inspect", "plain.pb", "--strategy", "mirrored:2", "--init", "init", "--target", "train", "--fetch", "loss")
    assert "random numbers for rows (1 op): each replica draws its rows of the sequence of one device" in told
    assert "without a seed for rows (1 op, 'free/RandomStandardNormal' first): each replica draws a sequence of its own" in told
