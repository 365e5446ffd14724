"""Losses: tf.losses.* with weights, contrastive and metric learning, several tasks, tf.metrics.*."""

import numpy as np
import tensorflow as tf

from graphs import ITEM, LENGTH, SEQ, T, TAGS, USER, WEIGHT, X, Y, classifier, cross_entropy, dense, graph, mlp, v1, variable

BINARY = (X[:, :1] + 0.3 * X[:, 1:2] > 0).astype("f")
REGRESSIONS = {
    "absolute_difference": v1.losses.absolute_difference,
    "huber": lambda y, p, w, **m: v1.losses.huber_loss(y, p, w, delta=0.5, **m),
    "mean_squared_error": v1.losses.mean_squared_error,
    "mean_pairwise_squared_error": lambda y, p, w, reduction=None: v1.losses.mean_pairwise_squared_error(y, p, w),
    "log_loss": lambda y, p, w, **m: v1.losses.log_loss(tf.cast(y > 0, tf.float32), tf.sigmoid(p), w, **m),
    "hinge": lambda y, p, w, **m: v1.losses.hinge_loss(tf.cast(y > 0, tf.float32), p, w, **m),
    "sigmoid": lambda y, p, w, **m: v1.losses.sigmoid_cross_entropy(tf.cast(y > 0, tf.float32), p, w, label_smoothing=0.1, **m),
    "cosine": lambda y, p, w, **m: v1.losses.cosine_distance(tf.nn.l2_normalize(y, 1), tf.nn.l2_normalize(p, 1), axis=1, weights=w, **m),
    "softmax": lambda y, p, w, **m: v1.losses.softmax_cross_entropy(tf.nn.softmax(3 * y), p, w, **m),
}


def weights(t, kind):
    if kind == "scalar":
        return 0.7
    w = t.rows("weight", WEIGHT)
    return w if kind == "rows" else w[:, None] if kind == "column" else tf.cast(w > 0.2, tf.float32)[:, None]


def regression(loss, kind, **more):
    def build(t):
        x, y = t.rows("x", X), t.rows("y", T)
        w = weights(t, "rows" if loss == "softmax" and kind != "scalar" else "column" if loss == "mean_pairwise_squared_error" and kind != "scalar" else kind)
        value = REGRESSIONS[loss](y, dense(dense(x, 6, "a", tf.tanh), 2, "b"), w, **more)
        t.minimize(v1.losses.get_total_loss(), 0.002 if loss == "mean_pairwise_squared_error" else 0.1, value=value)

    return build


for _i, _name in enumerate(REGRESSIONS):
    graph(regression(_name, "scalar"), name=f"losses_{_name}")
    graph(regression(_name, "column" if _i % 2 else "mask"), name=f"losses_{_name}_weighted")
for _name, _how in (("sum", v1.losses.Reduction.SUM), ("over_batch", v1.losses.Reduction.SUM_OVER_BATCH_SIZE), ("mean", v1.losses.Reduction.MEAN)):
    graph(regression("mean_squared_error", "column", reduction=_how), name=f"losses_reduction_{_name}")


@graph
def losses_sparse_softmax_weighted(t):
    x, y, w = t.rows("x", X), t.rows("y", Y), t.rows("weight", WEIGHT)
    loss = v1.losses.sparse_softmax_cross_entropy(y, mlp(x), weights=w)
    t.minimize(loss)


@graph
def losses_class_weights(t):
    """Weights of classes are gathered from a table."""
    x, y = t.rows("x", X), t.rows("y", Y)
    w = tf.gather(tf.constant([1.0, 2.0, 0.5, 0.0]), y)
    t.minimize(v1.losses.sparse_softmax_cross_entropy(y, mlp(x), weights=w))


@graph
def losses_with_regularizers(t):
    """get_total_loss with regularisers of variables and an activity loss."""
    x, y = t.rows("x", X), t.rows("y", Y)
    with v1.variable_scope("net", regularizer=lambda w: 0.01 * tf.nn.l2_loss(w)):
        h = dense(x, 6, "a", tf.nn.relu)
        logits = dense(h, 4, "b")
    v1.losses.add_loss(0.05 * tf.reduce_mean(tf.abs(h)))
    v1.losses.sparse_softmax_cross_entropy(y, logits)
    total, extra = v1.losses.get_total_loss(), v1.losses.get_regularization_loss()
    t.minimize(total, before=[total, extra], regularization=extra)


@graph
def rmse(t):
    x, y = t.rows("x", X), t.rows("y", T)
    t.minimize(tf.sqrt(tf.reduce_mean(tf.square(dense(x, 2, "a") - y))))


@graph
def rmse_resource_adam(t):
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(dense(x, 6, "a", tf.nn.relu, use_resource=True), 2, "b", use_resource=True)
    t.minimize(tf.sqrt(tf.reduce_mean(tf.square(p - y)) + 1e-8), optimizer=v1.train.AdamOptimizer(0.01), predictions=p)


@graph
def masked_mean(t):
    x, y, w = t.rows("x", X), t.rows("y", Y), t.rows("weight", WEIGHT)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    mask = tf.cast(w > 0.3, tf.float32)
    t.minimize(tf.reduce_sum(each * mask) / tf.maximum(tf.reduce_sum(mask), 1.0), kept=tf.reduce_sum(mask))


@graph
def boolean_masked(t):
    """tf.boolean_mask before the mean."""
    x, y, w = t.rows("x", X), t.rows("y", Y), t.rows("weight", WEIGHT)
    mask = w > 0.3
    t.minimize(cross_entropy(tf.boolean_mask(mlp(x), mask), tf.boolean_mask(y, mask)), rows=tf.reduce_sum(tf.cast(mask, tf.int32)))


@graph
def hard_examples(t):
    """The mean of the batch's four largest losses."""
    x, y = t.rows("x", X), t.rows("y", Y)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=mlp(x))
    t.minimize(tf.reduce_mean(tf.math.top_k(each, 4)[0]), hardest=tf.reduce_max(each))


@graph
def quantile_loss(t):
    x, y = t.rows("x", X), t.rows("y", T)
    e = y - dense(x, 2, "a")
    t.minimize(tf.reduce_mean(tf.maximum(0.9 * e, (0.9 - 1) * e)), 0.05)


@graph
def focal_loss(t):
    x, y = t.rows("x", X), t.rows("y", BINARY)
    p = tf.sigmoid(dense(dense(x, 5, "a", tf.nn.relu), 1, "b"))
    pt = tf.where(y > 0.5, p, 1 - p)
    t.minimize(-tf.reduce_mean(tf.pow(1 - pt, 2.0) * tf.math.log(pt + 1e-6)), positives=tf.reduce_sum(y))


@graph
def dice_loss(t):
    """A quotient of sums over the batch."""
    x, y = t.rows("x", X), t.rows("y", BINARY)
    p = tf.sigmoid(dense(dense(x, 5, "a", tf.nn.relu), 1, "b"))
    t.minimize(1 - (2 * tf.reduce_sum(p * y) + 1) / (tf.reduce_sum(p) + tf.reduce_sum(y) + 1))


@graph
def correlation_loss(t):
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(dense(x, 5, "a", tf.tanh), 2, "b")
    p, y = p - tf.reduce_mean(p, 0), y - tf.reduce_mean(y, 0)
    r = tf.reduce_sum(p * y, 0) / tf.sqrt(tf.reduce_sum(p * p, 0) * tf.reduce_sum(y * y, 0) + 1e-6)
    t.minimize(1 - tf.reduce_mean(r), correlation=r)


@graph
def variance_loss(t):
    """R squared; the batch's own variance divides."""
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(x, 2, "a")
    _, var = tf.nn.moments(y, [0])
    t.minimize(tf.reduce_mean(tf.reduce_mean(tf.square(p - y), 0) / (var + 0.1)), variance=var)


@graph
def hsic(t):
    """A trace of products of centred kernel matrices: rows against rows."""
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(x, 3, "a", tf.tanh)

    def kernel(a):
        sq = tf.reduce_sum(a * a, 1)
        k = tf.exp(-(sq[:, None] - 2 * tf.matmul(a, a, transpose_b=True) + sq[None, :]))
        return k - tf.reduce_mean(k, 0, keepdims=True) - tf.reduce_mean(k, 1, keepdims=True) + tf.reduce_mean(k)

    t.minimize(-tf.reduce_mean(kernel(p) * kernel(y)) + 0.1 * tf.reduce_mean(tf.square(p)), 0.5)


@graph
def mmd(t):
    x, y = t.rows("x", X), t.rows("y", T)
    p = dense(dense(x, 5, "a", tf.tanh), 2, "b")

    def kernel(a, b):
        return tf.exp(-tf.reduce_sum(tf.math.squared_difference(a[:, None, :], b[None, :, :]), 2))

    t.minimize(tf.reduce_mean(kernel(p, p)) + tf.reduce_mean(kernel(y, y)) - 2 * tf.reduce_mean(kernel(p, y)), 0.5)


@graph
def simclr(t):
    """NT-Xent over two views of each row; the labels are range(batch)."""
    x = t.rows("x", X)

    def project(v):
        with v1.variable_scope("project", reuse=v1.AUTO_REUSE):
            return tf.nn.l2_normalize(dense(dense(v, 6, "a", tf.nn.relu), 4, "b"), 1)

    a, b = project(x), project(x * 0.9 + 0.05)
    n = tf.shape(x)[0]
    masks = tf.one_hot(tf.range(n), n)
    labels = tf.one_hot(tf.range(n), n * 2)
    aa = tf.matmul(a, a, transpose_b=True) / 0.5 - masks * 1e9
    bb = tf.matmul(b, b, transpose_b=True) / 0.5 - masks * 1e9
    ab, ba = tf.matmul(a, b, transpose_b=True) / 0.5, tf.matmul(b, a, transpose_b=True) / 0.5
    la = v1.losses.softmax_cross_entropy(labels, tf.concat([ab, aa], 1))
    lb = v1.losses.softmax_cross_entropy(labels, tf.concat([ba, bb], 1))
    t.minimize(la + lb)


@graph
def simclr_one_tensor(t):
    """The views are concatenated to one batch of twice the rows."""
    x = t.rows("x", X)
    z = tf.nn.l2_normalize(dense(dense(tf.concat([x, x * 0.9 + 0.05], 0), 6, "a", tf.nn.relu), 4, "b"), 1)
    n = tf.shape(x)[0]
    similar = tf.matmul(z, z, transpose_b=True) / 0.5
    similar -= tf.eye(2 * n) * 1e9
    labels = tf.concat([tf.range(n) + n, tf.range(n)], 0)
    t.minimize(cross_entropy(similar, labels))


@graph
def info_nce(t):
    """A two-tower model: in-batch negatives, sparse labels range(batch)."""
    user, item = t.rows("user", USER), t.rows("item", ITEM)
    u = tf.nn.embedding_lookup(variable("users", (12, 4)), user)
    v = tf.nn.embedding_lookup(variable("items", (15, 4)), item)
    logits = tf.matmul(u, v, transpose_b=True)
    labels = tf.range(tf.shape(logits)[0])
    t.minimize(cross_entropy(logits, labels), 0.5, optimizer=v1.train.AdagradOptimizer(0.3))


@graph
def clip_pairs(t):
    """Symmetric loss of CLIP with a learned temperature."""
    x, y = t.rows("x", X), t.rows("y", T)
    a, b = tf.nn.l2_normalize(dense(x, 4, "a"), -1), tf.nn.l2_normalize(dense(y, 4, "b"), -1)
    scale = v1.get_variable("scale", initializer=np.float32(1.0))
    logits = tf.exp(scale) * tf.matmul(a, b, transpose_b=True)
    labels = tf.range(tf.shape(x)[0])
    loss = (cross_entropy(logits, labels) + cross_entropy(tf.transpose(logits), labels)) / 2
    t.minimize(loss, mean_logit=tf.reduce_mean(logits))


@graph
def npairs(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    with v1.variable_scope("net") as scope:
        a = dense(x, 4, "a")
        scope.reuse_variables()
        p = dense(x + 0.1, 4, "a")
    same = tf.cast(tf.equal(y[:, None], y[None, :]), tf.float32)
    same /= tf.reduce_sum(same, 1, keepdims=True)
    logits = tf.matmul(a, p, transpose_a=False, transpose_b=True)
    l2 = tf.reduce_mean(tf.reduce_sum(tf.square(a), 1)) + tf.reduce_mean(tf.reduce_sum(tf.square(p), 1))
    t.minimize(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=same, logits=logits)) + 0.01 * l2, 0.05)


@graph
def triplet(t):
    a, p, n = t.rows("anchor", X), t.rows("positive", X[::-1].copy()), t.rows("negative", np.roll(X, 3, 0))

    def embed(v):
        with v1.variable_scope("embed", reuse=v1.AUTO_REUSE):
            return tf.nn.l2_normalize(dense(v, 4, "a"), 1)

    a, p, n = embed(a), embed(p), embed(n)
    d = tf.reduce_sum(tf.square(a - p), 1) - tf.reduce_sum(tf.square(a - n), 1) + 0.3
    t.minimize(tf.reduce_mean(tf.maximum(d, 0)), active=tf.reduce_mean(tf.cast(d > 0, tf.float32)))


@graph
def triplet_batch_hard(t):
    """Hardest positive and negative of the batch for each row."""
    x, y = t.rows("x", X), t.rows("y", Y)
    e = tf.nn.l2_normalize(dense(x, 4, "a"), 1)
    d = 2 - 2 * tf.matmul(e, e, transpose_b=True)
    same = tf.equal(tf.expand_dims(y, 0), tf.expand_dims(y, 1))
    positive = tf.reduce_max(tf.where(same, d, tf.zeros_like(d)), 1)
    negative = tf.reduce_min(tf.where(same, tf.ones_like(d) * 10, d), 1)
    t.minimize(tf.reduce_mean(tf.nn.softplus(positive - negative)))


@graph
def siamese(t):
    a, b, y = t.rows("a", X), t.rows("b", np.roll(X, 5, 0)), t.rows("y", BINARY[:, 0])

    def embed(v):
        with v1.variable_scope("embed", reuse=v1.AUTO_REUSE):
            return dense(dense(v, 6, "a", tf.nn.relu), 3, "b")

    d = tf.sqrt(tf.reduce_sum(tf.square(embed(a) - embed(b)), 1) + 1e-6)
    t.minimize(tf.reduce_mean(y * tf.square(d) + (1 - y) * tf.square(tf.maximum(1.0 - d, 0))), 0.05)


@graph
def prototypes(t):
    """Prototypical networks: class means of the batch by unsorted_segment_mean."""
    x, y = t.rows("x", X), t.rows("y", Y)
    e = dense(x, 4, "a", tf.tanh)
    centers = tf.math.unsorted_segment_mean(e, y, 4)
    d = tf.reduce_sum(tf.square(e[:, None, :] - centers[None, :, :]), 2)
    t.minimize(cross_entropy(-d, y), centers=centers)


@graph
def center_loss(t):
    """Centres are a variable, moved by scatter_sub of the batch's differences."""
    x, y = t.rows("x", X), t.rows("y", Y)
    h = dense(x, 4, "a", tf.tanh)
    centers = v1.get_variable("centers", [4, 4], initializer=v1.zeros_initializer(), trainable=False)
    mine = tf.gather(centers, y)
    loss = cross_entropy(dense(h, 4, "b"), y) + 0.1 * tf.nn.l2_loss(h - mine) / tf.cast(tf.shape(x)[0], tf.float32)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([train]):
        moved = v1.scatter_sub(centers, y, 0.1 * (mine - h))
    t.train(loss, moved)


@graph
def arcface(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    e = tf.nn.l2_normalize(dense(x, 5, "a"), 1)
    w = tf.nn.l2_normalize(variable("w", (5, 4)), 0)
    cos = tf.matmul(e, w)
    target = tf.one_hot(y, 4)
    logits = 4 * tf.where(target > 0, tf.cos(tf.acos(tf.clip_by_value(cos, -0.999, 0.999)) + 0.2), cos)
    t.minimize(cross_entropy(logits, y), 0.05)


@graph
def lifted_ranking(t):
    """All pairs of rows, ordered by their targets (RankNet)."""
    x, y = t.rows("x", X), t.rows("y", T[:, :1].copy())
    s = dense(dense(x, 5, "a", tf.tanh), 1, "b")
    d, sign = s - tf.transpose(s), tf.sign(y - tf.transpose(y))
    t.minimize(tf.reduce_mean(tf.nn.softplus(-d * sign) * tf.abs(sign)))


@graph
def listwise_softmax(t):
    """ListNet: a softmax over the batch."""
    x, y = t.rows("x", X), t.rows("y", T[:, 0].copy())
    s = dense(dense(x, 5, "a", tf.tanh), 1, "b", bias=False)[:, 0]
    t.minimize(-tf.reduce_sum(tf.nn.softmax(y) * tf.nn.log_softmax(s)))


@graph
def cox(t):
    """Partial likelihood: a cumulative logsumexp over the batch, sorted by time."""
    x, time = t.rows("x", X), t.rows("time", np.abs(T[:, 0]).copy())
    risk = dense(x, 1, "a", bias=False)[:, 0]
    order = tf.argsort(time, direction="DESCENDING")
    r = tf.gather(risk, order)
    t.minimize(-tf.reduce_mean(r - tf.math.log(tf.cumsum(tf.exp(r)))), 0.05)


@graph
def barlow_twins(t):
    """The cross-correlation matrix of the batch."""
    x = t.rows("x", X)

    def project(v):
        with v1.variable_scope("project", reuse=v1.AUTO_REUSE):
            z = dense(v, 4, "a", tf.tanh)
        z -= tf.reduce_mean(z, 0)
        return z / (tf.math.reduce_std(z, 0) + 1e-2)

    a, b = project(x), project(x + 0.3 * tf.sin(5 * x))
    c = tf.matmul(a, b, transpose_a=True) / tf.cast(tf.shape(x)[0], tf.float32)
    t.minimize(tf.reduce_sum(tf.square(tf.linalg.diag_part(c) - 1)) + 0.01 * tf.reduce_sum(tf.square(c)), 0.02, correlation=c)


@graph
def multi_task(t):
    x, y, z = t.rows("x", X), t.rows("y", Y), t.rows("z", T)
    h = dense(x, 6, "shared", tf.nn.relu)
    a, b = cross_entropy(dense(h, 4, "a"), y), tf.reduce_mean(tf.square(dense(h, 2, "b") - z))
    t.minimize(0.7 * a + 0.3 * b, a=a, b=b)


@graph
def multi_task_uncertainty(t):
    """Weights of the tasks are learned (Kendall)."""
    x, y, z = t.rows("x", X), t.rows("y", Y), t.rows("z", T)
    h = dense(x, 6, "shared", tf.nn.relu)
    a, b = cross_entropy(dense(h, 4, "a"), y), tf.reduce_mean(tf.square(dense(h, 2, "b") - z))
    sa, sb = (v1.get_variable(n, initializer=np.float32(0), use_resource=True) for n in ("sa", "sb"))
    loss = tf.exp(-sa) * a + sa + tf.exp(-sb) * b + sb
    t.minimize(loss, optimizer=v1.train.AdamOptimizer(0.01), before=[loss])


@graph
def distillation(t):
    x, y = t.rows("x", X), t.rows("y", Y)
    with v1.variable_scope("teacher"):
        soft = tf.nn.softmax(tf.stop_gradient(mlp(x, 8)) / 2.0)
    with v1.variable_scope("student"):
        logits = mlp(x, 3)
    loss = 0.5 * cross_entropy(logits, y) + 2.0 * tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=soft, logits=logits / 2.0))
    op = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, var_list=v1.trainable_variables("student"))
    t.train(loss, op)


@graph
def mean_teacher(t):
    """The teacher is a moving average of the student."""
    x, y = t.rows("x", X), t.rows("y", Y)
    with v1.variable_scope("student"):
        logits = mlp(x, 5)
    with v1.variable_scope("teacher"):
        soft = tf.stop_gradient(tf.nn.softmax(mlp(x + 0.1, 5)))
    student, teacher = v1.trainable_variables("student"), v1.trainable_variables("teacher")
    loss = cross_entropy(logits, y) + tf.reduce_mean(tf.square(tf.nn.softmax(logits) - soft))
    train = v1.train.AdamOptimizer(0.01).minimize(loss, var_list=student)
    with tf.control_dependencies([train]):
        ops = [v1.assign(b, 0.9 * b.read_value() + 0.1 * a.read_value()) for a, b in zip(student, teacher)]
    t.train(loss, *ops)

@graph
def ctc(t):
    seq, lengths = t.rows("seq", SEQ), t.rows("lengths", (LENGTH * 0 + 6).astype("i4"))
    labels = t.rows("labels", (TAGS[:, :2] + 1).astype("i4"))
    logits = tf.transpose(dense(dense(seq, 6, "a", tf.tanh), 5, "b"), [1, 0, 2])
    label_length = tf.fill([tf.shape(seq)[0]], 2)
    loss = tf.reduce_mean(tf.nn.ctc_loss(labels, logits, label_length, lengths, blank_index=0))
    t.minimize(loss, 0.05)




METRICS = {
    "accuracy": lambda y, p: v1.metrics.accuracy(y, p),
    "mean": lambda y, p: v1.metrics.mean(tf.cast(p, tf.float32)),
    "mean_squared_error": lambda y, p: v1.metrics.root_mean_squared_error(tf.cast(y, tf.float32), tf.cast(p, tf.float32)),
    "precision_recall": lambda y, p: v1.metrics.precision(y > 1, p > 1),
    "auc": lambda y, p: v1.metrics.auc(y > 1, tf.cast(p, tf.float32) / 4.0, num_thresholds=20),
    "mean_iou": lambda y, p: v1.metrics.mean_iou(y, p, 4),
    "per_class": lambda y, p: v1.metrics.mean_per_class_accuracy(y, p, 4),
}


def with_metric(name):
    def build(t):
        _, y, logits, loss = classifier(t)
        predicted = tf.argmax(logits, 1, output_type=tf.int32)
        _, update = METRICS[name](y, predicted)
        t.fetch(metric=update, predicted=predicted)
        t.train(loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss), update)

    return build


for _name in METRICS:
    graph(with_metric(_name), name="metrics_" + _name)


@graph
def metrics_weighted(t):
    """Updates of several metrics with weights, grouped with the training op."""
    _, y, logits, loss = classifier(t)
    w = t.rows("weight", WEIGHT)
    _, a = v1.metrics.accuracy(y, tf.argmax(logits, 1), weights=w)
    _, b = v1.metrics.recall(y > 0, tf.argmax(logits, 1) > 0, weights=w)
    _, c = v1.metrics.mean_tensor(tf.reduce_sum(tf.nn.softmax(logits), 0))
    t.fetch(a=a, b=b, c=c)
    t.train(loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss), a, b, c)
