"""tests/strategies/testdata/*.pb: the training graphs that the tests of strategies rewrite, as TensorFlow makes them for one device.

All graphs have the targets "init" and "train" and the fetch "loss:0"; initial values are formulas, so that runs can be compared.
"""
import tensorflow as tf

HERE = "tests/strategies/testdata"

v1 = tf.compat.v1


def start():
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    return tf.Graph()


def formula(shape, dtype, phase, scale=0.2):
    count = 1
    for d in shape:
        count *= d
    values = tf.sin(tf.cast(tf.range(count), tf.float64) * 12.9898 + phase) * scale
    return tf.cast(tf.reshape(values, shape), dtype)


def variable(name, shape, dtype, phase, resource, trainable=True):
    return v1.Variable(formula(shape, dtype, phase), name=name, use_resource=resource, trainable=trainable)


def optimizer_of(name):
    return {
        "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
        "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
        "adam": lambda: v1.train.AdamOptimizer(0.002),
    }[name]()


def finish(graph, loss, optimizer, path, update_ops=()):
    step = v1.train.get_or_create_global_step()
    with tf.control_dependencies(list(update_ops)):
        v1.train.Optimizer.minimize(optimizer_of(optimizer), loss, global_step=step, name="train")
    saver = v1.train.Saver(name="saver")
    v1.summary.scalar("loss_summary", loss)
    tf.identity(v1.summary.merge_all(), name="summaries")
    tf.group(v1.global_variables_initializer(), name="init")
    del saver
    path.write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))


def labels_of(name="y"):
    return v1.placeholder(tf.int32, [None], name=name)


def mlp(path, dtype, optimizer, resource):
    with start().as_default() as graph:
        x, y = v1.placeholder(dtype, [None, 32], name="x"), labels_of()
        h = x
        for i, (fan_in, fan_out) in enumerate([(32, 64), (64, 64), (64, 10)]):
            w = variable("w%d" % i, [fan_in, fan_out], dtype, i, resource)
            b = variable("b%d" % i, [fan_out], dtype, i + 10, resource)
            h = tf.matmul(h, w) + b
            if i < 2:
                h = tf.tanh(h)
        tf.identity(h, name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h)
        loss = tf.reduce_mean(each, name="loss")
        hits = tf.cast(tf.equal(tf.cast(tf.argmax(h, 1), tf.int32), y), tf.float32)
        tf.reduce_mean(hits, name="accuracy")
        tf.reduce_sum(tf.cast(hits, tf.int64), name="num_hits")
        finish(graph, loss, optimizer, path)


def embedding(path, optimizer, resource):
    with start().as_default() as graph:
        ids, y = v1.placeholder(tf.int32, [None], name="x"), labels_of()
        table = variable("table", [1000, 16], tf.float32, 1, resource)
        w = variable("w", [16, 4], tf.float32, 2, resource)
        h = tf.matmul(tf.nn.embedding_lookup(table, ids), w)
        tf.identity(h, name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h)
        finish(graph, tf.reduce_mean(each, name="loss"), optimizer, path)


def convolution(path, optimizer):
    """Two layers, batch normalisation with moving averages, dropout left out, L2 on the kernel."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [None, 64], name="x"), labels_of()
        image = tf.reshape(x, [-1, 8, 8, 1])
        k = variable("kernel", [3, 3, 1, 8], tf.float32, 1, False)
        h = tf.nn.conv2d(image, k, strides=1, padding="SAME")
        gamma = v1.Variable(tf.ones([8]), name="gamma")
        beta = v1.Variable(tf.zeros([8]), name="beta")
        mean, var = tf.nn.moments(h, [0, 1, 2])
        moving = [v1.Variable(tf.zeros([8]), name="moving_mean", trainable=False),
                  v1.Variable(tf.ones([8]), name="moving_variance", trainable=False)]
        updates = [v1.assign_sub(m, (m - value) * 0.1) for m, value in zip(moving, (mean, var))]
        h = tf.nn.relu(tf.nn.batch_normalization(h, mean, var, beta, gamma, 1e-3))
        h = tf.nn.max_pool2d(h, 2, 2, "VALID")
        h = tf.reshape(h, [-1, 128])
        w = variable("w", [128, 10], tf.float32, 2, False)
        logits = tf.matmul(h, w)
        tf.identity(logits, name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.add(tf.reduce_mean(each), 0.001 * tf.nn.l2_loss(k), name="loss")
        finish(graph, loss, optimizer, path, updates)


def batch_norm(path, data_format):
    """The fused op, whose statistics go to moving averages, too."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [None, 64], name="x"), labels_of()
        h = tf.nn.conv2d(tf.reshape(x, [-1, 8, 8, 1]), variable("kernel", [3, 3, 1, 4], tf.float32, 1, False), 1, "SAME")
        if data_format == "NCHW":
            h = tf.transpose(h, [0, 3, 1, 2])
        gamma, beta = v1.Variable(tf.ones([4]), name="gamma"), v1.Variable(tf.zeros([4]), name="beta")
        mean = v1.Variable(tf.zeros([4]), name="moving_mean", trainable=False)
        var = v1.Variable(tf.ones([4]), name="moving_variance", trainable=False)
        h, batch_mean, batch_var = tf.raw_ops.FusedBatchNormV3(
            x=h, scale=gamma, offset=beta, mean=mean, variance=var, epsilon=1e-3, is_training=True, data_format=data_format)[:3]
        updates = [v1.assign_sub(mean, (mean - batch_mean) * 0.1), v1.assign_sub(var, (var - batch_var) * 0.1)]
        if data_format == "NCHW":
            h = tf.transpose(h, [0, 2, 3, 1])
        w = variable("w", [256, 10], tf.float32, 2, False)
        with tf.control_dependencies(updates):  # the moving variance is in the results, so that a wrong one is seen
            seen = tf.stop_gradient(var.read_value())
        logits = tf.matmul(tf.reshape(tf.nn.relu(h), [-1, 256]), w) + seen[0] * 0.1 * tf.range(10, dtype=tf.float32)
        tf.identity(logits, name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        finish(graph, tf.reduce_mean(each, name="loss"), "momentum", path, updates)


def linear(path):
    """A sum of squares, gradients clipped by their global norm, a fed learning rate."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [None, 8], name="x"), v1.placeholder(tf.float32, [None, 1], name="y")
        rate = v1.placeholder(tf.float32, [], name="rate")
        w, b = variable("w", [8, 1], tf.float32, 1, False), variable("b", [1], tf.float32, 2, False)
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y), name="loss")
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, [w, b]), 1.0)
        step = v1.train.get_or_create_global_step()
        v1.train.GradientDescentOptimizer(rate).apply_gradients(zip(gradients, [w, b]), global_step=step, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
        path.write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))


def branch(path):
    """One of two weights is used only if it is fed so."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float64, [None, 8], name="x"), v1.placeholder(tf.float64, [None, 1], name="y")
        use = v1.placeholder(tf.bool, [], name="use")
        w, v = variable("w", [8, 1], tf.float64, 1, False), variable("v", [8, 1], tf.float64, 2, False)
        more = tf.cond(use, lambda: tf.matmul(x, v), lambda: 0.0 * tf.matmul(x, w))
        logits = tf.add(tf.matmul(x, w), more, name="logits")
        finish(graph, tf.reduce_mean(tf.square(logits - y), name="loss"), "sgd", path)


def random_start(path):
    """Initial values that cannot be predicted."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [None, 8], name="x"), labels_of()
        w = v1.Variable(tf.random.uniform([8, 4]), name="w", use_resource=True)
        b = v1.Variable(tf.random.normal([4]), name="b", use_resource=False)
        logits = tf.add(tf.matmul(x, w), b, name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        finish(graph, tf.reduce_mean(each, name="loss"), "sgd", path)


def from_others(path, resource):
    """Initial values made of other variables' values, if those have one by then."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [None, 32], name="x"), labels_of()
        w = v1.Variable(v1.random_uniform([32, 4], -0.2, 0.2, seed=5), name="w", use_resource=resource)
        def start_of(v):
            return v1.cond(v1.is_variable_initialized(v), v.read_value, lambda: v.initial_value) if resource else v.initialized_value()

        anchor = v1.Variable(start_of(w), name="anchor", use_resource=resource, trainable=False)
        b = v1.Variable(tf.reduce_mean(start_of(anchor) * start_of(w), 0), name="b", use_resource=resource)
        logits = tf.add(tf.matmul(x, w), b, name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.add(tf.reduce_mean(each), tf.reduce_sum((w - anchor) ** 2), name="loss")
        finish(graph, loss, "adam", path)


def dense(x, units, name, phase):
    """What tf.keras.layers.Dense and tf.layers.dense make of three dimensions: shapes that are computed, and reshapes to them."""
    w = variable(name + "/kernel", [int(x.shape[-1]), units], tf.float32, phase, True)
    b = variable(name + "/bias", [units], tf.float32, phase + 1, True)
    return tf.nn.bias_add(tf.tensordot(x, w, [[2], [0]]), b)


def transformer(path):
    """Two blocks, one head; gradients clipped by their global norm."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float32, [None, 32], name="x"), labels_of()
        h = tf.reshape(x, [-1, 4, 8])
        for i in range(2):
            q, k, v = (dense(h, 8, "block_%d/%s" % (i, part), 7 * i + j) for j, part in enumerate(("query", "key", "value")))
            attention = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
            h = h + dense(tf.matmul(attention, v), 8, "block_%d/output" % i, 7 * i + 3)
            mean, var = tf.nn.moments(h, [2], keepdims=True)
            gain = variable("block_%d/gain" % i, [8], tf.float32, 7 * i + 4, True)
            h = (h - mean) * tf.math.rsqrt(var + 1e-3) * (1 + gain)
            h = h + dense(tf.tanh(dense(h, 16, "block_%d/in" % i, 7 * i + 5)), 8, "block_%d/out" % i, 7 * i + 6)
        logits = tf.identity(tf.reduce_mean(dense(h, 10, "classes", 20), 1), name="logits")
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.reduce_mean(each, name="loss")
        variables = v1.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        step = v1.train.get_or_create_global_step()
        v1.train.GradientDescentOptimizer(0.1).apply_gradients(zip(gradients, variables), global_step=step, name="train")
        v1.train.Saver(name="saver")
        v1.summary.scalar("loss_summary", loss)
        tf.identity(v1.summary.merge_all(), name="summaries")
        tf.group(v1.global_variables_initializer(), name="init")
        path.write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))


def contrastive(path):
    """Each row beside all others of the batch: negatives of the batch (the labels are its rows' numbers), hardest ones."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float64, [None, 32], name="x"), labels_of()
        a, b = (tf.nn.l2_normalize(tf.matmul(x, variable(n, [32, 10], tf.float64, i, True)), 1) for i, n in enumerate("ab"))
        rows = tf.range(tf.shape(x)[0])
        logits = tf.matmul(a, b, transpose_b=True, name="logits")
        both = [tf.nn.sparse_softmax_cross_entropy_with_logits(labels=rows, logits=side) for side in (logits, tf.transpose(logits))]
        same = tf.equal(y[:, None], y[None, :])
        distance = tf.reduce_sum(tf.square(a), 1)[:, None] - 2 * tf.matmul(a, a, transpose_b=True)
        hard = tf.reduce_max(tf.where(same, distance, -9 * tf.ones_like(distance)), 1) - tf.reduce_min(tf.where(same, 9 + distance, distance), 1)
        masked = tf.one_hot(rows, tf.shape(x)[0], dtype=tf.float64) * 1e9
        alone = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(rows, tf.shape(x)[0], dtype=tf.float64),
                                                        logits=tf.matmul(a, a, transpose_b=True) - masked + logits)
        finish(graph, tf.reduce_mean(both[0] + both[1] + tf.nn.softplus(hard) + 1e-9 * alone, name="loss"), "momentum", path)


def crossed(path):
    """Values of the batch as rows beside values of the batch as columns, broadcast in every way: what is 1 in a batch of one row was not broadcast."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float64, [None, 32], name="x"), labels_of()
        h = tf.matmul(x, variable("w", [32, 10], tf.float64, 0, True), name="logits")
        s = tf.matmul(h, tf.gather(variable("table", [10, 10], tf.float64, 1, True), y), transpose_b=True)
        v, u = tf.gather(variable("v", [10], tf.float64, 2, True), y), tf.reduce_sum(h, 1)
        column, row, n = u[:, None], v[None, :], tf.shape(x)[0]
        terms = [s + v, v * s, s * row, column - s, s / (2 + tf.tanh(column)), v - column, column * u, tf.maximum(row, column), row + tf.reshape(u, [n, 1]),
                 tf.where(s > 0, s + u, s - v), tf.reduce_sum(tf.tanh(h[:, None] * h[None]), 2), tf.tile(column, [1, n]) * v, u + v]
        finish(graph, tf.reduce_mean(tf.stack([tf.reduce_mean(tf.tanh(t)) for t in terms]), name="loss"), "momentum", path)


def noisy(path):
    """Dropout, noise, samples and shuffles with given seeds, outside of loops and inside."""
    with start().as_default() as graph:
        x, y = v1.placeholder(tf.float64, [None, 32], name="x"), labels_of()
        n = tf.shape(x)[0]
        h = tf.tanh(tf.matmul(x, variable("w0", [32, 10], tf.float64, 0, True)))
        h = tf.nn.dropout(h, rate=0.3, seed=3) + v1.random_normal([n, 10], stddev=0.1, dtype=tf.float64, seed=4)
        h += tf.transpose(v1.random_uniform([3, n, 10], dtype=tf.float64, seed=5), [1, 0, 2])[:, 1]
        h += tf.one_hot(v1.multinomial(h, 1, seed=6)[:, 0], 10, dtype=tf.float64)
        h += 0.1 * tf.random.stateless_normal(tf.shape(h), [1, 2], dtype=tf.float64)
        h += 0.1 * tf.random.shuffle(h, seed=7)
        w = variable("w1", [10, 10], tf.float64, 1, True)
        h = v1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.nn.dropout(tf.tanh(tf.matmul(h, w)), rate=0.2, seed=8) +
                                                            v1.random_normal([10], stddev=0.1, dtype=tf.float64, seed=9)), (0, h))[1]
        tf.identity(h, name="logits")
        finish(graph, tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h), name="loss"), "momentum", path)


def make(root, out):
    directory = out / HERE
    for optimizer in ("sgd", "momentum", "adam"):
        mlp(directory / ("mlp_%s.pb" % optimizer), tf.float32, optimizer, optimizer == "momentum")
        mlp(directory / ("mlp64_%s.pb" % optimizer), tf.float64, optimizer, optimizer == "adam")
    embedding(directory / "embedding_sgd.pb", "sgd", False)
    embedding(directory / "embedding_adam.pb", "adam", True)
    convolution(directory / "convolution.pb", "momentum")
    batch_norm(directory / "batch_norm.pb", "NHWC")
    linear(directory / "linear.pb")
    branch(directory / "branch.pb")
    contrastive(directory / "contrastive.pb")
    crossed(directory / "crossed.pb")
    noisy(directory / "noisy.pb")
    random_start(directory / "random_start.pb")
    from_others(directory / "from_others.pb", False)
    from_others(directory / "from_others_resource.pb", True)
    transformer(directory / "transformer.pb")
