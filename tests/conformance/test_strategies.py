"""Training graphs as people write them with TensorFlow, under every synchronous strategy.

The graph that trains on one device is written by TensorFlow and trained in plain TensorFlow. Then Weft's command trains
the same file under a strategy, and stock TensorFlow runs what `weft inspect --save` has rewritten. All losses agree, step by
step, with batches whose last one is uneven.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1
STEPS, BATCH, ROWS = 12, 10, 36  # three batches of ten and one of six in each epoch
rng = np.random.RandomState(7)

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
}
STRATEGIES = ["mirrored:2", "mirrored:3", "data_parallel:3", "central_storage:2", "multi_worker_mirrored"]
SERVED = ["parameter_server:mode=sync,workers=3", "parameter_server:mode=sync,workers=2,shards=fixed:2"]


def start_value(shape, seed, dtype="f"):
    return (np.random.RandomState(seed).randn(*shape) * 0.3).astype(dtype)


def variable(name, shape, seed, dtype="f", **more):
    return v1.get_variable(name, initializer=start_value(shape, seed, dtype), **more)


def cross_entropy(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


# Each makes a loss from placeholders "x" and "y"; what else must run before a step is returned, too.


def dense(x, y, resource=False, dtype="f"):
    h = tf.tanh(tf.matmul(x, variable("w0", (8, 6), 1, dtype, use_resource=resource)))
    return cross_entropy(tf.matmul(h, variable("w1", (6, 4), 2, dtype, use_resource=resource)), y), []


def resource(x, y):
    return dense(x, y, True)


def double(x, y):
    return dense(tf.cast(x, tf.float64), y, True, "d")


def regularised(x, y):
    w = variable("w", (8, 4), 1)
    loss = cross_entropy(tf.matmul(x, w), y) + 0.01 * tf.nn.l2_loss(w)
    v1.losses.add_loss(0.1 * tf.reduce_sum(tf.abs(w)))
    return loss + v1.losses.get_total_loss(), []


def summed(x, y):
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, variable("w", (8, 4), 1)))
    return tf.reduce_sum(each) * 0.02, []


def weighted(x, y):
    """Divided by the number of rows whose weight is not zero, as v1.losses does."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, variable("w", (8, 4), 1)))
    weights = tf.cast(y > 0, tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(each * weights), tf.reduce_sum(weights)), []


def root(x, y):
    """The root of a mean is no mean of roots."""
    return tf.sqrt(tf.reduce_mean(tf.square(tf.matmul(x, variable("w", (8, 1), 1))[:, 0] - tf.cast(y, tf.float32)))), []


def embedding(x, y):
    ids = tf.cast(tf.abs(x[:, :3]) * 7, tf.int32)  # several of a row, some of them equal
    table = variable("table", (40, 5), 1)
    h = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1)
    return cross_entropy(tf.matmul(h, variable("w", (5, 4), 2)), y), []


def batch_norm(x, y):
    h = tf.matmul(x, variable("w0", (8, 6), 1))
    mean, var = tf.nn.moments(h, [0])
    moving = variable("moving", (6,), 3, trainable=False)
    update = v1.assign_sub(moving, 0.1 * (moving - mean))
    h = tf.nn.batch_normalization(h, mean, var, variable("beta", (6,), 4), variable("gamma", (6,), 5), 1e-3)
    return cross_entropy(tf.matmul(tf.nn.relu(h), variable("w1", (6, 4), 2)), y), [update]


def convolution(x, y):
    """keras-v1 layers: a fused batch normalisation, whose averages are UPDATE_OPS."""
    image = tf.reshape(x, [-1, 4, 2, 1])
    h = tf.nn.conv2d(image, variable("k", (2, 2, 1, 3), 1), 1, "SAME")
    mean, var = v1.get_variable("mean", initializer=np.zeros(3, "f"), trainable=False), v1.get_variable(
        "var", initializer=np.ones(3, "f"), trainable=False)
    gamma, beta = variable("gamma", (3,), 5), variable("beta", (3,), 6)
    h, m, v = v1.nn.fused_batch_norm(h, gamma, beta, epsilon=1e-3, is_training=True)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(mean, 0.1 * (mean - m)))
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(var, 0.1 * (var - v)))
    h = tf.nn.max_pool2d(tf.nn.relu(h), 2, 2, "VALID")
    return cross_entropy(tf.matmul(tf.reshape(h, [-1, 6]), variable("w", (6, 4), 2)), y), v1.get_collection(v1.GraphKeys.UPDATE_OPS)


def conditional(x, y):
    w = variable("w", (8, 4), 1)
    step = v1.train.get_or_create_global_step()
    logits = v1.cond(tf.equal(step % 2, 0), lambda: tf.matmul(x, w), lambda: tf.matmul(x, w * 0.5))
    return cross_entropy(logits, y), []


def loop(x, y):
    w = variable("w", (8, 8), 1)
    h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), (0, x))[1]
    return cross_entropy(tf.matmul(h, variable("out", (8, 4), 2)), y), []


def recurrent(x, y):
    """A recurrent net over four time steps, by hand in a loop with TensorArrays."""
    seq = tf.transpose(tf.reshape(x, [-1, 4, 2]), [1, 0, 2])
    w, u = variable("w", (2, 5), 1), variable("u", (5, 5), 2)
    h = tf.scan(lambda h, xt: tf.tanh(tf.matmul(xt, w) + tf.matmul(h, u)), seq, initializer=tf.zeros([tf.shape(x)[0], 5]))
    return cross_entropy(tf.matmul(h[-1], variable("out", (5, 4), 3)), y), []


MODELS = [dense, resource, double, regularised, summed, weighted, root, embedding, batch_norm, convolution, conditional, loop, recurrent]
X = rng.randn(ROWS, 8).astype("f")
Y = rng.randint(0, 4, ROWS).astype("i4")


def build(model, optimizer, clips=False, decays=False):
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as g:
        x, y = v1.placeholder(tf.float32, [None, 8], name="x"), v1.placeholder(tf.int32, [None], name="y")
        loss, updates = model(x, y)
        loss = tf.identity(loss, name="loss")
        step = v1.train.get_or_create_global_step()
        opt = OPTIMIZERS[optimizer]()
        if decays:
            opt = v1.train.GradientDescentOptimizer(v1.train.exponential_decay(0.2, step, 3, 0.8))
        with tf.control_dependencies(updates):
            pairs = opt.compute_gradients(loss)
            if clips:
                grads, variables = zip(*pairs)
                pairs = list(zip(tf.clip_by_global_norm(grads, 0.2)[0], variables))
            opt.apply_gradients(pairs, global_step=step, name="train")
        v1.train.Saver(name="saver")
        v1.summary.scalar("loss_summary", loss)
        v1.summary.merge_all()
        tf.group(v1.global_variables_initializer(), name="init")
    return g


def batches():
    for i in range(STEPS):
        begin = i * BATCH % 40
        yield {"x:0": X[begin : begin + BATCH], "y:0": Y[begin : begin + BATCH]}


def train(graph, inits=("init",), cpus=1):
    config = v1.ConfigProto(device_count={"CPU": cpus}, operation_timeout_in_ms=180000)
    with v1.Session(graph=graph, config=config) as s:
        for op in inits:
            s.run(op)
        return np.array([s.run(["loss:0", "train"], b)[0] for b in batches()], "d")


@pytest.fixture
def weft(weft_command, tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return weft_command


def write(graph, tmp_path):
    (tmp_path / "plain.pb").write_bytes(graph.as_graph_def().SerializeToString())


def close(got, want, tolerance, what):
    scale = np.maximum(np.abs(want), 1e-3)
    worst = np.max(np.abs(got - want) / scale) if got.shape == want.shape else np.inf
    assert worst <= tolerance, f"{what}: {worst:.2e} off: {got} for {want}"


FEEDS = ["--feed", "x=x.npy", "--feed", "y=y.npy", "--batch", str(BATCH)]
NAMES = ["--init", "init", "--target", "train", "--fetch", "loss"]


def on_weft(weft, strategy):
    out = weft("submit", "plain.pb", *FEEDS, *NAMES, "--steps", str(STEPS), "--json", "--strategy", strategy)
    lines = [json.loads(line) for line in out.splitlines()]
    return np.array([line["fetches"]["loss"] for line in lines if not line.get("done")], "d")


def on_tensorflow(weft, strategy, tmp_path):
    args = ["inspect", "plain.pb", *NAMES, "--strategy", strategy]
    told = json.loads(weft(*args, "--save", "rewritten.pb", "--json"))
    with tf.Graph().as_default() as g:
        definition = v1.GraphDef.FromString((tmp_path / "rewritten.pb").read_bytes())
        tf.import_graph_def(definition, name="")
    return train(g, told["inits"], 4)


@pytest.mark.parametrize("strategy", STRATEGIES + SERVED)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_models_train_on_weft_as_on_one_device(model, strategy, weft, tmp_path):
    graph = build(model, "momentum")
    write(graph, tmp_path)
    want = train(graph)
    close(on_weft(weft, strategy), want, 1e-5, strategy)


@pytest.mark.parametrize("strategy", ["mirrored:3", "central_storage:2", SERVED[0], SERVED[1]])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", [resource, embedding], ids=lambda m: m.__name__)
def test_optimizers_train_on_weft_as_on_one_device(model, optimizer, strategy, weft, tmp_path):
    graph = build(model, optimizer)
    write(graph, tmp_path)
    want = train(graph)
    close(on_weft(weft, strategy), want, 2e-5, strategy)


@pytest.mark.parametrize("strategy", ["mirrored:3", "data_parallel:2", SERVED[0], SERVED[1]])
@pytest.mark.parametrize("options", [{"clips": True}, {"decays": True}], ids=str)
def test_clipped_gradients_and_decaying_rates(options, strategy, weft, tmp_path):
    graph = build(embedding, "sgd", **options)
    write(graph, tmp_path)
    want = train(graph)
    close(on_weft(weft, strategy), want, 1e-5, strategy)


@pytest.mark.parametrize("strategy", ["mirrored:2", "mirrored:3,reduce=one", "data_parallel:3", "central_storage:2"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_rewritten_graphs_train_on_stock_tensorflow(model, strategy, weft, tmp_path):
    graph = build(model, "momentum")
    write(graph, tmp_path)
    want = train(graph)
    got = on_tensorflow(weft, strategy, tmp_path)
    close(got, want, 1e-5, strategy)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("strategy", ["", "mirrored:2", "mirrored:3", "multi_worker_mirrored:2", "central_storage:2", "parameter_server:mode=sync,workers=2"])
def test_the_end_of_a_loop_is_run_beside_fetches_of_its_inputs(strategy, v2, weft, tmp_path):
    """Batches that the loop joins are compared, and what compares them stands outside of it."""
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            x, y = v1.placeholder(tf.float32, [None, 4], name="x"), v1.placeholder(tf.float32, [None], name="y")
            w = variable("w", (4, 4), 1)
            end = v1.while_loop(lambda i, *_: i < 3, lambda i, h, s: (i + 1, tf.tanh(tf.matmul(h, w)), s + h[:, 0] * y), (0, x, tf.zeros_like(y)))[2]
            total = tf.reduce_sum(end)
            means = [tf.reduce_mean(x, name="mx"), tf.reduce_mean(y, name="my")]
            tf.group(v1.global_variables_initializer(), name="init")
    finally:
        v1.disable_control_flow_v2()
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    feed = {"x": rng.randn(7, 4).astype("f"), "y": rng.randn(7).astype("f")}
    for name, rows in feed.items():
        np.save(tmp_path / f"{name}.npy", rows)
    with v1.Session(graph=graph) as s:
        s.run("init")
        want = s.run([*means, end, total], {f"{name}:0": rows for name, rows in feed.items()})
    names = ["mx", "my", end.op.name, total.op.name]
    for fetched in (names, names[:2]):
        command = ["submit", "graph.pb", "--init", "init", "--steps", "1", "--json", "--target", end.op.name]
        command += [a for name in fetched for a in ("--fetch", name)] + [a for name in feed for a in ("--feed", f"{name}={name}.npy")]
        command += ["--strategy", strategy] if strategy else []
        got = json.loads(weft(*command).splitlines()[0])["fetches"]
        for name, value in zip(fetched, want):
            np.testing.assert_allclose(np.array(got[name], "f"), value, rtol=1e-5, atol=1e-6)
