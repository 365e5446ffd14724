"""Graphs of many hands: indices into the batch, sparse and partitioned state, nested control flow, unusual shapes and updates."""

import numpy as np
import tensorflow as tf

from graphs import IDS, IMAGE, ITEM, LENGTH, SEQ, T, TAGS, USER, X, Y, accuracy, batch_norm, conv, cross_entropy, dense, graph, layer_norm, mlp, v1, variable

STEP = np.arange(len(X)).astype("i4")


# ---- indices ----


@graph
def pooled_by_fed_index(t):
    """Each row names another row of its batch; a tree of one level is summed up with unsorted_segment_sum over B segments."""
    x, y = t.rows("x", X), t.rows("y", Y)
    parent = t.rows("parent", (USER % 6).astype("i4"))
    h = dense(x, 5, "h", tf.tanh)
    children = tf.math.unsorted_segment_sum(h, parent, tf.shape(x)[0])
    h = tf.nn.relu(dense(tf.concat([h, children, tf.gather(h, parent)], 1), 5, "g"))
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.1)


@graph
def edges_in_batch(t):
    """A graph net whose edges are pairs of rows of the batch, attention by segment softmax."""
    x, y = t.rows("x", X), t.rows("y", Y)
    n = tf.shape(x)[0]
    src = tf.range(n)
    dst = tf.concat([tf.math.floormod(src + 1, n), tf.math.floormod(src * 3, n)], 0)
    src = tf.concat([src, src], 0)
    h = dense(x, 4, "h")
    e = tf.nn.leaky_relu(dense(tf.concat([tf.gather(h, src), tf.gather(h, dst)], 1), 1, "a"))[:, 0]
    top = tf.math.unsorted_segment_max(e, dst, n)
    w = tf.exp(e - tf.gather(tf.stop_gradient(top), dst))
    z = tf.math.unsorted_segment_sum(w, dst, n)
    out = tf.math.unsorted_segment_sum(tf.gather(h, src) * w[:, None], dst, n) / (z[:, None] + 1e-6)
    t.minimize(cross_entropy(dense(out + h, 4, "o"), y), 0.1)


@graph
def dense_adjacency_fed(t):
    """A matrix of all nodes is fed whole at each step, the rows name the nodes that are labelled."""
    node, y = t.rows("node", STEP), t.rows("y", Y)
    a = np.abs(np.corrcoef(X)).astype("f")
    adjacency = t.whole("adjacency", (a / a.sum(1, keepdims=True)).round(4))
    features = tf.constant(X)
    h = tf.nn.relu(tf.matmul(adjacency, dense(features, 5, "a")))
    h = tf.matmul(adjacency, dense(h, 4, "b"))
    logits = tf.gather(h, node)
    t.minimize(cross_entropy(logits, y), 0.5, accuracy=accuracy(logits, y))


@graph
def neighbours_fed(t):
    """GraphSAGE: neighbours of each row by a fed table of numbers, two hops, features in a variable."""
    node = t.rows("node", STEP)
    near = t.rows("near", np.stack([(STEP + k) % 37 for k in (1, 5, 9)], 1).astype("i4"))
    y = t.rows("y", Y)
    features = v1.get_variable("features", initializer=X)
    table = tf.constant(np.stack([(STEP * 2 + k) % 37 for k in (1, 4)], 1).astype("i4"))
    one = tf.reduce_mean(tf.nn.embedding_lookup(features, near), 1)
    two = tf.reduce_mean(tf.nn.embedding_lookup(features, tf.gather(table, near)), [1, 2])
    h = tf.nn.l2_normalize(dense(tf.concat([tf.nn.embedding_lookup(features, node), one, two], 1), 5, "h", tf.nn.relu), 1)
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.1)


@graph
def updated_rows_of_a_matrix(t):
    """tensor_scatter_nd_update, add and sub into a [B, 6] and a constant-sized tensor."""
    x, y, tag = t.rows("x", X), t.rows("y", Y), t.rows("tag", TAGS[:, 0].copy())
    b = tf.shape(x)[0]
    h = dense(x, 6, "h", tf.tanh)
    at = tf.stack([tf.range(b), tag], 1)
    h = tf.tensor_scatter_nd_update(h, at, tf.zeros([b]))
    totals = tf.tensor_scatter_nd_add(tf.zeros([3, 6]), tag[:, None], h)
    totals = tf.tensor_scatter_nd_sub(totals, [[0]], tf.reduce_mean(h, 0, keepdims=True))
    t.minimize(cross_entropy(dense(h + tf.gather(totals, tag), 4, "o"), y), 0.1)


@graph
def strided_in_all_ways(t):
    """Newaxis, ellipsis, negative strides and shrinking, of the batch's axis and others, and their gradients."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    a = x[..., ::-1][:, 1:-1:2]
    b = x[::-1, tf.newaxis, 0, 1:4]
    c = x[:, -1, ..., tf.newaxis]
    h = tf.concat([dense(tf.reshape(a, [-1, 10]), 4, "a"), dense(b[:, 0], 4, "b"), dense(c[..., 0], 4, "c")], 1)
    mean_first = tf.reduce_mean(h[:3], 0)
    t.minimize(cross_entropy(dense(tf.nn.relu(h), 4, "o"), y) + 0.1 * tf.reduce_sum(mean_first**2) + 0.1 * tf.reduce_mean(h[-2:] ** 2), 0.1)


@graph
def batch_in_the_middle(t):
    """Transposed to [time, batch, d], to [d, time, batch], reduced there, tiled, and back."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    tm = tf.transpose(x, [1, 0, 2])
    s = tf.nn.softmax(dense(tm, 3, "s"), 0)
    m = tf.reduce_mean(tm, 1, keepdims=True)
    z = tf.transpose(tf.reduce_sum((tm - m)[..., None] * s[:, :, None], 0), [2, 1, 0])
    wide = tf.tile(z, [1, 2, 1])
    h = tf.reshape(tf.transpose(wide, [2, 0, 1]), [-1, 30])
    std = tf.math.reduce_std(z, -1)
    t.minimize(cross_entropy(dense(h, 4, "o"), y) + 0.1 * tf.reduce_mean(tf.square(std - 1)), 0.05)


@graph
def two_batches_of_one_feed(t):
    """The batch is doubled by concat (original and noisy), goes through one net, and is split again by tf.split."""
    x, y = t.rows("x", X), t.rows("y", Y)
    both = tf.concat([x, x + 0.1 * tf.random.normal(tf.shape(x), seed=6)], 0)
    z = batch_norm(dense(both, 6, "h", bias=False), "bn")
    a, b = tf.split(z, 2)
    n = tf.shape(x)[0]
    s = tf.matmul(tf.nn.l2_normalize(z, 1), tf.nn.l2_normalize(z, 1), transpose_b=True) / 0.5 - 1e9 * tf.eye(2 * n)
    label = tf.concat([tf.range(n) + n, tf.range(n)], 0)
    consistency = tf.reduce_mean((tf.nn.softmax(a) - tf.nn.softmax(b)) ** 2)
    t.minimize(cross_entropy(dense(tf.nn.relu(a), 4, "o"), y) + 0.2 * cross_entropy(s, label) + consistency, 0.1)


@graph
def many_feeds_concatenated(t):
    """Source and target batches through one net with one batch norm; the sizes are taken from both."""
    a, b, y = t.rows("a", X), t.rows("b", X[::-1].copy()), t.rows("y", Y)
    h = tf.nn.relu(batch_norm(dense(tf.concat([a, b], 0), 6, "h", bias=False), "bn"))
    na, nb = tf.shape(a)[0], tf.shape(b)[0]
    ha, hb = tf.ensure_shape(tf.slice(h, [0, 0], [na, -1]), [None, 6]), h[na : na + nb]
    gap = tf.reduce_sum((tf.reduce_mean(ha, 0) - tf.reduce_mean(hb, 0)) ** 2)
    p = tf.nn.softmax(dense(hb, 4, "o2"))
    entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p + 1e-6), 1))
    t.minimize(cross_entropy(dense(ha, 4, "o"), y) + gap + 0.1 * entropy, 0.1)


@graph
def tiled_rows(t):
    """Each row five times (samples in the second axis, flattened), importance weights, back again."""
    x, y = t.rows("x", X), t.rows("y", T)
    wide = tf.reshape(tf.tile(x[:, None], [1, 5, 1]), [-1, 8])
    noisy = wide + 0.3 * tf.random.normal(tf.shape(wide), seed=14)
    p = dense(dense(noisy, 6, "h", tf.tanh), 2, "o")
    p = tf.reshape(p, [-1, 5, 2])
    w = tf.nn.softmax(-tf.reduce_sum((p - y[:, None]) ** 2, -1), 1)
    t.minimize(tf.reduce_mean(tf.reduce_sum(w[..., None] * (p - y[:, None]) ** 2, [1, 2])), 0.1, ess=tf.reduce_mean(1 / tf.reduce_sum(w**2, 1)))


@graph
def tiled_batches(t):
    """The whole batch three times one behind the other (K samples in front), reshaped to [K, B]."""
    x, y = t.rows("x", X), t.rows("y", Y)
    k = 3
    wide = tf.tile(x, [k, 1])
    h = tf.nn.dropout(dense(wide, 8, "h", tf.nn.relu), 0.3, seed=19)
    p = tf.reshape(tf.nn.softmax(dense(h, 4, "o")), [k, tf.shape(x)[0], 4])
    mean = tf.reduce_mean(p, 0)
    loss = -tf.reduce_mean(tf.math.log(tf.gather_nd(mean, tf.stack([tf.range(tf.shape(x)[0]), y], 1)) + 1e-6))
    t.minimize(loss, 0.2, disagreement=tf.reduce_mean(tf.math.reduce_variance(p, 0)))


# ---- state ----


@graph
def partitioned_and_sparse(t):
    """A partitioned resource table with L2 on what was looked up, Adam on it, lookups combined by hand with max_norm."""
    ids, y = t.rows("ids", IDS), t.rows("y", Y)
    with v1.variable_scope("p", partitioner=v1.fixed_size_partitioner(3), use_resource=True):
        table = v1.get_variable("table", [20, 5], initializer=v1.truncated_normal_initializer(seed=4))
    e = v1.nn.embedding_lookup(table, ids, partition_strategy="mod", max_norm=0.8)
    mask = tf.cast(ids > 2, tf.float32)[..., None]
    h = tf.reduce_sum(e * mask, 1) / (tf.reduce_sum(mask, 1) + 1e-3)
    t.minimize(cross_entropy(dense(h, 4, "o"), y) + 0.01 * tf.nn.l2_loss(e), optimizer=v1.train.AdagradOptimizer(0.1))


@graph
def welford_normalizer(t):
    """Count, mean and M2 merged with those of the batch (Chan's formula) before they are used; int64 counter."""
    x, y = t.rows("x", X), t.rows("y", T)
    count = v1.get_variable("count", initializer=np.int64(0), trainable=False)
    mean, m2 = v1.get_variable("mean", initializer=np.zeros(8, "d"), trainable=False), v1.get_variable("m2", initializer=np.ones(8, "d"), trainable=False)
    xd = tf.cast(x, tf.float64)
    n = tf.shape(x, out_type=tf.int64)[0]
    bm = tf.reduce_mean(xd, 0)
    bm2 = tf.reduce_sum((xd - bm) ** 2, 0)
    old, old_mean = tf.cast(count.read_value(), tf.float64), mean.read_value()
    total = old + tf.cast(n, tf.float64)
    with tf.control_dependencies([old, old_mean]):
        new_m2 = v1.assign_add(m2, bm2 + (bm - old_mean) ** 2 * old * tf.cast(n, tf.float64) / total)
        new_mean = v1.assign_add(mean, (bm - old_mean) * tf.cast(n, tf.float64) / total)
        new_count = v1.assign_add(count, n)
    std = tf.sqrt(new_m2 / tf.cast(new_count, tf.float64))
    z = tf.cast((xd - new_mean) / (std + 0.1), tf.float32)
    t.minimize(tf.reduce_mean((dense(z, 2, "o") - y) ** 2), 0.1, seen=new_count)


@graph
def votes_in_a_table(t):
    """Counts by scatter_nd_add of pairs, the largest by scatter_max, rates by scatter_mul: all of rows."""
    x, user, item, y = t.rows("x", X), t.rows("user", USER), t.rows("item", ITEM), t.rows("y", Y)
    votes = v1.get_variable("votes", initializer=np.zeros((12, 15), "f"), trainable=False)
    most = v1.get_variable("most", initializer=np.zeros(12, "f"), trainable=False, use_resource=True)
    fade = v1.get_variable("fade", initializer=np.ones(15, "f"), trainable=False)
    logits = mlp(x)
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    a = v1.scatter_nd_add(votes, tf.stack([user, item], 1), ce)
    b = most.scatter_max(tf.IndexedSlices(ce, user))
    c = v1.scatter_mul(fade, item, tf.exp(-0.1 * ce))
    with tf.control_dependencies([a, c]):
        bonus = tf.gather(c, item) + 0.1 * tf.gather_nd(a, tf.stack([user, item], 1))
    t.minimize(tf.reduce_mean(ce * tf.stop_gradient(bonus)), 0.1, before=[b])


@graph
def slow_and_fast_weights(t):
    """Swa every third step in v1.cond inside a cond; cyclical rate; the average is used for a second fetch."""
    x, y = t.rows("x", X), t.rows("y", Y)
    step = v1.train.get_or_create_global_step()
    cycle = tf.cast(step % 6, tf.float32) / 6
    rate = 0.05 + 0.1 * (1 - tf.abs(cycle * 2 - 1))
    w = variable("w", (8, 4))
    loss = cross_entropy(tf.matmul(x, w), y)
    swa, n = v1.get_variable("swa", initializer=np.zeros((8, 4), "f"), trainable=False), v1.get_variable("n", initializer=np.float32(0), trainable=False)
    second = cross_entropy(tf.matmul(x, swa), y)
    with tf.control_dependencies([second]):
        train = v1.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        now, k = w.read_value(), n.read_value()

        def merge():
            with tf.control_dependencies([v1.assign(swa, (swa * k + now) / (k + 1))]):
                return tf.group(v1.assign_add(n, 1.0))

        def average():
            return v1.cond(loss < 2.0, merge, lambda: tf.group(v1.assign_add(n, 0.0)))

        done = v1.cond(tf.equal(step.read_value() % 3, 0), average, lambda: tf.no_op())
    t.fetch(second=second)
    t.train(loss, done)


@graph
def best_weights_kept(t):
    """Early stopping inside the graph: the best smoothed loss, its weights, patience; a batch decides."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = variable("w", (8, 4))
    loss = cross_entropy(tf.matmul(x, w), y)
    best, kept, wait = v1.get_variable("best", initializer=np.float32(9), trainable=False), v1.get_variable("kept", initializer=np.zeros((8, 4), "f"), trainable=False), v1.get_variable("wait", initializer=np.int32(0), trainable=False)
    g = tf.gradients(loss, w)[0]
    better = tf.logical_and(loss < best - 1e-3, tf.reduce_all(tf.math.is_finite(g)))
    now = tf.identity(w)
    with tf.control_dependencies([g, better, now]):
        ops = [v1.assign(best, tf.where(better, loss, best)), v1.assign(kept, tf.where(better, now, kept)), v1.assign(wait, tf.where(better, 0, wait + 1))]
    with tf.control_dependencies(ops):
        stop = ops[2] > 5
        w2 = v1.assign_sub(w, tf.where(stop, 0.01, 0.3) * g)
    t.train(loss, w2)


@graph
def asymmetric_updates(t):
    """Generator twice, critic once, by tf.while_loop-free unrolling: each step's gradients see the weights just written."""
    x, z = t.rows("x", X[:, :3].copy()), t.rows("z", T)
    g, d = v1.get_variable("g", initializer=np.ones((2, 3), "f") * 0.2, use_resource=True), v1.get_variable("d", initializer=np.ones((3, 1), "f") * 0.1, use_resource=True)

    def critic_loss():
        return tf.reduce_mean(tf.nn.softplus(-tf.matmul(x, d))) + tf.reduce_mean(tf.nn.softplus(tf.matmul(tf.matmul(z, g), d)))

    def generator_loss():
        return tf.reduce_mean(tf.nn.softplus(-tf.matmul(tf.matmul(z, g), d))) + 0.05 * tf.reduce_sum(g.read_value() ** 2)

    first = critic_loss()
    with tf.control_dependencies([d.assign_sub(0.1 * tf.gradients(first, d)[0])]):
        second = generator_loss()
        with tf.control_dependencies([g.assign_sub(0.1 * tf.gradients(second, g)[0])]):
            third = generator_loss()
            last = g.assign_sub(0.1 * tf.gradients(third, g)[0])
    t.fetch(third=third)
    t.train(first, last)


@graph
def learned_optimizer_step(t):
    """The step itself is learned: a loss after two unrolled steps, differentiated through the gradients."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w0, log_rate = variable("w0", (8, 4)), v1.get_variable("log_rate", initializer=np.full((8, 1), -1, "f"))
    w, losses = w0, []
    for _ in range(2):
        losses.append(cross_entropy(tf.matmul(x, w), y))
        w = w - tf.exp(log_rate) * tf.gradients(losses[-1], w)[0]
    losses.append(cross_entropy(tf.matmul(x, w), y))
    t.minimize(tf.add_n(losses), 0.1, gain=losses[0] - losses[-1] + 1)


# ---- control flow ----


@graph
def halting_by_row(t):
    """Adaptive computation time: each row halts by itself, unrolled with masks; the ponder cost is a mean over rows."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 5, "in", tf.tanh)
    total, out, ponder = tf.zeros_like(h[:, :1]), tf.zeros_like(h), 0.0
    for i in range(4):
        with v1.variable_scope("step", reuse=v1.AUTO_REUSE):
            h = dense(h, 5, "h", tf.tanh)
            p = dense(h, 1, "p", tf.sigmoid)
        running = tf.cast(total < 0.9, tf.float32)
        p = tf.where(total + p * running > 0.9, 1 - total, p) * running if i < 3 else (1 - total) * running
        total, out, ponder = total + p, out + p * h, ponder + tf.reduce_mean(running)
    t.minimize(cross_entropy(dense(out, 4, "o"), y) + 0.01 * tf.reduce_mean(total), 0.2, ponder=ponder)


@graph
def loop_of_solver(t):
    """A v1 while loop over all rows with a trip count by a constant: Sinkhorn's scaling of a [B, 4] matrix, detached."""
    x, y = t.rows("x", X), t.rows("y", Y)
    logits = mlp(x)
    k = tf.exp(tf.stop_gradient(logits))
    n = tf.cast(tf.shape(x)[0], tf.float32)

    def body(i, u, v):
        u = 1 / (tf.linalg.matvec(k, v) * n)
        return i + 1, u, 0.25 / tf.linalg.matvec(k, u, transpose_a=True)

    _, u, v = tf.while_loop(lambda i, *_: i < 5, body, [0, tf.ones_like(k[:, 0]), tf.ones([4])])
    plan = u[:, None] * k * v[None] * n
    t.minimize(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=tf.stop_gradient(plan), logits=logits)) + cross_entropy(logits, y), 0.1)


@graph(v2=True)
def branches_by_switch(t):
    """tf.switch_case by the step chooses one of three losses over the batch, gradients through it."""
    x, y, r = t.rows("x", X), t.rows("y", Y), t.rows("r", T)
    logits = mlp(x, use_resource=True)
    step = v1.train.get_or_create_global_step()
    which = tf.cast(step % 3, tf.int32)
    branches = [lambda: cross_entropy(logits, y), lambda: tf.reduce_mean((logits[:, :2] - r) ** 2), lambda: tf.reduce_mean(tf.math.reduce_variance(logits, 0))]
    t.minimize(tf.switch_case(which, branches), 0.1)


@graph
def nested_conditions(t):
    """A cond on the batch's mean inside one on a fed number; both sides give rows."""
    x, y, mode = t.rows("x", X), t.rows("y", Y), t.whole("mode", np.int32(2))
    h = dense(x, 6, "h")
    h = v1.cond(mode > 1, lambda: v1.cond(tf.reduce_mean(h) > 0, lambda: tf.nn.relu(h), lambda: tf.nn.elu(h)), lambda: tf.tanh(h))
    t.minimize(cross_entropy(dense(h, 4, "o"), y), 0.1)


@graph
def mapped_pairs(t):
    """tf.map_fn over rows with a tuple, a matrix product per row, results of two dtypes."""
    x, n, y = t.rows("x", SEQ), t.rows("n", LENGTH), t.rows("y", Y)
    w = variable("w", (5, 5))

    def one(e):
        a, k = e
        s = tf.matmul(tf.matmul(a, w), a, transpose_b=True)
        m = tf.sequence_mask(k, 6, tf.float32)
        return tf.reduce_sum(tf.nn.softmax(s) * m[None], 1), tf.argmax(m * a[:, 0], output_type=tf.int32)

    h, at = tf.map_fn(one, (x, n), dtype=(tf.float32, tf.int32))
    t.minimize(cross_entropy(dense(tf.ensure_shape(h, [None, 6]), 4, "o"), y), 0.1, at=at)


@graph
def folded_over_time(t):
    """tf.foldl and foldr over a time-major sequence with a context of the batch's mean made before."""
    x, y = t.rows("x", SEQ), t.rows("y", Y)
    tm = tf.transpose(x, [1, 0, 2])
    u = variable("u", (5, 5))
    centre = tf.reduce_mean(x, [0, 1])
    a = tf.foldl(lambda h, e: tf.tanh(tf.matmul(h, u) + e - centre), tm, tf.zeros_like(tm[0]))
    b = tf.foldr(lambda h, e: tf.maximum(0.5 * h, e), tm)
    t.minimize(cross_entropy(dense(tf.concat([a, b], 1), 4, "o"), y), 0.1)


@graph(v2=True)
def array_of_losses(t):
    """A loop of TensorFlow 2 that collects losses of time steps in a TensorArray, masks by length, normalises by tokens."""
    x, tag, n = t.rows("x", SEQ), t.rows("tag", TAGS), t.rows("n", LENGTH)
    w, v = variable("w", (5, 6), use_resource=True), variable("v", (6, 3), use_resource=True)

    @tf.function
    def run(xs, tags, lengths):
        losses = tf.TensorArray(tf.float32, size=6)
        h = tf.zeros([tf.shape(xs)[0], 6])
        for i in tf.range(6):
            h = 0.5 * h + tf.tanh(tf.matmul(xs[:, i], w))
            ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags[:, i], logits=tf.matmul(h, v))
            losses = losses.write(i, tf.reduce_sum(ce * tf.cast(i < lengths, tf.float32)))
        return tf.reduce_sum(losses.stack()) / tf.cast(tf.reduce_sum(lengths), tf.float32)

    t.minimize(run(x, tag, n), 0.2)


# ---- more of what people train ----


@graph
def neural_topics(t):
    """Counts of words as rows, a logistic normal, topic entropy over the batch, mixed with batch norm without scale."""
    x, e = t.rows("x", np.random.RandomState(8).poisson(1.0, (len(X), 12)).astype("f")), t.rows("e", X[:, :4].copy())
    h = tf.nn.softplus(dense(tf.math.log1p(x), 6, "h", bias=False))
    mu, lv = batch_norm(dense(h, 4, "mu", bias=False), "bn1"), 0.1 * batch_norm(dense(h, 4, "lv", bias=False), "bn2")
    theta = tf.nn.softmax(mu + tf.exp(lv / 2) * e)
    p = tf.nn.softmax(tf.matmul(theta, variable("beta", (4, 12))))
    nll = -tf.reduce_sum(x * tf.math.log(p + 1e-8), 1)
    kl = 0.5 * tf.reduce_sum(tf.exp(lv) + mu**2 - 1 - lv, 1)
    topics = tf.reduce_mean(theta, 0)
    t.minimize(tf.reduce_mean(nll + kl) / 10, 0.05, topics=tf.reduce_max(topics), perplexity=tf.exp(tf.reduce_sum(nll) / tf.reduce_sum(x)))


@graph
def forecasting_blocks(t):
    """N-BEATS with reversible normalisation, a pinball loss at three levels and scaled error against a naive forecast."""
    s = t.rows("s", IMAGE.reshape(len(X), -1)[:, :14].cumsum(1).astype("f"))
    x, y = s[:, :10], s[:, 10:]
    m, v = tf.nn.moments(x, [1], keepdims=True)
    r, total = (x - m) / tf.sqrt(v + 1e-2), 0.0
    for i in range(2):
        h = dense(r, 6, f"h{i}", tf.nn.relu)
        r, total = r - dense(h, 10, f"b{i}"), total + dense(h, 12, f"f{i}")
    p = tf.reshape(total, [-1, 4, 3]) * tf.sqrt(v + 1e-2)[..., None] + m[..., None]
    q = tf.constant([0.1, 0.5, 0.9])
    e = y[..., None] - p
    scale = tf.reduce_mean(tf.abs(x[:, 1:] - x[:, :-1]), 1)
    pin = tf.reduce_mean(tf.maximum(q * e, (q - 1) * e), [1, 2])
    mase = tf.reduce_mean(tf.reduce_mean(tf.abs(e[..., 1]), 1) / scale)
    t.minimize(tf.reduce_mean(pin / scale), 0.02, mase=mase, coverage=tf.reduce_mean(tf.cast(tf.logical_and(y > p[..., 0], y < p[..., 2]), tf.float32)))


@graph
def anchors_and_boxes(t):
    """A detector's head: anchors matched to one box by IoU, focal loss divided by the number of matches in the batch, GIoU."""
    x = t.rows("x", IMAGE)
    box = t.rows("box", np.stack([USER % 4, ITEM % 4, USER % 4 + 3, ITEM % 4 + 3], 1).astype("f"))
    h = conv(x, 6, "c", stride=2, activation=tf.nn.relu)
    logit, delta = tf.reshape(conv(h, 1, "s"), [-1, 16]), tf.reshape(conv(h, 4, "d"), [-1, 16, 4])
    g = np.stack(np.meshgrid(np.arange(4) * 2, np.arange(4) * 2), -1).reshape(16, 2).astype("f")
    anchor = tf.constant(np.concatenate([g, g + 3], 1))

    def overlap(a, b):
        low, high = tf.maximum(a[..., :2], b[..., :2]), tf.minimum(a[..., 2:], b[..., 2:])
        inter = tf.reduce_prod(tf.maximum(high - low, 0), -1)
        area = [tf.reduce_prod(tf.maximum(z[..., 2:] - z[..., :2], 1e-3), -1) for z in (a, b)]
        union = area[0] + area[1] - inter
        hull = tf.reduce_prod(tf.maximum(a[..., 2:], b[..., 2:]) - tf.minimum(a[..., :2], b[..., :2]), -1)
        return inter / union, inter / union - (hull - union) / hull

    iou, _ = overlap(anchor[None], box[:, None])
    match = tf.cast(tf.logical_or(iou > 0.5, iou >= tf.reduce_max(iou, 1, keepdims=True)), tf.float32)
    p = tf.sigmoid(logit)
    focal = tf.pow(tf.abs(match - p), 2.0) * tf.nn.sigmoid_cross_entropy_with_logits(labels=match, logits=logit)
    n = tf.maximum(tf.reduce_sum(match), 1.0)
    _, giou = overlap(anchor[None] + 0.5 * tf.tanh(delta), box[:, None] + tf.zeros_like(delta))
    t.minimize((tf.reduce_sum(focal) + tf.reduce_sum(match * (1 - giou))) / n, 0.05, matches=n)


@graph
def style_and_perception(t):
    """Gram matrices of features against a fixed image's, content loss through a frozen net, total variation."""
    x = t.rows("x", IMAGE * 0.5)
    style = tf.constant(IMAGE[:1] * 0.5)
    frozen = variable("frozen", (3, 3, 2, 4), trainable=False)

    def gram(f):
        f = tf.reshape(f, [-1, 64, 4])
        return tf.matmul(f, f, transpose_a=True) / 64

    out = conv(conv(x, 4, "a", activation=tf.nn.relu), 2, "b")
    f, fx, fs = (tf.nn.relu(tf.nn.conv2d(i, frozen, 1, "SAME")) for i in (out, x, style))
    loss = tf.reduce_mean((f - fx) ** 2) + 2 * tf.nn.l2_loss(gram(f) - gram(fs)) / tf.cast(tf.shape(x)[0], tf.float32) / 16
    t.minimize(loss + 1e-3 * tf.reduce_mean(tf.image.total_variation(out)), 0.1)


@graph
def cycle_of_two(t):
    """CycleGAN's six losses, least squares, one optimizer over two nets and another over the critics, in one group."""
    a, b = t.rows("a", X[:, :4].copy()), t.rows("b", X[:, 4:].copy())

    def net(z, n, name):
        with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
            return dense(dense(z, 5, "h", tf.nn.leaky_relu), n, "o")

    fb, fa = net(a, 4, "gab"), net(b, 4, "gba")
    cycle = tf.reduce_mean(tf.abs(net(fb, 4, "gba") - a)) + tf.reduce_mean(tf.abs(net(fa, 4, "gab") - b))
    same = tf.reduce_mean((net(b, 4, "gab") - b) ** 2) + tf.reduce_mean((net(a, 4, "gba") - a) ** 2)
    adv = tf.reduce_mean((net(fb, 1, "db") - 1) ** 2) + tf.reduce_mean((net(fa, 1, "da") - 1) ** 2)
    g_loss = adv + cycle + 0.5 * same
    d_loss = tf.add_n([tf.reduce_mean((net(z, 1, n) - y) ** 2) for z, n, y in ((b, "db", 0.9), (tf.stop_gradient(fb), "db", 0.0), (a, "da", 0.9), (tf.stop_gradient(fa), "da", 0.0))])
    vs = v1.trainable_variables()
    go, do = v1.train.GradientDescentOptimizer(0.05), v1.train.RMSPropOptimizer(0.002, epsilon=1e-2)
    gp, dp = go.compute_gradients(g_loss, [v for v in vs if v.name[0] == "g"]), do.compute_gradients(d_loss, [v for v in vs if v.name[0] == "d"])
    with tf.control_dependencies([g for g, _ in gp + dp]):
        train = tf.group(go.apply_gradients(gp), do.apply_gradients(dp))
    t.fetch(cycle=cycle, d_loss=d_loss)
    t.train(g_loss, train)


@graph
def slots_and_matching(t):
    """Slot attention with seeded slots, a set loss by the smaller of both Chamfer directions."""
    x = t.rows("x", SEQ)
    b = tf.shape(x)[0]
    slots = variable("mu", (1, 1, 5)) + 0.3 * tf.random.normal([b, 3, 5], seed=23)
    k, v = dense(layer_norm(x, "ln"), 5, "k", bias=False), dense(x, 5, "v")
    for _ in range(2):
        with v1.variable_scope("it", reuse=v1.AUTO_REUSE):
            a = tf.nn.softmax(tf.einsum("bnd,bkd->bnk", k, dense(slots, 5, "q", bias=False)) / 2.2) + 1e-6
            a /= tf.reduce_sum(a, 1, keepdims=True)
            slots = slots + dense(tf.einsum("bnk,bnd->bkd", a, v), 5, "u", tf.tanh)
    d = tf.reduce_sum((x[:, :, None] - slots[:, None]) ** 2, -1)
    loss = tf.reduce_mean(tf.reduce_mean(tf.reduce_min(d, 2), 1) + tf.reduce_mean(tf.reduce_min(d, 1), 1))
    t.minimize(loss, 0.02)


@graph
def prefix_language_model(t):
    """A byte of everything: shared table partly frozen, prefix mask from lengths, z-loss, token accuracy, gradient noise by step."""
    ids, n = t.rows("ids", IDS), t.rows("n", LENGTH)
    step = v1.train.get_or_create_global_step()
    fixed, moving = variable("fixed", (10, 6), trainable=False), variable("moving", (10, 6))
    table = tf.concat([fixed, moving], 0)
    h = tf.nn.embedding_lookup(table, ids) + variable("pos", (6, 6))
    i, j = tf.range(6)[:, None], tf.range(6)[None]
    seen = tf.logical_or((j <= i)[None], (j[None] < n[:, None, None]))
    s = tf.einsum("btd,bsd->bts", dense(h, 6, "q"), dense(h, 6, "k", bias=False)) / 2.4
    h = h + tf.matmul(tf.nn.softmax(tf.where(seen, s, -1e9 * tf.ones_like(s))), dense(h, 6, "v"))
    logits = tf.matmul(tf.reshape(layer_norm(h, "ln")[:, :-1], [-1, 6]), table, transpose_b=True)
    target = tf.reshape(ids[:, 1:], [-1])
    w = tf.reshape(tf.cast(j[:, 1:] >= n[:, None], tf.float32), [-1])
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    z = tf.reduce_logsumexp(logits, -1) ** 2
    loss = tf.reduce_sum((ce + 1e-3 * z) * w) / (tf.reduce_sum(w) + 1e-6)
    opt = v1.train.GradientDescentOptimizer(0.1)
    pairs = opt.compute_gradients(loss)
    scale = tf.math.rsqrt(1 + tf.cast(step, tf.float32))
    pairs = [(tf.convert_to_tensor(g) + 1e-3 * scale * tf.random.stateless_normal(v.shape, tf.stack([tf.cast(step, tf.int32), k])), v) for k, (g, v) in enumerate(pairs)]
    t.fetch(accuracy=tf.reduce_sum(w * tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), target), tf.float32)) / (tf.reduce_sum(w) + 1e-6))
    t.train(loss, opt.apply_gradients(pairs, global_step=step))
